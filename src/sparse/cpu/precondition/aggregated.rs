//! Multigrid by aggregation as a preconditioner.

use super::apply::ApplyInverse;
use crate::aggregation::cpu::{CoarseMethod, Cycle};
use crate::aggregation::{AggregationRules, COARSEST_ROWS, CycleParameters, Hierarchy, KeptAggregates};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::base::workers::Workers;
use crate::direct::couplings::Couplings;
use crate::error::{Error, Result};
use crate::sparse::pairing_passes;

/// Preconditioner whose application M^-1 r is one multigrid cycle for A z = r.
pub struct AggregationPreconditioner<V: Number> {
    cycle: Cycle<V>,
}

impl<V: Real + Number> AggregationPreconditioner<V> {
    pub fn new<I: Index>(a: &Csr<I>, kept_aggregates: KeptAggregates, threads: usize) -> Result<Self> {
        if a.rows() > u32::MAX as usize - 1 {
            let message = format!("preconditioner=amg supports fewer than 2^32 rows, got {}", a.rows());
            return Err(Error::Unsupported(message));
        }
        let workers = &mut Workers::new(threads);
        let (couplings, scale) = Couplings::scaled(a, workers)?;
        let hierarchy = Hierarchy::reusing_aggregates(
            couplings,
            scale,
            &AggregationRules::with_passes(pairing_passes(a)),
            (COARSEST_ROWS, kept_aggregates),
            workers,
        )?;
        Ok(Self { cycle: Cycle::keeping_aggregates(hierarchy, &CycleParameters::PARALLEL, None, workers)? })
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        self.cycle.reused_aggregate_count()
    }
}

impl<V: Real + Number> ApplyInverse for AggregationPreconditioner<V> {
    fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared) {
        // SAFETY: no thread writes `r` (`ApplyInverse::apply`). The second closure writes a row of `z`. No two threads
        // call it for the same row.
        unsafe {
            let r = r.slice(0, self.cycle.rows());
            self.cycle.apply(thread, CoarseMethod::FlexibleCg, |i| r[i], |i, z_i| z.slice_mut(i, 1)[0] = z_i);
        }
    }

    fn is_linear(&self) -> bool {
        false
    }

    fn into_kept_aggregates(self: Box<Self>) -> KeptAggregates {
        self.cycle.into_kept_aggregates()
    }

    fn bytes(&self) -> usize {
        self.cycle.bytes()
    }
}
