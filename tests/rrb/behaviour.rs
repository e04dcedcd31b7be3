//! Successful solves: guesses, norms, tolerances, the monitor, the history, the log, and several handles.

use crate::common;
use common::problems::{Stencil, neumann_const, poisson, random_m_matrix, random_rhs, without_mean};
use common::{
    ITERATION_LIMIT, Solver, dot, expect_not_converged, key, max_difference, norm2, outcome, rrb_set_monitor,
    rrb_solve_once, rrbsolver_cuda_device_count, rrbsolver_status_string, rrbsolver_version, run, status, user,
};
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

/// Most grids here are too small for several threads.
const BACKENDS: [&str; 2] = ["backend=reference", "backend=cpu threads=1"];
const TEAMS: [&str; 3] = ["backend=reference", "backend=cpu threads=1", "backend=cpu threads=3"];

fn five_and_nine(nx: usize, ny: usize) -> [Stencil; 2] {
    [random_m_matrix(nx, ny, false, 41), random_m_matrix(nx, ny, true, 41)]
}

#[test]
fn zero_right_hand_side_gives_zero_at_once() {
    for backend in BACKENDS {
        for a in five_and_nine(13, 9).into_iter().chain([neumann_const(13, 9)]) {
            for norm in ["true2", "preconditioned"] {
                let solver = Solver::of(&a, &format!("{backend} norm={norm}"));
                let mut x = random_rhs(a.len(), 1);
                assert_eq!(solver.solve(&vec![0.0; a.len()], &mut x), Ok(status::OK));
                assert!(x.iter().all(|v| v.to_bits() == 0), "{backend} {norm}");
                assert_eq!(solver.iterations(), 0);
            }
        }
    }
}

/// A constant b on a singular system is zero after the projection: x is the mean of the guess, as for any other b.
#[test]
fn right_hand_side_in_the_null_space_keeps_the_mean() {
    for backend in BACKENDS {
        let a = neumann_const(13, 9);
        let solver = Solver::of(&a, backend);
        let mut x = random_rhs(a.len(), 1);
        let mean = x.iter().sum::<f64>() / a.len() as f64;
        assert_eq!(solver.solve(&vec![3.7; a.len()], &mut x), Ok(status::OK));
        assert_eq!(solver.iterations(), 0);
        // The tolerance covers a sum of 117 values of magnitude below 1, in another order.
        assert!(x.iter().all(|v| (v - mean).abs() < 1e-14), "{backend}");
    }
}

/// Basins to which land cells and walls are added step by step: the data about closed basins grow with them.
#[test]
fn closed_basins_come_and_grow() {
    let (nx, ny) = (120, 110);
    let b = random_rhs(nx * ny, 2);
    for options in ["threads=1", "threads=3", "threads=1 precision=f64", "threads=3 precision=bf16", "fusion=off"] {
        let solver = Solver::new(nx, ny, &format!("backend=cpu {options}"));
        let mut a = neumann_const(nx, ny);
        for step in 0..30 {
            let land = |k: usize| {
                k / nx >= 5
                    && (k / nx - 5).is_multiple_of(3)
                    && k % nx == 7 + 2 * (k / nx - 5) / 3
                    && (k / nx - 5) / 3 < step
            };
            for k in (0..nx * ny).filter(|&k| land(k)) {
                a.decouple(k % nx, k / nx, 1.0);
            }
            if step == 20 {
                (0..ny).for_each(|j| a.decouple(nx / 2, j, 1.0));
            }
            a.set_row_sums(|k| if land(k) || step >= 20 && k % nx == nx / 2 { 1.0 } else { 0.0 });
            solver.factorize(&a).unwrap_or_else(|f| panic!("{options}, step {step}: {}", f.message));
            let mut x = vec![0.0; nx * ny];
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{options}, step {step}");
        }
        assert!(solver.int(key::INFO_SINGULAR_COMPONENTS) >= 2);
    }
}

/// A guess that satisfies the test is returned unchanged, without iterations.
#[test]
fn exact_guess_returns_in_no_iterations() {
    for backend in BACKENDS {
        for a in five_and_nine(13, 9) {
            let exact = random_rhs(a.len(), 1);
            let b = a.multiply(&exact);
            for norm in ["true2", "preconditioned"] {
                for reference in ["rhs", "rhs max_iter=0"] {
                    let solver = Solver::of(&a, &format!("{backend} norm={norm} reference={reference}"));
                    let mut x = exact.clone();
                    assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{backend} {norm}");
                    assert_eq!(solver.iterations(), 0);
                    // If the test uses black nodes only, red nodes are recomputed: ten roundings.
                    let allowed = if norm == "true2" { 0.0 } else { 1e-14 };
                    assert!(
                        max_difference(&x, &exact) <= allowed,
                        "{backend} {norm}: {:e}",
                        max_difference(&x, &exact)
                    );
                    assert!(solver.real(key::INFO_INITIAL_RESIDUAL) < 1e-14);
                }
            }
        }
    }
}

/// With reference=rhs, a better guess needs fewer iterations, because the tolerance remains relative to b.
#[test]
fn a_good_guess_helps() {
    let a = poisson(60, 60);
    let b = random_rhs(a.len(), 2);
    for backend in BACKENDS {
        let solver = Solver::of(&a, &format!("{backend} levels=8 rel_tol=1e-8"));
        let (solution, _) = solver.solve_from_zero(&b);
        let from_zero = solver.iterations();
        let mut near: Vec<f64> = solution.iter().map(|v| v * (1.0 + 1e-4)).collect();
        assert_eq!(solver.solve(&b, &mut near), Ok(status::OK));
        assert!(2 * solver.iterations() < from_zero + 2, "{} of {from_zero}", solver.iterations());
        assert!(norm2(&a.residual(&b, &near)) <= 1.001e-8 * norm2(&b));
        // Relative to the initial residual, the same guess saves little.
        solver.options("reference=initial").unwrap();
        let mut near: Vec<f64> = solution.iter().map(|v| v * (1.0 + 1e-4)).collect();
        assert_eq!(solver.solve(&b, &mut near), Ok(status::OK));
        assert!(2 * solver.iterations() > from_zero);
    }
}

#[test]
fn max_iter_zero_only_evaluates_the_residual() {
    let [a, nine] = five_and_nine(13, 9);
    for backend in BACKENDS {
        for a in [&a, &nine] {
            let b = random_rhs(a.len(), 2);
            let solver = Solver::of(a, &format!("{backend} max_iter=0"));
            let guess = random_rhs(a.len(), 3);
            let mut x = guess.clone();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::NOT_CONVERGED));
            assert_eq!(x, guess);
            let expected = norm2(&a.residual(&b, &guess)) / norm2(&b);
            expect_not_converged(0, expected, "1e-6", ITERATION_LIMIT);
            // Here, abs_tol determines the target.
            solver.options(&format!("abs_tol={:e}", 0.1 * norm2(&b))).unwrap();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::NOT_CONVERGED));
            expect_not_converged(0, expected, "1.0e-1", ITERATION_LIMIT);
            for value in
                [solver.real(key::INFO_INITIAL_RESIDUAL), solver.real(key::INFO_FINAL_RESIDUAL), solver.history()[0]]
            {
                // The tolerance covers the rounding errors of two sums of 117 squares.
                assert!((value / expected - 1.0).abs() <= 1e-13, "{value} {expected}");
            }
            assert_eq!((solver.iterations(), solver.history().len()), (0, 1));
        }
    }
}

/// max_iter ends with status 1 and the current iterate; a larger limit continues the same sequence.
#[test]
fn max_iter_is_a_caveat_not_an_error() {
    let a = poisson(40, 30);
    let b = random_rhs(a.len(), 2);
    for backend in BACKENDS {
        let all = run(&a, &b, &format!("{backend} levels=8"));
        for limit in [1, 2, 5] {
            let part = run(&a, &b, &format!("{backend} levels=8 max_iter={limit}"));
            assert_eq!((part.status, part.iterations), (status::NOT_CONVERGED, limit));
            assert_eq!(part.history, all.history[..=limit]);
        }
        let exactly = run(&a, &b, &format!("{backend} levels=8 max_iter={}", all.iterations));
        assert_eq!((exactly.status, exactly.x), (status::OK, all.x));
    }
}

/// A tolerance below the rounding level ends as "not converged" within max_iter, with the best possible x.
#[test]
fn unreachable_tolerance() {
    for a in five_and_nine(30, 30).into_iter().chain([poisson(30, 30)]) {
        let b = random_rhs(a.len(), 2);
        for backend in BACKENDS {
            for norm in ["true2", "preconditioned"] {
                for rel_tol in ["1e-17", "1e-30", "1e-300"] {
                    let text = format!("{backend} norm={norm} rel_tol={rel_tol} max_iter=5000");
                    let solver = Solver::of(&a, &text);
                    let mut x = vec![0.0; a.len()];
                    assert_eq!(solver.solve(&b, &mut x), Ok(status::NOT_CONVERGED), "{text}");
                    assert!(solver.iterations() <= 5000);
                    // The tolerance covers the rounding errors of about ten products in b - A x.
                    assert!(norm2(&a.residual(&b, &x)) <= 1e-14 * norm2(&b), "{text}");
                    // A sufficient fixed number of iterations is equally accurate; programs often request one in this
                    // way.
                    solver.options("max_iter=40").unwrap();
                    x.fill(0.0);
                    assert_eq!(solver.solve(&b, &mut x), Ok(status::NOT_CONVERGED), "{text}");
                    assert!(norm2(&a.residual(&b, &x)) <= 1e-14 * norm2(&b), "{text}");
                }
            }
        }
    }
}

/// norm(r) <= max(rel_tol * reference, abs_tol), in both norms, and relative to both references.
#[test]
fn stopping_test_is_the_documented_inequality() {
    let a = random_m_matrix(33, 21, true, 4);
    let b = random_rhs(a.len(), 2);
    let guess = random_rhs(a.len(), 3);
    for backend in BACKENDS {
        for norm in ["true2", "preconditioned"] {
            for reference in ["rhs", "initial"] {
                for (rel_tol, abs_tol) in [(1e-7, 0.0f64), (1e-12, 1e-3), (0.5, 0.0), (1e-9, 1e-30)] {
                    let text =
                        format!("{backend} norm={norm} reference={reference} rel_tol={rel_tol} abs_tol={abs_tol}");
                    let solver = Solver::of(&a, &text);
                    let mut x = guess.clone();
                    assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{text}");
                    // With 9 points, CG runs on A, and both norms can be computed by the test.
                    let tested = |r: &[f64]| match norm {
                        "true2" => norm2(r),
                        _ => dot(r, &solver.apply(r)).sqrt(),
                    };
                    let scale = if reference == "rhs" { tested(&b) } else { tested(&a.residual(&b, &guess)) };
                    let limit = abs_tol.max(rel_tol * scale);
                    let reached = tested(&a.residual(&b, &x));
                    assert!(reached <= limit * (1.0 + 1e-4) + 1e-13, "{text}: {reached:e} above {limit:e}");
                    let history = solver.history();
                    let before = history[history.len() - 2] * scale;
                    assert!(
                        before > limit * (1.0 - 1e-12),
                        "{text}: could have stopped earlier: {before:e} under {limit:e}"
                    );
                    assert!((history[0] * scale / tested(&a.residual(&b, &guess)) - 1.0).abs() < 1e-12, "{text}");
                }
            }
        }
    }
}

/// With 5 points, the 2-norm is that of the whole grid, although CG runs on half of it.
#[test]
fn true_norm_is_that_of_the_whole_grid() {
    let a = random_m_matrix(33, 21, false, 4);
    let b = random_rhs(a.len(), 2);
    let guess = random_rhs(a.len(), 3);
    for backend in BACKENDS {
        let solver = Solver::of(&a, &format!("{backend} rel_tol=1e-7"));
        let mut x = guess.clone();
        solver.solve(&b, &mut x).unwrap();
        let relative = |x: &[f64]| norm2(&a.residual(&b, x)) / norm2(&b);
        assert!((solver.real(key::INFO_INITIAL_RESIDUAL) / relative(&guess) - 1.0).abs() < 1e-12);
        // b - A x has a rounding error of 1e-16 |b|, nine digits below the residual.
        assert!((solver.real(key::INFO_FINAL_RESIDUAL) / relative(&x) - 1.0).abs() < 1e-6);
    }
}

/// lambda_min and lambda_max are inside the spectrum of M^-1 A and reach its ends, which power iteration computes.
#[test]
fn eigenvalue_estimates() {
    for a in five_and_nine(17, 12) {
        let b = random_rhs(a.len(), 2);
        for backend in BACKENDS {
            let solver = Solver::of(&a, &format!("{backend} levels=6 rel_tol=1e-12"));
            solver.solve_from_zero(&b);
            let (low, high) = (solver.real(key::INFO_LAMBDA_MIN), solver.real(key::INFO_LAMBDA_MAX));
            let power = |shift: f64| {
                let mut v = random_rhs(a.len(), 7);
                let mut lambda = 0.0;
                for _ in 0..3000 {
                    let w = solver.apply(&solver.multiply(&v));
                    let w: Vec<f64> = w.iter().zip(&v).map(|(w, v)| w - shift * v).collect();
                    lambda = dot(&w, &v) / dot(&v, &v);
                    let norm = norm2(&w);
                    v = w.iter().map(|x| x / norm).collect();
                }
                lambda + shift
            };
            let (true_high, true_low) = (power(0.0), power(high));
            // The estimates are inside the spectrum, up to the accuracy of the power iteration. After about twenty
            // steps of CG, they are close to its ends.
            let inside = low >= true_low * (1.0 - 1e-6) && high <= true_high * (1.0 + 1e-6);
            let near = high >= 0.99 * true_high && low <= 1.01 * true_low;
            assert!(inside && near, "{backend}: [{low}, {high}], [{true_low}, {true_high}]");
        }
    }
}

/// Calls of a test's monitor.
#[derive(Default)]
struct Seen {
    iterations: Vec<i64>,
    residuals: Vec<f64>,
    thread: Option<std::thread::ThreadId>,
}

unsafe extern "C-unwind" fn watch(user: *mut c_void, iteration: i64, relative_residual: f64) -> i32 {
    // SAFETY: the tests pass a `Seen` that outlives the solve.
    let seen = unsafe { &mut *user.cast::<Seen>() };
    seen.iterations.push(iteration);
    seen.residuals.push(relative_residual);
    seen.thread = Some(std::thread::current().id());
    0
}

fn set_watch(solver: &Solver, seen: &mut Seen) {
    // SAFETY: a live handle; the callers keep `seen` alive while they solve.
    outcome(unsafe { rrb_set_monitor(solver.handle, Some(watch), user(seen)) }).expect("set_monitor");
}

/// The monitor is called in order from iteration 0 on, on the calling thread, with the residuals of the history.
#[test]
fn monitor_sees_every_iteration() {
    let a = poisson(130, 91);
    let b = random_rhs(a.len(), 2);
    for backend in TEAMS {
        let silent = run(&a, &b, backend);
        let solver = Solver::of(&a, backend);
        let mut seen = Seen::default();
        set_watch(&solver, &mut seen);
        let (x, result) = solver.solve_from_zero(&b);
        assert_eq!((result, &x), (status::OK, &silent.x), "a monitor that only looks changes nothing");
        let expected: Vec<i64> = (0..=solver.iterations() as i64).collect();
        assert_eq!(seen.iterations, expected);
        assert_eq!(seen.residuals, solver.history());
        assert_eq!(seen.thread, Some(std::thread::current().id()));
        // SAFETY: a live handle.
        outcome(unsafe { rrb_set_monitor(solver.handle, None, null_mut()) }).unwrap();
        let before = seen.iterations.len();
        solver.solve_from_zero(&b);
        assert_eq!(seen.iterations.len(), before, "a removed monitor is not called");
    }
}

/// The history belongs to the last solve. A short buffer receives its beginning.
#[test]
fn history_of_the_last_solve() {
    let a = poisson(30, 30);
    let solver = Solver::new(30, 30, "levels=6");
    assert!(solver.history().is_empty());
    solver.factorize(&a).unwrap();
    assert!(solver.history().is_empty());
    solver.solve_from_zero(&random_rhs(900, 1));
    let first = solver.history();
    assert!(first.len() > 3);
    let mut buffer = [-1.0; 3];
    let mut count = 0;
    // SAFETY: a live handle, a buffer of the capacity passed.
    outcome(unsafe { common::rrb_get_history(solver.handle, buffer.as_mut_ptr(), 2, &mut count) }).unwrap();
    assert_eq!((count as usize, buffer[..2].to_vec(), buffer[2]), (first.len(), first[..2].to_vec(), -1.0));
    solver.options("max_iter=1").unwrap();
    solver.solve_from_zero(&random_rhs(900, 1));
    assert_eq!(solver.history().len(), 2);
    solver.options("max_iter=1000").unwrap();
    solver.solve_from_zero(&random_rhs(900, 1));
    assert_eq!(solver.history(), first, "the same solve leaves the same history");
}

/// A handle with new coefficients gives the results of a new handle; `b` is never written.
#[test]
fn refactorize() {
    for backend in BACKENDS {
        let solver = Solver::of(&poisson(37, 22), backend);
        let b = random_rhs(37 * 22, 8);
        for a in [
            random_m_matrix(37, 22, false, 1),
            random_m_matrix(37, 22, true, 2),
            neumann_const(37, 22),
            poisson(37, 22),
        ] {
            solver.factorize(&a).unwrap();
            let kept = b.clone();
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!((result, &b), (status::OK, &kept));
            let fresh = run(&a, &b, backend);
            assert_eq!((x, solver.iterations()), (fresh.x, fresh.iterations));
        }
    }
}

/// A matrix is speculatively assumed to resemble the previous one, and is checked while it is factorized. Whatever it
/// is, the handle gives the results of a new handle, also for the next matrix.
#[test]
fn refactorize_what_is_unlike_the_last() {
    let (nx, ny) = (150, 120);
    let (usual, b) = (random_m_matrix(nx, ny, false, 1), random_rhs(nx * ny, 8));
    let changed = |change: &dyn Fn(&mut Stencil)| {
        let mut a = random_m_matrix(nx, ny, false, 2);
        change(&mut a);
        a
    };
    let (middle, last) = (nx * (ny / 2) + nx / 3, nx * (ny - 2) + 5);
    let matrices = [
        ("like it", changed(&|_| ())),
        ("its center is larger", changed(&|a| a.center[middle] *= 64.0)),
        ("larger", changed(&|a| a.scale(1024.0))),
        ("far larger", changed(&|a| a.scale(2f64.powi(600)))),
        ("smaller", changed(&|a| a.scale(1.0 / 1024.0))),
        ("NaN in the middle", changed(&|a| a.north[middle] = f64::NAN)),
        ("infinity near the end", changed(&|a| a.east[last] = f64::NEG_INFINITY)),
        ("two bad entries", changed(&|a| (a.east[last], a.north[3]) = (f64::NAN, f64::INFINITY))),
        ("no center", changed(&|a| a.center[last] = 0.0)),
        ("a negative center", changed(&|a| a.center[middle] = -1.0)),
        ("a bad entry and a center before it", changed(&|a| (a.center[3], a.east[last]) = (0.0, f64::NAN))),
        ("a positive coupling", changed(&|a| a.east[middle] = 1e-3)),
        ("indefinite", changed(&|a| a.center[middle] *= 1e-3)),
        ("land", changed(&|a| (0..40).for_each(|j| a.decouple(7, j, 1.0)))),
        ("contrast", changed(&|a| (0..a.len() / 2).for_each(|k| a.center[k] += 1e8))),
        ("closed", neumann_const(nx, ny)),
        ("nine points", random_m_matrix(nx, ny, true, 3)),
    ];
    for options in ["", "precision=f64 cycle=v", "precision=mixed", "precision=bf16 cycle=amli", "check_input=0"] {
        for threads in [1, 3] {
            let options = format!("backend=cpu threads={threads} {options}");
            let says = |solver: &Solver, a: &Stencil| {
                let factorized = solver.factorize(a).map_err(|f| (f.status, f.message))?;
                let (x, result) = solver.solve_from_zero(&b);
                let of = [
                    key::INFO_LEVELS,
                    key::INFO_PRECISION,
                    key::INFO_CYCLE,
                    key::INFO_COMPONENTS,
                    key::INFO_SINGULAR_COMPONENTS,
                    key::INFO_COMPENSATED_COUPLINGS,
                ];
                let bits: Vec<u64> = x.iter().map(|v| v.to_bits()).collect();
                Ok::<_, (i32, String)>((factorized, result, solver.iterations(), of.map(|key| solver.int(key)), bits))
            };
            for (name, a) in &matrices {
                let [fresh, again] = [a, &usual].map(|a| says(&Solver::new(nx, ny, &options), a));
                let solver = Solver::of(&usual, &options);
                let said = says(&solver, a);
                assert!(said == fresh, "{name}, {options}: {:?}, a new handle: {:?}", said.err(), fresh.err());
                assert!(says(&solver, &usual) == again, "the usual one after: {name}, {options}");
            }
        }
    }
}

/// Different handles work concurrently on several threads, and handles move between threads.
#[test]
fn handles_are_independent() {
    let cases: Vec<(Stencil, Vec<f64>)> = (0..4)
        .map(|k| (random_m_matrix(40 + k, 50 - k, k % 2 == 0, k as u64), random_rhs((40 + k) * (50 - k), k as u64)))
        .collect();
    let alone: Vec<Vec<f64>> = cases.iter().map(|(a, b)| run(a, b, "backend=cpu threads=2").x).collect();
    std::thread::scope(|scope| {
        for ((a, b), expected) in cases.iter().zip(&alone) {
            scope.spawn(move || {
                let mut solver = Solver::new(a.nx, a.ny, "backend=cpu threads=2");
                for _ in 0..5 {
                    solver.factorize(a).unwrap();
                    // The handle moves to another thread, solves there, and moves back.
                    let (moved, x) = std::thread::spawn({
                        let b = b.clone();
                        move || {
                            let (x, result) = solver.solve_from_zero(&b);
                            assert_eq!(result, status::OK);
                            (solver, x)
                        }
                    })
                    .join()
                    .unwrap();
                    solver = moved;
                    assert_eq!(&x, expected);
                    assert_eq!(&solver.solve_from_zero(b).0, expected);
                }
            });
        }
    });
}

/// rrb_solve_once, which replaces an ICCG call.
#[test]
fn solve_once() {
    let a = random_m_matrix(25, 31, true, 5);
    let (ne, nw) = a.corners.as_ref().unwrap();
    let b = random_rhs(a.len(), 1);
    let mut x = vec![0.0; a.len()];
    let mut iterations = -1;
    let call = |corners: bool, x: &mut Vec<f64>, rel_tol: f64, max_iter: i64, iterations: *mut i64| {
        let (ne, nw) = if corners { (ne.as_ptr(), nw.as_ptr()) } else { (null(), null()) };
        // SAFETY: arrays of 25 x 31 values.
        outcome(unsafe {
            rrb_solve_once(
                25,
                31,
                a.center.as_ptr(),
                a.east.as_ptr(),
                a.north.as_ptr(),
                ne,
                nw,
                b.as_ptr(),
                x.as_mut_ptr(),
                rel_tol,
                max_iter,
                iterations,
            )
        })
    };
    assert_eq!(call(true, &mut x, 1e-9, 100, &mut iterations), Ok(status::OK));
    let same = run(&a, &b, "rel_tol=1e-9 max_iter=100");
    assert_eq!((&x, iterations as usize), (&same.x, same.iterations));
    // Without the corners (5-point stencil), the matrix is diagonally dominant.
    x.fill(0.0);
    assert_eq!(call(false, &mut x, 1e-9, 100, &mut iterations), Ok(status::OK));
    let mut five = a.clone();
    five.corners = None;
    assert!(norm2(&five.residual(&b, &x)) <= 1.001e-9 * norm2(&b));
    x.fill(0.0);
    assert_eq!(call(true, &mut x, 1e-9, 2, &mut iterations), Ok(status::NOT_CONVERGED));
    assert_eq!(iterations, 2);
    expect_not_converged(2, norm2(&a.residual(&b, &x)) / norm2(&b), "1e-9", ITERATION_LIMIT);
    call(true, &mut x, 5.0, 2, &mut iterations).unwrap_err().expect(status::ARGUMENT, &["rel_tol", "5"]);
}

/// Results report what was done.
#[test]
fn results() {
    let a = poisson(130, 70);
    let solver = Solver::of(&a, "backend=cpu threads=2 levels=6");
    assert_eq!((solver.int(key::INFO_BACKEND), solver.int(key::INFO_LEVELS), solver.int(key::INFO_THREADS)), (1, 6, 2));
    assert_eq!((solver.int(key::INFO_COMPONENTS), solver.int(key::INFO_SINGULAR_COMPONENTS)), (1, 0));
    assert_eq!((solver.int(key::INFO_COMPENSATED_COUPLINGS), solver.int(key::INFO_BYTES_DEVICE)), (0, 0));
    // The matrix alone is five arrays.
    assert!(solver.int(key::INFO_BYTES_HOST) >= 5 * 8 * 130 * 70);
    assert!(solver.real(key::INFO_SECONDS_SETUP) > 0.0);
    solver.solve_from_zero(&random_rhs(a.len(), 1));
    assert!(solver.real(key::INFO_SECONDS_SOLVE) > 0.0);
    assert_eq!(
        solver.real(key::INFO_ITERATIONS),
        solver.int(key::INFO_ITERATIONS) as f64,
        "get_real reads whole numbers too"
    );
    solver.options("backend=reference").unwrap();
    solver.factorize(&a).unwrap();
    assert_eq!(solver.int(key::INFO_BACKEND), 3);
    let full = Solver::of(&a, "levels=4000");
    assert!((12..=16).contains(&full.int(key::INFO_LEVELS)), "130 halves seven times: {}", full.int(key::INFO_LEVELS));
    assert!(Solver::of(&a, "").int(key::INFO_LEVELS) >= 1, "levels=0 is a choice by size");
}

/// b is checked for compatibility only if the option asks for it; otherwise it is projected.
#[test]
fn compatibility() {
    let a = neumann_const(12, 9);
    let good = without_mean(random_rhs(108, 1));
    let mut bad = good.clone();
    bad[17] += 1e-3;
    for backend in BACKENDS {
        let solver = Solver::of(&a, &format!("{backend} check_compatibility=1"));
        assert_eq!(solver.solve_from_zero(&good).1, status::OK);
        let mut x = vec![3.0; 108];
        solver.solve(&bad, &mut x).unwrap_err().expect(status::INCOMPATIBLE, &["(0, 0)"]);
        assert!(x.iter().all(|&v| v == 3.0), "x is untouched");
        solver.options("check_compatibility=0").unwrap();
        assert_eq!(solver.solve(&bad, &mut x), Ok(status::OK));
    }
    // Sums in the error message are those of the caller's b.
    let solver = Solver::of(&neumann_const(3, 1), "check_compatibility=1");
    solver.solve(&[1000.0; 3], &mut [0.0; 3]).unwrap_err().expect(status::INCOMPATIBLE, &["3e3"]);
}

/// With null_space=none, a singular matrix is rejected by its last pivot or does not converge, but never returns a
/// wrong solution. With constant, the result is that of auto.
#[test]
fn null_space_option() {
    let a = neumann_const(12, 9);
    let b = without_mean(random_rhs(108, 1));
    let constant = Solver::of(&a, "null_space=constant");
    assert_eq!(constant.int(key::INFO_SINGULAR_COMPONENTS), 1);
    assert_eq!(constant.solve_from_zero(&b).0, Solver::of(&a, "").solve_from_zero(&b).0);
    let solver = Solver::new(12, 9, "null_space=none");
    match solver.factorize(&a) {
        Err(failure) => failure.expect(status::MATRIX, &["pivot"]),
        Ok(_) => {
            let (x, result) = solver.solve_from_zero(&b);
            assert!(result == status::NOT_CONVERGED || norm2(&a.residual(&b, &x)) <= 1.001e-6 * norm2(&b));
        }
    }
}

/// If the exact factor has several nonpositive pivots, the error names the first node. It does not depend on the
/// direction of the elimination and on the threads. The coarsest system has 713 nodes here, those of rows 3, 7, 11, ...
#[test]
fn the_first_refused_node_is_named() {
    let regular = neumann_const(130, 91).center.iter().map(|c| c + 0.1).collect::<Vec<_>>();
    for rows in [[11, 87], [47, 87], [83, 87], [11, 47]] {
        let mut a = neumann_const(130, 91);
        a.center.clone_from(&regular);
        for row in rows {
            a.center[row * 130 + 67] -= 3.0;
        }
        for backend in TEAMS {
            let solver = Solver::new(130, 91, &format!("{backend} levels=4 precision=f64"));
            let failure = solver.factorize(&a).unwrap_err();
            failure.expect(status::MATRIX, &[&format!("(67, {})", rows[0]), "level 5", "pivot"]);
            // The failure has no effect on the next factorization.
            a.center.clone_from(&regular);
            assert_eq!(solver.factorize(&a), Ok(status::OK), "{backend}");
            for row in rows {
                a.center[row * 130 + 67] -= 3.0;
            }
        }
    }
}

#[test]
fn version_and_status_texts() {
    let text = |p| {
        // SAFETY: static NUL-terminated text.
        unsafe { CStr::from_ptr(p) }.to_str().unwrap().to_owned()
    };
    assert_eq!(text(rrbsolver_version()), env!("CARGO_PKG_VERSION"));
    let all = [0, 1, 2, -1, -2, -3, -4, -5, -6, -20, -21, -22, -23, -30, -40, -41, -50, -51, -99];
    let texts: std::collections::BTreeSet<String> = all.iter().map(|&s| text(rrbsolver_status_string(s))).collect();
    assert_eq!(texts.len(), all.len(), "each status has its own text");
    assert!(!text(rrbsolver_status_string(12345)).is_empty());
    let mut count = -1;
    // SAFETY: `count` outlives the call.
    assert_eq!(unsafe { rrbsolver_cuda_device_count(&mut count) }, status::OK);
    assert!(count >= 0);
}
