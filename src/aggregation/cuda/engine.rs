//! Owner of the cycle of a matrix and of the workspace of its setup. Successive matrices reuse both.

use super::{Cycle, Launched};
use crate::aggregation::Rules;
use crate::aggregation::cuda::setup::{SetupWorkspace, Shape};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::aggregation::{Couplings, Level};
use crate::cuda::launch::{Address, CycleTransferArgs, Sum};
use crate::cuda::vectors::Scale;
use crate::error::Result;

/// The cycle of a matrix, with the workspace of its setup.
pub struct Engine {
    cycle: Cycle,
    workspace: SetupWorkspace,
}

impl Engine {
    /// Builds the cycle of `scale` times a matrix, in single or double precision. `take` writes the matrix to the
    /// device. Reuses the memory of `before`, the engine of the previous matrix. Also returns whether a graph of
    /// launches that was recorded for `before` remains valid.
    pub fn new(
        stream: &Stream,
        (shape, rules): (Shape, &Rules),
        (scale, single): (f64, bool),
        before: Option<Self>,
        take: impl FnOnce(&Couplings) -> Result<()>,
    ) -> Result<(Self, bool)> {
        // An engine for another shape is freed before new memory is allocated.
        let (previous, mut workspace) = match before.filter(|before| before.fits(shape)) {
            Some(before) => (Some(before.cycle), before.workspace),
            None => (None, SetupWorkspace::new(stream, shape)?),
        };
        take(&workspace.first())?;
        let (launched, memory) =
            previous.map_or((None, Vec::new()), |Cycle { launched, memory, .. }| (Some(launched), memory));
        let cycle = workspace.cycle(stream, rules, (scale, single), (launched.as_ref(), memory))?;
        let same = launched.is_some_and(|launched| launched == cycle.launched);
        Ok((Self { cycle, workspace }, same))
    }

    /// Computes z = M^-1 r and <r, z> for vectors over cells.
    pub fn apply(&self, stream: &Stream, scale: &Scale, (r, z): (Address, Address), sum: Sum) -> Result<()> {
        let launched = self.launched();
        let Level { step, r: of_r, start, z: of_z, rows, .. } = *launched.first();
        let count = i64::from(rows);
        scale.find(stream, r, count)?;
        let (scales, factor) = (scale.scales, launched.scale());
        let a = CycleTransferArgs { count, r, z, scales, step, of_r, start, of_z, factor, sum };
        launch::load_cycle_input(stream, launched.single(), &a)?;
        launched.apply(stream)?;
        launch::store_cycle_output(stream, launched.single(), &a)
    }

    /// Returns whether the workspace was allocated for this shape.
    pub fn fits(&self, shape: Shape) -> bool {
        self.workspace.fits(shape)
    }

    pub fn launched(&self) -> &Launched {
        &self.cycle.launched
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        self.cycle.reused_aggregates
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.cycle.memory.iter().flatten().map(|memory| memory.bytes).sum::<usize>() + self.workspace.bytes()
    }
}
