//! The caller's arrays in a run by a team.

use crate::backend::steps::solve::Arrays;
use std::marker::PhantomData;

/// An array of the caller that members of a run write: each values of its own.
pub struct Output<'a> {
    start: *mut f64,
    len: usize,
    borrow: PhantomData<&'a mut [f64]>,
}

// SAFETY: values are used by their owner alone, as `slice` asks.
unsafe impl Sync for Output<'_> {}

impl<'a> Output<'a> {
    pub fn new(array: &'a mut [f64]) -> Self {
        Self { start: array.as_mut_ptr(), len: array.len(), borrow: PhantomData }
    }

    /// Some of its values.
    ///
    /// # Safety
    /// Nobody else may use them while the slice is used.
    pub unsafe fn slice(&self, start: usize, len: usize) -> &'a mut [f64] {
        assert!(start + len <= self.len);
        // SAFETY: inside the array, as just checked; not used by others, as the caller promised.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

/// The caller's arrays, shared by the members of a run.
pub struct Caller<'a> {
    pub input_name: &'static str,
    input: &'a [f64],
    output: Output<'a>,
    ld: usize,
    plane: usize,
    /// Rows of a plane.
    ny: usize,
    /// The row that both begin with.
    first: usize,
}

impl<'a> Caller<'a> {
    /// `ny`: rows of a plane, where there is more than one.
    pub fn new(arrays: Arrays<'a>, ny: usize) -> Self {
        let Arrays { input_name, input, ld, plane, output, first_row: first, .. } = arrays;
        Self { input_name, input, output: Output::new(output), ld, plane, ny, first }
    }

    /// Where a row begins.
    fn start(&self, row: usize) -> usize {
        let row = row - self.first;
        row / self.ny * self.plane + row % self.ny * self.ld
    }

    /// The first `len` values of a row of the input.
    pub fn input(&self, row: usize, len: usize) -> &'a [f64] {
        self.input_at(self.start(row), len)
    }

    /// The same of the output.
    ///
    /// # Safety
    /// Nobody else may use them while the slice is used.
    pub unsafe fn output(&self, row: usize, len: usize) -> &'a mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.output_at(self.start(row), len) }
    }

    /// Values of the input.
    pub fn input_at(&self, start: usize, len: usize) -> &'a [f64] {
        &self.input[start..][..len]
    }

    /// Values of the output.
    ///
    /// # Safety
    /// Nobody else may use them while the slice is used.
    pub unsafe fn output_at(&self, start: usize, len: usize) -> &'a mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.output.slice(start, len) }
    }
}
