//! Start and end of a solve on numbered vectors: copies the user's arrays to vectors, and x to the user's array.

use super::steps::{System, ThreadState};
use crate::base::loops::{combine, max_abs};
use crate::krylov::solve_steps::{Criterion, EliminatedVector, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{KrylovSteps, VectorId, VectorSteps};

impl<S: System> SolveSteps for ThreadState<'_, S> {
    fn krylov_steps(&mut self) -> Option<&mut dyn KrylovSteps> {
        S::krylov_steps(self)
    }

    /// Inspects the input and the guess, line by line (see `workspace::Lines`).
    fn inspect(&mut self, has_guess: bool, _: Option<&Criterion>) -> Inputs {
        let mut own_inputs = Inputs::uninspected();
        for (line, values) in self.lines() {
            let b = self.caller.input_row(line, values.len());
            // SAFETY: the line belongs to this thread, which uses no other slice of it meanwhile.
            let x = if has_guess { unsafe { self.caller.output_row(line, values.len()) } } else { &mut [] };
            own_inputs.inspect_row(self.caller.input_name, b, max_abs(b), line, true);
            own_inputs.inspect_row("x", x, max_abs(x), line, false);
        }
        let mut inputs =
            self.workspace.run_state.merge_inputs(self.thread, &own_inputs, self.caller.input_name, |_| ());
        let with_grid_column = |(name, value, i, line)| (name, value, self.system.column(i, line), line);
        inputs.not_finite = inputs.not_finite.map(with_grid_column);
        inputs
    }

    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>) {
        for (line, values) in self.lines() {
            // SAFETY: the line belongs to this thread, and no other thread uses its values in this step.
            let (b, x) = unsafe { (self.rows_of_mut(VectorId::B, &values), self.rows_of_mut(VectorId::X, &values)) };
            combine(b, 0.0, scale, self.caller.input_row(line, values.len()));
            match load.guess() {
                // SAFETY: the line belongs to this thread, which uses no other slice of it meanwhile.
                Some(true) => combine(x, 0.0, scale, unsafe { self.caller.output_row(line, values.len()) }),
                Some(false) => x.fill(0.0),
                None => {}
            }
        }
        let rhs_norm2 = if load == Load::Rhs { 0.0 } else { self.inner_product(VectorId::B, VectorId::B) };
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        S::worst_incompatibility(self)
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        S::whole_residual_norm2(self)
    }

    fn reduce(&mut self, eliminated_vector: EliminatedVector) -> f64 {
        S::reduce(self, eliminated_vector)
    }

    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        S::back_substitute(self);
        (self.max_abs(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        for (line, values) in self.lines() {
            // SAFETY: the line belongs to this thread, which uses no other slice of it meanwhile.
            let (output, x) =
                unsafe { (self.caller.output_row(line, values.len()), self.rows_of(VectorId::X, &values)) };
            combine(output, 0.0, scale.recip(), x);
        }
    }

    fn multiply_rhs(&mut self) {
        S::multiply_vector(self, VectorId::B, VectorId::X);
    }
}
