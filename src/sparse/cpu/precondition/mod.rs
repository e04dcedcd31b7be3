//! Preconditioners for general matrices: z = M^-1 r and z = M^-T r by a thread team.
//!
//! Modules, each of which may use the modules before it in this list: `apply`, `jacobi`, `triangular` (triangular
//! solves of ssor, ic0 and ilu0), `neumann` (truncated Neumann series), `chebyshev`, `aggregated` (multigrid).

mod aggregated;
mod apply;
mod chebyshev;
mod jacobi;
mod neumann;
#[cfg(test)]
mod tests;
mod triangular;

pub use apply::PreconditionerRequirements;

use crate::aggregation::KeptAggregates;
use crate::base::csr::Csr;
use crate::base::heap::{FallibleArc, boxed};
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::{Team, TeamThread};
use crate::error::{Error, Result};
use crate::options::Preconditioner as Kind;
use crate::sparse::backend::Preconditioning;
use crate::sparse::cpu::levels::order_by_levels;
use crate::sparse::cpu::stages::ProcessingOrder;
use crate::sparse::{Factors, TriangularSplit, compute_factors, compute_factors_in_order};
use aggregated::AggregationPreconditioner;
use apply::{ALLOCATION_NAME, ApplyInverse};
use chebyshev::Chebyshev;
use jacobi::Jacobi;
use neumann::NeumannSeries;
use triangular::TriangularSolver;

/// M^-1 and, if requested, M^-T.
pub struct Preconditioner {
    inverse: Box<dyn ApplyInverse>,
    /// `None` if M is symmetric, or if M^-T was not requested.
    transposed: Option<Box<dyn ApplyInverse>>,
}

impl Preconditioner {
    /// Computes `z` = M^-1 `r`, or `z` = M^-T `r`, under the conditions of [`ApplyInverse::apply`].
    pub fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared, transposed: bool) {
        let transposed = self.transposed.as_deref().filter(|_| transposed);
        transposed.unwrap_or(&*self.inverse).apply(thread, r, z);
    }

    /// Returns the aggregates of multigrid for reuse with the next matrix; none for other preconditioners.
    pub fn into_kept_aggregates(self) -> KeptAggregates {
        self.inverse.into_kept_aggregates()
    }

    pub fn is_linear(&self) -> bool {
        self.inverse.is_linear()
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.inverse.bytes() + self.transposed.as_ref().map_or(0, |m| m.bytes())
    }
}

/// Result of the setup of a preconditioner.
#[derive(Default)]
pub struct PreconditionerSetup {
    /// `None` means M = I.
    pub preconditioner: Option<Preconditioner>,
    /// Shift of ic0.
    pub shift: f64,
    /// Row and value of the nonpositive pivot for which ic0 needed a shift; `None` if no shift was needed.
    pub nonpositive_pivot: Option<(usize, f64)>,
    /// Number of levels of the triangular solves.
    pub level_count: usize,
    /// Number of colours if the levels are colours, otherwise 0.
    pub colour_count: usize,
    /// Number of aggregates of multigrid that were reused from the previous matrix.
    pub reused_aggregate_count: usize,
}

impl PreconditionerSetup {
    fn of(inverse: impl ApplyInverse + 'static, transposed: Option<Box<dyn ApplyInverse>>) -> Result<Self> {
        Ok(Self {
            preconditioner: Some(Preconditioner { inverse: boxed(inverse, ALLOCATION_NAME)?, transposed }),
            ..Self::default()
        })
    }
}

/// Sets up M for a square matrix. `kept_aggregates` are the aggregates of the previous matrix. Multigrid reuses those
/// that pass its quality test.
pub fn make_preconditioner<I: Index>(
    a: &Csr<I>,
    preconditioning: &Preconditioning,
    requirements: &PreconditionerRequirements,
    kept_aggregates: KeptAggregates,
    team: &mut Team,
) -> Result<PreconditionerSetup> {
    if a.rows() != a.cols {
        let size_message = format!("a preconditioner needs a square matrix, got {} rows and", a.rows());
        return Err(Error::Dimension(format!("{size_message} {} columns", a.cols)));
    }
    if requirements.stores_in_f32 {
        make_with_type::<I, f32>(a, preconditioning, requirements, kept_aggregates, team)
    } else {
        make_with_type::<I, f64>(a, preconditioning, requirements, kept_aggregates, team)
    }
}

/// Sets up M with entries of type V.
fn make_with_type<I: Index, V: Real + Number>(
    a: &Csr<I>,
    preconditioning: &Preconditioning,
    requirements: &PreconditionerRequirements,
    kept_aggregates: KeptAggregates,
    team: &mut Team,
) -> Result<PreconditionerSetup> {
    match preconditioning.kind {
        Kind::Jacobi if preconditioning.absolute_diagonal => PreconditionerSetup::of(Jacobi::new(a, f64::abs)?, None),
        Kind::Jacobi => PreconditionerSetup::of(Jacobi::new(a, |d| d)?, None),
        Kind::Ssor | Kind::Ilu0 | Kind::Ic0 => make_triangular::<I, V>(a, preconditioning, requirements, team),
        Kind::Neumann => {
            let split = TriangularSplit::from_triangles(a)?;
            let make_series = |split| NeumannSeries::<I, V>::new(split, preconditioning.series_order);
            let transposed = make_transposed(&split, requirements, requirements.is_symmetric, make_series)?;
            PreconditionerSetup::of(make_series(split)?, transposed)
        }
        Kind::Amg => {
            let preconditioner = AggregationPreconditioner::<V>::new(a, kept_aggregates, team.threads())?;
            Ok(PreconditionerSetup {
                reused_aggregate_count: preconditioner.reused_aggregate_count(),
                ..PreconditionerSetup::of(preconditioner, None)?
            })
        }
        Kind::Chebyshev => {
            let preconditioner = Chebyshev::<I, V>::new(a, preconditioning.degree, requirements.is_symmetric)?;
            let transposed: Option<Box<dyn ApplyInverse>> =
                match requirements.needs_transpose && !requirements.is_symmetric {
                    true => Some(boxed(preconditioner.transposed(a)?, ALLOCATION_NAME)?),
                    false => None,
                };
            PreconditionerSetup::of(preconditioner, transposed)
        }
        // `Plan` never contains `Auto`. `Ric` and `Multigrid` are not choices of this family.
        Kind::None | Kind::Auto | Kind::Ric | Kind::Multigrid => Ok(PreconditionerSetup::default()),
    }
}

/// Sets up ssor, ilu0 or ic0: M is a product of two triangular factors and a diagonal.
fn make_triangular<I: Index, V: Real + Number>(
    a: &Csr<I>,
    preconditioning: &Preconditioning,
    requirements: &PreconditionerRequirements,
    team: &mut Team,
) -> Result<PreconditionerSetup> {
    let (order, factors) = if preconditioning.is_multicolour {
        let order = ProcessingOrder::by_colours(a)?;
        let factors = compute_factors_in_order(a, &order.rows, preconditioning)?;
        (order, factors)
    } else {
        let threads = team.threads();
        let (order, factors) = team.run_both(|| order_by_levels(a, threads), || compute_factors(a, preconditioning))?;
        (order?, factors?)
    };
    let (order, Factors { split, shift, nonpositive_pivot }) = (FallibleArc::new(order, ALLOCATION_NAME)?, factors);
    let is_symmetric = preconditioning.is_symmetric(requirements.is_symmetric);
    let transposed = make_transposed(&split, requirements, is_symmetric, |split| {
        TriangularSolver::<I, V>::new(&order, split, &mut *team)
    })?;
    let preconditioner = TriangularSolver::<I, V>::new(&order, split, team)?;
    let level_count = preconditioner.level_count();
    let colour_count = if preconditioning.is_multicolour { level_count } else { 0 };
    Ok(PreconditionerSetup {
        level_count,
        colour_count,
        shift,
        nonpositive_pivot,
        ..PreconditionerSetup::of(preconditioner, transposed)?
    })
}

/// Calls `make_inverse` with the transposed splitting. Returns `None` if M^-T is not requested, or if M is symmetric.
fn make_transposed<I: Index, M: ApplyInverse + 'static>(
    split: &TriangularSplit<I>,
    requirements: &PreconditionerRequirements,
    is_symmetric: bool,
    make_inverse: impl FnOnce(TriangularSplit<I>) -> Result<M>,
) -> Result<Option<Box<dyn ApplyInverse>>> {
    if !requirements.needs_transpose || is_symmetric {
        return Ok(None);
    }
    Ok(Some(boxed(make_inverse(split.transposed()?)?, ALLOCATION_NAME)?))
}
