//! Coarse grids and coarse matrices: RRB levels in natural storage, direct solvers, and the matrix E of deflation.

pub mod band;
pub mod deflation;
pub mod direct;
mod envelope;
pub mod levels;
