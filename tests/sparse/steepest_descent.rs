//! Steepest descent, compared with a plain program.

use crate::common;

use common::sparse::*;
use common::status;
use rrbsolver_problems::sparse::system;

/// Runs steepest descent (the 2008 thesis, (3.14) and (3.15)) from x = 0 to 1e-6 of the norm of b. `m` computes M^-1 r.
/// Returns the number of iterations.
fn plain(a: &Entries, b: &[f64], m: impl Fn(&[f64]) -> Vec<f64>) -> i64 {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (mut r, mut count) = (b.to_vec(), 0);
    while dot(&r, &r) > 1e-12 * dot(b, b) {
        let z = m(&r);
        let mut q = vec![0.0; a.rows];
        a.entries.iter().for_each(|&(i, j, value)| q[i] += value * z[j]);
        let alpha = dot(&r, &z) / dot(&z, &q);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        count += 1;
    }
    count
}

/// Solves with M = (D + L) D^-1 (D + L').
fn symmetric_gauss_seidel(a: &Entries, r: &[f64]) -> Vec<f64> {
    let n = a.rows;
    let mut rows = vec![Vec::new(); n];
    a.entries.iter().for_each(|&(i, j, value)| rows[i].push((j, value)));
    let d: Vec<f64> = (0..n).map(|i| rows[i].iter().filter(|e| e.0 == i).map(|e| e.1).sum()).collect();
    let mut z = vec![0.0; n];
    for i in 0..n {
        let sum: f64 = rows[i].iter().filter(|e| e.0 < i).map(|e| e.1 * z[e.0]).sum();
        z[i] = (r[i] - sum) / d[i];
    }
    for i in (0..n).rev() {
        let sum: f64 = rows[i].iter().filter(|e| e.0 > i).map(|e| e.1 * z[e.0]).sum();
        z[i] -= sum / d[i];
    }
    z
}

/// The counts are equal: on these matrices, rounding changes the residual by far less than an iteration does.
#[test]
fn counts_are_those_of_a_plain_program() {
    for name in ["poisson2d_20", "poisson3d_20", "random_dominant_symmetric_2000_8"] {
        let system = system(name).unwrap();
        let a = Entries { rows: system.n, cols: system.n, entries: system.entries };
        let solver = a.solver();
        let b = solver.product(&vec![1.0; a.rows], false).unwrap();
        let mut d = vec![0.0; a.rows];
        a.entries.iter().filter(|e| e.0 == e.1).for_each(|e| d[e.0] += e.2);
        let divide = |r: &[f64]| r.iter().zip(&d).map(|(r, d)| r / d).collect::<Vec<_>>();
        let expected = [
            ("none", plain(&a, &b, <[f64]>::to_vec)),
            ("jacobi", plain(&a, &b, divide)),
            ("ssor", plain(&a, &b, |r| symmetric_gauss_seidel(&a, r))),
        ];
        for (preconditioner, count) in expected {
            let options = format!("solver=steepest_descent preconditioner={preconditioner} max_iter=10000");
            solver.options(&options).unwrap();
            solver.factorize().unwrap();
            let mut x = vec![0.0; a.rows];
            assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{name} {preconditioner}");
            assert_eq!(solver.int(key::ITERATIONS), count, "{name} {preconditioner}");
        }
    }
}

/// Every preconditioner of cg; amg, whose cycle is not linear, too. Indefinite matrices are refused.
#[test]
fn preconditioners_and_breakdowns() {
    let of = |name: &str| {
        let system = system(name).unwrap();
        Entries { rows: system.n, cols: system.n, entries: system.entries }
    };
    let a = of("poisson2d_20");
    let (solver, b) = (a.solver(), vec![1.0; a.rows]);
    for preconditioner in ["auto", "none", "jacobi", "ssor", "ic0", "ilu0", "neumann", "chebyshev", "amg"] {
        let options = format!("solver=steepest_descent preconditioner={preconditioner} max_iter=3000");
        solver.options(&options).unwrap();
        solver.factorize().unwrap();
        let mut x = vec![0.0; a.rows];
        assert_eq!(solver.solve(&b, &mut x).unwrap(), status::OK, "{preconditioner}");
    }
    // The smallest eigenvalue is 4 - 4 cos(pi / 21) - 0.5 < 0; the smooth b has a component of its vector.
    let mut shifted = of("poisson2d_20");
    shifted.entries.iter_mut().filter(|e| e.0 == e.1).for_each(|e| e.2 -= 0.5);
    let solver = shifted.solver();
    solver.options("solver=steepest_descent preconditioner=none").unwrap();
    solver.factorize().unwrap();
    let mut x = vec![0.0; a.rows];
    let failure = solver.solve(&b, &mut x).unwrap_err();
    failure.expect(status::BREAKDOWN, &["p'Ap = -", "the matrix is indefinite; use solver=minres"]);
}
