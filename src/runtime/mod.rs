//! What all families run on, without mathematics: threads, memory, sums of fixed shape, loops over lanes, the
//! floating-point mode.

pub mod file;
pub mod heap;
pub mod lanes;
pub mod memory;
pub mod number;
pub mod pages;
pub mod processes;
pub mod reduce;
pub mod shared;
pub mod team;
mod thread;
pub mod traps;
pub mod workers;
