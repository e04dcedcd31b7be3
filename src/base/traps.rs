//! Floating-point mode: the library's own mode in library code, the host's mode in host code. The host is the program
//! that calls the library. This module uses no other module.
//!
//! In library code, no exception traps, rounding is to nearest, and subnormal numbers are not flushed to zero.
//! Operations on values that no result depends on (padding, pivots of a rejected matrix) may therefore divide by zero.
//! Results are bitwise identical in every host. Mode and exception flags of the host are restored when a call returns
//! and while a callback runs.

use std::cell::Cell;

/// Control and status registers of the floating-point unit.
#[derive(Clone, Copy)]
struct FloatingPointState {
    #[cfg(target_arch = "x86_64")]
    mxcsr: u32,
    #[cfg(target_arch = "aarch64")]
    fpcr: u64,
    #[cfg(target_arch = "aarch64")]
    fpsr: u64,
}

#[cfg(target_arch = "x86_64")]
impl FloatingPointState {
    /// All six exceptions masked, rounding to nearest, no flush to zero, no flags set: the state of a new process.
    const LIBRARY: Self = Self { mxcsr: 0x1f80 };

    fn read_registers() -> Self {
        let mut mxcsr = 0u32;
        // SAFETY: stmxcsr writes the four bytes of `mxcsr`.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack)) };
        Self { mxcsr }
    }

    fn write_registers(self) {
        // SAFETY: loads `LIBRARY`, or four bytes that stmxcsr has stored, so no reserved bit is set.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.mxcsr, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
impl FloatingPointState {
    /// No traps, rounding to nearest, no flush to zero, no flags set: the state of a new process.
    const LIBRARY: Self = Self { fpcr: 0, fpsr: 0 };

    fn read_registers() -> Self {
        let (fpcr, fpsr): (u64, u64);
        // SAFETY: reads two registers of this thread.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nostack));
            std::arch::asm!("mrs {}, fpsr", out(reg) fpsr, options(nostack));
        }
        Self { fpcr, fpsr }
    }

    fn write_registers(self) {
        // SAFETY: writes `LIBRARY`, or values that were read from these registers.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) self.fpcr, options(nostack));
            std::arch::asm!("msr fpsr, {}", in(reg) self.fpsr, options(nostack));
        }
    }
}

/// On other targets, the host's mode stays in effect.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl FloatingPointState {
    const LIBRARY: Self = Self {};

    fn read_registers() -> Self {
        Self::LIBRARY
    }

    fn write_registers(self) {}
}

thread_local! {
    /// During a library call on this thread: floating-point state of the host.
    static HOST_STATE: Cell<Option<FloatingPointState>> = const { Cell::new(None) };
}

/// Guard that sets the library's state on this thread. Dropping it restores mode and flags of the host.
pub struct LibraryStateGuard {
    outer_state: Option<FloatingPointState>,
}

impl LibraryStateGuard {
    /// Saves the host's state and sets the library's state, at the start of a call.
    pub fn new() -> Self {
        let outer_state = HOST_STATE.replace(Some(FloatingPointState::read_registers()));
        FloatingPointState::LIBRARY.write_registers();
        Self { outer_state }
    }
}

impl Drop for LibraryStateGuard {
    fn drop(&mut self) {
        if let Some(host_state) = HOST_STATE.replace(self.outer_state) {
            host_state.write_registers();
        }
    }
}

/// Runs host code within a library call, in the host's state. The flags and mode that `code` leaves become the host's
/// state, which is restored at the end of the library call.
pub fn in_host_state<T>(code: impl FnOnce() -> T) -> T {
    /// Restores the library's state, also if `code` unwinds.
    struct LibraryStateRestorer;
    impl Drop for LibraryStateRestorer {
        fn drop(&mut self) {
            HOST_STATE.set(Some(FloatingPointState::read_registers()));
            FloatingPointState::LIBRARY.write_registers();
        }
    }
    let Some(host_state) = HOST_STATE.get() else { return code() };
    let _restorer = LibraryStateRestorer;
    host_state.write_registers();
    code()
}

/// Sets the library's state on a thread that the library has started. A new thread inherits the state of its creator.
pub fn set_on_library_thread() {
    FloatingPointState::LIBRARY.write_registers();
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    /// Returns the state after an inexact division, which sets a flag.
    fn state_after_inexact() -> FloatingPointState {
        std::hint::black_box(std::hint::black_box(1.0) / std::hint::black_box(3.0));
        FloatingPointState::read_registers()
    }

    #[cfg(target_arch = "x86_64")]
    fn state_bits(state: FloatingPointState) -> u64 {
        u64::from(state.mxcsr)
    }

    #[cfg(target_arch = "aarch64")]
    fn state_bits(state: FloatingPointState) -> u64 {
        state.fpcr << 32 | state.fpsr
    }

    #[test]
    fn host_and_library_states_stay_separate() {
        FloatingPointState::LIBRARY.write_registers();
        let library_bits = state_bits(FloatingPointState::read_registers());
        let guard = LibraryStateGuard::new();
        assert_ne!(state_bits(state_after_inexact()), library_bits);
        in_host_state(|| {
            assert_eq!(state_bits(FloatingPointState::read_registers()), library_bits);
            // A library call from within a callback.
            let nested_guard = LibraryStateGuard::new();
            state_after_inexact();
            drop(nested_guard);
            assert_eq!(state_bits(FloatingPointState::read_registers()), library_bits);
            state_after_inexact();
        });
        assert_eq!(
            state_bits(FloatingPointState::read_registers()),
            library_bits,
            "inside again, with a new set of flags"
        );
        drop(guard);
        assert_ne!(
            state_bits(FloatingPointState::read_registers()),
            library_bits,
            "what the callback has raised is seen"
        );
        FloatingPointState::LIBRARY.write_registers();
    }
}
