//! Cholesky factorization within the envelope of a sparse symmetric matrix, E = L L^T in the order of Cuthill and
//! McKee (1969), reversed (George and Liu 1981, chapter 4).

use super::assembly::{COARSE_MATRIX, Sparse};
use crate::error::{Error, Result, push, reserve, zeroed};
use crate::isa::for_each_isa;
use crate::runtime::reduce::dot;
use std::ops::Range;

/// The factor. Some vectors are left out: they are zero in every solution.
pub struct Envelope {
    n: usize,
    /// Vector at each place of the order.
    vector: Vec<u32>,
    /// First column of row k of L.
    first: Vec<u32>,
    /// L_kj at start[k] + j - first[k], j < k.
    start: Vec<usize>,
    values: Vec<f64>,
    inverse_diagonal: Vec<f64>,
}

/// A pivot below this part of its diagonal is rounding: its vector adds nothing to those before it, as where the row
/// sums of a component are hardly more than none, and is left out.
const NEGLIGIBLE: f64 = 1e-14;

/// Right-hand sides that are solved for together: vectors enough, and those of a thousand rows stay in the cache.
const TOGETHER: usize = 32;

for_each_isa! {
    /// L_k: row k divided by the rows before it.
    fn factorize_row(values: &mut [f64], start: &[usize], first: &[u32], inverse_diagonal: &[f64], k: usize) -> f64 {
        let low = first[k] as usize;
        let (done, row) = values.split_at_mut(start[k]);
        for j in low..k {
            let from = low.max(first[j] as usize);
            let before = &done[start[j] + from - first[j] as usize..start[j + 1]];
            row[j - low] = (row[j - low] - dot(&row[from - low..j - low], before)) * inverse_diagonal[j];
        }
        dot(&row[..k - low], &row[..k - low])
    }

    /// x_k = (x_k - sum_j L_kj x_j) / L_kk
    fn forward(x: &mut [f64], values: &[f64], start: &[usize], first: &[u32], inverse_diagonal: &[f64]) {
        for k in 0..x.len() {
            let row = &values[start[k]..start[k + 1]];
            x[k] = (x[k] - dot(row, &x[first[k] as usize..k])) * inverse_diagonal[k];
        }
    }

    /// x_k = x_k / L_kk, then x_j -= L_kj x_k of the places before.
    fn backward(x: &mut [f64], values: &[f64], start: &[usize], first: &[u32], inverse_diagonal: &[f64]) {
        for k in (0..x.len()).rev() {
            x[k] *= inverse_diagonal[k];
            let (before, v) = (&values[start[k]..start[k + 1]], x[k]);
            for (x, l) in x[first[k] as usize..k].iter_mut().zip(before) {
                *x -= l * v;
            }
        }
    }

    /// Both for `width` right-hand sides beside each other, which are zero before place `from`. A width that the
    /// compiler does not know keeps its vectors along them.
    fn solve_together(
        x: &mut [f64],
        width: usize,
        values: &[f64],
        start: &[usize],
        first: &[u32],
        inverse_diagonal: &[f64],
        from: usize,
    ) {
        for k in from..inverse_diagonal.len() {
            let (before, own) = x.split_at_mut(k * width);
            let own = &mut own[..width];
            let low = (first[k] as usize).max(from);
            let row = &values[start[k] + low - first[k] as usize..start[k + 1]];
            for (before, l) in before[low * width..].chunks_exact(width).zip(row) {
                for (x, v) in own.iter_mut().zip(before) {
                    *x -= l * v;
                }
            }
            own.iter_mut().for_each(|x| *x *= inverse_diagonal[k]);
        }
        for k in (0..inverse_diagonal.len()).rev() {
            let (before, own) = x.split_at_mut(k * width);
            let own = &mut own[..width];
            own.iter_mut().for_each(|x| *x *= inverse_diagonal[k]);
            let row = &values[start[k]..start[k + 1]];
            for (before, l) in before[first[k] as usize * width..].chunks_exact_mut(width).zip(row) {
                for (x, v) in before.iter_mut().zip(&*own) {
                    *x -= l * v;
                }
            }
        }
    }
}

impl Envelope {
    /// Factorizes `matrix` without the rows and columns of `left_out`.
    pub fn factorize(matrix: &Sparse, left_out: &[u16]) -> Result<Self> {
        let vector = order(matrix, left_out)?;
        let (n, m) = (matrix.n(), vector.len());
        let mut place: Vec<u32> = zeroed(n, COARSE_MATRIX)?;
        place.fill(u32::MAX);
        for (k, &r) in vector.iter().enumerate() {
            place[r as usize] = k as u32;
        }
        let (mut first, mut start) = (zeroed(m, COARSE_MATRIX)?, zeroed(m + 1, COARSE_MATRIX)?);
        for k in 0..m {
            let places = matrix.row(vector[k] as usize).map(|(s, _)| place[s]);
            first[k] = places.fold(k as u32, u32::min);
            start[k + 1] = start[k] + k - first[k] as usize;
        }
        let mut values = zeroed(start[m], COARSE_MATRIX)?;
        let mut inverse_diagonal = zeroed(m, COARSE_MATRIX)?;
        for k in 0..m {
            let r = vector[k] as usize;
            for (s, value) in matrix.row(r) {
                if (place[s] as usize) < k {
                    values[start[k] + (place[s] - first[k]) as usize] = value;
                }
            }
            let diagonal = matrix.diagonal(r);
            let square = diagonal - factorize_row(&mut values, &start, &first, &inverse_diagonal, k);
            inverse_diagonal[k] = match square {
                square if square.abs() <= NEGLIGIBLE * diagonal => 0.0,
                square if square > 0.0 && square.is_finite() => 1.0 / square.sqrt(),
                _ => return Err(not_positive(square, diagonal, r)),
            };
        }
        Ok(Self { n, vector, first, start, values, inverse_diagonal })
    }

    /// t = E^-1 t, with `x` for the same in the order of the factor.
    pub fn solve(&self, t: &mut [f64], x: &mut [f64]) {
        let x = &mut x[..self.vector.len()];
        for (x, &r) in x.iter_mut().zip(&self.vector) {
            *x = t[r as usize];
        }
        forward(x, &self.values, &self.start, &self.first, &self.inverse_diagonal);
        backward(x, &self.values, &self.start, &self.first, &self.inverse_diagonal);
        t.fill(0.0);
        for (x, &r) in x.iter().zip(&self.vector) {
            t[r as usize] = *x;
        }
    }

    /// Groups of columns of E^-1 that are found together.
    pub fn groups(&self) -> usize {
        self.vector.len().div_ceil(TOGETHER)
    }

    /// Appends the columns of some groups, n values each.
    pub fn append_columns(&self, groups: Range<usize>, columns: &mut Vec<f64>) -> Result<()> {
        let (n, m) = (self.n, self.vector.len());
        let mut x = zeroed(m * TOGETHER, COARSE_MATRIX)?;
        for group in groups {
            let from = group * TOGETHER;
            x.fill(0.0);
            let wanted = TOGETHER.min(m - from);
            for i in 0..wanted {
                x[(from + i) * TOGETHER + i] = 1.0;
            }
            solve_together(&mut x, TOGETHER, &self.values, &self.start, &self.first, &self.inverse_diagonal, from);
            let first = columns.len();
            reserve(columns, wanted * n, COARSE_MATRIX)?;
            columns.resize(first + wanted * n, 0.0);
            for (x, &s) in x.chunks_exact(TOGETHER).zip(&self.vector) {
                for (i, x) in x[..wanted].iter().enumerate() {
                    columns[first + i * n + s as usize] = *x;
                }
            }
        }
        Ok(())
    }

    /// E^-1, row by row, of the columns of all groups; zero rows and columns of the vectors left out.
    pub fn inverse<'a>(&self, columns: impl Iterator<Item = &'a [f64]>) -> Result<Vec<f64>> {
        let n = self.n;
        let mut inverse = zeroed(n * n, "the inverse of the coarse matrix")?;
        let columns = columns.flat_map(|columns| columns.chunks_exact(n.max(1)));
        for (&r, column) in self.vector.iter().zip(columns) {
            // E is symmetric: columns are rows.
            inverse[r as usize * n..][..n].copy_from_slice(column);
        }
        Ok(inverse)
    }

    pub fn bytes(&self) -> usize {
        4 * (self.vector.capacity() + self.first.capacity())
            + 8 * (self.start.capacity() + self.values.capacity() + self.inverse_diagonal.capacity())
    }
}

fn not_positive(square: f64, diagonal: f64, vector: usize) -> Error {
    let reason = format!(
        "the coarse matrix of deflation is not positive definite: pivot {square:e} where its diagonal is {diagonal:e}, \
         vector {vector}; the matrix is indefinite, or its coefficients differ too much for double precision"
    );
    Error::Matrix { reason, place: None, then: "" }
}

/// Levels of breadth-first search: vectors in the order in which they are found, those of a level by degree.
struct Search<'a> {
    matrix: &'a Sparse,
    /// 0: not found; else what found it.
    found: Vec<u32>,
    searches: u32,
}

impl Search<'_> {
    /// Appends the vectors that hang together with `root`; returns where the last level begins.
    fn spread(&mut self, root: u32, order: &mut Vec<u32>) -> Result<(usize, usize)> {
        self.searches += 1;
        let first = order.len();
        self.found[root as usize] = self.searches;
        push(order, root, COARSE_MATRIX)?;
        let (mut level, mut levels) = (first, 0);
        loop {
            let end = order.len();
            for k in level..end {
                let own = order.len();
                for (s, _) in self.matrix.row(order[k] as usize) {
                    if self.found[s] < self.searches {
                        self.found[s] = self.searches;
                        push(order, s as u32, COARSE_MATRIX)?;
                    }
                }
                order[own..].sort_unstable_by_key(|&s| (self.matrix.degree(s as usize), s));
            }
            if order.len() == end {
                return Ok((level, levels));
            }
            (level, levels) = (end, levels + 1);
        }
    }
}

/// The reversed order of Cuthill and McKee, from ends that lie far apart (Gibbs, Poole and Stockmeyer 1976).
fn order(matrix: &Sparse, left_out: &[u16]) -> Result<Vec<u32>> {
    let n = matrix.n();
    let mut search = Search { matrix, found: zeroed(n, COARSE_MATRIX)?, searches: 0 };
    for &r in left_out {
        search.found[usize::from(r)] = u32::MAX;
    }
    let mut order = Vec::new();
    reserve(&mut order, n, COARSE_MATRIX)?;
    for start in 0..n as u32 {
        if search.found[start as usize] > 0 {
            continue;
        }
        let begin = order.len();
        let (mut root, mut depth) = (start, 0);
        loop {
            order.truncate(begin);
            let (last, levels) = search.spread(root, &mut order)?;
            if levels <= depth {
                break;
            }
            depth = levels;
            let farthest = order[last..].iter().min_by_key(|&&s| (matrix.degree(s as usize), s));
            root = farthest.copied().unwrap_or(root);
        }
    }
    order.reverse();
    Ok(order)
}
