//! The storage formats: what each takes, and how a matrix comes into it.

mod bsr;
mod coo;
mod dia;
mod diagonal;
mod ell;
mod jds;
mod order;
mod sell;
mod skyline;
mod transposed;

pub use bsr::may_take;
pub use dia::offsets;
pub use diagonal::is_diagonal;
pub use sell::{SLICE, Shape};

use super::csr::Csr;
use super::index::Index;
use super::stored::{POINTER, Size, Stored};
use crate::error::{Result, zeroed};
use crate::options::Format;
use crate::runtime::heap::boxed;
use crate::runtime::memory::check_there;
use crate::runtime::workers::Workers;
use bsr::Bsr;
use coo::Coo;
use dia::Dia;
use diagonal::Diagonal;
use ell::Ell;
use jds::Jds;
use sell::Sell;
use skyline::Skyline;
use transposed::Transposed;

/// A format with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Coo,
    Csr,
    Csc,
    /// With the rows of a block.
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
    /// As the option `format` calls it.
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

    /// What a matrix takes in it, or why it cannot be held.
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
            Self::Jds => jds::size::<I>(a.rows(), a.longest_row(), count),
            Self::Tjds => jds::size::<I>(a.cols, longest_column(a)?, count),
            Self::Skyline => skyline::size(a)?,
            Self::Diagonal => diagonal::size(a)?,
        })
    }

    /// A matrix in it, of this size; none for csr, in which it is already.
    pub fn store<I: Index>(self, a: &Csr<I>, size: &Size, workers: &mut Workers) -> Result<Option<Box<dyn Stored>>> {
        const FORMAT: &str = "a storage format";
        check_there(if self == Self::Csr { 0 } else { size.bytes() }, FORMAT)?;
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
