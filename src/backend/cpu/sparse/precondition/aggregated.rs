//! Multigrid by aggregation.

use super::apply::Apply;
use crate::backend::aggregation::{Cycle, Hierarchy, Rules};
use crate::error::{Error, Result};
use crate::runtime::number::Real;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index};
use std::sync::{Mutex, PoisonError};

/// Rows that are factorized, not aggregated.
const COARSEST: usize = 128;

/// A cycle, which member 0 goes through alone.
pub struct Aggregated<V> {
    cycle: Mutex<Cycle<V>>,
    bytes: usize,
}

impl<V: Real> Aggregated<V> {
    pub fn new<I: Index>(a: &Csr<I>) -> Result<Self> {
        if a.rows() > u32::MAX as usize - 1 {
            let sentence = format!("preconditioner=amg takes fewer than 2^32 rows, got {}", a.rows());
            return Err(Error::Unsupported(sentence));
        }
        let hierarchy = Hierarchy::new(a, &rules(a), COARSEST)?;
        let cycle = Cycle::new(&hierarchy)?;
        Ok(Self { bytes: cycle.bytes(), cycle: Mutex::new(cycle) })
    }
}

/// With few couplings a row aggregates of four, of rows with six and more of eight: four leave too many couplings.
fn rules<I: Index>(a: &Csr<I>) -> Rules {
    /// Entries of a row on average, from which on three passes of pairs are made: those of 7 points in space.
    const MANY: f64 = 6.5;
    let mean = a.col.len() as f64 / a.rows().max(1) as f64;
    Rules { kappa: 12.0, passes: if mean < MANY { 2 } else { 3 } }
}

impl<V: Real + Send> Apply for Aggregated<V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        if me.index == 0 {
            let mut cycle = self.cycle.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = cycle.rows();
            // SAFETY: nobody writes `from`, and the others use `to` behind the barrier alone.
            let (from, to) = unsafe { (from.slice(0, rows), to.slice_mut(0, rows)) };
            cycle.apply(from, to);
        }
        me.barrier();
    }

    fn is_linear(&self) -> bool {
        false
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
