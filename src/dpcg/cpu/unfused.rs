//! Preconditioners whose application is not fused with the passes of PCG.

use super::cell::{CellMultigrid, StepCounter};
use super::field::Field;
use super::incomplete::Incomplete;
use super::vertex::VertexMultigrid;
use crate::aggregation::cpu::{CoarseMethod, Cycle};
use crate::aggregation::{COARSEST, CycleParameters, Hierarchy, KeptAggregates, Ordered, Rules};
use crate::base::number::{Real, power_of_two_below};
use crate::base::shared::Number;
use crate::base::team::{Me, Team};
use crate::base::workers::Workers;
use crate::direct::couplings::Couplings;
use crate::dpcg::backend::Preconditioner;
use crate::error::Result;
use crate::stencil::cells::{Cells, SevenPoints};

/// A preconditioner whose application is not fused with the passes of PCG.
pub enum UnfusedPreconditioner {
    /// An incomplete Cholesky factorization.
    Incomplete(Incomplete),
    /// Multigrid with vertex coarsening; coarse grids in single precision.
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

/// Counters of a thread for all applications of the preconditioner in a run.
pub struct ApplicationCounts<'a> {
    counter: StepCounter<'a>,
    count: usize,
}

impl<'a> ApplicationCounts<'a> {
    /// Starts the counters of a run at zero.
    pub fn new(me: Me<'a>) -> Self {
        Self { counter: StepCounter::new(me), count: 0 }
    }
}

impl UnfusedPreconditioner {
    /// Computes the preconditioner of a matrix. The result is `None` for the preconditioners `None`, `Jacobi` and
    /// `Neumann`, which need no such data. With vertex coarsening, reuses the memory of `previous` if it fits. With
    /// aggregation, reuses the aggregates of `previous`.
    pub fn make(
        previous: Option<Self>,
        preconditioner: Preconditioner,
        a: &SevenPoints,
        team: &mut Team,
    ) -> Result<Option<Self>> {
        let mut kept = KeptAggregates::default();
        let previous = match preconditioner {
            Preconditioner::Multigrid { vertex: true, .. } => previous,
            // The previous preconditioner, except its aggregates, is freed before a new one is allocated.
            _ => {
                kept = previous.map(Self::into_kept).unwrap_or_default();
                None
            }
        };
        Ok(Some(match preconditioner {
            Preconditioner::Incomplete { omega } => Self::Incomplete(Incomplete::factorize(a, omega)?),
            Preconditioner::Multigrid { vertex: true, sweeps, single, .. } => {
                vertex(previous, (a.cells, sweeps), single, a, team)?
            }
            Preconditioner::Multigrid { sweeps, coarsest, single: true, .. } => {
                Self::Cell32(CellMultigrid::new(a, sweeps, coarsest)?)
            }
            Preconditioner::Multigrid { sweeps, coarsest, .. } => {
                Self::Cell64(CellMultigrid::new(a, sweeps, coarsest)?)
            }
            Preconditioner::Aggregation { passes, single: true, zero_row_sum } => {
                Self::Aggregates32(aggregated((a, zero_row_sum), passes, kept, team)?)
            }
            Preconditioner::Aggregation { passes, zero_row_sum, .. } => {
                Self::Aggregates64(aggregated((a, zero_row_sum), passes, kept, team)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Computes z = M^-1 r. All threads must call this function. `norm` is |r|. Returns <r, z> if it can be computed
    /// without an additional pass.
    ///
    /// # Safety
    /// From the barrier before this call to the end of the call, no thread may write r, and no other code may use z.
    pub unsafe fn apply(
        &self,
        applications: &mut ApplicationCounts,
        me: Me,
        a: &SevenPoints,
        (r, z): (&Field, &Field),
        norm: f64,
    ) -> Option<f64> {
        let all = 0..a.cells.count();
        applications.count += 1;
        let turn = applications.count - 1;
        // SAFETY: guaranteed by the caller; each thread requests only its own cells of z.
        unsafe {
            match self {
                Self::Vertex32(grids) => {
                    return Some(grids.apply(me, r.range(&all), norm, |cells| z.range_mut(&cells)));
                }
                Self::Vertex64(grids) => {
                    return Some(grids.apply(me, r.range(&all), norm, |cells| z.range_mut(&cells)));
                }
                Self::Incomplete(incomplete) => incomplete.apply(me, turn, a, r, z),
                Self::Cell32(grids) => grids.apply(&applications.counter, a, r, z, norm),
                Self::Cell64(grids) => grids.apply(&applications.counter, a, r, z, norm),
                Self::Aggregates32(cycle) => apply(cycle, &me, r.range(&all), z),
                Self::Aggregates64(cycle) => apply(cycle, &me, r.range(&all), z),
            }
        }
        None
    }

    /// Returns the aggregates for reuse with the next matrix.
    fn into_kept(self) -> KeptAggregates {
        match self {
            Self::Aggregates32(cycle) => cycle.into_kept(),
            Self::Aggregates64(cycle) => cycle.into_kept(),
            _ => KeptAggregates::default(),
        }
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        match self {
            Self::Aggregates32(cycle) => cycle.aggregates_kept(),
            Self::Aggregates64(cycle) => cycle.aggregates_kept(),
            _ => 0,
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Incomplete(incomplete) => incomplete.bytes(),
            Self::Vertex32(grids) => grids.bytes(),
            Self::Vertex64(grids) => grids.bytes(),
            Self::Cell32(grids) => grids.bytes(),
            Self::Cell64(grids) => grids.bytes(),
            Self::Aggregates32(cycle) => cycle.bytes(),
            Self::Aggregates64(cycle) => cycle.bytes(),
        }
    }
}

fn aggregated<V: Real + Number>(
    (a, zero_row_sum): (&SevenPoints, f64),
    passes: usize,
    kept: KeptAggregates,
    team: &Team,
) -> Result<Cycle<V>> {
    let scale = power_of_two_below(a.center.iter().fold(0.0, |most: f64, center| most.max(*center))).recip();
    let workers = &mut Workers::new(team.members());
    let couplings = Couplings::of_cells(a, scale, zero_row_sum)?;
    let hierarchy = Hierarchy::reusing(couplings, scale, &Rules::passes(passes), (COARSEST, kept), workers)?;
    let colours = (0..a.cells.count()).map(|cell| (a.cells.indices(cell).iter().sum::<usize>() % 2) as u32);
    Cycle::keeping_aggregates(hierarchy, &CycleParameters::PARALLEL, Some(Ordered::coloured::<2>(colours)?), workers)
}

/// Computes z = M^-1 r, one cycle of multigrid by aggregation.
///
/// # Safety
/// The conditions of [`UnfusedPreconditioner::apply`] must hold.
unsafe fn apply<V: Real + Number>(cycle: &Cycle<V>, me: &Me, r: &[f64], z: &Field) {
    // SAFETY: guaranteed by the caller; the cycle assigns each cell to one thread.
    let to = |i: usize, value: f64| unsafe { z.range_mut(&(i..i + 1))[0] = value };
    cycle.apply(me, CoarseMethod::Flexible, |i| r[i], to);
}

fn vertex(
    previous: Option<UnfusedPreconditioner>,
    (cells, sweeps): (Cells, usize),
    single: bool,
    a: &SevenPoints,
    team: &mut Team,
) -> Result<UnfusedPreconditioner> {
    let members = team.members();
    let mut made = match previous {
        Some(UnfusedPreconditioner::Vertex32(grids)) if single && grids.fits(cells, sweeps, members) => {
            UnfusedPreconditioner::Vertex32(grids)
        }
        Some(UnfusedPreconditioner::Vertex64(grids)) if !single && grids.fits(cells, sweeps, members) => {
            UnfusedPreconditioner::Vertex64(grids)
        }
        other => {
            // The previous preconditioner is freed before a new one is allocated.
            drop(other);
            match single {
                true => UnfusedPreconditioner::Vertex32(VertexMultigrid::new(cells, sweeps, members)?),
                false => UnfusedPreconditioner::Vertex64(VertexMultigrid::new(cells, sweeps, members)?),
            }
        }
    };
    match &mut made {
        UnfusedPreconditioner::Vertex32(grids) => grids.setup(team, a)?,
        UnfusedPreconditioner::Vertex64(grids) => grids.setup(team, a)?,
        _ => {}
    }
    Ok(made)
}
