//! The fused stages of an iteration on S1: the same numbers as the textbook steps to rounding, with each array
//! read and written once a stage. What a stage reads and writes, on the first grid:
//!
//! ```text
//!     descend  r rw, q; pivots and couplings of the even level, values passed on
//!     ascend   values from below, half of r, the level again; p rw, x rw, S1, q w
//! ```
//!
//! and each coarser grid once on the way down and once up. How many words that is in which format: the table in
//! docs/performance.md, counted in benches/src/cost.rs. In f64 the diagonal couplings of the level are those of S1 and
//! are read once for both; short formats have their own beside those of S1.
//!
//! Stages sweep over rows, so that what neighbours need is still in cache. z of eliminated nodes holds y (not y / d) on
//! the way down, so that red rows change only on the way up; rho = y' D^-1 y is then known before the way up begins.
//!
//! Between members, a stage needs at most a row of the member before or after: each posts when its first and
//! last rows are done. One barrier stands between grids, one where a scalar is needed.

use super::area::Four;
use super::cycle::{DOWN, UP};
use super::format::Format;
use super::kernels::{
    add_scaled, advance, advance_and_scale, begin, difference, direct, dot, narrow, scale, scale_in_place, solve,
    solve_in_place, subtract,
};
use super::neighbours::Rows;
use super::packed::{Packed, PackedGrid};
use super::steps::Member;
use super::sweeps::{collect, spread};
use crate::backend::steps::cycle::{CycleSteps, solve_section};
use crate::error::{Result, reserve, zeroed};
use crate::grid::layout::{Colour, Layout};
use crate::runtime::number::Real;
use crate::runtime::reduce::pairwise;
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::{Me, Point};
use std::ops::Range;

/// One value per row and purpose, written by the row's owner, added by all after a barrier.
pub struct StageSums {
    values: Shared,
    /// Where the rho of grid q begins.
    rho_start: Vec<usize>,
    rows: usize,
}

impl StageSums {
    pub fn new<F: Format>(grids: &[PackedGrid<F>]) -> Result<Self> {
        let rows = grids[0].layout.cy;
        let mut rho_start = Vec::new();
        reserve(&mut rho_start, grids.len() + 1, "sums of stages")?;
        rho_start.push(3 * rows);
        for grid in grids {
            rho_start.push(rho_start[rho_start.len() - 1] + grid.layout.cy);
        }
        Ok(Self { values: Shared::zeroed(rho_start[grids.len()])?, rho_start, rows })
    }

    /// # Safety
    /// Between two barriers a place must be written by one member and read by none.
    unsafe fn set(&self, place: usize, value: f64) {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice_mut(place, 1)[0] = value };
    }

    /// # Safety
    /// Nobody else may write this place before the next barrier.
    unsafe fn get(&self, place: usize) -> f64 {
        // SAFETY: as the caller promised.
        unsafe { self.values.slice(place, 1)[0] }
    }

    /// # Safety
    /// Nobody may write these places before the next barrier.
    unsafe fn sum(&self, places: Range<usize>) -> f64 {
        // SAFETY: as the caller promised.
        pairwise(unsafe { self.values.slice(places.start, places.len()) })
    }

    fn residual(&self) -> Range<usize> {
        0..self.rows
    }

    fn sigma(&self) -> Range<usize> {
        self.rows..2 * self.rows
    }

    /// rho of what lies below the levels of the first section, by row of its last grid or all in the first place.
    fn below(&self) -> Range<usize> {
        2 * self.rows..3 * self.rows
    }

    /// rho of the levels of the first `grids` grids.
    fn rho(&self, grids: usize) -> Range<usize> {
        self.rho_start[0]..self.rho_start[grids]
    }
}

/// Rows of one member, with a border of zeros left and right.
pub struct Buffers<R> {
    values: Vec<R>,
    stride: usize,
    block: usize,
}

/// Rows a stage keeps: two of each of three colours.
const BUFFER_ROWS: usize = 6;

impl<R: Real + Number> Buffers<R> {
    pub fn new(layout: &Layout) -> Result<Self> {
        let stride = layout.stride();
        Ok(Self { values: zeroed(BUFFER_ROWS * stride, "rows of a stage")?, stride, block: layout.block })
    }

    /// Row k from I = shift on.
    fn row(&self, k: usize, shift: isize, n: usize) -> &[R] {
        &self.values[(k * self.stride + self.block).wrapping_add_signed(shift)..][..n]
    }

    /// Row k, to write; what stands behind its n values becomes zero, since grids of all sizes use it.
    fn row_mut(&mut self, k: usize, n: usize) -> &mut [R] {
        let row = &mut self.values[k * self.stride + self.block..][..n + 1];
        row[n] = R::default();
        &mut row[..n]
    }
}

/// x = x + alpha p, p = z + beta p; p = z at a start. `scales`: see [`Packed::scales`].
fn step_row<F: Format>(
    x: &mut [f64],
    p: &mut [F::Vector],
    z: &[F::Real],
    step: Option<(f64, f64)>,
    scales: (f64, f64),
) {
    match step {
        None => begin::<F>(p, z, scales.0),
        Some((0.0, beta)) => direct::<F>(p, z, beta, scales.0),
        Some((alpha, beta)) => advance::<F>(x, p, z, alpha * scales.1, beta, scales.0),
    }
}

/// The member after this one on a grid, if it has rows there.
fn next<F: Format>(me: Me, grid: &PackedGrid<F>) -> Option<usize> {
    (grid.shared && me.index + 1 < me.members).then_some(me.index + 1)
}

/// The member before.
fn previous<F: Format>(me: Me, grid: &PackedGrid<F>) -> Option<usize> {
    if grid.shared { me.index.checked_sub(1) } else { None }
}

impl<F: Format> Member<'_, F> {
    /// r = r - alpha q, L y = r, D and all below solved. Returns <r, r>; rho = r' M^-1 r is kept.
    pub(super) fn fused_descend(&mut self, alpha: Option<f64>) -> f64 {
        let (k, me) = (self.k, self.me);
        self.sections.timed(0, DOWN, |s| {
            let stage = s.next_stage(&k.grids[0]);
            k.descend_first(me, stage, alpha, &mut s.buffers());
            k.grids[0].barrier(me);
        });
        let grids = self.sections.grids(0);
        self.sections.descend(1..grids.end);
        let sums = &k.stage_sums;
        let recursion = k.recursion();
        if k.sections.len() > 1 {
            if self.sections.takes_part(1) {
                solve_section(&mut self.sections, 1, &recursion);
            }
            // <g, u> of the recursion: g still stands in the kept values of the grid above.
            let above = &k.grids[grids.end - 1];
            above.barrier(me);
            let mut t = self.sections.buffers();
            for row in above.rows(me) {
                // SAFETY: the recursion is over and its grid only read; the place is that of a row of this member.
                unsafe {
                    k.fetch(grids.end - 1, row, FIRST_RED, &mut t);
                    let rho = dot(above.z.b2.row(row, 0), t.row(FIRST_RED, 0, above.layout.cx));
                    sums.set(sums.below().start + row, rho);
                }
            }
        } else if me.index == 0 {
            let rho = self.sections.timed(k.grids.len(), DOWN, |s| s.k.solve_natural());
            // SAFETY: only member 0 writes this place.
            unsafe { sums.set(sums.below().start, rho) };
        }
        me.barrier();
        // SAFETY: written before this barrier; written again only after that of `ascend`.
        unsafe {
            self.rho = (sums.sum(sums.rho(grids.end)) + sums.sum(sums.below())) / k.unit;
            sums.sum(sums.residual())
        }
    }

    /// L^T z = y, x = x + alpha p, p = z + beta p, q = S1 p. Returns <p, q>.
    pub(super) fn fused_ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        let (k, me) = (self.k, self.me);
        let grids = self.sections.grids(0);
        self.sections.ascend(1..grids.end);
        self.sections.timed(0, UP, |s| {
            k.grids[0].barrier(me);
            let stage = s.next_stage(&k.grids[0]);
            k.ascend_first(me, stage, step, &mut s.buffers());
        });
        me.barrier();
        // SAFETY: written before this barrier; written again only after that of `descend`.
        unsafe { k.scales().1 * k.stage_sums.sum(k.stage_sums.sigma()) }
    }
}

/// Rows of `Buffers`, two each, by the parity of J.
const FIRST_RED: usize = 0;
const SECOND_RED: usize = 2;
const DROPPED: usize = 4;

impl<F: Format> Packed<F> {
    /// On S1: r = r - alpha q, and the even level of the first grid.
    fn descend_first(&self, me: Me, stage: usize, alpha: Option<f64>, t: &mut Buffers<F::Real>) {
        let (grid, sums) = (&self.grids[0], &self.stage_sums);
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let m = F::sweep(grid);
        for row in rows.clone() {
            // SAFETY: r is written in rows of this member, each before it is read; the first row of the next
            // member is read after that member has posted it.
            unsafe {
                let r = self.r.b1.row_mut(row, 0);
                let step = alpha.map(|alpha| (alpha, self.q.b1.row(row, 0)));
                let (pivot, a) = (m.pivot.b1.row(row, 0), m.diagonal.couplings(Colour::B1, row));
                let out = t.row_mut(DROPPED + row % 2, n);
                let (residual, rho) = advance_and_scale::<F>(r, step, out, pivot, a);
                sums.set(sums.rho(0).start + row, rho);
                sums.set(sums.residual().start + row, residual);
                if row == rows.start {
                    me.post(Point::First, stage);
                } else {
                    self.descend_first_kept(row - 1, rows.start, alpha, t);
                }
            }
        }
        if let Some(last) = rows.clone().last() {
            let end = t.row_mut(DROPPED + rows.end % 2, n);
            match next(me, grid) {
                Some(member) => {
                    me.wait_for(member, Point::First, stage);
                    // SAFETY: the next member has posted this row.
                    unsafe {
                        let (pivot, a) = (m.pivot.b1.row(rows.end, 0), m.diagonal.couplings(Colour::B1, rows.end));
                        narrow_and_scale::<F>(end, pivot, a, self.r.b1.row(rows.end, 0));
                    }
                }
                None => end.fill(F::Real::default()),
            }
            // SAFETY: as above.
            unsafe { self.descend_first_kept(last, rows.start, alpha, t) };
        }
    }

    /// Row J of the kept nodes, with b1 rows J and J + 1 over their pivots in the buffers. The next grid gets it; here
    /// it is kept where it is read again, and else passes through row `passing`, which stays in cache.
    ///
    /// # Safety
    /// Rows J and `passing` must be this member's.
    unsafe fn descend_first_kept(&self, row: usize, passing: usize, alpha: Option<f64>, t: &Buffers<F::Real>) {
        let (grid, n) = (&self.grids[0], self.grids[0].layout.cx);
        // By the remainder below, or for the <g, u> of a recursion below.
        let read_again = self.grids.len() == 1 || self.sections.get(1) == Some(&1);
        let place = if read_again { row } else { passing };
        // SAFETY: rows of this member; the sum of squares of b1 in this row is there already.
        unsafe {
            let r = self.r.b2.row_mut(row, 0);
            if let Some(alpha) = alpha {
                add_scaled(r, -alpha, self.q.b2.row(row, 0));
            }
            let sum = self.stage_sums.residual().start + row;
            self.stage_sums.set(sum, dot(r, r) + self.stage_sums.get(sum));
            let a = F::sweep(grid).diagonal.couplings(Colour::B2, row);
            difference::<F>(grid.z.b2.row_mut(place, 0), r, a, diagonal_of(t, DROPPED, row, n));
            self.send(0, row, place);
        }
    }

    /// Row J of kept values, which stands at row `place`, to the next grid.
    ///
    /// # Safety
    /// Both rows must be this member's.
    unsafe fn send(&self, q: usize, row: usize, place: usize) {
        let grid = &self.grids[q];
        let Some(coarse) = self.grids.get(q + 1) else { return };
        if grid.layout.rows(Colour::B2).contains(&row) {
            // SAFETY: each row of the next grid gets values from one row.
            unsafe { spread(&coarse.layout, row, &grid.z.b2.row(place, 0)[..coarse.layout.grid.nx], 1.0, &coarse.z) };
        }
    }

    /// Both levels of a grid.
    pub(super) fn descend_grid(&self, q: usize, me: Me, stage: usize, t: &mut Buffers<F::Real>) {
        let (grid, sums) = (&self.grids[q], &self.stage_sums);
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let m = F::sweep(grid);
        // SAFETY: red rows are not written in this stage; black ones are this member's, but for the first row
        // of b1 of the next member, which is read after that member has posted it.
        unsafe {
            let scaled = |colour: Colour, row: usize, out: &mut [F::Real]| {
                let a = if colour == Colour::B1 {
                    m.diagonal.couplings(colour, row)
                } else {
                    m.straight.couplings(colour, row)
                };
                scale::<F>(out, m.pivot[colour].row(row, 0), a, grid.z[colour].row(row, 0))
            };
            match rows.start.checked_sub(1) {
                Some(before) => {
                    scaled(Colour::R1, before, t.row_mut(FIRST_RED + before % 2, n));
                }
                None => t.row_mut(FIRST_RED + 1, n).fill(F::Real::default()),
            }
            let mut rho_r2 = scaled(Colour::R2, rows.start, t.row_mut(SECOND_RED + rows.start % 2, n));
            for row in rows.clone() {
                let rho_r1 = scaled(Colour::R1, row, t.row_mut(FIRST_RED + row % 2, n));
                let neighbours = [
                    t.row(SECOND_RED + row % 2, -1, n),
                    t.row(SECOND_RED + row % 2, 0, n),
                    t.row(FIRST_RED + (row + 1) % 2, 0, n),
                    t.row(FIRST_RED + row % 2, 0, n),
                ];
                subtract::<F>(grid.z.b1.row_mut(row, 0), m.straight.couplings(Colour::B1, row), neighbours);
                let rho_b1 = scaled(Colour::B1, row, t.row_mut(DROPPED + row % 2, n));
                sums.set(sums.rho(q).end + row, (rho_r1 + rho_r2) + rho_b1);
                if row == rows.start {
                    me.post(Point::First, stage);
                }

                rho_r2 = scaled(Colour::R2, row + 1, t.row_mut(SECOND_RED + (row + 1) % 2, n));
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
                    scaled(Colour::B1, rows.end, t.row_mut(DROPPED + rows.end % 2, n));
                }
                None => t.row_mut(DROPPED + rows.end % 2, n).fill(F::Real::default()),
            }
            self.descend_kept(q, last, t);
        }
    }

    /// # Safety
    /// Row J must be this member's.
    unsafe fn descend_kept(&self, q: usize, row: usize, t: &Buffers<F::Real>) {
        let grid = &self.grids[q];
        // SAFETY: a row of this member.
        unsafe {
            let a = F::sweep(grid).diagonal.couplings(Colour::B2, row);
            subtract::<F>(grid.z.b2.row_mut(row, 0), a, diagonal_of(t, DROPPED, row, grid.layout.cx));
            self.send(q, row, row);
        }
    }

    /// Row J of the kept values of grid q as the coarser levels left them, into row k of the buffers.
    ///
    /// # Safety
    /// Nobody may write the next grid, or on the last grid b2, in this stage.
    unsafe fn fetch(&self, q: usize, row: usize, k: usize, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[q];
        let out = t.row_mut(k, grid.layout.cx);
        if !grid.layout.rows(Colour::B2).contains(&row) {
            out.fill(F::Real::default());
            return;
        }
        // SAFETY: as the caller promised.
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

    /// Both levels of a grid, upwards.
    pub(super) fn ascend_grid(&self, q: usize, me: Me, stage: usize, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[q];
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let m = F::sweep(grid);
        const KEPT: usize = FIRST_RED;
        // SAFETY: rows of this member are written, each before it is read; the first row of b1 of the next
        // member is read after that member has posted it; the next grid is only read.
        unsafe {
            match rows.start.checked_sub(1) {
                Some(before) => self.fetch(q, before, KEPT + before % 2, t),
                None => t.row_mut(KEPT + 1, n).fill(F::Real::default()),
            }
            for row in rows.clone() {
                self.fetch(q, row, KEPT + row % 2, t);
                let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
                let v = [t.row(below, -1, n), t.row(below, 0, n), t.row(here, -1, n), t.row(here, 0, n)];
                solve_in_place::<F>(
                    grid.z.b1.row_mut(row, 0),
                    m.pivot.b1.row(row, 0),
                    m.diagonal.couplings(Colour::B1, row),
                    v,
                );
                if row == rows.start {
                    me.post(Point::First, stage);
                } else {
                    self.ascend_first_red(q, row - 1, t.row(below, -1, n), t.row(below, 0, n));
                }
                let v = [grid.z.b1.row(row, 0), grid.z.b1.row(row, 1), t.row(below, 0, n), t.row(here, 0, n)];
                solve_in_place::<F>(
                    grid.z.r2.row_mut(row, 0),
                    m.pivot.r2.row(row, 0),
                    m.straight.couplings(Colour::R2, row),
                    v,
                );
                if self.grids.len() > q + 1 {
                    grid.z.b2.row_mut(row, 0).copy_from_slice(t.row(here, 0, n));
                }
            }
            if let Some(member) = next(me, grid) {
                me.wait_for(member, Point::First, stage);
            }
            let here = KEPT + last % 2;
            self.ascend_first_red(q, last, t.row(here, -1, n), t.row(here, 0, n));
        }
    }

    /// Row J of r1, between kept values west and east and the b1 rows J and J + 1.
    ///
    /// # Safety
    /// Row J must be this member's, and b1 row J + 1 done.
    unsafe fn ascend_first_red(&self, q: usize, row: usize, west: &[F::Real], east: &[F::Real]) {
        let (grid, m) = (&self.grids[q], F::sweep(&self.grids[q]));
        // SAFETY: as the caller promised.
        unsafe {
            let v = [west, east, grid.z.b1.row(row, 0), grid.z.b1.row(row + 1, 0)];
            solve_in_place::<F>(
                grid.z.r1.row_mut(row, 0),
                m.pivot.r1.row(row, 0),
                m.straight.couplings(Colour::R1, row),
                v,
            );
        }
    }

    /// On S1: the even level upwards, x, p, and q = S1 p.
    fn ascend_first(&self, me: Me, stage: usize, step: Option<(f64, f64)>, t: &mut Buffers<F::Real>) {
        let grid = &self.grids[0];
        let (rows, n) = (grid.rows(me), grid.layout.cx);
        let Some(last) = rows.clone().last() else { return };
        let m = F::sweep(grid);
        let scales = self.scales();
        const KEPT: usize = FIRST_RED;
        // SAFETY: x, p and q are written in rows of this member; p rows of other members are read after they
        // have posted them; r and the next grid are only read.
        unsafe {
            match rows.start.checked_sub(1) {
                Some(before) => self.fetch(0, before, KEPT + before % 2, t),
                None => t.row_mut(KEPT + 1, n).fill(F::Real::default()),
            }
            for row in rows.clone() {
                self.fetch(0, row, KEPT + row % 2, t);
                let (here, below) = (KEPT + row % 2, KEPT + (row + 1) % 2);
                let x = self.x.b2.row_mut(row, 0);
                step_row::<F>(x, self.p.b2.row_mut(row, 0), t.row(here, 0, n), step, scales);
                let (pivot, a) = (m.pivot.b1.row(row, 0), m.diagonal.couplings(Colour::B1, row));
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
                if row == rows.start {
                    me.post(Point::First, stage);
                }
                if row >= rows.start + 2 {
                    self.multiply_row(row - 1);
                }
            }
            me.post(Point::Last, stage);
            if let Some(member) = next(me, grid) {
                me.wait_for(member, Point::First, stage);
            }
            if last > rows.start {
                self.multiply_row(last);
            }
            if let Some(member) = previous(me, grid) {
                me.wait_for(member, Point::Last, stage);
            }
            self.multiply_row(rows.start);
        }
    }

    /// Row J of q = S1 p and of <p, q>.
    ///
    /// # Safety
    /// Row J must be this member's, and p rows J - 1 to J + 1 done.
    unsafe fn multiply_row(&self, row: usize) {
        let mut sigma = 0.0;
        for colour in [Colour::B1, Colour::B2] {
            // SAFETY: as the caller promised.
            unsafe {
                let q = self.q[colour].row_mut(row, 0);
                self.schur_row(colour, row, &self.p, q);
                sigma += dot(self.p[colour].row(row, 0), q);
            }
        }
        // SAFETY: the row is this member's.
        unsafe { self.stage_sums.set(self.stage_sums.sigma().start + row, sigma) };
    }

    /// out = row J of S1 v.
    ///
    /// # Safety
    /// Nobody may write v rows J - 1 to J + 1 meanwhile.
    pub(super) unsafe fn schur_row(&self, colour: Colour, row: usize, v: &Four<F::Vector>, out: &mut [F::Vector]) {
        let s = &self.schur;
        let (center, distant) = match colour {
            Colour::B1 => (&s.center[0], &s.b1_distant),
            _ => (&s.center[1], &s.b2_distant),
        };
        // SAFETY: as the caller promised.
        unsafe {
            let far = (distant.couplings(row), v[colour].distant(row));
            let near = (s.diagonal.couplings(colour, row), v.diagonal(colour, row));
            F::multiply(out, center.row(row, 0), v[colour].row(row, 0), far.0, far.1, near.0, near.1);
        }
    }
}

/// out = r / d, in the type of sweeps.
fn narrow_and_scale<F: Format>(out: &mut [F::Real], pivot: &[F::Stored], a: Rows<F::Stored>, r: &[F::Vector]) {
    narrow::<F>(out, r);
    scale_in_place::<F>(out, pivot, a);
}

/// b1 neighbours of row J of b2, from the two buffered rows of b1.
fn diagonal_of<R: Real + Number>(t: &Buffers<R>, k: usize, row: usize, n: usize) -> Rows<'_, R> {
    let (here, above) = (k + row % 2, k + (row + 1) % 2);
    [t.row(here, 0, n), t.row(here, 1, n), t.row(above, 0, n), t.row(above, 1, n)]
}
