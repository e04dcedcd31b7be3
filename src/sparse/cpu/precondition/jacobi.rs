//! Diagonal preconditioners: M = D or M = |D|.

use super::apply::Apply;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::error::Result;
use crate::krylov::cpu::chunks::Chunks;
use crate::sparse::inverse_diagonal;

/// M = D or M = |D|, both symmetric; stores the inverse diagonal.
pub struct Jacobi {
    inverse: Vec<f64>,
}

impl Jacobi {
    pub fn new<I: Index>(a: &Csr<I>, sign: impl Fn(f64) -> f64) -> Result<Self> {
        let mut inverse = inverse_diagonal(a)?;
        inverse.iter_mut().for_each(|d| *d = sign(*d));
        Ok(Self { inverse })
    }
}

impl Apply for Jacobi {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let own = Chunks::new(self.inverse.len()).own(me);
        // SAFETY: no thread writes `from`, and the rows of `to` belong to this thread (`Apply::apply`).
        let (from, to) = unsafe { (from.slice(own.start, own.len()), to.slice_mut(own.start, own.len())) };
        for ((to, from), inverse) in to.iter_mut().zip(from).zip(&self.inverse[own]) {
            *to = inverse * from;
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.inverse)
    }
}
