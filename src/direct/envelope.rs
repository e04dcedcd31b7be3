//! Factorization L D L^T within the envelope of a symmetric matrix in row-sum form (report 16-06, equation 2.7;
//! docs/theory/rrb.md, coarsest system).
//!
//! Let a_kl be the off-diagonal entries between node k and later nodes, and s_k the row sum of node k, both after the
//! elimination of earlier nodes. In this file, a coupling is such an entry a_kl; in `couplings.rs`, it has the opposite
//! sign. The elimination of node k computes
//!
//! ```text
//! d_k = s_k - sum_l a_kl,   a_lm -= a_kl a_km / d_k,   s_l -= a_kl s_k / d_k,   l, m > k.
//! ```
//!
//! The diagonal entries of the matrix are not stored. If no coupling is positive and no row sum is negative, no digits
//! cancel. If all rows of a component sum to zero, the last pivot of this component is exactly zero. If the caller sets
//! 1 / d_k to zero for this pivot, x_k is zero in every solution.
//!
//! The envelope of a row consists of the columns from its first coupling to the diagonal. If column k is in the
//! envelopes of w_k rows, the factorization costs sum w_k^2 / 2 multiply-adds, and a solve costs two multiply-adds per
//! entry.

use crate::base::isa::for_each_isa;
use crate::base::reduce::{dot, sum};
use crate::error::{Result, zeroed};

/// Number of nodes per block of the elimination. Later rows are loaded and stored once per block.
const BLOCK: usize = 4;
/// Number of doubles in the widest vector register.
const LANES: usize = 8;
const WHAT: &str = "the exact factor of the coarsest system";

for_each_isa! {
    /// Computes column `at` of the block after the elimination of the block's previous nodes: subtracts `factors[m]`
    /// times column m for each m < `at`. Each column has `length` entries; `gather` describes `columns` and `stride`.
    /// Returns the sum of the new column.
    fn update_column(columns: &mut [f64], stride: usize, at: usize, length: usize, factors: [f64; 4]) -> f64 {
        let (before, own) = columns.split_at_mut(at * stride);
        let own = &mut own[LANES..][..length];
        for (column, factor) in before.chunks_exact(stride).zip(factors) {
            own.iter_mut().zip(&column[LANES..]).for_each(|(own, c)| *own -= factor * c);
        }
        sum(own)
    }

    /// Eliminates the nodes k of a block from the later rows i: l_ik = a_ik / d_k, a_ij -= l_ik a_kj, s_i -= l_ik s_k.
    /// l_ik replaces a_ik in `rows`. `row_sum` contains s_i, `inverse` contains 1 / d_k, and `sums` contains s_k.
    /// `gather` describes `rows`, `start`, `columns` and `stride`.
    fn eliminate(
        rows: &mut [f64],
        start: &[usize],
        row_sum: &mut [f64],
        columns: &[f64],
        stride: usize,
        inverse: [f64; 4],
        sums: [f64; 4],
    ) {
        let column = |at: usize| &columns[at * stride..][..LANES + row_sum.len()];
        // The slices have equal length, so the compiler checks bounds only once.
        let [c0, c1, c2, c3] = [column(0), column(1), column(2), column(3)];
        let factors = |i: usize| [c0[i] * inverse[0], c1[i] * inverse[1], c2[i] * inverse[2], c3[i] * inverse[3]];
        for (i, row_sum) in (LANES..).zip(row_sum) {
            let l = factors(i);
            *row_sum = *row_sum - l[0] * sums[0] - l[1] * sums[1] - l[2] * sums[2] - l[3] * sums[3];
        }
        for (i, bounds) in start.windows(2).enumerate() {
            let (l, end) = (factors(LANES + i), bounds[1]);
            let room = (end - bounds[0]).saturating_sub(i).min(BLOCK);
            if room == 0 {
                continue;
            }
            if l != [0.0; BLOCK] {
                // Updates the entries of row i between the columns of the block and the diagonal. The range is extended
                // to the left to a multiple of the vector length. The additional entries do not change, because
                // `columns` is zero there.
                let n = i.next_multiple_of(LANES);
                let (row, first) = (&mut rows[end - n..end], LANES + i - n);
                let (m0, m1) = (&c0[first..][..n], &c1[first..][..n]);
                let (m2, m3) = (&c2[first..][..n], &c3[first..][..n]);
                for j in 0..n {
                    row[j] = row[j] - l[0] * m0[j] - l[1] * m1[j] - l[2] * m2[j] - l[3] * m3[j];
                }
            }
            match room {
                // With a constant length, the compiler needs no call of memcpy.
                BLOCK => rows[end - i - BLOCK..][..BLOCK].copy_from_slice(&l),
                _ => rows[end - i - room..end - i].copy_from_slice(&l[BLOCK - room..]),
            }
        }
    }

    /// Computes x = L^-1 x.
    fn forward(x: &mut [f64], rows: &[f64], start: &[usize]) {
        for (k, bounds) in start.windows(2).enumerate() {
            let row = &rows[bounds[0]..bounds[1]];
            x[k] -= dot(row, &x[k - row.len()..k]);
        }
    }

    /// Computes x = L^-T x.
    fn backward(x: &mut [f64], rows: &[f64], start: &[usize]) {
        for (k, bounds) in start.windows(2).enumerate().rev() {
            let (row, v) = (&rows[bounds[0]..bounds[1]], x[k]);
            x[k - row.len()..k].iter_mut().zip(row).for_each(|(x, l)| *x -= l * v);
        }
    }

    /// Computes x = (L D L^T)^-1 x for `width` right-hand sides; the `width` values of a node are stored next to each
    /// other. The right-hand sides must be zero before node `from`. `width` is an argument because the compiler does
    /// not vectorize over the right-hand sides if it is a constant.
    fn solve_together(x: &mut [f64], width: usize, rows: &[f64], start: &[usize], inverse: &[f64], from: usize) {
        for k in from..inverse.len() {
            let (before, own) = x.split_at_mut(k * width);
            let own = &mut own[..width];
            let row = &rows[start[k]..start[k + 1]];
            let row = &row[row.len().saturating_sub(k - from)..];
            for (before, l) in before[(k - row.len()) * width..].chunks_exact(width).zip(row) {
                own.iter_mut().zip(before).for_each(|(x, v)| *x -= l * v);
            }
        }
        x.chunks_exact_mut(width).zip(inverse).for_each(|(x, inverse)| x.iter_mut().for_each(|x| *x *= inverse));
        for k in (0..inverse.len()).rev() {
            let (before, own) = x.split_at_mut(k * width);
            let own = &own[..width];
            let row = &rows[start[k]..start[k + 1]];
            for (before, l) in before[(k - row.len()) * width..].chunks_exact_mut(width).zip(row) {
                before.iter_mut().zip(own).for_each(|(x, v)| *x -= l * v);
            }
        }
    }
}

/// Copies the columns of a block from the later rows to `columns`; entries outside the envelope are zero. Row i
/// consists of the entries `start[i] .. start[i + 1]` of `rows`; its last i entries belong to columns after the block.
/// At `c * stride`, `columns` contains `LANES` zeros, followed by the entries of column c of the block, one per later
/// row.
fn gather(columns: &mut [f64], stride: usize, rows: &[f64], start: &[usize]) {
    let (c0, rest) = columns.split_at_mut(stride);
    let (c1, rest) = rest.split_at_mut(stride);
    let (c2, c3) = rest.split_at_mut(stride);
    for (i, bounds) in start.windows(2).enumerate() {
        let (mut row, end) = ([0.0; BLOCK], bounds[1]);
        match (end - bounds[0]).saturating_sub(i) {
            0 => {}
            room @ 1..BLOCK => row[BLOCK - room..].copy_from_slice(&rows[end - i - room..end - i]),
            // With a constant length, the compiler needs no call of memcpy.
            _ => row.copy_from_slice(&rows[end - i - BLOCK..][..BLOCK]),
        }
        let i = LANES + i;
        [c0[i], c1[i], c2[i], c3[i]] = row;
    }
}

/// A pivot d_k = s_k - sum_l a_kl. The caller of `factorize` accepts or rejects it.
pub struct Candidate {
    /// Number of the node.
    pub k: usize,
    /// Row sum s_k.
    pub row_sum: f64,
    /// Sum of the couplings to later nodes, sum_l a_kl.
    pub couplings: f64,
    /// Whether the node has no couplings to later nodes.
    pub is_last: bool,
}

/// A matrix before `factorize`; its factor L D L^T afterwards.
pub struct Envelope {
    /// Row k, from its first column to the column before the diagonal, is stored at `start[k] .. start[k + 1]`. `LANES`
    /// values that belong to no row precede row 0.
    start: Vec<usize>,
    /// Rows `end[k]` and later have no entries in columns 0 to k.
    end: Vec<u32>,
    /// Couplings before `factorize`; afterwards the entries of L.
    rows: Vec<f64>,
    /// Row sums s_k. After `factorize`, s_k is the row sum at the elimination of node k.
    row_sum: Vec<f64>,
    /// 1 / d_k.
    inverse: Vec<f64>,
    /// Workspace for the columns of one block.
    columns: Vec<f64>,
}

impl Envelope {
    /// Allocates the envelope. `first[k]` is the column of the first coupling of row k to an earlier node, or k if
    /// there is no such coupling.
    pub fn new(first: &[u32]) -> Result<Self> {
        let n = first.len();
        let (mut start, mut end): (Vec<usize>, Vec<u32>) = (zeroed(n + 1, WHAT)?, zeroed(n, WHAT)?);
        start[0] = LANES;
        for (k, &low) in first.iter().enumerate() {
            start[k + 1] = start[k] + k - low as usize;
            end[k] = end[k].max(k as u32 + 1);
            end[low as usize] = k as u32 + 1;
        }
        let mut widest = 0;
        for k in 0..n {
            end[k] = end[k].max(if k > 0 { end[k - 1] } else { 0 });
            widest = widest.max(end[k] as usize - k);
        }
        Ok(Self {
            rows: zeroed(start[n], WHAT)?,
            start,
            end,
            row_sum: zeroed(n, WHAT)?,
            inverse: zeroed(n, WHAT)?,
            columns: zeroed(BLOCK * (LANES + widest), WHAT)?,
        })
    }

    /// Sets all couplings to zero.
    pub fn clear(&mut self) {
        self.rows.fill(0.0);
    }

    /// Sets the coupling of two nodes. The coupling must be in the envelope.
    pub fn set_coupling(&mut self, k: usize, l: usize, value: f64) {
        let (low, high) = (k.min(l), k.max(l));
        self.rows[self.start[high + 1] - (high - low)] = value;
    }

    /// Sets the row sum s_k.
    pub fn set_row_sum(&mut self, k: usize, value: f64) {
        self.row_sum[k] = value;
    }

    /// Factorizes the matrix. Calls `accepted` for the pivot of each node k, in ascending order of k. `accepted` must
    /// return 1 / d_k or an error. If it returns 0, x_k is zero in every solution. If it returns an error, this
    /// function returns the error and leaves the factor incomplete.
    pub fn factorize(&mut self, mut accepted: impl FnMut(Candidate) -> Result<f64>) -> Result<()> {
        let (n, stride) = (self.inverse.len(), self.columns.len() / BLOCK);
        for block in (0..n).step_by(BLOCK) {
            let count = BLOCK.min(n - block);
            let later = block + count..self.end[block + count - 1] as usize;
            let mut own = self.couplings_within(block, count);
            gather(&mut self.columns, stride, &self.rows, &self.start[later.start..=later.end]);
            let (mut inverse, mut sums) = ([0.0; BLOCK], [0.0; BLOCK]);
            for at in 0..count {
                let factors = [0, 1, 2, 3].map(|before| own[before][at] * inverse[before]);
                let length = later.len();
                for before in 0..at {
                    self.row_sum[block + at] -= factors[before] * sums[before];
                    (at + 1..count).for_each(|behind| own[at][behind] -= factors[before] * own[before][behind]);
                }
                let couplings =
                    own[at].iter().sum::<f64>() + update_column(&mut self.columns, stride, at, length, factors);
                let column = &self.columns[at * stride + LANES..][..length];
                let is_last = couplings == 0.0 && own[at].iter().chain(column).all(|&c| c == 0.0);
                sums[at] = self.row_sum[block + at];
                inverse[at] = accepted(Candidate { k: block + at, row_sum: sums[at], couplings, is_last })?;
            }
            self.inverse[block..][..count].copy_from_slice(&inverse[..count]);
            self.store_within(block, count, &own);
            let (start, row_sum) = (&self.start[later.start..=later.end], &mut self.row_sum[later]);
            eliminate(&mut self.rows, start, row_sum, &self.columns, stride, inverse, sums);
        }
        Ok(())
    }

    /// Returns the couplings between the nodes of a block: `own[k][l]` couples the nodes k < l of the block.
    fn couplings_within(&self, block: usize, count: usize) -> [[f64; BLOCK]; BLOCK] {
        let mut own = [[0.0; BLOCK]; BLOCK];
        (1..count).for_each(|behind| {
            let row = &self.rows[self.start[block + behind]..self.start[block + behind + 1]];
            (0..behind).rev().zip(row.iter().rev()).for_each(|(at, &c)| own[at][behind] = c);
        });
        own
    }

    /// Stores the entries of L between the nodes of a block after its elimination, l_lk = `own[k][l]` / d_k.
    fn store_within(&mut self, block: usize, count: usize, own: &[[f64; BLOCK]; BLOCK]) {
        (1..count).for_each(|behind| {
            let row = &mut self.rows[self.start[block + behind]..self.start[block + behind + 1]];
            let columns = (0..behind).rev().zip(row.iter_mut().rev());
            columns.for_each(|(at, l)| *l = own[at][behind] * self.inverse[block + at]);
        });
    }

    /// Solves in place: x = A^-1 x.
    pub fn solve(&self, x: &mut [f64]) {
        forward(x, &self.rows, &self.start);
        x.iter_mut().zip(&self.inverse).for_each(|(x, inverse)| *x *= inverse);
        backward(x, &self.rows, &self.start);
    }

    /// Solves in place for `width` right-hand sides. The `width` values of a node are stored next to each other. The
    /// right-hand sides must be zero before node `from`.
    pub fn solve_together(&self, x: &mut [f64], width: usize, from: usize) {
        solve_together(x, width, &self.rows, &self.start, &self.inverse, from);
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        8 * (self.start.len() + self.rows.len() + 2 * self.inverse.len() + self.columns.len()) + 4 * self.end.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rrbsolver_problems::two_phase::SplitMix;

    /// Dense symmetric matrix. Each coupling in the envelope is 0 or between -1.5 and -0.5; the row sums are random.
    struct System {
        first: Vec<u32>,
        couplings: Vec<Vec<f64>>,
        row_sum: Vec<f64>,
    }

    impl System {
        fn random(n: usize, reach: usize, filled: f64, generator: &mut SplitMix) -> Self {
            let mut couplings = vec![vec![0.0; n]; n];
            for (k, l) in (1..n).flat_map(|k| (k.saturating_sub(reach)..k).map(move |l| (k, l))) {
                if generator.unit() < filled {
                    couplings[k][l] = -0.5 - generator.unit();
                    couplings[l][k] = couplings[k][l];
                }
            }
            let first = (0..n).map(|k| couplings[k][..k].iter().position(|&c| c != 0.0).unwrap_or(k) as u32).collect();
            Self { first, couplings, row_sum: (0..n).map(|_| 0.01 + generator.unit()).collect() }
        }

        fn factor(&self) -> Envelope {
            let mut factor = Envelope::new(&self.first).unwrap();
            // The factor must not depend on the previous content of the arrays.
            factor.rows.fill(7.0);
            factor.columns.fill(0.0);
            factor.clear();
            for (k, row) in self.couplings.iter().enumerate() {
                factor.set_row_sum(k, self.row_sum[k]);
                (0..k).filter(|&l| row[l] != 0.0).for_each(|l| factor.set_coupling(l, k, row[l]));
            }
            let inverse = |pivot: Candidate| match pivot.row_sum - pivot.couplings {
                0.0 => Ok(0.0),
                d => Ok(1.0 / d),
            };
            factor.factorize(inverse).unwrap();
            factor
        }

        fn multiply(&self, x: &[f64]) -> Vec<f64> {
            let row = |k: usize| {
                let others = self.couplings[k].iter().zip(x);
                others.fold(self.row_sum[k] * x[k], |sum, (c, v)| sum + c * (v - x[k]))
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
                let largest = (k..n).max_by(|&p, &q| a[p][k].abs().total_cmp(&a[q][k].abs())).unwrap();
                a.swap(k, largest);
                let pivot = a[k].clone();
                for row in a.iter_mut().skip(k + 1) {
                    let factor = row[k] / pivot[k];
                    row.iter_mut().zip(&pivot).for_each(|(v, p)| *v -= factor * p);
                }
            }
            let mut x = vec![0.0; n];
            for k in (0..n).rev() {
                let known: f64 = (k + 1..n).map(|l| a[k][l] * x[l]).sum();
                x[k] = (a[k][n] - known) / a[k][k];
            }
            x
        }
    }

    const SIZES: [usize; 12] = [1, 2, 3, 4, 5, 8, 9, 17, 31, 64, 65, 130];

    fn systems() -> impl Iterator<Item = (String, System)> {
        let mut generator = SplitMix(5);
        SIZES.into_iter().flat_map(|n| [(n, 1, 0.5), (n, 6, 0.3), (n, 40, 0.9), (n, n, 0.05)]).map(move |of| {
            let (n, reach, filled) = of;
            (format!("{of:?}"), System::random(n, reach, filled, &mut generator))
        })
    }

    fn largest(v: impl IntoIterator<Item = f64>) -> f64 {
        v.into_iter().fold(0.0, |most: f64, v| most.max(v.abs()))
    }

    #[test]
    fn solutions_agree_with_gaussian_elimination() {
        let mut generator = SplitMix(6);
        for (name, system) in systems() {
            let b: Vec<f64> = system.row_sum.iter().map(|_| generator.unit() - 0.5).collect();
            let (factor, expected) = (system.factor(), system.solve(&b));
            let mut x = b.clone();
            factor.solve(&mut x);
            let off = largest(x.iter().zip(&expected).map(|(x, y)| x - y));
            assert!(off <= 1e-12 * largest(expected.iter().copied()), "{name}: {off:e}");
        }
    }

    #[test]
    fn several_right_hand_sides_have_the_solutions_of_single_ones() {
        for (name, system) in systems() {
            let (factor, n) = (system.factor(), system.row_sum.len());
            for from in [0, n / 2, n - 1] {
                let width = 3.min(n - from);
                let mut together = vec![0.0; n * width];
                (0..width).for_each(|i| together[(from + i) * width + i] = 1.0);
                factor.solve_together(&mut together, width, from);
                for i in 0..width {
                    let mut x = vec![0.0; n];
                    x[from + i] = 1.0;
                    factor.solve(&mut x);
                    let off = largest(x.iter().enumerate().map(|(k, x)| x - together[k * width + i]));
                    assert!(off <= 1e-13 * largest(x.iter().copied()), "{name} from {from}: {off:e}");
                }
            }
        }
    }

    /// If the right-hand side is the vector s of row sums, the solution is the vector of ones, because A times this
    /// vector is s. The computed solution must agree even if the row sums s are far below the rounding error of the
    /// diagonal.
    #[test]
    fn row_sums_below_the_rounding_level_of_the_diagonal_count() {
        for (name, mut system) in systems() {
            for scale in [1e-10, 1e-30] {
                system.row_sum.iter_mut().for_each(|e| *e *= scale);
                let mut x = system.row_sum.clone();
                system.factor().solve(&mut x);
                let off = largest(x.iter().map(|x| x - 1.0));
                assert!(off <= 1e-11, "{name}, {scale:e}: {off:e}");
            }
        }
    }

    /// If all rows of a component sum to zero, its last pivot is exactly zero. The solve is exact for right-hand sides
    /// that sum to zero on each of these components.
    #[test]
    fn null_vectors_have_pivots_of_zero() {
        let mut generator = SplitMix(7);
        for (name, mut system) in systems() {
            system.row_sum.fill(0.0);
            let b = system.multiply(&system.first.iter().map(|_| generator.unit()).collect::<Vec<_>>());
            let factor = system.factor();
            assert!(factor.inverse.last() == Some(&0.0), "{name}");
            let mut x = b.clone();
            factor.solve(&mut x);
            let off = largest(system.multiply(&x).iter().zip(&b).map(|(p, b)| p - b));
            assert!(off <= 1e-11 * largest(b.iter().copied()), "{name}: {off:e}");
        }
    }

    #[test]
    fn a_rejected_pivot_fails_and_the_next_factorization_succeeds() {
        let system = System::random(23, 5, 0.7, &mut SplitMix(8));
        let mut factor = system.factor();
        let expected = factor.rows.clone();
        let refused = factor.factorize(|pivot| match pivot.k {
            9 => Err(crate::error::Error::Internal(String::from("refused"))),
            _ => Ok(f64::INFINITY),
        });
        assert!(refused.is_err());
        let again = {
            factor.clear();
            for (k, row) in system.couplings.iter().enumerate() {
                factor.set_row_sum(k, system.row_sum[k]);
                (0..k).filter(|&l| row[l] != 0.0).for_each(|l| factor.set_coupling(l, k, row[l]));
            }
            factor.factorize(|pivot| Ok(1.0 / (pivot.row_sum - pivot.couplings))).unwrap();
            factor.rows
        };
        assert_eq!(again[LANES..], expected[LANES..]);
    }
}
