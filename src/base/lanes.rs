//! Vectors of eight doubles for each instruction set. All operations except `mul_add` and `mul_sub` are bitwise
//! identical on all instruction sets. The vectors are used where row slices are too short for automatic vectorization:
//! blocks of at most eight cells per side, whose lines along x are transposed in registers.

/// Vector of eight doubles.
///
/// # Safety of the unsafe methods
/// The pointers must be valid for the values that are read or written, and 8-byte aligned. Methods with the argument
/// `n`, which must be at most 8, read or write only the first `n` values.
pub trait Lanes: Copy {
    /// Sets all eight values to `x`.
    fn splat(x: f64) -> Self;
    /// Loads the eight values at `p`.
    unsafe fn load(p: *const f64) -> Self;
    /// Loads the first `n` values and sets the others to zero.
    unsafe fn load_first(p: *const f64, n: usize) -> Self;
    /// Loads (*first, 0, 0, 0, 0, 0, 0, *last).
    unsafe fn load_ends(first: *const f64, last: *const f64) -> Self;
    /// Stores all eight values.
    unsafe fn store(self, p: *mut f64);
    /// Stores the first `n` values.
    unsafe fn store_first(self, p: *mut f64, n: usize);
    /// a + b
    fn add(self, b: Self) -> Self;
    /// a - b
    fn sub(self, b: Self) -> Self;
    /// a b
    fn mul(self, b: Self) -> Self;
    /// a b + c; rounded once with `Avx512`, twice with the other types. The last bit therefore depends on the
    /// instruction set. With AVX2 the operation is not fused, because some machines with AVX2 have no fused operations.
    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        self.mul(b).add(c)
    }
    /// a b - c, rounded as in `mul_add`.
    #[inline(always)]
    fn mul_sub(self, b: Self, c: Self) -> Self {
        self.mul(b).sub(c)
    }
    /// Returns the sum of the eight values.
    #[inline(always)]
    fn sum(self) -> f64 {
        let mut lanes = [0.0; 8];
        // SAFETY: `lanes` has room for eight values.
        unsafe { self.store(lanes.as_mut_ptr()) };
        ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]))
    }
    /// Transposes a matrix of 8 x 8 values: the new rows[i][l] is the old rows[l][i].
    fn transpose(rows: &mut [Self; 8]);
    /// Prefetches the cache line of `p`, which may be any address.
    fn prefetch(_: *const f64) {}
}

/// Array of eight doubles. The compiler may vectorize its operations.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Portable([f64; 8]);

impl Portable {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let mut c = self;
        for l in 0..8 {
            c.0[l] = f(self.0[l], b.0[l]);
        }
        c
    }
}

impl Lanes for Portable {
    #[inline(always)]
    fn splat(x: f64) -> Self {
        Self([x; 8])
    }

    #[inline(always)]
    unsafe fn load(p: *const f64) -> Self {
        // SAFETY: guaranteed by the caller.
        Self(unsafe { p.cast::<[f64; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_first(p: *const f64, n: usize) -> Self {
        let mut v = [0.0; 8];
        for (l, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: guaranteed by the caller.
            *v = unsafe { *p.add(l) };
        }
        Self(v)
    }

    #[inline(always)]
    unsafe fn load_ends(first: *const f64, last: *const f64) -> Self {
        // SAFETY: guaranteed by the caller.
        Self(unsafe { [*first, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, *last] })
    }

    #[inline(always)]
    unsafe fn store(self, p: *mut f64) {
        // SAFETY: guaranteed by the caller.
        unsafe { p.cast::<[f64; 8]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn store_first(self, p: *mut f64, n: usize) {
        for (l, v) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: guaranteed by the caller.
            unsafe { *p.add(l) = v };
        }
    }

    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |a, b| a * b)
    }

    #[inline(always)]
    fn transpose(rows: &mut [Self; 8]) {
        let old_rows = *rows;
        for (i, row) in rows.iter_mut().enumerate() {
            for (value, old_rows) in row.0.iter_mut().zip(&old_rows) {
                *value = old_rows.0[i];
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// Implementations for x86-64. Their methods may only be called inside functions that enable the instruction set; they
/// are inlined there.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// One 512-bit register.
    #[derive(Clone, Copy)]
    pub struct Avx512(__m512d);

    #[inline(always)]
    fn mask_of_first(n: usize) -> __mmask8 {
        ((1u32 << n) - 1) as __mmask8
    }

    // SAFETY (all blocks below): kernels are instantiated with this type only in functions with the target feature, and
    // `isa` selects these functions only on machines that support it. Callers of the trait guarantee valid pointers.
    impl Lanes for Avx512 {
        #[inline(always)]
        fn splat(x: f64) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_set1_pd(x) })
        }

        #[inline(always)]
        unsafe fn load(p: *const f64) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_loadu_pd(p) })
        }

        #[inline(always)]
        unsafe fn load_first(p: *const f64, n: usize) -> Self {
            // SAFETY: as above; masked-out values are not read.
            Self(unsafe { _mm512_maskz_loadu_pd(mask_of_first(n), p) })
        }

        #[inline(always)]
        unsafe fn load_ends(first: *const f64, last: *const f64) -> Self {
            // SAFETY: as above.
            unsafe {
                let first_value = _mm512_zextpd128_pd512(_mm_load_sd(first));
                Self(_mm512_mask_broadcastsd_pd(first_value, 0x80, _mm_load_sd(last)))
            }
        }

        #[inline(always)]
        unsafe fn store(self, p: *mut f64) {
            // SAFETY: as above.
            unsafe { _mm512_storeu_pd(p, self.0) };
        }

        #[inline(always)]
        unsafe fn store_first(self, p: *mut f64, n: usize) {
            // SAFETY: as above; masked-out values are not written.
            unsafe { _mm512_mask_storeu_pd(p, mask_of_first(n), self.0) };
        }

        #[inline(always)]
        fn add(self, b: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_add_pd(self.0, b.0) })
        }

        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_sub_pd(self.0, b.0) })
        }

        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_mul_pd(self.0, b.0) })
        }

        #[inline(always)]
        fn mul_add(self, b: Self, c: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_fmadd_pd(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn mul_sub(self, b: Self, c: Self) -> Self {
            // SAFETY: as above.
            Self(unsafe { _mm512_fmsub_pd(self.0, b.0, c.0) })
        }

        #[inline(always)]
        fn prefetch(p: *const f64) {
            // SAFETY: a hint, which cannot fault.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) };
        }

        #[inline(always)]
        fn transpose(rows: &mut [Self; 8]) {
            let registers = [rows[0].0, rows[1].0, rows[2].0, rows[3].0, rows[4].0, rows[5].0, rows[6].0, rows[7].0];
            // SAFETY: as above.
            unsafe {
                let unpack_pair = |a, b| (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
                let ((a0, a1), (a2, a3)) =
                    (unpack_pair(registers[0], registers[1]), unpack_pair(registers[2], registers[3]));
                let ((a4, a5), (a6, a7)) =
                    (unpack_pair(registers[4], registers[5]), unpack_pair(registers[6], registers[7]));
                // `even_parts` returns the even 128-bit parts of both operands, and `odd_parts` the odd parts.
                let even_parts = |a, b| _mm512_shuffle_f64x2::<0x88>(a, b);
                let odd_parts = |a, b| _mm512_shuffle_f64x2::<0xdd>(a, b);
                // e02 contains columns 0 and 4 of rows 0..3; the others follow the same scheme.
                let (e02, o02) = (even_parts(a0, a2), odd_parts(a0, a2));
                let (e13, o13) = (even_parts(a1, a3), odd_parts(a1, a3));
                let (e46, o46) = (even_parts(a4, a6), odd_parts(a4, a6));
                let (e57, o57) = (even_parts(a5, a7), odd_parts(a5, a7));
                *rows = [
                    Self(even_parts(e02, e46)),
                    Self(even_parts(e13, e57)),
                    Self(even_parts(o02, o46)),
                    Self(even_parts(o13, o57)),
                    Self(odd_parts(e02, e46)),
                    Self(odd_parts(e13, e57)),
                    Self(odd_parts(o02, o46)),
                    Self(odd_parts(o13, o57)),
                ];
            }
        }
    }

    /// Two 256-bit registers.
    #[derive(Clone, Copy)]
    pub struct Avx2([__m256d; 2]);

    impl Avx2 {
        #[inline(always)]
        fn zip(self, b: Self, f: impl Fn(__m256d, __m256d) -> __m256d) -> Self {
            Self([f(self.0[0], b.0[0]), f(self.0[1], b.0[1])])
        }
    }

    /// Transposes a 4 x 4 block.
    #[inline(always)]
    fn transpose4(r: [__m256d; 4]) -> [__m256d; 4] {
        // SAFETY: as for `Avx512`.
        unsafe {
            let (a, b) = (_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpackhi_pd(r[0], r[1]));
            let (c, d) = (_mm256_unpacklo_pd(r[2], r[3]), _mm256_unpackhi_pd(r[2], r[3]));
            [
                _mm256_permute2f128_pd::<0x20>(a, c),
                _mm256_permute2f128_pd::<0x20>(b, d),
                _mm256_permute2f128_pd::<0x31>(a, c),
                _mm256_permute2f128_pd::<0x31>(b, d),
            ]
        }
    }

    #[inline(always)]
    fn mask_of_first4(n: usize) -> __m256i {
        const MASKS: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
        // SAFETY: as for `Avx512`; n <= 4, so the four entries from 4 - n on are inside the array.
        unsafe { _mm256_loadu_si256(MASKS.as_ptr().add(4 - n).cast()) }
    }

    // SAFETY (all blocks below): as for `Avx512`.
    impl Lanes for Avx2 {
        #[inline(always)]
        fn splat(x: f64) -> Self {
            // SAFETY: as above.
            Self([unsafe { _mm256_set1_pd(x) }; 2])
        }

        #[inline(always)]
        unsafe fn load(p: *const f64) -> Self {
            // SAFETY: as above.
            Self(unsafe { [_mm256_loadu_pd(p), _mm256_loadu_pd(p.add(4))] })
        }

        #[inline(always)]
        unsafe fn load_first(p: *const f64, n: usize) -> Self {
            let (low_count, high_count) = (n.min(4), n.saturating_sub(4));
            // SAFETY: as above; masked-out values are not read.
            Self(unsafe {
                [
                    _mm256_maskload_pd(p, mask_of_first4(low_count)),
                    _mm256_maskload_pd(p.wrapping_add(4), mask_of_first4(high_count)),
                ]
            })
        }

        #[inline(always)]
        unsafe fn load_ends(first: *const f64, last: *const f64) -> Self {
            // SAFETY: as above.
            unsafe {
                let high_half = _mm256_blend_pd::<8>(_mm256_setzero_pd(), _mm256_broadcast_sd(&*last));
                Self([_mm256_zextpd128_pd256(_mm_load_sd(first)), high_half])
            }
        }

        #[inline(always)]
        unsafe fn store(self, p: *mut f64) {
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_pd(p, self.0[0]);
                _mm256_storeu_pd(p.add(4), self.0[1]);
            }
        }

        #[inline(always)]
        unsafe fn store_first(self, p: *mut f64, n: usize) {
            let (low_count, high_count) = (n.min(4), n.saturating_sub(4));
            // SAFETY: as above; masked-out values are not written.
            unsafe {
                _mm256_maskstore_pd(p, mask_of_first4(low_count), self.0[0]);
                _mm256_maskstore_pd(p.wrapping_add(4), mask_of_first4(high_count), self.0[1]);
            }
        }

        #[inline(always)]
        fn add(self, b: Self) -> Self {
            // SAFETY: as above.
            self.zip(b, |a, b| unsafe { _mm256_add_pd(a, b) })
        }

        #[inline(always)]
        fn sub(self, b: Self) -> Self {
            // SAFETY: as above.
            self.zip(b, |a, b| unsafe { _mm256_sub_pd(a, b) })
        }

        #[inline(always)]
        fn mul(self, b: Self) -> Self {
            // SAFETY: as above.
            self.zip(b, |a, b| unsafe { _mm256_mul_pd(a, b) })
        }

        #[inline(always)]
        fn prefetch(p: *const f64) {
            // SAFETY: a hint, which cannot fault.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) };
        }

        #[inline(always)]
        fn transpose(rows: &mut [Self; 8]) {
            let old_rows = *rows;
            let transpose_quarter = |start_row: usize, register: usize| {
                transpose4([
                    old_rows[start_row].0[register],
                    old_rows[start_row + 1].0[register],
                    old_rows[start_row + 2].0[register],
                    old_rows[start_row + 3].0[register],
                ])
            };
            let (a, b, c, d) =
                (transpose_quarter(0, 0), transpose_quarter(4, 0), transpose_quarter(0, 1), transpose_quarter(4, 1));
            for i in 0..4 {
                rows[i] = Self([a[i], b[i]]);
                rows[4 + i] = Self([c[i], d[i]]);
            }
        }
    }
}
