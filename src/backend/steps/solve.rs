//! Steps before and after PCG in a solve (`SolveSteps`), for all families: from the caller's arrays to the system that
//! CG solves, and back. Provided bodies are the reference formulation.

use super::pcg::PcgSteps;
use super::vectors::{KrylovSteps, VectorId};
use crate::error::Result;
use crate::report::Outcome;

/// Magnitudes of the inputs of a solve.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// max |b|.
    pub rhs_max: f64,
    /// max |x|.
    pub guess_max: f64,
    /// First entry that is not finite: array name, value, column and row.
    pub not_finite: Option<(&'static str, f64, usize, usize)>,
}

impl Inputs {
    /// Returns the values for no inspected entries.
    pub fn none() -> Self {
        Self { rhs_max: 0.0, guess_max: 0.0, not_finite: None }
    }

    /// Adds a row. `largest` is its largest magnitude, or NaN if any value is NaN.
    pub fn look_at_row(&mut self, name: &'static str, row: &[f64], largest: f64, j: usize, rhs: bool) {
        let max = if rhs { &mut self.rhs_max } else { &mut self.guess_max };
        *max = larger(*max, largest);
        if !largest.is_finite() {
            for (i, &value) in row.iter().enumerate() {
                self.look(name, value, i, j);
            }
        }
    }

    /// Merges the values of another thread. The first entry is determined row by row, in a row the input before the
    /// output.
    pub fn merge(&mut self, other: &Self, input_name: &'static str) {
        self.rhs_max = larger(self.rhs_max, other.rhs_max);
        self.guess_max = larger(self.guess_max, other.guess_max);
        let order = |found: &(&'static str, f64, usize, usize)| (found.3, found.0 != input_name, found.2);
        self.not_finite = match (self.not_finite, other.not_finite) {
            (Some(a), Some(b)) => Some(if order(&b) < order(&a) { b } else { a }),
            (a, b) => a.or(b),
        };
    }

    /// Records `value` if it is the first value that is not finite.
    fn look(&mut self, name: &'static str, value: f64, i: usize, j: usize) {
        if !value.is_finite() && self.not_finite.is_none() {
            self.not_finite = Some((name, value, i, j));
        }
    }
}

/// Returns the larger of two magnitudes, or NaN if either is NaN, so that no NaN becomes zero. Compares bit patterns,
/// see [`crate::runtime::reduce::max_abs`].
fn larger(a: f64, b: f64) -> f64 {
    f64::from_bits(a.to_bits().max(b.to_bits()))
}

/// Caller's arrays of one run. `input` (b, r or x) is read; `output` is read as the initial guess and written.
pub struct Arrays<'a> {
    /// Name of the input in error messages.
    pub input_name: &'static str,
    /// Input array.
    pub input: &'a [f64],
    /// Leading dimension of both arrays, in values.
    pub ld: usize,
    /// Values from one plane to the next; unused in 2D.
    pub plane: usize,
    /// Output array.
    pub output: &'a mut [f64],
    /// Device address of the input; 0 if the slice contains the array. The slice of a device array is empty.
    pub device_input: u64,
    /// Device address of the output; 0 if the slice contains the array.
    pub device_output: u64,
    /// Length of each array, in values.
    pub len: usize,
    /// Grid row at which both arrays begin: 0, unless other ranks own the rows before.
    pub first_row: usize,
}

impl Arrays<'_> {
    /// Reborrows the arrays for one of several runs.
    pub fn again(&mut self) -> Arrays<'_> {
        Arrays { output: self.output, ..*self }
    }
}

/// Stopping test of a solve before its norms are known. Backends use it to begin the PCG loop before the host has the
/// norms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Tests sqrt(r' M^-1 r) instead of the 2-norm.
    pub preconditioned: bool,
    /// The reference is the norm of the first residual instead of the norm of b.
    pub of_initial: bool,
    /// Relative tolerance.
    pub rel_tol: f64,
    /// Absolute tolerance in the unit of the caller's b, before scaling.
    pub abs_tol: f64,
    /// Iteration limit.
    pub max_iter: usize,
    /// The threshold of the recurred residual is at least this fraction of |b|.
    pub futile: f64,
    /// Norms at most this fraction of max(|b|, 1) may have squares that underflow.
    pub vanishing: f64,
    /// With the preconditioned norm on S1, the loop does not begin if |r1| is at most this fraction of |b|.
    pub baseless: f64,
    /// If the threshold divided by the scale is below this value, the host checks x before x is stored. Rounding to
    /// subnormal numbers may then change the residual too much.
    pub lost: f64,
}

impl Criterion {
    /// Returns the largest norm that satisfies the stopping test.
    pub fn threshold(&self, reference: f64, scale: f64) -> f64 {
        (self.rel_tol * reference).max(self.abs_tol * scale)
    }

    /// Returns `Test::vanishing` for a regular system.
    pub fn vanishing(&self, b: f64) -> f64 {
        self.vanishing * b.max(1.0)
    }
}

/// Squared norms at the start of a solve.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// <b, b> on the whole grid.
    pub rhs_norm2: f64,
    /// |b - A x|^2 on the whole grid.
    pub whole_residual_norm2: f64,
    /// <r, r> of the residual of the system that CG solves; `None` if it is not computed yet.
    pub residual_norm2: Option<f64>,
}

/// Steps from the caller's arrays to the system that CG solves, and back.
pub trait SolveSteps: PcgSteps {
    /// Returns the steps of other Krylov methods, if the family has them.
    fn krylov(&mut self) -> Option<&mut dyn KrylovSteps> {
        None
    }
    /// Switches to the V-cycle until the next factorization, if the cycle was selected automatically. Returns whether
    /// this changes the preconditioner.
    fn fall_back(&mut self) -> bool {
        false
    }
    /// Makes M a fixed symmetric matrix from now on. Has an effect only if M depends on r and the backend has a fixed
    /// variant.
    fn be_linear(&mut self) {}
    /// Enables `grid_seconds` for this run, for a benchmark.
    fn time_grids(&mut self) {}
    /// Separates the steps from now on: no step does work of another step, and the host runs the loop. For a benchmark.
    fn one_by_one(&mut self) {}
    /// Waits until all previous steps have completed, for a benchmark. On a device, steps are asynchronous.
    fn finish(&mut self) {}
    /// Returns the seconds of this thread on each grid, for the sweeps down and up; the last entry is the coarsest
    /// system. Empty if not enabled, or if the backend does not measure them.
    fn grid_seconds(&self) -> &[[f64; 2]] {
        &[]
    }
    /// Sets the stopping test of the next solve; called before `inspect`. Not called if constants are projected out.
    fn expect(&mut self, _criterion: &Criterion) {}
    /// Inspects both arrays, or the input only if `guess` is false.
    fn inspect(&mut self, guess: bool) -> Inputs;
    /// Returns the scale for `load`. `nearest` is the power of two that scales max |b| to a value from 1 to below 2.
    /// Larger powers of two give the same iterates, so a backend may keep the scale with which it has started.
    fn scale(&self, nearest: f64) -> f64 {
        nearest
    }
    /// Sets b = input * scale and x = output * scale, or x = 0 without `guess`. Returns <b, b> on the whole grid.
    fn load(&mut self, scale: f64, guess: bool) -> f64;
    /// Computes all steps from `inspect` to PCG for a regular system and the 2-norm: `load`, the residual of the guess,
    /// and `reduce`. A backend that fuses them may also compute r. It may load the unused parts of b only when a step
    /// needs them.
    fn begin(&mut self, scale: f64, guess: bool) -> Begun {
        self.textbook_begin(scale, guess)
    }
    /// Reference formulation of `begin`.
    fn textbook_begin(&mut self, scale: f64, guess: bool) -> Begun {
        let rhs_norm2 = self.load(scale, guess);
        let whole_residual_norm2 = if guess { self.whole_residual_norm2() } else { rhs_norm2 };
        self.reduce();
        Begun { rhs_norm2, whole_residual_norm2, residual_norm2: None }
    }
    /// Returns the number of the singular component with the largest |sum b| / sum |b|, sum b, and sum |b|.
    fn worst_incompatibility(&mut self) -> (usize, f64, f64);
    /// Subtracts from b its mean over each singular component.
    fn project_rhs(&mut self);
    /// Returns whether CG runs on a reduced system: S1, with b1 instead of b on black nodes.
    fn eliminates(&self) -> bool {
        false
    }
    /// Returns whether `back_substitute` completes x. The residual of CG is then not the residual of the caller's
    /// matrix.
    fn completes(&self) -> bool {
        self.eliminates()
    }
    /// Sets b = input * scale again, after `reduce`.
    fn load_rhs(&mut self, scale: f64);
    /// Stores the mean of x over each singular component.
    fn keep_means(&mut self);
    /// Returns |b - A x|^2 on the whole grid. Called before `reduce`, or after `back_substitute` and `load_rhs`.
    fn whole_residual_norm2(&mut self) -> f64;
    /// Returns |input * scale - A x|^2 on the whole grid, after `back_substitute`. Whether b is reloaded depends on the
    /// backend.
    fn returned_residual_norm2(&mut self, scale: f64) -> f64 {
        self.load_rhs(scale);
        self.whole_residual_norm2()
    }
    /// Runs `back_substitute` and `returned_residual_norm2`. Returns max |x| and |input * scale - A x|^2.
    fn complete(&mut self, scale: f64) -> (f64, f64) {
        self.textbook_complete(scale)
    }
    /// Reference formulation of `complete`.
    fn textbook_complete(&mut self, scale: f64) -> (f64, f64) {
        let largest = self.back_substitute();
        (largest, self.returned_residual_norm2(scale))
    }
    /// Sets b = b - A x on the whole grid, if CG runs on S1 and x includes its red values. Returns <b_r, D_r^-1 b_r>.
    fn rhs_to_residual(&mut self) -> f64 {
        0.0
    }
    /// Returns the squared preconditioned norm of r = b - A x on the whole grid, after `back_substitute` and
    /// `load_rhs`. The value is r'M^-1 r, or r'P M^-1 P r + `Centered::removed` if constants are projected out
    /// (`projects`).
    ///
    /// If CG runs on S1, the value is r_r'D_r^-1 r_r + r1'M^-1 r1 with r1 = r_b - A_br D_r^-1 r_r (docs/theory/rrb.md,
    /// stopping test). Overwrites r, and b if CG runs on S1.
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
        // M is definite, so a negative value is rounding error: in a singular system, a constant that rounding left in
        // r.
        on_red + constant + self.preconditioned_square().abs()
    }
    /// Returns `whole_residual_square` for r = input * scale - A x without projection.
    fn returned_residual_square(&mut self, scale: f64) -> f64 {
        self.load_rhs(scale);
        self.whole_residual_square(false)
    }
    /// Computes b1 = b_b - A_br D_r^-1 b_r (report 16-06, equation 2.10); no effect if CG runs on A.
    fn reduce(&mut self) {}
    /// Computes `reduce` for a reloaded b and leaves r unchanged.
    fn reduce_again(&mut self) {
        self.reduce();
    }
    /// Computes x_r = D_r^-1 (b_r - A_rb x_b), unless CG runs on A. Returns max |x|, or NaN if any value is NaN.
    fn back_substitute(&mut self) -> f64;
    /// Shifts x on each singular component to the stored mean (`restore`), or to mean zero.
    fn shift_means(&mut self, restore: bool);
    /// Stores output = x / scale.
    fn store(&mut self, scale: f64);
    /// Stores output = 0. Overwrites x.
    fn store_zero(&mut self) {
        self.clear(VectorId::X);
        self.store(1.0);
    }
    /// Computes x = A b on the whole grid.
    fn multiply_rhs(&mut self);
}

/// Function that all threads of a team run.
pub type Program<'a> = &'a (dyn Fn(&mut dyn SolveSteps) -> Result<Outcome> + Sync);
