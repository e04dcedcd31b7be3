//! V-cycle of multigrid with cell coarsening on a device, for the grids of `cell_grids` (docs/theory/dpcg.md;
//! kernels/dpcg/cell.cuh).

use super::cell_grids::{Grid, build_grids};
use super::dense::DenseInverse;
use super::multigrid::GridsAndInverse;
use super::source::DeviceMatrix;
use crate::cuda::arrays::Pool;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{Address, CellArgs, DenseArgs, GridTransferArgs};
use crate::cuda::vectors::Scale;
use crate::error::Result;

/// The preconditioner: one V-cycle that starts from zero.
pub struct CellMultigrid {
    sweeps: usize,
    is_single_precision: bool,
    /// Power of two by which coarse matrices are multiplied.
    matrix_scale: f64,
    grids: Vec<Grid>,
    /// Inverse of the coarsest matrix.
    inverse: DenseInverse,
}

impl CellMultigrid {
    /// Builds the preconditioner. Coarse matrices are multiplied by `matrix_scale`. `is_single_precision`: coarse grids
    /// use f32.
    pub fn new(
        pool: &mut Pool,
        stream: &Stream,
        source: &DeviceMatrix,
        (scalars, matrix_scale): (Address, f64),
        is_single_precision: bool,
        (sweeps, max_coarsest_cells): (usize, usize),
    ) -> Result<Self> {
        let GridsAndInverse { grids, inverse } =
            build_grids(pool, stream, source, (scalars, matrix_scale), is_single_precision, max_coarsest_cells)?;
        Ok(Self { sweeps, is_single_precision, matrix_scale, grids, inverse })
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        self.grids.into_iter().try_for_each(|grid| pool.release(grid.arrays.into_memory()))?;
        self.inverse.release(pool)
    }

    /// Computes z = M^-1 r.
    pub fn apply(&self, stream: &Stream, source: &DeviceMatrix, scale: &Scale, r: Address, z: Address) -> Result<()> {
        let m = source.m;
        let forward = [m.east, m.north, m.top];
        let finest = CellArgs { cells: source.cells, center: m.center, forward, r, x: z, colour: 0, from_zero: 0 };
        let Some(coarsest_grid) = self.grids.last() else { return self.solve_coarsest(stream, &finest, false) };
        scale.find_scale(stream, r, source.cells.count())?;
        self.presmooth(stream, &finest, false)?;
        self.restrict(stream, &finest, 0, scale)?;
        for (l, grid) in self.grids.iter().enumerate().take(self.grids.len() - 1) {
            self.presmooth(stream, &grid.cell_args, self.is_single_precision)?;
            self.restrict(stream, &grid.cell_args, l + 1, scale)?;
        }
        self.solve_coarsest(stream, &coarsest_grid.cell_args, self.is_single_precision)?;
        for l in (1..self.grids.len()).rev() {
            let grid = &self.grids[l - 1].cell_args;
            self.interpolate(stream, grid, l, scale)?;
            self.postsmooth(stream, grid, self.is_single_precision)?;
        }
        self.interpolate(stream, &finest, 0, scale)?;
        self.postsmooth(stream, &finest, false)
    }

    /// Executes the sweeps before the coarse-grid correction, from x = 0, with red cells first.
    fn presmooth(&self, stream: &Stream, grid: &CellArgs, is_single_precision: bool) -> Result<()> {
        for sweep in 0..self.sweeps {
            let from_zero = i32::from(sweep == 0);
            launch::relax_cells(stream, is_single_precision, &CellArgs { colour: 0, from_zero, ..*grid })?;
            launch::relax_cells(stream, is_single_precision, &CellArgs { colour: 1, ..*grid })?;
        }
        Ok(())
    }

    /// Executes the sweeps after the coarse-grid correction. The order of the colours is reversed, so that M is
    /// symmetric.
    fn postsmooth(&self, stream: &Stream, grid: &CellArgs, is_single_precision: bool) -> Result<()> {
        for _ in 0..self.sweeps {
            launch::relax_cells(stream, is_single_precision, &CellArgs { colour: 1, ..*grid })?;
            launch::relax_cells(stream, is_single_precision, &CellArgs { colour: 0, ..*grid })?;
        }
        Ok(())
    }

    /// Returns the arguments of the transfer between `fine` and coarse grid l. Residuals of the finest grid are scaled
    /// for the coarse grids.
    fn transfer_args(&self, fine: &CellArgs, l: usize, coarse_vector: Address, scale: &Scale) -> GridTransferArgs {
        let grid = &self.grids[l];
        let ratio = grid.coarsening_ratio.map(|n| n as i32);
        let (scales, factor) = if l == 0 { (scale.scales, self.matrix_scale) } else { (0, 1.0) };
        GridTransferArgs { fine: *fine, coarse: grid.cell_args.cells, ratio, unused: 0, coarse_vector, scales, factor }
    }

    /// Restricts the residual of `fine` to coarse grid l: each coarse value is the sum over its fine cells. Only red
    /// cells contribute, since the last half-sweep has made the residual of black cells zero.
    fn restrict(&self, stream: &Stream, fine: &CellArgs, l: usize, scale: &Scale) -> Result<()> {
        let args = self.transfer_args(fine, l, self.grids[l].cell_args.r, scale);
        if l == 0 && self.is_single_precision {
            launch::restrict_cells_to(stream, &args)
        } else {
            launch::restrict_cells(stream, self.is_single_precision, &args)
        }
    }

    /// Adds the solution of coarse grid l to x of `fine`: the interpolation is constant on each coarse cell.
    fn interpolate(&self, stream: &Stream, fine: &CellArgs, l: usize, scale: &Scale) -> Result<()> {
        let args = self.transfer_args(fine, l, self.grids[l].cell_args.x, scale);
        if l == 0 && self.is_single_precision {
            launch::interpolate_cells_from(stream, &args)
        } else {
            launch::interpolate_cells(stream, self.is_single_precision, &args)
        }
    }

    /// Computes x = A^-1 r on the coarsest grid.
    fn solve_coarsest(&self, stream: &Stream, grid: &CellArgs, is_single_precision: bool) -> Result<()> {
        let &CellArgs { r, x, .. } = grid;
        let (matrix, n) = (self.inverse.matrix(), self.inverse.n() as i32);
        let args = DenseArgs { matrix, input: r, out: x, n, ..DenseArgs::default() };
        if is_single_precision {
            launch::multiply_dense_f32(stream, &args)
        } else {
            launch::multiply_dense(stream, &args)
        }
    }

    /// Sets r and x of all coarse grids to zero.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        self.grids.iter().try_for_each(|grid| {
            let value_bytes = if self.is_single_precision { size_of::<f32>() } else { size_of::<f64>() };
            stream.fill(grid.cell_args.r, 0, 2 * value_bytes * grid.arrays.stride())
        })
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.grids.iter().map(|grid| grid.arrays.bytes()).sum::<usize>() + self.inverse.bytes()
    }
}
