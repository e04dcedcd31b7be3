//! The V-cycle of the cell-centred multigrid by a team, with the bits of one thread.
//!
//! All half-sweeps before the coarse grid are one pass over the planes, and so are those after it: in step t,
//! half-sweep s is done on plane t - s, so that it finds its neighbours above done with half-sweep s - 1 and not yet
//! with s, as after sweeps over the whole grid. The restriction follows as one more of them, the prolongation goes
//! before. Memory sees r, A and x once a pass. Each member has rows j of its own, the same in every plane; in a step it
//! needs of its neighbours' rows what they did in the step before.

use super::rows::Rows;
use crate::backend::reference::dpcg::grids::{Grid, Hierarchy};
use crate::backend::reference::dpcg::points::Points;
use crate::error::{Result, reserve, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::isa::for_each_isa;
use crate::runtime::number::{Real, power_of_two_below};
use crate::runtime::shared::{Number, Shared};
use crate::runtime::team::{Me, Point, share};
use std::cell::Cell;
use std::ops::Range;

const WHAT: &str = "vectors of the multigrid";

/// A grid of fewer cells is left to member 0: to wait for others in each plane costs more than their help.
const WORTH_A_TEAM: usize = 16_384;

/// The preconditioner. The caller's grid is worked on in f64, coarse ones in `T`.
pub struct CellCentred<T> {
    hierarchy: Hierarchy<T>,
    sweeps: usize,
    /// Right-hand sides and solutions of coarse grids.
    vectors: Vec<[Shared<T>; 2]>,
    /// The coarsest grid's.
    work: Shared,
    /// Rows outside.
    zeros: Vec<f64>,
    coarse_zeros: Vec<T>,
}

/// A member in a run, and how many steps of passes it has come to in this run.
pub struct Walker<'a> {
    me: Me<'a>,
    steps: Cell<usize>,
}

impl<'a> Walker<'a> {
    /// At the beginning of a run.
    pub fn new(me: Me<'a>) -> Self {
        Self { me, steps: Cell::new(0) }
    }

    /// Goes through `steps` steps together with the members next to this one among `team`: nobody begins a step before
    /// those have ended the one before it. Ends at a barrier.
    fn walk(&self, team: usize, steps: usize, mut step: impl FnMut(usize)) {
        let (me, base) = (self.me, self.steps.get());
        self.steps.set(base + steps);
        if me.index < team {
            for t in 0..steps {
                // The barrier before this pass stands for the steps before.
                if t > 0 && me.index > 0 {
                    me.wait_for(me.index - 1, Point::Last, base + t);
                }
                if t > 0 && me.index + 1 < team {
                    me.wait_for(me.index + 1, Point::Last, base + t);
                }
                step(t);
                me.post(Point::Last, base + t + 1);
            }
        }
        me.barrier();
    }
}

impl<T: Real + Number> CellCentred<T> {
    /// See the one of `reference`.
    pub fn new(a: &SevenPoints, sweeps: usize, coarsest: usize) -> Result<Self> {
        let hierarchy = Hierarchy::new(a, coarsest)?;
        let mut vectors = Vec::new();
        reserve(&mut vectors, hierarchy.grids.len(), WHAT)?;
        for grid in &hierarchy.grids {
            let count = grid.cells.count();
            vectors.push([Shared::zeroed(count)?, Shared::zeroed(count)?]);
        }
        let (work, nx) = (Shared::zeroed(hierarchy.coarsest.room())?, a.cells.nx);
        Ok(Self { hierarchy, sweeps, vectors, work, zeros: zeroed(nx, WHAT)?, coarse_zeros: zeroed(nx, WHAT)? })
    }

    /// z = M^-1 r, by all members; `largest` = max |r|. Ends at a barrier.
    ///
    /// # Safety
    /// No member writes r, or uses z otherwise, between the barrier before this call and its end.
    pub unsafe fn apply<V: Rows<f64>>(&self, walker: &Walker, a: &SevenPoints, r: &V, z: &V, largest: f64) {
        let grids = &self.hierarchy.grids;
        let scale = power_of_two_below(largest);
        let finest = Level { a: Points::finest(a), r, x: z, zeros: &self.zeros, sweeps: self.sweeps };
        // SAFETY: each pass ends at a barrier, and says itself who writes what in it.
        unsafe {
            let (Some(grid), Some([first_r, first_x])) = (grids.first(), self.vectors.first()) else {
                return self.solve_coarsest(walker.me, a.cells.count(), r, z);
            };
            finest.descend(walker, grid, first_r, scale);
            for (level, grid) in grids.iter().enumerate().skip(1) {
                self.level(level - 1).descend(walker, grid, &self.vectors[level][0], 1.0);
            }
            if let (Some(grid), Some([r, x])) = (grids.last(), self.vectors.last()) {
                self.solve_coarsest(walker.me, grid.cells.count(), r, x);
            }
            for level in (1..grids.len()).rev() {
                self.level(level - 1).ascend(walker, &grids[level], &self.vectors[level][1], 1.0);
            }
            finest.ascend(walker, grid, first_x, scale / self.hierarchy.unit);
        }
    }

    fn level(&self, level: usize) -> Level<'_, T, Shared<T>> {
        let [r, x] = &self.vectors[level];
        Level { a: self.hierarchy.grids[level].points(), r, x, zeros: &self.coarse_zeros, sweeps: self.sweeps }
    }

    /// # Safety
    /// The vectors are used by nothing else until the barrier at the end.
    unsafe fn solve_coarsest<F: Real, V: Rows<F>>(&self, me: Me, count: usize, r: &V, x: &V) {
        if me.index == 0 {
            // SAFETY: as the caller promised; `work` is used here alone.
            let (r, x, work) =
                unsafe { (r.row(&(0..count)), x.row_mut(&(0..count)), self.work.slice_mut(0, self.work.len())) };
            self.hierarchy.coarsest.solve(r, x, work);
        }
        me.barrier();
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().flatten().map(Shared::bytes).sum();
        self.hierarchy.bytes()
            + vectors
            + self.work.bytes()
            + size_of_val(&*self.zeros)
            + size_of_val(&*self.coarse_zeros)
    }
}

/// A grid with its vectors.
struct Level<'a, F, V> {
    a: Points<'a, F>,
    r: &'a V,
    x: &'a V,
    zeros: &'a [F],
    sweeps: usize,
}

impl<F: Real, V: Rows<F>> Level<'_, F, V> {
    /// Members at work, and the rows j of this one: those of whole coarse rows, which are then its own, too.
    fn share(&self, me: Me, grid: &Grid<impl Real>) -> (usize, Range<usize>) {
        let Cells { ny, .. } = self.a.cells;
        let worth = self.a.cells.count() >= WORTH_A_TEAM;
        let team = if worth { me.members.min(grid.cells.ny) } else { 1 };
        if me.index >= team {
            return (team, 0..0);
        }
        let coarse = share(grid.cells.ny, me.index, team);
        (team, coarse.start * grid.ratio[1]..(coarse.end * grid.ratio[1]).min(ny))
    }

    /// Sweeps from x = 0, red before black, and the residual to the coarse grid.
    ///
    /// # Safety
    /// A barrier stands before it, and no member does anything else with x and `coarse`, or writes r.
    unsafe fn descend<T: Real, C: Rows<T>>(&self, walker: &Walker, grid: &Grid<T>, coarse: &C, scale: f64) {
        let ((team, rows), halves) = (self.share(walker.me, grid), 2 * self.sweeps);
        walker.walk(team, self.a.cells.nz + halves, |t| {
            for half in 0..=halves {
                let Some(k) = t.checked_sub(half).filter(|&k| k < self.a.cells.nz) else { continue };
                for j in rows.clone() {
                    // SAFETY: a row of this member; see the head of this file.
                    unsafe {
                        match half {
                            0 => self.begin(j, k),
                            _ if half < halves => self.relax(half % 2, j, k),
                            _ => self.restrict(j, k, grid, coarse, scale),
                        }
                    }
                }
            }
        });
    }

    /// x += P e scale, and sweeps, black before red.
    ///
    /// # Safety
    /// A barrier stands before it, and no member does anything else with x, or writes r and `e`.
    unsafe fn ascend<T: Real, C: Rows<T>>(&self, walker: &Walker, grid: &Grid<T>, e: &C, scale: f64) {
        let ((team, rows), halves) = (self.share(walker.me, grid), 2 * self.sweeps);
        walker.walk(team, self.a.cells.nz + halves, |t| {
            for half in 0..=halves {
                let Some(k) = t.checked_sub(half).filter(|&k| k < self.a.cells.nz) else { continue };
                for j in rows.clone() {
                    // SAFETY: a row of this member; see the head of this file.
                    unsafe {
                        if half == 0 {
                            let (x, e) = (self.x.row_mut(&self.cells(j, k)), e.row(&coarse_row(grid, j, k)));
                            prolong_row(x, e, grid.ratio[0], scale);
                        } else {
                            self.relax(half % 2, j, k);
                        }
                    }
                }
            }
        });
    }

    /// Cells of row (j, k).
    fn cells(&self, j: usize, k: usize) -> Range<usize> {
        let start = (k * self.a.cells.ny + j) * self.a.cells.nx;
        start..start + self.a.cells.nx
    }

    /// Which of the cells of a row are of a colour: even or odd ones.
    fn odd(colour: usize, j: usize, k: usize) -> usize {
        (colour + j + k) % 2
    }

    /// Entries of the row, and those to south, north, bottom and top with the values there; zeros outside.
    ///
    /// # Safety
    /// Nobody writes those values meanwhile.
    unsafe fn row<'s>(&'s self, j: usize, k: usize) -> Row<'s, F> {
        let Cells { nx, ny, nz } = self.a.cells;
        let ([east, north, top], cells, zeros) = (self.a.forward, self.cells(j, k), &self.zeros[..nx]);
        let before = |is_inside: bool, step: usize| is_inside.then(|| cells.start - step..cells.end - step);
        let after = |is_inside: bool, step: usize| is_inside.then(|| cells.start + step..cells.end + step);
        let (s, n) = (before(j > 0, nx), after(j + 1 < ny, nx));
        let (b, t) = (before(k > 0, nx * ny), after(k + 1 < nz, nx * ny));
        let inside = |at: &Option<Range<usize>>| at.clone().unwrap_or(0..0);
        let (to_south, to_bottom) = (&north[inside(&s)], &top[inside(&b)]);
        let or_zeros = |entries: &'s [F]| if entries.is_empty() { zeros } else { entries };
        let near = [or_zeros(to_south), &north[cells.clone()], or_zeros(to_bottom), &top[cells.clone()]];
        // SAFETY: as the caller promised.
        let values = [s, n, b, t].map(|at| at.map_or(zeros, |at| unsafe { self.x.row(&at) }));
        // SAFETY: as above.
        let r = unsafe { self.r.row(&cells) };
        Row { r, center: &self.a.center[cells.clone()], east: &east[cells], near, values }
    }

    /// x = D^-1 r in red cells, 0 in black ones.
    ///
    /// # Safety
    /// The row is this member's.
    unsafe fn begin(&self, j: usize, k: usize) {
        let cells = self.cells(j, k);
        // SAFETY: as the caller promised.
        let (r, x) = unsafe { (self.r.row(&cells), self.x.row_mut(&cells)) };
        begin_row(x, Self::odd(0, j, k), r, &self.a.center[cells]);
    }

    /// x = D^-1 (r - (A - D) x) in cells of a colour.
    ///
    /// # Safety
    /// The row is this member's, and cells of the other colour are not written meanwhile in the rows around it.
    unsafe fn relax(&self, colour: usize, j: usize, k: usize) {
        // SAFETY: as the caller promised.
        let (row, x) = unsafe { (self.row(j, k), self.x.row_mut(&self.cells(j, k))) };
        relax_row(x, Self::odd(colour, j, k), row);
    }

    /// R (r - A x) / scale of a row: of its red cells.
    ///
    /// # Safety
    /// The row is this member's, and so is the coarse one; those around it are not written meanwhile.
    unsafe fn restrict<T: Real, C: Rows<T>>(&self, j: usize, k: usize, grid: &Grid<T>, coarse: &C, scale: f64) {
        // SAFETY: as the caller promised.
        let (row, x, coarse) =
            unsafe { (self.row(j, k), self.x.row(&self.cells(j, k)), coarse.row_mut(&coarse_row(grid, j, k))) };
        if j.is_multiple_of(grid.ratio[1]) && k.is_multiple_of(grid.ratio[2]) {
            coarse.fill(T::default());
        }
        let mut residual = [F::default(); CHUNK];
        for start in (0..x.len()).step_by(CHUNK) {
            let n = CHUNK.min(x.len() - start);
            residual_chunk(&mut residual[..n], x, start, row);
            let first = Self::odd(0, j, k);
            for i in (first..n).step_by(2) {
                coarse[(start + i) / grid.ratio[0]] += T::narrow(residual[i].wide() / scale);
            }
        }
    }
}

/// Cells of the coarse row that the fine row (j, k) lies in.
fn coarse_row<T>(grid: &Grid<T>, j: usize, k: usize) -> Range<usize> {
    let start = (k / grid.ratio[2] * grid.cells.ny + j / grid.ratio[1]) * grid.cells.nx;
    start..start + grid.cells.nx
}

/// What a row of cells needs beside its own x.
#[derive(Clone, Copy)]
pub struct Row<'a, F> {
    r: &'a [F],
    center: &'a [F],
    /// Entries to the east.
    east: &'a [F],
    /// Entries to south, north, bottom and top, and x there.
    near: [&'a [F]; 4],
    values: [&'a [F]; 4],
}

impl<F: Real> Row<'_, F> {
    /// r - (A - D) x in cell i.
    #[inline(always)]
    fn without_center(&self, x: &[F], i: usize) -> F {
        let mut value = self.r[i];
        if i > 0 {
            value -= self.east[i - 1] * x[i - 1];
        }
        if i + 1 < x.len() {
            value -= self.east[i] * x[i + 1];
        }
        self.near.iter().zip(self.values).fold(value, |value, (a, x)| value - a[i] * x[i])
    }

    /// The same in the cells start .. start + out.len(), whose ends may be those of the row.
    #[inline(always)]
    fn chunk(&self, out: &mut [F], x: &[F], start: usize) {
        let (n, end) = (out.len(), start + out.len());
        out[0] = self.without_center(x, start);
        out[n - 1] = self.without_center(x, end - 1);
        if n < 3 {
            return;
        }
        let (out, n) = (&mut out[1..n - 1], n - 2);
        let first = start + 1;
        let r = &self.r[first..][..n];
        let (a_w, a_e) = (&self.east[first - 1..][..n], &self.east[first..][..n]);
        let (w, e) = (&x[first - 1..][..n], &x[first + 1..][..n]);
        let [a_s, a_n, a_b, a_t] = self.near.map(|v| &v[first..][..n]);
        let [s, north, b, t] = self.values.map(|v| &v[first..][..n]);
        for i in 0..n {
            out[i] = r[i]
                - a_w[i] * w[i]
                - a_e[i] * e[i]
                - a_s[i] * s[i]
                - a_n[i] * north[i]
                - a_b[i] * b[i]
                - a_t[i] * t[i];
        }
    }
}

/// Cells that are computed before those of one colour are stored.
const CHUNK: usize = 256;

for_each_isa! {
    /// x = r / center in the even or odd cells, 0 in the others.
    fn begin_row<F: Real>(x: &mut [F], odd: usize, r: &[F], center: &[F]) {
        let n = x.len();
        let (r, center) = (&r[..n], &center[..n]);
        for i in 0..n {
            let value = r[i] / center[i];
            x[i] = if i % 2 == odd { value } else { F::default() };
        }
    }

    /// x = D^-1 (r - (A - D) x) in the even or odd cells. All are computed, for the sake of vectors, and half is kept.
    fn relax_row<F: Real>(x: &mut [F], odd: usize, row: Row<F>) {
        let mut new = [F::default(); CHUNK];
        for start in (0..x.len()).step_by(CHUNK) {
            let n = CHUNK.min(x.len() - start);
            let new = &mut new[..n];
            row.chunk(new, x, start);
            let (x, center) = (&mut x[start..][..n], &row.center[start..][..n]);
            for i in 0..n {
                let value = new[i] / center[i];
                x[i] = if i % 2 == odd { value } else { x[i] };
            }
        }
    }

    /// r - A x in some cells of a row.
    fn residual_chunk<F: Real>(out: &mut [F], x: &[F], start: usize, row: Row<F>) {
        row.chunk(out, x, start);
        let n = out.len();
        let (x, center) = (&x[start..][..n], &row.center[start..][..n]);
        for i in 0..n {
            out[i] -= center[i] * x[i];
        }
    }
}

/// x += e scale, each e in the `ratio` fine cells of a coarse one.
fn prolong_row<F: Real, T: Real>(x: &mut [F], e: &[T], ratio: usize, scale: f64) {
    for (x, e) in x.chunks_mut(ratio).zip(e) {
        let e = F::narrow(e.wide() * scale);
        x.iter_mut().for_each(|x| *x += e);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::reference::dpcg::cell::CellCentred as Plain;
    use crate::backend::reference::dpcg::incomplete::tests::System;
    use crate::backend::steps::dpcg::PUBLISHED;
    use crate::runtime::reduce::max_abs;
    use crate::runtime::team::Team;

    fn compare<T: Real + Number>(system: &System, sweeps: usize) {
        let (a, b) = (system.matrix(), system.problem.rhs("rand"));
        let mut expected = vec![0.0; b.len()];
        Plain::<T>::new(&a, sweeps, PUBLISHED).unwrap().apply(&a, &b, &mut expected);
        let multigrid = CellCentred::<T>::new(&a, sweeps, PUBLISHED).unwrap();
        for members in [1, 2, 3, 7] {
            let (r, z) = (Shared::zeroed(b.len()).unwrap(), Shared::zeroed(b.len()).unwrap());
            // SAFETY: no team runs yet.
            unsafe { r.slice_mut(0, b.len()) }.copy_from_slice(&b);
            let work = |me: Me| {
                let walker = Walker::new(me);
                for _ in 0..2 {
                    me.barrier();
                    // SAFETY: r and z are used by nothing else.
                    unsafe { multigrid.apply(&walker, &a, &r, &z, max_abs(&b)) };
                }
            };
            Team::new(members).unwrap().run(work, work).unwrap();
            // SAFETY: no team runs any more.
            assert_eq!(unsafe { z.slice(0, b.len()) }, expected, "{:?}, {members} members", a.cells);
        }
    }

    /// Whatever the number of members: the bits of the plain cycle.
    #[test]
    fn a_team_does_what_one_thread_does() {
        let sizes = [[50, 77, 33], [3, 40, 150], [300, 64, 1], [1, 130, 140], [2, 2, 2], [40, 41, 42], [600, 9, 5]];
        for set in ["9;dir=top", "surf;obs=box;asp=4"] {
            for size in sizes {
                let system = System::new(set, size, 1e-3);
                compare::<f64>(&system, 2);
                compare::<f32>(&system, 1);
            }
        }
    }
}
