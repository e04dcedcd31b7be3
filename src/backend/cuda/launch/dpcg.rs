//! The kernels of `dpcg`: what they take, and their launches.

use super::aggregation::{COUNT, Couplings};
use super::declare::Address;
use super::inverse::InverseArgs;
use crate::backend::cuda::driver::{Argument, Device, Kernel, Stream, Together};
use crate::error::Result;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Threads of all blocks, and blocks of a launch at most: kernels/dpcg/box.cuh.
const CELL_THREADS: u32 = 256;
const BLOCK: (u32, u32) = (CELL_THREADS, 1);
pub const MOST_CELL_BLOCKS: u32 = 528;
/// Six for each of 132 multiprocessors: kernels/dpcg/labelled.cuh.
const MOST_SLOT_BLOCKS: u32 = 792;
/// Threads of a block of the cycle below the finest grid: kernels/dpcg/vertex.cuh.
pub const VERTEX_CYCLE_THREADS: u32 = 1024;
/// Threads of a tile at most, and points of a brick of the restriction: kernels/dpcg/finest.cuh.
const TILE_THREADS: u32 = 768;
const BRICK: [i32; 3] = [16, 4, 4];
/// Cells of a row of a tile at most, so that two tiles have a row of 128.
const TILE_WIDTH: u32 = 64;
/// Blocks of a sweep that run at once, for the choice of tiles.
const AT_ONCE: u32 = 132;

/// Blocks of a launch over so many cells.
pub fn cell_blocks(count: i64) -> u32 {
    (count.max(1) as u64).div_ceil(u64::from(CELL_THREADS)).min(u64::from(MOST_CELL_BLOCKS)) as u32
}

/// Cells whose sums by label are one value each, and those of a segment of these; unknowns of a coarsest grid and of E
/// at most: kernels/dpcg.
pub const CHUNK: i64 = 1024;
pub const SEGMENT: i64 = 16;
pub const MOST_UNKNOWNS: u32 = 1024;
pub const MOST_VECTORS: u32 = 4096;

/// Blocks of a launch with one for each chunk of so many cells.
fn chunk_blocks(cells: i64) -> u32 {
    cell_blocks((cells.max(1) + CHUNK - 1) / CHUNK * i64::from(CELL_THREADS))
}

/// Blocks of a launch with lanes for each slot of so many cells: all at once, fewer where there are fewer chunks.
fn slot_blocks(cells: i64) -> u32 {
    (cells.max(1) as u64).div_ceil(CHUNK as u64).min(u64::from(MOST_SLOT_BLOCKS)) as u32
}

/// Blocks of a launch with a warp for each of so many items.
fn warp_blocks(count: u32) -> u32 {
    cell_blocks(32 * i64::from(count))
}

entries! {
    /// Extents.
    CellBox { nx: i32, ny: i32, nz: i32, unused: i32 }
    /// The caller's array: its address, values from one row and from one plane to the next.
    CellArray { values: Address, ld: i64, plane: i64 }
    /// The matrix, at its first cell.
    CellMatrix { center: Address, east: Address, north: Address, top: Address }
    /// What becomes of a sum over all cells; `partial` = 0: there is none.
    Sum { partial: Address, scalars: Address, to: Address, how: i32, in_loop: i32, conditional: u64 }
    /// A component: its first cell, how many, and whether the sum of a row is not zero.
    CellComponent { first: u32, cells: u32, regular: u32 }
    /// A class of cells: its first one, that in no strong group, how many, whether its phase is none, its component.
    CellClass { first: u32, first_heavy: u32, cells: u32, unlabelled: i32, component: u32 }
    /// What is found in a matrix; magnitudes by their bits.
    CellFindings {
        unusual: u64, center_max: u64, smallest: [u64; 3], largest: [u64; 3], outward: [u64; 3], first_outward: u64,
        row_sum: u64, strength: [f64; 3], alone: u64, components: u64, regular: u64, groups: u64, classes: u64,
        hidden: u64, ticket: u32, unused: u32
    }
    /// Labels of cells, of 16 bits or wide, from `count` on none; `of` = 0: all cells have label 0.
    CellLabels { of: Address, wide: i32, count: u32 }
    /// Where weights lie: kernels/dpcg/vertex.cuh.
    Strides { of: [i64; 3], next: [i64; 3] }
}

/// Columns of a tile of the fused passes, and blocks of them at most, one for each of 132 multiprocessors.
const FUSED_TILE: (u32, u32) = (32, 16);
const MOST_FUSED_BLOCKS: u32 = 132;

/// Terms of a Neumann series, after the first, that the fused passes have.
pub const MOST_FUSED_ORDER: usize = 2;

impl FusedArgs {
    fn pieces(&self, chunk: u32) -> u64 {
        let CellBox { nx, ny, nz, .. } = self.cells;
        let across = (nx as u32).div_ceil(FUSED_TILE.0);
        let down = (ny as u32).div_ceil(FUSED_TILE.1);
        u64::from(across) * u64::from(down) * u64::from((nz as u32).div_ceil(chunk))
    }

    /// In pieces with which the blocks have the least to do, planes beside a piece included.
    pub fn in_pieces(mut self, beside: u32) -> Self {
        let nz = self.cells.nz as u32;
        let work = |&chunk: &u32| self.pieces(chunk).div_ceil(u64::from(MOST_FUSED_BLOCKS)) * u64::from(chunk + beside);
        let chunks = (1..=nz.min(MOST_FUSED_BLOCKS)).map(|parts| nz.div_ceil(parts));
        self.chunk = chunks.min_by_key(work).unwrap_or(nz) as i32;
        self
    }

    fn blocks(&self) -> u32 {
        self.pieces(self.chunk as u32).min(u64::from(MOST_FUSED_BLOCKS)) as u32
    }

    /// Threads of a block: columns of a tile, and beside it.
    fn block(order: u32) -> (u32, u32) {
        let beside = order + 2;
        (((FUSED_TILE.0 + beside) * (FUSED_TILE.1 + beside)).next_multiple_of(32), 1)
    }
}

impl CellFindings {
    /// Before anything was seen.
    pub fn none() -> Self {
        Self { smallest: [u64::MAX; 3], first_outward: u64::MAX, ..Self::default() }
    }
}

/// Strong groups whose extents are noted: kernels/dpcg/survey.cuh.
pub const MOST_GROUPS: usize = 1000;

/// What becomes of a sum: it is kept, or decides on an iteration as <r, M^-1 r> or as <p, A p>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Kept = 0,
    Rho = 1,
    LastSigma = 2,
    /// As <Z^T q, t>, which <p, q> is larger by.
    LastPart = 3,
}

/// What sums over labelled cells add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Values = 0,
    Magnitudes = 1,
    Inverses = 2,
}

impl CellBox {
    /// Cells.
    pub fn count(&self) -> i64 {
        i64::from(self.nx) * i64::from(self.ny) * i64::from(self.nz)
    }
}

impl SweepTiles {
    /// For a sweep that needs so many rows around a tile.
    pub fn of(cells: CellBox, halo: u32) -> Self {
        let [nx, ny, nz] = [cells.nx, cells.ny, cells.nz].map(|n| n as u32);
        let share = |n: u32, most: u32| n.div_ceil(n.div_ceil(most));
        let width = share(nx, TILE_WIDTH).next_multiple_of(2);
        let pairs = width / 2 + 2;
        let height = share(ny, TILE_THREADS / pairs - 2 * halo);
        let (across, down) = (nx.div_ceil(width), ny.div_ceil(height));
        // A tile has three planes more than its own; as many at once as an H100 has multiprocessors.
        let rounds = |deep: u32| (u64::from(across * down) * u64::from(deep)).div_ceil(u64::from(AT_ONCE));
        let cost = |deep: &u32| rounds(*deep) * u64::from(nz.div_ceil(*deep) + 3);
        let deep = (1..=nz.min(AT_ONCE)).min_by_key(cost).unwrap_or(1);
        let depth = nz.div_ceil(deep);
        let count = across * down * nz.div_ceil(depth);
        Self { pairs, rows: height + 2 * halo, width, height, depth, across, down, count }
    }

    fn blocks(&self) -> u32 {
        self.count.min(MOST_CELL_BLOCKS)
    }

    fn block(&self) -> (u32, u32) {
        ((self.pairs * self.rows).next_multiple_of(32), 1)
    }
}

impl Strides {
    /// Of the weights towards a coarse grid, and how many there are.
    pub fn of(coarse: CellBox, coarsened: [bool; 3]) -> (Self, usize) {
        let [x, y, z] = coarsened.map(|is| if is { 3 } else { 1 });
        let (row, rows) = (i64::from(coarse.nx), x * y * z - 1);
        let next = [1, rows * row, rows * row * i64::from(coarse.ny)];
        (Self { of: [1, x, x * y].map(|digits| digits * row), next }, (rows * coarse.count()) as usize)
    }
}

impl CoarseningArgs {
    /// Of a plane of the coarse grid.
    fn coarse_plane(&self) -> i64 {
        i64::from(self.coarse.nx) * i64::from(self.coarse.ny)
    }

    /// Cubes of a slab.
    fn cubes(&self) -> i64 {
        i64::from(self.cube_planes) * self.coarse_plane()
    }
}

impl RestrictFinestArgs {
    /// From one of the two x of a grid.
    pub fn new(level: VertexGrid, from: i32, sum: Sum) -> Self {
        let bricks = |n: i32, brick: i32| (n + brick - 1) / brick;
        let (across, down) = (bricks(level.coarse.nx, BRICK[0]), bricks(level.coarse.ny, BRICK[1]));
        Self { level, from, across, down, unused: 0, sum }
    }

    fn bricks(&self) -> u32 {
        (self.across * self.down * ((self.level.coarse.nz + BRICK[2] - 1) / BRICK[2])) as u32
    }
}

structures! {
    CellProductArgs { cells: CellBox, m: CellMatrix, v: Address, b: Address, out: Address, sum: Sum }
    VectorArgs { count: i64, a: Address, b: Address, out: Address, other: Address, factor: f64, sum: Sum }
    TriangleArgs { cells: CellBox, m: CellMatrix, v: Address, from: Address, to: Address, r: Address, sum: Sum }
    /// Of the two passes of an iteration: kernels/dpcg/fused.cuh.
    FusedArgs {
        cells: CellBox, m: CellMatrix, r: [Address; 2], p: [Address; 2], q: Address, x: Address, v: Address,
        region: Address, t: Address, norm_partial: Address, chunk: i32, unused: i32, sum: Sum
    }
    CellInspectArgs { cells: CellBox, input: CellArray, output: CellArray, scalars: Address }
    SurveyArgs {
        cells: CellBox, input: [CellArray; 4], to: [Address; 4], zero_row_sum: f64, component: Address, group: Address,
        extents: Address, partial: Address, findings: Address, seen: Address, grids: i32, step: i32
    }
    /// Components of a matrix with several.
    CellComponentArgs {
        cells: CellBox, m: CellMatrix, zero_row_sum: f64, root: Address, number: Address, chunk_start: Address,
        components: Address, singular: Address, labels: Address, none: u32, unused: u32
    }
    ClassArgs {
        cells: CellBox, m: CellMatrix, component: Address, group: Address, labels: Address, boxes: [i32; 3],
        by_phase: i32, labelled: i32, dilation: i32, slots: i32, guard: i32, keys: Address, first: Address,
        first_heavy: Address, of_class: Address, place: Address, slot_of: Address, classes: Address, numbers: Address,
        regions: Address, none: i32, unused: i32, findings: Address
    }
    CellTransferArgs { cells: CellBox, array: CellArray, vector: Address, factor: f64, sum: Sum }
    CellLargestArgs { count: i64, v: Address, scalars: Address }
    ScaleArgs { count: i64, v: Address, partial: Address, scales: Address, scalars: Address }
    /// What cells of one label are listed by.
    ListArgs {
        labels: CellLabels, cells: i64, chunk_slots: Address, chunk_items: Address, slots: Address, items: Address,
        slot_label: Address, label_start: Address, place: Address, cells_of: Address
    }
    ScanArgs { values: Address, count: i64, arrays: i64 }
    LabelledArgs {
        labels: CellLabels, of: i64, slots: Address, items: Address, place: Address, label_start: Address,
        cells: Address, sums: Address, totals: Address, g: Address, v: Address, restore: i32, added: i32, sum: Sum
    }
    /// E = Z^T A Z.
    GalerkinArgs {
        cells: CellBox, m: CellMatrix, region: Address, singular: CellLabels, scale: f64, sums: Address,
        null_of: Address, matrix: Address, diagonal: Address, n: i32, unused: i32
    }
    /// A step of the inversion of a dense matrix.
    /// Its null vectors, and its condition.
    NullArgs {
        from: Address, to: Address, diagonal: Address, null_of: Address, nulls: Address, shift: Address,
        largest: Address, n: i32, add: i32
    }
    /// The coarsest grid of multigrid.
    CoarsestArgs {
        cells: CellBox, c: Address, c_stride: i64, center: Address, factor: f64, excess: Address, matrix: Address,
        diagonal: Address, null_of: Address, nulls: Address
    }
    DenseArgs { matrix: Address, input: Address, out: Address, n: i32, unused: i32, clock: Address, sum: Sum }
    DeflatedArgs {
        cells: CellBox, m: CellMatrix, region: Address, t: Address, v: Address, p: Address, sum: Sum
    }
    /// From a grid of vertex-coarsened multigrid to the next.
    CoarseningArgs {
        fine: CellBox, coarse: CellBox, coarsened: [i32; 3], which: i32, m: CellMatrix, scale: f64, c: Address,
        c_stride: i64, diagonal: Address, inverse: Address, excess: Address, weights: Address, narrow: Address,
        strides: Strides, cubes: Address, cubes_from: i32, cube_planes: i32, points_from: i32, point_planes: i32,
        coarse_c: Address, coarse_stride: i64, coarse_excess: Address, partial: Address, strengths: Address,
        scalars: Address
    }
}

entries! {
    /// A grid of vertex-coarsened multigrid, and the way to the next one.
    VertexGrid {
        cells: CellBox, coarse: CellBox, coarsened: [i32; 3], wide: i32, c: Address, c_stride: i64, per_coupling: f64,
        diagonal: Address, inverse: Address, weights: Address, strides: Strides, r: Address, x: [Address; 2],
        coarse_r: Address, coarse_start: Address, coarse_inverse: Address, coarse_x: Address
    }
    /// SweepTiles of a sweep on the finest grid.
    SweepTiles {
        pairs: u32, rows: u32, width: u32, height: u32, depth: u32, across: u32, down: u32, count: u32
    }
}

structures! {
    FinestSweepArgs {
        level: VertexGrid, colour: i32, from: i32, tiles: SweepTiles, wide: Address, z: Address, factor: f64,
        scales: Address, sum: Sum
    }
    RestrictFinestArgs { level: VertexGrid, from: i32, across: i32, down: i32, unused: i32, sum: Sum }
    VertexCycleArgs {
        levels: Address, count: i32, sweeps: i32, step: i32, unused: i32, coarsest: DenseArgs, barrier: Address,
        sum: Sum
    }
}

structures! {
    /// The matrix as couplings for aggregation.
    CellCouplingsArgs { cells: CellBox, m: CellMatrix, scale: f64, zero_row_sum: f64, c: Couplings }
    /// A vector to its cycle, and back.
    CellCycleArgs {
        count: i64, r: Address, z: Address, scales: Address, step: Address, of_r: Address, start: Address,
        of_z: Address, factor: f64, sum: Sum
    }
}

entries! {
    /// A grid of cell-centred multigrid.
    CellArgs {
        cells: CellBox, center: Address, forward: [Address; 3], r: Address, x: Address, colour: i32, from_zero: i32
    }
}

structures! {
    /// From one to the next.
    CellGridArgs {
        cells: CellBox, coarse: CellBox, ratio: [i32; 3], unused: i32, forward: [Address; 3], center: Address,
        excess: Address, coarse_forward: [Address; 3], coarse_excess: Address, factor: f64, zero_row_sum: f64,
        partial: Address, strengths: Address, scalars: Address
    }
    /// Two of them.
    PairArgs {
        fine: CellArgs, coarse: CellBox, ratio: [i32; 3], unused: i32, of_coarse: Address, scales: Address, factor: f64
    }
}

plain_kernels! {
    Number from COUNT, in PLAIN:
    /// A v.
    CellProduct cell_product(CellProductArgs) = "dpcg_multiply_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// b - A v.
    CellResidual cell_residual(CellProductArgs) = "dpcg_residual_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// <f a, f b>.
    CellDot cell_dot(VectorArgs) = "dpcg_dot_f64", |a| cell_blocks(a.count), BLOCK;
    /// out += f a.
    CellAddScaled cell_add_scaled(VectorArgs) = "dpcg_add_scaled_f64", |a| cell_blocks(a.count), BLOCK;
    /// out = a + f out.
    CellDirect cell_direct(VectorArgs) = "dpcg_direct_f64", |a| cell_blocks(a.count), BLOCK;
    /// r -= alpha P A p and v = D^-1 K r, and with the rest of the series p and A p.
    Descend0 descend_0(FusedArgs) = "dpcg_descend_0_f64", |a| a.blocks(), FusedArgs::block(0);
    Descend1 descend_1(FusedArgs) = "dpcg_descend_1_f64", |a| a.blocks(), FusedArgs::block(1);
    Descend2 descend_2(FusedArgs) = "dpcg_descend_2_f64", |a| a.blocks(), FusedArgs::block(2);
    Ascend0 ascend_0(FusedArgs) = "dpcg_ascend_0_f64", |a| a.blocks(), FusedArgs::block(0);
    Ascend1 ascend_1(FusedArgs) = "dpcg_ascend_1_f64", |a| a.blocks(), FusedArgs::block(1);
    Ascend2 ascend_2(FusedArgs) = "dpcg_ascend_2_f64", |a| a.blocks(), FusedArgs::block(2);
    /// r -= alpha q.
    AdvanceResidual advance_residual(FusedArgs) = "dpcg_advance_residual_f64",
        |a| cell_blocks(a.cells.count()), BLOCK;
    /// x += alpha p, p = z + beta p, of a loop.
    CellAdvance cell_advance(VectorArgs) = "dpcg_advance_f64", |a| cell_blocks(a.count), BLOCK;
    /// D^-1 v.
    OverCenter over_center(TriangleArgs) = "dpcg_over_center_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// D^-1 (v - L from).
    Lower lower(TriangleArgs) = "dpcg_lower_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// v - D^-1 L^T from.
    Upper upper(TriangleArgs) = "dpcg_upper_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Largest magnitudes of the caller's arrays.
    CellInspect cell_inspect(CellInspectArgs) = "dpcg_inspect_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Takes the caller's matrix.
    TakeMatrix take_matrix(SurveyArgs) = "dpcg_take_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// What is made of rows, and runs of joined cells.
    LookAtRows look_at_rows(SurveyArgs) = "dpcg_look_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Joins runs.
    UniteCells unite_cells(SurveyArgs) = "dpcg_unite_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Roots of all cells.
    SettleCells settle_cells(SurveyArgs) = "dpcg_settle_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Extents of strong groups.
    GroupExtents group_extents(SurveyArgs) = "dpcg_extents_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Groups that coarse grids do not see.
    HiddenGroups hidden_groups(SurveyArgs) = "dpcg_hidden_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// Components that begin in chunks of cells: how many, or which; the component of each cell.
    ListComponents list_components(CellComponentArgs) = "dpcg_list_components_f64",
        |a| chunk_blocks(a.cells.count()), BLOCK;
    CellComponentNumbers number_components(CellComponentArgs) = "dpcg_number_components_f64",
        |a| cell_blocks(a.cells.count()), BLOCK;
    /// Labels of singular components.
    LabelSingular label_singular(CellComponentArgs) = "dpcg_label_singular_f64",
        |a| cell_blocks(a.cells.count()), BLOCK;
    /// Classes of cells.
    ClassifyCells classify_cells(ClassArgs) = "dpcg_classify_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    GatherClasses gather_classes(ClassArgs) = "dpcg_gather_classes_f64", |a| cell_blocks(i64::from(a.slots)), BLOCK;
    /// Regions of cells.
    CellNumbers number_cells(ClassArgs) = "dpcg_number_cells_f64",
        |a| cell_blocks(a.cells.count() + 2 * i64::from(a.guard)), BLOCK;
    /// From the caller's array.
    CellLoad cell_load(CellTransferArgs) = "dpcg_load_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// And back.
    CellStore cell_store(CellTransferArgs) = "dpcg_store_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// max |v|.
    CellLargest cell_largest(CellLargestArgs) = "dpcg_largest_f64", |a| cell_blocks(a.count), BLOCK;
    /// A power of two near it.
    CellScale cell_scale(ScaleArgs) = "dpcg_scale_f64", |a| cell_blocks(a.count), BLOCK;
    /// Slots of chunks of cells with their items: how many, or which.
    ListSlots list_slots(ListArgs) = "dpcg_list_slots_f64", |a| chunk_blocks(a.cells), BLOCK;
    /// Sums of those before each.
    Scan scan(ScanArgs) = "dpcg_scan_f64", |a| a.arrays as u32, BLOCK;
    /// Places of slots by label.
    SortSlots sort_slots(ListArgs) = "dpcg_sort_slots_f64", |a| warp_blocks(a.labels.count), BLOCK;
    /// Sums over cells of one label in a chunk.
    SlotSums slot_sums(LabelledArgs) = "dpcg_slot_sums_f64", |a| slot_blocks(a.of), BLOCK;
    /// Sums of these, label by label.
    LabelSums label_sums(LabelledArgs) = "dpcg_label_sums_f64",
        |a| a.labels.count.clamp(1, MOST_CELL_BLOCKS), BLOCK;
    /// v less its means.
    CellShift cell_shift(LabelledArgs) = "dpcg_shift_f64", |a| cell_blocks(a.of), BLOCK;
    /// Remembers the means.
    CellKeepMeans cell_keep_means(LabelledArgs) = "dpcg_keep_means_f64",
        |a| cell_blocks(i64::from(a.labels.count)), BLOCK;
    /// Exact sums of the couplings between regions.
    AddCouplings add_couplings(GalerkinArgs) = "dpcg_add_couplings_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// E of them.
    TakeCoarseMatrix take_coarse_matrix(GalerkinArgs) = "dpcg_take_coarse_matrix_f64",
        |a| warp_blocks(a.n as u32), BLOCK;
    /// A step of an inversion: the first block has the next pivots.
    InvertStep invert_step(InverseArgs) = "dpcg_invert_step_f64", |a| a.blocks(), BLOCK;
    /// What is added along null vectors.
    FindShifts find_shifts(NullArgs) = "dpcg_find_shifts_f64", |_a| 1, BLOCK;
    /// Rows less their means over null vectors, as columns.
    TakeMeans take_means(NullArgs) = "dpcg_take_means_f64", |a| a.n.max(1) as u32, BLOCK;
    /// Largest entries of an inverse and of its matrix.
    FindCondition find_condition(NullArgs) = "dpcg_find_condition_f64",
        |a| cell_blocks(i64::from(a.n) * i64::from(a.n)), BLOCK;
    /// The matrix of the coarsest grid of multigrid, of couplings in f64 or in f32; of cells.
    SpreadCoarsest spread_coarsest(CoarsestArgs) = "dpcg_spread_coarsest_f64", |_a| 1, (MOST_UNKNOWNS, 1);
    SpreadCoarsestShort spread_coarsest_short(CoarsestArgs) = "dpcg_spread_coarsest_f32", |_a| 1, (MOST_UNKNOWNS, 1);
    SpreadCells spread_cells(CoarsestArgs) = "dpcg_spread_cells_f64", |_a| 1, (MOST_UNKNOWNS, 1);
    SpreadCellsShort spread_cells_short(CoarsestArgs) = "dpcg_spread_cells_f32", |_a| 1, (MOST_UNKNOWNS, 1);
    /// A product with an inverse, of values in f64 or in f32.
    Dense dense(DenseArgs) = "dpcg_dense_f64", |a| warp_blocks(a.n as u32), BLOCK;
    DenseShort dense_short(DenseArgs) = "dpcg_dense_f32", |a| warp_blocks(a.n as u32), BLOCK;
    /// v - A Z t.
    SubtractDeflated subtract_deflated(DeflatedArgs) = "dpcg_subtract_deflated_f64",
        |a| cell_blocks(a.cells.count()), BLOCK;
    /// v + Z t.
    AddDeflated add_deflated(DeflatedArgs) = "dpcg_add_deflated_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// A residual of the caller's grid to the first coarse one in f32; and a coarse solution back.
    RestrictCellsTo restrict_cells_to(PairArgs) = "dpcg_restrict_cells_to_f32",
        |a| cell_blocks(a.coarse.count()), BLOCK;
    InterpolateCellsFrom interpolate_cells_from(PairArgs) = "dpcg_interpolate_cells_from_f32",
        |a| cell_blocks(a.fine.cells.count()), BLOCK;
    /// What the caller's rows are more than their couplings, and strengths of directions.
    LookAtFinest look_at_finest(CellGridArgs) = "dpcg_look_at_finest_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// The first coarse matrix, in f32.
    CoarsenCellsTo coarsen_cells_to(CellGridArgs) = "dpcg_coarsen_cells_to_f32",
        |a| cell_blocks(a.coarse.count()), BLOCK;
    /// Couplings and excess for aggregation.
    CellCouplings cell_couplings(CellCouplingsArgs) = "dpcg_agg_couplings_f64",
        |a| cell_blocks(a.cells.count()), BLOCK;
}

real_kernels! {
    RealNumber from COUNT + PLAIN.len(), in REAL:
    /// A sweep of Gauss-Seidel on the finest grid: from x = 0, from x, from x + P of the coarse solution; the last two
    /// as the last one.
    FromZero sweep_from_zero(FinestSweepArgs) = "dpcg_sweep_from_zero", |a| a.tiles.blocks(), in a.tiles.block();
    Sweep sweep_finest(FinestSweepArgs) = "dpcg_sweep", |a| a.tiles.blocks(), in a.tiles.block();
    Corrected sweep_corrected(FinestSweepArgs) = "dpcg_sweep_corrected", |a| a.tiles.blocks(), in a.tiles.block();
    LastSweep last_sweep(FinestSweepArgs) = "dpcg_last_sweep", |a| a.tiles.blocks(), in a.tiles.block();
    LastCorrected last_sweep_corrected(FinestSweepArgs) = "dpcg_last_sweep_corrected",
        |a| a.tiles.blocks(), in a.tiles.block();
    /// The residual there, to the next grid.
    RestrictFinest restrict_finest(RestrictFinestArgs) = "dpcg_restrict_finest", |a| a.bricks();
    /// A step of the cycle below the finest grid.
    CycleStep vertex_cycle_step(VertexCycleArgs) = "dpcg_cycle", |_a| AT_ONCE, in (VERTEX_CYCLE_THREADS, 1);
    /// Row sums and smoother of the finest grid; in single precision conductances, too.
    TakeConductances take_conductances(CoarseningArgs) = "dpcg_take_conductances", |a| cell_blocks(a.fine.count());
    /// Strengths of directions on the finest grid, and on another one.
    FinestStrengths finest_strengths(CoarseningArgs) = "dpcg_finest_strengths", |a| cell_blocks(a.fine.count());
    Strengths strengths(CoarseningArgs) = "dpcg_strengths", |a| cell_blocks(a.fine.count());
    /// Weights of the interpolation.
    FinestWeights finest_weights(CoarseningArgs) = "dpcg_finest_weights", |a| cell_blocks(3 * a.coarse.count());
    Weights weights(CoarseningArgs) = "dpcg_weights", |a| cell_blocks(3 * a.coarse.count());
    /// P^T A P of a slab.
    FinestProduct finest_product(CoarseningArgs) = "dpcg_finest_product", |a| cell_blocks(a.cubes());
    Product product(CoarseningArgs) = "dpcg_product", |a| cell_blocks(8 * a.cubes());
    /// The coarse grid of it.
    TakeCoarse take_coarse(CoarseningArgs) = "dpcg_take_coarse",
        |a| cell_blocks(i64::from(a.point_planes) * a.coarse_plane());
    /// A half-sweep of Gauss-Seidel on cells.
    RelaxCells relax_cells(CellArgs) = "dpcg_relax_cells", |a| cell_blocks(a.cells.count());
    /// The residual to the next grid.
    RestrictCells restrict_cells(PairArgs) = "dpcg_restrict_cells", |a| cell_blocks(a.coarse.count());
    /// And its solution back.
    InterpolateCells interpolate_cells(PairArgs) = "dpcg_interpolate_cells", |a| cell_blocks(a.fine.cells.count());
    /// The next matrix.
    CoarsenCells coarsen_cells(CellGridArgs) = "dpcg_coarsen_cells", |a| cell_blocks(a.coarse.count());
    /// Its centers, and strengths of directions.
    LookAtCells look_at_cells(CellGridArgs) = "dpcg_look_at_cells", |a| cell_blocks(a.cells.count());
    /// A vector to the cycle of aggregation, and back.
    TakeCells take_cells(CellCycleArgs) = "dpcg_agg_take", |a| cell_blocks(a.count);
    GiveCells give_cells(CellCycleArgs) = "dpcg_agg_give", |a| cell_blocks(a.count);
}

/// The number of the cycle below the finest grid.
fn vertex_cycle_kernel(single: bool) -> usize {
    COUNT + PLAIN.len() + 2 * RealNumber::CycleStep as usize + usize::from(single)
}

/// Blocks of it that run at once; none where the device does not start them together.
pub fn vertex_cycle_together(device: &Device, single: bool) -> Result<Together> {
    let blocks = device.together(vertex_cycle_kernel(single), VERTEX_CYCLE_THREADS)?;
    Ok(Together { blocks, cluster: 1, shared: 0, further: 0 })
}

/// All of its steps.
pub fn vertex_cycle(stream: &Stream, single: bool, together: Together, a: &VertexCycleArgs) -> Result<()> {
    // SAFETY: as above; all blocks run at once (`Stream::launch_together`).
    unsafe {
        stream.launch_together(vertex_cycle_kernel(single), together, (VERTEX_CYCLE_THREADS, 1), a, "kernel dpcg_cycle")
    }
}
