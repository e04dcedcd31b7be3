//! Deflated PCG on a CUDA device (docs/theory/dpcg.md). Arrays are in natural order with zeros before and after them.
//!
//! Each module may import the modules named before it in this list. `dense` inverts matrices. `source` stores A, and
//! `components` finds its connected components. `survey` inspects A. `regions` and `deflation` implement the deflation.
//! `multigrid`, `coarsening`, `vertex`, `cell_grids`, `cell` and `aggregated` implement the preconditioners. `state`
//! holds the data of a factorization. `fused` executes an iteration in few passes. `run` implements the steps of PCG
//! and its loop. `solve` implements the start and the end of a solve.

mod aggregated;
mod cell;
mod cell_grids;
mod coarsening;
mod components;
mod deflation;
mod dense;
mod fused;
mod multigrid;
mod regions;
mod run;
pub mod solve;
mod source;
mod state;
mod survey;
mod vertex;

use crate::base::engine::Engine;
use crate::base::team::Team;
use crate::cuda::driver::Memory;
use crate::cuda::launch;
use crate::cuda::launch::{CellArray, CellFindings};
use crate::cuda::session::Session;
use crate::deflation::Solver;
use crate::deflation::regions::{Choice, RegionCounts, Regions};
use crate::dpcg::backend::{DpcgBackend, Setup};
use crate::dpcg::survey::Survey;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::stencil::cell_inspection::InspectedRows;
use crate::stencil::cells::{CellView, Cells, SevenPoints, StoredMatrix, Values};
use crate::stencil::outward::{Entry, Outward};
use deflation::Deflation;
use run::{Rhs, Run};
use source::DeviceMatrix;
use state::{Multigrid, State};
use std::cell::OnceCell;
use survey::{FactorizationInput, Surveyor, on_host};

/// The `cuda` backend.
pub struct Cuda {
    // The fields are dropped in this order, so that device memory is freed before the device is closed.
    state: Option<State>,
    source: Option<DeviceMatrix>,
    /// Device buffers for an input array and an output array that are in host memory.
    staging: Option<Memory>,
    surveyor: Option<Surveyor>,
    /// Host copy of the matrix. It is created when it is needed, and dropped by `load` and `factorize`.
    host_matrix: OnceCell<StoredMatrix>,
    /// Thread team for work on the host copy.
    team: Option<Team>,
    /// Counts of the couplings that point out of the box, and the first of them.
    outward: Outward,
    /// Deflation regions that `find_regions` has found for the next `factorize`; `None` without deflation.
    regions: Option<Regions>,
    threads: usize,
    session: Session,
}

/// Minimum number of cells for which several CPU threads inspect a matrix.
const MIN_TEAM_CELLS: usize = 16_384;

impl Cuda {
    /// Opens the device number `ordinal`. At most `threads` CPU threads copy host arrays and inspect the matrix.
    pub fn new(ordinal: i64, threads: usize) -> Result<Self> {
        Ok(Self::with(Session::open(ordinal, &launch::DPCG, threads)?, threads))
    }

    fn with(session: Session, threads: usize) -> Self {
        Self {
            state: None,
            source: None,
            staging: None,
            surveyor: None,
            host_matrix: OnceCell::new(),
            team: None,
            outward: Outward::default(),
            regions: None,
            threads,
            session,
        }
    }

    /// Starts the thread team for the inspection on the host.
    fn make_team(&mut self, cells: Cells) -> Result<()> {
        let threads = if cells.count() < MIN_TEAM_CELLS { 1 } else { self.threads.clamp(1, cells.rows()) };
        Team::sized(&mut self.team, threads).map(|_| ())
    }

    /// Returns the counts of couplings that point out of the box, and the first such coupling. `input` contains the
    /// device addresses of the arrays of `a`, and `seen` is the result of their inspection.
    fn outward_of(&self, a: &CellView, input: &[CellArray; 4], seen: &CellFindings) -> Result<Outward> {
        let counts = seen.outward.map(|count| count as usize);
        if seen.first_outward == u64::MAX {
            return Ok(Outward::in_cells(counts, None));
        }
        let (nx, ny) = (a.cells.nx, a.cells.ny);
        let (i, line) = (seen.first_outward as usize % nx, seen.first_outward as usize / nx);
        let (row, array) = (line / 3, line % 3);
        let (j, k) = (row % ny, row / ny);
        let mut value = [0.0];
        if a.forward[array].device_address().is_some() {
            let from = input[array + 1];
            let place = k as u64 * from.plane as u64 + j as u64 * from.ld as u64 + i as u64;
            let stream = self.session.stream();
            stream.fetch(&mut value, from.values + 8 * place)?;
            stream.wait()?;
        } else {
            value[0] = a.forward[array].row(row)[i];
        }
        Ok(Outward::in_cells(counts, Some(Entry { array, value: value[0], i, j, k: Some(k) })))
    }
}

/// Returns the host copy of the matrix as a view with the caller's names and extents.
fn with_caller_names<'k>(a: &CellView, host_matrix: &SevenPoints<'k>) -> CellView<'k> {
    let of = |name, values| Values::new(name, values, a.cells, a.cells.nx, a.cells.plane());
    let forward = [0, 1, 2].map(|d| of(a.forward[d].name, host_matrix.forward[d]));
    CellView { cells: a.cells, center: of(a.center.name, host_matrix.center), forward }
}

fn nothing_loaded() -> Error {
    Error::Internal("the matrix on the device is missing".to_owned())
}

impl DpcgBackend for Cuda {
    fn load(&mut self, a: &CellView, finite: bool) -> Result<f64> {
        if let Some(session) = self.session.after_reset()? {
            *self = Self::with(session, self.threads);
        }
        let _entered = self.session.device.clone().enter()?;
        if self.source.as_ref().is_none_or(|source| source.extents != a.cells) {
            // The old memory is freed before new memory is allocated.
            (self.state, self.surveyor, self.source, self.staging) = (None, None, None, None);
            let source = self.source.insert(DeviceMatrix::new(self.session.stream(), a.cells)?);
            self.surveyor = Some(Surveyor::new(self.session.stream(), source)?);
        }
        self.make_team(a.cells)?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else { return Err(nothing_loaded()) };
        let (stream, copies, _) = self.session.parts();
        let input = source.device_arrays(stream, copies, a)?;
        let seen = *surveyor.copy_matrix(stream, input)?;
        self.host_matrix = OnceCell::new();
        self.outward = self.outward_of(a, &input, &seen)?;
        if seen.unusual == 0 {
            return Ok(f64::from_bits(seen.center_max));
        }
        // The matrix is inspected again on the host. This creates the error message, or returns the largest center if
        // `finite` permits the unusual entries.
        let stream = self.session.stream();
        let here = with_caller_names(a, &on_host(&self.host_matrix, source, stream)?);
        InspectedRows::center_max(&here, [InspectedRows::of(&here, finite, 0..a.cells.rows(), |_| {})])
    }

    fn outward(&self, _: &CellView) -> Result<Outward> {
        Ok(self.outward)
    }

    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey> {
        let _entered = self.session.device.clone().enter()?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else { return Err(nothing_loaded()) };
        self.regions = None;
        surveyor.survey(self.session.stream(), source, zero_row_sum)
    }

    fn find_regions(&mut self, choice: &Choice) -> Result<RegionCounts> {
        let _entered = self.session.device.clone().enter()?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else { return Err(nothing_loaded()) };
        let count;
        (count, self.regions) = surveyor.find_regions(self.session.stream(), source.extents, choice)?.with_counts();
        Ok(count)
    }

    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>> {
        let _entered = self.session.device.clone().enter()?;
        let previous = self.state.take();
        let (regions, host_matrix) = (self.regions.take(), self.host_matrix.take());
        let host_matrix = &host_matrix.map_or_else(OnceCell::new, OnceCell::from);
        let (Some(source), Some(surveyor), Some(team)) = (&self.source, &self.surveyor, &mut self.team) else {
            return Err(nothing_loaded());
        };
        let input = FactorizationInput { source, host_matrix, setup, surveyor, regions: regions.as_ref() };
        let mut state = State::new(self.session.stream(), &input, team, previous)?;
        state.record(&self.session.device, source)?;
        Ok(self.state.insert(state).deflation.as_ref().map(Deflation::solver))
    }

    fn seconds_of_e(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.seconds_of_e)
    }

    fn aggregates_kept(&self) -> usize {
        match self.state.as_ref().and_then(|state| state.multigrid.as_ref()) {
            Some(Multigrid::Aggregated(aggregated)) => aggregated.aggregates_kept(),
            _ => 0,
        }
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let _entered = self.session.device.clone().enter()?;
        let stream = self.session.stream();
        let (Some(k), Some(source)) = (&mut self.state, &self.source) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        let array = 8 * source.extents.count();
        let both_on_device = arrays.device_input != 0 && arrays.device_output != 0;
        if !both_on_device && self.staging.is_none() {
            self.staging = Some(Memory::zeroed(stream.device(), stream, 2 * array, "arrays that are on the host")?);
        }
        let staged = self.staging.as_ref().map_or(0, |memory| memory.address);
        k.seconds_coarse = 0.0;
        k.deflation.as_ref().map_or(Ok(()), |deflation| deflation.start_clock(stream))?;
        let call = self.session.call(arrays, observer, source.extents, [staged, staged + array as u64]);
        let mut run = Run { state: k, source, stream: call.stream, call, rhs: Rhs::default(), norm2: f64::NAN };
        let result = program(&mut run);
        let failed = run.call.failed.take();
        self.session.end_run(failed)?;
        let stream = self.session.stream();
        if let Some(deflation) = &k.deflation {
            k.seconds_coarse += deflation.seconds_on_device(stream)?;
        }
        if Outcome::may_leave_infinities(&result) {
            k.clear(stream)?;
            stream.wait()?;
        }
        result
    }

    fn seconds_coarse(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.seconds_coarse)
    }
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let coarse = self.state.as_ref().and_then(|state| state.deflation.as_ref()).map_or(0, |d| d.host_bytes());
        let device = self.source.as_ref().map_or(0, DeviceMatrix::bytes)
            + self.surveyor.as_ref().map_or(0, Surveyor::bytes)
            + self.staging.as_ref().map_or(0, |memory| memory.bytes)
            + self.state.as_ref().map_or(0, State::device_bytes);
        [self.host_matrix.get().map_or(0, StoredMatrix::bytes) + self.session.bytes() + coarse, device]
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }
}

#[cfg(test)]
mod tests;
