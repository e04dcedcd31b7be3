//! A matrix in a storage format: products, and access to the arrays of the format.

use crate::base::csr::Csr;
use crate::base::index::Index;
use std::ops::Range;

/// A matrix in a storage format.
pub trait Stored: Send + Sync {
    /// Returns how the product A x, or A^T x if `transposed` is true, is divided among threads.
    fn division(&self, transposed: bool) -> ThreadDivision<'_>;
    /// Computes y = A x, or y = A^T x if `transposed` is true, on one thread.
    fn multiply_transposed_if(&self, transposed: bool, x: &[f64], y: &mut [f64]) {
        match self.division(transposed) {
            ThreadDivision::Rows(a) => a.multiply_rows(0..y.len(), x, y),
            ThreadDivision::Contributions(a) => {
                y.fill(0.0);
                a.add_transposed(0..x.len(), x, 0, y);
            }
            ThreadDivision::Sequential(a, transposed) => a.multiply_sequentially(transposed, x, y),
        }
    }
    /// Computes y = A x.
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        self.multiply_transposed_if(false, x, y);
    }
    /// Returns the arrays if a device has kernels for the format and the indices have 32 bits, otherwise `None`.
    fn view(&self) -> Option<FormatView<'_>> {
        None
    }
    /// Writes the arrays of the format, which docs/theory/sparse.md lists. The arrays `output` have the lengths of the
    /// format's [`FormatSize`].
    fn write(&self, output: &mut OutputArrays);
}

/// Arrays of a format for which a device has kernels.
pub enum FormatView<'a> {
    Csr(CsrSlices<'a>),
    /// Blocks of `block_size` x `block_size` values in row-major order. In `rows`, `ptr` contains the index of the
    /// first block of each block row, and `col` the block columns.
    Bsr {
        block_size: usize,
        rows: CsrSlices<'a>,
    },
    /// a(i, i + offset[d]) = val[d `diagonal_len` + i].
    Dia {
        diagonal_len: usize,
        offset: &'a [i64],
        val: &'a [f64],
    },
    /// Slices of `slice_rows` rows. `perm` contains the index of the row at each position of the sorted order; it is
    /// `None` if the rows are not sorted. `offset` contains the index in `val` of the first value of each slice, and as
    /// its last element the length of `val`. `separate_rows` contains the indices and the entries of the long rows.
    Sell {
        slice_rows: usize,
        perm: Option<&'a [u32]>,
        offset: &'a [usize],
        col: &'a [u32],
        val: &'a [f64],
        separate_rows: (&'a [u32], CsrSlices<'a>),
    },
    /// val[k `rows` + i] is entry k of row i.
    Ell {
        rows: usize,
        col: &'a [u32],
        val: &'a [f64],
    },
}

/// A matrix in csr. The entries of row i are `ptr[i]..ptr[i + 1]` in `col` and `val`.
#[derive(Clone, Copy)]
pub struct CsrSlices<'a> {
    pub ptr: &'a [usize],
    pub col: &'a [u32],
    pub val: &'a [f64],
}

impl<'a> CsrSlices<'a> {
    /// Returns the arrays of a matrix; `None` if its indices have 64 bits.
    pub fn of<I: Index>(a: &'a Csr<I>) -> Option<Self> {
        Some(Self { ptr: &a.ptr, col: I::as_u32(&a.col)?, val: &a.val })
    }
}

/// Division of a product among threads.
#[derive(Clone, Copy)]
pub enum ThreadDivision<'a> {
    /// Each thread computes the values of a range of y.
    Rows(&'a dyn RowProducts),
    /// Each thread computes the contributions of a range of x to y, and the contributions are then added.
    Contributions(&'a dyn TransposedRowProducts),
    /// One thread computes the product: A^T x if the flag is true, otherwise A x.
    Sequential(&'a dyn SequentialProduct, bool),
}

/// Products that a single thread computes.
pub trait SequentialProduct: Sync {
    /// Computes y = A x, or y = A^T x if `transposed` is true.
    fn multiply_sequentially(&self, transposed: bool, x: &[f64], y: &mut [f64]);
}

/// Computes y = A x, or y = A^T x if `transposed` is true. `entries` yields (row, column, value) of each entry of A.
/// The terms are added in this order.
pub fn multiply_entries(
    entries: impl Iterator<Item = (usize, usize, f64)>,
    transposed: bool,
    x: &[f64],
    y: &mut [f64],
) {
    y.fill(0.0);
    if transposed {
        entries.for_each(|(i, j, a)| y[j] += a * x[i]);
    } else {
        entries.for_each(|(i, j, a)| y[i] += a * x[j]);
    }
}

/// Products with a range of rows, for several threads.
pub trait RowProducts: Sync {
    /// Returns a number of rows. Each range that is passed to [`Self::multiply_rows`] must begin at a multiple of it.
    fn row_alignment(&self) -> usize {
        1
    }
    /// Computes y = A x for a range of rows, where x is the whole vector and y contains the values of these rows. The
    /// range begins at a multiple of `row_alignment`. It ends at a multiple of `row_alignment` or after the last row.
    /// The result for a row is bitwise identical for all ranges.
    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]);
}

/// Products of A^T with a range of the rows of A, for several threads.
pub trait TransposedRowProducts: Sync {
    /// Returns a number of rows. Each range that is passed to [`Self::add_transposed`] or [`Self::columns_of_rows`]
    /// must begin at a multiple of it.
    fn row_alignment(&self) -> usize {
        1
    }
    /// Returns a range that contains all columns with entries in these rows.
    fn columns_of_rows(&self, rows: Range<usize>) -> Range<usize>;
    /// Computes y += A^T x for a range of rows, aligned as in [`RowProducts::multiply_rows`]. The slice x contains the
    /// values of these rows. The slice y contains the values of the columns [`Self::columns_of_rows`]; its first value
    /// belongs to column `first_column`.
    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first_column: usize, y: &mut [f64]);
}

/// Returns the smallest range that contains all `indices`.
pub fn index_range<I: Index>(indices: &[I]) -> Range<usize> {
    let Some(first_index) = indices.first() else { return 0..0 };
    let extend_range = |(smallest, largest): (I, I), &index: &I| (smallest.min(index), largest.max(index));
    let (smallest, largest) = indices.iter().fold((*first_index, *first_index), extend_range);
    smallest.to_usize()..largest.to_usize() + 1
}

/// Returns the smallest range that contains all `ranges`.
pub fn hull_of_ranges(ranges: impl Iterator<Item = Range<usize>>) -> Range<usize> {
    let join_ranges = |a: Range<usize>, b: Range<usize>| a.start.min(b.start)..a.end.max(b.end);
    ranges.filter(|range| !range.is_empty()).reduce(join_ranges).unwrap_or(0..0)
}

/// Output arrays of the caller.
pub struct OutputArrays<'a> {
    pub i0: IndexArray<'a>,
    pub i1: IndexArray<'a>,
    pub i2: IndexArray<'a>,
    pub values: &'a mut [f64],
}

/// An output array of indices.
pub struct IndexArray<'a>(pub &'a mut [i64]);

impl IndexArray<'_> {
    /// Writes the indices to the array.
    pub fn fill(&mut self, indices: impl IntoIterator<Item = usize>) {
        self.fill_signed(indices.into_iter().map(|index| index as i64));
    }

    /// Writes indices, some of which may be negative, to the array.
    pub fn fill_signed(&mut self, indices: impl IntoIterator<Item = i64>) {
        self.0.iter_mut().zip(indices).for_each(|(target, index)| *target = index);
    }
}

/// Input arrays of the caller.
#[derive(Clone, Copy)]
pub struct InputArrays<'a> {
    pub i0: &'a [i64],
    pub i1: &'a [i64],
    pub i2: &'a [i64],
    pub values: &'a [f64],
}

/// Size of the arrays of a format. Lengths and byte counts have 128 bits, because with padding they can exceed 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FormatSize {
    /// (Length, bytes per index) of each index array.
    pub indices: [(u128, u128); 3],
    /// Number of values, including padding.
    pub values: u128,
    /// (Number of values, bytes) of the rows that are stored separately.
    pub separate_size: (u128, u128),
}

impl FormatSize {
    /// Creates a size without separate rows. `indices` contains (length, bytes per index) of the first index arrays;
    /// the other index arrays are empty.
    pub fn new<const N: usize>(indices: [(usize, usize); N], values: u128) -> Self {
        let mut size = Self { values, ..Self::default() };
        for (target, (len, width)) in size.indices.iter_mut().zip(indices) {
            *target = (len as u128, width as u128);
        }
        size
    }

    /// Returns the lengths of the three index arrays, and the number of values.
    pub fn lengths(&self) -> [u128; 4] {
        let [i0, i1, i2] = self.indices.map(|(len, _)| len);
        [i0, i1, i2, self.values]
    }

    /// Returns the number of values, including padding and rows that are stored separately.
    pub fn value_count(&self) -> u128 {
        self.values + self.separate_size.0
    }

    /// Returns the size of all arrays in bytes.
    pub fn bytes(&self) -> u128 {
        self.indices.iter().map(|(len, width)| len * width).sum::<u128>() + 8 * self.values + self.separate_size.1
    }
}

/// Bytes per element of an array of row pointers or offsets.
pub const POINTER_BYTES: usize = size_of::<usize>();
