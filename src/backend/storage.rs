//! Number formats of the stored preconditioner.
//!
//! `f32` and `bf16` keep M / unit, unit a power of two near the largest center, so that the range of the format is
//! spent on contrasts. Each coupling is rounded during the factorization and its error lumped to both diagonals: in
//! excess form (diagonal = excess - sum of couplings) that is what leaving the excess alone does, so that row sums
//! survive and M stays spectrally as near as the format's unit roundoff. A pivot is kept as its excess s; sweeps form
//! d = s - sum(a).

/// What the numbers of M are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// 8 bytes.
    F64,
    /// 4 bytes.
    F32,
    /// 2 bytes: the upper half of an f32.
    Bf16,
}

impl Storage {
    /// v to nearest, for bf16 to nearest by way of f32 (two roundings). Sweeps of the short formats run in f32.
    pub fn round(self, v: f64) -> f64 {
        match self {
            Self::F64 => v,
            Self::F32 => f64::from(flushed(v)),
            Self::Bf16 => f64::from(Bf16::new(flushed(v)).wide()),
        }
    }
}

/// v in single precision; zero where it would lose its leading bit to underflow.
#[inline(always)]
pub fn flushed(v: f64) -> f32 {
    without_denormal(v as f32)
}

/// v, or zero where its leading bit is lost.
#[inline(always)]
pub fn without_denormal(v: f32) -> f32 {
    if v.abs() < f32::MIN_POSITIVE { 0.0 } else { v }
}

/// An f32 without its lower 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(u16);

impl Bf16 {
    /// The nearest one, ties to even. A NaN that an operation made stays one: its lower half is zero. (One that was put
    /// into a matrix is refused before.)
    #[inline(always)]
    pub fn new(v: f32) -> Self {
        let bits = v.to_bits();
        Self((bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16)
    }

    /// One that v is already.
    #[inline(always)]
    pub fn same(v: f32) -> Self {
        debug_assert!(v.to_bits() & 0xffff == 0 || v.is_nan(), "rounded before");
        Self((v.to_bits() >> 16) as u16)
    }

    /// Its value.
    #[inline(always)]
    pub fn wide(self) -> f32 {
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
            assert_eq!(Bf16::new(v).wide(), expected);
        }
        assert!(Bf16::new(f32::NAN).wide().is_nan());
        assert_eq!(Bf16::new(f32::INFINITY).wide(), f32::INFINITY);
        for k in 1..1000 {
            let v = 1.0 / k as f32;
            // Half a unit in the last of 8 bits.
            assert!((Bf16::new(v).wide() - v).abs() <= v / 256.0);
        }
    }

    #[test]
    fn what_is_rounded_stays() {
        for storage in [Storage::F64, Storage::F32, Storage::Bf16] {
            for v in [0.1, -3.7e20, 1e-40, 0.0] {
                let once = storage.round(v);
                assert_eq!(storage.round(once), once);
            }
        }
        assert_eq!(Storage::Bf16.round(1e-40), 0.0);
    }
}
