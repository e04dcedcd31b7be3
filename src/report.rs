//! Results of a solve, events during a solve, and the residual history. This module uses only `error` and `options`.

pub use crate::options::StopReason;

use std::fmt;

/// Results of one solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Number of iterations.
    pub iterations: usize,
    /// Reason why the solve ended.
    pub reason: StopReason,
    /// Relative residual of the initial guess, in the norm of the stopping test.
    pub initial_residual: f64,
    /// Relative residual of the returned x.
    pub final_residual: f64,
    /// Norm to which both residuals are relative.
    pub reference: f64,
}

impl Outcome {
    /// Returns whether the solve may have left infinities or NaN in the vectors, including their padding. The next
    /// solve must not read these values.
    pub fn may_leave_infinities(result: &crate::error::Result<Self>) -> bool {
        use crate::error::Error;
        match result {
            Err(error) => matches!(error, Error::Breakdown { .. } | Error::Overflow(_) | Error::Underflow { .. }),
            Ok(outcome) => matches!(outcome.reason, StopReason::Stagnated | StopReason::Diverged),
        }
    }
}

/// Message about a solve that ended before convergence. Its construction and formatting allocate no memory.
#[derive(Clone, Copy, Debug)]
pub struct UnfinishedMessage {
    outcome: Outcome,
    rel_tol: f64,
    /// Largest relative residual that satisfies the stopping test: max(`rel_tol`, `abs_tol` / reference).
    target_residual: f64,
}

impl UnfinishedMessage {
    /// Describes a solve with these tolerances that ended with `outcome`.
    #[must_use]
    pub fn new(outcome: Outcome, rel_tol: f64, abs_tol: f64) -> Self {
        let relative_abs_tol = if outcome.reference > 0.0 { abs_tol / outcome.reference } else { 0.0 };
        Self { outcome, rel_tol, target_residual: rel_tol.max(relative_abs_tol) }
    }
}

impl fmt::Display for UnfinishedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { iterations, reason, final_residual, .. } = self.outcome;
        let is_stopped = reason == StopReason::Monitor;
        f.write_str(if is_stopped { "stopped by the monitor" } else { "not converged" })?;
        let plural = if iterations == 1 { "" } else { "s" };
        write!(f, ": {iterations} iteration{plural}, relative residual {final_residual:.1e}, target ")?;
        // If `rel_tol` determines the target, the message shows it in the notation of the caller.
        if self.target_residual == self.rel_tol {
            write!(f, "{:e}", self.rel_tol)?
        } else {
            write!(f, "{:.1e}", self.target_residual)?
        }
        f.write_str(match reason {
            StopReason::MaxIter => " (iteration limit reached; raise max_iter, or see the tutorial not-converged)",
            StopReason::Stagnated => {
                " (stagnated: the residual no longer decreases; raise rel_tol, or see the tutorial not-converged)"
            }
            StopReason::Diverged => {
                " (diverged, x is the initial guess; check the matrix, or see the tutorial not-converged)"
            }
            _ => "",
        })
    }
}

/// Event between iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Iteration number, and the relative residual of the stopping test. The observer may request a stop.
    Iteration(usize, f64),
    /// Iteration number and relative residual of an iteration after which the solve has already continued. A stop
    /// request has no effect.
    LateIteration(usize, f64),
    /// Switch to another preconditioner. The numbers refer to the previous preconditioner: iterations since the last
    /// start of CG, residual norm relative to the norm at that start, and estimated number of remaining iterations.
    PreconditionerChanged(usize, f64, f64),
    /// Stagnation of CG in single precision after this number of iterations; the solve continues in double precision.
    SwitchedToDouble(usize),
    /// alpha of the latest CG step, and beta of the direction of this step (0 after a restart), for the Lanczos matrix.
    Coefficients(f64, f64),
}

/// Receives the events of a solve in order, on the calling thread.
pub trait Observer {
    /// Receives an event. Returns true to request a stop; only the result for an [`Event::Iteration`] has an effect.
    fn receive(&mut self, event: Event) -> bool;
    /// Returns whether `receive` may request a stop. If so, a parallel solver must wait for its return value.
    fn may_stop(&self) -> bool;
}

/// Observer that ignores all events, for calls that do not solve a system, such as `rrb_apply`.
pub struct NoObserver;

impl Observer for NoObserver {
    fn receive(&mut self, _: Event) -> bool {
        false
    }

    fn may_stop(&self) -> bool {
        false
    }
}

/// Residuals and CG coefficients of the last solve. Memory is allocated when `max_iter` is set; in `smoother_`, when a
/// monitor is set.
#[derive(Clone, Debug, Default)]
pub struct History {
    residuals: Vec<f64>,
    coefficients: Vec<(f64, f64)>,
    /// Whether a coefficient was not positive. All later coefficients are then ignored.
    has_nonpositive_coefficient: bool,
}

/// Maximum number of residuals, and of coefficient pairs, that are stored, however large `max_iter` is.
pub const MAX_HISTORY: usize = 1_000_000;

impl History {
    /// Allocates memory for `max_iter` iterations.
    pub fn reserve(&mut self, max_iter: usize) -> crate::error::Result<()> {
        let len = max_iter.saturating_add(1).min(MAX_HISTORY);
        self.reserve_residuals(len)?;
        let additional = len.saturating_sub(self.coefficients.len());
        crate::error::reserve(&mut self.coefficients, additional, "a history of max_iter iterations")
    }

    /// Allocates memory for `len` residuals only.
    pub fn reserve_residuals(&mut self, len: usize) -> crate::error::Result<()> {
        let additional = len.saturating_sub(self.residuals.len());
        crate::error::reserve(&mut self.residuals, additional, "a history of residuals")
    }

    /// Clears the history; the memory stays allocated.
    pub fn clear(&mut self) {
        self.residuals.clear();
        self.coefficients.clear();
        self.has_nonpositive_coefficient = false;
    }

    /// Appends a residual if the allocated memory suffices.
    pub fn push(&mut self, residual: f64) {
        if self.residuals.len() < self.residuals.capacity().min(MAX_HISTORY) {
            self.residuals.push(residual);
        }
    }

    /// Appends the coefficients of a CG step, up to the first nonpositive one: the Lanczos matrix is positive definite
    /// only if all coefficients are positive. beta is 0 at a restart, and rounding may make alpha or the flexible beta
    /// nonpositive. Coefficients of later steps are ignored.
    pub fn push_coefficients(&mut self, alpha: f64, beta: f64) {
        let is_positive = |value: f64| value > 0.0 && value.is_finite();
        self.has_nonpositive_coefficient |=
            !(is_positive(alpha) && (self.coefficients.is_empty() || is_positive(beta)));
        if !self.has_nonpositive_coefficient && self.coefficients.len() < self.coefficients.capacity().min(MAX_HISTORY)
        {
            self.coefficients.push((alpha, beta));
        }
    }

    /// Returns the stored relative residuals, from iteration 0 on.
    pub fn residuals(&self) -> &[f64] {
        &self.residuals
    }

    /// Returns (alpha, beta) of the CG steps before the first restart and the first nonpositive coefficient.
    pub fn coefficients(&self) -> &[(f64, f64)] {
        &self.coefficients
    }
}
