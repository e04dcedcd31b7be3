//! Steps of a solve on one thread: the interface of `steps::pcg` and `steps::rrb`, unfused or fused.

mod fused;
pub mod solve;
mod textbook;
pub mod thread;
