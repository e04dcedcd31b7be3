//! Data of a factorization on the device: vectors, sums, preconditioners and sweeps.

use super::allocations::Allocations;
use super::precondition::Preconditioner;
use super::relaxation::Relaxation;
use super::vectors::VectorSpec;
use crate::cuda::driver::{Pinned, Stream};
use crate::cuda::launch::{Address, CellBox, MAX_CELL_BLOCKS, SUMS_PER_PASS, Scalars, Sum};
use crate::cuda::looped::{RecordedLoops, SharedScalars};
use crate::cuda::vectors::store_sum_in;
use crate::error::{Result, push};
use crate::krylov::vectors::VectorId;
use crate::stencil::cells::Cells;

/// Vectors, sums, preconditioners and sweeps of a factorization.
pub struct State {
    pub spec: VectorSpec,
    memory: Allocations,
    /// Addresses of the vectors, indexed by [`VectorId`].
    vectors: Vec<Address>,
    /// Address of the residual in f64, which is then rounded to the vector r in f32; 0 if the vectors are in f64.
    pub exact_residual: Address,
    pub scalars: SharedScalars,
    /// Workspace for sums, [`SUMS_PER_PASS`] values per thread block.
    pub partial_sums: Address,
    /// Results of up to [`SUMS_PER_PASS`] inner products, on the device.
    pub inner_products: Address,
    /// Copy of `inner_products` on the host.
    pub inner_products_on_host: Pinned<[f64; SUMS_PER_PASS]>,
    pub preconditioner: Preconditioner,
    /// Preconditioner of the second method, which continues after a breakdown. `None` if there is no such method.
    pub second_preconditioner: Option<Preconditioner>,
    pub relaxation: Option<Relaxation>,
    /// The recorded loop of CG; `None` for other methods.
    pub recorded_loop: Option<RecordedLoops>,
}

impl State {
    /// Allocates `work_vector_count` vectors in addition to x, b and r.
    pub fn new(stream: &Stream, spec: VectorSpec, work_vector_count: usize) -> Result<Self> {
        let mut memory = Allocations::new("the vectors of a solve");
        let scalars_at = memory.zeroed(stream, size_of::<Scalars>())?;
        let mut state = Self {
            spec,
            vectors: Vec::new(),
            exact_residual: if spec.f32_values { memory.zeroed(stream, 8 * spec.rows)? } else { 0 },
            scalars: SharedScalars::new(stream, scalars_at, None)?,
            partial_sums: memory.zeroed(stream, 8 * SUMS_PER_PASS * MAX_CELL_BLOCKS as usize)?,
            inner_products: memory.zeroed(stream, 8 * SUMS_PER_PASS)?,
            inner_products_on_host: Pinned::new(stream.device(), [0.0; SUMS_PER_PASS])?,
            preconditioner: Preconditioner::None,
            second_preconditioner: None,
            relaxation: None,
            recorded_loop: None,
            memory,
        };
        state.reserve(stream, work_vector_count)?;
        Ok(state)
    }

    /// Allocates the vectors that are missing: x, b, r and `work_vector_count` work vectors.
    pub fn reserve(&mut self, stream: &Stream, work_vector_count: usize) -> Result<()> {
        while self.vectors.len() < VectorId::work(work_vector_count).0 {
            let vector = self.memory.zeroed(stream, self.vector_bytes(self.vectors.len()))?;
            push(&mut self.vectors, vector, "vectors of a solve")?;
        }
        Ok(())
    }

    /// Returns the size in bytes of vector `index`.
    fn vector_bytes(&self, index: usize) -> usize {
        let is_f64 = [VectorId::X, VectorId::B].contains(&VectorId(index));
        if is_f64 { 8 * self.spec.rows } else { self.spec.bytes() }
    }

    /// Returns the address of a vector.
    pub fn vector(&self, v: VectorId) -> Address {
        self.vectors[v.0]
    }

    /// Returns the extents of a vector, as a grid with a single row, for host code.
    pub fn cells(&self) -> Cells {
        Cells { nx: self.spec.rows, ny: 1, nz: 1 }
    }

    /// Returns the extents of a vector, as a grid with a single row, for kernels.
    pub fn box_of(&self) -> CellBox {
        box_of(self.spec.rows)
    }

    /// Returns the arguments of a sum whose result is stored at byte offset `offset` in the scalars.
    pub fn sum_to(&self, offset: usize) -> Sum {
        store_sum_in(self.partial_sums, self.scalars.address, offset)
    }

    /// Sets all vectors to zero. After a breakdown, they may contain infinities, and the product of 0 and infinity is
    /// NaN.
    pub fn clear(&self, stream: &Stream) -> Result<()> {
        let mut indexed_vectors = self.vectors.iter().enumerate();
        indexed_vectors.try_for_each(|(index, vector)| stream.fill(*vector, 0, self.vector_bytes(index)))
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
            + self.preconditioner.bytes()
            + self.second_preconditioner.as_ref().map_or(0, Preconditioner::bytes)
            + self.relaxation.as_ref().map_or(0, Relaxation::bytes)
    }
}

/// Returns the extents of a grid with a single row of `count` cells.
pub fn box_of(count: usize) -> CellBox {
    CellBox { nx: count as i32, ny: 1, nz: 1, unused: 0 }
}
