//! The matrix of a level in the precision of the cycle, its rows in groups for Gauss-Seidel.

use crate::backend::aggregation::{Couplings, Ordered, WHAT};
use crate::error::{Error, Result, collected, extend, zeroed};
use crate::runtime::number::Real;
use crate::runtime::workers::{Parts, Workers, cut};
use std::ops::Range;

/// Couplings by rows in the order of the sweeps, excess, 1 / diagonal.
pub struct Rows<V> {
    /// Of each row where it begins and where its couplings to later rows do; and the end.
    ends: Vec<u32>,
    col: Vec<u32>,
    a: Vec<V>,
    excess: Vec<V>,
    inverse: Vec<V>,
}

impl<V: Real + Send + Sync> Rows<V> {
    pub fn of(c: &Couplings, order: &Ordered, workers: &mut Workers) -> Result<Self> {
        let (n, entries) = (c.rows(), c.col.len());
        if entries > u32::MAX as usize {
            let sentence = format!("multigrid by aggregation takes fewer than 2^32 couplings, got {entries}");
            return Err(Error::Unsupported(sentence));
        }
        let mut ends: Vec<u32> = zeroed(2 * n + 1, WHAT)?;
        let mut end = 0;
        for (k, &i) in order.row.iter().enumerate() {
            end += c.ptr[i as usize + 1] - c.ptr[i as usize];
            ends[2 * k + 2] = end as u32;
        }
        let (mut col, mut a) = (zeroed(entries, WHAT)?, zeroed(entries, WHAT)?);
        let bytes = size_of_val(&*col) + size_of_val(&*a);
        let (mut left, mut cols, mut values) = (Parts(&mut ends[..2 * n]), Parts(&mut col), Parts(&mut a));
        let pieces = cut(n, workers.pieces(bytes)).map(|rows| {
            let of = rows.clone().map(|k| order.row[k] as usize);
            let count = of.map(|i| c.ptr[i + 1] - c.ptr[i]).sum();
            (rows.clone(), left.next(2 * rows.len()), cols.next(count), values.next(count))
        });
        let filled = workers.map(pieces, |(rows, ends, col, a)| fill(c, order, rows, ends, (col, a)))?;
        filled.into_iter().collect::<Result<()>>()?;
        let of = |i: &u32| *i as usize;
        Ok(Self {
            ends,
            col,
            a,
            excess: collected(order.row.iter().map(|i| V::narrow(c.excess[of(i)])), WHAT)?,
            inverse: collected(order.row.iter().map(|i| inverse(c.diagonal[of(i)])), WHAT)?,
        })
    }

    pub fn len(&self) -> usize {
        self.inverse.len()
    }

    pub fn couplings(&self) -> usize {
        self.col.len()
    }

    /// Couplings of row i to earlier rows, or to later ones.
    #[inline(always)]
    fn row(&self, i: usize, later: bool) -> impl Iterator<Item = (usize, V)> {
        let at = 2 * i + usize::from(later);
        let range = self.ends[at] as usize..self.ends[at + 1] as usize;
        self.col[range.clone()].iter().map(|&j| j as usize).zip(self.a[range].iter().copied())
    }

    /// Gauss-Seidel from z = 0 on these rows of a group: `before` are all rows before the group; r and z are these.
    pub fn forwards(&self, rows: Range<usize>, before: &[V], r: &[V], z: &mut [V]) {
        for ((i, r), z) in rows.zip(r).zip(z) {
            *z = self.inverse[i] * self.row(i, false).fold(*r, |sum, (j, a)| sum + a * before[j]);
        }
    }

    /// What such a sweep leaves: r - A z has the couplings to later rows alone.
    pub fn left(&self, rows: Range<usize>, z: &[V], left: &mut [V]) {
        for (i, left) in rows.zip(left) {
            *left = self.row(i, true).fold(V::default(), |sum, (j, a)| sum + a * z[j]);
        }
    }

    /// Gauss-Seidel on these rows of a group: `before` and `after` are all rows before it and after it, which begin at
    /// `end`.
    pub fn backwards(&self, rows: Range<usize>, (before, after): (&[V], &[V]), end: usize, r: &[V], z: &mut [V]) {
        for ((i, r), z) in rows.zip(r).zip(z) {
            let sum = self.row(i, false).fold(*r, |sum, (j, a)| sum + a * before[j]);
            *z = self.inverse[i] * self.row(i, true).fold(sum, |sum, (j, a)| sum + a * after[j - end]);
        }
    }

    /// y = A x, as e_i x_i + sum of a_ij (x_i - x_j): with d_i x_i the excess would drown.
    pub fn multiply(&self, rows: Range<usize>, x: &[V], y: &mut [V]) {
        for (i, y) in rows.zip(y) {
            let range = self.ends[2 * i] as usize..self.ends[2 * i + 2] as usize;
            let row = self.col[range.clone()].iter().zip(&self.a[range]);
            *y = row.fold(self.excess[i] * x[i], |sum, (&j, &a)| sum + a * (x[i] - x[j as usize]));
        }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.ends)
            + size_of_val(&*self.col)
            + size_of_val(&*self.a)
            + size_of_val(&*self.excess)
            + size_of_val(&*self.inverse)
    }
}

/// 1 / d; 0 of a singular component that is one row: its unknown is 0.
fn inverse<V: Real>(d: f64) -> V {
    V::narrow(if d == 0.0 { 0.0 } else { 1.0 / d })
}

/// Couplings of these rows, ascending in the order of the sweeps; `ends` has where each begins, and gets where later
/// rows do.
fn fill<V: Real>(
    c: &Couplings,
    order: &Ordered,
    rows: Range<usize>,
    ends: &mut [u32],
    (col, a): (&mut [u32], &mut [V]),
) -> Result<()> {
    let (mut col, mut a, mut row) = (Parts(col), Parts(a), Vec::new());
    for (k, ends) in rows.zip(ends.chunks_exact_mut(2)) {
        row.clear();
        extend(&mut row, c.row(order.row[k] as usize).map(|(j, a)| (order.place[j], a)), WHAT)?;
        row.sort_unstable_by_key(|&(place, _)| place);
        for ((col, a), &(place, value)) in col.next(row.len()).iter_mut().zip(a.next(row.len())).zip(&row) {
            (*col, *a) = (place, V::narrow(value));
        }
        ends[1] = ends[0] + row.partition_point(|&(place, _)| (place as usize) < k) as u32;
    }
    Ok(())
}
