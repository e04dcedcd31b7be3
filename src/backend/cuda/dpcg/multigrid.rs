//! What both multigrids have: residuals go to the coarse grids divided by a power of two near the largest value, which
//! a short format holds.

use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, ScaleArgs};
use crate::error::Result;

/// Where that is found.
#[derive(Clone, Copy)]
pub struct Scale {
    /// A value a block.
    pub partial: Address,
    /// 1 / s and s.
    pub scales: Address,
    pub scalars: Address,
}

impl Scale {
    /// Of max |r|.
    pub fn find(&self, stream: &Stream, r: Address, count: i64) -> Result<()> {
        let Self { partial, scales, scalars } = *self;
        launch::cell_scale(stream, &ScaleArgs { count, v: r, partial, scales, scalars })
    }
}
