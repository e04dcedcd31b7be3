//! What a solve tells about itself. A leaf.

pub use crate::options::StopReason;

use std::fmt;

/// Numbers of one solve.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Iterations done.
    pub iterations: usize,
    /// Why it ended.
    pub reason: StopReason,
    /// Relative residual of the guess, in the tested norm.
    pub initial_residual: f64,
    /// Relative residual of x.
    pub final_residual: f64,
    /// What they are relative to.
    pub reference: f64,
}

impl Outcome {
    /// Vectors may hold infinities, in their padding too, which a next solve must not find.
    pub fn went_astray(result: &crate::error::Result<Self>) -> bool {
        use crate::error::Error;
        match result {
            Err(error) => matches!(error, Error::Breakdown { .. } | Error::Overflow(_) | Error::Underflow { .. }),
            Ok(outcome) => matches!(outcome.reason, StopReason::Stagnated | StopReason::Diverged),
        }
    }
}

/// A solve that ended before it met its tolerance. Neither this nor its message allocates memory.
#[derive(Clone, Copy, Debug)]
pub struct Unfinished {
    outcome: Outcome,
    rel_tol: f64,
    /// The relative residual that the solve was to reach: max(`rel_tol`, `abs_tol` / reference).
    target: f64,
}

impl Unfinished {
    /// A solve with these tolerances that ended with `outcome`.
    #[must_use]
    pub fn new(outcome: Outcome, rel_tol: f64, abs_tol: f64) -> Self {
        let absolute = if outcome.reference > 0.0 { abs_tol / outcome.reference } else { 0.0 };
        Self { outcome, rel_tol, target: rel_tol.max(absolute) }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { iterations, reason, final_residual, .. } = self.outcome;
        let stopped = reason == StopReason::Monitor;
        f.write_str(if stopped { "stopped by the monitor" } else { "not converged" })?;
        let plural = if iterations == 1 { "" } else { "s" };
        write!(f, ": {iterations} iteration{plural}, relative residual {final_residual:.1e}, target ")?;
        // As the caller wrote it, unless abs_tol determines it.
        if self.target == self.rel_tol {
            write!(f, "{:e}", self.rel_tol)?
        } else {
            write!(f, "{:.1e}", self.target)?
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

/// What a solve reports between iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The tested relative residual after so many iterations. The observer may ask to stop.
    Iteration(usize, f64),
    /// The same of an iteration that was done before the answer to stop came.
    Passed(usize, f64),
    /// The solve switches to another preconditioner: after so many iterations with the one before, which had left this
    /// part of the residual, when so many more were expected of it.
    Changed(usize, f64, f64),
    /// CG in single precision has stagnated after so many iterations: the solve continues in double precision.
    Widened(usize),
    /// alpha of the step just taken and the beta that led to it (0 at a start), for the Lanczos matrix.
    Coefficients(f64, f64),
}

/// Receives what happens between iterations; called on the calling thread, in order.
pub trait Observer {
    /// `true` asks to stop, after an [`Event::Iteration`].
    fn see(&mut self, event: Event) -> bool;
    /// Whether an iteration may be answered by a wish to stop, so that a parallel solver must wait for the answer.
    fn may_stop(&self) -> bool;
}

/// Where nobody listens, as to `rrb_apply` and `rrb_multiply`.
pub struct Nobody;

impl Observer for Nobody {
    fn see(&mut self, _: Event) -> bool {
        false
    }

    fn may_stop(&self) -> bool {
        false
    }
}

/// Residuals and CG coefficients of the last solve. Memory is taken when `max_iter` is set.
#[derive(Clone, Debug, Default)]
pub struct History {
    residuals: Vec<f64>,
    coefficients: Vec<(f64, f64)>,
    first_run_ended: bool,
}

/// Entries kept at most, whatever `max_iter` says.
pub const HISTORY_LIMIT: usize = 1_000_000;

impl History {
    /// Takes memory for `max_iter` iterations.
    pub fn reserve(&mut self, max_iter: usize) -> crate::error::Result<()> {
        let len = max_iter.saturating_add(1).min(HISTORY_LIMIT);
        self.reserve_residuals(len)?;
        let missing = len.saturating_sub(self.coefficients.len());
        crate::error::reserve(&mut self.coefficients, missing, "a history of max_iter iterations")
    }

    /// Takes memory for `len` residuals alone.
    pub fn reserve_residuals(&mut self, len: usize) -> crate::error::Result<()> {
        let missing = len.saturating_sub(self.residuals.len());
        crate::error::reserve(&mut self.residuals, missing, "a history of residuals")
    }

    /// Forgets the last solve, keeps the memory.
    pub fn clear(&mut self) {
        self.residuals.clear();
        self.coefficients.clear();
        self.first_run_ended = false;
    }

    /// Adds a residual while there is room.
    pub fn push(&mut self, residual: f64) {
        if self.residuals.len() < self.residuals.capacity().min(HISTORY_LIMIT) {
            self.residuals.push(residual);
        }
    }

    /// Adds a step of CG. The Lanczos matrix ends at a restart, where beta is 0 again, and where rounding makes beta of
    /// the flexible method or alpha nonpositive: only positive coefficients make it positive definite.
    pub fn push_coefficients(&mut self, alpha: f64, beta: f64) {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        self.first_run_ended |= !(positive(alpha) && (self.coefficients.is_empty() || positive(beta)));
        if !self.first_run_ended && self.coefficients.len() < self.coefficients.capacity().min(HISTORY_LIMIT) {
            self.coefficients.push((alpha, beta));
        }
    }

    /// Relative residuals kept, from iteration 0.
    pub fn residuals(&self) -> &[f64] {
        &self.residuals
    }

    /// (alpha, beta) of the first run of CG.
    pub fn coefficients(&self) -> &[(f64, f64)] {
        &self.coefficients
    }
}
