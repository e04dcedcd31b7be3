//! What the `cpu` backend keeps: the matrix, the levels on r1/r2/b1/b2 grids, the natural levels below them,
//! and the vectors.

use super::aggregated::Aggregated;
use super::area::Four;
use super::couplings::Source;
use super::levels::{Buffers, PackedGrid, Vectors};
use super::neighbours::{Corners, Straight};
use super::number::Format;
use super::projection::Projection;
use super::ranks::{Halo, HandOver, Links, MatrixHalo, Seen, Sums};
use super::spread::collect_matrix;
use super::system::{Matrix, Schur, Shape, WORTH_A_TEAM};
use crate::backend::aggregation::Kept;
use crate::backend::coarse::levels::NaturalLevels;
use crate::backend::cpu::observed::Observed;
use crate::backend::steps::cycle::{Kind, Recursion};
use crate::backend::steps::rrb::{Aggregation, FivePoints, Setup};
use crate::backend::storage::Storage;
use crate::comm::domain::Domain;
use crate::error::{Error, Result, collected, push, reserve, zeroed};
use crate::grid::components::Components;
use crate::grid::layout::{Colour, Layout};
use crate::grid::levels::{Embedding, Grid};
use crate::runtime::heap::boxed;
use crate::runtime::number::power_of_two_below;
use crate::runtime::reduce::{Elsewhere, Noted, max_abs};
use crate::runtime::team::Me;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Values beside a row of scratch space: a neighbour to the left and right is read.
pub const BORDER: usize = 8;

/// Rows of scratch space: four reds of `through_reds`, two and two of b1 and r2, r1, b2 and one more of `ends`. Coarse
/// stencils take five.
const SCRATCH_ROWS: usize = 11;

/// Where CG runs on A, z of the first grid in the memory of q, if both hold the same numbers. The steps of
/// `solver::krylov` need them in turn: `multiply` fills q, which `advance_residual` alone reads, before any
/// `precondition`; that fills z, which `first_direction`, `next_direction` and `take_z` read before the next
/// `multiply`. In these steps threads touch rows of their own; others read their rows of z in sweeps alone, for whose
/// end the sum of `precondition` waits. Padding and border of both are zero, and estimates sweep coarser grids. Fused
/// stages of an iteration, which are for S1, need both at once; so does the flexible beta of aggregation.
fn z_in_q<F: Format>(shape: &Shape, q: &Four<F::Vector>) -> Option<Four<F::Real>> {
    if shape.schur || shape.aggregates { None } else { q.of_type() }
}

/// For errors.
const SCRATCH: &str = "rows of scratch space";

/// What the shared grids exchange, which get their halos.
fn link<F: Format>(
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
        // Three numbers a row of the first grid, one of the others.
        push(&mut of_grid, Sums::over_grid(domain, q, if q == 0 { 3 } else { 1 })?, LINKS)?;
    }
    let end = sections.get(1).copied().unwrap_or(grids.len());
    // rho of the section, and <r, r> behind that of all grids.
    let mut places = collected(rho_start[..end].iter().copied(), LINKS)?;
    push(&mut places, rho_start[grids.len()], LINKS)?;
    let of_section = Sums::over_grids(domain, &places, end, 1)?;
    let hand_over = HandOver::new(domain, &grids[depth - 1].layout, grids[depth].layout.grid)?;
    let seen = Seen::new(domain)?;
    Ok(Links { domain: domain.clone(), seen, matrices, hand_over, of_grid, of_section })
}

/// The whole.
pub struct Packed<F: Format> {
    pub shape: Shape,
    pub matrix: Matrix,
    /// What CG runs on, where that is not A.
    pub schur: Schur<F>,
    pub grids: Vec<PackedGrid<F>>,
    /// First grid of each section of the cycle.
    pub sections: Vec<usize>,
    pub recursion: Mutex<Recursion>,
    /// What M is divided by as stored.
    pub unit: f64,
    /// Not factorized yet.
    pub fresh: bool,
    /// In place of the levels, where they are not made, or once a solve has changed to it.
    pub aggregated: OnceLock<Aggregated<F::Real>>,
    /// Aggregates of the matrix before, while the next one is factorized.
    kept: Kept,
    /// In which precision a solve may change to it; `None` where it may not, or could not.
    pub may_aggregate: Mutex<Option<Storage>>,
    /// A row sum of at most this part of the center is zero.
    pub zero_row_sum: f64,
    /// Levels below the packed grids; thread 0 alone works on them.
    natural: Mutex<NaturalLevels>,
    pub b: Four,
    pub x: Four,
    pub r: Four<F::Vector>,
    pub p: Four<F::Vector>,
    pub q: Four<F::Vector>,
    pub projection: Projection,
    /// For sums over rows of the first grid, at most three at a time.
    pub noted: Noted,
    /// The same for recursion grids.
    pub inner_noted: Noted,
    /// Of fused stages: rho by row of all grids, which begin at these places, behind them <r, r> by row of the first
    /// one, so that they go to other ranks together; and what lies below the first section.
    pub rho: Noted,
    pub rho_start: Vec<usize>,
    pub rho_below: Noted,
    /// Rows that stay in cache, per thread.
    pub scratch: Vec<Mutex<Vec<f64>>>,
    /// Rows that fused stages keep in cache, per thread.
    pub buffers: Vec<Mutex<Buffers<F::Real>>>,
    pub observed: Observed,
    pub failure: Mutex<Option<Error>>,
    /// Where other ranks have rows of the first grids.
    pub links: Option<Box<Links>>,
    /// See [`crate::backend::steps::rrb::PivotContext::center`].
    pub center: Option<f64>,
}

/// The grids of a [`Packed`], with the vectors whose memory the first one uses.
struct Grids<F: Format> {
    b: Four,
    x: Four,
    r: Four<F::Vector>,
    p: Four<F::Vector>,
    a_times_p: Four<F::Vector>,
    grids: Vec<PackedGrid<F>>,
    sections: Vec<usize>,
    rho_start: Vec<usize>,
    /// What follows the last one.
    rest: (Grid, Embedding),
    links: Option<Box<Links>>,
}

impl<F: Format> Grids<F> {
    #[inline(never)]
    fn new(shape: Shape, domain: Option<&Domain>) -> Result<Self> {
        let layout_of = |q: usize, grid: Grid| {
            let layout = Layout::new(grid, shape.block);
            let shared = domain.filter(|domain| domain.shares(q));
            let own = shared.map_or(0..layout.cy, |domain| domain.rows(q));
            (shared.map_or(layout, |domain| domain.layout(q, layout)), own)
        };
        let (first, _) = layout_of(0, shape.grid);
        let mut grids = Vec::new();
        reserve(&mut grids, shape.grids, "the list of grids")?;
        let (mut grid, mut embedding) = (shape.grid, Embedding::FINEST);
        // Arrays that a factorization of the first grid needs only while it runs are vectors.
        let (b, x) = (Four::zeroed(&first, true)?, Four::zeroed(&first, true)?);
        let vector = || Four::zeroed(&first, !shape.schur);
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
            // No level follows the first one.
            grid = Grid { nx: 1, ny: 1 };
        }
        let (mut rho_start, mut rows) = (collected([0], "sums of stages")?, 0);
        for grid in &grids {
            rows += grid.layout.cy;
            push(&mut rho_start, rows, "sums of stages")?;
        }
        let links = match domain {
            Some(domain) => Some(boxed(link(domain, &mut grids, &rho_start, &sections)?, "rows of other ranks")?),
            None => None,
        };
        Ok(Self { b, x, r, p, a_times_p, grids, sections, rho_start, rest: (grid, embedding), links })
    }
}

impl<F: Format> Packed<F> {
    /// `domain`: other ranks have rows of the first grids, of at least one grid less than there are.
    pub fn new(shape: Shape, domain: Option<&Domain>) -> Result<Box<Self>> {
        Self::around(shape, Grids::new(shape, domain)?)
    }

    /// Not inlined: a `Packed` has 8 kB and is built on the stack after `Grids::new`, which uses 20 kB, has returned. A
    /// thread of the caller may have a stack of 64 kB (tests/environment.rs).
    #[inline(never)]
    fn around(shape: Shape, made: Grids<F>) -> Result<Box<Self>> {
        let Grids { b, x, r, p, a_times_p, grids, sections, rho_start, rest: (grid, embedding), links } = made;
        let (first, rows) = (grids[0].layout, rho_start[shape.grids]);
        let whole = Self {
            shape,
            links,
            center: None,
            matrix: Matrix {
                center: Four::zeroed(&first, true)?,
                straight: Straight::zeroed(&first, true)?,
                corners: Corners::zeroed(&first, shape.nine_points)?,
                nine_points: shape.nine_points,
            },
            aggregated: OnceLock::new(),
            kept: Kept::default(),
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
            projection: Projection::default(),
            sections,
            recursion: Mutex::new(Recursion::V),
            unit: 1.0,
            fresh: true,
            noted: Noted::new(first.cy, 3)?,
            inner_noted: Noted::new(first.cy, 1)?,
            rho: Noted::once(rows + first.cy, 1)?,
            rho_start,
            rho_below: Noted::once(first.cy, 1)?,
            grids,
            scratch: Vec::new(),
            buffers: Vec::new(),
            observed: Observed::default(),
            failure: Mutex::new(None),
        };
        boxed(whole, "a solver's lists")
    }

    /// What the team needs that depends on its size and on the matrix.
    pub fn prepare(&mut self, setup: &Setup, components: &Components, members: usize) -> Result<()> {
        self.unit = setup.unit;
        // Its memory first.
        let before = self.aggregated.take().filter(|_| self.shape.aggregates);
        self.kept = before.map(Aggregated::into_kept).unwrap_or_default();
        self.zero_row_sum = setup.zero_row_sum;
        *self.may_aggregate.get_mut().unwrap_or_else(PoisonError::into_inner) = match setup.aggregation {
            Aggregation::IfSlow(storage) if self.links.is_none() => Some(storage),
            _ => None,
        };
        let width = self.grids[0].layout.cx;
        if self.scratch.len() != members {
            self.scratch.clear();
            for _ in 0..members {
                let rows = zeroed(SCRATCH_ROWS * (width + 2 * BORDER), SCRATCH)?;
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
            // Whoever works on a grid works on those before it: rows of a rank may be fewer than the next grid has.
            let before_is = before.last().is_none_or(|before| before.shared);
            grid.shared = before_is && nodes >= WORTH_A_TEAM && grid.own.len() >= members;
        }
        let domain = self.links.as_ref().map(|links| &links.domain);
        self.projection.set(&self.grids[0].layout, components, self.shape.schur, members, domain)
    }

    /// What other ranks note of rows of grid q.
    pub fn elsewhere(&self, q: usize) -> Option<&dyn Elsewhere> {
        self.links.as_ref()?.of_grid.get(q).map(|sums| sums as &dyn Elsewhere)
    }

    /// z of the next grid, from the kept values of grid q, is there for all who read rows of it.
    pub fn hand_down(&self, q: usize, me: Me) {
        let grid = &self.grids[q];
        let Some(next) = self.grids.get(q + 1) else { return grid.refresh(me, &grid.z) };
        let hands_over = self.links.as_ref().filter(|links| links.domain.strips.depth == q + 1);
        if next.halo.is_some() {
            next.refresh_down(me, grid, self.shape.fused, &next.z);
        } else if let Some(links) = hands_over {
            grid.barrier(me);
            if me.index == 0 {
                let mut t = self.buffers[0].lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the other threads wait at a barrier.
                unsafe { links.hand_over.refresh(&next.layout, &next.z, t.row_mut(0, next.layout.grid.nx)) };
            }
            grid.barrier(me);
        } else {
            grid.refresh(me, &next.z);
        }
    }

    /// Stages that begin and end a solve are fused where CG runs on S1 of a regular system.
    pub fn fuses_ends(&self) -> bool {
        self.shape.fused && self.shape.schur && self.projection.is_empty()
    }

    /// Those of an iteration, too, where M has levels.
    pub fn fused(&self) -> bool {
        self.fuses_ends() && self.aggregated.get().is_none()
    }

    /// Factors of z, which sweeps give times `unit`, in p, and of p, as it is stored, in the direction: in single
    /// precision S1 is divided by `unit` as M is, and p and q = S1 p stay in range.
    pub fn scales(&self) -> (f64, f64) {
        let per_unit = self.unit.recip();
        if F::SINGLE { (1.0, per_unit) } else { (per_unit, 1.0) }
    }

    /// See [`RrbBackend::matrix`](crate::backend::steps::rrb::RrbBackend::matrix).
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
            // SAFETY: once it is factorized no thread writes A.
            unsafe { collect_matrix(layout, j, &m.center, &m.straight, rows) };
        }
        Ok(Some((layout.grid, natural)))
    }

    /// The matrix that CG runs on, for aggregation.
    pub fn source(&self) -> Source<'_> {
        let layout = &self.grids[0].layout;
        let rows = (0..layout.cy).flat_map(|row| Colour::ALL.map(|colour| (colour, row)));
        // SAFETY: once it is factorized no thread writes A.
        let largest = rows.map(|(colour, row)| max_abs(unsafe { self.matrix.center[colour].row(row, 0) }));
        let scale = power_of_two_below(largest.fold(0.0, f64::max)).recip();
        let (matrix, schur, zero_row_sum) = (&self.matrix, self.shape.schur, self.zero_row_sum);
        Source { matrix, layout, schur, zero_row_sum, scale }
    }

    /// Makes aggregation, with so many threads.
    pub fn aggregate(&self, storage: Storage, kept: Kept, members: usize) -> Result<Aggregated<F::Real>> {
        let first = &self.grids[0];
        // SAFETY: once it is factorized no thread writes the matrix.
        unsafe { Aggregated::new(&self.source(), (&first.z, first.z_is_shared), storage, kept, members) }
    }

    /// What the matrix before has left for this one.
    pub fn take_kept(&mut self) -> Kept {
        std::mem::take(&mut self.kept)
    }

    /// After a run that met numbers too large: loops go over the padding too, where 0 * inf would stay for good.
    pub fn clear_vectors(&mut self) {
        // SAFETY: no run is on, since this solver is borrowed mutably; the same below.
        unsafe {
            [&self.b, &self.x].iter().for_each(|v| v.clear());
            [&self.r, &self.p, &self.q].iter().for_each(|v| v.clear());
        }
        // SAFETY: as above.
        unsafe { self.clear_sweeps() };
    }

    /// Those of the sweeps alone.
    ///
    /// # Safety
    /// No thread may use them meanwhile.
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

    /// The cycle in use is recursive, and was chosen, not asked for.
    pub fn chose_recursion(&self) -> bool {
        self.shape.cycle.kind.is_none() && self.recursion().kind != Kind::V
    }

    /// Goes over to the V-cycle.
    pub fn set_plain_cycle(&self) {
        self.natural().set_kind(Kind::V);
        self.recursion.lock().unwrap_or_else(PoisonError::into_inner).kind = Kind::V;
    }

    /// The cycle in use.
    pub fn recursion(&self) -> Recursion {
        *self.recursion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The natural levels, for thread 0.
    pub fn natural(&self) -> MutexGuard<'_, NaturalLevels> {
        self.natural.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Colours that CG works on.
    pub fn system(&self) -> &'static [Colour] {
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
            + self.projection.bytes()
    }
}
