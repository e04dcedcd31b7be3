//! State that the threads of a solve share: the matrix, its preconditioner and the vectors of PCG.

use super::field::Field;
use crate::base::reduce::Partials;
use crate::base::shared::Shared;
use crate::deflation::cpu::Projection;
use crate::dpcg::backend::Preconditioner;
use crate::dpcg::cpu::unfused::UnfusedPreconditioner;
use crate::error::Result;
use crate::krylov::cpu::means::LabelledRuns;
use crate::krylov::cpu::observed::SharedRunState;
use crate::stencil::cells::StoredMatrix;
use crate::stencil::pieces::Pieces;

/// Vectors of PCG and partial results of reductions.
pub struct Vectors {
    pub b: Field,
    pub x: Field,
    pub r: Field,
    pub p: Field,
    /// A p. With deflation, the unfused steps store P A p; fused passes do so only with aggregation. Also workspace of
    /// the Neumann series and of `back_substitute`.
    pub q: Field,
    /// M^-1 r; in fused passes with Jacobi or a Neumann series, v = D^-1 K r (see `fused`).
    pub z: Field,
    /// Second workspace vector of a Neumann series.
    pub series_vector: Option<Field>,
    /// Partial results of reductions, up to two per piece.
    pub partials: Partials,
}

impl Vectors {
    /// Allocates the vectors. With `has_series`, also allocates `series_vector`.
    pub fn new(pieces: Pieces, has_series: bool) -> Result<Self> {
        let zeroed_field = || Field::new(pieces.cells);
        Ok(Self {
            b: zeroed_field()?,
            x: zeroed_field()?,
            r: zeroed_field()?,
            p: zeroed_field()?,
            q: zeroed_field()?,
            z: zeroed_field()?,
            series_vector: if has_series { Some(zeroed_field()?) } else { None },
            partials: Partials::new(pieces.count(), 2)?,
        })
    }

    /// Returns all vectors.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        [&self.b, &self.x, &self.r, &self.p, &self.q, &self.z].into_iter().chain(&self.series_vector)
    }

    fn bytes(&self) -> usize {
        self.fields().map(Field::bytes).sum::<usize>() + 2 * self.partials.bytes()
    }
}

/// Data of a factorization.
pub struct State {
    pub pieces: Pieces,
    pub matrix: StoredMatrix,
    pub vectors: Vectors,
    pub preconditioner: Preconditioner,
    /// Whether steps are fused into the passes of `fused`. z = M^-1 r is fused only with Jacobi and Neumann series.
    pub uses_fused_passes: bool,
    /// Ring buffers of rows for the fused passes, one set per thread.
    pub row_rings: Shared,
    /// The preconditioner if its application is not fused with passes of PCG; `None` for `Preconditioner::None`,
    /// `Jacobi` and `Neumann`.
    pub unfused_preconditioner: Option<UnfusedPreconditioner>,
    /// Cells of the singular components, grouped by component.
    pub singular_cells: LabelledRuns<usize>,
    pub deflation: Option<Projection>,
    pub observed: SharedRunState,
    /// Time of the coarse solves with E in the last run, in nanoseconds.
    pub coarse_nanos: std::sync::atomic::AtomicU64,
}

impl State {
    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.matrix.bytes()
            + self.vectors.bytes()
            + self.singular_cells.bytes()
            + self.row_rings.bytes()
            + self.unfused_preconditioner.as_ref().map_or(0, UnfusedPreconditioner::bytes)
            + self.deflation.as_ref().map_or(0, Projection::bytes)
    }
}
