//! Aggregation multigrid as a preconditioner.

use super::apply::Apply;
use crate::aggregation::cpu::{CoarseMethod, Cycle};
use crate::aggregation::{COARSEST, CycleParameters, Hierarchy, KeptAggregates, Rules};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::{Number, Shared};
use crate::base::team::Me;
use crate::base::workers::Workers;
use crate::direct::couplings::Couplings;
use crate::error::{Error, Result};
use crate::sparse::passes_of;

/// Preconditioner whose application M^-1 r is one multigrid cycle for A z = r.
pub struct Aggregated<V: Number> {
    cycle: Cycle<V>,
}

impl<V: Real + Number> Aggregated<V> {
    pub fn new<I: Index>(a: &Csr<I>, kept: KeptAggregates, threads: usize) -> Result<Self> {
        if a.rows() > u32::MAX as usize - 1 {
            let message = format!("preconditioner=amg supports fewer than 2^32 rows, got {}", a.rows());
            return Err(Error::Unsupported(message));
        }
        let workers = &mut Workers::new(threads);
        let (couplings, scale) = Couplings::scaled(a, workers)?;
        let hierarchy = Hierarchy::reusing(couplings, scale, &Rules::passes(passes_of(a)), (COARSEST, kept), workers)?;
        Ok(Self { cycle: Cycle::keeping_aggregates(hierarchy, &CycleParameters::PARALLEL, None, workers)? })
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        self.cycle.aggregates_kept()
    }
}

impl<V: Real + Number> Apply for Aggregated<V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        // SAFETY: no thread writes `from`, and the cycle accesses each row of `to` once (`Apply::apply`).
        unsafe {
            let from = from.slice(0, self.cycle.rows());
            self.cycle.apply(me, CoarseMethod::Flexible, |i| from[i], |i, z| to.slice_mut(i, 1)[0] = z);
        }
    }

    fn is_linear(&self) -> bool {
        false
    }

    fn into_kept(self: Box<Self>) -> KeptAggregates {
        self.cycle.into_kept()
    }

    fn bytes(&self) -> usize {
        self.cycle.bytes()
    }
}
