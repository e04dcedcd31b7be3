//! Solver object of an `rrb_` handle: factorizes a matrix, and solves with the factorization. `plan` selects storage
//! format, cycle and levels for a matrix. `krylov::solve` executes the steps of a solve.

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

pub use plan::{DEFAULT_SPACING, choose_machine, grids_to_share, options_without_effect};

use crate::base::engine::Engine;
use crate::base::machine::{Core, Machine};
use crate::error::{Error, Location, RRB_ERR_COMMUNICATION, RRB_ERR_MATRIX, Result};
use crate::krylov::completed_iterations;
use crate::krylov::solve::{Control, Function, Locations, MatrixProperties};
use crate::krylov::solve_steps::{Arrays, Program, SolveSteps};
use crate::options::{self, Choice, Options, Precision, info, opt};
use crate::report::{Event, Observer, Outcome, StopReason};
use crate::rrb::backend::{Aggregation, InspectionSetup, Prediction, Report, RrbBackend, Setup};
use crate::rrb::recursion::CycleKind;
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection::Inspection;
use crate::stencil::matrix::{GridArray, StencilView};
use crate::stencil::outward::OutwardCouplings;
use plan::{Plan, PlanConditions, inspection_setup};

/// Factorized matrix of a handle.
pub struct Rrb {
    backend: Box<dyn RrbBackend>,
    machine: Machine,
    /// Result of the inspection of the matrix.
    inspection: Inspection,
    /// Results of the last factorization, updated when a solve switches to another preconditioner.
    pub results: FactorizationResults,
    decisions: AutoDecisions,
    /// Parameters of the last factorization; `None` if there is none.
    last_factorization: Option<LastFactorization>,
    /// Number of factorizations that must still run without speculation (see `SPECULATION_PAUSE`).
    factorizations_until_speculation: usize,
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
    /// Whether a factorization in f32 or bf16 rejected a matrix, so that M is stored in f64 from then on.
    needs_double: bool,
    /// Whether the eigenvalue estimates selected the V-cycle instead of AMLI. Index 0: regular matrices; index 1:
    /// singular matrices.
    v_cycle_selected: [bool; 2],
    /// Whether a solve converged slowly and switched to aggregation.
    converges_slowly: bool,
    /// Whether the memory for aggregation could not be allocated.
    lacked_memory: bool,
    /// Whether CG in single precision stagnated on a distributed domain, so that later solves run CG in double
    /// precision.
    single_stagnates: bool,
    /// Whether CG in double precision has replaced CG in single precision (see `single_stagnates`), and has stagnated
    /// before it had halved the residual norm.
    double_is_futile: bool,
}

/// Result of `factorize_planned`.
struct PlannedFactorization {
    setup: Setup,
    /// Whether the eigenvalue estimates selected the V-cycle instead of AMLI; false if the factorization is truncated.
    v_cycle_selected: bool,
}

/// Values of the options on which the choices of `auto` depend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct AutoOptions {
    integer_values: [i64; 9],
    relaxation: f64,
}

impl AutoOptions {
    fn of(options: &Options) -> Self {
        let option_keys = [
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
        Self { integer_values: option_keys.map(|key| options.int(key)), relaxation: options.real(opt::RELAXATION) }
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
    pub reused_aggregate_count: usize,
    /// Precision in use.
    pub precision: Precision,
    /// Cycle in use.
    pub cycle: options::Cycle,
    /// Predicted costs from which `auto` selected levels or aggregation; `None` if nothing was predicted.
    pub prediction: Option<Prediction>,
    /// Whether `auto` selected aggregation, but the memory for aggregation could not be allocated. Later factorizations
    /// with the same options report `false`, because `auto` then does not select aggregation.
    pub lacked_memory: bool,
}

impl FactorizationResults {
    /// Number of values that represent the results in a message to another rank.
    pub const WORD_COUNT: usize = 7;

    /// Encodes the results for another rank, without the fields that only the log uses.
    pub fn to_words(self) -> [f64; Self::WORD_COUNT] {
        [
            self.levels as f64,
            self.components as f64,
            self.singular_components as f64,
            self.compensated_couplings as f64,
            self.reused_aggregate_count as f64,
            self.precision.number() as f64,
            self.cycle.number() as f64,
        ]
    }

    /// Decodes the result of [`FactorizationResults::to_words`].
    pub fn from_words(words: [f64; Self::WORD_COUNT]) -> Self {
        let [levels, components, singular_components, compensated_couplings, reused_aggregate_count] =
            std::array::from_fn(|k| words[k] as usize);
        Self {
            levels,
            components,
            singular_components,
            compensated_couplings,
            reused_aggregate_count,
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

/// Function that calls a `Program` with the steps of a solve. Benchmarks pass a function that wraps the steps and
/// measures their times. Every thread of a team calls this function.
pub type ProgramRunner<'a> = &'a (dyn Fn(&mut dyn SolveSteps, Program) -> Result<Outcome> + Sync);

impl Rrb {
    /// Factorizes `a`. `stream` is the caller's CUDA stream, or 0 for a stream of the backend. Reuses the backend of
    /// `previous` and its memory if `previous` was created for `machine`. Otherwise, `make_backend` creates a backend.
    /// After an error, the handle has no factorization.
    pub fn factorize(
        previous: Option<Self>,
        a: &StencilView,
        options: &Options,
        machine: Machine,
        stream: usize,
        make_backend: MakeBackend,
    ) -> Result<Self> {
        // The backend for another machine is dropped before the new backend is created, so that the memory of the old
        // backend is free.
        let mut rrb = match previous.filter(|rrb| rrb.machine == machine) {
            Some(rrb) => rrb,
            None => Self::new(machine, make_backend(machine)?),
        };
        rrb.backend.use_stream(stream)?;
        rrb.factorize_with_options(a, options)?;
        Ok(rrb)
    }

    fn new(machine: Machine, backend: Box<dyn RrbBackend>) -> Self {
        let (inspection, results, decisions) =
            (Inspection::default(), FactorizationResults::default(), AutoDecisions::default());
        Self {
            backend,
            machine,
            inspection,
            results,
            decisions,
            last_factorization: None,
            factorizations_until_speculation: 0,
        }
    }

    /// Creates an object that represents the factorization of another rank. It only reports `results`.
    pub fn of_remote(machine: Machine, backend: Box<dyn RrbBackend>, results: FactorizationResults) -> Self {
        Self { results, ..Self::new(machine, backend) }
    }

    fn factorize_with_options(&mut self, a: &StencilView, options: &Options) -> Result<()> {
        let auto_options = AutoOptions::of(options);
        let inspection_setup = inspection_setup(options, self.machine.threads);
        // In a simulation, the next matrix usually has the same structure. A speculative factorization with the
        // previous setup then reads the matrix only once. There is no speculation if a solve has switched to
        // aggregation, because the setup then changes.
        let is_speculative = |last_factorization: &LastFactorization| {
            let has_switched =
                self.decisions.converges_slowly && last_factorization.setup.aggregation != Aggregation::FromStart;
            self.factorizations_until_speculation == 0
                && (last_factorization.auto_options, last_factorization.inspection_setup)
                    == (auto_options, inspection_setup)
                && !has_switched
        };
        let speculation = self.last_factorization.take().filter(is_speculative);
        self.factorizations_until_speculation = self.factorizations_until_speculation.saturating_sub(1);
        let reused_setup = match speculation {
            Some(last_factorization)
                if self.backend.factorize_speculatively(
                    a,
                    &inspection_setup,
                    &last_factorization.setup,
                    &mut self.inspection,
                )? =>
            {
                Some(last_factorization.setup)
            }
            _ => None,
        };
        if reused_setup.is_none() {
            self.backend.inspect_matrix(a, &inspection_setup, &mut self.inspection)?;
        }
        let decisions = if self.decisions.auto_options == auto_options {
            self.decisions
        } else {
            self.backend.release_spare_memory();
            AutoDecisions { auto_options, ..AutoDecisions::default() }
        };
        let (machine, shares_grids) = (self.machine, self.backend.shares_grids());
        let single_stagnates = decisions.single_stagnates;
        let make_plan = |inspection: &Inspection, prefers_aggregation| {
            Plan::new(
                a,
                options,
                machine,
                &inspection_setup,
                inspection,
                PlanConditions { prefers_aggregation, shares_grids, single_stagnates },
            )
        };
        let mut plan = make_plan(&self.inspection, decisions.converges_slowly && !decisions.lacked_memory)?;
        let prediction = plan.predict(&*self.backend).filter(|_| !decisions.lacked_memory);
        if prediction.is_some_and(|prediction| prediction.prefers_aggregation()) {
            plan = make_plan(&self.inspection, true)?;
        }
        let speculation = (speculation.is_some(), reused_setup);
        let mut lacked_memory = decisions.lacked_memory;
        let PlannedFactorization { setup, v_cycle_selected } =
            match self.factorize_planned(&plan, &decisions, speculation) {
                Err(error) if plan.chose_aggregation() && error.is_out_of_memory_or_unsupported() => {
                    lacked_memory = true;
                    plan = make_plan(&self.inspection, false)?;
                    self.factorize_planned(&plan, &decisions, (false, None))?
                }
                result => result?,
            };
        let mut v_cycle_decisions = decisions.v_cycle_selected;
        v_cycle_decisions[usize::from(self.inspection.components.projected_count() > 0)] |= v_cycle_selected;
        self.decisions = AutoDecisions {
            auto_options,
            needs_double: decisions.needs_double || plan.storage != Storage::F64 && setup.storage == Storage::F64,
            v_cycle_selected: v_cycle_decisions,
            converges_slowly: decisions.converges_slowly,
            lacked_memory,
            single_stagnates,
            double_is_futile: decisions.double_is_futile,
        };
        self.last_factorization = Some(LastFactorization { auto_options, inspection_setup, setup });
        let lacked_memory = lacked_memory && !decisions.lacked_memory;
        self.results =
            FactorizationResults { prediction, lacked_memory, ..self.make_results(&setup, plan.compensated_couplings) };
        Ok(())
    }

    /// Factorizes according to the plan and to the decisions for previous matrices. `speculation` states whether a
    /// speculative factorization was attempted, and contains its parameters if it succeeded.
    fn factorize_planned(
        &mut self,
        plan: &Plan,
        decisions: &AutoDecisions,
        speculation: (bool, Option<Setup>),
    ) -> Result<PlannedFactorization> {
        let singular_index = usize::from(self.inspection.components.projected_count() > 0);
        let mut setup = plan.setup(
            if decisions.needs_double { Storage::F64 } else { plan.storage },
            if decisions.v_cycle_selected[singular_index] { plan.v_cycle() } else { plan.cycle },
        )?;
        if speculation.1 != Some(setup) {
            self.factorize_by(plan, &mut setup)?;
            if speculation.0 {
                self.factorizations_until_speculation = SPECULATION_PAUSE;
            }
        }
        // A truncated factorization has fewer levels than requested. The cycle that it selects does not apply to other
        // matrices. The V-cycle then needs no second factorization, which would only reduce the number of levels.
        let Report { levels, kind, .. } = self.backend.report();
        let is_truncated = levels.is_some_and(|levels| levels < setup.levels);
        if setup.cycle.kind.is_none() && kind == CycleKind::V && !is_truncated {
            // The default number of levels of the V-cycle is smaller, so the matrix is factorized again.
            setup = plan.setup(setup.storage.matrix_format(), plan.v_cycle())?;
            self.factorize_by(plan, &mut setup)?;
        }
        // The selection is recorded only if the cycle was left to the estimates, and the factorization is not
        // truncated.
        let v_cycle_selected = plan.cycle.kind.is_none() && self.backend.report().kind == CycleKind::V && !is_truncated;
        Ok(PlannedFactorization { setup, v_cycle_selected })
    }

    /// Factorizes with `setup`. If the matrix is rejected, for example because a pivot underflows in f32 or bf16, and
    /// if `auto` has selected the format, repeats the factorization with f64.
    fn factorize_by(&mut self, plan: &Plan, setup: &mut Setup) -> Result<()> {
        let components = &self.inspection.components;
        match self.backend.factorize(plan.a, setup, components) {
            // The code compares the status, not the variant of `Error`, because another rank may have reported the
            // error.
            Err(error)
                if error.status() == RRB_ERR_MATRIX
                    && plan.has_automatic_storage()
                    && setup.storage != Storage::F64 =>
            {
                *setup = plan.setup(Storage::F64, setup.cycle)?;
                self.backend.factorize(plan.a, setup, components)
            }
            result => result,
        }
    }

    fn make_results(&self, setup: &Setup, compensated_couplings: usize) -> FactorizationResults {
        let (components, report) = (&self.inspection.components, self.backend.report());
        FactorizationResults {
            levels: report.levels.unwrap_or(setup.levels),
            components: components.count,
            singular_components: components.projected_count(),
            compensated_couplings,
            reused_aggregate_count: report.reused_aggregate_count,
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
        let Some(LastFactorization { setup, .. }) = &self.last_factorization else { return };
        self.results.levels = self.backend.report().levels.unwrap_or(setup.levels);
        self.results.compensated_couplings = 0;
        self.results.precision = match setup.aggregation {
            Aggregation::IfSlow(Storage::F64) => Precision::F64,
            _ => Precision::F32,
        };
    }

    /// Returns the nonzero couplings that point out of the grid. `a` must be the matrix that was inspected last.
    pub fn outward(&mut self, a: &StencilView) -> Result<OutwardCouplings> {
        self.backend.outward(a)
    }

    /// Solves A x = b to the tolerance of `options`, or applies M^-1 or A on the whole grid.
    pub fn run_function(
        &mut self,
        function: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        if function == Function::Solve {
            return self.solve_with_wrapper(arrays, options, observer, &|steps, program| program(steps));
        }
        let control = Control::new(options, matrix_properties(&self.inspection), false, false, arrays.len);
        self.backend.run(arrays, observer, &|steps| function.run(steps, &control))
    }

    /// Solves on a distributed domain. If `precision=auto` has selected CG in single precision and CG stagnates, the
    /// solve continues with CG in double precision. `a` contains the rows of the matrix that this rank received. `a` is
    /// `None` if the factorization of this rank contains the whole matrix.
    pub fn solve_over_ranks(
        &mut self,
        mut arrays: Arrays,
        a: Option<&StencilView>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let first_outcome = self.run_function(Function::Solve, arrays.reborrow(), options, observer)?;
        let is_automatic = options.is(opt::PRECISION, Precision::Auto) && self.backend.shares_grids();
        let has_stagnated = self.results.precision == Precision::Mixed && first_outcome.reason == StopReason::Stagnated;
        let may_continue =
            !self.decisions.double_is_futile && (first_outcome.iterations as i64) < options.int(opt::MAX_ITER);
        if !(is_automatic && has_stagnated && may_continue) {
            return Ok(first_outcome);
        }
        match self.widen(a) {
            Err(error) if error.status() == RRB_ERR_COMMUNICATION => return Err(error),
            // The output contains x of the first run. If the failed `widen` has left no factorization, the next call
            // reports an error.
            Err(_) => return Ok(first_outcome),
            Ok(()) => {
                observer.receive(Event::SwitchedToDouble(first_outcome.iterations));
            }
        }
        let second_outcome =
            match self.run(arrays, options, observer, Some(first_outcome), &|steps, program| program(steps)) {
                Err(Error::Breakdown { quantity, iteration, .. }) => {
                    Outcome { iterations: completed_iterations(quantity, iteration), ..first_outcome }
                }
                result => result?,
            };
        if second_outcome.reason == StopReason::Stagnated
            && second_outcome.final_residual > 0.5 * first_outcome.final_residual
        {
            // CG in double precision has stagnated as well. The cause is therefore the rounding of the products with A,
            // not the precision of CG, and later factorizations use single precision again.
            (self.decisions.single_stagnates, self.decisions.double_is_futile) = (false, true);
        }
        Ok(Outcome { initial_residual: first_outcome.initial_residual, ..second_outcome })
    }

    /// Factorizes the current matrix again, for CG in double precision. `a` contains the rows of this matrix that this
    /// rank received. If `a` is `None`, the matrix is read from the factorization.
    fn widen(&mut self, a: Option<&StencilView>) -> Result<()> {
        let missing_matrix = || Error::Internal("no rank has the whole matrix to factorize it again".to_owned());
        let last_factorization = self.last_factorization.ok_or_else(missing_matrix)?;
        let stored_matrix = if a.is_none() { Some(self.backend.matrix()?.ok_or_else(missing_matrix)?) } else { None };
        let stored_view = stored_matrix.as_ref().map(|(grid, [center, east, north])| {
            let array_view = |name, values| GridArray::new(name, values, *grid, grid.nx);
            let (center, east, north) =
                (array_view("center", center), array_view("east", east), array_view("north", north));
            StencilView { grid: *grid, center, east, north, corners: None }
        });
        let a = a.or(stored_view.as_ref()).ok_or_else(missing_matrix)?;
        let setup = Setup { storage: last_factorization.setup.storage.matrix_format(), ..last_factorization.setup };
        // The memory of the old factorization is freed before new memory is allocated.
        self.last_factorization = None;
        self.backend.release();
        self.backend.factorize(a, &setup, &self.inspection.components)?;
        self.last_factorization = Some(LastFactorization { setup, ..last_factorization });
        self.decisions.single_stagnates = true;
        self.results = self.make_results(&setup, self.results.compensated_couplings);
        Ok(())
    }

    /// Returns whether a failed call has left no factorization.
    pub fn has_no_factorization(&self) -> bool {
        self.last_factorization.is_none()
    }

    /// Solves like `run_function`, but runs the program through `run_program`.
    pub fn solve_with_wrapper(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        run_program: ProgramRunner,
    ) -> Result<Outcome> {
        self.run(arrays, options, observer, None, run_program)
    }

    /// Runs a solve. If `previous` is the outcome of an earlier run, this run continues from the x of that run.
    fn run(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        previous: Option<Outcome>,
        run_program: ProgramRunner,
    ) -> Result<Outcome> {
        let uses_short_format = self.results.precision != Precision::F64;
        let is_definite = matches!(self.results.cycle, options::Cycle::V | options::Cycle::Aggregation);
        let control = Control {
            previous_outcome: previous,
            ..Control::new(options, matrix_properties(&self.inspection), uses_short_format, is_definite, arrays.len)
        };
        let outcome = self
            .backend
            .run(arrays, observer, &|steps| run_program(steps, &|steps| Function::Solve.run(steps, &control)));
        let previous_cycle = std::mem::replace(&mut self.results.cycle, cycle_of(&self.backend.report()));
        if self.results.cycle == options::Cycle::Aggregation && previous_cycle != self.results.cycle {
            self.decisions.converges_slowly = true;
            self.update_results();
        }
        outcome
    }

    /// Returns the number of grids that are stored by colour.
    pub fn packed_grid_count(&self) -> usize {
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

    fn other_host_bytes(&self) -> usize {
        self.inspection.bytes()
    }

    fn names_in_use(&self) -> [&'static str; 2] {
        [self.results.precision.name(), self.results.cycle.name()]
    }

    fn result(&self, key: i32) -> f64 {
        let results = &self.results;
        match key {
            info::LEVELS => results.levels as f64,
            info::PRECISION => results.precision.number() as f64,
            info::CYCLE => results.cycle.number() as f64,
            info::COMPONENTS => results.components as f64,
            info::SINGULAR_COMPONENTS => results.singular_components as f64,
            info::COMPENSATED_COUPLINGS => results.compensated_couplings as f64,
            info::AGGREGATES_KEPT => results.reused_aggregate_count as f64,
            info::GRIDS => self.packed_grid_count() as f64,
            _ => 0.0,
        }
    }
}

fn matrix_properties(inspection: &Inspection) -> MatrixProperties<'_> {
    let Inspection { components, findings, .. } = inspection;
    MatrixProperties {
        center_max: findings.center_max,
        singular_component_count: components.projected_count(),
        locations: components,
    }
}

impl Locations for Components {
    fn node(&self, i: usize, row: usize) -> Location {
        Location::node(0, i, row)
    }

    fn component(&self, component: usize) -> Location {
        let (i, j) = self.first_node[component];
        Location::node(0, i, j)
    }
}

fn cycle_of(report: &Report) -> options::Cycle {
    match report.kind {
        _ if report.uses_aggregation => options::Cycle::Aggregation,
        CycleKind::V => options::Cycle::V,
        CycleKind::Amli => options::Cycle::Amli,
        CycleKind::K => options::Cycle::K,
    }
}
