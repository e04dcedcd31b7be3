//! Data shared by the threads of a team, and one thread's view of a call, with its part of the work list.

use super::exchange::GhostBuffers;
use super::kernels::{BATCH_BLOCKS, BlockInverse, Operator, Prefetch, Task};
use crate::base::reduce::Partials;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::smoother::block_inverse::BlockShape;
use crate::smoother::patches::{BlockPartition, Patch};
use crate::smoother::steps::{ArrayPointers, Callbacks, NonfiniteCell, PatchSystem, SweepParameters, WorkDivision};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Minimum number of slabs per thread for a fused sweep in which each thread's part of the work list begins at a slab.
/// With fewer slabs, the load imbalance is too large.
const MIN_SLABS_PER_THREAD: usize = 6;

/// Data that the threads share, in addition to the caller's arrays.
pub struct PatchData {
    pub patch_system: PatchSystem,
    pub operator: Operator,
    /// Second array of block Jacobi, with one pointer per patch; the patches are stored one after the other.
    pub second_array: Option<(Shared, Vec<*mut f64>)>,
    /// Buffers for the exchange of ghost cells within fused coloured sweeps.
    pub ghost_buffers: Option<GhostBuffers>,
    /// For each patch, the number of the last fused coloured sweep in which a thread claimed the patch. Sweeps are
    /// numbered from 1 over all calls.
    pub claimed_in_sweep: Vec<AtomicUsize>,
    /// For each thread, the number of the last fused sweep in which all whole patches of its part were found to be
    /// claimed.
    pub all_claimed_in_sweep: Vec<AtomicUsize>,
    /// Number of sweeps that all calls on these patches have requested.
    pub requested_sweeps: usize,
    /// Sums of squares of the residual, one per plane of cells.
    pub square_sums: Partials,
    /// For each patch, the number of planes of cells in all patches before it. The last entry is the total number.
    pub planes_before: Vec<usize>,
    /// Scratch arrays for dense inverses, one per thread.
    pub scratch: Vec<Shared>,
    /// Whether a callback requested a stop.
    pub stop_requested: AtomicBool,
    /// First value in u or f that is not finite.
    pub nonfinite_cell: Mutex<Option<NonfiniteCell>>,
}

// SAFETY: the raw pointers point into `second_array`, an array that `PatchData` owns. The safety comments of
// `CallThread` state which thread accesses which values between two barriers.
unsafe impl Sync for PatchData {}

/// Data of one call that all threads read.
pub struct Call<'a> {
    pub data: &'a PatchData,
    pub block_inverses: &'a [Option<Box<BlockInverse>>],
    pub arrays: ArrayPointers<'a>,
    pub second_array: &'a [*mut f64],
    pub parameters: &'a SweepParameters,
    /// `Some` if ghost cells are exchanged within the sweeps.
    pub ghost_buffers: Option<&'a GhostBuffers>,
    /// Number of sweeps that the previous calls on these patches requested.
    pub sweeps_before: usize,
    pub has_ghost_fill: bool,
    pub has_monitor: bool,
}

// SAFETY: the pointers point to the caller's arrays, which are valid during the call. The safety comments of
// `CallThread` state which thread accesses which values between two barriers.
unsafe impl Sync for Call<'_> {}

/// One thread's view of a call.
pub struct CallThread<'a, 'w> {
    pub call: &'a Call<'a>,
    pub thread: TeamThread<'a>,
    pub callbacks: Option<&'w mut dyn Callbacks>,
    /// Whether the current values are in the second array of block Jacobi.
    pub uses_second_array: bool,
    /// Number of completed coloured sweeps of this call.
    pub completed_sweeps: usize,
    pub batch: Batch,
}

/// Blocks of one shape that wait for a product with the dense inverse.
pub struct Batch {
    pub tasks: [Task; BATCH_BLOCKS],
    pub count: usize,
    pub shape: BlockShape,
    /// Whether the batch is processed after every block, because the method relaxes the blocks one after the other.
    pub is_sequential: bool,
}

/// A row of blocks in the work list. `row` is kb * (rows of blocks per slab) + jb, where jb and kb are the indices of
/// the row of blocks in y and z, counted from the first block of the patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPosition {
    pub patch: usize,
    pub row: usize,
}

/// Where a thread's part of the work list may begin: at any row of blocks, only at the first row of a slab, or only at
/// the first row of a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    Row,
    Slab,
    Patch,
}

impl<'a, 'w> CallThread<'a, 'w> {
    pub fn new(call: &'a Call<'a>, thread: TeamThread<'a>, callbacks: Option<&'w mut dyn Callbacks>) -> Self {
        let empty_task = Task {
            u: std::ptr::null(),
            out: std::ptr::null_mut(),
            f: std::ptr::null(),
            strides: (0, 0),
            f_strides: (0, 0),
            block_count: 1,
            pitch: 0,
            omega: 0.0,
            prefetch: Prefetch::NOTHING,
        };
        Self {
            call,
            thread,
            callbacks,
            uses_second_array: false,
            completed_sweeps: 0,
            batch: Batch { tasks: [empty_task; BATCH_BLOCKS], count: 0, shape: [0; 3], is_sequential: false },
        }
    }

    /// Returns all patches.
    pub fn patches(&self) -> &'a [Patch] {
        &self.call.data.patch_system.patch_list.patches
    }

    /// Returns the arrays with the current values of u, one per patch.
    pub fn current_arrays(&self) -> &'a [*mut f64] {
        if self.uses_second_array { self.call.second_array } else { self.call.arrays.u }
    }

    /// Divides the work list into `part_count` parts with about the same number of cells. Returns the first row of
    /// blocks of part `part_index`, or the end of the list if `part_index` equals `part_count`.
    pub fn part_start(
        &self,
        partition: &BlockPartition,
        part_index: usize,
        part_count: usize,
        granularity: Granularity,
    ) -> RowPosition {
        let patch_list = &self.call.data.patch_system.patch_list;
        let end = RowPosition { patch: patch_list.patches.len(), row: 0 };
        let target_cell = (patch_list.cell_count() as u128 * part_index as u128 / part_count as u128) as usize;
        if part_index >= part_count || target_cell >= patch_list.cell_count() {
            return end;
        }
        let patch = patch_list.cells_before.partition_point(|&c| c <= target_cell) - 1;
        let (offset_in_patch, patch_cells) =
            (target_cell - patch_list.cells_before[patch], patch_list.patches[patch].cell_count());
        let (row_count, rows_per_slab) = row_counts(partition, &patch_list.patches[patch]);
        let row = (offset_in_patch as u128 * row_count as u128 / patch_cells as u128) as usize;
        match granularity {
            Granularity::Row => RowPosition { patch, row },
            Granularity::Slab => RowPosition { patch, row: row - row % rows_per_slab },
            Granularity::Patch => {
                RowPosition { patch: patch + usize::from(2 * offset_in_patch >= patch_cells), row: 0 }
            }
        }
    }

    /// Returns the patches of part `part_index` of the work list, and the rows of blocks of each patch that belong to
    /// the part.
    pub fn rows_of_part(
        &self,
        partition: &BlockPartition,
        part_index: usize,
        granularity: Granularity,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
        let (patches, partition) = (self.patches(), *partition);
        let [begin, end] = [part_index, part_index + 1]
            .map(|part_index| self.part_start(&partition, part_index, self.thread.threads, granularity));
        (begin.patch..patches.len().min(end.patch + 1)).filter_map(move |patch| {
            let first_row = if patch == begin.patch { begin.row } else { 0 };
            let end_row = if patch == end.patch { end.row } else { row_counts(&partition, &patches[patch]).0 };
            (first_row < end_row).then_some((patch, first_row..end_row))
        })
    }

    /// For each row of blocks of this thread, calls `f` with the index of the patch and the number of the row in the
    /// patch. `SweepParameters::division` determines which rows belong to which thread. Relaxes the blocks that `f`
    /// adds to the batch, and ends with a barrier.
    pub fn for_each_own_row(&mut self, partition: &BlockPartition, mut f: impl FnMut(&mut Self, usize, usize)) {
        let (thread, patch_count) = (self.thread, self.patches().len());
        match self.call.parameters.division {
            WorkDivision::AllBlocks | WorkDivision::WholePatches => {
                let granularity = if self.call.parameters.division == WorkDivision::AllBlocks {
                    Granularity::Row
                } else {
                    Granularity::Patch
                };
                for (patch, rows) in self.rows_of_part(partition, thread.index, granularity) {
                    rows.for_each(|row| f(self, patch, row));
                }
                self.flush_batch();
            }
            WorkDivision::BlocksOfPatch => {
                for patch in 0..patch_count {
                    for row in thread.share(row_counts(partition, &self.patches()[patch]).0) {
                        f(self, patch, row);
                    }
                    self.flush_batch();
                    thread.barrier();
                }
            }
            WorkDivision::NestedGroups(group_count) => {
                let group_count =
                    if group_count == 0 { thread.threads.isqrt() } else { group_count.min(thread.threads) };
                let group_index = thread.index * group_count / thread.threads;
                // First thread of group g: the smallest index for which the integer part of index * groups / threads is
                // g.
                let first_thread = |g: usize| (g * thread.threads).div_ceil(group_count);
                let (rank_in_group, group_threads) = (
                    thread.index - first_thread(group_index),
                    first_thread(group_index + 1) - first_thread(group_index),
                );
                let first_patch = |g: usize| self.part_start(partition, g, group_count, Granularity::Patch).patch;
                let (patch_begin, patch_end) = (first_patch(group_index), first_patch(group_index + 1));
                let round_count = (0..group_count).map(|g| first_patch(g + 1) - first_patch(g)).max().unwrap_or(0);
                for round in 0..round_count {
                    let patch = patch_begin + round;
                    if patch < patch_end {
                        let n = row_counts(partition, &self.patches()[patch]).0;
                        for row in n * rank_in_group / group_threads..n * (rank_in_group + 1) / group_threads {
                            f(self, patch, row);
                        }
                    }
                    self.flush_batch();
                    thread.barrier();
                }
            }
        }
        thread.barrier();
    }

    /// Calls `callback` on thread 0 with the caller's callbacks. Returns the result of `callback` on every thread.
    pub fn call_on_first_thread(&mut self, callback: impl FnOnce(&mut dyn Callbacks) -> bool) -> bool {
        let stop_requested = &self.call.data.stop_requested;
        if let Some(callbacks) = &mut self.callbacks {
            stop_requested.store(callback(*callbacks), Ordering::Relaxed);
        }
        self.thread.barrier();
        let result = stop_requested.load(Ordering::Relaxed);
        // This barrier prevents another call from overwriting `stop_requested` before all threads have read it.
        self.thread.barrier();
        result
    }

    /// Returns the number of the current fused coloured sweep, counted from 1 over all calls.
    pub fn sweep_number(&self) -> usize {
        self.call.sweeps_before + self.completed_sweeps + 1
    }

    /// Claims a whole patch for this thread in the current coloured sweep. Returns false if another thread has claimed
    /// the patch.
    pub fn claim_patch(&self, patch_index: usize) -> bool {
        let sweep = self.sweep_number();
        let claimed_in_sweep = &self.call.data.claimed_in_sweep[patch_index];
        claimed_in_sweep.load(Ordering::Relaxed) != sweep && claimed_in_sweep.swap(sweep, Ordering::Relaxed) != sweep
    }

    /// Copies the ghost layer of patch `patch_index` from `source` to `target`, the two arrays of block Jacobi.
    pub fn copy_ghosts(&self, patch_index: usize, source: *const f64, target: *mut f64) {
        let patch = &self.patches()[patch_index];
        let (row, plane) = patch.strides();
        let copy_range = |start: usize, len: usize| {
            // SAFETY: both arrays have this patch's shape, and only this thread writes the ghost cells of this patch.
            unsafe { std::ptr::copy_nonoverlapping(source.add(start), target.add(start), len) };
        };
        let planes = patch.size[2] + 1;
        copy_range(0, plane);
        copy_range(planes * plane, plane);
        for k in 1..planes {
            copy_range(k * plane, row);
            copy_range(k * plane + plane - row, row);
            for j in 1..=patch.size[1] {
                copy_range(k * plane + j * row, 1);
                copy_range(k * plane + j * row + row - 1, 1);
            }
        }
    }
}

/// Returns the granularity of the threads' parts in a fused coloured sweep; `None` selects a sweep colour by colour.
pub fn fused_granularity(
    patches: &[Patch],
    partition: &BlockPartition,
    division: WorkDivision,
    threads: usize,
) -> Option<Granularity> {
    // Each thread evaluates this condition in each sweep, so the count ends as soon as there are enough slabs.
    let has_enough_slabs = || {
        let mut slabs = 0;
        patches.iter().any(|p| {
            slabs += partition.block_range(p, 2).1;
            slabs >= MIN_SLABS_PER_THREAD * threads
        })
    };
    match division {
        WorkDivision::AllBlocks if has_enough_slabs() => Some(Granularity::Slab),
        WorkDivision::WholePatches => Some(Granularity::Patch),
        _ => None,
    }
}

/// Returns the number of rows of blocks of a patch, and of one of its slabs. A slab consists of the blocks of a patch
/// that have the same index in z.
pub fn row_counts(partition: &BlockPartition, patch: &Patch) -> (usize, usize) {
    let rows_per_slab = partition.block_range(patch, 1).1;
    (rows_per_slab * partition.block_range(patch, 2).1, rows_per_slab)
}
