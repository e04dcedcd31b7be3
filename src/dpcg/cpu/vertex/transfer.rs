//! Interpolation and restriction, row by row. Weights are stored at the coarse points. The weight of offset o stored at
//! coarse point I is the weight of I in the interpolation to the fine point R I + o. R is 2 in directions that are
//! coarsened, and 1 in the others. A half row consists of the points of a row in even columns (half 0) or in odd
//! columns (half 1); see `layout`.

use super::layout::{CoarseLayout, SplitLayout};
use super::loops::{add_products, add_two_products};
use crate::base::loops::add;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::error::{Result, collected};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{Offset, coarse_cells};
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const WEIGHTS_ALLOCATION: &str = "weights of interpolation";

/// Number of offsets with components -1, 0 and 1.
const CUBE_OFFSET_COUNT: usize = 27;

/// Returns the number of an offset, 0 .. 26.
pub fn offset_number(offset: Offset) -> usize {
    (9 * (offset[2] + 1) + 3 * (offset[1] + 1) + offset[0] + 1) as usize
}

/// Weights of all offsets except zero, whose weight is one. An offset has zero components in directions that are not
/// coarsened.
pub struct InterpolationWeights<T> {
    /// Extents of the fine grid.
    pub fine_extents: Cells,
    /// Number of fine points per coarse point in each direction, 2 or 1.
    pub coarsening_ratio: [usize; 3],
    pub coarse_layout: CoarseLayout,
    arrays: Vec<Shared<T>>,
}

impl<T: Real + Number> InterpolationWeights<T> {
    pub fn new(fine_extents: Cells, coarsening_ratio: [usize; 3]) -> Result<Self> {
        let coarse_layout = CoarseLayout::new(coarse_cells(fine_extents, coarsening_ratio), coarsening_ratio[0] == 1);
        let mut weights = Self { fine_extents, coarsening_ratio, coarse_layout, arrays: Vec::new() };
        let offsets = (0..CUBE_OFFSET_COUNT).map(|o| [o % 3, o / 3 % 3, o / 9].map(|o| o as isize - 1));
        let arrays: Vec<Result<Shared<T>>> = collected(
            offsets.map(|o| Shared::zeroed(if weights.has_offset(o) { coarse_layout.len() } else { 0 })),
            WEIGHTS_ALLOCATION,
        )?;
        for array in arrays {
            crate::error::push(&mut weights.arrays, array?, WEIGHTS_ALLOCATION)?;
        }
        Ok(weights)
    }

    /// Returns whether the weights of an offset are stored.
    pub fn has_offset(&self, offset: Offset) -> bool {
        offset != [0; 3] && (0..3).all(|d| offset[d] == 0 || self.coarsening_ratio[d] == 2)
    }

    /// Returns the weights of an offset.
    pub fn of(&self, offset: Offset) -> &Shared<T> {
        &self.arrays[offset_number(offset)]
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.arrays.iter().map(Shared::bytes).sum()
    }

    /// Returns the weights of an offset for a half row of coarse points.
    ///
    /// # Safety
    /// No thread may write weights while the slice is in use.
    unsafe fn coarse_row_weights(&self, offset: Offset, half: usize, j: usize, k: usize) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.of(offset).slice(self.coarse_layout.row_start(half, j, k), self.coarse_layout.row_stride) }
    }

    /// Returns the range of the indices, in direction d, of the coarse points from which the fine point with index
    /// `index` is interpolated.
    fn coarse_neighbours(&self, d: usize, index: usize) -> Range<usize> {
        index / self.coarsening_ratio[d]..index.div_ceil(self.coarsening_ratio[d]) + 1
    }

    /// Adds the interpolated `correction` to the half rows `[even, odd]` of fine row (j, k). A half row that is `None`
    /// is skipped.
    ///
    /// # Safety
    /// No thread may write weights or `correction` during this call.
    pub unsafe fn prolong(&self, mut half_rows: [Option<&mut [T]>; 2], j: usize, k: usize, correction: &Shared<T>) {
        let (is_split, [_, ry, rz]) =
            (self.coarse_layout.is_split(), self.coarsening_ratio.map(|ratio| ratio as isize));
        for coarse_k in self.coarse_neighbours(2, k) {
            for coarse_j in self.coarse_neighbours(1, j) {
                let (y, z) = (j as isize - ry * coarse_j as isize, k as isize - rz * coarse_k as isize);
                for (half, out) in half_rows.iter_mut().enumerate() {
                    let (Some(out), coarse_half) = (out, if is_split { half } else { 0 }) else { continue };
                    // SAFETY: guaranteed by the caller.
                    let (coarse_values, weights_at) = unsafe {
                        let weights_at = |x| self.coarse_row_weights([x, y, z], coarse_half, coarse_j, coarse_k);
                        (
                            correction.slice(
                                self.coarse_layout.row_start(coarse_half, coarse_j, coarse_k),
                                self.coarse_layout.row_stride,
                            ),
                            weights_at,
                        )
                    };
                    if half == coarse_half {
                        if y == 0 && z == 0 {
                            add(out, coarse_values)
                        } else {
                            add_products(out, weights_at(0), coarse_values)
                        }
                    } else {
                        add_two_products(
                            out,
                            &[weights_at(1), &weights_at(-1)[1..]],
                            &[coarse_values, &coarse_values[1..]],
                        );
                    }
                }
            }
        }
    }

    /// Computes the restriction of fine values in a coarse half row. `fine_row(half, j, k)` returns a half row that
    /// begins one value before its first point, or `None` if its values are zero.
    ///
    /// # Safety
    /// No thread may write weights during this call.
    pub unsafe fn restrict<'f>(
        &self,
        out: &mut [T],
        [half, j, k]: [usize; 3],
        fine_row: impl Fn(usize, isize, isize) -> Option<&'f [T]>,
    ) where
        T: 'f,
    {
        out.fill(T::default());
        let [_, ry, rz] = self.coarsening_ratio.map(|ratio| ratio as isize);
        for z in 1 - rz..rz {
            for y in 1 - ry..ry {
                let (fine_j, fine_k) = (ry * j as isize + y, rz * k as isize + z);
                // SAFETY: guaranteed by the caller.
                let weights_at = |x| unsafe { self.coarse_row_weights([x, y, z], half, j, k) };
                if let Some(same_half_row) = fine_row(half, fine_j, fine_k) {
                    if y == 0 && z == 0 {
                        add(out, &same_half_row[1..])
                    } else {
                        add_products(out, weights_at(0), &same_half_row[1..])
                    }
                }
                if !self.coarse_layout.is_split()
                    && let Some(odd_half_row) = fine_row(1, fine_j, fine_k)
                {
                    add_two_products(out, &[weights_at(1), weights_at(-1)], &[&odd_half_row[1..], odd_half_row]);
                }
            }
        }
    }
}

/// Returns a half row of an array as `restrict` reads it: it begins one value before its first point.
///
/// # Safety
/// No thread may write the half row while the slice is in use.
pub unsafe fn half_row<'a, T: Number>(
    array: &'a Shared<T>,
    split: &SplitLayout,
    half: usize,
    j: isize,
    k: isize,
) -> &'a [T] {
    // SAFETY: guaranteed by the caller.
    unsafe { array.slice(split.row_start(half, j, k) - 1, split.row_stride + 1) }
}
