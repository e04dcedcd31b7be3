//! BiCGSTAB: steps of BiCG, each followed by a step that minimizes the residual, without A'.
//!
//! Source: van der Vorst, Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG, SIAM J. Sci. Stat. Comput. 13
//! (1992); preconditioned from the right, so that r is that of A x = b.

use super::{State, divides};
use crate::backend::steps::vectors::{KrylovSteps, VectorId};
use crate::error::Result;
use crate::report::StopReason;

const SHADOW: VectorId = VectorId::own(0);
const P: VectorId = VectorId::own(1);
const V: VectorId = VectorId::own(2);
const T: VectorId = VectorId::own(3);
const Z: VectorId = VectorId::own(4);

/// Vectors beside x, b and r.
pub const BICGSTAB_VECTORS: usize = 5;

/// BiCGSTAB from x and r = b - A x; r~ = r at the start. An iteration, with rho = <r~, r>:
///
/// p = r + beta (p - omega v), beta = (rho / rho_old) (alpha / omega) (p = r at first);
/// v = A M^-1 p, alpha = rho / <r~, v>, s = r - alpha v;
/// t = A M^-1 s, omega = <t, s> / <t, t>, x = x + alpha M^-1 p + omega M^-1 s, r = s - omega t.
///
/// Where s meets the test, the iteration ends with x + alpha M^-1 p and r = s. s has the place of r. Two products, two
/// M^-1, six inner products. Where rho, <r~, v>, <t, t> or omega vanishes it ends as stagnated.
pub fn bicgstab<S: KrylovSteps + ?Sized>(s: &mut S, at: &mut State) -> Result<StopReason> {
    s.copy(VectorId::R, SHADOW);
    s.copy(VectorId::R, P);
    let mut rho = at.norm2;
    loop {
        let z = precondition(s, P);
        s.product(z, V);
        let energy = s.inner(SHADOW, V);
        if !divides(energy) {
            return Ok(StopReason::Stagnated);
        }
        let alpha = rho / energy;
        s.combine(VectorId::X, 1.0, &[(alpha, z)]);
        let half = s.combine_norm2(VectorId::R, 1.0, &[(-alpha, V)]).sqrt();
        if half <= at.test.threshold {
            return Ok(at.observe(s, half).unwrap_or(StopReason::Stagnated));
        }
        let z = precondition(s, VectorId::R);
        s.product(z, T);
        let mut products = [0.0; 2];
        s.inners(T, &[T, VectorId::R], &mut products);
        let [tt, ts] = products;
        if !divides(tt) {
            return Ok(StopReason::Stagnated);
        }
        let omega = ts / tt;
        s.combine(VectorId::X, 1.0, &[(omega, z)]);
        let norm2 = s.combine_norm2(VectorId::R, 1.0, &[(-omega, T)]);
        if let Some(reason) = at.observe(s, norm2.sqrt()) {
            return Ok(reason);
        }
        let rho_old = rho;
        rho = s.inner(SHADOW, VectorId::R);
        if !divides(rho) || !divides(omega) {
            return Ok(StopReason::Stagnated);
        }
        let beta = (rho / rho_old) * (alpha / omega);
        s.combine(P, beta, &[(1.0, VectorId::R), (-beta * omega, V)]);
    }
}

/// M^-1 v, or v itself where M is the identity.
fn precondition<S: KrylovSteps + ?Sized>(s: &mut S, v: VectorId) -> VectorId {
    if s.is_unpreconditioned() {
        return v;
    }
    s.precondition_vector(v, Z);
    Z
}
