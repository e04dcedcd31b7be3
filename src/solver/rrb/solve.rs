//! What a solve by RRB-PCG and an application of M^-1 do, from the caller's arrays back to them: the text that every backend
//! runs.

use crate::backend::steps::rrb::{Criterion, Inputs, RrbSteps};
use crate::error::{Error, Result};
use crate::grid::components::Components;
use crate::grid::inspection::Inspection;
use crate::options::{Options, opt};
use crate::report::{Outcome, StopReason};
use crate::solver::krylov::{Kept, Norm, PcgEnd, RESTARTS, Test, WORTH_A_RESTART, done_before, not_negative, pcg};

/// What a solve looks up, the same for every member of a team.
pub struct Control<'a> {
    norm: Norm,
    reference_initial: bool,
    rel_tol: f64,
    abs_tol: f64,
    max_iter: usize,
    check_input: bool,
    check_compatibility: bool,
    /// Of the matrix; looked at for guesses far off and solutions too small for a double.
    center_max: f64,
    /// Sweeps in f32.
    short: bool,
    /// M is definite: recursions alone may make another.
    definite: bool,
    /// At most so many nodes.
    nodes: usize,
    components: &'a Components,
}

impl<'a> Control<'a> {
    pub fn new(options: &Options, inspection: &'a Inspection, short: bool, definite: bool, nodes: usize) -> Self {
        Self {
            norm: if options.int(opt::NORM) == 0 { Norm::True2 } else { Norm::Preconditioned },
            reference_initial: options.int(opt::REFERENCE) == 1,
            rel_tol: options.real(opt::REL_TOL),
            abs_tol: options.real(opt::ABS_TOL),
            max_iter: options.int(opt::MAX_ITER) as usize,
            check_input: options.int(opt::CHECK_INPUT) != 0,
            check_compatibility: options.int(opt::CHECK_COMPATIBILITY) != 0,
            center_max: inspection.findings.center_max,
            short,
            definite,
            nodes,
            components: &inspection.components,
        }
    }

    fn singular(&self) -> bool {
        self.components.singular() > 0
    }

    /// The case whose ends backends fuse.
    fn plain(&self) -> bool {
        !self.singular() && self.norm == Norm::True2
    }

    /// What rounding to multiples of the smallest number may change of the tested norm of b - A x.
    fn lost_in_store(&self) -> f64 {
        let nodes = self.nodes as f64;
        match self.norm {
            // Half a unit of x in every row, whose magnitudes sum to two centers.
            Norm::True2 => SMALLEST * self.center_max * nodes.sqrt(),
            // e'A M^-1 A e <= lambda e'A e for an error e; M^-1 A has eigenvalues of a few units.
            Norm::Preconditioned => SMALLEST * (self.center_max * nodes).sqrt(),
        }
    }

    fn criterion(&self, checks: bool) -> Criterion {
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

/// Sums of b over singular components beyond this part of the sum of magnitudes are incompatible.
const COMPATIBLE: f64 = 1e-10;

/// A right-hand side this small against the given one is rounding: b was in the null space that is projected out, or what is
/// eliminated was all of it.
const PROJECTED_TO_ZERO: f64 = 16.0 * f64::EPSILON;

/// A guess whose A x is larger than b by this factor has a residual whose square overflows.
const GUESS_TOO_FAR: f64 = 1e150;

/// In f32 sweeps, squares of residuals overflow or vanish this far from the unit, and a bit before.
const FAR_IN_F32: f64 = 1e15;

/// A recurred residual this small against b is far below the rounding of b - A x: to go on would not change x.
const FUTILE: f64 = f64::EPSILON / 64.0;

/// In double precision they vanish this far below it.
const SQUARES_VANISH: f64 = 1e-140;

/// A x = b by RRB-PCG, from the caller's arrays back to them. A failure leaves the output untouched.
pub fn solve(s: &mut dyn RrbSteps, c: &Control) -> Result<Outcome> {
    // On S1 the residual of CG is not that of the caller's matrix: rounding on the way from one to the other comes on top. On a
    // singular system x is shifted to the guess's means in the end. What meets the test is looked at as it is returned.
    let checks = s.eliminates() || c.singular();
    let criterion = c.criterion(checks);
    if !c.singular() {
        s.expect(&criterion);
    }
    let inputs = check_inputs(s, c, true)?;
    if inputs.rhs_max == 0.0 {
        return Ok(zero_rhs(s));
    }
    finite("max |b|", inputs.rhs_max)?;
    // A power of two: the scaled system has the same iterates, and squares neither overflow nor vanish.
    // NaN counts as a guess, so that it is not taken for zero where nobody checks the input.
    let guess = inputs.guess_max != 0.0;
    let scale = s.scale(power_of_two_below(inputs.rhs_max).recip(), guess);
    if too_far(inputs.guess_max, scale.recip(), c.center_max, GUESS_TOO_FAR) {
        return Err(Error::Range {
            name: "x",
            value: format!("{:e}", inputs.guess_max),
            allowed: format!("be at most {GUESS_TOO_FAR:e} * max |b| / max |center| in size, as a guess"),
        });
    }
    // f32 sweeps hold no residual of a guess so far off and that of the solution both: the way begins at zero, nearer.
    let far = c.short && too_far(inputs.guess_max, inputs.rhs_max, c.center_max, FAR_IN_F32);
    let begun = (c.plain() && !far).then(|| s.begin(scale, guess));
    let given = begun.map_or_else(|| s.load(scale, guess), |begun| begun.rhs_norm2);
    let mut rhs_norm = given.sqrt();
    if c.singular() {
        if c.check_compatibility {
            check_compatible(s, c, scale)?;
        }
        s.keep_means();
        s.project_rhs();
        rhs_norm = s.rhs_norm2().sqrt();
        if rhs_norm <= PROJECTED_TO_ZERO * given.sqrt() {
            return constant_solution(s, c, &criterion, scale, given.sqrt());
        }
    }

    // Norms of b and of the guess's residual, in the tested norm.
    let mut initial = match begun {
        Some(begun) => begun.whole_residual_norm2.sqrt(),
        None if guess => s.whole_residual_norm2().sqrt(),
        None => rhs_norm,
    };
    finite("|b - A x|", initial)?;
    let rest = initial;
    if begun.is_none() {
        s.reduce();
    }
    let baseless = criterion.baseless * given.sqrt();
    let rounding = if c.singular() { baseless } else { 0.0 };
    // 2-norm of what residuals are relative to, where it is in the papers' norm on S1.
    let mut size = f64::INFINITY;
    if c.norm == Norm::Preconditioned {
        s.residual_from_rhs();
        size = s.residual_norm2().sqrt();
        let constant = s.constant_square().sqrt();
        rhs_norm = preconditioned_norm(s, c)?;
        if rhs_norm < PROJECTED_TO_ZERO * constant {
            // S1 is left with constants alone.
            size = 0.0;
        }
        let of_guess = if far {
            initial = far_norm(s, c, scale, initial)?;
            f64::INFINITY
        } else if guess {
            // On a singular system S1 has row sums of zero; those of the caller's matrix count times the means of the guess.
            let norm2 = if c.singular() && s.eliminates() { start_again(s, c, scale) } else { s.residual() };
            let constant = s.constant_square();
            let of_rest = preconditioned_norm(s, c)?;
            initial = (of_rest * of_rest + constant).sqrt();
            norm2.sqrt()
        } else {
            initial = rhs_norm;
            size
        };
        size = if c.reference_initial { of_guess } else { size };
    }
    let reference = match (size <= baseless, c.reference_initial) {
        // Relative to rounding nothing can be small: ||b||_D^-1 at least, for the norm of b before elimination.
        (true, _) => given.sqrt() / c.center_max.sqrt(),
        (false, true) => initial,
        (false, false) => rhs_norm,
    };
    let relative = |norm: f64| if reference > 0.0 { norm / reference } else { norm };
    let test = Test {
        norm: c.norm,
        threshold: criterion.threshold(reference, scale),
        reference: if reference > 0.0 { reference } else { 1.0 },
        max_iter: c.max_iter,
        rounding,
        vanishing: rounding.max(criterion.vanishing(given.sqrt())),
        confirms: !checks,
        center_max: c.center_max,
        definite: c.definite,
    };
    // What is tested is r of S1, whatever the guess's red values are; of x as it stays they count.
    let of_guess = |s: &mut dyn RrbSteps| match c.norm {
        Norm::Preconditioned if s.eliminates() => norm_as_given(s, c, scale, guess, far.then_some(rest)),
        _ => initial,
    };
    let fit = Fit::new(c, scale, inputs.rhs_max);
    let outcome = |iterations, reason, norm| Outcome {
        iterations,
        reason: match reason {
            // However it came to that.
            StopReason::MaxIter | StopReason::Stagnated if norm + fit.lost <= test.threshold => StopReason::Converged,
            _ => reason,
        },
        initial_residual: relative(initial),
        final_residual: relative(norm),
    };

    let stop = s.observe(0, relative(initial));
    let met = initial <= test.threshold;
    if met && c.norm == Norm::True2 {
        return Ok(outcome(0, StopReason::InitialGuess, initial));
    }
    if c.max_iter == 0 || stop {
        let norm = of_guess(s);
        let reason = match norm <= test.threshold {
            true => StopReason::InitialGuess,
            false if stop => StopReason::Monitor,
            false => StopReason::MaxIter,
        };
        return Ok(outcome(0, reason, norm));
    }

    if far {
        s.clear_solution();
        if c.singular() {
            s.keep_means();
        }
    }
    let mut norm2 = match begun.and_then(|begun| begun.residual_norm2) {
        Some(norm2) => norm2,
        _ if guess && !far => s.residual(),
        _ => s.residual_from_rhs(),
    };
    let mut end = PcgEnd { iterations: 0, norm: initial, reason: StopReason::None };
    let (mut restarts, mut missed, mut wanted) = (0, f64::INFINITY, test.threshold);
    // Of the iterate that is with the caller already, in place of the guess, which was worse.
    let mut kept = f64::INFINITY;
    let fits = |largest: f64, norm: f64| fit.check(largest, norm.max(test.threshold)).is_ok();
    // On a singular system rounding leaves the recurred residual a constant, too.
    let constant = if c.norm == Norm::True2 { rounding / 16.0 } else { 0.0 };
    let futile = (criterion.futile * rhs_norm).max(if checks { constant } else { 0.0 });
    let mut largest = loop {
        let inner = Test { threshold: wanted.max(futile), ..test };
        let mut keep = |s: &mut dyn RrbSteps, best: f64, mut norm: f64| {
            let largest;
            if checks {
                (largest, norm) = completed(s, c, scale);
                reduce_again(s, c, scale);
            } else {
                largest = returned(s, c);
            }
            let better = norm < best.min(initial) && fits(largest, norm);
            better.then(|| {
                s.store(scale);
                norm
            })
        };
        let mut best = Kept { norm: kept, restarts, keep: &mut keep };
        end = match iterate(s, &inner, &mut best, norm2, end.iterations) {
            // The caller has an iterate, or keeps the guess where iterates have gone astray: nothing else may be said.
            Err(Error::Breakdown { quantity, iteration, value })
                if best.norm < f64::INFINITY || astray(c, value, iteration) =>
            {
                let iterations = done_before(quantity, iteration);
                PcgEnd { iterations, norm: f64::INFINITY, reason: StopReason::Stagnated }
            }
            end => end?,
        };
        (kept, restarts) = (best.norm, best.restarts);
        if !checks {
            if end.reason == StopReason::Converged && end.norm + fit.lost > test.threshold {
                end.reason = StopReason::Stagnated;
            }
            break returned(s, c);
        }
        let recurred = end.norm;
        let largest;
        (largest, end.norm) = completed(s, c, scale);
        if end.norm + fit.lost <= test.threshold {
            end.reason = StopReason::Converged;
            break largest;
        }
        let lost = !fits(largest, end.norm) || end.norm.is_nan();
        if end.reason != StopReason::Converged || lost || restarts >= RESTARTS || end.norm > WORTH_A_RESTART * missed {
            if end.reason == StopReason::Converged {
                end.reason = StopReason::Stagnated;
            }
            break largest;
        }
        if end.norm < kept.min(initial) && fits(largest, end.norm) {
            s.store(scale);
            kept = end.norm;
        }
        (missed, restarts) = (end.norm, restarts + 1);
        // Another time the residual on S1 must be smaller: as much as what has come on top asks for, with twice its square.
        let on_top = (end.norm * end.norm - recurred * recurred).max(0.0);
        let least = WORTH_A_RESTART * test.threshold;
        wanted = (test.threshold * test.threshold - 2.0 * on_top).max(least * least).sqrt();
        norm2 = start_again(s, c, scale);
    };
    let better = |norm: f64| norm < end.norm || norm < f64::INFINITY && end.norm.is_nan();
    if end.reason != StopReason::Converged && better(kept) {
        return Ok(outcome(end.iterations, end.reason, kept));
    }
    if (end.reason == StopReason::Stagnated || !end.norm.is_finite()) && better(initial) {
        // Nothing better than the guess was found: x as given.
        if !checks || c.norm == Norm::True2 {
            return Ok(outcome(end.iterations, end.reason, initial));
        }
        // That is said of its black values: with the red ones that belong to them.
        (largest, end.norm) = complete_guess(s, c, scale, guess);
    }
    if let Err(error) = fit.check(largest, end.norm.max(test.threshold)) {
        return if kept < f64::INFINITY {
            Ok(outcome(end.iterations, StopReason::Stagnated, kept))
        } else {
            Err(error)
        };
    }
    s.store(scale);
    if end.iterations == 0 && end.reason == StopReason::Converged && !far {
        end.reason = StopReason::InitialGuess;
    }
    Ok(outcome(end.iterations, end.reason, end.norm))
}

/// Where A is nearly singular iterates may grow beyond all numbers from a start that was not too large. In the preconditioned
/// norm the residual of the guess could not be told then: vectors of M hold infinities.
fn astray(c: &Control, value: f64, iteration: usize) -> bool {
    c.norm == Norm::True2 && !value.is_finite() && iteration > 1
}

/// x as it is returned, with its red values and the means of the guess. Returns max |x|, NaN if any value is.
fn returned(s: &mut dyn RrbSteps, c: &Control) -> f64 {
    let largest = s.back_substitute();
    if !c.singular() {
        return largest;
    }
    s.shift_means(true);
    s.solution_max()
}

/// The same, and the tested norm of b - A x on the whole grid.
fn completed(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> (f64, f64) {
    if c.plain() {
        let (largest, square) = s.complete(scale);
        return (largest, square.sqrt());
    }
    let largest = returned(s, c);
    (largest, returned_residual(s, c, scale))
}

/// The tested norm of b - A x on the whole grid, of x as it is returned, from b as the caller has it, without its means where
/// singular. What `reduce` made of b may be gone then.
fn returned_residual(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> f64 {
    let true2 = c.norm == Norm::True2;
    let square = if c.singular() {
        load_again(s, c, scale);
        if true2 { s.whole_residual_norm2() } else { s.whole_residual_square() }
    } else if true2 {
        s.returned_residual_norm2(scale)
    } else {
        s.returned_residual_square(scale)
    };
    square.sqrt()
}

/// r of S1 as b - A x on the whole grid leaves it: summed from the caller's matrix it is nearer than b1 - S1 x, whose rounding
/// would be started from. Where CG runs on A, that itself. Returns <r, r>.
fn start_again(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> f64 {
    load_again(s, c, scale);
    if !s.eliminates() {
        return s.residual();
    }
    s.rhs_to_residual();
    s.reduce();
    let norm2 = s.residual_from_rhs();
    reduce_again(s, c, scale);
    norm2
}

/// b is in the null space, but for rounding: x = the mean of the guess in each component, on which A is zero but for what is left
/// of its row sums. Residuals are relative to b, of norm `given`, before it was projected. A guess that is no worse stays.
fn constant_solution(
    s: &mut dyn RrbSteps,
    c: &Control,
    criterion: &Criterion,
    scale: f64,
    given: f64,
) -> Result<Outcome> {
    let initial = returned_residual(s, c, scale);
    s.clear_solution();
    s.shift_means(true);
    let norm = returned_residual(s, c, scale);
    finite("|b - A x|", initial + norm)?;
    let of_given = match c.norm {
        Norm::True2 => given,
        Norm::Preconditioned => given / c.center_max.sqrt(),
    };
    let reference = if c.reference_initial && initial > PROJECTED_TO_ZERO * of_given { initial } else { of_given };
    let threshold = criterion.threshold(reference, scale);
    s.observe(0, initial / reference);
    let stays = norm > threshold && initial <= norm;
    if !stays {
        s.store(scale);
    }
    let last = if stays { initial } else { norm };
    Ok(Outcome {
        iterations: 0,
        reason: match last <= threshold {
            true if stays => StopReason::InitialGuess,
            true => StopReason::ZeroRhs,
            false => StopReason::Stagnated,
        },
        initial_residual: initial / reference,
        final_residual: last / reference,
    })
}

/// The preconditioned norm of b - A x of x as the caller has it. Far off (2-norm of b - A x given), of both scaled down by
/// that: sweeps in f32 hold no more. x and b here are spent.
fn norm_as_given(s: &mut dyn RrbSteps, c: &Control, scale: f64, guess: bool, far: Option<f64>) -> f64 {
    let unit = far.map_or(1.0, power_of_two_below);
    // Red values, too, which a start may leave out.
    s.one_by_one();
    s.load(scale / unit, guess);
    if !guess {
        s.clear_solution();
    }
    unit * returned_residual(s, c, scale / unit)
}

/// x = the guess, which the caller still has, with red values that solve their rows: max |x| and its residual's norm.
fn complete_guess(s: &mut dyn RrbSteps, c: &Control, scale: f64, guess: bool) -> (f64, f64) {
    if guess {
        s.load(scale, true);
    } else {
        s.clear_solution();
    }
    reduce_again(s, c, scale);
    completed(s, c, scale)
}

/// b as the caller has it, without its means where singular.
fn load_again(s: &mut dyn RrbSteps, c: &Control, scale: f64) {
    s.load_rhs(scale);
    if c.singular() {
        s.project_rhs();
    }
}

/// b1 in place of b again, with r as it is.
fn reduce_again(s: &mut dyn RrbSteps, c: &Control, scale: f64) {
    load_again(s, c, scale);
    s.reduce_again();
}

/// PCG; bounds that were too narrow make a recursive M indefinite: where the cycle was not asked for, on without it.
fn iterate(s: &mut dyn RrbSteps, test: &Test, kept: &mut Kept, norm2: f64, iterations: usize) -> Result<PcgEnd> {
    match pcg(s, test, kept, norm2, iterations) {
        Err(Error::Breakdown { quantity, value, iteration }) if s.fall_back() => {
            let norm2 = s.residual();
            if !norm2.is_finite() {
                return Err(Error::Breakdown { quantity, value, iteration });
            }
            pcg(s, test, kept, norm2, done_before(quantity, iteration))
        }
        end => end,
    }
}

/// z = M^-1 r; where singular, r and z are projected, so that M^-1 stays symmetric.
pub fn apply(s: &mut dyn RrbSteps, c: &Control) -> Result<Outcome> {
    let inputs = check_inputs(s, c, false)?;
    if inputs.rhs_max == 0.0 {
        s.store_zero();
        return Ok(Outcome::default());
    }
    finite("max |r|", inputs.rhs_max)?;
    let scale = power_of_two_below(inputs.rhs_max).recip();
    s.load(scale, false);
    if c.singular() {
        s.project_rhs();
    }
    s.reduce();
    s.residual_from_rhs();
    s.precondition();
    s.take_z();
    let mut largest = s.back_substitute();
    if c.singular() {
        s.shift_means(false);
        largest = s.solution_max();
    }
    check_overflow(largest, scale)?;
    if largest > 0.0 && largest < f64::MIN_POSITIVE * scale {
        return Err(Error::Underflow { output: "z", input: ("r", inputs.rhs_max), center: c.center_max });
    }
    s.store(scale);
    Ok(Outcome::default())
}

/// Where nobody checks the input, NaN and infinity end here.
fn finite(quantity: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration: 0 }) }
}

/// output = x / scale, or nothing where that overflows; `largest`: max |x|.
pub fn store_finite(s: &mut dyn RrbSteps, largest: f64, scale: f64) -> Result<()> {
    check_overflow(largest, scale)?;
    s.store(scale);
    Ok(())
}

fn check_overflow(largest: f64, scale: f64) -> Result<()> {
    if largest.is_finite() && largest <= f64::MAX * scale.min(1.0) { Ok(()) } else { Err(Error::Overflow) }
}

/// Whether x / scale fits the caller's numbers.
struct Fit {
    scale: f64,
    /// In the tested norm of b - A x, what may be lost where values of x are rounded to multiples of the smallest number.
    lost: f64,
    /// max |b|, as given, and max |center|.
    input: f64,
    center: f64,
}

/// The smallest number above zero.
const SMALLEST: f64 = f64::from_bits(1);

impl Fit {
    fn new(c: &Control, scale: f64, input: f64) -> Self {
        let lost = c.lost_in_store() * scale;
        Self { scale, lost, input, center: c.center_max }
    }

    /// `largest`: max |x|; `norm`: what the residual may be without another being told.
    fn check(&self, largest: f64, norm: f64) -> Result<()> {
        check_overflow(largest, self.scale)?;
        let told = self.lost <= LEAST_TOLD * norm;
        if largest > 0.0 && (largest < f64::MIN_POSITIVE * self.scale || !told) {
            return Err(Error::Underflow { output: "x", input: ("b", self.input), center: self.center });
        }
        Ok(())
    }
}

/// Part of a residual that rounding of x may change without its being told.
const LEAST_TOLD: f64 = 1.0 / 256.0;

/// center * guess > limit * b, where no product need fit a double.
fn too_far(guess: f64, b: f64, center: f64, limit: f64) -> bool {
    guess > 0.0 && center.log2() + guess.log2() > limit.log2() + b.log2()
}

fn zero_rhs(s: &mut dyn RrbSteps) -> Outcome {
    s.store_zero();
    Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() }
}

pub fn check_inputs(s: &mut dyn RrbSteps, c: &Control, guess: bool) -> Result<Inputs> {
    let inputs = s.inspect(guess);
    match inputs.not_finite {
        Some((name, value, i, j)) if c.check_input => Err(Error::NotFinite { name, value, i, j }),
        _ => Ok(inputs),
    }
}

fn check_compatible(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> Result<()> {
    let (component, sum, norm1) = s.worst_incompatibility();
    if sum.abs() > COMPATIBLE * norm1 {
        let (i, j) = c.components.first_node[component];
        return Err(Error::Incompatible { sum: sum / scale, norm1: norm1 / scale, i, j });
    }
    Ok(())
}

/// sqrt(r' M^-1 r) before the first iteration. On a singular system r may be a constant, and the sign of the square rounding; where
/// M is definite no other is seen.
fn preconditioned_norm(s: &mut dyn RrbSteps, c: &Control) -> Result<f64> {
    let rho = s.precondition();
    Ok(not_negative("r'M^-1 r", if c.singular() || c.definite { rho.abs() } else { rho }, 0)?.sqrt())
}

/// sqrt(r' M^-1 r) of a far guess, `size` the 2-norm of r: of r near one, which M^-1, being linear, takes as well. b is
/// loaded and reduced again after that, by `scale`.
fn far_norm(s: &mut dyn RrbSteps, c: &Control, scale: f64, size: f64) -> Result<f64> {
    let unit = power_of_two_below(size);
    let mut norm = 0.0;
    for (scale, guess) in [(scale / unit, true), (scale, false)] {
        s.load(scale, guess);
        if c.singular() {
            s.project_rhs();
        }
        s.reduce();
        if guess {
            s.residual();
            norm = unit * preconditioned_norm(s, c)?;
        }
    }
    Ok(norm)
}

/// The largest power of two not above v, for finite v > 0, kept where its inverse is a normal number.
pub fn power_of_two_below(v: f64) -> f64 {
    let exponent = ((v.to_bits() >> 52) & 0x7ff).clamp(2, 2045);
    f64::from_bits(exponent << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_powers_of_two() {
        for v in [1.0, 3.7, 1e-300, 1e300, 5e-324, f64::MAX] {
            let p = power_of_two_below(v);
            assert!(p.recip().is_normal() && p.is_normal());
            assert_eq!(p.to_bits() & ((1 << 52) - 1), 0);
            if v > 1e-307 && v < 1e307 {
                assert!(p <= v && v < 2.0 * p);
            }
        }
    }
}
