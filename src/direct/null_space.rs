//! Null vectors and near-null vectors of a matrix: the constants on its singular and nearly singular components. On
//! such a component, rounding errors give the residual r a nonzero mean. This mean must be removed before a coarse
//! solve.
//!
//! The row sums e_i of a nearly singular component almost vanish. Let B be the preconditioner, n the number of rows of
//! the component, 1 the vector of ones, and P = I - 1 1^T / n. On the component, P B P + 1 1^T / sum_i e_i replaces B,
//! so the constant part of the solution is computed in double precision. In single precision, B alone would convert the
//! rounding error of sum r to a large constant (docs/theory/aggregation.md, "Nearly singular closed basins").

use super::couplings::{ALLOCATION_NAME, Couplings, UNASSIGNED};
use crate::base::number::Real;
use crate::error::{Result, collected, push, zeroed};
use std::iter::repeat_n;

/// A component is nearly singular if its mean |e_i| is at most this fraction of its largest diagonal entry. In single
/// precision, the rounding error of sum r changes r^T B r by about (eps sum r)^2 / sum e. At this bound, the change is
/// about as large as r^T B r itself.
const NEARLY_SINGULAR: f64 = 1e-12;

/// Singular and nearly singular components of a matrix, for the subtraction of means over these components.
pub struct NearlySingularComponents {
    /// Number of the component of each row; `UNASSIGNED` if the component of the row is regular.
    component: Vec<u32>,
    /// Number of rows of each component.
    sizes: Vec<usize>,
    /// For each component, the sum of its row sums, or 0 if this sum is negative. It is 0 for a singular component.
    row_sums: Vec<f64>,
    /// Sum of the input vector over each component; after `compute_constants`, the constant of each component.
    component_sums: Vec<f64>,
}

/// Returns the largest sum |e_i| of a nearly singular component with `rows` rows, whose largest diagonal entry is
/// `largest_diagonal`.
pub fn nearly_singular_bound(rows: usize, largest_diagonal: f64) -> f64 {
    NEARLY_SINGULAR * rows as f64 * largest_diagonal
}

impl NearlySingularComponents {
    /// Finds the components with sum |e_i| <= `bound(rows, largest_diagonal)`, where `rows` is the number of rows of
    /// the component and `largest_diagonal` its largest diagonal entry. Returns `None` if there are no such components.
    pub fn of(c: &Couplings, bound: impl Fn(usize, f64) -> f64) -> Result<Option<Self>> {
        let mut component: Vec<u32> = collected(repeat_n(UNASSIGNED, c.rows()), ALLOCATION_NAME)?;
        let (mut sizes, mut row_sums, mut component_rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_visited = zeroed(c.rows(), ALLOCATION_NAME)?;
        for start_row in 0..c.rows() {
            if is_visited[start_row] {
                continue;
            }
            component_rows.clear();
            is_visited[start_row] = true;
            push(&mut component_rows, start_row, ALLOCATION_NAME)?;
            let (mut next_row, mut row_sum, mut abs_row_sum, mut largest_diagonal) = (0, 0.0, 0.0, 0.0f64);
            while next_row < component_rows.len() {
                let i = component_rows[next_row];
                next_row += 1;
                row_sum += c.row_sum[i];
                abs_row_sum += c.row_sum[i].abs();
                largest_diagonal = largest_diagonal.max(c.diagonal[i]);
                for (j, _) in c.row(i) {
                    if !std::mem::replace(&mut is_visited[j], true) {
                        push(&mut component_rows, j, ALLOCATION_NAME)?;
                    }
                }
            }
            if abs_row_sum <= bound(component_rows.len(), largest_diagonal) {
                push(&mut row_sums, row_sum.max(0.0), ALLOCATION_NAME)?;
                component_rows.iter().for_each(|&i| component[i] = sizes.len() as u32);
                push(&mut sizes, component_rows.len(), ALLOCATION_NAME)?;
            }
        }
        let component_sums = zeroed(sizes.len(), ALLOCATION_NAME)?;
        Ok((!sizes.is_empty()).then_some(Self { component, sizes, row_sums, component_sums }))
    }

    /// Returns the components of the rows of the next coarser level. `aggregates` contains the aggregate of each row,
    /// or `UNASSIGNED`. Each aggregate must be inside one component.
    pub fn on_aggregates(&self, aggregates: &[u32]) -> Result<Self> {
        let aggregate_count = aggregates.iter().filter(|&&k| k != UNASSIGNED).max().map_or(0, |&k| k as usize + 1);
        let mut component: Vec<u32> = collected(repeat_n(UNASSIGNED, aggregate_count), ALLOCATION_NAME)?;
        for (&k, &component_index) in aggregates.iter().zip(&self.component).filter(|(k, _)| **k != UNASSIGNED) {
            component[k as usize] = component_index;
        }
        let mut sizes = zeroed(self.sizes.len(), ALLOCATION_NAME)?;
        component
            .iter()
            .filter(|&&component_index| component_index != UNASSIGNED)
            .for_each(|&component_index| sizes[component_index as usize] += 1);
        let row_sums = collected(self.row_sums.iter().copied(), ALLOCATION_NAME)?;
        Ok(Self { component, sizes, row_sums, component_sums: zeroed(self.sizes.len(), ALLOCATION_NAME)? })
    }

    /// Permutes the rows: row k of the result is row `rows[k]`.
    pub fn permuted(self, rows: &[u32]) -> Result<Self> {
        let component = collected(rows.iter().map(|&i| self.component[i as usize]), ALLOCATION_NAME)?;
        Ok(Self { component, ..self })
    }

    /// Subtracts from r its mean on each component.
    pub fn subtract_means<V: Real>(&mut self, r: &mut [V]) {
        let Self { component, sizes, component_sums, .. } = self;
        let rows = || component.iter().enumerate().filter(|(_, component_index)| **component_index != UNASSIGNED);
        component_sums.fill(0.0);
        rows().for_each(|(i, &component_index)| component_sums[component_index as usize] += r[i].to_f64());
        component_sums.iter_mut().zip(sizes).for_each(|(sum, size)| *sum /= (*size).max(1) as f64);
        rows().for_each(|(i, &component_index)| r[i] -= V::from_f64(component_sums[component_index as usize]));
    }

    /// Returns whether a component is nearly singular but not singular: the sum of its row sums is positive. On a
    /// singular component, this sum is 0.
    pub fn has_nearly_singular(&self) -> bool {
        self.row_sums.iter().any(|e| *e > 0.0)
    }

    /// Computes r_i = input(i) - (mean of `input` on the component of row i), and stores the sum of `input` over each
    /// component.
    pub fn load_without_means<V: Real>(&mut self, input: impl Fn(usize) -> f64, r: &mut [V]) {
        let Self { component, sizes, component_sums, .. } = self;
        component_sums.fill(0.0);
        for (i, &component_index) in
            component.iter().enumerate().filter(|(_, component_index)| **component_index != UNASSIGNED)
        {
            component_sums[component_index as usize] += input(i);
        }
        for ((i, &component_index), r) in component.iter().enumerate().zip(r) {
            let mean = if component_index == UNASSIGNED {
                0.0
            } else {
                component_sums[component_index as usize] / sizes[component_index as usize] as f64
            };
            *r = V::from_f64(input(i) - mean);
        }
    }

    /// Computes for each component the constant that `constant` returns: (sum stored by `load_without_means`) / (sum of
    /// the row sums) - (mean of z), where z = B r. On a singular component, the first term is zero.
    pub fn compute_constants<V: Real>(&mut self, z: &[V]) {
        let Self { component, sizes, row_sums, component_sums } = self;
        let divide_by_row_sum = |(sum, e): (&mut f64, &f64)| *sum = if *e > 0.0 { *sum / *e } else { 0.0 };
        component_sums.iter_mut().zip(&*row_sums).for_each(divide_by_row_sum);
        for (z, &component_index) in
            z.iter().zip(&*component).filter(|(_, component_index)| **component_index != UNASSIGNED)
        {
            component_sums[component_index as usize] -= z.to_f64() / sizes[component_index as usize] as f64;
        }
    }

    /// Returns the constant from `compute_constants` that must be added to z_i; 0 on a regular component.
    pub fn constant(&self, i: usize) -> f64 {
        match self.component[i] {
            UNASSIGNED => 0.0,
            component_index => self.component_sums[component_index as usize],
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.component)
            + size_of_val(&*self.sizes)
            + size_of_val(&*self.row_sums)
            + size_of_val(&*self.component_sums)
    }
}
