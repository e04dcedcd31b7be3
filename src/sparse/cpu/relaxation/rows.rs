//! The rows of a sweep, and the relaxation of one row.

use crate::base::csr::{Csr, lengths_to_pointers};
use crate::base::index::Index;
use crate::error::{Result, reserve, zeroed};

pub const ALLOCATION_NAME: &str = "a relaxation";

/// The rows of A in the order of processing. `ptr`, `col` and `val` contain the off-diagonal entries in csr, and
/// `diagonal` the diagonal entries.
pub struct SweepRows<I> {
    ptr: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
    diagonal: Vec<f64>,
    omega: f64,
}

impl<I: Index> SweepRows<I> {
    /// Copies the rows of a matrix with a nonzero diagonal, in the order `order`. `None` means ascending order.
    pub fn new(a: &Csr<I>, order: Option<&[I]>, omega: f64) -> Result<Self> {
        let n = a.rows();
        let row_at = |position: usize| order.map_or(position, |rows| rows[position].to_usize());
        let (mut ptr, mut diagonal) = (zeroed(n + 1, ALLOCATION_NAME)?, zeroed(n, ALLOCATION_NAME)?);
        for position in 0..n {
            ptr[position + 1] = a.row_len(row_at(position)) - 1;
        }
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (Vec::new(), Vec::new());
        reserve(&mut col, ptr[n], ALLOCATION_NAME)?;
        reserve(&mut val, ptr[n], ALLOCATION_NAME)?;
        for (position, diagonal) in diagonal.iter_mut().enumerate() {
            let row = row_at(position);
            for (j, value) in a.row(row) {
                if j == row {
                    *diagonal = value;
                } else {
                    col.push(I::of(j));
                    val.push(value);
                }
            }
        }
        Ok(Self { ptr, col, val, diagonal, omega })
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        self.diagonal.len()
    }

    /// Returns the number of rows plus the number of their off-diagonal entries before a position of the order.
    pub fn work_before(&self, position: usize) -> usize {
        position + self.ptr[position]
    }

    /// Returns the new x_i for the row at this position, where x(j) returns the current x_j:
    ///
    /// ```text
    /// omega (b_i - sum over j != i of a_ij x_j) / a_ii + (1 - omega) x_i
    /// ```
    ///
    /// The sum is in the order of ascending columns.
    pub fn relaxed_value(&self, position: usize, b_i: f64, x_i: f64, x: impl Fn(usize) -> f64) -> f64 {
        let entries = self.ptr[position]..self.ptr[position + 1];
        let (col, val) = (&self.col[entries.clone()], &self.val[entries]);
        let sum = col.iter().zip(val).fold(0.0, |sum, (j, a)| sum + a * x(j.to_usize()));
        self.omega * (b_i - sum) / self.diagonal[position] + (1.0 - self.omega) * x_i
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ptr) + size_of_val(&*self.col) + size_of_val(&*self.val) + size_of_val(&*self.diagonal)
    }
}
