//! Backend `cpu` of deflated PCG: multithreaded steps on boxes of cells in natural order.
//!
//! Each module imports only modules listed before it. `steps` calls methods of `ThreadState` that `fused` defines.
//!
//! - `loops`: loops over consecutive cells
//! - `field` and `rows`: vectors
//! - `incomplete`, `cell` and `vertex`: preconditioners; `unfused` selects one of them
//! - `state`: data of a factorization
//! - `steps`: unfused steps of PCG
//! - `fused`: an iteration in two passes
//! - `solve`: begin and end of a solve

mod cell;
mod field;
mod fused;
mod incomplete;
mod loops;
mod rows;
pub mod solve;
mod state;
pub mod steps;
#[cfg(test)]
mod tests;
pub mod unfused;
mod vertex;

use crate::base::engine::Engine;
use crate::base::shared::Shared;
use crate::base::team::Team;
use crate::deflation::Solver;
use crate::deflation::cpu::Projection;
use crate::deflation::regions::{RegionChoice, RegionCounts};
use crate::dpcg::backend::{DpcgBackend, Preconditioner, Setup};
use crate::dpcg::cpu::steps::ThreadState;
use crate::dpcg::cpu::unfused::UnfusedPreconditioner;
use crate::dpcg::setup;
use crate::dpcg::setup::coarse_matrix;
use crate::dpcg::survey::{Survey, SurveyData};
use crate::error::{Error, Result};
use crate::krylov::cpu::caller::CallerArrays;
use crate::krylov::cpu::means::LabelledRuns;
use crate::krylov::cpu::observed::SharedRunState;
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::stencil::cells::{CellView, Cells, StoredMatrix};
use crate::stencil::pieces::Pieces;
use fused::ring_value_count;
use state::{State, Vectors};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Minimum number of cells for more than one thread. With fewer cells, the barriers need more time than the other
/// threads save.
const MIN_TEAM_CELLS: usize = 16_384;

/// Backend `cpu` of the family `dpcg_`.
pub struct Cpu {
    max_threads: usize,
    team: Option<Team>,
    /// The matrix while `state` is `None`; otherwise, `state` contains the matrix.
    matrix: StoredMatrix,
    /// Results of `survey` and `find_regions` for the next `factorize`.
    survey_data: SurveyData,
    state: Option<State>,
    coarse_setup_seconds: f64,
}

impl Cpu {
    /// Creates a backend with at most `threads` threads. The threads are started with the first matrix that is large
    /// enough.
    pub fn new(threads: usize) -> Self {
        Self {
            max_threads: threads,
            team: None,
            matrix: StoredMatrix::default(),
            survey_data: SurveyData::default(),
            state: None,
            coarse_setup_seconds: 0.0,
        }
    }

    fn start_team(&mut self, cells: Cells) -> Result<&mut Team> {
        let uses_team = cells.count() >= MIN_TEAM_CELLS;
        let threads = if uses_team { self.max_threads.clamp(1, Pieces::new(cells).count()) } else { 1 };
        Team::with_size(&mut self.team, threads)
    }

    /// Computes the data of a factorization, except the matrix. Reuses the vectors and the preconditioner of the
    /// previous factorization, if they are given. Also returns the solver of systems with E, or `None` without
    /// deflation.
    fn compute_state(
        &mut self,
        setup: &Setup,
        survey_data: &SurveyData,
        matrix: &StoredMatrix,
        (vectors, unfused_preconditioner): (Option<Vectors>, Option<UnfusedPreconditioner>),
    ) -> Result<(State, Option<Solver>)> {
        let (components, regions) = (&survey_data.components, survey_data.regions.as_ref());
        let pieces = Pieces::new(matrix.cells());
        let a = matrix.matrix();
        let mut singular_cells = LabelledRuns::default();
        let singular_numbers = components.component_list().singular_numbers()?;
        singular_cells.set_labels(pieces.count(), components.component_list().singular_count(), |piece| {
            let row_runs = |row| components.runs(row).map(move |(columns, component)| (row, columns, component));
            pieces.rows(piece).flat_map(row_runs).filter_map(|(row, columns, component)| {
                Some((row * pieces.cells.nx + columns.start, columns.len(), singular_numbers[component?]?))
            })
        })?;
        let team = Team::require(&mut self.team)?;
        let started = Instant::now();
        let deflation = match regions {
            None => None,
            Some(regions) => {
                let (solver, tolerance) = (setup.coarse_solver, setup.coarse_tolerance);
                let e = coarse_matrix(team, &a, components, regions, solver, tolerance)?;
                Some(Projection::new(pieces, &a, components, regions, e, team.threads())?)
            }
        };
        self.coarse_setup_seconds = started.elapsed().as_secs_f64();
        let solver = deflation.as_ref().map(Projection::solver);
        let unfused_preconditioner =
            UnfusedPreconditioner::compute(unfused_preconditioner, setup.preconditioner, &a, team)?;
        let threads = team.threads();
        let order = if let Preconditioner::Neumann { order } = setup.preconditioner { order } else { 0 };
        let is_sufficient = |vectors: &Vectors| vectors.series_vector.is_some() || order == 0;
        let state = State {
            pieces,
            vectors: vectors.filter(is_sufficient).map_or_else(|| Vectors::new(pieces, order > 0), Ok)?,
            preconditioner: setup.preconditioner,
            uses_fused_passes: setup.uses_fused_passes,
            row_rings: Shared::zeroed(threads * ring_value_count(order, pieces.cells.nx, pieces.cells.ny))?,
            unfused_preconditioner,
            singular_cells,
            deflation,
            observed: SharedRunState::default(),
            coarse_nanos: AtomicU64::new(0),
            matrix: StoredMatrix::default(),
        };
        Ok((state, solver))
    }
}

impl DpcgBackend for Cpu {
    fn load(&mut self, a: &CellView, checks_finite: bool) -> Result<f64> {
        if let Some(state) = self.state.take_if(|state| state.pieces.cells != a.cells) {
            drop(state);
            self.matrix = StoredMatrix::default();
        }
        self.start_team(a.cells)?;
        let matrix = self.state.as_mut().map_or(&mut self.matrix, |state| &mut state.matrix);
        setup::load(Team::require(&mut self.team)?, matrix, a, checks_finite)
    }

    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey> {
        let matrix = self.state.as_ref().map_or(&self.matrix, |state| &state.matrix).matrix();
        let (survey_data, survey) = setup::survey(Team::require(&mut self.team)?, &matrix, zero_row_sum)?;
        self.survey_data = survey_data;
        Ok(survey)
    }

    fn find_regions(&mut self, choice: &RegionChoice) -> Result<RegionCounts> {
        let matrix = self.state.as_ref().map_or(&self.matrix, |state| &state.matrix).matrix();
        self.survey_data.find_regions(&matrix, choice)
    }

    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>> {
        let survey_data = std::mem::take(&mut self.survey_data);
        let (matrix, reusable_parts) = match self.state.take() {
            Some(state) => (state.matrix, (Some(state.vectors), state.unfused_preconditioner)),
            None => (std::mem::take(&mut self.matrix), (None, None)),
        };
        match self.compute_state(setup, &survey_data, &matrix, reusable_parts) {
            Ok((state, solver)) => {
                self.state = Some(State { matrix, ..state });
                Ok(solver)
            }
            Err(error) => {
                // After an error, `Dpcg` may factorize this matrix again with another preconditioner.
                (self.survey_data, self.matrix) = (survey_data, matrix);
                Err(error)
            }
        }
    }

    fn coarse_setup_seconds(&self) -> f64 {
        self.coarse_setup_seconds
    }

    fn reused_aggregate_count(&self) -> usize {
        self.state
            .as_ref()
            .and_then(|state| state.unfused_preconditioner.as_ref())
            .map_or(0, UnfusedPreconditioner::reused_aggregate_count)
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let (Some(state), Some(team)) = (&mut self.state, &mut self.team) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        state.observed.begin_run(observer);
        *state.coarse_nanos.get_mut() = 0;
        let (shared_state, caller) = (&*state, CallerArrays::new(arrays, state.pieces.cells.ny));
        let result = team.run(
            |thread| drop(program(&mut ThreadState::new(shared_state, thread, &caller, None))),
            |thread| program(&mut ThreadState::new(shared_state, thread, &caller, Some(observer))),
        )?;
        if Outcome::may_leave_infinities(&result) {
            // Loops multiply values beyond the ends of a row by zero couplings. Infinities from this run must be
            // removed, because 0 * inf is NaN in the next run.
            for field in state.vectors.fields() {
                // SAFETY: this function borrows the state mutably and `team.run` has returned, so no other thread uses
                // the fields.
                unsafe { field.clear() };
            }
            // SAFETY: no other thread uses the rings, for the same reason.
            unsafe { state.row_rings.clear() };
        }
        result
    }

    fn coarse_solve_seconds(&self) -> f64 {
        self.state.as_ref().map_or(0.0, |state| 1e-9 * state.coarse_nanos.load(Ordering::Relaxed) as f64)
    }
}

impl Engine for Cpu {
    fn bytes(&self) -> [usize; 2] {
        [self.matrix.bytes() + self.state.as_ref().map_or(0, State::bytes), 0]
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::threads)
    }
}
