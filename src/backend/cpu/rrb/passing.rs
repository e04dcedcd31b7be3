//! The first grid, where CG runs on A, and the second one keep no rows that nobody reads after their factorization
//! where they are large, but windows on the rows in work. And the second grid follows the first one: each of its rows
//! is worked on as soon as it is complete, while it is in a cache.
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

use super::area::{Area, Four};
use super::format::Format;
use super::making::{between, four, slots};
use super::neighbours::{Diagonal, Distant, Straight};
use super::packed::PackedGrid;
use crate::error::{Result, collected};
use crate::grid::layout::{Colour, Layout};
use std::ops::Range;

/// From so many nodes on these grids keep no rows that nobody reads after their factorization. The last grids, which
/// may be left out or made into natural ones later, are smaller.
pub const WORTH_PASSING: usize = 1 << 14;

/// Windows of the first grid, where CG runs on A, and of the second one: on couplings at distance two and those of red
/// nodes, in short formats also on straight couplings and b1 to b2 as they were before the odd level.
pub struct Passing {
    /// The second grid: windows also on row sums, which the first one has in vectors, and in short formats on 1 / d.
    follows: bool,
    short: bool,
    /// What each member does in passing; empty: windows are not made yet.
    parts: Vec<Part>,
}

/// Rows of a member that follow the first grid; those of the first grid itself are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub reds: Range<usize>,
    pub blacks: Range<usize>,
    pub coarse: Range<usize>,
    /// Rows that nobody uses but in passing, so that few slots do for all of them.
    turns: Range<usize>,
}

impl Part {
    /// `own`: rows of this member; `handed`: natural rows that it makes in order.
    fn following(layout: &Layout, own: &Range<usize>, handed: &Range<usize>) -> Self {
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

    fn apart(own: &Range<usize>) -> Self {
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

impl<F: Format> PackedGrid<F> {
    /// Whether rows follow those of the first grid.
    pub fn follows(&self) -> bool {
        self.passing.as_ref().is_some_and(|passing| passing.follows)
    }

    /// What a member does in passing, where this grid follows.
    pub fn part(&self, member: usize) -> Option<&Part> {
        self.passing.as_ref().filter(|passing| passing.follows).and_then(|passing| passing.parts.get(member))
    }

    /// What such a grid needs for a team of `members`, who have what they need of the grid before.
    pub fn make_windows(&mut self, before: Option<&Self>, members: usize) -> Result<()> {
        let Some(passing) = self.passing.as_ref().filter(|passing| passing.parts.len() != members) else {
            return Ok(());
        };
        let (layout, follows) = (&self.layout, passing.follows);
        let [excess, red_diagonal, straight, inverse] = passing.keeps().map(|keeps| !keeps);
        let part_of = |member| {
            let own = self.rows_of(member, members);
            match before.filter(|_| follows) {
                Some(before) => {
                    let (made, nodes) = (before.rows_of(member, members), before.layout.rows(Colour::B2));
                    Part::following(layout, &own, &(made.start.max(nodes.start)..made.end.min(nodes.end)))
                }
                None => Part::apart(&own),
            }
        };
        let parts = collected((0..members).map(part_of), "parts of threads")?;
        let turns = parts.iter().map(|part| part.turns.clone());
        // The row above the last one gets zeros from natural rows that are spread.
        let (of_row, count) = slots(layout.cy, turns, follows)?;
        let window = || Area::own_window(layout, count, &of_row);
        if let Some(passing) = self.passing.as_mut() {
            // Until all are made, none are right.
            passing.parts = Vec::new();
        }
        if excess {
            let [r1, r2, b1, b2] = four(window)?;
            self.excess = Four { r1, r2, b1, b2 };
        }
        if red_diagonal && self.corners {
            self.red_diagonal = Diagonal { of: four(window)? };
        }
        if straight {
            self.straight = Straight { r1: four(window)?, r2: four(window)? };
            self.black_diagonal = Diagonal { of: four(window)? };
        }
        if inverse {
            self.inverse = Four { r1: window()?, r2: window()?, b1: window()?, b2: Area::absent()? };
        }
        self.b1_distant = Distant { east: window()?, north: window()? };
        self.b2_distant = Distant { east: window()?, north: window()? };
        if let Some(passing) = self.passing.as_mut() {
            passing.parts = parts;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::levels::Grid;
    use crate::runtime::team::share;

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
