//! Kernels of `dpcg`: argument structures and launches. The files in kernels/dpcg describe the fields of the
//! structures.
//!
//! A = L + D + L^T, where D is the diagonal. With deflation vectors Z: E = Z^T A Z, t = E^-1 Z^T q for q = A p, and
//! P A p = q - A Z t. Without deflation, P = I. Most kernels for products and vector updates can also compute an inner
//! product of their results.

use super::aggregation::{BLOCK_SIZE, Couplings};
use super::declare::Address;
use super::inverse::{MAX_UNKNOWNS, NullVectorArgs};
use super::labelled::{CellLabels, MAX_CELL_BLOCKS, cell_blocks, chunk_blocks, warp_blocks};
use super::vectors::{CellArray, CellBox, FIRST_FAMILY_KERNEL, Sum};
use crate::cuda::driver::{CooperativeLaunch, Device, Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/dpcg.rs"));

/// Threads per block of the cycle below the finest grid (kernels/dpcg/vertex.cuh).
pub const VERTEX_CYCLE_THREADS: u32 = 1024;
/// Largest number of threads that sweep over a tile (kernels/dpcg/finest.cuh).
const TILE_THREADS: u32 = 768;
/// Number of coarse points of a brick in x, y and z. A brick is the part of the coarse grid for which one block
/// computes the restriction (kernels/dpcg/finest.cuh).
const BRICK: [i32; 3] = [16, 4, 4];
/// Largest width of a tile in cells.
const TILE_WIDTH: u32 = 64;
/// Number of multiprocessors of an H100. The tiles of a sweep are selected such that every multiprocessor has a block.
/// A launch that executes one step of the cycle below the finest grid has this number of blocks.
const MULTIPROCESSORS: u32 = 132;

/// Largest number of unknowns of E (kernels/dpcg/dense.cuh).
pub const MAX_VECTORS: u32 = 4096;

/// Number of columns in x and in y in a tile of the fused passes. A column consists of the cells with the same x and y.
const FUSED_TILE: (u32, u32) = (32, 16);
/// Largest number of blocks of the fused passes: one for each of 132 multiprocessors.
const MAX_FUSED_BLOCKS: u32 = 132;

/// Largest order of a Neumann series in the fused passes.
pub const MAX_FUSED_ORDER: usize = 2;

impl FusedArgs {
    fn piece_count(&self, planes: u32) -> u64 {
        let CellBox { nx, ny, nz, .. } = self.cells;
        let tiles_x = (nx as u32).div_ceil(FUSED_TILE.0);
        let tiles_y = (ny as u32).div_ceil(FUSED_TILE.1);
        u64::from(tiles_x) * u64::from(tiles_y) * u64::from((nz as u32).div_ceil(planes))
    }

    /// Sets `planes_per_piece` such that a block processes as few planes as possible. A piece consists of
    /// `planes_per_piece` consecutive planes of a tile. For each piece, a block processes
    /// `planes_per_piece` + `extra_planes` planes.
    pub fn with_planes_per_piece(mut self, extra_planes: u32) -> Self {
        let nz = self.cells.nz as u32;
        let planes_per_block = |&planes: &u32| {
            self.piece_count(planes).div_ceil(u64::from(MAX_FUSED_BLOCKS)) * u64::from(planes + extra_planes)
        };
        let plane_counts = (1..=nz.min(MAX_FUSED_BLOCKS)).map(|piece_layers| nz.div_ceil(piece_layers));
        self.planes_per_piece = plane_counts.min_by_key(planes_per_block).unwrap_or(nz) as i32;
        self
    }

    fn blocks(&self) -> u32 {
        self.piece_count(self.planes_per_piece as u32).min(u64::from(MAX_FUSED_BLOCKS)) as u32
    }

    /// Returns the threads of a block: one per column of the tile, which is extended by `order` + 2 columns in x and y.
    fn block(order: u32) -> (u32, u32) {
        let extra_columns = order + 2;
        (((FUSED_TILE.0 + extra_columns) * (FUSED_TILE.1 + extra_columns)).next_multiple_of(32), 1)
    }
}

impl CellFindings {
    /// Returns the findings before any kernel has inspected a matrix.
    pub fn none() -> Self {
        Self { smallest: [u64::MAX; 3], first_outward: u64::MAX, ..Self::default() }
    }
}

/// Largest number of strong groups whose extents are stored (kernels/dpcg/survey.cuh).
pub const MAX_GROUPS: usize = 1000;

/// What is summed over labelled cells: the values v, their magnitudes |v|, or their reciprocals 1 / v.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummandKind {
    Values = 0,
    Magnitudes = 1,
    Inverses = 2,
}

impl SweepTiles {
    /// Returns the tiles of a sweep that needs `halo` rows on each side of a tile in y.
    pub fn of(cells: CellBox, halo: u32) -> Self {
        let [nx, ny, nz] = [cells.nx, cells.ny, cells.nz].map(|n| n as u32);
        let even_share = |n: u32, limit: u32| n.div_ceil(n.div_ceil(limit));
        let width = even_share(nx, TILE_WIDTH).next_multiple_of(2);
        let pairs = width / 2 + 2;
        let height = even_share(ny, TILE_THREADS / pairs - 2 * halo);
        let (tiles_x, tiles_y) = (nx.div_ceil(width), ny.div_ceil(height));
        // Each tile processes three additional planes. The number of tiles in z is chosen to minimize the planes that a
        // multiprocessor processes.
        let rounds =
            |layers: u32| (u64::from(tiles_x * tiles_y) * u64::from(layers)).div_ceil(u64::from(MULTIPROCESSORS));
        let cost = |layers: &u32| rounds(*layers) * u64::from(nz.div_ceil(*layers) + 3);
        let layers = (1..=nz.min(MULTIPROCESSORS)).min_by_key(cost).unwrap_or(1);
        let depth = nz.div_ceil(layers);
        let tile_count = tiles_x * tiles_y * nz.div_ceil(depth);
        let rows = height + 2 * halo;
        let [pairs, rows, width, height] = [pairs, rows, width, height].map(|n| n as i32);
        let [depth, tiles_x, tiles_y, tile_count] = [depth, tiles_x, tiles_y, tile_count].map(|n| n as i32);
        Self { pairs, rows, width, height, depth, tiles_x, tiles_y, tile_count }
    }

    fn blocks(&self) -> u32 {
        (self.tile_count as u32).min(MAX_CELL_BLOCKS)
    }

    fn block(&self) -> (u32, u32) {
        (((self.pairs * self.rows) as u32).next_multiple_of(32), 1)
    }
}

impl Strides {
    /// Returns the strides of the interpolation weights for a coarse grid, and the number of weights. `coarsened`
    /// states which directions are coarsened.
    pub fn of(coarse: CellBox, coarsened: [bool; 3]) -> (Self, usize) {
        let [x, y, z] = coarsened.map(|is_coarsened| if is_coarsened { 3 } else { 1 });
        let (row, rows) = (i64::from(coarse.nx), x * y * z - 1);
        let point_step = [1, rows * row, rows * row * i64::from(coarse.ny)];
        (Self { per_digit: [1, x, x * y].map(|digits| digits * row), point_step }, (rows * coarse.count()) as usize)
    }
}

impl CoarseningArgs {
    /// Returns the number of points in a plane of the coarse grid.
    fn coarse_plane(&self) -> i64 {
        i64::from(self.coarse.nx) * i64::from(self.coarse.ny)
    }

    /// Returns the number of cubes of a slab (kernels/dpcg/coarsening.cuh).
    fn cube_count(&self) -> i64 {
        i64::from(self.cube_planes) * self.coarse_plane()
    }
}

impl RestrictFinestArgs {
    /// Returns the arguments of the restriction of the residual. `source_array` is the index of the array x from which
    /// the residual is computed.
    pub fn new(level: VertexGrid, source_array: i32, sum: Sum) -> Self {
        let brick_count = |n: i32, brick: i32| (n + brick - 1) / brick;
        let (bricks_x, bricks_y) = (brick_count(level.coarse.nx, BRICK[0]), brick_count(level.coarse.ny, BRICK[1]));
        Self { grid: level, source_array, bricks_x, bricks_y, unused: 0, sum }
    }

    fn brick_count(&self) -> u32 {
        (self.bricks_x * self.bricks_y * ((self.grid.coarse.nz + BRICK[2] - 1) / BRICK[2])) as u32
    }
}

plain_kernels! {
    PlainKernel from FIRST_FAMILY_KERNEL, in PLAIN_KERNELS:
    /// Computes A v, and <v, A v>.
    CellProduct cell_product(CellProductArgs) = "dpcg_multiply_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes b - A v and its squared norm.
    CellResidual cell_residual(CellProductArgs) = "dpcg_residual_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Forward pass: computes r -= alpha P A p and v = D^-1 K r, with <r, r> and <r, M^-1 r>. K is a Neumann series,
    /// whose order is the last digit of the name; K = I for order 0.
    Descend0 descend_0(FusedArgs) = "dpcg_descend_0_f64", |a| a.blocks(), FusedArgs::block(0);
    /// Forward pass with a Neumann series of order 1.
    Descend1 descend_1(FusedArgs) = "dpcg_descend_1_f64", |a| a.blocks(), FusedArgs::block(1);
    /// Forward pass with a Neumann series of order 2.
    Descend2 descend_2(FusedArgs) = "dpcg_descend_2_f64", |a| a.blocks(), FusedArgs::block(2);
    /// Backward pass: computes z = K^T v, x += alpha p, p = z + beta p and q = A p, with <p, q>.
    Ascend0 ascend_0(FusedArgs) = "dpcg_ascend_0_f64", |a| a.blocks(), FusedArgs::block(0);
    /// Backward pass with a Neumann series of order 1.
    Ascend1 ascend_1(FusedArgs) = "dpcg_ascend_1_f64", |a| a.blocks(), FusedArgs::block(1);
    /// Backward pass with a Neumann series of order 2.
    Ascend2 ascend_2(FusedArgs) = "dpcg_ascend_2_f64", |a| a.blocks(), FusedArgs::block(2);
    /// Computes r -= alpha q and <r, r>.
    AdvanceResidual advance_residual(FusedArgs) = "dpcg_advance_residual_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes D^-1 v.
    DivideByCenter divide_by_center(TriangleArgs) = "dpcg_divide_by_center_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes D^-1 (v - L input).
    SolveLower solve_lower(TriangleArgs) = "dpcg_solve_lower_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes v - D^-1 L^T input.
    ApplyUpper apply_upper(TriangleArgs) = "dpcg_apply_upper_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Copies the caller's matrix and tests its entries.
    CopyMatrix copy_matrix(SurveyArgs) = "dpcg_copy_matrix_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes the statistics of the rows in `CellFindings`. Joins coupled cells to runs, within each segment of 32
    /// consecutive cells.
    InspectRows inspect_rows(SurveyArgs) = "dpcg_inspect_rows_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Joins the runs of all segments to components and strong groups.
    UniteCells unite_cells(SurveyArgs) = "dpcg_unite_cells_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Replaces the parent of each cell by the root of its tree (union-find). Counts the components and strong groups,
    /// and numbers the groups.
    ReplaceParentsByRoots replace_parents_by_roots(SurveyArgs) = "dpcg_replace_parents_by_roots_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes the extents of strong groups.
    GroupExtents group_extents(SurveyArgs) = "dpcg_group_extents_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Counts the hidden groups. A group is hidden if a coarse grid has several points in it, and the next coarser grid
    /// has none.
    HiddenGroups hidden_groups(SurveyArgs) = "dpcg_hidden_groups_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Counts, or lists, the slots of each chunk of cells and their items (kernels/dpcg/labelled.cuh).
    ListSlots list_slots(ListArgs) = "dpcg_list_slots_f64", |a| chunk_blocks(a.cell_count, MAX_CELL_BLOCKS), BLOCK_SIZE;
    /// Computes exclusive prefix sums in place.
    ScanPrefixSums scan_prefix_sums(ScanArgs) = "dpcg_scan_prefix_sums_f64", |a| a.arrays as u32, BLOCK_SIZE;
    /// Computes the index of each slot in the order of labels.
    SortSlots sort_slots(ListArgs) = "dpcg_sort_slots_f64", |a| warp_blocks(a.labels.count), BLOCK_SIZE;
    /// Counts, or lists, the components whose first cell is in each chunk.
    ListComponents list_components(CellComponentArgs) = "dpcg_list_components_f64",
        |a| chunk_blocks(a.cells.count(), MAX_CELL_BLOCKS), BLOCK_SIZE;
    /// Stores the component of each cell. Computes, for each component, the number of its cells, and whether a cell has
    /// a nonzero row sum.
    NumberComponents number_components(CellComponentArgs) = "dpcg_number_components_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Stores the number of the singular component of each cell, if the cell belongs to one.
    LabelSingular label_singular(CellComponentArgs) = "dpcg_label_singular_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Finds the class of each cell (kernels/dpcg/classes.cuh).
    ClassifyCells classify_cells(ClassArgs) = "dpcg_classify_cells_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Collects the classes from the hash table.
    GatherClasses gather_classes(ClassArgs) = "dpcg_gather_classes_f64",
        |a| cell_blocks(i64::from(a.slot_count)), BLOCK_SIZE;
    /// Stores the region of each cell.
    NumberCells number_cells(ClassArgs) = "dpcg_number_cells_f64",
        |a| cell_blocks(a.cells.count() + 2 * i64::from(a.guard_cells)), BLOCK_SIZE;
    /// Adds the couplings between regions, and the row sums, to exact sums.
    AddCouplings add_couplings(CoarseMatrixArgs) = "dpcg_add_couplings_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Rounds the exact sums of `add_couplings` to the entries of E.
    RoundCoarseMatrix round_coarse_matrix(CoarseMatrixArgs) = "dpcg_round_coarse_matrix_f64",
        |a| warp_blocks(a.n as u32), BLOCK_SIZE;
    /// Computes the shift c of each null vector u. The stored inverse is that of E + c u u^T.
    FindShifts find_shifts(NullVectorArgs) = "dpcg_find_shifts_f64", |_a| 1, BLOCK_SIZE;
    /// Finds the largest magnitude of the entries of an inverse, and the largest diagonal entry of the inverted matrix.
    FindCondition find_condition(NullVectorArgs) = "dpcg_find_condition_f64",
        |a| cell_blocks(i64::from(a.n) * i64::from(a.n)), BLOCK_SIZE;
    /// Stores the matrix of the coarsest grid of vertex coarsening densely, from conductances in f64.
    SpreadCoarsest spread_coarsest(CoarsestArgs) = "dpcg_spread_coarsest_f64", |_a| 1, (MAX_UNKNOWNS, 1);
    /// As `spread_coarsest`, from conductances in f32.
    SpreadCoarsestF32 spread_coarsest_f32(CoarsestArgs) = "dpcg_spread_coarsest_f32", |_a| 1, (MAX_UNKNOWNS, 1);
    /// Stores the matrix of the coarsest grid of cell coarsening densely, from couplings in f64.
    SpreadCells spread_cells(CoarsestArgs) = "dpcg_spread_cells_f64", |_a| 1, (MAX_UNKNOWNS, 1);
    /// As `spread_cells`, from couplings in f32.
    SpreadCellsF32 spread_cells_f32(CoarsestArgs) = "dpcg_spread_cells_f32", |_a| 1, (MAX_UNKNOWNS, 1);
    /// Multiplies a vector in f64 by a dense inverse.
    MultiplyDense multiply_dense(DenseArgs) = "dpcg_multiply_dense_f64", |a| warp_blocks(a.n as u32), BLOCK_SIZE;
    /// Multiplies a vector in f32 by a dense inverse.
    MultiplyDenseF32 multiply_dense_f32(DenseArgs) = "dpcg_multiply_dense_f32", |a| warp_blocks(a.n as u32), BLOCK_SIZE;
    /// Computes v = v - A Z t.
    SubtractDeflated subtract_deflated(DeflatedArgs) = "dpcg_subtract_deflated_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes v = v + Z t.
    AddDeflated add_deflated(DeflatedArgs) = "dpcg_add_deflated_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Restricts a residual of the caller's grid to the first coarse grid in f32.
    RestrictCellsTo restrict_cells_to(GridTransferArgs) = "dpcg_restrict_cells_to_f32",
        |a| cell_blocks(a.coarse.count()), BLOCK_SIZE;
    /// Interpolates a solution in f32 to the caller's grid.
    InterpolateCellsFrom interpolate_cells_from(GridTransferArgs) = "dpcg_interpolate_cells_from_f32",
        |a| cell_blocks(a.fine.cells.count()), BLOCK_SIZE;
    /// Computes row sums and the strengths of the directions on the caller's grid.
    RowSumsOfFinest row_sums_of_finest(CellGridArgs) = "dpcg_row_sums_of_finest_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes the first coarse matrix, in f32.
    CoarsenCellsTo coarsen_cells_to(CellGridArgs) = "dpcg_coarsen_cells_to_f32",
        |a| cell_blocks(a.coarse.count()), BLOCK_SIZE;
    /// Computes couplings and row sums for aggregation.
    CellCouplings cell_couplings(CellCouplingsArgs) = "dpcg_agg_couplings_f64",
        |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
}

real_kernels! {
    RealKernel from FIRST_FAMILY_KERNEL + PLAIN_KERNELS.len(), in REAL_KERNELS:
    /// Gauss-Seidel sweep on the finest grid from x = 0.
    SweepFromZero sweep_from_zero(FinestSweepArgs) = "dpcg_sweep_from_zero", |a| a.tiles.blocks(), in a.tiles.block();
    /// Sweep from the stored x.
    SweepFinest sweep_finest(FinestSweepArgs) = "dpcg_sweep", |a| a.tiles.blocks(), in a.tiles.block();
    /// Sweep from x plus the interpolated coarse solution.
    SweepCorrected sweep_corrected(FinestSweepArgs) = "dpcg_sweep_corrected", |a| a.tiles.blocks(), in a.tiles.block();
    /// Last sweep from the stored x, which writes z.
    LastSweep last_sweep(FinestSweepArgs) = "dpcg_last_sweep", |a| a.tiles.blocks(), in a.tiles.block();
    /// Last sweep from x plus the interpolated coarse solution, which writes z.
    LastSweepCorrected last_sweep_corrected(FinestSweepArgs) = "dpcg_last_sweep_corrected",
        |a| a.tiles.blocks(), in a.tiles.block();
    /// Restricts the residual of the finest grid to the next grid, and computes the first smoothing step there.
    RestrictFinest restrict_finest(RestrictFinestArgs) = "dpcg_restrict_finest", |a| a.brick_count();
    /// Executes a step of the cycle below the finest grid.
    VertexCycleStep vertex_cycle_step(VertexCycleArgs) = "dpcg_vertex_cycle_step",
        |_a| MULTIPROCESSORS, in (VERTEX_CYCLE_THREADS, 1);
    /// Computes row sums and the smoother of the finest grid; in single precision also conductances.
    ComputeConductances compute_conductances(CoarseningArgs) = "dpcg_compute_conductances",
        |a| cell_blocks(a.fine.count());
    /// Computes the strengths of the directions on the finest grid.
    ComputeFinestStrengths compute_finest_strengths(CoarseningArgs) = "dpcg_compute_finest_strengths",
        |a| cell_blocks(a.fine.count());
    /// Computes the strengths of the directions on a coarse grid.
    ComputeStrengths compute_strengths(CoarseningArgs) = "dpcg_compute_strengths", |a| cell_blocks(a.fine.count());
    /// Computes interpolation weights from the finest grid.
    ComputeFinestWeights compute_finest_weights(CoarseningArgs) = "dpcg_compute_finest_weights",
        |a| cell_blocks(3 * a.coarse.count());
    /// Computes interpolation weights from a coarse grid.
    ComputeWeights compute_weights(CoarseningArgs) = "dpcg_compute_weights", |a| cell_blocks(3 * a.coarse.count());
    /// Computes the contributions of the cubes of a slab to P^T A P, from the finest grid
    /// (kernels/dpcg/coarsening.cuh).
    MultiplyFinest multiply_finest(CoarseningArgs) = "dpcg_multiply_finest", |a| cell_blocks(a.cube_count());
    /// Computes the contributions of the cubes of a slab to P^T A P, from a coarse grid.
    MultiplyCoarse multiply_coarse(CoarseningArgs) = "dpcg_multiply_coarse", |a| cell_blocks(8 * a.cube_count());
    /// Adds the contributions of the cubes to the coarse matrix, and computes the smoother of the coarse grid.
    ComputeCoarseGrid compute_coarse_grid(CoarseningArgs) = "dpcg_compute_coarse_grid",
        |a| cell_blocks(i64::from(a.point_planes) * a.coarse_plane());
    /// Executes a Gauss-Seidel half-sweep for the cells of one colour.
    RelaxCells relax_cells(CellArgs) = "dpcg_relax_cells", |a| cell_blocks(a.cells.count());
    /// Restricts the residual to the next grid.
    RestrictCells restrict_cells(GridTransferArgs) = "dpcg_restrict_cells", |a| cell_blocks(a.coarse.count());
    /// Adds the interpolated solution of the next grid.
    InterpolateCells interpolate_cells(GridTransferArgs) = "dpcg_interpolate_cells",
        |a| cell_blocks(a.fine.cells.count());
    /// Computes the matrix of the next grid.
    CoarsenCells coarsen_cells(CellGridArgs) = "dpcg_coarsen_cells", |a| cell_blocks(a.coarse.count());
    /// Computes the centers of a grid and the strengths of its directions.
    CentersAndStrengths centers_and_strengths(CellGridArgs) = "dpcg_centers_and_strengths",
        |a| cell_blocks(a.cells.count());
}

/// Returns the number of the cooperative kernel of the cycle below the finest grid.
fn vertex_cycle_kernel(is_single_precision: bool) -> usize {
    FIRST_FAMILY_KERNEL
        + PLAIN_KERNELS.len()
        + 2 * RealKernel::VertexCycleStep as usize
        + usize::from(is_single_precision)
}

/// Returns the launch shape of the cooperative kernel of the cycle below the finest grid. `blocks` is 0 if the device
/// does not support cooperative launches.
pub fn vertex_cycle_launch(device: &Device, is_single_precision: bool) -> Result<CooperativeLaunch> {
    let blocks = device.max_resident_blocks(vertex_cycle_kernel(is_single_precision), VERTEX_CYCLE_THREADS)?;
    Ok(CooperativeLaunch { blocks, cluster: 1, shared_bytes: 0, extra_blocks: 0 })
}

/// Launches the whole cycle below the finest grid.
pub fn vertex_cycle(
    stream: &Stream,
    is_single_precision: bool,
    cooperative: CooperativeLaunch,
    a: &VertexCycleArgs,
) -> Result<()> {
    // SAFETY: as in `plain_kernels`; all blocks run at once (`Stream::launch_cooperative`).
    unsafe {
        stream.launch_cooperative(
            vertex_cycle_kernel(is_single_precision),
            cooperative,
            (VERTEX_CYCLE_THREADS, 1),
            a,
            "kernel dpcg_cycle",
        )
    }
}
