//! Boxes of cells by a team of threads.

pub mod vertex;
