//! `precision=single` on a device: residuals in double precision, iteration counts of a plain program in single
//! precision, and refusals.

use super::{poisson, x_of};
use crate::common::sparse::*;
use crate::common::{bits, status};
use crate::device::Rows;
use rrbsolver_problems::sparse::system;

/// `RRB_PRECISION_SINGLE`.
const SINGLE: i64 = 5;
const REL_TOL: f64 = 1e-5;

fn entries_of(name: &str) -> Entries {
    let a = system(name).unwrap();
    Entries { rows: a.n, cols: a.n, entries: a.entries }
}

/// Returns a strictly dominant matrix without symmetry.
fn dominant(n: usize) -> Entries {
    let mut a = Entries::random(n, n, 3 * n, 11 * n as u64);
    a.entries.extend((0..n).map(|i| (i, i, 9.0)));
    a
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Returns b - A x.
fn residual(a: &Entries, b: &[f64], x: &[f64]) -> Vec<f64> {
    let mut r = b.to_vec();
    a.entries.iter().for_each(|&(i, j, value)| r[i] -= value * x[j]);
    r
}

/// Solves in single precision, and checks the result with the residual in double precision. Returns x and the number of
/// iterations.
fn solve(s: &Solver, a: &Entries, b: &[f64]) -> (Vec<f64>, i64) {
    s.factorize().unwrap();
    let mut x = vec![0.0; a.rows];
    assert_eq!(s.solve(b, &mut x).unwrap(), status::OK);
    assert_eq!(s.int(key::INFO_PRECISION), SINGLE);
    let (found, reported) = (norm(&residual(a, b, &x)) / norm(b), s.real(key::FINAL_RESIDUAL));
    // The rounding errors of a residual in double precision are below 1e-10 of b for these systems.
    assert!(found <= REL_TOL + 1e-10, "residual {found:e}");
    assert!((found - reported).abs() <= 1e-10, "residual {found:e}, reported as {reported:e}");
    (x, s.int(key::ITERATIONS))
}

/// Counts the iterations of conjugate gradients in single precision: x, scalars and residuals of restarts are in double
/// precision. M is the diagonal of A, or I.
fn plain_program(a: &Entries, b: &[f64], jacobi: bool) -> i64 {
    let n = a.rows;
    let mut d = vec![1.0f32; n];
    if jacobi {
        let mut diagonal = vec![0.0; n];
        a.entries.iter().filter(|e| e.0 == e.1).for_each(|e| diagonal[e.0] += e.2);
        d = diagonal.iter().map(|d| (1.0 / d) as f32).collect();
    }
    let inner = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let (mut x, mut count, threshold) = (vec![0.0; n], 0, REL_TOL * norm(b));
    loop {
        let exact = residual(a, b, &x);
        if norm(&exact) <= threshold {
            return count;
        }
        let mut r: Vec<f32> = exact.iter().map(|r| *r as f32).collect();
        let precondition = |r: &[f32]| -> Vec<f32> { r.iter().zip(&d).map(|(r, d)| r * d).collect() };
        let mut p = precondition(&r);
        let mut rho = inner(&r, &p);
        while inner(&r, &r).sqrt() > threshold {
            count += 1;
            let mut q = vec![0.0f32; n];
            a.entries.iter().for_each(|&(i, j, value)| q[i] += value as f32 * p[j]);
            let alpha = rho / inner(&p, &q);
            for i in 0..n {
                x[i] += alpha * f64::from(p[i]);
                r[i] = (f64::from(r[i]) - alpha * f64::from(q[i])) as f32;
            }
            let z = precondition(&r);
            let before = std::mem::replace(&mut rho, inner(&r, &z));
            for (p, z) in p.iter_mut().zip(z) {
                *p = (f64::from(z) + rho / before * f64::from(*p)) as f32;
            }
        }
    }
}

/// The iteration counts of cg are those of a plain program in each format with a kernel.
pub fn counts_in_single() {
    let mut failed = Rows::default();
    for matrix in ["poisson2d_24", "poisson3d_9", "blocks3_24"] {
        let a = entries_of(matrix);
        let (s, b) = (a.solver(), x_of(a.rows));
        for m in ["none", "jacobi"] {
            let expected = plain_program(&a, &b, m == "jacobi");
            for format in ["csr", "sell", "dia format_memory=99999999999", "ell", "bsr block_size=3", "auto"] {
                failed.row(&format!("{matrix} {m} {format}"), || {
                    s.options("backend=cuda precision=single rel_tol=1e-5 solver=cg").unwrap();
                    s.options(&format!("preconditioner={m} format={format}")).unwrap();
                    let (_, count) = solve(&s, &a, &b);
                    // The orders of the sums differ, and a GPU fuses multiplications and additions.
                    assert!((count - expected).abs() <= 1, "{count} iterations instead of {expected}");
                });
            }
        }
    }
    failed.end();
}

/// All methods and preconditioners solve to the tolerance in double precision, for awkward numbers of rows. Repeated
/// solves are bitwise identical. M^-1 is that of `precision=f64`, except for rounding.
pub fn methods_in_single() {
    let mut failed = Rows::default();
    let symmetric = [1, 2, 12].map(|n| (poisson(n).n, true));
    let unsymmetric = [1, 2, 3, 5, 17, 64, 65].map(|n| (n, false));
    for (n, is_symmetric) in symmetric.into_iter().chain(unsymmetric) {
        let a = if is_symmetric { entries_of(&format!("poisson2d_{}", n.isqrt())) } else { dominant(n) };
        let (s, b) = (a.solver(), x_of(n));
        for (options, needs_symmetry) in [
            ("auto preconditioner=auto", false),
            ("cg preconditioner=none", true),
            ("cg preconditioner=jacobi", true),
            ("cg preconditioner=neumann", true),
            ("cg preconditioner=chebyshev", true),
            ("cg preconditioner=amg", true),
            ("cg preconditioner=ssor", true),
            ("cg preconditioner=ic0", true),
            ("steepest_descent preconditioner=ic0", true),
            ("minres preconditioner=jacobi", true),
            ("bicg preconditioner=neumann", false),
            ("bicg preconditioner=chebyshev transpose=copy", false),
            ("bicg preconditioner=ilu0", false),
            ("bicgstab preconditioner=chebyshev", false),
            ("gmres preconditioner=jacobi", false),
            ("gmres restart=20 preconditioner=none", false),
            ("idr preconditioner=none", false),
            ("idr preconditioner=ilu0", false),
            ("jacobi preconditioner=none", false),
            ("gauss_seidel preconditioner=none", false),
            ("sor preconditioner=none", false),
        ] {
            if needs_symmetry && !is_symmetric {
                continue;
            }
            failed.row(&format!("{n} rows, {options}"), || {
                s.options("backend=cuda rel_tol=1e-5 ordering=multicolour max_iter=3000").unwrap();
                s.options(&format!("precision=single solver={options}")).unwrap();
                let (x, count) = solve(&s, &a, &b);
                assert_eq!(solve(&s, &a, &b), (x.clone(), count));
                let fresh = a.solver();
                fresh.options("backend=cuda rel_tol=1e-5 ordering=multicolour max_iter=3000").unwrap();
                fresh.options(&format!("precision=single solver={options}")).unwrap();
                assert_eq!(bits(&solve(&fresh, &a, &b).0), bits(&x));
                let Ok(z) = s.apply(&b) else { return };
                s.options("precision=f64").unwrap();
                s.factorize().unwrap();
                let exact = s.apply(&b).unwrap();
                let error = norm(&z.iter().zip(&exact).map(|(a, b)| a - b).collect::<Vec<_>>());
                // These M^-1 amplify rounding errors, of 6e-8, by less than 100.
                assert!(error <= 6e-6 * norm(&exact), "M^-1 r differs by {error:e} of {:e}", norm(&exact));
            });
        }
    }
    failed.end();
}

/// Systems whose x in single precision could not meet the tolerance, and an indefinite system: the rounding of x to
/// single precision alone changes the residual of Poisson's equation by more than the tolerance.
pub fn hard_systems_in_single() {
    let a = entries_of("poisson2d_100");
    let (s, b) = (a.solver(), vec![1.0; a.rows]);
    for solver in ["cg", "idr"] {
        s.options(&format!("backend=cuda precision=single rel_tol=1e-5 solver={solver}")).unwrap();
        let (x, _) = solve(&s, &a, &b);
        let rounded: Vec<f64> = x.iter().map(|x| f64::from(*x as f32)).collect();
        let rounded = norm(&residual(&a, &b, &rounded)) / norm(&b);
        assert!(rounded > REL_TOL, "{solver}: the rounded x has the residual {rounded:e}");
    }
    let n = 30;
    let mut entries: Vec<(usize, usize, f64)> = (0..n).map(|i| (i, i, 1.0)).collect();
    (1..n).for_each(|i| entries.extend([(i, i - 1, 0.8), (i - 1, i, 0.8)]));
    let a = Entries::new(n, n, &entries);
    let s = a.solver();
    s.options("backend=cuda precision=single rel_tol=1e-5 preconditioner=jacobi").unwrap();
    solve(&s, &a, &x_of(n));
    assert_eq!(s.int(key::INFO_SOLVER), 6, "minres continues after the breakdown of cg");
    // One iteration does not suffice, and the report says so.
    s.options("solver=minres max_iter=1").unwrap();
    s.factorize().unwrap();
    let mut x = vec![0.0; n];
    assert_eq!(s.solve(&x_of(n), &mut x).unwrap(), status::NOT_CONVERGED);
    let found = norm(&residual(&a, &x_of(n), &x)) / norm(&x_of(n));
    assert!(found > REL_TOL && (found - s.real(key::FINAL_RESIDUAL)).abs() <= 1e-10, "{found:e}");
}

/// Single precision on the CPU, tolerances below 1e-5, and matrices out of range are errors.
pub fn refusals_of_single() {
    let a = entries_of("poisson2d_5");
    let s = a.solver();
    let mut x = vec![0.0; a.rows];
    s.options("backend=cpu precision=single").unwrap();
    s.factorize().unwrap_err().expect(status::UNSUPPORTED, &["precision=single", "backend=cuda"]);
    s.options("backend=cuda").unwrap();
    s.factorize().unwrap();
    for rel_tol in ["1e-6", "9.9e-6", "1e-15"] {
        s.options(&format!("rel_tol={rel_tol}")).unwrap();
        s.solve(&x_of(a.rows), &mut x).unwrap_err().expect(status::ARGUMENT, &["rel_tol", "1e-5", "precision=single"]);
    }
    assert_eq!(x, vec![0.0; a.rows]);
    s.options("rel_tol=1e-5").unwrap();
    assert_eq!(s.solve(&x_of(a.rows), &mut x).unwrap(), status::OK);
    for factor in [1e-40, 1e40] {
        let mut scaled = a.clone();
        scaled.entries.iter_mut().for_each(|entry| entry.2 *= factor);
        let s = scaled.solver();
        s.options("backend=cuda precision=single rel_tol=1e-5").unwrap();
        s.factorize().unwrap_err().expect(status::MATRIX, &["precision=single", "infinity norm", "precision=f64"]);
    }
}
