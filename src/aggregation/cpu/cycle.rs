//! The multigrid cycle z = B r, where B approximates A^-1 (Notay 2010). A forward Gauss-Seidel sweep precedes the
//! coarse correction, and a backward sweep follows it.
//!
//! On the finer levels, up to two steps of flexible CG solve the coarse system (K-cycle). On coarser levels, one cycle
//! solves the coarse system (V-cycle). One cycle also solves the system of a level with more than half the couplings of
//! the previous level, because two cycles would be expensive. On the coarsest level, an exact factorization solves the
//! system. If this level is too large (`MAX_FACTORIZED_ROWS`), two sweeps approximate the solution.
//!
//! With `CoarseMethod::Chebyshev`, two Chebyshev steps with fixed bounds (AMLI-cycle) solve the coarse system on all
//! levels, except on a factorized coarsest level and on levels with too many couplings.

use super::level::{CHUNK_ROWS, CoarseMethod, CycleCount, CycleState, Level};
use crate::aggregation::{
    ChebyshevSteps, CycleParameters, Hierarchy, KeptAggregates, MAX_FACTORIZED_ROWS, OrderedRows,
};
use crate::base::number::{Real, power_of_two_below};
use crate::base::reduce::{Partials, max_abs, max_abs_of};
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::base::workers::Workers;
use crate::direct::couplings::{ALLOCATION_NAME, Couplings};
use crate::direct::null_space::{NearlySingularComponents, nearly_singular_bound};
use crate::direct::solver::{DirectSolver, envelope_order};
use crate::error::{Result, collected, push};

/// The second step of a coarse solve is omitted if the first step reduces the residual norm to this fraction or less
/// (Notay 2010).
const SUFFICIENT_REDUCTION: f64 = 0.25;
/// Two cycles solve the system of a level only if the level has at most c / 2 plus this number of couplings, where c is
/// the number of couplings of the previous level.
const EXTRA_COUPLINGS: usize = 1000;
/// Thread 0 alone works on a level with fewer rows and on all coarser levels: barriers cost more than the work.
const MIN_TEAM_ROWS: usize = 4096;

/// Factorizes the coarsest matrix. A pivot far below its diagonal entry is the last pivot of a singular component. It
/// would be zero without rounding errors, and is treated as zero.
fn factorize_coarsest(c: &Couplings) -> Result<DirectSolver> {
    const NEGLIGIBLE: f64 = 1e-12;
    let inverse_pivot = |i: usize, d: f64| if d.abs() <= NEGLIGIBLE * c.diagonal[i] { 0.0 } else { 1.0 / d };
    DirectSolver::of(c, envelope_order(c)?, None, |i, d| Ok(inverse_pivot(i, d)))
}

/// The cycle of a matrix, with its levels and vectors.
pub struct Cycle<V: Number> {
    levels: Vec<Level<V>>,
    /// Solver of the coarsest level. It is `None` if the coarsest level is too large to be factorized. A forward and a
    /// backward Gauss-Seidel sweep then replace the solver.
    coarsest_solver: Option<DirectSolver>,
    /// Row of the matrix for each row of the first level, whose rows are in the order of the sweeps.
    matrix_row: Vec<u32>,
    /// Maxima of |r_i| over the chunks of rows, used to compute max |r_i|.
    max_partials: Partials,
    /// Power of two by which the matrix is multiplied in the hierarchy.
    scale: f64,
    /// Aggregates that the next matrix may reuse.
    kept_aggregates: KeptAggregates,
}

impl<V: Real + Number> Cycle<V> {
    /// Creates the cycle of a hierarchy, and keeps the aggregates for the next matrix. `first_order` is the order of
    /// the rows on the first level, if the caller has computed it.
    pub fn keeping_aggregates(
        hierarchy: Hierarchy,
        parameters: &CycleParameters,
        first_order: Option<OrderedRows>,
        workers: &mut Workers,
    ) -> Result<Self> {
        let cycle = Self::new(&hierarchy, parameters, first_order, workers)?;
        Ok(Self { kept_aggregates: hierarchy.into_kept_aggregates()?, ..cycle })
    }

    pub fn new(
        hierarchy: &Hierarchy,
        parameters: &CycleParameters,
        first_order: Option<OrderedRows>,
        workers: &mut Workers,
    ) -> Result<Self> {
        let coarsest = &hierarchy.coarsest;
        let is_exact = coarsest.rows() <= MAX_FACTORIZED_ROWS;
        let matrices = collected(hierarchy.matrices(), ALLOCATION_NAME)?;
        let order_of = |k: usize| match k + 1 == matrices.len() && is_exact {
            true => OrderedRows::in_one_group(coarsest.rows()),
            false => OrderedRows::of(matrices[k], parameters.order),
        };
        // The means of singular components are computed only if there may be such components. A singular component
        // remains singular on all coarser levels, or becomes a single row. The diagonal entry of this row is the sum of
        // all row sums of the component, which is nearly zero.
        let largest_diagonal = matrices[0].diagonal.iter().fold(0.0, |max: f64, d| max.max(*d));
        let bound = nearly_singular_bound(matrices[0].rows(), largest_diagonal);
        let has_singular_row = |c: &&Couplings| c.diagonal.iter().any(|d| *d <= bound);
        let may_be_singular =
            matrices.iter().any(has_singular_row) || NearlySingularComponents::of(coarsest, |_, _| bound)?.is_some();
        let mut nearly_singular =
            if may_be_singular { NearlySingularComponents::of(matrices[0], nearly_singular_bound)? } else { None };
        let first_order = first_order.filter(|_| !(is_exact && matrices.len() == 1));
        let mut order = first_order.map_or_else(|| order_of(0), Ok)?;
        let matrix_row = collected(order.row.iter().copied(), ALLOCATION_NAME)?;
        let mut levels: Vec<Level<V>> = Vec::new();
        for (k, matrix) in matrices.iter().enumerate() {
            let has_few_couplings = levels.last().is_none_or(|previous_level| {
                matrix.col.len() <= previous_level.matrix.coupling_count() / 2 + EXTRA_COUPLINGS
            });
            let cycles = match has_few_couplings && k > 0 {
                true if parameters.uses_two_cycles(k, matrix.rows()) => CycleCount::Two,
                true => CycleCount::TwoIfChebyshev,
                false => CycleCount::One,
            };
            let aggregate = hierarchy.levels.get(k).map(|level| &level.aggregates.aggregate_of_row[..]);
            let (coarser_components, coarser_order) = match aggregate {
                Some(aggregate_of_row) => (
                    nearly_singular
                        .as_ref()
                        .map(|components| components.on_aggregates(aggregate_of_row))
                        .transpose()?,
                    order_of(k + 1)?,
                ),
                None => (None, OrderedRows::in_one_group(0)?),
            };
            let level_components = std::mem::replace(&mut nearly_singular, coarser_components)
                .map(|components| components.permuted(&order.row))
                .transpose()?;
            let aggregate = aggregate.map(|aggregate_of_row| (aggregate_of_row, &coarser_order.position[..]));
            push(
                &mut levels,
                Level::new(matrix, &order, aggregate, level_components, cycles, workers)?,
                ALLOCATION_NAME,
            )?;
            order = coarser_order;
        }
        let coarsest_solver = is_exact.then(|| factorize_coarsest(coarsest)).transpose()?;
        let max_partials = Partials::single_buffered(matrix_row.len().div_ceil(CHUNK_ROWS), 1)?;
        Ok(Self {
            levels,
            coarsest_solver,
            matrix_row,
            max_partials,
            scale: hierarchy.scale,
            kept_aggregates: KeptAggregates::default(),
        })
    }

    /// Returns the number of rows of the matrix.
    pub fn rows(&self) -> usize {
        self.matrix_row.len()
    }

    /// Returns the aggregates that the next matrix may reuse.
    pub fn into_kept_aggregates(self) -> KeptAggregates {
        self.kept_aggregates
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn reused_aggregate_count(&self) -> usize {
        self.kept_aggregates.reused_count
    }

    /// Renumbers the rows of the matrix: row i becomes row `new_row(i)`.
    pub fn renumber_rows(&mut self, new_row: impl Fn(usize) -> u32) {
        self.matrix_row.iter_mut().for_each(|i| *i = new_row(*i as usize));
    }

    /// Computes z = B r. `input(i)` returns r_i, and `store_output(i, z_i)` is called for each row i. r is scaled so
    /// that squares neither overflow nor underflow. If max |r_i| is zero or not finite, each z_i is set to max |r_i|.
    /// All threads of a team must call this function, after a barrier that follows the last change of r. After a
    /// further barrier, each thread calls `store_output` for its own set of rows. Ends with a barrier.
    pub fn apply(
        &self,
        thread: &TeamThread,
        method: CoarseMethod,
        input: impl Fn(usize) -> f64,
        mut store_output: impl FnMut(usize, f64),
    ) {
        let (n, own_rows) = (self.rows(), thread.share(self.rows()));
        let partials = self.max_partials.reduce(0, self.max_partials.rows());
        for chunk in thread.share(self.max_partials.rows()) {
            let chunk_rows = &self.matrix_row[chunk * CHUNK_ROWS..n.min((chunk + 1) * CHUNK_ROWS)];
            // SAFETY: the chunk belongs to this thread and is written once.
            unsafe { partials.store(chunk, [max_abs_of(chunk_rows.iter().map(|&i| input(i as usize)))]) };
        }
        let [extreme] = partials.partial_results(Some(*thread));
        let largest = max_abs(extreme);
        // A power of two, so that scaling is exact and needs no division.
        let power_of_two = power_of_two_below(largest);
        let inverse_power = power_of_two.recip();
        let (first_level, own_matrix_rows) = (&self.levels[0], &self.matrix_row[own_rows]);
        if largest > 0.0 && largest.is_finite() {
            first_level.load(thread, |k| input(self.matrix_row[k] as usize) * inverse_power);
            self.cycle(0, &mut CycleState::new(*thread, method), &first_level.z);
            let store_scaled =
                |k: usize, z: f64| store_output(self.matrix_row[k] as usize, power_of_two * (self.scale * z));
            first_level.for_each_value(thread, store_scaled);
        } else {
            own_matrix_rows.iter().for_each(|&i| store_output(i as usize, largest));
        }
        thread.barrier();
    }

    /// Computes z = B r on level k. All threads must have passed a barrier before the call. Ends with a barrier.
    fn cycle(&self, k: usize, state: &mut CycleState, z: &Shared<V>) {
        let level = &self.levels[k];
        let Some(coarser) = self.levels.get(k + 1) else { return self.solve_coarsest(&state.thread, z) };
        level.sweep_forwards(&state.thread, z);
        level.restrict(&state.thread, z, &coarser.r);
        self.solve(k + 1, state);
        level.prolong(&state.thread, z, &coarser.z);
        level.sweep_backwards(&state.thread, z);
    }

    fn solve_coarsest(&self, thread: &TeamThread, z: &Shared<V>) {
        let level = &self.levels[self.levels.len() - 1];
        match &self.coarsest_solver {
            Some(coarsest_solver) => {
                if thread.index == 0 {
                    // SAFETY: the other threads wait at the barrier.
                    let (r, z) = unsafe { (level.r.slice(0, level.len()), z.slice_mut(0, level.len())) };
                    z.copy_from_slice(r);
                    coarsest_solver.solve(z);
                }
                thread.barrier();
            }
            None => {
                level.sweep_forwards(thread, z);
                level.sweep_backwards(thread, z);
            }
        }
    }

    /// Computes z, an approximation of A^-1 r, on level k, and overwrites r. All threads must have passed a barrier
    /// before the call. Ends with a barrier.
    fn solve(&self, k: usize, state: &mut CycleState) {
        let level = &self.levels[k];
        if state.thread.threads > 1 && level.len() < MIN_TEAM_ROWS {
            if state.thread.index == 0 {
                self.solve(k, &mut CycleState::new(state.thread.as_single_thread(), state.method));
            }
            return state.thread.barrier();
        }
        level.remove_means(&state.thread);
        let is_exact = k + 1 == self.levels.len() && self.coarsest_solver.is_some();
        match state.method {
            _ if is_exact => self.cycle(k, state, &level.z),
            CoarseMethod::FlexibleCg if level.cycles == CycleCount::Two => self.solve_by_flexible_cg(k, state),
            CoarseMethod::Chebyshev if level.cycles != CycleCount::One => self.solve_by_chebyshev_steps(k, state),
            _ => self.cycle(k, state, &level.z),
        }
    }

    /// Executes up to two steps of flexible CG (K-cycle; Notay 2010). Let c = B r, v = A c, r' = r - (c^T r / c^T v) v
    /// and d = B r'. Then z minimizes the energy norm of the error in the span of c and d.
    fn solve_by_flexible_cg(&self, k: usize, state: &mut CycleState) {
        let level = &self.levels[k];
        let initial_norm2 = level.residual_norm2(state);
        self.cycle(k, state, &level.c);
        let [rho, c_dot_r] = level.multiply(state, &level.c);
        let has_positive_energy = rho > 0.0;
        let first_weight = if has_positive_energy { c_dot_r / rho } else { 1.0 };
        let norm2 = level.subtract(state, first_weight);
        if !has_positive_energy || norm2 <= SUFFICIENT_REDUCTION * SUFFICIENT_REDUCTION * initial_norm2 {
            return level.combine(&state.thread, first_weight, 0.0);
        }
        level.remove_means(&state.thread);
        self.cycle(k, state, &level.z);
        let gamma = level.dot_z_v(state);
        // `multiply` overwrites v, which is no longer needed.
        let [energy, z_dot_r] = level.multiply(state, &level.z);
        let beta = energy - gamma * gamma / rho;
        let second_weight = if beta > 0.0 { z_dot_r / beta } else { 0.0 };
        level.combine(&state.thread, first_weight - gamma * second_weight / rho, second_weight);
    }

    /// Executes two Chebyshev steps with fixed bounds (AMLI-cycle).
    fn solve_by_chebyshev_steps(&self, k: usize, state: &mut CycleState) {
        let (level, ChebyshevSteps { residual_factor, first_weight, second_weight }) =
            (&self.levels[k], ChebyshevSteps::COEFFICIENTS);
        self.cycle(k, state, &level.c);
        level.multiply(state, &level.c);
        level.subtract(state, residual_factor);
        level.remove_means(&state.thread);
        self.cycle(k, state, &level.z);
        level.combine(&state.thread, first_weight, second_weight);
    }

    pub fn bytes(&self) -> usize {
        let solver_bytes = self.coarsest_solver.as_ref().map_or(0, DirectSolver::bytes);
        let table_bytes = size_of_val(&*self.matrix_row) + self.max_partials.bytes() + self.kept_aggregates.bytes();
        self.levels.iter().map(Level::bytes).sum::<usize>() + solver_bytes + table_bytes
    }
}
