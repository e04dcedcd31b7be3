//! Boxes of cells in 3D, and symmetric 7-point matrices on them: as the caller gives them, and as they are kept.

use crate::error::{Result, reset};
use std::ops::Range;

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

    /// Rows of cells along x.
    pub fn rows(&self) -> usize {
        self.ny * self.nz
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

/// One array of the caller: `a[k * plane + j * ld + i]`.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    /// Name, for errors.
    pub name: &'static str,
    data: &'a [f64],
    cells: Cells,
    ld: usize,
    plane: usize,
    device: u64,
}

impl<'a> Values<'a> {
    /// `data` must hold (nz - 1) * plane + (ny - 1) * ld + nx values.
    pub fn new(name: &'static str, data: &'a [f64], cells: Cells, ld: usize, plane: usize) -> Self {
        assert!(ld >= cells.nx && data.len() >= (cells.nz - 1) * plane + (cells.ny - 1) * ld + cells.nx);
        Self { name, data, cells, ld, plane, device: 0 }
    }

    /// An array in the memory of a device, from `address` on: a backend there may read it, nobody else.
    pub fn on_device(name: &'static str, address: u64, cells: Cells, ld: usize, plane: usize) -> Self {
        Self { name, data: &[], cells, ld, plane, device: address }
    }

    /// Values from one row and from one plane to the next.
    pub fn shape(&self) -> (usize, usize) {
        (self.ld, self.plane)
    }

    /// All values, where they are in host memory.
    pub fn all(&self) -> &'a [f64] {
        self.data
    }

    /// Its address, where it lies on a device.
    pub fn device(&self) -> Option<u64> {
        (self.device != 0).then_some(self.device)
    }

    /// The nx values of a row, numbered k * ny + j.
    pub fn row(&self, row: usize) -> &'a [f64] {
        let start = row / self.cells.ny * self.plane + row % self.cells.ny * self.ld;
        &self.data[start..][..self.cells.nx]
    }
}

/// The caller's matrix. Entries that leave the box are never read.
#[derive(Clone, Copy)]
pub struct CellView<'a> {
    /// Extents.
    pub cells: Cells,
    /// Diagonal.
    pub center: Values<'a>,
    /// Entries between (i, j, k) and (i + 1, j, k), (i, j + 1, k), (i, j, k + 1).
    pub forward: [Values<'a>; 3],
}

impl<'a> CellView<'a> {
    /// Entries of a row in direction `d`: those that stay in the box.
    pub fn entries(&self, d: usize, row: usize) -> &'a [f64] {
        let Cells { nx, ny, nz } = self.cells;
        let all = self.forward[d].row(row);
        match d {
            0 => &all[..nx - 1],
            1 if row % ny + 1 < ny => all,
            2 if row / ny + 1 < nz => all,
            _ => &[],
        }
    }

    /// The entries that leave the box: empty where none do.
    pub fn outward(&self, d: usize, row: usize) -> &'a [f64] {
        let inner = self.entries(d, row).len();
        &self.forward[d].row(row)[inner..]
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

/// A matrix that is kept. Before and after the values of each array are as many zeros as a plane has cells, so that
/// loops over cells in a row, whatever rows they belong to, ask for no edge: entries that leave the box are zero.
#[derive(Default)]
pub struct Kept {
    cells: Cells,
    center: Vec<f64>,
    forward: [Vec<f64>; 3],
}

/// Rows of a matrix that is kept, to be copied from the caller's.
pub struct KeptRows<'k> {
    cells: Cells,
    /// Number of the first one, j + ny k.
    first: usize,
    center: &'k mut [f64],
    forward: [&'k mut [f64]; 3],
}

impl KeptRows<'_> {
    /// Those before row `row`, and the others.
    pub fn split_at(self, row: usize) -> (Self, Self) {
        let Self { cells, first, center, forward } = self;
        let cut = (row - first) * cells.nx;
        let (before, after) = center.split_at_mut(cut);
        let [x, y, z] = forward.map(|forward| forward.split_at_mut(cut));
        let before = Self { cells, first, center: before, forward: [x.0, y.0, z.0] };
        (before, Self { cells, first: row, center: after, forward: [x.1, y.1, z.1] })
    }

    /// Center, and entries in x, y and z.
    pub fn arrays(&mut self) -> [&mut [f64]; 4] {
        let [x, y, z] = &mut self.forward;
        [self.center, x, y, z]
    }

    /// Copies a row.
    pub fn copy_row(&mut self, a: &CellView, row: usize) {
        let nx = self.cells.nx;
        let at = (row - self.first) * nx;
        self.center[at..][..nx].copy_from_slice(a.center.row(row));
        for (d, kept) in self.forward.iter_mut().enumerate() {
            let entries = a.entries(d, row);
            kept[at..][..entries.len()].copy_from_slice(entries);
        }
    }
}

/// Couplings of consecutive cells: center, and entries to west, east, south, north, bottom, top.
#[derive(Clone, Copy)]
pub struct Couplings<'a> {
    /// Diagonal.
    pub center: &'a [f64],
    /// West, east, south, north, bottom, top.
    pub near: [&'a [f64]; 6],
}

/// For errors.
const MATRIX: &str = "the matrix";

impl Kept {
    /// All rows, of a matrix on so many cells; takes memory where those are others than before.
    pub fn rows_mut(&mut self, cells: Cells) -> Result<KeptRows<'_>> {
        let (guard, count) = (cells.plane(), cells.count());
        if self.cells != cells {
            reset(&mut self.center, count + 2 * guard, MATRIX)?;
            for forward in &mut self.forward {
                reset(forward, count + 2 * guard, MATRIX)?;
            }
            self.cells = cells;
        }
        let center = &mut self.center[guard..][..count];
        let forward = self.forward.each_mut().map(|forward| &mut forward[guard..][..count]);
        Ok(KeptRows { cells, first: 0, center, forward })
    }

    /// Extents.
    pub fn cells(&self) -> Cells {
        self.cells
    }

    /// Without the zeros around it.
    pub fn matrix(&self) -> SevenPoints<'_> {
        let (guard, count) = (self.cells.plane(), self.cells.count());
        let of = |all| -> &[f64] { &<Vec<f64> as AsRef<[f64]>>::as_ref(all)[guard..][..count] };
        SevenPoints { cells: self.cells, center: of(&self.center), forward: self.forward.each_ref().map(of) }
    }

    /// Couplings of the cells of a range.
    pub fn couplings(&self, range: &Range<usize>) -> Couplings<'_> {
        let (guard, n, steps) = (self.cells.plane(), range.len(), self.cells.steps());
        let at = guard + range.start;
        let of = |d: usize, back: usize| &self.forward[d][at - back..][..n];
        let [x, y, z] = steps;
        Couplings {
            center: &self.center[at..][..n],
            near: [of(0, x), of(0, 0), of(1, y), of(1, 0), of(2, z), of(2, 0)],
        }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        size_of::<f64>() * (self.center.len() + self.forward.iter().map(Vec::len).sum::<usize>())
    }
}
