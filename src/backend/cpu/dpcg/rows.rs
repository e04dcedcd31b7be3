//! Rows of vectors that a team shares, wherever they lie.

use super::field::Field;
use crate::runtime::shared::{Number, Shared};
use std::ops::Range;

/// A vector of values of cells, in natural order.
pub trait Rows<T> {
    /// Values of a range of cells.
    ///
    /// # Safety
    /// Nobody may write them while the slice is used.
    unsafe fn row(&self, cells: &Range<usize>) -> &[T];

    /// The same, to write.
    ///
    /// # Safety
    /// Nobody else may read or write them while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint rows")]
    unsafe fn row_mut(&self, cells: &Range<usize>) -> &mut [T];
}

impl Rows<f64> for Field {
    unsafe fn row(&self, cells: &Range<usize>) -> &[f64] {
        // SAFETY: as the caller promised.
        unsafe { self.range(cells) }
    }

    unsafe fn row_mut(&self, cells: &Range<usize>) -> &mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.range_mut(cells) }
    }
}

impl<T: Number> Rows<T> for Shared<T> {
    unsafe fn row(&self, cells: &Range<usize>) -> &[T] {
        // SAFETY: as the caller promised.
        unsafe { self.slice(cells.start, cells.len()) }
    }

    unsafe fn row_mut(&self, cells: &Range<usize>) -> &mut [T] {
        // SAFETY: as the caller promised.
        unsafe { self.slice_mut(cells.start, cells.len()) }
    }
}
