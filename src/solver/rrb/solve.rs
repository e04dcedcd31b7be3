//! What a solve by RRB-PCG and an application of M^-1 do, from the caller's arrays back to them: the text that every backend
//! runs.

use crate::backend::{Criterion, Inputs, RrbSteps};
use crate::error::{Error, Result};
use crate::grid::components::Components;
use crate::grid::inspection::Inspection;
use crate::options::{Options, opt};
use crate::report::{Outcome, StopReason};
use crate::solver::krylov::{
    Kept, NEAR, Norm, PcgEnd, RENEWAL, RENEWAL_ITERATIONS, RESTARTS, Test, WORTH_A_RESTART, done_before, not_negative,
    pcg,
};

/// What a solve looks up, the same for every member of a team.
pub struct Control<'a> {
    norm: Norm,
    reference_initial: bool,
    rel_tol: f64,
    abs_tol: f64,
    max_iter: usize,
    check_input: bool,
    check_compatibility: bool,
    /// Of the matrix; looked at for guesses alone.
    center_max: f64,
    /// Sweeps in f32.
    short: bool,
    components: &'a Components,
}

impl<'a> Control<'a> {
    pub fn new(options: &Options, inspection: &'a Inspection, short: bool) -> Self {
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
            renewal: RENEWAL,
            near: NEAR,
            renewal_at: RENEWAL_ITERATIONS,
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
    // On S1 the residual of CG is not that of the caller's matrix: rounding on the way from one to the other comes on top, and
    // what meets the test is looked at on that.
    let checks = s.eliminates();
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
            s.clear_solution();
            s.shift_means(true);
            s.store(scale);
            return Ok(Outcome { reason: StopReason::ZeroRhs, ..Outcome::default() });
        }
    }

    // Norms of b and of the guess's residual, in the tested norm.
    let mut initial = match begun {
        Some(begun) => begun.whole_residual_norm2.sqrt(),
        None if guess => s.whole_residual_norm2().sqrt(),
        None => rhs_norm,
    };
    finite("|b - A x|", initial)?;
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
        rhs_norm = preconditioned_norm(s, c)?;
        let of_guess = if far {
            initial = far_norm(s, c, scale, initial)?;
            f64::INFINITY
        } else if guess {
            let norm2 = s.residual();
            initial = preconditioned_norm(s, c)?;
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
    };
    if c.max_iter == 0 && checks && c.norm == Norm::Preconditioned && initial <= test.threshold {
        // Of x as it stays, with the guess's red values.
        initial = returned_residual(s, c, scale);
    }
    let outcome = |iterations, reason, norm| Outcome {
        iterations,
        reason,
        initial_residual: relative(initial),
        final_residual: relative(norm),
    };

    let stop = s.observe(0, relative(initial));
    let met = initial <= test.threshold;
    if met && (c.norm == Norm::True2 || c.max_iter == 0) {
        return Ok(outcome(0, StopReason::InitialGuess, initial));
    }
    if stop && !met {
        return Ok(outcome(0, StopReason::Monitor, initial));
    }
    if c.max_iter == 0 {
        return Ok(outcome(0, StopReason::MaxIter, initial));
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
    let fits = |largest: f64| largest.is_finite() && largest <= f64::MAX * scale.min(1.0);
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
            let better = norm < best.min(initial) && fits(largest);
            better.then(|| {
                s.store(scale);
                norm
            })
        };
        let mut best = Kept { norm: kept, restarts, keep: &mut keep };
        end = match iterate(s, &inner, &mut best, norm2, end.iterations) {
            // The caller has an iterate: nothing else may be said.
            Err(Error::Breakdown { quantity, iteration, .. }) if best.norm < f64::INFINITY => {
                let iterations = done_before(quantity, iteration);
                PcgEnd { iterations, norm: f64::INFINITY, reason: StopReason::Stagnated }
            }
            end => end?,
        };
        (kept, restarts) = (best.norm, best.restarts);
        if !checks {
            break returned(s, c);
        }
        let recurred = end.norm;
        let largest;
        (largest, end.norm) = completed(s, c, scale);
        if end.norm <= test.threshold {
            end.reason = StopReason::Converged;
            break largest;
        }
        let lost = !fits(largest) || end.norm.is_nan();
        if end.reason != StopReason::Converged || lost || restarts >= RESTARTS || end.norm > WORTH_A_RESTART * missed {
            if end.reason == StopReason::Converged {
                end.reason = StopReason::Stagnated;
            }
            break largest;
        }
        if end.norm < kept.min(initial) && fits(largest) {
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
    if end.reason == StopReason::Stagnated && better(initial) {
        // Nothing better than the guess was found: x as given.
        if !checks || c.norm == Norm::True2 {
            return Ok(outcome(end.iterations, end.reason, initial));
        }
        // That is said of its black values: with the red ones that belong to them.
        (largest, end.norm) = complete_guess(s, c, scale, guess);
    }
    if !fits(largest) {
        if kept < f64::INFINITY {
            return Ok(outcome(end.iterations, StopReason::Stagnated, kept));
        }
        return Err(Error::Overflow);
    }
    s.store(scale);
    if end.iterations == 0 && end.reason == StopReason::Converged && !far {
        end.reason = StopReason::InitialGuess;
    }
    Ok(outcome(end.iterations, end.reason, end.norm))
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
/// would be started from. Returns <r, r>.
fn start_again(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> f64 {
    load_again(s, c, scale);
    s.rhs_to_residual();
    s.reduce();
    let norm2 = s.residual_from_rhs();
    reduce_again(s, c, scale);
    norm2
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
    store_finite(s, largest, scale)?;
    Ok(Outcome::default())
}

/// Where nobody checks the input, NaN and infinity end here.
fn finite(quantity: &'static str, value: f64) -> Result<()> {
    if value.is_finite() { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration: 0 }) }
}

/// output = x / scale, or nothing where that fits no double; `largest`: max |x|.
pub fn store_finite(s: &mut dyn RrbSteps, largest: f64, scale: f64) -> Result<()> {
    if largest.is_finite() && largest <= f64::MAX * scale.min(1.0) {
        s.store(scale);
        Ok(())
    } else {
        Err(Error::Overflow)
    }
}

/// center * guess > limit * b, where no product need fit a double. The host may trap what makes infinities: no log2(0).
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

/// sqrt(r' M^-1 r) before the first iteration. On a singular system r may be a constant, and the sign of the square rounding.
fn preconditioned_norm(s: &mut dyn RrbSteps, c: &Control) -> Result<f64> {
    let rho = s.precondition();
    Ok(not_negative("r'M^-1 r", if c.singular() { rho.abs() } else { rho }, 0)?.sqrt())
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
