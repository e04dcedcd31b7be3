//! Stencil solvers for simulators, behind a C ABI.
//!
//! The public interface is the C header, the Fortran module and the C++ header made for it; from Rust,
//! [`ffi`] holds the same functions. Layers, from the outside in: `ffi`, `solver`, `backend`, `grid`;
//! `error`, `options`, `report` and `spectrum` are leaves that every layer may use.

pub mod error;
pub mod ffi;
pub mod options;

mod backend;
mod grid;
mod report;
mod solver;
mod spectrum;
