//! Arguments of a step of the dense inversion (kernels/common/inverse.cuh): Gauss-Jordan elimination by blocks of
//! `PIVOTS` unknowns.

use super::declare::Address;

include!(concat!(env!("OUT_DIR"), "/inverse.rs"));

/// Number of unknowns that a step eliminates.
pub const PIVOTS: i32 = 32;
/// Largest number of unknowns of a coarsest matrix: one thread per unknown finds the null vectors.
pub const MAX_UNKNOWNS: u32 = 1024;
/// Rows and columns of a tile of the matrix.
const TILE_SIDE: u32 = 64;

impl InverseArgs {
    /// Returns the number of thread blocks: one per tile. Step -1, which only inverts the first pivot block, needs a
    /// single thread block.
    pub(super) fn blocks(&self) -> u32 {
        if self.step < 0 { 1 } else { (self.n as u32).div_ceil(TILE_SIDE).pow(2) }
    }
}
