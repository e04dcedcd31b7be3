//! Gauss-Seidel and the coarsest solve, on a matrix held by its couplings in the precision of the cycle.

use super::couplings::{Couplings, WHAT};
use crate::error::{Result, collected, zeroed};
use crate::runtime::number::Real;

/// A matrix by rows: couplings, excess, 1 / diagonal.
pub struct Rows<V> {
    ptr: Vec<usize>,
    col: Vec<u32>,
    a: Vec<V>,
    excess: Vec<V>,
    inverse: Vec<V>,
}

impl<V: Real> Rows<V> {
    pub fn of(c: &Couplings) -> Result<Self> {
        let narrow = |values: &[f64]| collected(values.iter().map(|&v| V::narrow(v)), WHAT);
        Ok(Self {
            ptr: collected(c.ptr.iter().copied(), WHAT)?,
            col: collected(c.col.iter().copied(), WHAT)?,
            a: narrow(&c.a)?,
            excess: narrow(&c.excess)?,
            inverse: collected(c.diagonal.iter().map(|&d| V::narrow(1.0 / d)), WHAT)?,
        })
    }

    pub fn len(&self) -> usize {
        self.inverse.len()
    }

    pub fn couplings(&self) -> usize {
        self.col.len()
    }

    fn row(&self, i: usize) -> impl Iterator<Item = (usize, V)> {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].iter().map(|&j| j as usize).zip(self.a[range].iter().copied())
    }

    /// A sweep of Gauss-Seidel in the order of the rows, from z = 0.
    pub fn forwards(&self, r: &[V], z: &mut [V]) {
        for i in 0..self.len() {
            let before = self.row(i).take_while(|&(j, _)| j < i);
            z[i] = self.inverse[i] * before.fold(r[i], |sum, (j, a)| sum + a * z[j]);
        }
    }

    /// What such a sweep leaves in row i: r - A z has the couplings to later rows alone.
    pub fn left(&self, i: usize, z: &[V]) -> V {
        let later = self.row(i).filter(|&(j, _)| j > i);
        later.fold(V::default(), |sum, (j, a)| sum + a * z[j])
    }

    /// A sweep of Gauss-Seidel in the opposite order.
    pub fn backwards(&self, r: &[V], z: &mut [V]) {
        for i in (0..self.len()).rev() {
            z[i] = self.inverse[i] * self.row(i).fold(r[i], |sum, (j, a)| sum + a * z[j]);
        }
    }

    /// y = A x, as e_i x_i + sum of a_ij (x_i - x_j): with d_i x_i the excess would drown. Returns <x, y>.
    pub fn multiply(&self, x: &[V], y: &mut [V]) -> f64 {
        let mut product = 0.0;
        for i in 0..self.len() {
            y[i] = self.row(i).fold(self.excess[i] * x[i], |sum, (j, a)| sum + a * (x[i] - x[j]));
            product += x[i].wide() * y[i].wide();
        }
        product
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ptr)
            + size_of_val(&*self.col)
            + size_of_val(&*self.a)
            + size_of_val(&*self.excess)
            + size_of_val(&*self.inverse)
    }
}

/// A pivot below this part of its diagonal is the zero that a singular component ends with.
const VANISHED: f64 = 1e-12;

/// The coarsest matrix, eliminated: a_pq += a_rp a_rq / d_r and e_p += a_rp e_r / d_r for each row r in turn keep sums
/// and differences apart. A pivot that vanishes is taken as infinite: its unknown is 0.
pub struct Factor<V> {
    rows: usize,
    /// a_rp / d_r for p > r, by rows of a full square.
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

    /// z = A^-1 r; r is spent.
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
