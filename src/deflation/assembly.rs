//! Assembly of the coarse matrix E = Z^T A Z from the row sums of A and the couplings between regions
//! (docs/theory/dpcg.md, the coarse matrix E). A coupling is an off-diagonal entry of A. The rows of cells are divided
//! into a fixed number of blocks. Contributions are summed per block, and then over the blocks in order. E is therefore
//! bitwise identical for any number of threads.

use crate::deflation::regions::{NO_REGION, Regions};
use crate::direct::couplings::Couplings;
use crate::error::{Result, collected, extend, insert, zeroed};
use crate::stencil::cell_components::{CellComponents, regular_row_sums};
use crate::stencil::cells::{Cells, SevenPoints};
use std::collections::HashMap;
use std::ops::Range;

/// Name of E in error messages about failed allocations.
pub const COARSE_MATRIX_NAME: &str = "the coarse matrix of deflation";

/// Number of blocks into which the rows of cells are divided. There are enough blocks for many threads, and few enough
/// that sums over blocks are cheap.
pub const BLOCK_COUNT: usize = 64;

/// Returns the rows of a block. Row j + ny k consists of the cells with the indices j and k.
fn block_rows(cells: Cells, block: usize) -> Range<usize> {
    let rows = cells.ny * cells.nz;
    rows * block / BLOCK_COUNT..rows * (block + 1) / BLOCK_COUNT
}

/// Contribution of one block to the entry E_rs if r < s, and to the row sum of row r of E if r = s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contribution {
    /// r (16 bits), s (16 bits) and block (32 bits). Sorting by this key fixes the order of additions.
    key: u64,
    value: f64,
}

impl Contribution {
    fn row(&self) -> usize {
        (self.key >> 48) as usize
    }

    fn column(&self) -> usize {
        (self.key >> 32 & 0xffff) as usize
    }
}

/// Sum of consecutive couplings between the same two regions, before it is added to the `BlockSums`.
#[derive(Clone, Copy, Default)]
struct PendingSum {
    pair: (u16, u16),
    sum: f64,
}

/// Contribution of one block to E. For r < s, the value of the key r << 16 | s is the sum of the couplings between the
/// regions r and s. For r = s, it is the contribution to the row sum of row r of E.
#[derive(Default)]
struct BlockSums {
    sums: HashMap<u32, f64>,
}

impl BlockSums {
    /// Adds a coupling between a cell of region r and a cell of another region s. Consecutive couplings between the
    /// same two regions are first summed in `pending`.
    fn add_coupling(&mut self, pending: &mut PendingSum, r: u16, s: u16, coupling: f64) -> Result<()> {
        if pending.pair != (r, s) {
            self.flush(pending)?;
            pending.pair = (r, s);
        }
        pending.sum += coupling;
        Ok(())
    }

    /// Adds the pending sum to the sums of the block, and sets the pending sum to zero.
    fn flush(&mut self, pending: &mut PendingSum) -> Result<()> {
        let ((r, s), sum) = (pending.pair, std::mem::take(&mut pending.sum));
        match [r, s] {
            _ if sum == 0.0 => Ok(()),
            // Couplings to cells without region are subtracted from the row sum of the region.
            [NO_REGION, NO_REGION] => Ok(()),
            [NO_REGION, region] | [region, NO_REGION] => self.add(region, region, -sum),
            [r, s] => self.add(r, s, sum),
        }
    }

    /// Adds `value` to the sum of the couplings between the regions r and s if r != s, and to the row sum of row r of E
    /// if r = s. Neither r nor s may be `NO_REGION`.
    fn add(&mut self, r: u16, s: u16, value: f64) -> Result<()> {
        let key = u32::from(r.min(s)) << 16 | u32::from(r.max(s));
        if let Some(sum) = self.sums.get_mut(&key) {
            *sum += value;
            return Ok(());
        }
        insert(&mut self.sums, key, value, COARSE_MATRIX_NAME).map(|_| ())
    }
}

/// Appends the contributions of a block to `entries`. They consist of the row sums of the cells of the block, and of
/// the couplings of these cells to the east, north and top.
pub fn assemble_block(
    a: &SevenPoints,
    components: &CellComponents,
    regions: &Regions,
    block: usize,
    entries: &mut Vec<Contribution>,
) -> Result<()> {
    let Cells { nx, ny, nz } = a.cells;
    let mut block_sums = BlockSums::default();
    let regions_of_row = |row: usize| &regions.region_of_cell[row * nx..][..nx];
    let couplings_of_row = |d: usize, row: usize| &a.forward[d][row * nx..][..nx];
    let mut row_sums = zeroed(nx, COARSE_MATRIX_NAME)?;
    // In x, the couplings at one column often connect the same two regions in many rows, so there is one pending sum
    // per column. In y and z, consecutive couplings of a row often connect the same two regions, so one pending sum is
    // sufficient.
    let (mut sums_along_x, mut sum_across_rows) = (zeroed(nx, COARSE_MATRIX_NAME)?, PendingSum::default());
    for row in block_rows(a.cells, block) {
        let row_regions = regions_of_row(row);
        let pairs = row_regions.windows(2).zip(couplings_of_row(0, row)).zip(&mut sums_along_x);
        for ((pair, &coupling), pending) in pairs.filter(|((pair, _), _)| pair[0] != pair[1]) {
            block_sums.add_coupling(pending, pair[0], pair[1], coupling)?;
        }
        let neighbours = [(1, row % ny + 1 < ny, row + 1), (2, row / ny + 1 < nz, row + ny)];
        for (d, _, other_row) in neighbours.into_iter().filter(|(_, is_inside, _)| *is_inside) {
            if row_regions == regions_of_row(other_row) {
                continue;
            }
            let pairs = row_regions
                .iter()
                .zip(regions_of_row(other_row))
                .zip(couplings_of_row(d, row))
                .filter(|((r, s), _)| r != s);
            for ((&r, &s), &coupling) in pairs {
                block_sums.add_coupling(&mut sum_across_rows, r, s, coupling)?;
            }
        }
        if regular_row_sums(a, components, row, &mut row_sums) {
            add_row_sums(row_regions, &row_sums, &mut block_sums)?;
        }
    }
    for pending in sums_along_x.iter_mut().chain([&mut sum_across_rows]) {
        block_sums.flush(pending)?;
    }
    extend(
        entries,
        block_sums.sums.iter().map(|(&key, &value)| Contribution { key: u64::from(key) << 32 | block as u64, value }),
        COARSE_MATRIX_NAME,
    )
}

/// Adds the row sums of A in one row of cells to the row sums of E. `cell_regions` contains the regions of these cells.
fn add_row_sums(cell_regions: &[u16], row_sums: &[f64], block_sums: &mut BlockSums) -> Result<()> {
    let mut start = 0;
    // Consecutive cells of the same region are summed first.
    for cells in cell_regions.chunk_by(|r, s| r == s) {
        let sum: f64 = row_sums[start..start + cells.len()].iter().sum();
        if sum != 0.0 && cells[0] != NO_REGION {
            block_sums.add(cells[0], cells[0], sum)?;
        }
        start += cells.len();
    }
    Ok(())
}

/// Returns E for `n` deflation vectors. Sorts `entries`, sums the contributions to the same entry in the order of their
/// blocks, and stores the sums at the beginning of `entries`.
pub fn sum_contributions(entries: &mut [Contribution], n: usize) -> Result<Couplings> {
    // All keys differ, because they include the block. The unstable sort is therefore deterministic.
    entries.sort_unstable_by_key(|entry| entry.key);
    let mut entry_count = 0;
    for k in 0..entries.len() {
        if entry_count > 0 && entries[entry_count - 1].key >> 32 == entries[k].key >> 32 {
            entries[entry_count - 1].value += entries[k].value;
        } else {
            entries[entry_count] = entries[k];
            entry_count += 1;
        }
    }
    let sums = &entries[..entry_count];
    let mut matrix = Couplings {
        diagonal: zeroed(n, COARSE_MATRIX_NAME)?,
        row_sum: zeroed(n, COARSE_MATRIX_NAME)?,
        ..Couplings::default()
    };
    let mut next_index: Vec<usize> = zeroed(n + 1, COARSE_MATRIX_NAME)?;
    for entry in sums.iter().filter(|e| e.row() != e.column()) {
        next_index[entry.row() + 1] += 1;
        next_index[entry.column() + 1] += 1;
    }
    crate::base::csr::lengths_to_pointers(&mut next_index);
    matrix.ptr = collected(next_index.iter().copied(), COARSE_MATRIX_NAME)?;
    matrix.col = zeroed(next_index[n], COARSE_MATRIX_NAME)?;
    matrix.a = zeroed(next_index[n], COARSE_MATRIX_NAME)?;
    let mut store_coupling = |r: usize, s: usize, value: f64| {
        (matrix.col[next_index[r]], matrix.a[next_index[r]]) = (s as u32, -value);
        next_index[r] += 1;
    };
    // The entries left of the diagonal are stored before those right of it, and each triangle is sorted by column. The
    // columns of each row are therefore ascending.
    let couplings = || sums.iter().filter(|e| e.row() != e.column());
    couplings().for_each(|entry| store_coupling(entry.column(), entry.row(), entry.value));
    couplings().for_each(|entry| store_coupling(entry.row(), entry.column(), entry.value));
    for entry in sums.iter().filter(|e| e.row() == e.column()) {
        matrix.row_sum[entry.row()] = entry.value;
    }
    for r in 0..n {
        matrix.diagonal[r] = matrix.row_sum[r] + matrix.row(r).map(|(_, a)| a).sum::<f64>();
    }
    Ok(matrix)
}

/// Computes g = E t.
pub fn multiply(matrix: &Couplings, t: &[f64], g: &mut [f64]) {
    for (r, g) in g.iter_mut().enumerate() {
        *g = matrix.row(r).fold(matrix.diagonal[r] * t[r], |sum, (s, a)| sum - a * t[s]);
    }
}
