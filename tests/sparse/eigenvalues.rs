//! Part of `tests/sparse/methods.rs`: eigenvalue estimates of a solve.

use super::common::sparse::*;
use super::{entries, rhs};
use rrbsolver_problems::sparse::five_points;

const LAMBDA_MIN: i32 = 1009;
const LAMBDA_MAX: i32 = 1010;

/// Eigenvalue estimates of CG with amg, whose flexible beta may be negative by rounding. They are finite, positive and
/// ordered, or 0 if fewer than two steps had positive coefficients. Tridiagonal matrices, with 30 diagonals per size.
#[test]
fn eigenvalue_estimates_are_positive_or_not_available() {
    let mut available = 0;
    for n in 2..=30 {
        for v in 0..30 {
            let center = 2.2 + f64::from(v) * 0.1;
            let near = (1..n).flat_map(|i| [(i, i - 1, -1.0), (i - 1, i, -1.0)]);
            let a = Entries::new(n, n, &(0..n).map(|i| (i, i, center)).chain(near).collect::<Vec<_>>());
            let b: Vec<f64> = (0..n).map(|i| ((i * 7919 + v as usize * 13) % 101) as f64 / 101.0 - 0.5).collect();
            let s = a.solver();
            s.options("solver=cg preconditioner=amg rel_tol=1e-14").unwrap();
            s.factorize().unwrap();
            s.solve(&b, &mut vec![0.0; n]).unwrap();
            let (low, high) = (s.real(LAMBDA_MIN), s.real(LAMBDA_MAX));
            let right = (low, high) == (0.0, 0.0) || low > 0.0 && high.is_finite() && low <= high;
            assert!(right, "{n} rows, center {center}: {low} {high}");
            available += usize::from(high > 0.0);
        }
    }
    // For a few rows, amg factorizes A itself, and M^-1 differs from A^-1 only by rounding in single precision.
    // Rounding then determines the second direction and the sign of its beta.
    assert!(available > 290, "{available} of 870");
}

/// The eigenvalue estimates of a scaled matrix are the scaled estimates, although squares of its entries overflow or
/// underflow.
#[test]
fn eigenvalue_estimates_of_matrices_at_any_scale() {
    let estimate = |scale: f64| {
        let mut a = entries(five_points(12, [4.5, -1.0, -1.0, -1.0, -1.0]));
        a.entries.iter_mut().for_each(|e| e.2 *= scale);
        let s = a.solver();
        s.options("solver=cg preconditioner=none rel_tol=1e-10").unwrap();
        s.factorize().unwrap();
        s.solve(&rhs(a.rows), &mut vec![0.0; a.rows]).unwrap();
        [s.real(LAMBDA_MIN), s.real(LAMBDA_MAX)]
    };
    let unit = estimate(1.0);
    assert!(0.5 < unit[0] && unit[0] < unit[1] && unit[1] < 8.5, "{unit:?}: Gershgorin");
    for scale in [2f64.powi(-600), 2f64.powi(510), 2f64.powi(600)] {
        let scaled = estimate(scale).map(|lambda| lambda / scale);
        for (lambda, expected) in scaled.iter().zip(unit) {
            // A power of two changes no rounding, neither in CG nor in the bisection.
            assert_eq!(lambda.to_bits(), expected.to_bits(), "{scale:e}: {scaled:?} for {unit:?}");
        }
    }
}
