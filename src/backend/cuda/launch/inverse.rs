//! What a step of an inversion takes: kernels/common/inverse.cuh.

use super::declare::Address;
use crate::backend::cuda::driver::Argument;
use bytemuck::AnyBitPattern;

/// Unknowns of a step, and along a tile of the matrix.
pub const PIVOTS: i32 = 32;
const SIDE: u32 = 64;

structures! {
    InverseArgs { from: Address, to: Address, diagonal: Address, pivots: Address, n: i32, step: i32 }
}

impl InverseArgs {
    /// A block for each tile; the first pivots are one block's.
    pub(super) fn blocks(&self) -> u32 {
        if self.step < 0 { 1 } else { (self.n as u32).div_ceil(SIDE).pow(2) }
    }

    /// All steps of an inversion of n x n values in the first of two buffers; `launch` does each. The inverse is in
    /// the first one at the end. `pivots`: room for two blocks of them.
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
