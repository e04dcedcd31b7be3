//! Row access for shared vectors, with or without guard values.

use super::field::Field;
use crate::base::shared::{Number, Shared};
use std::ops::Range;

/// A vector with one value per cell, in natural order.
pub trait CellVector<T> {
    /// Returns the values of a range of cells.
    ///
    /// # Safety
    /// No thread may write these values while the slice is in use.
    unsafe fn row(&self, cells: &Range<usize>) -> &[T];

    /// Returns the values of a range of cells for writing.
    ///
    /// # Safety
    /// No other slice of these values may be in use while this slice is in use.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint rows")]
    unsafe fn row_mut(&self, cells: &Range<usize>) -> &mut [T];
}

impl CellVector<f64> for Field {
    unsafe fn row(&self, cells: &Range<usize>) -> &[f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice(cells) }
    }

    unsafe fn row_mut(&self, cells: &Range<usize>) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice_mut(cells) }
    }
}

impl<T: Number> CellVector<T> for Shared<T> {
    unsafe fn row(&self, cells: &Range<usize>) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice(cells.start, cells.len()) }
    }

    unsafe fn row_mut(&self, cells: &Range<usize>) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice_mut(cells.start, cells.len()) }
    }
}
