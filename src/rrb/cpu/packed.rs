//! Data of a factorization on the `cpu` backend: the matrix, the levels on grids stored by colour, the coarser levels
//! in natural storage, and the vectors of CG.

use super::aggregated::AggregationCycle;
use super::couplings::CouplingSource;
use super::levels::{PackedGrid, RowBuffers, SharedVectors};
use super::neighbours::{AxisCouplings, CornerCouplings};
use super::number::Format;
use super::projection;
use super::ranks::{CompleteRows, Halo, InputExchange, MatrixHalo, RankExchanges, SumExchange};
use super::system::{MIN_TEAM_NODES, Matrix, PackedShape, SchurComplement};
use crate::aggregation::KeptAggregates;
use crate::base::heap::boxed;
use crate::base::number::power_of_two_below;
use crate::base::reduce::{OtherRanks, Partials, max_abs};
use crate::base::team::TeamThread;
use crate::error::{Error, Result, collected, push, reserve, zeroed};
use crate::krylov::cpu::means::SingularComponents;
use crate::krylov::cpu::observed::SharedRunState;
use crate::rrb::backend::{Aggregation, FivePointMatrix, Setup};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::load_matrix_row;
use crate::rrb::domain::Domain;
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::natural::NaturalLevels;
use crate::rrb::recursion::{CycleKind, Recursion};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::levels::{Embedding, Grid};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Border of a scratch row on either side, in values. Loops read one value beyond either end of a row.
pub const SCRATCH_BORDER: usize = 8;

/// Number of unused values between two scratch rows of the factorization. Without them, rows whose length is a multiple
/// of 4096 bytes would begin at equal addresses modulo 4096. A load would then wait for stores to the same column of
/// other rows.
pub const SCRATCH_GAP: usize = 56;

/// Number of scratch rows per thread. The fused start of a solve uses 11 rows: four red rows in `for_black_rows`, and
/// seven rows in `iteration::solve` (two of b1, two of r2, one of r1, one of b2, one result). The factorization needs
/// at most nine scratch rows, which it uses to compute a row of the next grid.
const SCRATCH_ROWS: usize = 11;

/// Returns the vector z of the first grid, stored in the memory of the CG vector q. Returns `None`, so that z gets its
/// own memory, if CG runs on S1, if M is built by aggregation, or if q and z have different number types.
///
/// The steps of CG use q and z alternately. `multiply` writes q, and the update r = r - alpha q reads q. Then
/// `precondition` writes z, and the update of p reads z before the next `multiply`. In these steps, each thread
/// accesses its own rows only. Other threads read rows of z in the sweeps only, and the sum at the end of
/// `precondition` waits for all sweeps. Padding and border of both vectors are zero. The estimates of eigenvalue bounds
/// use z on coarser grids only.
///
/// Two cases need q and z at the same time: the fused stages of an iteration, which exist for S1 only, and the flexible
/// beta of aggregation.
fn z_in_q<F: Format>(shape: &PackedShape, q: &FourColours<F::Vector>) -> Option<FourColours<F::Real>> {
    if shape.uses_schur || shape.uses_aggregation { None } else { q.of_type() }
}

/// Name of the memory in error messages about failed allocations.
const SCRATCH_ALLOCATION: &str = "rows of scratch space";

/// Creates the halos of the distributed grids and the plans of all exchanges between ranks.
fn plan_rank_exchanges<F: Format>(
    domain: &Domain,
    grids: &mut [PackedGrid<F>],
    rho_start: &[usize],
    section_starts: &[usize],
) -> Result<RankExchanges> {
    const RANKS_ALLOCATION: &str = "rows of other ranks";
    let depth = domain.strips.depth;
    let (mut matrix_halos, mut grid_sums) = (Vec::new(), Vec::new());
    for (q, grid) in grids[..depth].iter_mut().enumerate() {
        grid.halo = Some(boxed(Halo::new(domain, q, &grid.layout)?, RANKS_ALLOCATION)?);
        if q > 0 {
            push(&mut matrix_halos, MatrixHalo::new(domain, q, grid.layout.grid)?, RANKS_ALLOCATION)?;
        }
        // Reductions over the first grid have up to three numbers per row. Reductions over other grids have one.
        push(&mut grid_sums, SumExchange::over_grid(domain, q, if q == 0 { 3 } else { 1 })?, RANKS_ALLOCATION)?;
    }
    let section_end = section_starts.get(1).copied().unwrap_or(grids.len());
    // One exchange transfers the partial sums of rho on the grids of the first section, and the partial sums of <r, r>.
    // The partial sums of <r, r> are stored after the partial sums of rho on all grids.
    let mut sum_offsets = collected(rho_start[..section_end].iter().copied(), RANKS_ALLOCATION)?;
    push(&mut sum_offsets, rho_start[grids.len()], RANKS_ALLOCATION)?;
    let section_sums = SumExchange::over_grids(domain, &sum_offsets, section_end, 1)?;
    let complete_rows = CompleteRows::new(domain, &grids[depth - 1].layout, grids[depth].layout.grid)?;
    let input_exchange = InputExchange::new(domain)?;
    Ok(RankExchanges { domain: domain.clone(), input_exchange, matrix_halos, complete_rows, grid_sums, section_sums })
}

/// Matrix, preconditioner and vectors of one handle.
pub struct PackedSystem<F: Format> {
    pub shape: PackedShape,
    pub matrix: Matrix,
    /// S1, if CG runs on S1.
    pub schur: SchurComplement<F>,
    pub grids: Vec<PackedGrid<F>>,
    /// First grid of each section of the cycle; a section ends before the next recursion grid.
    pub section_starts: Vec<usize>,
    pub recursion: Mutex<Recursion>,
    /// Power of two by which M is divided when it is stored: the arrays contain M / `storage_unit`.
    pub storage_unit: f64,
    /// Whether no matrix has been factorized yet.
    pub is_fresh: bool,
    /// M by aggregation. It is set by a factorization in which aggregation replaces the levels, or by a solve that
    /// switches to aggregation.
    pub aggregation_cycle: OnceLock<AggregationCycle<F::Real>>,
    /// Aggregates of the previous matrix. They are stored here only during the factorization of the next matrix.
    reusable_aggregates: KeptAggregates,
    /// Precision of the aggregation hierarchy to which a solve may switch. `None` if the switch is not allowed, or
    /// after the first attempt to switch.
    pub aggregation_storage: Mutex<Option<Storage>>,
    /// A row sum whose magnitude is at most this fraction of the center is set to zero.
    pub zero_row_sum: f64,
    /// Levels in natural storage below the grids stored by colour; thread 0 alone works on these levels.
    natural_levels: Mutex<NaturalLevels>,
    /// Right-hand side, scaled. If CG runs on S1, the black part contains b_b - A_br D_r^-1 b_r, the right-hand side of
    /// S1.
    pub b: FourColours,
    /// Solution, scaled like b.
    pub x: FourColours,
    /// Residual r, direction p and product q = A p or S1 p of CG.
    pub r: FourColours<F::Vector>,
    pub p: FourColours<F::Vector>,
    pub q: FourColours<F::Vector>,
    pub singular: SingularComponents<projection::RunPosition>,
    /// Partial sums per row of the first grid, at most three numbers per row.
    pub partials: Partials,
    /// Partial sums per row of a recursion grid, one number per row.
    pub inner_partials: Partials,
    /// Partial sums of the fused stages for rho = <r, M^-1 r>. `rho` has one number per row of every grid; grid q
    /// begins at `rho_start[q]`. The partial sums of <r, r> on the first grid follow, so that one exchange between
    /// ranks transfers both. `rho_below` contains the partial sums of rho from the levels after the first section.
    pub rho: Partials,
    pub rho_start: Vec<usize>,
    pub rho_below: Partials,
    /// Scratch rows of each thread, small enough to stay in cache.
    pub scratch: Vec<Mutex<Vec<f64>>>,
    /// Row buffers of the fused stages of each thread, small enough to stay in cache.
    pub buffers: Vec<Mutex<RowBuffers<F::Real>>>,
    pub observed: SharedRunState,
    pub failure: Mutex<Option<Error>>,
    /// Exchanges with other ranks, if the first grids are distributed.
    pub exchanges: Option<Box<RankExchanges>>,
    /// Value of [`crate::rrb::backend::PivotContext::center_substitute`].
    pub pivot_center: Option<f64>,
}

/// Grids of a [`PackedSystem`], with the vectors whose memory the first grid shares.
struct AllocatedGrids<F: Format> {
    b: FourColours,
    x: FourColours,
    r: FourColours<F::Vector>,
    p: FourColours<F::Vector>,
    a_times_p: FourColours<F::Vector>,
    grids: Vec<PackedGrid<F>>,
    section_starts: Vec<usize>,
    rho_start: Vec<usize>,
    /// Grid after the last grid that is stored by colour, and its position on the finest grid.
    natural_grid: (Grid, Embedding),
    exchanges: Option<Box<RankExchanges>>,
}

impl<F: Format> AllocatedGrids<F> {
    #[inline(never)]
    fn new(shape: PackedShape, domain: Option<&Domain>) -> Result<Self> {
        let layout_of = |q: usize, grid: Grid| {
            let layout = Layout::new(grid, shape.block);
            let sharing_domain = domain.filter(|domain| domain.is_distributed(q));
            let own_rows = sharing_domain.map_or(0..layout.cy, |domain| domain.rows(q));
            (sharing_domain.map_or(layout, |domain| domain.layout(q, layout)), own_rows)
        };
        let (first_layout, _) = layout_of(0, shape.grid);
        let mut grids = Vec::new();
        reserve(&mut grids, shape.grid_count, "the list of grids")?;
        let (mut grid, mut embedding) = (shape.grid, Embedding::FINEST);
        // On the first grid, arrays that only the factorization reads share the memory of the CG vectors.
        let (b, x) = (FourColours::zeroed(&first_layout, true)?, FourColours::zeroed(&first_layout, true)?);
        let zero_vector = || FourColours::zeroed(&first_layout, !shape.uses_schur);
        let (r, p, a_times_p) = (zero_vector()?, zero_vector()?, zero_vector()?);
        let z = z_in_q::<F>(&shape, &a_times_p);
        let mut vectors = Some(SharedVectors { x: &x, b: &b, r: r.of_type(), p: p.of_type(), z });
        let mut section_starts = collected([0], "sections of the cycle")?;
        for q in 0..shape.grid_count {
            let recurses = shape.cycle.recursion_grids(shape.levels).any(|start| start == q);
            if recurses {
                push(&mut section_starts, q, "sections of the cycle")?;
            }
            let (layout, own_rows) = layout_of(q, grid);
            grids.push(PackedGrid::new(layout, own_rows, embedding, shape, vectors.take(), recurses)?);
            embedding = embedding.coarse(grid);
            grid = grid.coarse();
        }
        if shape.uses_aggregation {
            // With aggregation, no level follows the first grid.
            grid = Grid { nx: 1, ny: 1 };
        }
        let (mut rho_start, mut rows) = (collected([0], "sums of stages")?, 0);
        for grid in &grids {
            rows += grid.layout.cy;
            push(&mut rho_start, rows, "sums of stages")?;
        }
        let exchanges = match domain {
            Some(domain) => Some(boxed(
                plan_rank_exchanges(domain, &mut grids, &rho_start, &section_starts)?,
                "rows of other ranks",
            )?),
            None => None,
        };
        Ok(Self { b, x, r, p, a_times_p, grids, section_starts, rho_start, natural_grid: (grid, embedding), exchanges })
    }
}

impl<F: Format> PackedSystem<F> {
    /// Allocates all memory for `shape`. With `domain`, other ranks own rows of the first grids; the coarsest grid
    /// stored by colour is not distributed.
    pub fn new(shape: PackedShape, domain: Option<&Domain>) -> Result<Box<Self>> {
        Self::from_grids(shape, AllocatedGrids::new(shape, domain)?)
    }

    /// Builds a `PackedSystem` around its grids. This function is not inlined, so that its stack frame does not add to
    /// that of `AllocatedGrids::new`. A `PackedSystem` of 8 kB is built on the stack, and `AllocatedGrids::new` uses 20
    /// kB. A thread of the calling program may have a stack of only 64 kB (tests/environment.rs).
    #[inline(never)]
    fn from_grids(shape: PackedShape, allocated: AllocatedGrids<F>) -> Result<Box<Self>> {
        let AllocatedGrids {
            b,
            x,
            r,
            p,
            a_times_p,
            grids,
            section_starts,
            rho_start,
            natural_grid: (grid, embedding),
            exchanges,
        } = allocated;
        let (first_layout, rows) = (grids[0].layout, rho_start[shape.grid_count]);
        let system = Self {
            shape,
            exchanges,
            pivot_center: None,
            matrix: Matrix {
                center: FourColours::zeroed(&first_layout, true)?,
                axis_couplings: AxisCouplings::zeroed(&first_layout, true)?,
                corners: CornerCouplings::zeroed(&first_layout, shape.has_nine_points)?,
                has_nine_points: shape.has_nine_points,
            },
            aggregation_cycle: OnceLock::new(),
            reusable_aggregates: KeptAggregates::default(),
            aggregation_storage: Mutex::new(None),
            zero_row_sum: 0.0,
            schur: SchurComplement::new(&first_layout, &grids[0].factors.diagonal_couplings, shape.uses_schur)?,
            natural_levels: Mutex::new(NaturalLevels::new(
                grid,
                embedding,
                2 * shape.grid_count,
                shape.levels.max(2 * shape.grid_count),
                &shape.cycle,
                false,
            )?),
            b,
            x,
            r,
            p,
            q: a_times_p,
            singular: SingularComponents::default(),
            section_starts,
            recursion: Mutex::new(Recursion::V),
            storage_unit: 1.0,
            is_fresh: true,
            partials: Partials::new(first_layout.cy, 3)?,
            inner_partials: Partials::new(first_layout.cy, 1)?,
            rho: Partials::single_buffered(rows + first_layout.cy, 1)?,
            rho_start,
            rho_below: Partials::single_buffered(first_layout.cy, 1)?,
            grids,
            scratch: Vec::new(),
            buffers: Vec::new(),
            observed: SharedRunState::default(),
            failure: Mutex::new(None),
        };
        boxed(system, "a solver's lists")
    }

    /// Allocates the memory that depends on the number of threads and on the matrix, and stores those parameters of
    /// `setup` that the solves need.
    pub fn prepare(&mut self, setup: &Setup, components: &Components, threads: usize) -> Result<()> {
        self.storage_unit = setup.storage_unit;
        // The previous hierarchy is freed before memory is allocated; its aggregates remain.
        let previous_cycle = self.aggregation_cycle.take().filter(|_| self.shape.uses_aggregation);
        self.reusable_aggregates = previous_cycle.map(AggregationCycle::into_kept_aggregates).unwrap_or_default();
        self.zero_row_sum = setup.zero_row_sum;
        *self.aggregation_storage.get_mut().unwrap_or_else(PoisonError::into_inner) = match setup.aggregation {
            Aggregation::IfSlow(storage) if self.exchanges.is_none() => Some(storage),
            _ => None,
        };
        let row_width = self.grids[0].layout.cx;
        if self.scratch.len() != threads {
            self.scratch.clear();
            for _ in 0..threads {
                let rows = zeroed(SCRATCH_ROWS * (row_width + SCRATCH_GAP), SCRATCH_ALLOCATION)?;
                push(&mut self.scratch, Mutex::new(rows), SCRATCH_ALLOCATION)?;
            }
        }
        if self.buffers.len() != threads {
            self.buffers.clear();
            for _ in 0..threads {
                push(&mut self.buffers, Mutex::new(RowBuffers::new(&self.grids[0].layout)?), "rows of stages")?;
            }
        }
        for q in 0..self.grids.len() {
            let (finer_grids, remaining_grids) = self.grids.split_at_mut(q);
            let grid = &mut remaining_grids[0];
            let layout = &grid.layout;
            let nodes = layout.grid.nx * (2 * grid.own_rows.len()).min(layout.grid.ny);
            // Several threads work on a grid only if several threads also work on the next finer grid. A thread with
            // rows of a grid then also has rows of all finer grids. The test of `own_rows.len()` alone does not ensure
            // this: a rank may have fewer rows of the last distributed grid than of the next grid, which every rank
            // stores completely.
            let finer_is_shared = finer_grids.last().is_none_or(|finer| finer.is_shared);
            grid.is_shared = finer_is_shared && nodes >= MIN_TEAM_NODES && grid.own_rows.len() >= threads;
        }
        let domain = self.exchanges.as_ref().map(|exchanges| &exchanges.domain);
        projection::set_runs(&mut self.singular, &self.grids[0].layout, components, self.shape.uses_schur, domain)
    }

    /// Returns the exchange of partial sums with other ranks for grid q; `None` if the grid is not distributed.
    pub fn other_ranks(&self, q: usize) -> Option<&dyn OtherRanks> {
        self.exchanges.as_ref()?.grid_sums.get(q).map(|sums| sums as &dyn OtherRanks)
    }

    /// Makes z of the grid after grid q readable for all threads, after these have copied z at the kept nodes of grid q
    /// to the next grid. If grid q is the last grid stored by colour, makes z of grid q readable instead.
    pub fn pass_to_next_grid(&self, q: usize, thread: TeamThread) {
        let grid = &self.grids[q];
        let Some(next) = self.grids.get(q + 1) else { return grid.refresh(thread, &grid.z) };
        let to_complete_grid = self.exchanges.as_ref().filter(|exchanges| exchanges.domain.strips.depth == q + 1);
        if next.halo.is_some() {
            next.refresh_down(thread, grid, self.shape.is_fused, &next.z);
        } else if let Some(exchanges) = to_complete_grid {
            grid.barrier(thread);
            if thread.index == 0 {
                let mut buffers = self.buffers[0].lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the other threads wait at the barrier below.
                unsafe {
                    exchanges.complete_rows.refresh(&next.layout, &next.z, buffers.row_mut(0, next.layout.grid.nx))
                };
            }
            grid.barrier(thread);
        } else {
            grid.refresh(thread, &next.z);
        }
    }

    /// Returns whether the stages that begin and end a solve are fused. This requires `fusion=on`, and that CG runs on
    /// S1 of a regular system.
    pub fn fuses_start_and_end(&self) -> bool {
        self.shape.is_fused && self.shape.uses_schur && self.singular.is_empty()
    }

    /// Returns whether the stages of an iteration are fused. The conditions are those of `fuses_start_and_end`, and
    /// that M consists of levels.
    pub fn fuses_iteration(&self) -> bool {
        self.fuses_start_and_end() && self.aggregation_cycle.get().is_none()
    }

    /// Returns two factors (f, g) for the search direction. The stored p is updated by p = f z + beta p, and the true
    /// search direction is g p. The product f g is 1 / `storage_unit`, because the sweeps return z = `storage_unit`
    /// M^-1 r. If CG runs in single precision, S1 is stored divided by `storage_unit`, like M. The stored p and
    /// q = S1 p then stay in the range of f32.
    pub fn direction_scales(&self) -> (f64, f64) {
        let inverse_unit = self.storage_unit.recip();
        if F::CG_IS_SINGLE { (1.0, inverse_unit) } else { (inverse_unit, 1.0) }
    }

    /// See [`RrbBackend::matrix`](crate::rrb::backend::RrbBackend::matrix).
    pub fn natural_matrix(&self) -> Result<Option<FivePointMatrix>> {
        const NATURAL_ALLOCATION: &str = "a matrix, row by row";
        let (layout, matrix) = (&self.grids[0].layout, &self.matrix);
        if matrix.has_nine_points || self.exchanges.is_some() {
            return Ok(None);
        }
        let Grid { nx, ny } = layout.grid;
        let zeros = || zeroed(nx * ny, NATURAL_ALLOCATION);
        let mut natural_arrays = [zeros()?, zeros()?, zeros()?];
        for j in 0..ny {
            let rows = natural_arrays.each_mut().map(|array| &mut array[j * nx..][..nx]);
            // SAFETY: no thread writes A after the factorization.
            unsafe { load_matrix_row(layout, j, &matrix.center, &matrix.axis_couplings, rows) };
        }
        Ok(Some((layout.grid, natural_arrays)))
    }

    /// Returns the matrix on which CG runs, as input of aggregation.
    pub fn coupling_source(&self) -> CouplingSource<'_> {
        let layout = &self.grids[0].layout;
        let rows = (0..layout.cy).flat_map(|row| Colour::ALL.map(|colour| (colour, row)));
        // SAFETY: no thread writes A after the factorization.
        let largest_centers = rows.map(|(colour, row)| max_abs(unsafe { self.matrix.center[colour].row(row, 0) }));
        let scale = power_of_two_below(largest_centers.fold(0.0, f64::max)).recip();
        let (matrix, uses_schur, zero_row_sum) = (&self.matrix, self.shape.uses_schur, self.zero_row_sum);
        CouplingSource { matrix, layout, uses_schur, zero_row_sum, scale }
    }

    /// Builds the hierarchy of aggregation with `threads` threads.
    pub fn build_aggregation_cycle(
        &self,
        storage: Storage,
        kept_aggregates: KeptAggregates,
        threads: usize,
    ) -> Result<AggregationCycle<F::Real>> {
        let first_grid = &self.grids[0];
        // SAFETY: no thread writes the matrix after the factorization.
        unsafe {
            AggregationCycle::new(
                &self.coupling_source(),
                (&first_grid.z, first_grid.z_is_shared),
                storage,
                kept_aggregates,
                threads,
            )
        }
    }

    /// Removes the aggregates of the previous matrix, and returns them.
    pub fn take_reusable_aggregates(&mut self) -> KeptAggregates {
        std::mem::take(&mut self.reusable_aggregates)
    }

    /// Sets all vectors to zero after a run with an overflow. Loops include the padding, where an infinity would lead
    /// to NaN (0 * inf) in all later runs.
    pub fn clear_vectors(&mut self) {
        // SAFETY: `self` is borrowed mutably, so no run is in progress; the same holds for all vectors below.
        unsafe {
            [&self.b, &self.x].iter().for_each(|v| v.clear());
            [&self.r, &self.p, &self.q].iter().for_each(|v| v.clear());
        }
        // SAFETY: as above.
        unsafe { self.clear_sweep_vectors() };
    }

    /// Sets the vectors of the sweeps to zero.
    ///
    /// # Safety
    /// No thread may use these vectors meanwhile.
    pub unsafe fn clear_sweep_vectors(&self) {
        self.natural_levels().clear_vectors();
        for grid in &self.grids {
            // SAFETY: by the safety contract of this function.
            unsafe { grid.z.clear() };
            if let Some(inner_system) = &grid.recursion_grid {
                for vector in [&inner_system.r, &inner_system.d, &inner_system.q, &inner_system.u] {
                    // SAFETY: as above.
                    unsafe { vector.clear() };
                }
            }
        }
    }

    /// Returns whether the current cycle is recursive and was selected by `cycle=auto`.
    pub fn has_chosen_recursion(&self) -> bool {
        self.shape.cycle.kind.is_none() && self.recursion().kind != CycleKind::V
    }

    /// Switches to the V-cycle.
    pub fn set_v_cycle(&self) {
        self.natural_levels().set_kind(CycleKind::V);
        self.recursion.lock().unwrap_or_else(PoisonError::into_inner).kind = CycleKind::V;
    }

    /// Returns the current cycle.
    pub fn recursion(&self) -> Recursion {
        *self.recursion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the levels in natural storage. During a run, only thread 0 changes them.
    pub fn natural_levels(&self) -> MutexGuard<'_, NaturalLevels> {
        self.natural_levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the colours of the unknowns of CG: the black colours if CG runs on S1, otherwise all colours.
    pub fn cg_colours(&self) -> &'static [Colour] {
        if self.shape.uses_schur {
            &[Colour::B1, Colour::B2]
        } else {
            &[Colour::R1, Colour::R2, Colour::B1, Colour::B2]
        }
    }

    pub fn bytes(&self) -> usize {
        let matrix = &self.matrix;
        [&matrix.center, &self.b, &self.x].iter().map(|v| v.bytes()).sum::<usize>()
            + [&self.r, &self.p, &self.q].iter().map(|v| v.bytes()).sum::<usize>()
            + matrix.axis_couplings.bytes()
            + matrix.corners.bytes()
            + self.schur.bytes()
            + self.grids.iter().map(PackedGrid::bytes).sum::<usize>()
            + self.natural_levels().bytes()
            + self.aggregation_cycle.get().map_or(0, AggregationCycle::bytes)
            + self.singular.bytes()
    }
}
