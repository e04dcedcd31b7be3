//! The coarsest grids: natural storage and the exact factor.

pub mod band;
pub mod deflation;
pub mod direct;
mod envelope;
pub mod levels;
