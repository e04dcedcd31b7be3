//! RRB-PCG for one matrix: choices at setup, and the text that every backend runs for a solve.

use super::krylov::{Kept, Norm, PcgEnd, RESTARTS, Test, WORTH_A_RESTART, done_before, not_negative, pcg};
use crate::backend::cycle::{Cycle, Kind};
use crate::backend::storage::Storage;
use crate::backend::{Arrays, Look, Lumping, Program, RrbBackend, RrbSteps, Setup};
use crate::error::{Error, Result};
use crate::grid::components::{ASSERTED_ZERO_ROW_SUM, Components, ZERO_ROW_SUM};
use crate::grid::inspection::{Inspection, Questions};
use crate::grid::levels::Grid;
use crate::grid::stencil::StencilView;
use crate::options::{Options, opt};
use crate::report::{Observer, Outcome, StopReason};

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

/// From so many nodes on, `backend=auto` takes a device where there is one. On an H200 and 16 cores beside it, arrays on the
/// host, a factorization and a solve take as long on either between 80 x 80 and 100 x 100, solves alone near 64 x 64
/// (docs/performance-gpu.md).
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
        let single = kind != BackendKind::Reference && options.int(opt::PRECISION) == choice::PRECISION_MIXED;
        let cycle = choose_cycle(a.grid, options, singular)?;
        let made = |storage: Storage, cycle: Cycle| {
            let levels = choose_levels(a.grid, options, &cycle, on_device)?;
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
        // An early end says nothing of other matrices, and leaves nothing to shorten.
        let ended = rrb.backend.levels(&setup) < setup.levels;
        if setup.cycle.kind.is_none() && rrb.backend.recursion().kind == Kind::V && !ended {
            // The V-cycle is best with its own levels, which are fewer.
            setup = made(setup.storage, plain)?;
            let result = rrb.backend.shorten(a, &setup, components);
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
        let control = Control { short, ..Control::new(options, &self.inspection) };
        let outcome = self.backend.run(arrays, observer, &|s| around(s, &|s| solve(s, &control)));
        self.done.cycle = cycle_in_use(&*self.backend);
        outcome
    }

    /// z = M^-1 r on the whole grid: output from input.
    pub fn apply(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<()> {
        let control = Control::new(options, &self.inspection);
        self.backend.run(arrays, observer, &|s| apply(s, &control)).map(|_| ())
    }

    /// y = A x: output from input.
    pub fn multiply(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<()> {
        let control = Control::new(options, &self.inspection);
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

/// What a solve looks up, the same for every member of a team.
struct Control<'a> {
    norm: Norm,
    reference_initial: bool,
    rel_tol: f64,
    abs_tol: f64,
    max_iter: usize,
    check_input: bool,
    check_compatibility: bool,
    /// Of the matrix; looked at for guesses alone.
    center_max: f64,
    /// Sweeps in f32.
    short: bool,
    components: &'a Components,
}

impl<'a> Control<'a> {
    fn new(options: &Options, inspection: &'a Inspection) -> Self {
        Self {
            norm: if options.int(opt::NORM) == 0 { Norm::True2 } else { Norm::Preconditioned },
            reference_initial: options.int(opt::REFERENCE) == 1,
            rel_tol: options.real(opt::REL_TOL),
            abs_tol: options.real(opt::ABS_TOL),
            max_iter: options.int(opt::MAX_ITER) as usize,
            check_input: options.int(opt::CHECK_INPUT) != 0,
            check_compatibility: options.int(opt::CHECK_COMPATIBILITY) != 0,
            center_max: inspection.findings.center_max,
            short: false,
            components: &inspection.components,
        }
    }

    fn singular(&self) -> bool {
        self.components.singular() > 0
    }
}

/// Sums of b over singular components beyond this part of the sum of magnitudes are incompatible.
const COMPATIBLE: f64 = 1e-10;

/// A projected right-hand side this small against the given one is rounding: b was in the null space.
const PROJECTED_TO_ZERO: f64 = 16.0 * f64::EPSILON;

/// A guess whose A x is larger than b by this factor has a residual whose square overflows.
const GUESS_TOO_FAR: f64 = 1e150;

/// In f32 sweeps, squares of residuals overflow or vanish this far from the unit, and a bit before.
const FAR_IN_F32: f64 = 1e15;

/// A recurred residual this small against b is far below the rounding of b - A x: to go on would not change x.
const FUTILE: f64 = f64::EPSILON / 64.0;

/// In double precision they vanish this far below it.
const SQUARES_VANISH: f64 = 1e-140;

/// A x = b by RRB-PCG, from the caller's arrays back to them. A failure leaves the output untouched.
fn solve(s: &mut dyn RrbSteps, c: &Control) -> Result<Outcome> {
    let inputs = check_inputs(s, c, true)?;
    if inputs.rhs_max == 0.0 {
        return Ok(zero_rhs(s));
    }
    finite("max |b|", inputs.rhs_max)?;
    // A power of two: the scaled system has the same iterates, and squares neither overflow nor vanish.
    let scale = power_of_two_below(inputs.rhs_max).recip();
    // NaN counts as a guess, so that it is not taken for zero where nobody checks the input.
    let guess = inputs.guess_max != 0.0;
    if too_far(inputs.guess_max, scale.recip(), c.center_max, GUESS_TOO_FAR) {
        return Err(Error::Range {
            name: "x",
            value: format!("{:e}", inputs.guess_max),
            allowed: format!("be at most {GUESS_TOO_FAR:e} * max |b| / max |center| in size, as a guess"),
        });
    }
    // f32 sweeps hold no residual of a guess so far off and that of the solution both: the way begins at zero, nearer.
    let far = c.short && too_far(inputs.guess_max, inputs.rhs_max, c.center_max, FAR_IN_F32);
    let given = s.load(scale, guess);
    let mut rhs_norm = given.sqrt();
    if c.singular() {
        if c.check_compatibility {
            check_compatible(s, c, scale)?;
        }
        s.keep_means();
        s.project_rhs();
        rhs_norm = s.rhs_norm2().sqrt();
        if rhs_norm <= PROJECTED_TO_ZERO * given.sqrt() {
            s.clear_solution();
            s.shift_means(true);
            s.store(scale);
            return Ok(Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() });
        }
    }

    // Norms of b and of the guess's residual, in the tested norm.
    let mut initial = if guess { s.whole_residual_norm2().sqrt() } else { rhs_norm };
    finite("|b - A x|", initial)?;
    s.reduce();
    let rounding = if c.singular() { PROJECTED_TO_ZERO * given.sqrt() } else { 0.0 };
    // Relative to rounding nothing can be small.
    let mut baseless = false;
    if c.norm == Norm::Preconditioned {
        s.residual_from_rhs();
        (rhs_norm, baseless) = preconditioned_norm(s, rounding)?;
        if far {
            initial = far_norm(s, c, scale, initial)?;
        } else if guess {
            s.residual();
            let (norm, spent) = preconditioned_norm(s, rounding)?;
            initial = norm;
            baseless = if c.reference_initial { spent } else { baseless };
        } else {
            initial = rhs_norm;
        }
    }
    // On S1 the residual of CG is not that of the caller's matrix: rounding on the way from one to the other comes on top.
    let checks = s.eliminates() && c.norm == Norm::True2;
    let reference = if c.reference_initial { initial } else { rhs_norm };
    let relative = |norm: f64| if reference > 0.0 { norm / reference } else { norm };
    let test = Test {
        norm: c.norm,
        threshold: (c.rel_tol * reference).max(c.abs_tol * scale),
        reference: if reference > 0.0 { reference } else { 1.0 },
        max_iter: c.max_iter,
        rounding,
        vanishing: rounding.max(if c.short { FAR_IN_F32.recip() } else { SQUARES_VANISH } * given.sqrt().max(1.0)),
        confirms: !checks,
    };
    let outcome = |iterations, reason, norm| Outcome {
        iterations,
        reason,
        initial_residual: relative(initial),
        final_residual: relative(norm),
    };

    let stop = s.observe(0, relative(initial));
    let met = initial <= test.threshold;
    if met && (c.norm == Norm::True2 || c.max_iter == 0) {
        return Ok(outcome(0, StopReason::InitialGuess, initial));
    }
    if stop && !met {
        return Ok(outcome(0, StopReason::Monitor, initial));
    }
    if c.max_iter == 0 {
        return Ok(outcome(0, StopReason::MaxIter, initial));
    }

    if far {
        s.clear_solution();
        if c.singular() {
            s.keep_means();
        }
    }
    let mut norm2 = if guess && !far { s.residual() } else { s.residual_from_rhs() };
    let mut end = PcgEnd { iterations: 0, norm: initial, reason: StopReason::None };
    let (mut restarts, mut missed) = (0, f64::INFINITY);
    // Of the iterate that is with the caller already, in place of the guess, which was worse.
    let mut kept = f64::INFINITY;
    let fits = |largest: f64| largest.is_finite() && largest <= f64::MAX * scale.min(1.0);
    // On a singular system rounding leaves the recurred residual a constant, too.
    let futile = if checks { (FUTILE * rhs_norm).max(rounding / 16.0) } else { 0.0 };
    let largest = loop {
        // Another time the residual on S1 must be smaller.
        let wanted = if missed < f64::INFINITY { WORTH_A_RESTART } else { 1.0 } * test.threshold;
        let inner = Test { threshold: wanted.max(futile), ..test };
        let mut keep = |s: &mut dyn RrbSteps, best: f64, mut norm: f64| {
            let largest = returned(s, c);
            if checks {
                norm = returned_residual(s, c, scale);
                reduce_again(s, c, scale);
            }
            let better = norm < best.min(initial) && fits(largest);
            better.then(|| {
                s.store(scale);
                norm
            })
        };
        let mut best = Kept { norm: kept, restarts, keep: &mut keep };
        end = match iterate(s, &inner, &mut best, norm2, end.iterations) {
            // The caller has an iterate: nothing else may be said.
            Err(Error::Breakdown { quantity, iteration, .. }) if best.norm < f64::INFINITY => {
                let iterations = done_before(quantity, iteration);
                PcgEnd { iterations, norm: f64::INFINITY, reason: StopReason::Stagnated }
            }
            end => end?,
        };
        (kept, restarts) = (best.norm, best.restarts);
        let largest = returned(s, c);
        if !checks {
            break largest;
        }
        end.norm = returned_residual(s, c, scale);
        if end.norm <= test.threshold {
            end.reason = StopReason::Converged;
            break largest;
        }
        if end.reason != StopReason::Converged || restarts >= RESTARTS || end.norm > WORTH_A_RESTART * missed {
            if end.reason == StopReason::Converged {
                end.reason = StopReason::Stagnated;
            }
            break largest;
        }
        if end.norm < kept.min(initial) && fits(largest) {
            s.store(scale);
            kept = end.norm;
        }
        (missed, restarts) = (end.norm, restarts + 1);
        reduce_again(s, c, scale);
        norm2 = s.residual();
    };
    if end.reason != StopReason::Converged && end.norm > kept {
        return Ok(outcome(end.iterations, end.reason, kept));
    }
    let spent = end.iterations == 0 && baseless;
    if end.reason == StopReason::Stagnated && end.norm > initial && !spent {
        // Nothing better than the guess was found: x as given.
        return Ok(outcome(end.iterations, end.reason, initial));
    }
    if !fits(largest) {
        if kept < f64::INFINITY {
            return Ok(outcome(end.iterations, StopReason::Stagnated, kept));
        }
        return Err(Error::Overflow);
    }
    s.store(scale);
    if spent || end.iterations == 0 && end.reason == StopReason::Converged && !far {
        end.reason = StopReason::InitialGuess;
    }
    Ok(outcome(end.iterations, end.reason, end.norm))
}

/// x as it is returned, with its red values and the means of the guess. Returns max |x|, NaN if any value is.
fn returned(s: &mut dyn RrbSteps, c: &Control) -> f64 {
    let largest = s.back_substitute();
    if !c.singular() {
        return largest;
    }
    s.shift_means(true);
    s.solution_max()
}

/// |b - A x| on the whole grid, of x as it is returned, from b as the caller has it, without its means where singular. What
/// `reduce` made of b may be gone then.
fn returned_residual(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> f64 {
    if !c.singular() {
        return s.returned_residual_norm2(scale).sqrt();
    }
    s.load_rhs(scale);
    s.project_rhs();
    s.whole_residual_norm2().sqrt()
}

/// b1 in place of b again.
fn reduce_again(s: &mut dyn RrbSteps, c: &Control, scale: f64) {
    s.load_rhs(scale);
    if c.singular() {
        s.project_rhs();
    }
    s.reduce();
}

/// PCG; bounds that were too narrow make a recursive M indefinite: where the cycle was not asked for, on without it.
fn iterate(s: &mut dyn RrbSteps, test: &Test, kept: &mut Kept, norm2: f64, iterations: usize) -> Result<PcgEnd> {
    match pcg(s, test, kept, norm2, iterations) {
        Err(Error::Breakdown { quantity, value, iteration }) if s.fall_back() => {
            let norm2 = s.residual();
            if !norm2.is_finite() {
                return Err(Error::Breakdown { quantity, value, iteration });
            }
            pcg(s, test, kept, norm2, done_before(quantity, iteration))
        }
        end => end,
    }
}

/// z = M^-1 r; where singular, r and z are projected, so that M^-1 stays symmetric.
fn apply(s: &mut dyn RrbSteps, c: &Control) -> Result<Outcome> {
    let inputs = check_inputs(s, c, false)?;
    if inputs.rhs_max == 0.0 {
        s.store_zero();
        return Ok(Outcome::default());
    }
    finite("max |r|", inputs.rhs_max)?;
    let scale = power_of_two_below(inputs.rhs_max).recip();
    s.load(scale, false);
    if c.singular() {
        s.project_rhs();
    }
    s.reduce();
    s.residual_from_rhs();
    s.precondition();
    s.take_z();
    let mut largest = s.back_substitute();
    if c.singular() {
        s.shift_means(false);
        largest = s.solution_max();
    }
    store_finite(s, largest, scale)?;
    Ok(Outcome::default())
}

/// Where nobody checks the input, NaN and infinity end here.
fn finite(quantity: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration: 0 }) }
}

/// output = x / scale, or nothing where that fits no double; `largest`: max |x|.
fn store_finite(s: &mut dyn RrbSteps, largest: f64, scale: f64) -> Result<()> {
    if largest.is_finite() && largest <= f64::MAX * scale.min(1.0) {
        s.store(scale);
        Ok(())
    } else {
        Err(Error::Overflow)
    }
}

/// center * guess > limit * b, where no product need fit a double. The host may trap what makes infinities: no log2(0).
fn too_far(guess: f64, b: f64, center: f64, limit: f64) -> bool {
    guess > 0.0 && center.log2() + guess.log2() > limit.log2() + b.log2()
}

fn zero_rhs(s: &mut dyn RrbSteps) -> Outcome {
    s.store_zero();
    Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() }
}

fn check_inputs(s: &mut dyn RrbSteps, c: &Control, guess: bool) -> Result<crate::backend::Inputs> {
    let inputs = s.inspect(guess);
    match inputs.not_finite {
        Some((name, value, i, j)) if c.check_input => Err(Error::NotFinite { name, value, i, j }),
        _ => Ok(inputs),
    }
}

fn check_compatible(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> Result<()> {
    let (component, sum, norm1) = s.worst_incompatibility();
    if sum.abs() > COMPATIBLE * norm1 {
        let (i, j) = c.components.first_node[component];
        return Err(Error::Incompatible { sum: sum / scale, norm1: norm1 / scale, i, j });
    }
    Ok(())
}

/// sqrt(r' M^-1 r) before the first iteration, and whether r is nothing but `rounding`. On a singular system r may be a
/// constant, and the sign of the square rounding.
fn preconditioned_norm(s: &mut dyn RrbSteps, rounding: f64) -> Result<(f64, bool)> {
    let spent = s.residual_norm2().sqrt() <= rounding;
    let rho = s.precondition();
    let rho = not_negative("r'M^-1 r", if rounding > 0.0 { rho.abs() } else { rho }, 0)?;
    Ok((rho.sqrt(), spent))
}

/// sqrt(r' M^-1 r) of a far guess, `size` the 2-norm of r: of r near one, which M^-1, being linear, takes as well. b is
/// loaded and reduced again after that, by `scale`.
fn far_norm(s: &mut dyn RrbSteps, c: &Control, scale: f64, size: f64) -> Result<f64> {
    let unit = power_of_two_below(size);
    let mut norm = 0.0;
    for (scale, guess) in [(scale / unit, true), (scale, false)] {
        s.load(scale, guess);
        if c.singular() {
            s.project_rhs();
        }
        s.reduce();
        if guess {
            s.residual();
            norm = unit * preconditioned_norm(s, 0.0)?.0;
        }
    }
    Ok(norm)
}

/// The largest power of two not above v, for finite v > 0, kept where its inverse is a normal number.
fn power_of_two_below(v: f64) -> f64 {
    let exponent = ((v.to_bits() >> 52) & 0x7ff).clamp(2, 2045);
    f64::from_bits(exponent << 52)
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

/// Largest contrast of centers that `precision = auto` leaves to bf16: above, fields of different coefficients side by side
/// take half as many iterations again (53 against 39 at 1e7, 16 x 16 nodes each), and at 1e12 f32 sweeps overflow.
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

/// The cycle, or none where estimates are to choose. Small grids, singular systems and the papers' variants stay with V.
fn choose_cycle(grid: Grid, options: &Options, singular: bool) -> Result<Cycle> {
    let spacing = match options.int(opt::CYCLE_SPACING) as usize {
        0 => SPACING,
        odd if odd % 2 == 1 => {
            return Err(Error::Range {
                name: "cycle_spacing",
                value: odd.to_string(),
                allowed: "be even: a recursion needs a grid of rows and columns".to_owned(),
            });
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

fn check_all_singular(components: &Components) -> Result<()> {
    if components.singular() == components.count {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "null_space=constant asserts row sums of zero (within {ASSERTED_ZERO_ROW_SUM:e} of the center), but {} of {} components have others",
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
        "levels={levels} leaves {} nodes, whose exact factor takes {} bytes, more than coarse_memory = {limit}; the smallest feasible levels is {feasible}",
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

    #[test]
    fn scales_are_powers_of_two() {
        for v in [1.0, 3.7, 1e-300, 1e300, 5e-324, f64::MAX] {
            let p = power_of_two_below(v);
            assert!(p.recip().is_normal() && p.is_normal());
            assert_eq!(p.to_bits() & ((1 << 52) - 1), 0);
            if v > 1e-307 && v < 1e307 {
                assert!(p <= v && v < 2.0 * p);
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
        assert!(e.sentence(0).ends_with("smallest feasible levels is 4"), "{e}");
    }
}
