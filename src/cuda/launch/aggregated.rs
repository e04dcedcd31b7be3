//! Kernels that extract the couplings of S1 or A for aggregation, and copy vectors between the storage by colour and
//! the order of the rows of the aggregation (kernels/rrb/aggregated.cuh).

use super::aggregation::{BLOCK_SIZE, row_blocks};
use super::rrb::{KERNELS_BEFORE_AGGREGATED, RowCouplingsArgs, RowsArgs};
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

plain_kernels! {
    AggregatedKernel from KERNELS_BEFORE_AGGREGATED, in AGGREGATED_KERNELS:
    /// Computes couplings and row sums of S1 or of A.
    ComputeCouplings compute_couplings(RowCouplingsArgs) = "rrb_agg_couplings_f64",
        |a| row_blocks(a.c.rows), BLOCK_SIZE;
}

real_kernels! {
    RowsKernel from KERNELS_BEFORE_AGGREGATED + AGGREGATED_KERNELS.len(), in AGGREGATED_REAL_KERNELS:
    /// Copies a vector stored by colour to the order of the rows of the aggregation. Also computes the first smoothing
    /// step.
    GatherResidual gather_residual(RowsArgs) = "rrb_agg_gather", |a| row_blocks(a.rows);
    /// Copies a vector, multiplied by a factor, from the order of the rows of the aggregation to the storage by colour.
    ScatterSolution scatter_solution(RowsArgs) = "rrb_agg_scatter", |a| row_blocks(a.rows);
}
