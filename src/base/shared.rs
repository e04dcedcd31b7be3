//! Arrays shared by the threads of a team. Between two barriers, a thread writes only its own rows and reads only rows
//! that no thread writes. The borrow checker cannot verify this rule. Access is therefore unsafe, and each caller
//! justifies its accesses in a SAFETY comment.

use super::heap::FallibleArc;
use super::memory::Memory;
use crate::error::Result;
use std::marker::PhantomData;

/// Element types of shared arrays.
///
/// # Safety
/// Every bit pattern must be a value, all-zero bytes must be zero, and any thread may own a value.
pub unsafe trait Number: Copy + Send + Sync + 'static {}

// SAFETY: every bit pattern is a number, and all-zero bytes are 0.0.
unsafe impl Number for f64 {}
// SAFETY: as above.
unsafe impl Number for f32 {}

/// Array shared by a team, 64-byte aligned and initially zero. A clone refers to the same memory.
#[derive(Clone)]
pub struct Shared<T = f64> {
    memory: FallibleArc<Memory>,
    len: usize,
    element_type: PhantomData<T>,
}

// SAFETY: the values are plain numbers. Callers of the unsafe functions below guarantee that accesses do not race.
unsafe impl<T: Number> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Number> Sync for Shared<T> {}

impl<T: Number> Shared<T> {
    /// Allocates `len` zeros.
    pub fn zeroed(len: usize) -> Result<Self> {
        let memory = Memory::zeroed(len as u128 * size_of::<T>() as u128)?;
        Ok(Self { memory: FallibleArc::new(memory, "the solver's arrays")?, len, element_type: PhantomData })
    }

    /// Returns the same memory as numbers of type `U`, or `None` if `U` has another size.
    pub fn of_type<U: Number>(&self) -> Option<Shared<U>> {
        let has_equal_size = size_of::<T>() == size_of::<U>();
        has_equal_size.then(|| Shared { memory: self.memory.clone(), len: self.len, element_type: PhantomData })
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the size of the allocation in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Sets all values to zero.
    ///
    /// # Safety
    /// No thread may use the values during the call.
    pub unsafe fn clear(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.memory.clear() };
    }

    fn data(&self) -> *mut T {
        self.memory.data().cast()
    }

    /// Returns the address of value `start`, for threads that write disjoint subsets of the `len` values from `start`
    /// on.
    pub fn address(&self, start: usize, len: usize) -> *mut T {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        self.data().wrapping_add(start)
    }

    /// Returns the values start .. start + len.
    ///
    /// # Safety
    /// No thread may write these values while the slice is in use.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &[T] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: the assertion checks the bounds; the caller excludes concurrent writes.
        unsafe { std::slice::from_raw_parts(self.data().add(start), len) }
    }

    /// Returns the values start .. start + len for writing.
    ///
    /// # Safety
    /// No other slice of these values may be in use, on any thread, while the slice is in use.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint parts")]
    pub unsafe fn slice_mut(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        // SAFETY: the assertion checks the bounds; the caller excludes concurrent accesses.
        unsafe { std::slice::from_raw_parts_mut(self.data().add(start), len) }
    }
}
