//! Access to a 7-point matrix by cell, in any floating-point type.

use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;

/// Matrix of a grid.
#[derive(Clone, Copy)]
pub struct Points<'a, T> {
    /// Extents.
    pub cells: Cells,
    /// Diagonal.
    pub center: &'a [T],
    /// Entries between a cell and the next cell in each direction; zero at the boundary of the box.
    pub forward: [&'a [T]; 3],
}

impl<'a> Points<'a, f64> {
    /// Returns the caller's matrix.
    pub fn finest(a: &SevenPoints<'a>) -> Self {
        Self { cells: a.cells, center: a.center, forward: a.forward }
    }
}

impl<T: Real> Points<'_, T> {
    /// Returns the couplings of a cell to the previous and the next cell in x, y and z, and the indices of these cells.
    pub fn couplings(&self, cell: usize) -> impl Iterator<Item = (T, usize)> + '_ {
        let (place, size, steps) = (self.cells.place(cell), self.cells.size(), self.cells.steps());
        (0..3).flat_map(move |d| {
            let before = (place[d] > 0).then(|| (self.forward[d][cell - steps[d]], cell - steps[d]));
            let after = (place[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + steps[d]));
            before.into_iter().chain(after)
        })
    }

    /// Returns r - (A - D) x in a cell.
    pub fn without_center(&self, cell: usize, r: &[T], x: &[T]) -> T {
        self.couplings(cell).fold(r[cell], |value, (coupling, other)| value - coupling * x[other])
    }

    /// Returns whether a row has couplings. The smoother solves a row without couplings, so coarse grids omit it.
    pub fn is_coupled(&self, cell: usize) -> bool {
        self.couplings(cell).any(|(coupling, _)| coupling.wide() != 0.0)
    }
}
