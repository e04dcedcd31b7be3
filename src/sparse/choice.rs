//! The format that is asked for, or the one that moves the fewest bytes in a product.

use super::csr::Csr;
use super::formats::{Kind, SLICE, Shape, is_diagonal, may_take, offsets};
use super::index::Index;
use super::stored::Size;
use crate::error::{Error, Result};
use crate::options::limits::MOST_DIAGONALS;
use crate::options::{Choice, Format};
use crate::runtime::workers::Workers;

/// Rows and columns of a block, where they are chosen.
const BLOCKS: [usize; 6] = [2, 3, 4, 5, 6, 8];
/// Rows of a window, where sorting saves bytes.
const SIGMA: usize = 256;

/// What is asked for; 0: chosen here.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub format: Format,
    pub slice: usize,
    pub sigma: usize,
    pub block_size: usize,
    /// Bytes that the arrays of a format may take.
    pub memory: u128,
    /// For products: sell keeps long rows apart, which its arrays for a caller cannot.
    pub product: bool,
}

impl Wanted {
    /// The format with its parameters and what it takes.
    pub fn kind<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(Kind, Size)> {
        let kind = match self.format {
            Format::Auto => return self.fewest(a, workers),
            Format::Coo => Kind::Coo,
            Format::Csr => Kind::Csr,
            Format::Csc => Kind::Csc,
            Format::Bsr => return self.affordable(self.blocks(a, workers)?),
            Format::Dia => Kind::Dia,
            Format::Ell => Kind::Ell,
            Format::Sell => return self.affordable(self.slices(a, workers)?),
            Format::Jds => Kind::Jds,
            Format::Tjds => Kind::Tjds,
            Format::Skyline => Kind::Skyline,
            Format::Diagonal => Kind::Diagonal,
        };
        self.affordable((kind, kind.size(a, workers)?))
    }

    /// The one that moves the fewest bytes; of equals csr, then the one that comes first. What is looked at last takes
    /// passes over the matrix, and only where it may be better than the best until then.
    fn fewest<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(Kind, Size)> {
        if is_diagonal(a) {
            return Ok((Kind::Diagonal, Kind::Diagonal.size(a, workers)?));
        }
        let mut best = (Kind::Csr, Kind::Csr.size(a, workers)?);
        if offsets(a, MOST_DIAGONALS)?.is_some() {
            self.prefer((Kind::Dia, Kind::Dia.size(a, workers)?), &mut best);
        }
        let entry = (size_of::<f64>() + size_of::<I>()) as u128;
        if a.val.len() as u128 * entry < best.1.bytes() {
            self.prefer(self.slices(a, workers)?, &mut best);
        }
        let asked = [self.block_size];
        for &b in if self.block_size > 0 { &asked[..] } else { &BLOCKS } {
            if may_take(a, b, best.1.bytes())? {
                self.prefer((Kind::Bsr(b), Kind::Bsr(b).size(a, workers)?), &mut best);
            }
        }
        Ok(best)
    }

    /// Takes another where it moves fewer bytes and may be taken.
    fn prefer(&self, other: (Kind, Size), best: &mut (Kind, Size)) {
        if other.1.bytes() < best.1.bytes().min(self.memory + 1) {
            *best = other;
        }
    }

    /// The blocks asked for, or those of the fewest bytes.
    fn blocks<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(Kind, Size)> {
        let mut of = |b| Kind::Bsr(b).size(a, workers).map(|size| (Kind::Bsr(b), size));
        if self.block_size > 0 {
            return of(self.block_size);
        }
        let mut best = of(BLOCKS[0])?;
        for b in &BLOCKS[1..] {
            let other = of(*b)?;
            if other.1.bytes() < best.1.bytes() {
                best = other;
            }
        }
        Ok(best)
    }

    /// The slices asked for; windows of more than a row only where they save bytes.
    fn slices<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(Kind, Size)> {
        let slice = if self.slice > 0 { self.slice } else { SLICE };
        let mut of = |sigma| {
            let kind = Kind::Sell(Shape { slice, sigma, apart: self.product });
            kind.size(a, workers).map(|size| (kind, size))
        };
        if self.sigma > 0 {
            return of(self.sigma);
        }
        let (plain, sorted) = (of(1)?, of(SIGMA)?);
        Ok(if sorted.1.bytes() < plain.1.bytes() { sorted } else { plain })
    }

    /// An error where a format takes more than it may.
    fn affordable(&self, (kind, size): (Kind, Size)) -> Result<(Kind, Size)> {
        let (bytes, memory) = (size.bytes(), self.memory);
        if kind == Kind::Csr || bytes <= memory {
            return Ok((kind, size));
        }
        let name = kind.format().name();
        Err(Error::Memory(format!("format={name} would need {bytes} bytes, more than format_memory = {memory}")))
    }
}
