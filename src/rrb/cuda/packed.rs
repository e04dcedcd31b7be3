//! Device memory of a factorization: the levels down to the coarsest system, the vectors of CG, and the scalars. The
//! storage is that of `rrb::layout`, as on the CPU. Here all levels are stored by colour (r1, r2, b1, b2).

use super::aggregated::Aggregated;
use super::division::Division;
use super::program::Programs;
use super::projection::Projection;
use super::source::{Source, SourceShape, Staging};
use crate::base::heap::boxed;
use crate::cuda::driver::{Event, GRANULE, Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, Format, Grid, Kept, LINE, Level as Sweep, Lines, MOST_BLOCKS, MOST_LEFT, Op, Scalars, SchurArrays,
};
use crate::cuda::looped::{Recorded, SharedScalars};
use crate::cuda::plan::Plan;
use crate::error::{Error, Result, collected, reserve};
use crate::rrb::backend::{Aggregation, Setup};
use crate::rrb::layout::Layout;
use crate::rrb::natural::NaturalLevels;
use crate::rrb::recursion::{Cycle, Kind, Recursion};
use crate::rrb::storage::Storage;
use crate::stencil::levels;
use crate::stencil::levels::{Embedding, MOST_INVERTED};
use crate::stencil::matrix::StencilView;

/// Properties that determine the size of the arrays. A factorization with an equal shape reuses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub source: SourceShape,
    pub levels: usize,
    /// CG runs on S1, the Schur complement after the first level.
    pub schur: bool,
    /// Whether stages are fused if S1 is regular, and kernels execute several steps.
    pub fusion: bool,
    pub storage: Storage,
    pub cycle: Cycle,
    /// Whether the hierarchy may be truncated where the remaining couplings are weak.
    pub may_end: bool,
    /// Whether aggregation replaces the levels.
    pub aggregates: bool,
}

impl Shape {
    /// Returns the shape of a factorization of `a`.
    pub fn new(a: &StencilView, setup: &Setup, division: Division) -> Self {
        Self {
            source: SourceShape::new(a, setup.block, division),
            levels: setup.levels,
            schur: setup.on_schur_complement(a),
            fusion: setup.fused,
            storage: setup.storage,
            cycle: setup.cycle,
            may_end: setup.may_end,
            aggregates: setup.aggregation == Aggregation::Instead,
        }
    }

    /// Returns the number of grids stored by colour: every grid whose two levels are eliminated. With aggregation there
    /// is one.
    pub fn grids(&self) -> usize {
        if self.aggregates { 1 } else { self.levels / 2 }
    }

    /// Returns the grid that remains after `grid`; a single node with aggregation.
    fn left_by(&self, grid: levels::Grid) -> levels::Grid {
        if self.aggregates { levels::Grid { nx: 1, ny: 1 } } else { grid.coarse() }
    }

    /// Returns the first grid of each section of the cycle. A section begins at the finest grid and at each recursion.
    pub fn sections(&self) -> Result<Vec<usize>> {
        let recursions = self.cycle.grids(self.levels).filter(|q| *q < self.grids());
        collected(std::iter::once(0).chain(recursions), LEVELS)
    }

    /// Returns whether sweeps compute in f32.
    fn short(&self) -> bool {
        self.storage != Storage::F64
    }

    /// Returns whether the cache of `cache` bytes holds the data that an iteration reads repeatedly, but not also the
    /// data read once. Read once are S1, x and the old p. Half of the cache counts for the latter test: lines that both
    /// halves of the device read are in both halves of the cache.
    fn reads_once(&self, source: &Source, cache: usize) -> bool {
        let (real, stored) = self.sizes();
        // Bytes per value that are read repeatedly: r, q and p; M on the first grid; and M on the other grids, which
        // have 1/3 as many values.
        let again = 9 * 8 + (real + 4 * stored) + (8 * real + 12 * stored) / 3;
        let once = (4 + 4 + 2) * 8 + 2 * 8;
        let places = source.layout.len();
        // Lines of other devices' memory are not in this cache.
        self.source.division == Division::NONE
            && self.schur
            && places * again <= cache
            && cache / 2 < places * (again + once)
    }

    /// Returns the bytes per number in which sweeps compute, and in which M is stored.
    pub fn sizes(&self) -> (usize, usize) {
        match self.storage {
            Storage::F64 => (8, 8),
            Storage::F32 => (4, 4),
            Storage::Bf16 | Storage::Mixed => (4, 2),
        }
    }
}

/// Data of one grid.
pub struct Level {
    pub layout: Layout,
    pub embedding: Embedding,
    /// Arguments of the factorization and of the sweeps for this grid.
    pub k: Grid,
    pub sweep: Sweep,
    /// Addresses of the equal-row flags, as in `Source`. `k.g.uniform` is set to `uniform` if sweeps use the flags.
    pub same: Address,
    pub uniform: Address,
    vectors: Vec<(Address, usize)>,
}

/// The method that solves the coarsest system.
pub enum Remainder {
    /// Product on the device with the explicit inverse, which the device computes too.
    Inverse,
    /// Product on the device with an explicit inverse that the host computes, because an odd level precedes the exact
    /// factorization.
    InverseFromHost(Box<NaturalLevels>),
    /// Band factorization on the host. The loop cannot be recorded in this case.
    Host(Box<NaturalLevels>),
}

/// Addresses of the coarsest system's arrays.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemainderPlaces {
    pub natural: Address,
    pub r: Address,
    pub z: Address,
    pub lines: Lines,
    /// Values of r and z with their epochs, for the exchange between thread blocks (kernels/rrb/cluster.cuh).
    pub slots: Address,
}

/// The preconditioner M, the vectors of CG and the scalars.
pub struct Packed {
    pub shape: Shape,
    pub grids: Vec<Level>,
    /// Number of grids in use; fewer than all if the hierarchy is truncated because the couplings of the last grid's b2
    /// are weak.
    pub used: usize,
    /// Sweeps are in f32, but the coarsest system's inverse remains in f64, in a separate kernel (`MOST_FOR_SHORT`).
    pub wide_remainder: bool,
    pub first: SchurArrays,
    /// Whether the cache holds only the data that an iteration reads repeatedly (`Shape::reads_once`).
    pub reads_once: bool,
    pub remainder: Remainder,
    pub rest: RemainderPlaces,
    /// Grid of the coarsest system.
    pub rest_grid: levels::Grid,
    pub rest_layout: Layout,
    /// Four planes each. If CG runs on S1, r, p, q and z of the first grid have only the two black planes; the
    /// addresses are those of the missing red planes.
    pub b: Address,
    pub x: Address,
    pub r: Address,
    pub p: Address,
    pub q: Address,
    /// Partial sums of the blocks of a launch.
    pub partial: Address,
    /// Partial sums of <r, r> in the unfused steps.
    pub norm_partial: Address,
    /// Partial sums of <r, r> in the fused steps.
    pub fused_norm_partial: Address,
    /// Partial sums of rho.
    pub rho_partial: Address,
    /// Counters of grid-wide barriers.
    pub barrier_at: Address,
    /// Memory through which several devices synchronize, one granule per device.
    pub meeting: Option<Memory>,
    /// Address of the steps of the programs.
    pub ops_at: Address,
    pub programs: Programs,
    /// First grid of each section of the cycle.
    pub sections: Vec<usize>,
    /// Kind, steps and bounds of the cycle in use.
    pub recursion: Recursion,
    /// M is stored divided by `unit`, a power of two.
    pub unit: f64,
    /// A row sum counts as zero if its magnitude is at most this fraction of the center.
    pub zero_row_sum: f64,
    pub scalars: SharedScalars,
    pub projection: Projection,
    /// The recorded loop; none if the host launches each iteration.
    pub recorded: Option<Recorded>,
    /// Whether the recorded loop consists of fused stages.
    pub recorded_fused: bool,
    /// The preconditioner by aggregation, if it replaces the levels.
    pub aggregated: Option<Aggregated>,
    /// Whether a slow solve may change to aggregation.
    pub may_aggregate: bool,
    /// Recorded when the results of a start are in `scalars`; the loop may follow on the stream.
    pub started: Event,
    /// Iteration counts of the last loops, the latest first; 0 if unknown.
    pub taken: [usize; 4],
    /// Device buffers for the caller's b and x if these are on the host.
    pub staging: Option<Staging>,
    /// Seconds per grid in the forward and the backward half, of one run; empty unless requested.
    pub grid_seconds: Vec<[f64; 2]>,
    pub memory: Memory,
    /// Address and bytes of b, x, r, p and q.
    vectors: (Address, usize),
    /// Address and bytes, within the vectors, of the arrays that only the factorization of a short format needs.
    pub transient: (Address, usize),
}

struct Places {
    grids: Vec<Level>,
    first: SchurArrays,
    rest: RemainderPlaces,
    vectors: [Address; 5],
    vector_bytes: usize,
    transient: (Address, usize),
    partial: Address,
    norm_partial: Address,
    fused_norm_partial: Address,
    rho_partial: Address,
    barrier: Address,
    ops: Address,
    scalars: Address,
    plan: Plan,
}

/// Returns the number of planes of 1 / d on a grid. b2 has such a plane only if M may end with the grid.
fn pivots(shape: &Shape, number: usize) -> usize {
    if shape.may_end && number > 0 { 4 } else { 3 }
}

/// Returns the bytes of the arrays that only the factorization of a short format needs.
fn transient_bytes(shape: &Shape) -> Result<usize> {
    if !shape.short() {
        return Ok(0);
    }
    let mut plan = Plan::new(0);
    for (number, grid) in shape.source.grid.chain().take(shape.grids()).enumerate() {
        let (_, rows) = shape.source.division.geometry(&Layout::new(grid, shape.source.block));
        let corners = number > 0 || shape.source.nine_points;
        if number > 0 || !shape.schur {
            for planes in [pivots(shape, number), 8, 4, if number > 0 { 4 } else { 0 }, if corners { 4 } else { 0 }, 4]
            {
                plan.planes(&rows, planes, 8)?;
            }
        }
    }
    Ok(plan.used)
}

/// Purpose of the allocations, for error messages.
const LEVELS: &str = "lists of levels";
/// Largest number of vectors of a grid: z, y, and r, d, q, u of a recursion.
const MOST_VECTORS: usize = 6;

/// Plans of the memory: arrays that remain, and arrays that only the factorization of a short format needs.
struct Plans<'a> {
    stays: Plan,
    transient: Plan,
    shape: &'a Shape,
    source: &'a Source,
}

impl Plans<'_> {
    /// Returns the bytes by which the address of a black-only array is decreased, so that black planes keep their plane
    /// numbers 2 and 3. The addresses of planes 0 and 1 are then invalid and never used.
    fn before(&self, size: usize) -> u64 {
        if self.shape.schur { size as u64 * 2 * self.source.g.plane as u64 } else { 0 }
    }

    /// Plans the arrays of grid `number`; `sections` are the first grids of the sections. `other_p` receives the
    /// address of two black planes on the first grid of S1. They hold z in the unfused steps and the second p in the
    /// fused ones.
    fn level(&mut self, number: usize, sections: &[usize], other_p: &mut Address, layout: Layout) -> Result<Level> {
        let (shape, source) = (self.shape, self.source);
        let ((real, stored), (g, rows)) = (shape.sizes(), shape.source.division.geometry(&layout));
        let rows = &rows;
        let (first, short) = (number == 0, shape.short());
        let (tiles, patches) = g.tiles_and_patches();
        let (same, uniform) = match first {
            true => (source.same, source.uniform),
            false => (self.stays.bytes(patches), self.stays.bytes(tiles)),
        };
        let own = !(first && shape.schur);
        // S1 needs these arrays of the first grid after the factorization.
        let setup = if short && own { &mut self.transient } else { &mut self.stays };
        let mut k = Grid {
            g,
            h: setup.planes(rows, pivots(shape, number), 8)?,
            s: if own { setup.planes(rows, 8, 8)? } else { source.m.straight },
            d: setup.planes(rows, 4, 8)?,
            excess: if first { source.excess } else { setup.planes(rows, 4, 8)? },
            corners: if !first || source.shape.nine_points { setup.planes(rows, 4, 8)? } else { 0 },
            far: setup.planes(rows, 4, 8)?,
            ..Grid::default()
        };
        let mut sweep = Sweep { g, h: k.h, s: k.s, d: k.d, ..Sweep::default() };
        if short {
            // On the first grid of S1, sweeps only read the even level.
            let before = self.before(real);
            let plan = &mut self.stays;
            k.short_h = match own {
                true => plan.planes(rows, pivots(shape, number), real)?,
                false => plan.planes(rows, 1, real)?.wrapping_sub(before),
            };
            k.short_s = if own { plan.planes(rows, 8, stored)? } else { 0 };
            k.short_d = plan.planes(rows, 4, stored)?;
            (sweep.h, sweep.s, sweep.d) = (k.short_h, k.short_s, k.short_d);
        }
        let mut vectors = Vec::new();
        reserve(&mut vectors, MOST_VECTORS, LEVELS)?;
        let before = self.before(real);
        let plan = &mut self.stays;
        let mut vector = |planes: usize, size: usize| {
            let address = plan.planes(rows, planes, size)?;
            vectors.push((address, planes * rows.plane * size));
            Ok(address)
        };
        if own {
            (sweep.z, sweep.y) = (vector(4, real)?, vector(1, real)?);
        } else {
            *other_p = vector(2, 8)?;
            sweep.z = other_p.wrapping_sub(before);
        }
        if sections[1..].contains(&number) {
            for place in [&mut sweep.r, &mut sweep.direction, &mut sweep.q, &mut sweep.u] {
                *place = vector(4, real)?;
            }
            for place in [&mut k.kept_excess, &mut k.kept_corners, &mut k.kept_black] {
                *place = plan.planes(rows, 4, stored)?;
            }
            (sweep.excess, sweep.corners, sweep.black) = (k.kept_excess, k.kept_corners, k.kept_black);
        }
        Ok(Level { layout, embedding: Embedding::FINEST, k, sweep, same, uniform, vectors })
    }

    /// Plans all grids. Returns them and the grid of the coarsest system.
    fn levels(&mut self, sections: &[usize], other_p: &mut Address) -> Result<(Vec<Level>, levels::Grid)> {
        let mut grids: Vec<Level> = Vec::new();
        reserve(&mut grids, self.shape.grids(), LEVELS)?;
        let (mut grid, mut embedding) = (self.source.shape.grid, Embedding::FINEST);
        for number in 0..self.shape.grids() {
            let layout = Layout::new(grid, self.source.shape.block);
            grids.push(Level { embedding, ..self.level(number, sections, other_p, layout)? });
            (embedding, grid) = (embedding.coarse(grid), self.shape.left_by(grid));
        }
        Ok((grids, grid))
    }

    /// Plans the arrays of the coarsest system with `n` nodes and `len` values per plane.
    fn remainder(&mut self, n: usize, len: usize, kind: &Remainder) -> RemainderPlaces {
        let ((real, _), short, plan) = (self.shape.sizes(), self.shape.short(), &mut self.stays);
        let inverted = if matches!(kind, Remainder::Inverse) { n } else { 0 };
        let here = !matches!(kind, Remainder::Host(_));
        RemainderPlaces {
            natural: plan.take(5 * n),
            r: plan.bytes(4 * len * real),
            z: plan.bytes(4 * len * real),
            lines: Lines {
                own: plan.take(inverted * LINE),
                left: plan.take(inverted * LINE),
                right: plan.take(inverted * LINE),
                onward: plan.take(inverted * LINE),
                left_excess: plan.take(inverted),
                right_excess: plan.take(inverted),
                inverse_pivot: plan.take(inverted),
                inverse: plan.take(if here { n * n } else { 0 }),
                narrow: if here && short { plan.bytes(4 * n * n) } else { 0 },
            },
            slots: plan.bytes(2 * n * 16),
        }
    }
}

/// Sets the addresses of each grid's kept values: z of the next grid, or r and z of the coarsest system.
fn connect(grids: &mut [Level], (rest_layout, rest): (&Layout, &RemainderPlaces)) {
    for number in 0..grids.len() {
        let coarse = grids[number].layout.grid.coarse();
        let (nx, ny) = (coarse.nx as i32, coarse.ny as i32);
        grids[number].sweep.kept = match grids.get(number + 1) {
            Some(next) => Kept { g: next.k.g, to: next.sweep.z, from: next.sweep.z, nx, ny },
            None => Kept { g: Division::NONE.geometry(rest_layout).0, to: rest.r, from: rest.z, nx, ny },
        };
    }
}

/// Plans all arrays of a factorization from address `base` on.
fn place(base: Address, shape: &Shape, source: &Source, kind: &Remainder) -> Result<Places> {
    let mut plan = Plan::new(base);
    let rows = &shape.source.division.geometry(&source.layout).1;
    let planes = if shape.schur { 2 } else { 4 };
    let (b, x) = (plan.planes(rows, 4, 8)?, plan.planes(rows, 4, 8)?);
    // r on S1 has b1, b2 and a second b1, which the fused forward half writes.
    let r = plan.planes(rows, planes + usize::from(shape.schur), 8)?;
    let (p, q) = (plan.planes(rows, planes, 8)?, plan.planes(rows, planes, 8)?);
    let vector_bytes = plan.used - (b - base) as usize;
    // Arrays that only the factorization of a short format needs share the memory of the vectors.
    plan.used = plan.used.max(transient_bytes(shape)?);
    let mut plans = Plans { stays: plan, transient: Plan::new(base), shape, source };
    let (sections, mut other_p) = (shape.sections()?, 0);
    let (mut grids, rest_grid) = plans.levels(&sections, &mut other_p)?;
    let rest_layout = Layout::new(rest_grid, source.shape.block);
    let rest = plans.remainder(rest_grid.nodes(), rest_layout.len(), kind);
    connect(&mut grids, (&rest_layout, &rest));
    let before = plans.before(8);
    let Plans { stays: mut plan, transient, .. } = plans;
    let (ops, rho) = Programs::room(&sections, grids.len(), shape.schur, &shape.cycle)?;
    let parts = grids.iter().map(|level| level.k.g.parts() - 1).sum::<usize>() + source.g.parts();
    let (ops, rho_partial) = (plan.bytes(ops * size_of::<Op>()), plan.take(rho + (parts - 1) * MOST_BLOCKS as usize));
    let sums = source.g.parts() * MOST_BLOCKS as usize;
    let (fused_norm_partial, barrier) = (plan.take(sums), plan.bytes(16));
    let (partial, norm_partial) = (plan.take(sums), plan.take(sums));
    let center = if shape.schur { plan.planes(rows, 2, 8)? } else { 0 };
    let scalars = plan.take(size_of::<Scalars>().div_ceil(8));
    let own = 8 * rows.plane as u64;
    let mut first = SchurArrays::default();
    if shape.schur {
        let Grid { g, d, far, .. } = grids[0].k;
        first = SchurArrays {
            g,
            d,
            far,
            center,
            r_b1: [r, r + 2 * own],
            r_b2: r + own,
            x_b1: x + 2 * own,
            x_b2: x + 3 * own,
            q_b1: q,
            q_b2: q + own,
            p_b1: [p, other_p],
            p_b2: [p + own, other_p + own],
            b_b1: b + 2 * own,
            b_b2: b + 3 * own,
            scalars,
        };
    }
    let [r, p, q] = [r, p, q].map(|v| v.wrapping_sub(before));
    Ok(Places {
        grids,
        first,
        rest,
        vectors: [b, x, r, p, q],
        vector_bytes,
        transient: (transient.base, transient.used),
        partial,
        norm_partial,
        fused_norm_partial,
        rho_partial,
        barrier,
        ops,
        scalars,
        plan,
    })
}

impl Packed {
    /// Allocates the memory of a factorization.
    pub fn new(stream: &Stream, shape: Shape, source: &Source) -> Result<Self> {
        let device = stream.device();
        // Sweeps use 32-bit indices.
        if 8 * source.g.plane > i64::from(i32::MAX) {
            return Err(Error::Unsupported(format!(
                "{} x {} points exceed the limit of backend=cuda (about 1e9)",
                shape.source.grid.nx, shape.source.grid.ny
            )));
        }
        let local = shape.levels.saturating_sub(2 * shape.grids());
        let (mut rest_grid, mut embedding) = (shape.source.grid, Embedding::FINEST);
        for _ in 0..shape.grids() {
            embedding = embedding.coarse(rest_grid);
            rest_grid = shape.left_by(rest_grid);
        }
        // The solver of the coarsest system itself has no recursion.
        let plain = Cycle { kind: Some(Kind::V), spacing: 2, steps: 1, jumps: false };
        let on_host = || {
            NaturalLevels::new(rest_grid, embedding, 2 * shape.grids(), shape.levels, &plain, false)
                .and_then(|levels| boxed(levels, LEVELS))
        };
        let remainder = match (rest_grid.nodes() <= MOST_INVERTED, local) {
            (true, 0) => Remainder::Inverse,
            (true, _) => Remainder::InverseFromHost(on_host()?),
            (false, _) => Remainder::Host(on_host()?),
        };
        let plan = place(0, &shape, source, &remainder)?.plan;
        let memory = shape.source.division.memory(stream, &plan, "the levels and vectors")?;
        let devices = shape.source.division.devices;
        let meeting = match devices {
            0 | 1 => None,
            _ => Some(Memory::divided(stream, devices * GRANULE, |granule| granule, "synchronization of devices")?),
        };
        let places = place(memory.address, &shape, source, &remainder)?;
        let [b, x, r, p, q] = places.vectors;
        let scalars = SharedScalars::new(stream, places.scalars, Some(launch::report))?;
        Ok(Self {
            reads_once: shape.reads_once(source, device.cache),
            used: places.grids.len(),
            wide_remainder: false,
            shape,
            grids: places.grids,
            first: places.first,
            remainder,
            rest: places.rest,
            rest_grid,
            rest_layout: Layout::new(rest_grid, shape.source.block),
            b,
            x,
            r,
            p,
            q,
            partial: places.partial,
            norm_partial: places.norm_partial,
            fused_norm_partial: places.fused_norm_partial,
            rho_partial: places.rho_partial,
            barrier_at: places.barrier,
            meeting,
            ops_at: places.ops,
            programs: Programs::default(),
            sections: shape.sections()?,
            recursion: Recursion::V,
            unit: 1.0,
            zero_row_sum: 0.0,
            scalars,
            projection: Projection::default(),
            recorded: None,
            recorded_fused: false,
            aggregated: None,
            may_aggregate: false,
            started: Event::new(device)?,
            taken: [0; 4],
            staging: None,
            grid_seconds: Vec::new(),
            vectors: (b, places.vector_bytes),
            transient: places.transient,
            memory,
        })
    }

    /// Returns whether the levels are the preconditioner, rather than aggregation.
    pub fn levels_are_m(&self) -> bool {
        !self.shape.aggregates && self.aggregated.is_none()
    }

    /// Returns whether stages are fused: CG runs on S1 and nothing is projected between stages.
    pub fn fused(&self) -> bool {
        self.shape.fusion && self.shape.schur && self.projection.is_empty() && self.levels_are_m()
    }

    /// Returns whether M may be truncated after grid q if the remaining couplings are weak.
    pub fn may_end_after(&self, q: usize) -> bool {
        self.shape.may_end && (1..self.grids.len() - 1).contains(&q) && q < MOST_LEFT
    }

    /// Returns whether M is truncated. b2 of the last grid in use is then solved by its diagonal.
    pub fn ends_early(&self) -> bool {
        self.used < self.grids.len()
    }

    /// Returns the first grids of the sections in use.
    pub fn sections_in_use(&self) -> Result<Vec<usize>> {
        collected(self.sections.iter().copied().filter(|q| *q < self.used), LEVELS)
    }

    /// Returns the first plane and the number of planes that CG works on.
    pub fn system(&self) -> (i32, i32) {
        if self.shape.schur { (2, 2) } else { (0, 4) }
    }

    /// Allocates device buffers for the caller's host arrays and returns their addresses.
    pub fn stage(&mut self, stream: &Stream, source: &Source) -> Result<[Address; 2]> {
        if self.staging.is_none() {
            self.staging = Some(Staging::new(stream, &self.shape.source.division, &source.g)?);
        }
        Ok(self.staging.as_ref().map_or([0; 2], |s| s.arrays))
    }

    /// Zeros all vectors with their padding after an overflow, because 0 * inf in the padding would remain NaN.
    pub fn clear_vectors(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.vectors.0, 0, self.vectors.1)?;
        for &(address, bytes) in self.grids.iter().flat_map(|level| &level.vectors) {
            stream.fill(address, 0, bytes)?;
        }
        Ok(())
    }

    /// Zeros the memory shared by vectors and factorization arrays, before and after a factorization, so that borders
    /// are zero.
    pub fn clear_transient(&self, stream: &Stream) -> Result<()> {
        let (address, bytes) = self.transient;
        if bytes > 0 { stream.fill(address, 0, bytes) } else { Ok(()) }
    }

    /// Returns whether the library, not the caller, has chosen the recursive cycle in use.
    pub fn chose_recursion(&self) -> bool {
        self.shape.cycle.kind.is_none() && self.recursion.kind != Kind::V && self.levels_are_m()
    }

    /// Returns the storage format of M, for the factorization.
    pub fn format(&self) -> Format {
        Format::new(self.shape.storage, self.unit)
    }

    /// Returns whether sweeps compute in f32.
    pub fn short(&self) -> bool {
        self.shape.short()
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        let of_cycle = self.aggregated.as_ref().map_or(0, Aggregated::bytes);
        let meeting = self.meeting.as_ref().map_or(0, |m| m.bytes);
        self.memory.bytes
            + meeting
            + self.staging.as_ref().map_or(0, |s| s.memory.bytes)
            + self.projection.bytes()
            + of_cycle
    }

    /// Returns the bytes of host memory.
    pub fn host_bytes(&self) -> usize {
        match &self.remainder {
            Remainder::Inverse => 0,
            Remainder::InverseFromHost(natural) | Remainder::Host(natural) => natural.bytes(),
        }
    }
}
