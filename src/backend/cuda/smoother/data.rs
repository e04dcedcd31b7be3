//! What the `cuda` backend of block smoothers keeps on the device between calls: lists of work (`lists`), tables,
//! arrays.

use super::lists::{CUBE, FACE, Faces, Order, SEGMENT, Stages, TILE, boxes_of, items_of, to_i32};
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch::{Address, BlockPatch, BlockRegion, BlockSegment};
use crate::backend::steps::smoother::{Blocks, Method, Parallel, Work};
use crate::error::{Result, collected, extend, push, zeroed};
use crate::grid::block_inverse::Stencil;
use crate::grid::patches::{Cut, Patch};
use bytemuck::NoUninit;
use std::ops::Range;

/// Bytes of a group of patches that travels alone, and groups at most: a copy is long against its start.
const GROUP_BYTES: usize = 8 << 20;
const MOST_GROUPS: usize = 32;

/// For errors.
const PATCHES: &str = "lists of patches";
const CELLS: &str = "lists of cells";

/// Memory that is taken again only when it is too small.
#[derive(Default)]
pub(super) struct Room(Option<Memory>);

impl Room {
    /// At least so many bytes; what was there may be gone.
    pub(super) fn need(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Address> {
        if self.0.as_ref().is_none_or(|m| m.bytes < bytes) {
            // Its memory first.
            self.0 = None;
            self.0 = Some(Memory::zeroed(stream.device(), stream, bytes, what)?);
        }
        Ok(self.address())
    }

    pub(super) fn put<T: NoUninit>(&mut self, stream: &Stream, values: &[T], what: &str) -> Result<Address> {
        let address = self.need(stream, size_of_val(values), what)?;
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

/// u and f of all patches in one piece of memory.
#[derive(Default)]
pub(super) struct Arrays {
    pub(super) room: Room,
    pub(super) u: Vec<Address>,
    pub(super) f: Vec<Address>,
}

impl Arrays {
    pub(super) fn lay_out(&mut self, stream: &Stream, patches: &[Patch], with_f: bool, what: &str) -> Result<()> {
        // What was there may be gone, whatever happens.
        self.clear();
        let mut end = 0usize;
        let mut take = |len: usize| {
            let start = end as u64;
            end += (8 * len).next_multiple_of(256);
            start
        };
        let mut u = collected(patches.iter().map(|p| take(p.ghosted())), PATCHES)?;
        let with_f = if with_f { patches } else { &[] };
        let mut f = collected(with_f.iter().map(|p| take(p.cells())), PATCHES)?;
        let base = self.room.need(stream, end, what)?;
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

/// One launch: items in order, and what they wait for.
pub(super) struct Launch {
    pub(super) items: Range<usize>,
    /// Places in `progress`.
    pub(super) progress: Range<usize>,
    pub(super) cubes: bool,
    /// Of this launch, so far.
    pub(super) launches: u32,
    /// With dense inverses: what is done one after the other instead, blocks of 8^3 and all others.
    pub(super) stages: Stages,
}

/// How blocks are solved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Transforms,
    /// Dense inverses: tile by tile, or those of 8^3 as one product.
    Dense,
    Stages,
}

/// What a sweep with one cut and order does.
pub(super) struct Plan {
    pub(super) cut: Cut,
    pub(super) order: Order,
    pub(super) items: Room,
    pub(super) progress: Room,
    pub(super) totals: Room,
    pub(super) whole: Launch,
    /// The same by groups of patches.
    pub(super) groups: Vec<Launch>,
    /// Faces that tiles of the whole hand each other, and for each the one beyond.
    pub(super) face_count: usize,
    pub(super) partners: Room,
    /// Ghost cells that are exchanged nevertheless: those that a sweep needs, and all.
    pub(super) rest: Room,
    pub(super) rest_counts: [u32; 2],
}

/// Lambda of blocks of 8^3 as x[p] + y[q] + z[r], for a 7-point stencil that transforms diagonalize.
pub(super) fn eigenvalues(stencil: &Stencil) -> [f64; 3 * TILE] {
    let mut values = [0.0; 3 * TILE];
    let legs = [
        (stencil.at(-1, 0, 0), stencil.at(1, 0, 0)),
        (stencil.at(0, -1, 0), stencil.at(0, 1, 0)),
        (stencil.at(0, 0, -1), stencil.at(0, 0, 1)),
    ];
    for (d, (lower, upper)) in legs.into_iter().enumerate() {
        // sgn(u) sqrt(l u), by factors that do not overflow.
        let even = if lower == upper { upper } else { (lower / upper).sqrt() * upper };
        for p in 0..TILE {
            let angle = std::f64::consts::PI * (p + 1) as f64 / (TILE + 1) as f64;
            values[d * TILE + p] = 2.0 * even * angle.cos() + if d == 0 { stencil.at(0, 0, 0) } else { 0.0 };
        }
    }
    values
}

/// What is known about the patches in use.
pub(super) struct Data {
    pub(super) blocks: Blocks,
    pub(super) eigenvalues: [f64; 3 * TILE],
    pub(super) plans: Vec<Plan>,
    pub(super) groups: Vec<Range<usize>>,
    pub(super) rooms: Rooms,
}

/// What lies on the device beside plans, and how much of it. Rooms of the patches before serve again.
#[derive(Default)]
pub(super) struct Rooms {
    pub(super) copies: Room,
    pub(super) copy_count: u32,
    pub(super) segments: Room,
    pub(super) segments_before: Vec<usize>,
    pub(super) regions: Room,
    pub(super) region_count: u32,
    pub(super) sums: Room,
    /// The first bad value, and a norm.
    pub(super) answers: Room,
    pub(super) table: Room,
    pub(super) rows: Vec<BlockPatch>,
    /// Faces between tiles: those of even sweeps, those of odd ones.
    pub(super) faces: Room,
    /// The second array of Jacobi; copies of patches that live on the host; arrays that stay; residuals.
    pub(super) other: Arrays,
    pub(super) staging: Arrays,
    pub(super) kept: Arrays,
    pub(super) residuals: Arrays,
}

impl Plan {
    pub(super) fn new(
        stream: &Stream,
        blocks: &Blocks,
        groups: &[Range<usize>],
        (cut, order): (Cut, Order),
        kind: Kind,
    ) -> Result<Self> {
        let all = 0..blocks.list.patches.len();
        let (mut items, mut totals) = (Vec::new(), Vec::new());
        let mut launch = |range: Range<usize>, faces: &Faces| -> Result<Launch> {
            let in_stages = kind == Kind::Stages;
            let (own, own_totals, stages) = items_of(blocks, range, (&cut, order), faces, in_stages)?;
            let cubes = own.iter().all(|item| item.shape == CUBE);
            let starts = (items.len(), totals.len());
            extend(&mut items, own, "lists of blocks")?;
            extend(&mut totals, own_totals, "lists of blocks")?;
            Ok(Launch { items: starts.0..items.len(), progress: starts.1..totals.len(), cubes, launches: 0, stages })
        };
        let faces = if kind == Kind::Transforms { Faces::new(blocks, &cut, order)? } else { Faces::default() };
        let face_count = faces.partners.len();
        let (boxes, needed) = if face_count > 0 { faces.rest(&blocks.list, &cut, order)? } else { Default::default() };
        let rest_counts = [to_i32(needed, "ghost copies")? as u32, to_i32(boxes.len(), "ghost copies")? as u32];
        let whole = launch(all, &faces)?;
        let mut launches = Vec::new();
        for group in groups.iter().filter(|_| groups.len() > 1) {
            push(&mut launches, launch(group.clone(), &Faces::default())?, "lists of blocks")?;
        }
        let mut plan = Self {
            cut,
            order,
            items: Room::default(),
            progress: Room::default(),
            totals: Room::default(),
            whole,
            groups: launches,
            face_count,
            partners: Room::default(),
            rest: Room::default(),
            rest_counts,
        };
        plan.partners.put(stream, &faces.partners, "lists of faces")?;
        plan.rest.put(stream, &boxes, "lists of faces")?;
        plan.items.put(stream, &items, "lists of blocks")?;
        plan.totals.put(stream, &totals, "lists of blocks")?;
        plan.progress.need(stream, 4 * totals.len(), "lists of blocks")?;
        Ok(plan)
    }

    pub(super) fn bytes(&self) -> usize {
        [&self.items, &self.progress, &self.totals, &self.partners, &self.rest].iter().map(|r| r.bytes()).sum()
    }
}

/// How blocks are solved that are cut so.
pub(super) fn kind_of(dense: bool, batches: bool, cut: &Cut) -> Kind {
    match (dense, batches && cut.block == [TILE; 3]) {
        (false, _) => Kind::Transforms,
        (true, false) => Kind::Dense,
        (true, true) => Kind::Stages,
    }
}

/// The order of a call's sweeps.
pub(super) fn order_of(work: &Work) -> Order {
    let reverse = work.reverse;
    match (work.method, work.parallel) {
        (Method::Jacobi, _) => Order::Together,
        (Method::Coloured, _) => Order::Colours { reverse },
        (Method::Chaotic, Parallel::Patches) => Order::Lexicographic { reverse },
        // The order in which they begin; nobody waits for other chunks.
        (Method::Chaotic, _) => Order::Colours { reverse },
    }
}

impl Data {
    pub(super) fn new(stream: &Stream, blocks: Blocks, previous: Option<Self>) -> Result<Self> {
        let list = blocks.list.clone();
        let patches = &list.patches;
        let eigenvalues = eigenvalues(&blocks.stencil);
        let rooms = previous.map_or_else(Rooms::default, |old| old.rooms);
        let mut data = Self { blocks, eigenvalues, plans: Vec::new(), groups: Vec::new(), rooms };
        let rooms = &mut data.rooms;
        for arrays in [&mut rooms.other, &mut rooms.staging, &mut rooms.kept, &mut rooms.residuals] {
            arrays.clear();
        }
        rooms.rows.clear();
        rooms.answers.need(stream, 16, "results")?;

        let group_bytes = (16 * list.cells()).div_ceil(MOST_GROUPS).max(GROUP_BYTES);
        let mut start = 0;
        for p in 1..=patches.len() {
            if p == patches.len() || 16 * (list.cells_before[p] - list.cells_before[start]) >= group_bytes {
                push(&mut data.groups, start..p, PATCHES)?;
                start = p;
            }
        }
        let copies = boxes_of(&list)?;
        rooms.copies.put(stream, &copies, "the ghost copy plan")?;
        rooms.copy_count = to_i32(copies.len(), "the number of ghost copies")? as u32;
        let mut segments = Vec::new();
        rooms.segments_before = zeroed(patches.len() + 1, PATCHES)?;
        let mut regions = Vec::new();
        for (p, patch) in patches.iter().enumerate() {
            let number = to_i32(p, "the number of patches")?;
            let len = patch.ghosted();
            for first in (0..len).step_by(SEGMENT) {
                let count = SEGMENT.min(len - first) as i32;
                push(&mut segments, BlockSegment { first: first as i64, patch: number, count }, CELLS)?;
            }
            rooms.segments_before[p + 1] = segments.len();
            let [nx, ny, nz] = patch.size;
            to_i32(nx.max(ny).max(nz) + 2, "a patch")?;
            let first = 2 * list.cells_before[p] as i64;
            for z in (0..nz).step_by(TILE) {
                for y in (0..ny).step_by(TILE) {
                    for x in (0..nx).step_by(TILE) {
                        let cell = [x as i32, y as i32, z as i32];
                        push(&mut regions, BlockRegion { patch: number, cell, number: first }, CELLS)?;
                    }
                }
            }
        }
        rooms.segments.put(stream, &segments, CELLS)?;
        rooms.regions.put(stream, &regions, CELLS)?;
        rooms.region_count = to_i32(regions.len(), "the number of cells")? as u32;
        rooms.sums.need(stream, 8 * regions.len(), "sums")?;
        rooms.table.need(stream, size_of::<BlockPatch>() * patches.len(), "patches")?;
        Ok(data)
    }

    pub(super) fn bytes(&self) -> usize {
        let r = &self.rooms;
        let arrays = [&r.other, &r.staging, &r.kept, &r.residuals].map(|a| &a.room);
        let rooms = [&r.copies, &r.segments, &r.regions, &r.sums, &r.answers, &r.table, &r.faces];
        rooms.iter().chain(&arrays).map(|r| r.bytes()).sum::<usize>()
            + self.plans.iter().map(Plan::bytes).sum::<usize>()
    }

    /// The plan of a call's sweeps with one of its cuts, and memory for the faces that these hand over.
    pub(super) fn plan(&mut self, stream: &Stream, cut: &Cut, work: &Work, kind: Kind) -> Result<usize> {
        let order = order_of(work);
        let found = self.plans.iter().position(|p| p.cut == *cut && p.order == order);
        if found.is_none() {
            let plan = Plan::new(stream, &self.blocks, &self.groups, (*cut, order), kind)?;
            push(&mut self.plans, plan, "plans of sweeps")?;
        }
        let place = found.unwrap_or(self.plans.len() - 1);
        let bytes = 2 * 8 * FACE * self.plans[place].face_count;
        if work.cuts[0] == work.cuts[1] && self.rooms.faces.bytes() < bytes {
            self.rooms.faces.need(stream, bytes, "faces between patches")?;
            // The next call may use another stream.
            stream.wait()?;
        }
        Ok(place)
    }
}
