//! Reference implementation of deflated PCG for 7-point matrices: preconditioners and steps as plain loops.

pub mod cell;
pub mod grids;
pub mod incomplete;
pub mod points;
mod solve;
pub mod vertex;

pub use solve::Reference;

use crate::backend::steps::dpcg::Preconditioner;
use crate::error::{Error, Result};
use crate::grid::cells::SevenPoints;
use cell::CellCentred;
use incomplete::Incomplete;
use vertex::Vertex;

/// Preconditioners other than Jacobi and the Neumann series.
pub enum Applied {
    /// An incomplete Cholesky factorization.
    Incomplete(Incomplete),
    /// Multigrid with vertex coarsening; single precision.
    Vertex32(Vertex<f32>),
    /// Multigrid with vertex coarsening; double precision.
    Vertex64(Vertex<f64>),
    /// Multigrid with cell coarsening; coarse grids in single precision.
    Cell32(CellCentred<f32>),
    /// Multigrid with cell coarsening; double precision.
    Cell64(CellCentred<f64>),
}

impl Applied {
    /// Computes the preconditioner of a matrix, or returns `None` for `None`, `Jacobi` and `Neumann`.
    pub fn new(preconditioner: Preconditioner, a: &SevenPoints) -> Result<Option<Self>> {
        Ok(Some(match preconditioner {
            Preconditioner::Incomplete { omega } => Self::Incomplete(Incomplete::factorize(a, omega)?),
            Preconditioner::Multigrid { vertex, sweeps, single, coarsest } => match (vertex, single) {
                (true, true) => Self::Vertex32(Vertex::new(a, sweeps)?),
                (true, false) => Self::Vertex64(Vertex::new(a, sweeps)?),
                (false, true) => Self::Cell32(CellCentred::new(a, sweeps, coarsest)?),
                (false, false) => Self::Cell64(CellCentred::new(a, sweeps, coarsest)?),
            },
            Preconditioner::Aggregation { .. } => {
                return Err(Error::Internal("aggregation is not available with backend=reference".to_owned()));
            }
            _ => return Ok(None),
        }))
    }

    /// Computes z = M^-1 r.
    pub fn apply(&mut self, a: &SevenPoints, r: &[f64], z: &mut [f64]) {
        match self {
            Self::Incomplete(incomplete) => incomplete.apply(a, r, z),
            Self::Vertex32(multigrid) => multigrid.apply(a, r, z),
            Self::Vertex64(multigrid) => multigrid.apply(a, r, z),
            Self::Cell32(multigrid) => multigrid.apply(a, r, z),
            Self::Cell64(multigrid) => multigrid.apply(a, r, z),
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Incomplete(incomplete) => incomplete.bytes(),
            Self::Vertex32(multigrid) => multigrid.bytes(),
            Self::Vertex64(multigrid) => multigrid.bytes(),
            Self::Cell32(multigrid) => multigrid.bytes(),
            Self::Cell64(multigrid) => multigrid.bytes(),
        }
    }
}
