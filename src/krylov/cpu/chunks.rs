//! Division of the rows of a vector into chunks of fixed length. Sums are computed per chunk, so that sums are bitwise
//! identical for any number of threads. Each thread owns whole chunks.

use crate::base::team::TeamThread;
use std::ops::Range;

/// Rows per chunk. A chunk of a vector has 16 KiB, so that the data of a step stay in the L1 or L2 cache.
pub const CHUNK_ROWS: usize = 2048;

/// Division of the rows 0..`rows` into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    pub rows: usize,
    /// Rows of each chunk except the last one.
    pub chunk_rows: usize,
}

impl Chunks {
    pub fn new(rows: usize) -> Self {
        Self { rows, chunk_rows: CHUNK_ROWS }
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.rows.div_ceil(self.chunk_rows)
    }

    /// Returns the rows of chunk `chunk`.
    pub fn range(&self, chunk: usize) -> Range<usize> {
        let chunk_end = |chunk: usize| (chunk * self.chunk_rows).min(self.rows);
        chunk_end(chunk)..chunk_end(chunk + 1)
    }

    /// Returns the range of chunks of a thread, which is the same in every step.
    pub fn own_chunks(&self, thread: &TeamThread) -> Range<usize> {
        thread.share(self.count())
    }

    /// Returns the rows of a thread: the rows of its chunks.
    pub fn own_rows(&self, thread: &TeamThread) -> Range<usize> {
        let own_chunks = self.own_chunks(thread);
        self.range(own_chunks.start).start..self.range(own_chunks.end).start
    }

    /// Returns the rows of a thread, with both ends rounded up to multiples of `grain`.
    pub fn aligned_own_rows(&self, thread: &TeamThread, grain: usize) -> Range<usize> {
        let own_rows = self.own_rows(thread);
        let round_up = |row: usize| if row == self.rows { row } else { row.next_multiple_of(grain).min(self.rows) };
        round_up(own_rows.start)..round_up(own_rows.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::team::Team;
    use std::sync::Mutex;

    #[test]
    fn each_row_belongs_to_one_thread() {
        for threads in [1, 2, 3, 7] {
            let mut team = Team::new(threads).unwrap();
            for rows in [0, 1, 2047, 2048, 2049, 10_000] {
                let chunks = Chunks::new(rows);
                let visit_counts = Mutex::new(vec![0; rows]);
                let visit_own_rows = |thread: TeamThread| {
                    let own_rows: Vec<usize> =
                        chunks.own_chunks(&thread).flat_map(|chunk| chunks.range(chunk)).collect();
                    assert_eq!(own_rows, chunks.own_rows(&thread).collect::<Vec<_>>());
                    own_rows.iter().for_each(|&row| visit_counts.lock().unwrap()[row] += 1);
                };
                team.run(visit_own_rows, visit_own_rows).unwrap();
                assert_eq!(*visit_counts.lock().unwrap(), vec![1; rows]);
            }
        }
    }
}
