//! Decisions of a solve: how PCG continues after each test (docs/theory/rrb.md, stopping test).
//!
//! The functions depend only on the [`State`] and on the scalars that the steps return. Within its loop, a device
//! decides about convergence, `max_iter` and breakdown by functions with the same formulas in
//! `kernels/common/scalars.cuh`. The results on the host and on a device must be bitwise identical.
//!
//! | state | condition | [`Code`] | [`Next`] |
//! |---|---|---|---|
//! | start, r = b - A x | norm <= threshold | `Converged` | end, converged |
//! | | r, r'M^-1 r or p'Ap is below the rounding level | `NeedsRestart`, `SigmaVanished` | end, stagnated |
//! | | the observer requested a stop | `Paused` | end |
//! | | fourth restart, or the last restart did not halve the norm | `NeedsRestart` | end, stagnated |
//! | | iterations >= `max_iter` | `MaxIter` | end |
//! | | r'M^-1 r or p'Ap is not positive | `RhoBad`, `SigmaBad` | breakdown |
//! | iteration | norm <= threshold | `Converged` | restart if `Test::confirms`, else end |
//! | | iterations >= `max_iter` | `MaxIter` | end |
//! | | the observer requested a stop | `Paused` | end |
//! | | norm > divergence | `Diverged` | end |
//! | | r'M^-1 r or p'Ap is below the rounding level | `NeedsRestart`, `SigmaVanished` | restart |
//! | | another preconditioner needs less estimated work | `Changed` | start with the new preconditioner |
//! | | the residual stagnates, or a replacement found drift | `NeedsRestart` | restart |
//! | | r'M^-1 r or p'Ap is not positive | `RhoNegative`, `RhoBad`, `SigmaBad` | breakdown |
//!
//! After a breakdown, or if x fails the test on the whole grid, the caller may begin another run ([`super::Caller`]).

use crate::error::Error;
use crate::krylov::pcg::{RHO_NAME, SIGMA_NAME};
use crate::krylov::state::{Code, Mark, State, Test, TrueResidual};
use crate::options::Norm;
use crate::report::StopReason;

/// Next step of the PCG loop.
#[derive(Debug)]
pub enum Next {
    /// Start from r = b - A x, which is already computed.
    Start,
    /// One iteration; p, q = A p, rho and sigma are already computed.
    Iterate,
    /// Recompute r = b - A x, count a restart, and start.
    Restart,
    /// Recompute r = b - A x and start with another preconditioner. From then on, the norms at restarts with the
    /// previous one are not compared, but these restarts still count for [`MOST_RESTARTS`].
    Change,
    /// End of the run. The caller may begin another run.
    End(StopReason),
    /// Breakdown. The caller may recover.
    Fail(Error),
}

/// Largest number of restarts per solve. Each restart reduces the rounding errors that the initial guess causes by a
/// factor of about 1e15. After three restarts, even a guess 1e45 times too large no longer affects the residual.
pub const MOST_RESTARTS: usize = 3;
/// PCG starts after a restart only if the recomputed norm is at most this fraction of the norm at the previous restart
/// of the run. At the rounding level, the recomputed norm no longer decreases from one restart to the next.
pub const RESTART_REDUCTION: f64 = 0.5;

/// Relative decrease of <r, r> or r'M^-1 r that triggers a residual replacement in single precision. The next iteration
/// then replaces r by b - A x (docs/theory/rrb.md, conjugate gradients in single precision).
///
/// - <r, r> is compared with its largest value since the last replacement, because rounding is relative to this value.
/// - r'M^-1 r is compared with its value at the last replacement. On a nearly singular system, M^-1 amplifies a
///   constant component of r. r'M^-1 r therefore shows this component, while <r, r> may not. The first iterations
///   remove the constant, and r'M^-1 r falls. Their rounding errors leave another constant in r.
pub(super) const REPLACEMENT_DECREASE: f64 = 1e-8;
/// Largest number of iterations between two residual replacements. Rounding errors accumulate even if <r, r> does not
/// decrease.
pub(super) const REPLACEMENT_INTERVAL: usize = 40;
/// If threshold^2 >= `NEAR_THRESHOLD` times the largest <r, r>, a decrease of <r, r> triggers no replacement (2-norm
/// only). The rounding errors, about 6e-8 of the largest norm, then stay a small part of the residual until
/// convergence. If the confirmation fails occasionally, the restart costs less than the replacements.
pub(super) const NEAR_THRESHOLD: f64 = 1e-12;
/// The residual has drifted if the recurred and the recomputed <r, r> differ by more than this factor. If the rounding
/// error is orthogonal to the residual, its norm is then about one third of the norm of the residual, since
/// sqrt(0.1) = 0.32, and p is no longer useful.
pub(super) const DRIFT: f64 = 1.1;
/// The residual has also drifted if r'M^-1 r exceeds its value before the replacement by this factor.
pub(super) const RHO_DRIFT: f64 = 2.0;
/// After drift, CG continues with p = z if <r, r> is at most this fraction of its value at the previous replacement.
/// Otherwise CG restarts.
pub(super) const SUFFICIENT_DECREASE: f64 = 0.25;
/// If a replacement leaves r'M^-1 r at or below this fraction of its previous value, CG converges fast enough, and
/// `UNPREDICTED_GROWTH` is not tested.
pub(super) const FAST_DECREASE: f64 = 0.25;
/// CG continues with p = z if r'M^-1 r exceeds the predicted value, the previous beta times the previous r'M^-1 r, by
/// this factor. Most of r is then rounding error, to which p is not conjugate. Further steps along p may diverge.
pub(super) const UNPREDICTED_GROWTH: f64 = 8.0;
/// CG continues with p = z if <r, r> exceeds its value at the previous replacement by this factor.
pub(super) const EXCESSIVE_GROWTH: f64 = 100.0;

/// Number of iterations without a lower residual after which the residual counts as stagnant. Applies only to
/// preconditioners that reduce the error quickly for all coefficients (`Properties::contracts_quickly`).
///
/// - The number is far above the three or four iterations per decimal digit that CG needs with an aggregation cycle.
/// - It exceeds 20, because the first twenty iterations may not reduce the residual if the coefficients differ by
///   factors of 1e6.
/// - It is below 50, because at the rounding level the recurred residual may stay just above the threshold and grow
///   after 50 or more iterations.
pub(super) const STAGNATION_ITERATIONS: usize = 40;
/// A residual counts as lower if its norm is at most this fraction of the smallest norm since the start
/// (`State::smallest`).
pub(super) const LOWER_NORM: f64 = 0.7;
/// A residual counts as stagnant only if its norm is at most this fraction of the reference. Above this limit, the
/// 2-norm may be constant while the energy norm of the error decreases.
pub(super) const STAGNATION_NORM: f64 = 1e-4;

/// Magnitude below which a nonpositive square is attributed to rounding, relative to the largest r'M^-1 r. The value is
/// the square of 1e-5: an indefinite matrix causes a nonpositive square before the residual has decreased by five
/// digits. On a singular system, rounding also leaves a constant in r. P M^-1 P (see `PcgSteps::precondition`) maps it
/// to zero, so that r'M^-1 r may become nonpositive.
pub(super) const NEGLIGIBLE: f64 = 1e-10;
/// A nonpositive p'Ap is attributed to rounding if |p'Ap| <= `ROUNDING_FACTOR` epsilon |p|'|A||p|. A is then nearly
/// singular.
pub(super) const ROUNDING_FACTOR: f64 = 64.0;

/// Result of a residual replacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced {
    /// The recurred and the recomputed <r, r> differ by more than the factor [`DRIFT`].
    pub(super) drifted: bool,
    /// <r, r> is at most [`SUFFICIENT_DECREASE`] times its value at the previous replacement.
    pub(super) decreased: bool,
    /// <r, r> has grown by more than the factor [`EXCESSIVE_GROWTH`] since the previous replacement. False for the
    /// first replacement since the start.
    pub(super) grown: bool,
}

/// Returns whether `square`, a value r'M^-1 r or p'Ap, is positive and finite. This holds if M or A is positive
/// definite and the vector is not zero, except for rounding errors and overflow.
pub(super) fn is_positive(square: f64) -> bool {
    square > 0.0 && square.is_finite()
}

/// Returns the number of completed iterations if `quantity` broke down in iteration `iteration`. An iteration begins
/// with p'Ap, so a breakdown of p'Ap leaves the iteration incomplete.
pub fn completed_iterations(quantity: &str, iteration: usize) -> usize {
    iteration - usize::from(quantity == SIGMA_NAME && iteration > 0)
}

fn breakdown(quantity: &'static str, value: f64, iteration: usize) -> Next {
    Next::Fail(Error::Breakdown { quantity, value, iteration })
}

impl State {
    /// Returns the step that follows the result of a test.
    pub(super) fn next(&self, code: Code) -> Next {
        match code {
            Code::Running => Next::Iterate,
            Code::Changed => Next::Change,
            Code::Converged if self.recurred && self.test.confirms => Next::Restart,
            Code::NeedsRestart | Code::SigmaVanished if self.recurred => Next::Restart,
            // With the preconditioned norm, an iteration with a negative rho has no norm and is not reported to the
            // observer. The error therefore contains the number of the previous iteration.
            Code::RhoNegative => breakdown(RHO_NAME, self.rho, self.iterations.saturating_sub(1)),
            Code::RhoBad => breakdown(RHO_NAME, self.rho, self.iterations),
            Code::SigmaBad => breakdown(SIGMA_NAME, self.sigma, self.iterations + 1),
            _ => Next::End(self.reason(code)),
        }
    }

    /// Returns the stop reason. If the observer stops the iteration in which the recurred residual converges, the
    /// reason is `Monitor`. The caller replaces it by `Converged` if the recomputed residual satisfies the test.
    fn reason(&self, code: Code) -> StopReason {
        match code {
            Code::Diverged => StopReason::Diverged,
            Code::NeedsRestart | Code::SigmaVanished => StopReason::Stagnated,
            Code::Converged if !(self.recurred && self.stopped) => StopReason::Converged,
            _ if self.stopped => StopReason::Monitor,
            _ => StopReason::MaxIter,
        }
    }

    /// Resets the restart statistics of the run.
    pub(super) fn begin_run(&mut self) {
        (self.restarts_of_run, self.last_passed, self.previous_restart_norm) = (0, 0, f64::INFINITY);
    }

    /// Counts a restart and records the norm at the previous restart of the run. If there was no previous restart, the
    /// recorded norm is infinite, so that `may_start` accepts every norm.
    pub(super) fn count_restart(&mut self) {
        self.previous_restart_norm = if self.restarts_of_run > 0 { self.start.norm } else { f64::INFINITY };
        self.restarts_of_run += 1;
        self.restarts += 1;
    }

    /// Returns whether PCG may start from the current residual. A norm of NaN does not prevent the start, so that the
    /// steps report a breakdown.
    pub(super) fn may_start(&self) -> bool {
        let fruitless = self.norm > RESTART_REDUCTION * self.previous_restart_norm;
        self.restarts <= MOST_RESTARTS && !fruitless
    }

    /// Returns whether `Caller::store_if_better` receives the x of this restart. A restart at the rounding level may
    /// increase the residual, so the residual norm of x must be below that of the stored iterate. The caller already
    /// has the first x of the run. Records the restart, so that its x is passed only once.
    pub(super) fn passes_iterate(&mut self) -> bool {
        let passes_iterate = self.restarts_of_run > self.last_passed && self.norm < self.stored_norm;
        if passes_iterate {
            self.last_passed = self.restarts_of_run;
        }
        passes_iterate
    }

    /// Tests r = b - A x in the 2-norm, which does not require M^-1 r. With the preconditioned norm, returns `Running`.
    pub(super) fn test_residual(&mut self) -> Code {
        let test = &self.test;
        (self.norm, self.recurred) = (self.norm2.sqrt(), false);
        match test.norm {
            Norm::True2 if self.norm <= test.threshold => Code::Converged,
            Norm::True2 if self.norm <= test.rounding => Code::NeedsRestart,
            _ => Code::Running,
        }
    }

    /// Tests a start with rho = <r, M^-1 r>. `rounding`: whether rounding can explain a nonpositive rho.
    pub(super) fn test_start(&mut self, rho: f64, rounding: bool) -> Code {
        let test = &self.test;
        // On a singular system, the residual of a guess may consist only of rounding errors. A nonpositive rho is
        // attributed to them.
        let constant = test.rounding > 0.0 && rho <= 0.0 && rho.is_finite();
        let below_rounding = self.norm <= test.rounding || constant || rounding;
        self.rho = rho;
        if !below_rounding && !is_positive(rho) {
            return Code::RhoBad;
        }
        self.largest_rho = self.largest_rho.max(rho);
        if test.norm == Norm::Preconditioned {
            self.norm = rho.abs().sqrt();
            if self.norm <= test.threshold {
                return Code::Converged;
            }
        }
        match (below_rounding, self.stopped) {
            (true, _) => Code::NeedsRestart,
            (_, true) => Code::Paused,
            _ if !self.may_start() => Code::NeedsRestart,
            _ if self.iterations >= test.max_iter => Code::MaxIter,
            _ => Code::Running,
        }
    }

    /// Records the iteration, the norm, <r, r> and rho at a start of PCG, for later comparisons; sets beta = 0. At a
    /// start, r is b - A x, not a recurred residual.
    pub(super) fn begin(&mut self) {
        let Self { iterations, norm, norm2, rho, .. } = *self;
        self.start = Mark { iterations, norm };
        self.smallest = self.start;
        self.true_residual = TrueResidual { iterations, norm2, rho, peak: norm2 };
        self.beta = 0.0;
    }

    /// Computes the tested norm: sqrt(<r, r>), or sqrt(rho) with rho = <r, M^-1 r> in the preconditioned norm. Returns
    /// `RhoNegative` if sqrt(rho) is needed but rho is negative, infinite or NaN. A negative rho counts as 0 if squares
    /// may underflow.
    pub(super) fn set_norm(&mut self, rho: f64) -> Code {
        let preconditioned = self.test.norm == Norm::Preconditioned;
        let rho = if self.vanished(rho) { 0.0 } else { rho };
        self.norm = if preconditioned { rho } else { self.norm2 }.sqrt();
        if preconditioned && !(rho >= 0.0 && rho.is_finite()) { Code::RhoNegative } else { Code::Running }
    }

    /// Tests convergence and the iteration limit.
    pub(super) fn check_convergence(&self) -> Code {
        if self.norm <= self.test.threshold {
            Code::Converged
        } else if self.iterations >= self.test.max_iter {
            Code::MaxIter
        } else {
            Code::Running
        }
    }

    /// Tests convergence, the iteration limit, the observer's request and divergence. A device leaves the last two
    /// tests to the host.
    pub(super) fn check(&self) -> Code {
        match self.check_convergence() {
            Code::Running if self.stopped => Code::Paused,
            Code::Running if self.norm > self.test.divergence => Code::Diverged,
            code => code,
        }
    }

    /// Tests the residual of a method other than PCG. Returns the stop reason if the run ends.
    pub fn reason_to_stop(&self) -> Option<StopReason> {
        let diverged = !self.norm.is_finite() || self.norm > self.test.divergence;
        let code = if diverged { Code::Diverged } else { self.check() };
        (code != Code::Running).then(|| self.reason(code))
    }

    /// Stores rho = <r, M^-1 r> and beta(rho, previous rho). If rho is not positive and finite, returns `NeedsRestart`
    /// or `RhoBad` and stores nothing.
    pub(super) fn set_rho(&mut self, rho: f64, beta: impl FnOnce(f64, f64) -> f64) -> Code {
        if self.vanished(rho) {
            return Code::NeedsRestart;
        }
        if !is_positive(rho) {
            return Code::RhoBad;
        }
        self.beta = beta(rho, self.rho);
        self.rho = rho;
        Code::Running
    }

    /// Stores sigma = <p, A p> and alpha = rho / sigma of the next iteration. Returns `SigmaVanished` or `SigmaBad` if
    /// sigma is not positive and finite.
    pub(super) fn set_sigma(&mut self, sigma: f64) -> Code {
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

    /// Returns whether `square` is nonpositive and the residual is so small that its squares may underflow.
    fn vanished(&self, square: f64) -> bool {
        square <= 0.0 && self.norm2.sqrt() <= self.test.vanishing
    }

    /// Returns whether the next iteration replaces r by b - A x if CG runs in single precision. See
    /// `REPLACEMENT_DECREASE`, `REPLACEMENT_INTERVAL` and `NEAR_THRESHOLD`.
    pub(super) fn is_replacement_due(&self) -> bool {
        let Test { norm, threshold, .. } = self.test;
        let low_peak = if norm == Norm::True2 { threshold * threshold / NEAR_THRESHOLD } else { 0.0 };
        let fell = self.true_residual.peak > low_peak && self.norm2 <= REPLACEMENT_DECREASE * self.true_residual.peak;
        fell || self.rho <= REPLACEMENT_DECREASE * self.true_residual.rho
            || self.iterations >= self.true_residual.iterations + REPLACEMENT_INTERVAL
    }

    /// Records a residual replacement. `norm2` is <r, r> of r = b - A x; `recurred` is <r, r> of the recurred residual.
    /// Sets alpha = 0, because x already includes the update.
    pub(super) fn replace(&mut self, recurred: f64, norm2: f64) -> Replaced {
        let last = self.true_residual;
        self.true_residual = TrueResidual { iterations: self.iterations, norm2, rho: f64::INFINITY, peak: norm2 };
        self.alpha = 0.0;
        Replaced {
            drifted: norm2 > DRIFT * recurred || DRIFT * norm2 < recurred,
            decreased: norm2 <= SUFFICIENT_DECREASE * last.norm2,
            grown: last.iterations > self.start.iterations && norm2 > EXCESSIVE_GROWTH * last.norm2,
        }
    }

    /// Returns whether the direction after a replacement is p = z + beta p (`true`) or p = z (`false`). Returns `None`
    /// if PCG must restart: the residual has drifted and has not decreased. `rho` is r'M^-1 r of the recomputed r.
    pub(super) fn stays_conjugate(&self, replaced: Replaced, rho: f64) -> Option<bool> {
        let drifted = replaced.drifted || rho > RHO_DRIFT * self.rho;
        // If beta = 0, the last direction was p = z, and beta predicts nothing.
        let turned =
            self.beta > 0.0 && rho > FAST_DECREASE * self.rho && rho > UNPREDICTED_GROWTH * self.beta * self.rho;
        (!drifted || replaced.decreased).then_some(!(drifted || replaced.grown || turned))
    }

    /// Returns whether the residual stagnates near the rounding level. See `STAGNATION_ITERATIONS`, `LOWER_NORM` and
    /// `STAGNATION_NORM`.
    pub(super) fn stagnates(&mut self) -> bool {
        if self.norm <= LOWER_NORM * self.smallest.norm {
            self.smallest = Mark { iterations: self.iterations, norm: self.norm };
        }
        self.iterations >= self.smallest.iterations + STAGNATION_ITERATIONS
            && self.smallest.norm <= STAGNATION_NORM * self.test.reference
    }

    /// Returns whether a nonpositive `square` is attributed to rounding without further computation. This is the case
    /// if squares of the residual may underflow, or if |square| <= `NEGLIGIBLE` times the largest r'M^-1 r (for p'Ap
    /// only with `Test::same_unit`). In single precision, every nonpositive square is attributed to rounding, except
    /// before the first iteration.
    pub(super) fn is_negligible(&self, quantity: &str, square: f64, single: bool) -> bool {
        let compares = quantity != SIGMA_NAME || self.test.same_unit;
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

    /// Pseudorandom numbers (SplitMix64), including special values at which decisions change.
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

        fn magnitude(&mut self) -> f64 {
            self.real().abs()
        }
    }

    /// Input and output of `emulated_iteration`. The layout matches tests/emulator/driver.cpp.
    #[repr(C)]
    #[derive(Clone, Copy, Debug)]
    struct EmulatedState {
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

    /// Function of the emulated device that computes the decisions of one iteration. Its arguments are the state, which
    /// it updates, and <r, M^-1 r>, <r, r> and <p, A p>.
    type Decide = unsafe extern "C" fn(*mut EmulatedState, f64, f64, f64);

    /// Returns the function of the emulated device, if the emulator is loaded.
    fn emulated() -> Option<Decide> {
        // SAFETY: the library is only loaded if it is present. The type `Decide` matches the definition of the function
        // in tests/emulator/driver.cpp.
        unsafe {
            let found = sys::is_culib_present().then(|| sys::culib().get::<Decide>(b"emulated_iteration\0"));
            found.and_then(std::result::Result::ok).map(|function| *function)
        }
    }

    /// The device functions return bitwise the results of the host functions.
    #[test]
    #[ignore = "needs an emulated device"]
    fn device_and_host_decide_identically() {
        let device = emulated().expect("an emulated device (tests/emulator)");
        let mut numbers = Numbers(1);
        for case in 0..100_000 {
            let norm = if numbers.next().is_multiple_of(2) { Norm::True2 } else { Norm::Preconditioned };
            let test = Test {
                norm,
                threshold: numbers.magnitude(),
                reference: 1.0,
                max_iter: (numbers.next() % 4) as usize,
                subtracts_means: false,
                rounding: 0.0,
                vanishing: numbers.magnitude(),
                center_max: 1.0,
                definite: true,
                confirms: false,
                divergence: f64::INFINITY,
                same_unit: true,
                may_be_indefinite: false,
            };
            let norm2 = numbers.magnitude();
            let mut at = State::new(test, norm2, (numbers.next() % 3) as usize);
            (at.rho, at.alpha, at.beta) = (numbers.magnitude(), numbers.real(), numbers.real());
            let [rho, norm2, sigma] = [numbers.real(), numbers.magnitude(), numbers.real()];
            let state = |at: &State, code: Code| EmulatedState {
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
            // SAFETY: the function writes only to `its`, which is valid and exclusively borrowed during the call.
            unsafe { device(&mut its, rho, norm2, sigma) };
            at.iterations += 1;
            at.norm2 = norm2;
            let mut code = at.set_norm(rho);
            if code == Code::Running {
                code = at.check_convergence();
            }
            if code == Code::Running {
                code = at.set_rho(rho, |rho, rho_old| rho / rho_old);
            }
            if code == Code::Running {
                code = at.set_sigma(sigma);
            }
            // The sign and the payload of a NaN are not compared.
            let bits = |v: f64| if v.is_nan() { u64::MAX } else { v.to_bits() };
            let all = |d: EmulatedState| {
                let reals = [d.rho, d.sigma, d.alpha, d.beta, d.norm2, d.norm].map(bits);
                (d.code, d.iterations, reals)
            };
            let ours = state(&at, code);
            assert_eq!(all(ours), all(its), "case {case}: {ours:?}, on the device {its:?}");
        }
    }
}
