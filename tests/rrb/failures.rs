//! Calls that fail or are stopped: monitors that stop or panic, breakdowns, bad values, and the state that they leave.
//! Several threads are used only on grids of 8192 nodes and more, so grids here are that large, and each test checks
//! the number of threads.

use crate::common;
use common::problems::{Stencil, neumann_const, poisson, random_m_matrix, random_rhs};
use common::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const NX: usize = 130;
const NY: usize = 91;

const BACKENDS: [&str; 5] = [
    "backend=reference",
    "backend=cpu threads=1",
    "backend=cpu threads=1 fusion=off",
    "backend=cpu threads=3",
    "backend=cpu threads=3 fusion=off",
];

/// Creates a factorized handle, and checks the number of threads.
#[track_caller]
fn handle(a: &Stencil, options: &str) -> Solver {
    let solver = Solver::of(a, options);
    let threads = if options.contains("threads=3") { 3 } else { 1 };
    assert!(options.contains("reference") || solver.int(key::INFO_THREADS) == threads, "{options}");
    solver
}

#[track_caller]
fn trace(solver: &Solver, b: &[f64]) -> Trace {
    Trace::of(solver, b).expect("solve")
}

fn problems() -> [Stencil; 3] {
    [random_m_matrix(NX, NY, false, 3), random_m_matrix(NX, NY, true, 3), neumann_const(NX, NY)]
}

unsafe extern "C-unwind" fn stop_at(user: *mut c_void, iteration: i64, _: f64) -> i32 {
    // SAFETY: the tests pass a number that outlives the solve.
    i32::from(unsafe { *user.cast::<i64>() } == iteration)
}

unsafe extern "C-unwind" fn panic_at(user: *mut c_void, iteration: i64, _: f64) -> i32 {
    // SAFETY: as above.
    assert!(unsafe { *user.cast::<i64>() } != iteration, "the monitor of a test gives up");
    0
}

fn unwatch(solver: &Solver) {
    // SAFETY: a live handle.
    outcome(unsafe { rrb_set_monitor(solver.handle, None, null_mut()) }).expect("set_monitor");
}

/// A stop returns status 2 and the current iterate. The next solve gives the results of a new handle.
#[test]
fn monitor_stops() {
    for a in problems() {
        let b = random_rhs(a.len(), 2);
        for options in BACKENDS {
            let fresh = trace(&handle(&a, options), &b);
            assert!(fresh.solved.iterations > 3);
            let solver = handle(&a, options);
            for mut at in [0i64, 1, 3] {
                // SAFETY: a live handle, and `at` outlives the monitor.
                outcome(unsafe { rrb_set_monitor(solver.handle, Some(stop_at), user(&mut at)) }).unwrap();
                let (x, result) = solver.solve_from_zero(&b);
                assert_eq!((result, solver.iterations() as i64), (status::STOPPED, at), "{options}");
                let message = last_error();
                assert!(message.starts_with(&format!("stopped by the monitor: {at} iteration")), "{message}");
                let same = run(&a, &b, &format!("{options} max_iter={at}"));
                assert_eq!(x, same.x, "{options} at {at}");
                unwatch(&solver);
                fresh.assert_of(&solver, &b, &format!("after a stop at {at}, {options}"));
            }
        }
    }
}

/// A panic in the monitor gives one error message, all threads finish, and the handle remains usable.
/// (`environment.rs` tests that nothing is printed.)
#[test]
fn monitor_panics() {
    for a in problems() {
        let b = random_rhs(a.len(), 2);
        for options in BACKENDS {
            let fresh = trace(&handle(&a, options), &b);
            let solver = handle(&a, options);
            for mut at in [0i64, 1, 3] {
                // SAFETY: a live handle, and `at` outlives the monitor.
                outcome(unsafe { rrb_set_monitor(solver.handle, Some(panic_at), user(&mut at)) }).unwrap();
                let mut x = vec![0.0; a.len()];
                let failure = solver.solve(&b, &mut x).unwrap_err();
                failure.expect(status::INTERNAL, &["monitor", "gives up"]);
                assert!(x.iter().all(|v| v.is_finite()));
                unwatch(&solver);
                solver.factorize(&a).expect("factorize");
                fresh.assert_of(&solver, &b, &format!("after a panic at {at}, {options}"));
            }
        }
    }
}

/// A NaN in b is an error, and x is unchanged. An indefinite A with a definite M is a breakdown, and x is unchanged. An
/// indefinite M fails to factorize. After each error, the handle gives the results of a new handle.
#[test]
fn failures_leave_x() {
    for nine in [false, true] {
        let good = random_m_matrix(NX, NY, nine, 3);
        let b = random_rhs(good.len(), 2);
        let guess = random_rhs(good.len(), 3);
        // Positive couplings are compensated in M, which is then diagonal.
        let indefinite = match nine {
            false => Stencil::constant(NX, NY, 1.0, 0.9, 0.9, None),
            true => Stencil::constant(NX, NY, 2.0, 0.3, 0.3, Some((0.9, 0.9))),
        };
        for (backend, norm) in BACKENDS.into_iter().flat_map(|b| ["true2", "preconditioned"].map(|n| (b, n))) {
            let more = &format!("{backend} norm={norm}");
            let fresh = trace(&handle(&good, more), &b);
            let solver = handle(&good, more);
            for bad in [f64::NAN, f64::INFINITY] {
                for (i, j) in [(0, 0), (NX - 1, NY - 1), (NX - 1, 50)] {
                    let mut broken = b.clone();
                    broken[j * NX + i] = bad;
                    let mut x = guess.clone();
                    let failure = solver.solve(&broken, &mut x).unwrap_err();
                    failure.expect(status::NOT_FINITE, &["b ", &format!("({i}, {j})")]);
                    assert!(x == guess, "x is untouched");
                }
            }
            fresh.assert_of(&solver, &b, &format!("after NaN in b, nine {nine} {more}"));

            solver.factorize(&indefinite).expect("M is definite");
            assert!(solver.int(key::INFO_COMPENSATED_COUPLINGS) > 0);
            let mut x = guess.clone();
            solver.solve(&b, &mut x).unwrap_err().expect(status::BREAKDOWN, &["p'Ap", "iteration"]);
            assert!(x == guess, "x is untouched");
            solver.factorize(&good).unwrap();
            fresh.assert_of(&solver, &b, &format!("after a breakdown, nine {nine} {more}"));

            let mut refused = good.clone();
            refused.center.iter_mut().for_each(|c| *c *= 0.5);
            solver.factorize(&refused).unwrap_err().expect(status::MATRIX, &["pivot", "("]);
            let mut x = guess.clone();
            solver.solve(&b, &mut x).unwrap_err().expect(status::STATE, &[]);
            assert!(x == guess, "x is untouched");
            solver.factorize(&good).unwrap();
            fresh.assert_of(&solver, &b, &format!("after a refused matrix, nine {nine} {more}"));
        }
    }
}

/// No values of one call affect the next. Values that overflow next to the border of the arrays leave no infinity or
/// NaN where zeros are expected.
#[test]
fn an_overflow_does_not_affect_the_next_solve() {
    for (nx, ny) in [(70, 51), (130, 91)] {
        for (name, a) in [
            ("five", random_m_matrix(nx, ny, false, 3)),
            ("nine", random_m_matrix(nx, ny, true, 3)),
            ("laplacian", poisson(nx, ny)),
            ("singular", neumann_const(nx, ny)),
        ] {
            let good = random_rhs(a.len(), 1);
            for fusion in ["on", "off"] {
                for threads in [1, 3] {
                    let options = format!("backend=cpu threads={threads} fusion={fusion}");
                    let fresh = Solver::of(&a, &options);
                    let used_threads = if nx * ny >= 8192 { threads } else { 1 };
                    assert_eq!(fresh.int(key::INFO_THREADS), used_threads);
                    let fresh = trace(&fresh, &good);
                    let solver = Solver::of(&a, &options);
                    for (bad, check) in [(1e308, 1), (-1e308, 1), (f64::NAN, 0), (f64::INFINITY, 0)] {
                        for rows in [0..1, ny - 1..ny, 0..ny] {
                            let mut spoilt = good.clone();
                            rows.clone().for_each(|j| spoilt[j * nx + nx - 1] = bad);
                            let what = format!("{name} {nx}x{ny} {options}, {bad:e} in rows {rows:?}");
                            solver.options(&format!("check_input={check}")).unwrap();
                            // Other tests check the status of this solve.
                            let _ = solver.solve(&spoilt, &mut vec![0.0; a.len()]);
                            solver.options("check_input=1").unwrap();
                            fresh.assert_of(&solver, &good, &format!("b with {what}"));
                            solver.options(&format!("check_input={check}")).unwrap();
                            let _ = solver.solve(&good, &mut spoilt.clone());
                            solver.options("check_input=1").unwrap();
                            fresh.assert_of(&solver, &good, &format!("guess with {what}"));
                            // M^-1 and A are applied before any other solve.
                            solver.options(&format!("check_input={check}")).unwrap();
                            let _ = solver.solve(&spoilt, &mut spoilt.clone());
                            let mut z = vec![0.0; a.len()];
                            // SAFETY: a live handle and arrays of its size.
                            let _ = unsafe { rrb_apply(solver.handle, spoilt.as_ptr(), z.as_mut_ptr()) };
                            // SAFETY: as above.
                            let _ = unsafe { rrb_multiply(solver.handle, spoilt.as_ptr(), z.as_mut_ptr()) };
                            solver.options("check_input=1").unwrap();
                            assert!(bits(&solver.multiply(&good)) == fresh.multiplied, "rrb_multiply after {what}");
                            assert!(bits(&solver.apply(&good)) == fresh.applied, "rrb_apply after {what}");
                            fresh.assert_of(&solver, &good, &format!("all after {what}"));
                        }
                    }
                }
            }
        }
    }
}
