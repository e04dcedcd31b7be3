//! Implementation of the smoother steps for one thread of the team.

use super::relax::compute_residual_row;
use super::rows::{BlockSelection, PrefetchSelection, RowParameters};
use crate::base::reduce as sums;
use crate::smoother::cpu::thread::{CallThread, Granularity, fused_granularity, row_counts};
use crate::smoother::patches::BlockPartition;
use crate::smoother::steps::{NonfiniteCell, SmootherSteps, WorkDivision, colour_count};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl SmootherSteps for CallThread<'_, '_> {
    fn find_nonfinite_cell(&mut self) -> Option<NonfiniteCell> {
        let slab_partition = BlockPartition::new([8; 3]);
        let arrays = &self.call.arrays;
        let mut first_found: Option<NonfiniteCell> = None;
        for (p, rows) in self.rows_of_part(&slab_partition, self.thread.index, Granularity::Slab) {
            let patch = &self.patches()[p];
            let [nx, ny, nz] = patch.size;
            let (row, plane) = patch.strides();
            let rows_per_slab = row_counts(&slab_partition, patch).1;
            let slab_start = |r: usize| {
                if r == row_counts(&slab_partition, patch).0 {
                    nz
                } else {
                    slab_partition.segment(patch, 2, r / rows_per_slab).start
                }
            };
            for k in slab_start(rows.start)..slab_start(rows.end) {
                for j in 0..ny {
                    // SAFETY: the row is in the arrays, and no thread writes before the barrier below.
                    let (u, f) = unsafe {
                        let u = arrays.u[p].add((k + 1) * plane + (j + 1) * row + 1);
                        let f = arrays.f[p].add((k * ny + j) * nx);
                        (std::slice::from_raw_parts(u.cast_const(), nx), std::slice::from_raw_parts(f, nx))
                    };
                    for (name, values) in [("u", u), ("f", f)] {
                        if is_finite_row(values) {
                            continue;
                        }
                        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                            replace_if_earlier(
                                &mut first_found,
                                NonfiniteCell { name, value: values[i], patch: p, cell: [i, j, k] },
                            );
                        }
                    }
                }
            }
        }
        let lock = || self.call.data.nonfinite_cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(nonfinite_cell) = first_found {
            replace_if_earlier(&mut lock(), nonfinite_cell);
        }
        self.thread.barrier();
        *lock()
    }

    fn exchange_ghosts(&mut self) {
        let patch_list = &self.call.data.patch_system.patch_list;
        if patch_list.ghost_copies.is_empty() {
            return;
        }
        let u = self.current_arrays();
        if let Some(ghost_buffers) = self.call.ghost_buffers {
            // Each sweep fills its ghost cells from a buffer. The buffer for the first sweep is written here. The
            // buffer for every later sweep is written by the sweep before it.
            if self.completed_sweeps == 0 {
                for p in self.thread.share(patch_list.patches.len()) {
                    // SAFETY: no thread writes u at this point, and each patch is copied to the buffer by one thread.
                    unsafe { ghost_buffers.store_patch(patch_list, p, 0, u[p]) };
                }
                self.thread.barrier();
            }
            return;
        }
        for copy in &patch_list.ghost_copies[self.thread.share(patch_list.ghost_copies.len())] {
            let (source, target) = (&patch_list.patches[copy.source_patch], &patch_list.patches[copy.target_patch]);
            let [x, y, z] = copy.cell_box.lower;
            for k in 0..copy.cell_box.size[2] as i64 {
                for j in 0..copy.cell_box.size[1] as i64 {
                    let cell = [x, y + j, z + k];
                    // SAFETY: the cells are in patch `copy.source_patch` and in the ghost layer of patch
                    // `copy.target_patch`. Each ghost cell is written by one copy, and no cell that is read is written.
                    unsafe {
                        let source_cells = u[copy.source_patch].add(source.index_of(cell)).cast_const();
                        std::ptr::copy_nonoverlapping(
                            source_cells,
                            u[copy.target_patch].add(target.index_of(cell)),
                            copy.cell_box.size[0],
                        );
                    }
                }
            }
        }
        self.thread.barrier();
    }

    fn fill_ghosts(&mut self, sweep: i32) -> bool {
        if !self.call.has_ghost_fill {
            return false;
        }
        let u = self.current_arrays();
        self.call_on_first_thread(|callbacks| callbacks.fill_ghosts(sweep, u))
    }

    fn colour_count(&self) -> usize {
        colour_count(&self.call.data.patch_system.stencil)
    }

    fn sweep_jacobi(&mut self, partition: &BlockPartition, omega: f64) {
        let (source, target) = if self.uses_second_array {
            (self.call.second_array, self.call.arrays.u)
        } else {
            (self.call.arrays.u, self.call.second_array)
        };
        for p in self.thread.share(self.patches().len()) {
            self.copy_ghosts(p, source[p], target[p]);
        }
        let parameters = RowParameters {
            source,
            target,
            partition,
            omega,
            is_sequential: false,
            reverse: false,
            prefetch: PrefetchSelection::NextRow,
        };
        // SAFETY: blocks are read from one array and written to the other, and each row is relaxed by one thread.
        self.for_each_own_row(partition, |call_thread, p, row| unsafe {
            call_thread.relax_row(parameters, p, row, BlockSelection::AllBlocks)
        });
        self.uses_second_array = !self.uses_second_array;
    }

    fn relax_colour(&mut self, partition: &BlockPartition, omega: f64, colour: usize) {
        let u = self.current_arrays();
        let parameters = RowParameters {
            source: u,
            target: u,
            partition,
            omega,
            is_sequential: false,
            reverse: false,
            prefetch: PrefetchSelection::NextRow,
        };
        // SAFETY: blocks of one colour are not adjacent, and each row is relaxed by one thread.
        self.for_each_own_row(partition, |call_thread, p, row| unsafe {
            call_thread.relax_row(parameters, p, row, BlockSelection::OneColour(colour))
        });
    }

    fn relax_all_colours(&mut self, partition: &BlockPartition, omega: f64, reverse: bool) {
        let thread = self.thread;
        let Some(granularity) =
            fused_granularity(self.patches(), partition, self.call.parameters.division, thread.threads)
        else {
            for c in 0..self.colour_count() {
                self.relax_colour(partition, omega, if reverse { self.colour_count() - 1 - c } else { c });
            }
            return;
        };
        let parameters = {
            let u = self.current_arrays();
            RowParameters {
                source: u,
                target: u,
                partition,
                omega,
                is_sequential: false,
                reverse: false,
                prefetch: PrefetchSelection::NextRow,
            }
        };
        for at_seams in [false, true] {
            // Cores differ in speed. A thread that has finished its part of the work list therefore relaxes patches in
            // the parts of other threads: whole patches that no thread has started. The thread begins with the last
            // patch of each part.
            let owner_count = if at_seams || granularity == Granularity::Patch { 1 } else { thread.threads };
            for owner_offset in 0..owner_count {
                let owner = (thread.index + owner_offset) % thread.threads;
                // A part is skipped if a thread has already found that all whole patches of this part are claimed.
                // Without this test, each thread would scan thousands of patches.
                let all_claimed_in_sweep = &self.call.data.all_claimed_in_sweep[owner];
                if owner_offset > 0 && all_claimed_in_sweep.load(Ordering::Relaxed) == self.sweep_number() {
                    continue;
                }
                let begin = self.part_start(partition, owner, thread.threads, granularity);
                let end = self.part_start(partition, owner + 1, thread.threads, granularity);
                let patches = begin.patch..self.patches().len().min(end.patch + 1);
                for step in 0..patches.len() {
                    let p = if owner_offset == 0 { patches.start + step } else { patches.end - 1 - step };
                    let (row_count, rows_per_slab) = row_counts(partition, &self.patches()[p]);
                    let slab_count = row_count / rows_per_slab;
                    let first_slab = if p == begin.patch { begin.row / rows_per_slab } else { 0 };
                    let end_slab = if p == end.patch { end.row / rows_per_slab } else { slab_count };
                    let is_whole_patch = first_slab == 0 && end_slab == slab_count;
                    if first_slab >= end_slab
                        || (!is_whole_patch && owner_offset > 0)
                        || (is_whole_patch && (at_seams || !self.claim_patch(p)))
                    {
                        continue;
                    }
                    // The second stage in a slab next to another thread's slab requires that the first stage of that
                    // thread is complete. The first pass of the loop over `at_seams` therefore omits the second stage
                    // in these slabs, and the second pass executes it.
                    let inner_start = first_slab + usize::from(first_slab > 0);
                    let inner_end = end_slab - usize::from(end_slab < slab_count);
                    if !at_seams {
                        // SAFETY: no other thread writes cells of these slabs or of the adjacent slabs that are read
                        // here. A whole patch is claimed by one thread. In a patch that several threads share, slabs
                        // next to another thread's slabs are relaxed only with the first stage before the barrier. The
                        // first stages of different threads are independent.
                        unsafe {
                            self.relax_slabs_fused(parameters, p, first_slab..end_slab, inner_start..inner_end, reverse)
                        };
                        continue;
                    }
                    let [_, second_colours] = self.stage_colours(reverse);
                    for kb in (first_slab..end_slab).filter(|kb| !(inner_start..inner_end).contains(kb)) {
                        // SAFETY: all first stages are complete, and blocks of second stages in different parts are not
                        // adjacent.
                        unsafe { self.relax_slab(parameters, p, kb, second_colours.clone(), reverse) };
                        for jb in 0..rows_per_slab {
                            // SAFETY: this thread owns the row, and its values are final.
                            unsafe { self.store_for_next_sweep(partition, p, kb * rows_per_slab + jb) };
                        }
                    }
                }
                if !at_seams {
                    all_claimed_in_sweep.store(self.sweep_number(), Ordering::Relaxed);
                }
            }
            thread.barrier();
        }
        self.completed_sweeps += 1;
    }

    fn sweep_chaotic(&mut self, partition: &BlockPartition, omega: f64, reverse: bool) {
        let u = self.current_arrays();
        let parameters = RowParameters {
            source: u,
            target: u,
            partition,
            omega,
            is_sequential: true,
            reverse,
            prefetch: if reverse { PrefetchSelection::Nothing } else { PrefetchSelection::NextRow },
        };
        if self.call.parameters.division == WorkDivision::WholePatches {
            for (p, rows) in self.rows_of_part(partition, self.thread.index, Granularity::Patch) {
                let row_count = rows.end;
                for row in rows {
                    // SAFETY: with `parallel=patch`, this thread owns the whole patch.
                    unsafe {
                        self.relax_row(
                            parameters,
                            p,
                            if reverse { row_count - 1 - row } else { row },
                            BlockSelection::AllBlocks,
                        )
                    };
                }
            }
            self.thread.barrier();
            return;
        }
        self.for_each_own_row(partition, |call_thread, p, row| {
            let row_count = row_counts(partition, &call_thread.patches()[p]).0;
            call_thread.relax_row_asynchronously(parameters, p, if reverse { row_count - 1 - row } else { row });
        });
    }

    fn compute_residual_norm(&mut self, scale: f64) -> f64 {
        let (data, arrays, u) = (self.call.data, &self.call.arrays, self.current_arrays());
        let plane_count = data.planes_before[self.patches().len()];
        let square_sums = data.square_sums.reduce(0, plane_count);
        for plane_index in self.thread.share(plane_count) {
            let p = data.planes_before.partition_point(|&first_plane| first_plane <= plane_index) - 1;
            let k = plane_index - data.planes_before[p];
            let patch = &self.patches()[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            let mut square_sum = 0.0;
            for j in 0..ny {
                let f_index = (k * ny + j) * nx;
                // SAFETY: the row and the layer around it are in the arrays. No thread writes u, and each plane of r is
                // written by one thread.
                square_sum += unsafe {
                    let r = arrays.r.get(p).map_or(std::ptr::null_mut(), |r| r.add(f_index));
                    let first_cell = u[p].add((k + 1) * plane + (j + 1) * row + 1);
                    compute_residual_row(
                        first_cell,
                        arrays.f[p].add(f_index),
                        r,
                        nx,
                        (row, plane),
                        &data.operator,
                        scale,
                    )
                };
            }
            // SAFETY: this thread owns the plane `plane_index`.
            unsafe { square_sums.store(plane_index, [square_sum]) };
        }
        let [square_sum] = square_sums.sum(Some(self.thread));
        self.thread.barrier();
        square_sum.sqrt()
    }

    fn has_monitor(&self) -> bool {
        self.call.has_monitor
    }

    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.call_on_first_thread(|callbacks| callbacks.report_residual(sweep, relative_residual))
    }

    fn store_result(&mut self) {
        if !std::mem::replace(&mut self.uses_second_array, false) {
            return;
        }
        for (p, patch) in self.patches().iter().enumerate() {
            let plane = patch.strides().1;
            let own_planes = self.thread.share(patch.size[2] + 2);
            // SAFETY: the planes belong to two arrays of the same shape, and each plane is written by one thread.
            unsafe {
                let (source, target) = (self.call.second_array[p].add(own_planes.start * plane), self.call.arrays.u[p]);
                std::ptr::copy_nonoverlapping(
                    source.cast_const(),
                    target.add(own_planes.start * plane),
                    own_planes.len() * plane,
                );
            }
        }
        self.thread.barrier();
    }
}

/// Returns whether all values are finite. If a value is NaN or infinite, the result of `max_abs` is NaN or infinite.
fn is_finite_row(values: &[f64]) -> bool {
    sums::max_abs(values).is_finite()
}

/// Replaces `earliest` by `candidate` if `earliest` is `None`, or if `candidate` precedes `earliest`. The order is by
/// patch, then by array (u, then f), then by cell.
fn replace_if_earlier(earliest: &mut Option<NonfiniteCell>, candidate: NonfiniteCell) {
    let key = |cell: &NonfiniteCell| (cell.patch, cell.name == "f", cell.cell[2], cell.cell[1], cell.cell[0]);
    if earliest.as_ref().is_none_or(|current| key(&candidate) < key(current)) {
        *earliest = Some(candidate);
    }
}
