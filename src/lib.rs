//! Stencil solvers for simulators, behind a C ABI.
//!
//! The public interface is the C header, the Fortran module and the C++ header made for it; from Rust,
//! [`ffi`] holds the same functions. Layers, from the outside in: `ffi`, `solver`, `backend`, `comm`, `grid` and
//! `sparse`, `runtime`; `error`, `isa`, `options`, `report` and `spectrum` are leaves that every layer may use.

pub mod error;
pub mod ffi;
pub mod options;

mod backend;
mod comm;
mod grid;
mod isa;
mod report;
mod runtime;
mod solver;
mod sparse;
mod spectrum;

/// What the benchmark, the tools and the fuzz targets need from below the C ABI. No promise of compatibility.
#[doc(hidden)]
pub mod layers {
    pub use crate::backend::steps::pcg::{Centered, Course, LoopEnd, LoopTest, PcgSteps};
    pub use crate::backend::steps::solve::{Arrays, Begun, Inputs, SolveSteps};
    pub use crate::backend::steps::vectors::{VectorId, VectorSteps};
    pub use crate::comm::threads;
    pub use crate::grid::levels::Grid;
    pub use crate::grid::stencil::{StencilView, View};
    pub use crate::report::{Nobody, Outcome};
    pub use crate::runtime::memory::check_there;
    pub use crate::runtime::workers::Workers;
    pub use crate::solver::machine::{Core, Machine};
    pub use crate::solver::rrb::{Rrb, SPACING, machine};
    pub use crate::sparse::{Loaded, parse_matrix};
}
