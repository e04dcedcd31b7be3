//! Data of a factorization on the `cpu` backend: the matrix, the levels on grids stored by colour, the coarser levels
//! in natural storage, and the vectors of CG.

use super::aggregated::Aggregated;
use super::couplings::Source;
use super::levels::{Buffers, PackedGrid, Vectors};
use super::neighbours::{Corners, Straight};
use super::number::Format;
use super::projection;
use super::ranks::{CompleteRows, Halo, InputExchange, Links, MatrixHalo, Sums};
use super::system::{MIN_TEAM_NODES, Matrix, Schur, Shape};
use crate::aggregation::KeptAggregates;
use crate::base::heap::boxed;
use crate::base::number::power_of_two_below;
use crate::base::reduce::{OtherRanks, Partials, max_abs};
use crate::base::team::Me;
use crate::error::{Error, Result, collected, push, reserve, zeroed};
use crate::krylov::cpu::means::Singular;
use crate::krylov::cpu::observed::Observed;
use crate::rrb::backend::{Aggregation, FivePoints, Setup};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::collect_matrix;
use crate::rrb::domain::Domain;
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::natural::NaturalLevels;
use crate::rrb::recursion::{Kind, Recursion};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::levels::{Embedding, Grid};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Border of a scratch row on either side, in values. Loops read one value beyond either end of a row.
pub const BORDER: usize = 8;

/// Number of unused values between two scratch rows of the factorization. Without them, rows whose length is a multiple
/// of 4096 bytes would begin at equal addresses modulo 4096. A load would then wait for stores to the same column of
/// other rows.
pub const GAP: usize = 56;

/// Number of scratch rows per thread. A fused start uses 11 rows: four red rows in `over_black_rows`, and seven rows in
/// `iteration::solve` (two of b1, two of r2, one of r1, one of b2, one result). The factorization needs at most nine
/// rows, for a row of the next grid.
const SCRATCH_ROWS: usize = 11;

/// Returns arrays for z of the first grid that use the memory of q, if CG runs on A, M consists of levels, and both
/// vectors have the same number type; otherwise `None`.
///
/// The steps of CG use q and z alternately. `multiply` writes q, and the update r = r - alpha q reads q. Then
/// `precondition` writes z, and the update of p reads z before the next `multiply`. In these steps, each thread
/// accesses its own rows only. Other threads read rows of z in the sweeps only, and the sum at the end of
/// `precondition` waits for all sweeps. Padding and border of both vectors are zero. The estimates of eigenvalue bounds
/// use z on coarser grids only.
///
/// Two cases need q and z at the same time: the fused stages of an iteration, which exist for S1 only, and the flexible
/// beta of aggregation.
fn z_in_q<F: Format>(shape: &Shape, q: &FourColours<F::Vector>) -> Option<FourColours<F::Real>> {
    if shape.schur || shape.aggregates { None } else { q.of_type() }
}

/// Name of the memory in error messages about failed allocations.
const SCRATCH: &str = "rows of scratch space";

/// Creates the halos of the distributed grids and the plans of all exchanges between ranks.
fn link_ranks<F: Format>(
    domain: &Domain,
    grids: &mut [PackedGrid<F>],
    rho_start: &[usize],
    sections: &[usize],
) -> Result<Links> {
    const LINKS: &str = "rows of other ranks";
    let depth = domain.strips.depth;
    let (mut matrices, mut of_grid) = (Vec::new(), Vec::new());
    for (q, grid) in grids[..depth].iter_mut().enumerate() {
        grid.halo = Some(boxed(Halo::new(domain, q, &grid.layout)?, LINKS)?);
        if q > 0 {
            push(&mut matrices, MatrixHalo::new(domain, q, grid.layout.grid)?, LINKS)?;
        }
        // Reductions over the first grid have up to three numbers per row; those over other grids have one.
        push(&mut of_grid, Sums::over_grid(domain, q, if q == 0 { 3 } else { 1 })?, LINKS)?;
    }
    let end = sections.get(1).copied().unwrap_or(grids.len());
    // The first section needs the sums of rho of its grids, and of <r, r>, which is stored after rho of all grids.
    let mut places = collected(rho_start[..end].iter().copied(), LINKS)?;
    push(&mut places, rho_start[grids.len()], LINKS)?;
    let of_section = Sums::over_grids(domain, &places, end, 1)?;
    let complete_rows = CompleteRows::new(domain, &grids[depth - 1].layout, grids[depth].layout.grid)?;
    let inputs = InputExchange::new(domain)?;
    Ok(Links { domain: domain.clone(), inputs, matrices, complete_rows, of_grid, of_section })
}

/// Matrix, preconditioner and vectors of one handle.
pub struct Packed<F: Format> {
    pub shape: Shape,
    pub matrix: Matrix,
    /// S1, if CG runs on S1.
    pub schur: Schur<F>,
    pub grids: Vec<PackedGrid<F>>,
    /// First grid of each section of the cycle; a section ends before the next recursion grid.
    pub sections: Vec<usize>,
    pub recursion: Mutex<Recursion>,
    /// Power of two by which the stored M is divided.
    pub unit: f64,
    /// Whether no matrix has been factorized yet.
    pub fresh: bool,
    /// M by aggregation. It is set by a factorization in which aggregation replaces the levels, or by a solve that
    /// switches to aggregation.
    pub aggregated: OnceLock<Aggregated<F::Real>>,
    /// Aggregates of the previous matrix. They are stored here only during the factorization of the next matrix.
    reusable_aggregates: KeptAggregates,
    /// Precision of the hierarchy to which a solve may switch; `None` if the switch is not allowed or has failed.
    pub may_aggregate: Mutex<Option<Storage>>,
    /// A row sum of at most this fraction of the center is set to zero.
    pub zero_row_sum: f64,
    /// Levels in natural storage below the grids stored by colour; thread 0 alone works on these levels.
    natural: Mutex<NaturalLevels>,
    /// Right-hand side, scaled. If CG runs on S1, the black part contains b_b - A_br D_r^-1 b_r, the right-hand side of
    /// S1.
    pub b: FourColours,
    /// Solution, scaled like b.
    pub x: FourColours,
    /// Residual r, direction p and product q = A p or S1 p of CG.
    pub r: FourColours<F::Vector>,
    pub p: FourColours<F::Vector>,
    pub q: FourColours<F::Vector>,
    pub singular: Singular<projection::Run>,
    /// Partial sums per row of the first grid, at most three numbers per row.
    pub partials: Partials,
    /// Partial sums per row of a recursion grid, one number per row.
    pub inner_partials: Partials,
    /// Partial sums of the fused stages for rho = <r, M^-1 r>. `rho` has one number per row of every grid; grid q
    /// begins at `rho_start[q]`. The partial sums of <r, r> on the first grid follow, so that one exchange between
    /// ranks transfers both. `rho_below` is the part of rho from the levels after the first section.
    pub rho: Partials,
    pub rho_start: Vec<usize>,
    pub rho_below: Partials,
    /// Scratch rows of each thread, small enough to stay in cache.
    pub scratch: Vec<Mutex<Vec<f64>>>,
    /// Row buffers of the fused stages of each thread, small enough to stay in cache.
    pub buffers: Vec<Mutex<Buffers<F::Real>>>,
    pub observed: Observed,
    pub failure: Mutex<Option<Error>>,
    /// Exchanges with other ranks, if the first grids are distributed.
    pub links: Option<Box<Links>>,
    /// Value of [`crate::rrb::backend::PivotContext::center`].
    pub center: Option<f64>,
}

/// Grids of a [`Packed`], with the vectors whose memory the first grid shares.
struct Grids<F: Format> {
    b: FourColours,
    x: FourColours,
    r: FourColours<F::Vector>,
    p: FourColours<F::Vector>,
    a_times_p: FourColours<F::Vector>,
    grids: Vec<PackedGrid<F>>,
    sections: Vec<usize>,
    rho_start: Vec<usize>,
    /// Grid after the last grid that is stored by colour, and its position on the finest grid.
    coarsest: (Grid, Embedding),
    links: Option<Box<Links>>,
}

impl<F: Format> Grids<F> {
    #[inline(never)]
    fn new(shape: Shape, domain: Option<&Domain>) -> Result<Self> {
        let layout_of = |q: usize, grid: Grid| {
            let layout = Layout::new(grid, shape.block);
            let shared = domain.filter(|domain| domain.is_distributed(q));
            let own = shared.map_or(0..layout.cy, |domain| domain.rows(q));
            (shared.map_or(layout, |domain| domain.layout(q, layout)), own)
        };
        let (first, _) = layout_of(0, shape.grid);
        let mut grids = Vec::new();
        reserve(&mut grids, shape.grids, "the list of grids")?;
        let (mut grid, mut embedding) = (shape.grid, Embedding::FINEST);
        // Arrays that only the factorization of the first grid needs use the memory of vectors.
        let (b, x) = (FourColours::zeroed(&first, true)?, FourColours::zeroed(&first, true)?);
        let vector = || FourColours::zeroed(&first, !shape.schur);
        let (r, p, a_times_p) = (vector()?, vector()?, vector()?);
        let z = z_in_q::<F>(&shape, &a_times_p);
        let mut vectors = Some(Vectors { x: &x, b: &b, r: r.of_type(), p: p.of_type(), z });
        let mut sections = collected([0], "sections of the cycle")?;
        for q in 0..shape.grids {
            let recurses = shape.cycle.grids(shape.levels).any(|start| start == q);
            if recurses {
                push(&mut sections, q, "sections of the cycle")?;
            }
            let (layout, own) = layout_of(q, grid);
            grids.push(PackedGrid::new(layout, own, embedding, shape, vectors.take(), recurses)?);
            embedding = embedding.coarse(grid);
            grid = grid.coarse();
        }
        if shape.aggregates {
            // With aggregation, no level follows the first grid.
            grid = Grid { nx: 1, ny: 1 };
        }
        let (mut rho_start, mut rows) = (collected([0], "sums of stages")?, 0);
        for grid in &grids {
            rows += grid.layout.cy;
            push(&mut rho_start, rows, "sums of stages")?;
        }
        let links = match domain {
            Some(domain) => Some(boxed(link_ranks(domain, &mut grids, &rho_start, &sections)?, "rows of other ranks")?),
            None => None,
        };
        Ok(Self { b, x, r, p, a_times_p, grids, sections, rho_start, coarsest: (grid, embedding), links })
    }
}

impl<F: Format> Packed<F> {
    /// Allocates all memory for `shape`. With `domain`, other ranks own rows of the first grids; the coarsest grid
    /// stored by colour is not distributed.
    pub fn new(shape: Shape, domain: Option<&Domain>) -> Result<Box<Self>> {
        Self::from_grids(shape, Grids::new(shape, domain)?)
    }

    /// Builds a `Packed` around its grids. This function is not inlined, so that its stack frame does not add to that
    /// of `Grids::new`. A `Packed` of 8 kB is built on the stack, and `Grids::new` uses 20 kB. A thread of the caller
    /// may have a stack of only 64 kB (tests/environment.rs).
    #[inline(never)]
    fn from_grids(shape: Shape, made: Grids<F>) -> Result<Box<Self>> {
        let Grids { b, x, r, p, a_times_p, grids, sections, rho_start, coarsest: (grid, embedding), links } = made;
        let (first, rows) = (grids[0].layout, rho_start[shape.grids]);
        let whole = Self {
            shape,
            links,
            center: None,
            matrix: Matrix {
                center: FourColours::zeroed(&first, true)?,
                straight: Straight::zeroed(&first, true)?,
                corners: Corners::zeroed(&first, shape.nine_points)?,
                nine_points: shape.nine_points,
            },
            aggregated: OnceLock::new(),
            reusable_aggregates: KeptAggregates::default(),
            may_aggregate: Mutex::new(None),
            zero_row_sum: 0.0,
            schur: Schur::new(&first, &grids[0].sweep.diagonal, shape.schur)?,
            natural: Mutex::new(NaturalLevels::new(
                grid,
                embedding,
                2 * shape.grids,
                shape.levels.max(2 * shape.grids),
                &shape.cycle,
                false,
            )?),
            b,
            x,
            r,
            p,
            q: a_times_p,
            singular: Singular::default(),
            sections,
            recursion: Mutex::new(Recursion::V),
            unit: 1.0,
            fresh: true,
            partials: Partials::new(first.cy, 3)?,
            inner_partials: Partials::new(first.cy, 1)?,
            rho: Partials::single_buffered(rows + first.cy, 1)?,
            rho_start,
            rho_below: Partials::single_buffered(first.cy, 1)?,
            grids,
            scratch: Vec::new(),
            buffers: Vec::new(),
            observed: Observed::default(),
            failure: Mutex::new(None),
        };
        boxed(whole, "a solver's lists")
    }

    /// Allocates the memory that depends on the number of threads and on the matrix, and stores those parameters of
    /// `setup` that the solves need.
    pub fn prepare(&mut self, setup: &Setup, components: &Components, members: usize) -> Result<()> {
        self.unit = setup.unit;
        // The previous hierarchy is freed before memory is allocated; its aggregates remain.
        let before = self.aggregated.take().filter(|_| self.shape.aggregates);
        self.reusable_aggregates = before.map(Aggregated::into_kept).unwrap_or_default();
        self.zero_row_sum = setup.zero_row_sum;
        *self.may_aggregate.get_mut().unwrap_or_else(PoisonError::into_inner) = match setup.aggregation {
            Aggregation::IfSlow(storage) if self.links.is_none() => Some(storage),
            _ => None,
        };
        let width = self.grids[0].layout.cx;
        if self.scratch.len() != members {
            self.scratch.clear();
            for _ in 0..members {
                let rows = zeroed(SCRATCH_ROWS * (width + GAP), SCRATCH)?;
                push(&mut self.scratch, Mutex::new(rows), SCRATCH)?;
            }
        }
        if self.buffers.len() != members {
            self.buffers.clear();
            for _ in 0..members {
                push(&mut self.buffers, Mutex::new(Buffers::new(&self.grids[0].layout)?), "rows of stages")?;
            }
        }
        for q in 0..self.grids.len() {
            let (before, rest) = self.grids.split_at_mut(q);
            let grid = &mut rest[0];
            let layout = &grid.layout;
            let nodes = layout.grid.nx * (2 * grid.own.len()).min(layout.grid.ny);
            // Several threads work on a grid only if they also work on the finer grid. A thread with rows of a grid
            // then also has rows of all finer grids. The numbers of rows do not ensure this: a rank may have fewer rows
            // of the last distributed grid than of the next grid, which every rank stores completely.
            let finer_is_shared = before.last().is_none_or(|before| before.shared);
            grid.shared = finer_is_shared && nodes >= MIN_TEAM_NODES && grid.own.len() >= members;
        }
        let domain = self.links.as_ref().map(|links| &links.domain);
        projection::set(&mut self.singular, &self.grids[0].layout, components, self.shape.schur, domain)
    }

    /// Returns the exchange of partial sums with other ranks for grid q; `None` if the grid is not distributed.
    pub fn other_ranks(&self, q: usize) -> Option<&dyn OtherRanks> {
        self.links.as_ref()?.of_grid.get(q).map(|sums| sums as &dyn OtherRanks)
    }

    /// Makes z of the next grid readable for all threads, after the kept values of grid q have been written to it. If
    /// grid q is the last grid stored by colour, makes z of grid q readable.
    pub fn pass_to_next_grid(&self, q: usize, me: Me) {
        let grid = &self.grids[q];
        let Some(next) = self.grids.get(q + 1) else { return grid.refresh(me, &grid.z) };
        let to_complete_grid = self.links.as_ref().filter(|links| links.domain.strips.depth == q + 1);
        if next.halo.is_some() {
            next.refresh_down(me, grid, self.shape.fused, &next.z);
        } else if let Some(links) = to_complete_grid {
            grid.barrier(me);
            if me.index == 0 {
                let mut t = self.buffers[0].lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the other threads wait at the barrier below.
                unsafe { links.complete_rows.refresh(&next.layout, &next.z, t.row_mut(0, next.layout.grid.nx)) };
            }
            grid.barrier(me);
        } else {
            grid.refresh(me, &next.z);
        }
    }

    /// Returns whether the stages that begin and end a solve are fused. This requires `fusion=on`, and that CG runs on
    /// S1 of a regular system.
    pub fn fuses_start_and_end(&self) -> bool {
        self.shape.fused && self.shape.schur && self.singular.is_empty()
    }

    /// Returns whether the stages of an iteration are fused. This also requires that M consists of levels.
    pub fn fused(&self) -> bool {
        self.fuses_start_and_end() && self.aggregated.get().is_none()
    }

    /// Returns two factors. The stored p contains z times the first factor. The true search direction is the stored p
    /// times the second factor. Their product is 1 / `unit`, because sweeps return z = `unit` M^-1 r. In single
    /// precision, S1 is divided by `unit` like M, so p and q = S1 p stay in the range of f32.
    pub fn scales(&self) -> (f64, f64) {
        let per_unit = self.unit.recip();
        if F::SINGLE { (1.0, per_unit) } else { (per_unit, 1.0) }
    }

    /// See [`RrbBackend::matrix`](crate::rrb::backend::RrbBackend::matrix).
    pub fn natural_matrix(&self) -> Result<Option<FivePoints>> {
        const NATURAL: &str = "a matrix, row by row";
        let (layout, m) = (&self.grids[0].layout, &self.matrix);
        if m.nine_points || self.links.is_some() {
            return Ok(None);
        }
        let Grid { nx, ny } = layout.grid;
        let zeros = || zeroed(nx * ny, NATURAL);
        let mut natural = [zeros()?, zeros()?, zeros()?];
        for j in 0..ny {
            let rows = natural.each_mut().map(|array| &mut array[j * nx..][..nx]);
            // SAFETY: no thread writes A after the factorization.
            unsafe { collect_matrix(layout, j, &m.center, &m.straight, rows) };
        }
        Ok(Some((layout.grid, natural)))
    }

    /// Returns the matrix on which CG runs, as input of aggregation.
    pub fn source(&self) -> Source<'_> {
        let layout = &self.grids[0].layout;
        let rows = (0..layout.cy).flat_map(|row| Colour::ALL.map(|colour| (colour, row)));
        // SAFETY: no thread writes A after the factorization.
        let largest = rows.map(|(colour, row)| max_abs(unsafe { self.matrix.center[colour].row(row, 0) }));
        let scale = power_of_two_below(largest.fold(0.0, f64::max)).recip();
        let (matrix, schur, zero_row_sum) = (&self.matrix, self.shape.schur, self.zero_row_sum);
        Source { matrix, layout, schur, zero_row_sum, scale }
    }

    /// Builds the hierarchy of aggregation with `members` threads.
    pub fn aggregate(&self, storage: Storage, kept: KeptAggregates, members: usize) -> Result<Aggregated<F::Real>> {
        let first = &self.grids[0];
        // SAFETY: no thread writes the matrix after the factorization.
        unsafe { Aggregated::new(&self.source(), (&first.z, first.z_is_shared), storage, kept, members) }
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
        unsafe { self.clear_sweeps() };
    }

    /// Sets the vectors of the sweeps to zero.
    ///
    /// # Safety
    /// No thread may use these vectors meanwhile.
    pub unsafe fn clear_sweeps(&self) {
        self.natural().clear_vectors();
        for grid in &self.grids {
            // SAFETY: by the safety contract of this function.
            unsafe { grid.z.clear() };
            if let Some(inner) = &grid.recursion {
                for vector in [&inner.r, &inner.d, &inner.q, &inner.u] {
                    // SAFETY: as above.
                    unsafe { vector.clear() };
                }
            }
        }
    }

    /// Returns whether the current cycle is recursive and was selected by `cycle=auto`.
    pub fn chose_recursion(&self) -> bool {
        self.shape.cycle.kind.is_none() && self.recursion().kind != Kind::V
    }

    /// Switches to the V-cycle.
    pub fn set_plain_cycle(&self) {
        self.natural().set_kind(Kind::V);
        self.recursion.lock().unwrap_or_else(PoisonError::into_inner).kind = Kind::V;
    }

    /// Returns the current cycle.
    pub fn recursion(&self) -> Recursion {
        *self.recursion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the levels in natural storage. During a run, only thread 0 changes them.
    pub fn natural(&self) -> MutexGuard<'_, NaturalLevels> {
        self.natural.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the colours of the unknowns of CG: the black colours if CG runs on S1, otherwise all colours.
    pub fn cg_colours(&self) -> &'static [Colour] {
        if self.shape.schur { &[Colour::B1, Colour::B2] } else { &[Colour::R1, Colour::R2, Colour::B1, Colour::B2] }
    }

    pub fn bytes(&self) -> usize {
        let m = &self.matrix;
        [&m.center, &self.b, &self.x].iter().map(|v| v.bytes()).sum::<usize>()
            + [&self.r, &self.p, &self.q].iter().map(|v| v.bytes()).sum::<usize>()
            + m.straight.bytes()
            + m.corners.bytes()
            + self.schur.bytes()
            + self.grids.iter().map(PackedGrid::bytes).sum::<usize>()
            + self.natural().bytes()
            + self.aggregated.get().map_or(0, Aggregated::bytes)
            + self.singular.bytes()
    }
}
