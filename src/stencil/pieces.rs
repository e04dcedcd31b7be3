//! Division of the cells into pieces: each piece has one partial result of a reduction, and one owner thread.

use crate::base::team::Me;
use crate::stencil::cells::Cells;
use std::ops::Range;

/// Minimum number of cells of a piece, rounded up to whole rows. Large enough that the partial results cost little
/// compared with reading the cells.
const PIECE: usize = 1024;

/// Division of a box of cells into pieces of whole rows. It depends on the box only, so sums over pieces are bitwise
/// identical for any number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The box.
    pub cells: Cells,
    rows: usize,
}

impl Pieces {
    /// Divides a box into pieces.
    pub fn new(cells: Cells) -> Self {
        Self { cells, rows: PIECE.div_ceil(cells.nx) }
    }

    /// Returns the number of pieces.
    pub fn count(&self) -> usize {
        self.cells.rows().div_ceil(self.rows)
    }

    /// Returns the rows of a piece.
    pub fn rows(&self, piece: usize) -> Range<usize> {
        self.rows * piece..(self.rows * (piece + 1)).min(self.cells.rows())
    }

    /// Returns the cells of a piece.
    pub fn range(&self, piece: usize) -> Range<usize> {
        let Range { start, end } = self.rows(piece);
        start * self.cells.nx..end * self.cells.nx
    }

    /// Returns the pieces of a thread.
    pub fn share(&self, me: Me) -> Range<usize> {
        me.share(self.count())
    }
}
