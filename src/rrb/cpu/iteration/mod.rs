//! Steps of a solve on one thread: the traits of `krylov`, unfused or fused.

mod fused;
pub mod solve;
mod textbook;
pub mod thread;
