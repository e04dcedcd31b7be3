//! Pieces: the rows of cells that one sum is noted for, and what the members of a team share.

use crate::grid::cells::Cells;
use crate::runtime::team::Me;
use std::ops::Range;

/// Cells of a piece, but for what completes a row: a sum over it costs no more than its values.
const PIECE: usize = 1024;

/// A box of cells in pieces of whole rows. They depend on the box alone, and so do the bits of sums over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// The box.
    pub cells: Cells,
    rows: usize,
}

impl Pieces {
    /// Cuts a box.
    pub fn new(cells: Cells) -> Self {
        Self { cells, rows: PIECE.div_ceil(cells.nx) }
    }

    /// Pieces.
    pub fn count(&self) -> usize {
        self.cells.rows().div_ceil(self.rows)
    }

    /// Rows of a piece.
    pub fn rows(&self, piece: usize) -> Range<usize> {
        self.rows * piece..(self.rows * (piece + 1)).min(self.cells.rows())
    }

    /// Cells of a piece.
    pub fn range(&self, piece: usize) -> Range<usize> {
        let Range { start, end } = self.rows(piece);
        start * self.cells.nx..end * self.cells.nx
    }

    /// Pieces of a member.
    pub fn share(&self, me: Me) -> Range<usize> {
        me.share(self.count())
    }
}
