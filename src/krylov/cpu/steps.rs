//! Steps of one thread on numbered vectors: the vectors are divided into chunks, and each thread processes its own
//! chunks. A family supplies its matrix and its preconditioner ([`System`]).
//!
//! Safety of the unsafe blocks: a step writes only rows of its thread. It reads rows of other threads only in vectors
//! that no thread writes in this step. A barrier separates a step from the next step that reads rows of other threads.

use super::caller::CallerArrays;
use super::workspace::Workspace;
use crate::base::loops::{combine, dot, largest};
use crate::base::reduce::{Reduce, max_abs};
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::krylov::pcg::{Means, OtherPreconditioner, PcgSteps, Properties, unfused_ascend};
use crate::krylov::solve_steps::Eliminated;
use crate::krylov::vectors::{Iterate, KrylovSteps, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use std::ops::Range;

/// Number of vectors of PCG in addition to x, b and r.
pub const PCG_VECTORS: usize = 3;

/// Matrix and preconditioner of a system, and the data of one thread for them.
///
/// If CG runs on a reduced system, r, p, q and z are zero in all rows outside of this system. Sums over all rows are
/// then sums over the reduced system.
pub trait System: Sized {
    /// See `PcgSteps::properties`.
    fn properties(&self) -> Properties {
        Properties::default()
    }
    /// Returns the column of value `i` of a line of the caller's arrays, for error messages.
    fn column(&self, i: usize, _line: usize) -> usize {
        i
    }
    /// Computes `to` = A `from`. If `from` is b, A is the matrix of the caller, also if CG runs on a reduced system.
    fn product(m: &mut ThreadState<'_, Self>, from: VectorId, to: VectorId);
    /// Computes q = A p; returns <p, q>.
    fn multiply(m: &mut ThreadState<'_, Self>) -> f64 {
        Self::product(m, VectorId::P, VectorId::Q);
        m.inner(VectorId::P, VectorId::Q)
    }
    /// Computes z = P M^-1 P r.
    fn precondition(m: &mut ThreadState<'_, Self>);
    /// Computes r = b - A x and returns <r, r>; see `VectorSteps::residual`.
    fn residual(m: &mut ThreadState<'_, Self>, of: Iterate) -> f64;
    /// Returns |b - A x|^2 on the whole grid. May overwrite r.
    fn whole_residual_norm2(m: &mut ThreadState<'_, Self>) -> f64 {
        Self::residual(m, Iterate::X)
    }
    /// See `SolveSteps::reduce`.
    fn reduce(_m: &mut ThreadState<'_, Self>, _what: Eliminated) -> f64 {
        0.0
    }
    /// Completes x; see `SolveSteps::back_substitute`.
    fn back_substitute(_m: &mut ThreadState<'_, Self>) {}
    /// See `PcgSteps::means`.
    fn means(_m: &mut ThreadState<'_, Self>, _v: VectorId, _to: Means) {}
    /// See `PcgSteps::weighted_square_of_means`.
    fn weighted_square_of_means(_m: &mut ThreadState<'_, Self>) -> f64 {
        0.0
    }
    /// See `SolveSteps::worst_incompatibility`.
    fn worst_incompatibility(_m: &mut ThreadState<'_, Self>) -> (usize, f64, f64) {
        (0, 0.0, 0.0)
    }
    /// See `PcgSteps::change_preconditioner`.
    fn change_preconditioner(&mut self, _to: OtherPreconditioner) -> bool {
        false
    }
    /// See `SolveSteps::krylov`.
    fn krylov<'m>(_m: &'m mut ThreadState<'_, Self>) -> Option<&'m mut dyn KrylovSteps> {
        None
    }
}

/// State of one thread during a run.
pub struct ThreadState<'a, S> {
    pub workspace: &'a Workspace,
    pub me: TeamThread<'a>,
    pub caller: &'a CallerArrays<'a>,
    /// Observer on thread 0; `None` on the other threads.
    observer: Option<&'a mut dyn Observer>,
    /// Number of reductions so far.
    turn: usize,
    pub system: S,
}

impl<'a, S> ThreadState<'a, S> {
    pub fn new(
        workspace: &'a Workspace,
        system: S,
        me: TeamThread<'a>,
        caller: &'a CallerArrays<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self { workspace, me, caller, observer, turn: 0, system }
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
        self.workspace.chunks.share(&self.me)
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
        lines.within(&chunks.own(&self.me), chunks.rows)
    }

    /// Returns these rows of a vector.
    ///
    /// # Safety
    /// No thread may write these rows while the slice is in use.
    pub unsafe fn rows_of(&self, id: VectorId, rows: &Range<usize>) -> &'a [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.vector(id).slice(rows.start, rows.len()) }
    }

    /// Returns these rows of a vector for writing.
    ///
    /// # Safety
    /// No other slice of these rows may be in use while the slice is in use.
    pub unsafe fn rows_of_mut(&self, id: VectorId, rows: &Range<usize>) -> &'a mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.vector(id).slice_mut(rows.start, rows.len()) }
    }

    /// Returns all values of these vectors. The run must have only one thread.
    pub fn values<const N: usize>(&self, ids: [VectorId; N]) -> [&[f64]; N] {
        assert!(self.me.threads == 1, "only this thread may use the vectors");
        // SAFETY: this is the only thread of the run. It writes a vector only through an exclusive reference to
        // `self`, which cannot exist while the slices are in use.
        ids.map(|id| unsafe { self.vector(id).slice(0, self.len()) })
    }

    /// Calls `f` with the system, all values of `to` for writing, and all values of the vectors `from`. The run must
    /// have only one thread.
    pub fn write<const N: usize, R>(
        &mut self,
        to: VectorId,
        from: [VectorId; N],
        f: impl FnOnce(&mut S, &mut [f64], [&[f64]; N]) -> R,
    ) -> R {
        assert!(self.me.threads == 1 && !from.contains(&to), "only this thread may use the vectors");
        let (workspace, all) = (self.workspace, self.len());
        // SAFETY: this is the only thread of the run. The exclusive reference to `self` excludes other slices, and
        // `to` is none of the other vectors, by the assertion above.
        let (to, from) =
            unsafe { (workspace.vector(to).slice_mut(0, all), from.map(|id| workspace.vector(id).slice(0, all))) };
        f(&mut self.system, to, from)
    }

    /// Stores the partial results that `of` returns for the chunks of this thread. Returns the reduction of these
    /// results.
    pub fn partials_of<const N: usize>(
        &mut self,
        mut of: impl FnMut(&Self, Range<usize>) -> [f64; N],
    ) -> Reduce<'a, N> {
        self.turn += 1;
        let Workspace { chunks, partials, .. } = self.workspace;
        let partials: Reduce<N> = partials.reduce(self.turn, chunks.count());
        for chunk in self.own_chunks() {
            // SAFETY: this thread owns the chunk, and stores its results once. The two buffers of `partials` alternate,
            // and each reduction begins with a barrier.
            unsafe { partials.store(chunk, of(self, chunks.range(chunk))) };
        }
        partials
    }

    /// Returns the sums of the results of `of` over all chunks.
    pub fn sums<const N: usize>(&mut self, of: impl FnMut(&Self, Range<usize>) -> [f64; N]) -> [f64; N] {
        self.partials_of(of).sum(Some(self.me))
    }

    /// Computes `to` = `scale` `to` + sum_k factor_k v_k on a range of rows of this thread.
    fn combine_rows(&self, rows: &Range<usize>, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        // SAFETY: the rows belong to this thread, and no other thread uses them in this step. `to` is none of the
        // terms.
        let to = unsafe { self.rows_of_mut(to, rows) };
        // SAFETY: as above.
        let term = |id: VectorId| unsafe { self.rows_of(id, rows) };
        match terms {
            [] if scale == 0.0 => to.fill(0.0),
            [] => to.iter_mut().for_each(|v| *v *= scale),
            [(factor, first), rest @ ..] => {
                combine(to, scale, *factor, term(*first));
                rest.iter().for_each(|(factor, id)| combine(to, 1.0, *factor, term(*id)));
            }
        }
    }

    /// Computes `combine`, and returns <to, to> of the result. The norm reads the rows of a chunk while they are still
    /// in the L1 cache.
    pub fn combine_and_square(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.sums(|s, rows| {
            s.combine_rows(&rows, to, scale, terms);
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            let to = unsafe { s.rows_of(to, &rows) };
            [dot(to, to)]
        })[0]
    }
}

impl<S: System> VectorSteps for ThreadState<'_, S> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        // SAFETY: the rows belong to this thread, and only this thread writes them.
        self.sums(|s, rows| unsafe { [dot(s.rows_of(a, &rows), s.rows_of(b, &rows))] })[0]
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        for rows in self.chunks() {
            self.combine_rows(&rows, to, scale, terms);
        }
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        // SAFETY: the rows belong to this thread, and only this thread writes them.
        let partials = self.partials_of(|s, rows| [largest(unsafe { s.rows_of(v, &rows) })]);
        max_abs(partials.all(Some(self.me))[0])
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        S::residual(self, of)
    }

    fn observe(&mut self, event: Event) -> bool {
        self.workspace.observed.report(self.me, self.observer.as_deref_mut(), event)
    }
}

impl<S: System> PcgSteps for ThreadState<'_, S> {
    fn properties(&self) -> Properties {
        self.system.properties()
    }

    fn precondition(&mut self) -> f64 {
        S::precondition(self);
        self.inner(VectorId::R, VectorId::Z)
    }

    fn multiply(&mut self) -> f64 {
        S::multiply(self)
    }

    fn means(&mut self, v: VectorId, to: Means) {
        S::means(self, v, to);
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        S::weighted_square_of_means(self)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match alpha {
            Some(alpha) => self.combine_and_square(VectorId::R, 1.0, &[(-alpha, VectorId::Q)]),
            None => self.inner(VectorId::R, VectorId::R),
        }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        let Some((alpha, beta)) = step else { return unfused_ascend(self, step) };
        for rows in self.chunks() {
            self.combine_rows(&rows, VectorId::X, 1.0, &[(alpha, VectorId::P)]);
            self.combine_rows(&rows, VectorId::P, beta, &[(1.0, VectorId::Z)]);
        }
        S::multiply(self)
    }

    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        self.system.change_preconditioner(to)
    }
}
