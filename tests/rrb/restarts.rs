//! Restarts: where the recurred residual meets the test and the recomputed one misses it, a solve starts again from the
//! latter, at most three times.
//!
//! The misses here come of guesses far from the solution: while x is as large as its guess, x += alpha p and b - A x
//! have the rounding of numbers that large, of which the recurred residual knows nothing. Each start begins nearer by
//! that much.

#[path = "../common/mod.rs"]
mod common;

use common::problems::{Stencil, random_field, random_m_matrix, random_rhs, without_mean};
use common::*;

/// Restarts at most.
const RESTARTS: usize = 3;

/// The stop reason of a miss that is not started from again.
const STAGNATED: i64 = 6;

/// A system and a guess.
struct Problem {
    a: Stencil,
    b: Vec<f64>,
    guess: Vec<f64>,
}

/// What a solve from the guess gave.
struct Solved {
    status: i32,
    reason: i64,
    x: Vec<f64>,
    /// The residual that it told.
    told: f64,
    history: Vec<f64>,
}

impl Problem {
    /// Random coefficients, and a rough guess of this size, b being about one.
    fn far(nine_point: bool, size: f64) -> Self {
        let (nx, ny) = (33, 29);
        let a = random_m_matrix(nx, ny, nine_point, 5);
        let guess = random_rhs(a.len(), 3).iter().map(|v| size * v).collect();
        Self { b: random_rhs(a.len(), 2), a, guess }
    }

    /// All sides closed, but one row has an excess of this, and a constant guess, so that it is nearly in the null
    /// space. What rounding leaves of it has a constant part, which makes the next x large again: four restarts are
    /// needed from 1e14, as far away as guesses may be for sweeps in single precision.
    fn nearly_closed(nine_point: bool, n: usize, excess: f64) -> Self {
        let (nx, ny) = (n, n + 1);
        let mut a = random_m_matrix(nx, ny, nine_point, 5);
        let open = nx * (ny / 2) + nx / 3;
        a.set_row_sums(|p| if p == open { excess } else { 0.0 });
        let b = a.multiply(&without_mean(random_rhs(a.len(), 2)));
        let guess = vec![2e14 * max_abs(&b) / max_abs(&a.center); a.len()];
        Self { a, b, guess }
    }

    #[track_caller]
    fn solve(&self, options: &str) -> Solved {
        let solver = Solver::of(&self.a, options);
        let mut x = self.guess.clone();
        let status = solver.solve(&self.b, &mut x).unwrap_or_else(|f| panic!("{options}: {}", f.sentence));
        let (reason, told) = (solver.int(key::INFO_STOP_REASON), solver.real(key::INFO_FINAL_RESIDUAL));
        Solved { status, reason, x, told, history: solver.history() }
    }

    /// Solves to `rel_tol`, with so many restarts and then success, or as many as there may be and another miss.
    fn check(&self, options: &str, rel_tol: f64, restarts: usize, succeeds: bool) {
        let what = format!("{options} rel_tol={rel_tol:e}");
        let solve = |max_iter: usize| self.solve(&format!("{options} rel_tol={rel_tol:e} max_iter={max_iter}"));
        let whole = solve(5000);
        // The first residual after a restart is far above the tolerance again.
        let small = |k: usize| whole.history.get(k).is_some_and(|&residual| residual <= rel_tol);
        let met: Vec<usize> = (1..whole.history.len()).filter(|&k| small(k) && !small(k + 1)).collect();
        assert_eq!(met.len(), restarts + 1, "{what}: met at {met:?}");
        assert_eq!(met.last(), Some(&(whole.history.len() - 1)), "{what}: no iteration after the last");

        // Ended by `max_iter` where the test is met, a solve tells what was recomputed there.
        let mut missed = f64::INFINITY;
        for &at in &met {
            let part = solve(at);
            assert_eq!(bits(&part.history), bits(&whole.history[..=at]), "{what} to {at}");
            assert!(part.told <= 0.5 * missed, "{what} to {at}: {:e} after {missed:e} was worth a restart", part.told);
            let last = Some(&at) == met.last();
            assert_eq!(
                part.status,
                if last && succeeds { status::OK } else { status::NOT_CONVERGED },
                "{what} to {at}"
            );
            assert_eq!(part.told <= rel_tol, last && succeeds, "{what} to {at}: {:e}", part.told);
            missed = part.told;
        }
        assert_eq!(whole.told, missed, "{what}");
        if succeeds {
            assert_eq!(whole.status, status::OK, "{what}");
        } else {
            assert_eq!((whole.status, whole.reason, restarts), (status::NOT_CONVERGED, STAGNATED, RESTARTS), "{what}");
        }
        self.check_told(&whole, options, &what);
    }

    /// What was told is the tested norm of the x that came back.
    fn check_told(&self, solved: &Solved, options: &str, what: &str) {
        let solver = Solver::of(&self.a, options);
        let (norm, rounding) = exact_norm(&solver, &self.a, &self.b, &solved.x, options.contains("preconditioned"));
        assert!((solved.told - norm).abs() <= rounding, "{what}: told {:e}, is {norm:e}", solved.told);
    }
}

/// Rounding of a guess 1e15, 1e30, 1e45 times too large is gone after one, two, three restarts; of one of 1e60 a fourth
/// would be needed. With five points CG is on S1 and the loop around it tells, else CG itself.
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

/// The same for every format of M under CG in double precision: 5e-11 is reached after three restarts, 1e-15 is not.
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

/// Below rounding a restart may make it worse: x is the iterate with the smallest of the recomputed residuals.
#[test]
fn the_best_of_all_starts_comes_back() {
    let (rel_tol, n) = (1e-16, 33);
    // Five points are started again by the loop around CG, from half of the tolerance the other times.
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
                assert!(whole.told <= part.told, "{what}: {:e}, at {at} {:e}", whole.told, part.told);
            }
            problem.check_told(&whole, &options, &what);
        }
    }
}

/// CG in single precision replaces its residual, so that it hardly ever misses; it starts again where rounding had led
/// it away. Without that, twice, none of these would come to 1e-15.
#[test]
fn single_precision_starts_again_too() {
    for threads in [1, 3] {
        let options = format!("backend=cpu threads={threads} precision=mixed cycle=v levels=8 compute_block=8");
        let problem = Problem::nearly_closed(false, 33, 1e-11);
        let solved = problem.solve(&format!("{options} rel_tol=1e-15 max_iter=1000"));
        assert_eq!(solved.status, status::OK, "{options}");
        assert!(solved.told <= 1e-15, "{options}: {:e}", solved.told);
        problem.check_told(&solved, &options, &options);
    }
}
