//! Multigrid with cell coarsening for 7-point matrices (Alcouffe, Brandt, Dendy and Painter 1981). A coarse cell
//! consists of two fine cells in each direction that is coarsened. The interpolation P is piecewise constant, and the
//! restriction is R = P^T. The coarse matrix is again a 7-point matrix:
//!
//! ```text
//! coupling of two coarse cells = (sum of the couplings across their common face) / 2
//! ```
//!
//! The factor 1/2 accounts for the distance of the centres, which is twice as large as on the fine grid. The Galerkin
//! product P^T A P lacks this factor, so that aggregation with constant interpolation converges slowly (Braess 1995).
//! If the direction normal to the face is not coarsened, the factor is 1. For jumping coefficients, sums over faces are
//! better than harmonic means across cells (Alcouffe, Brandt, Dendy and Painter 1981). The row sum of a coarse cell is
//! the sum of the row sums of its fine cells. Row sums are nonzero, for example, next to a boundary with given
//! pressure.
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
//! previous steps. In the rows next to its own rows, the thread reads only cells of the other colour. No thread updates
//! these cells in the same plane in the same step.

use super::rows::CellVector;
use crate::base::isa::for_each_isa;
use crate::base::number::{Real, power_of_two_below};
use crate::base::shared::{Number, Shared};
use crate::base::team::{StagePoint, TeamThread, thread_share};
use crate::dpcg::cell_grids::{Grid, GridMatrix, Hierarchy};
use crate::error::{Result, reserve, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use std::cell::Cell;
use std::ops::Range;

const ALLOCATION_NAME: &str = "vectors of the multigrid";

/// Minimum number of cells of a grid for more than one thread. On smaller grids, threads wait longer in each plane than
/// they save.
const MIN_TEAM_CELLS: usize = 16_384;

/// The preconditioner. The caller's grid uses f64, the coarse grids use `T`.
pub struct CellMultigrid<T> {
    hierarchy: Hierarchy<T>,
    sweeps: usize,
    /// Right-hand side and solution of each coarse grid.
    vectors: Vec<[Shared<T>; 2]>,
    /// A row of zeros that replaces rows outside the grid.
    zero_row: Vec<f64>,
    coarse_zero_row: Vec<T>,
}

/// Runs the plane steps of the multigrid passes on one thread, and counts these steps from the start of the run.
/// Neighbouring threads wait until this count reaches a given number.
pub struct PassSteps<'a> {
    thread: TeamThread<'a>,
    step_count: Cell<usize>,
}

impl<'a> PassSteps<'a> {
    /// Starts a run with a count of zero.
    pub fn new(thread: TeamThread<'a>) -> Self {
        Self { thread, step_count: Cell::new(0) }
    }

    /// Executes `steps` steps on each of the first `active_threads` threads. No thread begins a step before its
    /// neighbours have completed the previous step. Ends with a barrier.
    fn run_steps(&self, active_threads: usize, steps: usize, mut execute_step: impl FnMut(usize)) {
        let (thread, first_step) = (self.thread, self.step_count.get());
        self.step_count.set(first_step + steps);
        if thread.index < active_threads {
            for step in 0..steps {
                // Step 0 needs no wait, because a barrier precedes the pass.
                if step > 0 && thread.index > 0 {
                    thread.wait_for_signal(thread.index - 1, StagePoint::LastRow, first_step + step);
                }
                if step > 0 && thread.index + 1 < active_threads {
                    thread.wait_for_signal(thread.index + 1, StagePoint::LastRow, first_step + step);
                }
                execute_step(step);
                thread.signal(StagePoint::LastRow, first_step + step + 1);
            }
        }
        thread.barrier();
    }
}

impl<T: Real + Number> CellMultigrid<T> {
    /// Computes the hierarchy of A. The coarsest grid has at most `max_coarsest_cells` cells.
    pub fn new(a: &SevenPoints, sweeps: usize, max_coarsest_cells: usize) -> Result<Self> {
        let hierarchy = Hierarchy::new(a, max_coarsest_cells)?;
        let mut vectors = Vec::new();
        reserve(&mut vectors, hierarchy.grids.len(), ALLOCATION_NAME)?;
        for grid in &hierarchy.grids {
            let count = grid.cells.count();
            vectors.push([Shared::zeroed(count)?, Shared::zeroed(count)?]);
        }
        let nx = a.cells.nx;
        Ok(Self {
            hierarchy,
            sweeps,
            vectors,
            zero_row: zeroed(nx, ALLOCATION_NAME)?,
            coarse_zero_row: zeroed(nx, ALLOCATION_NAME)?,
        })
    }

    /// Computes z = M^-1 r. All threads must call this function. `magnitude` is a norm of r, which determines the power
    /// of two by which r is divided on the coarse grids. Ends with a barrier.
    ///
    /// # Safety
    /// From the barrier before this call to the end of the call, no thread may write r, and no other code may use z.
    pub unsafe fn apply<V: CellVector<f64>>(&self, counter: &PassSteps, a: &SevenPoints, r: &V, z: &V, magnitude: f64) {
        let grids = &self.hierarchy.grids;
        let scale = power_of_two_below(magnitude);
        let finest = Level { a: GridMatrix::finest(a), r, x: z, zero_row: &self.zero_row, sweeps: self.sweeps };
        // SAFETY: each pass ends at a barrier; the functions of `Level` state which rows a thread writes in a pass.
        unsafe {
            let (Some(grid), Some([coarse_r, coarse_x])) = (grids.first(), self.vectors.first()) else {
                return self.solve_coarsest(counter.thread, a.cells.count(), r, z);
            };
            finest.descend(counter, grid, coarse_r, scale);
            for (level, grid) in grids.iter().enumerate().skip(1) {
                self.coarse_level(level - 1).descend(counter, grid, &self.vectors[level][0], 1.0);
            }
            if let (Some(grid), Some([r, x])) = (grids.last(), self.vectors.last()) {
                self.solve_coarsest(counter.thread, grid.cells.count(), r, x);
            }
            for level in (1..grids.len()).rev() {
                self.coarse_level(level - 1).ascend(counter, &grids[level], &self.vectors[level][1], 1.0);
            }
            finest.ascend(counter, grid, coarse_x, scale / self.hierarchy.divisor);
        }
    }

    fn coarse_level(&self, level: usize) -> Level<'_, T, Shared<T>> {
        let [r, x] = &self.vectors[level];
        Level { a: self.hierarchy.grids[level].matrix(), r, x, zero_row: &self.coarse_zero_row, sweeps: self.sweeps }
    }

    /// Solves the system of the coarsest grid for x on thread 0. If there is no coarse grid, the coarsest grid is the
    /// caller's grid. `count` is the number of cells of the coarsest grid.
    ///
    /// # Safety
    /// No other code may use the vectors before the barrier at the end of this function.
    unsafe fn solve_coarsest<F: Real, V: CellVector<F>>(&self, thread: TeamThread, count: usize, r: &V, x: &V) {
        if thread.index == 0 {
            // SAFETY: guaranteed by the caller.
            let (r, x) = unsafe { (r.row(&(0..count)), x.row_mut(&(0..count))) };
            x.copy_from_slice(r);
            self.hierarchy.coarsest_solver.solve(x);
        }
        thread.barrier();
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let vectors: usize = self.vectors.iter().flatten().map(Shared::bytes).sum();
        self.hierarchy.bytes() + vectors + size_of_val(&*self.zero_row) + size_of_val(&*self.coarse_zero_row)
    }
}

/// A grid with its vectors.
struct Level<'a, F, V> {
    a: GridMatrix<'a, F>,
    r: &'a V,
    x: &'a V,
    zero_row: &'a [F],
    sweeps: usize,
}

impl<F: Real, V: CellVector<F>> Level<'_, F, V> {
    /// Returns the number of threads that work on this grid, and the rows j of this thread. A thread owns whole coarse
    /// rows, and all fine rows that these coarse rows contain.
    fn active_threads_and_rows(&self, thread: TeamThread, grid: &Grid<impl Real>) -> (usize, Range<usize>) {
        let Cells { ny, .. } = self.a.cells;
        let uses_team = self.a.cells.count() >= MIN_TEAM_CELLS;
        let active_threads = if uses_team { thread.threads.min(grid.cells.ny) } else { 1 };
        if thread.index >= active_threads {
            return (active_threads, 0..0);
        }
        let coarse_rows = thread_share(grid.cells.ny, thread.index, active_threads);
        (
            active_threads,
            coarse_rows.start * grid.coarsening_ratio[1]..(coarse_rows.end * grid.coarsening_ratio[1]).min(ny),
        )
    }

    /// Executes a pass over the planes: calls `execute(half_sweep, j, k)` for all rows (j, k) of this thread and for
    /// `half_sweep` = 0, 1, ..., 2 `sweeps`. These numbers denote the half-sweeps and one more operation. This
    /// operation is the restriction, which comes last, or the prolongation, which comes first. In step t, operation
    /// `half_sweep` is applied to plane t - `half_sweep`.
    fn run_pass(&self, counter: &PassSteps, grid: &Grid<impl Real>, execute: impl Fn(usize, usize, usize)) {
        let ((active_threads, rows), half_sweep_count) =
            (self.active_threads_and_rows(counter.thread, grid), 2 * self.sweeps);
        counter.run_steps(active_threads, self.a.cells.nz + half_sweep_count, |step| {
            for half_sweep in 0..=half_sweep_count {
                let Some(k) = step.checked_sub(half_sweep).filter(|&k| k < self.a.cells.nz) else { continue };
                rows.clone().for_each(|j| execute(half_sweep, j, k));
            }
        });
    }

    /// Executes the sweeps from x = 0, red cells before black cells, and computes `coarse_r` = R (r - A x) / scale on
    /// the coarse grid.
    ///
    /// # Safety
    /// A barrier must precede this call. Until the call ends, no other code may use x and `coarse_r`, and no thread may
    /// write r.
    unsafe fn descend<T: Real, C: CellVector<T>>(&self, counter: &PassSteps, grid: &Grid<T>, coarse_r: &C, scale: f64) {
        // SAFETY: the written row belongs to this thread. The documentation of this module explains why the rows that
        // are read are complete.
        self.run_pass(counter, grid, |half_sweep, j, k| unsafe {
            match half_sweep {
                0 => self.set_first_colour(j, k),
                _ if half_sweep < 2 * self.sweeps => self.relax_cells(half_sweep % 2, j, k),
                _ => self.restrict_row(j, k, grid, coarse_r, scale),
            }
        });
    }

    /// Computes x += scale P e, then executes the sweeps, black cells before red cells.
    ///
    /// # Safety
    /// A barrier must precede this call. Until the call ends, no other code may use x, and no thread may write r or
    /// `e`.
    unsafe fn ascend<T: Real, C: CellVector<T>>(&self, counter: &PassSteps, grid: &Grid<T>, e: &C, scale: f64) {
        // SAFETY: the written row belongs to this thread. The documentation of this module explains why the rows that
        // are read are complete.
        self.run_pass(counter, grid, |half_sweep, j, k| unsafe {
            if half_sweep > 0 {
                return self.relax_cells(half_sweep % 2, j, k);
            }
            let (x, e) = (self.x.row_mut(&self.row_cells(j, k)), e.row(&coarse_row_cells(grid, j, k)));
            prolong_row(x, e, grid.coarsening_ratio[0], scale);
        });
    }

    /// Returns the cells of row (j, k).
    fn row_cells(&self, j: usize, k: usize) -> Range<usize> {
        let start = (k * self.a.cells.ny + j) * self.a.cells.nx;
        start..start + self.a.cells.nx
    }

    /// Returns the parity of the index i of the cells of a colour (0: red, 1: black) in row (j, k).
    fn column_parity(colour: usize, j: usize, k: usize) -> usize {
        (colour + j + k) % 2
    }

    /// Returns r and the matrix entries of row (j, k), and x of the neighbouring rows to south, north, bottom and top.
    /// Outside the grid, entries and x are zero.
    ///
    /// # Safety
    /// While the result is in use, no thread may write r in this row, or those cells of the neighbouring rows of x
    /// whose values the caller uses.
    unsafe fn read_row<'s>(&'s self, j: usize, k: usize) -> RowData<'s, F> {
        let Cells { nx, ny, nz } = self.a.cells;
        let ([east, north, top], cells, zero_row) = (self.a.forward, self.row_cells(j, k), &self.zero_row[..nx]);
        let preceding_cells =
            |is_inside: bool, stride: usize| is_inside.then(|| cells.start - stride..cells.end - stride);
        let following_cells =
            |is_inside: bool, stride: usize| is_inside.then(|| cells.start + stride..cells.end + stride);
        let (s, n) = (preceding_cells(j > 0, nx), following_cells(j + 1 < ny, nx));
        let (b, t) = (preceding_cells(k > 0, nx * ny), following_cells(k + 1 < nz, nx * ny));
        let cells_or_empty = |cells: &Option<Range<usize>>| cells.clone().unwrap_or(0..0);
        let (to_south, to_bottom) = (&north[cells_or_empty(&s)], &top[cells_or_empty(&b)]);
        let or_zeros = |entries: &'s [F]| if entries.is_empty() { zero_row } else { entries };
        let neighbour_entries = [or_zeros(to_south), &north[cells.clone()], or_zeros(to_bottom), &top[cells.clone()]];
        // SAFETY: guaranteed by the caller.
        let neighbour_x = [s, n, b, t].map(|cells| cells.map_or(zero_row, |cells| unsafe { self.x.row(&cells) }));
        // SAFETY: guaranteed by the caller.
        let r = unsafe { self.r.row(&cells) };
        RowData { r, center: &self.a.center[cells.clone()], east: &east[cells], neighbour_entries, neighbour_x }
    }

    /// Sets x = D^-1 r in red cells and x = 0 in black cells.
    ///
    /// # Safety
    /// The row must belong to this thread. During this call, no thread may write r in this row.
    unsafe fn set_first_colour(&self, j: usize, k: usize) {
        let cells = self.row_cells(j, k);
        // SAFETY: guaranteed by the caller.
        let (r, x) = unsafe { (self.r.row(&cells), self.x.row_mut(&cells)) };
        set_first_colour_row(x, Self::column_parity(0, j, k), r, &self.a.center[cells]);
    }

    /// Computes x = D^-1 (r - (A - D) x) in the cells of a colour.
    ///
    /// # Safety
    /// The row must belong to this thread. During this call, no thread may write r in this row, or cells of the other
    /// colour in the neighbouring rows of x.
    unsafe fn relax_cells(&self, colour: usize, j: usize, k: usize) {
        // SAFETY: guaranteed by the caller.
        let (row, x) = unsafe { (self.read_row(j, k), self.x.row_mut(&self.row_cells(j, k))) };
        relax_row(x, Self::column_parity(colour, j, k), row);
    }

    /// Adds R (r - A x) / scale of row (j, k) to the coarse row that contains this row. If (j, k) is the first fine row
    /// of the coarse row, the coarse row is first set to zero. Only red cells contribute, since the last half-sweep
    /// made the residual of the black cells zero.
    ///
    /// # Safety
    /// The row and its coarse row must belong to this thread. During this call, no thread may write r in this row, or
    /// the neighbouring rows of x.
    unsafe fn restrict_row<T: Real, C: CellVector<T>>(
        &self,
        j: usize,
        k: usize,
        grid: &Grid<T>,
        coarse_r: &C,
        scale: f64,
    ) {
        // SAFETY: guaranteed by the caller.
        let (row, x, coarse_r) = unsafe {
            (self.read_row(j, k), self.x.row(&self.row_cells(j, k)), coarse_r.row_mut(&coarse_row_cells(grid, j, k)))
        };
        if j.is_multiple_of(grid.coarsening_ratio[1]) && k.is_multiple_of(grid.coarsening_ratio[2]) {
            coarse_r.fill(T::default());
        }
        let mut residual = [F::default(); CHUNK_CELLS];
        for start in (0..x.len()).step_by(CHUNK_CELLS) {
            let n = CHUNK_CELLS.min(x.len() - start);
            residual_chunk(&mut residual[..n], x, start, row);
            let parity = Self::column_parity(0, j, k);
            for i in (parity..n).step_by(2) {
                coarse_r[(start + i) / grid.coarsening_ratio[0]] += T::from_f64(residual[i].to_f64() / scale);
            }
        }
    }
}

/// Returns the cells of the coarse row that contains the fine row (j, k).
fn coarse_row_cells<T>(grid: &Grid<T>, j: usize, k: usize) -> Range<usize> {
    let start = (k / grid.coarsening_ratio[2] * grid.cells.ny + j / grid.coarsening_ratio[1]) * grid.cells.nx;
    start..start + grid.cells.nx
}

/// Data for the relaxation or the residual of a row of cells, except x in this row.
#[derive(Clone, Copy)]
pub struct RowData<'a, F> {
    r: &'a [F],
    center: &'a [F],
    /// Matrix entries to the east.
    east: &'a [F],
    /// Matrix entries to south, north, bottom and top; `neighbour_x` contains x at these neighbours.
    neighbour_entries: [&'a [F]; 4],
    neighbour_x: [&'a [F]; 4],
}

impl<F: Real> RowData<'_, F> {
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
        self.neighbour_entries.iter().zip(self.neighbour_x).fold(value, |value, (a, x)| value - a[i] * x[i])
    }

    /// Computes r - (A - D) x in the cells start .. start + out.len(), which may include the ends of the row.
    #[inline(always)]
    fn off_diagonal_residuals(&self, out: &mut [F], x: &[F], start: usize) {
        let (n, end) = (out.len(), start + out.len());
        out[0] = self.off_diagonal_residual(x, start);
        out[n - 1] = self.off_diagonal_residual(x, end - 1);
        if n < 3 {
            return;
        }
        let (out, n) = (&mut out[1..n - 1], n - 2);
        let inner_start = start + 1;
        let r = &self.r[inner_start..][..n];
        let (a_w, a_e) = (&self.east[inner_start - 1..][..n], &self.east[inner_start..][..n]);
        let (w, e) = (&x[inner_start - 1..][..n], &x[inner_start + 1..][..n]);
        let [a_s, a_n, a_b, a_t] = self.neighbour_entries.map(|v| &v[inner_start..][..n]);
        let [s, north, b, t] = self.neighbour_x.map(|v| &v[inner_start..][..n]);
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

/// Number of cells in a buffer of new values or residuals. The loops compute the values of both colours, and then use
/// only those of one colour.
const CHUNK_CELLS: usize = 256;

for_each_isa! {
    /// Sets x = r / center in the cells with i % 2 = `parity`, and 0 in the others.
    fn set_first_colour_row<F: Real>(x: &mut [F], parity: usize, r: &[F], center: &[F]) {
        let n = x.len();
        let (r, center) = (&r[..n], &center[..n]);
        for i in 0..n {
            let value = r[i] / center[i];
            x[i] = if i % 2 == parity { value } else { F::default() };
        }
    }

    /// Computes x = D^-1 (r - (A - D) x) in the cells with i % 2 = `parity`. The loop computes the values of all cells,
    /// so that it vectorizes, and discards the values of the cells with the other parity.
    fn relax_row<F: Real>(x: &mut [F], parity: usize, row: RowData<F>) {
        let mut new_values = [F::default(); CHUNK_CELLS];
        for start in (0..x.len()).step_by(CHUNK_CELLS) {
            let n = CHUNK_CELLS.min(x.len() - start);
            let new_values = &mut new_values[..n];
            row.off_diagonal_residuals(new_values, x, start);
            let (x, center) = (&mut x[start..][..n], &row.center[start..][..n]);
            for i in 0..n {
                let value = new_values[i] / center[i];
                x[i] = if i % 2 == parity { value } else { x[i] };
            }
        }
    }

    /// Computes r - A x in the cells start .. start + out.len() of a row.
    fn residual_chunk<F: Real>(out: &mut [F], x: &[F], start: usize, row: RowData<F>) {
        row.off_diagonal_residuals(out, x, start);
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
        let e = F::from_f64(e.to_f64() * scale);
        x.iter_mut().for_each(|x| *x += e);
    }
}

#[cfg(test)]
mod tests;
