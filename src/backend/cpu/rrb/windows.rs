//! Arrays that keep a few rows at a time. The first grid, where CG runs on A, and the second one keep no rows that
//! nobody reads after their factorization where they are large, but windows on the rows in work. And the second grid
//! follows the first one: each of its rows is worked on as soon as it is complete, while it is in a cache.
//!
//! A member makes natural rows j of the second grid in order. With row j' = 2J + 1 it is complete to row J, of which
//! rows follow:
//!
//! ```text
//!     reds J - 1      the matrix of J - 2 .. J is there
//!     skew J - 2      reds of J - 3 .. J - 1; with it, dropped
//!     coarse J - 3    reds, skew and dropped of J - 3 and J - 2
//! ```
//!
//! That is for rows that the member makes itself, and owns. The others, a few on either side of where members meet, are
//! left until the first grid is done.

use crate::error::{Result, reserve};
use crate::grid::layout::Layout;
use crate::runtime::heap::Counted;
use crate::runtime::team::share;
use std::ops::Range;

/// Rows that a window keeps for itself at the start and end of each member's share, where neighbours come, and between.
const FIRST_ROWS: usize = 2;
const LAST_ROWS: usize = 4;
/// While row J becomes complete, rows J - 2 .. J + 1 are used, and of row J + 2 what r2 couples to the south with,
/// which nobody reads of row J - 2 any more. Where a grid follows, natural row 2J + 1 completes row J, formulas are up
/// to three rows behind, and an array is read of four rows at most, too (of diagonal couplings to the south: `J - 2 ..
/// J + 1`). The fewer, the more of all windows stays in the second-level cache.
const ROWS_IN_WORK: usize = 4;
/// Slots of a member, or as many as it has rows.
const SLOTS: usize = FIRST_ROWS + ROWS_IN_WORK + LAST_ROWS;

/// For errors.
pub const WINDOWS: &str = "row windows";

/// Slots of each member.
pub fn slots_of(rows: usize, members: usize) -> impl Iterator<Item = Range<usize>> {
    (0..members).scan(0, move |first, member| {
        let start = *first;
        *first += share(rows, member, members).len().min(SLOTS);
        Some(start..*first)
    })
}

/// Slots of all members together, of which there is one at least.
pub fn slots_in_all(rows: usize, members: usize) -> usize {
    slots_of(rows, members).last().map_or(1, |slots| slots.end.max(1))
}

/// Rows of a member that take turns in their slots.
pub fn between(own: &Range<usize>) -> Range<usize> {
    let first = own.start + FIRST_ROWS;
    first..own.end.saturating_sub(LAST_ROWS).max(first)
}

/// Slot + 1 of each row -1 .. cy, and how many there are. Of the rows in a range of `turns` so many as are in work take
/// turns in theirs; 0: zeros, below the first row, and above the last one, unless that has a slot too (`above`).
pub fn slots(
    rows: usize,
    turns: impl Iterator<Item = Range<usize>> + Clone,
    above: bool,
) -> Result<(Counted<Vec<u32>>, usize)> {
    let (mut of_row, mut count) = (Vec::new(), 0);
    reserve(&mut of_row, rows + 2, WINDOWS)?;
    of_row.push(0);
    for row in 0..rows + usize::from(above) {
        let slot = match turns.clone().find(|turn| turn.contains(&row)) {
            Some(turn) if row >= turn.start + ROWS_IN_WORK => of_row[1 + row - ROWS_IN_WORK],
            _ => {
                count += 1;
                count as u32
            }
        };
        of_row.push(slot);
    }
    of_row.resize(rows + 2, 0);
    Ok((Counted::new(of_row, WINDOWS)?, count))
}

/// From so many nodes on these grids keep no rows that nobody reads after their factorization. The last grids, which
/// may be left out or made into natural ones later, are smaller.
pub const WORTH_PASSING: usize = 1 << 14;

/// Windows of the first grid, where CG runs on A, and of the second one: on couplings at distance two and those of red
/// nodes, in short formats also on straight couplings and b1 to b2 as they were before the odd level.
pub struct Passing {
    /// The second grid: windows also on row sums, which the first one has in vectors, and in short formats on 1 / d.
    pub follows: bool,
    short: bool,
    /// What each member does in passing; empty: windows are not made yet.
    pub parts: Vec<Part>,
}

/// Rows of a member that follow the first grid; those of the first grid itself are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub reds: Range<usize>,
    pub blacks: Range<usize>,
    pub coarse: Range<usize>,
    /// Rows that nobody uses but in passing, so that few slots do for all of them.
    pub turns: Range<usize>,
}

impl Part {
    /// `own`: rows of this member; `handed`: natural rows that it makes in order.
    pub fn following(layout: &Layout, own: &Range<usize>, handed: &Range<usize>) -> Self {
        // Rows that no other member adds to: of row J those from j' = 2J - 1, 2J and 2J + 1.
        let first = (handed.start + layout.shift_y + 1).div_ceil(2).max(own.start);
        let end = ((handed.end + layout.shift_y) / 2).min(own.end);
        let inner = |before: usize, behind: usize| {
            let first = first + before;
            first..end.saturating_sub(behind).max(first)
        };
        // What is left reads rows to first + 2 and from end - 4 on.
        Self { reds: inner(1, 1), blacks: inner(2, 2), coarse: inner(2, 3), turns: inner(3, 4) }
    }

    pub fn apart(own: &Range<usize>) -> Self {
        Self { reds: 0..0, blacks: 0..0, coarse: 0..0, turns: between(own) }
    }
}

impl Passing {
    /// `follows`: the second grid; `short`: sweeps read short formats.
    pub fn new(follows: bool, short: bool) -> Self {
        Self { follows, short, parts: Vec::new() }
    }

    /// Which arrays of doubles remain: excess, r1 to r2, straight couplings and b1 to b2, 1 / d.
    pub fn keeps(&self) -> [bool; 4] {
        [!self.follows, false, !self.short, !(self.follows && self.short)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::layout::Colour;
    use crate::grid::levels::Grid;

    /// Whatever their shares, members do rows in passing that only they make, and nobody else uses rows that take
    /// turns.
    #[test]
    fn parts_are_of_rows_made_alone() {
        for ny in (1..40).chain([64, 65, 97, 128, 301]) {
            for members in 1..6 {
                let before = Layout::new(Grid { nx: 9, ny }, 8);
                let layout = Layout::new(before.grid.coarse(), 8);
                let own_rows = |layout: &Layout, m: usize| share(layout.cy, m, members);
                let nodes = before.rows(Colour::B2);
                for m in 0..members {
                    let (own, made) = (own_rows(&layout, m), own_rows(&before, m));
                    let made = made.start.max(nodes.start)..made.end.min(nodes.end);
                    let part = Part::following(&layout, &own, &made);
                    // Natural rows that add to row J, where they are nodes.
                    let of_row = |row: usize| (2 * row).saturating_sub(1)..2 * row + 2;
                    let here = |j: usize| j < layout.shift_y || made.contains(&(j - layout.shift_y));
                    let is_there = |row: usize| own.contains(&row) && of_row(row).all(here);
                    assert!(part.reds.clone().all(|row| row > 0 && (row - 1..row + 2).all(is_there)));
                    let reds = |row: usize| part.reds.contains(&row);
                    assert!(part.blacks.clone().all(|row| row > 0 && (row - 1..row + 2).all(reds)));
                    let blacks = |row: usize| part.blacks.contains(&row);
                    assert!(part.coarse.clone().all(|row| (row..row + 2).all(blacks)));
                    // What is left uses rows J - 1 to J + 1.
                    for done in [&part.reds, &part.blacks, &part.coarse] {
                        let left = (0..layout.cy).filter(|row| !done.contains(row));
                        let mut used = left.flat_map(|row| row.saturating_sub(1)..row + 2);
                        assert!(part.turns.is_empty() || used.all(|row| !part.turns.contains(&row)));
                    }
                    // Seven rows are left.
                    assert!(part.coarse.len() + 7 >= own.len(), "{part:?} of {own:?}");
                }
            }
        }
    }
}
