//! The steps of each family as traits, with provided bodies: the textbook.

pub mod cycle;
pub mod dpcg;
pub mod engine;
pub mod pcg;
pub mod rrb;
pub mod series;
pub mod smoother;
pub mod solve;
pub mod sparse;
pub mod vectors;
