//! What a preconditioner is, and what it is made for.

use crate::backend::aggregation::Kept;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;

pub const WHAT: &str = "a preconditioner";

/// A map from r to z, linear most often.
pub trait Apply: Send + Sync {
    /// to = M^-1 from. All members of a team call it together. A barrier stands before it; from there until it returns
    /// nobody writes `from`, or uses `to` otherwise. On return the member's own rows ([`Chunks::own`]) of `to` are
    /// written; a barrier stands before another member reads them.
    ///
    /// [`Chunks::own`]: crate::backend::cpu::sparse::chunks::Chunks::own
    fn apply(&self, me: &Me, from: &Shared, to: &Shared);
    /// The same map for every r; else CG takes its flexible beta.
    fn is_linear(&self) -> bool {
        true
    }
    /// Aggregates, for the next matrix.
    fn into_kept(self: Box<Self>) -> Kept {
        Kept::default()
    }
    /// Bytes of all arrays.
    fn bytes(&self) -> usize;
}

/// What M is made for.
#[derive(Clone, Copy)]
pub struct Purpose {
    /// M^-T is asked for.
    pub transposes: bool,
    /// The matrix is.
    pub symmetric: bool,
    /// Entries of M are kept in f32; what is computed with them is in f64.
    pub single: bool,
}
