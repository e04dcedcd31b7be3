//! Stencil solvers and sparse solvers for simulation programs, with a C ABI.
//!
//! The public interface consists of the C header and of the Fortran module and C++ header generated for it. From Rust,
//! [`ffi`] provides the same functions. Layers, from the top: `ffi`, `solver`, `backend`, `comm`, `grid` and `sparse`,
//! `runtime`. Every layer may use `error`, `isa`, `options`, `report` and `spectrum`, which depend on no layer except
//! for leaf modules of `runtime`.

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

/// Internal items for the benchmark, the tools and the fuzz targets. No promise of compatibility.
#[doc(hidden)]
pub mod layers {
    pub use crate::backend::steps::pcg::{Another, Means, PcgSteps, Properties, unfused_ascend, unfused_descend};
    pub use crate::backend::steps::solve::{Arrays, Criterion, Eliminated, Inputs, Load, SolveSteps, Timing};
    pub use crate::backend::steps::state::{Code, State};
    pub use crate::backend::steps::vectors::{Iterate, VectorId, VectorSteps};
    pub use crate::comm::threads;
    pub use crate::grid::levels::Grid;
    pub use crate::grid::stencil::{StencilView, View};
    pub use crate::report::{Event, Nobody, Outcome};
    pub use crate::runtime::memory::check_there;
    pub use crate::runtime::workers::Workers;
    pub use crate::solver::machine::{Core, Machine};
    pub use crate::solver::rrb::{Rrb, SPACING, machine};
    pub use crate::sparse::{Loaded, parse_matrix};
}
