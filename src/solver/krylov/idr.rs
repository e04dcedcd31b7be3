//! IDR(s) with bi-orthogonality: residuals in spaces of ever fewer dimensions, each orthogonal to s fixed vectors.
//!
//! Source: van Gijzen and Sonneveld, Algorithm 913: an elegant IDR(s) variant that efficiently exploits biorthogonality
//! properties, ACM TOMS 38 (2011); preconditioned from the right.

use super::{State, divides};
use crate::backend::steps::vectors::{KrylovSteps, VectorId};
use crate::error::{Result, reserve, zeroed};
use crate::report::StopReason;

/// omega is made larger where t and r are nearly orthogonal, |cos| below this (Sleijpen and van der Vorst 1995).
const KAPPA: f64 = 0.7;
/// State of SplitMix64 before the first shadow vector; the vectors are drawn one after the other.
const SEED: u64 = 42;
/// What a draw adds to that state (Steele, Lea and Flood 2014).
const DRAW: u64 = 0x9e37_79b9_7f4a_7c15;

/// Vectors beside x, b and r: P, G, U, and two of work.
pub const fn idr_vectors(shadow: usize) -> usize {
    3 * shadow + 2
}

/// Numbers of a member beside vectors; one for each member, made before they start, as with gmres.
pub struct IdrRoom {
    shadow: usize,
    /// <p_i, g_j> at i s + j: lower triangular.
    m: Vec<f64>,
    /// <p_i, r>.
    f: Vec<f64>,
    /// Solution of M c = f, then products <p_i, g_k>, i from k on.
    c: Vec<f64>,
    ids: Vec<VectorId>,
    terms: Vec<(f64, VectorId)>,
}

impl IdrRoom {
    /// For s = `shadow` (at least 1).
    ///
    /// # Errors
    /// `Error::NoMemory`.
    pub fn new(shadow: usize) -> Result<Self> {
        let (shadow, what) = (shadow.max(1), "the small matrices of idr");
        let (mut ids, mut terms) = (Vec::new(), Vec::new());
        reserve(&mut ids, shadow, what)?;
        reserve(&mut terms, shadow + 1, what)?;
        ids.extend((0..shadow).map(VectorId::own));
        let (m, f, c) = (zeroed(shadow * shadow, what)?, zeroed(shadow, what)?, zeroed(shadow, what)?);
        Ok(Self { shadow, m, f, c, ids, terms })
    }

    /// No more shadow vectors than rows: more are not independent. With as many, s steps solve the system.
    fn fit(&mut self, rows: usize) {
        self.shadow = self.shadow.min(rows);
        self.ids.truncate(self.shadow);
    }

    fn p(&self, k: usize) -> VectorId {
        self.ids[k]
    }

    fn g(&self, k: usize) -> VectorId {
        VectorId::own(self.shadow + k)
    }

    fn u(&self, k: usize) -> VectorId {
        VectorId::own(2 * self.shadow + k)
    }

    /// Work.
    fn v(&self) -> VectorId {
        VectorId::own(3 * self.shadow)
    }

    /// Work.
    fn t(&self) -> VectorId {
        VectorId::own(3 * self.shadow + 1)
    }

    /// c of M c = f, rows and columns k and later.
    fn solve(&mut self, k: usize) {
        let n = self.shadow;
        for i in k..n {
            let mut sum = self.f[i];
            for j in k..i {
                sum -= self.m[i * n + j] * self.c[j];
            }
            self.c[i] = sum / self.m[i * n + i];
        }
    }

    /// factor c_i times vectors `of` i, i from k on.
    fn take_terms(&mut self, k: usize, factor: f64, of: fn(&Self, usize) -> VectorId) {
        self.terms.clear();
        for i in k..self.shadow {
            self.terms.push((factor * self.c[i], of(self, i)));
        }
    }
}

/// IDR(s) from x and r = b - A x. P: s random vectors, orthonormal (no more than rows). A cycle, f = P'r, for
/// k = 1 .. s:
///
/// M c = f (rows from k on), v = M^-1 (r - sum c_i g_i), u_k = omega v + sum c_i u_i, g_k = A u_k;
/// g_k and u_k less multiples of g_i and u_i, i < k, such that g_k is orthogonal to p_i; column k of M = P'g_k;
/// beta = f_k / m_kk, r = r - beta g_k, x = x + beta u_k, f = f - beta m_k;
///
/// and at its end v = M^-1 r, t = A v, r = r - omega t, x = x + omega v, omega least or larger (`KAPPA`). An iteration
/// is a product with A. Ends as stagnated where m_kk, <t, t> or omega vanishes.
pub fn idr<S: KrylovSteps + ?Sized>(s: &mut S, at: &mut State, room: &mut IdrRoom) -> Result<StopReason> {
    room.fit(s.rows());
    let n = room.shadow;
    if !prepare(s, room) {
        return Ok(StopReason::Stagnated);
    }
    let mut omega = 1.0;
    loop {
        s.inners(VectorId::R, &room.ids, &mut room.f);
        for k in 0..n {
            next_direction(s, room, k, omega);
            let pivot = room.m[k * n + k];
            if !divides(pivot) {
                return Ok(StopReason::Stagnated);
            }
            let beta = room.f[k] / pivot;
            s.combine(VectorId::X, 1.0, &[(beta, room.u(k))]);
            let norm2 = s.combine_norm2(VectorId::R, 1.0, &[(-beta, room.g(k))]);
            if let Some(reason) = at.observe(s, norm2.sqrt()) {
                return Ok(reason);
            }
            for i in k + 1..n {
                room.f[i] -= beta * room.m[i * n + k];
            }
        }
        match reduce_dimension(s, room, at.norm) {
            Some((least, norm2)) => {
                omega = least;
                if let Some(reason) = at.observe(s, norm2.sqrt()) {
                    return Ok(reason);
                }
            }
            None => return Ok(StopReason::Stagnated),
        }
    }
}

/// P orthonormal, G = U = 0, M = I. False where the vectors drawn are not independent.
fn prepare<S: KrylovSteps + ?Sized>(s: &mut S, room: &mut IdrRoom) -> bool {
    let n = room.shadow;
    room.m.fill(0.0);
    for k in 0..n {
        let p = room.p(k);
        let drawn_before = (k as u64).wrapping_mul(s.rows() as u64);
        s.fill_random(p, SEED.wrapping_add(drawn_before.wrapping_mul(DRAW)));
        let drawn = s.inner(p, p);
        let mut norm2 = drawn;
        for _ in 0..2 {
            for i in 0..k {
                let product = s.inner(room.p(i), p);
                norm2 = s.combine_norm2(p, 1.0, &[(-product, room.p(i))]);
            }
        }
        // What is left of a dependent vector is rounding: its square, 1e-32 of the whole.
        if norm2 <= 1e-24 * drawn || !norm2.is_finite() {
            return false;
        }
        s.combine(p, norm2.sqrt().recip(), &[]);
        s.combine(room.g(k), 0.0, &[]);
        s.combine(room.u(k), 0.0, &[]);
        room.m[k * n + k] = 1.0;
    }
    true
}

/// u_k and g_k = A u_k, and column k of M.
fn next_direction<S: KrylovSteps + ?Sized>(s: &mut S, room: &mut IdrRoom, k: usize, omega: f64) {
    let n = room.shadow;
    let (g, u, v, t) = (room.g(k), room.u(k), room.v(), room.t());
    room.solve(k);
    room.take_terms(k, -1.0, IdrRoom::g);
    room.terms.push((1.0, VectorId::R));
    s.combine(t, 0.0, &room.terms);
    let z = if s.is_unpreconditioned() { t } else { v };
    if z == v {
        s.precondition_vector(t, v);
    }
    room.take_terms(k + 1, 1.0, IdrRoom::u);
    room.terms.push((omega, z));
    s.combine(u, room.c[k], &room.terms);
    s.product(u, g);
    // One after the other, as published. All products in one pass differ by rounding alone, and took 111 iterations in
    // place of 108 on blocks3_24 of the golden table with M = D.
    for i in 0..k {
        let alpha = s.inner(room.p(i), g) / room.m[i * n + i];
        s.combine(g, 1.0, &[(-alpha, room.g(i))]);
        s.combine(u, 1.0, &[(-alpha, room.u(i))]);
    }
    s.inners(g, &room.ids[k..], &mut room.c[k..]);
    for i in k..n {
        room.m[i * n + k] = room.c[i];
    }
}

/// r = r - omega A M^-1 r, x with it. Returns omega and <r, r>, where there are such.
fn reduce_dimension<S: KrylovSteps + ?Sized>(s: &mut S, room: &IdrRoom, norm: f64) -> Option<(f64, f64)> {
    let (v, t) = (room.v(), room.t());
    let z = if s.is_unpreconditioned() { VectorId::R } else { v };
    if z == v {
        s.precondition_vector(VectorId::R, v);
    }
    s.product(z, t);
    let mut products = [0.0; 2];
    s.inners(t, &[t, VectorId::R], &mut products);
    let [tt, tr] = products;
    let cosine = (tr / (tt.sqrt() * norm)).abs();
    let mut omega = tr / tt;
    if cosine < KAPPA {
        omega *= KAPPA / cosine;
    }
    if !divides(tt) || !divides(omega) {
        return None;
    }
    s.combine(VectorId::X, 1.0, &[(omega, z)]);
    Some((omega, s.combine_norm2(VectorId::R, 1.0, &[(-omega, t)])))
}
