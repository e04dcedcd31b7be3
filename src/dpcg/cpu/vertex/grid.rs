//! A coarse grid: its 27-point matrix, the Jacobi smoother and the residual. Arrays are stored in two halves, the
//! points in even and those in odd columns (see `layout`).

use super::layout::{CoarseLayout, SplitLayout};
use super::loops::{add_adjacent_plane, add_adjacent_plane_and_step, residual_in_plane, scale_by_inverse};
use super::transfer::{InterpolationWeights, half_row};
use crate::base::loops::{deinterleave, interleave};
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{CUBE_OFFSETS, Offset};
use std::ops::Range;

/// A symmetric matrix as a stencil: conductances for the upper half of the offsets, and row sums. After the setup, the
/// memory of the row sums is workspace.
pub struct Stencil<T> {
    pub split: SplitLayout,
    pub offsets: &'static [Offset],
    /// Conductances: one array per offset, one after the other.
    pub c: Shared<T>,
    pub row_sums: Shared<T>,
}

impl<T: Real + Number> Stencil<T> {
    pub fn new(cells: Cells, offsets: &'static [Offset]) -> Result<Self> {
        let split = SplitLayout::new(cells);
        Ok(Self {
            split,
            offsets,
            c: Shared::zeroed(offsets.len() * split.len())?,
            row_sums: Shared::zeroed(split.len())?,
        })
    }

    /// Returns the conductances between points and their neighbours at offset number `k` or, with `is_opposite`, at the
    /// opposite offset. `range` contains the indices of the points, all of which are in the half `half`.
    ///
    /// # Safety
    /// No thread may write `c` while the slice is in use.
    pub unsafe fn conductances(&self, half: usize, range: &Range<usize>, k: usize, is_opposite: bool) -> &[T] {
        let step = if is_opposite { self.split.offset_distance(half, self.offsets[k].map(|o| -o)) } else { 0 };
        let start = (k * self.split.len() + range.start).wrapping_add_signed(step);
        // SAFETY: guaranteed by the caller.
        unsafe { self.c.slice(start, range.len()) }
    }

    /// Returns x at the neighbours for which `conductances` returns the conductances.
    ///
    /// # Safety
    /// No thread may write x while the slice is in use.
    pub unsafe fn neighbour_values<'x>(
        &self,
        x: &'x Shared<T>,
        half: usize,
        range: &Range<usize>,
        k: usize,
        is_opposite: bool,
    ) -> &'x [T] {
        let offset = if is_opposite { self.offsets[k].map(|o| -o) } else { self.offsets[k] };
        // SAFETY: guaranteed by the caller.
        unsafe { x.slice(range.start.wrapping_add_signed(self.split.offset_distance(half, offset)), range.len()) }
    }
}

/// A coarse grid.
pub struct Grid<T> {
    pub a: Stencil<T>,
    pub diagonal: Shared<T>,
    /// Reciprocals of the divisors max(D, (D + sum |c|)/2) / 0.8 in a Jacobi step (see the parent module).
    pub inverse_divisors: Shared<T>,
    pub r: Shared<T>,
    pub x: Shared<T>,
}

/// What a pass over the matrix computes from x.
enum PassOutput {
    Residual,
    /// The result of a Jacobi step, x + residual / divisor.
    JacobiStep,
}

impl<T: Real + Number> Grid<T> {
    pub fn new(cells: Cells) -> Result<Self> {
        let a = Stencil::new(cells, &CUBE_OFFSETS)?;
        let array = || Shared::zeroed(a.split.len());
        let (diagonal, inverse_divisors, r, x) = (array()?, array()?, array()?, array()?);
        Ok(Self { a, diagonal, inverse_divisors, r, x })
    }

    /// Returns the vector that alternates with `x` as input and output of sweeps. This vector uses the memory of the
    /// row sums, which only the setup needs.
    fn alternate_x(&self) -> &Shared<T> {
        &self.a.row_sums
    }

    /// Calls `f` for the half planes of this thread.
    fn for_each_half_plane(&self, thread: TeamThread, mut f: impl FnMut(usize, Range<usize>)) {
        for k in thread.share(self.a.split.cells.nz) {
            (0..2).for_each(|half| f(half, self.a.split.half_plane(half, k)));
        }
    }

    /// Executes a Jacobi step from x = 0: x = r / divisor.
    fn first_sweep(&self, thread: TeamThread) {
        self.for_each_half_plane(thread, |_, range| {
            let (start, n) = (range.start, range.len());
            // SAFETY: the points belong to this thread, and no other thread reads them in this step.
            unsafe {
                scale_by_inverse(
                    self.x.slice_mut(start, n),
                    self.r.slice(start, n),
                    self.inverse_divisors.slice(start, n),
                )
            };
        });
    }

    /// Computes out = r - A x, or the result of a Jacobi step from x. The zeros between rows remain zero, because r, x
    /// and the conductances are zero there.
    fn run_pass(&self, thread: TeamThread, out: &Shared<T>, x: &Shared<T>, output: &PassOutput) {
        // Numbers of the offsets to the next plane.
        const NEXT_PLANE_OFFSETS: [usize; 9] = [4, 5, 6, 7, 8, 9, 10, 11, 12];
        self.for_each_half_plane(thread, |half, range| {
            let (start, n) = (range.start, range.len());
            // SAFETY: no thread writes the matrix, r or x in this step; `out` is written at points of this thread.
            unsafe {
                let conductances = |k, is_opposite| self.a.conductances(half, &range, k, is_opposite);
                let neighbour_values = |k, is_opposite| self.a.neighbour_values(x, half, &range, k, is_opposite);
                let out = out.slice_mut(start, n);
                // These arrays contain two slices for each upper offset within the plane (numbers 0 to 3): for the
                // offset, and for the opposite offset.
                let plane_conductances: [&[T]; 8] = std::array::from_fn(|t| conductances(t / 2, t % 2 == 1));
                let plane_x: [&[T]; 8] = std::array::from_fn(|t| neighbour_values(t / 2, t % 2 == 1));
                let (r, diagonal) = (self.r.slice(start, n), self.diagonal.slice(start, n));
                let center_x = x.slice(start, n);
                residual_in_plane(out, r, diagonal, center_x, &plane_conductances, &plane_x);
                add_adjacent_plane(
                    out,
                    &NEXT_PLANE_OFFSETS.map(|k| conductances(k, true)),
                    &NEXT_PLANE_OFFSETS.map(|k| neighbour_values(k, true)),
                );
                let (next_plane_conductances, next_plane_x) = (
                    NEXT_PLANE_OFFSETS.map(|k| conductances(k, false)),
                    NEXT_PLANE_OFFSETS.map(|k| neighbour_values(k, false)),
                );
                match output {
                    PassOutput::Residual => add_adjacent_plane(out, &next_plane_conductances, &next_plane_x),
                    PassOutput::JacobiStep => add_adjacent_plane_and_step(
                        out,
                        center_x,
                        self.inverse_divisors.slice(start, n),
                        &next_plane_conductances,
                        &next_plane_x,
                    ),
                }
            }
        });
    }

    /// Executes the sweeps from zero, and restricts the residual to `r` of the next coarser grid. `row_workspace` is
    /// workspace for a row of that grid.
    pub fn descend(
        &self,
        thread: TeamThread,
        sweeps: usize,
        weights: &InterpolationWeights<T>,
        coarse_rhs: &CoarseRhs<T>,
        row_workspace: &mut [T],
    ) {
        self.first_sweep(thread);
        thread.barrier();
        let residual = if sweeps == 1 { self.alternate_x() } else { &self.x };
        if sweeps > 1 {
            self.run_pass(thread, self.alternate_x(), &self.x, &PassOutput::JacobiStep);
            thread.barrier();
            self.run_pass(thread, residual, self.alternate_x(), &PassOutput::Residual);
        } else {
            self.run_pass(thread, residual, &self.x, &PassOutput::Residual);
        }
        thread.barrier();
        for k in thread.share(coarse_rhs.split.cells.nz) {
            for j in 0..coarse_rhs.split.cells.ny {
                let fine_row = |half, j: isize, k: isize| {
                    // SAFETY: no thread writes the residual in this step.
                    (j >= 0 && k >= 0).then(|| unsafe { half_row(residual, &self.a.split, half, j, k) })
                };
                // SAFETY: no thread writes weights; the coarse row belongs to this thread.
                unsafe { coarse_rhs.restrict([j, k], weights, row_workspace, fine_row) };
            }
        }
        thread.barrier();
    }

    /// Adds the correction of the next coarser grid, and executes the sweeps. Stores the result in `finer_correction`,
    /// which is the correction for the finer grid.
    pub fn ascend(
        &self,
        thread: TeamThread,
        sweeps: usize,
        (weights, correction): (&InterpolationWeights<T>, &Shared<T>),
        (layout, finer_correction): (&CoarseLayout, &Shared<T>),
    ) {
        let split = &self.a.split;
        let corrected_x = if sweeps == 1 { &self.x } else { self.alternate_x() };
        for k in thread.share(split.cells.nz) {
            for j in 0..split.cells.ny {
                // SAFETY: the rows belong to this thread; no thread writes weights or the correction in this step.
                unsafe {
                    let [even, odd] = [0, 1].map(|half| {
                        Some(
                            corrected_x
                                .slice_mut(split.row_start(half, j as isize, k as isize), split.row_points(half)),
                        )
                    });
                    weights.prolong([even, odd], j, k, correction);
                }
            }
        }
        thread.barrier();
        if sweeps > 1 {
            self.run_pass(thread, &self.x, self.alternate_x(), &PassOutput::JacobiStep);
            thread.barrier();
        }
        self.run_pass(thread, self.alternate_x(), &self.x, &PassOutput::JacobiStep);
        for k in thread.share(split.cells.nz) {
            for j in 0..split.cells.ny {
                // SAFETY: the rows belong to this thread.
                unsafe {
                    let half_values = |half| {
                        self.alternate_x().slice(split.row_start(half, j as isize, k as isize), split.row_points(half))
                    };
                    let half_correction =
                        |half| finer_correction.slice_mut(layout.row_start(half, j, k), layout.row_points(half));
                    if layout.is_split() {
                        (0..2).for_each(|half| half_correction(half).copy_from_slice(half_values(half)));
                    } else {
                        interleave(half_values(0), half_values(1), half_correction(0));
                    }
                }
            }
        }
        thread.barrier();
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let arrays = [&self.a.c, &self.a.row_sums, &self.diagonal, &self.inverse_divisors, &self.r, &self.x];
        arrays.iter().map(|array| array.bytes()).sum()
    }
}

/// Right-hand side on the next coarser grid.
pub struct CoarseRhs<'a, T> {
    pub split: &'a SplitLayout,
    pub r: &'a Shared<T>,
}

impl<T: Real + Number> CoarseRhs<'_, T> {
    /// Sets row (j, k) to the restriction of fine values; see `InterpolationWeights::restrict`. `row_workspace`:
    /// workspace for a row.
    ///
    /// # Safety
    /// The row must belong to a plane of this thread. In this step, no other thread may read the row, and no thread may
    /// write weights.
    pub unsafe fn restrict<'f>(
        &self,
        [j, k]: [usize; 2],
        weights: &InterpolationWeights<T>,
        row_workspace: &mut [T],
        fine_row: impl Fn(usize, isize, isize) -> Option<&'f [T]>,
    ) where
        T: 'f,
    {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let half_values = |half| {
                self.r.slice_mut(self.split.row_start(half, j as isize, k as isize), self.split.row_points(half))
            };
            if weights.coarse_layout.is_split() {
                (0..2).for_each(|half| weights.restrict(half_values(half), [half, j, k], &fine_row));
            } else {
                let row_workspace = &mut row_workspace[..self.split.cells.nx];
                weights.restrict(row_workspace, [0, j, k], fine_row);
                deinterleave(row_workspace, half_values(0), half_values(1));
            }
        }
    }
}
