//! Sweeps on the device: Jacobi sweeps, and multicolour Gauss-Seidel and SOR sweeps.

use super::allocations::Allocations;
use super::matrix::Ordered;
use super::vectors::Vectors;
use crate::base::csr::Csr;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DiagonalArgs, FinishKind, Reals, RowFinish};
use crate::error::Result;
use crate::sparse::backend::SweepParameters;
use crate::sparse::{Rows, by_level, colours, inverse_diagonal};

const WHAT: &str = "a relaxation on the device";

/// The sweeps of a matrix.
pub struct Relaxation {
    memory: Allocations,
    /// omega / a_ii of all rows.
    d: Address,
    /// The rows by colour, or `None` for Jacobi.
    coloured: Option<Ordered>,
}

impl Relaxation {
    pub fn new(stream: &Stream, a: &Csr<u32>, wanted: &SweepParameters, f32_values: bool) -> Result<Self> {
        let (mut memory, mut d) = (Allocations::new(WHAT), inverse_diagonal(a)?);
        d.iter_mut().for_each(|d| *d *= wanted.omega);
        let d = memory.copy_of_reals(stream, &d, f32_values)?;
        let coloured = if wanted.simultaneous {
            None
        } else {
            let (colour, count) = colours(a)?;
            let (rows, groups) = by_level(&colour, count)?;
            let natural = Rows { ptr: &a.ptr, col: &a.col, val: &a.val };
            Some(Ordered::new(stream, natural, (&rows, &groups), Reals::of(f32_values, f32_values))?)
        };
        Ok(Self { memory, d, coloured })
    }

    /// Returns the number of colours; 0 for Jacobi.
    pub fn colours(&self) -> usize {
        self.coloured.as_ref().map_or(0, Ordered::count)
    }

    /// Returns whether a sweep needs r = b - A x.
    pub fn needs_residual(&self) -> bool {
        self.coloured.is_none()
    }

    /// Does one sweep on x. r is the residual of x if the sweep needs it.
    pub fn sweep(&self, stream: &Stream, of: Vectors, [x, b, r]: [Address; 3]) -> Result<()> {
        let Some(coloured) = &self.coloured else {
            let (count, d) = (of.rows as i64, self.d);
            let args = DiagonalArgs { count, d, v: r, out: x, factor: 1.0, ..DiagonalArgs::default() };
            return launch::add_scaled_by_diagonal(stream, of.f32_values, &args);
        };
        let finish = RowFinish { kind: FinishKind::Relax as i32, b, d: self.d, out: x, ..RowFinish::default() };
        (0..coloured.count()).try_for_each(|colour| coloured.multiply(stream, colour, x, finish))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes() + self.coloured.as_ref().map_or(0, Ordered::bytes)
    }
}
