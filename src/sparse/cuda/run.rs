//! The steps of PCG and of the methods for general matrices on the device. A step launches kernels. Only a step that
//! returns a scalar waits for its kernels.

use super::matrix::Products;
use super::precondition::Preconditioner;
use super::state::State;
use super::vectors::VectorSpec;
use crate::cuda::call::{Call, FallibleSteps};
use crate::cuda::driver::{Device, RecordedGraph, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CombineArgs, DiagonalArgs, FinishKind, InnerProductsArgs, RandomArgs, RoundArgs, RowFinish, SUMS_PER_PASS,
    Scalars, Sum, SumUse,
};
use crate::cuda::looped;
use crate::cuda::looped::{DeviceLoop, RecordedLoops, SharedScalars, graphs_are_disabled, observed_pause_interval};
use crate::cuda::vectors::{find_largest, vector_args};
use crate::error::{Error, Result};
use crate::krylov::pcg::{OtherPreconditioner, PcgSteps, unfused_descend};
use crate::krylov::state::{State as LoopScalars, TestCode};
use crate::krylov::vectors::{Iterate, KrylovSteps, SweepSteps, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use std::mem::offset_of;
use std::sync::Arc;

/// State of one run.
pub struct Run<'a> {
    pub state: &'a mut State,
    pub products: Products<'a>,
    pub stream: &'a Stream,
    pub call: Call<'a>,
    /// Whether r is known to be the residual of x.
    pub r_is_residual: bool,
    /// Whether the second preconditioner is in use.
    pub uses_second_preconditioner: bool,
}

impl FallibleSteps for Run<'_> {
    fn first_error(&mut self) -> &mut Option<Error> {
        &mut self.call.first_error
    }
}

impl State {
    /// Records the loop of CG as a graph. Reuses the previous recording if its launches are the same.
    pub fn record(&mut self, device: &Arc<Device>, products: &Products) -> Result<()> {
        let previous_loop = self.recorded_loop.take();
        let bodies = if graphs_are_disabled() { &[][..] } else { &[1] };
        self.recorded_loop = Some(RecordedLoops::new(device, bodies, previous_loop, |stream, conditional| {
            self.iteration(stream, products, conditional)
        })?);
        Ok(())
    }

    /// Launches the kernels of an iteration: r -= alpha q, z = M^-1 r, x += alpha p, p = z + beta p, q = A p. The
    /// kernels also compute rho = <r, z> and sigma = <p, q>, and end the loop if a stopping condition holds. For a
    /// diagonal M, z is not stored. `conditional` is the condition handle of the recorded loop; 0 if the host launches
    /// the iteration.
    fn iteration(&self, stream: &Stream, products: &Products, conditional: u64) -> Result<()> {
        let [x, r, p, q, z] = [VectorId::X, VectorId::R, VectorId::P, VectorId::Q, VectorId::Z].map(|v| self.vector(v));
        let VectorSpec { rows, f32_values } = self.spec;
        let sum = Sum { in_loop: 1, ..self.sum_to(offset_of!(Scalars, norm2)) };
        let rho_sum = Sum { sum_use: SumUse::Rho as i32, ..sum };
        if let Some(d) = self.preconditioner.diagonal() {
            let args = DiagonalArgs { count: rows as i64, d, sum: rho_sum, ..DiagonalArgs::default() };
            launch::descend_by_diagonal(stream, f32_values, &DiagonalArgs { v: q, out: r, ..args })?;
            launch::advance_by_diagonal(stream, f32_values, &DiagonalArgs { v: r, out: p, x, ..args })?;
        } else {
            let args_of = |a, out| vector_args(rows, a, out, 0.0);
            launch::vector_add_scaled(stream, f32_values, &launch::VectorArgs { sum, ..args_of(q, r) })?;
            self.preconditioner.apply(stream, (products, self.spec), [r, z], false, rho_sum)?;
            launch::vector_advance(stream, f32_values, &launch::VectorArgs { x, sum, ..args_of(z, p) })?;
        }
        let sum = Sum { sum_use: SumUse::LastSigma as i32, conditional, ..sum };
        products.a.multiply(
            stream,
            false,
            p,
            RowFinish { kind: FinishKind::StoreSum as i32, out: q, sum, ..RowFinish::default() },
        )
    }
}

impl Run<'_> {
    /// Returns the arguments of a sum whose result [`Self::fetch_sum`] returns.
    pub fn sum(&self) -> Sum {
        self.state.sum_to(offset_of!(Scalars, sum))
    }

    /// Waits for the kernels, and returns the last sum that was computed with the arguments [`Self::sum`].
    pub fn fetch_sum(&mut self) -> Result<f64> {
        Ok(self.state.scalars.fetch(self.stream)?.sum)
    }

    /// Returns the address of a vector that the calling step writes. If this vector is x, b or r, records that r may no
    /// longer be the residual of x.
    pub fn vector_to_write(&mut self, id: VectorId) -> Address {
        self.r_is_residual &= ![VectorId::X, VectorId::B, VectorId::R].contains(&id);
        self.state.vector(id)
    }

    /// Computes output = A input, or output = A^T input, and <input, output> if `sum` requests a sum.
    fn multiply_into(&mut self, transposed: bool, [input, output]: [VectorId; 2], sum: Sum) -> Result<()> {
        let (out, (matrix, transposes)) = (self.vector_to_write(output), self.products.matrix_for(transposed));
        let finish = RowFinish { kind: FinishKind::StoreSum as i32, out, sum, ..RowFinish::default() };
        matrix.multiply(self.stream, transposes, self.state.vector(input), finish)
    }

    /// Returns M: that of the method, or of MINRES after a breakdown of the method.
    fn preconditioner(&self) -> &Preconditioner {
        let second = self.state.second_preconditioner.as_ref();
        second.filter(|_| self.uses_second_preconditioner).unwrap_or(&self.state.preconditioner)
    }

    /// Computes output = M^-1 input, or output = M^-T input, and <input, output> if `sum` requests a sum.
    fn apply(&mut self, [input, output]: [VectorId; 2], transposed: bool, sum: Sum) -> Result<()> {
        let addresses = [self.state.vector(input), self.vector_to_write(output)];
        let m = self.preconditioner();
        m.apply(self.stream, (&self.products, self.state.spec), addresses, transposed, sum)
    }

    /// Rounds a vector in f64 to the vector `target_vector` in f32.
    fn round(&mut self, source: Address, target_vector: VectorId) -> Result<()> {
        let args =
            RoundArgs { count: self.state.spec.rows as i64, source, target: self.vector_to_write(target_vector) };
        launch::round_values(self.stream, &args)
    }

    /// Computes `target_vector` = `scale` `target_vector` + sum_k factor_k v_k, where `terms` contains (factor_k, v_k).
    /// Also computes the squared norm of the result if `sum` requests a sum. If the vectors are in f32, `target_vector`
    /// may be x, but the v_k must not include x or b, which are in f64.
    fn combine_into(&mut self, target_vector: VectorId, scale: f64, terms: &[(f64, VectorId)], sum: Sum) -> Result<()> {
        let (out, mut scale) = (self.vector_to_write(target_vector), scale);
        let VectorSpec { rows, f32_values } = self.state.spec;
        let passes = terms.len().div_ceil(SUMS_PER_PASS).max(1);
        for pass in 0..passes {
            let pass_terms = &terms[terms.len().min(pass * SUMS_PER_PASS)..terms.len().min((pass + 1) * SUMS_PER_PASS)];
            let mut args = CombineArgs {
                count: rows as i64,
                target: out,
                scale,
                n: pass_terms.len() as i64,
                sum: if pass + 1 == passes { sum } else { Sum::default() },
                ..CombineArgs::default()
            };
            for (k, (factor, v)) in pass_terms.iter().enumerate() {
                (args.factor[k], args.v[k]) = (*factor, self.state.vector(*v));
            }
            match f32_values && target_vector == VectorId::X {
                true => launch::combine_to_double(self.stream, &args)?,
                false => launch::combine(self.stream, f32_values, &args)?,
            }
            scale = 1.0;
        }
        Ok(())
    }

    /// Computes the inner products of `a` with at most [`SUMS_PER_PASS`] vectors, and waits for the results.
    fn compute_inner_products(&mut self, a: VectorId, others: &[VectorId], products: &mut [f64]) -> Result<()> {
        let mut args = InnerProductsArgs {
            count: self.state.spec.rows as i64,
            a: self.state.vector(a),
            n: others.len() as i64,
            partial_sums: self.state.partial_sums,
            products: self.state.inner_products,
            scalars: self.state.scalars.address,
            ..InnerProductsArgs::default()
        };
        for (b, v) in args.b.iter_mut().zip(others) {
            *b = self.state.vector(*v);
        }
        launch::sum_inner_products(self.stream, self.state.spec.f32_values, &args)?;
        let State { inner_products: device_products, inner_products_on_host: host_products, .. } = &mut *self.state;
        self.stream.fetch_prefix(host_products, *device_products, size_of_val(products))?;
        self.stream.wait()?;
        products.copy_from_slice(&host_products[..products.len()]);
        Ok(())
    }
}

impl DeviceLoop for Run<'_> {
    fn loop_parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer) {
        (&mut self.state.scalars, self.stream, self.call.observer)
    }

    fn graph(&self) -> Option<(&RecordedGraph, &Stream)> {
        let (_, graph) = self.state.recorded_loop.as_ref()?.graphs.first()?;
        Some((graph, self.stream))
    }

    fn launch_iteration(&mut self) -> Result<()> {
        self.state.iteration(self.stream, &self.products, 0)
    }

    fn pause_interval(&self) -> i64 {
        observed_pause_interval(self.call.observer)
    }

    fn begin_loop(&mut self, _: &LoopScalars) -> Result<bool> {
        self.r_is_residual = false;
        let scalars = &mut self.state.scalars;
        (scalars.parity, scalars.direction_index, scalars.per_unit) = (0, 0, 1.0);
        Ok(false)
    }

    fn is_slow(&mut self, loop_state: &LoopScalars) -> bool {
        loop_state.norm > loop_state.test.divergence_norm
    }

    fn end_loop(&mut self, _: &LoopScalars, _: bool) {}
}

impl VectorSteps for Run<'_> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        let mut product = [0.0];
        self.inner_products(a, &[b], &mut product);
        product[0]
    }

    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        self.step(|s| s.combine_into(target, scale, terms, Sum::default()));
    }

    /// Supports only x as `v`, because x is always in f64.
    fn max_abs(&mut self, v: VectorId) -> f64 {
        let (v, rows) = (self.state.vector(v), self.state.spec.rows);
        self.scalar(|s| find_largest(s.stream, &mut s.state.scalars, v, rows))
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        let ([x, b, r], f32_values) =
            ([VectorId::X, VectorId::B, VectorId::R].map(|v| self.state.vector(v)), self.state.spec.f32_values);
        if iterate == Iterate::Zero && f32_values {
            self.step(|s| s.round(b, VectorId::R));
            return self.inner_product(VectorId::R, VectorId::R);
        }
        if iterate == Iterate::Zero {
            return self.combine_norm2(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
        }
        let norm2 = self.scalar(|s| {
            let out = if f32_values { s.state.exact_residual } else { r };
            let finish = RowFinish { kind: FinishKind::Residual as i32, b, out, sum: s.sum(), ..RowFinish::default() };
            s.products.a_in_f64.multiply(s.stream, false, x, finish)?;
            if f32_values {
                s.round(out, VectorId::R)?;
            }
            s.fetch_sum()
        });
        self.r_is_residual = true;
        norm2
    }

    fn observe(&mut self, event: Event) -> bool {
        self.call.observer.receive(event)
    }
}

impl KrylovSteps for Run<'_> {
    fn rows(&self) -> usize {
        self.state.spec.rows
    }

    fn multiply_vector(&mut self, input: VectorId, output: VectorId) {
        self.step(|s| s.multiply_into(false, [input, output], Sum::default()));
    }

    fn multiply_transposed(&mut self, input: VectorId, output: VectorId) {
        self.step(|s| s.multiply_into(true, [input, output], Sum::default()));
    }

    fn precondition_vector(&mut self, input: VectorId, output: VectorId) {
        self.step(|s| s.apply([input, output], false, Sum::default()));
    }

    fn precondition_transposed(&mut self, input: VectorId, output: VectorId) {
        self.step(|s| s.apply([input, output], true, Sum::default()));
    }

    fn sweep_steps(&mut self) -> Option<&mut dyn SweepSteps> {
        if self.state.relaxation.is_some() { Some(self) } else { None }
    }

    fn is_unpreconditioned(&self) -> bool {
        self.preconditioner().diagonal() == Some(0)
    }

    fn inner_products(&mut self, a: VectorId, others: &[VectorId], products: &mut [f64]) {
        for (others, products) in others.chunks(SUMS_PER_PASS).zip(products.chunks_mut(SUMS_PER_PASS)) {
            if self.attempt(|s| s.compute_inner_products(a, others, products)).is_none() {
                // After a failure, NaN ends the loop of every method. A failed step that returns one scalar also
                // returns NaN.
                products.fill(f64::NAN);
            }
        }
    }

    fn combine_norm2(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.combine_into(target, scale, terms, sum)?;
            s.fetch_sum()
        })
    }

    fn fill_random(&mut self, target: VectorId, seed: u64) {
        let (target, VectorSpec { rows, f32_values }) = (self.vector_to_write(target), self.state.spec);
        let count = rows as i64;
        self.step(|s| launch::fill_random(s.stream, f32_values, &RandomArgs { count, target, seed }));
    }
}

impl SweepSteps for Run<'_> {
    /// Computes one sweep. If the vectors are in f32, computes a sweep for A p = r from p = 0, and adds p to x. In
    /// exact arithmetic, this gives the same x as a sweep on x.
    fn sweep(&mut self, _: usize) {
        let spec = self.state.spec;
        let needs_residual = self.state.relaxation.as_ref().is_some_and(|relaxation| relaxation.needs_residual());
        if (needs_residual || spec.f32_values) && !self.r_is_residual {
            self.residual(Iterate::X);
        }
        let [x, b, r, p] = [VectorId::X, VectorId::B, VectorId::R, VectorId::P].map(|v| self.state.vector(v));
        let addresses = if spec.f32_values { [p, r, r] } else { [x, b, r] };
        self.step(|s| {
            if spec.f32_values {
                s.stream.fill(p, 0, spec.bytes())?;
            }
            s.state.relaxation.as_ref().map_or(Ok(()), |relaxation| relaxation.sweep(s.stream, spec, addresses))
        });
        if spec.f32_values {
            self.combine(VectorId::X, 1.0, &[(1.0, VectorId::P)]);
        }
        self.r_is_residual = false;
    }
}

impl PcgSteps for Run<'_> {
    fn precondition(&mut self) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.apply([VectorId::R, VectorId::Z], false, sum)?;
            s.fetch_sum()
        })
    }

    fn multiply(&mut self) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.multiply_into(false, [VectorId::P, VectorId::Q], sum)?;
            s.fetch_sum()
        })
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match alpha {
            Some(alpha) => self.combine_norm2(VectorId::R, 1.0, &[(-alpha, VectorId::Q)]),
            None => unfused_descend(self, None),
        }
    }

    fn change_preconditioner(&mut self, replacement: OtherPreconditioner) -> bool {
        let has_changed =
            matches!(replacement, OtherPreconditioner::AfterBreakdown) && self.state.second_preconditioner.is_some();
        self.uses_second_preconditioner |= has_changed;
        has_changed
    }

    fn iterate(&mut self, loop_state: &mut LoopScalars) -> Option<TestCode> {
        self.state.recorded_loop.as_ref().filter(|_| !self.uses_second_preconditioner)?;
        self.attempt(|s| looped::run(s, loop_state))
    }
}
