//! `precision` and `cycle`: the number formats of M and the recursive cycles, on every backend. With f64, f32 and bf16,
//! CG is in double precision, so the format affects only the preconditioner and not the accuracy of x. mixed recomputes
//! its residuals in double precision.
//!
//! Every solver here has one thread; several threads are tested in same_bits.rs.

use crate::common;
use crate::{all_problems, sweep_error, varied};

use common::problems::{
    Random, Stencil, aniso, by_name, checker8, inclusions, neumann_const, neumann_var, poisson, random_m_matrix,
    random_rhs, side_by_side, without_mean,
};
use common::*;

/// Returns the unit roundoff of the stored numbers.
fn unit_of_storage(precision: &str) -> f64 {
    match precision {
        "f64" => f64::EPSILON / 2.0,
        "f32" => 2f64.powi(-24),
        _ => 2f64.powi(-9),
    }
}

/// A rounded coupling is another weight of the same graph: M differs, as a quadratic form, by at most the sum of the
/// roundings of all levels. M^-1 is symmetric (V and AMLI are fixed matrices) and positive, also with K.
pub fn short_formats_are_spectrally_near_symmetric_and_positive() {
    for (nx, ny) in [(17, 17), (40, 75), (97, 1), (65, 3), (128, 66)] {
        for (name, a) in all_problems(nx, ny) {
            let solver = |precision: &str, cycle: &str, steps: usize| {
                let options = format!("precision={precision} cycle={cycle} cycle_spacing=2 cycle_steps={steps}");
                Solver::of(&a, &format!("backend=cpu threads=1 levels=40 compute_block=8 {options}"))
            };
            let project = |v: Vec<f64>| if name == "closed" { without_mean(v) } else { v };
            for (cycle, steps) in [("v", 1), ("amli", 2), ("amli", 3), ("amli", 4), ("k", 2), ("k", 3)] {
                let exact = solver("f64", cycle, steps);
                for precision in PRECISIONS {
                    let what = format!("{name} {nx}x{ny} {precision} {cycle} {steps}");
                    let m = solver(precision, cycle, steps);
                    let levels = m.int(key::INFO_LEVELS) as f64;
                    // The vectors are a point source in a corner, a point source in the middle, and a vector with all
                    // frequencies.
                    let unit = |p: usize| {
                        let mut v = vec![0.0; a.len()];
                        v[p] = 1.0;
                        project(v)
                    };
                    let vectors = [unit(0), unit(a.len() / 2), project(Random(4).vector(a.len()))];
                    let applied: Vec<Vec<f64>> = vectors.iter().map(|v| m.apply(v)).collect();
                    let energy: Vec<f64> = vectors.iter().zip(&applied).map(|(v, z)| dot(v, z)).collect();
                    for i in 0..3 {
                        assert!(energy[i] > 0.0, "{what}: {:e}", energy[i]);
                        let ratio = energy[i] / dot(&vectors[i], &exact.apply(&vectors[i]));
                        // Each inner iteration adds the rounding of A_k to that of M_k.
                        let rounded = levels * unit_of_storage(precision) * if cycle == "v" { 1.0 } else { 2.0 };
                        // On a closed basin, the coefficients of K are quotients of products in which a constant
                        // cancels.
                        let swept = sweep_error(precision) * if name == "closed" && cycle == "k" { 10.0 } else { 1.0 };
                        assert!((ratio - 1.0).abs() <= rounded + swept, "{what}: {ratio}");
                        for j in 0..i {
                            let skew = (dot(&vectors[i], &applied[j]) - dot(&vectors[j], &applied[i])).abs();
                            let size = (energy[i] * energy[j]).sqrt();
                            let fixed = cycle != "k";
                            assert!(!fixed || skew <= sweep_error(precision) * size, "{what}: {:e}", skew / size);
                        }
                    }
                }
            }
        }
    }
}

/// The fused stages have the iterates of the unfused steps, up to the rounding of the sweeps.
pub fn fused_and_unfused_agree_in_every_format_and_cycle() {
    let mut k = 0;
    for (nx, ny) in [(65, 64), (40, 75), (131, 33), (33, 20), (97, 101)] {
        for (name, a) in all_problems(nx, ny) {
            let b = random_rhs(a.len(), 7);
            for (precision, cycle) in formats() {
                k += 1;
                let options = format!("backend=cpu threads=1 precision={precision} cycle={cycle} {}", varied(k));
                let what = format!("{name} {nx}x{ny} {options}");
                let [fused, plain] = ["on", "off"].map(|fusion| {
                    let solver = Solver::of(&a, &format!("{options} fusion={fusion} rel_tol=1e-9"));
                    let counts = {
                        assert_eq!(solver.solve_from_zero(&b).1, status::OK, "{what} fusion={fusion}");
                        solver.iterations()
                    };
                    let first = [1, 2, 3].map(|steps| {
                        solver.options(&format!("max_iter={steps}")).unwrap();
                        solver.solve_from_zero(&b).0
                    });
                    (counts, first)
                });
                for step in 0..3 {
                    let error = max_difference(&fused.1[step], &plain.1[step]) / max_abs(&plain.1[step]);
                    // In double precision, the projections of a closed basin also count, with ten times its rounding.
                    let projected = if name == "closed" && precision == "f64" { 10.0 } else { 1.0 };
                    let allowed = projected * sweep_error(precision);
                    assert!(error <= allowed, "{what} iteration {step}: {error:e}");
                }
                assert!(fused.0.abs_diff(plain.0) <= 1, "{what}: {} and {} iterations", fused.0, plain.0);
            }
        }
    }
}

/// lambda_min, lambda_max and the tested norm refer to M, not to M divided by its unit; the test computes them
/// independently.
pub fn norms_do_not_depend_on_the_unit() {
    // The scaled centers are far from a power of two and from 1.
    for scale in [1.0, 3e-7, 5e9] {
        let mut a = random_m_matrix(60, 45, true, 3);
        a.scale(scale);
        let b = random_rhs(a.len(), 3);
        let exact = run(&a, &b, "backend=cpu threads=1 precision=f64 cycle=v rel_tol=1e-10");
        for precision in PRECISIONS {
            for cycle in ["v", "amli"] {
                let options = format!("backend=cpu threads=1 precision={precision} cycle={cycle} cycle_spacing=4");
                let what = format!("{options} A*{scale:e}");
                let solver = Solver::of(&a, &format!("{options} rel_tol=1e-10"));
                solver.solve_from_zero(&b);
                let (low, high) = (solver.real(key::INFO_LAMBDA_MIN), solver.real(key::INFO_LAMBDA_MAX));
                // Rayleigh quotients x'Ax / x'r of M^-1 A, x = M^-1 r, are between the ends of its spectrum.
                let z = solver.apply(&b);
                let quotient = dot(&z, &solver.multiply(&z)) / dot(&z, &b);
                assert!(low <= quotient && quotient <= high, "{what}: {quotient} not in [{low}, {high}]");
                if cycle == "v" {
                    // M differs by the rounding of ten levels.
                    let allowed = 0.01 + 10.0 * unit_of_storage(precision);
                    assert!((high / exact.lambda_max - 1.0).abs() <= allowed, "{what}: {high}");
                    assert!((low / exact.lambda_min - 1.0).abs() <= allowed, "{what}: {low}");
                }
                // abs_tol has the unit of the tested norm.
                let tested = |r: &[f64]| dot(r, &solver.apply(r)).sqrt();
                let limit = 1e-4 * tested(&b);
                solver.options(&format!("norm=preconditioned rel_tol=1e-300 abs_tol={limit:e}")).unwrap();
                let (x, result) = solver.solve_from_zero(&b);
                assert_eq!(result, status::OK, "{what}");
                let reached = tested(&a.residual(&b, &x));
                assert!(reached <= 1.001 * limit, "{what}: {reached:e} above {limit:e}");
                let history = solver.history();
                let before = history[history.len() - 2] * tested(&b);
                assert!(before > 0.999 * limit, "{what}: {before:e} under {limit:e} already");
            }
        }
    }
}

/// Convergence refers to the caller's matrix, here in twice the working precision. If rounding or the format prevents
/// it, the result is "not converged", never an error or a false convergence report.
pub fn success_is_never_false() {
    let cases = [
        ("inclusions 1e6", inclusions(64, 1e6)),
        ("inclusions 1e-6", inclusions(64, 1e-6)),
        ("inclusions 1e12", inclusions(64, 1e12)),
        ("random 1e6", problems::random_field(48, 1e6)),
        ("random 1e12", problems::random_field(48, 1e12)),
        ("hx/hy = 30", aniso(64, 30.0)),
        ("nine points", random_m_matrix(60, 50, true, 5)),
        ("closed", neumann_var(60, 50)),
    ];
    // Each format and case uses one cycle; the cycles alternate.
    for (k, (name, a)) in cases.iter().enumerate() {
        for (p, precision) in PRECISIONS.into_iter().enumerate() {
            this_success_is_true(name, a, &format!("precision={precision} cycle={}", CYCLES[(k + p) % 3]));
        }
    }
    // The choice of `auto`, which is bf16 for this size.
    this_success_is_true("inclusions 1e6", &inclusions(130, 1e6), "precision=auto cycle=auto");
    // Here the residual of S1 satisfies 1e-12, but that of A does not.
    this_success_is_true("checkerboard 1e3", &checker8(256, 1e3), "precision=mixed cycle=v");
}

fn this_success_is_true(name: &str, a: &Stencil, options: &str) {
    let b = random_rhs(a.len(), 6);
    let rhs = if name == "closed" { without_mean(b.clone()) } else { b.clone() };
    let solver = Solver::of(a, &format!("backend=cpu threads=1 {options}"));
    for rel_tol in [1e-6, 1e-8, 1e-10, 1e-12, 1e-14, 1e-30] {
        for norm in ["true2", "preconditioned"] {
            let what = format!("{name} {options} {rel_tol:e} {norm}");
            solver.options(&format!("rel_tol={rel_tol:e} norm={norm} max_iter=600")).unwrap();
            let mut x = vec![0.0; a.len()];
            let result = solver.solve(&b, &mut x).unwrap_or_else(|f| panic!("{what}: {}", f.message));
            match result {
                status::OK if norm == "true2" || name != "closed" => {
                    let (reached, rounding) = exact_norm(&solver, a, &rhs, &x, norm == "preconditioned");
                    assert!(reached <= rel_tol + rounding, "{what}: {reached:e}");
                }
                // A projected M^-1 has negative entries, and its norm has no such bound.
                status::OK => assert!(norm2(&a.exact_residual(&rhs, &x)) <= norm2(&rhs), "{what}"),
                _ => {
                    assert_eq!(result, status::NOT_CONVERGED, "{what}");
                    assert!(x.iter().all(|v| v.is_finite()), "{what}");
                }
            }
            // Every format reaches tolerances above the rounding level.
            if rel_tol >= 1e-6 && !name.ends_with("1e12") {
                assert_eq!(result, status::OK, "{what}");
            }
            assert!(result != status::OK || rel_tol > 1e-20, "{what}");
        }
    }
}

/// A guess may be arbitrarily poor: residuals are scaled into the range of the sweeps.
pub fn far_guesses() {
    for (name, a) in [("regular", random_m_matrix(60, 45, false, 5)), ("closed", neumann_var(60, 45))] {
        let b = without_mean(random_rhs(a.len(), 6));
        for (precision, cycle) in formats() {
            for backend in ["cpu threads=1", "reference"] {
                let solver = Solver::of(&a, &format!("backend={backend} precision={precision} cycle={cycle}"));
                for far in [1e20, 1e45, 1e100] {
                    far_guess(&solver, &a, &b, far, &format!("{name} {backend} {precision} {cycle} guess {far:e}"));
                }
            }
        }
    }
}

fn far_guess(solver: &Solver, a: &Stencil, b: &[f64], far: f64, what: &str) {
    let guess: Vec<f64> = random_rhs(a.len(), 8).iter().map(|v| v * far).collect();
    let before = norm2(&a.residual(b, &guess));
    let solve = |options: &str| {
        solver.options("reference=rhs norm=true2 rel_tol=1e-6 abs_tol=0 max_iter=1000").unwrap();
        solver.options(options).unwrap();
        let mut x = guess.clone();
        let result = solver.solve(b, &mut x).unwrap_or_else(|f| panic!("{what} {options}: {}", f.message));
        (x, result)
    };
    // Relative to b, the rounding of A x limits the residual; relative to the initial residual, any tolerance can be
    // reached.
    let (x, result) = solve("reference=initial");
    assert_eq!(result, status::OK, "{what}");
    assert!(norm2(&a.residual(b, &x)) <= 1.001e-6 * before, "{what}");
    let (x, result) = solve(&format!("abs_tol={:e}", 10.0 * norm2(b)));
    // In double precision the solve starts from the guess, in short formats from zero. A closed basin keeps the mean of
    // the guess, whose rounding the solver cannot remove.
    assert!(result == status::OK || what.contains(" f64 ") || what.starts_with("closed"), "{what}");
    if result == status::OK && !what.starts_with("closed") {
        assert!(norm2(&a.residual(b, &x)) <= 10.001 * norm2(b), "{what}");
    }
    // Without iterations, x is the guess, and its residual is reported.
    for norm in ["true2", "preconditioned"] {
        let (x, result) = solve(&format!("max_iter=0 norm={norm}"));
        assert_eq!((&x, result), (&guess, status::NOT_CONVERGED), "{what}");
        let (reported, expected) = (solver.real(key::INFO_FINAL_RESIDUAL), before / norm2(b));
        // In the 2-norm, sums of thousands of values in another order; the eigenvalues of the preconditioned norm span
        // a few decades.
        let factor = if norm == "true2" { 1.0 + 1e-12 } else { 1e4 };
        assert!(
            reported <= factor * expected && expected <= factor * reported,
            "{what} {norm}: {reported:e}, {expected:e}"
        );
    }
}

/// For an arbitrarily small A, the quality of a guess counts as for an A of magnitude one.
pub fn near_guesses_of_small_matrices() {
    let b = random_rhs(130 * 130, 6);
    for (precision, cycle) in formats() {
        let counts = [1.0, 2f64.powi(-120)].map(|factor| {
            let mut a = poisson(130, 130);
            a.scale(factor);
            let solver = Solver::of(&a, &format!("backend=cpu threads=1 precision={precision} cycle={cycle}"));
            let (mut x, _) = solver.solve_from_zero(&b);
            let later: Vec<f64> = b.iter().map(|v| 1.001 * v).collect();
            solver.solve(&later, &mut x).unwrap();
            (solver.iterations(), solver.history())
        });
        assert_eq!(counts[0], counts[1], "{precision} {cycle}");
    }
}

/// Pivots whose ratio to the largest center is below the range of single precision are an error for explicit short
/// formats, with a suggestion. The automatic choice uses f64.
pub fn contrasts_beyond_short_formats() {
    let (nx, ny) = (160, 110);
    for nine in [false, true] {
        let a = side_by_side(nx, ny, nine, 1e-45);
        let mut b = random_rhs(a.len(), 6);
        b.iter_mut().enumerate().filter(|(p, _)| p % nx < nx / 2).for_each(|(_, v)| *v *= 1e-45);
        for backend in ["reference", "cpu"] {
            for short in ["f32", "bf16"] {
                let solver = Solver::new(nx, ny, &format!("backend={backend} threads=1 precision={short}"));
                let failure = solver.factorize(&a).unwrap_err();
                failure.expect(status::MATRIX, &["pivot", "short format", "precision=f64"]);
            }
            let solver = Solver::of(&a, &format!("backend={backend} threads=1"));
            assert_eq!(solver.int(key::INFO_PRECISION), 1, "f64");
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!(result, status::OK);
            assert!(norm2(&a.residual(&b, &x)) <= 1.001e-6 * norm2(&b));
        }
    }
}

/// All edges closed, but one center is larger by the fraction `part`: x is nearly constant, and larger than b by 1 /
/// `part`.
fn nearly_closed(nx: usize, ny: usize, part: f64) -> Stencil {
    let mut a = neumann_const(nx, ny);
    a.center[nx * (ny / 2) + nx / 3] *= 1.0 + part;
    a
}

/// CG in single precision needs the iterations of double precision, on easy systems and on hard ones. Hundreds of
/// iterations without a smaller residual must not cause a restart. On nearly singular systems, rounding of the first
/// large p leaves a constant in r, which must be removed at once.
pub fn single_precision_keeps_the_counts() {
    let cases = [
        ("poisson", poisson(200, 200)),
        ("one center by 1e-2", nearly_closed(130, 130, 1e-2)),
        ("one center by 1e-3", nearly_closed(200, 200, 1e-3)),
        ("one center by 1e-4", nearly_closed(128, 200, 1e-4)),
        ("hx/hy = 316", aniso(200, 316.0)),
        ("hx/hy = 1000", aniso(200, 1000.0)),
        ("inclusions 1e6", inclusions(130, 1e6)),
        ("random 1e6", problems::random_field(130, 1e6)),
    ];
    for (name, a) in &cases {
        let step = (0..a.len()).map(|k| if k < a.len() / 2 { 2.0 } else { 0.0 }).collect();
        for (which, b) in [("ones", vec![1.0; a.len()]), ("step", step), ("random", random_rhs(a.len(), 5))] {
            for cycle in ["v", "auto"] {
                let [double, single] = ["bf16", "mixed"].map(|precision| {
                    let options = format!("backend=cpu threads=1 precision={precision} cycle={cycle} max_iter=4000");
                    let solver = Solver::of(a, &options);
                    let status = solver.solve_from_zero(&b).1;
                    assert_eq!(status, status::OK, "{name} {which} {options}");
                    solver.iterations()
                });
                // p is conjugate only to seven digits, because both use sweeps in single precision: 10 % more or fewer
                // iterations depend on rounding.
                let most = double + 2 + double / 10;
                assert!(single <= most, "{name} {which} {cycle}: {single} iterations, {double} in double precision");
            }
        }
    }
}

/// More nearly singular than in `single_precision_keeps_the_counts`: steps along a p that consisted of rounding once
/// grew until they overflowed. A solve must end, and report how it ended.
pub fn single_precision_does_not_run_away() {
    for (nx, ny) in [(128, 128), (128, 200), (200, 200)] {
        for part in [1e-5, 1e-6, 1e-7, 1e-8] {
            let a = nearly_closed(nx, ny, part);
            let step = (0..a.len()).map(|k| if k < a.len() / 2 { 2.0 } else { 0.0 }).collect();
            for b in [vec![1.0; a.len()], step, random_rhs(a.len(), 5)] {
                for cycle in ["v", "amli"] {
                    let [double, single] = ["bf16", "mixed"].map(|precision| {
                        let options =
                            format!("backend=cpu threads=1 precision={precision} cycle={cycle} max_iter=4000");
                        let solver = Solver::of(&a, &options);
                        let (x, status) = solver.solve_from_zero(&b);
                        let at_most = match status {
                            status::OK => 1e-6,
                            // Rounding of such a large x allows no smaller residual; without any progress it is 1.
                            status::NOT_CONVERGED => 0.1,
                            other => panic!("{nx} x {ny} {part:e} {options}: {other}"),
                        };
                        // Each sum of five products, at most 8 max |x|, rounds differently in another order.
                        let rounding = 5.0 * 8.0 * f64::EPSILON * max_abs(&x) * (a.len() as f64).sqrt();
                        let residual = norm2(&a.residual(&b, &x));
                        assert!(
                            residual <= at_most * norm2(&b) + rounding,
                            "{nx} x {ny} {part:e} {options}: {residual:e}"
                        );
                        (status, solver.iterations())
                    });
                    // For smaller parts, the tolerance is within the rounding of x, and the iterate that satisfies it
                    // depends on rounding.
                    if part >= 1e-6 && (double.0, single.0) == (status::OK, status::OK) {
                        assert!(single.1 <= 2 * double.1, "{nx} x {ny} {part:e} {cycle}: {single:?} {double:?}");
                    }
                }
            }
        }
    }
    // This case once overflowed.
    let a = nearly_closed(128, 128, 1e-6);
    let b: Vec<f64> = (0..a.len()).map(|k| if k < a.len() / 2 { 2.0 } else { 0.0 }).collect();
    let solver = Solver::of(&a, "backend=cpu threads=1 precision=mixed cycle=amli");
    assert_eq!(solver.solve_from_zero(&b).1, status::OK);
    assert!(solver.iterations() <= 25, "{} iterations, 23 in double precision", solver.iterations());
}

/// The choices of `auto` and the results about them: AMLI if two inner iterations pay, otherwise V, never K; short
/// formats if memory traffic matters, f64 for small grids and for contrasts near the limits of the range.
pub fn automatic_choices() {
    let (f64_, bf16, mixed, v, amli) = (1, 3, 4, 1, 2);
    let mut wrong = Vec::new();
    for (name, cycle) in [
        ("poisson_f", amli),
        ("smooth", amli),
        ("inclHigh_1e3", amli),
        ("boussinesq_m=0.01", amli),
        ("aniso_hx/hy=10", v),
        ("random_1e3", v),
        ("neumann_const", amli),
    ] {
        for n in [127, 255, 511] {
            let (a, b) = by_name(name, n, n);
            let auto = Solver::of(&a, "backend=cpu threads=1");
            let picked = (auto.int(key::INFO_PRECISION), auto.int(key::INFO_CYCLE));
            // 127^2 is 255 nodes below the size above which M no longer fits into a cache; V is faster there, too. CG
            // of singular systems stays in f64.
            let short = if name == "neumann_const" { bf16 } else { mixed };
            let precision = if n > 127 { short } else { f64_ };
            let cycle = if n > 127 { cycle } else { v };
            if picked != (precision, cycle) {
                wrong.push(format!("{name} {n}: picked {picked:?}"));
            }
            assert_eq!(auto.solve_from_zero(&b).1, status::OK, "{name} {n}");
            // At most one iteration more than the V-cycle with the same levels, plus one in thirty for f32 sweeps.
            let levels = auto.int(key::INFO_LEVELS);
            let plain = run(&a, &b, &format!("backend=cpu threads=1 precision=f64 cycle=v levels={levels}"));
            if auto.iterations() > plain.iterations + 1 + plain.iterations / 30 {
                wrong.push(format!("{name} {n}: {} iterations, V {}", auto.iterations(), plain.iterations));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Variants for the papers' tables keep the methods of the papers.
    let a = poisson(255, 255);
    for variant in ["lumping=m1u", "lumping=m2m", "relaxation=0.99"] {
        let solver = Solver::of(&a, &format!("backend=cpu threads=1 {variant}"));
        assert_eq!((solver.int(key::INFO_PRECISION), solver.int(key::INFO_CYCLE)), (f64_, v), "{variant}");
    }
    for (contrast, precision) in [(1e6, mixed), (1e14, f64_)] {
        let solver = Solver::of(&inclusions(200, contrast), "backend=cpu threads=1");
        assert_eq!(solver.int(key::INFO_PRECISION), precision, "contrast {contrast:e}");
    }
    // Nine points, closed basins and a single grid do not support CG in single precision.
    for (a, levels) in [(random_m_matrix(150, 150, true, 5), 40), (neumann_var(150, 150), 40), (poisson(150, 150), 2)] {
        let solver = Solver::of(&a, &format!("backend=cpu threads=1 precision=mixed levels={levels}"));
        assert_eq!(solver.int(key::INFO_PRECISION), bf16);
    }
    // Explicit choices are used on any grid and backend.
    for (k, (precision, cycle)) in formats().enumerate() {
        for backend in ["cpu", "reference"] {
            let options = format!("backend={backend} threads=1 levels=40 precision={precision} cycle={cycle}");
            let solver = Solver::of(&poisson(70, 50), &options);
            let said = (solver.int(key::INFO_PRECISION), solver.int(key::INFO_CYCLE));
            // CG of the reference backend is in double precision.
            let most = if backend == "reference" { bf16 } else { mixed };
            assert_eq!(said, ((k as i64 / 3 + 1).min(most), k as i64 % 3 + 1), "{options}");
        }
    }
}

/// If `auto` ends with the V-cycle, its results equal those of `cycle=v`.
pub fn v_selected_by_auto_equals_explicit_v() {
    for threads in [1, 2] {
        let (a, b) = by_name("random_1e3", 255, 255);
        let [auto, asked] = ["", "cycle=v precision=mixed"]
            .map(|options| Solver::of(&a, &format!("backend=cpu threads={threads} {options}")));
        for round in 0..2 {
            for info in [key::INFO_LEVELS, key::INFO_GRIDS, key::INFO_CYCLE, key::INFO_PRECISION, key::INFO_BYTES_HOST]
            {
                assert_eq!(auto.int(info), asked.int(info), "{info}, round {round}");
            }
            assert_eq!(auto.solve_from_zero(&b), asked.solve_from_zero(&b), "round {round}");
            // The handle gets new values in the same memory.
            let mut stiffer = a.clone();
            stiffer.center.iter_mut().for_each(|c| *c *= 1.25);
            for solver in [&auto, &asked] {
                solver.factorize(&stiffer).unwrap();
            }
        }
    }
}

/// Bytes per unknown, mostly of a 5-point matrix, including the handle's copy; on smaller grids, borders and padding
/// weigh more.
pub fn memory_per_unknown() {
    for (nx, ny) in [(2047, 2047), (1023, 1023), (1201, 1001)] {
        let a = poisson(nx, ny);
        for (precision, most) in [("f64", 140.0), ("bf16", 110.0), ("mixed", 110.0)] {
            for cycle in ["auto", "v", "amli", "k"] {
                let solver = Solver::of(&a, &format!("backend=cpu threads=1 precision={precision} cycle={cycle}"));
                let bytes = solver.int(key::INFO_BYTES_HOST) as f64 / a.len() as f64;
                assert!(bytes <= most, "{nx} x {ny}, {precision} {cycle}: {bytes} bytes per unknown");
            }
        }
    }
    // CG on A: z of the first grid and q = A p share memory if both are in double precision.
    let mut compensated = poisson(1023, 1023);
    compensated.east[1023 * 511 + 511] = 1e-3;
    for (name, a, most) in
        [("9 points", random_m_matrix(1023, 1023, true, 1), 138.0), ("compensated", compensated, 121.0)]
    {
        let solver = Solver::of(&a, "backend=cpu threads=1 precision=f64 cycle=v");
        let bytes = solver.int(key::INFO_BYTES_HOST) as f64 / a.len() as f64;
        assert!(bytes <= most, "{name}: {bytes} bytes per unknown");
    }
    // The bound also holds with many threads.
    for n in [400, 800, 1000] {
        let a = poisson(n, n);
        let solver = Solver::of(&a, "backend=cpu threads=16 precision=mixed");
        let bytes = solver.int(key::INFO_BYTES_HOST) as f64 / a.len() as f64;
        assert!(bytes <= 110.0, "{n} x {n}, 16 threads: {bytes} bytes per unknown");
    }
}
