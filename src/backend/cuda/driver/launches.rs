//! What was launched on a stream, to compare it with what would be launched.

use crate::error::{Error, Result};
use crate::runtime::memory::same_bytes;
use std::mem::MaybeUninit;

/// Launches, one after the other: numbers of each, and the structure that the kernel took.
#[derive(Default)]
pub struct Launches {
    bytes: Vec<MaybeUninit<u8>>,
    /// They are noted alone.
    not_done: bool,
}

impl Launches {
    /// None yet; they are to be noted, and not done.
    pub fn not_done() -> Self {
        Self { not_done: true, ..Self::default() }
    }

    /// Adds one. Whether it is to be done.
    pub fn note<A: Copy>(&mut self, numbers: &[u64], structure: &A) -> Result<bool> {
        self.append(numbers.as_ptr().cast(), size_of_val(numbers))?;
        self.append(std::ptr::from_ref(structure).cast(), size_of::<A>())?;
        Ok(!self.not_done)
    }

    fn append(&mut self, from: *const MaybeUninit<u8>, count: usize) -> Result<()> {
        let no_memory = |_| Error::Memory(format!("failed to allocate {count} bytes for a list of launches"));
        self.bytes.try_reserve(count).map_err(no_memory)?;
        // SAFETY: both callers name `count` bytes of a borrowed value, whatever is between its fields.
        self.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, count) });
        Ok(())
    }

    /// Whether both are the same, byte by byte. What lies between fields may make them differ, never the same.
    pub fn are(&self, other: &Self) -> bool {
        same_bytes(&self.bytes, &other.bytes)
    }
}
