//! Array layouts of a grid: split by the parity of the column, or in natural order.
//!
//! *Split*: all points of even column are stored first, then all points of odd column, each half row by row. The points
//! of one red-black colour in a row are then consecutive. So are the coarse points of a row, the points between coarse
//! points, and the neighbours of consecutive points of one half.
//!
//! At least one zero follows each half row. It is the neighbour of the last point of this row and of the first point of
//! the next row. A row of zeros separates planes. A plane of zeros precedes and follows the grid.

use crate::grid::cells::{Cells, SevenPoints};

/// Difference of indices (i, j, k) between two points.
pub type Offset = [isize; 3];

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

    /// Returns the length of an array.
    pub fn len(&self) -> usize {
        2 * self.half
    }

    /// Returns the number of points in a half row.
    pub fn points(&self, half: usize) -> usize {
        (self.cells.nx + 1 - half) / 2
    }

    /// Returns the index of the first point of a half row. Rows -1 and ny and planes -1 and nz contain zeros.
    pub fn at(&self, half: usize, j: isize, k: isize) -> usize {
        let place = (half * self.half + self.plane + self.row) as isize;
        (place + k * self.plane as isize + j * self.row as isize) as usize
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

/// Index arithmetic of the natural order. A zero follows each row, a row of zeros each plane, and a plane of zeros the
/// grid.
#[derive(Clone, Copy)]
pub struct Natural {
    pub cells: Cells,
    pub row: usize,
    pub plane: usize,
}

impl Natural {
    pub fn new(cells: Cells) -> Self {
        let row = cells.nx + 1;
        Self { cells, row, plane: row * (cells.ny + 1) }
    }

    /// Returns the length of an array.
    pub fn len(&self) -> usize {
        self.plane * (self.cells.nz + 1)
    }

    /// Returns the index of the first point of a row.
    pub fn at(&self, j: usize, k: usize) -> usize {
        k * self.plane + j * self.row
    }
}

/// Returns the grid that has every second point in each direction, beginning with the first.
pub fn coarse(cells: Cells) -> Cells {
    Cells { nx: cells.nx.div_ceil(2), ny: cells.ny.div_ceil(2), nz: cells.nz.div_ceil(2) }
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
