//! Preconditioner by aggregation-based multigrid on a device (docs/theory/aggregation.md), with one row per cell. M is
//! a fixed matrix.

use super::source::DeviceMatrix;
use crate::aggregation::AggregationRules;
use crate::aggregation::cuda::{AggregationMultigrid, MatrixShape};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::aggregation::Couplings;
use crate::cuda::launch::{Address, CellCouplingsArgs, Sum};
use crate::cuda::vectors::Scale;
use crate::error::Result;

/// Largest number of couplings per cell.
const MAX_COUPLINGS: usize = 6;

/// The preconditioner: one cycle of aggregation-based multigrid.
pub struct Aggregated(AggregationMultigrid);

impl Aggregated {
    /// Builds the preconditioner for `scale` times the matrix. Reuses the memory of the previous preconditioner.
    pub fn new(
        stream: &Stream,
        source: &DeviceMatrix,
        (scale, zero_row_sum): (f64, f64),
        (pairing_passes, is_single_precision): (usize, bool),
        previous: Option<Self>,
    ) -> Result<Self> {
        let shape = MatrixShape { rows: source.extents.count(), entries: MAX_COUPLINGS * source.extents.count() };
        let load_couplings = |c: &Couplings| {
            let (cells, m) = (source.cells, source.m);
            launch::cell_couplings(stream, &CellCouplingsArgs { cells, m, scale, zero_row_sum, c: *c })
        };
        let previous = previous.map(|previous| previous.0);
        Ok(Self(
            AggregationMultigrid::new(
                stream,
                (shape, &AggregationRules::with_passes(pairing_passes)),
                (scale, is_single_precision),
                previous,
                load_couplings,
            )?
            .0,
        ))
    }

    /// Computes z = M^-1 r, and <r, z> as the reduction `sum`.
    pub fn apply(&self, stream: &Stream, scale: &Scale, (r, z): (Address, Address), sum: Sum) -> Result<()> {
        self.0.apply(stream, scale, (r, z), sum)
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        self.0.reused_aggregate_count()
    }

    #[cfg(test)]
    pub fn levels(&self) -> &[crate::cuda::launch::aggregation::Level] {
        self.0.launches().levels()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
