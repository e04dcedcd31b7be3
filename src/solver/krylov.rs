//! Preconditioned conjugate gradients (report 16-06, algorithm 1) and the eigenvalue estimates that its
//! coefficients give.

use crate::backend::{LoopEnding, LoopTest, PcgSteps};
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
}

/// Times that PCG starts again from a recomputed residual that missed the test, and what the next one must be
/// of the one before to go on: where rounding allows no more, a restart comes back to the same residual.
const RESTARTS: usize = 3;
const WORTH_A_RESTART: f64 = 0.5;

/// Squares of residuals this far below the reference may vanish: zero is then no sign of an indefinite matrix.
const SQUARES_VANISH: f64 = 1e-140;

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

/// Iterates from x and r = b - A x. Convergence seen on the recurred residual is confirmed on a recomputed
/// one; where that misses the test, the iteration starts again from it.
pub fn pcg(s: &mut dyn PcgSteps, test: &Test) -> Result<PcgEnd> {
    let mut iterations = 0;
    let mut restarts = 0;
    let mut missed = f64::INFINITY;
    let mut stopped = false;
    let ended = |iterations, norm, reason| Ok(PcgEnd { iterations, norm, reason });

    loop {
        // A start from a recomputed residual: r = b - A x is there, z and p are not.
        let mut norm = s.descend(None).sqrt();
        if norm <= test.rounding || (test.norm == Norm::True2 && norm <= test.threshold) {
            return ended(iterations, norm, StopReason::Converged);
        }
        let vanished = |square: f64, norm: f64| square == 0.0 && norm <= SQUARES_VANISH * test.reference;
        let mut rho = s.preconditioned_square();
        if vanished(rho, norm) {
            return ended(iterations, norm, StopReason::Stagnated);
        }
        positive("r'M^-1 r", rho, iterations)?;
        if test.norm == Norm::Preconditioned {
            norm = rho.sqrt();
            if norm <= test.threshold {
                return ended(iterations, norm, StopReason::Converged);
            }
        }
        if stopped {
            return ended(iterations, norm, StopReason::Monitor);
        }
        if restarts > RESTARTS || norm > WORTH_A_RESTART * missed {
            return ended(iterations, norm, StopReason::Stagnated);
        }
        if iterations >= test.max_iter {
            return ended(iterations, norm, StopReason::MaxIter);
        }
        let recomputed = norm;
        let mut beta = 0.0;
        // p = z, q = A p, sigma = <p, q>
        let mut sigma = s.ascend(None);
        if vanished(sigma, norm) {
            return ended(iterations, norm, StopReason::Stagnated);
        }
        positive("p'Ap", sigma, iterations + 1)?;
        let whole = LoopTest {
            preconditioned: test.norm == Norm::Preconditioned,
            threshold: test.threshold,
            reference: test.reference,
            vanishing: SQUARES_VANISH * test.reference,
            iterations,
            max_iter: test.max_iter,
            rho,
            sigma,
        };
        let own = s.iterate(&whole).transpose()?;
        if let Some(end) = own {
            (iterations, norm, stopped) = (end.iterations, end.norm, end.stopped);
            if end.ending == LoopEnding::Cut {
                return ended(iterations, norm, if stopped { StopReason::Monitor } else { StopReason::MaxIter });
            }
        }
        while own.is_none() {
            let alpha = rho / sigma;
            let norm2 = s.descend(Some(alpha)); // r -= alpha q, <r, r>
            s.record(alpha, beta);
            iterations += 1;

            // rho = <r, M^-1 r> is needed for the test in the papers' norm, else only to go on.
            let mut rho_new = 0.0;
            norm = if test.norm == Norm::Preconditioned {
                rho_new = not_negative("r'M^-1 r", s.preconditioned_square(), iterations)?;
                rho_new.sqrt()
            } else {
                norm2.sqrt()
            };
            stopped = s.observe(iterations, norm / test.reference);
            let met = norm <= test.threshold;
            let ends = met || stopped || iterations >= test.max_iter;
            if !ends && test.norm == Norm::True2 {
                rho_new = s.preconditioned_square();
            }
            let spent = !ends && vanished(rho_new, norm);
            if ends || spent {
                s.advance_solution(alpha); // x += alpha p, which the next stage would have done
                if !met && !spent {
                    return ended(iterations, norm, if stopped { StopReason::Monitor } else { StopReason::MaxIter });
                }
                break;
            }
            positive("r'M^-1 r", rho_new, iterations)?;
            beta = rho_new / rho;
            rho = rho_new;
            sigma = s.ascend(Some((alpha, beta))); // x += alpha p, p = z + beta p, q = A p
            if vanished(sigma, norm) {
                break;
            }
            positive("p'Ap", sigma, iterations + 1)?;
        }
        s.residual();
        missed = if restarts > 0 { recomputed } else { f64::INFINITY };
        restarts += 1;
    }
}

/// Definite matrices give positive numbers; anything else, NaN included, is a breakdown.
fn positive(quantity: &'static str, value: f64, iteration: usize) -> Result<()> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}

/// The same for the square of a norm, which may have vanished.
pub fn not_negative(quantity: &'static str, value: f64, iteration: usize) -> Result<f64> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}

/// Smallest and largest eigenvalue of the Lanczos matrix of a CG run with coefficients (alpha_k, beta_k):
/// diagonal 1 / alpha_k + beta_k / alpha_{k-1}, off-diagonal sqrt(beta_k) / alpha_{k-1} (Saad, Iterative
/// methods, section 6.7.3). They lie inside the spectrum of M^-1 A and tend to its ends.
pub fn lanczos_extremes(coefficients: &[(f64, f64)]) -> Option<(f64, f64)> {
    if coefficients.len() < 2 {
        return None;
    }
    let diagonal = |k: usize| {
        let (alpha, beta) = coefficients[k];
        1.0 / alpha + if k > 0 { beta / coefficients[k - 1].0 } else { 0.0 }
    };
    let off = |k: usize| if k > 0 { coefficients[k].1.sqrt() / coefficients[k - 1].0 } else { 0.0 };
    let n = coefficients.len();
    // Gershgorin.
    let radius = |k: usize| off(k) + if k + 1 < n { off(k + 1) } else { 0.0 };
    let low = (0..n).map(|k| diagonal(k) - radius(k)).fold(f64::INFINITY, f64::min);
    let high = (0..n).map(|k| diagonal(k) + radius(k)).fold(f64::NEG_INFINITY, f64::max);
    // Sturm: as many eigenvalues lie below t as the pivots of T - t I have negative signs. A pivot of zero is
    // moved by a rounding of T, so that no quotient overflows.
    let smallest = f64::EPSILON * high.abs().max(low.abs());
    let below = |t: f64| {
        let mut count = 0;
        let mut pivot = 1.0;
        for k in 0..n {
            let o = off(k);
            pivot = diagonal(k) - t - if k > 0 { o * o / pivot } else { 0.0 };
            if pivot.abs() < smallest {
                pivot = -smallest;
            }
            count += usize::from(pivot < 0.0);
        }
        count
    };
    let bisect = |wanted: usize| {
        let (mut a, mut b) = (low, high);
        // 60 halvings leave 1e-18 of the Gershgorin interval.
        for _ in 0..60 {
            let middle = 0.5 * (a + b);
            if below(middle) >= wanted { b = middle } else { a = middle }
        }
        0.5 * (a + b)
    };
    Some((bisect(1), bisect(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CG with M = I on a diagonal matrix with two eigenvalues finds both after two steps.
    #[test]
    fn lanczos_finds_both_eigenvalues_of_two() {
        let a = [1.0, 4.0];
        let (mut r, mut p) = ([1.0, 1.0], [1.0, 1.0]);
        let mut coefficients = Vec::new();
        let mut beta = 0.0;
        for _ in 0..2 {
            let rho: f64 = r.iter().map(|v| v * v).sum();
            let sigma: f64 = p.iter().zip(a).map(|(v, d)| v * v * d).sum();
            let alpha = rho / sigma;
            coefficients.push((alpha, beta));
            for k in 0..2 {
                r[k] -= alpha * a[k] * p[k];
            }
            beta = r.iter().map(|v| v * v).sum::<f64>() / rho;
            for k in 0..2 {
                p[k] = r[k] + beta * p[k];
            }
        }
        let (low, high) = lanczos_extremes(&coefficients).unwrap();
        // Bisection resolves 1e-18 of the interval, the coefficients carry a few roundings.
        assert!((low - 1.0).abs() < 1e-14 && (high - 4.0).abs() < 1e-14, "{low} {high}");
        assert!(lanczos_extremes(&coefficients[..1]).is_none());
    }
}
