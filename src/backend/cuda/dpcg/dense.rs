//! Dense symmetric positive matrices on the device, and their inverses (kernels/common/inverse.cuh,
//! kernels/dpcg/dense.cuh): E, and the coarsest grid of multigrid.

use super::arrays::Pool;
use crate::backend::cuda::driver::{Memory, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{
    Address, DenseArgs, InverseArgs, MOST_UNKNOWNS, MOST_VECTORS, NullArgs, PIVOTS, Sum, VectorArgs,
};
use crate::error::Result;

/// For errors.
const INVERSE: &str = "the inverse of a coarse matrix";

/// A matrix that becomes its inverse.
pub struct Dense {
    memory: Memory,
    n: usize,
    /// The matrix is in the first of them.
    buffers: [Address; 2],
    pivots: Address,
    /// Its diagonal; of each unknown the null vector that it is a part of, and whether it is left out; how many of
    /// these there are.
    pub diagonal: Address,
    pub null_of: Address,
    pub nulls: Address,
    /// Of null vectors.
    shift: Address,
    largest: Address,
}

impl Dense {
    /// Most unknowns of a coarsest grid, and of E.
    pub const MOST: usize = MOST_UNKNOWNS as usize;
    pub const MOST_VECTORS: usize = MOST_VECTORS as usize;

    /// Room for a matrix of zeros, without null vectors. `work`: n^2 numbers of others until [`Self::settle`].
    pub fn zeroed(pool: &mut Pool, stream: &Stream, n: usize, work: Option<Address>) -> Result<Self> {
        let square = 8 * n * n;
        let own = if work.is_some() { 0 } else { square };
        // Two numbers of a null vector, of which there may be as many as unknowns.
        let sizes = [square, own, 16 * (PIVOTS * PIVOTS) as usize, 8 * n, 4 * n, 4, 16 * n, 16];
        let (memory, [first, second, pivots, diagonal, null_of, nulls, shift, largest]) =
            pool.lists(stream, sizes, INVERSE)?;
        stream.fill(memory.address, 0, memory.bytes)?;
        let buffers = [first, work.unwrap_or(second)];
        Ok(Self { memory, n, buffers, pivots, diagonal, null_of, nulls, shift, largest })
    }

    /// The inverse lies in its own memory from here on.
    pub fn settle(&mut self, stream: &Stream) -> Result<()> {
        let own = self.memory.address;
        if self.buffers[0] != own {
            self.multiply_by(stream, 1.0)?;
        }
        self.buffers = [own; 2];
        Ok(())
    }

    /// Keeps its memory for the next factorization.
    pub fn keep(self, pool: &mut Pool) -> Result<()> {
        pool.keep(self.memory)
    }

    /// An inverse that the host has made, of any size.
    pub fn sent(pool: &mut Pool, stream: &Stream, inverse: &[f64]) -> Result<Self> {
        let (memory, [first]) = pool.lists(stream, [size_of_val(inverse)], INVERSE)?;
        stream.send(first, inverse)?;
        stream.wait()?;
        let (n, buffers) = (inverse.len().isqrt(), [first; 2]);
        Ok(Self { memory, n, buffers, pivots: 0, diagonal: 0, null_of: 0, nulls: 0, shift: 0, largest: 0 })
    }

    /// Its memory, for another one.
    pub fn give(self, pool: &mut Pool) -> Result<()> {
        pool.give(self.memory)
    }

    pub fn n(&self) -> usize {
        self.n
    }

    /// The matrix, or its inverse.
    pub fn matrix(&self) -> Address {
        self.buffers[0]
    }

    /// Inverts it; unknowns that are left out are zero.
    pub fn invert(&mut self, stream: &Stream) -> Result<()> {
        let what = (&mut self.buffers, self.diagonal, self.pivots, self.n);
        InverseArgs::all_steps(what, |a| launch::invert_step(stream, a))
    }

    fn null_args(&self, add: bool) -> NullArgs {
        let [from, to] = self.buffers;
        let Self { diagonal, null_of, nulls, shift, largest, .. } = *self;
        NullArgs { from, to, diagonal, null_of, nulls, shift, largest, n: self.n as i32, add: i32::from(add) }
    }

    /// The part of the inverse without null vectors, before and after it; with `shifted` that of A + c u u^T.
    pub fn complete(&mut self, stream: &Stream, shifted: bool) -> Result<()> {
        if shifted {
            launch::find_shifts(stream, &self.null_args(false))?;
        }
        for add in [false, shifted] {
            launch::take_means(stream, &self.null_args(add))?;
            self.buffers.reverse();
        }
        Ok(())
    }

    /// The inverse times a number.
    pub fn multiply_by(&mut self, stream: &Stream, factor: f64) -> Result<()> {
        let ([from, to], count) = (self.buffers, self.n * self.n);
        stream.fill(to, 0, 8 * count)?;
        let a = VectorArgs { count: count as i64, a: from, out: to, factor, ..VectorArgs::default() };
        launch::cell_add_scaled(stream, &a)?;
        self.buffers.reverse();
        Ok(())
    }

    /// Waits; max A_rr max |A^-1_rs|.
    pub fn condition(&self, stream: &Stream) -> Result<f64> {
        launch::find_condition(stream, &self.null_args(false))?;
        let mut largest = [0.0; 2];
        stream.fetch(&mut largest, self.largest)?;
        stream.wait()?;
        Ok(largest[0] * largest[1])
    }

    /// out = A^-1 input; nanoseconds are added at `clock`.
    pub fn multiply(&self, stream: &Stream, input: Address, out: Address, clock: Address, sum: Sum) -> Result<()> {
        let (matrix, n) = (self.matrix(), self.n as i32);
        launch::dense(stream, &DenseArgs { matrix, input, out, n, unused: 0, clock, sum })
    }

    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}
