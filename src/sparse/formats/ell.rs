//! ELLPACK (ell): all rows as long as the longest, slot by slot: col[s][i], val[s][i]. Padding: value 0, column
//! min(i, cols - 1), which lies near the row's own.

use crate::error::{Result, reserve, zeroed};
use crate::sparse::csr::Csr;
use crate::sparse::index::Index;
use crate::sparse::stored::{Arrays, ByRows, Size, Stored};
use std::ops::Range;

/// For errors.
const ELL: &str = "a matrix in format ell";

pub struct Ell<I> {
    rows: usize,
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>) -> Size {
    let (rows, width) = (a.rows() as u128, a.longest_row() as u128);
    let mut size = Size::new([(0, size_of::<I>())], rows * width);
    size.places[0].0 = size.values;
    size
}

impl<I: Index> Ell<I> {
    pub fn of(a: &Csr<I>) -> Result<Self> {
        let (rows, width) = (a.rows(), a.longest_row());
        let (mut col, mut val) = (Vec::new(), zeroed(rows * width, ELL)?);
        reserve(&mut col, rows * width, ELL)?;
        for slot in 0..width {
            for i in 0..rows {
                let k = if slot < a.len(i) { Some(a.ptr[i] + slot) } else { None };
                val[slot * rows + i] = k.map_or(0.0, |k| a.val[k]);
                col.push(k.map_or(I::of(i.min(a.cols - 1)), |k| a.col[k]));
            }
        }
        Ok(Self { rows, col, val })
    }

    /// Columns and values, slot by slot.
    fn slots(&self) -> impl Iterator<Item = (&[I], &[f64])> {
        // Without rows there are no slots.
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

impl<I: Index> Stored for Ell<I> {
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        self.multiply_rows(0..self.rows, x, y);
    }

    fn multiply_transposed(&self, x: &[f64], y: &mut [f64]) {
        y.fill(0.0);
        for (col, val) in self.slots() {
            x.iter().zip(col).zip(val).for_each(|((x, j), a)| y[j.at()] += a * x);
        }
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
