//! Eigenvalue estimates from the coefficients of conjugate gradients. Depends on no other module.

/// Returns the smallest and largest eigenvalue of the Lanczos matrix T of a CG run with coefficients (alpha_k, beta_k).
/// beta_0 is ignored. Returns `None` with fewer than two steps, or if an entry of T overflows.
///
/// T = L D L^T with D_k = 1 / alpha_k and the subdiagonal sqrt(beta_k) of L (Saad, Iterative methods, section 6.7.3).
/// Therefore, T is positive definite if all alpha_k and beta_k are positive. Callers end the sequence before the first
/// nonpositive coefficient. The eigenvalues of T are inside the spectrum of M^-1 A and converge to its ends.
pub fn lanczos_extremes(coefficients: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = coefficients.len();
    if n < 2 {
        return None;
    }
    let inverse_alpha = |k: usize| 1.0 / coefficients[k].0;
    // l_k^2 D_{k-1} with l_k = sqrt(beta_k): contribution of step k - 1 to the diagonal entry of row k.
    let diagonal_part = |k: usize| if k > 0 { coefficients[k].1 * inverse_alpha(k - 1) } else { 0.0 };
    let off_diagonal = |k: usize| if k > 0 { coefficients[k].1.sqrt() * inverse_alpha(k - 1) } else { 0.0 };
    let next_off_diagonal = |k: usize| if k + 1 < n { off_diagonal(k + 1) } else { 0.0 };
    // All eigenvalues are between 0 and `eigenvalue_bound`, the bound of Gershgorin's theorem.
    let eigenvalue_bound = (0..n)
        .map(|k| inverse_alpha(k) + diagonal_part(k) + off_diagonal(k) + next_off_diagonal(k))
        .fold(0.0, f64::max);
    if !eigenvalue_bound.is_finite() {
        return None;
    }
    // Sylvester's law of inertia: the number of eigenvalues below t is the number of negative pivots of T - t I. The
    // stationary qds recurrence computes these pivots from L and D without forming T. No entry is squared, and no
    // cancellation in the diagonal makes T indefinite (Dhillon and Parlett, Linear Algebra Appl. 387 (2004), 1-28). A
    // pivot of magnitude below epsilon * `eigenvalue_bound` is replaced by a pivot of this magnitude, so that quotients
    // stay finite while `eigenvalue_bound` is below 1e292.
    let min_pivot = f64::EPSILON * eigenvalue_bound;
    let count_below = |t: f64| {
        let mut negative_pivots = 0;
        let mut shifted = -t;
        for k in 0..n {
            let mut pivot = inverse_alpha(k) + shifted;
            if pivot.abs() < min_pivot {
                pivot = if pivot > 0.0 { min_pivot } else { -min_pivot };
            }
            negative_pivots += usize::from(pivot < 0.0);
            if k + 1 < n {
                shifted = diagonal_part(k + 1) * (shifted / pivot) - t;
            }
        }
        negative_pivots
    };
    let bisect_eigenvalue = |index: usize| {
        let (mut a, mut b) = (0.0, eigenvalue_bound);
        // 60 halvings leave 1e-18 of the interval.
        for _ in 0..60 {
            let middle = 0.5 * (a + b);
            if count_below(middle) >= index { b = middle } else { a = middle }
        }
        0.5 * (a + b)
    };
    Some((bisect_eigenvalue(1), bisect_eigenvalue(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CG with M = I on a diagonal matrix with two eigenvalues finds both eigenvalues after two steps.
    #[test]
    fn lanczos_extremes_finds_two_eigenvalues() {
        let a = [1.0, 4.0];
        let (mut r, mut p) = ([1.0, 1.0], [1.0, 1.0]);
        let mut coefficients = Vec::new();
        let mut beta = 0.0;
        for _ in 0..2 {
            let rho: f64 = r.iter().map(|v| v * v).sum();
            let sigma: f64 = p.iter().zip(a).map(|(v, d)| v * v * d).sum();
            let alpha = rho / sigma;
            coefficients.push((alpha, beta));
            for k in 0..2 {
                r[k] -= alpha * a[k] * p[k];
            }
            beta = r.iter().map(|v| v * v).sum::<f64>() / rho;
            for k in 0..2 {
                p[k] = r[k] + beta * p[k];
            }
        }
        let (low, high) = lanczos_extremes(&coefficients).unwrap();
        // Bisection resolves 1e-18 of the interval; the coefficients contain a few rounding errors.
        assert!((low - 1.0).abs() < 1e-14 && (high - 4.0).abs() < 1e-14, "{low} {high}");
        assert!(lanczos_extremes(&coefficients[..1]).is_none());
    }
}
