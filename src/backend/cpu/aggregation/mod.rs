//! Multigrid by aggregation (`backend/aggregation`) by a team of threads.
//!
//! Each may use those before it: `lines` (couplings), `rows` (the matrix of a level), `level` (with its vectors),
//! `cycle`.

mod cycle;
mod level;
mod lines;
mod rows;
#[cfg(test)]
pub(super) mod tests;

pub use cycle::Cycle;
pub use level::Way;
