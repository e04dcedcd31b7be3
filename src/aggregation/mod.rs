//! Multigrid by aggregation (Napov and Notay 2012; docs/theory/aggregation.md): builds the hierarchy of a symmetric
//! matrix, for several families. The unknowns may have any order. Rows coupled by a positive off-diagonal entry are not
//! paired, but the entry remains in the matrix. `cpu` and `cuda` implement the cycle.
//!
//! Each module may use the modules named before it: `quality` (quality test of an aggregate), `pairs`, `aggregates`,
//! `hierarchy`, `order` (of sweeps), `choices` (of a cycle). `direct::couplings` is the matrix of a level.

mod aggregates;
mod choices;
pub mod cpu;
pub mod cuda;
mod hierarchy;
mod order;
mod pairs;
mod quality;

pub use aggregates::{AggregationRules, KAPPA_FOR_REUSE};
pub use choices::{ChebyshevSteps, CycleParameters};
pub use hierarchy::{COARSEST_ROWS, Hierarchy, KeptAggregates, MAX_FACTORIZED_ROWS};
pub use order::OrderedRows;
#[cfg(test)]
pub use order::SweepOrder;
