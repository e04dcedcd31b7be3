//! Multigrid by aggregation (Napov and Notay 2012): a hierarchy over a general symmetric matrix, for any family, and
//! its cycle. Any order of the unknowns is taken; positive off-diagonals keep their sign but make no pairs.
//!
//! Each may use those before it: `couplings` (the matrix of a level), `quality` (of a union), `pairs` (aggregates),
//! `hierarchy`, `singular` (means), `smoother` (Gauss-Seidel, the coarsest solve), `cycle`.

mod couplings;
mod cycle;
mod hierarchy;
mod pairs;
mod quality;
mod singular;
mod smoother;
#[cfg(test)]
mod tests;

pub use cycle::Cycle;
pub use hierarchy::Hierarchy;
pub use pairs::Rules;
