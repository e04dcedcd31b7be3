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

    /// # Safety
    /// Nobody may write this value meanwhile.
    pub unsafe fn get(self, i: usize) -> f64 {
        assert!(i < self.count);
        // SAFETY: inside the array, as just checked; not written meanwhile, as the caller promised.
        unsafe { *self.first.add(i) }
    }

    /// # Safety
    /// Nobody else may read or write this value meanwhile.
    pub unsafe fn set(self, i: usize, value: f64) {
        assert!(i < self.count);
        // SAFETY: inside the array, as just checked; not used by others, as the caller promised.
        unsafe { *self.first.add(i) = value };
    }
}
