//! `preconditioner=amg` on a device: iteration counts of another program (tests/golden/README.md) and of the CPU, and
//! further systems.

use crate::common::dpcg::Solver;
use crate::common::dpcg::{cut_in_two, random};
use crate::common::{bits, key, max_abs, max_difference, status};
use crate::device::{Rows, emulated};
use rrbsolver::options::info;
use rrbsolver_problems::two_phase::TwoPhase;

const AMG: &str = "backend=cuda preconditioner=amg";
const IN_USE: i64 = 7;

/// Solves from zero. Returns iterations and x, after checking that the true relative residual is at most `rel_tol`.
#[track_caller]
fn solved(solver: &Solver, a: &TwoPhase, b: &[f64], rel_tol: f64, what: &str) -> (i64, Vec<f64>) {
    let mut x = vec![0.0; b.len()];
    assert_eq!(solver.solve(b, &mut x).unwrap(), status::OK, "{what}");
    assert_eq!(solver.int(info::PRECONDITIONER), IN_USE, "{what}");
    let residual = a.relative_residual(b, &x);
    assert!(residual <= 1.001 * rel_tol, "{what}: residual {residual:e}");
    (solver.int(info::ITERATIONS), x)
}

/// The count may exceed that of the other program by one. The coarsest level of that program has 128 rows, while the
/// library inverts 1024 rows. An emulated device computes the small boxes and some of the others.
pub fn aggregation_of_golden_systems() {
    let mut rows = Rows::default();
    let table = include_str!("../golden/aggregation.csv");
    for row in table.lines().map(|line| line.split(',').collect::<Vec<&str>>()).filter(|row| row[6] == "gpu3") {
        let (set, contrast) = row[1]["set=".len()..].split_once(" con=").unwrap();
        let (set, n) = (set.replace(' ', ";"), row[2].parse().unwrap());
        if emulated() && n > 16 && !(contrast == "1e-6" && ["r200", "spray"].contains(&&*set)) {
            continue;
        }
        let expected: i64 = row[8].parse().unwrap();
        rows.row(&format!("{set} {n}^3 {contrast}"), || {
            let a = TwoPhase::new(&set, [n; 3], contrast.parse().unwrap());
            let b = a.rhs("rand");
            let found = solved(&Solver::of(&a, &format!("{AMG} deflation=none")), &a, &b, 1e-6, &set).0;
            println!("{set} {n}^3 {contrast}: {found} iterations, {expected} of the other program");
            assert!(found <= expected + 1, "{found} iterations for {expected}");
        });
    }
    rows.end();
}

/// Tests single cells, lines, planes and obstacles, with regular and singular systems, in single and double precision.
pub fn aggregation_of_awkward_boxes() {
    let mut rows = Rows::default();
    for size in
        [[1, 1, 1], [2, 1, 1], [1, 3, 1], [1, 1, 7], [40, 1, 1], [1, 12, 9], [2, 2, 2], [13, 9, 17], [1, 3000, 1]]
    {
        for set in ["9;dir=top", "9", "surf;obs=box;dir=top"] {
            if set == "9" && size == [1, 1, 1] {
                continue; // no row
            }
            rows.row(&format!("{set} {size:?}"), || {
                let a = TwoPhase::new(set, size, 1e-3);
                // With a single cell, b minus its mean would be zero.
                let b = if a.cells() == 1 { vec![3.0] } else { a.rhs("rand") };
                for (precision, rel_tol) in [("f32", 1e-6), ("f64", 1e-10)] {
                    let options = format!("preconditioner=amg precision={precision} rel_tol={rel_tol}");
                    let found = solved(&Solver::of(&a, &format!("backend=cuda {options}")), &a, &b, rel_tol, precision);
                    let cpu = Solver::of(&a, &format!("backend=cpu {options}"));
                    let mut x = vec![0.0; b.len()];
                    assert_eq!(cpu.solve(&b, &mut x).unwrap(), status::OK);
                    // The device uses matching by handshakes, Jacobi smoothing and a fixed matrix M. The CPU uses
                    // pairwise aggregation, Gauss-Seidel and a K-cycle. The counts may therefore differ by a factor of
                    // 2.
                    let most = 2 * cpu.int(info::ITERATIONS) + 3;
                    assert!(found.0 <= most, "{precision}: {} iterations, at most {most}", found.0);
                }
            });
        }
    }
    rows.end();
}

/// Several singular components, with vectors for bubbles and labels, fused and unfused; every run is bitwise identical.
pub fn aggregation_of_components() {
    let mut rows = Rows::default();
    let size = if emulated() { [14, 13, 12] } else { [20, 18, 17] };
    for (name, a) in [
        ("one", TwoPhase::new("9", size, 1e-6)),
        ("two", cut_in_two(TwoPhase::new("9", size, 1e-3))),
        ("regular", TwoPhase::new("r200;dir=top", size, 1e-6)),
    ] {
        let b = multiplied(&a);
        for options in ["", "precision=f64", "fusion=off", "deflation=levelset", "deflation=subdomain subdomains_x=3"] {
            rows.row(&format!("{name} {options}"), || {
                let solver = Solver::of(&a, &format!("{AMG} {options}"));
                let singular = solver.int(key::INFO_SINGULAR_COMPONENTS);
                assert_eq!(singular, ["regular", "one", "two"].iter().position(|n| *n == name).unwrap() as i64);
                let (count, x) = solved(&solver, &a, &b, 1e-6, name);
                assert!(count <= 22, "{count} iterations");
                assert_eq!(bits(&solved(&solver, &a, &b, 1e-6, name).1), bits(&x));
            });
        }
    }
    rows.end();
}

/// Returns b = A x for a random x, so that b is compatible on every component.
fn multiplied(a: &TwoPhase) -> Vec<f64> {
    Solver::of(a, "backend=cpu preconditioner=jacobi deflation=none").multiply(&random(a.cells(), 5))
}

/// M is symmetric and positive, also with deflation vectors.
pub fn aggregation_applied() {
    for set in ["9", "r200;dir=top"] {
        let a = TwoPhase::new(set, [14, 13, 12], 1e-3);
        for deflation in ["none", "levelset"] {
            let solver = Solver::of(&a, &format!("{AMG} precision=f64 deflation={deflation}"));
            let zero_sum = |seed| {
                let v = random(a.cells(), seed);
                let mean = v.iter().sum::<f64>() / v.len() as f64;
                v.iter().map(|v| v - mean).collect::<Vec<f64>>()
            };
            let [u, v] = [1, 2].map(zero_sum);
            let [mu, mv] = [&u, &v].map(|r| solver.apply(r));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert!(dot(&u, &mu) > 0.0 && dot(&v, &mv) > 0.0, "{set} {deflation}");
            let [one, other] = [dot(&u, &mv), dot(&v, &mu)];
            let size = (dot(&u, &mu) * dot(&v, &mv)).sqrt();
            assert!((one - other).abs() <= 1e-11 * size, "{set} {deflation}: {one:e} {other:e}");
            // M^-1 is linear.
            let both: Vec<f64> = u.iter().zip(&v).map(|(u, v)| u - 3.0 * v).collect();
            let sum: Vec<f64> = mu.iter().zip(&mv).map(|(u, v)| u - 3.0 * v).collect();
            assert!(max_difference(&solver.apply(&both), &sum) <= 1e-11 * max_abs(&sum), "{set} {deflation}");
        }
    }
}

/// One handle with a sequence of matrices and preconditioners.
pub fn aggregation_again() {
    let size = if emulated() { [13, 12, 11] } else { [18, 17, 16] };
    let matrices = [("9", 1e-3), ("r200;dir=top", 1e-6), ("surf;obs=box", 1e-3)];
    let matrices = matrices.map(|(set, contrast)| TwoPhase::new(set, size, contrast));
    let solver = Solver::new(size, AMG);
    let (mut found, mut bytes) = (Vec::new(), Vec::new());
    for round in 0..2 {
        for a in &matrices {
            let b = a.rhs("rand");
            solver.factorize(a).unwrap();
            let (_, x) = solved(&solver, a, &b, 1e-6, "again");
            assert_eq!(bits(&x), bits(&solved(&Solver::of(a, AMG), a, &b, 1e-6, "fresh").1), "{round}");
            found.push(solver.int(info::ITERATIONS));
            solver.options("preconditioner=multigrid").unwrap();
            solver.factorize(a).unwrap();
            solver.options("preconditioner=amg").unwrap();
        }
        bytes.push(solver.int(info::BYTES_DEVICE));
    }
    assert_eq!(found[..3], found[3..]);
    assert_eq!(bytes[0], bytes[1], "the memory of the ones before does");
}
