//! State of one thread during a solve, with reductions and passes over rows.

use crate::aggregation::cpu::CoarseMethod;
use crate::base::loops::dot;
use crate::base::number::Real;
use crate::base::reduce::{Reduce, max_abs};
use crate::base::shared::Number;
use crate::base::team::Me;
use crate::krylov::cpu::caller::CallerArrays;
use crate::report::Observer;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::cycle::Sections;
use crate::rrb::cpu::levels::PackedGrid;
use crate::rrb::cpu::loops::{schur_residual, sum_by_center};
use crate::rrb::cpu::neighbours::Rows;
use crate::rrb::cpu::number::Format;
use crate::rrb::cpu::packed::{BORDER, Packed};
use crate::rrb::layout::{Colour, Layout};
use std::cell::Cell;
use std::sync::{MutexGuard, PoisonError};

/// Part of b that a fused start has not loaded from the caller's array. The value is the scale for loading it.
#[derive(Clone, Copy)]
pub(super) enum NotLoaded {
    /// All of b.
    Rhs(f64),
    /// The red part of b. The black part contains the right-hand side of S1.
    Reds(f64),
}

/// State of one thread during a solve.
pub struct ThreadState<'a, F: Format> {
    pub(super) k: &'a Packed<F>,
    pub(super) me: Me<'a>,
    pub(super) sections: Sections<'a, F>,
    pub(super) caller: &'a CallerArrays<'a>,
    /// Observer of the caller on thread 0; `None` on all other threads.
    pub(super) observer: Option<&'a mut dyn Observer>,
    /// Number of reductions so far.
    reductions: Cell<usize>,
    /// rho = <r, M^-1 r> of the last fused downward sweep.
    pub(super) rho: f64,
    pub(super) not_loaded: Option<NotLoaded>,
    /// Method for the coarse systems if M is the aggregation cycle: flexible CG or Chebyshev steps.
    pub(super) coarse_method: CoarseMethod,
}

/// Step of a pass over black rows. Each black row needs the four red rows around it.
pub(super) enum BlackRowStep<'a> {
    /// Compute row J of a red colour into this buffer.
    Red(Colour, usize, &'a mut [f64]),
    /// Process row J of a black colour with the four red rows around it. At this time, the last computed red rows are
    /// row J of r1 and row J + 1 of r2.
    Black(Colour, usize, Rows<'a>),
}

impl<'a, F: Format> ThreadState<'a, F> {
    pub fn new(
        k: &'a Packed<F>,
        me: Me<'a>,
        caller: &'a CallerArrays<'a>,
        observer: Option<&'a mut dyn Observer>,
    ) -> Self {
        Self {
            k,
            me,
            sections: Sections::new(k, me),
            caller,
            observer,
            reductions: Cell::new(0),
            rho: 0.0,
            not_loaded: None,
            coarse_method: CoarseMethod::Flexible,
        }
    }

    pub(super) fn first(&self) -> &'a PackedGrid<F> {
        &self.k.grids[0]
    }

    /// Returns the arrays of z = M^-1 r.
    pub(super) fn z(&self) -> &'a FourColours<F::Real> {
        let own = self.k.aggregated.get().and_then(|aggregated| aggregated.z.as_ref());
        own.unwrap_or(&self.first().z)
    }

    pub(super) fn rows(&self) -> std::ops::Range<usize> {
        self.first().rows(self.me)
    }

    pub(super) fn layout(&self) -> &'a Layout {
        &self.first().layout
    }

    /// See [`PackedGrid::refresh`].
    pub(super) fn refresh<R: Real + Number>(&self, v: &FourColours<R>) {
        self.first().refresh(self.me, v);
    }

    /// Calls `f(colour, J)` for each row J of this thread and each of `colours`.
    pub(super) fn each_row(&self, colours: &[Colour], mut f: impl FnMut(Colour, usize)) {
        self.rows().for_each(|row| colours.iter().for_each(|&colour| f(colour, row)));
    }

    /// Begins a reduction over the rows of the first grid.
    pub(super) fn reduction<const N: usize>(&self) -> Reduce<'a, N> {
        self.reductions.set(self.reductions.get() + 1);
        self.k.partials.reduce(self.reductions.get(), self.layout().cy).over(self.k.other_ranks(0))
    }

    /// Stores `of_row(J)` as partial result of each row J of this thread.
    pub(super) fn store_partials<const N: usize>(
        &self,
        partials: Reduce<'a, N>,
        mut of_row: impl FnMut(usize) -> [f64; N],
    ) {
        for row in self.rows() {
            // SAFETY: the row belongs to this thread.
            unsafe { partials.store(row, of_row(row)) };
        }
    }

    /// Returns the sum of `of(colour, J)` over all rows J and over `colours`, including the rows of other threads and
    /// ranks.
    pub(super) fn sum(&self, colours: &[Colour], mut of: impl FnMut(Colour, usize) -> f64) -> f64 {
        self.sum_rows(|row| colours.iter().map(|&colour| of(colour, row)).sum())
    }

    /// Returns the sum of `of_row(J)` over all rows J, including those of other threads and ranks.
    pub(super) fn sum_rows(&self, mut of_row: impl FnMut(usize) -> f64) -> f64 {
        let partials = self.reduction();
        self.store_partials(partials, |row| [of_row(row)]);
        partials.sum(Some(self.me))[0]
    }

    /// Returns the maximum of nonnegative values over all rows, or NaN if any value is NaN.
    pub(super) fn largest_of(&self, mut of_row: impl FnMut(usize) -> f64) -> f64 {
        let partials = self.reduction();
        self.store_partials(partials, |row| [of_row(row)]);
        max_abs(partials.all(Some(self.me))[0])
    }

    /// Returns <a, b> over all rows of the colours.
    pub(super) fn dot<R: Real + Number>(&self, a: &FourColours<R>, b: &FourColours<R>, colours: &[Colour]) -> f64 {
        // SAFETY: the rows belong to this thread, and only this thread writes them.
        self.sum(colours, |c, row| unsafe { dot(a[c].row(row, 0), b[c].row(row, 0)) })
    }

    /// Calls `pass` for the black rows of this thread in order. Before each black row, calls `pass` for those of the
    /// four red rows around it that have not been computed yet. Only a few red rows are stored at a time, in `buffers`,
    /// so that they stay in cache.
    pub(super) fn over_black_rows(&self, buffers: &mut [f64], mut pass: impl FnMut(BlackRowStep)) {
        use BlackRowStep::{Black, Red};
        let n = self.layout().cx;
        buffers.fill(0.0);
        let mut rows = buffers.chunks_exact_mut(n + 2 * BORDER);
        let mut row = || rows.next().expect("room for four rows");
        let (mut r1_below, mut r1, mut r2, mut r2_above) = (row(), row(), row(), row());
        let all = self.rows();
        if all.is_empty() {
            return;
        }
        match all.start.checked_sub(1) {
            Some(before) => pass(Red(Colour::R1, before, &mut r1[BORDER..][..n])),
            None => r1.fill(0.0),
        }
        pass(Red(Colour::R2, all.start, &mut r2_above[BORDER..][..n]));
        for row in all {
            std::mem::swap(&mut r1_below, &mut r1);
            std::mem::swap(&mut r2, &mut r2_above);
            pass(Red(Colour::R1, row, &mut r1[BORDER..][..n]));
            pass(Red(Colour::R2, row + 1, &mut r2_above[BORDER..][..n]));
            pass(Black(Colour::B1, row, [&r2[BORDER - 1..], &r2[BORDER..], &r1_below[BORDER..], &r1[BORDER..]]));
            pass(Black(Colour::B2, row, [&r1[BORDER..], &r1[BORDER + 1..], &r2[BORDER..], &r2_above[BORDER..]]));
        }
    }

    /// Returns the scratch rows of this thread.
    pub(super) fn scratch(&self) -> MutexGuard<'a, Vec<f64>> {
        self.k.scratch[self.me.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes the residual r of S1 in double precision, from A. This is needed if S1 is stored in single precision.
    /// Returns <r, r>. The black part of b must contain the right-hand side of S1.
    pub(super) fn residual_from_a(&mut self) -> f64 {
        let k = self.k;
        self.refresh(&k.x);
        self.over_black_rows(&mut self.scratch(), |step| match step {
            // SAFETY: no thread writes x or A in this step.
            BlackRowStep::Red(colour, row, y) => unsafe {
                let (center, a) = (k.matrix.center[colour].row(row, 0), k.matrix.straight.couplings(colour, row));
                sum_by_center(y, center, a, k.x.straight(colour, row));
            },
            // SAFETY: no thread writes x, b or A in this step; the black rows of r belong to this thread.
            BlackRowStep::Black(colour, row, y) => unsafe {
                let (b, center) = (k.b[colour].row(row, 0), k.matrix.center[colour].row(row, 0));
                let a = k.matrix.straight.couplings(colour, row);
                schur_residual(k.r[colour].row_mut(row, 0), b, center, k.x[colour].row(row, 0), a, y);
            },
        });
        self.dot(&k.r, &k.r, k.cg_colours())
    }

    /// Computes `out` = b - A x in row J of a colour.
    pub(super) fn residual_of_row(&self, colour: Colour, row: usize, b: &[f64], out: &mut [f64]) {
        // SAFETY: no thread writes A or x in this step.
        unsafe { self.k.matrix.residual(colour, row, b, &self.k.x, out) };
    }
}
