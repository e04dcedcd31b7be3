//! The factorization on r1/r2/b1/b2 grids: the formulas of `coarse::levels`, colour by colour.
//!
//! Each grid is one sweep over rows J, so that rows are still in cache when the next formula reads them. What a formula
//! computes from row J, and the rows it needs:
//!
//! ```text
//!     spread    on the first grid, A: row J, and what its nodes hold for r2 and b1 of row J + 1
//!     start     on the first grid, M before the levels;   A J - 1, J, spread
//!               of S1 the next two take its row sums
//!     reds      pivots of r1 and r2                       A, M J - 1 .. J + 1, before their skew
//!     skew      the skew stencil's diagonal couplings     A, M J - 1 .. J + 1, reds of J - 1 .. J + 1
//!               and row sums; S1
//!     dropped   pivots of b1                              skew of J, reds of J - 1, J
//!     coarse    the next grid's row                       reds of J, J + 1, skew and dropped of J, J + 1
//! ```
//!
//! Each thread works on its rows: first in one sweep, each formula on the rows for which it needs no row of other
//! threads; then, formula by formula with barriers between, on the few rows that are left at either end. A formula
//! writes rows of its thread; `coarse` also writes the rows of the next grid that they make, which no thread uses
//! before a barrier. A formula reads rows of other threads only if they are complete since a barrier and not written
//! before the next one. The unsafe blocks rest on that. Here is the order of the formulas; `formulas` has what they
//! compute.

mod formulas;

use super::cycle::Sections;
use super::levels::PackedGrid;
use super::number::{Double, Format};
use super::packed::Packed;
use super::ranks::HALF;
use super::spread::natural_rows;
use super::system::Schur;
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

/// Inspection of a matrix during its factorization, which assumes that the matrix resembles the previous one.
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

    /// Inspects natural row j of A, the next one of this thread; whether the factorization may read it.
    fn admits(&self, thread: usize, a: &StencilView, j: usize) -> bool {
        // The inspection joins each row to the one before, so it ends at the first refused row.
        let sound = !self.is_over() && self.inspection.look_at(thread, a, j, &self.wanted);
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
                    // SAFETY: rows of this thread, which no other uses before the barrier below.
                    unsafe { area.fill_row(row, grid.layout.to, F::write(1.0)) };
                }
            }
        }
        me.barrier();
    }

    /// Copies A, eliminates level by level. All threads see the same result. `watch`: A is seen for the first time.
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
            levels.form(me, &mut scratch, watch);
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

/// The two levels of a grid in the making.
struct Levels<'a, F: Format> {
    k: &'a Packed<F>,
    q: usize,
    grid: &'a PackedGrid<F>,
    /// Where the first elimination is exact, as with 5 points: couplings and centers are those of A, and black
    /// nodes are not coupled.
    exact: bool,
    /// S1 where the first elimination is exact and CG in double precision: its rows are computed in place.
    in_place: Option<Schur<Double>>,
    setup: &'a Setup,
    context: &'a PivotContext<'a>,
}

impl<'a, F: Format> Levels<'a, F> {
    fn new(k: &'a Packed<F>, q: usize, setup: &'a Setup, context: &'a PivotContext) -> Self {
        let (grid, exact) = (&k.grids[q], q == 0 && k.shape.schur);
        let in_place = if exact { k.schur.doubles() } else { None };
        Self { k, q, grid, exact, in_place, setup, context }
    }

    /// A, and S1 where CG runs on that: no level.
    fn form_system(&self, me: Me, scratch: &mut [f64]) {
        let (grid, rows) = (self.grid, self.grid.rows(me));
        // SAFETY: rows belong to this thread, and a barrier stands between what threads make and others read.
        unsafe {
            rows.clone().for_each(|row| self.spread(row, None));
            grid.barrier(me);
            if self.exact {
                rows.clone().for_each(|row| self.reds(row, scratch));
                grid.barrier(me);
                rows.for_each(|row| self.skew(row, scratch));
                grid.barrier(me);
            }
        }
    }

    /// Rows of this thread, from A or the grid's matrix to the next grid's.
    fn form(&self, me: Me, scratch: &mut [f64], watch: Option<&Watch>) {
        let (grid, first, rows) = (self.grid, self.q == 0, self.grid.rows(me));
        // Rows for which a formula needs no row of other threads.
        let inner = |before: usize, behind: usize| {
            let start = rows.start + before;
            start..rows.end.saturating_sub(behind).max(start)
        };
        let (started, reds, skewed, coarse) = (inner(1, 0), inner(2, 1), inner(3, 2), inner(3, 3));
        // The others, with rows of other ranks next to them, which come with the matrix: so a grid takes one exchange.
        let left = |done: &Range<usize>, beyond: usize| {
            let done = done.clone();
            grid.rows_and(me, beyond).filter(move |row| !done.contains(row))
        };
        if let Some(watch) = watch {
            watch.inspection.begin(me.index, self.context.a, natural_rows(&grid.layout, &rows));
        }
        let watch_here = watch.map(|watch| (watch, me.index));
        // SAFETY: rows belong to this thread, or of other ranks next to it, which no other thread here computes. The
        // sweep reads rows of this thread that it has completed. A barrier stands between a row and its use by others.
        unsafe {
            for row in rows.start..rows.end + 3 {
                if first && rows.contains(&row) {
                    self.spread(row, watch_here);
                }
                if first && started.contains(&row) {
                    self.start(row, scratch);
                }
                let behind = |lag: usize, of: &Range<usize>| row.checked_sub(lag).filter(|row| of.contains(row));
                if let Some(row) = behind(1, &reds) {
                    self.reds(row, scratch);
                }
                if let Some(row) = behind(2, &skewed) {
                    self.skew(row, scratch);
                    self.dropped(row, scratch);
                }
                if let Some(row) = behind(3, &coarse) {
                    self.coarse(row, scratch);
                }
            }
            if first {
                left(&rows, REACH).for_each(|row| self.spread(row, None));
                grid.barrier(me);
                left(&started, REACH).for_each(|row| self.start(row, scratch));
            }
            grid.barrier(me);
            left(&reds, 2).for_each(|row| self.reds(row, scratch));
            grid.barrier(me);
            left(&skewed, 1).for_each(|row| {
                self.skew(row, scratch);
                self.dropped(row, scratch);
            });
            grid.barrier(me);
            left(&coarse, 0).for_each(|row| self.coarse(row, scratch));
        }
        grid.barrier(me);
    }

    /// Rows of the next grid that other ranks make, or need.
    fn share_next(&self, me: Me, scratch: &mut [f64]) {
        if self.grid.halo.is_none() {
            return;
        }
        if me.index == 0 {
            // SAFETY: `form` ends with a barrier, and the other threads wait at a barrier.
            let lost = unsafe { self.fetch_next(scratch) };
            self.k.note(lost);
        }
        // Whoever works on the next grid reads it.
        me.barrier();
    }

    /// Rows of the next grid's matrix that other ranks make.
    ///
    /// # Safety
    /// This rank's rows must be made, and no thread may use that grid.
    unsafe fn fetch_next(&self, scratch: &mut [f64]) -> Result<()> {
        let Some((links, next)) = self.k.links.as_ref().zip(self.k.grids.get(self.q + 1)) else { return Ok(()) };
        let target = next.target(self.setup.unit);
        let nx = next.layout.grid.nx;
        let own = |row: usize, to: &mut [f64]| {
            // SAFETY: by the safety contract of this function: this is a row of this rank.
            let made = unsafe { self.coarse_row(row, scratch) };
            to.chunks_exact_mut(nx).zip(made).for_each(|(to, made)| to.copy_from_slice(made));
        };
        // SAFETY: by the safety contract of this function.
        let other = |row: usize, made: [&[f64]; HALF]| unsafe { target.spread(row, made.map(|values| (0, values))) };
        match links.matrices.get(self.q) {
            Some(halo) => halo.exchange(own, other),
            None => links.hand_over.matrix(own, other),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
