//! Geometry and storage of stencil systems on grids and patches: safe code without threads and devices.

pub mod anisotropy;
pub mod block_inverse;
pub mod boxes;
pub mod cell_components;
pub mod cell_inspection;
pub mod cell_survey;
pub mod cells;
pub mod coarsening;
pub mod components;
pub mod inspection;
pub mod joined;
pub mod layout;
pub mod levels;
pub mod outward;
pub mod patches;
pub mod regions;
mod runs;
pub mod stencil;
pub mod strips;
