//! Where the numbers of a grid lie: split by the parity of their column, with zeros around, or in natural order.
//!
//! *Split*: first all points of even column, then all of odd column, each half row by row. Red-black colours of a row,
//! and the points of a row that are coarse or lie between coarse ones, are then consecutive, and so are the neighbours
//! of points of one half. Behind each half row stands one zero at least: the neighbour of its last point, and, since
//! rows follow each other, of the first point of the next row; a row of zeros stands between planes, a plane of zeros
//! before and after all.

use crate::grid::cells::{Cells, SevenPoints};

/// From a point to another one, by direction.
pub type Offset = [isize; 3];

/// A split grid.
#[derive(Clone, Copy)]
pub struct Split {
    pub cells: Cells,
    /// From a half row to the next one.
    pub row: usize,
    /// From a plane to the next one.
    pub plane: usize,
    /// From the even half to the odd one.
    pub half: usize,
}

impl Split {
    pub fn new(cells: Cells) -> Self {
        let row = cells.nx.div_ceil(2) + 1;
        let plane = row * (cells.ny + 1);
        Self { cells, row, plane, half: plane * (cells.nz + 2) + row }
    }

    /// Values of an array.
    pub fn len(&self) -> usize {
        2 * self.half
    }

    /// Points in a half row.
    pub fn points(&self, half: usize) -> usize {
        (self.cells.nx + 1 - half) / 2
    }

    /// Place of the first point of a half row; rows -1 and ny, planes -1 and nz are zeros.
    pub fn at(&self, half: usize, j: isize, k: isize) -> usize {
        let place = (half * self.half + self.plane + self.row) as isize;
        (place + k * self.plane as isize + j * self.row as isize) as usize
    }

    /// Of a half plane, guards within it included: its rows follow each other.
    pub fn half_plane(&self, half: usize, k: usize) -> std::ops::Range<usize> {
        let start = self.at(half, 0, k as isize);
        start..start + self.cells.ny * self.row - 1
    }

    /// From a point in `half` to its neighbour at an offset.
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

/// A grid in natural order, a zero behind each row, a row of zeros behind each plane and a plane of zeros behind all.
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

    /// Values of an array.
    pub fn len(&self) -> usize {
        self.plane * (self.cells.nz + 1)
    }

    /// Place of the first point of a row.
    pub fn at(&self, j: usize, k: usize) -> usize {
        k * self.plane + j * self.row
    }
}

/// The grid of every second point.
pub fn coarse(cells: Cells) -> Cells {
    Cells { nx: cells.nx.div_ceil(2), ny: cells.ny.div_ceil(2), nz: cells.nz.div_ceil(2) }
}

/// A row of a matrix as the caller has it.
pub struct CallerRow<'a> {
    pub center: &'a [f64],
    /// Entries between its cells.
    pub along: &'a [f64],
    /// Those to the rows beside it in y and in z, where those are there.
    pub across: [[Option<&'a [f64]>; 2]; 2],
}

impl<'a> CallerRow<'a> {
    /// Row j of plane k.
    pub fn new(a: &SevenPoints<'a>, j: usize, k: usize) -> Self {
        let Cells { nx, ny, nz } = a.cells;
        let row = |entries: &'a [f64], j: usize, k: usize| &entries[(k * ny + j) * nx..][..nx];
        let [east, north, top] = a.forward;
        let in_y = [(j > 0).then(|| row(north, j - 1, k)), (j + 1 < ny).then(|| row(north, j, k))];
        let in_z = [(k > 0).then(|| row(top, j, k - 1)), (k + 1 < nz).then(|| row(top, j, k))];
        Self { center: row(a.center, j, k), along: &row(east, j, k)[..nx - 1], across: [in_y, in_z] }
    }
}
