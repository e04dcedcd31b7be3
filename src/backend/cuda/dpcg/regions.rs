//! The regions of deflation on the device.

use super::arrays::{Padded, Pool};
use super::source::Source;
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch::{Address, CellLabels};
use crate::error::{Result, collected};
use crate::grid::regions::{NONE, Regions};

/// For errors.
const REGIONS: &str = "deflation regions";

/// Bit of the unknown that is left out where vectors add up to a null vector (kernels/dpcg/dense.cuh).
const LEFT_OUT: u32 = 1 << 31;

/// A number of 16 bits a cell.
pub struct RegionNumbers {
    /// Around them, and for cells in no region, `count`.
    numbers: Padded,
    /// Vectors.
    pub count: usize,
    /// Of each vector the null vector that it is a part of, counted from 1, and whether it is the surplus one of that.
    pub null_of: Vec<u32>,
    /// Null vectors that vectors add up to.
    pub nulls: usize,
}

impl RegionNumbers {
    /// Room for the numbers of `count` regions, all of them none.
    fn new(pool: &mut Pool, source: &Source, stream: &Stream, regions: &Regions) -> Result<Self> {
        let (of, value) = (source.of, size_of::<u16>());
        let numbers = Padded::zeroed_in(pool, stream, 1, of.count(), of.plane(), value, REGIONS)?;
        let mut null_of =
            collected((0..regions.count).map(|r| regions.null_vector.get(r).copied().unwrap_or(0)), REGIONS)?;
        regions.surplus.iter().for_each(|&r| null_of[usize::from(r)] |= LEFT_OUT);
        Ok(Self { numbers, count: regions.count, null_of, nulls: regions.surplus.len() })
    }

    /// Those that the host has found.
    pub fn send(pool: &mut Pool, source: &Source, stream: &Stream, regions: &Regions) -> Result<Self> {
        let made = Self::new(pool, source, stream, regions)?;
        let (guard, none) = (source.of.plane(), made.count as u16);
        let number = |&r: &u16| if r == NONE { none } else { r };
        let outside = || std::iter::repeat_n(none, guard);
        let all = collected(outside().chain(regions.of.iter().map(number)).chain(outside()), REGIONS)?;
        stream.send(made.at() - (size_of::<u16>() * guard) as u64, &all)?;
        stream.wait()?;
        Ok(made)
    }

    /// Of the first cell.
    pub fn at(&self) -> Address {
        self.numbers.at(0)
    }

    pub fn labels(&self) -> CellLabels {
        CellLabels { of: self.at(), wide: 0, count: self.count as u32 }
    }

    /// Its memory, for another one.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        pool.give(self.numbers.into_memory())
    }

    pub fn bytes(&self) -> usize {
        self.numbers.bytes()
    }
}
