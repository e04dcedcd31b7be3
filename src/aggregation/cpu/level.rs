//! A level of the cycle: its matrix and vectors, and the multithreaded operations on them.
//!
//! Safety of the unsafe blocks: a thread writes only its own share of the rows of a group, of the chunks, or of the
//! coarse rows. It reads rows of other threads only after a barrier.

use super::rows::{LevelMatrix, ReferencedValues, multiply, residual, sweep};
use crate::aggregation::OrderedRows;
use crate::base::loops::combine;
use crate::base::number::Real;
use crate::base::reduce::{Partials, dot};
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::base::workers::Workers;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings, UNASSIGNED, rows_by_aggregate};
use crate::direct::null_space::NearlySingularComponents;
use crate::error::{Result, collected};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of rows of a chunk when `Cycle::apply` computes max |r_i|. Each chunk has one partial result.
pub const CHUNK_ROWS: usize = 2048;
/// Number of slices of a chunk in `Level::sum_over_chunks`; a slice consists of a few consecutive rows (`lines.rs`). A
/// sum has one partial result per chunk.
const SLICES_PER_CHUNK: usize = 128;

/// A level of the cycle.
pub struct Level<V: Number> {
    pub matrix: LevelMatrix<V>,
    /// Group g consists of the rows `group_starts[g] .. group_starts[g + 1]`. In a sweep, the rows of a group do not
    /// depend on each other. `group_slices` contains the slices of each group.
    group_starts: Vec<usize>,
    group_slices: Vec<Range<usize>>,
    /// Row of the coarser level for each row; `UNASSIGNED` if the row is in no aggregate. Empty on the coarsest level.
    coarse_row_of: Vec<u32>,
    /// Fine rows of coarse row k: entries `fine_rows.0[k] .. fine_rows.0[k + 1]` of the list `fine_rows.1`.
    fine_rows: (Vec<usize>, Vec<u32>),
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

/// Method that solves the coarse systems on levels with two cycles. B is the operator of the cycle, z = B r.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CoarseMethod {
    /// Flexible CG (K-cycle): fewest iterations, but B depends on r.
    FlexibleCg,
    /// Chebyshev steps: B is a fixed, symmetric positive definite matrix.
    Chebyshev,
}

/// Number of cycles that solve the system of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CycleCount {
    One,
    /// Two with `CoarseMethod::Chebyshev`, one with `CoarseMethod::FlexibleCg`.
    TwoIfChebyshev,
    Two,
}

/// State of a thread during a cycle.
pub struct CycleState<'a> {
    pub thread: TeamThread<'a>,
    pub method: CoarseMethod,
    /// Number of reductions so far.
    reductions: usize,
}

impl<'a> CycleState<'a> {
    pub fn new(thread: TeamThread<'a>, method: CoarseMethod) -> Self {
        Self { thread, method, reductions: 0 }
    }
}

impl<V: Real + Number> Level<V> {
    /// Creates a level for a matrix whose rows are processed in the order `order`. `aggregate` contains the aggregate
    /// of each row, and the row of the coarser level for each aggregate. It is `None` on the coarsest level.
    pub fn new(
        c: &Couplings,
        order: &OrderedRows,
        aggregate: Option<(&[u32], &[u32])>,
        nearly_singular: Option<NearlySingularComponents>,
        cycles: CycleCount,
        workers: &mut Workers,
    ) -> Result<Self> {
        let n = c.rows();
        let coarse_row = |i: &u32| match aggregate {
            Some((aggregate_of_row, position)) if aggregate_of_row[*i as usize] != UNASSIGNED => {
                position[aggregate_of_row[*i as usize] as usize]
            }
            _ => UNASSIGNED,
        };
        let aggregated_rows = if aggregate.is_some() { n } else { 0 };
        let coarse_row_of = collected(order.row[..aggregated_rows].iter().map(coarse_row), ALLOCATION_NAME)?;
        let count = aggregate.map_or(0, |(_, position)| position.len());
        let zeroed_vector = |is_needed: bool| Shared::zeroed(if is_needed { n } else { 0 });
        let matrix = LevelMatrix::of(c, order, workers)?;
        Ok(Self {
            group_starts: collected(order.group_starts.iter().copied(), ALLOCATION_NAME)?,
            group_slices: collected(
                order.group_starts.windows(2).map(|group| matrix.slices_of(group)),
                ALLOCATION_NAME,
            )?,
            fine_rows: rows_by_aggregate(&coarse_row_of, count)?,
            has_nearly_singular: nearly_singular.as_ref().is_some_and(NearlySingularComponents::has_nearly_singular),
            nearly_singular: nearly_singular.map(Mutex::new),
            partials: Partials::new(matrix.slice_count().div_ceil(SLICES_PER_CHUNK), 2)?,
            matrix,
            r: zeroed_vector(true)?,
            z: zeroed_vector(true)?,
            residual: zeroed_vector(aggregate.is_some())?,
            c: zeroed_vector(cycles != CycleCount::One)?,
            v: zeroed_vector(cycles != CycleCount::One)?,
            coarse_row_of,
            cycles,
        })
    }

    pub fn len(&self) -> usize {
        self.matrix.len()
    }

    /// Returns this thread's share of a group: its slices, and their rows.
    fn share(&self, thread: &TeamThread, group: usize) -> (Range<usize>, Range<usize>) {
        let slices_of_group = &self.group_slices[group];
        let own_slices = thread.share(slices_of_group.len());
        let slices = slices_of_group.start + own_slices.start..slices_of_group.start + own_slices.end;
        (slices.clone(), self.matrix.rows_of(&slices))
    }

    /// Returns the chunks of this thread, each as its number, its slices and its rows.
    fn chunks(&self, thread: &TeamThread) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
        let n = self.matrix.slice_count();
        thread.share(n.div_ceil(SLICES_PER_CHUNK)).map(move |chunk| {
            let slices = chunk * SLICES_PER_CHUNK..n.min((chunk + 1) * SLICES_PER_CHUNK);
            (chunk, slices.clone(), self.matrix.rows_of(&slices))
        })
    }

    /// Returns the sums of `compute_chunk(slices, rows)` over all chunks of the level. Contains a barrier.
    pub fn sum_over_chunks<const N: usize>(
        &self,
        state: &mut CycleState,
        mut compute_chunk: impl FnMut(Range<usize>, Range<usize>) -> [f64; N],
    ) -> [f64; N] {
        state.reductions += 1;
        let partials = self.partials.reduce(state.reductions, self.partials.rows());
        for (chunk, slices, rows) in self.chunks(&state.thread) {
            // SAFETY: the chunk belongs to this thread and is written once.
            unsafe { partials.store(chunk, compute_chunk(slices, rows)) };
        }
        partials.sum(Some(state.thread))
    }

    /// If some components of `nearly_singular` are only nearly singular, locks and returns `nearly_singular`. Otherwise
    /// returns `None`.
    fn lock_nearly_singular(&self) -> Option<MutexGuard<'_, NearlySingularComponents>> {
        let nearly_singular = self.nearly_singular.as_ref().filter(|_| self.has_nearly_singular)?;
        Some(nearly_singular.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Computes r_k = input(k). If there are nearly singular components, subtracts from r its mean on each component;
    /// `for_each_value` adds the corresponding constants to z. Ends with a barrier.
    pub fn load(&self, thread: &TeamThread, input: impl Fn(usize) -> f64) {
        if self.has_nearly_singular {
            if let Some(mut nearly_singular) = self.lock_nearly_singular().filter(|_| thread.index == 0) {
                // SAFETY: the other threads wait at the barrier.
                nearly_singular.load_without_means(input, unsafe { self.r.slice_mut(0, self.len()) });
            }
        } else {
            let own_rows = thread.share(self.len());
            // SAFETY: the rows belong to this thread.
            let r = unsafe { self.r.slice_mut(own_rows.start, own_rows.len()) };
            own_rows.zip(r).for_each(|(k, r)| *r = V::from_f64(input(k)));
        }
        thread.barrier();
    }

    /// Calls `store(k, z_k)` for the rows of this thread. All threads must have passed a barrier after the cycle. If
    /// some components are nearly singular, z_k includes the constant of its component, and `for_each_value` contains a
    /// barrier.
    pub fn for_each_value(&self, thread: &TeamThread, mut store: impl FnMut(usize, f64)) {
        let own_rows = thread.share(self.len());
        // SAFETY: no thread writes z before the next cycle.
        let z = unsafe { self.z.slice(0, self.len()) };
        if !self.has_nearly_singular {
            return own_rows.clone().zip(&z[own_rows]).for_each(|(k, z)| store(k, z.to_f64()));
        }
        if let Some(mut nearly_singular) = self.lock_nearly_singular().filter(|_| thread.index == 0) {
            nearly_singular.compute_constants(z);
        }
        thread.barrier();
        if let Some(nearly_singular) = self.lock_nearly_singular() {
            own_rows.for_each(|k| store(k, z[k].to_f64() + nearly_singular.constant(k)));
        }
    }

    /// Computes z by a forward Gauss-Seidel sweep from 0.
    pub fn sweep_forwards(&self, thread: &TeamThread, z: &Shared<V>) {
        self.group_starts.windows(2).enumerate().for_each(|group| self.sweep(thread, z, group, false));
    }

    /// Updates z by a backward Gauss-Seidel sweep.
    pub fn sweep_backwards(&self, thread: &TeamThread, z: &Shared<V>) {
        self.group_starts.windows(2).enumerate().rev().for_each(|group| self.sweep(thread, z, group, true));
    }

    /// Updates z on group k. If `uses_later_groups` is false, z counts as zero on later groups, and couplings to these
    /// groups are skipped. Ends with a barrier.
    fn sweep(&self, thread: &TeamThread, z: &Shared<V>, (k, group): (usize, &[usize]), uses_later_groups: bool) {
        let (slices, own_rows) = self.share(thread, k);
        // SAFETY: z is written in rows of this thread, and read in other groups, which no thread writes before the next
        // barrier. Couplings to earlier groups refer only to rows of `earlier_values`, and couplings to later groups
        // only to rows of `later_values` (`lines`).
        let (earlier_values, later_values, r, z) = unsafe {
            let earlier_values = ReferencedValues::new(z.slice(0, group[0]), 0);
            let later_values = ReferencedValues::new(z.slice(group[1], self.len() - group[1]), group[1]);
            (
                earlier_values,
                later_values,
                self.r.slice(own_rows.start, own_rows.len()),
                z.slice_mut(own_rows.start, own_rows.len()),
            )
        };
        sweep(&self.matrix, slices, earlier_values, uses_later_groups.then_some(later_values), r, z);
        thread.barrier();
    }

    /// Computes the residual after the forward sweep. Stores its sum over each aggregate in `coarse_r`. Ends with a
    /// barrier.
    pub fn restrict(&self, thread: &TeamThread, z: &Shared<V>, coarse_r: &Shared<V>) {
        let n = self.len();
        for (_, slices, rows) in self.chunks(thread) {
            // SAFETY: the rows of `residual` belong to this thread; no thread writes z before the next barrier.
            let (z, residual_rows) =
                unsafe { (ReferencedValues::new(z.slice(0, n), 0), self.residual.slice_mut(rows.start, rows.len())) };
            residual(&self.matrix, slices, z, residual_rows);
        }
        thread.barrier();
        let (fine_starts, fine_list) = &self.fine_rows;
        let own_rows = thread.share(fine_starts.len() - 1);
        // SAFETY: the coarse rows belong to this thread; no thread writes `residual` before the next barrier.
        let (residual, coarse_r) =
            unsafe { (self.residual.slice(0, n), coarse_r.slice_mut(own_rows.start, own_rows.len())) };
        for (sum, bounds) in coarse_r.iter_mut().zip(fine_starts[own_rows.start..=own_rows.end].windows(2)) {
            *sum = fine_list[bounds[0]..bounds[1]].iter().fold(V::default(), |total, &i| total + residual[i as usize]);
        }
        thread.barrier();
    }

    /// Adds the coarse correction to z: z_i += (coarse z)_k for each row i of aggregate k. Omits the last group,
    /// because the backward sweep overwrites its rows before reading them. Ends with a barrier.
    pub fn prolong(&self, thread: &TeamThread, z: &Shared<V>, coarse_z: &Shared<V>) {
        let last_group_start = self.group_starts[self.group_starts.len().saturating_sub(2)];
        let own_rows = thread.share(last_group_start);
        // SAFETY: the rows belong to this thread; no thread writes `coarse_z` before the next barrier.
        let (z, coarse_z) = unsafe { (z.slice_mut(own_rows.start, own_rows.len()), coarse_z.slice(0, coarse_z.len())) };
        for (z, &k) in z.iter_mut().zip(&self.coarse_row_of[own_rows]).filter(|(_, k)| **k != UNASSIGNED) {
            *z += coarse_z[k as usize];
        }
        thread.barrier();
    }

    /// Subtracts from r its mean on each component of `nearly_singular`. All threads must have passed a barrier before
    /// the call. If `nearly_singular` is not `None`, ends with a barrier.
    pub fn remove_means(&self, thread: &TeamThread) {
        let Some(nearly_singular) = &self.nearly_singular else { return };
        if thread.index == 0 {
            let mut nearly_singular = nearly_singular.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the other threads wait at the barrier.
            nearly_singular.subtract_means(unsafe { self.r.slice_mut(0, self.len()) });
        }
        thread.barrier();
    }

    /// Returns <r, r>. Contains a barrier.
    pub fn residual_norm2(&self, state: &mut CycleState) -> f64 {
        let [norm2] = self.sum_over_chunks(state, |_, rows| {
            // SAFETY: no thread writes r in this step.
            let r = unsafe { self.r.slice(rows.start, rows.len()) };
            [dot(r, r)]
        });
        norm2
    }

    /// Computes v = A x; returns <x, v> and <x, r>. Contains a barrier.
    pub fn multiply(&self, state: &mut CycleState, x: &Shared<V>) -> [f64; 2] {
        self.sum_over_chunks(state, |slices, rows| {
            // SAFETY: no thread writes x or r in this step; the rows of v belong to this thread.
            let (x_values, referenced_x, r, v) = unsafe {
                let (x_values, r) = (x.slice(0, self.len()), self.r.slice(rows.start, rows.len()));
                (x_values, ReferencedValues::new(x_values, 0), r, self.v.slice_mut(rows.start, rows.len()))
            };
            multiply(&self.matrix, slices, x_values, referenced_x, v);
            [dot(&x_values[rows.clone()], v), dot(&x_values[rows], r)]
        })
    }

    /// Returns <z, v>. Contains a barrier.
    pub fn dot_z_v(&self, state: &mut CycleState) -> f64 {
        let [product] = self.sum_over_chunks(state, |_, rows| {
            // SAFETY: no thread writes z or v in this step.
            let (z, v) = unsafe { (self.z.slice(rows.start, rows.len()), self.v.slice(rows.start, rows.len())) };
            [dot(z, v)]
        });
        product
    }

    /// Computes r = r - factor v; returns <r, r>. Contains a barrier.
    pub fn subtract(&self, state: &mut CycleState, factor: f64) -> f64 {
        let [norm2] = self.sum_over_chunks(state, |_, rows| {
            // SAFETY: the rows belong to this thread.
            let (r, v) = unsafe { (self.r.slice_mut(rows.start, rows.len()), self.v.slice(rows.start, rows.len())) };
            combine(r, 1.0, -factor, v);
            [dot(r, r)]
        });
        norm2
    }

    /// Computes z = first_weight c + second_weight z. Ends with a barrier.
    pub fn combine(&self, thread: &TeamThread, first_weight: f64, second_weight: f64) {
        let own_rows = thread.share(self.len());
        // SAFETY: the rows belong to this thread.
        let (z, c) =
            unsafe { (self.z.slice_mut(own_rows.start, own_rows.len()), self.c.slice(own_rows.start, own_rows.len())) };
        combine(z, second_weight, first_weight, c);
        thread.barrier();
    }

    pub fn bytes(&self) -> usize {
        let vector_bytes =
            [&self.r, &self.z, &self.residual, &self.c, &self.v].map(Shared::bytes).iter().sum::<usize>();
        let component_bytes = self
            .nearly_singular
            .as_ref()
            .map_or(0, |components| components.lock().unwrap_or_else(PoisonError::into_inner).bytes());
        let table_bytes =
            size_of_val(&*self.group_starts) + size_of_val(&*self.group_slices) + size_of_val(&*self.coarse_row_of);
        let fine_bytes = size_of_val(&*self.fine_rows.0) + size_of_val(&*self.fine_rows.1);
        self.matrix.bytes() + table_bytes + fine_bytes + vector_bytes + component_bytes + 2 * self.partials.bytes()
    }
}
