//! An iteration in few passes over memory (docs/theory/dpcg.md, memory traffic; kernels/dpcg/fused.cuh, which defines
//! K, v and t). The passes `descend` and `ascend` contain a short Neumann series, or surround a multigrid cycle.

use super::source::DeviceMatrix;
use super::state::{FusedSteps, State, Vectors};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{FusedArgs, Scalars, Sum, SumUse};
use crate::error::Result;
use std::mem::offset_of;

impl State {
    /// Returns whether steps are fused. In this case, the device executes iterations without the host.
    pub fn is_fused(&self) -> bool {
        self.fused_steps != FusedSteps::Unfused && self.recorded_loop.is_some()
    }

    /// Returns whether `descend` also computes v = D^-1 K r.
    pub fn is_series(&self) -> bool {
        self.is_fused() && self.fused_steps != FusedSteps::AroundCycle
    }

    /// Returns the order of the Neumann series; 0 for Jacobi and multigrid.
    fn series_order(&self) -> usize {
        if let FusedSteps::Series(order) = self.fused_steps { order } else { 0 }
    }

    /// Computes v = D^-1 K r and rho = <r, M^-1 r> = <v, D v> at the start of a solve.
    pub fn begin_descend(&self, stream: &Stream, source: &DeviceMatrix, rho: Sum) -> Result<()> {
        self.descend(stream, &FusedArgs { sum: rho, ..self.pass_args(source) })
    }

    /// Computes p = z, q = A p and, with deflation, t = E^-1 Z^T q at the start of a solve. Stores <p, q> in the scalar
    /// `sigma` and, with deflation, <Z^T q, t> in the scalar that `deflated_sum` selects. The caller subtracts the
    /// second number from the first, which results in <p, P A p>.
    pub fn begin_ascend(&self, stream: &Stream, source: &DeviceMatrix, deflated_sum: Sum) -> Result<()> {
        let energy = self.vectors.sum_to(offset_of!(Scalars, sigma));
        self.ascend(stream, source, energy, [energy, deflated_sum])
    }

    /// Launches an iteration. On entry, p, q and, with deflation, t have been computed, and P A p = q - A Z t. The
    /// kernels also update rho and sigma, or end the loop. `last_sum` contains the arguments of the reduction in the
    /// last kernel.
    pub fn fused_iteration(&self, stream: &Stream, source: &DeviceMatrix, last_sum: Sum) -> Result<()> {
        let rho = Sum { sum_use: SumUse::Rho as i32, conditional: 0, ..last_sum };
        let args = FusedArgs { sum: rho, ..self.pass_args(source) };
        if self.is_series() {
            self.descend(stream, &args)?;
        } else {
            let cycle_args = FusedArgs { v: 0, ..args };
            match self.deflation {
                Some(_) => launch::descend_0(stream, &cycle_args)?,
                None => launch::advance_residual(stream, &cycle_args)?,
            }
            self.precondition(stream, source, rho)?;
        }
        let energy = Sum { in_loop: 1, ..self.vectors.sum_to(offset_of!(Scalars, sigma)) };
        let [undeflated_sum, deflated_sum] =
            [SumUse::LastSigma, SumUse::LastPart].map(|sum_use| Sum { sum_use: sum_use as i32, ..last_sum });
        self.ascend(stream, source, undeflated_sum, [energy, deflated_sum])
    }

    /// Launches the pass `descend` for the order of the Neumann series.
    fn descend(&self, stream: &Stream, args: &FusedArgs) -> Result<()> {
        [launch::descend_0, launch::descend_1, launch::descend_2][self.series_order()](stream, args)
    }

    /// Computes x, p and q. Without deflation, computes <p, q> as the reduction `undeflated_sum`. With deflation,
    /// computes <p, q> as the reduction `energy`, t = E^-1 Z^T q, and <Z^T q, t> as the reduction `deflated_sum`.
    fn ascend(
        &self,
        stream: &Stream,
        source: &DeviceMatrix,
        undeflated_sum: Sum,
        [energy, deflated_sum]: [Sum; 2],
    ) -> Result<()> {
        let ascend = [launch::ascend_0, launch::ascend_1, launch::ascend_2][self.series_order()];
        let args = self.pass_args(source);
        let Some(deflation) = &self.deflation else {
            return ascend(stream, &FusedArgs { sum: undeflated_sum, ..args });
        };
        ascend(stream, &FusedArgs { sum: energy, ..args })?;
        deflation.solve_with_product(stream, self.vectors.q, deflated_sum)
    }

    /// Returns the arguments of the passes `descend` and `ascend`.
    fn pass_args(&self, source: &DeviceMatrix) -> FusedArgs {
        let order = self.series_order();
        let Vectors { x, r, p, q, z, series_vector, second_p, norm_partial, .. } = self.vectors;
        let (region, t) = self.deflation.as_ref().map_or((0, 0), |deflation| deflation.region_and_t());
        let args = FusedArgs {
            cells: source.cells,
            m: source.m,
            r: [r, if order > 0 { series_vector } else { r }],
            p: [p, second_p],
            q,
            x,
            v: z,
            region,
            t,
            norm_partial,
            ..FusedArgs::default()
        };
        args.with_planes_per_piece(order as u32 + 2)
    }
}
