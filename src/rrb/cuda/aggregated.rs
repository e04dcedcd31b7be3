//! The preconditioner by aggregation multigrid (docs/theory/aggregation.md), which replaces the levels.

use crate::aggregation::AggregationRules;
use crate::aggregation::cuda::{AggregationMultigrid, COARSEST_ROWS, MatrixShape};
use crate::base::number::power_of_two_below;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::aggregation::{Couplings, Level};
use crate::cuda::launch::{Address, Geometry, Matrix, RowCouplingsArgs, RowNumbering, RowsArgs};
use crate::direct::couplings::ALLOCATION_NAME;
use crate::error::{Error, Result};
use crate::rrb::backend::{CostOfAggregation, MAX_INVERTED_ROWS_ON_DEVICE, rejected_pivot};

/// Cost models of `cycle=auto`, measured on an H200 with bf16. `SMALL_GRID_COSTS` is measured on 512 x 512 nodes, where
/// launches dominate. `LARGE_GRID_COSTS` is measured on 2047 x 2047 nodes, where memory traffic dominates. The
/// contraction is 0.45 because the residual norm was reduced to 1e-6 in 17 iterations: 0.45^17 = 1.3e-6. The costs were
/// measured with one Jacobi step on the finest level. The second step makes an iteration more expensive, and reduces
/// the number of iterations by about the same factor (docs/development/experiments.md).
const SMALL_GRID_COSTS: CostOfAggregation = CostOfAggregation {
    aggregation_setup: 60.0,
    level_factorization: 20.0,
    aggregation_iteration: 6.0,
    contraction: 0.45,
    unfused_iteration: 1.5,
};
const LARGE_GRID_COSTS: CostOfAggregation =
    CostOfAggregation { aggregation_setup: 80.0, aggregation_iteration: 9.5, ..SMALL_GRID_COSTS };
/// Number of nodes from which the cost model of large grids applies.
const LARGE_GRID_NODES: usize = 1 << 19;

/// Returns the cost model for a number of nodes.
pub fn costs_for(nodes: usize) -> &'static CostOfAggregation {
    if nodes < LARGE_GRID_NODES { &SMALL_GRID_COSTS } else { &LARGE_GRID_COSTS }
}

/// The memory estimate `bytes_of_aggregation` assumes that the coarsest system has at most `COARSEST_ROWS` rows.
const _: () = assert!(MAX_INVERTED_ROWS_ON_DEVICE == COARSEST_ROWS as usize);

/// Rules with two passes of pairwise matching, which produce aggregates of at most four nodes.
const AGGREGATION_RULES: AggregationRules = AggregationRules::with_passes(2);
/// Largest number of couplings per row: 8 for S1 and for a 9-point stencil.
const MAX_ROW_COUPLINGS: usize = 8;

/// The matrix on which CG runs, in device memory.
pub struct CgMatrix {
    pub g: Geometry,
    pub nodes: usize,
    pub m: Matrix,
    /// Addresses of the diagonal couplings of S1, and of its couplings at distance two. `None` if CG runs on A.
    pub schur_couplings: Option<[Address; 2]>,
    pub row_sums: Address,
    pub center_max: f64,
}

impl CgMatrix {
    /// Returns the numbering of the unknowns of CG.
    fn numbering(&self) -> RowNumbering {
        let g = self.g;
        let (row_spacing, row_0_start) =
            if self.schur_couplings.is_some() { (2, (g.shift_x + g.shift_y) % 2) } else { (1, 0) };
        RowNumbering { g, spacing: row_spacing, row_0_start }
    }

    /// Returns the number of unknowns of CG. If node (0, 0) is black and the number of nodes is odd, there is one more
    /// black node than red nodes.
    fn row_count(&self) -> usize {
        match self.schur_couplings {
            Some(_) => (self.nodes + usize::from(self.numbering().row_0_start == 0)) / 2,
            None => self.nodes,
        }
    }
}

/// The multigrid method by aggregation, and the map from its rows to nodes.
pub struct AggregationPreconditioner {
    multigrid: AggregationMultigrid,
    /// For each row, the index of its node in the planes. After these indices, the memory contains a 64-bit integer:
    /// the number of the first row whose diagonal entry is negative or not finite, or 2^64 - 1 if there is no such row.
    node_index: Memory,
}

impl AggregationPreconditioner {
    /// Builds the preconditioner in single or double precision. Reuses the memory of `previous`, the previous
    /// preconditioner. Also returns whether recorded launches of the previous preconditioner remain valid.
    pub fn new(
        stream: &Stream,
        source: &CgMatrix,
        is_single_precision: bool,
        previous: Option<Self>,
    ) -> Result<(Self, bool)> {
        let shape = MatrixShape { rows: source.row_count(), entries: MAX_ROW_COUPLINGS * source.row_count() };
        // A previous preconditioner of another shape is freed before new memory is allocated.
        let (multigrid, node_index) = match previous.filter(|previous| previous.multigrid.has_shape(shape)) {
            Some(previous) => (Some(previous.multigrid), previous.node_index),
            None => (None, Memory::zeroed(stream.device(), stream, 4 * shape.rows + 16, ALLOCATION_NAME)?),
        };
        let scale = power_of_two_below(source.center_max).recip();
        let write_matrix =
            |couplings: &Couplings| write_first_level(stream, source, *couplings, scale, node_index.address);
        let (multigrid, recordings_are_valid) = AggregationMultigrid::new(
            stream,
            (shape, &AGGREGATION_RULES),
            (scale, is_single_precision),
            multigrid,
            write_matrix,
        )?;
        Ok((Self { multigrid, node_index }, recordings_are_valid))
    }

    /// Computes z = `storage_unit` B r, with r and z stored by colour and z in single or double precision. B is the
    /// multigrid cycle.
    pub fn apply(
        &self,
        stream: &Stream,
        (r_by_colour, z_by_colour): (Address, Address),
        storage_unit: f64,
    ) -> Result<()> {
        let Level { jacobi_factor, r, first_iterate, z, rows, .. } = *self.multigrid.launches().first_level();
        let launches = self.multigrid.launches();
        let (node_index, factor, is_single_precision) =
            (self.node_index.address, launches.scale() * storage_unit, launches.is_single_precision());
        let arguments = RowsArgs {
            node_index,
            r_by_colour,
            z_by_colour,
            jacobi_factor,
            r,
            first_iterate,
            z,
            rows,
            unused: 0,
            factor,
        };
        launch::gather_residual(stream, is_single_precision, &arguments)?;
        launches.apply(stream)?;
        launch::scatter_solution(stream, is_single_precision, &arguments)
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        self.multigrid.reused_aggregate_count()
    }

    /// Returns the number of coarse levels.
    pub fn coarse_level_count(&self) -> usize {
        self.multigrid.launches().coarse_level_count()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.multigrid.bytes() + self.node_index.bytes
    }
}

/// Writes the matrix of the finest level to `couplings`: S1 or A, multiplied by `scale`. Writes the index of the node
/// of each row to `node_index`. Returns an error if a diagonal entry is negative or not finite.
fn write_first_level(
    stream: &Stream,
    source: &CgMatrix,
    couplings: Couplings,
    scale: f64,
    node_index: Address,
) -> Result<()> {
    let numbers = source.numbering();
    let [diagonal_couplings, distant_couplings] = source.schur_couplings.unwrap_or_default();
    let bad_row_address = (node_index + 4 * u64::from(couplings.rows)).next_multiple_of(8);
    stream.fill(bad_row_address, 0xff, 8)?;
    let (m, row_sums) = (source.m, source.row_sums);
    launch::compute_couplings(
        stream,
        &RowCouplingsArgs {
            numbering: numbers,
            m,
            d: diagonal_couplings,
            far_couplings: distant_couplings,
            row_sums,
            scale,
            c: couplings,
            node_index,
            bad_row: bad_row_address,
        },
    )?;
    let mut bad_row = [0u64];
    stream.fetch(&mut bad_row, bad_row_address)?;
    stream.wait()?;
    match bad_row[0] {
        u64::MAX => Ok(()),
        row => Err(rejected_row(stream, &numbers, couplings.diagonal + 8 * row, row, scale)?),
    }
}

/// Returns the error for a row whose diagonal entry is negative or not finite. The error names level 1 for a row of S1,
/// and level 0 for a row of A.
fn rejected_row(stream: &Stream, numbers: &RowNumbering, diagonal: Address, row: u64, scale: f64) -> Result<Error> {
    let mut d = [f64::NAN];
    stream.fetch(&mut d, diagonal)?;
    stream.wait()?;
    let (nx, step, first) = (numbers.g.nx as u64, numbers.spacing as u64, numbers.row_0_start as u64);
    let first_column = |j: u64| (j + first) % step;
    let row_length = |j: u64| (nx + step - 1 - first_column(j)) / step;
    let (even_row_length, pair_length) = (row_length(0), row_length(0) + row_length(1));
    let (row_pair, offset_in_pair) = (row / pair_length, row % pair_length);
    let (j, offset_in_row) = if offset_in_pair < even_row_length {
        (2 * row_pair, offset_in_pair)
    } else {
        (2 * row_pair + 1, offset_in_pair - even_row_length)
    };
    let (i, level) = (first_column(j) + step * offset_in_row, usize::from(numbers.spacing == 2));
    Ok(rejected_pivot(d[0] / scale, d[0] / scale, level, i as usize, j as usize))
}

#[cfg(test)]
mod tests;
