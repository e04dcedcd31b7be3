//! Services without mathematics that all families use: thread teams, memory, reductions of fixed shape, vector lanes,
//! and the floating-point mode.

pub mod cores;
pub mod csr;
pub mod engine;
pub mod file;
pub mod heap;
pub mod index;
pub mod isa;
pub mod lanes;
pub mod loops;
pub mod machine;
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
