//! Rows in chunks of a fixed length: sums are noted chunk by chunk, so that their bits do not depend on the number of
//! threads, and a member of a team has whole chunks.

use crate::runtime::team::Me;
use std::ops::Range;

/// Rows of a chunk: 16 KiB of a vector, so that what a step reads and writes of it stays in the first caches.
pub const CHUNK: usize = 2048;

/// Rows 0..rows in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    pub rows: usize,
    /// Rows of each chunk but the last.
    pub chunk: usize,
}

impl Chunks {
    pub fn new(rows: usize) -> Self {
        Self { rows, chunk: CHUNK }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.rows.div_ceil(self.chunk)
    }

    /// Rows of chunk `chunk`.
    pub fn range(&self, chunk: usize) -> Range<usize> {
        let end = |chunk: usize| (chunk * self.chunk).min(self.rows);
        end(chunk)..end(chunk + 1)
    }

    /// Chunks of a member: contiguous, the same in every step.
    pub fn share(&self, me: &Me) -> Range<usize> {
        me.share(self.count())
    }

    /// Rows of a member: those of its chunks.
    pub fn own(&self, me: &Me) -> Range<usize> {
        let share = self.share(me);
        self.range(share.start).start..self.range(share.end).start
    }

    /// Rows of a member where they may be cut at multiples of `grain` alone: its own, but for those that complete one.
    pub fn part(&self, me: &Me, grain: usize) -> Range<usize> {
        let own = self.own(me);
        let cut = |row: usize| if row == self.rows { row } else { row.next_multiple_of(grain).min(self.rows) };
        cut(own.start)..cut(own.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::team::Team;
    use std::sync::Mutex;

    #[test]
    fn members_have_all_rows_once() {
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
