//! The regions of deflation on the device.

use super::arrays::{Padded, Pool};
use super::survey::Made;
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch::{Address, CellLabels};
use crate::error::{Result, collected, zeroed};
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
    /// Those that the device has found: `regions` does not say those of cells.
    pub fn new(pool: &mut Pool, stream: &Stream, made: &Made, regions: &Regions) -> Result<Self> {
        let (of, value) = (made.source.of, size_of::<u16>());
        let numbers = Padded::zeroed_in(pool, stream, 1, of.count(), of.plane(), value, REGIONS)?;
        made.surveyor.number_cells(stream, numbers.at(0), regions.count as u16)?;
        let null_vector = |r| regions.null_vector.get(r).copied().unwrap_or(0);
        let mut null_of = collected((0..regions.count).map(null_vector), REGIONS)?;
        regions.surplus.iter().for_each(|&r| null_of[usize::from(r)] |= LEFT_OUT);
        Ok(Self { numbers, count: regions.count, null_of, nulls: regions.surplus.len() })
    }

    /// The same with those of cells.
    pub fn on_host(&self, stream: &Stream, made: &Made, regions: &Regions) -> Result<Regions> {
        let mut of: Vec<u16> = zeroed(made.source.of.count(), REGIONS)?;
        stream.fetch(&mut of, self.at())?;
        stream.wait()?;
        of.iter_mut().filter(|r| usize::from(**r) == self.count).for_each(|r| *r = NONE);
        let null_vector = collected(regions.null_vector.iter().copied(), REGIONS)?;
        let surplus = collected(regions.surplus.iter().copied(), REGIONS)?;
        Ok(Regions { of, count: regions.count, found: regions.found, null_vector, surplus })
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
