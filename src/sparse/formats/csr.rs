//! Compressed sparse rows, the format in which a handle stores its matrix. y_i = sum_j a_ij x_j is summed in the order
//! of ascending columns (Saad 2003, section 3.4).

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::sparse::stored::{
    CsrSlices, FormatView, OutputArrays, RowProducts, Stored, ThreadDivision, TransposedRowProducts, index_range,
};
use std::ops::Range;

impl<I: Index> RowProducts for Csr<I> {
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        for (y, row) in y.iter_mut().zip(self.ptr[rows.start..=rows.end].windows(2)) {
            let (col, val) = (&self.col[row[0]..row[1]], &self.val[row[0]..row[1]]);
            *y = col.iter().zip(val).fold(0.0, |sum, (j, a)| sum + a * x[j.to_usize()]);
        }
    }
}

impl<I: Index> TransposedRowProducts for Csr<I> {
    fn columns_of_rows(&self, rows: Range<usize>) -> Range<usize> {
        index_range(&self.col[self.ptr[rows.start]..self.ptr[rows.end]])
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first_column: usize, y: &mut [f64]) {
        for (x, row) in x.iter().zip(self.ptr[rows.start..=rows.end].windows(2)) {
            let (col, val) = (&self.col[row[0]..row[1]], &self.val[row[0]..row[1]]);
            for (j, a) in col.iter().zip(val) {
                y[j.to_usize() - first_column] += a * x;
            }
        }
    }
}

impl<I: Index> Stored for Csr<I> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        if transposed { ThreadDivision::Contributions(self) } else { ThreadDivision::Rows(self) }
    }

    fn view(&self) -> Option<FormatView<'_>> {
        CsrSlices::of(self).map(FormatView::Csr)
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill(self.ptr.iter().copied());
        output.i1.fill(self.col.iter().map(|j| j.to_usize()));
        output.values.copy_from_slice(&self.val);
    }
}
