//! Special cases of the contract in which two rules apply.

use crate::common;
use common::problems::{Stencil, checker8, neumann_const, poisson, random_m_matrix, random_rhs, u, without_mean};
use common::*;
use std::ffi::c_void;

unsafe extern "C-unwind" fn stop_when_small(user: *mut c_void, _: i64, relative_residual: f64) -> i32 {
    // SAFETY: the test passes a counter that outlives the solve.
    let calls = unsafe { &mut *user.cast::<i64>() };
    let small = relative_residual <= 1e-15;
    *calls += i64::from(small);
    i32::from(small)
}

/// A stop has priority if the recurred residual satisfies the test in the same iteration and the recomputed residual
/// does not.
#[test]
fn a_stop_is_never_overruled_by_a_restart() {
    for tolerance in ["1e-15", "1e-17", "1e-20"] {
        let a = poisson(40, 40);
        let solver = Solver::of(&a, &format!("rel_tol={tolerance}"));
        let mut asked = 0i64;
        // SAFETY: a live handle; the counter outlives the solve.
        outcome(unsafe { rrb_set_monitor(solver.handle, Some(stop_when_small), (&raw mut asked).cast()) }).unwrap();
        let result = solver.solve(&random_rhs(a.len(), 1), &mut vec![0.0; a.len()]).unwrap();
        assert_eq!(asked, 1, "{tolerance}: no iteration after the stop");
        assert_eq!(result, status::STOPPED, "{tolerance}");
    }
}

/// On a few singular nodes, only rounding errors remain for CG, in both norms.
#[test]
fn tiny_singular_systems_in_the_preconditioned_norm() {
    for backend in ["backend=cpu", "backend=reference"] {
        for (nx, ny) in [(2, 1), (1, 2), (3, 1), (1, 5), (2, 2), (3, 3)] {
            let a = neumann_const(nx, ny);
            let solver = Solver::of(&a, &format!("{backend} norm=preconditioned reference=initial"));
            for seed in 0..100 {
                let mut x = vec![0.0; a.len()];
                let b = random_rhs(a.len(), seed);
                assert_eq!(solver.solve(&b, &mut x), Ok(status::OK), "{backend} {nx} x {ny} {seed}");
                let mean = b.iter().sum::<f64>() / b.len() as f64;
                let ax = a.multiply(&x);
                // The tolerance 1e-6 in the other norm; matrices of this size have condition numbers below 20.
                assert!(
                    ax.iter().zip(&b).all(|(ax, b)| (ax - (b - mean)).abs() < 1e-5),
                    "{backend} {nx} x {ny} {seed}"
                );
            }
        }
    }
}

/// S1 is computed from the caller's matrix with rounding errors. Contrasts of 1e8 and more amplify them to a tolerance
/// of 1e-6.
#[test]
fn success_is_what_the_callers_matrix_says() {
    let mut met = 0;
    for contrast in [1e8, 3e8, 1e9, 4e9] {
        for n in [33, 65, 101] {
            let a = checker8(n, contrast);
            for options in ["", "precision=f64 cycle=v", "precision=f64 cycle=v levels=4", "backend=reference"] {
                let b = random_rhs(a.len(), 3);
                let mut x = vec![0.0; a.len()];
                let solver = Solver::of(&a, &format!("rel_tol=1e-6 {options}"));
                let result = solver.solve(&b, &mut x).unwrap();
                let reached = norm2(&a.exact_residual(&b, &x)) / norm2(&b);
                let reported = solver.real(key::INFO_FINAL_RESIDUAL);
                let what = format!("{contrast:e} {n} {options}: {reached:e}, reported {reported:e}");
                // The reported residual is computed in double precision: ten roundings of |A| |x|, at most 8 |a| |x| /
                // |b| here.
                let largest = a.center.iter().zip(&x).map(|(c, x)| (c * x).abs()).fold(0.0, f64::max);
                let rounding = 80.0 * f64::EPSILON * largest * (a.len() as f64).sqrt() / norm2(&b);
                assert!((reached - reported).abs() <= rounding + 1e-9 * reported, "{what}, rounding {rounding:e}");
                assert_eq!(result == status::OK, reported <= 1e-6, "{what}");
                met += i32::from(result == status::OK);
            }
        }
    }
    assert!(met > 0);
}

/// A closed basin with random couplings over six decades.
fn closed(nx: usize, ny: usize) -> Stencil {
    let mut a = neumann_const(nx, ny);
    let factor = |p: usize, s: u32| 10f64.powf(6.0 * u((p % nx) as u32, (p / nx) as u32, s));
    a.east.iter_mut().enumerate().for_each(|(p, v)| *v *= factor(p, 1));
    a.north.iter_mut().enumerate().for_each(|(p, v)| *v *= factor(p, 2));
    a.set_row_sums(|_| 0.0);
    a
}

/// On a closed basin, rounding leaves a constant part in r = b - A x. When the remaining part has vanished, r'M^-1 r
/// may have any sign. This does not mean an indefinite matrix: the last iterate or a better one is returned, with its
/// true residual.
#[test]
fn what_rounding_allows_is_returned() {
    for (nx, ny) in [(2, 300), (20, 15)] {
        let a = closed(nx, ny);
        let b = without_mean(random_rhs(a.len(), 6));
        let least = norm2(&b) * 1e-7;
        for backend in ["backend=cpu threads=1", "backend=cpu threads=1 fusion=off", "backend=reference"] {
            for precision in PRECISIONS {
                for options in ["norm=true2", "norm=preconditioned", "norm=true2 max_iter=400"] {
                    let what = format!("{nx} x {ny} {backend} {precision} {options}");
                    let solver = Solver::of(&a, &format!("max_iter=2000 precision={precision} {backend} {options}"));
                    let mut x = vec![0.0; a.len()];
                    for tolerance in ["1e-12", "1e-30"] {
                        solver.options(&format!("rel_tol={tolerance}")).unwrap();
                        // The second solve starts from the x of the first.
                        let before = norm2(&a.residual(&b, &x));
                        let result = solver.solve(&b, &mut x).unwrap_or_else(|f| panic!("{what}: {}", f.message));
                        let reported = solver.real(key::INFO_FINAL_RESIDUAL);
                        assert_eq!(
                            result == status::OK,
                            reported <= tolerance.parse().unwrap(),
                            "{what}: reported {reported:e}"
                        );
                        let reached = norm2(&a.residual(&b, &x));
                        assert!(reached <= least.max(10.0 * before.min(least)), "{what}: {reached:e} after {before:e}");
                        if options.contains("true2") {
                            let (exact, allowed) = (norm2(&a.exact_residual(&b, &x)), reported * norm2(&b));
                            // Bound of the rounding errors of the rows, and of a sum of `a.len()` squares.
                            let noise = 4.0 * f64::EPSILON * norm2(&b) + a.len() as f64 * f64::EPSILON * allowed;
                            assert!(exact <= allowed + noise, "{what}: {exact:e}, reported {reported:e}");
                        }
                    }
                }
            }
        }
    }
}

/// A tolerance below the rounding level is given up when further iterations would change nothing, also on closed
/// basins. The limit is the cost of 1e-12, doubled, plus a few iterations.
#[test]
fn below_rounding_ends_soon() {
    for (name, a) in [("closed", neumann_const(130, 130)), ("open", poisson(130, 130))] {
        let b = without_mean(random_rhs(a.len(), 2));
        for precision in PRECISIONS {
            let solver = Solver::of(&a, &format!("backend=cpu threads=1 precision={precision} max_iter=2000"));
            let count = |tolerance: &str| {
                solver.options(&format!("rel_tol={tolerance}")).unwrap();
                let result = solver.solve(&b, &mut vec![0.0; a.len()]).unwrap();
                (result, solver.int(key::INFO_ITERATIONS))
            };
            let (reached, most) = count("1e-12");
            assert_eq!(reached, status::OK, "{name} {precision}");
            for tolerance in ["1e-20", "1e-30"] {
                let (result, iterations) = count(tolerance);
                assert_eq!(result, status::NOT_CONVERGED, "{name} {precision}");
                // The iterations to 1e-12 are two thirds of those to 1e-18. A restart adds the iterations for three
                // digits.
                assert!(iterations <= 2 * most + 5, "{name} {precision} {tolerance}: {iterations}, {most} to 1e-12");
            }
        }
    }
}

/// A guess that is exact up to rounding is no success if the tolerance is smaller.
#[test]
fn an_exact_guess_is_no_false_success() {
    let a = neumann_const(20, 14);
    let y = random_rhs(280, 1);
    let b = a.multiply(&y);
    for backend in ["backend=cpu", "backend=reference"] {
        let solver = Solver::of(&a, &format!("{backend} rel_tol=1e-30"));
        let mut x = y.clone();
        let result = solver.solve(&b, &mut x);
        let reported = solver.real(key::INFO_FINAL_RESIDUAL);
        assert_eq!(result == Ok(status::OK), reported <= 1e-30, "{backend}: {result:?}, reported {reported:e}");
    }
}

/// Fields that a deep recursion does not resolve: AMLI needs ten times as many iterations as V with its default levels.
#[test]
fn auto_estimates_every_recursion() {
    let a = checker8(201, 1e6);
    let b = random_rhs(a.len(), 5);
    let count = |options: &str| {
        let solver = Solver::of(&a, options);
        assert_eq!(solver.solve(&b, &mut vec![0.0; a.len()]), Ok(status::OK), "{options}");
        (solver.int(key::INFO_ITERATIONS), solver.int(key::INFO_LEVELS))
    };
    let (auto, v, amli) = (count(""), count("cycle=v"), count("cycle=amli"));
    assert_eq!(auto, v);
    assert!(amli.0 > 2 * v.0, "{amli:?} {v:?}");
}

/// On a closed basin, a guess whose residual is below the rounding level is accepted, also in the preconditioned norm
/// relative to the initial residual. Each solve starts from the x of the previous one.
#[test]
fn a_guess_below_the_rounding_level_is_accepted() {
    let a = neumann_const(16, 28);
    let b = without_mean(random_rhs(a.len(), 3));
    for precision in ["f64", "f32", "bf16"] {
        for cycle in ["v", "amli"] {
            let what = format!("precision={precision} cycle={cycle}");
            let solver = Solver::of(&a, &format!("{what} norm=preconditioned reference=initial"));
            let mut x = vec![0.0; a.len()];
            // Each solve must reduce the previous residual by 1e-6.
            let results: Vec<_> =
                (0..8).map(|_| (solver.solve(&b, &mut x).unwrap(), solver.int(key::INFO_STOP_REASON))).collect();
            // Stop reason 2: the initial guess.
            assert_eq!(results[4..], [(status::OK, 2); 4], "{what}: {results:?}");
        }
    }
}

/// A 9-point and then a 5-point matrix with one positive coupling: the handle must discard the corners of the previous
/// matrix.
#[test]
fn corners_of_the_last_matrix_are_gone() {
    for (nx, ny) in [(4, 7), (30, 20)] {
        let mut a = random_m_matrix(nx, ny, false, 3);
        a.east[nx + 1] = 0.05;
        for backend in ["reference", "cpu"] {
            let options = format!("backend={backend} threads=1");
            let (used, fresh) = (Solver::of(&random_m_matrix(nx, ny, true, 5), &options), Solver::of(&a, &options));
            used.factorize(&a).unwrap();
            let r = random_rhs(a.len(), 1);
            assert_eq!(used.apply(&r), fresh.apply(&r), "{options} {nx} x {ny}");
        }
    }
}

/// If later sums overflow after an iterate was stored, the solve ends without convergence (106 x 1: r'M^-1 r is
/// infinite in iteration 468). A failure leaves x unchanged, and an x returned without convergence is no worse than the
/// guess.
#[test]
fn x_is_the_guess_or_better() {
    // All edges closed, k at the nodes with harmonic means between them; land where k is zero.
    let basin = |nx: usize, ny: usize, excess: f64, k: &dyn Fn(usize) -> f64| {
        let mut a = Stencil::zeros(nx, ny, false);
        let mean = |p: usize, q: usize| if k(p) * k(q) > 0.0 { 2.0 * k(p) * k(q) / (k(p) + k(q)) } else { 0.0 };
        for p in 0..nx * ny {
            let east = if (p + 1) % nx > 0 { mean(p, p + 1) } else { 0.0 };
            let north = if p + nx < nx * ny { mean(p, p + nx) } else { 0.0 };
            (a.east[p], a.north[p]) = (-east, -north);
            a.center[p] += east + north;
            for (q, w) in [(p + 1, east), (p + nx, north)].into_iter().filter(|(_, w)| *w > 0.0) {
                a.center[q] += w;
            }
        }
        a.center.iter_mut().for_each(|c| *c = if *c > 0.0 { *c * (1.0 + excess) } else { 1.0 });
        a
    };
    let eighths = |nx: usize| basin(nx, 1, 0.0, &|i| if (8 * i / nx) % 2 == 1 { 1e12 } else { 1.0 });
    let pores = |excess: f64| basin(80, 60, excess, &|p| if u(p as u32, 1, 9) < 0.2 { 0.0 } else { 1.0 });
    let mut cases = vec![
        (eighths(106), "precision=bf16 cycle=v rel_tol=1e-3"),
        (eighths(328), "precision=bf16 cycle=amli rel_tol=1e-3"),
        (eighths(328), "precision=mixed cycle=amli rel_tol=1e-3"),
    ];
    for excess in [1e-5, 1e-7] {
        cases.extend(["precision=mixed", "precision=bf16"].map(|options| (pores(excess), options)));
    }
    for ((a, options), max_iter) in cases.into_iter().flat_map(|case| [(case.clone(), 7), (case, 2000)]) {
        let what = format!("{} x {} {options} max_iter={max_iter}", a.nx, a.ny);
        let solver = Solver::of(&a, &format!("{options} max_iter={max_iter}"));
        let b: Vec<f64> = (0..a.len()).map(|i| (1.0 + 7.0 * i as f64).sin()).collect();
        for guess in [0.0, 1e-3] {
            let given = vec![guess; a.len()];
            let mut x = given.clone();
            let before = norm2(&a.exact_residual(&b, &x));
            match solver.solve(&b, &mut x) {
                Err(failure) => {
                    assert_eq!(failure.status, status::BREAKDOWN, "{what}: {}", failure.message);
                    assert_eq!(x, given, "{what}: {}", failure.message);
                }
                // After `max_iter` (stop reason 4), x is the last iterate, and its true residual is reported; |b| is
                // projected for singular systems.
                Ok(_) if solver.int(key::INFO_STOP_REASON) == 4 => {
                    assert!(x.iter().all(|v| v.is_finite()), "{what}");
                    if solver.int(key::INFO_SINGULAR_COMPONENTS) == 0 {
                        let after = norm2(&a.exact_residual(&b, &x));
                        let reported = solver.real(key::INFO_FINAL_RESIDUAL) * norm2(&b);
                        // Bound of the rounding errors of the rows, and of a sum of `a.len()` squares.
                        let noise = 4.0 * f64::EPSILON * norm2(&b) + a.len() as f64 * f64::EPSILON * after;
                        assert!((after - reported).abs() <= noise, "{what}: {after:e}, reported {reported:e}");
                    }
                }
                Ok(result) => {
                    let after = norm2(&a.exact_residual(&b, &x));
                    let noise = 4.0 * f64::EPSILON * norm2(&b) + a.len() as f64 * f64::EPSILON * before;
                    assert!(after <= before + noise, "{what}, status {result}: {after:e} for {before:e}");
                }
            }
        }
    }
}

/// The final choice of auto is kept: later matrices are factorized once.
#[test]
fn auto_remembers() {
    let (hard, easy) = (checker8(201, 1e6), poisson(200, 200));
    let solver = Solver::of(&hard, "");
    let of = |a: &common::problems::Stencil| {
        solver.factorize(a).unwrap();
        assert_eq!(solver.solve(&random_rhs(a.len(), 5), &mut vec![0.0; a.len()]), Ok(status::OK));
        (solver.int(key::INFO_CYCLE), solver.int(key::INFO_LEVELS))
    };
    let (v, levels) = of(&hard);
    assert_eq!(of(&easy), (v, levels));
    // A change of an option repeats the choice.
    solver.options("cycle_steps=3").unwrap();
    let (amli, deeper) = of(&easy);
    assert!(amli != v && deeper > levels);
}

/// The rules of `auto` in the reference (docs/reference/auto.md), on both sides of their limits.
#[test]
fn auto_follows_its_rules() {
    use rrbsolver::options::limits::{BF16_CONTRAST, BF16_CONTRAST_SINGULAR, SMALL_GRID_NODES};
    use rrbsolver::options::{Choice, Cycle, Precision};
    let in_use = |a: &Stencil, options: &str| {
        let solver = Solver::of(a, &format!("backend=cpu {options}"));
        (Precision::of(solver.int(key::INFO_PRECISION)).unwrap(), Cycle::of(solver.int(key::INFO_CYCLE)).unwrap())
    };
    // Node (0, 0) becomes land with a small center; its neighbours keep their row sums.
    let with_land = |mut a: Stencil, contrast: f64| {
        let largest = a.center.iter().copied().fold(0.0, f64::max);
        let nx = a.nx;
        a.center[1] += std::mem::take(&mut a.east[0]);
        a.center[nx] += std::mem::take(&mut a.north[0]);
        a.center[0] = largest / contrast;
        a
    };
    // Regular systems with 5 points use mixed and amli from SMALL_GRID_NODES nodes on, and f64 and v on smaller grids.
    assert_eq!(127 * 129 + 1, SMALL_GRID_NODES);
    assert_eq!(in_use(&poisson(128, 128), ""), (Precision::Mixed, Cycle::Amli));
    assert_eq!(in_use(&poisson(127, 129), ""), (Precision::F64, Cycle::V));
    // Singular systems also use amli, but bf16, because mixed requires regular systems.
    assert_eq!(in_use(&neumann_const(200, 200), ""), (Precision::Bf16, Cycle::Amli));
    // mixed requires the 2-norm and a solve that may switch to aggregation.
    for options in ["norm=preconditioned", "switch_memory=0", "grids=1"] {
        assert_eq!(in_use(&poisson(200, 200), options).0, Precision::Bf16, "{options}");
    }
    assert_eq!(in_use(&poisson(200, 200), "relaxation=0.9"), (Precision::F64, Cycle::V));
    assert_eq!(in_use(&poisson(200, 200), "cycle=aggregation"), (Precision::F32, Cycle::Aggregation));
    // The contrast of the centers decides between mixed and f64.
    for (contrast, precision) in [(0.99 * BF16_CONTRAST, Precision::Mixed), (1.01 * BF16_CONTRAST, Precision::F64)] {
        assert_eq!(in_use(&with_land(poisson(200, 200), contrast), "").0, precision, "{contrast:e}");
    }
    for (contrast, precision) in
        [(0.99 * BF16_CONTRAST_SINGULAR, Precision::Bf16), (1.01 * BF16_CONTRAST_SINGULAR, Precision::F64)]
    {
        let a = with_land(neumann_const(200, 200), contrast);
        assert_eq!(in_use(&a, "").0, precision, "{contrast:e}");
    }
}
