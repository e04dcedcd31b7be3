//! A matrix as a handle holds it, however wide its indices are.

use super::assemble::Assembled;
use super::choice::Wanted;
use super::csr::Csr;
use super::files::write::{WriteResult, write};
use super::formats::Kind;
use super::index::Index;
use super::stored::{Size, Stored};
use crate::error::Result;
use crate::options::FileFormat;
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
#[allow(dead_code)] // solver::sparse takes it.
#[derive(Clone, Copy)]
pub enum AnyCsr<'a> {
    Narrow(&'a Csr<u32>),
    Wide(&'a Csr<u64>),
}

/// An index of matrices that handles hold.
pub trait Width: Index {
    #[allow(dead_code)] // solver::sparse takes it.
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
pub trait Matrix {
    fn facts(&self) -> Facts;
    /// Entries of the longest row.
    fn longest_row(&self) -> usize;
    fn empty_rows(&self) -> usize;
    /// Rows that have a column of their number, but no entry there or a zero.
    fn zero_diagonals(&self) -> usize;
    /// Whether |a_ij - a_ji| <= 1e-12 sqrt(|a_ii a_jj|), or 1e-12 of the largest of row i where that is 0.
    fn is_symmetric(&self) -> bool;
    /// New values of all entries, in the order in which they were given.
    fn set_values(&mut self, values: &[f64]) -> Result<()>;
    /// The format that is wanted, and what it takes.
    fn choose(&self, wanted: &Wanted) -> Result<(Kind, Size)>;
    /// The matrix in a format, of this size; none for csr, which `csr` has.
    fn store(&self, kind: Kind, size: &Size) -> Result<Option<Box<dyn Stored>>>;
    fn csr(&self) -> &dyn Stored;
    /// The matrix by rows, whose arrays are read where products are not enough.
    #[allow(dead_code)] // solver::sparse takes it.
    fn any(&self) -> AnyCsr<'_>;
    /// Writes a file.
    fn write(&self, format: FileFormat, to: &mut dyn Write) -> WriteResult;
    /// Bytes of all arrays.
    fn bytes(&self) -> usize;
}

/// Of entries that are equal, in `is_symmetric`.
const ROUNDING: f64 = 1e-12;

/// Whether entry (i, j) of row i is that of row j.
fn is_mirrored<I: Index>(a: &Csr<I>, i: usize, j: usize, value: f64) -> bool {
    let difference = (value - a.get(j, i).unwrap_or(0.0)).abs();
    let diagonal = |i| a.get(i, i).unwrap_or(0.0).abs().sqrt();
    let scale = diagonal(i) * diagonal(j);
    let largest = || a.row(i).map(|(_, a)| a.abs()).fold(0.0, f64::max);
    difference <= ROUNDING * if scale > 0.0 { scale } else { largest() }
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

    fn is_symmetric(&self) -> bool {
        let a = &self.csr;
        a.rows() == a.cols && a.entries().all(|(i, j, value)| i == j || is_mirrored(a, i, j, value))
    }

    fn set_values(&mut self, values: &[f64]) -> Result<()> {
        Self::set_values(self, values.iter().copied())
    }

    fn choose(&self, wanted: &Wanted) -> Result<(Kind, Size)> {
        wanted.kind(&self.csr)
    }

    fn store(&self, kind: Kind, size: &Size) -> Result<Option<Box<dyn Stored>>> {
        kind.store(&self.csr, size)
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
