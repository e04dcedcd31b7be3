//! CPU backend: a team of threads, with one folder per family. `caller`: the caller's arrays during a run; `observed`:
//! inspected inputs and stop request, which the threads share.

mod aggregation;
mod caller;
pub mod dpcg;
mod observed;
pub mod rrb;
pub mod smoother;
pub mod sparse;
