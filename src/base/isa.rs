//! Compilation of CPU kernels for several instruction sets; one instruction set is selected per process.
//!
//! Every kernel that `for_each_isa` compiles does the same operations in the same order on all instruction sets: no
//! fused multiply-add, and a fixed number of interleaved partial sums (`base::reduce`). The results therefore do not
//! depend on the instruction set. The block kernels of the smoother are not compiled by this macro. They use
//! `base::lanes`, and the last bits of their results depend on the instruction set.

use std::ffi::CStr;
use std::fmt;
use std::sync::OnceLock;

/// An instruction set for which kernels are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The baseline of the compilation target.
    Portable,
    /// AVX2: 256-bit vectors.
    Avx2,
    /// AVX-512 (F, VL, DQ, BW): 512-bit vectors.
    Avx512,
}

/// Environment variable that selects the instruction set of the process.
pub const ISA_VARIABLE: &CStr = c"RRBSOLVER_ISA";

/// Values of `RRBSOLVER_ISA`, from the narrowest to the widest instruction set.
const ISA_NAMES: [(&str, Isa); 3] = [("portable", Isa::Portable), ("avx2", Isa::Avx2), ("avx512", Isa::Avx512)];

/// Returns the instruction set of this process: the one that `RRBSOLVER_ISA` names (avx512, avx2, portable) if the
/// machine supports it, otherwise the widest one that the machine supports.
pub fn isa() -> Isa {
    static ISA: OnceLock<Isa> = OnceLock::new();
    *ISA.get_or_init(|| choose_isa(std::env::var(ISA_VARIABLE.to_str().unwrap_or_default()).ok().as_deref()))
}

fn choose_isa(requested: Option<&str>) -> Isa {
    let best = best_isa();
    isa_named(requested.unwrap_or_default()).filter(|isa| *isa <= best).unwrap_or(best)
}

fn isa_named(name: &str) -> Option<Isa> {
    ISA_NAMES.iter().find(|n| n.0 == name).map(|n| n.1)
}

/// Returns a warning if this value of `RRBSOLVER_ISA` is ignored, because it is unknown or this machine does not
/// support it.
pub fn ignored_isa(requested: &str) -> Option<IgnoredIsa<'_>> {
    let requested_isa = isa_named(requested);
    requested_isa
        .is_none_or(|isa| isa > best_isa())
        .then_some(IgnoredIsa { requested, is_known: requested_isa.is_some() })
}

/// Warning about an ignored instruction set. Formatting its text allocates no memory.
#[derive(Debug, PartialEq)]
pub struct IgnoredIsa<'a> {
    requested: &'a str,
    is_known: bool,
}

impl fmt::Display for IgnoredIsa<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested, is_known } = self;
        let best_name = ISA_NAMES.iter().find(|n| n.1 == best_isa()).map_or("portable", |n| n.0);
        if *is_known {
            write!(f, "this machine does not support {requested}; {best_name} is used")
        } else {
            write!(f, "unknown instruction set '{requested}', must be avx512, avx2 or portable; {best_name} is used")
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn best_isa() -> Isa {
    if is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
    {
        Isa::Avx512
    } else if is_x86_feature_detected!("avx2") {
        Isa::Avx2
    } else {
        Isa::Portable
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn best_isa() -> Isa {
    Isa::Portable
}

/// Compiles a kernel once per instruction set, and defines a function that calls the version for this process.
macro_rules! for_each_isa {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $(<$($f:ident: $bound:ident),+>)?
        ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $name $(<$($f: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn kernel_body $(<$($f: $bound),+>)? ($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
                #[allow(clippy::too_many_arguments)]
                fn avx512 $(<$($f: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
                    kernel_body $(::<$($f),+>)? ($($argument),*)
                }
                #[target_feature(enable = "avx2")]
                #[allow(clippy::too_many_arguments)]
                fn avx2 $(<$($f: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
                    kernel_body $(::<$($f),+>)? ($($argument),*)
                }
                // Not inlined, so that tests/machine_code.rs finds this function.
                #[inline(never)]
                #[allow(clippy::too_many_arguments)]
                fn portable $(<$($f: $bound),+>)? ($($argument: $type),*) $(-> $result)? {
                    kernel_body $(::<$($f),+>)? ($($argument),*)
                }
                match $crate::base::isa::isa() {
                    // SAFETY: `isa` returns only instruction sets that were detected on this machine.
                    $crate::base::isa::Isa::Avx512 => unsafe { avx512 $(::<$($f),+>)? ($($argument),*) },
                    // SAFETY: as above.
                    $crate::base::isa::Isa::Avx2 => unsafe { avx2 $(::<$($f),+>)? ($($argument),*) },
                    $crate::base::isa::Isa::Portable => portable $(::<$($f),+>)? ($($argument),*),
                }
            }
            #[cfg(not(target_arch = "x86_64"))]
            {
                kernel_body $(::<$($f),+>)? ($($argument),*)
            }
        }
    )*};
}

pub(crate) use for_each_isa;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_instruction_set_is_used_if_supported() {
        assert_eq!(choose_isa(Some("portable")), Isa::Portable);
        assert_eq!(choose_isa(None), best_isa());
        assert_eq!(choose_isa(Some("nonsense")), best_isa());
        assert!(ignored_isa("nonsense").is_some_and(|warning| warning.to_string().contains("'nonsense'")));
        assert_eq!(ignored_isa("portable"), None);
        if best_isa() == Isa::Avx512 {
            assert_eq!(choose_isa(Some("avx2")), Isa::Avx2);
        }
    }
}
