//! Unfused steps of PCG. The rows of cells are divided into pieces (`Pieces`). Each thread executes every step for its
//! own pieces.
//!
//! Safety of the unsafe blocks: a step writes only cells of its own thread. It reads cells of other threads only in
//! arrays that no thread writes in this step. A barrier separates the step from the next step that reads cells of other
//! threads.

use super::field::Field;
use super::loops::{horner_step, multiply, over_center, residual, transposed_horner_step};
use super::state::{State, Vectors};
use crate::base::loops::{combine, dot, largest};
use crate::base::reduce::{Reduce, max_abs};
use crate::base::team::TeamThread;
use crate::deflation::cpu::Projection;
use crate::dpcg::backend::Preconditioner;
use crate::dpcg::cpu::unfused::ApplicationCounts;
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::pcg::{Beta, Means, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::series::{SeriesSteps, series};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use std::cell::Cell;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// State of one thread during a run.
pub struct ThreadState<'a> {
    pub(super) state: &'a State,
    pub(super) me: TeamThread<'a>,
    pub(super) caller: &'a CallerArrays<'a>,
    /// Observer of the caller on thread 0; `None` on all other threads.
    pub(super) observer: Option<&'a mut dyn Observer>,
    /// Number of reductions so far, which selects the buffer of the next reduction.
    reductions: Cell<usize>,
    /// <r, M^-1 r> from the last `fused_descend`.
    pub(super) rho: f64,
    /// <r, r>. A preconditioner in `State::unfused` uses it to scale r.
    pub(super) norm2: f64,
    applications: ApplicationCounts<'a>,
}

impl<'a> ThreadState<'a> {
    pub fn new(
        state: &'a State,
        me: TeamThread<'a>,
        caller: &'a CallerArrays<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self {
            state,
            me,
            caller,
            observer,
            reductions: Cell::new(0),
            rho: 0.0,
            norm2: 0.0,
            applications: ApplicationCounts::new(me),
        }
    }

    pub(super) fn vectors(&self) -> &'a Vectors {
        &self.state.vectors
    }

    fn vector(&self, id: VectorId) -> &'a Field {
        let Vectors { x, b, r, p, q, z, .. } = self.vectors();
        [x, b, r, p, q, z][id.0]
    }

    /// Calls `f` with the cells of each piece of this thread.
    pub(super) fn each(&self, mut f: impl FnMut(Range<usize>)) {
        self.state.pieces.share(self.me).for_each(|piece| f(self.state.pieces.range(piece)));
    }

    /// Returns the rows of this thread and the cells of each row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
        let (pieces, nx) = (self.state.pieces, self.state.pieces.cells.nx);
        let rows = pieces.share(self.me).flat_map(move |piece| pieces.rows(piece));
        rows.map(move |row| (row, row * nx..(row + 1) * nx))
    }

    pub(super) fn input(&self, row: usize) -> &'a [f64] {
        self.caller.input(row, self.state.pieces.cells.nx)
    }

    /// Returns a row of the caller's output array, which contains the initial guess before a solve.
    ///
    /// # Safety
    /// The row must belong to a piece of this thread, and no other slice of it may be in use.
    pub(super) unsafe fn output(&self, row: usize) -> &'a mut [f64] {
        // SAFETY: nothing else uses this row, as the caller guarantees.
        unsafe { self.caller.output(row, self.state.pieces.cells.nx) }
    }

    /// Begins a reduction over the pieces.
    pub(super) fn reduction<const N: usize>(&self) -> Reduce<'a, N> {
        self.reductions.set(self.reductions.get() + 1);
        self.state.vectors.partials.reduce(self.reductions.get(), self.state.pieces.count())
    }

    /// Stores the partial results `of(piece)` for the pieces of this thread.
    fn store_partials<const N: usize>(&self, mut of: impl FnMut(usize) -> [f64; N]) -> Reduce<'a, N> {
        let partials = self.reduction();
        for piece in self.state.pieces.share(self.me) {
            // SAFETY: the piece belongs to this thread.
            unsafe { partials.store(piece, of(piece)) };
        }
        partials
    }

    /// Returns the sums of `of(piece)` over all pieces.
    pub(super) fn sums<const N: usize>(&self, of: impl FnMut(usize) -> [f64; N]) -> [f64; N] {
        self.store_partials(of).sum(Some(self.me))
    }

    /// Returns the sum of `of(cells)` over all pieces.
    pub(super) fn sum(&self, mut of: impl FnMut(Range<usize>) -> f64) -> f64 {
        self.sums(|piece| [of(self.state.pieces.range(piece))])[0]
    }

    pub(super) fn dot(&self, a: &Field, b: &Field) -> f64 {
        // SAFETY: the cells belong to this thread, and no other thread writes them.
        self.sum(|cells| unsafe { dot(a.range(&cells), b.range(&cells)) })
    }

    /// Computes out = b - A x; returns <out, out>.
    pub(super) fn residual_to(&self, out: &Field) -> f64 {
        let k = self.state;
        self.me.barrier();
        self.sum(|cells| {
            // SAFETY: the code reads x, b and the matrix, and writes cells of this thread.
            let out = unsafe {
                let out = out.range_mut(&cells);
                let v = &k.vectors;
                residual(out, v.b.range(&cells), k.matrix.couplings(&cells), v.x.around(&cells));
                out
            };
            dot(out, out)
        })
    }

    /// Computes to = A v.
    pub(super) fn product(&self, to: &Field, v: &Field) {
        self.me.barrier();
        self.each(|cells| {
            // SAFETY: the code reads v and the matrix, and writes cells of this thread.
            unsafe { multiply(to.range_mut(&cells), self.state.matrix.couplings(&cells), v.around(&cells)) };
        });
    }

    /// Computes t = E^-1 Z^T v.
    fn solve_coarse(&self, d: &Projection, v: &Field) {
        // SAFETY: the cells belong to this thread, and no other thread writes them.
        d.restrict(self.me, |cells| unsafe { v.range(&cells) });
        self.solve_from_partial_sums(d);
    }

    /// Computes t = E^-1 g, where the partial sums of g = Z^T v have been stored. Returns <g, t>.
    pub(super) fn solve_from_partial_sums(&self, d: &Projection) -> f64 {
        let start = Instant::now();
        let g = d.solve(self.me);
        if self.me.index == 0 {
            self.state.coarse_nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        d.dot_with_t(g)
    }

    /// Computes v = P v with P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik and Erlangga 2009). Without deflation, P is the
    /// identity.
    pub(super) fn project(&self, v: &Field) {
        let Some(d) = &self.state.deflation else { return };
        self.solve_coarse(d, v);
        for (row, cells) in self.rows() {
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            d.subtract_deflated(row, self.state.matrix.couplings(&cells), unsafe { v.range_mut(&cells) });
        }
    }

    /// Computes x = x^ + Z E^-1 Z^T r, where x contains x^ on entry. If x^ solves P A x^ = P b and r = b - A x^, then x
    /// solves A x = b.
    pub(super) fn add_deflated_part(&self, r: &Field) {
        let Some(d) = &self.state.deflation else { return };
        self.solve_coarse(d, r);
        for (row, cells) in self.rows() {
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            d.prolong(row, unsafe { self.vectors().x.range_mut(&cells) });
        }
    }

    /// Computes z = D^-1 r.
    fn jacobi(&self, z: &Field) {
        self.each(|cells| {
            let center = self.state.matrix.couplings(&cells).center;
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            unsafe { over_center(z.range_mut(&cells), self.vectors().r.range(&cells), center) };
        });
    }

    /// Computes z = M^-1 r with the preconditioner in `State::unfused`. Returns <r, z> if the preconditioner computes
    /// it.
    fn apply_unfused(&mut self) -> Option<f64> {
        let unfused = self.state.unfused.as_ref()?;
        let (Vectors { r, z, .. }, a) = (self.vectors(), self.state.matrix.matrix());
        self.me.barrier();
        // SAFETY: between the barrier above and the end of this call, no thread writes r, and only this call uses z.
        unsafe { unfused.apply(&mut self.applications, self.me, &a, (r, z), self.norm2.sqrt()) }
    }
}

impl VectorSteps for ThreadState<'_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let product = self.dot(self.vector(a), self.vector(b));
        if (a, b) == (VectorId::R, VectorId::R) {
            // A preconditioner in `State::unfused` scales r by its norm.
            self.norm2 = product;
        }
        product
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let to = self.vector(to);
        // PCG uses at most one term (see `VectorSteps::combine`).
        let term = terms.first().map(|&(factor, from)| (factor, self.vector(from)));
        self.each(|cells| {
            // SAFETY: the cells belong to this thread; the other threads read `to` only after a barrier.
            let to = unsafe { to.range_mut(&cells) };
            // SAFETY: the cells belong to this thread, and only this thread writes them.
            match term.map(|(factor, from)| (factor, unsafe { from.range(&cells) })) {
                Some((factor, from)) => combine(to, scale, factor, from),
                None => to.fill(0.0),
            }
        });
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        let v = self.vector(v);
        // SAFETY: the cells belong to this thread, and no other thread writes them.
        let partials = self.store_partials(|piece| [largest(unsafe { v.range(&self.state.pieces.range(piece)) })]);
        max_abs(partials.all(Some(self.me))[0])
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        let r = &self.vectors().r;
        match of {
            Iterate::Zero => self.combine(VectorId::R, 0.0, &[(1.0, VectorId::B)]),
            Iterate::X => {
                self.norm2 = self.residual_to(r);
                if self.state.deflation.is_none() {
                    return self.norm2;
                }
            }
        }
        self.project(r);
        self.inner(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        self.state.observed.report(self.me, self.observer.as_deref_mut(), event)
    }
}

impl PcgSteps for ThreadState<'_> {
    fn properties(&self) -> Properties {
        let deflates = self.state.deflation.is_some();
        // With aggregation, M depends on r, so flexible CG is used. Its beta needs P A p for the last direction p,
        // which is stored in q.
        let flexible = matches!(self.state.preconditioner, Preconditioner::Aggregation { .. });
        let beta = if flexible { Beta::Flexible } else { Beta::Fixed };
        Properties { deflates, omits_projection: !deflates, beta, ..Properties::default() }
    }

    fn precondition(&mut self) -> f64 {
        let Vectors { r, z, .. } = self.vectors();
        match self.state.preconditioner {
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            Preconditioner::None => self.each(|cells| unsafe { z.range_mut(&cells).copy_from_slice(r.range(&cells)) }),
            Preconditioner::Jacobi => self.jacobi(z),
            Preconditioner::Neumann { order } => {
                let Vectors { q, s, .. } = self.vectors();
                // A series of order 0 uses no workspace.
                let s = s.as_ref().unwrap_or(q);
                let Ok(()) = series(&mut Series(self), order, [q, s], z);
            }
            Preconditioner::Incomplete { .. }
            | Preconditioner::Multigrid { .. }
            | Preconditioner::Aggregation { .. } => {
                if let Some(rho) = self.apply_unfused() {
                    return rho;
                }
            }
        }
        self.dot(r, z)
    }

    fn means(&mut self, v: VectorId, to: Means) {
        self.state.singular.change_means(self.me, &self.state.pieces.share(self.me), self.vector(v), to);
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let (k, r) = (self.state, &self.vectors().r);
        let center = |cell: usize, len: usize| k.matrix.couplings(&(cell..cell + len)).center;
        k.singular.weighted_square_of_means(self.me, &k.pieces.share(self.me), r, center)
    }

    /// Computes q = P A p and returns <p, q>.
    fn multiply(&mut self) -> f64 {
        let Vectors { p, q, .. } = self.vectors();
        self.product(q, p);
        self.project(q);
        self.dot(p, q)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match (self.order(), alpha) {
            (Some(order), _) if self.state.fused => self.fused_descend(alpha, order),
            (None, Some(alpha)) if self.state.fused => self.fused_update(alpha),
            _ => unfused_descend(self, alpha),
        }
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.state.fused && self.order().is_some() { self.rho } else { self.precondition() }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        if self.state.fused { self.fused_ascend(step, self.order().unwrap_or(0)) } else { unfused_ascend(self, step) }
    }
}

/// Steps of the Neumann series. Each step writes only cells of this thread.
struct Series<'a, 'b>(&'a ThreadState<'b>);

impl<'a> SeriesSteps for Series<'a, '_> {
    type Vector = &'a Field;
    type Fault = Infallible;

    fn begin(&mut self, v: &'a Field, _: bool) -> Result<(), Infallible> {
        self.0.jacobi(v);
        Ok(())
    }

    fn lower(&mut self, from: &'a Field, to: &'a Field) -> Result<(), Infallible> {
        let thread = self.0;
        thread.me.barrier();
        thread.each(|cells| {
            let a = thread.state.matrix.couplings(&cells);
            let [w, _, s, _, b, _] = a.near;
            // SAFETY: no thread writes r or `from` before the next barrier; the cells of `to` belong to this thread.
            unsafe {
                let (to, r) = (to.range_mut(&cells), thread.vectors().r.range(&cells));
                horner_step(to, r, a.center, [w, s, b], from.before(&cells));
            }
        });
        Ok(())
    }

    fn upper(&mut self, v: &'a Field, from: &'a Field, to: &'a Field, _: bool) -> Result<(), Infallible> {
        let thread = self.0;
        thread.me.barrier();
        thread.each(|cells| {
            let a = thread.state.matrix.couplings(&cells);
            let [_, e, _, n, _, t] = a.near;
            // SAFETY: no thread writes v or `from` before the next barrier; the cells of `to` belong to this thread.
            unsafe {
                let (to, v) = (to.range_mut(&cells), v.range(&cells));
                transposed_horner_step(to, v, a.center, [e, n, t], from.after(&cells));
            }
        });
        Ok(())
    }
}
