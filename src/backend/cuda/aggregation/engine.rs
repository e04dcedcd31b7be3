//! The cycle of a matrix, and what its levels are made in, from one matrix to the next.

use super::making::{Making, Shape};
use super::{Cycle, Launched};
use crate::backend::aggregation::Rules;
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch::aggregation::Couplings;
use crate::error::Result;

/// The cycle of a matrix, with the memory that its levels were made in.
pub struct Engine {
    cycle: Cycle,
    making: Making,
}

impl Engine {
    /// Of `scale` times a matrix, which `take` writes; in single precision or in double, in the memory of the one
    /// before. Whether a record of the launches of that is one of these.
    pub fn new(
        stream: &Stream,
        (shape, rules): (Shape, &Rules),
        (scale, single): (f64, bool),
        before: Option<Self>,
        take: impl FnOnce(&Couplings) -> Result<()>,
    ) -> Result<(Self, bool)> {
        // One of another shape goes first, with its memory.
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

    /// Whether its memory is that of such a matrix.
    pub fn fits(&self, shape: Shape) -> bool {
        self.making.fits(shape)
    }

    pub fn launched(&self) -> &Launched {
        &self.cycle.launched
    }

    /// Aggregates that were kept from the matrix before.
    pub fn aggregates_kept(&self) -> usize {
        self.cycle.kept
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.cycle.memory.iter().flatten().map(|memory| memory.bytes).sum::<usize>() + self.making.bytes()
    }
}
