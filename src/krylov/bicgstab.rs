//! BiCGSTAB for general matrices: a BiCG step, followed by a step that minimizes the residual. Products with the
//! transpose of A are not needed.
//!
//! Source: van der Vorst, Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG, SIAM J. Sci. Stat. Comput. 13
//! (1992). With right preconditioning, r is the residual of A x = b.

use super::{State, may_divide_by};
use crate::error::Result;
use crate::krylov::vectors::{KrylovSteps, VectorId};
use crate::report::StopReason;

const SHADOW: VectorId = VectorId::work(0);
const P: VectorId = VectorId::work(1);
const V: VectorId = VectorId::work(2);
const T: VectorId = VectorId::work(3);
const Z: VectorId = VectorId::work(4);

/// Number of vectors in addition to x, b and r.
pub const BICGSTAB_VECTORS: usize = 5;

/// Runs BiCGSTAB from x and r = b - A x. With the initial residual r~ and rho = <r~, r>, one iteration computes
///
/// ```text
/// beta = (rho / rho_old) (alpha / omega),   p = r + beta (p - omega v)     (first iteration: p = r)
/// v = A M^-1 p,   alpha = rho / <r~, v>,   s = r - alpha v
/// t = A M^-1 s,   omega = <t, s> / <t, t>
/// x = x + alpha M^-1 p + omega M^-1 s,   r = s - omega t
/// ```
///
/// If s satisfies the test, the iteration ends with x + alpha M^-1 p and r = s. The vector s is stored in r.
///
/// Cost per iteration: two products with A, two applications of M^-1, six inner products. Returns `Stagnated` if rho,
/// <r~, v>, <t, t> or omega is zero or not finite.
pub fn bicgstab<S: KrylovSteps + ?Sized>(s: &mut S, state: &mut State) -> Result<StopReason> {
    s.combine(SHADOW, 0.0, &[(1.0, VectorId::R)]);
    s.combine(P, 0.0, &[(1.0, VectorId::R)]);
    let mut rho = state.norm2;
    loop {
        let z = precondition(s, P);
        s.multiply_vector(z, V);
        let shadow_product = s.inner_product(SHADOW, V);
        if !may_divide_by(shadow_product) {
            return Ok(StopReason::Stagnated);
        }
        let alpha = rho / shadow_product;
        s.combine(VectorId::X, 1.0, &[(alpha, z)]);
        let half_step_norm = s.combine_norm2(VectorId::R, 1.0, &[(-alpha, V)]).sqrt();
        if half_step_norm <= state.test.threshold {
            return Ok(state.observe(s, half_step_norm).unwrap_or(StopReason::Stagnated));
        }
        let z = precondition(s, VectorId::R);
        s.multiply_vector(z, T);
        let mut products = [0.0; 2];
        s.inner_products(T, &[T, VectorId::R], &mut products);
        let [tt, ts] = products;
        if !may_divide_by(tt) {
            return Ok(StopReason::Stagnated);
        }
        let omega = ts / tt;
        s.combine(VectorId::X, 1.0, &[(omega, z)]);
        let norm2 = s.combine_norm2(VectorId::R, 1.0, &[(-omega, T)]);
        if let Some(reason) = state.observe(s, norm2.sqrt()) {
            return Ok(reason);
        }
        let rho_old = rho;
        rho = s.inner_product(SHADOW, VectorId::R);
        if !may_divide_by(rho) || !may_divide_by(omega) {
            return Ok(StopReason::Stagnated);
        }
        let beta = (rho / rho_old) * (alpha / omega);
        s.combine(P, beta, &[(1.0, VectorId::R), (-beta * omega, V)]);
    }
}

/// Computes M^-1 v. Returns the identifier of the result, which is v itself if M is the identity.
fn precondition<S: KrylovSteps + ?Sized>(s: &mut S, v: VectorId) -> VectorId {
    if s.is_unpreconditioned() {
        return v;
    }
    s.precondition_vector(v, Z);
    Z
}
