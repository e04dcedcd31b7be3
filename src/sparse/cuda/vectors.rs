//! Length and precision of the vectors of a factorization, and their inner product.

use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, Sum, VectorArgs};
use crate::cuda::vectors::vector_args;
use crate::error::Result;

/// Length and precision of the vectors. The vectors x and b are always in f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorSpec {
    pub rows: usize,
    /// Whether all vectors except x and b are in f32.
    pub f32_values: bool,
}

impl VectorSpec {
    /// Returns the size in bytes of a vector other than x and b.
    pub fn bytes(self) -> usize {
        self.rows * if self.f32_values { size_of::<f32>() } else { size_of::<f64>() }
    }

    /// Computes <a, b>, if `sum` requests a sum.
    pub fn dot(self, stream: &Stream, [a, b]: [Address; 2], sum: Sum) -> Result<()> {
        if sum.partial == 0 {
            return Ok(());
        }
        launch::vector_dot(stream, self.f32_values, &VectorArgs { b, sum, ..vector_args(self.rows, a, 0, 1.0) })
    }
}
