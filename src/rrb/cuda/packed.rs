//! Device memory of a factorization: the levels down to the coarsest system, the vectors of CG, and the scalars. As on
//! the CPU, `rrb::layout` defines the storage. On a device, all levels are stored by colour (r1, r2, b1, b2).

use super::aggregated::Aggregated;
use super::division::Division;
use super::program::Programs;
use super::projection::Projection;
use super::source::{Source, SourceShape, Staging};
use crate::base::heap::boxed;
use crate::cuda::driver::{Event, GRANULE_BYTES, Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, Format, Grid, Kept, LINE_NODES, Level as Sweep, Lines, MOST_BLOCKS, MOST_TESTED_GRIDS, Op, Scalars,
    SchurArrays,
};
use crate::cuda::layout::MemoryLayout;
use crate::cuda::looped::{Recorded, SharedScalars};
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
    /// Whether CG runs on S1, the Schur complement after the first level.
    pub schur: bool,
    /// Whether a kernel may execute several steps, and stages may be fused (conditions: `Packed::fused`).
    pub fusion: bool,
    pub storage: Storage,
    pub cycle: Cycle,
    /// Whether the hierarchy may be truncated where the remaining couplings are weak.
    pub may_truncate: bool,
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
            may_truncate: setup.may_truncate,
            aggregates: setup.aggregation == Aggregation::FromStart,
        }
    }

    /// Returns the number of grids that are stored by colour. There is one grid per two levels; with aggregation, there
    /// is one grid.
    pub fn grids(&self) -> usize {
        if self.aggregates { 1 } else { self.levels / 2 }
    }

    /// Returns the grid that remains after the levels of `grid`. With aggregation, it is a single node.
    fn grid_after(&self, grid: levels::Grid) -> levels::Grid {
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

    /// Returns whether a cache of `cache` bytes can hold the data that an iteration reads repeatedly, but not also S1
    /// and x, which it reads only once. For the second condition, only half of the cache counts, because lines that
    /// both halves of the device read are stored in both halves of the cache.
    fn reads_once(&self, source: &Source, cache: usize) -> bool {
        let (real, stored) = self.sizes();
        // Bytes per value of a plane of the first grid. Read repeatedly: r (3 planes), q (2) and both arrays of p (4);
        // M on the first grid; and M and the vectors of the sweeps on the other grids, whose planes have a third as
        // many values in total. Read once: S1 (10 planes) and x (2).
        let again = 9 * 8 + (real + 4 * stored) + (8 * real + 12 * stored) / 3;
        let once = (4 + 4 + 2) * 8 + 2 * 8;
        let values_per_plane = source.layout.len();
        // This estimate does not hold for several devices, because the cache does not hold memory of other devices.
        self.source.division == Division::NONE
            && self.schur
            && values_per_plane * again <= cache
            && cache / 2 < values_per_plane * (again + once)
    }

    /// Returns two sizes in bytes: of the numbers in which sweeps compute and pivots are stored, and of the stored
    /// couplings and row sums of M.
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
    /// Arguments of the factorization kernels for this grid.
    pub k: Grid,
    pub sweep: Sweep,
    /// Addresses of the flags for equal rows, as in `Source`. `k.g.uniform` is `uniform` if sweeps use the flags, and 0
    /// otherwise.
    pub equal_rows: Address,
    pub uniform: Address,
    vectors: Vec<(Address, usize)>,
}

/// Method for the coarsest system.
pub enum CoarsestSolver {
    /// Product on the device with the explicit inverse, which the device also computes.
    Inverse,
    /// Product on the device with the explicit inverse, which the host computes. It is used if the last level is odd.
    InverseFromHost(Box<NaturalLevels>),
    /// Band factorization on the host. The loop cannot be recorded in this case.
    Host(Box<NaturalLevels>),
}

/// Addresses of the coarsest system's arrays.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoarsestArrays {
    pub natural: Address,
    pub r: Address,
    pub z: Address,
    pub lines: Lines,
    /// Slots for values of r and z with epoch numbers, through which thread blocks exchange them
    /// (kernels/rrb/cluster.cuh).
    pub slots: Address,
}

/// The preconditioner M, the vectors of CG and the scalars.
pub struct Packed {
    pub shape: Shape,
    pub grids: Vec<Level>,
    /// Number of grids in use. If the couplings between the nodes that remain after a grid (b2) are weak, the hierarchy
    /// is truncated after this grid.
    pub used: usize,
    /// Whether the inverse of the coarsest system remains in f64 although sweeps compute in f32
    /// (`MAX_RATIO_FOR_SHORT`). A separate kernel then applies it.
    pub wide_coarsest: bool,
    pub first: SchurArrays,
    /// Whether the cache holds only the data that an iteration reads repeatedly (`Shape::reads_once`).
    pub reads_once: bool,
    pub coarsest_solver: CoarsestSolver,
    pub coarsest: CoarsestArrays,
    /// Grid of the coarsest system.
    pub coarsest_grid: levels::Grid,
    pub coarsest_layout: Layout,
    /// Vectors with four planes each. If CG runs on S1, r, p, q and z of the first grid have only the two black planes
    /// (r also has a second plane for b1). Their addresses are still those at which the red planes would begin.
    pub b: Address,
    pub x: Address,
    pub r: Address,
    pub p: Address,
    pub q: Address,
    /// Partial sums of a launch: one per thread block and part of the grid (see kernels/rrb/divided.cuh).
    pub partial: Address,
    /// Partial sums of <r, r> in the unfused steps.
    pub norm_partial: Address,
    /// Partial sums of <r, r> in the fused steps.
    pub fused_norm_partial: Address,
    /// Partial sums of rho = <r, M^-1 r>.
    pub rho_partial: Address,
    /// Counters for barriers of all thread blocks of a launch.
    pub barrier_at: Address,
    /// Memory through which several devices synchronize. It has one granule per device.
    pub synchronization: Option<Memory>,
    /// Address of the lists of steps.
    pub ops_at: Address,
    pub programs: Programs,
    /// First grid of each section, that is, of the levels from one recursion of the cycle to the next.
    pub sections: Vec<usize>,
    /// Kind, steps and bounds of the cycle in use.
    pub recursion: Recursion,
    /// Power of two by which M is divided before it is stored.
    pub unit: f64,
    /// A row sum whose magnitude is at most this fraction of the center counts as zero.
    pub zero_row_sum: f64,
    pub scalars: SharedScalars,
    pub projection: Projection,
    /// The recorded loops, which may be an empty list (`Packed::record`). `None` if solves launch each step separately.
    pub recorded: Option<Recorded>,
    /// Whether the recorded loops consist of fused stages.
    pub recorded_fused: bool,
    /// The preconditioner by aggregation, if it replaces the levels.
    pub aggregated: Option<Aggregated>,
    /// Whether a slow solve may switch to aggregation.
    pub may_aggregate: bool,
    /// Event that is recorded when the results of a start are in `scalars`. The loop may already follow on the stream.
    pub started: Event,
    /// Iteration counts of the last loops, the most recent one first; 0 if unknown.
    pub recent_iterations: [usize; 4],
    /// Device buffers for the caller's b and x if these are on the host.
    pub staging: Option<Staging>,
    /// Seconds per grid in the forward and in the backward half of the cycle during a run. The last entry is for the
    /// coarsest system and for kernels that execute several steps. Empty unless times are measured.
    pub grid_seconds: Vec<[f64; 2]>,
    pub memory: Memory,
    /// Address, and size in bytes, of the memory that contains b, x, r, p and q.
    vectors: (Address, usize),
    /// Address and size of the arrays that only the factorization of a short format needs. They are stored in the
    /// memory of the vectors.
    pub transient: (Address, usize),
}

struct Addresses {
    grids: Vec<Level>,
    first: SchurArrays,
    coarsest: CoarsestArrays,
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
    memory_layout: MemoryLayout,
}

/// Returns the number of planes of 1 / d on a grid. There is a plane for b2 only if the hierarchy may be truncated
/// after this grid.
fn pivots(shape: &Shape, number: usize) -> usize {
    if shape.may_truncate && number > 0 { 4 } else { 3 }
}

/// Returns the bytes of the arrays that only the factorization of a short format (f32 or bf16) needs.
fn transient_bytes(shape: &Shape) -> Result<usize> {
    if !shape.short() {
        return Ok(0);
    }
    let mut memory_layout = MemoryLayout::new(0);
    for (number, grid) in shape.source.grid.chain().take(shape.grids()).enumerate() {
        let (_, rows) = shape.source.division.geometry(&Layout::new(grid, shape.source.block));
        let corners = number > 0 || shape.source.nine_points;
        if number > 0 || !shape.schur {
            for planes in [pivots(shape, number), 8, 4, if number > 0 { 4 } else { 0 }, if corners { 4 } else { 0 }, 4]
            {
                memory_layout.planes(&rows, planes, 8)?;
            }
        }
    }
    Ok(memory_layout.used)
}

/// Name of the memory in error messages about failed allocations.
const LEVELS: &str = "lists of levels";
/// Largest number of vectors of a grid: z, y, and r, d, q, u of a recursion.
const MOST_VECTORS: usize = 6;

/// Layouts of two kinds of memory: for arrays that remain, and for arrays that only the factorization of a short format
/// needs.
struct Layouts<'a> {
    permanent: MemoryLayout,
    transient: MemoryLayout,
    shape: &'a Shape,
    source: &'a Source,
}

impl Layouts<'_> {
    /// Returns the number of bytes by which the address of an array with only the black planes is decreased, so that
    /// these planes have the numbers 2 and 3. The planes 0 and 1 do not exist and are never accessed. Returns 0 if CG
    /// runs on A, where all arrays have four planes.
    fn before(&self, size: usize) -> u64 {
        if self.shape.schur { size as u64 * 2 * self.source.g.plane as u64 } else { 0 }
    }

    /// Assigns addresses to the arrays of grid `number`; `sections` are the first grids of the sections. If CG runs on
    /// S1, `other_p` receives the address of two black planes on the first grid. They contain z in unfused steps, and
    /// the second p in fused steps.
    fn level(&mut self, number: usize, sections: &[usize], other_p: &mut Address, layout: Layout) -> Result<Level> {
        let (shape, source) = (self.shape, self.source);
        let ((real, stored), (g, rows)) = (shape.sizes(), shape.source.division.geometry(&layout));
        let rows = &rows;
        let (first, short) = (number == 0, shape.short());
        let (tiles, patches) = g.tiles_and_patches();
        let (equal_rows, uniform) = match first {
            true => (source.equal_rows, source.uniform),
            false => (self.permanent.bytes(patches), self.permanent.bytes(tiles)),
        };
        let own = !(first && shape.schur);
        // In a short format, only the factorization needs the following arrays, except on the first grid if CG runs on
        // S1: there, `d` and `far` are the couplings of S1.
        let setup = if short && own { &mut self.transient } else { &mut self.permanent };
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
            // If CG runs on S1, sweeps on the first grid process only the even level, which needs 1 / d of b1 and no
            // couplings of red nodes.
            let before = self.before(real);
            let memory_layout = &mut self.permanent;
            k.short_h = match own {
                true => memory_layout.planes(rows, pivots(shape, number), real)?,
                false => memory_layout.planes(rows, 1, real)?.wrapping_sub(before),
            };
            k.short_s = if own { memory_layout.planes(rows, 8, stored)? } else { 0 };
            k.short_d = memory_layout.planes(rows, 4, stored)?;
            (sweep.h, sweep.s, sweep.d) = (k.short_h, k.short_s, k.short_d);
        }
        let mut vectors = Vec::new();
        reserve(&mut vectors, MOST_VECTORS, LEVELS)?;
        let before = self.before(real);
        let memory_layout = &mut self.permanent;
        let mut vector = |planes: usize, size: usize| {
            let address = memory_layout.planes(rows, planes, size)?;
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
            for place in [&mut k.original_excess, &mut k.original_corners, &mut k.original_black] {
                *place = memory_layout.planes(rows, 4, stored)?;
            }
            (sweep.excess, sweep.corners, sweep.black) = (k.original_excess, k.original_corners, k.original_black);
        }
        Ok(Level { layout, embedding: Embedding::FINEST, k, sweep, equal_rows, uniform, vectors })
    }

    /// Assigns addresses to all grids. Returns the grids, and the grid of the coarsest system.
    fn levels(&mut self, sections: &[usize], other_p: &mut Address) -> Result<(Vec<Level>, levels::Grid)> {
        let mut grids: Vec<Level> = Vec::new();
        reserve(&mut grids, self.shape.grids(), LEVELS)?;
        let (mut grid, mut embedding) = (self.source.shape.grid, Embedding::FINEST);
        for number in 0..self.shape.grids() {
            let layout = Layout::new(grid, self.source.shape.block);
            grids.push(Level { embedding, ..self.level(number, sections, other_p, layout)? });
            (embedding, grid) = (embedding.coarse(grid), self.shape.grid_after(grid));
        }
        Ok((grids, grid))
    }

    /// Assigns addresses to the arrays of the coarsest system with `n` nodes and `len` values per plane.
    fn assign_coarsest(&mut self, n: usize, len: usize, kind: &CoarsestSolver) -> CoarsestArrays {
        let ((real, _), short, memory_layout) = (self.shape.sizes(), self.shape.short(), &mut self.permanent);
        let inverted = if matches!(kind, CoarsestSolver::Inverse) { n } else { 0 };
        let here = !matches!(kind, CoarsestSolver::Host(_));
        CoarsestArrays {
            natural: memory_layout.doubles(5 * n),
            r: memory_layout.bytes(4 * len * real),
            z: memory_layout.bytes(4 * len * real),
            lines: Lines {
                own: memory_layout.doubles(inverted * LINE_NODES),
                left: memory_layout.doubles(inverted * LINE_NODES),
                right: memory_layout.doubles(inverted * LINE_NODES),
                onward: memory_layout.doubles(inverted * LINE_NODES),
                left_excess: memory_layout.doubles(inverted),
                right_excess: memory_layout.doubles(inverted),
                inverse_pivot: memory_layout.doubles(inverted),
                inverse: memory_layout.doubles(if here { n * n } else { 0 }),
                inverse_f32: if here && short { memory_layout.bytes(4 * n * n) } else { 0 },
            },
            slots: memory_layout.bytes(2 * n * 16),
        }
    }
}

/// Sets, for each grid, the arrays to which its forward half writes the values of the remaining nodes (b2), and from
/// which its backward half reads them: z of the next grid, or r and z of the coarsest system.
fn connect(grids: &mut [Level], (coarsest_layout, coarsest): (&Layout, &CoarsestArrays)) {
    for number in 0..grids.len() {
        let coarse = grids[number].layout.grid.coarse();
        let (nx, ny) = (coarse.nx as i32, coarse.ny as i32);
        grids[number].sweep.kept = match grids.get(number + 1) {
            Some(next) => Kept { g: next.k.g, to: next.sweep.z, from: next.sweep.z, nx, ny },
            None => Kept { g: Division::NONE.geometry(coarsest_layout).0, to: coarsest.r, from: coarsest.z, nx, ny },
        };
    }
}

/// Assigns addresses to all arrays of a factorization from address `base` on.
fn assign_addresses(base: Address, shape: &Shape, source: &Source, kind: &CoarsestSolver) -> Result<Addresses> {
    let mut memory_layout = MemoryLayout::new(base);
    let rows = &shape.source.division.geometry(&source.layout).1;
    let planes = if shape.schur { 2 } else { 4 };
    let (b, x) = (memory_layout.planes(rows, 4, 8)?, memory_layout.planes(rows, 4, 8)?);
    // If CG runs on S1, r has the planes b1 and b2 and a second plane b1. The fused forward half reads one of the two
    // planes b1 and writes the other.
    let r = memory_layout.planes(rows, planes + usize::from(shape.schur), 8)?;
    let (p, q) = (memory_layout.planes(rows, planes, 8)?, memory_layout.planes(rows, planes, 8)?);
    let vector_bytes = memory_layout.used - (b - base) as usize;
    // Arrays that only the factorization of a short format needs are stored in the memory of the vectors.
    memory_layout.used = memory_layout.used.max(transient_bytes(shape)?);
    let mut layouts = Layouts { permanent: memory_layout, transient: MemoryLayout::new(base), shape, source };
    let (sections, mut other_p) = (shape.sections()?, 0);
    let (mut grids, coarsest_grid) = layouts.levels(&sections, &mut other_p)?;
    let coarsest_layout = Layout::new(coarsest_grid, source.shape.block);
    let coarsest = layouts.assign_coarsest(coarsest_grid.nodes(), coarsest_layout.len(), kind);
    connect(&mut grids, (&coarsest_layout, &coarsest));
    let before = layouts.before(8);
    let Layouts { permanent: mut memory_layout, transient, .. } = layouts;
    let (ops, rho) = Programs::max_steps_and_sums(&sections, grids.len(), shape.schur, &shape.cycle)?;
    let parts = grids.iter().map(|level| level.k.g.parts() - 1).sum::<usize>() + source.g.parts();
    let (ops, rho_partial) =
        (memory_layout.bytes(ops * size_of::<Op>()), memory_layout.doubles(rho + (parts - 1) * MOST_BLOCKS as usize));
    let sums = source.g.parts() * MOST_BLOCKS as usize;
    let (fused_norm_partial, barrier) = (memory_layout.doubles(sums), memory_layout.bytes(16));
    let (partial, norm_partial) = (memory_layout.doubles(sums), memory_layout.doubles(sums));
    let center = if shape.schur { memory_layout.planes(rows, 2, 8)? } else { 0 };
    let scalars = memory_layout.doubles(size_of::<Scalars>().div_ceil(8));
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
    Ok(Addresses {
        grids,
        first,
        coarsest,
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
        memory_layout,
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
        let (mut coarsest_grid, mut embedding) = (shape.source.grid, Embedding::FINEST);
        for _ in 0..shape.grids() {
            embedding = embedding.coarse(coarsest_grid);
            coarsest_grid = shape.grid_after(coarsest_grid);
        }
        // The solver of the coarsest system has no recursion.
        let plain = Cycle { kind: Some(Kind::V), spacing: 2, steps: 1, allows_jumps: false };
        let on_host = || {
            NaturalLevels::new(coarsest_grid, embedding, 2 * shape.grids(), shape.levels, &plain, false)
                .and_then(|levels| boxed(levels, LEVELS))
        };
        let coarsest_solver = match (coarsest_grid.nodes() <= MOST_INVERTED, local) {
            (true, 0) => CoarsestSolver::Inverse,
            (true, _) => CoarsestSolver::InverseFromHost(on_host()?),
            (false, _) => CoarsestSolver::Host(on_host()?),
        };
        let memory_layout = assign_addresses(0, &shape, source, &coarsest_solver)?.memory_layout;
        let memory = shape.source.division.memory(stream, &memory_layout, "the levels and vectors")?;
        let devices = shape.source.division.devices;
        let synchronization = match devices {
            0 | 1 => None,
            _ => {
                Some(Memory::divided(stream, devices * GRANULE_BYTES, |granule| granule, "synchronization of devices")?)
            }
        };
        let addresses = assign_addresses(memory.address, &shape, source, &coarsest_solver)?;
        let [b, x, r, p, q] = addresses.vectors;
        let scalars = SharedScalars::new(stream, addresses.scalars, Some(launch::report))?;
        Ok(Self {
            reads_once: shape.reads_once(source, device.cache),
            used: addresses.grids.len(),
            wide_coarsest: false,
            shape,
            grids: addresses.grids,
            first: addresses.first,
            coarsest_solver,
            coarsest: addresses.coarsest,
            coarsest_grid,
            coarsest_layout: Layout::new(coarsest_grid, shape.source.block),
            b,
            x,
            r,
            p,
            q,
            partial: addresses.partial,
            norm_partial: addresses.norm_partial,
            fused_norm_partial: addresses.fused_norm_partial,
            rho_partial: addresses.rho_partial,
            barrier_at: addresses.barrier,
            synchronization,
            ops_at: addresses.ops,
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
            recent_iterations: [0; 4],
            staging: None,
            grid_seconds: Vec::new(),
            vectors: (b, addresses.vector_bytes),
            transient: addresses.transient,
            memory,
        })
    }

    /// Returns whether the levels are the preconditioner, and not aggregation.
    pub fn uses_levels(&self) -> bool {
        !self.shape.aggregates && self.aggregated.is_none()
    }

    /// Returns whether stages are fused. This requires `fusion=on`, CG on S1 of a regular system, and levels as the
    /// preconditioner.
    pub fn fused(&self) -> bool {
        self.shape.fusion && self.shape.schur && self.projection.is_empty() && self.uses_levels()
    }

    /// Returns whether M may be truncated after grid q, provided that the remaining couplings are weak.
    pub fn may_truncate_after(&self, q: usize) -> bool {
        self.shape.may_truncate && (1..self.grids.len() - 1).contains(&q) && q < MOST_TESTED_GRIDS
    }

    /// Returns whether M is truncated. The diagonal then replaces the matrix on b2 of the last grid in use.
    pub fn is_truncated(&self) -> bool {
        self.used < self.grids.len()
    }

    /// Returns the first grids of the sections in use.
    pub fn sections_in_use(&self) -> Result<Vec<usize>> {
        collected(self.sections.iter().copied().filter(|q| *q < self.used), LEVELS)
    }

    /// Returns the first plane of the unknowns of CG, and the number of these planes.
    pub fn cg_planes(&self) -> (i32, i32) {
        if self.shape.schur { (2, 2) } else { (0, 4) }
    }

    /// Returns the addresses of the device buffers for the caller's host arrays. Allocates missing buffers.
    pub fn staging_addresses(&mut self, stream: &Stream, source: &Source) -> Result<[Address; 2]> {
        if self.staging.is_none() {
            self.staging = Some(Staging::new(stream, &self.shape.source.division, &source.g)?);
        }
        Ok(self.staging.as_ref().map_or([0; 2], |s| s.arrays))
    }

    /// Sets all vectors and their padding to zero after an overflow, because an infinity in the padding would lead to
    /// NaN (0 * inf) in all later runs.
    pub fn clear_vectors(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.vectors.0, 0, self.vectors.1)?;
        for &(address, bytes) in self.grids.iter().flat_map(|level| &level.vectors) {
            stream.fill(address, 0, bytes)?;
        }
        Ok(())
    }

    /// Sets the memory shared by vectors and arrays of the factorization to zero. This is done before and after a
    /// factorization, so that borders are zero.
    pub fn clear_transient(&self, stream: &Stream) -> Result<()> {
        let (address, bytes) = self.transient;
        if bytes > 0 { stream.fill(address, 0, bytes) } else { Ok(()) }
    }

    /// Returns whether the current cycle is recursive and was selected by `cycle=auto`. Returns `false` if aggregation
    /// has replaced the levels.
    pub fn chose_recursion(&self) -> bool {
        self.shape.cycle.kind.is_none() && self.recursion.kind != Kind::V && self.uses_levels()
    }

    /// Returns the storage format of M, for the factorization.
    pub fn format(&self) -> Format {
        Format::new(self.shape.storage, self.unit)
    }

    /// Returns whether sweeps compute in f32.
    pub fn short(&self) -> bool {
        self.shape.short()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        let of_cycle = self.aggregated.as_ref().map_or(0, Aggregated::bytes);
        let synchronization = self.synchronization.as_ref().map_or(0, |m| m.bytes);
        self.memory.bytes
            + synchronization
            + self.staging.as_ref().map_or(0, |s| s.memory.bytes)
            + self.projection.bytes()
            + of_cycle
    }

    /// Returns the allocated host memory in bytes.
    pub fn host_bytes(&self) -> usize {
        match &self.coarsest_solver {
            CoarsestSolver::Inverse => 0,
            CoarsestSolver::InverseFromHost(natural) | CoarsestSolver::Host(natural) => natural.bytes(),
        }
    }
}
