//! Floating-point traps of the host, put aside where numbers may be nonsense that nobody is going to see.

/// While it lives, exceptions on this thread set flags alone; then mode and flags are as they were.
pub struct Held {
    #[cfg(target_arch = "x86_64")]
    mode: u32,
    #[cfg(target_arch = "aarch64")]
    mode: u64,
}

#[cfg(target_arch = "x86_64")]
impl Held {
    pub fn new() -> Self {
        // The masks of all six exceptions.
        const MASKED: u32 = 0x1f80;
        let mut mode = 0u32;
        // SAFETY: stmxcsr writes the four bytes of `mode`, ldmxcsr reads as many; its bits are those that were there, and masks.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack));
            let masked = mode | MASKED;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const masked, options(nostack));
        }
        Self { mode }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: reads the four bytes that `new` has read from there.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const self.mode, options(nostack)) };
    }
}

#[cfg(target_arch = "aarch64")]
impl Held {
    pub fn new() -> Self {
        // Trap enables of all six exceptions.
        const ENABLES: u64 = 0x9f00;
        let mode: u64;
        // SAFETY: reads and writes a register of this thread; only enables change.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) mode, options(nostack));
            std::arch::asm!("msr fpcr, {}", in(reg) mode & !ENABLES, options(nostack));
        }
        Self { mode }
    }
}

#[cfg(target_arch = "aarch64")]
impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: writes what `new` has read.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) self.mode, options(nostack)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Held {
    pub fn new() -> Self {
        Self {}
    }
}
