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
//! In the functions below, `t` contains the row buffers of the thread, and `stage` is the number of the fused stage.

use super::levels::{Buffers, PackedGrid};
use super::loops::{scale, solve_in_place, subtract};
use super::neighbours::Rows;
use super::number::Format;
use super::packed::Packed;
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::{Me, Point};
use crate::rrb::cpu::conversion::{collect, spread};
use crate::rrb::layout::Colour;

/// Returns the thread that owns the next rows of a grid; `None` if this thread owns the last rows.
pub fn next_thread<F: Format>(me: Me, grid: &PackedGrid<F>) -> Option<usize> {
    (grid.shared && me.index + 1 < me.members).then_some(me.index + 1)
}

/// Returns the thread that owns the previous rows of a grid; `None` if this thread owns the first rows.
pub fn previous_thread<F: Format>(me: Me, grid: &PackedGrid<F>) -> Option<usize> {
    if grid.shared { me.index.checked_sub(1) } else { None }
}

/// First rows of three pairs of buffer rows, for r1, r2 and b1; J mod 2 selects the row of a pair.
pub const FIRST_RED: usize = 0;
pub const SECOND_RED: usize = 2;
pub const DROPPED: usize = 4;
/// First buffer row of the kept values in the upward sweep.
pub const KEPT: usize = FIRST_RED;

impl<F: Format> Packed<F> {
    /// Writes the kept values in row J of grid q to the next grid. They are read from row `place` of b2.
    ///
    /// # Safety
    /// Both rows must belong to this thread.
    pub unsafe fn store_kept(&self, q: usize, row: usize, place: usize) {
        let grid = &self.grids[q];
        let Some(coarse) = self.grids.get(q + 1) else { return };
        if grid.layout.rows(Colour::B2).contains(&row) {
            // SAFETY: each row of the next grid receives values from one row only, which belongs to this thread.
            unsafe { spread(&coarse.layout, row, &grid.z.b2.row(place, 0)[..coarse.layout.grid.nx], 1.0, &coarse.z) };
        }
    }

    /// Computes the downward sweep through both levels of grid q and stores y' D^-1 y per row.
    pub fn descend_grid(&self, q: usize, me: Me, stage: usize, t: &mut Buffers<F::Real>) {
        let (grid, rho) = (&self.grids[q], self.rho.reduce(0, self.rho_start[q + 1]));
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let [below, above] = grid.borders_other_ranks(me);
        // SAFETY: no thread writes red rows in this stage. The black rows belong to this thread, with two exceptions.
        // The first b1 row of the next thread is read after that thread has posted it. The b1 halo rows are used by
        // this thread only.
        unsafe {
            // The b1 halo row below is also computed, because the upward sweep reads it.
            let first = if below { rows.start - 1 } else { rows.start };
            match first.checked_sub(1) {
                Some(before) => {
                    self.scale_row(q, Colour::R1, before, FIRST_RED, t);
                }
                None => t.row_mut(FIRST_RED + 1, n).fill(F::Real::default()),
            }
            let mut rho_r2 = self.scale_row(q, Colour::R2, first, SECOND_RED, t);
            for row in first..rows.end {
                let rho_r1 = self.scale_row(q, Colour::R1, row, FIRST_RED, t);
                self.descend_dropped(q, row, t);
                if row >= rows.start {
                    let rho_b1 = self.scale_row(q, Colour::B1, row, DROPPED, t);
                    rho.store(self.rho_start[q] + row, [(rho_r1 + rho_r2) + rho_b1]);
                }
                if row == rows.start {
                    me.post(Point::First, stage);
                }

                rho_r2 = self.scale_row(q, Colour::R2, row + 1, SECOND_RED, t);
                if row < rows.start {
                    continue;
                }
                let m = &grid.sweep;
                let neighbours = [
                    t.row(FIRST_RED + row % 2, 0, n),
                    t.row(FIRST_RED + row % 2, 1, n),
                    t.row(SECOND_RED + row % 2, 0, n),
                    t.row(SECOND_RED + (row + 1) % 2, 0, n),
                ];
                subtract::<F>(grid.z.b2.row_mut(row, 0), m.straight.couplings(Colour::B2, row), neighbours);
                if row > rows.start {
                    self.descend_kept(q, row - 1, t);
                }
            }
            match next_thread(me, grid) {
                Some(member) => {
                    me.wait_for(member, Point::First, stage);
                    self.scale_row(q, Colour::B1, rows.end, DROPPED, t);
                }
                None if above => {
                    self.scale_row(q, Colour::R1, rows.end, FIRST_RED, t);
                    self.descend_dropped(q, rows.end, t);
                    self.scale_row(q, Colour::B1, rows.end, DROPPED, t);
                }
                None => t.row_mut(DROPPED + rows.end % 2, n).fill(F::Real::default()),
            }
            self.descend_kept(q, last, t);
        }
    }

    /// Computes D^-1 y in row J of an eliminated colour, and stores it in row k + J mod 2 of the buffers. Returns y'
    /// D^-1 y.
    ///
    /// # Safety
    /// No thread may write this row meanwhile.
    unsafe fn scale_row(&self, q: usize, colour: Colour, row: usize, k: usize, t: &mut Buffers<F::Real>) -> f64 {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (pivot, a) = grid.sweep.eliminated(colour, row);
            scale::<F>(t.row_mut(k + row % 2, grid.layout.cx), pivot, a, grid.z[colour].row(row, 0))
        }
    }

    /// Computes y_b1 = r_b1 - A_b1,red D^-1 y_red in row J (odd level), with the right-hand side r. The buffers contain
    /// D^-1 y_red.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn descend_dropped(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let (grid, n) = (&self.grids[q], self.grids[q].layout.cx);
        let neighbours = [
            t.row(SECOND_RED + row % 2, -1, n),
            t.row(SECOND_RED + row % 2, 0, n),
            t.row(FIRST_RED + (row + 1) % 2, 0, n),
            t.row(FIRST_RED + row % 2, 0, n),
        ];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let a = grid.sweep.straight.couplings(Colour::B1, row);
            subtract::<F>(grid.z.b1.row_mut(row, 0), a, neighbours);
        }
    }

    /// Computes r_b2 = r_b2 - A_b2,b1 D^-1 y_b1 in row J (even level), and writes r_b2 to the next grid.
    ///
    /// # Safety
    /// Row J must belong to this thread.
    pub unsafe fn descend_kept(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let grid = &self.grids[q];
        // SAFETY: the row belongs to this thread.
        unsafe {
            let a = grid.sweep.diagonal.couplings(Colour::B2, row);
            subtract::<F>(grid.z.b2.row_mut(row, 0), a, b1_around_b2(t, DROPPED, row, grid.layout.cx));
            self.store_kept(q, row, row);
        }
    }

    /// Copies the kept values in row J of grid q, which the coarser levels have computed, to row k of the buffers. If
    /// row J has no kept nodes, sets the buffer row to zero.
    ///
    /// # Safety
    /// In this stage, no thread may write the next grid, or b2 if grid q is the last grid.
    pub unsafe fn load_kept(&self, q: usize, row: usize, k: usize, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[q];
        let out = t.row_mut(k, grid.layout.cx);
        if !grid.layout.rows(Colour::B2).contains(&row) {
            out.fill(F::Real::default());
            return;
        }
        // SAFETY: by the safety contract of this function.
        unsafe {
            match self.grids.get(q + 1) {
                Some(coarse) => {
                    let nx = coarse.layout.grid.nx;
                    collect(&coarse.layout, row, &coarse.z, &mut out[..nx]);
                    out[nx..].fill(F::Real::default());
                }
                None => out.copy_from_slice(grid.z.b2.row(row, 0)),
            }
        }
    }

    /// Computes the upward sweep through both levels of grid q, including those halo rows that the finer grid reads.
    pub fn ascend_grid(&self, q: usize, me: Me, stage: usize, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[q];
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let [beside_below, beside_above] = grid.borders_other_ranks(me);
        // SAFETY: rows of this thread and halo rows, which this thread alone uses, are written before they are read.
        // The first b1 row of the next thread is read after that thread has posted it. The next grid is only read.
        unsafe {
            let first = if beside_below { rows.start - 1 } else { rows.start };
            match first.checked_sub(1) {
                Some(before) => self.load_kept(q, before, KEPT + before % 2, t),
                None => t.row_mut(KEPT + 1, n).fill(F::Real::default()),
            }
            for row in first..rows.end {
                self.load_kept(q, row, KEPT + row % 2, t);
                let below = KEPT + (row + 1) % 2;
                self.ascend_dropped(q, row, t);
                if row == rows.start {
                    me.post(Point::First, stage);
                }
                if row > first {
                    self.ascend_first_red(q, row - 1, t.row(below, -1, n), t.row(below, 0, n));
                }
                self.ascend_second_red(q, row, t);
                if self.grids.len() > q + 1 {
                    grid.z.b2.row_mut(row, 0).copy_from_slice(t.row(KEPT + row % 2, 0, n));
                }
            }
            let here = KEPT + last % 2;
            match next_thread(me, grid) {
                Some(member) => me.wait_for(member, Point::First, stage),
                None if beside_above => {
                    // The halo row above also needs the kept values of the last row, which are still in their buffer.
                    self.load_kept(q, rows.end, KEPT + rows.end % 2, t);
                    self.ascend_dropped(q, rows.end, t);
                    self.ascend_second_red(q, rows.end, t);
                }
                None => {}
            }
            self.ascend_first_red(q, last, t.row(here, -1, n), t.row(here, 0, n));
        }
    }

    /// Computes z_b1 = D^-1 (y_b1 - A z_b2) in row J. The buffers contain the kept values of rows J - 1 and J.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn ascend_dropped(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let n = self.grids[q].layout.cx;
        let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
        let v = [t.row(below, -1, n), t.row(below, 0, n), t.row(here, -1, n), t.row(here, 0, n)];
        // SAFETY: by the safety contract of this function.
        unsafe { self.solve_row(q, Colour::B1, row, v) };
    }

    /// Computes z_r2 = D^-1 (y_r2 - A z_b) in row J, from row J of b1. The buffers contain the kept values of rows J -
    /// 1 and J.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile, and row J of b1 must be complete.
    unsafe fn ascend_second_red(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let (grid, n) = (&self.grids[q], self.grids[q].layout.cx);
        let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            let v = [grid.z.b1.row(row, 0), grid.z.b1.row(row, 1), t.row(below, 0, n), t.row(here, 0, n)];
            self.solve_row(q, Colour::R2, row, v);
        }
    }

    /// Computes z_r1 = D^-1 (y_r1 - A z_b) in row J, from rows J and J + 1 of b1. `west` and `east` contain the kept
    /// values on these sides.
    ///
    /// # Safety
    /// Row J must belong to this thread, and row J + 1 of b1 must be complete.
    pub unsafe fn ascend_first_red(&self, q: usize, row: usize, west: &[F::Real], east: &[F::Real]) {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.solve_row(q, Colour::R1, row, [west, east, grid.z.b1.row(row, 0), grid.z.b1.row(row + 1, 0)]);
        }
    }

    /// Computes z = D^-1 (y - A v) in row J of an eliminated colour.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn solve_row(&self, q: usize, colour: Colour, row: usize, v: Rows<F::Real>) {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (pivot, a) = grid.sweep.eliminated(colour, row);
            solve_in_place::<F>(grid.z[colour].row_mut(row, 0), pivot, a, v);
        }
    }
}

/// Returns the b1 neighbours of row J of b2. The buffer rows k and k + 1 contain rows J and J + 1 of b1: row J is in
/// buffer row k + J mod 2.
pub fn b1_around_b2<R: Real + Number>(t: &Buffers<R>, k: usize, row: usize, n: usize) -> Rows<'_, R> {
    let (here, above) = (k + row % 2, k + (row + 1) % 2);
    [t.row(here, 0, n), t.row(here, 1, n), t.row(above, 0, n), t.row(above, 1, n)]
}
