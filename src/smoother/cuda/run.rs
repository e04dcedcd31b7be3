//! One call of the `cuda` backend of the block smoothers.
//!
//! A sweep is one launch for all patches, or several launches if dense inverses are applied stage by stage. Between two
//! sweeps that are one launch each, tiles at the edge of a patch write their faces to buffers, if no callback needs the
//! ghost cells. The adjacent tiles of other patches read the buffers in the next sweep. Ghost cells are exchanged
//! before the first of these sweeps, and the last one fills them.
//!
//! Patches in host memory have a copy on the device. They are divided into groups. If there are several, the first and
//! the last sweep of a call run group by group, unless `transfer=breadth_first` is set. The first sweep of a group
//! overlaps the upload of the next group. The last sweep of a group overlaps the download of the previous group.

use super::data::{Data, inverse_kind_of};
use super::lists::{FACE_VALUES, to_i32};
use crate::base::heap::Counted;
use crate::cuda::call::Attempts;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, BlockCopyArgs, BlockItem, BlockPatch, BlockSegment, ExchangeArgs, NormArgs, PatchArgs, RelaxArgs,
    RelaxLaunch,
};
use crate::cuda::staging::{Copies, Job};
use crate::error::{Error, Result, collected, reserve};
use crate::smoother::patches::{Cut, PatchList};
use crate::smoother::steps::{BadCell, Callbacks, Method, Parallel, PatchArrays, SmootherSteps, Work, colour_count};
use std::ops::Range;
use std::time::Instant;

/// Product of the factors 2 / (b + 1) of three inverse transforms of length 8.
const WEIGHT: f64 = 8.0 / 729.0;

/// Use of the face buffers by a sweep. `faces_read`: the sweep reads the faces of the previous sweep. `faces_written`:
/// the sweep writes faces for the next sweep. `stores_ghosts`: the sweep also writes the faces that it reads to the
/// ghost cells.
#[derive(Clone, Copy, Default)]
struct FaceBuffers {
    faces_read: bool,
    faces_written: bool,
    stores_ghosts: bool,
}

/// State of one call.
pub(super) struct Run<'a> {
    pub(super) data: &'a mut Data,
    /// Two streams. If a sweep runs group by group, the copies and kernels of successive groups alternate between the
    /// streams. All other work is on the first stream.
    pub(super) streams: [&'a Stream; 2],
    pub(super) copies: &'a mut Copies,
    pub(super) tables: Address,
    /// `by_transforms`: sine transforms solve the blocks. `can_batch`: dense inverses of 8^3 blocks may run stage by
    /// stage.
    pub(super) by_transforms: bool,
    pub(super) can_batch: bool,
    pub(super) arrays: &'a mut dyn PatchArrays,
    pub(super) on_device: bool,
    pub(super) callbacks: &'a mut dyn Callbacks,
    pub(super) work: &'a Work,
    /// Index of the array with the current values, 0 or 1.
    pub(super) current_array: usize,
    /// `requested_sweeps`: number of sweeps that were requested so far, including the current one. `executed_ahead`:
    /// number of sweeps that were executed before they were requested.
    pub(super) requested_sweeps: usize,
    pub(super) executed_ahead: usize,
    /// `uploaded`: the device has the values of u and f. `downloaded`: the caller's host arrays have the result.
    pub(super) uploaded: bool,
    pub(super) downloaded: bool,
    /// Whether the second array of block Jacobi contains the caller's ghost cells.
    pub(super) ghosts_copied: bool,
    /// Whether ghost cells between patches must be copied by the next sweep, or before any other step.
    pub(super) exchange_pending: bool,
    /// Whether the previous sweep wrote its faces. It wrote them to one half of `faces`: the first half if its number,
    /// counted from 1, is even, else the second half.
    pub(super) faces_written: bool,
    /// Whether the last operation on the first stream is a kernel of this backend. The next kernel may then start
    /// before that kernel ends.
    pub(super) follows_kernel: bool,
    pub(super) seconds_transfer: f64,
    pub(super) failed: Option<Error>,
}

impl Run<'_> {
    fn list(&self) -> Counted<PatchList> {
        self.data.patch_system.list.clone()
    }

    /// Reserves device memory for patches in host memory, and copies the addresses of all arrays to the device.
    pub(super) fn begin(&mut self) -> Result<()> {
        let list = self.list();
        let given = self.arrays.pointers();
        let (patches, data, stream) = (&list.patches, &mut *self.data, self.streams[0]);
        if !self.on_device {
            if data.buffers.staging.u.len() != patches.len() {
                data.buffers.staging.allocate(stream, patches, true, "copies of patches that are on the host")?;
            }
            if !given.r.is_empty() && data.buffers.residuals.u.len() != patches.len() {
                data.buffers.residuals.allocate(stream, patches, false, "residuals")?;
            }
        }
        let mut rows = std::mem::take(&mut data.buffers.host_patch_table);
        let mut changed = rows.len() != patches.len();
        let more = patches.len().saturating_sub(rows.len());
        reserve(&mut rows, more, "lists of patches")?;
        rows.resize(patches.len(), BlockPatch::default());
        for (p, row) in rows.iter_mut().enumerate() {
            let [nx, ny, nz] = patches[p].size.map(|n| n as i32);
            let second_array = data.buffers.second_array.u.get(p).copied().unwrap_or(0);
            let (u, f, r) = if self.on_device {
                let f = given.f.get(p).map_or(0, |f| *f as u64);
                (given.u[p] as u64, f, given.r.get(p).map_or(0, |r| *r as u64))
            } else {
                let r = if given.r.is_empty() { 0 } else { data.buffers.residuals.u[p] };
                (data.buffers.staging.u[p], data.buffers.staging.f[p], r)
            };
            let new = BlockPatch { u: [u, second_array], f, r, nx, ny, nz, unused: 0 };
            changed |= *row != new;
            *row = new;
        }
        if changed && !rows.is_empty() {
            stream.send(data.buffers.patch_table.address(), &rows)?;
            stream.wait()?;
        }
        data.buffers.host_patch_table = rows;
        Ok(())
    }

    fn all_patches(&self) -> Range<usize> {
        0..self.data.buffers.host_patch_table.len()
    }

    /// Copies u and, with `with_f`, f of patches in host memory to the device.
    fn upload(&mut self, patches: Range<usize>, with_f: bool, stream: usize) -> Result<()> {
        let start = Instant::now();
        let with_f = with_f && !self.arrays.pointers().f.is_empty();
        for p in patches {
            let (row, u) = (&self.data.buffers.host_patch_table[p], self.arrays.u(p));
            let (stream, u) = (self.streams[stream], Job::all_from_host(u, row.u[self.current_array]));
            if with_f {
                self.copies.send(stream, &[u, Job::all_from_host(self.arrays.f(p), row.f)])?;
            } else {
                self.copies.send(stream, &[u])?;
            }
        }
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Copies u from the device to the patches in host memory.
    fn download(&mut self, patches: Range<usize>, array: usize, stream: usize) -> Result<()> {
        let start = Instant::now();
        for p in patches {
            let job = Job::all_to_host(self.arrays.u_mut(p), self.data.buffers.host_patch_table[p].u[array]);
            self.copies.fetch(self.streams[stream], &[job])?;
        }
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Waits for both streams.
    fn join(&mut self) -> Result<()> {
        let start = Instant::now();
        self.streams[0].wait()?;
        self.streams[1].wait()?;
        if !self.on_device {
            self.seconds_transfer += start.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// Uploads all patches in host memory, unless the device already has their values.
    fn ensure_uploaded(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.uploaded, true) {
            self.upload(self.all_patches(), true, 0)?;
            self.join()?;
        }
        Ok(())
    }

    /// Copies the ghost layer of array `from` to array `to`, for the second array of block Jacobi. Ghost cells that no
    /// patch covers change only in a callback. Without a callback, one copy per call of the smoother therefore
    /// suffices.
    fn copy_ghosts(&self, patches: Range<usize>, from: usize, to: usize, stream: usize) -> Result<()> {
        self.copy_values(patches, from, to, true, stream)
    }

    /// Copies u between the two arrays of each patch; with `ghosts`, only the ghost layer.
    fn copy_values(&self, patches: Range<usize>, from: usize, to: usize, ghosts: bool, stream: usize) -> Result<()> {
        let data = &*self.data;
        let (first, last) = (data.buffers.segments_before[patches.start], data.buffers.segments_before[patches.end]);
        if first == last {
            return Ok(());
        }
        let arguments = BlockCopyArgs {
            patches: data.buffers.patch_table.address(),
            segments: data.buffers.segments.address() + (first * size_of::<BlockSegment>()) as u64,
            from: from as i32,
            to: to as i32,
            ghosts_only: i32::from(ghosts),
        };
        launch::copy_patches(self.streams[stream], &arguments, (last - first) as u32)
    }

    /// Launches the relaxation of one group of patches, or of all patches if `group` is `None`.
    fn launch(
        &mut self,
        (plan, group): (usize, Option<usize>),
        (from, to): (usize, usize),
        face_buffers: FaceBuffers,
        stream: usize,
    ) -> Result<()> {
        let data = &mut *self.data;
        let faces = data.buffers.faces.address();
        let plan = &mut data.plans[plan];
        let (items, progress, totals) = (plan.items.address(), plan.progress.address(), plan.totals.address());
        let launch = group.map_or(&mut plan.whole_launch, |g| &mut plan.group_launches[g]);
        if launch.items.is_empty() {
            return Ok(());
        }
        let next = launch.launches.wrapping_add(1);
        let asynchronous = self.work.method == Method::Chaotic && self.work.parallel != Parallel::Patches;
        let offset = (4 * launch.progress.start) as u64;
        let mut arguments = RelaxArgs {
            patches: data.buffers.patch_table.address(),
            items: 0,
            tables: self.tables,
            progress: progress + offset,
            totals: totals + offset,
            launches: next,
            from: from as i32,
            to: to as i32,
            waits_for_own_chunk_only: i32::from(asynchronous),
            omega: self.work.omega,
            entries: data.patch_system.stencil.entries,
            count: 0,
            eigenvalue_terms: data.eigenvalue_terms,
            weight: WEIGHT,
            points: data.patch_system.stencil.points as i32,
            is_dense: i32::from(!self.by_transforms),
            faces_read: 0,
            faces_written: 0,
            partners: plan.partners.address(),
            store_ghosts: i32::from(face_buffers.stores_ghosts),
        };
        let half = |sweep: usize| faces + (sweep % 2 * 8 * FACE_VALUES * plan.face_count) as u64;
        if face_buffers.faces_read {
            arguments.faces_read = half(self.requested_sweeps - 1);
        }
        if face_buffers.faces_written {
            arguments.faces_written = half(self.requested_sweeps);
        }
        let follows_kernel = &mut self.follows_kernel;
        let chained = stream == 0;
        let (stream, cubes) = (self.streams[stream], launch.cubes && self.by_transforms);
        let any = if data.patch_system.stencil.points == 7 { launch::relax_7 } else { launch::relax_27 };
        let start = launch.items.start;
        let mut run = |range: Range<usize>, kernel: fn(&Stream, &RelaxArgs, RelaxLaunch) -> Result<()>| {
            if range.is_empty() {
                return Ok(());
            }
            arguments.items = items + ((start + range.start) * size_of::<BlockItem>()) as u64;
            arguments.count = to_i32(range.len(), "the number of blocks")? as u32;
            let configuration = RelaxLaunch {
                follows_kernel: std::mem::replace(follows_kernel, chained) && chained,
                processors: stream.device().processors,
            };
            kernel(stream, &arguments, configuration)
        };
        if launch.stages.is_empty() {
            let kernel = if cubes && data.patch_system.stencil.points == 7 { launch::relax_cubes } else { any };
            run(0..launch.items.len(), kernel)?;
        }
        for [cubes, others] in &launch.stages {
            run(cubes.clone(), launch::relax_dense)?;
            run(others.clone(), any)?;
        }
        launch.launches = next;
        Ok(())
    }

    /// Executes one sweep, with the copies of patches in host memory.
    fn sweep(&mut self, cut: &Cut) -> Result<()> {
        let both = self.exchanges_both_arrays();
        self.requested_sweeps += 1;
        let jacobi = self.work.method == Method::Jacobi;
        if self.executed_ahead > 0 {
            self.executed_ahead -= 1;
            self.current_array ^= usize::from(jacobi);
            return Ok(());
        }
        let plan = self.plan_of(cut)?;
        let count = self.data.plans[plan].group_launches.len();
        let (first, watched) = (!self.uploaded, self.callbacks.watched());
        let last = self.requested_sweeps == self.work.sweeps && !watched;
        if self.on_device || !(first || last) || count == 0 || !self.work.overlap_copies {
            self.ensure_uploaded()?;
            if jacobi && self.needs_ghost_copy() {
                self.copy_ghosts(self.all_patches(), self.current_array, 1 - self.current_array, 0)?;
            }
            let last = self.requested_sweeps == self.work.sweeps;
            let faces_read = std::mem::take(&mut self.faces_written);
            if faces_read {
                self.exchange_pending = false;
                let plan = &self.data.plans[plan];
                self.exchange_boxes(plan.remaining_copies.address(), plan.remaining_counts[usize::from(last)], both)?;
            } else {
                self.exchange_if_pending(both)?;
            }
            // This sweep leaves its faces in buffers only if the next sweep uses the same plan and is one launch for
            // all patches, too, and if no callback reads ghost cells before the next sweep.
            let next_is_whole = self.on_device
                || count == 0
                || !self.work.overlap_copies
                || self.requested_sweeps + 1 < self.work.sweeps;
            let plan_has_faces = self.data.plans[plan].face_count > 0 && self.work.cuts[0] == self.work.cuts[1];
            let faces_written =
                plan_has_faces && !last && next_is_whole && !watched && !self.callbacks.has_ghost_fill();
            self.launch(
                (plan, None),
                self.array_pair(jacobi, 0),
                FaceBuffers { faces_read, faces_written, stores_ghosts: faces_read && last },
                0,
            )?;
            self.faces_written = faces_written;
            self.current_array ^= usize::from(jacobi);
            return Ok(());
        }
        // If there are neither copies between patches nor callbacks, the groups are independent. Each group then
        // executes all its sweeps before its download.
        let independent =
            first && !watched && !self.callbacks.has_ghost_fill() && self.data.buffers.ghost_copy_count == 0;
        let sweeps = if independent { self.work.sweeps - self.requested_sweeps + 1 } else { 1 };
        let plans = [plan, self.plan_of(&self.work.cuts[self.requested_sweeps % 2])?];
        let downloads = last || independent;
        self.exchange_if_pending(both)?;
        let ghosts = jacobi && self.needs_ghost_copy();
        self.join()?;
        for g in 0..self.data.groups.len() {
            let (group, stream) = (self.data.groups[g].clone(), g % 2);
            if first {
                self.upload(group.clone(), true, stream)?;
            }
            if ghosts {
                self.copy_ghosts(group.clone(), self.current_array, 1 - self.current_array, stream)?;
            }
            for sweep in 0..sweeps {
                self.launch(
                    (plans[sweep % 2], Some(g)),
                    self.array_pair(jacobi, sweep),
                    FaceBuffers::default(),
                    stream,
                )?;
            }
            if downloads {
                let array = if jacobi { self.current_array ^ (sweeps % 2) } else { self.current_array };
                self.download(group, array, stream)?;
            }
        }
        self.join()?;
        self.executed_ahead = sweeps - 1;
        self.current_array ^= usize::from(jacobi);
        (self.uploaded, self.downloaded) = (true, downloads);
        Ok(())
    }

    /// Returns the indices of the arrays that a sweep reads and writes. `later` is 0 for the next sweep, 1 for the
    /// sweep after it, and so on.
    fn array_pair(&self, jacobi: bool, later: usize) -> (usize, usize) {
        let from = if jacobi { self.current_array ^ (later % 2) } else { self.current_array };
        (from, if jacobi { 1 - from } else { from })
    }

    /// Returns whether `sweep` must now copy the ghost cells to the second array of block Jacobi: before the first
    /// sweep, and before every sweep if a callback fills ghost cells. Records that the ghost cells have been copied.
    fn needs_ghost_copy(&mut self) -> bool {
        !std::mem::replace(&mut self.ghosts_copied, true) || self.callbacks.has_ghost_fill()
    }

    /// Returns the index of the plan for a cut, and builds the plan if it does not exist.
    fn plan_of(&mut self, cut: &Cut) -> Result<usize> {
        // Usually, `prepare` has built the plan. If options have changed since then, the plan is built here.
        let kind = inverse_kind_of(!self.by_transforms, self.can_batch, cut);
        self.data.plan(self.streams[0], cut, self.work, kind)
    }

    fn patch_args(&self) -> PatchArgs {
        let data = &*self.data;
        PatchArgs {
            patches: data.buffers.patch_table.address(),
            regions: data.buffers.regions.address(),
            array_index: self.current_array as i32,
            sums: data.buffers.sums.address(),
            first_bad: data.buffers.results.address(),
            entries: data.patch_system.stencil.entries,
            scale: 1.0,
        }
    }

    /// Finds the first value of u or f that is not finite.
    fn find_bad_cell(&mut self) -> Result<Option<BadCell>> {
        if self.data.buffers.region_count == 0 {
            return Ok(None);
        }
        self.ensure_uploaded()?;
        let (stream, results) = (self.streams[0], self.data.buffers.results.address());
        stream.fill(results, 0xff, 8)?;
        launch::inspect_patches(stream, &self.patch_args(), self.data.buffers.region_count)?;
        let mut number = [u64::MAX];
        stream.fetch(&mut number, results)?;
        stream.wait()?;
        let [number] = number.map(|n| n as usize);
        if number == usize::MAX {
            return Ok(None);
        }
        let list = self.list();
        let p = list.cells_before.partition_point(|&before| 2 * before <= number) - 1;
        let (patch, row) = (&list.patches[p], &self.data.buffers.host_patch_table[p]);
        let inside = number - 2 * list.cells_before[p];
        let (name, cell) = if inside < patch.cells() { ("u", inside) } else { ("f", inside - patch.cells()) };
        let [nx, ny, _] = patch.size;
        let cell_at = [cell % nx, cell / nx % ny, cell / nx / ny];
        let (stride, plane) = patch.strides();
        let [i, j, k] = cell_at;
        let address = match name {
            "u" => row.u[self.current_array] + 8 * ((k + 1) * plane + (j + 1) * stride + i + 1) as u64,
            _ => row.f + 8 * cell as u64,
        };
        let mut value = [0.0f64];
        stream.fetch(&mut value, address)?;
        stream.wait()?;
        Ok(Some(BadCell { name, value: value[0], patch: p, cell: cell_at }))
    }

    /// Copies ghost cells between patches if a copy is pending; with `both`, to both arrays of block Jacobi.
    fn exchange_if_pending(&mut self, both: bool) -> Result<()> {
        if !std::mem::replace(&mut self.exchange_pending, false) {
            return Ok(());
        }
        self.exchange_boxes(self.data.buffers.ghost_copies.address(), self.data.buffers.ghost_copy_count, both)
    }

    /// Copies `count` boxes of ghost cells on the device; with `both`, to both arrays of block Jacobi.
    fn exchange_boxes(&mut self, copies: Address, count: u32, both: bool) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let arguments = ExchangeArgs {
            patches: self.data.buffers.patch_table.address(),
            copies,
            array_index: self.current_array as i32,
            both: i32::from(both),
        };
        launch::exchange(self.streams[0], &arguments, count, std::mem::replace(&mut self.follows_kernel, true))
    }

    /// Returns whether the next sweep is the last sweep of block Jacobi. The array to which it writes must then also
    /// contain the ghost cells that it reads.
    fn exchanges_both_arrays(&self) -> bool {
        self.work.method == Method::Jacobi && self.requested_sweeps + 1 >= self.work.sweeps
    }

    /// Copies ghost cells between patches in host memory, before the patches are uploaded.
    fn exchange_on_host(&mut self) {
        let list = self.list();
        let mut part = [0.0; 256];
        for copy in &list.copies {
            let (from, to) = (&list.patches[copy.from], &list.patches[copy.to]);
            let ([x, y, z], [nx, ny, nz]) = (copy.cells.lower, copy.cells.size);
            for row in 0..ny * nz {
                for first in (0..nx).step_by(part.len()) {
                    let cell = [x + first as i64, y + (row % ny) as i64, z + (row / ny) as i64];
                    let part = &mut part[..nx.min(first + 256) - first];
                    part.copy_from_slice(&self.arrays.u(copy.from)[from.index_of(cell)..][..part.len()]);
                    self.arrays.u_mut(copy.to)[to.index_of(cell)..][..part.len()].copy_from_slice(part);
                }
            }
        }
    }
}

impl Attempts for Run<'_> {
    fn failed(&mut self) -> &mut Option<Error> {
        &mut self.failed
    }
}

impl SmootherSteps for Run<'_> {
    fn bad_cell(&mut self) -> Option<BadCell> {
        self.attempt(Self::find_bad_cell).flatten()
    }

    fn exchange(&mut self) {
        if self.data.buffers.ghost_copy_count == 0 || self.executed_ahead > 0 {
            return;
        }
        if !self.uploaded {
            self.exchange_on_host();
            return;
        }
        self.exchange_pending = true;
        if self.callbacks.has_ghost_fill() || self.work.sweeps == self.requested_sweeps {
            self.step(|run| run.exchange_if_pending(run.exchanges_both_arrays()));
        }
    }

    fn fill(&mut self, sweep: i32) -> bool {
        if !self.callbacks.has_ghost_fill() {
            return self.failed.is_some();
        }
        let stop = self.attempt(|run| {
            run.join()?;
            // The caller's function may enqueue kernels on the stream, so the next kernel must not start early.
            run.follows_kernel = false;
            if run.on_device {
                let current = run.data.buffers.host_patch_table.iter().map(|r| r.u[run.current_array] as *mut f64);
                let current = collected(current, "addresses of patches")?;
                return Ok(run.callbacks.fill(sweep, &current));
            }
            if run.uploaded {
                run.download(run.all_patches(), run.current_array, 0)?;
                run.join()?;
            }
            let stop = run.callbacks.fill(sweep, run.arrays.pointers().u);
            if run.uploaded {
                run.upload(run.all_patches(), false, 0)?;
                run.join()?;
            }
            Ok(stop)
        });
        stop.unwrap_or(true)
    }

    fn colour_count(&self) -> usize {
        colour_count(&self.data.patch_system.stencil)
    }

    fn sweep_jacobi(&mut self, cut: &Cut, _: f64) {
        self.step(|run| run.sweep(cut));
    }

    fn relax_colour(&mut self, _: &Cut, _: f64, _: usize) {
        self.failed = Some(Error::Internal("a device processes all colours in one launch".to_owned()));
    }

    fn relax_all_colours(&mut self, cut: &Cut, _: f64, _: bool) {
        self.step(|run| run.sweep(cut));
    }

    fn sweep_chaotic(&mut self, cut: &Cut, _: f64, _: bool) {
        self.step(|run| run.sweep(cut));
    }

    fn residual_norm(&mut self, scale: f64) -> f64 {
        self.attempt(|run| {
            if run.data.buffers.region_count == 0 {
                return Ok(0.0);
            }
            run.ensure_uploaded()?;
            run.exchange_if_pending(false)?;
            let (stream, results) = (run.streams[0], run.data.buffers.results.address());
            launch::residual_patches(stream, &PatchArgs { scale, ..run.patch_args() }, run.data.buffers.region_count)?;
            let count = i64::from(run.data.buffers.region_count);
            let norm = results + 8;
            launch::norm_patches(stream, &NormArgs { sums: run.data.buffers.sums.address(), count, norm })?;
            if !run.on_device {
                let start = Instant::now();
                for p in run.all_patches() {
                    if let Some(r) = run.arrays.r_mut(p) {
                        run.copies.fetch(stream, &[Job::all_to_host(r, run.data.buffers.host_patch_table[p].r)])?;
                    }
                }
                run.seconds_transfer += start.elapsed().as_secs_f64();
            }
            // The wait follows directly, so `value` exists until the copy is complete.
            let mut value = [0.0f64];
            stream.fetch(&mut value, norm)?;
            stream.wait()?;
            Ok(value[0])
        })
        .unwrap_or_default()
    }

    fn watched(&self) -> bool {
        self.callbacks.watched()
    }

    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.failed.is_some() || self.callbacks.report_residual(sweep, relative_residual)
    }

    fn store_result(&mut self) {
        self.step(|run| {
            run.exchange_if_pending(false)?;
            if run.on_device {
                if run.current_array == 1 {
                    run.copy_values(run.all_patches(), 1, 0, false, 0)?;
                    run.current_array = 0;
                }
            } else if run.uploaded && !run.downloaded {
                run.download(run.all_patches(), run.current_array, 0)?;
            }
            run.join()
        });
    }
}
