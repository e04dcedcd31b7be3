//! Block relaxation on patches by a team of threads.
//!
//! Work is a list of block rows, patch after patch, z slowest; members get contiguous parts of about equally many cells.
//! A coloured sweep is fused: with two colours, row (j, k) of the first is followed by row (j, k-1) of the second, whose
//! neighbours are then all done, so that memory sees u and f once a sweep; with eight, slabs of even k are followed by the
//! odd ones below. Where a patch is shared by members, the slabs at the seams do their second colours after a barrier.
//! Every cell gets the same bits as by colour after colour, whoever does it.
//!
//! The chaotic method is asynchronous: blocks are relaxed in place while others read their faces, by relaxed atomic
//! loads and stores, from whatever values are there.

use super::area::Shared;
use super::block_kernels::{Ahead, AheadOf, BATCH, Operator, SCRATCH, Solver, Task, relax, relax_dense, residual_row};
use super::team::{Me, Team};
use crate::backend::blocks::{
    BadCell, BlockBackend, BlockProgram, BlockSteps, Blocks, Inverse, Method, Parallel, PatchArrays, Pointers, Swept,
    Watcher, Work, colours,
};
use crate::backend::sums;
use crate::error::{Error, Result};
use crate::grid::block_inverse::Shape;
use crate::grid::patches::{Cut, Patch, Segment};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Cells that are worth a member: below, waiting for it takes longer than its help.
const CELLS_PER_MEMBER: usize = 4096;

/// Slabs a member should have for the fused form: with fewer, parts differ too much in size.
const SLABS_PER_MEMBER: usize = 6;

/// The `cpu` backend of block smoothers.
pub struct CpuBlocks {
    wanted_threads: usize,
    team: Option<Team>,
    /// By shape.
    solvers: Vec<Option<Box<Solver>>>,
    data: Option<Data>,
}

/// What members share beside the caller's arrays.
struct Data {
    blocks: Blocks,
    operator: Operator,
    /// The second array of Jacobi: all patches, one after the other.
    other: Option<(Shared, Vec<*mut f64>)>,
    /// Sums of squares by plane.
    squares: Shared,
    planes_before: Vec<usize>,
    /// For dense inverses, by member.
    scratch: Vec<Shared>,
    stop: AtomicBool,
    bad: Mutex<Option<BadCell>>,
}

fn place_of([x, y, z]: Shape) -> usize {
    ((z - 1) * 8 + y - 1) * 8 + x - 1
}

impl CpuBlocks {
    /// Uses at most `threads`.
    pub fn new(threads: usize) -> Self {
        Self { wanted_threads: threads, team: None, solvers: (0..512).map(|_| None).collect(), data: None }
    }

    fn make_scratch(&mut self) -> Result<()> {
        let (Some(data), Some(team)) = (&mut self.data, &self.team) else { return Ok(()) };
        if self.solvers.iter().flatten().any(|s| s.is_dense()) {
            while data.scratch.len() < team.members() {
                data.scratch.push(Shared::zeroed(SCRATCH)?);
            }
        }
        Ok(())
    }
}

impl BlockBackend for CpuBlocks {
    fn has_inverse(&self, shape: Shape) -> bool {
        self.solvers[place_of(shape)].is_some()
    }

    fn add_inverse(&mut self, shape: Shape, inverse: Inverse) -> Result<()> {
        self.solvers[place_of(shape)] = Some(Box::new(Solver::new(shape, inverse)?));
        self.make_scratch()
    }

    fn set_patches(&mut self, blocks: Blocks) -> Result<()> {
        let list = &blocks.list;
        let members = self.wanted_threads.min(list.cells() / CELLS_PER_MEMBER + 1).max(1);
        if self.team.as_ref().map_or(0, Team::members) != members {
            self.team = None;
            self.team = Some(Team::new(members)?);
        }
        let mut planes_before = vec![0];
        for patch in &list.patches {
            planes_before.push(planes_before[planes_before.len() - 1] + patch.size[2]);
        }
        let planes = planes_before[list.patches.len()];
        // The second array and the scratch of the patches before serve again where they suffice.
        let (squares, other, scratch) = match self.data.take() {
            Some(old) => (Some(old.squares).filter(|s| s.len() >= planes), old.other, old.scratch),
            None => (None, None, Vec::new()),
        };
        let squares = match squares {
            Some(squares) => squares,
            None => Shared::zeroed(planes)?,
        };
        let other = other.map(|(values, _)| (values, Vec::new()));
        let (stop, bad) = (AtomicBool::new(false), Mutex::new(None));
        let operator = Operator::new(&blocks.stencil);
        self.data = Some(Data { blocks, operator, other, squares, planes_before, scratch, stop, bad });
        self.make_scratch()
    }

    fn prepare(&mut self, work: &Work) -> Result<()> {
        let Some(data) = &mut self.data else { return Ok(()) };
        let patches = &data.blocks.list.patches;
        if work.method != Method::Jacobi || data.other.as_ref().is_some_and(|o| !o.1.is_empty()) {
            return Ok(());
        }
        let len: usize = patches.iter().map(Patch::ghosted).sum();
        let values = match data.other.take() {
            Some((values, _)) if values.len() >= len => values,
            other => {
                // Its memory first.
                drop(other);
                Shared::zeroed(len)?
            }
        };
        let mut start = 0;
        let mut pointers = Vec::with_capacity(patches.len());
        for patch in patches {
            // SAFETY: inside the array; the slice is not kept.
            pointers.push(unsafe { values.slice_mut(start, patch.ghosted()) }.as_mut_ptr());
            start += patch.ghosted();
        }
        data.other = Some((values, pointers));
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
        let (Some(data), Some(team)) = (&mut self.data, &mut self.team) else {
            return Err(Error::Internal("there are no patches".to_owned()));
        };
        *data.bad.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let other = data.other.as_ref().map_or(&[][..], |o| &o.1[..]);
        let call = Call {
            data,
            solvers: &self.solvers,
            arrays: arrays.pointers(),
            other,
            work,
            fills: watcher.fills(),
            watched: watcher.watched(),
        };
        team.run(
            |me| {
                program(&mut Member::new(&call, me, None), work);
            },
            |me| program(&mut Member::new(&call, me, Some(watcher)), work),
        )
    }

    fn bytes(&self) -> usize {
        let solvers: usize = self.solvers.iter().flatten().map(|s| s.bytes()).sum();
        solvers
            + self.data.as_ref().map_or(0, |d| {
                d.blocks.list.bytes()
                    + d.squares.bytes()
                    + d.other.as_ref().map_or(0, |o| o.0.bytes())
                    + d.scratch.iter().map(Shared::bytes).sum::<usize>()
            })
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::members)
    }
}

/// What all members know about one call.
struct Call<'a> {
    data: &'a Data,
    solvers: &'a [Option<Box<Solver>>],
    arrays: Pointers<'a>,
    other: &'a [*mut f64],
    work: &'a Work,
    fills: bool,
    watched: bool,
}

// SAFETY: the pointers are to arrays of numbers that the caller lends for the call; which member touches which values
// between two barriers is the contract of the unsafe blocks below.
unsafe impl Sync for Call<'_> {}
// SAFETY: the pointers in it are those of `other`, an array that `Data` owns; as above.
unsafe impl Sync for Data {}

/// One member's view of a call.
struct Member<'a, 'w> {
    call: &'a Call<'a>,
    me: Me<'a>,
    watcher: Option<&'w mut dyn Watcher>,
    /// Jacobi: the values are in the second array.
    flipped: bool,
    batch: Batch,
}

/// Blocks that wait for a dense product; all of one shape.
struct Batch {
    tasks: [Task; BATCH],
    count: usize,
    shape: Shape,
    /// Flushed after every block, by the method's order.
    alone: bool,
}

/// A block row in the work list: row kb * (block rows of a slab) + jb of a patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    patch: usize,
    row: usize,
}

/// What parts of the work list end at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grain {
    Row,
    Slab,
    Patch,
}

/// Which blocks of a row.
#[derive(Clone, Copy)]
enum Which {
    All,
    Colour(usize),
}

/// Where blocks are read and written.
#[derive(Clone, Copy)]
struct Ways<'a> {
    from: &'a [*mut f64],
    to: &'a [*mut f64],
    cut: &'a Cut,
    omega: f64,
    /// Blocks wait for those before them in the row.
    in_order: bool,
    reverse: bool,
    /// What is fetched meanwhile.
    fetch: Fetch,
}

/// What is fetched from memory while a row of blocks is relaxed: the next row, or where two rows are relaxed in turn, of
/// which only one is new to the cache, half of that with each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fetch {
    Nothing,
    Next,
    FirstHalf,
    /// With this row, the other half of what follows that one.
    SecondHalf(usize),
}

impl<'a, 'w> Member<'a, 'w> {
    fn new(call: &'a Call<'a>, me: Me<'a>, watcher: Option<&'w mut dyn Watcher>) -> Self {
        let none = Task {
            u: std::ptr::null(),
            out: std::ptr::null_mut(),
            f: std::ptr::null(),
            strides: (0, 0),
            f_strides: (0, 0),
            blocks: 1,
            pitch: 0,
            omega: 0.0,
            ahead: Ahead::NOTHING,
        };
        Self {
            call,
            me,
            watcher,
            flipped: false,
            batch: Batch { tasks: [none; BATCH], count: 0, shape: [0; 3], alone: false },
        }
    }

    fn patches(&self) -> &'a [Patch] {
        &self.call.data.blocks.list.patches
    }

    fn current(&self) -> &'a [*mut f64] {
        if self.flipped { self.call.other } else { self.call.arrays.u }
    }

    /// Where part `part` of `parts` of the work list begins.
    fn boundary(&self, cut: &Cut, part: usize, parts: usize, grain: Grain) -> Place {
        let list = &self.call.data.blocks.list;
        let end = Place { patch: list.patches.len(), row: 0 };
        let target = (list.cells() as u128 * part as u128 / parts as u128) as usize;
        if part >= parts || target >= list.cells() {
            return end;
        }
        let patch = list.cells_before.partition_point(|&c| c <= target) - 1;
        let (inside, cells) = (target - list.cells_before[patch], list.patches[patch].cells());
        let (rows, row_of_slab) = rows(cut, &list.patches[patch]);
        let row = (inside as u128 * rows as u128 / cells as u128) as usize;
        match grain {
            Grain::Row => Place { patch, row },
            Grain::Slab => Place { patch, row: row - row % row_of_slab },
            Grain::Patch => Place { patch: patch + usize::from(2 * inside >= cells), row: 0 },
        }
    }

    /// Calls `f` with the patches of a part of the work list and the rows of each that belong to it.
    fn parts_of(&self, cut: &Cut, begin: Place, end: Place, mut f: impl FnMut(usize, std::ops::Range<usize>)) {
        for patch in begin.patch..self.patches().len().min(end.patch + 1) {
            let first = if patch == begin.patch { begin.row } else { 0 };
            let last = if patch == end.patch { end.row } else { rows(cut, &self.patches()[patch]).0 };
            if first < last {
                f(patch, first..last);
            }
        }
    }

    /// Runs `f` on this member's rows in the wanted parallel form; ends with a barrier.
    fn share_rows(&mut self, cut: &Cut, mut f: impl FnMut(&mut Self, usize, usize)) {
        let (me, count) = (self.me, self.patches().len());
        match self.call.work.parallel {
            Parallel::Flat | Parallel::Patches => {
                let grain = if self.call.work.parallel == Parallel::Flat { Grain::Row } else { Grain::Patch };
                let begin = self.boundary(cut, me.index, me.members, grain);
                let end = self.boundary(cut, me.index + 1, me.members, grain);
                for patch in begin.patch..count.min(end.patch + 1) {
                    let first = if patch == begin.patch { begin.row } else { 0 };
                    let last = if patch == end.patch { end.row } else { rows(cut, &self.patches()[patch]).0 };
                    for row in first..last {
                        f(self, patch, row);
                    }
                }
                self.flush();
            }
            Parallel::Blocks => {
                for patch in 0..count {
                    for row in me.share(rows(cut, &self.patches()[patch]).0) {
                        f(self, patch, row);
                    }
                    self.flush();
                    me.barrier();
                }
            }
            Parallel::Nested(groups) => {
                let groups = if groups == 0 { me.members.isqrt() } else { groups.min(me.members) };
                let group = me.index * groups / me.members;
                // First member of a group: the smallest index with index * groups / members = group.
                let first_of = |g: usize| (g * me.members).div_ceil(groups);
                let (rank, members) = (me.index - first_of(group), first_of(group + 1) - first_of(group));
                let start_of = |g: usize| self.boundary(cut, g, groups, Grain::Patch).patch;
                let (begin, end) = (start_of(group), start_of(group + 1));
                let rounds = (0..groups).map(|g| start_of(g + 1) - start_of(g)).max().unwrap_or(0);
                for round in 0..rounds {
                    let patch = begin + round;
                    if patch < end {
                        let n = rows(cut, &self.patches()[patch]).0;
                        for row in n * rank / members..n * (rank + 1) / members {
                            f(self, patch, row);
                        }
                    }
                    self.flush();
                    me.barrier();
                }
            }
        }
        me.barrier();
    }

    /// Relaxes blocks of one row of blocks.
    ///
    /// # Safety
    /// Nobody else may write cells that these blocks or the layer around them have, or read cells of these blocks, while
    /// this runs (with `Which::Colour`: no blocks of other colours may be written).
    unsafe fn row(&mut self, ways: Ways, p: usize, row: usize, which: Which) {
        let patch = &self.patches()[p];
        let cut = ways.cut;
        let (_, in_slab) = rows(cut, patch);
        let (jb, kb) = (row % in_slab, row / in_slab);
        let (first, count) = cut.range(patch, 0);
        let (start, step) = match which {
            Which::All => (0, 1),
            Which::Colour(colour) => {
                let (j, k) = (cut.range(patch, 1).0 + jb as i64, cut.range(patch, 2).0 + kb as i64);
                let wanted = if colours(&self.call.data.blocks.stencil) == 2 {
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
        let (bx, most) = (cut.block[0], if ways.in_order { 1 } else { 8 / cut.block[0] });
        let tasks = count.saturating_sub(start).div_ceil(step * most).max(1);
        let ahead = self.ahead(ways, p, row, tasks, y.len);
        let (mut m, mut task) = (start, 0);
        while m < count {
            let at = if ways.reverse && ways.in_order { count - 1 - m } else { m };
            let x = cut.segment(patch, 0, at);
            let mut together = 1;
            // Only the first and the last block of a row can be short.
            if x.len == bx {
                while together < most
                    && m + together * step < count
                    && cut.segment(patch, 0, m + together * step).len == bx
                {
                    together += 1;
                }
            }
            // SAFETY: as our caller promised.
            unsafe { self.block(ways, p, [x, y, z], together, step * bx, ahead.of_task(task, y.len)) };
            m += together * step;
            task += 1;
        }
    }

    /// What the row of blocks after this one reads, shared out among this row's tasks.
    fn ahead(&self, ways: Ways, p: usize, row: usize, tasks: usize, task_rows: usize) -> Ahead {
        let (row, half, halves) = match ways.fetch {
            Fetch::Nothing => return Ahead::NOTHING,
            Fetch::Next => (row, 0, 1),
            Fetch::FirstHalf => (row, 0, 2),
            Fetch::SecondHalf(row) => (row, 1, 2),
        };
        let (all, in_slab) = rows(ways.cut, &self.patches()[p]);
        let (p, jb, kb) = if row + 1 < all { (p, (row + 1) % in_slab, (row + 1) / in_slab) } else { (p + 1, 0, 0) };
        let Some(patch) = self.patches().get(p) else { return Ahead::NOTHING };
        let (y, z) = (ways.cut.segment(patch, 1, jb), ways.cut.segment(patch, 2, kb));
        let (u_row, u_plane) = patch.strides();
        let (f_row, f_plane) = (patch.size[0], patch.size[0] * patch.size[1]);
        let parts = halves * tasks * task_rows;
        let of = |first: *const f64, plane: usize, row: usize| AheadOf {
            first,
            plane,
            chunk: (y.len * row).div_ceil(parts),
        };
        let place = (z.start + 1) * u_plane + (y.start + 1) * u_row;
        let u = of(ways.from[p].wrapping_add(place).cast_const(), u_plane, u_row);
        let f = of(self.call.arrays.f[p].wrapping_add(z.start * f_plane + y.start * f_row), f_plane, f_row);
        let out = AheadOf {
            first: ways.to[p].wrapping_add(place),
            chunk: if ways.to[p] == ways.from[p] { 0 } else { u.chunk },
            ..u
        };
        let ahead = Ahead { of: [u, f, out] };
        ahead.of_task(half * tasks, task_rows)
    }

    /// Relaxes blocks side by side; dense ones when enough are together.
    ///
    /// # Safety
    /// As for `row`.
    unsafe fn block(
        &mut self,
        ways: Ways,
        p: usize,
        segments: [Segment; 3],
        blocks: usize,
        pitch: usize,
        ahead: Ahead,
    ) {
        let patch = &self.patches()[p];
        let shape = segments.map(|s| s.len);
        let Some(solver) = &self.call.solvers[place_of(shape)] else { return };
        let strides = patch.strides();
        let f_strides = (patch.size[0], patch.size[0] * patch.size[1]);
        let start = segments.map(|s| s.start);
        let place = (start[2] + 1) * strides.1 + (start[1] + 1) * strides.0 + start[0] + 1;
        let f_place = start[2] * f_strides.1 + start[1] * f_strides.0 + start[0];
        let operator = &self.call.data.operator;
        // SAFETY: the block lies in the patch, so that it and the layer around it lie in the arrays.
        let mut task = unsafe {
            Task {
                u: ways.from[p].add(place),
                out: ways.to[p].add(place),
                f: self.call.arrays.f[p].add(f_place),
                strides,
                f_strides,
                blocks,
                pitch,
                omega: ways.omega,
                ahead: Ahead::NOTHING,
            }
        };
        if !solver.is_dense() {
            task.ahead = ahead;
            // SAFETY: as above, and as our caller promised.
            unsafe { relax(&task, solver, operator) };
            return;
        }
        task.blocks = 1;
        for _ in 0..blocks {
            if self.batch.count == BATCH || self.batch.shape != shape {
                self.flush();
            }
            self.batch.shape = shape;
            self.batch.alone = ways.in_order;
            self.batch.tasks[self.batch.count] = task;
            self.batch.count += 1;
            // The next block of the row, or a place that is not used.
            task.u = task.u.wrapping_add(pitch);
            task.out = task.out.wrapping_add(pitch);
            task.f = task.f.wrapping_add(pitch);
        }
        if ways.in_order {
            self.flush();
        }
    }

    /// Relaxes what waits.
    fn flush(&mut self) {
        let count = std::mem::replace(&mut self.batch.count, 0);
        if count == 0 {
            return;
        }
        let Some(solver) = &self.call.solvers[place_of(self.batch.shape)] else { return };
        // SAFETY: a member's scratch is its own.
        let scratch = unsafe { self.call.data.scratch[self.me.index].slice_mut(0, SCRATCH) };
        // SAFETY: `block` put them there with this promise, which holds until the member's next barrier, before which
        // every step flushes.
        unsafe { relax_dense(&self.batch.tasks[..count], solver, &self.call.data.operator, scratch, self.batch.alone) };
    }

    /// Colours of the first and the second stage of the fused form.
    fn stages(&self, reverse: bool) -> [std::ops::Range<usize>; 2] {
        let n = self.colours();
        let halves = [0..n / 2, n / 2..n];
        if reverse { [halves[1].clone(), halves[0].clone()] } else { halves }
    }

    /// Relaxes a slab of blocks, colour after colour of one stage.
    ///
    /// # Safety
    /// As for `row`, for all rows of the slab.
    unsafe fn slab(&mut self, ways: Ways, p: usize, kb: usize, stage: std::ops::Range<usize>, reverse: bool) {
        let in_slab = rows(ways.cut, &self.patches()[p]).1;
        let last = stage.end - 1 + stage.start;
        for c in stage {
            let colour = if reverse { last - c } else { c };
            for jb in 0..in_slab {
                // SAFETY: as our caller promised.
                unsafe { self.row(ways, p, kb * in_slab + jb, Which::Colour(colour)) };
            }
            self.flush();
        }
    }

    /// The slabs of one patch of this member: first stages, and second stages one slab behind, `inner` only.
    ///
    /// # Safety
    /// As for `row`, for all rows of these slabs.
    unsafe fn fused(
        &mut self,
        ways: Ways,
        p: usize,
        slabs: std::ops::Range<usize>,
        inner: std::ops::Range<usize>,
        reverse: bool,
    ) {
        let [one, two] = self.stages(reverse);
        let behind_ways = Ways { fetch: Fetch::Nothing, ..ways };
        let in_slab = rows(ways.cut, &self.patches()[p]).1;
        let by_rows = self.colours() == 2 && self.call.data.scratch.is_empty();
        for kb in slabs.start..=slabs.end {
            let behind = kb.checked_sub(1).filter(|k| inner.contains(k));
            if by_rows {
                for jb in 0..in_slab {
                    let row = kb * in_slab + jb;
                    let (ways, behind_ways) = match (slabs.contains(&kb), behind) {
                        (true, Some(_)) => {
                            let half = |fetch| Ways { fetch, ..ways };
                            (half(Fetch::FirstHalf), half(Fetch::SecondHalf(row)))
                        }
                        _ => (ways, behind_ways),
                    };
                    if slabs.contains(&kb) {
                        // SAFETY: as our caller promised.
                        unsafe { self.row(ways, p, row, Which::Colour(one.start)) };
                    }
                    if let Some(k) = behind {
                        // SAFETY: as our caller promised. The neighbours of this row have the first colour done in the
                        // slabs kb - 2, kb - 1 and kb, the last of which has come as far as row jb; nothing of the first
                        // colour that comes later reads this row.
                        unsafe { self.row(behind_ways, p, k * in_slab + jb, Which::Colour(two.start)) };
                    }
                }
                continue;
            }
            if slabs.contains(&kb) {
                // SAFETY: as our caller promised.
                unsafe { self.slab(ways, p, kb, one.clone(), reverse) };
            }
            if let Some(k) = behind {
                // SAFETY: as our caller promised.
                unsafe { self.slab(behind_ways, p, k, two.clone(), reverse) };
            }
        }
    }

    /// Copies the ghost layer of patch p from the values in use to the other array.
    fn copy_ghosts(&self, p: usize, from: *const f64, to: *mut f64) {
        let patch = &self.patches()[p];
        let (row, plane) = patch.strides();
        let copy = |start: usize, len: usize| {
            // SAFETY: both arrays have this patch's shape, and only this member writes the ghosts of this patch.
            unsafe { std::ptr::copy_nonoverlapping(from.add(start), to.add(start), len) };
        };
        let planes = patch.size[2] + 1;
        copy(0, plane);
        copy(planes * plane, plane);
        for k in 1..planes {
            copy(k * plane, row);
            copy(k * plane + plane - row, row);
            for j in 1..=patch.size[1] {
                copy(k * plane + j * row, 1);
                copy(k * plane + j * row + row - 1, 1);
            }
        }
    }
}

/// Block rows of a patch, and those of one slab.
fn rows(cut: &Cut, patch: &Patch) -> (usize, usize) {
    let in_slab = cut.range(patch, 1).1;
    (in_slab * cut.range(patch, 2).1, in_slab)
}

impl BlockSteps for Member<'_, '_> {
    fn bad_cell(&mut self) -> Option<BadCell> {
        let whole = Cut::new([8; 3]);
        let arrays = &self.call.arrays;
        let begin = self.boundary(&whole, self.me.index, self.me.members, Grain::Slab);
        let end = self.boundary(&whole, self.me.index + 1, self.me.members, Grain::Slab);
        let mut found: Option<BadCell> = None;
        self.parts_of(&whole, begin, end, |p, part| {
            let patch = &self.patches()[p];
            let [nx, ny, nz] = patch.size;
            let (row, plane) = patch.strides();
            let in_slab = rows(&whole, patch).1;
            let slab = |r: usize| {
                if r == rows(&whole, patch).0 { nz } else { whole.segment(patch, 2, r / in_slab).start }
            };
            for k in slab(part.start)..slab(part.end) {
                for j in 0..ny {
                    // SAFETY: inside the arrays; nobody writes before all members have looked.
                    let (u, f) = unsafe {
                        let u = arrays.u[p].add((k + 1) * plane + (j + 1) * row + 1);
                        let f = arrays.f[p].add((k * ny + j) * nx);
                        (std::slice::from_raw_parts(u.cast_const(), nx), std::slice::from_raw_parts(f, nx))
                    };
                    for (name, values) in [("u", u), ("f", f)] {
                        if finite_row(values) {
                            continue;
                        }
                        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                            earlier(&mut found, BadCell { name, value: values[i], patch: p, cell: [i, j, k] });
                        }
                    }
                }
            }
        });
        let lock = || self.call.data.bad.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bad) = found {
            earlier(&mut lock(), bad);
        }
        self.me.barrier();
        *lock()
    }

    fn exchange(&mut self) {
        let list = &self.call.data.blocks.list;
        if list.copies.is_empty() {
            return;
        }
        let u = self.current();
        for copy in &list.copies[self.me.share(list.copies.len())] {
            let (from, to) = (&list.patches[copy.from], &list.patches[copy.to]);
            let [x, y, z] = copy.cells.lower;
            for k in 0..copy.cells.size[2] as i64 {
                for j in 0..copy.cells.size[1] as i64 {
                    let cell = [x, y + j, z + k];
                    // SAFETY: the cells lie in the one patch and in the ghost layer of the other; ghost cells are
                    // written by one copy each, and no cell that is read is written.
                    unsafe {
                        let from = u[copy.from].add(from.place(cell)).cast_const();
                        std::ptr::copy_nonoverlapping(from, u[copy.to].add(to.place(cell)), copy.cells.size[0]);
                    }
                }
            }
        }
        self.me.barrier();
    }

    fn fill(&mut self, sweep: i32) -> bool {
        if !self.call.fills {
            return false;
        }
        let stop = &self.call.data.stop;
        let u = self.current();
        if let Some(watcher) = &mut self.watcher {
            stop.store(watcher.fill(sweep, u), Ordering::Relaxed);
        }
        self.me.barrier();
        let answer = stop.load(Ordering::Relaxed);
        // Nobody asks again before all have read this answer.
        self.me.barrier();
        answer
    }

    fn colours(&self) -> usize {
        colours(&self.call.data.blocks.stencil)
    }

    fn jacobi(&mut self, cut: &Cut, omega: f64) {
        let (from, to) =
            if self.flipped { (self.call.other, self.call.arrays.u) } else { (self.call.arrays.u, self.call.other) };
        for p in self.me.share(self.patches().len()) {
            self.copy_ghosts(p, from[p], to[p]);
        }
        let ways = Ways { from, to, cut, omega, in_order: false, reverse: false, fetch: Fetch::Next };
        // SAFETY: read from one array and written to the other, every row by one member.
        self.share_rows(cut, |member, p, row| unsafe { member.row(ways, p, row, Which::All) });
        self.flipped = !self.flipped;
    }

    fn colour(&mut self, cut: &Cut, omega: f64, colour: usize) {
        let u = self.current();
        let ways = Ways { from: u, to: u, cut, omega, in_order: false, reverse: false, fetch: Fetch::Next };
        // SAFETY: blocks of one colour do not touch each other, and every row is done by one member.
        self.share_rows(cut, |member, p, row| unsafe { member.row(ways, p, row, Which::Colour(colour)) });
    }

    fn all_colours(&mut self, cut: &Cut, omega: f64, reverse: bool) {
        let me = self.me;
        let slabs: usize = self.patches().iter().map(|p| cut.range(p, 2).1).sum();
        let grain = match self.call.work.parallel {
            Parallel::Flat if slabs >= SLABS_PER_MEMBER * me.members => Grain::Slab,
            Parallel::Patches => Grain::Patch,
            _ => {
                for c in 0..self.colours() {
                    self.colour(cut, omega, if reverse { self.colours() - 1 - c } else { c });
                }
                return;
            }
        };
        let ways = {
            let u = self.current();
            Ways { from: u, to: u, cut, omega, in_order: false, reverse: false, fetch: Fetch::Next }
        };
        let begin = self.boundary(cut, me.index, me.members, grain);
        let end = self.boundary(cut, me.index + 1, me.members, grain);
        for seams in [false, true] {
            for p in begin.patch..self.patches().len().min(end.patch + 1) {
                let (all, in_slab) = rows(cut, &self.patches()[p]);
                let first = if p == begin.patch { begin.row / in_slab } else { 0 };
                let last = if p == end.patch { end.row / in_slab } else { all / in_slab };
                if first >= last {
                    continue;
                }
                // Slabs next to another member's wait for its first stage.
                let low = first + usize::from(first > 0);
                let high = last - usize::from(last < all / in_slab);
                if seams {
                    let [_, two] = self.stages(reverse);
                    for kb in (first..last).filter(|kb| !(low..high).contains(kb)) {
                        // SAFETY: first stages are done everywhere; second stages do not touch each other.
                        unsafe { self.slab(ways, p, kb, two.clone(), reverse) };
                    }
                } else {
                    // SAFETY: no other member writes in these slabs or in those next to them what is read here: theirs
                    // at the seams do only their first stage now, which touches none of its own.
                    unsafe { self.fused(ways, p, first..last, low..high, reverse) };
                }
            }
            me.barrier();
        }
    }

    fn chaotic(&mut self, cut: &Cut, omega: f64, reverse: bool) {
        let u = self.current();
        let ways = Ways {
            from: u,
            to: u,
            cut,
            omega,
            in_order: true,
            reverse,
            fetch: if reverse { Fetch::Nothing } else { Fetch::Next },
        };
        if self.call.work.parallel == Parallel::Patches {
            let begin = self.boundary(cut, self.me.index, self.me.members, Grain::Patch).patch;
            let end = self.boundary(cut, self.me.index + 1, self.me.members, Grain::Patch).patch;
            for p in begin..end {
                let n = rows(cut, &self.patches()[p]).0;
                for row in 0..n {
                    // SAFETY: the patch is this member's alone.
                    unsafe { self.row(ways, p, if reverse { n - 1 - row } else { row }, Which::All) };
                }
            }
            self.me.barrier();
            return;
        }
        self.share_rows(cut, |member, p, row| {
            let n = rows(cut, &member.patches()[p]).0;
            member.row_asynchronously(ways, p, if reverse { n - 1 - row } else { row });
        });
    }

    fn residual(&mut self) -> f64 {
        let (data, arrays, u) = (self.call.data, &self.call.arrays, self.current());
        let planes = data.planes_before[self.patches().len()];
        let mine = self.me.share(planes);
        // SAFETY: every member's part of the sums is its own until the barrier.
        let squares = unsafe { data.squares.slice_mut(mine.start, mine.len()) };
        for (square, at) in squares.iter_mut().zip(mine) {
            let p = data.planes_before.partition_point(|&before| before <= at) - 1;
            let k = at - data.planes_before[p];
            let patch = &self.patches()[p];
            let [nx, ny, _] = patch.size;
            let (row, plane) = patch.strides();
            *square = 0.0;
            for j in 0..ny {
                let f_place = (k * ny + j) * nx;
                // SAFETY: the row and the layer around it lie in the arrays; u is not written, and each plane of r by
                // one member.
                *square += unsafe {
                    let r = arrays.r.get(p).map_or(std::ptr::null_mut(), |r| r.add(f_place));
                    let from = u[p].add((k + 1) * plane + (j + 1) * row + 1);
                    residual_row(from, arrays.f[p].add(f_place), r, nx, (row, plane), &data.operator)
                };
            }
        }
        self.me.barrier();
        // SAFETY: nobody writes the sums before the next barrier.
        let norm = sums::pairwise(unsafe { data.squares.slice(0, planes) }).sqrt();
        self.me.barrier();
        norm
    }

    fn watched(&self) -> bool {
        self.call.watched
    }

    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool {
        let stop = &self.call.data.stop;
        if let Some(watcher) = &mut self.watcher {
            stop.store(watcher.show(sweep, relative_residual), Ordering::Relaxed);
        }
        self.me.barrier();
        let answer = stop.load(Ordering::Relaxed);
        self.me.barrier();
        answer
    }

    fn settle(&mut self) {
        if !std::mem::replace(&mut self.flipped, false) {
            return;
        }
        for (p, patch) in self.patches().iter().enumerate() {
            let plane = patch.strides().1;
            let mine = self.me.share(patch.size[2] + 2);
            // SAFETY: planes of two arrays of one shape; each is written by one member.
            unsafe {
                let (from, to) = (self.call.other[p].add(mine.start * plane), self.call.arrays.u[p]);
                std::ptr::copy_nonoverlapping(from.cast_const(), to.add(mine.start * plane), mine.len() * plane);
            }
        }
        self.me.barrier();
    }
}

/// No NaN and no infinity: their exponents are the largest.
fn finite_row(values: &[f64]) -> bool {
    sums::max_abs(values).is_finite()
}

/// Keeps the one that comes first: by patch, u before f, then by cell.
fn earlier(found: &mut Option<BadCell>, bad: BadCell) {
    let key = |b: &BadCell| (b.patch, b.name == "f", b.cell[2], b.cell[1], b.cell[0]);
    if found.as_ref().is_none_or(|f| key(&bad) < key(f)) {
        *found = Some(bad);
    }
}

/// Cells per side of a block with the layer around it.
const SIDE: usize = 10;

impl Member<'_, '_> {
    /// Relaxes the blocks of a row one after the other while other members read and write around them. A block's own
    /// cells are written by this member alone; the layer around them is read with relaxed atomic loads, and the new
    /// values are written with relaxed atomic stores, so that no access is a data race.
    fn row_asynchronously(&mut self, ways: Ways, p: usize, row: usize) {
        let patch = &self.patches()[p];
        let (_, in_slab) = rows(ways.cut, patch);
        let (y, z) = (ways.cut.segment(patch, 1, row % in_slab), ways.cut.segment(patch, 2, row / in_slab));
        let count = ways.cut.range(patch, 0).1;
        let (u_row, u_plane) = patch.strides();
        let f_strides = (patch.size[0], patch.size[0] * patch.size[1]);
        // Values around a block, read atomically; the kernel works on this copy.
        let mut copy = [0.0f64; SIDE * SIDE * SIDE];
        for m in 0..count {
            let x = ways.cut.segment(patch, 0, if ways.reverse { count - 1 - m } else { m });
            let shape = [x.len, y.len, z.len];
            let Some(solver) = &self.call.solvers[place_of(shape)] else { return };
            let corner = z.start * u_plane + y.start * u_row + x.start;
            // SAFETY: the cell at (i, j, k) from the block's corner, one layer out, lies in the array.
            let cell = |i: usize, j: usize, k: usize| unsafe { ways.from[p].add(corner + k * u_plane + j * u_row + i) };
            for k in 0..z.len + 2 {
                for j in 0..y.len + 2 {
                    for i in 0..x.len + 2 {
                        // SAFETY: aligned, and all concurrent accesses to it are atomic.
                        let value = unsafe { AtomicU64::from_ptr(cell(i, j, k).cast()) }.load(Ordering::Relaxed);
                        copy[(k * SIDE + j) * SIDE + i] = f64::from_bits(value);
                    }
                }
            }
            let inner = SIDE * SIDE + SIDE + 1;
            let out = copy[inner..].as_mut_ptr();
            let task = Task {
                u: out,
                out,
                // SAFETY: the block's first cell.
                f: unsafe { self.call.arrays.f[p].add(z.start * f_strides.1 + y.start * f_strides.0 + x.start) },
                strides: (SIDE, SIDE * SIDE),
                f_strides,
                blocks: 1,
                pitch: x.len,
                omega: ways.omega,
                ahead: Ahead::NOTHING,
            };
            if solver.is_dense() {
                // SAFETY: a member's scratch is its own.
                let scratch = unsafe { self.call.data.scratch[self.me.index].slice_mut(0, SCRATCH) };
                // SAFETY: the copy has the block and the layer around it.
                unsafe { relax_dense(&[task], solver, &self.call.data.operator, scratch, true) };
            } else {
                // SAFETY: as above.
                unsafe { relax(&task, solver, &self.call.data.operator) };
            }
            for k in 1..=z.len {
                for j in 1..=y.len {
                    for i in 1..=x.len {
                        let bits = copy[(k * SIDE + j) * SIDE + i].to_bits();
                        // SAFETY: as for the loads.
                        unsafe { AtomicU64::from_ptr(cell(i, j, k).cast()) }.store(bits, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}
