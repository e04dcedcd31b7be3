//! The finest grid of multigrid with vertex coarsening. One pass over memory executes red-black Gauss-Seidel sweeps and
//! the restriction to the first coarse grid; another pass executes the interpolation and the sweeps after the
//! coarse-grid correction. Rows are stored in two halves, the points in even and those in odd columns (see `layout`).
//! The red cells of a row form one half row, and the black cells the other one.
//!
//! Red cells have an even i + j + k. The sweeps before the correction start from zero and end with the black cells. The
//! residual of black cells is then zero. The residual of a red cell was zero before the last half-sweep. It is
//! therefore the sum of c d over the black neighbours of the cell, where c is the conductance to a neighbour, and d the
//! last change of x there. The sweeps after the correction begin with the black cells and overwrite their values. The
//! correction is therefore added to red cells only.
//!
//! A pass processes the planes in ascending order. In one step, the first colour is updated in plane k, the second
//! colour in plane k - 1, and so on. Each thread has its own copy of a few planes, including planes of its neighbours
//! at both ends of its range. The threads therefore do not wait for each other. A cell that several threads compute
//! gets bitwise identical values from all of them. Between the two passes, only red cells are stored.
//!
//! Memory traffic in single precision: each pass moves 32 bytes per cell, of which 8 are the right-hand side in f64, 12
//! the conductances, 4 the values 1/D, 6 the weights, and 2 the red cells. The second pass also writes z, 8 bytes per
//! cell.

use super::grid::{Below, Stencil};
use super::layout::Split;
use super::loops::{gather, merge, relax, relax_with_change, scale_by_inverse, split};
use super::transfer::Weights;
use crate::base::loops::dot;
use crate::base::number::Real;
use crate::base::reduce::Reduce;
use crate::base::shared::{Number, Shared};
use crate::base::team::Me;
use crate::error::Result;
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::FACES;
use std::ops::Range;

const RED: usize = 0;
const BLACK: usize = 1;

/// The finest grid.
pub struct Finest<T> {
    pub a: Stencil<T>,
    /// Reciprocal diagonal entries 1 / D.
    pub inverse: Shared<T>,
    /// For each half, the distances in memory from a point to its conductances to east, west, north, south, top and
    /// bottom.
    beside: [[isize; 6]; 2],
}

impl<T: Real + Number> Finest<T> {
    pub fn new(cells: Cells) -> Result<Self> {
        let a = Stencil::new(cells, &FACES)?;
        let inverse = Shared::zeroed(a.split.len())?;
        let beside = [0, 1].map(|half| {
            std::array::from_fn(|t| {
                let back = if t % 2 == 1 { a.split.step(half, FACES[t / 2].map(|o| -o)) } else { 0 };
                (t / 2 * a.split.len()) as isize + back
            })
        });
        Ok(Self { a, inverse, beside })
    }

    /// Returns the array that stores the red cells between the two passes. It uses the memory of the row sums. The red
    /// cells of a row are stored at the indices of its even cells.
    fn red(&self) -> &Shared<T> {
        &self.a.excess
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        [&self.a.c, &self.a.excess, &self.inverse].iter().map(|array| array.bytes()).sum()
    }
}

/// A few planes of a grid in the layout `Split`, owned by one thread. Plane k is stored in slot k modulo `count`, a
/// power of two.
struct Planes<T> {
    values: Shared<T>,
    split: Split,
    count: usize,
}

impl<T: Number> Planes<T> {
    /// Allocates at least `count` planes.
    fn new(split: Split, count: usize) -> Result<Self> {
        let planes = Self { values: Shared::zeroed(0)?, split, count: count.next_power_of_two() };
        Ok(Self { values: Shared::zeroed(2 * planes.count * planes.half())?, ..planes })
    }

    /// Returns the size of a half plane, including a row of zeros before and after it.
    fn half(&self) -> usize {
        self.split.row * (self.split.cells.ny + 2) + 1
    }

    /// Returns the index of the first point of a half row.
    fn at(&self, half: usize, j: isize, k: isize) -> usize {
        let slot = k as usize & (self.count - 1);
        (2 * slot + half) * self.half() + ((j + 1) as usize) * self.split.row + 1
    }

    /// Returns n values of a half row, starting `before` values before its first point.
    ///
    /// # Safety
    /// The values must not be written while the slice is in use.
    unsafe fn row(&self, half: usize, j: isize, k: isize, before: usize, n: usize) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice(self.at(half, j, k) - before, n) }
    }

    /// Returns the points of a half row for writing.
    ///
    /// # Safety
    /// The points must not be read or written except through the slice while it is in use.
    #[expect(clippy::mut_from_ref, reason = "rows of one thread, each written while others are read")]
    unsafe fn row_mut(&self, half: usize, j: usize, k: isize) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice_mut(self.at(half, j as isize, k), self.split.points(half)) }
    }

    /// Sets plane k to zero.
    ///
    /// # Safety
    /// No slice of the plane may be in use.
    unsafe fn clear(&self, k: isize)
    where
        T: Default,
    {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice_mut(self.at(0, -1, k) - 1, 2 * self.half()) }.fill(T::default());
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Workspace of a thread for its passes.
pub struct PassWorkspace<T> {
    r: Planes<T>,
    x: Planes<T>,
    /// In black cells, the last change of x; in red cells, the residual. With one sweep, the change is not stored here:
    /// it is x itself, because the sweep starts from zero.
    residual: Planes<T>,
    /// Workspace for a row of the first coarse grid.
    row: Shared<T>,
}

impl<T: Real + Number> PassWorkspace<T> {
    pub fn new(cells: Cells, sweeps: usize) -> Result<Self> {
        let split = Split::new(cells);
        // In a step of a pass, r and x are used from the plane that is loaded down to the plane below that of the last
        // half-sweep. The residual is used down to the plane below a coarse plane.
        let planes = |more| Planes::new(split, 2 * sweeps + more);
        Ok(Self { r: planes(2)?, x: planes(2)?, residual: planes(3)?, row: Shared::zeroed(cells.nx.div_ceil(2))? })
    }

    /// Returns the row of the first coarse grid, as workspace.
    ///
    /// # Safety
    /// Only the thread that owns this workspace may call this function. Only one slice that it returns may be in use.
    #[expect(clippy::mut_from_ref, reason = "of one thread")]
    pub unsafe fn row(&self) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.row.slice_mut(0, self.row.len()) }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.r.bytes() + self.x.bytes() + self.residual.bytes() + self.row.bytes()
    }
}

/// The passes of one thread. They multiply the right-hand side `r` by `scale`.
pub struct Passes<'a, T> {
    pub finest: &'a Finest<T>,
    /// Weights of the interpolation from the first coarse grid.
    pub weights: &'a Weights<T>,
    pub workspace: &'a PassWorkspace<T>,
    pub sweeps: usize,
    pub r: &'a [f64],
    pub scale: f64,
}

impl<T: Real + Number> Passes<'_, T> {
    fn split(&self) -> &Split {
        &self.finest.a.split
    }

    /// Returns whether plane k is inside the grid.
    fn has(&self, k: isize) -> bool {
        (0..self.split().cells.nz as isize).contains(&k)
    }

    /// Returns the half that contains the cells of a colour in row (j, k).
    fn half(j: usize, k: isize, colour: usize) -> usize {
        (j + k as usize + colour) % 2
    }

    /// Loads plane k of the right-hand side. If plane k is outside the grid, sets x and the residual in it to zero
    /// instead.
    fn load(&self, k: isize) {
        let (workspace, Cells { nx, ny, .. }) = (self.workspace, self.split().cells);
        if !self.has(k) {
            // SAFETY: the planes belong to this thread.
            unsafe {
                workspace.x.clear(k);
                workspace.residual.clear(k);
            }
            return;
        }
        for j in 0..ny {
            let row = &self.r[(k as usize * ny + j) * nx..][..nx];
            // SAFETY: the row belongs to this thread.
            unsafe { split(workspace.r.row_mut(0, j, k), workspace.r.row_mut(1, j, k), row, self.scale) };
        }
    }

    /// Executes the first half-sweep, from x = 0, on the red cells of plane k.
    fn first(&self, k: isize) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let half = Self::half(j, k, RED);
            let (start, n) = (self.split().at(half, j as isize, k), self.split().points(half));
            // SAFETY: the row belongs to this thread; no thread writes 1/D.
            unsafe {
                let r = self.workspace.r.row(half, j as isize, k, 0, n);
                scale_by_inverse(self.workspace.x.row_mut(half, j, k), r, self.finest.inverse.slice(start, n));
            }
        }
    }

    /// Returns the conductances of the points of a half row to their neighbours to east, west, north, south, top and
    /// bottom.
    fn conductances(&self, half: usize, range: &Range<usize>) -> [&[T]; 6] {
        // SAFETY: no thread writes the matrix during a cycle.
        let c = |step| unsafe { self.finest.a.c.slice(range.start.wrapping_add_signed(step), range.len()) };
        self.finest.beside[half].map(c)
    }

    /// Returns the values at the neighbours of the points of a half row, in the order of `conductances`.
    ///
    /// # Safety
    /// The values must not be written while the slices are in use.
    unsafe fn near(values: &Planes<T>, half: usize, j: usize, k: isize, n: usize) -> [&[T]; 6] {
        let (other, j) = (1 - half, j as isize);
        // SAFETY: guaranteed by the caller.
        unsafe {
            // The east neighbour of an odd column is the next even column.
            let beside = values.row(other, j, k, other, n + 1);
            [
                &beside[1..],
                &beside[..n],
                values.row(half, j + 1, k, 0, n),
                values.row(half, j - 1, k, 0, n),
                values.row(half, j, k + 1, 0, n),
                values.row(half, j, k - 1, 0, n),
            ]
        }
    }

    /// Calls `f` for each half row of a colour in plane k, with the row j, the half, the indices of its points, and
    /// their conductances.
    fn each_row(&self, k: isize, colour: usize, mut f: impl FnMut(usize, usize, Range<usize>, &[&[T]; 6])) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let half = Self::half(j, k, colour);
            let start = self.split().at(half, j as isize, k);
            let range = start..start + self.split().points(half);
            f(j, half, range.clone(), &self.conductances(half, &range));
        }
    }

    /// Updates the cells of a colour in plane k. With `store_change`, also stores their change.
    fn relax(&self, k: isize, colour: usize, store_change: bool) {
        let workspace = self.workspace;
        self.each_row(k, colour, |j, half, range, c| {
            // SAFETY: the code writes a half row of this thread, and reads half rows of the other colour.
            unsafe {
                let r = workspace.r.row(half, j as isize, k, 0, range.len());
                let near = Self::near(&workspace.x, half, j, k, range.len());
                let (x, inverse) =
                    (workspace.x.row_mut(half, j, k), self.finest.inverse.slice(range.start, range.len()));
                if store_change {
                    relax_with_change(x, workspace.residual.row_mut(half, j, k), r, inverse, c, &near);
                } else {
                    relax(x, r, inverse, c, &near);
                }
            }
        });
    }

    /// Computes the residual at the red cells of plane k.
    fn residual(&self, k: isize) {
        let workspace = self.workspace;
        let change = if self.sweeps == 1 { &workspace.x } else { &workspace.residual };
        self.each_row(k, RED, |j, half, range, c| {
            // SAFETY: the code writes red cells and reads black cells.
            unsafe { gather(workspace.residual.row_mut(half, j, k), c, &Self::near(change, half, j, k, range.len())) };
        });
    }

    /// Executes the sweeps from zero, and restricts the residual to the first coarse grid.
    pub fn descend(&self, me: Me, next: &Below<T>) {
        let share = me.share(next.split.cells.nz);
        if share.is_empty() {
            return;
        }
        // `own` are the planes of this thread. If z is coarsened, the restriction also reads the residual in the plane
        // before them.
        let (ratio, reach) = (self.weights.ratio[2], 2 * self.sweeps as isize);
        let own = (ratio * share.start) as isize..(ratio * share.end) as isize;
        for k in own.start + 1 - ratio as isize - reach..own.end + reach {
            self.load(k);
            self.first(k);
            self.relax(k - 1, BLACK, false);
            if self.sweeps > 1 {
                self.relax(k - 2, RED, false);
                self.relax(k - 3, BLACK, true);
            }
            let red = k - reach + 2;
            if own.contains(&red) {
                self.store_red(red);
            }
            let last = k - reach;
            self.residual(last);
            // The last plane that the restriction to coarse plane K reads is plane 2 K + 1, or plane K if z is not
            // coarsened.
            if own.contains(&last) && (last as usize + 1).is_multiple_of(ratio) {
                self.restrict(next, last as usize / ratio);
            }
        }
    }

    /// Restricts the residual to coarse plane k.
    fn restrict(&self, next: &Below<T>, k: usize) {
        let (residual, n) = (&self.workspace.residual, self.split().row + 1);
        for j in 0..next.split.cells.ny {
            let fine = |half: usize, j: isize, k: isize| {
                let red = (half as isize + j + k) % 2 == 0;
                // SAFETY: `residual` wrote this plane before; no row of it is being written.
                red.then(|| unsafe { residual.row(half, j, k, 1, n) })
            };
            // SAFETY: no thread writes weights; the coarse row belongs to this thread.
            unsafe {
                next.restrict([j, k], self.weights, self.workspace.row(), fine);
            }
        }
    }

    /// Returns, for row j of plane k, the half that contains the red cells, the index at which they are stored between
    /// the passes, and their number.
    fn red_of(&self, j: usize, k: isize) -> (usize, usize, usize) {
        let half = Self::half(j, k, RED);
        (half, self.split().at(0, j as isize, k), self.split().points(half))
    }

    /// Stores the red cells of plane k for the second pass.
    fn store_red(&self, k: isize) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let (half, at, n) = self.red_of(j, k);
            // SAFETY: the plane belongs to this thread, and no other thread reads it in this pass.
            unsafe {
                self.finest.red().slice_mut(at, n).copy_from_slice(self.workspace.x.row(half, j as isize, k, 0, n))
            };
        }
    }

    /// Loads the stored red cells of plane k, and adds the correction.
    fn correct(&self, k: isize, correction: &Shared<T>) {
        if !self.has(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let (half, at, n) = self.red_of(j, k);
            // SAFETY: the row belongs to this thread; no thread writes the stored red cells, the weights or the
            // correction.
            unsafe {
                let x = self.workspace.x.row_mut(half, j, k);
                x.copy_from_slice(self.finest.red().slice(at, n));
                let rows = if half == 0 { [Some(x), None] } else { [None, Some(x)] };
                self.weights.prolong(rows, j, k as usize, correction);
            }
        }
    }

    /// Adds the correction, and executes the sweeps. Stores z = `back` times x in the planes of this thread, and the
    /// partial sums of <r, z>.
    pub fn ascend<'z>(
        &self,
        me: Me,
        correction: &Shared<T>,
        back: f64,
        z: impl Fn(Range<usize>) -> &'z mut [f64],
        products: &Reduce<1>,
    ) {
        let share = me.share(self.split().cells.nz);
        if share.is_empty() {
            return;
        }
        let reach = 2 * self.sweeps as isize;
        for k in share.start as isize - reach..share.end as isize + reach {
            self.load(k);
            self.correct(k, correction);
            for sweep in 0..self.sweeps as isize {
                self.relax(k - 2 * sweep - 1, BLACK, false);
                self.relax(k - 2 * sweep - 2, RED, false);
            }
            let done = k - reach;
            if done >= share.start as isize {
                let product = self.store_plane(done, back, &z);
                // SAFETY: the plane belongs to this thread.
                unsafe { products.store(done as usize, [product]) };
            }
        }
    }

    /// Stores plane k in z, and returns its contribution to <r, z>.
    fn store_plane<'z>(&self, k: isize, back: f64, z: &impl Fn(Range<usize>) -> &'z mut [f64]) -> f64 {
        let Cells { nx, ny, .. } = self.split().cells;
        let mut product = 0.0;
        for j in 0..ny {
            let start = (k as usize * ny + j) * nx;
            let z = z(start..start + nx);
            // SAFETY: the row belongs to this thread.
            unsafe {
                let row = |half| self.workspace.x.row(half, j as isize, k, 0, self.split().points(half));
                merge(z, row(0), row(1), back);
            }
            product += dot(&self.r[start..][..nx], z);
        }
        product
    }
}
