//! Dense symmetric positive semidefinite matrices on the device and their inverses: E, and the coarsest matrix of
//! multigrid (kernels/common/inverse.cuh, kernels/dpcg/dense.cuh).

use crate::cuda::arrays::Pool;
use crate::cuda::driver::{Memory, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{Address, DenseArgs, MAX_UNKNOWNS, MAX_VECTORS, NullVectorArgs, PIVOTS, Sum, VectorArgs};
use crate::error::Result;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "the inverse of a coarse matrix";

/// A dense matrix, which `invert` replaces by its inverse.
pub struct DenseInverse {
    memory: Memory,
    n: usize,
    /// Two buffers; the first one contains the matrix, or later its inverse.
    buffers: [Address; 2],
    pivots: Address,
    /// Diagonal of the matrix.
    pub diagonal: Address,
    /// For each unknown, the number of the null vector to which it belongs, counted from 1; 0 if it belongs to none.
    /// Bit 31 marks one unknown per null vector: the unknown that is removed.
    pub null_vector_of: Address,
    /// Number of null vectors.
    pub null_vector_count: Address,
    /// Two numbers for each null vector u: 1 / (c k^2) with k = u^T u, and the factor c of the shift c u u^T (see
    /// [`Self::project_inverse`]).
    shift: Address,
    /// Two numbers: the largest magnitude in the inverse, and the largest diagonal entry of the matrix with its shifts.
    largest: Address,
}

impl DenseInverse {
    /// Largest number of unknowns of a coarsest grid.
    pub const MAX_COARSEST_UNKNOWNS: usize = MAX_UNKNOWNS as usize;
    /// Largest number of unknowns of E.
    pub const MAX_DEFLATION_VECTORS: usize = MAX_VECTORS as usize;

    /// Allocates a zero matrix without null vectors. `workspace` is the address of n^2 values, which are used until
    /// [`Self::copy_from_workspace`] is called.
    pub fn zeroed(pool: &mut Pool, stream: &Stream, n: usize, workspace: Option<Address>) -> Result<Self> {
        let matrix_bytes = 8 * n * n;
        let workspace_bytes = if workspace.is_some() { 0 } else { matrix_bytes };
        // There are two numbers per null vector, and at most as many null vectors as unknowns.
        let sizes = [matrix_bytes, workspace_bytes, 16 * (PIVOTS * PIVOTS) as usize, 8 * n, 4 * n, 4, 16 * n, 16];
        let (memory, [matrix, workspace_address, pivots, diagonal, null_vector_of, null_vector_count, shift, largest]) =
            pool.allocate_lists(stream, sizes, ALLOCATION_NAME)?;
        stream.fill(memory.address, 0, memory.bytes)?;
        let buffers = [matrix, workspace.unwrap_or(workspace_address)];
        Ok(Self { memory, n, buffers, pivots, diagonal, null_vector_of, null_vector_count, shift, largest })
    }

    /// Copies the inverse from the workspace to the memory of this object.
    pub fn copy_from_workspace(&mut self, stream: &Stream) -> Result<()> {
        let own_address = self.memory.address;
        if self.buffers[0] != own_address {
            self.multiply_by(stream, 1.0)?;
        }
        self.buffers = [own_address; 2];
        Ok(())
    }

    /// Adds the memory of this object to the pool for the next factorization. The current factorization does not reuse
    /// this memory.
    pub fn save_for_next(self, pool: &mut Pool) -> Result<()> {
        pool.save_for_next(self.memory)
    }

    /// Copies an inverse, of any size, from the host to the device.
    pub fn from_host(pool: &mut Pool, stream: &Stream, inverse: &[f64]) -> Result<Self> {
        let (memory, [matrix]) = pool.allocate_lists(stream, [size_of_val(inverse)], ALLOCATION_NAME)?;
        stream.send(matrix, inverse)?;
        stream.wait()?;
        let (n, buffers) = (inverse.len().isqrt(), [matrix; 2]);
        Ok(Self {
            memory,
            n,
            buffers,
            pivots: 0,
            diagonal: 0,
            null_vector_of: 0,
            null_vector_count: 0,
            shift: 0,
            largest: 0,
        })
    }

    /// Returns the memory to the pool.
    pub fn release(self, pool: &mut Pool) -> Result<()> {
        pool.release(self.memory)
    }

    /// Returns the number of unknowns.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Returns the address of the matrix, or of its inverse after `invert`.
    pub fn matrix(&self) -> Address {
        self.buffers[0]
    }

    /// Inverts the matrix. Rows and columns of removed unknowns remain zero.
    pub fn invert(&mut self, stream: &Stream) -> Result<()> {
        launch::aggregation::invert(stream, (&mut self.buffers, self.diagonal, self.pivots, self.n))
    }

    fn null_vector_args(&self, adds_shift: bool) -> NullVectorArgs {
        let [source, target] = self.buffers;
        let Self { diagonal, null_vector_of, null_vector_count, shift, largest, .. } = *self;
        NullVectorArgs {
            source,
            target,
            diagonal,
            null_vector_of,
            null_vector_count,
            shift,
            largest,
            n: self.n as i32,
            adds_shift: i32::from(adds_shift),
        }
    }

    /// Replaces the inverse G by Q G Q with Q = I - u u^T / k and k = u^T u, for each null vector u. The result is the
    /// pseudoinverse. With `adds_shift`, also adds u u^T / (c k^2), which results in the inverse of A + c u u^T.
    pub fn project_inverse(&mut self, stream: &Stream, adds_shift: bool) -> Result<()> {
        if adds_shift {
            launch::find_shifts(stream, &self.null_vector_args(false))?;
        }
        for adds_shift in [false, adds_shift] {
            launch::aggregation::project_inverse(stream, &self.null_vector_args(adds_shift))?;
            self.buffers.reverse();
        }
        Ok(())
    }

    /// Multiplies the inverse by a number.
    pub fn multiply_by(&mut self, stream: &Stream, factor: f64) -> Result<()> {
        let ([input_buffer, output_buffer], count) = (self.buffers, self.n * self.n);
        stream.fill(output_buffer, 0, 8 * count)?;
        let args =
            VectorArgs { count: count as i64, a: input_buffer, out: output_buffer, factor, ..VectorArgs::default() };
        launch::cell_add_scaled(stream, &args)?;
        self.buffers.reverse();
        Ok(())
    }

    /// Waits, and returns max_r (A_rr + c) times the largest magnitude in the inverse. Here c is the factor of the
    /// shift of the null vector to which unknown r belongs, or 0 if there is no such null vector.
    pub fn condition(&self, stream: &Stream) -> Result<f64> {
        launch::find_condition(stream, &self.null_vector_args(false))?;
        let mut largest = [0.0; 2];
        stream.fetch(&mut largest, self.largest)?;
        stream.wait()?;
        Ok(largest[0] * largest[1])
    }

    /// Computes out = A^-1 input, and <input, out> as the reduction `sum`. Adds the time of the product in ns to the
    /// value at `clock`.
    pub fn multiply(&self, stream: &Stream, input: Address, out: Address, clock: Address, sum: Sum) -> Result<()> {
        let (matrix, n) = (self.matrix(), self.n as i32);
        launch::multiply_dense(stream, &DenseArgs { matrix, input, out, n, unused: 0, clock, sum })
    }

    /// Returns the allocated device memory in bytes.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}
