//! Kernels that sum the cells of each label (kernels/common/labelled.cuh). They are in the modules of the families that
//! use them. A slot consists of cells with the same label. In `rrb`, a slot is a run of cells. In `dpcg`, a slot
//! consists of those cells of one chunk that have the label, and the items of the slot are the segments of the chunk
//! that contain cells of the slot.

use super::aggregation::{self, BLOCK_SIZE};
use super::declare::Address;
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/labelled.rs"));

/// Largest number of blocks of a launch.
pub const MAX_CELL_BLOCKS: u32 = 528;
/// Largest number of blocks of `slot_sums`: six for each of 132 multiprocessors.
const MAX_SLOT_BLOCKS: u32 = 792;
/// Number of cells of a chunk. The cells of a chunk that have the same label are summed to one partial sum.
pub const CHUNK_CELLS: i64 = 1024;
/// Number of cells of a segment of a chunk.
pub const SEGMENT_CELLS: i64 = 16;

/// Returns the blocks of a launch with one thread per cell, but at most `MAX_CELL_BLOCKS`.
pub fn cell_blocks(count: i64) -> u32 {
    (count.max(1) as u64).div_ceil(u64::from(BLOCK_SIZE.0)).min(u64::from(MAX_CELL_BLOCKS)) as u32
}

/// Returns the blocks of a launch with one warp for each of `count` labels or rows, but at most `MAX_CELL_BLOCKS`.
pub fn warp_blocks(count: u32) -> u32 {
    cell_blocks(32 * i64::from(count))
}

/// Returns the number of chunks into which `cells` cells are divided, but at most `max_blocks`.
pub fn chunk_blocks(cells: i64, max_blocks: u32) -> u32 {
    (cells.max(1) as u64).div_ceil(CHUNK_CELLS as u64).min(u64::from(max_blocks)) as u32
}

impl LabelledArgs {
    /// Returns the blocks of a launch over the values: one warp per run, or `cell_blocks` blocks if there are no runs.
    fn blocks(&self, cell_blocks: u32) -> u32 {
        if self.runs == 0 { cell_blocks } else { warp_blocks(self.count as u32) }
    }
}

plain_kernels! {
    PlainKernel from aggregation::AGGREGATION_KERNEL_COUNT, in PLAIN_KERNELS:
    /// Adds the sums of the slots of each label, and computes the mean over the cells of each label.
    LabelSums label_sums(LabelledArgs) = "label_sums_f64", |a| a.labels.count.clamp(1, MAX_CELL_BLOCKS), BLOCK_SIZE;
    /// Stores the means, which `shift_labelled` can add later.
    StoreMeans store_means(LabelledArgs) = "store_means_f64", |a| cell_blocks(i64::from(a.labels.count)), BLOCK_SIZE;
}

real_kernels! {
    RealKernel from aggregation::AGGREGATION_KERNEL_COUNT + PLAIN_KERNELS.len(), in REAL_KERNELS:
    /// Sums the cells of each slot.
    SlotSums slot_sums(LabelledArgs) = "slot_sums", |a| a.blocks(chunk_blocks(a.count, MAX_SLOT_BLOCKS));
    /// Subtracts from each value of v the mean of its label. With `restores_mean`, also adds the stored mean of the
    /// label.
    ShiftLabelled shift_labelled(LabelledArgs) = "shift", |a| a.blocks(cell_blocks(a.count));
}

/// Count of the kernels that families share. The kernels of one family alone are numbered from this value.
pub(super) const SHARED_KERNEL_COUNT: usize =
    aggregation::AGGREGATION_KERNEL_COUNT + PLAIN_KERNELS.len() + REAL_KERNELS.len();
