//! Deflated PCG on a CUDA device: natural storage with zeros around it.
//!
//! Each may use those before it: `arrays` (memory), `dense` (inverses), `labelled` (sums over components and regions),
//! `source` (the matrix), `regions`, `deflation`, `multigrid`, `coarsening`, `vertex`, `cell` (preconditioners),
//! `state` (the data of a factorization), `run` (the steps of PCG), `ends` (a solve around them).

mod arrays;
mod cell;
mod coarsening;
mod deflation;
mod dense;
mod ends;
mod labelled;
mod looping;
mod multigrid;
mod regions;
mod run;
mod source;
mod state;
mod vertex;

use super::driver::Memory;
use super::launch;
use super::launch::CellArray;
use super::session::Session;
use super::staging::Job;
use crate::backend::coarse::deflation::Solver;
use crate::backend::cpu::dpcg::setup::find_components;
use crate::backend::steps::dpcg::{DpcgBackend, Fetched, Setup};
use crate::backend::steps::solve::{Arrays, Program};
use crate::error::{Error, Result, collected, zeroed};
use crate::grid::cell_components::{CellComponents, Strong};
use crate::grid::cells::{CellView, Cells, Kept, SevenPoints};
use crate::grid::regions::Regions;
use crate::report::{Observer, Outcome};
use crate::runtime::team::Team;
use deflation::Deflation;
use run::Run;
use source::{Made, Source};
use state::State;

/// The `cuda` backend.
pub struct Cuda {
    // Dropped in this order: what lies on the device before the device.
    state: Option<State>,
    source: Option<Source>,
    /// Room for arrays that are on the host: input, and output.
    staging: Option<Memory>,
    /// The host's copy of the matrix, and who looks at it.
    kept: Kept,
    team: Option<Team>,
    /// Room for copies of a matrix that is on the device.
    fetched: Fetched,
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
            kept: Kept::default(),
            team: None,
            fetched: Fetched::default(),
            threads,
            session,
        }
    }

    fn make_team(&mut self) -> Result<()> {
        let cells = self.kept.cells();
        let members = if cells.count() < WORTH_A_TEAM { 1 } else { self.threads.clamp(1, cells.rows()) };
        if self.team.as_ref().map_or(0, Team::members) != members {
            self.team = None;
            self.team = Some(Team::new(members)?);
        }
        Ok(())
    }
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

    fn fetch(&mut self, a: &CellView) -> Result<Option<Fetched>> {
        let views = [a.center, a.forward[0], a.forward[1], a.forward[2]];
        if views.iter().all(|values| values.device().is_none()) {
            return Ok(None);
        }
        if let Some(session) = self.session.after_reset()? {
            *self = Self::with(session, self.threads);
        }
        let _entered = self.session.device.clone().enter()?;
        let mut fetched = std::mem::take(&mut self.fetched);
        let (stream, copies, _) = self.session.parts();
        for (values, copy) in views.iter().zip(&mut fetched.arrays) {
            match values.device() {
                Some(_) if copy.len() == values.count() => {}
                Some(_) => *copy = zeroed(values.count(), "a copy of the matrix")?,
                None => *copy = Vec::new(),
            }
        }
        let on_device = views.iter().zip(&mut fetched.arrays).filter_map(|(v, copy)| Some((v.device()?, copy)));
        let jobs = collected(on_device.map(|(address, copy)| Job::all_to(copy, address)), "a list of arrays")?;
        copies.fetch(stream, &jobs)?;
        drop(jobs);
        stream.wait()?;
        Ok(Some(fetched))
    }

    fn take_back(&mut self, fetched: Fetched) {
        self.fetched = fetched;
    }

    fn load(&mut self, a: &CellView) -> Result<()> {
        if let Some(session) = self.session.after_reset()? {
            *self = Self::with(session, self.threads);
        }
        let _entered = self.session.device.clone().enter()?;
        if self.source.as_ref().is_none_or(|source| source.of != a.cells) {
            // Their memory first.
            (self.state, self.source, self.staging) = (None, None, None);
            self.source = Some(Source::new(self.session.stream(), a.cells)?);
        }
        self.kept.copy_from(a)?;
        self.make_team()?;
        let (stream, copies, _) = self.session.parts();
        match &self.source {
            Some(source) => source.send(stream, copies, &self.kept.matrix()),
            None => Ok(()),
        }
    }

    fn matrix(&self) -> SevenPoints<'_> {
        self.kept.matrix()
    }

    fn find_components(&mut self, zero_row_sum: f64) -> Result<(CellComponents, Strong)> {
        find_components(self.team.as_mut().ok_or_else(nothing_loaded)?, &self.kept.matrix(), zero_row_sum)
    }

    fn factorize(
        &mut self,
        setup: &Setup,
        components: &CellComponents,
        regions: Option<&Regions>,
    ) -> Result<Option<Solver>> {
        let _entered = self.session.device.clone().enter()?;
        let previous = self.state.take();
        let a = self.kept.matrix();
        let (Some(source), Some(team)) = (&self.source, &mut self.team) else { return Err(nothing_loaded()) };
        let stream = self.session.stream();
        let made = Made { a, source, setup, components, regions };
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
        let fetched = self.fetched.arrays.iter().map(|copy| 8 * copy.len()).sum::<usize>();
        self.kept.bytes() + fetched + self.session.bytes() + coarse
    }

    fn device_bytes(&self) -> usize {
        self.source.as_ref().map_or(0, Source::bytes)
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
