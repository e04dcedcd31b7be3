//! Arrays that the members of a team share. Members write rows of their own and read rows that nobody writes
//! between two barriers; the borrow checker cannot see this, so access is unsafe and every step says why it
//! is right.

use super::heap::Counted;
use super::memory::Memory;
use crate::error::Result;
use std::marker::PhantomData;

/// Plain numbers that arrays hold.
///
/// # Safety
/// Zero bytes must be a value (zero), and any thread may own one.
pub unsafe trait Number: Copy + Send + Sync + 'static {}

// SAFETY: zero bytes are 0.0.
unsafe impl Number for f64 {}
// SAFETY: as above.
unsafe impl Number for f32 {}

/// Values shared by a team, on cache line boundaries, zero at first. A clone is the same values under another name.
#[derive(Clone)]
pub struct Shared<T = f64> {
    memory: Counted<Memory>,
    len: usize,
    holds: PhantomData<T>,
}

// SAFETY: the values are plain numbers; who may touch which of them when is the contract of the unsafe
// functions below.
unsafe impl<T: Number> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for Shared<T> {}

impl<T: Number> Shared<T> {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> Result<Self> {
        let memory = Memory::zeroed(len as u128 * size_of::<T>() as u128)?;
        Ok(Self { memory: Counted::new(memory, "the solver's arrays")?, len, holds: PhantomData })
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// All zero again.
    ///
    /// # Safety
    /// Nobody may use the values meanwhile.
    pub unsafe fn clear(&self) {
        // SAFETY: as the caller promised.
        unsafe { self.memory.clear() };
    }

    fn data(&self) -> *mut T {
        self.memory.data().cast()
    }

    /// The address of value `start`, with `len` values from there on: for members that write parts of them.
    pub fn address(&self, start: usize, len: usize) -> *mut T {
        assert!(start + len <= self.len);
        self.data().wrapping_add(start)
    }

    /// Values start .. start + len.
    ///
    /// # Safety
    /// Nobody may write these values while the slice is used.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &[T] {
        assert!(start + len <= self.len);
        // SAFETY: inside the array, as just checked; not written meanwhile, as the caller promised.
        unsafe { std::slice::from_raw_parts(self.data().add(start), len) }
    }

    /// Values start .. start + len, to write.
    ///
    /// # Safety
    /// Nobody else may read or write these values while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint parts")]
    pub unsafe fn slice_mut(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start + len <= self.len);
        // SAFETY: inside the array, as just checked; not used by others, as the caller promised.
        unsafe { std::slice::from_raw_parts_mut(self.data().add(start), len) }
    }
}
