//! Diagonal preconditioners: M = D or M = |D|.

use super::apply::ApplyInverse;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::Result;
use crate::krylov::cpu::chunks::Chunks;
use crate::sparse::inverse_diagonal;

/// M = D or M = |D|. `inverse_d` contains the diagonal of M^-1.
pub struct Jacobi {
    inverse_d: Vec<f64>,
}

impl Jacobi {
    pub fn new<I: Index>(a: &Csr<I>, sign: impl Fn(f64) -> f64) -> Result<Self> {
        let mut inverse_d = inverse_diagonal(a)?;
        inverse_d.iter_mut().for_each(|d| *d = sign(*d));
        Ok(Self { inverse_d })
    }
}

impl ApplyInverse for Jacobi {
    fn apply(&self, thread: &TeamThread, r: &Shared, z: &Shared) {
        let own_rows = Chunks::new(self.inverse_d.len()).own_rows(thread);
        // SAFETY: no thread writes `r`, and the rows of `z` belong to this thread (`ApplyInverse::apply`).
        let (r, z) = unsafe { (r.slice(own_rows.start, own_rows.len()), z.slice_mut(own_rows.start, own_rows.len())) };
        for ((z, r), inverse_d) in z.iter_mut().zip(r).zip(&self.inverse_d[own_rows]) {
            *z = inverse_d * r;
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.inverse_d)
    }
}
