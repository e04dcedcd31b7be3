//! The rows of a sweep, and the relaxation of one row.

use crate::base::csr::{Csr, lengths_to_pointers};
use crate::base::index::Index;
use crate::error::{Result, reserve, zeroed};

pub const WHAT: &str = "a relaxation";

/// Rows in the order of processing: off-diagonal entries with ascending columns, and the diagonal.
pub struct Rows<I> {
    ptr: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
    diagonal: Vec<f64>,
    omega: f64,
}

impl<I: Index> Rows<I> {
    /// Copies the rows of a matrix with a nonzero diagonal in the order `order`; `None` means ascending order.
    pub fn new(a: &Csr<I>, order: Option<&[I]>, omega: f64) -> Result<Self> {
        let n = a.rows();
        let row_at = |place: usize| order.map_or(place, |rows| rows[place].at());
        let (mut ptr, mut diagonal) = (zeroed(n + 1, WHAT)?, zeroed(n, WHAT)?);
        for place in 0..n {
            ptr[place + 1] = a.len(row_at(place)) - 1;
        }
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (Vec::new(), Vec::new());
        reserve(&mut col, ptr[n], WHAT)?;
        reserve(&mut val, ptr[n], WHAT)?;
        for (place, diagonal) in diagonal.iter_mut().enumerate() {
            let row = row_at(place);
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
    pub fn count(&self) -> usize {
        self.diagonal.len()
    }

    /// Returns the number of rows plus off-diagonal entries before a position.
    pub fn work(&self, place: usize) -> usize {
        place + self.ptr[place]
    }

    /// Returns the new x_i for the row at this position, where x(j) returns the current x_j:
    ///
    /// ```text
    /// omega (b_i - sum over j != i of a_ij x_j) / a_ii + (1 - omega) x_i
    /// ```
    ///
    /// The sum is in the order of ascending columns.
    pub fn relaxed(&self, place: usize, b_i: f64, x_i: f64, x: impl Fn(usize) -> f64) -> f64 {
        let entries = self.ptr[place]..self.ptr[place + 1];
        let (col, val) = (&self.col[entries.clone()], &self.val[entries]);
        let sum = col.iter().zip(val).fold(0.0, |sum, (j, a)| sum + a * x(j.at()));
        self.omega * (b_i - sum) / self.diagonal[place] + (1.0 - self.omega) * x_i
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ptr) + size_of_val(&*self.col) + size_of_val(&*self.val) + size_of_val(&*self.diagonal)
    }
}
