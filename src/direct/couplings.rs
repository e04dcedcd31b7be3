//! Symmetric matrix S in row-sum form. Its couplings are a_ij = -s_ij, and its row sums are e_i = sum_j s_ij. The
//! diagonal entry is d_i = s_ii = e_i + sum_j a_ij. The row sum of an aggregate is computed from row sums, without
//! diagonal entries. It is therefore accurate even if it is much smaller than d_i. If S has positive off-diagonal
//! entries, e_i may be negative.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::power_of_two_below;
use crate::base::workers::{Parts, Workers, cut_lanes};
use crate::error::{Error, Result, push, reserve, zeroed};
use crate::stencil::cells::SevenPoints;
use std::ops::Range;

/// Name of these arrays in error messages about failed allocations.
pub const WHAT: &str = "an aggregation hierarchy";

/// A row sum whose magnitude is below this fraction of the diagonal entry is a rounding error and is set to zero.
const ROUNDING: f64 = 1e-12;

/// A symmetric matrix as couplings and row sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Couplings {
    /// Row i has the couplings `ptr[i] .. ptr[i + 1]`.
    pub ptr: Vec<usize>,
    /// Columns of the couplings, ascending in each row, without the diagonal.
    pub col: Vec<u32>,
    /// Couplings a_ij = -s_ij; positive where S has a negative entry.
    pub a: Vec<f64>,
    /// Row sums e_i.
    pub row_sum: Vec<f64>,
    /// Diagonal entries d_i.
    pub diagonal: Vec<f64>,
}

impl Couplings {
    /// Converts `scale` times a symmetric matrix with fewer than 2^32 rows.
    pub fn of<I: Index>(s: &Csr<I>, scale: f64, workers: &mut Workers) -> Result<Self> {
        let pieces = cut_lanes(&s.ptr, workers.threads(size_of_val(&*s.val)));
        Self::in_pieces(pieces, workers, |rows| {
            let mut c = Self::with_capacity(rows.len(), s.ptr[rows.end] - s.ptr[rows.start])?;
            for i in rows {
                let mut row_sum = 0.0;
                for (j, value) in s.row(i) {
                    row_sum += scale * value;
                    if j != i && value != 0.0 {
                        c.push(j, -scale * value);
                    }
                }
                c.end_row(row_sum);
            }
            Ok(c)
        })
    }

    /// Converts a symmetric matrix, multiplied by the power of two with which the largest magnitude of a diagonal entry
    /// is at least 1 and below 2. Also returns this factor.
    pub fn scaled<I: Index>(s: &Csr<I>, workers: &mut Workers) -> Result<(Self, f64)> {
        let pieces = cut_lanes(&s.ptr, workers.threads(size_of_val(&*s.val)));
        let largest_of =
            |rows: Range<usize>| rows.filter_map(|i| s.get(i, i)).fold(0.0, |most: f64, d| most.max(d.abs()));
        let largest = workers.map(pieces, largest_of)?.into_iter().fold(0.0, f64::max);
        let scale = power_of_two_below(largest).recip();
        Ok((Self::of(s, scale, workers)?, scale))
    }

    /// Converts `scale` times the matrix of a box of cells. A row sum becomes zero if its magnitude is at most
    /// `zero_row_sum` times the center.
    pub fn of_cells(a: &SevenPoints, scale: f64, zero_row_sum: f64) -> Result<Self> {
        let (n, steps) = (a.cells.count(), a.cells.strides());
        if n > u32::MAX as usize - 1 {
            return Err(Error::Unsupported(format!("preconditioner=amg supports fewer than 2^32 cells, got {n}")));
        }
        let mut c = Self::with_capacity(n, 6 * n)?;
        for i in 0..n {
            let center = scale * a.center[i];
            let mut row_sum = center;
            // Entries of `forward` that leave the box are zero, so `above` needs no condition.
            let below = (0..3).rev().filter(|&d| i >= steps[d]).map(|d| (i - steps[d], a.forward[d][i - steps[d]]));
            let above = (0..3).map(|d| (i + steps[d], a.forward[d][i]));
            for (j, value) in below.chain(above).filter(|(_, value)| *value != 0.0) {
                row_sum += scale * value;
                c.push(j, -scale * value);
            }
            c.end_row(if row_sum.abs() <= zero_row_sum * center { 0.0 } else { row_sum });
        }
        Ok(c)
    }

    /// Creates a matrix without rows, with capacity for `rows` rows and `entries` couplings.
    pub fn with_capacity(rows: usize, entries: usize) -> Result<Self> {
        let mut c = Self::default();
        reserve(&mut c.ptr, rows + 1, WHAT)?;
        reserve(&mut c.col, entries, WHAT)?;
        reserve(&mut c.a, entries, WHAT)?;
        reserve(&mut c.row_sum, rows, WHAT)?;
        reserve(&mut c.diagonal, rows, WHAT)?;
        c.ptr.push(0);
        Ok(c)
    }

    /// Appends a coupling to the current row; the capacity must suffice.
    pub fn push(&mut self, j: usize, a: f64) {
        self.col.push(j as u32);
        self.a.push(a);
    }

    /// Ends the current row, whose couplings have all been appended. A row sum at the rounding level is set to zero.
    pub fn end_row(&mut self, row_sum: f64) {
        let is_rounding = row_sum.abs() < ROUNDING * (row_sum + self.sum());
        self.end_exact_row(if is_rounding { 0.0 } else { row_sum });
    }

    /// Returns the sum of the couplings of the current row.
    fn sum(&self) -> f64 {
        self.a[self.ptr.last().copied().unwrap_or(0)..].iter().sum()
    }

    /// Ends the current row with exactly this row sum, even if it is at the rounding level.
    pub fn end_exact_row(&mut self, row_sum: f64) {
        let sum = self.sum();
        self.ptr.push(self.col.len());
        self.row_sum.push(row_sum);
        self.diagonal.push(row_sum + sum);
    }

    pub fn rows(&self) -> usize {
        self.row_sum.len()
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> usize {
        let Self { ptr, col, a, row_sum, diagonal } = self;
        size_of_val(&**ptr)
            + size_of_val(&**col)
            + [a, row_sum, diagonal].map(|v| size_of_val(&**v)).iter().sum::<usize>()
    }

    /// Returns the columns and couplings of row i.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].iter().map(|&j| j as usize).zip(self.a[range].iter().copied())
    }

    /// Returns the coupling of i and j, 0 if there is none.
    pub fn coupling(&self, i: usize, j: usize) -> f64 {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].binary_search(&(j as u32)).map_or(0.0, |k| self.a[range][k])
    }

    /// Computes the Galerkin matrix P^T S P for `count` aggregates. Column k of P is 1 on the rows of aggregate k and 0
    /// elsewhere; `of` is the aggregate of each row. An entry of `of` is `NONE` for a row outside all aggregates.
    /// Couplings to such rows are added to the row sum of the aggregate.
    pub fn galerkin(&self, of: &[u32], count: usize, workers: &mut Workers) -> Result<Self> {
        let (starts, members) = rows_by_aggregate(of, count)?;
        // Each piece allocates an array of `count` entries, so there are at most as many pieces as threads.
        let pieces = cut_lanes(&starts, workers.threads(size_of_val(&*self.a)));
        Self::in_pieces(pieces, workers, |rows| self.coarse_rows(of, count, (&starts, &members), rows))
    }

    /// Computes the coarse rows `rows` of P^T S P.
    fn coarse_rows(
        &self,
        of: &[u32],
        count: usize,
        (starts, members): (&[usize], &[u32]),
        rows: Range<usize>,
    ) -> Result<Self> {
        let fine = &members[starts[rows.start]..starts[rows.end]];
        let entries = fine.iter().map(|&i| self.ptr[i as usize + 1] - self.ptr[i as usize]).sum();
        let mut coarse = Self::with_capacity(rows.len(), entries)?;
        // For each aggregate: index in `row` of the coupling to this aggregate, plus 1; 0: there is no coupling yet.
        let mut place: Vec<u32> = zeroed(count, WHAT)?;
        let mut row: Vec<(u32, f64)> = Vec::new();
        for k in rows {
            row.clear();
            let mut row_sum = 0.0;
            for &i in &members[starts[k]..starts[k + 1]] {
                row_sum += self.row_sum[i as usize];
                for (j, a) in self.row(i as usize) {
                    match of[j] {
                        NONE => row_sum += a,
                        to if to as usize == k => {}
                        to if place[to as usize] > 0 => row[place[to as usize] as usize - 1].1 += a,
                        to => {
                            push(&mut row, (to, a), WHAT)?;
                            place[to as usize] = row.len() as u32;
                        }
                    }
                }
            }
            row.iter().for_each(|&(to, _)| place[to as usize] = 0);
            row.sort_unstable_by_key(|&(to, _)| to);
            row.iter().for_each(|&(to, a)| coarse.push(to as usize, a));
            coarse.end_row(row_sum);
        }
        Ok(coarse)
    }

    /// Calls `make` for each piece, on several threads, and appends the resulting rows in the order of the pieces.
    pub fn in_pieces<T: Send>(
        pieces: impl IntoIterator<Item = T>,
        workers: &mut Workers,
        make: impl Fn(T) -> Result<Self> + Sync,
    ) -> Result<Self> {
        let mut parts = workers.map(pieces, make)?.into_iter().collect::<Result<Vec<_>>>()?;
        match parts.len() {
            0 => Self::with_capacity(0, 0),
            1 => Ok(parts.swap_remove(0)),
            _ => Self::joined(&parts, workers),
        }
    }

    /// Returns the rows of all parts, in order.
    fn joined(parts: &[Self], workers: &mut Workers) -> Result<Self> {
        let rows = parts.iter().map(Self::rows).sum();
        let entries = parts.iter().map(|part| part.col.len()).sum();
        let (mut ptr, mut col) = (zeroed(rows + 1, WHAT)?, zeroed(entries, WHAT)?);
        let (mut a, mut row_sum, mut diagonal) = (zeroed(entries, WHAT)?, zeroed(rows, WHAT)?, zeroed(rows, WHAT)?);
        let (mut of_ptr, mut of_col, mut of_a) = (Parts(&mut ptr[1..]), Parts(&mut col), Parts(&mut a));
        let (mut of_row_sum, mut of_diagonal) = (Parts(&mut row_sum), Parts(&mut diagonal));
        let mut end = 0;
        let pieces = parts.iter().map(|part| {
            let (rows, entries, start) = (part.rows(), part.col.len(), end);
            end += entries;
            let of_rows = (of_ptr.next(rows), of_row_sum.next(rows), of_diagonal.next(rows));
            (part, start, of_rows, of_col.next(entries), of_a.next(entries))
        });
        workers.each(pieces, |(part, start, (ptr, row_sum, diagonal), col, a)| {
            ptr.iter_mut().zip(&part.ptr[1..]).for_each(|(to, at)| *to = start + at);
            col.copy_from_slice(&part.col);
            a.copy_from_slice(&part.a);
            row_sum.copy_from_slice(&part.row_sum);
            diagonal.copy_from_slice(&part.diagonal);
        })?;
        Ok(Self { ptr, col, a, row_sum, diagonal })
    }
}

/// Aggregate number of a row that is in no aggregate.
pub const NONE: u32 = u32::MAX;

/// Returns `(starts, members)`. `members` lists the rows that are in aggregates, sorted by aggregate and then by
/// number. Aggregate k consists of the entries `starts[k] .. starts[k + 1]` of `members`.
pub fn rows_by_aggregate(of: &[u32], count: usize) -> Result<(Vec<usize>, Vec<u32>)> {
    let mut starts: Vec<usize> = zeroed(count + 1, WHAT)?;
    of.iter().filter(|&&k| k != NONE).for_each(|&k| starts[k as usize + 1] += 1);
    crate::base::csr::lengths_to_pointers(&mut starts);
    let mut members: Vec<u32> = zeroed(starts[count], WHAT)?;
    for (i, &k) in of.iter().enumerate().filter(|(_, k)| **k != NONE) {
        members[starts[k as usize]] = i as u32;
        starts[k as usize] += 1;
    }
    crate::base::csr::ends_to_pointers(&mut starts);
    Ok((starts, members))
}
