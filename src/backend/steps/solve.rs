//! What surrounds the steps of PCG in a solve (`SolveSteps`), for any family: from the caller's arrays to the system
//! that CG works on, and back. Provided bodies are the textbook.

use super::pcg::PcgSteps;
use super::vectors::{KrylovSteps, VectorId};
use crate::error::Result;
use crate::report::Outcome;

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
    /// Values from one plane to the next; 2D has one.
    pub plane: usize,
    /// The one that is written.
    pub output: &'a mut [f64],
    /// Addresses of arrays that are on a device; 0: the slice has the array. An array on a device has an empty slice.
    pub device_input: u64,
    /// The same of the output.
    pub device_output: u64,
    /// Values of each array.
    pub len: usize,
    /// The row that both begin with: 0, but where other ranks have the rows before.
    pub first_row: usize,
}

impl Arrays<'_> {
    /// The same, for one run of several.
    pub fn again(&mut self) -> Arrays<'_> {
        Arrays { output: self.output, ..*self }
    }
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
pub trait SolveSteps: PcgSteps {
    /// The steps of methods beside PCG, in families that have them.
    fn krylov(&mut self) -> Option<&mut dyn KrylovSteps> {
        None
    }
    /// Goes over to the V-cycle, until the next factorization, where the cycle was chosen and not asked for. Whether
    /// that changes anything.
    fn fall_back(&mut self) -> bool {
        false
    }
    /// M is to be the same symmetric matrix for every r from here on, where it is not by itself and the backend has
    /// one.
    fn be_linear(&mut self) {}
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
    /// CG runs on a smaller system (S1, with b1 in place of b at black nodes).
    fn eliminates(&self) -> bool {
        false
    }
    /// x of CG is completed in the end (`back_substitute`): the residual of CG is not that of the caller's matrix.
    fn completes(&self) -> bool {
        self.eliminates()
    }
    /// b = input * scale again, after `reduce`.
    fn load_rhs(&mut self, scale: f64);
    /// Remembers the mean of x over every singular component.
    fn keep_means(&mut self);
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
    fn rhs_to_residual(&mut self) -> f64 {
        0.0
    }
    /// The square of the preconditioned norm of r = b - A x on the whole grid, after `back_substitute` and `load_rhs`:
    /// r'M^-1 r, or where constants are projected out (`projects`) r'P M^-1 P r + `Centered::removed`. Where CG runs on
    /// S1, what is left on red nodes is eliminated as b_r is: r_r'D_r^-1 r_r + r1'M^-1 r1 with r1 = r_b - A_br D_r^-1
    /// r_r; b is spent. r is spent.
    fn whole_residual_square(&mut self, projects: bool) -> f64 {
        let mut on_red = 0.0;
        if self.eliminates() {
            on_red = self.rhs_to_residual();
            self.reduce();
            self.residual_from_rhs();
        } else {
            self.residual();
        }
        let constant = if projects { self.center_residual().removed } else { 0.0 };
        self.descend(None);
        // M is definite: where singular, a constant that rounding has left may have any sign.
        on_red + constant + self.preconditioned_square().abs()
    }
    /// `whole_residual_square` of r = input * scale - A x, where nothing is projected.
    fn returned_residual_square(&mut self, scale: f64) -> f64 {
        self.load_rhs(scale);
        self.whole_residual_square(false)
    }
    /// b1 = b_b - A_br D_r^-1 b_r (report, 2.10); nothing to do where CG runs on A.
    fn reduce(&mut self) {}
    /// The same of b loaded anew, with r as it is.
    fn reduce_again(&mut self) {
        self.reduce();
    }
    /// x_r = D_r^-1 (b_r - A_rb x_b), where CG does not run on A. Returns max |x|, NaN if any value is.
    fn back_substitute(&mut self) -> f64;
    /// Shifts x to the remembered means (`restore`), or to mean zero.
    fn shift_means(&mut self, restore: bool);
    /// output = x / scale.
    fn store(&mut self, scale: f64);
    /// output = 0. x is spent.
    fn store_zero(&mut self) {
        self.clear(VectorId::X);
        self.store(1.0);
    }
    /// x = A b, on the whole grid.
    fn multiply_rhs(&mut self);
}

/// One text that all members of a team run.
pub type Program<'a> = &'a (dyn Fn(&mut dyn SolveSteps) -> Result<Outcome> + Sync);
