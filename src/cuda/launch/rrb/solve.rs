//! Scalars of a solve, and the stages of a solve.

use super::structures::Scalars;
use bytemuck::Zeroable;

impl Scalars {
    /// Returns the initial scalars.
    pub fn start() -> Self {
        Self { per_unit: 1.0, ..Self::zeroed() }
    }
}

/// Stage of the solve, which determines what a kernel does with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The sums are stored, and no scalar is updated.
    Nothing = 0,
    /// Start of a solve, when there are no alpha and beta yet.
    Start = 1,
    /// Iteration of the loop.
    Loop = 2,
    /// As `Start`, but after a loop. Unless the loop has ended, no scalar is updated.
    Confirm = 3,
}
