//! RRB-PCG for one matrix: its factorization. What is chosen for it is in `plan`, what a solve does then in `solve`.

mod led;
mod plan;
pub mod ranks;

pub use plan::{SPACING, grids_to_share, idle_beside_aggregation, machine};

use crate::backend::steps::cycle::Kind;
use crate::backend::steps::engine::Engine;
use crate::backend::steps::rrb::{Aggregation, Look, Prediction, Report, RrbBackend, Setup};
use crate::backend::steps::solve::{Arrays, Program, SolveSteps};
use crate::backend::storage::Storage;
use crate::error::{Error, Place, RRB_ERR_COMMUNICATION, RRB_ERR_MATRIX, Result};
use crate::grid::components::Components;
use crate::grid::inspection::Inspection;
use crate::grid::outward::Outward;
use crate::grid::stencil::{StencilView, View};
use crate::options::{self, Choice, Options, Precision, info, opt};
use crate::report::{Event, Observer, Outcome, StopReason};
use crate::solver::krylov::done_before;
use crate::solver::machine::{Core, Machine};
use crate::solver::solve::{Control, Function, Places, Seen};
use plan::{Circumstances, Plan, look};

/// A factorized matrix, or room for one.
pub struct Rrb {
    backend: Box<dyn RrbBackend>,
    machine: Machine,
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
    /// The V-cycle was better, for regular and for singular matrices.
    plain: [bool; 2],
    /// A solve was slow, and went over to aggregation.
    slow: bool,
    /// There was no memory for aggregation.
    too_much: bool,
    /// CG in single precision has stagnated over ranks, where that in double goes on.
    stagnates: bool,
    /// That came no further.
    futile: bool,
}

/// What a factorization has come to.
struct Made {
    setup: Setup,
    /// The V-cycle was better than AMLI.
    plain: bool,
}

/// The options that the choices of `auto` depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Asked {
    whole: [i64; 9],
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
            opt::SWITCH_MEMORY,
        ];
        Self { whole: keys.map(|key| options.int(key)), relaxation: options.real(opt::RELAXATION) }
    }
}

/// Results of a factorization.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Red eliminations.
    pub levels: usize,
    /// Connected components of two nodes or more.
    pub components: usize,
    /// Singular ones.
    pub singular_components: usize,
    /// Positive couplings moved to the diagonals in M.
    pub compensated_couplings: usize,
    /// Aggregates kept from the matrix before.
    pub aggregates_kept: usize,
    /// Precision in use.
    pub precision: Precision,
    /// Cycle in use.
    pub cycle: options::Cycle,
    /// What `auto` chose by.
    pub prediction: Option<Prediction>,
    /// There was no memory for aggregation, which nobody asked for.
    pub went_without: bool,
}

impl Done {
    /// Numbers that tell another rank of it.
    pub const WORDS: usize = 7;

    /// What the log alone says is not among them.
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

    /// The inverse.
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
            went_without: false,
        }
    }
}

/// Makes a backend: the one place where a concrete one is named, handed in by the boundary.
pub type MakeBackend<'a> = &'a dyn Fn(Machine) -> Result<Box<dyn RrbBackend>>;

/// Runs a text on the steps it is given, or on others that pass these on and watch them (the benchmark's clock).
/// Called by every member of a team.
pub type Around<'a> = &'a (dyn Fn(&mut dyn SolveSteps, Program) -> Result<Outcome> + Sync);

impl Rrb {
    /// Factorizes `a`; `previous` gives its memory back where it fits. On an error the handle has no
    /// factorization.
    pub fn factorize(
        previous: Option<Self>,
        a: &StencilView,
        options: &Options,
        machine: Machine,
        stream: usize,
        make: MakeBackend,
    ) -> Result<Self> {
        // One of another machine goes first, with its memory.
        let mut rrb = match previous.filter(|rrb| rrb.machine == machine) {
            Some(rrb) => rrb,
            None => Self::new(machine, make(machine)?),
        };
        rrb.backend.use_stream(stream)?;
        rrb.factorize_as_asked(a, options)?;
        Ok(rrb)
    }

    fn new(machine: Machine, backend: Box<dyn RrbBackend>) -> Self {
        let (inspection, done, found) = (Inspection::default(), Done::default(), Found::default());
        Self { backend, machine, inspection, done, found, last: None, doubts: 0 }
    }

    /// A matrix that another rank has factorized on its machine, and come to this: all that is done here is to tell.
    pub fn elsewhere(machine: Machine, backend: Box<dyn RrbBackend>, done: Done) -> Self {
        Self { done, ..Self::new(machine, backend) }
    }

    fn factorize_as_asked(&mut self, a: &StencilView, options: &Options) -> Result<()> {
        let asked = Asked::of(options);
        let look = look(options, self.machine.threads);
        // The next matrix of a simulation is mostly of the same kind: it is read once.
        // Not where a solve has gone over to aggregation since.
        let is_hoped = |last: &Last| {
            let goes_over = self.found.slow && last.setup.aggregation != Aggregation::Instead;
            self.doubts == 0 && (last.asked, last.look) == (asked, look) && !goes_over
        };
        let hope = self.last.take().filter(is_hoped);
        self.doubts = self.doubts.saturating_sub(1);
        let again = match hope {
            Some(last) if self.backend.factorize_again(a, &look, &last.setup, &mut self.inspection)? => {
                Some(last.setup)
            }
            _ => None,
        };
        if again.is_none() {
            self.backend.examine(a, &look, &mut self.inspection)?;
        }
        let known = if self.found.asked == asked {
            self.found
        } else {
            self.backend.forget();
            Found { asked, ..Found::default() }
        };
        let (machine, shared) = (self.machine, self.backend.shares_grids());
        let stagnates = known.stagnates;
        let plan_for = |inspection: &Inspection, slow| {
            Plan::new(a, options, machine, &look, inspection, Circumstances { slow, shared, stagnates })
        };
        let mut plan = plan_for(&self.inspection, known.slow && !known.too_much)?;
        let prediction = plan.predict(&*self.backend).filter(|_| !known.too_much);
        if prediction.is_some_and(|p| p.aggregates()) {
            plan = plan_for(&self.inspection, true)?;
        }
        let hope = (hope.is_some(), again);
        let mut too_much = known.too_much;
        let Made { setup, plain } = match self.factorize_planned(&plan, &known, hope) {
            Err(error) if plan.aggregates_unasked() && error.is_too_much() => {
                too_much = true;
                plan = plan_for(&self.inspection, false)?;
                self.factorize_planned(&plan, &known, (false, None))?
            }
            other => other?,
        };
        let mut found_plain = known.plain;
        found_plain[usize::from(self.inspection.components.singular() > 0)] |= plain;
        self.found = Found {
            asked,
            double: known.double || plan.storage != Storage::F64 && setup.storage == Storage::F64,
            plain: found_plain,
            slow: known.slow,
            too_much,
            stagnates,
            futile: known.futile,
        };
        self.last = Some(Last { asked, look, setup });
        let went_without = too_much && !known.too_much;
        self.done = Done { prediction, went_without, ..self.tell(&setup, plan.positive) };
        Ok(())
    }

    /// Factorizes as planned, by what is known of matrices before it. `hope`: whether the matrix was hoped to be like
    /// the last one, and how it is factorized then.
    fn factorize_planned(&mut self, plan: &Plan, known: &Found, hope: (bool, Option<Setup>)) -> Result<Made> {
        let singular = usize::from(self.inspection.components.singular() > 0);
        let mut setup = plan.setup(
            if known.double { Storage::F64 } else { plan.storage },
            if known.plain[singular] { plan.plain() } else { plan.cycle },
        )?;
        if hope.1 != Some(setup) {
            self.factorize_by(plan, &mut setup)?;
            if hope.0 {
                self.doubts = DOUBTS;
            }
        }
        // An early end says nothing of other matrices, and its levels are few already.
        let Report { levels, kind, .. } = self.backend.report();
        let ended = levels.is_some_and(|levels| levels < setup.levels);
        if setup.cycle.kind.is_none() && kind == Kind::V && !ended {
            // The V-cycle is best with its own levels, which are fewer.
            setup = plan.setup(setup.storage, plan.plain())?;
            self.factorize_by(plan, &mut setup)?;
        }
        // Of what was tried alone: a matrix that leaves no choice says nothing of others.
        let plain = plan.cycle.kind.is_none() && self.backend.report().kind == Kind::V && !ended;
        Ok(Made { setup, plain })
    }

    /// Factorizes by `setup`; in `f64` where a pivot is lost in a short format and the choice is ours.
    fn factorize_by(&mut self, plan: &Plan, setup: &mut Setup) -> Result<()> {
        let components = &self.inspection.components;
        match self.backend.factorize(plan.a, setup, components) {
            // Told by its status: another rank may have found it.
            Err(error) if error.status() == RRB_ERR_MATRIX && plan.automatic() && setup.storage != Storage::F64 => {
                *setup = plan.setup(Storage::F64, setup.cycle)?;
                self.backend.factorize(plan.a, setup, components)
            }
            other => other,
        }
    }

    fn tell(&self, setup: &Setup, positive: usize) -> Done {
        let (components, report) = (&self.inspection.components, self.backend.report());
        Done {
            levels: report.levels.unwrap_or(setup.levels),
            components: components.count,
            singular_components: components.singular(),
            compensated_couplings: positive,
            aggregates_kept: report.aggregates_kept,
            precision: match setup.storage {
                Storage::F64 => Precision::F64,
                Storage::F32 => Precision::F32,
                Storage::Bf16 if setup.single => Precision::Mixed,
                Storage::Bf16 => Precision::Bf16,
            },
            cycle: cycle_of(&report),
            prediction: None,
            went_without: false,
        }
    }

    /// A solve has gone over to aggregation.
    fn tell_change(&mut self) {
        let Some(Last { setup, .. }) = &self.last else { return };
        self.done.levels = self.backend.report().levels.unwrap_or(setup.levels);
        self.done.compensated_couplings = 0;
        self.done.precision = match setup.aggregation {
            Aggregation::IfSlow(Storage::F64) => Precision::F64,
            _ => Precision::F32,
        };
    }

    /// Couplings of the last matrix that point out of the grid, which `a` is.
    pub fn outward(&mut self, a: &StencilView) -> Result<Outward> {
        self.backend.outward(a)
    }

    /// Output from input: solves A x = b to the tolerance of `options`, or applies M^-1 or A on the whole grid.
    pub fn call(
        &mut self,
        what: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        if what == Function::Solve {
            return self.solve_around(arrays, options, observer, &|s, text| text(s));
        }
        let control = Control::new(options, seen(&self.inspection), false, false, arrays.len);
        self.backend.run(arrays, observer, &|s| what.run(s, &control))
    }

    /// Solves over ranks, where CG in single precision that stagnates goes on in double. `a`: the rows of the matrix
    /// that this rank brought; none where it has all of them alone, in its factorization.
    pub fn solve_over_ranks(
        &mut self,
        mut arrays: Arrays,
        a: Option<&StencilView>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let first = self.call(Function::Solve, arrays.again(), options, observer)?;
        let chosen = options.is(opt::PRECISION, Precision::Auto) && self.backend.shares_grids();
        let stagnates = self.done.precision == Precision::Mixed && first.reason == StopReason::Stagnated;
        let may_go_on = !self.found.futile && (first.iterations as i64) < options.int(opt::MAX_ITER);
        if !(chosen && stagnates && may_go_on) {
            return Ok(first);
        }
        match self.widen(a) {
            Err(error) if error.status() == RRB_ERR_COMMUNICATION => return Err(error),
            // The caller has the x that there was; where the factorization is lost, the next call tells.
            Err(_) => return Ok(first),
            Ok(()) => {
                observer.see(Event::Widened(first.iterations));
            }
        }
        let second = match self.run(arrays, options, observer, Some(first), &|s, text| text(s)) {
            Err(Error::Breakdown { quantity, iteration, .. }) => {
                Outcome { iterations: done_before(quantity, iteration), ..first }
            }
            other => other?,
        };
        if second.reason == StopReason::Stagnated && second.final_residual > 0.5 * first.final_residual {
            // That was rounding of the system itself.
            (self.found.stagnates, self.found.futile) = (false, true);
        }
        Ok(Outcome { initial_residual: first.initial_residual, ..second })
    }

    /// Factorizes the last matrix anew, for CG in double precision.
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
        let setup = Setup { single: false, ..last.setup };
        // Its memory first.
        self.last = None;
        self.backend.release();
        self.backend.factorize(a, &setup, &self.inspection.components)?;
        self.last = Some(Last { setup, ..last });
        self.found.stagnates = true;
        self.done = self.tell(&setup, self.done.compensated_couplings);
        Ok(())
    }

    /// A call has lost the factorization.
    pub fn is_lost(&self) -> bool {
        self.last.is_none()
    }

    /// Solves with `around` between the steps and the text that uses them.
    pub fn solve_around(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        around: Around,
    ) -> Result<Outcome> {
        self.run(arrays, options, observer, None, around)
    }

    /// `before`: a solve that this one goes on from.
    fn run(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        before: Option<Outcome>,
        around: Around,
    ) -> Result<Outcome> {
        let short = self.done.precision != Precision::F64;
        let definite = matches!(self.done.cycle, options::Cycle::V | options::Cycle::Aggregation);
        let control = Control { before, ..Control::new(options, seen(&self.inspection), short, definite, arrays.len) };
        let outcome = self.backend.run(arrays, observer, &|s| around(s, &|s| Function::Solve.run(s, &control)));
        let before = std::mem::replace(&mut self.done.cycle, cycle_of(&self.backend.report()));
        if self.done.cycle == options::Cycle::Aggregation && before != self.done.cycle {
            self.found.slow = true;
            self.tell_change();
        }
        outcome
    }

    /// r1/r2/b1/b2 grids in use.
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

fn seen(inspection: &Inspection) -> Seen<'_> {
    let Inspection { components, findings, .. } = inspection;
    Seen { center_max: findings.center_max, singular: components.singular(), places: components }
}

impl Places for Components {
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
