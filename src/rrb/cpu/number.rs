//! Storage formats of the preconditioner as types: the type of stored numbers, and the types in which sweeps and CG
//! compute (docs/theory/rrb.md, storage formats).

use crate::base::number::Real;
use crate::base::shared::Number;
use crate::rrb::storage::{Bf16, flush_subnormal};

// SAFETY: every bit pattern is a number, and zero bytes are 0.0.
unsafe impl Number for Bf16 {}

/// Storage format of M, with the number types of sweeps and CG.
pub trait Format: Sized + Send + Sync + 'static {
    /// Type in which the sweeps compute.
    type Real: Real + Number;
    /// Type of the stored numbers of M.
    type Stored: Number;
    /// Type of the CG vectors r, p and q, and of S1.
    type Vector: Real + Number;
    /// Format whose `Real` and `Stored` are the type of the CG vectors.
    type CgFormat: Format<Real = Self::Vector, Stored = Self::Vector>;
    /// Whether the sweeps read numbers shorter than doubles, in separate arrays.
    const IS_SHORT: bool = size_of::<Self::Stored>() < size_of::<f64>();
    /// Whether CG runs in single precision. S1 is then stored in difference form (row sums instead of centers), and
    /// residual replacement runs in double precision.
    const CG_IS_SINGLE: bool = size_of::<Self::Vector>() < size_of::<f64>();
    /// Converts a stored number to the type of the sweeps.
    fn read(v: Self::Stored) -> Self::Real;
    /// Rounds v to the storage format.
    #[inline(always)]
    fn write(v: f64) -> Self::Stored {
        Self::round(Self::Real::from_f64(v))
    }
    /// Rounds a number in the type of the sweeps to the storage format.
    fn round(v: Self::Real) -> Self::Stored;
    /// Converts a number that the storage format represents exactly.
    fn convert_exact(v: Self::Real) -> Self::Stored;
    /// Returns 1 / d from the stored pivot and the couplings a of a node. The stored pivot is 1 / d in f64. In f32 and
    /// bf16, it is the row sum s, and d = s - sum a.
    fn inverse_pivot(pivot: Self::Stored, couplings: [Self::Real; 4]) -> Self::Real;
}

/// M in f64; sweeps and CG in f64.
pub struct F64Format;

impl Format for F64Format {
    type Real = f64;
    type Stored = f64;
    type Vector = f64;
    type CgFormat = Self;

    #[inline(always)]
    fn read(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn round(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn convert_exact(v: f64) -> f64 {
        v
    }

    #[inline(always)]
    fn inverse_pivot(pivot: f64, _: [f64; 4]) -> f64 {
        pivot
    }
}

/// M in f32, sweeps in f32, CG in f64.
pub struct F32Format;
/// M in bf16, sweeps in f32, CG in f64.
pub struct Bf16Format;
/// M in bf16, sweeps and CG in f32.
pub struct MixedFormat;

macro_rules! short_format {
    ($name:ident, $stored:ty, $cg:ident,
     |$v:ident| $read:expr, |$w:ident| $round:expr, |$s:ident| $convert_exact:expr) => {
        impl Format for $name {
            type Real = f32;
            type Stored = $stored;
            type Vector = <$cg as Format>::Real;
            type CgFormat = $cg;

            #[inline(always)]
            fn read($v: $stored) -> f32 {
                $read
            }

            #[inline(always)]
            fn round($w: f32) -> $stored {
                $round
            }

            #[inline(always)]
            fn convert_exact($s: f32) -> $stored {
                $convert_exact
            }

            #[inline(always)]
            fn inverse_pivot(pivot: $stored, a: [f32; 4]) -> f32 {
                1.0 / (Self::read(pivot) - ((a[0] + a[1]) + (a[2] + a[3])))
            }
        }
    };
}

short_format!(F32Format, f32, F64Format, |v| v, |w| flush_subnormal(w), |s| s);
short_format!(Bf16Format, Bf16, F64Format, |v| v.to_f32(), |w| Bf16::new(flush_subnormal(w)), |s| Bf16::from_rounded(
    s
));
short_format!(MixedFormat, Bf16, F32Format, |v| v.to_f32(), |w| Bf16::new(flush_subnormal(w)), |s| Bf16::from_rounded(
    s
));
