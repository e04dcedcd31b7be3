//! Numbers that loops compute in.

use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// What sweeps compute in.
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
    /// v rounded to nearest; the range is the caller's care.
    fn narrow(v: f64) -> Self;
    /// Its value.
    fn wide(self) -> f64;
}

impl Real for f64 {
    #[inline(always)]
    fn narrow(v: f64) -> Self {
        v
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

impl Real for f32 {
    #[inline(always)]
    fn narrow(v: f64) -> Self {
        v as Self
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}
