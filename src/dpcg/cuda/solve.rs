//! Steps before and after PCG: the caller's arrays, means over singular components, and the deflated part of x.

use super::run::{Rhs, Run};
use super::state::Vectors;
use crate::cuda::call::Attempts;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellArray, CellTransferArgs};
use crate::cuda::vectors;
use crate::error::Result;
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{VectorId, VectorSteps};

impl Run<'_> {
    /// Returns the arguments of a copy between a vector and a caller's array.
    fn transfer(&self, array: CellArray, vector: Address, factor: f64) -> CellTransferArgs {
        vectors::transfer(self.source.cells, array, vector, factor)
    }

    /// Loads b = `scale` times the caller's input, and computes <b, b>.
    fn load_rhs_square(&mut self, scale: f64) -> Result<()> {
        let of = CellTransferArgs { sum: self.sum(), ..self.transfer(self.call.input, self.state.vectors.b, scale) };
        launch::cell_load(self.stream, &of)?;
        self.rhs = Rhs { scale, projected: false };
        Ok(())
    }

    /// Sets a vector to zero.
    pub fn fill(&self, vector: Address) -> Result<()> {
        self.stream.fill(vector, 0, 8 * self.source.extents.count())
    }

    /// Subtracts from v its mean over each singular component. With `restore`, also adds the means that `store_means`
    /// stored.
    pub(super) fn shift(&mut self, v: Address, restore: bool) {
        self.step(|s| match &s.state.singular {
            Some(singular) => singular.shift(s.stream, v, restore),
            None => Ok(()),
        });
    }

    /// Stores the mean of x over each singular component.
    pub(super) fn store_means(&mut self) {
        let x = self.state.vectors.x;
        self.step(|s| match &s.state.singular {
            Some(singular) => singular.store_means(s.stream, x),
            None => Ok(()),
        });
    }
}

impl SolveSteps for Run<'_> {
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let inspect = |s: &mut Self| vectors::inspect(&mut s.call, &mut s.state.vectors.scalars, s.source.cells, guess);
        self.attempt(inspect).unwrap_or(Inputs { rhs_max: f64::NAN, ..Inputs::none() })
    }

    /// With `Load::Rhs`, loads only b, and returns 0 instead of <b, b>. b is not loaded again if the device already
    /// stores it multiplied by `scale` and, if there are singular components, without its means over them. The caller
    /// next subtracts these means, which `means` omits if they were already subtracted.
    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        let Some(guess) = what.guess() else {
            let there = Rhs { scale, projected: self.state.singular.is_some() };
            if self.rhs != there {
                self.step(|s| s.load_rhs_square(scale));
            }
            return (0.0, None);
        };
        let x = self.state.vectors.x;
        self.step(
            |s| if guess { launch::cell_load(s.stream, &s.transfer(s.call.output, x, scale)) } else { s.fill(x) },
        );
        let rhs_norm2 = self.scalar(|s| {
            s.load_rhs_square(scale)?;
            s.summed()
        });
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        let b = self.state.vectors.b;
        let worst = |s: &mut Self| match &mut s.state.singular {
            Some(singular) => singular.worst(s.stream, b),
            None => Ok((0, 0.0, 0.0)),
        };
        self.attempt(worst).unwrap_or((0, f64::NAN, f64::NAN))
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        let z = self.state.vectors.z;
        self.scalar(|s| {
            s.residual_to(z, s.sum())?;
            s.summed()
        })
    }

    /// Computes x = x^ + Z E^-1 Z^T (b - A x^), and returns max |x_i|, or 0 if there are singular components. On entry,
    /// x contains x^, the solution of P A x^ = P b (Tang, Nabben, Vuik and Erlangga 2009). Without deflation, x is
    /// unchanged.
    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        let Vectors { x, q, .. } = self.state.vectors;
        if self.state.deflation.is_some() {
            self.step(|s| {
                s.residual_to(q, s.sum())?;
                let Some(deflation) = &mut s.state.deflation else { return Ok(()) };
                s.state.seconds_coarse += deflation.add_deflated_part(s.stream, s.source, q, x)?;
                Ok(())
            });
        }
        // If there are singular components, the caller first changes the means of x, so max |x_i| is not yet computed.
        (if self.state.singular.is_some() { 0.0 } else { self.largest(VectorId::X) }, None)
    }

    fn store(&mut self, scale: f64) {
        self.step(|s| {
            launch::cell_store(s.stream, &s.transfer(s.call.output, s.state.vectors.x, scale.recip()))?;
            s.call.fetch_output()
        });
    }

    fn multiply_rhs(&mut self) {
        let Vectors { b, x, .. } = self.state.vectors;
        self.step(|s| launch::cell_product(s.stream, &s.state.product_args(s.source, b, x, Default::default())));
    }
}
