//! Parameters of a solve, and checks that inputs and results are within the range of double precision.

use crate::error::{Error, Location, Result};
use crate::krylov::solve_steps::{Criterion, Inputs, SolveSteps};
use crate::krylov::vectors::KrylovSteps;
use crate::krylov::{Norm, State};
use crate::options::{Options, Reference, opt};
use crate::report::{Outcome, StopReason};
use crate::stencil::components::ASSERTED_ZERO_ROW_SUM;

/// Locations of nodes and singular components for error messages, in the index convention of the family.
pub trait Locations: Sync {
    /// Returns the location of node `i` of row `row`.
    fn node(&self, i: usize, row: usize) -> Location;
    /// Returns the location of the first node of a singular component.
    fn component(&self, component: usize) -> Location;
}

/// Properties of the matrix that the factorization has found.
#[derive(Clone, Copy)]
pub struct MatrixProperties<'a> {
    /// Largest center.
    pub center_max: f64,
    /// Number of singular components.
    pub singular_component_count: usize,
    /// Locations of nodes and components for error messages.
    pub locations: &'a dyn Locations,
}

/// Parameters of a solve, equal for all threads.
pub struct Control<'a> {
    pub norm: Norm,
    pub is_reference_initial: bool,
    pub rel_tol: f64,
    pub abs_tol: f64,
    pub max_iter: usize,
    pub checks_input: bool,
    pub checks_compatibility: bool,
    /// Properties of the matrix. Its largest center determines whether a guess is too large, and whether a solution is
    /// too small for double precision.
    pub matrix: MatrixProperties<'a>,
    /// Whether the sweeps of M compute in single precision.
    pub has_single_precision_sweeps: bool,
    /// Whether M is known to be definite. A recursive cycle may be indefinite. In `sparse_`, M may also be indefinite
    /// with ilu0 or chebyshev, or if a diagonal entry of A is not positive.
    pub is_preconditioner_definite: bool,
    /// Upper bound of the number of nodes.
    pub nodes: usize,
    /// Krylov method that replaces PCG.
    pub method: Option<&'a dyn Method>,
    /// Krylov method that continues after a breakdown of PCG, with the preconditioner
    /// `OtherPreconditioner::AfterBreakdown`.
    pub second_method: Option<&'a dyn Method>,
    /// A residual has diverged if its norm exceeds this factor times the larger of the reference and the norm of the
    /// first residual.
    pub divergence_factor: f64,
    /// Whether M scales with A: if A is multiplied by a constant, so is M. p'Ap may then be compared with r'M^-1 r.
    /// False for `preconditioner=none`, where M = I.
    pub has_unit_of_matrix: bool,
    /// A may be indefinite; see `Test::may_be_indefinite`.
    pub may_be_indefinite: bool,
    /// Unit roundoff of the vectors, divided by that of f64. The rounding limit of p'Ap is multiplied by this ratio.
    pub rounding_ratio: f64,
    /// Outcome of a previous solve. The present solve continues from its x.
    pub previous_outcome: Option<Outcome>,
}

/// Krylov method that uses `KrylovSteps`. The method tests its recurred residual; the solve then recomputes the
/// residual.
pub trait Method: Sync {
    /// Iterates from x and r = b - A x. This residual does not satisfy the test.
    fn run(&self, s: &mut dyn KrylovSteps, state: &mut State) -> Result<StopReason>;
}

impl<'a> Control<'a> {
    pub fn new(
        options: &Options,
        matrix: MatrixProperties<'a>,
        has_single_precision_sweeps: bool,
        is_preconditioner_definite: bool,
        nodes: usize,
    ) -> Self {
        Self {
            norm: options.choice(opt::NORM),
            is_reference_initial: options.is(opt::REFERENCE, Reference::Initial),
            rel_tol: options.real(opt::REL_TOL),
            abs_tol: options.real(opt::ABS_TOL),
            max_iter: options.int(opt::MAX_ITER) as usize,
            checks_input: options.is_on(opt::CHECK_INPUT),
            checks_compatibility: options.is_on(opt::CHECK_COMPATIBILITY),
            matrix,
            has_single_precision_sweeps,
            is_preconditioner_definite,
            nodes,
            method: None,
            second_method: None,
            divergence_factor: f64::INFINITY,
            has_unit_of_matrix: true,
            may_be_indefinite: false,
            rounding_ratio: 1.0,
            previous_outcome: None,
        }
    }

    /// Returns the number of iterations of the previous solve that this solve continues, or 0 if there is none.
    pub fn previous_iterations(&self) -> usize {
        self.previous_outcome.map_or(0, |previous| previous.iterations)
    }

    pub fn is_singular(&self) -> bool {
        self.matrix.singular_component_count > 0
    }

    /// Returns whether the system is regular and the test uses the 2-norm. Backends fuse the first and last steps of a
    /// solve only in this case.
    pub fn can_fuse_ends(&self) -> bool {
        !self.is_singular() && self.norm == Norm::True2
    }

    /// Rounding of x to subnormal numbers changes the tested norm of b - A x. Returns a bound for this change.
    pub fn storage_rounding(&self) -> f64 {
        let nodes = self.nodes as f64;
        match self.norm {
            // Each x_i changes by at most SMALLEST_SUBNORMAL / 2. The magnitudes of the entries of a row of A sum to at
            // most 2 center_max. Each entry of b - A x then changes by at most SMALLEST_SUBNORMAL center_max.
            Norm::True2 => SMALLEST_SUBNORMAL * self.matrix.center_max * nodes.sqrt(),
            // A change e of x changes the tested norm by at most (e'A M^-1 A e)^1/2 <= (lambda_max e'A e)^1/2. Here
            // lambda_max, the largest eigenvalue of M^-1 A, is of order 1.
            Norm::Preconditioned => SMALLEST_SUBNORMAL * (self.matrix.center_max * nodes).sqrt(),
        }
    }

    /// Returns the parameters of the stopping test. `tests_completed_x`: whether the completed x is tested on the whole
    /// grid. The threshold of the recurred residual then needs the lower limit `min_threshold_fraction`.
    pub fn criterion(&self, tests_completed_x: bool) -> Criterion {
        Criterion {
            is_preconditioned_norm: self.norm == Norm::Preconditioned,
            is_reference_initial: self.is_reference_initial,
            rel_tol: self.rel_tol,
            abs_tol: self.abs_tol,
            max_iter: self.max_iter,
            min_threshold_fraction: if tests_completed_x { MIN_THRESHOLD_FRACTION } else { 0.0 },
            vanishing_fraction: if self.has_single_precision_sweeps {
                F32_NORM_LIMIT.recip()
            } else {
                F64_VANISHING_FRACTION
            },
            rounding_fraction: PROJECTED_TO_ZERO_FRACTION,
            unchecked_threshold: self.storage_rounding() / MAX_SILENT_CHANGE,
        }
    }
}

/// If projection or elimination reduces the norm of b to at most this fraction, the rest is rounding error. Then b was
/// in the null space of A, or nonzero only at eliminated nodes.
pub const PROJECTED_TO_ZERO_FRACTION: f64 = 16.0 * f64::EPSILON;

/// Limit for max(center) max |x| / max |b| of the initial guess. Above this limit, squares of the residual overflow.
pub const MAX_GUESS_RATIO: f64 = 1e150;

/// In f32 sweeps, norms of the scaled residual must be between 1 / F and F, where F is this number. The squares of
/// norms above about 1e19 overflow, and those of norms below about 1e-19 underflow; the limit leaves a margin.
pub const F32_NORM_LIMIT: f64 = 1e15;

/// Recurred residuals below this fraction of |b| are far below the rounding error of b - A x. Further iterations would
/// not change x.
pub const MIN_THRESHOLD_FRACTION: f64 = f64::EPSILON / 64.0;

/// In double precision, squares may underflow if the residual norm is at most this fraction of max(|b|, 1).
pub const F64_VANISHING_FRACTION: f64 = 1e-140;

/// Returns an error if `value` is NaN or infinite. With `check_input=0`, this check replaces the inspection of the
/// user's arrays.
pub fn check_finite(quantity: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration: 0 }) }
}

/// Returns an error if `x_max` is not finite, or if `x_max` / `scale` overflows.
pub fn check_overflow(x_max: f64, scale: f64) -> Result<()> {
    if x_max.is_finite() && x_max <= f64::MAX * scale.min(1.0) {
        return Ok(());
    }
    let message = "the result would hold values too large for double precision: scale the input down";
    Err(Error::Overflow(message.to_owned()))
}

/// Checks whether x / scale can be stored in double precision.
pub struct RangeCheck {
    pub scale: f64,
    /// Bound for the change of the tested norm of the scaled b - A x when x / scale is rounded to subnormal numbers.
    pub rounding_change: f64,
    /// max |b| of the user's b, before scaling, for the error message.
    pub rhs_max: f64,
    /// max |center|, for the error message.
    pub center_max: f64,
}

/// Smallest positive subnormal number.
const SMALLEST_SUBNORMAL: f64 = f64::from_bits(1);

impl RangeCheck {
    pub fn new(control: &Control, scale: f64, rhs_max: f64) -> Self {
        let rounding_change = control.storage_rounding() * scale;
        Self { scale, rounding_change, rhs_max, center_max: control.matrix.center_max }
    }

    /// Returns an error if x / scale overflows or underflows, or if rounding of x may change the residual by more than
    /// `MAX_SILENT_CHANGE` times `norm`. `x_max` is max |x|; `norm` is the larger of the residual norm and the
    /// threshold.
    pub fn check(&self, x_max: f64, norm: f64) -> Result<()> {
        check_overflow(x_max, self.scale)?;
        let is_small = self.rounding_change <= MAX_SILENT_CHANGE * norm;
        if x_max > 0.0 && (x_max < f64::MIN_POSITIVE * self.scale || !is_small) {
            return Err(Error::Underflow {
                output_name: "x",
                input_name: "b",
                input_max: self.rhs_max,
                center_max: self.center_max,
            });
        }
        Ok(())
    }
}

/// Rounding of x may change the residual norm by at most this fraction of the norm. A larger change is an error.
const MAX_SILENT_CHANGE: f64 = 1.0 / 256.0;

/// Inspects the user's input and, if `has_guess` is true, the initial guess; see `SolveSteps::inspect`. Returns an
/// error for an entry that is not finite if `Control::checks_input` is true.
pub fn check_inputs(
    s: &mut dyn SolveSteps,
    control: &Control,
    has_guess: bool,
    criterion: Option<&Criterion>,
) -> Result<Inputs> {
    let inputs = s.inspect(has_guess, criterion);
    match inputs.not_finite {
        Some((name, value, i, j)) if control.checks_input => {
            Err(Error::not_finite(name, value, control.matrix.locations.node(i, j)))
        }
        _ => Ok(inputs),
    }
}

/// Returns an error if a component is regular. Called for `null_space=constant`, which asserts that all components are
/// singular.
pub fn check_all_singular(component_count: usize, singular_count: usize) -> Result<()> {
    if singular_count == component_count {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "null_space=constant asserts row sums of zero (within {ASSERTED_ZERO_ROW_SUM:e} of the center), but {} of {} \
         components have others",
        component_count - singular_count,
        component_count
    )))
}
