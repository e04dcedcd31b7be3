//! Interface of the backends of RRB-PCG (`RrbBackend`), parameters of `factorize`, and computation of pivots
//! (docs/theory/rrb.md).

use crate::base::engine::Engine;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::krylov::state::State;
use crate::options::limits::SWITCH_ITERATIONS;
use crate::report::{Observer, Outcome};
use crate::rrb::anisotropy::anisotropy;
use crate::rrb::recursion::{Cycle, CycleKind};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection::{Inspection, InspectionOptions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;
use crate::stencil::outward::OutwardCouplings;
use std::ops::Range;

/// Nodes whose dropped couplings are lumped: the variants M1 and M2 of Ciarlet (1994).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lumping {
    /// M1: the eliminated (red) nodes.
    Red,
    /// M2: the eliminated (red) and the remaining (black) nodes.
    RedAndBlack,
}

/// Parameters of `factorize`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Number of levels, at most the number that the grid allows.
    pub levels: usize,
    /// Whether `factorize` may stop after fewer levels if the remaining matrix is diagonal up to weak couplings. True
    /// if the caller requested neither a number of levels nor `cycle=amli`. Only the `cuda` backend uses this flag: on
    /// a device, the sweeps on a small grid take as long as on a larger grid.
    pub may_truncate: bool,
    pub lumping: Lumping,
    /// omega, the fraction of the dropped couplings that is added to the diagonal.
    pub omega: f64,
    /// Whether positive couplings are compensated: M is then built from A-hat instead of A. In A-hat, each positive
    /// coupling of A is zero, and is added to the centers of both nodes, so that row sums are unchanged.
    pub compensates_positive_couplings: bool,
    /// Number of grids that store the colours r1, r2, b1, b2 in separate arrays: at most `levels / 2`, or 1 if
    /// aggregation replaces the levels from the start.
    pub grids: usize,
    /// The rows of these grids are padded to a multiple of `compute_block` values. Their left and right borders are
    /// `compute_block` values wide.
    pub compute_block: usize,
    /// Row sums of magnitude at most `zero_row_sum` times the center are set to zero in M.
    pub zero_row_sum: f64,
    /// Whether the backend may fuse steps of CG into single passes (`fusion=on`).
    pub fused: bool,
    /// Storage format of the preconditioner.
    pub storage: Storage,
    /// Scale factor of the stored M: f32 and bf16 store M / storage_unit. The factor is the largest power of two that
    /// does not exceed the largest center. It is 1 with f64, and if aggregation replaces the levels from the start.
    pub storage_unit: f64,
    /// Parameters of the cycle.
    pub cycle: Cycle,
    /// Use of aggregation instead of the levels.
    pub aggregation: Aggregation,
}

/// Approximate memory for aggregation in bytes per node, with 5 and with 9 points. It includes the arrays of the cycle,
/// and the hierarchy in double precision, which only the setup needs. On a device (`AGGREGATION_BYTES_ON_DEVICE`), the
/// hierarchy is not freed after the setup.
const AGGREGATION_BYTES_ON_HOST: [usize; 2] = [150, 400];
const AGGREGATION_BYTES_ON_DEVICE: [usize; 2] = [400, 800];

/// Memory for the inverse of the coarsest system on a device, in bytes per entry.
const INVERSE_BYTES_PER_ENTRY: usize = 24;
/// Largest number of rows of a coarsest system of aggregation that a device inverts.
pub const MAX_INVERTED_ROWS_ON_DEVICE: usize = 1024;

/// Returns the approximate memory that aggregation needs for `nodes` nodes, in bytes.
pub fn bytes_of_aggregation(nodes: usize, nine_points: bool, on_device: bool) -> usize {
    let (bytes_per_node, inverted_rows) = match on_device {
        true => (AGGREGATION_BYTES_ON_DEVICE, nodes.min(MAX_INVERTED_ROWS_ON_DEVICE)),
        false => (AGGREGATION_BYTES_ON_HOST, 0),
    };
    nodes
        .saturating_mul(bytes_per_node[usize::from(nine_points)])
        .saturating_add(INVERSE_BYTES_PER_ENTRY * inverted_rows * inverted_rows)
}

/// Costs of aggregation on a backend, in multiples of the time of one CG iteration with a fused V-cycle
/// (docs/theory/aggregation.md, cost model).
#[derive(Debug)]
pub struct CostOfAggregation {
    /// Setup of a hierarchy.
    pub aggregation_setup: f64,
    /// Factorization of the levels that the hierarchy replaces.
    pub level_factorization: f64,
    /// One iteration with aggregation.
    pub aggregation_iteration: f64,
    /// Assumed ratio of the residual norms after and before an iteration with aggregation.
    pub contraction: f64,
    /// One CG iteration with an unfused V-cycle.
    pub unfused_iteration: f64,
}

/// Assumed ratio of the condition number of M^-1 A, where M consists of the levels, to the anisotropy of the matrix
/// (`rrb::anisotropy`). It is a compromise between the ratios that fit the iteration counts of the hard suite
/// (docs/benchmarks/hard-suite.md):
/// - 0.7 if the couplings of a direction are equal everywhere,
/// - 2 in layers,
/// - 5 on grids that are stretched in both directions.
const CONDITION_PER_ANISOTROPY: f64 = 3.0;

/// Predicted cost of a solve with the levels and with aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Anisotropy of the matrix, from which the prediction is computed.
    pub anisotropy: f64,
    /// Required ratio of the final to the first residual norm.
    pub reduction: f64,
    /// Prediction with the levels.
    pub with_levels: PredictedSolve,
    /// Prediction with aggregation.
    pub with_aggregation: PredictedSolve,
}

/// Predicted iteration count and cost of a factorization with one solve. The unit of cost is one CG iteration with a
/// fused V-cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedSolve {
    /// Number of CG iterations. With levels, the number is (sqrt(kappa) / 2) ln(2 / reduction), where kappa is the
    /// predicted condition number of M^-1 A: `CONDITION_PER_ANISOTROPY` times the anisotropy. With aggregation, the
    /// number is ln(reduction) / ln(contraction).
    pub iterations: f64,
    /// Cost of setup and iterations.
    pub cost: f64,
}

impl Prediction {
    /// Returns whether aggregation has the lower predicted cost.
    pub fn prefers_aggregation(&self) -> bool {
        self.with_aggregation.cost < self.with_levels.cost
    }
}

impl CostOfAggregation {
    /// Predicts the cost of a solve that reduces the residual norm to `reduction` times its first value. `is_fused`:
    /// whether the iterations with the levels are fused.
    pub fn predict(&self, anisotropy: f64, reduction: f64, is_fused: bool) -> Prediction {
        let level_iteration_cost = if is_fused { 1.0 } else { self.unfused_iteration };
        let predict_solve = |setup, iterations: f64, cost_per_iteration| PredictedSolve {
            iterations,
            cost: setup + cost_per_iteration * iterations,
        };
        let level_iterations = 0.5 * (CONDITION_PER_ANISOTROPY * anisotropy).sqrt() * (2.0 / reduction).ln();
        Prediction {
            anisotropy,
            reduction,
            with_levels: predict_solve(self.level_factorization, level_iterations, level_iteration_cost),
            with_aggregation: predict_solve(
                self.aggregation_setup,
                reduction.ln() / self.contraction.ln(),
                self.aggregation_iteration,
            ),
        }
    }

    /// Returns whether a switch to aggregation in state `state` of a solve reduces the remaining cost; `false` in the
    /// first [`SWITCH_ITERATIONS`] iterations. `iteration_cost` is the cost of an iteration with the current
    /// preconditioner.
    pub fn is_switch_worthwhile(&self, state: &State, iteration_cost: f64) -> bool {
        let aggregation_iterations = (state.norm / state.test.threshold).ln() / -self.contraction.ln();
        state.iterations_since_start() >= SWITCH_ITERATIONS
            && iteration_cost * state.remaining_iterations()
                > self.aggregation_setup + self.aggregation_iteration * aggregation_iterations
    }
}

/// Use of aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// No aggregation.
    Never,
    /// Aggregation may replace the levels during a solve that converges slowly. The hierarchy of aggregation then has
    /// this storage format.
    IfSlow(Storage),
    /// Aggregation replaces the levels from the first iteration. For a 5-point matrix, the first level remains, because
    /// its elimination produces S1.
    FromStart,
}

impl Setup {
    /// Returns whether CG runs on the Schur complement S1 of the first level. This requires at least one level, and a
    /// 5-point matrix without compensation, for which the first elimination is exact.
    pub fn uses_schur_complement(&self, a: &StencilView) -> bool {
        a.corners.is_none() && !self.compensates_positive_couplings && self.levels > 0
    }

    /// Returns 1 - omega, the fraction of the dropped couplings that is not added to the diagonal. The row sum of M
    /// changes by this fraction of the dropped couplings.
    pub fn one_minus_omega(&self) -> f64 {
        1.0 - self.omega
    }

    /// Returns the row sum of M for a row of A with this center; `couplings` is the sum of the couplings of the row. A
    /// row sum of magnitude at most `zero_row_sum` times the center is rounding error and becomes zero.
    pub fn row_sum(&self, center: f64, couplings: f64) -> f64 {
        let row_sum = center + couplings;
        if row_sum.abs() <= self.zero_row_sum * center { 0.0 } else { row_sum }
    }

    /// Returns a coupling of M rounded to the storage format.
    pub fn rounded(&self, coupling: f64) -> f64 {
        self.storage.round(coupling / self.storage_unit) * self.storage_unit
    }

    /// Returns the fraction of the existing couplings between remaining (black) nodes that an elimination keeps: 1 in
    /// M1, 0 in M2.
    pub fn kept_fraction(&self) -> f64 {
        if self.lumping == Lumping::Red { 1.0 } else { 0.0 }
    }
}

/// Parameters of the inspection of a matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InspectionSetup {
    pub checks: InspectionOptions,
    /// Whether the solve projects out the constants on singular components.
    pub projects_null_space: bool,
    /// Maximum number of threads among which the rows are divided.
    pub threads: usize,
    /// The rows of grids stored by colour are padded to a multiple of `compute_block` values (see
    /// [`Setup::compute_block`]).
    pub compute_block: usize,
    /// Whether M may be stored in f32 or bf16.
    pub may_store_short: bool,
}

/// Matrix with a 5-point stencil: the grid, and the arrays center, east and north, stored row by row.
pub type FivePointMatrix = (Grid, [Vec<f64>; 3]);

/// Properties of a factorization.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Kind of the cycle in use.
    pub kind: CycleKind,
    /// Number of levels in use; with aggregation, number of coarse levels. `None` if the number is [`Setup::levels`].
    pub levels: Option<usize>,
    /// Whether aggregation replaces the levels.
    pub uses_aggregation: bool,
    /// Number of aggregates that were reused from the previous factorization, on all levels.
    pub reused_aggregate_count: usize,
    /// Number of grids that are stored by colour, in separate arrays for r1, r2, b1 and b2.
    pub grids: usize,
}

impl Report {
    /// Report of a V-cycle with the levels of the setup, in natural storage.
    pub const V_CYCLE: Self =
        Self { kind: CycleKind::V, levels: None, uses_aggregation: false, reused_aggregate_count: 0, grids: 0 };
}

/// Backend with a matrix and its RRB factorization.
pub trait RrbBackend: Engine + Send {
    /// Returns whether other ranks or devices own rows of the grids. Such a backend does not offer aggregation.
    fn shares_grids(&self) -> bool {
        false
    }
    /// Inspects a matrix before its factorization, and stores the results in `inspection`. The next matrix that the
    /// caller passes to `factorize` must be this matrix.
    fn inspect_matrix(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        inspection: &mut Inspection,
    ) -> Result<()> {
        inspection.start(inspection_setup.threads)?;
        let shared_inspection = &*inspection;
        self.run_over_rows(a.grid, &|thread, rows| {
            shared_inspection.inspect(thread, a, rows, &inspection_setup.checks)
        })?;
        inspection.finish(a, inspection_setup.projects_null_space)
    }
    /// Returns the anisotropy of the inspected matrix, the ratio of the conductances of the two directions. Row sums of
    /// at most `zero_row_sum` times the center count as zero.
    fn anisotropy(&self, a: &StencilView, zero_row_sum: f64) -> f64 {
        anisotropy(a, zero_row_sum)
    }
    /// Returns the costs of aggregation for `nodes` nodes, or `None` if a solve cannot switch to aggregation.
    fn cost_of_aggregation(&self, _nodes: usize) -> Option<&'static CostOfAggregation> {
        None
    }
    /// Returns the nonzero couplings that point out of the grid. `a` must be the matrix that was inspected last.
    fn outward(&mut self, a: &StencilView) -> Result<OutwardCouplings> {
        Ok(OutwardCouplings::of(a))
    }
    /// Divides the rows of `grid` among the threads, in the order of the rows. Calls `work(thread, rows)` once for
    /// every thread that has rows. The number of threads is at most the number for which the backend was created.
    fn run_over_rows(&mut self, grid: Grid, work: &(dyn Fn(usize, Range<usize>) + Sync)) -> Result<()> {
        work(0, 0..grid.ny);
        Ok(())
    }
    /// Frees the memory of a factorization that is not in use but was kept for later. The caller calls this function
    /// when options on which `auto` depends have changed.
    fn release_spare_memory(&mut self) {}
    /// Discards the last factorization and frees its memory.
    fn release(&mut self) {}
    /// Computes A = L D L^T + R, where M = L D L^T is the preconditioner and R the difference between A and M. A second
    /// call with the same setup reuses all memory. Returns an error for the first rejected pivot.
    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()>;
    /// Runs `inspect_matrix` and `factorize` in one pass over the matrix, on the assumption that the structure and the
    /// setup of the previous matrix still apply. Returns `false` if the assumption fails, or if the backend does not
    /// support speculation. The values of `inspection` are then unspecified, and the previous factorization must not be
    /// used any longer. After `true`, the caller must check whether the results of the inspection lead to the same
    /// setup.
    fn factorize_speculatively(
        &mut self,
        _a: &StencilView,
        _inspection_setup: &InspectionSetup,
        _setup: &Setup,
        _inspection: &mut Inspection,
    ) -> Result<bool> {
        Ok(false)
    }
    /// Runs `program` on every thread with the caller's `arrays`. Thread 0 reports events to `observer`.
    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome>;
    /// Returns the properties of the last factorization.
    fn report(&self) -> Report;
    /// Returns the matrix that was factorized last, with its original entries. Returns `None` if the matrix has 9
    /// points, or if this process does not store all of it.
    fn matrix(&self) -> Result<Option<FivePointMatrix>> {
        Ok(None)
    }
}

/// Minimum ratio of the pivot to the center for a node whose couplings are all dropped. If the ratio is smaller, the
/// center is used as the pivot. Such a node adds an eigenvalue of about center / pivot to M^-1 A. With this minimum,
/// the eigenvalue is at most about 10.
const MIN_ROW_SUM_FRACTION: f64 = 0.1;

/// Pivot of an eliminated node (red, or b1) in row-sum form. After lumping, the pivot is the row sum minus the sum of
/// the kept couplings.
#[derive(Clone, Copy, Debug)]
pub struct Pivot {
    /// Pivot d.
    pub d: f64,
    /// Row sum s~ after lumping. The elimination adds -a / d times this value to the row sum of a remaining neighbour,
    /// where a is the coupling to this neighbour.
    pub row_sum: f64,
    /// Row sum s that f32 and bf16 store instead of d. The sweeps compute d = s - sum of kept couplings.
    pub stored_row_sum: f64,
    kept_sum: f64,
}

impl Pivot {
    /// Lumps with weight omega and computes the pivot (report 16-06, equations 2.12 and 2.13):
    ///
    /// d = c + omega * sum(lumped) = (row_sum - (1 - omega) * sum(lumped)) - sum(kept), with the row sum `row_sum` and
    /// the center c. The argument `lumped_sum` is sum(lumped).
    ///
    /// If all couplings of a node are lumped, as in a channel that is one cell wide, d is the row sum after lumping,
    /// which may be zero even in a regular matrix. If d is then less than [`MIN_ROW_SUM_FRACTION`] times the center,
    /// the center becomes the pivot, as with omega = 0.
    ///
    /// A node without couplings and with a row sum of exactly zero is the last node of a component of M with zero row
    /// sums. This function then returns d = 0. [`Pivot::accept`] replaces d by the center of A, which has a suitable
    /// magnitude. Any positive pivot would be correct, in both possible cases:
    /// - A is singular, and the constant is projected out of z.
    /// - A is regular. In A, the component is coupled to Dirichlet rows; lumping has removed these couplings from M.
    ///
    /// If A is singular and its constants are not projected out, [`Pivot::accept`] rejects the pivot.
    #[inline(always)]
    pub fn new(row_sum: f64, kept_couplings: [f64; 4], lumped_sum: f64, one_minus_omega: f64) -> Self {
        let sum_of_kept = Self::sum_of_couplings(kept_couplings);
        let lumped_row_sum = row_sum - one_minus_omega * lumped_sum;
        let center = row_sum - lumped_sum;
        // The code selects values instead of branching, so that the compiler vectorizes loops over a row.
        let none_kept = (kept_couplings[0] == 0.0)
            & (kept_couplings[1] == 0.0)
            & (kept_couplings[2] == 0.0)
            & (kept_couplings[3] == 0.0);
        let uses_center = none_kept & (lumped_row_sum < MIN_ROW_SUM_FRACTION * center);
        let stored_row_sum = if uses_center { center } else { lumped_row_sum };
        let kept_sum = if uses_center { 0.0 } else { sum_of_kept };
        Self {
            d: stored_row_sum - kept_sum,
            row_sum: if uses_center { row_sum } else { lumped_row_sum },
            stored_row_sum,
            kept_sum,
        }
    }

    #[inline(always)]
    fn sum_of_couplings(couplings: [f64; 4]) -> f64 {
        (couplings[0] + couplings[1]) + (couplings[2] + couplings[3])
    }

    /// Returns the center of the node before lumping.
    #[inline(always)]
    pub fn center(row_sum: f64, kept_couplings: [f64; 4], lumped_sum: f64) -> f64 {
        row_sum - Self::sum_of_couplings(kept_couplings) - lumped_sum
    }

    /// Returns the pivot of a node of the coarsest system, which is stored in double precision: d = s - sum(kept).
    pub fn exact(row_sum: f64, kept_sum: f64) -> Self {
        Self { d: row_sum - kept_sum, row_sum, stored_row_sum: row_sum, kept_sum }
    }

    /// Returns whether the pivot needs no further checks: d > eps * center, and d is finite.
    #[inline(always)]
    pub fn needs_no_check(&self, center: f64) -> bool {
        (self.d > f64::EPSILON * center) & self.d.is_finite()
    }

    /// Replaces s by `stored_row_sum`, the rounded value of s, and recomputes d from this value.
    #[inline(always)]
    pub fn with_stored_row_sum(self, stored_row_sum: f64) -> Self {
        Self { d: stored_row_sum - self.kept_sum, stored_row_sum, ..self }
    }

    /// Returns the smallest pivot that f32 and bf16 allow, since sweeps in f32 divide by d / storage_unit.
    pub fn smallest_short_pivot(storage_unit: f64) -> f64 {
        storage_unit * f64::from(f32::MIN_POSITIVE)
    }

    /// Rejects a pivot that is at most eps * center or is not finite; `center` is the center of M at the node before
    /// lumping. A pivot of zero is not rejected, but replaced by the center of A, under two conditions:
    /// - The node is the last one of a component of M (`is_floating`: the node has no couplings to remaining nodes).
    /// - [`PivotNode::may_replace_zero_pivot`] is true.
    ///
    /// `locate_node` returns the location of the node, and is called only if the pivot is rejected or replaced.
    pub fn accept(mut self, center: f64, is_floating: bool, locate_node: impl FnOnce() -> PivotNode) -> Result<Self> {
        if self.needs_no_check(center) {
            return Ok(self);
        }
        let node = locate_node();
        if is_floating && self.d == 0.0 && node.may_replace_zero_pivot {
            (self.d, self.stored_row_sum) = (node.center, node.center);
            return Ok(self);
        }
        if !node.may_replace_zero_pivot && self.d.is_finite() {
            return Err(unprojected_pivot(self.d, node.level, node.i, node.j));
        }
        Err(rejected_pivot(self.d, center, node.level, node.i, node.j))
    }

    /// Checks the pivot like `accept`, then rounds it to the storage format. Rejects a rounded pivot below
    /// [`Pivot::smallest_short_pivot`].
    pub fn accept_rounded(
        self,
        center: f64,
        is_floating: bool,
        setup: &Setup,
        locate_node: impl Fn() -> PivotNode,
    ) -> Result<Self> {
        let exact = self.accept(center, is_floating, &locate_node)?;
        if setup.storage == Storage::F64 {
            return Ok(exact);
        }
        let rounded = exact.with_stored_row_sum(setup.rounded(exact.stored_row_sum));
        if rounded.d < Self::smallest_short_pivot(setup.storage_unit) {
            let node = locate_node();
            return Err(underflowing_pivot(exact.d, setup.storage_unit, node.level, node.i, node.j));
        }
        Ok(rounded)
    }
}

/// Returns the error for a rejected pivot in a singular component whose constants are not projected out.
pub fn unprojected_pivot(d: f64, level: usize, i: usize, j: usize) -> Error {
    let reason = format!(
        "pivot {d:e} at @ is not positive: the matrix is singular, and null_space=none does not project its null \
         space; use null_space=auto"
    );
    Error::matrix(reason, level, i, j)
}

/// Returns the error for a rejected pivot at node (i, j) of the finest grid.
pub fn rejected_pivot(d: f64, center: f64, level: usize, i: usize, j: usize) -> Error {
    let (pivot_defect, matrix_defect) = if d > 0.0 && d.is_finite() {
        let matrix_defect = "not positive definite in double precision, or needs compensation of positive couplings";
        ("below the rounding level", matrix_defect)
    } else if d.is_finite() {
        ("not positive", "not positive definite, or needs compensation of positive couplings")
    } else {
        ("not positive", "too large or too small for double precision in some entries")
    };
    Error::matrix(
        format!("pivot {d:e} at @ is {pivot_defect} (center {center:e}): the matrix is {matrix_defect}"),
        level,
        i,
        j,
    )
}

/// Returns the error for a pivot that is too small for f32 or bf16.
pub fn underflowing_pivot(d: f64, storage_unit: f64, level: usize, i: usize, j: usize) -> Error {
    let reason = format!(
        "pivot {d:e} at @ underflows in a short format relative to the largest center, about {storage_unit:e}; use \
         precision=f64"
    );
    Error::matrix(reason, level, i, j)
}

/// Location of a rejected or replaced pivot on the finest grid.
#[derive(Clone, Copy, Debug)]
pub struct PivotNode {
    /// Level that eliminates the node, counted from 1.
    pub level: usize,
    /// Column on the finest grid.
    pub i: usize,
    /// Row on the finest grid.
    pub j: usize,
    /// Center of A at the node.
    pub center: f64,
    /// Whether the pivot may be replaced: `false` if the node is in a singular component whose constants are not
    /// projected out.
    pub may_replace_zero_pivot: bool,
}

/// Data from which the location of a rejected or replaced pivot is determined.
pub struct PivotContext<'a> {
    /// The matrix on the finest grid.
    pub a: &'a StencilView<'a>,
    /// Components of the matrix.
    pub components: &'a Components,
    /// Value that replaces the center of every node if other ranks own some of the centers: the largest center of the
    /// matrix. `None` if all centers are on this rank.
    pub center_substitute: Option<f64>,
}

impl<'a> PivotContext<'a> {
    /// Creates the context of a matrix whose centers are all on this rank.
    pub fn new(a: &'a StencilView<'a>, components: &'a Components) -> Self {
        Self { a, components, center_substitute: None }
    }

    /// Returns the location of node (i, j) of the finest grid, which `level` eliminates.
    pub fn node(&self, level: usize, (i, j): (usize, usize)) -> PivotNode {
        let center = self.center_substitute.unwrap_or_else(|| self.a.center.row(j)[i]);
        PivotNode {
            level,
            i,
            j,
            center,
            may_replace_zero_pivot: self.components.may_replace_zero_pivot(self.a.grid.nx, i, j),
        }
    }
}
