//! Direct solver for the coarsest matrix of a hierarchy and for the coarse matrix E of deflation. The module orders the
//! rows so that the envelope is small, and computes L D L^T within this envelope. On a singular component, the solution
//! has mean zero.

use super::envelope::Envelope;
use crate::base::number::Real;
use crate::direct::couplings::Couplings;
use crate::direct::null_space::NearlySingularComponents;
use crate::error::{Result, extend, push, reserve, zeroed};
use crate::stencil::cells::Cells;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

const WHAT: &str = "the direct solver of the coarsest system";

/// Number of right-hand sides that are solved together. They fill four vector registers, and the values of 1000 rows
/// fit in the cache.
const RIGHT_HAND_SIDES_PER_GROUP: usize = 32;

/// Row order and factor of a matrix.
pub struct DirectSolver {
    /// Row k of the factor is row `row[k]` of the matrix.
    row: Vec<u32>,
    factor: Envelope,
    /// Means of the singular components, and a vector as workspace.
    state: Mutex<(Option<NearlySingularComponents>, Vec<f64>)>,
}

impl DirectSolver {
    /// Factorizes a matrix with its rows in the order `row`. For a row i with pivot d, `accepted` returns 1 / d or an
    /// error. If it returns 0, x_i is zero in every solution. `means` contains the singular components, if there are
    /// any.
    pub fn of(
        c: &Couplings,
        row: Vec<u32>,
        means: Option<NearlySingularComponents>,
        mut accepted: impl FnMut(usize, f64) -> Result<f64>,
    ) -> Result<Self> {
        let n = c.rows();
        let (mut place, mut first): (Vec<u32>, Vec<u32>) = (zeroed(n, WHAT)?, zeroed(n, WHAT)?);
        (0..).zip(&row).for_each(|(k, &i)| place[i as usize] = k);
        for (k, (first, &i)) in (0..).zip(first.iter_mut().zip(&row)) {
            *first = c.row(i as usize).map(|(j, _)| place[j]).fold(k, u32::min);
        }
        let mut factor = Envelope::new(&first)?;
        for (k, &i) in row.iter().enumerate() {
            factor.set_row_sum(k, c.row_sum[i as usize]);
            let earlier = c.row(i as usize).map(|(j, a)| (place[j] as usize, a)).filter(|&(l, _)| l < k);
            earlier.for_each(|(l, a)| factor.set_coupling(l, k, -a));
        }
        factor.factorize(|pivot| accepted(row[pivot.k] as usize, pivot.row_sum - pivot.couplings))?;
        let means = means.map(|means| means.permuted(&row)).transpose()?;
        Ok(Self { row, factor, state: Mutex::new((means, zeroed(n, WHAT)?)) })
    }

    /// Solves in place: x = A^-1 x.
    pub fn solve<V: Real>(&self, x: &mut [V]) {
        let (means, work) = &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        work.iter_mut().zip(&self.row).for_each(|(work, &i)| *work = x[i as usize].wide());
        means.iter_mut().for_each(|means| means.subtract(work));
        self.factor.solve(work);
        means.iter_mut().for_each(|means| means.subtract(work));
        work.iter().zip(&self.row).for_each(|(work, &i)| x[i as usize] = V::narrow(*work));
    }

    /// Returns the number of groups of columns of A^-1. The columns of a group are computed together.
    pub fn groups(&self) -> usize {
        self.row.len().div_ceil(RIGHT_HAND_SIDES_PER_GROUP)
    }

    /// Appends the columns of A^-1 that belong to `groups`, in the order of the factor. The entries of a column are in
    /// the order of the matrix. Unlike `solve`, does not remove means.
    pub fn append_columns(&self, groups: Range<usize>, columns: &mut Vec<f64>) -> Result<()> {
        let n = self.row.len();
        let mut x = zeroed(n * RIGHT_HAND_SIDES_PER_GROUP, WHAT)?;
        for group in groups {
            let from = group * RIGHT_HAND_SIDES_PER_GROUP;
            let wanted = RIGHT_HAND_SIDES_PER_GROUP.min(n - from);
            x.fill(0.0);
            (0..wanted).for_each(|i| x[(from + i) * RIGHT_HAND_SIDES_PER_GROUP + i] = 1.0);
            self.factor.solve_together(&mut x, RIGHT_HAND_SIDES_PER_GROUP, from);
            let first = columns.len();
            reserve(columns, wanted * n, WHAT)?;
            columns.resize(first + wanted * n, 0.0);
            for (x, &s) in x.chunks_exact(RIGHT_HAND_SIDES_PER_GROUP).zip(&self.row) {
                x[..wanted].iter().enumerate().for_each(|(i, x)| columns[first + i * n + s as usize] = *x);
            }
        }
        Ok(())
    }

    /// Returns A^-1, stored by rows in the order of the matrix. `columns` contains the columns of all groups, in order.
    pub fn inverse<'a>(&self, columns: impl Iterator<Item = &'a [f64]>) -> Result<Vec<f64>> {
        let n = self.row.len();
        let mut inverse = zeroed(n * n, "the inverse of the coarse matrix")?;
        let columns = columns.flat_map(|columns| columns.chunks_exact(n.max(1)));
        for (&r, column) in self.row.iter().zip(columns) {
            // A is symmetric, so each column is also a row.
            inverse[r as usize * n..][..n].copy_from_slice(column);
        }
        Ok(inverse)
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let (means, work) = &*self.state.lock().unwrap_or_else(PoisonError::into_inner);
        4 * self.row.len()
            + self.factor.bytes()
            + means.as_ref().map_or(0, NearlySingularComponents::bytes)
            + 8 * work.len()
    }
}

/// Returns the cells of a box in an order in which the index of the longest direction varies slowest. The matrix then
/// has a narrow band.
pub fn box_order(cells: Cells) -> Result<Vec<u32>> {
    let (size, steps) = (cells.size(), cells.strides());
    let mut directions = [0, 1, 2];
    directions.sort_by_key(|&d| size[d]);
    let [fast, middle, slow] = directions;
    let mut order = Vec::new();
    reserve(&mut order, cells.count(), WHAT)?;
    for at in (0..size[slow]).flat_map(|k| (0..size[middle]).map(move |j| k * steps[slow] + j * steps[middle])) {
        extend(&mut order, (0..size[fast]).map(|i| (at + i * steps[fast]) as u32), WHAT)?;
    }
    Ok(order)
}

/// Breadth-first search in the graph of the matrix. The rows at equal distance from the root are a level of the search.
struct Search<'a> {
    matrix: &'a Couplings,
    /// Number of the last search that found each row; 0 if none did.
    found: Vec<u32>,
    searches: u32,
}

impl Search<'_> {
    fn degree(&self, i: u32) -> (usize, u32) {
        (self.matrix.ptr[i as usize + 1] - self.matrix.ptr[i as usize], i)
    }

    /// Appends `root` and the rows that are connected to it to `order`, level by level; within a level, the new
    /// neighbours of a row are in ascending order of their degrees. Returns the position in `order` of the first row of
    /// the last level, and the number of levels, not counting the level that consists of the root.
    fn append_component(&mut self, root: u32, order: &mut Vec<u32>) -> Result<(usize, usize)> {
        self.searches += 1;
        self.found[root as usize] = self.searches;
        let (mut level, mut levels) = (order.len(), 0);
        push(order, root, WHAT)?;
        loop {
            let end = order.len();
            for k in level..end {
                let own = order.len();
                for (j, _) in self.matrix.row(order[k] as usize) {
                    if self.found[j] < self.searches {
                        self.found[j] = self.searches;
                        push(order, j as u32, WHAT)?;
                    }
                }
                order[own..].sort_unstable_by_key(|&i| self.degree(i));
            }
            if order.len() == end {
                return Ok((level, levels));
            }
            (level, levels) = (end, levels + 1);
        }
    }
}

/// Returns the reverse Cuthill-McKee order. The search in a component starts at a pseudo-peripheral row. To find this
/// row, breadth-first searches are repeated from a row of the last level until the number of levels no longer
/// increases.
pub fn envelope_order(matrix: &Couplings) -> Result<Vec<u32>> {
    let mut search = Search { matrix, found: zeroed(matrix.rows(), WHAT)?, searches: 0 };
    let mut order = Vec::new();
    reserve(&mut order, matrix.rows(), WHAT)?;
    for start in 0..matrix.rows() as u32 {
        if search.found[start as usize] > 0 {
            continue;
        }
        let begin = order.len();
        let (mut root, mut depth) = (start, 0);
        loop {
            order.truncate(begin);
            let (last, levels) = search.append_component(root, &mut order)?;
            if levels <= depth {
                break;
            }
            depth = levels;
            let farthest = order[last..].iter().min_by_key(|&&i| search.degree(i));
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

    /// Returns a random matrix of `n` rows with components of up to `piece` rows. Every second component is singular.
    fn matrix(n: usize, piece: usize, generator: &mut SplitMix) -> Couplings {
        let mut a = vec![vec![0.0; n]; n];
        let end = |i: usize| n.min((i / piece + 1) * piece);
        for (i, j) in (0..n).flat_map(|i| (i + 1..end(i)).map(move |j| (i, j))) {
            // A path connects all rows of the component.
            if j == i + 1 || generator.unit() < 0.2 {
                a[i][j] = 0.1 + generator.unit();
                a[j][i] = a[i][j];
            }
        }
        // A random permutation mixes the rows of the components.
        let mut at: Vec<usize> = (0..n).collect();
        (1..n).for_each(|i| at.swap(i, (generator.unit() * (i + 1) as f64) as usize));
        let mut c = Couplings::with_capacity(n, n * n).unwrap();
        for &i in &at {
            (0..n).filter(|&j| a[i][at[j]] != 0.0).for_each(|j| c.push(j, a[i][at[j]]));
            c.end_exact_row(if (i / piece).is_multiple_of(2) { 0.0 } else { generator.unit() });
        }
        c
    }

    fn residual(c: &Couplings, x: &[f64], b: &[f64]) -> f64 {
        let of = |i: usize| c.row(i).fold(b[i] - c.row_sum[i] * x[i], |r, (j, a)| r + a * (x[j] - x[i]));
        (0..x.len()).map(of).fold(0.0, |most, r: f64| most.max(r.abs()))
    }

    fn accepted(d: f64) -> Result<f64> {
        Ok(if d == 0.0 { 0.0 } else { 1.0 / d })
    }

    #[test]
    fn solves_singular_and_regular_components() {
        let mut generator = SplitMix(9);
        for (n, piece) in [(1, 1), (2, 1), (2, 2), (3, 2), (5, 5), (17, 6), (64, 64), (65, 13), (65, 1), (200, 90)] {
            let c = matrix(n, piece, &mut generator);
            let means = || NearlySingularComponents::of(&c, |_, _| 0.0).unwrap();
            let direct = DirectSolver::of(&c, envelope_order(&c).unwrap(), means(), |_, d| accepted(d)).unwrap();
            let mut b: Vec<f64> = (0..n).map(|_| generator.unit() - 0.5).collect();
            let mut x = b.clone();
            direct.solve(&mut x);
            // On singular components, x must solve the system for b minus its mean, and x must have mean zero.
            let (mut rest, mut means) = (x.clone(), means());
            means.iter_mut().for_each(|means| means.subtract(&mut b));
            means.iter_mut().for_each(|means| means.subtract(&mut rest));
            assert!(residual(&c, &x, &b) < 1e-12, "{n}, {piece}: {:e}", residual(&c, &x, &b));
            let mean = x.iter().zip(&rest).fold(0.0, |most: f64, (x, rest)| most.max((x - rest).abs()));
            assert!(mean < 1e-12, "{n}, {piece}: {mean:e}");
        }
    }

    #[test]
    fn columns_of_the_inverse_are_solutions() {
        for n in [1, 31, 32, 33, 65] {
            let mut c = matrix(n, n, &mut SplitMix(10));
            c.row_sum.fill(0.3);
            let direct = DirectSolver::of(&c, envelope_order(&c).unwrap(), None, |_, d| accepted(d)).unwrap();
            let mut columns = Vec::new();
            (0..direct.groups()).for_each(|k| direct.append_columns(k..k + 1, &mut columns).unwrap());
            let inverse = direct.inverse([&columns[..]].into_iter()).unwrap();
            for (i, row) in inverse.chunks_exact(n).enumerate() {
                let unit: Vec<f64> = (0..n).map(|j| f64::from(u8::from(i == j))).collect();
                assert!(residual(&c, row, &unit) < 1e-12, "{n}, {i}");
            }
        }
    }

    #[test]
    fn errors_of_rejected_pivots_name_the_row() {
        let c = matrix(17, 17, &mut SplitMix(11));
        let mut named = Vec::new();
        let order = envelope_order(&c).unwrap();
        let made = DirectSolver::of(&c, order.clone(), None, |i, d| {
            named.push(i as u32);
            if named.len() == 6 { Err(crate::error::Error::Internal(String::new())) } else { accepted(d) }
        });
        assert!(made.is_err());
        assert_eq!(named, order[..6]);
    }

    #[test]
    fn boxes_are_ordered_along_their_longest_direction() {
        let order = |nx, ny, nz| box_order(Cells { nx, ny, nz }).unwrap();
        assert_eq!(order(3, 1, 2), [0, 3, 1, 4, 2, 5]);
        assert_eq!(order(1, 1, 1), [0]);
        assert_eq!(order(2, 3, 1), [0, 1, 2, 3, 4, 5]);
    }
}
