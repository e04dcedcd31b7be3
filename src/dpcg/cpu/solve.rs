//! Start and end of a solve: copies of the caller's arrays, and the deflated part of x.

use super::state::Vectors;
use crate::base::loops::{combine, largest};
use crate::dpcg::cpu::steps::ThreadState;
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{VectorId, VectorSteps};

impl SolveSteps for ThreadState<'_> {
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let mut seen = Inputs::none();
        for (row, _) in self.rows() {
            let b = self.input(row);
            // SAFETY: the row belongs to this thread.
            let x = if guess { unsafe { self.output(row) } } else { &mut [] };
            seen.inspect_row(self.caller.input_name, b, largest(b), row, true);
            seen.inspect_row("x", x, largest(x), row, false);
        }
        self.state.observed.inputs(self.me, &seen, self.caller.input_name, |_| ())
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        let Vectors { x, b, .. } = self.vectors();
        for (row, cells) in self.rows() {
            // SAFETY: the row belongs to this thread, and no other thread reads it in this step.
            let (x, b) = unsafe { (x.range_mut(&cells), b.range_mut(&cells)) };
            combine(b, 0.0, scale, self.input(row));
            match what.guess() {
                // SAFETY: the row belongs to this thread.
                Some(true) => combine(x, 0.0, scale, unsafe { self.output(row) }),
                Some(false) => x.fill(0.0),
                None => {}
            }
        }
        let rhs_norm2 = if what == Load::Rhs { 0.0 } else { self.inner(VectorId::B, VectorId::B) };
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.state.singular.worst(self.me, &self.state.pieces.share(self.me), &self.vectors().b)
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        self.residual_to(&self.vectors().z)
    }

    /// Computes x = x^ + Z E^-1 Z^T (b - A x^), and returns max |x_i|. On entry, x contains x^, the solution of P A x^
    /// = P b (Tang, Nabben, Vuik and Erlangga 2009). Without deflation, x is unchanged.
    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        if self.state.deflation.is_some() {
            let q = &self.vectors().q;
            self.residual_to(q);
            self.add_deflated_part(q);
        }
        (self.largest(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        for (row, cells) in self.rows() {
            // SAFETY: the row belongs to this thread.
            unsafe { combine(self.output(row), 0.0, scale.recip(), self.vectors().x.range(&cells)) };
        }
    }

    fn multiply_rhs(&mut self) {
        self.product(&self.vectors().x, &self.vectors().b);
    }
}
