//! Rows in the order of processing. A unit consists of consecutive rows of this order, which one thread processes; a
//! level consists of independent units. A team executes stages one after another. A stage is one large level, whose
//! units the threads share, or several small levels, which thread 0 processes in order. The result for a row does not
//! depend on the thread that computes it.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::team::Me;
use crate::error::{Result, collected, push};
use crate::sparse::{by_level, colours};
use std::ops::Range;

const WHAT: &str = "the order of rows";

/// Minimum number of rows plus entries of a level that the team shares. Thread 0 processes smaller levels alone. A
/// barrier takes 1 to 2 microseconds. A row or entry takes about 2 nanoseconds, of which a second thread saves at most
/// half.
const MIN_SHARED_WORK: usize = 2048;

/// Rows per unit, for units of independent rows.
pub const UNIT_ROWS: usize = 64;

/// Rows in the order of processing. Units of a level are independent; one thread processes a unit, row by row.
pub struct Order<I> {
    /// Row at each position.
    pub rows: Vec<I>,
    /// Position at which each unit begins; one more element is the end of the last unit.
    pub units: Vec<usize>,
    /// Number of the first unit of each level; one more element is the number of units.
    pub levels: Vec<usize>,
}

impl<I: Index> Order<I> {
    /// Creates the order from the level of each row. No level may be empty, and rows of a level must be independent.
    pub fn new(level: &[I], levels: usize) -> Result<Self> {
        let (rows, starts) = by_level(level, levels)?;
        let mut order = Self { rows, units: collected([0], WHAT)?, levels: collected([0], WHAT)? };
        for range in starts.windows(2) {
            for unit in (range[0]..range[1]).step_by(UNIT_ROWS) {
                push(&mut order.units, range[1].min(unit + UNIT_ROWS), WHAT)?;
            }
            push(&mut order.levels, order.units.len() - 1, WHAT)?;
        }
        Ok(order)
    }

    /// Orders the rows by colour ([`colours`]).
    pub fn by_colours(a: &Csr<I>) -> Result<Self> {
        let (colour, count) = colours(a)?;
        Self::new(&colour, count)
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.units) + size_of_val(&*self.levels)
    }
}

/// A range of consecutive units, which begins at the end of the previous stage.
struct Stage {
    end: usize,
    /// Whether the stage consists of small levels, which thread 0 processes in order.
    on_thread_0: bool,
}

/// All units, divided into stages.
pub struct Stages(Vec<Stage>);

impl Stages {
    /// Creates the stages. `levels` contains the first unit of each level, and `work(k)` is the number of rows and
    /// entries before unit `k`.
    pub fn new(levels: &[usize], work: impl Fn(usize) -> usize) -> Result<Self> {
        let mut stages: Vec<Stage> = Vec::new();
        for level in levels.windows(2) {
            let (end, on_thread_0) = (level[1], work(level[1]) - work(level[0]) < MIN_SHARED_WORK);
            match stages.last_mut() {
                Some(last) if last.on_thread_0 && on_thread_0 => last.end = end,
                _ => push(&mut stages, Stage { end, on_thread_0 }, WHAT)?,
            }
        }
        Ok(Self(stages))
    }

    /// Calls `visit` for the units of this thread, stage after stage; with `backward`, from the last unit to the first.
    /// All threads call this function together. Each stage ends with a barrier. The threads have about equal shares of
    /// the `work` of a stage.
    pub fn run(&self, me: &Me, backward: bool, work: impl Fn(usize) -> usize, mut visit: impl FnMut(usize)) {
        for step in 0..self.0.len() {
            let stage = if backward { self.0.len() - 1 - step } else { step };
            let all = stage.checked_sub(1).map_or(0, |before| self.0[before].end)..self.0[stage].end;
            let own =
                if self.0[stage].on_thread_0 { if me.index == 0 { all } else { 0..0 } } else { share(&all, me, &work) };
            if backward {
                own.rev().for_each(&mut visit);
            } else {
                own.for_each(&mut visit);
            }
            me.barrier();
        }
    }

    /// Returns the size of the array in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// Returns the units of a thread within a stage.
fn share(all: &Range<usize>, me: &Me, work: impl Fn(usize) -> usize) -> Range<usize> {
    let (first, total) = (work(all.start), work(all.end) - work(all.start));
    // Returns the first unit for which the previous units of the stage contain at least the shares of work of the
    // threads 0 to `member` - 1.
    let cut = |member: usize| {
        let wanted = first + (total as u128 * member as u128 / me.members as u128) as usize;
        let (mut low, mut high) = (all.start, all.end);
        while low < high {
            let middle = low.midpoint(high);
            if work(middle) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    };
    cut(me.index)..cut(me.index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::team::Team;
    use std::sync::Mutex;

    /// The order has levels of 1, 150 and 2 rows.
    #[test]
    fn rows_of_a_level_ascend() {
        let mut level = vec![1_u32; 153];
        (level[5], level[7], level[152]) = (2, 0, 2);
        let order = Order::new(&level, 3).unwrap();
        let (of_level, last) = order.rows[1..].split_at(150);
        assert_eq!((order.rows[0], last), (7, &[5, 152][..]));
        assert!(of_level.is_sorted() && of_level.iter().all(|&row| level[row as usize] == 1));
        assert_eq!((order.units, order.levels), (vec![0, 1, 65, 129, 151, 153], vec![0, 1, 4, 5]));
    }

    /// Large and small levels: each unit is visited once, after the units of all previous levels; small levels are
    /// visited in order.
    #[test]
    fn threads_process_levels_in_order() {
        let lengths = [3000, 5, 1, 7, 2500, 9, 4000];
        let mut starts = vec![0];
        lengths.iter().for_each(|length| starts.push(starts.last().unwrap() + length));
        let level = |unit: usize| starts.iter().rposition(|&start| start <= unit).unwrap();
        // Units have work 1, 2, 3, 1, ..., so the shares differ in length.
        let work = |k: usize| k / 3 * 6 + [0, 1, 3][k % 3];
        let stages = Stages::new(&starts, work).unwrap();
        assert_eq!(
            stages.0.iter().map(|stage| stage.on_thread_0).collect::<Vec<_>>(),
            [false, true, false, true, false]
        );
        for members in [1, 2, 3, 7] {
            for backward in [false, true] {
                let seen = Mutex::new(Vec::new());
                let run = |me: Me| {
                    let mut own = 0;
                    stages.run(&me, backward, work, |unit| {
                        own += 1;
                        seen.lock().unwrap().push(unit);
                    });
                    own
                };
                let own = Team::new(members).unwrap().run(|me| _ = run(me), run).unwrap();
                let seen = seen.into_inner().unwrap();
                let steps: Vec<usize> = seen.iter().map(|&unit| level(unit)).collect();
                assert!(steps.is_sorted_by(|a, b| if backward { a >= b } else { a <= b }), "{members} {backward}");
                let narrow: Vec<usize> = seen.iter().copied().filter(|&p| (3000..3013).contains(&p)).collect();
                assert!(narrow.is_sorted_by(|a, b| if backward { a > b } else { a < b }), "{members} {backward}");
                let mut all = seen;
                all.sort_unstable();
                assert!(all.into_iter().eq(0..9522));
                // Each thread visits its share of the large levels, with a tolerance of one unit at each end. Thread 0
                // also visits all small levels.
                assert!(own <= 9500 / members * 7 / 6 + 22 + 6, "{members}: {own}");
            }
        }
    }
}
