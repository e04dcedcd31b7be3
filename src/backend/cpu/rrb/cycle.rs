//! The steps of the cycle on r1/r2/b1/b2 storage: sweeps through the levels of a section, fused or not, and the vectors
//! of a recursion grid.
//!
//! Barriers: sweeps begin where the right-hand side is complete on all threads, and end with own rows written.

use super::area::Four;
use super::levels::{Buffers, PackedGrid, RecursionGrid};
use super::loops::{add_inner, combine, difference_form, direct_inner, dot, finish_inner, subtract_inner};
use super::number::Format;
use super::packed::Packed;
use crate::backend::steps::cycle;
use crate::backend::steps::cycle::{CycleSteps, Inner};
use crate::grid::layout::Colour;
use crate::grid::stencil::ring_index;
use crate::runtime::number::Real;
use crate::runtime::reduce::{self, Reduce};
use crate::runtime::team::Me;
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

/// One thread on its way through the cycle.
pub struct Sections<'a, F: Format> {
    pub k: &'a Packed<F>,
    pub me: Me<'a>,
    /// Counts fused stages on shared grids, the same on all threads.
    pub stage: usize,
    /// Counts inner products on shared grids.
    turn: usize,
    /// Seconds on the way down and up each grid, last those of the remainder; empty where no thread asked.
    pub seconds: Vec<[f64; 2]>,
}

/// Places of `Sections::seconds`.
pub const DOWN: usize = 0;
pub const UP: usize = 1;

impl<'a, F: Format> Sections<'a, F> {
    pub fn new(k: &'a Packed<F>, me: Me<'a>) -> Self {
        Self { k, me, stage: 0, turn: 0, seconds: Vec::new() }
    }

    pub fn buffers(&self) -> MutexGuard<'a, Buffers<F::Real>> {
        self.k.buffers[self.me.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grids of section k.
    pub fn grids(&self, k: usize) -> Range<usize> {
        self.k.sections[k]..self.k.sections.get(k + 1).copied().unwrap_or(self.k.grids.len())
    }

    /// The number of the next stage on a grid.
    pub fn next_stage(&mut self, grid: &PackedGrid<F>) -> usize {
        self.stage += usize::from(grid.shared);
        self.stage
    }

    /// Begins a sum over the rows of a recursion grid.
    fn reduce(&mut self, k: usize) -> Reduce<'a, 1> {
        let elsewhere = self.k.elsewhere(self.k.sections[k]);
        self.note(k).over(elsewhere)
    }

    /// The same over those of this rank.
    fn note(&mut self, k: usize) -> Reduce<'a, 1> {
        let grid = &self.k.grids[self.k.sections[k]];
        self.turn += usize::from(grid.shared);
        self.k.inner_noted.reduce(self.turn, grid.layout.cy)
    }

    /// Fused stages do both levels of a grid; the first one of S1 has its own.
    fn fuses(&self, q: usize) -> bool {
        self.k.shape.fused && !(self.k.shape.schur && q == 0)
    }

    /// Does `work` on grid q, or on the remainder, on the clock where one runs.
    pub fn timed<T>(&mut self, q: usize, way: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.seconds.is_empty() {
            return work(self);
        }
        let start = Instant::now();
        let result = work(self);
        self.seconds[q][way] += start.elapsed().as_secs_f64();
        result
    }

    /// L y = z through the levels of these grids.
    pub fn descend(&mut self, grids: Range<usize>) {
        for q in grids {
            self.timed(q, DOWN, |s| s.descend_grid(q));
        }
    }

    fn descend_grid(&mut self, q: usize) {
        let (k, me, grid) = (self.k, self.me, &self.k.grids[q]);
        if self.fuses(q) {
            let stage = self.next_stage(grid);
            k.descend_grid(q, me, stage, &mut self.buffers());
        } else {
            if !(k.shape.schur && q == 0) {
                grid.forward(me, true);
                grid.refresh(me, &grid.z);
            }
            grid.forward(me, false);
            for row in grid.rows(me) {
                // SAFETY: a row of this thread.
                unsafe { k.send(q, row, row) };
            }
        }
        k.hand_down(q, me);
    }

    /// L^T z = y, back through the levels of these grids.
    pub fn ascend(&mut self, grids: Range<usize>) {
        for q in grids.rev() {
            self.timed(q, UP, |s| s.ascend_grid(q));
        }
    }

    fn ascend_grid(&mut self, q: usize) {
        let (k, me, grid) = (self.k, self.me, &self.k.grids[q]);
        // The coarser grid is complete.
        grid.barrier(me);
        if self.fuses(q) {
            let stage = self.next_stage(grid);
            return k.ascend_grid(q, me, stage, &mut self.buffers());
        }
        if let Some(coarse) = k.grids.get(q + 1) {
            grid.bring_up(me, coarse);
            grid.refresh(me, &grid.z);
        }
        grid.backward(me, false);
        if !(k.shape.schur && q == 0) {
            grid.refresh(me, &grid.z);
            grid.backward(me, true);
        }
    }

    /// The k-th recursion grid and what the iteration has there.
    fn inner(&self, k: usize) -> (&'a PackedGrid<F>, &'a RecursionGrid<F>) {
        let grid = &self.k.grids[self.k.sections[k]];
        (grid, grid.recursion.as_ref().expect("sections but the first begin with a recursion"))
    }

    /// The way up from the k-th recursion grid reads rows of z that other ranks have.
    fn share_solution(&self, k: usize) {
        let (grid, _) = self.inner(k);
        if grid.halo.is_some() {
            grid.refresh(self.me, &grid.z);
        }
    }

    /// Calls `f` with this thread's rows of the k-th recursion grid.
    fn each_row(&self, k: usize, mut f: impl FnMut(Colour, usize)) {
        for row in self.inner(k).0.rows(self.me) {
            for colour in Colour::ALL {
                f(colour, row);
            }
        }
    }
}

impl<F: Format> Packed<F> {
    /// The levels below the packed grids and the exact factor, on the kept values of the last grid; for thread 0 alone.
    /// Returns <r, M^-1 r> of these levels. Natural levels are not divided by `unit`.
    pub fn solve_natural(&self) -> f64 {
        let last = self.grids.last().expect("at least one grid is stored by colour");
        let mut natural = self.natural();
        let nx = last.layout.grid.coarse().nx;
        for row in last.layout.rows(Colour::B2) {
            let z = &mut natural.grids[0].z[ring_index(nx, 0, row)..][..nx];
            // SAFETY: no thread writes z in this step.
            combine(z, 0.0, self.unit, unsafe { &last.z.b2.row(row, 0)[..nx] });
        }
        natural.apply();
        let mut rho = 0.0;
        for row in last.layout.rows(Colour::B2) {
            let z = &natural.grids[0].z[ring_index(nx, 0, row)..][..nx];
            // SAFETY: only thread 0 uses z in this step.
            let target = unsafe { &mut last.z.b2.row_mut(row, 0)[..nx] };
            rho += reduce::dot(z, target);
            combine(target, 0.0, 1.0, z);
        }
        rho
    }
}

impl<F: Format> CycleSteps for Sections<'_, F> {
    fn recursions(&self) -> Range<usize> {
        1..self.k.sections.len()
    }

    fn takes_part(&self, k: usize) -> bool {
        self.me.index == 0 || self.inner(k).0.shared
    }

    fn sweep_down(&mut self, k: usize) {
        self.descend(self.grids(k));
    }

    fn solve_remainder(&mut self) {
        if self.me.index == 0 {
            self.timed(self.k.grids.len(), DOWN, |s| s.k.solve_natural());
        }
    }

    fn sweep_up(&mut self, k: usize) {
        self.ascend(self.grids(k));
    }

    fn keep_rhs(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        self.each_row(k, |colour, row| {
            // SAFETY: rows of this thread, which no other writes in this step; r is read by their owner alone.
            unsafe { inner.r[colour].row_mut(row, 0).copy_from_slice(grid.z[colour].row(row, 0)) };
        });
    }

    fn direct(&mut self, k: usize, beta: Option<f64>) {
        let (grid, inner) = self.inner(k);
        self.each_row(k, |colour, row| {
            // SAFETY: rows of this thread; others read d only between the barrier of `multiply_direction` and the next
            // one.
            unsafe { direct_inner(inner.d[colour].row_mut(row, 0), grid.z[colour].row(row, 0), beta) };
        });
    }

    fn multiply_direction(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        grid.refresh(self.me, &inner.d);
        let (straight, d) = (&grid.sweep.straight, &inner.d);
        self.each_row(k, |colour, row| {
            // SAFETY: no thread writes the matrix or d in this step; q rows belong to this thread.
            unsafe {
                difference_form::<F>(
                    inner.q[colour].row_mut(row, 0),
                    inner.excess[colour].row(row, 0),
                    d[colour].row(row, 0),
                    straight.couplings(colour, row),
                    d.straight(colour, row),
                    inner.corners.couplings(colour, row),
                    d.diagonal(colour, row),
                );
            }
        });
    }

    fn any(&mut self, k: usize, mine: bool) -> bool {
        let (grid, _) = self.inner(k);
        if !grid.shared {
            return mine;
        }
        // Of this team alone: those of other ranks may share other grids, and their first threads know the same.
        let noted = self.note(k);
        for row in grid.rows(self.me) {
            // SAFETY: a row of this thread.
            unsafe { noted.note(row, [f64::from(u8::from(mine))]) };
        }
        noted.all(Some(self.me))[0][grid.own.clone()].contains(&1.0)
    }

    fn inner_product(&mut self, k: usize, a: Inner, b: Inner) -> f64 {
        let (grid, inner) = self.inner(k);
        let of = |which: Inner| -> &Four<F::Real> {
            match which {
                Inner::R => &inner.r,
                Inner::Z => &grid.z,
                Inner::D => &inner.d,
                Inner::Q => &inner.q,
            }
        };
        let (a, b) = (of(a), of(b));
        let noted = self.reduce(k);
        for row in grid.rows(self.me) {
            // SAFETY: rows of this thread, which only it writes.
            unsafe { noted.note(row, [Colour::ALL.iter().map(|&c| dot(a[c].row(row, 0), b[c].row(row, 0))).sum()]) };
        }
        noted.sum(grid.shared.then_some(self.me))[0]
    }

    fn advance(&mut self, k: usize, alpha: f64, first: bool, go_on: bool) {
        let (grid, inner) = self.inner(k);
        self.each_row(k, |colour, row| {
            // SAFETY: rows of this thread, which no other uses in this step.
            unsafe {
                add_inner(inner.u[colour].row_mut(row, 0), inner.d[colour].row(row, 0), alpha, first);
                if go_on {
                    let (r, z) = (inner.r[colour].row_mut(row, 0), grid.z[colour].row_mut(row, 0));
                    subtract_inner(r, z, inner.q[colour].row(row, 0), alpha);
                }
            }
        });
        if go_on {
            grid.refresh_down(self.me, grid, self.k.shape.fused, &grid.z);
        }
    }

    fn take_solution(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        // The last way up may still read this thread's first row.
        grid.barrier(self.me);
        self.each_row(k, |colour, row| {
            // SAFETY: rows of this thread, which no other reads before the barrier of the way up.
            unsafe { grid.z[colour].row_mut(row, 0).copy_from_slice(inner.u[colour].row(row, 0)) };
        });
        self.share_solution(k);
    }

    fn finish(&mut self, k: usize, alpha: f64, beta: f64) {
        if !self.k.shape.fused {
            return self.textbook_finish(k, alpha, beta);
        }
        let (grid, inner) = self.inner(k);
        // As in `take_solution`.
        grid.barrier(self.me);
        self.each_row(k, |colour, row| {
            // SAFETY: as in `take_solution`.
            unsafe {
                let (d, u) = (inner.d[colour].row(row, 0), inner.u[colour].row(row, 0));
                finish_inner(grid.z[colour].row_mut(row, 0), d, u, alpha, beta);
            }
        });
        self.share_solution(k);
    }

    fn draw_direction(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        let layout = &grid.layout;
        let straight = &grid.sweep.straight;
        self.each_row(k, |colour, row| {
            // SAFETY: rows of this thread, which no other uses in this step; no thread writes the matrix.
            let (d, r, excess, near, corners) = unsafe {
                (
                    inner.d[colour].row_mut(row, 0),
                    inner.r[colour].row_mut(row, 0),
                    inner.excess[colour].row(row, 0),
                    straight.couplings(colour, row),
                    inner.corners.couplings(colour, row),
                )
            };
            r.fill(F::Real::default());
            d.fill(F::Real::default());
            if layout.rows(colour).contains(&row) {
                for column in layout.columns(colour) {
                    let (i, j) = layout.node(colour, column, row);
                    let sum = |a: [&[F::Stored]; 4]| {
                        let a = a.map(|a| F::read(a[column]).wide());
                        (a[0] + a[1]) + (a[2] + a[3])
                    };
                    let center = F::read(excess[column]).wide() - (sum(near) + sum(corners));
                    d[column] = F::Real::narrow(cycle::all_frequencies(i, j, center));
                }
            }
        });
    }
}
