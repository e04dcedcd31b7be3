//! Envelope (skyline). Each row of the lower triangle is stored from its first entry to the diagonal. Each column of
//! the strict upper triangle is stored from its first entry to the diagonal, without the diagonal. Zeros fill the gaps.
//! For a symmetric matrix, only the rows are stored.
//!
//! A product first computes dot products with the rows of the lower triangle, y_i = sum over j <= i of a_ij x_j. Then
//! it adds the terms of the strict upper triangle, column by column: y_i += a_ij x_j for i < j.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Error, Result, zeroed};
use crate::sparse::stored::{FormatSize, OutputArrays, POINTER_BYTES, SequentialProduct, Stored, ThreadDivision};

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in format skyline";

pub struct Skyline {
    /// Index in `val` of the first value of each row of the lower triangle, and the end of the last row. The last value
    /// of a row is the diagonal entry.
    row_ptr: Vec<usize>,
    /// Index in `val` of the first value of each column of the strict upper triangle, and the end of the last column.
    /// These values follow those of the lower triangle. Empty for a symmetric matrix.
    column_ptr: Vec<usize>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>) -> Result<FormatSize> {
    let Envelope { row_lengths, column_lengths, is_symmetric } = Envelope::of(a)?;
    let total = |lengths: &[usize]| lengths.iter().map(|&n| n as u128).sum::<u128>();
    let (column_ptr_len, upper_value_count) =
        if is_symmetric { (0, 0) } else { (column_lengths.len(), total(&column_lengths)) };
    Ok(FormatSize::new(
        [(row_lengths.len(), POINTER_BYTES), (column_ptr_len, POINTER_BYTES)],
        total(&row_lengths) + upper_value_count,
    ))
}

/// Numbers of values in the rows of the lower triangle and in the columns of the strict upper triangle. The length of
/// row or column i is stored at index i + 1.
struct Envelope {
    row_lengths: Vec<usize>,
    column_lengths: Vec<usize>,
    is_symmetric: bool,
}

impl Envelope {
    fn of<I: Index>(a: &Csr<I>) -> Result<Self> {
        if a.rows() != a.cols {
            let message = format!("format=skyline needs a square matrix, got {} x {}", a.rows(), a.cols);
            return Err(Error::Dimension(message));
        }
        let (mut row_lengths, mut column_lengths): (Vec<usize>, Vec<usize>) =
            (zeroed(a.ptr.len(), ALLOCATION_NAME)?, zeroed(a.ptr.len(), ALLOCATION_NAME)?);
        for i in 0..a.rows() {
            let first_column = a.row(i).next().map_or(i, |(j, _)| j.min(i));
            row_lengths[i + 1] = i - first_column + 1;
            for (j, _) in a.row(i).filter(|&(j, _)| j > i) {
                column_lengths[j + 1] = column_lengths[j + 1].max(j - i);
            }
        }
        Ok(Self { row_lengths, column_lengths, is_symmetric: a.is_symmetric() })
    }
}

impl Skyline {
    pub fn of<I: Index>(a: &Csr<I>) -> Result<Self> {
        let Envelope { row_lengths: mut row_ptr, column_lengths: mut column_ptr, is_symmetric } = Envelope::of(a)?;
        lengths_to_offsets(&mut row_ptr, 0);
        let lower_count = row_ptr[a.rows()];
        if is_symmetric {
            column_ptr.clear();
        } else {
            lengths_to_offsets(&mut column_ptr, lower_count);
        }
        let mut val = zeroed(column_ptr.last().copied().unwrap_or(lower_count), ALLOCATION_NAME)?;
        for (i, j, value) in a.entries() {
            if j <= i {
                val[row_ptr[i + 1] - 1 - (i - j)] = value;
            } else if !is_symmetric {
                val[column_ptr[j + 1] - (j - i)] = value;
            }
        }
        Ok(Self { row_ptr, column_ptr, val })
    }

    /// Returns the first column and the values of row i of the lower triangle.
    fn row(&self, i: usize) -> (usize, &[f64]) {
        let val = &self.val[self.row_ptr[i]..self.row_ptr[i + 1]];
        (i + 1 - val.len(), val)
    }

    /// Returns the first row and the values of column j of the strict upper triangle.
    fn column(&self, j: usize) -> (usize, &[f64]) {
        match self.column_ptr.get(j..j + 2) {
            Some(range) => (j + range[0] - range[1], &self.val[range[0]..range[1]]),
            None => {
                let (first_row, val) = self.row(j);
                (first_row, &val[..val.len() - 1])
            }
        }
    }
}

/// Converts the lengths at indices 1, 2, ... to offsets, of which the first one is `first_offset`.
fn lengths_to_offsets(lengths: &mut [usize], first_offset: usize) {
    lengths[0] = first_offset;
    crate::base::csr::lengths_to_pointers(lengths);
}

/// Returns the sum of a_i x_i.
fn dot(a: &[f64], x: &[f64]) -> f64 {
    a.iter().zip(x).fold(0.0, |sum, (a, x)| sum + a * x)
}

/// Computes y += a x for a scalar x.
fn add_scaled(y: &mut [f64], a: &[f64], x: f64) {
    y.iter_mut().zip(a).for_each(|(y, a)| *y += a * x);
}

impl SequentialProduct for Skyline {
    fn multiply_sequentially(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        let line_values = |is_row: bool, k: usize| if is_row != transposed { self.row(k) } else { self.column(k) };
        for (i, y) in y.iter_mut().enumerate() {
            let (first_column, val) = line_values(true, i);
            *y = dot(val, &x[first_column..]);
        }
        for (j, x) in x.iter().enumerate() {
            let (first_row, val) = line_values(false, j);
            add_scaled(&mut y[first_row..], val, *x);
        }
    }
}

impl Stored for Skyline {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        ThreadDivision::Sequential(self, transposed)
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill(self.row_ptr.iter().copied());
        let first_offset = self.column_ptr.first().copied().unwrap_or(0);
        output.i1.fill(self.column_ptr.iter().map(|index| index - first_offset));
        output.values.copy_from_slice(&self.val);
    }
}
