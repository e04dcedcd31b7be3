//! Relaxation of general sparse matrices by a team: Jacobi, Gauss-Seidel and SOR in several orders of the rows.
//!
//! A sweep takes row after row x_i = omega (b_i - sum over j != i of a_ij x_j) / a_ii + (1 - omega) x_i (the 2008
//! thesis, algorithms 1 and 2, (3.11)). Methods and orders differ in which x_j are new ones. The bits are those of one
//! thread that does the rows in order, for any number of members.
//!
//! Each may use those before it: `rows` (the formula), `sweep` (what an order offers), `blocks`, `ordered`.

mod blocks;
mod ordered;
mod rows;
mod sweep;

use crate::backend::cpu::sparse::levels::by_levels;
pub use crate::backend::steps::sparse::Relaxing as Wanted;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result};
use crate::options::Ordering;
use crate::runtime::heap::boxed;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index};
use blocks::Blocks;
use ordered::{Ordered, by_colours};
use rows::WHAT;
use sweep::Sweep;

/// Sweeps of a matrix.
pub struct Relaxation {
    method: Box<dyn Sweep>,
    colours: usize,
    levels: usize,
}

impl Relaxation {
    /// Of a square matrix with a diagonal, for a team.
    pub fn new<I: Index>(a: &Csr<I>, wanted: &Wanted, members: usize) -> Result<Self> {
        check(a)?;
        let Wanted { simultaneous, omega, ordering, blocks } = *wanted;
        let (method, colours, levels): (Box<dyn Sweep>, _, _) = match ordering {
            _ if simultaneous => (boxed(Blocks::new(a, omega, a.rows())?, WHAT)?, 0, 0),
            Ordering::Blocks => (boxed(Blocks::new(a, omega, blocks)?, WHAT)?, 0, 0),
            Ordering::Multicolour => {
                let order = by_colours(a)?;
                let colours = order.levels.len() - 1;
                (boxed(Ordered::new(a, order, omega, false)?, WHAT)?, colours, 0)
            }
            Ordering::Natural | Ordering::Symmetric => {
                let order = by_levels(a, members)?;
                let levels = order.levels.len() - 1;
                let symmetric = ordering == Ordering::Symmetric;
                (boxed(Ordered::new(a, order, omega, symmetric)?, WHAT)?, 0, levels)
            }
        };
        Ok(Self { method, colours, levels })
    }

    /// One sweep on x; `old` is room for a copy of it. All members of a team call it together. A barrier stands before
    /// it, and a barrier ends it; between them nobody uses x or `old` otherwise, or writes b.
    pub fn sweep(&self, me: &Me, x: &Shared, b: &Shared, old: &Shared) {
        self.method.sweep(me, x, b, old);
    }

    /// Colours of `Ordering::Multicolour`, else 0.
    pub fn colours(&self) -> usize {
        self.colours
    }

    /// Levels of pieces of `Ordering::Natural` and `Ordering::Symmetric`, else 0.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.method.bytes()
    }
}

/// A sweep divides by the diagonal.
fn check<I: Index>(a: &Csr<I>) -> Result<()> {
    if a.rows() != a.cols {
        let extents = format!("sweeps need a square matrix, got {} rows and", a.rows());
        return Err(Error::Dimension(format!("{extents} {} columns", a.cols)));
    }
    const TO_DO: &str = " has a missing or zero diagonal entry; use solver=idr, or reorder the rows";
    match (0..a.rows()).find(|&i| a.get(i, i).unwrap_or(0.0) == 0.0) {
        Some(row) => Err(Error::at(RRB_ERR_MATRIX, "row ", Place::entry(row), TO_DO)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
