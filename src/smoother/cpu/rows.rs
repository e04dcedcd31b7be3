//! Relaxation of rows of blocks: all blocks or one colour of a row, both stages of a fused sweep, and a row of the
//! chaotic method. In the chaotic method, other threads read and write the surrounding cells at the same time.

use super::exchange::Direction;
use super::kernels::{ArrayPrefetch, BATCH_BLOCKS, Prefetch, SCRATCH_VALUES, Task, shape_index};
use super::relax::{relax, relax_dense};
use crate::smoother::cpu::thread::{CallThread, row_counts};
use crate::smoother::patches::{BlockPartition, Segment};
use crate::smoother::steps::{SmootherSteps, colour_count};
use std::sync::atomic::{AtomicU64, Ordering};

/// Selects the blocks of a row of blocks.
#[derive(Clone, Copy)]
pub enum BlockSelection {
    AllBlocks,
    OneColour(usize),
}

/// Arrays and parameters for the relaxation of a row of blocks. `source` and `target` are the arrays that are read and
/// written, one per patch.
#[derive(Clone, Copy)]
pub struct RowParameters<'a> {
    pub source: &'a [*mut f64],
    pub target: &'a [*mut f64],
    pub partition: &'a BlockPartition,
    pub omega: f64,
    /// Whether each block reads the new values of the previous blocks in the row.
    pub is_sequential: bool,
    /// Whether the last block of the row comes first; used only with `is_sequential`.
    pub reverse: bool,
    /// Cells to prefetch during the relaxation.
    pub prefetch: PrefetchSelection,
}

/// Cells to prefetch while a row of blocks is relaxed. In a fused sweep, rows of the first and of the second stage
/// alternate. Only the rows of the first stage are not yet in the cache. Each of two successive rows therefore
/// prefetches half of the next row of the first stage.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PrefetchSelection {
    Nothing,
    NextRow,
    NextRowFirstHalf,
    /// Prefetches the second half of the row that follows the row with this number.
    NextRowSecondHalf(usize),
}

impl CallThread<'_, '_> {
    /// Relaxes the selected blocks of one row of blocks.
    ///
    /// # Safety
    /// While this function runs, no other thread accesses cells of these blocks in `target`, and no other thread
    /// writes, in `source`, cells of these blocks or of the layer around them. Blocks with dense inverses may wait in
    /// the batch; the condition must then hold until `flush_batch` returns. Between two calls of `flush_batch`, no
    /// block reads cells that another block writes: they have the same colour, or `target` differs from `source`, or
    /// `is_sequential` is set.
    pub unsafe fn relax_row(
        &mut self,
        parameters: RowParameters,
        patch_index: usize,
        row: usize,
        selection: BlockSelection,
    ) {
        let patch = &self.patches()[patch_index];
        let partition = parameters.partition;
        let (_, rows_per_slab) = row_counts(partition, patch);
        let (jb, kb) = (row % rows_per_slab, row / rows_per_slab);
        let (first_block, row_blocks) = partition.block_range(patch, 0);
        let (first_selected, block_step) = match selection {
            BlockSelection::AllBlocks => (0, 1),
            BlockSelection::OneColour(colour) => {
                let (j, k) =
                    (partition.block_range(patch, 1).0 + jb as i64, partition.block_range(patch, 2).0 + kb as i64);
                let parity = if colour_count(&self.call.data.patch_system.stencil) == 2 {
                    colour as i64 - j - k
                } else if (j & 1) * 2 + (k & 1) * 4 == (colour & 6) as i64 {
                    colour as i64
                } else {
                    return;
                };
                (((parity - first_block) & 1) as usize, 2)
            }
        };
        let (y_segment, z_segment) = (partition.segment(patch, 1, jb), partition.segment(patch, 2, kb));
        let (bx, max_blocks) = (partition.block[0], if parameters.is_sequential { 1 } else { 8 / partition.block[0] });
        let task_count = row_blocks.saturating_sub(first_selected).div_ceil(block_step * max_blocks).max(1);
        let prefetch = self.select_prefetch(parameters, patch_index, row, task_count, y_segment.len);
        let (mut position, mut task) = (first_selected, 0);
        while position < row_blocks {
            let block =
                if parameters.reverse && parameters.is_sequential { row_blocks - 1 - position } else { position };
            let x_segment = partition.segment(patch, 0, block);
            let mut block_count = 1;
            // Only the first and the last block of a row can be truncated.
            if x_segment.len == bx {
                while block_count < max_blocks
                    && position + block_count * block_step < row_blocks
                    && partition.segment(patch, 0, position + block_count * block_step).len == bx
                {
                    block_count += 1;
                }
            }
            // SAFETY: the caller guarantees exclusive access to the blocks of this row.
            unsafe {
                self.relax_blocks(
                    parameters,
                    patch_index,
                    [x_segment, y_segment, z_segment],
                    block_count,
                    block_step * bx,
                    prefetch.of_task(task, y_segment.len),
                )
            };
            position += block_count * block_step;
            task += 1;
        }
    }

    /// Returns the cells of the next row of blocks that are prefetched while row `row` is relaxed;
    /// `parameters.prefetch` selects them. The cells are divided among the `task_count` tasks of this row. A task has
    /// `task_rows` rows of cells per plane.
    pub fn select_prefetch(
        &self,
        parameters: RowParameters,
        patch_index: usize,
        row: usize,
        task_count: usize,
        task_rows: usize,
    ) -> Prefetch {
        let (row, half_index, half_count) = match parameters.prefetch {
            PrefetchSelection::Nothing => return Prefetch::NOTHING,
            PrefetchSelection::NextRow => (row, 0, 1),
            PrefetchSelection::NextRowFirstHalf => (row, 0, 2),
            PrefetchSelection::NextRowSecondHalf(row) => (row, 1, 2),
        };
        let (row_count, rows_per_slab) = row_counts(parameters.partition, &self.patches()[patch_index]);
        let (patch_index, jb, kb) = if row + 1 < row_count {
            (patch_index, (row + 1) % rows_per_slab, (row + 1) / rows_per_slab)
        } else {
            (patch_index + 1, 0, 0)
        };
        let Some(patch) = self.patches().get(patch_index) else { return Prefetch::NOTHING };
        let (y_segment, z_segment) =
            (parameters.partition.segment(patch, 1, jb), parameters.partition.segment(patch, 2, kb));
        let (u_row, u_plane) = patch.strides();
        let (f_row, f_plane) = (patch.size[0], patch.size[0] * patch.size[1]);
        let part_count = half_count * task_count * task_rows;
        let array_prefetch = |first_cell: *const f64, plane_stride: usize, cell_count: usize| ArrayPrefetch {
            first_cell,
            plane_stride,
            cells_per_row: cell_count.div_ceil(part_count),
        };
        // Rows of u are prefetched whole. At the edge of the patch, the adjacent row of ghost cells is included.
        let ghost_rows_before = usize::from(y_segment.start == 0);
        let u_rows = y_segment.len + ghost_rows_before + usize::from(y_segment.start + y_segment.len == patch.size[1]);
        let u_index = (z_segment.start + 1) * u_plane + (y_segment.start + 1 - ghost_rows_before) * u_row;
        let u =
            array_prefetch(parameters.source[patch_index].wrapping_add(u_index).cast_const(), u_plane, u_rows * u_row);
        let f = array_prefetch(
            self.call.arrays.f[patch_index].wrapping_add(z_segment.start * f_plane + y_segment.start * f_row),
            f_plane,
            y_segment.len * f_row,
        );
        let out = ArrayPrefetch {
            first_cell: parameters.target[patch_index].wrapping_add(u_index),
            cells_per_row: if parameters.target[patch_index] == parameters.source[patch_index] {
                0
            } else {
                u.cells_per_row
            },
            ..u
        };
        let prefetch = Prefetch { arrays: [u, f, out] };
        prefetch.of_task(half_index * task_count, task_rows)
    }

    /// Relaxes `block_count` blocks of one shape in a row of blocks. The first cells of successive blocks are `pitch`
    /// cells apart. `segments` are the intervals of the first block. Blocks with a dense inverse are collected in
    /// batches.
    ///
    /// # Safety
    /// The conditions of `relax_row` hold for these blocks.
    pub unsafe fn relax_blocks(
        &mut self,
        parameters: RowParameters,
        patch_index: usize,
        segments: [Segment; 3],
        block_count: usize,
        pitch: usize,
        prefetch: Prefetch,
    ) {
        let patch = &self.patches()[patch_index];
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
                u: parameters.source[patch_index].add(u_index),
                out: parameters.target[patch_index].add(u_index),
                f: self.call.arrays.f[patch_index].add(f_index),
                strides,
                f_strides,
                block_count,
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
        task.block_count = 1;
        for _ in 0..block_count {
            if self.batch.count == BATCH_BLOCKS || self.batch.shape != shape {
                self.flush_batch();
            }
            self.batch.shape = shape;
            self.batch.is_sequential = parameters.is_sequential;
            self.batch.tasks[self.batch.count] = task;
            self.batch.count += 1;
            // The next block of the row; after the last block, the pointers are not used.
            task.u = task.u.wrapping_add(pitch);
            task.out = task.out.wrapping_add(pitch);
            task.f = task.f.wrapping_add(pitch);
        }
        if parameters.is_sequential {
            self.flush_batch();
        }
    }

    /// Relaxes the blocks of the batch.
    pub fn flush_batch(&mut self) {
        let task_count = std::mem::replace(&mut self.batch.count, 0);
        if task_count == 0 {
            return;
        }
        let Some(block_inverse) = &self.call.block_inverses[shape_index(self.batch.shape)] else { return };
        // SAFETY: each thread uses only the scratch array with its own index.
        let scratch = unsafe { self.call.data.scratch[self.thread.index].slice_mut(0, SCRATCH_VALUES) };
        // SAFETY: `relax_blocks` added these tasks under the conditions of `relax_dense`. The conditions hold until the
        // thread's next barrier, and every step calls `flush_batch` before a barrier.
        unsafe {
            relax_dense(
                &self.batch.tasks[..task_count],
                block_inverse,
                &self.call.data.operator,
                scratch,
                self.batch.is_sequential,
            )
        };
    }

    /// Returns the colours of the first and the second stage of a fused sweep.
    pub fn stage_colours(&self, reverse: bool) -> [std::ops::Range<usize>; 2] {
        let colours = self.colour_count();
        let colour_halves = [0..colours / 2, colours / 2..colours];
        if reverse { [colour_halves[1].clone(), colour_halves[0].clone()] } else { colour_halves }
    }

    /// Relaxes those blocks of a slab whose colours belong to one stage, colour by colour.
    ///
    /// # Safety
    /// The conditions of `relax_row` hold for all rows of the slab.
    pub unsafe fn relax_slab(
        &mut self,
        parameters: RowParameters,
        patch_index: usize,
        kb: usize,
        stage: std::ops::Range<usize>,
        reverse: bool,
    ) {
        let rows_per_slab = row_counts(parameters.partition, &self.patches()[patch_index]).1;
        let colour_sum = stage.end - 1 + stage.start;
        for c in stage {
            let colour = if reverse { colour_sum - c } else { c };
            for jb in 0..rows_per_slab {
                // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of the slab.
                unsafe {
                    self.relax_row(parameters, patch_index, kb * rows_per_slab + jb, BlockSelection::OneColour(colour))
                };
            }
            self.flush_batch();
        }
    }

    /// Copies values of a row of blocks into the buffer for the next sweep: the values that other patches need. Does
    /// nothing after the last sweep of a call, or if ghost cells are not exchanged within the sweeps.
    ///
    /// # Safety
    /// This thread owns the row, and no thread writes the row before the next barrier.
    pub unsafe fn store_for_next_sweep(&self, partition: &BlockPartition, patch_index: usize, row: usize) {
        let next_sweep = self.completed_sweeps + 1;
        if let Some(ghost_buffers) = self.call.ghost_buffers.filter(|_| next_sweep < self.call.parameters.sweeps) {
            // SAFETY: the caller owns the row; in this sweep, ghost cells are filled from the other buffer.
            unsafe {
                ghost_buffers.copy_row(
                    &self.call.data.patch_system.patch_list,
                    partition,
                    (patch_index, row),
                    next_sweep % 2,
                    self.current_arrays()[patch_index],
                    Direction::ToBuffer,
                )
            };
        }
    }

    /// Fills the ghost cells that a row of blocks reads, if ghost cells are exchanged within the sweeps.
    ///
    /// # Safety
    /// No other thread accesses these ghost cells during the call.
    pub unsafe fn load_ghosts(&self, partition: &BlockPartition, patch_index: usize, row: usize) {
        if let Some(ghost_buffers) = self.call.ghost_buffers {
            let u = self.current_arrays()[patch_index];
            // SAFETY: the caller guarantees exclusive access; values for the next sweep are written to the other
            // buffer.
            unsafe {
                ghost_buffers.copy_row(
                    &self.call.data.patch_system.patch_list,
                    partition,
                    (patch_index, row),
                    self.completed_sweeps % 2,
                    u,
                    Direction::FromBuffer,
                )
            };
        }
    }

    /// Relaxes the given slabs of one patch: the first stage in all slabs, the second stage one slab behind and only in
    /// the slabs `inner_slabs`.
    ///
    /// # Safety
    /// The conditions of `relax_row` hold for all rows of these slabs.
    pub unsafe fn relax_slabs_fused(
        &mut self,
        parameters: RowParameters,
        patch_index: usize,
        slabs: std::ops::Range<usize>,
        inner_slabs: std::ops::Range<usize>,
        reverse: bool,
    ) {
        let [first_colours, second_colours] = self.stage_colours(reverse);
        let second_parameters = RowParameters { prefetch: PrefetchSelection::Nothing, ..parameters };
        let rows_per_slab = row_counts(parameters.partition, &self.patches()[patch_index]).1;
        let alternates_rows = self.colour_count() == 2 && self.call.data.scratch.is_empty();
        for kb in slabs.start..=slabs.end {
            let second_slab = kb.checked_sub(1).filter(|k| inner_slabs.contains(k));
            if alternates_rows {
                for jb in 0..rows_per_slab {
                    let row = kb * rows_per_slab + jb;
                    let (parameters, second_parameters) = match (slabs.contains(&kb), second_slab) {
                        (true, Some(_)) => {
                            let with_prefetch = |prefetch| RowParameters { prefetch, ..parameters };
                            (
                                with_prefetch(PrefetchSelection::NextRowFirstHalf),
                                with_prefetch(PrefetchSelection::NextRowSecondHalf(row)),
                            )
                        }
                        _ => (parameters, second_parameters),
                    };
                    if slabs.contains(&kb) {
                        // SAFETY: the caller owns the slabs, and other rows read other ghost cells.
                        unsafe { self.load_ghosts(parameters.partition, patch_index, row) };
                        // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of these slabs.
                        unsafe {
                            self.relax_row(parameters, patch_index, row, BlockSelection::OneColour(first_colours.start))
                        };
                    }
                    if let Some(k) = second_slab {
                        // SAFETY: the caller guarantees the conditions of `relax_row`. The first colour is complete in
                        // the slabs k - 1 and k, and in slab k + 1 up to row jb. All neighbours of row jb in slab k are
                        // therefore complete, and no later block of the first colour reads this row.
                        unsafe {
                            self.relax_row(
                                second_parameters,
                                patch_index,
                                k * rows_per_slab + jb,
                                BlockSelection::OneColour(second_colours.start),
                            )
                        };
                        // SAFETY: this thread owns the row, and its values are final.
                        unsafe { self.store_for_next_sweep(parameters.partition, patch_index, k * rows_per_slab + jb) };
                    }
                }
                continue;
            }
            if slabs.contains(&kb) {
                // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of slab kb.
                unsafe { self.relax_slab(parameters, patch_index, kb, first_colours.clone(), reverse) };
            }
            if let Some(k) = second_slab {
                // SAFETY: the caller guarantees the conditions of `relax_row` for all rows of slab k.
                unsafe { self.relax_slab(second_parameters, patch_index, k, second_colours.clone(), reverse) };
            }
        }
    }
}

/// Number of cells per side of the largest block with the layer around it: 8 + 2.
const PADDED_SIDE: usize = 10;

impl CallThread<'_, '_> {
    /// Relaxes the blocks of a row one after the other while other threads read and write the surrounding cells. Only
    /// this thread writes the block's own cells, so they are read by plain loads. The layer around the block is read by
    /// relaxed atomic loads, and the new values are written by relaxed atomic stores. There is therefore no data race.
    pub fn relax_row_asynchronously(&mut self, parameters: RowParameters, patch_index: usize, row: usize) {
        let patch = &self.patches()[patch_index];
        let (_, rows_per_slab) = row_counts(parameters.partition, patch);
        let (y_segment, z_segment) = (
            parameters.partition.segment(patch, 1, row % rows_per_slab),
            parameters.partition.segment(patch, 2, row / rows_per_slab),
        );
        let block_count = parameters.partition.block_range(patch, 0).1;
        let (u_row, u_plane) = patch.strides();
        let f_strides = (patch.size[0], patch.size[0] * patch.size[1]);
        // Copy of the block and of the layer around it. `relax` and `relax_dense` work on this copy.
        let mut padded_block = [0.0f64; PADDED_SIDE * PADDED_SIDE * PADDED_SIDE];
        let reads_faces_only = self.call.data.operator.negated_seven_entries.is_some();
        let prefetch = self.select_prefetch(parameters, patch_index, row, block_count, y_segment.len);
        for block in 0..block_count {
            let x_segment = parameters.partition.segment(
                patch,
                0,
                if parameters.reverse { block_count - 1 - block } else { block },
            );
            let shape = [x_segment.len, y_segment.len, z_segment.len];
            let Some(block_inverse) = &self.call.block_inverses[shape_index(shape)] else { return };
            let corner = z_segment.start * u_plane + y_segment.start * u_row + x_segment.start;
            // SAFETY: the cell at (i, j, k), counted from the block's corner in the surrounding layer, is in the array.
            let cell_pointer = |i: usize, j: usize, k: usize| unsafe {
                parameters.source[patch_index].add(corner + k * u_plane + j * u_row + i)
            };
            let load = |i: usize, j: usize, k: usize| {
                // SAFETY: the pointer is aligned, and all concurrent accesses to the value are atomic.
                let bits = unsafe { AtomicU64::from_ptr(cell_pointer(i, j, k).cast()) }.load(Ordering::Relaxed);
                f64::from_bits(bits)
            };
            for k in 0..z_segment.len + 2 {
                for j in 0..y_segment.len + 2 {
                    let is_outside =
                        [(k, z_segment.len), (j, y_segment.len)].map(|(index, len)| index == 0 || index > len);
                    let padded_block = &mut padded_block[(k * PADDED_SIDE + j) * PADDED_SIDE..][..x_segment.len + 2];
                    if is_outside == [false; 2] {
                        // SAFETY: these cells belong to this block, which no other thread writes.
                        let own_cells =
                            unsafe { std::slice::from_raw_parts(cell_pointer(1, j, k).cast_const(), x_segment.len) };
                        padded_block[1..=x_segment.len].copy_from_slice(own_cells);
                        padded_block[0] = load(0, j, k);
                        padded_block[x_segment.len + 1] = load(x_segment.len + 1, j, k);
                    } else if !reads_faces_only || is_outside != [true; 2] {
                        for (i, value) in padded_block.iter_mut().enumerate() {
                            *value = load(i, j, k);
                        }
                    }
                }
            }
            let first_cell = PADDED_SIDE * PADDED_SIDE + PADDED_SIDE + 1;
            let out = padded_block[first_cell..].as_mut_ptr();
            let task = Task {
                u: out,
                out,
                // SAFETY: the first cell of the block is in f.
                f: unsafe {
                    self.call.arrays.f[patch_index]
                        .add(z_segment.start * f_strides.1 + y_segment.start * f_strides.0 + x_segment.start)
                },
                strides: (PADDED_SIDE, PADDED_SIDE * PADDED_SIDE),
                f_strides,
                block_count: 1,
                pitch: x_segment.len,
                omega: parameters.omega,
                prefetch: prefetch.of_task(block, y_segment.len),
            };
            if block_inverse.is_dense() {
                // SAFETY: each thread uses only the scratch array with its own index.
                let scratch = unsafe { self.call.data.scratch[self.thread.index].slice_mut(0, SCRATCH_VALUES) };
                // SAFETY: `padded_block` contains the block and the layer around it.
                unsafe { relax_dense(&[task], block_inverse, &self.call.data.operator, scratch, true) };
            } else {
                // SAFETY: `padded_block` contains the block and the layer around it.
                unsafe { relax(&task, block_inverse, &self.call.data.operator) };
            }
            for k in 1..=z_segment.len {
                for j in 1..=y_segment.len {
                    for i in 1..=x_segment.len {
                        let bits = padded_block[(k * PADDED_SIDE + j) * PADDED_SIDE + i].to_bits();
                        // SAFETY: the pointer is aligned, and all concurrent accesses to the value are atomic.
                        unsafe { AtomicU64::from_ptr(cell_pointer(i, j, k).cast()) }.store(bits, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}
