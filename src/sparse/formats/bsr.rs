//! Blocks (bsr): b x b values, row by row, for each block with an entry; blocks by block rows, block columns ascending.
//! Zeros fill blocks that pass the edge.

use crate::error::{Result, push, reserve, zeroed};
use crate::sparse::csr::Csr;
use crate::sparse::index::Index;
use crate::sparse::stored::{Arrays, ByRows, POINTER, Size, Stored};
use std::ops::Range;

/// For errors.
const BSR: &str = "a matrix in format bsr";

pub struct Bsr<I> {
    b: usize,
    /// Where block rows begin, and the end.
    ptr: Vec<usize>,
    /// Block columns.
    col: Vec<I>,
    val: Vec<f64>,
}

pub fn size<I: Index>(a: &Csr<I>, b: usize) -> Result<Size> {
    let mut blocks = 0;
    visit(a, b, |_| {
        blocks += 1;
        Ok(())
    })?;
    let ptr = (a.rows().div_ceil(b) + 1, POINTER);
    Ok(Size::new([ptr, (blocks, size_of::<I>())], blocks as u128 * (b * b) as u128))
}

/// Block rows that are looked at before all are counted.
const SAMPLE: usize = 256;

/// Whether blocks may take at most `bytes`: not where those of a sample of block rows take half as much again.
pub fn may_take<I: Index>(a: &Csr<I>, b: usize, bytes: u128) -> Result<bool> {
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

/// Hands over the block columns of all blocks, block row by block row; within one they come as rows name them first.
fn visit<I: Index>(a: &Csr<I>, b: usize, mut see: impl FnMut(usize) -> Result<()>) -> Result<()> {
    // The last block row in which a block column was seen, from 1.
    let mut seen: Vec<I> = zeroed(a.cols.div_ceil(b), BSR)?;
    for i in 0..a.rows() {
        let block_row = i / b + 1;
        for (j, _) in a.row(i) {
            if seen[j / b].at() != block_row {
                seen[j / b] = I::of(block_row);
                see(j / b)?;
            }
        }
    }
    Ok(())
}

impl<I: Index> Bsr<I> {
    pub fn of(a: &Csr<I>, b: usize, size: &Size) -> Result<Self> {
        let (mut ptr, mut col) = (Vec::new(), Vec::new());
        reserve(&mut ptr, a.rows().div_ceil(b) + 1, BSR)?;
        reserve(&mut col, size.places[1].0 as usize, BSR)?;
        let mut val = zeroed(size.values as usize, BSR)?;
        // Where the block of a block column lies in this block row, which begins at the last of `ptr`.
        let mut place: Vec<usize> = zeroed(a.cols.div_ceil(b), BSR)?;
        ptr.push(0);
        for block_row in 0..a.rows().div_ceil(b) {
            let (first, rows) = (col.len(), block_row * b..a.rows().min(block_row * b + b));
            for j in rows.clone().flat_map(|i| a.row(i)).map(|(j, _)| j / b) {
                let known = place[j];
                if known < first || known >= col.len() || col[known] != I::of(j) {
                    place[j] = col.len();
                    col.push(I::of(j));
                }
            }
            col[first..].sort_unstable();
            for (k, j) in col.iter().enumerate().skip(first) {
                place[j.at()] = k;
            }
            for i in rows {
                for (j, value) in a.row(i) {
                    val[(place[j / b] * b + i % b) * b + j % b] = value;
                }
            }
            ptr.push(col.len());
        }
        Ok(Self { b, ptr, col, val })
    }

    /// Each block of these block rows, with its block row among them and its block column.
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

impl<I: Index> Stored for Bsr<I> {
    fn multiply(&self, x: &[f64], y: &mut [f64]) {
        self.multiply_rows(0..y.len(), x, y);
    }

    fn multiply_transposed(&self, x: &[f64], y: &mut [f64]) {
        let b = self.b;
        y.fill(0.0);
        for (i, j, block) in self.blocks(0..self.ptr.len() - 1) {
            let (x, cols) = (&x[i * b..x.len().min(i * b + b)], y.len().min(j * b + b));
            let y = &mut y[j * b..cols];
            for (x, row) in x.iter().zip(block.chunks_exact(b)) {
                y.iter_mut().zip(row).for_each(|(y, a)| *y += a * x);
            }
        }
    }

    fn by_rows(&self) -> Option<&dyn ByRows> {
        Some(self)
    }

    fn write(&self, to: &mut Arrays) {
        to.i0.put(self.ptr.iter().copied());
        to.i1.put(self.col.iter().map(|j| j.at()));
        to.values.copy_from_slice(&self.val);
    }
}
