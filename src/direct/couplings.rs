//! Symmetric matrix S in row-sum form. Its couplings are a_ij = -s_ij, and its row sums are e_i = sum_j s_ij. The
//! diagonal entry is d_i = s_ii = e_i + sum_j a_ij. The row sum of an aggregate is the sum of the row sums of its rows;
//! no diagonal entry is needed. A row sum is therefore accurate even if it is much smaller than d_i. If S has positive
//! off-diagonal entries, e_i may be negative.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::number::power_of_two_below;
use crate::base::workers::{SliceSplitter, Workers, divide_lanes};
use crate::error::{Error, Result, push, reserve, zeroed};
use crate::stencil::cells::SevenPoints;
use std::ops::Range;

/// Name of the arrays of `Couplings` in error messages about failed allocations.
pub const ALLOCATION_NAME: &str = "an aggregation hierarchy";

/// A row sum whose magnitude is below this fraction of the diagonal entry is a rounding error and is set to zero.
const ROUNDING_FRACTION: f64 = 1e-12;

/// A symmetric matrix as couplings and row sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Couplings {
    /// The couplings of row i are stored at the indices `ptr[i] .. ptr[i + 1]` of `col` and `a`.
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
        let row_ranges = divide_lanes(&s.ptr, workers.threads(size_of_val(&*s.val)));
        Self::concatenate(row_ranges, workers, |rows| {
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

    /// Converts a symmetric matrix, multiplied by the factor [`Self::scale_of`]. Also returns the factor.
    pub fn scaled<I: Index>(s: &Csr<I>, workers: &mut Workers) -> Result<(Self, f64)> {
        let scale = Self::scale_of(s, workers)?;
        Ok((Self::of(s, scale, workers)?, scale))
    }

    /// Returns the power of two by which a symmetric matrix is multiplied: the largest magnitude of a diagonal entry of
    /// the product is at least 1 and below 2.
    pub fn scale_of<I: Index>(s: &Csr<I>, workers: &mut Workers) -> Result<f64> {
        let row_ranges = divide_lanes(&s.ptr, workers.threads(size_of_val(&*s.val)));
        let largest_diagonal_of =
            |rows: Range<usize>| rows.filter_map(|i| s.get(i, i)).fold(0.0, |largest: f64, d| largest.max(d.abs()));
        let largest_diagonal = workers.map(row_ranges, largest_diagonal_of)?.into_iter().fold(0.0, f64::max);
        Ok(power_of_two_below(largest_diagonal).recip())
    }

    /// Converts `scale` times the matrix of a box of cells. A row sum becomes zero if its magnitude is at most
    /// `zero_row_sum_limit` times the center.
    pub fn of_cells(a: &SevenPoints, scale: f64, zero_row_sum_limit: f64) -> Result<Self> {
        let (n, strides) = (a.cells.count(), a.cells.strides());
        if n > u32::MAX as usize - 1 {
            return Err(Error::Unsupported(format!("preconditioner=amg supports fewer than 2^32 cells, got {n}")));
        }
        let mut c = Self::with_capacity(n, 6 * n)?;
        for i in 0..n {
            let center = scale * a.center[i];
            let mut row_sum = center;
            // Entries of `forward` that point out of the box are zero, so `later_neighbours` needs no condition.
            let earlier_neighbours =
                (0..3).rev().filter(|&d| i >= strides[d]).map(|d| (i - strides[d], a.forward[d][i - strides[d]]));
            let later_neighbours = (0..3).map(|d| (i + strides[d], a.forward[d][i]));
            for (j, value) in earlier_neighbours.chain(later_neighbours).filter(|(_, value)| *value != 0.0) {
                row_sum += scale * value;
                c.push(j, -scale * value);
            }
            c.end_row(if row_sum.abs() <= zero_row_sum_limit * center { 0.0 } else { row_sum });
        }
        Ok(c)
    }

    /// Creates a matrix without rows, with capacity for `rows` rows and `entries` couplings.
    pub fn with_capacity(rows: usize, entries: usize) -> Result<Self> {
        let mut c = Self::default();
        reserve(&mut c.ptr, rows + 1, ALLOCATION_NAME)?;
        reserve(&mut c.col, entries, ALLOCATION_NAME)?;
        reserve(&mut c.a, entries, ALLOCATION_NAME)?;
        reserve(&mut c.row_sum, rows, ALLOCATION_NAME)?;
        reserve(&mut c.diagonal, rows, ALLOCATION_NAME)?;
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
        let is_rounding = row_sum.abs() < ROUNDING_FRACTION * (row_sum + self.current_row_sum());
        self.end_exact_row(if is_rounding { 0.0 } else { row_sum });
    }

    /// Returns the sum of the couplings of the current row.
    fn current_row_sum(&self) -> f64 {
        self.a[self.ptr.last().copied().unwrap_or(0)..].iter().sum()
    }

    /// Ends the current row. Stores `row_sum` unchanged, even if it is at the rounding level.
    pub fn end_exact_row(&mut self, row_sum: f64) {
        let current_row_sum = self.current_row_sum();
        self.ptr.push(self.col.len());
        self.row_sum.push(row_sum);
        self.diagonal.push(row_sum + current_row_sum);
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

    /// Computes the Galerkin matrix P^T S P for `aggregate_count` aggregates. Column k of P is 1 on the rows of
    /// aggregate k and 0 elsewhere. `aggregate[i]` is the aggregate of row i, or `UNASSIGNED` if row i is in no
    /// aggregate. Couplings to unassigned rows are added to the row sum of the aggregate.
    pub fn galerkin(&self, aggregate: &[u32], aggregate_count: usize, workers: &mut Workers) -> Result<Self> {
        let (starts, listed_rows) = rows_by_aggregate(aggregate, aggregate_count)?;
        // Each call of `coarse_rows` allocates an array of `aggregate_count` entries, so there are at most as many
        // calls as threads.
        let aggregate_ranges = divide_lanes(&starts, workers.threads(size_of_val(&*self.a)));
        Self::concatenate(aggregate_ranges, workers, |rows| {
            self.coarse_rows(aggregate, aggregate_count, (&starts, &listed_rows), rows)
        })
    }

    /// Computes the rows `rows` of P^T S P. `starts` and `listed_rows` are the results of `rows_by_aggregate`.
    fn coarse_rows(
        &self,
        aggregate: &[u32],
        aggregate_count: usize,
        (starts, listed_rows): (&[usize], &[u32]),
        rows: Range<usize>,
    ) -> Result<Self> {
        let fine_rows = &listed_rows[starts[rows.start]..starts[rows.end]];
        let entries = fine_rows.iter().map(|&i| self.ptr[i as usize + 1] - self.ptr[i as usize]).sum();
        let mut coarse = Self::with_capacity(rows.len(), entries)?;
        // For each aggregate: 1 + the index in `coupling_row` of the coupling to this aggregate, or 0 if there is no
        // such coupling yet.
        let mut position_in_row: Vec<u32> = zeroed(aggregate_count, ALLOCATION_NAME)?;
        let mut coupling_row: Vec<(u32, f64)> = Vec::new();
        for k in rows {
            coupling_row.clear();
            let mut row_sum = 0.0;
            for &i in &listed_rows[starts[k]..starts[k + 1]] {
                row_sum += self.row_sum[i as usize];
                for (j, a) in self.row(i as usize) {
                    match aggregate[j] {
                        UNASSIGNED => row_sum += a,
                        coarse_col if coarse_col as usize == k => {}
                        coarse_col if position_in_row[coarse_col as usize] > 0 => {
                            coupling_row[position_in_row[coarse_col as usize] as usize - 1].1 += a
                        }
                        coarse_col => {
                            push(&mut coupling_row, (coarse_col, a), ALLOCATION_NAME)?;
                            position_in_row[coarse_col as usize] = coupling_row.len() as u32;
                        }
                    }
                }
            }
            coupling_row.iter().for_each(|&(coarse_col, _)| position_in_row[coarse_col as usize] = 0);
            coupling_row.sort_unstable_by_key(|&(coarse_col, _)| coarse_col);
            coupling_row.iter().for_each(|&(coarse_col, a)| coarse.push(coarse_col as usize, a));
            coarse.end_row(row_sum);
        }
        Ok(coarse)
    }

    /// Calls `build_rows` for each element of `pieces`, on several threads. Returns the matrix that consists of the
    /// resulting rows, in the order of `pieces`.
    pub fn concatenate<T: Send>(
        pieces: impl IntoIterator<Item = T>,
        workers: &mut Workers,
        build_rows: impl Fn(T) -> Result<Self> + Sync,
    ) -> Result<Self> {
        let mut parts = workers.map(pieces, build_rows)?.into_iter().collect::<Result<Vec<_>>>()?;
        match parts.len() {
            0 => Self::with_capacity(0, 0),
            1 => Ok(parts.swap_remove(0)),
            _ => Self::join(&parts, workers),
        }
    }

    /// Returns the matrix that consists of the rows of all `parts`, in order.
    fn join(parts: &[Self], workers: &mut Workers) -> Result<Self> {
        let rows = parts.iter().map(Self::rows).sum();
        let entries = parts.iter().map(|part| part.col.len()).sum();
        let (mut ptr, mut col) = (zeroed(rows + 1, ALLOCATION_NAME)?, zeroed(entries, ALLOCATION_NAME)?);
        let (mut a, mut row_sum, mut diagonal) =
            (zeroed(entries, ALLOCATION_NAME)?, zeroed(rows, ALLOCATION_NAME)?, zeroed(rows, ALLOCATION_NAME)?);
        let (mut ptr_parts, mut col_parts, mut a_parts) =
            (SliceSplitter(&mut ptr[1..]), SliceSplitter(&mut col), SliceSplitter(&mut a));
        let (mut row_sum_parts, mut diagonal_parts) = (SliceSplitter(&mut row_sum), SliceSplitter(&mut diagonal));
        let mut entry_count = 0;
        let pieces = parts.iter().map(|part| {
            let (rows, entries, start) = (part.rows(), part.col.len(), entry_count);
            entry_count += entries;
            let row_parts =
                (ptr_parts.take_front(rows), row_sum_parts.take_front(rows), diagonal_parts.take_front(rows));
            (part, start, row_parts, col_parts.take_front(entries), a_parts.take_front(entries))
        });
        workers.for_each_piece(pieces, |(part, start, (ptr, row_sum, diagonal), col, a)| {
            ptr.iter_mut().zip(&part.ptr[1..]).for_each(|(target, end)| *target = start + end);
            col.copy_from_slice(&part.col);
            a.copy_from_slice(&part.a);
            row_sum.copy_from_slice(&part.row_sum);
            diagonal.copy_from_slice(&part.diagonal);
        })?;
        Ok(Self { ptr, col, a, row_sum, diagonal })
    }
}

/// Aggregate number of a row that is in no aggregate; component number of a row that is in no stored component.
pub const UNASSIGNED: u32 = u32::MAX;

/// Returns `(starts, listed_rows)`. `listed_rows` contains the rows that are in aggregates, sorted by aggregate and
/// then by number. Aggregate k consists of the entries `starts[k] .. starts[k + 1]` of `listed_rows`.
pub fn rows_by_aggregate(aggregate: &[u32], aggregate_count: usize) -> Result<(Vec<usize>, Vec<u32>)> {
    let mut starts: Vec<usize> = zeroed(aggregate_count + 1, ALLOCATION_NAME)?;
    aggregate.iter().filter(|&&k| k != UNASSIGNED).for_each(|&k| starts[k as usize + 1] += 1);
    crate::base::csr::lengths_to_pointers(&mut starts);
    let mut listed_rows: Vec<u32> = zeroed(starts[aggregate_count], ALLOCATION_NAME)?;
    for (i, &k) in aggregate.iter().enumerate().filter(|(_, k)| **k != UNASSIGNED) {
        listed_rows[starts[k as usize]] = i as u32;
        starts[k as usize] += 1;
    }
    crate::base::csr::ends_to_pointers(&mut starts);
    Ok((starts, listed_rows))
}
