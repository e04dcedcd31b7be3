//! Squares that are not positive, and are rounding: no sign of an indefinite matrix.

use super::state::{Iteration, Test};
use crate::backend::steps::pcg::{ENERGY, PcgSteps};

/// A square that is not positive, this small against the largest r'M^-1 r, is rounding: an indefinite matrix shows
/// before a residual has come down by five digits. On a singular system rounding also leaves r a constant, on which
/// M^-1 is zero.
pub(super) const NEGLIGIBLE: f64 = 1e-10;

/// p'Ap that is not positive, of so many roundings of what its terms may be: of A nearly singular it says nothing more.
pub(super) const ROUNDINGS: f64 = 64.0;

/// Whether rounding explains that a square is not positive. In single precision, squares after the first may be
/// anything.
pub(super) fn explains<S: PcgSteps + ?Sized>(
    s: &mut S,
    test: &Test,
    at: &Iteration,
    quantity: &str,
    square: f64,
) -> bool {
    if test.general && quantity == ENERGY && square == 0.0 && at.iterations == 0 {
        return false;
    }
    negligible(test, quantity, square, at.norm2, at.largest_rho)
        || at.iterations > 0 && square <= 0.0 && s.replaces_residual()
        || cancelled(s, test, quantity, square)
}

/// The residual has vanished, <r, r> = `norm2`, or the square is small against the largest one of its unit.
pub(super) fn negligible(test: &Test, quantity: &str, square: f64, norm2: f64, largest_rho: f64) -> bool {
    let compares = quantity != ENERGY || test.same_unit;
    square <= 0.0 && (norm2.sqrt() <= test.vanishing || compares && -square <= NEGLIGIBLE * largest_rho)
}

/// r'M^-1 r of a definite M; p'Ap where the terms of that sum, |p|'|A||p| <= 2 max center <p, p>, are large against it.
pub(super) fn cancelled<S: PcgSteps + ?Sized>(s: &mut S, test: &Test, quantity: &str, value: f64) -> bool {
    if !(value <= 0.0 && value.is_finite()) {
        return false;
    }
    if quantity != ENERGY {
        return test.definite;
    }
    // The terms over |p'Ap|, so that no square overflows or vanishes.
    value == 0.0 || 2.0 * s.direction_norm2(test.center_max.sqrt() / (-value).sqrt()) * ROUNDINGS * f64::EPSILON >= 1.0
}
