//! Where a solve stands: plain numbers, which the methods, the decisions and the loop of a device share.

use crate::options::Norm;
use crate::report::{Event, Observer};

/// When to stop: norm(r) <= threshold, after `max_iter` iterations, or when the observer asks.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Tested norm.
    pub norm: Norm,
    /// max(rel_tol * reference, abs_tol).
    pub threshold: f64,
    /// Residuals are reported relative to this norm.
    pub reference: f64,
    /// Largest number of iterations.
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
    /// M has the unit of A: p'Ap may be compared with r'M^-1 r.
    pub same_unit: bool,
    /// A may be indefinite, and is not nearly singular by its kind: p'Ap = 0 at the start is no rounding.
    pub general: bool,
}

/// State of a solve. A run of PCG begins at x with r = b - A x; a start follows each residual that is recomputed.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Test of this run: its threshold may be smaller than the caller's.
    pub test: Test,
    /// Iterations done.
    pub iterations: usize,
    /// <r, r>.
    pub norm2: f64,
    /// The tested norm.
    pub norm: f64,
    /// <r, M^-1 r>.
    pub rho: f64,
    /// <p, A p>.
    pub sigma: f64,
    /// rho / sigma; zero where x has the step already.
    pub alpha: f64,
    /// Of the last direction; zero where that was p = z.
    pub beta: f64,
    /// Largest rho of the run.
    pub largest_rho: f64,
    /// The observer asked to stop.
    pub stopped: bool,
    /// `norm` is that of a recurred residual, not of b - A x.
    pub recurred: bool,
    /// The last start.
    pub start: Mark,
    /// The iteration whose residual was the least since the start.
    pub least: Mark,
    /// The last residual that was b - A x itself.
    pub exact: Exact,
    /// Restarts of the solve.
    pub restarts: usize,
    /// Restarts of this run.
    pub restarts_of_run: usize,
    /// Norm of the start of this run that missed the test before the last one.
    pub missed: f64,
    /// Norm of the iterate that the caller has; infinite as long as there is none.
    pub kept: f64,
    /// The restart of this run whose x was offered to the caller last: none is offered twice.
    pub offered: usize,
}

/// An iteration and its tested norm.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Iterations done.
    pub iterations: usize,
    /// Tested norm.
    pub norm: f64,
}

/// A residual that was b - A x itself.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    /// Iterations done.
    pub iterations: usize,
    /// <r, r>.
    pub norm2: f64,
    /// r'M^-1 r.
    pub rho: f64,
    /// Largest <r, r> since.
    pub peak: f64,
}

/// What a test has found. The numbers of the first nine are those of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The iteration goes on.
    Running,
    /// norm <= threshold.
    Met,
    /// `max_iter` is reached.
    MaxIter,
    /// Iterating further gains nothing before r is recomputed: r'M^-1 r is rounding, for example.
    Spent,
    /// p'Ap is rounding.
    SigmaVanished,
    /// r'M^-1 r < 0, or not finite, in the preconditioned norm: the iteration has no norm, which was not reported.
    RhoNegative,
    /// r'M^-1 r, needed for the next direction, is not positive or not finite.
    RhoBad,
    /// p'Ap is not positive or not finite.
    SigmaBad,
    /// The observer asked to stop.
    Paused,
    /// norm > divergence.
    Diverged,
    /// Another preconditioner is in place.
    Changed,
}

impl Code {
    /// The codes of a device, in the order of their numbers.
    pub const OF_DEVICE: [Self; 9] = [
        Self::Running,
        Self::Met,
        Self::MaxIter,
        Self::Spent,
        Self::SigmaVanished,
        Self::RhoNegative,
        Self::RhoBad,
        Self::SigmaBad,
        Self::Paused,
    ];
}

impl State {
    /// The first run of a solve: r = b - A x, with <r, r> = `norm2`, after this many iterations.
    pub fn new(test: Test, norm2: f64, iterations: usize) -> Self {
        let (norm, infinite) = (norm2.sqrt(), f64::INFINITY);
        let start = Mark { iterations, norm };
        Self {
            test,
            iterations,
            norm2,
            norm,
            rho: 0.0,
            sigma: 0.0,
            alpha: 0.0,
            beta: 0.0,
            largest_rho: 0.0,
            stopped: false,
            recurred: false,
            start,
            least: start,
            exact: Exact { iterations, norm2, rho: 0.0, peak: norm2 },
            restarts: 0,
            restarts_of_run: 0,
            missed: infinite,
            kept: infinite,
            offered: 0,
        }
    }

    /// Another run of the same solve.
    pub fn again(&self, norm2: f64, iterations: usize) -> Self {
        Self { restarts: self.restarts, kept: self.kept, ..Self::new(self.test, norm2, iterations) }
    }

    /// Iterations since the start.
    pub fn since_start(&self) -> usize {
        self.iterations - self.start.iterations
    }

    /// Iterations that are left if the residual decreases as since the start; infinite where it did not.
    pub fn iterations_left(&self) -> f64 {
        let done = (self.start.norm / self.norm).ln();
        let left = (self.norm / self.test.threshold).ln();
        if done > 0.0 { self.since_start() as f64 * left / done } else { f64::INFINITY }
    }

    /// Reports that the solve switches to another preconditioner.
    pub fn report_change(&self, observer: &mut dyn Observer) {
        observer.see(Event::Changed(self.since_start(), self.norm / self.start.norm, self.iterations_left()));
    }
}
