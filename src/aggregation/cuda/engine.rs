//! The cycle of a matrix, and the workspace in which the levels of successive matrices are built.

use super::{Cycle, Launched};
use crate::aggregation::Rules;
use crate::aggregation::cuda::setup::{Making, Shape};
use crate::cuda::driver::Stream;
use crate::cuda::launch::aggregation::Couplings;
use crate::error::Result;

/// The cycle of a matrix, with the workspace of its setup.
pub struct Engine {
    cycle: Cycle,
    making: Making,
}

impl Engine {
    /// Builds the cycle of `scale` times a matrix, which `take` writes, in single or double precision. Reuses the
    /// memory of the previous matrix. Also returns whether a recorded graph of the previous launches remains valid.
    pub fn new(
        stream: &Stream,
        (shape, rules): (Shape, &Rules),
        (scale, single): (f64, bool),
        before: Option<Self>,
        take: impl FnOnce(&Couplings) -> Result<()>,
    ) -> Result<(Self, bool)> {
        // Frees an engine of another shape before allocating a new one.
        let (previous, mut making) = match before.filter(|before| before.fits(shape)) {
            Some(before) => (Some(before.cycle), before.making),
            None => (None, Making::new(stream, shape)?),
        };
        take(&making.first())?;
        let (launched, memory) =
            previous.map_or((None, Vec::new()), |Cycle { launched, memory, .. }| (Some(launched), memory));
        let cycle = making.cycle(stream, rules, (scale, single), (launched.as_ref(), memory))?;
        let same = launched.is_some_and(|launched| launched == cycle.launched);
        Ok((Self { cycle, making }, same))
    }

    /// Returns whether the workspace suits a matrix of this shape.
    pub fn fits(&self, shape: Shape) -> bool {
        self.making.fits(shape)
    }

    pub fn launched(&self) -> &Launched {
        &self.cycle.launched
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        self.cycle.kept
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.cycle.memory.iter().flatten().map(|memory| memory.bytes).sum::<usize>() + self.making.bytes()
    }
}
