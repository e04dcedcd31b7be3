//! A matrix on the device in one of the formats that have kernels, and products with it.

use super::allocations::Allocations;
use super::permutation::Permutation;
use crate::cuda::driver::Stream;
use crate::cuda::launch;
use crate::cuda::launch::{
    Address, BsrArgs, CsrArgs, DiaArgs, LongRows, NOTHING_THERE, Reals, RoundArgs, RowFinish, SellArgs,
};
use crate::error::{Error, Result, collected, extend, push, reserve, zeroed};
use crate::sparse::backend::Numbered;
use crate::sparse::{Rows, Stored, View};

const MATRIX: &str = "a matrix on the device";

/// Arrays of a matrix and the kernel of its products.
pub struct Matrix {
    memory: Allocations,
    kernel: Kernel,
    /// Number of values of the format.
    values: usize,
    reals: Reals,
    /// From the order of csr to that of the format; `None` until values are replaced, and for csr.
    permutation: Option<Permutation>,
}

/// Arguments of the kernel of a product, without the vectors.
enum Kernel {
    Csr(CsrArgs),
    Sell(SellArgs),
    Dia(DiaArgs),
    Bsr(BsrArgs),
}

/// A matrix in csr whose rows are stored by groups. A product computes the rows of one group.
pub struct Ordered {
    memory: Allocations,
    groups: Vec<CsrArgs>,
    reals: Reals,
}

/// Returns the largest number of entries of a row that is not a long row: 8 times the mean, and at least 64. A thread
/// block computes each long row.
fn longest(rows: Rows) -> usize {
    (8 * rows.val.len() / (rows.ptr.len() - 1).max(1)).max(64)
}

/// Returns the number of threads per row in csr: a power of two of about an eighth of the mean number of entries,
/// because a thread issues the loads of eight entries together.
fn lanes(entries: usize, rows: usize) -> i32 {
    (entries / rows.max(1) / 8).max(1).next_power_of_two().min(32) as i32
}

impl Matrix {
    /// Copies a matrix with `rows` rows and `cols` columns to the device.
    pub fn new(stream: &Stream, view: &View, [rows, cols]: [usize; 2], reals: Reals) -> Result<Self> {
        let (mut memory, f32_values) = (Allocations::new(MATRIX), reals != Reals::Double);
        let kernel = match *view {
            View::Csr(matrix) => Kernel::Csr(csr(&mut memory, stream, matrix, f32_values)?),
            View::Ell { rows: 0, .. } => Kernel::Sell(SellArgs { slice: 1, ..SellArgs::default() }),
            View::Ell { rows, col, val } => Kernel::Sell(SellArgs {
                lanes: rows as i64,
                offset: memory.copy_of(stream, &[0, val.len()])?,
                col: memory.copy_of(stream, col)?,
                val: memory.copy_of_reals(stream, val, f32_values)?,
                slice: rows as i64,
                ..SellArgs::default()
            }),
            View::Sell { .. } => Kernel::Sell(sell(&mut memory, stream, view, rows, f32_values)?),
            View::Dia { length, offset, val } => {
                Kernel::Dia(dia(&mut memory, stream, (length, offset, val), [rows, cols], f32_values)?)
            }
            View::Bsr { block, rows: Rows { ptr, col, val } } => Kernel::Bsr(BsrArgs {
                rows: rows as i64,
                cols: cols as i64,
                ptr: memory.copy_of(stream, ptr)?,
                col: memory.copy_of(stream, col)?,
                val: memory.copy_of_reals(stream, val, f32_values)?,
                block: block as i64,
                ..BsrArgs::default()
            }),
        };
        Ok(Self {
            memory,
            kernel,
            values: values_of(view).iter().map(|part| part.len()).sum(),
            reals,
            permutation: None,
        })
    }

    /// Returns the address of the values.
    fn address_of_values(&self) -> Address {
        match &self.kernel {
            Kernel::Csr(a) => a.val,
            Kernel::Sell(a) => a.val,
            Kernel::Dia(a) => a.val,
            Kernel::Bsr(a) => a.val,
        }
    }

    /// Rounds the values to f32, for products with vectors in f32. The result uses the index arrays of `self`, which
    /// must exist as long as the result.
    pub fn rounded(&self, stream: &Stream) -> Result<Self> {
        let mut memory = Allocations::new(MATRIX);
        let val = memory.zeroed(stream, size_of::<f32>() * self.values)?;
        let args = RoundArgs { count: self.values as i64, from: self.address_of_values(), to: val };
        launch::round_values(stream, &args)?;
        let kernel = match self.kernel {
            Kernel::Csr(a) => Kernel::Csr(CsrArgs { val, ..a }),
            Kernel::Sell(a) => Kernel::Sell(SellArgs { val, ..a }),
            Kernel::Dia(a) => Kernel::Dia(DiaArgs { val, ..a }),
            Kernel::Bsr(a) => Kernel::Bsr(BsrArgs { val, ..a }),
        };
        Ok(Self { memory, kernel, values: self.values, reals: Reals::Single, permutation: None })
    }

    /// Returns whether the kernel can compute products with A^T.
    pub fn transposes(&self) -> bool {
        matches!(self.kernel, Kernel::Dia(_))
    }

    /// Computes s = A x, or s = A^T x for a format whose kernel transposes, and then the results that `finish` defines
    /// from s.
    pub fn multiply(&self, stream: &Stream, transposed: bool, x: Address, finish: RowFinish) -> Result<()> {
        match self.kernel {
            _ if transposed && !self.transposes() => {
                Err(Error::Internal("the format has no product with A' on a device".to_owned()))
            }
            Kernel::Csr(a) => launch::csr_rows(stream, self.reals, &CsrArgs { x, finish, ..a }),
            Kernel::Sell(a) => launch::sell_rows(stream, self.reals, &SellArgs { x, finish, ..a }),
            Kernel::Dia(a) => {
                let (rows, inputs) = if transposed { (a.inputs, a.rows) } else { (a.rows, a.inputs) };
                let a = DiaArgs { rows, inputs, transposed: i64::from(transposed), x, finish, ..a };
                launch::dia_rows(stream, self.reals, &a)
            }
            Kernel::Bsr(a) => launch::bsr_rows(stream, self.reals, &BsrArgs { x, finish, ..a }),
        }
    }

    /// Computes the permutation from the order of csr to that of the format, if it does not exist. The format has fewer
    /// than 2^32 entries.
    pub fn prepare_values(&mut self, stream: &Stream, numbered: &Numbered) -> Result<()> {
        if self.permutation.is_none() && !matches!(self.kernel, Kernel::Csr(_)) {
            let stored = numbered()?;
            let missing = || Error::Internal("the format has no order of values".to_owned());
            let view = stored.as_deref().and_then(Stored::view).ok_or_else(missing)?;
            self.permutation = Some(Permutation::to_format(stream, values_of(&view).into_iter().flatten())?);
        }
        Ok(())
    }

    /// Replaces the values by the `count` values at the device address `csr`, which have the order of csr.
    /// `prepare_values` must come before.
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

/// Returns the values of a format in the order in which they are stored, in two parts.
fn values_of<'a>(view: &View<'a>) -> [&'a [f64]; 2] {
    match *view {
        View::Csr(rows) | View::Bsr { rows, .. } => [rows.val, &[]],
        View::Dia { val, .. } | View::Ell { val, .. } => [val, &[]],
        View::Sell { val, separate: (_, rows), .. } => [val, rows.val],
    }
}

impl Ordered {
    /// Copies a matrix to the device. The order consists of the row at each position, and of the first position of each
    /// group and the end of the last group.
    pub fn new(stream: &Stream, a: Rows, order: (&[u32], &[usize]), reals: Reals) -> Result<Self> {
        let ((rows, starts), mut memory) = (order, Allocations::new(MATRIX));
        let f32_values = reals != Reals::Double;
        let (mut ptr, mut col, mut val) = (zeroed(rows.len() + 1, MATRIX)?, Vec::new(), Vec::new());
        reserve(&mut col, a.col.len(), MATRIX)?;
        reserve(&mut val, a.val.len(), MATRIX)?;
        for (position, row) in rows.iter().enumerate() {
            let entries = a.ptr[*row as usize]..a.ptr[*row as usize + 1];
            col.extend_from_slice(&a.col[entries.clone()]);
            val.extend_from_slice(&a.val[entries]);
            ptr[position + 1] = col.len();
        }
        let ordered = Rows { ptr: &ptr, col: &col, val: &val };
        let whole = CsrArgs { rows: memory.copy_of(stream, rows)?, ..csr(&mut memory, stream, ordered, f32_values)? };
        let mut groups = Vec::new();
        for range in starts.windows(2) {
            let group = CsrArgs {
                first: range[0] as i64,
                end: range[1] as i64,
                separate: long_rows(&mut memory, stream, ordered, range[0]..range[1], |position| rows[position])?,
                lanes: lanes(ptr[range[1]] - ptr[range[0]], range[1] - range[0]),
                ..whole
            };
            push(&mut groups, group, MATRIX)?;
        }
        Ok(Self { memory, groups, reals })
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// Computes s = A x for the rows of a group, and then the results that `finish` defines from s.
    pub fn multiply(&self, stream: &Stream, group: usize, x: Address, finish: RowFinish) -> Result<()> {
        launch::csr_rows(stream, self.reals, &CsrArgs { x, finish, ..self.groups[group] })
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

/// The matrices that compute products with A and A^T.
pub struct Products<'a> {
    pub a: &'a Matrix,
    /// A in f64, which computes residuals.
    pub exact: &'a Matrix,
    /// A copy of A^T. If it is `None`, `a` computes products with A^T: A is symmetric, or the kernel of its format
    /// transposes.
    pub transposed: Option<&'a Matrix>,
    /// Whether A^T = A.
    pub symmetric: bool,
}

impl<'a> Products<'a> {
    /// Returns the matrix that computes a product with A, or with A^T, and whether its kernel transposes.
    pub fn of(&self, transposed: bool) -> (&'a Matrix, bool) {
        match self.transposed.filter(|_| transposed) {
            Some(copy) => (copy, false),
            None => (self.a, transposed && !self.symmetric),
        }
    }
}

fn csr(memory: &mut Allocations, stream: &Stream, matrix: Rows, f32_values: bool) -> Result<CsrArgs> {
    let rows = matrix.ptr.len() - 1;
    Ok(CsrArgs {
        first: 0,
        end: rows as i64,
        ptr: memory.copy_of(stream, matrix.ptr)?,
        col: memory.copy_of(stream, matrix.col)?,
        val: memory.copy_of_reals(stream, matrix.val, f32_values)?,
        longest: longest(matrix) as i64,
        separate: long_rows(memory, stream, matrix, 0..rows, |position| position as u32)?,
        lanes: lanes(matrix.val.len(), rows),
        ..CsrArgs::default()
    })
}

/// Copies a matrix in dia: the number of values per diagonal, the offsets and the values. Offsets are below 2^31,
/// because the numbers of rows and columns are.
fn dia(
    memory: &mut Allocations,
    stream: &Stream,
    (length, offset, val): (usize, &[i64], &[f64]),
    [rows, inputs]: [usize; 2],
    f32_values: bool,
) -> Result<DiaArgs> {
    let offset = collected(offset.iter().map(|&distance| distance as i32), MATRIX)?;
    let mut args = DiaArgs {
        rows: rows as i64,
        inputs: inputs as i64,
        length: length as i64,
        count: offset.len() as i64,
        offset: memory.copy_of(stream, &offset)?,
        val: memory.copy_of_reals(stream, val, f32_values)?,
        ..DiaArgs::default()
    };
    args.near.iter_mut().zip(&offset).for_each(|(near, offset)| *near = *offset);
    Ok(args)
}

/// Lists the long rows among these positions; `row` returns the row at a position.
fn long_rows(
    memory: &mut Allocations,
    stream: &Stream,
    matrix: Rows,
    positions: std::ops::Range<usize>,
    row: impl Fn(usize) -> u32,
) -> Result<LongRows> {
    let (most, mut rows, mut ranges) = (longest(matrix), Vec::new(), Vec::new());
    for position in positions {
        let range = [matrix.ptr[position], matrix.ptr[position + 1]];
        if range[1] - range[0] > most {
            push(&mut rows, row(position), MATRIX)?;
            extend(&mut ranges, range, MATRIX)?;
        }
    }
    list_of_long_rows(memory, stream, &rows, &ranges)
}

fn list_of_long_rows(memory: &mut Allocations, stream: &Stream, rows: &[u32], ranges: &[usize]) -> Result<LongRows> {
    if rows.is_empty() {
        return Ok(LongRows::default());
    }
    Ok(LongRows {
        rows: memory.copy_of(stream, rows)?,
        range: memory.copy_of(stream, ranges)?,
        count: rows.len() as i64,
    })
}

/// Copies a matrix in sell with `rows` rows. The entries of the long rows follow those of the slices.
fn sell(memory: &mut Allocations, stream: &Stream, view: &View, rows: usize, f32_values: bool) -> Result<SellArgs> {
    let &View::Sell { slice, perm, offset, col, val, separate: (long, separate) } = view else {
        return Err(Error::Internal("the format is not sell".to_owned()));
    };
    let lanes = (offset.len() - 1) * slice;
    let mut row_at: Vec<u32> = Vec::new();
    if perm.is_some() || !long.is_empty() || lanes > rows {
        reserve(&mut row_at, lanes, MATRIX)?;
        row_at.extend((0..rows).map(|position| perm.map_or(position as u32, |perm| perm[position])));
        row_at.resize(lanes, NOTHING_THERE);
        let mut is_long: Vec<bool> = zeroed(rows, MATRIX)?;
        long.iter().for_each(|&row| is_long[row as usize] = true);
        let hides = |row: &&mut u32| **row != NOTHING_THERE && is_long[**row as usize];
        row_at.iter_mut().filter(hides).for_each(|row| *row = NOTHING_THERE);
    }
    let (mut all_col, mut all_val) = (Vec::new(), Vec::new());
    let (mut col, mut val) = (col, val);
    let first = val.len();
    if !long.is_empty() {
        extend(&mut all_col, col.iter().chain(separate.col).copied(), MATRIX)?;
        extend(&mut all_val, val.iter().chain(separate.val).copied(), MATRIX)?;
        (col, val) = (&all_col, &all_val);
    }
    let ranges = collected(separate.ptr.windows(2).flat_map(|row| [first + row[0], first + row[1]]), MATRIX)?;
    Ok(SellArgs {
        lanes: lanes as i64,
        offset: memory.copy_of(stream, offset)?,
        col: memory.copy_of(stream, col)?,
        rows: if row_at.is_empty() { 0 } else { memory.copy_of(stream, &row_at)? },
        val: memory.copy_of_reals(stream, val, f32_values)?,
        separate: list_of_long_rows(memory, stream, long, &ranges)?,
        slice: slice as i64,
        ..SellArgs::default()
    })
}
