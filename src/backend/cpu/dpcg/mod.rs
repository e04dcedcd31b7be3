//! Boxes of cells in natural order, by a team of threads.
//!
//! Each may use those before it: `pieces` (what members share), `labelled` (sums over components and regions), `loops`
//! (over consecutive cells), `state` (the data of a factorization), `member` (the steps of PCG), `ends` (a solve around
//! them).

pub mod cell;
mod ends;
pub mod incomplete;
mod labelled;
mod loops;
mod member;
mod pieces;
pub mod regions;
mod rows;
pub mod setup;
mod state;

use crate::backend::coarse::deflation::CoarseMatrix;
use crate::backend::reference::dpcg::Applied;
use crate::backend::steps::dpcg::{DpcgBackend, Preconditioner, Setup};
use crate::backend::steps::solve::{Arrays, Inputs, Program};
use crate::error::{Error, Result};
use crate::grid::cell_components::CellComponents;
use crate::grid::cells::{CellView, Cells, Kept, SevenPoints};
use crate::grid::regions::{NONE, Regions};
use crate::report::{Observer, Outcome};
use crate::runtime::shared::Shared;
use crate::runtime::team::Team;
use labelled::Labelled;
use member::{Caller, Member};
use pieces::Pieces;
use state::{Deflation, State, Vectors};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Below this many cells a box is left to member 0: a barrier costs more than the work.
const WORTH_A_TEAM: usize = 16_384;

/// The `cpu` backend.
pub struct Cpu {
    wanted_threads: usize,
    team: Option<Team>,
    /// Of a matrix that is not factorized yet; else it is in `state`.
    matrix: Kept,
    state: Option<State>,
}

impl Cpu {
    /// Uses at most `threads`; the team is made when a matrix is large enough for it.
    pub fn new(threads: usize) -> Self {
        Self { wanted_threads: threads, team: None, matrix: Kept::default(), state: None }
    }

    fn make_team(&mut self, pieces: Pieces) -> Result<()> {
        let worth = pieces.cells.count() >= WORTH_A_TEAM;
        let members = if worth { self.wanted_threads.clamp(1, pieces.count()) } else { 1 };
        if self.team.as_ref().map_or(0, Team::members) != members {
            self.team = None;
            self.team = Some(Team::new(members)?);
        }
        Ok(())
    }
}

/// Runs of equal regions in a row of cells: columns, and region.
pub fn region_runs(of: &[u16]) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
    let mut start = 0;
    std::iter::from_fn(move || {
        let &region = of.get(start)?;
        let len = of[start..].iter().take_while(|&&other| other == region).count();
        let run = start..start + len;
        start += len;
        Some((run, (region != NONE).then_some(region as usize)))
    })
}

fn deflation(
    setup: &Setup,
    a: &SevenPoints,
    components: &CellComponents,
    pieces: Pieces,
    regions: &Regions,
) -> Result<Deflation> {
    let nx = pieces.cells.nx;
    let mut labelled = Labelled::default();
    labelled.set(pieces, regions.count, |row| region_runs(&regions.of[row * nx..][..nx]))?;
    let coarse = CoarseMatrix::new(a, components, regions, setup.coarse_solver, setup.coarse_tolerance)?;
    let scratch = coarse.scratch()?;
    Ok(Deflation { regions: labelled, coarse: Mutex::new((coarse, scratch)), t: Shared::zeroed(regions.count)? })
}

impl DpcgBackend for Cpu {
    fn load(&mut self, a: &CellView) -> Result<()> {
        if let Some(state) = self.state.take_if(|state| state.pieces.cells != a.cells) {
            drop(state);
            self.matrix = Kept::default();
        }
        let matrix = self.state.as_mut().map_or(&mut self.matrix, |state| &mut state.matrix);
        matrix.copy_from(a)
    }

    fn matrix(&self) -> SevenPoints<'_> {
        self.state.as_ref().map_or(&self.matrix, |state| &state.matrix).matrix()
    }

    fn factorize(&mut self, setup: &Setup, components: &CellComponents, regions: Option<&Regions>) -> Result<()> {
        let (matrix, vectors) = match self.state.take() {
            Some(state) => (state.matrix, Some(state.vectors)),
            None => (std::mem::take(&mut self.matrix), None),
        };
        let pieces = Pieces::new(matrix.cells());
        let a = matrix.matrix();
        let mut singular = Labelled::default();
        let number = singular_numbers(components)?;
        singular.set(pieces, components.singular_count(), |row| {
            components.runs(row).map(|(columns, component)| (columns, component.and_then(|c| number[c])))
        })?;
        let deflation = regions.map(|regions| deflation(setup, &a, components, pieces, regions)).transpose()?;
        let applied = Applied::new(setup.preconditioner, &a)?.map(Mutex::new);
        self.make_team(pieces)?;
        self.state = Some(State {
            pieces,
            vectors: vectors.map_or_else(|| Vectors::new(pieces), Ok)?,
            preconditioner: setup.preconditioner,
            applied,
            kept_means: Shared::zeroed(singular.labels().max(1))?,
            singular,
            deflation,
            inputs: Mutex::new(Inputs::none()),
            may_stop: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            coarse_nanos: AtomicU64::new(0),
            matrix,
        });
        Ok(())
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let (Some(state), Some(team)) = (&mut self.state, &mut self.team) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        *state.inputs.get_mut().unwrap_or_else(PoisonError::into_inner) = Inputs::none();
        *state.may_stop.get_mut() = observer.may_stop();
        *state.coarse_nanos.get_mut() = 0;
        let (shared, caller) = (&*state, Caller::new(arrays));
        let result = team.run(
            |member| drop(program(&mut Member::new(shared, member, &caller, None))),
            |member| program(&mut Member::new(shared, member, &caller, Some(observer))),
        )?;
        if Outcome::went_astray(&result) {
            // Loops go over cells beside a row, too, where 0 * inf would stay for good.
            for field in state.vectors.fields() {
                // SAFETY: no run is on, since this state is borrowed mutably.
                unsafe { field.clear() };
            }
        }
        result
    }

    fn bytes(&self) -> usize {
        self.matrix.bytes() + self.state.as_ref().map_or(0, State::bytes)
    }

    fn seconds_coarse(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| 1e-9 * state.coarse_nanos.load(Ordering::Relaxed) as f64)
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::members)
    }
}

/// Numbers of the singular components among all.
fn singular_numbers(components: &CellComponents) -> Result<Vec<Option<usize>>> {
    let mut next = 0;
    let number = |&singular: &bool| {
        next += usize::from(singular);
        singular.then(|| next - 1)
    };
    crate::error::collected(components.singular.iter().map(number), "components")
}
