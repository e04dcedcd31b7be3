//! One member's view of a call: which rows of the work list are its own, and what all wait for; the steps of the
//! methods.

use super::Data;
use super::exchange::Handover;
use super::kernels::{Ahead, BATCH, Solver, Task, residual_row};
use super::rows::{Fetch, Ways, Which};
use crate::backend::steps::smoother::{BadCell, BlockSteps, Parallel, Pointers, Watcher, Work, colours};
use crate::grid::block_inverse::Shape;
use crate::grid::patches::{Cut, Patch};
use crate::runtime::reduce as sums;
use crate::runtime::team::Me;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Slabs a member should have for the fused form: with fewer, parts differ too much in size.
const SLABS_PER_MEMBER: usize = 6;

/// What all members know about one call.
pub struct Call<'a> {
    pub data: &'a Data,
    pub solvers: &'a [Option<Box<Solver>>],
    pub arrays: Pointers<'a>,
    pub other: &'a [*mut f64],
    pub work: &'a Work,
    /// Ghost cells are passed on in the sweep.
    pub handover: Option<&'a Handover>,
    /// Sweeps of the calls before, on these patches.
    pub sweeps_before: usize,
    pub fills: bool,
    pub watched: bool,
}

// SAFETY: the pointers are to arrays of numbers that the caller lends for the call; which member touches which values
// between two barriers is the contract of the unsafe blocks below.
unsafe impl Sync for Call<'_> {}

/// One member's view of a call.
pub struct Member<'a, 'w> {
    pub call: &'a Call<'a>,
    pub me: Me<'a>,
    pub watcher: Option<&'w mut dyn Watcher>,
    /// Jacobi: the values are in the second array.
    pub flipped: bool,
    /// Coloured sweeps that are done.
    pub sweeps: usize,
    pub batch: Batch,
}

/// Blocks that wait for a dense product; all of one shape.
pub struct Batch {
    pub tasks: [Task; BATCH],
    pub count: usize,
    pub shape: Shape,
    /// Flushed after every block, by the method's order.
    pub alone: bool,
}

/// A block row in the work list: row kb * (block rows of a slab) + jb of a patch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub patch: usize,
    pub row: usize,
}

/// What parts of the work list end at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    Row,
    Slab,
    Patch,
}

impl<'a, 'w> Member<'a, 'w> {
    pub fn new(call: &'a Call<'a>, me: Me<'a>, watcher: Option<&'w mut dyn Watcher>) -> Self {
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
            sweeps: 0,
            batch: Batch { tasks: [none; BATCH], count: 0, shape: [0; 3], alone: false },
        }
    }

    pub fn patches(&self) -> &'a [Patch] {
        &self.call.data.blocks.list.patches
    }

    pub fn current(&self) -> &'a [*mut f64] {
        if self.flipped { self.call.other } else { self.call.arrays.u }
    }

    /// Where part `part` of `parts` of the work list begins.
    pub fn boundary(&self, cut: &Cut, part: usize, parts: usize, grain: Grain) -> Place {
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
    pub fn parts_of(&self, cut: &Cut, begin: Place, end: Place, mut f: impl FnMut(usize, std::ops::Range<usize>)) {
        for patch in begin.patch..self.patches().len().min(end.patch + 1) {
            let first = if patch == begin.patch { begin.row } else { 0 };
            let last = if patch == end.patch { end.row } else { rows(cut, &self.patches()[patch]).0 };
            if first < last {
                f(patch, first..last);
            }
        }
    }

    /// Runs `f` on this member's rows in the wanted parallel form; ends with a barrier.
    pub fn share_rows(&mut self, cut: &Cut, mut f: impl FnMut(&mut Self, usize, usize)) {
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

    /// Number of the fused coloured sweep that runs, over all calls.
    fn sweep_number(&self) -> usize {
        self.call.sweeps_before + self.sweeps + 1
    }

    /// Whether a patch that is one member's as a whole is this one's in the coloured sweep that runs.
    fn claim(&self, p: usize) -> bool {
        let sweep = self.sweep_number();
        let claimed = &self.call.data.claimed[p];
        claimed.load(Ordering::Relaxed) != sweep && claimed.swap(sweep, Ordering::Relaxed) != sweep
    }

    /// Copies the ghost layer of patch p from the values in use to the other array.
    pub fn copy_ghosts(&self, p: usize, from: *const f64, to: *mut f64) {
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

/// What members' parts of a fused coloured sweep end at; None: colour after colour.
pub fn fused_grain(patches: &[Patch], cut: &Cut, parallel: Parallel, members: usize) -> Option<Grain> {
    // Each member asks before each sweep: no further than the answer.
    let enough = || {
        let mut slabs = 0;
        patches.iter().any(|p| {
            slabs += cut.range(p, 2).1;
            slabs >= SLABS_PER_MEMBER * members
        })
    };
    match parallel {
        Parallel::Flat if enough() => Some(Grain::Slab),
        Parallel::Patches => Some(Grain::Patch),
        _ => None,
    }
}

/// Block rows of a patch, and those of one slab.
pub fn rows(cut: &Cut, patch: &Patch) -> (usize, usize) {
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
        if let Some(handover) = self.call.handover {
            // Later sweeps find what the one before has passed on.
            if self.sweeps == 0 {
                for p in self.me.share(list.patches.len()) {
                    // SAFETY: nobody writes u now, and every patch is one member's.
                    unsafe { handover.collect(list, p, 0, u[p]) };
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
        let Some(grain) = fused_grain(self.patches(), cut, self.call.work.parallel, me.members) else {
            for c in 0..self.colours() {
                self.colour(cut, omega, if reverse { self.colours() - 1 - c } else { c });
            }
            return;
        };
        let ways = {
            let u = self.current();
            Ways { from: u, to: u, cut, omega, in_order: false, reverse: false, fetch: Fetch::Next }
        };
        for seams in [false, true] {
            // Cores are not equally fast: whole patches that nobody has begun are anybody's, the last ones first.
            let lenders = if seams || grain == Grain::Patch { 1 } else { me.members };
            for lender in 0..lenders {
                let of = (me.index + lender) % me.members;
                // Lists of thousands of patches are not gone through by everybody.
                let lent = &self.call.data.lent[of];
                if lender > 0 && lent.load(Ordering::Relaxed) == self.sweep_number() {
                    continue;
                }
                let begin = self.boundary(cut, of, me.members, grain);
                let end = self.boundary(cut, of + 1, me.members, grain);
                let patches = begin.patch..self.patches().len().min(end.patch + 1);
                for step in 0..patches.len() {
                    let p = if lender == 0 { patches.start + step } else { patches.end - 1 - step };
                    let (all, in_slab) = rows(cut, &self.patches()[p]);
                    let slabs = all / in_slab;
                    let first = if p == begin.patch { begin.row / in_slab } else { 0 };
                    let last = if p == end.patch { end.row / in_slab } else { slabs };
                    let whole = first == 0 && last == slabs;
                    if first >= last || (!whole && lender > 0) || (whole && (seams || !self.claim(p))) {
                        continue;
                    }
                    // Slabs next to another member's wait for its first stage.
                    let low = first + usize::from(first > 0);
                    let high = last - usize::from(last < slabs);
                    if !seams {
                        // SAFETY: no other member writes in these slabs or in those next to them what is read here:
                        // whole patches are claimed, and those who share one do only their first stage at the seams
                        // now, which touches none of others' first stages.
                        unsafe { self.fused(ways, p, first..last, low..high, reverse) };
                        continue;
                    }
                    let [_, two] = self.stages(reverse);
                    for kb in (first..last).filter(|kb| !(low..high).contains(kb)) {
                        // SAFETY: first stages are done everywhere; second stages do not touch each other.
                        unsafe { self.slab(ways, p, kb, two.clone(), reverse) };
                        for jb in 0..in_slab {
                            // SAFETY: the row is final, and this member's.
                            unsafe { self.give(cut, p, kb * in_slab + jb) };
                        }
                    }
                }
                if !seams {
                    lent.store(self.sweep_number(), Ordering::Relaxed);
                }
            }
            me.barrier();
        }
        self.sweeps += 1;
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

    fn residual(&mut self, scale: f64) -> f64 {
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
                    residual_row(from, arrays.f[p].add(f_place), r, nx, (row, plane), &data.operator, scale)
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
