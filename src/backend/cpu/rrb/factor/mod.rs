//! The factorization on r1/r2/b1/b2 grids: the formulas of `coarse::levels`, colour by colour.
//!
//! Each grid is one sweep over rows J, so that rows are still in cache when the next formula reads them. What a
//! formula makes of row J, and the rows it needs:
//!
//! ```text
//!     spread    on the first grid, A: row J, and what its nodes hold for r2 and b1 of row J + 1
//!     start     on the first grid, M before the levels;   A J - 1, J, spread
//!               of S1 the next two take its row sums
//!     reds      pivots of r1 and r2; couplings at         A, M J - 1 .. J + 1, before their skew
//!               distance two over r1 J and r2 J
//!     skew      the rest of the skew stencil, S1          A, M J - 1 .. J + 1, reds of J - 1 .. J + 1
//!     dropped   pivots of b1                              skew of J, reds of J - 1, J
//!     coarse    the next grid's row                       reds of J, J + 1, skew and dropped of J, J + 1
//! ```
//!
//! Each member works on its rows. Those that its neighbours need come first, formula by formula, with barriers between;
//! the sweep over the others needs none. Each formula writes rows of this member, `coarse` also those of the next grid
//! that they make, which nobody uses before a barrier but who follows; and of what others have made it reads what is
//! complete since a barrier and not written before the next: that is what the unsafe blocks rest on. The second grid,
//! if it is large, follows the first one row by row, each member in rows that it has made alone: see `windows`. Here is
//! the order of all that; `formulas` has what is made.

mod formulas;

use super::area::Four;
use super::cycle::Sections;
use super::levels::PackedGrid;
use super::making::Making;
use super::neighbours::{Diagonal, Distant, Straight};
use super::number::Format;
use super::packed::Packed;
use super::ranks::HALF;
use super::spread::natural_rows;
use super::windows::Part;
use crate::backend::steps::cycle;
use crate::backend::steps::cycle::{Cycle, Kind};
use crate::backend::steps::rrb::{PivotContext, Setup};
use crate::comm::domain::{REACH, STORED};
use crate::error::Result;
use crate::grid::inspection::{Inspection, Wanted};
use crate::grid::stencil::StencilView;
use crate::runtime::team::Me;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// The look at a matrix while it is factorized, in the hope that it is like the last one.
pub struct Watch<'a> {
    pub inspection: &'a Inspection,
    pub wanted: Wanted,
    over: AtomicBool,
}

impl<'a> Watch<'a> {
    pub fn new(inspection: &'a Inspection, wanted: Wanted) -> Self {
        Self { inspection, wanted, over: AtomicBool::new(false) }
    }

    /// A row was not sound.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Whether natural row j of A may be worked on. In order (`member`) all is noted that is to be known.
    fn admits(&self, member: Option<usize>, a: &StencilView, j: usize) -> bool {
        let sound = match member {
            // After a row that is not sound nothing is noted: rows are joined to the one before.
            Some(member) if !self.is_over() => self.inspection.look_at(member, a, j, &self.wanted),
            _ => self.wanted.has(a, j),
        };
        if !sound {
            self.over.store(true, Ordering::Relaxed);
        }
        sound
    }
}

impl<F: Format> Packed<F> {
    /// In short formats padding and border are divided by too: one there, from the owners of the rows.
    fn start_short(&self, me: Me) {
        for grid in &self.grids {
            let Some(short) = grid.short() else { return };
            for row in grid.rows_and(me, STORED) {
                for area in [&short.pivot.r1, &short.pivot.r2, &short.pivot.b1].into_iter().filter(|a| a.bytes() > 0) {
                    // SAFETY: rows of this member, which no other uses before the barrier below.
                    unsafe { area.fill_row(row, grid.layout.to, F::write(1.0)) };
                }
            }
        }
        me.barrier();
    }

    /// Copies A, eliminates level by level. All members see the same result. `watch`: A is seen for the first time.
    pub fn factorize_share(&self, me: Me, setup: &Setup, context: &PivotContext, watch: Option<&Watch>) -> Result<()> {
        let mut scratch = self.scratch[me.index].lock().unwrap_or_else(PoisonError::into_inner);
        if self.fresh {
            self.start_short(me);
        }
        for q in 0..self.grids.len() {
            let watch = watch.filter(|_| q == 0);
            let levels = Levels::new(self, q, setup, context);
            if self.shape.aggregates {
                levels.form_system(me, &mut scratch);
                break;
            }
            match self.grids[q].part(me.index) {
                Some(done) => levels.form_rest(me, done, &mut scratch),
                None => levels.form(me, &mut scratch, watch),
            }
            levels.share_next(me, &mut scratch);
            if let Some(watch) = watch {
                me.barrier();
                if watch.is_over() {
                    break;
                }
            }
        }
        let over = watch.is_some_and(Watch::is_over);
        if !over && !self.shape.aggregates && me.index == 0 {
            self.note(self.factorize_natural(setup, context, &mut scratch));
        }
        drop(scratch);
        me.barrier();
        if let (0, Some(links)) = (me.index, &self.links) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = links.domain.first_failure(failure.take());
        }
        me.barrier();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        me.barrier();
        if me.index == 0 {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        if !over && !self.shape.aggregates {
            self.prepare_cycle(me, setup);
        }
        Ok(())
    }

    /// The levels below the last grid.
    fn factorize_natural(&self, setup: &Setup, context: &PivotContext, scratch: &mut [f64]) -> Result<()> {
        let (mut natural, last) = (self.natural(), self.grids.len() - 1);
        Levels::new(self, last, setup, context).form_natural(natural.input(), scratch);
        natural.factorize(&self.below(setup), context, None)
    }

    /// What is asked of the levels below.
    fn below(&self, setup: &Setup) -> Setup {
        // Where finer grids recurse, they choose for all.
        let kind = if self.sections.len() > 1 { setup.cycle.kind.or(Some(Kind::Amli)) } else { setup.cycle.kind };
        Setup { cycle: Cycle { kind, ..setup.cycle }, ..*setup }
    }

    /// Bounds of the recursions, and the choice of the cycle.
    fn prepare_cycle(&self, me: Me, setup: &Setup) {
        let found = if self.sections.len() > 1 {
            let below = self.natural().recursion().worst_condition();
            cycle::prepare(&mut Sections::new(self, me), &setup.cycle, below)
        } else {
            *self.natural().recursion()
        };
        me.barrier();
        if me.index == 0 {
            self.natural().set_kind(found.kind);
            *self.recursion.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
        me.barrier();
    }

    /// Keeps the failure of the lowest level, and there of the first node, whoever finds it.
    fn note(&self, result: Result<()>) {
        let Err(error) = result else { return };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|first| error.matrix_place() < first.matrix_place()) {
            *failure = Some(error);
        }
    }
}

/// Rows that a formula has done, each once: in order, but for the last `early` ones, which neighbours wait for.
struct Progress {
    next: usize,
    early: Range<usize>,
}

impl Progress {
    fn new(rows: &Range<usize>, early: usize) -> Self {
        Self { next: rows.start, early: rows.end.saturating_sub(early).max(rows.start)..rows.end }
    }

    /// All rows to `row` that are not done.
    fn to(&mut self, row: usize) -> Range<usize> {
        let first = self.next;
        self.next = (row + 1).clamp(first, self.early.start.max(first));
        first..self.next
    }
}

/// A watch, and the member whose turn it is to note what it sees; none where rows come early.
type InTurn<'a> = (&'a Watch<'a>, Option<usize>);

/// The two levels of a grid in the making.
struct Levels<'a, F: Format> {
    k: &'a Packed<F>,
    q: usize,
    grid: &'a PackedGrid<F>,
    /// Where the first elimination is exact, as with 5 points: couplings and centers are those of A, and black
    /// nodes are not coupled.
    exact: Option<&'a Making>,
    straight: &'a Straight,
    excess: &'a Four,
    inverse: &'a Four,
    black_diagonal: &'a Diagonal,
    b1_distant: &'a Distant,
    b2_distant: &'a Distant,
    setup: &'a Setup,
    context: &'a PivotContext<'a>,
}

impl<'a, F: Format> Levels<'a, F> {
    fn new(k: &'a Packed<F>, q: usize, setup: &'a Setup, context: &'a PivotContext) -> Self {
        let grid = &k.grids[q];
        let exact = k.making.as_ref().filter(|_| q == 0);
        Self {
            k,
            q,
            grid,
            exact,
            straight: exact.map_or(&grid.straight, |m| &m.straight),
            excess: exact.map_or(&grid.excess, |m| &m.excess),
            inverse: exact.map_or(&grid.inverse, |m| &m.inverse),
            black_diagonal: exact.map_or(&grid.black_diagonal, |m| &m.black_diagonal),
            b1_distant: exact.map_or(&grid.b1_distant, |m| &m.b1_distant),
            b2_distant: exact.map_or(&grid.b2_distant, |m| &m.b2_distant),
            setup,
            context,
        }
    }

    /// Row J of the arrays of the first grid of S1.
    ///
    /// # Safety
    /// The row must be this member's, and reds of row J and J + 1, skew and dropped of J done.
    unsafe fn finish(&self, row: usize) {
        if let Some(making) = self.exact {
            // SAFETY: as the caller promised.
            unsafe { making.finish(self.grid, &self.k.matrix, &self.k.schur, self.k.unit.recip(), row) };
        }
    }

    /// A, and S1 where CG runs on that: no level.
    fn form_system(&self, me: Me, scratch: &mut [f64]) {
        let (grid, rows) = (self.grid, self.grid.rows(me));
        // SAFETY: rows are this member's, and a barrier stands between what members make and others read.
        unsafe {
            rows.clone().for_each(|row| self.spread(row, None));
            grid.barrier(me);
            if self.exact.is_some() {
                rows.clone().for_each(|row| self.reds(row, scratch));
                grid.barrier(me);
                rows.for_each(|row| self.skew(row, scratch));
                grid.barrier(me);
            }
        }
    }

    /// Rows of this member, from A or the grid's matrix to the next grid's.
    fn form(&self, me: Me, scratch: &mut [f64], watch: Option<&Watch>) {
        let (grid, first) = (self.grid, self.q == 0);
        let rows = grid.rows(me);
        // Rows that have to start before a row is complete: its reds need the next one, whose row sums need the one
        // after that.
        let ahead = if self.exact.is_some() { 1 } else { 2 };
        if let Some(watch) = watch {
            watch.inspection.begin(me.index, self.context.a, natural_rows(&grid.layout, &rows));
        }
        let (early, in_order) = (watch.map(|w| (w, None)), watch.map(|w| (w, Some(me.index))));
        if let Some(making) = self.exact {
            making.start(me, grid.layout.cy);
        }
        let Some(last) = rows.clone().last() else { return };
        let (mut spread, mut start) = (Progress::new(&rows, 3), Progress::new(&rows, 2));
        let mut reds = Progress::new(&rows, 1);
        // What formulas need of rows of other ranks is made here, too, from rows of the matrix that come with it: so a
        // grid takes one exchange.
        let beyond = |most: usize| {
            let all = grid.rows_and(me, most);
            (all.start..rows.start).chain(rows.end..all.end)
        };
        // SAFETY: rows are this member's, or of other ranks next to it, which nobody else makes here. Neighbours need,
        // before the first barrier, the last row spread; before the second, rows that start; before the third, reds of
        // the first and last row, with what M was there; before the fourth, skew and dropped nodes of the first row.
        unsafe {
            if first {
                beyond(REACH).for_each(|row| self.spread(row, None));
                spread.early.clone().for_each(|row| self.spread(row, early));
                spread.to(rows.start).for_each(|row| self.spread(row, in_order));
                grid.barrier(me);
                beyond(REACH).for_each(|row| self.start(row));
                start.early.clone().for_each(|row| self.start(row));
                self.start_to(rows.start + ahead, &mut spread, &mut start, in_order);
                grid.barrier(me);
            }
            let first_reds = reds.early.clone().chain(reds.to(rows.start + 1));
            first_reds.chain(beyond(2)).for_each(|row| self.reds(row, scratch));
            grid.barrier(me);
            for row in beyond(1).chain([rows.start]) {
                self.skew(row, scratch);
                self.dropped(row, scratch);
                self.finish(row);
            }
            grid.barrier(me);
            for row in rows.start + 1..rows.end {
                if first {
                    self.start_to(row + ahead, &mut spread, &mut start, in_order);
                }
                reds.to(row + 1).for_each(|row| self.reds(row, scratch));
                self.skew(row, scratch);
                self.dropped(row, scratch);
                self.coarse_and_following(me, row - 1, watch, scratch);
                self.finish(row);
            }
            self.coarse_and_following(me, last, watch, scratch);
        }
        if let Some(watch) = watch {
            // Those that came early, in their turn.
            natural_rows(&grid.layout, &spread.early).for_each(|j| {
                watch.admits(Some(me.index), self.context.a, j);
            });
        }
        if let Some(making) = self.exact {
            making.end();
        }
        grid.barrier(me);
        if let Some(making) = self.exact {
            // SAFETY: the others are past this grid, too.
            unsafe { making.clear(me, grid.layout.cy) };
        }
    }

    /// Row J of the next grid's matrix, and what follows.
    ///
    /// # Safety
    /// As for `coarse`; rows are made in order.
    unsafe fn coarse_and_following(&self, me: Me, row: usize, watch: Option<&Watch>, scratch: &mut [f64]) {
        // SAFETY: as the caller promised.
        unsafe { self.coarse(row, scratch) };
        if watch.is_some_and(Watch::is_over) {
            // What would follow is thrown away, and might be refused before.
            return;
        }
        if let Some(part) = self.k.grids.get(self.q + 1).and_then(|next| next.part(me.index)) {
            // SAFETY: as the caller promised; the row was made just now.
            unsafe { Self::new(self.k, self.q + 1, self.setup, self.context).follow(part, row, scratch) };
        }
    }

    /// What natural row j, the one that the first grid made last, completes of this member's part.
    ///
    /// # Safety
    /// This member must have made the natural rows before in order, and nobody may use rows of its part.
    unsafe fn follow(&self, part: &Part, j: usize, scratch: &mut [f64]) {
        let (row, odd) = ((j + self.grid.layout.shift_y) / 2, (j + self.grid.layout.shift_y) % 2 == 1);
        let to_do =
            |rows: &Range<usize>, behind: usize| row.checked_sub(behind).filter(|row| odd && rows.contains(row));
        // SAFETY: rows of the part are this member's, made of natural rows that it has made itself, and in this order
        // each formula has what it needs: see `windows`.
        unsafe {
            if let Some(row) = to_do(&part.reds, 1) {
                self.reds(row, scratch);
            }
            if let Some(row) = to_do(&part.blacks, 2) {
                self.skew(row, scratch);
                self.dropped(row, scratch);
            }
            if let Some(row) = to_do(&part.coarse, 3) {
                self.coarse(row, scratch);
            }
        }
    }

    /// Rows of this member that are not done in passing.
    fn form_rest(&self, me: Me, done: &Part, scratch: &mut [f64]) {
        let rows = self.grid.rows(me);
        let left = |done: &Range<usize>| {
            let done = done.clone();
            rows.clone().filter(move |row| !done.contains(row))
        };
        // SAFETY: rows are this member's, the grid before is done, and barriers are between what members make and
        // others read; rows next to those that are left are as the formulas want them, in slots of their own: see
        // `passing`.
        unsafe {
            left(&done.reds).for_each(|row| self.reds(row, scratch));
            self.grid.barrier(me);
            left(&done.blacks).for_each(|row| {
                self.skew(row, scratch);
                self.dropped(row, scratch);
            });
            self.grid.barrier(me);
            left(&done.coarse).for_each(|row| self.coarse(row, scratch));
        }
        self.grid.barrier(me);
    }

    /// Rows of the next grid that other ranks make, or need.
    fn share_next(&self, me: Me, scratch: &mut [f64]) {
        if self.grid.halo.is_none() {
            return;
        }
        if me.index == 0 {
            // SAFETY: `form` ends with a barrier, and the others wait.
            let lost = unsafe { self.fetch_next(scratch) };
            self.k.note(lost);
        }
        // Whoever works on the next grid reads it.
        me.barrier();
    }

    /// Rows of the next grid's matrix that other ranks make.
    ///
    /// # Safety
    /// This rank's rows must be made, and nobody may use that grid.
    unsafe fn fetch_next(&self, scratch: &mut [f64]) -> Result<()> {
        let Some((links, next)) = self.k.links.as_ref().zip(self.k.grids.get(self.q + 1)) else { return Ok(()) };
        let target = next.target();
        let nx = next.layout.grid.nx;
        let own = |row: usize, to: &mut [f64]| {
            // SAFETY: as the caller promised: this is a row of this rank.
            let made = unsafe { self.coarse_row(row, scratch) };
            to.chunks_exact_mut(nx).zip(made).for_each(|(to, made)| to.copy_from_slice(made));
        };
        // SAFETY: as the caller promised.
        let other = |row: usize, made: [&[f64]; HALF]| unsafe { target.spread(row, made.map(|values| (0, values))) };
        match links.matrices.get(self.q) {
            Some(halo) => halo.exchange(own, other),
            None => links.hand_over.matrix(own, other),
        }
    }

    /// # Safety
    /// As for `form`.
    unsafe fn start_to(&self, row: usize, spread: &mut Progress, start: &mut Progress, watch: Option<InTurn>) {
        for row in start.to(row) {
            // SAFETY: as the caller promised.
            unsafe {
                spread.to(row).for_each(|row| self.spread(row, watch));
                self.start(row);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
