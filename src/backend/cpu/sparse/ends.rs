//! What surrounds a method: the caller's arrays. A general matrix is looked at for no null space.

use super::loops::{largest, set_scaled};
use super::member::{Member, Z};
use crate::backend::steps::pcg::PcgSteps;
use crate::backend::steps::solve::{Inputs, SolveSteps};
use crate::backend::steps::vectors::{VectorId, VectorSteps};
use crate::runtime::reduce::max_abs;
use std::ops::Range;
use std::sync::PoisonError;

impl<'a> Member<'a> {
    /// These rows of the caller's input.
    fn input(&self, rows: &Range<usize>) -> &'a [f64] {
        self.caller.input(rows.start, rows.len())
    }

    /// # Safety
    /// The rows must be this member's.
    unsafe fn output(&self, rows: &Range<usize>) -> &'a mut [f64] {
        // SAFETY: no other member uses these rows, as the caller promised.
        unsafe { self.caller.output(rows.start, rows.len()) }
    }
}

impl SolveSteps for Member<'_> {
    fn numbered(&mut self) -> Option<&mut dyn VectorSteps> {
        Some(self)
    }

    /// An entry that is not finite is told by its row, and the chunk of that.
    fn inspect(&mut self, guess: bool) -> Inputs {
        let mut seen = Inputs::none();
        let chunks = self.k.chunks;
        for chunk in chunks.share(&self.me) {
            let rows = chunks.range(chunk);
            let b = self.input(&rows);
            // SAFETY: rows of this member.
            let x = if guess { unsafe { self.output(&rows) } } else { &mut [] };
            seen.look_at_row(self.caller.input_name, b, largest(b), chunk, true);
            seen.look_at_row("x", x, largest(x), chunk, false);
        }
        let row = |(name, value, i, chunk)| (name, value, chunks.range(chunk).start + i, chunk);
        seen.not_finite = seen.not_finite.map(row);
        let lock = || self.k.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        lock().merge(&seen, self.caller.input_name);
        self.me.barrier();
        *lock()
    }

    fn load(&mut self, scale: f64, guess: bool) -> f64 {
        for rows in self.chunks() {
            // SAFETY: rows of this member, which nobody reads in this step.
            let x = unsafe { self.rows_of_mut(VectorId::X, &rows) };
            match guess {
                // SAFETY: rows of this member.
                true => set_scaled(x, scale, unsafe { self.output(&rows) }),
                false => x.fill(0.0),
            }
        }
        self.load_rhs(scale);
        self.rhs_norm2()
    }

    fn load_rhs(&mut self, scale: f64) {
        for rows in self.chunks() {
            // SAFETY: rows of this member, which nobody reads in this step.
            set_scaled(unsafe { self.rows_of_mut(VectorId::B, &rows) }, scale, self.input(&rows));
        }
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        (0, 0.0, 0.0)
    }

    fn project_rhs(&mut self) {}

    fn keep_means(&mut self) {}

    fn shift_means(&mut self, _: bool) {}

    fn rhs_norm2(&mut self) -> f64 {
        self.inner(VectorId::B, VectorId::B)
    }

    /// r is spent.
    fn whole_residual_norm2(&mut self) -> f64 {
        self.residual()
    }

    fn take_z(&mut self) {
        self.copy(Z, VectorId::X);
    }

    fn back_substitute(&mut self) -> f64 {
        self.solution_max()
    }

    fn clear_solution(&mut self) {
        self.combine(VectorId::X, 0.0, &[]);
    }

    fn solution_max(&mut self) -> f64 {
        let noted = self.note(|s, rows| {
            // SAFETY: rows of this member, which only it writes.
            [largest(unsafe { s.rows_of(VectorId::X, &rows) })]
        });
        max_abs(noted.all(Some(self.me))[0])
    }

    fn store(&mut self, scale: f64) {
        for rows in self.chunks() {
            // SAFETY: rows of this member.
            unsafe { set_scaled(self.output(&rows), scale.recip(), self.rows_of(VectorId::X, &rows)) };
        }
    }

    fn multiply_rhs(&mut self) {
        self.product(VectorId::B, VectorId::X);
    }

    fn store_zero(&mut self) {
        for rows in self.chunks() {
            // SAFETY: rows of this member.
            unsafe { self.output(&rows) }.fill(0.0);
        }
    }
}
