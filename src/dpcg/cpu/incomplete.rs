//! Incomplete Cholesky factorizations without fill, in natural order (x fastest): IC(0) (Meijerink and van der Vorst
//! 1977), and its relaxed variant RIC(omega) (Gustafsson 1978; Axelsson and Lindskog 1986).
//!
//! With the strictly lower triangle L of A, and a diagonal matrix D of pivots d,
//!
//! ```text
//! M = (D + L) D^-1 (D + L^T).
//! ```
//!
//! M has the couplings of A, and additional couplings (fill) between two cells that follow the same neighbour. If omega
//! is 0, D is chosen such that diag(M) = diag(A). If omega is 1, M and A have equal row sums.
//!
//! The forward solve for a cell needs the preceding cells in x, y and z. Each thread owns the same range of rows j in
//! all planes. A thread solves its rows in plane k after the preceding thread has completed plane k. Meanwhile, the
//! preceding thread works on plane k + 1. In the backward solve, the last thread begins.

use super::rows::CellVector;
use crate::base::isa::for_each_isa;
use crate::base::team::{StagePoint, TeamThread, thread_share};
use crate::error::{Error, Location, RRB_ERR_MATRIX, Result, zeroed};
use crate::stencil::cells::SevenPoints;
use std::ops::Range;

const ALLOCATION_NAME: &str = "pivots of the incomplete factorization";

/// Bound of the rounding error that one pivot adds, relative to the center.
const PIVOT_ROUNDING: f64 = 4.0 * f64::EPSILON;

/// The factorization. Only D is stored, because the off-diagonal entries of the factors are those of A.
pub struct Incomplete {
    /// Reciprocal pivots 1 / d of all cells.
    inverse_pivots: Vec<f64>,
    /// A row of zeros that replaces neighbours outside the box.
    zero_row: Vec<f64>,
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
        let mut inverse_pivots: Vec<f64> = zeroed(count, ALLOCATION_NAME)?;
        // Bound on the relative error of d (running error analysis: Higham 2002, 3.3). With omega = 1, the errors of
        // all cells propagate to the last cell, where d is zero if A is singular.
        let mut relative_errors: Vec<f64> = zeroed(count, ALLOCATION_NAME)?;
        for cell in 0..count {
            let center = a.center[cell];
            let (mut d, mut error_bound) = (center, PIVOT_ROUNDING * center);
            for (coupling, m) in preceding_couplings(a, cell) {
                let following_sum: f64 = a.forward.iter().map(|forward| forward[m]).sum();
                let elimination_term = coupling * (coupling + omega * (following_sum - coupling)) * inverse_pivots[m];
                d -= elimination_term;
                error_bound += elimination_term.abs() * relative_errors[m];
            }
            if !(d > error_bound && d.is_finite()) {
                return Err(rejected_pivot_error(d, center, omega, a.cells.indices(cell)));
            }
            inverse_pivots[cell] = 1.0 / d;
            relative_errors[cell] = error_bound / d;
        }
        Ok(Self { inverse_pivots, zero_row: zeroed(a.cells.nx, "a row of zeros")? })
    }

    /// Computes z = M^-1 r. All threads must call this function. `application_index` is the number of previous calls in
    /// the run. Ends with a barrier.
    ///
    /// # Safety
    /// From the barrier before this call to the end of the call, no thread may write r, and no other code may use z.
    pub unsafe fn apply<V: CellVector<f64>>(
        &self,
        thread: TeamThread,
        application_index: usize,
        a: &SevenPoints,
        r: &V,
        z: &V,
    ) {
        let (ny, nz) = (a.cells.ny, a.cells.nz);
        let active_threads = thread.threads.min(ny);
        if thread.index < active_threads {
            let own_rows = thread_share(ny, thread.index, active_threads);
            let stage_after = |planes: usize| application_index * nz + planes;
            for k in 0..nz {
                if thread.index > 0 {
                    thread.wait_for_signal(thread.index - 1, StagePoint::LastRow, stage_after(k + 1));
                }
                // SAFETY: the rows belong to this thread; `wait_for_signal` ensures that the row before them in this
                // plane is complete.
                own_rows.clone().for_each(|j| unsafe { self.solve_row_forward(a, j, k, r, z) });
                thread.signal(StagePoint::LastRow, stage_after(k + 1));
            }
            for k in (0..nz).rev() {
                if thread.index + 1 < active_threads {
                    thread.wait_for_signal(thread.index + 1, StagePoint::FirstRow, stage_after(nz - k));
                }
                // SAFETY: the rows belong to this thread; `wait_for_signal` ensures that the row after them is
                // complete. The next thread has therefore completed its forward solve, and no longer reads these rows.
                own_rows.clone().rev().for_each(|j| unsafe { self.solve_row_backward(a, j, k, z) });
                thread.signal(StagePoint::FirstRow, stage_after(nz - k));
            }
        }
        thread.barrier();
    }

    /// Solves row (j, k) of (D + L) y = r; stores y in z.
    ///
    /// # Safety
    /// The row of z must belong to the calling thread. During this call, no thread may write the rows (j - 1, k) and
    /// (j, k - 1) of z, or the row (j, k) of r.
    unsafe fn solve_row_forward<V: CellVector<f64>>(&self, a: &SevenPoints, j: usize, k: usize, r: &V, z: &V) {
        let cells = row_cells(a, j, k);
        let [east, north, top] = a.forward;
        let [_, row_stride, plane_stride] = a.cells.strides();
        let preceding_cells =
            |is_inside: bool, stride: usize| is_inside.then(|| cells.start - stride..cells.end - stride);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (a_south, south) = self.entries_and_values(north, preceding_cells(j > 0, row_stride), z);
            let (a_bottom, bottom) = self.entries_and_values(top, preceding_cells(k > 0, plane_stride), z);
            let (a, inverse_pivots) = ([&east[cells.clone()], a_south, a_bottom], &self.inverse_pivots[cells.clone()]);
            forward_row(z.row_mut(&cells), r.row(&cells), inverse_pivots, a, [south, bottom]);
        }
    }

    /// Solves row (j, k) of (D + L^T) z = D y; z contains y on entry.
    ///
    /// # Safety
    /// The row of z must belong to the calling thread. During this call, no thread may write the rows (j + 1, k) and
    /// (j, k + 1) of z.
    unsafe fn solve_row_backward<V: CellVector<f64>>(&self, a: &SevenPoints, j: usize, k: usize, z: &V) {
        let cells = row_cells(a, j, k);
        let [_, row_stride, plane_stride] = a.cells.strides();
        let following_cells =
            |is_inside: bool, stride: usize| is_inside.then(|| cells.start + stride..cells.end + stride);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (_, north) = self.entries_and_values(&[], following_cells(j + 1 < a.cells.ny, row_stride), z);
            let (_, top) = self.entries_and_values(&[], following_cells(k + 1 < a.cells.nz, plane_stride), z);
            let (a, inverse_pivots) = (a.forward.map(|f| &f[cells.clone()]), &self.inverse_pivots[cells.clone()]);
            backward_row(z.row_mut(&cells), inverse_pivots, a, [north, top]);
        }
    }

    /// Returns the matrix entries and the values of z in `cells`. If `cells` is `None`, both are rows of zeros. If
    /// `cells` is given but `entries` is empty, the first result is empty.
    ///
    /// # Safety
    /// No thread may write these cells of z while the slices are in use.
    unsafe fn entries_and_values<'v, V: CellVector<f64>>(
        &'v self,
        entries: &'v [f64],
        cells: Option<Range<usize>>,
        z: &'v V,
    ) -> (&'v [f64], &'v [f64]) {
        let Some(cells) = cells else { return (&self.zero_row, &self.zero_row) };
        // SAFETY: guaranteed by the caller.
        (entries.get(cells.clone()).unwrap_or_default(), unsafe { z.row(&cells) })
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.inverse_pivots) + size_of_val(&*self.zero_row)
    }
}

/// Returns the couplings of a cell to the preceding cells in x, y and z, and the indices of these cells.
fn preceding_couplings<'a>(a: &'a SevenPoints, cell: usize) -> impl Iterator<Item = (f64, usize)> + 'a {
    let (indices, strides) = (a.cells.indices(cell), a.cells.strides());
    (0..3).filter(move |&d| indices[d] > 0).map(move |d| (a.forward[d][cell - strides[d]], cell - strides[d]))
}

/// Returns the error message about a rejected pivot.
fn rejected_pivot_error(d: f64, center: f64, omega: f64, [i, j, k]: [usize; 3]) -> Error {
    let reason = if !d.is_finite() {
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
    let message_start = format!("pivot {d:e} of the incomplete factorization is not positive (center {center:e}) at ");
    Error::at(RRB_ERR_MATRIX, message_start, Location::point(i, j, k), format!(": {reason}"))
}

/// Returns the cells of row (j, k).
fn row_cells(a: &SevenPoints, j: usize, k: usize) -> Range<usize> {
    let start = (k * a.cells.ny + j) * a.cells.nx;
    start..start + a.cells.nx
}

/// Number of cells of a chunk. In each chunk, the products that vectorize are computed before the sequential recurrence
/// in x.
const CHUNK_CELLS: usize = 256;

for_each_isa! {
    /// Computes z_i = (r - (a_s z_s + a_b z_b)) / d - (a_w / d) z_(i-1) for ascending i. `inverse_pivots` contains 1/d.
    /// `a` contains the entries to east, south and bottom; a_w of a cell is the entry to east of the previous cell.
    /// `neighbour_values` contains z_s and z_b.
    fn forward_row(z: &mut [f64], r: &[f64], inverse_pivots: &[f64], a: [&[f64]; 3], neighbour_values: [&[f64]; 2]) {
        let mut z_west = 0.0;
        let mut a_west = 0.0;
        let mut factors = [0.0; CHUNK_CELLS];
        for (chunk, z) in z.chunks_mut(CHUNK_CELLS).enumerate() {
            let (start, n) = (chunk * CHUNK_CELLS, z.len());
            let [r, inverse_pivots, south, bottom] =
                [r, inverse_pivots, neighbour_values[0], neighbour_values[1]].map(|v| &v[start..][..n]);
            let [e, s, b] = a.map(|v| &v[start..][..n]);
            for i in 0..n {
                z[i] = (r[i] - (s[i] * south[i] + b[i] * bottom[i])) * inverse_pivots[i];
            }
            factors[0] = a_west * inverse_pivots[0];
            for i in 1..n {
                factors[i] = e[i - 1] * inverse_pivots[i];
            }
            for i in 0..n {
                z_west = z[i] - factors[i] * z_west;
                z[i] = z_west;
            }
            a_west = e[n - 1];
        }
    }

    /// Computes z_i = (z_i - (a_n z_n + a_t z_t) / d) - (a_e / d) z_(i+1) for descending i. `inverse_pivots` contains
    /// 1/d. `a` contains the entries to east, north and top. `neighbour_values` contains z_n and z_t.
    fn backward_row(z: &mut [f64], inverse_pivots: &[f64], a: [&[f64]; 3], neighbour_values: [&[f64]; 2]) {
        let mut z_east = 0.0;
        let mut factors = [0.0; CHUNK_CELLS];
        for (chunk, z) in z.chunks_mut(CHUNK_CELLS).enumerate().rev() {
            let (start, n) = (chunk * CHUNK_CELLS, z.len());
            let [inverse_pivots, north, top] =
                [inverse_pivots, neighbour_values[0], neighbour_values[1]].map(|v| &v[start..][..n]);
            let [e, an, at] = a.map(|v| &v[start..][..n]);
            for i in 0..n {
                z[i] -= (an[i] * north[i] + at[i] * top[i]) * inverse_pivots[i];
                factors[i] = e[i] * inverse_pivots[i];
            }
            for i in (0..n).rev() {
                z_east = z[i] - factors[i] * z_east;
                z[i] = z_east;
            }
        }
    }
}

#[cfg(test)]
mod tests;
