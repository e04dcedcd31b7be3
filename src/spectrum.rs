//! Eigenvalue estimates that the coefficients of conjugate gradients give. A leaf.

/// Smallest and largest eigenvalue of the Lanczos matrix of a CG run with coefficients (alpha_k, beta_k):
/// diagonal 1 / alpha_k + beta_k / alpha_{k-1}, off-diagonal sqrt(beta_k) / alpha_{k-1} (Saad, Iterative
/// methods, section 6.7.3). They lie inside the spectrum of M^-1 A and tend to its ends.
pub fn lanczos_extremes(coefficients: &[(f64, f64)]) -> Option<(f64, f64)> {
    if coefficients.len() < 2 {
        return None;
    }
    let diagonal = |k: usize| {
        let (alpha, beta) = coefficients[k];
        1.0 / alpha + if k > 0 { beta / coefficients[k - 1].0 } else { 0.0 }
    };
    let off = |k: usize| if k > 0 { coefficients[k].1.sqrt() / coefficients[k - 1].0 } else { 0.0 };
    let n = coefficients.len();
    // Gershgorin.
    let radius = |k: usize| off(k) + if k + 1 < n { off(k + 1) } else { 0.0 };
    let low = (0..n).map(|k| diagonal(k) - radius(k)).fold(f64::INFINITY, f64::min);
    let high = (0..n).map(|k| diagonal(k) + radius(k)).fold(f64::NEG_INFINITY, f64::max);
    // Sturm: as many eigenvalues lie below t as the pivots of T - t I have negative signs. A pivot of zero is
    // moved by a rounding of T, so that no quotient overflows.
    let smallest = f64::EPSILON * high.abs().max(low.abs());
    let below = |t: f64| {
        let mut count = 0;
        let mut pivot = 1.0;
        for k in 0..n {
            let o = off(k);
            pivot = diagonal(k) - t - if k > 0 { o * o / pivot } else { 0.0 };
            if pivot.abs() < smallest {
                pivot = -smallest;
            }
            count += usize::from(pivot < 0.0);
        }
        count
    };
    let bisect = |wanted: usize| {
        let (mut a, mut b) = (low, high);
        // 60 halvings leave 1e-18 of the Gershgorin interval.
        for _ in 0..60 {
            let middle = 0.5 * (a + b);
            if below(middle) >= wanted { b = middle } else { a = middle }
        }
        0.5 * (a + b)
    };
    Some((bisect(1), bisect(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CG with M = I on a diagonal matrix with two eigenvalues finds both after two steps.
    #[test]
    fn lanczos_finds_both_eigenvalues_of_two() {
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
        // Bisection resolves 1e-18 of the interval, the coefficients carry a few roundings.
        assert!((low - 1.0).abs() < 1e-14 && (high - 4.0).abs() < 1e-14, "{low} {high}");
        assert!(lanczos_extremes(&coefficients[..1]).is_none());
    }
}
