//! The kernels of `dpcg`: what they take, and their launches.

use super::declare::Address;
use crate::backend::cuda::driver::{Argument, Kernel, Stream};
use crate::error::Result;
use bytemuck::{AnyBitPattern, Pod, Zeroable};

/// Threads of all blocks, and blocks of a launch at most: kernels/dpcg/box.cuh.
const CELL_THREADS: u32 = 256;
const BLOCK: (u32, u32) = (CELL_THREADS, 1);
pub const MOST_CELL_BLOCKS: u32 = 528;

/// Blocks of a launch over so many cells.
pub fn cell_blocks(count: i64) -> u32 {
    (count.max(1) as u64).div_ceil(u64::from(CELL_THREADS)).min(u64::from(MOST_CELL_BLOCKS)) as u32
}

/// Cells whose sums by label are one value each, and unknowns of a dense matrix at most: kernels/dpcg.
pub const CHUNK: i64 = 1024;
pub const MOST_UNKNOWNS: u32 = 1024;

/// Blocks of a launch with one for each chunk of so many cells.
fn chunk_blocks(cells: i64) -> u32 {
    cell_blocks((cells.max(1) + CHUNK - 1) / CHUNK * i64::from(CELL_THREADS))
}

/// Unknowns of a step of an inversion, and along a tile of the matrix.
pub const PIVOTS: i32 = 32;
const SIDE: u32 = 64;

/// A block for each tile; the first pivots are one block's.
fn inverse_blocks(a: &InverseArgs) -> u32 {
    if a.step < 0 { 1 } else { (a.n as u32).div_ceil(SIDE).pow(2) }
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
    /// Labels of cells, of 16 bits or wide, from `count` on none; `of` = 0: all cells have label 0.
    CellLabels { of: Address, wide: i32, count: u32 }
}

/// What becomes of a sum: it is kept, or decides on an iteration as <r, M^-1 r> or as <p, A p>.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Kept = 0,
    Rho = 1,
    LastSigma = 2,
}

impl CellBox {
    /// Cells.
    pub fn count(&self) -> i64 {
        i64::from(self.nx) * i64::from(self.ny) * i64::from(self.nz)
    }
}

structures! {
    CellProductArgs { cells: CellBox, m: CellMatrix, v: Address, b: Address, out: Address, sum: Sum }
    VectorArgs { count: i64, a: Address, b: Address, out: Address, other: Address, factor: f64, sum: Sum }
    TriangleArgs { cells: CellBox, m: CellMatrix, v: Address, from: Address, to: Address, r: Address, sum: Sum }
    CellInspectArgs { cells: CellBox, input: CellArray, output: CellArray, scalars: Address }
    CellTransferArgs { cells: CellBox, array: CellArray, vector: Address, factor: f64 }
    CellLargestArgs { count: i64, v: Address, scalars: Address }
    ScaleArgs { count: i64, v: Address, partial: Address, scales: Address, scalars: Address }
    /// What cells of one label are listed by.
    ListArgs {
        labels: CellLabels, cells: i64, chunk_start: Address, slot_label: Address, label_start: Address,
        by_label: Address, cells_of: Address
    }
    ScanArgs { values: Address, count: i64 }
    LabelledArgs {
        labels: CellLabels, of: i64, chunk_start: Address, slot_label: Address, label_start: Address,
        by_label: Address, cells: Address, sums: Address, totals: Address, g: Address, v: Address, center: Address,
        restore: i32, magnitudes: i32, sum: Sum
    }
    /// E = Z^T A Z.
    GalerkinArgs {
        cells: CellBox, m: CellMatrix, region: Address, singular: CellLabels, scale: f64, sums: Address,
        null_of: Address, matrix: Address, diagonal: Address, n: i32, unused: i32
    }
    /// A step of the inversion of a dense matrix.
    InverseArgs { from: Address, to: Address, diagonal: Address, pivots: Address, n: i32, step: i32 }
    /// Its null vectors, and its condition.
    NullArgs {
        from: Address, to: Address, diagonal: Address, null_of: Address, nulls: Address, shift: Address,
        largest: Address, n: i32, add: i32
    }
    /// The coarsest grid of vertex-coarsened multigrid.
    CoarsestArgs {
        cells: CellBox, c: Address, c_stride: i64, excess: Address, matrix: Address, diagonal: Address,
        null_of: Address, nulls: Address
    }
    DenseArgs { matrix: Address, input: Address, out: Address, n: i32, unused: i32, sum: Sum }
    DeflatedArgs {
        cells: CellBox, m: CellMatrix, region: Address, t: Address, v: Address, p: Address, sum: Sum
    }
    /// A grid of vertex-coarsened multigrid.
    GridArgs {
        cells: CellBox, c: Address, c_stride: i64, diagonal: Address, inverse: Address, r: Address, x: Address,
        out: Address, colour: i32, from_zero: i32
    }
    InterpolationArgs {
        fine: CellBox, coarse: CellBox, coarsened: [i32; 3], unused: i32, weights: Address, of_fine: Address,
        of_coarse: Address
    }
    /// From a grid of vertex-coarsened multigrid to the next.
    CoarseningArgs {
        fine: CellBox, coarse: CellBox, coarsened: [i32; 3], which: i32, m: CellMatrix, scale: f64, c: Address,
        c_stride: i64, diagonal: Address, inverse: Address, excess: Address, weights: Address, narrow: Address,
        cubes: Address, coarse_c: Address, coarse_stride: i64, coarse_excess: Address,
        partial: Address, strengths: Address, scalars: Address
    }
    NarrowArgs { count: i64, scales: Address, wide: Address, narrow: Address, factor: f64, r: Address, sum: Sum }
}

entries! {
    /// A grid of cell-centred multigrid.
    CellArgs {
        cells: CellBox, center: Address, forward: [Address; 3], r: Address, x: Address, colour: i32, from_zero: i32
    }
}

structures! {
    /// Two of them.
    PairArgs {
        fine: CellArgs, coarse: CellBox, ratio: [i32; 3], unused: i32, of_coarse: Address, scales: Address, factor: f64
    }
}

plain_kernels! {
    Number from 0, in PLAIN:
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
    /// From the caller's array.
    CellLoad cell_load(CellTransferArgs) = "dpcg_load_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// And back.
    CellStore cell_store(CellTransferArgs) = "dpcg_store_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// max |v|.
    CellLargest cell_largest(CellLargestArgs) = "dpcg_largest_f64", |a| cell_blocks(a.count), BLOCK;
    /// A power of two near it.
    CellScale cell_scale(ScaleArgs) = "dpcg_scale_f64", |a| cell_blocks(a.count), BLOCK;
    /// Labels of chunks of cells: how many, or which.
    ListSlots list_slots(ListArgs) = "dpcg_list_slots_f64", |a| chunk_blocks(a.cells), BLOCK;
    /// Sums of those before each.
    Scan scan(ScanArgs) = "dpcg_scan_f64", |_a| 1, BLOCK;
    /// These lists by label.
    SortSlots sort_slots(ListArgs) = "dpcg_sort_slots_f64", |a| warp_blocks(a.labels.count), BLOCK;
    /// Sums over cells of one label in a chunk.
    SlotSums slot_sums(LabelledArgs) = "dpcg_slot_sums_f64", |a| chunk_blocks(a.of), BLOCK;
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
    InvertStep invert_step(InverseArgs) = "dpcg_invert_step_f64", |a| inverse_blocks(a), BLOCK;
    /// What is added along null vectors.
    FindShifts find_shifts(NullArgs) = "dpcg_find_shifts_f64", |_a| 1, BLOCK;
    /// Rows less their means over null vectors, as columns.
    TakeMeans take_means(NullArgs) = "dpcg_take_means_f64", |a| a.n.max(1) as u32, BLOCK;
    /// Largest entries of an inverse and of its matrix.
    FindCondition find_condition(NullArgs) = "dpcg_find_condition_f64",
        |a| cell_blocks(i64::from(a.n) * i64::from(a.n)), BLOCK;
    /// The matrix of the coarsest grid of multigrid, of couplings in f64 or in f32.
    SpreadCoarsest spread_coarsest(CoarsestArgs) = "dpcg_spread_coarsest_f64", |_a| 1, (MOST_UNKNOWNS, 1);
    SpreadCoarsestShort spread_coarsest_short(CoarsestArgs) = "dpcg_spread_coarsest_f32", |_a| 1, (MOST_UNKNOWNS, 1);
    /// A product with an inverse, of values in f64 or in f32.
    Dense dense(DenseArgs) = "dpcg_dense_f64", |a| warp_blocks(a.n as u32), BLOCK;
    DenseShort dense_short(DenseArgs) = "dpcg_dense_f32", |a| warp_blocks(a.n as u32), BLOCK;
    /// v - A Z t.
    SubtractDeflated subtract_deflated(DeflatedArgs) = "dpcg_subtract_deflated_f64",
        |a| cell_blocks(a.cells.count()), BLOCK;
    /// v + Z t.
    AddDeflated add_deflated(DeflatedArgs) = "dpcg_add_deflated_f64", |a| cell_blocks(a.cells.count()), BLOCK;
    /// A coarse residual, from f32 to the f64 of the coarsest grid; and a coarse solution back.
    RestrictWide restrict_wide(InterpolationArgs) = "dpcg_restrict_wide_f32",
        |a| cell_blocks(a.coarse.count()), BLOCK;
    InterpolateWide interpolate_wide(InterpolationArgs) = "dpcg_interpolate_wide_f32",
        |a| cell_blocks(a.fine.count()), BLOCK;
    /// A residual of the caller's grid to the first coarse one in f32; and a coarse solution back.
    RestrictCellsTo restrict_cells_to(PairArgs) = "dpcg_restrict_cells_to_f32",
        |a| cell_blocks(a.coarse.count()), BLOCK;
    InterpolateCellsFrom interpolate_cells_from(PairArgs) = "dpcg_interpolate_cells_from_f32",
        |a| cell_blocks(a.fine.cells.count()), BLOCK;
}

/// Kernels of multigrid in f64, then in f32.
macro_rules! real_kernels {
    ($numbers:ident from $first:expr, in $list:ident:
     $($(#[doc = $doc:literal])* $number:ident $name:ident($arguments:ty) = $symbol:literal,
       |$a:ident| $blocks:expr;)*) => {
        enum $numbers { $($number,)* }

        /// The kernels, in the order of their numbers.
        pub(super) const $list: &[Kernel] = &[
            $(Kernel::of::<$arguments>(concat!($symbol, "_f64")), Kernel::of::<$arguments>(concat!($symbol, "_f32")),)*
        ];

        $($(#[doc = $doc])*
        pub fn $name(stream: &Stream, single: bool, $a: &$arguments) -> Result<()> {
            let kernel = $first + 2 * $numbers::$number as usize + usize::from(single);
            // SAFETY: this is the structure that the kernel takes; its addresses are those of arrays laid out for the
            // extents and the numbers in it.
            unsafe { stream.launch(kernel, $blocks, BLOCK, 0, false, $a, concat!("kernel ", $symbol)) }
        })*
    };
}

real_kernels! {
    RealNumber from PLAIN.len(), in REAL:
    /// A half-sweep of Gauss-Seidel on the finest grid.
    RelaxColour relax_colour(GridArgs) = "dpcg_relax_colour", |a| cell_blocks(a.cells.count());
    /// A sweep of Jacobi.
    Relax relax(GridArgs) = "dpcg_relax", |a| cell_blocks(a.cells.count());
    /// r - A x on the finest grid, and on another one.
    FinestResidual finest_residual(GridArgs) = "dpcg_finest_residual", |a| cell_blocks(a.cells.count());
    GridResidual grid_residual(GridArgs) = "dpcg_grid_residual", |a| cell_blocks(a.cells.count());
    /// Conductances, row sums and smoother of the finest grid.
    TakeConductances take_conductances(CoarseningArgs) = "dpcg_take_conductances", |a| cell_blocks(a.fine.count());
    /// Strengths of directions on the finest grid, and on another one.
    FinestStrengths finest_strengths(CoarseningArgs) = "dpcg_finest_strengths", |a| cell_blocks(a.fine.count());
    Strengths strengths(CoarseningArgs) = "dpcg_strengths", |a| cell_blocks(a.fine.count());
    /// Weights of the interpolation.
    FinestWeights finest_weights(CoarseningArgs) = "dpcg_finest_weights", |a| cell_blocks(a.fine.count());
    Weights weights(CoarseningArgs) = "dpcg_weights", |a| cell_blocks(a.fine.count());
    /// P^T A P.
    FinestProduct finest_product(CoarseningArgs) = "dpcg_finest_product", |a| cell_blocks(a.coarse.count());
    Product product(CoarseningArgs) = "dpcg_product", |a| cell_blocks(8 * a.coarse.count());
    /// The coarse grid of it.
    TakeCoarse take_coarse(CoarseningArgs) = "dpcg_take_coarse", |a| cell_blocks(a.coarse.count());
    /// P^T.
    Restrict restrict(InterpolationArgs) = "dpcg_restrict", |a| cell_blocks(a.coarse.count());
    /// P.
    Interpolate interpolate(InterpolationArgs) = "dpcg_interpolate", |a| cell_blocks(a.fine.count());
    /// r to the numbers of the cycle.
    Narrow narrow_residual(NarrowArgs) = "dpcg_narrow", |a| cell_blocks(a.count);
    /// And back.
    Widen widen_solution(NarrowArgs) = "dpcg_widen", |a| cell_blocks(a.count);
    /// A half-sweep of Gauss-Seidel on cells.
    RelaxCells relax_cells(CellArgs) = "dpcg_relax_cells", |a| cell_blocks(a.cells.count());
    /// The residual to the next grid.
    RestrictCells restrict_cells(PairArgs) = "dpcg_restrict_cells", |a| cell_blocks(a.coarse.count());
    /// And its solution back.
    InterpolateCells interpolate_cells(PairArgs) = "dpcg_interpolate_cells", |a| cell_blocks(a.fine.cells.count());
}
