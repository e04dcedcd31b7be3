//! Zero-padded arrays on the device, lists in one allocation, and the pool that reuses memory between factorizations.

use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, CellBox};
use crate::error::{Error, Result, push};
use crate::stencil::cells::Cells;

/// Purpose of the allocations, for error messages.
const LIST: &str = "a list of memory";

/// Arrays of equal length with zeros before and after each (kernels/dpcg/box.cuh).
pub struct Padded {
    memory: Memory,
    value: usize,
    count: usize,
    guard: usize,
}

impl Padded {
    /// Allocates `arrays` arrays of `count` values of `value` bytes, all zero. `guard` zeros precede and follow each
    /// array.
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

    /// As `zeroed`, in memory of a pool.
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

    /// Returns the memory.
    pub fn into_memory(self) -> Memory {
        self.memory
    }

    /// Returns the address of an array's first value.
    pub fn at(&self, array: usize) -> Address {
        self.memory.address + (self.value * (self.guard + array * self.stride())) as u64
    }

    /// Returns the number of values from one array to the next.
    pub fn stride(&self) -> usize {
        self.count + self.guard
    }

    /// Zeros the arrays and their padding.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        stream.fill(self.memory.address, 0, self.memory.bytes)
    }

    /// Returns the address and bytes of all arrays.
    pub fn room(&self) -> Room {
        Room { at: self.memory.address, bytes: self.memory.bytes }
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// A memory range that another object owns.
#[derive(Clone, Copy, Default)]
pub struct Room {
    pub at: Address,
    pub bytes: usize,
}

/// Memory of the previous factorization, for the next one. An allocation of equal size reuses it, in the order in which
/// it was returned.
#[derive(Default)]
pub struct Pool {
    free: Vec<Memory>,
    /// Memory that is reused only by the factorization after this one.
    kept: Vec<Memory>,
    /// Zeroed memory of the solver's vectors, usable as workspace during a factorization.
    lent: Room,
    /// Number of bytes of `lent`, from the first one, that were overwritten.
    written: usize,
}

impl Pool {
    /// Adds memory to the pool.
    pub fn give(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.free, memory, LIST)
    }

    /// Keeps memory that this factorization no longer needs for the next factorization.
    pub fn keep(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.kept, memory, LIST)
    }

    /// Sets the zeroed workspace.
    pub fn lend(&mut self, room: Room) {
        self.lent = room;
    }

    /// Returns the workspace.
    pub fn lent(&self) -> Room {
        self.lent
    }

    /// Returns the address of the workspace if it has `bytes` bytes. The next step of the factorization uses the same
    /// bytes, whatever they contain.
    pub fn borrow(&mut self, bytes: usize) -> Option<Address> {
        let fits = bytes <= self.lent.bytes;
        fits.then(|| {
            self.written = self.written.max(bytes);
            self.lent.at
        })
    }

    /// Returns the addresses of two arrays in the workspace, with one f64 per cell each.
    pub fn borrow_pair(&mut self, cells: usize) -> Result<[Address; 2]> {
        let no_room = || Error::Internal("the vectors of the solver are in use".to_owned());
        let at = self.borrow(2 * 8 * cells).ok_or_else(no_room)?;
        Ok([at, at + 8 * cells as u64])
    }

    /// Returns the pool of the next factorization and frees unused memory. The workspace becomes zero again.
    pub fn next(self, stream: &Stream) -> Result<Self> {
        if self.written > 0 {
            stream.fill(self.lent.at, 0, self.written)?;
        }
        Ok(Self { free: self.kept, ..Self::default() })
    }

    /// Returns the bytes of device memory that are not in use.
    pub fn bytes(&self) -> usize {
        self.free.iter().map(|memory| memory.bytes).sum()
    }

    /// Returns `bytes` of zeroed memory. `what` is part of the error message.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.found(bytes) {
            Some(memory) => stream.fill(memory.address, 0, bytes).map(|()| memory),
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }

    /// Returns `bytes` of memory with any contents.
    fn any(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.found(bytes) {
            Some(memory) => Ok(memory),
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }

    /// Removes and returns the first free memory of exactly `bytes` bytes.
    fn found(&mut self, bytes: usize) -> Option<Memory> {
        self.free.iter().position(|memory| memory.bytes == bytes).map(|k| self.free.remove(k))
    }

    /// Returns memory for lists of these sizes in bytes, with any contents, and the address of each list.
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
        let memory = self.any(stream, bytes, what)?;
        let places = offsets.map(|offset| memory.address + offset);
        Ok((memory, places))
    }
}

/// Allocates zeroed memory for lists of these sizes in bytes. Returns the address of each list too.
pub fn lists<const N: usize>(stream: &Stream, sizes: [usize; N], what: &str) -> Result<(Memory, [Address; N])> {
    Pool::default().lists(stream, sizes, what)
}

/// Returns the extents as kernels receive them.
pub fn box_of(cells: Cells) -> CellBox {
    CellBox { nx: cells.nx as i32, ny: cells.ny as i32, nz: cells.nz as i32, unused: 0 }
}
