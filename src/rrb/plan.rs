//! Choices for a matrix before its factorization: backend, storage format, cycle, levels and grids
//! (docs/reference/auto.md).

use crate::base::machine::Machine;
use crate::base::number::power_of_two_below;
use crate::error::{Error, Result};
use crate::krylov::solve::check_all_singular;
use crate::options::limits::{
    AMLI_JUMP_NODES, BF16_CONTRAST, BF16_CONTRAST_SINGULAR, RRB_DEVICE_NODES, SMALL_GRID_NODES,
};
use crate::options::{self, NullSpace, Options, Precision, opt};
use crate::rrb::backend::{Aggregation, InspectionSetup, Lumping, Prediction, RrbBackend, Setup, bytes_of_aggregation};
use crate::rrb::recursion::{Cycle, CycleKind};
use crate::rrb::storage::Storage;
use crate::stencil::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};
use crate::stencil::inspection::{Inspection, InspectionOptions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;

/// Selects the backend for the given numbers of threads and devices. `auto` selects the CPU if the grid is small, or if
/// the device does not support an option.
pub fn choose_machine(options: &Options, grid: Grid, thread_count: usize, device_count: i32) -> Machine {
    Machine::new(
        options,
        thread_count,
        device_count,
        grid.nodes() >= RRB_DEVICE_NODES && unsupported_on_device(options).is_none(),
    )
}

/// Returns the parameters of the inspection.
pub fn inspection_setup(options: &Options, threads: usize) -> InspectionSetup {
    let null_space: NullSpace = options.choice(opt::NULL_SPACE);
    let zero_row_sum = if null_space == NullSpace::Constant { ASSERTED_ZERO_ROW_SUM } else { ZERO_ROW_SUM };
    let checks = InspectionOptions { checks_finite: options.is_on(opt::CHECK_INPUT), zero_row_sum };
    let compute_block = options.int(opt::COMPUTE_BLOCK) as usize;
    let may_store_short = !options.is(opt::PRECISION, Precision::F64);
    InspectionSetup {
        checks,
        projects_null_space: null_space != NullSpace::None,
        threads,
        compute_block,
        may_store_short,
    }
}

/// Storage format, cycle and use of aggregation that are chosen for a matrix.
pub struct Plan<'a> {
    pub a: &'a StencilView<'a>,
    options: &'a Options,
    inspection_setup: &'a InspectionSetup,
    on_device: bool,
    on_cpu: bool,
    /// Number of compensated positive couplings.
    pub compensated_couplings: usize,
    is_singular: bool,
    /// Largest center.
    center_max: f64,
    /// Planned storage format. If the factorization rejects the matrix and `auto` has selected the format, f64 replaces
    /// this format.
    pub storage: Storage,
    /// Planned cycle. If its kind is `None`, the factorization selects AMLI or V by eigenvalue estimates.
    pub cycle: Cycle,
    /// Whether aggregation replaces the levels from the first iteration of each solve.
    uses_aggregation: bool,
    conditions: PlanConditions,
}

/// Properties other than matrix and options on which the choices depend.
#[derive(Clone, Copy, Default)]
pub struct PlanConditions {
    /// Whether a previous solve with these options converged slowly and switched to aggregation, or whether aggregation
    /// is predicted to be cheaper.
    pub prefers_aggregation: bool,
    /// Whether other ranks or devices own rows of the grids.
    pub shares_grids: bool,
    /// Whether CG in single precision stagnated in a previous solve with these options.
    pub single_stagnates: bool,
}

impl<'a> Plan<'a> {
    pub fn new(
        a: &'a StencilView<'a>,
        options: &'a Options,
        machine: Machine,
        inspection_setup: &'a InspectionSetup,
        Inspection { components, findings, .. }: &Inspection,
        conditions: PlanConditions,
    ) -> Result<Self> {
        if options.is(opt::NULL_SPACE, NullSpace::Constant) {
            check_all_singular(components.count, components.projected_count())?;
        }
        check_supported(options, machine)?;
        let uses_aggregation = requests_aggregation(options) || conditions.prefers_aggregation;
        let is_compensated = !options.is(opt::COMPENSATION, options::Compensation::Never) && !uses_aggregation;
        let (is_singular, on_device) = (components.projected_count() > 0, machine.is_device());
        Ok(Self {
            a,
            options,
            inspection_setup,
            on_device,
            on_cpu: machine.backend == options::Backend::Cpu,
            compensated_couplings: if is_compensated { findings.positive_couplings } else { 0 },
            is_singular,
            center_max: findings.center_max,
            storage: choose_storage(
                a.grid,
                options,
                (findings.center_min, findings.center_max),
                is_singular,
                uses_aggregation,
            ),
            cycle: choose_cycle(a.grid, options, CycleConditions { on_device, is_singular, uses_aggregation })?,
            uses_aggregation,
            conditions,
        })
    }

    /// Predicts the cost of a solve with the levels and with aggregation. Returns `None` in these cases:
    /// - the backend has no aggregation;
    /// - this plan already uses aggregation from the first iteration;
    /// - a slow solve may not switch to aggregation;
    /// - an option of the levels differs from its default value;
    /// - `norm` is not `true2`, or `rel_tol` is zero;
    /// - the grid is small.
    pub fn predict(&self, backend: &dyn RrbBackend) -> Option<Prediction> {
        let (nodes, options, reduction) = (self.a.grid.nodes(), self.options, self.options.real(opt::REL_TOL));
        let has_comparable_norm = options.is(opt::NORM, options::Norm::True2) && reduction > 0.0;
        let may_choose = matches!(self.aggregation(), Aggregation::IfSlow(_))
            && options.changed_names(&LEVEL_OPTIONS).next().is_none();
        let costs = backend
            .cost_of_aggregation(nodes)
            .filter(|_| has_comparable_norm && may_choose && nodes >= SMALL_GRID_NODES)?;
        let uses_schur_complement = self.a.corners.is_none() && self.compensated_couplings == 0;
        let is_fused = options.is(opt::FUSION, options::Fusion::On) && uses_schur_complement && !self.is_singular;
        let anisotropy = backend.anisotropy(self.a, self.inspection_setup.checks.zero_row_sum);
        Some(costs.predict(anisotropy, reduction.clamp(f64::EPSILON, 0.5), is_fused))
    }

    /// Returns whether this plan uses aggregation although the option `cycle` is not `aggregation`.
    pub fn chose_aggregation(&self) -> bool {
        self.uses_aggregation && !requests_aggregation(self.options)
    }

    /// Returns the parameters of the cycle with the kind V.
    pub fn v_cycle(&self) -> Cycle {
        Cycle { kind: Some(CycleKind::V), ..self.cycle }
    }

    /// Returns whether `auto` selects the storage format.
    pub fn has_automatic_storage(&self) -> bool {
        self.options.is(opt::PRECISION, Precision::Auto)
    }

    /// Selects the use of aggregation. If this plan does not use aggregation from the first iteration, a slow solve may
    /// switch to aggregation under four conditions:
    /// - `cycle_is_automatic` returns true;
    /// - the option `switch_memory` permits the memory that aggregation needs;
    /// - `precision` is not `bf16`;
    /// - no other rank or device owns rows of the grids.
    fn aggregation(&self) -> Aggregation {
        let options = self.options;
        let storage = match options.choice(opt::PRECISION) {
            _ if self.uses_aggregation => return Aggregation::FromStart,
            _ if self.conditions.shares_grids => return Aggregation::Never,
            // On a device, the vectors keep their number format when a solve switches to aggregation.
            Precision::Auto if self.on_device && self.storage == Storage::F64 => Storage::F64,
            // The options of `rrb_` have no `single`.
            Precision::Auto | Precision::F32 | Precision::Mixed | Precision::Single => Storage::F32,
            Precision::F64 => Storage::F64,
            Precision::Bf16 => return Aggregation::Never,
        };
        let memory_limit = options.int(opt::SWITCH_MEMORY);
        let bytes = bytes_of_aggregation(self.a.grid.nodes(), self.a.corners.is_some(), self.on_device);
        let fits_memory = memory_limit < 0 || bytes as u128 <= memory_limit as u128;
        if self.cycle_is_automatic() && fits_memory { Aggregation::IfSlow(storage) } else { Aggregation::Never }
    }

    /// Returns whether `auto` selects the cycle, and lumping and relaxation have their default values.
    fn cycle_is_automatic(&self) -> bool {
        self.options.is(opt::CYCLE, options::Cycle::Auto) && is_default_lumping(self.options)
    }

    /// Returns the parameters of a factorization with this storage format and cycle.
    pub fn setup(&self, storage: Storage, cycle: Cycle) -> Result<Setup> {
        let (a, options, compute_block) = (self.a, self.options, self.inspection_setup.compute_block);
        let (levels, grids) = match self.uses_aggregation {
            // With aggregation, the setup has one level and one grid. For a 5-point matrix, the elimination of this
            // level produces S1.
            true => (1, 1),
            false => {
                let levels = choose_levels(a.grid, options, &cycle, self.on_device)?;
                check_cost(a.grid, &cycle, levels)?;
                (levels, choose_grids(a.grid, levels, options.int(opt::GRIDS) as usize, compute_block))
            }
        };
        let requests_amli = options.is(opt::CYCLE, options::Cycle::Amli);
        let mut setup = Setup {
            levels,
            may_truncate: options.int(opt::LEVELS) == 0 && !requests_amli,
            lumping: match options.choice(opt::LUMPING) {
                options::Lumping::M1 => Lumping::Red,
                options::Lumping::M2 => Lumping::RedAndBlack,
            },
            omega: options.real(opt::RELAXATION),
            compensates_positive_couplings: self.compensated_couplings > 0,
            grids,
            compute_block,
            zero_row_sum: self.inspection_setup.checks.zero_row_sum,
            fused: options.is(opt::FUSION, options::Fusion::On),
            storage,
            storage_unit: if storage == Storage::F64 || self.uses_aggregation {
                1.0
            } else {
                power_of_two_below(self.center_max)
            },
            cycle,
            aggregation: self.aggregation(),
        };
        // CG in single precision requires the CPU, S1 of a regular matrix, M in bf16, and at least two packed grids.
        // With `precision=auto`, it also requires `norm=true2` and one of two conditions:
        // - A slow solve may switch to aggregation. Single precision increases the number of iterations only in solves
        //   of hundreds of iterations, which switch earlier.
        // - The domain is distributed, `cycle_is_automatic` returns true, and `single_stagnates` is false. A solve that
        //   then stagnates continues with CG in double precision.
        let may_use_mixed = match options.choice(opt::PRECISION) {
            Precision::Auto => {
                let PlanConditions { shares_grids: shared, single_stagnates: stagnates, .. } = self.conditions;
                let may_switch = matches!(setup.aggregation, Aggregation::IfSlow(_));
                let may_widen = shared && !stagnates && self.cycle_is_automatic();
                (may_switch || may_widen) && options.is(opt::NORM, options::Norm::True2)
            }
            precision => precision == Precision::Mixed,
        };
        if may_use_mixed
            && self.on_cpu
            && storage == Storage::Bf16
            && grids > 1
            && !self.is_singular
            && setup.uses_schur_complement(a)
        {
            setup.storage = Storage::Mixed;
        }
        Ok(setup)
    }
}

/// Returns the names of those options set by the caller that have no effect with aggregation.
pub fn options_without_effect(options: &Options) -> Vec<&'static str> {
    if requests_aggregation(options) { options.changed_names(&LEVEL_OPTIONS).collect() } else { Vec::new() }
}

/// Options of the levels, which have no effect with aggregation. If the caller sets one of them, `auto` does not select
/// aggregation by predicted costs. A slow solve may nevertheless switch to aggregation.
const LEVEL_OPTIONS: [i32; 8] = [
    opt::LEVELS,
    opt::COARSE_MEMORY,
    opt::GRIDS,
    opt::LUMPING,
    opt::RELAXATION,
    opt::COMPENSATION,
    opt::CYCLE_SPACING,
    opt::CYCLE_STEPS,
];

fn requests_aggregation(options: &Options) -> bool {
    options.is(opt::CYCLE, options::Cycle::Aggregation)
}

/// Returns an error message if the options request something that a device does not support, otherwise `None`.
fn unsupported_on_device(options: &Options) -> Option<&'static str> {
    match options.choice(opt::CYCLE) {
        options::Cycle::K => Some("cycle=k is not supported on a device: use cycle=amli, or backend=cpu"),
        _ => None,
    }
}

/// Returns an error if the backend or aggregation does not support an option.
fn check_supported(options: &Options, machine: Machine) -> Result<()> {
    let requests_bf16 = matches!(options.choice(opt::PRECISION), Precision::Bf16 | Precision::Mixed);
    let error_message = match unsupported_on_device(options) {
        message if machine.is_device() => message,
        _ if machine.backend == options::Backend::Reference && requests_aggregation(options) => {
            Some("cycle=aggregation is not available with backend=reference: use backend=cpu")
        }
        _ if requests_aggregation(options) && requests_bf16 => {
            Some("cycle=aggregation does not support precision=bf16 or mixed: use precision=f32 (auto) or f64")
        }
        _ => None,
    };
    error_message.map_or(Ok(()), |message| Err(Error::Unsupported(message.to_owned())))
}

/// Selects the storage format of M. `auto` usually selects bf16, which `Plan::setup` replaces by `mixed` if possible.
/// bf16 needs a quarter of the memory traffic of f64, and one or two more iterations.
///
/// `auto` selects f64 in three cases: on small grids, for lumping other than M1 with omega = 1, and if the ratio of the
/// largest center `center_max` to the smallest center `center_min` is above a limit. On singular systems, sweeps in f32
/// add constant vectors by rounding. bf16 then needs up to 20 % more iterations than f64, but it is still selected,
/// because a solve then takes only 0.7 to 0.95 times as long as with f64.
///
/// With aggregation, `auto` selects f32.
fn choose_storage(
    grid: Grid,
    options: &Options,
    (center_min, center_max): (f64, f64),
    is_singular: bool,
    uses_aggregation: bool,
) -> Storage {
    match options.choice(opt::PRECISION) {
        Precision::F64 => Storage::F64,
        // With aggregation, the hierarchy is built from a scaled matrix, and f32 needs as many iterations as f64 for
        // all coefficients.
        Precision::Auto | Precision::Mixed if uses_aggregation => Storage::F32,
        // The options of `rrb_` have no `single`.
        Precision::F32 | Precision::Single => Storage::F32,
        Precision::Bf16 | Precision::Mixed => Storage::Bf16,
        Precision::Auto => {
            let bf16_is_accurate = is_default_lumping(options) && grid.nodes() >= SMALL_GRID_NODES;
            let max_contrast = if is_singular { BF16_CONTRAST_SINGULAR } else { BF16_CONTRAST };
            if bf16_is_accurate && center_max <= max_contrast * center_min { Storage::Bf16 } else { Storage::F64 }
        }
    }
}

/// Returns whether the options select M1 with omega = 1, the only variant of lumping with fast convergence.
fn is_default_lumping(options: &Options) -> bool {
    options.is(opt::LUMPING, options::Lumping::M1) && options.real(opt::RELAXATION) == 1.0
}

/// Number of levels between recursions for `cycle_spacing=0`. With 4 levels, the first recursion begins on a grid with
/// 1/16 of the nodes. A cycle therefore costs only 1.28 V-cycles, and CG needs less than half of the iterations that it
/// needs with the V-cycle.
pub const DEFAULT_SPACING: usize = 4;

/// Properties other than grid and options on which the choice of a cycle depends.
#[derive(Clone, Copy, Default)]
struct CycleConditions {
    on_device: bool,
    is_singular: bool,
    uses_aggregation: bool,
}

/// Selects the cycle. `cycle=auto` selects V on small grids, for lumping other than M1 with omega = 1, and with
/// aggregation. Otherwise, the kind is `None`, and the factorization selects the kind by eigenvalue estimates. Returns
/// an error if `cycle_spacing` is odd.
fn choose_cycle(grid: Grid, options: &Options, conditions: CycleConditions) -> Result<Cycle> {
    let CycleConditions { on_device, is_singular, uses_aggregation } = conditions;
    let spacing = match options.int(opt::CYCLE_SPACING) as usize {
        0 => DEFAULT_SPACING,
        odd_spacing if odd_spacing % 2 == 1 => {
            return Err(Error::range("cycle_spacing", odd_spacing, "be even: recursions start on unrotated grids"));
        }
        even_spacing => even_spacing,
    };
    let kind = match options.choice(opt::CYCLE) {
        options::Cycle::V => Some(CycleKind::V),
        options::Cycle::Amli => Some(CycleKind::Amli),
        options::Cycle::K => Some(CycleKind::K),
        options::Cycle::Aggregation => Some(CycleKind::V),
        options::Cycle::Auto if uses_aggregation || grid.nodes() < SMALL_GRID_NODES || !is_default_lumping(options) => {
            Some(CycleKind::V)
        }
        options::Cycle::Auto => None,
    };
    let allows_jumps = (on_device || grid.nodes() >= AMLI_JUMP_NODES) && !is_singular;
    Ok(Cycle { kind, spacing, steps: options.int(opt::CYCLE_STEPS) as usize, allows_jumps })
}

/// Maximum work of one application of M, as a multiple of a V-cycle. A cycle with more work is faster than the V-cycle
/// only if it needs less than 1 % of the iterations. A recursion of two steps, which costs few V-cycles, approximately
/// halves the number of iterations.
const MAX_CYCLE_WORK: f64 = 100.0;

/// Returns an error if a cycle needs too much work. From one recursion to the next, the number of visits grows by the
/// factor `cycle_steps`, while the number of nodes decreases by a factor of 4 per two levels. If the visits grow faster
/// than the nodes decrease, the work on the coarse grids grows with the number of recursions.
fn check_cost(grid: Grid, cycle: &Cycle, levels: usize) -> Result<()> {
    let cost = cycle.cost(grid, levels);
    if cost <= MAX_CYCLE_WORK {
        return Ok(());
    }
    let Cycle { spacing, steps, .. } = cycle;
    let value_text = format!(
        "{steps} with cycle_spacing = {spacing}, the work of {cost:.0}: lower cycle_steps or raise cycle_spacing"
    );
    Err(Error::range(
        "cycle_steps",
        value_text,
        format!("keep an iteration within the work of {MAX_CYCLE_WORK} V-cycles"),
    ))
}

/// Returns the number of levels. If the option `levels` is 0, this is the default for a device or for the cycle; on the
/// CPU, `coarse_memory` may require more levels. Otherwise, it is `levels`, but at most the number that the grid
/// allows. Returns an error if the factor of the coarsest system then exceeds `coarse_memory`.
fn choose_levels(grid: Grid, options: &Options, cycle: &Cycle, on_device: bool) -> Result<usize> {
    let memory_limit = options.int(opt::COARSE_MEMORY) as u128;
    let max_levels = grid.max_levels();
    let fits_memory = |levels: usize| grid.coarsest_nodes(levels).band_entries() * 8 <= memory_limit;
    let requested_levels = options.int(opt::LEVELS) as usize;
    if requested_levels == 0 && on_device {
        return Ok(grid.default_device_levels());
    }
    if requested_levels == 0 {
        // A recursive cycle solves the coarsest system several times per iteration.
        let default_levels =
            if cycle.kind == Some(CycleKind::V) { grid.default_levels() } else { grid.recursive_levels() };
        return Ok((default_levels..=max_levels).find(|&levels| fits_memory(levels)).unwrap_or(max_levels));
    }
    let levels = requested_levels.min(max_levels);
    if fits_memory(levels) {
        return Ok(levels);
    }
    let feasible_levels = (levels..=max_levels).find(|&count| fits_memory(count)).unwrap_or(max_levels);
    Err(Error::Memory(format!(
        "levels={levels} leaves a coarsest system of {} nodes, whose factor needs {} bytes, more than coarse_memory \
         = {memory_limit}; the smallest feasible levels is {feasible_levels}",
        grid.coarsest_nodes(levels).nodes(),
        grid.coarsest_nodes(levels).band_entries() * 8
    )))
}

/// Returns the number of grids whose rows can be distributed among ranks in every factorization with these options; 0
/// if there are none. A factorization for the V-cycle has the fewest levels, so the grids of such a factorization are
/// counted.
pub fn grids_to_share(options: &Options, grid: Grid) -> usize {
    if requests_aggregation(options) {
        return 0;
    }
    let cycle = Cycle { kind: Some(CycleKind::V), spacing: DEFAULT_SPACING, steps: 2, allows_jumps: false };
    let compute_block = options.int(opt::COMPUTE_BLOCK) as usize;
    let requested_grids = options.int(opt::GRIDS) as usize;
    // The last packed grid is not distributed.
    choose_levels(grid, options, &cycle, false)
        .map_or(0, |levels| choose_grids(grid, levels, requested_grids, compute_block).saturating_sub(1))
}

/// Returns the number of packed grids, which are stored by colour: one per two levels, on grids that are large enough.
/// If `requested_grids` is not 0, the number is at most `requested_grids`.
fn choose_grids(grid: Grid, levels: usize, requested_grids: usize, compute_block: usize) -> usize {
    let max_grids = grid.max_packed_grids(compute_block).min(levels / 2);
    if requested_grids == 0 { max_grids } else { requested_grids.min(max_grids) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the default cycle costs less than 3 V-cycles for all grids and their numbers of levels, on a host
    /// and on a device.
    #[test]
    fn default_cycles_cost_less_than_three_v_cycles() {
        let options = Options::new(options::Family::Rrb);
        let extents =
            || (0..=16).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1]).filter(|&n| (1..=1 << 16).contains(&n));
        for nx in extents() {
            for ny in extents() {
                let grid = Grid { nx, ny };
                let default_cycle = choose_cycle(grid, &options, CycleConditions::default()).unwrap();
                // By default, small grids use V.
                let cycle = Cycle { kind: Some(CycleKind::Amli), ..default_cycle };
                for levels in [grid.recursive_levels(), grid.default_device_levels(), grid.max_levels()] {
                    check_cost(grid, &cycle, levels).unwrap();
                    // On a single line of nodes, the next recursion has a quarter of the nodes, and is executed twice
                    // as often.
                    assert!(
                        cycle.cost(grid, levels) < 3.0,
                        "{nx} x {ny}, {levels} levels: {}",
                        cycle.cost(grid, levels)
                    );
                }
            }
        }
    }

    #[test]
    fn error_names_the_smallest_feasible_level_count() {
        let mut options = Options::new(options::Family::Rrb);
        options.set_text("levels=2").unwrap();
        let grid = Grid { nx: 2047, ny: 2047 };
        let error = choose_levels(
            grid,
            &options,
            &choose_cycle(grid, &options, CycleConditions { uses_aggregation: true, ..CycleConditions::default() })
                .unwrap(),
            false,
        )
        .unwrap_err();
        assert_eq!(error.status(), crate::error::RRB_ERR_MEMORY);
        // Four levels leave 511^2 nodes. With 512 values per row, the factor needs 1.07e9 bytes, less than 2^30.
        assert!(error.to_string().ends_with("smallest feasible levels is 4"), "{error}");
    }
}
