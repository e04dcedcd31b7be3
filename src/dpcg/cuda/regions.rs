//! Deflation regions on a device (docs/theory/dpcg.md, regions).

use super::survey::FactorizationInput;
use crate::cuda::arrays::{PaddedArrays, Pool};
use crate::cuda::driver::Stream;
use crate::cuda::launch::{Address, CellLabels};
use crate::deflation::regions::{NO_REGION, Regions};
use crate::error::{Result, collected, zeroed};

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "deflation regions";

/// Bit that marks the unknown that is removed for a null vector (kernels/common/inverse.cuh).
const REMOVED_UNKNOWN: u32 = 1 << 31;

/// The region number of each cell, in 16 bits.
pub struct RegionNumbers {
    /// Region numbers. Cells in no region, and the padding around the cells, have the number `region_count`.
    region_numbers: PaddedArrays,
    /// Number of regions, that is, of columns of Z.
    pub region_count: usize,
    /// For each column of Z, the number of the null vector of A to which this column contributes, counted from 1. The
    /// number is 0 if there is no such null vector. The bit `REMOVED_UNKNOWN` marks one column per null vector: the
    /// column whose unknown is removed.
    pub null_vector_of: Vec<u32>,
    /// Number of null vectors of A that are sums of columns of Z.
    pub null_vector_count: usize,
}

impl RegionNumbers {
    /// Computes the region of each cell from the classes that the inspection has found. Does not use
    /// `regions.region_of_cell`.
    pub fn new(pool: &mut Pool, stream: &Stream, input: &FactorizationInput, regions: &Regions) -> Result<Self> {
        let (extents, value_bytes) = (input.source.extents, size_of::<u16>());
        let region_numbers =
            PaddedArrays::zeroed_in(pool, stream, 1, extents.count(), extents.plane(), value_bytes, ALLOCATION_NAME)?;
        input.surveyor.assign_cell_regions(stream, region_numbers.at(0), regions.count as u16)?;
        let null_vector_of = |r| regions.null_vector_of.get(r).copied().unwrap_or(0);
        let mut null_vector_of = collected((0..regions.count).map(null_vector_of), ALLOCATION_NAME)?;
        regions.surplus_vectors.iter().for_each(|&r| null_vector_of[usize::from(r)] |= REMOVED_UNKNOWN);
        Ok(Self {
            region_numbers,
            region_count: regions.count,
            null_vector_of,
            null_vector_count: regions.surplus_vectors.len(),
        })
    }

    /// Returns `regions` together with the region of each cell, which is copied from the device.
    pub fn on_host(&self, stream: &Stream, input: &FactorizationInput, regions: &Regions) -> Result<Regions> {
        let mut region_of_cell: Vec<u16> = zeroed(input.source.extents.count(), ALLOCATION_NAME)?;
        stream.fetch(&mut region_of_cell, self.address())?;
        stream.wait()?;
        region_of_cell.iter_mut().filter(|r| usize::from(**r) == self.region_count).for_each(|r| *r = NO_REGION);
        let null_vector_of = collected(regions.null_vector_of.iter().copied(), ALLOCATION_NAME)?;
        let surplus_vectors = collected(regions.surplus_vectors.iter().copied(), ALLOCATION_NAME)?;
        Ok(Regions {
            region_of_cell,
            count: regions.count,
            region_count: regions.region_count,
            null_vector_of,
            surplus_vectors,
        })
    }

    /// Returns the address of the region number of the first cell.
    pub fn address(&self) -> Address {
        self.region_numbers.at(0)
    }

    /// Returns the regions as labels of cells.
    pub fn labels(&self) -> CellLabels {
        CellLabels { label_of_cell: self.address(), has_32_bit_labels: 0, count: self.region_count as u32 }
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        pool.release(self.region_numbers.into_memory())
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.region_numbers.bytes()
    }
}
