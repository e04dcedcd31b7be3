//! Jagged diagonals (jds; Saad 2003, section 11.5). Rows are sorted by length, longest first. The first entries of all
//! rows are stored first, then the second entries, and so on.

use super::order::sort_rows_by_length;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{Result, collected, push, reserve};
use crate::sparse::stored::{
    FormatSize, OutputArrays, POINTER_BYTES, SequentialProduct, Stored, ThreadDivision, multiply_entries,
};

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in jagged diagonals";

pub struct Jds<I> {
    /// Rows in descending order of their lengths.
    perm: Vec<I>,
    /// Index of the first entry of each jagged diagonal. The last element is the number of entries.
    ptr: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
}

/// Returns the size for `entry_count` entries, where the longest row has `longest_row_len` entries.
pub fn size<I>(rows: usize, longest_row_len: usize, entry_count: usize) -> FormatSize {
    let index_bytes = size_of::<I>();
    FormatSize::new(
        [(rows, index_bytes), (longest_row_len + 1, POINTER_BYTES), (entry_count, index_bytes)],
        entry_count as u128,
    )
}

impl<I: Index> Jds<I> {
    pub fn of(a: &Csr<I>, workers: &mut Workers) -> Result<Self> {
        let perm = sort_rows_by_length(a.rows(), a.rows(), |i| a.row_len(i), ALLOCATION_NAME, workers)?;
        let (mut ptr, mut col, mut val) = (Vec::new(), Vec::new(), Vec::new());
        reserve(&mut col, a.col.len(), ALLOCATION_NAME)?;
        reserve(&mut val, a.val.len(), ALLOCATION_NAME)?;
        push(&mut ptr, 0, ALLOCATION_NAME)?;
        for diagonal in 0..a.longest_row_len() {
            for &i in perm.iter().take_while(|&&i| a.row_len(i) > diagonal) {
                col.push(a.col[a.ptr[i] + diagonal]);
                val.push(a.val[a.ptr[i] + diagonal]);
            }
            push(&mut ptr, col.len(), ALLOCATION_NAME)?;
        }
        Ok(Self { perm: collected(perm.into_iter().map(I::of), ALLOCATION_NAME)?, ptr, col, val })
    }

    /// Iterates over (row, column, value) of all entries, one jagged diagonal after the other.
    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let entries_of_diagonal = |range: &[usize]| {
            let range = range[0]..range[1];
            self.perm.iter().zip(&self.col[range.clone()]).zip(&self.val[range])
        };
        self.ptr.windows(2).flat_map(entries_of_diagonal).map(|((i, j), &a)| (i.to_usize(), j.to_usize(), a))
    }
}

impl<I: Index> SequentialProduct for Jds<I> {
    fn multiply_sequentially(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        multiply_entries(self.entries(), transposed, x, y);
    }
}

impl<I: Index> Stored for Jds<I> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        ThreadDivision::Sequential(self, transposed)
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill(self.perm.iter().map(|i| i.to_usize()));
        output.i1.fill(self.ptr.iter().copied());
        output.i2.fill(self.col.iter().map(|j| j.to_usize()));
        output.values.copy_from_slice(&self.val);
    }
}
