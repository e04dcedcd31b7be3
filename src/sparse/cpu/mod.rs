//! Backend for general sparse matrices on a thread team.
//!
//! Modules, each of which may use the previous ones:
//! - `parts`: products with A^T;
//! - `stages`, `levels`: level scheduling;
//! - `values`: access to vectors;
//! - `precondition`: M^-1;
//! - `relaxation`: sweeps;
//! - `state`: shared data;
//! - `steps`: matrix and preconditioner for the steps of a thread.

mod levels;
mod parts;
mod precondition;
mod relaxation;
mod stages;
mod state;
mod steps;
mod values;

use crate::aggregation::KeptAggregates;
use crate::base::engine::Engine;
use crate::base::team::{Team, TeamThread};
use crate::error::{Error, Result};
use crate::krylov::cpu::caller::{CallerArrays, Output};
use crate::krylov::cpu::chunks::{CHUNK, Chunks};
use crate::krylov::cpu::steps::{PCG_VECTORS, ThreadState};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::sparse::backend::{Factor, Operator, Preconditioning, Setup, SetupResult, SparseBackend, SweepParameters};
use crate::sparse::{AnyCsr, Division};
use parts::Parts;
use precondition::{Preconditioner, Purpose, make};
use relaxation::Relaxation;
use state::State;
use steps::SparseSystem;

/// Minimum number of rows for which several threads are used. With fewer rows, a barrier takes longer than the work
/// that it divides.
const MIN_TEAM_ROWS: usize = 16_384;

/// The `cpu` backend.
#[derive(Default)]
pub struct Cpu {
    team: Option<Team>,
    state: Option<State>,
    /// Workspaces of products with A, and with A^T, in the storage format.
    parts: [Option<Parts>; 2],
}

/// Returns a team for a matrix with `rows` rows. Reuses `team` if it has the required number of threads.
fn team_for(team: &mut Option<Team>, rows: usize, threads: usize) -> Result<&mut Team> {
    let most = Chunks::new(rows).count().max(1);
    let threads = if rows >= MIN_TEAM_ROWS { threads.clamp(1, most) } else { 1 };
    Team::sized(team, threads)
}

/// Creates the workspace of a product that maps a vector of length `from` to a vector of length `to`, unless it exists.
/// A workspace is needed if the format divides the product into parts, and the matrix is large enough for several
/// threads. This condition and the workspace depend only on the matrix, so the result of the product does not depend on
/// the number of threads.
fn make_parts(parts: &mut Option<Parts>, division: Division, from: usize, to: usize) -> Result<()> {
    if let (Division::Parts(by_parts), None) = (division, &parts)
        && from.max(to) >= MIN_TEAM_ROWS
    {
        *parts = Some(Parts::new(by_parts, from, to)?);
    }
    Ok(())
}

fn rows_of(matrix: AnyCsr) -> usize {
    match matrix {
        AnyCsr::Narrow(a) => a.rows(),
        AnyCsr::Wide(a) => a.rows(),
    }
}

fn set_up_preconditioner(
    setup: &Setup,
    wanted: &Preconditioning,
    kept: KeptAggregates,
    team: &mut Team,
) -> Result<precondition::PreconditionerSetup> {
    let purpose = Purpose { transposes: setup.transposes, symmetric: setup.symmetric, f32_values: setup.f32_values };
    match setup.matrix {
        AnyCsr::Narrow(a) => make(a, wanted, &purpose, kept, team),
        AnyCsr::Wide(a) => make(a, wanted, &purpose, kept, team),
    }
}

fn make_relaxation(matrix: AnyCsr, sweep_parameters: &SweepParameters, threads: usize) -> Result<Relaxation> {
    match matrix {
        AnyCsr::Narrow(a) => Relaxation::new(a, sweep_parameters, threads),
        AnyCsr::Wide(a) => Relaxation::new(a, sweep_parameters, threads),
    }
}

impl SparseBackend for Cpu {
    fn set_up(&mut self, setup: &Setup) -> Result<SetupResult> {
        let rows = rows_of(setup.matrix);
        let Operator { a, transposed } = setup.operator;
        make_parts(&mut self.parts[0], a.division(false), rows, rows)?;
        if setup.transposes && transposed.is_none() {
            make_parts(&mut self.parts[1], a.division(true), rows, rows)?;
        }
        // Frees memory before the new state is allocated. Aggregates are reused, and so are vectors of the same length.
        let mut kept = KeptAggregates::default();
        let mut state = match self.state.take() {
            Some(mut state) if state.vectors.chunks.rows == rows => {
                kept = state.precondition.take().map(Preconditioner::into_kept).unwrap_or_default();
                (state.second, state.relaxation) = (None, None);
                state
            }
            other => {
                drop(other);
                State::new(rows)?
            }
        };
        state.vectors.reserve(setup.work_vectors.max(PCG_VECTORS))?;
        let team = team_for(&mut self.team, rows, setup.threads)?;
        let first = set_up_preconditioner(setup, &setup.preconditioning, kept, team)?;
        state.precondition = first.precondition;
        state.second = set_up_preconditioner(setup, &setup.second, KeptAggregates::default(), team)?.precondition;
        state.relaxation = match &setup.sweep_parameters {
            Some(sweep_parameters) => Some(make_relaxation(setup.matrix, sweep_parameters, team.threads())?),
            None => None,
        };
        let (colours, levels) =
            state.relaxation.as_ref().map_or((first.colours, first.levels), |r| (r.colours(), r.levels()));
        self.state = Some(state);
        Ok(SetupResult {
            shift: first.shift,
            pivot: first.pivot,
            levels,
            colours,
            aggregates_kept: first.aggregates_kept,
        })
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        self.state.as_mut().map_or(Ok(()), |state| state.vectors.reserve(count))
    }

    fn run(&mut self, a: Operator, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        let (Some(state), Some(team)) = (&mut self.state, &mut self.team) else {
            return Err(Error::State("sparse_factorize must come before this call".to_owned()));
        };
        state.vectors.observed.begin(observer);
        let (shared, parts) = (&*state, &self.parts);
        let caller = CallerArrays::new(Arrays { ld: CHUNK, ..arrays }, usize::MAX);
        let system = || SparseSystem::new(shared, a, parts);
        let result = team.run(
            |me| drop(program(&mut ThreadState::new(&shared.vectors, system(), me, &caller, None))),
            |me| program(&mut ThreadState::new(&shared.vectors, system(), me, &caller, Some(observer))),
        )?;
        if Outcome::may_leave_infinities(&result) {
            state.vectors.clear();
        }
        result
    }

    fn multiply(&mut self, a: Factor, arrays: Arrays, _: bool, threads: usize) -> Result<()> {
        let (Factor { stored: a, transposed, .. }, x, y) = (a, arrays.input, arrays.output);
        let (from, rows, division) = (x.len(), y.len(), a.division(transposed));
        let parts = &mut self.parts[usize::from(transposed)];
        make_parts(parts, division, from, rows)?;
        let team = team_for(&mut self.team, from.max(rows), threads)?;
        let (chunks, to) = (Chunks::new(rows), Output::new(&mut *y));
        match (division, parts) {
            (Division::Rows(by_rows), _) if team.threads() > 1 => {
                let work = |me: TeamThread| {
                    let part = chunks.part(&me, by_rows.grain());
                    // SAFETY: the row ranges of the threads are disjoint.
                    by_rows.multiply_rows(part.clone(), x, unsafe { to.slice(part.start, part.len()) });
                };
                team.run(work, work)
            }
            (Division::Parts(by_parts), Some(parts)) => {
                let work = |me: TeamThread| {
                    // SAFETY: each thread writes only its own columns.
                    parts.multiply(by_parts, &me, x, |own| unsafe { to.slice(own.start, own.len()) });
                };
                team.run(work, work)
            }
            _ => {
                a.multiply_by(transposed, x, y);
                Ok(())
            }
        }
    }

    fn discard_format_data(&mut self) {
        self.parts = [None, None];
    }

    fn run_both(
        &mut self,
        rows: usize,
        threads: usize,
        own: &mut dyn FnMut(),
        other: &(dyn Fn() + Sync),
    ) -> Result<()> {
        team_for(&mut self.team, rows, threads)?.run_both(own, other).map(drop)
    }
}

impl Engine for Cpu {
    fn bytes(&self) -> [usize; 2] {
        let parts = self.parts.iter().flatten().map(Parts::bytes).sum::<usize>();
        [self.state.as_ref().map_or(0, State::bytes) + parts, 0]
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::threads)
    }
}
