//! Start and end of a solve: copies of the caller's arrays, means over singular components, and the deflated part of x.

use super::field::Field;
use super::state::Vectors;
use crate::base::loops::{combine, largest};
use crate::dpcg::cpu::steps::ThreadState;
use crate::krylov::solve_steps::{Criterion, Inputs, Load, SolveSteps};
use crate::krylov::vectors::{VectorId, VectorSteps};

impl ThreadState<'_> {
    /// Subtracts the mean of v over each singular component. With `restore`, also adds the means that `keep_means`
    /// stored.
    pub(super) fn shift(&self, v: &Field, restore: bool) {
        let k = self.k;
        if k.singular.labels() == 0 {
            return;
        }
        // SAFETY: cells of this thread, which no other thread writes.
        let [sums, _] = k.singular.sum(self.me, false, |cells| unsafe { v.range(&cells) });
        // SAFETY: only `keep_means` writes these values, and barriers separate it from this function.
        let kept = unsafe { k.kept_means.slice(0, sums.len()) };
        k.singular.each_run(self.me, |cells, component| {
            let to = if restore { kept[component] } else { 0.0 } - sums[component] / k.singular.count[component];
            // SAFETY: cells of this thread, which no other thread reads in this step.
            unsafe { v.range_mut(&cells) }.iter_mut().for_each(|v| *v += to);
        });
    }

    /// Stores the mean of x over each singular component, for `shift`.
    pub(super) fn keep_means(&mut self) {
        let (k, x) = (self.k, &self.vectors().x);
        // SAFETY: cells of this thread, which no other thread writes.
        let [sums, _] = k.singular.sum(self.me, false, |cells| unsafe { x.range(&cells) });
        if self.me.index == 0 {
            // SAFETY: the other threads wait at the barrier below.
            let kept = unsafe { k.kept_means.slice_mut(0, sums.len()) };
            for (component, kept) in kept.iter_mut().enumerate() {
                *kept = sums[component] / k.singular.count[component];
            }
        }
        self.me.barrier();
    }

    /// Returns the sum over singular components of mean(r)^2 sum_i 1 / a_ii, where i runs over the cells of the
    /// component. Overwrites z.
    pub(super) fn constant_square(&self) -> f64 {
        let (k, r) = (self.k, &self.vectors().r);
        // SAFETY: cells of this thread, which no other thread writes.
        let [sums, _] = k.singular.sum(self.me, false, |cells| unsafe { r.range(&cells) });
        let mean = |component: usize| sums[component] / k.singular.count[component];
        let z = &self.vectors().z;
        // SAFETY: cells of this thread, which no other thread reads in this step.
        self.each(|cells| unsafe { z.range_mut(&cells) }.fill(0.0));
        k.singular.each_run(self.me, |cells, component| {
            let center = k.matrix.couplings(&cells).center;
            let square = mean(component) * mean(component);
            // SAFETY: cells of this thread, which no other thread reads in this step.
            let z = unsafe { z.range_mut(&cells) };
            z.iter_mut().zip(center).for_each(|(z, center)| *z = square / center);
        });
        // SAFETY: cells of this thread, which no other thread writes.
        self.sum(|cells| unsafe { z.range(&cells) }.iter().sum())
    }
}

impl SolveSteps for ThreadState<'_> {
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        let mut seen = Inputs::none();
        for (row, _) in self.rows() {
            let b = self.input(row);
            // SAFETY: a row of this thread.
            let x = if guess { unsafe { self.output(row) } } else { &mut [] };
            seen.look_at_row(self.caller.input_name, b, largest(b), row, true);
            seen.look_at_row("x", x, largest(x), row, false);
        }
        self.k.observed.inputs(self.me, &seen, self.caller.input_name, |_| ())
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        let Vectors { x, b, .. } = self.vectors();
        for (row, cells) in self.rows() {
            // SAFETY: a row of this thread, which no other thread reads in this step.
            let (x, b) = unsafe { (x.range_mut(&cells), b.range_mut(&cells)) };
            combine(b, 0.0, scale, self.input(row));
            match what.guess() {
                // SAFETY: a row of this thread.
                Some(true) => combine(x, 0.0, scale, unsafe { self.output(row) }),
                Some(false) => x.fill(0.0),
                None => {}
            }
        }
        let rhs_norm2 = if what == Load::Rhs { 0.0 } else { self.inner(VectorId::B, VectorId::B) };
        (rhs_norm2, None)
    }

    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        let b = &self.vectors().b;
        // SAFETY: cells of this thread, which no other thread writes.
        let [sums, magnitudes] = self.k.singular.sum(self.me, true, |cells| unsafe { b.range(&cells) });
        let mut worst = (0, 0.0, 0.0);
        for (component, (&sum, &magnitude)) in sums.iter().zip(magnitudes).enumerate() {
            if sum.abs() * worst.2 > f64::abs(worst.1) * magnitude || worst.2 == 0.0 {
                worst = (component, sum, magnitude);
            }
        }
        worst
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        if let Some(scale) = scale {
            self.load(scale, Load::Rhs);
        }
        self.residual_to(&self.vectors().z)
    }

    /// Computes x = x^ + Z E^-1 Z^T (b - A x^) (Tang, Nabben, Vuik and Erlangga 2009), and returns max |x_i|.
    fn back_substitute(&mut self, _: Option<f64>) -> (f64, Option<f64>) {
        if self.k.deflation.is_some() {
            let q = &self.vectors().q;
            self.residual_to(q);
            self.add_deflated_part(q);
        }
        (self.largest(VectorId::X), None)
    }

    fn store(&mut self, scale: f64) {
        for (row, cells) in self.rows() {
            // SAFETY: a row of this thread.
            unsafe { combine(self.output(row), 0.0, scale.recip(), self.vectors().x.range(&cells)) };
        }
    }

    fn multiply_rhs(&mut self) {
        self.product(&self.vectors().x, &self.vectors().b);
    }
}
