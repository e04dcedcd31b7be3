//! Device memory: arrays with zeros before and after them, several lists in one allocation, and a pool that reuses
//! memory from one factorization to the next.

use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, CellBox};
use crate::error::{Error, Result, push};
use crate::stencil::cells::Cells;

/// Name of the memory in error messages about failed allocations.
const MEMORY_LIST: &str = "a list of memory";

/// Arrays of equal length, with zeros before and after each array (kernels/dpcg/box.cuh).
pub struct PaddedArrays {
    memory: Memory,
    value_bytes: usize,
    count: usize,
    guard_values: usize,
}

impl PaddedArrays {
    /// Allocates `arrays` arrays of `count` values of `value_bytes` bytes, all zero. `guard_values` zeros precede and
    /// follow each array.
    pub fn zeroed(
        stream: &Stream,
        arrays: usize,
        count: usize,
        guard_values: usize,
        value_bytes: usize,
        name: &str,
    ) -> Result<Self> {
        Self::zeroed_in(&mut Pool::default(), stream, arrays, count, guard_values, value_bytes, name)
    }

    /// Like `zeroed`, but uses a block of `pool` if the pool has one of the required size.
    pub fn zeroed_in(
        pool: &mut Pool,
        stream: &Stream,
        arrays: usize,
        count: usize,
        guard_values: usize,
        value_bytes: usize,
        name: &str,
    ) -> Result<Self> {
        let bytes = value_bytes * (guard_values + arrays * (count + guard_values));
        Ok(Self { memory: pool.zeroed(stream, bytes, name)?, value_bytes, count, guard_values })
    }

    /// Returns the memory.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Returns the address of an array's first value.
    pub fn at(&self, array: usize) -> Address {
        self.memory.address + (self.value_bytes * (self.guard_values + array * self.stride())) as u64
    }

    /// Returns the number of values from one array to the next.
    pub fn stride(&self) -> usize {
        self.count + self.guard_values
    }

    /// Sets the arrays and the zeros around them to zero.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.memory.address, 0, self.memory.bytes)
    }

    /// Returns the memory range of all arrays.
    pub fn memory_range(&self) -> MemoryRange {
        MemoryRange { address: self.memory.address, bytes: self.memory.bytes }
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// A memory range that another object owns.
#[derive(Clone, Copy, Default)]
pub struct MemoryRange {
    pub address: Address,
    pub bytes: usize,
}

/// Memory for reuse: blocks of the previous factorization, and blocks that the current factorization has returned by
/// `release`. An allocation gets the first free block of exactly the requested size, or new memory.
#[derive(Default)]
pub struct Pool {
    free_memory: Vec<Memory>,
    /// Memory that the current factorization must not reuse, but the next one may.
    next_memory: Vec<Memory>,
    /// Memory of the vectors of the solver, which a factorization uses as workspace. It contains zeros before the
    /// factorization, and again after `into_next_pool`.
    workspace: MemoryRange,
    /// Number of bytes at the beginning of `workspace` that were overwritten.
    written_bytes: usize,
}

impl Pool {
    /// Adds memory to the pool, for this factorization.
    pub fn release(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.free_memory, memory, MEMORY_LIST)
    }

    /// Adds memory that this factorization no longer needs, for the next factorization.
    pub fn save_for_next(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.next_memory, memory, MEMORY_LIST)
    }

    /// Sets the workspace, which must contain zeros.
    pub fn set_workspace(&mut self, range: MemoryRange) {
        self.workspace = range;
    }

    /// Returns the workspace.
    pub fn workspace(&self) -> MemoryRange {
        self.workspace
    }

    /// Returns the address of the workspace if it has at least `bytes` bytes. Each call returns the same memory, which
    /// then contains the data of the previous user.
    pub fn borrow_workspace(&mut self, bytes: usize) -> Option<Address> {
        let is_large_enough = bytes <= self.workspace.bytes;
        is_large_enough.then(|| {
            self.written_bytes = self.written_bytes.max(bytes);
            self.workspace.address
        })
    }

    /// Returns the addresses of two arrays in the workspace, with one f64 per cell each. Returns an error if the
    /// workspace is too small.
    pub fn borrow_two_arrays(&mut self, cells: usize) -> Result<[Address; 2]> {
        let too_small = || Error::Internal("the vectors of the solver are in use".to_owned());
        let address = self.borrow_workspace(2 * 8 * cells).ok_or_else(too_small)?;
        Ok([address, address + 8 * cells as u64])
    }

    /// Returns the pool for the next factorization, which contains the memory from `save_for_next`. Frees the other
    /// unused memory, and sets the workspace to zero.
    pub fn into_next_pool(self, stream: &Stream) -> Result<Self> {
        if self.written_bytes > 0 {
            stream.fill(self.workspace.address, 0, self.written_bytes)?;
        }
        Ok(Self { free_memory: self.next_memory, ..Self::default() })
    }

    /// Returns the size in bytes of the free memory, without the memory from `save_for_next`.
    pub fn free_bytes(&self) -> usize {
        self.free_memory.iter().map(|memory| memory.bytes).sum()
    }

    /// Returns `bytes` of zeroed memory. `name` is the name of the memory in the error message.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize, name: &str) -> Result<Memory> {
        match self.take_free_memory(bytes) {
            Some(memory) => stream.fill(memory.address, 0, bytes).map(|()| memory),
            None => Memory::zeroed(stream.device(), stream, bytes, name),
        }
    }

    /// Returns `bytes` of memory, whose content is arbitrary.
    fn uninitialized(&mut self, stream: &Stream, bytes: usize, name: &str) -> Result<Memory> {
        match self.take_free_memory(bytes) {
            Some(memory) => Ok(memory),
            None => Memory::zeroed(stream.device(), stream, bytes, name),
        }
    }

    /// Removes and returns the first free memory of exactly `bytes` bytes.
    fn take_free_memory(&mut self, bytes: usize) -> Option<Memory> {
        self.free_memory.iter().position(|memory| memory.bytes == bytes).map(|k| self.free_memory.remove(k))
    }

    /// Returns memory for lists of the given sizes in bytes, and the address of each list. The content is arbitrary.
    pub fn allocate_lists<const N: usize>(
        &mut self,
        stream: &Stream,
        sizes: [usize; N],
        name: &str,
    ) -> Result<(Memory, [Address; N])> {
        let mut bytes = 0;
        let offsets = sizes.map(|size| {
            let offset = bytes;
            bytes += size.next_multiple_of(256);
            offset as u64
        });
        let memory = self.uninitialized(stream, bytes, name)?;
        let addresses = offsets.map(|offset| memory.address + offset);
        Ok((memory, addresses))
    }
}

/// Allocates zeroed memory for lists of the given sizes in bytes. Also returns the address of each list.
pub fn allocate_lists<const N: usize>(
    stream: &Stream,
    sizes: [usize; N],
    name: &str,
) -> Result<(Memory, [Address; N])> {
    Pool::default().allocate_lists(stream, sizes, name)
}

/// Converts the extents to the type of kernel arguments.
pub fn box_of(cells: Cells) -> CellBox {
    CellBox { nx: cells.nx as i32, ny: cells.ny as i32, nz: cells.nz as i32, unused: 0 }
}
