//! Permutations of the values of a matrix on the device: from the caller's order to the order of csr, and from the
//! order of csr to that of a format or of A^T.

use super::allocations::Allocations;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, GatherArgs, NO_INDEX};
use crate::error::{Result, collected, zeroed};

/// Name of the allocations in error messages.
const ALLOCATION_NAME: &str = "the order of values";

/// A permutation of values. Each result is an input value, 0 (padding), or a sum of input values (duplicates).
pub struct Permutation {
    memory: Allocations,
    args: GatherArgs,
}

impl Permutation {
    /// Creates the permutation from the caller's order to the order of csr with `entry_count` entries. For each of the
    /// caller's values, `entry_positions` contains the index of its entry in csr. There are fewer than 2^32 values.
    pub fn to_csr(stream: &Stream, entry_positions: &[usize], entry_count: usize) -> Result<Self> {
        let mut starts: Vec<u32> = zeroed(entry_count + 1, ALLOCATION_NAME)?;
        entry_positions.iter().for_each(|&entry| starts[entry + 1] += 1);
        (0..entry_count).for_each(|entry| starts[entry + 1] += starts[entry]);
        let (mut order, mut next_index) =
            (zeroed(entry_positions.len(), ALLOCATION_NAME)?, collected(starts.iter().copied(), ALLOCATION_NAME)?);
        for (value_index, &entry) in entry_positions.iter().enumerate() {
            order[next_index[entry] as usize] = value_index as u32;
            next_index[entry] += 1;
        }
        let mut memory = Allocations::new(ALLOCATION_NAME);
        let has_duplicates = entry_positions.len() > entry_count;
        let start = if has_duplicates { memory.copy_of(stream, &starts)? } else { 0 };
        let args =
            GatherArgs { count: entry_count as i64, start, order: memory.copy_of(stream, &order)?, values: 0, to: 0 };
        Ok(Self { memory, args })
    }

    /// Creates the permutation from the order of csr to the order of a format. `numbers` contains the values of the
    /// format for a matrix whose entry k has the value k + 1; a value of 0 is padding.
    pub fn to_format<'a>(stream: &Stream, numbers: impl Iterator<Item = &'a f64>) -> Result<Self> {
        let index_of = |number: &f64| if *number == 0.0 { NO_INDEX } else { (*number - 1.0) as u32 };
        let (order, mut memory) =
            (collected(numbers.map(index_of), ALLOCATION_NAME)?, Allocations::new(ALLOCATION_NAME));
        let count = order.len() as i64;
        let args = GatherArgs { count, start: 0, order: memory.copy_of(stream, &order)?, values: 0, to: 0 };
        Ok(Self { memory, args })
    }

    /// Permutes the values at the device address `values`, and stores the results at `to`.
    pub fn apply(&self, stream: &Stream, values: Address, to: Address) -> Result<()> {
        launch::gather(stream, &GatherArgs { values, to, ..self.args })
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}
