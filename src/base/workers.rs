//! Thread team for divisible work such as parsing, sorting and conversion. The team is started only if the work is
//! large enough.

use crate::base::team::{Team, share};
use crate::error::{Result, collected, push};
use std::ops::Range;

/// Pieces per thread. With more than one piece per thread, a thread that finishes early can process pieces of slower
/// threads.
const PIECES_OF_A_THREAD: usize = 4;
/// Minimum work in bytes for which threads are started. Such work takes at least 5 times as long as the start of a
/// thread, which takes as long as reading about 20 kB of text, or moving about 200 kB.
const LEAST_TEAM_BYTES: usize = 1 << 20;
/// Minimum number of values per part of a lane. [`across`] divides lanes into such parts.
const LEAST_ACROSS: usize = 1024;
/// Name of an allocation in error messages.
const PIECES: &str = "pieces of work";

/// Maximum number of threads, and the thread team once it is started.
pub struct Workers {
    threads: Threads,
    /// Minimum work in bytes for which threads are started.
    min_bytes: usize,
    team: Option<Team>,
}

/// Number of threads, or a function that returns this number whenever it is needed.
#[derive(Clone, Copy)]
enum Threads {
    Count(usize),
    Function(fn() -> usize),
}

impl Workers {
    /// Uses at most `threads` threads, including the calling thread.
    pub fn new(threads: usize) -> Self {
        Self { threads: Threads::Count(threads), min_bytes: LEAST_TEAM_BYTES, team: None }
    }

    /// Uses at most `ask()` threads. Calls `ask` only if there is enough work for several threads.
    pub fn from_function(ask: fn() -> usize) -> Self {
        Self { threads: Threads::Function(ask), min_bytes: LEAST_TEAM_BYTES, team: None }
    }

    /// Uses the calling thread only.
    pub fn alone() -> Self {
        Self::new(1)
    }

    /// Starts threads for any amount of work; for tests.
    pub fn eager(threads: usize) -> Self {
        Self { min_bytes: 0, ..Self::new(threads) }
    }

    /// Returns the number of threads for work on `bytes` bytes.
    pub fn threads(&self, bytes: usize) -> usize {
        if bytes < self.min_bytes { 1 } else { self.max_threads() }
    }

    fn max_threads(&self) -> usize {
        match self.threads {
            Threads::Count(threads) => threads.max(1),
            Threads::Function(ask) => ask().max(1),
        }
    }

    /// Returns the number of pieces into which work on `bytes` bytes is divided.
    pub fn pieces(&self, bytes: usize) -> usize {
        match self.threads(bytes) {
            1 => 1,
            threads => PIECES_OF_A_THREAD * threads,
        }
    }

    /// Returns the number of pieces into which [`across`] divides lanes of `n` values. Each part of a lane costs
    /// memory, so every part has at least `LEAST_ACROSS` values.
    pub fn pieces_across(&self, n: usize, bytes: usize) -> usize {
        self.pieces(bytes).min(n / LEAST_ACROSS).max(1)
    }

    /// Returns the results of `work` for all pieces, in the order of the pieces. If threads cannot be started, the
    /// calling thread does all pieces.
    pub fn map<T: Send, R: Send>(
        &mut self,
        pieces: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Result<Vec<R>> {
        let pieces = collected(pieces, PIECES)?;
        if pieces.len() <= 1 || self.max_threads() == 1 {
            return collected(pieces.into_iter().map(work), PIECES);
        }
        let team = match self.team.take() {
            Some(team) => team,
            None => Team::new(self.max_threads()).or_else(|_| Team::new(1))?,
        };
        self.team.insert(team).map(pieces, work)
    }

    /// Runs `work` on all pieces, as [`Self::map`] without results.
    pub fn each<T: Send>(&mut self, pieces: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) -> Result<()> {
        self.map(pieces, work).map(drop)
    }
}

/// Divides 0..n into `pieces` contiguous ranges of about equal length.
pub fn cut(n: usize, pieces: usize) -> impl Iterator<Item = Range<usize>> {
    (0..pieces).map(move |k| share(n, k, pieces))
}

/// Divides lanes into contiguous ranges with about equal numbers of entries. Lane l consists of the entries
/// `ptr[l]..ptr[l + 1]`.
pub fn cut_lanes(ptr: &[usize], pieces: usize) -> impl Iterator<Item = Range<usize>> {
    let lanes = ptr.len() - 1;
    let (first, entries) = (ptr[0], ptr[lanes] - ptr[0]);
    let start = move |k: usize| match k {
        0 => 0,
        k if k == pieces => lanes,
        k => ptr.partition_point(|&at| at < first + share(entries, k, pieces).start).min(lanes),
    };
    (0..pieces).map(move |k| start(k)..start(k + 1))
}

/// Array of which consecutive parts are split off from the front.
pub struct Parts<'a, T>(pub &'a mut [T]);

impl<'a, T> Parts<'a, T> {
    /// Splits off the next `count` values, or all remaining values if there are fewer.
    pub fn next(&mut self, count: usize) -> &'a mut [T] {
        self.0.split_off_mut(..count.min(self.0.len())).unwrap_or_default()
    }
}

/// A range of positions, and the slice of each lane in this range.
pub type Across<'a, T> = (Range<usize>, Vec<&'a mut [T]>);

/// Divides each lane of an array into the ranges `cuts`. A lane is `len` consecutive values of the array. The ranges
/// must be contiguous and ascending.
pub fn across<T>(array: &mut [T], len: usize, cuts: impl Iterator<Item = Range<usize>>) -> Result<Vec<Across<'_, T>>> {
    let mut lanes = collected(array.chunks_mut(len.max(1)).map(Parts), PIECES)?;
    let mut all = Vec::new();
    for cut in cuts {
        let parts = lanes.iter_mut().map(|lane| lane.next(cut.len()));
        let parts = collected(parts, PIECES)?;
        push(&mut all, (cut, parts), PIECES)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        let ptr = [0, 0, 0, 5, 5, 6, 100, 100, 101, 101];
        for pieces in [1, 2, 3, 7, 200] {
            assert_eq!(cut_lanes(&ptr, pieces).flatten().collect::<Vec<_>>(), (0..9).collect::<Vec<_>>(), "{pieces}");
            assert_eq!(cut_lanes(&[0], pieces).flatten().count(), 0);
            for n in [0, 1, 5, 100] {
                assert_eq!(cut(n, pieces).flatten().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            }
        }
        // The division balances entries, not lanes.
        assert_eq!(cut_lanes(&ptr, 2).collect::<Vec<_>>(), [0..6, 6..9]);
    }

    #[test]
    fn little_work_starts_no_thread() {
        let mut workers = Workers::new(3);
        let mut lengths = |bytes| {
            let pieces = cut(100, workers.pieces(bytes));
            let lengths = workers.map(pieces, |piece| piece.len()).unwrap();
            (lengths, workers.team.is_some())
        };
        assert_eq!(lengths(LEAST_TEAM_BYTES - 1), (vec![100], false));
        let (pieces, started) = lengths(LEAST_TEAM_BYTES);
        assert_eq!((pieces.len(), pieces.iter().sum(), started), (12, 100, true));
        assert_eq!(workers.team.as_ref().map(Team::members), Some(3));
    }

    #[test]
    fn lanes_are_cut_across() {
        let mut array: Vec<usize> = (0..15).collect();
        for (cut, parts) in across(&mut array, 5, cut(5, 3)).unwrap() {
            assert_eq!(parts.len(), 3);
            for (lane, part) in parts.iter().enumerate() {
                assert_eq!(**part, cut.clone().map(|k| 5 * lane + k).collect::<Vec<_>>()[..]);
            }
        }
    }
}
