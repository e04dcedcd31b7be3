//! Interpolation and restriction, row by row. Weights are stored at the coarse points. The weight of offset o stored at
//! coarse point I is the weight of I in the interpolation to the fine point R I + o. R is 2 in directions that are
//! coarsened, and 1 in the others. A half row consists of the points of a row in even columns (half 0) or in odd
//! columns (half 1); see `layout`.

use super::layout::{Coarse, Split};
use super::loops::{add_products, add_two_products};
use crate::base::loops::add;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::error::{Result, collected};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{Offset, coarse_cells};
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const WEIGHTS: &str = "weights of interpolation";

/// Number of offsets with components -1, 0 and 1.
const CUBE_OFFSETS: usize = 27;

/// Returns the number of an offset, 0 .. 26.
pub fn number(offset: Offset) -> usize {
    (9 * (offset[2] + 1) + 3 * (offset[1] + 1) + offset[0] + 1) as usize
}

/// Weights of all offsets except zero, whose weight is one. An offset has zero components in directions that are not
/// coarsened.
pub struct Weights<T> {
    /// Extents of the fine grid.
    pub fine: Cells,
    /// Number of fine points per coarse point in each direction, 2 or 1.
    pub ratio: [usize; 3],
    pub coarse: Coarse,
    of: Vec<Shared<T>>,
}

impl<T: Real + Number> Weights<T> {
    pub fn new(fine: Cells, ratio: [usize; 3]) -> Result<Self> {
        let coarse = Coarse::new(coarse_cells(fine, ratio), ratio[0] == 1);
        let mut weights = Self { fine, ratio, coarse, of: Vec::new() };
        let offsets = (0..CUBE_OFFSETS).map(|o| [o % 3, o / 3 % 3, o / 9].map(|o| o as isize - 1));
        let of: Vec<Result<Shared<T>>> =
            collected(offsets.map(|o| Shared::zeroed(if weights.has(o) { coarse.len() } else { 0 })), WEIGHTS)?;
        for of in of {
            crate::error::push(&mut weights.of, of?, WEIGHTS)?;
        }
        Ok(weights)
    }

    /// Returns whether the weights of an offset are stored.
    pub fn has(&self, offset: Offset) -> bool {
        offset != [0; 3] && (0..3).all(|d| offset[d] == 0 || self.ratio[d] == 2)
    }

    /// Returns the weights of an offset.
    pub fn of(&self, offset: Offset) -> &Shared<T> {
        &self.of[number(offset)]
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.of.iter().map(Shared::bytes).sum()
    }

    /// Returns the weights of an offset for a half row of coarse points.
    ///
    /// # Safety
    /// No thread may write weights while the slice is in use.
    unsafe fn row(&self, offset: Offset, half: usize, j: usize, k: usize) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.of(offset).slice(self.coarse.at(half, j, k), self.coarse.row) }
    }

    /// Returns the indices of the coarse points around a fine point in direction d.
    fn around(&self, d: usize, index: usize) -> Range<usize> {
        index / self.ratio[d]..index.div_ceil(self.ratio[d]) + 1
    }

    /// Adds the interpolated `correction` to the half rows `[even, odd]` of fine row (j, k). A half row that is `None`
    /// is not needed.
    ///
    /// # Safety
    /// No thread may write weights or `correction` during this call.
    pub unsafe fn prolong(&self, mut rows: [Option<&mut [T]>; 2], j: usize, k: usize, correction: &Shared<T>) {
        let (split, [_, ry, rz]) = (self.coarse.is_split(), self.ratio.map(|ratio| ratio as isize));
        for coarse_k in self.around(2, k) {
            for coarse_j in self.around(1, j) {
                let (y, z) = (j as isize - ry * coarse_j as isize, k as isize - rz * coarse_k as isize);
                for (half, out) in rows.iter_mut().enumerate() {
                    let (Some(out), at) = (out, if split { half } else { 0 }) else { continue };
                    // SAFETY: guaranteed by the caller.
                    let (from, row) = unsafe {
                        let row = |x| self.row([x, y, z], at, coarse_j, coarse_k);
                        (correction.slice(self.coarse.at(at, coarse_j, coarse_k), self.coarse.row), row)
                    };
                    if half == at {
                        if y == 0 && z == 0 { add(out, from) } else { add_products(out, row(0), from) }
                    } else {
                        add_two_products(out, &[row(1), &row(-1)[1..]], &[from, &from[1..]]);
                    }
                }
            }
        }
    }

    /// Computes the restriction of fine values in a coarse half row. `fine(half, j, k)` returns a half row that begins
    /// one value before its first point, or `None` if its values are zero.
    ///
    /// # Safety
    /// No thread may write weights during this call.
    pub unsafe fn restrict<'f>(
        &self,
        out: &mut [T],
        [half, j, k]: [usize; 3],
        fine: impl Fn(usize, isize, isize) -> Option<&'f [T]>,
    ) where
        T: 'f,
    {
        out.fill(T::default());
        let [_, ry, rz] = self.ratio.map(|ratio| ratio as isize);
        for z in 1 - rz..rz {
            for y in 1 - ry..ry {
                let (fine_j, fine_k) = (ry * j as isize + y, rz * k as isize + z);
                // SAFETY: guaranteed by the caller.
                let row = |x| unsafe { self.row([x, y, z], half, j, k) };
                if let Some(alike) = fine(half, fine_j, fine_k) {
                    if y == 0 && z == 0 { add(out, &alike[1..]) } else { add_products(out, row(0), &alike[1..]) }
                }
                if !self.coarse.is_split()
                    && let Some(odd) = fine(1, fine_j, fine_k)
                {
                    add_two_products(out, &[row(1), row(-1)], &[&odd[1..], odd]);
                }
            }
        }
    }
}

/// Returns a half row of an array as `restrict` reads it: it begins one value before its first point.
///
/// # Safety
/// No thread may write the half row while the slice is in use.
pub unsafe fn half_row<'a, T: Number>(array: &'a Shared<T>, split: &Split, half: usize, j: isize, k: isize) -> &'a [T] {
    // SAFETY: guaranteed by the caller.
    unsafe { array.slice(split.at(half, j, k) - 1, split.row + 1) }
}
