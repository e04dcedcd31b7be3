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
    CoarsestArgs, DescendArgs, Level, SmoothArgs, SubtractArgs, descend, smooth, solve_coarsest, subtract,
};
use crate::error::Result;

/// Weights of the two Jacobi steps on the finest level, 2 - 2 / sqrt(5) and 2 + 2 / sqrt(5). With S from
/// kernels/aggregation/cycle.cuh (`convert_rows`), the steps multiply the error by p(S^-1 A),
///
/// ```text
/// p(l) = 1 - 4 l + 16/5 l^2,   |p(l)| < 1 for 0 < l <= 1.
/// ```
///
/// p is a Chebyshev polynomial of the fourth kind, which requires no lower bound of the eigenvalues (Lottes 2023). No
/// weight may exceed `MAX_STEP_WEIGHT` of cycle.cuh.
const FINEST_STEP_WEIGHTS: [f64; 2] = [1.105_572_809_000_084, 2.894_427_190_999_916];
/// Weight of the only Jacobi step on a coarse level. docs/development/experiments.md compares weights.
const COARSE_STEP_WEIGHT: f64 = 1.65;
/// Ratio of the weights of the second and the first step on the finest level. `Level::jacobi_factor` contains the
/// factors of the first step.
const SECOND_STEP_FACTOR: f64 = FINEST_STEP_WEIGHTS[1] / FINEST_STEP_WEIGHTS[0];

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
    /// Returns the first level. Its `r` and `first_iterate` are the input of the cycle, which overwrites
    /// `first_iterate`. The output is its `z`, an approximation of (scale A)^-1 r, because the levels contain the
    /// scaled matrix.
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

    /// Computes z of the first level from its r (`first_level`). The second smoothing step has the same arguments
    /// before and after the coarse correction: it reads `first_iterate` and writes z. The first step after the coarse
    /// correction therefore reads z and writes `first_iterate`.
    pub fn apply(&self, stream: &Stream) -> Result<()> {
        let level = *self.first_level();
        let second_step = SmoothArgs { step_factor: SECOND_STEP_FACTOR, ..smoothing_step(level, level.z) };
        let Some(&coarse) = self.levels.get(1) else { return self.solve_coarsest(stream, &second_step) };
        smooth(stream, self.is_single_precision, &second_step)?;
        descend(stream, self.is_single_precision, &DescendArgs { fine: level, coarse, iterate: level.z })?;
        self.solve(stream, 1)?;
        let first_step =
            SmoothArgs { iterate: level.z, coarse_z: coarse.z, ..smoothing_step(level, level.first_iterate) };
        smooth(stream, self.is_single_precision, &first_step)?;
        smooth(stream, self.is_single_precision, &second_step)
    }

    /// Computes out = B r on coarse level k. If `weights` is (w, w'), computes out = w v + w' B r instead, where v is
    /// the vector `Level::c`.
    fn run_cycle(&self, stream: &Stream, k: usize, out: Address, weights: Option<(f64, f64)>) -> Result<()> {
        let (level, coarse) = (self.levels[k], self.levels[k + 1]);
        descend(stream, self.is_single_precision, &DescendArgs { fine: level, coarse, iterate: level.first_iterate })?;
        self.solve(stream, k + 1)?;
        let (first_weight, second_weight) = weights.unwrap_or_default();
        let step = SmoothArgs { coarse_z: coarse.z, first_weight, second_weight, ..smoothing_step(level, out) };
        smooth(stream, self.is_single_precision, &step)
    }

    /// Computes z, an approximation of A^-1 r, on coarse level k, where A is the matrix of this level. May overwrite r.
    fn solve(&self, stream: &Stream, k: usize) -> Result<()> {
        let level = self.levels[k];
        if k + 1 == self.levels.len() {
            return self.solve_coarsest(stream, &smoothing_step(level, level.z));
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

    /// Computes z, an approximation of A^-1 r, on the coarsest level. If there is no inverse, executes `second_step`
    /// after the step from zero.
    fn solve_coarsest(&self, stream: &Stream, second_step: &SmoothArgs) -> Result<()> {
        match self.inverse {
            0 => smooth(stream, self.is_single_precision, second_step),
            inverse => {
                let arguments = CoarsestArgs { level: second_step.level, inverse };
                solve_coarsest(stream, self.is_single_precision, &arguments)
            }
        }
    }
}

/// Returns the arguments of a smoothing step from `level.first_iterate` to `out`, with the factors of the level.
fn smoothing_step(level: Level, out: Address) -> SmoothArgs {
    SmoothArgs { level, iterate: level.first_iterate, out, step_factor: 1.0, ..SmoothArgs::default() }
}
