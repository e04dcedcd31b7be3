//! The user's arrays during a run.

use crate::krylov::solve_steps::Arrays;
use std::marker::PhantomData;

/// An array of the user that the threads of a run write. No two threads use the same entry at the same time.
pub struct SharedOutput<'a> {
    start: *mut f64,
    len: usize,
    borrow: PhantomData<&'a mut [f64]>,
}

// SAFETY: `slice` requires that no two threads use an entry at the same time.
unsafe impl Sync for SharedOutput<'_> {}

impl<'a> SharedOutput<'a> {
    pub fn new(array: &'a mut [f64]) -> Self {
        Self { start: array.as_mut_ptr(), len: array.len(), borrow: PhantomData }
    }

    /// Returns the `len` entries from `start` on.
    ///
    /// # Safety
    /// No other slice of these entries may be in use, on any thread, while the slice is in use.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &'a mut [f64] {
        assert!(start + len <= self.len);
        // SAFETY: the entries are inside the array by the assertion above. The caller guarantees that no other slice of
        // them is in use.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// The user's arrays, shared by the threads of a run.
pub struct CallerArrays<'a> {
    pub input_name: &'static str,
    input: &'a [f64],
    output: SharedOutput<'a>,
    ld: usize,
    plane: usize,
    /// Number of rows of a plane.
    ny: usize,
    /// Global number of the first row of both arrays.
    first_row: usize,
}

impl<'a> CallerArrays<'a> {
    /// Wraps the arrays. `ny`: number of rows of a plane, or `usize::MAX` if there is only one plane.
    pub fn new(arrays: Arrays<'a>, ny: usize) -> Self {
        let Arrays { input_name, input, ld, plane, output, first_row, .. } = arrays;
        Self { input_name, input, output: SharedOutput::new(output), ld, plane, ny, first_row }
    }

    /// Returns the array index of the first entry of the row whose global number is `row`.
    fn row_start(&self, row: usize) -> usize {
        let row = row - self.first_row;
        row / self.ny * self.plane + row % self.ny * self.ld
    }

    /// Returns the first `len` entries of a row of the input.
    pub fn input_row(&self, row: usize, len: usize) -> &'a [f64] {
        self.input_at(self.row_start(row), len)
    }

    /// Returns the first `len` entries of a row of the output.
    ///
    /// # Safety
    /// No other slice of these entries may be in use, on any thread, while the slice is in use.
    pub unsafe fn output_row(&self, row: usize, len: usize) -> &'a mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.output_at(self.row_start(row), len) }
    }

    /// Returns the `len` entries of the input from `start` on.
    pub fn input_at(&self, start: usize, len: usize) -> &'a [f64] {
        &self.input[start..][..len]
    }

    /// Returns the `len` entries of the output from `start` on.
    ///
    /// # Safety
    /// No other slice of these entries may be in use, on any thread, while the slice is in use.
    pub unsafe fn output_at(&self, start: usize, len: usize) -> &'a mut [f64] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.output.slice(start, len) }
    }
}
