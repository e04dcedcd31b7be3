//! Preconditioners whose application is not fused with the passes of PCG.

use super::cell::{CellMultigrid, PassSteps};
use super::field::Field;
use super::incomplete::Incomplete;
use super::vertex::VertexMultigrid;
use crate::aggregation::cpu::{CoarseMethod, Cycle};
use crate::aggregation::{AggregationRules, COARSEST_ROWS, CycleParameters, Hierarchy, KeptAggregates, OrderedRows};
use crate::base::number::{Real, power_of_two_below};
use crate::base::shared::Number;
use crate::base::team::{Team, TeamThread};
use crate::base::workers::Workers;
use crate::direct::couplings::Couplings;
use crate::dpcg::backend::Preconditioner;
use crate::error::Result;
use crate::stencil::cells::{Cells, SevenPoints};

/// A preconditioner whose application is not fused with the passes of PCG.
pub enum UnfusedPreconditioner {
    /// An incomplete Cholesky factorization.
    Incomplete(Incomplete),
    /// Multigrid with vertex coarsening; single precision.
    Vertex32(VertexMultigrid<f32>),
    /// Multigrid with vertex coarsening; double precision.
    Vertex64(VertexMultigrid<f64>),
    /// Multigrid with cell coarsening; coarse grids in single precision.
    Cell32(CellMultigrid<f32>),
    /// Multigrid with cell coarsening; double precision.
    Cell64(CellMultigrid<f64>),
    /// Multigrid by aggregation; single precision.
    Aggregates32(Cycle<f32>),
    /// Multigrid by aggregation; double precision.
    Aggregates64(Cycle<f64>),
}

/// State of a thread for the applications of the preconditioner in a run: the steps of the multigrid passes, and the
/// number of applications.
pub struct ApplicationCounts<'a> {
    pass_steps: PassSteps<'a>,
    application_count: usize,
}

impl<'a> ApplicationCounts<'a> {
    /// Starts a run: no steps, and no applications.
    pub fn new(thread: TeamThread<'a>) -> Self {
        Self { pass_steps: PassSteps::new(thread), application_count: 0 }
    }
}

impl UnfusedPreconditioner {
    /// Computes the preconditioner of a matrix. Returns `None` for the preconditioners `None`, `Jacobi` and `Neumann`,
    /// which need no data of their own. With vertex coarsening, reuses the memory of `previous` if it fits. With
    /// aggregation, reuses the aggregates of `previous`.
    pub fn compute(
        previous: Option<Self>,
        preconditioner: Preconditioner,
        a: &SevenPoints,
        team: &mut Team,
    ) -> Result<Option<Self>> {
        let mut kept_aggregates = KeptAggregates::default();
        let previous = match preconditioner {
            Preconditioner::Multigrid { is_vertex_centered: true, .. } => previous,
            // The previous preconditioner, except its aggregates, is freed before a new one is allocated.
            _ => {
                kept_aggregates = previous.map(Self::into_kept_aggregates).unwrap_or_default();
                None
            }
        };
        Ok(Some(match preconditioner {
            Preconditioner::Incomplete { omega } => Self::Incomplete(Incomplete::factorize(a, omega)?),
            Preconditioner::Multigrid { is_vertex_centered: true, sweeps, is_single_precision, .. } => {
                build_vertex_multigrid(previous, (a.cells, sweeps), is_single_precision, a, team)?
            }
            Preconditioner::Multigrid { sweeps, max_coarsest_cells, is_single_precision: true, .. } => {
                Self::Cell32(CellMultigrid::new(a, sweeps, max_coarsest_cells)?)
            }
            Preconditioner::Multigrid { sweeps, max_coarsest_cells, .. } => {
                Self::Cell64(CellMultigrid::new(a, sweeps, max_coarsest_cells)?)
            }
            Preconditioner::Aggregation { pairing_passes, is_single_precision: true, zero_row_sum } => {
                Self::Aggregates32(build_aggregation((a, zero_row_sum), pairing_passes, kept_aggregates, team)?)
            }
            Preconditioner::Aggregation { pairing_passes, zero_row_sum, .. } => {
                Self::Aggregates64(build_aggregation((a, zero_row_sum), pairing_passes, kept_aggregates, team)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Computes z = M^-1 r. All threads must call this function. `norm` is |r|. Returns <r, z> if the preconditioner
    /// computes <r, z> without an additional pass over memory.
    ///
    /// # Safety
    /// From the barrier before this call to the end of the call, no thread may write r, and no other code may use z.
    pub unsafe fn apply(
        &self,
        counts: &mut ApplicationCounts,
        thread: TeamThread,
        a: &SevenPoints,
        (r, z): (&Field, &Field),
        norm: f64,
    ) -> Option<f64> {
        let all_cells = 0..a.cells.count();
        counts.application_count += 1;
        let application_index = counts.application_count - 1;
        // SAFETY: guaranteed by the caller; each thread requests only its own cells of z.
        unsafe {
            match self {
                Self::Vertex32(multigrid) => {
                    return Some(multigrid.apply(thread, r.slice(&all_cells), norm, |cells| z.slice_mut(&cells)));
                }
                Self::Vertex64(multigrid) => {
                    return Some(multigrid.apply(thread, r.slice(&all_cells), norm, |cells| z.slice_mut(&cells)));
                }
                Self::Incomplete(incomplete) => incomplete.apply(thread, application_index, a, r, z),
                Self::Cell32(multigrid) => multigrid.apply(&counts.pass_steps, a, r, z, norm),
                Self::Cell64(multigrid) => multigrid.apply(&counts.pass_steps, a, r, z, norm),
                Self::Aggregates32(cycle) => apply_cycle(cycle, &thread, r.slice(&all_cells), z),
                Self::Aggregates64(cycle) => apply_cycle(cycle, &thread, r.slice(&all_cells), z),
            }
        }
        None
    }

    /// Returns the aggregates for reuse with the next matrix.
    fn into_kept_aggregates(self) -> KeptAggregates {
        match self {
            Self::Aggregates32(cycle) => cycle.into_kept_aggregates(),
            Self::Aggregates64(cycle) => cycle.into_kept_aggregates(),
            _ => KeptAggregates::default(),
        }
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        match self {
            Self::Aggregates32(cycle) => cycle.reused_aggregate_count(),
            Self::Aggregates64(cycle) => cycle.reused_aggregate_count(),
            _ => 0,
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Incomplete(incomplete) => incomplete.bytes(),
            Self::Vertex32(multigrid) => multigrid.bytes(),
            Self::Vertex64(multigrid) => multigrid.bytes(),
            Self::Cell32(multigrid) => multigrid.bytes(),
            Self::Cell64(multigrid) => multigrid.bytes(),
            Self::Aggregates32(cycle) => cycle.bytes(),
            Self::Aggregates64(cycle) => cycle.bytes(),
        }
    }
}

fn build_aggregation<V: Real + Number>(
    (a, zero_row_sum): (&SevenPoints, f64),
    pairing_passes: usize,
    kept_aggregates: KeptAggregates,
    team: &Team,
) -> Result<Cycle<V>> {
    let scale = power_of_two_below(a.center.iter().fold(0.0, |maximum: f64, center| maximum.max(*center))).recip();
    let workers = &mut Workers::new(team.threads());
    let couplings = Couplings::of_cells(a, scale, zero_row_sum)?;
    let hierarchy = Hierarchy::reusing_aggregates(
        couplings,
        scale,
        &AggregationRules::with_passes(pairing_passes),
        (COARSEST_ROWS, kept_aggregates),
        workers,
    )?;
    let colours = (0..a.cells.count()).map(|cell| (a.cells.indices(cell).iter().sum::<usize>() % 2) as u32);
    Cycle::keeping_aggregates(
        hierarchy,
        &CycleParameters::PARALLEL,
        Some(OrderedRows::from_colours::<2>(colours)?),
        workers,
    )
}

/// Computes z = M^-1 r, one cycle of multigrid by aggregation.
///
/// # Safety
/// The conditions of [`UnfusedPreconditioner::apply`] must hold.
unsafe fn apply_cycle<V: Real + Number>(cycle: &Cycle<V>, thread: &TeamThread, r: &[f64], z: &Field) {
    // SAFETY: guaranteed by the caller; the cycle assigns each cell to one thread.
    let store_z = |i: usize, value: f64| unsafe { z.slice_mut(&(i..i + 1))[0] = value };
    cycle.apply(thread, CoarseMethod::FlexibleCg, |i| r[i], store_z);
}

fn build_vertex_multigrid(
    previous: Option<UnfusedPreconditioner>,
    (cells, sweeps): (Cells, usize),
    is_single_precision: bool,
    a: &SevenPoints,
    team: &mut Team,
) -> Result<UnfusedPreconditioner> {
    let threads = team.threads();
    let mut preconditioner = match previous {
        Some(UnfusedPreconditioner::Vertex32(multigrid))
            if is_single_precision && multigrid.fits(cells, sweeps, threads) =>
        {
            UnfusedPreconditioner::Vertex32(multigrid)
        }
        Some(UnfusedPreconditioner::Vertex64(multigrid))
            if !is_single_precision && multigrid.fits(cells, sweeps, threads) =>
        {
            UnfusedPreconditioner::Vertex64(multigrid)
        }
        previous => {
            // The previous preconditioner is freed before a new one is allocated.
            drop(previous);
            match is_single_precision {
                true => UnfusedPreconditioner::Vertex32(VertexMultigrid::new(cells, sweeps, threads)?),
                false => UnfusedPreconditioner::Vertex64(VertexMultigrid::new(cells, sweeps, threads)?),
            }
        }
    };
    match &mut preconditioner {
        UnfusedPreconditioner::Vertex32(multigrid) => multigrid.compute_grids(team, a)?,
        UnfusedPreconditioner::Vertex64(multigrid) => multigrid.compute_grids(team, a)?,
        _ => {}
    }
    Ok(preconditioner)
}
