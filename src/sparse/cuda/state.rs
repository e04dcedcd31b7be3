//! Data of a factorization on the device: vectors, sums, preconditioners and sweeps.

use super::allocations::Allocations;
use super::precondition::Preconditioner;
use super::relaxation::Relaxation;
use super::vectors::Vectors;
use crate::cuda::driver::{Pinned, Stream};
use crate::cuda::launch::{Address, CellBox, MOST_CELL_BLOCKS, SUMS_PER_PASS, Scalars, Sum};
use crate::cuda::looped::{Recorded, SharedScalars};
use crate::cuda::vectors::sum_to;
use crate::error::{Result, push};
use crate::krylov::vectors::VectorId;
use crate::stencil::cells::Cells;

/// Vectors, sums, preconditioners and sweeps of a factorization.
pub struct State {
    pub of: Vectors,
    memory: Allocations,
    /// Vectors, indexed by [`VectorId`].
    vectors: Vec<Address>,
    /// A residual in f64, before it is rounded to a vector in f32; 0 if the vectors are in f64.
    pub exact: Address,
    pub scalars: SharedScalars,
    /// Partial sums, [`SUMS_PER_PASS`] per thread block.
    pub partial: Address,
    /// Results of up to [`SUMS_PER_PASS`] inner products, on the device.
    pub products: Address,
    /// Copy of `products` on the host.
    pub products_here: Pinned<[f64; SUMS_PER_PASS]>,
    pub first: Preconditioner,
    /// Preconditioner of the second method, which continues after a breakdown. `None` if there is no such method.
    pub second: Option<Preconditioner>,
    pub relaxation: Option<Relaxation>,
    /// The recorded loop of CG.
    pub recorded: Option<Recorded>,
}

impl State {
    /// Allocates `own` vectors in addition to x, b and r.
    pub fn new(stream: &Stream, of: Vectors, own: usize) -> Result<Self> {
        let mut memory = Allocations::new("the vectors of a solve");
        let scalars_at = memory.zeroed(stream, size_of::<Scalars>())?;
        let mut state = Self {
            of,
            vectors: Vec::new(),
            exact: if of.f32_values { memory.zeroed(stream, 8 * of.rows)? } else { 0 },
            scalars: SharedScalars::new(stream, scalars_at, None)?,
            partial: memory.zeroed(stream, 8 * SUMS_PER_PASS * MOST_CELL_BLOCKS as usize)?,
            products: memory.zeroed(stream, 8 * SUMS_PER_PASS)?,
            products_here: Pinned::new(stream.device(), [0.0; SUMS_PER_PASS])?,
            first: Preconditioner::None,
            second: None,
            relaxation: None,
            recorded: None,
            memory,
        };
        state.reserve(stream, own)?;
        Ok(state)
    }

    /// Allocates `own` vectors in addition to x, b and r, unless they exist.
    pub fn reserve(&mut self, stream: &Stream, own: usize) -> Result<()> {
        while self.vectors.len() < VectorId::work(own).0 {
            let vector = self.memory.zeroed(stream, self.bytes_of(self.vectors.len()))?;
            push(&mut self.vectors, vector, "vectors of a solve")?;
        }
        Ok(())
    }

    /// Returns the size in bytes of the vector with this number.
    fn bytes_of(&self, number: usize) -> usize {
        let is_wide = [VectorId::X, VectorId::B].contains(&VectorId(number));
        if is_wide { 8 * self.of.rows } else { self.of.bytes() }
    }

    /// Returns the address of a vector.
    pub fn vector(&self, v: VectorId) -> Address {
        self.vectors[v.0]
    }

    /// Returns the extents of a vector as a box of one row.
    pub fn cells(&self) -> Cells {
        Cells { nx: self.of.rows, ny: 1, nz: 1 }
    }

    /// Returns the extents of a vector in the layout that kernels receive.
    pub fn box_of(&self) -> CellBox {
        box_of(self.of.rows)
    }

    /// Returns a sum whose result is stored in the scalar at offset `to`.
    pub fn sum_to(&self, to: usize) -> Sum {
        sum_to(self.partial, self.scalars.at, to)
    }

    /// Sets all vectors to zero. After a breakdown, they may contain infinities, and the product of 0 and infinity is
    /// NaN.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        let mut numbered = self.vectors.iter().enumerate();
        numbered.try_for_each(|(number, vector)| stream.fill(*vector, 0, self.bytes_of(number)))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
            + self.first.bytes()
            + self.second.as_ref().map_or(0, Preconditioner::bytes)
            + self.relaxation.as_ref().map_or(0, Relaxation::bytes)
    }
}

/// Returns the box with one row of `count` cells.
pub fn box_of(count: usize) -> CellBox {
    CellBox { nx: count as i32, ny: 1, nz: 1, unused: 0 }
}
