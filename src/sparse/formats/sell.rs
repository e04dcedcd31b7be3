//! Sliced ELLPACK, SELL-C-sigma (Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36 (2014) C401-C423).
//! Rows are sorted by length, longest first, in windows of sigma rows. Each slice has C rows, padded to the length of
//! its longest row and stored by columns. In column s of a slice, element l contributes val[s][l] x[col[s][l]] to the
//! product of row l of the slice. Padding of row i has the value 0 and the column min(i, cols - 1).
//!
//! For products, very long rows are stored separately in csr. Otherwise, one long row would require padding in all
//! other rows of its slice.

use super::order::sort_rows_by_length;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::{SliceSplitter, Workers, divide_lanes};
use crate::error::{Result, collected, push, reserve, zeroed};
use crate::options::MAX_SLICE_ROWS;
use crate::sparse::stored::{
    CsrSlices, FormatSize, FormatView, OutputArrays, POINTER_BYTES, RowProducts, Stored, ThreadDivision,
    TransposedRowProducts, hull_of_ranges, index_range,
};
use std::ops::Range;

/// Default number of rows per slice, equal to the number of doubles in a vector register of the widest instruction set.
pub const DEFAULT_SLICE_ROWS: usize = 8;
/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in format sell";

/// Parameters of the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SellShape {
    /// Rows per slice (C).
    pub slice_rows: usize,
    /// Rows per sorting window (sigma); 1 means no sorting.
    pub sigma: usize,
    /// Whether long rows are stored separately.
    pub separates_long_rows: bool,
}

impl SellShape {
    /// Returns the number of entries above which a row is stored separately: 8 times the mean row length, but at least
    /// 64.
    fn max_row_len<I: Index>(&self, a: &Csr<I>) -> usize {
        if self.separates_long_rows { (8 * a.val.len() / a.rows().max(1)).max(64) } else { usize::MAX }
    }

    /// Returns the rows in the order in which they are stored.
    fn row_order<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<Vec<usize>> {
        let max_row_len = self.max_row_len(a);
        sort_rows_by_length(a.rows(), self.sigma, |i| length_in_slice(a, i, max_row_len), ALLOCATION_NAME, workers)
    }
}

/// Returns the number of entries of row i in its slice, which is 0 if the row is stored separately.
fn length_in_slice<I: Index>(a: &Csr<I>, i: usize, max_row_len: usize) -> usize {
    Some(a.row_len(i)).filter(|&n| n <= max_row_len).unwrap_or(0)
}

pub struct Sell<I> {
    slice_rows: usize,
    /// The start of each range of rows must be a multiple of this number. It is the least common multiple of C and
    /// sigma, so a range consists of whole slices and whole sorting windows.
    row_alignment: usize,
    /// Index of the row at each position of the sorted order; `None` if rows are not sorted.
    perm: Option<Vec<I>>,
    /// Index in `col` and `val` of the first value of each slice. The last element is the number of values.
    offset: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
    rows: usize,
    /// Rows that are stored separately: their indices, and their entries in csr.
    separate_rows: (Vec<I>, Csr<I>),
}

/// Computes the size of a matrix in this format, including the rows that are stored separately.
pub fn size<I: Index>(a: &Csr<I>, shape: SellShape, workers: &mut Workers) -> Result<FormatSize> {
    let max_row_len = shape.max_row_len(a);
    let mut values = 0;
    for slice in shape.row_order(a, workers)?.chunks(shape.slice_rows) {
        let slice_width = slice.iter().map(|&i| length_in_slice(a, i, max_row_len)).max().unwrap_or(0);
        values += (slice_width * shape.slice_rows) as u128;
    }
    let (slices, index_bytes) = (a.rows().div_ceil(shape.slice_rows), size_of::<I>());
    let perm = (slices * shape.slice_rows, if shape.sigma > 1 { index_bytes } else { 0 });
    let mut size = FormatSize::new([perm, (slices + 1, POINTER_BYTES), (0, index_bytes)], values);
    size.indices[2].0 = values;
    let (mut long_row_count, mut long_entry_count) = (0, 0);
    for i in (0..a.rows()).filter(|&i| a.row_len(i) > max_row_len) {
        (long_row_count, long_entry_count) = (long_row_count + 1, long_entry_count + a.row_len(i));
    }
    size.separate_size = (
        long_entry_count as u128,
        (long_row_count * (index_bytes + POINTER_BYTES) + long_entry_count * (index_bytes + 8)) as u128,
    );
    Ok(size)
}

impl<I: Index> Sell<I> {
    pub fn of(a: &Csr<I>, shape: SellShape, size: &FormatSize, workers: &mut Workers) -> Result<Self> {
        let (max_row_len, slice_rows) = (shape.max_row_len(a), shape.slice_rows);
        let order = shape.row_order(a, workers)?;
        let mut offset = Vec::new();
        reserve(&mut offset, order.len().div_ceil(slice_rows) + 1, ALLOCATION_NAME)?;
        offset.push(0);
        let mut slice_end = 0;
        for rows in order.chunks(slice_rows) {
            slice_end += slice_rows * rows.iter().map(|&i| length_in_slice(a, i, max_row_len)).max().unwrap_or(0);
            offset.push(slice_end);
        }
        let (mut col, mut val) =
            (zeroed(size.values as usize, ALLOCATION_NAME)?, zeroed(size.values as usize, ALLOCATION_NAME)?);
        let (mut col_parts, mut val_parts) = (SliceSplitter(&mut col), SliceSplitter(&mut val));
        let slice_pieces = divide_lanes(&offset, workers.piece_count(size.bytes() as usize)).map(|slices| {
            let values = offset[slices.end] - offset[slices.start];
            (slices, col_parts.take_front(values), val_parts.take_front(values))
        });
        workers.for_each_piece(slice_pieces, |(slices, col, val)| {
            let (mut col_parts, mut val_parts) = (SliceSplitter(col), SliceSplitter(val));
            for s in slices {
                let rows = &order[s * slice_rows..order.len().min((s + 1) * slice_rows)];
                let slice_values = offset[s + 1] - offset[s];
                fill_slice(
                    a,
                    rows,
                    s * slice_rows,
                    max_row_len,
                    (col_parts.take_front(slice_values), val_parts.take_front(slice_values)),
                    slice_rows,
                );
            }
        })?;
        let separate_rows = split_off_long_rows(a, max_row_len)?;
        let perm = if shape.sigma > 1 { Some(collected(order.into_iter().map(I::of), ALLOCATION_NAME)?) } else { None };
        Ok(Self {
            slice_rows,
            row_alignment: least_common_multiple(slice_rows, shape.sigma.max(1)),
            perm,
            offset,
            col,
            val,
            rows: a.rows(),
            separate_rows,
        })
    }

    /// Returns the row at a position, or `None` if the position is padding after the last row.
    fn row(&self, position: usize) -> Option<usize> {
        if position >= self.rows {
            None
        } else {
            Some(self.perm.as_ref().map_or(position, |perm| perm[position].to_usize()))
        }
    }

    /// Computes y = A x for a range of rows, except for rows that are stored separately. `sums` is a workspace of C
    /// values.
    #[inline(always)]
    fn multiply_slices(&self, sums: &mut [f64], rows: &Range<usize>, x: &[f64], y: &mut [f64]) {
        for s in rows.start / self.slice_rows..rows.end.div_ceil(self.slice_rows) {
            let entries = self.offset[s]..self.offset[s + 1];
            let (col, val) =
                (self.col[entries.clone()].chunks_exact(sums.len()), self.val[entries].chunks_exact(sums.len()));
            sums.fill(0.0);
            for (col, val) in col.zip(val) {
                sums.iter_mut().zip(col).zip(val).for_each(|((sum, j), a)| *sum += a * x[j.to_usize()]);
            }
            for (lane, &sum) in sums.iter().enumerate() {
                if let Some(i) = self.row(s * self.slice_rows + lane) {
                    y[i - rows.start] = sum;
                }
            }
        }
    }

    /// Iterates over the separately stored rows of a range, as (index in `separate_rows`, row of A).
    fn separate_rows_in(&self, rows: &Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let (row_indices, end) = (&self.separate_rows.0, rows.end);
        let first_index = row_indices.partition_point(|i| i.to_usize() < rows.start);
        row_indices.iter().map(|i| i.to_usize()).enumerate().skip(first_index).take_while(move |&(_, i)| i < end)
    }

    /// For each of the `slices`, yields the position of its first row, and an iterator over (col[s], val[s]) for
    /// s = 0, 1, ...
    fn slices(&self, slices: Range<usize>) -> impl Iterator<Item = (usize, impl Iterator<Item = (&[I], &[f64])>)> {
        self.offset[slices.start..=slices.end].windows(2).zip(slices).map(|(range, s)| {
            let range = range[0]..range[1];
            let columns = self.col[range.clone()].chunks_exact(self.slice_rows);
            (s * self.slice_rows, columns.zip(self.val[range].chunks_exact(self.slice_rows)))
        })
    }
}

/// Fills a slice that consists of `rows`. `first_position` is the position of the first of these rows.
fn fill_slice<I: Index>(
    a: &Csr<I>,
    rows: &[usize],
    first_position: usize,
    max_row_len: usize,
    (col, val): (&mut [I], &mut [f64]),
    slice_rows: usize,
) {
    for (k, (col, val)) in col.chunks_exact_mut(slice_rows).zip(val.chunks_exact_mut(slice_rows)).enumerate() {
        for (lane, (col, val)) in col.iter_mut().zip(val).enumerate() {
            // A position after the last row is padded like an empty row with this position as its index.
            let i = rows.get(lane).copied().unwrap_or(first_position + lane);
            if lane < rows.len() && k < length_in_slice(a, i, max_row_len) {
                (*col, *val) = (a.col[a.ptr[i] + k], a.val[a.ptr[i] + k]);
            } else {
                *col = I::of(i.min(a.cols - 1));
            }
        }
    }
}

/// Returns the rows with more than `max_row_len` entries, and their entries.
fn split_off_long_rows<I: Index>(a: &Csr<I>, max_row_len: usize) -> Result<(Vec<I>, Csr<I>)> {
    let (mut rows, mut csr) = (Vec::new(), Csr { cols: a.cols, ptr: Vec::new(), col: Vec::new(), val: Vec::new() });
    push(&mut csr.ptr, 0, ALLOCATION_NAME)?;
    for i in (0..a.rows()).filter(|&i| a.row_len(i) > max_row_len) {
        push(&mut rows, I::of(i), ALLOCATION_NAME)?;
        for k in a.ptr[i]..a.ptr[i + 1] {
            push(&mut csr.col, a.col[k], ALLOCATION_NAME)?;
            push(&mut csr.val, a.val[k], ALLOCATION_NAME)?;
        }
        push(&mut csr.ptr, csr.col.len(), ALLOCATION_NAME)?;
    }
    Ok((rows, csr))
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut divisor, mut remainder) = (a, b);
    while remainder > 0 {
        (divisor, remainder) = (remainder, divisor % remainder);
    }
    a / divisor * b
}

impl<I: Index> RowProducts for Sell<I> {
    fn row_alignment(&self) -> usize {
        self.row_alignment
    }

    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        // For the default number of rows per slice, the length of `sums` is a constant, so that the sums stay in
        // registers.
        if self.slice_rows == DEFAULT_SLICE_ROWS {
            self.multiply_slices(&mut [0.0; DEFAULT_SLICE_ROWS], &rows, x, y);
        } else {
            self.multiply_slices(&mut [0.0; MAX_SLICE_ROWS][..self.slice_rows], &rows, x, y);
        }
        for (k, i) in self.separate_rows_in(&rows) {
            y[i - rows.start] = self.separate_rows.1.row(k).fold(0.0, |sum, (j, a)| sum + a * x[j]);
        }
    }
}

impl<I: Index> TransposedRowProducts for Sell<I> {
    fn row_alignment(&self) -> usize {
        self.row_alignment
    }

    fn columns_of_rows(&self, rows: Range<usize>) -> Range<usize> {
        let entry_range = self.offset[rows.start / self.slice_rows]..self.offset[rows.end.div_ceil(self.slice_rows)];
        let separate_ranges =
            self.separate_rows_in(&rows).map(|(k, _)| index_range(self.separate_rows.1.row_slices(k).0));
        hull_of_ranges(separate_ranges.chain([index_range(&self.col[entry_range])]))
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first_column: usize, y: &mut [f64]) {
        for (first_position, entries) in self.slices(rows.start / self.slice_rows..rows.end.div_ceil(self.slice_rows)) {
            for (col, val) in entries {
                for (lane, (j, a)) in col.iter().zip(val).enumerate() {
                    if let Some(i) = self.row(first_position + lane) {
                        y[j.to_usize() - first_column] += a * x[i - rows.start];
                    }
                }
            }
        }
        for (k, i) in self.separate_rows_in(&rows) {
            self.separate_rows.1.row(k).for_each(|(j, a)| y[j - first_column] += a * x[i - rows.start]);
        }
    }
}

impl<I: Index> Stored for Sell<I> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        if transposed { ThreadDivision::Contributions(self) } else { ThreadDivision::Rows(self) }
    }

    fn view(&self) -> Option<FormatView<'_>> {
        let perm = match &self.perm {
            Some(perm) => Some(I::as_u32(perm)?),
            None => None,
        };
        Some(FormatView::Sell {
            slice_rows: self.slice_rows,
            perm,
            offset: &self.offset,
            col: I::as_u32(&self.col)?,
            val: &self.val,
            separate_rows: (I::as_u32(&self.separate_rows.0)?, CsrSlices::of(&self.separate_rows.1)?),
        })
    }

    /// In the exported permutation, positions after the last row contain -1.
    fn write(&self, output: &mut OutputArrays) {
        let position_count = (self.offset.len() - 1) * self.slice_rows;
        output.i0.fill_signed((0..position_count).map(|position| self.row(position).map_or(-1, |i| i as i64)));
        output.i1.fill(self.offset.iter().copied());
        output.i2.fill(self.col.iter().map(|j| j.to_usize()));
        output.values.copy_from_slice(&self.val);
    }
}
