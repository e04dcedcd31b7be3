//! Orders of rows by colours, for sweeps and for triangular solves, and the matrix in such an order.

use super::stages::Order;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Result, reserve, zeroed};
use crate::sparse::colours;

const WHAT: &str = "colours of rows";

/// Orders the rows by colour ([`colours`]).
pub fn by_colours<I: Index>(a: &Csr<I>) -> Result<Order<I>> {
    let (colour, count) = colours(a)?;
    Order::new(&colour, count)
}

/// Returns P A P^T: row k is row `rows[k]` of A, and the columns have the same order as the rows.
pub fn permuted<I: Index>(a: &Csr<I>, rows: &[I]) -> Result<Csr<I>> {
    let mut place = zeroed::<I>(rows.len(), WHAT)?;
    rows.iter().enumerate().for_each(|(k, row)| place[row.at()] = I::of(k));
    let (mut ptr, mut col, mut val) = (Vec::new(), Vec::new(), Vec::new());
    reserve(&mut ptr, rows.len() + 1, WHAT)?;
    reserve(&mut col, a.col.len(), WHAT)?;
    reserve(&mut val, a.val.len(), WHAT)?;
    let mut sorted: Vec<(I, f64)> = Vec::new();
    reserve(&mut sorted, a.longest_row(), WHAT)?;
    ptr.push(0);
    for row in rows {
        sorted.clear();
        sorted.extend(a.row(row.at()).map(|(j, value)| (place[j], value)));
        sorted.sort_unstable_by_key(|&(j, _)| j.at());
        col.extend(sorted.iter().map(|&(j, _)| j));
        val.extend(sorted.iter().map(|&(_, value)| value));
        ptr.push(col.len());
    }
    Ok(Csr { cols: a.cols, ptr, col, val })
}
