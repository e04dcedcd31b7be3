//! Fused stages of an iteration on S1 (docs/theory/rrb.md, CG on the Schur complement). The results equal those of the
//! unfused steps up to rounding, but each stage reads and writes each array only once. The memory traffic on the first
//! grid, where arrays are read unless stated otherwise, is:
//!
//! ```text
//!     descend    r read and written, q; pivots and couplings of the even level; values of the next grid written
//!     ascend     values of the next grid, half of r, pivots and couplings of the even level; S1;
//!                p and x read and written, q written
//! ```
//!
//! Each coarser grid is processed once downwards and once upwards. The table in docs/benchmarks/cpu-2d.md gives the
//! number of words for each format (computed by benches/src/cost.rs). In f64, the diagonal couplings of the even level
//! are those of S1, and are stored only once. With f32 and bf16, both are stored.
//!
//! Stages sweep over rows, so that rows needed by the next row are still in cache. In the downward sweep, z of
//! eliminated nodes receives y instead of D^-1 y. At red nodes, y is the right-hand side, which z already contains. Red
//! rows therefore change only in the upward sweep. The value rho = y' D^-1 y is known before the upward sweep begins.
//!
//! In a stage, a thread reads at most one row of the previous and one row of the next thread. Each thread therefore
//! signals to its neighbours when its first and its last row are complete. There is one barrier between grids, and one
//! barrier per scalar.

use crate::base::loops::{combine, dot};
use crate::base::reduce::{OtherRanks, Reduce, pairwise_sum};
use crate::base::team::{StagePoint, TeamThread};
use crate::rrb::cpu::cycle::{DOWN_SWEEP, UP_SWEEP};
use crate::rrb::cpu::iteration::thread::ThreadState;
use crate::rrb::cpu::levels::RowBuffers;
use crate::rrb::cpu::loops::{
    advance_x_and_p, difference_with_product, divide_in_place, solve_eliminated, update_and_divide,
};
use crate::rrb::cpu::neighbours::NeighbourRows;
use crate::rrb::cpu::number::Format;
use crate::rrb::cpu::packed::PackedSystem;
use crate::rrb::cpu::sweeps::{B1_ROWS, KEPT_ROWS, R1_ROWS, b1_around_b2, next_thread, previous_thread};
use crate::rrb::layout::Colour;
use crate::rrb::recursion::{CycleSteps, solve_section};

/// Computes x = x + alpha p and p = z + beta p with `step` = (alpha, beta). Without `step`, computes p = z. `scales`:
/// see [`PackedSystem::direction_scales`].
fn advance_row_by_step<F: Format>(
    x: &mut [f64],
    p: &mut [F::Vector],
    z: &[F::Real],
    step: Option<(f64, f64)>,
    scales: (f64, f64),
) {
    match step {
        None => combine(p, 0.0, scales.0, z),
        Some((0.0, beta)) => combine(p, beta, scales.0, z),
        Some((alpha, beta)) => advance_x_and_p::<F>(x, p, z, alpha * scales.1, beta, scales.0),
    }
}

impl<F: Format> ThreadState<'_, F> {
    /// With `alpha`, first computes r = r - alpha q. Then solves L y = r on the levels of the first section, and solves
    /// the remaining system on the following sections. Returns <r, r>, and stores rho = <r, M^-1 r> in `self.rho`.
    pub(super) fn fused_descend(&mut self, alpha: Option<f64>) -> f64 {
        let (packed, thread) = (self.packed, self.thread);
        let rho_end = packed.rho_start[packed.grids.len()];
        let section_sums = packed.exchanges.as_ref().map(|exchanges| &exchanges.section_sums as &dyn OtherRanks);
        let partials = packed.rho.reduce::<1>(0, packed.rho.rows()).with_other_ranks(section_sums);
        self.cycle_thread.run_timed(0, DOWN_SWEEP, |s| {
            let stage = s.next_stage(&packed.grids[0]);
            packed.exchange_residual(thread, alpha);
            packed.descend_first_grid(thread, stage, alpha, partials, &mut s.buffers());
            packed.pass_to_next_grid(0, thread);
        });
        let grids = self.cycle_thread.grids_of_section(0);
        self.cycle_thread.descend(1..grids.end);
        let mut rho_below = packed.rho_below.reduce(0, packed.rho_below.rows());
        let recursion = packed.recursion();
        if packed.section_starts.len() > 1 {
            if self.cycle_thread.takes_part(1) {
                solve_section(&mut self.cycle_thread, 1, &recursion);
            }
            // Adds <g, u> to rho, where g is the right-hand side of the first recursion, and u its solution. z at the
            // kept nodes of `last_grid` still contains g.
            let last_grid = &packed.grids[grids.end - 1];
            rho_below = rho_below.with_other_ranks(packed.other_ranks(grids.end - 1));
            last_grid.barrier(thread);
            let mut buffers = self.cycle_thread.buffers();
            for row in last_grid.rows(thread) {
                // SAFETY: the recursion has ended, and its grid is only read. The partial sum belongs to a row of this
                // thread.
                unsafe {
                    packed.load_kept_row(grids.end - 1, row, R1_ROWS, &mut buffers);
                    rho_below
                        .store(row, [dot(last_grid.z.b2.row(row, 0), buffers.row(R1_ROWS, 0, last_grid.layout.cx))]);
                }
            }
        } else if thread.index == 0 {
            let rho = self.cycle_thread.run_timed(packed.grids.len(), DOWN_SWEEP, |s| s.packed.solve_natural_levels());
            // SAFETY: only thread 0 stores this partial sum.
            unsafe { rho_below.store(0, [rho]) };
        }
        thread.barrier();
        // If there are other ranks, all threads wait for the partial sums of these ranks.
        let waiting_thread = section_sums.map(|_| thread);
        let [summands] = partials.summands(waiting_thread);
        self.rho = (pairwise_sum(&summands[..packed.rho_start[grids.end]]) + rho_below.sum(waiting_thread)[0])
            / packed.storage_unit;
        pairwise_sum(&summands[rho_end..])
    }

    /// Solves D L^T z = y and computes x = x + alpha p, p = z + beta p, q = S1 p. Returns <p, q>.
    pub(super) fn fused_ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        let (packed, thread, sigma) = (self.packed, self.thread, self.begin_reduction());
        let grids = self.cycle_thread.grids_of_section(0);
        self.cycle_thread.ascend(1..grids.end);
        self.cycle_thread.run_timed(0, UP_SWEEP, |s| {
            // This barrier waits until z of the coarser grid is complete.
            packed.grids[0].barrier(thread);
            let stage = s.next_stage(&packed.grids[0]);
            packed.ascend_first_grid(thread, stage, step, sigma, &mut s.buffers());
        });
        packed.direction_scales().1 * sigma.sum(Some(thread))[0]
    }
}

impl<F: Format> PackedSystem<F> {
    /// If the grid is distributed, computes r = r - alpha q for b1 in the first and the last row of this rank, and
    /// exchanges the halo rows of b1.
    fn exchange_residual(&self, thread: TeamThread, alpha: Option<f64>) {
        let grid = &self.grids[0];
        let Some(halo) = &grid.halo else { return };
        for row in grid.rows(thread).filter(|&row| self.is_residual_updated(row)) {
            // SAFETY: the row belongs to this thread, and no other thread uses it before the barrier.
            unsafe {
                if let Some(alpha) = alpha {
                    combine(self.r.b1.row_mut(row, 0), 1.0, -alpha, self.q.b1.row(row, 0));
                }
            }
        }
        grid.barrier(thread);
        if thread.index == 0 {
            // SAFETY: the other threads wait at the barrier below.
            unsafe { halo.refresh_b1(&self.r) };
        }
        grid.barrier(thread);
    }

    /// Returns whether `exchange_residual` has updated row J of b1.
    fn is_residual_updated(&self, row: usize) -> bool {
        let grid = &self.grids[0];
        let [has_rank_below, has_rank_above] = grid.halo.as_ref().map_or([false; 2], |halo| halo.has_neighbour_ranks);
        has_rank_below && row == grid.own_rows.start || has_rank_above && row + 1 == grid.own_rows.end
    }

    /// Computes r = r - alpha q (with `alpha`), and the downward sweep of the even level of the first grid. Stores the
    /// partial sums of rho and of <r, r> in `partials`.
    fn descend_first_grid(
        &self,
        thread: TeamThread,
        stage: usize,
        alpha: Option<f64>,
        partials: Reduce<1>,
        buffers: &mut RowBuffers<F::Real>,
    ) {
        let grid = &self.grids[0];
        let (rows, n, factors) = (grid.rows(thread), grid.layout.cx, &grid.factors);
        // The partial sums of <r, r> are stored after those of rho of all grids.
        let squares_start = self.rho_start[self.grids.len()];
        let mut square_of_b1 = 0.0;
        for row in rows.clone() {
            // SAFETY: r is written in rows of this thread, before it is read. The first row of the next thread is read
            // after that thread has signalled that this row is complete.
            unsafe {
                let r = self.r.b1.row_mut(row, 0);
                let step = alpha.filter(|_| !self.is_residual_updated(row)).map(|alpha| (alpha, self.q.b1.row(row, 0)));
                let (pivot, a) = factors.pivots_and_couplings(Colour::B1, row);
                let out = buffers.row_mut(B1_ROWS + row % 2, n);
                let (square, rho) = update_and_divide::<F>(r, step, out, pivot, a);
                partials.store(row, [rho]);
                if row == rows.start {
                    thread.signal(StagePoint::FirstRow, stage);
                } else {
                    let square = self.descend_first_b2(row - 1, rows.start, alpha, buffers);
                    partials.store(squares_start + row - 1, [square + square_of_b1]);
                }
                square_of_b1 = square;
            }
        }
        if let Some(last_row) = rows.clone().last() {
            let row_above = buffers.row_mut(B1_ROWS + rows.end % 2, n);
            match next_thread(thread, grid) {
                Some(next) => {
                    thread.wait_for_signal(next, StagePoint::FirstRow, stage);
                    // SAFETY: the next thread has signalled that this row is complete.
                    unsafe {
                        let (pivot, a) = factors.pivots_and_couplings(Colour::B1, rows.end);
                        convert_and_divide::<F>(row_above, pivot, a, self.r.b1.row(rows.end, 0));
                    }
                }
                // SAFETY: this is a halo row, which was received before this stage.
                None if grid.borders_other_ranks(thread)[1] => unsafe {
                    let (pivot, a) = factors.pivots_and_couplings(Colour::B1, rows.end);
                    convert_and_divide::<F>(row_above, pivot, a, self.r.b1.row(rows.end, 0));
                },
                None => row_above.fill(F::Real::default()),
            }
            // SAFETY: rows `last_row` and `rows.start` belong to this thread, and the partial sum of `last_row` is
            // stored once. The buffers contain D^-1 y of b1 in rows `last_row` and `last_row` + 1.
            unsafe {
                partials.store(
                    squares_start + last_row,
                    [self.descend_first_b2(last_row, rows.start, alpha, buffers) + square_of_b1],
                )
            };
        }
    }

    /// With `alpha`, first computes r = r - alpha q at the kept nodes of row J. Then computes
    /// y_b2 = r_b2 - A_b2,b1 D^-1 y_b1 in row J (even level), and writes y_b2 to the next grid. The buffers contain
    /// D^-1 y_b1 in rows J and J + 1. Returns <r, r> of the kept nodes in row J. If a later step reads y_b2 again, y_b2
    /// is stored in row J of z. Otherwise, y_b2 of every row is stored in row `reused_row` of z, which therefore stays
    /// in cache.
    ///
    /// # Safety
    /// Rows J and `reused_row` must belong to this thread.
    unsafe fn descend_first_b2(
        &self,
        row: usize,
        reused_row: usize,
        alpha: Option<f64>,
        buffers: &RowBuffers<F::Real>,
    ) -> f64 {
        let (grid, n) = (&self.grids[0], self.grids[0].layout.cx);
        // The values are read again by `solve_natural_levels` if no further grid is stored by colour, or for <g, u> if
        // the next grid is a recursion grid.
        let is_read_again = self.grids.len() == 1 || self.section_starts.get(1) == Some(&1);
        let z_row = if is_read_again { row } else { reused_row };
        // SAFETY: the rows belong to this thread.
        unsafe {
            let r = self.r.b2.row_mut(row, 0);
            if let Some(alpha) = alpha {
                combine(r, 1.0, -alpha, self.q.b2.row(row, 0));
            }
            let a = grid.factors.diagonal_couplings.couplings(Colour::B2, row);
            difference_with_product::<F>(grid.z.b2.row_mut(z_row, 0), r, a, b1_around_b2(buffers, B1_ROWS, row, n));
            self.store_kept_row(0, row, z_row);
            dot(r, r)
        }
    }

    /// Computes the upward sweep of the first grid's even level, then x, p and q = S1 p. Also computes x and p in halo
    /// rows. Stores the partial sums of <p, q> in `sigma`.
    fn ascend_first_grid(
        &self,
        thread: TeamThread,
        stage: usize,
        step: Option<(f64, f64)>,
        sigma: Reduce<1>,
        buffers: &mut RowBuffers<F::Real>,
    ) {
        let grid = &self.grids[0];
        let (rows, n) = (grid.rows(thread), grid.layout.cx);
        let Some(last_row) = rows.clone().last() else { return };
        let [has_rank_below, has_rank_above] = grid.borders_other_ranks(thread);
        // SAFETY: x, p and q are written in rows of this thread. x and p are also written in halo rows, which this
        // thread alone uses. Rows of p of other threads are read after these threads have signalled that the rows are
        // complete. r and the next grid are only read.
        unsafe {
            let first_row = if has_rank_below { rows.start - 1 } else { rows.start };
            match first_row.checked_sub(1) {
                Some(row_before) => self.load_kept_row(0, row_before, KEPT_ROWS + row_before % 2, buffers),
                None => buffers.row_mut(KEPT_ROWS + 1, n).fill(F::Real::default()),
            }
            for row in first_row..rows.end {
                self.advance_row(row, step, buffers);
                if row == rows.start {
                    thread.signal(StagePoint::FirstRow, stage);
                }
                if row >= rows.start + 2 {
                    sigma.store(row - 1, [self.multiply_row(row - 1)]);
                }
            }
            if has_rank_above {
                self.advance_row(rows.end, step, buffers);
            }
            thread.signal(StagePoint::LastRow, stage);
            if let Some(next) = next_thread(thread, grid) {
                thread.wait_for_signal(next, StagePoint::FirstRow, stage);
            }
            if last_row > rows.start {
                sigma.store(last_row, [self.multiply_row(last_row)]);
            }
            if let Some(previous) = previous_thread(thread, grid) {
                thread.wait_for_signal(previous, StagePoint::LastRow, stage);
            }
            sigma.store(rows.start, [self.multiply_row(rows.start)]);
        }
    }

    /// Computes row J of z, x and p from z_b2 of rows J - 1 and J. On entry, the buffers contain z_b2 of row J - 1.
    ///
    /// # Safety
    /// No other thread may use row J of x and p meanwhile, and no thread may write r or the next grid.
    unsafe fn advance_row(&self, row: usize, step: Option<(f64, f64)>, buffers: &mut RowBuffers<F::Real>) {
        let (grid, n, scales) = (&self.grids[0], self.grids[0].layout.cx, self.direction_scales());
        let (buffer_row, buffer_below) = (KEPT_ROWS + row % 2, KEPT_ROWS + (row + 1) % 2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.load_kept_row(0, row, buffer_row, buffers);
            let x = self.x.b2.row_mut(row, 0);
            advance_row_by_step::<F>(x, self.p.b2.row_mut(row, 0), buffers.row(buffer_row, 0, n), step, scales);
            let (pivot, a) = grid.factors.pivots_and_couplings(Colour::B1, row);
            let mut z = std::mem::take(&mut buffers.values);
            {
                let (kept_buffers, b1_buffers) = z.split_at_mut(B1_ROWS * buffers.stride);
                let kept_values = |k: usize, shift: isize| {
                    &kept_buffers[(k * buffers.stride + buffers.border_width).wrapping_add_signed(shift)..][..n]
                };
                let b1_values = &mut b1_buffers[buffers.border_width..][..n];
                let v = [
                    kept_values(buffer_below, -1),
                    kept_values(buffer_below, 0),
                    kept_values(buffer_row, -1),
                    kept_values(buffer_row, 0),
                ];
                solve_eliminated::<F>(b1_values, pivot, self.r.b1.row(row, 0), a, v);
                advance_row_by_step::<F>(self.x.b1.row_mut(row, 0), self.p.b1.row_mut(row, 0), b1_values, step, scales);
            }
            buffers.values = z;
        }
    }

    /// Computes row J of q = S1 p; returns <p, q> of this row.
    ///
    /// # Safety
    /// Row J must belong to this thread, and rows J - 1 to J + 1 of p must be complete.
    unsafe fn multiply_row(&self, row: usize) -> f64 {
        let mut sigma = 0.0;
        for colour in [Colour::B1, Colour::B2] {
            // SAFETY: by the safety contract of this function.
            unsafe {
                let q = self.q[colour].row_mut(row, 0);
                self.schur.multiply_row(colour, row, &self.p, q);
                sigma += dot(self.p[colour].row(row, 0), q);
            }
        }
        sigma
    }
}

/// Computes out = r / d in the number type of the sweeps, where `pivot` and `a` define d.
fn convert_and_divide<F: Format>(
    out: &mut [F::Real],
    pivot: &[F::Stored],
    a: NeighbourRows<F::Stored>,
    r: &[F::Vector],
) {
    combine(out, 0.0, 1.0, r);
    divide_in_place::<F>(out, pivot, a);
}
