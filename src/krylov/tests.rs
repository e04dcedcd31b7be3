//! Tests of the PCG loop and its decisions on a small tridiagonal system. To represent rounding errors, the system adds
//! large errors to the recurred residual.

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
    is_residual_updated: bool,
    /// Each update is x = x + (1 + error) alpha p. When the recurred residual is zero, b - A x is therefore -error
    /// times the residual at the last start of PCG.
    error: f64,
    /// Whether PCG replaces the residual, as in single precision.
    is_single_precision: bool,
    /// Number of residual replacements.
    replacement_count: usize,
    /// Whether M alternates between two matrices.
    alternates_preconditioner: bool,
    /// Whether beta is `Beta::Flexible`.
    is_beta_flexible: bool,
    /// Number that is added to one entry of r after each update. The norm of the recurred residual then stagnates near
    /// this number.
    noise: f64,
    /// Value of `Properties::contracts_quickly`.
    contracts_quickly: bool,
    /// Number of applications of M so far.
    applications: usize,
    /// M is negative definite after this number of applications.
    definite_applications: usize,
    /// Whether the constant vector Z is deflated: P = I - A Z (Z'AZ)^-1 Z'.
    is_deflated: bool,
    /// Iteration at which the observer requests a stop.
    stop_iteration: usize,
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
            is_residual_updated: false,
            v: [&zero, &b, &b, &zero, &zero, &zero].map(Vec::clone),
            error: 0.0,
            is_single_precision: false,
            replacement_count: 0,
            alternates_preconditioner: false,
            is_beta_flexible: false,
            noise: 0.0,
            contracts_quickly: false,
            definite_applications: usize::MAX,
            applications: 0,
            is_deflated: false,
            stop_iteration: usize::MAX,
            history: Vec::new(),
        }
    }

    /// Returns a well-conditioned system of 30 unknowns.
    fn well_conditioned(error: f64) -> Self {
        Self { error, ..Self::new(30, |_| 4.0) }
    }

    fn multiply_matrix(&self, v: &[f64]) -> Vec<f64> {
        let entry = |i: Option<usize>| i.and_then(|i| v.get(i)).copied().unwrap_or(0.0);
        (0..v.len()).map(|i| self.center[i] * v[i] - entry(i.checked_sub(1)) - entry(Some(i + 1))).collect()
    }

    /// Computes v = P v if Z is deflated.
    fn project(&self, v: &mut [f64]) {
        if self.is_deflated {
            let az = self.multiply_matrix(&vec![1.0; v.len()]);
            let coefficient = v.iter().sum::<f64>() / az.iter().sum::<f64>();
            v.iter_mut().zip(&az).for_each(|(v, az)| *v -= coefficient * az);
        }
    }

    /// Returns |b - A x| for the current x.
    fn true_norm(&self) -> f64 {
        let ax = self.multiply_matrix(&self.v[X]);
        self.v[B].iter().zip(&ax).map(|(b, ax)| (b - ax) * (b - ax)).sum::<f64>().sqrt()
    }

    fn test(&self, rel_tol: f64) -> Test {
        let rhs_norm = dot(&self.v[B], &self.v[B]).sqrt();
        Test {
            norm: Norm::True2,
            threshold: rel_tol * rhs_norm,
            reference: rhs_norm,
            max_iter: 500,
            rounding_norm: 0.0,
            subtracts_means: false,
            vanishing_norm: 1e-140,
            center_max: 4.0,
            is_preconditioner_definite: true,
            confirms: true,
            divergence_norm: f64::INFINITY,
            has_unit_of_matrix: true,
            may_be_indefinite: false,
        }
    }

    /// Solves from x = 0.
    fn solve(&mut self, test: &Test) -> Result<Solved> {
        let mut offered_norms = OfferedNorms(Vec::new());
        let mut state = State::new(*test, self.residual(Iterate::X), 0);
        let reason = pcg(self, &mut state, &mut offered_norms)?;
        let end = EndState { reason, iterations: state.iterations, norm: state.norm };
        Ok(Solved { end, stored_norm: state.stored_norm, offered_norms: offered_norms.0, restarts: state.restarts })
    }

    fn solve_to(&mut self, rel_tol: f64) -> Solved {
        let test = self.test(rel_tol);
        self.solve(&test).expect("the matrix is definite")
    }
}

/// Residual norms of the iterates that PCG passed to `Caller::store_if_better`.
struct OfferedNorms(Vec<f64>);

impl Caller<TridiagonalSystem> for OfferedNorms {
    fn store_if_better(&mut self, s: &mut TridiagonalSystem, _: f64, norm: f64) -> Option<f64> {
        self.0.push(norm);
        // `store_if_better` may overwrite r.
        s.v[R].fill(f64::NAN);
        Some(norm)
    }
}

struct EndState {
    reason: StopReason,
    iterations: usize,
    norm: f64,
}

struct Solved {
    end: EndState,
    stored_norm: f64,
    offered_norms: Vec<f64>,
    restarts: usize,
}

impl VectorSteps for TridiagonalSystem {
    fn inner_product(&mut self, a: VectorId, b: VectorId) -> f64 {
        dot(&self.v[a.0], &self.v[b.0])
    }

    fn combine(&mut self, target: VectorId, scale: f64, terms: &[(f64, VectorId)]) {
        let error = if target == VectorId::X { 1.0 + self.error } else { 1.0 };
        let mut sum: Vec<f64> =
            self.v[target.0].iter().map(|target| if scale == 0.0 { 0.0 } else { scale * target }).collect();
        for (factor, source) in terms {
            sum.iter_mut().zip(&self.v[source.0]).for_each(|(sum, source)| *sum += error * factor * source);
        }
        self.v[target.0] = sum;
        self.is_residual_updated = (target, scale) == (VectorId::R, 1.0);
        if self.is_residual_updated {
            self.v[R][self.history.len() % 3] += self.noise;
        }
    }

    fn max_abs(&mut self, v: VectorId) -> f64 {
        self.v[v.0].iter().fold(0.0, |largest, v| v.abs().max(largest))
    }

    fn residual(&mut self, iterate: Iterate) -> f64 {
        self.replacement_count += usize::from(self.is_residual_updated);
        let x = if iterate == Iterate::X { self.v[X].clone() } else { vec![0.0; self.v[X].len()] };
        let ax = self.multiply_matrix(&x);
        let mut r: Vec<f64> = self.v[B].iter().zip(&ax).map(|(b, ax)| b - ax).collect();
        self.project(&mut r);
        self.v[R] = r;
        self.inner_product(VectorId::R, VectorId::R)
    }

    fn observe(&mut self, event: Event) -> bool {
        let Event::Iteration(iteration, relative_residual) = event else { return false };
        self.history.push(relative_residual);
        iteration >= self.stop_iteration
    }
}

impl PcgSteps for TridiagonalSystem {
    fn precondition(&mut self) -> f64 {
        self.applications += 1;
        self.is_residual_updated = false;
        let uses_other = self.alternates_preconditioner && self.applications.is_multiple_of(2);
        for i in 0..self.center.len() {
            let m = if uses_other { self.center[i] * (1 + 2 * (i % 3)) as f64 } else { self.center[i] };
            self.v[Z][i] = self.v[R][i] / if self.applications > self.definite_applications { -m } else { m };
        }
        dot(&self.v[R], &self.v[Z])
    }

    fn multiply(&mut self) -> f64 {
        let mut q = self.multiply_matrix(&self.v[P]);
        self.project(&mut q);
        self.v[Q] = q;
        dot(&self.v[P], &self.v[Q])
    }

    fn properties(&self) -> Properties {
        Properties {
            is_single_precision: self.is_single_precision,
            contracts_quickly: self.contracts_quickly,
            beta: if self.is_beta_flexible { Beta::Flexible } else { Beta::Fixed },
            ..Properties::default()
        }
    }
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs()
}

#[test]
fn exact_updates_need_one_restart() {
    let mut system = TridiagonalSystem::well_conditioned(0.0);
    let solved = system.solve_to(1e-10);
    assert_eq!(solved.end.reason, StopReason::Converged);
    // The only restart confirms convergence. `end.norm` is the norm of the recomputed residual.
    assert_eq!((solved.restarts, solved.offered_norms.len(), system.replacement_count), (1, 0, 0));
    assert_eq!(solved.end.norm, system.true_norm());
    assert_eq!(system.history.len(), solved.end.iterations);
}

#[test]
fn restarts_remove_errors_of_the_recurred_residual() {
    let mut system = TridiagonalSystem::well_conditioned(1e-3);
    let solved = system.solve_to(1e-8);
    assert_eq!(solved.end.reason, StopReason::Converged);
    assert_eq!(solved.restarts, 3);
    assert!(system.true_norm() <= system.test(1e-8).threshold);
}

/// Six restarts would reduce the residual to 1e-13, but the solve ends earlier, at `MAX_RESTARTS`.
#[test]
fn max_restarts_ends_the_solve() {
    let mut system = TridiagonalSystem::well_conditioned(1e-2);
    let solved = system.solve_to(1e-13);
    assert_eq!((solved.end.reason, solved.restarts), (StopReason::Stagnated, MAX_RESTARTS + 1));
    assert!(is_close(solved.end.norm, system.true_norm()));
}

/// Every restart reduces the residual only to 60 %, so `RESTART_REDUCTION` ends the solve. Otherwise, PCG would restart
/// `MAX_RESTARTS` times.
#[test]
fn small_restart_reduction_ends_the_solve() {
    let mut system = TridiagonalSystem::well_conditioned(0.6);
    let solved = system.solve_to(1e-8);
    assert_eq!((solved.end.reason, solved.restarts), (StopReason::Stagnated, 2));
}

/// The recurred residual stagnates above the threshold. Without `stagnates`, PCG would iterate up to `max_iter`.
#[test]
fn stagnating_residual_is_recomputed() {
    for contracts_quickly in [false, true] {
        let mut system =
            TridiagonalSystem { noise: 1e-5, contracts_quickly, ..TridiagonalSystem::well_conditioned(0.0) };
        let solved = system.solve_to(1e-10);
        if contracts_quickly {
            assert_eq!(solved.end.reason, StopReason::Stagnated);
            assert!(solved.end.iterations < 4 * (STAGNATION_ITERATIONS + 30), "{}", solved.end.iterations);
            assert!(is_close(solved.end.norm, system.true_norm()));
        } else {
            assert_eq!((solved.end.reason, solved.restarts), (StopReason::MaxIter, 0));
        }
    }
}

#[test]
fn restarts_of_all_runs_are_counted() {
    let mut state = State { norm: 1.0, ..state_within_run() };
    for run in 0..=MAX_RESTARTS {
        state = state.for_another_run(1.0, 0);
        assert!(state.may_start(), "a run begins without a previous restart norm");
        state.record_start();
        state.count_restart();
        state.norm = 0.9;
        assert_eq!(state.may_start(), run < MAX_RESTARTS, "its first start was not after a miss");
    }
}

/// From the second restart of a run on, each restart must halve the residual.
#[test]
fn later_restarts_must_halve_the_residual() {
    let mut state = state_within_run();
    state.record_start();
    state.count_restart();
    state.norm = 0.9;
    assert!(state.may_start());
    state.record_start();
    state.count_restart();
    for (norm, expected) in [(0.44, true), (0.46, false), (f64::NAN, true)] {
        state.norm = norm;
        assert_eq!(state.may_start(), expected, "{norm}");
    }
}

/// Every restart increases the residual by 50 %. The first x stays stored.
#[test]
fn best_iterate_stays_stored() {
    let mut system = TridiagonalSystem::well_conditioned(1.5);
    let solved = system.solve_to(1e-8);
    assert_eq!(solved.end.reason, StopReason::Stagnated);
    assert_eq!(solved.offered_norms.len(), 1);
    assert_eq!(solved.stored_norm, solved.offered_norms[0]);
    assert!(is_close(solved.end.norm, 1.5 * solved.stored_norm), "{:e} {:e}", solved.end.norm, solved.stored_norm);
}

#[test]
fn better_iterates_are_offered_once() {
    let solved = TridiagonalSystem::well_conditioned(1e-2).solve_to(1e-13);
    assert_eq!(solved.offered_norms.len(), MAX_RESTARTS);
    assert!(solved.offered_norms.is_sorted_by(|a, b| a > b), "{:?}", solved.offered_norms);
    assert_eq!(Some(&solved.stored_norm), solved.offered_norms.last());
}

#[test]
fn convergence_is_confirmed_by_recomputed_residual() {
    let (error, rel_tol) = (0.05, 1e-3);
    for norm in [Norm::True2, Norm::Preconditioned] {
        let mut system = TridiagonalSystem::well_conditioned(error);
        let test = Test { norm, max_iter: 4, ..system.test(1e-14) };
        let end = system.solve(&test).unwrap().end;
        // M = 4 I, so the preconditioned norm is half the 2-norm.
        let norm_ratio = if norm == Norm::True2 { 1.0 } else { 0.5 };
        assert_eq!((end.iterations, end.reason), (4, StopReason::MaxIter));
        assert!(
            is_close(end.norm, norm_ratio * system.true_norm()),
            "{norm:?}: {:e} {:e}",
            end.norm,
            system.true_norm()
        );
        assert!(!is_close(end.norm, system.history[3] * test.reference), "{norm:?}: it was drifted");
    }

    let mut system = TridiagonalSystem::well_conditioned(error);
    let test = Test { confirms: false, ..system.test(rel_tol) };
    let solved = system.solve(&test).unwrap();
    assert_eq!((solved.end.reason, solved.restarts), (StopReason::Converged, 0), "the caller confirms");
    assert!(solved.end.norm <= test.threshold && system.true_norm() > test.threshold);
}

#[test]
fn observer_stops_the_loop() {
    let mut system = TridiagonalSystem { stop_iteration: 3, ..TridiagonalSystem::well_conditioned(0.0) };
    let end = system.solve_to(1e-14).end;
    assert_eq!((end.iterations, end.reason), (3, StopReason::Monitor));
    assert!(is_close(end.norm, system.true_norm()));
}

/// With residual replacement, the first confirmation succeeds: the recomputed residual satisfies the test. Without
/// replacement, it does not.
#[test]
fn residual_replacement_reduces_restarts() {
    let mut recurred = TridiagonalSystem::well_conditioned(1e-6);
    let mut replaced = TridiagonalSystem { is_single_precision: true, ..TridiagonalSystem::well_conditioned(1e-6) };
    let (recurred_solve, replaced_solve) = (recurred.solve_to(1e-12), replaced.solve_to(1e-12));
    assert_eq!((recurred_solve.end.reason, replaced_solve.end.reason), (StopReason::Converged, StopReason::Converged));
    assert_eq!((recurred.replacement_count, replaced_solve.restarts), (0, 1), "one is the confirmation");
    assert!(
        replaced.replacement_count >= 2 && recurred_solve.restarts >= 2,
        "{} {}",
        replaced.replacement_count,
        recurred_solve.restarts
    );
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

/// Returns the state `from` after `State::record_start`.
fn after_start(from: State) -> State {
    let mut state = from;
    state.record_start();
    state
}

/// Checks the last column of the table in `decisions`.
#[test]
fn next_step_depends_on_code_and_state() {
    let end = |state: &State, code| match state.next_step(code) {
        NextStep::End(reason) => Some(reason),
        _ => None,
    };
    let restarts = |state: &State, code| matches!(state.next_step(code), NextStep::Restart);
    for (is_recurred, stop_requested, confirms) in (0..8).map(|k| (k & 1 > 0, k & 2 > 0, k & 4 > 0)) {
        let state = State { is_recurred, stop_requested, ..state_within_run() };
        let state = State { test: Test { confirms, ..state.test }, ..state };
        let case = format!("recurred {is_recurred}, stopped {stop_requested}, confirms {confirms}");
        assert!(
            matches!(state.next_step(TestCode::Running), NextStep::Iterate)
                && matches!(state.next_step(TestCode::PreconditionerChanged), NextStep::ChangePreconditioner)
        );
        for code in [TestCode::RhoNegative, TestCode::RhoNotPositive, TestCode::SigmaNotPositive] {
            assert!(matches!(state.next_step(code), NextStep::Fail(Error::Breakdown { .. })), "{case}");
        }
        for code in [TestCode::NeedsRestart, TestCode::SigmaVanished] {
            assert_eq!(restarts(&state, code), is_recurred, "{case}");
            assert_eq!(end(&state, code), (!is_recurred).then_some(StopReason::Stagnated), "{case}");
        }
        let converged_reason = if is_recurred && stop_requested { StopReason::Monitor } else { StopReason::Converged };
        assert_eq!(restarts(&state, TestCode::Converged), is_recurred && confirms, "{case}");
        assert_eq!(
            end(&state, TestCode::Converged),
            (!(is_recurred && confirms)).then_some(converged_reason),
            "{case}"
        );
        let limit_reason = if stop_requested { StopReason::Monitor } else { StopReason::MaxIter };
        assert_eq!(end(&state, TestCode::MaxIter), Some(limit_reason), "{case}");
        assert_eq!(end(&state, TestCode::Diverged), Some(StopReason::Diverged), "{case}");
    }
}

#[test]
fn replacement_is_due_after_decrease_or_interval() {
    let state = after_start(state_within_run());
    assert!(!state.is_replacement_due());
    let small_value = 0.9 * REPLACEMENT_DECREASE;
    assert!(State { norm2: small_value, ..state }.is_replacement_due(), "the norm has fallen");
    assert!(State { rho: small_value, ..state }.is_replacement_due(), "r'M^-1 r has fallen");
    assert!(!State { iterations: 6 + REPLACEMENT_INTERVAL, ..state }.is_replacement_due());
    assert!(State { iterations: 7 + REPLACEMENT_INTERVAL, ..state }.is_replacement_due(), "many iterations");
    // If the threshold is at least 1e-6 times the largest norm, a small norm causes no replacement, because CG
    // converges before rounding errors matter.
    let near_threshold = State { test: Test { threshold: 1.1 * NEAR_THRESHOLD_RATIO.sqrt(), ..state.test }, ..state };
    assert!(!State { norm2: small_value, ..near_threshold }.is_replacement_due());
    assert!(State { rho: small_value, ..near_threshold }.is_replacement_due(), "of r'M^-1 r that says nothing");
}

/// The decrease of <r, r> is relative to its largest value since the last replacement.
#[test]
fn decrease_is_relative_to_the_largest_residual() {
    let mut system = TridiagonalSystem { is_single_precision: true, ..TridiagonalSystem::well_conditioned(0.0) };
    system.residual(Iterate::X);
    system.precondition();
    system.combine(VectorId::P, 0.0, &[(1.0, VectorId::Z)]);
    system.multiply();
    let mut state = State { alpha: 1e3, ..after_start(state_within_run()) };
    iterate(&mut system, &mut state);
    assert!(system.replacement_count == 0 && state.norm2 > 1e6, "{:e}", state.norm2);
    assert!(State { norm2: 1e-3, rho: 1.0, ..state }.is_replacement_due());
    // After a replacement, the largest value is <r, r> of the recomputed residual. x includes the update.
    state.iterations += REPLACEMENT_INTERVAL;
    iterate(&mut system, &mut state);
    assert_eq!(system.replacement_count, 1);
    let true_residual = state.true_residual;
    assert!(
        is_close(true_residual.norm2.sqrt(), system.true_norm()) && true_residual.largest_norm2 == true_residual.norm2
    );
    assert!(!State { norm2: 0.5 * true_residual.norm2, rho: true_residual.rho, ..state }.is_replacement_due());
}

/// Returns the decision after a replacement. The recomputed <r, r> is `norm2`, and the recurred value is 1. At the
/// previous replacement, <r, r> was `previous_norm2`. rho changes from 1 to `rho`. The beta of the previous direction
/// was `beta`.
fn direction_after_replacement(norm2: f64, previous_norm2: f64, rho: f64, beta: f64) -> Option<bool> {
    let mut state =
        State { norm2: previous_norm2, beta, ..after_start(State { norm2: previous_norm2, ..state_within_run() }) };
    let replacement = state.record_replacement(1.0, norm2);
    assert!(!replacement.has_grown && state.alpha == 0.0);
    state.stays_conjugate(replacement, rho)
}

#[test]
fn drift_resets_the_direction_or_restarts() {
    let (above_drift, below_drift) = (1.01 * DRIFT_FACTOR, 0.99 * DRIFT_FACTOR);
    let previous_norm2 = 2.0 / SUFFICIENT_DECREASE;
    assert_eq!(direction_after_replacement(below_drift, previous_norm2, 0.1, 0.5), Some(true));
    assert_eq!(direction_after_replacement(1.0 / below_drift, previous_norm2, 0.1, 0.5), Some(true));
    assert_eq!(direction_after_replacement(above_drift, previous_norm2, 0.1, 0.5), Some(false));
    assert_eq!(direction_after_replacement(1.0 / above_drift, previous_norm2, 0.1, 0.5), Some(false));
    assert_eq!(direction_after_replacement(1.0, previous_norm2, 1.01 * RHO_DRIFT_FACTOR, 0.5), Some(false));
    assert_eq!(direction_after_replacement(above_drift, 1.0, 0.1, 0.5), None, "nothing was decreased");
    assert_eq!(direction_after_replacement(1.0, 1.0, 1.01 * RHO_DRIFT_FACTOR, 0.5), None);
}

#[test]
fn unpredicted_growth_resets_the_direction() {
    let (rho, beta) = (1.01 * FAST_DECREASE, 0.99 * FAST_DECREASE / UNPREDICTED_GROWTH);
    assert_eq!(direction_after_replacement(1.0, 1.0, rho, beta), Some(false));
    assert_eq!(direction_after_replacement(1.0, 1.0, 0.98 * rho, beta), Some(true), "it has fallen");
    assert_eq!(direction_after_replacement(1.0, 1.0, rho, 1.1 * beta), Some(true), "beta predicted the growth");
    assert_eq!(direction_after_replacement(1.0, 1.0, rho, 0.0), Some(true), "p was z");

    // `has_grown` compares <r, r> with its value at the previous replacement. For the first replacement since the
    // start, it is false.
    let mut state = after_start(State { norm2: 1e-6, ..state_within_run() });
    state.iterations = 8;
    assert!(!state.record_replacement(1.0, 1.0).has_grown, "from the start itself");
    state.iterations = 9;
    assert!(!state.record_replacement(1.0, 1.0).has_grown);
    let replacement = state.record_replacement(1.01 * EXCESSIVE_GROWTH, 1.01 * EXCESSIVE_GROWTH);
    assert!(replacement.has_grown);
    let (has_drifted, has_decreased) = (false, false);
    assert_eq!(
        state_within_run().stays_conjugate(Replacement { has_drifted, has_decreased, ..replacement }, 0.1),
        Some(false)
    );
}

#[test]
fn nonpositive_rounding_squares_are_no_breakdown() {
    let mut system = TridiagonalSystem::well_conditioned(0.0);
    let test = Test { is_preconditioner_definite: false, ..system.test(1e-10) };
    let state = State { test, ..state_within_run() };
    let mut is_explained = |test: &Test, state: &State, quantity, square| {
        is_rounding(&mut system, &State { test: *test, ..*state }, quantity, square)
    };
    let negligible_value = 0.9 * NEGLIGIBLE_FRACTION;
    assert!(is_explained(&test, &state, RHO_NAME, -negligible_value), "relative to the largest");
    assert!(!is_explained(&test, &state, RHO_NAME, negligible_value), "positive");
    assert!(!is_explained(&test, &state, RHO_NAME, -2.0 * negligible_value));
    assert!(!is_explained(&test, &state, RHO_NAME, f64::NAN));
    assert!(is_explained(&test, &state, SIGMA_NAME, -negligible_value), "relative to the largest, of the same unit");
    assert!(
        !is_explained(&Test { has_unit_of_matrix: false, ..test }, &state, SIGMA_NAME, -negligible_value),
        "of another"
    );
    let start = State { iterations: 0, ..state };
    assert!(is_explained(&test, &start, SIGMA_NAME, 0.0), "of A nearly singular");
    assert!(!is_explained(&Test { may_be_indefinite: true, ..test }, &start, SIGMA_NAME, 0.0), "of A indefinite");
    assert!(is_explained(&Test { may_be_indefinite: true, ..test }, &state, SIGMA_NAME, 0.0), "later");
    assert!(is_explained(&test, &State { norm2: 0.0, ..state }, RHO_NAME, -1.0), "the residual has vanished");
    assert!(is_explained(&Test { is_preconditioner_definite: true, ..test }, &state, RHO_NAME, -1.0), "M is known");
    assert!(
        !is_explained(&Test { is_preconditioner_definite: true, ..test }, &state, SIGMA_NAME, -1.0),
        "of A that says nothing"
    );

    // The magnitudes of the terms of p'Ap sum to at most `terms`. p'Ap is within, or just above, the rounding error of
    // this sum.
    system.v[P].fill(1.0);
    let terms = 2.0 * test.center_max * 30.0;
    let sigma_value = |fraction: f64| -fraction * terms * ROUNDING_FACTOR * f64::EPSILON;
    let large_residual = State { largest_rho: 1e-30, ..state };
    assert!(is_rounding(&mut system, &large_residual, SIGMA_NAME, sigma_value(0.9)));
    assert!(!is_rounding(&mut system, &large_residual, SIGMA_NAME, sigma_value(1.1)));

    system.is_single_precision = true;
    assert!(is_rounding(&mut system, &state, RHO_NAME, -1.0), "single precision");
    assert!(!is_rounding(&mut system, &start, RHO_NAME, -1.0));
}

#[test]
fn indefinite_matrix_is_a_breakdown() {
    let mut system = TridiagonalSystem::new(30, |i| if i == 12 { -4.0 } else { 4.0 });
    let test = Test { is_preconditioner_definite: false, ..system.test(1e-10) };
    assert!(matches!(system.solve(&test), Err(Error::Breakdown { .. })));
}

/// A breakdown names the last iteration that was reported to the observer. With the preconditioned norm, the iteration
/// with a nonpositive r'M^-1 r has no residual norm and is not reported.
#[test]
fn breakdown_names_reported_iteration() {
    for norm in [Norm::True2, Norm::Preconditioned] {
        let mut system = TridiagonalSystem { definite_applications: 5, ..TridiagonalSystem::new(30, |_| 4.0) };
        let test = Test { norm, is_preconditioner_definite: false, ..system.test(1e-10) };
        let Err(Error::Breakdown { quantity: RHO_NAME, iteration, .. }) = system.solve(&test) else {
            panic!("M is negative in its sixth application");
        };
        assert_eq!(iteration, system.history.len(), "{norm:?}");
        assert_eq!(iteration, if norm == Norm::True2 { 5 } else { 4 });
    }
}

/// If M alternates between two matrices, the flexible beta needs 33 iterations. The standard rho / rho_old needs 65.
#[test]
fn flexible_beta_needs_fewer_iterations() {
    let mut fixed_beta = TridiagonalSystem { alternates_preconditioner: true, ..TridiagonalSystem::new(30, |_| 3.0) };
    let mut flexible_beta = TridiagonalSystem {
        alternates_preconditioner: true,
        is_beta_flexible: true,
        ..TridiagonalSystem::new(30, |_| 3.0)
    };
    let (fixed_beta, flexible_beta) = (fixed_beta.solve_to(1e-8).end, flexible_beta.solve_to(1e-8).end);
    assert_eq!(flexible_beta.reason, StopReason::Converged);
    assert!(
        3 * flexible_beta.iterations < 2 * fixed_beta.iterations,
        "{} {}",
        flexible_beta.iterations,
        fixed_beta.iterations
    );
}

/// The constant vector is nearly in the null space and is deflated: q = P A p, r = P (b - A x). The solution is
/// x + Z (Z'AZ)^-1 Z'(b - A x).
#[test]
fn deflated_operator_needs_fewer_iterations() {
    let n = 40;
    let center = |i: usize| if i == 0 || i == n - 1 { 1.0 + 1e-9 } else { 2.0 + 1e-9 };
    let mut undeflated = TridiagonalSystem::new(n, center);
    let mut deflated = TridiagonalSystem { is_deflated: true, ..TridiagonalSystem::new(n, center) };
    let (end, undeflated_end) = (deflated.solve_to(1e-10).end, undeflated.solve_to(1e-10).end);
    assert_eq!(end.reason, StopReason::Converged);
    assert!(end.iterations < undeflated_end.iterations, "{} {}", end.iterations, undeflated_end.iterations);
    let ones = vec![1.0; n];
    let energy: f64 = deflated.multiply_matrix(&ones).iter().sum();
    let ax = deflated.multiply_matrix(&deflated.v[X]);
    let shift = deflated.v[B].iter().zip(&ax).map(|(b, ax)| b - ax).sum::<f64>() / energy;
    deflated.v[X].iter_mut().for_each(|x| *x += shift);
    // The tolerance is the rounding error of A x for the large x, of magnitude `shift`.
    assert!(deflated.true_norm() <= 1e-6 * shift.abs() * 4.0, "{:e} {shift:e}", deflated.true_norm());
}
