//! Triangular solves on the device, for ssor, ic0 and ilu0: one launch per colour of the rows, forward and backward.

use super::allocations::Allocations;
use super::matrix::GroupedRows;
use super::vectors::VectorSpec;
use crate::base::csr::Csr;
use crate::cuda::driver::Stream;
use crate::cuda::launch::{Address, FinishKind, Reals, RowFinish, Sum};
use crate::cuda::vectors::without_result;
use crate::error::Result;
use crate::sparse::backend::{Preconditioning, Setup, SetupResult};
use crate::sparse::{
    CsrPart, CsrSlices, Factors, TriangularSplit, colour_rows, compute_factors_in_order, sort_by_level,
};

/// M^-1 = (I + U)^-1 G (I + L)^-1 ([`TriangularSplit`]), and M^-T if it is requested and differs from M^-1. Rows of the
/// same colour are not coupled, so one launch computes all of them.
pub struct TriangularSolver {
    memory: Allocations,
    /// Diagonal of G.
    g_diagonal: Address,
    /// L and U, with rows grouped by colour.
    factors: [GroupedRows; 2],
    /// L and U of M^-T, with rows grouped by colour; `None` if M^-T is not requested, or if M is symmetric.
    transposed: Option<[GroupedRows; 2]>,
}

impl TriangularSolver {
    /// Computes the factors on the host and copies them to the device.
    pub fn new(
        stream: &Stream,
        a: &Csr<u32>,
        setup: &Setup,
        preconditioning: &Preconditioning,
    ) -> Result<(Self, SetupResult)> {
        let (colour, colour_count) = colour_rows(a)?;
        let (rows, group_starts) = sort_by_level(&colour, colour_count)?;
        let Factors { split, shift, nonpositive_pivot } = compute_factors_in_order(a, &rows, preconditioning)?;
        let reals = Reals::of(setup.stores_m_in_f32, setup.stores_vectors_in_f32);
        let upload = |t: &CsrPart<u32>| {
            let csr_slices = CsrSlices { ptr: &t.ptr, col: &t.col, val: &t.val };
            GroupedRows::new(stream, csr_slices, (&rows, &group_starts), reals)
        };
        let upload_both = |split: &TriangularSplit<u32>| Ok([upload(&split.lower)?, upload(&split.upper)?]);
        let transposed = match setup.needs_transpose && !preconditioning.is_symmetric(setup.is_symmetric) {
            true => Some(upload_both(&split.transposed()?)?),
            false => None,
        };
        let mut memory = Allocations::new("the factors of a preconditioner on the device");
        let g_diagonal = memory.copy_of_reals(stream, &split.g_diagonal, setup.stores_vectors_in_f32)?;
        let result =
            SetupResult { shift, nonpositive_pivot, level_count: colour_count, colour_count, ..SetupResult::default() };
        Ok((Self { factors: upload_both(&split)?, memory, g_diagonal, transposed }, result))
    }

    /// Computes z = M^-1 r, or z = M^-T r, and <r, z> if `sum` requests a sum.
    pub fn apply(
        &self,
        stream: &Stream,
        spec: VectorSpec,
        [r, z]: [Address; 2],
        transposed: bool,
        sum: Sum,
    ) -> Result<()> {
        let [lower, upper] = self.transposed.as_ref().filter(|_| transposed).unwrap_or(&self.factors);
        let finish = RowFinish { b: r, d: self.g_diagonal, out: z, sum: without_result(sum), ..RowFinish::default() };
        let last_colour = lower.group_count() - 1;
        let forward = RowFinish { kind: FinishKind::Residual as i32, ..finish };
        // L has no entries in the rows of the first colour, so the solution y of (I + L) y = r equals r in these rows.
        // With one or two colours, the launch for the last colour reads no other values of y. It can read them from r,
        // so the forward solve needs no other launch.
        let (colours, y) = if last_colour < 2 { (0..0, r) } else { (0..last_colour, z) };
        for colour in colours {
            lower.multiply(stream, colour, z, forward)?;
        }
        // The launch for the last colour also multiplies by G. The result is z in the rows of this colour, because U
        // has no entries in these rows.
        lower.multiply(stream, last_colour, y, RowFinish { kind: FinishKind::ScaledResidual as i32, ..finish })?;
        let backward = RowFinish { kind: FinishKind::ScaleRhs as i32, ..finish };
        (0..last_colour).rev().try_for_each(|colour| {
            upper.multiply(stream, colour, z, RowFinish { b: if colour == 0 { r } else { z }, ..backward })
        })?;
        spec.dot(stream, [r, z], sum)
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        let all_factors = self.factors.iter().chain(self.transposed.iter().flatten());
        self.memory.bytes() + all_factors.map(GroupedRows::bytes).sum::<usize>()
    }
}
