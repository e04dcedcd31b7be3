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

pub use plan::{FactorizationResults, choose_machine};

use crate::base::engine::Engine;
use crate::base::machine::{Core, Machine};
use crate::deflation::regions::RegionCounts;
use crate::dpcg::backend::DpcgBackend;
use crate::dpcg::survey::Survey;
use crate::error::{Location, Result};
use crate::krylov::solve::{Control, Function, Locations, MatrixProperties};
use crate::krylov::solve_steps::Arrays;
use crate::options::{Choice, Options, info, opt};
use crate::report::{Observer, Outcome};
use crate::stencil::cell_inspection::cell_place;
use crate::stencil::cells::{CellView, Cells};
use crate::stencil::outward::OutwardCouplings;
use plan::{Plan, Timings};
use std::time::Instant;

/// A factorized matrix.
pub struct Dpcg {
    backend: Box<dyn DpcgBackend>,
    machine: Machine,
    cells: Cells,
    /// Largest diagonal entry.
    center_max: f64,
    /// First cell of each singular component; empty with `null_space=none`.
    singular_first_cells: Vec<usize>,
    /// Results of the last factorization, and times of the last solve.
    pub results: FactorizationResults,
}

/// Function that creates a backend. The entry points pass it, so that no other module names a concrete backend.
pub type MakeBackend = fn(Machine) -> Result<Box<dyn DpcgBackend>>;

impl Dpcg {
    /// Factorizes `a`; reuses the memory of `previous` where it fits. `labels` contains the caller's label of each
    /// cell. `stream` is the caller's stream on a device, or 0. `make_backend` creates the backend if `previous` has
    /// none for this machine.
    pub fn factorize(
        previous: Option<Self>,
        a: &CellView,
        labels: Option<&[i32]>,
        options: &Options,
        machine: Machine,
        stream: usize,
        make_backend: MakeBackend,
    ) -> Result<Self> {
        // If `previous` is for another machine, `filter` frees it before a new backend is created.
        let mut dpcg = match previous.filter(|dpcg| dpcg.machine == machine) {
            Some(dpcg) => dpcg,
            None => {
                let (backend, results) = (make_backend(machine)?, FactorizationResults::default());
                Self { backend, machine, cells: a.cells, center_max: 0.0, singular_first_cells: Vec::new(), results }
            }
        };
        dpcg.backend.use_stream(stream)?;
        dpcg.factorize_with_options(a, labels, options)?;
        Ok(dpcg)
    }

    fn factorize_with_options(&mut self, a: &CellView, labels: Option<&[i32]>, options: &Options) -> Result<()> {
        self.cells = a.cells;
        self.center_max = self.backend.load(a, options.is_on(opt::CHECK_INPUT))?;
        let started = Instant::now();
        let mut survey = self.backend.survey(plan::zero_row_sum_tolerance(options))?;
        plan::check_null_space(&survey, options)?;
        let plan = Plan::new(self.cells, options, self.machine, &survey, labels.is_some())?;
        match self.factorize_planned(&plan, &mut survey, labels, started) {
            // If the memory is insufficient for aggregation, the factorization is repeated with multigrid, which needs
            // a third of this memory.
            Err(error) if plan.aggregates_automatically() && error.is_out_of_memory_or_unsupported() => {
                let plan = plan.without_aggregates(&survey, labels.is_some());
                let result = self.factorize_planned(&plan, &mut survey, labels, started);
                self.results.lacked_aggregation_memory = true;
                result
            }
            result => result,
        }
    }

    fn factorize_planned(
        &mut self,
        plan: &Plan,
        survey: &mut Survey,
        labels: Option<&[i32]>,
        started: Instant,
    ) -> Result<()> {
        let RegionCounts { vector_count, region_count } = match plan.region_choice(labels) {
            Some(choice) => self.backend.find_regions(&choice)?,
            None => RegionCounts::default(),
        };
        if plan.skips_projection() {
            survey.singular_first_cells.clear();
        }
        self.results = FactorizationResults {
            deflation_vector_count: vector_count,
            region_count: if vector_count > 0 { region_count } else { 0 },
            strong_group_count: survey.strong_group_count,
            component_count: survey.component_count,
            singular_component_count: survey.singular_first_cells.len(),
            neumann_row_sum: survey.neumann_row_sum,
            timings: Timings { deflation_setup_seconds: started.elapsed().as_secs_f64(), ..Timings::default() },
            ..plan.planned_results(vector_count)
        };
        if let Some(solver) = self.backend.factorize(&plan.setup(vector_count))? {
            self.results.coarse_solver = plan::coarse_solver_option(solver);
        }
        self.results.timings.deflation_setup_seconds += self.backend.coarse_setup_seconds();
        self.results.reused_aggregate_count = self.backend.reused_aggregate_count();
        self.singular_first_cells = std::mem::take(&mut survey.singular_first_cells);
        Ok(())
    }

    /// Counts the nonzero couplings that point out of the box, and returns the first of them. `a` must be the matrix
    /// that was loaded last.
    pub fn find_outward_couplings(&mut self, a: &CellView) -> Result<OutwardCouplings> {
        self.backend.find_outward_couplings(a)
    }

    /// Computes the output array of `arrays` from the input array: solves A x = b to the tolerance of `options`, or
    /// applies M^-1 or A. With deflation, P^T M^-1 P + Z E^-1 Z^T is applied instead of M^-1. This operator is
    /// symmetric and positive definite if M is a fixed matrix.
    pub fn run_function(
        &mut self,
        function: Function,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Outcome> {
        let started = Instant::now();
        let locations = CellLocations { cells: self.cells, singular_first_cells: &self.singular_first_cells };
        let matrix = MatrixProperties {
            center_max: self.center_max,
            singular_component_count: self.singular_first_cells.len(),
            locations: &locations,
        };
        let control = Control::new(options, matrix, false, true, arrays.len);
        let outcome = self.backend.run(arrays, observer, &|steps| function.run(steps, &control));
        if function == Function::Solve {
            let timings = &mut self.results.timings;
            timings.coarse_solve_seconds = self.backend.coarse_solve_seconds();
            timings.iteration_seconds = started.elapsed().as_secs_f64() - timings.coarse_solve_seconds;
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

    fn other_host_bytes(&self) -> usize {
        size_of::<usize>() * self.singular_first_cells.capacity()
    }

    fn names_in_use(&self) -> [&'static str; 2] {
        [self.results.preconditioner.name(), self.results.deflation.name()]
    }

    fn result(&self, key: i32) -> f64 {
        let results = &self.results;
        match key {
            info::PRECISION => results.precision.number() as f64,
            info::COMPONENTS => results.component_count as f64,
            info::AGGREGATES_KEPT => results.reused_aggregate_count as f64,
            info::SINGULAR_COMPONENTS => results.singular_component_count as f64,
            info::PRECONDITIONER => results.preconditioner.number() as f64,
            info::AUTO_REASON => results.reason.number() as f64,
            info::DEFLATION => results.deflation.number() as f64,
            info::COARSENING => results.coarsening.number() as f64,
            info::COARSE_SOLVER => results.coarse_solver.number() as f64,
            info::DEFLATION_VECTORS => results.deflation_vector_count as f64,
            info::REGIONS => results.region_count as f64,
            info::STRONG_COMPONENTS => results.strong_group_count as f64,
            info::NEUMANN_ROW_SUM => results.neumann_row_sum,
            info::SECONDS_DEFLATION => results.timings.deflation_setup_seconds,
            info::SECONDS_COARSE => results.timings.coarse_solve_seconds,
            info::SECONDS_ITERATIONS => results.timings.iteration_seconds,
            _ => 0.0,
        }
    }
}

/// Positions of cells and of singular components, for error messages.
struct CellLocations<'a> {
    cells: Cells,
    /// First cell of each singular component.
    singular_first_cells: &'a [usize],
}

impl Locations for CellLocations<'_> {
    fn node(&self, i: usize, row: usize) -> Location {
        cell_place(self.cells, i, row)
    }

    fn component(&self, component: usize) -> Location {
        let cell = self.singular_first_cells[component];
        cell_place(self.cells, cell % self.cells.nx, cell / self.cells.nx)
    }
}
