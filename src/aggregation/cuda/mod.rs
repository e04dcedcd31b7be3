//! Multigrid by aggregation on a device. The parent module describes the method, and kernels/aggregation contains the
//! kernels. `setup` builds the levels; it pairs rows by handshakes. `engine` owns the levels and the workspace for the
//! next matrix. This module executes the cycle with Jacobi smoothing and two Chebyshev steps, so that B is a fixed
//! matrix. No loop over rows runs on the host, and no scalar of a cycle is copied to the host.

mod engine;
pub mod setup;

pub use crate::aggregation::cuda::setup::{COARSEST, Shape};
pub use engine::Engine;

use crate::aggregation::ChebyshevSteps;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::Address;
use crate::cuda::launch::aggregation::{
    AscendArgs, CoarsestArgs, DescendArgs, Level, SubtractArgs, ascend, descend, solve_coarsest, subtract,
};
use crate::error::Result;

/// The cycle of a matrix.
pub struct Cycle {
    launched: Launched,
    memory: Vec<Option<Memory>>,
    /// Number of aggregates of all levels that were reused from the previous matrix.
    reused_aggregates: usize,
}

/// Arguments of the launches of a cycle. If the arguments of two cycles are equal, a graph recorded for one cycle is
/// valid for the other.
#[derive(PartialEq)]
pub struct Launched {
    /// Whether the cycle uses single precision.
    single: bool,
    levels: Vec<Level>,
    /// Address of the inverse of the coarsest matrix. It is 0 if the matrix is too large to be inverted. Two Jacobi
    /// steps then replace the solution.
    inverse: Address,
    /// Power of two by which A is multiplied.
    scale: f64,
}

impl Launched {
    /// Returns the first level. Its `r` and `start` are the input of the cycle. The output is its `z`, an approximation
    /// of A^-1 r divided by the scale, because the levels contain the scaled matrix.
    pub fn first(&self) -> &Level {
        &self.levels[0]
    }

    /// Returns the number of levels below the first.
    pub fn coarse_levels(&self) -> usize {
        self.levels.len() - 1
    }

    #[cfg(test)]
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    pub fn single(&self) -> bool {
        self.single
    }

    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Computes z of the first level from its r (`first`).
    pub fn apply(&self, stream: &Stream) -> Result<()> {
        self.solve(stream, 0)
    }

    /// Computes out = B r on level k. If `c` contains coefficients (first, second), computes out = first v + second B r
    /// instead, where v is the vector `Level::c`.
    fn cycle(&self, stream: &Stream, k: usize, out: Address, c: Option<(f64, f64)>) -> Result<()> {
        let (own, coarse) = (self.levels[k], self.levels[k + 1]);
        descend(stream, self.single, &DescendArgs { fine: own, coarse })?;
        self.solve(stream, k + 1)?;
        let (first, second) = c.unwrap_or((0.0, 1.0));
        ascend(stream, self.single, &AscendArgs { level: own, coarse_z: coarse.z, out, first, second })
    }

    /// Computes z, an approximation of A^-1 r, on level k, where A is the matrix of this level. May overwrite r.
    fn solve(&self, stream: &Stream, k: usize) -> Result<()> {
        let own = self.levels[k];
        if k + 1 == self.levels.len() {
            let alone = AscendArgs { level: own, coarse_z: 0, out: own.z, first: 0.0, second: 1.0 };
            return match self.inverse {
                0 => ascend(stream, self.single, &alone),
                inverse => solve_coarsest(stream, self.single, &CoarsestArgs { level: own, inverse }),
            };
        }
        if own.uses_two_cycles == 0 {
            return self.cycle(stream, k, own.z, None);
        }
        // AMLI-cycle: two Chebyshev steps.
        let ChebyshevSteps { residual_factor, first, second } = ChebyshevSteps::COEFFICIENTS;
        self.cycle(stream, k, own.c, None)?;
        subtract(stream, self.single, &SubtractArgs { level: own, factor: residual_factor })?;
        self.cycle(stream, k, own.z, Some((first, second)))
    }
}
