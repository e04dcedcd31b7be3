//! Deflated PCG on 7 points: its preconditioners as plain loops.

pub mod cell;
pub mod incomplete;
mod solve;

pub use solve::Reference;

use crate::backend::steps::dpcg::Preconditioner;
use crate::error::{Error, Result};
use crate::grid::cells::SevenPoints;
use incomplete::Incomplete;

/// A preconditioner that is applied as a whole, by one thread.
pub enum Applied {
    /// An incomplete factorization.
    Incomplete(Incomplete),
}

impl Applied {
    /// Makes it of a matrix; none for those that are applied cell by cell.
    pub fn new(preconditioner: Preconditioner, a: &SevenPoints) -> Result<Option<Self>> {
        Ok(Some(match preconditioner {
            Preconditioner::Incomplete { omega } => Self::Incomplete(Incomplete::factorize(a, omega)?),
            Preconditioner::Multigrid { .. } => return Err(Error::Unsupported("multigrid".into())),
            _ => return Ok(None),
        }))
    }

    /// z = M^-1 r.
    pub fn apply(&mut self, a: &SevenPoints, r: &[f64], z: &mut [f64]) {
        match self {
            Self::Incomplete(incomplete) => incomplete.apply(a, r, z),
        }
    }
}
