//! Between the text of PCG on the host and its loop on the device: what the loop is handed over with, by the host, or
//! by the device itself (kernels/rrb/ends.cuh, `set_out`).

use crate::backend::cuda::launch::Scalars;
use crate::backend::steps::pcg::LoopTest;

/// The loop's part of the scalars: what decides when it ends, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    threshold: f64,
    vanishing: f64,
    iteration: i64,
    max_iter: i64,
    pause_at: i64,
    preconditioned: i32,
    rho: f64,
    sigma: f64,
}

impl Terms {
    /// `lag`: the host looks after so many iterations.
    pub fn of(test: &LoopTest, lag: i64) -> Self {
        let iteration = test.iterations as i64;
        let &LoopTest { threshold, vanishing, rho, sigma, .. } = test;
        Self {
            threshold,
            vanishing,
            iteration,
            max_iter: test.max_iter as i64,
            pause_at: iteration + lag,
            preconditioned: i32::from(test.preconditioned),
            rho,
            sigma,
        }
    }

    /// Those on the device, as they were read.
    pub fn read(s: &Scalars) -> Self {
        let &Scalars { threshold, vanishing, iteration, max_iter, pause_at, preconditioned, rho, sigma, .. } = s;
        Self { threshold, vanishing, iteration, max_iter, pause_at, preconditioned, rho, sigma }
    }

    pub fn write(&self, s: &mut Scalars) {
        (s.threshold, s.vanishing) = (self.threshold, self.vanishing);
        (s.iteration, s.max_iter, s.pause_at) = (self.iteration, self.max_iter, self.pause_at);
        s.preconditioned = self.preconditioned;
        (s.rho, s.sigma, s.alpha, s.beta) = (self.rho, self.sigma, self.rho / self.sigma, 0.0);
    }
}
