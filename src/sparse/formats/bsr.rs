//! Block sparse rows (bsr): b x b values in row-major order for each block with an entry. Blocks are stored by block
//! rows, with ascending block columns. In a block that extends beyond the last row or column, the values outside the
//! matrix are zero. A product computes sum_j a_ij x_j over the columns j of each block, and adds these sums to y_i.

use crate::base::csr::{Csr, lengths_to_pointers};
use crate::base::index::Index;
use crate::base::workers::{SliceSplitter, Workers, divide_lanes};
use crate::error::{Result, extend, push, zeroed};
use crate::sparse::stored::{
    CsrSlices, FormatSize, FormatView, OutputArrays, POINTER_BYTES, RowProducts, Stored, ThreadDivision,
    TransposedRowProducts, index_range,
};
use std::ops::Range;

/// Name of an allocation in error messages.
const ALLOCATION_NAME: &str = "a matrix in format bsr";

pub struct Bsr<I> {
    block_size: usize,
    cols: usize,
    /// Index of the first block of each block row. The last element is the number of blocks.
    ptr: Vec<usize>,
    /// Block column of each block.
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>, b: usize) -> Result<FormatSize> {
    let mut block_count = 0;
    visit_blocks(a, b, |_, _| block_count += 1)?;
    let ptr = (a.rows().div_ceil(b) + 1, POINTER_BYTES);
    Ok(FormatSize::new([ptr, (block_count, size_of::<I>())], block_count as u128 * (b * b) as u128))
}

/// Maximum number of block rows in the sample of [`may_fit`].
const SAMPLE_BLOCK_ROWS: usize = 256;

/// Estimates the size of bsr from a sample of block rows. Returns `false` if the estimate exceeds 1.5 * `byte_limit`,
/// so that the size is unlikely to be within the limit.
pub fn may_fit<I: Index>(a: &Csr<I>, b: usize, byte_limit: u128) -> Result<bool> {
    let block_rows = a.rows().div_ceil(b);
    let (mut block_count, mut entry_count) = (0, 0);
    let mut block_columns = Vec::new();
    for block_row in (0..block_rows).step_by(block_rows.div_ceil(SAMPLE_BLOCK_ROWS).max(1)) {
        block_columns.clear();
        for (j, _) in (block_row * b..a.rows().min(block_row * b + b)).flat_map(|i| a.row(i)) {
            push(&mut block_columns, j / b, ALLOCATION_NAME)?;
        }
        entry_count += block_columns.len() as u128;
        block_columns.sort_unstable();
        block_columns.dedup();
        block_count += block_columns.len() as u128;
    }
    let block_bytes = (8 * b * b + size_of::<I>()) as u128;
    Ok(2 * block_count * block_bytes * a.val.len() as u128 <= 3 * byte_limit * entry_count)
}

/// Calls `add` with block row and block column of each block. Visits the block rows in order. Within a block row,
/// visits the blocks in the order of their first entries.
fn visit_blocks<I: Index>(a: &Csr<I>, b: usize, mut add: impl FnMut(usize, usize)) -> Result<()> {
    // For each block column, the last block row in which it occurred, counted from 1; 0 if there is none.
    let mut last_block_row: Vec<I> = zeroed(a.cols.div_ceil(b), ALLOCATION_NAME)?;
    for i in 0..a.rows() {
        let block_row = i / b + 1;
        for (j, _) in a.row(i) {
            if last_block_row[j / b].to_usize() != block_row {
                last_block_row[j / b] = I::of(block_row);
                add(block_row - 1, j / b);
            }
        }
    }
    Ok(())
}

/// Writes the block columns and the values of one block row to `col` and `val`. The block row consists of the rows
/// `rows`. `block_columns` is a workspace.
fn fill_blocks<I: Index>(
    a: &Csr<I>,
    b: usize,
    rows: Range<usize>,
    block_columns: &mut Vec<usize>,
    (col, val): (&mut [I], &mut [f64]),
) -> Result<()> {
    block_columns.clear();
    extend(block_columns, rows.clone().flat_map(|i| a.row(i)).map(|(j, _)| j / b), ALLOCATION_NAME)?;
    block_columns.sort_unstable();
    block_columns.dedup();
    col.iter_mut().zip(&*block_columns).for_each(|(col, &j)| *col = I::of(j));
    for (k, i) in rows.enumerate() {
        let mut block = 0;
        for (j, value) in a.row(i) {
            // The columns of row i and the block columns ascend, so `block` never decreases. The loop ends, because
            // each entry belongs to a block.
            while block_columns[block] < j / b {
                block += 1;
            }
            val[(block * b + k) * b + j % b] = value;
        }
    }
    Ok(())
}

impl<I: Index> Bsr<I> {
    pub fn of(a: &Csr<I>, b: usize, size: &FormatSize, workers: &mut Workers) -> Result<Self> {
        let mut ptr: Vec<usize> = zeroed(a.rows().div_ceil(b) + 1, ALLOCATION_NAME)?;
        visit_blocks(a, b, |block_row, _| ptr[block_row + 1] += 1)?;
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) =
            (zeroed(ptr[ptr.len() - 1], ALLOCATION_NAME)?, zeroed(size.values as usize, ALLOCATION_NAME)?);
        let (mut col_parts, mut val_parts) = (SliceSplitter(&mut col), SliceSplitter(&mut val));
        let block_row_pieces = divide_lanes(&ptr, workers.piece_count(size.bytes() as usize)).map(|block_rows| {
            let blocks = ptr[block_rows.end] - ptr[block_rows.start];
            (block_rows, col_parts.take_front(blocks), val_parts.take_front(blocks * b * b))
        });
        let results = workers.map(block_row_pieces, |(block_rows, col, val)| {
            let (mut col_parts, mut val_parts, mut block_columns) =
                (SliceSplitter(col), SliceSplitter(val), Vec::new());
            for block_row in block_rows {
                let blocks = ptr[block_row + 1] - ptr[block_row];
                let rows = block_row * b..a.rows().min(block_row * b + b);
                fill_blocks(
                    a,
                    b,
                    rows,
                    &mut block_columns,
                    (col_parts.take_front(blocks), val_parts.take_front(blocks * b * b)),
                )?;
            }
            Ok(())
        })?;
        results.into_iter().collect::<Result<()>>()?;
        Ok(Self { block_size: b, cols: a.cols, ptr, col, val })
    }

    /// Iterates over the blocks of a range of block rows, as (block row minus the first block row of the range, block
    /// column, values).
    fn blocks(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize, &[f64])> {
        let block_size = self.block_size * self.block_size;
        let blocks_of_row = move |(i, row): (usize, &[usize])| {
            let range = row[0]..row[1];
            let blocks = self.val[block_size * row[0]..block_size * row[1]].chunks_exact(block_size);
            self.col[range].iter().zip(blocks).map(move |(j, block)| (i, j.to_usize(), block))
        };
        self.ptr[rows.start..=rows.end].windows(2).enumerate().flat_map(blocks_of_row)
    }
}

impl<I: Index> RowProducts for Bsr<I> {
    fn row_alignment(&self) -> usize {
        self.block_size
    }

    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        let b = self.block_size;
        y.fill(0.0);
        for (i, j, block) in self.blocks(rows.start / b..rows.end.div_ceil(b)) {
            let (x, rows) = (&x[j * b..x.len().min(j * b + b)], y.len().min(i * b + b));
            for (y, row) in y[i * b..rows].iter_mut().zip(block.chunks_exact(b)) {
                *y += row.iter().zip(x).fold(0.0, |sum, (a, x)| sum + a * x);
            }
        }
    }
}

impl<I: Index> TransposedRowProducts for Bsr<I> {
    fn row_alignment(&self) -> usize {
        self.block_size
    }

    fn columns_of_rows(&self, rows: Range<usize>) -> Range<usize> {
        let block_range = self.ptr[rows.start / self.block_size]..self.ptr[rows.end.div_ceil(self.block_size)];
        let block_range = index_range(&self.col[block_range]);
        block_range.start * self.block_size..self.cols.min(block_range.end * self.block_size)
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first_column: usize, y: &mut [f64]) {
        let b = self.block_size;
        for (i, j, block) in self.blocks(rows.start / b..rows.end.div_ceil(b)) {
            let (x, y_start) = (&x[i * b..x.len().min(i * b + b)], j * b - first_column);
            let y_end = y.len().min(y_start + b);
            for (x, row) in x.iter().zip(block.chunks_exact(b)) {
                y[y_start..y_end].iter_mut().zip(row).for_each(|(y, a)| *y += a * x);
            }
        }
    }
}

impl<I: Index> Stored for Bsr<I> {
    fn division(&self, transposed: bool) -> ThreadDivision<'_> {
        if transposed { ThreadDivision::Contributions(self) } else { ThreadDivision::Rows(self) }
    }

    fn view(&self) -> Option<FormatView<'_>> {
        let rows = CsrSlices { ptr: &self.ptr, col: I::as_u32(&self.col)?, val: &self.val };
        Some(FormatView::Bsr { block_size: self.block_size, rows })
    }

    fn write(&self, output: &mut OutputArrays) {
        output.i0.fill(self.ptr.iter().copied());
        output.i1.fill(self.col.iter().map(|j| j.to_usize()));
        output.values.copy_from_slice(&self.val);
    }
}
