//! Arguments of a step of the dense inversion (kernels/common/inverse.cuh): Gauss-Jordan elimination by blocks of
//! `PIVOTS` unknowns.

use super::declare::Address;

include!(concat!(env!("OUT_DIR"), "/inverse.rs"));

/// Number of unknowns that a step eliminates.
pub const PIVOTS: i32 = 32;
/// Rows and columns of a tile of the matrix.
const SIDE: u32 = 64;

impl InverseArgs {
    /// Returns the number of blocks: one per tile, or one for the first block of pivots (step -1).
    pub(super) fn blocks(&self) -> u32 {
        if self.step < 0 { 1 } else { (self.n as u32).div_ceil(SIDE).pow(2) }
    }

    /// Launches all steps of the inversion of an n x n matrix in the first of two buffers. The inverse is in the first
    /// element of `buffers` afterwards. `pivots`: memory for two blocks of pivots.
    pub fn all_steps(
        (buffers, diagonal, pivots, n): (&mut [Address; 2], Address, Address, usize),
        launch: impl Fn(&Self) -> crate::error::Result<()>,
    ) -> crate::error::Result<()> {
        let n = n as i32;
        for step in -1..(n + PIVOTS - 1) / PIVOTS {
            let [from, to] = *buffers;
            launch(&Self { from, to, diagonal, pivots, n, step })?;
            if step >= 0 {
                buffers.reverse();
            }
        }
        Ok(())
    }
}
