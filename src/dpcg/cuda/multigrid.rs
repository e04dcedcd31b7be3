//! Scaling of residuals for multigrid in single precision: r is divided by a power of two near max |r|.

use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, ScaleArgs};
use crate::error::Result;

/// Addresses for the computation of the scaling factor.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Partial results, one per thread block.
    pub partial: Address,
    /// Addresses of 1 / s and s, where s is the power of two.
    pub scales: Address,
    pub scalars: Address,
}

impl Scale {
    /// Computes s from max |r|.
    pub fn find(&self, stream: &Stream, r: Address, count: i64) -> Result<()> {
        let Self { partial, scales, scalars } = *self;
        launch::cell_scale(stream, &ScaleArgs { count, v: r, partial, scales, scalars })
    }
}
