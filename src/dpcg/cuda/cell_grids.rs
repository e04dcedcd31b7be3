//! Setup of multigrid with cell coarsening on the device (docs/theory/dpcg.md; kernels/dpcg/cell_grids.cuh). The host
//! chooses the directions to coarsen from their strengths.

use super::dense::DenseInverse;
use super::multigrid::{GRIDS_ALLOCATION, GridSetup, GridsAndInverse};
use super::source::DeviceMatrix;
use crate::cuda::arrays::{PaddedArrays, Pool, box_of};
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
    pub cell_args: CellArgs,
    /// Number of fine cells per coarse cell in each direction.
    pub coarsening_ratio: [usize; 3],
    /// Center, three arrays of forward couplings, r and x.
    pub arrays: PaddedArrays,
}

impl Grid {
    /// Allocates a grid with zeros in all arrays.
    fn zeroed(
        pool: &mut Pool,
        stream: &Stream,
        extents: Cells,
        coarsening_ratio: [usize; 3],
        value_bytes: usize,
    ) -> Result<Self> {
        let arrays =
            PaddedArrays::zeroed_in(pool, stream, 6, extents.count(), extents.plane(), value_bytes, GRIDS_ALLOCATION)?;
        let [center, x, y, z, r, solution] = [0, 1, 2, 3, 4, 5].map(|k| arrays.at(k));
        let forward = [x, y, z];
        let cell_args = CellArgs { cells: box_of(extents), center, forward, r, x: solution, colour: 0, from_zero: 0 };
        Ok(Self { extents, cell_args, coarsening_ratio, arrays })
    }
}

/// Builds all coarse grids, and the inverse of the coarsest matrix. The coarsest grid has at most `max_coarsest_cells`
/// cells, and at most `DenseInverse::MAX_COARSEST_UNKNOWNS` cells. If there are no coarse grids, the inverse is that of
/// the caller's matrix.
///
/// - `scalars`: address of the scalars.
/// - `matrix_scale`: power of two by which coarse matrices are multiplied.
/// - `is_single_precision`: whether coarse grids use f32.
pub fn build_grids(
    pool: &mut Pool,
    stream: &Stream,
    source: &DeviceMatrix,
    (scalars, matrix_scale): (Address, f64),
    is_single_precision: bool,
    max_coarsest_cells: usize,
) -> Result<GridsAndInverse<Grid>> {
    let grid_setup = GridSetup::new(pool, stream, source, (scalars, matrix_scale), is_single_precision)?;
    launch::row_sums_of_finest(stream, &setup_args(&grid_setup, None, 0))?;
    let mut grids: Vec<Grid> = Vec::new();
    while grids.last().map_or(source.extents, |grid| grid.extents).count()
        > max_coarsest_cells.min(DenseInverse::MAX_COARSEST_UNKNOWNS)
    {
        let grid = coarsen_grid(&grid_setup, pool, grids.last(), grids.len())?;
        push(&mut grids, grid, GRIDS_ALLOCATION)?;
    }
    let inverse = invert_coarsest_grid(&grid_setup, pool, grids.last(), grids.len())?;
    grid_setup.finish_setup(pool, grids, inverse)
}

/// Returns the arguments of the setup kernels for coarse grid l - 1, or for the caller's grid if l = 0. The fields that
/// describe the next coarser grid are zero.
fn setup_args(grid_setup: &GridSetup, grid: Option<&Grid>, l: usize) -> CellGridArgs {
    let m = grid_setup.source.m;
    let (cells, forward, center) = match grid {
        Some(grid) => (grid.cell_args.cells, grid.cell_args.forward, grid.cell_args.center),
        None => (grid_setup.source.cells, [m.east, m.north, m.top], m.center),
    };
    CellGridArgs {
        cells,
        forward,
        center,
        row_sums: grid_setup.row_sums[l % 2],
        factor: if l == 0 { grid_setup.matrix_scale } else { 1.0 },
        zero_row_sum: ZERO_ROW_SUM,
        partial: grid_setup.partial_sums,
        strengths: grid_setup.strengths,
        scalars: grid_setup.scalars,
        ..CellGridArgs::default()
    }
}

/// Makes coarse grid l from the previous grid `fine`, or from the caller's grid if `fine` is `None`. The strengths that
/// were computed last must be those of the finer grid.
fn coarsen_grid(grid_setup: &GridSetup, pool: &mut Pool, fine: Option<&Grid>, l: usize) -> Result<Grid> {
    let (stream, is_single_precision) = (grid_setup.stream, grid_setup.is_single_precision);
    let [x, y, z, _] = grid_setup.fetch_strengths()?;
    let extents = fine.map_or(grid_setup.source.extents, |grid| grid.extents);
    let coarsening_ratio = cell_ratio(extents, [x, y, z]);
    let grid = Grid::zeroed(
        pool,
        stream,
        coarse_cells(extents, coarsening_ratio),
        coarsening_ratio,
        grid_setup.value_bytes(),
    )?;
    let args = CellGridArgs {
        coarse: grid.cell_args.cells,
        ratio: coarsening_ratio.map(|n| n as i32),
        coarse_forward: grid.cell_args.forward,
        coarse_row_sums: grid_setup.row_sums[(l + 1) % 2],
        ..setup_args(grid_setup, fine, l)
    };
    if is_single_precision && l == 0 {
        launch::coarsen_cells_to(stream, &args)?;
    } else {
        launch::coarsen_cells(stream, is_single_precision, &args)?;
    }
    launch::centers_and_strengths(stream, is_single_precision, &setup_args(grid_setup, Some(&grid), l + 1))?;
    Ok(grid)
}

/// Returns the inverse of the matrix of coarse grid l - 1, or of the caller's matrix if l = 0.
fn invert_coarsest_grid(
    grid_setup: &GridSetup,
    pool: &mut Pool,
    grid: Option<&Grid>,
    l: usize,
) -> Result<DenseInverse> {
    let CellGridArgs { cells, center, forward: [c, ..], row_sums, factor, .. } = setup_args(grid_setup, grid, l);
    let stride = grid.map_or(grid_setup.source.array_stride(), |grid| grid.arrays.stride());
    let args = CoarsestArgs { cells, c, c_stride: stride as i64, center, factor, row_sums, ..CoarsestArgs::default() };
    let uses_f32 = grid.is_some() && grid_setup.is_single_precision;
    let spread_matrix = if uses_f32 { launch::spread_cells_f32 } else { launch::spread_cells };
    let mut dense = grid_setup.invert_coarsest(
        pool,
        grid.map_or(grid_setup.source.extents, |grid| grid.extents).count(),
        spread_matrix,
        args,
    )?;
    if grid.is_none() {
        // The dense matrix contains (s A)^-1 with s = `factor`, and A^-1 = s (s A)^-1.
        dense.multiply_by(grid_setup.stream, factor)?;
    }
    Ok(dense)
}
