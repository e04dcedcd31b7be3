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
//! are those of S1, and are stored only once. f32 and bf16 store both.
//!
//! Stages sweep over rows, so that rows needed by the next row are still in cache. In the downward sweep, z of
//! eliminated nodes receives y instead of D^-1 y. At red nodes, y is the right-hand side, which z already contains. Red
//! rows therefore change only in the upward sweep. The value rho = y' D^-1 y is known before the upward sweep begins.
//!
//! A stage needs at most one row of the previous and of the next thread. A thread notifies them when its first and its
//! last row are complete. There is one barrier between grids, and one barrier per scalar.

use crate::base::loops::{combine, dot};
use crate::base::reduce::{OtherRanks, Reduce, pairwise};
use crate::base::team::{Me, Point};
use crate::rrb::cpu::cycle::{DOWN, UP};
use crate::rrb::cpu::iteration::thread::ThreadState;
use crate::rrb::cpu::levels::Buffers;
use crate::rrb::cpu::loops::{advance, advance_and_scale, difference, scale_in_place, solve};
use crate::rrb::cpu::neighbours::Rows;
use crate::rrb::cpu::number::Format;
use crate::rrb::cpu::packed::Packed;
use crate::rrb::cpu::sweeps::{DROPPED, FIRST_RED, KEPT, b1_around_b2, next_thread, previous_thread};
use crate::rrb::layout::Colour;
use crate::rrb::recursion::{CycleSteps, solve_section};

/// Computes x = x + alpha p and p = z + beta p with `step` = (alpha, beta). Without `step`, computes p = z. `scales`:
/// see [`Packed::scales`].
fn step_row<F: Format>(
    x: &mut [f64],
    p: &mut [F::Vector],
    z: &[F::Real],
    step: Option<(f64, f64)>,
    scales: (f64, f64),
) {
    match step {
        None => combine(p, 0.0, scales.0, z),
        Some((0.0, beta)) => combine(p, beta, scales.0, z),
        Some((alpha, beta)) => advance::<F>(x, p, z, alpha * scales.1, beta, scales.0),
    }
}

impl<F: Format> ThreadState<'_, F> {
    /// With `alpha`, first computes r = r - alpha q. Then solves L y = r on the first section, and the system on the
    /// following sections. Returns <r, r>, and stores rho = <r, M^-1 r>.
    pub(super) fn fused_descend(&mut self, alpha: Option<f64>) -> f64 {
        let (k, me) = (self.k, self.me);
        let all_grids = k.rho_start[k.grids.len()];
        let of_section = k.links.as_ref().map(|links| &links.of_section as &dyn OtherRanks);
        let sums = k.rho.reduce::<1>(0, k.rho.rows()).over(of_section);
        self.sections.timed(0, DOWN, |s| {
            let stage = s.next_stage(&k.grids[0]);
            k.exchange_residual(me, alpha);
            k.descend_first(me, stage, alpha, sums, &mut s.buffers());
            k.pass_to_next_grid(0, me);
        });
        let grids = self.sections.grids(0);
        self.sections.descend(1..grids.end);
        let mut below = k.rho_below.reduce(0, k.rho_below.rows());
        let recursion = k.recursion();
        if k.sections.len() > 1 {
            if self.sections.takes_part(1) {
                solve_section(&mut self.sections, 1, &recursion);
            }
            // Adds <g, u> to rho, where g is the right-hand side of the first recursion, and u its solution. The kept
            // values of the previous grid still contain g.
            let above = &k.grids[grids.end - 1];
            below = below.over(k.other_ranks(grids.end - 1));
            above.barrier(me);
            let mut t = self.sections.buffers();
            for row in above.rows(me) {
                // SAFETY: the recursion has ended, and its grid is only read. The partial sum belongs to a row of this
                // thread.
                unsafe {
                    k.load_kept(grids.end - 1, row, FIRST_RED, &mut t);
                    below.store(row, [dot(above.z.b2.row(row, 0), t.row(FIRST_RED, 0, above.layout.cx))]);
                }
            }
        } else if me.index == 0 {
            let rho = self.sections.timed(k.grids.len(), DOWN, |s| s.k.solve_natural());
            // SAFETY: only thread 0 stores this partial sum.
            unsafe { below.store(0, [rho]) };
        }
        me.barrier();
        // If there are other ranks, all threads wait for the partial sums of these ranks.
        let wait = of_section.map(|_| me);
        let [sums] = sums.summands(wait);
        self.rho = (pairwise(&sums[..k.rho_start[grids.end]]) + below.sum(wait)[0]) / k.unit;
        pairwise(&sums[all_grids..])
    }

    /// Solves D L^T z = y and computes x = x + alpha p, p = z + beta p, q = S1 p. Returns <p, q>.
    pub(super) fn fused_ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        let (k, me, sigma) = (self.k, self.me, self.reduction());
        let grids = self.sections.grids(0);
        self.sections.ascend(1..grids.end);
        self.sections.timed(0, UP, |s| {
            // This barrier waits until z of the coarser grid is complete.
            k.grids[0].barrier(me);
            let stage = s.next_stage(&k.grids[0]);
            k.ascend_first(me, stage, step, sigma, &mut s.buffers());
        });
        k.scales().1 * sigma.sum(Some(me))[0]
    }
}

impl<F: Format> Packed<F> {
    /// If the grid is distributed, computes r = r - alpha q for b1 in the first and the last row of this rank, and
    /// exchanges the halo rows of b1.
    fn exchange_residual(&self, me: Me, alpha: Option<f64>) {
        let grid = &self.grids[0];
        let Some(halo) = &grid.halo else { return };
        for row in grid.rows(me).filter(|&row| self.is_advanced(row)) {
            // SAFETY: the row belongs to this thread, and no other thread uses it before the barrier.
            unsafe {
                if let Some(alpha) = alpha {
                    combine(self.r.b1.row_mut(row, 0), 1.0, -alpha, self.q.b1.row(row, 0));
                }
            }
        }
        grid.barrier(me);
        if me.index == 0 {
            // SAFETY: the other threads wait at the barrier below.
            unsafe { halo.refresh_dropped(&self.r) };
        }
        grid.barrier(me);
    }

    /// Returns whether `exchange_residual` has updated row J of b1.
    fn is_advanced(&self, row: usize) -> bool {
        let grid = &self.grids[0];
        let [below, above] = grid.halo.as_ref().map_or([false; 2], |halo| halo.sides);
        below && row == grid.own.start || above && row + 1 == grid.own.end
    }

    /// Computes r = r - alpha q (with `alpha`), and the downward sweep of the even level of the first grid. Stores the
    /// partial sums of rho and of <r, r> in `sums`.
    fn descend_first(&self, me: Me, stage: usize, alpha: Option<f64>, sums: Reduce<1>, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[0];
        let (rows, n, m) = (grid.rows(me), grid.layout.cx, &grid.sweep);
        // The partial sums of <r, r> are stored after those of rho of all grids.
        let squares = self.rho_start[self.grids.len()];
        let mut below = 0.0;
        for row in rows.clone() {
            // SAFETY: r is written in rows of this thread, before it is read. The first row of the next thread is read
            // after that thread has posted it.
            unsafe {
                let r = self.r.b1.row_mut(row, 0);
                let step = alpha.filter(|_| !self.is_advanced(row)).map(|alpha| (alpha, self.q.b1.row(row, 0)));
                let (pivot, a) = m.eliminated(Colour::B1, row);
                let out = t.row_mut(DROPPED + row % 2, n);
                let (square, rho) = advance_and_scale::<F>(r, step, out, pivot, a);
                sums.store(row, [rho]);
                if row == rows.start {
                    me.post(Point::First, stage);
                } else {
                    let square = self.descend_first_kept(row - 1, rows.start, alpha, t);
                    sums.store(squares + row - 1, [square + below]);
                }
                below = square;
            }
        }
        if let Some(last) = rows.clone().last() {
            let end = t.row_mut(DROPPED + rows.end % 2, n);
            match next_thread(me, grid) {
                Some(member) => {
                    me.wait_for(member, Point::First, stage);
                    // SAFETY: the next thread has posted this row.
                    unsafe {
                        let (pivot, a) = m.eliminated(Colour::B1, rows.end);
                        narrow_and_scale::<F>(end, pivot, a, self.r.b1.row(rows.end, 0));
                    }
                }
                // SAFETY: this is a halo row, which was received before this stage.
                None if grid.borders_other_ranks(me)[1] => unsafe {
                    let (pivot, a) = m.eliminated(Colour::B1, rows.end);
                    narrow_and_scale::<F>(end, pivot, a, self.r.b1.row(rows.end, 0));
                },
                None => end.fill(F::Real::default()),
            }
            // SAFETY: the last row belongs to this thread; the row of b1 above is in the buffers.
            unsafe { sums.store(squares + last, [self.descend_first_kept(last, rows.start, alpha, t) + below]) };
        }
    }

    /// Computes the values of the kept nodes in row J, and writes them to the next grid. The buffers contain D^-1 y in
    /// rows J and J + 1 of b1. Returns <r, r> of the kept nodes in row J. If a later step reads the values of the kept
    /// nodes again, they are stored in row J of z. Otherwise, they are stored in row `passing`, which all rows use and
    /// which therefore stays in cache.
    ///
    /// # Safety
    /// Rows J and `passing` must belong to this thread.
    unsafe fn descend_first_kept(&self, row: usize, passing: usize, alpha: Option<f64>, t: &Buffers<F::Real>) -> f64 {
        let (grid, n) = (&self.grids[0], self.grids[0].layout.cx);
        // The values are read again by `solve_natural` if no further grid is stored by colour, or for <g, u> if the
        // next grid is a recursion grid.
        let read_again = self.grids.len() == 1 || self.sections.get(1) == Some(&1);
        let place = if read_again { row } else { passing };
        // SAFETY: the rows belong to this thread.
        unsafe {
            let r = self.r.b2.row_mut(row, 0);
            if let Some(alpha) = alpha {
                combine(r, 1.0, -alpha, self.q.b2.row(row, 0));
            }
            let a = grid.sweep.diagonal.couplings(Colour::B2, row);
            difference::<F>(grid.z.b2.row_mut(place, 0), r, a, b1_around_b2(t, DROPPED, row, n));
            self.store_kept(0, row, place);
            dot(r, r)
        }
    }

    /// Computes the upward sweep of the first grid's even level, then x, p and q = S1 p. Also computes x and p in halo
    /// rows. Stores the partial sums of <p, q> in `sigma`.
    fn ascend_first(&self, me: Me, stage: usize, step: Option<(f64, f64)>, sigma: Reduce<1>, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[0];
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let [below, above] = grid.borders_other_ranks(me);
        // SAFETY: x, p and q are written in rows of this thread. x and p are also written in halo rows, which this
        // thread alone uses. Rows of p of other threads are read after these threads have posted them. r and the next
        // grid are only read.
        unsafe {
            let first = if below { rows.start - 1 } else { rows.start };
            match first.checked_sub(1) {
                Some(before) => self.load_kept(0, before, KEPT + before % 2, t),
                None => t.row_mut(KEPT + 1, n).fill(F::Real::default()),
            }
            for row in first..rows.end {
                self.advance_row(row, step, t);
                if row == rows.start {
                    me.post(Point::First, stage);
                }
                if row >= rows.start + 2 {
                    sigma.store(row - 1, [self.multiply_row(row - 1)]);
                }
            }
            if above {
                self.advance_row(rows.end, step, t);
            }
            me.post(Point::Last, stage);
            if let Some(member) = next_thread(me, grid) {
                me.wait_for(member, Point::First, stage);
            }
            if last > rows.start {
                sigma.store(last, [self.multiply_row(last)]);
            }
            if let Some(member) = previous_thread(me, grid) {
                me.wait_for(member, Point::Last, stage);
            }
            sigma.store(rows.start, [self.multiply_row(rows.start)]);
        }
    }

    /// Computes row J of z, x and p from the kept values in rows J - 1 and J. The buffers contain the kept values of
    /// row J - 1.
    ///
    /// # Safety
    /// No other thread may use row J of x and p meanwhile, and no thread may write r or the next grid.
    unsafe fn advance_row(&self, row: usize, step: Option<(f64, f64)>, t: &mut Buffers<F::Real>) {
        let (grid, n, scales) = (&self.grids[0], self.grids[0].layout.cx, self.scales());
        let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
        // SAFETY: by the safety contract of this function.
        unsafe {
            self.load_kept(0, row, here, t);
            let x = self.x.b2.row_mut(row, 0);
            step_row::<F>(x, self.p.b2.row_mut(row, 0), t.row(here, 0, n), step, scales);
            let (pivot, a) = grid.sweep.eliminated(Colour::B1, row);
            let mut z = std::mem::take(&mut t.values);
            {
                let (rows, own) = z.split_at_mut(DROPPED * t.stride);
                let of = |k: usize, shift: isize| &rows[(k * t.stride + t.block).wrapping_add_signed(shift)..][..n];
                let own = &mut own[t.block..][..n];
                let v = [of(below, -1), of(below, 0), of(here, -1), of(here, 0)];
                solve::<F>(own, pivot, self.r.b1.row(row, 0), a, v);
                step_row::<F>(self.x.b1.row_mut(row, 0), self.p.b1.row_mut(row, 0), own, step, scales);
            }
            t.values = z;
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
                self.schur.row(colour, row, &self.p, q);
                sigma += dot(self.p[colour].row(row, 0), q);
            }
        }
        sigma
    }
}

/// Computes out = r / d in the number type of the sweeps, where `pivot` and `a` define d.
fn narrow_and_scale<F: Format>(out: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, r: &[F::Vector]) {
    combine(out, 0.0, 1.0, r);
    scale_in_place::<F>(out, pivot, a);
}
