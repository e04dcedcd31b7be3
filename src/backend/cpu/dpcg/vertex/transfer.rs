//! Interpolation and restriction, row by row. Weights are stored at the coarse points. The weight of offset o at coarse
//! point I is the weight of I in the interpolation to fine point 2 I + o.

use super::layout::{Natural, Offset, Split};
use super::loops::{add, add_products, add_two_products};
use crate::error::{Result, collected};
use crate::runtime::number::Real;
use crate::runtime::shared::{Number, Shared};

/// Name of the allocation in error messages.
const WEIGHTS: &str = "weights of interpolation";

/// Number of offsets in a cube, including zero.
const CUBE: usize = 27;

/// Returns the number of an offset.
pub fn number(offset: Offset) -> usize {
    (9 * (offset[2] + 1) + 3 * (offset[1] + 1) + offset[0] + 1) as usize
}

/// Weights of all offsets except zero, whose weight is one.
pub struct Weights<T> {
    pub coarse: Natural,
    of: Vec<Shared<T>>,
}

impl<T: Real + Number> Weights<T> {
    pub fn new(coarse: Natural) -> Result<Self> {
        let of: Vec<Result<Shared<T>>> =
            collected((0..CUBE).map(|o| Shared::zeroed(if o == CUBE / 2 { 0 } else { coarse.len() })), WEIGHTS)?;
        let mut weights = Self { coarse, of: Vec::new() };
        for of in of {
            crate::error::push(&mut weights.of, of?, WEIGHTS)?;
        }
        Ok(weights)
    }

    /// Returns the weights of an offset.
    pub fn of(&self, offset: Offset) -> &Shared<T> {
        &self.of[number(offset)]
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.of.iter().map(Shared::bytes).sum()
    }

    /// # Safety
    /// No thread may write weights while the slice is in use.
    unsafe fn row(&self, offset: Offset, j: usize, k: usize) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.of(offset).slice(self.coarse.at(j, k), self.coarse.row) }
    }

    /// Adds the interpolation of `correction` to the half rows `[even, odd]` of fine row (j, k). `None`: the half row
    /// is not needed.
    ///
    /// # Safety
    /// No thread may write weights or `correction` during this call.
    pub unsafe fn prolong(&self, rows: [Option<&mut [T]>; 2], j: usize, k: usize, correction: &Shared<T>) {
        let [even, odd] = rows;
        let (mut even, mut odd) = (even, odd);
        for coarse_k in k / 2..k.div_ceil(2) + 1 {
            for coarse_j in j / 2..j.div_ceil(2) + 1 {
                let (y, z) = (j as isize - 2 * coarse_j as isize, k as isize - 2 * coarse_k as isize);
                // SAFETY: guaranteed by the caller.
                let (from, row) = unsafe {
                    let row = |x| self.row([x, y, z], coarse_j, coarse_k);
                    (correction.slice(self.coarse.at(coarse_j, coarse_k), self.coarse.row), row)
                };
                if let Some(even) = &mut even {
                    if y == 0 && z == 0 { add(even, from) } else { add_products(even, row(0), from) }
                }
                if let Some(odd) = &mut odd {
                    add_two_products(odd, &[row(1), &row(-1)[1..]], &[from, &from[1..]]);
                }
            }
        }
    }

    /// Sets a coarse row to the restriction of fine values. `fine(half, j, k)` returns a half row, starting one value
    /// before its first point, or `None` if its values are zero.
    ///
    /// # Safety
    /// No thread may write weights during this call.
    pub unsafe fn restrict<'f>(
        &self,
        out: &mut [T],
        j: usize,
        k: usize,
        fine: impl Fn(usize, isize, isize) -> Option<&'f [T]>,
    ) where
        T: 'f,
    {
        out.fill(T::default());
        for z in -1..=1 {
            for y in -1..=1 {
                let (fine_j, fine_k) = (2 * j as isize + y, 2 * k as isize + z);
                // SAFETY: guaranteed by the caller.
                let row = |x| unsafe { self.row([x, y, z], j, k) };
                if let Some(even) = fine(0, fine_j, fine_k) {
                    if y == 0 && z == 0 { add(out, &even[1..]) } else { add_products(out, row(0), &even[1..]) }
                }
                if let Some(odd) = fine(1, fine_j, fine_k) {
                    add_two_products(out, &[row(1), row(-1)], &[&odd[1..], odd]);
                }
            }
        }
    }
}

/// Returns a half row of an array, starting one value before its first point, in the length that `restrict` reads.
///
/// # Safety
/// No thread may write the half row while the slice is in use.
pub unsafe fn half_row<'a, T: Number>(array: &'a Shared<T>, split: &Split, half: usize, j: isize, k: isize) -> &'a [T] {
    // SAFETY: guaranteed by the caller.
    unsafe { array.slice(split.at(half, j, k) - 1, split.row + 1) }
}
