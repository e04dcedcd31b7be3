//! Threads for work that comes in pieces, such as what is read, sorted or converted: started when they are worth it.

use crate::error::{Result, collected, push};
use crate::runtime::team::{Team, share};
use std::ops::Range;

/// Pieces for each thread, so that none waits long for the last one.
const PIECES_OF_A_THREAD: usize = 4;
/// Bytes of work from which on threads are started: to start one takes about as long as to read 20 kB of text, or to
/// move 200 kB.
const WORTH_A_TEAM: usize = 1 << 20;
/// Values of a part of a lane at least.
const LEAST_ACROSS: usize = 1024;
/// For errors.
const PIECES: &str = "pieces of work";

/// Threads at most, and those that were started.
pub struct Workers {
    threads: Threads,
    worth: usize,
    team: Option<Team>,
}

/// How many, or who says it where that matters.
#[derive(Clone, Copy)]
enum Threads {
    Known(usize),
    Asked(fn() -> usize),
}

impl Workers {
    /// This thread and so many others that all are `threads`.
    pub fn new(threads: usize) -> Self {
        Self { threads: Threads::Known(threads), worth: WORTH_A_TEAM, team: None }
    }

    /// As many as `ask` says when there is work for them.
    pub fn asked(ask: fn() -> usize) -> Self {
        Self { threads: Threads::Asked(ask), worth: WORTH_A_TEAM, team: None }
    }

    /// The calling thread.
    pub fn alone() -> Self {
        Self::new(1)
    }

    /// With threads for any work, however little: for tests.
    pub fn eager(threads: usize) -> Self {
        Self { worth: 0, ..Self::new(threads) }
    }

    /// Threads for work on so many bytes.
    pub fn threads(&self, bytes: usize) -> usize {
        if bytes < self.worth { 1 } else { self.most() }
    }

    fn most(&self) -> usize {
        match self.threads {
            Threads::Known(threads) => threads.max(1),
            Threads::Asked(ask) => ask().max(1),
        }
    }

    /// In how many pieces such work is done.
    pub fn pieces(&self, bytes: usize) -> usize {
        match self.threads(bytes) {
            1 => 1,
            threads => PIECES_OF_A_THREAD * threads,
        }
    }

    /// The same of `n` lanes that are cut across, each of whose parts takes room: none is short.
    pub fn pieces_across(&self, n: usize, bytes: usize) -> usize {
        self.pieces(bytes).min(n / LEAST_ACROSS).max(1)
    }

    /// What `work` gives of each piece, in their order. Where threads cannot be started this one does all.
    pub fn map<T: Send, R: Send>(
        &mut self,
        pieces: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Result<Vec<R>> {
        let pieces = collected(pieces, PIECES)?;
        if pieces.len() <= 1 || self.most() == 1 {
            return collected(pieces.into_iter().map(work), PIECES);
        }
        let team = match self.team.take() {
            Some(team) => team,
            None => Team::new(self.most()).or_else(|_| Team::new(1))?,
        };
        self.team.insert(team).map(pieces, work)
    }

    /// The same of work that gives nothing.
    pub fn each<T: Send>(&mut self, pieces: impl IntoIterator<Item = T>, work: impl Fn(T) + Sync) -> Result<()> {
        self.map(pieces, work).map(drop)
    }
}

/// 0..n in pieces of about the same length.
pub fn cut(n: usize, pieces: usize) -> impl Iterator<Item = Range<usize>> {
    (0..pieces).map(move |k| share(n, k, pieces))
}

/// The lanes that begin and end at `ptr` in pieces of about as many entries.
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

/// An array that is handed out in parts, one after another.
pub struct Parts<'a, T>(pub &'a mut [T]);

impl<'a, T> Parts<'a, T> {
    /// The next so many values, or as many as are left.
    pub fn next(&mut self, count: usize) -> &'a mut [T] {
        self.0.split_off_mut(..count.min(self.0.len())).unwrap_or_default()
    }
}

/// A range, and the part of each lane in it.
pub type Across<'a, T> = (Range<usize>, Vec<&'a mut [T]>);

/// Of lanes of `len` values that lie one behind another the part in each of these ranges, which follow one another.
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
        // By entries, not by lanes.
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
        assert_eq!(lengths(WORTH_A_TEAM - 1), (vec![100], false));
        let (pieces, started) = lengths(WORTH_A_TEAM);
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
