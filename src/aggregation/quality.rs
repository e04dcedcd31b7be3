//! Quality of an aggregate: how well the constant vector on it represents smooth errors (Napov and Notay 2012).

use crate::direct::couplings::Couplings;

/// Largest number of nodes of an aggregate. Three passes of pairing produce aggregates of this size.
pub const MAX_AGGREGATE_NODES: usize = 8;

/// [`passes_quality_test`] eliminates a scaled matrix. A pivot below this value counts as negative, and a pivot from
/// this value to -NEGATIVE_LIMIT as zero. If the row sums e_i of all tested nodes are zero, the matrix is singular,
/// because the unscaled matrix maps the constant vector to zero. The last pivot is then zero in exact arithmetic, but
/// rounding errors may make it slightly negative or positive.
const NEGATIVE_LIMIT: f64 = -1e-9;

/// Returns mu(i, j) = 2 d_i d_j / ((d_i + d_j) (a_ij + e_i e_j / (e_i + e_j))), the smallest kappa for which the pair
/// passes the quality test. `a` is a_ij, the negative of the off-diagonal entry. d_i are diagonal entries, and e_i row
/// sums. If e_i or e_j is not positive, the fraction e_i e_j / (e_i + e_j) is replaced by zero.
pub fn pair_quality(c: &Couplings, i: usize, j: usize, a: f64) -> f64 {
    let (d, e) = ([c.diagonal[i], c.diagonal[j]], [c.row_sum[i], c.row_sum[j]]);
    let half_harmonic_mean = if e[0] > 0.0 && e[1] > 0.0 { e[0] * e[1] / (e[0] + e[1]) } else { 0.0 };
    2.0 * d[0] * d[1] / ((d[0] + d[1]) * (a + half_harmonic_mean))
}

/// Applies the quality test to the set G of `nodes`: returns whether kappa A_G - D_G (I - 1 1^T D_G / 1^T D_G 1) has no
/// negative eigenvalue. A_G is the matrix with the couplings inside G and with the row sums e_i of A. D_G contains the
/// diagonal entries d_i of A, which also include couplings that leave G. The matrix is scaled by D_G^-1/2 on both sides
/// and eliminated with diagonal pivoting.
pub fn passes_quality_test(c: &Couplings, nodes: &[u32], kappa: f64) -> bool {
    let n = nodes.len();
    let mut m = [[0.0; MAX_AGGREGATE_NODES]; MAX_AGGREGATE_NODES];
    let d = |k: usize| c.diagonal[nodes[k] as usize];
    let diagonal_sum: f64 = (0..n).map(d).sum();
    for k in 0..n {
        let mut inner_row_sum = c.row_sum[nodes[k] as usize];
        for l in (0..n).filter(|&l| l != k) {
            let a = c.coupling(nodes[k] as usize, nodes[l] as usize);
            inner_row_sum += a;
            m[k][l] = (d(k) * d(l) / diagonal_sum - kappa * a) / (d(k) * d(l)).sqrt();
        }
        m[k][k] = kappa * inner_row_sum / d(k) - 1.0 + d(k) / diagonal_sum;
    }
    let mut is_remaining = [true; MAX_AGGREGATE_NODES];
    for _ in 0..n {
        let remaining_nodes = || (0..n).filter(|&k| is_remaining[k]);
        let Some(p) = remaining_nodes().max_by(|&k, &l| m[k][k].total_cmp(&m[l][l])) else { return true };
        let pivot = m[p][p];
        if pivot <= -NEGATIVE_LIMIT {
            // The largest remaining pivot is not positive. The remaining matrix therefore has a negative eigenvalue,
            // unless it is zero.
            return remaining_nodes().all(|k| {
                m[k][k] >= NEGATIVE_LIMIT && remaining_nodes().all(|l| m[k][l].abs() <= (-NEGATIVE_LIMIT).sqrt())
            });
        }
        is_remaining[p] = false;
        for k in (0..n).filter(|&k| is_remaining[k]) {
            for l in (0..n).filter(|&l| is_remaining[l]) {
                m[k][l] -= m[k][p] * m[p][l] / pivot;
            }
        }
    }
    true
}
