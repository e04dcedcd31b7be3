//! Preconditioner: a Chebyshev polynomial in D^-1 A.

use super::apply::{Apply, WHAT};
use super::jacobi::inverse_diagonal;
use super::split::Part;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::base::workers::Workers;
use crate::error::{Result, push, reserve, zeroed};
use crate::krylov::cpu::chunks::Chunks;
use crate::krylov::spectrum::lanczos_extremes;
use crate::sparse::Stored;

/// Ratio hi / lo of the ends of the interval [lo, hi]. The polynomial damps error components with eigenvalues in this
/// interval, but not those with smaller eigenvalues.
const RATIO: f64 = 30.0;
/// Number of Lanczos steps for the estimate of the largest eigenvalue.
const STEPS: usize = 10;
/// Factor by which the Lanczos estimate of the largest eigenvalue is multiplied, because the estimate is too small.
const MARGIN: f64 = 1.1;

/// M^-1 = p(D^-1 A) D^-1. The residual polynomial 1 - t p(t) is the Chebyshev polynomial of the interval [hi / 30, hi],
/// scaled to 1 at t = 0 (Saad 2003, algorithm 12.1).
///
/// Here hi (`largest`) is an upper bound or estimate of the largest eigenvalue of D^-1 A. Let lo = hi / 30, theta = (hi
/// + lo) / 2 and delta = (hi - lo) / 2. The recurrence for z = M^-1 r starts with k = 0:
/// - rho_0 = delta / theta,
/// - s_0 = D^-1 r,
/// - z_0 = d_0 = s_0 / theta.
///
/// It continues for k = 1, ..., `degree`:
/// - rho_k = 1 / (2 theta / delta - rho_{k-1}),
/// - s_k = s_{k-1} - D^-1 A d_{k-1},
/// - d_k = rho_k rho_{k-1} d_{k-1} + (2 rho_k / delta) s_k,
/// - z_k = z_{k-1} + d_k.
pub struct Chebyshev<I, V> {
    /// The matrix D^-1 A.
    scaled: Part<I, V>,
    inverse: Vec<f64>,
    degree: usize,
    largest: f64,
    /// Workspaces: the current d_k, and s_k = D^-1 (r - A z_{k-1}).
    workspace: [Shared; 2],
}

impl<I: Index, V: Real> Chebyshev<I, V> {
    pub fn new(a: &Csr<I>, degree: usize, symmetric: bool) -> Result<Self> {
        let inverse = inverse_diagonal(a)?;
        let gershgorin = |i: usize| a.row(i).map(|(_, entry)| entry.abs()).sum::<f64>() * inverse[i].abs();
        let mut largest = (0..a.rows()).map(gershgorin).fold(0.0, f64::max);
        if symmetric && inverse.iter().all(|&d| d > 0.0) {
            largest = largest.min(MARGIN * estimate_largest_eigenvalue(a, &inverse)?.unwrap_or(f64::INFINITY));
        }
        Self::of(a, inverse, degree, largest)
    }

    fn of(a: &Csr<I>, inverse: Vec<f64>, degree: usize, largest: f64) -> Result<Self> {
        let scaled = Part::of(a, |_, _| true, |i, _, entry| inverse[i] * entry)?.converted()?;
        let workspace = [Shared::zeroed(a.rows())?, Shared::zeroed(a.rows())?];
        Ok(Self { scaled, inverse, degree, largest, workspace })
    }

    /// Returns M^-T = p(D^-1 A^T) D^-1.
    pub fn transposed(&self, a: &Csr<I>) -> Result<Self> {
        let mut inverse = Vec::new();
        reserve(&mut inverse, self.inverse.len(), WHAT)?;
        inverse.extend_from_slice(&self.inverse);
        Self::of(&a.transposed(&mut Workers::alone())?, inverse, self.degree, self.largest)
    }
}

impl<I: Index, V: Real + Send + Sync> Apply for Chebyshev<I, V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let rows = self.inverse.len();
        let own = Chunks::new(rows).own(me);
        let (theta, delta) = (0.5 * self.largest * (1.0 + 1.0 / RATIO), 0.5 * self.largest * (1.0 - 1.0 / RATIO));
        let [step, left] = &self.workspace;
        // SAFETY: the rows belong to this thread. Other threads read only `step`, between two barriers.
        let (from, x) = unsafe { (from.slice(own.start, own.len()), to.slice_mut(own.start, own.len())) };
        // SAFETY: as above.
        let left = unsafe { left.slice_mut(own.start, own.len()) };
        let mut rho = delta / theta;
        for k in 0..=self.degree {
            if k > 0 {
                me.barrier();
                // SAFETY: no thread writes `step` until the next barrier.
                let step = unsafe { step.slice(0, rows) };
                for (left, i) in left.iter_mut().zip(own.clone()) {
                    let entries = self.scaled.ptr[i]..self.scaled.ptr[i + 1];
                    let row = self.scaled.col[entries.clone()].iter().zip(&self.scaled.val[entries]);
                    *left -= row.fold(0.0, |sum, (j, a)| sum + a.wide() * step[j.at()]);
                }
                me.barrier();
            }
            // SAFETY: as above.
            let step = unsafe { step.slice_mut(own.start, own.len()) };
            if k == 0 {
                for (((left, step), x), (r, d)) in
                    left.iter_mut().zip(&mut *step).zip(&mut *x).zip(from.iter().zip(&self.inverse[own.clone()]))
                {
                    *left = d * r;
                    *step = *left / theta;
                    *x = *step;
                }
                continue;
            }
            let next = 1.0 / (2.0 * theta / delta - rho);
            for ((step, x), left) in step.iter_mut().zip(&mut *x).zip(&*left) {
                *step = next * rho * *step + 2.0 * next / delta * left;
                *x += *step;
            }
            rho = next;
        }
    }

    fn bytes(&self) -> usize {
        self.scaled.bytes() + size_of_val(&*self.inverse) + self.workspace.iter().map(Shared::bytes).sum::<usize>()
    }
}

/// Estimates the largest eigenvalue of D^-1 A by up to `STEPS` CG steps (Lanczos) from a fixed vector, for a symmetric
/// A with positive diagonal entries. The estimate is below the eigenvalue. Returns `None` if CG breaks down before two
/// steps.
fn estimate_largest_eigenvalue<I: Index>(a: &Csr<I>, inverse: &[f64]) -> Result<Option<f64>> {
    let rows = a.rows();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let [mut r, mut p, mut q] = [zeroed(rows, WHAT)?, zeroed(rows, WHAT)?, zeroed(rows, WHAT)?];
    // Pseudorandom values: the fractional parts of multiples of the golden ratio.
    r.iter_mut().enumerate().for_each(|(i, r)| *r = (i as f64 * 0.618_033_988_749_895).fract() - 0.5);
    let (mut coefficients, mut rho_old, mut beta) = (Vec::new(), 0.0, 0.0);
    for step in 0..STEPS {
        q.iter_mut().zip(&r).zip(inverse).for_each(|((z, r), d)| *z = d * r);
        let rho = dot(&r, &q);
        if step > 0 {
            beta = rho / rho_old;
        }
        p.iter_mut().zip(&q).for_each(|(p, z)| *p = z + beta * *p);
        a.multiply(&p, &mut q);
        let alpha = rho / dot(&p, &q);
        if !(alpha > 0.0 && alpha.is_finite() && (step == 0 || beta > 0.0)) {
            break;
        }
        push(&mut coefficients, (alpha, beta), WHAT)?;
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        rho_old = rho;
    }
    Ok(lanczos_extremes(&coefficients).map(|(_, largest)| largest))
}
