//! Code shared by multigrid with cell coarsening and multigrid with vertex coarsening.

use super::dense::DenseInverse;
use super::source::DeviceMatrix;
use crate::cuda::arrays::Pool;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch::{Address, CoarsestArgs, MAX_CELL_BLOCKS};
use crate::error::Result;

/// Name of the memory in error messages about failed allocations.
pub const GRIDS_ALLOCATION: &str = "the grids of multigrid";

/// The grids, and the inverse of the coarsest matrix.
pub struct GridsAndInverse<G> {
    pub grids: Vec<G>,
    pub inverse: DenseInverse,
}

/// Matrix and workspace for the setup of the grids. The grids are computed for `matrix_scale` times the matrix.
pub struct GridSetup<'a> {
    pub stream: &'a Stream,
    pub source: &'a DeviceMatrix,
    pub scalars: Address,
    /// Power of two by which the matrix is multiplied.
    pub matrix_scale: f64,
    /// Whether coarse grids use f32.
    pub is_single_precision: bool,
    memory: Memory,
    /// Address of the partial sums of the thread blocks.
    pub partial_sums: Address,
    /// Address of the strengths of the directions x, y and z. A strength is the sum over all rows of s / diagonal,
    /// where s is the sum of the conductances in this direction; with cell coarsening, s is the magnitude of this sum.
    /// With vertex coarsening, the number of rows follows the strengths.
    pub strengths: Address,
    /// Addresses of two arrays of row sums in the pool's workspace. Grid l uses `row_sums[l % 2]`. Each array has the
    /// size of the finest grid, because no grid has more points.
    pub row_sums: [Address; 2],
}

impl<'a> GridSetup<'a> {
    /// Allocates the memory of the partial sums. The memory of the row sums is the workspace of the pool.
    pub fn new(
        pool: &mut Pool,
        stream: &'a Stream,
        source: &'a DeviceMatrix,
        (scalars, matrix_scale): (Address, f64),
        is_single_precision: bool,
    ) -> Result<Self> {
        let (memory, [partial_sums, strengths]) =
            pool.allocate_lists(stream, [8 * 4 * MAX_CELL_BLOCKS as usize, 8 * 4], GRIDS_ALLOCATION)?;
        let row_sums = pool.borrow_two_arrays(source.extents.count())?;
        Ok(Self {
            stream,
            source,
            scalars,
            matrix_scale,
            is_single_precision,
            memory,
            partial_sums,
            strengths,
            row_sums,
        })
    }

    /// Returns the size in bytes of a value on coarse grids.
    pub fn value_bytes(&self) -> usize {
        if self.is_single_precision { size_of::<f32>() } else { size_of::<f64>() }
    }

    /// Waits and returns the strengths that were computed last.
    pub fn fetch_strengths(&self) -> Result<[f64; 4]> {
        let mut strengths = [0.0; 4];
        self.stream.fetch(&mut strengths, self.strengths)?;
        self.stream.wait()?;
        Ok(strengths)
    }

    /// Returns the inverse of the coarsest matrix, which has n unknowns, or the pseudoinverse if this matrix is
    /// singular. `spread_matrix` launches the kernel that stores the matrix as a dense matrix.
    pub fn invert_coarsest(
        &self,
        pool: &mut Pool,
        n: usize,
        spread_matrix: fn(&Stream, &CoarsestArgs) -> Result<()>,
        args: CoarsestArgs,
    ) -> Result<DenseInverse> {
        let mut dense = DenseInverse::zeroed(pool, self.stream, n, None)?;
        let (matrix, diagonal, null_vector_of) = (dense.matrix(), dense.diagonal, dense.null_vector_of);
        spread_matrix(self.stream, &CoarsestArgs { matrix, diagonal, null_vector_of, ..args })?;
        dense.invert(self.stream)?;
        dense.project_inverse(self.stream, false)?;
        Ok(dense)
    }

    /// Keeps the memory of the partial sums for the next factorization. Returns the grids and the inverse.
    pub fn finish_setup<G>(self, pool: &mut Pool, grids: Vec<G>, inverse: DenseInverse) -> Result<GridsAndInverse<G>> {
        pool.save_for_next(self.memory)?;
        Ok(GridsAndInverse { grids, inverse })
    }
}
