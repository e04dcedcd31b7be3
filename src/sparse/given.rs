//! The caller's entries, with indices from 0 or 1. All arrays are validated before a matrix is built.

use super::assemble::Assembled;
use super::checks::{check_indices, check_pointers, check_values};
use super::matrix::{Matrix, Width};
use crate::base::heap::boxed;
use crate::base::index::{Indices, is_narrow};
use crate::base::workers::Workers;
use crate::error::Result;

/// Representation of the entries.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// Row and column of each entry.
    Coordinates,
    /// Row pointers, and column indices.
    Rows,
    /// Column pointers, and row indices.
    Columns,
}

/// Index arrays of the caller. `order` states what `first` and `second` contain.
pub struct Entries<'a> {
    pub rows: usize,
    pub cols: usize,
    pub order: Order,
    pub first: Indices<'a>,
    pub second: Indices<'a>,
    /// Index of the first row and column: 0 or 1.
    pub base: i64,
}

impl Entries<'_> {
    /// Validates the arrays, and builds the matrix with one value per entry.
    pub fn matrix(&self, values: &[f64], workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        match self.order {
            Order::Rows => {
                check_pointers("row_ptr", self.first, self.base, self.second.len())?;
                check_indices("col", self.second, self.base, self.cols)?;
            }
            Order::Columns => {
                check_pointers("col_ptr", self.first, self.base, self.second.len())?;
                check_indices("row", self.second, self.base, self.rows)?;
            }
            Order::Coordinates => {
                check_indices("row", self.first, self.base, self.rows)?;
                check_indices("col", self.second, self.base, self.cols)?;
            }
        }
        check_values(values)?;
        if is_narrow(self.rows, self.cols) {
            self.make::<u32>(values, workers)
        } else {
            self.make::<u64>(values, workers)
        }
    }

    fn make<I: Width>(&self, values: &[f64], workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        let visit = |add: &mut dyn FnMut(usize, usize)| self.visit(add);
        let mut matrix = Assembled::<I>::pattern(self.rows, self.cols, values.len(), visit, workers)?;
        matrix.set_values(values.iter().copied())?;
        Ok(boxed(matrix, "a matrix")?)
    }

    /// Calls `add` with row and column of each entry. The arrays must have been checked.
    fn visit(&self, add: &mut dyn FnMut(usize, usize)) {
        let at = |indices: Indices, k| (indices.get(k) - self.base) as usize;
        if self.order == Order::Coordinates {
            return (0..self.first.len()).for_each(|k| add(at(self.first, k), at(self.second, k)));
        }
        for lane in 0..self.first.len() - 1 {
            for k in at(self.first, lane)..at(self.first, lane + 1) {
                let other = at(self.second, k);
                if self.order == Order::Rows { add(lane, other) } else { add(other, lane) }
            }
        }
    }
}
