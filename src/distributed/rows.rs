//! Row arrays of a distributed grid. Normally, each rank stores its own rows, and messages transfer them. A solve that
//! is gathered on rank 0 uses arrays in shared memory if all ranks are processes of one host. Each rank reads and
//! writes its own boxes in these arrays.

use super::{Comm, Gather, MaximumOverRanks};
use crate::base::heap::FallibleArc;
use crate::base::processes::{SharedAddress, SharedMapping, host_number};
use crate::error::{Result, collected};

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "rows of all ranks";

/// Row arrays of a rank, or of all ranks.
pub enum Rows {
    /// Arrays of this rank.
    OwnArrays(Vec<Vec<f64>>),
    /// Arrays of all ranks in shared memory. Each rank copies the values of its boxes to and from the arrays, and rank
    /// 0 computes with them. A collective communication separates the copies of all ranks from the computation.
    SharedRows(SharedRows),
}

/// Arrays of `len` values each in shared memory. The first array begins at index `start` of `memory`, and the others
/// follow. `is_root` is true on rank 0, the only rank that computes with the arrays.
#[derive(Clone)]
pub struct SharedRows {
    memory: FallibleArc<SharedMapping>,
    start: usize,
    len: usize,
    array_count: usize,
    is_root: bool,
}

/// Maximum number of arrays: the matrix of a 9-point stencil.
pub const MAX_ARRAYS: usize = 5;

/// Number of 8-byte words that identify the shared memory of rank 0: host, process, file descriptor, signature.
const ADDRESS_WORDS: usize = 4;

/// Creates the plan by which [`allocate_shared_rows`] sends the identification of rank 0's shared memory to all ranks.
pub fn create_address_plan(comm: &FallibleArc<Comm>) -> Result<Gather> {
    Gather::new(
        comm,
        &collected((0..comm.size()).map(|rank| if rank == 0 { ADDRESS_WORDS } else { 0 }), ALLOCATION_NAME)?,
    )
}

/// Allocates shared memory for `array_counts[0] + array_counts[1]` arrays of `len` values, as two groups. Returns the
/// two groups if rank 0 can allocate the memory, all ranks run on one host, and all ranks can map the memory. Otherwise
/// returns `None` on all ranks. `gather` is the plan that `create_address_plan` returns, and `failure_maximum` is a
/// plan for two values. Collective.
pub fn allocate_shared_rows(
    comm: &Comm,
    gather: &mut Gather,
    failure_maximum: &mut MaximumOverRanks,
    array_counts: [usize; 2],
    len: usize,
) -> Result<Option<[SharedRows; 2]>> {
    let is_root = comm.rank() == 0;
    let values = len.saturating_mul(array_counts[0] + array_counts[1]);
    let own_memory = if is_root { SharedMapping::new(values).ok() } else { None };
    let address = own_memory.as_ref().map_or([0; 3], |own_memory| {
        let SharedAddress { process, file, signature } = own_memory.address();
        [process, file, signature]
    });
    let words = gather.run(|words| {
        if is_root {
            let host = if own_memory.is_some() { host_number() } else { 0 };
            words
                .iter_mut()
                .zip([host, address[0], address[1], address[2]])
                .for_each(|(word_slot, word)| *word_slot = f64::from_bits(word));
        }
    })?;
    let [host, process, file, signature] = std::array::from_fn(|k| words[k].to_bits());
    let is_same_host = host != 0 && host == host_number();
    let memory = match own_memory {
        Some(own_memory) => Some(own_memory).filter(|_| is_same_host),
        None if is_same_host => SharedMapping::open(&SharedAddress { process, file, signature }, values).ok(),
        None => None,
    };
    let memory = memory.and_then(|memory| FallibleArc::new(memory, ALLOCATION_NAME).ok());
    if failure_maximum.run(&[f64::from(u8::from(memory.is_none())), 0.0])?[0] > 0.0 {
        return Ok(None);
    }
    let array_group = |memory: &FallibleArc<SharedMapping>, start, array_count| SharedRows {
        memory: memory.clone(),
        start,
        len,
        array_count,
        is_root,
    };
    Ok(memory.map(|memory| {
        [array_group(&memory, 0, array_counts[0]), array_group(&memory, array_counts[0] * len, array_counts[1])]
    }))
}

impl Rows {
    pub const EMPTY: Self = Self::OwnArrays(Vec::new());

    /// Returns array k. If the rows are shared, the result is empty on all ranks except rank 0, which computes.
    pub fn array(&self, k: usize) -> &[f64] {
        match self {
            Self::OwnArrays(arrays) => &arrays[k],
            // SAFETY: a collective communication separates the writes of other ranks from the computation, in which
            // rank 0 uses this slice.
            Self::SharedRows(shared) => unsafe {
                shared.memory.slice(shared.start + k * shared.len, shared.accessible_len())
            },
        }
    }

    /// Returns all arrays for writing, as the first elements of the result. The other elements are empty slices. If the
    /// rows are shared, all slices are empty on all ranks except rank 0.
    pub fn arrays_mut(&mut self) -> [&mut [f64]; MAX_ARRAYS] {
        let mut slices: [&mut [f64]; MAX_ARRAYS] = Default::default();
        match self {
            Self::OwnArrays(arrays) => slices.iter_mut().zip(arrays).for_each(|(slice, rows)| *slice = rows),
            Self::SharedRows(shared) => {
                for (k, slice) in slices.iter_mut().take(shared.array_count).enumerate() {
                    let start = shared.start + k * shared.len;
                    // SAFETY: the arrays are disjoint; otherwise as in `array`.
                    *slice = unsafe { shared.memory.slice_mut(start, shared.accessible_len()) };
                }
            }
        }
        slices
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::OwnArrays(arrays) => arrays.iter().map(|rows| 8 * rows.capacity()).sum(),
            Self::SharedRows(shared) => 8 * shared.array_count * shared.accessible_len(),
        }
    }
}

impl SharedRows {
    /// Returns the length of the arrays on rank 0, which computes with them, and 0 on all other ranks.
    fn accessible_len(&self) -> usize {
        if self.is_root { self.len } else { 0 }
    }

    /// Writes values of a box of this rank into array k, from index `offset` on.
    pub fn write(&self, k: usize, offset: usize, values: &[f64]) {
        assert!(k < self.array_count && offset + values.len() <= self.len);
        // SAFETY: boxes are disjoint, and a collective communication separates this copy from the computation of rank
        // 0.
        unsafe { self.memory.slice_mut(self.start + k * self.len + offset, values.len()) }.copy_from_slice(values);
    }

    /// Reads values of a box of this rank from array k, from index `offset` on.
    pub fn read(&self, k: usize, offset: usize, values: &mut [f64]) {
        assert!(k < self.array_count && offset + values.len() <= self.len);
        // SAFETY: as in `write`.
        values.copy_from_slice(unsafe { self.memory.slice(self.start + k * self.len + offset, values.len()) });
    }
}
