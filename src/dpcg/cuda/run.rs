//! The steps of deflated PCG on a device (docs/theory/dpcg.md), with unfused kernels or with the passes of `fused`. A
//! step launches kernels and returns. Only a step that returns a scalar waits for the kernels.

use super::deflation::Deflation;
use super::source::DeviceMatrix;
use super::state::{State, Vectors};
use crate::cuda::call::{Call, FallibleSteps};
use crate::cuda::driver::{Device, RecordedGraph, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellProductArgs, Scalars, Sum, SumUse, TriangleArgs, VectorArgs};
use crate::cuda::looped;
use crate::cuda::looped::{DeviceLoop, RecordedLoops, SharedScalars, graphs_are_disabled, observed_pause_interval};
use crate::cuda::vectors;
use crate::dpcg::backend::Preconditioner;
use crate::error::{Error, Result};
use crate::krylov::pcg::{MeansChange, PcgSteps, Properties, unfused_ascend, unfused_descend};
use crate::krylov::series::{SeriesSteps, apply_series};
use crate::krylov::state::{State as LoopScalars, TestCode};
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
    pub loaded_rhs: LoadedRhs,
    /// <r, r> for the r that the last call of `residual` computed: r = P (b - A x), with P = I without deflation.
    pub residual_norm2: f64,
}

/// Relation between the vector b on the device and the caller's array.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadedRhs {
    /// Factor by which b was multiplied; 0 if b was not loaded.
    pub scale: f64,
    /// Whether the means of b over the singular components were subtracted.
    pub means_subtracted: bool,
}

impl FallibleSteps for Run<'_> {
    fn first_error(&mut self) -> &mut Option<Error> {
        &mut self.call.first_error
    }
}

impl State {
    /// Records the loop, unless the host solves the systems with E and therefore takes part in each iteration. Reuses
    /// the previous recorded loop if its launches are the same.
    pub fn record_loop(&mut self, device: &Arc<Device>, source: &DeviceMatrix) -> Result<()> {
        let previous = self.recorded_loop.take();
        if self.deflation.as_ref().is_none_or(Deflation::is_on_device) {
            // `recorded_loop` must be set before an iteration is recorded, because `is_fused` tests it.
            self.recorded_loop = Some(RecordedLoops::default());
            let body_counts = if graphs_are_disabled() { &[][..] } else { &[1] };
            let launch_body = |stream: &Stream, conditional| self.launch_iteration(stream, source, conditional);
            self.recorded_loop = Some(RecordedLoops::new(device, body_counts, previous, launch_body)?);
        }
        Ok(())
    }

    /// Launches an iteration: r -= alpha q, z = M^-1 r, x += alpha p, p = z + beta p, q = P A p. The kernels also
    /// update rho = <r, z> and sigma = <p, q>, or end the loop.
    fn launch_iteration(&mut self, stream: &Stream, source: &DeviceMatrix, conditional: u64) -> Result<()> {
        let Vectors { x, r, p, q, z, .. } = self.vectors;
        let sum = Sum { in_loop: 1, ..self.vectors.sum_to(offset_of!(Scalars, norm2)) };
        if self.is_fused() {
            return self.fused_iteration(stream, source, Sum { conditional, ..sum });
        }
        launch::cell_add_scaled(stream, &VectorArgs { sum, ..self.vector_args(q, r, 0.0) })?;
        self.precondition(stream, source, Sum { sum_use: SumUse::Rho as i32, ..sum })?;
        launch::cell_advance(stream, &VectorArgs { x, sum, ..self.vector_args(z, p, 0.0) })?;
        self.multiply(stream, source, Sum { sum_use: SumUse::LastSigma as i32, conditional, ..sum })
    }

    /// Returns the arguments of a vector operation over all cells.
    pub fn vector_args(&self, a: Address, out: Address, factor: f64) -> VectorArgs {
        vectors::vector_args(self.vectors.extents.count(), a, out, factor)
    }

    /// Computes out = a.
    pub fn copy_vector(&self, stream: &Stream, a: Address, out: Address) -> Result<()> {
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
        // Only the last kernel computes <p, q>.
        let no_sum = Sum { partial: 0, sum_use: 0, conditional: 0, ..sum };
        launch::cell_product(stream, &self.product_args(source, p, q, no_sum))?;
        self.project(stream, source, q, p, sum)
    }

    /// Computes v = P v and <p, v>, with P = I - A Z E^-1 Z^T. Without deflation, v is unchanged, and <p, v> is not
    /// computed.
    pub fn project(&mut self, stream: &Stream, source: &DeviceMatrix, v: Address, p: Address, sum: Sum) -> Result<()> {
        if let Some(deflation) = &mut self.deflation {
            self.coarse_solve_seconds += deflation.project(stream, source, v, p, sum)?;
        }
        Ok(())
    }

    /// Computes z = M^-1 r and <r, z>.
    pub fn precondition(&self, stream: &Stream, source: &DeviceMatrix, sum: Sum) -> Result<()> {
        let Vectors { r, z, .. } = self.vectors;
        let computes_product = match self.preconditioner {
            Preconditioner::None => self.copy_vector(stream, r, z).map(|()| false),
            Preconditioner::Jacobi => self.apply_neumann(stream, source, 0, sum).map(|()| true),
            Preconditioner::Neumann { order } => self.apply_neumann(stream, source, order, sum).map(|()| true),
            Preconditioner::Multigrid { .. } | Preconditioner::Aggregation { .. } => {
                self.apply_cycle(stream, source, sum)
            }
            Preconditioner::Incomplete { .. } => {
                Err(Error::Internal("a device has no incomplete factorization".to_owned()))
            }
        };
        if computes_product? {
            return Ok(());
        }
        launch::cell_dot(stream, &VectorArgs { b: z, sum, ..self.vector_args(r, 0, 1.0) })
    }

    /// Computes z = K^T D^-1 K r and <r, z>, where K is a Neumann series of order `order` (van der Vorst 1982).
    fn apply_neumann(&self, stream: &Stream, source: &DeviceMatrix, order: usize, sum: Sum) -> Result<()> {
        let Vectors { r, q, series_vector, z, .. } = self.vectors;
        apply_series(&mut NeumannSteps { stream, source, r, sum }, order, [q, series_vector], z)
    }
}

/// The steps of a Neumann series. The last step also computes <r, z>.
struct NeumannSteps<'a> {
    stream: &'a Stream,
    source: &'a DeviceMatrix,
    r: u64,
    sum: Sum,
}

impl NeumannSteps<'_> {
    fn triangle_args(&self, [v, input, out]: [u64; 3], is_last: bool) -> TriangleArgs {
        let sum = if is_last { self.sum } else { Sum::default() };
        TriangleArgs { cells: self.source.cells, m: self.source.m, v, input, out, r: self.r, sum }
    }
}

impl SeriesSteps for NeumannSteps<'_> {
    type Vector = u64;
    type Fault = Error;

    fn scale_residual(&mut self, v: u64, is_last: bool) -> Result<()> {
        launch::divide_by_center(self.stream, &self.triangle_args([self.r, 0, v], is_last))
    }

    fn apply_lower(&mut self, input: u64, out: u64) -> Result<()> {
        launch::solve_lower(self.stream, &self.triangle_args([self.r, input, out], false))
    }

    fn apply_upper(&mut self, v: u64, input: u64, out: u64, is_last: bool) -> Result<()> {
        launch::apply_upper(self.stream, &self.triangle_args([v, input, out], is_last))
    }
}

impl Run<'_> {
    /// Returns the arguments of a reduction whose result `fetch_sum` returns.
    pub fn sum_args(&self) -> Sum {
        self.state.vectors.sum_to(offset_of!(Scalars, sum))
    }

    /// Waits, and returns the result of the last reduction with the arguments `sum_args`.
    pub fn fetch_sum(&mut self) -> Result<f64> {
        Ok(self.state.vectors.scalars.fetch(self.stream)?.sum)
    }

    /// Returns <f a, f b> with f = `factor`.
    pub fn dot(&mut self, a: Address, b: Address, factor: f64) -> f64 {
        self.scalar(|run| {
            let args = VectorArgs { b, sum: run.sum_args(), ..run.state.vector_args(a, 0, factor) };
            launch::cell_dot(run.stream, &args)?;
            run.fetch_sum()
        })
    }

    /// Computes out = b - A x and <out, out>.
    pub fn compute_residual(&mut self, out: Address, sum: Sum) -> Result<()> {
        launch::cell_residual(self.stream, &self.state.product_args(self.source, self.state.vectors.x, out, sum))
    }
}

impl DeviceLoop for Run<'_> {
    fn loop_parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer) {
        (&mut self.state.vectors.scalars, self.stream, self.call.observer)
    }

    fn graph(&self) -> Option<(&RecordedGraph, &Stream)> {
        let (_, graph) = self.state.recorded_loop.as_ref()?.graphs.first()?;
        Some((graph, self.stream))
    }

    fn launch_iteration(&mut self) -> Result<()> {
        self.state.launch_iteration(self.stream, self.source, 0)
    }

    fn pause_interval(&self) -> i64 {
        observed_pause_interval(self.call.observer)
    }

    fn begin_loop(&mut self, _: &LoopScalars) -> Result<bool> {
        let scalars = &mut self.state.vectors.scalars;
        (scalars.parity, scalars.direction_index) = (0, 0);
        Ok(false)
    }

    fn end_loop(&mut self, _: &LoopScalars, _: bool) {
        self.state.vectors.p_is_in_second = self.state.vectors.scalars.direction_index == 1;
    }
}

impl VectorSteps for Run<'_> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        let [a, b] = [a, b].map(|v| self.state.vectors.address(v));
        self.dot(a, b, 1.0)
    }

    fn combine(&mut self, out: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let out = self.state.vectors.address(out);
        // PCG uses only the four combinations that `VectorSteps::combine` lists.
        let Some(&(factor, input)) = terms.first() else { return self.step(|run| run.fill_with_zeros(out)) };
        let input = self.state.vectors.address(input);
        self.step(|run| {
            if factor == 1.0 && scale != 1.0 {
                return launch::cell_update_direction(run.stream, &run.state.vector_args(input, out, scale));
            }
            if scale == 0.0 {
                run.fill_with_zeros(out)?;
            }
            launch::cell_add_scaled(run.stream, &run.state.vector_args(input, out, factor))
        });
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        let (v, count) = (self.state.vectors.address(v), self.source.extents.count());
        self.scalar(|run| vectors::find_largest(run.stream, &mut run.state.vectors.scalars, v, count))
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        let Vectors { b, r, .. } = self.state.vectors;
        if iterate == Iterate::Zero {
            self.step(|run| {
                run.state.copy_vector(run.stream, b, r)?;
                run.state.project(run.stream, run.source, r, r, run.sum_args())
            });
            let uses_deflation = self.state.deflation.is_some();
            self.residual_norm2 = if uses_deflation {
                self.scalar(Self::fetch_sum)
            } else {
                self.inner_product(VectorId::R, VectorId::R)
            };
            return self.residual_norm2;
        }
        self.residual_norm2 = self.scalar(|run| {
            run.compute_residual(r, run.sum_args())?;
            run.state.project(run.stream, run.source, r, r, run.sum_args())?;
            run.fetch_sum()
        });
        self.residual_norm2
    }

    fn observe(&mut self, event: Event) -> bool {
        self.call.observer.receive(event)
    }
}

impl PcgSteps for Run<'_> {
    fn properties(&self) -> Properties {
        let uses_deflation = self.state.deflation.is_some();
        Properties {
            uses_deflation,
            omits_projection: self.state.singular_cells.is_some() && !uses_deflation,
            ..Properties::default()
        }
    }

    /// At the start of a solve, `alpha` is `None`, and the result is the <r, r> that `residual` has stored. Otherwise,
    /// computes r = r - alpha q and returns <r, r>.
    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        if alpha.is_none() { self.residual_norm2 } else { unfused_descend(self, alpha) }
    }

    fn precondition(&mut self) -> f64 {
        self.scalar(|run| {
            run.state.precondition(run.stream, run.source, run.sum_args())?;
            run.fetch_sum()
        })
    }

    fn change_means(&mut self, v: VectorId, change: MeansChange) {
        match (change, v) {
            (MeansChange::Store, _) => self.store_means(),
            (_, VectorId::B) if self.loaded_rhs.means_subtracted => {}
            _ => {
                self.subtract_means(self.state.vectors.address(v), change == MeansChange::Restore);
                self.loaded_rhs.means_subtracted |= v == VectorId::B;
            }
        }
    }

    fn weighted_square_of_means(&mut self) -> f64 {
        let (r, center) = (self.state.vectors.r, self.source.m.center);
        self.scalar(|run| match &mut run.state.singular_cells {
            Some(singular) => singular.norm2_of_means(run.stream, r, center),
            None => Ok(0.0),
        })
    }

    fn preconditioned_square(&mut self) -> f64 {
        if !self.state.is_series() {
            return self.precondition();
        }
        self.scalar(|run| {
            run.state.begin_descend(run.stream, run.source, run.sum_args())?;
            run.fetch_sum()
        })
    }

    fn ascend(&mut self, alpha_and_beta: Option<(f64, f64)>) -> f64 {
        // The first p of a loop is stored in `Vectors::p`, even if the last loop ended with p in `second_p`.
        if alpha_and_beta.is_none() {
            self.state.vectors.p_is_in_second = false;
        }
        if alpha_and_beta.is_some() || !self.state.is_fused() {
            return unfused_ascend(self, alpha_and_beta);
        }
        self.scalar(|run| {
            run.state.begin_ascend(run.stream, run.source, run.sum_args())?;
            let uses_deflation = run.state.deflation.is_some();
            let &Scalars { sigma, sum, .. } = run.state.vectors.scalars.fetch(run.stream)?;
            Ok(if uses_deflation { sigma - sum } else { sigma })
        })
    }

    /// Computes q = P A p and returns <p, q>.
    fn multiply(&mut self) -> f64 {
        self.scalar(|run| {
            let sum = run.sum_args();
            run.state.multiply(run.stream, run.source, sum)?;
            run.fetch_sum()
        })
    }

    fn iterate(&mut self, loop_scalars: &mut LoopScalars) -> Option<TestCode> {
        self.state.recorded_loop.as_ref()?;
        self.attempt(|run| looped::run(run, loop_scalars))
    }
}
