//! Kernels on vectors over cells, for the families whose modules include them (kernels/common/vectors.cuh): vector
//! operations of PCG, and copies between the caller's arrays and vectors. Their numbers follow those of the other
//! shared kernels.

use super::aggregation::BLOCK_SIZE;
use super::declare::Address;
use super::labelled::{SHARED_KERNEL_COUNT, cell_blocks};
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/vectors.rs"));

/// Use of a sum over all cells (kernels/common/vectors.cuh).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumUse {
    /// The sum is stored.
    Stored = 0,
    /// The sum is rho = <r, M^-1 r> of an iteration. The last block of the kernel updates the scalars with this sum.
    Rho = 1,
    /// The sum is sigma = <p, P A p>, the last sum of an iteration. The last block ends the iteration.
    LastSigma = 2,
    /// The sum is <Z^T q, t>, the last sum of an iteration. The last block computes
    /// sigma = <p, P A p> = <p, q> - <Z^T q, t>.
    LastPart = 3,
}

impl CellBox {
    /// Returns the number of cells.
    pub fn count(&self) -> i64 {
        i64::from(self.nx) * i64::from(self.ny) * i64::from(self.nz)
    }
}

plain_kernels! {
    PlainKernel from SHARED_KERNEL_COUNT, in PLAIN_KERNELS:
    /// Computes <f a, f b>, where f is a factor.
    Dot cell_dot(VectorArgs) = "dot_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Computes out += f a, where f is a factor; in the loop, r -= alpha q and <r, r>.
    AddScaled cell_add_scaled(VectorArgs) = "add_scaled_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Computes out = a + f out, where f is a factor.
    UpdateDirection cell_update_direction(VectorArgs) = "update_direction_f64",
        |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Computes x += alpha p and p = z + beta p, as a step of the loop.
    Advance cell_advance(VectorArgs) = "advance_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Finds the largest magnitudes of the caller's arrays, and their first non-finite entry.
    Inspect cell_inspect(CellInspectArgs) = "inspect_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes a vector as a factor times the caller's array.
    Load cell_load(CellTransferArgs) = "load_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes the caller's array as a factor times a vector.
    Store cell_store(CellTransferArgs) = "store_f64", |a| cell_blocks(a.cells.count()), BLOCK_SIZE;
    /// Computes max |v|.
    Largest cell_largest(CellLargestArgs) = "largest_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
    /// Computes the largest power of two not above max |v|, and its reciprocal.
    Scale cell_scale(ScaleArgs) = "find_scale_f64", |a| cell_blocks(a.count), BLOCK_SIZE;
}

real_kernels! {
    RealKernel from SHARED_KERNEL_COUNT + PLAIN_KERNELS.len(), in REAL_KERNELS:
    /// Copies a vector, divided by a scale, to the cycle of aggregation, and computes the first smoothing step of the
    /// cycle.
    LoadCycleInput load_cycle_input(CycleTransferArgs) = "agg_load_cycle_input", |a| cell_blocks(a.count);
    /// Copies a vector, multiplied by the scale and a factor, from the cycle of aggregation.
    StoreCycleOutput store_cycle_output(CycleTransferArgs) = "agg_store_cycle_output", |a| cell_blocks(a.count);
}

/// Number of the first kernel of the family itself, in a family whose module includes these kernels.
pub(super) const FIRST_FAMILY_KERNEL: usize = SHARED_KERNEL_COUNT + PLAIN_KERNELS.len() + REAL_KERNELS.len();
