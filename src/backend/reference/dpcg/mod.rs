//! Deflated PCG on 7 points: its preconditioners as plain loops.

pub mod cell;
pub mod coarsest;
pub mod grids;
pub mod incomplete;
pub mod points;
