//! Device memory of a factorization: the levels down to the coarsest system, the vectors of CG, and the scalars. As on
//! the CPU, `rrb::layout` defines the storage. On a device, all levels are stored by colour (r1, r2, b1, b2).

use super::aggregated::AggregationPreconditioner;
use super::division::Division;
use super::program::Programs;
use super::projection::Projection;
use super::source::{Source, SourceShape, Staging};
use crate::base::heap::boxed;
use crate::cuda::driver::{Event, GRANULE_BYTES, Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, Grid, KeptNodes, LINE_NODES, Level as Sweep, LineArrays, MAX_BLOCKS, MAX_TESTED_GRIDS, Op, Scalars,
    SchurArrays, StorageFormat,
};
use crate::cuda::layout::MemoryLayout;
use crate::cuda::looped::{RecordedLoops, SharedScalars};
use crate::error::{Error, Result, collected, reserve};
use crate::rrb::backend::{Aggregation, Setup};
use crate::rrb::layout::Layout;
use crate::rrb::natural::NaturalLevels;
use crate::rrb::recursion::{Cycle, CycleKind, Recursion};
use crate::rrb::storage::Storage;
use crate::stencil::levels;
use crate::stencil::levels::{Embedding, MAX_INVERTED_NODES};
use crate::stencil::matrix::StencilView;

/// Properties that determine the sizes of the arrays. A factorization with an equal shape reuses the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub source: SourceShape,
    pub levels: usize,
    /// Whether CG runs on S1, the Schur complement after the first level.
    pub uses_schur: bool,
    /// Whether a kernel may execute several steps (`fusion=on`). Fusion with the steps of CG has further conditions
    /// (`Packed::uses_fusion`).
    pub allows_fusion: bool,
    pub storage: Storage,
    pub cycle: Cycle,
    /// Whether the hierarchy may be truncated where the remaining couplings are weak.
    pub may_truncate: bool,
    /// Whether aggregation replaces the levels from the first iteration of each solve.
    pub uses_aggregation: bool,
}

impl Shape {
    /// Returns the shape of a factorization of `a`.
    pub fn new(a: &StencilView, setup: &Setup, division: Division) -> Self {
        Self {
            source: SourceShape::new(a, setup.compute_block, division),
            levels: setup.levels,
            uses_schur: setup.uses_schur_complement(a),
            allows_fusion: setup.fused,
            storage: setup.storage,
            cycle: setup.cycle,
            may_truncate: setup.may_truncate,
            uses_aggregation: setup.aggregation == Aggregation::FromStart,
        }
    }

    /// Returns the number of grids that are stored by colour. There is one grid per two levels; with aggregation, there
    /// is one grid.
    pub fn grid_count(&self) -> usize {
        if self.uses_aggregation { 1 } else { self.levels / 2 }
    }

    /// Returns the grid that remains after the levels of `grid`. With aggregation, the remaining grid is a single node.
    fn grid_after(&self, grid: levels::Grid) -> levels::Grid {
        if self.uses_aggregation { levels::Grid { nx: 1, ny: 1 } } else { grid.coarse() }
    }

    /// Returns the first grid of each section of the cycle. A section begins at the finest grid and at each recursion.
    pub fn section_starts(&self) -> Result<Vec<usize>> {
        let recursions = self.cycle.recursion_grids(self.levels).filter(|q| *q < self.grid_count());
        collected(std::iter::once(0).chain(recursions), ALLOCATION_NAME)
    }

    /// Returns whether sweeps compute in f32.
    fn sweeps_in_f32(&self) -> bool {
        self.storage != Storage::F64
    }

    /// Returns whether a cache of `cache_bytes` bytes can hold the data that an iteration reads repeatedly, but cannot
    /// hold S1 and x in addition, which an iteration reads only once. In the comparison that includes S1 and x, only
    /// half of the cache counts, because lines that both halves of the device read are stored in both halves of the
    /// cache.
    fn caches_repeated_reads(&self, source: &Source, cache_bytes: usize) -> bool {
        let (real_bytes, stored_bytes) = self.value_sizes();
        // Bytes per value of a plane of the first grid. Read repeatedly: r (3 planes), q (2) and both arrays of p (4);
        // M on the first grid; and M and the vectors of the sweeps on the other grids, whose planes have a third as
        // many values in total. Read once: S1 (10 planes) and x (2).
        let read_repeatedly_bytes = 9 * 8 + (real_bytes + 4 * stored_bytes) + (8 * real_bytes + 12 * stored_bytes) / 3;
        let read_once_bytes = (4 + 4 + 2) * 8 + 2 * 8;
        let values_per_plane = source.layout.len();
        // This estimate does not hold for several devices, because the cache does not hold memory of other devices.
        self.source.division == Division::NONE
            && self.uses_schur
            && values_per_plane * read_repeatedly_bytes <= cache_bytes
            && cache_bytes / 2 < values_per_plane * (read_repeatedly_bytes + read_once_bytes)
    }

    /// Returns two sizes in bytes: of the numbers in which sweeps compute and pivots are stored, and of the stored
    /// couplings and row sums of M.
    pub fn value_sizes(&self) -> (usize, usize) {
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
    /// Product on the device with the explicit inverse, which the host computes. This method is used if the last level
    /// is odd.
    InverseFromHost(Box<NaturalLevels>),
    /// Band factorization on the host. The loop cannot be recorded in this case.
    Host(Box<NaturalLevels>),
}

/// Addresses of the coarsest system's arrays.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoarsestArrays {
    pub natural_matrix: Address,
    pub r: Address,
    pub z: Address,
    pub lines: LineArrays,
    /// Buffer through which thread blocks exchange the values of r and z, each with an epoch number
    /// (kernels/rrb/cluster.cuh).
    pub exchange: Address,
}

/// The preconditioner M, the vectors of CG and the scalars.
pub struct Packed {
    pub shape: Shape,
    pub grids: Vec<Level>,
    /// Number of grids in use. If the couplings between the nodes that remain after a grid (b2) are weak, the hierarchy
    /// is truncated after this grid.
    pub grids_in_use: usize,
    /// Whether the inverse of the coarsest system remains in f64 although sweeps compute in f32 (`MAX_RATIO_FOR_F32`).
    /// A separate kernel then multiplies by the inverse.
    pub has_f64_inverse: bool,
    pub schur_arrays: SchurArrays,
    /// Whether the cache holds only the data that an iteration reads repeatedly (`Shape::caches_repeated_reads`).
    pub caches_repeated_reads: bool,
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
    pub barrier_address: Address,
    /// Memory through which several devices synchronize. It has one granule per device.
    pub synchronization: Option<Memory>,
    /// Address of the lists of steps.
    pub ops_address: Address,
    pub programs: Programs,
    /// First grid of each section, that is, of the levels from one recursion of the cycle to the next.
    pub sections: Vec<usize>,
    /// Kind, steps and bounds of the cycle in use.
    pub recursion: Recursion,
    /// Power of two by which M is divided before it is stored.
    pub storage_unit: f64,
    /// A row sum whose magnitude is at most this fraction of the center counts as zero.
    pub zero_row_sum: f64,
    pub scalars: SharedScalars,
    pub projection: Projection,
    /// The recorded loops, which may be an empty list (`Packed::record_loops`). `None` if solves launch each step
    /// separately.
    pub recorded_loops: Option<RecordedLoops>,
    /// Whether the recorded loops consist of fused stages.
    pub recorded_loops_are_fused: bool,
    /// The preconditioner by aggregation, if it replaces the levels.
    pub aggregated: Option<AggregationPreconditioner>,
    /// Whether a slow solve may switch to aggregation.
    pub may_aggregate: bool,
    /// Event that is recorded when the results of a start are in `scalars`. The loop may already follow on the stream.
    pub start_event: Event,
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
    /// Address, and size in bytes, of the arrays that only a factorization in f32 or bf16 needs. These arrays are
    /// stored in the memory of the vectors.
    pub transient: (Address, usize),
}

/// Addresses of all arrays of a factorization, and the layout of their memory.
struct Addresses {
    grids: Vec<Level>,
    schur_arrays: SchurArrays,
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
fn pivot_planes(shape: &Shape, grid_number: usize) -> usize {
    if shape.may_truncate && grid_number > 0 { 4 } else { 3 }
}

/// Returns the size in bytes of the arrays that only a factorization in f32 or bf16 needs.
fn transient_bytes(shape: &Shape) -> Result<usize> {
    if !shape.sweeps_in_f32() {
        return Ok(0);
    }
    let mut memory_layout = MemoryLayout::new(0);
    for (grid_number, grid) in shape.source.grid.grid_sequence().take(shape.grid_count()).enumerate() {
        let (_, plane_layout) = shape.source.division.geometry(&Layout::new(grid, shape.source.compute_block));
        let has_corners = grid_number > 0 || shape.source.nine_points;
        if grid_number > 0 || !shape.uses_schur {
            for planes in [
                pivot_planes(shape, grid_number),
                8,
                4,
                if grid_number > 0 { 4 } else { 0 },
                if has_corners { 4 } else { 0 },
                4,
            ] {
                memory_layout.reserve_planes(&plane_layout, planes, 8)?;
            }
        }
    }
    Ok(memory_layout.used_bytes)
}

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "lists of levels";
/// Largest number of vectors of a grid: z, y, and r, d, q, u of a recursion.
const MAX_GRID_VECTORS: usize = 6;

/// Layouts of two kinds of memory: for arrays that solves need, too, and for arrays that only a factorization in f32 or
/// bf16 needs.
struct Layouts<'a> {
    permanent_layout: MemoryLayout,
    transient_layout: MemoryLayout,
    shape: &'a Shape,
    source: &'a Source,
}

impl Layouts<'_> {
    /// Returns the number of bytes by which the address of an array with only the black planes is decreased, so that
    /// these planes have the numbers 2 and 3. The planes 0 and 1 do not exist and are never accessed. Returns 0 if CG
    /// runs on A, where all arrays have four planes.
    fn black_plane_offset(&self, value_bytes: usize) -> u64 {
        if self.shape.uses_schur { value_bytes as u64 * 2 * self.source.g.plane as u64 } else { 0 }
    }

    /// Assigns addresses to the arrays of grid `grid_number`; `sections` are the first grids of the sections. If CG
    /// runs on S1, `other_p` receives the address of two black planes on the first grid. These planes contain z in
    /// unfused steps, and the second p in fused steps.
    fn assign_level(
        &mut self,
        grid_number: usize,
        sections: &[usize],
        other_p: &mut Address,
        layout: Layout,
    ) -> Result<Level> {
        let (shape, source) = (self.shape, self.source);
        let ((real_bytes, stored_bytes), (g, plane_layout)) =
            (shape.value_sizes(), shape.source.division.geometry(&layout));
        let plane_layout = &plane_layout;
        let (is_first, uses_f32) = (grid_number == 0, shape.sweeps_in_f32());
        let (tile_count, patch_count) = g.tiles_and_patches();
        let (equal_rows, uniform) = match is_first {
            true => (source.equal_rows, source.uniform),
            false => {
                (self.permanent_layout.reserve_bytes(patch_count), self.permanent_layout.reserve_bytes(tile_count))
            }
        };
        let has_all_colours = !(is_first && shape.uses_schur);
        // With f32 and bf16, only the factorization needs the following arrays. The first grid is an exception if CG
        // runs on S1: there, `d` and `far_couplings` are the couplings of S1.
        let setup_layout =
            if uses_f32 && has_all_colours { &mut self.transient_layout } else { &mut self.permanent_layout };
        let mut k = Grid {
            g,
            h: setup_layout.reserve_planes(plane_layout, pivot_planes(shape, grid_number), 8)?,
            s: if has_all_colours { setup_layout.reserve_planes(plane_layout, 8, 8)? } else { source.m.axis_couplings },
            d: setup_layout.reserve_planes(plane_layout, 4, 8)?,
            row_sums: if is_first { source.row_sums } else { setup_layout.reserve_planes(plane_layout, 4, 8)? },
            corners: if !is_first || source.shape.nine_points {
                setup_layout.reserve_planes(plane_layout, 4, 8)?
            } else {
                0
            },
            far_couplings: setup_layout.reserve_planes(plane_layout, 4, 8)?,
            ..Grid::default()
        };
        let mut sweep = Sweep { g, h: k.h, s: k.s, d: k.d, ..Sweep::default() };
        if uses_f32 {
            // If CG runs on S1, sweeps on the first grid process only the even level, which needs 1 / d of b1 and no
            // couplings of red nodes.
            let black_offset = self.black_plane_offset(real_bytes);
            let memory_layout = &mut self.permanent_layout;
            k.short_h = match has_all_colours {
                true => memory_layout.reserve_planes(plane_layout, pivot_planes(shape, grid_number), real_bytes)?,
                false => memory_layout.reserve_planes(plane_layout, 1, real_bytes)?.wrapping_sub(black_offset),
            };
            k.short_s = if has_all_colours { memory_layout.reserve_planes(plane_layout, 8, stored_bytes)? } else { 0 };
            k.short_d = memory_layout.reserve_planes(plane_layout, 4, stored_bytes)?;
            (sweep.h, sweep.s, sweep.d) = (k.short_h, k.short_s, k.short_d);
        }
        let mut vectors = Vec::new();
        reserve(&mut vectors, MAX_GRID_VECTORS, ALLOCATION_NAME)?;
        let black_offset = self.black_plane_offset(real_bytes);
        let memory_layout = &mut self.permanent_layout;
        let mut assign_vector = |planes: usize, value_bytes: usize| {
            let address = memory_layout.reserve_planes(plane_layout, planes, value_bytes)?;
            vectors.push((address, planes * plane_layout.plane * value_bytes));
            Ok(address)
        };
        if has_all_colours {
            (sweep.z, sweep.y) = (assign_vector(4, real_bytes)?, assign_vector(1, real_bytes)?);
        } else {
            *other_p = assign_vector(2, 8)?;
            sweep.z = other_p.wrapping_sub(black_offset);
        }
        if sections[1..].contains(&grid_number) {
            for address in [&mut sweep.r, &mut sweep.direction, &mut sweep.q, &mut sweep.u] {
                *address = assign_vector(4, real_bytes)?;
            }
            for address in [&mut k.original_row_sums, &mut k.original_corners, &mut k.original_black] {
                *address = memory_layout.reserve_planes(plane_layout, 4, stored_bytes)?;
            }
            (sweep.row_sums, sweep.corners, sweep.black) = (k.original_row_sums, k.original_corners, k.original_black);
        }
        Ok(Level { layout, embedding: Embedding::FINEST, k, sweep, equal_rows, uniform, vectors })
    }

    /// Assigns addresses to all grids. Returns the grids, and the grid of the coarsest system.
    fn assign_levels(&mut self, sections: &[usize], other_p: &mut Address) -> Result<(Vec<Level>, levels::Grid)> {
        let mut grids: Vec<Level> = Vec::new();
        reserve(&mut grids, self.shape.grid_count(), ALLOCATION_NAME)?;
        let (mut grid, mut embedding) = (self.source.shape.grid, Embedding::FINEST);
        for grid_number in 0..self.shape.grid_count() {
            let layout = Layout::new(grid, self.source.shape.compute_block);
            grids.push(Level { embedding, ..self.assign_level(grid_number, sections, other_p, layout)? });
            (embedding, grid) = (embedding.coarse(grid), self.shape.grid_after(grid));
        }
        Ok((grids, grid))
    }

    /// Assigns addresses to the arrays of the coarsest system with `n` nodes and `plane_len` values per plane.
    fn assign_coarsest(&mut self, n: usize, plane_len: usize, solver: &CoarsestSolver) -> CoarsestArrays {
        let ((real_bytes, _), uses_f32, memory_layout) =
            (self.shape.value_sizes(), self.shape.sweeps_in_f32(), &mut self.permanent_layout);
        let inverted_rows = if matches!(solver, CoarsestSolver::Inverse) { n } else { 0 };
        let has_inverse = !matches!(solver, CoarsestSolver::Host(_));
        CoarsestArrays {
            natural_matrix: memory_layout.reserve_doubles(5 * n),
            r: memory_layout.reserve_bytes(4 * plane_len * real_bytes),
            z: memory_layout.reserve_bytes(4 * plane_len * real_bytes),
            lines: LineArrays {
                own_block: memory_layout.reserve_doubles(inverted_rows * LINE_NODES),
                left_block: memory_layout.reserve_doubles(inverted_rows * LINE_NODES),
                right_block: memory_layout.reserve_doubles(inverted_rows * LINE_NODES),
                next_couplings: memory_layout.reserve_doubles(inverted_rows * LINE_NODES),
                left_row_sums: memory_layout.reserve_doubles(inverted_rows),
                right_row_sums: memory_layout.reserve_doubles(inverted_rows),
                inverse_pivot: memory_layout.reserve_doubles(inverted_rows),
                inverse: memory_layout.reserve_doubles(if has_inverse { n * n } else { 0 }),
                inverse_f32: if has_inverse && uses_f32 { memory_layout.reserve_bytes(4 * n * n) } else { 0 },
            },
            exchange: memory_layout.reserve_bytes(2 * n * 16),
        }
    }
}

/// Sets, for each grid, the arrays to which its forward half writes the values of the remaining nodes (b2), and the
/// arrays from which its backward half reads these values: z of the next grid, or r and z of the coarsest system.
fn connect_grids(grids: &mut [Level], (coarsest_layout, coarsest): (&Layout, &CoarsestArrays)) {
    for grid_number in 0..grids.len() {
        let coarse_grid = grids[grid_number].layout.grid.coarse();
        let (nx, ny) = (coarse_grid.nx as i32, coarse_grid.ny as i32);
        grids[grid_number].sweep.kept_nodes = match grids.get(grid_number + 1) {
            Some(next) => KeptNodes { g: next.k.g, rhs: next.sweep.z, solution: next.sweep.z, nx, ny },
            None => KeptNodes {
                g: Division::NONE.geometry(coarsest_layout).0,
                rhs: coarsest.r,
                solution: coarsest.z,
                nx,
                ny,
            },
        };
    }
}

/// Assigns addresses to all arrays of a factorization from address `base` on.
fn assign_addresses(
    base: Address,
    shape: &Shape,
    source: &Source,
    coarsest_solver: &CoarsestSolver,
) -> Result<Addresses> {
    let mut memory_layout = MemoryLayout::new(base);
    let plane_layout = &shape.source.division.geometry(&source.layout).1;
    let cg_plane_count = if shape.uses_schur { 2 } else { 4 };
    let (b, x) = (memory_layout.reserve_planes(plane_layout, 4, 8)?, memory_layout.reserve_planes(plane_layout, 4, 8)?);
    // If CG runs on S1, r has the planes b1 and b2 and a second plane b1. The fused forward half reads one of the two
    // planes b1 and writes the other.
    let r = memory_layout.reserve_planes(plane_layout, cg_plane_count + usize::from(shape.uses_schur), 8)?;
    let (p, q) = (
        memory_layout.reserve_planes(plane_layout, cg_plane_count, 8)?,
        memory_layout.reserve_planes(plane_layout, cg_plane_count, 8)?,
    );
    let vector_bytes = memory_layout.used_bytes - (b - base) as usize;
    // Arrays that only a factorization in f32 or bf16 needs are stored in the memory of the vectors.
    memory_layout.used_bytes = memory_layout.used_bytes.max(transient_bytes(shape)?);
    let mut layouts =
        Layouts { permanent_layout: memory_layout, transient_layout: MemoryLayout::new(base), shape, source };
    let (sections, mut other_p) = (shape.section_starts()?, 0);
    let (mut grids, coarsest_grid) = layouts.assign_levels(&sections, &mut other_p)?;
    let coarsest_layout = Layout::new(coarsest_grid, source.shape.compute_block);
    let coarsest = layouts.assign_coarsest(coarsest_grid.nodes(), coarsest_layout.len(), coarsest_solver);
    connect_grids(&mut grids, (&coarsest_layout, &coarsest));
    let black_offset = layouts.black_plane_offset(8);
    let Layouts { permanent_layout: mut memory_layout, transient_layout, .. } = layouts;
    let (op_count, rho_count) = Programs::max_steps_and_sums(&sections, grids.len(), shape.uses_schur, &shape.cycle)?;
    let part_count = grids.iter().map(|level| level.k.g.part_count() - 1).sum::<usize>() + source.g.part_count();
    let (ops, rho_partial) = (
        memory_layout.reserve_bytes(op_count * size_of::<Op>()),
        memory_layout.reserve_doubles(rho_count + (part_count - 1) * MAX_BLOCKS as usize),
    );
    let sum_count = source.g.part_count() * MAX_BLOCKS as usize;
    let (fused_norm_partial, barrier) = (memory_layout.reserve_doubles(sum_count), memory_layout.reserve_bytes(16));
    let (partial, norm_partial) = (memory_layout.reserve_doubles(sum_count), memory_layout.reserve_doubles(sum_count));
    let center = if shape.uses_schur { memory_layout.reserve_planes(plane_layout, 2, 8)? } else { 0 };
    let scalars = memory_layout.reserve_doubles(size_of::<Scalars>().div_ceil(8));
    let plane_bytes = 8 * plane_layout.plane as u64;
    let mut schur_arrays = SchurArrays::default();
    if shape.uses_schur {
        let Grid { g, d, far_couplings, .. } = grids[0].k;
        schur_arrays = SchurArrays {
            g,
            d,
            far_couplings,
            center,
            r_b1: [r, r + 2 * plane_bytes],
            r_b2: r + plane_bytes,
            x_b1: x + 2 * plane_bytes,
            x_b2: x + 3 * plane_bytes,
            q_b1: q,
            q_b2: q + plane_bytes,
            p_b1: [p, other_p],
            p_b2: [p + plane_bytes, other_p + plane_bytes],
            b_b1: b + 2 * plane_bytes,
            b_b2: b + 3 * plane_bytes,
            scalars,
        };
    }
    let [r, p, q] = [r, p, q].map(|v| v.wrapping_sub(black_offset));
    Ok(Addresses {
        grids,
        schur_arrays,
        coarsest,
        vectors: [b, x, r, p, q],
        vector_bytes,
        transient: (transient_layout.base, transient_layout.used_bytes),
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
        let levels_on_host = shape.levels.saturating_sub(2 * shape.grid_count());
        let (mut coarsest_grid, mut embedding) = (shape.source.grid, Embedding::FINEST);
        for _ in 0..shape.grid_count() {
            embedding = embedding.coarse(coarsest_grid);
            coarsest_grid = shape.grid_after(coarsest_grid);
        }
        // The solver of the coarsest system has no recursion.
        let v_cycle = Cycle { kind: Some(CycleKind::V), spacing: 2, steps: 1, allows_jumps: false };
        let host_levels = || {
            NaturalLevels::new(coarsest_grid, embedding, 2 * shape.grid_count(), shape.levels, &v_cycle, false)
                .and_then(|levels| boxed(levels, ALLOCATION_NAME))
        };
        let coarsest_solver = match (coarsest_grid.nodes() <= MAX_INVERTED_NODES, levels_on_host) {
            (true, 0) => CoarsestSolver::Inverse,
            (true, _) => CoarsestSolver::InverseFromHost(host_levels()?),
            (false, _) => CoarsestSolver::Host(host_levels()?),
        };
        let memory_layout = assign_addresses(0, &shape, source, &coarsest_solver)?.memory_layout;
        let memory = shape.source.division.allocate(stream, &memory_layout, "the levels and vectors")?;
        let device_count = shape.source.division.devices;
        let synchronization = match device_count {
            0 | 1 => None,
            _ => Some(Memory::divided(
                stream,
                device_count * GRANULE_BYTES,
                |granule| granule,
                "synchronization of devices",
            )?),
        };
        let addresses = assign_addresses(memory.address, &shape, source, &coarsest_solver)?;
        let [b, x, r, p, q] = addresses.vectors;
        let scalars = SharedScalars::new(stream, addresses.scalars, Some(launch::report))?;
        Ok(Self {
            caches_repeated_reads: shape.caches_repeated_reads(source, device.l2_cache_bytes),
            grids_in_use: addresses.grids.len(),
            has_f64_inverse: false,
            shape,
            grids: addresses.grids,
            schur_arrays: addresses.schur_arrays,
            coarsest_solver,
            coarsest: addresses.coarsest,
            coarsest_grid,
            coarsest_layout: Layout::new(coarsest_grid, shape.source.compute_block),
            b,
            x,
            r,
            p,
            q,
            partial: addresses.partial,
            norm_partial: addresses.norm_partial,
            fused_norm_partial: addresses.fused_norm_partial,
            rho_partial: addresses.rho_partial,
            barrier_address: addresses.barrier,
            synchronization,
            ops_address: addresses.ops,
            programs: Programs::default(),
            sections: shape.section_starts()?,
            recursion: Recursion::V,
            storage_unit: 1.0,
            zero_row_sum: 0.0,
            scalars,
            projection: Projection::default(),
            recorded_loops: None,
            recorded_loops_are_fused: false,
            aggregated: None,
            may_aggregate: false,
            start_event: Event::new(device)?,
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
        !self.shape.uses_aggregation && self.aggregated.is_none()
    }

    /// Returns whether stages are fused. This requires `fusion=on`, CG on S1 of a regular system, and levels as the
    /// preconditioner.
    pub fn uses_fusion(&self) -> bool {
        self.shape.allows_fusion && self.shape.uses_schur && self.projection.is_empty() && self.uses_levels()
    }

    /// Returns whether M may be truncated after grid q, provided that the remaining couplings are weak.
    pub fn may_truncate_after(&self, q: usize) -> bool {
        self.shape.may_truncate && (1..self.grids.len() - 1).contains(&q) && q < MAX_TESTED_GRIDS
    }

    /// Returns whether M is truncated. The diagonal then replaces the matrix on b2 of the last grid in use.
    pub fn is_truncated(&self) -> bool {
        self.grids_in_use < self.grids.len()
    }

    /// Returns the first grids of the sections in use.
    pub fn sections_in_use(&self) -> Result<Vec<usize>> {
        collected(self.sections.iter().copied().filter(|q| *q < self.grids_in_use), ALLOCATION_NAME)
    }

    /// Returns the first plane of the unknowns of CG, and the number of these planes.
    pub fn cg_planes(&self) -> (i32, i32) {
        if self.shape.uses_schur { (2, 2) } else { (0, 4) }
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

    /// Sets the memory that vectors and transient arrays share to zero. This is necessary before and after a
    /// factorization, so that borders are zero.
    pub fn clear_transient(&self, stream: &Stream) -> Result<()> {
        let (address, bytes) = self.transient;
        if bytes > 0 { stream.fill(address, 0, bytes) } else { Ok(()) }
    }

    /// Returns whether the current cycle is recursive and was selected by `cycle=auto`. Returns `false` if aggregation
    /// has replaced the levels.
    pub fn has_automatic_recursion(&self) -> bool {
        self.shape.cycle.kind.is_none() && self.recursion.kind != CycleKind::V && self.uses_levels()
    }

    /// Returns the storage format of M, for the factorization.
    pub fn format(&self) -> StorageFormat {
        StorageFormat::new(self.shape.storage, self.storage_unit)
    }

    /// Returns whether sweeps compute in f32.
    pub fn sweeps_in_f32(&self) -> bool {
        self.shape.sweeps_in_f32()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        let aggregation_bytes = self.aggregated.as_ref().map_or(0, AggregationPreconditioner::bytes);
        let synchronization_bytes = self.synchronization.as_ref().map_or(0, |m| m.bytes);
        self.memory.bytes
            + synchronization_bytes
            + self.staging.as_ref().map_or(0, |s| s.memory.bytes)
            + self.projection.bytes()
            + aggregation_bytes
    }

    /// Returns the allocated host memory in bytes.
    pub fn host_bytes(&self) -> usize {
        match &self.coarsest_solver {
            CoarsestSolver::Inverse => 0,
            CoarsestSolver::InverseFromHost(natural) | CoarsestSolver::Host(natural) => natural.bytes(),
        }
    }
}
