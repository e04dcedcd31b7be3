//! RRB-PCG: what surrounds the steps of PCG (`RrbSteps`), and what a backend has to offer (`RrbBackend`). Provided
//! bodies are the textbook.

use super::cycle::{Cycle, Recursion};
use super::pcg::PcgSteps;
use crate::backend::storage::Storage;
use crate::error::{Error, Result};
use crate::grid::components::Components;
use crate::grid::inspection::{Inspection, Questions};
use crate::grid::levels::Grid;
use crate::grid::outward::Outward;
use crate::grid::stencil::StencilView;
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

/// What the inputs of a solve look like.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// max |b|.
    pub rhs_max: f64,
    /// max |x|.
    pub guess_max: f64,
    /// First entry that is not finite: array, value, node.
    pub not_finite: Option<(&'static str, f64, usize, usize)>,
}

impl Inputs {
    /// Before anything was seen.
    pub fn none() -> Self {
        Self { rhs_max: 0.0, guess_max: 0.0, not_finite: None }
    }

    /// Notes a row: `largest` is its largest magnitude, NaN if any is.
    pub fn look_at_row(&mut self, name: &'static str, row: &[f64], largest: f64, j: usize, rhs: bool) {
        let max = if rhs { &mut self.rhs_max } else { &mut self.guess_max };
        *max = larger(*max, largest);
        if !largest.is_finite() {
            for (i, &value) in row.iter().enumerate() {
                self.look(name, value, i, j);
            }
        }
    }

    /// Adds what another member saw; rows in order, in a row the input before the output.
    pub fn merge(&mut self, other: &Self, input_name: &'static str) {
        self.rhs_max = larger(self.rhs_max, other.rhs_max);
        self.guess_max = larger(self.guess_max, other.guess_max);
        let order = |found: &(&'static str, f64, usize, usize)| (found.3, found.0 != input_name, found.2);
        self.not_finite = match (self.not_finite, other.not_finite) {
            (Some(a), Some(b)) => Some(if order(&b) < order(&a) { b } else { a }),
            (a, b) => a.or(b),
        };
    }

    /// Notes `value` if it is not finite and nothing was before.
    fn look(&mut self, name: &'static str, value: f64, i: usize, j: usize) {
        if !value.is_finite() && self.not_finite.is_none() {
            self.not_finite = Some((name, value, i, j));
        }
    }
}

/// The larger of two magnitudes; NaN if either is, so that no NaN passes for zero. By bit patterns, see
/// [`crate::runtime::reduce::max_abs`].
fn larger(a: f64, b: f64) -> f64 {
    f64::from_bits(a.to_bits().max(b.to_bits()))
}

/// Caller's arrays of one run: `input` is read (b, r or x), `output` is read as guess and written.
pub struct Arrays<'a> {
    /// Name of the input, for errors.
    pub input_name: &'static str,
    /// The one that is read.
    pub input: &'a [f64],
    /// Values from one row to the next, for both.
    pub ld: usize,
    /// The one that is written.
    pub output: &'a mut [f64],
    /// Addresses of arrays that are on a device; 0: the slice has the array. An array on a device has an empty slice.
    pub device_input: u64,
    /// The same of the output.
    pub device_output: u64,
    /// Values of each array.
    pub len: usize,
}

/// What a solve tests, before its norms are known, for backends that begin the loop of PCG before the host has seen
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// The tested norm is sqrt(r' M^-1 r), not the 2-norm.
    pub preconditioned: bool,
    /// Relative to the norm of the first residual, not of b.
    pub of_initial: bool,
    /// The tolerances.
    pub rel_tol: f64,
    /// As given: b and x are scaled.
    pub abs_tol: f64,
    /// Iterations at most.
    pub max_iter: usize,
    /// The recurred residual need be no smaller than this part of |b|.
    pub futile: f64,
    /// Norms of at most this part of max(|b|, 1) may have squares that vanish.
    pub vanishing: f64,
    /// In the preconditioned norm of S1, where <r1, r1> is at most the square of this part of |b|, the loop does not
    /// begin.
    pub baseless: f64,
    /// Where the threshold, over the scale, is below this, x is not given to the caller without a look of the host:
    /// small values may lose too much.
    pub lost: f64,
}

impl Criterion {
    /// The loop ends with a norm at most this.
    pub fn threshold(&self, reference: f64, scale: f64) -> f64 {
        (self.rel_tol * reference).max(self.abs_tol * scale)
    }

    /// `LoopTest::vanishing`, where nothing is singular.
    pub fn vanishing(&self, b: f64) -> f64 {
        self.vanishing * b.max(1.0)
    }
}

/// How a solve begins.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// <b, b> on the whole grid.
    pub rhs_norm2: f64,
    /// |b - A x|^2 on the whole grid.
    pub whole_residual_norm2: f64,
    /// <r, r>, where r of what CG works on is there.
    pub residual_norm2: Option<f64>,
}

/// What surrounds PCG: from the caller's arrays to the system that CG solves, and back.
pub trait RrbSteps: PcgSteps {
    /// Goes over to the V-cycle, until the next factorization, where the cycle was chosen and not asked for. Whether
    /// that changes anything.
    fn fall_back(&mut self) -> bool;
    /// Asks for `grid_seconds` of this run, for a benchmark.
    fn time_grids(&mut self) {}
    /// From here on a step does its own work and no other's, and the loop is left to the text, for a benchmark.
    fn one_by_one(&mut self) {}
    /// Returns when all steps called so far are done, for a benchmark: on a device they return before.
    fn finish(&mut self) {}
    /// Seconds of this member on the way down and up the levels of each grid, last those of the remainder. Empty where
    /// nobody asked, and on backends that do not keep them.
    fn grid_seconds(&self) -> &[[f64; 2]] {
        &[]
    }
    /// What the solve that follows will test, before `inspect`; not told where constants are projected out.
    fn expect(&mut self, _criterion: &Criterion) {}
    /// Looks at both arrays, or (`guess = false`) at the input alone.
    fn inspect(&mut self, guess: bool) -> Inputs;
    /// The scale to load with, where the largest entry of b would come to between one and two with `nearest`, a power
    /// of two. A larger power leaves the same iterates: a backend may stay with what it has begun with.
    fn scale(&self, nearest: f64) -> f64 {
        nearest
    }
    /// b = input * scale and, with `guess`, x = output * scale; else x = 0. Returns <b, b> on the whole grid.
    fn load(&mut self, scale: f64, guess: bool) -> f64;
    /// All that stands between `inspect` and PCG where nothing is singular and the 2-norm is tested: `load`, the
    /// residual of the guess, `reduce`. A backend that fuses them may have r, too, and what it leaves out of b it loads
    /// when a step asks for it.
    fn begin(&mut self, scale: f64, guess: bool) -> Begun {
        self.textbook_begin(scale, guess)
    }
    /// The body of `begin`.
    fn textbook_begin(&mut self, scale: f64, guess: bool) -> Begun {
        let rhs_norm2 = self.load(scale, guess);
        let whole_residual_norm2 = if guess { self.whole_residual_norm2() } else { rhs_norm2 };
        self.reduce();
        Begun { rhs_norm2, whole_residual_norm2, residual_norm2: None }
    }
    /// Sum of b and of |b| over the singular component with the largest ratio, and its number.
    fn worst_incompatibility(&mut self) -> (usize, f64, f64);
    /// b = b - mean(b) over every singular component.
    fn project_rhs(&mut self);
    /// CG runs on S1, with b1 in place of b at black nodes.
    fn eliminates(&self) -> bool;
    /// b = input * scale again, after `reduce`.
    fn load_rhs(&mut self, scale: f64);
    /// Remembers the mean of x over every singular component.
    fn keep_means(&mut self);
    /// <b, b> on the whole grid, after a projection.
    fn rhs_norm2(&mut self) -> f64;
    /// |b - A x|^2 on the whole grid: before `reduce`, or after `back_substitute` and `load_rhs`.
    fn whole_residual_norm2(&mut self) -> f64;
    /// |input * scale - A x|^2 on the whole grid after `back_substitute`; b is then as here, or as it was.
    fn returned_residual_norm2(&mut self, scale: f64) -> f64 {
        self.load_rhs(scale);
        self.whole_residual_norm2()
    }
    /// `back_substitute` and `returned_residual_norm2`, which return max |x| and |input * scale - A x|^2.
    fn complete(&mut self, scale: f64) -> (f64, f64) {
        self.textbook_complete(scale)
    }
    /// The body of `complete`.
    fn textbook_complete(&mut self, scale: f64) -> (f64, f64) {
        let largest = self.back_substitute();
        (largest, self.returned_residual_norm2(scale))
    }
    /// b = b - A x on the whole grid, where CG runs on S1, with the red values of x. Returns <b_r, D_r^-1 b_r>.
    fn rhs_to_residual(&mut self) -> f64;
    /// The square of the preconditioned norm of r = b - A x on the whole grid, after `back_substitute` and `load_rhs`:
    /// r'M^-1 r, and `constant_square` of what M^-1 does not see. Where CG runs on S1, what is left on red nodes is
    /// eliminated as b_r is: r_r'D_r^-1 r_r + r1'M^-1 r1 with r1 = r_b - A_br D_r^-1 r_r; b is spent. r is spent.
    fn whole_residual_square(&mut self) -> f64 {
        let mut on_red = 0.0;
        if self.eliminates() {
            on_red = self.rhs_to_residual();
            self.reduce();
            self.residual_from_rhs();
        } else {
            self.residual();
        }
        let constant = self.constant_square();
        self.descend(None);
        // M is definite: where singular, a constant that rounding has left may have any sign.
        on_red + constant + self.preconditioned_square().abs()
    }
    /// Sum over singular components of mean(r)^2 sum_i 1 / center_i, on the nodes that CG works on: the square of the
    /// part of r that is constant there, which P M^-1 P answers with zero, in the norm of D^-1. Zero where nothing is
    /// singular.
    fn constant_square(&mut self) -> f64;
    /// The same of r = input * scale - A x.
    fn returned_residual_square(&mut self, scale: f64) -> f64 {
        self.load_rhs(scale);
        self.whole_residual_square()
    }
    /// b1 = b_b - A_br D_r^-1 b_r (report, 2.10); nothing to do where CG runs on A.
    fn reduce(&mut self);
    /// The same of b loaded anew, with r as it is.
    fn reduce_again(&mut self) {
        self.reduce();
    }
    /// x_b = z, as `rrb_apply` wants it.
    fn take_z(&mut self);
    /// x_r = D_r^-1 (b_r - A_rb x_b), where CG does not run on A. Returns max |x|, NaN if any value is.
    fn back_substitute(&mut self) -> f64;
    /// Shifts x to the remembered means (`restore`), or to mean zero.
    fn shift_means(&mut self, restore: bool);
    /// x = 0.
    fn clear_solution(&mut self);
    /// max |x| after a shift, NaN if any value is.
    fn solution_max(&mut self) -> f64;
    /// output = x / scale.
    fn store(&mut self, scale: f64);
    /// x = A b, on the whole grid.
    fn multiply_rhs(&mut self);
    /// output = 0.
    fn store_zero(&mut self);
}

/// One text that all members of a team run.
pub type Program<'a> = &'a (dyn Fn(&mut dyn RrbSteps) -> Result<Outcome> + Sync);

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
}

/// A matrix with its RRB factorization.
pub trait RrbBackend: Send {
    /// Works on the caller's stream from now on; 0: on one of its own.
    fn use_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }
    /// Looks at a matrix before anything is made of it. `factorize` of the same matrix follows, or nothing.
    fn examine(&mut self, a: &StencilView, look: &Look, inspection: &mut Inspection) -> Result<()> {
        inspection.start(look.members)?;
        let shared = &*inspection;
        self.over_rows(a.grid, &|member, rows| shared.look(member, a, rows, &look.questions))?;
        inspection.finish(a, look.project)
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
    /// The cycle in use, and what its recursions were found to need.
    fn recursion(&self) -> Recursion;
    /// Bytes of all arrays in host memory.
    fn bytes(&self) -> usize;
    /// Bytes of all arrays in device memory.
    fn device_bytes(&self) -> usize {
        0
    }
    /// Ordinal of the device in use.
    fn device(&self) -> Option<i32> {
        None
    }
    /// Of the last run, seconds of copies between host and device.
    fn seconds_transfer(&self) -> f64 {
        0.0
    }
    /// Red eliminations in use, of those of `setup`, which is the last.
    fn levels(&self, setup: &Setup) -> usize {
        setup.levels
    }
    /// r1/r2/b1/b2 grids in use.
    fn grids(&self) -> usize;
    /// Members of the team.
    fn threads(&self) -> usize;
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
            let reason = format!(
                "pivot {:e} is not positive: rows sum to zero, and null_space=none leaves them singular",
                self.d
            );
            return Err(Error::matrix(reason, node.level, node.i, node.j));
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

/// The sentence about a refused pivot at node (i, j) of the finest grid.
pub fn refused_pivot(d: f64, center: f64, level: usize, i: usize, j: usize) -> Error {
    let (what, why) = if d > 0.0 && d.is_finite() {
        ("lost in rounding", "not positive definite in double precision, or needs compensation of positive couplings")
    } else if d.is_finite() {
        ("not positive", "not positive definite, or needs compensation of positive couplings")
    } else {
        ("not positive", "too large or too small for double precision in some entries")
    };
    Error::matrix(format!("pivot {d:e} is {what} (center {center:e}): the matrix is {why}"), level, i, j)
}

/// The sentence about a pivot that a short format cannot hold.
pub fn lost_pivot(d: f64, unit: f64, level: usize, i: usize, j: usize) -> Error {
    let reason =
        format!("pivot {d:e} is lost in a short format beside a largest center of about {unit:e}: use precision=f64");
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
}

impl PivotContext<'_> {
    /// The node at (i, j) of the finest grid, eliminated at `level`.
    pub fn node(&self, level: usize, (i, j): (usize, usize)) -> PivotNode {
        let center = self.a.center.row(j)[i];
        PivotNode { level, i, j, center, may_float: self.components.may_float(self.a.grid.nx, i, j) }
    }
}
