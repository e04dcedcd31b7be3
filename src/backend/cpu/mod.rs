//! A team of threads, a room per family.

pub mod rrb;
pub mod smoother;
