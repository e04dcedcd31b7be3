//! The decisions of a solve: pure functions of its state and of the numbers that the steps have returned. A device
//! makes those of an iteration by itself: `kernels/common/scalars.cuh` has the same functions.
//!
//! | state | test | [`Code`] | [`Next`] |
//! |---|---|---|---|
//! | start, r = b - A x | norm <= threshold | `Met` | end, converged |
//! | | r or r'M^-1 r is rounding; the fourth restart, or the last one gained little | `Spent` | end, stagnated |
//! | | the observer asked to stop | `Paused` | end |
//! | | `max_iter` | `MaxIter` | end |
//! | | r'M^-1 r, or p'Ap, is not positive | `RhoBad`, `SigmaBad` | breakdown |
//! | iteration | norm <= threshold | `Met` | restart if the test confirms, else end |
//! | | `max_iter`; the observer asked to stop | `MaxIter`, `Paused` | end |
//! | | norm > divergence | `Diverged` | end |
//! | | r'M^-1 r or p'Ap is rounding; the residual stands still; a replacement found drift | `Spent` | restart |
//! | | another preconditioner promises less work | `Changed` | start with that |
//! | | r'M^-1 r, or p'Ap, is not positive | `RhoNegative`, ... | breakdown |
//!
//! A breakdown, and an end that misses the test on the whole grid, may begin another run ([`super::Caller`]).

use crate::backend::steps::pcg::{ENERGY, SQUARE};
use crate::backend::steps::state::{Code, Exact, Mark, State, Test};
use crate::error::Error;
use crate::options::Norm;
use crate::report::StopReason;

/// What the loop does next.
#[derive(Debug)]
pub enum Next {
    /// A start from r = b - A x.
    Start,
    /// An iteration: p, q = A p, rho and sigma are there.
    Iterate,
    /// r = b - A x, and a start.
    Restart,
    /// The same with another preconditioner: what the one before it missed does not count.
    Change,
    /// The end, unless the caller begins another run.
    End(StopReason),
    /// A breakdown.
    Fail(Error),
}

/// Restarts of a solve at most. Each takes away the rounding of the x before it: after three, numbers 1e45 times
/// too large are gone, and what is left does not come of the guess.
pub const MOST_RESTARTS: usize = 3;
/// Another restart follows if the last one reduced the norm to at most this part: at the rounding level a restart comes
/// back to the same residual.
pub const WORTH: f64 = 0.5;

/// Where CG is in single precision, r is replaced by b - A x in the iteration after <r, r> has fallen to this part of
/// its largest value since the last replacement, or r'M^-1 r to this part of its value there. The largest counts
/// because rounding is relative to it. r'M^-1 r counts because on a nearly singular system it falls at once, with the
/// constant in r, while rounding of the large S1 p has left another constant that the norm does not show.
pub(super) const FALLEN: f64 = 1e-8;
/// Or after this many iterations: rounding adds up where nothing falls, too.
pub(super) const EVERY: usize = 40;
/// Where <r, r> has to fall to no less than this part of its largest value, rounding is a small part of the residual
/// until the test is met, and a miss now and then costs less than the replacements.
pub(super) const NEAR: f64 = 1e-12;
/// The recurred <r, r> is off by this factor: rounding is a third of the residual, and p is of no more use.
pub(super) const OFF: f64 = 1.1;
/// r'M^-1 r is this many times its value before the replacement: likewise.
pub(super) const GROWN: f64 = 2.0;
/// <r, r> is at most this part of its value at the last replacement: the iterations have gained something all the same.
pub(super) const GAINED: f64 = 0.25;
/// r'M^-1 r is more than this part of its value before: where it has fallen further, CG is on its way.
pub(super) const HARDLY_LESS: f64 = 0.25;
/// And this many times what the beta of the iteration before would have made of it: most of it is rounding then, to
/// which p is not conjugate, and steps along such a p may lead away for good.
pub(super) const TURNED: f64 = 8.0;
/// <r, r> is this many times its value at the replacement before: likewise.
pub(super) const LED_AWAY: f64 = 100.0;

/// Iterations without a lower residual, of a preconditioner that contracts at any coefficients: a cycle of aggregation
/// takes three or four for a digit, and contrasts of 1e6 may begin with twenty that lower nothing. The recurred
/// residual may stand just above the threshold, where rounding allows no less, and grow after 50 iterations or more.
pub(super) const LONG: usize = 40;
/// Lower means at most this part.
pub(super) const LOWER: f64 = 0.7;
/// Part of the reference: above it, the 2-norm may stand still while the energy of the error falls.
pub(super) const NEAR_ROUNDING: f64 = 1e-4;

/// A square that is not positive, this small relative to the largest r'M^-1 r, is rounding: an indefinite matrix shows
/// before a residual has come down by five digits. On a singular system rounding also leaves r a constant, on which
/// M^-1 is zero.
pub(super) const NEGLIGIBLE: f64 = 1e-10;
/// p'Ap that is not positive is rounding if it is at most this many roundings of its terms: A is nearly singular.
pub(super) const ROUNDINGS: f64 = 64.0;

/// What a replacement of the residual has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced {
    /// See [`OFF`], [`GAINED`] and [`LED_AWAY`].
    pub(super) off: bool,
    pub(super) gained: bool,
    pub(super) led_away: bool,
}

/// Whether a square is that of a definite matrix: NaN and infinity are not.
pub(super) fn is_positive(square: f64) -> bool {
    square > 0.0 && square.is_finite()
}

/// Iterations that were done when `quantity` of `iteration` broke down.
pub fn done_before(quantity: &str, iteration: usize) -> usize {
    iteration - usize::from(quantity == ENERGY && iteration > 0)
}

fn breakdown(quantity: &'static str, value: f64, iteration: usize) -> Next {
    Next::Fail(Error::Breakdown { quantity, value, iteration })
}

impl State {
    /// What follows a test.
    pub(super) fn next(&self, code: Code) -> Next {
        match code {
            Code::Running => Next::Iterate,
            Code::Changed => Next::Change,
            Code::Met if self.recurred && self.test.confirms => Next::Restart,
            Code::Spent | Code::SigmaVanished if self.recurred => Next::Restart,
            // The iteration without a norm was not reported.
            Code::RhoNegative => breakdown(SQUARE, self.rho, self.iterations.saturating_sub(1)),
            Code::RhoBad => breakdown(SQUARE, self.rho, self.iterations),
            Code::SigmaBad => breakdown(ENERGY, self.sigma, self.iterations + 1),
            _ => Next::End(self.reason(code)),
        }
    }

    /// The reason of an end. A stop next to a test that a recurred residual meets counts if the caller finds it missed.
    fn reason(&self, code: Code) -> StopReason {
        match code {
            Code::Diverged => StopReason::Diverged,
            Code::Spent | Code::SigmaVanished => StopReason::Stagnated,
            Code::Met if !(self.recurred && self.stopped) => StopReason::Converged,
            _ if self.stopped => StopReason::Monitor,
            _ => StopReason::MaxIter,
        }
    }

    /// Forgets what this run has missed and offered.
    pub(super) fn begin_run(&mut self) {
        (self.restarts_of_run, self.offered, self.missed) = (0, 0, f64::INFINITY);
    }

    /// Counts a restart. The residual that the run began with has missed nothing.
    pub(super) fn count_restart(&mut self) {
        self.missed = if self.restarts_of_run > 0 { self.start.norm } else { f64::INFINITY };
        self.restarts_of_run += 1;
        self.restarts += 1;
    }

    /// Whether a restart may follow. NaN passes: it is a breakdown, which the steps show.
    pub(super) fn may_start(&self) -> bool {
        let fruitless = self.norm > WORTH * self.missed;
        self.restarts <= MOST_RESTARTS && !fruitless
    }

    /// Whether x of a restart is offered to the caller, who has the first x of the run anyway: below the rounding level
    /// a restart may make x worse.
    pub(super) fn offers(&mut self) -> bool {
        let offers = self.restarts_of_run > self.offered && self.norm < self.kept;
        if offers {
            self.offered = self.restarts_of_run;
        }
        offers
    }

    /// Test of r = b - A x in the 2-norm, which needs no M^-1 r.
    pub(super) fn test_residual(&mut self) -> Code {
        let test = &self.test;
        (self.norm, self.recurred) = (self.norm2.sqrt(), false);
        match test.norm {
            Norm::True2 if self.norm <= test.threshold => Code::Met,
            Norm::True2 if self.norm <= test.rounding => Code::Spent,
            _ => Code::Running,
        }
    }

    /// Test of a start with rho = <r, M^-1 r>. `rounding`: rounding explains its sign.
    pub(super) fn test_start(&mut self, rho: f64, rounding: bool) -> Code {
        let test = &self.test;
        // M is definite: on a singular system a guess may leave nothing but rounding.
        let constant = test.rounding > 0.0 && rho <= 0.0 && rho.is_finite();
        let spent = self.norm <= test.rounding || constant || rounding;
        self.rho = rho;
        if !spent && !is_positive(rho) {
            return Code::RhoBad;
        }
        self.largest_rho = self.largest_rho.max(rho);
        if test.norm == Norm::Preconditioned {
            self.norm = rho.abs().sqrt();
            if self.norm <= test.threshold {
                return Code::Met;
            }
        }
        match (spent, self.stopped) {
            (true, _) => Code::Spent,
            (_, true) => Code::Paused,
            _ if !self.may_start() => Code::Spent,
            _ if self.iterations >= test.max_iter => Code::MaxIter,
            _ => Code::Running,
        }
    }

    /// Notes a start.
    pub(super) fn begin(&mut self) {
        let Self { iterations, norm, norm2, rho, .. } = *self;
        self.start = Mark { iterations, norm };
        self.least = self.start;
        self.exact = Exact { iterations, norm2, rho, peak: norm2 };
        self.beta = 0.0;
    }

    /// The tested norm, of <r, r> and, in the preconditioned norm, of rho = <r, M^-1 r>.
    pub(super) fn take_norm(&mut self, rho: f64) -> Code {
        let preconditioned = self.test.norm == Norm::Preconditioned;
        let rho = if self.vanished(rho) { 0.0 } else { rho };
        self.norm = if preconditioned { rho } else { self.norm2 }.sqrt();
        if preconditioned && !(rho >= 0.0 && rho.is_finite()) { Code::RhoNegative } else { Code::Running }
    }

    /// The convergence check.
    pub(super) fn check_convergence(&self) -> Code {
        if self.norm <= self.test.threshold {
            Code::Met
        } else if self.iterations >= self.test.max_iter {
            Code::MaxIter
        } else {
            Code::Running
        }
    }

    /// The same, with what a device leaves to the host: the observer's wish and divergence.
    pub(super) fn check(&self) -> Code {
        match self.check_convergence() {
            Code::Running if self.stopped => Code::Paused,
            Code::Running if self.norm > self.test.divergence => Code::Diverged,
            code => code,
        }
    }

    /// The check of the methods other than PCG: the reason of the end, if this is one.
    pub fn over(&self) -> Option<StopReason> {
        let diverged = !self.norm.is_finite() || self.norm > self.test.divergence;
        let code = if diverged { Code::Diverged } else { self.check() };
        (code != Code::Running).then(|| self.reason(code))
    }

    /// The scalar update: rho = <r, M^-1 r>, and beta, a function of it and of the rho before.
    pub(super) fn take_rho(&mut self, rho: f64, beta: impl FnOnce(f64, f64) -> f64) -> Code {
        if self.vanished(rho) {
            return Code::Spent;
        }
        if !is_positive(rho) {
            return Code::RhoBad;
        }
        self.beta = beta(rho, self.rho);
        self.rho = rho;
        Code::Running
    }

    /// The end of an iteration: sigma = <p, A p>, and alpha of the next one.
    pub(super) fn take_sigma(&mut self, sigma: f64) -> Code {
        self.sigma = sigma;
        self.alpha = self.rho / sigma;
        if self.vanished(sigma) {
            Code::SigmaVanished
        } else if !is_positive(sigma) {
            Code::SigmaBad
        } else {
            Code::Running
        }
    }

    /// A square that is not positive, of a residual whose squares may vanish.
    fn vanished(&self, square: f64) -> bool {
        square <= 0.0 && self.norm2.sqrt() <= self.test.vanishing
    }

    /// Whether the next iteration replaces r by b - A x, where CG is in single precision.
    pub(super) fn is_replacement_due(&self) -> bool {
        let Test { norm, threshold, .. } = self.test;
        let low_peak = if norm == Norm::True2 { threshold * threshold / NEAR } else { 0.0 };
        let fell = self.exact.peak > low_peak && self.norm2 <= FALLEN * self.exact.peak;
        fell || self.rho <= FALLEN * self.exact.rho || self.iterations >= self.exact.iterations + EVERY
    }

    /// Notes a replacement: r = b - A x has <r, r> = `norm2`, the recurred residual had `recurred`. x has the step.
    pub(super) fn replace(&mut self, recurred: f64, norm2: f64) -> Replaced {
        let last = self.exact;
        self.exact = Exact { iterations: self.iterations, norm2, rho: f64::INFINITY, peak: norm2 };
        self.alpha = 0.0;
        Replaced {
            off: norm2 > OFF * recurred || OFF * norm2 < recurred,
            gained: norm2 <= GAINED * last.norm2,
            led_away: last.iterations > self.start.iterations && norm2 > LED_AWAY * last.norm2,
        }
    }

    /// Whether the direction after a replacement stays conjugate, p = z + beta p, else p = z. `rho`: r'M^-1 r of the
    /// replaced r. None: rounding has moved r far and nothing was gained, so that PCG restarts.
    pub(super) fn stays_conjugate(&self, replaced: Replaced, rho: f64) -> Option<bool> {
        let drifted = replaced.off || rho > GROWN * self.rho;
        // beta = 0 says nothing: p was z.
        let turned = self.beta > 0.0 && rho > HARDLY_LESS * self.rho && rho > TURNED * self.beta * self.rho;
        (!drifted || replaced.gained).then_some(!(drifted || replaced.led_away || turned))
    }

    /// Whether the residual has stood still for long, near the rounding level.
    pub(super) fn stands_still(&mut self) -> bool {
        if self.norm <= LOWER * self.least.norm {
            self.least = Mark { iterations: self.iterations, norm: self.norm };
        }
        self.iterations >= self.least.iterations + LONG && self.least.norm <= NEAR_ROUNDING * self.test.reference
    }

    /// A square that is not positive is rounding: the residual has vanished, or the square is small relative to the
    /// largest r'M^-1 r. In single precision, squares after the first may be anything.
    pub(super) fn is_negligible(&self, quantity: &str, square: f64, single: bool) -> bool {
        let compares = quantity != ENERGY || self.test.same_unit;
        square <= 0.0
            && (self.norm2.sqrt() <= self.test.vanishing
                || compares && -square <= NEGLIGIBLE * self.largest_rho
                || single && self.iterations > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;

    /// Numbers from a generator (SplitMix64), among them such as decisions turn on.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn real(&mut self) -> f64 {
            let uniform = self.next() as f64 / u64::MAX as f64;
            match self.next() % 16 {
                0 => 0.0,
                1 => -0.0,
                2 => -uniform,
                3 => uniform * 1e-300,
                4 => -uniform * 1e-300,
                5 => f64::from_bits(self.next()),
                6 => f64::NAN,
                7 => f64::INFINITY,
                8 => 1.0,
                _ => uniform,
            }
        }

        fn size(&mut self) -> f64 {
            self.real().abs()
        }
    }

    /// As in tests/emulator/driver.cpp.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    struct Decided {
        threshold: f64,
        vanishing: f64,
        rho: f64,
        sigma: f64,
        alpha: f64,
        beta: f64,
        norm2: f64,
        norm: f64,
        iterations: i64,
        max_iter: i64,
        preconditioned: i32,
        code: i32,
    }

    /// Decides, with <r, M^-1 r>, <r, r> and <p, A p>.
    type Decide = unsafe extern "C" fn(*mut Decided, f64, f64, f64);

    /// That of the emulated device.
    fn emulated() -> Option<Decide> {
        // SAFETY: asks the loader for a library, then for a function of the type it has in tests/emulator/driver.cpp.
        unsafe {
            let found = sys::is_culib_present().then(|| sys::culib().get::<Decide>(b"emulated_iteration\0"));
            found.and_then(std::result::Result::ok).map(|function| *function)
        }
    }

    /// The device's text decides as ours, to the bit.
    #[test]
    #[ignore = "needs an emulated device"]
    fn a_device_decides_alike() {
        let device = emulated().expect("an emulated device (tests/emulator)");
        let mut numbers = Numbers(1);
        for case in 0..100_000 {
            let norm = if numbers.next().is_multiple_of(2) { Norm::True2 } else { Norm::Preconditioned };
            let test = Test {
                norm,
                threshold: numbers.size(),
                reference: 1.0,
                max_iter: (numbers.next() % 4) as usize,
                centers: false,
                rounding: 0.0,
                vanishing: numbers.size(),
                center_max: 1.0,
                definite: true,
                confirms: false,
                divergence: f64::INFINITY,
                same_unit: true,
                general: false,
            };
            let norm2 = numbers.size();
            let mut at = State::new(test, norm2, (numbers.next() % 3) as usize);
            (at.rho, at.alpha, at.beta) = (numbers.size(), numbers.real(), numbers.real());
            let [rho, norm2, sigma] = [numbers.real(), numbers.size(), numbers.real()];
            let state = |at: &State, code: Code| Decided {
                threshold: test.threshold,
                vanishing: test.vanishing,
                rho: at.rho,
                sigma: at.sigma,
                alpha: at.alpha,
                beta: at.beta,
                norm2: at.norm2,
                norm: at.norm,
                iterations: at.iterations as i64,
                max_iter: test.max_iter as i64,
                preconditioned: i32::from(norm == Norm::Preconditioned),
                code: code as i32,
            };
            let mut its = state(&at, Code::Running);
            // SAFETY: changes what it is given alone.
            unsafe { device(&mut its, rho, norm2, sigma) };
            at.iterations += 1;
            at.norm2 = norm2;
            let mut code = at.take_norm(rho);
            if code == Code::Running {
                code = at.check_convergence();
            }
            if code == Code::Running {
                code = at.take_rho(rho, |rho, rho_old| rho / rho_old);
            }
            if code == Code::Running {
                code = at.take_sigma(sigma);
            }
            // A NaN's sign says nothing.
            let bits = |v: f64| if v.is_nan() { u64::MAX } else { v.to_bits() };
            let all = |d: Decided| {
                let reals = [d.rho, d.sigma, d.alpha, d.beta, d.norm2, d.norm].map(bits);
                (d.code, d.iterations, reals)
            };
            let ours = state(&at, code);
            assert_eq!(all(ours), all(its), "case {case}: {ours:?}, on the device {its:?}");
        }
    }
}
