//! Restarts: if the recurred residual satisfies the test but the recomputed residual does not, a solve restarts from
//! the latter, at most three times.
//!
//! The restarts here result from guesses far from the solution. While x is as large as its guess, the updates of x and
//! the product A x have rounding errors of that magnitude. The recurred residual does not contain them. At each
//! restart, x is closer to the solution by a factor of about 1e15.

use crate::common;
use common::problems::{Stencil, random_field, random_m_matrix, random_rhs, without_mean};
use common::*;

/// Largest number of restarts.
const RESTARTS: usize = 3;

/// Stop reason of a failed test without a further restart.
const STAGNATED: i64 = 6;

/// A system and an initial guess.
struct Problem {
    a: Stencil,
    b: Vec<f64>,
    guess: Vec<f64>,
}

/// Results of a solve from the guess.
struct Solved {
    status: i32,
    reason: i64,
    x: Vec<f64>,
    /// Reported residual.
    reported: f64,
    history: Vec<f64>,
}

impl Problem {
    /// Creates random coefficients and a rough guess of magnitude `size`, while b has magnitude one.
    fn far(nine_point: bool, size: f64) -> Self {
        let (nx, ny) = (33, 29);
        let a = random_m_matrix(nx, ny, nine_point, 5);
        let guess = random_rhs(a.len(), 3).iter().map(|v| size * v).collect();
        Self { b: random_rhs(a.len(), 2), a, guess }
    }

    /// All edges closed, but one row has the row sum `row_sum`, and the guess is constant and thus nearly in the null
    /// space. Its rounding error has a constant part, which makes the next x large again. From 1e14, the largest guess
    /// for sweeps in single precision, four restarts are needed.
    fn nearly_closed(nine_point: bool, n: usize, row_sum: f64) -> Self {
        let (nx, ny) = (n, n + 1);
        let mut a = random_m_matrix(nx, ny, nine_point, 5);
        let open = nx * (ny / 2) + nx / 3;
        a.set_row_sums(|p| if p == open { row_sum } else { 0.0 });
        let b = a.multiply(&without_mean(random_rhs(a.len(), 2)));
        let guess = vec![2e14 * max_abs(&b) / max_abs(&a.center); a.len()];
        Self { a, b, guess }
    }

    #[track_caller]
    fn solve(&self, options: &str) -> Solved {
        let solver = Solver::of(&self.a, options);
        let mut x = self.guess.clone();
        let status = solver.solve(&self.b, &mut x).unwrap_or_else(|f| panic!("{options}: {}", f.message));
        let (reason, reported) = (solver.int(key::INFO_STOP_REASON), solver.real(key::INFO_FINAL_RESIDUAL));
        Solved { status, reason, x, reported, history: solver.history() }
    }

    /// Solves to `rel_tol`, and checks the number of restarts and whether the last recomputed residual satisfies the
    /// test.
    fn check(&self, options: &str, rel_tol: f64, restarts: usize, succeeds: bool) {
        let what = format!("{options} rel_tol={rel_tol:e}");
        let solve = |max_iter: usize| self.solve(&format!("{options} rel_tol={rel_tol:e} max_iter={max_iter}"));
        let whole = solve(5000);
        // The first residual after a restart is far above the tolerance.
        let small = |k: usize| whole.history.get(k).is_some_and(|&residual| residual <= rel_tol);
        let met: Vec<usize> = (1..whole.history.len()).filter(|&k| small(k) && !small(k + 1)).collect();
        assert_eq!(met.len(), restarts + 1, "{what}: met at {met:?}");
        assert_eq!(met.last(), Some(&(whole.history.len() - 1)), "{what}: no iteration after the last");

        // If `max_iter` ends a solve where the recurred residual satisfies the test, the reported residual is the
        // recomputed one.
        let mut missed = f64::INFINITY;
        for &at in &met {
            let part = solve(at);
            assert_eq!(bits(&part.history), bits(&whole.history[..=at]), "{what} to {at}");
            assert!(
                part.reported <= 0.5 * missed,
                "{what} to {at}: {:e} after {missed:e} was worth a restart",
                part.reported
            );
            let last = Some(&at) == met.last();
            assert_eq!(
                part.status,
                if last && succeeds { status::OK } else { status::NOT_CONVERGED },
                "{what} to {at}"
            );
            assert_eq!(part.reported <= rel_tol, last && succeeds, "{what} to {at}: {:e}", part.reported);
            missed = part.reported;
        }
        assert_eq!(whole.reported, missed, "{what}");
        if succeeds {
            assert_eq!(whole.status, status::OK, "{what}");
        } else {
            assert_eq!((whole.status, whole.reason, restarts), (status::NOT_CONVERGED, STAGNATED, RESTARTS), "{what}");
        }
        self.check_reported(&whole, options, &what);
    }

    /// Checks that the reported residual is the tested norm of the returned x.
    fn check_reported(&self, solved: &Solved, options: &str, what: &str) {
        let solver = Solver::of(&self.a, options);
        let (norm, rounding) = exact_norm(&solver, &self.a, &self.b, &solved.x, options.contains("preconditioned"));
        assert!((solved.reported - norm).abs() <= rounding, "{what}: reported {:e}, is {norm:e}", solved.reported);
    }
}

/// The rounding error of a guess 1e15, 1e30, 1e45 times too large vanishes after one, two, three restarts; 1e60 would
/// need a fourth. With five points, CG runs on S1 and the surrounding loop restarts; otherwise CG itself does.
#[test]
fn guesses_far_away() {
    for nine_point in [false, true] {
        for norm in ["true2", "preconditioned"] {
            for backend in ["reference", "cpu threads=1", "cpu threads=3"] {
                let options = format!("backend={backend} precision=f64 cycle=v levels=8 norm={norm}");
                for (size, restarts, succeeds) in [(1e15, 1, true), (1e30, 2, true), (1e45, 3, true), (1e60, 3, false)]
                {
                    Problem::far(nine_point, size).check(&options, 1e-6, restarts, succeeds);
                }
            }
        }
    }
}

/// Restarts with every format of M and CG in double precision: 5e-11 is reached after three restarts, 1e-15 is not.
#[test]
fn formats_start_again_too() {
    for problem in [Problem::nearly_closed(false, 33, 1e-11), Problem::nearly_closed(true, 19, 1e-11)] {
        for precision in ["f64", "f32", "bf16"] {
            for backend in ["reference", "cpu threads=1", "cpu threads=3"] {
                let options = format!("backend={backend} precision={precision} cycle=v levels=8 compute_block=8");
                problem.check(&options, 5e-11, RESTARTS, true);
                problem.check(&options, 1e-15, RESTARTS, false);
            }
        }
    }
}

/// Below the rounding level, a restart may increase the residual: x is the iterate with the smallest recomputed
/// residual.
#[test]
fn the_best_of_all_starts_comes_back() {
    let (rel_tol, n) = (1e-16, 33);
    // With five points, the surrounding loop restarts, at half the tolerance in later attempts.
    let systems = [
        (random_field(n + 1, 1e6), "true2", 0.5),
        (random_m_matrix(n, n, true, 5), "true2", 1.0),
        (random_m_matrix(n, n, true, 5), "preconditioned", 1.0),
        (random_m_matrix(n, n, false, 5), "preconditioned", 0.5),
    ];
    for (a, norm, again) in systems {
        let options = format!("backend=cpu threads=1 precision=f64 norm={norm} rel_tol={rel_tol:e}");
        for seed in 0..30 {
            let problem = Problem { a: a.clone(), b: random_rhs(a.len(), seed), guess: vec![0.0; a.len()] };
            let whole = problem.solve(&options);
            let what = format!("seed {seed} {options}");
            assert_eq!((whole.status, whole.reason), (status::NOT_CONVERGED, STAGNATED), "{what}");
            let first = whole.history.iter().position(|&residual| residual <= rel_tol).expect("the test is met");
            let met = |k: &usize| *k == first || whole.history[*k] <= again * rel_tol;
            for at in (first..whole.history.len()).filter(met) {
                let part = problem.solve(&format!("{options} max_iter={at}"));
                assert!(whole.reported <= part.reported, "{what}: {:e}, at {at} {:e}", whole.reported, part.reported);
            }
            problem.check_reported(&whole, &options, &what);
        }
    }
}

/// CG in single precision replaces its residual, so its residual rarely fails the test of the recomputed residual. CG
/// restarts if rounding errors dominate a direction. Without two such restarts, none of these solves would reach 1e-15.
#[test]
fn single_precision_starts_again_too() {
    for threads in [1, 3] {
        let options = format!("backend=cpu threads={threads} precision=mixed cycle=v levels=8 compute_block=8");
        let problem = Problem::nearly_closed(false, 33, 1e-11);
        let solved = problem.solve(&format!("{options} rel_tol=1e-15 max_iter=1000"));
        assert_eq!(solved.status, status::OK, "{options}");
        assert!(solved.reported <= 1e-15, "{options}: {:e}", solved.reported);
        problem.check_reported(&solved, &options, &options);
    }
}
