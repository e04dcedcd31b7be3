//! Code shared by multigrid with cell coarsening and multigrid with vertex coarsening.

use super::dense::Dense;
use super::source::DeviceMatrix;
use crate::cuda::arrays::Pool;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, CoarsestArgs, MOST_CELL_BLOCKS};
use crate::error::Result;

/// Name of the memory in error messages about failed allocations.
pub const GRIDS: &str = "the grids of multigrid";

/// The grids, and the inverse of the coarsest matrix.
pub struct GridsAndInverse<G> {
    pub grids: Vec<G>,
    pub inverse: Dense,
}

/// Matrix and workspace of a setup, which makes the grids of `scale` times the matrix.
pub struct GridSetup<'a> {
    pub stream: &'a Stream,
    pub source: &'a DeviceMatrix,
    pub scalars: Address,
    /// Power of two by which the matrix is multiplied.
    pub scale: f64,
    /// Whether coarse grids use f32.
    pub single: bool,
    memory: Memory,
    /// Partial sums of the thread blocks.
    pub partial: Address,
    /// Strengths of the directions x, y and z: sums over all rows of the couplings in this direction divided by the
    /// diagonal. With vertex coarsening, the number of rows follows.
    pub strengths: Address,
    /// Row sums of grids with even and with odd numbers, in the pool's workspace. No grid has more points than the
    /// finest one.
    pub row_sums: [Address; 2],
}

impl<'a> GridSetup<'a> {
    /// Allocates the partial sums, and borrows the row sums from the pool.
    pub fn new(
        pool: &mut Pool,
        stream: &'a Stream,
        source: &'a DeviceMatrix,
        (scalars, scale): (Address, f64),
        single: bool,
    ) -> Result<Self> {
        let (memory, [partial, strengths]) = pool.lists(stream, [8 * 4 * MOST_CELL_BLOCKS as usize, 8 * 4], GRIDS)?;
        let row_sums = pool.borrow_pair(source.extents.count())?;
        Ok(Self { stream, source, scalars, scale, single, memory, partial, strengths, row_sums })
    }

    /// Returns the bytes of a value on coarse grids.
    pub fn value_bytes(&self) -> usize {
        if self.single { size_of::<f32>() } else { size_of::<f64>() }
    }

    /// Waits and returns the strengths that were computed last.
    pub fn fetch_strengths(&self) -> Result<[f64; 4]> {
        let mut strengths = [0.0; 4];
        self.stream.fetch(&mut strengths, self.strengths)?;
        self.stream.wait()?;
        Ok(strengths)
    }

    /// Returns the inverse of a coarsest matrix of n unknowns, which `spread` stores densely, or its pseudoinverse if
    /// the matrix is singular.
    pub fn invert(
        &self,
        pool: &mut Pool,
        n: usize,
        spread: fn(&Stream, &CoarsestArgs) -> Result<()>,
        a: CoarsestArgs,
    ) -> Result<Dense> {
        let mut dense = Dense::zeroed(pool, self.stream, n, None)?;
        let (matrix, diagonal, null_vector_of) = (dense.matrix(), dense.diagonal, dense.null_vector_of);
        spread(self.stream, &CoarsestArgs { matrix, diagonal, null_vector_of, ..a })?;
        dense.invert(self.stream)?;
        dense.project_inverse(self.stream, false)?;
        Ok(dense)
    }

    /// Keeps the memory of the partial sums for the next factorization. Returns the grids and the inverse.
    pub fn finish<G>(self, pool: &mut Pool, grids: Vec<G>, inverse: Dense) -> Result<GridsAndInverse<G>> {
        pool.save_for_next(self.memory)?;
        Ok(GridsAndInverse { grids, inverse })
    }
}
