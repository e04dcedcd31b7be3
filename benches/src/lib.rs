//! The benchmark of rrbsolver, as a library for the program `rrbsolver-bench` and for the one that draws.

pub mod bathymetry;
pub mod commands;
pub mod contest;
pub mod cost;
pub mod device;
pub mod hypre;
pub mod iccg;
pub mod iccg_3d;
mod isa;
pub mod machine;
pub mod march;
pub mod mesh;
pub mod overhead;
pub mod page;
pub mod problem;
pub mod record;
pub mod smoother;
mod smoother_cores;
mod smoother_device;
pub mod solver;
pub mod sparse;
pub mod stages;
pub mod stream;
pub mod suite;
pub mod sweeps;
pub mod timing;
pub mod two_phase;
