//! Direct solver for the coarsest matrix of a hierarchy and for the coarse matrix E of deflation. The rows are ordered
//! so that the envelope is small, and L D L^T is computed within this envelope. On a singular component, the solution
//! has mean zero.

use super::envelope::Envelope;
use crate::base::number::Real;
use crate::direct::couplings::Couplings;
use crate::direct::null_space::NearlySingularComponents;
use crate::error::{Result, extend, push, reserve, zeroed};
use crate::stencil::cells::Cells;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

const ALLOCATION_NAME: &str = "the direct solver of the coarsest system";

/// Number of right-hand sides that are solved together. Their values of one row fill four vector registers, and their
/// values of 1000 rows (256 kB) fit in the cache.
const RIGHT_HAND_SIDES_PER_GROUP: usize = 32;

/// Row order and factor of a matrix.
pub struct DirectSolver {
    /// Row k of the factor is row `row_order[k]` of the matrix.
    row_order: Vec<u32>,
    factor: Envelope,
    /// Singular components in the row order of the factor, if there are any; and a vector as workspace.
    state: Mutex<(Option<NearlySingularComponents>, Vec<f64>)>,
}

impl DirectSolver {
    /// Factorizes a matrix with its rows in the order `row_order`. `invert_pivot(i, d)` receives the pivot d of row i,
    /// and returns 1 / d or an error. If it returns 0, x_i is zero in every solution. `components` contains the
    /// singular components, if there are any.
    pub fn of(
        c: &Couplings,
        row_order: Vec<u32>,
        components: Option<NearlySingularComponents>,
        mut invert_pivot: impl FnMut(usize, f64) -> Result<f64>,
    ) -> Result<Self> {
        let n = c.rows();
        let (mut position, mut first_columns): (Vec<u32>, Vec<u32>) =
            (zeroed(n, ALLOCATION_NAME)?, zeroed(n, ALLOCATION_NAME)?);
        (0..).zip(&row_order).for_each(|(k, &i)| position[i as usize] = k);
        for (k, (first_column, &i)) in (0..).zip(first_columns.iter_mut().zip(&row_order)) {
            *first_column = c.row(i as usize).map(|(j, _)| position[j]).fold(k, u32::min);
        }
        let mut factor = Envelope::new(&first_columns)?;
        for (k, &i) in row_order.iter().enumerate() {
            factor.set_row_sum(k, c.row_sum[i as usize]);
            let earlier_couplings = c.row(i as usize).map(|(j, a)| (position[j] as usize, a)).filter(|&(l, _)| l < k);
            earlier_couplings.for_each(|(l, a)| factor.set_coupling(l, k, -a));
        }
        factor.factorize(|pivot| invert_pivot(row_order[pivot.k] as usize, pivot.row_sum - pivot.couplings))?;
        let components = components.map(|components| components.permuted(&row_order)).transpose()?;
        Ok(Self { row_order, factor, state: Mutex::new((components, zeroed(n, ALLOCATION_NAME)?)) })
    }

    /// Computes x = A^-1 x. On singular components, subtracts the mean from the right-hand side and from the solution.
    pub fn solve<V: Real>(&self, x: &mut [V]) {
        let (components, permuted_x) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        permuted_x.iter_mut().zip(&self.row_order).for_each(|(permuted_x, &i)| *permuted_x = x[i as usize].to_f64());
        components.iter_mut().for_each(|components| components.subtract_means(permuted_x));
        self.factor.solve(permuted_x);
        components.iter_mut().for_each(|components| components.subtract_means(permuted_x));
        permuted_x.iter().zip(&self.row_order).for_each(|(permuted_x, &i)| x[i as usize] = V::from_f64(*permuted_x));
    }

    /// Returns the number of groups of columns of A^-1. The columns of a group are computed together.
    pub fn groups(&self) -> usize {
        self.row_order.len().div_ceil(RIGHT_HAND_SIDES_PER_GROUP)
    }

    /// Appends the columns of A^-1 that belong to `groups`, in the order of the factor. The entries of a column are in
    /// the order of the matrix. Unlike `solve`, does not remove means.
    pub fn append_columns(&self, groups: Range<usize>, columns: &mut Vec<f64>) -> Result<()> {
        let n = self.row_order.len();
        let mut x = zeroed(n * RIGHT_HAND_SIDES_PER_GROUP, ALLOCATION_NAME)?;
        for group in groups {
            let first_column = group * RIGHT_HAND_SIDES_PER_GROUP;
            let column_count = RIGHT_HAND_SIDES_PER_GROUP.min(n - first_column);
            x.fill(0.0);
            (0..column_count).for_each(|i| x[(first_column + i) * RIGHT_HAND_SIDES_PER_GROUP + i] = 1.0);
            self.factor.solve_together(&mut x, RIGHT_HAND_SIDES_PER_GROUP, first_column);
            let first_entry = columns.len();
            reserve(columns, column_count * n, ALLOCATION_NAME)?;
            columns.resize(first_entry + column_count * n, 0.0);
            for (x, &s) in x.chunks_exact(RIGHT_HAND_SIDES_PER_GROUP).zip(&self.row_order) {
                x[..column_count].iter().enumerate().for_each(|(i, x)| columns[first_entry + i * n + s as usize] = *x);
            }
        }
        Ok(())
    }

    /// Returns A^-1, stored by rows in the order of the matrix. `columns` contains the columns of all groups, in the
    /// order of the groups.
    pub fn inverse<'a>(&self, columns: impl Iterator<Item = &'a [f64]>) -> Result<Vec<f64>> {
        let n = self.row_order.len();
        let mut inverse = zeroed(n * n, "the inverse of the coarse matrix")?;
        let columns = columns.flat_map(|columns| columns.chunks_exact(n.max(1)));
        for (&r, column) in self.row_order.iter().zip(columns) {
            // A is symmetric, so each column is also a row.
            inverse[r as usize * n..][..n].copy_from_slice(column);
        }
        Ok(inverse)
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let (components, workspace) = &*self.state.lock().unwrap_or_else(PoisonError::into_inner);
        4 * self.row_order.len()
            + self.factor.bytes()
            + components.as_ref().map_or(0, NearlySingularComponents::bytes)
            + 8 * workspace.len()
    }
}

/// Returns the cells of a box in an order in which the index of the longest direction varies slowest. The matrix then
/// has a narrow band.
pub fn box_order(cells: Cells) -> Result<Vec<u32>> {
    let (sizes, strides) = (cells.size(), cells.strides());
    let mut axes = [0, 1, 2];
    axes.sort_by_key(|&d| sizes[d]);
    let [fast_axis, middle_axis, slow_axis] = axes;
    let mut order = Vec::new();
    reserve(&mut order, cells.count(), ALLOCATION_NAME)?;
    for line_start in (0..sizes[slow_axis])
        .flat_map(|k| (0..sizes[middle_axis]).map(move |j| k * strides[slow_axis] + j * strides[middle_axis]))
    {
        extend(
            &mut order,
            (0..sizes[fast_axis]).map(|i| (line_start + i * strides[fast_axis]) as u32),
            ALLOCATION_NAME,
        )?;
    }
    Ok(order)
}

/// Breadth-first search in the graph of the matrix. The rows at equal distance from the root are a level of the search.
struct Search<'a> {
    matrix: &'a Couplings,
    /// For each row, the number of the last search that found the row; 0 if no search has found it.
    last_search: Vec<u32>,
    search_count: u32,
}

impl Search<'_> {
    fn degree(&self, i: u32) -> (usize, u32) {
        (self.matrix.ptr[i as usize + 1] - self.matrix.ptr[i as usize], i)
    }

    /// Appends `root` and the rows that are connected to it to `order`, level by level; within a level, the new
    /// neighbours of a row are in ascending order of their degrees. Returns the index in `order` of the first row of
    /// the last level, and the number of levels without the level of the root.
    fn append_component(&mut self, root: u32, order: &mut Vec<u32>) -> Result<(usize, usize)> {
        self.search_count += 1;
        self.last_search[root as usize] = self.search_count;
        let (mut level_start, mut level_count) = (order.len(), 0);
        push(order, root, ALLOCATION_NAME)?;
        loop {
            let end = order.len();
            for k in level_start..end {
                let new_rows_start = order.len();
                for (j, _) in self.matrix.row(order[k] as usize) {
                    if self.last_search[j] < self.search_count {
                        self.last_search[j] = self.search_count;
                        push(order, j as u32, ALLOCATION_NAME)?;
                    }
                }
                order[new_rows_start..].sort_unstable_by_key(|&i| self.degree(i));
            }
            if order.len() == end {
                return Ok((level_start, level_count));
            }
            (level_start, level_count) = (end, level_count + 1);
        }
    }
}

/// Returns the reverse Cuthill-McKee order. The search in a component starts at a pseudo-peripheral row. To find this
/// row, breadth-first searches are repeated from a row of the last level until the number of levels no longer
/// increases.
pub fn envelope_order(matrix: &Couplings) -> Result<Vec<u32>> {
    let mut search = Search { matrix, last_search: zeroed(matrix.rows(), ALLOCATION_NAME)?, search_count: 0 };
    let mut order = Vec::new();
    reserve(&mut order, matrix.rows(), ALLOCATION_NAME)?;
    for start_row in 0..matrix.rows() as u32 {
        if search.last_search[start_row as usize] > 0 {
            continue;
        }
        let component_start = order.len();
        let (mut root, mut depth) = (start_row, 0);
        loop {
            order.truncate(component_start);
            let (last_level_start, level_count) = search.append_component(root, &mut order)?;
            if level_count <= depth {
                break;
            }
            depth = level_count;
            let farthest = order[last_level_start..].iter().min_by_key(|&&i| search.degree(i));
            root = farthest.copied().unwrap_or(root);
        }
    }
    order.reverse();
    Ok(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrbsolver_problems::two_phase::SplitMix;

    /// Returns a random matrix of `n` rows with components of up to `component_size` rows. Every second component is
    /// singular.
    fn matrix(n: usize, component_size: usize, generator: &mut SplitMix) -> Couplings {
        let mut a = vec![vec![0.0; n]; n];
        let end = |i: usize| n.min((i / component_size + 1) * component_size);
        for (i, j) in (0..n).flat_map(|i| (i + 1..end(i)).map(move |j| (i, j))) {
            // A path connects all rows of the component.
            if j == i + 1 || generator.unit() < 0.2 {
                a[i][j] = 0.1 + generator.unit();
                a[j][i] = a[i][j];
            }
        }
        // A random permutation mixes the rows of the components.
        let mut row_order: Vec<usize> = (0..n).collect();
        (1..n).for_each(|i| row_order.swap(i, (generator.unit() * (i + 1) as f64) as usize));
        let mut c = Couplings::with_capacity(n, n * n).unwrap();
        for &i in &row_order {
            (0..n).filter(|&j| a[i][row_order[j]] != 0.0).for_each(|j| c.push(j, a[i][row_order[j]]));
            c.end_exact_row(if (i / component_size).is_multiple_of(2) { 0.0 } else { generator.unit() });
        }
        c
    }

    fn residual(c: &Couplings, x: &[f64], b: &[f64]) -> f64 {
        let row_residual = |i: usize| c.row(i).fold(b[i] - c.row_sum[i] * x[i], |r, (j, a)| r + a * (x[j] - x[i]));
        (0..x.len()).map(row_residual).fold(0.0, |largest, r: f64| largest.max(r.abs()))
    }

    fn invert_pivot(d: f64) -> Result<f64> {
        Ok(if d == 0.0 { 0.0 } else { 1.0 / d })
    }

    #[test]
    fn solve_handles_singular_and_regular_components() {
        let mut generator = SplitMix(9);
        for (n, component_size) in
            [(1, 1), (2, 1), (2, 2), (3, 2), (5, 5), (17, 6), (64, 64), (65, 13), (65, 1), (200, 90)]
        {
            let c = matrix(n, component_size, &mut generator);
            let means = || NearlySingularComponents::of(&c, |_, _| 0.0).unwrap();
            let direct = DirectSolver::of(&c, envelope_order(&c).unwrap(), means(), |_, d| invert_pivot(d)).unwrap();
            let mut b: Vec<f64> = (0..n).map(|_| generator.unit() - 0.5).collect();
            let mut x = b.clone();
            direct.solve(&mut x);
            // On singular components, x must solve the system for b minus its mean, and x must have mean zero.
            let (mut x_without_means, mut means) = (x.clone(), means());
            means.iter_mut().for_each(|means| means.subtract_means(&mut b));
            means.iter_mut().for_each(|means| means.subtract_means(&mut x_without_means));
            assert!(residual(&c, &x, &b) < 1e-12, "{n}, {component_size}: {:e}", residual(&c, &x, &b));
            let largest_mean = x
                .iter()
                .zip(&x_without_means)
                .fold(0.0, |largest: f64, (x, x_without_means)| largest.max((x - x_without_means).abs()));
            assert!(largest_mean < 1e-12, "{n}, {component_size}: {largest_mean:e}");
        }
    }

    #[test]
    fn inverse_columns_are_solutions() {
        for n in [1, 31, 32, 33, 65] {
            let mut c = matrix(n, n, &mut SplitMix(10));
            c.row_sum.fill(0.3);
            let direct = DirectSolver::of(&c, envelope_order(&c).unwrap(), None, |_, d| invert_pivot(d)).unwrap();
            let mut columns = Vec::new();
            (0..direct.groups()).for_each(|k| direct.append_columns(k..k + 1, &mut columns).unwrap());
            let inverse = direct.inverse([&columns[..]].into_iter()).unwrap();
            for (i, row) in inverse.chunks_exact(n).enumerate() {
                let unit_vector: Vec<f64> = (0..n).map(|j| f64::from(u8::from(i == j))).collect();
                assert!(residual(&c, row, &unit_vector) < 1e-12, "{n}, {i}");
            }
        }
    }

    #[test]
    fn pivots_are_passed_in_row_order() {
        let c = matrix(17, 17, &mut SplitMix(11));
        let mut pivot_rows = Vec::new();
        let order = envelope_order(&c).unwrap();
        let factorization = DirectSolver::of(&c, order.clone(), None, |i, d| {
            pivot_rows.push(i as u32);
            if pivot_rows.len() == 6 { Err(crate::error::Error::Internal(String::new())) } else { invert_pivot(d) }
        });
        assert!(factorization.is_err());
        assert_eq!(pivot_rows, order[..6]);
    }

    #[test]
    fn box_order_varies_longest_direction_slowest() {
        let order = |nx, ny, nz| box_order(Cells { nx, ny, nz }).unwrap();
        assert_eq!(order(3, 1, 2), [0, 3, 1, 4, 2, 5]);
        assert_eq!(order(1, 1, 1), [0]);
        assert_eq!(order(2, 3, 1), [0, 1, 2, 3, 4, 5]);
    }
}
