//! What every order of the rows offers.

use crate::runtime::shared::Shared;
use crate::runtime::team::Me;

/// Sweeps in some order.
pub trait Sweep: Send + Sync {
    /// One sweep on x; all three vectors have the matrix's rows, and `old` is room for a copy of x. All members of a
    /// team call it together. A barrier stands before it, and a barrier ends it; between them nobody uses x or `old`
    /// otherwise, or writes b.
    fn sweep(&self, me: &Me, x: &Shared, b: &Shared, old: &Shared);
    /// Bytes of all arrays.
    fn bytes(&self) -> usize;
}
