//! Number formats of the stored preconditioner (docs/theory/rrb.md, storage formats of the preconditioner).
//!
//! `f32` and `bf16` store M / storage_unit, where `storage_unit` is a power of two near the largest center. The
//! exponent range of the format then covers the ratios of the entries.
//!
//! The factorization rounds each coupling and adds the rounding error to the diagonal entries of both nodes. In row-sum
//! form (diagonal = row sum - sum of couplings), this requires no computation, because the stored row sum does not
//! change. Row sums are therefore preserved, and rounding changes M by a relative amount of at most the unit roundoff
//! of the format in the energy norm. These formats also store a pivot d as its row sum s; sweeps compute
//! d = s - sum(a), where sum(a) is the sum of the kept couplings.

/// Storage format of the numbers of M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// 8 bytes.
    F64,
    /// 4 bytes.
    F32,
    /// 2 bytes: the upper half of an f32.
    Bf16,
    /// Like `Bf16`, but CG runs in f32, with residual replacement in f64. This format exists only on the CPU, for S1
    /// of a regular system.
    Mixed,
}

impl Storage {
    /// Returns the format of M alone: `Bf16` for `Mixed`.
    #[must_use]
    pub fn matrix_format(self) -> Self {
        if self == Self::Mixed { Self::Bf16 } else { self }
    }

    /// Rounds v to the nearest number of the format. For bf16, v is first rounded to f32, as in computations in f32
    /// whose results are stored in bf16. In f32 and bf16, subnormal numbers become zero.
    pub fn round(self, v: f64) -> f64 {
        match self {
            Self::F64 => v,
            Self::F32 => f64::from(to_f32_flushed(v)),
            Self::Bf16 | Self::Mixed => f64::from(Bf16::new(to_f32_flushed(v)).to_f32()),
        }
    }
}

/// Returns v in single precision, or zero if the result is subnormal.
#[inline(always)]
pub fn to_f32_flushed(v: f64) -> f32 {
    flush_subnormal(v as f32)
}

/// Returns v, or zero if v is subnormal.
#[inline(always)]
pub fn flush_subnormal(v: f32) -> f32 {
    if v.abs() < f32::MIN_POSITIVE { 0.0 } else { v }
}

/// The upper 16 bits of an f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(u16);

impl Bf16 {
    /// Rounds to nearest, ties to even. A NaN that an arithmetic operation produced remains NaN, because its lower 16
    /// bits are zero. The inspection rejects other NaNs in the caller's matrix.
    #[inline(always)]
    pub fn new(v: f32) -> Self {
        let bits = v.to_bits();
        Self((bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
    }

    /// Converts a value that is already rounded to bf16.
    #[inline(always)]
    pub fn from_rounded(v: f32) -> Self {
        debug_assert!(v.to_bits() & 0xffff == 0 || v.is_nan(), "rounded before");
        Self((v.to_bits() >> 16) as u16)
    }

    /// Returns the value as f32.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_nearest_even() {
        for (v, expected) in
            [(1.0, 1.0), (-4.0, -4.0), (1.0 + 1.0 / 256.0, 1.0), (1.0 + 3.0 / 256.0, 1.015_625), (0.0, 0.0)]
        {
            assert_eq!(Bf16::new(v).to_f32(), expected);
        }
        assert!(Bf16::new(f32::NAN).to_f32().is_nan());
        assert_eq!(Bf16::new(f32::INFINITY).to_f32(), f32::INFINITY);
        for k in 1..1000 {
            let v = 1.0 / k as f32;
            // Half a unit in the last place of an 8-bit significand.
            assert!((Bf16::new(v).to_f32() - v).abs() <= v / 256.0);
        }
    }

    #[test]
    fn rounding_twice_equals_rounding_once() {
        for storage in [Storage::F64, Storage::F32, Storage::Bf16] {
            for v in [0.1, -3.7e20, 1e-40, 0.0] {
                let rounded = storage.round(v);
                assert_eq!(storage.round(rounded), rounded);
            }
        }
        assert_eq!(Storage::Bf16.round(1e-40), 0.0);
    }
}
