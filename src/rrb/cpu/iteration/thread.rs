//! State of one thread during a solve, with reductions and passes over rows.

use crate::aggregation::cpu::CoarseMethod;
use crate::base::loops::dot;
use crate::base::number::Real;
use crate::base::reduce::{Reduce, max_abs};
use crate::base::shared::Number;
use crate::base::team::TeamThread;
use crate::krylov::cpu::caller::CallerArrays;
use crate::report::Observer;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::cycle::CycleThread;
use crate::rrb::cpu::levels::PackedGrid;
use crate::rrb::cpu::loops::{divide_sum_by_center, schur_residual};
use crate::rrb::cpu::neighbours::NeighbourRows;
use crate::rrb::cpu::number::Format;
use crate::rrb::cpu::packed::{PackedSystem, SCRATCH_BORDER};
use crate::rrb::layout::{Colour, Layout};
use std::cell::Cell;
use std::sync::{MutexGuard, PoisonError};

/// The part of b that a fused start has read from the caller's array, but has not stored. The field is the factor by
/// which the caller's values must be multiplied.
#[derive(Clone, Copy)]
pub(super) enum NotLoadedRhs {
    /// All of b.
    WholeRhs(f64),
    /// The red part of b. The black part contains the right-hand side of S1.
    RedPart(f64),
}

/// State of one thread during a solve.
pub struct ThreadState<'a, F: Format> {
    pub(super) packed: &'a PackedSystem<F>,
    pub(super) thread: TeamThread<'a>,
    pub(super) cycle_thread: CycleThread<'a, F>,
    pub(super) caller: &'a CallerArrays<'a>,
    /// Observer of the caller on thread 0; `None` on all other threads.
    pub(super) observer: Option<&'a mut dyn Observer>,
    /// Number of reductions so far.
    reduction_count: Cell<usize>,
    /// rho = <r, M^-1 r> of the last fused downward sweep.
    pub(super) rho: f64,
    pub(super) not_loaded_rhs: Option<NotLoadedRhs>,
    /// Method for the coarse systems if M is the aggregation cycle: flexible CG or Chebyshev steps.
    pub(super) coarse_method: CoarseMethod,
}

/// Step of a pass over black rows. Each black row needs the four red rows around it.
pub(super) enum BlackRowStep<'a> {
    /// Compute row J of a red colour into this buffer.
    Red(Colour, usize, &'a mut [f64]),
    /// Process row J of a black colour with the four red rows around it. At this time, the last computed red rows are
    /// row J of r1 and row J + 1 of r2.
    Black(Colour, usize, NeighbourRows<'a>),
}

impl<'a, F: Format> ThreadState<'a, F> {
    pub fn new(
        packed: &'a PackedSystem<F>,
        thread: TeamThread<'a>,
        caller: &'a CallerArrays<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self {
            packed,
            thread,
            cycle_thread: CycleThread::new(packed, thread),
            caller,
            observer,
            reduction_count: Cell::new(0),
            rho: 0.0,
            not_loaded_rhs: None,
            coarse_method: CoarseMethod::FlexibleCg,
        }
    }

    pub(super) fn first_grid(&self) -> &'a PackedGrid<F> {
        &self.packed.grids[0]
    }

    /// Returns the arrays of z = M^-1 r.
    pub(super) fn z(&self) -> &'a FourColours<F::Real> {
        let separate_z = self.packed.aggregation_cycle.get().and_then(|cycle| cycle.z.as_ref());
        separate_z.unwrap_or(&self.first_grid().z)
    }

    pub(super) fn rows(&self) -> std::ops::Range<usize> {
        self.first_grid().rows(self.thread)
    }

    pub(super) fn layout(&self) -> &'a Layout {
        &self.first_grid().layout
    }

    /// See [`PackedGrid::refresh`].
    pub(super) fn refresh<R: Real + Number>(&self, v: &FourColours<R>) {
        self.first_grid().refresh(self.thread, v);
    }

    /// Calls `f(colour, J)` for each row J of this thread and each of `colours`.
    pub(super) fn for_each_row(&self, colours: &[Colour], mut f: impl FnMut(Colour, usize)) {
        self.rows().for_each(|row| colours.iter().for_each(|&colour| f(colour, row)));
    }

    /// Begins a reduction over the rows of the first grid.
    pub(super) fn begin_reduction<const N: usize>(&self) -> Reduce<'a, N> {
        self.reduction_count.set(self.reduction_count.get() + 1);
        self.packed
            .partials
            .reduce(self.reduction_count.get(), self.layout().cy)
            .with_other_ranks(self.packed.other_ranks(0))
    }

    /// Stores `value_of_row(J)` as partial result of each row J of this thread.
    pub(super) fn store_partials<const N: usize>(
        &self,
        partials: Reduce<'a, N>,
        mut value_of_row: impl FnMut(usize) -> [f64; N],
    ) {
        for row in self.rows() {
            // SAFETY: the row belongs to this thread.
            unsafe { partials.store(row, value_of_row(row)) };
        }
    }

    /// Returns the sum of `value_of(colour, J)` over all rows J and over `colours`, including the rows of other threads
    /// and ranks.
    pub(super) fn sum_over(&self, colours: &[Colour], mut value_of: impl FnMut(Colour, usize) -> f64) -> f64 {
        self.sum_rows(|row| colours.iter().map(|&colour| value_of(colour, row)).sum())
    }

    /// Returns the sum of `value_of_row(J)` over all rows J, including those of other threads and ranks.
    pub(super) fn sum_rows(&self, mut value_of_row: impl FnMut(usize) -> f64) -> f64 {
        let partials = self.begin_reduction();
        self.store_partials(partials, |row| [value_of_row(row)]);
        partials.sum(Some(self.thread))[0]
    }

    /// Returns the maximum of `value_of_row(J)` over all rows J, or NaN if any value is NaN. The values must not be
    /// negative. Rows of other threads and ranks are included.
    pub(super) fn largest_over_rows(&self, mut value_of_row: impl FnMut(usize) -> f64) -> f64 {
        let partials = self.begin_reduction();
        self.store_partials(partials, |row| [value_of_row(row)]);
        max_abs(partials.partial_results(Some(self.thread))[0])
    }

    /// Returns <a, b> over all rows of the colours.
    pub(super) fn dot<R: Real + Number>(&self, a: &FourColours<R>, b: &FourColours<R>, colours: &[Colour]) -> f64 {
        // SAFETY: the rows belong to this thread, and only this thread writes them.
        self.sum_over(colours, |c, row| unsafe { dot(a[c].row(row, 0), b[c].row(row, 0)) })
    }

    /// Calls `process` for the black rows of this thread in order. Before each black row, calls `process` for those of
    /// the four red rows around it that have not been computed yet. Only a few red rows are stored at a time, in
    /// `buffers`, so that they stay in cache.
    pub(super) fn for_black_rows(&self, buffers: &mut [f64], mut process: impl FnMut(BlackRowStep)) {
        use BlackRowStep::{Black, Red};
        let n = self.layout().cx;
        buffers.fill(0.0);
        let mut rows = buffers.chunks_exact_mut(n + 2 * SCRATCH_BORDER);
        let mut next_buffer = || rows.next().expect("room for four rows");
        let (mut r1_below, mut r1, mut r2, mut r2_above) = (next_buffer(), next_buffer(), next_buffer(), next_buffer());
        let own_rows = self.rows();
        if own_rows.is_empty() {
            return;
        }
        match own_rows.start.checked_sub(1) {
            Some(row_before) => process(Red(Colour::R1, row_before, &mut r1[SCRATCH_BORDER..][..n])),
            None => r1.fill(0.0),
        }
        process(Red(Colour::R2, own_rows.start, &mut r2_above[SCRATCH_BORDER..][..n]));
        for row in own_rows {
            std::mem::swap(&mut r1_below, &mut r1);
            std::mem::swap(&mut r2, &mut r2_above);
            process(Red(Colour::R1, row, &mut r1[SCRATCH_BORDER..][..n]));
            process(Red(Colour::R2, row + 1, &mut r2_above[SCRATCH_BORDER..][..n]));
            process(Black(
                Colour::B1,
                row,
                [&r2[SCRATCH_BORDER - 1..], &r2[SCRATCH_BORDER..], &r1_below[SCRATCH_BORDER..], &r1[SCRATCH_BORDER..]],
            ));
            process(Black(
                Colour::B2,
                row,
                [&r1[SCRATCH_BORDER..], &r1[SCRATCH_BORDER + 1..], &r2[SCRATCH_BORDER..], &r2_above[SCRATCH_BORDER..]],
            ));
        }
    }

    /// Returns the scratch rows of this thread.
    pub(super) fn scratch(&self) -> MutexGuard<'a, Vec<f64>> {
        self.packed.scratch[self.thread.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes the residual r of S1 in double precision, from A. This method is used if S1 is stored in single
    /// precision. Returns <r, r>. The black part of b must contain the right-hand side of S1.
    pub(super) fn residual_from_a(&mut self) -> f64 {
        let packed = self.packed;
        self.refresh(&packed.x);
        self.for_black_rows(&mut self.scratch(), |step| match step {
            // SAFETY: no thread writes x or A in this step.
            BlackRowStep::Red(colour, row, y) => unsafe {
                let (center, a) =
                    (packed.matrix.center[colour].row(row, 0), packed.matrix.axis_couplings.couplings(colour, row));
                divide_sum_by_center(y, center, a, packed.x.axis_neighbours(colour, row));
            },
            // SAFETY: no thread writes x, b or A in this step; the black rows of r belong to this thread.
            BlackRowStep::Black(colour, row, y) => unsafe {
                let (b, center) = (packed.b[colour].row(row, 0), packed.matrix.center[colour].row(row, 0));
                let a = packed.matrix.axis_couplings.couplings(colour, row);
                schur_residual(packed.r[colour].row_mut(row, 0), b, center, packed.x[colour].row(row, 0), a, y);
            },
        });
        self.dot(&packed.r, &packed.r, packed.cg_colours())
    }

    /// Computes `out` = b - A x in row J of a colour.
    pub(super) fn residual_of_row(&self, colour: Colour, row: usize, b: &[f64], out: &mut [f64]) {
        // SAFETY: no thread writes A or x in this step.
        unsafe { self.packed.matrix.residual_row(colour, row, b, &self.packed.x, out) };
    }
}
