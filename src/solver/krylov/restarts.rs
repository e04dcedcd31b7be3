//! Restarts: PCG starts again from a recomputed residual that missed the test.

/// The restarts of a solve. It may consist of several runs of PCG, which have the number in common.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    /// In the whole solve.
    pub done: usize,
    /// In this run.
    in_run: usize,
    /// The norm that this run started from last.
    started_from: f64,
    /// The norm that it started from before, after a miss.
    missed: f64,
}

impl Restarts {
    /// Restarts of a solve at most. Each takes away the rounding of the x before it: after three, numbers 1e45 times
    /// too large are gone, and what is left does not come of the guess.
    pub const MOST: usize = 3;
    /// What a restart must make of the norm before to be followed by another: where rounding allows no more, it comes
    /// back to the same residual.
    pub const WORTH: f64 = 0.5;

    /// A solve that has not yet started again.
    pub fn none() -> Self {
        Self { done: 0, in_run: 0, started_from: f64::INFINITY, missed: f64::INFINITY }
    }

    /// A run of PCG begins: it has missed nothing.
    pub(super) fn begin_run(&mut self) {
        *self = Self { done: self.done, ..Self::none() };
    }

    pub(super) fn in_run(&self) -> usize {
        self.in_run
    }

    /// Notes the tested norm at a start.
    pub(super) fn start_from(&mut self, norm: f64) {
        self.started_from = norm;
    }

    /// Counts a restart. The residual that the run began with has missed nothing.
    pub(super) fn count(&mut self) {
        self.missed = if self.in_run > 0 { self.started_from } else { f64::INFINITY };
        self.in_run += 1;
        self.done += 1;
    }

    /// Whether PCG may go on from a residual of this norm. NaN passes: it is a breakdown, which the steps tell.
    pub(super) fn allow(&self, norm: f64) -> bool {
        let fruitless = norm > Self::WORTH * self.missed;
        self.done <= Self::MOST && !fruitless
    }
}
