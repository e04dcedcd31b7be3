//! Vectors with one value per cell, shared by the threads of a team.

use super::loops::NeighbourValues;
use crate::base::shared::Shared;
use crate::error::Result;
use crate::krylov::cpu::means::Vector;
use crate::stencil::cells::Cells;
use std::ops::Range;

/// Values of all cells, in natural order. One plane of guard values precedes the values, and one plane follows them.
/// Guard values are zero, so loops need no test for the boundary of the box.
pub struct Field {
    values: Shared,
    guard_len: usize,
    strides: [usize; 3],
}

impl Field {
    /// Allocates a vector of zeros.
    pub fn new(cells: Cells) -> Result<Self> {
        let guard_len = cells.plane();
        Ok(Self { values: Shared::zeroed(cells.count() + 2 * guard_len)?, guard_len, strides: cells.strides() })
    }

    /// Returns the values of a range of cells.
    ///
    /// # Safety
    /// No thread may write these values while the slice is in use.
    pub unsafe fn slice(&self, cells: &Range<usize>) -> &[f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice(self.guard_len + cells.start, cells.len()) }
    }

    /// Returns the values of a range of cells for writing.
    ///
    /// # Safety
    /// No other slice of these values may be in use while this slice is in use.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint parts")]
    pub unsafe fn slice_mut(&self, cells: &Range<usize>) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice_mut(self.guard_len + cells.start, cells.len()) }
    }

    /// Returns the values of a range of cells and of their six neighbours.
    ///
    /// # Safety
    /// No thread may write these values while the slices are in use.
    pub unsafe fn with_neighbours(&self, cells: &Range<usize>) -> NeighbourValues<'_> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let [w, s, b] = self.lower_neighbours(cells);
            let [e, n, t] = self.upper_neighbours(cells);
            NeighbourValues { own_values: self.slice(cells), neighbours: [w, e, s, n, b, t] }
        }
    }

    /// Returns the values of the west, south and bottom neighbours of a range of cells.
    ///
    /// # Safety
    /// No thread may write these values while the slices are in use.
    pub unsafe fn lower_neighbours(&self, cells: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: guaranteed by the caller.
        self.strides.map(|stride| unsafe { self.values.slice(self.guard_len + cells.start - stride, cells.len()) })
    }

    /// Returns the values of the east, north and top neighbours of a range of cells.
    ///
    /// # Safety
    /// No thread may write these values while the slices are in use.
    pub unsafe fn upper_neighbours(&self, cells: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: guaranteed by the caller.
        self.strides.map(|stride| unsafe { self.values.slice(self.guard_len + cells.start + stride, cells.len()) })
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

    unsafe fn values(&self, position: usize, len: usize) -> &[f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice(&(position..position + len)) }
    }

    unsafe fn values_mut(&self, position: usize, len: usize) -> &mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.slice_mut(&(position..position + len)) }
    }
}
