//! Functions for preconditioners that all backends use: the inverse diagonal, conversion to single precision, and the
//! interval of a Chebyshev polynomial.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::error::{Error, Location, RRB_ERR_MATRIX, Result, push, reserve, zeroed};
use crate::krylov::spectrum::lanczos_extremes;
use crate::sparse::Stored;

/// Name of an allocation in error messages.
pub const ALLOCATION_NAME: &str = "a preconditioner";

/// Returns 1 / a_ii for all rows.
pub fn inverse_diagonal<I: Index>(a: &Csr<I>) -> Result<Vec<f64>> {
    let mut inverse_d = zeroed(a.rows(), ALLOCATION_NAME)?;
    for (i, inverse_d) in inverse_d.iter_mut().enumerate() {
        match a.get(i, i) {
            Some(d) if d != 0.0 => *inverse_d = 1.0 / d,
            _ => return Err(zero_diagonal_error(i)),
        }
    }
    Ok(inverse_d)
}

/// Returns the error for a row with a zero or missing diagonal entry.
fn zero_diagonal_error(row: usize) -> Error {
    const MESSAGE_END: &str = " has a missing or zero diagonal entry; use preconditioner=none, or reorder the rows";
    Error::at(RRB_ERR_MATRIX, "row ", Location::entry(row), MESSAGE_END)
}

/// Converts `count` values to type V. Returns an error if a finite value overflows.
pub fn convert_values<V: Real>(values: impl Iterator<Item = f64>, count: usize) -> Result<Vec<V>> {
    let mut converted_values = Vec::new();
    reserve(&mut converted_values, count, ALLOCATION_NAME)?;
    for value in values {
        let converted_value = V::from_f64(value);
        if value.is_finite() && !converted_value.to_f64().is_finite() {
            let message =
                format!("precision=f32 or single: the value {value:e} is out of the range of f32; use precision=f64");
            return Err(Error::Matrix { reason: message, location: None, text_after: "" });
        }
        converted_values.push(converted_value);
    }
    Ok(converted_values)
}

/// Returns the number of pairing passes of aggregation. If the rows have few entries on average, two passes form
/// aggregates of four rows. Otherwise, three passes form aggregates of eight rows, because aggregates of four would
/// leave too many couplings on the coarse level.
pub fn pairing_passes<I: Index>(a: &Csr<I>) -> usize {
    /// Minimum average number of entries per row for three passes; a 7-point stencil has about 7 entries per row.
    const MANY_ENTRIES_PER_ROW: f64 = 6.5;
    let mean_entries = a.col.len() as f64 / a.rows().max(1) as f64;
    if mean_entries < MANY_ENTRIES_PER_ROW { 2 } else { 3 }
}

/// Ratio hi / lo of the ends of the interval [lo, hi] of [`ChebyshevInterval`]. The Chebyshev polynomial damps error
/// components with eigenvalues in this interval, but not those with smaller eigenvalues.
const INTERVAL_RATIO: f64 = 30.0;
/// Number of Lanczos steps for the estimate of the largest eigenvalue.
const LANCZOS_STEPS: usize = 10;
/// Factor by which the Lanczos estimate of the largest eigenvalue is multiplied, because the estimate is too small.
const EIGENVALUE_MARGIN: f64 = 1.1;

/// Interval [hi / 30, hi] of a Chebyshev polynomial in D^-1 A. Here hi is an upper bound or estimate of the largest
/// eigenvalue of D^-1 A.
#[derive(Clone, Copy)]
pub struct ChebyshevInterval {
    /// theta = (hi + lo) / 2, the center of the interval.
    pub theta: f64,
    /// delta = (hi - lo) / 2.
    delta: f64,
}

impl ChebyshevInterval {
    /// Returns the interval for A; `inverse_d` contains the diagonal of D^-1. The upper end is Gershgorin's bound. If A
    /// is symmetric and D is positive, the upper end is the smaller of this bound and an estimate by Lanczos steps.
    pub fn of<I: Index>(a: &Csr<I>, inverse_d: &[f64], is_symmetric: bool) -> Result<Self> {
        let gershgorin = |i: usize| a.row(i).map(|(_, entry)| entry.abs()).sum::<f64>() * inverse_d[i].abs();
        let mut largest_eigenvalue = (0..a.rows()).map(gershgorin).fold(0.0, f64::max);
        if is_symmetric && inverse_d.iter().all(|&d| d > 0.0) {
            largest_eigenvalue = largest_eigenvalue
                .min(EIGENVALUE_MARGIN * estimate_largest_eigenvalue(a, inverse_d)?.unwrap_or(f64::INFINITY));
        }
        Ok(Self {
            theta: 0.5 * largest_eigenvalue * (1.0 + 1.0 / INTERVAL_RATIO),
            delta: 0.5 * largest_eigenvalue * (1.0 - 1.0 / INTERVAL_RATIO),
        })
    }

    /// Returns the recurrence that computes the coefficients of the steps k = 1, 2, ...
    pub fn steps(&self) -> ChebyshevSteps {
        ChebyshevSteps { interval: *self, rho: self.delta / self.theta }
    }
}

/// Computes the coefficients of the Chebyshev iteration (Saad 2003, algorithm 12.1), where s_k is the residual times
/// D^-1 and d_k is the update of step k:
///
/// ```text
/// d_k = rho_k rho_{k-1} d_{k-1} + (2 rho_k / delta) s_k
/// rho_k = 1 / (2 theta / delta - rho_{k-1}),   rho_0 = delta / theta
/// ```
pub struct ChebyshevSteps {
    interval: ChebyshevInterval,
    /// rho_{k-1}, where k is the next step.
    rho: f64,
}

impl ChebyshevSteps {
    /// Returns the coefficients rho_k rho_{k-1} and 2 rho_k / delta of the next step k.
    pub fn coefficients(&mut self) -> (f64, f64) {
        let ChebyshevInterval { theta, delta } = self.interval;
        let (rho, next_rho) = (self.rho, 1.0 / (2.0 * theta / delta - self.rho));
        self.rho = next_rho;
        (next_rho * rho, 2.0 * next_rho / delta)
    }
}

/// Estimates the largest eigenvalue of D^-1 A by up to `LANCZOS_STEPS` CG steps from a fixed vector. The estimate is at
/// most the eigenvalue. Returns `None` if CG breaks down before two steps.
fn estimate_largest_eigenvalue<I: Index>(a: &Csr<I>, inverse_d: &[f64]) -> Result<Option<f64>> {
    let rows = a.rows();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let [mut r, mut p, mut q] =
        [zeroed(rows, ALLOCATION_NAME)?, zeroed(rows, ALLOCATION_NAME)?, zeroed(rows, ALLOCATION_NAME)?];
    // Pseudorandom values: the fractional parts of multiples of the golden ratio.
    r.iter_mut().enumerate().for_each(|(i, r)| *r = (i as f64 * 0.618_033_988_749_895).fract() - 0.5);
    let (mut coefficients, mut rho_old, mut beta) = (Vec::new(), 0.0, 0.0);
    for step in 0..LANCZOS_STEPS {
        q.iter_mut().zip(&r).zip(inverse_d).for_each(|((z, r), d)| *z = d * r);
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
        push(&mut coefficients, (alpha, beta), ALLOCATION_NAME)?;
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        rho_old = rho;
    }
    Ok(lanczos_extremes(&coefficients).map(|(_, largest)| largest))
}
