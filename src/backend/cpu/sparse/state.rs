//! What the members of a team share in a run on a general matrix.

use super::chunks::Chunks;
use super::precondition::Preconditioner;
use super::relaxation::Relaxation;
use crate::backend::cpu::observed::Observed;
use crate::backend::steps::vectors::VectorId;
use crate::error::{Result, reserve};
use crate::runtime::reduce::Noted;
use crate::runtime::shared::Shared;

/// Inner products of one pass over a vector: as many are noted for a chunk at once.
pub const GROUP: usize = 4;

/// Vectors and M of a matrix of so many rows.
pub struct State {
    pub chunks: Chunks,
    /// By their numbers ([`VectorId`]).
    vectors: Vec<Shared>,
    /// Sums over chunks.
    pub noted: Noted,
    /// None: M = I.
    pub precondition: Option<Preconditioner>,
    /// M after a breakdown.
    pub second: Option<Preconditioner>,
    /// Of a method that sweeps.
    pub relaxation: Option<Relaxation>,
    pub observed: Observed,
}

impl State {
    /// Without M, with x, b and r.
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

    /// Room for `own` vectors beside x, b and r.
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

    /// Vectors may hold infinities, which 0 times would not take away.
    ///
    /// # Safety
    /// No run may be on.
    pub unsafe fn clear(&self) {
        for vector in &self.vectors {
            // SAFETY: as the caller promised.
            unsafe { vector.clear() };
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        let of_vectors = self.vectors.iter().map(Shared::bytes).sum::<usize>();
        let of_m = [&self.precondition, &self.second].into_iter().flatten().map(|m| m.bytes()).sum::<usize>();
        let of_sweeps = self.relaxation.as_ref().map_or(0, Relaxation::bytes);
        of_vectors + 2 * self.noted.bytes() + of_m + of_sweeps
    }
}
