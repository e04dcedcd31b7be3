//! A team of threads, a folder per family; `caller`: the caller's arrays in a run.

mod aggregation;
mod caller;
pub mod dpcg;
pub mod rrb;
pub mod smoother;
pub mod sparse;
