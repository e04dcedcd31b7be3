//! E from the couplings of A between regions, over blocks of rows of cells whose number depends on nothing.

use super::COARSE_MATRIX;
use crate::error::{Result, extend, insert, reset, zeroed};
use crate::grid::cell_components::{CellComponents, row_sums};
use crate::grid::cells::{Cells, SevenPoints};
use crate::grid::regions::{NONE, Regions};
use std::collections::HashMap;
use std::ops::Range;

/// Blocks of rows of cells: enough for the members of any team, few enough for sums over them.
pub const BLOCKS: usize = 64;

/// Rows j + ny k of a block.
pub fn block_rows(cells: Cells, block: usize) -> Range<usize> {
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

/// The entries of one block, row <= column.
#[derive(Default)]
struct Part {
    sums: HashMap<u32, f64>,
    /// Couplings from one region to another that have not been added yet.
    pair: (u16, u16),
    pending: f64,
}

impl Part {
    /// A coupling from a cell of region r to one of another region s.
    fn couple(&mut self, r: u16, s: u16, coupling: f64) -> Result<()> {
        if self.pair != (r, s) {
            self.flush()?;
            self.pair = (r, s);
        }
        self.pending += coupling;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let ((r, s), sum) = (self.pair, std::mem::take(&mut self.pending));
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
    let mut sums = zeroed(nx, COARSE_MATRIX)?;
    for row in block_rows(a.cells, block) {
        let own = of(row);
        let pairs = own.windows(2).zip(along(0, row)).filter(|(pair, _)| pair[0] != pair[1]);
        for (pair, &coupling) in pairs {
            part.couple(pair[0], pair[1], coupling)?;
        }
        let across = [(1, row % ny + 1 < ny, row + 1), (2, row / ny + 1 < nz, row + ny)];
        for (d, _, other) in across.into_iter().filter(|(_, inside, _)| *inside) {
            if own == of(other) {
                continue;
            }
            let pairs = own.iter().zip(of(other)).zip(along(d, row)).filter(|((r, s), _)| r != s);
            for ((&r, &s), &coupling) in pairs {
                part.couple(r, s, coupling)?;
            }
        }
        add_row_sums(a, components, own, row, &mut sums, &mut part)?;
    }
    part.flush()?;
    extend(
        entries,
        part.sums.iter().map(|(&key, &value)| Entry { key: u64::from(key) << 32 | block as u64, value }),
        COARSE_MATRIX,
    )
}

/// The sums of the rows of A, in regular components.
fn add_row_sums(
    a: &SevenPoints,
    components: &CellComponents,
    of: &[u16],
    row: usize,
    sums: &mut [f64],
    part: &mut Part,
) -> Result<()> {
    let is_regular = |component: Option<usize>| component.is_some_and(|c| !components.singular[c]);
    if !components.runs(row).any(|(_, component)| is_regular(component)) {
        return Ok(());
    }
    row_sums(a, row, sums);
    for (run, _) in components.runs(row).filter(|(_, component)| is_regular(*component)) {
        let mut rest = run;
        while !rest.is_empty() {
            // Consecutive cells of a region together.
            let region = of[rest.start];
            let end = rest.start + of[rest.clone()].iter().take_while(|&&r| r == region).count();
            part.add(region, region, sums[rest.start..end].iter().sum())?;
            rest.start = end;
        }
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
