//! Coordinates (coo): row, column and value of each entry. A product computes y_i += a_ij x_j, entry by entry.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Result, collected};
use crate::sparse::stored::{FormatSize, OutputArrays, SequentialProduct, Stored, ThreadDivision, multiply_entries};

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in format coo";

pub struct Coo<I> {
    row: Vec<I>,
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I>(a: &Csr<I>) -> FormatSize {
    let count = a.val.len();
    FormatSize::new([(count, size_of::<I>()), (count, size_of::<I>())], count as u128)
}

impl<I: Index> Coo<I> {
    pub fn of(a: &Csr<I>) -> Result<Self> {
        Ok(Self {
            row: collected(a.entries().map(|(i, ..)| I::of(i)), ALLOCATION_NAME)?,
            col: collected(a.col.iter().copied(), ALLOCATION_NAME)?,
            val: collected(a.val.iter().copied(), ALLOCATION_NAME)?,
        })
    }

    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let indices = self.row.iter().zip(&self.col);
        indices.zip(&self.val).map(|((i, j), &a)| (i.to_usize(), j.to_usize(), a))
    }
}

impl<I: Index> SequentialProduct for Coo<I> {
    fn multiply_sequentially(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        multiply_entries(self.entries(), transposed, x, y);
    }
}

impl<I: Index> Stored for Coo<I> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        ThreadDivision::Sequential(self, transposed)
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill(self.row.iter().map(|i| i.to_usize()));
        output.i1.fill(self.col.iter().map(|j| j.to_usize()));
        output.values.copy_from_slice(&self.val);
    }
}
