//! The kernels of `rrb`: what they take, by what they are for, and their launches.

use super::aggregation::COUNT;
use super::declare::{THREADS, TILE};
use crate::backend::cuda::driver::{Blocks, Device, Kernel, Stream, Together};
use crate::backend::storage::Storage;
use crate::error::Result;
use crate::grid::anisotropy::{WINDOW, WINDOWS};

mod cycle;
mod geometry;
mod setup;
mod solve;

pub use cycle::*;
pub use geometry::*;
pub use setup::*;
pub use solve::*;

/// Threads of a kernel over an area.
const OVER_AREA: (u32, u32) = TILE;
/// Rows of the remainder's inverse that a block multiplies.
const PRODUCT_ROWS: u32 = THREADS / 32;
/// Threads of a sweep's block.
pub const SWEEP_THREADS: u32 = 320;
/// Threads of cooperative kernels; bytes of shared memory at most for what the first cluster keeps there, beside
/// 30 kB that kernels name themselves: of devices with 227 kB, and of those with 99.
pub const CLUSTER_THREADS: u32 = 512;
pub const CLUSTER_BYTES: [u32; 2] = [200_704, 69_632];
/// Threads of a block that takes a line of the remainder: kernels/rrb/remainder.cuh.
const LINE_THREADS: u32 = (LINE * LINE) as u32;

plain_kernels! {
    Number from COUNT, in PLAIN:
    /// A from the caller's arrays.
    Copy copy(CopyArgs) = "rrb_copy_f64", |a| tiles(a.g.nx as usize, a.rows as usize), OVER_AREA;
    /// Row sums.
    Excess excess(ExcessArgs) = "rrb_excess_f64", |a| a.g.blocks(), OVER_AREA;
    /// Windows of it, for anisotropy.
    Windows windows(WindowArgs) = "rrb_windows_f64", |_a| (WINDOWS * WINDOWS) as u32, (WINDOW as u32, 1);
    /// Where its rows are the same, and those of the next grid.
    Uniform uniform(UniformArgs) = "rrb_uniform_f64", |a| a.threads().div_ceil(THREADS as usize) as u32, OVER_AREA;
    /// Components of tiles.
    TileComponents tile_components(ComponentArgs) = "rrb_tile_components_f64", |a| a.g.blocks(), OVER_AREA;
    /// Joins them.
    JoinComponents join_components(ComponentArgs) = "rrb_join_components_f64", |a| a.g.blocks(), OVER_AREA;
    /// Counts them.
    CountComponents count_components(ComponentArgs) = "rrb_count_components_f64", |a| a.g.blocks(), OVER_AREA;
    /// The couplings that M starts from.
    StartCouplings start_couplings(CouplingArgs) = "rrb_start_couplings_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// The odd level.
    EliminateReds eliminate_reds(LevelArgs) = "rrb_eliminate_reds_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// What it leaves.
    FormSkew form_skew(LevelArgs) = "rrb_form_skew_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// The even level.
    EliminateDropped eliminate_dropped(LevelArgs) = "rrb_eliminate_dropped_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// What it leaves.
    FormCoarse form_coarse(CoarseArgs) = "rrb_form_coarse_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// Diagonal of S1.
    SchurCenter schur_center(SchurCenterArgs) = "rrb_schur_center_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// Every second line of the remainder that is left.
    EliminateLines eliminate_lines(LinesArgs) = "rrb_eliminate_lines_f64", |a| a.gone(), (LINE_THREADS, 1);
    /// Rows of the inverse of these lines.
    InvertLines invert_lines(LinesArgs) = "rrb_invert_lines_f64",
        |a| a.gone() * (a.gone() + a.stayed()), (LINE_THREADS, 1);
    /// Its product.
    Remainder remainder(RemainderArgs) = "rrb_remainder_f64", |a| remainder_blocks(a.rest.n as usize), (THREADS, 1);
    RemainderShort remainder_short(RemainderArgs) = "rrb_remainder_f32",
        |a| remainder_blocks(a.rest.n as usize), (THREADS, 1);
    RemainderWide remainder_wide(RemainderArgs) = "rrb_remainder_wide_f32",
        |a| remainder_blocks(a.rest.n as usize), (THREADS, 1);
    /// q = S1 p, sigma, of the plain steps.
    MultiplyFirst multiply_first(SchurArgs) = "rrb_multiply_first_f64", |a| a.v.g.blocks(), OVER_AREA;
    /// r = b - S1 x.
    ResidualFirst residual_first(SchurArgs) = "rrb_residual_first_f64", |a| a.v.g.blocks(), OVER_AREA;
    /// Largest magnitudes of the caller's arrays.
    Inspect inspect(InspectArgs) = "rrb_inspect_f64", |a| tiles(a.nx as usize, a.rows as usize), OVER_AREA;
    /// The caller's array to the colours.
    Load load(TransferArgs) = "rrb_load_f64", |a| a.g.blocks_by_rows(), OVER_AREA;
    /// And back.
    Store store(TransferArgs) = "rrb_store_f64", |a| a.g.blocks_by_rows(), OVER_AREA;
    /// max |v|.
    Largest largest(LargestArgs) = "rrb_largest_f64", |a| a.g.blocks(), OVER_AREA;
    /// <a, b>, both in f64, or b in f32.
    Dot dot(DotArgs) = "rrb_dot_f64", |a| a.g.blocks(), OVER_AREA;
    DotShort dot_short(DotArgs) = "rrb_dot_f32", |a| a.g.blocks(), OVER_AREA;
    /// target += factor source.
    AddScaled add_scaled(UpdateArgs) = "rrb_add_scaled_f64", |a| a.g.blocks(), OVER_AREA;
    /// x += alpha p, p = z + beta p: all in f64, or z in f32.
    Advance advance(UpdateArgs) = "rrb_advance_f64", |a| a.g.blocks(), OVER_AREA;
    AdvanceShort advance_short(UpdateArgs) = "rrb_advance_f32", |a| a.g.blocks(), OVER_AREA;
    /// target = source / unit + factor target, source in f64 or f32.
    Direction direction(UpdateArgs) = "rrb_direction_f64", |a| a.g.blocks(), OVER_AREA;
    DirectionShort direction_short(UpdateArgs) = "rrb_direction_f32", |a| a.g.blocks(), OVER_AREA;
    /// The same to f32, from f64.
    Narrow narrow(UpdateArgs) = "rrb_narrow_f32", |a| a.g.blocks(), OVER_AREA;
    /// A v.
    Multiply multiply(ProductArgs) = "rrb_multiply_f64", |a| a.g.blocks(), OVER_AREA;
    /// b - A v.
    Residual residual(ProductArgs) = "rrb_residual_f64", |a| a.g.blocks(), OVER_AREA;
    /// The same in place of b.
    RhsToResidual rhs_to_residual(ProductArgs) = "rrb_rhs_to_residual_f64", |a| a.g.blocks(), OVER_AREA;
    /// To S1.
    Reduce reduce(ReduceArgs) = "rrb_reduce_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// And back.
    BackSubstitute back_substitute(ReduceArgs) = "rrb_back_substitute_f64", |a| a.k.g.blocks(), OVER_AREA;
    /// The start of a solve: a look at b and x, both to the colours, b to S1, with r of S1 and |b - A x|^2.
    Begin begin(EndArgs) = "rrb_begin_f64", |a| end_blocks(&a.k.g), OVER_AREA,
        or BeginUniform = "rrb_begin_uniform_f64" in a.k.g;
    /// |b - A x|^2 on all nodes.
    WholeResidual whole_residual(EndArgs) = "rrb_whole_residual_f64", |a| end_blocks(&a.k.g), OVER_AREA;
    /// r of S1 as b - A x on all nodes leaves it, and its part on red nodes.
    EliminatedResidual eliminated_residual(EndArgs) = "rrb_eliminated_residual_f64", |a| end_blocks(&a.k.g), OVER_AREA;
    /// Red values of x, then |b - A x|^2, or r of S1.
    Finish finish(EndArgs) = "rrb_finish_f64", |a| end_blocks(&a.k.g), OVER_AREA,
        or FinishUniform = "rrb_finish_uniform_f64" in a.k.g;
    FinishEliminated finish_eliminated(EndArgs) = "rrb_finish_eliminated_f64", |a| end_blocks(&a.k.g), OVER_AREA,
        or FinishEliminatedUniform = "rrb_finish_eliminated_uniform_f64" in a.k.g;
    /// The caller's x, where the solve ends here.
    Deliver deliver(EndArgs) = "rrb_deliver_f64", |a| a.k.g.blocks_by_rows(), OVER_AREA;
    /// The scalars to the host.
    Report report(ReportArgs) = "rrb_report_f64", |_a| 1, (THREADS, 1);
    /// The loop's test, after a start.
    SetOut set_out(SetOutArgs) = "rrb_set_out_f64", |_a| 1, (32, 1);
    /// Devices that share grids wait for one another.
    Meet meet(MeetArgs) = "rrb_meet_f64", |_a| 1, (32, 1);
    /// Sums of runs.
    RunSums run_sums(ProjectionArgs) = "rrb_run_sums_f64", |a| run_blocks(a.count), (THREADS, 1);
    RunSumsShort run_sums_short(ProjectionArgs) = "rrb_run_sums_f32", |a| run_blocks(a.count), (THREADS, 1);
    /// Means of components; `count` is that of the components.
    ConstantSquares constant_squares(ProjectionArgs) = "rrb_constant_squares_f64",
        |a| run_blocks(a.count), (THREADS, 1);
    ComponentMeans component_means(ProjectionArgs) = "rrb_component_means_f64", |a| a.count as u32, (THREADS, 1);
    /// Shifts runs.
    ShiftRuns shift_runs(ProjectionArgs) = "rrb_shift_runs_f64", |a| run_blocks(a.count), (THREADS, 1);
    ShiftRunsShort shift_runs_short(ProjectionArgs) = "rrb_shift_runs_f32", |a| run_blocks(a.count), (THREADS, 1);
    /// Keeps means; `count` is that of the components.
    KeepMeans keep_means(ProjectionArgs) = "rrb_keep_means_f64",
        |a| (a.count as u32).div_ceil(THREADS).min(MOST_BLOCKS), (THREADS, 1);
}

format_kernels! {
    Formatted from COUNT + PLAIN.len(), in IN_FORMATS:
    /// Down a grid.
    Descend descend(StepArgs) = "rrb_descend", |a, s| sweep_blocks(&a.k.g, a.beside, s), (SWEEP_THREADS, 1),
        or DescendUniform = "rrb_descend_uniform" in a.k.g;
    /// Up a grid.
    Ascend ascend(StepArgs) = "rrb_ascend", |a, s| sweep_blocks(&a.k.g, a.beside, s), (SWEEP_THREADS, 1),
        or AscendUniform = "rrb_ascend_uniform" in a.k.g;
    /// A step of the iteration on a recursion grid.
    Inner inner(StepArgs) = "rrb_inner", |a, _s| a.k.g.blocks(), OVER_AREA;
    /// A product there.
    InnerProduct inner_product(InnerProductArgs) = "rrb_inner_product", |a, _s| a.k.g.blocks(), OVER_AREA;
    /// A vector with all frequencies.
    Draw draw(StepArgs) = "rrb_draw", |a, _s| a.k.g.blocks(), OVER_AREA;
    /// Down the first grid of S1, with r -= alpha q in the loop.
    DescendFirst descend_first(FirstArgs) = "rrb_descend_first", |a, _s| a.v.g.first_blocks(a.rows), OVER_AREA,
        or DescendFirstUniform = "rrb_descend_first_uniform" in a.v.g;
    /// Up it, to z.
    AscendFirst ascend_first(FirstArgs) = "rrb_ascend_first", |a, _s| a.v.g.blocks(), OVER_AREA;
    /// Up it, to p, x where it is due, q = S1 p, sigma.
    AdvanceFirst advance_first(FirstArgs) = "rrb_advance_first", |a, _s| a.v.g.first_blocks(a.rows), OVER_AREA,
        or AdvanceFirstUniform = "rrb_advance_first_uniform" in a.v.g;
}

cooperative_kernels! {
    Cooperative from COUNT + PLAIN.len() + IN_FORMATS.len(), in COOPERATIVE:
    /// A run of steps on small grids.
    Cycle cycle(CycleArgs) = "rrb_cycle";
    /// The whole iteration of a small problem.
    Solve solve(SolveArgs) = "rrb_solve";
}

/// Kernels before `aggregated`.
pub(super) const AFTER: usize = COUNT + PLAIN.len() + IN_FORMATS.len() + COOPERATIVE.len();

/// Whether cooperative kernels may take so much shared memory, in a format.
pub fn allow_cluster(device: &Device, storage: Storage, bytes: u32) -> bool {
    cooperative_kernels(storage).into_iter().all(|kernel| device.allow_shared(kernel, bytes))
}

/// Blocks of a sweep: no more than 132 multiprocessors run at once, three each in f64 and four else, so that none
/// waits until others end.
pub fn sweep_blocks(g: &Geometry, beside: i32, storage: Storage) -> Blocks {
    let most = if storage == Storage::F64 { MOST_BLOCKS / 4 * 3 } else { MOST_BLOCKS };
    g.on_all((g.blocks().count + beside as u32).min(most))
}

/// Blocks that x += alpha p gives one piece to each warp: kernels/rrb/fused.cuh, `advance_x`.
pub fn blocks_of_x(g: &Geometry) -> u32 {
    ((g.cx as u32).div_ceil(128) * g.cy as u32).div_ceil(CLUSTER_THREADS / 32)
}

/// Blocks of a start, and of an end: three to a multiprocessor.
fn end_blocks(g: &Geometry) -> Blocks {
    g.on_all(g.blocks().count.min(MOST_BLOCKS / 4 * 3))
}

/// Blocks of the remainder's product, each with one sum.
pub fn remainder_blocks(n: usize) -> u32 {
    (n as u32).div_ceil(PRODUCT_ROWS)
}

fn run_blocks(count: i32) -> u32 {
    (count as u32).div_ceil(THREADS / 32).clamp(1, MOST_BLOCKS)
}
