//! Data that the `cuda` backend of the block smoothers stores on the device between calls: work lists (`lists`), tables
//! and arrays.

use super::lists::{
    CUBE_SHAPE, FACE_VALUES, Faces, Order, SEGMENT_VALUES, Stages, TILE_SIDE, copy_boxes_of, items_of, to_i32,
};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, BlockPatch, BlockRegion, BlockSegment};
use crate::error::{Result, collected, extend, push, zeroed};
use crate::smoother::block_inverse::Stencil;
use crate::smoother::patches::{Cut, Patch};
use crate::smoother::steps::{Method, Parallel, PatchSystem, Work};
use bytemuck::NoUninit;
use std::ops::Range;

/// Minimum size in bytes of a group of patches, except for the last group. At this size, the start-up time of copies is
/// short compared with the copies.
const GROUP_BYTES: usize = 8 << 20;
/// Largest number of groups.
const MOST_GROUPS: usize = 32;

const PATCHES: &str = "lists of patches";
const CELLS: &str = "lists of cells";

/// Device memory that is reallocated only if it is too small.
#[derive(Default)]
pub(super) struct GrowingMemory(Option<Memory>);

impl GrowingMemory {
    /// Ensures at least `bytes` bytes and returns the address. A reallocation discards the contents.
    pub(super) fn ensure(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Address> {
        if self.0.as_ref().is_none_or(|m| m.bytes < bytes) {
            // Frees the old memory before the new memory is allocated.
            self.0 = None;
            self.0 = Some(Memory::zeroed(stream.device(), stream, bytes, what)?);
        }
        Ok(self.address())
    }

    /// Copies values to the memory, which is reallocated if it is too small. Waits for the copy, and returns the
    /// address.
    pub(super) fn store<T: NoUninit>(&mut self, stream: &Stream, values: &[T], what: &str) -> Result<Address> {
        let address = self.ensure(stream, size_of_val(values), what)?;
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
pub(super) struct Arrays {
    pub(super) memory: GrowingMemory,
    pub(super) u: Vec<Address>,
    pub(super) f: Vec<Address>,
}

impl Arrays {
    /// Allocates u and, if `with_f` is true, f of all patches. Every array begins at a multiple of 256 bytes.
    pub(super) fn allocate(&mut self, stream: &Stream, patches: &[Patch], with_f: bool, what: &str) -> Result<()> {
        // The old addresses are invalid if the allocation fails or gets another address.
        self.clear();
        let mut end = 0usize;
        let mut take = |len: usize| {
            let start = end as u64;
            end += (8 * len).next_multiple_of(256);
            start
        };
        let mut u = collected(patches.iter().map(|p| take(p.ghosted_cells())), PATCHES)?;
        let with_f = if with_f { patches } else { &[] };
        let mut f = collected(with_f.iter().map(|p| take(p.cells())), PATCHES)?;
        let base = self.memory.ensure(stream, end, what)?;
        for address in u.iter_mut().chain(&mut f) {
            *address += base;
        }
        (self.u, self.f) = (u, f);
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        (self.u, self.f) = (Vec::new(), Vec::new());
    }
}

/// One launch: the range of its items in the plan, and the range of the counters by which they wait for one another.
/// `cubes`: whether every item is one whole block of 8^3 cells.
pub(super) struct Launch {
    pub(super) items: Range<usize>,
    /// Range of indices into `progress` and `totals` of the plan.
    pub(super) progress: Range<usize>,
    pub(super) cubes: bool,
    /// Number of executions of this launch so far.
    pub(super) launches: u32,
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

/// Work lists of a sweep with one cut and one order.
pub(super) struct Plan {
    pub(super) cut: Cut,
    pub(super) order: Order,
    pub(super) items: GrowingMemory,
    pub(super) progress: GrowingMemory,
    pub(super) totals: GrowingMemory,
    pub(super) whole_launch: Launch,
    /// One launch per group of patches.
    pub(super) group_launches: Vec<Launch>,
    /// `face_count`: number of faces that tiles of different patches exchange. `partners`: for each face, the number of
    /// the adjacent face.
    pub(super) face_count: usize,
    pub(super) partners: GrowingMemory,
    /// Copies of the remaining ghost cells. `remaining_counts` contains the number of copies to ghost cells that a
    /// sweep reads, and the number of all copies.
    pub(super) remaining_copies: GrowingMemory,
    pub(super) remaining_counts: [u32; 2],
}

/// Returns the terms x, y and z, one after the other, of the eigenvalues Lambda = x[p] + y[q] + z[r] of blocks of 8^3
/// cells; x contains the center entry. The values are used only for 7-point stencils that sine transforms diagonalize.
pub(super) fn eigenvalue_terms(stencil: &Stencil) -> [f64; 3 * TILE_SIDE] {
    let mut values = [0.0; 3 * TILE_SIDE];
    let entries = [
        (stencil.at(-1, 0, 0), stencil.at(1, 0, 0)),
        (stencil.at(0, -1, 0), stencil.at(0, 1, 0)),
        (stencil.at(0, 0, -1), stencil.at(0, 0, 1)),
    ];
    for (d, (lower, upper)) in entries.into_iter().enumerate() {
        // Computes sgn(u) sqrt(l u), with l = `lower` and u = `upper`, without overflow of the product.
        let even = if lower == upper { upper } else { (lower / upper).sqrt() * upper };
        for p in 0..TILE_SIDE {
            let angle = std::f64::consts::PI * (p + 1) as f64 / (TILE_SIDE + 1) as f64;
            values[d * TILE_SIDE + p] = 2.0 * even * angle.cos() + if d == 0 { stencil.at(0, 0, 0) } else { 0.0 };
        }
    }
    values
}

/// Data of the current patches.
pub(super) struct Data {
    pub(super) patch_system: PatchSystem,
    pub(super) eigenvalue_terms: [f64; 3 * TILE_SIDE],
    pub(super) plans: Vec<Plan>,
    pub(super) groups: Vec<Range<usize>>,
    pub(super) buffers: Buffers,
}

/// Device memory that belongs to no plan, and the numbers of its elements. The memory is reused for new patches.
/// `patch_table` contains the addresses of the arrays of each patch, and `host_patch_table` is its copy on the host.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) ghost_copies: GrowingMemory,
    pub(super) ghost_copy_count: u32,
    pub(super) segments: GrowingMemory,
    pub(super) segments_before: Vec<usize>,
    pub(super) regions: GrowingMemory,
    pub(super) region_count: u32,
    pub(super) sums: GrowingMemory,
    /// Results of kernels: the number of the first value that is not finite, and a norm.
    pub(super) results: GrowingMemory,
    pub(super) patch_table: GrowingMemory,
    pub(super) host_patch_table: Vec<BlockPatch>,
    /// Values of the faces between tiles, in two buffers: for even and for odd sweeps.
    pub(super) faces: GrowingMemory,
    /// `second_array`: second array of block Jacobi. `staging`: device copies of patches in host memory. `resident`:
    /// arrays from `allocate_resident_arrays`. `residuals`: residuals of patches in host memory.
    pub(super) second_array: Arrays,
    pub(super) staging: Arrays,
    pub(super) resident: Arrays,
    pub(super) residuals: Arrays,
}

impl Plan {
    pub(super) fn new(
        stream: &Stream,
        patch_system: &PatchSystem,
        groups: &[Range<usize>],
        (cut, order): (Cut, Order),
        kind: InverseKind,
    ) -> Result<Self> {
        let all = 0..patch_system.list.patches.len();
        let (mut items, mut totals) = (Vec::new(), Vec::new());
        let mut launch = |range: Range<usize>, faces: &Faces| -> Result<Launch> {
            let in_stages = kind == InverseKind::DenseByStage;
            let (own, own_totals, stages) = items_of(patch_system, range, (&cut, order), faces, in_stages)?;
            let cubes = own.iter().all(|item| item.shape == CUBE_SHAPE);
            let starts = (items.len(), totals.len());
            extend(&mut items, own, "lists of blocks")?;
            extend(&mut totals, own_totals, "lists of blocks")?;
            Ok(Launch { items: starts.0..items.len(), progress: starts.1..totals.len(), cubes, launches: 0, stages })
        };
        let faces =
            if kind == InverseKind::Transforms { Faces::new(patch_system, &cut, order)? } else { Faces::default() };
        let face_count = faces.partners.len();
        let (boxes, needed) =
            if face_count > 0 { faces.remaining_copies(&patch_system.list, &cut, order)? } else { Default::default() };
        let remaining_counts = [to_i32(needed, "ghost copies")? as u32, to_i32(boxes.len(), "ghost copies")? as u32];
        let whole_launch = launch(all, &faces)?;
        let mut launches = Vec::new();
        for group in groups.iter().filter(|_| groups.len() > 1) {
            push(&mut launches, launch(group.clone(), &Faces::default())?, "lists of blocks")?;
        }
        let mut plan = Self {
            cut,
            order,
            items: GrowingMemory::default(),
            progress: GrowingMemory::default(),
            totals: GrowingMemory::default(),
            whole_launch,
            group_launches: launches,
            face_count,
            partners: GrowingMemory::default(),
            remaining_copies: GrowingMemory::default(),
            remaining_counts,
        };
        plan.partners.store(stream, &faces.partners, "lists of faces")?;
        plan.remaining_copies.store(stream, &boxes, "lists of faces")?;
        plan.items.store(stream, &items, "lists of blocks")?;
        plan.totals.store(stream, &totals, "lists of blocks")?;
        plan.progress.ensure(stream, 4 * totals.len(), "lists of blocks")?;
        Ok(plan)
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.items, &self.progress, &self.totals, &self.partners, &self.remaining_copies]
            .iter()
            .map(|r| r.bytes())
            .sum()
    }
}

/// Selects the method that applies the inverses of blocks with this cut.
pub(super) fn inverse_kind_of(dense: bool, can_batch: bool, cut: &Cut) -> InverseKind {
    match (dense, can_batch && cut.block == [TILE_SIDE; 3]) {
        (false, _) => InverseKind::Transforms,
        (true, false) => InverseKind::Dense,
        (true, true) => InverseKind::DenseByStage,
    }
}

/// Selects the order of the blocks in the sweeps of a call.
pub(super) fn order_of(work: &Work) -> Order {
    let reverse = work.reverse;
    match (work.method, work.parallel) {
        (Method::Jacobi, _) => Order::Together,
        (Method::Coloured, _) => Order::Colours { reverse },
        (Method::Chaotic, Parallel::Patches) => Order::Lexicographic { reverse },
        // Blocks start in this order. They wait for earlier colours only in their own chunk (`waits_for_own_chunk_only`
        // of the kernel).
        (Method::Chaotic, _) => Order::Colours { reverse },
    }
}

impl Data {
    pub(super) fn new(stream: &Stream, patch_system: PatchSystem, previous: Option<Self>) -> Result<Self> {
        let list = patch_system.list.clone();
        let patches = &list.patches;
        let eigenvalue_terms = eigenvalue_terms(&patch_system.stencil);
        let buffers = previous.map_or_else(Buffers::default, |old| old.buffers);
        let mut data = Self { patch_system, eigenvalue_terms, plans: Vec::new(), groups: Vec::new(), buffers };
        let buffers = &mut data.buffers;
        for arrays in [&mut buffers.second_array, &mut buffers.staging, &mut buffers.resident, &mut buffers.residuals] {
            arrays.clear();
        }
        buffers.host_patch_table.clear();
        buffers.results.ensure(stream, 16, "results")?;

        let group_bytes = (16 * list.cells()).div_ceil(MOST_GROUPS).max(GROUP_BYTES);
        let mut start = 0;
        for p in 1..=patches.len() {
            if p == patches.len() || 16 * (list.cells_before[p] - list.cells_before[start]) >= group_bytes {
                push(&mut data.groups, start..p, PATCHES)?;
                start = p;
            }
        }
        let copies = copy_boxes_of(&list)?;
        buffers.ghost_copies.store(stream, &copies, "the ghost copy plan")?;
        buffers.ghost_copy_count = to_i32(copies.len(), "the number of ghost copies")? as u32;
        let mut segments = Vec::new();
        buffers.segments_before = zeroed(patches.len() + 1, PATCHES)?;
        let mut regions = Vec::new();
        for (p, patch) in patches.iter().enumerate() {
            let number = to_i32(p, "the number of patches")?;
            let len = patch.ghosted_cells();
            for first in (0..len).step_by(SEGMENT_VALUES) {
                let count = SEGMENT_VALUES.min(len - first) as i32;
                push(&mut segments, BlockSegment { first: first as i64, patch: number, count }, CELLS)?;
            }
            buffers.segments_before[p + 1] = segments.len();
            let [nx, ny, nz] = patch.size;
            to_i32(nx.max(ny).max(nz) + 2, "a patch")?;
            let first = 2 * list.cells_before[p] as i64;
            for z in (0..nz).step_by(TILE_SIDE) {
                for y in (0..ny).step_by(TILE_SIDE) {
                    for x in (0..nx).step_by(TILE_SIDE) {
                        let (x, y, z) = (x as i32, y as i32, z as i32);
                        push(&mut regions, BlockRegion { patch: number, x, y, z, first_value: first }, CELLS)?;
                    }
                }
            }
        }
        buffers.segments.store(stream, &segments, CELLS)?;
        buffers.regions.store(stream, &regions, CELLS)?;
        buffers.region_count = to_i32(regions.len(), "the number of cells")? as u32;
        buffers.sums.ensure(stream, 8 * regions.len(), "sums")?;
        buffers.patch_table.ensure(stream, size_of::<BlockPatch>() * patches.len(), "patches")?;
        Ok(data)
    }

    pub(super) fn bytes(&self) -> usize {
        let r = &self.buffers;
        let arrays = [&r.second_array, &r.staging, &r.resident, &r.residuals].map(|a| &a.memory);
        let buffers = [&r.ghost_copies, &r.segments, &r.regions, &r.sums, &r.results, &r.patch_table, &r.faces];
        buffers.iter().chain(&arrays).map(|r| r.bytes()).sum::<usize>()
            + self.plans.iter().map(Plan::bytes).sum::<usize>()
    }

    /// Returns the index of the plan for one cut of a call. Builds the plan if it does not exist. Allocates the buffers
    /// for its faces if both cuts of the call are the same.
    pub(super) fn plan(&mut self, stream: &Stream, cut: &Cut, work: &Work, kind: InverseKind) -> Result<usize> {
        let order = order_of(work);
        let found = self.plans.iter().position(|p| p.cut == *cut && p.order == order);
        if found.is_none() {
            let plan = Plan::new(stream, &self.patch_system, &self.groups, (*cut, order), kind)?;
            push(&mut self.plans, plan, "plans of sweeps")?;
        }
        let index = found.unwrap_or(self.plans.len() - 1);
        let bytes = 2 * 8 * FACE_VALUES * self.plans[index].face_count;
        if work.cuts[0] == work.cuts[1] && self.buffers.faces.bytes() < bytes {
            self.buffers.faces.ensure(stream, bytes, "faces between patches")?;
            // The next call may use another stream, so the initialization must be complete.
            stream.wait()?;
        }
        Ok(index)
    }
}
