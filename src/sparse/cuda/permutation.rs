//! Permutations of the values of a matrix on the device: from the caller's order to the order of csr, and from there to
//! the order of a format.

use super::allocations::Allocations;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, GatherArgs, NOTHING_THERE};
use crate::error::{Result, collected, zeroed};

const ORDER: &str = "the order of values";

/// A permutation with sums: each result is one value, 0, or the sum of duplicates.
pub struct Permutation {
    memory: Allocations,
    args: GatherArgs,
}

impl Permutation {
    /// Creates the permutation from the caller's order to the order of csr with `entries` entries. `positions` contains
    /// the entry of each of the caller's values, of which there are fewer than 2^32.
    pub fn to_csr(stream: &Stream, positions: &[usize], entries: usize) -> Result<Self> {
        let mut start: Vec<u32> = zeroed(entries + 1, ORDER)?;
        positions.iter().for_each(|&entry| start[entry + 1] += 1);
        (0..entries).for_each(|entry| start[entry + 1] += start[entry]);
        let (mut order, mut next) = (zeroed(positions.len(), ORDER)?, collected(start.iter().copied(), ORDER)?);
        for (number, &entry) in positions.iter().enumerate() {
            order[next[entry] as usize] = number as u32;
            next[entry] += 1;
        }
        let mut memory = Allocations::new(ORDER);
        let has_duplicates = positions.len() > entries;
        let start = if has_duplicates { memory.copy_of(stream, &start)? } else { 0 };
        let args =
            GatherArgs { count: entries as i64, start, order: memory.copy_of(stream, &order)?, values: 0, to: 0 };
        Ok(Self { memory, args })
    }

    /// Creates the permutation from the order of csr to the order of a format. `numbers` contains the values of the
    /// format for a matrix whose entry k has the value k + 1; a value of 0 is padding.
    pub fn to_format<'a>(stream: &Stream, numbers: impl Iterator<Item = &'a f64>) -> Result<Self> {
        let entry = |number: &f64| if *number == 0.0 { NOTHING_THERE } else { (*number - 1.0) as u32 };
        let (order, mut memory) = (collected(numbers.map(entry), ORDER)?, Allocations::new(ORDER));
        let count = order.len() as i64;
        let args = GatherArgs { count, start: 0, order: memory.copy_of(stream, &order)?, values: 0, to: 0 };
        Ok(Self { memory, args })
    }

    /// Permutes `values` into `to`.
    pub fn apply(&self, stream: &Stream, values: Address, to: Address) -> Result<()> {
        launch::gather(stream, &GatherArgs { values, to, ..self.args })
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}
