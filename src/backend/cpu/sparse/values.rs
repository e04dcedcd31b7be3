//! A vector, value by value.

use crate::runtime::shared::Shared;

/// A vector of which members read and write single values: slices of it would overlap.
#[derive(Clone, Copy)]
pub struct Values {
    first: *mut f64,
    count: usize,
}

impl Values {
    pub fn of(vector: &Shared) -> Self {
        let count = vector.len();
        Self { first: vector.address(0, count), count }
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.count
    }

    /// # Safety
    /// There must be so many values, and nobody may write this one meanwhile.
    #[inline(always)]
    pub unsafe fn get(self, i: usize) -> f64 {
        debug_assert!(i < self.count);
        // SAFETY: inside the array, and not written meanwhile, as the caller promised.
        unsafe { *self.first.add(i) }
    }

    /// # Safety
    /// There must be so many values, and nobody else may read or write this one meanwhile.
    #[inline(always)]
    pub unsafe fn set(self, i: usize, value: f64) {
        debug_assert!(i < self.count);
        // SAFETY: inside the array, and not used by others, as the caller promised.
        unsafe { *self.first.add(i) = value };
    }
}
