//! Multigrid by aggregation (Napov and Notay 2012): a hierarchy over a general symmetric matrix, for any family. Any
//! order of the unknowns is taken; positive off-diagonals keep their sign but make no pairs. The cycle is a backend's.
//!
//! Each may use those before it: `couplings` (the matrix of a level), `quality` (of a union), `pairs`, `aggregates`,
//! `hierarchy`, `singular` (means), `factor` (of the coarsest), `order` (of sweeps), `choices` (of a cycle).

mod aggregates;
mod choices;
mod couplings;
mod factor;
mod hierarchy;
mod order;
mod pairs;
mod quality;
mod singular;

pub use aggregates::{KEPT, Rules};
pub use choices::{Choices, TwoSteps};
pub use couplings::{Couplings, NONE, WHAT, members};
pub use factor::Factor;
pub use hierarchy::{COARSEST, Hierarchy, Kept, MOST_INVERTED};
#[cfg(test)]
pub use order::Order;
pub use order::Ordered;
pub use singular::{Means, nearly_none};
