//! Preconditioners for general matrices: z = M^-1 r and z = M^-T r by a thread team.
//!
//! Modules, each of which may use the previous ones: `apply`, `jacobi`, `triangular` (triangular solves of ssor, ic0
//! and ilu0), `truncated` (Neumann series), `chebyshev`, `aggregated` (multigrid).

mod aggregated;
mod apply;
mod chebyshev;
mod jacobi;
#[cfg(test)]
mod tests;
mod triangular;
mod truncated;

pub use apply::Purpose;

use crate::aggregation::KeptAggregates;
use crate::base::csr::Csr;
use crate::base::heap::{Counted, boxed};
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::{Team, TeamThread};
use crate::error::{Error, Result};
use crate::options::Preconditioner as Kind;
use crate::sparse::backend::Preconditioning;
use crate::sparse::cpu::levels::by_levels;
use crate::sparse::cpu::stages::Order;
use crate::sparse::{Factors, Split, factors, factors_in_order};
use aggregated::Aggregated;
use apply::{Apply, WHAT};
use chebyshev::Chebyshev;
use jacobi::Jacobi;
use triangular::TriangularSolver;
use truncated::NeumannSeries;

/// M^-1 and, if requested, M^-T.
pub struct Preconditioner {
    own: Box<dyn Apply>,
    /// `None` if M is symmetric, or if M^-T was not requested.
    transposed: Option<Box<dyn Apply>>,
}

impl Preconditioner {
    /// Computes `to` = M^-1 `from`, or `to` = M^-T `from`, under the conditions of [`Apply::apply`].
    pub fn apply(&self, me: &TeamThread, from: &Shared, to: &Shared, transposed: bool) {
        let other = self.transposed.as_deref().filter(|_| transposed);
        other.unwrap_or(&*self.own).apply(me, from, to);
    }

    /// Returns the aggregates for reuse with the next matrix.
    pub fn into_kept(self) -> KeptAggregates {
        self.own.into_kept()
    }

    pub fn is_linear(&self) -> bool {
        self.own.is_linear()
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.own.bytes() + self.transposed.as_ref().map_or(0, |m| m.bytes())
    }
}

/// Result of the setup of a preconditioner.
#[derive(Default)]
pub struct PreconditionerSetup {
    /// `None` means M = I.
    pub precondition: Option<Preconditioner>,
    /// Shift of ic0.
    pub shift: f64,
    /// Row and value of the nonpositive pivot that made the shift necessary.
    pub pivot: Option<(usize, f64)>,
    /// Number of levels of the triangular solves.
    pub levels: usize,
    /// Number of colours if the levels are colours, otherwise 0.
    pub colours: usize,
    /// Number of aggregates reused from the previous matrix.
    pub aggregates_kept: usize,
}

impl PreconditionerSetup {
    fn of(own: impl Apply + 'static, transposed: Option<Box<dyn Apply>>) -> Result<Self> {
        Ok(Self { precondition: Some(Preconditioner { own: boxed(own, WHAT)?, transposed }), ..Self::default() })
    }
}

/// Sets up M for a square matrix; reuses the previous aggregates `kept` if they pass the quality test.
pub fn make<I: Index>(
    a: &Csr<I>,
    wanted: &Preconditioning,
    purpose: &Purpose,
    kept: KeptAggregates,
    team: &mut Team,
) -> Result<PreconditionerSetup> {
    if a.rows() != a.cols {
        let extents = format!("a preconditioner needs a square matrix, got {} rows and", a.rows());
        return Err(Error::Dimension(format!("{extents} {} columns", a.cols)));
    }
    if purpose.f32_values {
        make_of::<I, f32>(a, wanted, purpose, kept, team)
    } else {
        make_of::<I, f64>(a, wanted, purpose, kept, team)
    }
}

/// Sets up M with entries of type V.
fn make_of<I: Index, V: Real + Number>(
    a: &Csr<I>,
    wanted: &Preconditioning,
    purpose: &Purpose,
    kept: KeptAggregates,
    team: &mut Team,
) -> Result<PreconditionerSetup> {
    match wanted.kind {
        Kind::Jacobi if wanted.absolute => PreconditionerSetup::of(Jacobi::new(a, f64::abs)?, None),
        Kind::Jacobi => PreconditionerSetup::of(Jacobi::new(a, |d| d)?, None),
        Kind::Ssor | Kind::Ilu0 | Kind::Ic0 => make_triangular::<I, V>(a, wanted, purpose, team),
        Kind::Neumann => {
            let split = Split::of_triangles(a)?;
            let make = |split| NeumannSeries::<I, V>::new(split, wanted.order);
            let transposed = of_transposed(&split, purpose, purpose.symmetric, make)?;
            PreconditionerSetup::of(make(split)?, transposed)
        }
        Kind::Amg => {
            let own = Aggregated::<V>::new(a, kept, team.threads())?;
            Ok(PreconditionerSetup { aggregates_kept: own.aggregates_kept(), ..PreconditionerSetup::of(own, None)? })
        }
        Kind::Chebyshev => {
            let own = Chebyshev::<I, V>::new(a, wanted.degree, purpose.symmetric)?;
            let transposed: Option<Box<dyn Apply>> = match purpose.transposes && !purpose.symmetric {
                true => Some(boxed(own.transposed(a)?, WHAT)?),
                false => None,
            };
            PreconditionerSetup::of(own, transposed)
        }
        // The plan has replaced `auto`. `Ric` and `Multigrid` are not choices of this family.
        Kind::None | Kind::Auto | Kind::Ric | Kind::Multigrid => Ok(PreconditionerSetup::default()),
    }
}

/// Sets up M as a product of two triangular factors and a diagonal.
fn make_triangular<I: Index, V: Real + Number>(
    a: &Csr<I>,
    wanted: &Preconditioning,
    purpose: &Purpose,
    team: &mut Team,
) -> Result<PreconditionerSetup> {
    let (order, factors) = if wanted.multicolour {
        let order = Order::by_colours(a)?;
        let factors = factors_in_order(a, &order.rows, wanted)?;
        (order, factors)
    } else {
        let threads = team.threads();
        let (order, factors) = team.run_both(|| by_levels(a, threads), || factors(a, wanted))?;
        (order?, factors?)
    };
    let (order, Factors { split, shift, pivot }) = (Counted::new(order, WHAT)?, factors);
    let symmetric = wanted.is_symmetric(purpose.symmetric);
    let transposed =
        of_transposed(&split, purpose, symmetric, |split| TriangularSolver::<I, V>::new(&order, split, &mut *team))?;
    let own = TriangularSolver::<I, V>::new(&order, split, team)?;
    let levels = own.levels();
    let colours = if wanted.multicolour { levels } else { 0 };
    Ok(PreconditionerSetup { levels, colours, shift, pivot, ..PreconditionerSetup::of(own, transposed)? })
}

/// Calls `make` with the transposed splitting, if M^-T is requested and differs from M^-1.
fn of_transposed<I: Index, M: Apply + 'static>(
    split: &Split<I>,
    purpose: &Purpose,
    symmetric: bool,
    make: impl FnOnce(Split<I>) -> Result<M>,
) -> Result<Option<Box<dyn Apply>>> {
    if !purpose.transposes || symmetric {
        return Ok(None);
    }
    Ok(Some(boxed(make(split.transposed()?)?, WHAT)?))
}
