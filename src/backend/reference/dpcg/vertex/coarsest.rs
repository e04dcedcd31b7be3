//! The coarsest grid, solved exactly: L D L' within a band, by connected component where rows sum to zero.

use super::stencil::{HIERARCHY, Stencil};
use crate::error::{Result, zeroed};
use crate::runtime::number::Real;

/// A pivot that is at most this part of its diagonal is rounding: the unknown is left out.
const ZERO_PIVOT: f64 = 1e-14;

/// The factor.
pub struct Coarsest {
    width: usize,
    /// Couplings of unknown k to k + 1 .. k + width after k - 1 were eliminated.
    rows: Vec<f64>,
    /// 1 / pivot, 0 of unknowns that are left out.
    inverse: Vec<f64>,
    /// The component of an unknown.
    component: Vec<usize>,
    /// By component: 1 / unknowns where all rows sum to zero, else 0.
    share: Vec<f64>,
    mean: Vec<f64>,
}

impl Coarsest {
    /// Eliminates. In a component whose rows all sum to zero the last pivot is zero, and its unknown is left out.
    pub fn new<T: Real>(a: &Stencil<T>) -> Result<Self> {
        let n = a.cells.count();
        let reach = a.offsets.iter().map(|&o| a.step(o) as usize).max().unwrap_or(0);
        let width = reach.min(n.saturating_sub(1));
        let mut of = Self {
            width,
            rows: zeroed(n * width, HIERARCHY)?,
            inverse: zeroed(n, HIERARCHY)?,
            component: zeroed(n, HIERARCHY)?,
            share: Vec::new(),
            mean: Vec::new(),
        };
        let components = of.find_components(a)?;
        of.share = zeroed(components, HIERARCHY)?;
        of.mean = zeroed(components, HIERARCHY)?;
        let (mut regular, mut last): (Vec<bool>, Vec<usize>) =
            (zeroed(components, HIERARCHY)?, zeroed(components, HIERARCHY)?);
        for (p, &k) in of.component.iter().enumerate() {
            of.share[k] += 1.0;
            regular[k] |= a.excess[p] > 0.0;
            last[k] = p;
        }
        of.share
            .iter_mut()
            .zip(&regular)
            .for_each(|(share, &regular)| *share = if regular { 0.0 } else { 1.0 / *share });
        let mut diagonal = a.diagonal()?;
        for p in 0..n {
            a.each(p, |_, q, c| {
                if q > p {
                    of.rows[p * width + q - p - 1] = -c;
                }
            });
        }
        let full = a.diagonal()?;
        for p in 0..n {
            let k = of.component[p];
            let left_out = diagonal[p] <= ZERO_PIVOT * full[p] || !regular[k] && last[k] == p;
            of.inverse[p] = if left_out { 0.0 } else { 1.0 / diagonal[p] };
            of.eliminate(p, &mut diagonal);
        }
        Ok(of)
    }

    /// Numbers the components of a; how many there are.
    fn find_components<T: Real>(&mut self, a: &Stencil<T>) -> Result<usize> {
        let n = a.cells.count();
        let (mut stack, mut found): (Vec<usize>, Vec<bool>) = (Vec::new(), zeroed(n, HIERARCHY)?);
        crate::error::reserve(&mut stack, n, HIERARCHY)?;
        let mut components = 0;
        for first in 0..n {
            if std::mem::replace(&mut found[first], true) {
                continue;
            }
            stack.push(first);
            while let Some(p) = stack.pop() {
                self.component[p] = components;
                a.each(p, |_, q, _| {
                    if !std::mem::replace(&mut found[q], true) {
                        stack.push(q);
                    }
                });
            }
            components += 1;
        }
        Ok(components)
    }

    fn eliminate(&mut self, k: usize, diagonal: &mut [f64]) {
        let w = self.width;
        let (row, rest) = self.rows[k * w..].split_at_mut(w);
        for (l, &c) in row.iter().enumerate() {
            if c != 0.0 {
                let factor = c * self.inverse[k];
                diagonal[k + l + 1] -= factor * c;
                rest[l * w..].iter_mut().zip(&row[l + 1..]).for_each(|(target, c)| *target -= factor * c);
            }
        }
    }

    /// Solves in place. Where rows sum to zero, of the part of r that sums to zero, and with a solution that does.
    pub fn solve(&mut self, x: &mut [f64]) {
        self.remove_means(x);
        let (n, w) = (x.len(), self.width);
        for k in 0..n {
            x[k] *= self.inverse[k];
            let (here, later) = x[k..].split_at_mut(1);
            later.iter_mut().zip(&self.rows[k * w..][..w]).for_each(|(x, c)| *x -= c * here[0]);
        }
        for k in (0..n).rev() {
            let row = &self.rows[k * w..][..w];
            let sum: f64 = row.iter().zip(&x[k + 1..]).map(|(c, x)| c * x).sum();
            x[k] -= self.inverse[k] * sum;
        }
        self.remove_means(x);
    }

    fn remove_means(&mut self, x: &mut [f64]) {
        self.mean.fill(0.0);
        x.iter().zip(&self.component).for_each(|(x, &k)| self.mean[k] += x);
        x.iter_mut().zip(&self.component).for_each(|(x, &k)| *x -= self.mean[k] * self.share[k]);
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        8 * (self.rows.len() + self.inverse.len() + self.component.len() + 2 * self.share.len())
    }
}
