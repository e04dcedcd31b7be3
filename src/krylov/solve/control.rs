//! Parameters of a solve, and checks that inputs and results are within the range of double precision.

use crate::error::{Error, Place, Result};
use crate::krylov::solve_steps::{Criterion, Inputs, SolveSteps};
use crate::krylov::vectors::KrylovSteps;
use crate::krylov::{Norm, State};
use crate::options::{Options, Reference, opt};
use crate::report::{Outcome, StopReason};
use crate::stencil::components::ASSERTED_ZERO_ROW_SUM;

/// Locations of nodes and singular components for error messages, in the index convention of the family.
pub trait Locations: Sync {
    /// Returns the location of node `i` of row `row`.
    fn node(&self, i: usize, row: usize) -> Place;
    /// Returns the location of the first node of a singular component.
    fn component(&self, component: usize) -> Place;
}

/// Properties of the matrix that the factorization has found.
#[derive(Clone, Copy)]
pub struct MatrixProperties<'a> {
    /// Largest center.
    pub center_max: f64,
    /// Number of singular components.
    pub singular: usize,
    /// Locations of nodes and components for error messages.
    pub locations: &'a dyn Locations,
}

/// Parameters of a solve, equal for all threads.
pub struct Control<'a> {
    pub norm: Norm,
    pub reference_initial: bool,
    pub rel_tol: f64,
    pub abs_tol: f64,
    pub max_iter: usize,
    pub check_input: bool,
    pub check_compatibility: bool,
    /// Properties of the matrix. Its largest center determines whether a guess is too large, and whether a solution is
    /// too small for double precision.
    pub matrix: MatrixProperties<'a>,
    /// The sweeps of M compute in single precision.
    pub single_sweeps: bool,
    /// Whether M is known to be definite. A recursive cycle may be indefinite. In `sparse_`, M may also be indefinite
    /// with ilu0 or chebyshev, or if a diagonal entry of A is not positive.
    pub definite: bool,
    /// Upper bound of the number of nodes.
    pub nodes: usize,
    /// Krylov method that replaces PCG.
    pub method: Option<&'a dyn Method>,
    /// Krylov method that continues after a breakdown of PCG, with the second preconditioner.
    pub second: Option<&'a dyn Method>,
    /// A residual has diverged if its norm exceeds this factor times the larger of the reference and the norm of the
    /// first residual.
    pub divergence: f64,
    /// M has the unit of A.
    pub same_unit: bool,
    /// A may be indefinite; see `Test::may_be_indefinite`.
    pub may_be_indefinite: bool,
    /// Rounding unit of the vectors, divided by that of f64. Limits of p'Ap that detect rounding grow by this factor.
    pub rounding_ratio: f64,
    /// Outcome of a previous solve. The present solve continues from its x.
    pub previous: Option<Outcome>,
}

/// Krylov method that uses `KrylovSteps`. The method tests its recurred residual; the solve then recomputes the
/// residual.
pub trait Method: Sync {
    /// Iterates from x and r = b - A x. This residual does not satisfy the test.
    fn run(&self, s: &mut dyn KrylovSteps, at: &mut State) -> Result<StopReason>;
}

impl<'a> Control<'a> {
    pub fn new(
        options: &Options,
        matrix: MatrixProperties<'a>,
        single_sweeps: bool,
        definite: bool,
        nodes: usize,
    ) -> Self {
        Self {
            norm: options.choice(opt::NORM),
            reference_initial: options.is(opt::REFERENCE, Reference::Initial),
            rel_tol: options.real(opt::REL_TOL),
            abs_tol: options.real(opt::ABS_TOL),
            max_iter: options.int(opt::MAX_ITER) as usize,
            check_input: options.on(opt::CHECK_INPUT),
            check_compatibility: options.on(opt::CHECK_COMPATIBILITY),
            matrix,
            single_sweeps,
            definite,
            nodes,
            method: None,
            second: None,
            divergence: f64::INFINITY,
            same_unit: true,
            may_be_indefinite: false,
            rounding_ratio: 1.0,
            previous: None,
        }
    }

    /// Returns the number of iterations of the previous solve, or 0 if there is none.
    pub fn done(&self) -> usize {
        self.previous.map_or(0, |previous| previous.iterations)
    }

    pub fn is_singular(&self) -> bool {
        self.matrix.singular > 0
    }

    /// Returns whether the system is regular and the test uses the 2-norm. Backends fuse the first and last steps of a
    /// solve only in this case.
    pub fn can_fuse_ends(&self) -> bool {
        !self.is_singular() && self.norm == Norm::True2
    }

    /// Rounding of x to subnormal numbers changes the tested norm of b - A x. Returns a bound for this change.
    pub fn store_rounding(&self) -> f64 {
        let nodes = self.nodes as f64;
        match self.norm {
            // Each x_i changes by at most SMALLEST_SUBNORMAL / 2, and the magnitudes of a row sum to at most 2
            // center_max. Each entry of b - A x then changes by at most SMALLEST_SUBNORMAL center_max.
            Norm::True2 => SMALLEST_SUBNORMAL * self.matrix.center_max * nodes.sqrt(),
            // A change e of x changes the tested norm by at most (e'A M^-1 A e)^1/2 <= (lambda_max e'A e)^1/2. Here
            // lambda_max, the largest eigenvalue of M^-1 A, is of order 1.
            Norm::Preconditioned => SMALLEST_SUBNORMAL * (self.matrix.center_max * nodes).sqrt(),
        }
    }

    /// Returns the parameters of the stopping test. `checks`: the completed x is tested on the whole grid, so the
    /// threshold of the recurred residual needs the lower limit `least_threshold_fraction`.
    pub fn criterion(&self, checks: bool) -> Criterion {
        Criterion {
            preconditioned: self.norm == Norm::Preconditioned,
            of_initial: self.reference_initial,
            rel_tol: self.rel_tol,
            abs_tol: self.abs_tol,
            max_iter: self.max_iter,
            least_threshold_fraction: if checks { LEAST_THRESHOLD_FRACTION } else { 0.0 },
            vanishing: if self.single_sweeps { FAR_IN_F32.recip() } else { SQUARES_VANISH },
            rounding_fraction: PROJECTED_TO_ZERO,
            check_below: self.store_rounding() / LARGEST_SILENT_CHANGE,
        }
    }
}

/// If projection or elimination reduces the norm of b to at most this fraction, the rest is rounding error. Then b was
/// in the null space of A, or nonzero only at eliminated nodes.
pub const PROJECTED_TO_ZERO: f64 = 16.0 * f64::EPSILON;

/// Limit for max(center) max |x| / max |b| of the initial guess. Above this limit, squares of the residual overflow.
pub const GUESS_TOO_FAR: f64 = 1e150;

/// In f32 sweeps, norms of the scaled residual must be between the reciprocal of this number and this number. The
/// squares of norms above about 1e19 overflow, and those of norms below about 1e-19 underflow; the limit leaves a
/// margin.
pub const FAR_IN_F32: f64 = 1e15;

/// Recurred residuals below this fraction of |b| are far below the rounding error of b - A x. Further iterations would
/// not change x.
pub const LEAST_THRESHOLD_FRACTION: f64 = f64::EPSILON / 64.0;

/// In double precision, squares of residual norms may underflow below this value.
pub const SQUARES_VANISH: f64 = 1e-140;

/// Returns an error if `value` is NaN or infinite. With `check_input=0`, this check detects such input.
pub fn check_finite(quantity: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration: 0 }) }
}

/// Returns an error if a value of magnitude `largest` is not finite, or overflows when it is divided by `scale`.
pub fn check_overflow(largest: f64, scale: f64) -> Result<()> {
    if largest.is_finite() && largest <= f64::MAX * scale.min(1.0) {
        return Ok(());
    }
    let message = "the result would hold values too large for double precision: scale the input down";
    Err(Error::Overflow(message.to_owned()))
}

/// Checks whether x / scale can be stored in double precision.
pub struct RangeCheck {
    pub scale: f64,
    /// Bound for the change of the tested norm of the scaled b - A x, if x / scale is rounded to subnormal numbers.
    pub rounding_change: f64,
    /// max |b| in the caller's unit, for the error message.
    pub input: f64,
    /// max |center|, for the error message.
    pub center: f64,
}

/// Smallest positive subnormal number.
const SMALLEST_SUBNORMAL: f64 = f64::from_bits(1);

impl RangeCheck {
    pub fn new(c: &Control, scale: f64, input: f64) -> Self {
        let rounding_change = c.store_rounding() * scale;
        Self { scale, rounding_change, input, center: c.matrix.center_max }
    }

    /// Returns an error if x / scale overflows or underflows, or if rounding may change the residual by more than
    /// `LARGEST_SILENT_CHANGE` times `norm`. `largest` is max |x|; `norm` is the residual norm, or the threshold if
    /// larger.
    pub fn check(&self, largest: f64, norm: f64) -> Result<()> {
        check_overflow(largest, self.scale)?;
        let is_small = self.rounding_change <= LARGEST_SILENT_CHANGE * norm;
        if largest > 0.0 && (largest < f64::MIN_POSITIVE * self.scale || !is_small) {
            return Err(Error::Underflow { output: "x", name: "b", largest: self.input, center: self.center });
        }
        Ok(())
    }
}

/// Largest change of the residual by rounding of x that causes no error, relative to the residual norm.
const LARGEST_SILENT_CHANGE: f64 = 1.0 / 256.0;

/// Inspects the caller's input and, if `guess` is true, the initial guess; see `SolveSteps::inspect`. Returns an error
/// for an entry that is not finite, unless `check_input` is off.
pub fn check_inputs(s: &mut dyn SolveSteps, c: &Control, guess: bool, criterion: Option<&Criterion>) -> Result<Inputs> {
    let inputs = s.inspect(guess, criterion);
    match inputs.not_finite {
        Some((name, value, i, j)) if c.check_input => {
            Err(Error::not_finite(name, value, c.matrix.locations.node(i, j)))
        }
        _ => Ok(inputs),
    }
}

/// Returns an error if a component is regular. Called if the caller asserts that all components are singular.
pub fn check_all_singular(components: usize, singular: usize) -> Result<()> {
    if singular == components {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "null_space=constant asserts row sums of zero (within {ASSERTED_ZERO_ROW_SUM:e} of the center), but {} of {} \
         components have others",
        components - singular,
        components
    )))
}
