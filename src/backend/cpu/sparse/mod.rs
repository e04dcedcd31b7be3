//! General sparse matrices by a team of threads.

#![allow(dead_code)] // until the solver uses it

pub mod chunks;
pub mod precondition;
