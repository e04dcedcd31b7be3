//! Multithreaded cycle of multigrid by aggregation. The parent module builds the hierarchy.
//!
//! Modules, each of which uses only modules named before it: `lines` (couplings), `rows` (matrix of a level), `level`
//! (matrix and vectors), `cycle`.

mod cycle;
mod level;
mod lines;
mod rows;
#[cfg(test)]
pub mod tests;

pub use cycle::Cycle;
pub use level::CoarseMethod;
