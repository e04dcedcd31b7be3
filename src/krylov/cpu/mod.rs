//! Modules for runs on the CPU, which several families use:
//!
//! - `caller`: the caller's arrays;
//! - `observed`: inspected inputs and stop request;
//! - `chunks`: rows of a thread;
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
