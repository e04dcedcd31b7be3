//! Envelope (skyline). Each row of the lower triangle is stored from its first entry to the diagonal. Each column of
//! the strict upper triangle is stored from its first entry to the diagonal, without the diagonal. Zeros fill the gaps.
//! For a symmetric matrix, only the rows are stored.
//!
//! A product first computes dot products with the rows of the lower triangle, y_i = sum over j <= i of a_ij x_j. Then
//! each column of the strict upper triangle is added: y_i += a_ij x_j for i < j.

use crate::base::csr::Csr;
use crate::base::index::Index;
use crate::error::{Error, Result, zeroed};
use crate::sparse::stored::{Arrays, ByOne, Division, POINTER, Size, Stored};

/// Name of an allocation in error messages.
const SKYLINE: &str = "a matrix in format skyline";

pub struct Skyline {
    /// Index in `val` of the first value of each row of the lower triangle; one more element is the end of the last
    /// row. The last value of a row is the diagonal entry.
    lower: Vec<usize>,
    /// Index in `val` of the first value of each column of the strict upper triangle, and the end of the last column.
    /// These values follow those of the lower triangle. Empty for a symmetric matrix.
    upper: Vec<usize>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>) -> Result<Size> {
    let Envelope { lower, upper, symmetric } = Envelope::of(a)?;
    let sum = |lengths: &[usize]| lengths.iter().map(|&n| n as u128).sum::<u128>();
    let (columns, values) = if symmetric { (0, 0) } else { (upper.len(), sum(&upper)) };
    Ok(Size::new([(lower.len(), POINTER), (columns, POINTER)], sum(&lower) + values))
}

/// Lengths of rows and columns. The length of row or column i is stored at index i + 1.
struct Envelope {
    lower: Vec<usize>,
    upper: Vec<usize>,
    symmetric: bool,
}

impl Envelope {
    fn of<I: Index>(a: &Csr<I>) -> Result<Self> {
        if a.rows() != a.cols {
            let message = format!("format=skyline needs a square matrix, got {} x {}", a.rows(), a.cols);
            return Err(Error::Dimension(message));
        }
        let (mut lower, mut upper): (Vec<usize>, Vec<usize>) =
            (zeroed(a.ptr.len(), SKYLINE)?, zeroed(a.ptr.len(), SKYLINE)?);
        for i in 0..a.rows() {
            let first = a.row(i).next().map_or(i, |(j, _)| j.min(i));
            lower[i + 1] = i - first + 1;
            for (j, _) in a.row(i).filter(|&(j, _)| j > i) {
                upper[j + 1] = upper[j + 1].max(j - i);
            }
        }
        Ok(Self { lower, upper, symmetric: a.is_symmetric() })
    }
}

impl Skyline {
    pub fn of<I: Index>(a: &Csr<I>) -> Result<Self> {
        let Envelope { mut lower, mut upper, symmetric } = Envelope::of(a)?;
        sum_up(&mut lower, 0);
        let below = lower[a.rows()];
        if symmetric {
            upper.clear();
        } else {
            sum_up(&mut upper, below);
        }
        let mut val = zeroed(upper.last().copied().unwrap_or(below), SKYLINE)?;
        for (i, j, value) in a.entries() {
            if j <= i {
                val[lower[i + 1] - 1 - (i - j)] = value;
            } else if !symmetric {
                val[upper[j + 1] - (j - i)] = value;
            }
        }
        Ok(Self { lower, upper, val })
    }

    /// Returns the first column and the values of row i of the lower triangle.
    fn row(&self, i: usize) -> (usize, &[f64]) {
        let val = &self.val[self.lower[i]..self.lower[i + 1]];
        (i + 1 - val.len(), val)
    }

    /// Returns the first row and the values of column j of the strict upper triangle.
    fn column(&self, j: usize) -> (usize, &[f64]) {
        match self.upper.get(j..j + 2) {
            Some(range) => (j + range[0] - range[1], &self.val[range[0]..range[1]]),
            None => {
                let (first, val) = self.row(j);
                (first, &val[..val.len() - 1])
            }
        }
    }
}

/// Turns lengths into pointers that begin at `start`.
fn sum_up(lengths: &mut [usize], start: usize) {
    lengths[0] = start;
    crate::base::csr::lengths_to_pointers(lengths);
}

fn dot(a: &[f64], x: &[f64]) -> f64 {
    a.iter().zip(x).fold(0.0, |sum, (a, x)| sum + a * x)
}

fn add(y: &mut [f64], a: &[f64], x: f64) {
    y.iter_mut().zip(a).for_each(|(y, a)| *y += a * x);
}

impl ByOne for Skyline {
    fn multiply_whole(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        let line = |of_row: bool, k: usize| if of_row != transposed { self.row(k) } else { self.column(k) };
        for (i, y) in y.iter_mut().enumerate() {
            let (first, val) = line(true, i);
            *y = dot(val, &x[first..]);
        }
        for (j, x) in x.iter().enumerate() {
            let (first, val) = line(false, j);
            add(&mut y[first..], val, *x);
        }
    }
}

impl Stored for Skyline {
    fn division(&self, transposed: bool) -> Division<'_> {
        Division::One(self, transposed)
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.lower.iter().copied());
        let start = self.upper.first().copied().unwrap_or(0);
        to.i1.put(self.upper.iter().map(|index| index - start));
        to.values.copy_from_slice(&self.val);
    }
}
