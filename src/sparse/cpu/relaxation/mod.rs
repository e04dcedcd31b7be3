//! Relaxation of general sparse matrices by a thread team: Jacobi, Gauss-Seidel and SOR in several orders of the rows
//! (Saad 2003, section 4.1; the thesis of 2008, algorithms 1 and 2, equation (3.11)). For each row i in turn, a sweep
//! computes
//!
//! ```text
//! x_i = omega (b_i - sum over j != i of a_ij x_j) / a_ii + (1 - omega) x_i
//! ```
//!
//! The methods and the orders of the rows differ in which x_j are new values. For any number of threads, the result is
//! bitwise identical to that of a sequential sweep in the same order.
//! docs/theory/sparse.md lists the differences from the thesis.
//!
//! Modules, each of which may use the modules before it in this list: `rows` (the formula), `sweep` (the interface of
//! an order), `blocks`, `ordered`.

mod blocks;
mod ordered;
mod rows;
mod sweep;

use crate::base::csr::Csr;
use crate::base::heap::boxed;
use crate::base::index::Index;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::error::{Error, Location, RRB_ERR_MATRIX, Result};
use crate::options::Ordering;
pub use crate::sparse::backend::SweepParameters;
use crate::sparse::cpu::levels::order_by_levels;
use crate::sparse::cpu::stages::ProcessingOrder;
use blocks::BlockSweep;
use ordered::OrderedSweep;
use rows::ALLOCATION_NAME;
use sweep::Sweep;

/// The sweeps of a matrix.
pub struct Relaxation {
    sweep: Box<dyn Sweep>,
    colour_count: usize,
    level_count: usize,
}

impl Relaxation {
    /// Creates the sweeps of a square matrix with a nonzero diagonal, for a team of `threads` threads.
    pub fn new<I: Index>(a: &Csr<I>, parameters: &SweepParameters, threads: usize) -> Result<Self> {
        check_matrix(a)?;
        let SweepParameters { is_jacobi, omega, ordering, block_count } = *parameters;
        let (sweep, colour_count, level_count): (Box<dyn Sweep>, _, _) = match ordering {
            _ if is_jacobi => (boxed(BlockSweep::new(a, omega, a.rows())?, ALLOCATION_NAME)?, 0, 0),
            Ordering::Blocks => (boxed(BlockSweep::new(a, omega, block_count)?, ALLOCATION_NAME)?, 0, 0),
            Ordering::Multicolour => {
                let order = ProcessingOrder::by_colours(a)?;
                let colour_count = order.level_starts.len() - 1;
                (boxed(OrderedSweep::new(a, order, omega, false)?, ALLOCATION_NAME)?, colour_count, 0)
            }
            Ordering::Natural | Ordering::Symmetric => {
                let order = order_by_levels(a, threads)?;
                let level_count = order.level_starts.len() - 1;
                let is_symmetric = ordering == Ordering::Symmetric;
                (boxed(OrderedSweep::new(a, order, omega, is_symmetric)?, ALLOCATION_NAME)?, 0, level_count)
            }
        };
        Ok(Self { sweep, colour_count, level_count })
    }

    /// Computes one sweep on x. `old_x` is a workspace for a copy of x. All threads of the team call this function
    /// together, after a barrier. The function ends with a barrier. Between these barriers, no other code may use x or
    /// `old_x`, or write b.
    pub fn sweep(&self, thread: &TeamThread, x: &Shared, b: &Shared, old_x: &Shared) {
        self.sweep.sweep(thread, x, b, old_x);
    }

    /// Returns the number of colours for `Ordering::Multicolour`; 0 for Jacobi and other orderings.
    pub fn colour_count(&self) -> usize {
        self.colour_count
    }

    /// Returns the number of levels for `Ordering::Natural` and `Ordering::Symmetric`; 0 for Jacobi and other
    /// orderings.
    pub fn level_count(&self) -> usize {
        self.level_count
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        self.sweep.bytes()
    }
}

/// Checks that the matrix is square and has a nonzero diagonal, by which a sweep divides.
fn check_matrix<I: Index>(a: &Csr<I>) -> Result<()> {
    if a.rows() != a.cols {
        let size_message = format!("sweeps need a square matrix, got {} rows and", a.rows());
        return Err(Error::Dimension(format!("{size_message} {} columns", a.cols)));
    }
    const MESSAGE_END: &str = " has a missing or zero diagonal entry; use solver=idr, or reorder the rows";
    match (0..a.rows()).find(|&i| a.get(i, i).unwrap_or(0.0) == 0.0) {
        Some(row) => Err(Error::at(RRB_ERR_MATRIX, "row ", Location::entry(row), MESSAGE_END)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
