//! Level scheduling of the natural order of rows, for sweeps and triangular solves (Saad 2003, section 11.6).

use super::stages::{Order, UNIT_ROWS};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Result, collected, push, reserve, zeroed};
use crate::sparse::by_level;
use std::ops::Range;

const WHAT: &str = "levels of rows";

/// Number of runs that are interleaved. A run is a sequence of consecutive rows, each connected to the next. A row
/// waits about 20 cycles for the result of the previous row of its run. During this time, rows of the other runs are
/// processed.
const OPEN_RUNS: usize = 4;

/// Minimum number of rows per piece. With fewer rows, a barrier takes longer than the rows between two barriers. If
/// pieces of this size do not give enough parallel work, single rows are used as pieces.
const MIN_PIECE_ROWS: usize = UNIT_ROWS;

/// Returns an order of the rows. Processing the rows in this order gives the same result as the natural order.
/// Processing them in reverse gives the same result as the natural order from the last row to the first.
///
/// The rows are divided into pieces of consecutive rows, and a unit consists of one or more pieces. A level usually has
/// at least about as many units as there are threads. Two pieces are connected if the graph of A + A^T connects rows of
/// one piece with rows of the other. A piece is on a later level than all earlier pieces to which it is connected. The
/// reason is that an earlier piece computes values that this piece reads, or reads old values of this piece. Within a
/// piece, a row follows all earlier rows of the piece to which it is connected.
pub fn by_levels<I: Index>(a: &Csr<I>, threads: usize) -> Result<Order<I>> {
    let (length, level, levels) = divide_into_pieces(a, threads)?;
    let (sorted, starts) = by_level(&level, levels)?;
    let mut order = Order { rows: Vec::new(), units: collected([0], WHAT)?, levels: collected([0], WHAT)? };
    reserve(&mut order.rows, a.rows(), WHAT)?;
    let mut interleaving = Interleaving::new(a)?;
    for range in starts.windows(2) {
        for unit in sorted[range[0]..range[1]].chunks(if length == 1 { UNIT_ROWS } else { 1 }) {
            for piece in unit {
                let start = piece.at() * length;
                interleaving.append_piece(a, start..(start + length).min(a.rows()), &mut order.rows);
            }
            push(&mut order.units, order.rows.len(), WHAT)?;
        }
        push(&mut order.levels, order.units.len() - 1, WHAT)?;
    }
    Ok(order)
}

/// Returns the number of rows per piece, the level of each piece, and the number of levels. Starts with pieces of about
/// the bandwidth divided by the number of threads. Halves them until a level has, on average, at least three quarters
/// as many pieces as there are threads. Pieces of fewer than 2 `MIN_PIECE_ROWS` rows are not halved, but replaced by
/// single rows. On a grid, the bandwidth is the number of nodes of a plane or line.
fn divide_into_pieces<I: Index>(a: &Csr<I>, threads: usize) -> Result<(usize, Vec<I>, usize)> {
    let rows = a.rows();
    if threads <= 1 || rows == 0 {
        return Ok((rows.max(1), zeroed(rows.min(1), WHAT)?, rows.min(1)));
    }
    let reach = |i: usize| {
        // Columns ascend, so the first or the last column is farthest from the diagonal.
        let columns = &a.col[a.ptr[i]..a.ptr[i + 1]];
        let ends = [columns.first(), columns.last()].into_iter().flatten();
        ends.map(|j| i.abs_diff(j.at())).max().unwrap_or(0)
    };
    let bandwidth = (0..rows).map(reach).max().unwrap_or(0);
    let mut length = bandwidth.div_ceil(threads).clamp(1, rows.div_ceil(threads));
    loop {
        let (level, levels) = levels_of(a, length)?;
        // A division is accepted if a level has work for at least three quarters of the threads, on average.
        if 4 * level.len() >= 3 * threads * levels || length == 1 {
            return Ok((length, level, levels));
        }
        length = if length >= 2 * MIN_PIECE_ROWS { length / 2 } else { 1 };
    }
}

/// Returns the level of each piece of this length, and the number of levels.
fn levels_of<I: Index>(a: &Csr<I>, length: usize) -> Result<(Vec<I>, usize)> {
    let count = a.rows().div_ceil(length);
    let mut level = zeroed::<I>(count, WHAT)?;
    let mut levels = 0;
    for piece in 0..count {
        let rows = piece * length..((piece + 1) * length).min(a.rows());
        let others = || rows.clone().flat_map(|i| a.row(i)).map(|(j, _)| j);
        // Earlier pieces that read values of this piece have already raised its level.
        let before = others().filter(|&j| j < rows.start).map(|j| level[j / length].at() + 1).max();
        let own = level[piece].at().max(before.unwrap_or(0));
        level[piece] = I::of(own);
        levels = levels.max(own + 1);
        for j in others().filter(|&j| j >= rows.end) {
            let other = &mut level[j / length];
            *other = (*other).max(I::of(own + 1));
        }
    }
    Ok((level, levels))
}

/// Rows that are already in the order, and the dependencies of the other rows.
struct Interleaving<I> {
    ordered: Vec<bool>,
    /// Number of entries above the diagonal in each column, counting only rows that are not in the order yet.
    above: Vec<I>,
}

impl<I: Index> Interleaving<I> {
    fn new(a: &Csr<I>) -> Result<Self> {
        let mut above = zeroed::<I>(a.rows(), WHAT)?;
        a.entries().filter(|&(i, j, _)| j > i).for_each(|(_, j, _)| above[j] = I::of(above[j].at() + 1));
        Ok(Self { ordered: zeroed(a.rows(), WHAT)?, above })
    }

    /// Returns whether all rows before row i to which it is connected in the graph of A + A^T are in the order.
    fn is_ready(&self, a: &Csr<I>, i: usize) -> bool {
        self.above[i].at() == 0 && a.row(i).take_while(|&(j, _)| j < i).all(|(j, _)| self.ordered[j])
    }

    /// Appends the rows of a piece to the order. Up to [`OPEN_RUNS`] runs of connected rows are open at a time. In each
    /// round, every open run appends its next row if this row is ready. The next row of the first open run is always
    /// ready. All earlier rows of the piece are in the order, because they belong to runs that are complete. Earlier
    /// rows of other pieces that are connected to it are in the order, because these pieces are on previous levels.
    fn append_piece(&mut self, a: &Csr<I>, rows: Range<usize>, order: &mut Vec<I>) {
        let joined = |i: usize| a.get(i, i - 1).or_else(|| a.get(i - 1, i)).is_some();
        let mut next = rows.start;
        let mut open: [Range<usize>; OPEN_RUNS] = std::array::from_fn(|_| 0..0);
        loop {
            // Completed runs are replaced by the next runs, in ascending order.
            let mut count = 0;
            for k in 0..OPEN_RUNS {
                if open[k].start < open[k].end {
                    open.swap(count, k);
                    count += 1;
                }
            }
            while count < OPEN_RUNS && next < rows.end {
                let end = (next + 1..rows.end).find(|&i| !joined(i)).unwrap_or(rows.end);
                open[count] = next..end;
                (next, count) = (end, count + 1);
            }
            if count == 0 {
                return;
            }
            for run in &mut open[..count] {
                // A run that was completed in this round is skipped. It is replaced before the next round.
                let i = run.start;
                if run.start < run.end && self.is_ready(a, i) {
                    run.start += 1;
                    self.ordered[i] = true;
                    order.push(I::of(i));
                    for (j, _) in a.row(i).filter(|&(j, _)| j > i) {
                        self.above[j] = I::of(self.above[j].at() - 1);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matrix has an unsymmetric pattern: entries at the distances 1 and 40 below the diagonal and 7 above it, and
    /// isolated rows. For any number of threads, each row must come after all earlier rows to which it is connected,
    /// and units of a level must be independent.
    #[test]
    fn connected_rows_keep_their_natural_order() {
        let n: usize = 600;
        let mut ptr = vec![0];
        let mut col: Vec<u32> = Vec::new();
        for i in 0..n {
            let mut row = vec![i];
            row.extend([i.wrapping_sub(1), i.wrapping_sub(40), i + 7].into_iter().filter(|&j| j < n && i % 11 != 3));
            row.sort_unstable();
            col.extend(row.iter().map(|&j| j as u32));
            ptr.push(col.len());
        }
        let a = Csr { cols: n, ptr, val: vec![1.0; col.len()], col };
        for threads in [1, 2, 3, 7, 600] {
            let order = by_levels(&a, threads).unwrap();
            let mut position = vec![usize::MAX; n];
            order.rows.iter().enumerate().for_each(|(k, row)| position[row.at()] = k);
            assert!(position.iter().all(|&k| k < n), "{threads}: each row once");
            let unit = |k: usize| order.units.partition_point(|&start| start <= k) - 1;
            let level = |k: usize| order.levels.partition_point(|&start| start <= unit(k)) - 1;
            for (i, j, _) in a.entries().filter(|&(i, j, _)| i != j) {
                let (first, second) = (position[i.min(j)], position[i.max(j)]);
                assert!(first < second, "{threads}: {i} {j}");
                assert!(unit(first) == unit(second) || level(first) < level(second), "{threads}: {i} {j}");
            }
        }
    }
}
