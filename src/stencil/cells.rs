//! Boxes of cells in 3D, and symmetric 7-point matrices on them: the caller's arrays and the stored copy.

use crate::error::{Result, reset};
use std::ops::Range;

/// Extents of a box of cells, x fastest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cells {
    /// Number of cells in x.
    pub nx: usize,
    /// Number of cells in y.
    pub ny: usize,
    /// Number of cells in z.
    pub nz: usize,
}

impl Cells {
    /// Returns the number of cells.
    pub fn count(&self) -> usize {
        self.nx * self.ny * self.nz
    }

    /// Returns the number of cells of a plane, the distance from (i, j, k) to (i, j, k + 1).
    pub fn plane(&self) -> usize {
        self.nx * self.ny
    }

    /// Returns the number of rows of cells along x.
    pub fn rows(&self) -> usize {
        self.ny * self.nz
    }

    /// Returns the extents by direction.
    pub fn size(&self) -> [usize; 3] {
        [self.nx, self.ny, self.nz]
    }

    /// Returns the distance from a cell to the next cell in each direction.
    pub fn strides(&self) -> [usize; 3] {
        [1, self.nx, self.plane()]
    }

    /// Returns the indices (i, j, k) of a cell.
    pub fn indices(&self, cell: usize) -> [usize; 3] {
        [cell % self.nx, cell / self.nx % self.ny, cell / self.plane()]
    }
}

/// A caller's array. The value of cell (i, j, k) is `a[k * plane + j * ld + i]`.
#[derive(Clone, Copy)]
pub struct CellValues<'a> {
    /// Name for error messages.
    pub name: &'static str,
    data: &'a [f64],
    cells: Cells,
    ld: usize,
    plane: usize,
    device_address: u64,
}

impl<'a> CellValues<'a> {
    /// Wraps an array in host memory; `data` must hold (nz - 1) * plane + (ny - 1) * ld + nx values.
    pub fn new(name: &'static str, data: &'a [f64], cells: Cells, ld: usize, plane: usize) -> Self {
        assert!(ld >= cells.nx && data.len() >= (cells.nz - 1) * plane + (cells.ny - 1) * ld + cells.nx);
        Self { name, data, cells, ld, plane, device_address: 0 }
    }

    /// Wraps an array in device memory, from `address` on. Only a backend on that device may read it.
    pub fn on_device(name: &'static str, address: u64, cells: Cells, ld: usize, plane: usize) -> Self {
        Self { name, data: &[], cells, ld, plane, device_address: address }
    }

    /// Returns `ld` and `plane`: the distances between rows and between planes, in values.
    pub fn ld_and_plane(&self) -> (usize, usize) {
        (self.ld, self.plane)
    }

    /// Returns all values of an array in host memory; empty for an array in device memory.
    pub fn values(&self) -> &'a [f64] {
        self.data
    }

    /// Returns the address of an array in device memory; `None` for an array in host memory.
    pub fn device_address(&self) -> Option<u64> {
        (self.device_address != 0).then_some(self.device_address)
    }

    /// Returns the nx values of a row; rows are numbered k * ny + j.
    pub fn row(&self, row: usize) -> &'a [f64] {
        let start = row / self.cells.ny * self.plane + row % self.cells.ny * self.ld;
        &self.data[start..][..self.cells.nx]
    }
}

/// The caller's matrix. Entries that leave the box are not part of it; `outward.rs` only reports them.
#[derive(Clone, Copy)]
pub struct CellView<'a> {
    /// Extents of the box.
    pub cells: Cells,
    /// Diagonal entries.
    pub center: CellValues<'a>,
    /// Entries between (i, j, k) and (i + 1, j, k), (i, j + 1, k), (i, j, k + 1).
    pub forward: [CellValues<'a>; 3],
}

impl<'a> CellView<'a> {
    /// Returns those entries of a row in direction `d` that couple two cells of the box.
    pub fn entries(&self, d: usize, row: usize) -> &'a [f64] {
        let Cells { nx, ny, nz } = self.cells;
        let row_values = self.forward[d].row(row);
        match d {
            0 => &row_values[..nx - 1],
            1 if row % ny + 1 < ny => row_values,
            2 if row / ny + 1 < nz => row_values,
            _ => &[],
        }
    }

    /// Returns those entries of a row in direction `d` that couple to a cell outside the box. May be empty.
    pub fn outward_entries(&self, d: usize, row: usize) -> &'a [f64] {
        let inner_count = self.entries(d, row).len();
        &self.forward[d].row(row)[inner_count..]
    }
}

/// A symmetric 7-point matrix on a box of cells. Each array has `cells.count()` values without padding, x fastest.
#[derive(Clone, Copy)]
pub struct SevenPoints<'a> {
    /// Extents of the box.
    pub cells: Cells,
    /// Diagonal entries, positive.
    pub center: &'a [f64],
    /// Entries between (i, j, k) and (i + 1, j, k), (i, j + 1, k), (i, j, k + 1); zero if the second cell is outside
    /// the box.
    pub forward: [&'a [f64]; 3],
}

/// The stored copy of the caller's matrix. Before and after its values, each array has as many zeros as a plane has
/// cells. Entries that leave the box are zero. Loops over consecutive cells therefore need no conditions at the edges
/// of the box.
#[derive(Default)]
pub struct StoredMatrix {
    cells: Cells,
    center: Vec<f64>,
    forward: [Vec<f64>; 3],
}

/// Some rows of the stored copy, into which `copy_row` copies the caller's entries.
pub struct StoredRows<'k> {
    cells: Cells,
    /// Number of the first row, j + ny k.
    first_row: usize,
    center: &'k mut [f64],
    forward: [&'k mut [f64]; 3],
}

impl StoredRows<'_> {
    /// Splits the rows into those before `row`, and those from `row` on.
    pub fn split_at(self, row: usize) -> (Self, Self) {
        let Self { cells, first_row, center, forward } = self;
        let split_index = (row - first_row) * cells.nx;
        let (centers_before, centers_after) = center.split_at_mut(split_index);
        let [x, y, z] = forward.map(|forward| forward.split_at_mut(split_index));
        let rows_before = Self { cells, first_row, center: centers_before, forward: [x.0, y.0, z.0] };
        (rows_before, Self { cells, first_row: row, center: centers_after, forward: [x.1, y.1, z.1] })
    }

    /// Returns the values of these rows: the centers, and the entries in x, y and z.
    pub fn arrays(&mut self) -> [&mut [f64]; 4] {
        let [x, y, z] = &mut self.forward;
        [self.center, x, y, z]
    }

    /// Copies a row of the caller's matrix.
    pub fn copy_row(&mut self, a: &CellView, row: usize) {
        let nx = self.cells.nx;
        let offset = (row - self.first_row) * nx;
        self.center[offset..][..nx].copy_from_slice(a.center.row(row));
        for (d, stored) in self.forward.iter_mut().enumerate() {
            let entries = a.entries(d, row);
            stored[offset..][..entries.len()].copy_from_slice(entries);
        }
    }
}

/// Centers and off-diagonal entries of consecutive cells.
#[derive(Clone, Copy)]
pub struct CellCouplings<'a> {
    /// Diagonal entries.
    pub center: &'a [f64],
    /// Entries to the west, east, south, north, bottom and top.
    pub axis_couplings: [&'a [f64]; 6],
}

const ALLOCATION_NAME: &str = "the matrix";

impl StoredMatrix {
    /// Returns all rows of the copy, for a matrix on `cells`. If the extents have changed, allocates memory and sets it
    /// to zero; otherwise, the previous values remain.
    pub fn rows_mut(&mut self, cells: Cells) -> Result<StoredRows<'_>> {
        let (guard, count) = (cells.plane(), cells.count());
        if self.cells != cells {
            reset(&mut self.center, count + 2 * guard, ALLOCATION_NAME)?;
            for forward in &mut self.forward {
                reset(forward, count + 2 * guard, ALLOCATION_NAME)?;
            }
            self.cells = cells;
        }
        let center = &mut self.center[guard..][..count];
        let forward = self.forward.each_mut().map(|forward| &mut forward[guard..][..count]);
        Ok(StoredRows { cells, first_row: 0, center, forward })
    }

    /// Returns the extents of the box.
    pub fn cells(&self) -> Cells {
        self.cells
    }

    /// Returns the matrix without the surrounding zeros.
    pub fn matrix(&self) -> SevenPoints<'_> {
        let (guard, count) = (self.cells.plane(), self.cells.count());
        let inner_values = |values| -> &[f64] { &<Vec<f64> as AsRef<[f64]>>::as_ref(values)[guard..][..count] };
        SevenPoints {
            cells: self.cells,
            center: inner_values(&self.center),
            forward: self.forward.each_ref().map(inner_values),
        }
    }

    /// Returns the centers and the off-diagonal entries of a range of cells.
    pub fn couplings(&self, range: &Range<usize>) -> CellCouplings<'_> {
        let (guard, n, strides) = (self.cells.plane(), range.len(), self.cells.strides());
        let first_index = guard + range.start;
        let shifted_values = |d: usize, distance: usize| &self.forward[d][first_index - distance..][..n];
        let [x, y, z] = strides;
        CellCouplings {
            center: &self.center[first_index..][..n],
            axis_couplings: [
                shifted_values(0, x),
                shifted_values(0, 0),
                shifted_values(1, y),
                shifted_values(1, 0),
                shifted_values(2, z),
                shifted_values(2, 0),
            ],
        }
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<f64>() * (self.center.len() + self.forward.iter().map(Vec::len).sum::<usize>())
    }
}
