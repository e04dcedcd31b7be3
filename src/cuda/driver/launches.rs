//! Record of the launches on a stream, to compare two sequences of launches.

use crate::base::memory::are_bytes_equal;
use crate::error::{Error, Result};
use std::mem::MaybeUninit;

/// Sequence of launches. For each launch, the record contains its shape (number of the kernel, numbers of blocks and
/// threads) and the bytes of its argument structure.
#[derive(Default)]
pub struct Launches {
    bytes: Vec<MaybeUninit<u8>>,
    /// Whether launches are only recorded and not executed.
    only_recorded: bool,
}

impl Launches {
    /// Returns an empty record whose launches are not executed.
    pub fn only_recorded() -> Self {
        Self { only_recorded: true, ..Self::default() }
    }

    /// Appends a launch with the launch shape `shape` and the argument `structure`. Returns whether the caller must
    /// execute the launch.
    pub fn record<A: Copy>(&mut self, shape: &[u64], structure: &A) -> Result<bool> {
        self.append(shape.as_ptr().cast(), size_of_val(shape))?;
        self.append(std::ptr::from_ref(structure).cast(), size_of::<A>())?;
        Ok(!self.only_recorded)
    }

    fn append(&mut self, pointer: *const MaybeUninit<u8>, bytes: usize) -> Result<()> {
        let no_memory = |_| Error::Memory(format!("failed to allocate {bytes} bytes for a list of launches"));
        self.bytes.try_reserve(bytes).map_err(no_memory)?;
        // SAFETY: both callers pass the address and size of a borrowed value. `MaybeUninit` permits padding bytes.
        self.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(pointer, bytes) });
        Ok(())
    }

    /// Returns whether both records are bytewise equal. Padding bytes can make equal launches differ, but never make
    /// different launches equal.
    pub fn has_same_launches_as(&self, other: &Self) -> bool {
        are_bytes_equal(&self.bytes, &other.bytes)
    }
}
