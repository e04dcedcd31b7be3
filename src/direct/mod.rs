//! Coarse grids and coarse matrices: RRB levels in natural storage, direct solvers, and the matrix E of deflation.

pub mod couplings;
pub mod envelope;
pub mod null_space;
pub mod solver;
