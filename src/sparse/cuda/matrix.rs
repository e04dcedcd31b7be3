//! A matrix on the device in one of the formats that have kernels, and products with it.

use super::allocations::Allocations;
use super::permutation::Permutation;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, BsrArgs, CsrArgs, DiaArgs, LongRows, NO_INDEX, Reals, RoundArgs, RowFinish, SellArgs,
};
use crate::error::{Error, Result, collected, extend, push, reserve, zeroed};
use crate::sparse::backend::Numbered;
use crate::sparse::{CsrSlices, FormatView, Stored};

const ALLOCATION_NAME: &str = "a matrix on the device";

/// Arrays of a matrix and the kernel of its products.
pub struct Matrix {
    memory: Allocations,
    kernel: Kernel,
    /// Number of values of the format, including padding.
    value_count: usize,
    reals: Reals,
    /// Permutation of values from the order of csr to that of this matrix. `None` for A in csr, and before the first
    /// replacement of values.
    permutation: Option<Permutation>,
}

/// Kernel of the products, with all arguments except the vectors.
enum Kernel {
    Csr(CsrArgs),
    Sell(SellArgs),
    Dia(DiaArgs),
    Bsr(BsrArgs),
}

/// A matrix in csr whose rows are stored group by group; a group is a colour. A product computes the rows of one group.
pub struct GroupedRows {
    memory: Allocations,
    groups: Vec<CsrArgs>,
    reals: Reals,
}

/// Returns the number of entries above which a row is a long row: 8 times the mean row length, but at least 64. A whole
/// thread block computes a long row.
fn max_row_len(rows: CsrSlices) -> usize {
    (8 * rows.val.len() / (rows.ptr.len() - 1).max(1)).max(64)
}

/// Returns the number of threads per row in csr: about an eighth of the mean number of entries per row, because a
/// thread issues the loads of eight entries together. The result is a power of two, at most 32.
fn threads_per_row(entries: usize, rows: usize) -> i32 {
    (entries / rows.max(1) / 8).max(1).next_power_of_two().min(32) as i32
}

impl Matrix {
    /// Copies a matrix with `rows` rows and `cols` columns to the device.
    pub fn new(stream: &Stream, view: &FormatView, [rows, cols]: [usize; 2], reals: Reals) -> Result<Self> {
        let (mut memory, f32_values) = (Allocations::new(ALLOCATION_NAME), reals != Reals::Double);
        let kernel = match *view {
            FormatView::Csr(matrix) => Kernel::Csr(csr(&mut memory, stream, matrix, f32_values)?),
            FormatView::Ell { rows: 0, .. } => Kernel::Sell(SellArgs { slice_rows: 1, ..SellArgs::default() }),
            FormatView::Ell { rows, col, val } => Kernel::Sell(SellArgs {
                position_count: rows as i64,
                offset: memory.copy_of(stream, &[0, val.len()])?,
                col: memory.copy_of(stream, col)?,
                val: memory.copy_of_reals(stream, val, f32_values)?,
                slice_rows: rows as i64,
                ..SellArgs::default()
            }),
            FormatView::Sell { .. } => Kernel::Sell(sell(&mut memory, stream, view, rows, f32_values)?),
            FormatView::Dia { diagonal_len, offset, val } => {
                Kernel::Dia(dia(&mut memory, stream, (diagonal_len, offset, val), [rows, cols], f32_values)?)
            }
            FormatView::Bsr { block_size, rows: CsrSlices { ptr, col, val } } => Kernel::Bsr(BsrArgs {
                rows: rows as i64,
                cols: cols as i64,
                ptr: memory.copy_of(stream, ptr)?,
                col: memory.copy_of(stream, col)?,
                val: memory.copy_of_reals(stream, val, f32_values)?,
                block_size: block_size as i64,
                ..BsrArgs::default()
            }),
        };
        Ok(Self {
            memory,
            kernel,
            value_count: values_of(view).iter().map(|slice| slice.len()).sum(),
            reals,
            permutation: None,
        })
    }

    /// Returns the device address of the values.
    fn address_of_values(&self) -> Address {
        match &self.kernel {
            Kernel::Csr(a) => a.val,
            Kernel::Sell(a) => a.val,
            Kernel::Dia(a) => a.val,
            Kernel::Bsr(a) => a.val,
        }
    }

    /// Returns this matrix with values in f32, for products with vectors in f32. The result uses the index arrays of
    /// `self`, so `self` must exist as long as the result.
    pub fn rounded_to_f32(&self, stream: &Stream) -> Result<Self> {
        let mut memory = Allocations::new(ALLOCATION_NAME);
        let val = memory.zeroed(stream, size_of::<f32>() * self.value_count)?;
        let args = RoundArgs { count: self.value_count as i64, source: self.address_of_values(), target: val };
        launch::round_values(stream, &args)?;
        let kernel = match self.kernel {
            Kernel::Csr(a) => Kernel::Csr(CsrArgs { val, ..a }),
            Kernel::Sell(a) => Kernel::Sell(SellArgs { val, ..a }),
            Kernel::Dia(a) => Kernel::Dia(DiaArgs { val, ..a }),
            Kernel::Bsr(a) => Kernel::Bsr(BsrArgs { val, ..a }),
        };
        Ok(Self { memory, kernel, value_count: self.value_count, reals: Reals::Single, permutation: None })
    }

    /// Returns whether the kernel can compute products with A^T.
    pub fn can_transpose(&self) -> bool {
        matches!(self.kernel, Kernel::Dia(_))
    }

    /// Computes s = A x, or s = A^T x with `transposed`, and the results that `finish` defines from s. `transposed`
    /// requires [`Self::can_transpose`].
    pub fn multiply(&self, stream: &Stream, transposed: bool, x: Address, finish: RowFinish) -> Result<()> {
        match self.kernel {
            _ if transposed && !self.can_transpose() => {
                Err(Error::Internal("the format has no product with A' on a device".to_owned()))
            }
            Kernel::Csr(a) => launch::csr_rows(stream, self.reals, &CsrArgs { x, finish, ..a }),
            Kernel::Sell(a) => launch::sell_rows(stream, self.reals, &SellArgs { x, finish, ..a }),
            Kernel::Dia(a) => {
                let (rows, input_len) = if transposed { (a.input_len, a.rows) } else { (a.rows, a.input_len) };
                let a = DiaArgs { rows, input_len, transposed: i64::from(transposed), x, finish, ..a };
                launch::dia_rows(stream, self.reals, &a)
            }
            Kernel::Bsr(a) => launch::bsr_rows(stream, self.reals, &BsrArgs { x, finish, ..a }),
        }
    }

    /// Computes the permutation from the order of csr to that of this matrix, unless it exists. `numbered` returns the
    /// matrix, or its copy of A^T with `transposed`, with the value k + 1 in place of entry k of csr. The matrix has
    /// fewer than 2^32 - 1 entries.
    pub fn prepare_values(&mut self, stream: &Stream, numbered: &Numbered, transposed: bool) -> Result<()> {
        if self.permutation.is_none() && (transposed || !matches!(self.kernel, Kernel::Csr(_))) {
            let stored = numbered(transposed)?;
            let missing = || Error::Internal("the format has no order of values".to_owned());
            let view = stored.as_deref().and_then(Stored::view).ok_or_else(missing)?;
            self.permutation = Some(Permutation::to_format(stream, values_of(&view).into_iter().flatten())?);
        }
        Ok(())
    }

    /// Replaces the values by the `count` values at the device address `csr`, which have the order of csr. Call
    /// [`Self::prepare_values`] first.
    pub fn set_values(&self, stream: &Stream, csr: Address, count: usize) -> Result<()> {
        let to = self.address_of_values();
        match &self.permutation {
            Some(permutation) => permutation.apply(stream, csr, to),
            None => stream.copy_values(to, csr, count),
        }
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes() + self.permutation.as_ref().map_or(0, Permutation::bytes)
    }
}

/// Returns the values of a format, in the order in which the device stores them. The second slice contains the values
/// of the separate rows of sell, and is empty for other formats.
fn values_of<'a>(view: &FormatView<'a>) -> [&'a [f64]; 2] {
    match *view {
        FormatView::Csr(rows) | FormatView::Bsr { rows, .. } => [rows.val, &[]],
        FormatView::Dia { val, .. } | FormatView::Ell { val, .. } => [val, &[]],
        FormatView::Sell { val, separate_rows: (_, rows), .. } => [val, rows.val],
    }
}

impl GroupedRows {
    /// Copies a matrix to the device. `order` = (rows, group_starts) contains the row at each position, and the first
    /// position of each group followed by the end of the last group.
    pub fn new(stream: &Stream, a: CsrSlices, order: (&[u32], &[usize]), reals: Reals) -> Result<Self> {
        let ((rows, group_starts), mut memory) = (order, Allocations::new(ALLOCATION_NAME));
        let f32_values = reals != Reals::Double;
        let (mut ptr, mut col, mut val) = (zeroed(rows.len() + 1, ALLOCATION_NAME)?, Vec::new(), Vec::new());
        reserve(&mut col, a.col.len(), ALLOCATION_NAME)?;
        reserve(&mut val, a.val.len(), ALLOCATION_NAME)?;
        for (position, row) in rows.iter().enumerate() {
            let entries = a.ptr[*row as usize]..a.ptr[*row as usize + 1];
            col.extend_from_slice(&a.col[entries.clone()]);
            val.extend_from_slice(&a.val[entries]);
            ptr[position + 1] = col.len();
        }
        let ordered_rows = CsrSlices { ptr: &ptr, col: &col, val: &val };
        let all_rows =
            CsrArgs { rows: memory.copy_of(stream, rows)?, ..csr(&mut memory, stream, ordered_rows, f32_values)? };
        let mut groups = Vec::new();
        for range in group_starts.windows(2) {
            let group = CsrArgs {
                first_position: range[0] as i64,
                end_position: range[1] as i64,
                long_rows: find_long_rows(&mut memory, stream, ordered_rows, range[0]..range[1], |position| {
                    rows[position]
                })?,
                threads_per_row: threads_per_row(ptr[range[1]] - ptr[range[0]], range[1] - range[0]),
                ..all_rows
            };
            push(&mut groups, group, ALLOCATION_NAME)?;
        }
        Ok(Self { memory, groups, reals })
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Computes s = A x for the rows of a group, and the results that `finish` defines from s.
    pub fn multiply(&self, stream: &Stream, group: usize, x: Address, finish: RowFinish) -> Result<()> {
        launch::csr_rows(stream, self.reals, &CsrArgs { x, finish, ..self.groups[group] })
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// The matrices for products with A and A^T in a solve.
pub struct Products<'a> {
    pub a: &'a Matrix,
    /// A with values in f64, for residuals.
    pub a_in_f64: &'a Matrix,
    /// A copy of A^T. `None` means that `a` is used for products with A^T: A is symmetric, or the kernel of its format
    /// computes such products.
    pub transposed: Option<&'a Matrix>,
    /// Whether A^T = A.
    pub is_symmetric: bool,
}

impl<'a> Products<'a> {
    /// Returns the matrix for products with A, or with A^T if `transposed` is set. The second value is the argument
    /// `transposed` of [`Matrix::multiply`].
    pub fn matrix_for(&self, transposed: bool) -> (&'a Matrix, bool) {
        match self.transposed.filter(|_| transposed) {
            Some(copy) => (copy, false),
            None => (self.a, transposed && !self.is_symmetric),
        }
    }
}

/// Copies a matrix in csr to the device.
fn csr(memory: &mut Allocations, stream: &Stream, matrix: CsrSlices, f32_values: bool) -> Result<CsrArgs> {
    let rows = matrix.ptr.len() - 1;
    Ok(CsrArgs {
        first_position: 0,
        end_position: rows as i64,
        ptr: memory.copy_of(stream, matrix.ptr)?,
        col: memory.copy_of(stream, matrix.col)?,
        val: memory.copy_of_reals(stream, matrix.val, f32_values)?,
        max_row_len: max_row_len(matrix) as i64,
        long_rows: find_long_rows(memory, stream, matrix, 0..rows, |position| position as u32)?,
        threads_per_row: threads_per_row(matrix.val.len(), rows),
        ..CsrArgs::default()
    })
}

/// Copies a matrix in dia to the device. `diagonal_len` is the number of values per diagonal. Offsets are below 2^31,
/// because the numbers of rows and columns are below 2^31.
fn dia(
    memory: &mut Allocations,
    stream: &Stream,
    (diagonal_len, offset, val): (usize, &[i64], &[f64]),
    [rows, input_len]: [usize; 2],
    f32_values: bool,
) -> Result<DiaArgs> {
    let offset = collected(offset.iter().map(|&distance| distance as i32), ALLOCATION_NAME)?;
    let mut args = DiaArgs {
        rows: rows as i64,
        input_len: input_len as i64,
        diagonal_len: diagonal_len as i64,
        diagonal_count: offset.len() as i64,
        offset: memory.copy_of(stream, &offset)?,
        val: memory.copy_of_reals(stream, val, f32_values)?,
        ..DiaArgs::default()
    };
    args.inline_offsets.iter_mut().zip(&offset).for_each(|(inline_offset, offset)| *inline_offset = *offset);
    Ok(args)
}

/// Finds the long rows at `positions`, and copies their list to the device. `row` returns the row at a position.
fn find_long_rows(
    memory: &mut Allocations,
    stream: &Stream,
    matrix: CsrSlices,
    positions: std::ops::Range<usize>,
    row: impl Fn(usize) -> u32,
) -> Result<LongRows> {
    let (max_len, mut rows, mut ranges) = (max_row_len(matrix), Vec::new(), Vec::new());
    for position in positions {
        let range = [matrix.ptr[position], matrix.ptr[position + 1]];
        if range[1] - range[0] > max_len {
            push(&mut rows, row(position), ALLOCATION_NAME)?;
            extend(&mut ranges, range, ALLOCATION_NAME)?;
        }
    }
    upload_long_rows(memory, stream, &rows, &ranges)
}

/// Copies the list of long rows to the device. `ranges` contains the start and the end of the entries of each of these
/// rows.
fn upload_long_rows(memory: &mut Allocations, stream: &Stream, rows: &[u32], ranges: &[usize]) -> Result<LongRows> {
    if rows.is_empty() {
        return Ok(LongRows::default());
    }
    Ok(LongRows {
        rows: memory.copy_of(stream, rows)?,
        entry_ranges: memory.copy_of(stream, ranges)?,
        count: rows.len() as i64,
    })
}

/// Copies a matrix in sell with `rows` rows to the device. On the device, the entries of the long rows follow those of
/// the slices.
fn sell(
    memory: &mut Allocations,
    stream: &Stream,
    view: &FormatView,
    rows: usize,
    f32_values: bool,
) -> Result<SellArgs> {
    let &FormatView::Sell { slice_rows, perm, offset, col, val, separate_rows: (long_row_indices, long_rows) } = view
    else {
        return Err(Error::Internal("the format is not sell".to_owned()));
    };
    let position_count = (offset.len() - 1) * slice_rows;
    let mut rows_by_position: Vec<u32> = Vec::new();
    if perm.is_some() || !long_row_indices.is_empty() || position_count > rows {
        reserve(&mut rows_by_position, position_count, ALLOCATION_NAME)?;
        rows_by_position.extend((0..rows).map(|position| perm.map_or(position as u32, |perm| perm[position])));
        rows_by_position.resize(position_count, NO_INDEX);
        let mut is_long: Vec<bool> = zeroed(rows, ALLOCATION_NAME)?;
        long_row_indices.iter().for_each(|&row| is_long[row as usize] = true);
        let is_long_row = |row: &&mut u32| **row != NO_INDEX && is_long[**row as usize];
        rows_by_position.iter_mut().filter(is_long_row).for_each(|row| *row = NO_INDEX);
    }
    let (mut extended_col, mut extended_val) = (Vec::new(), Vec::new());
    let (mut col, mut val) = (col, val);
    let first_long_entry = val.len();
    if !long_row_indices.is_empty() {
        extend(&mut extended_col, col.iter().chain(long_rows.col).copied(), ALLOCATION_NAME)?;
        extend(&mut extended_val, val.iter().chain(long_rows.val).copied(), ALLOCATION_NAME)?;
        (col, val) = (&extended_col, &extended_val);
    }
    let ranges = collected(
        long_rows.ptr.windows(2).flat_map(|row| [first_long_entry + row[0], first_long_entry + row[1]]),
        ALLOCATION_NAME,
    )?;
    Ok(SellArgs {
        position_count: position_count as i64,
        offset: memory.copy_of(stream, offset)?,
        col: memory.copy_of(stream, col)?,
        rows: if rows_by_position.is_empty() { 0 } else { memory.copy_of(stream, &rows_by_position)? },
        val: memory.copy_of_reals(stream, val, f32_values)?,
        long_rows: upload_long_rows(memory, stream, long_row_indices, &ranges)?,
        slice_rows: slice_rows as i64,
        ..SellArgs::default()
    })
}
