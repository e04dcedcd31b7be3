//! The preconditioned norm sqrt(r' M^-1 r), measured with the `apply` function of a handle.

use super::problems::system::{Measured, System};
use super::problems::twice::{Twice, exponent, scaled};

/// Unit roundoff of single precision, 2^-24.
pub const SINGLE: f64 = 6e-8;

/// Largest relative error of a reported ratio of norms, in addition to the rounding of r and of M^-1.
///
/// `Measured::error` measures the rounding of r and of M^-1 for each case, in the precision in use. The sums of squares
/// contribute half a unit in the last place per number, which is 4e-12 for 40,000 numbers. A V-cycle in double
/// precision counts as exact, although its error reaches a few 1e-13 at contrasts of 1e12. The limit is more than 200
/// times the error of the sums, because all errors are estimates.
pub const REPORT_ERROR: f64 = 1e-9;

/// A tested norm, without and with the contribution of the constants of r, which P M^-1 P maps to zero.
#[derive(Clone, Copy, Debug)]
pub struct Tested {
    pub without: Measured,
    pub with: f64,
}

/// How to measure sqrt(r' M^-1 r).
pub struct Applied<'a> {
    pub system: &'a System,
    /// Computes z = M^-1 r with the handle's matrix; `None` if the call fails.
    pub apply: &'a dyn Fn(&[f64]) -> Option<Vec<f64>>,
    /// Whether M rounds r to single precision.
    pub short: bool,
    /// Rounding inside M^-1, relative to z'|M|z.
    pub unit: f64,
}

impl Applied<'_> {
    /// Computes sqrt(r' M^-1 r) for an r whose entries have the errors `errors`.
    pub fn norm(&self, r: &[Twice], errors: &[f64]) -> Option<Measured> {
        let (value, sweeps) = self.root(r, 1.0)?;
        // A factor that changes the mantissas of r shows the rounding inside M^-1.
        let noise = 4.0 * (value - self.root(r, 1.37)?.0).abs();
        let square = 4.0 * self.unit * sweeps * sweeps;
        let rounded = square.sqrt().min(if value > 0.0 { square / value } else { f64::INFINITY });
        let of_r = |p: usize| errors[p] + if self.short { SINGLE * r[p].abs().value() } else { 0.0 };
        let mut largest = 0.0f64;
        for pattern in 0..4 {
            let sign = |p: usize| if pattern > 0 && (p * 7919 + p / 3) >> (pattern - 1) & 1 == 1 { -1.0 } else { 1.0 };
            let signed: Vec<Twice> = (0..r.len()).map(|p| Twice::from(sign(p) * of_r(p))).collect();
            largest = largest.max(self.root(&signed, 1.0)?.0);
        }
        // Rounding adds a constant to r. This constant affects only the norm with constants.
        let sizes: Vec<Twice> = errors.iter().map(|&e| Twice::from(e)).collect();
        let constants = self.system.norm_of_means(&self.system.means(&sizes));
        Some(Measured { value, error: noise + rounded + 2.0 * largest + constants })
    }

    /// Computes the norm without and with the means of r over singular components.
    pub fn tested(&self, r: &[Twice], errors: &[f64]) -> Option<Tested> {
        let without = self.norm(r, errors)?;
        let constants = self.system.norm_of_means(&self.system.means(r));
        Some(Tested { without, with: without.value.hypot(constants) })
    }

    /// Computes sqrt(r'z) and sqrt(z'Dz) for z = M^-1 r, where D is the diagonal of A.
    fn root(&self, r: &[Twice], factor: f64) -> Option<(f64, f64)> {
        let largest = r.iter().fold(0.0, |m: f64, r| m.max(r.abs().value()));
        if largest == 0.0 {
            return Some((0.0, 0.0));
        }
        if !largest.is_finite() {
            return None;
        }
        let e = exponent(largest);
        let unit: Vec<f64> = r.iter().map(|&r| scaled((r * factor).value(), -e)).collect();
        // The matrix of the handle is A times 2^exponent.
        let input: Vec<f64> = unit.iter().map(|&r| scaled(r, self.system.exponent)).collect();
        let z = (self.apply)(&input)?;
        let square: Twice = unit.iter().zip(&z).map(|(&r, &z)| Twice::from(r) * z).sum();
        let energy: f64 = self.system.center.iter().zip(&z).map(|(c, z)| c * z * z).sum();
        let [root, energy] = [square.value().abs(), energy].map(|v| v.sqrt() / factor);
        (root.is_finite() && energy.is_finite()).then(|| (scaled(root, e), scaled(energy, e)))
    }
}

/// Returns whether a reported relative residual equals the true one within the relative error `part` and rounding. The
/// norm may be the one with or without constants.
pub fn reported_right(reported: f64, norm: &Tested, reference: &Measured, part: f64) -> bool {
    let Measured { value, error } = norm.without;
    let low = (value * (1.0 - part) - error) / (reference.value * (1.0 + part) + reference.error);
    let least = reference.value * (1.0 - part) - reference.error;
    let high = norm.with * (1.0 + part) + error;
    reported >= low && (least <= 0.0 || reported * least <= high)
}
