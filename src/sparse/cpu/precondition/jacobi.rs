//! Diagonal preconditioners: M = D or M = |D|.

use super::apply::{Apply, WHAT};
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result, zeroed};
use crate::krylov::cpu::chunks::Chunks;

/// Returns 1 / a_ii for all rows.
pub fn inverse_diagonal<I: Index>(a: &Csr<I>) -> Result<Vec<f64>> {
    let mut inverse = zeroed(a.rows(), WHAT)?;
    for (i, inverse) in inverse.iter_mut().enumerate() {
        match a.get(i, i) {
            Some(d) if d != 0.0 => *inverse = 1.0 / d,
            _ => return Err(no_diagonal_error(i)),
        }
    }
    Ok(inverse)
}

/// Returns the error for a row with a zero or missing diagonal entry.
pub fn no_diagonal_error(row: usize) -> Error {
    const TO_DO: &str = " has a missing or zero diagonal entry; use preconditioner=none, or reorder the rows";
    Error::at(RRB_ERR_MATRIX, "row ", Place::entry(row), TO_DO)
}

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
