//! Preconditioners of 3D 7-point systems in plain loops.

pub mod vertex;
