//! Sliced ELLPACK, SELL-C-sigma (Kreutzer, Hager, Wellein, Fehske, Bishop, SIAM J. Sci. Comput. 36 (2014) C401-C423).
//! Rows are sorted by length, longest first, in windows of sigma rows. Each slice has C rows, padded to the length of
//! its longest row and stored by columns. In column s of a slice, position l contributes val[s][l] x[col[s][l]] to its
//! row. Padding has the value 0 and the column min(i, cols - 1).
//!
//! For products, very long rows are stored separately in csr. Otherwise, one long row would require padding in all
//! other rows of its slice.

use super::order::by_length;
use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::base::workers::{Parts, Workers, cut_lanes};
use crate::error::{Result, collected, push, reserve, zeroed};
use crate::options::MOST_SLICE_ROWS;
use crate::sparse::stored::{
    Arrays, ByParts, ByRows, Division, POINTER, Rows, Size, Stored, View, index_range, joined,
};
use std::ops::Range;

/// Default number of rows per slice, equal to the number of doubles in a vector register of the widest instruction set.
pub const SLICE: usize = 8;
/// Name of an allocation in error messages.
const SELL: &str = "a matrix in format sell";

/// Parameters of the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Rows per slice (C).
    pub slice: usize,
    /// Rows per sorting window (sigma); 1 means no sorting.
    pub sigma: usize,
    /// Whether long rows are stored separately.
    pub separate: bool,
}

impl Shape {
    /// Returns the length of the longest row that is not stored separately: 8 times the mean, and at least 64.
    fn longest<I: Index>(&self, a: &Csr<I>) -> usize {
        if self.separate { (8 * a.val.len() / a.rows().max(1)).max(64) } else { usize::MAX }
    }

    /// Returns the rows in the order in which they are stored.
    fn order<I: Index>(&self, a: &Csr<I>, workers: &mut Workers) -> Result<Vec<usize>> {
        let longest = self.longest(a);
        by_length(a.rows(), self.sigma, |i| length_in_slice(a, i, longest), SELL, workers)
    }
}

/// Returns the length of row i in its slice; 0 if the row is stored separately.
fn length_in_slice<I: Index>(a: &Csr<I>, i: usize, longest: usize) -> usize {
    Some(a.len(i)).filter(|&n| n <= longest).unwrap_or(0)
}

pub struct Sell<I> {
    slice: usize,
    /// Alignment of row ranges. It is a multiple of C and of sigma, so that no window or slice crosses the boundary of
    /// a range.
    grain: usize,
    /// Row at each position; `None` if rows are not sorted.
    perm: Option<Vec<I>>,
    /// Index in `col` and `val` of the first value of each slice; one more element is the number of values.
    offset: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
    rows: usize,
    /// Rows that are stored separately: their indices, and their entries in csr.
    separate: (Vec<I>, Csr<I>),
}

pub fn size<I: Index>(a: &Csr<I>, shape: Shape, workers: &mut Workers) -> Result<Size> {
    let longest = shape.longest(a);
    let mut values = 0;
    for slice in shape.order(a, workers)?.chunks(shape.slice) {
        let width = slice.iter().map(|&i| length_in_slice(a, i, longest)).max().unwrap_or(0);
        values += (width * shape.slice) as u128;
    }
    let (slices, width) = (a.rows().div_ceil(shape.slice), size_of::<I>());
    let perm = (slices * shape.slice, if shape.sigma > 1 { width } else { 0 });
    let mut size = Size::new([perm, (slices + 1, POINTER), (0, width)], values);
    size.indices[2].0 = values;
    let (mut rows, mut entries) = (0, 0);
    for i in (0..a.rows()).filter(|&i| a.len(i) > longest) {
        (rows, entries) = (rows + 1, entries + a.len(i));
    }
    size.separate = (entries as u128, (rows * (width + POINTER) + entries * (width + 8)) as u128);
    Ok(size)
}

impl<I: Index> Sell<I> {
    pub fn of(a: &Csr<I>, shape: Shape, size: &Size, workers: &mut Workers) -> Result<Self> {
        let (longest, slice) = (shape.longest(a), shape.slice);
        let order = shape.order(a, workers)?;
        let mut offset = Vec::new();
        reserve(&mut offset, order.len().div_ceil(slice) + 1, SELL)?;
        offset.push(0);
        let mut end = 0;
        for rows in order.chunks(slice) {
            end += slice * rows.iter().map(|&i| length_in_slice(a, i, longest)).max().unwrap_or(0);
            offset.push(end);
        }
        let (mut col, mut val) = (zeroed(size.values as usize, SELL)?, zeroed(size.values as usize, SELL)?);
        let (mut cols, mut vals) = (Parts(&mut col), Parts(&mut val));
        let cut = cut_lanes(&offset, workers.pieces(size.bytes() as usize)).map(|slices| {
            let values = offset[slices.end] - offset[slices.start];
            (slices, cols.next(values), vals.next(values))
        });
        workers.each(cut, |(slices, col, val)| {
            let (mut cols, mut vals) = (Parts(col), Parts(val));
            for s in slices {
                let rows = &order[s * slice..order.len().min((s + 1) * slice)];
                let of_slice = offset[s + 1] - offset[s];
                fill_slice(a, rows, s * slice, longest, (cols.next(of_slice), vals.next(of_slice)), slice);
            }
        })?;
        let separate = split_off_long_rows(a, longest)?;
        let perm = if shape.sigma > 1 { Some(collected(order.into_iter().map(I::of), SELL)?) } else { None };
        Ok(Self {
            slice,
            grain: least_common_multiple(slice, shape.sigma.max(1)),
            perm,
            offset,
            col,
            val,
            rows: a.rows(),
            separate,
        })
    }

    /// Returns the row at a position; `None` after the last row.
    fn row(&self, position: usize) -> Option<usize> {
        if position >= self.rows { None } else { Some(self.perm.as_ref().map_or(position, |perm| perm[position].at())) }
    }

    /// Computes y = A x for a range of rows, without the separate rows. `sums` is a workspace of C values.
    #[inline(always)]
    fn multiply_slices(&self, sums: &mut [f64], rows: &Range<usize>, x: &[f64], y: &mut [f64]) {
        for s in rows.start / self.slice..rows.end.div_ceil(self.slice) {
            let among = self.offset[s]..self.offset[s + 1];
            let (col, val) =
                (self.col[among.clone()].chunks_exact(sums.len()), self.val[among].chunks_exact(sums.len()));
            sums.fill(0.0);
            for (col, val) in col.zip(val) {
                sums.iter_mut().zip(col).zip(val).for_each(|((sum, j), a)| *sum += a * x[j.at()]);
            }
            for (lane, &sum) in sums.iter().enumerate() {
                if let Some(i) = self.row(s * self.slice + lane) {
                    y[i - rows.start] = sum;
                }
            }
        }
    }

    /// Iterates over the rows of a range that are stored separately, as (index in the separate matrix, row).
    fn separate_rows_in(&self, rows: &Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let (separate, end) = (&self.separate.0, rows.end);
        let first = separate.partition_point(|i| i.at() < rows.start);
        separate.iter().map(|i| i.at()).enumerate().skip(first).take_while(move |&(_, i)| i < end)
    }

    /// Yields for each slice of a range its first position, and its pairs (col[s], val[s]) for s = 0, 1, ...
    fn slices(&self, among: Range<usize>) -> impl Iterator<Item = (usize, impl Iterator<Item = (&[I], &[f64])>)> {
        self.offset[among.start..=among.end].windows(2).zip(among).map(|(range, s)| {
            let range = range[0]..range[1];
            let columns = self.col[range.clone()].chunks_exact(self.slice);
            (s * self.slice, columns.zip(self.val[range].chunks_exact(self.slice)))
        })
    }
}

/// Fills a slice. `rows` are its rows, and `first` is the position of its first row.
fn fill_slice<I: Index>(
    a: &Csr<I>,
    rows: &[usize],
    first: usize,
    longest: usize,
    (col, val): (&mut [I], &mut [f64]),
    slice: usize,
) {
    for (k, (col, val)) in col.chunks_exact_mut(slice).zip(val.chunks_exact_mut(slice)).enumerate() {
        for (lane, (col, val)) in col.iter_mut().zip(val).enumerate() {
            // A position after the last row is padded like an empty row with this position as its index.
            let i = rows.get(lane).copied().unwrap_or(first + lane);
            if lane < rows.len() && k < length_in_slice(a, i, longest) {
                (*col, *val) = (a.col[a.ptr[i] + k], a.val[a.ptr[i] + k]);
            } else {
                *col = I::of(i.min(a.cols - 1));
            }
        }
    }
}

/// Returns the rows with more than `longest` entries, and their entries.
fn split_off_long_rows<I: Index>(a: &Csr<I>, longest: usize) -> Result<(Vec<I>, Csr<I>)> {
    let (mut rows, mut csr) = (Vec::new(), Csr { cols: a.cols, ptr: Vec::new(), col: Vec::new(), val: Vec::new() });
    push(&mut csr.ptr, 0, SELL)?;
    for i in (0..a.rows()).filter(|&i| a.len(i) > longest) {
        push(&mut rows, I::of(i), SELL)?;
        for k in a.ptr[i]..a.ptr[i + 1] {
            push(&mut csr.col, a.col[k], SELL)?;
            push(&mut csr.val, a.val[k], SELL)?;
        }
        push(&mut csr.ptr, csr.col.len(), SELL)?;
    }
    Ok((rows, csr))
}

fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

impl<I: Index> ByRows for Sell<I> {
    fn grain(&self) -> usize {
        self.grain
    }

    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        // The default slice has a specialized loop, so that its sums stay in registers.
        if self.slice == SLICE {
            self.multiply_slices(&mut [0.0; SLICE], &rows, x, y);
        } else {
            self.multiply_slices(&mut [0.0; MOST_SLICE_ROWS][..self.slice], &rows, x, y);
        }
        for (k, i) in self.separate_rows_in(&rows) {
            y[i - rows.start] = self.separate.1.row(k).fold(0.0, |sum, (j, a)| sum + a * x[j]);
        }
    }
}

impl<I: Index> ByParts for Sell<I> {
    fn grain(&self) -> usize {
        self.grain
    }

    fn columns(&self, rows: Range<usize>) -> Range<usize> {
        let of_slices = self.offset[rows.start / self.slice]..self.offset[rows.end.div_ceil(self.slice)];
        let separate = self.separate_rows_in(&rows).map(|(k, _)| index_range(self.separate.1.slices(k).0));
        joined(separate.chain([index_range(&self.col[of_slices])]))
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first: usize, y: &mut [f64]) {
        for (first_position, entries) in self.slices(rows.start / self.slice..rows.end.div_ceil(self.slice)) {
            for (col, val) in entries {
                for (lane, (j, a)) in col.iter().zip(val).enumerate() {
                    if let Some(i) = self.row(first_position + lane) {
                        y[j.at() - first] += a * x[i - rows.start];
                    }
                }
            }
        }
        for (k, i) in self.separate_rows_in(&rows) {
            self.separate.1.row(k).for_each(|(j, a)| y[j - first] += a * x[i - rows.start]);
        }
    }
}

impl<I: Index> Stored for Sell<I> {
    fn division(&self, transposed: bool) -> Division<'_> {
        if transposed { Division::Parts(self) } else { Division::Rows(self) }
    }

    fn view(&self) -> Option<View<'_>> {
        let perm = match &self.perm {
            Some(perm) => Some(I::narrow(perm)?),
            None => None,
        };
        Some(View::Sell {
            slice: self.slice,
            perm,
            offset: &self.offset,
            col: I::narrow(&self.col)?,
            val: &self.val,
            separate: (I::narrow(&self.separate.0)?, Rows::of(&self.separate.1)?),
        })
    }

    /// In the exported permutation, positions after the last row contain -1.
    fn write(&self, to: &mut Arrays) {
        let lanes = (self.offset.len() - 1) * self.slice;
        to.i0.put_signed((0..lanes).map(|position| self.row(position).map_or(-1, |i| i as i64)));
        to.i1.put(self.offset.iter().copied());
        to.i2.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
