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
use crate::rrb::recursion::{Cycle, Kind};
use crate::rrb::storage::Storage;
use crate::stencil::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};
use crate::stencil::inspection::{Inspection, InspectionOptions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;

/// Selects the backend for the given numbers of threads and devices. `auto` selects the CPU if the grid is small, or if
/// the device does not support an option.
pub fn machine(options: &Options, grid: Grid, threads: usize, devices: i32) -> Machine {
    Machine::new(
        options,
        threads,
        devices,
        grid.nodes() >= RRB_DEVICE_NODES && unsupported_on_device(options).is_none(),
    )
}

/// Returns the parameters of the inspection.
pub fn inspection_setup(options: &Options, threads: usize) -> InspectionSetup {
    let null_space: NullSpace = options.choice(opt::NULL_SPACE);
    let zero_row_sum = if null_space == NullSpace::Constant { ASSERTED_ZERO_ROW_SUM } else { ZERO_ROW_SUM };
    let checks = InspectionOptions { finite: options.on(opt::CHECK_INPUT), zero_row_sum };
    let block = options.int(opt::COMPUTE_BLOCK) as usize;
    let may_store_short = !options.is(opt::PRECISION, Precision::F64);
    InspectionSetup { checks, project: null_space != NullSpace::None, threads, block, may_store_short }
}

/// Choices for a matrix.
pub struct Plan<'a> {
    pub a: &'a StencilView<'a>,
    options: &'a Options,
    inspection_setup: &'a InspectionSetup,
    on_device: bool,
    on_cpu: bool,
    /// Number of compensated positive couplings.
    pub positive: usize,
    singular: bool,
    /// Largest center.
    largest: f64,
    /// Planned storage format. If the factorization rejects the matrix and `auto` has selected the format, f64 replaces
    /// it.
    pub storage: Storage,
    /// Planned cycle. If its kind is `None`, the estimates of the factorization may replace it by the V-cycle.
    pub cycle: Cycle,
    /// Whether aggregation replaces the levels from the start.
    aggregates: bool,
    conditions: PlanConditions,
}

/// Properties other than matrix and options on which the choices depend.
#[derive(Clone, Copy, Default)]
pub struct PlanConditions {
    /// Whether a previous solve with these options converged slowly and switched to aggregation, or whether aggregation
    /// is predicted to be cheaper.
    pub slow: bool,
    /// Whether other ranks or devices own rows of the grids.
    pub shared: bool,
    /// Whether CG in single precision stagnated in a previous solve with these options.
    pub stagnates: bool,
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
            check_all_singular(components.count, components.singular())?;
        }
        check_supported(options, machine)?;
        let aggregates = aggregates(options) || conditions.slow;
        let compensate = !options.is(opt::COMPENSATION, options::Compensation::Never) && !aggregates;
        let (singular, on_device) = (components.singular() > 0, machine.is_device());
        Ok(Self {
            a,
            options,
            inspection_setup,
            on_device,
            on_cpu: machine.backend == options::Backend::Cpu,
            positive: if compensate { findings.positive_couplings } else { 0 },
            singular,
            largest: findings.center_max,
            storage: choose_storage(a.grid, options, (findings.center_min, findings.center_max), singular, aggregates),
            cycle: choose_cycle(a.grid, options, CycleConditions { on_device, singular, aggregates })?,
            aggregates,
            conditions,
        })
    }

    /// Predicts the cost of a solve with the levels and with aggregation. Returns `None` in these cases:
    /// - the backend has no aggregation, this plan uses it from the start, or a slow solve may not switch to it;
    /// - an option of the levels differs from its default value;
    /// - `norm` is not `true2`, or `rel_tol` is zero;
    /// - the grid is small.
    pub fn predict(&self, backend: &dyn RrbBackend) -> Option<Prediction> {
        let (nodes, options, reduction) = (self.a.grid.nodes(), self.options, self.options.real(opt::REL_TOL));
        let as_in_solves = options.is(opt::NORM, options::Norm::True2) && reduction > 0.0;
        let chooses = matches!(self.aggregation(), Aggregation::IfSlow(_))
            && options.names_of_non_default(&LEVEL_OPTIONS).next().is_none();
        let cost =
            backend.cost_of_aggregation(nodes).filter(|_| as_in_solves && chooses && nodes >= SMALL_GRID_NODES)?;
        let on_schur_complement = self.a.corners.is_none() && self.positive == 0;
        let fused = options.is(opt::FUSION, options::Fusion::On) && on_schur_complement && !self.singular;
        let anisotropy = backend.anisotropy(self.a, self.inspection_setup.checks.zero_row_sum);
        Some(cost.predict(anisotropy, reduction.clamp(f64::EPSILON, 0.5), fused))
    }

    /// Returns whether aggregation is used without a request by the option `cycle`.
    pub fn aggregates_automatically(&self) -> bool {
        self.aggregates && !aggregates(self.options)
    }

    /// Returns the parameters of the cycle with the kind V.
    pub fn v_cycle(&self) -> Cycle {
        Cycle { kind: Some(Kind::V), ..self.cycle }
    }

    /// Returns whether `auto` selects the storage format.
    pub fn has_automatic_storage(&self) -> bool {
        self.options.is(opt::PRECISION, Precision::Auto)
    }

    /// Selects the use of aggregation. If this plan does not use it from the start, it may replace the levels during a
    /// slow solve, provided that `cycle_is_free` holds and `switch_memory` permits the memory. It never does with
    /// `precision=bf16`, and on grids that are shared with other ranks or devices.
    fn aggregation(&self) -> Aggregation {
        let options = self.options;
        let storage = match options.choice(opt::PRECISION) {
            _ if self.aggregates => return Aggregation::FromStart,
            _ if self.conditions.shared => return Aggregation::Never,
            // On a device, a switch does not change the format of the vectors.
            Precision::Auto if self.on_device && self.storage == Storage::F64 => Storage::F64,
            // The options of `rrb_` have no `single`.
            Precision::Auto | Precision::F32 | Precision::Mixed | Precision::Single => Storage::F32,
            Precision::F64 => Storage::F64,
            Precision::Bf16 => return Aggregation::Never,
        };
        let memory = options.int(opt::SWITCH_MEMORY);
        let bytes = bytes_of_aggregation(self.a.grid.nodes(), self.a.corners.is_some(), self.on_device);
        let fits = memory < 0 || bytes as u128 <= memory as u128;
        if self.cycle_is_free() && fits { Aggregation::IfSlow(storage) } else { Aggregation::Never }
    }

    /// Returns whether `auto` selects the cycle, and lumping and relaxation have their default values.
    fn cycle_is_free(&self) -> bool {
        self.options.is(opt::CYCLE, options::Cycle::Auto) && is_default_lumping(self.options)
    }

    /// Returns the parameters of a factorization with this storage format and cycle.
    pub fn setup(&self, storage: Storage, cycle: Cycle) -> Result<Setup> {
        let (a, options, block) = (self.a, self.options, self.inspection_setup.block);
        let (levels, grids) = match self.aggregates {
            // With aggregation, there is only the first level, whose elimination produces S1, and its grid.
            true => (1, 1),
            false => {
                let levels = choose_levels(a.grid, options, &cycle, self.on_device)?;
                check_cost(a.grid, &cycle, levels)?;
                (levels, choose_grids(a.grid, levels, options.int(opt::GRIDS) as usize, block))
            }
        };
        let amli = options.is(opt::CYCLE, options::Cycle::Amli);
        let mut setup = Setup {
            levels,
            may_truncate: options.int(opt::LEVELS) == 0 && !amli,
            lumping: match options.choice(opt::LUMPING) {
                options::Lumping::M1 => Lumping::Red,
                options::Lumping::M2 => Lumping::RedAndBlack,
            },
            omega: options.real(opt::RELAXATION),
            compensate: self.positive > 0,
            grids,
            block,
            zero_row_sum: self.inspection_setup.checks.zero_row_sum,
            fused: options.is(opt::FUSION, options::Fusion::On),
            storage,
            unit: if storage == Storage::F64 || self.aggregates { 1.0 } else { power_of_two_below(self.largest) },
            cycle,
            aggregation: self.aggregation(),
        };
        // CG in single precision requires the CPU, S1 of a regular matrix, M in bf16, and at least two packed grids.
        // With `precision=auto`, it also requires `norm=true2` and one of two conditions:
        // - A slow solve may switch to aggregation. Single precision increases the number of iterations only in solves
        //   of hundreds of iterations, which switch earlier.
        // - The domain is distributed, and a stagnating solve can continue with CG in double precision. This has not
        //   happened before.
        let asked = match options.choice(opt::PRECISION) {
            Precision::Auto => {
                let PlanConditions { shared, stagnates, .. } = self.conditions;
                let switches = matches!(setup.aggregation, Aggregation::IfSlow(_));
                let widens = shared && !stagnates && self.cycle_is_free();
                (switches || widens) && options.is(opt::NORM, options::Norm::True2)
            }
            precision => precision == Precision::Mixed,
        };
        if asked
            && self.on_cpu
            && storage == Storage::Bf16
            && grids > 1
            && !self.singular
            && setup.on_schur_complement(a)
        {
            setup.storage = Storage::Mixed;
        }
        Ok(setup)
    }
}

/// Returns the names of those options set by the caller that have no effect with aggregation.
pub fn options_without_effect(options: &Options) -> Vec<&'static str> {
    if aggregates(options) { options.names_of_non_default(&LEVEL_OPTIONS).collect() } else { Vec::new() }
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

fn aggregates(options: &Options) -> bool {
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
    let short = matches!(options.choice(opt::PRECISION), Precision::Bf16 | Precision::Mixed);
    let refused = match unsupported_on_device(options) {
        message if machine.is_device() => message,
        _ if machine.backend == options::Backend::Reference && aggregates(options) => {
            Some("cycle=aggregation is not available with backend=reference: use backend=cpu")
        }
        _ if aggregates(options) && short => {
            Some("cycle=aggregation does not support precision=bf16 or mixed: use precision=f32 (auto) or f64")
        }
        _ => None,
    };
    refused.map_or(Ok(()), |message| Err(Error::Unsupported(message.to_owned())))
}

/// Selects the storage format of M. `auto` usually selects bf16, which `Plan::setup` replaces by `mixed` if possible.
/// bf16 needs a quarter of the memory traffic of f64, and one or two more iterations.
///
/// `auto` selects f64 in three cases: on small grids, for lumping other than M1 with omega = 1, and if the ratio of the
/// largest center `high` to the smallest center `low` is above a limit. On singular systems, sweeps in f32 add constant
/// vectors by rounding. bf16 then needs up to 20 % more iterations than f64, but it is still selected, because a solve
/// takes only 0.7 to 0.95 times as long.
///
/// With aggregation, `auto` selects f32.
fn choose_storage(grid: Grid, options: &Options, (low, high): (f64, f64), singular: bool, aggregates: bool) -> Storage {
    match options.choice(opt::PRECISION) {
        Precision::F64 => Storage::F64,
        // With aggregation, the hierarchy is built from a scaled matrix, and f32 needs as many iterations as f64 for
        // all coefficients.
        Precision::Auto | Precision::Mixed if aggregates => Storage::F32,
        // The options of `rrb_` have no `single`.
        Precision::F32 | Precision::Single => Storage::F32,
        Precision::Bf16 | Precision::Mixed => Storage::Bf16,
        Precision::Auto => {
            let plain = is_default_lumping(options) && grid.nodes() >= SMALL_GRID_NODES;
            let contrast = if singular { BF16_CONTRAST_SINGULAR } else { BF16_CONTRAST };
            if plain && high <= contrast * low { Storage::Bf16 } else { Storage::F64 }
        }
    }
}

/// Returns whether the options select M1 with omega = 1, the only variant of lumping with fast convergence.
fn is_default_lumping(options: &Options) -> bool {
    options.is(opt::LUMPING, options::Lumping::M1) && options.real(opt::RELAXATION) == 1.0
}

/// Number of levels between recursions for `cycle_spacing=0`. With 4 levels, the first recursion begins on a grid with
/// 1/16 of the nodes. A cycle therefore costs only 1.28 V-cycles, and it needs less than half of the iterations.
pub const SPACING: usize = 4;

/// Properties other than grid and options on which the choice of a cycle depends.
#[derive(Clone, Copy, Default)]
struct CycleConditions {
    on_device: bool,
    singular: bool,
    aggregates: bool,
}

/// Selects the cycle. `cycle=auto` selects V on small grids, for lumping other than M1 with omega = 1, and with
/// aggregation. Otherwise, it leaves the kind `None`, and the factorization selects the kind by estimates. Returns an
/// error if `cycle_spacing` is odd.
fn choose_cycle(grid: Grid, options: &Options, kinds: CycleConditions) -> Result<Cycle> {
    let CycleConditions { on_device, singular, aggregates } = kinds;
    let spacing = match options.int(opt::CYCLE_SPACING) as usize {
        0 => SPACING,
        odd if odd % 2 == 1 => {
            return Err(Error::range("cycle_spacing", odd, "be even: recursions start on unrotated grids"));
        }
        even => even,
    };
    let kind = match options.choice(opt::CYCLE) {
        options::Cycle::V => Some(Kind::V),
        options::Cycle::Amli => Some(Kind::Amli),
        options::Cycle::K => Some(Kind::K),
        options::Cycle::Aggregation => Some(Kind::V),
        options::Cycle::Auto if aggregates || grid.nodes() < SMALL_GRID_NODES || !is_default_lumping(options) => {
            Some(Kind::V)
        }
        options::Cycle::Auto => None,
    };
    let allows_jumps = (on_device || grid.nodes() >= AMLI_JUMP_NODES) && !singular;
    Ok(Cycle { kind, spacing, steps: options.int(opt::CYCLE_STEPS) as usize, allows_jumps })
}

/// Maximum work of one application of M, as a multiple of a V-cycle. A cycle with more work is faster than the V-cycle
/// only if it needs less than 1 % of the iterations. A recursion of two steps, which costs few V-cycles, approximately
/// halves the number of iterations.
const MAX_WORK: f64 = 100.0;

/// Returns an error if a cycle needs too much work. From one recursion to the next, the number of visits grows by the
/// factor `cycle_steps`, while the number of nodes decreases by a factor of 4 per two levels. If the visits grow faster
/// than the nodes decrease, the work on the coarse grids grows with the number of recursions.
fn check_cost(grid: Grid, cycle: &Cycle, levels: usize) -> Result<()> {
    let cost = cycle.cost(grid, levels);
    if cost <= MAX_WORK {
        return Ok(());
    }
    let Cycle { spacing, steps, .. } = cycle;
    let value = format!(
        "{steps} with cycle_spacing = {spacing}, the work of {cost:.0}: lower cycle_steps or raise cycle_spacing"
    );
    Err(Error::range("cycle_steps", value, format!("keep an iteration within the work of {MAX_WORK} V-cycles")))
}

/// Returns the number of levels: the option `levels`, at most the maximum of the grid. An error is returned if the
/// factor of the coarsest system then exceeds `coarse_memory`. If the option is 0, the number is the default for a
/// device or for the cycle; on the CPU, `coarse_memory` may require more levels.
fn choose_levels(grid: Grid, options: &Options, cycle: &Cycle, on_device: bool) -> Result<usize> {
    let limit = options.int(opt::COARSE_MEMORY) as u128;
    let all = grid.max_levels();
    let fits = |levels: usize| grid.coarsest_nodes(levels).band_entries() * 8 <= limit;
    let wanted = options.int(opt::LEVELS) as usize;
    if wanted == 0 && on_device {
        return Ok(grid.default_device_levels());
    }
    if wanted == 0 {
        // A recursive cycle solves the coarsest system several times per iteration.
        let small = if cycle.kind == Some(Kind::V) { grid.default_levels() } else { grid.recursive_levels() };
        return Ok((small..=all).find(|&l| fits(l)).unwrap_or(all));
    }
    let levels = wanted.min(all);
    if fits(levels) {
        return Ok(levels);
    }
    let feasible = (levels..=all).find(|&l| fits(l)).unwrap_or(all);
    Err(Error::Memory(format!(
        "levels={levels} leaves a coarsest system of {} nodes, whose factor needs {} bytes, more than coarse_memory \
         = {limit}; the smallest feasible levels is {feasible}",
        grid.coarsest_nodes(levels).nodes(),
        grid.coarsest_nodes(levels).band_entries() * 8
    )))
}

/// Returns the number of grids whose rows can be distributed among ranks in every factorization with these options; 0
/// if there are none. Factorizations for the V-cycle have the fewest levels, so their grids are counted.
pub fn grids_to_share(options: &Options, grid: Grid) -> usize {
    if aggregates(options) {
        return 0;
    }
    let cycle = Cycle { kind: Some(Kind::V), spacing: SPACING, steps: 2, allows_jumps: false };
    let block = options.int(opt::COMPUTE_BLOCK) as usize;
    let wanted = options.int(opt::GRIDS) as usize;
    // The last packed grid is not distributed.
    choose_levels(grid, options, &cycle, false).map_or(0, |l| choose_grids(grid, l, wanted, block).saturating_sub(1))
}

/// Returns the number of packed grids, which are stored by colour: one per two levels, on grids that are large enough.
/// If `wanted` is not 0, the number is at most `wanted`.
fn choose_grids(grid: Grid, levels: usize, wanted: usize, block: usize) -> usize {
    let most = grid.max_packed_grids(block).min(levels / 2);
    if wanted == 0 { most } else { wanted.min(most) }
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
                let default = choose_cycle(grid, &options, CycleConditions::default()).unwrap();
                // By default, small grids use V.
                let cycle = Cycle { kind: Some(Kind::Amli), ..default };
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
        let mut o = Options::new(options::Family::Rrb);
        o.set_text("levels=2").unwrap();
        let grid = Grid { nx: 2047, ny: 2047 };
        let e = choose_levels(
            grid,
            &o,
            &choose_cycle(grid, &o, CycleConditions { aggregates: true, ..CycleConditions::default() }).unwrap(),
            false,
        )
        .unwrap_err();
        assert_eq!(e.status(), crate::error::RRB_ERR_MEMORY);
        // 511^2 with a band of 512: 1.07e9 bytes are below 2^30.
        assert!(e.to_string().ends_with("smallest feasible levels is 4"), "{e}");
    }
}
