//! The multigrid cycle z = B r, where B approximates A^-1 (Notay 2010). A forward Gauss-Seidel sweep precedes the
//! coarse correction, and a backward sweep follows it.
//!
//! On the finer levels, up to two steps of flexible CG solve the coarse system (K-cycle). On coarser levels, one cycle
//! solves it (V-cycle). A level with more than half the couplings of the previous level is also solved by one cycle,
//! because two would be expensive. On the coarsest level, an exact factorization solves the system, or two sweeps
//! approximate the solution if the level is too large (`MOST_FACTORIZED`).
//!
//! With `CoarseMethod::Linear`, two Chebyshev steps with fixed bounds (AMLI-cycle) solve the coarse system on all
//! levels, except a factorized coarsest one and those with too many couplings.

use super::level::{CHUNK_ROWS, CoarseMethod, CycleCount, CycleState, Level};
use crate::aggregation::{ChebyshevSteps, CycleParameters, Hierarchy, KeptAggregates, MOST_FACTORIZED, Ordered};
use crate::base::number::{Real, power_of_two_below};
use crate::base::reduce::{Partials, largest, max_abs};
use crate::base::shared::{Number, Shared};
use crate::base::team::Me;
use crate::base::workers::Workers;
use crate::direct::couplings::{Couplings, WHAT};
use crate::direct::null_space::{NearlySingularComponents, nearly_singular_bound};
use crate::direct::solver::{DirectSolver, envelope_order};
use crate::error::{Result, collected, push};

/// The second step of a coarse solve is omitted if the first step reduces the residual norm to this fraction or less
/// (Notay 2010).
const SUFFICIENT_REDUCTION: f64 = 0.25;
/// Two cycles solve a level only if its number of couplings is at most c / 2 plus this constant, where c is the number
/// of couplings of the previous level.
const EXTRA_COUPLINGS: usize = 1000;
/// Thread 0 alone works on a level with fewer rows and on all coarser levels: barriers cost more than the work.
const MIN_TEAM_ROWS: usize = 4096;

/// Factorizes the coarsest matrix. A pivot far below its diagonal entry is the last pivot of a singular component. It
/// would be zero without rounding errors, and is treated as zero.
fn factor(c: &Couplings) -> Result<DirectSolver> {
    const NEGLIGIBLE: f64 = 1e-12;
    let inverse = |i: usize, d: f64| if d.abs() <= NEGLIGIBLE * c.diagonal[i] { 0.0 } else { 1.0 / d };
    DirectSolver::of(c, envelope_order(c)?, None, |i, d| Ok(inverse(i, d)))
}

/// The cycle of a matrix, with its levels and vectors.
pub struct Cycle<V: Number> {
    levels: Vec<Level<V>>,
    /// Solver of the coarsest level. It is `None` if the coarsest level is too large to be factorized. A forward and a
    /// backward Gauss-Seidel sweep then replace the solver.
    coarsest_solver: Option<DirectSolver>,
    /// Row of the matrix for each row of the first level, whose rows are in the order of the sweeps.
    matrix_row: Vec<u32>,
    /// Workspace of the search for max |r_i|.
    largest: Partials,
    /// Power of two by which the matrix is multiplied in the hierarchy.
    scale: f64,
    /// Aggregates that the next matrix may reuse.
    kept: KeptAggregates,
}

impl<V: Real + Number> Cycle<V> {
    /// Creates the cycle of a hierarchy, and keeps the aggregates for the next matrix. `first`: order of the rows on
    /// the first level, if the caller has computed it.
    pub fn keeping_aggregates(
        hierarchy: Hierarchy,
        choices: &CycleParameters,
        first: Option<Ordered>,
        workers: &mut Workers,
    ) -> Result<Self> {
        let cycle = Self::new(&hierarchy, choices, first, workers)?;
        Ok(Self { kept: hierarchy.into_kept()?, ..cycle })
    }

    pub fn new(
        hierarchy: &Hierarchy,
        choices: &CycleParameters,
        first: Option<Ordered>,
        workers: &mut Workers,
    ) -> Result<Self> {
        let coarsest = &hierarchy.coarsest;
        let is_exact = coarsest.rows() <= MOST_FACTORIZED;
        let matrices = collected(hierarchy.matrices(), WHAT)?;
        let order_of = |k: usize| match k + 1 == matrices.len() && is_exact {
            true => Ordered::unswept(coarsest.rows()),
            false => Ordered::of(matrices[k], choices.order),
        };
        // The means of singular components are computed only if there may be such components. A singular component
        // remains singular on all coarser levels, or becomes a single row. The diagonal entry of this row is the sum of
        // all row sums of the component, which is nearly zero.
        let largest = matrices[0].diagonal.iter().fold(0.0, |most: f64, d| most.max(*d));
        let least = nearly_singular_bound(matrices[0].rows(), largest);
        let is_one_row = |c: &&Couplings| c.diagonal.iter().any(|d| *d <= least);
        let may_be = matrices.iter().any(is_one_row) || NearlySingularComponents::of(coarsest, |_, _| least)?.is_some();
        let mut means = if may_be { NearlySingularComponents::of(matrices[0], nearly_singular_bound)? } else { None };
        let first = first.filter(|_| !(is_exact && matrices.len() == 1));
        let mut order = first.map_or_else(|| order_of(0), Ok)?;
        let row = collected(order.row.iter().copied(), WHAT)?;
        let mut levels: Vec<Level<V>> = Vec::new();
        for (k, matrix) in matrices.iter().enumerate() {
            let few =
                levels.last().is_none_or(|before| matrix.col.len() <= before.rows.couplings() / 2 + EXTRA_COUPLINGS);
            let cycles = match few && k > 0 {
                true if choices.uses_two_cycles(k, matrix.rows()) => CycleCount::Two,
                true => CycleCount::TwoIfLinear,
                false => CycleCount::One,
            };
            let aggregate = hierarchy.levels.get(k).map(|level| &level.aggregates.of_row[..]);
            let (coarser, next) = match aggregate {
                Some(of) => (means.as_ref().map(|m| m.on_aggregates(of)).transpose()?, order_of(k + 1)?),
                None => (None, Ordered::unswept(0)?),
            };
            let own = std::mem::replace(&mut means, coarser).map(|m| m.permuted(&order.row)).transpose()?;
            let aggregate = aggregate.map(|of| (of, &next.place[..]));
            push(&mut levels, Level::new(matrix, &order, aggregate, own, cycles, workers)?, WHAT)?;
            order = next;
        }
        let coarsest_solver = is_exact.then(|| factor(coarsest)).transpose()?;
        let largest = Partials::single_buffered(row.len().div_ceil(CHUNK_ROWS), 1)?;
        Ok(Self {
            levels,
            coarsest_solver,
            matrix_row: row,
            largest,
            scale: hierarchy.scale,
            kept: KeptAggregates::default(),
        })
    }

    /// Returns the number of rows of the matrix.
    pub fn rows(&self) -> usize {
        self.matrix_row.len()
    }

    /// Returns the aggregates that the next matrix may reuse.
    pub fn into_kept(self) -> KeptAggregates {
        self.kept
    }

    /// Returns the number of aggregates reused from the previous matrix.
    pub fn aggregates_kept(&self) -> usize {
        self.kept.reused
    }

    /// Renumbers the rows of the matrix: row i becomes row `place(i)`.
    pub fn renumber_rows(&mut self, place: impl Fn(usize) -> u32) {
        self.matrix_row.iter_mut().for_each(|i| *i = place(*i as usize));
    }

    /// Computes z = B r. `from(i)` returns r_i; calls `to(i, z_i)` for each row i. Scales r so that squares neither
    /// overflow nor underflow. If max |r_i| is zero or not finite, each z_i is set to max |r_i|. All threads of a team
    /// must call this function, after a barrier that follows the last change of r. Each thread calls `to` for a
    /// different set of rows, after a barrier. Ends with a barrier.
    pub fn apply(&self, me: &Me, method: CoarseMethod, from: impl Fn(usize) -> f64, mut to: impl FnMut(usize, f64)) {
        let (n, own) = (self.rows(), me.share(self.rows()));
        let partials = self.largest.reduce(0, self.largest.rows());
        for chunk in me.share(self.largest.rows()) {
            let part = &self.matrix_row[chunk * CHUNK_ROWS..n.min((chunk + 1) * CHUNK_ROWS)];
            // SAFETY: the chunk belongs to this thread and is written once.
            unsafe { partials.store(chunk, [largest(part.iter().map(|&i| from(i as usize)))]) };
        }
        let [all] = partials.all(Some(*me));
        let largest = max_abs(all);
        // The unit is a power of two, so that scaling is exact and needs no division.
        let unit = power_of_two_below(largest);
        let per_unit = unit.recip();
        let (first, rows) = (&self.levels[0], &self.matrix_row[own]);
        if largest > 0.0 && largest.is_finite() {
            first.load(me, |k| from(self.matrix_row[k] as usize) * per_unit);
            self.cycle(0, &mut CycleState::new(*me, method), &first.z);
            let write = |k: usize, z: f64| to(self.matrix_row[k] as usize, unit * (self.scale * z));
            first.for_each_value(me, write);
        } else {
            rows.iter().for_each(|&i| to(i as usize, largest));
        }
        me.barrier();
    }

    /// Computes z = B r on level k. All threads must have passed a barrier before the call. Ends with a barrier.
    fn cycle(&self, k: usize, run: &mut CycleState, z: &Shared<V>) {
        let own = &self.levels[k];
        let Some(coarser) = self.levels.get(k + 1) else { return self.solve_coarsest(&run.me, z) };
        own.sweep_forwards(&run.me, z);
        own.restrict(&run.me, z, &coarser.r);
        self.solve(k + 1, run);
        own.prolong(&run.me, z, &coarser.z);
        own.sweep_backwards(&run.me, z);
    }

    fn solve_coarsest(&self, me: &Me, z: &Shared<V>) {
        let own = &self.levels[self.levels.len() - 1];
        match &self.coarsest_solver {
            Some(factor) => {
                if me.index == 0 {
                    // SAFETY: the other threads wait at the barrier.
                    let (r, z) = unsafe { (own.r.slice(0, own.len()), z.slice_mut(0, own.len())) };
                    z.copy_from_slice(r);
                    factor.solve(z);
                }
                me.barrier();
            }
            None => {
                own.sweep_forwards(me, z);
                own.sweep_backwards(me, z);
            }
        }
    }

    /// Computes z, an approximation of A^-1 r, on level k, and overwrites r. All threads must have passed a barrier
    /// before the call. Ends with a barrier.
    fn solve(&self, k: usize, run: &mut CycleState) {
        let own = &self.levels[k];
        if run.me.members > 1 && own.len() < MIN_TEAM_ROWS {
            if run.me.index == 0 {
                self.solve(k, &mut CycleState::new(run.me.alone(), run.method));
            }
            return run.me.barrier();
        }
        own.remove_means(&run.me);
        let is_exact = k + 1 == self.levels.len() && self.coarsest_solver.is_some();
        match run.method {
            _ if is_exact => self.cycle(k, run, &own.z),
            CoarseMethod::Flexible if own.cycles == CycleCount::Two => self.solve_by_flexible_cg(k, run),
            CoarseMethod::Linear if own.cycles != CycleCount::One => self.solve_by_chebyshev_steps(k, run),
            _ => self.cycle(k, run, &own.z),
        }
    }

    /// Executes up to two steps of flexible CG (K-cycle; Notay 2010). Let c = B r, v = A c, r' = r - (c^T r / c^T v) v
    /// and d = B r'. Then z minimizes the energy norm of the error in the span of c and d.
    fn solve_by_flexible_cg(&self, k: usize, run: &mut CycleState) {
        let own = &self.levels[k];
        let before = own.residual_norm2(run);
        self.cycle(k, run, &own.c);
        let [rho, residual] = own.multiply(run, &own.c);
        let is_direction = rho > 0.0;
        let first = if is_direction { residual / rho } else { 1.0 };
        let after = own.subtract(run, first);
        if !is_direction || after <= SUFFICIENT_REDUCTION * SUFFICIENT_REDUCTION * before {
            return own.combine(&run.me, first, 0.0);
        }
        own.remove_means(&run.me);
        self.cycle(k, run, &own.z);
        let gamma = own.dot_z_v(run);
        // `multiply` overwrites v, which is no longer needed.
        let [energy, residual] = own.multiply(run, &own.z);
        let beta = energy - gamma * gamma / rho;
        let second = if beta > 0.0 { residual / beta } else { 0.0 };
        own.combine(&run.me, first - gamma * second / rho, second);
    }

    /// Executes two Chebyshev steps with fixed bounds (AMLI-cycle).
    fn solve_by_chebyshev_steps(&self, k: usize, run: &mut CycleState) {
        let (own, ChebyshevSteps { residual_factor, first, second }) = (&self.levels[k], ChebyshevSteps::COEFFICIENTS);
        self.cycle(k, run, &own.c);
        own.multiply(run, &own.c);
        own.subtract(run, residual_factor);
        own.remove_means(&run.me);
        self.cycle(k, run, &own.z);
        own.combine(&run.me, first, second);
    }

    pub fn bytes(&self) -> usize {
        let of_last = self.coarsest_solver.as_ref().map_or(0, DirectSolver::bytes);
        let tables = size_of_val(&*self.matrix_row) + self.largest.bytes() + self.kept.bytes();
        self.levels.iter().map(Level::bytes).sum::<usize>() + of_last + tables
    }
}
