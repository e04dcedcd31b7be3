//! Deflated PCG on boxes of cells: factorization of a matrix, and calls that use the factorization. `plan` selects the
//! methods. `krylov/solve` then solves P A x^ = P b with P = I - A Z E^-1 Z^T and E = Z^T A Z. Without deflation, P is
//! the identity.

pub mod backend;
pub mod cell_grids;
pub mod cpu;
pub mod cuda;
pub mod entries;
mod plan;
pub mod setup;
pub mod survey;

pub use plan::{FactorizationResults, machine};

use crate::base::engine::Engine;
use crate::base::machine::{Core, Machine};
use crate::deflation::regions::RegionCounts;
use crate::dpcg::backend::DpcgBackend;
use crate::dpcg::survey::Survey;
use crate::error::{Place, Result};
use crate::krylov::solve::{Control, Function, Locations, MatrixProperties};
use crate::krylov::solve_steps::Arrays;
use crate::options::{Choice, Options, info, opt};
use crate::report::{Observer, Outcome};
use crate::stencil::cell_inspection::place;
use crate::stencil::cells::{CellView, Cells};
use crate::stencil::outward::Outward;
use plan::{Plan, Seconds};
use std::time::Instant;

/// A factorized matrix.
pub struct Dpcg {
    backend: Box<dyn DpcgBackend>,
    machine: Machine,
    cells: Cells,
    /// Largest diagonal entry.
    center_max: f64,
    /// First cell of each singular component; empty with `null_space=none`.
    singular: Vec<usize>,
    /// Results of the last factorization, and times of the last solve.
    pub done: FactorizationResults,
}

/// Function that creates a backend. The entry points pass it, so that no other module names a concrete backend.
pub type MakeBackend = fn(Machine) -> Result<Box<dyn DpcgBackend>>;

impl Dpcg {
    /// Factorizes `a`; reuses the memory of `previous` where it fits. `labels` contains the caller's label of each
    /// cell. `stream` is the caller's stream on a device, or 0. `make` creates the backend if `previous` has none for
    /// this machine.
    pub fn factorize(
        previous: Option<Self>,
        a: &CellView,
        labels: Option<&[i32]>,
        options: &Options,
        machine: Machine,
        stream: usize,
        make: MakeBackend,
    ) -> Result<Self> {
        // If `previous` is for another machine, `filter` frees it before a new backend is created.
        let mut dpcg = match previous.filter(|dpcg| dpcg.machine == machine) {
            Some(dpcg) => dpcg,
            None => {
                let (backend, done) = (make(machine)?, FactorizationResults::default());
                Self { backend, machine, cells: a.cells, center_max: 0.0, singular: Vec::new(), done }
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
            // If the memory is insufficient for aggregation, the factorization is repeated with multigrid, which needs
            // a third of this memory.
            Err(error) if plan.aggregates_automatically() && error.is_out_of_memory_or_unsupported() => {
                let plan = plan.without_aggregates(&survey, labels.is_some());
                let made = self.factorize_planned(&plan, &mut survey, labels, started);
                self.done.lacked_memory = true;
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
        let RegionCounts { vectors, found } = match plan.choice(labels) {
            Some(choice) => self.backend.find_regions(&choice)?,
            None => RegionCounts::default(),
        };
        if plan.skips_projection() {
            survey.singular.clear();
        }
        self.done = FactorizationResults {
            vectors,
            regions: if vectors > 0 { found } else { 0 },
            strong: survey.strong,
            components: survey.components,
            singular_components: survey.singular.len(),
            row_sum: survey.row_sum,
            seconds: Seconds { deflation: started.elapsed().as_secs_f64(), ..Seconds::default() },
            ..plan.planned_results(vectors)
        };
        if let Some(solver) = self.backend.factorize(&plan.setup(vectors))? {
            self.done.coarse_solver = plan::coarse_solver_of(solver);
        }
        self.done.seconds.deflation += self.backend.seconds_of_e();
        self.done.aggregates_kept = self.backend.aggregates_kept();
        self.singular = std::mem::take(&mut survey.singular);
        Ok(())
    }

    /// Counts the nonzero couplings that point out of the box, and returns the first of them. `a` must be the matrix
    /// that was loaded last.
    pub fn outward(&mut self, a: &CellView) -> Result<Outward> {
        self.backend.outward(a)
    }

    /// Computes output from input: solves A x = b to the tolerance of `options`, or applies M^-1 or A. With deflation,
    /// P^T M^-1 P + Z E^-1 Z^T is applied instead of M^-1. This operator is symmetric and positive definite if M is a
    /// fixed matrix.
    pub fn call(
        &mut self,
        what: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let started = Instant::now();
        let places = CellPlaces { cells: self.cells, singular: &self.singular };
        let matrix =
            MatrixProperties { center_max: self.center_max, singular: self.singular.len(), locations: &places };
        let control = Control::new(options, matrix, false, true, arrays.len);
        let outcome = self.backend.run(arrays, observer, &|s| what.run(s, &control));
        if what == Function::Solve {
            let seconds = &mut self.done.seconds;
            seconds.coarse = self.backend.seconds_coarse();
            seconds.iterations = started.elapsed().as_secs_f64() - seconds.coarse;
        }
        outcome
    }
}

impl Core for Dpcg {
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
        size_of::<usize>() * self.singular.capacity()
    }

    fn in_use(&self) -> [&'static str; 2] {
        [self.done.preconditioner.name(), self.done.deflation.name()]
    }

    fn result(&self, key: i32) -> f64 {
        let done = &self.done;
        match key {
            info::PRECISION => done.precision.number() as f64,
            info::COMPONENTS => done.components as f64,
            info::AGGREGATES_KEPT => done.aggregates_kept as f64,
            info::SINGULAR_COMPONENTS => done.singular_components as f64,
            info::PRECONDITIONER => done.preconditioner.number() as f64,
            info::AUTO_REASON => done.reason.number() as f64,
            info::DEFLATION => done.deflation.number() as f64,
            info::COARSENING => done.coarsening.number() as f64,
            info::COARSE_SOLVER => done.coarse_solver.number() as f64,
            info::DEFLATION_VECTORS => done.vectors as f64,
            info::REGIONS => done.regions as f64,
            info::STRONG_COMPONENTS => done.strong as f64,
            info::NEUMANN_ROW_SUM => done.row_sum,
            info::SECONDS_DEFLATION => done.seconds.deflation,
            info::SECONDS_COARSE => done.seconds.coarse,
            info::SECONDS_ITERATIONS => done.seconds.iterations,
            _ => 0.0,
        }
    }
}

/// Positions of cells and of singular components, for error messages.
struct CellPlaces<'a> {
    cells: Cells,
    /// First cell of each singular component.
    singular: &'a [usize],
}

impl Locations for CellPlaces<'_> {
    fn node(&self, i: usize, row: usize) -> Place {
        place(self.cells, i, row)
    }

    fn component(&self, component: usize) -> Place {
        let cell = self.singular[component];
        place(self.cells, cell % self.cells.nx, cell / self.cells.nx)
    }
}
