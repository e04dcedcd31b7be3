//! Jagged diagonals (jds; Saad 2003, section 11.5). Rows are sorted by length, longest first. The first entries of all
//! rows are stored first, then the second entries, and so on.

use super::order::by_length;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{Result, collected, push, reserve};
use crate::sparse::stored::{Arrays, ByOne, Division, POINTER, Size, Stored, products_of};

/// Name of an allocation in error messages.
const JDS: &str = "a matrix in jagged diagonals";

pub struct Jds<I> {
    /// Rows in descending order of their lengths.
    perm: Vec<I>,
    /// Index of the first entry of each jagged diagonal; one more element is the number of entries.
    ptr: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
}

/// Returns the size for `count` entries, where the longest row has `longest` entries.
pub fn size<I>(rows: usize, longest: usize, count: usize) -> Size {
    let width = size_of::<I>();
    Size::new([(rows, width), (longest + 1, POINTER), (count, width)], count as u128)
}

impl<I: Index> Jds<I> {
    pub fn of(a: &Csr<I>, workers: &mut Workers) -> Result<Self> {
        let perm = by_length(a.rows(), a.rows(), |i| a.len(i), JDS, workers)?;
        let (mut ptr, mut col, mut val) = (Vec::new(), Vec::new(), Vec::new());
        reserve(&mut col, a.col.len(), JDS)?;
        reserve(&mut val, a.val.len(), JDS)?;
        push(&mut ptr, 0, JDS)?;
        for diagonal in 0..a.longest_row_len() {
            for &i in perm.iter().take_while(|&&i| a.len(i) > diagonal) {
                col.push(a.col[a.ptr[i] + diagonal]);
                val.push(a.val[a.ptr[i] + diagonal]);
            }
            push(&mut ptr, col.len(), JDS)?;
        }
        Ok(Self { perm: collected(perm.into_iter().map(I::of), JDS)?, ptr, col, val })
    }

    /// Iterates over (row, column, value) of all entries, one jagged diagonal after the other.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let of_diagonal = |range: &[usize]| {
            let range = range[0]..range[1];
            self.perm.iter().zip(&self.col[range.clone()]).zip(&self.val[range])
        };
        self.ptr.windows(2).flat_map(of_diagonal).map(|((i, j), &a)| (i.at(), j.at(), a))
    }
}

impl<I: Index> ByOne for Jds<I> {
    fn multiply_whole(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        products_of(self.entries(), transposed, x, y);
    }
}

impl<I: Index> Stored for Jds<I> {
    fn division(&self, transposed: bool) -> Division<'_> {
        Division::One(self, transposed)
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.perm.iter().map(|i| i.at()));
        to.i1.put(self.ptr.iter().copied());
        to.i2.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
