//! A symmetric matrix by its couplings and the excess of its rows: a_ij = -s_ij, e_i = sum of row i of S, and
//! d_i = e_i + sum over j of a_ij = s_ii. Sums of e stay exact where d is large beside it. Where off-diagonals of S are
//! positive e may be negative.

use crate::error::{Error, Result, extend, push, reserve, zeroed};
use crate::grid::cells::SevenPoints;
use crate::runtime::number::power_of_two_below;
use crate::runtime::workers::{Workers, cut_lanes};
use crate::sparse::{Csr, Index};
use std::ops::Range;

/// For errors.
pub const WHAT: &str = "an aggregation hierarchy";

/// An excess below this part of the diagonal is rounding.
const ROUNDING: f64 = 1e-12;

/// The matrix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Couplings {
    /// Where rows begin, and the end.
    pub ptr: Vec<usize>,
    /// Columns of a row, ascending; none is the row's own.
    pub col: Vec<u32>,
    /// a_ij: positive where S has a negative entry.
    pub a: Vec<f64>,
    /// e.
    pub excess: Vec<f64>,
    /// d.
    pub diagonal: Vec<f64>,
}

impl Couplings {
    /// Of `scale` times a symmetric matrix with fewer than 2^32 rows.
    pub fn of<I: Index>(s: &Csr<I>, scale: f64, workers: &mut Workers) -> Result<Self> {
        let pieces = cut_lanes(&s.ptr, workers.threads(size_of_val(&*s.val)));
        Self::in_pieces(pieces, workers, |rows| {
            let mut c = Self::with_room(rows.len(), s.ptr[rows.end] - s.ptr[rows.start])?;
            for i in rows {
                let mut excess = 0.0;
                for (j, value) in s.row(i) {
                    excess += scale * value;
                    if j != i && value != 0.0 {
                        c.push(j, -scale * value);
                    }
                }
                c.end_row(excess);
            }
            Ok(c)
        })
    }

    /// The same, with a power of two as scale that leaves diagonals of 2 at most.
    pub fn scaled<I: Index>(s: &Csr<I>, workers: &mut Workers) -> Result<(Self, f64)> {
        let largest = (0..s.rows()).filter_map(|i| s.get(i, i)).fold(0.0, |most: f64, d| most.max(d.abs()));
        let scale = power_of_two_below(largest).recip();
        Ok((Self::of(s, scale, workers)?, scale))
    }

    /// Of `scale` times the matrix of a box of cells, where row sums within `zero_row_sum` of the center are zero.
    pub fn of_cells(a: &SevenPoints, scale: f64, zero_row_sum: f64) -> Result<Self> {
        let (n, steps) = (a.cells.count(), a.cells.steps());
        if n > u32::MAX as usize - 1 {
            return Err(Error::Unsupported(format!("preconditioner=amg supports fewer than 2^32 cells, got {n}")));
        }
        let mut c = Self::with_room(n, 6 * n)?;
        for i in 0..n {
            let center = scale * a.center[i];
            let mut excess = center;
            // Entries that leave the box are zero.
            let below = (0..3).rev().filter(|&d| i >= steps[d]).map(|d| (i - steps[d], a.forward[d][i - steps[d]]));
            let above = (0..3).map(|d| (i + steps[d], a.forward[d][i]));
            for (j, value) in below.chain(above).filter(|(_, value)| *value != 0.0) {
                excess += scale * value;
                c.push(j, -scale * value);
            }
            c.end_row(if excess.abs() <= zero_row_sum * center { 0.0 } else { excess });
        }
        Ok(c)
    }

    /// No row, and room.
    pub fn with_room(rows: usize, entries: usize) -> Result<Self> {
        let mut c = Self::default();
        reserve(&mut c.ptr, rows + 1, WHAT)?;
        reserve(&mut c.col, entries, WHAT)?;
        reserve(&mut c.a, entries, WHAT)?;
        reserve(&mut c.excess, rows, WHAT)?;
        reserve(&mut c.diagonal, rows, WHAT)?;
        c.ptr.push(0);
        Ok(c)
    }

    /// Another coupling of the row to come, for which there is room.
    pub fn push(&mut self, j: usize, a: f64) {
        self.col.push(j as u32);
        self.a.push(a);
    }

    /// The row has all its couplings.
    pub fn end_row(&mut self, excess: f64) {
        let start = self.ptr.last().copied().unwrap_or(0);
        let sum: f64 = self.a[start..].iter().sum();
        let excess = if excess.abs() < ROUNDING * (excess + sum) { 0.0 } else { excess };
        self.ptr.push(self.col.len());
        self.excess.push(excess);
        self.diagonal.push(excess + sum);
    }

    pub fn rows(&self) -> usize {
        self.excess.len()
    }

    /// Columns and couplings of row i.
    pub fn row(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + Clone {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].iter().map(|&j| j as usize).zip(self.a[range].iter().copied())
    }

    /// The coupling of i and j; 0: none.
    pub fn between(&self, i: usize, j: usize) -> f64 {
        let range = self.ptr[i]..self.ptr[i + 1];
        self.col[range.clone()].binary_search(&(j as u32)).map_or(0.0, |k| self.a[range][k])
    }

    /// P' S P of the aggregates that `of` names, `count` of them: sums of couplings and of excess; couplings to what is
    /// in none (`NONE`) are excess of those who have them.
    pub fn galerkin(&self, of: &[u32], count: usize, workers: &mut Workers) -> Result<Self> {
        let (starts, members) = members(of, count)?;
        // Each piece has room for all coarse columns: no more of them than threads.
        let pieces = cut_lanes(&starts, workers.threads(size_of_val(&*self.a)));
        Self::in_pieces(pieces, workers, |rows| self.coarse_rows(of, count, (&starts, &members), rows))
    }

    /// Rows of P' S P.
    fn coarse_rows(
        &self,
        of: &[u32],
        count: usize,
        (starts, members): (&[usize], &[u32]),
        rows: Range<usize>,
    ) -> Result<Self> {
        let fine = &members[starts[rows.start]..starts[rows.end]];
        let entries = fine.iter().map(|&i| self.ptr[i as usize + 1] - self.ptr[i as usize]).sum();
        let mut coarse = Self::with_room(rows.len(), entries)?;
        // Where in the row to come the coupling to an aggregate is, plus 1.
        let mut place: Vec<u32> = zeroed(count, WHAT)?;
        let mut row: Vec<(u32, f64)> = Vec::new();
        for k in rows {
            row.clear();
            let mut excess = 0.0;
            for &i in &members[starts[k]..starts[k + 1]] {
                excess += self.excess[i as usize];
                for (j, a) in self.row(i as usize) {
                    match of[j] {
                        NONE => excess += a,
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
            coarse.end_row(excess);
        }
        Ok(coarse)
    }

    /// The rows that `make` makes of all pieces, one behind another.
    pub fn in_pieces<T: Send>(
        pieces: impl IntoIterator<Item = T>,
        workers: &mut Workers,
        make: impl Fn(T) -> Result<Self> + Sync,
    ) -> Result<Self> {
        let mut parts = workers.map(pieces, make)?.into_iter();
        let mut all = parts.next().unwrap_or_else(|| Self::with_room(0, 0))?;
        for part in parts {
            let (part, end) = (part?, all.col.len());
            extend(&mut all.ptr, part.ptr[1..].iter().map(|at| end + at), WHAT)?;
            extend(&mut all.col, part.col.iter().copied(), WHAT)?;
            extend(&mut all.a, part.a.iter().copied(), WHAT)?;
            extend(&mut all.excess, part.excess.iter().copied(), WHAT)?;
            extend(&mut all.diagonal, part.diagonal.iter().copied(), WHAT)?;
        }
        Ok(all)
    }
}

/// The aggregate of what is in none.
pub const NONE: u32 = u32::MAX;

/// Members of each aggregate, ascending: where each begins, and all.
pub fn members(of: &[u32], count: usize) -> Result<(Vec<usize>, Vec<u32>)> {
    let mut starts: Vec<usize> = zeroed(count + 1, WHAT)?;
    of.iter().filter(|&&k| k != NONE).for_each(|&k| starts[k as usize + 1] += 1);
    crate::sparse::accumulate(&mut starts);
    let mut members: Vec<u32> = zeroed(starts[count], WHAT)?;
    for (i, &k) in of.iter().enumerate().filter(|(_, k)| **k != NONE) {
        members[starts[k as usize]] = i as u32;
        starts[k as usize] += 1;
    }
    crate::sparse::restart(&mut starts);
    Ok((starts, members))
}
