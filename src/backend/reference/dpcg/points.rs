//! A matrix of 7 points row by row, in what numbers it may be stored.

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
    pub fn couplings(&self, cell: usize) -> impl Iterator<Item = (T, usize)> + '_ {
        let (place, size, steps) = (self.cells.place(cell), self.cells.size(), self.cells.steps());
        (0..3).flat_map(move |d| {
            let before = (place[d] > 0).then(|| (self.forward[d][cell - steps[d]], cell - steps[d]));
            let after = (place[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + steps[d]));
            before.into_iter().chain(after)
        })
    }

    /// r - (A - D) x in a cell.
    pub fn without_center(&self, cell: usize, r: &[T], x: &[T]) -> T {
        self.couplings(cell).fold(r[cell], |value, (coupling, other)| value - coupling * x[other])
    }

    /// Whether a row has couplings. One that has none is solved by the smoother: coarse grids are not to see it.
    pub fn is_coupled(&self, cell: usize) -> bool {
        self.couplings(cell).any(|(coupling, _)| coupling.wide() != 0.0)
    }
}
