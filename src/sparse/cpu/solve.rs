//! Input and output of a solve: the caller's arrays. For general matrices, no null space is detected.

use super::loops::{largest, set_scaled};
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{Iterate, KrylovSteps, VectorId, VectorSteps};
use crate::sparse::cpu::steps::Member;
use std::ops::Range;

impl<'a> Member<'a> {
    /// Returns these rows of the caller's input.
    fn input(&self, rows: &Range<usize>) -> &'a [f64] {
        self.caller.input_at(rows.start, rows.len())
    }

    /// # Safety
    /// The rows must belong to this thread.
    unsafe fn output(&self, rows: &Range<usize>) -> &'a mut [f64] {
        // SAFETY: no other thread uses these rows, as the caller guarantees.
        unsafe { self.caller.output_at(rows.start, rows.len()) }
    }
}

impl SolveSteps for Member<'_> {
    fn krylov(&mut self) -> Option<&mut dyn KrylovSteps> {
        Some(self)
    }

    /// Checks the input for nonfinite values. An error names the row of the value; the chunk of the row determines
    /// which error is reported first.
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let mut seen = Inputs::none();
        let chunks = self.k.chunks;
        for chunk in chunks.share(&self.me) {
            let rows = chunks.range(chunk);
            let b = self.input(&rows);
            // SAFETY: rows of this thread.
            let x = if guess { unsafe { self.output(&rows) } } else { &mut [] };
            seen.look_at_row(self.caller.input_name, b, largest(b), chunk, true);
            seen.look_at_row("x", x, largest(x), chunk, false);
        }
        let row = |(name, value, i, chunk)| (name, value, chunks.range(chunk).start + i, chunk);
        seen.not_finite = seen.not_finite.map(row);
        self.k.observed.inputs(self.me, &seen, self.caller.input_name, |_| ())
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        for rows in self.chunks() {
            // SAFETY: rows of this thread, which no other thread reads in this step.
            let (b, x) = unsafe { (self.rows_of_mut(VectorId::B, &rows), self.rows_of_mut(VectorId::X, &rows)) };
            set_scaled(b, scale, self.input(&rows));
            match what.guess() {
                // SAFETY: rows of this thread.
                Some(true) => set_scaled(x, scale, unsafe { self.output(&rows) }),
                Some(false) => x.fill(0.0),
                None => {}
            }
        }
        let rhs_norm2 = if what == Load::Rhs { 0.0 } else { self.inner(VectorId::B, VectorId::B) };
        (rhs_norm2, None)
    }

    /// Overwrites r.
    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        self.residual(Iterate::X)
    }

    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        (self.largest(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        for rows in self.chunks() {
            // SAFETY: rows of this thread.
            unsafe { set_scaled(self.output(&rows), scale.recip(), self.rows_of(VectorId::X, &rows)) };
        }
    }

    fn multiply_rhs(&mut self) {
        self.product(VectorId::B, VectorId::X);
    }
}
