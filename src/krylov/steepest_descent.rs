//! Steepest descent for symmetric positive definite matrices: each step minimizes the energy norm of the error along
//! M^-1 r.
//!
//! Source: the 2008 thesis, section 3.4.1, (3.13) to (3.15); with a preconditioner, Saad 2003, section 5.3.1.

use super::decisions::ROUNDING_FACTOR;
use super::{State, may_divide_by};
use crate::error::{Error, Result};
use crate::krylov::pcg::{RHO_NAME, SIGMA_NAME};
use crate::krylov::vectors::{KrylovSteps, VectorId};
use crate::report::StopReason;

const Q: VectorId = VectorId::work(0);
const Z: VectorId = VectorId::work(1);

/// Number of vectors in addition to x, b and r.
pub const STEEPEST_DESCENT_VECTORS: usize = 2;

/// Runs steepest descent from x and r = b - A x. One iteration computes
///
/// z = M^-1 r, alpha = <r, z> / <z, A z>, x = x + alpha z, r = r - alpha A z.
///
/// This alpha minimizes f(x) = x'A x / 2 - b'x along z for every z, so M need not be linear.
///
/// Cost per iteration: one product with A, one application of M^-1, three inner products (two if M = I). Returns
/// `Stagnated` if <r, z> or <z, A z> is zero or not finite, or is negative but explained by rounding.
///
/// # Errors
/// Returns `Error::Breakdown` if <z, A z> or <r, z> is negative and rounding does not explain it. A or M is then
/// indefinite.
pub fn steepest_descent<S: KrylovSteps + ?Sized>(s: &mut S, state: &mut State) -> Result<StopReason> {
    let z = if s.is_unpreconditioned() { VectorId::R } else { Z };
    let mut norm2 = state.norm2;
    loop {
        let rho = if z == VectorId::R {
            norm2
        } else {
            s.precondition_vector(VectorId::R, z);
            s.inner_product(VectorId::R, z)
        };
        if rho < 0.0 && !state.test.is_preconditioner_definite {
            return Err(Error::Breakdown { quantity: RHO_NAME, value: rho, iteration: state.iterations });
        }
        s.multiply_vector(z, Q);
        let energy = s.inner_product(z, Q);
        // The rounding error of <z, A z> is at most a multiple of epsilon |z|' |A| |z|, and
        // |z|' |A| |z| <= 2 max(center) <z, z> with max(center) = `Test::center_max`.
        let is_rounding =
            |s: &mut S| -energy <= ROUNDING_FACTOR * f64::EPSILON * 2.0 * state.test.center_max * s.inner_product(z, z);
        if energy < 0.0 && !is_rounding(s) {
            return Err(Error::Breakdown { quantity: SIGMA_NAME, value: energy, iteration: state.iterations });
        }
        if rho <= 0.0 || energy <= 0.0 || !may_divide_by(rho) || !may_divide_by(energy) {
            return Ok(StopReason::Stagnated);
        }
        let alpha = rho / energy;
        s.combine(VectorId::X, 1.0, &[(alpha, z)]);
        norm2 = s.combine_norm2(VectorId::R, 1.0, &[(-alpha, Q)]);
        if let Some(reason) = state.observe(s, norm2.sqrt()) {
            return Ok(reason);
        }
    }
}
