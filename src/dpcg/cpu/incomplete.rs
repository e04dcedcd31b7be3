//! Incomplete Cholesky factorizations without fill, in natural order (x fastest): IC(0) (Meijerink and van der Vorst
//! 1977), and its relaxed variant RIC(omega) (Gustafsson 1978; Axelsson and Lindskog 1986).
//!
//! With the strictly lower triangle L of A, and a diagonal matrix D of pivots d,
//!
//! ```text
//! M = (D + L) D^-1 (D + L^T).
//! ```
//!
//! M has the couplings of A, and additional couplings (fill) between cells that follow a common neighbour. With omega =
//! 0, D is chosen such that diag(M) = diag(A). With omega = 1, M and A have equal row sums.
//!
//! The forward solve for a cell needs the preceding cells in x, y and z. Each thread owns the same range of rows j in
//! all planes. A thread solves its rows in plane k after the preceding thread has completed plane k. Meanwhile, the
//! preceding thread works on plane k + 1. In the backward solve, the last thread begins.

use super::rows::CellVector;
use crate::base::isa::for_each_isa;
use crate::base::team::{Me, Point, share};
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result, zeroed};
use crate::stencil::cells::SevenPoints;
use std::ops::Range;

const WHAT: &str = "pivots of the incomplete factorization";

/// Bound of the rounding error of one pivot, relative to its center.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// The factors: only D is stored, since the couplings are those of A.
pub struct Incomplete {
    /// Reciprocal pivots 1 / d of all cells.
    inverse: Vec<f64>,
    /// A row of zeros that replaces neighbours outside the box.
    zeros: Vec<f64>,
}

impl Incomplete {
    /// Computes the pivots. Let a(m, c) be the coupling of cell c to a preceding cell m. Then
    ///
    /// ```text
    /// d(c) = a(c, c) - sum over m of a(m, c) (a(m, c) + omega sum over o of a(m, o)) / d(m),
    /// ```
    ///
    /// where o are the other cells that follow m. The elimination of m causes fill between c and o. The fraction omega
    /// of this fill is subtracted from the diagonal. omega is in [0, 1]; with omega = 0, the factorization is IC(0).
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` for the first pivot that is not larger than the bound of its rounding error, or not finite.
    pub fn factorize(a: &SevenPoints, omega: f64) -> Result<Self> {
        let count = a.cells.count();
        let mut inverse: Vec<f64> = zeroed(count, WHAT)?;
        // Bound on the relative error of d (running error analysis: Higham 2002, 3.3). With omega = 1, the errors of
        // all cells propagate to the last cell, where d is zero if A is singular.
        let mut error: Vec<f64> = zeroed(count, WHAT)?;
        for cell in 0..count {
            let center = a.center[cell];
            let (mut d, mut bound) = (center, ROUNDING * center);
            for (coupling, m) in before(a, cell) {
                let ahead: f64 = a.forward.iter().map(|forward| forward[m]).sum();
                let share = coupling * (coupling + omega * (ahead - coupling)) * inverse[m];
                d -= share;
                bound += share.abs() * error[m];
            }
            if !(d > bound && d.is_finite()) {
                return Err(rejected_pivot(d, center, omega, a.cells.indices(cell)));
            }
            inverse[cell] = 1.0 / d;
            error[cell] = bound / d;
        }
        Ok(Self { inverse, zeros: zeroed(a.cells.nx, "a row of zeros")? })
    }

    /// Computes z = M^-1 r. All threads must call this function. `turn` is the number of previous calls in the run.
    /// Ends with a barrier.
    ///
    /// # Safety
    /// From the barrier before this call to the end of the call, no thread may write r, and no other code may use z.
    pub unsafe fn apply<V: CellVector<f64>>(&self, me: Me, turn: usize, a: &SevenPoints, r: &V, z: &V) {
        let (ny, nz) = (a.cells.ny, a.cells.nz);
        let team = me.members.min(ny);
        if me.index < team {
            let own = share(ny, me.index, team);
            let stage = |planes: usize| turn * nz + planes;
            for k in 0..nz {
                if me.index > 0 {
                    me.wait_for(me.index - 1, Point::Last, stage(k + 1));
                }
                // SAFETY: the rows belong to this thread; `wait_for` ensures that the row before them in this plane is
                // complete.
                own.clone().for_each(|j| unsafe { self.forward(a, j, k, r, z) });
                me.post(Point::Last, stage(k + 1));
            }
            for k in (0..nz).rev() {
                if me.index + 1 < team {
                    me.wait_for(me.index + 1, Point::First, stage(nz - k));
                }
                // SAFETY: the rows belong to this thread; `wait_for` ensures that the row after them is complete. The
                // next thread has therefore completed its forward solve, and does not read these rows any more.
                own.clone().rev().for_each(|j| unsafe { self.backward(a, j, k, z) });
                me.post(Point::First, stage(nz - k));
            }
        }
        me.barrier();
    }

    /// Solves row (j, k) of (D + L) y = r; stores y in z.
    ///
    /// # Safety
    /// The row of z must belong to the calling thread. During this call, no thread may write the rows (j - 1, k) and
    /// (j, k - 1) of z, or the row (j, k) of r.
    unsafe fn forward<V: CellVector<f64>>(&self, a: &SevenPoints, j: usize, k: usize, r: &V, z: &V) {
        let cells = row_of(a, j, k);
        let [east, north, top] = a.forward;
        let [_, row, plane] = a.cells.strides();
        let before = |is_inside: bool, step: usize| is_inside.then(|| cells.start - step..cells.end - step);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (a_south, south) = self.with(north, before(j > 0, row), z);
            let (a_bottom, bottom) = self.with(top, before(k > 0, plane), z);
            let (a, inverse) = ([&east[cells.clone()], a_south, a_bottom], &self.inverse[cells.clone()]);
            forward_row(z.row_mut(&cells), r.row(&cells), inverse, a, [south, bottom]);
        }
    }

    /// Solves row (j, k) of (D + L^T) z = D y; z contains y on entry.
    ///
    /// # Safety
    /// The row of z must belong to the calling thread. During this call, no thread may write the rows (j + 1, k) and
    /// (j, k + 1) of z.
    unsafe fn backward<V: CellVector<f64>>(&self, a: &SevenPoints, j: usize, k: usize, z: &V) {
        let cells = row_of(a, j, k);
        let [_, row, plane] = a.cells.strides();
        let after = |is_inside: bool, step: usize| is_inside.then(|| cells.start + step..cells.end + step);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (_, north) = self.with(&[], after(j + 1 < a.cells.ny, row), z);
            let (_, top) = self.with(&[], after(k + 1 < a.cells.nz, plane), z);
            let (a, inverse) = (a.forward.map(|f| &f[cells.clone()]), &self.inverse[cells.clone()]);
            backward_row(z.row_mut(&cells), inverse, a, [north, top]);
        }
    }

    /// Returns the matrix entries and the values of z in `cells`. If `cells` is `None`, both are rows of zeros. If
    /// `cells` is given but `entries` is empty, the first result is empty.
    ///
    /// # Safety
    /// No thread may write these cells of z while the slices are in use.
    unsafe fn with<'v, V: CellVector<f64>>(
        &'v self,
        entries: &'v [f64],
        cells: Option<Range<usize>>,
        z: &'v V,
    ) -> (&'v [f64], &'v [f64]) {
        let Some(cells) = cells else { return (&self.zeros, &self.zeros) };
        // SAFETY: guaranteed by the caller.
        (entries.get(cells.clone()).unwrap_or_default(), unsafe { z.row(&cells) })
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.inverse) + size_of_val(&*self.zeros)
    }
}

/// Returns the couplings of a cell to the preceding cells in x, y and z, and the indices of these cells.
fn before<'a>(a: &'a SevenPoints, cell: usize) -> impl Iterator<Item = (f64, usize)> + 'a {
    let (place, steps) = (a.cells.indices(cell), a.cells.strides());
    (0..3).filter(move |&d| place[d] > 0).map(move |d| (a.forward[d][cell - steps[d]], cell - steps[d]))
}

/// Returns the error message about a rejected pivot.
fn rejected_pivot(d: f64, center: f64, omega: f64, [i, j, k]: [usize; 3]) -> Error {
    let why = if !d.is_finite() {
        "some entries of the matrix are too large or too small for double precision"
    } else if omega == 1.0 {
        "with ric_omega = 1 the factor of a singular matrix is singular: use ric_omega below 1, or \
         preconditioner=neumann or multigrid"
    } else if omega > 0.0 {
        "the matrix is not positive definite, or ric_omega is too large for it: use a smaller ric_omega, or \
         preconditioner=neumann or multigrid"
    } else {
        "the matrix is not positive definite, or it is singular and drops no fill, as on a line of cells: use \
         preconditioner=neumann or multigrid"
    };
    let before = format!("pivot {d:e} of the incomplete factorization is not positive (center {center:e}) at ");
    Error::at(RRB_ERR_MATRIX, before, Place::point(i, j, k), format!(": {why}"))
}

/// Returns the cells of row (j, k).
fn row_of(a: &SevenPoints, j: usize, k: usize) -> Range<usize> {
    let start = (k * a.cells.ny + j) * a.cells.nx;
    start..start + a.cells.nx
}

/// Number of cells of a chunk. In each chunk, the products that vectorize are computed before the sequential recurrence
/// in x.
const CHUNK: usize = 256;

for_each_isa! {
    /// Computes z_i = (r - (a_s z_s + a_b z_b)) / d - (a_w / d) z_(i-1) for ascending i. `inverse` contains 1 / d, and
    /// `a` the entries to east, south and bottom; a_w of a cell is the entry to east of the previous cell. `near`
    /// contains z_s and z_b.
    fn forward_row(z: &mut [f64], r: &[f64], inverse: &[f64], a: [&[f64]; 3], near: [&[f64]; 2]) {
        let mut west = 0.0;
        let mut a_west = 0.0;
        let mut factors = [0.0; CHUNK];
        for (chunk, z) in z.chunks_mut(CHUNK).enumerate() {
            let (start, n) = (chunk * CHUNK, z.len());
            let [r, inverse, south, bottom] = [r, inverse, near[0], near[1]].map(|v| &v[start..][..n]);
            let [e, s, b] = a.map(|v| &v[start..][..n]);
            for i in 0..n {
                z[i] = (r[i] - (s[i] * south[i] + b[i] * bottom[i])) * inverse[i];
            }
            factors[0] = a_west * inverse[0];
            for i in 1..n {
                factors[i] = e[i - 1] * inverse[i];
            }
            for i in 0..n {
                west = z[i] - factors[i] * west;
                z[i] = west;
            }
            a_west = e[n - 1];
        }
    }

    /// Computes z_i = (z_i - (a_n z_n + a_t z_t) / d) - (a_e / d) z_(i+1) for descending i. `inverse` contains 1 / d,
    /// `a` the entries to east, north and top, and `near` contains z_n and z_t.
    fn backward_row(z: &mut [f64], inverse: &[f64], a: [&[f64]; 3], near: [&[f64]; 2]) {
        let mut east = 0.0;
        let mut factors = [0.0; CHUNK];
        for (chunk, z) in z.chunks_mut(CHUNK).enumerate().rev() {
            let (start, n) = (chunk * CHUNK, z.len());
            let [inverse, north, top] = [inverse, near[0], near[1]].map(|v| &v[start..][..n]);
            let [e, an, at] = a.map(|v| &v[start..][..n]);
            for i in 0..n {
                z[i] -= (an[i] * north[i] + at[i] * top[i]) * inverse[i];
                factors[i] = e[i] * inverse[i];
            }
            for i in (0..n).rev() {
                east = z[i] - factors[i] * east;
                z[i] = east;
            }
        }
    }
}

#[cfg(test)]
mod tests;
