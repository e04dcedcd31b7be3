//! Where a factorization makes the first grid of S1: in the arrays that stay, or in windows on the rows in work.

use super::area::{Area, Four};
use super::format::Format;
use super::neighbours::{Diagonal, Distant, Straight};
use super::packed::Packed;
use crate::error::{Error, Result, extend, push, reserve};
use crate::grid::layout::Colour;
use crate::runtime::heap::Counted;
use crate::runtime::memory::{copies_are_done, copy_past_caches};
use crate::runtime::team::{Me, share};
use std::ops::Range;

/// What a factorization makes of the first grid of S1: the arrays that stay, or windows on the rows in work, in the
/// memory of vectors, from which rows go to the arrays past the caches once they are complete. On large grids that
/// saves fetching what is written, a third of the traffic; S1 in single precision is always made so.
pub struct Making {
    pub center: Four,
    pub straight: Straight,
    pub excess: Four,
    pub inverse: Four,
    /// With windows in f64 alone: short formats have other couplings for the level.
    pub black_diagonal: Diagonal,
    pub b1_distant: Distant,
    pub b2_distant: Distant,
    /// Without windows.
    pub schur_center: [Area; 2],
    /// All windows.
    windows: Vec<Area>,
    /// Center and straight couplings are among them.
    copies_a: bool,
    /// Bytes of windows that have memory of their own.
    pub own_bytes: usize,
    /// For so many members.
    pub members: usize,
}

/// From so many nodes on the first grid is made in windows: the arrays of smaller ones may stay in a cache.
pub const WORTH_WINDOWS: usize = 1 << 19;

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
const WINDOWS: &str = "windows on rows in work";

/// Slots of each member.
fn slots_of(rows: usize, members: usize) -> impl Iterator<Item = Range<usize>> {
    (0..members).scan(0, move |first, member| {
        let start = *first;
        *first += share(rows, member, members).len().min(SLOTS);
        Some(start..*first)
    })
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

impl<F: Format> Packed<F> {
    /// Where the first grid of S1 is made: in windows, if they are wanted and fit into the vectors of doubles, which
    /// nobody uses meanwhile. S1 in single precision always is, with memory of their own for those that do not fit.
    pub(super) fn making_of(&self, wanted: bool, members: usize) -> Result<Making> {
        let (first, m) = (&self.grids[0], &self.matrix);
        let rows = first.layout.cy;
        let slots_in_all = slots_of(rows, members).last().map_or(0, |slots| slots.end);
        let each = rows / slots_in_all.max(1);
        let mut hosts = Vec::new();
        for v in [&self.r, &self.q, &self.p] {
            extend(&mut hosts, [&v.b1, &v.b2].into_iter().filter_map(F::wide), WINDOWS)?;
        }
        if F::SINGLE {
            for v in [&self.x, &self.b] {
                extend(&mut hosts, [&v.r1, &v.r2, &v.b1, &v.b2].map(Area::again), WINDOWS)?;
            }
        }
        let of_s1 = if F::short(&first.own).is_some() { 0 } else { WINDOWS_OF_S1 };
        let count = WINDOWS_OF_M + if wanted { WINDOWS_OF_A } else { 0 } + of_s1;
        if !F::SINGLE && (!wanted || hosts.len() * each < count) {
            return self.making_in_place(members);
        }

        let turns = (0..members).map(|member| between(&share(rows, member, members)));
        let (of_row, _) = slots(rows, turns, false)?;
        let (mut windows, mut own_bytes) = (Vec::new(), 0);
        for k in 0..count {
            let host = k.checked_div(each).and_then(|host| hosts.get(host));
            let window = match host {
                Some(host) => host.window(k % each * slots_in_all, &of_row),
                None => {
                    let area = Area::own_window(&first.layout, slots_in_all, &of_row)?;
                    own_bytes += area.bytes();
                    area
                }
            };
            push(&mut windows, window, WINDOWS)?;
        }
        let mut names = windows.iter();
        let mut next =
            || names.next().map(Area::again).ok_or_else(|| Error::Internal("a window is missing".to_owned()));
        let [r1, r2, b1, b2] = four(&mut next)?;
        let excess = Four { r1, r2, b1, b2 };
        let inverse = Four { r1: next()?, r2: next()?, b1: next()?, b2: Area::absent()? };
        let b1_distant = Distant { east: next()?, north: next()? };
        let b2_distant = Distant { east: next()?, north: next()? };
        let (center, straight) = if wanted {
            let [r1, r2, b1, b2] = four(&mut next)?;
            (Four { r1, r2, b1, b2 }, Straight { r1: four(&mut next)?, r2: four(&mut next)? })
        } else {
            (m.center.again(), m.straight.again())
        };
        let black_diagonal = Diagonal { of: if of_s1 > 0 { four(&mut next)? } else { four(Area::absent)? } };
        Ok(Making {
            center,
            straight,
            excess,
            inverse,
            black_diagonal,
            b1_distant,
            b2_distant,
            schur_center: [Area::absent()?, Area::absent()?],
            windows,
            copies_a: wanted,
            own_bytes,
            members,
        })
    }

    /// In the arrays that stay, and some vectors.
    fn making_in_place(&self, members: usize) -> Result<Making> {
        let (first, m) = (&self.grids[0], &self.matrix);
        let wide = |area| F::wide(area).ok_or_else(|| Error::Internal("arrays of doubles are single".to_owned()));
        let [center1, center2] = &self.schur.center;
        Ok(Making {
            center: m.center.again(),
            straight: m.straight.again(),
            excess: self.x.again(),
            inverse: Four {
                r1: wide(&self.r.b1)?,
                r2: wide(&self.r.b2)?,
                b1: if F::short(&first.own).is_some() { wide(&self.p.b1)? } else { first.inverse.b1.again() },
                b2: Area::absent()?,
            },
            black_diagonal: first.black_diagonal.again(),
            b1_distant: first.b1_distant.again(),
            b2_distant: first.b2_distant.again(),
            schur_center: [wide(center1)?, wide(center2)?],
            windows: Vec::new(),
            copies_a: false,
            own_bytes: 0,
            members,
        })
    }
}

/// Windows for excess, 1 / d and couplings at distance two; for A; and for the diagonal couplings of S1.
const WINDOWS_OF_M: usize = 11;
const WINDOWS_OF_A: usize = 12;
const WINDOWS_OF_S1: usize = 4;

pub fn four(mut next: impl FnMut() -> Result<Area>) -> Result<[Area; 4]> {
    Ok([next()?, next()?, next()?, next()?])
}

impl Making {
    /// Whether rows are made in windows.
    pub fn has_windows(&self) -> bool {
        !self.windows.is_empty()
    }

    /// Zeros in windows, before the first row.
    pub fn start(&self, me: Me, rows: usize) {
        if self.has_windows() {
            // SAFETY: others come after the barrier.
            unsafe { self.clear(me, rows) };
            me.barrier();
        }
    }

    /// Zeros in this member's slots of the windows: at the end, since x and b are not written where they have no nodes.
    ///
    /// # Safety
    /// Nobody else may use them meanwhile.
    pub unsafe fn clear(&self, me: Me, rows: usize) {
        let Some(own) = slots_of(rows, self.members).nth(me.index) else { return };
        for area in &self.windows {
            // SAFETY: slots of this member, which no other uses, as the caller promised.
            unsafe { area.clear_slots(own.clone()) };
        }
    }

    /// Row J, complete, to the arrays that stay.
    ///
    /// # Safety
    /// The row must be this member's, and nobody may use it in those arrays.
    pub unsafe fn finish<F: Format>(&self, k: &Packed<F>, row: usize) {
        if !self.has_windows() {
            return;
        }
        let (grid, m, schur) = (&k.grids[0], &k.matrix, &k.schur);
        let copy = |window: &Area, area: &Area| {
            // SAFETY: as the caller promised.
            unsafe { copy_past_caches(area.row_mut(row, 0), window.row(row, 0)) };
        };
        let keep = |window: &Area, area: &Area<F::Vector>| {
            // SAFETY: as the caller promised.
            unsafe { k.keep_row(area, row, 0, window.row(row, 0)) };
        };
        if self.copies_a {
            for colour in [Colour::R1, Colour::R2, Colour::B1, Colour::B2] {
                copy(&self.center[colour], &m.center[colour]);
            }
            for k in 0..4 {
                copy(&self.straight.r1[k], &m.straight.r1[k]);
                copy(&self.straight.r2[k], &m.straight.r2[k]);
            }
        }
        for (window, area) in [(&self.b1_distant, &schur.b1_distant), (&self.b2_distant, &schur.b2_distant)] {
            keep(&window.east, &area.east);
            keep(&window.north, &area.north);
        }
        if F::short(&grid.own).is_none() {
            copy(&self.inverse.b1, &grid.inverse.b1);
            for (window, area) in self.black_diagonal.of.iter().zip(&schur.diagonal.of) {
                keep(window, area);
            }
        }
    }

    /// After a member's last row: what it copied past the caches is there for all after the next barrier.
    pub fn end(&self) {
        if self.has_windows() {
            copies_are_done();
        }
    }
}
