//! A matrix of 7 points row by row, in what numbers it may be stored.

use crate::backend::aggregation::Couplings;
use crate::error::Result;
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;

/// The matrix of a grid, as loops read it.
#[derive(Clone, Copy)]
pub struct Points<'a, T> {
    /// Extents.
    pub cells: Cells,
    /// Diagonal.
    pub center: &'a [T],
    /// Entries between a cell and the next one in each direction; zero where that is outside.
    pub forward: [&'a [T]; 3],
}

impl<'a> Points<'a, f64> {
    /// The caller's.
    pub fn finest(a: &SevenPoints<'a>) -> Self {
        Self { cells: a.cells, center: a.center, forward: a.forward }
    }
}

impl<T: Real> Points<'_, T> {
    /// Couplings of a cell: in x, y and z, to the cell before and the cell after, and where those are.
    pub fn couplings(&self, cell: usize) -> impl DoubleEndedIterator<Item = (T, usize)> + '_ {
        let (place, size, steps) = (self.cells.place(cell), self.cells.size(), self.cells.steps());
        (0..3).flat_map(move |d| {
            let before = (place[d] > 0).then(|| (self.forward[d][cell - steps[d]], cell - steps[d]));
            let after = (place[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + steps[d]));
            before.into_iter().chain(after)
        })
    }

    /// The matrix row by row, with the sums of its rows. A row whose sum and couplings do not make a positive diagonal
    /// has the sum that leaves the center.
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

    /// r - (A - D) x in a cell.
    pub fn without_center(&self, cell: usize, r: &[T], x: &[T]) -> T {
        self.couplings(cell).fold(r[cell], |value, (coupling, other)| value - coupling * x[other])
    }
}
