//! Deflated PCG on boxes of cells, for one matrix: its factorization. What is chosen for it is in `plan`; what a solve
//! does then is `solver/solve`, on P A x^ = P b with P = I - A Z E^-1 Z^T, E = Z^T A Z.

mod plan;

pub use plan::{Done, machine};

use crate::backend::steps::dpcg::DpcgBackend;
use crate::backend::steps::solve::{Arrays, SolveSteps};
use crate::error::{Place, Result};
use crate::grid::cell_inspection::place;
use crate::grid::cell_survey::Survey;
use crate::grid::cells::{CellView, Cells};
use crate::grid::outward::Outward;
use crate::grid::regions::RegionCount;
use crate::options::{Options, opt};
use crate::report::{Observer, Outcome};
use crate::solver::machine::{Core, Machine};
use crate::solver::solve::{Control, Places, Seen, apply, multiply, solve};
use plan::{Plan, Seconds};
use std::time::Instant;

/// A factorized matrix.
pub struct Dpcg {
    backend: Box<dyn DpcgBackend>,
    machine: Machine,
    cells: Cells,
    /// The largest center.
    center_max: f64,
    /// The first cell of each singular component.
    singular: Vec<usize>,
    /// What the last factorize did.
    pub done: Done,
}

/// Makes a backend: the one place where a concrete one is named, handed in by the boundary.
pub type MakeBackend = fn(Machine) -> Result<Box<dyn DpcgBackend>>;

impl Dpcg {
    /// Factorizes `a`; `previous` gives its memory back where it fits. `labels`: the caller's regions.
    pub fn factorize(
        previous: Option<Self>,
        a: &CellView,
        labels: Option<&[i32]>,
        options: &Options,
        machine: Machine,
        stream: usize,
        make: MakeBackend,
    ) -> Result<Self> {
        let mut dpcg = match previous {
            Some(dpcg) if dpcg.machine == machine => dpcg,
            other => {
                // Its memory first.
                drop(other);
                Self {
                    backend: make(machine)?,
                    machine,
                    cells: a.cells,
                    center_max: 0.0,
                    singular: Vec::new(),
                    done: Done::default(),
                }
            }
        };
        dpcg.backend.use_stream(stream)?;
        dpcg.factorize_as_asked(a, labels, options)?;
        Ok(dpcg)
    }

    fn factorize_as_asked(&mut self, a: &CellView, labels: Option<&[i32]>, options: &Options) -> Result<()> {
        self.cells = a.cells;
        self.center_max = self.backend.load(a, options.on(opt::CHECK_INPUT))?;
        let started = Instant::now();
        let mut survey = self.backend.survey(plan::zero_row_sum(options))?;
        plan::check_null_space(&survey, options)?;
        let plan = Plan::new(self.cells, options, self.machine, &survey, labels.is_some())?;
        match self.factorize_planned(&plan, &mut survey, labels, started) {
            // Multigrid takes a third of their memory.
            Err(error) if plan.aggregates_unasked() && error.is_too_much() => {
                let plan = plan.without_aggregates(&survey, labels.is_some());
                let made = self.factorize_planned(&plan, &mut survey, labels, started);
                self.done.went_without = true;
                made
            }
            other => other,
        }
    }

    fn factorize_planned(
        &mut self,
        plan: &Plan,
        survey: &mut Survey,
        labels: Option<&[i32]>,
        started: Instant,
    ) -> Result<()> {
        let RegionCount { vectors, found } = match plan.choice(labels) {
            Some(choice) => self.backend.find_regions(&choice)?,
            None => RegionCount::default(),
        };
        if plan.leaves_singular() {
            survey.singular.clear();
        }
        self.done = Done {
            vectors,
            regions: if vectors > 0 { found } else { 0 },
            strong: survey.strong,
            components: survey.components,
            singular_components: survey.singular.len(),
            row_sum: survey.row_sum,
            seconds: Seconds { deflation: started.elapsed().as_secs_f64(), ..Seconds::default() },
            ..plan.told(vectors)
        };
        if let Some(solver) = self.backend.factorize(&plan.setup(vectors))? {
            self.done.coarse_solver = plan::coarse_solver_of(solver);
        }
        self.done.seconds.deflation += self.backend.seconds_of_e();
        self.done.aggregates_kept = self.backend.aggregates_kept();
        self.singular = std::mem::take(&mut survey.singular);
        Ok(())
    }

    /// Couplings of the matrix that point out of the box.
    pub fn outward(&mut self, a: &CellView) -> Result<Outward> {
        self.backend.outward(a)
    }

    /// Runs a text of a solve.
    fn run(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        text: impl Fn(&mut dyn SolveSteps, &Control) -> Result<Outcome> + Sync,
    ) -> Result<Outcome> {
        let places = CellPlaces { cells: self.cells, singular: &self.singular };
        let seen = Seen { center_max: self.center_max, singular: self.singular.len(), places: &places };
        let control = Control::new(options, seen, false, true, arrays.len);
        self.backend.run(arrays, observer, &|s| text(s, &control))
    }

    /// Solves A x = b to the tolerance of `options`.
    pub fn solve(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<Outcome> {
        let started = Instant::now();
        let outcome = self.run(arrays, options, observer, solve);
        let seconds = &mut self.done.seconds;
        seconds.coarse = self.backend.seconds_coarse();
        seconds.iterations = started.elapsed().as_secs_f64() - seconds.coarse;
        outcome
    }

    /// z = M^-1 r: output from input. With deflation P^T M^-1 P + Z E^-1 Z^T, which is symmetric and positive.
    pub fn apply(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<()> {
        self.run(arrays, options, observer, apply).map(drop)
    }

    /// y = A x: output from input.
    pub fn multiply(&mut self, arrays: Arrays, options: &Options, observer: &mut dyn Observer) -> Result<()> {
        self.run(arrays, options, observer, multiply).map(drop)
    }
}

impl Core for Dpcg {
    fn machine(&self) -> Machine {
        self.machine
    }

    fn device(&self) -> Option<i32> {
        self.backend.device()
    }

    fn threads(&self) -> usize {
        self.backend.threads()
    }

    fn bytes(&self) -> usize {
        self.backend.bytes() + size_of::<usize>() * self.singular.capacity()
    }

    fn device_bytes(&self) -> usize {
        self.backend.device_bytes()
    }

    fn seconds_transfer(&self) -> f64 {
        self.backend.seconds_transfer()
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.backend.use_stream(stream)
    }
}

/// Where cells and singular components lie.
struct CellPlaces<'a> {
    cells: Cells,
    /// First cells.
    singular: &'a [usize],
}

impl Places for CellPlaces<'_> {
    fn node(&self, i: usize, row: usize) -> Place {
        place(self.cells, i, row)
    }

    fn component(&self, component: usize) -> Place {
        let cell = self.singular[component];
        place(self.cells, cell % self.cells.nx, cell / self.cells.nx)
    }
}
