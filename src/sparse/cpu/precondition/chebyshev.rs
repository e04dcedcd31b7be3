//! Preconditioner: a Chebyshev polynomial in D^-1 A.

use super::apply::{Apply, WHAT};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::base::workers::Workers;
use crate::error::{Result, reserve};
use crate::krylov::cpu::chunks::Chunks;
use crate::sparse::{Interval, Part, inverse_diagonal};

/// M^-1 = p(D^-1 A) D^-1. The residual polynomial 1 - t p(t) is the Chebyshev polynomial of the interval [hi / 30, hi],
/// scaled to 1 at t = 0 (Saad 2003, algorithm 12.1).
///
/// Here hi is an upper bound or estimate of the largest eigenvalue of D^-1 A ([`Interval`]). Let lo = hi / 30,
/// theta = (hi + lo) / 2 and delta = (hi - lo) / 2. The recurrence for z = M^-1 r starts with k = 0:
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
    interval: Interval,
    /// Workspaces: the current d_k, and s_k = D^-1 (r - A z_{k-1}).
    workspace: [Shared; 2],
}

impl<I: Index, V: Real> Chebyshev<I, V> {
    pub fn new(a: &Csr<I>, degree: usize, symmetric: bool) -> Result<Self> {
        let inverse = inverse_diagonal(a)?;
        let interval = Interval::of(a, &inverse, symmetric)?;
        Self::of(a, inverse, degree, interval)
    }

    fn of(a: &Csr<I>, inverse: Vec<f64>, degree: usize, interval: Interval) -> Result<Self> {
        let scaled = Part::of(a, |_, _| true, |i, _, entry| inverse[i] * entry)?.converted()?;
        let workspace = [Shared::zeroed(a.rows())?, Shared::zeroed(a.rows())?];
        Ok(Self { scaled, inverse, degree, interval, workspace })
    }

    /// Returns M^-T = p(D^-1 A^T) D^-1.
    pub fn transposed(&self, a: &Csr<I>) -> Result<Self> {
        let mut inverse = Vec::new();
        reserve(&mut inverse, self.inverse.len(), WHAT)?;
        inverse.extend_from_slice(&self.inverse);
        Self::of(&a.transposed(&mut Workers::alone())?, inverse, self.degree, self.interval)
    }
}

impl<I: Index, V: Real + Send + Sync> Apply for Chebyshev<I, V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let rows = self.inverse.len();
        let own = Chunks::new(rows).own(me);
        let [step, left] = &self.workspace;
        // SAFETY: the rows belong to this thread. Other threads read only `step`, between two barriers.
        let (from, x) = unsafe { (from.slice(own.start, own.len()), to.slice_mut(own.start, own.len())) };
        // SAFETY: as above.
        let left = unsafe { left.slice_mut(own.start, own.len()) };
        let mut steps = self.interval.steps();
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
                    *step = *left / self.interval.theta;
                    *x = *step;
                }
                continue;
            }
            let (of_step, of_left) = steps.coefficients();
            for ((step, x), left) in step.iter_mut().zip(&mut *x).zip(&*left) {
                *step = of_step * *step + of_left * left;
                *x += *step;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.scaled.bytes() + size_of_val(&*self.inverse) + self.workspace.iter().map(Shared::bytes).sum::<usize>()
    }
}
