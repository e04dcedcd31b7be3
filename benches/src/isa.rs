//! Compiles a loop for several instruction sets, as the library does. For the compiler's default target, the measured
//! bandwidth and the baseline solvers would be slower than the machine allows.

/// Defines `$name`, which calls `$text::<true>` compiled for AVX-512 or AVX2 with fused multiply-add if the machine
/// supports them, and otherwise `$text::<false>`. `$text` must be `#[inline(always)]`.
macro_rules! for_each_isa {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? = $text:ident
    ) => {
        $(#[$doc])*
        $vis fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
                fn avx512($($argument: $type),*) $(-> $result)? { $text::<true>($($argument),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $type),*) $(-> $result)? { $text::<true>($($argument),*) }
                let fma = is_x86_feature_detected!("fma");
                if fma
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                {
                    // SAFETY: the machine was just found to support these instructions.
                    return unsafe { avx512($($argument),*) };
                }
                if fma && is_x86_feature_detected!("avx2") {
                    // SAFETY: as above.
                    return unsafe { avx2($($argument),*) };
                }
            }
            $text::<false>($($argument),*)
        }
    };
}
pub(crate) use for_each_isa;

/// Returns the widest instruction set that `for_each_isa` finds on this machine.
pub fn name() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return "AVX-512";
        }
        if is_x86_feature_detected!("avx2") {
            return "AVX2";
        }
    }
    "portable"
}

/// Computes a b + c, with a single rounding if FMA is available.
#[inline(always)]
pub fn multiply_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}
