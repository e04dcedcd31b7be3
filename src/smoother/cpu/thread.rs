//! Data shared by the threads of a team, and one thread's view of a call, with its part of the work list.

use super::exchange::GhostBuffers;
use super::kernels::{BATCH_BLOCKS, BlockInverse, Operator, Prefetch, Task};
use crate::base::reduce::Partials;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::smoother::block_inverse::Shape;
use crate::smoother::patches::{Cut, Patch};
use crate::smoother::steps::{BadCell, Blocks, Callbacks, Parallel, Pointers, Work};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Minimum number of slabs per thread for a fused sweep whose parts begin at slabs. With fewer slabs, the load
/// imbalance is too large.
const SLABS_PER_THREAD: usize = 6;

/// Data that the threads share, in addition to the caller's arrays.
pub struct Data {
    pub blocks: Blocks,
    pub operator: Operator,
    /// Second array of block Jacobi, with one pointer per patch; the patches are stored one after the other.
    pub second_array: Option<(Shared, Vec<*mut f64>)>,
    /// Buffers for the exchange of ghost cells within fused coloured sweeps.
    pub ghost_buffers: Option<GhostBuffers>,
    /// For each patch, the number of the last fused coloured sweep in which a thread claimed it. Sweeps are numbered
    /// from 1 over all calls.
    pub claimed_in_sweep: Vec<AtomicUsize>,
    /// For each thread, the number of the last fused sweep in which all whole patches of its part were found to be
    /// claimed.
    pub all_claimed_in_sweep: Vec<AtomicUsize>,
    /// Number of sweeps that all calls on these patches have requested.
    pub requested_sweeps: usize,
    /// Sums of squares of the residual, one per plane of cells.
    pub squares: Partials,
    /// For each patch, the number of planes of cells in all patches before it. The last entry is the total number.
    pub planes_before: Vec<usize>,
    /// Scratch arrays for dense inverses, one per thread.
    pub scratch: Vec<Shared>,
    pub stop: AtomicBool,
    pub bad: Mutex<Option<BadCell>>,
}

// SAFETY: the raw pointers point into `second_array`, an array that `Data` owns. The safety comments of `CallThread`
// state which thread accesses which values between two barriers.
unsafe impl Sync for Data {}

/// Data of one call that all threads read.
pub struct Call<'a> {
    pub data: &'a Data,
    pub block_inverses: &'a [Option<Box<BlockInverse>>],
    pub arrays: Pointers<'a>,
    pub second_array: &'a [*mut f64],
    pub work: &'a Work,
    /// `Some` if ghost cells are exchanged within the sweeps.
    pub ghost_buffers: Option<&'a GhostBuffers>,
    /// Number of sweeps of the previous calls on these patches.
    pub sweeps_before: usize,
    pub has_ghost_fill: bool,
    pub watched: bool,
}

// SAFETY: the pointers point to the caller's arrays, which are valid during the call. The safety comments of
// `CallThread` state which thread accesses which values between two barriers.
unsafe impl Sync for Call<'_> {}

/// One thread's view of a call.
pub struct CallThread<'a, 'w> {
    pub call: &'a Call<'a>,
    pub me: Me<'a>,
    pub callbacks: Option<&'w mut dyn Callbacks>,
    /// Whether the current values are in the second array of block Jacobi.
    pub flipped: bool,
    /// Number of completed coloured sweeps of this call.
    pub sweeps: usize,
    pub batch: Batch,
}

/// Blocks of one shape that wait for a product with the dense inverse.
pub struct Batch {
    pub tasks: [Task; BATCH_BLOCKS],
    pub count: usize,
    pub shape: Shape,
    /// Whether the batch is processed after every block, because the method relaxes the blocks one after the other.
    pub one_by_one: bool,
}

/// A row of blocks in the work list. `row` is kb * (rows of blocks per slab) + jb, where jb and kb are the indices of
/// the row of blocks in y and z, counted from the first block of the patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowPosition {
    pub patch: usize,
    pub row: usize,
}

/// Granularity of the parts of the work list: a part begins at any row of blocks, at the first row of a slab, or at the
/// first row of a patch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    Row,
    Slab,
    Patch,
}

impl<'a, 'w> CallThread<'a, 'w> {
    pub fn new(call: &'a Call<'a>, me: Me<'a>, callbacks: Option<&'w mut dyn Callbacks>) -> Self {
        let none = Task {
            u: std::ptr::null(),
            out: std::ptr::null_mut(),
            f: std::ptr::null(),
            strides: (0, 0),
            f_strides: (0, 0),
            blocks: 1,
            pitch: 0,
            omega: 0.0,
            prefetch: Prefetch::NOTHING,
        };
        Self {
            call,
            me,
            callbacks,
            flipped: false,
            sweeps: 0,
            batch: Batch { tasks: [none; BATCH_BLOCKS], count: 0, shape: [0; 3], one_by_one: false },
        }
    }

    pub fn patches(&self) -> &'a [Patch] {
        &self.call.data.blocks.list.patches
    }

    pub fn current_arrays(&self) -> &'a [*mut f64] {
        if self.flipped { self.call.second_array } else { self.call.arrays.u }
    }

    /// Divides the work list into `parts` parts with about the same number of cells. Returns the first row of blocks of
    /// part `part`, or the end of the list if `part` equals `parts`.
    pub fn start_of_part(&self, cut: &Cut, part: usize, parts: usize, grain: Grain) -> RowPosition {
        let list = &self.call.data.blocks.list;
        let end = RowPosition { patch: list.patches.len(), row: 0 };
        let target = (list.cells() as u128 * part as u128 / parts as u128) as usize;
        if part >= parts || target >= list.cells() {
            return end;
        }
        let patch = list.cells_before.partition_point(|&c| c <= target) - 1;
        let (inside, cells) = (target - list.cells_before[patch], list.patches[patch].cells());
        let (rows, row_of_slab) = row_counts(cut, &list.patches[patch]);
        let row = (inside as u128 * rows as u128 / cells as u128) as usize;
        match grain {
            Grain::Row => RowPosition { patch, row },
            Grain::Slab => RowPosition { patch, row: row - row % row_of_slab },
            Grain::Patch => RowPosition { patch: patch + usize::from(2 * inside >= cells), row: 0 },
        }
    }

    /// Returns the patches of part `part` of the work list, and the rows of blocks of each patch that belong to the
    /// part.
    pub fn rows_of_part(
        &self,
        cut: &Cut,
        part: usize,
        grain: Grain,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
        let (patches, cut) = (self.patches(), *cut);
        let [begin, end] = [part, part + 1].map(|part| self.start_of_part(&cut, part, self.me.members, grain));
        (begin.patch..patches.len().min(end.patch + 1)).filter_map(move |patch| {
            let first = if patch == begin.patch { begin.row } else { 0 };
            let last = if patch == end.patch { end.row } else { row_counts(&cut, &patches[patch]).0 };
            (first < last).then_some((patch, first..last))
        })
    }

    /// Calls `f` with the patch and the number of each row of blocks of this thread. The option `parallel` determines
    /// the division among the threads. Relaxes the blocks that `f` adds to the batch, and ends with a barrier.
    pub fn for_each_own_row(&mut self, cut: &Cut, mut f: impl FnMut(&mut Self, usize, usize)) {
        let (me, count) = (self.me, self.patches().len());
        match self.call.work.parallel {
            Parallel::Flat | Parallel::Patches => {
                let grain = if self.call.work.parallel == Parallel::Flat { Grain::Row } else { Grain::Patch };
                for (patch, part) in self.rows_of_part(cut, me.index, grain) {
                    part.for_each(|row| f(self, patch, row));
                }
                self.flush();
            }
            Parallel::Blocks => {
                for patch in 0..count {
                    for row in me.share(row_counts(cut, &self.patches()[patch]).0) {
                        f(self, patch, row);
                    }
                    self.flush();
                    me.barrier();
                }
            }
            Parallel::Nested(groups) => {
                let groups = if groups == 0 { me.members.isqrt() } else { groups.min(me.members) };
                let group = me.index * groups / me.members;
                // First thread of a group: the smallest index with index * groups / members = group.
                let first_of = |g: usize| (g * me.members).div_ceil(groups);
                let (rank, members) = (me.index - first_of(group), first_of(group + 1) - first_of(group));
                let start_of = |g: usize| self.start_of_part(cut, g, groups, Grain::Patch).patch;
                let (begin, end) = (start_of(group), start_of(group + 1));
                let rounds = (0..groups).map(|g| start_of(g + 1) - start_of(g)).max().unwrap_or(0);
                for round in 0..rounds {
                    let patch = begin + round;
                    if patch < end {
                        let n = row_counts(cut, &self.patches()[patch]).0;
                        for row in n * rank / members..n * (rank + 1) / members {
                            f(self, patch, row);
                        }
                    }
                    self.flush();
                    me.barrier();
                }
            }
        }
        me.barrier();
    }

    /// Calls `callback` with the caller's callbacks on thread 0, and returns its result on every thread.
    pub fn call_on_first_thread(&mut self, callback: impl FnOnce(&mut dyn Callbacks) -> bool) -> bool {
        let stop = &self.call.data.stop;
        if let Some(callbacks) = &mut self.callbacks {
            stop.store(callback(*callbacks), Ordering::Relaxed);
        }
        self.me.barrier();
        let answer = stop.load(Ordering::Relaxed);
        // This barrier prevents another call from overwriting `stop` before all threads have read it.
        self.me.barrier();
        answer
    }

    /// Returns the number of the current fused coloured sweep, counted from 1 over all calls.
    pub fn sweep_number(&self) -> usize {
        self.call.sweeps_before + self.sweeps + 1
    }

    /// Claims a whole patch for this thread in the current coloured sweep. Returns false if another thread claimed it.
    pub fn claim(&self, p: usize) -> bool {
        let sweep = self.sweep_number();
        let claimed_in_sweep = &self.call.data.claimed_in_sweep[p];
        claimed_in_sweep.load(Ordering::Relaxed) != sweep && claimed_in_sweep.swap(sweep, Ordering::Relaxed) != sweep
    }

    /// Copies the ghost layer of patch p from the current array to the other array.
    pub fn copy_ghosts(&self, p: usize, from: *const f64, to: *mut f64) {
        let patch = &self.patches()[p];
        let (row, plane) = patch.strides();
        let copy = |start: usize, len: usize| {
            // SAFETY: both arrays have this patch's shape, and only this thread writes the ghost cells of this patch.
            unsafe { std::ptr::copy_nonoverlapping(from.add(start), to.add(start), len) };
        };
        let planes = patch.size[2] + 1;
        copy(0, plane);
        copy(planes * plane, plane);
        for k in 1..planes {
            copy(k * plane, row);
            copy(k * plane + plane - row, row);
            for j in 1..=patch.size[1] {
                copy(k * plane + j * row, 1);
                copy(k * plane + j * row + row - 1, 1);
            }
        }
    }
}

/// Returns the granularity of the threads' parts in a fused coloured sweep; `None` selects a sweep colour by colour.
pub fn fused_grain(patches: &[Patch], cut: &Cut, parallel: Parallel, members: usize) -> Option<Grain> {
    // Each thread evaluates this condition in each sweep, so the search stops as soon as enough slabs are found.
    let enough = || {
        let mut slabs = 0;
        patches.iter().any(|p| {
            slabs += cut.block_range(p, 2).1;
            slabs >= SLABS_PER_THREAD * members
        })
    };
    match parallel {
        Parallel::Flat if enough() => Some(Grain::Slab),
        Parallel::Patches => Some(Grain::Patch),
        _ => None,
    }
}

/// Returns the number of rows of blocks of a patch, and of one of its slabs. A slab consists of the blocks of a patch
/// that have the same index in z.
pub fn row_counts(cut: &Cut, patch: &Patch) -> (usize, usize) {
    let in_slab = cut.block_range(patch, 1).1;
    (in_slab * cut.block_range(patch, 2).1, in_slab)
}
