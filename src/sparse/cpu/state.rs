//! Data of a factorization, which the threads of a team share during a solve.

use super::precondition::Preconditioner;
use super::relaxation::Relaxation;
use crate::error::Result;
use crate::krylov::cpu::chunks::{CHUNK_ROWS, Chunks};
use crate::krylov::cpu::workspace::{Lines, Workspace};

/// Vectors, preconditioners and sweeps of a factorization.
pub struct State {
    pub vectors: Workspace,
    /// Preconditioner M; `None` means M = I.
    pub preconditioner: Option<Preconditioner>,
    /// Preconditioner of the second method, which continues after a breakdown.
    pub second_preconditioner: Option<Preconditioner>,
    /// Sweeps of a relaxation method; `None` for other methods.
    pub relaxation: Option<Relaxation>,
}

impl State {
    /// Allocates x, b and r. The caller's arrays are copied line by line ([`Lines`]). In this family, a line is a chunk
    /// of a vector.
    pub fn new(rows: usize) -> Result<Self> {
        let chunks = Chunks::new(rows);
        let lines = Lines { count: chunks.count(), len: CHUNK_ROWS, first_index: 0, stride: CHUNK_ROWS };
        let vectors = Workspace::new(chunks, lines)?;
        Ok(Self { vectors, preconditioner: None, second_preconditioner: None, relaxation: None })
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let preconditioner_bytes =
            [&self.preconditioner, &self.second_preconditioner].into_iter().flatten().map(|m| m.bytes()).sum::<usize>();
        let relaxation_bytes = self.relaxation.as_ref().map_or(0, Relaxation::bytes);
        self.vectors.bytes() + preconditioner_bytes + relaxation_bytes
    }
}
