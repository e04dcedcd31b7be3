//! The caller's arrays in a run by a team.

use crate::backend::steps::solve::Arrays;
use std::marker::PhantomData;

/// The caller's arrays, shared by the members of a run: each writes values of its own.
pub struct Caller<'a> {
    pub input_name: &'static str,
    input: &'a [f64],
    output: *mut f64,
    len: usize,
    ld: usize,
    plane: usize,
    borrow: PhantomData<&'a mut [f64]>,
}

// SAFETY: values of `output` are used by their owner alone, as `output` asks.
unsafe impl Sync for Caller<'_> {}

impl<'a> Caller<'a> {
    pub fn new(arrays: Arrays<'a>) -> Self {
        let Arrays { input_name, input, ld, plane, output, .. } = arrays;
        Self { input_name, input, len: output.len(), output: output.as_mut_ptr(), ld, plane, borrow: PhantomData }
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
        assert!(start + len <= self.len);
        // SAFETY: inside the array, as just checked; not used by others, as the caller promised.
        unsafe { std::slice::from_raw_parts_mut(self.output.add(start), len) }
    }
}
