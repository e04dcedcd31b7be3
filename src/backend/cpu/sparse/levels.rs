//! Levels of the natural order of rows, for sweeps and triangular systems.

use super::stages::Order;
use crate::error::{Result, push, zeroed};
use crate::sparse::{Csr, Index};

/// For errors of memory.
const WHAT: &str = "levels of rows";

/// Rows of a piece at most. Consecutive rows that wait for one another share lines of x; the longer a piece, the fewer
/// pieces a level has.
const PIECE: usize = 16;

/// Where pieces begin, and the end: consecutive rows, each joined with the one before. A line of a grid begins a piece.
fn pieces<I: Index>(a: &Csr<I>) -> Result<Vec<usize>> {
    let joined = |i: usize| a.get(i, i - 1).or_else(|| a.get(i - 1, i)).is_some();
    let mut starts = Vec::new();
    let mut last = 0;
    for i in 0..a.rows() {
        if i == 0 || i - last == PIECE || !joined(i) {
            push(&mut starts, i, WHAT)?;
            last = i;
        }
    }
    push(&mut starts, a.rows(), WHAT)?;
    Ok(starts)
}

/// Levels of the natural order: a piece comes after every one before it that it reads, and after every one that reads
/// its old values, so in the graph of A + A'. Backwards, the same levels are right from the last to the first.
pub fn by_levels<I: Index>(a: &Csr<I>) -> Result<Order<I>> {
    let pieces = pieces(a)?;
    let mut piece_of = zeroed::<I>(a.rows(), WHAT)?;
    for (piece, rows) in pieces.windows(2).enumerate() {
        piece_of[rows[0]..rows[1]].fill(I::of(piece));
    }
    let mut level = zeroed::<I>(pieces.len() - 1, WHAT)?;
    let mut levels = 0;
    for (piece, rows) in pieces.windows(2).enumerate() {
        let others = || (rows[0]..rows[1]).flat_map(|i| a.row(i)).map(|(j, _)| piece_of[j].at());
        // What the pieces before that read this one ask for is there already.
        let before = others().filter(|&other| other < piece).map(|other| level[other].at() + 1).max();
        let own = level[piece].at().max(before.unwrap_or(0));
        level[piece] = I::of(own);
        levels = levels.max(own + 1);
        for other in others().filter(|&other| other > piece) {
            level[other] = level[other].max(I::of(own + 1));
        }
    }
    Order::new(&pieces, &level, levels)
}
