//! A team of threads, a folder per family; `caller`: the caller's arrays in a run; `observed`: what its members find
//! out together.

mod aggregation;
mod caller;
pub mod dpcg;
mod observed;
pub mod rrb;
pub mod smoother;
pub mod sparse;
