//! Arrays on the device with zeros around them, and lists one after the other in one piece of memory.

use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch::{Address, CellBox};
use crate::error::{Error, Result, push};
use crate::grid::cells::Cells;

/// For errors.
const LIST: &str = "a list of memory";

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

    /// All of it.
    pub fn room(&self) -> Room {
        Room { at: self.memory.address, bytes: self.memory.bytes }
    }

    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// Memory of somebody else.
#[derive(Clone, Copy, Default)]
pub struct Room {
    pub at: Address,
    pub bytes: usize,
}

/// Memory of a factorization that goes, for the next one: it is taken again, in the same order, where it is as large as
/// what is asked for.
#[derive(Default)]
pub struct Pool {
    free: Vec<Memory>,
    /// For the one after that.
    kept: Vec<Memory>,
    /// Of zeros, lent for the time of a factorization, and so many bytes of it that others were written to.
    lent: Room,
    written: usize,
}

impl Pool {
    /// Adds to it.
    pub fn give(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.free, memory, LIST)
    }

    /// Keeps what this factorization needs no more for the next one.
    pub fn keep(&mut self, memory: Memory) -> Result<()> {
        push(&mut self.kept, memory, LIST)
    }

    /// Lends it room of zeros.
    pub fn lend(&mut self, room: Room) {
        self.lent = room;
    }

    /// What is lent.
    pub fn lent(&self) -> Room {
        self.lent
    }

    /// The first bytes of what is lent, where there are so many, for a step of the factorization: the next step gets
    /// the same ones, whatever is in them.
    pub fn borrow(&mut self, bytes: usize) -> Option<Address> {
        let fits = bytes <= self.lent.bytes;
        fits.then(|| {
            self.written = self.written.max(bytes);
            self.lent.at
        })
    }

    /// Of the same, two arrays with a double for each of so many cells.
    pub fn borrow_pair(&mut self, cells: usize) -> Result<[Address; 2]> {
        let no_room = || Error::Internal("the vectors of the solver are in use".to_owned());
        let at = self.borrow(2 * 8 * cells).ok_or_else(no_room)?;
        Ok([at, at + 8 * cells as u64])
    }

    /// Of the next factorization: what nobody has taken goes. What was lent is zero again.
    pub fn next(self, stream: &Stream) -> Result<Self> {
        if self.written > 0 {
            stream.fill(self.lent.at, 0, self.written)?;
        }
        Ok(Self { free: self.kept, ..Self::default() })
    }

    pub fn bytes(&self) -> usize {
        self.free.iter().map(|memory| memory.bytes).sum()
    }

    /// `bytes` of zeros, for `what`.
    pub fn zeroed(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.found(bytes) {
            Some(memory) => stream.fill(memory.address, 0, bytes).map(|()| memory),
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }

    /// `bytes` of whatever is there.
    fn any(&mut self, stream: &Stream, bytes: usize, what: &str) -> Result<Memory> {
        match self.found(bytes) {
            Some(memory) => Ok(memory),
            None => Memory::zeroed(stream.device(), stream, bytes, what),
        }
    }

    fn found(&mut self, bytes: usize) -> Option<Memory> {
        self.free.iter().position(|memory| memory.bytes == bytes).map(|k| self.free.remove(k))
    }

    /// Memory for lists of these sizes in bytes, whatever is in them, and where each begins.
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

/// New memory for lists of these sizes in bytes, of zeros, and where each begins.
pub fn lists<const N: usize>(stream: &Stream, sizes: [usize; N], what: &str) -> Result<(Memory, [Address; N])> {
    Pool::default().lists(stream, sizes, what)
}

/// Extents as kernels take them.
pub fn box_of(cells: Cells) -> CellBox {
    CellBox { nx: cells.nx as i32, ny: cells.ny as i32, nz: cells.nz as i32, unused: 0 }
}
