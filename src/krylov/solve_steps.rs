//! Steps before and after PCG in a solve (`SolveSteps`), for all families: from the user's arrays to the system that CG
//! solves, and back. The provided bodies of `SolveSteps` are the reference formulation.

use super::pcg::PcgSteps;
use super::vectors::KrylovSteps;
use crate::error::Result;
use crate::report::Outcome;

/// Result of the inspection of the user's arrays at the start of a solve.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// max |b|.
    pub rhs_max: f64,
    /// max |x|.
    pub guess_max: f64,
    /// First entry that is not finite: array name, value, column and row.
    pub not_finite: Option<(&'static str, f64, usize, usize)>,
    /// Scale of b and x if the backend has already begun the solve; `None` if the backend has not begun the solve.
    pub scale: Option<f64>,
}

impl Inputs {
    /// Returns the value after an error. The NaN ends the solve.
    pub fn failed() -> Self {
        Self { rhs_max: f64::NAN, ..Self::uninspected() }
    }

    /// Returns the value before any entry is inspected.
    pub fn uninspected() -> Self {
        Self { rhs_max: 0.0, guess_max: 0.0, not_finite: None, scale: None }
    }

    /// Updates the magnitudes and `not_finite` with row `j` of the array `name`, which is the input if `is_rhs` is true
    /// and the guess otherwise. `row_max` is the largest magnitude in the row, or NaN if any value is NaN.
    pub fn inspect_row(&mut self, name: &'static str, row: &[f64], row_max: f64, j: usize, is_rhs: bool) {
        let recorded_max = if is_rhs { &mut self.rhs_max } else { &mut self.guess_max };
        *recorded_max = larger_magnitude(*recorded_max, row_max);
        if !row_max.is_finite() {
            for (i, &value) in row.iter().enumerate() {
                self.inspect(name, value, i, j);
            }
        }
    }

    /// Merges the inspection result of another thread. If both threads have found an entry that is not finite, the
    /// entry in the earlier row remains. Within a row, an entry of the input precedes an entry of the output.
    pub fn merge(&mut self, other: &Self, input_name: &'static str) {
        self.rhs_max = larger_magnitude(self.rhs_max, other.rhs_max);
        self.guess_max = larger_magnitude(self.guess_max, other.guess_max);
        let entry_position = |entry: &(&'static str, f64, usize, usize)| (entry.3, entry.0 != input_name, entry.2);
        self.not_finite = match (self.not_finite, other.not_finite) {
            (Some(a), Some(b)) => Some(if entry_position(&b) < entry_position(&a) { b } else { a }),
            (a, b) => a.or(b),
        };
    }

    /// Records `value` if it is the first value that is not finite.
    fn inspect(&mut self, name: &'static str, value: f64, i: usize, j: usize) {
        if !value.is_finite() && self.not_finite.is_none() {
            self.not_finite = Some((name, value, i, j));
        }
    }
}

/// Returns the larger of two magnitudes, or NaN if either is NaN, which `f64::max` would ignore. Compares bit patterns,
/// see [`crate::base::reduce::max_abs`].
fn larger_magnitude(a: f64, b: f64) -> f64 {
    f64::from_bits(a.to_bits().max(b.to_bits()))
}

/// User's arrays of one call. `input` (b, r or x) is read. `output` (x, z or y) is written; a solve first reads it as
/// the initial guess.
pub struct Arrays<'a> {
    /// Name of the input in error messages.
    pub input_name: &'static str,
    /// Input array.
    pub input: &'a [f64],
    /// Leading dimension of both arrays, in values.
    pub ld: usize,
    /// Distance of consecutive planes, in values; unused in 2D.
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
    pub fn reborrow(&mut self) -> Arrays<'_> {
        Arrays { output: self.output, ..*self }
    }
}

/// Parameters from which the stopping test of a solve is computed once the norms of b and of the first residual are
/// known. With these parameters, a device can begin the PCG loop before the host has received the norms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Tests sqrt(r' M^-1 r) instead of the 2-norm.
    pub is_preconditioned_norm: bool,
    /// The reference is the norm of the first residual instead of the norm of b.
    pub is_reference_initial: bool,
    /// Relative tolerance.
    pub rel_tol: f64,
    /// Absolute tolerance for the residual of the user's system, before b and x are multiplied by the scale.
    pub abs_tol: f64,
    /// Iteration limit.
    pub max_iter: usize,
    /// The threshold of the recurred residual is at least this fraction of the tested norm of b.
    pub min_threshold_fraction: f64,
    /// Squares may underflow if the residual norm is at most this fraction of max(|b|, 1).
    pub vanishing_fraction: f64,
    /// Used with the preconditioned norm. If CG solves a system whose right-hand side has a 2-norm of at most this
    /// fraction of |b|, this right-hand side is only rounding error. A device does not begin the loop in this case.
    pub rounding_fraction: f64,
    /// If the threshold divided by the scale is below this value, the host checks x before storing it, because rounding
    /// of x to subnormal numbers may change the residual too much.
    pub unchecked_threshold: f64,
}

impl Criterion {
    /// Returns the largest norm that satisfies the stopping test.
    pub fn threshold(&self, reference: f64, scale: f64) -> f64 {
        (self.rel_tol * reference).max(self.abs_tol * scale)
    }

    /// Returns `Test::vanishing_norm` for a regular system. `rhs_norm` is the norm of the right-hand side.
    pub fn vanishing_norm(&self, rhs_norm: f64) -> f64 {
        self.vanishing_fraction * rhs_norm.max(1.0)
    }
}

/// Vectors that `SolveSteps::load` sets. It computes b = input * scale. The flag of a variant is true if
/// x = output * scale (an initial guess), and false if x = 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// b only, because `reduce` may have overwritten it. x is unchanged.
    Rhs,
    /// b and x.
    System(bool),
    /// b and x of a regular system that is tested in the 2-norm. A backend may also run the steps up to PCG
    /// (`load_and_reduce`). Entries of b that these steps do not read may be loaded later, before the first step that
    /// reads them.
    Start(bool),
    /// b and x, for timing of single steps: no step does work of another step, and the host runs the PCG loop.
    Separate(bool),
}

impl Load {
    /// Returns true if x becomes the guess, false if x becomes 0, and `None` if x is unchanged.
    pub fn guess(self) -> Option<bool> {
        match self {
            Self::Rhs => None,
            Self::System(guess) | Self::Start(guess) | Self::Separate(guess) => Some(guess),
        }
    }
}

/// Squared norms at the start of a solve.
#[derive(Clone, Copy, Debug)]
pub struct SquaredNorms {
    /// <b, b> on the whole grid.
    pub rhs_norm2: f64,
    /// |b - A x|^2 on the whole grid.
    pub whole_residual_norm2: f64,
    /// <r, r> of the residual of the system that CG solves; `None` if it is not computed yet.
    pub residual_norm2: Option<f64>,
}

/// Vector from which `SolveSteps::reduce` eliminates the red nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EliminatedVector {
    /// b. `reduce` may overwrite r.
    Rhs,
    /// b, which was loaded again after a previous `reduce`. `reduce` leaves r unchanged.
    ReloadedRhs,
    /// b - A x on the whole grid. The residual replaces b. x must include the values at red nodes.
    Residual,
}

/// Steps from the user's arrays to the system that CG solves, and back.
pub trait SolveSteps: PcgSteps {
    /// Returns the steps of other Krylov methods, if the family has them.
    fn krylov_steps(&mut self) -> Option<&mut dyn KrylovSteps> {
        None
    }
    /// Returns the interface for benchmarks, if the backend has one.
    fn timing(&mut self) -> Option<&mut dyn Timing> {
        None
    }
    /// Inspects the input and, if `has_guess` is true, the output, which contains the initial guess. If `criterion` is
    /// given, the backend may begin the solve with this stopping test, before the host knows the norms.
    fn inspect(&mut self, has_guess: bool, criterion: Option<&Criterion>) -> Inputs;
    /// Loads the user's arrays. Returns <b, b> on the whole grid, or an unspecified value for `Load::Rhs`. If the
    /// backend has run the steps up to PCG (`Load::Start`), also returns |b - A x|^2 on the whole grid and <r, r>.
    fn load(&mut self, scale: f64, load: Load) -> (f64, Option<[f64; 2]>);
    /// Finds the singular component with the largest |sum b| / sum |b|, where the sums are over the nodes of the
    /// component. Returns the number of this component, its sum b, and its sum |b|.
    fn worst_incompatibility(&mut self) -> (usize, f64, f64) {
        (0, 0.0, 0.0)
    }
    /// Returns |b - A x|^2 on the whole grid. Called before `reduce`, or after `back_substitute` and `load`. If `scale`
    /// is given, uses b = input * `scale`; the backend may load b again.
    fn whole_residual_norm2(&mut self, scale: Option<f64>) -> f64;
    /// Computes b1 = b_b - A_br D_r^-1 b_r (report 16-06, equation 2.10); no effect if CG runs on A. For
    /// `EliminatedVector::Residual`, returns <b_r, D_r^-1 b_r>, else an unspecified value.
    fn reduce(&mut self, _vector: EliminatedVector) -> f64 {
        0.0
    }
    /// Completes x. If CG runs on S1, computes x_r = D_r^-1 (b_r - A_rb x_b). If CG runs on a deflated system, adds the
    /// deflated part of x. Returns max |x|, or NaN if any value is NaN. On a singular system, max |x| is unspecified,
    /// because `solve` then changes the means of x and computes max |x| itself.
    ///
    /// Also returns the square of the tested norm of input * scale - A x, if the backend has computed this norm. A
    /// backend may compute this norm in the same pass if `scale` is given, the system is regular, and the tested norm
    /// is the 2-norm.
    fn back_substitute(&mut self, scale: Option<f64>) -> (f64, Option<f64>);
    /// Stores output = x / scale.
    fn store(&mut self, scale: f64);
    /// Computes x = A b on the whole grid.
    fn multiply_rhs(&mut self);
}

/// Timing of the steps of a run, for benchmarks. The algorithms do not use this interface.
pub trait Timing {
    /// Enables `grid_seconds` for this run.
    fn enable_grid_timing(&mut self);
    /// Returns the time of this thread on each grid, in seconds: one number for the sweep down, one for the sweep up.
    /// The last entry is the coarsest system. Empty if the timing is not enabled.
    fn grid_seconds(&self) -> &[[f64; 2]];
    /// Makes all following steps separate, as `Load::Separate` does.
    fn separate_steps(&mut self) {}
    /// Waits until all previous steps have completed. On a device, steps are asynchronous.
    fn wait_until_done(&mut self) {}
}

/// Runs all steps between `inspect` and PCG for a regular system and the 2-norm: loads the arrays, computes the
/// residual of the guess, and reduces b.
pub fn load_and_reduce<S: SolveSteps + ?Sized>(s: &mut S, scale: f64, has_guess: bool) -> SquaredNorms {
    let (rhs_norm2, residual_norms) = s.load(scale, Load::Start(has_guess));
    if let Some([whole_residual_norm2, norm2]) = residual_norms {
        return SquaredNorms { rhs_norm2, whole_residual_norm2, residual_norm2: Some(norm2) };
    }
    let whole_residual_norm2 = if has_guess { s.whole_residual_norm2(None) } else { rhs_norm2 };
    s.reduce(EliminatedVector::Rhs);
    SquaredNorms { rhs_norm2, whole_residual_norm2, residual_norm2: None }
}

/// Completes x. Returns max |x| and |input * scale - A x|^2, for a regular system and the 2-norm.
pub fn complete_with_norm2<S: SolveSteps + ?Sized>(s: &mut S, scale: f64) -> (f64, f64) {
    let (x_max, residual_norm2) = s.back_substitute(Some(scale));
    (x_max, residual_norm2.unwrap_or_else(|| s.whole_residual_norm2(Some(scale))))
}

/// Function that all threads of a team run.
pub type Program<'a> = &'a (dyn Fn(&mut dyn SolveSteps) -> Result<Outcome> + Sync);
