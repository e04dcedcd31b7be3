//! Kernels that sum the cells of each label (kernels/common/labelled.cuh). They are in the modules of the families that
//! use them. A slot consists of the cells of one label in one chunk of cells. The items of a slot are the segments of
//! the chunk that contain cells of the slot.

use super::aggregation::{self, BLOCK};
use super::declare::Address;
use crate::cuda::driver::{Kernel, Stream};
use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/labelled.rs"));

/// Largest number of blocks of a launch.
pub const MOST_CELL_BLOCKS: u32 = 528;
/// Largest number of blocks of `slot_sums`: six for each of 132 multiprocessors.
const MOST_SLOT_BLOCKS: u32 = 792;
/// Number of cells of a chunk. The cells of a chunk that have the same label are summed to one partial sum.
pub const CHUNK: i64 = 1024;
/// Number of cells of a segment of a chunk.
pub const SEGMENT: i64 = 16;

/// Returns the blocks of a launch with one thread per cell.
pub fn cell_blocks(count: i64) -> u32 {
    (count.max(1) as u64).div_ceil(u64::from(BLOCK.0)).min(u64::from(MOST_CELL_BLOCKS)) as u32
}

/// Returns the blocks of a launch with one warp for each of `count` labels or rows.
pub fn warp_blocks(count: u32) -> u32 {
    cell_blocks(32 * i64::from(count))
}

/// Returns the number of chunks into which `cells` cells are divided, but at most `most`.
pub fn chunk_blocks(cells: i64, most: u32) -> u32 {
    (cells.max(1) as u64).div_ceil(CHUNK as u64).min(u64::from(most)) as u32
}

plain_kernels! {
    Number from aggregation::COUNT, in PLAIN:
    /// Counts, or lists, the slots of each chunk of cells and their items.
    ListSlots list_slots(ListArgs) = "list_slots_f64", |a| chunk_blocks(a.cells, MOST_CELL_BLOCKS), BLOCK;
    /// Computes exclusive prefix sums in place.
    Scan scan(ScanArgs) = "scan_f64", |a| a.arrays as u32, BLOCK;
    /// Sorts the slots by label.
    SortSlots sort_slots(ListArgs) = "sort_slots_f64", |a| warp_blocks(a.labels.count), BLOCK;
    /// Sums the slots of each label.
    LabelSums label_sums(LabelledArgs) = "label_sums_f64", |a| a.labels.count.clamp(1, MOST_CELL_BLOCKS), BLOCK;
    /// Stores the means.
    KeepMeans keep_means(LabelledArgs) = "keep_means_f64", |a| cell_blocks(i64::from(a.labels.count)), BLOCK;
}

real_kernels! {
    RealNumber from aggregation::COUNT + PLAIN.len(), in REAL:
    /// Sums the cells of each slot.
    SlotSums slot_sums(LabelledArgs) = "slot_sums", |a| chunk_blocks(a.of, MOST_SLOT_BLOCKS);
    /// Subtracts the mean of each label from v.
    Shift shift_labelled(LabelledArgs) = "shift", |a| cell_blocks(a.of);
}

/// Count of the kernels that families share. The kernels of one family alone are numbered from this value.
pub(super) const COUNT: usize = aggregation::COUNT + PLAIN.len() + REAL.len();
