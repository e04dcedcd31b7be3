//! Levels of the natural order of rows, for sweeps and triangular systems.

use super::stages::{Order, UNIT, by_level};
use crate::error::{Result, collected, push, reserve, zeroed};
use crate::sparse::{Csr, Index};
use std::ops::Range;

const WHAT: &str = "levels of rows";

/// Runs of rows that take turns: a row of a run waits for the one before, some 20 cycles, in which rows of the others
/// are done.
const OPEN: usize = 4;

/// Rows of a piece at least: below, a barrier takes longer than the rows between two. Where such pieces wait for one
/// another, single rows are pieces.
const LEAST: usize = UNIT;

/// The natural order for a team. Pieces of consecutive rows are units, of which a level has one or more for each
/// member: each comes after every piece before it that it reads, and after every one that reads its old values, so in
/// the graph of A + A'. Inside a piece rows take turns in the same sense. Backwards, the order is right from the last
/// row to the first.
pub fn by_levels<I: Index>(a: &Csr<I>, members: usize) -> Result<Order<I>> {
    let (length, level, levels) = pieces(a, members)?;
    let (sorted, starts) = by_level(&level, levels)?;
    let mut order = Order { rows: Vec::new(), units: collected([0], WHAT)?, levels: collected([0], WHAT)? };
    reserve(&mut order.rows, a.rows(), WHAT)?;
    let mut turns = Turns::new(a)?;
    for range in starts.windows(2) {
        for unit in sorted[range[0]..range[1]].chunks(if length == 1 { UNIT } else { 1 }) {
            for piece in unit {
                let start = piece.at() * length;
                turns.take(a, start..(start + length).min(a.rows()), &mut order.rows);
            }
            push(&mut order.units, order.rows.len(), WHAT)?;
        }
        push(&mut order.levels, order.units.len() - 1, WHAT)?;
    }
    Ok(order)
}

/// Rows of a piece, the level of each piece, and how many levels there are. The longest pieces are tried first of
/// which a level has about as many as members: the bandwidth of a matrix on a grid is a plane, or a line.
fn pieces<I: Index>(a: &Csr<I>, members: usize) -> Result<(usize, Vec<I>, usize)> {
    let rows = a.rows();
    if members <= 1 || rows == 0 {
        return Ok((rows.max(1), zeroed(rows.min(1), WHAT)?, rows.min(1)));
    }
    let reach = |i: usize| {
        // Columns ascend.
        let columns = &a.col[a.ptr[i]..a.ptr[i + 1]];
        let ends = [columns.first(), columns.last()].into_iter().flatten();
        ends.map(|j| i.abs_diff(j.at())).max().unwrap_or(0)
    };
    let bandwidth = (0..rows).map(reach).max().unwrap_or(0);
    let mut length = bandwidth.div_ceil(members).clamp(1, rows.div_ceil(members));
    loop {
        let (level, levels) = levels_of(a, length)?;
        // Three quarters of a team at work are enough.
        if 4 * level.len() >= 3 * members * levels || length == 1 {
            return Ok((length, level, levels));
        }
        length = if length >= 2 * LEAST { length / 2 } else { 1 };
    }
}

/// Levels of pieces of this length.
fn levels_of<I: Index>(a: &Csr<I>, length: usize) -> Result<(Vec<I>, usize)> {
    let count = a.rows().div_ceil(length);
    let mut level = zeroed::<I>(count, WHAT)?;
    let mut levels = 0;
    for piece in 0..count {
        let rows = piece * length..((piece + 1) * length).min(a.rows());
        let others = || rows.clone().flat_map(|i| a.row(i)).map(|(j, _)| j);
        // What the pieces before that read this one ask for is there already.
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

/// Rows that are taken, and what the others wait for.
struct Turns<I> {
    taken: Vec<bool>,
    /// Entries above the diagonal in this column, of rows that are not taken.
    above: Vec<I>,
}

impl<I: Index> Turns<I> {
    fn new(a: &Csr<I>) -> Result<Self> {
        let mut above = zeroed::<I>(a.rows(), WHAT)?;
        a.entries().filter(|&(i, j, _)| j > i).for_each(|(_, j, _)| above[j] = I::of(above[j].at() + 1));
        Ok(Self { taken: zeroed(a.rows(), WHAT)?, above })
    }

    /// Whether every row before that an entry of A or A' joins with row i is taken.
    fn is_ready(&self, a: &Csr<I>, i: usize) -> bool {
        self.above[i].at() == 0 && a.row(i).take_while(|&(j, _)| j < i).all(|(j, _)| self.taken[j])
    }

    /// Takes the rows of a piece: those of a few runs of joined rows by turns, as soon as they are ready. The first run
    /// that is open always is: all rows before are taken.
    fn take(&mut self, a: &Csr<I>, rows: Range<usize>, order: &mut Vec<I>) {
        let joined = |i: usize| a.get(i, i - 1).or_else(|| a.get(i - 1, i)).is_some();
        let mut next = rows.start;
        let mut open: [Range<usize>; OPEN] = std::array::from_fn(|_| 0..0);
        loop {
            // Those that are through make room for the next ones, in order.
            let mut count = 0;
            for k in 0..OPEN {
                if open[k].start < open[k].end {
                    open.swap(count, k);
                    count += 1;
                }
            }
            while count < OPEN && next < rows.end {
                let end = (next + 1..rows.end).find(|&i| !joined(i)).unwrap_or(rows.end);
                open[count] = next..end;
                (next, count) = (end, count + 1);
            }
            if count == 0 {
                return;
            }
            for run in &mut open[..count] {
                // Until one is through, nothing changes.
                let i = run.start;
                if run.start < run.end && self.is_ready(a, i) {
                    run.start += 1;
                    self.taken[i] = true;
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

    /// A tridiagonal part, an arrow and rows that stand alone, not symmetric: every row comes after those before it
    /// that it is joined with, whatever the number of members, and units of a level are not joined.
    #[test]
    fn rows_come_after_those_they_are_joined_with() {
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
        for members in [1, 2, 3, 7, 600] {
            let order = by_levels(&a, members).unwrap();
            let mut place = vec![usize::MAX; n];
            order.rows.iter().enumerate().for_each(|(k, row)| place[row.at()] = k);
            assert!(place.iter().all(|&k| k < n), "{members}: each row once");
            let unit = |k: usize| order.units.partition_point(|&start| start <= k) - 1;
            let level = |k: usize| order.levels.partition_point(|&start| start <= unit(k)) - 1;
            for (i, j, _) in a.entries().filter(|&(i, j, _)| i != j) {
                let (first, second) = (place[i.min(j)], place[i.max(j)]);
                assert!(first < second, "{members}: {i} {j}");
                assert!(unit(first) == unit(second) || level(first) < level(second), "{members}: {i} {j}");
            }
        }
    }
}
