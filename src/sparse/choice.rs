//! Selection of the storage format: the requested format, or the format whose product moves the fewest bytes
//! (docs/theory/sparse.md, "The format of a product").

use super::formats::{Kind, SLICE, Shape, is_diagonal, may_fit, offsets};
use super::stored::Size;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{Error, Result};
use crate::options::limits::MOST_DIAGONALS;
use crate::options::{Choice, Format};

/// Block sizes that `block_size=0` compares.
const BLOCKS: [usize; 6] = [2, 3, 4, 5, 6, 8];
/// With `sigma=0`, the rows of sell are sorted in windows of this length if sorting reduces the bytes: on the CPU, and
/// on a device.
const SIGMA: [usize; 2] = [256, 4096];
/// Default number of rows per slice on a device: the number of threads per warp.
const DEVICE_SLICE: usize = 32;

/// Requested format and parameters; 0 means automatic.
#[derive(Clone, Copy)]
pub struct FormatRequest {
    pub format: Format,
    pub slice: usize,
    pub sigma: usize,
    pub block_size: usize,
    /// Maximum number of bytes for the arrays of a format. It does not apply to csr.
    pub memory: u128,
    /// Whether the format is used for products. If so, sell stores long rows separately, which the arrays of the public
    /// interface cannot represent.
    pub product: bool,
    /// Whether a device computes the products.
    pub on_device: bool,
}

impl FormatRequest {
    /// Returns the format with its parameters and its size.
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

    /// Returns the format that moves the fewest bytes: diagonal for a diagonal matrix, otherwise csr, dia (with at most
    /// `MOST_DIAGONALS` diagonals), sell or bsr. If two formats move equally many bytes, the earlier one in this list
    /// is used. Dia, sell and bsr must not exceed the memory limit. To compute the size of sell or bsr, the matrix must
    /// be read. This is done only if the size may be smaller than the smallest size so far.
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
            if may_fit(a, b, best.1.bytes())? {
                self.prefer((Kind::Bsr(b), Kind::Bsr(b).size(a, workers)?), &mut best);
            }
        }
        Ok(best)
    }

    /// Replaces `best` by `other` if `other` moves fewer bytes and does not exceed the memory limit.
    fn prefer(&self, other: (Kind, Size), best: &mut (Kind, Size)) {
        if other.1.bytes() < best.1.bytes().min(self.memory + 1) {
            *best = other;
        }
    }

    /// Returns bsr with the requested block size, or with the block size that needs the fewest bytes.
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

    /// Returns sell with the requested parameters. Rows are sorted in windows only if sorting reduces the bytes.
    fn slices<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(Kind, Size)> {
        let slice = match self.slice {
            0 if self.on_device => DEVICE_SLICE,
            0 => SLICE,
            asked => asked,
        };
        let mut of = |sigma| {
            let kind = Kind::Sell(Shape { slice, sigma, separate: self.product });
            kind.size(a, workers).map(|size| (kind, size))
        };
        if self.sigma > 0 {
            return of(self.sigma);
        }
        let (plain, sorted) = (of(1)?, of(SIGMA[usize::from(self.on_device)])?);
        Ok(if sorted.1.bytes() < plain.1.bytes() { sorted } else { plain })
    }

    /// Returns an error if a format other than csr exceeds the memory limit.
    fn affordable(&self, (kind, size): (Kind, Size)) -> Result<(Kind, Size)> {
        let (bytes, memory) = (size.bytes(), self.memory);
        if kind == Kind::Csr || bytes <= memory {
            return Ok((kind, size));
        }
        let name = kind.format().name();
        Err(Error::Memory(format!("format={name} would need {bytes} bytes, more than format_memory = {memory}")))
    }
}
