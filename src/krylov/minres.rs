//! MINRES for symmetric matrices, which may be indefinite: minimizes the residual over the Krylov space.
//!
//! Source: Paige and Saunders, Solution of sparse indefinite systems of linear equations, SIAM J. Numer. Anal. 12
//! (1975). The preconditioner M must be symmetric and positive definite.

use super::{State, may_divide_by};
use crate::base::number::hypot;
use crate::error::{Error, Result};
use crate::krylov::pcg::RHO_NAME;
use crate::krylov::vectors::{KrylovSteps, VectorId};
use crate::report::StopReason;

/// The work vectors U, U + 1 and U + 2 contain u_k-1, u_k and u_k+1 of the Lanczos process. Work vector U + (k mod 3)
/// contains u_k.
const U: usize = 0;
/// The work vectors W and W + 1 contain w_k-1 and w_k. Work vector W + (k mod 2) contains w_k.
const W: usize = 3;
/// The work vectors Y and Y + 1 contain M^-1 u_k and M^-1 u_k+1. Work vector Y + (k mod 2) contains M^-1 u_k.
const Y: usize = 5;

/// Number of vectors in addition to x, b and r.
pub const MINRES_VECTORS: usize = 7;

/// Givens rotation k, and two entries of column k + 1 of T to which rotation k - 1 has been applied.
struct Rotation {
    cosine: f64,
    sine: f64,
    /// Entry in row k - 1 of column k + 1.
    epsilon: f64,
    /// Entry in row k of column k + 1, before rotation k.
    delta: f64,
    /// phibar_k+1, the remaining entry of the rotated right-hand side; its magnitude is the norm of M^-1/2 r.
    phi: f64,
}

/// Runs MINRES from x and r = b - A x with u_1 = r, u_0 = 0, w_0 = w_-1 = 0, phibar_1 = beta_1. Let y_k = M^-1 u_k and
/// beta_k = <u_k, y_k>^1/2. Iteration k computes
///
/// ```text
/// alpha_k = <y_k, A y_k> / beta_k^2
/// u_k+1 = A y_k / beta_k - (alpha_k / beta_k) u_k - (beta_k / beta_k-1) u_k-1
/// gamma_k = (gammabar_k^2 + beta_k+1^2)^1/2,   c_k = gammabar_k / gamma_k,   s_k = beta_k+1 / gamma_k
/// w_k = (y_k / beta_k - delta_k w_k-1 - epsilon_k w_k-2) / gamma_k,   x = x + c_k phibar_k w_k
/// phibar_k+1 = s_k phibar_k,   r = s_k^2 r - phibar_k+1 c_k u_k+1 / beta_k+1
/// ```
///
/// T is the tridiagonal matrix of the alpha_k and beta_k. The Givens rotations (c_k, s_k) transform it to the upper
/// triangular R. In column k, the rotations k - 2 and k - 1 produce the entries epsilon_k, delta_k and gammabar_k, and
/// rotation k changes gammabar_k to gamma_k. In the code, k counts from 0. MINRES minimizes the norm of M^-1/2 r, but
/// the test uses the 2-norm of r.
///
/// Cost per iteration: one product with A, one application of M^-1, three inner products. Returns `Stagnated` if beta_k
/// or gamma_k is zero or not finite. If gamma_k is zero, A is singular.
///
/// # Errors
/// Returns `Error::Breakdown` if <u, M^-1 u> is negative, since M is then indefinite.
pub fn minres<S: KrylovSteps + ?Sized>(s: &mut S, state: &mut State) -> Result<StopReason> {
    s.combine(VectorId::work(U), 0.0, &[(1.0, VectorId::R)]);
    let mut beta = lanczos_norm(s, 0, state.iterations)?;
    let (mut beta_old, mut k) = (0.0, 0);
    let mut previous = Rotation { cosine: -1.0, sine: 0.0, epsilon: 0.0, delta: 0.0, phi: beta };
    loop {
        if !may_divide_by(beta) {
            return Ok(StopReason::Stagnated);
        }
        let alpha = next_lanczos_vector(s, k, beta, beta_old);
        let beta_next = lanczos_norm(s, k + 1, state.iterations)?;
        let epsilon = previous.epsilon;
        // Rotation k - 1 is applied to column k. Rotation k then changes the diagonal entry of this column to gamma.
        let delta = previous.cosine * previous.delta + previous.sine * alpha;
        let gamma_bar = previous.sine * previous.delta - previous.cosine * alpha;
        let gamma = hypot(gamma_bar, beta_next);
        if !may_divide_by(gamma) {
            return Ok(StopReason::Stagnated);
        }
        let (cosine, sine) = (gamma_bar / gamma, beta_next / gamma);
        let phi = cosine * previous.phi;
        let (w, w_old) = (VectorId::work(W + k % 2), VectorId::work(W + (k + 1) % 2));
        // w_k overwrites w_k-2. In the first iterations, w_k-1 and w_k-2 do not exist and are not used.
        let scale = if k >= 2 { -epsilon / gamma } else { 0.0 };
        let terms = [(1.0 / (beta * gamma), y(s, k)), (-delta / gamma, w_old)];
        s.combine(w, scale, &terms[..if k >= 1 { 2 } else { 1 }]);
        s.combine(VectorId::X, 1.0, &[(phi, w)]);
        let u_factor = if beta_next > 0.0 { -previous.phi * sine * cosine / beta_next } else { 0.0 };
        let norm2 = s.combine_norm2(VectorId::R, sine * sine, &[(u_factor, u(k + 1))]);
        if let Some(reason) = state.observe(s, norm2.sqrt()) {
            return Ok(reason);
        }
        previous = Rotation {
            cosine,
            sine,
            epsilon: previous.sine * beta_next,
            delta: -previous.cosine * beta_next,
            phi: sine * previous.phi,
        };
        (beta_old, beta, k) = (beta, beta_next, k + 1);
    }
}

fn u(k: usize) -> VectorId {
    VectorId::work(U + k % 3)
}

/// Returns the vector that contains M^-1 u_k.
fn y<S: KrylovSteps + ?Sized>(s: &S, k: usize) -> VectorId {
    if s.is_unpreconditioned() { u(k) } else { VectorId::work(Y + k % 2) }
}

/// Computes u_k+1, M^-1-orthogonal to the previous vectors. Returns alpha_k, computed after the subtraction of u_k-1 as
/// in modified Gram-Schmidt.
fn next_lanczos_vector<S: KrylovSteps + ?Sized>(s: &mut S, k: usize, beta: f64, beta_old: f64) -> f64 {
    let (y, u_next) = (y(s, k), u(k + 1));
    s.multiply_vector(y, u_next);
    if k >= 1 {
        // u(k + 2) is u_k-1, since indices are modulo 3.
        s.combine(u_next, 1.0 / beta, &[(-beta / beta_old, u(k + 2))]);
    } else {
        s.combine(u_next, 1.0 / beta, &[]);
    }
    let alpha = s.inner_product(y, u_next) / beta;
    s.combine(u_next, 1.0, &[(-alpha / beta, u(k))]);
    alpha
}

/// Computes y_k = M^-1 u_k. Returns beta_k = <u_k, y_k>^1/2.
fn lanczos_norm<S: KrylovSteps + ?Sized>(s: &mut S, k: usize, iteration: usize) -> Result<f64> {
    let y = y(s, k);
    if !s.is_unpreconditioned() {
        s.precondition_vector(u(k), y);
    }
    let beta_square = s.inner_product(u(k), y);
    if beta_square < 0.0 {
        return Err(Error::Breakdown { quantity: RHO_NAME, value: beta_square, iteration });
    }
    Ok(beta_square.sqrt())
}
