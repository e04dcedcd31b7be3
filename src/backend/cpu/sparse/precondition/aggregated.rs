//! Multigrid by aggregation.

use super::apply::Apply;
use crate::backend::aggregation::{COARSEST, Choices, Couplings, Hierarchy, Kept, Rules};
use crate::backend::cpu::aggregation::{Cycle, Way};
use crate::error::{Error, Result};
use crate::runtime::number::Real;
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::Me;
use crate::runtime::workers::Workers;
use crate::sparse::{Csr, Index};

/// A cycle.
pub struct Aggregated<V: Number> {
    cycle: Cycle<V>,
}

impl<V: Real + Number> Aggregated<V> {
    pub fn new<I: Index>(a: &Csr<I>, kept: Kept, threads: usize) -> Result<Self> {
        if a.rows() > u32::MAX as usize - 1 {
            let sentence = format!("preconditioner=amg supports fewer than 2^32 rows, got {}", a.rows());
            return Err(Error::Unsupported(sentence));
        }
        let workers = &mut Workers::new(threads);
        let (couplings, scale) = Couplings::scaled(a, workers)?;
        let hierarchy = Hierarchy::again(couplings, scale, &rules(a), (COARSEST, kept), workers)?;
        Ok(Self { cycle: Cycle::keeping(hierarchy, &Choices::PARALLEL, None, workers)? })
    }

    /// From the matrix before.
    pub fn aggregates_kept(&self) -> usize {
        self.cycle.aggregates_kept()
    }
}

/// With few couplings a row aggregates of four, of rows with six and more of eight: four leave too many couplings.
fn rules<I: Index>(a: &Csr<I>) -> Rules {
    /// Entries of a row on average, from which on three passes of pairs are made: those of 7 points in space.
    const MANY: f64 = 6.5;
    let mean = a.col.len() as f64 / a.rows().max(1) as f64;
    Rules::passes(if mean < MANY { 2 } else { 3 })
}

impl<V: Real + Number> Apply for Aggregated<V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        // SAFETY: nobody writes `from` meanwhile, and the cycle asks for each row of `to` once (`Apply::apply`).
        unsafe {
            let from = from.slice(0, self.cycle.rows());
            self.cycle.apply(me, Way::Flexible, |i| from[i], |i, z| to.slice_mut(i, 1)[0] = z);
        }
    }

    fn is_linear(&self) -> bool {
        false
    }

    fn into_kept(self: Box<Self>) -> Kept {
        self.cycle.into_kept()
    }

    fn bytes(&self) -> usize {
        self.cycle.bytes()
    }
}
