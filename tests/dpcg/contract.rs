//! Promises of the header about the `dpcg_` family: solutions, results, layouts, regions, and bitwise identical results
//! where these are promised.

use crate::common;
#[path = "reported.rs"]
mod reported;

use common::dpcg::*;
use common::{
    ITERATION_LIMIT, bits, dot, expect_not_converged, key as common_key, max_abs, max_difference, norm2, outcome,
    status, user,
};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

const BACKENDS: [&str; 2] = ["backend=reference", "backend=cpu threads=2"];
const DEFLATIONS: [&str; 4] = ["none", "subdomain subdomains_x=2 subdomains_y=2", "levelset", "levelset_subdomain"];

/// Nine bubbles in a closed box (singular), and one bubble below an open top (regular).
fn systems() -> [TwoPhase; 2] {
    [TwoPhase::new("9", [17, 12, 15], 1e-3), TwoPhase::new("1;dir=top", [13, 14, 9], 1e-3)]
}

/// Every preconditioner with every deflation solves to the tolerance, and reports what it used.
#[test]
fn all_methods_solve() {
    for backend in BACKENDS {
        for (a, singular) in systems().iter().zip([1, 0]) {
            let b = a.rhs("rand");
            for (preconditioner, number) in PRECONDITIONERS {
                for deflation in DEFLATIONS {
                    let options =
                        format!("{backend} preconditioner={preconditioner} deflation={deflation} rel_tol=1e-8");
                    let solver = Solver::of(a, &options);
                    let (x, result) = solver.solve_from_zero(&b);
                    assert_eq!(result, status::OK, "{options}");
                    let residual = a.relative_residual(&b, &x);
                    assert!(residual <= 1.001e-8, "{options}: {residual:e}");
                    let reported = solver.real(common_key::INFO_FINAL_RESIDUAL);
                    assert!((reported - residual).abs() <= 1e-11, "{options}: {reported:e}, is {residual:e}");
                    assert_eq!(solver.int(key::INFO_PRECONDITIONER), number, "{options}");
                    assert_eq!(solver.int(common_key::INFO_COMPONENTS), 1);
                    assert_eq!(solver.int(common_key::INFO_SINGULAR_COMPONENTS), singular);
                    assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS) == 0, deflation == "none", "{options}");
                    let coarsening = solver.int(key::INFO_COARSENING);
                    assert_eq!(coarsening == 0, preconditioner != "multigrid", "{options}");
                }
            }
        }
    }
}

/// Aggregation with every deflation, on singular and regular systems. Unsupported combinations return an error.
#[test]
fn aggregation_solves() {
    for (a, singular) in systems().iter().zip([1, 0]) {
        let b = a.rhs("rand");
        for deflation in DEFLATIONS {
            for precision in ["auto", "f64"] {
                let options = format!("preconditioner=amg deflation={deflation} precision={precision} rel_tol=1e-8");
                let solver = Solver::of(a, &format!("backend=cpu threads=2 {options}"));
                let (x, result) = solver.solve_from_zero(&b);
                assert_eq!(result, status::OK, "{options}");
                let residual = a.relative_residual(&b, &x);
                assert!(residual <= 1.001e-8, "{options}: {residual:e}");
                assert_eq!(solver.int(key::INFO_PRECONDITIONER), 7);
                assert_eq!(solver.int(common_key::INFO_SINGULAR_COMPONENTS), singular);
                assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS) == 0, deflation == "none", "{options}");
            }
        }
    }
    // Twice the matrix keeps its aggregates in both precisions; another box gets new ones.
    let [a, _] = systems();
    let b = a.rhs("rand");
    let mut twice = a.clone();
    let entries = twice.forward.iter_mut().flatten().chain(&mut twice.center);
    entries.for_each(|value| *value *= 2.0);
    for precision in ["auto", "f64"] {
        let solver = Solver::of(&a, &format!("backend=cpu preconditioner=amg precision={precision}"));
        let (x, _) = solver.solve_from_zero(&b);
        assert_eq!(solver.int(common_key::INFO_AGGREGATES_KEPT), 0);
        solver.factorize(&twice).unwrap();
        assert!(solver.int(common_key::INFO_AGGREGATES_KEPT) > 10);
        let (half, _) = solver.solve_from_zero(&b);
        assert_eq!(half.iter().map(|half| 2.0 * half).collect::<Vec<f64>>(), x);
    }
    let failure = Solver::new(a.size, "backend=reference preconditioner=amg").factorize(&a).unwrap_err();
    failure.expect(
        status::UNSUPPORTED,
        &["preconditioner=amg is not available with backend=reference", "backend=cpu", "multigrid"],
    );
}

/// All variants solve the same system: orders of the series, numbers of boxes, coarse solvers, and `keep_all`.
#[test]
fn variants_of_methods_solve() {
    let [a, _] = systems();
    let b = a.rhs("cos");
    for options in [
        "preconditioner=neumann order=0",
        "preconditioner=neumann order=8",
        "preconditioner=neumann deflation=subdomain keep_all=1",
        "preconditioner=jacobi deflation=subdomain coarse_solver=cholesky",
        "preconditioner=jacobi deflation=subdomain coarse_solver=cg coarse_tol=1e-12",
        "preconditioner=jacobi deflation=levelset_subdomain coarse_solver=inverse dilation=1",
        "preconditioner=ric ric_omega=0.9 fusion=off",
        "preconditioner=multigrid coarsening=cell sweeps=1",
        "preconditioner=multigrid coarsening=vertex sweeps=2 precision=f64",
        "preconditioner=multigrid coarsening=vertex precision=f32 deflation=levelset",
    ] {
        let solver = Solver::of(&a, options);
        let (x, result) = solver.solve_from_zero(&b);
        assert_eq!(result, status::OK, "{options}");
        assert!(a.relative_residual(&b, &x) <= 1.001e-6, "{options}");
    }
}

/// A Neumann series of order 0 is the Jacobi preconditioner: equal iteration counts with every deflation.
#[test]
fn order_zero_is_jacobi() {
    for a in systems() {
        let b = a.rhs("rand");
        for deflation in DEFLATIONS {
            let iterations = |preconditioner: &str| {
                let solver = Solver::of(&a, &format!("preconditioner={preconditioner} deflation={deflation}"));
                assert_eq!(solver.solve_from_zero(&b).1, status::OK, "{preconditioner} {deflation}");
                solver.int(common_key::INFO_ITERATIONS)
            };
            assert_eq!(iterations("neumann order=0"), iterations("jacobi"), "{deflation}");
        }
    }
}

/// The choice of `auto` does not depend on threads and backend. Sweeps are compared through the result of a cycle.
#[test]
fn auto_chooses_by_the_matrix() {
    for (a, labelled, expected) in systems_for_auto() {
        let labels: Vec<i32> = a.air.iter().map(|&air| if air { 2 } else { -1 }).collect();
        let r = a.rhs("rand");
        let of = |options: &str| {
            let solver = Solver::new(a.size, options);
            solver.regions(labelled.then_some(&labels)).unwrap();
            solver.factorize(&a).unwrap();
            (choices(|key| solver.int(key)), solver.apply(&r))
        };
        for options in ["", "preconditioner=neumann"] {
            let (reported, z) = of(&format!("backend=reference {options}"));
            if options.is_empty() {
                assert_eq!(reported[..3], expected);
                let once = of("backend=cpu sweeps=1").1;
                assert!(max_difference(&z, &once) > 1e-2 * max_abs(&z), "one sweep is another cycle");
            }
            for threads in [1, 2, 3, 7] {
                let (other, found) = of(&format!("backend=cpu threads={threads} {options}"));
                assert_eq!(other, reported, "{expected:?} {options} with {threads} threads");
                // Coarse grids are in single precision.
                let off = max_difference(&found, &z) / max_abs(&z);
                assert!(off <= 1e-3, "{expected:?} {options} with {threads} threads: {off:e}");
            }
        }
    }
}

/// Returns the iterations of a solve from zero.
#[track_caller]
fn iterations_of(solver: &Solver, b: &[f64]) -> i64 {
    assert_eq!(solver.solve_from_zero(b).1, status::OK);
    solver.int(common_key::INFO_ITERATIONS)
}

/// The vector that is dropped for a singular matrix is kept with `keep_all`; the projection is the same.
#[test]
fn all_vectors_kept() {
    let [a, regular] = systems();
    let b = a.rhs("rand");
    for backend in BACKENDS {
        for (kind, found) in [("subdomain subdomains_x=2 subdomains_y=3 subdomains_z=2", 12), ("levelset", 10)] {
            let of = |a: &TwoPhase, kept: i64| {
                let options = format!("{backend} preconditioner=jacobi deflation={kind} keep_all={kept}");
                let solver = Solver::of(a, &options);
                let counts = [key::INFO_REGIONS, key::INFO_DEFLATION_VECTORS].map(|key| solver.int(key));
                (solver, counts)
            };
            let ((dropped, some), (kept, all)) = (of(&a, 0), of(&a, 1));
            assert_eq!([some, all], [[found, found - 1], [found, found]], "{backend} {kind}");
            let counts = [dropped, kept].map(|solver| iterations_of(&solver, &b));
            // E with all vectors rounds differently.
            assert!((counts[0] - counts[1]).abs() <= 1, "{backend} {kind}: {counts:?}");
        }
        // For a regular matrix, no vector is dropped.
        let vectors = [0, 1].map(|kept| {
            let solver = Solver::of(&regular, &format!("{backend} deflation=subdomain subdomains_x=4 keep_all={kept}"));
            solver.int(key::INFO_REGIONS) - solver.int(key::INFO_DEFLATION_VECTORS)
        });
        assert_eq!(vectors, [0, 0], "{backend}");
    }
}

/// The results with the inverse of E, with its factor and with an inner CG are equal up to `coarse_tol`.
#[test]
fn solvers_of_the_coarse_matrix() {
    let [a, _] = systems();
    let b = a.rhs("rand");
    for backend in BACKENDS {
        let of = |solver: &str| {
            let boxes = "subdomains_x=4 subdomains_y=3 subdomains_z=3";
            Solver::of(&a, &format!("{backend} preconditioner=jacobi deflation=subdomain {boxes} {solver}"))
        };
        let inverse = of("coarse_solver=inverse");
        let (count, z) = (iterations_of(&inverse, &b), inverse.apply(&b));
        let off = |solver: &Solver| max_difference(&solver.apply(&b), &z) / max_abs(&z);
        for (name, number) in [("auto", 1), ("inverse", 1), ("cholesky", 2), ("cg", 3)] {
            let solver = of(&format!("coarse_solver={name}"));
            assert_eq!(solver.int(key::INFO_COARSE_SOLVER), number, "{backend} {name}");
            let found = iterations_of(&solver, &b);
            assert!((found - count).abs() <= 1, "{backend} {name}: {found} iterations, {count} with the inverse");
        }
        // A larger tolerance of the inner CG changes the preconditioner by about this tolerance.
        let [loose, middle, tight] =
            [1e-2, 1e-5, 1e-12].map(|tol| off(&of(&format!("coarse_solver=cg coarse_tol={tol}"))));
        assert!(loose > 1e-4 && loose < 1.0, "{backend}: {loose:e} off");
        assert!(middle < 1e-2 * loose, "{backend}: {middle:e} off, and {loose:e}");
        assert!(tight < 1e-9, "{backend}: {tight:e} off");
    }
}

/// Returns the system with the arithmetic mean of 1/rho on each face.
fn with_arithmetic_faces(mut a: TwoPhase, contrast: f64) -> TwoPhase {
    let kappa: Vec<f64> = a.air.iter().map(|&air| if air { 1.0 / contrast } else { 1.0 }).collect();
    let steps = [1, a.size[0], a.size[0] * a.size[1]];
    a.center.fill(0.0);
    for c in 0..a.cells() {
        for (forward, step) in a.forward.iter_mut().zip(steps) {
            // No face points out of the box.
            if !forward[c].is_nan() {
                let face = 0.5 * (kappa[c] + kappa[c + step]);
                forward[c] = -face;
                a.center[c] += face;
                a.center[c + step] += face;
            }
        }
    }
    a
}

/// Returns the index of the nearest of nine bubbles, for a cell of the cube of 32.
fn bubble(c: usize) -> i32 {
    let at = [c % 32, c / 32 % 32, c / 1024].map(|i| (i as f64 + 0.5) / 32.0);
    if at.iter().all(|x| (x - 0.5).abs() < 0.125) { 8 } else { (0..3).map(|d| i32::from(at[d] > 0.5) << d).sum() }
}

/// `dilation` extends labels of the caller by one layer. With arithmetic means on the faces, the liquid next to a
/// bubble is coupled as strongly as the cells of the bubble. In a cube of 64^3 cells, this reduces 229 iterations to
/// 123.
#[test]
fn labels_grow_by_a_layer() {
    let size = [32; 3];
    let a = with_arithmetic_faces(TwoPhase::new("9", size, 1e-3), 1e-3);
    let b = a.rhs("rand");
    let labels: Vec<i32> = (0..a.cells()).map(|c| if a.air[c] { bubble(c) } else { -1 }).collect();
    for backend in BACKENDS {
        let count = |dilation: &str| {
            let solver = Solver::new(size, &format!("{backend} preconditioner=jacobi deflation=levelset {dilation}"));
            solver.regions(Some(&labels)).unwrap();
            solver.factorize(&a).unwrap();
            assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS), 9);
            iterations_of(&solver, &b)
        };
        let [chosen, none, one] = ["", "dilation=0", "dilation=1"].map(count);
        assert_eq!(chosen, one, "{backend}");
        assert!(3 * one < 2 * none, "{backend}: {one} iterations with a layer, {none} without");
    }
}

/// f32 applies to multigrid only, and is reported where it is in use. It changes M^-1 r by its rounding.
#[test]
fn precision_of_multigrid() {
    const F64: i64 = 1;
    const F32: i64 = 2;
    let [a, _] = systems();
    let r = a.rhs("rand");
    for backend in BACKENDS {
        let of = |options: &str| Solver::of(&a, &format!("{backend} {options}"));
        for (options, expected) in [
            ("", F32),
            ("preconditioner=multigrid precision=f32", F32),
            ("preconditioner=multigrid precision=f64", F64),
            ("preconditioner=neumann", F64),
            ("preconditioner=jacobi precision=f32", F64),
        ] {
            assert_eq!(of(options).int(common_key::INFO_PRECISION), expected, "{backend} {options}");
        }
        let [single, double] = ["f32", "f64"]
            .map(|precision| of(&format!("preconditioner=multigrid deflation=none precision={precision}")).apply(&r));
        let off = max_difference(&single, &double) / max_abs(&double);
        // The bound is the rounding error of f32 times the contrast.
        assert!(off > 1e-9 && off < 1e-3, "{backend}: {off:e} off");
    }
}

/// Padded rows and planes with NaN in the padding: results are bitwise identical, and the padding is unchanged.
#[test]
fn padded_arrays() {
    let [a, _] = systems();
    let [nx, ny, _] = a.size;
    let b = a.rhs("rand");
    let labels: Vec<i32> = a.air.iter().map(|&air| if air { 4 } else { -1 }).collect();
    for backend in BACKENDS {
        let dense = Solver::new(a.size, &format!("{backend} deflation=levelset_subdomain preconditioner=neumann"));
        dense.regions(Some(&labels)).unwrap();
        dense.factorize(&a).unwrap();
        let expected = dense.solve_from_zero(&b).0;
        for (ld, plane) in [(nx, nx * ny + 1), (nx + 1, (nx + 1) * ny), (nx + 3, (nx + 3) * (ny + 2) + 5)] {
            let wide = |v: &[f64]| spread(v, a.size, ld, plane, f64::NAN);
            let layout = format!("leading_dimension={ld} leading_plane={plane}");
            let solver = Solver::new(a.size, &format!("{backend} deflation=levelset_subdomain preconditioner=neumann"));
            solver.options(&layout).unwrap();
            solver.regions(Some(&spread(&labels, a.size, ld, plane, -9))).unwrap();
            let forward = a.forward.each_ref().map(|f| wide(f));
            solver.factorize_arrays(&wide(&a.center), forward.each_ref().map(|f| &f[..])).unwrap();
            let mut x = wide(&vec![0.0; a.cells()]);
            assert_eq!(solver.solve(&wide(&b), &mut x), Ok(status::OK), "{layout}");
            assert_eq!(bits(&gathered(&x, a.size, ld, plane)), bits(&expected), "{layout}");
            let padding = x.iter().filter(|v| v.is_nan()).count();
            assert_eq!(padding, x.len() - a.cells(), "{layout}: padding is not written");
            assert_eq!(bits(&gathered(&solver.multiply(&x), a.size, ld, plane)), bits(&dense.multiply(&expected)));
        }
    }
}

/// Boxes of one cell, one row or one plane.
#[test]
fn thin_boxes() {
    for size in [[1, 1, 1], [2, 2, 2], [1, 9, 7], [8, 1, 5], [9, 6, 1], [1, 1, 40], [30, 1, 1], [3, 2, 2]] {
        let a = TwoPhase::new("1;dir=top", size, 1e-2);
        let b = random(a.cells(), 5);
        for (preconditioner, _) in PRECONDITIONERS {
            let options = format!("preconditioner={preconditioner}");
            let solver = Solver::of(&a, &options);
            let (x, result) = solver.solve_from_zero(&b);
            assert_eq!(result, status::OK, "{size:?} {options}");
            assert!(a.relative_residual(&b, &x) <= 1.001e-6, "{size:?} {options}");
        }
    }
}

/// b = 0, an exact initial guess, and max_iter = 0.
#[test]
fn solves_without_iterations() {
    for backend in BACKENDS {
        for a in systems() {
            let solver = Solver::of(&a, &format!("{backend} rel_tol=1e-9"));
            let b = a.rhs("rand");
            let mut x = random(a.cells(), 3);
            assert_eq!(solver.solve(&vec![0.0; a.cells()], &mut x), Ok(status::OK));
            assert!(max_difference(&x, &vec![x[0]; a.cells()]) <= 1e-15, "the mean of the guess, where singular");
            x = solver.solve_from_zero(&b).0;
            solver.options("rel_tol=1e-8").unwrap();
            let again = x.clone();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::OK));
            assert_eq!(solver.int(common_key::INFO_ITERATIONS), 0);
            assert_eq!(bits(&x), bits(&again));
            solver.options("max_iter=0").unwrap();
            let guess = random(a.cells(), 4);
            x = guess.clone();
            assert_eq!(solver.solve(&b, &mut x), Ok(status::NOT_CONVERGED));
            expect_not_converged(0, a.relative_residual(&b, &guess), "1e-8", ITERATION_LIMIT);
            let (reported, is) = (solver.real(common_key::INFO_FINAL_RESIDUAL), a.relative_residual(&b, &guess));
            assert!((reported / is - 1.0).abs() <= 1e-12);
        }
    }
}

/// On a singular component, x keeps the mean of the guess, and constants in b are projected out.
#[test]
fn singular_systems() {
    let [a, _] = systems();
    let n = a.cells() as f64;
    for backend in BACKENDS {
        for deflation in DEFLATIONS {
            let solver = Solver::of(&a, &format!("{backend} preconditioner=jacobi deflation={deflation}"));
            let b = a.rhs("rand");
            let shifted: Vec<f64> = b.iter().map(|b| b + 0.25).collect();
            let mut x = vec![3.0; a.cells()];
            assert_eq!(solver.solve(&shifted, &mut x), Ok(status::OK), "{deflation}");
            let mean = x.iter().sum::<f64>() / n;
            assert!((mean - 3.0).abs() <= 1e-12, "{deflation}: {mean}");
            assert!(a.relative_residual(&b, &x) <= 1.5e-6, "{deflation}: relative to the norm of the projected b");
        }
    }
}

/// y = A x is accurate to rounding.
#[test]
fn products_with_the_matrix() {
    for backend in BACKENDS {
        for a in systems() {
            let x = random(a.cells(), 8);
            let y = Solver::of(&a, backend).multiply(&x);
            // With b = y, |b - A x| / |b| is the relative error of y.
            assert!(a.relative_residual(&y, &x) <= 1e-14);
        }
    }
}

/// M^-1 is symmetric and positive, also with deflation, so that a plain CG can use it.
#[test]
fn applications_of_the_preconditioner() {
    for backend in BACKENDS {
        for a in systems() {
            let [mut u, mut v] = [random(a.cells(), 1), random(a.cells(), 2)];
            for w in [&mut u, &mut v] {
                let mean = w.iter().sum::<f64>() / w.len() as f64;
                w.iter_mut().for_each(|w| *w -= mean);
            }
            for (preconditioner, _) in PRECONDITIONERS {
                for deflation in ["none", "levelset"] {
                    let options =
                        format!("{backend} preconditioner={preconditioner} deflation={deflation} precision=f64");
                    let solver = Solver::of(&a, &options);
                    let (mu, mv) = (solver.apply(&u), solver.apply(&v));
                    let (uv, vu) = (dot(&v, &mu), dot(&u, &mv));
                    let size = norm2(&u) * norm2(&mv);
                    assert!((uv - vu).abs() <= 1e-10 * size, "{options}: {uv:e} and {vu:e}");
                    assert!(dot(&u, &mu) > 0.0 && dot(&v, &mv) > 0.0, "{options}");
                }
            }
        }
    }
}

/// Labels of the caller are copied, and gaps have no effect. The labels of the bubbles give the regions that are found
/// without labels.
#[test]
fn regions_of_the_caller() {
    let a = TwoPhase::new("9", [32; 3], 1e-3);
    let b = a.rhs("rand");
    let run = |labels: Option<&dyn Fn(i32) -> i32>| {
        let solver = Solver::new(a.size, "preconditioner=jacobi deflation=levelset dilation=0");
        if let Some(number) = labels {
            let mut labels: Vec<i32> = (0..a.cells()).map(|c| if a.air[c] { number(bubble(c)) } else { -1 }).collect();
            solver.regions(Some(&labels)).unwrap();
            labels.fill(-7);
        }
        solver.factorize(&a).unwrap();
        assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS), 9);
        assert_eq!(solver.int(key::INFO_STRONG_COMPONENTS), 9);
        solver.solve_from_zero(&b);
        solver.int(common_key::INFO_ITERATIONS)
    };
    let found = run(None);
    assert_eq!(run(Some(&|label| label)), found);
    assert_eq!(run(Some(&|label| 1000 * label + 5)), found, "gaps");
    // The labels count as memory of the handle.
    let solver = Solver::of(&a, "");
    let before = solver.int(common_key::INFO_BYTES_HOST);
    solver.regions(Some(&vec![0; a.cells()])).unwrap();
    assert_eq!(solver.int(common_key::INFO_BYTES_HOST), before + 4 * a.cells() as i64);
    solver.regions(None).unwrap();
    assert_eq!(solver.int(common_key::INFO_BYTES_HOST), before);
}

/// A label that covers two tanks gives two regions.
#[test]
fn labels_across_components() {
    let mut a = TwoPhase::new("1", [24, 12, 12], 1e-3);
    // A wall without flow between i = 11 and 12, through the bubble.
    for c in (0..a.cells()).filter(|c| c % 24 == 11) {
        let face = std::mem::replace(&mut a.forward[0][c], 0.0);
        a.center[c] += face;
        a.center[c + 1] += face;
    }
    let solver = Solver::new(a.size, "preconditioner=jacobi deflation=levelset dilation=0");
    let labels: Vec<i32> = a.air.iter().map(|&air| if air { 3 } else { -1 }).collect();
    solver.regions(Some(&labels)).unwrap();
    solver.factorize(&a).unwrap();
    assert_eq!(solver.int(common_key::INFO_COMPONENTS), 2);
    assert_eq!(solver.int(common_key::INFO_SINGULAR_COMPONENTS), 2);
    assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS), 2);
    // A b with mean zero on both tanks.
    let mut b = random(a.cells(), 9);
    for tank in 0..2 {
        let of_tank = |c: &usize| usize::from(c % 24 > 11) == tank;
        let cells: Vec<usize> = (0..a.cells()).filter(of_tank).collect();
        let mean = cells.iter().map(|&c| b[c]).sum::<f64>() / cells.len() as f64;
        cells.iter().for_each(|&c| b[c] -= mean);
    }
    let (x, result) = solver.solve_from_zero(&b);
    assert_eq!(result, status::OK);
    assert!(a.relative_residual(&b, &x) <= 1.001e-6);
}

/// Solid cells are rows without couplings: x = b / center.
#[test]
fn solid_cells() {
    let a = TwoPhase::new("surf;obs=box", [20, 16, 18], 1e-3);
    let mut b = a.rhs("rand");
    b.iter_mut().zip(&a.solid).filter(|(_, solid)| **solid).for_each(|(b, _)| *b = 0.5);
    for (preconditioner, _) in PRECONDITIONERS {
        let solver = Solver::of(&a, &format!("preconditioner={preconditioner} rel_tol=1e-8 max_iter=20000"));
        let (x, result) = solver.solve_from_zero(&b);
        assert_eq!(result, status::OK, "{preconditioner}");
        assert!(a.relative_residual(&b, &x) <= 1.001e-8, "{preconditioner}");
        let worst =
            x.iter().zip(&a.solid).filter(|(_, solid)| **solid).map(|(x, _)| (x - 0.5).abs()).fold(0.0, f64::max);
        assert!(worst <= 1e-8 * norm2(&b), "{preconditioner}: {worst:e}");
    }
}

/// With one phase, nothing is deflated.
#[test]
fn one_phase() {
    let mut a = TwoPhase::new("1", [16; 3], 1.0);
    for scale in [1.0, 1e3] {
        a.center.iter_mut().chain(a.forward.iter_mut().flatten()).for_each(|v| *v *= scale);
        let solver = Solver::of(&a, "deflation=levelset preconditioner=jacobi");
        assert_eq!(solver.int(key::INFO_DEFLATION_VECTORS), 0);
        let b = a.rhs("rand");
        let (x, result) = solver.solve_from_zero(&b);
        assert_eq!(result, status::OK);
        assert!(a.relative_residual(&b, &x) <= 1.001e-6);
    }
}

struct Watched {
    reported: Vec<f64>,
    stop_at: i64,
}

unsafe extern "C-unwind" fn watch(context: *mut c_void, iteration: i64, residual: f64) -> i32 {
    // SAFETY: the tests pass a `Watched` that outlives the calls.
    let watched = unsafe { &mut *context.cast::<Watched>() };
    assert_eq!(iteration, watched.reported.len() as i64);
    watched.reported.push(residual);
    i32::from(iteration == watched.stop_at)
}

/// The monitor receives every residual from iteration 0 on, as the history stores them, and may stop the solve.
#[test]
fn monitors() {
    let [a, _] = systems();
    let b = a.rhs("rand");
    for backend in BACKENDS {
        let solver = Solver::of(&a, &format!("{backend} preconditioner=neumann"));
        let mut watched = Watched { reported: Vec::new(), stop_at: -1 };
        // SAFETY: a live handle; the context outlives the solves.
        outcome(unsafe { dpcg_set_monitor(solver.handle, Some(watch), user(&mut watched)) }).unwrap();
        assert_eq!(solver.solve_from_zero(&b).1, status::OK);
        assert_eq!(bits(&watched.reported), bits(&solver.history()));
        (watched.reported, watched.stop_at) = (Vec::new(), 4);
        let mut x = vec![0.0; a.cells()];
        assert_eq!(solver.solve(&b, &mut x), Ok(status::STOPPED));
        assert_eq!(solver.int(common_key::INFO_ITERATIONS), 4);
        let reported = solver.real(common_key::INFO_FINAL_RESIDUAL);
        assert!((reported - a.relative_residual(&b, &x)).abs() <= 1e-10 && max_abs(&x) > 0.0);
        // SAFETY: a live handle.
        outcome(unsafe { dpcg_set_monitor(solver.handle, None, null_mut()) }).unwrap();
    }
}

unsafe extern "C-unwind" fn keep_line(context: *mut c_void, _: i32, message: *const c_char) {
    // SAFETY: the test passes a list that outlives the calls; the message is NUL-terminated.
    let (lines, message) = unsafe { (&mut *context.cast::<Vec<String>>(), CStr::from_ptr(message)) };
    lines.push(message.to_string_lossy().into_owned());
}

/// The log has one line per solve, and one about couplings that leave the box.
#[test]
fn lines_of_the_log() {
    let a = TwoPhase::new("1", [7, 5, 6], 1e-3);
    let mut forward = a.forward.clone();
    forward[2][7 * 5 * 5 + 3] = -1.0;
    let solver = Solver::new(a.size, "verbosity=1 backend=cpu preconditioner=jacobi deflation=levelset");
    let mut lines: Vec<String> = Vec::new();
    outcome(common::rrbsolver_set_log(Some(keep_line), user(&mut lines))).unwrap();
    for _ in 0..2 {
        solver.factorize_arrays(&a.center, forward.each_ref().map(|f| &f[..])).unwrap();
    }
    solver.solve_from_zero(&a.rhs("rand"));
    // The list receives no further lines.
    outcome(common::rrbsolver_set_log(None, null_mut())).unwrap();
    // Other tests of this program may log lines too.
    let own: Vec<&String> = lines.iter().filter(|l| l.contains("7 x 5 x 6") || l.contains("top has 1 entry")).collect();
    assert_eq!(own.len(), 2, "{lines:?}");
    assert!(own[0].starts_with("dpcg: top has 1 entry that point out of the grid"), "{}", own[0]);
    assert!(own[1].starts_with("dpcg: 7 x 5 x 6, cpu jacobi levelset, "), "{}", own[1]);
}

/// Setup and solve times are separate results; eigenvalues are estimated from CG coefficients.
#[test]
fn results() {
    let [a, _] = systems();
    let solver = Solver::of(&a, "preconditioner=neumann deflation=subdomain");
    solver.solve_from_zero(&a.rhs("rand"));
    let [deflation, coarse, iterations] =
        [key::INFO_SECONDS_DEFLATION, key::INFO_SECONDS_COARSE, key::INFO_SECONDS_ITERATIONS].map(|k| solver.real(k));
    assert!(deflation > 0.0 && deflation <= solver.real(common_key::INFO_SECONDS_SETUP));
    assert!(coarse >= 0.0 && iterations > 0.0);
    assert!(coarse + iterations <= solver.real(common_key::INFO_SECONDS_SOLVE));
    let row_sum = solver.real(key::INFO_NEUMANN_ROW_SUM);
    assert!(row_sum > 0.5 && row_sum < 1.5, "{row_sum}: 1 in a phase, more beside a bubble of few cells");
    let (least, largest) = (solver.real(common_key::INFO_LAMBDA_MIN), solver.real(common_key::INFO_LAMBDA_MAX));
    assert!(0.0 < least && least < largest && largest < 4.0, "{least} {largest}");
    assert_eq!(solver.int(key::INFO_DEFLATION), 2);
    assert_eq!(solver.int(key::INFO_COARSE_SOLVER), 1);
    assert!(solver.int(key::INFO_REGIONS) > solver.int(key::INFO_DEFLATION_VECTORS));
}

/// One handle factorizes a sequence of matrices.
#[test]
fn a_handle_for_many_matrices() {
    let solver = Solver::new([17, 12, 15], "rel_tol=1e-8");
    for (set, contrast) in [("9", 1e-3), ("1", 1e-6), ("spray", 1e-2), ("9;dir=top", 1e-3), ("surf;obs=box", 1e-3)] {
        let a = TwoPhase::new(set, [17, 12, 15], contrast);
        solver.factorize(&a).unwrap();
        let b = a.rhs("rand");
        let (x, result) = solver.solve_from_zero(&b);
        assert_eq!(result, status::OK, "{set}");
        assert!(a.relative_residual(&b, &x) <= 1.001e-8, "{set}");
        let fresh = Solver::of(&a, "rel_tol=1e-8");
        assert_eq!(bits(&fresh.solve_from_zero(&b).0), bits(&x), "{set}: as by a new handle");
    }
}

/// dpcg_solve_once gives the results of a handle.
#[test]
fn in_one_call() {
    let [a, _] = systems();
    let b = a.rhs("rand");
    let solver = Solver::of(&a, "rel_tol=1e-7");
    let expected = solver.solve_from_zero(&b).0;
    let mut x = vec![0.0; a.cells()];
    let [nx, ny, nz] = a.size.map(|n| n as i64);
    let [e, n, t] = a.forward.each_ref().map(Vec::as_ptr);
    let once = |x: &mut [f64], max_iter| {
        let mut iterations = -1;
        // SAFETY: arrays of the size named.
        let result = outcome(unsafe {
            dpcg_solve_once(
                nx,
                ny,
                nz,
                a.center.as_ptr(),
                e,
                n,
                t,
                b.as_ptr(),
                x.as_mut_ptr(),
                1e-7,
                max_iter,
                &mut iterations,
            )
        });
        (result, iterations)
    };
    assert_eq!(once(&mut x, 1000), (Ok(status::OK), solver.int(common_key::INFO_ITERATIONS)));
    assert_eq!(bits(&x), bits(&expected));
    x.fill(0.0);
    assert_eq!(once(&mut x, 1), (Ok(status::NOT_CONVERGED), 1));
    expect_not_converged(1, a.relative_residual(&b, &x), "1e-7", ITERATION_LIMIT);
}
