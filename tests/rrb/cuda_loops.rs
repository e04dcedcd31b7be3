//! Consecutive solves on a handle, and loops of all lengths. State that the device keeps from solve to solve must not
//! affect results.

use crate::common::problems::*;
use crate::common::*;

/// State of one solve must not affect the next: neither a satisfied test nor NaN.
pub fn nothing_is_left_of_the_last_solve() {
    // The handle uses fused stages, and then unfused steps in the same arrays.
    let (nx, ny) = (259, 241);
    let b = random_rhs(nx * ny, 17);
    let (regular, singular) = (random_m_matrix(nx, ny, false, 3), neumann_const(nx, ny));
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    let compatible: Vec<f64> = b.iter().map(|v| v - mean).collect();
    let options = "backend=cuda precision=f64 cycle=v levels=6 rel_tol=1e-4";
    let device = Solver::of(&regular, options);
    assert_eq!(device.solve_from_zero(&b).1, status::OK);
    device.factorize(&singular).unwrap();
    let (x, result) = device.solve_from_zero(&compatible);
    assert_eq!(result, status::OK);
    let other = Solver::of(&singular, options);
    assert_eq!(other.solve_from_zero(&compatible), (x, status::OK));

    // On this grid, tiles extend beyond the nodes in both directions.
    let (nx, ny) = (131, 67);
    let (a, b, guess) = (random_m_matrix(nx, ny, false, 3), random_rhs(nx * ny, 17), random_rhs(nx * ny, 5));
    let device = Solver::of(&a, "backend=cuda rel_tol=1e-8");
    let from = |x: &[f64]| {
        let mut x = x.to_vec();
        device.solve(&b, &mut x).map(|status| (status, x))
    };
    let first = from(&guess).unwrap();
    assert_eq!(first.0, status::OK);
    for _ in 0..2 {
        from(&vec![f64::NAN; nx * ny]).unwrap_err().expect(status::NOT_FINITE, &["x"]);
        assert_eq!(from(&guess).unwrap(), first);
    }
}

/// A handle launches the recorded loop that suits its last solves; the loops have bodies of different lengths. The
/// results are bitwise identical to those of a new handle, whose first solve uses another loop. If the first small grid
/// is too large for one kernel, x is advanced concurrently with the small grids; an error there would violate the test.
fn loops_of_lengths(nx: usize, ny: usize, mass: f64, options: &str) {
    let mut a = poisson(nx, ny);
    a.center.iter_mut().for_each(|center| *center += mass);
    let b = random_rhs(a.len(), 7);
    let old = Solver::of(&a, &format!("backend=cuda {options}"));
    let mut counts = Vec::new();
    for rel_tol in ["1e-2", "1e-8", "1e-8", "1e-8", "1e-8", "1e-3"] {
        let tolerance = format!("rel_tol={rel_tol}");
        old.options(&tolerance).unwrap();
        let found = old.solve_from_zero(&b);
        let new = Solver::of(&a, &format!("backend=cuda {options} {tolerance}"));
        assert!(found == new.solve_from_zero(&b) && found.1 == status::OK, "{nx}x{ny} {options} {tolerance}");
        assert_eq!(old.iterations(), new.iterations(), "{nx}x{ny} {options} {tolerance}");
        counts.push(old.iterations());
        // Convergence refers to the recomputed |b - A x|, which the test computes again, up to its rounding.
        let residual = norm2(&a.residual(&b, &found.0)) / norm2(&b);
        assert!(residual <= rel_tol.parse::<f64>().unwrap() * (1.0 + 1e-3), "{residual:e}: {options} {tolerance}");
    }
    // Fewer iterations than the longest body, and more than the shortest; otherwise nothing was tested.
    assert!(counts[0] < 7 && counts[1] > counts[0] && counts[1] > 2, "{nx}x{ny} {options}: {counts:?}");
}

/// x is advanced by two steps at a time, except for the last: however and whenever the loop ends, x contains all steps.
/// The unfused form, which advances x step by step, has the same iterates up to rounding.
fn x_has_all_steps(nx: usize, ny: usize, levels: usize) {
    let a = poisson(nx, ny);
    let b = random_rhs(a.len(), 9);
    for norm in ["true2", "preconditioned"] {
        let [fused, plain] = ["on", "off"].map(|fusion| {
            let shape = format!("precision=f64 cycle=v levels={levels} norm={norm} fusion={fusion}");
            Solver::of(&a, &format!("backend=cuda {shape} rel_tol=1e-15 max_iter=9"))
        });
        plain.solve_from_zero(&b);
        let history = plain.history();
        let compare = |k: usize, end: &str, status: i32| {
            let [(x, found), (expected, on_plain)] = [&fused, &plain].map(|solver| {
                solver.options(end).unwrap();
                solver.solve_from_zero(&b)
            });
            assert_eq!((found, on_plain), (status, status), "{nx}x{ny} {norm} {k} {end}");
            assert_eq!((fused.iterations(), plain.iterations()), (k, k), "{nx}x{ny} {norm} {k} {end}");
            let largest = expected.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
            let off = x.iter().zip(&expected).fold(0.0_f64, |m, (v, w)| m.max((v - w).abs()));
            // Rounding of nine iterations; a step changes x by at least 1e-3.
            assert!(off <= 1e-10 * largest, "{nx}x{ny} {norm} {k} {end}: {off:e} of {largest:e}");
        };
        for k in 1..=8 {
            compare(k, &format!("rel_tol=1e-15 max_iter={k}"), status::NOT_CONVERGED);
            // The comparison uses iterations whose residual is smaller than all previous ones.
            let before = history[..k].iter().copied().fold(f64::INFINITY, f64::min);
            if history[k] < before {
                compare(k, &format!("rel_tol={:e} max_iter=50", (before * history[k]).sqrt()), status::OK);
            }
        }
    }
}

/// The reported residual is the tested norm of the returned x, after convergence, at the iteration limit, and after a
/// restart. (A guess 1e14 times too large causes rounding errors that the recurred residual does not contain.) The
/// better of two iterates is returned.
pub fn reported_residuals_are_true() {
    let mut misses = 0;
    let far = random_m_matrix(33, 29, false, 5);
    // The last tolerance may be below the rounding of x.
    let cases = [(far, 1e-6), (inclusions(48, 1e6), 1e-8), (checker8(34, 1e3), 1e-14)];
    for (a, rel_tol) in cases {
        let b = random_rhs(a.len(), 2);
        for (precision, cycle) in [("f64", "v"), ("bf16", "amli"), ("bf16", "v")] {
            for norm in ["true2", "preconditioned"] {
                let options = format!("precision={precision} cycle={cycle} levels=8 norm={norm} rel_tol={rel_tol:e}");
                let solver = Solver::of(&a, &format!("backend=cuda {options}"));
                for size in [0.0, 1.0, 1e14] {
                    let guess: Vec<f64> = random_rhs(a.len(), 3).iter().map(|v| size * v).collect();
                    let check = |max_iter: usize| {
                        solver.options(&format!("max_iter={max_iter}")).unwrap();
                        let mut x = guess.clone();
                        let status = solver.solve(&b, &mut x).unwrap();
                        let reported = solver.real(key::INFO_FINAL_RESIDUAL);
                        let (exact, rounding) = exact_norm(&solver, &a, &b, &x, norm == "preconditioned");
                        let what = format!(
                            "{options} guess {size:e} max_iter={max_iter}: reported {reported:e}, is {exact:e}"
                        );
                        assert!((reported - exact).abs() <= rounding, "{what}");
                        assert_eq!(status == status::OK, reported <= rel_tol, "{what}");
                        (status, solver.history(), reported)
                    };
                    let (status, history, _) = check(2000);
                    assert!(status == status::OK || rel_tol < 1e-12, "{options} guess {size:e}");
                    let last = history.len() - 1;
                    let met = history.iter().position(|&residual| residual <= rel_tol).unwrap_or(last);
                    misses += usize::from(met < last);
                    check(1);
                    let missed = check(met).2;
                    assert!((met + 1..last.min(met + 4)).all(|cut| check(cut).2 <= missed), "{options} guess {size:e}");
                }
            }
        }
    }
    assert!(misses > 2, "{misses} restarts: nothing was tried");
}

/// Grids for an emulated device, which processes eight tiles in one kernel.
pub fn loops_of_several_lengths() {
    x_has_all_steps(150, 131, 6);
    loops_of_lengths(150, 131, 0.0, "precision=f64 cycle=v levels=6");
    // The levels end early.
    loops_of_lengths(150, 131, 1.0, "precision=f64");
}

/// Grids for a device that processes more than a hundred tiles in one kernel.
pub fn loops_on_larger_grids() {
    x_has_all_steps(420, 350, 8);
    loops_of_lengths(420, 350, 0.0, "precision=f64 cycle=v levels=8");
    loops_of_lengths(420, 350, 0.0, "precision=bf16 cycle=amli levels=8");
    loops_of_lengths(420, 350, 1.0, "");
}

/// A handle predicts the start of a solve from the last one (kernels/rrb/solve.cuh). Whatever it predicts, results are
/// bitwise identical to those of a new handle, and errors equal those of any backend.
pub fn one_solve_after_another() {
    solves_after_another("precision=f64 cycle=v levels=4");
    solves_after_another("precision=bf16 cycle=v levels=4");
}

fn solves_after_another(options: &str) {
    let (nx, ny) = (37, 42);
    let a = random_m_matrix(nx, ny, false, 11);
    let b = random_rhs(a.len(), 11);
    let times = |v: &[f64], factor: f64| v.iter().map(|v| factor * v).collect::<Vec<_>>();
    let with = |v: &[f64], at: usize, value: f64| {
        let mut v = v.to_vec();
        v[at] = value;
        v
    };
    let zero = vec![0.0; a.len()];
    let guess = random_rhs(a.len(), 12);
    let (first, last) = (5, a.len() - 1);
    let cases = [
        ("plain", b.clone(), zero.clone(), ""),
        ("again", b.clone(), zero.clone(), ""),
        ("twice as large", times(&b, 2.5), zero.clone(), ""),
        ("as large again", b.clone(), zero.clone(), ""),
        ("an initial guess", b.clone(), guess.clone(), ""),
        ("a guess again", times(&b, 1.1), guess.clone(), ""),
        ("no guess", times(&b, 1.1), zero.clone(), ""),
        ("large", times(&b, 1e250), zero.clone(), ""),
        ("small", times(&b, 1e-250), zero.clone(), ""),
        ("small after it", times(&b, 1e-250), times(&guess, 1e-250), ""),
        ("NaN in b", with(&b, last, f64::NAN), zero.clone(), ""),
        ("after NaN", b.clone(), zero.clone(), ""),
        ("infinity in x", b.clone(), with(&zero, first, f64::INFINITY), ""),
        ("both", with(&b, first, f64::NAN), with(&guess, first, f64::NAN), ""),
        ("unchecked", with(&b, first, f64::NAN), zero.clone(), "check_input=0"),
        ("zero", zero.clone(), guess.clone(), ""),
        ("far", b.clone(), times(&guess, 1e200), ""),
        ("after it", b.clone(), guess.clone(), ""),
        ("far in single precision", b.clone(), times(&guess, 1e30), ""),
        ("in the preconditioned norm too", b.clone(), times(&guess, 1e30), "norm=preconditioned"),
        ("for a few iterations", b.clone(), times(&guess, 1e30), "norm=preconditioned abs_tol=1e-30 max_iter=3"),
        ("no iterations", b.clone(), guess.clone(), "max_iter=0"),
        ("few", b.clone(), guess.clone(), "max_iter=4"),
        ("none needed", b.clone(), guess.clone(), "rel_tol=0.99"),
        ("absolute", b.clone(), zero.clone(), "abs_tol=1e-3 rel_tol=1e-16"),
        ("too much", b.clone(), zero.clone(), "rel_tol=1e-17 max_iter=300"),
        ("the preconditioned norm", b.clone(), guess.clone(), "norm=preconditioned"),
        ("and from zero", b.clone(), zero.clone(), "norm=preconditioned"),
        ("initial", b.clone(), guess, "reference=initial"),
    ];
    let old = Solver::of(&a, &format!("backend=cuda {options}"));
    for (name, b, x, more) in cases {
        let solve = |solver: &Solver| {
            let usual = "rel_tol=1e-9 max_iter=100 norm=true2 reference=rhs abs_tol=0 check_input=1";
            solver.options(&format!("{usual} {more}")).unwrap();
            let mut x = x.clone();
            let outcome = solver.solve(&b, &mut x).map_err(|f| (f.status, f.message));
            (x.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), outcome, solver.history())
        };
        let [new, oracle] =
            ["cuda", "reference"].map(|backend| Solver::of(&a, &format!("backend={backend} {options}")));
        let (expected, found, on_host) = (solve(&new), solve(&old), solve(&oracle));
        let bits = |h: &[f64]| h.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        // The first solve is mispredicted, the second is predicted; then the loop begins before the host knows the
        // start.
        for found in [&found, &solve(&old)] {
            assert!(expected.0 == found.0 && expected.1 == found.1, "{name}: {:?} {:?}", expected.1, found.1);
            assert_eq!(bits(&expected.2), bits(&found.2), "{name}");
        }
        assert_eq!(found.1, on_host.1, "{name}");
        assert!(found.2.len().abs_diff(on_host.2.len()) <= 1, "{name}");
        if found.1.is_err() {
            assert!(found.0 == on_host.0, "{name}: the output stays as it was");
        }
    }
}

/// Solves with a guess compared with the CPU: reports about the guess, first iterates, and counts. The first solve does
/// not predict a guess, the next one does. The values of the guess on eliminated nodes have no effect, however large.
pub fn from_a_guess() {
    for (nx, ny) in [(1, 64), (64, 1), (5, 5), (17, 17), (64, 65), (131, 67)] {
        let mut land = random_m_matrix(nx, ny, false, 6);
        (0..nx * ny).filter(|p| p % 7 == 3 || (p / 3) % 11 == 0).for_each(|p| land.decouple(p % nx, p / nx, 1.0));
        for (name, a) in [("all water", random_m_matrix(nx, ny, false, 5)), ("land", land)] {
            let (b, guess) = (random_rhs(nx * ny, 7), random_rhs(nx * ny, 8));
            let from = |solver: &Solver, guess: &[f64]| {
                let mut x = guess.to_vec();
                let status = solver.solve(&b, &mut x).unwrap();
                (x, status, solver.history())
            };
            // First iterates up to the rounding of the sweeps, and of estimated bounds.
            for (format, allowed) in [
                ("precision=f64 cycle=v", 1e-12),
                ("precision=bf16 cycle=v", 2e-5),
                ("precision=bf16 cycle=amli cycle_spacing=2", 1e-3),
            ] {
                // An emulated device needs seconds for some of these.
                let (large, short) = (nx * ny > 1000, !format.contains("f64"));
                if large && (name != "land" || short && (nx > 64 || format != "precision=bf16 cycle=v")) {
                    continue;
                }
                let what = format!("{name} {nx}x{ny} {format}");
                let tolerance = 1e-9;
                let options = |backend: &str, levels: i64| {
                    format!("backend={backend} {format} levels={levels} threads=1 rel_tol={tolerance:e}")
                };
                let device = Solver::of(&a, &options("cuda", 6));
                let levels = device.int(key::INFO_LEVELS);
                let host = Solver::of(&a, &options("cpu", levels));
                assert_eq!(device.int(key::INFO_PRECISION), host.int(key::INFO_PRECISION), "{what}");
                device.solve_from_zero(&b);
                let expected = from(&host, &guess);
                for turn in 0..2 {
                    let found = from(&device, &guess);
                    assert_eq!((found.1, expected.1), (status::OK, status::OK), "{what}");
                    let [initial, of_host] = [&device, &host].map(|solver| solver.real(key::INFO_INITIAL_RESIDUAL));
                    assert!((initial - of_host).abs() <= 1e-12 * of_host, "{what} {turn}: {initial:e} {of_host:e}");
                    if format.contains("f64") {
                        assert!(count_is_right(&found.2, expected.2.len() - 1, tolerance), "{what}: {:?}", found.2);
                    } else {
                        // On hard problems, counts with sweeps in single precision depend on rounding
                        // (tests/rrb/formats.rs).
                        let most = 1 + expected.2.len() / 10;
                        assert!(found.2.len().abs_diff(expected.2.len()) <= most, "{what}: {:?}", found.2);
                    }
                    // The residuals of both, times a condition number of a few thousand.
                    assert!(max_difference(&found.0, &expected.0) <= 1e-5 * max_abs(&expected.0), "{what}");
                }
                let first = [&device, &host].map(|solver| {
                    solver.options("max_iter=2 rel_tol=1e-15").unwrap();
                    let (x, ..) = from(solver, &guess);
                    solver.options(&format!("max_iter=1000 rel_tol={tolerance:e}")).unwrap();
                    x
                });
                let error = max_difference(&first[0], &first[1]) / max_abs(&first[1]);
                assert!(error <= allowed, "{error:e} after 2: {what}");
                let expected = from(&device, &guess);
                let same = [0, 1].map(|colour| {
                    let mut other = guess.clone();
                    (0..other.len()).filter(|p| (p % nx + p / nx) % 2 == colour).for_each(|p| other[p] *= 1e9);
                    let found = from(&device, &other);
                    found.0 == expected.0 && found.2[1..] == expected.2[1..]
                });
                assert!(same[0] || same[1] || levels == 0, "{what}: values of the guess that are not needed count");
            }
        }
    }
}
