//! The steps of a run on the device, for PCG and for the methods of general matrices. A step launches kernels without
//! waiting for them, unless the step returns a scalar.

use super::matrix::Products;
use super::state::State;
use super::vectors::Vectors;
use crate::cuda::call::{Attempts, Call};
use crate::cuda::driver::{Device, Loop, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, CombineArgs, DiagonalArgs, FinishKind, InnersArgs, RandomArgs, RoundArgs, RowFinish, SUMS_PER_PASS,
    Scalars, Sum, SumUse,
};
use crate::cuda::looped;
use crate::cuda::looped::{Looped, Recorded, SharedScalars, observed_lag, without_graphs};
use crate::cuda::vectors::{largest, vector_args};
use crate::error::{Error, Result};
use crate::krylov::pcg::{OtherPreconditioner, PcgSteps, unfused_descend};
use crate::krylov::state::{Code, State as LoopScalars};
use crate::krylov::vectors::{Iterate, KrylovSteps, SweepSteps, VectorId, VectorSteps};
use crate::report::{Event, Observer};
use std::mem::offset_of;
use std::sync::Arc;

/// State of one run.
pub struct Run<'a> {
    pub state: &'a mut State,
    pub a: Products<'a>,
    pub stream: &'a Stream,
    pub call: Call<'a>,
    /// Whether r is the residual of x.
    pub is_residual: bool,
    /// Whether the second preconditioner is in use.
    pub on_second: bool,
}

impl Attempts for Run<'_> {
    fn failed(&mut self) -> &mut Option<Error> {
        &mut self.call.failed
    }
}

impl State {
    /// Records the iterations of CG. A previous loop with the same launches is reused.
    pub fn record(&mut self, device: &Arc<Device>, a: &Products) -> Result<()> {
        let previous = self.recorded.take();
        let bodies = if without_graphs() { &[][..] } else { &[1] };
        self.recorded = Some(Recorded::new(device, bodies, previous, |stream, conditional| {
            self.iteration(stream, a, conditional)
        })?);
        Ok(())
    }

    /// Launches the kernels of an iteration: r -= alpha q, z = M^-1 r, x += alpha p, p = z + beta p, q = A p. The
    /// kernels also compute rho = <r, z> and sigma = <p, q>, and end the loop if necessary. For a diagonal M, z is not
    /// stored.
    fn iteration(&self, stream: &Stream, a: &Products, conditional: u64) -> Result<()> {
        let [x, r, p, q, z] = [VectorId::X, VectorId::R, VectorId::P, VectorId::Q, VectorId::Z].map(|v| self.vector(v));
        let Vectors { rows, f32_values } = self.of;
        let sum = Sum { in_loop: 1, ..self.sum_to(offset_of!(Scalars, norm2)) };
        let of_rho = Sum { sum_use: SumUse::Rho as i32, ..sum };
        if let Some(d) = self.first.diagonal() {
            let args = DiagonalArgs { count: rows as i64, d, sum: of_rho, ..DiagonalArgs::default() };
            launch::descend_by_diagonal(stream, f32_values, &DiagonalArgs { v: q, out: r, ..args })?;
            launch::advance_by_diagonal(stream, f32_values, &DiagonalArgs { v: r, out: p, x, ..args })?;
        } else {
            let args = |a, out| vector_args(rows, a, out, 0.0);
            launch::vector_add_scaled(stream, f32_values, &launch::VectorArgs { sum, ..args(q, r) })?;
            self.first.apply(stream, (a, self.of), [r, z], false, of_rho)?;
            launch::vector_advance(stream, f32_values, &launch::VectorArgs { other: x, sum, ..args(z, p) })?;
        }
        let sum = Sum { sum_use: SumUse::LastSigma as i32, conditional, ..sum };
        a.a.multiply(stream, false, p, RowFinish { kind: FinishKind::Keep as i32, out: q, sum, ..RowFinish::default() })
    }
}

impl Run<'_> {
    /// Returns the arguments of a sum whose result `summed` returns.
    pub fn sum(&self) -> Sum {
        self.state.sum_to(offset_of!(Scalars, sum))
    }

    /// Waits and returns the sum.
    pub fn summed(&mut self) -> Result<f64> {
        Ok(self.state.scalars.fetch(self.stream)?.sum)
    }

    /// Returns the address of a vector that a step writes. If the step writes x, b or r, then r may no longer be the
    /// residual of x.
    pub fn writes(&mut self, to: VectorId) -> Address {
        self.is_residual &= ![VectorId::X, VectorId::B, VectorId::R].contains(&to);
        self.state.vector(to)
    }

    /// Computes to = A from, or to = A^T from, and the sum <from, to>.
    fn times(&mut self, transposed: bool, [from, to]: [VectorId; 2], sum: Sum) -> Result<()> {
        let (out, (matrix, flips)) = (self.writes(to), self.a.of(transposed));
        let finish = RowFinish { kind: FinishKind::Keep as i32, out, sum, ..RowFinish::default() };
        matrix.multiply(self.stream, flips, self.state.vector(from), finish)
    }

    /// Computes to = M^-1 from, or to = M^-T from, and the sum <from, to>.
    fn apply(&mut self, [from, to]: [VectorId; 2], transposed: bool, sum: Sum) -> Result<()> {
        let addresses = [self.state.vector(from), self.writes(to)];
        let m = self.state.second.as_ref().filter(|_| self.on_second).unwrap_or(&self.state.first);
        m.apply(self.stream, (&self.a, self.state.of), addresses, transposed, sum)
    }

    /// Rounds a vector in f64 to the vector `to` in f32.
    fn round(&mut self, from: Address, to: VectorId) -> Result<()> {
        let args = RoundArgs { count: self.state.of.rows as i64, from, to: self.writes(to) };
        launch::round_values(self.stream, &args)
    }

    /// Computes to = `scale` to + the sum of the terms (factor, vector), and the sum <to, to>. If the vectors are in
    /// f32, x may be `to`, but neither x nor b is a term.
    fn combined(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)], sum: Sum) -> Result<()> {
        let (out, mut scale) = (self.writes(to), scale);
        let Vectors { rows, f32_values } = self.state.of;
        let passes = terms.len().div_ceil(SUMS_PER_PASS).max(1);
        for pass in 0..passes {
            let part = &terms[terms.len().min(pass * SUMS_PER_PASS)..terms.len().min((pass + 1) * SUMS_PER_PASS)];
            let mut args = CombineArgs {
                count: rows as i64,
                to: out,
                scale,
                n: part.len() as i64,
                sum: if pass + 1 == passes { sum } else { Sum::default() },
                ..CombineArgs::default()
            };
            for (k, (factor, v)) in part.iter().enumerate() {
                (args.factor[k], args.v[k]) = (*factor, self.state.vector(*v));
            }
            match f32_values && to == VectorId::X {
                true => launch::combine_to_double(self.stream, &args)?,
                false => launch::combine(self.stream, f32_values, &args)?,
            }
            scale = 1.0;
        }
        Ok(())
    }

    /// Computes at most [`SUMS_PER_PASS`] inner products, and waits.
    fn inners_of(&mut self, a: VectorId, with: &[VectorId], products: &mut [f64]) -> Result<()> {
        let mut args = InnersArgs {
            count: self.state.of.rows as i64,
            a: self.state.vector(a),
            n: with.len() as i64,
            partial: self.state.partial,
            to: self.state.products,
            scalars: self.state.scalars.at,
            ..InnersArgs::default()
        };
        for (b, v) in args.b.iter_mut().zip(with) {
            *b = self.state.vector(*v);
        }
        launch::inners(self.stream, self.state.of.f32_values, &args)?;
        let State { products: at, products_here: here, .. } = &mut *self.state;
        self.stream.fetch_prefix(here, *at, size_of_val(products))?;
        self.stream.wait()?;
        products.copy_from_slice(&here[..products.len()]);
        Ok(())
    }
}

impl Looped for Run<'_> {
    fn parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer) {
        (&mut self.state.scalars, self.stream, self.call.observer)
    }

    fn graph(&self) -> Option<(&Loop, &Stream)> {
        let (_, graph) = self.state.recorded.as_ref()?.graphs.first()?;
        Some((graph, self.stream))
    }

    fn iteration(&mut self) -> Result<()> {
        self.state.iteration(self.stream, &self.a, 0)
    }

    fn lag(&self) -> i64 {
        observed_lag(self.call.observer)
    }

    fn begin(&mut self, _: &LoopScalars) -> Result<bool> {
        self.is_residual = false;
        let scalars = &mut self.state.scalars;
        (scalars.parity, scalars.direction, scalars.per_unit) = (0, 0, 1.0);
        Ok(false)
    }

    fn is_slow(&mut self, at: &LoopScalars) -> bool {
        at.norm > at.test.divergence
    }

    fn end(&mut self, _: &LoopScalars, _: bool) {}
}

impl VectorSteps for Run<'_> {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        let mut product = [0.0];
        self.inners(a, &[b], &mut product);
        product[0]
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        self.step(|s| s.combined(to, scale, terms, Sum::default()));
    }

    /// `v` is x, which is always in f64.
    fn largest(&mut self, v: VectorId) -> f64 {
        let (v, rows) = (self.state.vector(v), self.state.of.rows);
        self.scalar(|s| largest(s.stream, &mut s.state.scalars, v, rows))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        let ([x, b, r], f32_values) =
            ([VectorId::X, VectorId::B, VectorId::R].map(|v| self.state.vector(v)), self.state.of.f32_values);
        if of == Iterate::Zero && f32_values {
            self.step(|s| s.round(b, VectorId::R));
            return self.inner(VectorId::R, VectorId::R);
        }
        if of == Iterate::Zero {
            return self.combine_norm2(VectorId::R, 0.0, &[(1.0, VectorId::B)]);
        }
        let norm2 = self.scalar(|s| {
            let out = if f32_values { s.state.exact } else { r };
            let finish = RowFinish { kind: FinishKind::Residual as i32, b, out, sum: s.sum(), ..RowFinish::default() };
            s.a.exact.multiply(s.stream, false, x, finish)?;
            if f32_values {
                s.round(out, VectorId::R)?;
            }
            s.summed()
        });
        self.is_residual = true;
        norm2
    }

    fn observe(&mut self, event: Event) -> bool {
        self.call.observer.receive(event)
    }
}

impl KrylovSteps for Run<'_> {
    fn rows(&self) -> usize {
        self.state.of.rows
    }

    fn product(&mut self, from: VectorId, to: VectorId) {
        self.step(|s| s.times(false, [from, to], Sum::default()));
    }

    fn transposed_product(&mut self, from: VectorId, to: VectorId) {
        self.step(|s| s.times(true, [from, to], Sum::default()));
    }

    fn precondition_vector(&mut self, from: VectorId, to: VectorId) {
        self.step(|s| s.apply([from, to], false, Sum::default()));
    }

    fn precondition_transposed(&mut self, from: VectorId, to: VectorId) {
        self.step(|s| s.apply([from, to], true, Sum::default()));
    }

    fn sweeps(&mut self) -> Option<&mut dyn SweepSteps> {
        if self.state.relaxation.is_some() { Some(self) } else { None }
    }

    fn is_unpreconditioned(&self) -> bool {
        let m = self.state.second.as_ref().filter(|_| self.on_second).unwrap_or(&self.state.first);
        m.diagonal() == Some(0)
    }

    fn inners(&mut self, a: VectorId, with: &[VectorId], products: &mut [f64]) {
        for (with, products) in with.chunks(SUMS_PER_PASS).zip(products.chunks_mut(SUMS_PER_PASS)) {
            if self.attempt(|s| s.inners_of(a, with, products)).is_none() {
                // NaN ends the loop of every method, as it does after a failed step that returns one scalar.
                products.fill(f64::NAN);
            }
        }
    }

    fn combine_norm2(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.combined(to, scale, terms, sum)?;
            s.summed()
        })
    }

    fn fill_random(&mut self, to: VectorId, seed: u64) {
        let (to, Vectors { rows, f32_values }) = (self.writes(to), self.state.of);
        let count = rows as i64;
        self.step(|s| launch::fill_random(s.stream, f32_values, &RandomArgs { count, to, seed }));
    }
}

impl SweepSteps for Run<'_> {
    /// If the vectors are in f32, sweeps on A p = r from p = 0, and adds p to x. In exact arithmetic, this is a sweep
    /// on x.
    fn sweep(&mut self, _: usize) {
        let of = self.state.of;
        let needed = self.state.relaxation.as_ref().is_some_and(|relaxation| relaxation.needs_residual());
        if (needed || of.f32_values) && !self.is_residual {
            self.residual(Iterate::X);
        }
        let [x, b, r, p] = [VectorId::X, VectorId::B, VectorId::R, VectorId::P].map(|v| self.state.vector(v));
        let addresses = if of.f32_values { [p, r, r] } else { [x, b, r] };
        self.step(|s| {
            if of.f32_values {
                s.stream.fill(p, 0, of.bytes())?;
            }
            s.state.relaxation.as_ref().map_or(Ok(()), |relaxation| relaxation.sweep(s.stream, of, addresses))
        });
        if of.f32_values {
            self.combine(VectorId::X, 1.0, &[(1.0, VectorId::P)]);
        }
        self.is_residual = false;
    }
}

impl PcgSteps for Run<'_> {
    fn precondition(&mut self) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.apply([VectorId::R, VectorId::Z], false, sum)?;
            s.summed()
        })
    }

    fn multiply(&mut self) -> f64 {
        self.scalar(|s| {
            let sum = s.sum();
            s.times(false, [VectorId::P, VectorId::Q], sum)?;
            s.summed()
        })
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        match alpha {
            Some(alpha) => self.combine_norm2(VectorId::R, 1.0, &[(-alpha, VectorId::Q)]),
            None => unfused_descend(self, None),
        }
    }

    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        let changes = matches!(to, OtherPreconditioner::Second) && self.state.second.is_some();
        self.on_second |= changes;
        changes
    }

    fn iterate(&mut self, at: &mut LoopScalars) -> Option<Code> {
        self.state.recorded.as_ref().filter(|_| !self.on_second)?;
        self.attempt(|s| looped::run(s, at))
    }
}
