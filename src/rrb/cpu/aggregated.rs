//! Preconditioner M by aggregation-based multigrid, which replaces the levels (docs/theory/aggregation.md; Napov and
//! Notay 2012).

use super::couplings::{Numbers, Source};
use crate::aggregation::cpu::{CoarseMethod, Cycle};
use crate::aggregation::{COARSEST, CycleParameters, Hierarchy, KeptAggregates, Ordered, Rules};
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::Me;
use crate::base::workers::Workers;
use crate::direct::couplings::{Couplings, WHAT};
use crate::error::{Error, Result, collected};
use crate::rrb::backend::{CostOfAggregation, rejected_pivot, unprojected_pivot};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::colours_of_row;
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;

/// Two passes of pairing, which produce aggregates of up to four unknowns. Aggregates of eight unknowns need more
/// iterations; with 9-point stencils, this holds only if there are strong couplings along a line.
const RULES: Rules = Rules::passes(2);

/// Cost model, measured with `precision=mixed` on a 512 x 512 grid (Xeon). The contraction is computed from 14
/// iterations, which reduced the residual norm by the factor 1e-6.
pub const COST: CostOfAggregation =
    CostOfAggregation { setup: 90.0, levels: 20.0, iteration: 7.0, contraction: 0.37, unfused: 2.0 };

/// Multigrid cycle for vectors that are stored by colour.
pub struct Aggregated<R: Number> {
    cycle: AnyPrecision,
    /// Number of coarse levels.
    pub levels: usize,
    /// A separate array z, allocated if z of the first grid shares memory with q.
    pub z: Option<FourColours<R>>,
}

/// The cycle in single or in double precision.
enum AnyPrecision {
    Single(Cycle<f32>),
    Double(Cycle<f64>),
}

impl<R: Real + Number> Aggregated<R> {
    /// Builds the hierarchy for the matrix on which CG runs. The aggregates `kept` of the previous matrix are reused if
    /// all of them pass the quality test. `storage` is the precision of the cycle. `z` contains z of the first grid,
    /// and whether it shares memory with another vector.
    ///
    /// # Safety
    /// No thread may write the matrix meanwhile.
    pub unsafe fn new(
        source: &Source,
        z: (&FourColours<R>, bool),
        storage: Storage,
        kept: KeptAggregates,
        members: usize,
    ) -> Result<Self> {
        let Source { layout, schur, scale, .. } = *source;
        let workers = &mut Workers::new(members);
        // SAFETY: by the safety contract of this function.
        let couplings = unsafe { source.couplings(workers)? };
        let numbers = Numbers::new(layout.grid, schur);
        check(&couplings, numbers, usize::from(schur), scale)?;
        let hierarchy = Hierarchy::reusing(couplings, scale, &RULES, (COARSEST, kept), workers)?;
        let (places, levels) = (places(layout, z.0, numbers)?, hierarchy.levels.len());
        let cycle = match storage {
            Storage::F64 => AnyPrecision::Double(cycle(hierarchy, numbers, &places, workers)?),
            _ => AnyPrecision::Single(cycle(hierarchy, numbers, &places, workers)?),
        };
        let z = if z.1 { Some(FourColours::zeroed(layout, true)?) } else { None };
        Ok(Self { cycle, levels, z })
    }

    /// Returns the aggregates that the next matrix may reuse.
    pub fn into_kept(self) -> KeptAggregates {
        match self.cycle {
            AnyPrecision::Single(cycle) => cycle.into_kept(),
            AnyPrecision::Double(cycle) => cycle.into_kept(),
        }
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        match &self.cycle {
            AnyPrecision::Single(cycle) => cycle.aggregates_kept(),
            AnyPrecision::Double(cycle) => cycle.aggregates_kept(),
        }
    }

    /// Computes z = `unit` B z, where B is the operator of one cycle. Before the call, each thread must have written
    /// its own rows of z. The call begins and ends with a barrier.
    ///
    /// # Safety
    /// No other code may use z meanwhile.
    pub unsafe fn apply(&self, me: &Me, method: CoarseMethod, unit: f64, z: &FourColours<R>) {
        let at = |place: usize| (&z[Colour::ALL[place >> COLOUR_SHIFT]], place & ((1 << COLOUR_SHIFT) - 1));
        // SAFETY: by the safety contract of this function. The cycle reads all rows before it writes any, and one
        // thread writes each row.
        let from = |place: usize| unsafe {
            let (area, place) = at(place);
            area.at(place).wide()
        };
        // SAFETY: by the safety contract of this function, as for `from`.
        let to = |place: usize, value: f64| unsafe {
            let (area, place) = at(place);
            area.set(place, R::narrow(value * unit));
        };
        match &self.cycle {
            AnyPrecision::Single(cycle) => cycle.apply(me, method, from, to),
            AnyPrecision::Double(cycle) => cycle.apply(me, method, from, to),
        }
    }

    pub fn bytes(&self) -> usize {
        let z = self.z.as_ref().map_or(0, FourColours::bytes);
        match &self.cycle {
            AnyPrecision::Single(cycle) => cycle.bytes() + z,
            AnyPrecision::Double(cycle) => cycle.bytes() + z,
        }
    }
}

/// Number of low bits of a combined index. These bits contain the index in the array of a colour. The higher bits
/// contain the colour.
const COLOUR_SHIFT: u32 = 30;

/// Builds the cycle in precision `V`. `places` contains the combined index of each row.
fn cycle<V: Real + Number>(
    hierarchy: Hierarchy,
    numbers: Numbers,
    places: &[u32],
    workers: &mut Workers,
) -> Result<Cycle<V>> {
    let order = Ordered::coloured::<4>(numbers.colours())?;
    let mut cycle = Cycle::keeping_aggregates(hierarchy, &CycleParameters::PARALLEL, Some(order), workers)?;
    cycle.renumber_rows(|row| places[row]);
    Ok(cycle)
}

/// Returns the combined index of each unknown of CG: its colour, and its index in the array of this colour. Returns an
/// error if an array has too many values for [`COLOUR_SHIFT`] bits.
fn places<R: Number>(layout: &Layout, z: &FourColours<R>, numbers: Numbers) -> Result<Vec<u32>> {
    if layout.len() >> COLOUR_SHIFT > 0 {
        let (places, nodes) = (layout.len(), layout.grid.nodes());
        let message =
            format!("cycle=aggregation supports fewer than 2^30 points per colour, got {places} for {nodes} nodes");
        return Err(Error::Unsupported(message));
    }
    let place = |(i, j): (usize, usize)| {
        let (row, (even, odd)) = ((j + layout.shift_y) / 2, colours_of_row(layout, j));
        let colour = if (i + layout.shift_x).is_multiple_of(2) { even } else { odd };
        ((colour as usize) << COLOUR_SHIFT | z[colour].index_of(row, (i + layout.shift_x) / 2)) as u32
    };
    collected(numbers.nodes().map(place), WHAT)
}

/// Returns an error if A has a singular component whose constants are not projected out.
pub fn check_unprojected(components: &Components) -> Result<()> {
    components.refused().map_or(Ok(()), |&(i, j)| Err(unprojected_pivot(0.0, 0, i, j)))
}

/// Returns an error if a diagonal entry is negative or not finite. The error names level 1 for S1, which results from
/// the first level, and level 0 for A.
fn check(c: &Couplings, numbers: Numbers, level: usize, scale: f64) -> Result<()> {
    let wrong = c.diagonal.iter().position(|d| !(*d >= 0.0 && d.is_finite()));
    match wrong.and_then(|row| Some((row, numbers.nodes().nth(row)?))) {
        Some((row, (i, j))) => Err(rejected_pivot(c.diagonal[row] / scale, c.diagonal[row] / scale, level, i, j)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
