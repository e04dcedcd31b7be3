//! The storage formats: their sizes, and the conversion of a matrix.

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
pub use sell::{SLICE, Shape};

use super::stored::{POINTER, Size, Stored};
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
pub enum Kind {
    Coo,
    Csr,
    Csc,
    /// Block sparse rows with this block size b.
    Bsr(usize),
    Dia,
    Ell,
    Sell(Shape),
    Jds,
    Tjds,
    Skyline,
    Diagonal,
}

impl Kind {
    /// Returns the value of the option `format`.
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
    pub fn size<I: Index>(self, a: &Csr<I>, workers: &mut Workers) -> Result<Size> {
        let count = a.val.len();
        let lanes = |lanes: usize| Size::new([(lanes + 1, POINTER), (count, size_of::<I>())], count as u128);
        Ok(match self {
            Self::Coo => coo::size(a),
            Self::Csr => lanes(a.rows()),
            Self::Csc => lanes(a.cols),
            Self::Bsr(b) => bsr::size(a, b)?,
            Self::Dia => dia::size(a, offsets(a, usize::MAX)?.map_or(0, |offsets| offsets.len())),
            Self::Ell => ell::size(a),
            Self::Sell(shape) => sell::size(a, shape, workers)?,
            Self::Jds => jds::size::<I>(a.rows(), a.longest_row_len(), count),
            Self::Tjds => jds::size::<I>(a.cols, longest_column(a)?, count),
            Self::Skyline => skyline::size(a)?,
            Self::Diagonal => diagonal::size(a)?,
        })
    }

    /// Converts a matrix, whose size in this format is `size`; returns `None` for csr.
    pub fn store<I: Index>(self, a: &Csr<I>, size: &Size, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>> {
        const FORMAT: &str = "a storage format";
        check_available(if self == Self::Csr { 0 } else { size.bytes() }, FORMAT)?;
        Ok(Some(match self {
            Self::Coo => boxed(Coo::of(a)?, FORMAT)?,
            Self::Csr => return Ok(None),
            Self::Csc => boxed(Transposed(a.transposed(workers)?), FORMAT)?,
            Self::Bsr(b) => boxed(Bsr::of(a, b, size, workers)?, FORMAT)?,
            Self::Dia => boxed(Dia::of(a, offsets(a, usize::MAX)?.unwrap_or_default(), workers)?, FORMAT)?,
            Self::Ell => boxed(Ell::of(a, workers)?, FORMAT)?,
            Self::Sell(shape) => boxed(Sell::of(a, shape, size, workers)?, FORMAT)?,
            Self::Jds => boxed(Jds::of(a, workers)?, FORMAT)?,
            Self::Tjds => boxed(Transposed(Jds::of(&a.transposed(workers)?, workers)?), FORMAT)?,
            Self::Skyline => boxed(Skyline::of(a)?, FORMAT)?,
            Self::Diagonal => boxed(Diagonal::of(a)?, FORMAT)?,
        }))
    }
}

fn longest_column<I: Index>(a: &Csr<I>) -> Result<usize> {
    let mut lengths: Vec<usize> = zeroed(a.cols, "lengths of columns")?;
    a.col.iter().for_each(|j| lengths[j.at()] += 1);
    Ok(lengths.into_iter().max().unwrap_or(0))
}
