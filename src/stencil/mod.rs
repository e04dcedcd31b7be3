//! Geometry and storage of stencil systems on 2D grids and on boxes of cells: safe code without threads and devices.

pub mod cell_components;
pub mod cell_inspection;
pub mod cells;
pub mod coarsening;
pub mod components;
pub mod inspection;
pub mod joined;
pub mod levels;
pub mod matrix;
pub mod outward;
pub mod pieces;
pub mod residual;
mod runs;
