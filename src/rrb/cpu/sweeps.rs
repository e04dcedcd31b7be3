//! Fused sweeps, which process both levels of a grid in one pass over its rows. E denotes the eliminated nodes of a
//! level, and K the remaining nodes:
//!
//! ```text
//!     down    y_K <- y_K - A_KE (D^-1 y_E),    rho <- rho + y_E' D^-1 y_E    (D^-1 y_E only in row buffers)
//!     up      z_E = D^-1 (y_E - A_EK z_K)
//! ```
//!
//! After the downward sweep, z of the eliminated nodes contains y_E, not D^-1 y_E. At red nodes, y_E is the right-hand
//! side, which z already contains. Red rows therefore change only in the upward sweep (docs/theory/rrb.md,
//! preconditioner).
//!
//! In the functions below, `buffers` contains the row buffers of the thread, and `stage` is the number of the fused
//! stage.

use super::levels::{PackedGrid, RowBuffers};
use super::loops::{divide_by_pivots, solve_eliminated_in_place, subtract_product};
use super::neighbours::NeighbourRows;
use super::number::Format;
use super::packed::PackedSystem;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::{StagePoint, TeamThread};
use crate::rrb::cpu::conversion::{load_natural_row, store_natural_row};
use crate::rrb::layout::Colour;

/// Returns the thread that owns the next rows of a grid; `None` if this thread owns the last rows.
pub fn next_thread<F: Format>(thread: TeamThread, grid: &PackedGrid<F>) -> Option<usize> {
    (grid.is_shared && thread.index + 1 < thread.threads).then_some(thread.index + 1)
}

/// Returns the thread that owns the previous rows of a grid; `None` if this thread owns the first rows.
pub fn previous_thread<F: Format>(thread: TeamThread, grid: &PackedGrid<F>) -> Option<usize> {
    if grid.is_shared { thread.index.checked_sub(1) } else { None }
}

/// First rows of three pairs of buffer rows, for r1, r2 and b1; J mod 2 selects the row of a pair.
pub const R1_ROWS: usize = 0;
pub const R2_ROWS: usize = 2;
pub const B1_ROWS: usize = 4;
/// First of the two buffer rows that contain z of the kept nodes in the upward sweep.
pub const KEPT_ROWS: usize = R1_ROWS;

impl<F: Format> PackedSystem<F> {
    /// Copies z at the kept nodes (b2) of row J of grid q to the next grid. `source_row` is the row of the array `z.b2`
    /// that contains these values.
    ///
    /// # Safety
    /// Both rows must belong to this thread.
    pub unsafe fn store_kept_row(&self, q: usize, row: usize, source_row: usize) {
        let grid = &self.grids[q];
        let Some(coarse) = self.grids.get(q + 1) else { return };
        if grid.layout.rows(Colour::B2).contains(&row) {
            // SAFETY: each row of the next grid receives values from one row only, which belongs to this thread.
            unsafe {
                store_natural_row(
                    &coarse.layout,
                    row,
                    &grid.z.b2.row(source_row, 0)[..coarse.layout.grid.nx],
                    1.0,
                    &coarse.z,
                )
            };
        }
    }

    /// Computes the downward sweep through both levels of grid q. For each row, stores the partial sum y' D^-1 y over
    /// the eliminated nodes in `self.rho`.
    pub fn descend_grid(&self, q: usize, thread: TeamThread, stage: usize, buffers: &mut RowBuffers<F::Real>) {
        let (grid, rho) = (&self.grids[q], self.rho.reduce(0, self.rho_start[q + 1]));
        let (rows, n) = (grid.rows(thread), grid.layout.cx);
        let Some(last_row) = rows.clone().last() else { return };
        let [has_rank_below, has_rank_above] = grid.borders_other_ranks(thread);
        // SAFETY: no thread writes red rows in this stage. The black rows belong to this thread, with two exceptions.
        // The first b1 row of the next thread is read after that thread has signalled that this row is complete. The b1
        // halo rows are used by this thread only.
        unsafe {
            // The b1 halo row below is also computed, because the upward sweep reads it.
            let first_row = if has_rank_below { rows.start - 1 } else { rows.start };
            match first_row.checked_sub(1) {
                Some(row_before) => {
                    self.divide_row_by_pivots(q, Colour::R1, row_before, R1_ROWS, buffers);
                }
                None => buffers.row_mut(R1_ROWS + 1, n).fill(F::Real::default()),
            }
            let mut rho_r2 = self.divide_row_by_pivots(q, Colour::R2, first_row, R2_ROWS, buffers);
            for row in first_row..rows.end {
                let rho_r1 = self.divide_row_by_pivots(q, Colour::R1, row, R1_ROWS, buffers);
                self.descend_b1(q, row, buffers);
                if row >= rows.start {
                    let rho_b1 = self.divide_row_by_pivots(q, Colour::B1, row, B1_ROWS, buffers);
                    rho.store(self.rho_start[q] + row, [(rho_r1 + rho_r2) + rho_b1]);
                }
                if row == rows.start {
                    thread.signal(StagePoint::FirstRow, stage);
                }

                rho_r2 = self.divide_row_by_pivots(q, Colour::R2, row + 1, R2_ROWS, buffers);
                if row < rows.start {
                    continue;
                }
                let factors = &grid.factors;
                let neighbours = [
                    buffers.row(R1_ROWS + row % 2, 0, n),
                    buffers.row(R1_ROWS + row % 2, 1, n),
                    buffers.row(R2_ROWS + row % 2, 0, n),
                    buffers.row(R2_ROWS + (row + 1) % 2, 0, n),
                ];
                subtract_product::<F>(
                    grid.z.b2.row_mut(row, 0),
                    factors.axis_couplings.couplings(Colour::B2, row),
                    neighbours,
                );
                if row > rows.start {
                    self.descend_b2(q, row - 1, buffers);
                }
            }
            match next_thread(thread, grid) {
                Some(next) => {
                    thread.wait_for_signal(next, StagePoint::FirstRow, stage);
                    self.divide_row_by_pivots(q, Colour::B1, rows.end, B1_ROWS, buffers);
                }
                None if has_rank_above => {
                    self.divide_row_by_pivots(q, Colour::R1, rows.end, R1_ROWS, buffers);
                    self.descend_b1(q, rows.end, buffers);
                    self.divide_row_by_pivots(q, Colour::B1, rows.end, B1_ROWS, buffers);
                }
                None => buffers.row_mut(B1_ROWS + rows.end % 2, n).fill(F::Real::default()),
            }
            self.descend_b2(q, last_row, buffers);
        }
    }

    /// Computes D^-1 y in row J of an eliminated colour, and stores it in buffer row `first_buffer_row` + J mod 2.
    /// Returns y' D^-1 y.
    ///
    /// # Safety
    /// No thread may write this row meanwhile.
    unsafe fn divide_row_by_pivots(
        &self,
        q: usize,
        colour: Colour,
        row: usize,
        first_buffer_row: usize,
        buffers: &mut RowBuffers<F::Real>,
    ) -> f64 {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (pivot, a) = grid.factors.pivots_and_couplings(colour, row);
            divide_by_pivots::<F>(
                buffers.row_mut(first_buffer_row + row % 2, grid.layout.cx),
                pivot,
                a,
                grid.z[colour].row(row, 0),
            )
        }
    }

    /// Computes y_b1 = r_b1 - A_b1,red D^-1 y_red in row J (odd level), with the right-hand side r. The buffers contain
    /// D^-1 y_red.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn descend_b1(&self, q: usize, row: usize, buffers: &RowBuffers<F::Real>) {
        let (grid, n) = (&self.grids[q], self.grids[q].layout.cx);
        let neighbours = [
            buffers.row(R2_ROWS + row % 2, -1, n),
            buffers.row(R2_ROWS + row % 2, 0, n),
            buffers.row(R1_ROWS + (row + 1) % 2, 0, n),
            buffers.row(R1_ROWS + row % 2, 0, n),
        ];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let a = grid.factors.axis_couplings.couplings(Colour::B1, row);
            subtract_product::<F>(grid.z.b1.row_mut(row, 0), a, neighbours);
        }
    }

    /// Computes r_b2 = r_b2 - A_b2,b1 D^-1 y_b1 in row J (even level), and writes r_b2 to the next grid.
    ///
    /// # Safety
    /// Row J must belong to this thread.
    pub unsafe fn descend_b2(&self, q: usize, row: usize, buffers: &RowBuffers<F::Real>) {
        let grid = &self.grids[q];
        // SAFETY: the row belongs to this thread.
        unsafe {
            let a = grid.factors.diagonal_couplings.couplings(Colour::B2, row);
            subtract_product::<F>(grid.z.b2.row_mut(row, 0), a, b1_around_b2(buffers, B1_ROWS, row, grid.layout.cx));
            self.store_kept_row(q, row, row);
        }
    }

    /// Copies z at the kept nodes of row J of grid q to buffer row `buffer_row`. The coarser levels have computed these
    /// values of z. If row J has no kept nodes, sets the buffer row to zero.
    ///
    /// # Safety
    /// In this stage, no thread may write the next grid, or b2 if grid q is the last grid.
    pub unsafe fn load_kept_row(&self, q: usize, row: usize, buffer_row: usize, buffers: &mut RowBuffers<F::Real>) {
        let grid = &self.grids[q];
        let out = buffers.row_mut(buffer_row, grid.layout.cx);
        if !grid.layout.rows(Colour::B2).contains(&row) {
            out.fill(F::Real::default());
            return;
        }
        // SAFETY: by the safety contract of this function.
        unsafe {
            match self.grids.get(q + 1) {
                Some(coarse) => {
                    let nx = coarse.layout.grid.nx;
                    load_natural_row(&coarse.layout, row, &coarse.z, &mut out[..nx]);
                    out[nx..].fill(F::Real::default());
                }
                None => out.copy_from_slice(grid.z.b2.row(row, 0)),
            }
        }
    }

    /// Computes the upward sweep through both levels of grid q, including those halo rows that the finer grid reads.
    pub fn ascend_grid(&self, q: usize, thread: TeamThread, stage: usize, buffers: &mut RowBuffers<F::Real>) {
        let grid = &self.grids[q];
        let (rows, n) = (grid.rows(thread), grid.layout.cx);
        let Some(last_row) = rows.clone().last() else { return };
        let [has_rank_below, has_rank_above] = grid.borders_other_ranks(thread);
        // SAFETY: rows of this thread and halo rows, which this thread alone uses, are written before they are read.
        // The first b1 row of the next thread is read after that thread has signalled that this row is complete. The
        // next grid is only read.
        unsafe {
            let first_row = if has_rank_below { rows.start - 1 } else { rows.start };
            match first_row.checked_sub(1) {
                Some(row_before) => self.load_kept_row(q, row_before, KEPT_ROWS + row_before % 2, buffers),
                None => buffers.row_mut(KEPT_ROWS + 1, n).fill(F::Real::default()),
            }
            for row in first_row..rows.end {
                self.load_kept_row(q, row, KEPT_ROWS + row % 2, buffers);
                let buffer_below = KEPT_ROWS + (row + 1) % 2;
                self.ascend_b1(q, row, buffers);
                if row == rows.start {
                    thread.signal(StagePoint::FirstRow, stage);
                }
                if row > first_row {
                    self.ascend_r1(q, row - 1, buffers.row(buffer_below, -1, n), buffers.row(buffer_below, 0, n));
                }
                self.ascend_r2(q, row, buffers);
                if self.grids.len() > q + 1 {
                    grid.z.b2.row_mut(row, 0).copy_from_slice(buffers.row(KEPT_ROWS + row % 2, 0, n));
                }
            }
            let buffer_row = KEPT_ROWS + last_row % 2;
            match next_thread(thread, grid) {
                Some(next) => thread.wait_for_signal(next, StagePoint::FirstRow, stage),
                None if has_rank_above => {
                    // The halo row above also needs z at the kept nodes of the last row. These values are still in a
                    // buffer row.
                    self.load_kept_row(q, rows.end, KEPT_ROWS + rows.end % 2, buffers);
                    self.ascend_b1(q, rows.end, buffers);
                    self.ascend_r2(q, rows.end, buffers);
                }
                None => {}
            }
            self.ascend_r1(q, last_row, buffers.row(buffer_row, -1, n), buffers.row(buffer_row, 0, n));
        }
    }

    /// Computes z_b1 = D^-1 (y_b1 - A z_b2) in row J. The buffers contain z_b2 of rows J - 1 and J.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn ascend_b1(&self, q: usize, row: usize, buffers: &RowBuffers<F::Real>) {
        let n = self.grids[q].layout.cx;
        let (buffer_row, buffer_below) = (KEPT_ROWS + row % 2, KEPT_ROWS + (row + 1) % 2);
        let v = [
            buffers.row(buffer_below, -1, n),
            buffers.row(buffer_below, 0, n),
            buffers.row(buffer_row, -1, n),
            buffers.row(buffer_row, 0, n),
        ];
        // SAFETY: by the safety contract of this function.
        unsafe { self.solve_row(q, Colour::B1, row, v) };
    }

    /// Computes z_r2 = D^-1 (y_r2 - A z_b) in row J, from row J of b1. The buffers contain z_b2 of rows J - 1 and J.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile, and row J of b1 must be complete.
    unsafe fn ascend_r2(&self, q: usize, row: usize, buffers: &RowBuffers<F::Real>) {
        let (grid, n) = (&self.grids[q], self.grids[q].layout.cx);
        let (buffer_row, buffer_below) = (KEPT_ROWS + row % 2, KEPT_ROWS + (row + 1) % 2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            let v = [
                grid.z.b1.row(row, 0),
                grid.z.b1.row(row, 1),
                buffers.row(buffer_below, 0, n),
                buffers.row(buffer_row, 0, n),
            ];
            self.solve_row(q, Colour::R2, row, v);
        }
    }

    /// Computes z_r1 = D^-1 (y_r1 - A z_b) in row J, from rows J and J + 1 of b1. `west` and `east` contain z at the
    /// kept nodes to the west and to the east.
    ///
    /// # Safety
    /// Row J must belong to this thread, and row J + 1 of b1 must be complete.
    pub unsafe fn ascend_r1(&self, q: usize, row: usize, west: &[F::Real], east: &[F::Real]) {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.solve_row(q, Colour::R1, row, [west, east, grid.z.b1.row(row, 0), grid.z.b1.row(row + 1, 0)]);
        }
    }

    /// Computes z = D^-1 (y - A v) in row J of an eliminated colour, where v contains the values of the neighbours.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn solve_row(&self, q: usize, colour: Colour, row: usize, v: NeighbourRows<F::Real>) {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (pivot, a) = grid.factors.pivots_and_couplings(colour, row);
            solve_eliminated_in_place::<F>(grid.z[colour].row_mut(row, 0), pivot, a, v);
        }
    }
}

/// Returns the b1 neighbours of row J of b2. Rows J and J + 1 of b1 are in the buffer rows `first_buffer_row` and
/// `first_buffer_row` + 1: row J is in buffer row `first_buffer_row` + J mod 2.
pub fn b1_around_b2<R: Real + Number>(
    buffers: &RowBuffers<R>,
    first_buffer_row: usize,
    row: usize,
    n: usize,
) -> NeighbourRows<'_, R> {
    let (buffer_row, buffer_above) = (first_buffer_row + row % 2, first_buffer_row + (row + 1) % 2);
    [
        buffers.row(buffer_row, 0, n),
        buffers.row(buffer_row, 1, n),
        buffers.row(buffer_above, 0, n),
        buffers.row(buffer_above, 1, n),
    ]
}
