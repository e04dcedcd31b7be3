//! Level scheduling of the natural order of rows, for sweeps and triangular solves (Saad 2003, section 11.6).

use super::stages::{ProcessingOrder, UNIT_ROWS};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Result, collected, push, reserve, zeroed};
use crate::sparse::sort_by_level;
use std::ops::Range;

const ALLOCATION_NAME: &str = "levels of rows";

/// Number of runs whose rows are interleaved. A run is a sequence of consecutive rows, each of which is connected to
/// the next one. A row waits about 20 cycles for the result of the previous row of its run. During this time, the
/// thread processes rows of the other runs.
const INTERLEAVED_RUNS: usize = 4;

/// Minimum number of rows per piece ([`order_by_levels`]), unless pieces are single rows. With fewer rows, a barrier
/// takes longer than the work between two barriers. If the levels have too few pieces of this size for the threads,
/// pieces are single rows.
const MIN_PIECE_ROWS: usize = UNIT_ROWS;

/// Returns an order of the rows for `threads` threads. A sweep in this order gives the same result as a sweep in the
/// natural order. A sweep in the reverse of this order gives the same result as a sweep from the last row to the first.
///
/// The rows are divided into pieces of consecutive rows. A unit, which one thread processes, consists of one or more
/// pieces. Two pieces are connected if the graph of A + A^T connects a row of one piece with a row of the other. A
/// piece is on a later level than all earlier pieces to which it is connected, because an earlier piece computes values
/// that the later piece reads, or reads old values of the later piece. Within a piece, a row follows all earlier rows
/// of the piece to which it is connected.
pub fn order_by_levels<I: Index>(a: &Csr<I>, threads: usize) -> Result<ProcessingOrder<I>> {
    let (piece_rows, piece_levels, level_count) = divide_into_pieces(a, threads)?;
    let (sorted_pieces, level_starts) = sort_by_level(&piece_levels, level_count)?;
    let mut order = ProcessingOrder {
        rows: Vec::new(),
        unit_starts: collected([0], ALLOCATION_NAME)?,
        level_starts: collected([0], ALLOCATION_NAME)?,
    };
    reserve(&mut order.rows, a.rows(), ALLOCATION_NAME)?;
    let mut interleaving = Interleaving::new(a)?;
    for range in level_starts.windows(2) {
        for unit in sorted_pieces[range[0]..range[1]].chunks(if piece_rows == 1 { UNIT_ROWS } else { 1 }) {
            for piece in unit {
                let piece_start = piece.to_usize() * piece_rows;
                interleaving.append_piece(a, piece_start..(piece_start + piece_rows).min(a.rows()), &mut order.rows);
            }
            push(&mut order.unit_starts, order.rows.len(), ALLOCATION_NAME)?;
        }
        push(&mut order.level_starts, order.unit_starts.len() - 1, ALLOCATION_NAME)?;
    }
    Ok(order)
}

/// Returns the number of rows per piece, the level of each piece, and the number of levels. The first trial has
/// bandwidth / `threads` rows per piece. On a grid, the bandwidth is the number of nodes of a plane or line. Each
/// further trial has half as many rows per piece, or one row if half would be less than `MIN_PIECE_ROWS`. The trials
/// end when a level has, on average, at least 3/4 `threads` pieces, or when a piece is one row.
fn divide_into_pieces<I: Index>(a: &Csr<I>, threads: usize) -> Result<(usize, Vec<I>, usize)> {
    let rows = a.rows();
    if threads <= 1 || rows == 0 {
        return Ok((rows.max(1), zeroed(rows.min(1), ALLOCATION_NAME)?, rows.min(1)));
    }
    let row_bandwidth = |i: usize| {
        // Columns ascend, so the first or the last column is farthest from the diagonal.
        let columns = &a.col[a.ptr[i]..a.ptr[i + 1]];
        let end_columns = [columns.first(), columns.last()].into_iter().flatten();
        end_columns.map(|j| i.abs_diff(j.to_usize())).max().unwrap_or(0)
    };
    let bandwidth = (0..rows).map(row_bandwidth).max().unwrap_or(0);
    let mut piece_rows = bandwidth.div_ceil(threads).clamp(1, rows.div_ceil(threads));
    loop {
        let (piece_levels, level_count) = compute_levels(a, piece_rows)?;
        // A trial is accepted if the mean number of pieces per level is at least 3/4 of the number of threads.
        if 4 * piece_levels.len() >= 3 * threads * level_count || piece_rows == 1 {
            return Ok((piece_rows, piece_levels, level_count));
        }
        piece_rows = if piece_rows >= 2 * MIN_PIECE_ROWS { piece_rows / 2 } else { 1 };
    }
}

/// Returns the level of each piece of `piece_rows` rows, and the number of levels.
fn compute_levels<I: Index>(a: &Csr<I>, piece_rows: usize) -> Result<(Vec<I>, usize)> {
    let piece_count = a.rows().div_ceil(piece_rows);
    let mut piece_levels = zeroed::<I>(piece_count, ALLOCATION_NAME)?;
    let mut level_count = 0;
    for piece in 0..piece_count {
        let rows = piece * piece_rows..((piece + 1) * piece_rows).min(a.rows());
        let columns = || rows.clone().flat_map(|i| a.row(i)).map(|(j, _)| j);
        // Earlier pieces that read values of this piece have already raised `piece_levels[piece]`.
        let min_level =
            columns().filter(|&j| j < rows.start).map(|j| piece_levels[j / piece_rows].to_usize() + 1).max();
        let piece_level = piece_levels[piece].to_usize().max(min_level.unwrap_or(0));
        piece_levels[piece] = I::of(piece_level);
        level_count = level_count.max(piece_level + 1);
        for j in columns().filter(|&j| j >= rows.end) {
            let later_level = &mut piece_levels[j / piece_rows];
            *later_level = (*later_level).max(I::of(piece_level + 1));
        }
    }
    Ok((piece_levels, level_count))
}

/// State of the construction of the order: the rows that are already in it, and the dependencies of the other rows.
struct Interleaving<I> {
    is_ordered: Vec<bool>,
    /// For each column j, the number of entries a_ij with i < j whose row i is not in the order yet.
    pending_above: Vec<I>,
}

impl<I: Index> Interleaving<I> {
    fn new(a: &Csr<I>) -> Result<Self> {
        let mut pending_above = zeroed::<I>(a.rows(), ALLOCATION_NAME)?;
        a.entries()
            .filter(|&(i, j, _)| j > i)
            .for_each(|(_, j, _)| pending_above[j] = I::of(pending_above[j].to_usize() + 1));
        Ok(Self { is_ordered: zeroed(a.rows(), ALLOCATION_NAME)?, pending_above })
    }

    /// Returns whether the order contains all rows j < i to which row i is connected in the graph of A + A^T.
    fn is_ready(&self, a: &Csr<I>, i: usize) -> bool {
        self.pending_above[i].to_usize() == 0 && a.row(i).take_while(|&(j, _)| j < i).all(|(j, _)| self.is_ordered[j])
    }

    /// Appends the rows of a piece to the order. Up to [`INTERLEAVED_RUNS`] runs of connected rows are open at a time.
    /// In each round, the next row of every open run is appended if this row is ready. Every round appends a row,
    /// because the next row i of the first open run is always ready:
    /// - The rows of the piece before row i are in the order, because they belong to this run or to complete runs.
    /// - The earlier rows of other pieces to which row i is connected are in the order, because these pieces are on
    ///   previous levels.
    fn append_piece(&mut self, a: &Csr<I>, rows: Range<usize>, order: &mut Vec<I>) {
        let is_connected = |i: usize| a.get(i, i - 1).or_else(|| a.get(i - 1, i)).is_some();
        let mut next_row = rows.start;
        let mut open_runs: [Range<usize>; INTERLEAVED_RUNS] = std::array::from_fn(|_| 0..0);
        loop {
            // Replaces complete runs by the next runs. Open runs stay in ascending order.
            let mut open_count = 0;
            for k in 0..INTERLEAVED_RUNS {
                if open_runs[k].start < open_runs[k].end {
                    open_runs.swap(open_count, k);
                    open_count += 1;
                }
            }
            while open_count < INTERLEAVED_RUNS && next_row < rows.end {
                let run_end = (next_row + 1..rows.end).find(|&i| !is_connected(i)).unwrap_or(rows.end);
                open_runs[open_count] = next_row..run_end;
                (next_row, open_count) = (run_end, open_count + 1);
            }
            if open_count == 0 {
                return;
            }
            for run in &mut open_runs[..open_count] {
                // A complete run is skipped, and replaced before the next round.
                let i = run.start;
                if run.start < run.end && self.is_ready(a, i) {
                    run.start += 1;
                    self.is_ordered[i] = true;
                    order.push(I::of(i));
                    for (j, _) in a.row(i).filter(|&(j, _)| j > i) {
                        self.pending_above[j] = I::of(self.pending_above[j].to_usize() - 1);
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
            let order = order_by_levels(&a, threads).unwrap();
            let mut position = vec![usize::MAX; n];
            order.rows.iter().enumerate().for_each(|(k, row)| position[row.to_usize()] = k);
            assert!(position.iter().all(|&k| k < n), "{threads}: each row once");
            let unit = |k: usize| order.unit_starts.partition_point(|&start| start <= k) - 1;
            let level = |k: usize| order.level_starts.partition_point(|&start| start <= unit(k)) - 1;
            for (i, j, _) in a.entries().filter(|&(i, j, _)| i != j) {
                let (earlier_position, later_position) = (position[i.min(j)], position[i.max(j)]);
                assert!(earlier_position < later_position, "{threads}: {i} {j}");
                assert!(
                    unit(earlier_position) == unit(later_position) || level(earlier_position) < level(later_position),
                    "{threads}: {i} {j}"
                );
            }
        }
    }
}
