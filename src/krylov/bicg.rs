//! BiCG (biconjugate gradients) for general matrices. The residual r of A x = b is orthogonal to all previous shadow
//! residuals r~, which are residuals of a system with the transpose A'.
//!
//! Sources: Fletcher, Conjugate gradient methods for indefinite systems, 1976; the 2008 thesis, (3.21) to (3.23).

use super::{State, may_divide_by};
use crate::error::Result;
use crate::krylov::vectors::{KrylovSteps, VectorId};
use crate::report::StopReason;

const SHADOW: VectorId = VectorId::work(0);
const P: VectorId = VectorId::work(1);
const SHADOW_P: VectorId = VectorId::work(2);
const Q: VectorId = VectorId::work(3);
const SHADOW_Q: VectorId = VectorId::work(4);
const Z: VectorId = VectorId::work(5);
const SHADOW_Z: VectorId = VectorId::work(6);

/// Number of vectors in addition to x, b and r.
pub const BICG_VECTORS: usize = 7;

/// Runs BiCG from x and r = b - A x; r~ = r at the start. With z = M^-1 r, z~ = M^-T r~ and rho = <r~, z>, one
/// iteration computes
///
/// ```text
/// beta = rho / rho_old (0 in the first iteration),   p = z + beta p,   p~ = z~ + beta p~
/// alpha = rho / <p~, A p>,   x = x + alpha p,   r = r - alpha A p,   r~ = r~ - alpha A' p~
/// ```
///
/// Cost per iteration: one product with A and one with A', one application of M^-1 and one of M^-T, three inner
/// products. Returns `Stagnated` if rho or <p~, A p> is zero or not finite.
pub fn bicg<S: KrylovSteps + ?Sized>(s: &mut S, state: &mut State) -> Result<StopReason> {
    let identity = s.is_unpreconditioned();
    let (z, shadow_z) = if identity { (VectorId::R, SHADOW) } else { (Z, SHADOW_Z) };
    s.combine(SHADOW, 0.0, &[(1.0, VectorId::R)]);
    let mut rho_old = None;
    loop {
        if !identity {
            s.precondition_vector(VectorId::R, z);
            s.precondition_transposed(SHADOW, shadow_z);
        }
        let rho = s.inner_product(SHADOW, z);
        if !may_divide_by(rho) {
            return Ok(StopReason::Stagnated);
        }
        let beta = rho_old.map_or(0.0, |rho_old| rho / rho_old);
        rho_old = Some(rho);
        s.combine(P, beta, &[(1.0, z)]);
        s.combine(SHADOW_P, beta, &[(1.0, shadow_z)]);
        s.multiply_vector(P, Q);
        s.multiply_transposed(SHADOW_P, SHADOW_Q);
        let energy = s.inner_product(SHADOW_P, Q);
        if !may_divide_by(energy) {
            return Ok(StopReason::Stagnated);
        }
        let alpha = rho / energy;
        s.combine(VectorId::X, 1.0, &[(alpha, P)]);
        let norm2 = s.combine_norm2(VectorId::R, 1.0, &[(-alpha, Q)]);
        if let Some(reason) = state.observe(s, norm2.sqrt()) {
            return Ok(reason);
        }
        s.combine(SHADOW, 1.0, &[(-alpha, SHADOW_Q)]);
    }
}
