//! Setup of multigrid with cell coarsening on the device (docs/theory/dpcg.md; kernels/dpcg/cell_grids.cuh). The host
//! chooses the directions to coarsen from their strengths.

use super::dense::Dense;
use super::source::Source;
use crate::cuda::arrays::{Padded, Pool, box_of};
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellArgs, CellGridArgs, CoarsestArgs, MOST_CELL_BLOCKS};
use crate::error::{Result, push};
use crate::stencil::cells::Cells;
use crate::stencil::coarsening::{cell_ratio, coarse_cells};
use crate::stencil::components::ZERO_ROW_SUM;

/// Purpose of the allocations, for error messages.
const GRIDS: &str = "the grids of multigrid";

/// A coarse grid.
pub struct Grid {
    pub of: Cells,
    /// Arguments of the kernels, with the addresses of matrix and vectors.
    pub arguments: CellArgs,
    /// Number of fine cells per coarse cell in each direction.
    pub ratio: [usize; 3],
    /// Center, three arrays of forward couplings, r and x.
    pub arrays: Padded,
}

impl Grid {
    /// Allocates a grid with zeros in all arrays.
    fn zeroed(pool: &mut Pool, stream: &Stream, of: Cells, ratio: [usize; 3], value: usize) -> Result<Self> {
        let arrays = Padded::zeroed_in(pool, stream, 6, of.count(), of.plane(), value, GRIDS)?;
        let [center, x, y, z, r, solution] = [0, 1, 2, 3, 4, 5].map(|k| arrays.at(k));
        let forward = [x, y, z];
        let arguments = CellArgs { cells: box_of(of), center, forward, r, x: solution, colour: 0, from_zero: 0 };
        Ok(Self { of, arguments, ratio, arrays })
    }
}

/// Workspace of the setup: row sums of two grids, in the pool's workspace, and partial sums.
struct Scratch {
    memory: Memory,
    excess: [Address; 2],
    partial: Address,
    strengths: Address,
}

impl Scratch {
    /// Allocates the partial sums, and borrows the row sums from the pool.
    fn new(pool: &mut Pool, stream: &Stream, finest: Cells) -> Result<Self> {
        let sizes = [8 * 3 * MOST_CELL_BLOCKS as usize, 24];
        let (memory, [partial, strengths]) = pool.lists(stream, sizes, GRIDS)?;
        Ok(Self { memory, excess: pool.borrow_pair(finest.count())?, partial, strengths })
    }
}

/// The coarse grids and the inverse of the last one; without coarse grids, the inverse of the caller's matrix.
pub struct Made {
    pub grids: Vec<Grid>,
    pub inverse: Dense,
}

/// Makes the grids of `scale` times the matrix.
struct Maker<'a> {
    stream: &'a Stream,
    source: &'a Source,
    scalars: Address,
    scale: f64,
    /// Whether coarse grids use f32.
    single: bool,
    scratch: Scratch,
}

/// Makes all grids of `scale` times the matrix, down to at most `coarsest` cells; `scale` is a power of two. `single`:
/// coarse grids use f32.
pub fn make(
    pool: &mut Pool,
    stream: &Stream,
    source: &Source,
    (scalars, scale): (Address, f64),
    single: bool,
    coarsest: usize,
) -> Result<Made> {
    let scratch = Scratch::new(pool, stream, source.of)?;
    let maker = Maker { stream, source, scalars, scale, single, scratch };
    launch::look_at_finest(stream, &maker.arguments(None, 0))?;
    let mut grids: Vec<Grid> = Vec::new();
    while grids.last().map_or(source.of, |grid| grid.of).count() > coarsest.min(Dense::MOST) {
        let grid = maker.coarsen(pool, grids.last(), grids.len())?;
        push(&mut grids, grid, GRIDS)?;
    }
    let inverse = maker.invert(pool, grids.last(), grids.len())?;
    pool.keep(maker.scratch.memory)?;
    Ok(Made { grids, inverse })
}

impl Maker<'_> {
    /// Returns the arguments for coarse grid l - 1, or for the caller's grid if l = 0, before the next grid is known.
    fn arguments(&self, grid: Option<&Grid>, l: usize) -> CellGridArgs {
        let m = self.source.m;
        let (cells, forward, center) = match grid {
            Some(grid) => (grid.arguments.cells, grid.arguments.forward, grid.arguments.center),
            None => (self.source.cells, [m.east, m.north, m.top], m.center),
        };
        CellGridArgs {
            cells,
            forward,
            center,
            excess: self.scratch.excess[l % 2],
            factor: if l == 0 { self.scale } else { 1.0 },
            zero_row_sum: ZERO_ROW_SUM,
            partial: self.scratch.partial,
            strengths: self.scratch.strengths,
            scalars: self.scalars,
            ..CellGridArgs::default()
        }
    }

    /// Returns coarse grid l, made from the previous grid, whose strengths were computed last.
    fn coarsen(&self, pool: &mut Pool, fine: Option<&Grid>, l: usize) -> Result<Grid> {
        let (stream, single) = (self.stream, self.single);
        let mut strengths = [0.0; 3];
        stream.fetch(&mut strengths, self.scratch.strengths)?;
        stream.wait()?;
        let of = fine.map_or(self.source.of, |grid| grid.of);
        let ratio = cell_ratio(of, strengths);
        let value = if single { size_of::<f32>() } else { size_of::<f64>() };
        let grid = Grid::zeroed(pool, stream, coarse_cells(of, ratio), ratio, value)?;
        let a = CellGridArgs {
            coarse: grid.arguments.cells,
            ratio: ratio.map(|n| n as i32),
            coarse_forward: grid.arguments.forward,
            coarse_excess: self.scratch.excess[(l + 1) % 2],
            ..self.arguments(fine, l)
        };
        if single && l == 0 {
            launch::coarsen_cells_to(stream, &a)?;
        } else {
            launch::coarsen_cells(stream, single, &a)?;
        }
        launch::look_at_cells(stream, single, &self.arguments(Some(&grid), l + 1))?;
        Ok(grid)
    }

    /// Returns the inverse of the matrix of coarse grid l - 1, or of the caller's matrix if l = 0.
    fn invert(&self, pool: &mut Pool, grid: Option<&Grid>, l: usize) -> Result<Dense> {
        let (stream, of) = (self.stream, grid.map_or(self.source.of, |grid| grid.of));
        let mut dense = Dense::zeroed(pool, stream, of.count(), None)?;
        let CellGridArgs { cells, center, forward: [c, ..], excess, factor, .. } = self.arguments(grid, l);
        let stride = grid.map_or(self.source.stride(), |grid| grid.arrays.stride());
        let a = CoarsestArgs {
            cells,
            c,
            c_stride: stride as i64,
            center,
            factor,
            excess,
            matrix: dense.matrix(),
            diagonal: dense.diagonal,
            null_of: dense.null_of,
        };
        if grid.is_some() && self.single {
            launch::spread_cells_short(stream, &a)?;
        } else {
            launch::spread_cells(stream, &a)?;
        }
        dense.invert(stream)?;
        dense.complete(stream, false)?;
        if grid.is_none() {
            // The inverse of A is (s A)^-1 s.
            dense.multiply_by(stream, factor)?;
        }
        Ok(dense)
    }
}
