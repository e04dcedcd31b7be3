//! Errors with several threads: monitors that stop or panic, breakdowns, bad values, and the state that they leave.
//! Several threads are used only on grids of 8192 nodes and more, so all grids here are that large, and each test
//! checks the number of threads.

#[path = "../common/mod.rs"]
mod common;

use common::problems::{Stencil, neumann_const, poisson, random_m_matrix, random_rhs};
use common::*;
use std::ffi::c_void;
use std::ptr::null_mut;

const NX: usize = 130;
const NY: usize = 91;

/// Creates a factorized handle with three threads.
#[track_caller]
fn team(a: &Stencil, options: &str) -> Solver {
    let solver = Solver::of(a, &format!("backend=cpu threads=3 {options}"));
    assert_eq!(solver.int(key::INFO_THREADS), 3, "the test wants a team");
    solver
}

fn problems() -> [Stencil; 3] {
    [random_m_matrix(NX, NY, false, 3), random_m_matrix(NX, NY, true, 3), neumann_const(NX, NY)]
}

/// All results of a solve from zero, and of one application of M and of A.
#[derive(PartialEq)]
struct Trace {
    status: i32,
    iterations: usize,
    x: Vec<u64>,
    history: Vec<u64>,
    lambda: [u64; 2],
    applied: Vec<u64>,
    multiplied: Vec<u64>,
}

fn try_trace(solver: &Solver, b: &[f64]) -> Result<Trace, Failure> {
    let mut x = vec![0.0; b.len()];
    let status = solver.solve(b, &mut x)?;
    Ok(Trace {
        status,
        iterations: solver.iterations(),
        x: bits(&x),
        history: bits(&solver.history()),
        lambda: [key::INFO_LAMBDA_MIN, key::INFO_LAMBDA_MAX].map(|k| solver.real(k).to_bits()),
        applied: bits(&solver.apply(b)),
        multiplied: bits(&solver.multiply(b)),
    })
}

#[track_caller]
fn trace(solver: &Solver, b: &[f64]) -> Trace {
    try_trace(solver, b).expect("solve")
}

/// Fails the test with a short message, because the arrays are too long to print.
#[track_caller]
fn assert_same(got: &Trace, fresh: &Trace, what: &str) {
    assert_eq!((got.status, got.iterations), (fresh.status, fresh.iterations), "{what}");
    let differ = [
        ("solution", got.x != fresh.x),
        ("history", got.history != fresh.history),
        ("lambda", got.lambda != fresh.lambda),
        ("rrb_apply", got.applied != fresh.applied),
        ("rrb_multiply", got.multiplied != fresh.multiplied),
    ];
    let differ: Vec<&str> = differ.iter().filter(|d| d.1).map(|d| d.0).collect();
    assert!(differ.is_empty(), "not those of a fresh handle: {differ:?}: {what}");
}

/// Checks that the handle gives the results of a new handle.
#[track_caller]
fn assert_as_fresh(solver: &Solver, b: &[f64], fresh: &Trace, what: &str) {
    match try_trace(solver, b) {
        Ok(got) => assert_same(&got, fresh, what),
        Err(failure) => panic!("{}: {what}", failure.sentence),
    }
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
fn monitor_stops_a_team() {
    for a in problems() {
        let b = random_rhs(a.len(), 2);
        for fusion in ["on", "off"] {
            let fusion = format!("fusion={fusion}");
            let fresh = trace(&team(&a, &fusion), &b);
            assert!(fresh.iterations > 3);
            let solver = team(&a, &fusion);
            for mut at in [0i64, 1, 3] {
                // SAFETY: a live handle, and `at` outlives the monitor.
                outcome(unsafe { rrb_set_monitor(solver.handle, Some(stop_at), user(&mut at)) }).unwrap();
                let (x, result) = solver.solve_from_zero(&b);
                assert_eq!((result, solver.iterations() as i64), (status::STOPPED, at), "{fusion}");
                let same = run(&a, &b, &format!("backend=cpu threads=1 {fusion} max_iter={at}"));
                assert_eq!(x, same.x, "{fusion} at {at}");
                unwatch(&solver);
                assert_same(&trace(&solver, &b), &fresh, &format!("after a stop at {at}, {fusion}"));
            }
        }
    }
}

/// A panic in the monitor gives one error message, all threads finish, and the handle remains usable.
#[test]
fn monitor_panics_in_a_team() {
    for a in problems() {
        let b = random_rhs(a.len(), 2);
        for fusion in ["on", "off"] {
            let fusion = format!("fusion={fusion}");
            let fresh = trace(&team(&a, &fusion), &b);
            let solver = team(&a, &fusion);
            for mut at in [0i64, 1, 3] {
                // SAFETY: a live handle, and `at` outlives the monitor.
                outcome(unsafe { rrb_set_monitor(solver.handle, Some(panic_at), user(&mut at)) }).unwrap();
                let mut x = vec![0.0; a.len()];
                let failure = solver.solve(&b, &mut x).unwrap_err();
                failure.expect(status::INTERNAL, &["monitor", "gives up"]);
                assert!(x.iter().all(|v| v.is_finite()));
                unwatch(&solver);
                solver.factorize(&a).expect("factorize");
                assert_same(&trace(&solver, &b), &fresh, &format!("after a panic at {at}, {fusion}"));
            }
        }
    }
}

/// Alternating closed and open basins behind walls, and land in rows of its own: bitwise identical to one thread, and
/// each basin is solved as if it were alone.
#[test]
fn a_team_on_disconnected_basins() {
    for nine in [false, true] {
        let mut a = random_m_matrix(NX, NY, nine, 6);
        let wall = |i: usize, j: usize| [31, 64, 65, 99].contains(&i) || (j == 44 && i < 64);
        for p in (0..a.len()).filter(|&p| wall(p % NX, p / NX)) {
            a.decouple(p % NX, p / NX, 1.0);
        }
        // Six basins by column and row; those with even numbers are closed.
        let basin = |p: usize| {
            let (i, j) = (p % NX, p / NX);
            let column = [31, 65, 99].iter().filter(|&&w| i > w).count();
            if column < 2 { 2 * column + usize::from(j > 44) } else { 2 + column }
        };
        let excess = [0.0, 0.3, 0.0, 0.3, 0.0, 0.3];
        a.set_row_sums(|p| if wall(p % NX, p / NX) { 1.0 } else { excess[basin(p)] });
        let b = random_rhs(a.len(), 4);
        for more in ["", "levels=4", "fusion=off lumping=m2u", "norm=preconditioned grids=1"] {
            let solver = team(&a, &format!("{more} rel_tol=1e-9"));
            assert_eq!((solver.int(key::INFO_COMPONENTS), solver.int(key::INFO_SINGULAR_COMPONENTS)), (6, 3), "{more}");
            let many = trace(&solver, &b);
            assert_eq!(many.status, status::OK, "{more}");
            let one = Solver::of(&a, &format!("backend=cpu threads=1 {more} rel_tol=1e-9"));
            assert_same(&many, &trace(&one, &b), &format!("nine {nine} {more}"));

            // Each closed basin keeps the mean of the guess, and b is projected there.
            let mut x = random_rhs(a.len(), 8);
            let wet = |p: usize| !wall(p % NX, p / NX);
            let mean = |v: &[f64], which: usize| {
                let of: Vec<f64> = (0..v.len()).filter(|&p| wet(p) && basin(p) == which).map(|p| v[p]).collect();
                of.iter().sum::<f64>() / of.len() as f64
            };
            let before = [0, 2, 4].map(|k| mean(&x, k));
            let means: Vec<f64> = (0..6).map(|k| if excess[k] > 0.0 { 0.0 } else { mean(&b, k) }).collect();
            let projected: Vec<f64> =
                b.iter().enumerate().map(|(p, v)| if wet(p) { v - means[basin(p)] } else { *v }).collect();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
            for (k, mean_before) in [0, 2, 4].into_iter().zip(before) {
                // Sums of about 1000 values.
                let shift = (mean(&x, k) - mean_before).abs();
                assert!(shift <= 1e-11 * max_abs(&x), "{more}: mean of basin {k} moved by {shift:e}");
            }
            if !more.contains("preconditioned") {
                let residual = norm2(&a.residual(&projected, &x)) / norm2(&projected);
                // Rounding of b - A x, where x is up to about 1000 times b.
                assert!(residual <= 1.1e-9, "{more}: {residual:e}");
            }
        }
    }
}

/// A NaN in b is an error, and x is unchanged. An indefinite A with a definite M is a breakdown, and x is unchanged. An
/// indefinite M fails to factorize. After each error, the handle gives the results of a new handle.
#[test]
fn failures_of_a_team_leave_x() {
    for nine in [false, true] {
        let good = random_m_matrix(NX, NY, nine, 3);
        let b = random_rhs(good.len(), 2);
        let guess = random_rhs(good.len(), 3);
        // Positive couplings are compensated in M, which is then diagonal.
        let indefinite = match nine {
            false => Stencil::constant(NX, NY, 1.0, 0.9, 0.9, None),
            true => Stencil::constant(NX, NY, 2.0, 0.3, 0.3, Some((0.9, 0.9))),
        };
        for more in ["fusion=on", "fusion=off", "norm=preconditioned"] {
            let fresh = trace(&team(&good, more), &b);
            let solver = team(&good, more);
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
            assert_same(&trace(&solver, &b), &fresh, &format!("after NaN in b, nine {nine} {more}"));

            solver.factorize(&indefinite).expect("M is definite");
            assert_eq!(solver.int(key::INFO_THREADS), 3);
            let mut x = guess.clone();
            solver.solve(&b, &mut x).unwrap_err().expect(status::BREAKDOWN, &["p'Ap", "iteration"]);
            assert!(x == guess, "x is untouched");
            solver.factorize(&good).unwrap();
            assert_same(&trace(&solver, &b), &fresh, &format!("after a breakdown, nine {nine} {more}"));

            let mut refused = good.clone();
            refused.center.iter_mut().for_each(|c| *c *= 0.5);
            solver.factorize(&refused).unwrap_err().expect(status::MATRIX, &["pivot", "("]);
            let mut x = guess.clone();
            solver.solve(&b, &mut x).unwrap_err().expect(status::STATE, &[]);
            assert!(x == guess, "x is untouched");
            solver.factorize(&good).unwrap();
            assert_same(&trace(&solver, &b), &fresh, &format!("after a refused matrix, nine {nine} {more}"));
        }
    }
}

/// No values of one call affect the next. Values that overflow next to the border of the arrays leave no infinity or
/// NaN where zeros are expected.
#[test]
fn nothing_stays_of_a_solve_that_overflowed() {
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
                    let members = if nx * ny >= 8192 { threads } else { 1 };
                    assert_eq!(fresh.int(key::INFO_THREADS), members);
                    let fresh = trace(&fresh, &good);
                    let solver = Solver::of(&a, &options);
                    for (bad, check) in [(1e308, 1), (-1e308, 1), (f64::NAN, 0), (f64::INFINITY, 0)] {
                        for rows in [0..1, ny - 1..ny, 0..ny] {
                            let mut spoilt = good.clone();
                            rows.clone().for_each(|j| spoilt[j * nx + nx - 1] = bad);
                            let what = format!("{name} {nx}x{ny} {options}, {bad:e} in rows {rows:?}");
                            solver.options(&format!("check_input={check}")).unwrap();
                            // Other tests check whether this fails.
                            let _ = solver.solve(&spoilt, &mut vec![0.0; a.len()]);
                            solver.options("check_input=1").unwrap();
                            assert_as_fresh(&solver, &good, &fresh, &format!("b with {what}"));
                            solver.options(&format!("check_input={check}")).unwrap();
                            let _ = solver.solve(&good, &mut spoilt.clone());
                            solver.options("check_input=1").unwrap();
                            assert_as_fresh(&solver, &good, &fresh, &format!("guess with {what}"));
                            // Application and product, before any other solve.
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
                            assert_as_fresh(&solver, &good, &fresh, &format!("all after {what}"));
                        }
                    }
                }
            }
        }
    }
}

/// Every format with every cycle: solves and M^-1 are bitwise identical to one thread. Recursions are on grids that
/// threads share (95 x 90 nodes), and on coarser grids that only the first thread processes.
#[test]
fn formats_and_cycles_give_the_same_bits() {
    let (nx, ny) = (190, 181);
    for a in [random_m_matrix(nx, ny, false, 3), random_m_matrix(nx, ny, true, 3), neumann_const(nx, ny)] {
        let b = random_rhs(a.len(), 2);
        for (precision, cycle) in formats() {
            for more in ["cycle_spacing=2", "fusion=off cycle_spacing=2 cycle_steps=3", "levels=9 cycle_spacing=4"] {
                let options = format!("precision={precision} cycle={cycle} {more}");
                let one = trace(&Solver::of(&a, &format!("backend=cpu threads=1 {options}")), &b);
                assert_eq!(one.status, status::OK, "{options}");
                for threads in [2, 3, 5, 7] {
                    let many = Solver::of(&a, &format!("backend=cpu threads={threads} {options}"));
                    assert_eq!(many.int(key::INFO_THREADS), threads);
                    assert_as_fresh(&many, &b, &one, &format!("{options} threads={threads}"));
                }
            }
        }
    }
}

/// Many repetitions, because a missing barrier shows only rarely. The threads share the grid of the recursion (127^2
/// nodes), and there are more threads than cores.
#[test]
fn shared_recursions_many_times() {
    let a = poisson(511, 511);
    let b = random_rhs(a.len(), 2);
    for (precision, cycle) in [("bf16", "amli"), ("bf16", "k"), ("f32", "amli"), ("f64", "k")] {
        let options = format!("backend=cpu precision={precision} cycle={cycle} cycle_spacing=4");
        let one = Solver::of(&a, &format!("{options} threads=1"));
        let (x, z) = (bits(&one.solve_from_zero(&b).0), bits(&one.apply(&b)));
        for threads in [2, 3, 7] {
            let many = Solver::of(&a, &format!("{options} threads={threads}"));
            for round in 0..10 {
                assert!(bits(&many.apply(&b)) == z, "M^-1 {options} threads={threads} round {round}");
                assert!(bits(&many.solve_from_zero(&b).0) == x, "{options} threads={threads} round {round}");
                if round % 5 == 4 {
                    many.factorize(&a).unwrap();
                }
            }
        }
    }
}
