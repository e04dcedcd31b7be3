//! Start and end of a solve: copies of the caller's arrays, and the deflated part of x.

use super::state::Vectors;
use crate::base::loops::{combine, max_abs};
use crate::dpcg::cpu::steps::ThreadState;
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{VectorId, VectorSteps};

impl SolveSteps for ThreadState<'_> {
    fn inspect(&mut self, has_guess: bool, _: Option<&Criterion>) -> Inputs {
        let mut inputs = Inputs::uninspected();
        for (row, _) in self.rows_and_cells() {
            let b = self.input_row(row);
            // SAFETY: the row belongs to this thread.
            let x = if has_guess { unsafe { self.output_row(row) } } else { &mut [] };
            inputs.inspect_row(self.caller.input_name, b, max_abs(b), row, true);
            inputs.inspect_row("x", x, max_abs(x), row, false);
        }
        self.state.observed.merge_inputs(self.thread, &inputs, self.caller.input_name, |_| ())
    }

    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>) {
        let Vectors { x, b, .. } = self.vectors();
        for (row, cells) in self.rows_and_cells() {
            // SAFETY: the row belongs to this thread, and no other thread reads it in this step.
            let (x, b) = unsafe { (x.slice_mut(&cells), b.slice_mut(&cells)) };
            combine(b, 0.0, scale, self.input_row(row));
            match load.guess() {
                // SAFETY: the row belongs to this thread.
                Some(true) => combine(x, 0.0, scale, unsafe { self.output_row(row) }),
                Some(false) => x.fill(0.0),
                None => {}
            }
        }
        let rhs_norm2 = if load == Load::Rhs { 0.0 } else { self.inner_product(VectorId::B, VectorId::B) };
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        self.state.singular_cells.find_worst_label(
            self.thread,
            &self.state.pieces.share(self.thread),
            &self.vectors().b,
        )
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        self.compute_residual(&self.vectors().z)
    }

    /// Computes x = x^ + Z E^-1 Z^T (b - A x^), and returns max |x_i|. On entry, x contains x^, which solves the
    /// deflated system P A x^ = P b (Tang, Nabben, Vuik and Erlangga 2009). Without deflation, x is unchanged.
    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        if self.state.deflation.is_some() {
            let q = &self.vectors().q;
            self.compute_residual(q);
            self.add_deflated_part(q);
        }
        (self.max_abs(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        for (row, cells) in self.rows_and_cells() {
            // SAFETY: the row belongs to this thread.
            unsafe { combine(self.output_row(row), 0.0, scale.recip(), self.vectors().x.slice(&cells)) };
        }
    }

    fn multiply_rhs(&mut self) {
        self.multiply_vector(&self.vectors().x, &self.vectors().b);
    }
}
