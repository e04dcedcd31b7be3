//! A team of threads, a folder per family.

pub mod dpcg;
pub mod rrb;
pub mod smoother;
pub mod sparse;
