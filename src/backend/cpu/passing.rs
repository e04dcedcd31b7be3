//! Large grids keep no rows that nobody reads after their factorization, but windows on the rows in work. And those that come
//! next to the first one follow it: each of their rows is worked on as soon as the grid before has handed it on, while it is
//! in a cache.
//!
//! A member hands on natural rows j in order. With row j' = 2J + 1 it is complete to row J, of which rows follow:
//!
//! ```text
//!     reds J - 1      the matrix of J - 2 .. J is there
//!     skew J - 2      reds of J - 3 .. J - 1; with it, dropped
//!     coarse J - 3    reds, skew and dropped of J - 3 and J - 2; it hands on natural row J - 3
//! ```
//!
//! That is for rows that the member hands on itself, and owns. The others, a few on either side of where members meet, are left
//! until the grid before is done.

use super::area::{Area, Four};
use super::format::Format;
use super::making::{between, four, slots};
use super::neighbours::{Diagonal, Distant, Straight};
use super::packed::PackedGrid;
use crate::error::{Result, collected};
use crate::grid::layout::{Colour, Layout};
use std::ops::Range;

/// From so many nodes on a grid keeps no rows that nobody reads after its factorization. The last grids, which may be left
/// out or made into natural ones later, are smaller.
pub const WORTH_PASSING: usize = 1 << 14;

/// Grids that follow the first one. Each more finds a quarter of what the one before found, and takes as much of the
/// second-level cache as half of it.
const FOLLOWING: usize = 3;

/// Windows of a grid that is not the first one of S1: on couplings at distance two; on others that are copied or handed on in
/// the same sweep, where sweeps do not read them.
pub struct Passing {
    follows: bool,
    excess: bool,
    red_diagonal: bool,
    /// And couplings b1 to b2, as they were before the odd level in short formats.
    straight: bool,
    inverse: bool,
    /// What each member does in passing; empty: windows are not made yet.
    parts: Vec<Part>,
}

/// Rows of a member that follow the grid before; those of a grid that does not are none.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub reds: Range<usize>,
    pub blacks: Range<usize>,
    pub coarse: Range<usize>,
    /// Rows that nobody uses but in passing, so that few slots do for all of them.
    turns: Range<usize>,
}

impl Part {
    /// `own`: rows of this member; `handed`: natural rows that it hands on in order.
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
    /// Of grid `q`. `own_inverse`: 1 / d has memory of its own; `short`: sweeps read short formats.
    pub fn new(q: usize, own_inverse: bool, short: bool) -> Self {
        let follows = (1..=FOLLOWING).contains(&q);
        // Rows of the first grid are copied from A in the same sweep, but for row sums, which are made in vectors.
        let in_one_sweep = follows || q == 0;
        Self {
            follows,
            excess: follows,
            red_diagonal: in_one_sweep,
            straight: in_one_sweep && short,
            inverse: own_inverse && short,
            parts: Vec::new(),
        }
    }

    /// Which arrays of doubles remain: excess, r1 to r2, straight couplings and b1 to b2, 1 / d.
    pub fn keeps(&self) -> [bool; 4] {
        [self.excess, self.red_diagonal, self.straight, self.inverse].map(|passes| !passes)
    }
}

impl<F: Format> PackedGrid<F> {
    /// Whether rows follow those of the grid before.
    pub fn follows(&self) -> bool {
        self.passing.as_ref().is_some_and(|passing| passing.follows)
    }

    /// What a member does in passing, where this grid follows.
    pub fn part(&self, member: usize) -> Option<&Part> {
        self.passing.as_ref().filter(|passing| passing.follows).and_then(|passing| passing.parts.get(member))
    }

    /// Rows of the next grid that a member hands on in order.
    fn hands_on(&self, member: usize, members: usize) -> Range<usize> {
        if let Some(part) = self.part(member) {
            return part.coarse.clone();
        }
        let (own, nodes) = (self.rows_of(member, members), self.layout.rows(Colour::B2));
        own.start.max(nodes.start)..own.end.min(nodes.end)
    }

    /// What such a grid needs for a team of `members`, who have what they need of the grid before.
    pub fn make_windows(&mut self, before: Option<&Self>, members: usize) -> Result<()> {
        let Some(passing) = self.passing.as_ref().filter(|passing| passing.parts.len() != members) else {
            return Ok(());
        };
        let (layout, follows) = (&self.layout, passing.follows);
        let &Passing { excess, red_diagonal, straight, inverse, .. } = passing;
        let part_of = |member| {
            let own = self.rows_of(member, members);
            match before.filter(|_| follows) {
                Some(before) => Part::following(layout, &own, &before.hands_on(member, members)),
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
    use crate::backend::cpu::team::share;
    use crate::grid::levels::Grid;

    /// Whatever their shares, members do rows in passing that only they hand on, and nobody else uses rows that take turns.
    #[test]
    fn parts_are_of_rows_handed_on() {
        for ny in (1..40).chain([64, 65, 97, 128, 301]) {
            for members in 1..6 {
                let mut before = Layout::new(Grid { nx: 9, ny }, 8);
                let own_rows = |layout: &Layout, m: usize| share(layout.cy, m, members);
                let mut handed: Vec<_> = (0..members).map(|m| own_rows(&before, m)).collect();
                for range in &mut handed {
                    let nodes = before.rows(Colour::B2);
                    *range = range.start.max(nodes.start)..range.end.min(nodes.end);
                }
                for _ in 0..3 {
                    let layout = Layout::new(before.grid.coarse(), 8);
                    let parts: Vec<_> =
                        (0..members).map(|m| Part::following(&layout, &own_rows(&layout, m), &handed[m])).collect();
                    for (m, part) in parts.iter().enumerate() {
                        let own = own_rows(&layout, m);
                        // Natural rows that add to row J, where they are nodes.
                        let of_row = |row: usize| (2 * row).saturating_sub(1)..2 * row + 2;
                        let here = |j: usize| j < layout.shift_y || handed[m].contains(&(j - layout.shift_y));
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
                        // Seven rows are left, and half as many as were left of the grid before.
                        assert!(part.coarse.len() + 14 >= own.len(), "{part:?} of {own:?}");
                    }
                    handed = parts.into_iter().map(|part| part.coarse).collect();
                    before = layout;
                }
            }
        }
    }
}
