//! The multigrid method for a matrix: its cycle and the workspace of its setup. Successive matrices reuse the memory of
//! both.

use super::{Cycle, CycleLaunches};
use crate::aggregation::AggregationRules;
use crate::aggregation::cuda::setup::{MatrixShape, SetupWorkspace};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::aggregation::{Couplings, Level};
use crate::cuda::launch::{Address, CycleTransferArgs, Sum};
use crate::cuda::vectors::Scale;
use crate::error::Result;

/// The cycle of a matrix, with the workspace of its setup.
pub struct AggregationMultigrid {
    cycle: Cycle,
    workspace: SetupWorkspace,
}

impl AggregationMultigrid {
    /// Builds the cycle of `scale` times a matrix, in single or double precision. `write_matrix` writes the matrix to
    /// the device. Reuses the memory of `previous_multigrid`, which was built for the previous matrix. Also returns
    /// whether a graph of launches that was recorded for `previous_multigrid` remains valid.
    pub fn new(
        stream: &Stream,
        (shape, rules): (MatrixShape, &AggregationRules),
        (scale, is_single_precision): (f64, bool),
        previous_multigrid: Option<Self>,
        write_matrix: impl FnOnce(&Couplings) -> Result<()>,
    ) -> Result<(Self, bool)> {
        // The memory of a matrix with another shape is freed before new memory is allocated.
        let (previous_cycle, mut workspace) = match previous_multigrid.filter(|multigrid| multigrid.has_shape(shape)) {
            Some(multigrid) => (Some(multigrid.cycle), multigrid.workspace),
            None => (None, SetupWorkspace::new(stream, shape)?),
        };
        write_matrix(&workspace.first_matrix())?;
        let (launches, memory_blocks) = previous_cycle
            .map_or((None, Vec::new()), |Cycle { launches, memory_blocks, .. }| (Some(launches), memory_blocks));
        let cycle = workspace.cycle(stream, rules, (scale, is_single_precision), (launches.as_ref(), memory_blocks))?;
        let graph_remains_valid = launches.is_some_and(|launches| launches == cycle.launches);
        Ok((Self { cycle, workspace }, graph_remains_valid))
    }

    /// Computes z = M^-1 r by one cycle, and the sum <r, z>. `r` and `z` are the addresses of vectors in f64 with one
    /// value per row of the matrix.
    pub fn apply(&self, stream: &Stream, scale: &Scale, (r, z): (Address, Address), sum: Sum) -> Result<()> {
        let launches = self.launches();
        let Level { jacobi_factor, r: cycle_r, first_iterate, z: cycle_z, rows, .. } = *launches.first_level();
        let count = i64::from(rows);
        scale.find_scale(stream, r, count)?;
        let (scales, factor) = (scale.scales, launches.scale());
        let arguments =
            CycleTransferArgs { count, r, z, scales, jacobi_factor, cycle_r, first_iterate, cycle_z, factor, sum };
        launch::load_cycle_input(stream, launches.is_single_precision(), &arguments)?;
        launches.apply(stream)?;
        launch::store_cycle_output(stream, launches.is_single_precision(), &arguments)
    }

    /// Returns whether the workspace was allocated for this shape.
    pub fn has_shape(&self, shape: MatrixShape) -> bool {
        self.workspace.has_shape(shape)
    }

    pub fn launches(&self) -> &CycleLaunches {
        &self.cycle.launches
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        self.cycle.reused_aggregate_count
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.cycle.memory_blocks.iter().flatten().map(|block| block.bytes).sum::<usize>() + self.workspace.bytes()
    }
}
