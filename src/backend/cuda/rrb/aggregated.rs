//! M by aggregation (`cuda/aggregation`), in place of the levels.

use crate::backend::aggregation::{Rules, WHAT};
use crate::backend::cuda::aggregation::{COARSEST, Engine, Shape};
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::aggregation::{Couplings, Level};
use crate::backend::cuda::launch::{Address, CouplingsArgs, Geometry, Matrix, Numbers, RowsArgs};
use crate::backend::steps::rrb::{CostOfAggregation, INVERTED_ON_DEVICE, refused_pivot};
use crate::error::{Error, Result};
use crate::runtime::number::power_of_two_below;

/// Measured with bf16 on 512 x 512, where launches count, and on 2047 x 2047, where bytes do (an H200); 17 iterations
/// for 1e-6.
const COST: CostOfAggregation =
    CostOfAggregation { setup: 60.0, levels: 20.0, iteration: 6.0, contraction: 0.45, unfused: 1.5 };
const COST_OF_LARGE: CostOfAggregation = CostOfAggregation { setup: 80.0, iteration: 9.5, ..COST };
/// Nodes of a grid that is a large one.
const LARGE: usize = 1 << 19;

/// That on so many nodes.
pub fn cost_on(nodes: usize) -> &'static CostOfAggregation {
    if nodes < LARGE { &COST } else { &COST_OF_LARGE }
}

/// What memory is predicted by.
const _: () = assert!(INVERTED_ON_DEVICE == COARSEST as usize);

/// Passes of pairs: aggregates of four nodes.
const RULES: Rules = Rules::passes(2);
/// Couplings of a row at most, of S1 as of nine points.
const MOST_COUPLINGS: usize = 8;

/// What CG runs on, on the device.
pub struct Source {
    pub g: Geometry,
    pub nodes: usize,
    pub m: Matrix,
    /// Diagonal couplings of S1 and those at distance two; none: A.
    pub schur: Option<[Address; 2]>,
    pub excess: Address,
    pub center_max: f64,
}

impl Source {
    fn numbers(&self) -> Numbers {
        let g = self.g;
        let (step, first) = if self.schur.is_some() { (2, (g.shift_x + g.shift_y) % 2) } else { (1, 0) };
        Numbers { g, step, first }
    }

    /// Nodes that CG works on. Of black ones those of the colour of (0, 0) are the more.
    fn rows(&self) -> usize {
        match self.schur {
            Some(_) => (self.nodes + usize::from(self.numbers().first == 0)) / 2,
            None => self.nodes,
        }
    }
}

/// The cycle, and where its rows lie.
pub struct Aggregated {
    engine: Engine,
    /// Of each row the place of its node among the planes; and the first row with a bad diagonal.
    place: Memory,
}

impl Aggregated {
    /// In single precision or in double, in the memory of the one before. Whether a record of the launches of that is
    /// one of these.
    pub fn new(stream: &Stream, source: &Source, single: bool, before: Option<Self>) -> Result<(Self, bool)> {
        let shape = Shape { rows: source.rows(), row: MOST_COUPLINGS };
        // One of another shape goes first, with its memory.
        let (engine, place) = match before.filter(|before| before.engine.fits(shape)) {
            Some(before) => (Some(before.engine), before.place),
            None => (None, Memory::zeroed(stream.device(), stream, 4 * shape.rows + 16, WHAT)?),
        };
        let scale = power_of_two_below(source.center_max).recip();
        let take = |c: &Couplings| take_couplings(stream, source, *c, scale, place.address);
        let (engine, same) = Engine::new(stream, (shape, &RULES), (scale, single), engine, take)?;
        Ok((Self { engine, place }, same))
    }

    /// z = `unit` B r, both by colour, z in single precision or in double.
    pub fn apply(&self, stream: &Stream, (r_by_colour, z_by_colour): (Address, Address), unit: f64) -> Result<()> {
        let Level { step, r, start, z, rows, .. } = *self.engine.launched().first();
        let launched = self.engine.launched();
        let (place, factor, single) = (self.place.address, launched.scale() * unit, launched.single());
        let by_colour = r_by_colour;
        let arguments = RowsArgs { place, by_colour, z_by_colour, step, r, start, z, rows, unused: 0, factor };
        launch::take_residual(stream, single, &arguments)?;
        launched.apply(stream)?;
        launch::give_solution(stream, single, &arguments)
    }

    /// Aggregates that were kept from the matrix before.
    pub fn aggregates_kept(&self) -> usize {
        self.engine.aggregates_kept()
    }

    /// Coarse levels.
    pub fn levels(&self) -> usize {
        self.engine.launched().coarse_levels()
    }

    pub fn bytes(&self) -> usize {
        self.engine.bytes() + self.place.bytes
    }
}

/// The first matrix, `scale` times S1 or A; refuses diagonals that no definite one has.
fn take_couplings(stream: &Stream, source: &Source, c: Couplings, scale: f64, place: Address) -> Result<()> {
    let n = source.numbers();
    let [d, far] = source.schur.unwrap_or_default();
    let bad = (place + 4 * u64::from(c.rows)).next_multiple_of(8);
    stream.fill(bad, 0xff, 8)?;
    let (m, excess) = (source.m, source.excess);
    launch::take_couplings(stream, &CouplingsArgs { n, m, d, far, excess, scale, c, place, bad })?;
    let mut found = [0u64];
    stream.fetch(&mut found, bad)?;
    stream.wait()?;
    match found[0] {
        u64::MAX => Ok(()),
        row => Err(refused(stream, &n, c.diagonal + 8 * row, row, scale)?),
    }
}

/// The sentence about a row whose diagonal no definite matrix has. Of S1 it is a pivot of level 1, of A of none.
fn refused(stream: &Stream, n: &Numbers, diagonal: Address, row: u64, scale: f64) -> Result<Error> {
    let mut d = [f64::NAN];
    stream.fetch(&mut d, diagonal)?;
    stream.wait()?;
    let (nx, step, first) = (n.g.nx as u64, n.step as u64, n.first as u64);
    let start = |j: u64| (j + first) % step;
    let of_row = |j: u64| (nx + step - 1 - start(j)) / step;
    let (even, both) = (of_row(0), of_row(0) + of_row(1));
    let (pair, rest) = (row / both, row % both);
    let (j, within) = if rest < even { (2 * pair, rest) } else { (2 * pair + 1, rest - even) };
    let (i, level) = (start(j) + step * within, usize::from(n.step == 2));
    Ok(refused_pivot(d[0] / scale, d[0] / scale, level, i as usize, j as usize))
}

#[cfg(test)]
mod tests;
