//! Interface of the orders of rows.

use crate::base::shared::Shared;
use crate::base::team::Me;

/// Sweeps in a given order of the rows.
pub trait Sweep: Send + Sync {
    /// Does one sweep on x. All three vectors have one value per row; `old` is a workspace for a copy of x. All threads
    /// of the team call this function together, with a barrier before it; it ends with a barrier. In between, no other
    /// code may use x or `old`, or write b.
    fn sweep(&self, me: &Me, x: &Shared, b: &Shared, old: &Shared);
    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> usize;
}
