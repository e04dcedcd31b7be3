//! Solve of A x = b with PCG or another Krylov method: reads the user's b and initial guess, iterates, and writes x.
//! All families and backends run this code (docs/theory/rrb.md, stopping test).
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
use crate::krylov::pcg::{MeansChange, OtherPreconditioner, RHO_NAME};
use crate::krylov::solve_steps::{Criterion, SolveSteps};
use crate::krylov::vectors::{Iterate, VectorId};
use crate::krylov::{Caller, MAX_RESTARTS, NextStep, Norm, RESTART_REDUCTION, State, Test, completed_iterations, pcg};
use crate::report::{Event, Outcome, StopReason};
use apply::{apply, multiply};
use control::{PROJECTED_TO_ZERO_FRACTION, RangeCheck, check_finite, check_inputs};
use given::{LoadedSystem, Norms};
use returned::{
    complete_guess, complete_solution, complete_with_norm, norm_of_guess, reload_and_reduce, residual_norm_of_solution,
    restart_residual, store_zero,
};

/// Operation with a factorized matrix that a call requests. The ranks compare the numbers of the variants, to detect
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
    /// Computes the user's output array from the input array. An error leaves the output array unchanged.
    pub fn run(self, s: &mut dyn SolveSteps, control: &Control) -> Result<Outcome> {
        match self {
            Self::Solve => solve(s, control),
            Self::Apply => apply(s, control),
            Self::Multiply => multiply(s, control),
        }
    }
}

/// Solves A x = b: loads the user's arrays, tests the guess, iterates, and stores x.
fn solve(s: &mut dyn SolveSteps, control: &Control) -> Result<Outcome> {
    let properties = s.properties();
    let tests_completed_x = properties.needs_completion() || control.is_singular() || control.method.is_some();
    let criterion = control.criterion(tests_completed_x);
    // A backend that receives the criterion may start the PCG loop already in `check_inputs`. The backend does not
    // receive it in two cases:
    //
    // - The system is singular: b must be projected first.
    // - The solve continues a previous solve: a loop that starts in `check_inputs` counts iterations from 0.
    let may_begin = !control.is_singular() && control.previous_outcome.is_none();
    let inputs = check_inputs(s, control, true, may_begin.then_some(&criterion))?;
    if inputs.rhs_max == 0.0 {
        store_zero(s);
        return Ok(Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() });
    }
    check_finite("max |b|", inputs.rhs_max)?;
    let loaded_system = LoadedSystem::load(s, control, criterion, &inputs)?;
    let mut rhs_norm = loaded_system.rhs_norm;
    if control.is_singular() {
        rhs_norm = loaded_system.project(s)?;
        if rhs_norm <= PROJECTED_TO_ZERO_FRACTION * loaded_system.rhs_norm {
            return constant_solution(s, control, &criterion, loaded_system.scale, loaded_system.rhs_norm);
        }
    }
    let norms = loaded_system.norms(s, rhs_norm)?;
    let mut solve = Solve::new(loaded_system, norms, tests_completed_x);
    solve.test.center_max *= control.rounding_ratio;
    if properties.uses_deflation {
        solve.test.center_max *= DEFLATION_ROUNDING_FACTOR;
    }
    if let Some(outcome) = solve.check_guess(s) {
        return Ok(outcome);
    }
    let norm2 = solve.first_residual(s);
    let mut state = State::new(solve.test, norm2, control.previous_iterations());
    state.test.threshold = solve.recurred_threshold(solve.test.threshold);
    let reason = pcg(s, &mut state, &mut solve)?;
    solve.conclude(s, state, reason)
}

/// With deflation, <p, P A p> is computed as p'A p - g'E^-1 g. Here, the columns of Z are the deflation vectors,
/// E = Z'A Z and g = Z'A p. The rounding error of this difference is larger than that of p'A p, by a factor of up to
/// the condition number of E. If the inverse of E is used, the condition number of E is at most about this constant
/// (`deflation::MAX_CONDITION_NUMBER`).
const DEFLATION_ROUNDING_FACTOR: f64 = 1e8;

/// State of a solve outside the Krylov loop.
struct Solve<'c> {
    control: &'c Control<'c>,
    loaded_system: LoadedSystem<'c>,
    norms: Norms,
    test: Test,
    range_check: RangeCheck,
    /// Whether the completed x is tested on the whole grid. There are three reasons:
    ///
    /// - If CG runs on S1 or with deflation, the residual of CG excludes rounding errors of the completion.
    /// - On a singular system, x is shifted to the means of the guess at the end.
    /// - Krylov methods other than PCG test only the recurred residual.
    tests_completed_x: bool,
    /// Lower limit for the threshold of the recurred residual.
    min_threshold: f64,
    /// Norm of the last recomputed residual that failed the test after a converged run; infinite if there is none.
    failed_norm: f64,
    /// Whether PCG broke down, so that `Control::second_method` continues.
    uses_second_method: bool,
    /// max |x| of the last completed x.
    x_max: f64,
}

impl<'c> Solve<'c> {
    fn new(loaded_system: LoadedSystem<'c>, norms: Norms, tests_completed_x: bool) -> Self {
        let (control, criterion, scale) = (loaded_system.control, &loaded_system.criterion, loaded_system.scale);
        let rounding_threshold = criterion.rounding_fraction * loaded_system.rhs_norm;
        let rounding_limit = if control.is_singular() { rounding_threshold } else { 0.0 };
        let reference =
            match (control.previous_outcome, norms.reference_2norm <= rounding_threshold, control.is_reference_initial)
            {
                (Some(previous), ..) => previous.reference * scale,
                // The norm of b or of the first residual is only a rounding error. The reference is then a lower bound
                // of (b'D^-1 b)^1/2 for the b before elimination. D is the diagonal matrix of the centers.
                (_, true, _) => loaded_system.rhs_norm / control.matrix.center_max.sqrt(),
                (_, false, true) => norms.initial_norm,
                (_, false, false) => norms.rhs_norm,
            };
        let threshold = criterion.threshold(reference, scale);
        let reference = if reference > 0.0 { reference } else { 1.0 };
        let test = Test {
            norm: control.norm,
            threshold,
            reference,
            max_iter: control.max_iter,
            rounding_norm: rounding_limit,
            subtracts_means: control.is_singular() && control.norm == Norm::Preconditioned,
            vanishing_norm: rounding_limit.max(criterion.vanishing_norm(loaded_system.rhs_norm)),
            confirms: !tests_completed_x,
            center_max: control.matrix.center_max,
            is_preconditioner_definite: control.is_preconditioner_definite,
            // The residual of the initial guess may be much larger than the reference.
            divergence_norm: control.divergence_factor * reference.max(norms.initial_norm),
            has_unit_of_matrix: control.has_unit_of_matrix,
            may_be_indefinite: control.may_be_indefinite,
        };
        // On a singular system, rounding also leaves a constant of about epsilon |b| in the recurred residual.
        let constant_limit = if control.norm == Norm::True2 { rounding_limit / 16.0 } else { 0.0 };
        let min_threshold = (criterion.min_threshold_fraction * norms.rhs_norm).max(if tests_completed_x {
            constant_limit
        } else {
            0.0
        });
        let range_check = RangeCheck::new(control, scale, loaded_system.rhs_max);
        Self {
            control,
            loaded_system,
            norms,
            test,
            range_check,
            tests_completed_x,
            min_threshold,
            failed_norm: f64::INFINITY,
            uses_second_method: false,
            x_max: 0.0,
        }
    }

    fn outcome(&self, iterations: usize, reason: StopReason, norm: f64) -> Outcome {
        Outcome {
            iterations,
            reason: match reason {
                // x satisfies the test, although the iteration ended for another reason.
                StopReason::MaxIter | StopReason::Stagnated if self.satisfies_test(norm) => StopReason::Converged,
                _ => reason,
            },
            initial_residual: self.norms.initial_norm / self.test.reference,
            final_residual: norm / self.test.reference,
            reference: self.test.reference / self.loaded_system.scale,
        }
    }

    /// Returns whether x satisfies the test even after x / scale is rounded in the user's array. `norm` is the tested
    /// norm of b - A x.
    fn satisfies_test(&self, norm: f64) -> bool {
        norm + self.range_check.rounding_change <= self.test.threshold
    }

    /// Returns whether x / scale can be stored in double precision. `x_max` is max |x|; `norm` is the tested norm of
    /// b - A x.
    fn is_storable(&self, x_max: f64, norm: f64) -> bool {
        self.range_check.check(x_max, norm.max(self.test.threshold)).is_ok()
    }

    /// Reports the residual of the guess to the observer as iteration 0, unless this solve continues a previous one.
    /// Returns the outcome if no iteration is needed or allowed.
    fn check_guess(&self, s: &mut dyn SolveSteps) -> Option<Outcome> {
        let (control, loaded_system, initial_norm, threshold) =
            (self.control, &self.loaded_system, self.norms.initial_norm, self.test.threshold);
        let previous_iterations = control.previous_iterations();
        let success_reason = if previous_iterations == 0 { StopReason::InitialGuess } else { StopReason::Converged };
        let stop_requested =
            control.previous_outcome.is_none() && s.observe(Event::Iteration(0, initial_norm / self.test.reference));
        if initial_norm <= threshold && control.norm == Norm::True2 {
            return Some(self.outcome(previous_iterations, success_reason, initial_norm));
        }
        if control.max_iter > previous_iterations && !stop_requested {
            return None;
        }
        // The residual on S1 does not depend on the red values of the guess. Since the guess is returned unchanged, its
        // residual at the red nodes counts, too.
        let norm = if control.norm == Norm::Preconditioned && s.properties().eliminates_red {
            norm_of_guess(
                s,
                control,
                loaded_system.scale,
                loaded_system.has_guess,
                loaded_system.exceeds_f32.then_some(self.norms.grid_norm),
            )
        } else {
            initial_norm
        };
        let reason = match norm <= threshold {
            true => success_reason,
            false if stop_requested => StopReason::Monitor,
            false => StopReason::MaxIter,
        };
        Some(self.outcome(previous_iterations, reason, norm))
    }

    /// Computes r for the x from which PCG starts: the guess, or 0 if `LoadedSystem::exceeds_f32` is set. Returns
    /// <r, r>.
    fn first_residual(&self, s: &mut dyn SolveSteps) -> f64 {
        let loaded_system = &self.loaded_system;
        if loaded_system.exceeds_f32 {
            s.combine(VectorId::X, 0.0, &[]);
            if self.control.is_singular() {
                s.change_means(VectorId::X, MeansChange::Store);
            }
        }
        match loaded_system.squared_norms.and_then(|squared_norms| squared_norms.residual_norm2) {
            Some(norm2) => norm2,
            _ if loaded_system.has_guess && !loaded_system.exceeds_f32 => s.residual(Iterate::X),
            _ => s.residual(Iterate::Zero),
        }
    }

    /// Returns the threshold of the recurred residual: `threshold`, but at least `min_threshold`.
    fn recurred_threshold(&self, threshold: f64) -> f64 {
        threshold.max(self.min_threshold)
    }

    /// Returns whether a breakdown by overflow after the first iteration ends the solve as stagnated, with the guess as
    /// the result. If A is nearly singular, iterates can overflow even from a moderate guess. This is no error if the
    /// residual norm of the guess is known. With the preconditioned norm and `tests_completed_x`, the norm of the guess
    /// would have to be recomputed, which is impossible because the work vectors of M contain infinities.
    fn ends_by_overflow(&self, quantity: &str, value: f64, iteration: usize) -> bool {
        let preconditioned = self.control.norm == Norm::Preconditioned;
        // With the preconditioned norm, a breakdown of r'M^-1 r reports the previous iteration, since the iteration of
        // the breakdown has no norm.
        let iteration = iteration + usize::from(preconditioned && quantity == RHO_NAME);
        (!preconditioned || !self.tests_completed_x) && !value.is_finite() && iteration > 1
    }

    /// Stores the best iterate in the user's array, and returns the outcome. The best iterate is x, unless the array
    /// already contains an iterate with a smaller residual. After stagnation or divergence, the guess is the result if
    /// it has the smallest residual. If the best iterate cannot be stored in double precision, the solve ends as
    /// stagnated with the iterate that is already stored. If no iterate is stored, returns an error.
    fn conclude(&self, s: &mut dyn SolveSteps, state: State, mut reason: StopReason) -> Result<Outcome> {
        let (control, loaded_system, initial_norm) = (self.control, &self.loaded_system, self.norms.initial_norm);
        let State { iterations, norm: last_norm, stored_norm, .. } = state;
        let (mut norm, mut x_max) = (last_norm, self.x_max);
        if reason == StopReason::MaxIter && last_norm > self.test.divergence_norm {
            // The recomputed residual exceeds the divergence limit, but the recurred residual does not.
            reason = StopReason::Diverged;
        }
        let is_better = |norm: f64| norm < last_norm || norm < f64::INFINITY && last_norm.is_nan();
        if reason != StopReason::Converged && is_better(stored_norm) {
            return Ok(self.outcome(iterations, reason, stored_norm));
        }
        let has_failed = matches!(reason, StopReason::Stagnated | StopReason::Diverged) || !last_norm.is_finite();
        if has_failed && is_better(initial_norm) {
            // The guess has the smallest residual. The user's array still contains the guess.
            if !self.tests_completed_x || control.norm == Norm::True2 {
                return Ok(self.outcome(iterations, reason, initial_norm));
            }
            // `initial_norm` is the norm on S1. It is the residual norm of the guess with the red values that
            // back-substitution computes from the black ones.
            (x_max, norm) = complete_guess(s, control, loaded_system.scale, loaded_system.has_guess);
        }
        if let Err(error) = self.range_check.check(x_max, norm.max(self.test.threshold)) {
            return if stored_norm < f64::INFINITY {
                Ok(self.outcome(iterations, StopReason::Stagnated, stored_norm))
            } else {
                Err(error)
            };
        }
        s.store(loaded_system.scale);
        if iterations == 0 && reason == StopReason::Converged && !loaded_system.exceeds_f32 {
            reason = StopReason::InitialGuess;
        }
        Ok(self.outcome(iterations, reason, norm))
    }
}

impl<'s> Caller<dyn SolveSteps + 's> for Solve<'_> {
    /// Stores x if its residual norm is below `best` and below that of the guess, and if x is representable in double
    /// precision.
    fn store_if_better(&mut self, s: &mut (dyn SolveSteps + 's), best: f64, mut norm: f64) -> Option<f64> {
        let (control, scale) = (self.control, self.loaded_system.scale);
        let x_max;
        if self.tests_completed_x {
            (x_max, norm) = complete_with_norm(s, control, scale);
            reload_and_reduce(s, control, scale);
        } else {
            x_max = complete_solution(s, control);
        }
        let is_better = norm < best.min(self.norms.initial_norm) && self.is_storable(x_max, norm);
        is_better.then(|| {
            s.store(scale);
            norm
        })
    }

    fn run_other_method(&mut self, s: &mut (dyn SolveSteps + 's), state: &mut State) -> Option<Result<StopReason>> {
        let method = if self.uses_second_method { self.control.second_method } else { self.control.method }?;
        let reason = match (state.reason_to_stop(), s.krylov_steps()) {
            (Some(reason), _) => Ok(reason),
            (None, Some(s)) => method.run(s, state),
            (None, None) => Err(no_krylov_steps()),
        };
        // False, so that `pcg` does not recompute the residual: `end_run` recomputes it on the whole grid.
        state.is_recurred = false;
        Some(reason)
    }

    /// Completes x, and computes its residual on the whole grid if `tests_completed_x` is set or the second method has
    /// run. If the residual of a converged run fails the test, another run begins from the completed x. Instead, the
    /// solve ends as stagnated in three cases: x is not representable, `MAX_RESTARTS` is reached, or the norm of this
    /// residual exceeds `RESTART_REDUCTION` times `failed_norm`.
    fn end_run(&mut self, s: &mut (dyn SolveSteps + 's), state: &mut State, reason: StopReason) -> Option<StopReason> {
        let (control, scale, threshold) = (self.control, self.loaded_system.scale, self.test.threshold);
        if !self.tests_completed_x && !self.uses_second_method {
            self.x_max = complete_solution(s, control);
            let fails_test = reason == StopReason::Converged && !self.satisfies_test(state.norm);
            return Some(if fails_test { StopReason::Stagnated } else { reason });
        }
        let recurred_norm = state.norm;
        (self.x_max, state.norm) = complete_with_norm(s, control, scale);
        let norm = state.norm;
        if self.satisfies_test(norm) {
            return Some(StopReason::Converged);
        }
        if reason != StopReason::Converged {
            return Some(reason);
        }
        let is_unusable = !self.is_storable(self.x_max, norm) || norm.is_nan();
        if is_unusable || state.restarts >= MAX_RESTARTS || norm > RESTART_REDUCTION * self.failed_norm {
            return Some(StopReason::Stagnated);
        }
        if norm < state.stored_norm.min(self.norms.initial_norm) {
            s.store(scale);
            state.stored_norm = norm;
        }
        self.failed_norm = norm;
        state.restarts += 1;
        // The square of the recomputed norm exceeds the square of the recurred norm by `added_square`, because of
        // rounding. The next run subtracts 2 `added_square` from the square of its threshold, so that the test does not
        // fail again if rounding adds about the same square. The new threshold is at least `RESTART_REDUCTION` times
        // the threshold of the solve.
        let added_square = (norm * norm - recurred_norm * recurred_norm).max(0.0);
        let min_allowed = RESTART_REDUCTION * threshold;
        state.test.threshold =
            self.recurred_threshold((threshold * threshold - 2.0 * added_square).max(min_allowed * min_allowed).sqrt());
        *state = state.for_another_run(restart_residual(s, control, scale), state.iterations);
        None
    }

    /// Continues after a breakdown. If the eigenvalue bounds of a recursive cycle are too narrow, M is indefinite. If
    /// `auto` selected this cycle, PCG continues with the V-cycle. Otherwise, `Control::second_method` continues, if
    /// there is one.
    fn recover(&mut self, s: &mut (dyn SolveSteps + 's), state: &mut State, error: Error) -> Result<NextStep> {
        let Error::Breakdown { quantity, value, iteration } = error else { return Err(error) };
        let iterations = completed_iterations(quantity, iteration);
        if self.control.method.is_none() && !self.uses_second_method {
            if s.change_preconditioner(OtherPreconditioner::Definite) {
                let norm2 = s.residual(Iterate::X);
                if norm2.is_finite() {
                    *state = state.for_another_run(norm2, iterations);
                    return Ok(NextStep::Start);
                }
            }
            if self.control.second_method.is_some() && value.is_finite() {
                *state = state.for_another_run(s.residual(Iterate::X), iterations);
                s.change_preconditioner(OtherPreconditioner::AfterBreakdown);
                self.uses_second_method = true;
                return Ok(NextStep::Start);
            }
        }
        // The user's array contains a stored iterate; or iterates overflowed, and the array still contains the guess.
        // In both cases, the solve ends as stagnated, without error.
        if state.stored_norm < f64::INFINITY || self.ends_by_overflow(quantity, value, iteration) {
            (state.iterations, state.norm, state.is_recurred) = (iterations, f64::INFINITY, false);
            return Ok(NextStep::End(StopReason::Stagnated));
        }
        Err(error)
    }
}

/// Solves A x = b if b is in the null space up to rounding. On each component, x is the mean of the guess. A x is then
/// the row sums times this mean, and the row sums are almost zero. If this x fails the test and the residual of the
/// guess is not larger, the user's array keeps the guess. `rhs_norm` is the 2-norm of b before the projection. The
/// reference of the residuals is `rhs_norm`, divided by sqrt(max(center)) for the preconditioned norm. With
/// `reference=initial`, the reference is the norm of the initial residual, unless this residual is only rounding error.
fn constant_solution(
    s: &mut dyn SolveSteps,
    control: &Control,
    criterion: &Criterion,
    scale: f64,
    rhs_norm: f64,
) -> Result<Outcome> {
    let initial_norm = residual_norm_of_solution(s, control, scale);
    s.combine(VectorId::X, 0.0, &[]);
    s.change_means(VectorId::X, MeansChange::Restore);
    let norm = residual_norm_of_solution(s, control, scale);
    check_finite("|b - A x|", initial_norm + norm)?;
    let reference_rhs_norm = match control.norm {
        Norm::True2 => rhs_norm,
        Norm::Preconditioned => rhs_norm / control.matrix.center_max.sqrt(),
    };
    let reference = if control.is_reference_initial && initial_norm > PROJECTED_TO_ZERO_FRACTION * reference_rhs_norm {
        initial_norm
    } else {
        reference_rhs_norm
    };
    let threshold = criterion.threshold(reference, scale);
    s.observe(Event::Iteration(0, initial_norm / reference));
    let keeps_guess = norm > threshold && initial_norm <= norm;
    if !keeps_guess {
        s.store(scale);
    }
    let final_norm = if keeps_guess { initial_norm } else { norm };
    Ok(Outcome {
        iterations: 0,
        reason: match final_norm <= threshold {
            true if keeps_guess => StopReason::InitialGuess,
            true => StopReason::ZeroRhs,
            false => StopReason::Stagnated,
        },
        initial_residual: initial_norm / reference,
        final_residual: final_norm / reference,
        reference: reference / scale,
    })
}

fn no_krylov_steps() -> Error {
    Error::Internal("a family without Krylov steps has a Krylov method".to_owned())
}
