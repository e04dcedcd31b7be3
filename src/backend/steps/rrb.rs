//! RRB-PCG: what `factorize` is to build, and what a backend has to offer (`RrbBackend`).

use super::cycle::{Cycle, Kind};
use super::engine::Engine;
use super::pcg::Course;
use super::solve::{Arrays, Program};
use crate::backend::storage::Storage;
use crate::error::{Error, Result};
use crate::grid::anisotropy::anisotropy;
use crate::grid::components::Components;
use crate::grid::inspection::{Inspection, Questions};
use crate::grid::levels::Grid;
use crate::grid::outward::Outward;
use crate::grid::stencil::StencilView;
use crate::options::limits::SWITCH_ITERATIONS;
use crate::report::{Observer, Outcome};
use std::ops::Range;

/// Which nodes of a level take part in lumping (Ciarlet's M1, M2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lumping {
    /// Red nodes.
    Red,
    /// Red and black nodes.
    RedAndBlack,
}

/// What `factorize` is to build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Red eliminations, at most what the grid has.
    pub levels: usize,
    /// Fewer will do where what they leave is diagonal but for weak couplings: nobody has asked for so many. A backend
    /// whose small grids cost as much as large ones ends there.
    pub may_end: bool,
    /// Lumped nodes.
    pub lumping: Lumping,
    /// Relaxation omega.
    pub omega: f64,
    /// Move positive couplings to the diagonals in M.
    pub compensate: bool,
    /// r1/r2/b1/b2 grids, at most `levels / 2`.
    pub grids: usize,
    /// Row padding and border of those.
    pub block: usize,
    /// Row sums within this part of the center count as zero in M.
    pub zero_row_sum: f64,
    /// Fused stages, where the backend has them.
    pub fused: bool,
    /// Format of the stored preconditioner.
    pub storage: Storage,
    /// CG in single precision with residuals replaced in double precision: on S1, regular, with M in bf16.
    pub single: bool,
    /// Power of two near the largest center: short formats keep M / unit. One for f64.
    pub unit: f64,
    /// Where M recurses.
    pub cycle: Cycle,
    /// Aggregation in place of the levels.
    pub aggregation: Aggregation,
}

/// Bytes that aggregation takes while it is made, about, a node with 5 points and with 9: the hierarchy in double
/// precision, and the cycle, which stays; on a device both do.
const BYTES_OF_AGGREGATION: [usize; 2] = [150, 400];
const BYTES_ON_DEVICE: [usize; 2] = [400, 800];

/// And an entry of the inverse there, of so many unknowns at most.
const BYTES_OF_INVERSE: usize = 24;
pub const INVERTED_ON_DEVICE: usize = 1024;

/// Those of so many nodes.
pub fn bytes_of_aggregation(nodes: usize, nine_points: bool, on_device: bool) -> usize {
    let (bytes, inverted) = match on_device {
        true => (BYTES_ON_DEVICE, nodes.min(INVERTED_ON_DEVICE)),
        false => (BYTES_OF_AGGREGATION, 0),
    };
    nodes.saturating_mul(bytes[usize::from(nine_points)]).saturating_add(BYTES_OF_INVERSE * inverted * inverted)
}

/// What aggregation costs a backend, in iterations with the V-cycle in fused stages.
#[derive(Debug)]
pub struct CostOfAggregation {
    /// To make a hierarchy.
    pub setup: f64,
    /// To eliminate the levels that it takes the place of.
    pub levels: f64,
    /// An iteration with it.
    pub iteration: f64,
    /// What an iteration leaves of the residual.
    pub contraction: f64,
    /// Of an iteration in unfused stages, without it.
    pub unfused: f64,
}

/// Condition number of M^-1 A, M the levels, over the anisotropy of the matrix (`grid::anisotropy`). Iterations of the
/// suite (docs/benchmarks/hard-suite.md) fit 0.7 where the couplings of a direction are the same everywhere, 2 in
/// layers, 5 on grids stretched in both directions.
const CONDITION: f64 = 3.0;

/// What a solve is expected to come to, before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// What it is told by.
    pub anisotropy: f64,
    /// The residual that is wanted, relative.
    pub reduction: f64,
    /// With the levels.
    pub levels: Expected,
    /// With aggregation.
    pub aggregation: Expected,
}

/// Iterations of a solve, and its cost with that of the factorization, in iterations with the V-cycle in fused stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Of CG: with levels by sqrt(kappa) / 2 ln(2 / reduction).
    pub iterations: f64,
    /// Setup and iterations.
    pub cost: f64,
}

impl Prediction {
    /// Aggregation is expected to cost less.
    pub fn aggregates(&self) -> bool {
        self.aggregation.cost < self.levels.cost
    }
}

impl CostOfAggregation {
    /// Of a solve to this part of its first residual.
    pub fn predict(&self, anisotropy: f64, reduction: f64, fused: bool) -> Prediction {
        let own = if fused { 1.0 } else { self.unfused };
        let expected = |setup, iterations: f64, own| Expected { iterations, cost: setup + own * iterations };
        let levels = 0.5 * (CONDITION * anisotropy).sqrt() * (2.0 / reduction).ln();
        Prediction {
            anisotropy,
            reduction,
            levels: expected(self.levels, levels, own),
            aggregation: expected(self.setup, reduction.ln() / self.contraction.ln(), self.iteration),
        }
    }

    /// Whether to make one pays, where an iteration costs `own` with what is there.
    pub fn pays(&self, course: &Course, own: f64) -> bool {
        let iterations = (course.norm / course.threshold).ln() / -self.contraction.ln();
        course.iterations >= SWITCH_ITERATIONS
            && own * course.iterations_left() > self.setup + self.iteration * iterations
    }
}

/// What `factorize` is to do about aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aggregation {
    /// Nothing.
    Never,
    /// It may take the place of the levels in a solve that is slow with them, in this precision.
    IfSlow(Storage),
    /// No levels, but for the one that leaves S1.
    Instead,
}

impl Setup {
    /// CG runs on the Schur complement of the first level: 5 points, first elimination exact.
    pub fn on_schur_complement(&self, a: &StencilView) -> bool {
        a.corners.is_none() && !self.compensate && self.levels > 0
    }

    /// Weight of dropped couplings that are lost to the row sum: 1 - omega.
    pub fn lost(&self) -> f64 {
        1.0 - self.omega
    }

    /// Row sum of a row of A as M takes it: below `zero_row_sum` it is rounding, and zero.
    pub fn excess(&self, center: f64, couplings: f64) -> f64 {
        let excess = center + couplings;
        if excess.abs() <= self.zero_row_sum * center { 0.0 } else { excess }
    }

    /// A coupling of M as it is stored.
    pub fn kept(&self, coupling: f64) -> f64 {
        self.storage.round(coupling / self.unit) * self.unit
    }

    /// Part of the couplings between black nodes that stays: all in M1, none in M2.
    pub fn black_keeps(&self) -> f64 {
        if self.lumping == Lumping::Red { 1.0 } else { 0.0 }
    }
}

/// What the first look at a matrix is to heed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// What is asked of the entries.
    pub questions: Questions,
    /// Constants on singular components are to be projected out.
    pub project: bool,
    /// Members at most that share the rows.
    pub members: usize,
    /// Row padding and border of r1/r2/b1/b2 grids.
    pub block: usize,
    /// M may be stored in a short format.
    pub short: bool,
}

/// A matrix with 5 points: center, east, north, row by row.
pub type FivePoints = (Grid, [Vec<f64>; 3]);

/// Properties of a factorization.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Recursions of the cycle in use.
    pub kind: Kind,
    /// Red eliminations in use, with aggregation its coarse levels; none: those of the setup.
    pub levels: Option<usize>,
    /// Aggregation replaces the levels.
    pub aggregates: bool,
    /// Aggregates reused from the previous factorization, on all levels.
    pub aggregates_kept: usize,
    /// r1/r2/b1/b2 grids in use.
    pub grids: usize,
}

impl Report {
    /// The levels of the setup, in natural storage.
    pub const PLAIN: Self = Self { kind: Kind::V, levels: None, aggregates: false, aggregates_kept: 0, grids: 0 };
}

/// A matrix with its RRB factorization.
pub trait RrbBackend: Engine + Send {
    /// Other ranks or devices have rows of the grids: of what a matrix may be made, levels alone are offered.
    fn shares_grids(&self) -> bool {
        false
    }
    /// Looks at a matrix before anything is made of it. `factorize` of the same matrix follows, or nothing.
    fn examine(&mut self, a: &StencilView, look: &Look, inspection: &mut Inspection) -> Result<()> {
        inspection.start(look.members)?;
        let shared = &*inspection;
        self.over_rows(a.grid, &|member, rows| shared.look(member, a, rows, &look.questions))?;
        inspection.finish(a, look.project)
    }
    /// How much better one direction conducts than the other in that matrix, `zero_row_sum` as it was asked.
    fn anisotropy(&self, a: &StencilView, zero_row_sum: f64) -> f64 {
        anisotropy(a, zero_row_sum)
    }
    /// What aggregation costs on so many nodes, where a solve may go over to it.
    fn cost_of_aggregation(&self, _nodes: usize) -> Option<&'static CostOfAggregation> {
        None
    }
    /// Couplings of that matrix that point out of the grid.
    fn outward(&mut self, a: &StencilView) -> Result<Outward> {
        Ok(Outward::of(a))
    }
    /// Shares the rows of `grid` among the members: `work(member, rows)`, once for each that has rows, in
    /// ascending order of both. There are at most as many members as the backend was made for.
    fn over_rows(&mut self, grid: Grid, work: &(dyn Fn(usize, Range<usize>) + Sync)) -> Result<()> {
        work(0, 0..grid.ny);
        Ok(())
    }
    /// Other options are asked for: memory that the last ones wanted for matrices of another kind is of no more use.
    fn forget(&mut self) {}
    /// The last factorization goes, with its memory.
    fn release(&mut self) {}
    /// A = L D L^T + R. A second call with the same setup reuses all memory.
    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()>;
    /// `examine` and `factorize` in one reading of a matrix that is hoped to be like the last one, for the same setup.
    /// `false`: it is not, or this is not offered; nothing is said of the matrix, and none is factorized. Else the
    /// caller sees whether what was found asks for this setup.
    fn factorize_again(
        &mut self,
        _a: &StencilView,
        _look: &Look,
        _setup: &Setup,
        _inspection: &mut Inspection,
    ) -> Result<bool> {
        Ok(false)
    }
    /// Runs `program` on every member.
    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome>;
    /// What the last factorization has made.
    fn report(&self) -> Report;
    /// The last matrix, as it was given; `None` where it has 9 points or is not kept whole.
    fn matrix(&self) -> Result<Option<FivePoints>> {
        Ok(None)
    }
}

/// A node without kept couplings adds an eigenvalue of about center / pivot to M^-1 A: from ten on, its center
/// is the better pivot.
const ROW_SUM_WORTH: f64 = 0.1;

/// The pivot of a node that is eliminated (red, or b1) in excess form: after lumping, center = excess - sum of kept
/// couplings.
#[derive(Clone, Copy, Debug)]
pub struct Pivot {
    /// d.
    pub d: f64,
    /// Row sum after lumping: what the node hands to its black neighbours, times -a / d.
    pub excess: f64,
    /// s: d = s - sum of kept couplings.
    pub stored: f64,
    kept: f64,
}

impl Pivot {
    /// Lumps with weight omega (`lost` = 1 - omega) and eliminates (report, 2.12 and 2.13):
    /// C~ = C + omega * sum(lumped) = (excess - lost * sum(lumped)) - sum(kept).
    ///
    /// A node whose couplings are all lumped away (a channel one cell wide) would keep its row sum alone as
    /// pivot, which may be zero in a regular matrix. Where that is less than [`ROW_SUM_WORTH`] of the center,
    /// the node keeps its center instead, as with omega = 0.
    /// A node without any coupling and with excess exactly zero is the last one of a piece of M whose rows
    /// all sum to zero: any positive pivot will do (z is projected, or another piece carries the Dirichlet
    /// part), and the center of A has the right scale. It is the caller's business to refuse this where A
    /// itself is singular and nobody projects.
    #[inline(always)]
    pub fn new(excess: f64, kept: [f64; 4], lumped: f64, lost: f64) -> Self {
        let sum = Self::sum(kept);
        let lumped_excess = excess - lost * lumped;
        let center = excess - lumped;
        // Selects, not branches, for loops over rows.
        let none_kept = (kept[0] == 0.0) & (kept[1] == 0.0) & (kept[2] == 0.0) & (kept[3] == 0.0);
        let lone = none_kept & (lumped_excess < ROW_SUM_WORTH * center);
        let stored = if lone { center } else { lumped_excess };
        let kept = if lone { 0.0 } else { sum };
        Self { d: stored - kept, excess: if lone { excess } else { lumped_excess }, stored, kept }
    }

    #[inline(always)]
    fn sum(kept: [f64; 4]) -> f64 {
        (kept[0] + kept[1]) + (kept[2] + kept[3])
    }

    /// The node's center before lumping.
    #[inline(always)]
    pub fn center(excess: f64, kept: [f64; 4], lumped: f64) -> f64 {
        excess - Self::sum(kept) - lumped
    }

    /// The last pivots are kept in double precision: s - sum(kept).
    pub fn exact(excess: f64, kept: f64) -> Self {
        Self { d: excess - kept, excess, stored: excess, kept }
    }

    /// Whether d > eps * center.
    #[inline(always)]
    pub fn beyond_doubt(&self, center: f64) -> bool {
        (self.d > f64::EPSILON * center) & self.d.is_finite()
    }

    /// With s as it is stored.
    #[inline(always)]
    pub fn keep(self, stored: f64) -> Self {
        Self { d: stored - self.kept, stored, ..self }
    }

    /// The least pivot in a short format: sweeps in f32 divide by d / unit.
    pub fn least(unit: f64) -> f64 {
        unit * f64::from(f32::MIN_POSITIVE)
    }

    /// Refuses a pivot d <= eps * center, or replaces that of a floating piece. `node` looks the node up, for
    /// doubtful pivots only.
    pub fn accepted(mut self, center: f64, floating: bool, node: impl FnOnce() -> PivotNode) -> Result<Self> {
        if self.beyond_doubt(center) {
            return Ok(self);
        }
        let node = node();
        if floating && self.d == 0.0 && node.may_float {
            (self.d, self.stored) = (node.center, node.center);
            return Ok(self);
        }
        if !node.may_float && self.d.is_finite() {
            return Err(unprojected_pivot(self.d, node.level, node.i, node.j));
        }
        Err(refused_pivot(self.d, center, node.level, node.i, node.j))
    }

    /// The same, then rounds it to what is stored.
    pub fn checked(self, center: f64, floating: bool, setup: &Setup, node: impl Fn() -> PivotNode) -> Result<Self> {
        let exact = self.accepted(center, floating, &node)?;
        if setup.storage == Storage::F64 {
            return Ok(exact);
        }
        let rounded = exact.keep(setup.kept(exact.stored));
        if rounded.d < Self::least(setup.unit) {
            let node = node();
            return Err(lost_pivot(exact.d, setup.unit, node.level, node.i, node.j));
        }
        Ok(rounded)
    }
}

/// The sentence about the last pivot of a singular component that nobody projects.
pub fn unprojected_pivot(d: f64, level: usize, i: usize, j: usize) -> Error {
    let reason = format!(
        "pivot {d:e} at @ is not positive: the matrix is singular, and null_space=none does not project its null \
         space; use null_space=auto"
    );
    Error::matrix(reason, level, i, j)
}

/// The sentence about a refused pivot at node (i, j) of the finest grid.
pub fn refused_pivot(d: f64, center: f64, level: usize, i: usize, j: usize) -> Error {
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

/// The sentence about a pivot that a short format cannot hold.
pub fn lost_pivot(d: f64, unit: f64, level: usize, i: usize, j: usize) -> Error {
    let reason = format!(
        "pivot {d:e} at @ underflows in a short format relative to the largest center, about {unit:e}; use \
         precision=f64"
    );
    Error::matrix(reason, level, i, j)
}

/// Where a doubtful pivot lies on the finest grid.
#[derive(Clone, Copy, Debug)]
pub struct PivotNode {
    /// Level of its elimination.
    pub level: usize,
    /// Column.
    pub i: usize,
    /// Row.
    pub j: usize,
    /// Center of A there.
    pub center: f64,
    /// Not a singular component that is left unprojected.
    pub may_float: bool,
}

/// What backends look up on the finest grid when a pivot is doubtful.
pub struct PivotContext<'a> {
    /// The matrix.
    pub a: &'a StencilView<'a>,
    /// Its components.
    pub components: &'a Components,
    /// In place of the center of any node, where other ranks have some.
    pub center: Option<f64>,
}

impl<'a> PivotContext<'a> {
    /// Of a matrix that is here.
    pub fn new(a: &'a StencilView<'a>, components: &'a Components) -> Self {
        Self { a, components, center: None }
    }

    /// The node at (i, j) of the finest grid, eliminated at `level`.
    pub fn node(&self, level: usize, (i, j): (usize, usize)) -> PivotNode {
        let center = self.center.unwrap_or_else(|| self.a.center.row(j)[i]);
        PivotNode { level, i, j, center, may_float: self.components.may_float(self.a.grid.nx, i, j) }
    }
}
