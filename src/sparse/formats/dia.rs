//! Diagonals (dia; Saad 2003, section 3.4): val[d][i] = a(i, i + offset[d]), with ascending offsets. The values at
//! positions outside the matrix are zero. Then y_i = sum_d val[d][i] x[i + offset[d]].

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::isa::for_each_isa;
use crate::base::workers::{Workers, across, cut};
use crate::error::{Result, collected, insert, push, zeroed};
use crate::sparse::stored::{Arrays, ByParts, ByRows, Division, POINTER, Size, Stored, View, joined};
use std::collections::HashMap;
use std::ops::Range;

/// Name of an allocation in error messages.
const DIA: &str = "a matrix in format dia";
/// Rows per block of a product. The sums of a block stay in the L1 or L2 cache while all diagonals are added.
const BLOCK_ROWS: usize = 4096;

pub struct Dia {
    rows: usize,
    cols: usize,
    offset: Vec<i64>,
    val: Vec<f64>,
}

/// Returns the offsets of all diagonals with an entry, in ascending order; `None` if there are more than `most`.
pub fn offsets<I: Index>(a: &Csr<I>, most: usize) -> Result<Option<Vec<i64>>> {
    let mut found = HashMap::new();
    // In many matrices, a row has the same offsets as the previous row, whose offsets are then not inserted again.
    let mut row_before: Vec<i64> = Vec::new();
    for i in 0..a.rows() {
        let offset = |(j, _): (usize, f64)| j as i64 - i as i64;
        if row_before.len() == a.len(i) && a.row(i).map(offset).eq(row_before.iter().copied()) {
            continue;
        }
        row_before.clear();
        for offset in a.row(i).map(offset) {
            push(&mut row_before, offset, DIA)?;
            insert(&mut found, offset, (), DIA)?;
        }
        if found.len() > most {
            return Ok(None);
        }
    }
    let mut offsets = collected(found.into_keys(), DIA)?;
    offsets.sort_unstable();
    Ok(Some(offsets))
}

pub fn size<I>(a: &Csr<I>, diagonals: usize) -> Size {
    Size::new([(diagonals, POINTER)], diagonals as u128 * (a.ptr.len() - 1) as u128)
}

impl Dia {
    pub fn of<I: Index>(a: &Csr<I>, offset: Vec<i64>, workers: &mut Workers) -> Result<Self> {
        let rows = a.rows();
        let mut val = zeroed(offset.len() * rows, DIA)?;
        let cut = cut(rows, workers.pieces_across(rows, size_of_val(&*val)));
        workers.each(across(&mut val, rows, cut)?, |(part, mut diagonals)| {
            for i in part.clone() {
                let mut indices = offset.iter().zip(&mut diagonals);
                for (j, value) in a.row(i) {
                    // The offsets ascend in the row and in `indices`, and each entry belongs to a diagonal.
                    if let Some((_, diagonal)) = indices.find(|(o, _)| **o == j as i64 - i as i64) {
                        diagonal[i - part.start] = value;
                    }
                }
            }
        })?;
        Ok(Self { rows, cols: a.cols, offset, val })
    }

    /// Returns the rows of `among` in which diagonal d is inside the matrix, and the values of the diagonal in these
    /// rows.
    fn part(&self, d: usize, among: Range<usize>) -> (Range<usize>, &[f64]) {
        let offset = self.offset[d];
        let first = usize::try_from(-offset).unwrap_or(0).clamp(among.start, among.end);
        let end = usize::try_from(self.cols as i64 - offset).unwrap_or(0).min(among.end).max(first);
        (first..end, &self.val[d * self.rows..][first..end])
    }

    /// Returns the columns of diagonal d in these rows.
    fn columns_of(&self, d: usize, rows: &Range<usize>) -> Range<usize> {
        let column = |i: usize| (i as i64 + self.offset[d]) as usize;
        if rows.is_empty() { 0..0 } else { column(rows.start)..column(rows.end) }
    }
}

/// Number of diagonals that are added in one pass, with the sums in registers.
const DIAGONALS_AT_ONCE: usize = 8;

/// Values of a diagonal in some rows, and x at their columns.
type Term<'a> = (&'a [f64], &'a [f64]);

for_each_isa! {
    /// Computes y_i += sum_d a_d(i) x_d(i) over at most `DIAGONALS_AT_ONCE` diagonals, in their order.
    fn add(y: &mut [f64], terms: &[Term]) {
        match *terms {
            [a] => add_terms(y, [a]),
            [a, b] => add_terms(y, [a, b]),
            [a, b, c] => add_terms(y, [a, b, c]),
            [a, b, c, d] => add_terms(y, [a, b, c, d]),
            [a, b, c, d, e] => add_terms(y, [a, b, c, d, e]),
            [a, b, c, d, e, f] => add_terms(y, [a, b, c, d, e, f]),
            [a, b, c, d, e, f, g] => add_terms(y, [a, b, c, d, e, f, g]),
            [a, b, c, d, e, f, g, h] => add_terms(y, [a, b, c, d, e, f, g, h]),
            _ => {}
        }
    }
}

#[inline(always)]
fn add_terms<const N: usize>(y: &mut [f64], terms: [Term; N]) {
    let terms = terms.map(|(a, x)| (&a[..y.len()], &x[..y.len()]));
    for (i, y) in y.iter_mut().enumerate() {
        *y = terms.iter().fold(*y, |sum, (a, x)| sum + a[i] * x[i]);
    }
}

impl Dia {
    /// Adds the products with consecutive diagonals, of which `first` is the first one, to y. Stops after
    /// `DIAGONALS_AT_ONCE` diagonals, or before a diagonal that covers other rows than diagonal `first`. Returns the
    /// number of diagonals that were added.
    fn add_several(&self, first: usize, rows: &Range<usize>, x: &[f64], y: &mut [f64]) -> usize {
        let (part, _) = self.part(first, rows.clone());
        let mut terms: [Term; DIAGONALS_AT_ONCE] = [(&[], &[]); DIAGONALS_AT_ONCE];
        let mut count = 0;
        for d in first..self.offset.len().min(first + DIAGONALS_AT_ONCE) {
            let (other, val) = self.part(d, rows.clone());
            if other != part {
                break;
            }
            terms[count] = (val, &x[self.columns_of(d, &part)]);
            count += 1;
        }
        add(&mut y[part.start - rows.start..part.end - rows.start], &terms[..count]);
        count
    }
}

impl ByRows for Dia {
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        for (start, y) in rows.step_by(BLOCK_ROWS).zip(y.chunks_mut(BLOCK_ROWS)) {
            let rows = start..start + y.len();
            y.fill(0.0);
            let mut d = 0;
            while d < self.offset.len() {
                d += self.add_several(d, &rows, x, y);
            }
        }
    }
}

impl ByParts for Dia {
    fn columns(&self, rows: Range<usize>) -> Range<usize> {
        joined((0..self.offset.len()).map(|d| self.columns_of(d, &self.part(d, rows.clone()).0)))
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first: usize, y: &mut [f64]) {
        for start in rows.clone().step_by(BLOCK_ROWS) {
            for d in 0..self.offset.len() {
                let (part, val) = self.part(d, start..rows.end.min(start + BLOCK_ROWS));
                let columns = self.columns_of(d, &part);
                // An empty range of columns may start before `first`.
                let y = y[columns.start.saturating_sub(first)..][..columns.len()].iter_mut();
                let x = &x[part.start - rows.start..part.end - rows.start];
                y.zip(val).zip(x).for_each(|((y, a), x)| *y += a * x);
            }
        }
    }
}

impl Stored for Dia {
    fn division(&self, transposed: bool) -> Division<'_> {
        if transposed { Division::Parts(self) } else { Division::Rows(self) }
    }

    fn view(&self) -> Option<View<'_>> {
        Some(View::Dia { length: self.rows, offset: &self.offset, val: &self.val })
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put_signed(self.offset.iter().copied());
        to.values.copy_from_slice(&self.val);
    }
}
