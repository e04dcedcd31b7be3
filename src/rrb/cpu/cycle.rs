//! Steps of the cycle on grids stored by colour: fused or unfused sweeps through the levels of a section, and the inner
//! iterations on a recursion grid (docs/theory/rrb.md, recursive cycles; Axelsson and Vassilevski 1990, Notay and
//! Vassilevski 2008).
//!
//! Barriers: before a sweep, all threads must have completed the right-hand side. After a sweep, each thread has
//! written its own rows.

use super::levels::{Buffers, PackedGrid, RecursionGrid};
use super::loops::{add_inner, difference_form, finish_inner, subtract_inner, update_direction_inner};
use super::number::Format;
use super::packed::Packed;
use crate::base::loops::{combine, dot};
use crate::base::number::Real;
use crate::base::reduce;
use crate::base::reduce::Reduce;
use crate::base::team::Me;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::layout::Colour;
use crate::rrb::recursion;
use crate::rrb::recursion::{CycleSteps, Inner};
use crate::stencil::matrix::ring_index;
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

/// State of one thread during a cycle.
pub struct Sections<'a, F: Format> {
    pub k: &'a Packed<F>,
    pub me: Me<'a>,
    /// Number of fused stages so far on grids that several threads share; equal on all threads.
    pub stage: usize,
    /// Number of reductions so far on grids that several threads share.
    reductions: usize,
    /// Seconds spent in the downward and in the upward sweep of each grid, and in the solution of the coarsest system
    /// (last entry). Empty if times are not measured.
    pub seconds: Vec<[f64; 2]>,
}

/// Indices of the two times in an entry of `Sections::seconds`.
pub const DOWN: usize = 0;
pub const UP: usize = 1;

impl<'a, F: Format> Sections<'a, F> {
    pub fn new(k: &'a Packed<F>, me: Me<'a>) -> Self {
        Self { k, me, stage: 0, reductions: 0, seconds: Vec::new() }
    }

    pub fn buffers(&self) -> MutexGuard<'a, Buffers<F::Real>> {
        self.k.buffers[self.me.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the grids of section k.
    pub fn grids(&self, k: usize) -> Range<usize> {
        self.k.sections[k]..self.k.sections.get(k + 1).copied().unwrap_or(self.k.grids.len())
    }

    /// Counts a fused stage on a grid, and returns its number.
    pub fn next_stage(&mut self, grid: &PackedGrid<F>) -> usize {
        self.stage += usize::from(grid.shared);
        self.stage
    }

    /// Begins a sum over the rows of the k-th recursion grid, including the rows of other ranks.
    fn reduce(&mut self, k: usize) -> Reduce<'a, 1> {
        let other_ranks = self.k.other_ranks(self.k.sections[k]);
        self.begin_sum(k).over(other_ranks)
    }

    /// Begins a sum over the rows of this rank on the k-th recursion grid.
    fn begin_sum(&mut self, k: usize) -> Reduce<'a, 1> {
        let grid = &self.k.grids[self.k.sections[k]];
        self.reductions += usize::from(grid.shared);
        self.k.inner_partials.reduce(self.reductions, grid.layout.cy)
    }

    /// Returns whether fused stages process both levels of grid q. If CG runs on S1, the first grid has separate fused
    /// stages in `iteration::fused`.
    fn fuses(&self, q: usize) -> bool {
        self.k.shape.fused && !(self.k.shape.schur && q == 0)
    }

    /// Runs `work` for grid q, or for the coarsest system. If times are measured, adds its time to `seconds`, for a
    /// sweep in the direction `way` ([`DOWN`] or [`UP`]).
    pub fn timed<T>(&mut self, q: usize, way: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.seconds.is_empty() {
            return work(self);
        }
        let start = Instant::now();
        let result = work(self);
        self.seconds[q][way] += start.elapsed().as_secs_f64();
        result
    }

    /// Solves L y = z on the levels of `grids` (forward substitution).
    pub fn descend(&mut self, grids: Range<usize>) {
        for q in grids {
            self.timed(q, DOWN, |s| s.descend_grid(q));
        }
    }

    /// Computes the downward sweep through both levels of grid q. The values at kept nodes become the right-hand side
    /// on the next grid.
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
                // SAFETY: the row belongs to this thread.
                unsafe { k.store_kept(q, row, row) };
            }
        }
        k.pass_to_next_grid(q, me);
    }

    /// Solves D L^T z = y on the levels of `grids`, from the coarsest grid to the finest (backward substitution).
    pub fn ascend(&mut self, grids: Range<usize>) {
        for q in grids.rev() {
            self.timed(q, UP, |s| s.ascend_grid(q));
        }
    }

    /// Computes the upward sweep through both levels of grid q.
    fn ascend_grid(&mut self, q: usize) {
        let (k, me, grid) = (self.k, self.me, &self.k.grids[q]);
        // This barrier waits until z of the coarser grid is complete.
        grid.barrier(me);
        if self.fuses(q) {
            let stage = self.next_stage(grid);
            return k.ascend_grid(q, me, stage, &mut self.buffers());
        }
        if let Some(coarse) = k.grids.get(q + 1) {
            grid.copy_to_kept(me, coarse);
            grid.refresh(me, &grid.z);
        }
        grid.backward(me, false);
        if !(k.shape.schur && q == 0) {
            grid.refresh(me, &grid.z);
            grid.backward(me, true);
        }
    }

    /// Returns the k-th recursion grid and the vectors of its inner iterations.
    fn inner(&self, k: usize) -> (&'a PackedGrid<F>, &'a RecursionGrid<F>) {
        let grid = &self.k.grids[self.k.sections[k]];
        (grid, grid.recursion.as_ref().expect("sections but the first begin with a recursion"))
    }

    /// Exchanges the halo rows of z on the k-th recursion grid, which the upward sweep of the finer grid reads.
    fn exchange_solution(&self, k: usize) {
        let (grid, _) = self.inner(k);
        if grid.halo.is_some() {
            grid.refresh(self.me, &grid.z);
        }
    }

    /// Calls `f` for this thread's rows of all colours of the k-th recursion grid.
    fn each_row(&self, k: usize, mut f: impl FnMut(Colour, usize)) {
        for row in self.inner(k).0.rows(self.me) {
            for colour in Colour::ALL {
                f(colour, row);
            }
        }
    }
}

impl<F: Format> Packed<F> {
    /// Solves the levels in natural storage and the coarsest system. The kept values of the last grid stored by colour
    /// contain the right-hand side r on entry, and the solution on return. r is first multiplied by `unit`, because the
    /// levels in natural storage are not divided by it. Returns `unit` <r, M^-1 r>, where M consists of these levels.
    /// Only thread 0 may call this function.
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

    fn solve_coarsest(&mut self) {
        if self.me.index == 0 {
            self.timed(self.k.grids.len(), DOWN, |s| s.k.solve_natural());
        }
    }

    fn sweep_up(&mut self, k: usize) {
        self.ascend(self.grids(k));
    }

    fn store_rhs(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        self.each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread writes them in this step. Only the owner of a
            // row reads r.
            unsafe { inner.r[colour].row_mut(row, 0).copy_from_slice(grid.z[colour].row(row, 0)) };
        });
    }

    fn update_direction(&mut self, k: usize, beta: Option<f64>) {
        let (grid, inner) = self.inner(k);
        self.each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread; other threads read d only after the barrier in
            // `multiply_direction` and before the next barrier.
            unsafe { update_direction_inner(inner.d[colour].row_mut(row, 0), grid.z[colour].row(row, 0), beta) };
        });
    }

    fn multiply_direction(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        grid.refresh(self.me, &inner.d);
        let (straight, d) = (&grid.sweep.straight, &inner.d);
        self.each_row(k, |colour, row| {
            // SAFETY: no thread writes the matrix or d in this step; the rows of q belong to this thread.
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
        // Combines the values of the threads of this rank. Thread 0 works on every section, so its value is true if
        // that of another thread is true, and the result is the value of thread 0. This value is the same on every
        // rank, because it follows from sums over all ranks. Other ranks are therefore not needed. They could not be
        // included, because a rank on which only one thread works on this grid has returned above.
        let partials = self.begin_sum(k);
        for row in grid.rows(self.me) {
            // SAFETY: the row belongs to this thread.
            unsafe { partials.store(row, [f64::from(u8::from(mine))]) };
        }
        partials.all(Some(self.me))[0][grid.own.clone()].contains(&1.0)
    }

    fn inner_product(&mut self, k: usize, a: Inner, b: Inner) -> f64 {
        let (grid, inner) = self.inner(k);
        let of = |which: Inner| -> &FourColours<F::Real> {
            match which {
                Inner::R => &inner.r,
                Inner::Z => &grid.z,
                Inner::D => &inner.d,
                Inner::Q => &inner.q,
            }
        };
        let (a, b) = (of(a), of(b));
        let partials = self.reduce(k);
        for row in grid.rows(self.me) {
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            unsafe {
                partials.store(row, [Colour::ALL.iter().map(|&c| dot(a[c].row(row, 0), b[c].row(row, 0))).sum()])
            };
        }
        partials.sum(grid.shared.then_some(self.me))[0]
    }

    fn advance(&mut self, k: usize, alpha: f64, first: bool, go_on: bool) {
        let (grid, inner) = self.inner(k);
        self.each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
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

    fn copy_solution(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        // In the last upward sweep, another thread may still read the first row of this thread.
        grid.barrier(self.me);
        self.each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread reads them before the barrier of the upward
            // sweep.
            unsafe { grid.z[colour].row_mut(row, 0).copy_from_slice(inner.u[colour].row(row, 0)) };
        });
        self.exchange_solution(k);
    }

    fn finish(&mut self, k: usize, alpha: f64, beta: f64) {
        if !self.k.shape.fused {
            return self.unfused_finish(k, alpha, beta);
        }
        let (grid, inner) = self.inner(k);
        // Another thread may still read the first row of this thread (see `copy_solution`).
        grid.barrier(self.me);
        self.each_row(k, |colour, row| {
            // SAFETY: as in `copy_solution`.
            unsafe {
                let (d, u) = (inner.d[colour].row(row, 0), inner.u[colour].row(row, 0));
                finish_inner(grid.z[colour].row_mut(row, 0), d, u, alpha, beta);
            }
        });
        self.exchange_solution(k);
    }

    fn set_all_frequencies(&mut self, k: usize) {
        let (grid, inner) = self.inner(k);
        let layout = &grid.layout;
        let straight = &grid.sweep.straight;
        self.each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step. No thread writes the
            // matrix.
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
                    d[column] = F::Real::narrow(recursion::all_frequencies(i, j, center));
                }
            }
        });
    }
}
