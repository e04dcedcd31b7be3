//! What threads of a run do: the steps of `steps::pcg` and `steps::rrb`, textbook or fused.

mod ends;
mod fused;
pub mod member;
mod textbook;
