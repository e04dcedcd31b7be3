//! Multigrid by aggregation on a device. The parent module describes the method, and kernels/aggregation contains the
//! kernels. `setup` builds the levels. It pairs two rows if each selects the other as its partner (handshake).
//! `multigrid` owns the levels and the workspace for the next matrix. This module executes the cycle z = B r with
//! Jacobi smoothing and two Chebyshev steps, so that the operator B is a fixed matrix. No loop over rows runs on the
//! host, and no scalar of a cycle is copied to the host.

mod multigrid;
pub mod setup;

pub use crate::aggregation::cuda::setup::{COARSEST_ROWS, MatrixShape};
pub use multigrid::AggregationMultigrid;

use crate::aggregation::ChebyshevSteps;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::Address;
use crate::cuda::launch::aggregation::{
    AscendArgs, CoarsestArgs, DescendArgs, Level, SubtractArgs, ascend, descend, solve_coarsest, subtract,
};
use crate::error::Result;

/// The cycle of a matrix.
pub struct Cycle {
    launches: CycleLaunches,
    memory_blocks: Vec<Option<Memory>>,
    /// Number of aggregates of all levels that were reused from the previous matrix.
    reused_aggregate_count: usize,
}

/// Arguments of the launches of a cycle. If the arguments of two cycles are equal, a graph recorded for one cycle is
/// valid for the other.
#[derive(PartialEq)]
pub struct CycleLaunches {
    /// Whether the cycle uses single precision.
    is_single_precision: bool,
    levels: Vec<Level>,
    /// Address of the inverse of the coarsest matrix. It is 0 if the matrix is too large to be inverted. Two Jacobi
    /// steps then approximate the solution.
    inverse: Address,
    /// Power of two by which A is multiplied.
    scale: f64,
}

impl CycleLaunches {
    /// Returns the first level. Its `r` and `first_iterate` are the input of the cycle. The output is its `z`, an
    /// approximation of (scale A)^-1 r, because the levels contain the scaled matrix.
    pub fn first_level(&self) -> &Level {
        &self.levels[0]
    }

    /// Returns the number of levels below the first.
    pub fn coarse_level_count(&self) -> usize {
        self.levels.len() - 1
    }

    #[cfg(test)]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub fn is_single_precision(&self) -> bool {
        self.is_single_precision
    }

    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Computes z of the first level from its r (`first_level`).
    pub fn apply(&self, stream: &Stream) -> Result<()> {
        self.solve(stream, 0)
    }

    /// Computes out = B r on level k. If `weights` is (w, w'), computes out = w v + w' B r instead, where v is the
    /// vector `Level::c`.
    fn run_cycle(&self, stream: &Stream, k: usize, out: Address, weights: Option<(f64, f64)>) -> Result<()> {
        let (level, coarse) = (self.levels[k], self.levels[k + 1]);
        descend(stream, self.is_single_precision, &DescendArgs { fine: level, coarse })?;
        self.solve(stream, k + 1)?;
        let (first_weight, second_weight) = weights.unwrap_or((0.0, 1.0));
        ascend(
            stream,
            self.is_single_precision,
            &AscendArgs { level, coarse_z: coarse.z, out, first_weight, second_weight },
        )
    }

    /// Computes z, an approximation of A^-1 r, on level k, where A is the matrix of this level. May overwrite r.
    fn solve(&self, stream: &Stream, k: usize) -> Result<()> {
        let level = self.levels[k];
        if k + 1 == self.levels.len() {
            let jacobi_step = AscendArgs { level, coarse_z: 0, out: level.z, first_weight: 0.0, second_weight: 1.0 };
            return match self.inverse {
                0 => ascend(stream, self.is_single_precision, &jacobi_step),
                inverse => solve_coarsest(stream, self.is_single_precision, &CoarsestArgs { level, inverse }),
            };
        }
        if level.uses_two_cycles == 0 {
            return self.run_cycle(stream, k, level.z, None);
        }
        // AMLI-cycle: two Chebyshev steps.
        let ChebyshevSteps { residual_factor, first_weight, second_weight } = ChebyshevSteps::COEFFICIENTS;
        self.run_cycle(stream, k, level.c, None)?;
        subtract(stream, self.is_single_precision, &SubtractArgs { level, factor: residual_factor })?;
        self.run_cycle(stream, k, level.z, Some((first_weight, second_weight)))
    }
}
