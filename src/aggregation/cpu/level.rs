//! A level of the cycle: its matrix and vectors, and the multithreaded operations on them.
//!
//! Safety of the unsafe blocks: a thread writes only its own share of the rows of a group, of the chunks, or of the
//! coarse rows. It reads rows of other threads only after a barrier.

use super::rows::{LevelMatrix, ReferencedValues, multiply, residual, sweep};
use crate::aggregation::Ordered;
use crate::base::loops::combine;
use crate::base::number::Real;
use crate::base::reduce::{Partials, dot};
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::base::workers::Workers;
use crate::direct::couplings::{Couplings, NONE, WHAT, rows_by_aggregate};
use crate::direct::null_space::NearlySingularComponents;
use crate::error::{Result, collected};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of rows of a chunk in the search for the largest value of a vector (`Cycle::apply`). The search has one
/// partial result per chunk.
pub const CHUNK_ROWS: usize = 2048;
/// Number of slices of a chunk in sums (`Level::sums`). A sum has one partial result per chunk.
const SLICES_PER_CHUNK: usize = 128;

/// A level of the cycle.
pub struct Level<V: Number> {
    pub rows: LevelMatrix<V>,
    /// Group g consists of the rows `groups[g] .. groups[g + 1]`. In a sweep, the rows of a group do not depend on each
    /// other. `slices` contains the slices of each group.
    groups: Vec<usize>,
    slices: Vec<Range<usize>>,
    /// Row of the coarser level for each row; `NONE` if the row is in no aggregate. Empty on the coarsest level.
    aggregate: Vec<u32>,
    /// Fine rows of coarse row k: entries `fine.0[k] .. fine.0[k + 1]` of the list `fine.1`.
    fine: (Vec<usize>, Vec<u32>),
    pub cycles: CycleCount,
    /// Singular and nearly singular components, if there may be any.
    nearly_singular: Option<Mutex<NearlySingularComponents>>,
    /// Whether some of these components are only nearly singular.
    has_nearly_singular: bool,
    partials: Partials,
    pub r: Shared<V>,
    pub z: Shared<V>,
    /// Residual after a forward sweep from zero.
    residual: Shared<V>,
    /// First search direction c of the coarse solve, and v = A c. The second step of flexible CG overwrites v by A z.
    pub c: Shared<V>,
    pub v: Shared<V>,
}

/// Method that solves the coarse systems on levels with two cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CoarseMethod {
    /// Flexible CG (K-cycle): fewest iterations, but B depends on r.
    Flexible,
    /// Chebyshev steps: B is a fixed, symmetric positive definite matrix.
    Linear,
}

/// Number of cycles that solve the system of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CycleCount {
    One,
    /// Two with `CoarseMethod::Linear`, one with `CoarseMethod::Flexible`.
    TwoIfLinear,
    Two,
}

/// State of a thread during a cycle.
pub struct CycleState<'a> {
    pub me: TeamThread<'a>,
    pub method: CoarseMethod,
    /// Number of reductions so far.
    reductions: usize,
}

impl<'a> CycleState<'a> {
    pub fn new(me: TeamThread<'a>, method: CoarseMethod) -> Self {
        Self { me, method, reductions: 0 }
    }
}

impl<V: Real + Number> Level<V> {
    /// Creates a level for a matrix whose rows are processed in the order `order`. `aggregate` contains the aggregate
    /// of each row, and the row of the coarser level for each aggregate. It is `None` on the coarsest level.
    pub fn new(
        c: &Couplings,
        order: &Ordered,
        aggregate: Option<(&[u32], &[u32])>,
        nearly_singular: Option<NearlySingularComponents>,
        cycles: CycleCount,
        workers: &mut Workers,
    ) -> Result<Self> {
        let n = c.rows();
        let coarser = |i: &u32| match aggregate {
            Some((of, position)) if of[*i as usize] != NONE => position[of[*i as usize] as usize],
            _ => NONE,
        };
        let of = if aggregate.is_some() { n } else { 0 };
        let aggregate_of = collected(order.row[..of].iter().map(coarser), WHAT)?;
        let count = aggregate.map_or(0, |(_, position)| position.len());
        let room = |is: bool| Shared::zeroed(if is { n } else { 0 });
        let rows = LevelMatrix::of(c, order, workers)?;
        Ok(Self {
            groups: collected(order.groups.iter().copied(), WHAT)?,
            slices: collected(order.groups.windows(2).map(|group| rows.slices_of(group)), WHAT)?,
            fine: rows_by_aggregate(&aggregate_of, count)?,
            has_nearly_singular: nearly_singular.as_ref().is_some_and(NearlySingularComponents::has_nearly_singular),
            nearly_singular: nearly_singular.map(Mutex::new),
            partials: Partials::new(rows.slices().div_ceil(SLICES_PER_CHUNK), 2)?,
            rows,
            r: room(true)?,
            z: room(true)?,
            residual: room(aggregate.is_some())?,
            c: room(cycles != CycleCount::One)?,
            v: room(cycles != CycleCount::One)?,
            aggregate: aggregate_of,
            cycles,
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns this thread's share of a group: its slices, and their rows.
    fn share(&self, me: &TeamThread, group: usize) -> (Range<usize>, Range<usize>) {
        let of = &self.slices[group];
        let share = me.share(of.len());
        let slices = of.start + share.start..of.start + share.end;
        (slices.clone(), self.rows.rows(&slices))
    }

    /// Returns the chunks of this thread, each as its number, its slices and its rows.
    fn chunks(&self, me: &TeamThread) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        let n = self.rows.slices();
        me.share(n.div_ceil(SLICES_PER_CHUNK)).map(move |chunk| {
            let slices = chunk * SLICES_PER_CHUNK..n.min((chunk + 1) * SLICES_PER_CHUNK);
            (chunk, slices.clone(), self.rows.rows(&slices))
        })
    }

    /// Returns the sums of `of(slices, rows)` over all chunks of the level. Contains a barrier.
    pub fn sums<const N: usize>(
        &self,
        run: &mut CycleState,
        mut of: impl FnMut(Range<usize>, Range<usize>) -> [f64; N],
    ) -> [f64; N] {
        run.reductions += 1;
        let partials = self.partials.reduce(run.reductions, self.partials.rows());
        for (chunk, slices, rows) in self.chunks(&run.me) {
            // SAFETY: the chunk belongs to this thread and is written once.
            unsafe { partials.store(chunk, of(slices, rows)) };
        }
        partials.sum(Some(run.me))
    }

    /// Locks and returns `nearly_singular`, with all of its components, if some of them are only nearly singular.
    /// Otherwise returns `None`.
    fn lock_nearly_singular(&self) -> Option<MutexGuard<'_, NearlySingularComponents>> {
        let nearly_singular = self.nearly_singular.as_ref().filter(|_| self.has_nearly_singular)?;
        Some(nearly_singular.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Computes r_k = from(k). If there are nearly singular components, subtracts from r its mean on each component;
    /// `for_each_value` adds the corresponding constants to z. Ends with a barrier.
    pub fn load(&self, me: &TeamThread, from: impl Fn(usize) -> f64) {
        if self.has_nearly_singular {
            if let Some(mut nearly_singular) = self.lock_nearly_singular().filter(|_| me.index == 0) {
                // SAFETY: the other threads wait at the barrier.
                nearly_singular.load_without_means(from, unsafe { self.r.slice_mut(0, self.len()) });
            }
        } else {
            let own = me.share(self.len());
            // SAFETY: the rows belong to this thread.
            let r = unsafe { self.r.slice_mut(own.start, own.len()) };
            own.zip(r).for_each(|(k, r)| *r = V::narrow(from(k)));
        }
        me.barrier();
    }

    /// Calls `to(k, z_k)` for the rows of this thread. If some components are nearly singular, z_k includes the
    /// constant of its component, and the function contains a barrier. All threads must have passed a barrier after the
    /// cycle.
    pub fn for_each_value(&self, me: &TeamThread, mut to: impl FnMut(usize, f64)) {
        let own = me.share(self.len());
        // SAFETY: no thread writes z before the next cycle.
        let z = unsafe { self.z.slice(0, self.len()) };
        if !self.has_nearly_singular {
            return own.clone().zip(&z[own]).for_each(|(k, z)| to(k, z.wide()));
        }
        if let Some(mut nearly_singular) = self.lock_nearly_singular().filter(|_| me.index == 0) {
            nearly_singular.compute_constants(z);
        }
        me.barrier();
        if let Some(nearly_singular) = self.lock_nearly_singular() {
            own.for_each(|k| to(k, z[k].wide() + nearly_singular.constant(k)));
        }
    }

    /// Computes z by a forward Gauss-Seidel sweep from 0.
    pub fn sweep_forwards(&self, me: &TeamThread, z: &Shared<V>) {
        self.groups.windows(2).enumerate().for_each(|group| self.sweep(me, z, group, false));
    }

    /// Updates z by a backward Gauss-Seidel sweep.
    pub fn sweep_backwards(&self, me: &TeamThread, z: &Shared<V>) {
        self.groups.windows(2).enumerate().rev().for_each(|group| self.sweep(me, z, group, true));
    }

    /// Updates z on group k. If `later` is false, z counts as zero on later groups, and their couplings are skipped.
    /// Ends with a barrier.
    fn sweep(&self, me: &TeamThread, z: &Shared<V>, (k, group): (usize, &[usize]), later: bool) {
        let (slices, own) = self.share(me, k);
        // SAFETY: z is written in rows of this thread, and read in other groups, which no thread writes before the next
        // barrier. Couplings to earlier groups refer only to rows of `before`, and couplings to later groups only to
        // rows of `after` (`lines`).
        let (before, after, r, z) = unsafe {
            let before = ReferencedValues::new(z.slice(0, group[0]), 0);
            let after = ReferencedValues::new(z.slice(group[1], self.len() - group[1]), group[1]);
            (before, after, self.r.slice(own.start, own.len()), z.slice_mut(own.start, own.len()))
        };
        sweep(&self.rows, slices, before, later.then_some(after), r, z);
        me.barrier();
    }

    /// Computes the residual after the forward sweep. Stores its sum over each aggregate in `coarse`. Ends with a
    /// barrier.
    pub fn restrict(&self, me: &TeamThread, z: &Shared<V>, coarse: &Shared<V>) {
        let n = self.len();
        for (_, slices, rows) in self.chunks(me) {
            // SAFETY: the rows of `residual` belong to this thread; no thread writes z before the next barrier.
            let (z, out) =
                unsafe { (ReferencedValues::new(z.slice(0, n), 0), self.residual.slice_mut(rows.start, rows.len())) };
            residual(&self.rows, slices, z, out);
        }
        me.barrier();
        let (starts, fine) = &self.fine;
        let own = me.share(starts.len() - 1);
        // SAFETY: the coarse rows belong to this thread; no thread writes `residual` before the next barrier.
        let (residual, coarse) = unsafe { (self.residual.slice(0, n), coarse.slice_mut(own.start, own.len())) };
        for (sum, ends) in coarse.iter_mut().zip(starts[own.start..=own.end].windows(2)) {
            *sum = fine[ends[0]..ends[1]].iter().fold(V::default(), |sum, &i| sum + residual[i as usize]);
        }
        me.barrier();
    }

    /// Adds the coarse correction to z: z_i += coarse_k for each row i of aggregate k. Omits the last group, because
    /// the backward sweep overwrites its rows before reading them. Ends with a barrier.
    pub fn prolong(&self, me: &TeamThread, z: &Shared<V>, coarse: &Shared<V>) {
        let end = self.groups[self.groups.len().saturating_sub(2)];
        let own = me.share(end);
        // SAFETY: the rows belong to this thread; no thread writes `coarse` before the next barrier.
        let (z, coarse) = unsafe { (z.slice_mut(own.start, own.len()), coarse.slice(0, coarse.len())) };
        for (z, &k) in z.iter_mut().zip(&self.aggregate[own]).filter(|(_, k)| **k != NONE) {
            *z += coarse[k as usize];
        }
        me.barrier();
    }

    /// Subtracts from r its mean on each component of `nearly_singular`. All threads must have passed a barrier before
    /// the call. If `nearly_singular` is not `None`, ends with a barrier.
    pub fn remove_means(&self, me: &TeamThread) {
        let Some(nearly_singular) = &self.nearly_singular else { return };
        if me.index == 0 {
            let mut nearly_singular = nearly_singular.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the other threads wait at the barrier.
            nearly_singular.subtract(unsafe { self.r.slice_mut(0, self.len()) });
        }
        me.barrier();
    }

    /// Returns <r, r>. Contains a barrier.
    pub fn residual_norm2(&self, run: &mut CycleState) -> f64 {
        let [norm2] = self.sums(run, |_, rows| {
            // SAFETY: no thread writes r in this step.
            let r = unsafe { self.r.slice(rows.start, rows.len()) };
            [dot(r, r)]
        });
        norm2
    }

    /// Computes v = A x; returns <x, v> and <x, r>. Contains a barrier.
    pub fn multiply(&self, run: &mut CycleState, x: &Shared<V>) -> [f64; 2] {
        self.sums(run, |slices, rows| {
            // SAFETY: no thread writes x or r in this step; the rows of v belong to this thread.
            let (all, from, r, v) = unsafe {
                let (all, r) = (x.slice(0, self.len()), self.r.slice(rows.start, rows.len()));
                (all, ReferencedValues::new(all, 0), r, self.v.slice_mut(rows.start, rows.len()))
            };
            multiply(&self.rows, slices, all, from, v);
            [dot(&all[rows.clone()], v), dot(&all[rows], r)]
        })
    }

    /// Returns <z, v>. Contains a barrier.
    pub fn dot_z_v(&self, run: &mut CycleState) -> f64 {
        let [product] = self.sums(run, |_, rows| {
            // SAFETY: no thread writes z or v in this step.
            let (z, v) = unsafe { (self.z.slice(rows.start, rows.len()), self.v.slice(rows.start, rows.len())) };
            [dot(z, v)]
        });
        product
    }

    /// Computes r = r - factor v; returns <r, r>. Contains a barrier.
    pub fn subtract(&self, run: &mut CycleState, factor: f64) -> f64 {
        let [norm2] = self.sums(run, |_, rows| {
            // SAFETY: the rows belong to this thread.
            let (r, v) = unsafe { (self.r.slice_mut(rows.start, rows.len()), self.v.slice(rows.start, rows.len())) };
            combine(r, 1.0, -factor, v);
            [dot(r, r)]
        });
        norm2
    }

    /// Computes z = first c + second z. Ends with a barrier.
    pub fn combine(&self, me: &TeamThread, first: f64, second: f64) {
        let own = me.share(self.len());
        // SAFETY: the rows belong to this thread.
        let (z, c) = unsafe { (self.z.slice_mut(own.start, own.len()), self.c.slice(own.start, own.len())) };
        combine(z, second, first, c);
        me.barrier();
    }

    pub fn bytes(&self) -> usize {
        let vectors = [&self.r, &self.z, &self.residual, &self.c, &self.v].map(Shared::bytes).iter().sum::<usize>();
        let components =
            self.nearly_singular.as_ref().map_or(0, |m| m.lock().unwrap_or_else(PoisonError::into_inner).bytes());
        let tables = size_of_val(&*self.groups) + size_of_val(&*self.slices) + size_of_val(&*self.aggregate);
        let fine = size_of_val(&*self.fine.0) + size_of_val(&*self.fine.1);
        self.rows.bytes() + tables + fine + vectors + components + 2 * self.partials.bytes()
    }
}
