//! Between the text of PCG on the host and its loop on the device: what the loop is handed over with, by the host, or by the
//! device itself (kernels/ends.cu, `set_out`).

use super::launch::Scalars;
use crate::backend::LoopTest;

/// The loop's part of the scalars: what decides when it ends, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    threshold: f64,
    vanishing: f64,
    iteration: i64,
    max_iter: i64,
    pause_at: i64,
    renewal: f64,
    peak: f64,
    low_peak: f64,
    low_rho: f64,
    preconditioned: i32,
    rho: f64,
    sigma: f64,
    beta: f64,
}

impl Terms {
    /// `renews`: the residual is renewed; `lag`: the host looks after so many iterations.
    pub fn of(test: &LoopTest, renews: bool, lag: i64) -> Self {
        let (low_peak, low_rho) = if renews { (test.low_peak, test.low_rho) } else { (f64::INFINITY, 0.0) };
        let iteration = test.iterations as i64;
        let &LoopTest { threshold, vanishing, renewal, peak, rho, sigma, beta, .. } = test;
        Self {
            threshold,
            vanishing,
            iteration,
            max_iter: test.max_iter as i64,
            pause_at: renewal_at(test.renewal_at, renews).min(iteration + lag),
            renewal,
            peak,
            low_peak,
            low_rho,
            preconditioned: i32::from(test.preconditioned),
            rho,
            sigma,
            beta,
        }
    }

    /// Those on the device, as they were read.
    pub fn read(s: &Scalars) -> Self {
        let &Scalars { threshold, vanishing, iteration, max_iter, pause_at, renewal, peak, .. } = s;
        let &Scalars { low_peak, low_rho, preconditioned, rho, sigma, beta, .. } = s;
        Self {
            threshold,
            vanishing,
            iteration,
            max_iter,
            pause_at,
            renewal,
            peak,
            low_peak,
            low_rho,
            preconditioned,
            rho,
            sigma,
            beta,
        }
    }

    pub fn write(&self, s: &mut Scalars) {
        (s.threshold, s.vanishing) = (self.threshold, self.vanishing);
        (s.iteration, s.max_iter, s.pause_at) = (self.iteration, self.max_iter, self.pause_at);
        (s.renewal, s.peak, s.low_peak, s.low_rho) = (self.renewal, self.peak, self.low_peak, self.low_rho);
        s.preconditioned = self.preconditioned;
        (s.rho, s.sigma, s.alpha, s.beta) = (self.rho, self.sigma, self.rho / self.sigma, self.beta);
    }
}

/// The iteration after which the residual is renewed at the latest.
pub fn renewal_at(iteration: usize, renews: bool) -> i64 {
    if renews { i64::try_from(iteration).unwrap_or(i64::MAX) } else { i64::MAX }
}
