//! Direct solver for symmetric matrices in row-sum form: the coarsest systems of all methods, and E of deflation.
//!
//! - `couplings`: the matrix.
//! - `null_space`: singular components and means over them.
//! - `envelope`: L D L^T within the envelope.
//! - `solver`: order of the rows, factorization, solution.

pub mod couplings;
pub mod envelope;
pub mod null_space;
pub mod solver;
