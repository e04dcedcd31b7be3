//! What a caller gives: rows, columns and values with indices from 0 or 1, all checked before anything is made of them.

use super::assemble::Assembled;
use super::checks::{check_places, check_pointers, check_values};
use super::index::{Indices, is_narrow};
use super::matrix::{Matrix, Width};
use crate::error::Result;
use crate::runtime::heap::boxed;
use crate::runtime::workers::Workers;

/// How entries are given.
#[derive(Clone, Copy, PartialEq)]
pub enum Order {
    /// A row and a column each.
    Coordinates,
    /// Pointers to rows, and columns.
    Rows,
    /// Pointers to columns, and rows.
    Columns,
}

/// Arrays of indices of a caller, as `order` says.
pub struct Entries<'a> {
    pub rows: usize,
    pub cols: usize,
    pub order: Order,
    pub first: Indices<'a>,
    pub second: Indices<'a>,
    /// The index of the first row and column: 0 or 1.
    pub base: i64,
}

impl Entries<'_> {
    /// The matrix with these values, one for each entry.
    pub fn matrix(&self, values: &[f64], workers: &mut Workers) -> Result<Box<dyn Matrix>> {
        match self.order {
            Order::Rows => {
                check_pointers("row_ptr", self.first, self.base, self.second.len())?;
                check_places("col", self.second, self.base, self.cols)?;
            }
            Order::Columns => {
                check_pointers("col_ptr", self.first, self.base, self.second.len())?;
                check_places("row", self.second, self.base, self.rows)?;
            }
            Order::Coordinates => {
                check_places("row", self.first, self.base, self.rows)?;
                check_places("col", self.second, self.base, self.cols)?;
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
        let visit = |see: &mut dyn FnMut(usize, usize)| self.visit(see);
        let mut matrix = Assembled::<I>::pattern(self.rows, self.cols, values.len(), visit, workers)?;
        matrix.set_values(values.iter().copied())?;
        Ok(boxed(matrix, "a matrix")?)
    }

    /// Rows and columns of all entries, which were checked.
    fn visit(&self, see: &mut dyn FnMut(usize, usize)) {
        let at = |indices: Indices, k| (indices.get(k) - self.base) as usize;
        if self.order == Order::Coordinates {
            return (0..self.first.len()).for_each(|k| see(at(self.first, k), at(self.second, k)));
        }
        for lane in 0..self.first.len() - 1 {
            for k in at(self.first, lane)..at(self.first, lane + 1) {
                let other = at(self.second, k);
                if self.order == Order::Rows { see(lane, other) } else { see(other, lane) }
            }
        }
    }
}
