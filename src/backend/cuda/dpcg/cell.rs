//! Cell-centred multigrid on the device, on grids of `cell_grids`: the V-cycle (kernels/dpcg/cell.cuh).

use super::arrays::Pool;
use super::cell_grids::{Grid, Made, make};
use super::dense::Dense;
use super::multigrid::Scale;
use super::source::Source;
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, CellArgs, CellGrid, DenseArgs, PairArgs, Sum};
use crate::error::Result;

/// The preconditioner.
pub struct CellCentred {
    sweeps: usize,
    single: bool,
    /// What coarse matrices are multiplied by.
    scale: f64,
    grids: Vec<Grid>,
    /// Of the coarsest grid.
    inverse: Dense,
}

impl CellCentred {
    /// For a matrix; coarse ones are multiplied by `scale`. `single`: the numbers of coarse grids are in f32.
    pub fn new(
        pool: &mut Pool,
        stream: &Stream,
        source: &Source,
        (scalars, scale): (Address, f64),
        single: bool,
        (sweeps, coarsest): (usize, usize),
    ) -> Result<Self> {
        let Made { grids, inverse } = make(pool, stream, source, (scalars, scale), single, coarsest)?;
        Ok(Self { sweeps, single, scale, grids, inverse })
    }

    /// Its memory, for another one.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        self.grids.into_iter().try_for_each(|grid| pool.give(grid.arrays.into_memory()))?;
        self.inverse.give(pool)
    }

    /// z = M^-1 r, in a loop for `sum`.
    pub fn apply(
        &self,
        stream: &Stream,
        source: &Source,
        scale: &Scale,
        (r, z): (Address, Address),
        sum: Sum,
    ) -> Result<()> {
        let m = source.m;
        let forward = [m.east, m.north, m.top];
        let finest = CellGrid { cells: source.cells, center: m.center, forward, r, x: z, colour: 0, from_zero: 0 };
        let Some(last) = self.grids.last() else { return self.solve_coarsest(stream, &finest, false) };
        scale.find(stream, r, source.cells.count())?;
        let cycle = Cycle { k: self, stream, scale, sum: Sum { partial: 0, how: 0, conditional: 0, ..sum } };
        let coarse = &self.grids[..self.grids.len() - 1];
        cycle.smooth_first(&finest, false)?;
        cycle.restrict(&finest, 0)?;
        for (l, grid) in coarse.iter().enumerate() {
            cycle.smooth_first(&grid.arguments, self.single)?;
            cycle.restrict(&grid.arguments, l + 1)?;
        }
        self.solve_coarsest(stream, &last.arguments, self.single)?;
        for (l, grid) in coarse.iter().enumerate().rev() {
            cycle.interpolate(&grid.arguments, l + 1)?;
            cycle.smooth_last(&grid.arguments, self.single)?;
        }
        cycle.interpolate(&finest, 0)?;
        cycle.smooth_last(&finest, false)
    }

    fn solve_coarsest(&self, stream: &Stream, grid: &CellGrid, single: bool) -> Result<()> {
        let &CellGrid { r, x, .. } = grid;
        let (matrix, n) = (self.inverse.matrix(), self.inverse.n() as i32);
        let a = DenseArgs { matrix, input: r, out: x, n, unused: 0, sum: Sum::default() };
        if single { launch::dense_short(stream, &a) } else { launch::dense(stream, &a) }
    }

    /// Zeros in all vectors.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.grids.iter().try_for_each(|grid| {
            let value = if self.single { size_of::<f32>() } else { size_of::<f64>() };
            stream.fill(grid.arguments.r, 0, 2 * value * grid.arrays.stride())
        })
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.grids.iter().map(|grid| grid.arrays.bytes()).sum::<usize>() + self.inverse.bytes()
    }
}

/// The steps of a cycle.
struct Cycle<'a> {
    k: &'a CellCentred,
    stream: &'a Stream,
    scale: &'a Scale,
    /// In a loop that has converged nothing is done.
    sum: Sum,
}

impl Cycle<'_> {
    fn relax(&self, grid: &CellGrid, single: bool, colour: i32, from_zero: bool) -> Result<()> {
        let grid = CellGrid { colour, from_zero: i32::from(from_zero), ..*grid };
        launch::relax_cells(self.stream, single, &CellArgs { grid, sum: self.sum })
    }

    /// Sweeps before the coarse grid, from zero.
    fn smooth_first(&self, grid: &CellGrid, single: bool) -> Result<()> {
        for sweep in 0..self.k.sweeps {
            self.relax(grid, single, 0, sweep == 0)?;
            self.relax(grid, single, 1, false)?;
        }
        Ok(())
    }

    /// Sweeps after it: the same in reverse.
    fn smooth_last(&self, grid: &CellGrid, single: bool) -> Result<()> {
        for _ in 0..self.k.sweeps {
            self.relax(grid, single, 1, false)?;
            self.relax(grid, single, 0, false)?;
        }
        Ok(())
    }

    /// From a grid to coarse grid l: the caller's grid has residuals scaled for the others.
    fn pair(&self, fine: &CellGrid, l: usize, of_coarse: Address) -> PairArgs {
        let grid = &self.k.grids[l];
        let (ratio, coarse) = (grid.ratio.map(|n| n as i32), grid.arguments.cells);
        let (scales, factor) = if l == 0 { (self.scale.scales, self.k.scale) } else { (0, 1.0) };
        PairArgs { fine: *fine, coarse, ratio, unused: 0, of_coarse, scales, factor, sum: self.sum }
    }

    fn restrict(&self, fine: &CellGrid, l: usize) -> Result<()> {
        let a = self.pair(fine, l, self.k.grids[l].arguments.r);
        if l == 0 && self.k.single {
            launch::restrict_cells_to(self.stream, &a)
        } else {
            launch::restrict_cells(self.stream, self.k.single, &a)
        }
    }

    fn interpolate(&self, fine: &CellGrid, l: usize) -> Result<()> {
        let a = self.pair(fine, l, self.k.grids[l].arguments.x);
        if l == 0 && self.k.single {
            launch::interpolate_cells_from(self.stream, &a)
        } else {
            launch::interpolate_cells(self.stream, self.k.single, &a)
        }
    }
}
