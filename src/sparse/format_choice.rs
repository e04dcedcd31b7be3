//! Selection of the storage format: the requested format, or the format whose product moves the fewest bytes
//! (docs/theory/sparse.md, "The format of a product").

use super::formats::{DEFAULT_SLICE_ROWS, FormatKind, SellShape, is_diagonal, may_fit, offsets};
use super::stored::FormatSize;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::Workers;
use crate::error::{Error, Result};
use crate::options::limits::MAX_DIAGONALS;
use crate::options::{Choice, Format};

/// Block sizes that `block_size=0` compares.
const BLOCK_SIZES: [usize; 6] = [2, 3, 4, 5, 6, 8];
/// Number of rows per sorting window of sell with `sigma=0`: on the CPU, and on a device. Rows are sorted only if this
/// reduces the size of the arrays.
const SORT_WINDOWS: [usize; 2] = [256, 4096];
/// Default number of rows per slice on a device: the number of threads per warp.
const DEVICE_SLICE_ROWS: usize = 32;

/// Requested format with its parameters. A parameter of 0 is selected automatically.
#[derive(Clone, Copy)]
pub struct FormatRequest {
    pub format: Format,
    pub slice_rows: usize,
    pub sigma: usize,
    pub block_size: usize,
    /// Maximum number of bytes for the arrays of a format. It does not apply to csr.
    pub memory_limit: u128,
    /// Whether the format is used for products; otherwise, its arrays are only exported. For products, sell stores long
    /// rows separately. The exported arrays cannot represent such rows.
    pub for_products: bool,
    /// Whether a device computes the products.
    pub on_device: bool,
}

impl FormatRequest {
    /// Returns the format with its parameters and its size.
    pub fn choose_kind<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(FormatKind, FormatSize)> {
        let kind = match self.format {
            Format::Auto => return self.choose_smallest(a, workers),
            Format::Coo => FormatKind::Coo,
            Format::Csr => FormatKind::Csr,
            Format::Csc => FormatKind::Csc,
            Format::Bsr => return self.check_memory(self.choose_bsr(a, workers)?),
            Format::Dia => FormatKind::Dia,
            Format::Ell => FormatKind::Ell,
            Format::Sell => return self.check_memory(self.choose_sell(a, workers)?),
            Format::Jds => FormatKind::Jds,
            Format::Tjds => FormatKind::Tjds,
            Format::Skyline => FormatKind::Skyline,
            Format::Diagonal => FormatKind::Diagonal,
        };
        self.check_memory((kind, kind.size(a, workers)?))
    }

    /// Returns the format that moves the fewest bytes: diagonal for a diagonal matrix, otherwise csr, dia (with at most
    /// `MAX_DIAGONALS` diagonals), sell or bsr. If two formats move equally many bytes, selects the earlier one in this
    /// list. Dia, sell and bsr must not exceed the memory limit. The size of sell or bsr requires a pass over the
    /// matrix. This pass is omitted if the size cannot be smaller than the smallest size so far.
    fn choose_smallest<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(FormatKind, FormatSize)> {
        if is_diagonal(a) {
            return Ok((FormatKind::Diagonal, FormatKind::Diagonal.size(a, workers)?));
        }
        let mut best = (FormatKind::Csr, FormatKind::Csr.size(a, workers)?);
        if offsets(a, MAX_DIAGONALS, workers)?.is_some() {
            self.keep_smaller((FormatKind::Dia, FormatKind::Dia.size(a, workers)?), &mut best);
        }
        let entry_bytes = (size_of::<f64>() + size_of::<I>()) as u128;
        if a.val.len() as u128 * entry_bytes < best.1.bytes() {
            self.keep_smaller(self.choose_sell(a, workers)?, &mut best);
        }
        let requested = [self.block_size];
        for &b in if self.block_size > 0 { &requested[..] } else { &BLOCK_SIZES } {
            if may_fit(a, b, best.1.bytes())? {
                self.keep_smaller((FormatKind::Bsr(b), FormatKind::Bsr(b).size(a, workers)?), &mut best);
            }
        }
        Ok(best)
    }

    /// Replaces `best` by `candidate` if `candidate` moves fewer bytes and does not exceed the memory limit.
    fn keep_smaller(&self, candidate: (FormatKind, FormatSize), best: &mut (FormatKind, FormatSize)) {
        if candidate.1.bytes() < best.1.bytes().min(self.memory_limit + 1) {
            *best = candidate;
        }
    }

    /// Returns bsr with the requested block size, or with the block size that needs the fewest bytes.
    fn choose_bsr<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(FormatKind, FormatSize)> {
        let mut with_block_size = |b| FormatKind::Bsr(b).size(a, workers).map(|size| (FormatKind::Bsr(b), size));
        if self.block_size > 0 {
            return with_block_size(self.block_size);
        }
        let mut best = with_block_size(BLOCK_SIZES[0])?;
        for b in &BLOCK_SIZES[1..] {
            let candidate = with_block_size(*b)?;
            if candidate.1.bytes() < best.1.bytes() {
                best = candidate;
            }
        }
        Ok(best)
    }

    /// Returns sell with the requested parameters. With `sigma` = 0, rows are sorted only if this reduces the size of
    /// the arrays.
    fn choose_sell<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<(FormatKind, FormatSize)> {
        let slice_rows = match self.slice_rows {
            0 if self.on_device => DEVICE_SLICE_ROWS,
            0 => DEFAULT_SLICE_ROWS,
            requested => requested,
        };
        let mut with_sigma = |sigma| {
            let kind = FormatKind::Sell(SellShape { slice_rows, sigma, separates_long_rows: self.for_products });
            kind.size(a, workers).map(|size| (kind, size))
        };
        if self.sigma > 0 {
            return with_sigma(self.sigma);
        }
        let (unsorted, sorted) = (with_sigma(1)?, with_sigma(SORT_WINDOWS[usize::from(self.on_device)])?);
        Ok(if sorted.1.bytes() < unsorted.1.bytes() { sorted } else { unsorted })
    }

    /// Returns the format, or an error if a format other than csr exceeds the memory limit.
    fn check_memory(&self, (kind, size): (FormatKind, FormatSize)) -> Result<(FormatKind, FormatSize)> {
        let (bytes, memory_limit) = (size.bytes(), self.memory_limit);
        if kind == FormatKind::Csr || bytes <= memory_limit {
            return Ok((kind, size));
        }
        let name = kind.format().name();
        Err(Error::Memory(format!("format={name} would need {bytes} bytes, more than format_memory = {memory_limit}")))
    }
}
