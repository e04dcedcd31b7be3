//! Boxes of cells in 3D, and symmetric 7-point matrices on them.

/// Extents of a box of cells, x fastest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// Cells in x.
    pub nx: usize,
    /// Cells in y.
    pub ny: usize,
    /// Cells in z.
    pub nz: usize,
}

impl Cells {
    /// All of them.
    pub fn count(&self) -> usize {
        self.nx * self.ny * self.nz
    }

    /// Cells of a plane: from (i, j, k) to (i, j, k + 1).
    pub fn plane(&self) -> usize {
        self.nx * self.ny
    }

    /// Extents by direction.
    pub fn size(&self) -> [usize; 3] {
        [self.nx, self.ny, self.nz]
    }

    /// From a cell to the next one in each direction.
    pub fn steps(&self) -> [usize; 3] {
        [1, self.nx, self.plane()]
    }

    /// (i, j, k) of a cell.
    pub fn place(&self, cell: usize) -> [usize; 3] {
        [cell % self.nx, cell / self.nx % self.ny, cell / self.plane()]
    }
}

/// A symmetric 7-point matrix on a box of cells: `count` values in each array, x fastest, no padding.
#[derive(Clone, Copy)]
pub struct SevenPoints<'a> {
    /// Extents.
    pub cells: Cells,
    /// Diagonal, positive.
    pub center: &'a [f64],
    /// Entries between (i, j, k) and (i + 1, j, k), (i, j + 1, k), (i, j, k + 1); zero where those leave the box.
    pub forward: [&'a [f64]; 3],
}
