//! Interface of a sweep in a given order of the rows.

use crate::base::shared::Shared;
use crate::base::team::TeamThread;

/// Sweeps in a given order of the rows.
pub trait Sweep: Send + Sync {
    /// Computes one sweep on x. All three vectors have one value per row, and `old_x` is a workspace for a copy of x.
    /// All threads of the team call this function together, after a barrier. The function ends with a barrier. Between
    /// these barriers, no other code may use x or `old_x`, or write b.
    fn sweep(&self, thread: &TeamThread, x: &Shared, b: &Shared, old_x: &Shared);
    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> usize;
}
