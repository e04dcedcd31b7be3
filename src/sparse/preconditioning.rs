//! Parts of preconditioners that all backends use: the inverse diagonal, values in single precision, and the interval
//! of a Chebyshev polynomial.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result, push, reserve, zeroed};
use crate::krylov::spectrum::lanczos_extremes;
use crate::sparse::Stored;

/// Name of an allocation in error messages.
pub const WHAT: &str = "a preconditioner";

/// Returns 1 / a_ii for all rows.
pub fn inverse_diagonal<I: Index>(a: &Csr<I>) -> Result<Vec<f64>> {
    let mut inverse = zeroed(a.rows(), WHAT)?;
    for (i, inverse) in inverse.iter_mut().enumerate() {
        match a.get(i, i) {
            Some(d) if d != 0.0 => *inverse = 1.0 / d,
            _ => return Err(no_diagonal_error(i)),
        }
    }
    Ok(inverse)
}

/// Returns the error for a row with a zero or missing diagonal entry.
fn no_diagonal_error(row: usize) -> Error {
    const TO_DO: &str = " has a missing or zero diagonal entry; use preconditioner=none, or reorder the rows";
    Error::at(RRB_ERR_MATRIX, "row ", Place::entry(row), TO_DO)
}

/// Converts `count` values to type V. Fails if a finite value overflows.
pub fn converted<V: Real>(values: impl Iterator<Item = f64>, count: usize) -> Result<Vec<V>> {
    let mut all = Vec::new();
    reserve(&mut all, count, WHAT)?;
    for value in values {
        let narrow = V::narrow(value);
        if value.is_finite() && !narrow.wide().is_finite() {
            let message =
                format!("precision=f32 or single: the value {value:e} is out of the range of f32; use precision=f64");
            return Err(Error::Matrix { reason: message, place: None, then: "" });
        }
        all.push(narrow);
    }
    Ok(all)
}

/// Selects the number of pairing passes of aggregation. Rows with few entries form aggregates of four (two passes).
/// Rows with more entries form aggregates of eight (three passes), since aggregates of four would leave too many
/// couplings on the coarse level.
pub fn passes_of<I: Index>(a: &Csr<I>) -> usize {
    /// Minimum average number of entries per row for three passes; a 7-point stencil has about 7 entries per row.
    const MANY: f64 = 6.5;
    let mean = a.col.len() as f64 / a.rows().max(1) as f64;
    if mean < MANY { 2 } else { 3 }
}

/// Ratio hi / lo of the ends of the interval [lo, hi]. The polynomial damps error components with eigenvalues in this
/// interval, but not those with smaller eigenvalues.
const RATIO: f64 = 30.0;
/// Number of Lanczos steps for the estimate of the largest eigenvalue.
const STEPS: usize = 10;
/// Factor by which the Lanczos estimate of the largest eigenvalue is multiplied, because the estimate is too small.
const MARGIN: f64 = 1.1;

/// Interval [hi / 30, hi] of a Chebyshev polynomial in D^-1 A. Here hi is an upper bound or estimate of the largest
/// eigenvalue of D^-1 A.
#[derive(Clone, Copy)]
pub struct Interval {
    /// theta = (hi + lo) / 2, the center of the interval.
    pub theta: f64,
    /// delta = (hi - lo) / 2.
    delta: f64,
}

impl Interval {
    /// Returns the interval for A; `inverse` contains the diagonal of D^-1. The upper end is Gershgorin's bound. If A
    /// is symmetric and D is positive, the upper end is the smaller of this bound and an estimate by Lanczos steps.
    pub fn of<I: Index>(a: &Csr<I>, inverse: &[f64], symmetric: bool) -> Result<Self> {
        let gershgorin = |i: usize| a.row(i).map(|(_, entry)| entry.abs()).sum::<f64>() * inverse[i].abs();
        let mut largest = (0..a.rows()).map(gershgorin).fold(0.0, f64::max);
        if symmetric && inverse.iter().all(|&d| d > 0.0) {
            largest = largest.min(MARGIN * estimate_largest_eigenvalue(a, inverse)?.unwrap_or(f64::INFINITY));
        }
        Ok(Self { theta: 0.5 * largest * (1.0 + 1.0 / RATIO), delta: 0.5 * largest * (1.0 - 1.0 / RATIO) })
    }

    /// Returns an object that computes the coefficients of the steps k = 1, 2, ... in this order.
    pub fn steps(&self) -> Steps {
        Steps { of: *self, rho: self.delta / self.theta }
    }
}

/// Computes the coefficients of d_k = rho_k rho_{k-1} d_{k-1} + 2 rho_k / delta s_k, with
/// rho_k = 1 / (2 theta / delta - rho_{k-1}) and rho_0 = delta / theta (Saad 2003, algorithm 12.1).
pub struct Steps {
    of: Interval,
    /// rho_{k-1} of the next step k.
    rho: f64,
}

impl Steps {
    /// Returns the coefficients rho_k rho_{k-1} and 2 rho_k / delta of the next step k.
    pub fn coefficients(&mut self) -> (f64, f64) {
        let Interval { theta, delta } = self.of;
        let (rho, next) = (self.rho, 1.0 / (2.0 * theta / delta - self.rho));
        self.rho = next;
        (next * rho, 2.0 * next / delta)
    }
}

/// Estimates the largest eigenvalue of D^-1 A by up to ten CG steps (Lanczos) from a fixed vector. The estimate is
/// below the eigenvalue. Returns `None` if CG breaks down before two steps.
fn estimate_largest_eigenvalue<I: Index>(a: &Csr<I>, inverse: &[f64]) -> Result<Option<f64>> {
    let rows = a.rows();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let [mut r, mut p, mut q] = [zeroed(rows, WHAT)?, zeroed(rows, WHAT)?, zeroed(rows, WHAT)?];
    // Pseudorandom values: the fractional parts of multiples of the golden ratio.
    r.iter_mut().enumerate().for_each(|(i, r)| *r = (i as f64 * 0.618_033_988_749_895).fract() - 0.5);
    let (mut coefficients, mut rho_old, mut beta) = (Vec::new(), 0.0, 0.0);
    for step in 0..STEPS {
        q.iter_mut().zip(&r).zip(inverse).for_each(|((z, r), d)| *z = d * r);
        let rho = dot(&r, &q);
        if step > 0 {
            beta = rho / rho_old;
        }
        p.iter_mut().zip(&q).for_each(|(p, z)| *p = z + beta * *p);
        a.multiply(&p, &mut q);
        let alpha = rho / dot(&p, &q);
        if !(alpha > 0.0 && alpha.is_finite() && (step == 0 || beta > 0.0)) {
            break;
        }
        push(&mut coefficients, (alpha, beta), WHAT)?;
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        rho_old = rho;
    }
    Ok(lanczos_extremes(&coefficients).map(|(_, largest)| largest))
}
