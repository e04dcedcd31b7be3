//! Residual replacement, where CG is in single precision: r = b - A x in double precision in place of r - alpha q.

use super::state::{Iteration, Test};
use crate::backend::steps::pcg::PcgSteps;
use crate::options::Norm;

/// When the residual is replaced, and where r was b - A x itself last.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replacement {
    /// <r, r> there.
    norm2: f64,
    /// r'M^-1 r there.
    rho: f64,
    /// Iterations done there.
    iterations: usize,
    /// Iterations done at the start.
    started: usize,
    /// Largest <r, r> since.
    peak: f64,
    /// A peak of <r, r> up to which its fall asks for no replacement.
    low_peak: f64,
}

impl Replacement {
    /// r is replaced in the iteration after <r, r> has fallen to this of its largest since the last replacement, or
    /// r'M^-1 r to this of that at the replacement. The largest counts since rounding is relative to it. r'M^-1 r
    /// counts since on a nearly singular system it falls at once, with the constant in r, while rounding of the large
    /// S1 p has left r another one that the norm does not show: M^-1 would make much of it later.
    pub(super) const FALLEN: f64 = 1e-8;
    /// Or after so many iterations: rounding adds up where nothing falls, too.
    pub(super) const EVERY: usize = 40;
    /// Where <r, r> has to fall to no less than this of its largest, rounding is a small part of the residual until the
    /// test is met, and a miss now and then costs less than a replacement each time.
    pub(super) const NEAR: f64 = 1e-12;

    /// At a start r is b - A x.
    pub(super) fn start(test: &Test, at: &Iteration) -> Self {
        let low_peak = if test.norm == Norm::True2 { test.threshold * test.threshold / Self::NEAR } else { 0.0 };
        let (norm2, rho, iterations) = (at.norm2, at.rho, at.iterations);
        Self { norm2, rho, iterations, started: iterations, peak: norm2, low_peak }
    }

    /// Whether the next iteration replaces r, where CG is in single precision.
    pub(super) fn is_due(&self, at: &Iteration) -> bool {
        let norm_fell = self.peak > self.low_peak && at.norm2 <= Self::FALLEN * self.peak;
        norm_fell || at.rho <= Self::FALLEN * self.rho || at.iterations >= self.iterations + Self::EVERY
    }

    /// r = r - alpha q, <r, r>: an iteration without replacement.
    pub(super) fn recur<S: PcgSteps + ?Sized>(&mut self, s: &mut S, at: &mut Iteration) -> Option<Replaced> {
        at.norm2 = s.descend(Some(at.alpha));
        self.peak = self.peak.max(at.norm2);
        None
    }

    /// x = x + alpha p, r = b - A x, <r, r>.
    pub(super) fn replace<S: PcgSteps + ?Sized>(&mut self, s: &mut S, at: &mut Iteration) -> Replaced {
        let (recurred, norm2) = s.replace_residual(at.alpha);
        let replaced = Replaced {
            drift: Drift::between(recurred, norm2, self.norm2),
            led_away: self.iterations > self.started && norm2 > Turn::LED_AWAY * self.norm2,
        };
        (self.norm2, self.rho, self.iterations, self.peak) = (norm2, f64::INFINITY, at.iterations, norm2);
        at.alpha = 0.0;
        at.norm2 = s.descend(None);
        replaced
    }

    /// r'M^-1 r of the r that was replaced.
    pub(super) fn measure_from(&mut self, rho: f64) {
        self.rho = rho;
    }
}

/// Where the iteration goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// p = z + beta p.
    Conjugate,
    /// p = z.
    Steepest,
    /// A restart.
    Lost,
}

/// What a replacement has found.
pub(super) struct Replaced {
    pub(super) drift: Drift,
    /// See [`Turn::LED_AWAY`].
    pub(super) led_away: bool,
}

impl Replaced {
    /// Rounding has mostly changed r little, and the iteration goes on in its direction. `rho`: r'M^-1 r of the
    /// replaced r.
    pub(super) fn direction(&self, at: &Iteration, rho: f64) -> Direction {
        let drifted = self.drift.is_large(rho, at.rho);
        if drifted && !self.drift.gained {
            Direction::Lost
        } else if drifted || self.led_away || Turn::is_taken(rho, at.rho, at.beta) {
            Direction::Steepest
        } else {
            Direction::Conjugate
        }
    }
}

/// How far the recurred residual was from the replaced one. Far off, p is of no more use: p = z again. If moreover
/// nothing was gained since the last replacement, PCG starts again, as after a missed test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drift {
    pub(super) off: bool,
    pub(super) gained: bool,
}

impl Drift {
    /// <r, r> of what was recurred is off by this factor: rounding is a third of the residual.
    pub(super) const OFF: f64 = 1.1;
    /// r'M^-1 r is so many times what it was: likewise.
    pub(super) const GROWN: f64 = 2.0;
    /// <r, r> is at most this of that at the last replacement: something was gained all the same.
    pub(super) const GAINED: f64 = 0.25;

    /// Of <r, r> as it was recurred, as it is, and at the replacement before.
    pub(super) fn between(recurred: f64, norm2: f64, before: f64) -> Self {
        let off = norm2 > Self::OFF * recurred || Self::OFF * norm2 < recurred;
        Self { off, gained: norm2 <= Self::GAINED * before }
    }

    fn is_large(&self, rho: f64, rho_old: f64) -> bool {
        self.off || rho > Self::GROWN * rho_old
    }
}

/// A turn of r'M^-1 r, or of the norm, at a replacement that shows no drift. Most of r'M^-1 r is rounding then, to
/// which p is not conjugate, and steps along such a p may lead away for good: p = z.
pub(super) struct Turn;

impl Turn {
    /// r'M^-1 r is more than this of what it was: where it has fallen further, CG is on its way.
    pub(super) const HARDLY_LESS: f64 = 0.25;
    /// r'M^-1 r is so many times what the beta of the iteration before would have made of it.
    pub(super) const TURNED: f64 = 8.0;
    /// <r, r> has become so many times that of the replacement before.
    pub(super) const LED_AWAY: f64 = 100.0;

    /// `beta`: of the iteration before. Zero says nothing: p was z.
    pub(super) fn is_taken(rho: f64, rho_old: f64, beta: f64) -> bool {
        beta > 0.0 && rho > Self::HARDLY_LESS * rho_old && rho > Self::TURNED * beta * rho_old
    }
}
