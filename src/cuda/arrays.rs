//! Device memory: arrays with zeros before and after them, several lists in one allocation, and a pool that reuses
//! memory from one factorization to the next.

use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, CellBox};
use crate::error::{Error, Result, push};
use crate::stencil::cells::Cells;

/// Name of the memory in error messages about failed allocations.
const LIST: &str = "a list of memory";

/// Arrays of equal length, with zeros before and after each array (kernels/dpcg/box.cuh).
pub struct Padded {
    memory: Memory,
    value_bytes: usize,
    count: usize,
    guard: usize,
}

impl Padded {
    /// Allocates `arrays` arrays of `count` values of `value_bytes` bytes, all zero. `guard` zeros precede and follow
    /// each array.
    pub fn zeroed(
        stream: &Stream,
        arrays: usize,
        count: usize,
        guard: usize,
        value_bytes: usize,
        what: &str,
    ) -> Result<Self> {
        Self::zeroed_in(&mut Pool::default(), stream, arrays, count, guard, value_bytes, what)
    }

    /// Like `zeroed`, but uses memory of a pool if it has a block of the required size.
    pub fn zeroed_in(
        pool: &mut Pool,
        stream: &Stream,
        arrays: usize,
        count: usize,
        guard: usize,
        value_bytes: usize,
        what: &str,
    ) -> Result<Self> {
        let bytes = value_bytes * (guard + arrays * (count + guard));
        Ok(Self { memory: pool.zeroed(stream, bytes, what)?, value_bytes, count, guard })
    }

    /// Returns the memory.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Returns the address of an array's first value.
    pub fn at(&self, array: usize) -> Address {
        self.memory.address + (self.value_bytes * (self.guard + array * self.stride())) as u64
    }

    /// Returns the number of values from one array to the next.
    pub fn stride(&self) -> usize {
        self.count + self.guard
    }

    /// Sets the arrays and the zeros around them to zero.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.memory.address, 0, self.memory.bytes)
    }

    /// Returns the memory range of all arrays.
    pub fn range(&self) -> MemoryRange {
        MemoryRange { at: self.memory.address, bytes: self.memory.bytes }
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// A memory range that another object owns.
#[derive(Clone, Copy, Default)]
pub struct MemoryRange {
    pub at: Address,
    pub bytes: usize,
}

/// Memory for reuse: blocks of the previous factorization, and blocks that the current factorization has returned by
/// `release`. An allocation gets the first free block of exactly the requested size, or new memory.
#[derive(Default)]
pub struct Pool {
    free: Vec<Memory>,
    /// Memory that the current factorization must not reuse, but the next one may.
    for_next: Vec<Memory>,
    /// Memory of the vectors of the solver, which a factorization uses as workspace. It contains zeros before the
    /// factorization, and again after `next`.
    workspace: MemoryRange,
    /// Number of bytes at the beginning of `workspace` that were overwritten.
    written: usize,
}

impl Pool {
    /// Adds memory to the pool, for this factorization.
    pub fn release(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.free, memory, LIST)
    }

    /// Adds memory that this factorization no longer needs, for the next factorization.
    pub fn save_for_next(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.for_next, memory, LIST)
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
    pub fn borrow(&mut self, bytes: usize) -> Option<Address> {
        let fits = bytes <= self.workspace.bytes;
        fits.then(|| {
            self.written = self.written.max(bytes);
            self.workspace.at
        })
    }

    /// Returns the addresses of two arrays in the workspace, with one f64 per cell each. Returns an error if the
    /// workspace is too small.
    pub fn borrow_pair(&mut self, cells: usize) -> Result<[Address; 2]> {
        let no_room = || Error::Internal("the vectors of the solver are in use".to_owned());
        let at = self.borrow(2 * 8 * cells).ok_or_else(no_room)?;
        Ok([at, at + 8 * cells as u64])
    }

    /// Returns the pool for the next factorization, which contains the memory from `save_for_next`. Frees the other
    /// unused memory, and sets the workspace to zero.
    pub fn next(self, stream: &Stream) -> Result<Self> {
        if self.written > 0 {
            stream.fill(self.workspace.at, 0, self.written)?;
        }
        Ok(Self { free: self.for_next, ..Self::default() })
    }

    /// Returns the size in bytes of the free memory, without the memory from `save_for_next`.
    pub fn free_bytes(&self) -> usize {
        self.free.iter().map(|memory| memory.bytes).sum()
    }

    /// Returns `bytes` of zeroed memory. `what` is the name of the memory in the error message.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.take_free(bytes) {
            Some(memory) => stream.fill(memory.address, 0, bytes).map(|()| memory),
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }

    /// Returns `bytes` of memory, whose content is arbitrary.
    fn uninitialized(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.take_free(bytes) {
            Some(memory) => Ok(memory),
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }

    /// Removes and returns the first free memory of exactly `bytes` bytes.
    fn take_free(&mut self, bytes: usize) -> Option<Memory> {
        self.free.iter().position(|memory| memory.bytes == bytes).map(|k| self.free.remove(k))
    }

    /// Returns memory for lists of the given sizes in bytes, and the address of each list. The content is arbitrary.
    pub fn lists<const N: usize>(
        &mut self,
        stream: &Stream,
        sizes: [usize; N],
        what: &str,
    ) -> Result<(Memory, [Address; N])> {
        let mut bytes = 0;
        let offsets = sizes.map(|size| {
            let offset = bytes;
            bytes += size.next_multiple_of(256);
            offset as u64
        });
        let memory = self.uninitialized(stream, bytes, what)?;
        let addresses = offsets.map(|offset| memory.address + offset);
        Ok((memory, addresses))
    }
}

/// Allocates zeroed memory for lists of the given sizes in bytes. Also returns the address of each list.
pub fn lists<const N: usize>(stream: &Stream, sizes: [usize; N], what: &str) -> Result<(Memory, [Address; N])> {
    Pool::default().lists(stream, sizes, what)
}

/// Converts the extents to the type of kernel arguments.
pub fn box_of(cells: Cells) -> CellBox {
    CellBox { nx: cells.nx as i32, ny: cells.ny as i32, nz: cells.nz as i32, unused: 0 }
}
