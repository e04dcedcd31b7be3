//! Factorization on grids stored by colour: the formulas of `rrb::natural` (docs/theory/rrb.md, row-sum form; report
//! 16-06, equations 2.3 to 2.6, 2.12 and 2.13), applied colour by colour.
//!
//! Each grid is factorized in one sweep over rows J, so that a row is still in cache when the next formula reads it.
//! The table names, for each formula, its result for row J and the rows that it reads:
//!
//! ```text
//!     copy      first grid: A of row J, and the south couplings of r2 and b1 in row J + 1
//!     initial   first grid: M before the levels           A of J - 1, J, after copy
//!               (if CG runs on S1, reds and skew compute the row sums)
//!     reds      pivots of r1 and r2                       A, M of J - 1 .. J + 1, before skew
//!     skew      diagonal couplings and row sums of the    A, M of J - 1 .. J + 1, reds of J - 1 .. J + 1
//!               skew stencil; S1
//!     b1        pivots of b1                              skew of J, reds of J - 1, J
//!     coarse    a row of the next grid's matrix           reds of J, J + 1, skew and b1 of J, J + 1
//! ```
//!
//! Each thread works on its own rows. It first sweeps over those rows for which a formula reads no rows of other
//! threads. A few rows at either end of the thread's range remain. The threads then process the remaining rows formula
//! by formula, with barriers between the formulas.
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

use super::cycle::CycleThread;
use super::levels::PackedGrid;
use super::number::{F64Format, Format};
use super::packed::PackedSystem;
use super::ranks::HALF_STENCIL_ARRAYS;
use super::system::SchurComplement;
use crate::base::memory::LINE_BYTES;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::rrb::backend::{PivotContext, Setup};
use crate::rrb::cpu::colour_array::{FourColours, RING_ROWS};
use crate::rrb::cpu::conversion::natural_rows;
use crate::rrb::domain::{MATRIX_HALO_ROWS, STORED_HALO_ROWS};
use crate::rrb::recursion;
use crate::rrb::recursion::{Cycle, CycleKind};
use crate::stencil::inspection::{Inspection, SpeculationConditions};
use crate::stencil::matrix::StencilView;
use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

/// Inspection of a matrix during its speculative factorization. Such a factorization assumes that the matrix has the
/// structure of the previous matrix.
pub struct SpeculativeInspection<'a> {
    pub inspection: &'a Inspection,
    pub required_conditions: SpeculationConditions,
    has_stopped: AtomicBool,
}

impl<'a> SpeculativeInspection<'a> {
    pub fn new(inspection: &'a Inspection, required_conditions: SpeculationConditions) -> Self {
        Self { inspection, required_conditions, has_stopped: AtomicBool::new(false) }
    }

    /// Returns whether a row has failed the inspection.
    pub fn has_failed(&self) -> bool {
        self.has_stopped.load(Ordering::Relaxed)
    }

    /// Inspects natural row j of A, which must be the next row of this thread. Returns whether the row passed, so that
    /// the factorization may read it.
    fn inspect_row_of_a(&self, thread_index: usize, a: &StencilView, j: usize) -> bool {
        // The record of a row requires the record of the row before it, and a row that fails is not recorded. The
        // inspection therefore ends at the first row that fails, on all threads.
        let passed = !self.has_failed() && self.inspection.inspect_row(thread_index, a, j, &self.required_conditions);
        if !passed {
            self.has_stopped.store(true, Ordering::Relaxed);
        }
        passed
    }
}

impl<F: Format> PackedSystem<F> {
    /// Sets the stored pivots of f32 and bf16 to one. This includes padding and border, because loops divide by these
    /// entries, too. Each thread sets its own rows.
    fn fill_short_pivots(&self, thread: TeamThread) {
        for grid in &self.grids {
            let Some(short_factors) = grid.short_factors() else { return };
            for row in grid.rows_with_halo(thread, STORED_HALO_ROWS) {
                for array in
                    [&short_factors.stored_pivot.r1, &short_factors.stored_pivot.r2, &short_factors.stored_pivot.b1]
                        .into_iter()
                        .filter(|a| a.bytes() > 0)
                {
                    // SAFETY: the rows belong to this thread, and no other thread uses them before the barrier below.
                    unsafe { array.fill_row(row, grid.layout.end_row, F::write(1.0)) };
                }
            }
        }
        thread.barrier();
    }

    /// Copies A and eliminates level by level. All threads return the same result. With `speculation`, the matrix is
    /// inspected at the same time. If a row fails the inspection, the factorization ends early, and its result must not
    /// be used.
    pub fn factorize_on_thread(
        &self,
        thread: TeamThread,
        setup: &Setup,
        context: &PivotContext,
        speculation: Option<&SpeculativeInspection>,
    ) -> Result<()> {
        let mut scratch_guard = self.scratch[thread.index].lock().unwrap_or_else(PoisonError::into_inner);
        // The scratch rows begin at a cache line, so that no vector register is loaded from two cache lines.
        let aligned_start = scratch_guard.as_ptr().align_offset(LINE_BYTES);
        let scratch = &mut scratch_guard[aligned_start..];
        if self.is_fresh {
            self.fill_short_pivots(thread);
        }
        for q in 0..self.grids.len() {
            let speculation = speculation.filter(|_| q == 0);
            let factorization = GridFactorization::new(self, q, setup, context);
            if self.shape.uses_aggregation {
                factorization.copy_and_form_s1(thread, scratch);
                break;
            }
            factorization.apply_formulas(thread, scratch, speculation);
            factorization.exchange_next_matrix(thread, scratch);
            if let Some(speculation) = speculation {
                thread.barrier();
                if speculation.has_failed() {
                    break;
                }
            }
        }
        let speculation_failed = speculation.is_some_and(SpeculativeInspection::has_failed);
        if !speculation_failed && !self.shape.uses_aggregation && thread.index == 0 {
            self.store_error(self.factorize_natural(setup, context, scratch));
        }
        drop(scratch_guard);
        thread.barrier();
        if let (0, Some(exchanges)) = (thread.index, &self.exchanges) {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            *failure = exchanges.domain.first_failure(failure.take());
        }
        thread.barrier();
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        thread.barrier();
        if thread.index == 0 {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        if !speculation_failed && !self.shape.uses_aggregation {
            self.prepare_cycle(thread, setup);
        }
        Ok(())
    }

    /// Factorizes the levels below the last grid that is stored by colour.
    fn factorize_natural(&self, setup: &Setup, context: &PivotContext, scratch: &mut [f64]) -> Result<()> {
        let (mut natural_levels, last_grid_index) = (self.natural_levels(), self.grids.len() - 1);
        GridFactorization::new(self, last_grid_index, setup, context)
            .form_natural_matrix(natural_levels.input_matrix(), scratch);
        natural_levels.factorize(&self.natural_setup(setup), context, None)
    }

    /// Returns the setup of the levels in natural storage.
    fn natural_setup(&self, setup: &Setup) -> Setup {
        // If there are recursions on grids stored by colour, `prepare_cycle` later selects one cycle for all levels.
        // This selection needs the eigenvalue bounds of the levels in natural storage, which are estimated only for
        // AMLI.
        let kind =
            if self.section_starts.len() > 1 { setup.cycle.kind.or(Some(CycleKind::Amli)) } else { setup.cycle.kind };
        Setup { cycle: Cycle { kind, ..setup.cycle }, ..*setup }
    }

    /// Estimates the eigenvalue bounds at the recursions on grids stored by colour, and selects the cycle. If no such
    /// grid has a recursion, uses the cycle that the levels in natural storage have selected.
    fn prepare_cycle(&self, thread: TeamThread, setup: &Setup) {
        let selected_cycle = if self.section_starts.len() > 1 {
            let natural_condition = self.natural_levels().recursion().worst_condition();
            recursion::prepare_recursion(&mut CycleThread::new(self, thread), &setup.cycle, natural_condition)
        } else {
            *self.natural_levels().recursion()
        };
        thread.barrier();
        if thread.index == 0 {
            self.natural_levels().set_kind(selected_cycle.kind);
            *self.recursion.lock().unwrap_or_else(PoisonError::into_inner) = selected_cycle;
        }
        thread.barrier();
    }

    /// Stores an error. Of several errors, only one is kept: the error at the first level, and of the errors at this
    /// level, the error at the first node. The stored error therefore does not depend on the number of threads.
    fn store_error(&self, result: Result<()>) {
        let Err(error) = result else { return };
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_none_or(|stored| error.matrix_location() < stored.matrix_location()) {
            *failure = Some(error);
        }
    }
}

/// Factorization of the two levels of one grid.
struct GridFactorization<'a, F: Format> {
    packed: &'a PackedSystem<F>,
    q: usize,
    grid: &'a PackedGrid<F>,
    /// Whether this is the first grid and CG runs on S1. The first elimination is then exact: it reads the centers and
    /// couplings of A, which does not couple black nodes with each other.
    is_exact: bool,
    /// The arrays of S1, if `is_exact` is set and CG runs in double precision. The rows of S1 are then computed
    /// directly in these arrays.
    s1_in_place: Option<SchurComplement<F64Format>>,
    /// Row sums and 1 / d of the grid, in complete arrays or in rings of a few rows (see `apply_formulas`).
    row_sums: FourColours,
    inverse_pivots: FourColours,
    setup: &'a Setup,
    context: &'a PivotContext<'a>,
}

impl<'a, F: Format> GridFactorization<'a, F> {
    fn new(packed: &'a PackedSystem<F>, q: usize, setup: &'a Setup, context: &'a PivotContext) -> Self {
        let (grid, is_exact) = (&packed.grids[q], q == 0 && packed.shape.uses_schur);
        let s1_in_place = if is_exact { packed.schur.as_doubles() } else { None };
        let (row_sums, inverse_pivots) = (grid.row_sums.clone(), grid.inverse_pivots.clone());
        Self { packed, q, grid, is_exact, s1_in_place, row_sums, inverse_pivots, setup, context }
    }

    /// Copies A. If CG runs on S1, also computes S1. No level is factorized, because aggregation replaces the levels.
    fn copy_and_form_s1(&self, thread: TeamThread, scratch: &mut [f64]) {
        let (grid, rows) = (self.grid, self.grid.rows(thread));
        // SAFETY: the rows belong to this thread, and a barrier separates the writes of a thread from the reads of
        // other threads.
        unsafe {
            rows.clone().for_each(|row| self.copy_row_of_a(row, None));
            grid.barrier(thread);
            if self.is_exact {
                rows.clone().for_each(|row| self.process_reds(row, scratch));
                grid.barrier(thread);
                rows.for_each(|row| self.compute_skew(row, scratch));
                grid.barrier(thread);
            }
        }
    }

    /// Applies all formulas to the rows of this thread. The input is A on the first grid, and the matrix of this grid
    /// on other grids. The output is the matrix of the next grid.
    fn apply_formulas(&self, thread: TeamThread, scratch: &mut [f64], speculation: Option<&SpeculativeInspection>) {
        let (grid, is_first_grid, rows) = (self.grid, self.q == 0, self.grid.rows(thread));
        // Returns the rows of this thread without the first `skipped_at_start` and the last `skipped_at_end` rows. The
        // numbers are chosen such that a formula for one of the remaining rows reads no rows of other threads.
        let inner_rows = |skipped_at_start: usize, skipped_at_end: usize| {
            let start = rows.start + skipped_at_start;
            start..rows.end.saturating_sub(skipped_at_end).max(start)
        };
        let (initialized_rows, red_rows, skew_rows, coarse_rows) =
            (inner_rows(1, 0), inner_rows(2, 1), inner_rows(3, 2), inner_rows(3, 3));
        let (mut sweep_factorization, mut swept_rows) =
            (Self::new(self.packed, self.q, self.setup, self.context), [red_rows.clone(), skew_rows.clone()]);
        if self.is_exact && self.q + 1 < self.packed.grids.len() && grid.halo.is_none() && rows.len() >= 4 * RING_ROWS {
            // Only this function reads row sums and 1 / d of this grid, with one exception: in f64, solves also read
            // 1 / d of b1. The sweep therefore stores all other values in a ring of rows. After the sweep, the values
            // that are needed again are recomputed.
            let first_ring_row = rows.start + 6;
            (sweep_factorization.row_sums, sweep_factorization.inverse_pivots) =
                (self.row_sums.as_row_ring(first_ring_row), self.inverse_pivots.as_row_ring(first_ring_row));
            if !F::IS_SHORT {
                sweep_factorization.inverse_pivots.b1 = self.inverse_pivots.b1.clone();
            }
            swept_rows = [inner_rows(5, 4), inner_rows(4, 3)];
        }
        // Returns the rows of this thread that are not in `swept_rows`, and up to `halo_rows` halo rows on each side.
        // Each rank eliminates the nodes of its halo rows itself, so the ranks exchange only the matrix of each grid.
        let remaining_rows = |swept_rows: &Range<usize>, halo_rows: usize| {
            let swept_rows = swept_rows.clone();
            grid.rows_with_halo(thread, halo_rows).filter(move |row| !swept_rows.contains(row))
        };
        if let Some(speculation) = speculation {
            speculation.inspection.begin(thread.index, self.context.a, natural_rows(&grid.layout, &rows));
        }
        let speculation_and_thread = speculation.map(|speculation| (speculation, thread.index));
        // SAFETY: each row belongs to this thread, or is a halo row that no other thread of this rank computes. The
        // sweep reads rows of this thread that are complete. A barrier separates the computation of a row from its use
        // by other threads.
        unsafe {
            for row in rows.start..rows.end + 3 {
                if is_first_grid && rows.contains(&row) {
                    self.copy_row_of_a(row, speculation_and_thread);
                }
                if is_first_grid && initialized_rows.contains(&row) {
                    self.initialize_row(row, scratch);
                }
                let lagging_row =
                    |lag: usize, range: &Range<usize>| row.checked_sub(lag).filter(|row| range.contains(row));
                if let Some(row) = lagging_row(1, &red_rows) {
                    sweep_factorization.process_reds(row, scratch);
                }
                if let Some(row) = lagging_row(2, &skew_rows) {
                    sweep_factorization.compute_skew(row, scratch);
                    sweep_factorization.process_b1(row, scratch);
                }
                if let Some(row) = lagging_row(3, &coarse_rows) {
                    sweep_factorization.store_coarse_row(row, scratch);
                }
            }
            if is_first_grid {
                remaining_rows(&rows, MATRIX_HALO_ROWS).for_each(|row| self.copy_row_of_a(row, None));
                grid.barrier(thread);
                remaining_rows(&initialized_rows, MATRIX_HALO_ROWS).for_each(|row| self.initialize_row(row, scratch));
            }
            grid.barrier(thread);
            remaining_rows(&swept_rows[0], 2).for_each(|row| self.process_reds(row, scratch));
            grid.barrier(thread);
            remaining_rows(&swept_rows[1], 1).for_each(|row| {
                self.compute_skew(row, scratch);
                self.process_b1(row, scratch);
            });
            grid.barrier(thread);
            remaining_rows(&coarse_rows, 0).for_each(|row| self.store_coarse_row(row, scratch));
        }
        grid.barrier(thread);
    }

    /// Exchanges rows of the next grid's matrix with other ranks.
    fn exchange_next_matrix(&self, thread: TeamThread, scratch: &mut [f64]) {
        if self.grid.halo.is_none() {
            return;
        }
        if thread.index == 0 {
            // SAFETY: `apply_formulas` ends with a barrier, and the other threads wait at the barrier below.
            let result = unsafe { self.fetch_next_matrix(scratch) };
            self.packed.store_error(result);
        }
        // At this barrier, all threads wait until the exchange is complete.
        thread.barrier();
    }

    /// Sends rows of the next grid's matrix to other ranks, and receives those that other ranks compute.
    ///
    /// # Safety
    /// The rows of this rank must be complete, and no thread may use the next grid.
    unsafe fn fetch_next_matrix(&self, scratch: &mut [f64]) -> Result<()> {
        let Some((exchanges, next)) = self.packed.exchanges.as_ref().zip(self.packed.grids.get(self.q + 1)) else {
            return Ok(());
        };
        let target = next.matrix_target(self.setup.storage_unit);
        let nx = next.layout.grid.nx;
        let compute_row = |row: usize, out: &mut [f64]| {
            // SAFETY: by the safety contract of this function, row j of this rank is complete.
            let arrays = unsafe { self.compute_coarse_row(row, scratch) };
            out.chunks_exact_mut(nx).zip(arrays).for_each(|(out, arrays)| out.copy_from_slice(arrays));
        };
        // SAFETY: by the safety contract of this function.
        let store_row = |row: usize, arrays: [&[f64]; HALF_STENCIL_ARRAYS]| unsafe {
            target.store_row(row, arrays.map(|values| (0, values)))
        };
        match exchanges.matrix_halos.get(self.q) {
            Some(halo) => halo.exchange(compute_row, store_row),
            None => exchanges.complete_rows.exchange_matrix(compute_row, store_row),
        }
    }
}

#[cfg(test)]
pub mod tests;
