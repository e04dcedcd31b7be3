//! Implementation of the smoother steps for one thread of the team.

use super::relax::residual_row;
use super::rows::{BlockSelection, PrefetchSelection, RowParameters};
use crate::base::reduce as sums;
use crate::smoother::cpu::thread::{CallThread, Grain, fused_grain, row_counts};
use crate::smoother::patches::Cut;
use crate::smoother::steps::{BadCell, Parallel, SmootherSteps, colour_count};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl SmootherSteps for CallThread<'_, '_> {
    fn bad_cell(&mut self) -> Option<BadCell> {
        let whole = Cut::new([8; 3]);
        let arrays = &self.call.arrays;
        let mut found: Option<BadCell> = None;
        for (p, part) in self.rows_of_part(&whole, self.me.index, Grain::Slab) {
            let patch = &self.patches()[p];
            let [nx, ny, nz] = patch.size;
            let (row, plane) = patch.strides();
            let in_slab = row_counts(&whole, patch).1;
            let slab = |r: usize| {
                if r == row_counts(&whole, patch).0 { nz } else { whole.segment(patch, 2, r / in_slab).start }
            };
            for k in slab(part.start)..slab(part.end) {
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
                                &mut found,
                                BadCell { name, value: values[i], patch: p, cell: [i, j, k] },
                            );
                        }
                    }
                }
            }
        }
        let lock = || self.call.data.bad.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bad) = found {
            replace_if_earlier(&mut lock(), bad);
        }
        self.me.barrier();
        *lock()
    }

    fn exchange(&mut self) {
        let list = &self.call.data.blocks.list;
        if list.copies.is_empty() {
            return;
        }
        let u = self.current_arrays();
        if let Some(ghost_buffers) = self.call.ghost_buffers {
            // Each sweep fills its ghost cells from a buffer. The buffer of the first sweep is written here, that of
            // every later sweep by the sweep before it.
            if self.sweeps == 0 {
                for p in self.me.share(list.patches.len()) {
                    // SAFETY: no thread writes u at this point, and each patch is copied to the buffer by one thread.
                    unsafe { ghost_buffers.store_patch(list, p, 0, u[p]) };
                }
                self.me.barrier();
            }
            return;
        }
        for copy in &list.copies[self.me.share(list.copies.len())] {
            let (from, to) = (&list.patches[copy.from], &list.patches[copy.to]);
            let [x, y, z] = copy.cells.lower;
            for k in 0..copy.cells.size[2] as i64 {
                for j in 0..copy.cells.size[1] as i64 {
                    let cell = [x, y + j, z + k];
                    // SAFETY: the cells are in patch `from` and in the ghost layer of patch `to`. Each ghost cell is
                    // written by one copy, and no cell that is read is written.
                    unsafe {
                        let from = u[copy.from].add(from.index_of(cell)).cast_const();
                        std::ptr::copy_nonoverlapping(from, u[copy.to].add(to.index_of(cell)), copy.cells.size[0]);
                    }
                }
            }
        }
        self.me.barrier();
    }

    fn fill(&mut self, sweep: i32) -> bool {
        if !self.call.has_ghost_fill {
            return false;
        }
        let u = self.current_arrays();
        self.call_on_first_thread(|callbacks| callbacks.fill(sweep, u))
    }

    fn colour_count(&self) -> usize {
        colour_count(&self.call.data.blocks.stencil)
    }

    fn sweep_jacobi(&mut self, cut: &Cut, omega: f64) {
        let (from, to) = if self.flipped {
            (self.call.second_array, self.call.arrays.u)
        } else {
            (self.call.arrays.u, self.call.second_array)
        };
        for p in self.me.share(self.patches().len()) {
            self.copy_ghosts(p, from[p], to[p]);
        }
        let parameters =
            RowParameters { from, to, cut, omega, in_order: false, reverse: false, prefetch: PrefetchSelection::Next };
        // SAFETY: blocks are read from one array and written to the other, and each row is relaxed by one thread.
        self.for_each_own_row(cut, |member, p, row| unsafe {
            member.relax_row(parameters, p, row, BlockSelection::All)
        });
        self.flipped = !self.flipped;
    }

    fn relax_colour(&mut self, cut: &Cut, omega: f64, colour: usize) {
        let u = self.current_arrays();
        let parameters = RowParameters {
            from: u,
            to: u,
            cut,
            omega,
            in_order: false,
            reverse: false,
            prefetch: PrefetchSelection::Next,
        };
        // SAFETY: blocks of one colour are not adjacent, and each row is relaxed by one thread.
        self.for_each_own_row(cut, |member, p, row| unsafe {
            member.relax_row(parameters, p, row, BlockSelection::Colour(colour))
        });
    }

    fn relax_all_colours(&mut self, cut: &Cut, omega: f64, reverse: bool) {
        let me = self.me;
        let Some(grain) = fused_grain(self.patches(), cut, self.call.work.parallel, me.members) else {
            for c in 0..self.colour_count() {
                self.relax_colour(cut, omega, if reverse { self.colour_count() - 1 - c } else { c });
            }
            return;
        };
        let parameters = {
            let u = self.current_arrays();
            RowParameters {
                from: u,
                to: u,
                cut,
                omega,
                in_order: false,
                reverse: false,
                prefetch: PrefetchSelection::Next,
            }
        };
        for seams in [false, true] {
            // Cores differ in speed. A thread that has finished its part therefore relaxes whole patches of other parts
            // that no thread has started, the last ones first.
            let owners = if seams || grain == Grain::Patch { 1 } else { me.members };
            for owner in 0..owners {
                let of = (me.index + owner) % me.members;
                // This thread skips a part in which another thread has already found no unclaimed patch. Otherwise each
                // thread would scan thousands of patches.
                let all_claimed_in_sweep = &self.call.data.all_claimed_in_sweep[of];
                if owner > 0 && all_claimed_in_sweep.load(Ordering::Relaxed) == self.sweep_number() {
                    continue;
                }
                let begin = self.start_of_part(cut, of, me.members, grain);
                let end = self.start_of_part(cut, of + 1, me.members, grain);
                let patches = begin.patch..self.patches().len().min(end.patch + 1);
                for step in 0..patches.len() {
                    let p = if owner == 0 { patches.start + step } else { patches.end - 1 - step };
                    let (all, in_slab) = row_counts(cut, &self.patches()[p]);
                    let slabs = all / in_slab;
                    let first = if p == begin.patch { begin.row / in_slab } else { 0 };
                    let last = if p == end.patch { end.row / in_slab } else { slabs };
                    let whole = first == 0 && last == slabs;
                    if first >= last || (!whole && owner > 0) || (whole && (seams || !self.claim(p))) {
                        continue;
                    }
                    // The second stage in a slab next to another thread's slab requires that the first stage of that
                    // thread is complete. The first pass of the loop over `seams` therefore omits the second stage in
                    // these slabs, and the second pass executes it.
                    let low = first + usize::from(first > 0);
                    let high = last - usize::from(last < slabs);
                    if !seams {
                        // SAFETY: no other thread writes cells of these slabs or of the adjacent slabs that are read
                        // here. A whole patch is claimed by one thread. In a patch that several threads share, slabs
                        // next to another thread's slabs are relaxed only with the first stage before the barrier. The
                        // first stages of different threads are independent.
                        unsafe { self.relax_slabs_fused(parameters, p, first..last, low..high, reverse) };
                        continue;
                    }
                    let [_, two] = self.stages(reverse);
                    for kb in (first..last).filter(|kb| !(low..high).contains(kb)) {
                        // SAFETY: all first stages are complete, and blocks of second stages in different parts are not
                        // adjacent.
                        unsafe { self.relax_slab(parameters, p, kb, two.clone(), reverse) };
                        for jb in 0..in_slab {
                            // SAFETY: this thread owns the row, and its values are final.
                            unsafe { self.store_for_next_sweep(cut, p, kb * in_slab + jb) };
                        }
                    }
                }
                if !seams {
                    all_claimed_in_sweep.store(self.sweep_number(), Ordering::Relaxed);
                }
            }
            me.barrier();
        }
        self.sweeps += 1;
    }

    fn sweep_chaotic(&mut self, cut: &Cut, omega: f64, reverse: bool) {
        let u = self.current_arrays();
        let parameters = RowParameters {
            from: u,
            to: u,
            cut,
            omega,
            in_order: true,
            reverse,
            prefetch: if reverse { PrefetchSelection::Nothing } else { PrefetchSelection::Next },
        };
        if self.call.work.parallel == Parallel::Patches {
            for (p, part) in self.rows_of_part(cut, self.me.index, Grain::Patch) {
                let n = part.end;
                for row in part {
                    // SAFETY: with `parallel=patch`, this thread owns the whole patch.
                    unsafe {
                        self.relax_row(parameters, p, if reverse { n - 1 - row } else { row }, BlockSelection::All)
                    };
                }
            }
            self.me.barrier();
            return;
        }
        self.for_each_own_row(cut, |member, p, row| {
            let n = row_counts(cut, &member.patches()[p]).0;
            member.relax_row_asynchronously(parameters, p, if reverse { n - 1 - row } else { row });
        });
    }

    fn residual_norm(&mut self, scale: f64) -> f64 {
        let (data, arrays, u) = (self.call.data, &self.call.arrays, self.current_arrays());
        let planes = data.planes_before[self.patches().len()];
        let squares = data.squares.reduce(0, planes);
        for at in self.me.share(planes) {
            let p = data.planes_before.partition_point(|&before| before <= at) - 1;
            let k = at - data.planes_before[p];
            let patch = &self.patches()[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            let mut square = 0.0;
            for j in 0..ny {
                let f_index = (k * ny + j) * nx;
                // SAFETY: the row and the layer around it are in the arrays. No thread writes u, and each plane of r is
                // written by one thread.
                square += unsafe {
                    let r = arrays.r.get(p).map_or(std::ptr::null_mut(), |r| r.add(f_index));
                    let from = u[p].add((k + 1) * plane + (j + 1) * row + 1);
                    residual_row(from, arrays.f[p].add(f_index), r, nx, (row, plane), &data.operator, scale)
                };
            }
            // SAFETY: this thread owns the plane `at`.
            unsafe { squares.store(at, [square]) };
        }
        let [square] = squares.sum(Some(self.me));
        self.me.barrier();
        square.sqrt()
    }

    fn watched(&self) -> bool {
        self.call.watched
    }

    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.call_on_first_thread(|callbacks| callbacks.report_residual(sweep, relative_residual))
    }

    fn store_result(&mut self) {
        if !std::mem::replace(&mut self.flipped, false) {
            return;
        }
        for (p, patch) in self.patches().iter().enumerate() {
            let plane = patch.strides().1;
            let mine = self.me.share(patch.size[2] + 2);
            // SAFETY: the planes belong to two arrays of the same shape, and each plane is written by one thread.
            unsafe {
                let (from, to) = (self.call.second_array[p].add(mine.start * plane), self.call.arrays.u[p]);
                std::ptr::copy_nonoverlapping(from.cast_const(), to.add(mine.start * plane), mine.len() * plane);
            }
        }
        self.me.barrier();
    }
}

/// Returns whether all values are finite. If a value is NaN or infinite, so is the result of `max_abs`.
fn is_finite_row(values: &[f64]) -> bool {
    sums::max_abs(values).is_finite()
}

/// Replaces `found` by `bad` if `bad` precedes it. The order is by patch, then by array (u, then f), then by cell.
fn replace_if_earlier(found: &mut Option<BadCell>, bad: BadCell) {
    let key = |b: &BadCell| (b.patch, b.name == "f", b.cell[2], b.cell[1], b.cell[0]);
    if found.as_ref().is_none_or(|f| key(&bad) < key(f)) {
        *found = Some(bad);
    }
}
