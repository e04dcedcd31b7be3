//! Vectors of values of cells, shared by the members of a team.

use super::loops::Around;
use crate::error::Result;
use crate::grid::cells::Cells;
use crate::runtime::shared::Shared;
use std::ops::Range;

/// Values of all cells, with as many zeros before and after them as a plane has cells.
pub struct Field {
    values: Shared,
    guard: usize,
    steps: [usize; 3],
}

impl Field {
    /// All zero.
    pub fn new(cells: Cells) -> Result<Self> {
        let guard = cells.plane();
        Ok(Self { values: Shared::zeroed(cells.count() + 2 * guard)?, guard, steps: cells.steps() })
    }

    /// Values of a range of cells.
    ///
    /// # Safety
    /// Nobody may write them while the slice is used.
    pub unsafe fn range(&self, range: &Range<usize>) -> &[f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(self.guard + range.start, range.len()) }
    }

    /// The same, to write.
    ///
    /// # Safety
    /// Nobody else may read or write them while the slice is used.
    #[expect(clippy::mut_from_ref, reason = "shared by threads that write disjoint parts")]
    pub unsafe fn range_mut(&self, range: &Range<usize>) -> &mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(self.guard + range.start, range.len()) }
    }

    /// Values of a range of cells and of their neighbours.
    ///
    /// # Safety
    /// Nobody may write them while the slices are used.
    pub unsafe fn around(&self, range: &Range<usize>) -> Around<'_> {
        // SAFETY: as the caller promised.
        unsafe {
            let [w, s, b] = self.before(range);
            let [e, n, t] = self.after(range);
            Around { here: self.range(range), near: [w, e, s, n, b, t] }
        }
    }

    /// Of the neighbours to west, south and bottom.
    ///
    /// # Safety
    /// As for `around`.
    pub unsafe fn before(&self, range: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: as the caller promised.
        self.steps.map(|step| unsafe { self.values.slice(self.guard + range.start - step, range.len()) })
    }

    /// Of the neighbours to east, north and top.
    ///
    /// # Safety
    /// As for `around`.
    pub unsafe fn after(&self, range: &Range<usize>) -> [&[f64]; 3] {
        // SAFETY: as the caller promised.
        self.steps.map(|step| unsafe { self.values.slice(self.guard + range.start + step, range.len()) })
    }

    /// All zero again.
    ///
    /// # Safety
    /// Nobody may use the values meanwhile.
    pub unsafe fn clear(&self) {
        // SAFETY: as the caller promised.
        unsafe { self.values.clear() };
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}
