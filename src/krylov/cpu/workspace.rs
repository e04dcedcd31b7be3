//! Numbered vectors that the threads of a run share.

use super::chunks::Chunks;
use super::observed::SharedRunState;
use crate::base::reduce::Partials;
use crate::base::shared::Shared;
use crate::error::{Result, reserve};
use crate::krylov::vectors::VectorId;
use std::ops::Range;

/// Maximum number of sums per pass over the vectors.
pub const SUMS_PER_PASS: usize = 4;

/// Positions of lines in the vectors. A line is a sequence of consecutive values in the user's arrays, such as a grid
/// row. A chunk consists of whole lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Number of lines.
    pub count: usize,
    /// Number of values of a line; the last line may be shorter.
    pub len: usize,
    /// Index of the first value of line 0 in a vector.
    pub first_index: usize,
    /// Distance between the first values of consecutive lines in a vector.
    pub stride: usize,
}

impl Lines {
    /// Returns the lines within `own_rows`, each with its range in a vector. `own_rows`: rows of one or more chunks;
    /// `rows`: length of a vector.
    pub fn lines_within(
        self,
        own_rows: &Range<usize>,
        rows: usize,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let lines_before = self.first_index / self.stride;
        let line_of_row = |row: usize| row.div_ceil(self.stride).saturating_sub(lines_before).min(self.count);
        (line_of_row(own_rows.start)..line_of_row(own_rows.end)).map(move |line| {
            let start = self.first_index + line * self.stride;
            (line, start..rows.min(start + self.len))
        })
    }
}

/// Vectors of a system, and workspace for sums over them.
pub struct Workspace {
    pub chunks: Chunks,
    pub lines: Lines,
    /// Vectors, indexed by [`VectorId`].
    vectors: Vec<Shared>,
    /// Workspace for sums over chunks.
    pub partials: Partials,
    pub run_state: SharedRunState,
}

impl Workspace {
    /// Allocates x, b and r.
    pub fn new(chunks: Chunks, lines: Lines) -> Result<Self> {
        let mut workspace = Self {
            chunks,
            lines,
            vectors: Vec::new(),
            partials: Partials::new(chunks.count(), SUMS_PER_PASS)?,
            run_state: SharedRunState::default(),
        };
        workspace.reserve_vectors(0)?;
        Ok(workspace)
    }

    /// Allocates `work_vector_count` vectors in addition to x, b and r.
    pub fn reserve_vectors(&mut self, work_vector_count: usize) -> Result<()> {
        let missing = VectorId::work(work_vector_count).0.saturating_sub(self.vectors.len());
        reserve(&mut self.vectors, missing, "vectors of a solve")?;
        for _ in 0..missing {
            self.vectors.push(Shared::zeroed(self.chunks.rows)?);
        }
        Ok(())
    }

    pub fn vector(&self, id: VectorId) -> &Shared {
        &self.vectors[id.0]
    }

    /// Sets all vectors to zero. After a breakdown, the vectors may contain infinities, and an infinity times 0 is NaN.
    pub fn clear_vectors(&mut self) {
        for vector in &self.vectors {
            // SAFETY: this function borrows the workspace mutably, so no run is in progress.
            unsafe { vector.clear() };
        }
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.vectors.iter().map(Shared::bytes).sum::<usize>() + 2 * self.partials.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_within_returns_lines_of_chunks() {
        // Four lines of 5 values, with two values before and after each line, and two lines without values before and
        // after the four lines.
        let lines = Lines { count: 4, len: 5, first_index: 2 * 9 + 2, stride: 9 };
        let chunk_lines = |chunk_rows: usize| {
            let chunks = Chunks { rows: 8 * 9, chunk_rows };
            let lines_of_chunk = |k: usize| lines.lines_within(&chunks.range(k), chunks.rows);
            (0..chunks.count()).flat_map(lines_of_chunk).collect::<Vec<_>>()
        };
        let expected: Vec<_> = (0..4).map(|line| (line, 20 + 9 * line..25 + 9 * line)).collect();
        assert_eq!((chunk_lines(9), chunk_lines(27), chunk_lines(72)), (expected.clone(), expected.clone(), expected));
        // Here, each line is a chunk.
        let (lines, chunks) =
            (Lines { count: 3, len: 4, first_index: 0, stride: 4 }, Chunks { rows: 10, chunk_rows: 4 });
        assert_eq!(lines.lines_within(&chunks.range(2), 10).collect::<Vec<_>>(), [(2, 8..10)]);
        assert_eq!(lines.lines_within(&(10..10), 10).count(), 0);
    }
}
