//! Backend for general sparse matrices on a thread team.
//!
//! Modules, each of which may use the modules before it in this list:
//! - `parts`: products with A^T;
//! - `stages`, `levels`: level scheduling;
//! - `values`: access to single values of shared vectors;
//! - `precondition`: M^-1;
//! - `relaxation`: sweeps;
//! - `state`: data of a factorization, which threads share;
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
use crate::krylov::cpu::caller::{CallerArrays, SharedOutput};
use crate::krylov::cpu::chunks::{CHUNK_ROWS, Chunks};
use crate::krylov::cpu::steps::{PCG_VECTORS, ThreadState};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::sparse::backend::{
    Operator, Preconditioning, ProductOperand, Setup, SetupResult, SparseBackend, SweepParameters,
};
use crate::sparse::{AnyCsr, ThreadDivision};
use parts::ProductParts;
use precondition::{Preconditioner, PreconditionerRequirements, make_preconditioner};
use relaxation::Relaxation;
use state::State;
use steps::SparseSystem;

/// Minimum number of rows for which several threads are used. With fewer rows, a barrier takes longer than the work
/// that several threads save.
const MIN_TEAM_ROWS: usize = 16_384;

/// The `cpu` backend.
#[derive(Default)]
pub struct Cpu {
    team: Option<Team>,
    state: Option<State>,
    /// Workspaces of products with A, and of products with A^T, in the storage format.
    product_parts: [Option<ProductParts>; 2],
}

/// Returns a team of at most `threads` threads for a matrix with `rows` rows. Reuses `team` if it has the right size.
fn team_for_rows(team: &mut Option<Team>, rows: usize, threads: usize) -> Result<&mut Team> {
    let max_threads = Chunks::new(rows).count().max(1);
    let threads = if rows >= MIN_TEAM_ROWS { threads.clamp(1, max_threads) } else { 1 };
    Team::with_size(team, threads)
}

/// Creates the workspace of a product, unless the workspace exists or the product needs none. The input vector has
/// `input_len` values, and the result has `output_len` values. The product needs a workspace if `division` is
/// `Contributions` and the matrix is large enough for several threads. This condition and the workspace depend only on
/// the matrix, so the result of the product does not depend on the number of threads.
fn make_product_parts(
    product_parts: &mut Option<ProductParts>,
    division: ThreadDivision,
    input_len: usize,
    output_len: usize,
) -> Result<()> {
    if let (ThreadDivision::Contributions(transposed_products), None) = (division, &product_parts)
        && input_len.max(output_len) >= MIN_TEAM_ROWS
    {
        *product_parts = Some(ProductParts::new(transposed_products, input_len, output_len)?);
    }
    Ok(())
}

/// Returns the number of rows of a matrix.
fn row_count_of(matrix: AnyCsr) -> usize {
    match matrix {
        AnyCsr::Narrow(a) => a.rows(),
        AnyCsr::Wide(a) => a.rows(),
    }
}

/// Sets up M from a matrix with 32-bit or 64-bit indices.
fn set_up_preconditioner(
    setup: &Setup,
    preconditioning: &Preconditioning,
    kept_aggregates: KeptAggregates,
    team: &mut Team,
) -> Result<precondition::PreconditionerSetup> {
    let requirements = PreconditionerRequirements {
        needs_transpose: setup.needs_transpose,
        is_symmetric: setup.is_symmetric,
        stores_in_f32: setup.stores_m_in_f32,
    };
    match setup.matrix {
        AnyCsr::Narrow(a) => make_preconditioner(a, preconditioning, &requirements, kept_aggregates, team),
        AnyCsr::Wide(a) => make_preconditioner(a, preconditioning, &requirements, kept_aggregates, team),
    }
}

/// Creates the sweeps of a matrix with 32-bit or 64-bit indices.
fn make_relaxation(matrix: AnyCsr, sweep_parameters: &SweepParameters, threads: usize) -> Result<Relaxation> {
    match matrix {
        AnyCsr::Narrow(a) => Relaxation::new(a, sweep_parameters, threads),
        AnyCsr::Wide(a) => Relaxation::new(a, sweep_parameters, threads),
    }
}

impl SparseBackend for Cpu {
    fn set_up(&mut self, setup: &Setup) -> Result<SetupResult> {
        let rows = row_count_of(setup.matrix);
        let Operator { a, transposed } = setup.operator;
        make_product_parts(&mut self.product_parts[0], a.division(false), rows, rows)?;
        if setup.needs_transpose && transposed.is_none() {
            make_product_parts(&mut self.product_parts[1], a.division(true), rows, rows)?;
        }
        // Frees the previous state before the new one is allocated. If the number of rows is unchanged, vectors and
        // aggregates are reused.
        let mut kept_aggregates = KeptAggregates::default();
        let mut state = match self.state.take() {
            Some(mut state) if state.vectors.chunks.rows == rows => {
                kept_aggregates =
                    state.preconditioner.take().map(Preconditioner::into_kept_aggregates).unwrap_or_default();
                (state.second_preconditioner, state.relaxation) = (None, None);
                state
            }
            unsuitable => {
                drop(unsuitable);
                State::new(rows)?
            }
        };
        state.vectors.reserve_vectors(setup.work_vector_count.max(PCG_VECTORS))?;
        let team = team_for_rows(&mut self.team, rows, setup.threads)?;
        let first_setup = set_up_preconditioner(setup, &setup.preconditioning, kept_aggregates, team)?;
        state.preconditioner = first_setup.preconditioner;
        state.second_preconditioner =
            set_up_preconditioner(setup, &setup.second_preconditioning, KeptAggregates::default(), team)?
                .preconditioner;
        state.relaxation = match &setup.sweep_parameters {
            Some(sweep_parameters) => Some(make_relaxation(setup.matrix, sweep_parameters, team.threads())?),
            None => None,
        };
        let (colour_count, level_count) = state
            .relaxation
            .as_ref()
            .map_or((first_setup.colour_count, first_setup.level_count), |r| (r.colour_count(), r.level_count()));
        self.state = Some(state);
        Ok(SetupResult {
            shift: first_setup.shift,
            nonpositive_pivot: first_setup.nonpositive_pivot,
            level_count,
            colour_count,
            reused_aggregate_count: first_setup.reused_aggregate_count,
        })
    }

    fn reserve_vectors(&mut self, count: usize) -> Result<()> {
        self.state.as_mut().map_or(Ok(()), |state| state.vectors.reserve_vectors(count))
    }

    fn run(
        &mut self,
        operator: Operator,
        arrays: Arrays,
        observer: &mut dyn Observer,
        program: Program,
    ) -> Result<Outcome> {
        let (Some(state), Some(team)) = (&mut self.state, &mut self.team) else {
            return Err(Error::State("sparse_factorize must come before this call".to_owned()));
        };
        state.vectors.run_state.begin_run(observer);
        let (shared_state, product_parts) = (&*state, &self.product_parts);
        let caller = CallerArrays::new(Arrays { ld: CHUNK_ROWS, ..arrays }, usize::MAX);
        let new_system = || SparseSystem::new(shared_state, operator, product_parts);
        let result = team.run(
            |thread| drop(program(&mut ThreadState::new(&shared_state.vectors, new_system(), thread, &caller, None))),
            |thread| {
                program(&mut ThreadState::new(&shared_state.vectors, new_system(), thread, &caller, Some(observer)))
            },
        )?;
        if Outcome::may_leave_infinities(&result) {
            state.vectors.clear_vectors();
        }
        result
    }

    fn multiply(&mut self, operand: ProductOperand, arrays: Arrays, _: bool, threads: usize) -> Result<()> {
        let (ProductOperand { stored: a, transposed, .. }, x, y) = (operand, arrays.input, arrays.output);
        let (input_len, output_len, division) = (x.len(), y.len(), a.division(transposed));
        let product_parts = &mut self.product_parts[usize::from(transposed)];
        make_product_parts(product_parts, division, input_len, output_len)?;
        let team = team_for_rows(&mut self.team, input_len.max(output_len), threads)?;
        let (chunks, output_slices) = (Chunks::new(output_len), SharedOutput::new(&mut *y));
        match (division, product_parts) {
            (ThreadDivision::Rows(row_products), _) if team.threads() > 1 => {
                let work = |thread: TeamThread| {
                    let own_rows = chunks.aligned_own_rows(&thread, row_products.row_alignment());
                    // SAFETY: the row ranges of the threads are disjoint.
                    row_products.multiply_rows(own_rows.clone(), x, unsafe {
                        output_slices.slice(own_rows.start, own_rows.len())
                    });
                };
                team.run(work, work)
            }
            (ThreadDivision::Contributions(transposed_products), Some(product_parts)) => {
                let work = |thread: TeamThread| {
                    // SAFETY: each thread writes only its own columns.
                    product_parts.multiply(transposed_products, &thread, x, |columns| unsafe {
                        output_slices.slice(columns.start, columns.len())
                    });
                };
                team.run(work, work)
            }
            _ => {
                a.multiply_transposed_if(transposed, x, y);
                Ok(())
            }
        }
    }

    fn discard_format_data(&mut self) {
        self.product_parts = [None, None];
    }
}

impl Engine for Cpu {
    fn bytes(&self) -> [usize; 2] {
        let parts_bytes = self.product_parts.iter().flatten().map(ProductParts::bytes).sum::<usize>();
        [self.state.as_ref().map_or(0, State::bytes) + parts_bytes, 0]
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::threads)
    }
}
