//! Block relaxation on a CUDA device: kernels/block_smoother.cu has the tiles and the order in which they are done,
//! `block_lists` the lists of them, this file what a call does.
//!
//! A sweep is one launch for all patches. In a call of several sweeps of patches that are on the device, tiles at the edge of
//! a patch hand their faces to those beyond, which read them in the next sweep; ghost cells are exchanged before the first
//! sweep, and filled by the last one. Patches that live on the host have a copy on the device; where more than one sweep
//! follows or others need their ghost cells, they come and go in groups: the first sweep of a group runs while the next group
//! comes, the last one while the group before goes.

use super::block_lists::{CUBE, FACE, Faces, Order, SEGMENT, Stages, TILE, boxes_of, items_of, to_i32};
use super::driver::{Device, Memory, Stream};
use super::launch::{
    self, Address, BlockCopyArgs, BlockItem, BlockPatch, BlockRegion, BlockSegment, BlockTables, ExchangeArgs,
    LookArgs, NormArgs, RelaxArgs,
};
use crate::backend::blocks::{
    BadCell, BlockBackend, BlockProgram, BlockSteps, Blocks, Inverse, Kept, Method, Parallel, PatchArrays, Swept,
    Watcher, Work, colours,
};
use crate::error::{Error, Result};
use crate::grid::block_inverse::{Shape, Stencil};
use crate::grid::patches::{Cut, Patch, PatchList};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of a group of patches that travels alone, and groups at most: a copy is long against its start.
const GROUP_BYTES: usize = 8 << 20;
const MOST_GROUPS: usize = 32;

/// The `cuda` backend of block smoothers.
pub struct CudaBlocks {
    // Dropped in this order: what lies on the device before the device.
    data: Option<Data>,
    inverses: Vec<Option<Memory>>,
    /// They are dense: all of them, or none.
    dense: bool,
    /// The device has room for the product of many blocks.
    batches: bool,
    tables: Memory,
    own: Stream,
    second: Stream,
    caller: Option<(usize, Stream)>,
    device: Arc<Device>,
    seconds_transfer: f64,
}

/// Memory that is taken again only when it is too small.
#[derive(Default)]
struct Room(Option<Memory>);

impl Room {
    /// At least so many bytes; what was there may be gone.
    fn need(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Address> {
        if self.0.as_ref().is_none_or(|m| m.bytes < bytes) {
            // Its memory first.
            self.0 = None;
            self.0 = Some(Memory::zeroed(stream.device(), stream, bytes, what)?);
        }
        Ok(self.address())
    }

    fn put<T: Copy>(&mut self, stream: &Stream, values: &[T], what: &str) -> Result<Address> {
        let address = self.need(stream, size_of_val(values), what)?;
        if !values.is_empty() {
            stream.send(address, values)?;
            stream.wait()?;
        }
        Ok(address)
    }

    fn address(&self) -> Address {
        self.0.as_ref().map_or(0, |m| m.address)
    }

    fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |m| m.bytes)
    }
}

/// u and f of all patches in one piece of memory.
#[derive(Default)]
struct Arrays {
    room: Room,
    u: Vec<Address>,
    f: Vec<Address>,
}

impl Arrays {
    fn lay_out(&mut self, stream: &Stream, patches: &[Patch], with_f: bool, what: &str) -> Result<()> {
        let mut end = 0usize;
        let mut take = |len: usize| {
            let start = end as u64;
            end += (8 * len).next_multiple_of(256);
            start
        };
        self.u = patches.iter().map(|p| take(p.ghosted())).collect();
        self.f = if with_f { patches.iter().map(|p| take(p.cells())).collect() } else { Vec::new() };
        let base = self.room.need(stream, end, what)?;
        for address in self.u.iter_mut().chain(&mut self.f) {
            *address += base;
        }
        Ok(())
    }

    fn clear(&mut self) {
        (self.u, self.f) = (Vec::new(), Vec::new());
    }
}

/// One launch: items in order, and what they wait for.
struct Launch {
    items: Range<usize>,
    /// Places in `progress`.
    progress: Range<usize>,
    cubes: bool,
    /// Of this launch, so far.
    launches: u32,
    /// With dense inverses: what is done one after the other instead, blocks of 8^3 and all others.
    stages: Stages,
}

/// How blocks are solved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Transforms,
    /// Dense inverses: tile by tile, or those of 8^3 as one product.
    Dense,
    Stages,
}

/// What a sweep with one cut and order does.
struct Plan {
    cut: Cut,
    order: Order,
    items: Room,
    progress: Room,
    totals: Room,
    whole: Launch,
    /// The same by groups of patches.
    groups: Vec<Launch>,
    /// Faces that tiles of the whole hand each other, and for each the one beyond.
    face_count: usize,
    partners: Room,
    /// Ghost cells that are exchanged nevertheless: those that a sweep needs, and all.
    rest: Room,
    rest_counts: [u32; 2],
}

/// 2 / (b + 1) of three inverse transforms of length 8.
const WEIGHT: f64 = 8.0 / 729.0;

/// Lambda of blocks of 8^3 as x[p] + y[q] + z[r], for a 7-point stencil that transforms diagonalize.
fn eigenvalues(stencil: &Stencil) -> [f64; 3 * TILE] {
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
struct Data {
    blocks: Blocks,
    eigenvalues: [f64; 3 * TILE],
    plans: Vec<Plan>,
    groups: Vec<Range<usize>>,
    copies: Room,
    copy_count: u32,
    segments: Room,
    segments_before: Vec<usize>,
    regions: Room,
    region_count: u32,
    sums: Room,
    /// The first bad value, and a norm.
    answers: Memory,
    table: Room,
    rows: Vec<BlockPatch>,
    /// Faces between tiles: those of even sweeps, those of odd ones.
    faces: Room,
    /// The second array of Jacobi; copies of patches that live on the host; arrays that stay; residuals.
    other: Arrays,
    staging: Arrays,
    kept: Arrays,
    residuals: Arrays,
}

fn place_of([x, y, z]: Shape) -> usize {
    ((z - 1) * TILE + y - 1) * TILE + x - 1
}

/// Place in the rows of a dense inverse of 8^3 blocks of its packed value number p (kernels/block_smoother.cu).
fn packed_place(p: usize, n: usize) -> usize {
    let (e, lane, h, m, w, q) = (p & 1, p >> 1 & 31, p >> 6 & 1, p >> 7 & 1, p >> 8 & 15, p >> 12);
    let (row, column) = (32 * w + 16 * m + lane / 4 + 8 * e, 8 * q + 2 * (lane % 4) + h);
    row * n + column
}

fn no_patches() -> Error {
    Error::Internal("there are no patches".to_owned())
}

impl Plan {
    fn new(
        stream: &Stream,
        blocks: &Blocks,
        groups: &[Range<usize>],
        (cut, order): (Cut, Order),
        kind: Kind,
    ) -> Result<Self> {
        let all = 0..blocks.list.patches.len();
        let (mut items, mut totals) = (Vec::new(), Vec::new());
        let mut launch = |range: Range<usize>, faces: &Faces| {
            let in_stages = kind == Kind::Stages;
            let (own, own_totals, stages) = items_of(blocks, range, (&cut, order), faces, in_stages)?;
            let cubes = own.iter().all(|item| item.shape == CUBE);
            let starts = (items.len(), totals.len());
            items.extend(own);
            totals.extend(own_totals);
            Ok(Launch { items: starts.0..items.len(), progress: starts.1..totals.len(), cubes, launches: 0, stages })
        };
        let faces = if kind == Kind::Transforms { Faces::new(blocks, &cut, order)? } else { Faces::default() };
        let face_count = faces.partners.len();
        let (boxes, needed) = if face_count > 0 { faces.rest(&blocks.list, &cut, order)? } else { Default::default() };
        let rest_counts = [to_i32(needed, "ghost copies")? as u32, to_i32(boxes.len(), "ghost copies")? as u32];
        let whole = launch(all, &faces)?;
        let groups = if groups.len() > 1 {
            groups.iter().map(|group| launch(group.clone(), &Faces::default())).collect::<Result<Vec<_>>>()?
        } else {
            Vec::new()
        };
        let mut plan = Self {
            cut,
            order,
            items: Room::default(),
            progress: Room::default(),
            totals: Room::default(),
            whole,
            groups,
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

    fn bytes(&self) -> usize {
        [&self.items, &self.progress, &self.totals, &self.partners, &self.rest].iter().map(|r| r.bytes()).sum()
    }
}

/// How blocks are solved that are cut so.
fn kind_of(dense: bool, batches: bool, cut: &Cut) -> Kind {
    match (dense, batches && cut.block == [TILE; 3]) {
        (false, _) => Kind::Transforms,
        (true, false) => Kind::Dense,
        (true, true) => Kind::Stages,
    }
}

/// The order of a call's sweeps.
fn order_of(work: &Work) -> Order {
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
    fn new(stream: &Stream, blocks: Blocks, previous: Option<Self>) -> Result<Self> {
        let list = Arc::clone(&blocks.list);
        let patches = &list.patches;
        // Rooms of the patches before serve again.
        let mut data = match previous {
            Some(old) => {
                Self { eigenvalues: eigenvalues(&blocks.stencil), blocks, plans: Vec::new(), groups: Vec::new(), ..old }
            }
            None => Self {
                eigenvalues: eigenvalues(&blocks.stencil),
                blocks,
                plans: Vec::new(),
                groups: Vec::new(),
                copies: Room::default(),
                copy_count: 0,
                segments: Room::default(),
                segments_before: Vec::new(),
                regions: Room::default(),
                region_count: 0,
                sums: Room::default(),
                answers: Memory::zeroed(stream.device(), stream, 16, "results")?,
                table: Room::default(),
                rows: Vec::new(),
                faces: Room::default(),
                other: Arrays::default(),
                staging: Arrays::default(),
                kept: Arrays::default(),
                residuals: Arrays::default(),
            },
        };
        for arrays in [&mut data.other, &mut data.staging, &mut data.kept, &mut data.residuals] {
            arrays.clear();
        }
        data.rows.clear();

        let group_bytes = (16 * list.cells()).div_ceil(MOST_GROUPS).max(GROUP_BYTES);
        let mut start = 0;
        for p in 1..=patches.len() {
            if p == patches.len() || 16 * (list.cells_before[p] - list.cells_before[start]) >= group_bytes {
                data.groups.push(start..p);
                start = p;
            }
        }
        let copies = boxes_of(&list)?;
        data.copies.put(stream, &copies, "the ghost copy plan")?;
        data.copy_count = to_i32(copies.len(), "the number of ghost copies")? as u32;
        let mut segments = Vec::new();
        data.segments_before = vec![0];
        let mut regions = Vec::new();
        for (p, patch) in patches.iter().enumerate() {
            let number = to_i32(p, "the number of patches")?;
            let len = patch.ghosted();
            for first in (0..len).step_by(SEGMENT) {
                let count = SEGMENT.min(len - first) as i32;
                segments.push(BlockSegment { first: first as i64, patch: number, count });
            }
            data.segments_before.push(segments.len());
            let [nx, ny, nz] = patch.size;
            to_i32(nx.max(ny).max(nz) + 2, "a patch")?;
            for z in (0..nz).step_by(TILE) {
                for y in (0..ny).step_by(TILE) {
                    for x in (0..nx).step_by(TILE) {
                        let cell = [x as i32, y as i32, z as i32];
                        regions.push(BlockRegion { patch: number, cell, number: 2 * list.cells_before[p] as i64 });
                    }
                }
            }
        }
        data.segments.put(stream, &segments, "lists of cells")?;
        data.regions.put(stream, &regions, "lists of cells")?;
        data.region_count = to_i32(regions.len(), "the number of cells")? as u32;
        data.sums.need(stream, 8 * regions.len(), "sums")?;
        data.table.need(stream, size_of::<BlockPatch>() * patches.len(), "patches")?;
        Ok(data)
    }

    fn bytes(&self) -> usize {
        let rooms = [&self.copies, &self.segments, &self.regions, &self.sums, &self.table, &self.faces];
        let arrays = [&self.other, &self.staging, &self.kept, &self.residuals];
        rooms.iter().map(|r| r.bytes()).sum::<usize>()
            + arrays.iter().map(|a| a.room.bytes()).sum::<usize>()
            + self.plans.iter().map(Plan::bytes).sum::<usize>()
            + self.answers.bytes
    }

    /// The plan of a call's sweeps with one of its cuts, and memory for the faces that these hand over.
    fn plan(&mut self, stream: &Stream, cut: &Cut, work: &Work, kind: Kind) -> Result<usize> {
        let order = order_of(work);
        let found = self.plans.iter().position(|p| p.cut == *cut && p.order == order);
        if found.is_none() {
            self.plans.push(Plan::new(stream, &self.blocks, &self.groups, (*cut, order), kind)?);
        }
        let place = found.unwrap_or(self.plans.len() - 1);
        let bytes = 2 * 8 * FACE * self.plans[place].face_count;
        if work.cuts[0] == work.cuts[1] && self.faces.bytes() < bytes {
            self.faces.need(stream, bytes, "faces between patches")?;
            // The next call may use another stream.
            stream.wait()?;
        }
        Ok(place)
    }
}

impl CudaBlocks {
    /// On the device with this ordinal.
    pub fn new(ordinal: i64) -> Result<Self> {
        let device = Device::open(ordinal, launch::NAMES)?;
        let (own, second) = (Stream::new(&device)?, Stream::new(&device)?);
        let entered = device.enter()?;
        let bytes = TILE.pow(3) * size_of::<BlockTables>();
        let tables = Memory::zeroed(&device, &own, bytes, "tables of blocks")?;
        let batches = launch::allow_dense(&device);
        drop(entered);
        let inverses = (0..TILE.pow(3)).map(|_| None).collect();
        Ok(Self {
            data: None,
            inverses,
            dense: false,
            batches,
            tables,
            own,
            second,
            caller: None,
            device,
            seconds_transfer: 0.0,
        })
    }
}

/// The caller's stream, or our own.
macro_rules! stream {
    ($self:ident) => {
        $self.caller.as_ref().map_or(&$self.own, |(_, s)| s)
    };
}

impl BlockBackend for CudaBlocks {
    fn has_inverse(&self, shape: Shape) -> bool {
        self.inverses[place_of(shape)].is_some()
    }

    fn add_inverse(&mut self, shape: Shape, inverse: Inverse) -> Result<()> {
        let device = Arc::clone(&self.device);
        let _entered = device.enter()?;
        let stream = stream!(self);
        let n: usize = shape.iter().product();
        let (values, dense, scaled) = match inverse {
            // By columns, so that threads of neighbouring rows read neighbouring values; and as lanes of a product read it.
            Inverse::Dense(rows) => {
                let mut values: Vec<f64> = (0..n * n).map(|q| rows[q % n * n + q / n]).collect();
                if shape == [TILE; 3] {
                    values.extend((0..n * n).map(|p| rows[packed_place(p, n)]));
                }
                (values, true, false)
            }
            Inverse::Diagonal { reciprocals, scalings: None } => (reciprocals, false, false),
            Inverse::Diagonal { reciprocals, scalings: Some((before, after)) } => {
                ([reciprocals, before, after].concat(), false, true)
            }
        };
        let memory = Memory::zeroed(&device, stream, 8 * values.len(), "a block inverse")?;
        stream.send(memory.address, &values)?;
        let at = |part: usize, there: bool| if there { memory.address + (8 * n * part) as u64 } else { 0 };
        let tables = BlockTables {
            reciprocals: at(0, !dense),
            before: at(1, scaled),
            after: at(2, scaled),
            dense: at(0, dense),
            packed: at(n, dense && shape == [TILE; 3]),
        };
        let place = place_of(shape);
        stream.send(self.tables.address + (place * size_of::<BlockTables>()) as u64, &[tables])?;
        stream.wait()?;
        self.inverses[place] = Some(memory);
        self.dense = dense;
        Ok(())
    }

    fn set_patches(&mut self, blocks: Blocks) -> Result<()> {
        let _entered = self.device.clone().enter()?;
        let previous = self.data.take();
        self.data = Some(Data::new(stream!(self), blocks, previous)?);
        Ok(())
    }

    fn prepare(&mut self, work: &Work) -> Result<()> {
        let _entered = self.device.clone().enter()?;
        let Some(data) = &mut self.data else { return Ok(()) };
        let stream = stream!(self);
        for cut in work.cuts {
            data.plan(stream, &cut, work, kind_of(self.dense, self.batches, &cut))?;
        }
        if work.method == Method::Jacobi && data.other.u.len() != data.blocks.list.patches.len() {
            let list = Arc::clone(&data.blocks.list);
            data.other.lay_out(stream, &list.patches, false, "the second array of block Jacobi")?;
            stream.wait()?;
        }
        Ok(())
    }

    fn blocks(&self) -> Option<&Blocks> {
        self.data.as_ref().map(|d| &d.blocks)
    }

    fn run(
        &mut self,
        arrays: &mut dyn PatchArrays,
        watcher: &mut dyn Watcher,
        work: &Work,
        program: BlockProgram,
    ) -> Result<Swept> {
        let _entered = self.device.clone().enter()?;
        let streams = [stream!(self), &self.second];
        let data = self.data.as_mut().ok_or_else(no_patches)?;
        let on_device = arrays.on_device();
        let mut run = Run {
            data,
            streams,
            tables: self.tables.address,
            transforms: !self.dense,
            batches: self.batches,
            arrays,
            on_device,
            watcher,
            work,
            which: 0,
            done: 0,
            ahead: 0,
            uploaded: on_device,
            downloaded: false,
            ghosts_copied: false,
            pending: false,
            arrived: false,
            behind: false,
            seconds_transfer: 0.0,
            failed: None,
        };
        let mut swept = Swept::default();
        if let Err(error) = run.begin() {
            run.failed = Some(error);
        } else {
            swept = program(&mut run, work);
        }
        let (failed, seconds) = (run.failed.take(), run.seconds_transfer);
        self.seconds_transfer = seconds;
        // Nothing that was borrowed is used after this, even after an error.
        let waited = streams[0].wait().and(streams[1].wait());
        failed.map_or(waited.map(|()| swept), Err)
    }

    fn bytes(&self) -> usize {
        self.data.as_ref().map_or(0, |d| d.blocks.list.bytes() + d.rows.len() * size_of::<BlockPatch>())
    }

    fn threads(&self) -> usize {
        1
    }

    fn device(&self) -> Option<i32> {
        Some(self.device.ordinal)
    }

    fn device_bytes(&self) -> usize {
        self.tables.bytes
            + self.inverses.iter().flatten().map(|m| m.bytes).sum::<usize>()
            + self.data.as_ref().map_or(0, Data::bytes)
    }

    fn seconds_transfer(&self) -> f64 {
        self.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        if stream == 0 {
            self.caller = None;
        } else if self.caller.as_ref().is_none_or(|(s, _)| *s != stream) {
            self.caller = Some((stream, Stream::borrowed(&self.device, stream)?));
        }
        Ok(())
    }

    fn keep_arrays(&mut self) -> Result<Kept> {
        let _entered = self.device.clone().enter()?;
        let data = self.data.as_mut().ok_or_else(no_patches)?;
        let list = Arc::clone(&data.blocks.list);
        let stream = stream!(self);
        data.kept.lay_out(stream, &list.patches, true, "patches")?;
        stream.fill(data.kept.room.address(), 0, data.kept.room.bytes())?;
        stream.wait()?;
        let pointers = |addresses: &[Address]| addresses.iter().map(|a| *a as *mut f64).collect();
        Ok(Kept { u: pointers(&data.kept.u), f: pointers(&data.kept.f) })
    }

    fn copy(&mut self, copies: &[(*mut f64, *const f64, usize)]) -> Result<()> {
        let _entered = self.device.clone().enter()?;
        let stream = stream!(self);
        let start = Instant::now();
        for &(to, from, count) in copies.iter().filter(|c| !std::ptr::eq(c.0, c.1)) {
            stream.copy_values(to as u64, from as u64, count)?;
        }
        stream.wait()?;
        self.seconds_transfer = start.elapsed().as_secs_f64();
        Ok(())
    }
}

/// What a sweep reads and writes of `faces`; `keep`: it fills ghost cells.
#[derive(Clone, Copy, Default)]
struct Handed {
    arrived: bool,
    leaving: bool,
    keep: bool,
}

/// One call.
struct Run<'a> {
    data: &'a mut Data,
    /// The one that all work goes to; another for copies beside it.
    streams: [&'a Stream; 2],
    tables: Address,
    /// Blocks are diagonalized; or they have dense inverses, and those of 8^3 can be done in stages.
    transforms: bool,
    batches: bool,
    arrays: &'a mut dyn PatchArrays,
    on_device: bool,
    watcher: &'a mut dyn Watcher,
    work: &'a Work,
    /// Which of the two arrays has the values.
    which: usize,
    /// Sweeps asked for so far; and of these, done before they were.
    done: usize,
    ahead: usize,
    /// The device has the values; the caller's host arrays have the result.
    uploaded: bool,
    downloaded: bool,
    /// The second array has the caller's ghost cells.
    ghosts_copied: bool,
    /// Ghost cells between patches are to be copied, by the next sweep or before what comes instead.
    pending: bool,
    /// The sweep before handed its faces over, to the half of `faces` that its number gives.
    arrived: bool,
    /// The last work on the first stream is one of our kernels: the next one may begin while it ends.
    behind: bool,
    seconds_transfer: f64,
    failed: Option<Error>,
}

impl Run<'_> {
    /// Runs `f` unless something failed before.
    fn attempt<T: Default>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> T {
        if self.failed.is_some() {
            return T::default();
        }
        f(self).unwrap_or_else(|error| {
            self.failed = Some(error);
            T::default()
        })
    }

    fn list(&self) -> Arc<PatchList> {
        Arc::clone(&self.data.blocks.list)
    }

    /// Tells the device where the arrays are.
    fn begin(&mut self) -> Result<()> {
        let list = self.list();
        let given = self.arrays.pointers();
        let (patches, data, stream) = (&list.patches, &mut *self.data, self.streams[0]);
        if !self.on_device {
            if data.staging.u.len() != patches.len() {
                data.staging.lay_out(stream, patches, true, "copies of patches that are on the host")?;
            }
            if !given.r.is_empty() && data.residuals.u.len() != patches.len() {
                data.residuals.lay_out(stream, patches, false, "residuals")?;
            }
        }
        let mut rows = std::mem::take(&mut data.rows);
        let mut changed = rows.len() != patches.len();
        rows.resize(patches.len(), BlockPatch::default());
        for (p, row) in rows.iter_mut().enumerate() {
            let [nx, ny, nz] = patches[p].size.map(|n| n as i32);
            let other = data.other.u.get(p).copied().unwrap_or(0);
            let (u, f, r) = if self.on_device {
                let f = given.f.get(p).map_or(0, |f| *f as u64);
                (given.u[p] as u64, f, given.r.get(p).map_or(0, |r| *r as u64))
            } else {
                let r = if given.r.is_empty() { 0 } else { data.residuals.u[p] };
                (data.staging.u[p], data.staging.f[p], r)
            };
            let new = BlockPatch { u: [u, other], f, r, nx, ny, nz, unused: 0 };
            changed |= *row != new;
            *row = new;
        }
        if changed && !rows.is_empty() {
            stream.send(data.table.address(), &rows)?;
            stream.wait()?;
        }
        data.rows = rows;
        Ok(())
    }

    fn all(&self) -> Range<usize> {
        0..self.data.rows.len()
    }

    /// Copies patches of the host to the device.
    fn upload(&mut self, patches: Range<usize>, with_f: bool, stream: usize) -> Result<()> {
        let (list, start, given) = (self.list(), Instant::now(), self.arrays.pointers());
        for p in patches {
            let (row, patch) = (&self.data.rows[p], &list.patches[p]);
            self.streams[stream].copy_values(row.u[self.which], given.u[p] as u64, patch.ghosted())?;
            if let (true, Some(f)) = (with_f, given.f.get(p)) {
                self.streams[stream].copy_values(row.f, *f as u64, patch.cells())?;
            }
        }
        self.seconds_transfer += start.elapsed().as_secs_f64();
        Ok(())
    }

    /// The reverse, u only.
    fn download(&mut self, patches: Range<usize>, which: usize, stream: usize) -> Result<()> {
        let (list, start, given) = (self.list(), Instant::now(), self.arrays.pointers());
        for p in patches {
            let (row, patch) = (&self.data.rows[p], &list.patches[p]);
            self.streams[stream].copy_values(given.u[p] as u64, row.u[which], patch.ghosted())?;
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

    fn ensure_uploaded(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.uploaded, true) {
            self.upload(self.all(), true, 0)?;
            self.join()?;
        }
        Ok(())
    }

    /// Ghost cells of the caller's go along when Jacobi changes arrays: once, since nothing writes them in between but
    /// the caller's function.
    fn copy_ghosts(&self, patches: Range<usize>, from: usize, to: usize, stream: usize) -> Result<()> {
        self.copy_values(patches, from, to, true, stream)
    }

    fn copy_values(&self, patches: Range<usize>, from: usize, to: usize, ghosts: bool, stream: usize) -> Result<()> {
        let data = &*self.data;
        let (first, last) = (data.segments_before[patches.start], data.segments_before[patches.end]);
        if first == last {
            return Ok(());
        }
        let arguments = BlockCopyArgs {
            patches: data.table.address(),
            segments: data.segments.address() + (first * size_of::<BlockSegment>()) as u64,
            from: from as i32,
            to: to as i32,
            ghosts: i32::from(ghosts),
            count: (last - first) as u32,
        };
        launch::copy_patches(self.streams[stream], &arguments)
    }

    /// One launch of a plan: for the group, or for all patches.
    fn launch(
        &mut self,
        (plan, group): (usize, Option<usize>),
        (from, to): (usize, usize),
        handed: Handed,
        stream: usize,
    ) -> Result<()> {
        let data = &mut *self.data;
        let faces = data.faces.address();
        let plan = &mut data.plans[plan];
        let (items, progress, totals) = (plan.items.address(), plan.progress.address(), plan.totals.address());
        let launch = group.map_or(&mut plan.whole, |g| &mut plan.groups[g]);
        if launch.items.is_empty() {
            return Ok(());
        }
        let next = launch.launches.wrapping_add(1);
        let asynchronous = self.work.method == Method::Chaotic && self.work.parallel != Parallel::Patches;
        let place = (4 * launch.progress.start) as u64;
        let mut arguments = RelaxArgs {
            patches: data.table.address(),
            items: 0,
            tables: self.tables,
            progress: progress + place,
            totals: totals + place,
            launches: next,
            from: from as i32,
            to: to as i32,
            own_chunk: i32::from(asynchronous),
            omega: self.work.omega,
            legs: data.blocks.stencil.legs,
            count: 0,
            eigenvalues: data.eigenvalues,
            weight: WEIGHT,
            points: data.blocks.stencil.points as i32,
            dense: i32::from(!self.transforms),
            arrived: 0,
            leaving: 0,
            partners: plan.partners.address(),
            keep: i32::from(handed.keep),
            behind: false,
            processors: self.streams[stream].device().processors,
        };
        let half = |sweep: usize| faces + (sweep % 2 * 8 * FACE * plan.face_count) as u64;
        if handed.arrived {
            arguments.arrived = half(self.done - 1);
        }
        if handed.leaving {
            arguments.leaving = half(self.done);
        }
        let behind = &mut self.behind;
        let chained = stream == 0;
        let (stream, cubes) = (self.streams[stream], launch.cubes && self.transforms);
        let any = if data.blocks.stencil.points == 7 { launch::relax_7 } else { launch::relax_27 };
        let start = launch.items.start;
        let mut run = |range: Range<usize>, kernel: fn(&Stream, &RelaxArgs) -> Result<()>| {
            if range.is_empty() {
                return Ok(());
            }
            arguments.items = items + ((start + range.start) * size_of::<BlockItem>()) as u64;
            arguments.count = to_i32(range.len(), "the number of blocks")? as u32;
            arguments.behind = std::mem::replace(behind, chained) && chained;
            kernel(stream, &arguments)
        };
        if launch.stages.is_empty() {
            let kernel = if cubes && data.blocks.stencil.points == 7 { launch::relax_cubes } else { any };
            run(0..launch.items.len(), kernel)?;
        }
        for [cubes, others] in &launch.stages {
            run(cubes.clone(), launch::relax_dense)?;
            run(others.clone(), any)?;
        }
        launch.launches = next;
        Ok(())
    }

    /// One sweep, with the copies of patches that live on the host.
    fn sweep(&mut self, cut: &Cut) -> Result<()> {
        let both = self.to_both();
        self.done += 1;
        let jacobi = self.work.method == Method::Jacobi;
        if self.ahead > 0 {
            self.ahead -= 1;
            self.which ^= usize::from(jacobi);
            return Ok(());
        }
        let plan = self.plan_of(cut)?;
        let count = self.data.plans[plan].groups.len();
        let (first, watched) = (!self.uploaded, self.watcher.watched());
        let last = self.done == self.work.sweeps && !watched;
        if self.on_device || !(first || last) || count == 0 || !self.work.overlap_copies {
            self.ensure_uploaded()?;
            if jacobi && self.ghosts_wanted() {
                self.copy_ghosts(self.all(), self.which, 1 - self.which, 0)?;
            }
            let last = self.done == self.work.sweeps;
            let arrived = std::mem::take(&mut self.arrived);
            if arrived {
                self.pending = false;
                let plan = &self.data.plans[plan];
                self.exchange_boxes(plan.rest.address(), plan.rest_counts[usize::from(last)], both)?;
            } else {
                self.exchange_now(both)?;
            }
            // The next sweep is one of all patches at once too, and nobody looks at ghost cells before.
            let next_is_whole =
                self.on_device || count == 0 || !self.work.overlap_copies || self.done + 1 < self.work.sweeps;
            let plan_has_faces = self.data.plans[plan].face_count > 0 && self.work.cuts[0] == self.work.cuts[1];
            let leaving = plan_has_faces && !last && next_is_whole && !watched && !self.watcher.fills();
            self.launch((plan, None), self.ways(jacobi, 0), Handed { arrived, leaving, keep: arrived && last }, 0)?;
            self.arrived = leaving;
            self.which ^= usize::from(jacobi);
            return Ok(());
        }
        // Patches that need nothing from each other do all their sweeps while they are there.
        let alone = first && !watched && !self.watcher.fills() && self.data.copy_count == 0;
        let sweeps = if alone { self.work.sweeps - self.done + 1 } else { 1 };
        let plans = [plan, self.plan_of(&self.work.cuts[self.done % 2])?];
        let leave = last || alone;
        self.exchange_now(both)?;
        let ghosts = jacobi && self.ghosts_wanted();
        self.join()?;
        for (g, group) in self.data.groups.clone().into_iter().enumerate() {
            let stream = g % 2;
            if first {
                self.upload(group.clone(), true, stream)?;
            }
            if ghosts {
                self.copy_ghosts(group.clone(), self.which, 1 - self.which, stream)?;
            }
            for sweep in 0..sweeps {
                self.launch((plans[sweep % 2], Some(g)), self.ways(jacobi, sweep), Handed::default(), stream)?;
            }
            if leave {
                let which = if jacobi { self.which ^ (sweeps % 2) } else { self.which };
                self.download(group, which, stream)?;
            }
        }
        self.join()?;
        self.ahead = sweeps - 1;
        self.which ^= usize::from(jacobi);
        (self.uploaded, self.downloaded) = (true, leave);
        Ok(())
    }

    /// The arrays that the sweep reads and writes, so many sweeps from now.
    fn ways(&self, jacobi: bool, later: usize) -> (usize, usize) {
        let from = if jacobi { self.which ^ (later % 2) } else { self.which };
        (from, if jacobi { 1 - from } else { from })
    }

    fn ghosts_wanted(&mut self) -> bool {
        !std::mem::replace(&mut self.ghosts_copied, true) || self.watcher.fills()
    }

    fn plan_of(&mut self, cut: &Cut) -> Result<usize> {
        // Made in `prepare`, and here for options that came another way.
        let kind = kind_of(!self.transforms, self.batches, cut);
        self.data.plan(self.streams[0], cut, self.work, kind)
    }

    fn look(&self) -> LookArgs {
        let data = &*self.data;
        LookArgs {
            patches: data.table.address(),
            regions: data.regions.address(),
            which: self.which as i32,
            sums: data.sums.address(),
            bad: data.answers.address,
            legs: data.blocks.stencil.legs,
            count: data.region_count,
        }
    }

    fn find_bad_cell(&mut self) -> Result<Option<BadCell>> {
        if self.data.region_count == 0 {
            return Ok(None);
        }
        self.ensure_uploaded()?;
        let (stream, answers) = (self.streams[0], self.data.answers.address);
        stream.fill(answers, 0xff, 8)?;
        launch::inspect_patches(stream, &self.look())?;
        let mut number = [u64::MAX];
        stream.fetch(&mut number, answers)?;
        stream.wait()?;
        let [number] = number.map(|n| n as usize);
        if number == usize::MAX {
            return Ok(None);
        }
        let list = self.list();
        let p = list.cells_before.partition_point(|&before| 2 * before <= number) - 1;
        let (patch, row) = (&list.patches[p], &self.data.rows[p]);
        let inside = number - 2 * list.cells_before[p];
        let (name, cell) = if inside < patch.cells() { ("u", inside) } else { ("f", inside - patch.cells()) };
        let [nx, ny, _] = patch.size;
        let cell_at = [cell % nx, cell / nx % ny, cell / nx / ny];
        let (stride, plane) = patch.strides();
        let [i, j, k] = cell_at;
        let address = match name {
            "u" => row.u[self.which] + 8 * ((k + 1) * plane + (j + 1) * stride + i + 1) as u64,
            _ => row.f + 8 * cell as u64,
        };
        let mut value = [0.0f64];
        stream.fetch(&mut value, address)?;
        stream.wait()?;
        Ok(Some(BadCell { name, value: value[0], patch: p, cell: cell_at }))
    }

    /// Copies ghost cells that are to be copied.
    fn exchange_now(&mut self, both: bool) -> Result<()> {
        if !std::mem::replace(&mut self.pending, false) {
            return Ok(());
        }
        self.exchange_boxes(self.data.copies.address(), self.data.copy_count, both)
    }

    fn exchange_boxes(&mut self, copies: Address, count: u32, both: bool) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let arguments = ExchangeArgs {
            patches: self.data.table.address(),
            copies,
            which: self.which as i32,
            both: i32::from(both),
            count,
            behind: std::mem::replace(&mut self.behind, true),
        };
        launch::exchange(self.streams[0], &arguments)
    }

    /// The last sweep of Jacobi follows: its result has the ghost cells that it saw.
    fn to_both(&self) -> bool {
        self.work.method == Method::Jacobi && self.done + 1 >= self.work.sweeps
    }

    /// Ghost cells of patches that are on the host still.
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
                    part.copy_from_slice(&self.arrays.u(copy.from)[from.place(cell)..][..part.len()]);
                    self.arrays.u_mut(copy.to)[to.place(cell)..][..part.len()].copy_from_slice(part);
                }
            }
        }
    }
}

impl BlockSteps for Run<'_> {
    fn bad_cell(&mut self) -> Option<BadCell> {
        self.attempt(Self::find_bad_cell)
    }

    fn exchange(&mut self) {
        if self.data.copy_count == 0 || self.ahead > 0 {
            return;
        }
        if !self.uploaded {
            self.exchange_on_host();
            return;
        }
        self.pending = true;
        if self.watcher.fills() || self.work.sweeps == self.done {
            self.attempt(|run| run.exchange_now(run.to_both()));
        }
    }

    fn fill(&mut self, sweep: i32) -> bool {
        if !self.watcher.fills() {
            return self.failed.is_some();
        }
        self.attempt(|run| {
            run.join()?;
            // What it starts may come before what we start next.
            run.behind = false;
            if run.on_device {
                let current: Vec<*mut f64> = run.data.rows.iter().map(|r| r.u[run.which] as *mut f64).collect();
                return Ok(run.watcher.fill(sweep, &current));
            }
            if run.uploaded {
                run.download(run.all(), run.which, 0)?;
                run.join()?;
            }
            let stop = run.watcher.fill(sweep, run.arrays.pointers().u);
            if run.uploaded {
                run.upload(run.all(), false, 0)?;
                run.join()?;
            }
            Ok(stop)
        }) || self.failed.is_some()
    }

    fn colours(&self) -> usize {
        colours(&self.data.blocks.stencil)
    }

    fn jacobi(&mut self, cut: &Cut, _: f64) {
        self.attempt(|run| run.sweep(cut));
    }

    fn colour(&mut self, _: &Cut, _: f64, _: usize) {
        self.failed = Some(Error::Internal("a device does all colours in one launch".to_owned()));
    }

    fn all_colours(&mut self, cut: &Cut, _: f64, _: bool) {
        self.attempt(|run| run.sweep(cut));
    }

    fn chaotic(&mut self, cut: &Cut, _: f64, _: bool) {
        self.attempt(|run| run.sweep(cut));
    }

    fn residual(&mut self) -> f64 {
        self.attempt(|run| {
            if run.data.region_count == 0 {
                return Ok(0.0);
            }
            run.ensure_uploaded()?;
            run.exchange_now(false)?;
            let (stream, answers) = (run.streams[0], run.data.answers.address);
            launch::residual_patches(stream, &run.look())?;
            let count = i64::from(run.data.region_count);
            let norm = answers + 8;
            launch::norm_patches(stream, &NormArgs { sums: run.data.sums.address(), count, norm })?;
            let mut value = [0.0f64];
            stream.fetch(&mut value, norm)?;
            if !run.on_device {
                let (list, start) = (run.list(), Instant::now());
                for (p, r) in run.arrays.pointers().r.iter().enumerate() {
                    stream.copy_values(*r as u64, run.data.rows[p].r, list.patches[p].cells())?;
                }
                run.seconds_transfer += start.elapsed().as_secs_f64();
            }
            stream.wait()?;
            Ok(value[0])
        })
    }

    fn watched(&self) -> bool {
        self.watcher.watched()
    }

    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.failed.is_some() || self.watcher.show(sweep, relative_residual)
    }

    fn settle(&mut self) {
        self.attempt(|run| {
            run.exchange_now(false)?;
            if run.on_device {
                if run.which == 1 {
                    run.copy_values(run.all(), 1, 0, false, 0)?;
                    run.which = 0;
                }
            } else if run.uploaded && !run.downloaded {
                run.download(run.all(), run.which, 0)?;
            }
            run.join()
        });
    }
}
