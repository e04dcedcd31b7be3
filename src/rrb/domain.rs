//! One rank of a grid that is distributed by strips of rows: the rows of this rank, and the collective exchange of
//! errors and of matrix properties.

use crate::base::heap::FallibleArc;
use crate::distributed::strips::Strips;
use crate::distributed::{Comm, Gather};
use crate::error::{Error, Result, collected, push};
use crate::rrb::layout::Layout;
use crate::stencil::inspection::RankResult;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "rows of other ranks";

/// Number of halo rows J on each side in which a rank stores the matrix before its elimination. Three are necessary.
/// The sweeps process the b1 nodes of one halo row, so a rank must eliminate these nodes. This requires that the rank
/// first eliminates the red nodes of two halo rows, for which it needs the matrix in three halo rows.
pub const MATRIX_HALO_ROWS: usize = 3;
/// Number of halo rows J on each side for which there is memory. It is one more than [`MATRIX_HALO_ROWS`], because the
/// copy of natural rows to the arrays by colour also writes the row above.
pub const STORED_HALO_ROWS: usize = MATRIX_HALO_ROWS + 1;
/// Numbers of natural rows j below and above the rows of this rank from which the rank builds its halo: two per halo
/// row J. One more row is needed below, because that row stores the north couplings to the lowest row of the halo.
pub const NATURAL_ROWS_BELOW: usize = 2 * MATRIX_HALO_ROWS + 1;
pub const NATURAL_ROWS_ABOVE: usize = 2 * MATRIX_HALO_ROWS;

/// One rank of a distributed grid.
#[derive(Clone)]
pub struct Domain {
    pub comm: FallibleArc<Comm>,
    pub strips: FallibleArc<Strips>,
    /// Whether sums are bitwise identical to those computed by one rank.
    pub reproducible: bool,
    /// Bits of the largest center of the matrix that was inspected last.
    center_max_bits: FallibleArc<AtomicU64>,
}

impl Domain {
    pub fn new(comm: &FallibleArc<Comm>, strips: &FallibleArc<Strips>, reproducible: bool) -> Result<Self> {
        let center_max_bits = FallibleArc::new(AtomicU64::new(0), ALLOCATION_NAME)?;
        Ok(Self { comm: comm.clone(), strips: strips.clone(), reproducible, center_max_bits })
    }

    /// Returns the largest center of the matrix that was inspected last. This value replaces zero pivots (see
    /// [`PivotContext::center_substitute`](crate::rrb::backend::PivotContext::center_substitute)).
    pub fn center_max(&self) -> f64 {
        f64::from_bits(self.center_max_bits.load(Ordering::Relaxed))
    }

    pub fn set_center_max(&self, center: f64) {
        self.center_max_bits.store(center.to_bits(), Ordering::Relaxed);
    }

    /// Returns the rows J of grid q that this rank owns.
    pub fn rows(&self, q: usize) -> Range<usize> {
        self.strips.rows(q, self.comm.rank())
    }

    /// Returns whether grid q is distributed; the coarser grids are stored completely on every rank.
    pub fn is_distributed(&self, q: usize) -> bool {
        q < self.strips.depth
    }

    /// Restricts `layout`, the layout of the whole grid q, to the rows that this rank stores.
    pub fn layout(&self, q: usize, layout: Layout) -> Layout {
        if !self.is_distributed(q) {
            return layout;
        }
        let rows = self.rows(q);
        if rows.is_empty() {
            return layout.strip(0, 0);
        }
        layout.strip(rows.start.saturating_sub(STORED_HALO_ROWS), (rows.end + STORED_HALO_ROWS).min(layout.cy))
    }

    /// Returns the natural rows of the caller's arrays that `rank` needs: the rows that it owns, and the halo.
    pub fn rows_with_halo(strips: &Strips, rank: usize) -> Range<usize> {
        let rows = strips.natural_rows(rank);
        if rows.is_empty() {
            return rows;
        }
        rows.start.saturating_sub(NATURAL_ROWS_BELOW)..(rows.end + NATURAL_ROWS_ABOVE).min(strips.grid.ny)
    }

    /// Returns the first error of all ranks. Errors without a node come first; the other errors are ordered by level,
    /// row and column. The rank that has the first error returns this error; the other ranks return
    /// [`Error::OtherRanks`]. If the communication fails, returns the communication error. Collective.
    pub fn first_failure(&self, own_error: Option<Error>) -> Option<Error> {
        self.first_error(own_error).unwrap_or_else(Some)
    }

    /// Returns an error on all ranks if any rank has an error (see [`Self::first_failure`]). Collective.
    pub fn share_error(&self, own_error: Option<Error>) -> Result<()> {
        self.first_error(own_error)?.map_or(Ok(()), Err)
    }

    fn first_error(&self, own_error: Option<Error>) -> Result<Option<Error>> {
        const WORDS_PER_RANK: usize = 4;
        let place = own_error.as_ref().and_then(Error::matrix_location).and_then(|place| place.as_node());
        let (level, i, j) = place.unwrap_or((0, 0, 0));
        let status = own_error.as_ref().map_or(0, Error::status);
        let mut gather =
            Gather::new(&self.comm, &collected((0..self.comm.size()).map(|_| WORDS_PER_RANK), ALLOCATION_NAME)?)?;
        let own_words = [f64::from(status), level as f64, j as f64, i as f64];
        let all_words = gather.run(|buffer| buffer.copy_from_slice(&own_words))?;
        let failures = all_words.chunks_exact(WORDS_PER_RANK).enumerate().filter(|(_, words)| words[0] != 0.0);
        let sort_key = |words: &[f64]| [words[1], words[2], words[3]].map(f64::to_bits);
        let first_failure = failures.min_by_key(|(rank, words)| (sort_key(words), *rank));
        Ok(first_failure.map(|(rank, words)| match own_error {
            Some(error) if rank == self.comm.rank() => error,
            _ => Error::on_other_rank(rank, words[0] as i32),
        }))
    }

    /// Returns the inspection results of all ranks, in the order of the ranks. Collective.
    pub fn gather_results(&self, own_result: &RankResult) -> Result<Vec<RankResult>> {
        let own_words = own_result.to_words()?;
        let rank_count = self.comm.size();
        let mut length_gather = Gather::new(&self.comm, &collected((0..rank_count).map(|_| 1), ALLOCATION_NAME)?)?;
        let lengths = collected(
            length_gather.run(|buffer| buffer[0] = own_words.len() as f64)?.iter().map(|&n| n as usize),
            ALLOCATION_NAME,
        )?;
        let mut gather = Gather::new(&self.comm, &lengths)?;
        let mut remaining_words = gather.run(|buffer| buffer.copy_from_slice(&own_words))?;
        let mut results = Vec::new();
        for length in lengths {
            let words;
            (words, remaining_words) = remaining_words.split_at(length);
            push(&mut results, RankResult::from_words(words)?, ALLOCATION_NAME)?;
        }
        Ok(results)
    }
}
