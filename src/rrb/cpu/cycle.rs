//! Steps of the cycle on grids stored by colour: fused or unfused sweeps through the levels of a section, and the inner
//! iterations on a recursion grid (docs/theory/rrb.md, recursive cycles; Axelsson and Vassilevski 1990, Notay and
//! Vassilevski 2008).
//!
//! Barriers: before a sweep, all threads must have completed the right-hand side. After a sweep, each thread has
//! written its own rows.

use super::levels::{PackedGrid, RecursionGrid, RowBuffers};
use super::loops::{
    advance_inner_solution, finish_inner_solution, multiply_difference_form, update_inner_direction,
    update_inner_residual,
};
use super::number::Format;
use super::packed::PackedSystem;
use crate::base::loops::{combine, dot};
use crate::base::number::Real;
use crate::base::reduce;
use crate::base::reduce::Reduce;
use crate::base::team::TeamThread;
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::layout::Colour;
use crate::rrb::recursion;
use crate::rrb::recursion::{CycleSteps, CycleVector};
use crate::stencil::matrix::ring_index;
use std::ops::Range;
use std::sync::{MutexGuard, PoisonError};
use std::time::Instant;

/// State of one thread during a cycle.
pub struct CycleThread<'a, F: Format> {
    pub packed: &'a PackedSystem<F>,
    pub thread: TeamThread<'a>,
    /// Number of fused stages so far on grids that several threads share; equal on all threads.
    pub stage: usize,
    /// Number of reductions so far on grids that several threads share.
    reduction_count: usize,
    /// Seconds spent in the downward and in the upward sweep of each grid, and in the solution of the coarsest system
    /// (last entry). Empty if times are not measured.
    pub seconds: Vec<[f64; 2]>,
}

/// Indices of the times of the downward and of the upward sweep in an entry of `CycleThread::seconds`.
pub const DOWN_SWEEP: usize = 0;
pub const UP_SWEEP: usize = 1;

impl<'a, F: Format> CycleThread<'a, F> {
    pub fn new(packed: &'a PackedSystem<F>, thread: TeamThread<'a>) -> Self {
        Self { packed, thread, stage: 0, reduction_count: 0, seconds: Vec::new() }
    }

    pub fn buffers(&self) -> MutexGuard<'a, RowBuffers<F::Real>> {
        self.packed.buffers[self.thread.index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the grids of section k.
    pub fn grids_of_section(&self, k: usize) -> Range<usize> {
        self.packed.section_starts[k]..self.packed.section_starts.get(k + 1).copied().unwrap_or(self.packed.grids.len())
    }

    /// Returns the number of the next fused stage on a grid. Stages on grids of a single thread are not counted.
    pub fn next_stage(&mut self, grid: &PackedGrid<F>) -> usize {
        self.stage += usize::from(grid.is_shared);
        self.stage
    }

    /// Begins a sum over the rows of the k-th recursion grid, including the rows of other ranks.
    fn begin_global_sum(&mut self, k: usize) -> Reduce<'a, 1> {
        let other_ranks = self.packed.other_ranks(self.packed.section_starts[k]);
        self.begin_rank_sum(k).with_other_ranks(other_ranks)
    }

    /// Begins a sum over the rows of this rank on the k-th recursion grid.
    fn begin_rank_sum(&mut self, k: usize) -> Reduce<'a, 1> {
        let grid = &self.packed.grids[self.packed.section_starts[k]];
        self.reduction_count += usize::from(grid.is_shared);
        self.packed.inner_partials.reduce(self.reduction_count, grid.layout.cy)
    }

    /// Returns whether fused stages process both levels of grid q. If CG runs on S1, the first grid has separate fused
    /// stages in `iteration::fused`.
    fn fuses_grid(&self, q: usize) -> bool {
        self.packed.shape.is_fused && !(self.packed.shape.uses_schur && q == 0)
    }

    /// Runs `work`. If times are measured, adds the duration of `work` to `seconds[q][sweep_direction]`.
    /// `sweep_direction` is [`DOWN_SWEEP`] or [`UP_SWEEP`]. `q` is the index of the grid; the index after the last grid
    /// represents the coarsest system.
    pub fn run_timed<T>(&mut self, q: usize, sweep_direction: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.seconds.is_empty() {
            return work(self);
        }
        let start = Instant::now();
        let result = work(self);
        self.seconds[q][sweep_direction] += start.elapsed().as_secs_f64();
        result
    }

    /// Solves L y = z on the levels of `grids` (forward substitution).
    pub fn descend(&mut self, grids: Range<usize>) {
        for q in grids {
            self.run_timed(q, DOWN_SWEEP, |s| s.descend_grid(q));
        }
    }

    /// Computes the downward sweep through both levels of grid q. The values at kept nodes become the right-hand side
    /// on the next grid.
    fn descend_grid(&mut self, q: usize) {
        let (packed, thread, grid) = (self.packed, self.thread, &self.packed.grids[q]);
        if self.fuses_grid(q) {
            let stage = self.next_stage(grid);
            packed.descend_grid(q, thread, stage, &mut self.buffers());
        } else {
            if !(packed.shape.uses_schur && q == 0) {
                grid.substitute_forward(thread, true);
                grid.refresh(thread, &grid.z);
            }
            grid.substitute_forward(thread, false);
            for row in grid.rows(thread) {
                // SAFETY: the row belongs to this thread.
                unsafe { packed.store_kept_row(q, row, row) };
            }
        }
        packed.pass_to_next_grid(q, thread);
    }

    /// Solves D L^T z = y on the levels of `grids`, from the coarsest grid to the finest (backward substitution).
    pub fn ascend(&mut self, grids: Range<usize>) {
        for q in grids.rev() {
            self.run_timed(q, UP_SWEEP, |s| s.ascend_grid(q));
        }
    }

    /// Computes the upward sweep through both levels of grid q.
    fn ascend_grid(&mut self, q: usize) {
        let (packed, thread, grid) = (self.packed, self.thread, &self.packed.grids[q]);
        // This barrier waits until z of the coarser grid is complete.
        grid.barrier(thread);
        if self.fuses_grid(q) {
            let stage = self.next_stage(grid);
            return packed.ascend_grid(q, thread, stage, &mut self.buffers());
        }
        if let Some(coarse) = packed.grids.get(q + 1) {
            grid.copy_coarse_solution(thread, coarse);
            grid.refresh(thread, &grid.z);
        }
        grid.substitute_backward(thread, false);
        if !(packed.shape.uses_schur && q == 0) {
            grid.refresh(thread, &grid.z);
            grid.substitute_backward(thread, true);
        }
    }

    /// Returns the k-th recursion grid, and the matrix and vectors of its inner iterations.
    fn grid_and_inner_system(&self, k: usize) -> (&'a PackedGrid<F>, &'a RecursionGrid<F>) {
        let grid = &self.packed.grids[self.packed.section_starts[k]];
        (grid, grid.recursion_grid.as_ref().expect("sections but the first begin with a recursion"))
    }

    /// Exchanges the halo rows of z on the k-th recursion grid, which the upward sweep of the finer grid reads.
    fn exchange_solution(&self, k: usize) {
        let (grid, _) = self.grid_and_inner_system(k);
        if grid.halo.is_some() {
            grid.refresh(self.thread, &grid.z);
        }
    }

    /// Calls `f` for this thread's rows of all colours of the k-th recursion grid.
    fn for_each_row(&self, k: usize, mut f: impl FnMut(Colour, usize)) {
        for row in self.grid_and_inner_system(k).0.rows(self.thread) {
            for colour in Colour::ALL {
                f(colour, row);
            }
        }
    }
}

impl<F: Format> PackedSystem<F> {
    /// Applies M^-1, where M consists of the levels in natural storage and the coarsest system. On entry, z at the
    /// nodes b2 of the last grid stored by colour contains the right-hand side r. On return, z contains
    /// s M^-1 r at these nodes, where s is `storage_unit`. The sweeps on grids stored by colour scale z by the same
    /// factor, because their arrays contain M / s. Returns s <r, M^-1 r>. Only thread 0 may call this function.
    pub fn solve_natural_levels(&self) -> f64 {
        let last_grid = self.grids.last().expect("at least one grid is stored by colour");
        let mut natural_levels = self.natural_levels();
        let nx = last_grid.layout.grid.coarse().nx;
        for row in last_grid.layout.rows(Colour::B2) {
            let z = &mut natural_levels.grids[0].z[ring_index(nx, 0, row)..][..nx];
            // SAFETY: no thread writes z in this step.
            combine(z, 0.0, self.storage_unit, unsafe { &last_grid.z.b2.row(row, 0)[..nx] });
        }
        natural_levels.apply();
        let mut rho = 0.0;
        for row in last_grid.layout.rows(Colour::B2) {
            let z = &natural_levels.grids[0].z[ring_index(nx, 0, row)..][..nx];
            // SAFETY: only thread 0 uses z in this step.
            let solution = unsafe { &mut last_grid.z.b2.row_mut(row, 0)[..nx] };
            rho += reduce::dot(z, solution);
            combine(solution, 0.0, 1.0, z);
        }
        rho
    }
}

impl<F: Format> CycleSteps for CycleThread<'_, F> {
    fn recursions(&self) -> Range<usize> {
        1..self.packed.section_starts.len()
    }

    fn takes_part(&self, k: usize) -> bool {
        self.thread.index == 0 || self.grid_and_inner_system(k).0.is_shared
    }

    fn sweep_down(&mut self, k: usize) {
        self.descend(self.grids_of_section(k));
    }

    fn solve_coarsest(&mut self) {
        if self.thread.index == 0 {
            self.run_timed(self.packed.grids.len(), DOWN_SWEEP, |s| s.packed.solve_natural_levels());
        }
    }

    fn sweep_up(&mut self, k: usize) {
        self.ascend(self.grids_of_section(k));
    }

    fn store_rhs(&mut self, k: usize) {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        self.for_each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread writes them in this step. Only the owner of a
            // row reads r.
            unsafe { inner_system.r[colour].row_mut(row, 0).copy_from_slice(grid.z[colour].row(row, 0)) };
        });
    }

    fn update_direction(&mut self, k: usize, beta: Option<f64>) {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        self.for_each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread; other threads read d only after the barrier in
            // `multiply_direction` and before the next barrier.
            unsafe { update_inner_direction(inner_system.d[colour].row_mut(row, 0), grid.z[colour].row(row, 0), beta) };
        });
    }

    fn multiply_direction(&mut self, k: usize) {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        grid.refresh(self.thread, &inner_system.d);
        let (axis_couplings, d) = (&grid.factors.axis_couplings, &inner_system.d);
        self.for_each_row(k, |colour, row| {
            // SAFETY: no thread writes the matrix or d in this step; the rows of q belong to this thread.
            unsafe {
                multiply_difference_form::<F>(
                    inner_system.q[colour].row_mut(row, 0),
                    inner_system.row_sums[colour].row(row, 0),
                    d[colour].row(row, 0),
                    axis_couplings.couplings(colour, row),
                    d.axis_neighbours(colour, row),
                    inner_system.corners.couplings(colour, row),
                    d.diagonal_neighbours(colour, row),
                );
            }
        });
    }

    fn any_thread(&mut self, k: usize, own_value: bool) -> bool {
        let (grid, _) = self.grid_and_inner_system(k);
        if !grid.is_shared {
            return own_value;
        }
        // This reduction includes only the threads of this rank. If any thread has the value true, thread 0 has it,
        // too, because thread 0 works on every section. The value of thread 0 is the same on every rank, because it
        // follows from sums over all ranks. The values of other ranks are therefore not needed. They could not be
        // included either: a rank on which only thread 0 works on this grid has returned above.
        let partials = self.begin_rank_sum(k);
        for row in grid.rows(self.thread) {
            // SAFETY: the row belongs to this thread.
            unsafe { partials.store(row, [f64::from(u8::from(own_value))]) };
        }
        partials.partial_results(Some(self.thread))[0][grid.own_rows.clone()].contains(&1.0)
    }

    fn inner_product(&mut self, k: usize, a: CycleVector, b: CycleVector) -> f64 {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        let vector_of = |vector: CycleVector| -> &FourColours<F::Real> {
            match vector {
                CycleVector::R => &inner_system.r,
                CycleVector::Z => &grid.z,
                CycleVector::D => &inner_system.d,
                CycleVector::Q => &inner_system.q,
            }
        };
        let (a, b) = (vector_of(a), vector_of(b));
        let partials = self.begin_global_sum(k);
        for row in grid.rows(self.thread) {
            // SAFETY: the rows belong to this thread, and only this thread writes them.
            unsafe {
                partials.store(row, [Colour::ALL.iter().map(|&c| dot(a[c].row(row, 0), b[c].row(row, 0))).sum()])
            };
        }
        partials.sum(grid.is_shared.then_some(self.thread))[0]
    }

    fn advance(&mut self, k: usize, alpha: f64, is_first: bool, has_next_step: bool) {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        self.for_each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step.
            unsafe {
                advance_inner_solution(
                    inner_system.u[colour].row_mut(row, 0),
                    inner_system.d[colour].row(row, 0),
                    alpha,
                    is_first,
                );
                if has_next_step {
                    let (r, z) = (inner_system.r[colour].row_mut(row, 0), grid.z[colour].row_mut(row, 0));
                    update_inner_residual(r, z, inner_system.q[colour].row(row, 0), alpha);
                }
            }
        });
        if has_next_step {
            grid.refresh_down(self.thread, grid, self.packed.shape.is_fused, &grid.z);
        }
    }

    fn copy_solution(&mut self, k: usize) {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        // In the last upward sweep, another thread may still read the first row of this thread.
        grid.barrier(self.thread);
        self.for_each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread reads them before the barrier of the upward
            // sweep.
            unsafe { grid.z[colour].row_mut(row, 0).copy_from_slice(inner_system.u[colour].row(row, 0)) };
        });
        self.exchange_solution(k);
    }

    fn finish(&mut self, k: usize, alpha: f64, beta: f64) {
        if !self.packed.shape.is_fused {
            return self.finish_unfused(k, alpha, beta);
        }
        let (grid, inner_system) = self.grid_and_inner_system(k);
        // Another thread may still read the first row of this thread (see `copy_solution`).
        grid.barrier(self.thread);
        self.for_each_row(k, |colour, row| {
            // SAFETY: as in `copy_solution`.
            unsafe {
                let (d, u) = (inner_system.d[colour].row(row, 0), inner_system.u[colour].row(row, 0));
                finish_inner_solution(grid.z[colour].row_mut(row, 0), d, u, alpha, beta);
            }
        });
        self.exchange_solution(k);
    }

    fn set_all_frequencies(&mut self, k: usize) {
        let (grid, inner_system) = self.grid_and_inner_system(k);
        let layout = &grid.layout;
        let axis_couplings = &grid.factors.axis_couplings;
        self.for_each_row(k, |colour, row| {
            // SAFETY: the rows belong to this thread, and no other thread uses them in this step. No thread writes the
            // matrix.
            let (d, r, row_sums, axis_couplings_of_row, corners) = unsafe {
                (
                    inner_system.d[colour].row_mut(row, 0),
                    inner_system.r[colour].row_mut(row, 0),
                    inner_system.row_sums[colour].row(row, 0),
                    axis_couplings.couplings(colour, row),
                    inner_system.corners.couplings(colour, row),
                )
            };
            r.fill(F::Real::default());
            d.fill(F::Real::default());
            if layout.rows(colour).contains(&row) {
                for column in layout.columns(colour) {
                    let (i, j) = layout.node(colour, column, row);
                    let sum = |a: [&[F::Stored]; 4]| {
                        let a = a.map(|a| F::read(a[column]).to_f64());
                        (a[0] + a[1]) + (a[2] + a[3])
                    };
                    let center = F::read(row_sums[column]).to_f64() - (sum(axis_couplings_of_row) + sum(corners));
                    d[column] = F::Real::from_f64(recursion::all_frequencies(i, j, center));
                }
            }
        });
    }
}
