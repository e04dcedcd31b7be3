//! E from the couplings of A between regions, over blocks of rows of cells whose number depends on nothing.

use crate::error::{Result, extend, insert, reset, zeroed};
use crate::grid::cell_components::{CellComponents, row_excess};
use crate::grid::cells::{Cells, SevenPoints};
use crate::grid::regions::{NONE, Regions};
use std::collections::HashMap;
use std::ops::Range;

/// For errors.
pub const COARSE_MATRIX: &str = "the coarse matrix of deflation";

/// Blocks of rows of cells: enough for the members of any team, few enough for sums over them.
pub const BLOCKS: usize = 64;

/// Rows j + ny k of a block.
fn block_rows(cells: Cells, block: usize) -> Range<usize> {
    let rows = cells.ny * cells.nz;
    rows * block / BLOCKS..rows * (block + 1) / BLOCKS
}

/// What a block adds to an entry of E.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// Row, column and block, in the order in which entries are added: 16, 16 and 32 bits.
    key: u64,
    value: f64,
}

impl Entry {
    fn row(&self) -> usize {
        (self.key >> 48) as usize
    }

    fn column(&self) -> usize {
        (self.key >> 32 & 0xffff) as usize
    }
}

/// The sum of couplings from cells of one region to cells of another one that has not been added yet.
#[derive(Clone, Copy, Default)]
struct Pending {
    pair: (u16, u16),
    sum: f64,
}

/// The entries of one block, row <= column.
#[derive(Default)]
struct Part {
    sums: HashMap<u32, f64>,
}

impl Part {
    /// A coupling from a cell of region r to one of another region s: added together with those that follow it from r
    /// to s.
    fn couple(&mut self, pending: &mut Pending, r: u16, s: u16, coupling: f64) -> Result<()> {
        if pending.pair != (r, s) {
            self.finish(pending)?;
            pending.pair = (r, s);
        }
        pending.sum += coupling;
        Ok(())
    }

    fn finish(&mut self, pending: &mut Pending) -> Result<()> {
        let ((r, s), sum) = (pending.pair, std::mem::take(&mut pending.sum));
        if sum != 0.0 {
            self.add(r, s, sum)?;
            self.add(r, r, -sum)?;
            self.add(s, s, -sum)?;
        }
        Ok(())
    }

    fn add(&mut self, r: u16, s: u16, value: f64) -> Result<()> {
        if r == NONE || s == NONE {
            return Ok(());
        }
        let key = u32::from(r.min(s)) << 16 | u32::from(r.max(s));
        if let Some(sum) = self.sums.get_mut(&key) {
            *sum += value;
            return Ok(());
        }
        insert(&mut self.sums, key, value, COARSE_MATRIX).map(|_| ())
    }
}

/// Adds what a block of rows contributes to E: its couplings to the east, north and top, and the sums of its rows.
pub fn assemble_block(
    a: &SevenPoints,
    components: &CellComponents,
    regions: &Regions,
    block: usize,
    entries: &mut Vec<Entry>,
) -> Result<()> {
    let Cells { nx, ny, nz } = a.cells;
    let mut part = Part::default();
    let of = |row: usize| &regions.of[row * nx..][..nx];
    let along = |d: usize, row: usize| &a.forward[d][row * nx..][..nx];
    let mut excess = zeroed(nx, COARSE_MATRIX)?;
    // Along x a border lies at the same column in many rows, across x it goes along a row.
    let (mut along_x, mut across_x) = (zeroed(nx, COARSE_MATRIX)?, Pending::default());
    for row in block_rows(a.cells, block) {
        let own = of(row);
        let pairs = own.windows(2).zip(along(0, row)).zip(&mut along_x);
        for ((pair, &coupling), pending) in pairs.filter(|((pair, _), _)| pair[0] != pair[1]) {
            part.couple(pending, pair[0], pair[1], coupling)?;
        }
        let across = [(1, row % ny + 1 < ny, row + 1), (2, row / ny + 1 < nz, row + ny)];
        for (d, _, other) in across.into_iter().filter(|(_, inside, _)| *inside) {
            if own == of(other) {
                continue;
            }
            let pairs = own.iter().zip(of(other)).zip(along(d, row)).filter(|((r, s), _)| r != s);
            for ((&r, &s), &coupling) in pairs {
                part.couple(&mut across_x, r, s, coupling)?;
            }
        }
        if row_excess(a, components, row, &mut excess) {
            add_excess(own, &excess, &mut part)?;
        }
    }
    for pending in along_x.iter_mut().chain([&mut across_x]) {
        part.finish(pending)?;
    }
    extend(
        entries,
        part.sums.iter().map(|(&key, &value)| Entry { key: u64::from(key) << 32 | block as u64, value }),
        COARSE_MATRIX,
    )
}

/// The sums of the rows of A.
fn add_excess(of: &[u16], excess: &[f64], part: &mut Part) -> Result<()> {
    let mut start = 0;
    // Consecutive cells of a region together.
    for cells in of.chunk_by(|r, s| r == s) {
        let sum: f64 = excess[start..start + cells.len()].iter().sum();
        if sum != 0.0 {
            part.add(cells[0], cells[0], sum)?;
        }
        start += cells.len();
    }
    Ok(())
}

/// A symmetric sparse matrix, rows of all their entries.
#[derive(Default)]
pub struct Sparse {
    /// Entries of row r: start[r] .. start[r + 1], by column.
    start: Vec<usize>,
    column: Vec<u16>,
    value: Vec<f64>,
    diagonal: Vec<f64>,
}

impl Sparse {
    /// Sums of entries with the same row and column, in the order of their blocks.
    pub fn of_entries(entries: &mut [Entry], n: usize) -> Result<Self> {
        // Keys differ: blocks are a part of them.
        entries.sort_unstable_by_key(|entry| entry.key);
        let mut sums = 0;
        for k in 0..entries.len() {
            if sums > 0 && entries[sums - 1].key >> 32 == entries[k].key >> 32 {
                entries[sums - 1].value += entries[k].value;
            } else {
                entries[sums] = entries[k];
                sums += 1;
            }
        }
        let sums = &entries[..sums];
        let mut matrix = Self { diagonal: zeroed(n, COARSE_MATRIX)?, ..Self::default() };
        let start = &mut matrix.start;
        reset(start, n + 2, COARSE_MATRIX)?;
        for entry in sums.iter().filter(|e| e.row() != e.column()) {
            start[entry.row() + 2] += 1;
            start[entry.column() + 2] += 1;
        }
        for r in 2..n + 2 {
            start[r] += start[r - 1];
        }
        let len = start[n + 1];
        matrix.column = zeroed(len, COARSE_MATRIX)?;
        matrix.value = zeroed(len, COARSE_MATRIX)?;
        let mut set = |r: usize, s: usize, value: f64| {
            // Each start moves to the next one's place.
            let at = &mut start[r + 1];
            (matrix.column[*at], matrix.value[*at]) = (s as u16, value);
            *at += 1;
        };
        // Entries left of the diagonal come first, and both halves by column: sorted as they are.
        for entry in sums.iter().filter(|e| e.row() != e.column()) {
            set(entry.column(), entry.row(), entry.value);
        }
        for entry in sums {
            if entry.row() == entry.column() {
                matrix.diagonal[entry.row()] = entry.value;
            } else {
                set(entry.row(), entry.column(), entry.value);
            }
        }
        start.pop();
        Ok(matrix)
    }

    pub fn n(&self) -> usize {
        self.diagonal.len()
    }

    pub fn diagonal(&self, r: usize) -> f64 {
        self.diagonal[r]
    }

    /// Columns and values of a row beside its diagonal.
    pub fn row(&self, r: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let entries = self.start[r]..self.start[r + 1];
        self.column[entries.clone()].iter().map(|&s| usize::from(s)).zip(self.value[entries].iter().copied())
    }

    pub fn degree(&self, r: usize) -> usize {
        self.start[r + 1] - self.start[r]
    }

    /// g = E t
    pub fn multiply(&self, t: &[f64], g: &mut [f64]) {
        for (r, g) in g.iter_mut().enumerate() {
            *g = self.diagonal[r] * t[r];
            for (s, value) in self.row(r) {
                *g += value * t[s];
            }
        }
    }

    pub fn bytes(&self) -> usize {
        8 * (self.start.capacity() + self.value.capacity() + self.diagonal.capacity()) + 2 * self.column.capacity()
    }
}
