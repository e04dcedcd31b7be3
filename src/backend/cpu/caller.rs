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
}

impl<'a> Caller<'a> {
    pub fn new(arrays: Arrays<'a>) -> Self {
        let Arrays { input_name, input, ld, plane, output, .. } = arrays;
        Self { input_name, input, output: Output::new(output), ld, plane }
    }

    /// Where a row of a box begins whose planes have `ny` rows.
    pub fn start(&self, row: usize, ny: usize) -> usize {
        row / ny * self.plane + row % ny * self.ld
    }

    /// Values of the input.
    pub fn input(&self, start: usize, len: usize) -> &'a [f64] {
        &self.input[start..][..len]
    }

    /// Values of the output.
    ///
    /// # Safety
    /// Nobody else may use them while the slice is used.
    pub unsafe fn output(&self, start: usize, len: usize) -> &'a mut [f64] {
        // SAFETY: as the caller promised.
        unsafe { self.output.slice(start, len) }
    }
}
