//! Vectors with one value per cell, shared by the threads of a team.

use super::loops::Around;
use crate::base::shared::Shared;
use crate::error::Result;
use crate::krylov::cpu::means::Vector;
use crate::stencil::cells::Cells;
use std::ops::Range;

/// Values of all cells, in natural order. One plane of guard values precedes the values, and one plane follows them.
/// Guard values are zero, so loops need no test for the boundary of the box.
pub struct Field {
    values: Shared,
    guard: usize,
    steps: [usize; 3],
}

impl Field {
    /// Allocates a vector of zeros.
    pub fn new(cells: Cells) -> Result<Self> {
        let guard = cells.plane();
        Ok(Self { values: Shared::zeroed(cells.count() + 2 * guard)?, guard, steps: cells.strides() })
    }

    /// Returns the values of a range of cells.
    ///
    /// # Safety
    /// No thread may write these values while the slice is in use.
    pub unsafe fn range(&self, range: &Range<usize>) -> &[f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice(self.guard + range.start, range.len()) }
    }

    /// Returns the values of a range of cells for writing.
    ///
    /// # Safety
    /// No other slice of these values may be in use while this slice is in use.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint parts")]
    pub unsafe fn range_mut(&self, range: &Range<usize>) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice_mut(self.guard + range.start, range.len()) }
    }

    /// Returns the values of a range of cells and of their six neighbours.
    ///
    /// # Safety
    /// No thread may write these values while the slices are in use.
    pub unsafe fn around(&self, range: &Range<usize>) -> Around<'_> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let [w, s, b] = self.before(range);
            let [e, n, t] = self.after(range);
            Around { here: self.range(range), near: [w, e, s, n, b, t] }
        }
    }

    /// Returns the values of the neighbours to west, south and bottom.
    ///
    /// # Safety
    /// No thread may write these values while the slices are in use.
    pub unsafe fn before(&self, range: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: guaranteed by the caller.
        self.steps.map(|step| unsafe { self.values.slice(self.guard + range.start - step, range.len()) })
    }

    /// Returns the values of the neighbours to east, north and top.
    ///
    /// # Safety
    /// No thread may write these values while the slices are in use.
    pub unsafe fn after(&self, range: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: guaranteed by the caller.
        self.steps.map(|step| unsafe { self.values.slice(self.guard + range.start + step, range.len()) })
    }

    /// Sets all values to zero, including the guard values.
    ///
    /// # Safety
    /// No other thread may use the values during the call.
    pub unsafe fn clear(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.clear() };
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

impl Vector<usize> for Field {
    type Value = f64;

    unsafe fn values(&self, place: usize, len: usize) -> &[f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.range(&(place..place + len)) }
    }

    unsafe fn values_mut(&self, place: usize, len: usize) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.range_mut(&(place..place + len)) }
    }
}
