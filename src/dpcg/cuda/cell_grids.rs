//! Setup of multigrid with cell coarsening on the device (docs/theory/dpcg.md; kernels/dpcg/cell_grids.cuh). The host
//! chooses the directions to coarsen from their strengths.

use super::dense::Dense;
use super::multigrid::{GRIDS, GridSetup, GridsAndInverse};
use super::source::DeviceMatrix;
use crate::cuda::arrays::{Padded, Pool, box_of};
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellArgs, CellGridArgs, CoarsestArgs};
use crate::error::{Result, push};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{cell_ratio, coarse_cells};
use crate::stencil::components::ZERO_ROW_SUM;

/// A coarse grid.
pub struct Grid {
    pub extents: Cells,
    /// Arguments of the kernels, with the addresses of matrix and vectors.
    pub arguments: CellArgs,
    /// Number of fine cells per coarse cell in each direction.
    pub ratio: [usize; 3],
    /// Center, three arrays of forward couplings, r and x.
    pub arrays: Padded,
}

impl Grid {
    /// Allocates a grid with zeros in all arrays.
    fn zeroed(pool: &mut Pool, stream: &Stream, extents: Cells, ratio: [usize; 3], value_bytes: usize) -> Result<Self> {
        let arrays = Padded::zeroed_in(pool, stream, 6, extents.count(), extents.plane(), value_bytes, GRIDS)?;
        let [center, x, y, z, r, solution] = [0, 1, 2, 3, 4, 5].map(|k| arrays.at(k));
        let forward = [x, y, z];
        let arguments = CellArgs { cells: box_of(extents), center, forward, r, x: solution, colour: 0, from_zero: 0 };
        Ok(Self { extents, arguments, ratio, arrays })
    }
}

/// Makes all grids, down to a grid of at most `coarsest` cells and at most `Dense::MOST` cells, and the inverse of the
/// coarsest matrix. `scalars` is the address of the scalars, and `scale` the power of two by which coarse matrices are
/// multiplied. `single`: coarse grids use f32. Without coarse grids, the inverse is that of the caller's matrix.
pub fn make(
    pool: &mut Pool,
    stream: &Stream,
    source: &DeviceMatrix,
    (scalars, scale): (Address, f64),
    single: bool,
    coarsest: usize,
) -> Result<GridsAndInverse<Grid>> {
    let maker = GridSetup::new(pool, stream, source, (scalars, scale), single)?;
    launch::row_sums_of_finest(stream, &arguments(&maker, None, 0))?;
    let mut grids: Vec<Grid> = Vec::new();
    while grids.last().map_or(source.extents, |grid| grid.extents).count() > coarsest.min(Dense::MOST) {
        let grid = coarsen(&maker, pool, grids.last(), grids.len())?;
        push(&mut grids, grid, GRIDS)?;
    }
    let inverse = invert(&maker, pool, grids.last(), grids.len())?;
    maker.finish(pool, grids, inverse)
}

/// Returns the arguments of the setup kernels for coarse grid l - 1, or for the caller's grid if l = 0. The fields of
/// the next grid are zero.
fn arguments(maker: &GridSetup, grid: Option<&Grid>, l: usize) -> CellGridArgs {
    let m = maker.source.m;
    let (cells, forward, center) = match grid {
        Some(grid) => (grid.arguments.cells, grid.arguments.forward, grid.arguments.center),
        None => (maker.source.cells, [m.east, m.north, m.top], m.center),
    };
    CellGridArgs {
        cells,
        forward,
        center,
        row_sums: maker.row_sums[l % 2],
        factor: if l == 0 { maker.scale } else { 1.0 },
        zero_row_sum: ZERO_ROW_SUM,
        partial: maker.partial,
        strengths: maker.strengths,
        scalars: maker.scalars,
        ..CellGridArgs::default()
    }
}

/// Makes coarse grid l from the previous grid `fine`. The strengths of `fine` must be those that were computed last.
fn coarsen(maker: &GridSetup, pool: &mut Pool, fine: Option<&Grid>, l: usize) -> Result<Grid> {
    let (stream, single) = (maker.stream, maker.single);
    let [x, y, z, _] = maker.fetch_strengths()?;
    let extents = fine.map_or(maker.source.extents, |grid| grid.extents);
    let ratio = cell_ratio(extents, [x, y, z]);
    let grid = Grid::zeroed(pool, stream, coarse_cells(extents, ratio), ratio, maker.value_bytes())?;
    let a = CellGridArgs {
        coarse: grid.arguments.cells,
        ratio: ratio.map(|n| n as i32),
        coarse_forward: grid.arguments.forward,
        coarse_row_sums: maker.row_sums[(l + 1) % 2],
        ..arguments(maker, fine, l)
    };
    if single && l == 0 {
        launch::coarsen_cells_to(stream, &a)?;
    } else {
        launch::coarsen_cells(stream, single, &a)?;
    }
    launch::centers_and_strengths(stream, single, &arguments(maker, Some(&grid), l + 1))?;
    Ok(grid)
}

/// Returns the inverse of the matrix of coarse grid l - 1, or of the caller's matrix if l = 0.
fn invert(maker: &GridSetup, pool: &mut Pool, grid: Option<&Grid>, l: usize) -> Result<Dense> {
    let CellGridArgs { cells, center, forward: [c, ..], row_sums, factor, .. } = arguments(maker, grid, l);
    let stride = grid.map_or(maker.source.stride(), |grid| grid.arrays.stride());
    let a = CoarsestArgs { cells, c, c_stride: stride as i64, center, factor, row_sums, ..CoarsestArgs::default() };
    let short = grid.is_some() && maker.single;
    let spread = if short { launch::spread_cells_short } else { launch::spread_cells };
    let mut dense = maker.invert(pool, grid.map_or(maker.source.extents, |grid| grid.extents).count(), spread, a)?;
    if grid.is_none() {
        // The inverse of A is (s A)^-1 s.
        dense.multiply_by(maker.stream, factor)?;
    }
    Ok(dense)
}
