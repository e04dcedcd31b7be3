//! An iteration in few passes over memory (kernels/dpcg/fused.cuh): `descend` and `ascend` with a short Neumann series,
//! or what stands around a cycle of multigrid.

use super::source::Source;
use super::state::{Passes, State, Vectors};
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{FusedArgs, Scalars, Sum, Use};
use crate::error::Result;
use std::mem::offset_of;

impl State {
    /// Stages are fused: the device does all of an iteration.
    pub fn is_fused(&self) -> bool {
        self.passes != Passes::Textbook && self.recorded.is_some()
    }

    /// `descend` is, too.
    pub fn is_series(&self) -> bool {
        self.is_fused() && self.passes != Passes::AroundCycle
    }

    fn order(&self) -> usize {
        if let Passes::Series(order) = self.passes { order } else { 0 }
    }

    /// v = D^-1 K r and rho of a start.
    pub fn begin_descend(&self, stream: &Stream, source: &Source, rho: Sum) -> Result<()> {
        self.descend(stream, &FusedArgs { sum: rho, ..self.passes_args(source) })
    }

    /// p = z, q = A p and t of a start: sigma is <p, q> of the scalars, less <Z^T q, t> in `part` where there is one.
    pub fn begin_ascend(&self, stream: &Stream, source: &Source, part: Sum) -> Result<()> {
        let energy = self.vectors.sum_to(offset_of!(Scalars, sigma));
        self.ascend(stream, source, energy, [energy, part])
    }

    /// From p, q and t with P A p = q - A Z t, rho and sigma to those of the next iteration, or to the end. `last` is
    /// what the last kernel is told.
    pub fn fused_iteration(&self, stream: &Stream, source: &Source, last: Sum) -> Result<()> {
        let rho = Sum { how: Use::Rho as i32, conditional: 0, ..last };
        let a = FusedArgs { sum: rho, ..self.passes_args(source) };
        if self.is_series() {
            self.descend(stream, &a)?;
        } else {
            let around = FusedArgs { v: 0, ..a };
            match self.deflation {
                Some(_) => launch::descend_0(stream, &around)?,
                None => launch::advance_residual(stream, &around)?,
            }
            self.precondition(stream, source, rho)?;
        }
        let energy = Sum { in_loop: 1, ..self.vectors.sum_to(offset_of!(Scalars, sigma)) };
        let [alone, part] = [Use::LastSigma, Use::LastPart].map(|how| Sum { how: how as i32, ..last });
        self.ascend(stream, source, alone, [energy, part])
    }

    fn descend(&self, stream: &Stream, a: &FusedArgs) -> Result<()> {
        [launch::descend_0, launch::descend_1, launch::descend_2][self.order()](stream, a)
    }

    /// <p, q> is `alone`, or comes with <Z^T q, t>.
    fn ascend(&self, stream: &Stream, source: &Source, alone: Sum, [energy, part]: [Sum; 2]) -> Result<()> {
        let ascend = [launch::ascend_0, launch::ascend_1, launch::ascend_2][self.order()];
        let a = self.passes_args(source);
        let Some(deflation) = &self.deflation else {
            return ascend(stream, &FusedArgs { sum: alone, ..a });
        };
        ascend(stream, &FusedArgs { sum: energy, ..a })?;
        deflation.solve_with_product(stream, self.vectors.q, part)
    }

    fn passes_args(&self, source: &Source) -> FusedArgs {
        let order = self.order();
        let Vectors { x, r, p, q, z, s, other_p, norm_partial, .. } = self.vectors;
        let (region, t) = self.deflation.as_ref().map_or((0, 0), |deflation| deflation.region_and_t());
        let a = FusedArgs {
            cells: source.cells,
            m: source.m,
            r: [r, if order > 0 { s } else { r }],
            p: [p, other_p],
            q,
            x,
            v: z,
            region,
            t,
            norm_partial,
            ..FusedArgs::default()
        };
        a.in_pieces(order as u32 + 2)
    }
}
