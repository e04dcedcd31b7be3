//! Diagonal matrix (diagonal): only the diagonal is stored.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Error, Location, RRB_ERR_ARGUMENT, Result, collected};
use crate::sparse::stored::{FormatSize, FormatView, OutputArrays, RowProducts, Stored, ThreadDivision};
use std::ops::Range;

pub struct Diagonal {
    val: Vec<f64>,
}

/// Returns whether there are no off-diagonal entries.
pub fn is_diagonal<I: Index>(a: &Csr<I>) -> bool {
    first_off_diagonal(a).is_none()
}

/// Returns the first off-diagonal entry.
fn first_off_diagonal<I: Index>(a: &Csr<I>) -> Option<(usize, usize, f64)> {
    a.entries().find(|(i, j, _)| i != j)
}

pub fn size<I: Index>(a: &Csr<I>) -> Result<FormatSize> {
    match first_off_diagonal(a) {
        None => Ok(FormatSize::new([], a.rows().min(a.cols) as u128)),
        Some((i, j, value)) => {
            let message_end = format!(" holds {value}: use format=auto");
            Err(Error::at(
                RRB_ERR_ARGUMENT,
                "format=diagonal stores no off-diagonal entries: ",
                Location::node(0, i, j),
                message_end,
            ))
        }
    }
}

impl Diagonal {
    pub fn of<I: Index>(a: &Csr<I>) -> Result<Self> {
        let diagonal = (0..a.rows().min(a.cols)).map(|i| a.get(i, i).unwrap_or(0.0));
        Ok(Self { val: collected(diagonal, "a diagonal matrix")? })
    }
}

impl RowProducts for Diagonal {
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        y.fill(0.0);
        // Rows i >= min(rows, cols) have no entries.
        let first_row = rows.start.min(self.val.len());
        y.iter_mut().zip(&self.val[first_row..]).zip(&x[first_row..]).for_each(|((y, a), x)| *y = a * x);
    }
}

impl Stored for Diagonal {
    fn division(&self, _: bool) -> ThreadDivision<'_> {
        ThreadDivision::Rows(self)
    }

    fn view(&self) -> Option<FormatView<'_>> {
        Some(FormatView::Dia { diagonal_len: self.val.len(), offset: &[0], val: &self.val })
    }

    fn write(&self, output: &mut OutputArrays) {
        output.values.copy_from_slice(&self.val);
    }
}
