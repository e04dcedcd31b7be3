//! Access to single values of a shared vector.

use crate::base::shared::Shared;

/// A vector in which threads read and write single values. Slices are not possible, because the slices of several
/// threads would overlap.
#[derive(Clone, Copy)]
pub struct SharedValues {
    first_value: *mut f64,
    count: usize,
}

impl SharedValues {
    pub fn of(vector: &Shared) -> Self {
        let count = vector.len();
        Self { first_value: vector.address(0, count), count }
    }

    /// Returns the number of values.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns value `i`.
    ///
    /// # Safety
    /// `i` must be less than the number of values, and no thread may write value i during the call.
    #[inline(always)]
    pub unsafe fn get(self, i: usize) -> f64 {
        debug_assert!(i < self.count);
        // SAFETY: the caller guarantees that value i exists and that no thread writes it during the call.
        unsafe { *self.first_value.add(i) }
    }

    /// Sets value `i`.
    ///
    /// # Safety
    /// `i` must be less than the number of values, and no other thread may access value i during the call.
    #[inline(always)]
    pub unsafe fn set(self, i: usize, value: f64) {
        debug_assert!(i < self.count);
        // SAFETY: the caller guarantees that value i exists and that no other thread accesses it during the call.
        unsafe { *self.first_value.add(i) = value };
    }
}
