//! Row arrays of a distributed grid. Normally, each rank stores its own rows, and messages transfer them. A solve that
//! is gathered on rank 0 uses arrays in shared memory if all ranks are processes of one host. Each rank reads and
//! writes its own boxes in these arrays.

use super::{Comm, Gather, Maximum};
use crate::base::heap::Counted;
use crate::base::processes::{SharedAddress, SharedMapping, host_number};
use crate::error::{Result, collected};

/// Name of an allocation in error messages.
const ROWS: &str = "rows of all ranks";

/// Row arrays of a rank, or of all ranks.
pub enum Rows {
    /// Arrays of this rank.
    Own(Vec<Vec<f64>>),
    /// Arrays of all ranks in shared memory. Each rank copies the values of its boxes to and from the arrays, and rank
    /// 0 computes with them. A collective communication separates the copies of all ranks from the computation.
    SharedRows(SharedRows),
}

/// Arrays of `len` values each in shared memory, from value `start` on. `computes` is true on rank 0, the only rank
/// that computes with the arrays.
#[derive(Clone)]
pub struct SharedRows {
    memory: Counted<SharedMapping>,
    start: usize,
    len: usize,
    arrays: usize,
    computes: bool,
}

/// Maximum number of arrays: the matrix of a 9-point stencil.
pub const MOST_ARRAYS: usize = 5;

/// Number of 8-byte words that identify the shared memory of rank 0: host, process, file descriptor, signature.
const WORDS: usize = 4;

/// Creates the plan by which [`shared_rows`] sends the identification of rank 0's shared memory to all ranks.
pub fn address_plan(comm: &Counted<Comm>) -> Result<Gather> {
    Gather::new(comm, &collected((0..comm.size()).map(|rank| if rank == 0 { WORDS } else { 0 }), ROWS)?)
}

/// Allocates shared memory for `arrays[0] + arrays[1]` arrays of `len` values, as two groups. Returns `None` on all
/// ranks unless rank 0 can allocate the memory, all ranks run on one host, and all of them can map the memory. `gather`
/// is the plan that `address_plan` returns, and `agree` a maximum of two values. Collective.
pub fn shared_rows(
    comm: &Comm,
    gather: &mut Gather,
    agree: &mut Maximum,
    arrays: [usize; 2],
    len: usize,
) -> Result<Option<[SharedRows; 2]>> {
    let first = comm.rank() == 0;
    let values = len.saturating_mul(arrays[0] + arrays[1]);
    let own = if first { SharedMapping::new(values).ok() } else { None };
    let address = own.as_ref().map_or([0; 3], |own| {
        let SharedAddress { process, file, signature } = own.address();
        [process, file, signature]
    });
    let words = gather.run(|to| {
        if first {
            let host = if own.is_some() { host_number() } else { 0 };
            to.iter_mut()
                .zip([host, address[0], address[1], address[2]])
                .for_each(|(to, word)| *to = f64::from_bits(word));
        }
    })?;
    let [host, process, file, signature] = std::array::from_fn(|k| words[k].to_bits());
    let is_here = host != 0 && host == host_number();
    let memory = match own {
        Some(own) => Some(own).filter(|_| is_here),
        None if is_here => SharedMapping::open(&SharedAddress { process, file, signature }, values).ok(),
        None => None,
    };
    let memory = memory.and_then(|memory| Counted::new(memory, ROWS).ok());
    if agree.run(&[f64::from(u8::from(memory.is_none())), 0.0])?[0] > 0.0 {
        return Ok(None);
    }
    let part = |memory: &Counted<SharedMapping>, start, arrays| SharedRows {
        memory: memory.clone(),
        start,
        len,
        arrays,
        computes: first,
    };
    Ok(memory.map(|memory| [part(&memory, 0, arrays[0]), part(&memory, arrays[0] * len, arrays[1])]))
}

impl Rows {
    pub const NONE: Self = Self::Own(Vec::new());

    /// Returns array k. If the rows are shared, the result is empty on all ranks except rank 0, which computes.
    pub fn array(&self, k: usize) -> &[f64] {
        match self {
            Self::Own(arrays) => &arrays[k],
            // SAFETY: a collective communication separates the writes of other ranks from the computation, in which
            // rank 0 uses this slice.
            Self::SharedRows(shared) => unsafe { shared.memory.slice(shared.start + k * shared.len, shared.own_len()) },
        }
    }

    /// Returns all arrays for writing, as the first elements of the result. The other elements are empty slices. If the
    /// rows are shared, all slices are empty on all ranks except rank 0.
    pub fn arrays_mut(&mut self) -> [&mut [f64]; MOST_ARRAYS] {
        let mut all: [&mut [f64]; MOST_ARRAYS] = Default::default();
        match self {
            Self::Own(arrays) => all.iter_mut().zip(arrays).for_each(|(to, rows)| *to = rows),
            // SAFETY: the arrays are disjoint; otherwise as in `array`.
            Self::SharedRows(shared) => all.iter_mut().take(shared.arrays).enumerate().for_each(|(k, to)| unsafe {
                *to = shared.memory.slice_mut(shared.start + k * shared.len, shared.own_len());
            }),
        }
        all
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Own(arrays) => arrays.iter().map(|rows| 8 * rows.capacity()).sum(),
            Self::SharedRows(shared) => 8 * shared.arrays * shared.own_len(),
        }
    }
}

impl SharedRows {
    fn own_len(&self) -> usize {
        if self.computes { self.len } else { 0 }
    }

    /// Writes values of a box of this rank into array k, from index `at` on.
    pub fn put(&self, k: usize, at: usize, values: &[f64]) {
        assert!(k < self.arrays && at + values.len() <= self.len);
        // SAFETY: boxes are disjoint, and a collective communication separates this copy from the computation of rank
        // 0.
        unsafe { self.memory.slice_mut(self.start + k * self.len + at, values.len()) }.copy_from_slice(values);
    }

    /// Reads values of a box of this rank from array k, from index `at` on.
    pub fn get(&self, k: usize, at: usize, values: &mut [f64]) {
        assert!(k < self.arrays && at + values.len() <= self.len);
        // SAFETY: as in `put`.
        values.copy_from_slice(unsafe { self.memory.slice(self.start + k * self.len + at, values.len()) });
    }
}
