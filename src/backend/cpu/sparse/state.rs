//! What the members of a team share in a run on a general matrix.

use super::chunks::Chunks;
use super::precondition::Precondition;
use super::relaxation::Relaxation;
use crate::backend::steps::solve::Inputs;
use crate::backend::steps::vectors::VectorId;
use crate::error::{Result, reserve};
use crate::runtime::reduce::Noted;
use crate::runtime::shared::Shared;
use crate::sparse::Stored;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// Inner products of one pass over a vector: as many are noted for a chunk at once.
pub const GROUP: usize = 4;

/// A square matrix, as a solve multiplies with it.
#[derive(Clone, Copy)]
pub struct Operator<'a> {
    pub a: &'a dyn Stored,
    /// A' where it is another matrix and was copied: A itself where that is symmetric. None: products with A' come from
    /// the format of A, as a whole.
    pub transposed: Option<&'a dyn Stored>,
}

/// Vectors and M of a matrix of so many rows.
pub struct State {
    pub chunks: Chunks,
    /// By their numbers ([`VectorId`]).
    vectors: Vec<Shared>,
    /// Sums over chunks.
    pub noted: Noted,
    /// None: M = I.
    pub precondition: Option<Box<dyn Precondition>>,
    /// Of a method that sweeps.
    pub relaxation: Option<Relaxation>,
    pub inputs: Mutex<Inputs>,
    pub may_stop: AtomicBool,
    pub stop: AtomicBool,
}

impl State {
    /// With `own` vectors beside x, b and r.
    pub fn new(rows: usize, own: usize, precondition: Option<Box<dyn Precondition>>) -> Result<Self> {
        let chunks = Chunks::new(rows);
        let mut vectors = Vec::new();
        let count = VectorId::own(own).0;
        reserve(&mut vectors, count, "vectors of a solve")?;
        for _ in 0..count {
            vectors.push(Shared::zeroed(rows)?);
        }
        Ok(Self {
            chunks,
            vectors,
            noted: Noted::new(chunks.count(), GROUP)?,
            precondition,
            relaxation: None,
            inputs: Mutex::new(Inputs::none()),
            may_stop: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
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
        let of_sweeps = self.relaxation.as_ref().map_or(0, Relaxation::bytes);
        of_vectors + 2 * self.noted.bytes() + self.precondition.as_ref().map_or(0, |m| m.bytes()) + of_sweeps
    }
}
