//! State and convergence check of the methods other than PCG.

use super::state::{PcgEnd, Start, Test};
use crate::backend::steps::vectors::KrylovSteps;
use crate::report::StopReason;

/// Iterations and the tested norm.
pub(super) struct Progress<'t> {
    test: &'t Test,
    /// Iterations done.
    pub(super) iterations: usize,
    /// Norm of the last residual.
    pub(super) norm: f64,
}

impl<'t> Progress<'t> {
    /// At a start. Returns the end where there is nothing to iterate for.
    pub(super) fn begin(test: &'t Test, start: Start) -> (Self, Option<PcgEnd>) {
        let at = Self { test, iterations: start.iterations, norm: start.norm2.sqrt() };
        let end = at.decide(false);
        (at, end)
    }

    /// An iteration is done, with this norm of the residual: tells the observer. Returns the end if this is it.
    pub(super) fn check<S: KrylovSteps + ?Sized>(&mut self, s: &mut S, norm: f64) -> Option<PcgEnd> {
        self.iterations += 1;
        self.norm = norm;
        let stopped = s.observe(self.iterations, norm / self.test.reference);
        self.decide(stopped)
    }

    /// A norm that is too large or no number; norm <= threshold; `max_iter`. A stop beside a met test counts if the
    /// caller finds that missed.
    fn decide(&self, stopped: bool) -> Option<PcgEnd> {
        let test = self.test;
        if !self.norm.is_finite() || self.norm > test.divergence {
            Some(self.ended(StopReason::Diverged))
        } else if stopped {
            Some(self.ended(StopReason::Monitor))
        } else if self.norm <= test.threshold {
            Some(self.ended(StopReason::Converged))
        } else if self.iterations >= test.max_iter {
            Some(self.ended(StopReason::MaxIter))
        } else {
            None
        }
    }

    /// The method cannot go on: a number that it divides by has vanished, or is not finite.
    pub(super) fn broken(&self) -> PcgEnd {
        self.ended(StopReason::Stagnated)
    }

    fn ended(&self, reason: StopReason) -> PcgEnd {
        PcgEnd { iterations: self.iterations, norm: self.norm, reason }
    }
}

/// Whether a method may divide by this.
pub(super) fn divides(value: f64) -> bool {
    value != 0.0 && value.is_finite()
}
