//! What the `cpu` backend keeps: the matrix, the levels on r1/r2/b1/b2 grids, the natural levels below them,
//! and the vectors.

use super::area::{Area, Four};
use super::format::{Format, Short};
use super::fused::{Buffers, StageSums};
use super::making::{Making, WORTH_WINDOWS};
use super::neighbours::{Diagonal, Distant, Rows, Straight};
use super::passing::{Passing, WORTH_PASSING};
use super::projection::Projection;
use crate::backend::coarse::levels::NaturalLevels;
use crate::backend::steps::cycle::{Cycle, Kind, Recursion};
use crate::backend::steps::rrb::{Inputs, Setup};
use crate::backend::storage::Storage;
use crate::error::{Error, Result, collected, push, reserve, zeroed};
use crate::grid::components::Components;
use crate::grid::layout::{Colour, Layout};
use crate::grid::levels::{Embedding, Grid};
use crate::grid::stencil::StencilView;
use crate::runtime::number::Real;
use crate::runtime::reduce::pairwise;
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::{Me, share};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Below this many nodes a grid is left to member 0: a barrier costs more than the work.
pub const WORTH_A_TEAM: usize = 8192;

/// Numbers that a row may note in a turn, see `Packed::noted`.
const NOTED: usize = 3;

/// Values beside a row of scratch space: a neighbour to the left and right is read.
pub const BORDER: usize = 8;

/// Rows of scratch space: four reds of `through_reds`, two and two of b1 and r2, r1, b2 and one more of `ends`. Coarse
/// stencils take five.
const SCRATCH_ROWS: usize = 11;

/// What arrays are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    grid: Grid,
    levels: usize,
    grids: usize,
    block: usize,
    /// CG runs on S1.
    pub schur: bool,
    /// Fused stages: of an iteration where CG runs on S1, else of the sweeps alone.
    pub fused: bool,
    pub nine_points: bool,
    pub storage: Storage,
    /// CG in single precision.
    single: bool,
    pub cycle: Cycle,
}

impl Shape {
    pub fn new(a: &StencilView, setup: &Setup) -> Self {
        Self {
            grid: a.grid,
            levels: setup.levels,
            grids: setup.grids,
            block: setup.block,
            schur: setup.on_schur_complement(a),
            fused: setup.fused,
            nine_points: a.corners.is_some(),
            storage: setup.storage,
            single: setup.single,
            cycle: setup.cycle,
        }
    }
}

/// A, by colour.
pub struct Matrix {
    pub center: Four,
    pub straight: Straight,
    /// r1 to r2; absent with 5 points.
    pub red_diagonal: Diagonal,
    /// b1 to b2; absent with 5 points.
    pub black_diagonal: Diagonal,
}

impl Matrix {
    /// Couplings of row J of a colour to its diagonal neighbours.
    ///
    /// # Safety
    /// Nobody may write A meanwhile.
    pub unsafe fn corners(&self, colour: Colour, row: usize) -> Rows<'_> {
        let diagonal = match colour {
            Colour::R1 | Colour::R2 => &self.red_diagonal,
            Colour::B1 | Colour::B2 => &self.black_diagonal,
        };
        // SAFETY: as the caller promised.
        unsafe { diagonal.couplings(colour, row) }
    }
}

/// One r1/r2/b1/b2 grid: its matrix in excess form, what the two levels make of it, and z.
pub struct PackedGrid<F: Format> {
    pub layout: Layout,
    pub embedding: Embedding,
    /// More than one member works on it.
    pub shared: bool,
    /// Row sums; at eliminated nodes afterwards excess / d. Absent on the first grid of S1, see [`Making`].
    pub excess: Four,
    /// Straight couplings; absent on the first grid of S1, which takes those of A.
    pub straight: Straight,
    /// Whether red nodes are coupled: not on the first grid of a 5-point matrix.
    pub corners: bool,
    /// r1 to r2, lumped away by the odd level.
    pub red_diagonal: Diagonal,
    /// b1 to b2; after the odd level those of the skew stencil.
    pub black_diagonal: Diagonal,
    /// At distance two, after the odd level.
    pub b1_distant: Distant,
    pub b2_distant: Distant,
    /// 1 / d; b2 is not eliminated here. On the first grid of S1 at b1 alone, and in short formats not at all.
    pub inverse: Four,
    /// Windows in place of those of the above that only the factorization reads.
    pub passing: Option<Passing>,
    /// What sweeps read in place of the above, in short formats.
    pub own: F::Own,
    pub z: Four<F::Real>,
    /// Where the cycle recurses.
    pub recursion: Option<RecursionGrid<F>>,
}

/// The matrix of a recursion grid before its levels change it, in excess form, and the vectors of the iteration.
pub struct RecursionGrid<F: Format> {
    pub excess: Four<F::Stored>,
    pub red_diagonal: Diagonal<F::Stored>,
    pub black_diagonal: Diagonal<F::Stored>,
    pub r: Four<F::Real>,
    pub d: Four<F::Real>,
    pub q: Four<F::Real>,
    pub u: Four<F::Real>,
}

/// S1: nine points on black nodes, at distance two and diagonally.
pub struct Schur<V> {
    /// Of b1 and b2: the diagonal, or what [`Format::multiply`] wants in its place.
    pub center: [Area<V>; 2],
    /// b1 to b2.
    pub diagonal: Diagonal<V>,
    pub b1_distant: Distant<V>,
    pub b2_distant: Distant<V>,
}

impl<V: Real + Number> Schur<V> {
    /// In the arrays of the factorization of the first grid where they are of this type.
    fn new<F: Format<Vector = V>>(first: &PackedGrid<F>, present: bool) -> Result<Self> {
        let layout = &first.layout;
        let zeroed = || if present { Area::zeroed(layout) } else { Area::absent() };
        let area = |wide: &Area| F::narrow(wide).map_or_else(zeroed, Ok);
        let distant =
            |wide: &Distant| -> Result<_> { Ok(Distant { east: area(&wide.east)?, north: area(&wide.north)? }) };
        let [southwest, southeast, northwest, northeast] = &first.black_diagonal.of;
        Ok(Self {
            center: [zeroed()?, zeroed()?],
            diagonal: Diagonal { of: [area(southwest)?, area(southeast)?, area(northwest)?, area(northeast)?] },
            b1_distant: distant(&first.b1_distant)?,
            b2_distant: distant(&first.b2_distant)?,
        })
    }

    /// Bytes of what is not the first grid's.
    fn bytes<F: Format<Vector = V>>(&self) -> usize {
        let couplings = self.diagonal.bytes() + self.b1_distant.bytes() + self.b2_distant.bytes();
        self.center[0].bytes() + self.center[1].bytes() + if F::SINGLE { couplings } else { 0 }
    }
}

/// An array of doubles as a vector of CG.
fn narrow_four<F: Format>(v: &Four) -> Result<Four<F::Vector>> {
    let area = |wide| F::narrow(wide).map_or_else(Area::absent, Ok);
    Ok(Four { r1: area(&v.r1)?, r2: area(&v.r2)?, b1: area(&v.b1)?, b2: area(&v.b2)? })
}

/// Vectors that lend the first grid their memory.
struct Vectors<'a, F: Format> {
    x: &'a Four,
    p: Option<&'a Four>,
    z: Option<Four<F::Real>>,
}

/// Where CG runs on A, z of the first grid in the memory of q, if both hold the same numbers. The steps of
/// `solver::krylov` need them in turn: `multiply` fills q, which `advance_residual` alone reads, before any
/// `precondition`; that fills z, which `first_direction`, `next_direction` and `take_z` read before the next
/// `multiply`. In these steps members touch rows of their own; others read their rows of z in sweeps alone, for whose
/// end the sum of `precondition` waits. Padding and border of both are zero, and estimates sweep coarser grids. Fused
/// stages of an iteration, which are for S1, need both at once.
fn z_in_q<F: Format>(shape: &Shape, q: &Four<F::Vector>) -> Option<Four<F::Real>> {
    if shape.schur { None } else { q.again_of() }
}

/// For errors.
const SCRATCH: &str = "rows of scratch space";

/// The whole.
pub struct Packed<F: Format> {
    pub shape: Shape,
    pub matrix: Matrix,
    /// Where CG runs on S1, once `prepare` was there.
    pub making: Option<Making>,
    /// What CG runs on, where that is not A.
    pub schur: Schur<F::Vector>,
    pub grids: Vec<PackedGrid<F>>,
    /// First grid of each section of the cycle.
    pub sections: Vec<usize>,
    pub recursion: Mutex<Recursion>,
    /// What M is divided by as stored.
    pub unit: f64,
    /// Not factorized yet.
    pub fresh: bool,
    /// Levels below the packed grids; member 0 alone works on them.
    natural: Mutex<NaturalLevels>,
    pub b: Four,
    pub x: Four,
    /// x as one of the vectors of CG; absent where they are in single precision.
    pub x_in_cg: Four<F::Vector>,
    pub r: Four<F::Vector>,
    pub p: Four<F::Vector>,
    pub q: Four<F::Vector>,
    pub projection: Projection,
    /// Sums of the fused stages: see `fused::StageSums`.
    pub stage_sums: StageSums,
    /// `NOTED` values per row of the first grid, twice: a sum may be written while the one before is still read.
    partial: [Shared; 2],
    /// The same for recursion grids.
    pub inner_partial: [Shared; 2],
    /// Rows that stay in cache, per member.
    pub scratch: Vec<Mutex<Vec<f64>>>,
    /// Rows that fused stages keep in cache, per member.
    pub buffers: Vec<Mutex<Buffers<F::Real>>>,
    pub inputs: Mutex<Inputs>,
    /// The observer's answer, and whether members must wait for it.
    pub stop: AtomicBool,
    pub may_stop: AtomicBool,
    pub failure: Mutex<Option<Error>>,
}

impl<F: Format> Packed<F> {
    pub fn new(shape: Shape) -> Result<Self> {
        Self::with_windows_from(shape, WORTH_PASSING)
    }

    /// The first two grids, if they have so many nodes, keep no rows that nobody reads after their factorization.
    pub fn with_windows_from(shape: Shape, worth_passing: usize) -> Result<Self> {
        let first = Layout::new(shape.grid, shape.block);
        let mut grids = Vec::new();
        reserve(&mut grids, shape.grids, "the list of grids")?;
        let (mut grid, mut embedding) = (shape.grid, Embedding::FINEST);
        // What a factorization of the first grid needs only while it runs lies in the memory of vectors.
        let x = Four::zeroed(&first, true)?;
        let p = Four::zeroed(&first, !shape.schur)?;
        let a_times_p = Four::zeroed(&first, !shape.schur)?;
        let mut vectors = Some(Vectors { x: &x, p: F::wide_four(&p), z: z_in_q::<F>(&shape, &a_times_p) });
        let mut sections = collected([0], "sections of the cycle")?;
        for q in 0..shape.grids {
            let recurses = shape.cycle.grids(shape.levels).any(|start| start == q);
            if recurses {
                push(&mut sections, q, "sections of the cycle")?;
            }
            let passes = q < 2 && q + 1 < shape.grids && grid.nodes() >= worth_passing;
            grids.push(PackedGrid::new(grid, embedding, shape, vectors.take(), recurses, passes)?);
            embedding = embedding.coarse(grid);
            grid = grid.coarse();
        }
        let reds = !shape.schur;
        Ok(Self {
            shape,
            matrix: Matrix {
                center: Four::zeroed(&first, true)?,
                straight: Straight::zeroed(&first, true)?,
                red_diagonal: Diagonal::zeroed(&first, shape.nine_points)?,
                black_diagonal: Diagonal::zeroed(&first, shape.nine_points)?,
            },
            making: None,
            schur: Schur::new(&grids[0], shape.schur)?,
            natural: Mutex::new(NaturalLevels::new(
                grid,
                embedding,
                2 * shape.grids,
                shape.levels,
                &shape.cycle,
                false,
            )?),
            b: Four::zeroed(&first, true)?,
            x_in_cg: narrow_four::<F>(&x)?,
            x,
            r: Four::zeroed(&first, reds)?,
            p,
            q: a_times_p,
            projection: Projection::default(),
            stage_sums: StageSums::new(&grids)?,
            grids,
            sections,
            recursion: Mutex::new(Recursion::V),
            unit: 1.0,
            fresh: true,
            partial: [Shared::zeroed(NOTED * first.cy)?, Shared::zeroed(NOTED * first.cy)?],
            inner_partial: [Shared::zeroed(first.cy)?, Shared::zeroed(first.cy)?],
            scratch: Vec::new(),
            buffers: Vec::new(),
            inputs: Mutex::new(Inputs::none()),
            stop: AtomicBool::new(false),
            may_stop: AtomicBool::new(false),
            failure: Mutex::new(None),
        })
    }

    /// Members that have something to do.
    pub fn useful_members(&self, wanted: usize) -> usize {
        let layout = &self.grids[0].layout;
        if layout.grid.nodes() >= WORTH_A_TEAM { wanted.clamp(1, layout.cy) } else { 1 }
    }

    /// What the team needs that depends on its size and on the matrix.
    pub fn prepare(&mut self, setup: &Setup, components: &Components, members: usize) -> Result<()> {
        self.unit = setup.unit;
        let layout = self.grids[0].layout;
        if self.shape.schur && self.making.as_ref().is_none_or(|making| making.members != members) {
            // The natural grid that follows a single one is made of all rows of it.
            let windows = layout.grid.nodes() >= WORTH_WINDOWS && self.grids.len() > 1;
            self.making = Some(self.making_of(windows, members)?);
        }
        let width = layout.cx;
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
            grid.shared = layout.grid.nodes() >= WORTH_A_TEAM && layout.cy >= members;
            grid.make_windows(before.last(), members)?;
        }
        self.projection.set(&self.grids[0].layout, components, self.shape.schur, members)
    }

    /// Stages are fused where CG runs on S1 of a regular system.
    pub fn fused(&self) -> bool {
        self.shape.fused && self.shape.schur && self.projection.is_empty()
    }

    /// Factors of z, which sweeps give times `unit`, in p, and of p, as it is stored, in the direction: in single
    /// precision S1 is divided by `unit` as M is, and p and q = S1 p stay in range.
    pub fn scales(&self) -> (f64, f64) {
        let per_unit = self.unit.recip();
        if F::SINGLE { (1.0, per_unit) } else { (per_unit, 1.0) }
    }

    /// Before a run.
    pub fn start_run(&mut self, may_stop: bool) {
        *self.inputs.get_mut().unwrap_or_else(PoisonError::into_inner) = Inputs::none();
        *self.may_stop.get_mut() = may_stop;
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
    /// Nobody may use them meanwhile.
    pub unsafe fn clear_sweeps(&self) {
        self.natural().clear_vectors();
        for grid in &self.grids {
            // SAFETY: as the caller promised.
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

    /// The natural levels, for member 0.
    pub fn natural(&self) -> MutexGuard<'_, NaturalLevels> {
        self.natural.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Part of row J of an array of S1, from column I = start on, past the caches.
    ///
    /// # Safety
    /// The row must be this member's, and nobody may use it.
    pub unsafe fn keep_row(&self, area: &Area<F::Vector>, row: usize, start: usize, values: &[f64]) {
        // SAFETY: as the caller promised.
        F::keep(unsafe { &mut area.row_mut(row, 0)[start..][..values.len()] }, values, self.unit.recip());
    }

    /// Colours that CG works on.
    pub fn system(&self) -> &'static [Colour] {
        if self.shape.schur { &[Colour::B1, Colour::B2] } else { &[Colour::R1, Colour::R2, Colour::B1, Colour::B2] }
    }

    /// Sum over the rows J of the first grid of `of_row(J)`: each member does its own rows, then all add the
    /// rows in the same order.
    pub fn sum_over_rows(&self, me: Me, turn: &mut usize, of_row: impl FnMut(usize) -> f64) -> f64 {
        pairwise(self.over_rows(me, turn, of_row))
    }

    /// `of_row(J)` for all rows J of the first grid, each from its owner.
    pub fn over_rows(&self, me: Me, turn: &mut usize, mut of_row: impl FnMut(usize) -> f64) -> &[f64] {
        for row in self.grids[0].rows(me) {
            // SAFETY: a row of this member, noted once.
            unsafe { self.note_row(*turn, row, [of_row(row)]) };
        }
        let [all] = self.noted(me, turn);
        all
    }

    /// Up to `NOTED` numbers of a row J of the first grid.
    ///
    /// # Safety
    /// The row must be this member's, and nothing may be noted of it twice in a turn.
    pub unsafe fn note_row<const N: usize>(&self, turn: usize, row: usize, values: [f64; N]) {
        let partial = &self.partial[turn % 2];
        for (k, value) in values.into_iter().enumerate() {
            // SAFETY: as the caller promised; the last use of this array ended before the barrier between.
            unsafe { partial.slice_mut(k * self.grids[0].layout.cy + row, 1)[0] = value };
        }
    }

    /// What all members have noted of all rows in this turn, number by number.
    pub fn noted<const N: usize>(&self, me: Me, turn: &mut usize) -> [&[f64]; N] {
        let (partial, rows) = (&self.partial[*turn % 2], self.grids[0].layout.cy);
        *turn += 1;
        me.barrier();
        // SAFETY: written before the barrier; written again only after the barrier of the next turn.
        std::array::from_fn(|k| unsafe { partial.slice(k * rows, rows) })
    }

    /// Bytes that the first grid counts and the vectors too.
    fn vectors_in_the_first_grid(&self) -> usize {
        if self.shape.schur {
            return 0;
        }
        self.x.bytes()
            + F::short(&self.grids[0].own).map_or(0, |_| self.p.bytes())
            + z_in_q::<F>(&self.shape, &self.q).map_or(0, |z| z.bytes())
    }

    pub fn bytes(&self) -> usize {
        let m = &self.matrix;
        [&m.center, &self.b, &self.x].iter().map(|v| v.bytes()).sum::<usize>()
            + [&self.r, &self.p, &self.q].iter().map(|v| v.bytes()).sum::<usize>()
            + m.straight.bytes()
            + m.red_diagonal.bytes()
            + m.black_diagonal.bytes()
            + self.schur.bytes::<F>()
            + self.making.as_ref().map_or(0, |making| making.own_bytes)
            + self.grids.iter().map(PackedGrid::bytes).sum::<usize>()
            - self.vectors_in_the_first_grid()
            + self.natural().bytes()
            + self.projection.bytes()
    }
}

impl<F: Format> PackedGrid<F> {
    /// `vectors`: for the first grid; `passes`: with windows.
    fn new(
        grid: Grid,
        embedding: Embedding,
        shape: Shape,
        vectors: Option<Vectors<F>>,
        recurses: bool,
        passes: bool,
    ) -> Result<Self> {
        let first = vectors.is_some();
        let layout = Layout::new(grid, shape.block);
        let own_reds = !(first && shape.schur);
        let corners = !first || shape.nine_points;
        let own = F::own(&layout, own_reds)?;
        let passing = (passes && own_reds).then(|| Passing::new(!first, F::short(&own).is_some()));
        let [sums, reds, straight, pivots] = passing.as_ref().map_or([true; 4], Passing::keeps);
        let all = || if sums { Four::zeroed(&layout, true) } else { Four::absent() };
        let (excess, inverse) = match (&vectors, F::short(&own)) {
            (Some(_), Some(_)) if shape.schur => (Four::absent()?, Four::absent()?),
            (Some(_), None) if shape.schur => (Four::absent()?, Four::eliminated(&layout, false)?),
            (Some(Vectors { x, p: Some(p), .. }), Some(_)) => (x.again(), p.again()),
            (Some(Vectors { x, .. }), _) => (x.again(), Four::eliminated(&layout, true)?),
            (None, _) => (all()?, if pivots { Four::eliminated(&layout, true)? } else { Four::absent()? }),
        };
        // Those of S1 in single precision are made in windows.
        let wide = !(first && shape.schur && F::SINGLE);
        let recursion = if recurses { Some(RecursionGrid::new(&layout)?) } else { None };
        let z = vectors.and_then(|vectors| vectors.z).map_or_else(|| Four::zeroed(&layout, own_reds), Ok)?;
        Ok(Self {
            own,
            inverse,
            recursion,
            embedding,
            shared: false,
            excess,
            straight: Straight::zeroed(&layout, own_reds && straight)?,
            corners,
            red_diagonal: Diagonal::zeroed(&layout, corners && reds)?,
            black_diagonal: Diagonal::zeroed(&layout, wide && straight)?,
            b1_distant: Distant::zeroed(&layout, wide && passing.is_none())?,
            b2_distant: Distant::zeroed(&layout, wide && passing.is_none())?,
            passing,
            z,
            layout,
        })
    }

    /// Rows J of the compute areas that are this member's.
    pub fn rows(&self, me: Me) -> std::ops::Range<usize> {
        self.rows_of(me.index, me.members)
    }

    /// Those of a member.
    pub fn rows_of(&self, member: usize, members: usize) -> std::ops::Range<usize> {
        match (self.shared, member) {
            (true, _) => share(self.layout.cy, member, members),
            (false, 0) => 0..self.layout.cy,
            (false, _) => 0..0,
        }
    }

    /// A barrier, where more than one member works on this grid.
    pub fn barrier(&self, me: Me) {
        if self.shared {
            me.barrier();
        }
    }

    fn bytes(&self) -> usize {
        self.excess.bytes()
            + self.straight.bytes()
            + self.red_diagonal.bytes()
            + self.black_diagonal.bytes()
            + self.b1_distant.bytes()
            + self.b2_distant.bytes()
            + self.inverse.bytes()
            + F::short(&self.own).map_or(0, Short::bytes)
            + self.z.bytes()
            + self.recursion.as_ref().map_or(0, RecursionGrid::bytes)
    }
}

impl<F: Format> RecursionGrid<F> {
    fn new(layout: &Layout) -> Result<Self> {
        let vector = || Four::zeroed(layout, true);
        Ok(Self {
            excess: Four::zeroed(layout, true)?,
            red_diagonal: Diagonal::zeroed(layout, true)?,
            black_diagonal: Diagonal::zeroed(layout, true)?,
            r: vector()?,
            d: vector()?,
            q: vector()?,
            u: vector()?,
        })
    }

    fn bytes(&self) -> usize {
        let vectors = [&self.r, &self.d, &self.q, &self.u];
        self.excess.bytes()
            + self.red_diagonal.bytes()
            + self.black_diagonal.bytes()
            + vectors.iter().map(|v| v.bytes()).sum::<usize>()
    }
}
