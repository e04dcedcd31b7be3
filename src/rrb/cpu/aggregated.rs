//! Preconditioner M by aggregation-based multigrid, which replaces the levels (docs/theory/aggregation.md; Napov and
//! Notay 2012).

use super::couplings::{CouplingSource, Numbering};
use crate::aggregation::cpu::{CoarseMethod, Cycle};
use crate::aggregation::{AggregationRules, COARSEST_ROWS, CycleParameters, Hierarchy, KeptAggregates, OrderedRows};
use crate::base::number::Real;
use crate::base::shared::Number;
use crate::base::team::TeamThread;
use crate::base::workers::Workers;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings};
use crate::error::{Error, Result, collected};
use crate::rrb::backend::{CostOfAggregation, rejected_pivot, unprojected_pivot};
use crate::rrb::cpu::colour_array::FourColours;
use crate::rrb::cpu::conversion::colours_of_row;
use crate::rrb::layout::{Colour, Layout};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;

/// Two passes of pairing, which produce aggregates of up to four unknowns. With aggregates of eight unknowns, systems
/// with 5-point stencils need more iterations. Systems with 9-point stencils then need more iterations only if there
/// are strong couplings along a line.
const AGGREGATION_RULES: AggregationRules = AggregationRules::with_passes(2);

/// Cost model, measured with `precision=mixed` on a 512 x 512 grid (Xeon). The contraction is computed from 14
/// iterations, which reduced the residual norm by the factor 1e-6.
pub const AGGREGATION_COST: CostOfAggregation = CostOfAggregation {
    aggregation_setup: 90.0,
    level_factorization: 20.0,
    aggregation_iteration: 7.0,
    contraction: 0.37,
    unfused_iteration: 2.0,
};

/// Multigrid cycle for vectors that are stored by colour.
pub struct AggregationCycle<R: Number> {
    cycle: AnyCycle,
    /// Number of coarse levels.
    pub levels: usize,
    /// Separate arrays for z, allocated if z of the first grid shares memory with q.
    pub z: Option<FourColours<R>>,
}

/// The cycle in single or in double precision.
enum AnyCycle {
    F32(Cycle<f32>),
    F64(Cycle<f64>),
}

impl<R: Real + Number> AggregationCycle<R> {
    /// Builds the hierarchy for the matrix on which CG runs. The aggregates `kept_aggregates` of the previous matrix
    /// are reused if all of them pass the quality test. `storage` is the precision of the cycle. `z` consists of the
    /// vector z of the first grid, and of a flag: whether this vector shares memory with another vector.
    ///
    /// # Safety
    /// No thread may write the matrix meanwhile.
    pub unsafe fn new(
        source: &CouplingSource,
        z: (&FourColours<R>, bool),
        storage: Storage,
        kept_aggregates: KeptAggregates,
        threads: usize,
    ) -> Result<Self> {
        let CouplingSource { layout, uses_schur, scale, .. } = *source;
        let workers = &mut Workers::new(threads);
        // SAFETY: by the safety contract of this function.
        let couplings = unsafe { source.couplings(workers)? };
        let numbering = Numbering::new(layout.grid, uses_schur);
        check_diagonal(&couplings, numbering, usize::from(uses_schur), scale)?;
        let hierarchy = Hierarchy::reusing_aggregates(
            couplings,
            scale,
            &AGGREGATION_RULES,
            (COARSEST_ROWS, kept_aggregates),
            workers,
        )?;
        let (combined_indices, levels) = (combined_indices(layout, z.0, numbering)?, hierarchy.levels.len());
        let cycle = match storage {
            Storage::F64 => AnyCycle::F64(build_cycle(hierarchy, numbering, &combined_indices, workers)?),
            _ => AnyCycle::F32(build_cycle(hierarchy, numbering, &combined_indices, workers)?),
        };
        let z = if z.1 { Some(FourColours::zeroed(layout, true)?) } else { None };
        Ok(Self { cycle, levels, z })
    }

    /// Returns the aggregates that the next matrix may reuse.
    pub fn into_kept_aggregates(self) -> KeptAggregates {
        match self.cycle {
            AnyCycle::F32(cycle) => cycle.into_kept_aggregates(),
            AnyCycle::F64(cycle) => cycle.into_kept_aggregates(),
        }
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        match &self.cycle {
            AnyCycle::F32(cycle) => cycle.reused_aggregate_count(),
            AnyCycle::F64(cycle) => cycle.reused_aggregate_count(),
        }
    }

    /// Computes z = `storage_unit` B z, where B is the operator of one cycle. Before the call, each thread must have
    /// written its own rows of z. The call begins and ends with a barrier.
    ///
    /// # Safety
    /// No other code may use z meanwhile.
    pub unsafe fn apply(&self, thread: &TeamThread, method: CoarseMethod, storage_unit: f64, z: &FourColours<R>) {
        let locate = |combined_index: usize| {
            (&z[Colour::ALL[combined_index >> COLOUR_SHIFT]], combined_index & ((1 << COLOUR_SHIFT) - 1))
        };
        // SAFETY: by the safety contract of this function. The cycle reads all rows before it writes any, and one
        // thread writes each row.
        let read_z = |combined_index: usize| unsafe {
            let (array, index) = locate(combined_index);
            array.get(index).to_f64()
        };
        // SAFETY: by the safety contract of this function, as for `read_z`.
        let write_z = |combined_index: usize, value: f64| unsafe {
            let (array, index) = locate(combined_index);
            array.set(index, R::from_f64(value * storage_unit));
        };
        match &self.cycle {
            AnyCycle::F32(cycle) => cycle.apply(thread, method, read_z, write_z),
            AnyCycle::F64(cycle) => cycle.apply(thread, method, read_z, write_z),
        }
    }

    pub fn bytes(&self) -> usize {
        let z = self.z.as_ref().map_or(0, FourColours::bytes);
        match &self.cycle {
            AnyCycle::F32(cycle) => cycle.bytes() + z,
            AnyCycle::F64(cycle) => cycle.bytes() + z,
        }
    }
}

/// Number of low bits of a combined index. These bits contain the index in the array of a colour. The higher bits
/// contain the colour.
const COLOUR_SHIFT: u32 = 30;

/// Builds the cycle in precision `V`. `combined_indices` contains the combined index of each unknown.
fn build_cycle<V: Real + Number>(
    hierarchy: Hierarchy,
    numbering: Numbering,
    combined_indices: &[u32],
    workers: &mut Workers,
) -> Result<Cycle<V>> {
    let order = OrderedRows::from_colours::<4>(numbering.colours())?;
    let mut cycle = Cycle::keeping_aggregates(hierarchy, &CycleParameters::PARALLEL, Some(order), workers)?;
    cycle.renumber_rows(|row| combined_indices[row]);
    Ok(cycle)
}

/// Returns the combined index of each unknown of CG: its colour, and its index in the array of this colour. Returns an
/// error if an array has too many values for [`COLOUR_SHIFT`] bits.
fn combined_indices<R: Number>(layout: &Layout, z: &FourColours<R>, numbering: Numbering) -> Result<Vec<u32>> {
    if layout.len() >> COLOUR_SHIFT > 0 {
        let (points, nodes) = (layout.len(), layout.grid.nodes());
        let message =
            format!("cycle=aggregation supports fewer than 2^30 points per colour, got {points} for {nodes} nodes");
        return Err(Error::Unsupported(message));
    }
    let combined_index_of = |(i, j): (usize, usize)| {
        let (row, (even, odd)) = ((j + layout.shift_y) / 2, colours_of_row(layout, j));
        let colour = if (i + layout.shift_x).is_multiple_of(2) { even } else { odd };
        ((colour as usize) << COLOUR_SHIFT | z[colour].index_of(row, (i + layout.shift_x) / 2)) as u32
    };
    collected(numbering.nodes().map(combined_index_of), ALLOCATION_NAME)
}

/// Returns an error if A has a singular component whose constants are not projected out.
pub fn check_components_projected(components: &Components) -> Result<()> {
    components.first_unprojected_node().map_or(Ok(()), |&(i, j)| Err(unprojected_pivot(0.0, 0, i, j)))
}

/// Returns an error if a diagonal entry is negative or not finite. The error names `level`: 1 for S1, which results
/// from the elimination of the first level, and 0 for A.
fn check_diagonal(c: &Couplings, numbering: Numbering, level: usize, scale: f64) -> Result<()> {
    let rejected_row = c.diagonal.iter().position(|d| !(*d >= 0.0 && d.is_finite()));
    match rejected_row.and_then(|row| Some((row, numbering.nodes().nth(row)?))) {
        Some((row, (i, j))) => Err(rejected_pivot(c.diagonal[row] / scale, c.diagonal[row] / scale, level, i, j)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
