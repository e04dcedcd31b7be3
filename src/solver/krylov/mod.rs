//! Preconditioned conjugate gradients (report 16-06, algorithm 1), for any family that has the steps.
//!
//! [`pcg`] is the loop of a solve; the decisions, pure functions of its [`State`], are in `decisions`. The methods for
//! general matrices are in files of their own names, over `KrylovSteps`.

mod bicg;
mod bicgstab;
mod decisions;
mod gmres;
mod idr;
mod minres;
mod sweeps;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors_tests;

pub use crate::backend::steps::state::{State, Test};
pub use decisions::{MOST_RESTARTS, Next, WORTH, done_before};
pub use {
    bicg::{BICG_VECTORS, bicg},
    bicgstab::{BICGSTAB_VECTORS, bicgstab},
    gmres::{GmresRoom, gmres, gmres_vectors},
    idr::{IdrRoom, idr, idr_vectors},
    minres::{MINRES_VECTORS, minres},
    sweeps::{SWEEPS_VECTORS, sweeps},
};

use crate::backend::steps::pcg::{ENERGY, PcgSteps, SQUARE};
use crate::backend::steps::state::Code;
use crate::backend::steps::vectors::{KrylovSteps, VectorId};
use crate::error::{Error, Result};
use crate::report::StopReason;
use decisions::ROUNDINGS;

pub use crate::options::Norm;

/// The caller of PCG, whose system may be larger than the one that PCG solves.
pub trait Caller<S: ?Sized> {
    /// Stores x for the user if it is better than the iterate stored before, of norm `best`. Returns the norm of x as
    /// it is stored. May overwrite r.
    fn keep(&mut self, s: &mut S, best: f64, norm: f64) -> Option<f64>;

    /// Runs another method in place of PCG, if there is one.
    fn method(&mut self, _s: &mut S, _at: &mut State) -> Option<Result<StopReason>> {
        None
    }

    /// A run has ended. Returns the reason that the solve ends with; none if `at` begins another run.
    fn ended(&mut self, _s: &mut S, _at: &mut State, reason: StopReason) -> Option<StopReason> {
        Some(reason)
    }

    /// A run broke down. Returns what comes next.
    ///
    /// # Errors
    /// The error, if nothing does.
    fn recover(&mut self, _s: &mut S, _at: &mut State, error: Error) -> Result<Next> {
        Err(error)
    }
}

/// Iterates from x and r = b - A x until the caller ends the solve, with x, and `at` as it stands. Convergence seen on
/// the recurred residual is confirmed on a recomputed one, where the test says so; where that misses it, or squares are
/// nothing but rounding, PCG restarts from it.
pub fn pcg<S: PcgSteps + ?Sized>(s: &mut S, at: &mut State, caller: &mut dyn Caller<S>) -> Result<StopReason> {
    let mut next = Next::Start;
    loop {
        next = match next {
            Next::Start => match caller.method(s, at) {
                None => {
                    let code = start(s, at, caller);
                    at.next(code)
                }
                Some(Ok(reason)) => Next::End(reason),
                Some(Err(error)) => Next::Fail(error),
            },
            Next::Iterate => {
                let code = iterate(s, at);
                at.next(code)
            }
            Next::Restart => {
                at.norm2 = s.residual();
                at.count_restart();
                Next::Start
            }
            Next::Change => {
                at.norm2 = s.residual();
                at.begin_run();
                Next::Start
            }
            Next::End(reason) => {
                if at.recurred && at.test.confirms && reason != StopReason::Diverged {
                    at.norm = recomputed(s, at.test.norm);
                }
                match caller.ended(s, at, reason) {
                    Some(reason) => return Ok(reason),
                    None => Next::Start,
                }
            }
            Next::Fail(error) => caller.recover(s, at, error)?,
        }
    }
}

/// A start from r = b - A x: z = M^-1 r, rho = <r, z>, p = z, q = A p, sigma = <p, q>. A backend that runs the loop by
/// itself goes on to its end.
fn start<S: PcgSteps + ?Sized>(s: &mut S, at: &mut State, caller: &mut dyn Caller<S>) -> Code {
    loop {
        // The check adds no means: no x of the given mean removes them.
        if at.test.centers {
            at.norm2 = s.center_residual().norm2.unwrap_or(at.norm2);
        }
        let mut code = at.test_residual();
        if code == Code::Running {
            s.descend(None);
            let rho = s.preconditioned_square();
            let rounding = is_rounding(s, at, SQUARE, rho);
            code = at.test_start(rho, rounding);
        }
        if code != Code::Running {
            return code;
        }
        if !at.offers() {
            break;
        }
        at.kept = caller.keep(s, at.kept, at.norm).unwrap_or(at.kept);
        // That may change x by a constant: r is to be that of the x kept.
        at.norm2 = s.residual();
    }
    at.begin();
    match ascend(s, at, None) {
        Code::Running => run_loop(s, at),
        code => code,
    }
}

/// The loop as a backend runs it by itself, if it does, up to its end.
fn run_loop<S: PcgSteps + ?Sized>(s: &mut S, at: &mut State) -> Code {
    let Some(code) = s.iterate(at) else { return Code::Running };
    // The backend has <r, r>.
    (at.recurred, at.norm2) = (true, f64::INFINITY);
    match code {
        Code::Paused if !at.stopped && changes_preconditioner(s, at) => Code::Changed,
        Code::Paused if !at.stopped => Code::Spent,
        Code::SigmaBad if is_rounding(s, at, ENERGY, at.sigma) => Code::Spent,
        Code::RhoNegative | Code::RhoBad if is_rounding(s, at, SQUARE, at.rho) => {
            at.stopped = at.stopped || code == Code::RhoNegative && s.observe(at.iterations, 0.0);
            Code::Spent
        }
        code => code,
    }
}

/// An iteration. Where it is the last one of a run, x has its step, except where the residual has diverged.
fn iterate<S: PcgSteps + ?Sized>(s: &mut S, at: &mut State) -> Code {
    let replaces = at.is_replacement_due() && s.replaces_residual();
    s.record(at.alpha, at.beta);
    at.iterations += 1;
    at.recurred = true;
    let mut replaced = None;
    if replaces {
        let (recurred, norm2) = s.replace_residual(at.alpha); // x = x + alpha p, r = b - A x
        replaced = Some(at.replace(recurred, norm2));
        at.norm2 = s.descend(None);
    } else {
        at.norm2 = s.descend(Some(at.alpha)); // r = r - alpha q
        at.exact.peak = at.exact.peak.max(at.norm2);
    }
    let mut rho = 0.0;
    let code = check(s, at, &mut rho);
    if !matches!(code, Code::Running | Code::RhoNegative | Code::Diverged) && !replaces {
        s.add(VectorId::X, at.alpha, VectorId::P); // which `ascend` would have done
    }
    if code != Code::Running {
        return code;
    }
    let Some(conjugate) = replaced.map_or(Some(true), |replaced| at.stays_conjugate(replaced, rho)) else {
        return Code::Spent;
    };
    let beta = |rho, rho_old| if conjugate { s.beta(rho, rho_old) } else { 0.0 };
    if at.take_rho(rho, beta) != Code::Running {
        at.rho = rho;
        return Code::RhoBad;
    }
    if replaces {
        at.exact.rho = rho;
    }
    at.largest_rho = at.largest_rho.max(rho);
    // x = x + alpha p, p = z + beta p, q = A p, sigma = <p, q>
    ascend(s, at, conjugate.then_some((at.alpha, at.beta)))
}

/// The convergence check. rho = <r, M^-1 r> is needed for the test in the preconditioned norm, else only to go on.
fn check<S: PcgSteps + ?Sized>(s: &mut S, at: &mut State, rho: &mut f64) -> Code {
    let preconditioned = at.test.norm == Norm::Preconditioned;
    if preconditioned {
        *rho = s.preconditioned_square();
        if is_rounding(s, at, SQUARE, *rho) {
            *rho = 0.0;
        }
    }
    if at.take_norm(*rho) != Code::Running {
        at.rho = *rho;
        return Code::RhoNegative;
    }
    at.stopped = s.observe(at.iterations, at.norm / at.test.reference);
    let code = at.check();
    if code != Code::Running {
        return code;
    }
    if !preconditioned {
        *rho = s.preconditioned_square();
    }
    if is_rounding(s, at, SQUARE, *rho) {
        Code::Spent
    } else if changes_preconditioner(s, at) {
        Code::Changed
    } else if at.stands_still() && s.contracts_quickly() {
        Code::Spent
    } else {
        Code::Running
    }
}

/// To the next direction and its energy; `step`: alpha and beta, none where p = z.
fn ascend<S: PcgSteps + ?Sized>(s: &mut S, at: &mut State, step: Option<(f64, f64)>) -> Code {
    let sigma = s.ascend(step);
    match at.take_sigma(sigma) {
        Code::Running => Code::Running,
        _ if is_rounding(s, at, ENERGY, sigma) => Code::SigmaVanished,
        _ => Code::SigmaBad,
    }
}

/// Whether the steps have switched to another preconditioner, in whose norm nothing is tested.
fn changes_preconditioner<S: PcgSteps + ?Sized>(s: &mut S, at: &State) -> bool {
    at.test.norm == Norm::True2 && s.change_preconditioner(at)
}

/// Whether rounding explains that a square is not positive: it is no sign of an indefinite matrix then. r'M^-1 r of a
/// definite M; p'Ap where the terms of that sum, |p|'|A||p| <= 2 max center <p, p>, are large relative to it.
fn is_rounding<S: PcgSteps + ?Sized>(s: &mut S, at: &State, quantity: &str, square: f64) -> bool {
    let test = &at.test;
    if test.general && quantity == ENERGY && square == 0.0 && at.iterations == 0 {
        return false;
    }
    if at.is_negligible(quantity, square, s.replaces_residual()) {
        return true;
    }
    if !(square <= 0.0 && square.is_finite()) {
        return false;
    }
    if quantity != ENERGY {
        return test.definite;
    }
    // The terms over |p'Ap|, so that no square overflows or vanishes.
    let factor = test.center_max.sqrt() / (-square).sqrt();
    square == 0.0 || 2.0 * s.direction_norm2(factor) * ROUNDINGS * f64::EPSILON >= 1.0
}

/// The tested norm of b - A x.
fn recomputed<S: PcgSteps + ?Sized>(s: &mut S, norm: Norm) -> f64 {
    let norm2 = s.residual();
    if norm == Norm::True2 {
        return norm2.sqrt();
    }
    s.descend(None);
    s.preconditioned_square().abs().sqrt()
}

/// The square of a norm, which may have vanished; anything else than a finite number that is not negative is a
/// breakdown.
pub fn not_negative(quantity: &'static str, value: f64, iteration: usize) -> Result<f64> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}

impl State {
    /// An iteration of a method other than PCG is done, with this norm of the residual: notifies the observer. Returns
    /// the reason of the end, if this is one.
    fn observe<S: KrylovSteps + ?Sized>(&mut self, s: &mut S, norm: f64) -> Option<StopReason> {
        self.iterations += 1;
        (self.norm, self.recurred) = (norm, true);
        self.stopped = s.observe(self.iterations, norm / self.test.reference);
        self.over()
    }
}

/// Whether a method may divide by this.
fn divides(value: f64) -> bool {
    value != 0.0 && value.is_finite()
}
