//! Launches of the kernels of `rrb`. The submodules have the argument structures.

use super::declare::{THREADS_PER_BLOCK, TILE};
use super::labelled::SHARED_KERNEL_COUNT;
use crate::cuda::driver::{Blocks, CooperativeLaunch, Device, Kernel, Stream};
use crate::error::Result;
use crate::rrb::anisotropy::{WINDOW_WIDTH, WINDOWS_PER_SIDE};
use crate::rrb::storage::Storage;

mod cycle;
mod geometry;
mod setup;
mod solve;
mod structures;

pub use cycle::*;
pub use geometry::*;
pub use setup::*;
pub use solve::*;
pub use structures::*;

/// Threads per block of a kernel over all (I, J) of a grid.
const AREA_BLOCK_SIZE: (u32, u32) = TILE;
/// Rows of the inverse of the coarsest system that a block multiplies, one per warp.
const PRODUCT_ROWS: u32 = THREADS_PER_BLOCK / 32;
/// Threads per block of a sweep.
pub const SWEEP_THREADS: u32 = 320;
/// Threads per block of cooperative kernels.
pub const CLUSTER_THREADS: u32 = 512;
/// Bytes of shared memory for the grids of the first cluster, on devices with 227 kB and with 99 kB per block. The
/// kernels use 30 kB in addition.
pub const CLUSTER_BYTES: [u32; 2] = [200_704, 69_632];
/// Threads of a block that processes a line of the coarsest system (kernels/rrb/coarsest.cuh).
const LINE_THREADS: u32 = (LINE_NODES * LINE_NODES) as u32;

plain_kernels! {
    PlainKernel from SHARED_KERNEL_COUNT, in PLAIN_KERNELS:
    /// Copies A from the caller's arrays and inspects it.
    CopyRrbMatrix copy_rrb_matrix(CopyMatrixArgs) = "rrb_copy_matrix_f64",
        |a| tile_blocks(a.g.nx as usize, a.rows as usize), AREA_BLOCK_SIZE;
    /// Computes the row sums.
    RowSums row_sums(RowSumArgs) = "rrb_row_sums_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes the anisotropy in each of several windows of the grid.
    ComputeAnisotropy compute_anisotropy(WindowArgs) = "rrb_compute_anisotropy_f64",
        |_a| (WINDOWS_PER_SIDE * WINDOWS_PER_SIDE) as u32, (WINDOW_WIDTH as u32, 1);
    /// Finds the tiles of a grid in which and around which all rows of the matrix are equal, and the patches of the
    /// next grid in which all rows are equal.
    FindUniformTiles find_uniform_tiles(UniformArgs) = "rrb_find_uniform_tiles_f64",
        |a| a.threads().div_ceil(THREADS_PER_BLOCK as usize) as u32, AREA_BLOCK_SIZE;
    /// Finds the components within each tile.
    TileComponents tile_components(ComponentArgs) = "rrb_tile_components_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Joins the components of adjacent tiles.
    JoinComponents join_components(ComponentArgs) = "rrb_join_components_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Counts the components of at least two nodes, and those of them that have a nonzero row sum.
    CountComponents count_components(ComponentArgs) = "rrb_count_components_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Copies the couplings with which the factorization of M begins.
    StartCouplings start_couplings(StartCouplingsArgs) = "rrb_start_couplings_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Eliminates the red nodes (odd level).
    EliminateReds eliminate_reds(LevelArgs) = "rrb_eliminate_reds_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes the skew stencil that remains after the odd level.
    FormSkew form_skew(LevelArgs) = "rrb_form_skew_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Eliminates the black nodes that are not in the next grid (even level).
    EliminateDropped eliminate_dropped(LevelArgs) = "rrb_eliminate_dropped_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes the matrix of the next grid.
    FormCoarse form_coarse(CoarseArgs) = "rrb_form_coarse_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes the diagonal of S1.
    SchurCenter schur_center(SchurCenterArgs) = "rrb_schur_center_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Eliminates every second remaining line of the coarsest system.
    EliminateLines eliminate_lines(LinesArgs) = "rrb_eliminate_lines_f64", |a| a.eliminated_lines(), (LINE_THREADS, 1);
    /// Computes the rows of the inverse that belong to the lines that a step eliminated.
    InvertLines invert_lines(LinesArgs) = "rrb_invert_lines_f64",
        |a| a.eliminated_lines() * (a.eliminated_lines() + a.remaining_lines()), (LINE_THREADS, 1);
    /// Computes z = Z r with the inverse Z of the coarsest system, in f64. Unless `stage` is `Nothing`, also sums
    /// <r, z> and updates the scalars.
    MultiplyCoarsest multiply_coarsest(MultiplyCoarsestArgs) = "rrb_multiply_coarsest_f64",
        |a| coarsest_blocks(a.coarsest.n as usize), (THREADS_PER_BLOCK, 1);
    /// As `multiply_coarsest`, in f32.
    MultiplyCoarsestF32 multiply_coarsest_f32(MultiplyCoarsestArgs) = "rrb_multiply_coarsest_f32",
        |a| coarsest_blocks(a.coarsest.n as usize), (THREADS_PER_BLOCK, 1);
    /// As `multiply_coarsest`, for f32 vectors and an f64 inverse.
    MultiplyCoarsestF32ByF64 multiply_coarsest_f32_by_f64(MultiplyCoarsestArgs) = "rrb_multiply_coarsest_wide_f32",
        |a| coarsest_blocks(a.coarsest.n as usize), (THREADS_PER_BLOCK, 1);
    /// Computes q = S1 p and sigma = <p, q>, unfused.
    MultiplyFirst multiply_first(SchurArgs) = "rrb_multiply_first_f64", |a| a.v.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes r = b - S1 x and <r, r>.
    ResidualFirst residual_first(SchurArgs) = "rrb_residual_first_f64", |a| a.v.g.blocks(), AREA_BLOCK_SIZE;
    /// Finds the largest magnitudes of the caller's arrays and their first non-finite entry, and <b, b>.
    Inspect inspect(InspectArgs) = "rrb_inspect_f64", |a| tile_blocks(a.nx as usize, a.rows as usize), AREA_BLOCK_SIZE;
    /// Multiplies a caller's array by a factor, and stores the result by colour.
    LoadByColour load_by_colour(TransferArgs) = "rrb_load_by_colour_f64", |a| a.g.blocks_by_rows(), AREA_BLOCK_SIZE;
    /// Multiplies x by a factor, and stores the result in the caller's array.
    StoreByRows store_by_rows(TransferArgs) = "rrb_store_by_rows_f64", |a| a.g.blocks_by_rows(), AREA_BLOCK_SIZE;
    /// Computes max |v|.
    FindLargest find_largest(LargestArgs) = "rrb_find_largest_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes <a, b> with both vectors in f64.
    Dot dot(DotArgs) = "rrb_dot_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes <a, b> with b in f32.
    DotF32 dot_f32(DotArgs) = "rrb_dot_f32", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes target += factor source; in the loop r -= alpha q and <r, r>.
    AddScaled add_scaled(UpdateArgs) = "rrb_add_scaled_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes x += alpha p and p = z / unit + beta p, with z in f64. unit is the scale factor of M: the formats f32
    /// and bf16 store M / unit.
    Advance advance(UpdateArgs) = "rrb_advance_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes x += alpha p and p = z / unit + beta p, with z in f32.
    AdvanceF32 advance_f32(UpdateArgs) = "rrb_advance_f32", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes target = source / unit + factor target, with the source in f64.
    UpdateDirection update_direction(UpdateArgs) = "rrb_update_direction_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes target = source / unit + factor target, with the source in f32.
    UpdateDirectionF32 update_direction_f32(UpdateArgs) = "rrb_update_direction_f32", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Rounds an f64 vector to f32.
    RoundToF32 round_to_f32(UpdateArgs) = "rrb_round_to_f32", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes A v, and sigma = <v, A v>.
    Multiply multiply(ProductArgs) = "rrb_multiply_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes b - A v and its squared norm.
    Residual residual(ProductArgs) = "rrb_residual_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes b = b - A v in place, and <b_r, D_r^-1 b_r> of the new b, where r denotes the red nodes.
    RhsToResidual rhs_to_residual(ProductArgs) = "rrb_rhs_to_residual_f64", |a| a.g.blocks(), AREA_BLOCK_SIZE;
    /// Eliminates red nodes from b: b1 = b_b - A_br D_r^-1 b_r.
    Reduce reduce(ReduceArgs) = "rrb_reduce_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes red values of x: x_r = D_r^-1 (b_r - A_rb x_b). Also computes max |x|.
    BackSubstitute back_substitute(ReduceArgs) = "rrb_back_substitute_f64", |a| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Start of a solve: inspects b and x, and stores both by colour. Computes the right-hand side b1 and the residual
    /// r of the system with S1, and ||b - A x||_2^2.
    BeginSolve begin_solve(StartEndArgs) = "rrb_begin_solve_f64", |a| start_end_blocks(&a.k.g), AREA_BLOCK_SIZE,
        or BeginUniform = "rrb_begin_uniform_f64" in a.k.g;
    /// Computes ||b - A x||_2^2 on all nodes.
    AllNodesResidual all_nodes_residual(StartEndArgs) = "rrb_all_nodes_residual_f64",
        |a| start_end_blocks(&a.k.g), AREA_BLOCK_SIZE;
    /// Computes r = b - A x on all nodes, and from it <r_r, D_r^-1 r_r>. Stores the residual of S1,
    /// r1 = r_b - A_br D_r^-1 r_r.
    EliminatedResidual eliminated_residual(StartEndArgs) =
        "rrb_eliminated_residual_f64", |a| start_end_blocks(&a.k.g), AREA_BLOCK_SIZE;
    /// Computes red values of x, max |x| and ||b - A x||_2^2.
    FinishSolve finish_solve(StartEndArgs) = "rrb_finish_solve_f64", |a| start_end_blocks(&a.k.g), AREA_BLOCK_SIZE,
        or FinishUniform = "rrb_finish_uniform_f64" in a.k.g;
    /// Computes red values of x and max |x|, and the results of `eliminated_residual`.
    FinishSolveEliminated finish_solve_eliminated(StartEndArgs) = "rrb_finish_solve_eliminated_f64",
        |a| start_end_blocks(&a.k.g), AREA_BLOCK_SIZE,
        or FinishEliminatedUniform = "rrb_finish_eliminated_uniform_f64" in a.k.g;
    /// Stores x in the caller's array if the solve will end with this x.
    StoreAcceptedX store_accepted_x(StartEndArgs) = "rrb_store_accepted_x_f64",
        |a| a.k.g.blocks_by_rows(), AREA_BLOCK_SIZE;
    /// Writes the scalars and entries of the ring buffer to host memory. Then resets, in the scalars on the device, the
    /// findings of `inspect` and `begin_solve` about the caller's arrays.
    Report report(ReportArgs) = "rrb_report_f64", |_a| 1, (THREADS_PER_BLOCK, 1);
    /// After the start of a solve, decides whether the loop begins, and sets the stopping test of the loop. Writes the
    /// scalars to host memory.
    StartLoop start_loop(StartLoopArgs) = "rrb_start_loop_f64", |_a| 1, (32, 1);
    /// Synchronizes the devices that share grids.
    SynchronizeDevices synchronize_devices(DeviceBarrierArgs) = "rrb_synchronize_devices_f64", |_a| 1, (32, 1);
}

format_kernels! {
    FormatKernel from SHARED_KERNEL_COUNT + PLAIN_KERNELS.len(), in FORMAT_KERNELS, by Storage "_f64" "_f32" "_bf16":
    /// Forward half on a grid.
    Descend descend(StepArgs) = "rrb_descend", |a, s| sweep_blocks(&a.k.g, a.scalar_block, s), (SWEEP_THREADS, 1),
        or DescendUniform = "rrb_descend_uniform" in a.k.g;
    /// Backward half on a grid.
    Ascend ascend(StepArgs) = "rrb_ascend", |a, s| sweep_blocks(&a.k.g, a.scalar_block, s), (SWEEP_THREADS, 1),
        or AscendUniform = "rrb_ascend_uniform" in a.k.g;
    /// A step of the inner iteration on a recursion grid.
    InnerStep inner_step(StepArgs) = "rrb_inner_step", |a, _s| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Computes an inner product on a recursion grid.
    InnerProduct inner_product(InnerProductArgs) = "rrb_inner_product", |a, _s| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Sets the direction d to a vector that contains all frequencies, and r to zero.
    SetAllFrequencies set_all_frequencies(StepArgs) = "rrb_set_all_frequencies",
        |a, _s| a.k.g.blocks(), AREA_BLOCK_SIZE;
    /// Forward half on the first grid of S1, with r -= alpha q in the loop.
    DescendFirst descend_first(FirstGridArgs) = "rrb_descend_first",
        |a, _s| a.v.g.blocks_for_tile_rows(a.backward_rows), AREA_BLOCK_SIZE,
        or DescendFirstUniform = "rrb_descend_first_uniform" in a.v.g;
    /// Backward half on the first grid of S1. Stores z.
    AscendFirst ascend_first(FirstGridArgs) = "rrb_ascend_first", |a, _s| a.v.g.blocks(), AREA_BLOCK_SIZE;
    /// Backward half on the first grid of S1. Also computes p, q = S1 p, sigma and, in some iterations, x.
    AdvanceFirst advance_first(FirstGridArgs) = "rrb_advance_first",
        |a, _s| a.v.g.blocks_for_tile_rows(a.backward_rows), AREA_BLOCK_SIZE,
        or AdvanceFirstUniform = "rrb_advance_first_uniform" in a.v.g;
}

cooperative_kernels! {
    CooperativeKernel from SHARED_KERNEL_COUNT + PLAIN_KERNELS.len() + FORMAT_KERNELS.len(), in COOPERATIVE_KERNELS:
    /// Executes several steps on small grids.
    Cycle cycle(CycleArgs) = "rrb_cycle";
    /// Executes whole iterations of a small problem: all iterations of the loop, or one iteration outside the loop.
    Solve solve(SolveArgs) = "rrb_solve";
}

/// Number of kernels before those of aggregated.rs.
pub(super) const KERNELS_BEFORE_AGGREGATED: usize =
    SHARED_KERNEL_COUNT + PLAIN_KERNELS.len() + FORMAT_KERNELS.len() + COOPERATIVE_KERNELS.len();

/// Returns whether the cooperative kernels of a format can use `bytes` bytes of shared memory on this device.
pub fn allow_cluster(device: &Device, storage: Storage, bytes: u32) -> bool {
    cooperative_kernels(storage).into_iter().all(|kernel| device.allow_shared(kernel, bytes))
}

/// Returns the blocks of a sweep: one per tile and, if `scalar_block` is 1, one block without tiles. At most as many
/// blocks are launched as 132 multiprocessors can execute at once, so that no block waits for another block to end:
/// three per multiprocessor in f64, and four in other formats.
pub fn sweep_blocks(g: &Geometry, scalar_block: i32, storage: Storage) -> Blocks {
    let max_blocks = if storage == Storage::F64 { MAX_BLOCKS / 4 * 3 } else { MAX_BLOCKS };
    g.on_all_devices((g.blocks().count + scalar_block as u32).min(max_blocks))
}

/// Returns the number of blocks such that each warp computes x += alpha p at 128 consecutive (I, J) of a row
/// (`advance_x` in kernels/rrb/fused.cuh).
pub fn x_update_blocks(g: &Geometry) -> u32 {
    ((g.cx as u32).div_ceil(128) * g.cy as u32).div_ceil(CLUSTER_THREADS / 32)
}

/// Returns the blocks of the kernels at the start and at the end of a solve: one per tile, but at most three for each
/// of 132 multiprocessors.
fn start_end_blocks(g: &Geometry) -> Blocks {
    g.on_all_devices(g.blocks().count.min(MAX_BLOCKS / 4 * 3))
}

/// Returns the blocks of the product with the coarsest system's inverse. Each block has one partial sum.
pub fn coarsest_blocks(n: usize) -> u32 {
    (n as u32).div_ceil(PRODUCT_ROWS)
}
