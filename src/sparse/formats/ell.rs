//! ELLPACK (ell; Saad 2003, section 3.4). All rows are padded to the length of the longest row. col[s][i] and val[s][i]
//! contain entry s of row i, so y_i = sum_s val[s][i] x[col[s][i]]. Padding of row i has the value 0 and the column
//! min(i, cols - 1), so that a product reads x near the columns of row i.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::{Workers, divide_each_lane, divide_range};
use crate::error::{Result, zeroed};
use crate::sparse::stored::{
    FormatSize, FormatView, OutputArrays, RowProducts, Stored, ThreadDivision, TransposedRowProducts, hull_of_ranges,
    index_range,
};
use std::ops::Range;

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in format ell";

pub struct Ell<I> {
    rows: usize,
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>) -> FormatSize {
    let (rows, row_width) = (a.rows() as u128, a.longest_row_len() as u128);
    let mut size = FormatSize::new([(0, size_of::<I>())], rows * row_width);
    size.indices[0].0 = size.values;
    size
}

/// Fills a range of rows, including their padding. For s = 0, 1, ..., `slots` yields the part of col[s] and val[s] that
/// belongs to `rows`.
fn fill_rows<'s, I: Index>(a: &Csr<I>, rows: Range<usize>, slots: impl Iterator<Item = (&'s mut [I], &'s mut [f64])>) {
    for (slot, (col, val)) in slots.enumerate() {
        for (i, (col, val)) in rows.clone().zip(col.iter_mut().zip(val)) {
            if slot < a.row_len(i) {
                (*col, *val) = (a.col[a.ptr[i] + slot], a.val[a.ptr[i] + slot]);
            } else {
                *col = I::of(i.min(a.cols - 1));
            }
        }
    }
}

impl<I: Index> Ell<I> {
    pub fn of(a: &Csr<I>, workers: &mut Workers) -> Result<Self> {
        let (rows, row_width) = (a.rows(), a.longest_row_len());
        let (mut col, mut val) =
            (zeroed(rows * row_width, ALLOCATION_NAME)?, zeroed(rows * row_width, ALLOCATION_NAME)?);
        let piece_count = workers.lane_part_count(rows, size_of_val(&*val));
        if piece_count == 1 {
            fill_rows(a, 0..rows, col.chunks_mut(rows.max(1)).zip(val.chunks_mut(rows.max(1))));
        } else {
            let col_pieces = divide_each_lane(&mut col, rows, divide_range(rows, piece_count))?;
            let val_pieces = divide_each_lane(&mut val, rows, divide_range(rows, piece_count))?;
            let row_pieces = col_pieces.into_iter().zip(val_pieces);
            workers.for_each_piece(row_pieces, |((own_rows, col), (_, val))| {
                fill_rows(a, own_rows, col.into_iter().zip(val))
            })?;
        }
        Ok(Self { rows, col, val })
    }

    /// Yields (col[s], val[s]) for s = 0, 1, ...
    fn slots(&self) -> impl Iterator<Item = (&[I], &[f64])> {
        // `chunks_exact` needs a positive length; a matrix without rows has no chunks.
        let rows = self.rows.max(1);
        self.col.chunks_exact(rows).zip(self.val.chunks_exact(rows))
    }
}

impl<I: Index> RowProducts for Ell<I> {
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        y.fill(0.0);
        for (col, val) in self.slots() {
            let (col, val) = (&col[rows.clone()], &val[rows.clone()]);
            y.iter_mut().zip(col).zip(val).for_each(|((y, j), a)| *y += a * x[j.to_usize()]);
        }
    }
}

impl<I: Index> TransposedRowProducts for Ell<I> {
    fn columns_of_rows(&self, rows: Range<usize>) -> Range<usize> {
        hull_of_ranges(self.slots().map(|(col, _)| index_range(&col[rows.clone()])))
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first_column: usize, y: &mut [f64]) {
        for (col, val) in self.slots() {
            let (col, val) = (&col[rows.clone()], &val[rows.clone()]);
            x.iter().zip(col).zip(val).for_each(|((x, j), a)| y[j.to_usize() - first_column] += a * x);
        }
    }
}

impl<I: Index> Stored for Ell<I> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        if transposed { ThreadDivision::Contributions(self) } else { ThreadDivision::Rows(self) }
    }

    fn view(&self) -> Option<FormatView<'_>> {
        Some(FormatView::Ell { rows: self.rows, col: I::as_u32(&self.col)?, val: &self.val })
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill(self.col.iter().map(|j| j.to_usize()));
        output.values.copy_from_slice(&self.val);
    }
}
