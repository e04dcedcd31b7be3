//! Steps of a solve on one thread: the interface of `steps::pcg` and `steps::rrb`, unfused or fused.

mod ends;
mod fused;
pub mod member;
mod textbook;
