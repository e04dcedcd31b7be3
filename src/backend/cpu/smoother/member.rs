//! What members share, and one member's view of a call: which rows of the work list are its own.

use super::exchange::Handover;
use super::kernels::{Ahead, BATCH, Operator, Solver, Task};
use crate::backend::steps::smoother::{BadCell, Blocks, Parallel, Pointers, Watcher, Work};
use crate::grid::block_inverse::Shape;
use crate::grid::patches::{Cut, Patch};
use crate::runtime::reduce::Noted;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Slabs a member should have for the fused form: with fewer, parts differ too much in size.
const SLABS_PER_MEMBER: usize = 6;

/// What members share beside the caller's arrays.
pub struct Data {
    pub blocks: Blocks,
    pub operator: Operator,
    /// The second array of Jacobi: all patches, one after the other.
    pub other: Option<(Shared, Vec<*mut f64>)>,
    /// For fused coloured sweeps, where patches have ghost cells from each other.
    pub handover: Option<Handover>,
    /// By patch, the fused coloured sweep for which a member has claimed it; counted over all calls.
    pub claimed: Vec<AtomicUsize>,
    /// By member, the last such sweep in which somebody has found that all whole patches of its part are claimed.
    pub lent: Vec<AtomicUsize>,
    /// Sweeps of all calls.
    pub sweeps: usize,
    /// Sums of squares by plane.
    pub squares: Noted,
    pub planes_before: Vec<usize>,
    /// For dense inverses, by member.
    pub scratch: Vec<Shared>,
    pub stop: AtomicBool,
    pub bad: Mutex<Option<BadCell>>,
}

// SAFETY: the pointers in it are those of `other`, an array that `Data` owns; which member touches which values
// between two barriers is the contract of the unsafe blocks of `Member`.
unsafe impl Sync for Data {}

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

    /// Patches of part `part` of the work list, and the rows of each that belong to it.
    pub fn parts(&self, cut: &Cut, part: usize, grain: Grain) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
        let (patches, cut) = (self.patches(), *cut);
        let [begin, end] = [part, part + 1].map(|part| self.boundary(&cut, part, self.me.members, grain));
        (begin.patch..patches.len().min(end.patch + 1)).filter_map(move |patch| {
            let first = if patch == begin.patch { begin.row } else { 0 };
            let last = if patch == end.patch { end.row } else { rows(&cut, &patches[patch]).0 };
            (first < last).then_some((patch, first..last))
        })
    }

    /// Runs `f` on this member's rows in the wanted parallel form; ends with a barrier.
    pub fn share_rows(&mut self, cut: &Cut, mut f: impl FnMut(&mut Self, usize, usize)) {
        let (me, count) = (self.me, self.patches().len());
        match self.call.work.parallel {
            Parallel::Flat | Parallel::Patches => {
                let grain = if self.call.work.parallel == Parallel::Flat { Grain::Row } else { Grain::Patch };
                for (patch, part) in self.parts(cut, me.index, grain) {
                    part.for_each(|row| f(self, patch, row));
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

    /// What member 0's watcher answers.
    pub fn ask(&mut self, question: impl FnOnce(&mut dyn Watcher) -> bool) -> bool {
        let stop = &self.call.data.stop;
        if let Some(watcher) = &mut self.watcher {
            stop.store(question(*watcher), Ordering::Relaxed);
        }
        self.me.barrier();
        let answer = stop.load(Ordering::Relaxed);
        // Nobody asks again before all have read this answer.
        self.me.barrier();
        answer
    }

    /// Number of the fused coloured sweep that runs, over all calls.
    pub fn sweep_number(&self) -> usize {
        self.call.sweeps_before + self.sweeps + 1
    }

    /// Whether a patch that is one member's as a whole is this one's in the coloured sweep that runs.
    pub fn claim(&self, p: usize) -> bool {
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
