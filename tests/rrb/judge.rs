//! Comparison of the results of a call with exact values.

use crate::common::applied::{Applied, REPORT_ERROR, SINGLE, Tested, reported_right};
use crate::common::problems::cases::{Case, NullSpace};
use crate::common::problems::system::{LONE, Measured, System, norm2, norm2_of_sizes, twice};
use crate::common::problems::twice::{Twice, exponent, scaled};
use crate::common::{Failure, Solver, bits, key, padded, rrb_apply, status, unpadded};

/// Exponent of max |x| below which the underflow of small entries of x matters. It is above the smallest normal
/// exponent -1022 by 52, because of contrasts (2^40) and tolerances (2^-46).
const SUBNORMAL_COUNTS: i32 = -970;
/// `RRB_ERR_RANGE`: x would underflow.
pub const RANGE: i32 = -24;

/// Note about a checked preconditioned norm on a singular component with nonzero row sums.
pub const SMALL_ROW_SUMS: &str = "norm of M checked: singular, row sums of 1e-14 to 1e-12";

/// Stop reasons, with the numbers of the table of results.
pub mod reason {
    pub const INITIAL_GUESS: i64 = 2;
    pub const ZERO_RHS: i64 = 3;
    pub const MAX_ITER: i64 = 4;
    pub const MONITOR: i64 = 5;
    pub const STAGNATED: i64 = 6;
}

/// A projected right-hand side below this fraction of b counts as rounding (docs/theory/rrb.md).
const ROUNDING_OF_B: f64 = 16.0 * f64::EPSILON;
/// Scales of A beyond 10^+-150, as an exponent of two: squares in CG may overflow or underflow (docs/theory/rrb.md,
/// "Scaling and reproducibility").
const FAR_SCALE: i32 = 498;

/// A false report: its class, the relative error, and the numbers.
#[derive(Clone, Debug)]
pub struct Violation {
    pub class: String,
    pub ratio: f64,
    pub text: String,
}

#[derive(Default)]
pub struct Verdict {
    pub complaints: Vec<Violation>,
    /// Properties of the case, which are counted.
    pub notes: Vec<String>,
}

impl Verdict {
    pub fn complain(&mut self, class: impl Into<String>, ratio: f64, text: String) {
        self.complaints.push(Violation { class: class.into(), ratio, text });
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// Results that a solve reported.
#[derive(Clone, Debug)]
pub struct Reported {
    pub status: i32,
    pub reason: i64,
    pub iterations: i64,
    pub initial: f64,
    pub last: f64,
    /// Cycle in use, before and after the solve.
    pub cycles: [i64; 2],
    pub levels: i64,
}

impl Reported {
    pub fn of(solver: &Solver, status: i32, cycle_before: i64) -> Self {
        Reported {
            status,
            reason: solver.int(key::INFO_STOP_REASON),
            iterations: solver.int(key::INFO_ITERATIONS),
            initial: solver.real(key::INFO_INITIAL_RESIDUAL),
            last: solver.real(key::INFO_FINAL_RESIDUAL),
            cycles: [cycle_before, solver.int(key::INFO_CYCLE)],
            levels: solver.int(key::INFO_LEVELS),
        }
    }
}

pub struct Judge<'a> {
    case: &'a Case,
    pub system: System,
    /// b = `given` * 2^`b_exponent`, minus its means on singular components.
    given: Vec<Twice>,
    b: Vec<Twice>,
    b_error: Vec<f64>,
    b_exponent: i32,
}

impl<'a> Judge<'a> {
    pub fn new(case: &'a Case) -> Self {
        let mut system = System::new(&case.a);
        match case.settings.null_space {
            NullSpace::Auto => system.project_within(1e-12),
            NullSpace::Constant => system.project_within(1e-6),
            NullSpace::None => {}
        }
        let largest = case.b.iter().filter(|b| b.is_finite()).fold(0.0, |m: f64, b| m.max(b.abs()));
        let b_exponent = if largest > 0.0 { exponent(largest) } else { 0 };
        let given = twice(&case.b, -b_exponent);
        let b = system.without_means(&given);
        let b_error = system.rounding_of_rhs(&given);
        Judge { case, system, given, b, b_error, b_exponent }
    }

    fn unit_x(&self, x: &[f64]) -> Vec<Twice> {
        twice(x, self.system.exponent - self.b_exponent)
    }

    /// Returns whether CG runs on S1.
    fn eliminates(&self, reported: &Reported) -> bool {
        let compensated = self.compensates(reported.cycles[0]) && self.system.positive_couplings > 0;
        !self.system.nine && !compensated && reported.levels > 0
    }

    /// Checks the reported numbers of components and of compensated couplings.
    pub fn counts(&self, solver: &Solver, verdict: &mut Verdict) {
        let projected = self.system.singular.iter().filter(|&&s| s).count();
        let compensated =
            if self.compensates(solver.int(key::INFO_CYCLE)) { self.system.positive_couplings } else { 0 };
        for (name, key, wanted) in [
            ("components", key::INFO_COMPONENTS, self.system.size.len()),
            ("singular_components", key::INFO_SINGULAR_COMPONENTS, projected),
            ("compensated_couplings", key::INFO_COMPENSATED_COUPLINGS, compensated),
        ] {
            let found = solver.int(key);
            if found != wanted as i64 {
                verdict.complain(
                    format!("reported {name}"),
                    1.0,
                    format!("{name}: reported {found}, there are {wanted}"),
                );
            }
        }
    }

    /// Judges whether the error of a factorization is justified.
    pub fn refused_matrix(&self, failure: &Failure, verdict: &mut Verdict) {
        let (s, settings) = (&self.system, &self.case.settings);
        let asked_short = ["f32", "bf16", "mixed"].contains(&settings.precision);
        let none_singular = settings.null_space == NullSpace::None && s.relative_row_sum.iter().any(|&e| e <= 1e-12);
        let raw = s.positive_couplings > 0 && !settings.compensated;
        let recursive = ["amli", "k"].contains(&settings.cycle);
        let justified = match failure.status {
            status::UNSUPPORTED => self.must_be_unsupported(),
            status::MATRIX if asked_short && failure.message.contains("precision=f64") => true,
            // Entries of the matrix underflow.
            status::MATRIX if failure.message.contains("too small for double") => s.exponent.abs() >= FAR_SCALE,
            // At these contrasts, a pivot may consist of rounding errors only.
            status::MATRIX if failure.message.contains("below the rounding level") => self.contrast() >= 1e8,
            status::MATRIX => none_singular || raw,
            status::ARGUMENT if settings.cycle_spacing % 2 == 1 => failure.message.contains("cycle_spacing"),
            // The cost of the cycle is excessive.
            status::ARGUMENT => recursive && settings.cycle_steps > 2 && failure.message.contains("cycle_"),
            _ => false,
        };
        self.message(failure, justified, "factorize", verdict);
    }

    /// Returns the ratio of the largest to the smallest center.
    fn contrast(&self) -> f64 {
        let center = &self.system.center;
        center.iter().fold(0.0, |m: f64, &c| m.max(c)) / center.iter().fold(f64::MAX, |m, &c| m.min(c))
    }

    pub fn must_be_unsupported(&self) -> bool {
        let settings = &self.case.settings;
        let short = ["bf16", "mixed"].contains(&settings.precision);
        let not_offered = self.aggregates() && (short || self.case.options.contains("backend=reference"));
        not_offered || settings.null_space == NullSpace::Constant && self.system.singular.contains(&false)
    }

    /// Returns whether positive couplings are compensated with this cycle. Aggregation (4), to which auto may switch,
    /// compensates nothing.
    fn compensates(&self, cycle: i64) -> bool {
        self.case.settings.compensated && cycle != 4
    }

    fn aggregates(&self) -> bool {
        self.case.settings.cycle == "aggregation"
    }

    fn message(&self, failure: &Failure, justified: bool, call: &str, verdict: &mut Verdict) {
        if failure.message.is_empty() {
            verdict.complain("no message", 1.0, format!("{call}: status {}", failure.status));
        }
        if !justified {
            let class = format!("{call}: {} for no reason", failure.status);
            verdict.complain(class, 1.0, format!("{call} answers {}: {}", failure.status, failure.message));
        }
    }

    /// Judges whether the error of a solve is justified, and whether x is unchanged.
    pub fn refused_solve(&self, failure: &Failure, guess: &[f64], x: &[f64], verdict: &mut Verdict) {
        if bits(guess) != bits(x) {
            verdict.complain("x changed by a failure", 1.0, format!("status {}: {}", failure.status, failure.message));
        }
        let (s, settings) = (&self.system, &self.case.settings);
        let indefinite = s.has_negative_row_sum || s.positive_couplings > 0 && !settings.compensated;
        let recursive = ["amli", "k"].contains(&settings.cycle);
        let far = s.exponent.abs() >= FAR_SCALE;
        let justified = match failure.status {
            status::NOT_FINITE if failure.message.contains("inputs must be finite") => {
                self.case.not_finite && settings.check_input
            }
            status::NOT_FINITE => self.solution_exponent(guess).is_none_or(|e| e >= 1023),
            RANGE => {
                // A poor guess may hide the solution. On a singular system, the change relative to its mean matters.
                let of = |guess: &[f64]| self.solution_exponent(guess);
                let known = of(&vec![0.0; guess.len()]);
                // For matrices that the judge cannot solve: far below the range, whatever the inverse does to b.
                let least = s.center.iter().fold(f64::MAX, |least, &c| least.min(c));
                let bound = self.b_exponent - s.exponent - exponent(least) + 64;
                known.unwrap_or(bound) <= SUBNORMAL_COUNTS
            }
            status::BREAKDOWN if failure.message.contains("overflows") => {
                if far {
                    verdict.note("A beyond 1e+-150: refused");
                }
                // In single precision, M^-1 r for a poor guess may overflow.
                // Iterates of a nearly singular matrix may overflow, which is an error in the preconditioned norm
                // (docs/theory/rrb.md, "Breakdown").
                let grown = settings.preconditioned && s.relative_row_sum.iter().any(|&sum| sum <= 1e-4);
                let single = settings.precision != "f64" && failure.message.contains("precision=f64");
                far || single || grown || self.case.not_finite && !settings.check_input
            }
            status::BREAKDOWN => recursive || indefinite,
            status::ARGUMENT => self.guess_is_far(guess),
            status::INCOMPATIBLE => settings.check_compatibility && self.incompatibility() > 0.99e-10,
            _ => false,
        };
        self.message(failure, justified, "solve", verdict);
    }

    /// Returns whether center * guess exceeds 1e150 * b.
    fn guess_is_far(&self, guess: &[f64]) -> bool {
        let largest = guess.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        let center = self.system.center.iter().fold(0.0, |m: f64, &c| m.max(c));
        let log2 = largest.log2() + center.log2() + f64::from(self.system.exponent - self.b_exponent);
        log2 > 149.0 * 10f64.log2()
    }

    /// Returns the largest |sum b| / sum |b| of a singular component.
    pub fn incompatibility(&self) -> f64 {
        let sizes: Vec<Twice> = self.given.iter().map(|b| b.abs()).collect();
        let (sums, sizes) = (self.system.means(&self.given), self.system.means(&sizes));
        let of = |(sum, size): (&Twice, &Twice)| {
            if size.value() > 0.0 { sum.value().abs() / size.value() } else { 0.0 }
        };
        sums.iter().zip(&sizes).map(of).fold(0.0, f64::max)
    }

    /// Returns e with max |x| in [2^e, 2^(e + 1)) for the solution that the guess leads to, by a solve of the scaled
    /// system; none if that solve fails.
    fn solution_exponent(&self, guess: &[f64]) -> Option<i32> {
        let null_space = match self.case.settings.null_space {
            NullSpace::Auto => "auto",
            NullSpace::None => "none",
            NullSpace::Constant => "constant",
        };
        let mut a = self.case.a.clone();
        let corners = a.corners.iter_mut().flat_map(|(northeast, northwest)| [northeast, northwest]);
        for array in [&mut a.center, &mut a.east, &mut a.north].into_iter().chain(corners) {
            array.iter_mut().for_each(|v| *v = scaled(*v, -self.system.exponent));
        }
        let options = format!("backend=cpu precision=f64 cycle=v threads=1 rel_tol=1e-8 null_space={null_space}");
        let solver = Solver::new(a.nx, a.ny, &options);
        solver.factorize(&a).ok()?;
        let b: Vec<f64> = self.given.iter().map(|b| b.value()).collect();
        let mut x: Vec<f64> = self.unit_x(guess).iter().map(|x| x.value()).collect();
        solver.solve(&b, &mut x).ok()?;
        let r = self.system.residual(&self.b, &twice(&x, 0));
        if norm2(&r) > 1e-2 * norm2(&self.b) {
            return None;
        }
        let largest = x.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        (largest > 0.0).then(|| exponent(largest) + self.b_exponent - self.system.exponent)
    }

    /// Judges a solve that ended: status, residuals and x.
    pub fn ended(&self, solver: &Solver, reported: &Reported, guess: &[f64], x: &[f64], verdict: &mut Verdict) {
        self.ends_as_reported(reported, verdict);
        if self.case.not_finite && self.case.settings.check_input {
            verdict.complain("input not finite", 1.0, format!("status {} for NaN or infinity", reported.status));
            return;
        }
        if x.iter().any(|x| !x.is_finite()) {
            let class = format!("x not finite with status {}", reported.status);
            verdict.complain(class, f64::INFINITY, format!("reported {:e}", reported.last));
            return;
        }
        if self.case.not_finite {
            verdict.note("not finite, not checked: solved");
            return;
        }
        if self.case.settings.check_compatibility && self.incompatibility() > 1.01e-10 {
            let text =
                format!("status {}, |sum b| is {:.2e} of its magnitudes", reported.status, self.incompatibility());
            verdict.complain("incompatible b solved", 1.0, text);
        }
        if reported.reason == reason::ZERO_RHS {
            self.zero_rhs(x, verdict);
            if norm2(&self.given) == 0.0 {
                return;
            }
        }
        let Some((initial, last, references)) = self.norms(solver, reported, guess, x, verdict) else { return };
        self.promise(reported, &last, &references, verdict);
        let words = [("initial", reported.initial, &initial[..]), ("final", reported.last, &[last])];
        for (name, word, measured) in words {
            let right = measured.iter().any(|m| references.iter().any(|r| reported_right(word, m, r, REPORT_ERROR)));
            if right && !reported_right(word, &measured[0], &references[0], REPORT_ERROR) {
                verdict.note(format!("{name} residual right by another norm or reference than the first"));
            }
            if !right {
                let (m, r) = (measured[0], references[0]);
                let truth = m.with / r.value;
                let class = format!("reported {name} residual");
                let text = format!(
                    "reported {word:.4e}, true {truth:.4e}, {reported:?}; norms {measured:?}, references {references:?}"
                );
                verdict.complain(class, (word / truth).max(truth / word), text);
            }
        }
    }

    fn ends_as_reported(&self, reported: &Reported, verdict: &mut Verdict) {
        let settings = &self.case.settings;
        let fits = match reported.status {
            status::OK => (1..=3).contains(&reported.reason),
            status::NOT_CONVERGED => [reason::MAX_ITER, reason::STAGNATED].contains(&reported.reason),
            _ => reported.reason == reason::MONITOR,
        };
        let exhausted = reported.reason != reason::MAX_ITER || reported.iterations == settings.max_iter as i64;
        let guessed = ![reason::INITIAL_GUESS, reason::ZERO_RHS].contains(&reported.reason) || reported.iterations == 0;
        if !fits || !exhausted || !guessed || reported.iterations > settings.max_iter as i64 {
            let text =
                format!("status {}, reason {}, {} iterations", reported.status, reported.reason, reported.iterations);
            verdict.complain("stop reason", 1.0, text);
        }
    }

    /// Judges a zero right-hand side: x = 0, or the means of the guess if b is constant. Only rounding may remain of b.
    fn zero_rhs(&self, x: &[f64], verdict: &mut Verdict) {
        let given = norm2(&self.given);
        let left = norm2(&self.b);
        if left > ROUNDING_OF_B * given + norm2_of_sizes(&self.b_error) {
            verdict.complain("zero_rhs", left / given, format!("||Pb|| is {:e} of ||b||", left / given));
        }
        if given == 0.0 && x.iter().any(|&x| x != 0.0) {
            verdict.complain("zero_rhs", f64::INFINITY, "b = 0, and x is not".to_owned());
        }
    }

    fn abs_tol(&self, preconditioned: bool) -> f64 {
        let half = if preconditioned { self.system.exponent / 2 } else { 0 };
        scaled(self.case.settings.abs_tol, half - self.b_exponent)
    }

    /// Returns bounds of the rounding errors of the residual of x, as the library computes it.
    fn errors(&self, b: &[Twice], x: &[Twice], products: bool) -> Vec<f64> {
        let s = &self.system;
        let of_row = if products { s.rounding_of_products(b, x) } else { s.rounding_of_residual(b, x) };
        of_row.iter().zip(&self.b_error).map(|(row, b)| row + b).collect()
    }

    /// Returns the bounds of `errors` for an x that is stored in doubles: with an additional rounding if it is
    /// subnormal.
    fn errors_of_stored(&self, stored: &[f64], x: &[Twice]) -> Vec<f64> {
        let errors = self.errors(&self.b, x, false);
        let largest = stored.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        if largest < f64::MIN_POSITIVE {
            return errors;
        }
        let half_unit = scaled(1.0, -1075 + self.system.exponent - self.b_exponent);
        let small = self.system.rounding_of_small(half_unit);
        errors.iter().zip(small).map(|(e, s)| e + s).collect()
    }

    /// Returns the norms of the initial and of the final residual, and their references; for each, all values that the
    /// contract allows.
    fn norms(
        &self,
        solver: &Solver,
        reported: &Reported,
        guess: &[f64],
        x: &[f64],
        verdict: &mut Verdict,
    ) -> Option<(Vec<Tested>, Tested, Vec<Measured>)> {
        let (x_guess, x_last) = (self.unit_x(guess), self.unit_x(x));
        let errors = [self.errors_of_stored(guess, &x_guess), self.errors_of_stored(x, &x_last)];
        let residuals = [&x_guess, &x_last].map(|x| self.system.residual(&self.b, x));
        if !self.case.settings.preconditioned {
            let [initial, last] =
                [0, 1].map(|k| Measured { value: norm2(&residuals[k]), error: norm2_of_sizes(&errors[k]) });
            let b = Measured { value: norm2(&self.b), error: norm2_of_sizes(&self.b_error) };
            let reference = if self.case.settings.of_initial { initial } else { b };
            // If b is constant up to rounding, residuals are relative to the original b.
            let given = norm2(&self.given);
            let mut references = vec![reference];
            if reference.value - reference.error <= 2.0 * ROUNDING_OF_B * given {
                references.push(Measured { value: given, error: 0.0 });
            }
            let tested = |m: Measured| Tested { without: m, with: m.value };
            return Some((vec![tested(initial)], tested(last), references));
        }
        // `rrb_apply` applies another M here: the fixed, linear variant of the cycle.
        if reported.cycles.iter().any(|cycle| *cycle >= 3) {
            verdict.note("norm of M not checked: cycle=k or aggregation");
            return None;
        }
        if reported.cycles[0] != reported.cycles[1] {
            verdict.note("norm of M not checked: another cycle after the solve");
            return None;
        }
        let found = self.norms_of_m(solver, reported, &x_guess, &residuals, &errors);
        verdict.note(if found.is_some() { "norm of M checked" } else { "norm of M not checked: rrb_apply fails" });
        if found.is_some() && self.small_row_sums() {
            verdict.note(SMALL_ROW_SUMS);
        }
        found
    }

    fn norms_of_m(
        &self,
        solver: &Solver,
        reported: &Reported,
        x_guess: &[Twice],
        residuals: &[Vec<Twice>; 2],
        errors: &[Vec<f64>; 2],
    ) -> Option<(Vec<Tested>, Tested, Vec<Measured>)> {
        let s = &self.system;
        let eliminates = self.eliminates(reported);
        let tested = |r: &[Twice], errors: &[f64]| -> Option<Tested> {
            let without = self.norm_of_m(solver, r, errors)?;
            let constants = s.norm_of_means(&s.means(r));
            Some(Tested { without, with: without.value.hypot(constants) })
        };
        // The null space of the projected M is that of the nodes on which CG works.
        let by_colours = eliminates && self.projects();
        let of_whole = |k: usize| {
            let (r, errors) = (&residuals[k], &errors[k]);
            if by_colours { self.norm_by_colours(solver, r, errors) } else { tested(r, errors) }
        };
        let last = of_whole(1)?;
        let whole = of_whole(0)?;
        // Initial residual of CG, for the guess and for x = 0. On S1, the solver computes it with products, whose
        // rounding errors are larger.
        let products = self.errors(&self.b, x_guess, true);
        let (r, rhs) = if eliminates {
            (s.reduced(&residuals[0], &products), s.reduced(&self.b, &self.b_error))
        } else {
            ((residuals[0].clone(), errors[0].clone()), (self.b.clone(), self.b_error.clone()))
        };
        let initial = if eliminates { self.norm_of_s1(solver, &r.0, &r.1)? } else { whole };
        let start = if self.case.settings.of_initial { r } else { rhs };
        let reference =
            if eliminates { self.norm_of_s1(solver, &start.0, &start.1)? } else { tested(&start.0, &start.1)? };
        // Constants of the initial residual count, but constants that the elimination creates from b do not.
        let from_zero = x_guess.iter().all(|x| x.value() == 0.0);
        let constants = self.case.settings.of_initial && !from_zero;
        let value = if constants { reference.with } else { reference.without.value };
        let reference = Measured { value, ..reference.without };
        let size = norm2(&start.0);
        let size_error = norm2_of_sizes(&start.1);
        let projected = if eliminates { norm2(&s.without_means_of_black(&start.0)) } else { size };
        // A residual relative to a rounding error would never be small. Near the limit, both references are allowed.
        let given = norm2(&self.given);
        let limit = ROUNDING_OF_B * given;
        let mut references = Vec::new();
        if size + size_error >= limit / 2.0 {
            references.push(reference);
        }
        if size.min(projected) - size_error <= 2.0 * limit {
            let largest = s.center.iter().fold(0.0, |m: f64, &c| m.max(c));
            references.push(Measured { value: given / largest.sqrt(), error: 0.0 });
        }
        if norm2(&self.b) <= 2.0 * limit && self.case.settings.of_initial {
            // S1 is not inspected in this case.
            references.push(Measured { value: whole.with, error: whole.without.error });
        }
        let initial = vec![initial, whole];
        Some((initial, last, references))
    }

    /// Returns the norm for an r with constants, which the first elimination does not map to constants of S1: r_r'
    /// D_r^-1 r_r + r1' M1^-1 r1, where r1 has mean zero. `rrb_apply` would remove the constants before.
    fn norm_by_colours(&self, solver: &Solver, r: &[Twice], errors: &[f64]) -> Option<Tested> {
        let s = &self.system;
        let red = (0..s.len()).filter(|&p| s.is_red(p)).map(|p| r[p].square() / s.center[p]).sum::<Twice>();
        let red_error =
            (0..s.len()).filter(|&p| s.is_red(p)).map(|p| errors[p] / s.center[p].sqrt()).collect::<Vec<_>>();
        let (r1, errors) = s.reduced(r, errors);
        let Tested { without: black, with } = self.norm_of_s1(solver, &r1, &errors)?;
        let red = red.value().sqrt();
        let error = black.error + norm2_of_sizes(&red_error);
        Some(Tested { without: Measured { value: black.value.hypot(red), error }, with: with.hypot(red) })
    }

    /// Returns the norm of r1 on S1, where the mean of r1 is removed.
    fn norm_of_s1(&self, solver: &Solver, r1: &[Twice], errors: &[f64]) -> Option<Tested> {
        let s = &self.system;
        let projected = s.without_means_of_black(r1);
        // In single precision, r1 is rounded before its mean is removed.
        let unit = if solver.int(key::INFO_PRECISION) == 1 { 0.0 } else { SINGLE };
        let errors: Vec<f64> = errors.iter().zip(r1).map(|(e, r)| e + unit * r.abs().value()).collect();
        let without = self.norm_of_m(solver, &projected, &errors)?;
        let constants: Twice = (0..s.len()).map(|p| (r1[p] - projected[p]).square() / s.center[p]).sum();
        Some(Tested { without, with: without.value.hypot(constants.value().sqrt()) })
    }

    /// Returns whether a component that is treated as singular has row sums of 1e-14 to 1e-12 of the center.
    fn small_row_sums(&self) -> bool {
        let System { relative_row_sum, singular, .. } = &self.system;
        singular.iter().zip(relative_row_sum).any(|(&singular, sum)| singular && (1e-14..=1e-12).contains(sum))
    }

    fn projects(&self) -> bool {
        self.system.singular.contains(&true)
    }

    /// Computes sqrt(r' M^-1 r) with `rrb_apply` of the same handle.
    fn norm_of_m(&self, solver: &Solver, r: &[Twice], errors: &[f64]) -> Option<Measured> {
        let short = solver.int(key::INFO_PRECISION) != 1;
        // The V-cycle in double precision is exact up to the rounding of each entry. If M^-1 is applied with
        // differences of z or in single precision, the error is one unit of z'|M|z.
        let unit = match (short, solver.int(key::INFO_CYCLE)) {
            (true, _) => SINGLE,
            (false, 1) => 0.0,
            _ => f64::EPSILON,
        };
        let (nx, ld) = (self.case.a.nx, self.case.leading_dimension);
        let apply = |r: &[f64]| {
            let input = padded(r, nx, ld, f64::NAN);
            let mut z = vec![0.0; input.len()];
            // SAFETY: a live handle and arrays of its size.
            let answer = unsafe { rrb_apply(solver.handle, input.as_ptr(), z.as_mut_ptr()) };
            (answer == status::OK).then(|| unpadded(&z, nx, ld))
        };
        Applied { system: &self.system, apply: &apply, short, unit }.norm(r, errors)
    }

    fn promise(&self, reported: &Reported, last: &Tested, references: &[Measured], verdict: &mut Verdict) {
        let settings = &self.case.settings;
        let abs_tol = self.abs_tol(settings.preconditioned);
        let allowed = |r: &Measured| (settings.rel_tol * (r.value + r.error)).max(abs_tol);
        let most = references.iter().map(allowed).fold(0.0, f64::max);
        if reported.status == status::OK {
            let bound = most * (1.0 + REPORT_ERROR) + last.without.error;
            if last.with > bound {
                let text = format!(
                    "norm {:.4e} ({:.4e} without constants), allowed {most:.4e} and rounding {:.1e}; \
                     reason {}, reported {:.4e}",
                    last.with, last.without.value, last.without.error, reported.reason, reported.last
                );
                verdict.complain("promise of status 0", last.with / bound, text);
            }
            return;
        }
        let least = references.iter().map(|r| (settings.rel_tol * (r.value - r.error)).max(abs_tol));
        let least = least.fold(f64::INFINITY, f64::min);
        if reported.status == status::NOT_CONVERGED
            && last.with * (1.0 + 2.0 * REPORT_ERROR) + last.without.error < least
        {
            let text = format!("norm {:.4e}, allowed {least:.4e}, reason {}", last.with, reported.reason);
            verdict.complain("status 1 though the test is met", least / last.with, text);
        }
        if reported.reason == reason::STAGNATED && !settings.preconditioned && last.with > 1e3 * last.without.error {
            verdict.note("stagnated at more than 1000 times the rounding of the residual");
        }
    }

    /// Returns a readable description of lone nodes and components.
    pub fn describe(&self) -> String {
        let lone = self.system.label.iter().filter(|&&k| k == LONE).count();
        let s = &self.system;
        format!(
            "A 2^{}, b 2^{}, {} lone nodes, components of {:?} nodes, row sums {:.3?}{}, positive couplings {}",
            s.exponent,
            self.b_exponent,
            lone,
            &s.size[..s.size.len().min(6)],
            &s.relative_row_sum[..s.relative_row_sum.len().min(6)],
            if s.has_negative_row_sum { ", negative ones too" } else { "" },
            s.positive_couplings
        )
    }
}
