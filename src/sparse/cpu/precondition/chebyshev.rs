//! Preconditioner: a Chebyshev polynomial in D^-1 A.

use super::apply::{ALLOCATION_NAME, ApplyInverse};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::Real;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::base::workers::Workers;
use crate::error::{Result, reserve};
use crate::krylov::cpu::chunks::Chunks;
use crate::sparse::{ChebyshevInterval, CsrPart, inverse_diagonal};

/// M^-1 = p(D^-1 A) D^-1. The residual polynomial 1 - t p(t) is the Chebyshev polynomial of the interval [hi / 30, hi],
/// scaled to 1 at t = 0 (Saad 2003, algorithm 12.1).
///
/// Here hi is an upper bound or estimate of the largest eigenvalue of D^-1 A ([`ChebyshevInterval`]). Let lo = hi / 30,
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
    scaled_matrix: CsrPart<I, V>,
    inverse_d: Vec<f64>,
    degree: usize,
    interval: ChebyshevInterval,
    /// Workspaces for the vectors d_k and s_k = D^-1 (r - A z_{k-1}).
    workspace: [Shared; 2],
}

impl<I: Index, V: Real> Chebyshev<I, V> {
    pub fn new(a: &Csr<I>, degree: usize, is_symmetric: bool) -> Result<Self> {
        let inverse_d = inverse_diagonal(a)?;
        let interval = ChebyshevInterval::of(a, &inverse_d, is_symmetric)?;
        Self::with_interval(a, inverse_d, degree, interval)
    }

    fn with_interval(a: &Csr<I>, inverse_d: Vec<f64>, degree: usize, interval: ChebyshevInterval) -> Result<Self> {
        let scaled_matrix = CsrPart::of(a, |_, _| true, |i, _, entry| inverse_d[i] * entry)?.into_value_type()?;
        let workspace = [Shared::zeroed(a.rows())?, Shared::zeroed(a.rows())?];
        Ok(Self { scaled_matrix, inverse_d, degree, interval, workspace })
    }

    /// Returns M^-T = p(D^-1 A^T) D^-1.
    pub fn transposed(&self, a: &Csr<I>) -> Result<Self> {
        let mut inverse_d = Vec::new();
        reserve(&mut inverse_d, self.inverse_d.len(), ALLOCATION_NAME)?;
        inverse_d.extend_from_slice(&self.inverse_d);
        Self::with_interval(&a.transposed(&mut Workers::single_threaded())?, inverse_d, self.degree, self.interval)
    }
}

impl<I: Index, V: Real + Send + Sync> ApplyInverse for Chebyshev<I, V> {
    fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared) {
        let rows = self.inverse_d.len();
        let own_rows = Chunks::new(rows).own_rows(thread);
        let [step, scaled_residual] = &self.workspace;
        // SAFETY: the rows belong to this thread. Of the vectors written here, other threads read only `step`, and only
        // between two barriers.
        let (r, x) = unsafe { (r.slice(own_rows.start, own_rows.len()), z.slice_mut(own_rows.start, own_rows.len())) };
        // SAFETY: as above.
        let scaled_residual = unsafe { scaled_residual.slice_mut(own_rows.start, own_rows.len()) };
        let mut steps = self.interval.steps();
        for k in 0..=self.degree {
            if k > 0 {
                thread.barrier();
                // SAFETY: no thread writes `step` until the next barrier.
                let step = unsafe { step.slice(0, rows) };
                for (scaled_residual, i) in scaled_residual.iter_mut().zip(own_rows.clone()) {
                    let entries = self.scaled_matrix.ptr[i]..self.scaled_matrix.ptr[i + 1];
                    let row = self.scaled_matrix.col[entries.clone()].iter().zip(&self.scaled_matrix.val[entries]);
                    *scaled_residual -= row.fold(0.0, |sum, (j, a)| sum + a.to_f64() * step[j.to_usize()]);
                }
                thread.barrier();
            }
            // SAFETY: as above.
            let step = unsafe { step.slice_mut(own_rows.start, own_rows.len()) };
            if k == 0 {
                for (((scaled_residual, step), x), (r, d)) in scaled_residual
                    .iter_mut()
                    .zip(&mut *step)
                    .zip(&mut *x)
                    .zip(r.iter().zip(&self.inverse_d[own_rows.clone()]))
                {
                    *scaled_residual = d * r;
                    *step = *scaled_residual / self.interval.theta;
                    *x = *step;
                }
                continue;
            }
            let (step_factor, residual_factor) = steps.coefficients();
            for ((step, x), scaled_residual) in step.iter_mut().zip(&mut *x).zip(&*scaled_residual) {
                *step = step_factor * *step + residual_factor * scaled_residual;
                *x += *step;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.scaled_matrix.bytes()
            + size_of_val(&*self.inverse_d)
            + self.workspace.iter().map(Shared::bytes).sum::<usize>()
    }
}
