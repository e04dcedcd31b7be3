//! The preconditioner by aggregation multigrid (docs/theory/aggregation.md), which replaces the levels.

use crate::aggregation::Rules;
use crate::aggregation::cuda::{AggregationMultigrid, COARSEST, Shape};
use crate::base::number::power_of_two_below;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::aggregation::{Couplings, Level};
use crate::cuda::launch::{Address, Geometry, Matrix, Numbers, RowCouplingsArgs, RowsArgs};
use crate::direct::couplings::WHAT;
use crate::error::{Error, Result};
use crate::rrb::backend::{CostOfAggregation, INVERTED_ON_DEVICE, rejected_pivot};

/// Cost models of `cycle=auto`, measured on an H200 with bf16. `COST` is measured on 512 x 512 nodes, where launches
/// dominate. `COST_OF_LARGE` is measured on 2047 x 2047 nodes, where memory traffic dominates. The contraction is 0.45
/// because the residual norm was reduced to 1e-6 in 17 iterations: 0.45^17 = 1.3e-6.
const COST: CostOfAggregation =
    CostOfAggregation { setup: 60.0, levels: 20.0, iteration: 6.0, contraction: 0.45, unfused: 1.5 };
const COST_OF_LARGE: CostOfAggregation = CostOfAggregation { setup: 80.0, iteration: 9.5, ..COST };
/// Number of nodes from which the cost model of large grids applies.
const LARGE: usize = 1 << 19;

/// Returns the cost model for a number of nodes.
pub fn cost_on(nodes: usize) -> &'static CostOfAggregation {
    if nodes < LARGE { &COST } else { &COST_OF_LARGE }
}

/// The memory estimate assumes this size of the coarsest system.
const _: () = assert!(INVERTED_ON_DEVICE == COARSEST as usize);

/// Two passes of pairwise matching, which produce aggregates of at most four nodes.
const RULES: Rules = Rules::passes(2);
/// Largest number of couplings per row: 8 for S1 and for a 9-point stencil.
const MOST_COUPLINGS: usize = 8;

/// The matrix on which CG runs, in device memory.
pub struct CgMatrix {
    pub g: Geometry,
    pub nodes: usize,
    pub m: Matrix,
    /// Addresses of the diagonal couplings of S1, and of its couplings at distance two. `None` if CG runs on A.
    pub schur: Option<[Address; 2]>,
    pub row_sums: Address,
    pub center_max: f64,
}

impl CgMatrix {
    /// Returns the numbering of the unknowns of CG.
    fn numbering(&self) -> Numbers {
        let g = self.g;
        let (spacing, first) = if self.schur.is_some() { (2, (g.shift_x + g.shift_y) % 2) } else { (1, 0) };
        Numbers { g, spacing, first }
    }

    /// Returns the number of unknowns of CG. If node (0, 0) is black and the number of nodes is odd, there is one more
    /// black node than red nodes.
    fn rows(&self) -> usize {
        match self.schur {
            Some(_) => (self.nodes + usize::from(self.numbering().first == 0)) / 2,
            None => self.nodes,
        }
    }
}

/// The multigrid method by aggregation, and the map from its rows to nodes.
pub struct Aggregated {
    multigrid: AggregationMultigrid,
    /// For each row, the index of its node in the planes. A further number of 64 bits follows: the first row whose
    /// diagonal entry is negative or not finite.
    node_index: Memory,
}

impl Aggregated {
    /// Builds the preconditioner in single or double precision. Reuses the memory of `before`, the previous
    /// preconditioner. Also returns whether recorded launches of the previous preconditioner remain valid.
    pub fn new(stream: &Stream, source: &CgMatrix, single: bool, before: Option<Self>) -> Result<(Self, bool)> {
        let shape = Shape { rows: source.rows(), entries: MOST_COUPLINGS * source.rows() };
        // A previous preconditioner of another shape is freed before new memory is allocated.
        let (multigrid, node_index) = match before.filter(|before| before.multigrid.fits(shape)) {
            Some(before) => (Some(before.multigrid), before.node_index),
            None => (None, Memory::zeroed(stream.device(), stream, 4 * shape.rows + 16, WHAT)?),
        };
        let scale = power_of_two_below(source.center_max).recip();
        let take = |c: &Couplings| write_first_level(stream, source, *c, scale, node_index.address);
        let (multigrid, same) = AggregationMultigrid::new(stream, (shape, &RULES), (scale, single), multigrid, take)?;
        Ok((Self { multigrid, node_index }, same))
    }

    /// Computes z = `unit` B r, with r and z stored by colour and z in single or double precision. B is the multigrid
    /// cycle.
    pub fn apply(&self, stream: &Stream, (r_by_colour, z_by_colour): (Address, Address), unit: f64) -> Result<()> {
        let Level { jacobi_factor, r, start, z, rows, .. } = *self.multigrid.launched().first();
        let launched = self.multigrid.launched();
        let (node_index, factor, single) = (self.node_index.address, launched.scale() * unit, launched.single());
        let by_colour = r_by_colour;
        let arguments =
            RowsArgs { node_index, by_colour, z_by_colour, jacobi_factor, r, start, z, rows, unused: 0, factor };
        launch::gather_residual(stream, single, &arguments)?;
        launched.apply(stream)?;
        launch::scatter_solution(stream, single, &arguments)
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        self.multigrid.aggregates_kept()
    }

    /// Returns the number of coarse levels.
    pub fn levels(&self) -> usize {
        self.multigrid.launched().coarse_levels()
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.multigrid.bytes() + self.node_index.bytes
    }
}

/// Writes the matrix of the finest level, which is S1 or A multiplied by `scale`, to `c`. Writes the index of the node
/// of each row to `node_index`. Returns an error if a diagonal entry is negative or not finite.
fn write_first_level(stream: &Stream, source: &CgMatrix, c: Couplings, scale: f64, node_index: Address) -> Result<()> {
    let n = source.numbering();
    let [d, far] = source.schur.unwrap_or_default();
    let bad = (node_index + 4 * u64::from(c.rows)).next_multiple_of(8);
    stream.fill(bad, 0xff, 8)?;
    let (m, row_sums) = (source.m, source.row_sums);
    launch::compute_couplings(stream, &RowCouplingsArgs { n, m, d, far, row_sums, scale, c, node_index, bad })?;
    let mut found = [0u64];
    stream.fetch(&mut found, bad)?;
    stream.wait()?;
    match found[0] {
        u64::MAX => Ok(()),
        row => Err(rejected_row(stream, &n, c.diagonal + 8 * row, row, scale)?),
    }
}

/// Returns the error for a row whose diagonal entry is negative or not finite. The error names level 1 for a row of S1,
/// and level 0 for a row of A.
fn rejected_row(stream: &Stream, n: &Numbers, diagonal: Address, row: u64, scale: f64) -> Result<Error> {
    let mut d = [f64::NAN];
    stream.fetch(&mut d, diagonal)?;
    stream.wait()?;
    let (nx, step, first) = (n.g.nx as u64, n.spacing as u64, n.first as u64);
    let start = |j: u64| (j + first) % step;
    let of_row = |j: u64| (nx + step - 1 - start(j)) / step;
    let (even, both) = (of_row(0), of_row(0) + of_row(1));
    let (pair, rest) = (row / both, row % both);
    let (j, within) = if rest < even { (2 * pair, rest) } else { (2 * pair + 1, rest - even) };
    let (i, level) = (start(j) + step * within, usize::from(n.spacing == 2));
    Ok(rejected_pivot(d[0] / scale, d[0] / scale, level, i as usize, j as usize))
}

#[cfg(test)]
mod tests;
