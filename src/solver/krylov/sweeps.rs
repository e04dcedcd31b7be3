//! Relaxation as a solver: Jacobi, Gauss-Seidel and SOR in any order of the rows.
//!
//! Source: the 2008 thesis, algorithms 1 and 2, (3.8) to (3.12); the sweep itself is a step.

use super::State;
use crate::backend::steps::vectors::SweepSteps;
use crate::error::Result;
use crate::report::StopReason;

/// Vectors beside x, b and r.
pub const SWEEPS_VECTORS: usize = 0;

/// x = x + N (b - A x), N that of the method, until norm(b - A x) <= threshold: the residual of every sweep is computed
/// from x. A sweep and a product an iteration.
pub fn sweeps<S: SweepSteps + ?Sized>(s: &mut S, at: &mut State) -> Result<StopReason> {
    loop {
        s.sweep(at.iterations);
        let norm = s.residual().sqrt();
        if let Some(reason) = at.observe(s, norm) {
            return Ok(reason);
        }
    }
}
