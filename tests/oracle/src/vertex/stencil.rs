//! Matrices of the grids, stored as conductances c_o(p) = -A(p, p + o) of a symmetric stencil and as row sums.

use crate::System;

/// Difference of indices (i, j, k) between two points.
pub type Offset = [isize; 3];

/// A row sum of at most this fraction of the diagonal counts as zero.
const ZERO_ROW_SUM: f64 = 1e-6;

/// A symmetric matrix on a grid.
pub struct Stencil {
    /// Number of points in each direction.
    pub size: [usize; 3],
    /// Upper half of the stencil.
    pub offsets: Vec<Offset>,
    /// Conductances c, one array per offset; zero where an offset leaves the grid.
    pub c: Vec<Vec<f64>>,
    /// Row sums: the diagonal minus the conductances.
    pub row_sums: Vec<f64>,
}

impl Stencil {
    /// Returns a matrix of zeros.
    pub fn zeroed(size: [usize; 3], offsets: Vec<Offset>) -> Self {
        let n = size.iter().product();
        Self { size, c: vec![vec![0.0; n]; offsets.len()], offsets, row_sums: vec![0.0; n] }
    }

    /// Returns a 7-point matrix. The row of a cell without couplings (in an obstacle) is zero.
    pub fn of(a: &System) -> Self {
        let mut of = Self::zeroed(a.size, vec![[1, 0, 0], [0, 1, 0], [0, 0, 1]]);
        for (c, entries) in of.c.iter_mut().zip(&a.forward) {
            c.iter_mut().zip(entries).for_each(|(c, entry)| *c = -entry);
        }
        for p in 0..a.count() {
            let [sum, size] = of.sums(p);
            of.row_sums[p] = if size > 0.0 { rounded_row_sum(a.center[p], sum) } else { 0.0 };
        }
        of
    }

    /// Returns the distance in memory for an offset.
    pub fn step(&self, offset: Offset) -> isize {
        (0..3).map(|d| offset[d] * crate::steps(self.size)[d] as isize).sum()
    }

    /// Calls `f` with the offset, the index and the conductance of each neighbour of p.
    pub fn each(&self, p: usize, mut f: impl FnMut(Offset, usize, f64)) {
        for (c, &offset) in self.c.iter().zip(&self.offsets) {
            let step = self.step(offset) as usize;
            // Conductances that leave the grid are zero, also where p + step is a point on the opposite side of the
            // grid.
            if c[p] != 0.0 {
                f(offset, p + step, c[p]);
            }
            if p >= step && c[p - step] != 0.0 {
                f(offset.map(|o| -o), p - step, c[p - step]);
            }
        }
    }

    /// Returns the sums of c and of |c| over the neighbours of p.
    pub fn sums(&self, p: usize) -> [f64; 2] {
        let mut sums = [0.0; 2];
        self.each(p, |_, _, c| {
            sums[0] += c;
            sums[1] += c.abs();
        });
        sums
    }

    /// Returns the diagonal of row p.
    pub fn diagonal(&self, p: usize) -> f64 {
        self.sums(p)[0] + self.row_sums[p]
    }

    /// Returns the off-diagonal part of row p times x, with the sign of c.
    pub fn gathered(&self, p: usize, x: &[f64]) -> f64 {
        let mut sum = 0.0;
        self.each(p, |_, q, c| sum += c * x[q]);
        sum
    }
}

/// Returns the row sum diagonal - sum, or zero if it is at most `ZERO_ROW_SUM` times the diagonal.
pub fn rounded_row_sum(diagonal: f64, sum: f64) -> f64 {
    let row_sum = diagonal - sum;
    if row_sum > ZERO_ROW_SUM * diagonal { row_sum } else { 0.0 }
}
