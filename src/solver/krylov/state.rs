//! Where an iteration stands, from its start to its end, and when it stops.

use crate::options::Norm;
use crate::report::StopReason;

/// When to stop: norm(r) <= threshold, after `max_iter` iterations, or when the observer asks.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Tested norm.
    pub norm: Norm,
    /// max(rel_tol * reference, abs_tol).
    pub threshold: f64,
    /// What residuals are reported relative to.
    pub reference: f64,
    /// Iterations at most.
    pub max_iter: usize,
    /// 2-norm of a residual that is nothing but rounding: on a singular system it has no direction to go to.
    pub rounding: f64,
    /// A start centers r (`PcgSteps::center_residual`): the preconditioned norm of a singular system is that of
    /// P M^-1 P.
    pub centers: bool,
    /// 2-norm of a residual whose squares may vanish in the sweeps: zero, or what rounding makes of it, is then no sign
    /// of an indefinite matrix.
    pub vanishing: f64,
    /// Largest center of A: what rounding leaves of p'Ap is relative to it.
    pub center_max: f64,
    /// M is definite: the V-cycle of pivots that are positive.
    pub definite: bool,
    /// Convergence seen on the recurred residual is confirmed on a recomputed one here; else the caller does it.
    pub confirms: bool,
    /// A norm above this limit ends the run as diverged; in methods other than PCG, so does a norm that is not finite.
    pub divergence: f64,
    /// M has the unit of A: r'M^-1 r tells what p'Ap may be beside.
    pub same_unit: bool,
    /// A may be indefinite, and is not nearly singular by its kind: p'Ap = 0 at the start is no rounding.
    pub general: bool,
}

/// Where PCG begins: x, r = b - A x, and iterations done before.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// <r, r>.
    pub norm2: f64,
    /// Iterations done.
    pub iterations: usize,
}

/// How PCG ended: iterations, the last residual norm and why.
#[derive(Clone, Copy, Debug)]
pub struct PcgEnd {
    /// Iterations done.
    pub iterations: usize,
    /// Last norm.
    pub norm: f64,
    /// Why.
    pub reason: StopReason,
}

/// Where the iteration is.
pub(super) struct Iteration {
    /// Iterations done.
    pub(super) iterations: usize,
    /// <r, r>.
    pub(super) norm2: f64,
    /// The tested norm.
    pub(super) norm: f64,
    /// <r, M^-1 r>.
    pub(super) rho: f64,
    /// <p, A p>.
    pub(super) sigma: f64,
    /// rho / sigma; zero where x has the step already.
    pub(super) alpha: f64,
    /// Of the last direction; zero where that was p = z.
    pub(super) beta: f64,
    /// The largest rho of all.
    pub(super) largest_rho: f64,
    /// The observer asked to stop.
    pub(super) stopped: bool,
}

impl Iteration {
    pub(super) fn new(start: Start) -> Self {
        let Start { norm2, iterations } = start;
        let (norm, rho, sigma, alpha, beta) = (norm2.sqrt(), 0.0, 0.0, 0.0, 0.0);
        Self { iterations, norm2, norm, rho, sigma, alpha, beta, largest_rho: 0.0, stopped: false }
    }

    pub(super) fn ended(&self, reason: StopReason) -> PcgEnd {
        PcgEnd { iterations: self.iterations, norm: self.norm, reason }
    }
}
