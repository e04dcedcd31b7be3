//! Geometry and storage of two-dimensional stencil systems. Pure and safe: no threads, no devices.

pub mod components;
pub mod inspection;
pub mod layout;
pub mod levels;
pub mod stencil;
