//! The steps of deflated PCG on a device (docs/theory/dpcg.md), with unfused kernels or with the passes of `fused`. A
//! step launches kernels and returns; only a step that returns a scalar waits for them.

use super::deflation::Deflation;
use super::source::DeviceMatrix;
use super::state::{State, Vectors};
use crate::cuda::call::{Attempts, Call};
use crate::cuda::driver::{Device, Loop, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellProductArgs, Scalars, Sum, SumUse, TriangleArgs, VectorArgs};
use crate::cuda::looped;
use crate::cuda::looped::{Looped, Recorded, SharedScalars, observed_lag, without_graphs};
use crate::cuda::vectors;
use crate::dpcg::backend::Preconditioner;
use crate::error::{Error, Result};
use crate::krylov::pcg::{Means, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::series::{SeriesSteps, series};
use crate::krylov::state::{Code, State as LoopScalars};
use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use std::mem::offset_of;
use std::sync::Arc;

/// State of one run.
pub struct Run<'a> {
    pub state: &'a mut State,
    pub source: &'a DeviceMatrix,
    pub stream: &'a Stream,
    pub call: Call<'a>,
    /// How the vector b on the device was loaded.
    pub rhs: Rhs,
    /// <r, r> for the r that the last call of `residual` computed: r = P (b - A x), with P = I without deflation.
    pub norm2: f64,
}

/// Relation between the vector b on the device and the caller's array.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rhs {
    /// Factor by which b was multiplied; 0 if b was not loaded.
    pub scale: f64,
    /// Whether the means of b over the singular components were subtracted.
    pub projected: bool,
}

impl Attempts for Run<'_> {
    fn failed(&mut self) -> &mut Option<Error> {
        &mut self.call.failed
    }
}

impl State {
    /// Records the loop, unless the host solves the systems with E and therefore takes part in each iteration. Reuses
    /// the previous recorded loop if its launches are the same.
    pub fn record(&mut self, device: &Arc<Device>, source: &DeviceMatrix) -> Result<()> {
        let previous = self.recorded.take();
        if self.deflation.as_ref().is_none_or(Deflation::is_on_device) {
            // `recorded` must be set before an iteration is recorded, because `is_fused` tests it.
            self.recorded = Some(Recorded::default());
            let bodies = if without_graphs() { &[][..] } else { &[1] };
            let body = |stream: &Stream, conditional| self.iteration(stream, source, conditional);
            self.recorded = Some(Recorded::new(device, bodies, previous, body)?);
        }
        Ok(())
    }

    /// Launches an iteration: r -= alpha q, z = M^-1 r, x += alpha p, p = z + beta p, q = P A p. The kernels also
    /// update rho = <r, z> and sigma = <p, q>, or end the loop.
    fn iteration(&mut self, stream: &Stream, source: &DeviceMatrix, conditional: u64) -> Result<()> {
        let Vectors { x, r, p, q, z, .. } = self.vectors;
        let sum = Sum { in_loop: 1, ..self.vectors.sum_to(offset_of!(Scalars, norm2)) };
        if self.is_fused() {
            return self.fused_iteration(stream, source, Sum { conditional, ..sum });
        }
        launch::cell_add_scaled(stream, &VectorArgs { sum, ..self.vector_args(q, r, 0.0) })?;
        self.precondition(stream, source, Sum { sum_use: SumUse::Rho as i32, ..sum })?;
        launch::cell_advance(stream, &VectorArgs { other: x, sum, ..self.vector_args(z, p, 0.0) })?;
        self.multiply(stream, source, Sum { sum_use: SumUse::LastSigma as i32, conditional, ..sum })
    }

    /// Returns the arguments of a vector operation over all cells.
    pub fn vector_args(&self, a: Address, out: Address, factor: f64) -> VectorArgs {
        vectors::vector_args(self.vectors.extents.count(), a, out, factor)
    }

    /// Computes out = a.
    pub fn copy(&self, stream: &Stream, a: Address, out: Address) -> Result<()> {
        launch::cell_update_direction(stream, &self.vector_args(a, out, 0.0))
    }

    /// Returns the arguments of the kernels that compute A v or b - A v.
    pub fn product_args(&self, source: &DeviceMatrix, v: Address, out: Address, sum: Sum) -> CellProductArgs {
        CellProductArgs { cells: source.cells, m: source.m, v, b: self.vectors.b, out, sum }
    }

    /// Computes q = P A p and <p, q>.
    pub fn multiply(&mut self, stream: &Stream, source: &DeviceMatrix, sum: Sum) -> Result<()> {
        let Vectors { p, q, .. } = self.vectors;
        if self.deflation.is_none() {
            return launch::cell_product(stream, &self.product_args(source, p, q, sum));
        }
        // Only the last kernel computes the sum.
        let none = Sum { partial: 0, sum_use: 0, conditional: 0, ..sum };
        launch::cell_product(stream, &self.product_args(source, p, q, none))?;
        self.project(stream, source, q, p, sum)
    }

    /// Computes v = P v and <p, v>, with P = I - A Z E^-1 Z^T. Without deflation, does nothing, and computes no sum.
    pub fn project(&mut self, stream: &Stream, source: &DeviceMatrix, v: Address, p: Address, sum: Sum) -> Result<()> {
        if let Some(deflation) = &mut self.deflation {
            self.seconds_coarse += deflation.project(stream, source, v, p, sum)?;
        }
        Ok(())
    }

    /// Computes z = M^-1 r and <r, z>.
    pub fn precondition(&self, stream: &Stream, source: &DeviceMatrix, sum: Sum) -> Result<()> {
        let Vectors { r, z, .. } = self.vectors;
        let summed = match self.preconditioner {
            Preconditioner::None => self.copy(stream, r, z).map(|()| false),
            Preconditioner::Jacobi => self.neumann(stream, source, 0, sum).map(|()| true),
            Preconditioner::Neumann { order } => self.neumann(stream, source, order, sum).map(|()| true),
            Preconditioner::Multigrid { .. } | Preconditioner::Aggregation { .. } => self.cycle(stream, source, sum),
            Preconditioner::Incomplete { .. } => {
                Err(Error::Internal("a device has no incomplete factorization".to_owned()))
            }
        };
        if summed? {
            return Ok(());
        }
        launch::cell_dot(stream, &VectorArgs { b: z, sum, ..self.vector_args(r, 0, 1.0) })
    }

    /// Computes z = K^T D^-1 K r and <r, z>, where K is a Neumann series of order `order` (van der Vorst 1982).
    fn neumann(&self, stream: &Stream, source: &DeviceMatrix, order: usize, sum: Sum) -> Result<()> {
        let Vectors { r, q, s, z, .. } = self.vectors;
        series(&mut Series { stream, source, r, sum }, order, [q, s], z)
    }
}

/// The steps of a Neumann series. The last step also computes <r, z>.
struct Series<'a> {
    stream: &'a Stream,
    source: &'a DeviceMatrix,
    r: u64,
    sum: Sum,
}

impl Series<'_> {
    fn args(&self, [v, from, to]: [u64; 3], last: bool) -> TriangleArgs {
        let sum = if last { self.sum } else { Sum::default() };
        TriangleArgs { cells: self.source.cells, m: self.source.m, v, from, to, r: self.r, sum }
    }
}

impl SeriesSteps for Series<'_> {
    type Vector = u64;
    type Fault = Error;

    fn begin(&mut self, v: u64, last: bool) -> Result<()> {
        launch::over_center(self.stream, &self.args([self.r, 0, v], last))
    }

    fn lower(&mut self, from: u64, to: u64) -> Result<()> {
        launch::lower(self.stream, &self.args([self.r, from, to], false))
    }

    fn upper(&mut self, v: u64, from: u64, to: u64, last: bool) -> Result<()> {
        launch::upper(self.stream, &self.args([v, from, to], last))
    }
}

impl Run<'_> {
    /// Returns the arguments of a sum. `summed` returns its result.
    pub fn sum(&self) -> Sum {
        self.state.vectors.sum_to(offset_of!(Scalars, sum))
    }

    /// Waits, and returns the result of the last sum.
    pub fn summed(&mut self) -> Result<f64> {
        Ok(self.state.vectors.scalars.fetch(self.stream)?.sum)
    }

    /// Returns <f a, f b> with f = `factor`.
    pub fn dot(&mut self, a: Address, b: Address, factor: f64) -> f64 {
        self.scalar(|s| {
            let of = VectorArgs { b, sum: s.sum(), ..s.state.vector_args(a, 0, factor) };
            launch::cell_dot(s.stream, &of)?;
            s.summed()
        })
    }

    /// Computes out = b - A x and <out, out>.
    pub fn residual_to(&mut self, out: Address, sum: Sum) -> Result<()> {
        launch::cell_residual(self.stream, &self.state.product_args(self.source, self.state.vectors.x, out, sum))
    }
}

impl Looped for Run<'_> {
    fn parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer) {
        (&mut self.state.vectors.scalars, self.stream, self.call.observer)
    }

    fn graph(&self) -> Option<(&Loop, &Stream)> {
        let (_, graph) = self.state.recorded.as_ref()?.graphs.first()?;
        Some((graph, self.stream))
    }

    fn iteration(&mut self) -> Result<()> {
        self.state.iteration(self.stream, self.source, 0)
    }

    fn lag(&self) -> i64 {
        observed_lag(self.call.observer)
    }

    fn begin(&mut self, _: &LoopScalars) -> Result<bool> {
        let scalars = &mut self.state.vectors.scalars;
        (scalars.parity, scalars.direction) = (0, 0);
        Ok(false)
    }

    fn end(&mut self, _: &LoopScalars, _: bool) {
        self.state.vectors.is_p_in_other = self.state.vectors.scalars.direction == 1;
    }
}

impl VectorSteps for Run<'_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let [a, b] = [a, b].map(|v| self.state.vectors.address(v));
        self.dot(a, b, 1.0)
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let to = self.state.vectors.address(to);
        // PCG uses only the four combinations that `VectorSteps::combine` lists.
        let Some(&(factor, from)) = terms.first() else { return self.step(|s| s.fill(to)) };
        let from = self.state.vectors.address(from);
        self.step(|s| {
            if factor == 1.0 && scale != 1.0 {
                return launch::cell_update_direction(s.stream, &s.state.vector_args(from, to, scale));
            }
            if scale == 0.0 {
                s.fill(to)?;
            }
            launch::cell_add_scaled(s.stream, &s.state.vector_args(from, to, factor))
        });
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        let (v, count) = (self.state.vectors.address(v), self.source.extents.count());
        self.scalar(|s| vectors::largest(s.stream, &mut s.state.vectors.scalars, v, count))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        let Vectors { b, r, .. } = self.state.vectors;
        if of == Iterate::Zero {
            self.step(|s| {
                s.state.copy(s.stream, b, r)?;
                s.state.project(s.stream, s.source, r, r, s.sum())
            });
            let deflates = self.state.deflation.is_some();
            self.norm2 = if deflates { self.scalar(Self::summed) } else { self.inner(VectorId::R, VectorId::R) };
            return self.norm2;
        }
        self.norm2 = self.scalar(|s| {
            s.residual_to(r, s.sum())?;
            s.state.project(s.stream, s.source, r, r, s.sum())?;
            s.summed()
        });
        self.norm2
    }

    fn observe(&mut self, event: Event) -> bool {
        self.call.observer.receive(event)
    }
}

impl PcgSteps for Run<'_> {
    fn properties(&self) -> Properties {
        let deflates = self.state.deflation.is_some();
        Properties { deflates, omits_projection: self.state.singular.is_some() && !deflates, ..Properties::default() }
    }

    /// At the start (`alpha` is `None`), returns <r, r>, which `residual` has stored. Later, updates r and returns <r,
    /// r>.
    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        if alpha.is_none() { self.norm2 } else { unfused_descend(self, alpha) }
    }

    fn precondition(&mut self) -> f64 {
        self.scalar(|s| {
            s.state.precondition(s.stream, s.source, s.sum())?;
            s.summed()
        })
    }

    fn means(&mut self, v: VectorId, to: Means) {
        match (to, v) {
            (Means::Store, _) => self.store_means(),
            (_, VectorId::B) if self.rhs.projected => {}
            _ => {
                self.shift(self.state.vectors.address(v), to == Means::Restore);
                self.rhs.projected |= v == VectorId::B;
            }
        }
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let (r, center) = (self.state.vectors.r, self.source.m.center);
        self.scalar(|s| match &mut s.state.singular {
            Some(singular) => singular.constant_square(s.stream, r, center),
            None => Ok(0.0),
        })
    }

    fn preconditioned_square(&mut self) -> f64 {
        if !self.state.is_series() {
            return self.precondition();
        }
        self.scalar(|s| {
            s.state.begin_descend(s.stream, s.source, s.sum())?;
            s.summed()
        })
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        // The first p of a loop is stored in `Vectors::p`, even if the last loop ended with p in `other_p`.
        if step.is_none() {
            self.state.vectors.is_p_in_other = false;
        }
        if step.is_some() || !self.state.is_fused() {
            return unfused_ascend(self, step);
        }
        self.scalar(|s| {
            s.state.begin_ascend(s.stream, s.source, s.sum())?;
            let deflated = s.state.deflation.is_some();
            let &Scalars { sigma, sum, .. } = s.state.vectors.scalars.fetch(s.stream)?;
            Ok(if deflated { sigma - sum } else { sigma })
        })
    }

    /// Computes q = P A p and returns <p, q>.
    fn multiply(&mut self) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.state.multiply(s.stream, s.source, sum)?;
            s.summed()
        })
    }

    fn iterate(&mut self, at: &mut LoopScalars) -> Option<Code> {
        self.state.recorded.as_ref()?;
        self.attempt(|s| looped::run(s, at))
    }
}
