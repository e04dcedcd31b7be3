//! Division of the cells of a box into pieces. A reduction has one partial result per piece, and each piece is owned by
//! one thread.

use crate::base::team::TeamThread;
use crate::stencil::cells::Cells;
use std::ops::Range;

/// Minimum number of cells of a piece, except the last one. The partial results then cost little compared with reading
/// the cells.
const MIN_PIECE_CELLS: usize = 1024;

/// Division of a box of cells into pieces of whole rows. It depends on the box only, so sums over pieces are bitwise
/// identical for any number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The divided box.
    pub cells: Cells,
    rows_per_piece: usize,
}

impl Pieces {
    /// Divides a box into pieces.
    pub fn new(cells: Cells) -> Self {
        Self { cells, rows_per_piece: MIN_PIECE_CELLS.div_ceil(cells.nx) }
    }

    /// Returns the number of pieces.
    pub fn count(&self) -> usize {
        self.cells.rows().div_ceil(self.rows_per_piece)
    }

    /// Returns the rows of a piece.
    pub fn rows(&self, piece: usize) -> Range<usize> {
        self.rows_per_piece * piece..(self.rows_per_piece * (piece + 1)).min(self.cells.rows())
    }

    /// Returns the cells of a piece.
    pub fn range(&self, piece: usize) -> Range<usize> {
        let Range { start, end } = self.rows(piece);
        start * self.cells.nx..end * self.cells.nx
    }

    /// Returns the pieces that this thread owns.
    pub fn share(&self, thread: TeamThread) -> Range<usize> {
        thread.share(self.count())
    }
}
