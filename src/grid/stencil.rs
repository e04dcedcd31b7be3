//! The matrix as the caller gives it: half of a symmetric 5- or 9-point stencil in five arrays.

use crate::grid::levels::Grid;

/// One array of the caller: `a[j * ld + i]`, i fastest, rows `ld` apart; the last row may end after nx.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Name, for errors.
    pub name: &'static str,
    data: &'a [f64],
    nx: usize,
    ld: usize,
    len: usize,
    device: u64,
    /// The row that the values begin with.
    first: usize,
}

impl<'a> View<'a> {
    /// `data` must hold (ny - 1) * ld + nx values.
    pub fn new(name: &'static str, data: &'a [f64], grid: Grid, ld: usize) -> Self {
        assert!(ld >= grid.nx && data.len() >= (grid.ny - 1) * ld + grid.nx);
        Self { name, data, nx: grid.nx, ld, len: data.len(), device: 0, first: 0 }
    }

    /// Some rows of an array, from row `first` on, nx values each; nobody asks for others.
    pub fn of_rows(name: &'static str, data: &'a [f64], grid: Grid, first: usize) -> Self {
        Self { name, data, nx: grid.nx, ld: grid.nx, len: data.len(), device: 0, first }
    }

    /// An array in the memory of a device, `len` values from `address` on: a backend there may read it, nobody else.
    pub fn on_device(name: &'static str, address: u64, grid: Grid, ld: usize, len: usize) -> Self {
        assert!(ld >= grid.nx && len >= (grid.ny - 1) * ld + grid.nx);
        Self { name, data: &[], nx: grid.nx, ld, len, device: address, first: 0 }
    }

    /// Its address, where it lies on a device.
    pub fn device(&self) -> Option<u64> {
        (self.device != 0).then_some(self.device)
    }

    /// All values, where it lies on the host.
    pub fn values(&self) -> &'a [f64] {
        self.data
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        self.len
    }

    /// Values from one row to the next.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// The nx values of row j.
    pub fn row(&self, j: usize) -> &'a [f64] {
        &self.data[(j - self.first) * self.ld..][..self.nx]
    }
}

/// The caller's matrix. Entries that point outside the grid are never read.
#[derive(Clone, Copy)]
pub struct StencilView<'a> {
    /// Extents.
    pub grid: Grid,
    /// Diagonal.
    pub center: View<'a>,
    /// Entry between (i, j) and (i + 1, j).
    pub east: View<'a>,
    /// Entry between (i, j) and (i, j + 1).
    pub north: View<'a>,
    /// Entries between (i, j) and (i + 1, j + 1), and (i - 1, j + 1); `None`: 5 points.
    pub corners: Option<(View<'a>, View<'a>)>,
}

impl<'a> StencilView<'a> {
    /// Entries of row j of east: nx - 1.
    pub fn east_row(&self, j: usize) -> &'a [f64] {
        &self.east.row(j)[..self.grid.nx - 1]
    }

    /// Entries of row j of north: nx, none on the last row.
    pub fn north_row(&self, j: usize) -> &'a [f64] {
        if j + 1 < self.grid.ny { self.north.row(j) } else { &[] }
    }

    /// Entries of row j of northeast, i = 0..nx - 1; none on the last row and with 5 points.
    pub fn northeast_row(&self, j: usize) -> &'a [f64] {
        match self.corners {
            Some((northeast, _)) if j + 1 < self.grid.ny => &northeast.row(j)[..self.grid.nx - 1],
            _ => &[],
        }
    }

    /// Entries of row j of northwest from i = 1 on; none on the last row and with 5 points.
    pub fn northwest_row(&self, j: usize) -> &'a [f64] {
        match self.corners {
            Some((_, northwest)) if j + 1 < self.grid.ny => &northwest.row(j)[1..],
            _ => &[],
        }
    }

    /// Every entry that is read, as (array, first column, values), row j.
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

    /// Sums of row j of the matrix, nx values.
    pub fn sum_row(&self, j: usize, sum: &mut [f64]) {
        let (nx, center) = (self.grid.nx, self.center.row(j));
        if self.corners.is_some() || j == 0 || j + 1 == self.grid.ny || nx < 3 {
            sum.copy_from_slice(center);
            self.add_couplings(j, sum);
            return;
        }
        // An inner row of 5 points: the same additions in one pass.
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

    /// Adds to `sum` (nx values) the couplings of row j of the matrix: with the center, the row sum.
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

/// A half stencil in natural (row by row) storage with a ring of two zero nodes around the grid, so that
/// neighbours and neighbours' neighbours of every node can be read.
#[derive(Clone, Debug, Default)]
pub struct HalfStencil {
    /// Nodes in x.
    pub nx: usize,
    /// In A the center. In M the excess, that is the row sum: then center = excess - sum of couplings has no
    /// cancellation, and a row sum of zero stays exactly zero through all eliminations.
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

/// Nodes of the ring around naturally stored grids.
pub const RING: usize = 2;

impl HalfStencil {
    /// All zero.
    pub fn zeroed(grid: Grid) -> crate::error::Result<Self> {
        let len = ring_len(grid);
        let array = || crate::error::zeroed(len, "a coarse matrix");
        Ok(Self {
            nx: grid.nx,
            diagonal: array()?,
            east: array()?,
            north: array()?,
            northeast: array()?,
            northwest: array()?,
        })
    }
}

impl HalfStencil {
    /// The same values; both have the same extents.
    pub fn copy_from(&mut self, other: &Self) {
        self.diagonal.copy_from_slice(&other.diagonal);
        self.east.copy_from_slice(&other.east);
        self.north.copy_from_slice(&other.north);
        self.northeast.copy_from_slice(&other.northeast);
        self.northwest.copy_from_slice(&other.northwest);
    }
}

/// Values of a ringed array.
pub fn ring_len(grid: Grid) -> usize {
    (grid.nx + 2 * RING) * (grid.ny + 2 * RING)
}

/// Place of node (i, j) in a ringed array; neighbours are at +-1 and +-`ring_stride`.
pub fn ring_index(nx: usize, i: usize, j: usize) -> usize {
    (j + RING) * ring_stride(nx) + i + RING
}

/// Values from one row of a ringed array to the next.
pub fn ring_stride(nx: usize) -> usize {
    nx + 2 * RING
}
