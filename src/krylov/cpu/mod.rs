//! Modules for runs on the CPU, which several families use:
//!
//! - `caller`: the user's arrays;
//! - `observed`: result of the inspection of the inputs, and stop request;
//! - `chunks`: division of the rows among threads;
//! - `means`: sums and means over singular components;
//! - `workspace`: numbered vectors;
//! - `steps`, `solve`: the steps on numbered vectors, for families that supply a matrix and a preconditioner.

pub mod caller;
pub mod chunks;
pub mod means;
pub mod observed;
pub mod solve;
pub mod steps;
pub mod workspace;
