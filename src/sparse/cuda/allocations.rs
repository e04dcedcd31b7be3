//! Allocation of arrays in device memory.

use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::Address;
use crate::error::{Result, push};
use crate::sparse::convert_values;
use bytemuck::NoUninit;

/// Allocations that are freed together.
#[derive(Default)]
pub struct Allocations {
    memory: Vec<Memory>,
    allocation_name: &'static str,
}

impl Allocations {
    /// Creates an object without allocations. Error messages contain `allocation_name`.
    pub fn new(allocation_name: &'static str) -> Self {
        Self { memory: Vec::new(), allocation_name }
    }

    /// Allocates memory, sets it to zero, and returns its address.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize) -> Result<Address> {
        let memory = Memory::zeroed(stream.device(), stream, bytes, self.allocation_name)?;
        let address = memory.address;
        push(&mut self.memory, memory, self.allocation_name)?;
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
        let f32_values: Vec<f32> = convert_values(values.iter().copied(), values.len())?;
        self.copy_of(stream, &f32_values)
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.iter().map(|memory| memory.bytes).sum()
    }
}
