//! RRB-PCG for one matrix: its factorization, and the calls that use the factorization. `plan` contains the choices for
//! a matrix, and `krylov::solve` the steps of a solve.

pub mod anisotropy;
pub mod backend;
pub mod coarsest;
pub mod cpu;
pub mod cuda;
pub mod domain;
pub mod entries;
pub mod gathered;
pub mod layout;
pub mod natural;
mod plan;
pub mod ranks;
pub mod recursion;
pub mod reference;
pub mod remote;
pub mod storage;

pub use plan::{SPACING, grids_to_share, machine, options_without_effect};

use crate::base::engine::Engine;
use crate::base::machine::{Core, Machine};
use crate::error::{Error, Place, RRB_ERR_COMMUNICATION, RRB_ERR_MATRIX, Result};
use crate::krylov::completed_iterations;
use crate::krylov::solve::{Control, Function, Locations, MatrixProperties};
use crate::krylov::solve_steps::{Arrays, Program, SolveSteps};
use crate::options::{self, Choice, Options, Precision, info, opt};
use crate::report::{Event, Observer, Outcome, StopReason};
use crate::rrb::backend::{Aggregation, InspectionSetup, Prediction, Report, RrbBackend, Setup};
use crate::rrb::recursion::Kind;
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection::Inspection;
use crate::stencil::matrix::{StencilView, View};
use crate::stencil::outward::Outward;
use plan::{Plan, PlanConditions, inspection_setup};

/// Factorized matrix of a handle.
pub struct Rrb {
    backend: Box<dyn RrbBackend>,
    machine: Machine,
    /// Result of the inspection of the matrix.
    inspection: Inspection,
    /// Results of the last factorization, updated when a solve switches to another preconditioner.
    pub done: FactorizationResults,
    decisions: AutoDecisions,
    /// Parameters of the last factorization; `None` if there is none.
    last: Option<LastFactorization>,
    /// Number of factorizations without speculation that precede the next speculative one.
    until_speculation: usize,
}

/// Parameters of a factorization and of the inspection of its matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LastFactorization {
    auto_options: AutoOptions,
    inspection_setup: InspectionSetup,
    setup: Setup,
}

/// Number of factorizations without speculation that follow a failed speculation. A failed speculation costs time,
/// because the same matrix is then factorized again.
const SPECULATION_PAUSE: usize = 8;

/// Decisions of `auto`, valid while the options in `auto_options` are unchanged. With these decisions, later matrices
/// are factorized only once, in the memory that is already allocated.
#[derive(Clone, Copy, Debug, Default)]
struct AutoDecisions {
    auto_options: AutoOptions,
    /// Whether the factorization rejected a matrix in another format, so that f64 replaced the format.
    double: bool,
    /// Whether the estimates selected the V-cycle instead of AMLI: for a regular matrix, and for a singular matrix.
    v_cycle: [bool; 2],
    /// Whether a solve converged slowly and switched to aggregation.
    slow: bool,
    /// Whether the memory for aggregation could not be allocated.
    lacked_memory: bool,
    /// Whether CG in single precision stagnated on a distributed domain, so that CG in double precision replaces it.
    stagnates: bool,
    /// Whether CG in double precision, after such a replacement, stagnated before it had halved the residual norm.
    futile: bool,
}

/// Result of `factorize_planned`.
struct PlannedFactorization {
    setup: Setup,
    /// Whether the estimates selected the V-cycle instead of AMLI.
    v_cycle: bool,
}

/// Values of the options on which the choices of `auto` depend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AutoOptions {
    integers: [i64; 9],
    relaxation: f64,
}

impl AutoOptions {
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
            opt::SWITCH_MEMORY,
        ];
        Self { integers: keys.map(|key| options.int(key)), relaxation: options.real(opt::RELAXATION) }
    }
}

/// Results of a factorization.
#[derive(Clone, Copy, Debug, Default)]
pub struct FactorizationResults {
    /// Number of levels; with aggregation, number of coarse levels.
    pub levels: usize,
    /// Number of connected components of two nodes or more.
    pub components: usize,
    /// Number of singular components.
    pub singular_components: usize,
    /// Number of positive couplings that are added to the diagonals in M.
    pub compensated_couplings: usize,
    /// Number of aggregates reused from the previous matrix.
    pub aggregates_kept: usize,
    /// Precision in use.
    pub precision: Precision,
    /// Cycle in use.
    pub cycle: options::Cycle,
    /// Predicted costs from which `auto` selected levels or aggregation; `None` if nothing was predicted.
    pub prediction: Option<Prediction>,
    /// Whether `auto` selected aggregation, but its memory could not be allocated. `false` in the following
    /// factorizations with the same options, because `auto` does not select aggregation there.
    pub lacked_memory: bool,
}

impl FactorizationResults {
    /// Number of values that represent the results in a message to another rank.
    pub const WORDS: usize = 7;

    /// Encodes the results for another rank, without the fields that only the log uses.
    pub fn to_words(self) -> [f64; Self::WORDS] {
        [
            self.levels as f64,
            self.components as f64,
            self.singular_components as f64,
            self.compensated_couplings as f64,
            self.aggregates_kept as f64,
            self.precision.number() as f64,
            self.cycle.number() as f64,
        ]
    }

    /// Decodes the result of [`FactorizationResults::to_words`].
    pub fn of_words(words: [f64; Self::WORDS]) -> Self {
        let [levels, components, singular_components, compensated_couplings, aggregates_kept] =
            std::array::from_fn(|k| words[k] as usize);
        Self {
            levels,
            components,
            singular_components,
            compensated_couplings,
            aggregates_kept,
            precision: Precision::of(words[5] as i64).unwrap_or_default(),
            cycle: options::Cycle::of(words[6] as i64).unwrap_or_default(),
            prediction: None,
            lacked_memory: false,
        }
    }
}

/// Function that creates a backend. The API layer passes this function, so that no other module names a concrete
/// backend.
pub type MakeBackend<'a> = &'a dyn Fn(Machine) -> Result<Box<dyn RrbBackend>>;

/// Function that runs a program on the steps of a solve. Benchmarks pass a function that wraps the steps and measures
/// their times. Every thread of a team calls this function.
pub type Around<'a> = &'a (dyn Fn(&mut dyn SolveSteps, Program) -> Result<Outcome> + Sync);

impl Rrb {
    /// Factorizes `a` on the caller's CUDA stream, or on a stream of the backend if `stream` is 0. Reuses the memory of
    /// `previous` if it fits. After an error, the handle has no factorization. `make` creates a backend if the
    /// backend of `previous` is not one for `machine`.
    pub fn factorize(
        previous: Option<Self>,
        a: &StencilView,
        options: &Options,
        machine: Machine,
        stream: usize,
        make: MakeBackend,
    ) -> Result<Self> {
        // A backend for another machine is dropped before a new one is created, so that its memory is free.
        let mut rrb = match previous.filter(|rrb| rrb.machine == machine) {
            Some(rrb) => rrb,
            None => Self::new(machine, make(machine)?),
        };
        rrb.backend.use_stream(stream)?;
        rrb.factorize_with_options(a, options)?;
        Ok(rrb)
    }

    fn new(machine: Machine, backend: Box<dyn RrbBackend>) -> Self {
        let (inspection, done, decisions) =
            (Inspection::default(), FactorizationResults::default(), AutoDecisions::default());
        Self { backend, machine, inspection, done, decisions, last: None, until_speculation: 0 }
    }

    /// Creates an object that represents the factorization of another rank. It only reports the results `done`.
    pub fn of_remote(machine: Machine, backend: Box<dyn RrbBackend>, done: FactorizationResults) -> Self {
        Self { done, ..Self::new(machine, backend) }
    }

    fn factorize_with_options(&mut self, a: &StencilView, options: &Options) -> Result<()> {
        let auto_options = AutoOptions::of(options);
        let inspection_setup = inspection_setup(options, self.machine.threads);
        // In a simulation, the next matrix usually has the same structure. A speculative factorization with the setup
        // of the last one then reads the matrix only once. If a solve has switched to aggregation since then, the setup
        // changes, so there is no speculation.
        let is_speculative = |last: &LastFactorization| {
            let switches = self.decisions.slow && last.setup.aggregation != Aggregation::FromStart;
            self.until_speculation == 0
                && (last.auto_options, last.inspection_setup) == (auto_options, inspection_setup)
                && !switches
        };
        let speculation = self.last.take().filter(is_speculative);
        self.until_speculation = self.until_speculation.saturating_sub(1);
        let again = match speculation {
            Some(last) if self.backend.factorize_again(a, &inspection_setup, &last.setup, &mut self.inspection)? => {
                Some(last.setup)
            }
            _ => None,
        };
        if again.is_none() {
            self.backend.examine(a, &inspection_setup, &mut self.inspection)?;
        }
        let known = if self.decisions.auto_options == auto_options {
            self.decisions
        } else {
            self.backend.release_spare();
            AutoDecisions { auto_options, ..AutoDecisions::default() }
        };
        let (machine, shared) = (self.machine, self.backend.shares_grids());
        let stagnates = known.stagnates;
        let plan_for = |inspection: &Inspection, slow| {
            Plan::new(a, options, machine, &inspection_setup, inspection, PlanConditions { slow, shared, stagnates })
        };
        let mut plan = plan_for(&self.inspection, known.slow && !known.lacked_memory)?;
        let prediction = plan.predict(&*self.backend).filter(|_| !known.lacked_memory);
        if prediction.is_some_and(|p| p.aggregates()) {
            plan = plan_for(&self.inspection, true)?;
        }
        let speculation = (speculation.is_some(), again);
        let mut lacked_memory = known.lacked_memory;
        let PlannedFactorization { setup, v_cycle } = match self.factorize_planned(&plan, &known, speculation) {
            Err(error) if plan.aggregates_automatically() && error.is_out_of_memory_or_unsupported() => {
                lacked_memory = true;
                plan = plan_for(&self.inspection, false)?;
                self.factorize_planned(&plan, &known, (false, None))?
            }
            other => other?,
        };
        let mut found_v_cycle = known.v_cycle;
        found_v_cycle[usize::from(self.inspection.components.singular() > 0)] |= v_cycle;
        self.decisions = AutoDecisions {
            auto_options,
            double: known.double || plan.storage != Storage::F64 && setup.storage == Storage::F64,
            v_cycle: found_v_cycle,
            slow: known.slow,
            lacked_memory,
            stagnates,
            futile: known.futile,
        };
        self.last = Some(LastFactorization { auto_options, inspection_setup, setup });
        let lacked_memory = lacked_memory && !known.lacked_memory;
        self.done = FactorizationResults { prediction, lacked_memory, ..self.make_results(&setup, plan.positive) };
        Ok(())
    }

    /// Factorizes according to the plan and to the decisions for previous matrices. `speculation` states whether a
    /// speculative factorization was attempted, and contains its parameters if it succeeded.
    fn factorize_planned(
        &mut self,
        plan: &Plan,
        known: &AutoDecisions,
        speculation: (bool, Option<Setup>),
    ) -> Result<PlannedFactorization> {
        let singular = usize::from(self.inspection.components.singular() > 0);
        let mut setup = plan.setup(
            if known.double { Storage::F64 } else { plan.storage },
            if known.v_cycle[singular] { plan.v_cycle() } else { plan.cycle },
        )?;
        if speculation.1 != Some(setup) {
            self.factorize_by(plan, &mut setup)?;
            if speculation.0 {
                self.until_speculation = SPECULATION_PAUSE;
            }
        }
        // If the factorization ended after fewer levels than requested, its choice of the cycle does not apply to other
        // matrices. No second factorization with fewer levels is then needed.
        let Report { levels, kind, .. } = self.backend.report();
        let ended = levels.is_some_and(|levels| levels < setup.levels);
        if setup.cycle.kind.is_none() && kind == Kind::V && !ended {
            // The V-cycle has its own number of levels, which is smaller.
            setup = plan.setup(setup.storage.stored(), plan.v_cycle())?;
            self.factorize_by(plan, &mut setup)?;
        }
        // `v_cycle` is recorded only if the estimates could select the cycle.
        let v_cycle = plan.cycle.kind.is_none() && self.backend.report().kind == Kind::V && !ended;
        Ok(PlannedFactorization { setup, v_cycle })
    }

    /// Factorizes with `setup`. If the matrix is rejected, for example because a pivot underflows in f32 or bf16, and
    /// if `auto` has selected the format, repeats the factorization with f64.
    fn factorize_by(&mut self, plan: &Plan, setup: &mut Setup) -> Result<()> {
        let components = &self.inspection.components;
        match self.backend.factorize(plan.a, setup, components) {
            // The status is compared, and not the kind of error, because the error may come from another rank.
            Err(error)
                if error.status() == RRB_ERR_MATRIX
                    && plan.has_automatic_storage()
                    && setup.storage != Storage::F64 =>
            {
                *setup = plan.setup(Storage::F64, setup.cycle)?;
                self.backend.factorize(plan.a, setup, components)
            }
            other => other,
        }
    }

    fn make_results(&self, setup: &Setup, positive: usize) -> FactorizationResults {
        let (components, report) = (&self.inspection.components, self.backend.report());
        FactorizationResults {
            levels: report.levels.unwrap_or(setup.levels),
            components: components.count,
            singular_components: components.singular(),
            compensated_couplings: positive,
            aggregates_kept: report.aggregates_kept,
            precision: match setup.storage {
                Storage::F64 => Precision::F64,
                Storage::F32 => Precision::F32,
                Storage::Bf16 => Precision::Bf16,
                Storage::Mixed => Precision::Mixed,
            },
            cycle: cycle_of(&report),
            prediction: None,
            lacked_memory: false,
        }
    }

    /// Updates the results after a solve has switched to aggregation.
    fn update_results(&mut self) {
        let Some(LastFactorization { setup, .. }) = &self.last else { return };
        self.done.levels = self.backend.report().levels.unwrap_or(setup.levels);
        self.done.compensated_couplings = 0;
        self.done.precision = match setup.aggregation {
            Aggregation::IfSlow(Storage::F64) => Precision::F64,
            _ => Precision::F32,
        };
    }

    /// Returns the nonzero couplings that point out of the grid. `a` must be the matrix that was inspected last.
    pub fn outward(&mut self, a: &StencilView) -> Result<Outward> {
        self.backend.outward(a)
    }

    /// Solves A x = b to the tolerance of `options`, or applies M^-1 or A on the whole grid.
    pub fn call(
        &mut self,
        what: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        if what == Function::Solve {
            return self.solve_with_wrapper(arrays, options, observer, &|s, text| text(s));
        }
        let control = Control::new(options, matrix_properties(&self.inspection), false, false, arrays.len);
        self.backend.run(arrays, observer, &|s| what.run(s, &control))
    }

    /// Solves on a distributed domain. If `precision=auto` has selected CG in single precision and it stagnates, the
    /// solve continues with CG in double precision. `a` contains the rows of the matrix that this rank received; `None`
    /// if this rank alone has all rows, in its factorization.
    pub fn solve_over_ranks(
        &mut self,
        mut arrays: Arrays,
        a: Option<&StencilView>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let first = self.call(Function::Solve, arrays.reborrow(), options, observer)?;
        let chosen = options.is(opt::PRECISION, Precision::Auto) && self.backend.shares_grids();
        let stagnates = self.done.precision == Precision::Mixed && first.reason == StopReason::Stagnated;
        let may_go_on = !self.decisions.futile && (first.iterations as i64) < options.int(opt::MAX_ITER);
        if !(chosen && stagnates && may_go_on) {
            return Ok(first);
        }
        match self.widen(a) {
            Err(error) if error.status() == RRB_ERR_COMMUNICATION => return Err(error),
            // The output contains x of the first run. If there is no factorization now, the next call reports an error.
            Err(_) => return Ok(first),
            Ok(()) => {
                observer.receive(Event::Widened(first.iterations));
            }
        }
        let second = match self.run(arrays, options, observer, Some(first), &|s, text| text(s)) {
            Err(Error::Breakdown { quantity, iteration, .. }) => {
                Outcome { iterations: completed_iterations(quantity, iteration), ..first }
            }
            other => other?,
        };
        if second.reason == StopReason::Stagnated && second.final_residual > 0.5 * first.final_residual {
            // CG in double precision has stagnated as well. The cause is therefore the rounding of the products with A,
            // not the precision of CG, and later factorizations use single precision again.
            (self.decisions.stagnates, self.decisions.futile) = (false, true);
        }
        Ok(Outcome { initial_residual: first.initial_residual, ..second })
    }

    /// Factorizes the current matrix again, for CG in double precision. `a` contains the rows of this matrix that this
    /// rank received. If `a` is `None`, the matrix is read from the factorization.
    fn widen(&mut self, a: Option<&StencilView>) -> Result<()> {
        let nowhere = || Error::Internal("no rank has the whole matrix to factorize it again".to_owned());
        let last = self.last.ok_or_else(nowhere)?;
        let own = if a.is_none() { Some(self.backend.matrix()?.ok_or_else(nowhere)?) } else { None };
        let view = own.as_ref().map(|(grid, [center, east, north])| {
            let view = |name, values| View::new(name, values, *grid, grid.nx);
            let (center, east, north) = (view("center", center), view("east", east), view("north", north));
            StencilView { grid: *grid, center, east, north, corners: None }
        });
        let a = a.or(view.as_ref()).ok_or_else(nowhere)?;
        let setup = Setup { storage: last.setup.storage.stored(), ..last.setup };
        // The memory of the old factorization is freed before new memory is allocated.
        self.last = None;
        self.backend.release();
        self.backend.factorize(a, &setup, &self.inspection.components)?;
        self.last = Some(LastFactorization { setup, ..last });
        self.decisions.stagnates = true;
        self.done = self.make_results(&setup, self.done.compensated_couplings);
        Ok(())
    }

    /// Returns whether a failed call has left no factorization.
    pub fn has_no_factorization(&self) -> bool {
        self.last.is_none()
    }

    /// Solves like `call`, but runs the program through `around`.
    pub fn solve_with_wrapper(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        around: Around,
    ) -> Result<Outcome> {
        self.run(arrays, options, observer, None, around)
    }

    /// Runs a solve. `previous` is the outcome of the run from whose x this run continues.
    fn run(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        previous: Option<Outcome>,
        around: Around,
    ) -> Result<Outcome> {
        let short = self.done.precision != Precision::F64;
        let definite = matches!(self.done.cycle, options::Cycle::V | options::Cycle::Aggregation);
        let control = Control {
            previous,
            ..Control::new(options, matrix_properties(&self.inspection), short, definite, arrays.len)
        };
        let outcome = self.backend.run(arrays, observer, &|s| around(s, &|s| Function::Solve.run(s, &control)));
        let before = std::mem::replace(&mut self.done.cycle, cycle_of(&self.backend.report()));
        if self.done.cycle == options::Cycle::Aggregation && before != self.done.cycle {
            self.decisions.slow = true;
            self.update_results();
        }
        outcome
    }

    /// Returns the number of grids that are stored by colour.
    pub fn grids(&self) -> usize {
        self.backend.report().grids
    }
}

impl Core for Rrb {
    fn machine(&self) -> Machine {
        self.machine
    }

    fn engine(&self) -> &dyn Engine {
        &*self.backend
    }

    fn engine_mut(&mut self) -> &mut dyn Engine {
        &mut *self.backend
    }

    fn own_bytes(&self) -> usize {
        self.inspection.bytes()
    }

    fn in_use(&self) -> [&'static str; 2] {
        [self.done.precision.name(), self.done.cycle.name()]
    }

    fn result(&self, key: i32) -> f64 {
        let done = &self.done;
        match key {
            info::LEVELS => done.levels as f64,
            info::PRECISION => done.precision.number() as f64,
            info::CYCLE => done.cycle.number() as f64,
            info::COMPONENTS => done.components as f64,
            info::SINGULAR_COMPONENTS => done.singular_components as f64,
            info::COMPENSATED_COUPLINGS => done.compensated_couplings as f64,
            info::AGGREGATES_KEPT => done.aggregates_kept as f64,
            info::GRIDS => self.grids() as f64,
            _ => 0.0,
        }
    }
}

fn matrix_properties(inspection: &Inspection) -> MatrixProperties<'_> {
    let Inspection { components, findings, .. } = inspection;
    MatrixProperties { center_max: findings.center_max, singular: components.singular(), locations: components }
}

impl Locations for Components {
    fn node(&self, i: usize, row: usize) -> Place {
        Place::node(0, i, row)
    }

    fn component(&self, component: usize) -> Place {
        let (i, j) = self.first_node[component];
        Place::node(0, i, j)
    }
}

fn cycle_of(report: &Report) -> options::Cycle {
    match report.kind {
        _ if report.aggregates => options::Cycle::Aggregation,
        Kind::V => options::Cycle::V,
        Kind::Amli => options::Cycle::Amli,
        Kind::K => options::Cycle::K,
    }
}
