//! Data that the `cuda` backend of the block smoothers stores on the device between calls: work lists (`lists`), tables
//! and arrays.

use super::lists::{
    BlockOrder, CUBE_SHAPE, FACE_VALUES, Faces, MAX_SEGMENT_VALUES, Stages, TILE_SIDE, build_copy_boxes, build_items,
    to_i32,
};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, BlockPatch, BlockRegion, BlockSegment};
use crate::error::{Result, collected, extend, push, zeroed};
use crate::smoother::block_inverse::Stencil;
use crate::smoother::patches::{BlockPartition, Patch};
use crate::smoother::steps::{Method, PatchSystem, SweepParameters, WorkDivision};
use bytemuck::NoUninit;
use std::ops::Range;

/// Minimum size in bytes of a group of patches, except for the last group. At this size, the start-up time of copies is
/// short compared with the copies.
const MIN_GROUP_BYTES: usize = 8 << 20;
/// Largest number of groups.
const MAX_GROUPS: usize = 32;

const PATCH_ALLOCATION_NAME: &str = "lists of patches";
const CELL_ALLOCATION_NAME: &str = "lists of cells";

/// Device memory that is reallocated only if it is too small.
#[derive(Default)]
pub(super) struct GrowingMemory(Option<Memory>);

impl GrowingMemory {
    /// Ensures at least `bytes` bytes and returns the address. A reallocation discards the contents.
    pub(super) fn ensure_capacity(&mut self, stream: &Stream, bytes: usize, allocation_name: &str) -> Result<Address> {
        if self.0.as_ref().is_none_or(|m| m.bytes < bytes) {
            // Frees the old memory before the new memory is allocated.
            self.0 = None;
            self.0 = Some(Memory::zeroed(stream.device(), stream, bytes, allocation_name)?);
        }
        Ok(self.address())
    }

    /// Copies values to the memory, which is reallocated if it is too small. Waits for the copy, and returns the
    /// address.
    pub(super) fn store_values<T: NoUninit>(
        &mut self,
        stream: &Stream,
        values: &[T],
        allocation_name: &str,
    ) -> Result<Address> {
        let address = self.ensure_capacity(stream, size_of_val(values), allocation_name)?;
        if !values.is_empty() {
            stream.send(address, values)?;
            stream.wait()?;
        }
        Ok(address)
    }

    pub(super) fn address(&self) -> Address {
        self.0.as_ref().map_or(0, |m| m.address)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |m| m.bytes)
    }
}

/// u and f of all patches in one allocation.
#[derive(Default)]
pub(super) struct DeviceArrays {
    pub(super) memory: GrowingMemory,
    pub(super) u: Vec<Address>,
    pub(super) f: Vec<Address>,
}

impl DeviceArrays {
    /// Allocates u and, if `with_f` is true, f of all patches. Every array begins at a multiple of 256 bytes.
    pub(super) fn allocate(
        &mut self,
        stream: &Stream,
        patches: &[Patch],
        with_f: bool,
        allocation_name: &str,
    ) -> Result<()> {
        // The old addresses are invalid if the allocation fails or moves the memory.
        self.clear();
        let mut total_bytes = 0usize;
        let mut reserve_array = |len: usize| {
            let start = total_bytes as u64;
            total_bytes += (8 * len).next_multiple_of(256);
            start
        };
        let mut u = collected(patches.iter().map(|p| reserve_array(p.ghosted_cell_count())), PATCH_ALLOCATION_NAME)?;
        let with_f = if with_f { patches } else { &[] };
        let mut f = collected(with_f.iter().map(|p| reserve_array(p.cell_count())), PATCH_ALLOCATION_NAME)?;
        let base_address = self.memory.ensure_capacity(stream, total_bytes, allocation_name)?;
        for address in u.iter_mut().chain(&mut f) {
            *address += base_address;
        }
        (self.u, self.f) = (u, f);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        (self.u, self.f) = (Vec::new(), Vec::new());
    }
}

/// One launch: the range of its items in the plan, and the range of the counters by which items wait for other items.
/// `has_only_cubes`: whether every item is one whole block of 8^3 cells.
pub(super) struct Launch {
    pub(super) item_range: Range<usize>,
    /// Range of indices into `finished_counts` and `required_counts` of the plan.
    pub(super) count_range: Range<usize>,
    pub(super) has_only_cubes: bool,
    /// Number of executions of this launch so far.
    pub(super) launch_count: u32,
    /// If dense inverses are applied stage by stage, the ranges of items that are launched one after the other. Empty
    /// in all other cases, in which all items are launched at once.
    pub(super) stages: Stages,
}

/// Method that applies the block inverses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InverseKind {
    /// Sine transforms.
    Transforms,
    /// Dense inverses, applied tile by tile.
    Dense,
    /// Dense inverses, applied stage by stage. The blocks of 8^3 cells of a stage are one matrix-matrix product.
    DenseByStage,
}

/// Work lists of a sweep with one partition and one order.
pub(super) struct Plan {
    pub(super) partition: BlockPartition,
    pub(super) order: BlockOrder,
    pub(super) items: GrowingMemory,
    pub(super) finished_counts: GrowingMemory,
    pub(super) required_counts: GrowingMemory,
    pub(super) all_patches_launch: Launch,
    /// One launch per group of patches.
    pub(super) group_launches: Vec<Launch>,
    /// `face_count`: number of faces that tiles of different patches exchange. `partners`: for each face, the number of
    /// the adjacent face.
    pub(super) face_count: usize,
    pub(super) partners: GrowingMemory,
    /// Copies of the ghost cells that no pair of faces covers; the copies of ghost cells that a sweep reads come first.
    /// `remaining_counts` contains the number of these first copies, and the number of all copies.
    pub(super) remaining_copies: GrowingMemory,
    pub(super) remaining_counts: [u32; 2],
}

/// Returns the arrays x, y and z, stored in this order, of the terms of the eigenvalues Lambda = x[p] + y[q] + z[r] of
/// blocks of 8^3 cells. The terms in x include the center entry of the stencil. The values are used only for 7-point
/// stencils that sine transforms diagonalize.
pub(super) fn eigenvalue_terms(stencil: &Stencil) -> [f64; 3 * TILE_SIDE] {
    let mut values = [0.0; 3 * TILE_SIDE];
    let mirror_entries = [
        (stencil.entry(-1, 0, 0), stencil.entry(1, 0, 0)),
        (stencil.entry(0, -1, 0), stencil.entry(0, 1, 0)),
        (stencil.entry(0, 0, -1), stencil.entry(0, 0, 1)),
    ];
    for (d, (lower, upper)) in mirror_entries.into_iter().enumerate() {
        // Computes sgn(u) sqrt(l u), with l = `lower` and u = `upper`, without overflow of the product.
        let even_entry = if lower == upper { upper } else { (lower / upper).sqrt() * upper };
        for p in 0..TILE_SIDE {
            let angle = std::f64::consts::PI * (p + 1) as f64 / (TILE_SIDE + 1) as f64;
            values[d * TILE_SIDE + p] =
                2.0 * even_entry * angle.cos() + if d == 0 { stencil.entry(0, 0, 0) } else { 0.0 };
        }
    }
    values
}

/// Data of the current patches.
pub(super) struct PatchData {
    pub(super) patch_system: PatchSystem,
    pub(super) eigenvalue_terms: [f64; 3 * TILE_SIDE],
    pub(super) plans: Vec<Plan>,
    pub(super) groups: Vec<Range<usize>>,
    pub(super) buffers: DeviceBuffers,
}

/// Device memory that all plans share, and the numbers of elements in it. The memory is reused for new patches.
/// `patch_table` contains the addresses of the arrays of each patch, and `host_patch_table` is its copy on the host.
#[derive(Default)]
pub(super) struct DeviceBuffers {
    pub(super) ghost_copies: GrowingMemory,
    pub(super) ghost_copy_count: u32,
    pub(super) segments: GrowingMemory,
    pub(super) segments_before: Vec<usize>,
    pub(super) regions: GrowingMemory,
    pub(super) region_count: u32,
    pub(super) region_sums: GrowingMemory,
    /// Results of kernels: the number of the first value that is not finite, and a norm.
    pub(super) results: GrowingMemory,
    pub(super) patch_table: GrowingMemory,
    pub(super) host_patch_table: Vec<BlockPatch>,
    /// Values of the faces between tiles, in two buffers: for even and for odd sweeps.
    pub(super) faces: GrowingMemory,
    /// `second_array`: second array of block Jacobi. `staging_arrays`: device copies of patches in host memory.
    /// `resident_arrays`: arrays from `allocate_resident_arrays`. `residual_arrays`: residuals of patches in host
    /// memory.
    pub(super) second_array: DeviceArrays,
    pub(super) staging_arrays: DeviceArrays,
    pub(super) resident_arrays: DeviceArrays,
    pub(super) residual_arrays: DeviceArrays,
}

impl Plan {
    pub(super) fn new(
        stream: &Stream,
        patch_system: &PatchSystem,
        groups: &[Range<usize>],
        (partition, order): (BlockPartition, BlockOrder),
        inverse_kind: InverseKind,
    ) -> Result<Self> {
        let all_patches = 0..patch_system.patch_list.patches.len();
        let (mut items, mut required_counts) = (Vec::new(), Vec::new());
        let mut add_launch = |range: Range<usize>, faces: &Faces| -> Result<Launch> {
            let is_by_stage = inverse_kind == InverseKind::DenseByStage;
            let (new_items, new_required_counts, stages) =
                build_items(patch_system, range, (&partition, order), faces, is_by_stage)?;
            let has_only_cubes = new_items.iter().all(|item| item.shape == CUBE_SHAPE);
            let start_indices = (items.len(), required_counts.len());
            extend(&mut items, new_items, "lists of blocks")?;
            extend(&mut required_counts, new_required_counts, "lists of blocks")?;
            Ok(Launch {
                item_range: start_indices.0..items.len(),
                count_range: start_indices.1..required_counts.len(),
                has_only_cubes,
                launch_count: 0,
                stages,
            })
        };
        let faces = if inverse_kind == InverseKind::Transforms {
            Faces::new(patch_system, &partition, order)?
        } else {
            Faces::default()
        };
        let face_count = faces.partners.len();
        let (remaining_boxes, needed_count) = if face_count > 0 {
            faces.remaining_copies(&patch_system.patch_list, &partition, order)?
        } else {
            Default::default()
        };
        let remaining_counts =
            [to_i32(needed_count, "ghost copies")? as u32, to_i32(remaining_boxes.len(), "ghost copies")? as u32];
        let all_patches_launch = add_launch(all_patches, &faces)?;
        let mut launches = Vec::new();
        for group in groups.iter().filter(|_| groups.len() > 1) {
            push(&mut launches, add_launch(group.clone(), &Faces::default())?, "lists of blocks")?;
        }
        let mut plan = Self {
            partition,
            order,
            items: GrowingMemory::default(),
            finished_counts: GrowingMemory::default(),
            required_counts: GrowingMemory::default(),
            all_patches_launch,
            group_launches: launches,
            face_count,
            partners: GrowingMemory::default(),
            remaining_copies: GrowingMemory::default(),
            remaining_counts,
        };
        plan.partners.store_values(stream, &faces.partners, "lists of faces")?;
        plan.remaining_copies.store_values(stream, &remaining_boxes, "lists of faces")?;
        plan.items.store_values(stream, &items, "lists of blocks")?;
        plan.required_counts.store_values(stream, &required_counts, "lists of blocks")?;
        plan.finished_counts.ensure_capacity(stream, 4 * required_counts.len(), "lists of blocks")?;
        Ok(plan)
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.items, &self.finished_counts, &self.required_counts, &self.partners, &self.remaining_copies]
            .iter()
            .map(|r| r.bytes())
            .sum()
    }
}

/// Selects the method that applies the inverses of blocks with this partition.
pub(super) fn choose_inverse_kind(is_dense: bool, can_batch: bool, partition: &BlockPartition) -> InverseKind {
    match (is_dense, can_batch && partition.block == [TILE_SIDE; 3]) {
        (false, _) => InverseKind::Transforms,
        (true, false) => InverseKind::Dense,
        (true, true) => InverseKind::DenseByStage,
    }
}

/// Selects the order of the blocks in the sweeps of a call.
pub(super) fn choose_order(parameters: &SweepParameters) -> BlockOrder {
    let reverse = parameters.reverse;
    match (parameters.method, parameters.division) {
        (Method::Jacobi, _) => BlockOrder::AllAtOnce,
        (Method::Coloured, _) => BlockOrder::Colours { reverse },
        (Method::Chaotic, WorkDivision::WholePatches) => BlockOrder::Lexicographic { reverse },
        // Blocks start in this order. They wait for earlier colours only in their own chunk (`waits_for_own_chunk_only`
        // of the kernel).
        (Method::Chaotic, _) => BlockOrder::Colours { reverse },
    }
}

impl PatchData {
    pub(super) fn new(stream: &Stream, patch_system: PatchSystem, previous: Option<Self>) -> Result<Self> {
        let patch_list = patch_system.patch_list.clone();
        let patches = &patch_list.patches;
        let eigenvalue_terms = eigenvalue_terms(&patch_system.stencil);
        let buffers = previous.map_or_else(DeviceBuffers::default, |previous| previous.buffers);
        let mut data = Self { patch_system, eigenvalue_terms, plans: Vec::new(), groups: Vec::new(), buffers };
        let buffers = &mut data.buffers;
        for arrays in [
            &mut buffers.second_array,
            &mut buffers.staging_arrays,
            &mut buffers.resident_arrays,
            &mut buffers.residual_arrays,
        ] {
            arrays.clear();
        }
        buffers.host_patch_table.clear();
        buffers.results.ensure_capacity(stream, 16, "results")?;

        let group_bytes = (16 * patch_list.cell_count()).div_ceil(MAX_GROUPS).max(MIN_GROUP_BYTES);
        let mut start = 0;
        for p in 1..=patches.len() {
            if p == patches.len() || 16 * (patch_list.cells_before[p] - patch_list.cells_before[start]) >= group_bytes {
                push(&mut data.groups, start..p, PATCH_ALLOCATION_NAME)?;
                start = p;
            }
        }
        let copy_boxes = build_copy_boxes(&patch_list)?;
        buffers.ghost_copies.store_values(stream, &copy_boxes, "the ghost copy plan")?;
        buffers.ghost_copy_count = to_i32(copy_boxes.len(), "the number of ghost copies")? as u32;
        let mut segments = Vec::new();
        buffers.segments_before = zeroed(patches.len() + 1, PATCH_ALLOCATION_NAME)?;
        let mut regions = Vec::new();
        for (p, patch) in patches.iter().enumerate() {
            let patch_number = to_i32(p, "the number of patches")?;
            let len = patch.ghosted_cell_count();
            for first_index in (0..len).step_by(MAX_SEGMENT_VALUES) {
                let count = MAX_SEGMENT_VALUES.min(len - first_index) as i32;
                push(
                    &mut segments,
                    BlockSegment { first_index: first_index as i64, patch: patch_number, value_count: count },
                    CELL_ALLOCATION_NAME,
                )?;
            }
            buffers.segments_before[p + 1] = segments.len();
            let [nx, ny, nz] = patch.size;
            to_i32(nx.max(ny).max(nz) + 2, "a patch")?;
            let first_value = 2 * patch_list.cells_before[p] as i64;
            for z in (0..nz).step_by(TILE_SIDE) {
                for y in (0..ny).step_by(TILE_SIDE) {
                    for x in (0..nx).step_by(TILE_SIDE) {
                        let (x, y, z) = (x as i32, y as i32, z as i32);
                        push(
                            &mut regions,
                            BlockRegion { patch: patch_number, x, y, z, first_value },
                            CELL_ALLOCATION_NAME,
                        )?;
                    }
                }
            }
        }
        buffers.segments.store_values(stream, &segments, CELL_ALLOCATION_NAME)?;
        buffers.regions.store_values(stream, &regions, CELL_ALLOCATION_NAME)?;
        buffers.region_count = to_i32(regions.len(), "the number of cells")? as u32;
        buffers.region_sums.ensure_capacity(stream, 8 * regions.len(), "sums")?;
        buffers.patch_table.ensure_capacity(stream, size_of::<BlockPatch>() * patches.len(), "patches")?;
        Ok(data)
    }

    pub(super) fn bytes(&self) -> usize {
        let buffers = &self.buffers;
        let arrays =
            [&buffers.second_array, &buffers.staging_arrays, &buffers.resident_arrays, &buffers.residual_arrays]
                .map(|a| &a.memory);
        let other_memory = [
            &buffers.ghost_copies,
            &buffers.segments,
            &buffers.regions,
            &buffers.region_sums,
            &buffers.results,
            &buffers.patch_table,
            &buffers.faces,
        ];
        other_memory.iter().chain(&arrays).map(|memory| memory.bytes()).sum::<usize>()
            + self.plans.iter().map(Plan::bytes).sum::<usize>()
    }

    /// Returns the index of the plan for one partition of a call. Builds the plan if it does not exist. If both
    /// partitions of the call are the same, also allocates the buffers for the faces of the plan.
    pub(super) fn find_or_build_plan(
        &mut self,
        stream: &Stream,
        partition: &BlockPartition,
        parameters: &SweepParameters,
        inverse_kind: InverseKind,
    ) -> Result<usize> {
        let order = choose_order(parameters);
        let existing = self.plans.iter().position(|p| p.partition == *partition && p.order == order);
        if existing.is_none() {
            let plan = Plan::new(stream, &self.patch_system, &self.groups, (*partition, order), inverse_kind)?;
            push(&mut self.plans, plan, "plans of sweeps")?;
        }
        let index = existing.unwrap_or(self.plans.len() - 1);
        let face_bytes = 2 * 8 * FACE_VALUES * self.plans[index].face_count;
        if parameters.partitions[0] == parameters.partitions[1] && self.buffers.faces.bytes() < face_bytes {
            self.buffers.faces.ensure_capacity(stream, face_bytes, "faces between patches")?;
            // The next call may use another stream, so the initialization must be complete.
            stream.wait()?;
        }
        Ok(index)
    }
}
