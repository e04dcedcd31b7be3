//! What is chosen for a matrix before it is factorized: backend, format, cycle, levels and grids.

use crate::backend::steps::cycle::{Cycle, Kind};
use crate::backend::steps::rrb::{Aggregation, Look, Lumping, Prediction, RrbBackend, Setup, bytes_of_aggregation};
use crate::backend::storage::Storage;
use crate::error::{Error, Result};
use crate::grid::components::{ASSERTED_ZERO_ROW_SUM, ZERO_ROW_SUM};
use crate::grid::inspection::{Inspection, Questions};
use crate::grid::levels::Grid;
use crate::grid::stencil::StencilView;
use crate::options::limits::{AMLI_JUMP_NODES, RRB_DEVICE_NODES, SHORT_CONTRAST, SHORT_CONTRAST_SINGULAR, SMALL_GRID};
use crate::options::{self, NullSpace, Options, Precision, opt};
use crate::runtime::number::power_of_two_below;
use crate::solver::machine::Machine;
use crate::solver::solve::check_all_singular;

/// Where to solve on a machine with so many threads and devices. What the device does not offer is no reason to leave
/// the CPU.
pub fn machine(options: &Options, grid: Grid, threads: usize, devices: i32) -> Machine {
    Machine::new(options, threads, devices, grid.nodes() >= RRB_DEVICE_NODES && wants_on_host(options).is_none())
}

/// What is asked about a matrix.
pub fn look(options: &Options, members: usize) -> Look {
    let null_space: NullSpace = options.choice(opt::NULL_SPACE);
    let zero_row_sum = if null_space == NullSpace::Constant { ASSERTED_ZERO_ROW_SUM } else { ZERO_ROW_SUM };
    let questions = Questions { finite: options.on(opt::CHECK_INPUT), zero_row_sum };
    let block = options.int(opt::COMPUTE_BLOCK) as usize;
    let short = !options.is(opt::PRECISION, Precision::F64);
    Look { questions, project: null_space != NullSpace::None, members, block, short }
}

/// What the options and the matrix lead to.
pub struct Plan<'a> {
    pub a: &'a StencilView<'a>,
    options: &'a Options,
    look: &'a Look,
    on_device: bool,
    /// The backend has CG in single precision.
    single: bool,
    /// Couplings that are compensated.
    pub positive: usize,
    singular: bool,
    /// Of the centers.
    largest: f64,
    /// The format, but where it turns out to be too short.
    pub storage: Storage,
    /// The cycle, but where another turns out to be better.
    pub cycle: Cycle,
    /// Aggregation in place of the levels.
    aggregates: bool,
    circumstances: Circumstances,
}

/// What the choices for a matrix depend on beside it and the options.
#[derive(Clone, Copy, Default)]
pub struct Circumstances {
    /// Solves of matrices like this one are slow.
    pub slow: bool,
    /// Other ranks have rows of the grids.
    pub shared: bool,
    /// CG in single precision has stagnated for one like this.
    pub stagnates: bool,
}

impl<'a> Plan<'a> {
    pub fn new(
        a: &'a StencilView<'a>,
        options: &'a Options,
        machine: Machine,
        look: &'a Look,
        Inspection { components, findings, .. }: &Inspection,
        circumstances: Circumstances,
    ) -> Result<Self> {
        if options.is(opt::NULL_SPACE, NullSpace::Constant) {
            check_all_singular(components.count, components.singular())?;
        }
        check_offered(options, machine)?;
        let aggregates = aggregates(options) || circumstances.slow;
        let compensate = !options.is(opt::COMPENSATION, options::Compensation::Never) && !aggregates;
        let (singular, on_device) = (components.singular() > 0, machine.is_device());
        Ok(Self {
            a,
            options,
            look,
            on_device,
            single: machine.backend == options::Backend::Cpu,
            positive: if compensate { findings.positive_couplings } else { 0 },
            singular,
            largest: findings.center_max,
            storage: choose_storage(a.grid, options, (findings.center_min, findings.center_max), singular, aggregates),
            cycle: choose_cycle(a.grid, options, Kinds { on_device, singular, aggregates })?,
            aggregates,
            circumstances,
        })
    }

    /// What to expect of a solve, where levels and aggregation are to choose from.
    pub fn predict(&self, backend: &dyn RrbBackend) -> Option<Prediction> {
        let (nodes, options, reduction) = (self.a.grid.nodes(), self.options, self.options.real(opt::REL_TOL));
        let as_in_solves = options.is(opt::NORM, options::Norm::True2) && reduction > 0.0;
        let chooses =
            matches!(self.aggregation(), Aggregation::IfSlow(_)) && options.changed(&OF_LEVELS).next().is_none();
        let cost = backend.cost_of_aggregation(nodes).filter(|_| as_in_solves && chooses && nodes >= SMALL_GRID)?;
        let on_schur_complement = self.a.corners.is_none() && self.positive == 0;
        let fused = options.is(opt::FUSION, options::Fusion::On) && on_schur_complement && !self.singular;
        let anisotropy = backend.anisotropy(self.a, self.look.questions.zero_row_sum);
        Some(cost.predict(anisotropy, reduction.clamp(f64::EPSILON, 0.5), fused))
    }

    /// Aggregation, which nobody has asked for.
    pub fn aggregates_unasked(&self) -> bool {
        self.aggregates && !aggregates(self.options)
    }

    /// The V-cycle in place of another.
    pub fn plain(&self) -> Cycle {
        Cycle { kind: Some(Kind::V), ..self.cycle }
    }

    /// The format is chosen here.
    pub fn automatic(&self) -> bool {
        self.options.is(opt::PRECISION, Precision::Auto)
    }

    /// Aggregation instead, or once a solve is slow: where all is left to us, and there is memory for it.
    fn aggregation(&self) -> Aggregation {
        let options = self.options;
        let storage = match options.choice(opt::PRECISION) {
            _ if self.aggregates => return Aggregation::Instead,
            _ if self.circumstances.shared => return Aggregation::Never,
            // There vectors stay in the format that they have.
            Precision::Auto if self.on_device && self.storage == Storage::F64 => Storage::F64,
            Precision::Auto | Precision::F32 | Precision::Mixed => Storage::F32,
            Precision::F64 => Storage::F64,
            Precision::Bf16 => return Aggregation::Never,
        };
        let memory = options.int(opt::SWITCH_MEMORY);
        let bytes = bytes_of_aggregation(self.a.grid.nodes(), self.a.corners.is_some(), self.on_device);
        let fits = memory < 0 || bytes as u128 <= memory as u128;
        if self.is_free() && fits { Aggregation::IfSlow(storage) } else { Aggregation::Never }
    }

    /// No cycle was asked for, nor a variant that only the papers' tables want.
    fn is_free(&self) -> bool {
        self.options.is(opt::CYCLE, options::Cycle::Auto) && papers_default(self.options)
    }

    /// How to factorize in this format with this cycle.
    pub fn setup(&self, storage: Storage, cycle: Cycle) -> Result<Setup> {
        let (a, options, block) = (self.a, self.options, self.look.block);
        let (levels, grids) = match self.aggregates {
            // The level that leaves S1, and its grid.
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
            may_end: options.int(opt::LEVELS) == 0 && !amli,
            lumping: match options.choice(opt::LUMPING) {
                options::Lumping::M1 => Lumping::Red,
                options::Lumping::M2 => Lumping::RedAndBlack,
            },
            omega: options.real(opt::RELAXATION),
            compensate: self.positive > 0,
            grids,
            block,
            zero_row_sum: self.look.questions.zero_row_sum,
            fused: options.is(opt::FUSION, options::Fusion::On),
            storage,
            single: false,
            unit: if storage == Storage::F64 || self.aggregates { 1.0 } else { power_of_two_below(self.largest) },
            cycle,
            aggregation: self.aggregation(),
        };
        // On S1 of a regular matrix, whose first grid is not the last, and on the CPU. `auto` takes it where a solve
        // that is slow may leave it: the same iterations, but for hundreds of them. Over ranks one that stagnates may,
        // for CG in double precision.
        let asked = match options.choice(opt::PRECISION) {
            Precision::Auto => {
                let Circumstances { shared, stagnates, .. } = self.circumstances;
                let goes_over = matches!(setup.aggregation, Aggregation::IfSlow(_));
                let widens = shared && !stagnates && self.is_free();
                (goes_over || widens) && options.is(opt::NORM, options::Norm::True2)
            }
            precision => precision == Precision::Mixed,
        };
        let mixed = self.single && asked;
        setup.single = mixed && storage == Storage::Bf16 && grids > 1 && !self.singular && setup.on_schur_complement(a);
        Ok(setup)
    }
}

/// Options that were set and have no effect beside aggregation.
pub fn idle_beside_aggregation(options: &Options) -> Vec<&'static str> {
    if aggregates(options) { options.changed(&OF_LEVELS).collect() } else { Vec::new() }
}

/// Options that aggregation has no use for: who sets one wants levels.
const OF_LEVELS: [i32; 8] = [
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

/// What is asked for that the device has not got, and why.
fn wants_on_host(options: &Options) -> Option<&'static str> {
    match options.choice(opt::CYCLE) {
        options::Cycle::K => Some("cycle=k is not supported on a device: use cycle=amli, or backend=cpu"),
        _ => None,
    }
}

/// Refuses what a backend has not got.
fn check_offered(options: &Options, machine: Machine) -> Result<()> {
    let short = matches!(options.choice(opt::PRECISION), Precision::Bf16 | Precision::Mixed);
    let refused = match wants_on_host(options) {
        sentence if machine.is_device() => sentence,
        _ if machine.backend == options::Backend::Reference && aggregates(options) => {
            Some("cycle=aggregation is not available with backend=reference: use backend=cpu")
        }
        _ if aggregates(options) && short => {
            Some("cycle=aggregation does not support precision=bf16 or mixed: use precision=f32 (auto) or f64")
        }
        _ => None,
    };
    refused.map_or(Ok(()), |sentence| Err(Error::Unsupported(sentence.to_owned())))
}

/// Format of M. `auto`: bf16 (mixed where `Plan::setup` can), which takes a quarter of the memory traffic of f64 for
/// one or two iterations more, except on small grids, with contrasts that strain its range, and for the variants that
/// only the papers' tables want. On singular systems, whose constants f32 sweeps do not keep out, it takes up to a
/// fifth more iterations and still 0.7 to 0.95 of the time.
fn choose_storage(grid: Grid, options: &Options, (low, high): (f64, f64), singular: bool, aggregates: bool) -> Storage {
    match options.choice(opt::PRECISION) {
        Precision::F64 => Storage::F64,
        // Both cycle and sums of CG are scaled, so that f32 takes as many iterations as f64 at any contrast.
        Precision::Auto | Precision::Mixed if aggregates => Storage::F32,
        Precision::F32 => Storage::F32,
        Precision::Bf16 | Precision::Mixed => Storage::Bf16,
        Precision::Auto => {
            let plain = papers_default(options) && grid.nodes() >= SMALL_GRID;
            let contrast = if singular { SHORT_CONTRAST_SINGULAR } else { SHORT_CONTRAST };
            if plain && high <= contrast * low { Storage::Bf16 } else { Storage::F64 }
        }
    }
}

/// M1 with omega = 1: the only variant that is fast.
fn papers_default(options: &Options) -> bool {
    options.is(opt::LUMPING, options::Lumping::M1) && options.real(opt::RELAXATION) == 1.0
}

/// Levels between recursions where `cycle_spacing` leaves the choice: {4, 4, ...} costs 1.28 V-cycles and saves more
/// than half of their iterations.
pub const SPACING: usize = 4;

/// What the choice of a cycle depends on, beside grid and options.
#[derive(Clone, Copy, Default)]
struct Kinds {
    on_device: bool,
    singular: bool,
    aggregates: bool,
}

/// The cycle, or none where estimates are to choose. Small grids and the papers' variants stay with V, which stands for
/// none beside aggregation.
fn choose_cycle(grid: Grid, options: &Options, kinds: Kinds) -> Result<Cycle> {
    let Kinds { on_device, singular, aggregates } = kinds;
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
        options::Cycle::Auto if aggregates || grid.nodes() < SMALL_GRID || !papers_default(options) => Some(Kind::V),
        options::Cycle::Auto => None,
    };
    let jumps = (on_device || grid.nodes() >= AMLI_JUMP_NODES) && !singular;
    Ok(Cycle { kind, spacing, steps: options.int(opt::CYCLE_STEPS) as usize, jumps })
}

/// Work of one application of M at most, in V-cycles. Recursions that multiply it so save no iterations for it: where
/// two steps contract, these are halved.
const MOST_WORK: f64 = 100.0;

/// The visits of coarse grids grow by `cycle_steps` at each recursion, their nodes shrink by 4 in two levels: without
/// bound where the one is more than the other.
fn check_cost(grid: Grid, cycle: &Cycle, levels: usize) -> Result<()> {
    let cost = cycle.cost(grid, levels);
    if cost <= MOST_WORK {
        return Ok(());
    }
    let Cycle { spacing, steps, .. } = cycle;
    let value = format!(
        "{steps} with cycle_spacing = {spacing}, the work of {cost:.0}: lower cycle_steps or raise cycle_spacing"
    );
    Err(Error::range("cycle_steps", value, format!("keep an iteration within the work of {MOST_WORK} V-cycles")))
}

/// `levels`, clamped to what the grid has; 0: the default rule, deeper where `coarse_memory` asks for it.
fn choose_levels(grid: Grid, options: &Options, cycle: &Cycle, on_device: bool) -> Result<usize> {
    let limit = options.int(opt::COARSE_MEMORY) as u128;
    let all = grid.max_levels();
    let fits = |levels: usize| grid.remainder(levels).band_entries() * 8 <= limit;
    let wanted = options.int(opt::LEVELS) as usize;
    if wanted == 0 && on_device {
        return Ok(grid.default_device_levels());
    }
    if wanted == 0 {
        // A recursive cycle solves the remainder several times an iteration.
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
        grid.remainder(levels).nodes(),
        grid.remainder(levels).band_entries() * 8
    )))
}

/// Grids of any factorization with these options at least, where they are to be shared with other ranks: those of
/// the V-cycle, which has the fewest levels. 0: none are shared.
pub fn grids_to_share(options: &Options, grid: Grid) -> usize {
    if aggregates(options) {
        return 0;
    }
    let cycle = Cycle { kind: Some(Kind::V), spacing: SPACING, steps: 2, jumps: false };
    let block = options.int(opt::COMPUTE_BLOCK) as usize;
    let wanted = options.int(opt::GRIDS) as usize;
    // The last grid is every rank's.
    choose_levels(grid, options, &cycle, false).map_or(0, |l| choose_grids(grid, l, wanted, block).saturating_sub(1))
}

/// g: as many grids as the levels fill in pairs, at most g_max.
fn choose_grids(grid: Grid, levels: usize, wanted: usize, block: usize) -> usize {
    let most = grid.max_packed_grids(block).min(levels / 2);
    if wanted == 0 { most } else { wanted.min(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the grid and its levels, on a host or a device.
    #[test]
    fn default_cycles_cost_little() {
        let options = Options::new(options::Family::Rrb);
        let extents =
            || (0..=16).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1]).filter(|&n| (1..=1 << 16).contains(&n));
        for nx in extents() {
            for ny in extents() {
                let grid = Grid { nx, ny };
                let default = choose_cycle(grid, &options, Kinds::default()).unwrap();
                // V on small grids unless asked for.
                let cycle = Cycle { kind: Some(Kind::Amli), ..default };
                for levels in [grid.recursive_levels(), grid.default_device_levels(), grid.max_levels()] {
                    check_cost(grid, &cycle, levels).unwrap();
                    // A line of nodes shrinks by 4 from recursion to recursion and is visited twice as often.
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
    fn levels_too_few_for_memory_name_the_smallest_feasible() {
        let mut o = Options::new(options::Family::Rrb);
        o.set_text("levels=2").unwrap();
        let grid = Grid { nx: 2047, ny: 2047 };
        let e = choose_levels(
            grid,
            &o,
            &choose_cycle(grid, &o, Kinds { aggregates: true, ..Kinds::default() }).unwrap(),
            false,
        )
        .unwrap_err();
        assert_eq!(e.status(), crate::error::RRB_ERR_MEMORY);
        // 511^2 with a band of 512: 1.07e9 bytes are below 2^30.
        assert!(e.to_string().ends_with("smallest feasible levels is 4"), "{e}");
    }
}
