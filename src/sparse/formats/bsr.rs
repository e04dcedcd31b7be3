//! Block sparse rows (bsr): b x b values in row-major order for each block with an entry. Blocks are stored by block
//! rows, with ascending block columns. Blocks that extend beyond the matrix are filled with zeros. y_i is the sum over
//! the blocks of sum_j a_ij x_j, where j runs over the columns of the block.

use crate::base::csr::{Csr, lengths_to_pointers};
use crate::base::index::Index;
use crate::base::workers::{Parts, Workers, cut_lanes};
use crate::error::{Result, extend, push, zeroed};
use crate::sparse::stored::{Arrays, ByParts, ByRows, Division, POINTER, Rows, Size, Stored, View, index_range};
use std::ops::Range;

/// Name of an allocation in error messages.
const BSR: &str = "a matrix in format bsr";

pub struct Bsr<I> {
    b: usize,
    cols: usize,
    /// Index of the first block of each block row; one more element is the number of blocks.
    ptr: Vec<usize>,
    /// Block columns.
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>, b: usize) -> Result<Size> {
    let mut blocks = 0;
    visit(a, b, |_, _| blocks += 1)?;
    let ptr = (a.rows().div_ceil(b) + 1, POINTER);
    Ok(Size::new([ptr, (blocks, size_of::<I>())], blocks as u128 * (b * b) as u128))
}

/// Maximum number of block rows in the sample of [`may_fit`].
const SAMPLE: usize = 256;

/// Estimates whether bsr may need at most `bytes` bytes. Returns false if the size extrapolated from a sample of block
/// rows exceeds 1.5 * `bytes`.
pub fn may_fit<I: Index>(a: &Csr<I>, b: usize, bytes: u128) -> Result<bool> {
    let block_rows = a.rows().div_ceil(b);
    let (mut blocks, mut entries) = (0, 0);
    let mut columns = Vec::new();
    for block_row in (0..block_rows).step_by(block_rows.div_ceil(SAMPLE).max(1)) {
        columns.clear();
        for (j, _) in (block_row * b..a.rows().min(block_row * b + b)).flat_map(|i| a.row(i)) {
            push(&mut columns, j / b, BSR)?;
        }
        entries += columns.len() as u128;
        columns.sort_unstable();
        columns.dedup();
        blocks += columns.len() as u128;
    }
    let of_block = (8 * b * b + size_of::<I>()) as u128;
    Ok(2 * blocks * of_block * a.val.len() as u128 <= 3 * bytes * entries)
}

/// Calls `add` with block row and block column of each block. Visits the block rows in order. Within a block row,
/// visits the blocks in the order of their first entries.
fn visit<I: Index>(a: &Csr<I>, b: usize, mut add: impl FnMut(usize, usize)) -> Result<()> {
    // Last block row in which each block column occurred, counted from 1.
    let mut seen: Vec<I> = zeroed(a.cols.div_ceil(b), BSR)?;
    for i in 0..a.rows() {
        let block_row = i / b + 1;
        for (j, _) in a.row(i) {
            if seen[j / b].at() != block_row {
                seen[j / b] = I::of(block_row);
                add(block_row - 1, j / b);
            }
        }
    }
    Ok(())
}

/// Fills the blocks of one block row. `names` is a workspace for its block columns.
fn fill_blocks<I: Index>(
    a: &Csr<I>,
    b: usize,
    rows: Range<usize>,
    names: &mut Vec<usize>,
    (col, val): (&mut [I], &mut [f64]),
) -> Result<()> {
    names.clear();
    extend(names, rows.clone().flat_map(|i| a.row(i)).map(|(j, _)| j / b), BSR)?;
    names.sort_unstable();
    names.dedup();
    col.iter_mut().zip(&*names).for_each(|(col, &j)| *col = I::of(j));
    for (k, i) in rows.enumerate() {
        let mut block = 0;
        for (j, value) in a.row(i) {
            // Columns and block columns ascend, and each entry belongs to a block.
            while names[block] < j / b {
                block += 1;
            }
            val[(block * b + k) * b + j % b] = value;
        }
    }
    Ok(())
}

impl<I: Index> Bsr<I> {
    pub fn of(a: &Csr<I>, b: usize, size: &Size, workers: &mut Workers) -> Result<Self> {
        let mut ptr: Vec<usize> = zeroed(a.rows().div_ceil(b) + 1, BSR)?;
        visit(a, b, |block_row, _| ptr[block_row + 1] += 1)?;
        lengths_to_pointers(&mut ptr);
        let (mut col, mut val) = (zeroed(ptr[ptr.len() - 1], BSR)?, zeroed(size.values as usize, BSR)?);
        let (mut cols, mut vals) = (Parts(&mut col), Parts(&mut val));
        let cut = cut_lanes(&ptr, workers.pieces(size.bytes() as usize)).map(|block_rows| {
            let blocks = ptr[block_rows.end] - ptr[block_rows.start];
            (block_rows, cols.next(blocks), vals.next(blocks * b * b))
        });
        let filled = workers.map(cut, |(block_rows, col, val)| {
            let (mut cols, mut vals, mut names) = (Parts(col), Parts(val), Vec::new());
            for block_row in block_rows {
                let blocks = ptr[block_row + 1] - ptr[block_row];
                let rows = block_row * b..a.rows().min(block_row * b + b);
                fill_blocks(a, b, rows, &mut names, (cols.next(blocks), vals.next(blocks * b * b)))?;
            }
            Ok(())
        })?;
        filled.into_iter().collect::<Result<()>>()?;
        Ok(Self { b, cols: a.cols, ptr, col, val })
    }

    /// Iterates over the blocks of a range of block rows, as (block row minus the first block row of the range, block
    /// column, values).
    fn blocks(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, usize, &[f64])> {
        let size = self.b * self.b;
        let of_row = move |(i, row): (usize, &[usize])| {
            let range = row[0]..row[1];
            let blocks = self.val[size * row[0]..size * row[1]].chunks_exact(size);
            self.col[range].iter().zip(blocks).map(move |(j, block)| (i, j.at(), block))
        };
        self.ptr[rows.start..=rows.end].windows(2).enumerate().flat_map(of_row)
    }
}

impl<I: Index> ByRows for Bsr<I> {
    fn grain(&self) -> usize {
        self.b
    }

    fn multiply_rows(&self, rows: Range<usize>, x: &[f64], y: &mut [f64]) {
        let b = self.b;
        y.fill(0.0);
        for (i, j, block) in self.blocks(rows.start / b..rows.end.div_ceil(b)) {
            let (x, rows) = (&x[j * b..x.len().min(j * b + b)], y.len().min(i * b + b));
            for (y, row) in y[i * b..rows].iter_mut().zip(block.chunks_exact(b)) {
                *y += row.iter().zip(x).fold(0.0, |sum, (a, x)| sum + a * x);
            }
        }
    }
}

impl<I: Index> ByParts for Bsr<I> {
    fn grain(&self) -> usize {
        self.b
    }

    fn columns(&self, rows: Range<usize>) -> Range<usize> {
        let blocks = self.ptr[rows.start / self.b]..self.ptr[rows.end.div_ceil(self.b)];
        let blocks = index_range(&self.col[blocks]);
        blocks.start * self.b..self.cols.min(blocks.end * self.b)
    }

    fn add_transposed(&self, rows: Range<usize>, x: &[f64], first: usize, y: &mut [f64]) {
        let b = self.b;
        for (i, j, block) in self.blocks(rows.start / b..rows.end.div_ceil(b)) {
            let (x, start) = (&x[i * b..x.len().min(i * b + b)], j * b - first);
            let end = y.len().min(start + b);
            for (x, row) in x.iter().zip(block.chunks_exact(b)) {
                y[start..end].iter_mut().zip(row).for_each(|(y, a)| *y += a * x);
            }
        }
    }
}

impl<I: Index> Stored for Bsr<I> {
    fn division(&self, transposed: bool) -> Division<'_> {
        if transposed { Division::Parts(self) } else { Division::Rows(self) }
    }

    fn view(&self) -> Option<View<'_>> {
        let rows = Rows { ptr: &self.ptr, col: I::narrow(&self.col)?, val: &self.val };
        Some(View::Bsr { block: self.b, rows })
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.ptr.iter().copied());
        to.i1.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
