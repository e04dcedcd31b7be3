//! Rows in an order of work, in stages that a team does one after another: parts of a stage do not wait for one
//! another, so members share them. What a row computes does not depend on who does it.

use crate::error::{Result, collected, push, reserve, zeroed};
use crate::runtime::team::Me;
use crate::sparse::{Index, accumulate, restart};
use std::ops::Range;

/// For errors of memory.
const WHAT: &str = "the order of rows";

/// Rows and entries of a level below which member 0 does it alone: a barrier takes 1 to 2 microseconds, and a second
/// member saves no more than half of 2 nanoseconds for each of these.
const NARROW: usize = 2048;

/// Pieces of a level whose rows take turns: a row of a piece waits for the one before, some 40 cycles, in which rows of
/// the others are done.
const BUNDLE: usize = 4;

/// Rows in the order of work. A piece is a few consecutive rows, done in order; pieces of a level do not wait for one
/// another; up to `BUNDLE` of them are a unit, which one member does.
pub struct Order<I> {
    /// The row at each place.
    pub rows: Vec<I>,
    /// The places where units begin, and the end.
    pub units: Vec<usize>,
    /// The units where levels begin, and the end.
    pub levels: Vec<usize>,
}

impl<I: Index> Order<I> {
    /// From the rows where pieces begin, and the end, and the level of each piece; there are `levels`, none empty.
    pub fn new(pieces: &[usize], level: &[I], levels: usize) -> Result<Self> {
        let (sorted, starts) = by_level(level, levels)?;
        let mut order = Self { rows: Vec::new(), units: collected([0], WHAT)?, levels: collected([0], WHAT)? };
        reserve(&mut order.rows, pieces[level.len()], WHAT)?;
        reserve(&mut order.levels, levels, WHAT)?;
        for range in starts.windows(2) {
            for bundle in sorted[range[0]..range[1]].chunks(BUNDLE) {
                order.interleave(pieces, bundle);
                push(&mut order.units, order.rows.len(), WHAT)?;
            }
            order.levels.push(order.units.len() - 1);
        }
        Ok(order)
    }

    /// The first rows of all pieces, the second ones, and so on.
    fn interleave(&mut self, pieces: &[usize], bundle: &[I]) {
        let rows = |piece: &I| pieces[piece.at()]..pieces[piece.at() + 1];
        let longest = bundle.iter().map(|piece| rows(piece).len()).max().unwrap_or(0);
        for step in 0..longest {
            let of_step = bundle.iter().filter_map(|piece| rows(piece).nth(step));
            self.rows.extend(of_step.map(I::of));
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.rows) + size_of_val(&*self.units) + size_of_val(&*self.levels)
    }
}

/// Pieces, level by level, ascending in a level, and where levels begin, and the end.
pub fn by_level<I: Index>(level: &[I], levels: usize) -> Result<(Vec<I>, Vec<usize>)> {
    let (mut sorted, mut starts) = (zeroed(level.len(), WHAT)?, zeroed(levels + 1, WHAT)?);
    for level in level {
        starts[level.at() + 1] += 1;
    }
    accumulate(&mut starts);
    for (piece, level) in level.iter().enumerate() {
        let place = &mut starts[level.at()];
        sorted[*place] = I::of(piece);
        *place += 1;
    }
    restart(&mut starts);
    Ok((sorted, starts))
}

/// Consecutive units.
struct Stage {
    end: usize,
    /// Narrow levels, joined: member 0 does them in order.
    alone: bool,
}

/// All units, in stages.
pub struct Stages(Vec<Stage>);

impl Stages {
    /// Of levels that begin at these units; `work(k)`: rows and entries before unit `k`.
    pub fn new(levels: &[usize], work: impl Fn(usize) -> usize) -> Result<Self> {
        let mut stages: Vec<Stage> = Vec::new();
        for level in levels.windows(2) {
            let (end, alone) = (level[1], work(level[1]) - work(level[0]) < NARROW);
            match stages.last_mut() {
                Some(last) if last.alone && alone => last.end = end,
                _ => push(&mut stages, Stage { end, alone }, WHAT)?,
            }
        }
        Ok(Self(stages))
    }

    /// `visit` for the units that are this member's, stage after stage, `backward` from the last one to the first. All
    /// members call it together; a barrier stands behind each stage, and so at the end. A member has about as much of
    /// the `work` of a stage as another.
    pub fn run(&self, me: &Me, backward: bool, work: impl Fn(usize) -> usize, mut visit: impl FnMut(usize)) {
        for step in 0..self.0.len() {
            let stage = if backward { self.0.len() - 1 - step } else { step };
            let all = stage.checked_sub(1).map_or(0, |before| self.0[before].end)..self.0[stage].end;
            let own = if self.0[stage].alone { if me.index == 0 { all } else { 0..0 } } else { share(&all, me, &work) };
            if backward {
                own.rev().for_each(&mut visit);
            } else {
                own.for_each(&mut visit);
            }
            me.barrier();
        }
    }

    /// Bytes of its array.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

/// The units of a member.
fn share(all: &Range<usize>, me: &Me, work: impl Fn(usize) -> usize) -> Range<usize> {
    let (first, total) = (work(all.start), work(all.end) - work(all.start));
    // The first unit with at least this much work before it.
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
    use crate::runtime::team::Team;
    use std::sync::Mutex;

    /// Pieces of three rows, of one, two, one, one and two, of which level 1 has five.
    #[test]
    fn pieces_of_a_level_take_turns() {
        let pieces = [0, 3, 4, 6, 7, 8, 10];
        let order = Order::<u32>::new(&pieces, &[1, 1, 0, 1, 1, 1], 2).unwrap();
        assert_eq!(order.rows, [4, 5, 0, 3, 6, 7, 1, 2, 8, 9]);
        assert_eq!((order.units, order.levels), (vec![0, 2, 8, 10], vec![0, 1, 3]));
    }

    /// Wide and narrow levels: every unit once, those of a level after all of the levels before it, and the narrow ones
    /// in order.
    #[test]
    fn members_do_levels_in_order() {
        let lengths = [3000, 5, 1, 7, 2500, 9, 4000];
        let mut starts = vec![0];
        lengths.iter().for_each(|length| starts.push(starts.last().unwrap() + length));
        let level = |unit: usize| starts.iter().rposition(|&start| start <= unit).unwrap();
        // Units weigh 1, 2, 3, 1, ..: shares differ in length.
        let work = |k: usize| k / 3 * 6 + [0, 1, 3][k % 3];
        let stages = Stages::new(&starts, work).unwrap();
        assert_eq!(stages.0.iter().map(|stage| stage.alone).collect::<Vec<_>>(), [false, true, false, true, false]);
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
                // A share of the wide levels and all of the narrow ones, but for a unit at each end of a share.
                assert!(own <= 9500 / members * 7 / 6 + 22 + 6, "{members}: {own}");
            }
        }
    }
}
