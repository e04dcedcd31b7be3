//! The benchmark of rrbsolver, as a library for the program and for the one that draws.

pub mod iccg;
mod isa;
pub mod solver;
pub mod stream;
pub mod timing;
