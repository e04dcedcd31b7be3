//! Fused sweeps: both levels of a grid in one pass. z of eliminated nodes holds y (not y / d) on the way down, so that
//! red rows change only on the way up.

use super::levels::{Buffers, PackedGrid};
use super::loops::{scale, solve_in_place, subtract};
use super::neighbours::Rows;
use super::number::Format;
use super::packed::Packed;
use super::spread::{collect, spread};
use crate::grid::layout::Colour;
use crate::runtime::number::Real;
use crate::runtime::shared::Number;
use crate::runtime::team::{Me, Point};

/// The thread after this one on a grid, if it has rows there.
pub fn next<F: Format>(me: Me, grid: &PackedGrid<F>) -> Option<usize> {
    (grid.shared && me.index + 1 < me.members).then_some(me.index + 1)
}

/// The thread before.
pub fn previous<F: Format>(me: Me, grid: &PackedGrid<F>) -> Option<usize> {
    if grid.shared { me.index.checked_sub(1) } else { None }
}

/// Rows of `Buffers`, two each, by the parity of J.
pub const FIRST_RED: usize = 0;
pub const SECOND_RED: usize = 2;
pub const DROPPED: usize = 4;
/// Kept values, on the way up.
pub const KEPT: usize = FIRST_RED;

impl<F: Format> Packed<F> {
    /// Row J of kept values, which stands at row `place`, to the next grid.
    ///
    /// # Safety
    /// Both rows must belong to this thread.
    pub unsafe fn send(&self, q: usize, row: usize, place: usize) {
        let grid = &self.grids[q];
        let Some(coarse) = self.grids.get(q + 1) else { return };
        if grid.layout.rows(Colour::B2).contains(&row) {
            // SAFETY: each row of the next grid gets values from one row.
            unsafe { spread(&coarse.layout, row, &grid.z.b2.row(place, 0)[..coarse.layout.grid.nx], 1.0, &coarse.z) };
        }
    }

    /// Both levels of a grid.
    pub fn descend_grid(&self, q: usize, me: Me, stage: usize, t: &mut Buffers<F::Real>) {
        let (grid, rho) = (&self.grids[q], self.rho.reduce(0, self.rho_start[q + 1]));
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let [below, above] = grid.beside(me);
        // SAFETY: red rows are not written in this stage; black ones belong to this thread, but for the first row of b1
        // of the next thread, which is read after that thread has posted it, and for rows of b1 next to this rank's,
        // which this thread alone uses.
        unsafe {
            // b1 below this rank's rows is made here, too: the way up reads it.
            let first = if below { rows.start - 1 } else { rows.start };
            match first.checked_sub(1) {
                Some(before) => {
                    self.scaled(q, Colour::R1, before, FIRST_RED, t);
                }
                None => t.row_mut(FIRST_RED + 1, n).fill(F::Real::default()),
            }
            let mut rho_r2 = self.scaled(q, Colour::R2, first, SECOND_RED, t);
            for row in first..rows.end {
                let rho_r1 = self.scaled(q, Colour::R1, row, FIRST_RED, t);
                self.descend_dropped(q, row, t);
                if row >= rows.start {
                    let rho_b1 = self.scaled(q, Colour::B1, row, DROPPED, t);
                    rho.note(self.rho_start[q] + row, [(rho_r1 + rho_r2) + rho_b1]);
                }
                if row == rows.start {
                    me.post(Point::First, stage);
                }

                rho_r2 = self.scaled(q, Colour::R2, row + 1, SECOND_RED, t);
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
            match next(me, grid) {
                Some(member) => {
                    me.wait_for(member, Point::First, stage);
                    self.scaled(q, Colour::B1, rows.end, DROPPED, t);
                }
                None if above => {
                    self.scaled(q, Colour::R1, rows.end, FIRST_RED, t);
                    self.descend_dropped(q, rows.end, t);
                    self.scaled(q, Colour::B1, rows.end, DROPPED, t);
                }
                None => t.row_mut(DROPPED + rows.end % 2, n).fill(F::Real::default()),
            }
            self.descend_kept(q, last, t);
        }
    }

    /// y / d of row J of an eliminated colour, into the buffers from row k on. Returns y'y / d.
    ///
    /// # Safety
    /// No thread may write this row meanwhile.
    unsafe fn scaled(&self, q: usize, colour: Colour, row: usize, k: usize, t: &mut Buffers<F::Real>) -> f64 {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (pivot, a) = grid.sweep.eliminated(colour, row);
            scale::<F>(t.row_mut(k + row % 2, grid.layout.cx), pivot, a, grid.z[colour].row(row, 0))
        }
    }

    /// Row J of b1 by the odd level, with its red neighbours over their pivots in the buffers.
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

    /// # Safety
    /// Row J must belong to this thread.
    pub unsafe fn descend_kept(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let grid = &self.grids[q];
        // SAFETY: a row of this thread.
        unsafe {
            let a = grid.sweep.diagonal.couplings(Colour::B2, row);
            subtract::<F>(grid.z.b2.row_mut(row, 0), a, diagonal_of(t, DROPPED, row, grid.layout.cx));
            self.send(q, row, row);
        }
    }

    /// Row J of the kept values of grid q as the coarser levels left them, into row k of the buffers.
    ///
    /// # Safety
    /// No thread may write the next grid, or on the last grid b2, in this stage.
    pub unsafe fn fetch(&self, q: usize, row: usize, k: usize, t: &mut Buffers<F::Real>) {
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

    /// Both levels of a grid, upwards; of rows next to this rank's, what the finer grid reads of them.
    pub fn ascend_grid(&self, q: usize, me: Me, stage: usize, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[q];
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let [beside_below, beside_above] = grid.beside(me);
        // SAFETY: rows of this thread are written, each before it is read, and those next to this rank's, which this
        // thread alone uses; the first row of b1 of the next thread is read after that thread has posted it; the next
        // grid is only read.
        unsafe {
            let first = if beside_below { rows.start - 1 } else { rows.start };
            match first.checked_sub(1) {
                Some(before) => self.fetch(q, before, KEPT + before % 2, t),
                None => t.row_mut(KEPT + 1, n).fill(F::Real::default()),
            }
            for row in first..rows.end {
                self.fetch(q, row, KEPT + row % 2, t);
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
            match next(me, grid) {
                Some(member) => me.wait_for(member, Point::First, stage),
                None if beside_above => {
                    // The row above needs the kept values of the last one, which stay where they are.
                    self.fetch(q, rows.end, KEPT + rows.end % 2, t);
                    self.ascend_dropped(q, rows.end, t);
                    self.ascend_second_red(q, rows.end, t);
                }
                None => {}
            }
            self.ascend_first_red(q, last, t.row(here, -1, n), t.row(here, 0, n));
        }
    }

    /// Row J of b1, between kept values of row J - 1 and J in the buffers.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile.
    unsafe fn ascend_dropped(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let (grid, n) = (&self.grids[q], self.grids[q].layout.cx);
        let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
        let v = [t.row(below, -1, n), t.row(below, 0, n), t.row(here, -1, n), t.row(here, 0, n)];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let (pivot, a) = grid.sweep.eliminated(Colour::B1, row);
            solve_in_place::<F>(grid.z.b1.row_mut(row, 0), pivot, a, v);
        }
    }

    /// Row J of r2, between b1 west and east and kept values of row J - 1 and J in the buffers.
    ///
    /// # Safety
    /// No other thread may use this row meanwhile, and b1 of it must be done.
    unsafe fn ascend_second_red(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let (grid, n) = (&self.grids[q], self.grids[q].layout.cx);
        let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            let v = [grid.z.b1.row(row, 0), grid.z.b1.row(row, 1), t.row(below, 0, n), t.row(here, 0, n)];
            let (pivot, a) = grid.sweep.eliminated(Colour::R2, row);
            solve_in_place::<F>(grid.z.r2.row_mut(row, 0), pivot, a, v);
        }
    }

    /// Row J of r1, between kept values west and east and the b1 rows J and J + 1.
    ///
    /// # Safety
    /// Row J must belong to this thread, and b1 row J + 1 done.
    pub unsafe fn ascend_first_red(&self, q: usize, row: usize, west: &[F::Real], east: &[F::Real]) {
        let grid = &self.grids[q];
        // SAFETY: by the safety contract of this function.
        unsafe {
            let v = [west, east, grid.z.b1.row(row, 0), grid.z.b1.row(row + 1, 0)];
            let (pivot, a) = grid.sweep.eliminated(Colour::R1, row);
            solve_in_place::<F>(grid.z.r1.row_mut(row, 0), pivot, a, v);
        }
    }
}

/// b1 neighbours of row J of b2, from the two buffered rows of b1.
pub fn diagonal_of<R: Real + Number>(t: &Buffers<R>, k: usize, row: usize, n: usize) -> Rows<'_, R> {
    let (here, above) = (k + row % 2, k + (row + 1) % 2);
    [t.row(here, 0, n), t.row(here, 1, n), t.row(above, 0, n), t.row(above, 1, n)]
}
