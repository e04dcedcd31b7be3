//! Measures each step of a solve. A clock around every step is read on the calling thread (thread 0); a barrier inside
//! a step counts as part of the step. The solver is unaware of the clock.
//!
//! On a device, the clock waits until a step is done. With `fusion=off`, the steps of the loop run separately, each
//! with its own launch and wait, and additional solves measure the kernels of each grid. Otherwise, the loop that runs
//! on the device is one step, as in a normal solve.

use crate::cost::{Cost, Model};
use crate::problem::Problem;
use crate::timing::Samples;
use anyhow::Result;
use rrbsolver::abi::make_backend;
use rrbsolver::error::Result as SolverResult;
use rrbsolver::layers::{
    Arrays, Core, Criterion, EliminatedVector, Event, Grid, GridArray, Inputs, Iterate, Load, Machine, MeansChange,
    NoObserver, OtherPreconditioner, PcgSteps, Properties, Rrb, SolveSteps, State, StencilView, TestCode, VectorId,
    VectorSteps, choose_machine, unfused_ascend, unfused_descend,
};
use rrbsolver::options::{Choice, Family, Options, opt};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::time::Instant;

/// Results of one step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stage {
    /// Name of the step in the traits.
    pub step: String,
    /// Number of calls in one solve.
    pub calls: usize,
    /// Seconds of all calls of a solve together.
    pub seconds: Samples,
    /// Cost of one call per black node; none if it is not counted.
    pub cost: Option<Cost>,
}

/// Results of a solve, step by step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Breakdown {
    /// Name of the problem.
    pub problem: String,
    /// Number of nodes in x.
    pub nx: usize,
    /// Number of nodes in y.
    pub ny: usize,
    /// Options of the solver.
    pub options: String,
    /// The preconditioner in use.
    pub model: Model,
    /// Number of threads in use.
    pub threads: usize,
    /// CUDA ordinal of the device in use, if any.
    #[serde(default)]
    pub device: Option<i32>,
    /// Seconds of copies between host and device: b and x to the device, x back.
    #[serde(default)]
    pub transfer: Samples,
    /// Number of r1/r2/b1/b2 grids.
    pub grids: usize,
    /// Number of iterations of the solve.
    pub iterations: usize,
    /// Seconds of the whole solve.
    pub total: Samples,
    /// Steps in the order of their first call. The samples of all steps have the same order of solves.
    pub stages: Vec<Stage>,
    /// Seconds of the downward and upward pass of each r1/r2/b1/b2 grid, over all passes of a solve; the last entry is
    /// for the levels below.
    #[serde(default)]
    pub by_grid: Vec<[Samples; 2]>,
}

/// Step, calls and seconds, in the order of the first call.
type Readings = Vec<(&'static str, usize, f64)>;

/// Forwards every step to the backend and measures its time.
struct Clock<'a> {
    steps: &'a mut dyn SolveSteps,
    /// Whether fused stages are forwarded. Otherwise, their default implementations run here, so that their steps are
    /// measured.
    fused: bool,
    /// Whether fused stages outside the loop are forwarded; false on a device, which does not fuse them.
    fused_ends: bool,
    readings: Readings,
}

impl Clock<'_> {
    fn timed<T>(&mut self, step: &'static str, call: impl FnOnce(&mut dyn SolveSteps) -> T) -> T {
        let start = Instant::now();
        let result = call(self.steps);
        self.finish();
        self.add_reading(step, 1, start.elapsed().as_secs_f64());
        result
    }

    /// Waits for the device.
    fn finish(&mut self) {
        if let Some(timing) = self.steps.timing() {
            timing.wait_until_done();
        }
    }

    fn add_reading(&mut self, step: &'static str, calls: usize, seconds: f64) {
        match self.readings.iter_mut().find(|r| r.0 == step) {
            Some(reading) => {
                reading.1 += calls;
                reading.2 += seconds;
            }
            None => self.readings.push((step, calls, seconds)),
        }
    }
}

macro_rules! timed_steps {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $type)*) $(-> $result)? {
            self.timed(stringify!($name), |s| s.$name($($argument),*))
        })*
    };
}

/// Returns the name in PCG of `combine` on a vector.
fn name_of(to: VectorId, scale: f64, terms: &[(f64, VectorId)]) -> &'static str {
    let (zero, copy) = (terms.is_empty(), scale == 0.0);
    match to {
        VectorId::X if zero => "clear_solution",
        VectorId::X if copy => "take_z",
        VectorId::X => "advance_solution",
        VectorId::R => "advance_residual",
        VectorId::P if copy => "first_direction",
        VectorId::P => "next_direction",
        _ => "combine",
    }
}

impl VectorSteps for Clock<'_> {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        let name = match a {
            VectorId::R => "residual_norm2",
            VectorId::B => "rhs_norm2",
            _ => "inner",
        };
        self.timed(name, |s| s.inner_product(a, b))
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        self.timed(name_of(to, scale, terms), |s| s.combine(to, scale, terms));
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        self.timed(if v == VectorId::X { "solution_max" } else { "largest" }, |s| s.max_abs(v))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        let name = if of == Iterate::Zero { "residual_from_rhs" } else { "residual" };
        self.timed(name, |s| s.residual(of))
    }

    fn observe(&mut self, event: Event) -> bool {
        self.steps.observe(event)
    }
}

impl PcgSteps for Clock<'_> {
    timed_steps! {
        precondition() -> f64;
        multiply() -> f64;
        weighted_square_of_means() -> f64;
    }

    fn properties(&self) -> Properties {
        self.steps.properties()
    }

    fn change_means(&mut self, v: VectorId, to: MeansChange) {
        let name = match (to, v) {
            (MeansChange::Store, _) => "store_means",
            (_, VectorId::B) => "project_rhs",
            _ => "shift_means",
        };
        self.timed(name, |s| s.change_means(v, to));
    }

    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        let name = if alpha.is_some() { "descend" } else { "descend_at_start" };
        if self.fused { self.timed(name, |s| s.descend(alpha)) } else { unfused_descend(self, alpha) }
    }

    fn preconditioned_square(&mut self) -> f64 {
        if self.fused {
            self.timed("preconditioned_square", |s| s.preconditioned_square())
        } else {
            self.precondition()
        }
    }

    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        let name = if step.is_some() { "ascend" } else { "ascend_at_start" };
        if self.fused { self.timed(name, |s| s.ascend(step)) } else { unfused_ascend(self, step) }
    }

    /// After a change to a cheaper preconditioner, there are no fused stages.
    fn change_preconditioner(&mut self, to: OtherPreconditioner) -> bool {
        let changed = self.steps.change_preconditioner(to);
        self.fused &= !(changed && matches!(to, OtherPreconditioner::Cheaper(_)));
        changed
    }

    /// With fused stages, one call per iteration is measured.
    fn iterate(&mut self, at: &mut State) -> Option<TestCode> {
        if !self.fused {
            return None;
        }
        let start = Instant::now();
        let code = self.steps.iterate(at)?;
        self.finish();
        self.add_reading(LOOP, at.iterations_since_start(), start.elapsed().as_secs_f64());
        Some(code)
    }
}

impl SolveSteps for Clock<'_> {
    /// The device does not start its loop ahead, before the host knows the norms, so that all iterations are part of
    /// the measured loop.
    fn inspect(&mut self, guess: bool, _: Option<&Criterion>) -> Inputs {
        self.timed("inspect", |s| s.inspect(guess, None))
    }

    fn load(&mut self, scale: f64, what: Load) -> (f64, Option<[f64; 2]>) {
        let (name, what) = match what {
            Load::Rhs => ("load_rhs", what),
            Load::Start(_) if self.fused_ends => ("begin", what),
            Load::Start(guess) => ("load", Load::System(guess)),
            _ => ("load", what),
        };
        self.timed(name, |s| s.load(scale, what))
    }

    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64 {
        let name = if scale.is_some() { "returned_residual_norm2" } else { "whole_residual_norm2" };
        self.timed(name, |s| s.whole_residual_norm2(scale))
    }

    fn reduce(&mut self, what: EliminatedVector) -> f64 {
        let name = match what {
            EliminatedVector::Rhs => "reduce",
            EliminatedVector::ReloadedRhs => "reduce_again",
            EliminatedVector::Residual => "reduce_residual",
        };
        self.timed(name, |s| s.reduce(what))
    }

    fn back_substitute(&mut self, scale: Option<f64>) -> (f64, Option<f64>) {
        let fused = scale.filter(|_| self.fused_ends);
        let name = if fused.is_some() { "complete" } else { "back_substitute" };
        self.timed(name, |s| s.back_substitute(fused))
    }

    timed_steps! {
        worst_incompatibility() -> (usize, f64, f64);
        store(scale: f64);
        multiply_rhs();
    }
}

/// Name of the loop that runs on the device.
pub const LOOP: &str = "loop";

/// Returns the parsed options and the machine on which the library would solve with them.
fn place(problem: &Problem, options: &str) -> Result<(Options, Machine)> {
    let mut parsed = Options::new(Family::Rrb);
    parsed.set_text(options)?;
    let threads = match parsed.int(opt::THREADS) as usize {
        0 => crate::machine::cores(),
        threads => threads,
    };
    let grid = Grid { nx: problem.a.nx, ny: problem.a.ny };
    let machine = choose_machine(&parsed, grid, threads, crate::device::count());
    Ok((parsed, machine))
}

/// Returns the device on which the library would solve with these options, if any.
pub fn device(problem: &Problem, options: &str) -> Result<Option<usize>> {
    let (_, machine) = place(problem, options)?;
    Ok(machine.is_device().then_some(machine.device as usize))
}

/// A solver with measured steps.
pub struct Clocked<'a> {
    problem: &'a Problem,
    options: Options,
    rrb: Rrb,
    x: Vec<f64>,
    /// Whether the backend fuses stages.
    fused: bool,
    /// Whether each r1/r2/b1/b2 grid is also measured.
    grids: bool,
}

/// Results of one solve.
pub struct Run {
    /// Seconds of the whole solve.
    pub total: f64,
    /// Number of iterations.
    pub iterations: usize,
    /// Seconds of copies between host and device.
    pub transfer: f64,
    readings: Readings,
    by_grid: Vec<[f64; 2]>,
}

impl Run {
    /// Returns the seconds of the solve outside all steps.
    pub fn outside_steps(&self) -> f64 {
        self.total - self.readings.iter().map(|r| r.2).sum::<f64>()
    }
}

impl<'a> Clocked<'a> {
    /// Creates a solver; `options` are those of the library, including `threads`.
    pub fn new(problem: &'a Problem, options: &str) -> Result<Self> {
        let (parsed, machine) = place(problem, options)?;
        let a = &problem.a;
        let grid = Grid { nx: a.nx, ny: a.ny };
        let view = |name, values| GridArray::new(name, values, grid, a.nx);
        let stencil = StencilView {
            grid,
            center: view("center", &a.center),
            east: view("east", &a.east),
            north: view("north", &a.north),
            corners: a.corners.as_ref().map(|(ne, nw)| (view("northeast", ne), view("northwest", nw))),
        };
        let rrb = Rrb::factorize(None, &stencil, &parsed, machine, 0, &make_backend)?;
        // On a device, this needs a wait after every kernel, so separate solves measure it.
        let grids = rrb.device().is_none();
        // The CPU runs these systems unfused in any case; with fused stages, the time would be attributed to the wrong
        // steps.
        let unfused =
            rrb.results.singular_components > 0 || rrb.results.compensated_couplings > 0 || a.corners.is_some();
        let fused = parsed.int(opt::FUSION) != 0 && !(unfused && rrb.device().is_none());
        Ok(Self { problem, options: parsed, rrb, x: vec![0.0; problem.unknowns()], fused, grids })
    }

    /// Solves from x = 0.
    pub fn solve(&mut self) -> Result<Run> {
        let Self { problem, options, rrb, x, fused, grids } = self;
        let (fused, grids) = (*fused, *grids);
        x.fill(0.0);
        let caller = std::thread::current().id();
        let found: Mutex<(Readings, Vec<[f64; 2]>)> = Mutex::default();
        let arrays = Arrays {
            input_name: "b",
            input: &problem.b,
            ld: problem.a.nx,
            plane: problem.unknowns(),
            output: x,
            device_input: 0,
            device_output: 0,
            len: problem.unknowns(),
            first_row: 0,
        };
        let start = Instant::now();
        let outcome = rrb.solve_with_wrapper(arrays, options, &mut NoObserver, &|steps, text| -> SolverResult<_> {
            if let Some(timing) = steps.timing() {
                if grids && std::thread::current().id() == caller {
                    timing.enable_grid_timing();
                }
                if !fused {
                    timing.separate_steps();
                }
            }
            let fused_ends = fused && grids;
            let mut clock = Clock { steps, fused, fused_ends, readings: Vec::with_capacity(32) };
            let outcome = text(&mut clock);
            if std::thread::current().id() == caller {
                let by_grid = clock.steps.timing().map(|timing| timing.grid_seconds().to_vec()).unwrap_or_default();
                *found.lock().expect("nobody panics with this lock") = (clock.readings, by_grid);
            }
            outcome
        })?;
        let total = start.elapsed().as_secs_f64();
        let (readings, by_grid) = found.into_inner().expect("nobody panics with this lock");
        Ok(Run { total, iterations: outcome.iterations, transfer: rrb.engine().seconds_transfer(), readings, by_grid })
    }
}

fn add_reading(by_grid: &mut Vec<[Samples; 2]>, run: &Run) {
    by_grid.resize_with(run.by_grid.len(), Default::default);
    for (samples, seconds) in by_grid.iter_mut().flatten().zip(run.by_grid.iter().flatten()) {
        samples.push(*seconds);
    }
}

/// Returns the cost of one call. A fused downward sweep already computes <r, M^-1 r>, so returning this number costs
/// nothing.
fn cost_of(model: &Model, step: &str) -> Option<Cost> {
    match step {
        "preconditioned_square" if model.fused => Some(Cost { words: 0.0, flops: 0.0 }),
        _ => model.of_step(step),
    }
}

/// Solves `repeats` times from x = 0 after one warm-up, and measures each step.
pub fn measure(problem: &Problem, options: &str, repeats: usize) -> Result<Breakdown> {
    let mut clocked = Clocked::new(problem, options)?;
    let results = clocked.rrb.results;
    let model =
        Model::new(|key| clocked.options.int(key), results.precision.number(), results.cycle.number(), results.levels);
    let model = Model { fused: clocked.fused, ..model };
    let counted =
        problem.a.corners.is_none() && results.compensated_couplings == 0 && clocked.rrb.packed_grid_count() > 0;
    let (mut total, mut transfer) = (Samples::default(), Samples::default());
    let device = clocked.rrb.device();
    let mut stages: Vec<Stage> = Vec::new();
    let mut by_grid: Vec<[Samples; 2]> = Vec::new();
    let mut iterations = clocked.solve()?.iterations;
    for _ in 0..repeats {
        let run = clocked.solve()?;
        iterations = run.iterations;
        total.push(run.total);
        if device.is_some() {
            transfer.push(run.transfer);
        }
        add_reading(&mut by_grid, &run);
        for (step, calls, seconds) in run.readings {
            let place = stages.iter().position(|s| s.step == step).unwrap_or_else(|| {
                let cost = if counted { cost_of(&model, step) } else { None };
                stages.push(Stage { step: step.to_owned(), calls, seconds: Samples::default(), cost });
                stages.len() - 1
            });
            stages[place].seconds.push(seconds);
        }
    }
    clocked.grids = device.is_some() && clocked.options.int(opt::FUSION) == 0;
    for _ in 0..if clocked.grids { repeats } else { 0 } {
        add_reading(&mut by_grid, &clocked.solve()?);
    }
    Ok(Breakdown {
        problem: problem.name.clone(),
        nx: problem.a.nx,
        ny: problem.a.ny,
        options: options.to_owned(),
        model,
        threads: clocked.rrb.engine().threads(),
        device,
        transfer,
        grids: clocked.rrb.packed_grid_count(),
        iterations,
        total,
        stages,
        by_grid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a solve, from which the "GB/s" of a contest are computed, equal the sum over all steps of words
    /// times calls.
    #[test]
    fn steps_add_up_to_the_words_of_a_solve() {
        let problem = Problem::find("poisson_f", 127, None, 0.0).unwrap();
        for options in ["threads=1 precision=f64 cycle=v", "threads=2 precision=bf16 cycle=amli"] {
            let b = measure(&problem, options, 1).unwrap();
            let words = |s: &Stage| s.calls as f64 * s.cost.unwrap_or_else(|| panic!("{} is counted", s.step)).words;
            let sum: f64 = b.stages.iter().map(words).sum();
            let solve = b.model.words_of_solve(b.iterations).unwrap();
            assert!((sum / solve - 1.0).abs() < 1e-12, "{options}: {sum}, {solve}");
        }
    }

    /// Systems whose constants are projected out run with unfused steps for all options.
    #[test]
    fn unfused_solves_are_measured_step_by_step() {
        for (problem, step) in [("neumann_var", "precondition"), ("poisson_f", "descend")] {
            let problem = Problem::find(problem, 63, None, 0.0).unwrap();
            for options in ["precision=f64", "precision=f32"] {
                let b = measure(&problem, options, 1).unwrap();
                let stage = b.stages.iter().find(|s| s.step == step).expect(options);
                assert!(stage.calls >= b.iterations, "{options}");
                // Short formats are counted only if they run fused.
                assert_eq!(stage.cost.is_some(), b.model.fused || options == "precision=f64");
                assert_eq!(b.model.fused, step == "descend");
                assert_eq!(b.stages.iter().any(|s| s.step == "preconditioned_square"), step == "descend");
                // The means are not counted, and must not get a cost.
                let projects = b.stages.iter().any(|s| s.step == "project_rhs" && s.cost.is_none());
                assert_eq!(projects, step == "precondition");
            }
        }
    }
}
