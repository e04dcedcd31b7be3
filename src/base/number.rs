//! Floating-point types of the kernels, and arithmetic without intermediate overflow.

use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Floating-point type in which a kernel computes: `f64` or `f32`.
pub trait Real:
    Copy
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + SubAssign
{
    /// Rounds v to nearest. The caller guarantees that v is in range.
    fn from_f64(v: f64) -> Self;
    /// Converts to double precision, which is exact.
    fn to_f64(self) -> f64;
}

impl Real for f64 {
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        v
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}

impl Real for f32 {
    #[inline(always)]
    fn from_f64(v: f64) -> Self {
        v as Self
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// Converts a number between the types of two vectors.
#[inline(always)]
pub fn cast<A: Real, B: Real>(v: A) -> B {
    B::from_f64(v.to_f64())
}

/// Returns the largest power of two not above v, for finite v > 0. The exponent is clamped so that the inverse is a
/// normal number.
pub fn power_of_two_below(v: f64) -> f64 {
    let exponent = ((v.to_bits() >> 52) & 0x7ff).clamp(2, 2045);
    f64::from_bits(exponent << 52)
}

/// Returns sqrt(a^2 + b^2) with a relative error below 2^-52, without intermediate overflow or underflow.
///
/// Replaces `f64::hypot`, which calls the C library: its `hypot` requires GLIBC_2.35 and rounds differently per
/// version. Both operands are divided by a power of two near the larger operand. This division is exact wherever it
/// affects the result. The squares, their sum, and the root then round once each. With u = 2^-53, the relative error of
/// one rounding is at most d = u / (1 + u). Together, these errors are below (1 + d)^2 - 1 < 2 u.
pub fn hypot(a: f64, b: f64) -> f64 {
    let (a, b) = (a.abs(), b.abs());
    let largest = a.max(b);
    if a.is_infinite() || b.is_infinite() {
        return f64::INFINITY;
    }
    if a.is_nan() || b.is_nan() || largest == 0.0 {
        return a + b;
    }
    let scale = power_of_two_below(largest);
    let (a, b) = (a / scale, b / scale);
    scale * (a * a + b * b).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns (h - sqrt(a^2 + b^2)) / h to first order, from exact squares.
    fn relative_error(a: f64, b: f64, h: f64) -> f64 {
        // A product and its rounding error, both exact (Dekker 1971).
        let square = |v: f64| (v * v, v.mul_add(v, -(v * v)));
        let (a, b) = if a.abs() > b.abs() { (a, b) } else { (b, a) };
        let ((a2, a_low), (b2, b_low), (h2, h_low)) = (square(a), square(b), square(h));
        // h^2 lies between a^2 and 2 a^2, so the difference of the high parts is exact (Sterbenz lemma).
        -(((a2 - h2) + b2) + ((a_low - h_low) + b_low)) / (2.0 * h2)
    }

    #[test]
    fn hypot_is_accurate_at_any_scale() {
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut largest_error = 0.0f64;
        for _ in 0..100_000 {
            let (a, b) = (1.0 + uniform(), (1.0 + uniform()) * 2f64.powi((uniform() * 40.0) as i32 - 20));
            let h = hypot(a, b);
            largest_error = largest_error.max(relative_error(a, b, h).abs());
            assert_eq!(h, hypot(-b, a));
            for scale in [2f64.powi(-900), 2f64.powi(900)] {
                assert_eq!(hypot(a * scale, b * scale), h * scale, "{a} {b}");
            }
        }
        assert!(largest_error < f64::EPSILON, "{largest_error}");
    }

    #[test]
    fn hypot_handles_ends_of_the_range() {
        assert_eq!(hypot(3.0, -4.0), 5.0);
        assert_eq!([hypot(0.0, 0.0), hypot(0.0, -7.0), hypot(1e-300, 1e300)], [0.0, 7.0, 1e300]);
        let smallest_subnormal = f64::from_bits(1);
        assert_eq!(
            [hypot(smallest_subnormal, 0.0), hypot(3.0 * smallest_subnormal, 4.0 * smallest_subnormal)],
            [smallest_subnormal, 5.0 * smallest_subnormal]
        );
        assert_eq!(hypot(2f64.powi(1022), 2f64.powi(1022)), 2f64.powi(1022) * 2f64.sqrt());
        assert_eq!(hypot(f64::MAX, f64::MAX), f64::INFINITY);
        assert_eq!(hypot(f64::NEG_INFINITY, f64::NAN), f64::INFINITY);
        assert!(hypot(f64::NAN, 1.0).is_nan() && hypot(0.0, f64::NAN).is_nan());
    }

    #[test]
    fn power_of_two_below_returns_powers_of_two() {
        for v in [1.0, 3.7, 1e-300, 1e300, 5e-324, f64::MAX] {
            let p = power_of_two_below(v);
            assert!(p.recip().is_normal() && p.is_normal());
            assert_eq!(p.to_bits() & ((1 << 52) - 1), 0);
            if v > 1e-307 && v < 1e307 {
                assert!(p <= v && v < 2.0 * p);
            }
        }
    }
}
