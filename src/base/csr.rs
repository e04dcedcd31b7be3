//! Compressed sparse rows (csr; Saad 2003, section 3.4).

use super::index::Index;
use crate::base::memory::check_available;
use crate::base::workers::{SliceSplitter, Workers, divide_lanes};
use crate::error::{Result, collected, zeroed};

/// Names of allocations in error messages.
pub const ROW_POINTERS_NAME: &str = "row pointers";
const COLUMN_POINTERS_NAME: &str = "column pointers";
const TRANSPOSED_NAME: &str = "a transposed matrix";

/// A matrix by rows, with ascending column indices and without duplicates in each row.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr<I> {
    pub cols: usize,
    /// Index in `col` and `val` of the first entry of each row, and one more element: the number of entries.
    pub ptr: Vec<usize>,
    pub col: Vec<I>,
    pub val: Vec<f64>,
}

impl<I: Index> Csr<I> {
    pub fn rows(&self) -> usize {
        self.ptr.len() - 1
    }

    /// Returns the number of entries of row i.
    pub fn row_len(&self, i: usize) -> usize {
        self.ptr[i + 1] - self.ptr[i]
    }

    /// Returns the arrays of columns and values of row i.
    #[inline]
    pub fn row_slices(&self, i: usize) -> (&[I], &[f64]) {
        let range = self.ptr[i]..self.ptr[i + 1];
        (&self.col[range.clone()], &self.val[range])
    }

    /// Iterates over columns and values of row i.
    #[inline]
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].iter().map(|c| c.to_usize()).zip(self.val[range].iter().copied())
    }

    /// Iterates over row, column and value of all entries, row by row.
    pub fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        (0..self.rows()).flat_map(|i| self.row(i).map(move |(j, a)| (i, j, a)))
    }

    pub fn longest_row_len(&self) -> usize {
        (0..self.rows()).map(|i| self.row_len(i)).max().unwrap_or(0)
    }

    /// Returns a_ij, if there is such an entry.
    pub fn get(&self, i: usize, j: usize) -> Option<f64> {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].binary_search(&I::of(j)).ok().map(|k| self.val[range][k])
    }

    /// Returns A^T, stored by rows.
    pub fn transposed(&self, workers: &mut Workers) -> Result<Self> {
        check_available((self.cols as u128 + 1) * size_of::<usize>() as u128, COLUMN_POINTERS_NAME)?;
        let mut ptr = zeroed(self.cols + 1, COLUMN_POINTERS_NAME)?;
        for j in &self.col {
            ptr[j.to_usize() + 1] += 1;
        }
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (zeroed(self.col.len(), TRANSPOSED_NAME)?, zeroed(self.val.len(), TRANSPOSED_NAME)?);
        // Each call of `fill_columns` scans all rows, so more calls than threads would only add work.
        let piece_count = workers.threads(size_of_val(&*col) + size_of_val(&*val));
        let lane_ranges = divide_lanes(&ptr, piece_count).map(|lanes| (ptr[lanes.start]..ptr[lanes.end], lanes));
        let lane_ranges = collected(lane_ranges, TRANSPOSED_NAME)?;
        let (mut next_entries, mut cols, mut vals) =
            (SliceSplitter(&mut ptr), SliceSplitter(&mut col), SliceSplitter(&mut val));
        let pieces = lane_ranges.into_iter().map(|(entries, lanes)| {
            let count = entries.len();
            (
                lanes.start,
                next_entries.take_front(lanes.len()),
                entries.start,
                cols.take_front(count),
                vals.take_front(count),
            )
        });
        workers.for_each_piece(pieces, |(first_lane, next_entries, first_entry, col, val)| {
            self.fill_columns(first_lane, next_entries, first_entry, col, val)
        })?;
        ends_to_pointers(&mut ptr);
        Ok(Self { cols: self.rows(), ptr, col, val })
    }

    /// Stores the entries of `next_entries.len()` consecutive columns of A, from column `first_lane` on: row indices in
    /// `row`, values in `val`. On entry, `next_entries` contains the pointers of these columns: the indices of their
    /// first entries in A^T. On return, it contains the indices after their last entries. `first_entry` is the pointer
    /// of column `first_lane`.
    fn fill_columns(
        &self,
        first_lane: usize,
        next_entries: &mut [usize],
        first_entry: usize,
        row: &mut [I],
        val: &mut [f64],
    ) {
        for i in 0..self.rows() {
            let (col, values) = self.row_slices(i);
            let (mut start, mut end) = (0, col.len());
            if next_entries.len() < self.cols {
                start = col.partition_point(|j| j.to_usize() < first_lane);
                end = start + col[start..].partition_point(|j| j.to_usize() < first_lane + next_entries.len());
            }
            for (j, a) in col[start..end].iter().zip(&values[start..end]) {
                let k = next_entries[j.to_usize() - first_lane] - first_entry;
                (row[k], val[k]) = (I::of(i), *a);
                next_entries[j.to_usize() - first_lane] += 1;
            }
        }
    }

    /// Returns whether A = A^T, bitwise.
    pub fn is_symmetric(&self) -> bool {
        let has_mirror_entry =
            |(i, j, a): (usize, usize, f64)| self.get(j, i).is_some_and(|b| a.to_bits() == b.to_bits());
        self.rows() == self.cols && self.entries().all(has_mirror_entry)
    }
}

/// Converts row lengths to row pointers in place. The length of row i is stored at index i + 1.
pub fn lengths_to_pointers(ptr: &mut [usize]) {
    for k in 1..ptr.len() {
        ptr[k] += ptr[k - 1];
    }
}

/// Converts row ends to row pointers, in place. On entry, element i is the end of row i. The array has one element more
/// than there are rows, and this last element is not read.
pub fn ends_to_pointers(ptr: &mut [usize]) {
    let rows = ptr.len() - 1;
    ptr.copy_within(..rows, 1);
    ptr[0] = 0;
}
