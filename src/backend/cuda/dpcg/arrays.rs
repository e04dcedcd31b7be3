//! Arrays on the device with zeros around them, and lists one after the other in one piece of memory.

use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch::{Address, CellBox};
use crate::error::{Result, push};
use crate::grid::cells::Cells;

/// Arrays of as many values, with zeros before and after each (kernels/dpcg/box.cuh).
pub struct Padded {
    memory: Memory,
    value: usize,
    count: usize,
    guard: usize,
}

impl Padded {
    /// So many arrays of `count` values of `value` bytes, all zero, `guard` zeros around each.
    pub fn zeroed(
        stream: &Stream,
        arrays: usize,
        count: usize,
        guard: usize,
        value: usize,
        what: &str,
    ) -> Result<Self> {
        Self::zeroed_in(&mut Pool::default(), stream, arrays, count, guard, value, what)
    }

    /// The same in memory of a pool.
    pub fn zeroed_in(
        pool: &mut Pool,
        stream: &Stream,
        arrays: usize,
        count: usize,
        guard: usize,
        value: usize,
        what: &str,
    ) -> Result<Self> {
        let bytes = value * (guard + arrays * (count + guard));
        Ok(Self { memory: pool.zeroed(stream, bytes, what)?, value, count, guard })
    }

    /// Its memory.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// The first value of an array.
    pub fn at(&self, array: usize) -> Address {
        self.memory.address + (self.value * (self.guard + array * self.stride())) as u64
    }

    /// Values from one array to the next.
    pub fn stride(&self) -> usize {
        self.count + self.guard
    }

    /// Zeros everywhere.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.memory.address, 0, self.memory.bytes)
    }

    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// Memory of a factorization that goes, for the next one: it is taken again where it is as large as what is asked for.
#[derive(Default)]
pub struct Pool(Vec<Memory>);

impl Pool {
    /// Adds to it.
    pub fn give(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.0, memory, "a list of memory")
    }

    /// `bytes` of zeros, for `what`.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.0.iter().position(|memory| memory.bytes == bytes) {
            Some(k) => {
                let memory = self.0.swap_remove(k);
                stream.fill(memory.address, 0, bytes)?;
                Ok(memory)
            }
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }
}

/// Memory for lists of these sizes in bytes, and where each begins.
pub fn lists<const N: usize>(stream: &Stream, sizes: [usize; N], what: &str) -> Result<(Memory, [Address; N])> {
    let mut bytes = 0;
    let offsets = sizes.map(|size| {
        let offset = bytes;
        bytes += size.next_multiple_of(256);
        offset as u64
    });
    let memory = Memory::zeroed(stream.device(), stream, bytes, what)?;
    let places = offsets.map(|offset| memory.address + offset);
    Ok((memory, places))
}

/// Extents as kernels take them.
pub fn box_of(cells: Cells) -> CellBox {
    CellBox { nx: cells.nx as i32, ny: cells.ny as i32, nz: cells.nz as i32, unused: 0 }
}
