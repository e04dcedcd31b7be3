//! One call of the `cuda` backend of the block smoothers.
//!
//! A sweep is one launch for all patches, or several launches if dense inverses are applied stage by stage. Successive
//! sweeps of one launch each exchange values through buffers, if no callback needs the ghost cells: tiles at the edge
//! of a patch write their faces to a buffer, and the adjacent tiles of other patches read this buffer in the next
//! sweep. Ghost cells are exchanged before the first of these sweeps. The last of these sweeps writes the ghost cells.
//!
//! Patches in host memory have a copy on the device. These patches are divided into groups. If there are several
//! groups, the first and the last sweep of a call run group by group, unless `transfer=breadth_first` is set. The first
//! sweep of a group overlaps the upload of the next group. The last sweep of a group overlaps the download of the
//! previous group.

use super::data::{PatchData, choose_inverse_kind};
use super::lists::{FACE_VALUES, to_i32};
use crate::base::heap::FallibleArc;
use crate::cuda::call::FallibleSteps;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, BlockCopyArgs, BlockItem, BlockPatch, BlockSegment, ExchangeArgs, NormArgs, PatchArgs, RelaxArgs,
    RelaxLaunch,
};
use crate::cuda::staging::{Job, StagedCopies};
use crate::error::{Error, Result, collected, reserve};
use crate::smoother::patches::{BlockPartition, PatchList};
use crate::smoother::steps::{
    Callbacks, Method, NonfiniteCell, PatchArrays, SmootherSteps, SweepParameters, WorkDivision, colour_count,
};
use std::ops::Range;
use std::time::Instant;

/// Product of the factors 2 / (8 + 1) of three inverse transforms of length 8.
const TRANSFORM_WEIGHT: f64 = 8.0 / 729.0;

/// Use of the face buffers by a sweep. `reads_faces`: the sweep reads the faces of the previous sweep. `writes_faces`:
/// the sweep writes faces for the next sweep. `stores_ghosts`: the sweep reads faces, and also stores the values of
/// these faces in the ghost cells.
#[derive(Clone, Copy, Default)]
struct FaceUse {
    reads_faces: bool,
    writes_faces: bool,
    stores_ghosts: bool,
}

/// State of one call.
pub(super) struct Run<'a> {
    pub(super) data: &'a mut PatchData,
    /// Two streams. If a sweep runs group by group, the copies and kernels of successive groups alternate between the
    /// streams. All other work is on the first stream.
    pub(super) streams: [&'a Stream; 2],
    pub(super) copies: &'a mut StagedCopies,
    pub(super) tables: Address,
    /// `uses_transforms`: whether sine transforms apply the block inverses. `can_batch`: whether the device can apply
    /// dense inverses of 8^3 blocks stage by stage.
    pub(super) uses_transforms: bool,
    pub(super) can_batch: bool,
    pub(super) arrays: &'a mut dyn PatchArrays,
    pub(super) is_on_device: bool,
    pub(super) callbacks: &'a mut dyn Callbacks,
    pub(super) parameters: &'a SweepParameters,
    /// Index of the array with the current values, 0 or 1.
    pub(super) current_array: usize,
    /// `requested_sweeps`: number of sweeps that were requested so far, including the current one. `executed_ahead`:
    /// number of sweeps that were executed before they were requested.
    pub(super) requested_sweeps: usize,
    pub(super) executed_ahead: usize,
    /// `is_uploaded`: whether the device has the values of u and f. `is_downloaded`: whether the caller's host arrays
    /// have the result.
    pub(super) is_uploaded: bool,
    pub(super) is_downloaded: bool,
    /// Whether the second array of block Jacobi contains the caller's ghost cells.
    pub(super) has_copied_ghosts: bool,
    /// Whether an exchange of ghost cells between patches was requested, but has not been executed. The next step that
    /// reads or returns ghost cells executes the exchange first.
    pub(super) is_exchange_pending: bool,
    /// Whether the previous sweep wrote its faces to a face buffer. Sweeps are counted from 1: even sweeps write to the
    /// first of the two buffers, odd sweeps to the second.
    pub(super) has_written_faces: bool,
    /// Whether the last operation on the first stream is a kernel of this backend. The next kernel may then start
    /// before that kernel ends.
    pub(super) follows_kernel: bool,
    pub(super) seconds_transfer: f64,
    /// Error of the first step that failed.
    pub(super) first_error: Option<Error>,
}

impl Run<'_> {
    /// Returns the current patches.
    fn patch_list(&self) -> FallibleArc<PatchList> {
        self.data.patch_system.patch_list.clone()
    }

    /// Reserves device memory for patches in host memory, and copies the addresses of all arrays to the device.
    pub(super) fn prepare_arrays(&mut self) -> Result<()> {
        let patch_list = self.patch_list();
        let pointers = self.arrays.pointers();
        let (patches, data, stream) = (&patch_list.patches, &mut *self.data, self.streams[0]);
        if !self.is_on_device {
            if data.buffers.staging_arrays.u.len() != patches.len() {
                data.buffers.staging_arrays.allocate(
                    stream,
                    patches,
                    true,
                    "copies of patches that are on the host",
                )?;
            }
            if !pointers.r.is_empty() && data.buffers.residual_arrays.u.len() != patches.len() {
                data.buffers.residual_arrays.allocate(stream, patches, false, "residuals")?;
            }
        }
        let mut table_rows = std::mem::take(&mut data.buffers.host_patch_table);
        let mut has_changed = table_rows.len() != patches.len();
        let missing_rows = patches.len().saturating_sub(table_rows.len());
        reserve(&mut table_rows, missing_rows, "lists of patches")?;
        table_rows.resize(patches.len(), BlockPatch::default());
        for (p, table_row) in table_rows.iter_mut().enumerate() {
            let [nx, ny, nz] = patches[p].size.map(|n| n as i32);
            let second_array = data.buffers.second_array.u.get(p).copied().unwrap_or(0);
            let (u, f, r) = if self.is_on_device {
                let f = pointers.f.get(p).map_or(0, |f| *f as u64);
                (pointers.u[p] as u64, f, pointers.r.get(p).map_or(0, |r| *r as u64))
            } else {
                let r = if pointers.r.is_empty() { 0 } else { data.buffers.residual_arrays.u[p] };
                (data.buffers.staging_arrays.u[p], data.buffers.staging_arrays.f[p], r)
            };
            let new_row = BlockPatch { u: [u, second_array], f, r, nx, ny, nz, unused: 0 };
            has_changed |= *table_row != new_row;
            *table_row = new_row;
        }
        if has_changed && !table_rows.is_empty() {
            stream.send(data.buffers.patch_table.address(), &table_rows)?;
            stream.wait()?;
        }
        data.buffers.host_patch_table = table_rows;
        Ok(())
    }

    /// Returns the indices of all patches.
    fn all_patches(&self) -> Range<usize> {
        0..self.data.buffers.host_patch_table.len()
    }

    /// Copies u and, with `with_f`, f of patches in host memory to the device.
    fn upload(&mut self, patches: Range<usize>, with_f: bool, stream: usize) -> Result<()> {
        let start = Instant::now();
        let with_f = with_f && !self.arrays.pointers().f.is_empty();
        for p in patches {
            let (row, u) = (&self.data.buffers.host_patch_table[p], self.arrays.u(p));
            let (stream, u) = (self.streams[stream], Job::array_from_host(u, row.u[self.current_array]));
            if with_f {
                self.copies.send(stream, &[u, Job::array_from_host(self.arrays.f(p), row.f)])?;
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
            let job = Job::array_to_host(self.arrays.u_mut(p), self.data.buffers.host_patch_table[p].u[array]);
            self.copies.fetch(self.streams[stream], &[job])?;
        }
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// Waits for both streams.
    fn wait_for_streams(&mut self) -> Result<()> {
        let start = Instant::now();
        self.streams[0].wait()?;
        self.streams[1].wait()?;
        if !self.is_on_device {
            self.seconds_transfer += start.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// Uploads all patches in host memory, unless the device already has their values.
    fn ensure_uploaded(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_uploaded, true) {
            self.upload(self.all_patches(), true, 0)?;
            self.wait_for_streams()?;
        }
        Ok(())
    }

    /// Copies the ghost layer of array `source_array` to array `target_array`, for the second array of block Jacobi.
    /// Ghost cells that no patch covers change only in a callback. Without a callback, one copy per call of the
    /// smoother therefore suffices.
    fn copy_ghosts(
        &self,
        patches: Range<usize>,
        source_array: usize,
        target_array: usize,
        stream: usize,
    ) -> Result<()> {
        self.copy_values(patches, source_array, target_array, true, stream)
    }

    /// Copies u between the two arrays of each patch; with `ghosts_only`, only the ghost layer.
    fn copy_values(
        &self,
        patches: Range<usize>,
        source_array: usize,
        target_array: usize,
        ghosts_only: bool,
        stream: usize,
    ) -> Result<()> {
        let data = &*self.data;
        let (first_segment, end_segment) =
            (data.buffers.segments_before[patches.start], data.buffers.segments_before[patches.end]);
        if first_segment == end_segment {
            return Ok(());
        }
        let arguments = BlockCopyArgs {
            patches: data.buffers.patch_table.address(),
            segments: data.buffers.segments.address() + (first_segment * size_of::<BlockSegment>()) as u64,
            source_array: source_array as i32,
            target_array: target_array as i32,
            ghosts_only: i32::from(ghosts_only),
        };
        launch::copy_patches(self.streams[stream], &arguments, (end_segment - first_segment) as u32)
    }

    /// Launches the relaxation of one group of patches, or of all patches if `group` is `None`.
    fn launch_relaxation(
        &mut self,
        (plan, group): (usize, Option<usize>),
        (source, target): (usize, usize),
        face_use: FaceUse,
        stream: usize,
    ) -> Result<()> {
        let data = &mut *self.data;
        let face_memory = data.buffers.faces.address();
        let plan = &mut data.plans[plan];
        let (items, finished_counts, required_counts) =
            (plan.items.address(), plan.finished_counts.address(), plan.required_counts.address());
        let launch = group.map_or(&mut plan.all_patches_launch, |g| &mut plan.group_launches[g]);
        if launch.item_range.is_empty() {
            return Ok(());
        }
        let launch_count = launch.launch_count.wrapping_add(1);
        let is_asynchronous =
            self.parameters.method == Method::Chaotic && self.parameters.division != WorkDivision::WholePatches;
        let count_offset = (4 * launch.count_range.start) as u64;
        let mut arguments = RelaxArgs {
            patches: data.buffers.patch_table.address(),
            items: 0,
            tables: self.tables,
            finished_counts: finished_counts + count_offset,
            required_counts: required_counts + count_offset,
            launch_count,
            source_array: source as i32,
            target_array: target as i32,
            waits_for_own_chunk_only: i32::from(is_asynchronous),
            omega: self.parameters.omega,
            entries: data.patch_system.stencil.entries,
            count: 0,
            eigenvalue_terms: data.eigenvalue_terms,
            weight: TRANSFORM_WEIGHT,
            points: data.patch_system.stencil.point_count as i32,
            is_dense: i32::from(!self.uses_transforms),
            faces_read: 0,
            faces_written: 0,
            partners: plan.partners.address(),
            stores_ghosts: i32::from(face_use.stores_ghosts),
        };
        let face_buffer = |sweep: usize| face_memory + (sweep % 2 * 8 * FACE_VALUES * plan.face_count) as u64;
        if face_use.reads_faces {
            arguments.faces_read = face_buffer(self.requested_sweeps - 1);
        }
        if face_use.writes_faces {
            arguments.faces_written = face_buffer(self.requested_sweeps);
        }
        let follows_kernel = &mut self.follows_kernel;
        let follows_own_kernels = stream == 0;
        let (stream, has_only_cubes) = (self.streams[stream], launch.has_only_cubes && self.uses_transforms);
        let any_kernel = if data.patch_system.stencil.point_count == 7 { launch::relax_7 } else { launch::relax_27 };
        let start = launch.item_range.start;
        let mut launch_range = |range: Range<usize>, kernel: fn(&Stream, &RelaxArgs, RelaxLaunch) -> Result<()>| {
            if range.is_empty() {
                return Ok(());
            }
            arguments.items = items + ((start + range.start) * size_of::<BlockItem>()) as u64;
            arguments.count = to_i32(range.len(), "the number of blocks")? as u32;
            let configuration = RelaxLaunch {
                follows_kernel: std::mem::replace(follows_kernel, follows_own_kernels) && follows_own_kernels,
                multiprocessors: stream.device().multiprocessors,
            };
            kernel(stream, &arguments, configuration)
        };
        if launch.stages.is_empty() {
            let kernel = if has_only_cubes && data.patch_system.stencil.point_count == 7 {
                launch::relax_cubes
            } else {
                any_kernel
            };
            launch_range(0..launch.item_range.len(), kernel)?;
        }
        for [has_only_cubes, other_items] in &launch.stages {
            launch_range(has_only_cubes.clone(), launch::relax_dense)?;
            launch_range(other_items.clone(), any_kernel)?;
        }
        launch.launch_count = launch_count;
        Ok(())
    }

    /// Executes one sweep. If the patches are in host memory, the first sweep also uploads them. A last sweep that runs
    /// group by group also downloads them.
    fn run_sweep(&mut self, partition: &BlockPartition) -> Result<()> {
        let to_both_arrays = self.needs_both_arrays();
        self.requested_sweeps += 1;
        let is_jacobi = self.parameters.method == Method::Jacobi;
        if self.executed_ahead > 0 {
            self.executed_ahead -= 1;
            self.current_array ^= usize::from(is_jacobi);
            return Ok(());
        }
        let plan = self.find_plan(partition)?;
        let count = self.data.plans[plan].group_launches.len();
        let (is_first, has_monitor) = (!self.is_uploaded, self.callbacks.has_monitor());
        let is_last = self.requested_sweeps == self.parameters.sweeps && !has_monitor;
        if self.is_on_device || !(is_first || is_last) || count == 0 || !self.parameters.overlaps_copies {
            self.ensure_uploaded()?;
            if is_jacobi && self.needs_ghost_copy() {
                self.copy_ghosts(self.all_patches(), self.current_array, 1 - self.current_array, 0)?;
            }
            let is_last = self.requested_sweeps == self.parameters.sweeps;
            let reads_faces = std::mem::take(&mut self.has_written_faces);
            if reads_faces {
                self.is_exchange_pending = false;
                let plan = &self.data.plans[plan];
                self.copy_ghost_boxes(
                    plan.remaining_copies.address(),
                    plan.remaining_counts[usize::from(is_last)],
                    to_both_arrays,
                )?;
            } else {
                self.exchange_if_pending(to_both_arrays)?;
            }
            // This sweep writes its faces to a buffer only if
            // - the plan has faces, and the next sweep uses the same plan;
            // - the next sweep is one launch for all patches, as this sweep is;
            // - no callback reads ghost cells before the next sweep.
            let next_is_single_launch = self.is_on_device
                || count == 0
                || !self.parameters.overlaps_copies
                || self.requested_sweeps + 1 < self.parameters.sweeps;
            let plan_has_faces =
                self.data.plans[plan].face_count > 0 && self.parameters.partitions[0] == self.parameters.partitions[1];
            let writes_faces =
                plan_has_faces && !is_last && next_is_single_launch && !has_monitor && !self.callbacks.has_ghost_fill();
            self.launch_relaxation(
                (plan, None),
                self.array_pair(is_jacobi, 0),
                FaceUse { reads_faces, writes_faces, stores_ghosts: reads_faces && is_last },
                0,
            )?;
            self.has_written_faces = writes_faces;
            self.current_array ^= usize::from(is_jacobi);
            return Ok(());
        }
        // If there are neither copies between patches nor callbacks, the groups are independent. Each group then
        // executes all its sweeps before its download.
        let are_groups_independent =
            is_first && !has_monitor && !self.callbacks.has_ghost_fill() && self.data.buffers.ghost_copy_count == 0;
        let sweep_count = if are_groups_independent { self.parameters.sweeps - self.requested_sweeps + 1 } else { 1 };
        let plans = [plan, self.find_plan(&self.parameters.partitions[self.requested_sweeps % 2])?];
        let downloads = is_last || are_groups_independent;
        self.exchange_if_pending(to_both_arrays)?;
        let copies_ghosts = is_jacobi && self.needs_ghost_copy();
        self.wait_for_streams()?;
        for g in 0..self.data.groups.len() {
            let (group, stream) = (self.data.groups[g].clone(), g % 2);
            if is_first {
                self.upload(group.clone(), true, stream)?;
            }
            if copies_ghosts {
                self.copy_ghosts(group.clone(), self.current_array, 1 - self.current_array, stream)?;
            }
            for sweep in 0..sweep_count {
                self.launch_relaxation(
                    (plans[sweep % 2], Some(g)),
                    self.array_pair(is_jacobi, sweep),
                    FaceUse::default(),
                    stream,
                )?;
            }
            if downloads {
                let array = if is_jacobi { self.current_array ^ (sweep_count % 2) } else { self.current_array };
                self.download(group, array, stream)?;
            }
        }
        self.wait_for_streams()?;
        self.executed_ahead = sweep_count - 1;
        self.current_array ^= usize::from(is_jacobi);
        (self.is_uploaded, self.is_downloaded) = (true, downloads);
        Ok(())
    }

    /// Returns the indices of the arrays that a sweep reads and writes. `sweeps_later` is 0 for the next sweep, 1 for
    /// the sweep after it, and so on.
    fn array_pair(&self, is_jacobi: bool, sweeps_later: usize) -> (usize, usize) {
        let source = if is_jacobi { self.current_array ^ (sweeps_later % 2) } else { self.current_array };
        (source, if is_jacobi { 1 - source } else { source })
    }

    /// Returns whether `run_sweep` must now copy the ghost cells to the other array of block Jacobi: before the first
    /// sweep, and before every sweep if there is a ghost function. Records that the ghost cells have been copied.
    fn needs_ghost_copy(&mut self) -> bool {
        !std::mem::replace(&mut self.has_copied_ghosts, true) || self.callbacks.has_ghost_fill()
    }

    /// Returns the index of the plan for a partition, and builds the plan if it does not exist.
    fn find_plan(&mut self, partition: &BlockPartition) -> Result<usize> {
        // Usually, `prepare` has built the plan. If options have changed since then, the plan is built here.
        let kind = choose_inverse_kind(!self.uses_transforms, self.can_batch, partition);
        self.data.find_or_build_plan(self.streams[0], partition, self.parameters, kind)
    }

    /// Returns the arguments of the kernels that inspect values or compute residuals.
    fn patch_args(&self) -> PatchArgs {
        let data = &*self.data;
        PatchArgs {
            patches: data.buffers.patch_table.address(),
            regions: data.buffers.regions.address(),
            array_index: self.current_array as i32,
            sums: data.buffers.region_sums.address(),
            first_nonfinite: data.buffers.results.address(),
            entries: data.patch_system.stencil.entries,
            scale: 1.0,
        }
    }

    /// Finds the first value of u or f that is not finite.
    fn search_nonfinite(&mut self) -> Result<Option<NonfiniteCell>> {
        if self.data.buffers.region_count == 0 {
            return Ok(None);
        }
        self.ensure_uploaded()?;
        let (stream, results) = (self.streams[0], self.data.buffers.results.address());
        stream.fill(results, 0xff, 8)?;
        launch::inspect_patches(stream, &self.patch_args(), self.data.buffers.region_count)?;
        let mut value_number = [u64::MAX];
        stream.fetch(&mut value_number, results)?;
        stream.wait()?;
        let [value_number] = value_number.map(|n| n as usize);
        if value_number == usize::MAX {
            return Ok(None);
        }
        let patch_list = self.patch_list();
        let p = patch_list.cells_before.partition_point(|&cells| 2 * cells <= value_number) - 1;
        let (patch, table_row) = (&patch_list.patches[p], &self.data.buffers.host_patch_table[p]);
        let offset_in_patch = value_number - 2 * patch_list.cells_before[p];
        let (name, cell) = if offset_in_patch < patch.cell_count() {
            ("u", offset_in_patch)
        } else {
            ("f", offset_in_patch - patch.cell_count())
        };
        let [nx, ny, _] = patch.size;
        let cell_indices = [cell % nx, cell / nx % ny, cell / nx / ny];
        let (stride, plane) = patch.strides();
        let [i, j, k] = cell_indices;
        let address = match name {
            "u" => table_row.u[self.current_array] + 8 * ((k + 1) * plane + (j + 1) * stride + i + 1) as u64,
            _ => table_row.f + 8 * cell as u64,
        };
        let mut value = [0.0f64];
        stream.fetch(&mut value, address)?;
        stream.wait()?;
        Ok(Some(NonfiniteCell { name, value: value[0], patch: p, cell: cell_indices }))
    }

    /// Copies ghost cells between patches if a copy is pending; with `to_both_arrays`, to both arrays of block Jacobi.
    fn exchange_if_pending(&mut self, to_both_arrays: bool) -> Result<()> {
        if !std::mem::replace(&mut self.is_exchange_pending, false) {
            return Ok(());
        }
        self.copy_ghost_boxes(
            self.data.buffers.ghost_copies.address(),
            self.data.buffers.ghost_copy_count,
            to_both_arrays,
        )
    }

    /// Copies `count` boxes of ghost cells on the device; with `to_both_arrays`, to both arrays of block Jacobi.
    fn copy_ghost_boxes(&mut self, copies: Address, count: u32, to_both_arrays: bool) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let arguments = ExchangeArgs {
            patches: self.data.buffers.patch_table.address(),
            copies,
            array_index: self.current_array as i32,
            to_both_arrays: i32::from(to_both_arrays),
        };
        launch::exchange(self.streams[0], &arguments, count, std::mem::replace(&mut self.follows_kernel, true))
    }

    /// Returns whether the next sweep is the last sweep of block Jacobi. The array that the last sweep writes must
    /// contain the same ghost cells as the array that the last sweep reads.
    fn needs_both_arrays(&self) -> bool {
        self.parameters.method == Method::Jacobi && self.requested_sweeps + 1 >= self.parameters.sweeps
    }

    /// Copies ghost cells between patches in host memory, before the patches are uploaded.
    fn exchange_on_host(&mut self) {
        let patch_list = self.patch_list();
        let mut buffer = [0.0; 256];
        for copy in &patch_list.ghost_copies {
            let (source, target) = (&patch_list.patches[copy.source_patch], &patch_list.patches[copy.target_patch]);
            let ([x, y, z], [nx, ny, nz]) = (copy.cell_box.lower, copy.cell_box.size);
            for row in 0..ny * nz {
                for first in (0..nx).step_by(buffer.len()) {
                    let cell = [x + first as i64, y + (row % ny) as i64, z + (row / ny) as i64];
                    let buffer = &mut buffer[..nx.min(first + 256) - first];
                    buffer.copy_from_slice(&self.arrays.u(copy.source_patch)[source.index_of(cell)..][..buffer.len()]);
                    self.arrays.u_mut(copy.target_patch)[target.index_of(cell)..][..buffer.len()]
                        .copy_from_slice(buffer);
                }
            }
        }
    }
}

impl FallibleSteps for Run<'_> {
    fn first_error(&mut self) -> &mut Option<Error> {
        &mut self.first_error
    }
}

impl SmootherSteps for Run<'_> {
    fn find_nonfinite_cell(&mut self) -> Option<NonfiniteCell> {
        self.attempt(Self::search_nonfinite).flatten()
    }

    fn exchange_ghosts(&mut self) {
        if self.data.buffers.ghost_copy_count == 0 || self.executed_ahead > 0 {
            return;
        }
        if !self.is_uploaded {
            self.exchange_on_host();
            return;
        }
        self.is_exchange_pending = true;
        if self.callbacks.has_ghost_fill() || self.parameters.sweeps == self.requested_sweeps {
            self.step(|run| run.exchange_if_pending(run.needs_both_arrays()));
        }
    }

    fn fill_ghosts(&mut self, sweep: i32) -> bool {
        if !self.callbacks.has_ghost_fill() {
            return self.first_error.is_some();
        }
        let stop_requested = self.attempt(|run| {
            run.wait_for_streams()?;
            // The ghost function may enqueue kernels on the stream, so the next kernel must not start early.
            run.follows_kernel = false;
            if run.is_on_device {
                let current_arrays =
                    run.data.buffers.host_patch_table.iter().map(|r| r.u[run.current_array] as *mut f64);
                let current_arrays = collected(current_arrays, "addresses of patches")?;
                return Ok(run.callbacks.fill_ghosts(sweep, &current_arrays));
            }
            if run.is_uploaded {
                run.download(run.all_patches(), run.current_array, 0)?;
                run.wait_for_streams()?;
            }
            let stop_requested = run.callbacks.fill_ghosts(sweep, run.arrays.pointers().u);
            if run.is_uploaded {
                run.upload(run.all_patches(), false, 0)?;
                run.wait_for_streams()?;
            }
            Ok(stop_requested)
        });
        stop_requested.unwrap_or(true)
    }

    fn colour_count(&self) -> usize {
        colour_count(&self.data.patch_system.stencil)
    }

    fn sweep_jacobi(&mut self, partition: &BlockPartition, _: f64) {
        self.step(|run| run.run_sweep(partition));
    }

    fn relax_colour(&mut self, _: &BlockPartition, _: f64, _: usize) {
        self.first_error = Some(Error::Internal("a device processes all colours in one launch".to_owned()));
    }

    fn relax_all_colours(&mut self, partition: &BlockPartition, _: f64, _: bool) {
        self.step(|run| run.run_sweep(partition));
    }

    fn sweep_chaotic(&mut self, partition: &BlockPartition, _: f64, _: bool) {
        self.step(|run| run.run_sweep(partition));
    }

    fn compute_residual_norm(&mut self, scale: f64) -> f64 {
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
            launch::norm_patches(stream, &NormArgs { sums: run.data.buffers.region_sums.address(), count, norm })?;
            if !run.is_on_device {
                let start = Instant::now();
                for p in run.all_patches() {
                    if let Some(r) = run.arrays.r_mut(p) {
                        run.copies.fetch(stream, &[Job::array_to_host(r, run.data.buffers.host_patch_table[p].r)])?;
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

    fn has_monitor(&self) -> bool {
        self.callbacks.has_monitor()
    }

    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.first_error.is_some() || self.callbacks.report_residual(sweep, relative_residual)
    }

    fn store_result(&mut self) {
        self.step(|run| {
            run.exchange_if_pending(false)?;
            if run.is_on_device {
                if run.current_array == 1 {
                    run.copy_values(run.all_patches(), 1, 0, false, 0)?;
                    run.current_array = 0;
                }
            } else if run.is_uploaded && !run.is_downloaded {
                run.download(run.all_patches(), run.current_array, 0)?;
            }
            run.wait_for_streams()
        });
    }
}
