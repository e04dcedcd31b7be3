//! Matrices of the grids, stored as conductances c_o(p) = -A(p, p + o) of a symmetric stencil and as row sums.

use crate::backend::aggregation::Couplings;
use crate::error::{Result, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;

/// Difference of indices (i, j, k) between two points.
pub type Offset = [isize; 3];

/// Upper half of the 7-point stencil.
pub const FACES: [Offset; 3] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];

/// Upper half of the 27-point stencil, in ascending order of the distances in memory.
pub const CUBE: [Offset; 13] = [
    [1, 0, 0],
    [-1, 1, 0],
    [0, 1, 0],
    [1, 1, 0],
    [-1, -1, 1],
    [0, -1, 1],
    [1, -1, 1],
    [-1, 0, 1],
    [0, 0, 1],
    [1, 0, 1],
    [-1, 1, 1],
    [0, 1, 1],
    [1, 1, 1],
];

/// A row sum of at most this fraction of the diagonal counts as zero: it is a rounding error of single precision.
pub const ZERO_ROW_SUM: f64 = 1e-6;

/// Name of the allocation in error messages.
pub const HIERARCHY: &str = "the grids of multigrid";

/// A symmetric matrix on a grid, with c in the precision of the cycle.
pub struct Stencil<T> {
    /// Extents.
    pub cells: Cells,
    /// Upper half of the stencil: `FACES` or `CUBE`.
    pub offsets: &'static [Offset],
    /// Conductances c, one array per offset; zero where an offset leaves the grid.
    pub c: Vec<T>,
    /// Row sums: the diagonal minus the conductances.
    pub excess: Vec<f64>,
}

impl<T: Real> Stencil<T> {
    /// Returns a matrix of zeros.
    pub fn zeroed(cells: Cells, offsets: &'static [Offset]) -> Result<Self> {
        let n = cells.count();
        Ok(Self { cells, offsets, c: zeroed(offsets.len() * n, HIERARCHY)?, excess: zeroed(n, HIERARCHY)? })
    }

    /// Returns `scale` times a 7-point matrix. The row of a cell without couplings (in an obstacle) is zero.
    pub fn of(a: &SevenPoints, scale: f64) -> Result<Self> {
        let n = a.cells.count();
        let mut of = Self::zeroed(a.cells, &FACES)?;
        for (c, entries) in of.c.chunks_exact_mut(n).zip(a.forward) {
            c.iter_mut().zip(entries).for_each(|(c, entry)| *c = T::narrow(-scale * entry));
        }
        for p in 0..n {
            let [sum, size] = sums_at(a, p);
            of.excess[p] = if size > 0.0 { excess(scale * a.center[p], scale * sum) } else { 0.0 };
        }
        Ok(of)
    }

    /// Returns the distance in memory for an offset.
    pub fn step(&self, offset: Offset) -> isize {
        (0..3).map(|d| offset[d] * self.cells.steps()[d] as isize).sum()
    }

    /// Calls `f` with the offset, the index and the conductance of each neighbour of p.
    pub fn each(&self, p: usize, mut f: impl FnMut(Offset, usize, f64)) {
        let n = self.cells.count();
        for (k, &offset) in self.offsets.iter().enumerate() {
            let (step, c) = (self.step(offset) as usize, &self.c[k * n..][..n]);
            // Conductances that leave the grid are zero, also where p + step is a point on the opposite side of the
            // grid.
            if c[p].wide() != 0.0 {
                f(offset, p + step, c[p].wide());
            }
            if p >= step && c[p - step].wide() != 0.0 {
                f(offset.map(|o| -o), p - step, c[p - step].wide());
            }
        }
    }

    /// Returns the matrix by rows.
    pub fn couplings(&self) -> Result<Couplings> {
        let (n, last) = (self.cells.count(), self.offsets.len());
        let (step, c) = (|k: usize| self.step(self.offsets[k]) as usize, |k: usize, p: usize| self.c[k * n + p].wide());
        let mut matrix = Couplings::with_room(n, 2 * last * n)?;
        for p in 0..n {
            let below = (0..last).rev().filter(|&k| p >= step(k)).map(|k| (p - step(k), c(k, p - step(k))));
            let above = (0..last).map(|k| (p + step(k), c(k, p)));
            below.chain(above).filter(|(_, c)| *c != 0.0).for_each(|(q, c)| matrix.push(q, c));
            matrix.end_exact_row(self.excess[p]);
        }
        Ok(matrix)
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

    /// Computes the diagonals from the rounded c, so that constants remain in the null space if row sums are zero.
    pub fn diagonal(&self) -> Result<Vec<f64>> {
        let mut diagonal = zeroed(self.cells.count(), HIERARCHY)?;
        diagonal.iter_mut().enumerate().for_each(|(p, d)| *d = self.sums(p)[0] + self.excess[p]);
        Ok(diagonal)
    }

    /// Computes out = A x; `diagonal` is that of A.
    pub fn multiply(&self, diagonal: &[T], x: &[T], out: &mut [T]) {
        let n = self.cells.count();
        out.iter_mut().zip(diagonal).zip(x).for_each(|((out, d), x)| *out = *d * *x);
        for (k, &offset) in self.offsets.iter().enumerate() {
            let (step, c) = (self.step(offset) as usize, &self.c[k * n..][..n]);
            for p in 0..n.saturating_sub(step) {
                out[p] -= c[p] * x[p + step];
                out[p + step] -= c[p] * x[p];
            }
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.c[..]) + size_of_val(&self.excess[..])
    }
}

/// Returns the sums of c and of |c| over the neighbours of a cell.
pub fn sums_at(a: &SevenPoints, p: usize) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for (step, entries) in a.cells.steps().into_iter().zip(a.forward) {
        for c in [-entries[p], if p >= step { -entries[p - step] } else { 0.0 }] {
            sums[0] += c;
            sums[1] += c.abs();
        }
    }
    sums
}

/// Returns the row sum diagonal - sum, or zero if it is at most `ZERO_ROW_SUM` times the diagonal.
pub fn excess(diagonal: f64, sum: f64) -> f64 {
    let excess = diagonal - sum;
    if excess > ZERO_ROW_SUM * diagonal { excess } else { 0.0 }
}
