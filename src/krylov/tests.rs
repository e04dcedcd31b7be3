//! Tests of the PCG loop and its decisions on a small tridiagonal system. The system introduces large errors into the
//! recurred residual on purpose, in place of rounding errors.

use super::decisions::*;
use super::*;
use crate::krylov::pcg::Properties;
use crate::krylov::vectors::VectorSteps;

const X: usize = VectorId::X.0;
const B: usize = VectorId::B.0;
const R: usize = VectorId::R.0;
const P: usize = VectorId::P.0;
const Q: usize = VectorId::Q.0;
const Z: usize = VectorId::Z.0;

/// Tridiagonal matrix with a_i,i+1 = -1, and M = diag(A).
struct TridiagonalSystem {
    center: Vec<f64>,
    /// The vectors x, b, r, p, q and z.
    v: [Vec<f64>; 6],
    /// Whether r = r - alpha q was computed since M was last applied.
    updated: bool,
    /// Each update is x = x + (1 + error) alpha p. When the recurred residual is zero, b - A x is -error times its
    /// value at the start.
    error: f64,
    /// Whether PCG replaces the residual, as in single precision.
    single: bool,
    /// Number of residual replacements.
    replaced: usize,
    /// Whether M alternates between two matrices.
    changes: bool,
    /// Whether beta is `Beta::Flexible`.
    flexible: bool,
    /// Added to one entry of r after each update, so that the recurred residual stagnates at about this norm.
    noise: f64,
    /// M reduces the error quickly for all coefficients (`Properties::contracts_quickly`).
    contracts: bool,
    /// Number of applications of M so far.
    steps: usize,
    /// M is negative definite after this number of applications.
    definite_applications: usize,
    /// Deflates the constant vector Z: P = I - A Z (Z'AZ)^-1 Z'.
    deflated: bool,
    /// Iteration at which the observer requests a stop.
    stop_at: usize,
    /// Relative residuals that were reported to the observer.
    history: Vec<f64>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl TridiagonalSystem {
    fn new(n: usize, center: impl Fn(usize) -> f64) -> Self {
        let zero = vec![0.0; n];
        let b: Vec<f64> = (0..n).map(|i| ((7 * i + 3) % 11) as f64 - 4.0).collect();
        Self {
            center: (0..n).map(center).collect(),
            updated: false,
            v: [&zero, &b, &b, &zero, &zero, &zero].map(Vec::clone),
            error: 0.0,
            single: false,
            replaced: 0,
            changes: false,
            flexible: false,
            noise: 0.0,
            contracts: false,
            definite_applications: usize::MAX,
            steps: 0,
            deflated: false,
            stop_at: usize::MAX,
            history: Vec::new(),
        }
    }

    /// Returns a well-conditioned system of 30 unknowns.
    fn well_conditioned(error: f64) -> Self {
        Self { error, ..Self::new(30, |_| 4.0) }
    }

    fn times(&self, v: &[f64]) -> Vec<f64> {
        let at = |i: Option<usize>| i.and_then(|i| v.get(i)).copied().unwrap_or(0.0);
        (0..v.len()).map(|i| self.center[i] * v[i] - at(i.checked_sub(1)) - at(Some(i + 1))).collect()
    }

    /// Computes v = P v if Z is deflated.
    fn project(&self, v: &mut [f64]) {
        if self.deflated {
            let az = self.times(&vec![1.0; v.len()]);
            let part = v.iter().sum::<f64>() / az.iter().sum::<f64>();
            v.iter_mut().zip(&az).for_each(|(v, az)| *v -= part * az);
        }
    }

    /// Returns |b - A x| for the current x.
    fn true_norm(&self) -> f64 {
        let ax = self.times(&self.v[X]);
        self.v[B].iter().zip(&ax).map(|(b, ax)| (b - ax) * (b - ax)).sum::<f64>().sqrt()
    }

    fn test(&self, rel_tol: f64) -> Test {
        let size = dot(&self.v[B], &self.v[B]).sqrt();
        Test {
            norm: Norm::True2,
            threshold: rel_tol * size,
            reference: size,
            max_iter: 500,
            rounding: 0.0,
            subtracts_means: false,
            vanishing: 1e-140,
            center_max: 4.0,
            definite: true,
            confirms: true,
            divergence: f64::INFINITY,
            same_unit: true,
            may_be_indefinite: false,
        }
    }

    /// Solves from x = 0.
    fn solve(&mut self, test: &Test) -> Result<Solved> {
        let mut offered = OfferedNorms(Vec::new());
        let mut at = State::new(*test, self.residual(Iterate::X), 0);
        let reason = pcg(self, &mut at, &mut offered)?;
        let end = End { reason, iterations: at.iterations, norm: at.norm };
        Ok(Solved { end, best: at.stored_norm, offered: offered.0, restarts: at.restarts })
    }

    fn solve_to(&mut self, rel_tol: f64) -> Solved {
        let test = self.test(rel_tol);
        self.solve(&test).expect("the matrix is definite")
    }
}

/// Residual norms of the iterates that PCG passed to the caller.
struct OfferedNorms(Vec<f64>);

impl Caller<TridiagonalSystem> for OfferedNorms {
    fn store_if_better(&mut self, s: &mut TridiagonalSystem, _: f64, norm: f64) -> Option<f64> {
        self.0.push(norm);
        // The caller may overwrite r.
        s.v[R].fill(f64::NAN);
        Some(norm)
    }
}

struct End {
    reason: StopReason,
    iterations: usize,
    norm: f64,
}

struct Solved {
    end: End,
    best: f64,
    offered: Vec<f64>,
    restarts: usize,
}

impl VectorSteps for TridiagonalSystem {
    fn inner(&mut self, a: VectorId, b: VectorId) -> f64 {
        dot(&self.v[a.0], &self.v[b.0])
    }

    fn combine(&mut self, to: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let error = if to == VectorId::X { 1.0 + self.error } else { 1.0 };
        let mut sum: Vec<f64> = self.v[to.0].iter().map(|to| if scale == 0.0 { 0.0 } else { scale * to }).collect();
        for (factor, from) in terms {
            sum.iter_mut().zip(&self.v[from.0]).for_each(|(sum, from)| *sum += error * factor * from);
        }
        self.v[to.0] = sum;
        self.updated = (to, scale) == (VectorId::R, 1.0);
        if self.updated {
            self.v[R][self.history.len() % 3] += self.noise;
        }
    }

    fn largest(&mut self, v: VectorId) -> f64 {
        self.v[v.0].iter().fold(0.0, |largest, v| v.abs().max(largest))
    }

    fn residual(&mut self, of: Iterate) -> f64 {
        self.replaced += usize::from(self.updated);
        let x = if of == Iterate::X { self.v[X].clone() } else { vec![0.0; self.v[X].len()] };
        let ax = self.times(&x);
        let mut r: Vec<f64> = self.v[B].iter().zip(&ax).map(|(b, ax)| b - ax).collect();
        self.project(&mut r);
        self.v[R] = r;
        self.inner(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        let Event::Iteration(iteration, relative_residual) = event else { return false };
        self.history.push(relative_residual);
        iteration >= self.stop_at
    }
}

impl PcgSteps for TridiagonalSystem {
    fn precondition(&mut self) -> f64 {
        self.steps += 1;
        self.updated = false;
        let other = self.changes && self.steps.is_multiple_of(2);
        for i in 0..self.center.len() {
            let m = if other { self.center[i] * (1 + 2 * (i % 3)) as f64 } else { self.center[i] };
            self.v[Z][i] = self.v[R][i] / if self.steps > self.definite_applications { -m } else { m };
        }
        dot(&self.v[R], &self.v[Z])
    }

    fn multiply(&mut self) -> f64 {
        let mut q = self.times(&self.v[P]);
        self.project(&mut q);
        self.v[Q] = q;
        dot(&self.v[P], &self.v[Q])
    }

    fn properties(&self) -> Properties {
        Properties {
            single: self.single,
            contracts_quickly: self.contracts,
            beta: if self.flexible { Beta::Flexible } else { Beta::Fixed },
            ..Properties::default()
        }
    }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

#[test]
fn exact_updates_need_one_confirmation() {
    let mut line = TridiagonalSystem::well_conditioned(0.0);
    let solved = line.solve_to(1e-10);
    assert_eq!(solved.end.reason, StopReason::Converged);
    // The only restart is the confirmation. `norm` is the recomputed norm.
    assert_eq!((solved.restarts, solved.offered.len(), line.replaced), (1, 0, 0));
    assert_eq!(solved.end.norm, line.true_norm());
    assert_eq!(line.history.len(), solved.end.iterations);
}

#[test]
fn restarts_remove_errors_of_the_recurred_residual() {
    let mut line = TridiagonalSystem::well_conditioned(1e-3);
    let solved = line.solve_to(1e-8);
    assert_eq!(solved.end.reason, StopReason::Converged);
    assert_eq!(solved.restarts, 3);
    assert!(line.true_norm() <= line.test(1e-8).threshold);
}

/// Six restarts would reduce the residual to 1e-13, but `MOST_RESTARTS` ends the solve before.
#[test]
fn restarts_are_limited() {
    let mut line = TridiagonalSystem::well_conditioned(1e-2);
    let solved = line.solve_to(1e-13);
    assert_eq!((solved.end.reason, solved.restarts), (StopReason::Stagnated, MOST_RESTARTS + 1));
    assert!(close(solved.end.norm, line.true_norm()));
}

/// Every restart reduces the residual only to 60 %, so `RESTART_REDUCTION` ends the solve. Otherwise, PCG would restart
/// `MOST_RESTARTS` times.
#[test]
fn a_restart_with_little_reduction_ends_the_solve() {
    let mut line = TridiagonalSystem::well_conditioned(0.6);
    let solved = line.solve_to(1e-8);
    assert_eq!((solved.end.reason, solved.restarts), (StopReason::Stagnated, 2));
}

/// The recurred residual stagnates above the threshold. Without `stagnates`, PCG would iterate up to `max_iter`.
#[test]
fn a_stagnating_residual_is_recomputed() {
    for contracts in [false, true] {
        let mut line = TridiagonalSystem { noise: 1e-5, contracts, ..TridiagonalSystem::well_conditioned(0.0) };
        let solved = line.solve_to(1e-10);
        if contracts {
            assert_eq!(solved.end.reason, StopReason::Stagnated);
            assert!(solved.end.iterations < 4 * (STAGNATION_ITERATIONS + 30), "{}", solved.end.iterations);
            assert!(close(solved.end.norm, line.true_norm()));
        } else {
            assert_eq!((solved.end.reason, solved.restarts), (StopReason::MaxIter, 0));
        }
    }
}

#[test]
fn restarts_of_several_runs_count_together() {
    let mut at = State { norm: 1.0, ..state_within_run() };
    for run in 0..=MOST_RESTARTS {
        at = at.for_another_run(1.0, 0);
        assert!(at.may_start(), "a run begins without a previous restart norm");
        at.begin();
        at.count_restart();
        at.norm = 0.9;
        assert_eq!(at.may_start(), run < MOST_RESTARTS, "its first start was not after a miss");
    }
}

/// From the second restart of a run on, each restart must halve the residual.
#[test]
fn later_restarts_must_halve_the_residual() {
    let mut at = state_within_run();
    at.begin();
    at.count_restart();
    at.norm = 0.9;
    assert!(at.may_start());
    at.begin();
    at.count_restart();
    for (norm, allowed) in [(0.44, true), (0.46, false), (f64::NAN, true)] {
        at.norm = norm;
        assert_eq!(at.may_start(), allowed, "{norm}");
    }
}

/// Every restart increases the residual by 50 %. The caller keeps the first x.
#[test]
fn the_best_iterate_is_kept() {
    let mut line = TridiagonalSystem::well_conditioned(1.5);
    let solved = line.solve_to(1e-8);
    assert_eq!(solved.end.reason, StopReason::Stagnated);
    assert_eq!(solved.offered.len(), 1);
    assert_eq!(solved.best, solved.offered[0]);
    assert!(close(solved.end.norm, 1.5 * solved.best), "{:e} {:e}", solved.end.norm, solved.best);
}

#[test]
fn every_better_iterate_is_offered_once() {
    let solved = TridiagonalSystem::well_conditioned(1e-2).solve_to(1e-13);
    assert_eq!(solved.offered.len(), MOST_RESTARTS);
    assert!(solved.offered.is_sorted_by(|a, b| a > b), "{:?}", solved.offered);
    assert_eq!(Some(&solved.best), solved.offered.last());
}

#[test]
fn reported_convergence_is_confirmed() {
    let (error, rel_tol) = (0.05, 1e-3);
    for norm in [Norm::True2, Norm::Preconditioned] {
        let mut line = TridiagonalSystem::well_conditioned(error);
        let test = Test { norm, max_iter: 4, ..line.test(1e-14) };
        let end = line.solve(&test).unwrap().end;
        // M = 4 I, so the preconditioned norm is half the 2-norm.
        let unit = if norm == Norm::True2 { 1.0 } else { 0.5 };
        assert_eq!((end.iterations, end.reason), (4, StopReason::MaxIter));
        assert!(close(end.norm, unit * line.true_norm()), "{norm:?}: {:e} {:e}", end.norm, line.true_norm());
        assert!(!close(end.norm, line.history[3] * test.reference), "{norm:?}: it was drifted");
    }

    let mut line = TridiagonalSystem::well_conditioned(error);
    let test = Test { confirms: false, ..line.test(rel_tol) };
    let solved = line.solve(&test).unwrap();
    assert_eq!((solved.end.reason, solved.restarts), (StopReason::Converged, 0), "the caller confirms");
    assert!(solved.end.norm <= test.threshold && line.true_norm() > test.threshold);
}

#[test]
fn the_observer_stops_the_loop() {
    let mut line = TridiagonalSystem { stop_at: 3, ..TridiagonalSystem::well_conditioned(0.0) };
    let end = line.solve_to(1e-14).end;
    assert_eq!((end.iterations, end.reason), (3, StopReason::Monitor));
    assert!(close(end.norm, line.true_norm()));
}

/// With residual replacement, the first confirmation succeeds: the recomputed residual satisfies the test. Without
/// replacement, it does not.
#[test]
fn residual_replacement_saves_restarts() {
    let mut recurred = TridiagonalSystem::well_conditioned(1e-6);
    let mut replaced = TridiagonalSystem { single: true, ..TridiagonalSystem::well_conditioned(1e-6) };
    let (without, with) = (recurred.solve_to(1e-12), replaced.solve_to(1e-12));
    assert_eq!((without.end.reason, with.end.reason), (StopReason::Converged, StopReason::Converged));
    assert_eq!((recurred.replaced, with.restarts), (0, 1), "one is the confirmation");
    assert!(replaced.replaced >= 2 && without.restarts >= 2, "{} {}", replaced.replaced, without.restarts);
}

/// Returns a state within a run, with rho = <r, r> = 1.
fn state_within_run() -> State {
    State {
        rho: 1.0,
        sigma: 1.0,
        largest_rho: 1.0,
        ..State::new(TridiagonalSystem::well_conditioned(0.0).test(1e-14), 1.0, 7)
    }
}

/// Returns the state `from` after `State::begin`.
fn started(from: State) -> State {
    let mut at = from;
    at.begin();
    at
}

/// Checks the last column of the table in `decisions`.
#[test]
fn codes_lead_to_the_same_next_step_in_every_state() {
    let end = |at: &State, code| match at.next(code) {
        Next::End(reason) => Some(reason),
        _ => None,
    };
    let restarts = |at: &State, code| matches!(at.next(code), Next::Restart);
    for (recurred, stopped, confirms) in (0..8).map(|k| (k & 1 > 0, k & 2 > 0, k & 4 > 0)) {
        let at = State { recurred, stopped, ..state_within_run() };
        let at = State { test: Test { confirms, ..at.test }, ..at };
        let case = format!("recurred {recurred}, stopped {stopped}, confirms {confirms}");
        assert!(matches!(at.next(Code::Running), Next::Iterate) && matches!(at.next(Code::Changed), Next::Change));
        for code in [Code::RhoNegative, Code::RhoBad, Code::SigmaBad] {
            assert!(matches!(at.next(code), Next::Fail(Error::Breakdown { .. })), "{case}");
        }
        for code in [Code::NeedsRestart, Code::SigmaVanished] {
            assert_eq!(restarts(&at, code), recurred, "{case}");
            assert_eq!(end(&at, code), (!recurred).then_some(StopReason::Stagnated), "{case}");
        }
        let met = if recurred && stopped { StopReason::Monitor } else { StopReason::Converged };
        assert_eq!(restarts(&at, Code::Converged), recurred && confirms, "{case}");
        assert_eq!(end(&at, Code::Converged), (!(recurred && confirms)).then_some(met), "{case}");
        let limit = if stopped { StopReason::Monitor } else { StopReason::MaxIter };
        assert_eq!(end(&at, Code::MaxIter), Some(limit), "{case}");
        assert_eq!(end(&at, Code::Diverged), Some(StopReason::Diverged), "{case}");
    }
}

#[test]
fn residual_replacement_is_due_after_a_decrease_or_many_iterations() {
    let at = started(state_within_run());
    assert!(!at.is_replacement_due());
    let fallen = 0.9 * REPLACEMENT_DECREASE;
    assert!(State { norm2: fallen, ..at }.is_replacement_due(), "the norm has fallen");
    assert!(State { rho: fallen, ..at }.is_replacement_due(), "r'M^-1 r has fallen");
    assert!(!State { iterations: 6 + REPLACEMENT_INTERVAL, ..at }.is_replacement_due());
    assert!(State { iterations: 7 + REPLACEMENT_INTERVAL, ..at }.is_replacement_due(), "many iterations");
    // If the threshold is at least 1e-6 times the largest norm, a small norm causes no replacement, because CG
    // converges before rounding errors matter.
    let near = State { test: Test { threshold: 1.1 * NEAR_THRESHOLD.sqrt(), ..at.test }, ..at };
    assert!(!State { norm2: fallen, ..near }.is_replacement_due());
    assert!(State { rho: fallen, ..near }.is_replacement_due(), "of r'M^-1 r that says nothing");
}

/// The decrease of <r, r> is relative to its largest value since the last replacement.
#[test]
fn decrease_is_relative_to_the_largest_residual() {
    let mut line = TridiagonalSystem { single: true, ..TridiagonalSystem::well_conditioned(0.0) };
    line.residual(Iterate::X);
    line.precondition();
    line.combine(VectorId::P, 0.0, &[(1.0, VectorId::Z)]);
    line.multiply();
    let mut at = State { alpha: 1e3, ..started(state_within_run()) };
    iterate(&mut line, &mut at);
    assert!(line.replaced == 0 && at.norm2 > 1e6, "{:e}", at.norm2);
    assert!(State { norm2: 1e-3, rho: 1.0, ..at }.is_replacement_due());
    // After a replacement, the largest value is <r, r> of the recomputed residual. x includes the update.
    at.iterations += REPLACEMENT_INTERVAL;
    iterate(&mut line, &mut at);
    assert_eq!(line.replaced, 1);
    let true_residual = at.true_residual;
    assert!(close(true_residual.norm2.sqrt(), line.true_norm()) && true_residual.peak == true_residual.norm2);
    assert!(!State { norm2: 0.5 * true_residual.norm2, rho: true_residual.rho, ..at }.is_replacement_due());
}

/// Returns the decision after a replacement. The recomputed <r, r> is `norm2`, and the recurred value is 1. At the
/// previous replacement, <r, r> was `before`. rho changes from 1 to `rho`. The previous direction had `beta`.
fn direction_after_replacement(norm2: f64, before: f64, rho: f64, beta: f64) -> Option<bool> {
    let mut at = State { norm2: before, beta, ..started(State { norm2: before, ..state_within_run() }) };
    let replaced = at.replace(1.0, norm2);
    assert!(!replaced.grown && at.alpha == 0.0);
    at.stays_conjugate(replaced, rho)
}

#[test]
fn drift_resets_the_direction_or_restarts() {
    let (far, near) = (1.01 * DRIFT, 0.99 * DRIFT);
    let before = 2.0 / SUFFICIENT_DECREASE;
    assert_eq!(direction_after_replacement(near, before, 0.1, 0.5), Some(true));
    assert_eq!(direction_after_replacement(1.0 / near, before, 0.1, 0.5), Some(true));
    assert_eq!(direction_after_replacement(far, before, 0.1, 0.5), Some(false));
    assert_eq!(direction_after_replacement(1.0 / far, before, 0.1, 0.5), Some(false));
    assert_eq!(direction_after_replacement(1.0, before, 1.01 * RHO_DRIFT, 0.5), Some(false));
    assert_eq!(direction_after_replacement(far, 1.0, 0.1, 0.5), None, "nothing was decreased");
    assert_eq!(direction_after_replacement(1.0, 1.0, 1.01 * RHO_DRIFT, 0.5), None);
}

#[test]
fn unpredicted_growth_resets_the_direction() {
    let (rho, beta) = (1.01 * FAST_DECREASE, 0.99 * FAST_DECREASE / UNPREDICTED_GROWTH);
    assert_eq!(direction_after_replacement(1.0, 1.0, rho, beta), Some(false));
    assert_eq!(direction_after_replacement(1.0, 1.0, 0.98 * rho, beta), Some(true), "it has fallen");
    assert_eq!(direction_after_replacement(1.0, 1.0, rho, 1.1 * beta), Some(true), "beta predicted the growth");
    assert_eq!(direction_after_replacement(1.0, 1.0, rho, 0.0), Some(true), "p was z");

    // `grown` compares <r, r> with its value at the previous replacement. It is false if r was not replaced since the
    // start.
    let mut at = started(State { norm2: 1e-6, ..state_within_run() });
    at.iterations = 8;
    assert!(!at.replace(1.0, 1.0).grown, "from the start itself");
    at.iterations = 9;
    assert!(!at.replace(1.0, 1.0).grown);
    let away = at.replace(1.01 * EXCESSIVE_GROWTH, 1.01 * EXCESSIVE_GROWTH);
    assert!(away.grown);
    let (drifted, decreased) = (false, false);
    assert_eq!(state_within_run().stays_conjugate(Replaced { drifted, decreased, ..away }, 0.1), Some(false));
}

#[test]
fn nonpositive_squares_at_the_rounding_level_are_no_breakdown() {
    let mut line = TridiagonalSystem::well_conditioned(0.0);
    let test = Test { definite: false, ..line.test(1e-10) };
    let at = State { test, ..state_within_run() };
    let mut explains = |test: &Test, at: &State, quantity, square| {
        is_rounding(&mut line, &State { test: *test, ..*at }, quantity, square)
    };
    let small = 0.9 * NEGLIGIBLE;
    assert!(explains(&test, &at, RHO_NAME, -small), "relative to the largest");
    assert!(!explains(&test, &at, RHO_NAME, small), "positive");
    assert!(!explains(&test, &at, RHO_NAME, -2.0 * small));
    assert!(!explains(&test, &at, RHO_NAME, f64::NAN));
    assert!(explains(&test, &at, SIGMA_NAME, -small), "relative to the largest, of the same unit");
    assert!(!explains(&Test { same_unit: false, ..test }, &at, SIGMA_NAME, -small), "of another");
    let start = State { iterations: 0, ..at };
    assert!(explains(&test, &start, SIGMA_NAME, 0.0), "of A nearly singular");
    assert!(!explains(&Test { may_be_indefinite: true, ..test }, &start, SIGMA_NAME, 0.0), "of A indefinite");
    assert!(explains(&Test { may_be_indefinite: true, ..test }, &at, SIGMA_NAME, 0.0), "later");
    assert!(explains(&test, &State { norm2: 0.0, ..at }, RHO_NAME, -1.0), "the residual has vanished");
    assert!(explains(&Test { definite: true, ..test }, &at, RHO_NAME, -1.0), "M is known");
    assert!(!explains(&Test { definite: true, ..test }, &at, SIGMA_NAME, -1.0), "of A that says nothing");

    // The magnitudes of the terms of p'Ap sum to at most `terms`. p'Ap is within, or just above, the rounding error of
    // this sum.
    line.v[P].fill(1.0);
    let terms = 2.0 * test.center_max * 30.0;
    let energy = |part: f64| -part * terms * ROUNDING_FACTOR * f64::EPSILON;
    let large = State { largest_rho: 1e-30, ..at };
    assert!(is_rounding(&mut line, &large, SIGMA_NAME, energy(0.9)));
    assert!(!is_rounding(&mut line, &large, SIGMA_NAME, energy(1.1)));

    line.single = true;
    assert!(is_rounding(&mut line, &at, RHO_NAME, -1.0), "single precision");
    assert!(!is_rounding(&mut line, &start, RHO_NAME, -1.0));
}

#[test]
fn an_indefinite_matrix_is_a_breakdown() {
    let mut line = TridiagonalSystem::new(30, |i| if i == 12 { -4.0 } else { 4.0 });
    let test = Test { definite: false, ..line.test(1e-10) };
    assert!(matches!(line.solve(&test), Err(Error::Breakdown { .. })));
}

/// A breakdown names the last iteration that was reported to the observer. With the preconditioned norm, the iteration
/// with a nonpositive r'M^-1 r has no residual norm and is not reported.
#[test]
fn a_breakdown_names_a_reported_iteration() {
    for norm in [Norm::True2, Norm::Preconditioned] {
        let mut line = TridiagonalSystem { definite_applications: 5, ..TridiagonalSystem::new(30, |_| 4.0) };
        let test = Test { norm, definite: false, ..line.test(1e-10) };
        let Err(Error::Breakdown { quantity: RHO_NAME, iteration, .. }) = line.solve(&test) else {
            panic!("M is negative in its sixth application");
        };
        assert_eq!(iteration, line.history.len(), "{norm:?}");
        assert_eq!(iteration, if norm == Norm::True2 { 5 } else { 4 });
    }
}

/// If M alternates between two matrices, the flexible beta needs 33 iterations. The standard rho / rho_old needs 65.
#[test]
fn a_family_may_have_a_flexible_beta() {
    let mut plain = TridiagonalSystem { changes: true, ..TridiagonalSystem::new(30, |_| 3.0) };
    let mut flexible = TridiagonalSystem { changes: true, flexible: true, ..TridiagonalSystem::new(30, |_| 3.0) };
    let (plain, flexible) = (plain.solve_to(1e-8).end, flexible.solve_to(1e-8).end);
    assert_eq!(flexible.reason, StopReason::Converged);
    assert!(3 * flexible.iterations < 2 * plain.iterations, "{} {}", flexible.iterations, plain.iterations);
}

/// The constant vector is nearly in the null space and is deflated: q = P A p, r = P (b - A x). The solution is
/// x + Z (Z'AZ)^-1 Z'(b - A x).
#[test]
fn a_family_may_project_its_operator() {
    let n = 40;
    let center = |i: usize| if i == 0 || i == n - 1 { 1.0 + 1e-9 } else { 2.0 + 1e-9 };
    let mut whole = TridiagonalSystem::new(n, center);
    let mut deflated = TridiagonalSystem { deflated: true, ..TridiagonalSystem::new(n, center) };
    let (end, without) = (deflated.solve_to(1e-10).end, whole.solve_to(1e-10).end);
    assert_eq!(end.reason, StopReason::Converged);
    assert!(end.iterations < without.iterations, "{} {}", end.iterations, without.iterations);
    let ones = vec![1.0; n];
    let energy: f64 = deflated.times(&ones).iter().sum();
    let ax = deflated.times(&deflated.v[X]);
    let shift = deflated.v[B].iter().zip(&ax).map(|(b, ax)| b - ax).sum::<f64>() / energy;
    deflated.v[X].iter_mut().for_each(|x| *x += shift);
    // The tolerance is the rounding error of A x for the large x, of magnitude `shift`.
    assert!(deflated.true_norm() <= 1e-6 * shift.abs() * 4.0, "{:e} {shift:e}", deflated.true_norm());
}
