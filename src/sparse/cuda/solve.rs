//! Start and end of a run, with the caller's arrays.

use super::run::Run;
use crate::cuda::call::FallibleSteps;
use crate::cuda::launch::{FinishKind, RowFinish};
use crate::cuda::vectors::inspect_arrays;
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{Iterate, KrylovSteps, VectorId, VectorSteps};

impl SolveSteps for Run<'_> {
    fn krylov_steps(&mut self) -> Option<&mut dyn KrylovSteps> {
        Some(self)
    }

    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let cells = self.state.box_of();
        self.attempt(|s| inspect_arrays(&mut s.call, &mut s.state.scalars, cells, guess)).unwrap_or(Inputs::failed())
    }

    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>) {
        let (cells, b) = (self.state.box_of(), self.vector_to_write(VectorId::B));
        if let Some(guess) = load.guess() {
            let x = self.vector_to_write(VectorId::X);
            self.step(|s| s.call.load_guess((cells, x), scale, guess));
        }
        let rhs_norm2 = self.scalar(|s| {
            s.call.load_input((cells, b), scale, s.sum())?;
            if load == Load::Rhs { Ok(0.0) } else { s.fetch_sum() }
        });
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
        (self.max_abs(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        let (cells, x) = (self.state.box_of(), self.state.vector(VectorId::X));
        self.step(|s| s.call.store_output((cells, x), scale));
    }

    fn multiply_rhs(&mut self) {
        let (b, out) = (self.state.vector(VectorId::B), self.vector_to_write(VectorId::X));
        let finish = RowFinish { kind: FinishKind::StoreSum as i32, out, ..RowFinish::default() };
        self.step(|s| s.products.a_in_f64.multiply(s.stream, false, b, finish));
    }
}
