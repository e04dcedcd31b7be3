//! What a solve looks up, and the ranges of numbers that it must keep to.

use crate::backend::steps::solve::{Criterion, Inputs, SolveSteps};
use crate::backend::steps::vectors::KrylovSteps;
use crate::error::{Error, Place, Result};
use crate::grid::components::ASSERTED_ZERO_ROW_SUM;
use crate::options::{Options, Reference, opt};
use crate::report::{Outcome, StopReason};
use crate::solver::krylov::{Norm, State};

/// Where nodes and singular components lie, for errors: how a family counts.
pub trait Places: Sync {
    /// Node i of a row.
    fn node(&self, i: usize, row: usize) -> Place;
    /// The first node of a singular component.
    fn component(&self, component: usize) -> Place;
}

/// What was seen of a matrix.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    /// Largest center.
    pub center_max: f64,
    /// Singular components.
    pub singular: usize,
    /// Where they are.
    pub places: &'a dyn Places,
}

/// What a solve looks up, the same for every member of a team.
pub struct Control<'a> {
    pub norm: Norm,
    pub reference_initial: bool,
    pub rel_tol: f64,
    pub abs_tol: f64,
    pub max_iter: usize,
    pub check_input: bool,
    pub check_compatibility: bool,
    /// Of the matrix; its largest center is looked at for guesses far off and solutions too small for a double.
    pub seen: Seen<'a>,
    /// Sweeps in f32.
    pub short: bool,
    /// M is definite: recursions alone may make another.
    pub definite: bool,
    /// At most so many nodes.
    pub nodes: usize,
    /// In place of PCG.
    pub method: Option<&'a dyn Method>,
    /// Goes on where PCG breaks down, with the second M.
    pub second: Option<&'a dyn Method>,
    /// A residual of more than this times the reference, and times the first one, has diverged.
    pub divergence: f64,
    /// M has the unit of A.
    pub same_unit: bool,
    /// A may be indefinite.
    pub general: bool,
    /// A solve before this one, which goes on from its x.
    pub before: Option<Outcome>,
}

/// A method in `KrylovSteps`. It ends on the recurred residual, which the solve confirms.
pub trait Method: Sync {
    /// Iterates from x and r = b - A x, which misses the test.
    fn run(&self, s: &mut dyn KrylovSteps, at: &mut State) -> Result<StopReason>;
}

impl<'a> Control<'a> {
    pub fn new(options: &Options, seen: Seen<'a>, short: bool, definite: bool, nodes: usize) -> Self {
        Self {
            norm: options.choice(opt::NORM),
            reference_initial: options.is(opt::REFERENCE, Reference::Initial),
            rel_tol: options.real(opt::REL_TOL),
            abs_tol: options.real(opt::ABS_TOL),
            max_iter: options.int(opt::MAX_ITER) as usize,
            check_input: options.on(opt::CHECK_INPUT),
            check_compatibility: options.on(opt::CHECK_COMPATIBILITY),
            seen,
            short,
            definite,
            nodes,
            method: None,
            second: None,
            divergence: f64::INFINITY,
            same_unit: true,
            general: false,
            before: None,
        }
    }

    /// Iterations that were done before.
    pub fn done(&self) -> usize {
        self.before.map_or(0, |before| before.iterations)
    }

    pub fn singular(&self) -> bool {
        self.seen.singular > 0
    }

    /// The case whose ends backends fuse.
    pub fn plain(&self) -> bool {
        !self.singular() && self.norm == Norm::True2
    }

    /// What rounding to multiples of the smallest number may change of the tested norm of b - A x.
    pub fn lost_in_store(&self) -> f64 {
        let nodes = self.nodes as f64;
        match self.norm {
            // Half a unit of x in every row, whose magnitudes sum to two centers.
            Norm::True2 => SMALLEST * self.seen.center_max * nodes.sqrt(),
            // e'A M^-1 A e <= lambda e'A e for an error e; M^-1 A has eigenvalues of a few units.
            Norm::Preconditioned => SMALLEST * (self.seen.center_max * nodes).sqrt(),
        }
    }

    pub fn criterion(&self, checks: bool) -> Criterion {
        Criterion {
            preconditioned: self.norm == Norm::Preconditioned,
            of_initial: self.reference_initial,
            rel_tol: self.rel_tol,
            abs_tol: self.abs_tol,
            max_iter: self.max_iter,
            futile: if checks { FUTILE } else { 0.0 },
            vanishing: if self.short { FAR_IN_F32.recip() } else { SQUARES_VANISH },
            baseless: PROJECTED_TO_ZERO,
            lost: self.lost_in_store() / LEAST_TOLD,
        }
    }
}

/// A right-hand side this small against the given one is rounding: b was in the null space that is projected out, or
/// what is eliminated was all of it.
pub const PROJECTED_TO_ZERO: f64 = 16.0 * f64::EPSILON;

/// A guess whose A x is larger than b by this factor has a residual whose square overflows.
pub const GUESS_TOO_FAR: f64 = 1e150;

/// In f32 sweeps, squares of residuals overflow or vanish this far from the unit, and a bit before.
pub const FAR_IN_F32: f64 = 1e15;

/// A recurred residual this small against b is far below the rounding of b - A x: to go on would not change x.
pub const FUTILE: f64 = f64::EPSILON / 64.0;

/// In double precision they vanish this far below it.
pub const SQUARES_VANISH: f64 = 1e-140;

/// Where nobody checks the input, NaN and infinity end here.
pub fn finite(quantity: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration: 0 }) }
}

pub fn check_overflow(largest: f64, scale: f64) -> Result<()> {
    if largest.is_finite() && largest <= f64::MAX * scale.min(1.0) {
        return Ok(());
    }
    let sentence = "the result would hold values too large for double precision: scale the input down";
    Err(Error::Overflow(sentence.to_owned()))
}

/// Whether x / scale fits the caller's numbers.
pub struct Fit {
    pub scale: f64,
    /// In the tested norm of b - A x, what may be lost where values of x are rounded to multiples of the smallest
    /// number.
    pub lost: f64,
    /// max |b|, as given, and max |center|.
    pub input: f64,
    pub center: f64,
}

/// The smallest number above zero.
const SMALLEST: f64 = f64::from_bits(1);

impl Fit {
    pub fn new(c: &Control, scale: f64, input: f64) -> Self {
        let lost = c.lost_in_store() * scale;
        Self { scale, lost, input, center: c.seen.center_max }
    }

    /// `largest`: max |x|; `norm`: what the residual may be without another being told.
    pub fn check(&self, largest: f64, norm: f64) -> Result<()> {
        check_overflow(largest, self.scale)?;
        let told = self.lost <= LEAST_TOLD * norm;
        if largest > 0.0 && (largest < f64::MIN_POSITIVE * self.scale || !told) {
            return Err(Error::Underflow { output: "x", name: "b", largest: self.input, center: self.center });
        }
        Ok(())
    }
}

/// Part of a residual that rounding of x may change without its being told.
const LEAST_TOLD: f64 = 1.0 / 256.0;

pub fn check_inputs(s: &mut dyn SolveSteps, c: &Control, guess: bool) -> Result<Inputs> {
    let inputs = s.inspect(guess);
    match inputs.not_finite {
        Some((name, value, i, j)) if c.check_input => Err(Error::not_finite(name, value, c.seen.places.node(i, j))),
        _ => Ok(inputs),
    }
}

/// Where the caller says that all components are singular.
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
