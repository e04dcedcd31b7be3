//! Factorization on grids stored by colour: the formulas of `rrb::natural` (docs/theory/rrb.md, row-sum form; report
//! 16-06, equations 2.3 to 2.6, 2.12 and 2.13), applied colour by colour.
//!
//! Each grid is factorized in one sweep over rows J, so that a row is still in cache when the next formula reads it.
//! The table names, for each formula, its result for row J and the rows that it reads:
//!
//! ```text
//!     spread    first grid: A of row J, and the couplings to the south of r2 and b1 in row J + 1
//!     start     first grid: M before the levels           A of J - 1, J, after spread
//!               (if CG runs on S1, reds and skew compute the row sums)
//!     reds      pivots of r1 and r2                       A, M of J - 1 .. J + 1, before skew
//!     skew      diagonal couplings and row sums of the    A, M of J - 1 .. J + 1, reds of J - 1 .. J + 1
//!               skew stencil; S1
//!     dropped   pivots of b1                              skew of J, reds of J - 1, J
//!     coarse    a row of the next grid's matrix           reds of J, J + 1, skew and dropped of J, J + 1
//! ```
//!
//! Each thread works on its own rows. It first sweeps over those rows for which a formula reads no rows of other
//! threads. A few rows remain at either end of its range. The threads then process the remaining rows formula by
//! formula, with barriers between the formulas.
//!
//! The unsafe blocks rely on two rules:
//!
//! - A formula writes rows of its thread. `coarse` also writes rows of the next grid, which no thread uses before a
//!   barrier.
//! - A formula reads a row of another thread only after a barrier that follows the completion of the row. Another
//!   barrier precedes the next write of the row.
//!
//! This module defines the order in which the formulas are applied; `formulas` contains the formulas.

mod formulas;

use super::cycle::Sections;
use super::levels::PackedGrid;
use super::number::{Double, Format};
use super::packed::Packed;
use super::ranks::HALF_STENCIL_ARRAYS;
use super::system::Schur;
use crate::base::memory::LINE;
use crate::base::team::Me;
use crate::error::Result;
use crate::rrb::backend::{PivotContext, Setup};
use crate::rrb::cpu::colour_array::{FourColours, RING_ROWS};
use crate::rrb::cpu::conversion::natural_rows;
use crate::rrb::domain::{MATRIX_HALO_ROWS, STORED_HALO_ROWS};
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, Kind};
use crate::stencil::inspection::{Conditions, Inspection};
use crate::stencil::matrix::StencilView;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// Inspection of a matrix during its speculative factorization, which assumes that the matrix has the structure of the
/// previous one.
pub struct SpeculativeInspection<'a> {
    pub inspection: &'a Inspection,
    pub wanted: Conditions,
    stopped: AtomicBool,
}

impl<'a> SpeculativeInspection<'a> {
    pub fn new(inspection: &'a Inspection, wanted: Conditions) -> Self {
        Self { inspection, wanted, stopped: AtomicBool::new(false) }
    }

    /// Returns whether a row has failed the inspection.
    pub fn has_failed(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Inspects natural row j of A, which must be the next row of this thread. Returns whether the row passed, so that
    /// the factorization may read it.
    fn inspect_row_of_a(&self, thread: usize, a: &StencilView, j: usize) -> bool {
        // A row that fails is not recorded, and the record of a row builds on that of the row before it. The inspection
        // therefore ends at the first row that fails, on all threads.
        let sound = !self.has_failed() && self.inspection.inspect_row(thread, a, j, &self.wanted);
        if !sound {
            self.stopped.store(true, Ordering::Relaxed);
        }
        sound
    }
}

impl<F: Format> Packed<F> {
    /// Sets the stored pivots of f32 and bf16 to one. This includes padding and border, because loops divide by these
    /// entries, too. Each thread sets its own rows.
    fn fill_short_pivots(&self, me: Me) {
        for grid in &self.grids {
            let Some(short) = grid.short() else { return };
            for row in grid.rows_and(me, STORED_HALO_ROWS) {
                for area in [&short.stored_pivot.r1, &short.stored_pivot.r2, &short.stored_pivot.b1]
                    .into_iter()
                    .filter(|a| a.bytes() > 0)
                {
                    // SAFETY: the rows belong to this thread, and no other thread uses them before the barrier below.
                    unsafe { area.fill_row(row, grid.layout.to, F::write(1.0)) };
                }
            }
        }
        me.barrier();
    }

    /// Copies A and eliminates level by level. All threads return the same result. With `speculation`, the matrix is
    /// inspected at the same time. If a row fails the inspection, the factorization ends early, and its result must not
    /// be used.
    pub fn factorize_share(
        &self,
        me: Me,
        setup: &Setup,
        context: &PivotContext,
        speculation: Option<&SpeculativeInspection>,
    ) -> Result<()> {
        let mut memory = self.scratch[me.index].lock().unwrap_or_else(PoisonError::into_inner);
        // The scratch rows begin at a cache line, so that no vector register is loaded from two cache lines.
        let first = memory.as_ptr().align_offset(LINE);
        let scratch = &mut memory[first..];
        if self.fresh {
            self.fill_short_pivots(me);
        }
        for q in 0..self.grids.len() {
            let speculation = speculation.filter(|_| q == 0);
            let levels = Levels::new(self, q, setup, context);
            if self.shape.aggregates {
                levels.form_system(me, scratch);
                break;
            }
            levels.form(me, scratch, speculation);
            levels.exchange_next(me, scratch);
            if let Some(speculation) = speculation {
                me.barrier();
                if speculation.has_failed() {
                    break;
                }
            }
        }
        let over = speculation.is_some_and(SpeculativeInspection::has_failed);
        if !over && !self.shape.aggregates && me.index == 0 {
            self.store_error(self.factorize_natural(setup, context, scratch));
        }
        drop(memory);
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

    /// Factorizes the levels below the last grid that is stored by colour.
    fn factorize_natural(&self, setup: &Setup, context: &PivotContext, scratch: &mut [f64]) -> Result<()> {
        let (mut natural, last) = (self.natural(), self.grids.len() - 1);
        Levels::new(self, last, setup, context).form_natural(natural.input(), scratch);
        natural.factorize(&self.below(setup), context, None)
    }

    /// Returns the setup of the levels in natural storage.
    fn below(&self, setup: &Setup) -> Setup {
        // If finer grids have recursions, `prepare_cycle` later selects one cycle for all levels. It needs the bounds
        // of the levels in natural storage, which are estimated for AMLI.
        let kind = if self.sections.len() > 1 { setup.cycle.kind.or(Some(Kind::Amli)) } else { setup.cycle.kind };
        Setup { cycle: Cycle { kind, ..setup.cycle }, ..*setup }
    }

    /// Estimates the eigenvalue bounds at the recursions on grids stored by colour, and selects the cycle. If no such
    /// grid has a recursion, uses the cycle that the levels in natural storage have selected.
    fn prepare_cycle(&self, me: Me, setup: &Setup) {
        let found = if self.sections.len() > 1 {
            let below = self.natural().recursion().worst_condition();
            recursion::prepare(&mut Sections::new(self, me), &setup.cycle, below)
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

    /// Stores an error. If there are several errors, the error at the first level remains, and on this level that of
    /// the first node. The stored error therefore does not depend on the number of threads.
    fn store_error(&self, result: Result<()>) {
        let Err(error) = result else { return };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|first| error.matrix_place() < first.matrix_place()) {
            *failure = Some(error);
        }
    }
}

/// Factorization of the two levels of one grid.
struct Levels<'a, F: Format> {
    k: &'a Packed<F>,
    q: usize,
    grid: &'a PackedGrid<F>,
    /// Whether this is the first grid and CG runs on S1. The first elimination is then exact: it reads the centers and
    /// couplings of A, which does not couple black nodes with each other.
    exact: bool,
    /// The arrays of S1, if `exact` is set and CG runs in double precision. The rows of S1 are then computed directly
    /// in these arrays.
    in_place: Option<Schur<Double>>,
    /// Row sums and 1 / d of the grid, in complete arrays or in rings of a few rows (see `form`).
    excess: FourColours,
    inverse: FourColours,
    setup: &'a Setup,
    context: &'a PivotContext<'a>,
}

impl<'a, F: Format> Levels<'a, F> {
    fn new(k: &'a Packed<F>, q: usize, setup: &'a Setup, context: &'a PivotContext) -> Self {
        let (grid, exact) = (&k.grids[q], q == 0 && k.shape.schur);
        let in_place = if exact { k.schur.doubles() } else { None };
        let (excess, inverse) = (grid.excess.clone(), grid.inverse.clone());
        Self { k, q, grid, exact, in_place, excess, inverse, setup, context }
    }

    /// Copies A. If CG runs on S1, also computes S1. No level is factorized, because aggregation replaces the levels.
    fn form_system(&self, me: Me, scratch: &mut [f64]) {
        let (grid, rows) = (self.grid, self.grid.rows(me));
        // SAFETY: the rows belong to this thread, and a barrier separates the writes of a thread from the reads of
        // other threads.
        unsafe {
            rows.clone().for_each(|row| self.spread(row, None));
            grid.barrier(me);
            if self.exact {
                rows.clone().for_each(|row| self.process_reds(row, scratch));
                grid.barrier(me);
                rows.for_each(|row| self.compute_skew(row, scratch));
                grid.barrier(me);
            }
        }
    }

    /// Applies all formulas to the rows of this thread. The input is A or the matrix of this grid; the output is the
    /// matrix of the next grid.
    fn form(&self, me: Me, scratch: &mut [f64], speculation: Option<&SpeculativeInspection>) {
        let (grid, first, rows) = (self.grid, self.q == 0, self.grid.rows(me));
        // Returns the rows of this thread without the first `before` and the last `behind` rows. The two numbers are
        // such that a formula reads no rows of other threads for the rows that remain.
        let inner = |before: usize, behind: usize| {
            let start = rows.start + before;
            start..rows.end.saturating_sub(behind).max(start)
        };
        let (started, reds, skewed, coarse) = (inner(1, 0), inner(2, 1), inner(3, 2), inner(3, 3));
        let (mut inside, mut done) =
            (Self::new(self.k, self.q, self.setup, self.context), [reds.clone(), skewed.clone()]);
        if self.exact && self.q + 1 < self.k.grids.len() && grid.halo.is_none() && rows.len() >= 4 * RING_ROWS {
            // Only this function reads row sums and 1 / d of this grid, with one exception: in f64, solves also read
            // 1 / d of b1. The sweep therefore stores all other values in a ring of rows. After the sweep, the values
            // that are needed again are recomputed.
            let first = rows.start + 6;
            (inside.excess, inside.inverse) = (self.excess.as_row_ring(first), self.inverse.as_row_ring(first));
            if !F::SHORT {
                inside.inverse.b1 = self.inverse.b1.clone();
            }
            done = [inner(5, 4), inner(4, 3)];
        }
        // Returns the rows of this thread that are not in `done`, and `beyond` halo rows on each side. This rank
        // computes the halo of the matrix itself, so a grid needs only one exchange.
        let left = |done: &Range<usize>, beyond: usize| {
            let done = done.clone();
            grid.rows_and(me, beyond).filter(move |row| !done.contains(row))
        };
        if let Some(speculation) = speculation {
            speculation.inspection.begin(me.index, self.context.a, natural_rows(&grid.layout, &rows));
        }
        let speculation_here = speculation.map(|speculation| (speculation, me.index));
        // SAFETY: each row belongs to this thread, or is a halo row that no other thread of this rank computes. The
        // sweep reads rows of this thread that are complete. A barrier separates a row from its use by other threads.
        unsafe {
            for row in rows.start..rows.end + 3 {
                if first && rows.contains(&row) {
                    self.spread(row, speculation_here);
                }
                if first && started.contains(&row) {
                    self.initialize(row, scratch);
                }
                let behind = |lag: usize, of: &Range<usize>| row.checked_sub(lag).filter(|row| of.contains(row));
                if let Some(row) = behind(1, &reds) {
                    inside.process_reds(row, scratch);
                }
                if let Some(row) = behind(2, &skewed) {
                    inside.compute_skew(row, scratch);
                    inside.process_dropped(row, scratch);
                }
                if let Some(row) = behind(3, &coarse) {
                    inside.compute_coarse(row, scratch);
                }
            }
            if first {
                left(&rows, MATRIX_HALO_ROWS).for_each(|row| self.spread(row, None));
                grid.barrier(me);
                left(&started, MATRIX_HALO_ROWS).for_each(|row| self.initialize(row, scratch));
            }
            grid.barrier(me);
            left(&done[0], 2).for_each(|row| self.process_reds(row, scratch));
            grid.barrier(me);
            left(&done[1], 1).for_each(|row| {
                self.compute_skew(row, scratch);
                self.process_dropped(row, scratch);
            });
            grid.barrier(me);
            left(&coarse, 0).for_each(|row| self.compute_coarse(row, scratch));
        }
        grid.barrier(me);
    }

    /// Exchanges rows of the next grid's matrix with other ranks.
    fn exchange_next(&self, me: Me, scratch: &mut [f64]) {
        if self.grid.halo.is_none() {
            return;
        }
        if me.index == 0 {
            // SAFETY: `form` ends with a barrier, and the other threads wait at the barrier below.
            let result = unsafe { self.fetch_next(scratch) };
            self.k.store_error(result);
        }
        // At this barrier, all threads wait until the exchange is complete.
        me.barrier();
    }

    /// Sends rows of the next grid's matrix to other ranks, and receives those that other ranks compute.
    ///
    /// # Safety
    /// The rows of this rank must be complete, and no thread may use the next grid.
    unsafe fn fetch_next(&self, scratch: &mut [f64]) -> Result<()> {
        let Some((links, next)) = self.k.links.as_ref().zip(self.k.grids.get(self.q + 1)) else { return Ok(()) };
        let target = next.target(self.setup.unit);
        let nx = next.layout.grid.nx;
        let own = |row: usize, to: &mut [f64]| {
            // SAFETY: by the safety contract of this function, row j of this rank is complete.
            let made = unsafe { self.coarse_row(row, scratch) };
            to.chunks_exact_mut(nx).zip(made).for_each(|(to, made)| to.copy_from_slice(made));
        };
        // SAFETY: by the safety contract of this function.
        let other = |row: usize, made: [&[f64]; HALF_STENCIL_ARRAYS]| unsafe {
            target.spread(row, made.map(|values| (0, values)))
        };
        match links.matrices.get(self.q) {
            Some(halo) => halo.exchange(own, other),
            None => links.complete_rows.matrix(own, other),
        }
    }
}

#[cfg(test)]
pub mod tests;
