//! The preconditioned norm sqrt(v' M^-1 v) of a handle, measured by the `apply` of that handle.

use super::problems::system::{Measured, System};
use super::problems::twice::{Twice, exponent, scaled};

/// Half a unit of single precision.
pub const SINGLE: f64 = 6e-8;

/// The part by which a reported ratio of norms may be off, beyond rounding of r and of M^-1, which is measured case by
/// case in the precision in use (`Measured::error`). The sums of squares leave half a unit per number, 4e-12 of 40,000.
/// A V-cycle in double precision counts as exact, which contrasts of 1e12 contradict by a few 1e-13. This is 200 times
/// more, since errors are estimates.
pub const TOLD: f64 = 1e-9;

/// A tested norm, and the same with the constants of r that P M^-1 P removes.
#[derive(Clone, Copy, Debug)]
pub struct Tested {
    pub without: Measured,
    pub with: f64,
}

/// How to measure sqrt(r' M^-1 r).
pub struct Applied<'a> {
    pub system: &'a System,
    /// z = M^-1 r with the handle's own matrix; none: the call fails.
    pub apply: &'a dyn Fn(&[f64]) -> Option<Vec<f64>>,
    /// r is rounded to single precision in M.
    pub short: bool,
    /// Rounding inside of M^-1, as a part of z'|M|z.
    pub unit: f64,
}

impl Applied<'_> {
    /// sqrt(r' M^-1 r) of an r whose entries may be off by `errors`.
    pub fn norm(&self, r: &[Twice], errors: &[f64]) -> Option<Measured> {
        let (value, sweeps) = self.root(r, 1.0)?;
        // Rounding inside of M^-1 shows in another mantissa.
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
        // A constant that rounding leaves is no error of the norm without constants, but of that with them.
        let sizes: Vec<Twice> = errors.iter().map(|&e| Twice::from(e)).collect();
        let constants = self.system.norm_of_means(&self.system.means(&sizes));
        Some(Measured { value, error: noise + rounded + 2.0 * largest + constants })
    }

    /// The same without and with the means of r over singular components.
    pub fn tested(&self, r: &[Twice], errors: &[f64]) -> Option<Tested> {
        let without = self.norm(r, errors)?;
        let constants = self.system.norm_of_means(&self.system.means(r));
        Some(Tested { without, with: without.value.hypot(constants) })
    }

    /// sqrt(r'z) and sqrt(z'Dz), z = M^-1 r, D the diagonal of A.
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
        // The handle has A times 2^exponent.
        let input: Vec<f64> = unit.iter().map(|&r| scaled(r, self.system.exponent)).collect();
        let z = (self.apply)(&input)?;
        let square: Twice = unit.iter().zip(&z).map(|(&r, &z)| Twice::from(r) * z).sum();
        let energy: f64 = self.system.center.iter().zip(&z).map(|(c, z)| c * z * z).sum();
        let [root, energy] = [square.value().abs(), energy].map(|v| v.sqrt() / factor);
        (root.is_finite() && energy.is_finite()).then(|| (scaled(root, e), scaled(energy, e)))
    }
}

/// A reported relative residual is right where it is within `part`, or rounding, of the true one, of the norm with or
/// without constants.
pub fn reported_right(reported: f64, norm: &Tested, reference: &Measured, part: f64) -> bool {
    let Measured { value, error } = norm.without;
    let low = (value * (1.0 - part) - error) / (reference.value * (1.0 + part) + reference.error);
    let least = reference.value * (1.0 - part) - reference.error;
    let high = norm.with * (1.0 + part) + error;
    reported >= low && (least <= 0.0 || reported * least <= high)
}
