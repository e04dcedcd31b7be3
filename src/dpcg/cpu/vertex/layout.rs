//! Two array layouts: that of a grid (`Split`) and that of its coarse points (`Coarse`). Also constants of vertex
//! coarsening.
//!
//! `Split` is ordered by the parity of the column: all points in even columns are stored first (half 0), then all
//! points in odd columns (half 1). Each half is stored row by row. In a row, the points of one red-black colour are
//! then consecutive, and so are the coarse points, and the points between coarse points. The neighbours of consecutive
//! points of one half are also consecutive.
//!
//! At least one zero follows each half row. It represents the points outside the grid next to the last point of this
//! row, and next to the first point of the next row. A row of zeros separates planes. A plane of zeros precedes and
//! follows the grid.

use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::Offset;

/// Name of the memory in error messages about failed allocations.
pub const HIERARCHY: &str = "the grids of multigrid";

/// A row sum of at most this fraction of the diagonal counts as zero: it is a rounding error of single precision.
pub const ZERO_ROW_SUM: f64 = 1e-6;

/// Damping factor of the Jacobi smoother.
pub const DAMPING: f64 = 0.8;

/// Index arithmetic of the split layout.
#[derive(Clone, Copy)]
pub struct Split {
    pub cells: Cells,
    /// Distance between half rows.
    pub row: usize,
    /// Distance between half planes.
    pub plane: usize,
    /// Distance from the even half to the odd half.
    pub half: usize,
}

impl Split {
    pub fn new(cells: Cells) -> Self {
        let row = cells.nx.div_ceil(2) + 1;
        let plane = row * (cells.ny + 1);
        Self { cells, row, plane, half: plane * (cells.nz + 2) + row }
    }

    /// Returns the number of values of an array in this layout.
    pub fn len(&self) -> usize {
        2 * self.half
    }

    /// Returns the number of points in a half row.
    pub fn points(&self, half: usize) -> usize {
        (self.cells.nx + 1 - half) / 2
    }

    /// Returns the index of the first point of a half row. Rows -1 and ny and planes -1 and nz contain zeros.
    pub fn at(&self, half: usize, j: isize, k: isize) -> usize {
        let origin = (half * self.half + self.plane + self.row) as isize;
        (origin + k * self.plane as isize + j * self.row as isize) as usize
    }

    /// Returns the index of a point.
    pub fn point(&self, [i, j, k]: [usize; 3]) -> usize {
        self.at(i % 2, j as isize, k as isize) + i / 2
    }

    /// Returns the index range of a half plane with consecutive rows, including the zeros between them.
    pub fn half_plane(&self, half: usize, k: usize) -> std::ops::Range<usize> {
        let start = self.at(half, 0, k as isize);
        start..start + self.cells.ny * self.row - 1
    }

    /// Returns the distance from a point in `half` to its neighbour at an offset.
    pub fn step(&self, half: usize, offset: Offset) -> isize {
        let [x, y, z] = offset;
        let along = match (half, x) {
            (_, 0) => 0,
            (0, x) => self.half as isize - isize::from(x < 0),
            (_, x) => isize::from(x > 0) - self.half as isize,
        };
        along + y * self.row as isize + z * self.plane as isize
    }
}

/// Index arithmetic of arrays of coarse points. If the fine grid is coarsened in x, the points are in natural order,
/// and there is only half 0. Otherwise, they are split by the parity of the column, like the points of the fine grid.
/// Zeros follow the values: one zero after each half row, a row of zeros after each half plane, and a plane of zeros
/// after each half.
#[derive(Clone, Copy)]
pub struct Coarse {
    pub cells: Cells,
    pub row: usize,
    /// Distance between the halves; 0 in natural order.
    pub half: usize,
}

impl Coarse {
    pub fn new(cells: Cells, is_split: bool) -> Self {
        let row = if is_split { cells.nx.div_ceil(2) } else { cells.nx } + 1;
        Self { cells, row, half: if is_split { row * (cells.ny + 1) * (cells.nz + 1) } else { 0 } }
    }

    /// Returns the number of values of an array in this layout.
    pub fn len(&self) -> usize {
        self.half + self.row * (self.cells.ny + 1) * (self.cells.nz + 1)
    }

    /// Returns whether the points are split by the parity of the column.
    pub fn is_split(&self) -> bool {
        self.half > 0
    }

    /// Returns the number of points in a half row.
    pub fn points(&self, half: usize) -> usize {
        if self.is_split() { (self.cells.nx + 1 - half) / 2 } else { self.cells.nx }
    }

    /// Returns the index of a point.
    pub fn point(&self, [i, j, k]: [usize; 3]) -> usize {
        if self.is_split() { self.at(i % 2, j, k) + i / 2 } else { self.at(0, j, k) + i }
    }

    /// Returns the index of the first point of a half row.
    pub fn at(&self, half: usize, j: usize, k: usize) -> usize {
        half * self.half + (k * (self.cells.ny + 1) + j) * self.row
    }
}

/// A row of cells of the caller's matrix.
pub struct CallerRow<'a> {
    pub center: &'a [f64],
    /// Entries between neighbours in the row.
    pub along: &'a [f64],
    /// Entries to the adjacent rows in y and in z; `None` outside the box.
    pub across: [[Option<&'a [f64]>; 2]; 2],
}

impl<'a> CallerRow<'a> {
    /// Selects row j of plane k.
    pub fn new(a: &SevenPoints<'a>, j: usize, k: usize) -> Self {
        let Cells { nx, ny, nz } = a.cells;
        let row = |entries: &'a [f64], j: usize, k: usize| &entries[(k * ny + j) * nx..][..nx];
        let [east, north, top] = a.forward;
        let in_y = [(j > 0).then(|| row(north, j - 1, k)), (j + 1 < ny).then(|| row(north, j, k))];
        let in_z = [(k > 0).then(|| row(top, j, k - 1)), (k + 1 < nz).then(|| row(top, j, k))];
        Self { center: row(a.center, j, k), along: &row(east, j, k)[..nx - 1], across: [in_y, in_z] }
    }
}
