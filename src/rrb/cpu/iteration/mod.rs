//! Steps of a solve, as one thread executes them. They implement the traits of `krylov` in unfused and in fused form.

mod fused;
pub mod solve;
pub mod thread;
mod unfused;
