//! Where a factorization makes the first grid of S1: in the arrays that stay, or in windows on the rows in work.

use super::area::{Area, Four, four};
use super::levels::PackedGrid;
use super::neighbours::{Diagonal, Distant, Straight};
use super::number::Format;
use super::system::{Matrix, Schur};
use super::windows::{WINDOWS, between, slots, slots_in_all, slots_of};
use crate::error::{Error, Result, push};
use crate::grid::layout::{Colour, Layout};
use crate::runtime::memory::{copies_are_done, copy_past_caches};
use crate::runtime::team::{Me, share};

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
    pub windows: Vec<Area>,
    /// Center and straight couplings are among them.
    pub copies_a: bool,
    /// Bytes of windows that have memory of their own.
    pub own_bytes: usize,
    /// For so many members.
    pub members: usize,
}

/// From so many nodes on the first grid is made in windows: the arrays of smaller ones may stay in a cache.
pub const WORTH_WINDOWS: usize = 1 << 19;

/// Windows for excess, 1 / d and couplings at distance two; for A; and for the diagonal couplings of S1.
const WINDOWS_OF_M: usize = 11;
const WINDOWS_OF_A: usize = 12;
const WINDOWS_OF_S1: usize = 4;

/// How many there are, where A is made in them or not.
const fn windows<F: Format>(of_a: bool) -> usize {
    WINDOWS_OF_M + if of_a { WINDOWS_OF_A } else { 0 } + if F::SHORT { 0 } else { WINDOWS_OF_S1 }
}

impl Making {
    /// Whether windows with A fit into these arrays of so many rows.
    pub fn fits<F: Format>(hosts: &[Area], rows: usize, members: usize) -> bool {
        hosts.len() * (rows / slots_in_all(rows, members)) >= windows::<F>(true)
    }

    /// In windows, with A or without it, which lie in the memory of `hosts` as far as that suffices.
    pub fn in_windows<F: Format>(
        hosts: &[Area],
        layout: &Layout,
        m: &Matrix,
        of_a: bool,
        members: usize,
    ) -> Result<Self> {
        let slots_in_all = slots_in_all(layout.cy, members);
        let each = layout.cy / slots_in_all;
        let turns = (0..members).map(|member| between(&share(layout.cy, member, members)));
        let (of_row, _) = slots(layout.cy, turns, false)?;
        let (mut all, mut own_bytes) = (Vec::new(), 0);
        for k in 0..windows::<F>(of_a) {
            let window = match hosts.get(k / each) {
                Some(host) => host.window(k % each * slots_in_all, &of_row),
                None => {
                    let area = Area::own_window(layout, slots_in_all, &of_row)?;
                    own_bytes += area.bytes();
                    area
                }
            };
            push(&mut all, window, WINDOWS)?;
        }
        Self::named(all, own_bytes, m, (of_a, F::SHORT), members)
    }

    /// By these windows, with A among them or not; in a short format the level has other couplings.
    fn named(
        all: Vec<Area>,
        own_bytes: usize,
        m: &Matrix,
        (of_a, short): (bool, bool),
        members: usize,
    ) -> Result<Self> {
        let mut names = all.iter();
        let mut next = || names.next().cloned().ok_or_else(|| Error::Internal("a row window is missing".to_owned()));
        let excess = Four::of(&mut next)?;
        let inverse = Four { r1: next()?, r2: next()?, b1: next()?, b2: Area::absent()? };
        let (b1_distant, b2_distant) = (Distant::of(&mut next)?, Distant::of(&mut next)?);
        let (center, straight) = match of_a {
            true => (Four::of(&mut next)?, Straight::of(&mut next)?),
            false => (m.center.clone(), m.straight.clone()),
        };
        let black_diagonal = Diagonal { of: if short { four(Area::absent)? } else { four(&mut next)? } };
        Ok(Self {
            center,
            straight,
            excess,
            inverse,
            black_diagonal,
            b1_distant,
            b2_distant,
            schur_center: [Area::absent()?, Area::absent()?],
            windows: all,
            copies_a: of_a,
            own_bytes,
            members,
        })
    }

    /// In arrays of its own for all rows, where rows of other ranks come between, for S1 in single precision.
    pub fn apart(layout: &Layout, m: &Matrix, members: usize) -> Result<Self> {
        let (mut all, mut own_bytes) = (Vec::new(), 0);
        for _ in 0..WINDOWS_OF_M {
            let area = Area::zeroed(layout)?;
            own_bytes += area.bytes();
            push(&mut all, area, WINDOWS)?;
        }
        Self::named(all, own_bytes, m, (false, true), members)
    }

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
    pub unsafe fn finish<F: Format>(
        &self,
        grid: &PackedGrid<F>,
        m: &Matrix,
        schur: &Schur<F>,
        per_unit: f64,
        row: usize,
    ) {
        if !self.has_windows() {
            return;
        }
        let copy = |window: &Area, area: &Area| {
            // SAFETY: as the caller promised.
            unsafe { copy_past_caches(area.row_mut(row, 0), window.row(row, 0)) };
        };
        let keep = |window: &Area, area: &Area<F::Vector>| {
            // SAFETY: as the caller promised.
            unsafe { Schur::<F>::keep(area, row, 0, window.row(row, 0), per_unit) };
        };
        if self.copies_a {
            for colour in Colour::ALL {
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
        if !F::SHORT {
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
