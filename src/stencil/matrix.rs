//! The caller's matrix in 2D: the lower half of a symmetric 5- or 9-point stencil is not stored, so there are three or
//! five arrays.

use crate::stencil::levels::Grid;

/// A caller's array. The value of node (i, j) is `a[j * ld + i]`; the last row may end after nx values.
#[derive(Clone, Copy)]
pub struct GridArray<'a> {
    /// Name for error messages.
    pub name: &'static str,
    data: &'a [f64],
    nx: usize,
    ld: usize,
    len: usize,
    device_address: u64,
    /// Grid row of the first value of `data`.
    first_row: usize,
}

impl<'a> GridArray<'a> {
    /// Wraps an array in host memory; `data` must hold (ny - 1) * ld + nx values.
    pub fn new(name: &'static str, data: &'a [f64], grid: Grid, ld: usize) -> Self {
        assert!(ld >= grid.nx && data.len() >= (grid.ny - 1) * ld + grid.nx);
        Self { name, data, nx: grid.nx, ld, len: data.len(), device_address: 0, first_row: 0 }
    }

    /// Wraps consecutive rows of an array, each with nx values. `first_row` is the first of these rows; other rows must
    /// not be accessed.
    pub fn of_rows(name: &'static str, data: &'a [f64], grid: Grid, first_row: usize) -> Self {
        Self { name, data, nx: grid.nx, ld: grid.nx, len: data.len(), device_address: 0, first_row }
    }

    /// Wraps an array of `len` values in device memory. Only a backend on that device may read it.
    pub fn on_device(name: &'static str, address: u64, grid: Grid, ld: usize, len: usize) -> Self {
        assert!(ld >= grid.nx && len >= (grid.ny - 1) * ld + grid.nx);
        Self { name, data: &[], nx: grid.nx, ld, len, device_address: address, first_row: 0 }
    }

    /// Returns the address of an array in device memory; `None` for an array in host memory.
    pub fn device_address(&self) -> Option<u64> {
        (self.device_address != 0).then_some(self.device_address)
    }

    /// Returns all values of an array in host memory; empty for an array in device memory.
    pub fn values(&self) -> &'a [f64] {
        self.data
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.len
    }

    /// Returns the distance between rows, in values.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// Returns the nx values of row j.
    pub fn row(&self, j: usize) -> &'a [f64] {
        &self.data[(j - self.first_row) * self.ld..][..self.nx]
    }
}

/// The caller's matrix. Entries that point out of the grid are not part of it; `outward.rs` only reports them.
#[derive(Clone, Copy)]
pub struct StencilView<'a> {
    /// Number of nodes in x and y.
    pub grid: Grid,
    /// Diagonal entries.
    pub center: GridArray<'a>,
    /// Entries between (i, j) and (i + 1, j).
    pub east: GridArray<'a>,
    /// Entries between (i, j) and (i, j + 1).
    pub north: GridArray<'a>,
    /// Entries between (i, j) and (i + 1, j + 1), and between (i, j) and (i - 1, j + 1); `None` with 5 points.
    pub corners: Option<(GridArray<'a>, GridArray<'a>)>,
}

impl<'a> StencilView<'a> {
    /// Returns the nx - 1 entries of row j of east.
    pub fn east_row(&self, j: usize) -> &'a [f64] {
        &self.east.row(j)[..self.grid.nx - 1]
    }

    /// Returns the nx entries of row j of north; empty for the last row.
    pub fn north_row(&self, j: usize) -> &'a [f64] {
        if j + 1 < self.grid.ny { self.north.row(j) } else { &[] }
    }

    /// Returns the nx - 1 entries of row j of northeast from i = 0 on; empty for the last row and with 5 points.
    pub fn northeast_row(&self, j: usize) -> &'a [f64] {
        match self.corners {
            Some((northeast, _)) if j + 1 < self.grid.ny => &northeast.row(j)[..self.grid.nx - 1],
            _ => &[],
        }
    }

    /// Returns the nx - 1 entries of row j of northwest from i = 1 on; empty for the last row and with 5 points.
    pub fn northwest_row(&self, j: usize) -> &'a [f64] {
        match self.corners {
            Some((_, northwest)) if j + 1 < self.grid.ny => &northwest.row(j)[1..],
            _ => &[],
        }
    }

    /// Returns for each array the entries of row j that are read: the name of the array, the column of the first value,
    /// and the values.
    pub fn entries(&self, j: usize) -> [(&'static str, usize, &'a [f64]); 5] {
        let (ne, nw) = match self.corners {
            Some((ne, nw)) => (ne.name, nw.name),
            None => ("northeast", "northwest"),
        };
        [
            (self.center.name, 0, self.center.row(j)),
            (self.east.name, 0, self.east_row(j)),
            (self.north.name, 0, self.north_row(j)),
            (ne, 0, self.northeast_row(j)),
            (nw, 1, self.northwest_row(j)),
        ]
    }

    /// Computes the nx row sums of row j of the grid.
    pub fn sum_row(&self, j: usize, sum: &mut [f64]) {
        let (nx, center) = (self.grid.nx, self.center.row(j));
        if self.corners.is_some() || j == 0 || j + 1 == self.grid.ny || nx < 3 {
            sum.copy_from_slice(center);
            self.add_couplings(j, sum);
            return;
        }
        // For inner rows with 5 points, one pass executes the same additions as `add_couplings`, in the same order.
        let (east, north, south) = (self.east_row(j), self.north_row(j), self.north_row(j - 1));
        sum[0] = center[0] + east[0] + north[0] + south[0];
        sum[nx - 1] = center[nx - 1] + east[nx - 2] + north[nx - 1] + south[nx - 1];
        let sum = &mut sum[1..nx - 1];
        let n = sum.len();
        let (west, east) = (&east[..n], &east[1..][..n]);
        let (center, north, south) = (&center[1..][..n], &north[1..][..n], &south[1..][..n]);
        for i in 0..n {
            sum[i] = center[i] + east[i] + west[i] + north[i] + south[i];
        }
    }

    /// Adds the couplings of each of the nx nodes of row j to `sum`. If `sum` contains the centers before the call, it
    /// contains the row sums after the call.
    pub fn add_couplings(&self, j: usize, sum: &mut [f64]) {
        let east = self.east_row(j);
        add(&mut sum[..east.len()], east);
        add(&mut sum[1..], east);
        let north = self.north_row(j);
        add(&mut sum[..north.len()], north);
        let (ne, nw) = (self.northeast_row(j), self.northwest_row(j));
        add(&mut sum[..ne.len()], ne);
        if !nw.is_empty() {
            add(&mut sum[1..], nw);
        }
        if j > 0 {
            add(sum, self.north_row(j - 1));
            let (ne, nw) = (self.northeast_row(j - 1), self.northwest_row(j - 1));
            if !ne.is_empty() {
                add(&mut sum[1..], ne);
            }
            add(&mut sum[..nw.len()], nw);
        }
    }
}

fn add(sum: &mut [f64], a: &[f64]) {
    for (s, a) in sum.iter_mut().zip(a) {
        *s += a;
    }
}

/// A half stencil stored row by row with a ring of two zero nodes around the grid. The neighbours of every node, and
/// their neighbours, can be read without conditions. In a matrix on the black nodes only, `east` and `north` contain
/// the entries to (i + 2, j) and (i, j + 2).
#[derive(Clone, Debug, Default)]
pub struct HalfStencil {
    /// Number of nodes in x.
    pub nx: usize,
    /// In a copy of A: the centers. In the preconditioner M: the row sums s. The center of M is s minus the sum of the
    /// couplings; for an M-matrix, no digits cancel in this difference. A row sum of zero remains exactly zero in all
    /// eliminations.
    pub diagonal: Vec<f64>,
    /// Entries to (i + 1, j).
    pub east: Vec<f64>,
    /// Entries to (i, j + 1).
    pub north: Vec<f64>,
    /// Entries to (i + 1, j + 1).
    pub northeast: Vec<f64>,
    /// Entries to (i - 1, j + 1).
    pub northwest: Vec<f64>,
}

/// Width of the ring of zeros around grids in natural order, in nodes.
pub const RING_WIDTH: usize = 2;

impl HalfStencil {
    /// Creates a half stencil of zeros.
    pub fn zeroed(grid: Grid) -> crate::error::Result<Self> {
        let len = ring_len(grid);
        let zeroed_array = || crate::error::zeroed(len, "a coarse matrix");
        Ok(Self {
            nx: grid.nx,
            diagonal: zeroed_array()?,
            east: zeroed_array()?,
            north: zeroed_array()?,
            northeast: zeroed_array()?,
            northwest: zeroed_array()?,
        })
    }
}

impl HalfStencil {
    /// Copies the values of a half stencil with the same extents.
    pub fn copy_from(&mut self, other: &Self) {
        self.diagonal.copy_from_slice(&other.diagonal);
        self.east.copy_from_slice(&other.east);
        self.north.copy_from_slice(&other.north);
        self.northeast.copy_from_slice(&other.northeast);
        self.northwest.copy_from_slice(&other.northwest);
    }
}

/// Returns the number of values of an array with a ring.
pub fn ring_len(grid: Grid) -> usize {
    (grid.nx + 2 * RING_WIDTH) * (grid.ny + 2 * RING_WIDTH)
}

/// Returns the index of node (i, j) in an array with a ring. Neighbours are at distances 1 in x, and `ring_stride` in
/// y.
pub fn ring_index(nx: usize, i: usize, j: usize) -> usize {
    (j + RING_WIDTH) * ring_stride(nx) + i + RING_WIDTH
}

/// Returns the distance between rows of an array with a ring, in values.
pub fn ring_stride(nx: usize) -> usize {
    nx + 2 * RING_WIDTH
}
