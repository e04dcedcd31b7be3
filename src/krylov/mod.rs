//! Krylov methods for A x = b. [`pcg`] implements preconditioned conjugate gradients (report 16-06, algorithm 1) for
//! every family that implements `PcgSteps`.
//!
//! The module `decisions` decides how a solve continues. Its functions depend only on the [`State`] and on the scalars
//! that the steps return. The methods for general matrices (BiCG, BiCGSTAB, GMRES, IDR(s), MINRES, steepest descent)
//! use `KrylovSteps`.

pub mod bicg;
pub mod bicgstab;
pub mod cpu;
mod decisions;
pub mod gmres;
pub mod idr;
pub mod minres;
pub mod pcg;
pub mod series;
pub mod solve;
pub mod solve_steps;
pub mod spectrum;
pub mod state;
pub mod steepest_descent;
pub mod sweeps;
#[cfg(test)]
mod tests;
pub mod vectors;
#[cfg(test)]
mod vectors_tests;

pub use crate::krylov::state::{State, Test};
pub use decisions::{MAX_RESTARTS, NextStep, RESTART_REDUCTION, completed_iterations};
pub use {
    bicg::{BICG_VECTORS, bicg},
    bicgstab::{BICGSTAB_VECTORS, bicgstab},
    gmres::{GmresScalars, gmres, gmres_vectors},
    idr::{IdrScalars, idr, idr_vectors},
    minres::{MINRES_VECTORS, minres},
    steepest_descent::{STEEPEST_DESCENT_VECTORS, steepest_descent},
    sweeps::{SWEEPS_VECTORS, sweeps},
};

use crate::error::{Error, Result};
use crate::krylov::pcg::{
    Beta, OtherPreconditioner, PcgSteps, RHO_NAME, SIGMA_NAME, direction_norm2, replace_residual,
    subtract_means_from_residual,
};
use crate::krylov::state::TestCode;
use crate::krylov::vectors::{Iterate, KrylovSteps, VectorId};
use crate::report::{Event, StopReason};
use decisions::ROUNDING_FACTOR;

pub use crate::options::Norm;

/// Callbacks of PCG. The code in `solve` that runs PCG implements them. They run other methods, store iterates, and
/// handle the end of a run and breakdowns. The user's system may be larger than the system that PCG solves.
pub trait Caller<S: ?Sized> {
    /// Stores x in the user's array if its residual norm in the user's system is below `stored_norm`, that of the
    /// iterate stored last. `norm` is the tested norm of r = b - A x in the system of PCG. Returns the residual norm of
    /// x in the user's system, or `None` if x was not stored. May overwrite r.
    fn store_if_better(&mut self, s: &mut S, stored_norm: f64, norm: f64) -> Option<f64>;

    /// Runs another Krylov method instead of PCG, and returns its stop reason or its error. Returns `None` if PCG is to
    /// run.
    fn run_other_method(&mut self, _s: &mut S, _state: &mut State) -> Option<Result<StopReason>> {
        None
    }

    /// Handles the end of a run, whose stop reason is `reason`. Returns the stop reason of the solve, or `None` to
    /// request another run. Before it returns `None`, it sets `state` to the state at the start of the next run.
    fn end_run(&mut self, _s: &mut S, _state: &mut State, reason: StopReason) -> Option<StopReason> {
        Some(reason)
    }

    /// Handles the breakdown `error`. Returns the next step of the loop.
    ///
    /// # Errors
    /// Returns `error` if the solve cannot continue.
    fn recover(&mut self, _s: &mut S, _state: &mut State, error: Error) -> Result<NextStep> {
        Err(error)
    }
}

/// Runs PCG from x and r = b - A x. After each run, `Caller::end_run` returns the stop reason of the solve or requests
/// another run. Returns this stop reason; x and `state` contain the final iterate and its scalars.
///
/// If `Test::confirms` is set, convergence of the recurred residual is confirmed with the recomputed residual: if the
/// recomputed residual fails the test, PCG restarts from it. The table in `decisions` lists the other reasons for a
/// restart.
///
/// # Errors
/// Returns the errors from which `Caller::recover` does not recover.
pub fn pcg<S: PcgSteps + ?Sized>(s: &mut S, state: &mut State, caller: &mut dyn Caller<S>) -> Result<StopReason> {
    let mut next = NextStep::Start;
    loop {
        next = match next {
            NextStep::Start => match caller.run_other_method(s, state) {
                None => {
                    let code = start_pcg(s, state, caller);
                    state.next_step(code)
                }
                Some(Ok(reason)) => NextStep::End(reason),
                Some(Err(error)) => NextStep::Fail(error),
            },
            NextStep::Iterate => {
                let code = iterate(s, state);
                state.next_step(code)
            }
            NextStep::Restart => {
                state.norm2 = s.residual(Iterate::X);
                state.count_restart();
                NextStep::Start
            }
            NextStep::ChangePreconditioner => {
                state.norm2 = s.residual(Iterate::X);
                state.reset_restarts();
                NextStep::Start
            }
            NextStep::End(reason) => {
                if state.is_recurred && state.test.confirms && reason != StopReason::Diverged {
                    state.norm = recompute_residual(s, state.test.norm);
                }
                match caller.end_run(s, state, reason) {
                    Some(reason) => return Ok(reason),
                    None => NextStep::Start,
                }
            }
            NextStep::Fail(error) => caller.recover(s, state, error)?,
        }
    }
}

/// Tests r = b - A x and starts PCG: z = M^-1 r, rho = <r, z>, p = z, q = A p, sigma = <p, q>. After a restart, first
/// passes x to `Caller::store_if_better` if `State::passes_iterate` allows it. Returns the code of the last test. If
/// the backend has a PCG loop (`PcgSteps::iterate`), runs this loop and returns the code at its end.
fn start_pcg<S: PcgSteps + ?Sized>(s: &mut S, state: &mut State, caller: &mut dyn Caller<S>) -> TestCode {
    loop {
        // The test ignores the means of r over singular components. No iteration changes these means, because the sum
        // of A p over a singular component is zero up to rounding.
        if state.test.subtracts_means {
            state.norm2 = subtract_means_from_residual(s).1.unwrap_or(state.norm2);
        }
        let mut code = state.test_residual();
        if code == TestCode::Running {
            s.descend(None);
            let rho = s.preconditioned_square();
            let is_rounding_error = is_rounding(s, state, RHO_NAME, rho);
            code = state.test_start(rho, is_rounding_error);
        }
        if code != TestCode::Running {
            return code;
        }
        if !state.passes_iterate() {
            break;
        }
        state.stored_norm = caller.store_if_better(s, state.stored_norm, state.norm).unwrap_or(state.stored_norm);
        // `store_if_better` may shift x by a constant and overwrite r, so r is recomputed and tested again.
        state.norm2 = s.residual(Iterate::X);
    }
    state.record_start();
    match ascend(s, state, None) {
        TestCode::Running => run_loop(s, state),
        code => code,
    }
}

/// Runs the PCG loop of the backend (`PcgSteps::iterate`). Returns `Running` if the backend has no such loop, otherwise
/// the code at the end of the loop, with two exceptions:
///
/// - If the loop paused although the observer requested no stop, returns `PreconditionerChanged` if the preconditioner
///   was switched, else `NeedsRestart`.
/// - If the loop ended at a nonpositive rho or sigma that rounding explains, returns `NeedsRestart`.
fn run_loop<S: PcgSteps + ?Sized>(s: &mut S, state: &mut State) -> TestCode {
    let Some(code) = s.iterate(state) else { return TestCode::Running };
    // The backend does not return <r, r> of its last iteration. Infinity exceeds `Test::vanishing_norm`, so no square
    // counts as underflowed.
    (state.is_recurred, state.norm2) = (true, f64::INFINITY);
    match code {
        TestCode::Paused if !state.stop_requested && changes_preconditioner(s, state) => {
            TestCode::PreconditionerChanged
        }
        TestCode::Paused if !state.stop_requested => TestCode::NeedsRestart,
        TestCode::SigmaNotPositive if is_rounding(s, state, SIGMA_NAME, state.sigma) => TestCode::NeedsRestart,
        TestCode::RhoNegative | TestCode::RhoNotPositive if is_rounding(s, state, RHO_NAME, state.rho) => {
            state.stop_requested = state.stop_requested
                || code == TestCode::RhoNegative && s.observe(Event::Iteration(state.iterations, 0.0));
            TestCode::NeedsRestart
        }
        code => code,
    }
}

/// Computes one iteration and returns the code of its last test. If this code is not `Running`, x includes the update
/// alpha p, except after `Diverged`, `RhoNegative` or `RhoNotPositive`.
fn iterate<S: PcgSteps + ?Sized>(s: &mut S, state: &mut State) -> TestCode {
    let alpha = state.alpha;
    let replaces_residual = state.is_replacement_due() && s.properties().is_single_precision;
    s.observe(Event::Coefficients(state.alpha, state.beta));
    state.iterations += 1;
    state.is_recurred = true;
    let mut replacement = None;
    if replaces_residual {
        let (recurred, norm2) = replace_residual(s, state.alpha); // x = x + alpha p, r = b - A x
        replacement = Some(state.record_replacement(recurred, norm2));
        state.norm2 = s.descend(None);
    } else {
        state.norm2 = s.descend(Some(state.alpha)); // r = r - alpha q
        state.true_residual.largest_norm2 = state.true_residual.largest_norm2.max(state.norm2);
    }
    let mut rho = 0.0;
    let code = check_iteration(s, state, &mut rho);
    if !matches!(code, TestCode::Running | TestCode::RhoNegative | TestCode::Diverged) && !replaces_residual {
        s.combine(VectorId::X, 1.0, &[(state.alpha, VectorId::P)]); // `ascend`, which updates x, does not run
    }
    if code != TestCode::Running {
        return code;
    }
    let Some(is_conjugate) = replacement.map_or(Some(true), |replacement| state.stays_conjugate(replacement, rho))
    else {
        return TestCode::NeedsRestart;
    };
    let beta = |rho, rho_old| if is_conjugate { next_beta(s, alpha, rho, rho_old) } else { 0.0 };
    if state.set_rho(rho, beta) != TestCode::Running {
        state.rho = rho;
        return TestCode::RhoNotPositive;
    }
    if replaces_residual {
        state.true_residual.rho = rho;
    }
    state.largest_rho = state.largest_rho.max(rho);
    // x = x + alpha p, p = z + beta p, q = A p, sigma = <p, q>
    ascend(s, state, is_conjugate.then_some((state.alpha, state.beta)))
}

/// Computes the tested norm, reports it to the observer, and applies the tests that follow the update of r. Stores
/// <r, M^-1 r> in `rho`. In the 2-norm, `rho` is computed only if the test of the norm returns `Running`.
fn check_iteration<S: PcgSteps + ?Sized>(s: &mut S, state: &mut State, rho: &mut f64) -> TestCode {
    let preconditioned = state.test.norm == Norm::Preconditioned;
    if preconditioned {
        *rho = s.preconditioned_square();
        if is_rounding(s, state, RHO_NAME, *rho) {
            *rho = 0.0;
        }
    }
    if state.set_norm(*rho) != TestCode::Running {
        state.rho = *rho;
        return TestCode::RhoNegative;
    }
    state.stop_requested = s.observe(Event::Iteration(state.iterations, state.norm / state.test.reference));
    let code = state.check_norm();
    if code != TestCode::Running {
        return code;
    }
    if !preconditioned {
        *rho = s.preconditioned_square();
    }
    if is_rounding(s, state, RHO_NAME, *rho) {
        TestCode::NeedsRestart
    } else if changes_preconditioner(s, state) {
        TestCode::PreconditionerChanged
    } else if state.stagnates() && s.properties().contracts_quickly {
        TestCode::NeedsRestart
    } else {
        TestCode::Running
    }
}

/// Returns beta of the next direction. `alpha` is the step length of the last `descend`, which computed r. `rho` and
/// `rho_old` are <r, z> of this r and of the previous r.
fn next_beta<S: PcgSteps + ?Sized>(s: &mut S, alpha: f64, rho: f64, rho_old: f64) -> f64 {
    let fixed_beta = rho / rho_old;
    let limit = match s.properties().beta {
        Beta::Fixed => return fixed_beta,
        Beta::Flexible => None,
        Beta::Limited(limit) => Some(limit * fixed_beta.abs()),
    };
    let flexible_beta = -alpha * s.inner_product(VectorId::Z, VectorId::Q) / rho_old;
    limit.map_or(flexible_beta, |limit| flexible_beta.clamp(0.0, limit))
}

/// Computes x = x + alpha p, p = z + beta p, q = A p and sigma = <p, q>. `coefficients` is (alpha, beta); with `None`,
/// p = z and x is unchanged. Returns the result of the test of sigma.
fn ascend<S: PcgSteps + ?Sized>(s: &mut S, state: &mut State, coefficients: Option<(f64, f64)>) -> TestCode {
    let sigma = s.ascend(coefficients);
    match state.set_sigma(sigma) {
        TestCode::Running => TestCode::Running,
        _ if is_rounding(s, state, SIGMA_NAME, sigma) => TestCode::SigmaVanished,
        _ => TestCode::SigmaNotPositive,
    }
}

/// Switches to another preconditioner if its estimated work is smaller (`OtherPreconditioner::Cheaper`). Returns
/// whether M has changed. With the preconditioned norm, M is not switched, because the tested norm would change.
fn changes_preconditioner<S: PcgSteps + ?Sized>(s: &mut S, state: &State) -> bool {
    state.test.norm == Norm::True2 && s.change_preconditioner(OtherPreconditioner::Cheaper(state))
}

/// Returns whether rounding can explain a nonpositive `square`. If so, `square` does not show that A or M is indefinite
/// (docs/theory/rrb.md, breakdown). `quantity` is the name of `square`: [`SIGMA_NAME`] or [`RHO_NAME`]. May overwrite
/// q. The first rule that applies decides:
///
/// - p'Ap = 0 before the first iteration: no, if `Test::may_be_indefinite` is set.
/// - A square for which `State::is_negligible` holds: yes.
/// - A positive, infinite or NaN square: no.
/// - r'M^-1 r: yes, if M is definite.
/// - p'Ap: yes, if |p'Ap| <= 128 epsilon max(center) <p, p>. This is the limit of `ROUNDING_FACTOR` with the
///   bound |p|'|A||p| <= 2 max(center) <p, p>.
fn is_rounding<S: PcgSteps + ?Sized>(s: &mut S, state: &State, quantity: &str, square: f64) -> bool {
    let test = &state.test;
    if test.may_be_indefinite && quantity == SIGMA_NAME && square == 0.0 && state.iterations == 0 {
        return false;
    }
    if state.is_negligible(quantity, square, s.properties().is_single_precision) {
        return true;
    }
    if !(square <= 0.0 && square.is_finite()) {
        return false;
    }
    if quantity != SIGMA_NAME {
        return test.is_preconditioner_definite;
    }
    // p is scaled by sqrt(max(center) / |p'Ap|), so that no square overflows or underflows.
    let factor = test.center_max.sqrt() / (-square).sqrt();
    square == 0.0 || 2.0 * direction_norm2(s, factor) * ROUNDING_FACTOR * f64::EPSILON >= 1.0
}

/// Recomputes r = b - A x and returns its tested norm.
fn recompute_residual<S: PcgSteps + ?Sized>(s: &mut S, norm: Norm) -> f64 {
    let norm2 = s.residual(Iterate::X);
    if norm == Norm::True2 {
        return norm2.sqrt();
    }
    s.descend(None);
    s.preconditioned_square().abs().sqrt()
}

/// Returns `value`, the square of a norm, if it is finite and nonnegative. Zero is allowed: squares may underflow.
///
/// # Errors
/// Returns `Error::Breakdown` for a negative value, an infinite value or NaN.
pub fn check_not_negative(quantity: &'static str, value: f64, iteration: usize) -> Result<f64> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}

impl State {
    /// Counts one iteration of a method other than PCG and notifies the observer. `norm` is the residual norm of this
    /// iteration; the residual is treated as recurred. Returns the stop reason if the run ends.
    fn observe<S: KrylovSteps + ?Sized>(&mut self, s: &mut S, norm: f64) -> Option<StopReason> {
        self.iterations += 1;
        (self.norm, self.is_recurred) = (norm, true);
        self.stop_requested = s.observe(Event::Iteration(self.iterations, norm / self.test.reference));
        self.reason_to_stop()
    }
}

/// Returns whether a method may divide by `value`: it is finite and nonzero.
fn may_divide_by(value: f64) -> bool {
    value != 0.0 && value.is_finite()
}
