//! Sweeps on the device: Jacobi sweeps, and multicolour Gauss-Seidel and SOR sweeps.

use super::allocations::Allocations;
use super::matrix::GroupedRows;
use super::vectors::VectorSpec;
use crate::base::csr::Csr;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, DiagonalArgs, FinishKind, Reals, RowFinish};
use crate::error::Result;
use crate::sparse::backend::SweepParameters;
use crate::sparse::{CsrSlices, colour_rows, inverse_diagonal, sort_by_level};

const ALLOCATION_NAME: &str = "a relaxation on the device";

/// The sweeps of a matrix.
pub struct Relaxation {
    memory: Allocations,
    /// omega / a_ii of all rows.
    d: Address,
    /// The rows in csr, grouped by colour; `None` for Jacobi.
    rows_by_colour: Option<GroupedRows>,
}

impl Relaxation {
    pub fn new(stream: &Stream, a: &Csr<u32>, parameters: &SweepParameters, f32_values: bool) -> Result<Self> {
        let (mut memory, mut d) = (Allocations::new(ALLOCATION_NAME), inverse_diagonal(a)?);
        d.iter_mut().for_each(|d| *d *= parameters.omega);
        let d = memory.copy_of_reals(stream, &d, f32_values)?;
        let rows_by_colour = if parameters.is_jacobi {
            None
        } else {
            let (colour, colour_count) = colour_rows(a)?;
            let (rows, group_starts) = sort_by_level(&colour, colour_count)?;
            let csr_slices = CsrSlices { ptr: &a.ptr, col: &a.col, val: &a.val };
            Some(GroupedRows::new(stream, csr_slices, (&rows, &group_starts), Reals::of(f32_values, f32_values))?)
        };
        Ok(Self { memory, d, rows_by_colour })
    }

    /// Returns the number of colours; 0 for Jacobi.
    pub fn colour_count(&self) -> usize {
        self.rows_by_colour.as_ref().map_or(0, GroupedRows::group_count)
    }

    /// Returns whether a sweep reads r = b - A x. Only Jacobi does.
    pub fn needs_residual(&self) -> bool {
        self.rows_by_colour.is_none()
    }

    /// Computes one sweep on x. If [`Self::needs_residual`], r must be the residual of x; otherwise, r is not used.
    pub fn sweep(&self, stream: &Stream, spec: VectorSpec, [x, b, r]: [Address; 3]) -> Result<()> {
        let Some(rows_by_colour) = &self.rows_by_colour else {
            let (count, d) = (spec.rows as i64, self.d);
            let args = DiagonalArgs { count, d, v: r, out: x, factor: 1.0, ..DiagonalArgs::default() };
            return launch::add_scaled_by_diagonal(stream, spec.f32_values, &args);
        };
        let finish = RowFinish { kind: FinishKind::Relax as i32, b, d: self.d, out: x, ..RowFinish::default() };
        (0..rows_by_colour.group_count()).try_for_each(|colour| rows_by_colour.multiply(stream, colour, x, finish))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes() + self.rows_by_colour.as_ref().map_or(0, GroupedRows::bytes)
    }
}
