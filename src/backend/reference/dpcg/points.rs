//! Access to a 7-point matrix by cell, in any floating-point type.

use crate::backend::aggregation::Couplings;
use crate::error::Result;
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
    pub fn couplings(&self, cell: usize) -> impl DoubleEndedIterator<Item = (T, usize)> + '_ {
        let (place, size, steps) = (self.cells.place(cell), self.cells.size(), self.cells.steps());
        (0..3).flat_map(move |d| {
            let before = (place[d] > 0).then(|| (self.forward[d][cell - steps[d]], cell - steps[d]));
            let after = (place[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + steps[d]));
            before.into_iter().chain(after)
        })
    }

    /// Returns the matrix by rows, with the row sums `excess`. If a row sum and the couplings do not add up to a
    /// positive diagonal, the row sum is computed from the center instead.
    pub fn in_row_sum_form(&self, excess: &[f64]) -> Result<Couplings> {
        let mut matrix = Couplings::with_room(self.cells.count(), 6 * self.cells.count())?;
        for (cell, &excess) in excess.iter().enumerate() {
            let couplings = || self.couplings(cell).map(|(value, other)| (-value.wide(), other));
            let sum: f64 = couplings().map(|(a, _)| a).sum();
            let below = couplings().rev().filter(|&(_, other)| other < cell);
            let all = below.chain(couplings().filter(|&(_, other)| other > cell));
            all.filter(|(a, _)| *a != 0.0).for_each(|(a, other)| matrix.push(other, a));
            matrix.end_exact_row(if excess + sum > 0.0 { excess } else { self.center[cell].wide() - sum });
        }
        Ok(matrix)
    }

    /// Returns r - (A - D) x in a cell.
    pub fn without_center(&self, cell: usize, r: &[T], x: &[T]) -> T {
        self.couplings(cell).fold(r[cell], |value, (coupling, other)| value - coupling * x[other])
    }
}
