//! The storage formats: size of a matrix in each format, and conversion of a matrix to a format.

mod bsr;
mod coo;
mod csr;
mod dia;
mod diagonal;
mod ell;
mod jds;
mod order;
mod sell;
mod skyline;
mod transposed;

pub use bsr::may_fit;
pub use dia::offsets;
pub use diagonal::is_diagonal;
pub use sell::{DEFAULT_SLICE_ROWS, SellShape};

use super::stored::{FormatSize, POINTER_BYTES, Stored};
use crate::base::csr::Csr;
use crate::base::heap::boxed;
use crate::base::index::Index;
use crate::base::memory::check_available;
use crate::base::workers::Workers;
use crate::error::{Result, zeroed};
use crate::options::Format;
use bsr::Bsr;
use coo::Coo;
use dia::Dia;
use diagonal::Diagonal;
use ell::Ell;
use jds::Jds;
use sell::Sell;
use skyline::Skyline;
use transposed::Transposed;

/// A storage format with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FormatKind {
    Coo,
    Csr,
    Csc,
    /// Block sparse rows with this block size b.
    Bsr(usize),
    Dia,
    Ell,
    Sell(SellShape),
    Jds,
    Tjds,
    Skyline,
    Diagonal,
}

impl FormatKind {
    /// Returns the value of the option `format` that selects this format.
    pub fn format(self) -> Format {
        match self {
            Self::Coo => Format::Coo,
            Self::Csr => Format::Csr,
            Self::Csc => Format::Csc,
            Self::Bsr(_) => Format::Bsr,
            Self::Dia => Format::Dia,
            Self::Ell => Format::Ell,
            Self::Sell(_) => Format::Sell,
            Self::Jds => Format::Jds,
            Self::Tjds => Format::Tjds,
            Self::Skyline => Format::Skyline,
            Self::Diagonal => Format::Diagonal,
        }
    }

    /// Returns the size of a matrix in this format, or an error if the format cannot represent it.
    pub fn size<I: Index>(self, a: &Csr<I>, workers: &mut Workers) -> Result<FormatSize> {
        let entry_count = a.val.len();
        let compressed_size = |line_count: usize| {
            FormatSize::new([(line_count + 1, POINTER_BYTES), (entry_count, size_of::<I>())], entry_count as u128)
        };
        Ok(match self {
            Self::Coo => coo::size(a),
            Self::Csr => compressed_size(a.rows()),
            Self::Csc => compressed_size(a.cols),
            Self::Bsr(b) => bsr::size(a, b)?,
            Self::Dia => dia::size(a, offsets(a, usize::MAX, workers)?.map_or(0, |offsets| offsets.len())),
            Self::Ell => ell::size(a),
            Self::Sell(shape) => sell::size(a, shape, workers)?,
            Self::Jds => jds::size::<I>(a.rows(), a.longest_row_len(), entry_count),
            Self::Tjds => jds::size::<I>(a.cols, longest_column(a)?, entry_count),
            Self::Skyline => skyline::size(a)?,
            Self::Diagonal => diagonal::size(a)?,
        })
    }

    /// Converts a matrix, whose size in this format is `size`; returns `None` for csr.
    pub fn store<I: Index>(
        self,
        a: &Csr<I>,
        size: &FormatSize,
        workers: &mut Workers,
    ) -> Result<Option<Box<dyn Stored>>> {
        const ALLOCATION_NAME: &str = "a storage format";
        check_available(if self == Self::Csr { 0 } else { size.bytes() }, ALLOCATION_NAME)?;
        Ok(Some(match self {
            Self::Coo => boxed(Coo::of(a)?, ALLOCATION_NAME)?,
            Self::Csr => return Ok(None),
            Self::Csc => boxed(Transposed(a.transposed(workers)?), ALLOCATION_NAME)?,
            Self::Bsr(b) => boxed(Bsr::of(a, b, size, workers)?, ALLOCATION_NAME)?,
            Self::Dia => {
                boxed(Dia::of(a, offsets(a, usize::MAX, workers)?.unwrap_or_default(), workers)?, ALLOCATION_NAME)?
            }
            Self::Ell => boxed(Ell::of(a, workers)?, ALLOCATION_NAME)?,
            Self::Sell(shape) => boxed(Sell::of(a, shape, size, workers)?, ALLOCATION_NAME)?,
            Self::Jds => boxed(Jds::of(a, workers)?, ALLOCATION_NAME)?,
            Self::Tjds => boxed(Transposed(Jds::of(&a.transposed(workers)?, workers)?), ALLOCATION_NAME)?,
            Self::Skyline => boxed(Skyline::of(a)?, ALLOCATION_NAME)?,
            Self::Diagonal => boxed(Diagonal::of(a)?, ALLOCATION_NAME)?,
        }))
    }
}

/// Returns the number of entries of the longest column.
fn longest_column<I: Index>(a: &Csr<I>) -> Result<usize> {
    let mut lengths: Vec<usize> = zeroed(a.cols, "lengths of columns")?;
    a.col.iter().for_each(|j| lengths[j.to_usize()] += 1);
    Ok(lengths.into_iter().max().unwrap_or(0))
}
