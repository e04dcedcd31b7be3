//! A team of threads, a folder per family.

pub mod rrb;
pub mod smoother;
