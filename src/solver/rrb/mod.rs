//! RRB-PCG for one matrix: choices at setup. What a solve does then is in `solve`.

mod solve;

use crate::backend::steps::cycle::{Cycle, Kind};
use crate::backend::steps::rrb::{Arrays, Look, Lumping, Program, RrbBackend, RrbSteps, Setup};
use crate::backend::storage::Storage;
use crate::error::{Error, Result};
use crate::grid::components::{ASSERTED_ZERO_ROW_SUM, Components, ZERO_ROW_SUM};
use crate::grid::inspection::{Inspection, Questions};
use crate::grid::levels::Grid;
use crate::grid::outward::Outward;
use crate::grid::stencil::StencilView;
use crate::options::{Options, opt};
use crate::report::{Observer, Outcome};
use solve::{Control, apply, check_inputs, power_of_two_below, solve, store_finite};

/// A factorized matrix, or room for one.
pub struct Rrb {
    backend: Box<dyn RrbBackend>,
    made_for: Made,
    /// What was seen of the matrix.
    inspection: Inspection,
    /// What the last factorize did.
    pub done: Done,
    found: Found,
    /// How the last matrix was factorized.
    last: Option<Last>,
    /// Matrices to come that are not hoped to be like the last one.
    doubts: usize,
}

/// A factorization, and the questions about its matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Last {
    asked: Asked,
    look: Look,
    setup: Setup,
}

/// A matrix that was hoped to be like the one before, and was not, has been factorized twice: so many that follow are
/// looked at first, as the first one is.
const DOUBTS: usize = 8;

/// What `auto` has come to, for as long as the same is asked: matrices that follow are factorized once, in the memory
/// that is there.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    asked: Asked,
    /// f64 was needed.
    double: bool,
    /// The V-cycle was better.
    plain: bool,
}

/// The options that the choices of `auto` depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Asked {
    whole: [i64; 8],
    relaxation: f64,
}

impl Asked {
    fn of(options: &Options) -> Self {
        let keys = [
            opt::PRECISION,
            opt::CYCLE,
            opt::CYCLE_SPACING,
            opt::CYCLE_STEPS,
            opt::LEVELS,
            opt::GRIDS,
            opt::LUMPING,
            opt::COARSE_MEMORY,
        ];
        Self { whole: keys.map(|key| options.int(key)), relaxation: options.real(opt::RELAXATION) }
    }
}

/// What a backend was made for; another value needs another backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    backend: i64,
    threads: usize,
    device: i64,
}

/// Results of a factorization.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Backend in use, by number.
    pub backend: i64,
    /// Red eliminations.
    pub levels: usize,
    /// Connected components of two nodes or more.
    pub components: usize,
    /// Singular ones.
    pub singular_components: usize,
    /// Positive couplings moved to the diagonals in M.
    pub compensated_couplings: usize,
    /// Precision in use, by number.
    pub precision: i64,
    /// Cycle in use, by number.
    pub cycle: i64,
}

/// Numbers of the choices that this file asks for, as in the option table.
mod choice {
    pub const BACKEND_CPU: i64 = 1;
    pub const BACKEND_CUDA: i64 = 2;
    pub const BACKEND_REFERENCE: i64 = 3;
    pub const NULL_SPACE_NONE: i64 = 1;
    pub const NULL_SPACE_CONSTANT: i64 = 2;
    pub const COMPENSATION_NEVER: i64 = 1;
    pub const PRECISION_AUTO: i64 = 0;
    pub const PRECISION_F64: i64 = 1;
    pub const PRECISION_F32: i64 = 2;
    pub const PRECISION_BF16: i64 = 3;
    pub const PRECISION_MIXED: i64 = 4;
    pub const CYCLE_V: i64 = 1;
    pub const CYCLE_AMLI: i64 = 2;
    pub const CYCLE_K: i64 = 3;
}

/// A concrete backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// Threads of the host.
    Cpu,
    /// A CUDA device.
    Cuda,
    /// The oracle.
    Reference,
}

impl BackendKind {
    fn number(self) -> i64 {
        match self {
            Self::Cpu => choice::BACKEND_CPU,
            Self::Cuda => choice::BACKEND_CUDA,
            Self::Reference => choice::BACKEND_REFERENCE,
        }
    }
}

/// Makes a backend (kind, threads, device): the one place where a concrete one is named, handed in by the boundary.
pub type MakeBackend = fn(kind: BackendKind, threads: usize, device: i64) -> Result<Box<dyn RrbBackend>>;

/// From so many nodes on, `backend=auto` takes a device where there is one. On an H200 and 16 cores beside it, arrays
/// on the host, a factorization and a solve take as long on either between 80 x 80 and 100 x 100, solves alone near 64
/// x 64 (docs/performance-gpu.md).
const WORTH_A_DEVICE: usize = 10_000;

/// The backend that `options` ask for on a machine with so many devices. What the device does not offer is no
/// reason to leave the CPU.
pub fn choose_backend(options: &Options, grid: Grid, devices: i32) -> BackendKind {
    let offered = options.int(opt::CYCLE) != choice::CYCLE_K;
    match options.int(opt::BACKEND) {
        choice::BACKEND_CUDA => BackendKind::Cuda,
        choice::BACKEND_REFERENCE => BackendKind::Reference,
        choice::BACKEND_CPU => BackendKind::Cpu,
        _ if options.int(opt::DEVICE) < i64::from(devices) && grid.nodes() >= WORTH_A_DEVICE && offered => {
            BackendKind::Cuda
        }
        _ => BackendKind::Cpu,
    }
}

/// Runs a text on the steps it is given, or on others that pass these on and watch them (the benchmark's clock).
/// Called by every member of a team.
pub type Around<'a> = &'a (dyn Fn(&mut dyn RrbSteps, Program) -> Result<Outcome> + Sync);

impl Rrb {
    /// Factorizes `a`; `previous` gives its memory back where it fits. On an error the handle has no
    /// factorization.
    pub fn factorize(
        previous: Option<Self>,
        a: &StencilView,
        options: &Options,
        kind: BackendKind,
        threads: usize,
        stream: usize,
        make: MakeBackend,
    ) -> Result<Self> {
        let device = if kind == BackendKind::Cuda { options.int(opt::DEVICE) } else { -1 };
        let made_for = Made { backend: kind.number(), threads, device };
        let mut rrb = match previous {
            Some(rrb) if rrb.made_for == made_for => rrb,
            other => {
                // Its memory first.
                drop(other);
                Self {
                    backend: make(kind, threads, device)?,
                    made_for,
                    inspection: Inspection::default(),
                    done: Done::default(),
                    found: Found::default(),
                    last: None,
                    doubts: 0,
                }
            }
        };
        let null_space = options.int(opt::NULL_SPACE);
        let zero_row_sum = if null_space == choice::NULL_SPACE_CONSTANT { ASSERTED_ZERO_ROW_SUM } else { ZERO_ROW_SUM };
        let questions = Questions { finite: options.int(opt::CHECK_INPUT) != 0, zero_row_sum };
        let block = options.int(opt::COMPUTE_BLOCK) as usize;
        let look = Look { questions, project: null_space != choice::NULL_SPACE_NONE, members: threads, block };
        rrb.backend.use_stream(stream)?;
        let asked = Asked::of(options);
        // The next matrix of a simulation is mostly of the same kind: it is read once.
        let hope = rrb.last.take().filter(|last| rrb.doubts == 0 && (last.asked, last.look) == (asked, look));
        rrb.doubts = rrb.doubts.saturating_sub(1);
        let again = match hope {
            Some(last) if rrb.backend.factorize_again(a, &look, &last.setup, &mut rrb.inspection)? => Some(last.setup),
            _ => None,
        };
        if again.is_none() {
            rrb.backend.examine(a, &look, &mut rrb.inspection)?;
        }
        let Inspection { components, findings, .. } = &rrb.inspection;
        if null_space == choice::NULL_SPACE_CONSTANT {
            check_all_singular(components)?;
        }

        let compensate = options.int(opt::COMPENSATION) != choice::COMPENSATION_NEVER;
        let positive = if compensate { findings.positive_couplings } else { 0 };
        let on_device = kind == BackendKind::Cuda;
        if on_device {
            check_offered(options)?;
        }
        let singular = components.singular() > 0;
        let known = if rrb.found.asked == asked {
            rrb.found
        } else {
            rrb.backend.forget();
            Found { asked, ..Found::default() }
        };
        let storage = choose_storage(a.grid, options, (findings.center_min, findings.center_max), singular)?;
        let single = kind == BackendKind::Cpu && options.int(opt::PRECISION) == choice::PRECISION_MIXED;
        let cycle = choose_cycle(a.grid, options, singular)?;
        let made = |storage: Storage, cycle: Cycle| {
            let levels = choose_levels(a.grid, options, &cycle, on_device)?;
            check_cost(a.grid, &cycle, levels)?;
            let grids = choose_grids(a.grid, levels, options.int(opt::GRIDS) as usize, block);
            let mut setup = Setup {
                levels,
                may_end: options.int(opt::LEVELS) == 0 && options.int(opt::CYCLE) != choice::CYCLE_AMLI,
                lumping: if options.int(opt::LUMPING) == 0 { Lumping::Red } else { Lumping::RedAndBlack },
                omega: options.real(opt::RELAXATION),
                compensate: positive > 0,
                grids,
                block,
                zero_row_sum,
                fused: options.int(opt::FUSION) != 0,
                storage,
                single: false,
                unit: if storage == Storage::F64 { 1.0 } else { power_of_two_below(findings.center_max) },
                cycle,
            };
            // On S1 of a regular matrix, whose first grid is not the last.
            setup.single = single && storage == Storage::Bf16 && grids > 1 && !singular && setup.on_schur_complement(a);
            Ok(setup)
        };
        let plain = Cycle { kind: Some(Kind::V), ..cycle };
        let mut setup =
            made(if known.double { Storage::F64 } else { storage }, if known.plain { plain } else { cycle })?;
        let automatic = options.int(opt::PRECISION) == choice::PRECISION_AUTO;
        // In `f64` where a pivot is lost in a short format and the choice is ours.
        let double = |backend: &mut dyn RrbBackend, setup: &mut Setup, result: Result<()>| match result {
            Err(Error::Matrix { .. }) if automatic && setup.storage != Storage::F64 => {
                *setup = made(Storage::F64, setup.cycle)?;
                backend.factorize(a, setup, components)
            }
            other => other,
        };
        if again != Some(setup) {
            let result = rrb.backend.factorize(a, &setup, components);
            double(&mut *rrb.backend, &mut setup, result)?;
            if hope.is_some() {
                rrb.doubts = DOUBTS;
            }
        }
        // An early end says nothing of other matrices, and its levels are few already.
        let ended = rrb.backend.levels(&setup) < setup.levels;
        if setup.cycle.kind.is_none() && rrb.backend.recursion().kind == Kind::V && !ended {
            // The V-cycle is best with its own levels, which are fewer.
            setup = made(setup.storage, plain)?;
            let result = rrb.backend.factorize(a, &setup, components);
            double(&mut *rrb.backend, &mut setup, result)?;
        }
        // Of what was tried alone: a matrix that leaves no choice says nothing of others.
        rrb.found = Found {
            asked,
            double: known.double || storage != Storage::F64 && setup.storage == Storage::F64,
            plain: known.plain || cycle.kind.is_none() && rrb.backend.recursion().kind == Kind::V && !ended,
        };
        rrb.last = Some(Last { asked, look, setup });
        rrb.done = Done {
            backend: kind.number(),
            levels: rrb.backend.levels(&setup),
            components: components.count,
            singular_components: components.singular(),
            compensated_couplings: positive,
            precision: match setup.storage {
                Storage::F64 => choice::PRECISION_F64,
                Storage::F32 => choice::PRECISION_F32,
                Storage::Bf16 if setup.single => choice::PRECISION_MIXED,
                Storage::Bf16 => choice::PRECISION_BF16,
            },
            cycle: cycle_in_use(&*rrb.backend),
        };
        Ok(rrb)
    }

    /// Couplings of the last matrix that point out of the grid, which `a` is.
    pub fn outward(&mut self, a: &StencilView) -> Result<Outward> {
        self.backend.outward(a)
    }

    /// Solves A x = b to the tolerance of `options`.
    pub fn solve(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<Outcome> {
        self.solve_around(arrays, options, observer, &|s, text| text(s))
    }

    /// The same, with `around` between the steps and the text that uses them.
    pub fn solve_around(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        around: Around,
    ) -> Result<Outcome> {
        let short = self.done.precision != choice::PRECISION_F64;
        let definite = self.backend.recursion().kind == Kind::V;
        let control = Control::new(options, &self.inspection, short, definite, arrays.len);
        let outcome = self.backend.run(arrays, observer, &|s| around(s, &|s| solve(s, &control)));
        self.done.cycle = cycle_in_use(&*self.backend);
        outcome
    }

    /// z = M^-1 r on the whole grid: output from input.
    pub fn apply(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<()> {
        let control = Control::new(options, &self.inspection, false, false, arrays.len);
        self.backend.run(arrays, observer, &|s| apply(s, &control)).map(|_| ())
    }

    /// y = A x: output from input.
    pub fn multiply(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<()> {
        let control = Control::new(options, &self.inspection, false, false, arrays.len);
        self.backend
            .run(arrays, observer, &|s| {
                check_inputs(s, &control, false)?;
                s.load(1.0, false);
                s.multiply_rhs();
                let largest = s.solution_max();
                store_finite(s, largest, 1.0)?;
                Ok(Outcome::default())
            })
            .map(|_| ())
    }

    /// The caller's stream for what follows; 0: the backend's own.
    pub fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.backend.use_stream(stream)
    }

    /// Bytes of all arrays in host memory.
    pub fn bytes(&self) -> usize {
        self.backend.bytes() + self.inspection.bytes()
    }

    /// Bytes of all arrays in device memory.
    pub fn device_bytes(&self) -> usize {
        self.backend.device_bytes()
    }

    /// Ordinal of the device in use.
    pub fn device(&self) -> Option<i32> {
        self.backend.device()
    }

    /// Of the last run, seconds of copies between host and device.
    pub fn seconds_transfer(&self) -> f64 {
        self.backend.seconds_transfer()
    }

    /// r1/r2/b1/b2 grids in use.
    pub fn grids(&self) -> usize {
        self.backend.grids()
    }

    /// Threads in use.
    pub fn threads(&self) -> usize {
        self.backend.threads()
    }
}

/// Number of the cycle.
fn cycle_in_use(backend: &dyn RrbBackend) -> i64 {
    match backend.recursion().kind {
        Kind::V => choice::CYCLE_V,
        Kind::Amli => choice::CYCLE_AMLI,
        Kind::K => choice::CYCLE_K,
    }
}

/// What the device has not got.
fn check_offered(options: &Options) -> Result<()> {
    if options.int(opt::CYCLE) == choice::CYCLE_K {
        return Err(Error::Unsupported(
            "cycle=k is not offered on a device, where its inner products would stop the loop: use amli, or backend=cpu"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Largest contrast of centers that `precision = auto` leaves to bf16: above, fields of different coefficients side by
/// side take half as many iterations again (53 against 39 at 1e7, 16 x 16 nodes each), and at 1e12 f32 sweeps overflow.
const CONTRAST_FOR_SHORT: f64 = 1e6;
/// On a grid of fewer nodes M in f64 fits a second-level cache, so that its size does not count, and recursion has too
/// little below it: V with its few levels takes 5 to 30 % less time, and half the setup, since nothing is estimated.
const SMALL: usize = 16384;

/// Format of M. `auto`: bf16, which takes a quarter of the memory traffic of f64 for one or two iterations more,
/// except on small grids, with contrasts that strain its range, on singular systems (whose constants f32 sweeps do not
/// keep out: up to 40 % more iterations in closed basins), and for the variants that only the papers' tables want.
fn choose_storage(grid: Grid, options: &Options, (low, high): (f64, f64), singular: bool) -> Result<Storage> {
    match options.int(opt::PRECISION) {
        choice::PRECISION_F64 => Ok(Storage::F64),
        choice::PRECISION_F32 => Ok(Storage::F32),
        choice::PRECISION_BF16 | choice::PRECISION_MIXED => Ok(Storage::Bf16),
        _ => {
            let plain = papers_default(options) && grid.nodes() >= SMALL && !singular;
            Ok(if plain && high <= CONTRAST_FOR_SHORT * low { Storage::Bf16 } else { Storage::F64 })
        }
    }
}

/// M1 with omega = 1: the only variant that is fast.
fn papers_default(options: &Options) -> bool {
    options.int(opt::LUMPING) == 0 && options.real(opt::RELAXATION) == 1.0
}

/// Levels between recursions where `cycle_spacing` leaves the choice: {4, 4, ...} costs 1.28 V-cycles and saves more
/// than half of their iterations.
pub const SPACING: usize = 4;

/// The cycle, or none where estimates are to choose. Small grids, singular systems and the papers' variants stay with
/// V.
fn choose_cycle(grid: Grid, options: &Options, singular: bool) -> Result<Cycle> {
    let spacing = match options.int(opt::CYCLE_SPACING) as usize {
        0 => SPACING,
        odd if odd % 2 == 1 => {
            return Err(Error::range("cycle_spacing", odd, "be even: a recursion needs a grid of rows and columns"));
        }
        even => even,
    };
    let kind = match options.int(opt::CYCLE) {
        choice::CYCLE_V => Some(Kind::V),
        choice::CYCLE_AMLI => Some(Kind::Amli),
        choice::CYCLE_K => Some(Kind::K),
        _ if singular || grid.nodes() < SMALL || !papers_default(options) => Some(Kind::V),
        _ => None,
    };
    Ok(Cycle { kind, spacing, steps: options.int(opt::CYCLE_STEPS) as usize })
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

fn check_all_singular(components: &Components) -> Result<()> {
    if components.singular() == components.count {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "null_space=constant asserts row sums of zero (within {ASSERTED_ZERO_ROW_SUM:e} of the center), but {} of {} \
         components have others",
        components.count - components.singular(),
        components.count
    )))
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
        "levels={levels} leaves {} nodes, whose exact factor takes {} bytes, more than coarse_memory = {limit}; the \
         smallest feasible levels is {feasible}",
        grid.remainder(levels).nodes(),
        grid.remainder(levels).band_entries() * 8
    )))
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
        let options = Options::new(crate::options::Family::Rrb);
        let extents =
            || (0..=16).flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1]).filter(|&n| (1..=1 << 16).contains(&n));
        for nx in extents() {
            for ny in extents() {
                let grid = Grid { nx, ny };
                let default = choose_cycle(grid, &options, false).unwrap();
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
        let mut o = Options::new(crate::options::Family::Rrb);
        o.set_text("levels=2").unwrap();
        let grid = Grid { nx: 2047, ny: 2047 };
        let e = choose_levels(grid, &o, &choose_cycle(grid, &o, true).unwrap(), false).unwrap_err();
        assert_eq!(e.status(), crate::error::RRB_ERR_MEMORY);
        // 511^2 with a band of 512: 1.07e9 bytes are below 2^30.
        assert!(e.to_string().ends_with("smallest feasible levels is 4"), "{e}");
    }
}
