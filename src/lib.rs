//! Stencil solvers for simulators, behind a C ABI.
//!
//! The public interface is the C header, the Fortran module and the C++ header made for it; from Rust,
//! [`ffi`] holds the same functions. Layers, from the outside in: `ffi`, `solver`, `backend`, `grid`;
//! `error`, `heap`, `isa`, `options`, `report`, `spectrum` and `traps` are leaves that every layer may use.

pub mod error;
pub mod ffi;
pub mod options;

mod backend;
mod grid;
mod heap;
mod isa;
mod report;
mod solver;
mod spectrum;
mod traps;

/// What the benchmark needs from below the C ABI. No promise of compatibility.
#[doc(hidden)]
pub mod layers {
    pub use super::backend::{Arrays, Begun, Inputs, LoopEnd, LoopTest, PcgSteps, RrbSteps};
    pub use super::grid::levels::Grid;
    pub use super::grid::stencil::{StencilView, View};
    pub use super::report::{Nobody, Outcome};
    pub use super::solver::rrb::{BackendKind, Rrb, SPACING, choose_backend};
}
