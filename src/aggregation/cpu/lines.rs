//! Couplings of the rows of a level, in the precision of the cycle. A slice is a group of `LANES` consecutive rows in
//! the order of a sweep. Its couplings are stored in lines. A line contains one coupling of each row, so that loops
//! process all rows of a slice at once.
//!
//! There are two kinds of lines. On a grid, the neighbours of the rows of a slice are often at equal distances. A *line
//! by distance* contains the couplings at one distance, and the loops read consecutive values of the vector. In other
//! cases, a *line with stored columns* also stores the column of each coupling. If a row has no coupling in a line, the
//! line contains a zero for it. The vector value that is multiplied by this zero is finite, unless the sweep has
//! overflowed.

use crate::aggregation::Ordered;
use crate::base::number::Real;
use crate::base::workers::{Workers, cut};
use crate::direct::couplings::{Couplings, WHAT};
use crate::error::{Error, Result, extend, push, reserve};
use std::array::from_fn;
use std::ops::Range;

/// Number of rows of a slice: the number of single-precision values in the widest vector register.
pub const LANES: usize = 16;
/// Lines by distance are used if their number is at most this factor times the number of lines with stored columns that
/// would replace them. In single precision, a line by distance reads 68 consecutive bytes. A line with stored columns
/// reads 132 bytes, and the vector values one by one.
const MAX_LINE_RATIO: usize = 2;
/// Largest number of distances per slice.
const MAX_DISTANCES: usize = 16;
/// When this many rows of a slice have been processed, and again after each further row, the number of distances is
/// compared with `MAX_LINE_RATIO` times the number of lines with stored columns.
const MIN_TESTED_ROWS: usize = 4;
/// Bit in `Lines::from` that marks a line with stored columns. The other bits are the index of its columns in
/// `Lines::col`.
const STORED_COLUMNS: u32 = 1 << 31;

/// The lines of all slices.
#[derive(Default)]
pub struct Lines<V> {
    /// For each slice, the index of its first line to earlier groups and of its first line to later groups. The last
    /// entry is the number of lines.
    starts: Vec<usize>,
    /// For a line by distance, the row whose value is multiplied by the first coupling; the other couplings refer to
    /// the following rows. For a line with stored columns, `STORED_COLUMNS` plus the index in `col`.
    from: Vec<u32>,
    /// Columns of the lines with stored columns.
    col: Vec<[u32; LANES]>,
    a: Vec<[V; LANES]>,
}

/// Slices of all groups.
#[derive(Default)]
pub struct Slices {
    /// First row of each slice. The last entry is the number of rows.
    pub first: Vec<u32>,
    /// For each slice, the rows of the group to which it belongs.
    group: Vec<Range<u32>>,
}

impl Slices {
    pub fn of(order: &Ordered) -> Result<Self> {
        let mut slices = Self::default();
        for group in order.groups.windows(2) {
            for row in (group[0]..group[1]).step_by(LANES) {
                push(&mut slices.first, row as u32, WHAT)?;
                push(&mut slices.group, group[0] as u32..group[1] as u32, WHAT)?;
            }
        }
        push(&mut slices.first, order.row.len() as u32, WHAT)?;
        Ok(slices)
    }
}

/// Rows whose values are multiplied by the couplings of a line.
pub enum LineRows<'a> {
    /// `LANES` consecutive rows, of which the first is given.
    Consecutive(u32),
    /// The listed rows.
    Listed(&'a [u32; LANES]),
}

impl<V: Real + Send> Lines<V> {
    pub fn of(c: &Couplings, order: &Ordered, slices: &Slices, workers: &mut Workers) -> Result<Self> {
        if c.rows() >= STORED_COLUMNS as usize {
            let message = format!("aggregation supports fewer than 2^31 rows, got {}", c.rows());
            return Err(Error::Unsupported(message));
        }
        let (count, bytes) = (slices.group.len(), c.col.len() * size_of::<(u32, V)>());
        let pieces = cut(count, workers.pieces(bytes).min(count).max(1));
        let mut parts = workers.map(pieces, |part| Self::of_slices(c, order, slices, part))?.into_iter();
        let mut all = parts.next().unwrap_or_else(|| Ok(Self::default()))?;
        for part in parts {
            all.append(part?)?;
        }
        Ok(all)
    }

    fn of_slices(c: &Couplings, order: &Ordered, slices: &Slices, part: Range<usize>) -> Result<Self> {
        let (mut lines, n) = (Self::default(), c.rows() as u32);
        let share = c.col.len() * part.len() / slices.group.len().max(1);
        reserve(&mut lines.starts, 2 * part.len() + 1, WHAT)?;
        reserve(&mut lines.from, share / LANES + part.len(), WHAT)?;
        reserve(&mut lines.a, share / LANES + part.len(), WHAT)?;
        lines.starts.push(0);
        let mut sides = [Side::default(), Side::default()];
        for s in part {
            let (first, group) = (slices.first[s], &slices.group[s]);
            let rows = [0..group.start, group.end..n];
            sides.iter_mut().for_each(Side::clear);
            for k in first..slices.first[s + 1] {
                let mut at = [RowProgress::default(); 2];
                for (j, a) in c.row(order.row[k as usize] as usize) {
                    let place = order.place[j];
                    // A coupling between rows of the same group is omitted. It exists only if the pattern is
                    // unsymmetric, and is then a rounding error.
                    if let Some(side) = rows.iter().position(|rows| rows.contains(&place)) {
                        sides[side].add((k - first) as usize, i64::from(place) - i64::from(k), a, &mut at[side])?;
                    }
                }
                sides.iter_mut().zip(at).for_each(|(side, at)| side.end_row(at.couplings));
            }
            for (side, rows) in sides.iter().zip(rows) {
                match !side.needs_stored_columns {
                    true => lines.push_distances(side, first, rows)?,
                    false => lines.push_stored_columns(c, order, (first..slices.first[s + 1], side.most), rows)?,
                }
                push(&mut lines.starts, lines.a.len(), WHAT)?;
            }
        }
        Ok(lines)
    }

    /// Appends a line for each distance of the slice whose first row is `first`. These lines refer to rows in `rows`
    /// only. If a line by distance would also refer to other rows, a line with stored columns replaces it.
    fn push_distances(&mut self, side: &Side<V>, first: u32, rows: Range<u32>) -> Result<()> {
        for (distance, values) in side.distances.iter().zip(&side.values) {
            let from = i64::from(first) + distance;
            if from >= i64::from(rows.start) && from + LANES as i64 <= i64::from(rows.end) {
                push(&mut self.from, from as u32, WHAT)?;
            } else {
                // A row without coupling at this distance may refer to any row of `rows`, because its coupling is zero.
                let to = |l: usize| (from + l as i64).clamp(i64::from(rows.start), i64::from(rows.end) - 1) as u32;
                push(&mut self.from, STORED_COLUMNS | self.col.len() as u32, WHAT)?;
                push(&mut self.col, from_fn(to), WHAT)?;
            }
            push(&mut self.a, *values, WHAT)?;
        }
        Ok(())
    }

    /// Appends lines with stored columns for the rows `slice`, which have up to `most` couplings each to rows in
    /// `rows`.
    fn push_stored_columns(
        &mut self,
        c: &Couplings,
        order: &Ordered,
        (slice, most): (Range<u32>, usize),
        rows: Range<u32>,
    ) -> Result<()> {
        let (line, named) = (self.a.len(), self.col.len());
        for k in 0..most {
            push(&mut self.from, STORED_COLUMNS | (named + k) as u32, WHAT)?;
            push(&mut self.col, [rows.start; LANES], WHAT)?;
            push(&mut self.a, [V::default(); LANES], WHAT)?;
        }
        for (lane, k) in slice.enumerate() {
            let couplings = c.row(order.row[k as usize] as usize).map(|(j, a)| (order.place[j], a));
            for (nth, (place, a)) in couplings.filter(|(place, _)| rows.contains(place)).enumerate() {
                (self.col[named + nth][lane], self.a[line + nth][lane]) = (place, V::narrow(a));
            }
        }
        Ok(())
    }

    /// Appends the lines of `more`, which contains the slices after those of `self`.
    fn append(&mut self, more: Self) -> Result<()> {
        let (lines, named) = (self.a.len(), self.col.len() as u32);
        extend(&mut self.starts, more.starts[1..].iter().map(|end| lines + end), WHAT)?;
        let moved = more.from.iter().map(|&from| if from & STORED_COLUMNS > 0 { from + named } else { from });
        extend(&mut self.from, moved, WHAT)?;
        extend(&mut self.col, more.col.iter().copied(), WHAT)?;
        extend(&mut self.a, more.a.iter().copied(), WHAT)
    }
}

impl<V> Lines<V> {
    /// Returns the lines of a slice to rows of earlier groups.
    #[inline(always)]
    pub fn earlier(&self, slice: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        self.between(2 * slice, 2 * slice + 1)
    }

    /// Returns the lines of a slice to rows of later groups.
    #[inline(always)]
    pub fn later(&self, slice: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        self.between(2 * slice + 1, 2 * slice + 2)
    }

    /// Returns all lines of a slice.
    #[inline(always)]
    pub fn all(&self, slice: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        self.between(2 * slice, 2 * slice + 2)
    }

    #[inline(always)]
    fn between(&self, start: usize, end: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        let range = self.starts[start]..self.starts[end];
        self.from[range.clone()].iter().zip(&self.a[range]).map(|(&from, a)| {
            let at = if from & STORED_COLUMNS == 0 {
                LineRows::Consecutive(from)
            } else {
                LineRows::Listed(&self.col[(from ^ STORED_COLUMNS) as usize])
            };
            (at, a)
        })
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.starts) + size_of_val(&*self.from) + size_of_val(&*self.col) + size_of_val(&*self.a)
    }
}

/// Couplings of a slice while its lines are built, either to rows of earlier groups or to rows of later groups.
#[derive(Default)]
struct Side<V> {
    /// Distances (column minus row) without repetition, at most `MAX_DISTANCES`.
    distances: Vec<i64>,
    /// For each distance, the coupling of each row of the slice at this distance, or zero.
    values: Vec<[V; LANES]>,
    /// Whether there are more than `MAX_DISTANCES` distances, or too many for lines by distance to be faster.
    needs_stored_columns: bool,
    /// Largest number of couplings of a row.
    most: usize,
    /// Number of rows processed so far.
    rows: usize,
}

/// State of a row while its couplings are added to a `Side`: number of couplings so far, and probable index of the next
/// distance.
#[derive(Clone, Copy, Default)]
struct RowProgress {
    couplings: usize,
    likely_distance: usize,
}

impl<V: Real> Side<V> {
    fn clear(&mut self) {
        self.distances.clear();
        self.values.clear();
        (self.needs_stored_columns, self.most, self.rows) = (false, 0, 0);
    }

    /// Ends a row that has `couplings` couplings to this side.
    fn end_row(&mut self, couplings: usize) {
        self.most = self.most.max(couplings);
        self.rows += 1;
        self.needs_stored_columns |= self.rows >= MIN_TESTED_ROWS && self.distances.len() > MAX_LINE_RATIO * self.most;
    }

    /// Adds the next coupling of a row.
    #[inline(always)]
    fn add(&mut self, lane: usize, distance: i64, a: f64, next: &mut RowProgress) -> Result<()> {
        if self.needs_stored_columns {
            next.couplings += 1;
            return Ok(());
        }
        let likely = self.distances.get(next.likely_distance).is_some_and(|d| *d == distance);
        let known =
            if likely { Some(next.likely_distance) } else { self.distances.iter().position(|d| *d == distance) };
        let line = match known {
            Some(line) => line,
            None if self.distances.len() == MAX_DISTANCES => {
                self.needs_stored_columns = true;
                next.couplings += 1;
                return Ok(());
            }
            None => {
                push(&mut self.distances, distance, WHAT)?;
                push(&mut self.values, [V::default(); LANES], WHAT)?;
                self.distances.len() - 1
            }
        };
        self.values[line][lane] = V::narrow(a);
        *next = RowProgress { couplings: next.couplings + 1, likely_distance: line + 1 };
        Ok(())
    }
}
