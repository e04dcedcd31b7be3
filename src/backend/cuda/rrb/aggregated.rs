//! M by aggregation (`cuda/aggregation`), in place of the levels.

use super::packed::{Packed, Source};
use crate::backend::aggregation::{Rules, WHAT};
use crate::backend::cuda::aggregation::{Cycle, Making, Matrix};
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::aggregation::Level;
use crate::backend::cuda::launch::{Address, CouplingsArgs, Numbers, RowsArgs};
use crate::backend::steps::rrb::{CostOfAggregation, refused_pivot};
use crate::error::{Error, Result};
use crate::runtime::number::power_of_two_below;

/// Measured with bf16 on 512 x 512 and 2047 x 2047 (an H200); 17 iterations for 1e-6.
pub const COST: CostOfAggregation = CostOfAggregation { setup: 80.0, iteration: 8.0, contraction: 0.45, unfused: 1.5 };

/// Passes of pairs: aggregates of four nodes.
const RULES: Rules = Rules::passes(2);
/// Couplings of a row at most, of S1 as of nine points.
const MOST_COUPLINGS: usize = 8;

/// The cycle, and where its rows lie.
pub struct Aggregated {
    cycle: Cycle,
    making: Making,
    /// Of each row the place of its node among the planes; and the first row with a bad diagonal.
    place: Memory,
}

impl Aggregated {
    pub fn bytes(&self) -> usize {
        self.cycle.bytes() + self.making.bytes() + self.place.bytes
    }
}

impl Packed {
    /// Coarse levels of aggregation.
    pub fn aggregation_levels(&self) -> usize {
        self.aggregated.as_ref().map_or(0, |aggregated| aggregated.cycle.coarse_levels())
    }

    /// The cycle of what CG runs on, in the memory of the one before.
    pub fn make_aggregated(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        let (g, schur) = (self.grids[0].k.g, self.shape.schur);
        let nodes = source.shape.grid.nodes();
        let (step, first) = if schur { (2, (g.shift_x + g.shift_y) % 2) } else { (1, 0) };
        // Of black nodes, those of the colour of (0, 0) are the more.
        let rows = if schur { (nodes + usize::from(first == 0)) / 2 } else { nodes };
        let wanted = Matrix { rows, row: MOST_COUPLINGS };
        let (previous, mut making, place) = match self.aggregated.take() {
            Some(before) if before.making.fits(wanted) => (Some(before.cycle), before.making, before.place),
            other => {
                // Its memory first.
                drop(other);
                let place = Memory::zeroed(stream.device(), stream, 4 * rows + 16, WHAT)?;
                (None, Making::new(stream, wanted)?, place)
            }
        };
        let bad = (place.address + 4 * rows as u64).next_multiple_of(8);
        stream.fill(bad, 0xff, 8)?;
        let scale = power_of_two_below(f64::from_bits(source.findings.center_max)).recip();
        let (k, c) = (self.grids[0].k, making.first());
        let n = Numbers { g, step, first };
        let (d, far) = if schur { (k.d, k.far) } else { (0, 0) };
        let (m, excess) = (source.m, source.excess);
        let arguments = CouplingsArgs { n, m, d, far, excess, scale, c, place: place.address, bad };
        launch::take_couplings(stream, &arguments)?;
        let mut found = [0u64];
        stream.fetch(&mut found, bad)?;
        stream.wait()?;
        if found[0] != u64::MAX {
            return Err(refused(stream, &n, c.diagonal, found[0], scale, usize::from(schur))?);
        }
        let (before, memory) =
            previous.map_or((None, Vec::new()), |Cycle { launched, memory }| (Some(launched), memory));
        let cycle = making.cycle(stream, &RULES, (scale, self.short()), memory)?;
        if before.is_none_or(|before| before != cycle.launched) {
            self.recorded = None;
        }
        self.aggregated = Some(Aggregated { cycle, making, place });
        Ok(())
    }

    /// z = B r, without means on singular components.
    pub fn apply_aggregated(&mut self, stream: &Stream) -> Result<()> {
        let Some(Aggregated { cycle, place, .. }) = &self.aggregated else { return Ok(()) };
        let (short, mut by_colour) = (self.short(), self.r);
        if !self.projection.is_empty() {
            // q is not in use here.
            by_colour = self.q;
            launch::direction(stream, &self.update(by_colour, self.r, 0.0))?;
            self.projection.center(stream, by_colour, false)?;
        }
        let Level { step, r, start, z, rows, .. } = *cycle.launched.first();
        let z_by_colour: Address = self.z();
        // Sweeps give z times the unit, too.
        let factor = cycle.launched.scale() * self.unit;
        let place = place.address;
        let arguments = RowsArgs { place, by_colour, z_by_colour, step, r, start, z, rows, unused: 0, factor };
        launch::take_residual(stream, short, &arguments)?;
        cycle.launched.apply(stream)?;
        launch::give_solution(stream, short, &arguments)?;
        self.projection.center(stream, z_by_colour, short)
    }
}

/// The sentence about a row whose diagonal no definite matrix has.
fn refused(stream: &Stream, n: &Numbers, diagonal: Address, row: u64, scale: f64, level: usize) -> Result<Error> {
    let mut d = [f64::NAN];
    stream.fetch(&mut d, diagonal + 8 * row)?;
    stream.wait()?;
    let of_row = |j: u64| (n.g.nx as u64 + n.step as u64 - 1 - (j + n.first as u64) % n.step as u64) / n.step as u64;
    let (even, both) = (of_row(0), of_row(0) + of_row(1));
    let (pair, rest) = (row / both, row % both);
    let (j, within) = if rest < even { (2 * pair, rest) } else { (2 * pair + 1, rest - even) };
    let i = (j + n.first as u64) % n.step as u64 + n.step as u64 * within;
    Ok(refused_pivot(d[0] / scale, d[0] / scale, level, i as usize, j as usize))
}
