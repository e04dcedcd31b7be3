//! Factorization L D L^T within the envelope of a symmetric matrix in row-sum form (report 16-06, equation 2.7;
//! docs/theory/rrb.md, coarsest system).
//!
//! Let a_kl be the off-diagonal entries between node k and later nodes, and s_k the row sum of node k, both after the
//! elimination of earlier nodes. In this file, a coupling is such an entry a_kl; in `couplings.rs`, couplings have the
//! opposite sign. The elimination of node k computes
//!
//! ```text
//! d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k,   l, m > k.
//! ```
//!
//! The diagonal entries of the matrix are not stored. If no coupling is positive and no row sum is negative, no
//! subtraction cancels digits. If all rows of a component sum to zero, the last pivot of this component is exactly
//! zero. If the callback `invert_pivot` of `Envelope::factorize` returns 0 instead of 1 / d_k for this pivot, x_k is
//! zero in every solution.
//!
//! The envelope of a row consists of the columns from its first coupling to the diagonal. If column k is in the
//! envelopes of w_k rows, the factorization costs sum w_k^2 / 2 multiply-adds, and a solve costs two multiply-adds per
//! entry.

use crate::base::isa::for_each_isa;
use crate::base::reduce::{dot, sum};
use crate::error::{Result, zeroed};

/// Number of nodes that are eliminated together, as a block. Later rows are loaded and stored once per block.
const BLOCK_NODES: usize = 4;
/// Number of doubles in the widest vector register.
const LANES: usize = 8;
const ALLOCATION_NAME: &str = "the exact factor of the coarsest system";

for_each_isa! {
    /// Eliminates the previous nodes of the block from column `index` of the block: subtracts `factors[m]` times column
    /// m for each m < `index`. Each column has `row_count` entries; see `gather_columns` for `columns` and `stride`.
    /// Returns the sum of the new column.
    fn update_column(columns: &mut [f64], stride: usize, index: usize, row_count: usize, factors: [f64; 4]) -> f64 {
        let (earlier_columns, column) = columns.split_at_mut(index * stride);
        let column = &mut column[LANES..][..row_count];
        for (earlier, factor) in earlier_columns.chunks_exact(stride).zip(factors) {
            column.iter_mut().zip(&earlier[LANES..]).for_each(|(column, c)| *column -= factor * c);
        }
        sum(column)
    }

    /// Eliminates the nodes k of a block from the later rows i: l_ik = a_ik / d_k, a_ij -= l_ik a_kj, s_i -= l_ik s_k.
    /// l_ik replaces a_ik in `rows`. `row_sums` contains s_i, `inverse_pivots` contains 1 / d_k, and
    /// `eliminated_row_sums` contains s_k. See `gather_columns` for `rows`, `row_start`, `columns` and `stride`.
    fn eliminate(
        rows: &mut [f64],
        row_start: &[usize],
        row_sums: &mut [f64],
        columns: &[f64],
        stride: usize,
        inverse_pivots: [f64; 4],
        eliminated_row_sums: [f64; 4],
    ) {
        let block_column = |index: usize| &columns[index * stride..][..LANES + row_sums.len()];
        // With slices of equal length, the compiler checks bounds only once.
        let [c0, c1, c2, c3] = [block_column(0), block_column(1), block_column(2), block_column(3)];
        let factors = |i: usize| {
            [c0[i] * inverse_pivots[0], c1[i] * inverse_pivots[1], c2[i] * inverse_pivots[2], c3[i] * inverse_pivots[3]]
        };
        for (i, row_sum) in (LANES..).zip(row_sums) {
            let l = factors(i);
            *row_sum = *row_sum
                - l[0] * eliminated_row_sums[0]
                - l[1] * eliminated_row_sums[1]
                - l[2] * eliminated_row_sums[2]
                - l[3] * eliminated_row_sums[3];
        }
        for (i, bounds) in row_start.windows(2).enumerate() {
            let (l, row_end) = (factors(LANES + i), bounds[1]);
            let row_entries = (row_end - bounds[0]).saturating_sub(i).min(BLOCK_NODES);
            if row_entries == 0 {
                continue;
            }
            if l != [0.0; BLOCK_NODES] {
                // Updates the entries of row i between the columns of the block and the diagonal. The range is extended
                // to the left to a multiple of the vector length. The additional entries do not change, because
                // `columns` is zero there.
                let n = i.next_multiple_of(LANES);
                let (row_values, first_entry) = (&mut rows[row_end - n..row_end], LANES + i - n);
                let (m0, m1) = (&c0[first_entry..][..n], &c1[first_entry..][..n]);
                let (m2, m3) = (&c2[first_entry..][..n], &c3[first_entry..][..n]);
                for j in 0..n {
                    row_values[j] = row_values[j] - l[0] * m0[j] - l[1] * m1[j] - l[2] * m2[j] - l[3] * m3[j];
                }
            }
            match row_entries {
                // With a constant length, the compiler needs no call of memcpy.
                BLOCK_NODES => rows[row_end - i - BLOCK_NODES..][..BLOCK_NODES].copy_from_slice(&l),
                _ => rows[row_end - i - row_entries..row_end - i].copy_from_slice(&l[BLOCK_NODES - row_entries..]),
            }
        }
    }

    /// Computes x = L^-1 x.
    fn forward(x: &mut [f64], rows: &[f64], row_start: &[usize]) {
        for (k, bounds) in row_start.windows(2).enumerate() {
            let row = &rows[bounds[0]..bounds[1]];
            x[k] -= dot(row, &x[k - row.len()..k]);
        }
    }

    /// Computes x = L^-T x.
    fn backward(x: &mut [f64], rows: &[f64], row_start: &[usize]) {
        for (k, bounds) in row_start.windows(2).enumerate().rev() {
            let (row, v) = (&rows[bounds[0]..bounds[1]], x[k]);
            x[k - row.len()..k].iter_mut().zip(row).for_each(|(x, l)| *x -= l * v);
        }
    }

    /// Computes x = (L D L^T)^-1 x for `width` right-hand sides; the `width` values of a node are stored next to each
    /// other. The values of the nodes before `first_node` must be zero in all right-hand sides. `width` is an argument
    /// and not a constant: with a constant, the compiler does not vectorize over the right-hand sides.
    fn solve_together(
        x: &mut [f64],
        width: usize,
        rows: &[f64],
        row_start: &[usize],
        inverse_pivots: &[f64],
        first_node: usize,
    ) {
        for k in first_node..inverse_pivots.len() {
            let (earlier_values, node_values) = x.split_at_mut(k * width);
            let node_values = &mut node_values[..width];
            let row = &rows[row_start[k]..row_start[k + 1]];
            let row = &row[row.len().saturating_sub(k - first_node)..];
            for (earlier_values, l) in earlier_values[(k - row.len()) * width..].chunks_exact(width).zip(row) {
                node_values.iter_mut().zip(earlier_values).for_each(|(x, v)| *x -= l * v);
            }
        }
        x.chunks_exact_mut(width)
            .zip(inverse_pivots)
            .for_each(|(x, inverse_pivot)| x.iter_mut().for_each(|x| *x *= inverse_pivot));
        for k in (0..inverse_pivots.len()).rev() {
            let (earlier_values, node_values) = x.split_at_mut(k * width);
            let node_values = &node_values[..width];
            let row = &rows[row_start[k]..row_start[k + 1]];
            for (earlier_values, l) in earlier_values[(k - row.len()) * width..].chunks_exact_mut(width).zip(row) {
                earlier_values.iter_mut().zip(node_values).for_each(|(x, v)| *x -= l * v);
            }
        }
    }
}

/// Copies the columns of a block of nodes from the rows after the block to `columns`; entries outside the envelope are
/// zero. Row i after the block consists of the entries `row_start[i] .. row_start[i + 1]` of `rows`; its last i entries
/// belong to columns after the block. From index `c * stride` on, `columns` contains `LANES` zeros and then the entries
/// of column c of the block, one per row.
fn gather_columns(columns: &mut [f64], stride: usize, rows: &[f64], row_start: &[usize]) {
    let (c0, later_columns) = columns.split_at_mut(stride);
    let (c1, later_columns) = later_columns.split_at_mut(stride);
    let (c2, c3) = later_columns.split_at_mut(stride);
    for (i, bounds) in row_start.windows(2).enumerate() {
        let (mut row, end) = ([0.0; BLOCK_NODES], bounds[1]);
        match (end - bounds[0]).saturating_sub(i) {
            0 => {}
            entry_count @ 1..BLOCK_NODES => {
                row[BLOCK_NODES - entry_count..].copy_from_slice(&rows[end - i - entry_count..end - i])
            }
            // With a constant length, the compiler needs no call of memcpy.
            _ => row.copy_from_slice(&rows[end - i - BLOCK_NODES..][..BLOCK_NODES]),
        }
        let i = LANES + i;
        [c0[i], c1[i], c2[i], c3[i]] = row;
    }
}

/// A pivot d_k = s_k - sum_l a_kl, which the callback `invert_pivot` of `Envelope::factorize` accepts or rejects.
pub struct PivotCandidate {
    /// Number k of the node.
    pub k: usize,
    /// Row sum s_k.
    pub row_sum: f64,
    /// Sum of the couplings to later nodes, sum_l a_kl.
    pub couplings: f64,
    /// Whether the node has no couplings to later nodes.
    pub is_uncoupled: bool,
}

/// A matrix before `factorize`; its factor L D L^T afterwards.
pub struct Envelope {
    /// Row k, from its first column to the column before the diagonal, is stored in `rows`. It begins at index
    /// `row_start[k]` and ends before index `row_start[k + 1]`. `LANES` values that belong to no row precede row 0.
    row_start: Vec<usize>,
    /// Rows `end_row[k]` and later have no entries in columns 0 to k.
    end_row: Vec<u32>,
    /// Couplings before `factorize`; afterwards the entries of L.
    rows: Vec<f64>,
    /// Row sums s_k. After `factorize`, s_k is the row sum at the elimination of node k.
    row_sum: Vec<f64>,
    /// 1 / d_k.
    inverse_pivots: Vec<f64>,
    /// Workspace for the columns of one block.
    columns: Vec<f64>,
}

impl Envelope {
    /// Allocates the envelope. `first_columns[k]` is the column of the first coupling of row k to an earlier node, or k
    /// if there is no such coupling.
    pub fn new(first_columns: &[u32]) -> Result<Self> {
        let n = first_columns.len();
        let (mut row_start, mut end_row): (Vec<usize>, Vec<u32>) =
            (zeroed(n + 1, ALLOCATION_NAME)?, zeroed(n, ALLOCATION_NAME)?);
        row_start[0] = LANES;
        for (k, &first_column) in first_columns.iter().enumerate() {
            row_start[k + 1] = row_start[k] + k - first_column as usize;
            end_row[k] = end_row[k].max(k as u32 + 1);
            end_row[first_column as usize] = k as u32 + 1;
        }
        let mut max_width = 0;
        for k in 0..n {
            end_row[k] = end_row[k].max(if k > 0 { end_row[k - 1] } else { 0 });
            max_width = max_width.max(end_row[k] as usize - k);
        }
        Ok(Self {
            rows: zeroed(row_start[n], ALLOCATION_NAME)?,
            row_start,
            end_row,
            row_sum: zeroed(n, ALLOCATION_NAME)?,
            inverse_pivots: zeroed(n, ALLOCATION_NAME)?,
            columns: zeroed(BLOCK_NODES * (LANES + max_width), ALLOCATION_NAME)?,
        })
    }

    /// Sets all couplings to zero.
    pub fn clear(&mut self) {
        self.rows.fill(0.0);
    }

    /// Sets the coupling of two nodes. The coupling must be in the envelope.
    pub fn set_coupling(&mut self, k: usize, l: usize, value: f64) {
        let (low, high) = (k.min(l), k.max(l));
        self.rows[self.row_start[high + 1] - (high - low)] = value;
    }

    /// Sets the row sum s_k.
    pub fn set_row_sum(&mut self, k: usize, value: f64) {
        self.row_sum[k] = value;
    }

    /// Factorizes the matrix. Calls `invert_pivot` for the pivot of each node k, in ascending order of k.
    /// `invert_pivot` must return 1 / d_k or an error. If it returns 0, x_k is zero in every solution. If it returns an
    /// error, this function returns the error and leaves the factor incomplete.
    pub fn factorize(&mut self, mut invert_pivot: impl FnMut(PivotCandidate) -> Result<f64>) -> Result<()> {
        let (n, stride) = (self.inverse_pivots.len(), self.columns.len() / BLOCK_NODES);
        for block_start in (0..n).step_by(BLOCK_NODES) {
            let node_count = BLOCK_NODES.min(n - block_start);
            let later_rows = block_start + node_count..self.end_row[block_start + node_count - 1] as usize;
            let mut block_couplings = self.block_couplings_of(block_start, node_count);
            gather_columns(&mut self.columns, stride, &self.rows, &self.row_start[later_rows.start..=later_rows.end]);
            let (mut block_inverse_pivots, mut eliminated_row_sums) = ([0.0; BLOCK_NODES], [0.0; BLOCK_NODES]);
            for index in 0..node_count {
                let factors =
                    [0, 1, 2, 3].map(|earlier| block_couplings[earlier][index] * block_inverse_pivots[earlier]);
                let row_count = later_rows.len();
                for earlier in 0..index {
                    self.row_sum[block_start + index] -= factors[earlier] * eliminated_row_sums[earlier];
                    (index + 1..node_count).for_each(|later| {
                        block_couplings[index][later] -= factors[earlier] * block_couplings[earlier][later]
                    });
                }
                let couplings = block_couplings[index].iter().sum::<f64>()
                    + update_column(&mut self.columns, stride, index, row_count, factors);
                let column = &self.columns[index * stride + LANES..][..row_count];
                let is_uncoupled = couplings == 0.0 && block_couplings[index].iter().chain(column).all(|&c| c == 0.0);
                eliminated_row_sums[index] = self.row_sum[block_start + index];
                block_inverse_pivots[index] = invert_pivot(PivotCandidate {
                    k: block_start + index,
                    row_sum: eliminated_row_sums[index],
                    couplings,
                    is_uncoupled,
                })?;
            }
            self.inverse_pivots[block_start..][..node_count].copy_from_slice(&block_inverse_pivots[..node_count]);
            self.store_block_factor(block_start, node_count, &block_couplings);
            let (row_start, row_sum) =
                (&self.row_start[later_rows.start..=later_rows.end], &mut self.row_sum[later_rows]);
            eliminate(
                &mut self.rows,
                row_start,
                row_sum,
                &self.columns,
                stride,
                block_inverse_pivots,
                eliminated_row_sums,
            );
        }
        Ok(())
    }

    /// Returns the couplings between the nodes of a block. Entry `[k][l]` is the coupling of nodes k < l, counted
    /// within the block.
    fn block_couplings_of(&self, block_start: usize, node_count: usize) -> [[f64; BLOCK_NODES]; BLOCK_NODES] {
        let mut block_couplings = [[0.0; BLOCK_NODES]; BLOCK_NODES];
        (1..node_count).for_each(|later| {
            let row = &self.rows[self.row_start[block_start + later]..self.row_start[block_start + later + 1]];
            (0..later).rev().zip(row.iter().rev()).for_each(|(earlier, &c)| block_couplings[earlier][later] = c);
        });
        block_couplings
    }

    /// Stores the entries of L between the nodes of a block, after the elimination of the block:
    /// l_lk = `block_couplings[k][l]` / d_k.
    fn store_block_factor(
        &mut self,
        block_start: usize,
        node_count: usize,
        block_couplings: &[[f64; BLOCK_NODES]; BLOCK_NODES],
    ) {
        (1..node_count).for_each(|later| {
            let row = &mut self.rows[self.row_start[block_start + later]..self.row_start[block_start + later + 1]];
            let columns = (0..later).rev().zip(row.iter_mut().rev());
            columns.for_each(|(earlier, l)| {
                *l = block_couplings[earlier][later] * self.inverse_pivots[block_start + earlier]
            });
        });
    }

    /// Computes x = (L D L^T)^-1 x.
    pub fn solve(&self, x: &mut [f64]) {
        forward(x, &self.rows, &self.row_start);
        x.iter_mut().zip(&self.inverse_pivots).for_each(|(x, inverse)| *x *= inverse);
        backward(x, &self.rows, &self.row_start);
    }

    /// Computes x = (L D L^T)^-1 x for `width` right-hand sides. The `width` values of a node are stored next to each
    /// other. The values of the nodes before `first_node` must be zero in all right-hand sides.
    pub fn solve_together(&self, x: &mut [f64], width: usize, first_node: usize) {
        solve_together(x, width, &self.rows, &self.row_start, &self.inverse_pivots, first_node);
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        8 * (self.row_start.len() + self.rows.len() + 2 * self.inverse_pivots.len() + self.columns.len())
            + 4 * self.end_row.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrbsolver_problems::two_phase::SplitMix;

    /// Dense symmetric matrix. Each coupling in the envelope is 0 or between -1.5 and -0.5; the row sums are random.
    struct System {
        first_columns: Vec<u32>,
        couplings: Vec<Vec<f64>>,
        row_sum: Vec<f64>,
    }

    impl System {
        fn random(n: usize, bandwidth: usize, fill_probability: f64, generator: &mut SplitMix) -> Self {
            let mut couplings = vec![vec![0.0; n]; n];
            for (k, l) in (1..n).flat_map(|k| (k.saturating_sub(bandwidth)..k).map(move |l| (k, l))) {
                if generator.unit() < fill_probability {
                    couplings[k][l] = -0.5 - generator.unit();
                    couplings[l][k] = couplings[k][l];
                }
            }
            let first_columns =
                (0..n).map(|k| couplings[k][..k].iter().position(|&c| c != 0.0).unwrap_or(k) as u32).collect();
            Self { first_columns, couplings, row_sum: (0..n).map(|_| 0.01 + generator.unit()).collect() }
        }

        fn factor(&self) -> Envelope {
            let mut factor = Envelope::new(&self.first_columns).unwrap();
            // Arbitrary previous contents, which must not affect the factor.
            factor.rows.fill(7.0);
            factor.columns.fill(0.0);
            factor.clear();
            for (k, row) in self.couplings.iter().enumerate() {
                factor.set_row_sum(k, self.row_sum[k]);
                (0..k).filter(|&l| row[l] != 0.0).for_each(|l| factor.set_coupling(l, k, row[l]));
            }
            let inverse = |pivot: PivotCandidate| match pivot.row_sum - pivot.couplings {
                0.0 => Ok(0.0),
                d => Ok(1.0 / d),
            };
            factor.factorize(inverse).unwrap();
            factor
        }

        fn multiply(&self, x: &[f64]) -> Vec<f64> {
            let row = |k: usize| {
                let neighbours = self.couplings[k].iter().zip(x);
                neighbours.fold(self.row_sum[k] * x[k], |sum, (c, v)| sum + c * (v - x[k]))
            };
            (0..x.len()).map(row).collect()
        }

        /// Gaussian elimination with partial pivoting.
        fn solve(&self, b: &[f64]) -> Vec<f64> {
            let n = b.len();
            let mut a: Vec<Vec<f64>> = self.couplings.clone();
            for k in 0..n {
                a[k][k] = self.row_sum[k] - self.couplings[k].iter().sum::<f64>();
                a[k].push(b[k]);
            }
            for k in 0..n {
                let pivot_row = (k..n).max_by(|&p, &q| a[p][k].abs().total_cmp(&a[q][k].abs())).unwrap();
                a.swap(k, pivot_row);
                let pivot = a[k].clone();
                for row in a.iter_mut().skip(k + 1) {
                    let factor = row[k] / pivot[k];
                    row.iter_mut().zip(&pivot).for_each(|(v, p)| *v -= factor * p);
                }
            }
            let mut x = vec![0.0; n];
            for k in (0..n).rev() {
                let known_part: f64 = (k + 1..n).map(|l| a[k][l] * x[l]).sum();
                x[k] = (a[k][n] - known_part) / a[k][k];
            }
            x
        }
    }

    const NODE_COUNTS: [usize; 12] = [1, 2, 3, 4, 5, 8, 9, 17, 31, 64, 65, 130];

    fn systems() -> impl Iterator<Item = (String, System)> {
        let mut generator = SplitMix(5);
        NODE_COUNTS.into_iter().flat_map(|n| [(n, 1, 0.5), (n, 6, 0.3), (n, 40, 0.9), (n, n, 0.05)]).map(
            move |parameters| {
                let (n, bandwidth, fill_probability) = parameters;
                (format!("{parameters:?}"), System::random(n, bandwidth, fill_probability, &mut generator))
            },
        )
    }

    fn max_abs(v: impl IntoIterator<Item = f64>) -> f64 {
        v.into_iter().fold(0.0, |largest: f64, v| largest.max(v.abs()))
    }

    #[test]
    fn solve_agrees_with_gaussian_elimination() {
        let mut generator = SplitMix(6);
        for (name, system) in systems() {
            let b: Vec<f64> = system.row_sum.iter().map(|_| generator.unit() - 0.5).collect();
            let (factor, expected) = (system.factor(), system.solve(&b));
            let mut x = b.clone();
            factor.solve(&mut x);
            let error = max_abs(x.iter().zip(&expected).map(|(x, y)| x - y));
            assert!(error <= 1e-12 * max_abs(expected.iter().copied()), "{name}: {error:e}");
        }
    }

    #[test]
    fn solve_together_agrees_with_solve() {
        for (name, system) in systems() {
            let (factor, n) = (system.factor(), system.row_sum.len());
            for first_node in [0, n / 2, n - 1] {
                let width = 3.min(n - first_node);
                let mut solutions = vec![0.0; n * width];
                (0..width).for_each(|i| solutions[(first_node + i) * width + i] = 1.0);
                factor.solve_together(&mut solutions, width, first_node);
                for i in 0..width {
                    let mut x = vec![0.0; n];
                    x[first_node + i] = 1.0;
                    factor.solve(&mut x);
                    let error = max_abs(x.iter().enumerate().map(|(k, x)| x - solutions[k * width + i]));
                    assert!(error <= 1e-13 * max_abs(x.iter().copied()), "{name} from {first_node}: {error:e}");
                }
            }
        }
    }

    /// If the right-hand side is the vector s of row sums, the solution is the vector 1 of ones, because A 1 = s. The
    /// computed solution must be close to the vector of ones even if the row sums s are far below the rounding error of
    /// the diagonal.
    #[test]
    fn tiny_row_sums_determine_the_solution() {
        for (name, mut system) in systems() {
            for scale in [1e-10, 1e-30] {
                system.row_sum.iter_mut().for_each(|e| *e *= scale);
                let mut x = system.row_sum.clone();
                system.factor().solve(&mut x);
                let error = max_abs(x.iter().map(|x| x - 1.0));
                assert!(error <= 1e-11, "{name}, {scale:e}: {error:e}");
            }
        }
    }

    /// If all rows of a component sum to zero, its last pivot is exactly zero. The solve is exact for right-hand sides
    /// that sum to zero on each of these components.
    #[test]
    fn last_pivot_of_singular_component_is_zero() {
        let mut generator = SplitMix(7);
        for (name, mut system) in systems() {
            system.row_sum.fill(0.0);
            let b = system.multiply(&system.first_columns.iter().map(|_| generator.unit()).collect::<Vec<_>>());
            let factor = system.factor();
            assert!(factor.inverse_pivots.last() == Some(&0.0), "{name}");
            let mut x = b.clone();
            factor.solve(&mut x);
            let error = max_abs(system.multiply(&x).iter().zip(&b).map(|(p, b)| p - b));
            assert!(error <= 1e-11 * max_abs(b.iter().copied()), "{name}: {error:e}");
        }
    }

    #[test]
    fn factorization_succeeds_after_rejected_pivot() {
        let system = System::random(23, 5, 0.7, &mut SplitMix(8));
        let mut factor = system.factor();
        let expected = factor.rows.clone();
        let rejected = factor.factorize(|pivot| match pivot.k {
            9 => Err(crate::error::Error::Internal(String::from("refused"))),
            _ => Ok(f64::INFINITY),
        });
        assert!(rejected.is_err());
        let refactorized_rows = {
            factor.clear();
            for (k, row) in system.couplings.iter().enumerate() {
                factor.set_row_sum(k, system.row_sum[k]);
                (0..k).filter(|&l| row[l] != 0.0).for_each(|l| factor.set_coupling(l, k, row[l]));
            }
            factor.factorize(|pivot| Ok(1.0 / (pivot.row_sum - pivot.couplings))).unwrap();
            factor.rows
        };
        assert_eq!(refactorized_rows[LANES..], expected[LANES..]);
    }
}
