//! Fused iterations of deflated PCG compared with unfused steps (`fusion=off`), with `reference`, and with the plain
//! loops of `tests/oracle`: equal iteration counts. Both forms are bitwise identical for any number of threads.

use crate::common;
use common::dpcg::*;
use common::{bits, key as common_key, max_abs, max_difference, status};
use rrbsolver_oracle::pcg::{Deflation, pcg};
use rrbsolver_oracle::{System, cell, incomplete, series, vertex};

/// Neumann series of several orders, and other preconditioners. Multigrid is in double precision, so that rounding in
/// single precision has no effect.
const METHODS: [&str; 8] = [
    "jacobi",
    "neumann order=1",
    "neumann order=2",
    "neumann order=5",
    "ric",
    "multigrid coarsening=vertex precision=f64",
    "multigrid coarsening=cell precision=f64",
    "amg precision=f64",
];

const DEFLATIONS: [&str; 4] = ["none", "subdomain", "levelset", "levelset_subdomain"];

/// Boxes of more than 16,384 cells, the smallest size for several threads: planes that are lines, a single plane, odd
/// sizes.
const SHARED: [[usize; 3]; 3] = [[1, 150, 110], [150, 110, 1], [29, 31, 23]];

/// Boxes that one thread computes.
const SMALL: [[usize; 3]; 4] = [[2, 2, 2], [1, 12, 9], [13, 9, 1], [17, 12, 15]];

/// A box with many pieces per thread.
const LARGE: [usize; 3] = [50, 77, 63];

/// Creates a system with bubbles, also in the middle planes.
fn system(size: [usize; 3]) -> TwoPhase {
    TwoPhase::new("27", size, 1e-2)
}

/// Calls `f` for each method with each deflation.
fn each(mut f: impl FnMut(usize, usize, &str)) {
    for (m, method) in METHODS.iter().enumerate() {
        for (d, deflation) in DEFLATIONS.iter().enumerate() {
            f(m, d, &format!("preconditioner={method} deflation={deflation}"));
        }
    }
}

/// Returns x after ten iterations or at 1e-12, and the number of iterations to 1e-2. On up to 128 cells, amg is a
/// direct solver: one iteration reduces the residual to 5e-14 |b|, and rounding alone determines later directions.
fn solved(a: &TwoPhase, b: &[f64], options: &str) -> (Vec<f64>, i64) {
    let solver = Solver::of(a, &format!("{options} rel_tol=1e-12 max_iter=10"));
    let begun = solver.solve_from_zero(b).0;
    solver.options("rel_tol=1e-2 max_iter=2000").unwrap();
    let (x, result) = solver.solve_from_zero(b);
    assert_eq!(result, status::OK, "{options}");
    assert!(a.relative_residual(b, &x) <= 1.001e-2, "{options}");
    (begun, solver.int(common_key::INFO_ITERATIONS))
}

const UNFUSED: &str = "backend=cpu threads=2 fusion=off";

/// Compares fused iterations with the options in `others`.
fn compare(a: &TwoPhase, options: &str, others: &[&str]) {
    let b = a.rhs("rand");
    let (x, count) = solved(a, &b, &format!("backend=cpu threads=2 fusion=on {options}"));
    // The reference backend has no aggregation.
    let has = |other: &&&str| !options.contains("amg") || !other.contains("reference");
    for other in others.iter().filter(has) {
        let (y, expected) = solved(a, &b, &format!("{other} {options}"));
        let off = max_difference(&x, &y) / max_abs(&y).max(f64::MIN_POSITIVE);
        assert_eq!(count, expected, "{:?} {options}: against {other}", a.size);
        // The summation order differs: rounding errors of 1e-16 x times their growth in ten iterations. The growth is
        // at most the condition number of A, which is below 1e6 for these boxes at this contrast.
        assert!(off <= 1e-10, "{:?} {options}: {off:e} off {other}", a.size);
    }
}

#[test]
fn fused_as_the_unfused_steps() {
    // Every pair of a method and a deflation is tested on one or two of the boxes.
    for (k, size) in SHARED.into_iter().enumerate() {
        let a = system(size);
        each(|m, d, options| {
            if (m + d + k) % 2 == 0 {
                compare(&a, options, &[UNFUSED]);
            }
        });
    }
    for size in SMALL {
        let a = system(size);
        each(|_, _, options| compare(&a, options, &[UNFUSED, "backend=reference"]));
    }
    // Each method is tested with one deflation, such that all deflations occur.
    let a = system(LARGE);
    each(|m, d, options| {
        if d == (m + 1) % DEFLATIONS.len() {
            compare(&a, options, &[UNFUSED]);
        }
    });
}

/// A preconditioner: computes z = M^-1 r.
type Applied<'a> = Box<dyn FnMut(&[f64], &mut [f64]) + 'a>;

/// Returns options and the plain loops of the same preconditioner.
fn plain_methods(a: &System) -> Vec<(&'static str, Applied<'_>)> {
    let bounds = vertex::Bounds { semi: 3.0, coarsest: 1000, singular: 0.0 };
    let (ic, ric) = (incomplete::Incomplete::new(a, 0.0), incomplete::Incomplete::new(a, 0.97));
    let (vertex, cell) = (vertex::Vertex::new(a, 2, bounds), cell::CellCentred::new(a, 1, 64));
    vec![
        ("jacobi", Box::new(|r, z| series::neumann(a, 0, r, z))),
        ("neumann order=1", Box::new(|r, z| series::neumann(a, 1, r, z))),
        ("neumann order=4", Box::new(|r, z| series::neumann(a, 4, r, z))),
        ("ic0", Box::new(move |r, z| ic.apply(a, r, z))),
        ("ric", Box::new(move |r, z| ric.apply(a, r, z))),
        ("multigrid coarsening=vertex precision=f64", Box::new(move |r, z| vertex.apply(r, z))),
        ("multigrid coarsening=cell sweeps=1 precision=f64", Box::new(move |r, z| cell.apply(r, z))),
    ]
}

#[test]
fn fused_as_the_oracle() {
    for size in SMALL {
        let a = TwoPhase::new("27;dir=top", size, 1e-2);
        let (system, b) = (System::of(&a), a.rhs("rand"));
        for (method, mut m) in plain_methods(&system) {
            for deflation in ["none", "levelset"] {
                let groups = (deflation == "levelset").then(|| Deflation::of_groups(&system, 30.0));
                let options = format!("preconditioner={method} deflation={deflation}");
                let (x, count) = solved(&a, &b, &format!("backend=cpu threads=2 {options}"));
                let (y, _) = pcg(&system, &mut m, groups.as_ref(), &b, (1e-12, 10));
                let (_, expected) = pcg(&system, &mut m, groups.as_ref(), &b, (1e-2, 2000));
                assert_eq!(count, expected as i64, "{size:?} {options}");
                let off = max_difference(&x, &y) / max_abs(&y).max(f64::MIN_POSITIVE);
                // As in `compare`.
                assert!(off <= 1e-10, "{size:?} {options}: {off:e}");
            }
        }
    }
}

/// Returns the bits of x and of the residuals after a few iterations.
fn begun(a: &TwoPhase, b: &[f64], options: &str) -> (Vec<u64>, Vec<u64>) {
    let solver = Solver::of(a, &format!("backend=cpu rel_tol=1e-14 max_iter=5 {options}"));
    let x = solver.solve_from_zero(b).0;
    (bits(&x), bits(&solver.history()))
}

/// Compares the results of `options` with 1, 2, 3 and 7 threads.
fn compare_threads(a: &TwoPhase, options: &str) {
    let b = a.rhs("rand");
    let one = begun(a, &b, &format!("threads=1 {options}"));
    for threads in [2, 3, 7] {
        let other = begun(a, &b, &format!("threads={threads} {options}"));
        assert!(one == other, "{:?} {options}: other bits with {threads} threads", a.size);
    }
}

#[test]
fn threads_give_the_same_bits() {
    for (k, size) in SHARED.into_iter().enumerate() {
        let a = system(size);
        each(|m, d, options| {
            let fusion = ["on", "off"][(m + d + k) % 2];
            compare_threads(&a, &format!("fusion={fusion} {options}"));
        });
    }
    let a = system(LARGE);
    each(|m, d, options| {
        if d == (m + 1) % DEFLATIONS.len() {
            compare_threads(&a, options);
        }
    });
    // Default precisions and deflations.
    let a = TwoPhase::new("9", [50, 41, 37], 1e-3);
    for (preconditioner, _) in PRECONDITIONERS {
        compare_threads(&a, &format!("preconditioner={preconditioner} max_iter=40"));
    }
}
