//! Null vectors of a matrix: the constants on its singular and nearly singular components. On such a component,
//! rounding errors give the residual r a nonzero mean. This mean must be removed before a coarse solve.
//!
//! The row sums e_i of a nearly singular component almost vanish. Let B be the preconditioner, n the number of rows of
//! the component, 1 the vector of ones, and P = I - 1 1^T / n. On the component, P B P + 1 1^T / sum_i e_i replaces B,
//! so the constant part is solved in double precision. In single precision, B alone would convert the rounding error of
//! sum r to a large constant (docs/theory/aggregation.md, "Nearly singular closed basins").

use super::couplings::{Couplings, NONE, WHAT};
use crate::base::number::Real;
use crate::error::{Result, collected, push, zeroed};
use std::iter::repeat_n;

/// A component is nearly singular if its mean |e_i| is at most this fraction of its largest diagonal entry. In single
/// precision, the rounding error of sum r changes r^T B r by about (eps sum r)^2 / sum e. At this bound, the change is
/// about as large as the rest of r^T B r.
const NEARLY_SINGULAR: f64 = 1e-12;

/// Singular and nearly singular components of a matrix, for the removal of means.
pub struct NearlySingularComponents {
    /// Component of each row; `NONE`: the component is regular.
    component: Vec<u32>,
    /// Number of rows of each component.
    sizes: Vec<usize>,
    /// For each component, the sum of its row sums, or 0 if this sum is negative. It is 0 for a singular component.
    row_sum: Vec<f64>,
    /// Buffer for sums over the components.
    sums: Vec<f64>,
}

/// Returns the bound of sum |e_i| up to which a component counts as nearly singular. The component has `rows` rows, and
/// `largest` is its largest diagonal entry.
pub fn nearly_singular_bound(rows: usize, largest: f64) -> f64 {
    NEARLY_SINGULAR * rows as f64 * largest
}

impl NearlySingularComponents {
    /// Finds the components with sum |e_i| <= `least(rows, largest)`. The arguments are the number of rows of the
    /// component and its largest diagonal entry. Returns `None` if there are no such components.
    pub fn of(c: &Couplings, least: impl Fn(usize, f64) -> f64) -> Result<Option<Self>> {
        let mut component: Vec<u32> = collected(repeat_n(NONE, c.rows()), WHAT)?;
        let (mut sizes, mut row_sums, mut reached) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = zeroed(c.rows(), WHAT)?;
        for start in 0..c.rows() {
            if seen[start] {
                continue;
            }
            reached.clear();
            seen[start] = true;
            push(&mut reached, start, WHAT)?;
            let (mut next, mut row_sum, mut sizes_of, mut largest) = (0, 0.0, 0.0, 0.0f64);
            while next < reached.len() {
                let i = reached[next];
                next += 1;
                row_sum += c.row_sum[i];
                sizes_of += c.row_sum[i].abs();
                largest = largest.max(c.diagonal[i]);
                for (j, _) in c.row(i) {
                    if !std::mem::replace(&mut seen[j], true) {
                        push(&mut reached, j, WHAT)?;
                    }
                }
            }
            if sizes_of <= least(reached.len(), largest) {
                push(&mut row_sums, row_sum.max(0.0), WHAT)?;
                reached.iter().for_each(|&i| component[i] = sizes.len() as u32);
                push(&mut sizes, reached.len(), WHAT)?;
            }
        }
        let sums = zeroed(sizes.len(), WHAT)?;
        Ok((!sizes.is_empty()).then_some(Self { component, sizes, row_sum: row_sums, sums }))
    }

    /// Returns the components of the rows of the next coarser level. `aggregate` contains the aggregate of each row, or
    /// `NONE`. Each aggregate must be inside one component.
    pub fn on_aggregates(&self, aggregate: &[u32]) -> Result<Self> {
        let count = aggregate.iter().filter(|&&k| k != NONE).max().map_or(0, |&k| k as usize + 1);
        let mut component: Vec<u32> = collected(repeat_n(NONE, count), WHAT)?;
        for (&k, &of) in aggregate.iter().zip(&self.component).filter(|(k, _)| **k != NONE) {
            component[k as usize] = of;
        }
        let mut sizes = zeroed(self.sizes.len(), WHAT)?;
        component.iter().filter(|&&of| of != NONE).for_each(|&of| sizes[of as usize] += 1);
        let row_sum = collected(self.row_sum.iter().copied(), WHAT)?;
        Ok(Self { component, sizes, row_sum, sums: zeroed(self.sizes.len(), WHAT)? })
    }

    /// Permutes the rows: row k of the result is row `rows[k]`.
    pub fn permuted(self, rows: &[u32]) -> Result<Self> {
        let component = collected(rows.iter().map(|&i| self.component[i as usize]), WHAT)?;
        Ok(Self { component, ..self })
    }

    /// Subtracts from r its mean on each component.
    pub fn subtract<V: Real>(&mut self, r: &mut [V]) {
        let Self { component, sizes, sums, .. } = self;
        let rows = || component.iter().enumerate().filter(|(_, of)| **of != NONE);
        sums.fill(0.0);
        rows().for_each(|(i, &of)| sums[of as usize] += r[i].wide());
        sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum /= (*size).max(1) as f64);
        rows().for_each(|(i, &of)| r[i] -= V::narrow(sums[of as usize]));
    }

    /// Returns whether there is a nearly singular component, whose row sums have a positive sum. On a singular
    /// component, this sum is 0.
    pub fn has_nearly_singular(&self) -> bool {
        self.row_sum.iter().any(|e| *e > 0.0)
    }

    /// Computes r_i = from(i) - (mean of `from` on the component of row i), and stores the sum of `from` over each
    /// component.
    pub fn load_without_means<V: Real>(&mut self, from: impl Fn(usize) -> f64, r: &mut [V]) {
        let Self { component, sizes, sums, .. } = self;
        sums.fill(0.0);
        for (i, &of) in component.iter().enumerate().filter(|(_, of)| **of != NONE) {
            sums[of as usize] += from(i);
        }
        for ((i, &of), r) in component.iter().enumerate().zip(r) {
            let mean = if of == NONE { 0.0 } else { sums[of as usize] / sizes[of as usize] as f64 };
            *r = V::narrow(from(i) - mean);
        }
    }

    /// Computes for each component the constant that `constant` returns: (sum stored by `load_without_means`) / (sum of
    /// the row sums) - (mean of z), where z = B r. For a singular component, the first term is replaced by zero.
    pub fn compute_constants<V: Real>(&mut self, z: &[V]) {
        let Self { component, sizes, row_sum, sums } = self;
        let ratio = |(sum, e): (&mut f64, &f64)| *sum = if *e > 0.0 { *sum / *e } else { 0.0 };
        sums.iter_mut().zip(&*row_sum).for_each(ratio);
        for (z, &of) in z.iter().zip(&*component).filter(|(_, of)| **of != NONE) {
            sums[of as usize] -= z.wide() / sizes[of as usize] as f64;
        }
    }

    /// Returns the constant that must be added to z_i.
    pub fn constant(&self, i: usize) -> f64 {
        match self.component[i] {
            NONE => 0.0,
            of => self.sums[of as usize],
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.component)
            + size_of_val(&*self.sizes)
            + size_of_val(&*self.row_sum)
            + size_of_val(&*self.sums)
    }
}
