//! Division of a sweep or triangular solve among threads. The rows have an order of processing. A unit consists of
//! consecutive rows of this order, which one thread processes. A level consists of independent units. A stage is either
//! one large level, whose units the threads share, or several small levels, which thread 0 processes in order. A team
//! executes the stages one after another. The result for a row does not depend on the thread that computes it.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::team::TeamThread;
use crate::error::{Result, collected, push};
use crate::sparse::{colour_rows, sort_by_level};
use std::ops::Range;

const ALLOCATION_NAME: &str = "the order of rows";

/// Thread 0 processes a level alone if the number of rows plus the number of entries of the level is less than this. A
/// barrier takes 1 to 2 microseconds. A row or entry takes about 2 nanoseconds, of which a second thread saves at most
/// half.
const MIN_SHARED_WORK: usize = 2048;

/// Number of rows per unit, if the rows of a level are independent of one another.
pub const UNIT_ROWS: usize = 64;

/// The rows in the order of processing, divided into units and levels. Units of a level are independent of one another.
/// One thread processes a unit, row by row.
pub struct ProcessingOrder<I> {
    /// Row at each position of the order.
    pub rows: Vec<I>,
    /// Position at which each unit begins. The last element is the end of the last unit.
    pub unit_starts: Vec<usize>,
    /// Index of the first unit of each level. The last element is the number of units.
    pub level_starts: Vec<usize>,
}

impl<I: Index> ProcessingOrder<I> {
    /// Sorts the rows by `level`, the level of each row. No level may be empty, and rows of the same level must be
    /// independent of one another.
    pub fn new(level: &[I], level_count: usize) -> Result<Self> {
        let (rows, position_starts) = sort_by_level(level, level_count)?;
        let mut order = Self {
            rows,
            unit_starts: collected([0], ALLOCATION_NAME)?,
            level_starts: collected([0], ALLOCATION_NAME)?,
        };
        for range in position_starts.windows(2) {
            for unit in (range[0]..range[1]).step_by(UNIT_ROWS) {
                push(&mut order.unit_starts, range[1].min(unit + UNIT_ROWS), ALLOCATION_NAME)?;
            }
            push(&mut order.level_starts, order.unit_starts.len() - 1, ALLOCATION_NAME)?;
        }
        Ok(order)
    }

    /// Orders the rows by colour ([`colour_rows`]).
    pub fn by_colours(a: &Csr<I>) -> Result<Self> {
        let (colour, colour_count) = colour_rows(a)?;
        Self::new(&colour, colour_count)
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.unit_starts) + size_of_val(&*self.level_starts)
    }
}

/// Consecutive units. The first unit is the `unit_end` of the previous stage, and the last unit is `unit_end` - 1.
struct Stage {
    unit_end: usize,
    /// Whether the stage consists of small levels, which thread 0 processes in order.
    on_thread_0: bool,
}

/// All units, divided into stages.
pub struct Stages(Vec<Stage>);

impl Stages {
    /// Divides the levels into stages. `level_starts` contains the index of the first unit of each level, and the
    /// number of units. `work_before(k)` is the number of rows plus entries in the units before unit k.
    pub fn new(level_starts: &[usize], work_before: impl Fn(usize) -> usize) -> Result<Self> {
        let mut stages: Vec<Stage> = Vec::new();
        for level in level_starts.windows(2) {
            let (unit_end, on_thread_0) = (level[1], work_before(level[1]) - work_before(level[0]) < MIN_SHARED_WORK);
            match stages.last_mut() {
                Some(last) if last.on_thread_0 && on_thread_0 => last.unit_end = unit_end,
                _ => push(&mut stages, Stage { unit_end, on_thread_0 }, ALLOCATION_NAME)?,
            }
        }
        Ok(Self(stages))
    }

    /// Calls `process_unit` for the units of this thread, stage after stage. If `backward` is true, stages and units
    /// are processed in reverse order. All threads call `run` together. Each stage ends with a barrier. If the threads
    /// share a stage, each thread gets about the same work, measured by `work_before`.
    pub fn run(
        &self,
        thread: &TeamThread,
        backward: bool,
        work_before: impl Fn(usize) -> usize,
        mut process_unit: impl FnMut(usize),
    ) {
        for step in 0..self.0.len() {
            let stage = if backward { self.0.len() - 1 - step } else { step };
            let stage_units =
                stage.checked_sub(1).map_or(0, |previous| self.0[previous].unit_end)..self.0[stage].unit_end;
            let own_units = if self.0[stage].on_thread_0 {
                if thread.index == 0 { stage_units } else { 0..0 }
            } else {
                share(&stage_units, thread, &work_before)
            };
            if backward {
                own_units.rev().for_each(&mut process_unit);
            } else {
                own_units.for_each(&mut process_unit);
            }
            thread.barrier();
        }
    }

    /// Returns the size of the array in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Returns the units of `stage_units` that `thread` processes.
fn share(stage_units: &Range<usize>, thread: &TeamThread, work_before: impl Fn(usize) -> usize) -> Range<usize> {
    let (work_at_start, total_work) =
        (work_before(stage_units.start), work_before(stage_units.end) - work_before(stage_units.start));
    // Returns the first unit of thread `thread_index`. The units of the stage before this unit contain at least the
    // fraction `thread_index` / `threads` of the work of the stage.
    let first_unit = |thread_index: usize| {
        let target_work = work_at_start + (total_work as u128 * thread_index as u128 / thread.threads as u128) as usize;
        let (mut low, mut high) = (stage_units.start, stage_units.end);
        while low < high {
            let middle = low.midpoint(high);
            if work_before(middle) < target_work {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    first_unit(thread.index)..first_unit(thread.index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::team::Team;
    use std::sync::Mutex;

    /// The levels have 1, 150 and 2 rows.
    #[test]
    fn rows_of_a_level_ascend() {
        let mut level = vec![1_u32; 153];
        (level[5], level[7], level[152]) = (2, 0, 2);
        let order = ProcessingOrder::new(&level, 3).unwrap();
        let (middle_level, last_level) = order.rows[1..].split_at(150);
        assert_eq!((order.rows[0], last_level), (7, &[5, 152][..]));
        assert!(middle_level.is_sorted() && middle_level.iter().all(|&row| level[row as usize] == 1));
        assert_eq!((order.unit_starts, order.level_starts), (vec![0, 1, 65, 129, 151, 153], vec![0, 1, 4, 5]));
    }

    /// With large and small levels, each unit is processed once, after the units of all previous levels. The units of
    /// small levels are processed in order.
    #[test]
    fn threads_process_levels_in_order() {
        let lengths = [3000, 5, 1, 7, 2500, 9, 4000];
        let mut starts = vec![0];
        lengths.iter().for_each(|length| starts.push(starts.last().unwrap() + length));
        let level = |unit: usize| starts.iter().rposition(|&start| start <= unit).unwrap();
        // Units have work 1, 2, 3, 1, ..., so the shares differ in length.
        let work_before = |k: usize| k / 3 * 6 + [0, 1, 3][k % 3];
        let stages = Stages::new(&starts, work_before).unwrap();
        assert_eq!(
            stages.0.iter().map(|stage| stage.on_thread_0).collect::<Vec<_>>(),
            [false, true, false, true, false]
        );
        for threads in [1, 2, 3, 7] {
            for backward in [false, true] {
                let visited = Mutex::new(Vec::new());
                let run_stages = |thread: TeamThread| {
                    let mut own_count = 0;
                    stages.run(&thread, backward, work_before, |unit| {
                        own_count += 1;
                        visited.lock().unwrap().push(unit);
                    });
                    own_count
                };
                let own_count = Team::new(threads).unwrap().run(|thread| _ = run_stages(thread), run_stages).unwrap();
                let visited = visited.into_inner().unwrap();
                let visited_levels: Vec<usize> = visited.iter().map(|&unit| level(unit)).collect();
                assert!(
                    visited_levels.is_sorted_by(|a, b| if backward { a >= b } else { a <= b }),
                    "{threads} {backward}"
                );
                let small_level_units: Vec<usize> =
                    visited.iter().copied().filter(|&p| (3000..3013).contains(&p)).collect();
                assert!(
                    small_level_units.is_sorted_by(|a, b| if backward { a > b } else { a < b }),
                    "{threads} {backward}"
                );
                let mut sorted_units = visited;
                sorted_units.sort_unstable();
                assert!(sorted_units.into_iter().eq(0..9522));
                // Each thread visits its share of the large levels, with a tolerance of one unit at each end. Thread 0
                // also visits all small levels.
                assert!(own_count <= 9500 / threads * 7 / 6 + 22 + 6, "{threads}: {own_count}");
            }
        }
    }
}
