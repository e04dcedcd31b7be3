//! A coarse grid: its 27-point matrix, the Jacobi smoother and the residual. Arrays are stored in two halves, the
//! points in even and those in odd columns (see `layout`).

use super::layout::{Coarse, Split};
use super::loops::{in_plane, out_of_plane, out_of_plane_and_step, scale_by_inverse};
use super::transfer::{Weights, half_row};
use crate::base::loops::{deinterleave, interleave};
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::Me;
use crate::error::Result;
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{CUBE, Offset};
use std::ops::Range;

/// A symmetric matrix as a stencil: conductances for the upper half of the offsets, and row sums. After the setup, the
/// memory of the row sums is workspace.
pub struct Stencil<T> {
    pub split: Split,
    pub offsets: &'static [Offset],
    /// Conductances: one array per offset, one after the other.
    pub c: Shared<T>,
    pub excess: Shared<T>,
}

impl<T: Real + Number> Stencil<T> {
    pub fn new(cells: Cells, offsets: &'static [Offset]) -> Result<Self> {
        let split = Split::new(cells);
        Ok(Self {
            split,
            offsets,
            c: Shared::zeroed(offsets.len() * split.len())?,
            excess: Shared::zeroed(split.len())?,
        })
    }

    /// Returns the conductances between the points in `range` of a half and their neighbours at offset number `k` or,
    /// with `against`, at the opposite offset.
    ///
    /// # Safety
    /// No thread may write `c` while the slice is in use.
    pub unsafe fn c(&self, half: usize, range: &Range<usize>, k: usize, against: bool) -> &[T] {
        let step = if against { self.split.step(half, self.offsets[k].map(|o| -o)) } else { 0 };
        let start = (k * self.split.len() + range.start).wrapping_add_signed(step);
        // SAFETY: guaranteed by the caller.
        unsafe { self.c.slice(start, range.len()) }
    }

    /// Returns x at the neighbours to which `c` returns the conductances.
    ///
    /// # Safety
    /// No thread may write x while the slice is in use.
    pub unsafe fn near<'x>(
        &self,
        x: &'x Shared<T>,
        half: usize,
        range: &Range<usize>,
        k: usize,
        against: bool,
    ) -> &'x [T] {
        let offset = if against { self.offsets[k].map(|o| -o) } else { self.offsets[k] };
        // SAFETY: guaranteed by the caller.
        unsafe { x.slice(range.start.wrapping_add_signed(self.split.step(half, offset)), range.len()) }
    }
}

/// A coarse grid.
pub struct Grid<T> {
    pub a: Stencil<T>,
    pub diagonal: Shared<T>,
    /// Reciprocal of the divisor in a Jacobi step (see the parent module).
    pub inverse: Shared<T>,
    pub r: Shared<T>,
    pub x: Shared<T>,
}

/// What a pass over the matrix computes from x.
enum PassOutput {
    Residual,
    /// The result of a Jacobi step, x + residual / divisor.
    Step,
}

impl<T: Real + Number> Grid<T> {
    pub fn new(cells: Cells) -> Result<Self> {
        let a = Stencil::new(cells, &CUBE)?;
        let array = || Shared::zeroed(a.split.len());
        let (diagonal, inverse, r, x) = (array()?, array()?, array()?, array()?);
        Ok(Self { a, diagonal, inverse, r, x })
    }

    /// Returns the vector y that alternates with x as input and output of smoother sweeps. It uses the memory of the
    /// row sums, which only the setup needs.
    fn y(&self) -> &Shared<T> {
        &self.a.excess
    }

    /// Calls `f` for the half planes of this thread.
    fn each_half_plane(&self, me: Me, mut f: impl FnMut(usize, Range<usize>)) {
        for k in me.share(self.a.split.cells.nz) {
            (0..2).for_each(|half| f(half, self.a.split.half_plane(half, k)));
        }
    }

    /// Executes a Jacobi step from x = 0: x = r / divisor.
    fn first_sweep(&self, me: Me) {
        self.each_half_plane(me, |_, range| {
            let (start, n) = (range.start, range.len());
            // SAFETY: the points belong to this thread, and no other thread reads them in this step.
            unsafe {
                scale_by_inverse(self.x.slice_mut(start, n), self.r.slice(start, n), self.inverse.slice(start, n))
            };
        });
    }

    /// Computes out = r - A x, or the result of a Jacobi step from x. The zeros between rows remain zero, because r, x
    /// and the conductances are zero there.
    fn pass(&self, me: Me, out: &Shared<T>, x: &Shared<T>, then: &PassOutput) {
        // Numbers of the upper offsets within the plane, and of the offsets to the next plane.
        const BESIDE: [usize; 4] = [0, 1, 2, 3];
        const ABOVE: [usize; 9] = [4, 5, 6, 7, 8, 9, 10, 11, 12];
        self.each_half_plane(me, |half, range| {
            let (start, n) = (range.start, range.len());
            // SAFETY: no thread writes the matrix, r or x in this step; `out` is written at points of this thread.
            unsafe {
                let c = |k, against| self.a.c(half, &range, k, against);
                let near = |k, against| self.a.near(x, half, &range, k, against);
                let out = out.slice_mut(start, n);
                let [c0, c1, c2, c3] = BESIDE.map(|k| c(k, false));
                let [l0, l1, l2, l3] = BESIDE.map(|k| c(k, true));
                let [x0, x1, x2, x3] = BESIDE.map(|k| near(k, false));
                let [y0, y1, y2, y3] = BESIDE.map(|k| near(k, true));
                let (r, diagonal) = (self.r.slice(start, n), self.diagonal.slice(start, n));
                let here = x.slice(start, n);
                in_plane(out, r, diagonal, here, &[c0, l0, c1, l1, c2, l2, c3, l3], &[x0, y0, x1, y1, x2, y2, x3, y3]);
                out_of_plane(out, &ABOVE.map(|k| c(k, true)), &ABOVE.map(|k| near(k, true)));
                let (c, near) = (ABOVE.map(|k| c(k, false)), ABOVE.map(|k| near(k, false)));
                match then {
                    PassOutput::Residual => out_of_plane(out, &c, &near),
                    PassOutput::Step => out_of_plane_and_step(out, here, self.inverse.slice(start, n), &c, &near),
                }
            }
        });
    }

    /// Executes the sweeps from zero, and restricts the residual to `r` of the next coarser grid. `row` is workspace
    /// for a row of that grid.
    pub fn descend(&self, me: Me, sweeps: usize, weights: &Weights<T>, next: &Below<T>, row: &mut [T]) {
        self.first_sweep(me);
        me.barrier();
        let residual = if sweeps == 1 { self.y() } else { &self.x };
        if sweeps > 1 {
            self.pass(me, self.y(), &self.x, &PassOutput::Step);
            me.barrier();
            self.pass(me, residual, self.y(), &PassOutput::Residual);
        } else {
            self.pass(me, residual, &self.x, &PassOutput::Residual);
        }
        me.barrier();
        for k in me.share(next.split.cells.nz) {
            for j in 0..next.split.cells.ny {
                let fine = |half, j: isize, k: isize| {
                    // SAFETY: no thread writes the residual in this step.
                    (j >= 0 && k >= 0).then(|| unsafe { half_row(residual, &self.a.split, half, j, k) })
                };
                // SAFETY: no thread writes weights; the coarse row belongs to this thread.
                unsafe { next.restrict([j, k], weights, row, fine) };
            }
        }
        me.barrier();
    }

    /// Adds the correction of the next coarser grid, and executes the sweeps. Stores the result in `above`, which is
    /// the correction for the finer grid.
    pub fn ascend(
        &self,
        me: Me,
        sweeps: usize,
        (weights, correction): (&Weights<T>, &Shared<T>),
        (layout, above): (&Coarse, &Shared<T>),
    ) {
        let split = &self.a.split;
        let before = if sweeps == 1 { &self.x } else { self.y() };
        for k in me.share(split.cells.nz) {
            for j in 0..split.cells.ny {
                // SAFETY: the rows belong to this thread; no thread writes weights or the correction in this step.
                unsafe {
                    let [even, odd] = [0, 1]
                        .map(|half| Some(before.slice_mut(split.at(half, j as isize, k as isize), split.points(half))));
                    weights.prolong([even, odd], j, k, correction);
                }
            }
        }
        me.barrier();
        if sweeps > 1 {
            self.pass(me, &self.x, self.y(), &PassOutput::Step);
            me.barrier();
        }
        self.pass(me, self.y(), &self.x, &PassOutput::Step);
        for k in me.share(split.cells.nz) {
            for j in 0..split.cells.ny {
                // SAFETY: the rows belong to this thread.
                unsafe {
                    let half = |half| self.y().slice(split.at(half, j as isize, k as isize), split.points(half));
                    let to = |half| above.slice_mut(layout.at(half, j, k), layout.points(half));
                    if layout.is_split() {
                        (0..2).for_each(|h| to(h).copy_from_slice(half(h)));
                    } else {
                        interleave(half(0), half(1), to(0));
                    }
                }
            }
        }
        me.barrier();
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let arrays = [&self.a.c, &self.a.excess, &self.diagonal, &self.inverse, &self.r, &self.x];
        arrays.iter().map(|array| array.bytes()).sum()
    }
}

/// Right-hand side on the next coarser grid.
pub struct Below<'a, T> {
    pub split: &'a Split,
    pub r: &'a Shared<T>,
}

impl<T: Real + Number> Below<'_, T> {
    /// Sets row (j, k) to the restriction of fine values; see `Weights::restrict`. `row`: workspace for a row.
    ///
    /// # Safety
    /// The row must belong to a plane of this thread. In this step, no other thread may read the row, and no thread may
    /// write weights.
    pub unsafe fn restrict<'f>(
        &self,
        [j, k]: [usize; 2],
        weights: &Weights<T>,
        row: &mut [T],
        fine: impl Fn(usize, isize, isize) -> Option<&'f [T]>,
    ) where
        T: 'f,
    {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let half = |half| self.r.slice_mut(self.split.at(half, j as isize, k as isize), self.split.points(half));
            if weights.coarse.is_split() {
                (0..2).for_each(|h| weights.restrict(half(h), [h, j, k], &fine));
            } else {
                let row = &mut row[..self.split.cells.nx];
                weights.restrict(row, [0, j, k], fine);
                deinterleave(row, half(0), half(1));
            }
        }
    }
}
