//! Number formats of the preconditioner, as types: what is stored, and what sweeps and CG compute in.

use crate::backend::storage::{Bf16, without_denormal};
use crate::runtime::number::Real;
use crate::runtime::shared::Number;

// SAFETY: every bit pattern is a number, and zero bytes are 0.0.
unsafe impl Number for Bf16 {}

/// A format of M.
pub trait Format: Sized + Send + Sync + 'static {
    /// What sweeps compute in.
    type Real: Real + Number;
    /// What is stored.
    type Stored: Number;
    /// What CG works in: r, p, q, and S1.
    type Vector: Real + Number;
    /// The format whose `Real` and `Stored` are that type.
    type OfCg: Format<Real = Self::Vector, Stored = Self::Vector>;
    /// Sweeps read short numbers, in arrays of their own.
    const SHORT: bool = size_of::<Self::Stored>() < size_of::<f64>();
    /// CG in single precision: S1 in difference form, residuals replaced in double precision.
    const SINGLE: bool = size_of::<Self::Vector>() < size_of::<f64>();
    /// A stored number, to compute with.
    fn read(v: Self::Stored) -> Self::Real;
    /// What is stored of v.
    #[inline(always)]
    fn write(v: f64) -> Self::Stored {
        Self::round(Self::Real::narrow(v))
    }
    /// What is stored of a number that sweeps could compute with.
    fn round(v: Self::Real) -> Self::Stored;
    /// The same of one that was stored and read.
    fn same(v: Self::Real) -> Self::Stored;
    /// 1 / d from the stored pivot of a node and its couplings: f64 stores 1 / d, short formats d + sum of couplings.
    fn inverse(pivot: Self::Stored, couplings: [Self::Real; 4]) -> Self::Real;
}

/// f64.
pub struct Double;

impl Format for Double {
    type Real = f64;
    type Stored = f64;
    type Vector = f64;
    type OfCg = Self;

    #[inline(always)]
    fn read(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn round(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn same(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn inverse(pivot: f64, _: [f64; 4]) -> f64 {
        pivot
    }
}

/// f32 couplings and excesses, f32 sweeps.
pub struct Single;
/// bf16 couplings and excesses, f32 sweeps.
pub struct Brain;
/// The same, and CG in single precision.
pub struct Mixed;

macro_rules! short_format {
    ($name:ident, $stored:ty, $of_cg:ident, |$v:ident| $read:expr, |$w:ident| $round:expr, |$s:ident| $same:expr) => {
        impl Format for $name {
            type Real = f32;
            type Stored = $stored;
            type Vector = <$of_cg as Format>::Real;
            type OfCg = $of_cg;

            #[inline(always)]
            fn read($v: $stored) -> f32 {
                $read
            }

            #[inline(always)]
            fn round($w: f32) -> $stored {
                $round
            }

            #[inline(always)]
            fn same($s: f32) -> $stored {
                $same
            }

            #[inline(always)]
            fn inverse(pivot: $stored, a: [f32; 4]) -> f32 {
                1.0 / (Self::read(pivot) - ((a[0] + a[1]) + (a[2] + a[3])))
            }
        }
    };
}

short_format!(Single, f32, Double, |v| v, |w| without_denormal(w), |s| s);
short_format!(Brain, Bf16, Double, |v| v.wide(), |w| Bf16::new(without_denormal(w)), |s| Bf16::same(s));
short_format!(Mixed, Bf16, Single, |v| v.wide(), |w| Bf16::new(without_denormal(w)), |s| Bf16::same(s));
