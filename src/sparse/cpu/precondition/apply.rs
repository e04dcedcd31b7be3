//! Interface of a preconditioner, and requirements on it.

use crate::aggregation::KeptAggregates;
use crate::base::shared::Shared;
use crate::base::team::Me;

pub const WHAT: &str = "a preconditioner";

/// A map from r to z = M^-1 r; usually linear.
pub trait Apply: Send + Sync {
    /// Computes `to` = M^-1 `from`. All threads of the team call this function together, with a barrier before it.
    /// Until all of them have returned, no other code may write `from` or use `to`. On return, the thread's own rows
    /// ([`Chunks::own`]) of `to` are written. A barrier must follow before another thread reads these rows.
    ///
    /// [`Chunks::own`]: crate::krylov::cpu::chunks::Chunks::own
    fn apply(&self, me: &Me, from: &Shared, to: &Shared);
    /// Returns whether M^-1 is linear. If not, CG uses its flexible beta.
    fn is_linear(&self) -> bool {
        true
    }
    /// Returns the aggregates for reuse with the next matrix.
    fn into_kept(self: Box<Self>) -> KeptAggregates {
        KeptAggregates::default()
    }
    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> usize;
}

/// Requirements on M.
#[derive(Clone, Copy)]
pub struct Purpose {
    /// Whether M^-T is needed.
    pub transposes: bool,
    /// Whether the matrix is symmetric.
    pub symmetric: bool,
    /// Whether the entries of M are stored in f32; the arithmetic is in f64 in any case.
    pub single: bool,
}
