//! Floating-point mode: the library's own inside its code, the host's in the host's code. A leaf.
//!
//! Inside, no exception traps, rounding is to nearest and subnormal numbers are numbers, whatever the host has set:
//! what no result depends on (padding, pivots of a matrix that is refused) may divide by zero, and results have the
//! same bits in every host. Mode and exception flags of the host are put back when a call returns and while a callback
//! runs.

use std::cell::Cell;

/// Control and status of the floating-point unit.
#[derive(Clone, Copy)]
struct State {
    #[cfg(target_arch = "x86_64")]
    mxcsr: u32,
    #[cfg(target_arch = "aarch64")]
    fpcr: u64,
    #[cfg(target_arch = "aarch64")]
    fpsr: u64,
}

#[cfg(target_arch = "x86_64")]
impl State {
    /// All six exceptions masked, rounding to nearest, no flush to zero, no flags: as a process starts.
    const OWN: Self = Self { mxcsr: 0x1f80 };

    fn get() -> Self {
        let mut mxcsr = 0u32;
        // SAFETY: stmxcsr writes the four bytes of `mxcsr`.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack)) };
        Self { mxcsr }
    }

    fn set(self) {
        // SAFETY: reads four bytes that are `OWN`, or that stmxcsr has written: no reserved bit is set.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.mxcsr, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
impl State {
    /// No exception traps, rounding to nearest, no flush to zero, no flags: as a process starts.
    const OWN: Self = Self { fpcr: 0, fpsr: 0 };

    fn get() -> Self {
        let (fpcr, fpsr): (u64, u64);
        // SAFETY: reads two registers of this thread.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nostack));
            std::arch::asm!("mrs {}, fpsr", out(reg) fpsr, options(nostack));
        }
        Self { fpcr, fpsr }
    }

    fn set(self) {
        // SAFETY: writes `OWN`, or what was read from these registers.
        unsafe {
            std::arch::asm!("msr fpcr, {}", in(reg) self.fpcr, options(nostack));
            std::arch::asm!("msr fpsr, {}", in(reg) self.fpsr, options(nostack));
        }
    }
}

/// Elsewhere the mode stays the host's.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl State {
    const OWN: Self = Self {};

    fn get() -> Self {
        Self::OWN
    }

    fn set(self) {}
}

thread_local! {
    /// The host's state, while a call of it is under way on this thread.
    static HOST: Cell<Option<State>> = const { Cell::new(None) };
}

/// While it lives, this thread has the library's own state; then mode and flags are the host's again.
pub struct Own {
    outer: Option<State>,
}

impl Own {
    /// At the start of a call.
    pub fn new() -> Self {
        let outer = HOST.replace(Some(State::get()));
        State::OWN.set();
        Self { outer }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(host) = HOST.replace(self.outer) {
            host.set();
        }
    }
}

/// Runs code of the host within a call: with its mode and flags, and what it makes of them is kept for the call's end.
pub fn as_the_host<T>(code: impl FnOnce() -> T) -> T {
    /// Back to the library's state, also where `code` unwinds.
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            HOST.set(Some(State::get()));
            State::OWN.set();
        }
    }
    let Some(host) = HOST.get() else { return code() };
    let _inside = Inside;
    host.set();
    code()
}

/// For a thread of the library's own, which inherits the state of the thread that starts it.
pub fn on_own_thread() {
    State::OWN.set();
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    /// The host's flags: an inexact division sets one.
    fn inexact() -> State {
        std::hint::black_box(std::hint::black_box(1.0) / std::hint::black_box(3.0));
        State::get()
    }

    #[cfg(target_arch = "x86_64")]
    fn word(state: State) -> u64 {
        u64::from(state.mxcsr)
    }

    #[cfg(target_arch = "aarch64")]
    fn word(state: State) -> u64 {
        state.fpcr << 32 | state.fpsr
    }

    #[test]
    fn states_of_host_and_library_stay_apart() {
        State::OWN.set();
        let clean = word(State::get());
        let own = Own::new();
        assert_ne!(word(inexact()), clean);
        as_the_host(|| {
            assert_eq!(word(State::get()), clean);
            // A call from a callback.
            let nested = Own::new();
            inexact();
            drop(nested);
            assert_eq!(word(State::get()), clean);
            inexact();
        });
        assert_eq!(word(State::get()), clean, "inside again, with a new set of flags");
        drop(own);
        assert_ne!(word(State::get()), clean, "what the callback has raised is seen");
        State::OWN.set();
    }
}
