//! Deflated PCG on a CUDA device: natural storage with zeros around it.
//!
//! Each may use those before it: `arrays` (memory), `labelled` (sums over components and regions), `source` (the
//! matrix), `survey` (the first look at it), `deflation`, `multigrid`, `coarsening`, `vertex`, `cell` (preconditioners),
//! `state` (the data of a factorization), `run` (the steps of PCG), `ends` (a solve around them).

mod arrays;
mod cell;
mod coarsening;
mod deflation;
mod ends;
mod labelled;
mod looping;
mod multigrid;
mod run;
mod source;
mod state;
mod survey;
mod vertex;

use super::driver::Memory;
use super::launch;
use super::launch::{CellArray, CellFindings};
use super::session::Session;
use crate::backend::coarse::deflation::Solver;
use crate::backend::cpu::dpcg::setup;
use crate::backend::steps::dpcg::{DpcgBackend, Preconditioner, Setup};
use crate::backend::steps::solve::{Arrays, Program};
use crate::error::{Error, Result, zeroed};
use crate::grid::cell_inspection::InspectedRows;
use crate::grid::cell_survey::{Found, Survey};
use crate::grid::cells::{CellView, Cells, Kept, SevenPoints, Values};
use crate::grid::outward::{Entry, Outward};
use crate::grid::regions::{Choice, NONE, RegionCount};
use crate::report::{Observer, Outcome};
use crate::runtime::team::Team;
use deflation::Deflation;
use run::Run;
use source::Source;
use state::{Made, State};
use survey::Surveyor;

/// The `cuda` backend.
pub struct Cuda {
    // Dropped in this order: what lies on the device before the device.
    state: Option<State>,
    source: Option<Source>,
    /// Room for arrays that are on the host: input, and output.
    staging: Option<Memory>,
    surveyor: Option<Surveyor>,
    /// The host's copy of the matrix, where it is needed, and who looks at it.
    kept: Kept,
    is_kept: bool,
    team: Option<Team>,
    /// All entries are finite, and numbers divide by all centers.
    is_plain: bool,
    /// The largest center.
    center_max: f64,
    /// What points out of the box.
    outward: Outward,
    /// Until `factorize`.
    found: Found,
    /// It is the device that found them.
    is_surveyed: bool,
    threads: usize,
    session: Session,
}

/// Below this many cells one thread of the host looks at a matrix.
const WORTH_A_TEAM: usize = 16_384;

impl Cuda {
    /// On the device with this ordinal; `threads` at most copy arrays of the host and look at its matrix.
    pub fn new(ordinal: i64, threads: usize) -> Result<Self> {
        Ok(Self::with(Session::open(ordinal, &launch::DPCG, threads)?, threads))
    }

    fn with(session: Session, threads: usize) -> Self {
        Self {
            state: None,
            source: None,
            staging: None,
            surveyor: None,
            kept: Kept::default(),
            is_kept: false,
            team: None,
            is_plain: false,
            center_max: 0.0,
            outward: Outward::default(),
            found: Found::default(),
            is_surveyed: false,
            threads,
            session,
        }
    }

    fn make_team(&mut self, cells: Cells) -> Result<()> {
        let members = if cells.count() < WORTH_A_TEAM { 1 } else { self.threads.clamp(1, cells.rows()) };
        if self.team.as_ref().map_or(0, Team::members) != members {
            self.team = None;
            self.team = Some(Team::new(members)?);
        }
        Ok(())
    }

    /// The host's copy of the matrix.
    fn keep(&mut self) -> Result<SevenPoints<'_>> {
        let source = self.source.as_ref().ok_or_else(nothing_loaded)?;
        if !self.is_kept {
            let (stream, copies, _) = self.session.parts();
            source.fetch(stream, copies, self.kept.rows_mut(source.of)?)?;
            self.is_kept = true;
        }
        Ok(self.kept.matrix())
    }

    /// Couplings that point out of the box, as they were seen in `a`, whose arrays are at `input`.
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
        if a.forward[array].device().is_some() {
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

/// The caller's matrix as the host has kept it: its names, its extents.
fn as_given<'k>(a: &CellView, kept: &SevenPoints<'k>) -> CellView<'k> {
    let of = |name, values| Values::new(name, values, a.cells, a.cells.nx, a.cells.plane());
    let forward = [0, 1, 2].map(|d| of(a.forward[d].name, kept.forward[d]));
    CellView { cells: a.cells, center: of(a.center.name, kept.center), forward }
}

fn nothing_loaded() -> Error {
    Error::Internal("the matrix on the device is missing".to_owned())
}

/// An array on the device, or its copy there.
fn place(device: u64, staged: u64, of: Cells, (ld, plane): (usize, usize)) -> CellArray {
    let (values, ld, plane) = if device != 0 { (device, ld, plane) } else { (staged, of.nx, of.plane()) };
    CellArray { values, ld: ld as i64, plane: plane as i64 }
}

impl DpcgBackend for Cuda {
    fn use_stream(&mut self, stream: usize) -> Result<()> {
        self.session.use_stream(stream)
    }

    fn load(&mut self, a: &CellView, finite: bool) -> Result<f64> {
        if let Some(session) = self.session.after_reset()? {
            *self = Self::with(session, self.threads);
        }
        let _entered = self.session.device.clone().enter()?;
        if self.source.as_ref().is_none_or(|source| source.of != a.cells) {
            // Their memory first.
            (self.state, self.surveyor, self.source, self.staging) = (None, None, None, None);
            let source = self.source.insert(Source::new(self.session.stream(), a.cells)?);
            self.surveyor = Some(Surveyor::new(self.session.stream(), source)?);
        }
        self.make_team(a.cells)?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else { return Err(nothing_loaded()) };
        let (stream, copies, _) = self.session.parts();
        let input = source.bring(stream, copies, a)?;
        let seen = *surveyor.take(stream, input)?;
        (self.is_plain, self.is_kept) = (seen.unusual == 0, false);
        self.outward = self.outward_of(a, &input, &seen)?;
        if self.is_plain {
            self.center_max = f64::from_bits(seen.center_max);
            return Ok(self.center_max);
        }
        let here = as_given(a, &self.keep()?);
        let seen = InspectedRows::of(&here, finite, 0..a.cells.rows(), |_| {});
        self.center_max = InspectedRows::center_max(&here, [seen])?;
        Ok(self.center_max)
    }

    fn outward(&self, _: &CellView) -> Result<Outward> {
        Ok(self.outward)
    }

    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey> {
        let _entered = self.session.device.clone().enter()?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else { return Err(nothing_loaded()) };
        self.found = Found::default();
        let seen = match self.is_plain {
            true => surveyor.survey(self.session.stream(), source, zero_row_sum)?,
            false => None,
        };
        self.is_surveyed = seen.is_some();
        if let Some((components, survey)) = seen {
            self.found.components = components;
            return Ok(survey);
        }
        self.keep()?;
        let team = self.team.as_mut().ok_or_else(nothing_loaded)?;
        let (found, survey) = setup::survey(team, &self.kept.matrix(), zero_row_sum)?;
        self.found = found;
        Ok(survey)
    }

    fn find_regions(&mut self, choice: &Choice) -> Result<RegionCount> {
        if !self.is_surveyed {
            return self.found.find_regions(&self.kept.matrix(), choice);
        }
        let _entered = self.session.device.clone().enter()?;
        let (Some(source), Some(surveyor)) = (&self.source, &mut self.surveyor) else { return Err(nothing_loaded()) };
        let stream = self.session.stream();
        let mut regions = surveyor.find_regions(stream, source.of, &self.found.components, choice)?;
        let (guard, count) = (source.of.plane(), source.of.count());
        let memory = Memory::zeroed(stream.device(), stream, 2 * (count + 2 * guard), "deflation regions")?;
        let first = memory.address + 2 * guard as u64;
        surveyor.number(stream, first, NONE)?;
        regions.of = zeroed(count, "deflation regions")?;
        stream.fetch(&mut regions.of, first)?;
        stream.wait()?;
        Ok(self.found.take(regions))
    }

    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>> {
        let _entered = self.session.device.clone().enter()?;
        let previous = self.state.take();
        let Found { components, regions, .. } = std::mem::take(&mut self.found);
        if regions.is_some() || matches!(setup.preconditioner, Preconditioner::Multigrid { vertex: false, .. }) {
            self.keep()?;
        }
        let a = self.is_kept.then(|| self.kept.matrix());
        let (Some(source), Some(team)) = (&self.source, &mut self.team) else { return Err(nothing_loaded()) };
        let stream = self.session.stream();
        let center_max = self.center_max;
        let made = Made { a, center_max, source, setup, components: &components, regions: regions.as_ref() };
        let mut state = State::new(stream, &made, team, previous)?;
        state.record(&self.session.device, source)?;
        Ok(self.state.insert(state).deflation.as_ref().map(Deflation::solver))
    }

    fn seconds_of_e(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.seconds_of_e)
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let _entered = self.session.device.clone().enter()?;
        let (stream, copies, seconds) = self.session.parts();
        let (Some(k), Some(source)) = (&mut self.state, &self.source) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        let array = 8 * source.of.count();
        let stays = arrays.device_input != 0 && arrays.device_output != 0;
        if !stays && self.staging.is_none() {
            self.staging = Some(Memory::zeroed(stream.device(), stream, 2 * array, "arrays that are on the host")?);
        }
        let staged = self.staging.as_ref().map_or(0, |memory| memory.address);
        let shape = (arrays.ld, arrays.plane);
        k.seconds_coarse = 0.0;
        let mut run = Run {
            input: place(arrays.device_input, staged, source.of, shape),
            output: place(arrays.device_output, staged + array as u64, source.of, shape),
            k,
            source,
            stream,
            arrays,
            observer,
            copies,
            seconds_transfer: 0.0,
            failed: None,
        };
        let result = program(&mut run);
        let failed = run.failed.take();
        *seconds = run.seconds_transfer;
        // The next call may come on another stream, and nothing that was borrowed is used after this.
        let waited = stream.wait();
        if let Some(error) = failed {
            return Err(error);
        }
        waited?;
        if Outcome::went_astray(&result) {
            k.clear(stream)?;
            stream.wait()?;
        }
        result
    }

    fn bytes(&self) -> usize {
        let coarse = self.state.as_ref().and_then(|state| state.deflation.as_ref()).map_or(0, |d| d.host_bytes());
        self.kept.bytes() + self.session.bytes() + coarse
    }

    fn device_bytes(&self) -> usize {
        self.source.as_ref().map_or(0, Source::bytes)
            + self.surveyor.as_ref().map_or(0, Surveyor::bytes)
            + self.staging.as_ref().map_or(0, |memory| memory.bytes)
            + self.state.as_ref().map_or(0, State::device_bytes)
    }

    fn device(&self) -> Option<i32> {
        Some(self.session.device.ordinal)
    }

    fn seconds_transfer(&self) -> f64 {
        self.session.seconds_transfer
    }

    fn seconds_coarse(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| state.seconds_coarse)
    }

    fn threads(&self) -> usize {
        1
    }
}

#[cfg(test)]
mod tests;
