//! The caller's entries, with indices from 0 or 1. All arrays are validated before a matrix is built.

use super::assemble::AssembledMatrix;
use super::checks::{check_indices, check_pointers, check_values};
use super::matrix::{Matrix, MatrixIndex};
use crate::base::csr::ROW_POINTERS_NAME;
use crate::base::heap::boxed;
use crate::base::index::{Indices, fits_u32};
use crate::base::memory::check_available;
use crate::base::workers::Workers;
use crate::error::Result;

/// What the two index arrays of the caller contain.
#[derive(Clone, Copy, PartialEq)]
pub enum EntryLayout {
    /// Row and column of each entry.
    Coordinates,
    /// Row pointers, and column indices.
    Rows,
    /// Column pointers, and row indices.
    Columns,
}

/// Index arrays of the caller. `layout` states what `first_indices` and `second_indices` contain.
pub struct EntryArrays<'a> {
    pub rows: usize,
    pub cols: usize,
    pub layout: EntryLayout,
    pub first_indices: Indices<'a>,
    pub second_indices: Indices<'a>,
    /// Index of the first row and column: 0 or 1.
    pub index_base: i64,
}

impl EntryArrays<'_> {
    /// Validates the arrays, and builds the matrix with one value per entry.
    pub fn matrix(&self, values: &[f64], workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        match self.layout {
            EntryLayout::Rows => {
                check_pointers("row_ptr", self.first_indices, self.index_base, self.second_indices.len())?;
                check_indices("col", self.second_indices, self.index_base, self.cols)?;
            }
            EntryLayout::Columns => {
                check_pointers("col_ptr", self.first_indices, self.index_base, self.second_indices.len())?;
                check_indices("row", self.second_indices, self.index_base, self.rows)?;
            }
            EntryLayout::Coordinates => {
                check_indices("row", self.first_indices, self.index_base, self.rows)?;
                check_indices("col", self.second_indices, self.index_base, self.cols)?;
            }
        }
        check_values(values)?;
        if fits_u32(self.rows, self.cols) {
            self.assemble::<u32>(values, workers)
        } else {
            self.assemble::<u64>(values, workers)
        }
    }

    /// Builds the matrix with indices of type I.
    fn assemble<I: MatrixIndex>(&self, values: &[f64], workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        if self.layout == EntryLayout::Rows {
            // Rows with ascending columns need no sort, so all threads copy them.
            let pointer_count = self.first_indices.len();
            check_available(pointer_count as u128 * size_of::<usize>() as u128, ROW_POINTERS_NAME)?;
            let row_start = |i| self.index_at(self.first_indices, i);
            let ptr = workers.compute_values(pointer_count, ROW_POINTERS_NAME, row_start)?;
            let column_at = |k| self.index_at(self.second_indices, k);
            if let Some(matrix) = AssembledMatrix::<I>::from_ordered_rows(self.cols, ptr, column_at, values, workers)? {
                return Ok(boxed(matrix, "a matrix")?);
            }
        }
        let visit_entries = |add: &mut dyn FnMut(usize, usize)| self.visit_entries(add);
        let mut matrix =
            AssembledMatrix::<I>::from_pattern(self.rows, self.cols, values.len(), visit_entries, workers)?;
        matrix.set_values(values.iter().copied())?;
        Ok(boxed(matrix, "a matrix")?)
    }

    /// Returns `indices[k]` minus the index base. The arrays must have passed the checks of [`Self::matrix`].
    fn index_at(&self, indices: Indices, k: usize) -> usize {
        (indices.get(k) - self.index_base) as usize
    }

    /// Calls `add` with row and column of each entry.
    fn visit_entries(&self, add: &mut dyn FnMut(usize, usize)) {
        if self.layout == EntryLayout::Coordinates {
            return (0..self.first_indices.len())
                .for_each(|k| add(self.index_at(self.first_indices, k), self.index_at(self.second_indices, k)));
        }
        for outer in 0..self.first_indices.len() - 1 {
            for k in self.index_at(self.first_indices, outer)..self.index_at(self.first_indices, outer + 1) {
                let inner = self.index_at(self.second_indices, k);
                if self.layout == EntryLayout::Rows { add(outer, inner) } else { add(inner, outer) }
            }
        }
    }
}
