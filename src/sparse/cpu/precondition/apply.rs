//! Interface of a preconditioner, and requirements on it.

use crate::aggregation::KeptAggregates;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;

pub const ALLOCATION_NAME: &str = "a preconditioner";

/// The map from r to z = M^-1 r.
pub trait ApplyInverse: Send + Sync {
    /// Computes `z` = M^-1 `r`. All threads of the team call this function together, with a barrier before it. Until
    /// all threads have returned, no other code may write `r` or use `z`. When a thread returns, its own rows
    /// ([`Chunks::own_rows`]) of `z` are final. A barrier must follow before another thread reads these rows.
    ///
    /// [`Chunks::own_rows`]: crate::krylov::cpu::chunks::Chunks::own_rows
    fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared);
    /// Returns whether M^-1 is linear. If not, CG uses its flexible beta.
    fn is_linear(&self) -> bool {
        true
    }
    /// Returns the aggregates of multigrid for reuse with the next matrix; none for other preconditioners.
    fn into_kept_aggregates(self: Box<Self>) -> KeptAggregates {
        KeptAggregates::default()
    }
    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> usize;
}

/// Requirements on M.
#[derive(Clone, Copy)]
pub struct PreconditionerRequirements {
    /// Whether M^-T is needed.
    pub needs_transpose: bool,
    /// Whether the matrix is symmetric.
    pub is_symmetric: bool,
    /// Whether the entries of M are stored in f32. The arithmetic is always in f64.
    pub stores_in_f32: bool,
}
