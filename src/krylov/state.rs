//! State of a solve: scalars that the Krylov methods, their decisions and the loop on a device share.

use crate::options::Norm;
use crate::report::{Event, Observer};

/// Stopping test: norm(r) <= threshold, `max_iter` iterations, or a request of the observer.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Tested norm.
    pub norm: Norm,
    /// Largest norm of a converged residual: max(rel_tol * reference, abs_tol).
    pub threshold: f64,
    /// Residuals are reported relative to this norm.
    pub reference: f64,
    /// Largest number of iterations.
    pub max_iter: usize,
    /// A residual whose 2-norm is at most this value consists only of rounding errors. Nonzero only for singular
    /// systems, where such a residual gives no search direction.
    pub rounding_norm: f64,
    /// Each start of PCG subtracts the means over singular components from r (`pcg::subtract_means_from_residual`),
    /// since the preconditioned norm of a singular system uses P M^-1 P (P: see `PcgSteps::precondition`).
    pub subtracts_means: bool,
    /// 2-norm of r below which squares may underflow in the sweeps. A nonpositive square then does not indicate an
    /// indefinite matrix.
    pub vanishing_norm: f64,
    /// Largest center of A. The rounding error of p'Ap is relative to this value.
    pub center_max: f64,
    /// M is positive definite, as for the V-cycle with positive pivots.
    pub is_preconditioner_definite: bool,
    /// If true, PCG confirms convergence with the recomputed residual. If false, `Caller::end_run` confirms it.
    pub confirms: bool,
    /// A norm above this limit ends the run as diverged. In methods other than PCG, a norm that is not finite also ends
    /// the run as diverged.
    pub divergence_norm: f64,
    /// Whether M scales with A: if A is multiplied by a constant, so is M. p'Ap may then be compared with r'M^-1 r.
    pub has_unit_of_matrix: bool,
    /// Whether A may be indefinite, as in `sparse_`. p'Ap = 0 at the start is then a breakdown and not attributed to
    /// rounding, because such matrices are typically not nearly singular.
    pub may_be_indefinite: bool,
}

/// State of a solve. A run of PCG begins with x and r = b - A x. Within a run, each restart recomputes r, and PCG
/// starts again from it.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Test of this run. Its threshold may differ from the threshold of the solve (`solve::Solve::test`).
    pub test: Test,
    /// Number of completed iterations.
    pub iterations: usize,
    /// <r, r>.
    pub norm2: f64,
    /// Tested norm of r.
    pub norm: f64,
    /// <r, M^-1 r>.
    pub rho: f64,
    /// <p, A p>.
    pub sigma: f64,
    /// rho / sigma; zero if x already includes the update alpha p.
    pub alpha: f64,
    /// beta of the last direction; zero if the direction was p = z.
    pub beta: f64,
    /// Largest rho of the run.
    pub largest_rho: f64,
    /// Whether the observer requested a stop.
    pub stop_requested: bool,
    /// Whether `norm` is the norm of a recurred residual, and not of b - A x.
    pub is_recurred: bool,
    /// Last start of PCG.
    pub last_start: IterationNorm,
    /// Iteration with the smallest residual since `last_start`. A later iteration is recorded instead only if its norm
    /// is at most `LOWER_NORM_FRACTION` times the recorded norm.
    pub smallest_norm: IterationNorm,
    /// Last residual that was computed as b - A x.
    pub true_residual: TrueResidual,
    /// Number of restarts in the solve.
    pub restarts: usize,
    /// Number of restarts since the run began or the preconditioner changed.
    pub restarts_of_run: usize,
    /// Tested norm at restart k - 1 of the run, where k is `restarts_of_run`; infinite if k < 2.
    pub previous_restart_norm: f64,
    /// Residual norm of the iterate that `Caller::store_if_better` or `Caller::end_run` has stored; infinite if there
    /// is none.
    pub stored_norm: f64,
    /// Value of `restarts_of_run` when x was last passed to `Caller::store_if_better`. Each x is passed at most once.
    pub last_passed_restart: usize,
}

/// An iteration and its tested norm.
#[derive(Clone, Copy, Debug)]
pub struct IterationNorm {
    /// Number of completed iterations.
    pub iterations: usize,
    /// Tested norm.
    pub norm: f64,
}

/// A residual that was computed as b - A x.
#[derive(Clone, Copy, Debug)]
pub struct TrueResidual {
    /// Number of completed iterations.
    pub iterations: usize,
    /// <r, r>.
    pub norm2: f64,
    /// r'M^-1 r.
    pub rho: f64,
    /// Largest <r, r> since this residual.
    pub largest_norm2: f64,
}

/// Result of a test. The first nine codes have the same numbers on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestCode {
    /// The iteration continues.
    Running,
    /// Converged: norm <= threshold.
    Converged,
    /// The iteration limit `max_iter` is reached.
    MaxIter,
    /// The residual must be recomputed before further iterations can reduce it. For example, r'M^-1 r is below the
    /// rounding level.
    NeedsRestart,
    /// p'Ap is nonpositive and below the rounding level.
    SigmaVanished,
    /// With the preconditioned norm: r'M^-1 r is negative, infinite or NaN. The iteration then has no residual norm and
    /// was not reported to the observer.
    RhoNegative,
    /// r'M^-1 r is needed for the next direction, but is nonpositive, infinite or NaN.
    RhoNotPositive,
    /// p'Ap is nonpositive, infinite or NaN.
    SigmaNotPositive,
    /// The observer requested a stop, or a backend left its loop because another preconditioner may need less work.
    Paused,
    /// norm > `Test::divergence_norm`.
    Diverged,
    /// The steps have switched to another preconditioner.
    PreconditionerChanged,
}

impl TestCode {
    /// Codes that a device returns, in the order of their numbers.
    pub const DEVICE_CODES: [Self; 9] = [
        Self::Running,
        Self::Converged,
        Self::MaxIter,
        Self::NeedsRestart,
        Self::SigmaVanished,
        Self::RhoNegative,
        Self::RhoNotPositive,
        Self::SigmaNotPositive,
        Self::Paused,
    ];
}

impl State {
    /// Returns the state of the first run of a solve. `norm2` is <r, r> of r = b - A x; `iterations` is the number of
    /// completed iterations.
    pub fn new(test: Test, norm2: f64, iterations: usize) -> Self {
        let (norm, infinite) = (norm2.sqrt(), f64::INFINITY);
        let start = IterationNorm { iterations, norm };
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
            stop_requested: false,
            is_recurred: false,
            last_start: start,
            smallest_norm: start,
            true_residual: TrueResidual { iterations, norm2, rho: 0.0, largest_norm2: norm2 },
            restarts: 0,
            restarts_of_run: 0,
            previous_restart_norm: infinite,
            stored_norm: infinite,
            last_passed_restart: 0,
        }
    }

    /// Returns the state at the start of another run of the same solve. The parameters are those of `new`.
    pub fn for_another_run(&self, norm2: f64, iterations: usize) -> Self {
        Self { restarts: self.restarts, stored_norm: self.stored_norm, ..Self::new(self.test, norm2, iterations) }
    }

    /// Returns the number of iterations since the last start.
    pub fn iterations_since_start(&self) -> usize {
        self.iterations - self.last_start.iterations
    }

    /// Estimates the number of remaining iterations as k ln(r_k / threshold) / ln(r_0 / r_k). Here, k is the number of
    /// iterations since the last start of PCG, r_0 is the norm at this start, and r_k is the current norm
    /// (docs/theory/aggregation.md, cost model). Infinite if the norm has not decreased.
    pub fn remaining_iterations(&self) -> f64 {
        let log_decrease = (self.last_start.norm / self.norm).ln();
        let log_remaining_decrease = (self.norm / self.test.threshold).ln();
        if log_decrease > 0.0 {
            self.iterations_since_start() as f64 * log_remaining_decrease / log_decrease
        } else {
            f64::INFINITY
        }
    }

    /// Reports that the solve switches to another preconditioner.
    pub fn report_preconditioner_change(&self, observer: &mut dyn Observer) {
        observer.receive(Event::PreconditionerChanged(
            self.iterations_since_start(),
            self.norm / self.last_start.norm,
            self.remaining_iterations(),
        ));
    }
}
