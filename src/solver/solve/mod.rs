//! What a solve by PCG does, from the caller's arrays back to them: the text that every family and every backend runs.
//!
//! What a solve looks up is in `control`, how it begins in `given`, x as it is returned in `returned`; single
//! applications of M^-1 and A in `apply`.

mod apply;
mod control;
mod given;
mod returned;

pub use control::{Control, Method, Places, Seen, check_all_singular};

use crate::backend::steps::pcg::SQUARE;
use crate::backend::steps::solve::{Criterion, SolveSteps};
use crate::backend::steps::vectors::VectorId;
use crate::error::{Error, Result};
use crate::report::{Outcome, StopReason};
use crate::solver::krylov::{Caller, MOST_RESTARTS, Next, Norm, State, Test, WORTH, done_before, pcg};
use apply::{apply, multiply};
use control::{Fit, PROJECTED_TO_ZERO, check_inputs, finite};
use given::{Given, Norms};
use returned::{complete_guess, completed, norm_as_given, reduce_again, returned, returned_residual, start_again};

/// What a call computes with a factorized matrix. Ranks compare the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// x of A x = b, to a tolerance.
    Solve = 2,
    /// z = M^-1 r.
    Apply = 3,
    /// y = A x.
    Multiply = 4,
}

impl Function {
    /// Output from input. A failure leaves the output untouched.
    pub fn run(self, s: &mut dyn SolveSteps, c: &Control) -> Result<Outcome> {
        match self {
            Self::Solve => solve(s, c),
            Self::Apply => apply(s, c),
            Self::Multiply => multiply(s, c),
        }
    }
}

/// A x = b by PCG, from the caller's arrays back to them.
fn solve(s: &mut dyn SolveSteps, c: &Control) -> Result<Outcome> {
    let checks = s.completes() || c.singular() || c.method.is_some();
    let criterion = c.criterion(checks);
    // A backend that began by itself would not know what was before.
    if !c.singular() && c.before.is_none() {
        s.expect(&criterion);
    }
    let inputs = check_inputs(s, c, true)?;
    if inputs.rhs_max == 0.0 {
        return Ok(zero_rhs(s));
    }
    finite("max |b|", inputs.rhs_max)?;
    let given = Given::load(s, c, criterion, &inputs)?;
    let mut rhs_norm = given.norm;
    if c.singular() {
        rhs_norm = given.project(s)?;
        if rhs_norm <= PROJECTED_TO_ZERO * given.norm {
            return constant_solution(s, c, &criterion, given.scale, given.norm);
        }
    }
    let norms = given.norms(s, rhs_norm)?;
    let mut solve = Solve::new(given, norms, checks);
    if s.completes() && !s.eliminates() {
        solve.test.center_max *= DEFLATION_ROUNDS;
    }
    if let Some(outcome) = solve.check_guess(s) {
        return Ok(outcome);
    }
    let norm2 = solve.first_residual(s);
    let mut at = State::new(solve.test, norm2, c.done());
    at.test.threshold = solve.wanted(solve.test.threshold);
    let reason = pcg(s, &mut at, &mut solve)?;
    solve.conclude(s, at, reason)
}

/// With deflation p'Ap is p'A p - g'E^-1 g, whose rounding is larger by what is allowed of the condition of E.
const DEFLATION_ROUNDS: f64 = 1e8;

/// A solve that iterates.
struct Solve<'c> {
    c: &'c Control<'c>,
    given: Given<'c>,
    norms: Norms,
    test: Test,
    fit: Fit,
    /// On S1 the residual of CG is not that of the caller's matrix: rounding on the way from one to the other comes on
    /// top. On a singular system x is shifted to the guess's means in the end. What meets the test is looked at as it
    /// is returned.
    checks: bool,
    /// A recurred residual this small is small enough, whatever is wanted.
    futile: f64,
    /// Norm of the x that missed the test last.
    missed: f64,
    /// PCG broke down, and the second method goes on.
    second: bool,
    /// max |x| of the last x, as it is returned.
    largest: f64,
}

impl<'c> Solve<'c> {
    fn new(given: Given<'c>, norms: Norms, checks: bool) -> Self {
        let (c, criterion, scale) = (given.c, &given.criterion, given.scale);
        let baseless = criterion.baseless * given.norm;
        let rounding = if c.singular() { baseless } else { 0.0 };
        let reference = match (c.before, norms.size <= baseless, c.reference_initial) {
            (Some(before), ..) => before.reference * scale,
            // Relative to rounding nothing can be small: ||b||_D^-1 at least, for the norm of b before elimination.
            (_, true, _) => given.norm / c.seen.center_max.sqrt(),
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
            centers: c.singular() && c.norm == Norm::Preconditioned,
            vanishing: rounding.max(criterion.vanishing(given.norm)),
            confirms: !checks,
            center_max: c.seen.center_max,
            definite: c.definite,
            // A guess may be far off.
            divergence: c.divergence * reference.max(norms.initial),
            same_unit: c.same_unit,
            general: c.general,
        };
        // On a singular system rounding leaves the recurred residual a constant, too.
        let constant = if c.norm == Norm::True2 { rounding / 16.0 } else { 0.0 };
        let futile = (criterion.futile * norms.rhs).max(if checks { constant } else { 0.0 });
        let fit = Fit::new(c, scale, given.rhs_max);
        Self { c, given, norms, test, fit, checks, futile, missed: f64::INFINITY, second: false, largest: 0.0 }
    }

    fn outcome(&self, iterations: usize, reason: StopReason, norm: f64) -> Outcome {
        Outcome {
            iterations,
            reason: match reason {
                // However it came to that.
                StopReason::MaxIter | StopReason::Stagnated if self.meets(norm) => StopReason::Converged,
                _ => reason,
            },
            initial_residual: self.norms.initial / self.test.reference,
            final_residual: norm / self.test.reference,
            reference: self.test.reference / self.given.scale,
        }
    }

    /// The test is met by x as it is stored.
    fn meets(&self, norm: f64) -> bool {
        norm + self.fit.lost <= self.test.threshold
    }

    /// x, with this max |x|, fits the caller's numbers.
    fn fits(&self, largest: f64, norm: f64) -> bool {
        self.fit.check(largest, norm.max(self.test.threshold)).is_ok()
    }

    /// Tells the observer of the guess. Returns the outcome if there is nothing to iterate for.
    fn check_guess(&self, s: &mut dyn SolveSteps) -> Option<Outcome> {
        let (c, given, initial, threshold) = (self.c, &self.given, self.norms.initial, self.test.threshold);
        let done = c.done();
        let met = if done == 0 { StopReason::InitialGuess } else { StopReason::Converged };
        let stop = c.before.is_none() && s.observe(0, initial / self.test.reference);
        if initial <= threshold && c.norm == Norm::True2 {
            return Some(self.outcome(done, met, initial));
        }
        if c.max_iter > done && !stop {
            return None;
        }
        // What is tested is r of S1, whatever the guess's red values are; of x as it stays they count.
        let norm = if c.norm == Norm::Preconditioned && s.eliminates() {
            norm_as_given(s, c, given.scale, given.guess, given.far.then_some(self.norms.rest))
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

    /// r of the x that PCG starts from. Returns <r, r>.
    fn first_residual(&self, s: &mut dyn SolveSteps) -> f64 {
        let given = &self.given;
        if given.far {
            s.clear(VectorId::X);
            if self.c.singular() {
                s.keep_means();
            }
        }
        match given.begun.and_then(|begun| begun.residual_norm2) {
            Some(norm2) => norm2,
            _ if given.guess && !given.far => s.residual(),
            _ => s.residual_from_rhs(),
        }
    }

    /// The threshold of the recurred residual.
    fn wanted(&self, threshold: f64) -> f64 {
        threshold.max(self.futile)
    }

    /// Where A is nearly singular iterates may grow beyond all numbers from a start that was not too large. In the
    /// preconditioned norm the residual of the guess can be told then if it stays as it is: where x is completed it
    /// would be computed anew, and vectors of M hold infinities.
    fn gone_astray(&self, quantity: &str, value: f64, iteration: usize) -> bool {
        let preconditioned = self.c.norm == Norm::Preconditioned;
        // Nobody was told of the iteration whose norm that would be.
        let iteration = iteration + usize::from(preconditioned && quantity == SQUARE);
        (!preconditioned || !self.checks) && !value.is_finite() && iteration > 1
    }

    /// Gives the caller x, or leaves him with what he has where that is better.
    fn conclude(&self, s: &mut dyn SolveSteps, at: State, mut reason: StopReason) -> Result<Outcome> {
        let (c, given, initial) = (self.c, &self.given, self.norms.initial);
        let State { iterations, norm: last, kept, .. } = at;
        let (mut norm, mut largest) = (last, self.largest);
        if reason == StopReason::MaxIter && last > self.test.divergence {
            // b - A x has passed the limit, which the recurred residual did not show.
            reason = StopReason::Diverged;
        }
        let better = |norm: f64| norm < last || norm < f64::INFINITY && last.is_nan();
        if reason != StopReason::Converged && better(kept) {
            return Ok(self.outcome(iterations, reason, kept));
        }
        let astray = matches!(reason, StopReason::Stagnated | StopReason::Diverged) || !last.is_finite();
        if astray && better(initial) {
            // Nothing better than the guess was found: x as given.
            if !self.checks || c.norm == Norm::True2 {
                return Ok(self.outcome(iterations, reason, initial));
            }
            // That is said of its black values: with the red ones that belong to them.
            (largest, norm) = complete_guess(s, c, given.scale, given.guess);
        }
        if let Err(error) = self.fit.check(largest, norm.max(self.test.threshold)) {
            return if kept < f64::INFINITY {
                Ok(self.outcome(iterations, StopReason::Stagnated, kept))
            } else {
                Err(error)
            };
        }
        s.store(given.scale);
        if iterations == 0 && reason == StopReason::Converged && !given.far {
            reason = StopReason::InitialGuess;
        }
        Ok(self.outcome(iterations, reason, norm))
    }
}

impl<'s> Caller<dyn SolveSteps + 's> for Solve<'_> {
    /// Stores x if it is better than the guess, too.
    fn keep(&mut self, s: &mut (dyn SolveSteps + 's), best: f64, mut norm: f64) -> Option<f64> {
        let (c, scale) = (self.c, self.given.scale);
        let largest;
        if self.checks {
            (largest, norm) = completed(s, c, scale);
            reduce_again(s, c, scale);
        } else {
            largest = returned(s, c);
        }
        let better = norm < best.min(self.norms.initial) && self.fits(largest, norm);
        better.then(|| {
            s.store(scale);
            norm
        })
    }

    fn method(&mut self, s: &mut (dyn SolveSteps + 's), at: &mut State) -> Option<Result<StopReason>> {
        let method = if self.second { self.c.second } else { self.c.method }?;
        let reason = match (at.over(), s.krylov()) {
            (Some(reason), _) => Ok(reason),
            (None, Some(s)) => method.run(s, at),
            (None, None) => Err(no_krylov_steps()),
        };
        // The residual is recomputed on the whole grid.
        at.recurred = false;
        Some(reason)
    }

    /// Confirms the end on the whole grid. Where x misses the test, another run begins from x as it is returned.
    fn ended(&mut self, s: &mut (dyn SolveSteps + 's), at: &mut State, reason: StopReason) -> Option<StopReason> {
        let (c, scale, threshold) = (self.c, self.given.scale, self.test.threshold);
        if !self.checks && !self.second {
            self.largest = returned(s, c);
            let misses = reason == StopReason::Converged && !self.meets(at.norm);
            return Some(if misses { StopReason::Stagnated } else { reason });
        }
        let recurred = at.norm;
        (self.largest, at.norm) = completed(s, c, scale);
        let norm = at.norm;
        if self.meets(norm) {
            return Some(StopReason::Converged);
        }
        if reason != StopReason::Converged {
            return Some(reason);
        }
        let lost = !self.fits(self.largest, norm) || norm.is_nan();
        if lost || at.restarts >= MOST_RESTARTS || norm > WORTH * self.missed {
            return Some(StopReason::Stagnated);
        }
        if norm < at.kept.min(self.norms.initial) {
            s.store(scale);
            at.kept = norm;
        }
        self.missed = norm;
        at.restarts += 1;
        // The residual on S1 must be smaller in the next run: by what the whole grid has added, with twice its square.
        let added = (norm * norm - recurred * recurred).max(0.0);
        let least = WORTH * threshold;
        at.test.threshold = self.wanted((threshold * threshold - 2.0 * added).max(least * least).sqrt());
        *at = at.again(start_again(s, c, scale), at.iterations);
        None
    }

    /// Bounds that were too narrow make a recursive M indefinite: PCG continues with the V-cycle where the cycle was
    /// chosen. Else the second method continues, if there is one.
    fn recover(&mut self, s: &mut (dyn SolveSteps + 's), at: &mut State, error: Error) -> Result<Next> {
        let Error::Breakdown { quantity, value, iteration } = error else { return Err(error) };
        let iterations = done_before(quantity, iteration);
        if self.c.method.is_none() && !self.second {
            if s.fall_back() {
                let norm2 = s.residual();
                if norm2.is_finite() {
                    *at = at.again(norm2, iterations);
                    return Ok(Next::Start);
                }
            }
            if self.c.second.is_some() && value.is_finite() {
                *at = at.again(s.residual(), iterations);
                s.krylov().ok_or_else(no_krylov_steps)?.take_second();
                self.second = true;
                return Ok(Next::Start);
            }
        }
        // The caller has an iterate, or keeps the guess where iterates have gone astray: no other error is reported.
        if at.kept < f64::INFINITY || self.gone_astray(quantity, value, iteration) {
            (at.iterations, at.norm, at.recurred) = (iterations, f64::INFINITY, false);
            return Ok(Next::End(StopReason::Stagnated));
        }
        Err(error)
    }
}

/// b is in the null space, but for rounding: x = the mean of the guess in each component, on which A is zero but for
/// what is left of its row sums. Residuals are relative to b, of norm `given`, before it was projected. A guess that is
/// no worse stays.
fn constant_solution(
    s: &mut dyn SolveSteps,
    c: &Control,
    criterion: &Criterion,
    scale: f64,
    given: f64,
) -> Result<Outcome> {
    let initial = returned_residual(s, c, scale);
    s.clear(VectorId::X);
    s.shift_means(true);
    let norm = returned_residual(s, c, scale);
    finite("|b - A x|", initial + norm)?;
    let of_given = match c.norm {
        Norm::True2 => given,
        Norm::Preconditioned => given / c.seen.center_max.sqrt(),
    };
    let reference = if c.reference_initial && initial > PROJECTED_TO_ZERO * of_given { initial } else { of_given };
    let threshold = criterion.threshold(reference, scale);
    s.observe(0, initial / reference);
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

fn zero_rhs(s: &mut dyn SolveSteps) -> Outcome {
    s.store_zero();
    Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() }
}
