//! Unfused steps of PCG. The rows of cells are divided into pieces (`Pieces`). Each thread executes every step for its
//! own pieces.
//!
//! Safety of the unsafe blocks: a step writes only cells of its own thread. It reads cells of other threads only in
//! arrays that no thread writes in this step. A barrier separates the step from the next step that reads cells of other
//! threads.

use super::field::Field;
use super::loops::{divide_by_center, horner_step, multiply, residual, transposed_horner_step};
use super::state::{State, Vectors};
use crate::base::loops::{combine, dot, max_abs};
use crate::base::reduce::Reduce;
use crate::base::team::TeamThread;
use crate::deflation::cpu::Projection;
use crate::dpcg::backend::Preconditioner;
use crate::dpcg::cpu::unfused::ApplicationCounts;
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::pcg::{Beta, MeansChange, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::series::{SeriesSteps, apply_series};
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
    pub(super) thread: TeamThread<'a>,
    pub(super) caller: &'a CallerArrays<'a>,
    /// Observer of the caller on thread 0; `None` on all other threads.
    pub(super) observer: Option<&'a mut dyn Observer>,
    /// Number of reductions so far, which selects the buffer of the next reduction.
    reduction_count: Cell<usize>,
    /// <r, M^-1 r> from the last `fused_descend`.
    pub(super) rho: f64,
    /// <r, r>. Multigrid with vertex or cell coarsening divides r by a power of two near |r|.
    pub(super) residual_norm2: f64,
    application_counts: ApplicationCounts<'a>,
}

impl<'a> ThreadState<'a> {
    pub fn new(
        state: &'a State,
        thread: TeamThread<'a>,
        caller: &'a CallerArrays<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self {
            state,
            thread,
            caller,
            observer,
            reduction_count: Cell::new(0),
            rho: 0.0,
            residual_norm2: 0.0,
            application_counts: ApplicationCounts::new(thread),
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
    pub(super) fn for_each_piece(&self, mut f: impl FnMut(Range<usize>)) {
        self.state.pieces.share(self.thread).for_each(|piece| f(self.state.pieces.range(piece)));
    }

    /// Returns the rows of this thread and the cells of each row.
    pub(super) fn rows_and_cells(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
        let (pieces, nx) = (self.state.pieces, self.state.pieces.cells.nx);
        let rows = pieces.share(self.thread).flat_map(move |piece| pieces.rows(piece));
        rows.map(move |row| (row, row * nx..(row + 1) * nx))
    }

    pub(super) fn input_row(&self, row: usize) -> &'a [f64] {
        self.caller.input_row(row, self.state.pieces.cells.nx)
    }

    /// Returns a row of the caller's output array, which contains the initial guess before a solve.
    ///
    /// # Safety
    /// The row must belong to a piece of this thread, and no other slice of it may be in use.
    pub(super) unsafe fn output_row(&self, row: usize) -> &'a mut [f64] {
        // SAFETY: nothing else uses this row, as the caller guarantees.
        unsafe { self.caller.output_row(row, self.state.pieces.cells.nx) }
    }

    /// Begins a reduction over the pieces.
    pub(super) fn begin_reduction<const N: usize>(&self) -> Reduce<'a, N> {
        self.reduction_count.set(self.reduction_count.get() + 1);
        self.state.vectors.partials.reduce(self.reduction_count.get(), self.state.pieces.count())
    }

    /// Stores the partial results `result_of(piece)` for the pieces of this thread.
    fn store_partials<const N: usize>(&self, mut result_of: impl FnMut(usize) -> [f64; N]) -> Reduce<'a, N> {
        let partials = self.begin_reduction();
        for piece in self.state.pieces.share(self.thread) {
            // SAFETY: the piece belongs to this thread.
            unsafe { partials.store(piece, result_of(piece)) };
        }
        partials
    }

    /// Returns the sums of `result_of(piece)` over all pieces.
    pub(super) fn sum_over_pieces<const N: usize>(&self, result_of: impl FnMut(usize) -> [f64; N]) -> [f64; N] {
        self.store_partials(result_of).sum(Some(self.thread))
    }

    /// Returns the sum of `result_of(cells)` over all pieces.
    pub(super) fn sum_over_cells(&self, mut result_of: impl FnMut(Range<usize>) -> f64) -> f64 {
        self.sum_over_pieces(|piece| [result_of(self.state.pieces.range(piece))])[0]
    }

    pub(super) fn dot(&self, a: &Field, b: &Field) -> f64 {
        // SAFETY: the cells belong to this thread, and no other thread writes them.
        self.sum_over_cells(|cells| unsafe { dot(a.slice(&cells), b.slice(&cells)) })
    }

    /// Computes out = b - A x; returns <out, out>.
    pub(super) fn compute_residual(&self, out: &Field) -> f64 {
        let state = self.state;
        self.thread.barrier();
        self.sum_over_cells(|cells| {
            // SAFETY: the code reads x, b and the matrix, and writes cells of this thread.
            let out = unsafe {
                let out = out.slice_mut(&cells);
                let vectors = &state.vectors;
                residual(
                    out,
                    vectors.b.slice(&cells),
                    state.matrix.couplings(&cells),
                    vectors.x.with_neighbours(&cells),
                );
                out
            };
            dot(out, out)
        })
    }

    /// Computes product = A v.
    pub(super) fn multiply_vector(&self, product: &Field, v: &Field) {
        self.thread.barrier();
        self.for_each_piece(|cells| {
            // SAFETY: the code reads v and the matrix, and writes cells of this thread.
            unsafe {
                multiply(product.slice_mut(&cells), self.state.matrix.couplings(&cells), v.with_neighbours(&cells))
            };
        });
    }

    /// Computes t = E^-1 Z^T v.
    fn solve_coarse(&self, deflation: &Projection, v: &Field) {
        // SAFETY: the cells belong to this thread, and no other thread writes them.
        deflation.restrict(self.thread, |cells| unsafe { v.slice(&cells) });
        self.solve_from_partial_sums(deflation);
    }

    /// Computes t = E^-1 g, where the partial sums of g = Z^T v have been stored. Returns <g, t>.
    pub(super) fn solve_from_partial_sums(&self, deflation: &Projection) -> f64 {
        let started = Instant::now();
        let g = deflation.solve(self.thread);
        if self.thread.index == 0 {
            self.state.coarse_nanos.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        deflation.dot_with_t(g)
    }

    /// Computes v = P v with P = I - A Z E^-1 Z^T (Tang, Nabben, Vuik and Erlangga 2009). Without deflation, P is the
    /// identity.
    pub(super) fn project(&self, v: &Field) {
        let Some(deflation) = &self.state.deflation else { return };
        self.solve_coarse(deflation, v);
        for (row, cells) in self.rows_and_cells() {
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            deflation.subtract_deflated(row, self.state.matrix.couplings(&cells), unsafe { v.slice_mut(&cells) });
        }
    }

    /// Computes x = x^ + Z E^-1 Z^T r, where x contains x^ on entry. If x^ solves P A x^ = P b and r = b - A x^, then x
    /// solves A x = b.
    pub(super) fn add_deflated_part(&self, r: &Field) {
        let Some(deflation) = &self.state.deflation else { return };
        self.solve_coarse(deflation, r);
        for (row, cells) in self.rows_and_cells() {
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            deflation.prolong(row, unsafe { self.vectors().x.slice_mut(&cells) });
        }
    }

    /// Computes z = D^-1 r.
    fn apply_jacobi(&self, z: &Field) {
        self.for_each_piece(|cells| {
            let center = self.state.matrix.couplings(&cells).center;
            // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
            unsafe { divide_by_center(z.slice_mut(&cells), self.vectors().r.slice(&cells), center) };
        });
    }

    /// Computes z = M^-1 r with the preconditioner in `State::unfused_preconditioner`. Returns <r, z> if the
    /// preconditioner computes it.
    fn apply_unfused_preconditioner(&mut self) -> Option<f64> {
        let preconditioner = self.state.unfused_preconditioner.as_ref()?;
        let (Vectors { r, z, .. }, a) = (self.vectors(), self.state.matrix.matrix());
        self.thread.barrier();
        // SAFETY: between the barrier above and the end of this call, no thread writes r, and only this call uses z.
        unsafe {
            preconditioner.apply(&mut self.application_counts, self.thread, &a, (r, z), self.residual_norm2.sqrt())
        }
    }
}

impl VectorSteps for ThreadState<'_> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        let product = self.dot(self.vector(a), self.vector(b));
        if (a, b) == (VectorId::R, VectorId::R) {
            // `apply_unfused_preconditioner` needs |r|.
            self.residual_norm2 = product;
        }
        product
    }

    fn combine(&mut self, out: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let out = self.vector(out);
        // PCG uses at most one term (see `VectorSteps::combine`).
        let term = terms.first().map(|&(factor, input)| (factor, self.vector(input)));
        self.for_each_piece(|cells| {
            // SAFETY: the cells belong to this thread; the other threads read `out` only after a barrier.
            let out = unsafe { out.slice_mut(&cells) };
            // SAFETY: the cells belong to this thread, and only this thread writes them.
            match term.map(|(factor, input)| (factor, unsafe { input.slice(&cells) })) {
                Some((factor, input)) => combine(out, scale, factor, input),
                None => out.fill(0.0),
            }
        });
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        let v = self.vector(v);
        // SAFETY: the cells belong to this thread, and no other thread writes them.
        let partials = self.store_partials(|piece| [max_abs(unsafe { v.slice(&self.state.pieces.range(piece)) })]);
        max_abs(partials.partial_results(Some(self.thread))[0])
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        let r = &self.vectors().r;
        match iterate {
            Iterate::Zero => self.combine(VectorId::R, 0.0, &[(1.0, VectorId::B)]),
            Iterate::X => {
                self.residual_norm2 = self.compute_residual(r);
                if self.state.deflation.is_none() {
                    return self.residual_norm2;
                }
            }
        }
        self.project(r);
        self.inner_product(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        self.state.observed.report(self.thread, self.observer.as_deref_mut(), event)
    }
}

impl PcgSteps for ThreadState<'_> {
    fn properties(&self) -> Properties {
        let uses_deflation = self.state.deflation.is_some();
        // With aggregation, M depends on r, so flexible CG is used. Its beta needs P A p for the last direction p,
        // which is stored in q.
        let is_flexible = matches!(self.state.preconditioner, Preconditioner::Aggregation { .. });
        let beta = if is_flexible { Beta::Flexible } else { Beta::Fixed };
        Properties { uses_deflation, omits_projection: !uses_deflation, beta, ..Properties::default() }
    }

    fn precondition(&mut self) -> f64 {
        let Vectors { r, z, .. } = self.vectors();
        match self.state.preconditioner {
            Preconditioner::None => self.for_each_piece(|cells| {
                // SAFETY: the cells belong to this thread, and no other thread reads them in this step.
                unsafe { z.slice_mut(&cells).copy_from_slice(r.slice(&cells)) }
            }),
            Preconditioner::Jacobi => self.apply_jacobi(z),
            Preconditioner::Neumann { order } => {
                let Vectors { q, series_vector, .. } = self.vectors();
                // A series of order 0 uses no workspace.
                let series_vector = series_vector.as_ref().unwrap_or(q);
                let Ok(()) = apply_series(&mut NeumannSteps(self), order, [q, series_vector], z);
            }
            Preconditioner::Incomplete { .. }
            | Preconditioner::Multigrid { .. }
            | Preconditioner::Aggregation { .. } => {
                if let Some(rho) = self.apply_unfused_preconditioner() {
                    return rho;
                }
            }
        }
        self.dot(r, z)
    }

    fn change_means(&mut self, v: VectorId, change: MeansChange) {
        self.state.singular_cells.change_means(
            self.thread,
            &self.state.pieces.share(self.thread),
            self.vector(v),
            change,
        );
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let (state, r) = (self.state, &self.vectors().r);
        let center_of = |cell: usize, len: usize| state.matrix.couplings(&(cell..cell + len)).center;
        state.singular_cells.weighted_square_of_means(self.thread, &state.pieces.share(self.thread), r, center_of)
    }

    /// Computes q = P A p and returns <p, q>.
    fn multiply(&mut self) -> f64 {
        let Vectors { p, q, .. } = self.vectors();
        self.multiply_vector(q, p);
        self.project(q);
        self.dot(p, q)
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match (self.series_order(), alpha) {
            (Some(order), _) if self.state.uses_fused_passes => self.fused_descend(alpha, order),
            (None, Some(alpha)) if self.state.uses_fused_passes => self.fused_residual_update(alpha),
            _ => unfused_descend(self, alpha),
        }
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.state.uses_fused_passes && self.series_order().is_some() { self.rho } else { self.precondition() }
    }

    fn ascend(&mut self, alpha_and_beta: Option<(f64, f64)>) -> f64 {
        if self.state.uses_fused_passes {
            self.fused_ascend(alpha_and_beta, self.series_order().unwrap_or(0))
        } else {
            unfused_ascend(self, alpha_and_beta)
        }
    }
}

/// Steps of the Neumann series. Each step writes only cells of this thread.
struct NeumannSteps<'a, 'b>(&'a ThreadState<'b>);

impl<'a> SeriesSteps for NeumannSteps<'a, '_> {
    type Vector = &'a Field;
    type Fault = Infallible;

    fn scale_residual(&mut self, v: &'a Field, _: bool) -> Result<(), Infallible> {
        self.0.apply_jacobi(v);
        Ok(())
    }

    fn apply_lower(&mut self, input: &'a Field, out: &'a Field) -> Result<(), Infallible> {
        let steps = self.0;
        steps.thread.barrier();
        steps.for_each_piece(|cells| {
            let a = steps.state.matrix.couplings(&cells);
            let [w, _, s, _, b, _] = a.axis_couplings;
            // SAFETY: no thread writes r or `input` before the next barrier; the cells of `out` belong to this thread.
            unsafe {
                let (out, r) = (out.slice_mut(&cells), steps.vectors().r.slice(&cells));
                horner_step(out, r, a.center, [w, s, b], input.lower_neighbours(&cells));
            }
        });
        Ok(())
    }

    fn apply_upper(&mut self, v: &'a Field, input: &'a Field, out: &'a Field, _: bool) -> Result<(), Infallible> {
        let steps = self.0;
        steps.thread.barrier();
        steps.for_each_piece(|cells| {
            let a = steps.state.matrix.couplings(&cells);
            let [_, e, _, n, _, t] = a.axis_couplings;
            // SAFETY: no thread writes v or `input` before the next barrier; the cells of `out` belong to this thread.
            unsafe {
                let (out, v) = (out.slice_mut(&cells), v.slice(&cells));
                transposed_horner_step(out, v, a.center, [e, n, t], input.upper_neighbours(&cells));
            }
        });
        Ok(())
    }
}
