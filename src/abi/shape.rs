//! Extents of a system, and the layout of the caller's arrays: `a[k * plane + j * ld + i]`, i fastest. A 2D grid is one
//! plane, and a general matrix is one row.

use crate::error::{Error, Result};
use crate::options::{Options, opt};
use crate::stencil::cells::Cells;
use crate::stencil::levels::Grid;
use std::fmt;

/// Extents of a system.
#[derive(Clone, Copy)]
pub struct Shape {
    pub cells: Cells,
    /// Extents of the caller's arrays. They differ from `cells` only in distributed solves, where a rank owns only some
    /// rows of the grid.
    pub arrays: Cells,
    /// 1 for a general matrix, whose number of rows is `nx`; 2 or 3 for a grid; 0 if there is no system.
    dimensions: usize,
}

/// Largest number of nodes. Node numbers have 32 bits.
const MAX_NODES: i128 = u32::MAX as i128;

/// Layout of an array.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Distance of consecutive rows, in values.
    pub ld: usize,
    /// Distance of consecutive planes, in values.
    pub plane: usize,
    /// Length of the array in values: (nz - 1) * plane + (ny - 1) * ld + nx.
    pub len: usize,
}

impl Shape {
    /// Shape of a handle without a system.
    pub const NONE: Self = Self::of(Cells { nx: 1, ny: 1, nz: 1 }, 0);

    const fn of(cells: Cells, dimensions: usize) -> Self {
        Self { cells, arrays: cells, dimensions }
    }

    /// Shape of a general matrix.
    pub fn rows(rows: usize) -> Self {
        Self::of(Cells { nx: rows, ny: 1, nz: 1 }, 1)
    }

    /// Shape of a grid with these extents, x first. Checks the extents.
    pub fn grid(extents: &[(&'static str, i64)]) -> Result<Self> {
        for (name, extent) in extents {
            if *extent < 1 {
                return Err(Error::Dimension(format!("{name} must be at least 1, got {extent}")));
            }
        }
        let product = extents.iter().try_fold(1, |product: i128, (_, extent)| product.checked_mul((*extent).into()));
        if product.is_none_or(|nodes| nodes > MAX_NODES) {
            let names = extents.iter().map(|e| e.0).collect::<Vec<_>>().join(" * ");
            let extents_text = extents.iter().map(|e| e.1.to_string()).collect::<Vec<_>>().join(" * ");
            return Err(Error::Dimension(format!("{names} must be at most {MAX_NODES}, got {extents_text}")));
        }
        let extent = |direction: usize| extents.get(direction).map_or(1, |e| e.1 as usize);
        Ok(Self::of(Cells { nx: extent(0), ny: extent(1), nz: extent(2) }, extents.len()))
    }

    /// Returns the extents of a plane.
    pub fn plane(&self) -> Grid {
        Grid { nx: self.cells.nx, ny: self.cells.ny }
    }

    /// Returns the layout that the options select. Returns an error if the length of the array overflows.
    pub fn layout(&self, options: &Options) -> Result<Layout> {
        let Cells { nx, ny, nz } = self.arrays;
        let option_or = |key, default| match options.int(key) {
            0 => default,
            value => value as usize,
        };
        let ld = option_or(opt::LEADING_DIMENSION, nx);
        let plane = option_or(opt::LEADING_PLANE, ny.saturating_mul(ld));
        let rows = (ny - 1).checked_mul(ld).and_then(|n| n.checked_add(nx));
        let planes = (nz - 1).checked_mul(plane);
        let len = rows.zip(planes).and_then(|(rows, planes)| planes.checked_add(rows));
        match len.filter(|&n| n <= isize::MAX as usize / size_of::<f64>()) {
            Some(len) => Ok(Layout { ld, plane, len }),
            None if self.dimensions == 2 => Err(Error::Dimension(format!(
                "(ny - 1) * leading_dimension + nx overflows with ny = {ny}, leading_dimension = {ld}"
            ))),
            None => Err(Error::Dimension(format!(
                "(nz - 1) * leading_plane + (ny - 1) * leading_dimension + nx overflows with nz = {nz}, \
                 leading_plane = {plane}, ny = {ny}, leading_dimension = {ld}"
            ))),
        }
    }

    /// Checks the leading dimensions in the options: rows and planes must not overlap.
    pub fn check_layout(&self, options: &Options) -> Result<()> {
        let Cells { nx, ny, .. } = self.arrays;
        let ld = options.int(opt::LEADING_DIMENSION);
        if ld != 0 && ld < nx as i64 {
            return Err(Error::range("leading_dimension", ld, format!("be 0 or at least nx = {nx}")));
        }
        let plane = options.int(opt::LEADING_PLANE);
        let rows = ny as i128 * i128::from(ld.max(nx as i64));
        if plane != 0 && i128::from(plane) < rows {
            let allowed = format!("be 0 or at least ny * leading_dimension = {rows}");
            return Err(Error::range("leading_plane", plane, allowed));
        }
        Ok(())
    }
}

/// Formats as nx x ny, nx x ny x nz, or the number of rows.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cells: Cells { nx, ny, nz }, dimensions, .. } = self;
        match dimensions {
            3 => write!(f, "{nx} x {ny} x {nz}"),
            2 => write!(f, "{nx} x {ny}"),
            _ => write!(f, "{nx} rows"),
        }
    }
}
