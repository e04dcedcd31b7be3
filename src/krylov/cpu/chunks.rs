//! Rows in chunks of fixed length. Sums are computed per chunk, so that they are bitwise identical for any number of
//! threads. Each thread owns whole chunks.

use crate::base::team::Me;
use std::ops::Range;

/// Rows per chunk. A chunk of a vector has 16 KiB, so that the data of a step stay in the L1 or L2 cache.
pub const CHUNK: usize = 2048;

/// Division of the rows 0..`rows` into chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    pub rows: usize,
    /// Rows of each chunk except the last one.
    pub chunk: usize,
}

impl Chunks {
    pub fn new(rows: usize) -> Self {
        Self { rows, chunk: CHUNK }
    }

    /// Returns the number of chunks.
    pub fn count(&self) -> usize {
        self.rows.div_ceil(self.chunk)
    }

    /// Returns the rows of chunk `chunk`.
    pub fn range(&self, chunk: usize) -> Range<usize> {
        let end = |chunk: usize| (chunk * self.chunk).min(self.rows);
        end(chunk)..end(chunk + 1)
    }

    /// Returns the chunks of a thread. They are contiguous, and the same in every step.
    pub fn share(&self, me: &Me) -> Range<usize> {
        me.share(self.count())
    }

    /// Returns the rows of a thread: the rows of its chunks.
    pub fn own(&self, me: &Me) -> Range<usize> {
        let share = self.share(me);
        self.range(share.start).start..self.range(share.end).start
    }

    /// Returns the rows of a thread, with both ends rounded up to multiples of `grain`.
    pub fn part(&self, me: &Me, grain: usize) -> Range<usize> {
        let own = self.own(me);
        let cut = |row: usize| if row == self.rows { row } else { row.next_multiple_of(grain).min(self.rows) };
        cut(own.start)..cut(own.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::team::Team;
    use std::sync::Mutex;

    #[test]
    fn threads_own_every_row_once() {
        for members in [1, 2, 3, 7] {
            let mut team = Team::new(members).unwrap();
            for rows in [0, 1, 2047, 2048, 2049, 10_000] {
                let chunks = Chunks::new(rows);
                let all = Mutex::new(vec![0; rows]);
                let work = |me: Me| {
                    let by_chunks: Vec<usize> = chunks.share(&me).flat_map(|chunk| chunks.range(chunk)).collect();
                    assert_eq!(by_chunks, chunks.own(&me).collect::<Vec<_>>());
                    by_chunks.iter().for_each(|&row| all.lock().unwrap()[row] += 1);
                };
                team.run(work, work).unwrap();
                assert_eq!(*all.lock().unwrap(), vec![1; rows]);
            }
        }
    }
}
