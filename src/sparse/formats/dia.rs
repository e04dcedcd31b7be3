//! Diagonals (dia; Saad 2003, section 3.4): val[d][i] = a(i, i + offset[d]), with ascending offsets. The values at
//! positions outside the matrix are zero. Then y_i = sum_d val[d][i] x[i + offset[d]].

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::isa::for_each_isa;
use crate::base::workers::{Workers, divide_each_lane, divide_lanes, divide_range};
use crate::error::{Result, collected, extend, insert, push, zeroed};
use crate::sparse::stored::{
    FormatSize, FormatView, OutputArrays, POINTER_BYTES, RowProducts, Stored, ThreadDivision, TransposedRowProducts,
    hull_of_ranges,
};
use std::collections::HashMap;
use std::ops::Range;

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in format dia";
/// Rows per block of a product. The block of y stays in the L1 or L2 cache while all diagonals are added.
const BLOCK_ROWS: usize = 4096;

pub struct Dia {
    rows: usize,
    cols: usize,
    offset: Vec<i64>,
    val: Vec<f64>,
}

/// Returns the offsets of all diagonals with an entry, in ascending order; `None` if there are more than `max_count`
/// offsets.
pub fn offsets<I: Index>(a: &Csr<I>, max_count: usize, workers: &mut Workers) -> Result<Option<Vec<i64>>> {
    let pieces = divide_lanes(&a.ptr, workers.piece_count(size_of_val(&*a.col)));
    let mut offsets = Vec::new();
    for piece_offsets in workers.map(pieces, |rows| offsets_of_rows(a, rows, max_count))? {
        let Some(piece_offsets) = piece_offsets? else { return Ok(None) };
        extend(&mut offsets, piece_offsets, ALLOCATION_NAME)?;
        offsets.sort_unstable();
        offsets.dedup();
    }
    Ok((offsets.len() <= max_count).then_some(offsets))
}

/// Returns the offsets of the entries of some rows; `None` if there are more than `max_count` offsets.
fn offsets_of_rows<I: Index>(a: &Csr<I>, rows: Range<usize>, max_count: usize) -> Result<Option<Vec<i64>>> {
    let mut found_offsets = HashMap::new();
    // In many matrices, consecutive rows have the same offsets. These offsets need to be inserted only once.
    let mut previous_offsets: Vec<i64> = Vec::new();
    for i in rows {
        let offset = |(j, _): (usize, f64)| j as i64 - i as i64;
        if previous_offsets.len() == a.row_len(i) && a.row(i).map(offset).eq(previous_offsets.iter().copied()) {
            continue;
        }
        previous_offsets.clear();
        for offset in a.row(i).map(offset) {
            push(&mut previous_offsets, offset, ALLOCATION_NAME)?;
            insert(&mut found_offsets, offset, (), ALLOCATION_NAME)?;
        }
        if found_offsets.len() > max_count {
            return Ok(None);
        }
    }
    Ok(Some(collected(found_offsets.into_keys(), ALLOCATION_NAME)?))
}

pub fn size<I>(a: &Csr<I>, diagonals: usize) -> FormatSize {
    FormatSize::new([(diagonals, POINTER_BYTES)], diagonals as u128 * (a.ptr.len() - 1) as u128)
}

impl Dia {
    pub fn of<I: Index>(a: &Csr<I>, offset: Vec<i64>, workers: &mut Workers) -> Result<Self> {
        let rows = a.rows();
        let mut val = zeroed(offset.len() * rows, ALLOCATION_NAME)?;
        let row_ranges = divide_range(rows, workers.lane_part_count(rows, size_of_val(&*val)));
        workers.for_each_piece(divide_each_lane(&mut val, rows, row_ranges)?, |(own_rows, mut diagonals)| {
            for i in own_rows.clone() {
                let mut offset_diagonals = offset.iter().zip(&mut diagonals);
                for (j, value) in a.row(i) {
                    // The offsets j - i and the offsets of the diagonals ascend, so each search begins after the
                    // diagonal of the previous entry. The search succeeds, because each entry belongs to a diagonal.
                    if let Some((_, diagonal)) =
                        offset_diagonals.find(|(diagonal_offset, _)| **diagonal_offset == j as i64 - i as i64)
                    {
                        diagonal[i - own_rows.start] = value;
                    }
                }
            }
        })?;
        Ok(Self { rows, cols: a.cols, offset, val })
    }

    /// Returns the subrange of `rows` in which diagonal d is inside the matrix, and the values of the diagonal in this
    /// subrange.
    fn rows_inside(&self, d: usize, rows: Range<usize>) -> (Range<usize>, &[f64]) {
        let offset = self.offset[d];
        let first_row = usize::try_from(-offset).unwrap_or(0).clamp(rows.start, rows.end);
        let end_row = usize::try_from(self.cols as i64 - offset).unwrap_or(0).min(rows.end).max(first_row);
        (first_row..end_row, &self.val[d * self.rows..][first_row..end_row])
    }

    /// Returns the columns of diagonal d in `rows`, where the diagonal must be inside the matrix.
    fn columns_of_diagonal(&self, d: usize, rows: &Range<usize>) -> Range<usize> {
        let column = |i: usize| (i as i64 + self.offset[d]) as usize;
        if rows.is_empty() { 0..0 } else { column(rows.start)..column(rows.end) }
    }
}

/// Maximum number of diagonals per pass over y. Within a pass, the sum of a row stays in a register.
const DIAGONALS_AT_ONCE: usize = 8;

/// Values of a diagonal in a range of rows, and the values of x at the columns of the diagonal in these rows.
type DiagonalTerm<'a> = (&'a [f64], &'a [f64]);

for_each_isa! {
    /// Computes y_i += sum_d a_d(i) x_d(i), where `terms` contains (a_d, x_d) for at most `DIAGONALS_AT_ONCE` diagonals
    /// d. The products are added in the order of `terms`.
    fn add_diagonals(y: &mut [f64], terms: &[DiagonalTerm]) {
        match *terms {
            [a] => add_terms(y, [a]),
            [a, b] => add_terms(y, [a, b]),
            [a, b, c] => add_terms(y, [a, b, c]),
            [a, b, c, d] => add_terms(y, [a, b, c, d]),
            [a, b, c, d, e] => add_terms(y, [a, b, c, d, e]),
            [a, b, c, d, e, f] => add_terms(y, [a, b, c, d, e, f]),
            [a, b, c, d, e, f, g] => add_terms(y, [a, b, c, d, e, f, g]),
            [a, b, c, d, e, f, g, h] => add_terms(y, [a, b, c, d, e, f, g, h]),
            _ => {}
        }
    }
}

#[inline(always)]
fn add_terms<const N: usize>(y: &mut [f64], terms: [DiagonalTerm; N]) {
    let terms = terms.map(|(a, x)| (&a[..y.len()], &x[..y.len()]));
    for (i, y) in y.iter_mut().enumerate() {
        *y = terms.iter().fold(*y, |sum, (a, x)| sum + a[i] * x[i]);
    }
}

impl Dia {
    /// Adds the products of x with the diagonals `first_diagonal`, `first_diagonal` + 1, ... to y. Stops after
    /// `DIAGONALS_AT_ONCE` diagonals, or before a diagonal whose rows inside the matrix differ from those of diagonal
    /// `first_diagonal`. Returns the number of diagonals that were added.
    fn add_next_diagonals(&self, first_diagonal: usize, rows: &Range<usize>, x: &[f64], y: &mut [f64]) -> usize {
        let (rows_inside, _) = self.rows_inside(first_diagonal, rows.clone());
        let mut terms: [DiagonalTerm; DIAGONALS_AT_ONCE] = [(&[], &[]); DIAGONALS_AT_ONCE];
        let mut term_count = 0;
        for d in first_diagonal..self.offset.len().min(first_diagonal + DIAGONALS_AT_ONCE) {
            let (other_rows, val) = self.rows_inside(d, rows.clone());
            if other_rows != rows_inside {
                break;
            }
            terms[term_count] = (val, &x[self.columns_of_diagonal(d, &rows_inside)]);
            term_count += 1;
        }
        add_diagonals(&mut y[rows_inside.start - rows.start..rows_inside.end - rows.start], &terms[..term_count]);
        term_count
    }
}

impl RowProducts for Dia {
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        for (block_start, y) in rows.step_by(BLOCK_ROWS).zip(y.chunks_mut(BLOCK_ROWS)) {
            let rows = block_start..block_start + y.len();
            y.fill(0.0);
            let mut d = 0;
            while d < self.offset.len() {
                d += self.add_next_diagonals(d, &rows, x, y);
            }
        }
    }
}

impl TransposedRowProducts for Dia {
    fn columns_of_rows(&self, rows: Range<usize>) -> Range<usize> {
        hull_of_ranges(
            (0..self.offset.len()).map(|d| self.columns_of_diagonal(d, &self.rows_inside(d, rows.clone()).0)),
        )
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first_column: usize, y: &mut [f64]) {
        for block_start in rows.clone().step_by(BLOCK_ROWS) {
            for d in 0..self.offset.len() {
                let (rows_inside, val) = self.rows_inside(d, block_start..rows.end.min(block_start + BLOCK_ROWS));
                let columns = self.columns_of_diagonal(d, &rows_inside);
                // An empty range of columns may start before `first_column`.
                let y = y[columns.start.saturating_sub(first_column)..][..columns.len()].iter_mut();
                let x = &x[rows_inside.start - rows.start..rows_inside.end - rows.start];
                y.zip(val).zip(x).for_each(|((y, a), x)| *y += a * x);
            }
        }
    }
}

impl Stored for Dia {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        if transposed { ThreadDivision::Contributions(self) } else { ThreadDivision::Rows(self) }
    }

    fn view(&self) -> Option<FormatView<'_>> {
        Some(FormatView::Dia { diagonal_len: self.rows, offset: &self.offset, val: &self.val })
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill_signed(self.offset.iter().copied());
        output.values.copy_from_slice(&self.val);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row i has entries in the columns i and i + i / 4, so there are `rows` / 4 diagonals.
    #[test]
    fn offsets_do_not_depend_on_the_number_of_threads() {
        let rows = 40;
        let (mut ptr, mut col) = (vec![0], Vec::new());
        for i in 0..rows {
            col.push(i as u32);
            if i >= 4 {
                col.push((i + i / 4) as u32);
            }
            ptr.push(col.len());
        }
        let a = Csr { cols: 2 * rows, ptr, val: vec![1.0; col.len()], col };
        for threads in [1, 2, 7] {
            let offsets_up_to = |max_count| offsets(&a, max_count, &mut Workers::always_parallel(threads)).unwrap();
            assert_eq!(offsets_up_to(10), Some((0..10).collect()));
            assert_eq!(offsets_up_to(9), None);
        }
    }
}
