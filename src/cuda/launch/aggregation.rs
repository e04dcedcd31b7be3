//! Kernels of the aggregation multigrid (docs/theory/aggregation.md; kernels/aggregation) and of dense inverses
//! (kernels/common/inverse.cuh). They are the first kernels in the modules of the families that use them.

use super::declare::Address;
use super::inverse::{InverseArgs, MAX_UNKNOWNS, NullVectorArgs, PIVOTS};
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/aggregation.rs"));

/// Threads per block (kernels/aggregation).
pub const BLOCK_SIZE: (u32, u32) = (256, 1);
/// Largest number of blocks of a launch.
const MAX_BLOCKS: u32 = 1056;
/// Values per part of a prefix sum.
pub const SCAN_PART_VALUES: usize = 2048;

/// Rows per slice of a level where one thread processes a row (sliced ELLPACK).
pub const SLICE_ROWS: u32 = 32;
/// Number of threads that process a row together: in the setup, and in the cycle on levels with few rows.
pub const LANES_PER_ROW: u32 = 8;
/// Threads of a warp, for kernels in which a warp processes a row.
const WARP_THREADS: u32 = 32;

/// Returns the blocks of a launch with one thread per row, but at most `MAX_BLOCKS`.
pub fn row_blocks(rows: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE.0).clamp(1, MAX_BLOCKS)
}

/// Returns the blocks of a launch with `threads` threads per row, but at most `MAX_BLOCKS`.
fn blocks_of(rows: u32, threads: u32) -> u32 {
    rows.div_ceil(BLOCK_SIZE.0 / threads).clamp(1, MAX_BLOCKS)
}

impl ScanArgs {
    /// Returns the number of blocks: one per part, but at most `MAX_BLOCKS`.
    fn blocks(&self) -> u32 {
        self.count.div_ceil(SCAN_PART_VALUES as u32).clamp(1, MAX_BLOCKS)
    }
}

plain_kernels! {
    PlainKernel from 0, in PLAIN_KERNELS:
    /// Initializes a pass of pairing: no row has a partner. In the first pass, excludes the rows with strongly dominant
    /// diagonals from pairing (kernels/aggregation/pairs.cuh).
    BeginPass begin_pass(PairArgs) = "agg_begin_pass_f64", |a| blocks_of(a.c.rows, LANES_PER_ROW), BLOCK_SIZE;
    /// Lets each unpaired row point at its unpaired neighbour with the smallest key. Keys order pairs by their quality,
    /// and pairs of about equal quality by a hash.
    PointAtNeighbour point_at_neighbour(PairArgs) = "agg_point_at_neighbour_f64",
        |a| blocks_of(a.c.rows, LANES_PER_ROW), BLOCK_SIZE;
    /// Joins rows that point at each other to aggregates of two nodes.
    MatchTwo match_two(PairArgs) = "agg_match_2_f64", |a| row_blocks(a.c.rows), BLOCK_SIZE;
    /// Joins aggregates of at most two nodes that point at each other, if the union passes the quality test.
    MatchFour match_four(PairArgs) = "agg_match_4_f64", |a| row_blocks(a.c.rows), BLOCK_SIZE;
    /// Joins aggregates of at most four nodes that point at each other, if the union passes the quality test.
    MatchEight match_eight(PairArgs) = "agg_match_8_f64", |a| row_blocks(a.c.rows), BLOCK_SIZE;
    /// Marks the first row of each aggregate: of a pair of rows, or of a row without a partner. Rows that are excluded
    /// from pairing are not marked.
    MarkFirst mark_first(NumberArgs) = "agg_mark_first_f64", |a| row_blocks(a.rows), BLOCK_SIZE;
    /// Numbers the aggregates, and lists their nodes.
    NumberPairs number_pairs(NumberArgs) = "agg_number_pairs_f64", |a| row_blocks(a.rows), BLOCK_SIZE;
    /// Counts the aggregates of an earlier matrix, of at most four nodes, that fail the quality test for this matrix.
    /// Also counts the rows outside all aggregates whose diagonal is not strongly dominant.
    CountUnsuitableFour count_unsuitable_four(SuitabilityArgs) = "agg_count_unsuitable_4_f64",
        |a| row_blocks(a.c.rows), BLOCK_SIZE;
    /// As `count_unsuitable_four`, for aggregates of at most eight nodes.
    CountUnsuitableEight count_unsuitable_eight(SuitabilityArgs) = "agg_count_unsuitable_8_f64",
        |a| row_blocks(a.c.rows), BLOCK_SIZE;
    /// Prefix sums: sums the values of each part.
    SumParts sum_parts(ScanArgs) = "agg_sum_parts_f64", |a| a.blocks(), BLOCK_SIZE;
    /// Prefix sums: scans the sums of the parts.
    ScanParts scan_parts(ScanArgs) = "agg_scan_parts_f64", |_a| 1, BLOCK_SIZE;
    /// Prefix sums: scans the values within each part.
    ScanValues scan_values(ScanArgs) = "agg_scan_values_f64", |a| a.blocks(), BLOCK_SIZE;
    /// Computes the number of entries to reserve for each coarse row: the number of couplings of all rows of its
    /// aggregate, which is an upper bound.
    BoundRowLengths bound_row_lengths(GalerkinArgs) = "agg_bound_row_lengths_f64",
        |a| row_blocks(a.coarse.rows), BLOCK_SIZE;
    /// Computes the Galerkin matrix P^T S P, where S is the matrix of the level. P_ik is 1 if row i is in aggregate k,
    /// and 0 otherwise.
    SumCouplings sum_couplings(GalerkinArgs) = "agg_sum_couplings_f64",
        |a| blocks_of(a.coarse.rows, WARP_THREADS), BLOCK_SIZE;
    /// Stores the coarsest matrix as a dense matrix.
    SpreadRows spread_rows(SpreadArgs) = "agg_spread_rows_f64", |a| row_blocks(a.c.rows), BLOCK_SIZE;
    /// Removes one unknown per null vector from the dense matrix: sets its row and column to zero.
    RemoveNullUnknowns remove_null_unknowns(SpreadArgs) = "agg_remove_null_unknowns_f64", |_a| 1, (MAX_UNKNOWNS, 1);
    /// Projects an inverse. In each row whose unknown belongs to a null vector, subtracts from the entries at the
    /// unknowns of this null vector their mean, and can add a constant. Stores the transpose of the result.
    ProjectInverse project_inverse(NullVectorArgs) = "project_inverse_f64", |a| a.n.max(1) as u32, BLOCK_SIZE;
    /// Executes a step of the inversion of a dense matrix.
    InvertStep invert_step(InverseArgs) = "invert_step_f64", |a| a.blocks(), BLOCK_SIZE;
}

/// Launches all steps that invert a dense symmetric positive semidefinite n x n matrix. On entry, `buffers[0]` is the
/// address of the matrix, and `buffers[1]` is memory of the same size. The steps write the two buffers alternately, so
/// the matrix may be overwritten. On return, `buffers[0]` is the address of the inverse: the two addresses are
/// exchanged if n requires it. `diagonal` is the address of the diagonal of the matrix. `pivots` is memory for two
/// inverses of pivot blocks.
pub fn invert(
    stream: &Stream,
    (buffers, diagonal, pivots, n): (&mut [Address; 2], Address, Address, usize),
) -> Result<()> {
    let n = n as i32;
    for step in -1..(n + PIVOTS - 1) / PIVOTS {
        let [source, target] = *buffers;
        invert_step(stream, &InverseArgs { source, target, diagonal, pivots, n, step })?;
        if step >= 0 {
            buffers.reverse();
        }
    }
    Ok(())
}

real_kernels! {
    RealKernel from PLAIN_KERNELS.len(), in REAL_KERNELS:
    /// Computes the number of entries of each slice of rows, and the number of couplings.
    ComputeSliceLengths compute_slice_lengths(ConvertArgs) = "agg_compute_slice_lengths",
        |a| blocks_of(a.c.rows, 1);
    /// Stores the matrix in the format of the cycle, and computes the factor of the first Jacobi step of each row.
    ConvertRows convert_rows(ConvertArgs) = "agg_convert_rows", |a| blocks_of(a.c.rows, LANES_PER_ROW);
    /// Sums the residual after the smoothing steps from zero over each aggregate. Also computes the first smoothing
    /// step on the coarser level.
    Descend descend(DescendArgs) = "agg_descend",
        |a| blocks_of(a.coarse.rows, if a.fine.lanes == 1 { u32::from(a.coarse.width) } else { WARP_THREADS });
    /// Adds the coarse correction, if any, and executes a Jacobi step. At the end of a second cycle, combines the
    /// results of both cycles.
    Smooth smooth(SmoothArgs) = "agg_smooth", |a| blocks_of(a.level.rows, a.level.lanes);
    /// Computes r = r - factor A c, where c is the result of the first of two cycles, and the first smoothing step for
    /// the new r.
    Subtract subtract(SubtractArgs) = "agg_subtract", |a| blocks_of(a.level.rows, a.level.lanes);
    /// Rounds an inverse to the precision of the cycle.
    NarrowInverse narrow_inverse(NarrowArgs) = "agg_narrow_inverse", |a| row_blocks(a.count);
    /// Solves the coarsest system with its inverse.
    SolveCoarsest solve_coarsest(CoarsestArgs) = "agg_solve_coarsest", |a| blocks_of(a.level.rows, WARP_THREADS);
}

/// Count of the kernels in this file. The kernels that follow are numbered from this value.
pub(super) const AGGREGATION_KERNEL_COUNT: usize = PLAIN_KERNELS.len() + REAL_KERNELS.len();
