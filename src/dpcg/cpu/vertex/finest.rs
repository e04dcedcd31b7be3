//! The finest grid of multigrid with vertex coarsening. One pass over memory executes red-black Gauss-Seidel sweeps and
//! the restriction to the first coarse grid; another pass executes the interpolation and the sweeps after the
//! coarse-grid correction. Rows are stored in two halves, the points in even and those in odd columns (see `layout`).
//! The red cells of a row form one half row, and the black cells the other one.
//!
//! Red cells have an even i + j + k. The sweeps before the correction start from zero and end with the black cells. The
//! residual of black cells is then zero. The residual of a red cell was zero before the last half-sweep. After this
//! half-sweep, the residual of a red cell is therefore the sum of c d over the black neighbours of the cell, where c is
//! the conductance to a neighbour, and d the last change of x there. The sweeps after the correction begin with the
//! black cells and overwrite their values. The correction is therefore added to red cells only.
//!
//! A pass processes the planes in ascending order. In one step, the first colour is updated in plane k, the second
//! colour in plane k - 1, and so on. Each thread has its own copy of a few planes. At both ends of its range of planes,
//! a thread also computes planes of the neighbouring threads. The threads therefore do not wait for each other. A cell
//! that several threads compute gets bitwise identical values from all of them. Between the two passes, only red cells
//! are stored.
//!
//! Memory traffic in single precision: each pass moves 32 bytes per cell, of which 8 are the right-hand side in f64, 12
//! the conductances, 4 the values 1/D, 6 the weights, and 2 the red cells. The second pass also writes z, 8 bytes per
//! cell.

use super::grid::{CoarseRhs, Stencil};
use super::layout::SplitLayout;
use super::loops::{merge_columns, relax, relax_with_change, scale_by_inverse, split_columns, sum_products};
use super::transfer::InterpolationWeights;
use crate::base::loops::dot;
use crate::base::number::Real;
use crate::base::reduce::Reduce;
use crate::base::shared::{Number, Shared};
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::FACE_OFFSETS;
use std::ops::Range;

const RED: usize = 0;
const BLACK: usize = 1;

/// The finest grid.
pub struct FinestGrid<T> {
    pub a: Stencil<T>,
    /// Reciprocal diagonal entries 1 / D.
    pub inverse_diagonal: Shared<T>,
    /// For each half, differences of two indices in `a.c`: the index of the conductance of a point to east, west,
    /// north, south, top or bottom, minus the index of the point.
    conductance_distances: [[isize; 6]; 2],
}

impl<T: Real + Number> FinestGrid<T> {
    pub fn new(cells: Cells) -> Result<Self> {
        let a = Stencil::new(cells, &FACE_OFFSETS)?;
        let inverse_diagonal = Shared::zeroed(a.split.len())?;
        let conductance_distances = [0, 1].map(|half| {
            std::array::from_fn(|t| {
                let opposite_distance =
                    if t % 2 == 1 { a.split.offset_distance(half, FACE_OFFSETS[t / 2].map(|o| -o)) } else { 0 };
                (t / 2 * a.split.len()) as isize + opposite_distance
            })
        });
        Ok(Self { a, inverse_diagonal, conductance_distances })
    }

    /// Returns the array that stores the red cells between the two passes. It uses the memory of the row sums. The red
    /// cells of a row are stored at the indices of the cells in even columns.
    fn red_cells(&self) -> &Shared<T> {
        &self.a.row_sums
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        [&self.a.c, &self.a.row_sums, &self.inverse_diagonal].iter().map(|array| array.bytes()).sum()
    }
}

/// Ring buffer of a few planes of a grid in the layout `SplitLayout`, owned by one thread. Plane k is stored at
/// position k modulo `plane_count`, which is a power of two.
struct PlaneBuffer<T> {
    values: Shared<T>,
    split: SplitLayout,
    plane_count: usize,
}

impl<T: Number> PlaneBuffer<T> {
    /// Allocates at least `plane_count` planes.
    fn new(split: SplitLayout, plane_count: usize) -> Result<Self> {
        let planes = Self { values: Shared::zeroed(0)?, split, plane_count: plane_count.next_power_of_two() };
        Ok(Self { values: Shared::zeroed(2 * planes.plane_count * planes.half_plane_len())?, ..planes })
    }

    /// Returns the number of values of a half plane, including a row of zeros before and after it.
    fn half_plane_len(&self) -> usize {
        self.split.row_stride * (self.split.cells.ny + 2) + 1
    }

    /// Returns the index of the first point of a half row.
    fn row_start(&self, half: usize, j: isize, k: isize) -> usize {
        let slot = k as usize & (self.plane_count - 1);
        (2 * slot + half) * self.half_plane_len() + ((j + 1) as usize) * self.split.row_stride + 1
    }

    /// Returns n values of a half row, starting `leading_values` values before its first point.
    ///
    /// # Safety
    /// The values must not be written while the slice is in use.
    unsafe fn row(&self, half: usize, j: isize, k: isize, leading_values: usize, n: usize) -> &[T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice(self.row_start(half, j, k) - leading_values, n) }
    }

    /// Returns the points of a half row for writing.
    ///
    /// # Safety
    /// The points must not be read or written except through the slice while it is in use.
    #[expect(clippy::mut_from_ref, reason = "rows of one thread, each written while others are read")]
    unsafe fn row_mut(&self, half: usize, j: usize, k: isize) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.values.slice_mut(self.row_start(half, j as isize, k), self.split.row_points(half)) }
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
        unsafe { self.values.slice_mut(self.row_start(0, -1, k) - 1, 2 * self.half_plane_len()) }.fill(T::default());
    }

    fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// Workspace of a thread for its passes.
pub struct PassWorkspace<T> {
    r: PlaneBuffer<T>,
    x: PlaneBuffer<T>,
    /// In black cells, the last change of x; in red cells, the residual. With one sweep, the change is not stored here:
    /// it is x itself, because the sweep starts from zero.
    residual: PlaneBuffer<T>,
    /// Workspace for a row of the first coarse grid.
    coarse_row: Shared<T>,
}

impl<T: Real + Number> PassWorkspace<T> {
    pub fn new(cells: Cells, sweeps: usize) -> Result<Self> {
        let split = SplitLayout::new(cells);
        // After a pass has loaded plane k, it uses r and x down to plane k - 2 `sweeps` - 1, and the residual down to
        // plane k - 2 `sweeps` - 2.
        let plane_buffer = |extra_planes| PlaneBuffer::new(split, 2 * sweeps + extra_planes);
        Ok(Self {
            r: plane_buffer(2)?,
            x: plane_buffer(2)?,
            residual: plane_buffer(3)?,
            coarse_row: Shared::zeroed(cells.nx.div_ceil(2))?,
        })
    }

    /// Returns the workspace for a row of the first coarse grid.
    ///
    /// # Safety
    /// Only the thread that owns this workspace may call this function. Only one returned slice may be in use at a
    /// time.
    #[expect(clippy::mut_from_ref, reason = "of one thread")]
    pub unsafe fn coarse_row(&self) -> &mut [T] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.coarse_row.slice_mut(0, self.coarse_row.len()) }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.r.bytes() + self.x.bytes() + self.residual.bytes() + self.coarse_row.bytes()
    }
}

/// The passes of one thread. The passes multiply the right-hand side `r` by `scale`.
pub struct Passes<'a, T> {
    pub finest: &'a FinestGrid<T>,
    /// Weights of the interpolation from the first coarse grid.
    pub weights: &'a InterpolationWeights<T>,
    pub workspace: &'a PassWorkspace<T>,
    pub sweeps: usize,
    pub r: &'a [f64],
    pub scale: f64,
}

impl<T: Real + Number> Passes<'_, T> {
    fn split(&self) -> &SplitLayout {
        &self.finest.a.split
    }

    /// Returns whether plane k is inside the grid.
    fn has_plane(&self, k: isize) -> bool {
        (0..self.split().cells.nz as isize).contains(&k)
    }

    /// Returns the half that contains the cells of a colour in row (j, k).
    fn half_of_colour(j: usize, k: isize, colour: usize) -> usize {
        (j + k as usize + colour) % 2
    }

    /// Loads plane k of the right-hand side. If plane k is outside the grid, sets x and the residual in this plane to
    /// zero instead.
    fn load_plane(&self, k: isize) {
        let (workspace, Cells { nx, ny, .. }) = (self.workspace, self.split().cells);
        if !self.has_plane(k) {
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
            unsafe { split_columns(workspace.r.row_mut(0, j, k), workspace.r.row_mut(1, j, k), row, self.scale) };
        }
    }

    /// Executes the first half-sweep, from x = 0, on the red cells of plane k.
    fn first_half_sweep(&self, k: isize) {
        if !self.has_plane(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let half = Self::half_of_colour(j, k, RED);
            let (start, n) = (self.split().row_start(half, j as isize, k), self.split().row_points(half));
            // SAFETY: the row belongs to this thread; no thread writes 1/D.
            unsafe {
                let r = self.workspace.r.row(half, j as isize, k, 0, n);
                scale_by_inverse(self.workspace.x.row_mut(half, j, k), r, self.finest.inverse_diagonal.slice(start, n));
            }
        }
    }

    /// Returns the conductances of the points of a half row to their neighbours to east, west, north, south, top and
    /// bottom.
    fn conductances(&self, half: usize, range: &Range<usize>) -> [&[T]; 6] {
        // SAFETY: no thread writes the matrix during a cycle.
        let c = |step| unsafe { self.finest.a.c.slice(range.start.wrapping_add_signed(step), range.len()) };
        self.finest.conductance_distances[half].map(c)
    }

    /// Returns the values at the neighbours of the points of a half row, in the order of `conductances`.
    ///
    /// # Safety
    /// The values must not be written while the slices are in use.
    unsafe fn neighbour_values(values: &PlaneBuffer<T>, half: usize, j: usize, k: isize, n: usize) -> [&[T]; 6] {
        let (other_half, j) = (1 - half, j as isize);
        // SAFETY: guaranteed by the caller.
        unsafe {
            // The east neighbour of an odd column is the next even column.
            let adjacent_columns = values.row(other_half, j, k, other_half, n + 1);
            [
                &adjacent_columns[1..],
                &adjacent_columns[..n],
                values.row(half, j + 1, k, 0, n),
                values.row(half, j - 1, k, 0, n),
                values.row(half, j, k + 1, 0, n),
                values.row(half, j, k - 1, 0, n),
            ]
        }
    }

    /// Calls `f` for each half row of a colour in plane k, with the row j, the half, the indices of its points, and
    /// their conductances.
    fn for_each_row(&self, k: isize, colour: usize, mut f: impl FnMut(usize, usize, Range<usize>, &[&[T]; 6])) {
        if !self.has_plane(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let half = Self::half_of_colour(j, k, colour);
            let start = self.split().row_start(half, j as isize, k);
            let range = start..start + self.split().row_points(half);
            f(j, half, range.clone(), &self.conductances(half, &range));
        }
    }

    /// Updates the cells of a colour in plane k. With `store_change`, also stores the change of x in these cells.
    fn relax_plane(&self, k: isize, colour: usize, store_change: bool) {
        let workspace = self.workspace;
        self.for_each_row(k, colour, |j, half, range, c| {
            // SAFETY: the code writes a half row of this thread, and reads half rows of the other colour.
            unsafe {
                let r = workspace.r.row(half, j as isize, k, 0, range.len());
                let neighbour_values = Self::neighbour_values(&workspace.x, half, j, k, range.len());
                let (x, inverse_diagonal) =
                    (workspace.x.row_mut(half, j, k), self.finest.inverse_diagonal.slice(range.start, range.len()));
                if store_change {
                    relax_with_change(
                        x,
                        workspace.residual.row_mut(half, j, k),
                        r,
                        inverse_diagonal,
                        c,
                        &neighbour_values,
                    );
                } else {
                    relax(x, r, inverse_diagonal, c, &neighbour_values);
                }
            }
        });
    }

    /// Computes the residual at the red cells of plane k.
    fn compute_residual(&self, k: isize) {
        let workspace = self.workspace;
        let change = if self.sweeps == 1 { &workspace.x } else { &workspace.residual };
        self.for_each_row(k, RED, |j, half, range, c| {
            // SAFETY: the code writes red cells and reads black cells.
            unsafe {
                sum_products(
                    workspace.residual.row_mut(half, j, k),
                    c,
                    &Self::neighbour_values(change, half, j, k, range.len()),
                )
            };
        });
    }

    /// Executes the sweeps from zero, and restricts the residual to the first coarse grid.
    pub fn descend(&self, thread: TeamThread, coarse_rhs: &CoarseRhs<T>) {
        let coarse_planes = thread.share(coarse_rhs.split.cells.nz);
        if coarse_planes.is_empty() {
            return;
        }
        // `own_planes` are the planes of this thread. If z is coarsened, the restriction also reads the residual in the
        // plane before them.
        let (z_ratio, pass_depth) = (self.weights.coarsening_ratio[2], 2 * self.sweeps as isize);
        let own_planes = (z_ratio * coarse_planes.start) as isize..(z_ratio * coarse_planes.end) as isize;
        for k in own_planes.start + 1 - z_ratio as isize - pass_depth..own_planes.end + pass_depth {
            self.load_plane(k);
            self.first_half_sweep(k);
            self.relax_plane(k - 1, BLACK, false);
            if self.sweeps > 1 {
                self.relax_plane(k - 2, RED, false);
                self.relax_plane(k - 3, BLACK, true);
            }
            let red_plane = k - pass_depth + 2;
            if own_planes.contains(&red_plane) {
                self.store_red(red_plane);
            }
            let residual_plane = k - pass_depth;
            self.compute_residual(residual_plane);
            // The last plane that the restriction to coarse plane K reads is plane 2 K + 1, or plane K if z is not
            // coarsened.
            if own_planes.contains(&residual_plane) && (residual_plane as usize + 1).is_multiple_of(z_ratio) {
                self.restrict_plane(coarse_rhs, residual_plane as usize / z_ratio);
            }
        }
    }

    /// Restricts the residual to coarse plane k.
    fn restrict_plane(&self, coarse_rhs: &CoarseRhs<T>, k: usize) {
        let (residual, n) = (&self.workspace.residual, self.split().row_stride + 1);
        for j in 0..coarse_rhs.split.cells.ny {
            let fine_row = |half: usize, j: isize, k: isize| {
                let is_red = (half as isize + j + k) % 2 == 0;
                // SAFETY: `compute_residual` has written this plane; no row of this plane is being written.
                is_red.then(|| unsafe { residual.row(half, j, k, 1, n) })
            };
            // SAFETY: no thread writes weights; the coarse row belongs to this thread.
            unsafe {
                coarse_rhs.restrict([j, k], self.weights, self.workspace.coarse_row(), fine_row);
            }
        }
    }

    /// Returns the half that contains the red cells of row j in plane k, the index of the first of these cells in
    /// `red_cells`, and the number of these cells.
    fn red_half_row(&self, j: usize, k: isize) -> (usize, usize, usize) {
        let half = Self::half_of_colour(j, k, RED);
        (half, self.split().row_start(0, j as isize, k), self.split().row_points(half))
    }

    /// Stores the red cells of plane k for the second pass.
    fn store_red(&self, k: isize) {
        if !self.has_plane(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let (half, start, n) = self.red_half_row(j, k);
            // SAFETY: the plane belongs to this thread, and no other thread reads it in this pass.
            unsafe {
                self.finest
                    .red_cells()
                    .slice_mut(start, n)
                    .copy_from_slice(self.workspace.x.row(half, j as isize, k, 0, n))
            };
        }
    }

    /// Loads the stored red cells of plane k, and adds the correction.
    fn add_correction(&self, k: isize, correction: &Shared<T>) {
        if !self.has_plane(k) {
            return;
        }
        for j in 0..self.split().cells.ny {
            let (half, start, n) = self.red_half_row(j, k);
            // SAFETY: the row belongs to this thread; no thread writes the stored red cells, the weights or the
            // correction.
            unsafe {
                let x = self.workspace.x.row_mut(half, j, k);
                x.copy_from_slice(self.finest.red_cells().slice(start, n));
                let rows = if half == 0 { [Some(x), None] } else { [None, Some(x)] };
                self.weights.prolong(rows, j, k as usize, correction);
            }
        }
    }

    /// Adds the correction, and executes the sweeps. Stores z = `x_factor` times x in the planes of this thread, and
    /// the partial sums of <r, z>.
    pub fn ascend<'z>(
        &self,
        thread: TeamThread,
        correction: &Shared<T>,
        x_factor: f64,
        z: impl Fn(Range<usize>) -> &'z mut [f64],
        partial_products: &Reduce<1>,
    ) {
        let own_planes = thread.share(self.split().cells.nz);
        if own_planes.is_empty() {
            return;
        }
        let pass_depth = 2 * self.sweeps as isize;
        for k in own_planes.start as isize - pass_depth..own_planes.end as isize + pass_depth {
            self.load_plane(k);
            self.add_correction(k, correction);
            for sweep in 0..self.sweeps as isize {
                self.relax_plane(k - 2 * sweep - 1, BLACK, false);
                self.relax_plane(k - 2 * sweep - 2, RED, false);
            }
            let complete_plane = k - pass_depth;
            if complete_plane >= own_planes.start as isize {
                let product = self.store_plane(complete_plane, x_factor, &z);
                // SAFETY: the plane belongs to this thread.
                unsafe { partial_products.store(complete_plane as usize, [product]) };
            }
        }
    }

    /// Stores plane k in z, and returns its contribution to <r, z>.
    fn store_plane<'z>(&self, k: isize, x_factor: f64, z: &impl Fn(Range<usize>) -> &'z mut [f64]) -> f64 {
        let Cells { nx, ny, .. } = self.split().cells;
        let mut product = 0.0;
        for j in 0..ny {
            let start = (k as usize * ny + j) * nx;
            let z = z(start..start + nx);
            // SAFETY: the row belongs to this thread.
            unsafe {
                let half_row = |half| self.workspace.x.row(half, j as isize, k, 0, self.split().row_points(half));
                merge_columns(z, half_row(0), half_row(1), x_factor);
            }
            product += dot(&self.r[start..][..nx], z);
        }
        product
    }
}
