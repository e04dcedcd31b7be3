//! Coordinates (coo): row, column and value of each entry. A product adds y_i += a_ij x_j, entry by entry.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Result, collected};
use crate::sparse::stored::{Arrays, ByOne, Division, Size, Stored, products_of};

/// Name of an allocation in error messages.
const COO: &str = "a matrix in format coo";

pub struct Coo<I> {
    row: Vec<I>,
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I>(a: &Csr<I>) -> Size {
    let count = a.val.len();
    Size::new([(count, size_of::<I>()), (count, size_of::<I>())], count as u128)
}

impl<I: Index> Coo<I> {
    pub fn of(a: &Csr<I>) -> Result<Self> {
        Ok(Self {
            row: collected(a.entries().map(|(i, ..)| I::of(i)), COO)?,
            col: collected(a.col.iter().copied(), COO)?,
            val: collected(a.val.iter().copied(), COO)?,
        })
    }

    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let indices = self.row.iter().zip(&self.col);
        indices.zip(&self.val).map(|((i, j), &a)| (i.at(), j.at(), a))
    }
}

impl<I: Index> ByOne for Coo<I> {
    fn multiply_whole(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        products_of(self.entries(), transposed, x, y);
    }
}

impl<I: Index> Stored for Coo<I> {
    fn division(&self, transposed: bool) -> Division<'_> {
        Division::One(self, transposed)
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.row.iter().map(|i| i.at()));
        to.i1.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
