//! Relaxation of general sparse matrices by a thread team: Jacobi, Gauss-Seidel and SOR in several orders of the rows
//! (Saad 2003, section 4.1; the thesis of 2008, algorithms 1 and 2, equation (3.11)). For each row i in turn, a sweep
//! computes
//!
//! ```text
//! x_i = omega (b_i - sum over j != i of a_ij x_j) / a_ii + (1 - omega) x_i
//! ```
//!
//! Methods and orders differ in which x_j are new values. The result is bitwise identical to a sequential sweep in this
//! order, for any number of threads.
//!
//! Modules, each of which may use the previous ones: `rows` (the formula), `sweep` (the interface of an order),
//! `blocks`, `ordered`.

mod blocks;
mod ordered;
mod rows;
mod sweep;

use crate::base::csr::Csr;
use crate::base::heap::boxed;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::Me;
use crate::error::{Error, Place, RRB_ERR_MATRIX, Result};
use crate::options::Ordering;
pub use crate::sparse::backend::SweepParameters;
use crate::sparse::cpu::levels::by_levels;
use crate::sparse::cpu::stages::Order;
use blocks::Blocks;
use ordered::Ordered;
use rows::WHAT;
use sweep::Sweep;

/// The sweeps of a matrix.
pub struct Relaxation {
    method: Box<dyn Sweep>,
    colours: usize,
    levels: usize,
}

impl Relaxation {
    /// Creates the sweeps of a square matrix with a nonzero diagonal, for a team of `members` threads.
    pub fn new<I: Index>(a: &Csr<I>, wanted: &SweepParameters, members: usize) -> Result<Self> {
        check(a)?;
        let SweepParameters { simultaneous, omega, ordering, blocks } = *wanted;
        let (method, colours, levels): (Box<dyn Sweep>, _, _) = match ordering {
            _ if simultaneous => (boxed(Blocks::new(a, omega, a.rows())?, WHAT)?, 0, 0),
            Ordering::Blocks => (boxed(Blocks::new(a, omega, blocks)?, WHAT)?, 0, 0),
            Ordering::Multicolour => {
                let order = Order::by_colours(a)?;
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

    /// Computes one sweep on x. `old` is a workspace for a copy of x. All threads of the team call this function
    /// together, after a barrier, and it ends with a barrier. Between these barriers, no other code may use x or `old`,
    /// or write b.
    pub fn sweep(&self, me: &Me, x: &Shared, b: &Shared, old: &Shared) {
        self.method.sweep(me, x, b, old);
    }

    /// Returns the number of colours of `Ordering::Multicolour`, otherwise 0.
    pub fn colours(&self) -> usize {
        self.colours
    }

    /// Returns the number of levels of `Ordering::Natural` and `Ordering::Symmetric`, otherwise 0.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.method.bytes()
    }
}

/// Checks that the matrix is square and has a nonzero diagonal, by which a sweep divides.
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
