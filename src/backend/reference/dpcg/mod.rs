//! Deflated PCG on 7 points: its preconditioners as plain loops.

pub mod cell;
pub mod incomplete;
