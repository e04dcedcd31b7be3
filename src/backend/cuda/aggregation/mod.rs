//! Multigrid by aggregation on a device (`backend/aggregation` has the method; kernels/aggregation): `making` makes the
//! levels, with pairs by handshakes, `engine` has them and the memory for the next ones; this is the cycle, with Jacobi
//! and two Chebyshev steps, a fixed matrix. No text goes over rows on the host, and no scalar of a cycle comes here.

mod engine;
mod making;

pub use engine::Engine;
pub use making::{COARSEST, Shape};

use super::driver::{Memory, Stream};
use super::launch::Address;
use super::launch::aggregation::{
    AscendArgs, CoarsestArgs, DescendArgs, Level, SubtractArgs, ascend, descend, solve_coarsest, subtract,
};
use crate::backend::aggregation::TwoSteps;
use crate::error::Result;

/// The cycle of a matrix.
pub struct Cycle {
    launched: Launched,
    memory: Vec<Option<Memory>>,
    /// Aggregates of all levels that were kept from the matrix before.
    kept: usize,
}

/// What its launches hang on: where it is that of another cycle, a record of those is one of these.
#[derive(PartialEq)]
pub struct Launched {
    /// The precision of M is f32.
    single: bool,
    levels: Vec<Level>,
    /// Of the coarsest level; 0: too large, or nothing but what the smoother does.
    inverse: Address,
    /// A power of two, times which A is held.
    scale: f64,
}

impl Launched {
    /// The first level: r and start are its input, z what the cycle makes of it, times the scale.
    pub fn first(&self) -> &Level {
        &self.levels[0]
    }

    /// Levels that are coarser than the matrix.
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

    /// z = B r of the first level.
    pub fn apply(&self, stream: &Stream) -> Result<()> {
        self.solve(stream, 0)
    }

    /// out = B r on level k, or with `c`: factors of c and of that, their sum.
    fn cycle(&self, stream: &Stream, k: usize, out: Address, c: Option<(f64, f64)>) -> Result<()> {
        let (own, coarse) = (self.levels[k], self.levels[k + 1]);
        descend(stream, self.single, &DescendArgs { fine: own, coarse })?;
        self.solve(stream, k + 1)?;
        let (first, second) = c.unwrap_or((0.0, 1.0));
        ascend(stream, self.single, &AscendArgs { k: own, coarse_z: coarse.z, out, first, second })
    }

    /// z, about A^-1 r on level k; r is spent.
    fn solve(&self, stream: &Stream, k: usize) -> Result<()> {
        let own = self.levels[k];
        if k + 1 == self.levels.len() {
            let alone = AscendArgs { k: own, coarse_z: 0, out: own.z, first: 0.0, second: 1.0 };
            return match self.inverse {
                0 => ascend(stream, self.single, &alone),
                inverse => solve_coarsest(stream, self.single, &CoarsestArgs { k: own, inverse }),
            };
        }
        if own.twice == 0 {
            return self.cycle(stream, k, own.z, None);
        }
        // AMLI.
        let TwoSteps { left, first, second } = TwoSteps::CHOSEN;
        self.cycle(stream, k, own.c, None)?;
        subtract(stream, self.single, &SubtractArgs { k: own, factor: left })?;
        self.cycle(stream, k, own.z, Some((first, second)))
    }
}
