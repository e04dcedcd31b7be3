//! Stationary iterations: Jacobi, Gauss-Seidel and SOR in any order of the rows. The sweep itself is a backend step.
//!
//! Source: the 2008 thesis, algorithms 1 and 2, (3.8) to (3.12).

use super::State;
use crate::error::Result;
use crate::krylov::vectors::{Iterate, SweepSteps};
use crate::report::StopReason;

/// Number of vectors in addition to x, b and r.
pub const SWEEPS_VECTORS: usize = 0;

/// Repeats x = x + N (b - A x) until norm(b - A x) <= threshold. The method defines N, for example N = omega D^-1 for
/// damped Jacobi. Each iteration computes one sweep and then recomputes the residual b - A x.
pub fn sweeps<S: SweepSteps + ?Sized>(s: &mut S, state: &mut State) -> Result<StopReason> {
    loop {
        s.sweep(state.iterations);
        let norm = s.residual(Iterate::X).sqrt();
        if let Some(reason) = state.observe(s, norm) {
            return Ok(reason);
        }
    }
}
