//! Exact factorization of the coarsest matrix.

use super::couplings::{Couplings, WHAT};
use crate::error::{Result, collected, zeroed};
use crate::runtime::number::Real;

/// A pivot below this fraction of its diagonal entry is the zero pivot of a singular component.
const VANISHED: f64 = 1e-12;

/// Factorization of the coarsest matrix by Gaussian elimination of couplings and row sums. For each row r in turn, a_pq
/// += a_rp a_rq / d_r and e_p += a_rp e_r / d_r. No cancellation occurs if couplings and row sums are nonnegative. A
/// zero pivot is replaced by infinity, so its unknown is 0.
pub struct Factor<V> {
    rows: usize,
    /// a_rp / d_r for p > r, stored by rows of the full square matrix.
    upper: Vec<V>,
    inverse: Vec<V>,
}

impl<V: Real> Factor<V> {
    pub fn of(c: &Couplings) -> Result<Self> {
        let n = c.rows();
        let mut a: Vec<f64> = zeroed(n * n, WHAT)?;
        let mut excess = collected(c.excess.iter().copied(), WHAT)?;
        for i in 0..n {
            c.row(i).for_each(|(j, coupling)| a[i * n + j] = coupling);
        }
        let (mut upper, mut inverse) = (zeroed(n * n, WHAT)?, zeroed(n, WHAT)?);
        for r in 0..n {
            let pivot = excess[r] + a[r * n + r + 1..(r + 1) * n].iter().sum::<f64>();
            if pivot.abs() <= VANISHED * c.diagonal[r] {
                continue;
            }
            inverse[r] = V::narrow(1.0 / pivot);
            let (done, later) = a.split_at_mut((r + 1) * n);
            let row = &done[r * n..];
            for p in (r + 1..n).filter(|&p| row[p] != 0.0) {
                let part = row[p] / pivot;
                upper[r * n + p] = V::narrow(part);
                excess[p] += part * excess[r];
                let target = &mut later[(p - r - 1) * n..(p - r) * n];
                for q in (r + 1..n).filter(|&q| q != p) {
                    target[q] += part * row[q];
                }
            }
        }
        Ok(Self { rows: n, upper, inverse })
    }

    /// Computes z = A^-1 r; overwrites r.
    pub fn solve(&self, r: &mut [V], z: &mut [V]) {
        let n = self.rows;
        for k in 0..n {
            let (done, later) = r.split_at_mut(k + 1);
            let row = &self.upper[k * n + k + 1..(k + 1) * n];
            later.iter_mut().zip(row).for_each(|(r, &part)| *r += part * done[k]);
        }
        for k in (0..n).rev() {
            let row = &self.upper[k * n + k + 1..(k + 1) * n];
            z[k] = row.iter().zip(&z[k + 1..]).fold(self.inverse[k] * r[k], |sum, (&part, &z)| sum + part * z);
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.upper) + size_of_val(&*self.inverse)
    }
}
