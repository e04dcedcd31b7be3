//! Services without mathematics that all families use: thread teams, memory, reductions whose results do not depend on
//! the number of threads, SIMD vectors, and the floating-point mode.

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
