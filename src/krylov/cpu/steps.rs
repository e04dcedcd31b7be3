//! Steps of one thread on numbered vectors: the vectors are divided into chunks, and each thread processes its own
//! chunks. A family supplies its matrix and its preconditioner ([`System`]).
//!
//! Safety of the unsafe blocks: a step writes only rows of its thread. It reads rows of other threads only in vectors
//! that no thread writes in this step. A barrier separates a step from the next step that reads rows of other threads.

use super::caller::CallerArrays;
use super::workspace::Workspace;
use crate::base::loops::{combine, dot, max_abs};
use crate::base::reduce::Reduce;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::krylov::pcg::{MeansChange, OtherPreconditioner, PcgSteps, Properties, unfused_ascend};
use crate::krylov::solve_steps::EliminatedVector;
use crate::krylov::vectors::{Iterate, KrylovSteps, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use std::ops::Range;

/// Number of vectors of PCG in addition to x, b and r.
pub const PCG_VECTORS: usize = 3;

/// Matrix and preconditioner of a family, with the data of one thread.
///
/// If CG runs on a reduced system, r, p, q and z are zero in all rows outside of this system. Sums over all rows are
/// then sums over the reduced system.
pub trait System: Sized {
    /// See `PcgSteps::properties`.
    fn properties(&self) -> Properties {
        Properties::default()
    }
    /// Returns the grid column of value `i` of a line of the user's arrays (see `workspace::Lines`), for error
    /// messages.
    fn column(&self, i: usize, _line: usize) -> usize {
        i
    }
    /// Computes `target` = A `source`. A is the matrix of the system that CG solves. If `source` is b, A is the user's
    /// matrix, even if CG runs on a reduced system.
    fn multiply_vector(state: &mut ThreadState<'_, Self>, source: VectorId, target: VectorId);
    /// Computes q = A p; returns <p, q>.
    fn multiply(state: &mut ThreadState<'_, Self>) -> f64 {
        Self::multiply_vector(state, VectorId::P, VectorId::Q);
        state.inner_product(VectorId::P, VectorId::Q)
    }
    /// Computes z = P M^-1 P r.
    fn precondition(state: &mut ThreadState<'_, Self>);
    /// Computes r = b - A x and returns <r, r>; see `VectorSteps::residual`.
    fn residual(state: &mut ThreadState<'_, Self>, iterate: Iterate) -> f64;
    /// Returns |b - A x|^2 on the whole grid. May overwrite r.
    fn whole_residual_norm2(state: &mut ThreadState<'_, Self>) -> f64 {
        Self::residual(state, Iterate::X)
    }
    /// See `SolveSteps::reduce`.
    fn reduce(_state: &mut ThreadState<'_, Self>, _vector: EliminatedVector) -> f64 {
        0.0
    }
    /// Completes x; see `SolveSteps::back_substitute`.
    fn back_substitute(_state: &mut ThreadState<'_, Self>) {}
    /// See `PcgSteps::change_means`.
    fn change_means(_state: &mut ThreadState<'_, Self>, _v: VectorId, _change: MeansChange) {}
    /// See `PcgSteps::weighted_square_of_means`.
    fn weighted_square_of_means(_state: &mut ThreadState<'_, Self>) -> f64 {
        0.0
    }
    /// See `SolveSteps::worst_incompatibility`.
    fn worst_incompatibility(_state: &mut ThreadState<'_, Self>) -> (usize, f64, f64) {
        (0, 0.0, 0.0)
    }
    /// See `PcgSteps::change_preconditioner`.
    fn change_preconditioner(&mut self, _replacement: OtherPreconditioner) -> bool {
        false
    }
    /// See `SolveSteps::krylov_steps`.
    fn krylov_steps<'m>(_state: &'m mut ThreadState<'_, Self>) -> Option<&'m mut dyn KrylovSteps> {
        None
    }
}

/// State of one thread during a run.
pub struct ThreadState<'a, S> {
    pub workspace: &'a Workspace,
    pub thread: TeamThread<'a>,
    pub caller: &'a CallerArrays<'a>,
    /// Observer on thread 0; `None` on the other threads.
    observer: Option<&'a mut dyn Observer>,
    /// Number of reductions since the start of the run.
    reduction_count: usize,
    pub system: S,
}

impl<'a, S> ThreadState<'a, S> {
    pub fn new(
        workspace: &'a Workspace,
        system: S,
        thread: TeamThread<'a>,
        caller: &'a CallerArrays<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self { workspace, thread, caller, observer, reduction_count: 0, system }
    }

    /// Returns the length of a vector.
    pub fn len(&self) -> usize {
        self.workspace.chunks.rows
    }

    pub fn vector(&self, id: VectorId) -> &'a Shared {
        self.workspace.vector(id)
    }

    /// Returns the range of the chunks that this thread owns.
    pub fn own_chunks(&self) -> Range<usize> {
        self.workspace.chunks.own_chunks(&self.thread)
    }

    /// Iterates over the row ranges of the chunks of this thread.
    pub fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<'a, S> {
        let chunks = self.workspace.chunks;
        self.own_chunks().map(move |chunk| chunks.range(chunk))
    }

    /// Iterates over the lines (`Lines`) in the rows of this thread: the number of each line, and its range in a
    /// vector.
    pub fn lines(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<S> {
        let Workspace { chunks, lines, .. } = self.workspace;
        lines.lines_within(&chunks.own_rows(&self.thread), chunks.rows)
    }

    /// Returns the rows `rows` of vector `id`.
    ///
    /// # Safety
    /// No thread may write these rows while the slice is in use.
    pub unsafe fn rows_of(&self, id: VectorId, rows: &Range<usize>) -> &'a [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.vector(id).slice(rows.start, rows.len()) }
    }

    /// Returns the rows `rows` of vector `id` for writing.
    ///
    /// # Safety
    /// No other slice of these rows may be in use while the slice is in use.
    pub unsafe fn rows_of_mut(&self, id: VectorId, rows: &Range<usize>) -> &'a mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.vector(id).slice_mut(rows.start, rows.len()) }
    }

    /// Returns all values of the vectors `ids`. The run must have only one thread.
    pub fn vector_values<const N: usize>(&self, ids: [VectorId; N]) -> [&[f64]; N] {
        assert!(self.thread.threads == 1, "only this thread may use the vectors");
        // SAFETY: this is the only thread of the run. It writes a vector only through an exclusive reference to
        // `self`, which cannot exist while the slices are in use.
        ids.map(|id| unsafe { self.vector(id).slice(0, self.len()) })
    }

    /// Calls `f` with the system, all values of `target` for writing, and all values of the vectors `source`. The run
    /// must have only one thread.
    pub fn with_vectors<const N: usize, R>(
        &mut self,
        target: VectorId,
        source: [VectorId; N],
        f: impl FnOnce(&mut S, &mut [f64], [&[f64]; N]) -> R,
    ) -> R {
        assert!(self.thread.threads == 1 && !source.contains(&target), "only this thread may use the vectors");
        let (workspace, len) = (self.workspace, self.len());
        // SAFETY: this is the only thread of the run. The exclusive reference to `self` excludes other slices, and
        // `target` is none of the other vectors, by the assertion above.
        let (target, source) = unsafe {
            (workspace.vector(target).slice_mut(0, len), source.map(|id| workspace.vector(id).slice(0, len)))
        };
        f(&mut self.system, target, source)
    }

    /// Calls `chunk_values` for the rows of each chunk of this thread, and stores the returned N partial results.
    /// Returns the reduction of the partial results of all threads.
    pub fn reduce_chunks<const N: usize>(
        &mut self,
        mut chunk_values: impl FnMut(&Self, Range<usize>) -> [f64; N],
    ) -> Reduce<'a, N> {
        self.reduction_count += 1;
        let Workspace { chunks, partials, .. } = self.workspace;
        let partials: Reduce<N> = partials.reduce(self.reduction_count, chunks.count());
        for chunk in self.own_chunks() {
            // SAFETY: this thread owns the chunk, and stores its results once. The two buffers of `partials` alternate,
            // and each reduction begins with a barrier.
            unsafe { partials.store(chunk, chunk_values(self, chunks.range(chunk))) };
        }
        partials
    }

    /// Returns the sums of the results of `chunk_values` over all chunks.
    pub fn sums<const N: usize>(&mut self, chunk_values: impl FnMut(&Self, Range<usize>) -> [f64; N]) -> [f64; N] {
        self.reduce_chunks(chunk_values).sum(Some(self.thread))
    }

    /// Computes `target` = `scale` `target` + sum_k factor_k v_k on a range of rows of this thread.
    fn combine_rows(&self, rows: &Range<usize>, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        // SAFETY: the rows belong to this thread, and no other thread uses them in this step. `target` is none of the
        // terms.
        let target = unsafe { self.rows_of_mut(target, rows) };
        // SAFETY: as above.
        let term_rows = |id: VectorId| unsafe { self.rows_of(id, rows) };
        match terms {
            [] if scale == 0.0 => target.fill(0.0),
            [] => target.iter_mut().for_each(|v| *v *= scale),
            [(factor, first_vector), other_terms @ ..] => {
                combine(target, scale, *factor, term_rows(*first_vector));
                other_terms.iter().for_each(|(factor, id)| combine(target, 1.0, *factor, term_rows(*id)));
            }
        }
    }

    /// Computes `combine`, and returns <target, target> of the new `target`. The inner product reads the rows of a
    /// chunk while these rows are still in the L1 cache.
    pub fn combine_and_square(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.sums(|s, rows| {
            s.combine_rows(&rows, target, scale, terms);
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            let target = unsafe { s.rows_of(target, &rows) };
            [dot(target, target)]
        })[0]
    }
}

impl<S: System> VectorSteps for ThreadState<'_, S> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        // SAFETY: the rows belong to this thread, and only this thread writes them.
        self.sums(|s, rows| unsafe { [dot(s.rows_of(a, &rows), s.rows_of(b, &rows))] })[0]
    }

    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        for rows in self.chunks() {
            self.combine_rows(&rows, target, scale, terms);
        }
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        // SAFETY: the rows belong to this thread, and only this thread writes them.
        let partials = self.reduce_chunks(|s, rows| [max_abs(unsafe { s.rows_of(v, &rows) })]);
        max_abs(partials.partial_results(Some(self.thread))[0])
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        S::residual(self, iterate)
    }

    fn observe(&mut self, event: Event) -> bool {
        self.workspace.run_state.report(self.thread, self.observer.as_deref_mut(), event)
    }
}

impl<S: System> PcgSteps for ThreadState<'_, S> {
    fn properties(&self) -> Properties {
        self.system.properties()
    }

    fn precondition(&mut self) -> f64 {
        S::precondition(self);
        self.inner_product(VectorId::R, VectorId::Z)
    }

    fn multiply(&mut self) -> f64 {
        S::multiply(self)
    }

    fn change_means(&mut self, v: VectorId, change: MeansChange) {
        S::change_means(self, v, change);
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        S::weighted_square_of_means(self)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match alpha {
            Some(alpha) => self.combine_and_square(VectorId::R, 1.0, &[(-alpha, VectorId::Q)]),
            None => self.inner_product(VectorId::R, VectorId::R),
        }
    }

    fn ascend(&mut self, coefficients: Option<(f64, f64)>) -> f64 {
        let Some((alpha, beta)) = coefficients else { return unfused_ascend(self, coefficients) };
        for rows in self.chunks() {
            self.combine_rows(&rows, VectorId::X, 1.0, &[(alpha, VectorId::P)]);
            self.combine_rows(&rows, VectorId::P, beta, &[(1.0, VectorId::Z)]);
        }
        S::multiply(self)
    }

    fn change_preconditioner(&mut self, replacement: OtherPreconditioner) -> bool {
        self.system.change_preconditioner(replacement)
    }
}
