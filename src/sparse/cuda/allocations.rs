//! Allocation of arrays in device memory.

use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::Address;
use crate::error::{Result, push};
use crate::sparse::converted;
use bytemuck::NoUninit;

/// Allocations that are freed together.
#[derive(Default)]
pub struct Allocations {
    memory: Vec<Memory>,
    what: &'static str,
}

impl Allocations {
    /// Creates an empty list. `what` is the name of the allocations in error messages.
    pub fn new(what: &'static str) -> Self {
        Self { memory: Vec::new(), what }
    }

    /// Allocates memory and sets it to zero.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize) -> Result<Address> {
        let memory = Memory::zeroed(stream.device(), stream, bytes, self.what)?;
        let address = memory.address;
        push(&mut self.memory, memory, self.what)?;
        Ok(address)
    }

    /// Allocates an array and copies these values to it.
    pub fn copy_of<T: NoUninit>(&mut self, stream: &Stream, values: &[T]) -> Result<Address> {
        let address = self.zeroed(stream, size_of_val(values))?;
        if !values.is_empty() {
            stream.send(address, values)?;
            stream.wait()?;
        }
        Ok(address)
    }

    /// Allocates an array and copies these values to it, in f32 if `in_f32` is set.
    pub fn copy_of_reals(&mut self, stream: &Stream, values: &[f64], in_f32: bool) -> Result<Address> {
        if !in_f32 {
            return self.copy_of(stream, values);
        }
        let narrow: Vec<f32> = converted(values.iter().copied(), values.len())?;
        self.copy_of(stream, &narrow)
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.iter().map(|memory| memory.bytes).sum()
    }
}
