//! Decisions of a solve: how PCG continues after each test (docs/theory/rrb.md, stopping test).
//!
//! The functions depend only on the [`State`] and on the scalars that the steps return. Within its loop, a device
//! decides about convergence, `max_iter` and breakdown by functions with the same formulas in
//! `kernels/common/scalars.cuh`. The results on the host and on a device must be bitwise identical.
//!
//! | state | condition | [`TestCode`] | [`NextStep`] |
//! |---|---|---|---|
//! | start, r = b - A x | norm <= threshold | `Converged` | end, converged |
//! | | r, r'M^-1 r or p'Ap is below the rounding level | `NeedsRestart`, `SigmaVanished` | end, stagnated |
//! | | the observer requested a stop | `Paused` | end |
//! | | fourth restart, or the last restart did not halve the norm | `NeedsRestart` | end, stagnated |
//! | | iterations >= `max_iter` | `MaxIter` | end |
//! | | r'M^-1 r or p'Ap is not positive | `RhoNotPositive`, `SigmaNotPositive` | breakdown |
//! | iteration | norm <= threshold | `Converged` | restart if `Test::confirms`, else end |
//! | | iterations >= `max_iter` | `MaxIter` | end |
//! | | the observer requested a stop | `Paused` | end |
//! | | norm > `Test::divergence_norm` | `Diverged` | end |
//! | | r'M^-1 r or p'Ap is below the rounding level | `NeedsRestart`, `SigmaVanished` | restart |
//! | | another preconditioner needs less estimated work | `PreconditionerChanged` | start with the new preconditioner |
//! | | the residual stagnates, or a replacement found drift | `NeedsRestart` | restart |
//! | | r'M^-1 r or p'Ap is not positive | `RhoNegative`, `RhoNotPositive`, `SigmaNotPositive` | breakdown |
//!
//! After a breakdown, or if x fails the test on the whole grid, `Caller::recover` or `Caller::end_run`
//! ([`super::Caller`]) may begin another run.

use crate::error::Error;
use crate::krylov::pcg::{RHO_NAME, SIGMA_NAME};
use crate::krylov::state::{IterationNorm, State, Test, TestCode, TrueResidual};
use crate::options::Norm;
use crate::report::StopReason;

/// Next step of the PCG loop.
#[derive(Debug)]
pub enum NextStep {
    /// Start from r = b - A x, which is already computed.
    Start,
    /// One iteration; p, q = A p, rho and sigma are already computed.
    Iterate,
    /// Recompute r = b - A x, count a restart, and start.
    Restart,
    /// Recompute r = b - A x and start with another preconditioner. The norms at earlier restarts are then no longer
    /// compared with [`RESTART_REDUCTION`], but these restarts still count for [`MAX_RESTARTS`].
    ChangePreconditioner,
    /// End of the run. `Caller::end_run` may begin another run.
    End(StopReason),
    /// Breakdown. `Caller::recover` may continue the solve.
    Fail(Error),
}

/// Largest number of restarts per solve. The initial guess causes rounding errors, and each restart divides these
/// errors by about 1e15. After three restarts, even a guess 1e45 times too large no longer affects the residual.
pub const MAX_RESTARTS: usize = 3;
/// PCG starts after a restart only if the recomputed norm is at most this fraction of the norm at the previous restart
/// of the run. At the rounding level, the recomputed norm no longer decreases from one restart to the next.
pub const RESTART_REDUCTION: f64 = 0.5;

/// Relative decrease of <r, r> or r'M^-1 r that triggers a residual replacement in single precision. The next iteration
/// then replaces r by b - A x (docs/theory/rrb.md, conjugate gradients in single precision).
///
/// - <r, r> is compared with its largest value since the last replacement, because rounding is relative to this value.
/// - r'M^-1 r is compared with its value at the last replacement. On a nearly singular system, M^-1 amplifies a
///   constant component of r. r'M^-1 r therefore shows this component, while <r, r> may not. The first iterations
///   remove the constant, and r'M^-1 r falls. The rounding errors of these iterations leave another constant in r.
pub(super) const REPLACEMENT_DECREASE: f64 = 1e-8;
/// Largest number of iterations between two residual replacements. Rounding errors accumulate even if <r, r> does not
/// decrease.
pub(super) const REPLACEMENT_INTERVAL: usize = 40;
/// If threshold^2 >= `NEAR_THRESHOLD_RATIO` times the largest <r, r>, a decrease of <r, r> triggers no replacement
/// (2-norm only). The rounding errors, about 6e-8 of the largest norm, then stay small compared with the residual until
/// convergence. An occasional restart after a failed confirmation costs less than the replacements.
pub(super) const NEAR_THRESHOLD_RATIO: f64 = 1e-12;
/// The residual has drifted if the recurred and the recomputed <r, r> differ by more than this factor. If the rounding
/// error is orthogonal to the residual, the norm of the error is then about one third of the residual norm, since
/// sqrt(0.1) = 0.32. p is then no longer useful.
pub(super) const DRIFT_FACTOR: f64 = 1.1;
/// The residual has also drifted if r'M^-1 r exceeds this factor times its value before the replacement.
pub(super) const RHO_DRIFT_FACTOR: f64 = 2.0;
/// After drift, CG continues with p = z if <r, r> is at most this fraction of its value at the previous replacement.
/// Otherwise CG restarts.
pub(super) const SUFFICIENT_DECREASE: f64 = 0.25;
/// If a replacement leaves r'M^-1 r at or below this fraction of its previous value, CG converges fast enough, and
/// `UNPREDICTED_GROWTH` is not tested.
pub(super) const FAST_DECREASE: f64 = 0.25;
/// The predicted value of r'M^-1 r is the previous beta times the previous r'M^-1 r. If r'M^-1 r exceeds this factor
/// times the prediction, CG continues with p = z. Most of r is then rounding error, to which p is not conjugate.
/// Further steps along p may diverge.
pub(super) const UNPREDICTED_GROWTH: f64 = 8.0;
/// CG continues with p = z if <r, r> exceeds this factor times its value at the previous replacement.
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
/// (`State::smallest_norm`).
pub(super) const LOWER_NORM_FRACTION: f64 = 0.7;
/// A residual counts as stagnant only if its norm is at most this fraction of the reference. Above this limit, the
/// 2-norm may be constant while the energy norm of the error decreases.
pub(super) const STAGNATION_NORM_FRACTION: f64 = 1e-4;

/// A nonpositive square is attributed to rounding if its magnitude is at most this fraction of the largest r'M^-1 r.
/// The value is the square of 1e-5: an indefinite matrix causes a nonpositive square before the residual has decreased
/// by five digits. On a singular system, rounding also leaves a constant in r. P M^-1 P (see `PcgSteps::precondition`)
/// maps this constant to zero, so that r'M^-1 r may become nonpositive.
pub(super) const NEGLIGIBLE_FRACTION: f64 = 1e-10;
/// A nonpositive p'Ap is attributed to rounding if |p'Ap| <= `ROUNDING_FACTOR` epsilon |p|'|A||p|. A is then nearly
/// singular.
pub(super) const ROUNDING_FACTOR: f64 = 64.0;

/// Result of a residual replacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    /// The recurred and the recomputed <r, r> differ by more than the factor [`DRIFT_FACTOR`].
    pub(super) has_drifted: bool,
    /// <r, r> is at most [`SUFFICIENT_DECREASE`] times its value at the previous replacement.
    pub(super) has_decreased: bool,
    /// <r, r> has grown by more than the factor [`EXCESSIVE_GROWTH`] since the previous replacement. False for the
    /// first replacement since the start.
    pub(super) has_grown: bool,
}

/// Returns whether `square`, a value r'M^-1 r or p'Ap, is positive and finite. Except for rounding errors and overflow,
/// r'M^-1 r is positive if M is positive definite and r is nonzero. The same holds for p'Ap with A and p.
pub(super) fn is_positive(square: f64) -> bool {
    square > 0.0 && square.is_finite()
}

/// Returns the number of completed iterations if `quantity` broke down in iteration `iteration`. An iteration begins
/// with p'Ap, so a breakdown of p'Ap leaves the iteration incomplete.
pub fn completed_iterations(quantity: &str, iteration: usize) -> usize {
    iteration - usize::from(quantity == SIGMA_NAME && iteration > 0)
}

fn breakdown(quantity: &'static str, value: f64, iteration: usize) -> NextStep {
    NextStep::Fail(Error::Breakdown { quantity, value, iteration })
}

impl State {
    /// Returns the step that follows the result of a test.
    pub(super) fn next_step(&self, code: TestCode) -> NextStep {
        match code {
            TestCode::Running => NextStep::Iterate,
            TestCode::PreconditionerChanged => NextStep::ChangePreconditioner,
            TestCode::Converged if self.is_recurred && self.test.confirms => NextStep::Restart,
            TestCode::NeedsRestart | TestCode::SigmaVanished if self.is_recurred => NextStep::Restart,
            // With the preconditioned norm, an iteration with a negative rho has no norm and is not reported to the
            // observer. The error therefore contains the number of the previous iteration.
            TestCode::RhoNegative => breakdown(RHO_NAME, self.rho, self.iterations.saturating_sub(1)),
            TestCode::RhoNotPositive => breakdown(RHO_NAME, self.rho, self.iterations),
            TestCode::SigmaNotPositive => breakdown(SIGMA_NAME, self.sigma, self.iterations + 1),
            _ => NextStep::End(self.stop_reason(code)),
        }
    }

    /// Returns the stop reason. If the observer requests a stop in the iteration in which the recurred residual
    /// converges, the reason is `Monitor`. `Caller::end_run` replaces this reason by `Converged` if the recomputed
    /// residual satisfies the test.
    fn stop_reason(&self, code: TestCode) -> StopReason {
        match code {
            TestCode::Diverged => StopReason::Diverged,
            TestCode::NeedsRestart | TestCode::SigmaVanished => StopReason::Stagnated,
            TestCode::Converged if !(self.is_recurred && self.stop_requested) => StopReason::Converged,
            _ if self.stop_requested => StopReason::Monitor,
            _ => StopReason::MaxIter,
        }
    }

    /// Resets the number of restarts of the run and the norms that are compared at restarts.
    pub(super) fn reset_restarts(&mut self) {
        (self.restarts_of_run, self.last_passed_restart, self.previous_restart_norm) = (0, 0, f64::INFINITY);
    }

    /// Counts a restart and records the norm at the previous restart of the run. If there was no previous restart, the
    /// recorded norm is infinite, so that `may_start` accepts every norm.
    pub(super) fn count_restart(&mut self) {
        self.previous_restart_norm = if self.restarts_of_run > 0 { self.last_start.norm } else { f64::INFINITY };
        self.restarts_of_run += 1;
        self.restarts += 1;
    }

    /// Returns whether PCG may start from the current residual: there were at most `MAX_RESTARTS` restarts, and the
    /// norm is at most `RESTART_REDUCTION` times the norm at the previous restart. A norm of NaN does not prevent the
    /// start, so that the tests of rho and sigma report a breakdown.
    pub(super) fn may_start(&self) -> bool {
        let has_failed = self.norm > RESTART_REDUCTION * self.previous_restart_norm;
        self.restarts <= MAX_RESTARTS && !has_failed
    }

    /// Returns whether the x of this restart must be passed to `Caller::store_if_better`. A restart at the rounding
    /// level may increase the residual, so the residual norm of x must be below that of the stored iterate. The x at
    /// the start of the run is not passed: it is the guess, or `Caller::end_run` has received it. Records the restart,
    /// so that its x is passed only once.
    pub(super) fn passes_iterate(&mut self) -> bool {
        let is_new_best = self.restarts_of_run > self.last_passed_restart && self.norm < self.stored_norm;
        if is_new_best {
            self.last_passed_restart = self.restarts_of_run;
        }
        is_new_best
    }

    /// Tests r = b - A x in the 2-norm, which does not require M^-1 r. With the preconditioned norm, returns `Running`.
    pub(super) fn test_residual(&mut self) -> TestCode {
        let test = &self.test;
        (self.norm, self.is_recurred) = (self.norm2.sqrt(), false);
        match test.norm {
            Norm::True2 if self.norm <= test.threshold => TestCode::Converged,
            Norm::True2 if self.norm <= test.rounding_norm => TestCode::NeedsRestart,
            _ => TestCode::Running,
        }
    }

    /// Tests a start with rho = <r, M^-1 r>. `is_rounding`: whether rounding can explain a nonpositive rho.
    pub(super) fn test_start(&mut self, rho: f64, is_rounding: bool) -> TestCode {
        let test = &self.test;
        // On a singular system, the residual of a guess may consist only of rounding errors. A nonpositive rho is
        // attributed to these errors.
        let is_constant = test.rounding_norm > 0.0 && rho <= 0.0 && rho.is_finite();
        let is_below_rounding = self.norm <= test.rounding_norm || is_constant || is_rounding;
        self.rho = rho;
        if !is_below_rounding && !is_positive(rho) {
            return TestCode::RhoNotPositive;
        }
        self.largest_rho = self.largest_rho.max(rho);
        if test.norm == Norm::Preconditioned {
            self.norm = rho.abs().sqrt();
            if self.norm <= test.threshold {
                return TestCode::Converged;
            }
        }
        match (is_below_rounding, self.stop_requested) {
            (true, _) => TestCode::NeedsRestart,
            (_, true) => TestCode::Paused,
            _ if !self.may_start() => TestCode::NeedsRestart,
            _ if self.iterations >= test.max_iter => TestCode::MaxIter,
            _ => TestCode::Running,
        }
    }

    /// Records the iteration, the norm, <r, r> and rho at a start of PCG, for later comparisons; sets beta = 0. At a
    /// start, r is b - A x, not a recurred residual.
    pub(super) fn record_start(&mut self) {
        let Self { iterations, norm, norm2, rho, .. } = *self;
        self.last_start = IterationNorm { iterations, norm };
        self.smallest_norm = self.last_start;
        self.true_residual = TrueResidual { iterations, norm2, rho, largest_norm2: norm2 };
        self.beta = 0.0;
    }

    /// Computes the tested norm: sqrt(<r, r>), or sqrt(rho) with rho = <r, M^-1 r> in the preconditioned norm. Returns
    /// `RhoNegative` if sqrt(rho) is needed but rho is negative, infinite or NaN. A negative rho counts as 0 if squares
    /// may underflow.
    pub(super) fn set_norm(&mut self, rho: f64) -> TestCode {
        let preconditioned = self.test.norm == Norm::Preconditioned;
        let rho = if self.has_vanished(rho) { 0.0 } else { rho };
        self.norm = if preconditioned { rho } else { self.norm2 }.sqrt();
        if preconditioned && !(rho >= 0.0 && rho.is_finite()) { TestCode::RhoNegative } else { TestCode::Running }
    }

    /// Tests convergence and the iteration limit.
    pub(super) fn check_convergence(&self) -> TestCode {
        if self.norm <= self.test.threshold {
            TestCode::Converged
        } else if self.iterations >= self.test.max_iter {
            TestCode::MaxIter
        } else {
            TestCode::Running
        }
    }

    /// Tests convergence, the iteration limit, the observer's request and divergence. A device leaves the last two
    /// tests to the host.
    pub(super) fn check_norm(&self) -> TestCode {
        match self.check_convergence() {
            TestCode::Running if self.stop_requested => TestCode::Paused,
            TestCode::Running if self.norm > self.test.divergence_norm => TestCode::Diverged,
            code => code,
        }
    }

    /// Tests the residual of a method other than PCG. Returns the stop reason if the run ends.
    pub fn reason_to_stop(&self) -> Option<StopReason> {
        let diverged = !self.norm.is_finite() || self.norm > self.test.divergence_norm;
        let code = if diverged { TestCode::Diverged } else { self.check_norm() };
        (code != TestCode::Running).then(|| self.stop_reason(code))
    }

    /// Stores rho = <r, M^-1 r> and beta(rho, previous rho). If rho is nonpositive, infinite or NaN, returns
    /// `NeedsRestart` or `RhoNotPositive` and stores nothing.
    pub(super) fn set_rho(&mut self, rho: f64, beta: impl FnOnce(f64, f64) -> f64) -> TestCode {
        if self.has_vanished(rho) {
            return TestCode::NeedsRestart;
        }
        if !is_positive(rho) {
            return TestCode::RhoNotPositive;
        }
        self.beta = beta(rho, self.rho);
        self.rho = rho;
        TestCode::Running
    }

    /// Stores sigma = <p, A p> and alpha = rho / sigma of the next iteration. Returns `SigmaVanished` or
    /// `SigmaNotPositive` if sigma is nonpositive, infinite or NaN.
    pub(super) fn set_sigma(&mut self, sigma: f64) -> TestCode {
        self.sigma = sigma;
        self.alpha = self.rho / sigma;
        if self.has_vanished(sigma) {
            TestCode::SigmaVanished
        } else if !is_positive(sigma) {
            TestCode::SigmaNotPositive
        } else {
            TestCode::Running
        }
    }

    /// Returns whether `square` is nonpositive and the residual is so small that its squares may underflow.
    fn has_vanished(&self, square: f64) -> bool {
        square <= 0.0 && self.norm2.sqrt() <= self.test.vanishing_norm
    }

    /// Returns whether the next iteration replaces r by b - A x if CG runs in single precision. See
    /// `REPLACEMENT_DECREASE`, `REPLACEMENT_INTERVAL` and `NEAR_THRESHOLD_RATIO`.
    pub(super) fn is_replacement_due(&self) -> bool {
        let Test { norm, threshold, .. } = self.test;
        let min_norm2 = if norm == Norm::True2 { threshold * threshold / NEAR_THRESHOLD_RATIO } else { 0.0 };
        let has_fallen = self.true_residual.largest_norm2 > min_norm2
            && self.norm2 <= REPLACEMENT_DECREASE * self.true_residual.largest_norm2;
        has_fallen
            || self.rho <= REPLACEMENT_DECREASE * self.true_residual.rho
            || self.iterations >= self.true_residual.iterations + REPLACEMENT_INTERVAL
    }

    /// Records a residual replacement. `norm2` is <r, r> of r = b - A x; `recurred` is <r, r> of the recurred residual.
    /// Sets alpha = 0, because x already includes the update alpha p.
    pub(super) fn record_replacement(&mut self, recurred: f64, norm2: f64) -> Replacement {
        let previous = self.true_residual;
        self.true_residual =
            TrueResidual { iterations: self.iterations, norm2, rho: f64::INFINITY, largest_norm2: norm2 };
        self.alpha = 0.0;
        Replacement {
            has_drifted: norm2 > DRIFT_FACTOR * recurred || DRIFT_FACTOR * norm2 < recurred,
            has_decreased: norm2 <= SUFFICIENT_DECREASE * previous.norm2,
            has_grown: previous.iterations > self.last_start.iterations && norm2 > EXCESSIVE_GROWTH * previous.norm2,
        }
    }

    /// Returns whether the direction after a replacement is p = z + beta p (`true`) or p = z (`false`). Returns `None`
    /// if PCG must restart: the residual has drifted and has not decreased. `rho` is r'M^-1 r of the recomputed r.
    pub(super) fn stays_conjugate(&self, replacement: Replacement, rho: f64) -> Option<bool> {
        let has_drifted = replacement.has_drifted || rho > RHO_DRIFT_FACTOR * self.rho;
        // If beta = 0, the last direction was p = z, and beta predicts nothing.
        let is_unpredicted =
            self.beta > 0.0 && rho > FAST_DECREASE * self.rho && rho > UNPREDICTED_GROWTH * self.beta * self.rho;
        (!has_drifted || replacement.has_decreased).then_some(!(has_drifted || replacement.has_grown || is_unpredicted))
    }

    /// Returns whether the residual stagnates near the rounding level. See `STAGNATION_ITERATIONS`,
    /// `LOWER_NORM_FRACTION` and `STAGNATION_NORM_FRACTION`.
    pub(super) fn stagnates(&mut self) -> bool {
        if self.norm <= LOWER_NORM_FRACTION * self.smallest_norm.norm {
            self.smallest_norm = IterationNorm { iterations: self.iterations, norm: self.norm };
        }
        self.iterations >= self.smallest_norm.iterations + STAGNATION_ITERATIONS
            && self.smallest_norm.norm <= STAGNATION_NORM_FRACTION * self.test.reference
    }

    /// Returns whether a nonpositive `square` is attributed to rounding without further computation. This is the case
    /// if squares of the residual may underflow, or if |square| <= `NEGLIGIBLE_FRACTION` times the largest r'M^-1 r
    /// (for p'Ap only with `Test::has_unit_of_matrix`). In single precision, every nonpositive square is attributed to
    /// rounding, except before the first iteration.
    pub(super) fn is_negligible(&self, quantity: &str, square: f64, is_single_precision: bool) -> bool {
        let is_comparable = quantity != SIGMA_NAME || self.test.has_unit_of_matrix;
        square <= 0.0
            && (self.norm2.sqrt() <= self.test.vanishing_norm
                || is_comparable && -square <= NEGLIGIBLE_FRACTION * self.largest_rho
                || is_single_precision && self.iterations > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;

    /// Pseudorandom numbers (SplitMix64), including special values at which decisions change.
    struct RandomNumbers(u64);

    impl RandomNumbers {
        fn next_u64(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn real(&mut self) -> f64 {
            let uniform = self.next_u64() as f64 / u64::MAX as f64;
            match self.next_u64() % 16 {
                0 => 0.0,
                1 => -0.0,
                2 => -uniform,
                3 => uniform * 1e-300,
                4 => -uniform * 1e-300,
                5 => f64::from_bits(self.next_u64()),
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

    /// Argument of `emulated_iteration`, which updates it. The layout matches the structure in
    /// tests/emulator/driver.cpp.
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
    type EmulatedIteration = unsafe extern "C" fn(*mut EmulatedState, f64, f64, f64);

    /// Returns the function `emulated_iteration` of the emulated device, or `None` if the emulator is not loaded.
    fn load_emulated_function() -> Option<EmulatedIteration> {
        // SAFETY: the library is only loaded if it is present. The type `EmulatedIteration` matches the definition of
        // the function in tests/emulator/driver.cpp.
        unsafe {
            let loaded_function =
                sys::is_culib_present().then(|| sys::culib().get::<EmulatedIteration>(b"emulated_iteration\0"));
            loaded_function.and_then(std::result::Result::ok).map(|function| *function)
        }
    }

    /// The device functions return bitwise the results of the host functions.
    #[test]
    #[ignore = "needs an emulated device"]
    fn device_and_host_decide_identically() {
        let run_on_device = load_emulated_function().expect("an emulated device (tests/emulator)");
        let mut numbers = RandomNumbers(1);
        for case in 0..100_000 {
            let norm = if numbers.next_u64().is_multiple_of(2) { Norm::True2 } else { Norm::Preconditioned };
            let test = Test {
                norm,
                threshold: numbers.magnitude(),
                reference: 1.0,
                max_iter: (numbers.next_u64() % 4) as usize,
                subtracts_means: false,
                rounding_norm: 0.0,
                vanishing_norm: numbers.magnitude(),
                center_max: 1.0,
                is_preconditioner_definite: true,
                confirms: false,
                divergence_norm: f64::INFINITY,
                has_unit_of_matrix: true,
                may_be_indefinite: false,
            };
            let norm2 = numbers.magnitude();
            let mut state = State::new(test, norm2, (numbers.next_u64() % 3) as usize);
            (state.rho, state.alpha, state.beta) = (numbers.magnitude(), numbers.real(), numbers.real());
            let [rho, norm2, sigma] = [numbers.real(), numbers.magnitude(), numbers.real()];
            let emulated_state = |state: &State, code: TestCode| EmulatedState {
                threshold: test.threshold,
                vanishing: test.vanishing_norm,
                rho: state.rho,
                sigma: state.sigma,
                alpha: state.alpha,
                beta: state.beta,
                norm2: state.norm2,
                norm: state.norm,
                iterations: state.iterations as i64,
                max_iter: test.max_iter as i64,
                preconditioned: i32::from(norm == Norm::Preconditioned),
                code: code as i32,
            };
            let mut device_state = emulated_state(&state, TestCode::Running);
            // SAFETY: the function writes only to `device_state`, which is valid and exclusively borrowed during the
            // call.
            unsafe { run_on_device(&mut device_state, rho, norm2, sigma) };
            state.iterations += 1;
            state.norm2 = norm2;
            let mut code = state.set_norm(rho);
            if code == TestCode::Running {
                code = state.check_convergence();
            }
            if code == TestCode::Running {
                code = state.set_rho(rho, |rho, rho_old| rho / rho_old);
            }
            if code == TestCode::Running {
                code = state.set_sigma(sigma);
            }
            // The sign and the payload of a NaN are not compared.
            let bits = |v: f64| if v.is_nan() { u64::MAX } else { v.to_bits() };
            let comparable_values = |d: EmulatedState| {
                let reals = [d.rho, d.sigma, d.alpha, d.beta, d.norm2, d.norm].map(bits);
                (d.code, d.iterations, reals)
            };
            let host_state = emulated_state(&state, code);
            assert_eq!(
                comparable_values(host_state),
                comparable_values(device_state),
                "case {case}: {host_state:?}, on the device {device_state:?}"
            );
        }
    }
}
