//! Triangular solves of an incomplete factorization by a team, with the bits of one thread.
//!
//! A cell needs those before it in x, y and z. Each member has rows j of its own, the same in every plane: it solves
//! them in plane k when the member before has done so, and works on plane k while that one is on plane k + 1. Backwards
//! the last member leads.

use super::rows::Rows;
use crate::backend::reference::dpcg::incomplete::Incomplete as Factors;
use crate::error::{Result, zeroed};
use crate::grid::cells::SevenPoints;
use crate::isa::for_each_isa;
use crate::runtime::team::{Me, Point, share};
use std::ops::Range;

/// The factors, and a row of zeros: neighbours outside.
pub struct Incomplete {
    factors: Factors,
    zeros: Vec<f64>,
}

impl Incomplete {
    /// See [`Factors::factorize`].
    pub fn factorize(a: &SevenPoints, omega: f64) -> Result<Self> {
        let zeros = zeroed(a.cells.nx, "a row of zeros")?;
        Ok(Self { factors: Factors::factorize(a, omega)?, zeros })
    }

    /// z = M^-1 r, by all members. `turn` counts the calls of a run, from 0. Ends at a barrier.
    ///
    /// # Safety
    /// No member writes r, or uses z otherwise, between the barrier before this call and its end.
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
                // SAFETY: rows of this member; the row before them in this plane is done.
                own.clone().for_each(|j| unsafe { self.forward(a, j, k, r, z) });
                me.post(Point::Last, stage(k + 1));
            }
            for k in (0..nz).rev() {
                if me.index + 1 < team {
                    me.wait_for(me.index + 1, Point::First, stage(nz - k));
                }
                // SAFETY: rows of this member. The row after them is done, so that the member after this one has read
                // what it needs of the way forward.
                own.clone().rev().for_each(|j| unsafe { self.backward(a, j, k, z) });
                me.post(Point::First, stage(nz - k));
            }
        }
        me.barrier();
    }

    /// Row (j, k) of (D + L) y = r; y is in z.
    ///
    /// # Safety
    /// The row is the caller's; the rows (j - 1, k) and (j, k - 1) are not written meanwhile.
    unsafe fn forward<V: Rows<f64>>(&self, a: &SevenPoints, j: usize, k: usize, r: &V, z: &V) {
        let cells = row_of(a, j, k);
        let [east, north, top] = a.forward;
        let [_, row, plane] = a.cells.steps();
        let before = |is_inside: bool, step: usize| is_inside.then(|| cells.start - step..cells.end - step);
        // SAFETY: as the caller promised.
        unsafe {
            let (a_south, south) = self.with(north, before(j > 0, row), z);
            let (a_bottom, bottom) = self.with(top, before(k > 0, plane), z);
            let (a, inverse) = ([&east[cells.clone()], a_south, a_bottom], &self.factors.inverse()[cells.clone()]);
            forward_row(z.row_mut(&cells), r.row(&cells), inverse, a, [south, bottom]);
        }
    }

    /// Row (j, k) of (D + L^T) z = D y.
    ///
    /// # Safety
    /// The row is the caller's; the rows (j + 1, k) and (j, k + 1) are not written meanwhile.
    unsafe fn backward<V: Rows<f64>>(&self, a: &SevenPoints, j: usize, k: usize, z: &V) {
        let cells = row_of(a, j, k);
        let [_, row, plane] = a.cells.steps();
        let after = |is_inside: bool, step: usize| is_inside.then(|| cells.start + step..cells.end + step);
        // SAFETY: as the caller promised.
        unsafe {
            let (_, north) = self.with(&[], after(j + 1 < a.cells.ny, row), z);
            let (_, top) = self.with(&[], after(k + 1 < a.cells.nz, plane), z);
            let (a, inverse) = (a.forward.map(|f| &f[cells.clone()]), &self.factors.inverse()[cells.clone()]);
            backward_row(z.row_mut(&cells), inverse, a, [north, top]);
        }
    }

    /// Entries (none: none) and values of a row; zeros outside.
    ///
    /// # Safety
    /// Nobody writes the row meanwhile.
    unsafe fn with<'v, V: Rows<f64>>(
        &'v self,
        entries: &'v [f64],
        cells: Option<Range<usize>>,
        z: &'v V,
    ) -> (&'v [f64], &'v [f64]) {
        let Some(cells) = cells else { return (&self.zeros, &self.zeros) };
        // SAFETY: as the caller promised.
        (entries.get(cells.clone()).unwrap_or_default(), unsafe { z.row(&cells) })
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.factors.bytes() + size_of_val(&*self.zeros)
    }
}

/// Cells of row (j, k).
fn row_of(a: &SevenPoints, j: usize, k: usize) -> Range<usize> {
    let start = (k * a.cells.ny + j) * a.cells.nx;
    start..start + a.cells.nx
}

/// Cells whose products are made before their recurrence is run.
const CHUNK: usize = 256;

for_each_isa! {
    /// z = (r - (a_s z_s + a_b z_b)) / d - (a_w / d) z_w, west before here. `a`: entries to east, south and bottom.
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

    /// z = (z - (a_n z_n + a_t z_t) / d) - (a_e / d) z_e, east before here. `a`: entries to east, north and top.
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

    /// Whatever the number of members: the bits of the plain sweep, twice in a run.
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
                        // SAFETY: r and z are used by nothing else.
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
