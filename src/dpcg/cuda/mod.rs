//! Deflated PCG on a CUDA device (docs/theory/dpcg.md). Arrays are in natural order with zeros before and after them.
//!
//! Each module may import the modules named before it in this list. `dense` inverts matrices. `source` stores A, and
//! `components` finds the connected components of A. `survey` inspects A. `regions` and `deflation` implement the
//! deflation. `multigrid`, `coarsening`, `vertex`, `cell_grids`, `cell` and `aggregated` implement the preconditioners.
//! `state` holds the data of a factorization. `fused` executes an iteration in few passes. `run` implements the steps
//! of PCG and its loop. `solve` implements the start and the end of a solve.

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
use crate::cuda::launch;
use crate::cuda::launch::{CellArray, CellFindings};
use crate::cuda::session::Session;
use crate::deflation::Solver;
use crate::deflation::regions::{RegionChoice, RegionCounts, Regions};
use crate::dpcg::backend::{DpcgBackend, Setup};
use crate::dpcg::survey::Survey;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::stencil::cell_inspection::InspectedRows;
use crate::stencil::cells::{CellValues, CellView, Cells, SevenPoints, StoredMatrix};
use crate::stencil::outward::{OutwardCouplings, OutwardEntry};
use deflation::Deflation;
use run::{LoadedRhs, Run};
use source::DeviceMatrix;
use state::{Multigrid, State};
use std::cell::OnceCell;
use survey::{FactorizationInput, Surveyor, copy_matrix_to_host};

/// The `cuda` backend.
pub struct Cuda {
    // The fields are dropped in this order, so that device memory is freed before the device is closed.
    state: Option<State>,
    source: Option<DeviceMatrix>,
    surveyor: Option<Surveyor>,
    /// Host copy of the matrix. The copy is created when it is needed, and dropped by `load` and `factorize`.
    host_matrix: OnceCell<StoredMatrix>,
    /// Thread team for work on the host copy.
    team: Option<Team>,
    /// Counts of the couplings that point out of the box of cells, and the first such coupling.
    outward_couplings: OutwardCouplings,
    /// Deflation regions that `find_regions` has found for the next `factorize`; `None` without deflation.
    regions: Option<Regions>,
    max_threads: usize,
    session: Session,
}

/// Minimum number of cells for which several CPU threads inspect a matrix.
const MIN_TEAM_CELLS: usize = 16_384;

impl Cuda {
    /// Opens the device number `ordinal`. At most `max_threads` CPU threads copy host arrays and inspect the matrix.
    pub fn new(ordinal: i64, max_threads: usize) -> Result<Self> {
        Ok(Self::with_session(Session::open(ordinal, &launch::DPCG, max_threads)?, max_threads))
    }

    fn with_session(session: Session, max_threads: usize) -> Self {
        Self {
            state: None,
            source: None,
            surveyor: None,
            host_matrix: OnceCell::new(),
            team: None,
            outward_couplings: OutwardCouplings::default(),
            regions: None,
            max_threads,
            session,
        }
    }

    /// Starts the thread team for the inspection on the host.
    fn start_team(&mut self, cells: Cells) -> Result<()> {
        let threads = if cells.count() < MIN_TEAM_CELLS { 1 } else { self.max_threads.clamp(1, cells.rows()) };
        Team::with_size(&mut self.team, threads).map(|_| ())
    }

    /// Returns the counts of couplings that point out of the box, and the first such coupling. `input` contains the
    /// device addresses of the arrays of `a`, and `findings` is the result of their inspection.
    fn decode_outward_couplings(
        &self,
        a: &CellView,
        input: &[CellArray; 4],
        findings: &CellFindings,
    ) -> Result<OutwardCouplings> {
        let counts = findings.outward_counts.map(|count| count as usize);
        if findings.first_outward == u64::MAX {
            return Ok(OutwardCouplings::from_device_counts(counts, None));
        }
        let (nx, ny) = (a.cells.nx, a.cells.ny);
        let (i, line) = (findings.first_outward as usize % nx, findings.first_outward as usize / nx);
        let (row, array) = (line / 3, line % 3);
        let (j, k) = (row % ny, row / ny);
        let mut value = [0.0];
        if a.forward[array].device_address().is_some() {
            let device_array = input[array + 1];
            let value_index = k as u64 * device_array.plane as u64 + j as u64 * device_array.ld as u64 + i as u64;
            let stream = self.session.stream();
            stream.fetch(&mut value, device_array.values + 8 * value_index)?;
            stream.wait()?;
        } else {
            value[0] = a.forward[array].row(row)[i];
        }
        Ok(OutwardCouplings::from_device_counts(
            counts,
            Some(OutwardEntry { array, value: value[0], i, j, k: Some(k) }),
        ))
    }
}

/// Returns a view of the host copy of the matrix, with the names of the caller's arrays.
fn view_with_caller_names<'k>(a: &CellView, host_matrix: &SevenPoints<'k>) -> CellView<'k> {
    let with_layout = |name, values| CellValues::new(name, values, a.cells, a.cells.nx, a.cells.plane());
    let forward = [0, 1, 2].map(|d| with_layout(a.forward[d].name, host_matrix.forward[d]));
    CellView { cells: a.cells, center: with_layout(a.center.name, host_matrix.center), forward }
}

fn missing_matrix_error() -> Error {
    Error::Internal("the matrix on the device is missing".to_owned())
}

impl DpcgBackend for Cuda {
    fn load(&mut self, a: &CellView, checks_finite: bool) -> Result<f64> {
        if let Some(session) = self.session.reopen_after_reset()? {
            *self = Self::with_session(session, self.max_threads);
        }
        let _entered = self.session.device.clone().enter()?;
        if self.source.as_ref().is_none_or(|source| source.extents != a.cells) {
            // The old memory is freed before new memory is allocated.
            (self.state, self.surveyor, self.source) = (None, None, None);
            self.session.free_staging();
            let source = self.source.insert(DeviceMatrix::new(self.session.stream(), a.cells)?);
            self.surveyor = Some(Surveyor::new(self.session.stream(), source)?);
        }
        self.start_team(a.cells)?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else {
            return Err(missing_matrix_error());
        };
        let (stream, copies, _) = self.session.stream_and_copies();
        let input = source.device_arrays(stream, copies, a)?;
        let findings = *surveyor.copy_matrix(stream, input)?;
        self.host_matrix = OnceCell::new();
        self.outward_couplings = self.decode_outward_couplings(a, &input, &findings)?;
        if findings.has_invalid_entry == 0 {
            return Ok(f64::from_bits(findings.center_max));
        }
        // The matrix is inspected again on the host. This inspection returns the error, except in one case: if
        // `checks_finite` is false and only couplings are not finite, this inspection returns the largest center.
        let stream = self.session.stream();
        let host_view = view_with_caller_names(a, &copy_matrix_to_host(&self.host_matrix, source, stream)?);
        InspectedRows::merge_center_max(
            &host_view,
            [InspectedRows::of(&host_view, checks_finite, 0..a.cells.rows(), |_| {})],
        )
    }

    fn find_outward_couplings(&self, _: &CellView) -> Result<OutwardCouplings> {
        Ok(self.outward_couplings)
    }

    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey> {
        let _entered = self.session.device.clone().enter()?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else {
            return Err(missing_matrix_error());
        };
        self.regions = None;
        surveyor.survey(self.session.stream(), source, zero_row_sum)
    }

    fn find_regions(&mut self, choice: &RegionChoice) -> Result<RegionCounts> {
        let _entered = self.session.device.clone().enter()?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else {
            return Err(missing_matrix_error());
        };
        let region_counts;
        (region_counts, self.regions) =
            surveyor.find_regions(self.session.stream(), source.extents, choice)?.with_counts();
        Ok(region_counts)
    }

    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>> {
        let _entered = self.session.device.clone().enter()?;
        let previous = self.state.take();
        let (regions, host_matrix) = (self.regions.take(), self.host_matrix.take());
        let host_matrix = &host_matrix.map_or_else(OnceCell::new, OnceCell::from);
        let (Some(source), Some(surveyor), Some(team)) = (&self.source, &self.surveyor, &mut self.team) else {
            return Err(missing_matrix_error());
        };
        let input = FactorizationInput { source, host_matrix, setup, surveyor, regions: regions.as_ref() };
        let mut state = State::new(self.session.stream(), &input, team, previous)?;
        state.record_loop(&self.session.device, source)?;
        Ok(self.state.insert(state).deflation.as_ref().map(Deflation::solver))
    }

    fn coarse_setup_seconds(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.coarse_setup_seconds)
    }

    fn reused_aggregate_count(&self) -> usize {
        match self.state.as_ref().and_then(|state| state.multigrid.as_ref()) {
            Some(Multigrid::Aggregated(aggregated)) => aggregated.reused_aggregate_count(),
            _ => 0,
        }
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let _entered = self.session.device.clone().enter()?;
        let stream = self.session.stream();
        let (Some(state), Some(source)) = (&mut self.state, &self.source) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        state.coarse_solve_seconds = 0.0;
        state.deflation.as_ref().map_or(Ok(()), |deflation| deflation.start_clock(stream))?;
        let cells = source.extents;
        let call = self.session.start_staged_call(arrays, observer, cells, [cells.count(); 2])?;
        let mut run = Run {
            state,
            source,
            stream: call.stream,
            call,
            loaded_rhs: LoadedRhs::default(),
            residual_norm2: f64::NAN,
        };
        let result = program(&mut run);
        let first_error = run.call.first_error.take();
        self.session.end_run(first_error)?;
        let stream = self.session.stream();
        if let Some(deflation) = &state.deflation {
            state.coarse_solve_seconds += deflation.seconds_on_device(stream)?;
        }
        if Outcome::may_leave_infinities(&result) {
            state.clear(stream)?;
            stream.wait()?;
        }
        result
    }

    fn coarse_solve_seconds(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.coarse_solve_seconds)
    }
}

impl Engine for Cuda {
    fn bytes(&self) -> [usize; 2] {
        let coarse_bytes = self.state.as_ref().and_then(|state| state.deflation.as_ref()).map_or(0, |d| d.host_bytes());
        let device_bytes = self.source.as_ref().map_or(0, DeviceMatrix::bytes)
            + self.surveyor.as_ref().map_or(0, Surveyor::bytes)
            + self.session.staging_bytes()
            + self.state.as_ref().map_or(0, State::device_bytes);
        [self.host_matrix.get().map_or(0, StoredMatrix::bytes) + self.session.bytes() + coarse_bytes, device_bytes]
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
