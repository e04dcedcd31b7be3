//! The RRB preconditioner by its definition, on dense matrices: the reference of the exactness tests.
//!
//! A = L D L^T + R, and M = A - R. Each level first subtracts its part of R, the lumped entries, from the active
//! matrix, and then eliminates its red nodes. L is the identity on the active nodes, so the parts of R add up in the
//! original numbering. The matrix that remains after the last level is factored exactly and contributes nothing to R.

use crate::common::problems::Stencil;

/// Row-major square matrix.
#[derive(Clone)]
pub struct Dense {
    pub n: usize,
    pub a: Vec<f64>,
}

impl Dense {
    pub fn from_stencil(stencil: &Stencil) -> Dense {
        let n = stencil.len();
        let mut dense = Dense { n, a: vec![0.0; n * n] };
        for p in 0..n {
            dense.a[p * n + p] = stencil.center[p];
        }
        for (p, q, value) in stencil.couplings() {
            dense.a[p * n + q] += value;
            dense.a[q * n + p] += value;
        }
        dense
    }

    pub fn column(&self, j: usize) -> Vec<f64> {
        (0..self.n).map(|i| self.a[i * self.n + j]).collect()
    }

    /// Returns whether the matrix is positive definite, by a Cholesky factorization.
    pub fn is_positive_definite(&self) -> bool {
        let n = self.n;
        let mut l = self.a.clone();
        for k in 0..n {
            if l[k * n + k] <= 0.0 || l[k * n + k].is_nan() {
                return false;
            }
            for i in k + 1..n {
                let factor = l[i * n + k] / l[k * n + k];
                for j in k + 1..n {
                    l[i * n + j] -= factor * l[k * n + j];
                }
            }
        }
        true
    }

    /// Solves a regular system by Gaussian elimination with partial pivoting.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let n = self.n;
        let (mut a, mut x) = (self.a.clone(), b.to_vec());
        for k in 0..n {
            let pivot = (k..n).max_by(|&p, &q| a[p * n + k].abs().total_cmp(&a[q * n + k].abs())).unwrap();
            if pivot != k {
                (0..n).for_each(|j| a.swap(k * n + j, pivot * n + j));
                x.swap(k, pivot);
            }
            for i in k + 1..n {
                let factor = a[i * n + k] / a[k * n + k];
                for j in k..n {
                    a[i * n + j] -= factor * a[k * n + j];
                }
                x[i] -= factor * x[k];
            }
        }
        for k in (0..n).rev() {
            x[k] = (x[k] - (k + 1..n).map(|j| a[k * n + j] * x[j]).sum::<f64>()) / a[k * n + k];
        }
        x
    }
}

/// Returns the red nodes of every level, in the numbering j * nx + i, until one node remains.
///
/// On each grid, a node survives both levels if both coordinates have the parity of the offset. The offset is 1 (the
/// second node), or 0 in a dimension with one node. The odd level of a grid eliminates the nodes of the other colour.
/// The even level eliminates the remaining nodes except the survivors; on a grid one node wide, there are none.
pub fn red_nodes(nx: usize, ny: usize) -> Vec<Vec<usize>> {
    let (mut columns, mut rows): (Vec<usize>, Vec<usize>) = ((0..nx).collect(), (0..ny).collect());
    let mut levels = Vec::new();
    while columns.len() * rows.len() > 1 {
        let (ox, oy) = (usize::from(columns.len() >= 2), usize::from(rows.len() >= 2));
        let (mut odd, mut even) = (Vec::new(), Vec::new());
        for (jj, &j) in rows.iter().enumerate() {
            for (ii, &i) in columns.iter().enumerate() {
                if (ii + jj) % 2 != (ox + oy) % 2 {
                    odd.push(j * nx + i);
                } else if ii % 2 != ox {
                    even.push(j * nx + i);
                }
            }
        }
        levels.push(odd);
        levels.push(even);
        columns = columns.into_iter().skip(ox).step_by(2).collect();
        rows = rows.into_iter().skip(oy).step_by(2).collect();
    }
    levels
}

/// A red node whose couplings are all lumped keeps its center if lumping would reduce the center to less than this
/// fraction. Otherwise the pivot in a channel one cell wide would consist only of its row sum.
const MIN_ROW_SUM_FRACTION: f64 = 0.1;

/// Returns M = A - R after `levels` eliminations. Red-red entries (and black-black entries if `both`) are lumped with
/// the weight omega.
pub fn preconditioner(stencil: &Stencil, levels: usize, both: bool, omega: f64) -> Dense {
    let mut m = Dense::from_stencil(stencil);
    let n = m.n;
    let mut active_matrix = m.a.clone();
    let mut active = vec![true; n];
    for red in red_nodes(stencil.nx, stencil.ny).into_iter().take(levels) {
        let mut is_red = vec![false; n];
        red.iter().for_each(|&p| is_red[p] = true);
        let keeps_center: Vec<bool> = (0..n)
            .map(|p| {
                let others = || (0..n).filter(|&q| active[q] && q != p);
                let kept = others().any(|q| !is_red[q] && active_matrix[p * n + q] != 0.0);
                let lumped: f64 = others().filter(|&q| is_red[q]).map(|q| active_matrix[p * n + q]).sum();
                let center = active_matrix[p * n + p];
                is_red[p] && !kept && center + omega * lumped < MIN_ROW_SUM_FRACTION * center
            })
            .collect();
        for p in (0..n).filter(|&p| active[p]) {
            let weight = if keeps_center[p] { 0.0 } else { omega };
            for q in (0..n).filter(|&q| active[q] && q != p) {
                let entry = active_matrix[p * n + q];
                if entry != 0.0 && is_red[p] == is_red[q] && (is_red[p] || both) {
                    active_matrix[p * n + q] = 0.0;
                    active_matrix[p * n + p] += weight * entry;
                    m.a[p * n + q] -= entry;
                    m.a[p * n + p] += weight * entry;
                }
            }
        }
        for &r in &red {
            active[r] = false;
            for p in (0..n).filter(|&p| active[p]) {
                let factor = active_matrix[p * n + r] / active_matrix[r * n + r];
                if factor != 0.0 {
                    for q in (0..n).filter(|&q| active[q]) {
                        active_matrix[p * n + q] -= factor * active_matrix[r * n + q];
                    }
                }
            }
        }
    }
    m
}
