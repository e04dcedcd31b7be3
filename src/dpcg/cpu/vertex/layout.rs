//! Layouts of arrays with one value per point of a grid (`SplitLayout`), and with one value per coarse point
//! (`CoarseLayout`). Also constants of vertex coarsening.
//!
//! `SplitLayout` is ordered by the parity of the column: all points in even columns are stored first (half 0), then all
//! points in odd columns (half 1). Each half is stored row by row. In a row, the points of one red-black colour are
//! then consecutive. The coarse points are also consecutive, and so are the points between coarse points. The
//! neighbours of consecutive points of one half are also consecutive.
//!
//! At least one zero follows each half row. It represents the points outside the grid next to the last point of this
//! row, and next to the first point of the next row. A row of zeros separates planes. A plane of zeros precedes and
//! follows the grid.

use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::Offset;

/// Name of the memory in error messages about failed allocations.
pub const GRIDS_ALLOCATION: &str = "the grids of multigrid";

/// A row sum of at most this fraction of the diagonal counts as zero: it is a rounding error of single precision.
pub const ZERO_ROW_SUM: f64 = 1e-6;

/// Damping factor of the Jacobi smoother.
pub const DAMPING: f64 = 0.8;

/// Index arithmetic of the split layout.
#[derive(Clone, Copy)]
pub struct SplitLayout {
    pub cells: Cells,
    /// Distance between the first values of successive half rows, in values.
    pub row_stride: usize,
    /// Distance between the first values of successive half planes, in values.
    pub plane_stride: usize,
    /// Distance from a value of the even half to the corresponding value of the odd half, in values.
    pub half_stride: usize,
}

impl SplitLayout {
    pub fn new(cells: Cells) -> Self {
        let row_stride = cells.nx.div_ceil(2) + 1;
        let plane_stride = row_stride * (cells.ny + 1);
        Self { cells, row_stride, plane_stride, half_stride: plane_stride * (cells.nz + 2) + row_stride }
    }

    /// Returns the number of values of an array in this layout.
    pub fn len(&self) -> usize {
        2 * self.half_stride
    }

    /// Returns the number of points in a half row.
    pub fn row_points(&self, half: usize) -> usize {
        (self.cells.nx + 1 - half) / 2
    }

    /// Returns the index of the first point of a half row. Rows -1 and ny and planes -1 and nz contain zeros.
    pub fn row_start(&self, half: usize, j: isize, k: isize) -> usize {
        let origin = (half * self.half_stride + self.plane_stride + self.row_stride) as isize;
        (origin + k * self.plane_stride as isize + j * self.row_stride as isize) as usize
    }

    /// Returns the index of a point.
    pub fn index_of(&self, [i, j, k]: [usize; 3]) -> usize {
        self.row_start(i % 2, j as isize, k as isize) + i / 2
    }

    /// Returns the index range of a half plane. The range contains the half rows and the zeros between them.
    pub fn half_plane(&self, half: usize, k: usize) -> std::ops::Range<usize> {
        let start = self.row_start(half, 0, k as isize);
        start..start + self.cells.ny * self.row_stride - 1
    }

    /// Returns the index of the neighbour at `offset` minus the index of the point, for a point in `half`.
    pub fn offset_distance(&self, half: usize, offset: Offset) -> isize {
        let [x, y, z] = offset;
        let x_distance = match (half, x) {
            (_, 0) => 0,
            (0, x) => self.half_stride as isize - isize::from(x < 0),
            (_, x) => isize::from(x > 0) - self.half_stride as isize,
        };
        x_distance + y * self.row_stride as isize + z * self.plane_stride as isize
    }
}

/// Index arithmetic of arrays of coarse points. If the fine grid is coarsened in x, the coarse points are in natural
/// order, and there is only half 0. Otherwise, they are split by the parity of the column, like the points of the fine
/// grid. Zeros follow the values: one zero after each half row, a row of zeros after each half plane, and a plane of
/// zeros after each half.
#[derive(Clone, Copy)]
pub struct CoarseLayout {
    pub cells: Cells,
    pub row_stride: usize,
    /// Distance between the first values of the two halves, in values; 0 in natural order.
    pub half_stride: usize,
}

impl CoarseLayout {
    pub fn new(cells: Cells, is_split: bool) -> Self {
        let row_stride = if is_split { cells.nx.div_ceil(2) } else { cells.nx } + 1;
        Self { cells, row_stride, half_stride: if is_split { row_stride * (cells.ny + 1) * (cells.nz + 1) } else { 0 } }
    }

    /// Returns the number of values of an array in this layout.
    pub fn len(&self) -> usize {
        self.half_stride + self.row_stride * (self.cells.ny + 1) * (self.cells.nz + 1)
    }

    /// Returns whether the points are split by the parity of the column.
    pub fn is_split(&self) -> bool {
        self.half_stride > 0
    }

    /// Returns the number of points in a half row.
    pub fn row_points(&self, half: usize) -> usize {
        if self.is_split() { (self.cells.nx + 1 - half) / 2 } else { self.cells.nx }
    }

    /// Returns the index of a point.
    pub fn index_of(&self, [i, j, k]: [usize; 3]) -> usize {
        if self.is_split() { self.row_start(i % 2, j, k) + i / 2 } else { self.row_start(0, j, k) + i }
    }

    /// Returns the index of the first point of a half row.
    pub fn row_start(&self, half: usize, j: usize, k: usize) -> usize {
        half * self.half_stride + (k * (self.cells.ny + 1) + j) * self.row_stride
    }
}

/// A row of cells of the caller's matrix.
pub struct CallerRow<'a> {
    pub center: &'a [f64],
    /// Entries between neighbours in this row.
    pub x_entries: &'a [f64],
    /// Entries to the adjacent rows in y and in z; `None` outside the box.
    pub adjacent_entries: [[Option<&'a [f64]>; 2]; 2],
}

impl<'a> CallerRow<'a> {
    /// Selects row j of plane k.
    pub fn new(a: &SevenPoints<'a>, j: usize, k: usize) -> Self {
        let Cells { nx, ny, nz } = a.cells;
        let row_entries = |entries: &'a [f64], j: usize, k: usize| &entries[(k * ny + j) * nx..][..nx];
        let [east, north, top] = a.forward;
        let y_entries = [(j > 0).then(|| row_entries(north, j - 1, k)), (j + 1 < ny).then(|| row_entries(north, j, k))];
        let z_entries = [(k > 0).then(|| row_entries(top, j, k - 1)), (k + 1 < nz).then(|| row_entries(top, j, k))];
        Self {
            center: row_entries(a.center, j, k),
            x_entries: &row_entries(east, j, k)[..nx - 1],
            adjacent_entries: [y_entries, z_entries],
        }
    }
}
