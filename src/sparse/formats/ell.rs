//! ELLPACK (ell; Saad 2003, section 3.4): all rows are padded to the length of the longest row and stored by columns:
//! col[s][i] and val[s][i] contain entry s of row i. Then y_i = sum_s val[s][i] x[col[s][i]]. Padding has the value 0
//! and the column min(i, cols - 1), so that it reads x near the row's own entries.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::{Workers, across, cut};
use crate::error::{Result, zeroed};
use crate::sparse::stored::{Arrays, ByParts, ByRows, Division, Size, Stored, View, index_range, joined};
use std::ops::Range;

/// Name of an allocation in error messages.
const ELL: &str = "a matrix in format ell";

pub struct Ell<I> {
    rows: usize,
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>) -> Size {
    let (rows, width) = (a.rows() as u128, a.longest_row_len() as u128);
    let mut size = Size::new([(0, size_of::<I>())], rows * width);
    size.indices[0].0 = size.values;
    size
}

/// Fills a range of rows, including their padding. `slots` yields these rows of (col[s], val[s]) for s = 0, 1, ...
fn fill<'s, I: Index>(a: &Csr<I>, rows: Range<usize>, slots: impl Iterator<Item = (&'s mut [I], &'s mut [f64])>) {
    for (slot, (col, val)) in slots.enumerate() {
        for (i, (col, val)) in rows.clone().zip(col.iter_mut().zip(val)) {
            if slot < a.len(i) {
                (*col, *val) = (a.col[a.ptr[i] + slot], a.val[a.ptr[i] + slot]);
            } else {
                *col = I::of(i.min(a.cols - 1));
            }
        }
    }
}

impl<I: Index> Ell<I> {
    pub fn of(a: &Csr<I>, workers: &mut Workers) -> Result<Self> {
        let (rows, width) = (a.rows(), a.longest_row_len());
        let (mut col, mut val) = (zeroed(rows * width, ELL)?, zeroed(rows * width, ELL)?);
        let pieces = workers.pieces_across(rows, size_of_val(&*val));
        if pieces == 1 {
            fill(a, 0..rows, col.chunks_mut(rows.max(1)).zip(val.chunks_mut(rows.max(1))));
        } else {
            let of_col = across(&mut col, rows, cut(rows, pieces))?;
            let of_val = across(&mut val, rows, cut(rows, pieces))?;
            let parts = of_col.into_iter().zip(of_val);
            workers.each(parts, |((part, col), (_, val))| fill(a, part, col.into_iter().zip(val)))?;
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

impl<I: Index> ByRows for Ell<I> {
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        y.fill(0.0);
        for (col, val) in self.slots() {
            let (col, val) = (&col[rows.clone()], &val[rows.clone()]);
            y.iter_mut().zip(col).zip(val).for_each(|((y, j), a)| *y += a * x[j.at()]);
        }
    }
}

impl<I: Index> ByParts for Ell<I> {
    fn columns(&self, rows: Range<usize>) -> Range<usize> {
        joined(self.slots().map(|(col, _)| index_range(&col[rows.clone()])))
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first: usize, y: &mut [f64]) {
        for (col, val) in self.slots() {
            let (col, val) = (&col[rows.clone()], &val[rows.clone()]);
            x.iter().zip(col).zip(val).for_each(|((x, j), a)| y[j.at() - first] += a * x);
        }
    }
}

impl<I: Index> Stored for Ell<I> {
    fn division(&self, transposed: bool) -> Division<'_> {
        if transposed { Division::Parts(self) } else { Division::Rows(self) }
    }

    fn view(&self) -> Option<View<'_>> {
        Some(View::Ell { rows: self.rows, col: I::narrow(&self.col)?, val: &self.val })
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
