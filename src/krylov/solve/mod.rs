//! Solve of A x = b with PCG or another Krylov method, from the caller's arrays back to these arrays. All families and
//! backends run this code (docs/theory/rrb.md, stopping test).
//!
//! | module | contents |
//! |---|---|
//! | `control` | parameters of a solve, range checks |
//! | `given` | loading of b and the guess, first norms |
//! | `returned` | completion of x, recomputed residuals |
//! | `apply` | single applications of M^-1 and A |

mod apply;
mod control;
mod given;
mod returned;

pub use control::{Control, Locations, MatrixProperties, Method, check_all_singular};

use crate::error::{Error, Result};
use crate::krylov::pcg::{Means, OtherPreconditioner, RHO_NAME};
use crate::krylov::solve_steps::{Criterion, SolveSteps};
use crate::krylov::vectors::{Iterate, VectorId};
use crate::krylov::{Caller, MOST_RESTARTS, Next, Norm, RESTART_REDUCTION, State, Test, completed_iterations, pcg};
use crate::report::{Event, Outcome, StopReason};
use apply::{apply, multiply};
use control::{PROJECTED_TO_ZERO, RangeCheck, check_finite, check_inputs};
use given::{Given, Norms};
use returned::{
    complete_guess, complete_solution, complete_with_norm, norm_of_guess, reduce_again, residual_norm_of_solution,
    start_again, store_zero,
};

/// Function that a call computes with a factorized matrix. The ranks compare the numbers of the variants, to detect
/// that they have made different calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Solves A x = b to a tolerance.
    Solve = 2,
    /// Computes z = M^-1 r.
    Apply = 3,
    /// Computes y = A x.
    Multiply = 4,
}

impl Function {
    /// Computes the output from the input. An error leaves the output unchanged.
    pub fn run(self, s: &mut dyn SolveSteps, c: &Control) -> Result<Outcome> {
        match self {
            Self::Solve => solve(s, c),
            Self::Apply => apply(s, c),
            Self::Multiply => multiply(s, c),
        }
    }
}

/// Solves A x = b: loads the caller's arrays, tests the guess, iterates, and stores x.
fn solve(s: &mut dyn SolveSteps, c: &Control) -> Result<Outcome> {
    let properties = s.properties();
    let checks = properties.completes() || c.is_singular() || c.method.is_some();
    let criterion = c.criterion(checks);
    // With a criterion, the backend may begin the loop before the host does. This loop must not begin on a singular
    // system, whose b is projected first. It must not continue a previous solve, since it counts iterations from 0.
    let begins = !c.is_singular() && c.previous.is_none();
    let inputs = check_inputs(s, c, true, begins.then_some(&criterion))?;
    if inputs.rhs_max == 0.0 {
        store_zero(s);
        return Ok(Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() });
    }
    check_finite("max |b|", inputs.rhs_max)?;
    let given = Given::load(s, c, criterion, &inputs)?;
    let mut rhs_norm = given.norm;
    if c.is_singular() {
        rhs_norm = given.project(s)?;
        if rhs_norm <= PROJECTED_TO_ZERO * given.norm {
            return constant_solution(s, c, &criterion, given.scale, given.norm);
        }
    }
    let norms = given.norms(s, rhs_norm)?;
    let mut solve = Solve::new(given, norms, checks);
    solve.test.center_max *= c.rounding_ratio;
    if properties.deflates {
        solve.test.center_max *= DEFLATION_ROUNDS;
    }
    if let Some(outcome) = solve.check_guess(s) {
        return Ok(outcome);
    }
    let norm2 = solve.first_residual(s);
    let mut at = State::new(solve.test, norm2, c.done());
    at.test.threshold = solve.recurred_threshold(solve.test.threshold);
    let reason = pcg(s, &mut at, &mut solve)?;
    solve.conclude(s, at, reason)
}

/// With deflation, <p, P A p> is computed as p'A p - g'E^-1 g with g = Z'A p. Its rounding error is larger by a factor
/// of up to the condition number of E. With the inverse of E, that condition number is limited to about this constant
/// (`deflation::LARGEST_CONDITION`).
const DEFLATION_ROUNDS: f64 = 1e8;

/// State of a solve outside the Krylov loop.
struct Solve<'c> {
    c: &'c Control<'c>,
    given: Given<'c>,
    norms: Norms,
    test: Test,
    fit: RangeCheck,
    /// The completed x is tested on the whole grid, for one of three reasons. If CG runs on S1 or with deflation, the
    /// residual of CG excludes rounding errors of the completion. On a singular system, x is shifted to the means of
    /// the guess at the end. Krylov methods other than PCG test only the recurred residual.
    checks: bool,
    /// Lower limit for the threshold of the recurred residual.
    least_threshold: f64,
    /// Norm of the last recomputed residual that failed the test after a converged run; infinite if there is none.
    failed_norm: f64,
    /// PCG broke down, and `Control::second` continues.
    second: bool,
    /// max |x| of the last completed x.
    largest: f64,
}

impl<'c> Solve<'c> {
    fn new(given: Given<'c>, norms: Norms, checks: bool) -> Self {
        let (c, criterion, scale) = (given.c, &given.criterion, given.scale);
        let rounding_norm = criterion.rounding_fraction * given.norm;
        let rounding = if c.is_singular() { rounding_norm } else { 0.0 };
        let reference = match (c.previous, norms.reference_norm2 <= rounding_norm, c.reference_initial) {
            (Some(before), ..) => before.reference * scale,
            // The reference would be a rounding error. A lower bound of the D^-1 norm of b before elimination, with the
            // centers D, replaces it.
            (_, true, _) => given.norm / c.matrix.center_max.sqrt(),
            (_, false, true) => norms.initial,
            (_, false, false) => norms.rhs,
        };
        let threshold = criterion.threshold(reference, scale);
        let reference = if reference > 0.0 { reference } else { 1.0 };
        let test = Test {
            norm: c.norm,
            threshold,
            reference,
            max_iter: c.max_iter,
            rounding,
            subtracts_means: c.is_singular() && c.norm == Norm::Preconditioned,
            vanishing: rounding.max(criterion.vanishing(given.norm)),
            confirms: !checks,
            center_max: c.matrix.center_max,
            definite: c.definite,
            // The residual of the initial guess may be much larger than the reference.
            divergence: c.divergence * reference.max(norms.initial),
            same_unit: c.same_unit,
            may_be_indefinite: c.may_be_indefinite,
        };
        // On a singular system, rounding also leaves a constant of about epsilon |b| in the recurred residual.
        let constant = if c.norm == Norm::True2 { rounding / 16.0 } else { 0.0 };
        let least_threshold = (criterion.least_threshold_fraction * norms.rhs).max(if checks { constant } else { 0.0 });
        let fit = RangeCheck::new(c, scale, given.rhs_max);
        Self {
            c,
            given,
            norms,
            test,
            fit,
            checks,
            least_threshold,
            failed_norm: f64::INFINITY,
            second: false,
            largest: 0.0,
        }
    }

    fn outcome(&self, iterations: usize, reason: StopReason, norm: f64) -> Outcome {
        Outcome {
            iterations,
            reason: match reason {
                // x satisfies the test, for whatever reason the iteration ended.
                StopReason::MaxIter | StopReason::Stagnated if self.meets(norm) => StopReason::Converged,
                _ => reason,
            },
            initial_residual: self.norms.initial / self.test.reference,
            final_residual: norm / self.test.reference,
            reference: self.test.reference / self.given.scale,
        }
    }

    /// Returns whether x satisfies the test even after rounding to the caller's array.
    fn meets(&self, norm: f64) -> bool {
        norm + self.fit.rounding_change <= self.test.threshold
    }

    /// Returns whether x can be stored in double precision. `largest` is max |x|.
    fn fits(&self, largest: f64, norm: f64) -> bool {
        self.fit.check(largest, norm.max(self.test.threshold)).is_ok()
    }

    /// Reports the guess to the observer, unless a previous solve did. Returns the outcome if no iteration is needed or
    /// allowed.
    fn check_guess(&self, s: &mut dyn SolveSteps) -> Option<Outcome> {
        let (c, given, initial, threshold) = (self.c, &self.given, self.norms.initial, self.test.threshold);
        let done = c.done();
        let met = if done == 0 { StopReason::InitialGuess } else { StopReason::Converged };
        let stop = c.previous.is_none() && s.observe(Event::Iteration(0, initial / self.test.reference));
        if initial <= threshold && c.norm == Norm::True2 {
            return Some(self.outcome(done, met, initial));
        }
        if c.max_iter > done && !stop {
            return None;
        }
        // The residual on S1 does not depend on the red values of the guess. If the guess is returned unchanged, the
        // residual at the red nodes counts, too.
        let norm = if c.norm == Norm::Preconditioned && s.properties().eliminates {
            norm_of_guess(s, c, given.scale, given.guess, given.exceeds_f32.then_some(self.norms.whole))
        } else {
            initial
        };
        let reason = match norm <= threshold {
            true => met,
            false if stop => StopReason::Monitor,
            false => StopReason::MaxIter,
        };
        Some(self.outcome(done, reason, norm))
    }

    /// Computes r for the x from which PCG starts: the guess, or 0 if `Given::exceeds_f32` is set. Returns <r, r>.
    fn first_residual(&self, s: &mut dyn SolveSteps) -> f64 {
        let given = &self.given;
        if given.exceeds_f32 {
            s.combine(VectorId::X, 0.0, &[]);
            if self.c.is_singular() {
                s.means(VectorId::X, Means::Store);
            }
        }
        match given.squared_norms.and_then(|squared_norms| squared_norms.residual_norm2) {
            Some(norm2) => norm2,
            _ if given.guess && !given.exceeds_f32 => s.residual(Iterate::X),
            _ => s.residual(Iterate::Zero),
        }
    }

    /// Returns the threshold of the recurred residual: `threshold`, but at least `least_threshold`.
    fn recurred_threshold(&self, threshold: f64) -> f64 {
        threshold.max(self.least_threshold)
    }

    /// Returns whether a breakdown by overflow, after the first iteration, ends the solve as stagnated, with the guess
    /// as the result. If A is nearly singular, iterates can overflow even from a moderate guess. This is no error if
    /// the residual norm of the guess is known. With the preconditioned norm and `checks`, this norm would have to be
    /// recomputed, but the work vectors of M contain infinities.
    fn ends_by_overflow(&self, quantity: &str, value: f64, iteration: usize) -> bool {
        let preconditioned = self.c.norm == Norm::Preconditioned;
        // With the preconditioned norm, a breakdown of r'M^-1 r reports the previous iteration, since its own iteration
        // has no norm.
        let iteration = iteration + usize::from(preconditioned && quantity == RHO_NAME);
        (!preconditioned || !self.checks) && !value.is_finite() && iteration > 1
    }

    /// Stores the best iterate in the caller's array, and returns the outcome. The best iterate is x, unless the array
    /// already contains an iterate with a smaller residual. After stagnation or divergence, the guess is returned if it
    /// has the smallest residual. If the best iterate cannot be stored in double precision, the solve ends as stagnated
    /// with the iterate that the array already contains. Without such an iterate, this is an error.
    fn conclude(&self, s: &mut dyn SolveSteps, at: State, mut reason: StopReason) -> Result<Outcome> {
        let (c, given, initial) = (self.c, &self.given, self.norms.initial);
        let State { iterations, norm: last, stored_norm, .. } = at;
        let (mut norm, mut largest) = (last, self.largest);
        if reason == StopReason::MaxIter && last > self.test.divergence {
            // The recomputed residual exceeds the divergence limit, but the recurred residual does not.
            reason = StopReason::Diverged;
        }
        let better = |norm: f64| norm < last || norm < f64::INFINITY && last.is_nan();
        if reason != StopReason::Converged && better(stored_norm) {
            return Ok(self.outcome(iterations, reason, stored_norm));
        }
        let astray = matches!(reason, StopReason::Stagnated | StopReason::Diverged) || !last.is_finite();
        if astray && better(initial) {
            // The guess has the smallest residual. The caller's array still contains it.
            if !self.checks || c.norm == Norm::True2 {
                return Ok(self.outcome(iterations, reason, initial));
            }
            // `initial` is the norm on S1. It holds for the black values of the guess, with the red values that
            // back-substitution computes.
            (largest, norm) = complete_guess(s, c, given.scale, given.guess);
        }
        if let Err(error) = self.fit.check(largest, norm.max(self.test.threshold)) {
            return if stored_norm < f64::INFINITY {
                Ok(self.outcome(iterations, StopReason::Stagnated, stored_norm))
            } else {
                Err(error)
            };
        }
        s.store(given.scale);
        if iterations == 0 && reason == StopReason::Converged && !given.exceeds_f32 {
            reason = StopReason::InitialGuess;
        }
        Ok(self.outcome(iterations, reason, norm))
    }
}

impl<'s> Caller<dyn SolveSteps + 's> for Solve<'_> {
    /// Stores x if its residual norm is below `best` and below that of the guess, and if x is representable in double
    /// precision.
    fn store_if_better(&mut self, s: &mut (dyn SolveSteps + 's), best: f64, mut norm: f64) -> Option<f64> {
        let (c, scale) = (self.c, self.given.scale);
        let largest;
        if self.checks {
            (largest, norm) = complete_with_norm(s, c, scale);
            reduce_again(s, c, scale);
        } else {
            largest = complete_solution(s, c);
        }
        let better = norm < best.min(self.norms.initial) && self.fits(largest, norm);
        better.then(|| {
            s.store(scale);
            norm
        })
    }

    fn run_other_method(&mut self, s: &mut (dyn SolveSteps + 's), at: &mut State) -> Option<Result<StopReason>> {
        let method = if self.second { self.c.second } else { self.c.method }?;
        let reason = match (at.reason_to_stop(), s.krylov()) {
            (Some(reason), _) => Ok(reason),
            (None, Some(s)) => method.run(s, at),
            (None, None) => Err(no_krylov_steps()),
        };
        // `ended` recomputes the residual on the whole grid.
        at.recurred = false;
        Some(reason)
    }

    /// Completes x, and computes its residual on the whole grid if `checks` is set or the second method has run. If the
    /// residual of a converged run fails the test, another run begins from the completed x. The solve ends as stagnated
    /// if x is not representable, after `MOST_RESTARTS` restarts, or if the last run did not reduce this residual by
    /// `RESTART_REDUCTION`.
    fn end_run(&mut self, s: &mut (dyn SolveSteps + 's), at: &mut State, reason: StopReason) -> Option<StopReason> {
        let (c, scale, threshold) = (self.c, self.given.scale, self.test.threshold);
        if !self.checks && !self.second {
            self.largest = complete_solution(s, c);
            let misses = reason == StopReason::Converged && !self.meets(at.norm);
            return Some(if misses { StopReason::Stagnated } else { reason });
        }
        let recurred = at.norm;
        (self.largest, at.norm) = complete_with_norm(s, c, scale);
        let norm = at.norm;
        if self.meets(norm) {
            return Some(StopReason::Converged);
        }
        if reason != StopReason::Converged {
            return Some(reason);
        }
        let unusable = !self.fits(self.largest, norm) || norm.is_nan();
        if unusable || at.restarts >= MOST_RESTARTS || norm > RESTART_REDUCTION * self.failed_norm {
            return Some(StopReason::Stagnated);
        }
        if norm < at.stored_norm.min(self.norms.initial) {
            s.store(scale);
            at.stored_norm = norm;
        }
        self.failed_norm = norm;
        at.restarts += 1;
        // The square of the recomputed norm exceeds the square of the recurred norm by `added`, because of rounding.
        // The next run subtracts 2 `added` from the square of its threshold, so that about the same excess does not
        // make the test fail again. The new threshold is at least `RESTART_REDUCTION` times the caller's threshold.
        let added = (norm * norm - recurred * recurred).max(0.0);
        let least = RESTART_REDUCTION * threshold;
        at.test.threshold = self.recurred_threshold((threshold * threshold - 2.0 * added).max(least * least).sqrt());
        *at = at.for_another_run(start_again(s, c, scale), at.iterations);
        None
    }

    /// Continues after a breakdown. If the eigenvalue bounds of a recursive cycle are too narrow, M is indefinite. PCG
    /// then continues with the V-cycle if the cycle was selected automatically. Otherwise the second method continues,
    /// if there is one.
    fn recover(&mut self, s: &mut (dyn SolveSteps + 's), at: &mut State, error: Error) -> Result<Next> {
        let Error::Breakdown { quantity, value, iteration } = error else { return Err(error) };
        let iterations = completed_iterations(quantity, iteration);
        if self.c.method.is_none() && !self.second {
            if s.change_preconditioner(OtherPreconditioner::Definite) {
                let norm2 = s.residual(Iterate::X);
                if norm2.is_finite() {
                    *at = at.for_another_run(norm2, iterations);
                    return Ok(Next::Start);
                }
            }
            if self.c.second.is_some() && value.is_finite() {
                *at = at.for_another_run(s.residual(Iterate::X), iterations);
                s.change_preconditioner(OtherPreconditioner::Second);
                self.second = true;
                return Ok(Next::Start);
            }
        }
        // The caller's array contains an iterate, or the guess after an overflow. The solve then stagnates without
        // error.
        if at.stored_norm < f64::INFINITY || self.ends_by_overflow(quantity, value, iteration) {
            (at.iterations, at.norm, at.recurred) = (iterations, f64::INFINITY, false);
            return Ok(Next::End(StopReason::Stagnated));
        }
        Err(error)
    }
}

/// Solves A x = b if b is in the null space up to rounding. x is the mean of the guess on each component. A x is then
/// the row sums times this mean, and the row sums are almost zero. The guess is returned unchanged if this x fails the
/// test and the residual of the guess is not larger. `given` is the 2-norm of b before the projection. Residuals are
/// relative to this norm, which is divided by sqrt(max(center)) for the preconditioned norm. With `reference=initial`,
/// they are relative to the initial residual, unless that is only rounding error.
fn constant_solution(
    s: &mut dyn SolveSteps,
    c: &Control,
    criterion: &Criterion,
    scale: f64,
    given: f64,
) -> Result<Outcome> {
    let initial = residual_norm_of_solution(s, c, scale);
    s.combine(VectorId::X, 0.0, &[]);
    s.means(VectorId::X, Means::Restore);
    let norm = residual_norm_of_solution(s, c, scale);
    check_finite("|b - A x|", initial + norm)?;
    let of_given = match c.norm {
        Norm::True2 => given,
        Norm::Preconditioned => given / c.matrix.center_max.sqrt(),
    };
    let reference = if c.reference_initial && initial > PROJECTED_TO_ZERO * of_given { initial } else { of_given };
    let threshold = criterion.threshold(reference, scale);
    s.observe(Event::Iteration(0, initial / reference));
    let stays = norm > threshold && initial <= norm;
    if !stays {
        s.store(scale);
    }
    let last = if stays { initial } else { norm };
    Ok(Outcome {
        iterations: 0,
        reason: match last <= threshold {
            true if stays => StopReason::InitialGuess,
            true => StopReason::ZeroRhs,
            false => StopReason::Stagnated,
        },
        initial_residual: initial / reference,
        final_residual: last / reference,
        reference: reference / scale,
    })
}

fn no_krylov_steps() -> Error {
    Error::Internal("a family without Krylov steps has a Krylov method".to_owned())
}
