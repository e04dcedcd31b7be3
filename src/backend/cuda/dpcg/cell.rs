//! Cell-centred multigrid on the device: grids that the host has made, and the V-cycle (kernels/dpcg/cell.cuh).

use super::arrays::{Padded, box_of};
use super::multigrid::Scale;
use super::source::Source;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{Address, CellArgs, DenseArgs, PairArgs, Sum};
use crate::backend::reference::dpcg::grids::{self, Hierarchy};
use crate::error::{Result, push};
use crate::grid::cells::SevenPoints;
use crate::runtime::number::Real;
use bytemuck::Pod;

/// For errors.
const GRIDS: &str = "the grids of multigrid";

/// A coarse grid.
struct Grid {
    /// With its matrix and vectors.
    arguments: CellArgs,
    /// Cells of the next finer grid that a cell has in each direction.
    ratio: [i32; 3],
    /// Center, forward, r, x.
    arrays: Padded,
}

/// The preconditioner.
pub struct CellCentred {
    sweeps: usize,
    single: bool,
    /// What coarse matrices are divided by.
    unit: f64,
    grids: Vec<Grid>,
    /// Of the coarsest grid.
    inverse: Memory,
    n: i32,
}

impl Grid {
    fn new<T: Real + Pod>(stream: &Stream, grid: &grids::Grid<T>) -> Result<Self> {
        let (points, n) = (grid.points(), grid.cells.count());
        let arrays = Padded::zeroed(stream, 6, n, grid.cells.plane(), size_of::<T>(), GRIDS)?;
        stream.send(arrays.at(0), points.center)?;
        for (d, forward) in points.forward.into_iter().enumerate() {
            stream.send(arrays.at(1 + d), forward)?;
        }
        stream.wait()?;
        let arguments = CellArgs {
            cells: box_of(grid.cells),
            center: arrays.at(0),
            forward: [arrays.at(1), arrays.at(2), arrays.at(3)],
            r: arrays.at(4),
            x: arrays.at(5),
            colour: 0,
            from_zero: 0,
        };
        Ok(Self { arguments, ratio: grid.ratio.map(|n| n as i32), arrays })
    }
}

impl CellCentred {
    /// For a matrix; `T`: the numbers of coarse grids.
    pub fn new<T: Real + Pod>(stream: &Stream, a: &SevenPoints, sweeps: usize, coarsest: usize) -> Result<Self> {
        let made = Hierarchy::<T>::new(a, coarsest)?;
        let mut grids = Vec::new();
        for grid in &made.grids {
            push(&mut grids, Grid::new(stream, grid)?, GRIDS)?;
        }
        let n = made.grids.last().map_or(a.cells, |grid| grid.cells).count();
        let of_coarsest = made.coarsest_inverse(n)?;
        let inverse = Memory::zeroed(stream.device(), stream, size_of_val(&*of_coarsest), GRIDS)?;
        stream.send(inverse.address, &of_coarsest)?;
        stream.wait()?;
        let n = n as i32;
        Ok(Self { sweeps, single: size_of::<T>() == 4, unit: made.unit, grids, inverse, n })
    }

    /// z = M^-1 r.
    pub fn apply(&self, stream: &Stream, source: &Source, scale: &Scale, r: Address, z: Address) -> Result<()> {
        let m = source.m;
        let forward = [m.east, m.north, m.top];
        let finest = CellArgs { cells: source.cells, center: m.center, forward, r, x: z, colour: 0, from_zero: 0 };
        let Some(last) = self.grids.last() else { return self.solve_coarsest(stream, &finest, false) };
        scale.find(stream, r, source.cells.count())?;
        self.smooth_first(stream, &finest, false)?;
        self.restrict(stream, &finest, 0, scale)?;
        for (l, grid) in self.grids.iter().enumerate().take(self.grids.len() - 1) {
            self.smooth_first(stream, &grid.arguments, self.single)?;
            self.restrict(stream, &grid.arguments, l + 1, scale)?;
        }
        self.solve_coarsest(stream, &last.arguments, self.single)?;
        for l in (1..self.grids.len()).rev() {
            let grid = &self.grids[l - 1].arguments;
            self.interpolate(stream, grid, l, scale)?;
            self.smooth_last(stream, grid, self.single)?;
        }
        self.interpolate(stream, &finest, 0, scale)?;
        self.smooth_last(stream, &finest, false)
    }

    /// Sweeps before the coarse grid, from zero.
    fn smooth_first(&self, stream: &Stream, grid: &CellArgs, single: bool) -> Result<()> {
        for sweep in 0..self.sweeps {
            let from_zero = i32::from(sweep == 0);
            launch::relax_cells(stream, single, &CellArgs { colour: 0, from_zero, ..*grid })?;
            launch::relax_cells(stream, single, &CellArgs { colour: 1, ..*grid })?;
        }
        Ok(())
    }

    /// Sweeps after it: the same in reverse.
    fn smooth_last(&self, stream: &Stream, grid: &CellArgs, single: bool) -> Result<()> {
        for _ in 0..self.sweeps {
            launch::relax_cells(stream, single, &CellArgs { colour: 1, ..*grid })?;
            launch::relax_cells(stream, single, &CellArgs { colour: 0, ..*grid })?;
        }
        Ok(())
    }

    /// From a grid to coarse grid l: the caller's grid has residuals scaled for the others.
    fn pair(&self, fine: &CellArgs, l: usize, of_coarse: Address, scale: &Scale) -> PairArgs {
        let grid = &self.grids[l];
        let (scales, factor) = if l == 0 { (scale.scales, self.unit.recip()) } else { (0, 1.0) };
        PairArgs { fine: *fine, coarse: grid.arguments.cells, ratio: grid.ratio, unused: 0, of_coarse, scales, factor }
    }

    fn restrict(&self, stream: &Stream, fine: &CellArgs, l: usize, scale: &Scale) -> Result<()> {
        let a = self.pair(fine, l, self.grids[l].arguments.r, scale);
        if l == 0 && self.single {
            launch::restrict_cells_to(stream, &a)
        } else {
            launch::restrict_cells(stream, self.single, &a)
        }
    }

    fn interpolate(&self, stream: &Stream, fine: &CellArgs, l: usize, scale: &Scale) -> Result<()> {
        let a = self.pair(fine, l, self.grids[l].arguments.x, scale);
        if l == 0 && self.single {
            launch::interpolate_cells_from(stream, &a)
        } else {
            launch::interpolate_cells(stream, self.single, &a)
        }
    }

    fn solve_coarsest(&self, stream: &Stream, grid: &CellArgs, single: bool) -> Result<()> {
        let &CellArgs { r, x, .. } = grid;
        let (matrix, n) = (self.inverse.address, self.n);
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
        self.grids.iter().map(|grid| grid.arrays.bytes()).sum::<usize>() + self.inverse.bytes
    }
}
