//! Random systems: every status and every residual of `dpcg_solve` is compared with a computation in twice the working
//! precision (tests/problems/src/system.rs). Errors must be justified and must leave x unchanged.
//!
//! | variable | meaning, default |
//! |---|---|
//! | `RRBSOLVER_TRUTH_CASES` | number of cases, 2000 |
//! | `RRBSOLVER_TRUTH_SEED` | seed of the sequence, 1 |
//! | `RRBSOLVER_TRUTH_BACKEND` | cpu, cuda, or emulated (cuda on small boxes) |
//! | `RRBSOLVER_TRUTH_CASE` | number of a single case, whose options are printed |

#[path = "../common/mod.rs"]
mod common;

use common::applied::{Applied, REPORT_ERROR, SINGLE, Tested, reported_right};
use common::dpcg::*;
use common::problems::OUTSIDE;
use common::problems::system::{LONE, Measured, System, norm2, norm2_of_sizes, twice};
use common::problems::twice::{Twice, exponent};
use common::truth::{Cases, variable};
use common::{Failure, bits, max_abs, status};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A projected right-hand side below this fraction of b counts as rounding (docs/theory/rrb.md).
const ROUNDING_OF_B: f64 = 16.0 * f64::EPSILON;

struct Random(SplitMix);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// Returns a random integer in low ..= high.
    fn whole(&mut self, low: usize, high: usize) -> usize {
        low + (self.unit() * (high - low + 1) as f64) as usize
    }

    fn chance(&mut self, percent: f64) -> bool {
        100.0 * self.unit() < percent
    }

    /// Returns 10^v with v in [low, high).
    fn power(&mut self, low: f64, high: f64) -> f64 {
        10f64.powf(low + (high - low) * self.unit())
    }

    fn among<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.whole(0, choices.len() - 1)]
    }
}

/// A system and how it is solved.
struct Case {
    a: TwoPhase,
    b: Vec<f64>,
    guess: Vec<f64>,
    labels: Option<Vec<i32>>,
    options: String,
    /// A row sum is zero if its magnitude is at most this fraction of the center.
    zero_row_sum: f64,
    null_space: &'static str,
    rel_tol: f64,
    max_iter: usize,
    of_initial: bool,
    preconditioned: bool,
    checks_compatibility: bool,
}

/// Creates couplings that are all -1, or vary over several decades, or have two values for two phases. They may be
/// stronger in some directions, and walls and obstacles may interrupt them.
fn couplings(r: &mut Random, size: [usize; 3]) -> TwoPhase {
    let [nx, ny, nz] = size;
    let n = nx * ny * nz;
    let mut a = TwoPhase {
        size,
        center: vec![0.0; n],
        forward: [(); 3].map(|()| vec![OUTSIDE; n]),
        air: vec![false; n],
        solid: vec![false; n],
    };
    let (kind, decades, share) = (r.whole(0, 2), 8.0 * r.unit(), r.unit());
    let kappa: Vec<f64> = (0..n)
        .map(|_| match kind {
            0 => 1.0,
            1 => r.power(-decades, 0.0),
            _ => {
                if r.unit() < share {
                    10f64.powf(decades)
                } else {
                    1.0
                }
            }
        })
        .collect();
    let flat = r.chance(30.0);
    let scale = [(); 3].map(|()| if flat { r.power(-2.0, 2.0) } else { 1.0 });
    let wall = r.chance(25.0).then(|| (r.whole(0, 2), r.whole(0, 12)));
    let land = if r.chance(25.0) { 0.3 * r.unit() } else { 0.0 };
    a.solid.iter_mut().for_each(|solid| *solid = r.unit() < land);
    for c in 0..n {
        let at = [c % nx, c / nx % ny, c / (nx * ny)];
        for (d, step) in [1, nx, nx * ny].into_iter().enumerate() {
            if at[d] + 1 < size[d] {
                let shut = a.solid[c] || a.solid[c + step] || wall == Some((d, at[d]));
                let mean = 2.0 * kappa[c] * kappa[c + step] / (kappa[c] + kappa[c + step]);
                a.forward[d][c] = if shut { 0.0 } else { -scale[d] * mean };
            }
        }
    }
    a
}

/// Sets centers so that row sums are zero, nearly zero, or positive, in all rows, some rows or one row.
fn centers(r: &mut Random, a: &mut TwoPhase) {
    for (p, q, value) in a.couplings() {
        a.center[p] -= value;
        a.center[q] -= value;
    }
    let part = match r.whole(0, 5) {
        0 | 1 => 0.0,
        2 => 9e-13 * r.unit(),
        3 => r.power(-14.0, -6.0),
        _ => r.power(-6.0, 1.0),
    };
    let (one, share) = (r.whole(0, a.cells() - 1), if r.chance(50.0) { 1.0 } else { r.unit() });
    let alone = r.chance(20.0);
    for (p, center) in a.center.iter_mut().enumerate() {
        if if alone { p == one } else { r.unit() < share } {
            *center *= 1.0 + part;
        }
        if *center == 0.0 {
            *center = r.power(-3.0, 3.0);
        }
    }
}

impl Case {
    /// Returns whether the case requests a feature that the backend lacks (docs/guides/dpcg.md).
    fn is_not_offered(&self) -> bool {
        let asks = |word: &&str| self.options.contains(*word);
        let of_the_host = ["preconditioner=ic0", "preconditioner=ric", "coarse_solver=cg"].iter().any(asks);
        asks(&"backend=cuda") && of_the_host || asks(&"preconditioner=amg") && asks(&"backend=reference")
    }
}

/// Returns mostly small extents, which have many boundary cases and cheap solves.
fn extents(r: &mut Random, backend: &str) -> [usize; 3] {
    match r.whole(0, 19) {
        0 => [r.whole(1, 40), 1, 1],
        1 => [1, r.whole(1, 12), r.whole(1, 12)],
        // Enough cells for several threads.
        2 if backend == "cpu" && r.chance(20.0) => [32, 27, 20],
        // Enough cells for several thread blocks.
        2 if backend == "cuda" => [r.whole(13, 80), r.whole(13, 40), r.whole(13, 24)],
        // An emulated device needs a second for a millisecond of a CPU.
        _ if backend == "emulated" && r.chance(90.0) => [(); 3].map(|()| r.whole(1, 6)),
        _ => [(); 3].map(|()| r.whole(1, 12)),
    }
}

fn options(r: &mut Random, case: &mut Case, backend: &str) {
    let size = case.a.size;
    let preconditioner =
        r.among(&["auto", "auto", "none", "jacobi", "neumann", "ic0", "ric", "multigrid", "multigrid", "amg"]);
    let deflation = r.among(&["auto", "none", "subdomain", "levelset", "levelset_subdomain"]);
    let mut words = vec![format!("preconditioner={preconditioner} deflation={deflation}")];
    for (name, n) in ["subdomains_x", "subdomains_y", "subdomains_z"].into_iter().zip(size) {
        if r.chance(50.0) {
            words.push(format!("{name}={}", r.whole(0, n.min(4))));
        }
    }
    for (name, values) in [
        ("order", &["0", "1", "3", "8"][..]),
        ("ric_omega", &["0", "0.5", "0.97"]),
        ("keep_all", &["1"]),
        ("coarse_solver", &["inverse", "cholesky", "cg"]),
        ("coarsening", &["vertex", "cell"]),
        ("sweeps", &["1", "2"]),
        ("dilation", &["0", "1"]),
        ("precision", &["f32", "f64"]),
        ("fusion", &["off"]),
    ] {
        if r.chance(35.0) {
            words.push(format!("{name}={}", r.among(values)));
        }
    }
    case.null_space = r.among(&["auto", "auto", "auto", "none", "constant"]);
    case.zero_row_sum = match case.null_space {
        "auto" => 1e-12,
        "constant" => 1e-6,
        _ => -1.0,
    };
    case.rel_tol = r.power(-13.0, -1.0);
    case.max_iter = if r.chance(15.0) { r.whole(0, 5) } else { 400 };
    case.of_initial = r.chance(25.0);
    case.preconditioned = r.chance(35.0);
    case.checks_compatibility = r.chance(10.0);
    let on_cpu = r.among(&["cpu", "cpu", "reference"]);
    words.push(format!(
        "backend={} threads={} null_space={} rel_tol={:e} max_iter={} reference={} norm={} check_compatibility={}",
        if backend == "cpu" { on_cpu } else { "cuda" },
        r.whole(1, 3),
        case.null_space,
        case.rel_tol,
        case.max_iter,
        if case.of_initial { "initial" } else { "rhs" },
        if case.preconditioned { "preconditioned" } else { "true2" },
        u8::from(case.checks_compatibility),
    ));
    case.options = words.join(" ");
}

fn make(seed: u64, number: u64, backend: &str) -> Case {
    let mut random = Random(SplitMix(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let r = &mut random;
    let size = extents(r, backend);
    let mut a = couplings(r, size);
    centers(r, &mut a);
    let (scale_a, scale_b) = if r.chance(40.0) { (r.power(-60.0, 60.0), r.power(-60.0, 60.0)) } else { (1.0, 1.0) };
    a.center.iter_mut().chain(a.forward.iter_mut().flatten()).for_each(|v| *v *= scale_a);
    let kind = r.whole(0, 4);
    let place = r.whole(0, a.cells() - 1);
    let b: Vec<f64> = (0..a.cells())
        .map(|p| {
            scale_b
                * match kind {
                    0 => r.unit() - 0.5,
                    1 => f64::from(u8::from(p == place)),
                    2 => f64::from(u8::from(r.unit() < 0.1)),
                    3 => a.center[p] / scale_a * (r.unit() - 0.5),
                    _ => {
                        if r.unit() < 0.02 {
                            1.0
                        } else {
                            1e-9 * r.unit()
                        }
                    }
                }
        })
        .collect();
    let unit = scale_b / scale_a;
    let guess = match r.whole(0, 5) {
        0 => random_guess(r, b.len(), unit),
        1 => vec![unit * r.power(-2.0, 8.0); b.len()],
        2 => {
            let far = unit * r.power(-3.0, 6.0);
            random_guess(r, b.len(), far)
        }
        _ => vec![0.0; b.len()],
    };
    let most = r.whole(0, 9) as f64;
    let labels = r.chance(25.0).then(|| (0..b.len()).map(|_| (r.unit() * (most + 2.0)) as i32 - 1).collect());
    let mut case = Case {
        a,
        b,
        guess,
        labels,
        options: String::new(),
        zero_row_sum: 0.0,
        null_space: "",
        rel_tol: 0.0,
        max_iter: 0,
        of_initial: false,
        preconditioned: false,
        checks_compatibility: false,
    };
    options(r, &mut case, backend);
    case
}

fn random_guess(r: &mut Random, len: usize, scale: f64) -> Vec<f64> {
    (0..len).map(|_| scale * (r.unit() - 0.5)).collect()
}

/// A case with its exact properties, which decides whether the results of the library are correct.
struct Judge<'c> {
    case: &'c Case,
    system: System,
    given: Vec<Twice>,
    b: Vec<Twice>,
    b_error: Vec<f64>,
    b_exponent: i32,
}

impl<'c> Judge<'c> {
    fn new(case: &'c Case) -> Self {
        let mut system = System::of(&case.a.center, &case.a.couplings());
        system.project_within(case.zero_row_sum);
        let largest = max_abs(&case.b);
        let b_exponent = if largest > 0.0 { exponent(largest) } else { 0 };
        let given = twice(&case.b, -b_exponent);
        let (b, b_error) = (system.without_means(&given), system.rounding_of_rhs(&given));
        Self { case, system, given, b, b_error, b_exponent }
    }

    /// Computes ||b - A x|| with projected b, and a bound of its rounding error.
    fn residual(&self, x: &[f64]) -> (f64, f64) {
        let (r, errors) = self.residual_vector(x);
        (norm2(&r), norm2_of_sizes(&errors))
    }

    /// Computes b - A x with projected b, and bounds of the rounding errors of its entries.
    fn residual_vector(&self, x: &[f64]) -> (Vec<Twice>, Vec<f64>) {
        let x = twice(x, self.system.exponent - self.b_exponent);
        let rounding = self.system.rounding_of_residual(&self.b, &x);
        // Rounding errors of this computation itself, if products are far larger than the residual.
        let of_judge = self.system.rounding_of_products(&self.b, &x).into_iter().map(|e| f64::EPSILON * e);
        let errors = rounding.iter().zip(&self.b_error).zip(of_judge).map(|((r, b), own)| r + b + own).collect();
        (self.system.residual(&self.b, &x), errors)
    }

    /// Returns the largest |sum b| / sum |b| of a singular component.
    fn incompatibility(&self) -> f64 {
        let sizes: Vec<Twice> = self.given.iter().map(|b| b.abs()).collect();
        let of = |(sum, size): (&Twice, &Twice)| {
            if size.value() > 0.0 { sum.value().abs() / size.value() } else { 0.0 }
        };
        self.system.means(&self.given).iter().zip(&self.system.means(&sizes)).map(of).fold(0.0, f64::max)
    }

    /// Returns the ratio of the largest to the smallest center.
    fn contrast(&self) -> f64 {
        let center = &self.system.center;
        max_abs(center) / center.iter().fold(f64::MAX, |m, &c| m.min(c))
    }

    /// Returns whether the row sums of a component are zero, up to rounding or as the caller asserts.
    fn singular(&self) -> bool {
        self.system.relative_row_sum.iter().any(|&e| e <= self.case.zero_row_sum.max(1e-12))
    }

    fn refused(&self, call: &str, failure: &Failure) -> Result<(), String> {
        let null_space = self.case.null_space;
        let justified = match failure.status {
            status::UNSUPPORTED => {
                self.case.is_not_offered() || null_space == "constant" && self.system.singular.contains(&false)
            }
            status::INCOMPATIBLE => self.case.checks_compatibility && self.incompatibility() > 0.99e-10,
            // The last pivot of a singular component may be zero. At large contrasts, a pivot may be pure rounding.
            status::MATRIX => {
                let incomplete =
                    ["preconditioner=ic0", "preconditioner=ric"].iter().any(|m| self.case.options.contains(m));
                (null_space == "none" || incomplete) && self.singular() || self.contrast() >= 1e6
            }
            _ => false,
        };
        match justified && !failure.message.is_empty() {
            true => Ok(()),
            false => Err(format!("{call} answers {}: {}", failure.status, failure.message)),
        }
    }

    /// Judges status, reason and residuals of a solve that started from `guess`. Returns the classes of preconditioned
    /// norms that were judged.
    fn ended(&self, solver: &Solver, ended: i32, guess: &[f64], x: &[f64]) -> Result<Vec<&'static str>, String> {
        let case = self.case;
        let reason = solver.int(common::key::INFO_STOP_REASON);
        let iterations = solver.int(common::key::INFO_ITERATIONS);
        let fits = match ended {
            status::OK => (1..=3).contains(&reason),
            status::NOT_CONVERGED => reason == 6 || reason == 4 && iterations == case.max_iter as i64,
            _ => false,
        };
        if !fits || iterations > case.max_iter as i64 {
            return Err(format!("status {ended}, reason {reason}, {iterations} iterations"));
        }
        if x.iter().any(|x| !x.is_finite()) {
            return Err(format!("x is not finite, status {ended}"));
        }
        if case.checks_compatibility && self.incompatibility() > 1.01e-10 {
            return Err(format!("b is incompatible by {:.2e}, and solved", self.incompatibility()));
        }
        if norm2(&self.given) == 0.0 {
            return Ok(Vec::new());
        }
        if case.preconditioned {
            return self.ended_in_norm_of_m(solver, ended, guess, x);
        }
        let ((initial, of_initial), (last, of_last)) = (self.residual(guess), self.residual(x));
        let (b, of_b) = (norm2(&self.b), norm2_of_sizes(&self.b_error));
        let (reference, of_reference) = if case.of_initial { (initial, of_initial) } else { (b, of_b) };
        // If b is constant up to rounding, residuals are relative to the original b.
        let mut references = vec![(reference, of_reference)];
        if reference - of_reference <= 2.0 * ROUNDING_OF_B * norm2(&self.given) {
            references.push((norm2(&self.given), 0.0));
        }
        let most = references.iter().map(|(r, e)| case.rel_tol * (r + e)).fold(0.0, f64::max);
        let least = references.iter().map(|(r, e)| case.rel_tol * (r - e)).fold(f64::INFINITY, f64::min);
        if ended == status::OK && last > most * (1.0 + REPORT_ERROR) + of_last {
            return Err(format!("status 0, but the residual is {last:e}, allowed {most:e} and rounding {of_last:.1e}"));
        }
        if ended == status::NOT_CONVERGED && last * (1.0 + 2.0 * REPORT_ERROR) + of_last < least {
            return Err(format!("status 1, but the residual is {last:e}, allowed {least:e}"));
        }
        let words = [
            ("initial", common::key::INFO_INITIAL_RESIDUAL, initial, of_initial),
            ("final", common::key::INFO_FINAL_RESIDUAL, last, of_last),
        ];
        for (name, key, norm, error) in words {
            let reported = solver.real(key);
            let right = |&(r, e): &(f64, f64)| {
                reported * (r * (1.0 + REPORT_ERROR) + e) >= norm * (1.0 - REPORT_ERROR) - error
                    && reported * (r * (1.0 - REPORT_ERROR) - e) <= norm * (1.0 + REPORT_ERROR) + error
            };
            if !references.iter().any(right) {
                let sizes = [norm, error, reference, of_reference];
                return Err(format!("{name} residual reported {reported:e}, true {:e} of {sizes:?}", norm / reference));
            }
        }
        Ok(Vec::new())
    }
}

impl Judge<'_> {
    /// Judges status and residuals in the norm of P M^-1 P, measured by `dpcg_apply` of the same handle. With amg,
    /// `dpcg_apply` applies the cycle of the solve, which depends on r: the norm is sqrt(r'M(r)^-1 r).
    ///
    /// With deflation, `dpcg_apply` is P'M^-1 P + Z E^-1 Z'. It equals the norm of M^-1 if Z'r = 0, which holds for
    /// each x that a solve returns. The guess is such an x (`started`), but x = 0 with r = b is not. The reference
    /// therefore follows from the initial norm.
    fn ended_in_norm_of_m(
        &self,
        solver: &Solver,
        ended: i32,
        guess: &[f64],
        x: &[f64],
    ) -> Result<Vec<&'static str>, String> {
        let deflated = is_deflated(solver);
        let nothing = || Ok(Vec::new());
        // The norm does not contain the rounding error of E^-1, but `dpcg_apply` does. The error is small only if A is
        // far from singular. On singular systems, `dpcg_apply` also centers r, unlike a deflated solve.
        let regular = self.system.relative_row_sum.iter().all(|&sum| sum > FAR_FROM_SINGULAR);
        if deflated && (!regular || solver.int(key::INFO_COARSE_SOLVER) == COARSE_CG) {
            return nothing();
        }
        let short = solver.int(common::key::INFO_PRECISION) != 1;
        // Sweeps of ric, ic0 and multigrid in double precision round each entry of z.
        let unit = if short { SINGLE } else { f64::EPSILON };
        let apply = |r: &[f64]| Some(solver.apply(r));
        let norm = Applied { system: &self.system, apply: &apply, short, unit };
        let coarse = if deflated { self.rounding_of_coarse([&self.case.guess, guess, x]) } else { vec![0.0; x.len()] };
        let of = |x: &[f64]| {
            let (r, errors) = self.residual_vector(x);
            let errors: Vec<f64> = errors.iter().zip(&coarse).map(|(row, coarse)| row + coarse).collect();
            norm.tested(&r, &errors)
        };
        let (Some(initial), Some(last), Some(b)) = (of(guess), of(x), norm.norm(&self.b, &self.b_error)) else {
            return nothing();
        };
        let case = self.case;
        let from_zero = guess.iter().all(|x| *x == 0.0);
        let reference = if case.of_initial && !from_zero {
            Measured { value: initial.with, error: initial.without.error }
        } else {
            b
        };
        // A residual relative to a rounding error would never be small.
        let given = norm2(&self.given);
        let largest = self.system.center.iter().fold(0.0, |m: f64, &c| m.max(c));
        let mut references = vec![reference];
        let initial_is_rounding = case.of_initial && self.residual(guess).0 <= 4.0 * ROUNDING_OF_B * given;
        if deflated && !case.of_initial {
            let reported = solver.real(common::key::INFO_INITIAL_RESIDUAL);
            if reported == 0.0 {
                return nothing();
            }
            let Measured { value, error } = initial.without;
            references = vec![Measured { value: value / reported, error: error / reported }];
        } else if norm2(&self.b) <= 4.0 * ROUNDING_OF_B * given || initial_is_rounding {
            references.push(Measured { value: given / largest.sqrt(), error: 0.0 });
        }
        let most = references.iter().map(|r| case.rel_tol * (r.value + r.error)).fold(0.0, f64::max);
        let least = references.iter().map(|r| case.rel_tol * (r.value - r.error)).fold(f64::INFINITY, f64::min);
        let Tested { without, with } = last;
        if ended == status::OK && with > most * (1.0 + REPORT_ERROR) + without.error {
            return Err(format!("status 0, but the norm of M is {last:?}, allowed {most:e}"));
        }
        if ended == status::NOT_CONVERGED && with * (1.0 + 2.0 * REPORT_ERROR) + without.error < least {
            return Err(format!("status 1, but the norm of M is {last:?}, allowed {least:e}"));
        }
        for (name, key, norm) in [
            ("initial", common::key::INFO_INITIAL_RESIDUAL, initial),
            ("final", common::key::INFO_FINAL_RESIDUAL, last),
        ] {
            let reported = solver.real(key);
            if !references.iter().any(|r| reported_right(reported, &norm, r, REPORT_ERROR)) {
                return Err(format!(
                    "{name} residual reported {reported:e} in the norm of M, {norm:?} of {references:?}"
                ));
            }
        }
        Ok(self.classes(solver, deflated))
    }

    /// Returns the rounding error of Z'r at the end of a solve with these vectors: 8 units of each product with the
    /// diagonal.
    fn rounding_of_coarse(&self, vectors: [&[f64]; 3]) -> Vec<f64> {
        let largest = vectors.iter().map(|v| max_abs(v)).fold(0.0, f64::max);
        let unit = 8.0 * f64::EPSILON * twice(&[largest], self.system.exponent - self.b_exponent)[0].value();
        self.system.center.iter().map(|center| unit * center).collect()
    }

    fn classes(&self, solver: &Solver, deflated: bool) -> Vec<&'static str> {
        const AMG: i64 = 7;
        let System { relative_row_sum, singular, .. } = &self.system;
        let small = |(&singular, sum): (&bool, &f64)| singular && (1e-14..=1e-12).contains(sum);
        let classes = [
            (!deflated && singular.iter().zip(relative_row_sum).any(small), SMALL_ROW_SUMS),
            (singular.contains(&true), SINGULAR),
            (deflated, DEFLATED),
            (solver.int(key::INFO_PRECONDITIONER) == AMG, AGGREGATED),
        ];
        classes.into_iter().filter(|(is, _)| *is).map(|(_, class)| class).collect()
    }
}

/// Classes of systems whose preconditioned norms are judged. The first class is not deflated and treated as singular,
/// with row sums of 1e-14 to 1e-12 of the center. The other names are self-explanatory.
const SMALL_ROW_SUMS: &str = "row sums of 1e-14 to 1e-12";
const SINGULAR: &str = "singular";
const DEFLATED: &str = "deflated";
const AGGREGATED: &str = "amg";
/// Smallest number of judged cases per class, as a fraction of all cases: about half of the expected number, so that no
/// seed fails by chance.
const LEAST: [(&str, f64); 4] = [(SMALL_ROW_SUMS, 0.005), (SINGULAR, 0.03), (DEFLATED, 0.025), (AGGREGATED, 0.005)];

/// In judged deflated systems, each component has a largest row sum above this fraction of the center.
const FAR_FROM_SINGULAR: f64 = 1e-6;
/// With `coarse_solver=cg`, P is a projection only up to the tolerance.
const COARSE_CG: i64 = 3;

fn is_deflated(solver: &Solver) -> bool {
    const NOT_DEFLATED: i64 = 1;
    solver.int(key::INFO_DEFLATION) != NOT_DEFLATED
}

/// Returns the guess of the judged solve. In the preconditioned norm with deflation, it is the x of a previous solve,
/// whose residual is deflated.
fn started(solver: &Solver, case: &Case) -> Vec<f64> {
    let mut guess = case.guess.clone();
    if case.preconditioned && is_deflated(solver) {
        solver.options("max_iter=1").expect("options");
        let _ = solver.solve(&case.b, &mut guess);
        solver.options(&format!("max_iter={}", case.max_iter)).expect("options");
    }
    guess
}

/// Result of cases that request features that the backend lacks.
const NOT_OFFERED: &str = "factorize: not offered";

/// Runs a case. Returns its result, and the classes of preconditioned norms that were judged.
fn run(case: &Case) -> Result<(String, Vec<&'static str>), String> {
    let judge = Judge::new(case);
    let solver = Solver::new(case.a.size, &case.options);
    solver.regions(case.labels.as_deref()).expect("labels");
    if let Err(failure) = solver.factorize(&case.a) {
        judge.refused("factorize", &failure)?;
        let ending = match case.is_not_offered() {
            true => NOT_OFFERED.to_owned(),
            false => format!("factorize: {}", failure.status),
        };
        return Ok((ending, Vec::new()));
    }
    if case.is_not_offered() {
        return Err("factorized with what the backend does not have".to_owned());
    }
    let counted = |key: i32| solver.int(key) as usize;
    let components = [counted(common::key::INFO_COMPONENTS), counted(common::key::INFO_SINGULAR_COMPONENTS)];
    let singular = judge.system.singular.iter().filter(|&&s| s).count();
    if components != [judge.system.size.len(), singular] {
        return Err(format!(
            "components reported {components:?}, there are {} and {singular}",
            judge.system.size.len()
        ));
    }
    let guess = started(&solver, case);
    let mut x = guess.clone();
    match solver.solve(&case.b, &mut x) {
        Err(failure) => {
            if bits(&x) != bits(&guess) {
                return Err(format!("x changed by {}: {}", failure.status, failure.message));
            }
            judge.refused("solve", &failure)?;
            Ok((format!("solve: {}", failure.status), Vec::new()))
        }
        Ok(ended) => {
            let judged = judge.ended(&solver, ended, &guess, &x)?;
            Ok((format!("solve: {ended}, reason {}", solver.int(common::key::INFO_STOP_REASON)), judged))
        }
    }
}

fn describe(case: &Case) -> String {
    let s = &Judge::new(case).system;
    let lone = s.label.iter().filter(|&&k| k == LONE).count();
    format!(
        "{:?}: {}, {} of labels; components {:?}, {lone} lone cells, row sums {:.2?}",
        case.a.size,
        case.options,
        case.labels.as_ref().map_or(0, Vec::len),
        &s.size[..s.size.len().min(5)],
        &s.relative_row_sum[..s.relative_row_sum.len().min(5)],
    )
}

#[test]
fn random_systems() {
    let backend: String = variable("RRBSOLVER_TRUTH_BACKEND").unwrap_or_else(|| "cpu".to_owned());
    assert!(["cpu", "cuda", "emulated"].contains(&&*backend), "RRBSOLVER_TRUTH_BACKEND={backend}");
    let all = Cases::of_environment(2000);
    let (cases, alone) = (all.count, all.alone);
    let results = Mutex::new((BTreeMap::<String, u64>::new(), BTreeMap::<&str, u64>::new(), BTreeMap::new()));
    all.each(|number| {
        let case = make(all.seed, number, &backend);
        if alone.is_some() {
            let Case { a, b, guess, .. } = &case;
            println!("{}\n{:?} {:?}\nb {b:?}\nguess {guess:?}", describe(&case), a.center, a.forward);
        }
        let found = run(&case);
        let (endings, judged, wrong) = &mut *results.lock().expect("no panic");
        match found {
            Ok((ending, classes)) => {
                *endings.entry(ending).or_default() += 1;
                classes.into_iter().for_each(|class| *judged.entry(class).or_default() += 1);
            }
            Err(what) => {
                wrong.insert(number, format!("case {number}: {what}\n      {}", describe(&case)));
            }
        }
    });
    let (endings, judged, wrong) = results.into_inner().expect("no panic");
    let wrong: Vec<String> = wrong.into_values().collect();
    println!("{endings:#?}\npreconditioned norms judged: {judged:#?}");
    assert!(
        wrong.is_empty(),
        "{} cases of {cases} have a false report:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    let good: u64 = endings.iter().filter(|(name, _)| name.starts_with("solve: 0")).map(|(_, n)| n).sum();
    let could = cases - endings.get(NOT_OFFERED).copied().unwrap_or(0);
    assert!(alone.is_some() || 2 * good > could, "{good} of {could} cases converge");
    for (class, part) in LEAST {
        let (found, least) = (judged.get(class).copied().unwrap_or(0), (part * cases as f64) as u64);
        // With few cases, a class may be empty.
        assert!(cases < 500 || alone.is_some() || found >= least, "{found} cases of {class} judged, least {least}");
    }
}
