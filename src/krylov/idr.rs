//! IDR(s) with biorthogonality for general matrices. Residuals are elements of nested spaces of decreasing dimension.
//! These spaces are defined by orthogonality to s fixed shadow vectors.
//!
//! Source: van Gijzen and Sonneveld, Algorithm 913: an elegant IDR(s) variant that efficiently exploits biorthogonality
//! properties, ACM TOMS 38 (2011). With right preconditioning, r is the residual of A x = b.

use super::{State, may_divide_by};
use crate::error::{Result, reserve, zeroed};
use crate::krylov::vectors::{KrylovSteps, VectorId};
use crate::report::StopReason;

/// Let cos(t, r) be the cosine of the angle between r and t = A B^-1 r, where B is the preconditioner. If |cos(t, r)|
/// is below this value, omega is multiplied by `KAPPA` / |cos(t, r)|. With a small omega, the coefficients of the next
/// cycle would be inaccurate.
const KAPPA: f64 = 0.7;
/// State of the generator SplitMix64 before the first shadow vector. The shadow vectors consist of consecutive numbers
/// of one random sequence.
const SEED: u64 = 42;
/// Increment of the state of SplitMix64 per random number.
const SPLIT_MIX_INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of vectors in addition to x, b and r: P, G and U with s vectors each, and two work vectors.
pub const fn idr_vectors(shadow_count: usize) -> usize {
    3 * shadow_count + 2
}

/// Scalars of IDR(s), one instance per thread. As in GMRES, the caller allocates all instances before threads start.
pub struct IdrScalars {
    shadow_count: usize,
    /// Lower triangular matrix m_ij = <p_i, g_j>, stored at index i s + j.
    m: Vec<f64>,
    /// f_i = <p_i, r>.
    f: Vec<f64>,
    /// Solution c of M c = f; later the products <p_i, g_k> for i >= k.
    c: Vec<f64>,
    shadow_ids: Vec<VectorId>,
    terms: Vec<(f64, VectorId)>,
}

impl IdrScalars {
    /// Allocates the scalars for s = `shadow_count` (at least 1).
    ///
    /// # Errors
    /// Returns `Error::NoMemory` if an allocation fails.
    pub fn new(shadow_count: usize) -> Result<Self> {
        let (shadow_count, allocation_name) = (shadow_count.max(1), "the small matrices of idr");
        let (mut shadow_ids, mut terms) = (Vec::new(), Vec::new());
        reserve(&mut shadow_ids, shadow_count, allocation_name)?;
        reserve(&mut terms, shadow_count + 1, allocation_name)?;
        shadow_ids.extend((0..shadow_count).map(VectorId::work));
        let (m, f, c) = (
            zeroed(shadow_count * shadow_count, allocation_name)?,
            zeroed(shadow_count, allocation_name)?,
            zeroed(shadow_count, allocation_name)?,
        );
        Ok(Self { shadow_count, m, f, c, shadow_ids, terms })
    }

    /// Limits s to the number of rows, since more vectors than rows are linearly dependent. If s equals the number of
    /// rows, s steps solve the system in exact arithmetic.
    fn limit_shadow_vectors(&mut self, rows: usize) {
        self.shadow_count = self.shadow_count.min(rows);
        self.shadow_ids.truncate(self.shadow_count);
    }

    fn p(&self, k: usize) -> VectorId {
        self.shadow_ids[k]
    }

    fn g(&self, k: usize) -> VectorId {
        VectorId::work(self.shadow_count + k)
    }

    fn u(&self, k: usize) -> VectorId {
        VectorId::work(2 * self.shadow_count + k)
    }

    /// First work vector: v = B^-1 t or v = B^-1 r, with the preconditioner B.
    fn v(&self) -> VectorId {
        VectorId::work(3 * self.shadow_count)
    }

    /// Second work vector.
    fn t(&self) -> VectorId {
        VectorId::work(3 * self.shadow_count + 1)
    }

    /// Solves M c = f by forward substitution, restricted to rows and columns k and later.
    fn solve_lower_triangle(&mut self, k: usize) {
        let n = self.shadow_count;
        for i in k..n {
            let mut sum = self.f[i];
            for j in k..i {
                sum -= self.m[i * n + j] * self.c[j];
            }
            self.c[i] = sum / self.m[i * n + i];
        }
    }

    /// Sets `terms` to the terms `factor` c_i `vector_of`(i) for i >= k.
    fn set_terms(&mut self, k: usize, factor: f64, vector_of: fn(&Self, usize) -> VectorId) {
        self.terms.clear();
        for i in k..self.shadow_count {
            self.terms.push((factor * self.c[i], vector_of(self, i)));
        }
    }
}

/// Runs IDR(s) from x and r = b - A x. The columns p_k of P are s random orthonormal vectors; s is at most the number
/// of rows of A. The columns of G and U are g_k and u_k, with g_k = A u_k. All g_k and u_k are zero at the start. B is
/// the preconditioner, M = P'G (the identity at the start) and f = P'r. A cycle computes for k = 1 .. s
///
/// ```text
/// solve M c = f in the rows and columns k and later;   sums over i >= k:
/// v = B^-1 (r - sum_i c_i g_i),   u_k = omega v + sum_i c_i u_i,   g_k = A u_k
/// for i < k: a = <p_i, g_k> / m_ii,   g_k = g_k - a g_i,   u_k = u_k - a u_i
/// column k of M: m_k = P'g_k
/// beta = f_k / m_kk,   r = r - beta g_k,   x = x + beta u_k,   f = f - beta m_k
/// ```
///
/// The cycle ends with v = B^-1 r, t = A v, r = r - omega t, x = x + omega v. Here omega = <t, r> / <t, t> minimizes
/// the norm of r, unless `KAPPA` increases omega.
///
/// Each product with A counts as one iteration. Returns `Stagnated` if m_kk, <t, t> or omega is zero or not finite, or
/// if the random vectors are linearly dependent.
pub fn idr<S: KrylovSteps + ?Sized>(s: &mut S, state: &mut State, scalars: &mut IdrScalars) -> Result<StopReason> {
    scalars.limit_shadow_vectors(s.rows());
    let n = scalars.shadow_count;
    if !initialize_vectors(s, scalars) {
        return Ok(StopReason::Stagnated);
    }
    let mut omega = 1.0;
    loop {
        s.inner_products(VectorId::R, &scalars.shadow_ids, &mut scalars.f);
        for k in 0..n {
            compute_direction(s, scalars, k, omega);
            let pivot = scalars.m[k * n + k];
            if !may_divide_by(pivot) {
                return Ok(StopReason::Stagnated);
            }
            let beta = scalars.f[k] / pivot;
            s.combine(VectorId::X, 1.0, &[(beta, scalars.u(k))]);
            let norm2 = s.combine_norm2(VectorId::R, 1.0, &[(-beta, scalars.g(k))]);
            if let Some(reason) = state.observe(s, norm2.sqrt()) {
                return Ok(reason);
            }
            for i in k + 1..n {
                scalars.f[i] -= beta * scalars.m[i * n + k];
            }
        }
        match reduce_dimension(s, scalars, state.norm) {
            Some((new_omega, norm2)) => {
                omega = new_omega;
                if let Some(reason) = state.observe(s, norm2.sqrt()) {
                    return Ok(reason);
                }
            }
            None => return Ok(StopReason::Stagnated),
        }
    }
}

/// Sets P to orthonormal random vectors, G = U = 0 and M = I. Returns false if the random vectors are linearly
/// dependent.
fn initialize_vectors<S: KrylovSteps + ?Sized>(s: &mut S, scalars: &mut IdrScalars) -> bool {
    let n = scalars.shadow_count;
    scalars.m.fill(0.0);
    for k in 0..n {
        let p = scalars.p(k);
        let previous_count = (k as u64).wrapping_mul(s.rows() as u64);
        s.fill_random(p, SEED.wrapping_add(previous_count.wrapping_mul(SPLIT_MIX_INCREMENT)));
        let initial_norm2 = s.inner_product(p, p);
        let mut norm2 = initial_norm2;
        for _ in 0..2 {
            for i in 0..k {
                let product = s.inner_product(scalars.p(i), p);
                norm2 = s.combine_norm2(p, 1.0, &[(-product, scalars.p(i))]);
            }
        }
        // For a linearly dependent vector, only rounding errors remain: about 1e-32 of the squared norm.
        if norm2 <= 1e-24 * initial_norm2 || !norm2.is_finite() {
            return false;
        }
        s.combine(p, norm2.sqrt().recip(), &[]);
        s.combine(scalars.g(k), 0.0, &[]);
        s.combine(scalars.u(k), 0.0, &[]);
        scalars.m[k * n + k] = 1.0;
    }
    true
}

/// Computes u_k, g_k = A u_k and column k of M.
fn compute_direction<S: KrylovSteps + ?Sized>(s: &mut S, scalars: &mut IdrScalars, k: usize, omega: f64) {
    let n = scalars.shadow_count;
    let (g, u, v, t) = (scalars.g(k), scalars.u(k), scalars.v(), scalars.t());
    scalars.solve_lower_triangle(k);
    scalars.set_terms(k, -1.0, IdrScalars::g);
    scalars.terms.push((1.0, VectorId::R));
    s.combine(t, 0.0, &scalars.terms);
    let z = if s.is_unpreconditioned() { t } else { v };
    if z == v {
        s.precondition_vector(t, v);
    }
    scalars.set_terms(k + 1, 1.0, IdrScalars::u);
    scalars.terms.push((omega, z));
    s.combine(u, scalars.c[k], &scalars.terms);
    s.multiply_vector(u, g);
    // The vectors g_i are subtracted one after another, as published. If all inner products were computed in one pass,
    // the result would differ only by rounding. On the test matrix blocks3_24 with the Jacobi preconditioner, the
    // single pass needed 111 iterations instead of 108.
    for i in 0..k {
        let alpha = s.inner_product(scalars.p(i), g) / scalars.m[i * n + i];
        s.combine(g, 1.0, &[(-alpha, scalars.g(i))]);
        s.combine(u, 1.0, &[(-alpha, scalars.u(i))]);
    }
    s.inner_products(g, &scalars.shadow_ids[k..], &mut scalars.c[k..]);
    for i in k..n {
        scalars.m[i * n + k] = scalars.c[i];
    }
}

/// Computes r = r - omega A B^-1 r and x = x + omega B^-1 r with the preconditioner B. Returns omega and <r, r> of the
/// new r, or `None` if omega or <t, t> is zero or not finite. `norm` is the norm of the given r.
fn reduce_dimension<S: KrylovSteps + ?Sized>(s: &mut S, scalars: &IdrScalars, norm: f64) -> Option<(f64, f64)> {
    let (v, t) = (scalars.v(), scalars.t());
    let z = if s.is_unpreconditioned() { VectorId::R } else { v };
    if z == v {
        s.precondition_vector(VectorId::R, v);
    }
    s.multiply_vector(z, t);
    let mut products = [0.0; 2];
    s.inner_products(t, &[t, VectorId::R], &mut products);
    let [tt, tr] = products;
    let cosine = (tr / (tt.sqrt() * norm)).abs();
    let mut omega = tr / tt;
    if cosine < KAPPA {
        omega *= KAPPA / cosine;
    }
    if !may_divide_by(tt) || !may_divide_by(omega) {
        return None;
    }
    s.combine(VectorId::X, 1.0, &[(omega, z)]);
    Some((omega, s.combine_norm2(VectorId::R, 1.0, &[(-omega, t)])))
}
