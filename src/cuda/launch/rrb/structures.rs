//! The structures that the kernels of kernels/rrb receive, translated by build.rs from the CUDA headers.

use crate::cuda::launch::Address;
use crate::cuda::launch::aggregation::Couplings;
use crate::rrb::anisotropy::WINDOWS_PER_SIDE;

/// Largest number of grids of one cooperative kernel.
pub const MAX_GRIDS: usize = 10;
/// Largest number of grids that are tested for weak remaining couplings and for tiles of equal rows.
pub const MAX_TESTED_GRIDS: usize = 16;
/// Number of entries in the ring buffer of iterations; the loop pauses when the buffer is full.
pub const RING_LENGTH: usize = 1024;

include!(concat!(env!("OUT_DIR"), "/rrb.rs"));
