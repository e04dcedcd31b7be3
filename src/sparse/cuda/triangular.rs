//! Triangular solves on the device, for ssor, ic0 and ilu0: one launch per colour of the rows, forward and backward.

use super::allocations::Allocations;
use super::matrix::Ordered;
use super::vectors::Vectors;
use crate::base::csr::Csr;
use crate::cuda::driver::Stream;
use crate::cuda::launch::{Address, FinishKind, Reals, RowFinish, Sum};
use crate::cuda::vectors::without_result;
use crate::error::Result;
use crate::sparse::backend::{Preconditioning, Setup, SetupResult};
use crate::sparse::{Factors, Part, Rows, Split, by_level, colours, factors_in_order};

/// M^-1 = (I + U)^-1 G (I + L)^-1 ([`Split`]), and M^-T if it is requested and differs from M^-1. Rows of the same
/// colour are not coupled, so one launch computes all of them.
pub struct TriangularSolver {
    memory: Allocations,
    /// Diagonal of G.
    scale: Address,
    /// L and U by colours of the rows.
    own: [Ordered; 2],
    /// L and U of M^-T.
    transposed: Option<[Ordered; 2]>,
}

impl TriangularSolver {
    /// Computes the factors on the host and copies them to the device.
    pub fn new(stream: &Stream, a: &Csr<u32>, setup: &Setup, wanted: &Preconditioning) -> Result<(Self, SetupResult)> {
        let (colour, count) = colours(a)?;
        let (rows, groups) = by_level(&colour, count)?;
        let Factors { split, shift, pivot } = factors_in_order(a, &rows, wanted)?;
        let reals = Reals::of(setup.f32_values, setup.single_vectors);
        let upload = |t: &Part<u32>| {
            let natural = Rows { ptr: &t.ptr, col: &t.col, val: &t.val };
            Ordered::new(stream, natural, (&rows, &groups), reals)
        };
        let both = |split: &Split<u32>| Ok([upload(&split.lower)?, upload(&split.upper)?]);
        let transposed = match setup.transposes && !wanted.is_symmetric(setup.symmetric) {
            true => Some(both(&split.transposed()?)?),
            false => None,
        };
        let mut memory = Allocations::new("the factors of a preconditioner on the device");
        let scale = memory.copy_of_reals(stream, &split.scale, setup.single_vectors)?;
        let result = SetupResult { shift, pivot, levels: count, colours: count, ..SetupResult::default() };
        Ok((Self { own: both(&split)?, memory, scale, transposed }, result))
    }

    /// Computes to = M^-1 from, or to = M^-T from, and the sum <from, to>.
    pub fn apply(
        &self,
        stream: &Stream,
        of: Vectors,
        [from, to]: [Address; 2],
        transposed: bool,
        sum: Sum,
    ) -> Result<()> {
        let [lower, upper] = self.transposed.as_ref().filter(|_| transposed).unwrap_or(&self.own);
        let finish = RowFinish { b: from, d: self.scale, out: to, sum: without_result(sum), ..RowFinish::default() };
        let last = lower.count() - 1;
        let forward = RowFinish { kind: FinishKind::Residual as i32, ..finish };
        // L has no entries in the rows of the first colour, so (I + L)^-1 does not change their values. With one or two
        // colours, the last colour reads only these values, and reads them from `from`.
        let (colours, y) = if last < 2 { (0..0, from) } else { (0..last, to) };
        for colour in colours {
            lower.multiply(stream, colour, to, forward)?;
        }
        // This launch also multiplies by G. The result is final, because U has no entries in the rows of the last
        // colour.
        lower.multiply(stream, last, y, RowFinish { kind: FinishKind::Lower as i32, ..finish })?;
        let backward = RowFinish { kind: FinishKind::Scaled as i32, ..finish };
        (0..last).rev().try_for_each(|colour| {
            upper.multiply(stream, colour, to, RowFinish { b: if colour == 0 { from } else { to }, ..backward })
        })?;
        of.dot(stream, [from, to], sum)
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        let parts = self.own.iter().chain(self.transposed.iter().flatten());
        self.memory.bytes() + parts.map(Ordered::bytes).sum::<usize>()
    }
}
