//! Data that the threads of a team share during a run on a general matrix.

use super::chunks::Chunks;
use super::precondition::Preconditioner;
use super::relaxation::Relaxation;
use crate::base::reduce::Noted;
use crate::base::shared::Shared;
use crate::error::{Result, reserve};
use crate::krylov::cpu::observed::Observed;
use crate::krylov::vectors::VectorId;

/// Maximum number of inner products per pass over a vector; the partial sums of a chunk are stored together.
pub const GROUP: usize = 4;

/// Vectors and preconditioners of a system.
pub struct State {
    pub chunks: Chunks,
    /// Vectors, indexed by [`VectorId`].
    vectors: Vec<Shared>,
    /// Workspace for sums over chunks.
    pub noted: Noted,
    /// Preconditioner M; `None` means M = I.
    pub precondition: Option<Preconditioner>,
    /// Preconditioner of the second method, which continues after a breakdown.
    pub second: Option<Preconditioner>,
    /// Sweeps of a relaxation method.
    pub relaxation: Option<Relaxation>,
    pub observed: Observed,
}

impl State {
    /// Allocates x, b and r.
    pub fn new(rows: usize) -> Result<Self> {
        let chunks = Chunks::new(rows);
        let mut state = Self {
            chunks,
            vectors: Vec::new(),
            noted: Noted::new(chunks.count(), GROUP)?,
            precondition: None,
            second: None,
            relaxation: None,
            observed: Observed::default(),
        };
        state.reserve(0)?;
        Ok(state)
    }

    /// Allocates `own` vectors in addition to x, b and r.
    pub fn reserve(&mut self, own: usize) -> Result<()> {
        let missing = VectorId::own(own).0.saturating_sub(self.vectors.len());
        reserve(&mut self.vectors, missing, "vectors of a solve")?;
        for _ in 0..missing {
            self.vectors.push(Shared::zeroed(self.chunks.rows)?);
        }
        Ok(())
    }

    pub fn vector(&self, id: VectorId) -> &Shared {
        &self.vectors[id.0]
    }

    /// Sets all vectors to zero. After a breakdown, they may contain infinities, for which multiplication by 0 yields
    /// NaN.
    pub unsafe fn clear(&self) {
        for vector in &self.vectors {
            // SAFETY: guaranteed by the caller.
            unsafe { vector.clear() };
        }
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let of_vectors = self.vectors.iter().map(Shared::bytes).sum::<usize>();
        let of_m = [&self.precondition, &self.second].into_iter().flatten().map(|m| m.bytes()).sum::<usize>();
        let of_sweeps = self.relaxation.as_ref().map_or(0, Relaxation::bytes);
        of_vectors + 2 * self.noted.bytes() + of_m + of_sweeps
    }
}
