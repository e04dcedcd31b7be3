//! Relaxation of rows of blocks: one colour or all blocks, row by row or fused. For the chaotic method, other threads
//! read and write the surrounding cells at the same time.

use super::exchange::Direction;
use super::kernels::{ArrayPrefetch, BATCH_BLOCKS, Prefetch, SCRATCH_VALUES, Task, shape_index};
use super::relax::{relax, relax_dense};
use crate::smoother::cpu::thread::{CallThread, row_counts};
use crate::smoother::patches::{Cut, Segment};
use crate::smoother::steps::{SmootherSteps, colour_count};
use std::sync::atomic::{AtomicU64, Ordering};

/// Selects the blocks of a row of blocks.
#[derive(Clone, Copy)]
pub enum BlockSelection {
    All,
    Colour(usize),
}

/// Arrays and parameters for the relaxation of a row of blocks. `from` and `to` are the arrays that are read and
/// written, one per patch.
#[derive(Clone, Copy)]
pub struct RowParameters<'a> {
    pub from: &'a [*mut f64],
    pub to: &'a [*mut f64],
    pub cut: &'a Cut,
    pub omega: f64,
    /// Whether each block reads the new values of the previous blocks in the row.
    pub in_order: bool,
    /// Whether the last block of the row comes first; used only with `in_order`.
    pub reverse: bool,
    /// Cells to prefetch during the relaxation.
    pub prefetch: PrefetchSelection,
}

/// Cells to prefetch while a row of blocks is relaxed. In a fused sweep, rows of the first and of the second colours
/// alternate, and only the rows of the first colours are not yet in the cache. Each row of a pair therefore prefetches
/// half of the next row of the first colours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PrefetchSelection {
    Nothing,
    Next,
    FirstHalf,
    /// Prefetches the second half of the row that follows the row with this number.
    SecondHalf(usize),
}

impl CallThread<'_, '_> {
    /// Relaxes the selected blocks of one row of blocks.
    ///
    /// # Safety
    /// While this function runs, no other thread accesses cells of these blocks in `to`, and no other thread writes, in
    /// `from`, cells of these blocks or of the layer around them. Blocks with dense inverses may wait in the batch; the
    /// condition then holds until `flush` returns. Between two calls of `flush`, no block reads cells that another
    /// block writes: they have the same colour, or `to` differs from `from`, or `in_order` is set.
    pub unsafe fn relax_row(&mut self, parameters: RowParameters, p: usize, row: usize, which: BlockSelection) {
        let patch = &self.patches()[p];
        let cut = parameters.cut;
        let (_, in_slab) = row_counts(cut, patch);
        let (jb, kb) = (row % in_slab, row / in_slab);
        let (first, count) = cut.block_range(patch, 0);
        let (start, step) = match which {
            BlockSelection::All => (0, 1),
            BlockSelection::Colour(colour) => {
                let (j, k) = (cut.block_range(patch, 1).0 + jb as i64, cut.block_range(patch, 2).0 + kb as i64);
                let wanted = if colour_count(&self.call.data.blocks.stencil) == 2 {
                    colour as i64 - j - k
                } else if (j & 1) * 2 + (k & 1) * 4 == (colour & 6) as i64 {
                    colour as i64
                } else {
                    return;
                };
                (((wanted - first) & 1) as usize, 2)
            }
        };
        let (y, z) = (cut.segment(patch, 1, jb), cut.segment(patch, 2, kb));
        let (bx, most) = (cut.block[0], if parameters.in_order { 1 } else { 8 / cut.block[0] });
        let tasks = count.saturating_sub(start).div_ceil(step * most).max(1);
        let prefetch = self.prefetch_of(parameters, p, row, tasks, y.len);
        let (mut m, mut task) = (start, 0);
        while m < count {
            let at = if parameters.reverse && parameters.in_order { count - 1 - m } else { m };
            let x = cut.segment(patch, 0, at);
            let mut together = 1;
            // Only the first and the last block of a row can be truncated.
            if x.len == bx {
                while together < most
                    && m + together * step < count
                    && cut.segment(patch, 0, m + together * step).len == bx
                {
                    together += 1;
                }
            }
            // SAFETY: the caller guarantees exclusive access to the blocks of this row.
            unsafe { self.relax_blocks(parameters, p, [x, y, z], together, step * bx, prefetch.of_task(task, y.len)) };
            m += together * step;
            task += 1;
        }
    }

    /// Returns the cells of the next row of blocks that are prefetched while row `row` is relaxed;
    /// `parameters.prefetch` selects them. The cells are divided among the `tasks` tasks of this row. A task has
    /// `task_rows` rows per plane.
    pub fn prefetch_of(
        &self,
        parameters: RowParameters,
        p: usize,
        row: usize,
        tasks: usize,
        task_rows: usize,
    ) -> Prefetch {
        let (row, half, halves) = match parameters.prefetch {
            PrefetchSelection::Nothing => return Prefetch::NOTHING,
            PrefetchSelection::Next => (row, 0, 1),
            PrefetchSelection::FirstHalf => (row, 0, 2),
            PrefetchSelection::SecondHalf(row) => (row, 1, 2),
        };
        let (all, in_slab) = row_counts(parameters.cut, &self.patches()[p]);
        let (p, jb, kb) = if row + 1 < all { (p, (row + 1) % in_slab, (row + 1) / in_slab) } else { (p + 1, 0, 0) };
        let Some(patch) = self.patches().get(p) else { return Prefetch::NOTHING };
        let (y, z) = (parameters.cut.segment(patch, 1, jb), parameters.cut.segment(patch, 2, kb));
        let (u_row, u_plane) = patch.strides();
        let (f_row, f_plane) = (patch.size[0], patch.size[0] * patch.size[1]);
        let parts = halves * tasks * task_rows;
        let of = |first: *const f64, plane: usize, cells: usize| ArrayPrefetch {
            first,
            plane,
            cells_per_row: cells.div_ceil(parts),
        };
        // Rows of u are prefetched whole. At the edge of the patch, the adjacent row of ghost cells is included.
        let before = usize::from(y.start == 0);
        let u_rows = y.len + before + usize::from(y.start + y.len == patch.size[1]);
        let u_index = (z.start + 1) * u_plane + (y.start + 1 - before) * u_row;
        let u = of(parameters.from[p].wrapping_add(u_index).cast_const(), u_plane, u_rows * u_row);
        let f = of(self.call.arrays.f[p].wrapping_add(z.start * f_plane + y.start * f_row), f_plane, y.len * f_row);
        let out = ArrayPrefetch {
            first: parameters.to[p].wrapping_add(u_index),
            cells_per_row: if parameters.to[p] == parameters.from[p] { 0 } else { u.cells_per_row },
            ..u
        };
        let prefetch = Prefetch { arrays: [u, f, out] };
        prefetch.of_task(half * tasks, task_rows)
    }

    /// Relaxes `blocks` blocks of one shape in a row, `pitch` cells apart. `segments` are the intervals of the first
    /// block. Blocks with a dense inverse are collected in batches.
    ///
    /// # Safety
    /// The conditions of `relax_row` hold for these blocks.
    pub unsafe fn relax_blocks(
        &mut self,
        parameters: RowParameters,
        p: usize,
        segments: [Segment; 3],
        blocks: usize,
        pitch: usize,
        prefetch: Prefetch,
    ) {
        let patch = &self.patches()[p];
        let shape = segments.map(|s| s.len);
        let Some(block_inverse) = &self.call.block_inverses[shape_index(shape)] else { return };
        let strides = patch.strides();
        let f_strides = (patch.size[0], patch.size[0] * patch.size[1]);
        let start = segments.map(|s| s.start);
        let u_index = (start[2] + 1) * strides.1 + (start[1] + 1) * strides.0 + start[0] + 1;
        let f_index = start[2] * f_strides.1 + start[1] * f_strides.0 + start[0];
        let operator = &self.call.data.operator;
        // SAFETY: the block is in the patch, so the block and the layer around it are in the arrays.
        let mut task = unsafe {
            Task {
                u: parameters.from[p].add(u_index),
                out: parameters.to[p].add(u_index),
                f: self.call.arrays.f[p].add(f_index),
                strides,
                f_strides,
                blocks,
                pitch,
                omega: parameters.omega,
                prefetch: Prefetch::NOTHING,
            }
        };
        if !block_inverse.is_dense() {
            task.prefetch = prefetch;
            // SAFETY: the cells are in the arrays, and the caller guarantees exclusive access.
            unsafe { relax(&task, block_inverse, operator) };
            return;
        }
        task.blocks = 1;
        for _ in 0..blocks {
            if self.batch.count == BATCH_BLOCKS || self.batch.shape != shape {
                self.flush();
            }
            self.batch.shape = shape;
            self.batch.one_by_one = parameters.in_order;
            self.batch.tasks[self.batch.count] = task;
            self.batch.count += 1;
            // The next block of the row; after the last block, the pointers are not used.
            task.u = task.u.wrapping_add(pitch);
            task.out = task.out.wrapping_add(pitch);
            task.f = task.f.wrapping_add(pitch);
        }
        if parameters.in_order {
            self.flush();
        }
    }

    /// Relaxes the blocks of the batch.
    pub fn flush(&mut self) {
        let count = std::mem::replace(&mut self.batch.count, 0);
        if count == 0 {
            return;
        }
        let Some(block_inverse) = &self.call.block_inverses[shape_index(self.batch.shape)] else { return };
        // SAFETY: each thread uses only the scratch array with its own index.
        let scratch = unsafe { self.call.data.scratch[self.me.index].slice_mut(0, SCRATCH_VALUES) };
        // SAFETY: `relax_blocks` added these tasks under the conditions of `relax_dense`. The conditions hold until the
        // thread's next barrier, and every step calls `flush` before a barrier.
        unsafe {
            relax_dense(
                &self.batch.tasks[..count],
                block_inverse,
                &self.call.data.operator,
                scratch,
                self.batch.one_by_one,
            )
        };
    }

    /// Returns the colours of the first and the second stage of a fused sweep.
    pub fn stages(&self, reverse: bool) -> [std::ops::Range<usize>; 2] {
        let n = self.colour_count();
        let halves = [0..n / 2, n / 2..n];
        if reverse { [halves[1].clone(), halves[0].clone()] } else { halves }
    }

    /// Relaxes those blocks of a slab whose colours belong to one stage, colour by colour.
    ///
    /// # Safety
    /// The conditions of `relax_row` hold for all rows of the slab.
    pub unsafe fn relax_slab(
        &mut self,
        parameters: RowParameters,
        p: usize,
        kb: usize,
        stage: std::ops::Range<usize>,
        reverse: bool,
    ) {
        let in_slab = row_counts(parameters.cut, &self.patches()[p]).1;
        let last = stage.end - 1 + stage.start;
        for c in stage {
            let colour = if reverse { last - c } else { c };
            for jb in 0..in_slab {
                // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of the slab.
                unsafe { self.relax_row(parameters, p, kb * in_slab + jb, BlockSelection::Colour(colour)) };
            }
            self.flush();
        }
    }

    /// Copies to the buffer for the next sweep the values of a row of blocks that other patches need. Does nothing
    /// after the last sweep of a call, or if ghost cells are not exchanged within the sweeps.
    ///
    /// # Safety
    /// This thread owns the row, and no thread writes the row before the next barrier.
    pub unsafe fn store_for_next_sweep(&self, cut: &Cut, p: usize, row: usize) {
        let next = self.sweeps + 1;
        if let Some(ghost_buffers) = self.call.ghost_buffers.filter(|_| next < self.call.work.sweeps) {
            // SAFETY: the caller owns the row; in this sweep, ghost cells are filled from the other buffer.
            unsafe {
                ghost_buffers.copy_row(
                    &self.call.data.blocks.list,
                    cut,
                    (p, row),
                    next % 2,
                    self.current_arrays()[p],
                    Direction::Out,
                )
            };
        }
    }

    /// Fills the ghost cells that a row of blocks reads, if ghost cells are exchanged within the sweeps.
    ///
    /// # Safety
    /// No other thread accesses these ghost cells during the call.
    pub unsafe fn load_ghosts(&self, cut: &Cut, p: usize, row: usize) {
        if let Some(ghost_buffers) = self.call.ghost_buffers {
            let u = self.current_arrays()[p];
            // SAFETY: the caller guarantees exclusive access; values for the next sweep are written to the other
            // buffer.
            unsafe {
                ghost_buffers.copy_row(&self.call.data.blocks.list, cut, (p, row), self.sweeps % 2, u, Direction::In)
            };
        }
    }

    /// Relaxes the given slabs of one patch: the first stage in all slabs, the second stage one slab behind and only in
    /// the slabs `inner`.
    ///
    /// # Safety
    /// The conditions of `relax_row` hold for all rows of these slabs.
    pub unsafe fn relax_slabs_fused(
        &mut self,
        parameters: RowParameters,
        p: usize,
        slabs: std::ops::Range<usize>,
        inner: std::ops::Range<usize>,
        reverse: bool,
    ) {
        let [one, two] = self.stages(reverse);
        let behind_parameters = RowParameters { prefetch: PrefetchSelection::Nothing, ..parameters };
        let in_slab = row_counts(parameters.cut, &self.patches()[p]).1;
        let by_rows = self.colour_count() == 2 && self.call.data.scratch.is_empty();
        for kb in slabs.start..=slabs.end {
            let behind = kb.checked_sub(1).filter(|k| inner.contains(k));
            if by_rows {
                for jb in 0..in_slab {
                    let row = kb * in_slab + jb;
                    let (parameters, behind_parameters) = match (slabs.contains(&kb), behind) {
                        (true, Some(_)) => {
                            let half = |prefetch| RowParameters { prefetch, ..parameters };
                            (half(PrefetchSelection::FirstHalf), half(PrefetchSelection::SecondHalf(row)))
                        }
                        _ => (parameters, behind_parameters),
                    };
                    if slabs.contains(&kb) {
                        // SAFETY: the caller owns the slabs, and other rows read other ghost cells.
                        unsafe { self.load_ghosts(parameters.cut, p, row) };
                        // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of these slabs.
                        unsafe { self.relax_row(parameters, p, row, BlockSelection::Colour(one.start)) };
                    }
                    if let Some(k) = behind {
                        // SAFETY: the caller guarantees the conditions of `relax_row`. The first colour is complete in
                        // the slabs kb - 2 and kb - 1, and in slab kb up to row jb. All neighbours of this row are
                        // therefore complete, and no later block of the first colour reads this row.
                        unsafe {
                            self.relax_row(behind_parameters, p, k * in_slab + jb, BlockSelection::Colour(two.start))
                        };
                        // SAFETY: this thread owns the row, and its values are final.
                        unsafe { self.store_for_next_sweep(parameters.cut, p, k * in_slab + jb) };
                    }
                }
                continue;
            }
            if slabs.contains(&kb) {
                // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of slab kb.
                unsafe { self.relax_slab(parameters, p, kb, one.clone(), reverse) };
            }
            if let Some(k) = behind {
                // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of slab k.
                unsafe { self.relax_slab(behind_parameters, p, k, two.clone(), reverse) };
            }
        }
    }
}

/// Cells per side of the largest block, 8, and of the layer around it.
const PADDED_SIDE: usize = 10;

impl CallThread<'_, '_> {
    /// Relaxes the blocks of a row one after the other while other threads read and write the surrounding cells. Only
    /// this thread writes the block's own cells, so they are read by plain loads. The layer around the block is read by
    /// relaxed atomic loads, and the new values are written by relaxed atomic stores. There is therefore no data race.
    pub fn relax_row_asynchronously(&mut self, parameters: RowParameters, p: usize, row: usize) {
        let patch = &self.patches()[p];
        let (_, in_slab) = row_counts(parameters.cut, patch);
        let (y, z) = (parameters.cut.segment(patch, 1, row % in_slab), parameters.cut.segment(patch, 2, row / in_slab));
        let count = parameters.cut.block_range(patch, 0).1;
        let (u_row, u_plane) = patch.strides();
        let f_strides = (patch.size[0], patch.size[0] * patch.size[1]);
        // Copy of the block and the values around it, which were read atomically; the kernel works on this copy.
        let mut copy = [0.0f64; PADDED_SIDE * PADDED_SIDE * PADDED_SIDE];
        let faces_only = self.call.data.operator.negated_seven.is_some();
        let prefetch = self.prefetch_of(parameters, p, row, count, y.len);
        for m in 0..count {
            let x = parameters.cut.segment(patch, 0, if parameters.reverse { count - 1 - m } else { m });
            let shape = [x.len, y.len, z.len];
            let Some(block_inverse) = &self.call.block_inverses[shape_index(shape)] else { return };
            let corner = z.start * u_plane + y.start * u_row + x.start;
            // SAFETY: the cell at (i, j, k), counted from the block's corner in the surrounding layer, is in the array.
            let cell =
                |i: usize, j: usize, k: usize| unsafe { parameters.from[p].add(corner + k * u_plane + j * u_row + i) };
            let load = |i: usize, j: usize, k: usize| {
                // SAFETY: the pointer is aligned, and all concurrent accesses to the value are atomic.
                let bits = unsafe { AtomicU64::from_ptr(cell(i, j, k).cast()) }.load(Ordering::Relaxed);
                f64::from_bits(bits)
            };
            for k in 0..z.len + 2 {
                for j in 0..y.len + 2 {
                    let outside = [(k, z.len), (j, y.len)].map(|(at, len)| at == 0 || at > len);
                    let copy = &mut copy[(k * PADDED_SIDE + j) * PADDED_SIDE..][..x.len + 2];
                    if outside == [false; 2] {
                        // SAFETY: these cells belong to this block, which no other thread writes.
                        let own = unsafe { std::slice::from_raw_parts(cell(1, j, k).cast_const(), x.len) };
                        copy[1..=x.len].copy_from_slice(own);
                        copy[0] = load(0, j, k);
                        copy[x.len + 1] = load(x.len + 1, j, k);
                    } else if !faces_only || outside != [true; 2] {
                        for (i, value) in copy.iter_mut().enumerate() {
                            *value = load(i, j, k);
                        }
                    }
                }
            }
            let inner = PADDED_SIDE * PADDED_SIDE + PADDED_SIDE + 1;
            let out = copy[inner..].as_mut_ptr();
            let task = Task {
                u: out,
                out,
                // SAFETY: the first cell of the block is in f.
                f: unsafe { self.call.arrays.f[p].add(z.start * f_strides.1 + y.start * f_strides.0 + x.start) },
                strides: (PADDED_SIDE, PADDED_SIDE * PADDED_SIDE),
                f_strides,
                blocks: 1,
                pitch: x.len,
                omega: parameters.omega,
                prefetch: prefetch.of_task(m, y.len),
            };
            if block_inverse.is_dense() {
                // SAFETY: each thread uses only the scratch array with its own index.
                let scratch = unsafe { self.call.data.scratch[self.me.index].slice_mut(0, SCRATCH_VALUES) };
                // SAFETY: `copy` contains the block and the layer around it.
                unsafe { relax_dense(&[task], block_inverse, &self.call.data.operator, scratch, true) };
            } else {
                // SAFETY: `copy` contains the block and the layer around it.
                unsafe { relax(&task, block_inverse, &self.call.data.operator) };
            }
            for k in 1..=z.len {
                for j in 1..=y.len {
                    for i in 1..=x.len {
                        let bits = copy[(k * PADDED_SIDE + j) * PADDED_SIDE + i].to_bits();
                        // SAFETY: the pointer is aligned, and all concurrent accesses to the value are atomic.
                        unsafe { AtomicU64::from_ptr(cell(i, j, k).cast()) }.store(bits, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}
