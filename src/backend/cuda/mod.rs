//! A CUDA device, a folder per family: `driver` has the calls of the driver, `launch` the kernels (kernels/, compiled
//! ahead of time into the library), `aggregation` a cycle for any family, `staging` the copies of arrays of the host,
//! `session` what handles of all families have of a device, `call` the caller's arrays of one run, `looped` the loop of
//! PCG.

mod aggregation;
mod call;
pub mod dpcg;
pub mod driver;
mod launch;
mod looped;
mod plan;
pub mod rrb;
mod session;
pub mod smoother;
mod staging;
