//! Double-double arithmetic: a number is the sum of two doubles, of which the second is at most half a unit in the last
//! place of the first.
//!
//! Algorithms of Dekker (Numer. Math. 18, 1971) and Knuth (The Art of Computer Programming 2, 4.2.2). Error bounds of
//! Joldes, Muller and Popescu (ACM Trans. Math. Softw. 44, 2017): relative errors of 3 u^2 for a sum, 5 u^2 for a
//! product and 10 u^2 for a quotient, u = 2^-53, without overflow and underflow. Callers scale by powers of two to
//! avoid both.

use std::iter::Sum;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A double-double number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Twice {
    high: f64,
    low: f64,
}

/// Returns a + b and its rounding error (Knuth).
fn two_sum(a: f64, b: f64) -> Twice {
    let high = a + b;
    let added = high - a;
    Twice { high, low: (a - (high - added)) + (b - added) }
}

/// Returns a + b and its rounding error for |a| >= |b| (Dekker).
fn ordered_sum(a: f64, b: f64) -> Twice {
    let high = a + b;
    Twice { high, low: b - (high - a) }
}

impl Twice {
    /// Returns the number rounded to a double.
    pub fn value(self) -> f64 {
        self.high
    }

    /// Returns |v|.
    pub fn abs(self) -> Self {
        if self.high < 0.0 { -self } else { self }
    }

    /// Returns v^2.
    pub fn square(self) -> Self {
        self * self
    }
}

impl From<f64> for Twice {
    fn from(high: f64) -> Self {
        Twice { high, low: 0.0 }
    }
}

impl Neg for Twice {
    type Output = Self;
    fn neg(self) -> Self {
        Twice { high: -self.high, low: -self.low }
    }
}

impl Add for Twice {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (s, t) = (two_sum(self.high, other.high), two_sum(self.low, other.low));
        let v = ordered_sum(s.high, s.low + t.high);
        ordered_sum(v.high, t.low + v.low)
    }
}

impl Sub for Twice {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Twice {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let high = self.high * other.high;
        let low = self.high.mul_add(other.high, -high);
        let cross = self.high.mul_add(other.low, self.low * other.high);
        ordered_sum(high, low + cross)
    }
}

impl Mul<f64> for Twice {
    type Output = Self;
    fn mul(self, other: f64) -> Self {
        self * Twice::from(other)
    }
}

impl Div<f64> for Twice {
    type Output = Self;
    fn div(self, other: f64) -> Self {
        let first = self.high / other;
        let rest = self - Twice::from(first) * other;
        let second = rest.high / other;
        let rest = rest - Twice::from(second) * other;
        ordered_sum(first, second) + Twice::from(rest.high / other)
    }
}

impl Sum for Twice {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Twice::default(), Add::add)
    }
}

/// Computes v * 2^exponent, exact without overflow and underflow.
pub fn scaled(mut v: f64, mut exponent: i32) -> f64 {
    const STEP: i32 = 1000;
    let power = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    while exponent > STEP {
        (v, exponent) = (v * power(STEP), exponent - STEP);
    }
    while exponent < -STEP {
        (v, exponent) = (v * power(-STEP), exponent + STEP);
    }
    v * power(exponent)
}

/// Returns the e with 2^e <= v < 2^(e + 1), for finite v > 0.
pub fn exponent(v: f64) -> i32 {
    let stored = |v: f64| ((v.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    if v >= f64::MIN_POSITIVE { stored(v) } else { stored(scaled(v, 200)) - 200 }
}

#[test]
fn twice_the_precision() {
    // (1 + u)^2 - (1 + 2 u) = u^2 with u = 2^-52 is exact; 1 / 3 * 3 - 1 is below 1e-31.
    let one_and_more = Twice::from(1.0 + f64::EPSILON);
    let square = one_and_more.square() - Twice::from(1.0 + 2.0 * f64::EPSILON);
    assert_eq!(square.value(), f64::EPSILON * f64::EPSILON);
    let third = Twice::from(1.0) / 3.0;
    assert!((third * 3.0 - Twice::from(1.0)).abs().value() < 1e-31);
    // Sums with cancellation: 1e16 + 1 - 1e16.
    assert_eq!((Twice::from(1e16) + Twice::from(1.0) - Twice::from(1e16)).value(), 1.0);
    for v in [1.0, 1.5, 3e-310, 5e-324, 1e300, f64::MAX] {
        let e = exponent(v);
        let unit = scaled(v, -e);
        assert!((1.0..2.0).contains(&unit), "{v:e} {e} {unit}");
        assert_eq!(scaled(unit, e), v);
    }
}
