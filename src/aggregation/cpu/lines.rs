//! Couplings of the rows of a level, in the precision of the cycle. A slice is a group of `LANES` consecutive rows in
//! the order of a sweep. Its couplings are stored in lines. A line contains one coupling of each row, so that loops
//! process all rows of a slice at once.
//!
//! There are two kinds of lines. On a grid, the neighbours of the rows of a slice are often at equal distances. A *line
//! by distance* contains the couplings at one distance, and the loops read consecutive values of the vector. In other
//! cases, a *line with stored columns* also stores the column of each coupling. If a row has no coupling in a line, the
//! line contains a zero for it. The vector value that is multiplied by this zero is finite, unless the sweep has
//! overflowed.

use crate::aggregation::OrderedRows;
use crate::base::number::Real;
use crate::base::workers::{Workers, divide_range};
use crate::direct::couplings::{ALLOCATION_NAME, Couplings};
use crate::error::{Error, Result, extend, push, reserve};
use std::array::from_fn;
use std::ops::Range;

/// Number of rows of a slice: the number of single-precision values in the widest vector register.
pub const LANES: usize = 16;
/// Lines by distance are used if their number is at most this factor times the number of lines with stored columns that
/// would replace them. In single precision, a line by distance reads 68 consecutive bytes. A line with stored columns
/// reads 132 bytes, and the vector values one by one.
const MAX_LINE_RATIO: usize = 2;
/// Largest number of distances per slice, counted separately for earlier groups and for later groups.
const MAX_DISTANCES: usize = 16;
/// Number of rows of a slice after which the number of distances is first compared with the number of lines with stored
/// columns (`MAX_LINE_RATIO`). The comparison is repeated after each further row.
const MIN_TESTED_ROWS: usize = 4;
/// Bit in `Lines::sources` that marks a line with stored columns. The other bits are the index of its columns in
/// `Lines::columns`.
const STORED_COLUMNS: u32 = 1 << 31;

/// The lines of all slices.
#[derive(Default)]
pub struct Lines<V> {
    /// Two entries per slice: the index of its first line with couplings to earlier groups, and the index of its first
    /// line with couplings to later groups. The last entry is the number of lines.
    line_starts: Vec<usize>,
    /// For a line by distance, the row whose value is multiplied by the first coupling; the other couplings refer to
    /// the following rows. For a line with stored columns, `STORED_COLUMNS` plus the index in `columns`.
    sources: Vec<u32>,
    /// Columns of the lines with stored columns.
    columns: Vec<[u32; LANES]>,
    a: Vec<[V; LANES]>,
}

/// Slices of all groups.
#[derive(Default)]
pub struct Slices {
    /// First row of each slice. The last entry is the number of rows.
    pub first_row: Vec<u32>,
    /// For each slice, the rows of the group to which it belongs.
    group_rows: Vec<Range<u32>>,
}

impl Slices {
    pub fn of(order: &OrderedRows) -> Result<Self> {
        let mut slices = Self::default();
        for group in order.group_starts.windows(2) {
            for row in (group[0]..group[1]).step_by(LANES) {
                push(&mut slices.first_row, row as u32, ALLOCATION_NAME)?;
                push(&mut slices.group_rows, group[0] as u32..group[1] as u32, ALLOCATION_NAME)?;
            }
        }
        push(&mut slices.first_row, order.row.len() as u32, ALLOCATION_NAME)?;
        Ok(slices)
    }
}

/// Rows whose values are multiplied by the couplings of a line.
pub enum LineRows<'a> {
    /// `LANES` consecutive rows, of which the first is given.
    Consecutive(u32),
    /// `LANES` rows that need not be consecutive.
    Listed(&'a [u32; LANES]),
}

impl<V: Real + Send> Lines<V> {
    pub fn of(c: &Couplings, order: &OrderedRows, slices: &Slices, workers: &mut Workers) -> Result<Self> {
        if c.rows() >= STORED_COLUMNS as usize {
            let message = format!("aggregation supports fewer than 2^31 rows, got {}", c.rows());
            return Err(Error::Unsupported(message));
        }
        let (slice_count, coupling_bytes) = (slices.group_rows.len(), c.col.len() * size_of::<(u32, V)>());
        let slice_ranges = divide_range(slice_count, workers.piece_count(coupling_bytes).min(slice_count).max(1));
        let mut part_lines =
            workers.map(slice_ranges, |slice_range| Self::of_slices(c, order, slices, slice_range))?.into_iter();
        let mut lines = part_lines.next().unwrap_or_else(|| Ok(Self::default()))?;
        for next_lines in part_lines {
            lines.append(next_lines?)?;
        }
        Ok(lines)
    }

    fn of_slices(c: &Couplings, order: &OrderedRows, slices: &Slices, slice_range: Range<usize>) -> Result<Self> {
        let (mut lines, n) = (Self::default(), c.rows() as u32);
        let estimated_couplings = c.col.len() * slice_range.len() / slices.group_rows.len().max(1);
        reserve(&mut lines.line_starts, 2 * slice_range.len() + 1, ALLOCATION_NAME)?;
        reserve(&mut lines.sources, estimated_couplings / LANES + slice_range.len(), ALLOCATION_NAME)?;
        reserve(&mut lines.a, estimated_couplings / LANES + slice_range.len(), ALLOCATION_NAME)?;
        lines.line_starts.push(0);
        let mut sides = [SideCouplings::default(), SideCouplings::default()];
        for s in slice_range {
            let (first_row, group) = (slices.first_row[s], &slices.group_rows[s]);
            let side_rows = [0..group.start, group.end..n];
            sides.iter_mut().for_each(SideCouplings::clear);
            for k in first_row..slices.first_row[s + 1] {
                let mut progress = [RowProgress::default(); 2];
                for (j, a) in c.row(order.row[k as usize] as usize) {
                    let position = order.position[j];
                    // A coupling between rows of the same group is omitted. It exists only if the pattern is
                    // unsymmetric, and is then a rounding error.
                    if let Some(side) = side_rows.iter().position(|side_rows| side_rows.contains(&position)) {
                        sides[side].add_coupling(
                            (k - first_row) as usize,
                            i64::from(position) - i64::from(k),
                            a,
                            &mut progress[side],
                        )?;
                    }
                }
                sides.iter_mut().zip(progress).for_each(|(side, progress)| side.end_row(progress.couplings));
            }
            for (side, side_rows) in sides.iter().zip(side_rows) {
                match !side.needs_stored_columns {
                    true => lines.push_distances(side, first_row, side_rows)?,
                    false => lines.push_stored_columns(
                        c,
                        order,
                        (first_row..slices.first_row[s + 1], side.max_couplings),
                        side_rows,
                    )?,
                }
                push(&mut lines.line_starts, lines.a.len(), ALLOCATION_NAME)?;
            }
        }
        Ok(lines)
    }

    /// Appends a line for each distance of the slice whose first row is `first_row`. These lines refer to rows in
    /// `rows` only. If a line by distance would also refer to other rows, a line with stored columns replaces it.
    fn push_distances(&mut self, side: &SideCouplings<V>, first_row: u32, rows: Range<u32>) -> Result<()> {
        for (distance, values) in side.distances.iter().zip(&side.values) {
            let first_source = i64::from(first_row) + distance;
            if first_source >= i64::from(rows.start) && first_source + LANES as i64 <= i64::from(rows.end) {
                push(&mut self.sources, first_source as u32, ALLOCATION_NAME)?;
            } else {
                // A row without coupling at this distance may refer to any row of `rows`, because its coupling is zero.
                let nearest_row =
                    |l: usize| (first_source + l as i64).clamp(i64::from(rows.start), i64::from(rows.end) - 1) as u32;
                push(&mut self.sources, STORED_COLUMNS | self.columns.len() as u32, ALLOCATION_NAME)?;
                push(&mut self.columns, from_fn(nearest_row), ALLOCATION_NAME)?;
            }
            push(&mut self.a, *values, ALLOCATION_NAME)?;
        }
        Ok(())
    }

    /// Appends lines with stored columns for the rows `slice`, which have up to `max_couplings` couplings each to rows
    /// in `rows`.
    fn push_stored_columns(
        &mut self,
        c: &Couplings,
        order: &OrderedRows,
        (slice, max_couplings): (Range<u32>, usize),
        rows: Range<u32>,
    ) -> Result<()> {
        let (first_line, first_columns) = (self.a.len(), self.columns.len());
        for k in 0..max_couplings {
            push(&mut self.sources, STORED_COLUMNS | (first_columns + k) as u32, ALLOCATION_NAME)?;
            push(&mut self.columns, [rows.start; LANES], ALLOCATION_NAME)?;
            push(&mut self.a, [V::default(); LANES], ALLOCATION_NAME)?;
        }
        for (lane, k) in slice.enumerate() {
            let couplings = c.row(order.row[k as usize] as usize).map(|(j, a)| (order.position[j], a));
            for (nth, (position, a)) in couplings.filter(|(position, _)| rows.contains(position)).enumerate() {
                (self.columns[first_columns + nth][lane], self.a[first_line + nth][lane]) = (position, V::from_f64(a));
            }
        }
        Ok(())
    }

    /// Appends the lines of `next_lines`, which contains the slices after those of `self`.
    fn append(&mut self, next_lines: Self) -> Result<()> {
        let (lines, first_columns) = (self.a.len(), self.columns.len() as u32);
        extend(&mut self.line_starts, next_lines.line_starts[1..].iter().map(|end| lines + end), ALLOCATION_NAME)?;
        let shifted_sources = next_lines
            .sources
            .iter()
            .map(|&source| if source & STORED_COLUMNS > 0 { source + first_columns } else { source });
        extend(&mut self.sources, shifted_sources, ALLOCATION_NAME)?;
        extend(&mut self.columns, next_lines.columns.iter().copied(), ALLOCATION_NAME)?;
        extend(&mut self.a, next_lines.a.iter().copied(), ALLOCATION_NAME)
    }
}

impl<V> Lines<V> {
    /// Returns the lines with the couplings of a slice to rows of earlier groups.
    #[inline(always)]
    pub fn earlier_lines(&self, slice: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        self.lines_between(2 * slice, 2 * slice + 1)
    }

    /// Returns the lines with the couplings of a slice to rows of later groups.
    #[inline(always)]
    pub fn later_lines(&self, slice: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        self.lines_between(2 * slice + 1, 2 * slice + 2)
    }

    /// Returns all lines of a slice.
    #[inline(always)]
    pub fn all_lines(&self, slice: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        self.lines_between(2 * slice, 2 * slice + 2)
    }

    #[inline(always)]
    fn lines_between(&self, start: usize, end: usize) -> impl Iterator<Item = (LineRows<'_>, &[V; LANES])> {
        let range = self.line_starts[start]..self.line_starts[end];
        self.sources[range.clone()].iter().zip(&self.a[range]).map(|(&source, a)| {
            let line_rows = if source & STORED_COLUMNS == 0 {
                LineRows::Consecutive(source)
            } else {
                LineRows::Listed(&self.columns[(source ^ STORED_COLUMNS) as usize])
            };
            (line_rows, a)
        })
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.line_starts)
            + size_of_val(&*self.sources)
            + size_of_val(&*self.columns)
            + size_of_val(&*self.a)
    }
}

/// Couplings of a slice while its lines are built, either to rows of earlier groups or to rows of later groups.
#[derive(Default)]
struct SideCouplings<V> {
    /// Distances (column minus row) without repetition; there are at most `MAX_DISTANCES` of them.
    distances: Vec<i64>,
    /// For each distance, the coupling of each row of the slice at this distance, or zero.
    values: Vec<[V; LANES]>,
    /// Whether there are more than `MAX_DISTANCES` distances, or too many for lines by distance to be faster.
    needs_stored_columns: bool,
    /// Largest number of these couplings in a row.
    max_couplings: usize,
    /// Number of rows processed so far.
    row_count: usize,
}

/// State of a row while its couplings are added to a `SideCouplings`: the number of couplings so far, and the probable
/// index in `SideCouplings::distances` for the next coupling.
#[derive(Clone, Copy, Default)]
struct RowProgress {
    couplings: usize,
    likely_distance: usize,
}

impl<V: Real> SideCouplings<V> {
    fn clear(&mut self) {
        self.distances.clear();
        self.values.clear();
        (self.needs_stored_columns, self.max_couplings, self.row_count) = (false, 0, 0);
    }

    /// Ends a row of the slice. `couplings` is the number of couplings that were added for this row.
    fn end_row(&mut self, couplings: usize) {
        self.max_couplings = self.max_couplings.max(couplings);
        self.row_count += 1;
        self.needs_stored_columns |=
            self.row_count >= MIN_TESTED_ROWS && self.distances.len() > MAX_LINE_RATIO * self.max_couplings;
    }

    /// Adds the next coupling of a row.
    #[inline(always)]
    fn add_coupling(&mut self, lane: usize, distance: i64, a: f64, progress: &mut RowProgress) -> Result<()> {
        if self.needs_stored_columns {
            progress.couplings += 1;
            return Ok(());
        }
        let is_likely = self.distances.get(progress.likely_distance).is_some_and(|d| *d == distance);
        let known_line =
            if is_likely { Some(progress.likely_distance) } else { self.distances.iter().position(|d| *d == distance) };
        let line = match known_line {
            Some(line) => line,
            None if self.distances.len() == MAX_DISTANCES => {
                self.needs_stored_columns = true;
                progress.couplings += 1;
                return Ok(());
            }
            None => {
                push(&mut self.distances, distance, ALLOCATION_NAME)?;
                push(&mut self.values, [V::default(); LANES], ALLOCATION_NAME)?;
                self.distances.len() - 1
            }
        };
        self.values[line][lane] = V::from_f64(a);
        *progress = RowProgress { couplings: progress.couplings + 1, likely_distance: line + 1 };
        Ok(())
    }
}
