//! Steps before and after PCG: the caller's arrays, means over singular components, and the deflated part of x.

use super::run::{LoadedRhs, Run};
use super::state::Vectors;
use crate::cuda::call::FallibleSteps;
use crate::cuda::launch;
use crate::cuda::launch::Address;
use crate::cuda::vectors::inspect_arrays;
use crate::error::Result;
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{VectorId, VectorSteps};

impl Run<'_> {
    /// Loads b = `scale` times the caller's input, and computes <b, b>.
    fn load_rhs_square(&mut self, scale: f64) -> Result<()> {
        self.call.load_input((self.source.cells, self.state.vectors.b), scale, self.sum_args())?;
        self.loaded_rhs = LoadedRhs { scale, means_subtracted: false };
        Ok(())
    }

    /// Sets a vector to zero.
    pub fn fill_with_zeros(&self, vector: Address) -> Result<()> {
        self.stream.fill(vector, 0, 8 * self.source.extents.count())
    }

    /// Subtracts from v its mean over each singular component. With `restores_means`, also adds the means that
    /// `store_means` stored.
    pub(super) fn subtract_means(&mut self, v: Address, restores_means: bool) {
        self.step(|run| match &run.state.singular_cells {
            Some(singular) => singular.shift(run.stream, v, restores_means),
            None => Ok(()),
        });
    }

    /// Stores the mean of x over each singular component.
    pub(super) fn store_means(&mut self) {
        let x = self.state.vectors.x;
        self.step(|run| match &run.state.singular_cells {
            Some(singular) => singular.store_means(run.stream, x),
            None => Ok(()),
        });
    }
}

impl SolveSteps for Run<'_> {
    fn inspect(&mut self, has_guess: bool, _: Option<&Criterion>) -> Inputs {
        let cells = self.source.cells;
        self.attempt(|s| inspect_arrays(&mut s.call, &mut s.state.vectors.scalars, cells, has_guess))
            .unwrap_or(Inputs::failed())
    }

    /// With `Load::Rhs`, loads only b, and returns 0 instead of <b, b>. This load is skipped in two cases:
    /// - there are no singular components, and the device already stores `scale` times b;
    /// - there are singular components, the device already stores `scale` times b, and the means of this b over the
    ///   singular components were already subtracted.
    ///
    /// After this call, `change_means` subtracts the means of b if they are not yet subtracted.
    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>) {
        let Some(guess) = load.guess() else {
            let requested_rhs = LoadedRhs { scale, means_subtracted: self.state.singular_cells.is_some() };
            if self.loaded_rhs != requested_rhs {
                self.step(|run| run.load_rhs_square(scale));
            }
            return (0.0, None);
        };
        let (cells, x) = (self.source.cells, self.state.vectors.x);
        self.step(|run| run.call.load_guess((cells, x), scale, guess));
        let rhs_norm2 = self.scalar(|run| {
            run.load_rhs_square(scale)?;
            run.fetch_sum()
        });
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        let b = self.state.vectors.b;
        let worst = |run: &mut Self| match &mut run.state.singular_cells {
            Some(singular) => singular.find_worst_label(run.stream, b),
            None => Ok((0, 0.0, 0.0)),
        };
        self.attempt(worst).unwrap_or((0, f64::NAN, f64::NAN))
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        let z = self.state.vectors.z;
        self.scalar(|run| {
            run.compute_residual(z, run.sum_args())?;
            run.fetch_sum()
        })
    }

    /// Computes x = x^ + Z E^-1 Z^T (b - A x^), and returns max |x_i|, or 0 if there are singular components. On entry,
    /// x contains x^, the solution of P A x^ = P b (Tang, Nabben, Vuik and Erlangga 2009). Without deflation, x is
    /// unchanged.
    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        let Vectors { x, q, .. } = self.state.vectors;
        if self.state.deflation.is_some() {
            self.step(|run| {
                run.compute_residual(q, run.sum_args())?;
                let Some(deflation) = &mut run.state.deflation else { return Ok(()) };
                run.state.coarse_solve_seconds += deflation.add_deflated_part(run.stream, run.source, q, x)?;
                Ok(())
            });
        }
        // If there are singular components, the means of x are changed after this step, so max |x_i| is not yet
        // computed.
        (if self.state.singular_cells.is_some() { 0.0 } else { self.max_abs(VectorId::X) }, None)
    }

    fn store(&mut self, scale: f64) {
        let (cells, x) = (self.source.cells, self.state.vectors.x);
        self.step(|run| run.call.store_output((cells, x), scale));
    }

    fn multiply_rhs(&mut self) {
        let Vectors { b, x, .. } = self.state.vectors;
        self.step(|run| {
            launch::cell_product(run.stream, &run.state.product_args(run.source, b, x, Default::default()))
        });
    }
}
