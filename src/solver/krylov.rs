//! Preconditioned conjugate gradients (report 16-06, algorithm 1).

use crate::backend::steps::rrb::{ENERGY, LoopEnding, LoopTest, RrbSteps, SQUARE};
use crate::error::{Error, Result};
use crate::report::StopReason;

/// The tested norm of the residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// 2-norm of b - A x.
    True2,
    /// sqrt(r' M^-1 r), as in the papers.
    Preconditioned,
}

/// When to stop: norm(r) <= threshold, after `max_iter` iterations, or when the observer asks.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// Tested norm.
    pub norm: Norm,
    /// max(rel_tol * reference, abs_tol).
    pub threshold: f64,
    /// What residuals are reported relative to.
    pub reference: f64,
    /// Iterations at most.
    pub max_iter: usize,
    /// 2-norm of a residual that is nothing but rounding: on a singular system it has no direction to go to.
    pub rounding: f64,
    /// 2-norm of a residual whose squares may vanish in the sweeps: zero, or what rounding makes of it, is then no sign
    /// of an indefinite matrix.
    pub vanishing: f64,
    /// Largest center of A: what rounding leaves of p'Ap is relative to it.
    pub center_max: f64,
    /// M is definite: the V-cycle of pivots that are positive.
    pub definite: bool,
    /// Convergence seen on the recurred residual is confirmed on a recomputed one here; else the caller does it.
    pub confirms: bool,
}

/// Times that a solve starts again from a recomputed residual that missed the test, and what the next one must be
/// of the one before to go on: where rounding allows no more, a restart comes back to the same residual.
pub const RESTARTS: usize = 3;
pub const WORTH_A_RESTART: f64 = 0.5;

/// Where CG is in single precision, its residual is renewed in double precision in the iteration after its square has
/// fallen to this of its largest since the last renewal, or r'M^-1 r to this of that at the renewal, or after so many
/// iterations. The largest counts since rounding is relative to it; r'M^-1 r since on a nearly singular system it falls at
/// once, with the constant in r, while rounding of the large S1 p has left r another one that the norm does not show: M^-1
/// would make much of it later. Where the square has to fall to no less than `NEAR` of its largest, rounding is a small part
/// of the residual until the test is met, and a miss now and then costs less than a renewal each time.
/// Rounding has mostly changed r little by then, and the iteration goes on in its direction. Where the square of what was
/// recurred is off by a factor of `DRIFTED`, rounding is a third of the residual: p = z again; likewise where r'M^-1 r is
/// `GROWN` times what it was. If moreover the square is more than `GAINED` of that at the last renewal, it starts again
/// from there, as after a missed test. p = z, too, without that, where r'M^-1 r, more than `HARDLY_LESS` of what it was,
/// has taken a turn, to `TURNED` times what the iteration before would have made of it: most of it is rounding then, to
/// which p is not conjugate, and steps along such a p may lead away for good; and where the square has become `LED_AWAY`
/// times that of the renewal before. Nor is a square that is not positive a sign of an indefinite matrix there: it starts
/// again.
const RENEWAL: f64 = 1e-8;
const RENEWAL_ITERATIONS: usize = 40;
const NEAR: f64 = 1e-12;
const DRIFTED: f64 = 1.1;
const GROWN: f64 = 2.0;
const GAINED: f64 = 0.25;
const HARDLY_LESS: f64 = 0.25;
const TURNED: f64 = 8.0;
const LED_AWAY: f64 = 100.0;

/// A square that is not positive, this small against the largest r'M^-1 r, is rounding: an indefinite matrix shows before a
/// residual has come down by five digits. On a singular system rounding also leaves r a constant, on which M^-1 is zero.
const ROUNDED: f64 = 1e-10;

/// p'Ap that is not positive, of so many roundings of what its terms may be: of A nearly singular it says nothing more.
const ROUNDINGS: f64 = 64.0;

/// Iterations that were done when `quantity` of `iteration` broke down.
pub fn done_before(quantity: &str, iteration: usize) -> usize {
    iteration - usize::from(quantity == ENERGY && iteration > 0)
}

/// The best of the iterates from which PCG has started again.
pub struct Kept<'a> {
    /// Its tested norm; infinite as long as there is none.
    pub norm: f64,
    /// Times that this solve has started again.
    pub restarts: usize,
    /// Gives x, of this norm or with one of the caller's own, to the caller if that is smaller than the first number;
    /// returns the norm it is then kept with. None: it does not fit, or is no better.
    pub keep: &'a mut dyn FnMut(&mut dyn RrbSteps, f64, f64) -> Option<f64>,
}

/// How PCG ended: iterations, the last residual norm and why.
#[derive(Clone, Copy, Debug)]
pub struct PcgEnd {
    /// Iterations done.
    pub iterations: usize,
    /// Last norm.
    pub norm: f64,
    /// Why.
    pub reason: StopReason,
}

/// Where r was b - A x itself last: <r, r> and r'M^-1 r there.
struct Renewed {
    norm2: f64,
    rho: f64,
    iterations: usize,
}

/// Iterates from x and r = b - A x, <r, r> = `norm2`, after `iterations` done before. Convergence seen on the recurred
/// residual is confirmed on a recomputed one, where the test says so; where that misses it, or squares are rounding alone,
/// the iteration starts again from it.
pub fn pcg(
    s: &mut dyn RrbSteps,
    test: &Test,
    kept: &mut Kept,
    mut norm2: f64,
    mut iterations: usize,
) -> Result<PcgEnd> {
    let (mut restarts, mut kept_at) = (0, 0);
    let mut missed = f64::INFINITY;
    let mut stopped = false;
    // The largest r'M^-1 r.
    let mut reach: f64 = 0.0;
    let ended = |iterations, norm, reason| Ok(PcgEnd { iterations, norm, reason });
    let vanished = |square: f64, norm2: f64, reach: f64| {
        square <= 0.0 && (norm2.sqrt() <= test.vanishing || -square <= ROUNDED * reach)
    };

    loop {
        // A start from a recomputed residual: r = b - A x is there, z and p are not.
        let mut norm = norm2.sqrt();
        let spent = norm <= test.rounding;
        if test.norm == Norm::True2 && (spent || norm <= test.threshold) {
            let met = norm <= test.threshold;
            return ended(iterations, norm, if met { StopReason::Converged } else { StopReason::Stagnated });
        }
        s.descend(None);
        let mut rho = s.preconditioned_square();
        // M is definite: on a singular system a guess may leave nothing but rounding.
        let constant = test.rounding > 0.0 && rho <= 0.0 && rho.is_finite();
        let spent = spent || constant || vanished(rho, norm2, reach) || iterations > 0 && rounded(s, rho);
        let spent = spent || cancelled(s, test, SQUARE, rho);
        if !spent {
            positive(SQUARE, rho, iterations)?;
        }
        reach = reach.max(rho);
        if test.norm == Norm::Preconditioned {
            norm = rho.abs().sqrt();
            if norm <= test.threshold {
                return ended(iterations, norm, StopReason::Converged);
            }
        }
        if spent {
            return ended(iterations, norm, StopReason::Stagnated);
        }
        if stopped {
            return ended(iterations, norm, StopReason::Monitor);
        }
        if kept.restarts > RESTARTS || norm > WORTH_A_RESTART * missed {
            return ended(iterations, norm, StopReason::Stagnated);
        }
        if iterations >= test.max_iter {
            return ended(iterations, norm, StopReason::MaxIter);
        }
        if restarts > kept_at && norm < kept.norm {
            // Where that changes x by a constant, r is that of the x kept.
            kept_at = restarts;
            if let Some(norm) = (kept.keep)(s, kept.norm, norm) {
                kept.norm = norm;
            }
            norm2 = s.residual();
            continue;
        }
        let recomputed = norm;
        let (started, mut last) = (iterations, Renewed { norm2, rho, iterations });
        // Largest <r, r> since, and what needs no renewal.
        let mut peak = norm2;
        let low_peak = if test.norm == Norm::True2 { test.threshold * test.threshold / NEAR } else { 0.0 };
        // p = z, q = A p, sigma = <p, q>
        let mut sigma = s.ascend(None);
        let rounding = vanished(sigma, norm2, reach) || iterations > 0 && rounded(s, sigma);
        if rounding || cancelled(s, test, ENERGY, sigma) {
            return ended(iterations, norm, StopReason::Stagnated);
        }
        positive(ENERGY, sigma, iterations + 1)?;
        let end = s.iterate(&LoopTest {
            preconditioned: test.norm == Norm::Preconditioned,
            threshold: test.threshold,
            reference: test.reference,
            vanishing: test.vanishing,
            iterations,
            max_iter: test.max_iter,
            rho,
            sigma,
            confirms: test.confirms,
        });
        if let Some(end) = end {
            (iterations, norm, stopped) = (end.iterations, end.norm, end.stopped);
            if let LoopEnding::Broken { quantity, value } = end.ending {
                if !vanished(value, f64::INFINITY, reach) && !cancelled(s, test, quantity, value) {
                    let iteration = iterations + usize::from(quantity == ENERGY);
                    return Err(Error::Breakdown { quantity, value, iteration });
                }
                if quantity == SQUARE && test.norm == Norm::Preconditioned && !stopped {
                    stopped = s.observe(iterations, 0.0);
                }
            } else if let Some((norm, reason)) = end_of_loop(s, test, end.ending, norm, stopped) {
                return ended(iterations, norm, reason);
            }
        }
        let mut beta = 0.0;
        while end.is_none() {
            let fallen = peak > low_peak && norm2 <= RENEWAL * peak || rho <= RENEWAL * last.rho;
            let renews = (fallen || iterations >= last.iterations + RENEWAL_ITERATIONS) && s.renews();
            let mut alpha = rho / sigma;
            s.record(alpha, beta);
            iterations += 1;
            let (mut drifted, mut gained, mut led_away) = (false, true, false);
            if renews {
                let (recurred, square) = s.renew(alpha); // x += alpha p, r = b - A x
                drifted = square > DRIFTED * recurred || DRIFTED * square < recurred;
                gained = square <= GAINED * last.norm2;
                led_away = last.iterations > started && square > LED_AWAY * last.norm2;
                last = Renewed { norm2: square, rho: f64::INFINITY, iterations };
                (peak, alpha) = (square, 0.0);
                norm2 = s.descend(None);
            } else {
                norm2 = s.descend(Some(alpha)); // r -= alpha q, <r, r>
                peak = peak.max(norm2);
            }

            // rho = <r, M^-1 r> is needed for the test in the papers' norm, else only to go on.
            let mut rho_new = 0.0;
            norm = if test.norm == Norm::Preconditioned {
                rho_new = s.preconditioned_square();
                if vanished(rho_new, norm2, reach) || rounded(s, rho_new) || cancelled(s, test, SQUARE, rho_new) {
                    rho_new = 0.0;
                }
                not_negative(SQUARE, rho_new, iterations)?.sqrt()
            } else {
                norm2.sqrt()
            };
            stopped = s.observe(iterations, norm / test.reference);
            let met = norm <= test.threshold;
            let ends = met || stopped || iterations >= test.max_iter;
            if !ends && test.norm == Norm::True2 {
                rho_new = s.preconditioned_square();
            }
            let spent = !ends
                && (vanished(rho_new, norm2, reach) || rounded(s, rho_new) || cancelled(s, test, SQUARE, rho_new));
            if ends || spent {
                if !renews {
                    s.advance_solution(alpha); // x += alpha p, which the next stage would have done
                }
                let ending = match (met, spent) {
                    (true, _) => LoopEnding::Met,
                    (_, true) => LoopEnding::Spent,
                    _ => LoopEnding::Cut,
                };
                match end_of_loop(s, test, ending, norm, stopped) {
                    Some((norm, reason)) => return ended(iterations, norm, reason),
                    None => break,
                }
            }
            drifted |= renews && rho_new > GROWN * rho;
            if drifted && !gained {
                break;
            }
            let turned = renews && rho_new > HARDLY_LESS * rho && rho_new > TURNED * beta * rho;
            drifted |= turned && beta > 0.0 || led_away;
            positive(SQUARE, rho_new, iterations)?;
            beta = if drifted { 0.0 } else { rho_new / rho };
            rho = rho_new;
            if renews {
                last.rho = rho;
            }
            reach = reach.max(rho);
            // x += alpha p, p = z + beta p, q = A p
            sigma = s.ascend(if drifted { None } else { Some((alpha, beta)) });
            if vanished(sigma, norm2, reach) || rounded(s, sigma) || cancelled(s, test, ENERGY, sigma) {
                break;
            }
            positive(ENERGY, sigma, iterations + 1)?;
        }
        norm2 = s.residual();
        missed = if restarts > 0 { recomputed } else { f64::INFINITY };
        restarts += 1;
        kept.restarts += 1;
    }
}

/// In single precision, squares after the first may be anything.
fn rounded(s: &dyn RrbSteps, square: f64) -> bool {
    square <= 0.0 && s.renews()
}

/// A square that is not positive, and is rounding: r'M^-1 r of a definite M; p'Ap where the terms of that sum,
/// |p|'|A||p| <= 2 max center <p, p>, are large against it.
fn cancelled<S: RrbSteps + ?Sized>(s: &mut S, test: &Test, quantity: &str, value: f64) -> bool {
    if !(value <= 0.0 && value.is_finite()) {
        return false;
    }
    if quantity != ENERGY {
        return test.definite;
    }
    // The terms over |p'Ap|, so that no square overflows or vanishes.
    value == 0.0 || 2.0 * s.direction_norm2(test.center_max.sqrt() / (-value).sqrt()) * ROUNDINGS * f64::EPSILON >= 1.0
}

/// The tested norm and the reason with which a loop that ended so ends the solve; none where a start from a recomputed
/// residual is to tell. A stop beside a met test counts if the caller finds that missed.
fn end_of_loop(
    s: &mut dyn RrbSteps,
    test: &Test,
    ending: LoopEnding,
    recurred: f64,
    stopped: bool,
) -> Option<(f64, StopReason)> {
    let reason = match ending {
        LoopEnding::Cut => StopReason::MaxIter,
        LoopEnding::Met if !test.confirms => StopReason::Converged,
        _ => return None,
    };
    // Of b - A x, which the recurred residual may have left behind, where the caller does not look.
    let mut norm = recurred;
    if test.confirms {
        norm = s.residual().sqrt();
        if test.norm == Norm::Preconditioned {
            s.descend(None);
            norm = s.preconditioned_square().abs().sqrt();
        }
    }
    Some((norm, if stopped { StopReason::Monitor } else { reason }))
}

/// Definite matrices give positive numbers; anything else, NaN included, is a breakdown.
fn positive(quantity: &'static str, value: f64, iteration: usize) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}

/// The same for the square of a norm, which may have vanished.
pub fn not_negative(quantity: &'static str, value: f64, iteration: usize) -> Result<f64> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}
