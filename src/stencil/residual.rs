//! Residual of a row in double precision, used to confirm convergence.

/// Computes the residual b - center v_0 - sum_j a_j v_j of a row from differences between the value v_0 at its node and
/// the values v_j at the neighbours:
///
/// ```text
/// b - (s v_0 + sum_j a_j (v_j - v_0)),   s = center - sum_j |a_j|
/// ```
///
/// If a_j > 0, v_j + v_0 replaces v_j - v_0. If no coupling is positive, s is the row sum (docs/theory/rrb.md, stopping
/// test).
///
/// The rounding error of the direct formula b - (center v_0 + sum_j a_j v_j) is eps |A| |v|. This error can be far
/// above a residual of 1e-12 if centers are large or if v is nearly constant. In the formula above, the terms that
/// nearly cancel have no rounding error: v_j - v_0, or v_j + v_0 across a positive coupling, where v nearly changes its
/// sign. s is summed with the exact errors of its additions (Knuth, The Art of Computer Programming 2, 4.2.2, theorem
/// B), and differences of close numbers are exact.
#[inline(always)]
pub fn residual_of_row<const N: usize>(b: f64, center: f64, v_0: f64, a: [f64; N], v: [f64; N]) -> f64 {
    let (mut row_sum, mut rounding, mut differences) = (center, 0.0, 0.0);
    for j in 0..N {
        let term = -a[j].abs();
        let sum = row_sum + term;
        let rounded_term = sum - row_sum;
        rounding += (row_sum - (sum - rounded_term)) + (term - rounded_term);
        row_sum = sum;
        differences += a[j] * (v[j] + 1.0f64.copysign(a[j]) * v_0);
    }
    b - (row_sum * v_0 + (rounding * v_0 + differences))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Positive couplings: v alternates in sign.
    #[test]
    fn residual_of_alternating_vectors_is_accurate() {
        let epsilon = f64::EPSILON;
        let (a, m) = ([-1.0, 1.0 + epsilon, 1.0, -1.0 - epsilon], [3, 0, 2, 7]);
        let v: Vec<f64> = (0..4)
            .map(|j| if a[j] > 0.0 { -1.0 - m[j] as f64 * epsilon } else { 1.0 + m[j] as f64 * epsilon })
            .collect();
        // The center 4 + 6 eps is rounded to the number 4 + 8 eps, and sum_j |a_j| = 4 + 2 eps, so s = (8 - 2) eps.
        // Each term a_j (v_j - v_0), or a_j (v_j + v_0) if a_j > 0, is -m_j eps up to order eps^2.
        let residual = residual_of_row(0.0, 4.0 + 6.0 * epsilon, 1.0, a, [v[0], v[1], v[2], v[3]]);
        let exact = -f64::from(8 - 2 - m.iter().sum::<i32>()) * epsilon;
        assert!((residual - exact).abs() <= 32.0 * epsilon * epsilon, "{residual:e} for {exact:e}");
    }

    /// Centers are rounded sums, and v is constant except for its last bits. Integer arithmetic gives the exact
    /// residual.
    #[test]
    fn residual_of_nearly_constant_vectors_is_accurate() {
        // With eps = 2^-52: a_j = -(1 + k_j eps), center = 4 + 8 eps, v_j = 1 + m_j eps.
        let epsilon = f64::EPSILON;
        let mut max_product_error: f64 = 0.0;
        for (k, m) in [([1, 2, 3, 5], [0, 1, 2, 3]), ([0, 7, 11, 4], [5, 0, 0, 9]), ([0; 4], [1; 4])] {
            let a = k.map(|k: i64| -(1.0 + k as f64 * epsilon));
            let v = m.map(|m: i64| 1.0 + m as f64 * epsilon);
            let center = 4.0 + 8.0 * epsilon;
            // s v_0 = (8 - sum_j k_j) eps, because v_0 = 1. The sum of a_j (v_j - v_0) is -(sum_j m_j) eps up to terms
            // of order eps^2, which are below the last bit.
            let exact = -((8 - k.iter().sum::<i64>()) - m.iter().sum::<i64>()) as f64 * epsilon;
            let residual = residual_of_row(0.0, center, 1.0, a, v);
            assert!((residual - exact).abs() <= 32.0 * epsilon * epsilon, "{residual:e} for {exact:e}");
            let product_residual = -(center + a.iter().zip(&v).map(|(a, v)| a * v).sum::<f64>());
            max_product_error = max_product_error.max((product_residual - exact).abs());
        }
        assert!(max_product_error >= epsilon, "{max_product_error:e}: products are rounded");
    }
}
