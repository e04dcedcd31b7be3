//! Part of `tests/dpcg/contract.rs` for results of a solve: eigenvalue estimates and the preconditioned norm.

use super::common::dpcg::*;
use super::common::{dot, key as common_key, status};

/// Eigenvalue estimates of CG with amg, whose flexible beta may be negative by rounding. They are finite, positive and
/// ordered, or 0 if fewer than two steps had positive coefficients.
#[test]
fn eigenvalue_estimates_are_positive_or_not_available() {
    let mut available = 0;
    for n in 2..=30 {
        for v in 0..10 {
            let mut a = TwoPhase::of_air(vec![false; n], "", [n, 1, 1], 1.0);
            a.center.fill(2.2 + f64::from(v) * 0.3);
            let b: Vec<f64> = (0..n).map(|i| ((i * 7919 + v as usize * 13) % 101) as f64 / 101.0 - 0.5).collect();
            let solver = Solver::of(&a, "preconditioner=amg deflation=none rel_tol=1e-14");
            solver.solve_from_zero(&b);
            let [low, high] = [1009, 1010].map(|key| solver.real(key));
            let right = (low, high) == (0.0, 0.0) || low > 0.0 && high.is_finite() && low <= high;
            assert!(right, "{n} cells, center {}: {low} {high}", a.center[0]);
            available += usize::from(high > 0.0);
        }
    }
    assert!(available > 100, "{available} of 290");
}

/// A closed box with a bubble of conductance 1e7. The row sums are 9e-13 of the center, so that the matrix counts as
/// singular.
///
/// With `norm=preconditioned`, a solve reports the norm of P M^-1 P, which `dpcg_apply` applies, combined with the mean
/// of r, `mean(r)^2 sum_i 1 / center_i`, which P removes.
#[test]
fn the_preconditioned_norm_is_of_projected_residuals() {
    let n = 10;
    let inside = |c: usize| [c % n, c / n % n, c / (n * n)].iter().all(|at| (3..6).contains(at));
    let mut a = TwoPhase::of_air(vec![false; n * n * n], "", [n; 3], 1.0);
    for (d, step) in [1, n, n * n].into_iter().enumerate() {
        for c in (0..a.cells()).filter(|&c| inside(c)) {
            if inside(c + step) {
                a.forward[d][c] = -1e7;
            }
        }
    }
    a.center.fill(0.0);
    for (p, q, value) in a.couplings() {
        a.center[p] -= value;
        a.center[q] -= value;
    }
    a.center.iter_mut().for_each(|center| *center *= 1.0 + 9e-13);
    let mut b: Vec<f64> = (0..a.cells()).map(|k| (k * 7919 % 1009) as f64 / 1009.0).collect();
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let of_b = mean(&b);
    b.iter_mut().for_each(|b| *b -= of_b);
    for preconditioner in ["multigrid precision=f64", "ic0", "neumann", "jacobi"] {
        for backend in ["threads=1", "backend=reference"] {
            let options = format!("preconditioner={preconditioner} deflation=none norm=preconditioned rel_tol=1.5e-7");
            let solver = Solver::of(&a, &format!("{options} {backend}"));
            assert_eq!(solver.int(common_key::INFO_SINGULAR_COMPONENTS), 1);
            let (x, status) = solver.solve_from_zero(&b);
            assert_eq!(status, status::OK, "{options} {backend}");
            let norm = |v: &[f64]| dot(v, &solver.apply(v)).sqrt();
            let r: Vec<f64> = solver.multiply(&x).iter().zip(&b).map(|(y, b)| b - y).collect();
            let constant = mean(&r) * a.center.iter().map(|c| 1.0 / c).sum::<f64>().sqrt();
            let (expected, reported) =
                (norm(&r).hypot(constant) / norm(&b), solver.real(common_key::INFO_FINAL_RESIDUAL));
            // The products of the bubble, of magnitude 1e7, have rounding errors of 1e-16 relative, which are 1 % of
            // the norm of r.
            assert!((reported / expected - 1.0).abs() < 0.02, "{options} {backend}: {reported:e}, true {expected:e}");
        }
    }
}
