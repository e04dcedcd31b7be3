//! Interface of the backends of RRB-PCG (`RrbBackend`), parameters of `factorize`, and computation of pivots
//! (docs/theory/rrb.md).

use crate::base::engine::Engine;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::krylov::state::State;
use crate::options::limits::SWITCH_ITERATIONS;
use crate::report::{Observer, Outcome};
use crate::rrb::anisotropy::anisotropy;
use crate::rrb::recursion::{Cycle, Kind};
use crate::rrb::storage::Storage;
use crate::stencil::components::Components;
use crate::stencil::inspection::{Inspection, InspectionOptions};
use crate::stencil::levels::Grid;
use crate::stencil::matrix::StencilView;
use crate::stencil::outward::Outward;
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
    /// if the caller requested neither a number of levels nor `cycle=amli`. Only devices use this flag, because a small
    /// grid costs as much time there as a larger one.
    pub may_truncate: bool,
    /// Variant of lumping.
    pub lumping: Lumping,
    /// omega, the fraction of the dropped couplings that is added to the diagonal.
    pub omega: f64,
    /// Whether M is built from A-hat, the matrix A with positive couplings added to the diagonals (compensation).
    pub compensate: bool,
    /// Number of grids that store the colours r1, r2, b1, b2 in separate arrays; at most `levels / 2`.
    pub grids: usize,
    /// Rows of these grids are padded to a multiple of this number of values. It is also the width of their border.
    pub block: usize,
    /// Row sums of magnitude at most `zero_row_sum` times the center are set to zero in M.
    pub zero_row_sum: f64,
    /// Whether fused stages are used, if the backend has them.
    pub fused: bool,
    /// Storage format of the preconditioner.
    pub storage: Storage,
    /// Largest power of two up to the largest center; f32 and bf16 store M / unit. The unit is 1 with f64. It is also 1
    /// if aggregation replaces the levels from the start.
    pub unit: f64,
    /// Parameters of the cycle.
    pub cycle: Cycle,
    /// Use of aggregation instead of the levels.
    pub aggregation: Aggregation,
}

/// Approximate memory for aggregation in bytes per node, with 5 and with 9 points. It includes the hierarchy in double
/// precision, which only the setup needs, and the cycle. On a device (`BYTES_ON_DEVICE`), the hierarchy is not freed
/// after the setup.
const BYTES_OF_AGGREGATION: [usize; 2] = [150, 400];
const BYTES_ON_DEVICE: [usize; 2] = [400, 800];

/// Memory for the inverse of the coarsest system on a device, in bytes per entry.
const BYTES_OF_INVERSE: usize = 24;
/// Largest number of rows of a coarsest system of aggregation that a device inverts.
pub const INVERTED_ON_DEVICE: usize = 1024;

/// Returns the approximate memory that aggregation needs for `nodes` nodes, in bytes.
pub fn bytes_of_aggregation(nodes: usize, nine_points: bool, on_device: bool) -> usize {
    let (bytes, inverted) = match on_device {
        true => (BYTES_ON_DEVICE, nodes.min(INVERTED_ON_DEVICE)),
        false => (BYTES_OF_AGGREGATION, 0),
    };
    nodes.saturating_mul(bytes[usize::from(nine_points)]).saturating_add(BYTES_OF_INVERSE * inverted * inverted)
}

/// Costs of aggregation on a backend, in multiples of the time of one CG iteration with a fused V-cycle
/// (docs/theory/aggregation.md, cost model).
#[derive(Debug)]
pub struct CostOfAggregation {
    /// Setup of a hierarchy.
    pub setup: f64,
    /// Factorization of the levels that the hierarchy replaces.
    pub levels: f64,
    /// One iteration with aggregation.
    pub iteration: f64,
    /// Assumed ratio of the residual norms after and before an iteration with aggregation.
    pub contraction: f64,
    /// One CG iteration with an unfused V-cycle.
    pub unfused: f64,
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
    /// Wanted ratio of the final to the first residual norm.
    pub reduction: f64,
    /// Prediction with the levels.
    pub levels: Expected,
    /// Prediction with aggregation.
    pub aggregation: Expected,
}

/// Predicted iteration count and cost of a factorization with one solve. The unit of cost is one CG iteration with a
/// fused V-cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Number of CG iterations. With levels, it is (sqrt(kappa) / 2) ln(2 / reduction), where kappa =
    /// `CONDITION_PER_ANISOTROPY` times the anisotropy is the condition number of M^-1 A. With aggregation, it is
    /// ln(reduction) / ln(contraction).
    pub iterations: f64,
    /// Cost of setup and iterations.
    pub cost: f64,
}

impl Prediction {
    /// Returns whether aggregation has the lower predicted cost.
    pub fn aggregates(&self) -> bool {
        self.aggregation.cost < self.levels.cost
    }
}

impl CostOfAggregation {
    /// Predicts the cost of a solve that reduces the residual norm to `reduction` times its first value. `fused`:
    /// whether the iterations with the levels are fused.
    pub fn predict(&self, anisotropy: f64, reduction: f64, fused: bool) -> Prediction {
        let own = if fused { 1.0 } else { self.unfused };
        let expected = |setup, iterations: f64, own| Expected { iterations, cost: setup + own * iterations };
        let levels = 0.5 * (CONDITION_PER_ANISOTROPY * anisotropy).sqrt() * (2.0 / reduction).ln();
        Prediction {
            anisotropy,
            reduction,
            levels: expected(self.levels, levels, own),
            aggregation: expected(self.setup, reduction.ln() / self.contraction.ln(), self.iteration),
        }
    }

    /// Returns whether a switch to aggregation in state `at` of a solve reduces the remaining cost; `false` in the
    /// first [`SWITCH_ITERATIONS`] iterations. `own` is the cost of an iteration with the current preconditioner.
    pub fn is_worthwhile(&self, at: &State, own: f64) -> bool {
        let iterations = (at.norm / at.test.threshold).ln() / -self.contraction.ln();
        at.since_start() >= SWITCH_ITERATIONS && own * at.iterations_left() > self.setup + self.iteration * iterations
    }
}

/// Use of aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// No aggregation.
    Never,
    /// Aggregation may replace the levels during a solve that converges slowly; the cycle of aggregation then uses this
    /// storage format.
    IfSlow(Storage),
    /// Aggregation replaces all levels from the start, except the first level, whose elimination produces S1.
    FromStart,
}

impl Setup {
    /// Returns whether CG runs on the Schur complement S1 of the first level. This requires at least one level, and a
    /// 5-point matrix without compensation, for which the first elimination is exact.
    pub fn on_schur_complement(&self, a: &StencilView) -> bool {
        a.corners.is_none() && !self.compensate && self.levels > 0
    }

    /// Returns 1 - omega, the fraction of the dropped couplings that is not added to the diagonal. The row sum of M
    /// changes by this fraction of the dropped couplings.
    pub fn one_minus_omega(&self) -> f64 {
        1.0 - self.omega
    }

    /// Returns the row sum that M uses for a row of A; `couplings` is the sum of its couplings. A row sum of magnitude
    /// at most `zero_row_sum` times the center is rounding error and becomes zero.
    pub fn excess(&self, center: f64, couplings: f64) -> f64 {
        let excess = center + couplings;
        if excess.abs() <= self.zero_row_sum * center { 0.0 } else { excess }
    }

    /// Returns a coupling of M rounded to the storage format.
    pub fn rounded(&self, coupling: f64) -> f64 {
        self.storage.round(coupling / self.unit) * self.unit
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
    /// Checks of the entries.
    pub checks: InspectionOptions,
    /// Whether the solve projects out the constants on singular components.
    pub project: bool,
    /// Maximum number of threads among which the rows are divided.
    pub threads: usize,
    /// Rows of grids stored by colour are padded to a multiple of this number of values. It is also the width of their
    /// border.
    pub block: usize,
    /// Whether M may be stored in f32 or bf16.
    pub may_store_short: bool,
}

/// Matrix with a 5-point stencil: the grid, and the arrays center, east and north, stored row by row.
pub type FivePoints = (Grid, [Vec<f64>; 3]);

/// Properties of a factorization.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Kind of the cycle in use.
    pub kind: Kind,
    /// Number of levels in use, or of coarse levels with aggregation. `None`: the number in [`Setup`] is in use.
    pub levels: Option<usize>,
    /// Whether aggregation replaces the levels.
    pub aggregates: bool,
    /// Number of aggregates that were reused from the previous factorization, on all levels.
    pub aggregates_kept: usize,
    /// Number of grids that are stored by colour, in separate arrays for r1, r2, b1 and b2.
    pub grids: usize,
}

impl Report {
    /// Report of a V-cycle with the levels of the setup, in natural storage.
    pub const PLAIN: Self = Self { kind: Kind::V, levels: None, aggregates: false, aggregates_kept: 0, grids: 0 };
}

/// Backend with a matrix and its RRB factorization.
pub trait RrbBackend: Engine + Send {
    /// Returns whether other ranks or devices own rows of the grids. Such a backend does not offer aggregation.
    fn shares_grids(&self) -> bool {
        false
    }
    /// Inspects a matrix before its factorization, and stores the results in `inspection`. The caller next calls
    /// `factorize` for the same matrix, or stops.
    fn examine(
        &mut self,
        a: &StencilView,
        inspection_setup: &InspectionSetup,
        inspection: &mut Inspection,
    ) -> Result<()> {
        inspection.start(inspection_setup.threads)?;
        let shared = &*inspection;
        self.over_rows(a.grid, &|member, rows| shared.inspect(member, a, rows, &inspection_setup.checks))?;
        inspection.finish(a, inspection_setup.project)
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
    fn outward(&mut self, a: &StencilView) -> Result<Outward> {
        Ok(Outward::of(a))
    }
    /// Divides the rows of `grid` among the threads, in the order of the rows. Calls `work(thread, rows)` once for
    /// every thread that has rows. The number of threads is at most the number for which the backend was created.
    fn over_rows(&mut self, grid: Grid, work: &(dyn Fn(usize, Range<usize>) + Sync)) -> Result<()> {
        work(0, 0..grid.ny);
        Ok(())
    }
    /// Frees the memory that is kept for matrices with other options. The caller calls it when options have changed.
    fn release_spare(&mut self) {}
    /// Discards the last factorization and frees its memory.
    fn release(&mut self) {}
    /// Computes A = L D L^T + R, where M = L D L^T is the preconditioner and R the difference between A and M. A second
    /// call with the same setup reuses all memory. Returns an error for the first rejected pivot.
    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()>;
    /// Runs `examine` and `factorize` in one pass over the matrix, on the assumption that the structure and the setup
    /// of the previous matrix still apply. Returns `false` if the assumption fails or the backend does not support it;
    /// `inspection` is then unspecified, and the previous factorization must not be used any longer. After `true`, the
    /// caller checks whether the inspection results fit this setup.
    fn factorize_again(
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
    fn matrix(&self) -> Result<Option<FivePoints>> {
        Ok(None)
    }
}

/// A node whose couplings are all dropped adds an eigenvalue of about center / pivot to M^-1 A. If this ratio would
/// exceed 10, that is, if the pivot is below this fraction of the center, the center is used as the pivot.
const MIN_ROW_SUM_FRACTION: f64 = 0.1;

/// Pivot of an eliminated node (red, or b1) in row-sum form. After lumping, the pivot is the row sum minus the sum of
/// the kept couplings.
#[derive(Clone, Copy, Debug)]
pub struct Pivot {
    /// Pivot d.
    pub d: f64,
    /// Row sum s~ after lumping. The elimination adds -a / d times this value to the row sum of a remaining neighbour,
    /// where a is the coupling to this neighbour.
    pub excess: f64,
    /// Row sum s as the sweeps in f32 read it: d = s - sum of kept couplings.
    pub stored: f64,
    kept: f64,
}

impl Pivot {
    /// Lumps with weight omega and computes the pivot (report 16-06, equations 2.12 and 2.13):
    ///
    /// d = c + omega * sum(lumped) = (excess - (1 - omega) * sum(lumped)) - sum(kept), with the row sum `excess` and
    /// the center c. The argument `lumped` is sum(lumped).
    ///
    /// If all couplings of a node are lumped, as in a channel that is one cell wide, this formula makes the row sum
    /// alone the pivot. The row sum may be zero even in a regular matrix. If it is less than [`MIN_ROW_SUM_FRACTION`]
    /// times the center, the center becomes the pivot, as with omega = 0.
    ///
    /// A node without couplings and with a row sum of exactly zero is the last node of a component of M with zero row
    /// sums. This function then returns d = 0. [`Pivot::accepted`] replaces d by the center of A, which has a suitable
    /// magnitude; any positive pivot is correct. If A is singular, the constant is projected out of z. If A is regular,
    /// lumping has removed the couplings of the component to Dirichlet rows from M, but A has them. If A is singular
    /// and its constants are not projected out, [`Pivot::accepted`] rejects the pivot.
    #[inline(always)]
    pub fn new(excess: f64, kept: [f64; 4], lumped: f64, one_minus_omega: f64) -> Self {
        let sum = Self::sum(kept);
        let lumped_excess = excess - one_minus_omega * lumped;
        let center = excess - lumped;
        // The code selects values instead of branching, so that the compiler vectorizes loops over a row.
        let none_kept = (kept[0] == 0.0) & (kept[1] == 0.0) & (kept[2] == 0.0) & (kept[3] == 0.0);
        let lone = none_kept & (lumped_excess < MIN_ROW_SUM_FRACTION * center);
        let stored = if lone { center } else { lumped_excess };
        let kept = if lone { 0.0 } else { sum };
        Self { d: stored - kept, excess: if lone { excess } else { lumped_excess }, stored, kept }
    }

    #[inline(always)]
    fn sum(kept: [f64; 4]) -> f64 {
        (kept[0] + kept[1]) + (kept[2] + kept[3])
    }

    /// Returns the center of the node before lumping.
    #[inline(always)]
    pub fn center(excess: f64, kept: [f64; 4], lumped: f64) -> f64 {
        excess - Self::sum(kept) - lumped
    }

    /// Returns the pivot of a node of the coarsest system, which is stored in double precision: d = s - sum(kept).
    pub fn exact(excess: f64, kept: f64) -> Self {
        Self { d: excess - kept, excess, stored: excess, kept }
    }

    /// Returns whether the pivot needs no further checks: d > eps * center, and d is finite.
    #[inline(always)]
    pub fn needs_no_check(&self, center: f64) -> bool {
        (self.d > f64::EPSILON * center) & self.d.is_finite()
    }

    /// Replaces s by its rounded value, and recomputes d from it.
    #[inline(always)]
    pub fn with_stored(self, stored: f64) -> Self {
        Self { d: stored - self.kept, stored, ..self }
    }

    /// Returns the smallest pivot that f32 and bf16 allow, since sweeps in f32 divide by d / unit.
    pub fn least(unit: f64) -> f64 {
        unit * f64::from(f32::MIN_POSITIVE)
    }

    /// Rejects a pivot that is at most eps * center or is not finite; `center` is the center of M at the node before
    /// lumping. A pivot of zero is instead replaced by the center of A if the node is the last one of a component of M
    /// (`floating`: it has no couplings to remaining nodes) and [`PivotNode::may_replace_zero_pivot`] is set. `node`
    /// returns the location of the node, and is called only if the pivot is rejected or replaced.
    pub fn accepted(mut self, center: f64, floating: bool, node: impl FnOnce() -> PivotNode) -> Result<Self> {
        if self.needs_no_check(center) {
            return Ok(self);
        }
        let node = node();
        if floating && self.d == 0.0 && node.may_replace_zero_pivot {
            (self.d, self.stored) = (node.center, node.center);
            return Ok(self);
        }
        if !node.may_replace_zero_pivot && self.d.is_finite() {
            return Err(unprojected_pivot(self.d, node.level, node.i, node.j));
        }
        Err(rejected_pivot(self.d, center, node.level, node.i, node.j))
    }

    /// Checks the pivot like `accepted`, then rounds it to the storage format. Rejects a rounded pivot below
    /// [`Pivot::least`].
    pub fn checked(self, center: f64, floating: bool, setup: &Setup, node: impl Fn() -> PivotNode) -> Result<Self> {
        let exact = self.accepted(center, floating, &node)?;
        if setup.storage == Storage::F64 {
            return Ok(exact);
        }
        let rounded = exact.with_stored(setup.rounded(exact.stored));
        if rounded.d < Self::least(setup.unit) {
            let node = node();
            return Err(underflowing_pivot(exact.d, setup.unit, node.level, node.i, node.j));
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
    let (what, why) = if d > 0.0 && d.is_finite() {
        let why = "not positive definite in double precision, or needs compensation of positive couplings";
        ("below the rounding level", why)
    } else if d.is_finite() {
        ("not positive", "not positive definite, or needs compensation of positive couplings")
    } else {
        ("not positive", "too large or too small for double precision in some entries")
    };
    Error::matrix(format!("pivot {d:e} at @ is {what} (center {center:e}): the matrix is {why}"), level, i, j)
}

/// Returns the error for a pivot that is too small for f32 or bf16.
pub fn underflowing_pivot(d: f64, unit: f64, level: usize, i: usize, j: usize) -> Error {
    let reason = format!(
        "pivot {d:e} at @ underflows in a short format relative to the largest center, about {unit:e}; use \
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
    pub center: Option<f64>,
}

impl<'a> PivotContext<'a> {
    /// Creates the context of a matrix whose centers are all on this rank.
    pub fn new(a: &'a StencilView<'a>, components: &'a Components) -> Self {
        Self { a, components, center: None }
    }

    /// Returns the location of node (i, j) of the finest grid, which `level` eliminates.
    pub fn node(&self, level: usize, (i, j): (usize, usize)) -> PivotNode {
        let center = self.center.unwrap_or_else(|| self.a.center.row(j)[i]);
        PivotNode {
            level,
            i,
            j,
            center,
            may_replace_zero_pivot: self.components.may_replace_zero_pivot(self.a.grid.nx, i, j),
        }
    }
}
