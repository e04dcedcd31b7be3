//! Thread team for work that is divided into independent pieces, such as parsing, sorting and conversion. The team is
//! started only if the work is large enough.

use crate::base::team::{Team, thread_share};
use crate::error::{Result, collected, push, reserve};
use std::ops::Range;

/// Pieces of work per thread. With more than one piece per thread, a thread that finishes early can process pieces of
/// slower threads.
const PIECES_PER_THREAD: usize = 4;
/// Minimum work in bytes for which threads are started. Such work takes at least 5 times as long as the start of a
/// thread. The start of a thread takes as long as parsing about 20 kB of text or copying about 200 kB.
const MIN_TEAM_BYTES: usize = 1 << 20;
/// Minimum length of the ranges into which [`divide_each_lane`] divides a lane.
const MIN_PART_LEN: usize = 1024;
/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "pieces of work";

/// Maximum number of threads, and the thread team once it is started.
pub struct Workers {
    threads: ThreadLimit,
    /// Minimum work in bytes for which threads are started.
    min_bytes: usize,
    team: Option<Team>,
}

/// Number of threads, or a function that returns this number whenever it is needed.
#[derive(Clone, Copy)]
enum ThreadLimit {
    Fixed(usize),
    Function(fn() -> usize),
}

impl Workers {
    /// Uses at most `threads` threads, including the calling thread.
    pub fn new(threads: usize) -> Self {
        Self { threads: ThreadLimit::Fixed(threads), min_bytes: MIN_TEAM_BYTES, team: None }
    }

    /// Uses at most `get_thread_count()` threads. Calls `get_thread_count` only if there is enough work for several
    /// threads.
    pub fn from_function(get_thread_count: fn() -> usize) -> Self {
        Self { threads: ThreadLimit::Function(get_thread_count), min_bytes: MIN_TEAM_BYTES, team: None }
    }

    /// Uses the calling thread only.
    pub fn single_threaded() -> Self {
        Self::new(1)
    }

    /// Starts threads for any amount of work; for tests.
    pub fn always_parallel(threads: usize) -> Self {
        Self { min_bytes: 0, ..Self::new(threads) }
    }

    /// Returns the number of threads for work on `bytes` bytes.
    pub fn threads(&self, bytes: usize) -> usize {
        if bytes < self.min_bytes { 1 } else { self.max_threads() }
    }

    fn max_threads(&self) -> usize {
        match self.threads {
            ThreadLimit::Fixed(threads) => threads.max(1),
            ThreadLimit::Function(get_thread_count) => get_thread_count().max(1),
        }
    }

    /// Returns the number of pieces into which work on `bytes` bytes is divided.
    pub fn piece_count(&self, bytes: usize) -> usize {
        match self.threads(bytes) {
            1 => 1,
            threads => PIECES_PER_THREAD * threads,
        }
    }

    /// Returns the number of ranges into which [`divide_each_lane`] should divide lanes of `n` values, for work on
    /// `bytes` bytes. Each range has at least `MIN_PART_LEN` values, because its slices cost memory.
    pub fn lane_part_count(&self, n: usize, bytes: usize) -> usize {
        self.piece_count(bytes).min(n / MIN_PART_LEN).max(1)
    }

    /// Returns the results of `work` for all `pieces`, in the order of `pieces`. If threads cannot be started, the
    /// calling thread processes all pieces.
    pub fn map<T: Send, R: Send>(
        &mut self,
        pieces: impl IntoIterator<Item = T>,
        work: impl Fn(T) -> R + Sync,
    ) -> Result<Vec<R>> {
        let pieces = collected(pieces, ALLOCATION_NAME)?;
        if pieces.len() <= 1 || self.max_threads() == 1 {
            return collected(pieces.into_iter().map(work), ALLOCATION_NAME);
        }
        let team = match self.team.take() {
            Some(team) => team,
            None => Team::new(self.max_threads()).or_else(|_| Team::new(1))?,
        };
        self.team.insert(team).map(pieces, work)
    }

    /// Returns a vector of the values `value_at(0)` to `value_at(count - 1)`. Each thread writes its part of the new
    /// memory.
    pub fn compute_values<T: Copy + Send>(
        &mut self,
        count: usize,
        allocation_name: &'static str,
        value_at: impl Fn(usize) -> T + Sync,
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        reserve(&mut values, count, allocation_name)?;
        let mut remaining = SliceSplitter(&mut values.spare_capacity_mut()[..count]);
        let pieces = divide_range(count, self.piece_count(count * size_of::<T>()))
            .map(|range| (remaining.take_front(range.len()), range));
        self.for_each_piece(pieces, |(part, range)| {
            part.iter_mut().zip(range).for_each(|(value, k)| _ = value.write(value_at(k)));
        })?;
        // SAFETY: the pieces cover 0..count, and `for_each_piece` has processed all of them.
        unsafe { values.set_len(count) };
        Ok(values)
    }

    /// Calls `work` for all `pieces`, as [`Self::map`], but without results.
    pub fn for_each_piece<T: Send>(
        &mut self,
        pieces: impl IntoIterator<Item = T>,
        work: impl Fn(T) + Sync,
    ) -> Result<()> {
        self.map(pieces, work).map(drop)
    }
}

/// Divides 0..n into `piece_count` contiguous ranges of about equal length.
pub fn divide_range(n: usize, piece_count: usize) -> impl Iterator<Item = Range<usize>> {
    (0..piece_count).map(move |k| thread_share(n, k, piece_count))
}

/// Divides the rows or columns of a compressed matrix (lanes) into contiguous ranges of lanes with about equal numbers
/// of entries. Lane l consists of the entries `ptr[l]..ptr[l + 1]`.
pub fn divide_lanes(ptr: &[usize], piece_count: usize) -> impl Iterator<Item = Range<usize>> {
    let lanes = ptr.len() - 1;
    let (first_entry, entries) = (ptr[0], ptr[lanes] - ptr[0]);
    let lane_start = move |k: usize| match k {
        0 => 0,
        k if k == piece_count => lanes,
        k => ptr.partition_point(|&entry| entry < first_entry + thread_share(entries, k, piece_count).start).min(lanes),
    };
    (0..piece_count).map(move |k| lane_start(k)..lane_start(k + 1))
}

/// Array from whose front consecutive slices are split off.
pub struct SliceSplitter<'a, T>(pub &'a mut [T]);

impl<'a, T> SliceSplitter<'a, T> {
    /// Splits off the next `count` values, or all remaining values if there are fewer.
    pub fn take_front(&mut self, count: usize) -> &'a mut [T] {
        self.0.split_off_mut(..count.min(self.0.len())).unwrap_or_default()
    }
}

/// A range of indices within a lane, and for each lane the slice of the values in this range.
pub type LaneParts<'a, T> = (Range<usize>, Vec<&'a mut [T]>);

/// Divides each lane of an array into slices. A lane is a vector of `len` consecutive values of the array, such as a
/// diagonal of a matrix. `ranges` are the ranges of indices of the slices within a lane; they must be contiguous and
/// ascending.
pub fn divide_each_lane<T>(
    array: &mut [T],
    len: usize,
    ranges: impl Iterator<Item = Range<usize>>,
) -> Result<Vec<LaneParts<'_, T>>> {
    let mut lanes = collected(array.chunks_mut(len.max(1)).map(SliceSplitter), ALLOCATION_NAME)?;
    let mut lane_parts = Vec::new();
    for range in ranges {
        let parts = lanes.iter_mut().map(|lane| lane.take_front(range.len()));
        let parts = collected(parts, ALLOCATION_NAME)?;
        push(&mut lane_parts, (range, parts), ALLOCATION_NAME)?;
    }
    Ok(lane_parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_indices_once() {
        let ptr = [0, 0, 0, 5, 5, 6, 100, 100, 101, 101];
        for piece_count in [1, 2, 3, 7, 200] {
            assert_eq!(
                divide_lanes(&ptr, piece_count).flatten().collect::<Vec<_>>(),
                (0..9).collect::<Vec<_>>(),
                "{piece_count}"
            );
            assert_eq!(divide_lanes(&[0], piece_count).flatten().count(), 0);
            for n in [0, 1, 5, 100] {
                assert_eq!(divide_range(n, piece_count).flatten().collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
            }
        }
        // The division balances entries, not lanes.
        assert_eq!(divide_lanes(&ptr, 2).collect::<Vec<_>>(), [0..6, 6..9]);
    }

    #[test]
    fn small_work_starts_no_thread() {
        let mut workers = Workers::new(3);
        let mut lengths = |bytes| {
            let ranges = divide_range(100, workers.piece_count(bytes));
            let lengths = workers.map(ranges, |range| range.len()).unwrap();
            (lengths, workers.team.is_some())
        };
        assert_eq!(lengths(MIN_TEAM_BYTES - 1), (vec![100], false));
        let (ranges, is_started) = lengths(MIN_TEAM_BYTES);
        assert_eq!((ranges.len(), ranges.iter().sum(), is_started), (12, 100, true));
        assert_eq!(workers.team.as_ref().map(Team::threads), Some(3));
    }

    #[test]
    fn divide_each_lane_returns_all_values() {
        let mut array: Vec<usize> = (0..15).collect();
        for (range, parts) in divide_each_lane(&mut array, 5, divide_range(5, 3)).unwrap() {
            assert_eq!(parts.len(), 3);
            for (lane, part) in parts.iter().enumerate() {
                assert_eq!(**part, range.clone().map(|k| 5 * lane + k).collect::<Vec<_>>()[..]);
            }
        }
    }
}
