//! Coarsest grid, solved exactly by a banded factorization L D L^T. Singular components are treated separately.

use super::stencil::{HIERARCHY, Stencil};
use crate::backend::reference::dpcg::coarsest::elimination_order;
use crate::error::{Result, zeroed};
use crate::isa::for_each_isa;
use crate::runtime::number::Real;
use crate::runtime::reduce;

/// A pivot of at most this fraction of its diagonal entry is a rounding error; its unknown is set to zero.
const ZERO_PIVOT: f64 = 1e-14;

for_each_isa! {
    /// Eliminates an unknown: updates the diagonal and the couplings of the following unknowns. `row`: its couplings.
    fn eliminate(rest: &mut [f64], diagonal: &mut [f64], row: &[f64], inverse: f64) {
        let w = row.len();
        for (l, (&c, diagonal)) in row.iter().zip(diagonal).enumerate() {
            if c != 0.0 {
                let factor = c * inverse;
                *diagonal -= factor * c;
                // The last unknowns have zero couplings beyond the end of the matrix.
                let target = &mut rest[l * w..][..w - l - 1];
                for (target, c) in target.iter_mut().zip(&row[l + 1..]) {
                    *target -= factor * c;
                }
            }
        }
    }

    /// Computes x = D^-1 L^-1 x; `rows` contains D L^T.
    fn forward(x: &mut [f64], rows: &[f64], inverse: &[f64], w: usize) {
        for (k, &inverse) in inverse.iter().enumerate() {
            x[k] *= inverse;
            let (here, later) = x[k..].split_at_mut(1);
            for (x, c) in later.iter_mut().zip(&rows[k * w..][..w]) {
                *x -= c * here[0];
            }
        }
    }

    /// Computes x = L^-T x.
    fn backward(x: &mut [f64], rows: &[f64], inverse: &[f64], w: usize) {
        for (k, &inverse) in inverse.iter().enumerate().rev() {
            x[k] -= inverse * reduce::dot(&rows[k * w..][..w], &x[k + 1..]);
        }
    }
}

/// The factors. In the numbering of the unknowns, the longest direction is the slowest.
pub struct Coarsest {
    width: usize,
    /// Number of the unknown of each point.
    unknown: Vec<usize>,
    /// Couplings of unknown k to k + 1 .. k + width, after the elimination of the unknowns before k.
    rows: Vec<f64>,
    /// Reciprocal pivots; 0 for unknowns that are set to zero.
    inverse: Vec<f64>,
    /// Component of each unknown.
    component: Vec<usize>,
    /// By component: 1 / (number of unknowns) if all row sums are zero, else 0.
    share: Vec<f64>,
    mean: Vec<f64>,
    x: Vec<f64>,
}

impl Coarsest {
    /// Factorizes a matrix. In a component whose row sums are all zero, the last pivot is zero, and its unknown is set
    /// to zero.
    pub fn new<T: Real>(a: &Stencil<T>) -> Result<Self> {
        let n = a.cells.count();
        let (unknown, strides) = elimination_order(a.cells)?;
        let width = strides.iter().sum();
        let mut of = Self {
            width,
            unknown,
            rows: zeroed(n * width, HIERARCHY)?,
            inverse: zeroed(n, HIERARCHY)?,
            component: zeroed(n, HIERARCHY)?,
            share: Vec::new(),
            mean: Vec::new(),
            x: zeroed(n, HIERARCHY)?,
        };
        let components = of.find_components(a)?;
        of.share = zeroed(components, HIERARCHY)?;
        of.mean = zeroed(components, HIERARCHY)?;
        let (mut regular, mut last): (Vec<bool>, Vec<usize>) =
            (zeroed(components, HIERARCHY)?, zeroed(components, HIERARCHY)?);
        let mut full: Vec<f64> = zeroed(n, HIERARCHY)?;
        for (p, d) in a.diagonal()?.into_iter().enumerate() {
            let k = of.unknown[p];
            let component = of.component[k];
            of.share[component] += 1.0;
            regular[component] |= a.excess[p] > 0.0;
            last[component] = last[component].max(k);
            full[k] = d;
            a.each(p, |_, q, c| {
                let l = of.unknown[q];
                if l > k {
                    of.rows[k * width + l - k - 1] = -c;
                }
            });
        }
        let shares = of.share.iter_mut().zip(&regular);
        shares.for_each(|(share, &regular)| *share = if regular { 0.0 } else { 1.0 / *share });
        of.eliminate(&full, |component, k| !regular[component] && last[component] == k)?;
        Ok(of)
    }

    /// Eliminates all unknowns. `floats(component, k)`: whether unknown k is the one of a singular component that is
    /// set to zero.
    fn eliminate(&mut self, full: &[f64], floats: impl Fn(usize, usize) -> bool) -> Result<()> {
        let (n, w) = (full.len(), self.width);
        let mut diagonal = zeroed(n, HIERARCHY)?;
        diagonal.copy_from_slice(full);
        for k in 0..n {
            let left_out = diagonal[k] <= ZERO_PIVOT * full[k] || floats(self.component[k], k);
            self.inverse[k] = if left_out { 0.0 } else { 1.0 / diagonal[k] };
            let (row, rest) = self.rows[k * w..].split_at_mut(w);
            eliminate(rest, &mut diagonal[k + 1..], row, self.inverse[k]);
        }
        Ok(())
    }

    /// Numbers the components of a; returns their number.
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
                self.component[self.unknown[p]] = components;
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

    /// Solves in place. In singular components, subtracts the mean from the right-hand side and from the solution.
    pub fn solve(&mut self, x: &mut [f64]) {
        self.unknown.iter().zip(&*x).for_each(|(&k, x)| self.x[k] = *x);
        self.remove_means();
        forward(&mut self.x, &self.rows, &self.inverse, self.width);
        backward(&mut self.x, &self.rows, &self.inverse, self.width);
        self.remove_means();
        self.unknown.iter().zip(x).for_each(|(&k, x)| *x = self.x[k]);
    }

    fn remove_means(&mut self) {
        self.mean.fill(0.0);
        self.x.iter().zip(&self.component).for_each(|(x, &k)| self.mean[k] += x);
        self.x.iter_mut().zip(&self.component).for_each(|(x, &k)| *x -= self.mean[k] * self.share[k]);
    }

    /// Also subtracts means in regular components.
    #[cfg(test)]
    pub fn take_all_means(&mut self) {
        let mut sizes = vec![0.0; self.share.len()];
        self.component.iter().for_each(|&k| sizes[k] += 1.0);
        self.share
            .iter_mut()
            .zip(&sizes)
            .filter(|(_, size)| **size > 1.0)
            .for_each(|(share, size)| *share = 1.0 / size);
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        8 * (self.rows.len() + 2 * self.inverse.len() + 2 * self.component.len() + 2 * self.share.len())
    }
}
