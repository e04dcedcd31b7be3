//! A matrix as a handle holds it, however wide its indices are.

use super::assemble::Assembled;
use super::choice::Wanted;
use super::csr::Csr;
use super::files::write::{WriteResult, write};
use super::formats::Kind;
use super::index::Index;
use super::inspection::Inspection;
use super::stored::{Size, Stored};
use crate::error::Result;
use crate::options::{Dominance, FileFormat};
use crate::runtime::heap::boxed;
use crate::runtime::workers::Workers;
use std::io::Write;

/// What a matrix tells of itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    pub rows: usize,
    pub cols: usize,
    pub nonzeros: usize,
    /// Entries given at a place that had one.
    pub duplicates: usize,
    /// Values that `set_values` takes.
    pub given: usize,
}

/// A matrix by rows, by the width of its indices.
#[derive(Clone, Copy)]
pub enum AnyCsr<'a> {
    Narrow(&'a Csr<u32>),
    Wide(&'a Csr<u64>),
}

/// An index of matrices that handles hold.
pub trait Width: Index {
    fn any(csr: &Csr<Self>) -> AnyCsr<'_>;
}

impl Width for u32 {
    fn any(csr: &Csr<Self>) -> AnyCsr<'_> {
        AnyCsr::Narrow(csr)
    }
}

impl Width for u64 {
    fn any(csr: &Csr<Self>) -> AnyCsr<'_> {
        AnyCsr::Wide(csr)
    }
}

/// A matrix.
pub trait Matrix: Sync {
    fn facts(&self) -> Facts;
    /// Entries of the longest row.
    fn longest_row(&self) -> usize;
    fn empty_rows(&self) -> usize;
    fn first_empty_row(&self) -> Option<usize>;
    /// Rows that have a column of their number, but no entry there or a zero.
    fn zero_diagonals(&self) -> usize;
    /// What is seen of a square matrix before a method is chosen.
    fn inspect(&self) -> Result<Inspection>;
    /// How the diagonal of a square matrix compares with the rest of its rows.
    fn dominance(&self) -> Result<Dominance>;
    /// A', by rows.
    fn transposed(&self, workers: &mut Workers) -> Result<Box<dyn Stored>>;
    /// New values of all entries, in the order in which they were given.
    fn set_values(&mut self, values: &[f64]) -> Result<()>;
    /// The format that is wanted, and what it takes.
    fn choose(&self, wanted: &Wanted, workers: &mut Workers) -> Result<(Kind, Size)>;
    /// The matrix in a format, of this size; none for csr, which `csr` has.
    fn store(&self, kind: Kind, size: &Size, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>>;
    fn csr(&self) -> &dyn Stored;
    /// The matrix by rows, whose arrays are read where products are not enough.
    fn any(&self) -> AnyCsr<'_>;
    /// Writes a file.
    fn write(&self, format: FileFormat, to: &mut dyn Write) -> WriteResult;
    /// Bytes of all arrays.
    fn bytes(&self) -> usize;
}

impl<I: Width> Matrix for Assembled<I> {
    fn facts(&self) -> Facts {
        Facts {
            rows: self.csr.rows(),
            cols: self.csr.cols,
            nonzeros: self.csr.val.len(),
            duplicates: self.duplicates(),
            given: self.given,
        }
    }

    fn first_empty_row(&self) -> Option<usize> {
        self.csr.ptr.windows(2).position(|row| row[0] == row[1])
    }

    fn longest_row(&self) -> usize {
        self.csr.longest_row()
    }

    fn empty_rows(&self) -> usize {
        (0..self.csr.rows()).filter(|&i| self.csr.len(i) == 0).count()
    }

    fn zero_diagonals(&self) -> usize {
        let a = &self.csr;
        (0..a.rows().min(a.cols)).filter(|&i| a.get(i, i).unwrap_or(0.0) == 0.0).count()
    }

    fn inspect(&self) -> Result<Inspection> {
        self.csr.inspect()
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

    fn choose(&self, wanted: &Wanted, workers: &mut Workers) -> Result<(Kind, Size)> {
        wanted.kind(&self.csr, workers)
    }

    fn store(&self, kind: Kind, size: &Size, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>> {
        kind.store(&self.csr, size, workers)
    }

    fn csr(&self) -> &dyn Stored {
        &self.csr
    }

    fn any(&self) -> AnyCsr<'_> {
        I::any(&self.csr)
    }

    fn write(&self, format: FileFormat, to: &mut dyn Write) -> WriteResult {
        write(&self.csr, format, to)
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}
