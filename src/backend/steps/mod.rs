//! Traits with the steps of each family. Provided bodies are the reference formulation of a step.

pub mod cycle;
pub mod dpcg;
pub mod engine;
pub mod pcg;
pub mod rrb;
pub mod series;
pub mod smoother;
pub mod solve;
pub mod sparse;
pub mod state;
pub mod vectors;
