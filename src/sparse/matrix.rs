//! The matrix of a handle, for either width of its indices.

use super::assemble::AssembledMatrix;
use super::format_choice::FormatRequest;
use super::formats::FormatKind;
use super::inspection::Inspection;
use super::stored::{FormatSize, Stored};
use crate::base::csr::Csr;
use crate::base::heap::boxed;
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{Result, collected};
use crate::options::Dominance;

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "the order of values";

/// Sizes of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixSizes {
    pub rows: usize,
    pub cols: usize,
    pub nonzeros: usize,
    /// Number of the caller's entries that repeat the position of an earlier entry.
    pub duplicate_count: usize,
    /// Number of values that `set_values` expects, including those of duplicates.
    pub input_count: usize,
}

/// A matrix by rows (csr), with 32-bit or 64-bit column indices.
#[derive(Clone, Copy)]
pub enum AnyCsr<'a> {
    Narrow(&'a Csr<u32>),
    Wide(&'a Csr<u64>),
}

/// Index type of the matrix of a handle.
pub trait MatrixIndex: Index {
    /// Returns the matrix as the variant of [`AnyCsr`] for this index type.
    fn as_any_csr(csr: &Csr<Self>) -> AnyCsr<'_>;
}

impl MatrixIndex for u32 {
    fn as_any_csr(csr: &Csr<Self>) -> AnyCsr<'_> {
        AnyCsr::Narrow(csr)
    }
}

impl MatrixIndex for u64 {
    fn as_any_csr(csr: &Csr<Self>) -> AnyCsr<'_> {
        AnyCsr::Wide(csr)
    }
}

/// A matrix, independent of the width of its indices.
pub trait Matrix: Sync {
    /// Returns the numbers of rows, columns and entries.
    fn sizes(&self) -> MatrixSizes;
    /// Returns the number of entries of the longest row.
    fn longest_row_len(&self) -> usize;
    /// Returns the number of rows without entries.
    fn count_empty_rows(&self) -> usize;
    /// Returns the first row without entries.
    fn first_empty_row(&self) -> Option<usize>;
    /// Returns the number of rows i < min(rows, cols) whose diagonal entry is zero or missing.
    fn count_zero_diagonals(&self) -> usize;
    /// Computes the properties of a square matrix that guide the choice of a method.
    fn inspect(&self, workers: &mut Workers) -> Result<Inspection>;
    /// Returns the kind of diagonal dominance of a square matrix.
    fn dominance(&self) -> Result<Dominance>;
    /// Returns A^T, stored by rows.
    fn transposed(&self, workers: &mut Workers) -> Result<Box<dyn Stored>>;
    /// Sets the values of all entries from `values`, which are in the order of the caller's entries.
    fn set_values(&mut self, values: &[f64]) -> Result<()>;
    /// Sets the values of all entries, in the order of csr.
    fn set_csr_values(&mut self, values: Vec<f64>);
    /// For each of the caller's values, returns the index of its entry in csr. Returns `None` if the caller's values
    /// have the order of csr.
    fn entry_positions(&self) -> Option<&[usize]>;
    /// Selects the storage format, and returns the format and its size.
    fn choose_format(&self, request: &FormatRequest, workers: &mut Workers) -> Result<(FormatKind, FormatSize)>;
    /// Converts the matrix to a format. Returns `None` for csr: [`Self::csr`] returns the matrix in this format.
    fn store(&self, kind: FormatKind, size: &FormatSize, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>>;
    /// Does the same as [`Self::store`], but with the value k + 1 for entry k of csr. The converted values show the
    /// position of each entry in the format.
    fn numbered(&self, kind: FormatKind, size: &FormatSize, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>>;
    /// Does the same as [`Self::transposed`], but with the value k + 1 for entry k of csr.
    fn numbered_transpose(&self, workers: &mut Workers) -> Result<Box<dyn Stored>>;
    /// Returns the matrix in the format csr.
    fn csr(&self) -> &dyn Stored;
    /// Returns the matrix by rows, for direct access to its arrays.
    fn any_csr(&self) -> AnyCsr<'_>;
    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> usize;
}

impl<I: MatrixIndex> AssembledMatrix<I> {
    /// Returns the matrix with the value k + 1 for entry k.
    fn numbered_csr(&self) -> Result<Csr<I>> {
        let Csr { cols, ptr, col, val } = &self.csr;
        let numbers = (1..=val.len()).map(|number| number as f64);
        let (ptr, col) =
            (collected(ptr.iter().copied(), ALLOCATION_NAME)?, collected(col.iter().copied(), ALLOCATION_NAME)?);
        Ok(Csr { cols: *cols, ptr, col, val: collected(numbers, ALLOCATION_NAME)? })
    }
}

impl<I: MatrixIndex> Matrix for AssembledMatrix<I> {
    fn sizes(&self) -> MatrixSizes {
        MatrixSizes {
            rows: self.csr.rows(),
            cols: self.csr.cols,
            nonzeros: self.csr.val.len(),
            duplicate_count: self.count_duplicates(),
            input_count: self.input_count,
        }
    }

    fn first_empty_row(&self) -> Option<usize> {
        self.csr.ptr.windows(2).position(|row| row[0] == row[1])
    }

    fn longest_row_len(&self) -> usize {
        self.csr.longest_row_len()
    }

    fn count_empty_rows(&self) -> usize {
        (0..self.csr.rows()).filter(|&i| self.csr.row_len(i) == 0).count()
    }

    fn count_zero_diagonals(&self) -> usize {
        let a = &self.csr;
        (0..a.rows().min(a.cols)).filter(|&i| a.get(i, i).unwrap_or(0.0) == 0.0).count()
    }

    fn inspect(&self, workers: &mut Workers) -> Result<Inspection> {
        self.csr.inspect(workers)
    }

    fn dominance(&self) -> Result<Dominance> {
        self.csr.dominance()
    }

    fn transposed(&self, workers: &mut Workers) -> Result<Box<dyn Stored>> {
        Ok(boxed(self.csr.transposed(workers)?, "a transposed matrix")?)
    }

    fn set_values(&mut self, values: &[f64]) -> Result<()> {
        Self::set_values(self, values.iter().copied())
    }

    fn set_csr_values(&mut self, values: Vec<f64>) {
        self.csr.val = values;
    }

    fn entry_positions(&self) -> Option<&[usize]> {
        Self::entry_positions(self)
    }

    fn choose_format(&self, request: &FormatRequest, workers: &mut Workers) -> Result<(FormatKind, FormatSize)> {
        request.choose_kind(&self.csr, workers)
    }

    fn store(&self, kind: FormatKind, size: &FormatSize, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>> {
        kind.store(&self.csr, size, workers)
    }

    fn numbered(&self, kind: FormatKind, size: &FormatSize, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>> {
        if kind == FormatKind::Csr {
            return Ok(None);
        }
        kind.store(&self.numbered_csr()?, size, workers)
    }

    fn numbered_transpose(&self, workers: &mut Workers) -> Result<Box<dyn Stored>> {
        Ok(boxed(self.numbered_csr()?.transposed(workers)?, ALLOCATION_NAME)?)
    }

    fn csr(&self) -> &dyn Stored {
        &self.csr
    }

    fn any_csr(&self) -> AnyCsr<'_> {
        I::as_any_csr(&self.csr)
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}
