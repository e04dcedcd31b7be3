//! What a solve by RRB-PCG and an application of M^-1 do, from the caller's arrays back to them: the text that every
//! backend runs.

use crate::backend::steps::rrb::{Begun, Criterion, Inputs, RrbSteps};
use crate::error::{Error, Place, RRB_ERR_INCOMPATIBLE, Result};
use crate::grid::components::Components;
use crate::grid::inspection::Inspection;
use crate::options::{Options, opt};
use crate::report::{Outcome, StopReason};
use crate::solver::krylov::{BestIterate, Norm, PcgEnd, Restarts, Start, Test, done_before, not_negative, pcg};

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

/// A right-hand side this small against the given one is rounding: b was in the null space that is projected out, or
/// what is eliminated was all of it.
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
    let given = Given::load(s, c, criterion, &inputs)?;
    let mut rhs_norm = given.norm;
    if c.singular() {
        rhs_norm = given.project(s)?;
        if rhs_norm <= PROJECTED_TO_ZERO * given.norm {
            return constant_solution(s, c, &criterion, given.scale, given.norm);
        }
    }
    let norms = given.norms(s, rhs_norm)?;
    let solve = Solve::new(given, norms, checks);
    if let Some(outcome) = solve.check_guess(s) {
        return Ok(outcome);
    }
    let norm2 = solve.first_residual(s);
    let ended = solve.iterate(s, norm2)?;
    solve.conclude(s, ended)
}

/// What the caller gave, loaded.
struct Given<'c> {
    c: &'c Control<'c>,
    criterion: Criterion,
    /// max |b|, as given.
    rhs_max: f64,
    /// x is a guess, not zero.
    guess: bool,
    /// A power of two: the scaled system has the same iterates, and squares neither overflow nor vanish.
    scale: f64,
    /// f32 sweeps hold no residual of a guess so far off and that of the solution both: the way begins at zero, nearer.
    far: bool,
    /// Where the backend fuses what stands between `inspect` and PCG.
    begun: Option<Begun>,
    /// |b| on the whole grid, scaled.
    norm: f64,
}

/// Norms of what a solve begins with. All but `rest` and `size` are the tested one.
struct Norms {
    /// Of b.
    rhs: f64,
    /// Of b - A x of the guess.
    initial: f64,
    /// Its 2-norm on the whole grid.
    rest: f64,
    /// 2-norm of what residuals are relative to, where the tested norm is that of the papers; else infinite.
    size: f64,
}

impl<'c> Given<'c> {
    fn load(s: &mut dyn RrbSteps, c: &'c Control<'c>, criterion: Criterion, inputs: &Inputs) -> Result<Self> {
        // NaN counts as a guess, so that it is not taken for zero where nobody checks the input.
        let guess = inputs.guess_max != 0.0;
        let scale = s.scale(power_of_two_below(inputs.rhs_max).recip(), guess);
        if too_far(inputs.guess_max, scale.recip(), c.center_max, GUESS_TOO_FAR) {
            let allowed = format!("be at most {GUESS_TOO_FAR:e} * max |b| / max |center| in size, as a guess");
            return Err(Error::range("x", format!("{:e}", inputs.guess_max), allowed));
        }
        let far = c.short && too_far(inputs.guess_max, inputs.rhs_max, c.center_max, FAR_IN_F32);
        let begun = (c.plain() && !far).then(|| s.begin(scale, guess));
        let norm = begun.map_or_else(|| s.load(scale, guess), |begun| begun.rhs_norm2).sqrt();
        Ok(Self { c, criterion, rhs_max: inputs.rhs_max, guess, scale, far, begun, norm })
    }

    /// b without its means over singular components. Returns |b|.
    fn project(&self, s: &mut dyn RrbSteps) -> Result<f64> {
        if self.c.check_compatibility {
            check_compatible(s, self.c, self.scale)?;
        }
        s.keep_means();
        s.project_rhs();
        Ok(s.rhs_norm2().sqrt())
    }

    /// Norms of b, whose 2-norm is `rhs`, and of the residual of the guess. b is reduced after that.
    fn norms(&self, s: &mut dyn RrbSteps, rhs: f64) -> Result<Norms> {
        let rest = match self.begun {
            Some(begun) => begun.whole_residual_norm2.sqrt(),
            None if self.guess => s.whole_residual_norm2().sqrt(),
            None => rhs,
        };
        finite("|b - A x|", rest)?;
        if self.begun.is_none() {
            s.reduce();
        }
        match self.c.norm {
            Norm::True2 => Ok(Norms { rhs, initial: rest, rest, size: f64::INFINITY }),
            Norm::Preconditioned => self.preconditioned_norms(s, rest),
        }
    }

    fn preconditioned_norms(&self, s: &mut dyn RrbSteps, rest: f64) -> Result<Norms> {
        let (c, scale) = (self.c, self.scale);
        s.residual_from_rhs();
        let mut size = s.residual_norm2().sqrt();
        let constant = s.constant_square().sqrt();
        let rhs = preconditioned_norm(s, c)?;
        if rhs < PROJECTED_TO_ZERO * constant {
            // S1 is left with constants alone.
            size = 0.0;
        }
        let (initial, of_guess) = if self.far {
            (far_norm(s, c, scale, rest)?, f64::INFINITY)
        } else if self.guess {
            // On a singular system S1 has row sums of zero; those of the caller's matrix count times the means of the
            // guess.
            let norm2 = if c.singular() && s.eliminates() { start_again(s, c, scale) } else { s.residual() };
            let constant = s.constant_square();
            let of_rest = preconditioned_norm(s, c)?;
            ((of_rest * of_rest + constant).sqrt(), norm2.sqrt())
        } else {
            (rhs, size)
        };
        Ok(Norms { rhs, initial, rest, size: if c.reference_initial { of_guess } else { size } })
    }
}

/// A solve that iterates.
struct Solve<'c> {
    c: &'c Control<'c>,
    given: Given<'c>,
    norms: Norms,
    test: Test,
    fit: Fit,
    /// On S1 the residual of CG is not that of the caller's matrix: rounding on the way from one to the other comes on
    /// top. On a singular system x is shifted to the guess's means in the end. What meets the test is looked at as it
    /// is returned.
    checks: bool,
    /// A recurred residual this small is small enough, whatever is wanted.
    futile: f64,
}

/// From one run of PCG to the next.
struct Progress {
    start: Start,
    restarts: Restarts,
    /// Norm of the iterate that is with the caller already, in place of the guess, which was worse.
    kept: f64,
    /// Norm of the x that missed the test last.
    missed: f64,
    /// The threshold of the recurred residual.
    wanted: f64,
}

/// How the runs of PCG ended: the last one, max |x|, and the norm of the iterate that is with the caller already.
struct Ended {
    end: PcgEnd,
    largest: f64,
    kept: f64,
}

impl<'c> Solve<'c> {
    fn new(given: Given<'c>, norms: Norms, checks: bool) -> Self {
        let (c, criterion, scale) = (given.c, &given.criterion, given.scale);
        let baseless = criterion.baseless * given.norm;
        let rounding = if c.singular() { baseless } else { 0.0 };
        let reference = match (norms.size <= baseless, c.reference_initial) {
            // Relative to rounding nothing can be small: ||b||_D^-1 at least, for the norm of b before elimination.
            (true, _) => given.norm / c.center_max.sqrt(),
            (false, true) => norms.initial,
            (false, false) => norms.rhs,
        };
        let test = Test {
            norm: c.norm,
            threshold: criterion.threshold(reference, scale),
            reference: if reference > 0.0 { reference } else { 1.0 },
            max_iter: c.max_iter,
            rounding,
            vanishing: rounding.max(criterion.vanishing(given.norm)),
            confirms: !checks,
            center_max: c.center_max,
            definite: c.definite,
        };
        // On a singular system rounding leaves the recurred residual a constant, too.
        let constant = if c.norm == Norm::True2 { rounding / 16.0 } else { 0.0 };
        let futile = (criterion.futile * norms.rhs).max(if checks { constant } else { 0.0 });
        let fit = Fit::new(c, scale, given.rhs_max);
        Self { c, given, norms, test, fit, checks, futile }
    }

    fn outcome(&self, iterations: usize, reason: StopReason, norm: f64) -> Outcome {
        Outcome {
            iterations,
            reason: match reason {
                // However it came to that.
                StopReason::MaxIter | StopReason::Stagnated if self.meets(norm) => StopReason::Converged,
                _ => reason,
            },
            initial_residual: self.norms.initial / self.test.reference,
            final_residual: norm / self.test.reference,
        }
    }

    /// The test is met by x as it is stored.
    fn meets(&self, norm: f64) -> bool {
        norm + self.fit.lost <= self.test.threshold
    }

    /// x, with this max |x|, fits the caller's numbers.
    fn fits(&self, largest: f64, norm: f64) -> bool {
        self.fit.check(largest, norm.max(self.test.threshold)).is_ok()
    }

    /// Tells the observer of the guess. Returns the outcome if there is nothing to iterate for.
    fn check_guess(&self, s: &mut dyn RrbSteps) -> Option<Outcome> {
        let (c, given, initial, threshold) = (self.c, &self.given, self.norms.initial, self.test.threshold);
        let stop = s.observe(0, initial / self.test.reference);
        if initial <= threshold && c.norm == Norm::True2 {
            return Some(self.outcome(0, StopReason::InitialGuess, initial));
        }
        if c.max_iter > 0 && !stop {
            return None;
        }
        // What is tested is r of S1, whatever the guess's red values are; of x as it stays they count.
        let norm = if c.norm == Norm::Preconditioned && s.eliminates() {
            norm_as_given(s, c, given.scale, given.guess, given.far.then_some(self.norms.rest))
        } else {
            initial
        };
        let reason = match norm <= threshold {
            true => StopReason::InitialGuess,
            false if stop => StopReason::Monitor,
            false => StopReason::MaxIter,
        };
        Some(self.outcome(0, reason, norm))
    }

    /// r of the x that PCG starts from. Returns <r, r>.
    fn first_residual(&self, s: &mut dyn RrbSteps) -> f64 {
        let given = &self.given;
        if given.far {
            s.clear_solution();
            if self.c.singular() {
                s.keep_means();
            }
        }
        match given.begun.and_then(|begun| begun.residual_norm2) {
            Some(norm2) => norm2,
            _ if given.guess && !given.far => s.residual(),
            _ => s.residual_from_rhs(),
        }
    }

    /// Runs PCG until x, as it is returned, meets the test, or no restart is worth its while.
    fn iterate(&self, s: &mut dyn RrbSteps, norm2: f64) -> Result<Ended> {
        let mut progress = Progress {
            start: Start { norm2, iterations: 0 },
            restarts: Restarts::none(),
            kept: f64::INFINITY,
            missed: f64::INFINITY,
            wanted: self.test.threshold,
        };
        loop {
            let mut end = self.run(s, &mut progress)?;
            if !self.checks {
                if end.reason == StopReason::Converged && !self.meets(end.norm) {
                    end.reason = StopReason::Stagnated;
                }
                return Ok(Ended { end, largest: returned(s, self.c), kept: progress.kept });
            }
            let recurred = end.norm;
            let largest;
            (largest, end.norm) = completed(s, self.c, self.given.scale);
            if !self.goes_on(&mut end, largest, &progress) {
                return Ok(Ended { end, largest, kept: progress.kept });
            }
            self.prepare_restart(s, &mut progress, &end, recurred);
        }
    }

    /// Confirmation on the whole grid. Whether a restart is to follow; else `end` has the reason of the solve.
    fn goes_on(&self, end: &mut PcgEnd, largest: f64, progress: &Progress) -> bool {
        if self.meets(end.norm) {
            end.reason = StopReason::Converged;
            return false;
        }
        if end.reason != StopReason::Converged {
            return false;
        }
        let lost = !self.fits(largest, end.norm) || end.norm.is_nan();
        if lost || progress.restarts.done >= Restarts::MOST || end.norm > Restarts::WORTH * progress.missed {
            end.reason = StopReason::Stagnated;
            return false;
        }
        true
    }

    /// A restart from x as it is returned, which missed the test.
    fn prepare_restart(&self, s: &mut dyn RrbSteps, progress: &mut Progress, end: &PcgEnd, recurred: f64) {
        let (scale, threshold) = (self.given.scale, self.test.threshold);
        if end.norm < progress.kept.min(self.norms.initial) {
            s.store(scale);
            progress.kept = end.norm;
        }
        progress.missed = end.norm;
        progress.restarts.done += 1;
        // Another time the residual on S1 must be smaller: as much as what has come on top asks for, with twice its
        // square.
        let on_top = (end.norm * end.norm - recurred * recurred).max(0.0);
        let least = Restarts::WORTH * threshold;
        progress.wanted = (threshold * threshold - 2.0 * on_top).max(least * least).sqrt();
        progress.start = Start { norm2: start_again(s, self.c, scale), iterations: end.iterations };
    }

    /// One run of PCG.
    fn run<'s>(&self, s: &mut (dyn RrbSteps + 's), progress: &mut Progress) -> Result<PcgEnd> {
        let inner = Test { threshold: progress.wanted.max(self.futile), ..self.test };
        let mut keep = |s: &mut (dyn RrbSteps + 's), best: f64, norm: f64| self.keep(s, best, norm);
        let mut best = BestIterate::new(progress.kept, &mut keep);
        let ended = pcg_with_fallback(s, &inner, &mut best, &mut progress.restarts, progress.start);
        progress.kept = best.norm;
        match ended {
            // The caller has an iterate, or keeps the guess where iterates have gone astray: nothing else may be said.
            Err(Error::Breakdown { quantity, iteration, value })
                if progress.kept < f64::INFINITY || astray(self.c, value, iteration) =>
            {
                let iterations = done_before(quantity, iteration);
                Ok(PcgEnd { iterations, norm: f64::INFINITY, reason: StopReason::Stagnated })
            }
            ended => ended,
        }
    }

    /// Gives x to the caller if it is better than the guess and than the best iterate, of norm `best`. Returns its norm
    /// then.
    fn keep(&self, s: &mut dyn RrbSteps, best: f64, mut norm: f64) -> Option<f64> {
        let (c, scale) = (self.c, self.given.scale);
        let largest;
        if self.checks {
            (largest, norm) = completed(s, c, scale);
            reduce_again(s, c, scale);
        } else {
            largest = returned(s, c);
        }
        let better = norm < best.min(self.norms.initial) && self.fits(largest, norm);
        better.then(|| {
            s.store(scale);
            norm
        })
    }

    /// Gives the caller x, or leaves him with what he has where that is better.
    fn conclude(&self, s: &mut dyn RrbSteps, ended: Ended) -> Result<Outcome> {
        let Ended { mut end, mut largest, kept } = ended;
        let (c, given, initial) = (self.c, &self.given, self.norms.initial);
        let last = end.norm;
        let better = |norm: f64| norm < last || norm < f64::INFINITY && last.is_nan();
        if end.reason != StopReason::Converged && better(kept) {
            return Ok(self.outcome(end.iterations, end.reason, kept));
        }
        if (end.reason == StopReason::Stagnated || !last.is_finite()) && better(initial) {
            // Nothing better than the guess was found: x as given.
            if !self.checks || c.norm == Norm::True2 {
                return Ok(self.outcome(end.iterations, end.reason, initial));
            }
            // That is said of its black values: with the red ones that belong to them.
            (largest, end.norm) = complete_guess(s, c, given.scale, given.guess);
        }
        if let Err(error) = self.fit.check(largest, end.norm.max(self.test.threshold)) {
            return if kept < f64::INFINITY {
                Ok(self.outcome(end.iterations, StopReason::Stagnated, kept))
            } else {
                Err(error)
            };
        }
        s.store(given.scale);
        if end.iterations == 0 && end.reason == StopReason::Converged && !given.far {
            end.reason = StopReason::InitialGuess;
        }
        Ok(self.outcome(end.iterations, end.reason, end.norm))
    }
}

/// Where A is nearly singular iterates may grow beyond all numbers from a start that was not too large. In the
/// preconditioned norm the residual of the guess could not be told then: vectors of M hold infinities.
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

/// The tested norm of b - A x on the whole grid, of x as it is returned, from b as the caller has it, without its means
/// where singular. What `reduce` made of b may be gone then.
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

/// r of S1 as b - A x on the whole grid leaves it: summed from the caller's matrix it is nearer than b1 - S1 x, whose
/// rounding would be started from. Where CG runs on A, that itself. Returns <r, r>.
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

/// b is in the null space, but for rounding: x = the mean of the guess in each component, on which A is zero but for
/// what is left of its row sums. Residuals are relative to b, of norm `given`, before it was projected. A guess that is
/// no worse stays.
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

/// The preconditioned norm of b - A x of x as the caller has it. Far off (2-norm of b - A x given), of both scaled down
/// by that: sweeps in f32 hold no more. x and b here are spent.
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
fn pcg_with_fallback<'s>(
    s: &mut (dyn RrbSteps + 's),
    test: &Test,
    best: &mut BestIterate<dyn RrbSteps + 's>,
    restarts: &mut Restarts,
    start: Start,
) -> Result<PcgEnd> {
    match pcg(s, test, best, restarts, start) {
        Err(Error::Breakdown { quantity, value, iteration }) if s.fall_back() => {
            let norm2 = s.residual();
            if !norm2.is_finite() {
                return Err(Error::Breakdown { quantity, value, iteration });
            }
            let iterations = done_before(quantity, iteration);
            pcg(s, test, best, restarts, Start { norm2, iterations })
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
        return Err(Error::Underflow { output: "z", name: "r", largest: inputs.rhs_max, center: c.center_max });
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
    if largest.is_finite() && largest <= f64::MAX * scale.min(1.0) {
        return Ok(());
    }
    let sentence = "the result would hold values too large for double precision: scale the input down";
    Err(Error::Overflow(sentence.to_owned()))
}

/// Whether x / scale fits the caller's numbers.
struct Fit {
    scale: f64,
    /// In the tested norm of b - A x, what may be lost where values of x are rounded to multiples of the smallest
    /// number.
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
            return Err(Error::Underflow { output: "x", name: "b", largest: self.input, center: self.center });
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
        Some((name, value, i, j)) if c.check_input => Err(Error::not_finite(name, value, Place::node(0, i, j))),
        _ => Ok(inputs),
    }
}

fn check_compatible(s: &mut dyn RrbSteps, c: &Control, scale: f64) -> Result<()> {
    let (component, sum, norm1) = s.worst_incompatibility();
    if sum.abs() > COMPATIBLE * norm1 {
        let (i, j) = c.components.first_node[component];
        return Err(Error::at(
            RRB_ERR_INCOMPATIBLE,
            format!("b sums to {:e} over the singular component of node ", sum / scale),
            Place::node(0, i, j),
            format!(", more than {COMPATIBLE:e} of its sum of magnitudes {:e}", norm1 / scale),
        ));
    }
    Ok(())
}

/// sqrt(r' M^-1 r) before the first iteration. On a singular system r may be a constant, and the sign of the square
/// rounding; where M is definite no other is seen.
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
