//! Multithreaded triangular solves of the incomplete factorization. Their results are bitwise identical to those of the
//! serial solves in `backend::reference`.
//!
//! The forward solve for a cell needs the preceding cells in x, y and z. Each thread owns the same range of rows j in
//! all planes. It solves its rows in plane k after the preceding thread has finished plane k. The preceding thread then
//! already works on plane k + 1. In the backward solve, the last thread begins.

use super::rows::Rows;
use crate::backend::reference::dpcg::incomplete::Incomplete as Factors;
use crate::error::{Result, zeroed};
use crate::grid::cells::SevenPoints;
use crate::isa::for_each_isa;
use crate::runtime::team::{Me, Point, share};
use std::ops::Range;

/// The factors, and a row of zeros that replaces neighbours outside the box.
pub struct Incomplete {
    factors: Factors,
    zeros: Vec<f64>,
}

impl Incomplete {
    /// Computes the factorization; see [`Factors::factorize`].
    pub fn factorize(a: &SevenPoints, omega: f64) -> Result<Self> {
        let zeros = zeroed(a.cells.nx, "a row of zeros")?;
        Ok(Self { factors: Factors::factorize(a, omega)?, zeros })
    }

    /// Computes z = M^-1 r; all threads call it. `turn` is the number of previous calls in the run. Ends at a barrier.
    ///
    /// # Safety
    /// Between the barrier before this call and its end, no thread writes r, and only this call uses z.
    pub unsafe fn apply<V: Rows<f64>>(&self, me: Me, turn: usize, a: &SevenPoints, r: &V, z: &V) {
        let (ny, nz) = (a.cells.ny, a.cells.nz);
        let team = me.members.min(ny);
        if me.index < team {
            let own = share(ny, me.index, team);
            let stage = |planes: usize| turn * nz + planes;
            for k in 0..nz {
                if me.index > 0 {
                    me.wait_for(me.index - 1, Point::Last, stage(k + 1));
                }
                // SAFETY: rows of this thread; `wait_for` ensures that the row before them in this plane is complete.
                own.clone().for_each(|j| unsafe { self.forward(a, j, k, r, z) });
                me.post(Point::Last, stage(k + 1));
            }
            for k in (0..nz).rev() {
                if me.index + 1 < team {
                    me.wait_for(me.index + 1, Point::First, stage(nz - k));
                }
                // SAFETY: rows of this thread; `wait_for` ensures that the row after them is complete. The following
                // thread has thus completed its forward solve, and no longer reads the forward values of these rows.
                own.clone().rev().for_each(|j| unsafe { self.backward(a, j, k, z) });
                me.post(Point::First, stage(nz - k));
            }
        }
        me.barrier();
    }

    /// Solves row (j, k) of (D + L) y = r; stores y in z.
    ///
    /// # Safety
    /// The row belongs to the calling thread. No thread writes rows (j - 1, k) and (j, k - 1) during this call.
    unsafe fn forward<V: Rows<f64>>(&self, a: &SevenPoints, j: usize, k: usize, r: &V, z: &V) {
        let cells = row_of(a, j, k);
        let [east, north, top] = a.forward;
        let [_, row, plane] = a.cells.steps();
        let before = |is_inside: bool, step: usize| is_inside.then(|| cells.start - step..cells.end - step);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (a_south, south) = self.with(north, before(j > 0, row), z);
            let (a_bottom, bottom) = self.with(top, before(k > 0, plane), z);
            let (a, inverse) = ([&east[cells.clone()], a_south, a_bottom], &self.factors.inverse()[cells.clone()]);
            forward_row(z.row_mut(&cells), r.row(&cells), inverse, a, [south, bottom]);
        }
    }

    /// Solves row (j, k) of (D + L^T) z = D y; z contains y on entry.
    ///
    /// # Safety
    /// The row belongs to the calling thread. No thread writes rows (j + 1, k) and (j, k + 1) during this call.
    unsafe fn backward<V: Rows<f64>>(&self, a: &SevenPoints, j: usize, k: usize, z: &V) {
        let cells = row_of(a, j, k);
        let [_, row, plane] = a.cells.steps();
        let after = |is_inside: bool, step: usize| is_inside.then(|| cells.start + step..cells.end + step);
        // SAFETY: guaranteed by the caller.
        unsafe {
            let (_, north) = self.with(&[], after(j + 1 < a.cells.ny, row), z);
            let (_, top) = self.with(&[], after(k + 1 < a.cells.nz, plane), z);
            let (a, inverse) = (a.forward.map(|f| &f[cells.clone()]), &self.factors.inverse()[cells.clone()]);
            backward_row(z.row_mut(&cells), inverse, a, [north, top]);
        }
    }

    /// Returns matrix entries and values of a row; zeros if `cells` is `None`. If `entries` is empty, so is the first
    /// result.
    ///
    /// # Safety
    /// No thread writes the row while the slices are in use.
    unsafe fn with<'v, V: Rows<f64>>(
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
        self.factors.bytes() + size_of_val(&*self.zeros)
    }
}

/// Returns the cells of row (j, k).
fn row_of(a: &SevenPoints, j: usize, k: usize) -> Range<usize> {
    let start = (k * a.cells.ny + j) * a.cells.nx;
    start..start + a.cells.nx
}

/// Number of cells whose vectorizable products are computed before the sequential recurrence in x.
const CHUNK: usize = 256;

for_each_isa! {
    /// Computes z_i = (r - (a_s z_s + a_b z_b)) / d - (a_w / d) z_(i-1) for ascending i. `a`: entries to east, south
    /// and bottom.
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

    /// Computes z_i = (z_i - (a_n z_n + a_t z_t) / d) - (a_e / d) z_(i+1) for descending i. `a`: entries to east, north
    /// and top.
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
mod tests {
    use super::*;
    use crate::backend::reference::dpcg::incomplete::tests::System;
    use crate::runtime::shared::Shared;
    use crate::runtime::team::Team;

    /// The result of two successive calls is bitwise identical to the serial solve for any number of threads.
    #[test]
    fn a_team_solves_as_one_thread_does() {
        for size in [[50, 27, 13], [1, 19, 11], [300, 1, 4], [7, 3, 1], [2, 2, 2], [17, 5, 40]] {
            let system = System::new("9;dir=top", size, 1e-3);
            let (a, b) = (system.matrix(), system.problem.rhs("rand"));
            let incomplete = Incomplete::factorize(&a, 0.97).unwrap();
            let mut expected = vec![0.0; b.len()];
            incomplete.factors.apply(&a, &b, &mut expected);
            for members in [1, 2, 3, 7] {
                let (r, z) = (Shared::zeroed(b.len()).unwrap(), Shared::zeroed(b.len()).unwrap());
                // SAFETY: no team runs yet.
                unsafe { r.slice_mut(0, b.len()) }.copy_from_slice(&b);
                let work = |me: Me| {
                    for turn in 0..2 {
                        me.barrier();
                        // SAFETY: only this call uses r and z.
                        unsafe { incomplete.apply(me, turn, &a, &r, &z) };
                    }
                };
                Team::new(members).unwrap().run(work, work).unwrap();
                // SAFETY: no team runs any more.
                assert_eq!(unsafe { z.slice(0, b.len()) }, expected, "{size:?}, {members} members");
            }
        }
    }
}
