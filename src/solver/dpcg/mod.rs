//! Deflated PCG on boxes of cells, for one matrix: its factorization. What is chosen for it is in `plan`; what a solve
//! does then is `solver/solve`, on P A x^ = P b with P = I - A Z E^-1 Z^T, E = Z^T A Z.

mod plan;

pub use plan::{Done, machine};

use crate::backend::steps::dpcg::DpcgBackend;
use crate::backend::steps::solve::{Arrays, SolveSteps};
use crate::error::{Place, Result};
use crate::grid::cell_components::CellComponents;
use crate::grid::cell_inspection::{CellInspection, place};
use crate::grid::cells::{CellView, Cells};
use crate::grid::outward::Outward;
use crate::grid::regions::Regions;
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
    /// What was seen of the matrix.
    inspection: CellInspection,
    components: CellComponents,
    /// Of a matrix that was on a device, what points out of the box.
    outward: Option<Outward>,
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
                    inspection: CellInspection::default(),
                    components: CellComponents::default(),
                    outward: None,
                    done: Done::default(),
                }
            }
        };
        dpcg.backend.use_stream(stream)?;
        dpcg.factorize_as_asked(a, labels, options)?;
        Ok(dpcg)
    }

    fn factorize_as_asked(&mut self, a: &CellView, labels: Option<&[i32]>, options: &Options) -> Result<()> {
        let fetched = self.backend.fetch(a)?;
        let on_host = fetched.as_ref().map(|fetched| fetched.view(a));
        self.outward = on_host.as_ref().map(Outward::of_cells);
        let a = on_host.as_ref().unwrap_or(a);
        self.inspection = CellInspection::of(a, options.on(opt::CHECK_INPUT))?;
        self.cells = a.cells;
        self.backend.load(a)?;
        if let Some(fetched) = fetched {
            self.backend.take_back(fetched);
        }
        let started = Instant::now();
        let strong;
        (self.components, strong) = self.backend.find_components(plan::zero_row_sum(options))?;
        plan::heed_null_space(&mut self.components, options)?;
        let matrix = self.backend.matrix();
        let plan = Plan::new(&matrix, options, self.machine, &strong, labels.is_some())?;
        let regions = match plan.choice(labels) {
            Some(choice) => Some(Regions::find(&matrix, &self.components, &strong, &choice)?),
            None => None,
        };
        let regions = regions.filter(|regions| regions.count > 0);
        let vectors = regions.as_ref().map_or(0, |regions| regions.count);
        let setup = plan.setup(vectors);
        let seconds = Seconds { deflation: started.elapsed().as_secs_f64(), ..Seconds::default() };
        let (strong, found) = (strong.count(), regions.as_ref().map_or(0, |regions| regions.found));
        self.done = Done {
            vectors,
            regions: found,
            strong,
            components: self.components.count(),
            singular_components: self.components.singular_count(),
            row_sum: self.inspection.row_sum,
            seconds,
            ..plan.told(vectors)
        };
        if let Some(solver) = self.backend.factorize(&setup, &self.components, regions.as_ref())? {
            self.done.coarse_solver = plan::coarse_solver_of(solver);
        }
        self.done.seconds.deflation += self.backend.seconds_of_e();
        Ok(())
    }

    /// Couplings of the matrix that point out of the box.
    pub fn outward(&mut self, a: &CellView) -> Result<Outward> {
        Ok(self.outward.unwrap_or_else(|| Outward::of_cells(a)))
    }

    /// Runs a text of a solve.
    fn run(
        &mut self,
        arrays: Arrays,
        options: &Options,
        observer: &mut dyn Observer,
        text: impl Fn(&mut dyn SolveSteps, &Control) -> Result<Outcome> + Sync,
    ) -> Result<Outcome> {
        let places = CellPlaces { cells: self.cells, components: &self.components };
        let (center_max, singular) = (self.inspection.center_max, self.components.singular_count());
        let seen = Seen { center_max, singular, places: &places };
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
        self.backend.bytes() + self.components.bytes()
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
    components: &'a CellComponents,
}

impl Places for CellPlaces<'_> {
    fn node(&self, i: usize, row: usize) -> Place {
        place(self.cells, i, row)
    }

    fn component(&self, component: usize) -> Place {
        let singular = self.components.singular.iter().enumerate().filter(|(_, singular)| **singular);
        let number = singular.map(|(c, _)| c).nth(component);
        let first = (0..self.cells.rows()).find_map(|row| {
            let of = |(columns, c): (std::ops::Range<usize>, Option<usize>)| (c == number).then_some(columns.start);
            self.components.runs(row).find_map(of).map(|i| (i, row))
        });
        let (i, row) = first.unwrap_or_default();
        place(self.cells, i, row)
    }
}
