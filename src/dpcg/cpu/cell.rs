//! Multigrid with cell coarsening for 7-point matrices (Alcouffe, Brandt, Dendy and Painter 1981). A coarse cell
//! consists of two fine cells in each direction that is coarsened. The interpolation P is piecewise constant, and R =
//! P^T. The coarse matrix is again a 7-point matrix:
//!
//! ```text
//! coupling of two coarse cells = (sum of the couplings across their common face) / 2
//! ```
//!
//! The factor 1/2 accounts for the distance of the centres, which is twice as large as on the fine grid. The Galerkin
//! product P^T A P lacks this factor, so that aggregation with constant interpolation converges slowly (Braess 1995).
//! If the direction normal to the face is not coarsened, the factor is 1. For jumping coefficients, sums over faces are
//! better than harmonic means across cells (Alcouffe, Brandt, Dendy and Painter 1981). The row sums (for example of a
//! boundary with given pressure) are summed over the coarse cell.
//!
//! A direction of weak couplings is not coarsened until its couplings are strong (semicoarsening). The reason is that a
//! point smoother does not reduce errors that vary along this direction.
//!
//! The preconditioner is one V-cycle from zero with red-black Gauss-Seidel. Before the coarse-grid correction, red
//! cells are updated first; after it, red cells are updated last. M is therefore symmetric and positive definite. The
//! coarsest grid is solved exactly.
//!
//! All half-sweeps of red-black Gauss-Seidel before the coarse-grid correction form one pass over the planes. The
//! half-sweeps after the correction form another pass. In step t of a pass, half-sweep s updates plane t - s. At this
//! time half-sweep s - 1 has updated plane t - s + 1, and half-sweep s + 1 has not yet updated plane t - s - 1. Each
//! half-sweep therefore uses the same values as in a sweep over the whole grid. The restriction follows the last
//! half-sweep of its pass; the prolongation precedes the first half-sweep of its pass. Each pass reads r, A and x from
//! memory once.
//!
//! Each thread owns the same range of rows j in all planes. A step of a thread uses values of other threads only from
//! previous steps: in the rows beside its own, it uses only cells of the other colour, which no thread updates in this
//! plane in the same step.

use super::rows::CellVector;
use crate::base::isa::for_each_isa;
use crate::base::number::{Real, power_of_two_below};
use crate::base::shared::{Number, Shared};
use crate::base::team::{Me, Point, share};
use crate::dpcg::cell_grids::{Grid, GridMatrix, Hierarchy};
use crate::error::{Result, reserve, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use std::cell::Cell;
use std::ops::Range;

const WHAT: &str = "vectors of the multigrid";

/// Minimum number of cells of a grid for more than one thread. On smaller grids, the waiting times in every plane
/// exceed the time saved.
const MIN_TEAM_CELLS: usize = 16_384;

/// The preconditioner. The caller's grid uses f64, the coarse grids use `T`.
pub struct CellMultigrid<T> {
    hierarchy: Hierarchy<T>,
    sweeps: usize,
    /// Right-hand side and solution of each coarse grid.
    vectors: Vec<[Shared<T>; 2]>,
    /// A row of zeros that replaces rows outside the grid.
    zeros: Vec<f64>,
    coarse_zeros: Vec<T>,
}

/// A thread of a run, which counts the steps of all passes so far.
pub struct StepCounter<'a> {
    me: Me<'a>,
    steps: Cell<usize>,
}

impl<'a> StepCounter<'a> {
    /// Starts the count of a run at zero.
    pub fn new(me: Me<'a>) -> Self {
        Self { me, steps: Cell::new(0) }
    }

    /// Executes `steps` steps on each of the first `team` threads. No thread begins a step before its neighbours have
    /// completed the previous step. Ends with a barrier.
    fn run_steps(&self, team: usize, steps: usize, mut step: impl FnMut(usize)) {
        let (me, base) = (self.me, self.steps.get());
        self.steps.set(base + steps);
        if me.index < team {
            for t in 0..steps {
                // Step 0 needs no wait, because a barrier precedes the pass.
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

impl<T: Real + Number> CellMultigrid<T> {
    /// Computes the hierarchy of A. The coarsest grid has at most `coarsest` cells.
    pub fn new(a: &SevenPoints, sweeps: usize, coarsest: usize) -> Result<Self> {
        let hierarchy = Hierarchy::new(a, coarsest)?;
        let mut vectors = Vec::new();
        reserve(&mut vectors, hierarchy.grids.len(), WHAT)?;
        for grid in &hierarchy.grids {
            let count = grid.cells.count();
            vectors.push([Shared::zeroed(count)?, Shared::zeroed(count)?]);
        }
        let nx = a.cells.nx;
        Ok(Self { hierarchy, sweeps, vectors, zeros: zeroed(nx, WHAT)?, coarse_zeros: zeroed(nx, WHAT)? })
    }

    /// Computes z = M^-1 r. All threads must call this function. `magnitude` is a norm of r, which determines the power
    /// of two by which r is divided on the coarse grids. Ends with a barrier.
    ///
    /// # Safety
    /// From the barrier before this call to the end of the call, no thread may write r, and no other code may use z.
    pub unsafe fn apply<V: CellVector<f64>>(
        &self,
        counter: &StepCounter,
        a: &SevenPoints,
        r: &V,
        z: &V,
        magnitude: f64,
    ) {
        let grids = &self.hierarchy.grids;
        let scale = power_of_two_below(magnitude);
        let finest = Level { a: GridMatrix::finest(a), r, x: z, zeros: &self.zeros, sweeps: self.sweeps };
        // SAFETY: each pass ends at a barrier; the functions of `Level` state which rows a thread writes in a pass.
        unsafe {
            let (Some(grid), Some([first_r, first_x])) = (grids.first(), self.vectors.first()) else {
                return self.solve_coarsest(counter.me, a.cells.count(), r, z);
            };
            finest.descend(counter, grid, first_r, scale);
            for (level, grid) in grids.iter().enumerate().skip(1) {
                self.level(level - 1).descend(counter, grid, &self.vectors[level][0], 1.0);
            }
            if let (Some(grid), Some([r, x])) = (grids.last(), self.vectors.last()) {
                self.solve_coarsest(counter.me, grid.cells.count(), r, x);
            }
            for level in (1..grids.len()).rev() {
                self.level(level - 1).ascend(counter, &grids[level], &self.vectors[level][1], 1.0);
            }
            finest.ascend(counter, grid, first_x, scale / self.hierarchy.unit);
        }
    }

    fn level(&self, level: usize) -> Level<'_, T, Shared<T>> {
        let [r, x] = &self.vectors[level];
        Level { a: self.hierarchy.grids[level].points(), r, x, zeros: &self.coarse_zeros, sweeps: self.sweeps }
    }

    /// Solves the system of the coarsest grid, or of the caller's grid if there is no coarse grid, for x on thread 0.
    /// `count` is its number of cells.
    ///
    /// # Safety
    /// No other code may use the vectors before the barrier at the end of this function.
    unsafe fn solve_coarsest<F: Real, V: CellVector<F>>(&self, me: Me, count: usize, r: &V, x: &V) {
        if me.index == 0 {
            // SAFETY: guaranteed by the caller.
            let (r, x) = unsafe { (r.row(&(0..count)), x.row_mut(&(0..count))) };
            x.copy_from_slice(r);
            self.hierarchy.coarsest.solve(x);
        }
        me.barrier();
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().flatten().map(Shared::bytes).sum();
        self.hierarchy.bytes() + vectors + size_of_val(&*self.zeros) + size_of_val(&*self.coarse_zeros)
    }
}

/// A grid with its vectors.
struct Level<'a, F, V> {
    a: GridMatrix<'a, F>,
    r: &'a V,
    x: &'a V,
    zeros: &'a [F],
    sweeps: usize,
}

impl<F: Real, V: CellVector<F>> Level<'_, F, V> {
    /// Returns the number of threads that work on this grid, and the rows j of this thread. These rows consist of whole
    /// coarse rows, which also belong to this thread.
    fn share(&self, me: Me, grid: &Grid<impl Real>) -> (usize, Range<usize>) {
        let Cells { ny, .. } = self.a.cells;
        let with_team = self.a.cells.count() >= MIN_TEAM_CELLS;
        let team = if with_team { me.members.min(grid.cells.ny) } else { 1 };
        if me.index >= team {
            return (team, 0..0);
        }
        let coarse = share(grid.cells.ny, me.index, team);
        (team, coarse.start * grid.ratio[1]..(coarse.end * grid.ratio[1]).min(ny))
    }

    /// Executes a pass over the planes: calls `half_sweep(half, j, k)` for all rows (j, k) of this thread and for half
    /// = 0, 1, ..., 2 `sweeps`. These are the half-sweeps and one more operation: the restriction comes last, and the
    /// prolongation comes first. In step t, operation `half` is applied to plane t - `half`.
    fn pass(&self, counter: &StepCounter, grid: &Grid<impl Real>, half_sweep: impl Fn(usize, usize, usize)) {
        let ((team, rows), halves) = (self.share(counter.me, grid), 2 * self.sweeps);
        counter.run_steps(team, self.a.cells.nz + halves, |t| {
            for half in 0..=halves {
                let Some(k) = t.checked_sub(half).filter(|&k| k < self.a.cells.nz) else { continue };
                rows.clone().for_each(|j| half_sweep(half, j, k));
            }
        });
    }

    /// Executes the sweeps from x = 0, red cells before black cells, and computes `coarse` = R (r - A x) / scale on the
    /// coarse grid.
    ///
    /// # Safety
    /// A barrier must precede this call. Until the call ends, no other code may use x and `coarse`, and no thread may
    /// write r.
    unsafe fn descend<T: Real, C: CellVector<T>>(&self, counter: &StepCounter, grid: &Grid<T>, coarse: &C, scale: f64) {
        // SAFETY: the written row belongs to this thread. The documentation of this module explains why the rows that
        // it reads are complete.
        self.pass(counter, grid, |half, j, k| unsafe {
            match half {
                0 => self.begin(j, k),
                _ if half < 2 * self.sweeps => self.relax(half % 2, j, k),
                _ => self.restrict(j, k, grid, coarse, scale),
            }
        });
    }

    /// Computes x += scale P e, then executes the sweeps, black cells before red cells.
    ///
    /// # Safety
    /// A barrier must precede this call. Until the call ends, no other code may use x, and no thread may write r or
    /// `e`.
    unsafe fn ascend<T: Real, C: CellVector<T>>(&self, counter: &StepCounter, grid: &Grid<T>, e: &C, scale: f64) {
        // SAFETY: the written row belongs to this thread. The documentation of this module explains why the rows that
        // it reads are complete.
        self.pass(counter, grid, |half, j, k| unsafe {
            if half > 0 {
                return self.relax(half % 2, j, k);
            }
            let (x, e) = (self.x.row_mut(&self.cells(j, k)), e.row(&coarse_row(grid, j, k)));
            prolong_row(x, e, grid.ratio[0], scale);
        });
    }

    /// Returns the cells of row (j, k).
    fn cells(&self, j: usize, k: usize) -> Range<usize> {
        let start = (k * self.a.cells.ny + j) * self.a.cells.nx;
        start..start + self.a.cells.nx
    }

    /// Returns the parity of the index i of the cells of a colour (0: red, 1: black) in row (j, k).
    fn odd(colour: usize, j: usize, k: usize) -> usize {
        (colour + j + k) % 2
    }

    /// Returns r and the matrix entries of row (j, k), and x of the neighbouring rows to south, north, bottom and top.
    /// Outside the grid, entries and x are zero.
    ///
    /// # Safety
    /// While the result is in use, no thread may write r in this row, or those cells of the neighbouring rows of x
    /// whose values the caller uses.
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
        // SAFETY: guaranteed by the caller.
        let values = [s, n, b, t].map(|at| at.map_or(zeros, |at| unsafe { self.x.row(&at) }));
        // SAFETY: guaranteed by the caller.
        let r = unsafe { self.r.row(&cells) };
        Row { r, center: &self.a.center[cells.clone()], east: &east[cells], near, values }
    }

    /// Sets x = D^-1 r in red cells and x = 0 in black cells.
    ///
    /// # Safety
    /// The row must belong to this thread. During this call, no thread may write r in this row.
    unsafe fn begin(&self, j: usize, k: usize) {
        let cells = self.cells(j, k);
        // SAFETY: guaranteed by the caller.
        let (r, x) = unsafe { (self.r.row(&cells), self.x.row_mut(&cells)) };
        begin_row(x, Self::odd(0, j, k), r, &self.a.center[cells]);
    }

    /// Computes x = D^-1 (r - (A - D) x) in the cells of a colour.
    ///
    /// # Safety
    /// The row must belong to this thread. During this call, no thread may write r in this row, or cells of the other
    /// colour in the neighbouring rows of x.
    unsafe fn relax(&self, colour: usize, j: usize, k: usize) {
        // SAFETY: guaranteed by the caller.
        let (row, x) = unsafe { (self.row(j, k), self.x.row_mut(&self.cells(j, k))) };
        relax_row(x, Self::odd(colour, j, k), row);
    }

    /// Adds R (r - A x) / scale of a row to the coarse row, which is first set to zero if this row is its first fine
    /// row. Only red cells contribute, since the last half-sweep made the residual of the black cells zero.
    ///
    /// # Safety
    /// The row and its coarse row must belong to this thread. During this call, no thread may write r in this row, or
    /// the neighbouring rows of x.
    unsafe fn restrict<T: Real, C: CellVector<T>>(&self, j: usize, k: usize, grid: &Grid<T>, coarse: &C, scale: f64) {
        // SAFETY: guaranteed by the caller.
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

/// Returns the cells of the coarse row that contains the fine row (j, k).
fn coarse_row<T>(grid: &Grid<T>, j: usize, k: usize) -> Range<usize> {
    let start = (k / grid.ratio[2] * grid.cells.ny + j / grid.ratio[1]) * grid.cells.nx;
    start..start + grid.cells.nx
}

/// Data for relaxing a row of cells, except x of the row itself.
#[derive(Clone, Copy)]
pub struct Row<'a, F> {
    r: &'a [F],
    center: &'a [F],
    /// Matrix entries to the east.
    east: &'a [F],
    /// Matrix entries to south, north, bottom and top; `values` contains x at these neighbours.
    near: [&'a [F]; 4],
    values: [&'a [F]; 4],
}

impl<F: Real> Row<'_, F> {
    /// Returns r - (A - D) x in cell i.
    #[inline(always)]
    fn off_diagonal_residual(&self, x: &[F], i: usize) -> F {
        let mut value = self.r[i];
        if i > 0 {
            value -= self.east[i - 1] * x[i - 1];
        }
        if i + 1 < x.len() {
            value -= self.east[i] * x[i + 1];
        }
        self.near.iter().zip(self.values).fold(value, |value, (a, x)| value - a[i] * x[i])
    }

    /// Computes r - (A - D) x in the cells start .. start + out.len(), which may include the ends of the row.
    #[inline(always)]
    fn chunk(&self, out: &mut [F], x: &[F], start: usize) {
        let (n, end) = (out.len(), start + out.len());
        out[0] = self.off_diagonal_residual(x, start);
        out[n - 1] = self.off_diagonal_residual(x, end - 1);
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

/// Number of cells whose new values are computed in a buffer. Only the values of one colour are then stored.
const CHUNK: usize = 256;

for_each_isa! {
    /// Sets x = r / center in the cells with i % 2 = `odd`, and 0 in the others.
    fn begin_row<F: Real>(x: &mut [F], odd: usize, r: &[F], center: &[F]) {
        let n = x.len();
        let (r, center) = (&r[..n], &center[..n]);
        for i in 0..n {
            let value = r[i] / center[i];
            x[i] = if i % 2 == odd { value } else { F::default() };
        }
    }

    /// Computes x = D^-1 (r - (A - D) x) in the cells with i % 2 = `odd`. The loop computes the values of all cells, so
    /// that it vectorizes, and discards the other half.
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

    /// Computes r - A x in the cells start .. start + out.len() of a row.
    fn residual_chunk<F: Real>(out: &mut [F], x: &[F], start: usize, row: Row<F>) {
        row.chunk(out, x, start);
        let n = out.len();
        let (x, center) = (&x[start..][..n], &row.center[start..][..n]);
        for i in 0..n {
            out[i] -= center[i] * x[i];
        }
    }
}

/// Computes x += scale P e: each coarse value e is added to `ratio` fine cells.
fn prolong_row<F: Real, T: Real>(x: &mut [F], e: &[T], ratio: usize, scale: f64) {
    for (x, e) in x.chunks_mut(ratio).zip(e) {
        let e = F::narrow(e.wide() * scale);
        x.iter_mut().for_each(|x| *x += e);
    }
}

#[cfg(test)]
mod tests;
