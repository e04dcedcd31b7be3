//! Stencil solvers and sparse solvers for simulation programs, with a C ABI.
//!
//! The public interface consists of the C header, and of a Fortran module and a C++ header that use the C functions.
//! From Rust, [`abi`] provides the same functions. One folder per method contains its mathematics, its loops for the
//! CPU, its launches for a device, and its entry points (docs/development/architecture.md).

pub mod abi;
pub mod error;
pub mod options;

mod aggregation;
mod base;
mod cuda;
mod deflation;
mod direct;
mod distributed;
mod dpcg;
mod files;
mod krylov;
mod report;
mod rrb;
mod smoother;
mod sparse;
mod stencil;

/// Internal items for the benchmarks, the tools and the fuzz targets. They may change in any version.
#[doc(hidden)]
pub mod layers {
    pub use crate::base::machine::{Core, Machine};
    pub use crate::base::memory::check_available;
    pub use crate::base::workers::Workers;
    pub use crate::distributed::threads;
    pub use crate::files::write::write as write_matrix;
    pub use crate::files::{Loaded, parse as parse_matrix};
    pub use crate::krylov::pcg::{
        MeansChange, OtherPreconditioner, PcgSteps, Properties, unfused_ascend, unfused_descend,
    };
    pub use crate::krylov::solve_steps::{Arrays, Criterion, EliminatedVector, Inputs, Load, SolveSteps, Timing};
    pub use crate::krylov::state::{State, TestCode};
    pub use crate::krylov::vectors::{Iterate, VectorId, VectorSteps};
    pub use crate::report::{Event, NoObserver, Outcome};
    pub use crate::rrb::{DEFAULT_SPACING, Rrb, choose_machine};
    pub use crate::stencil::levels::Grid;
    pub use crate::stencil::matrix::{GridArray, StencilView};
}
