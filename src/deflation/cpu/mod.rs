//! Multithreaded projection of deflation, P v = v - A Z t with t = E^-1 Z^T v (Tang, Nabben, Vuik and Erlangga 2009).
//!
//! A row is a row of cells along x, with the number j + ny k. The regions are stored as runs. A run consists of
//! consecutive cells of a row in one region. The runs of a row form a pattern. If the previous row, or the row at the
//! same position in the previous plane, has equal runs, both rows share one pattern.
//!
//! Let e_i be the row sum of A in cell i. Let t_r(i) be the entry of t for the region of cell i, or 0 for a cell
//! without region. Then
//!
//! ```text
//! (A Z t)_i = e_i t_r(i) + sum over j of a_ij (t_r(j) - t_r(i)).
//! ```
//!
//! This vector is nonzero only next to boundaries of regions, and in cells with a nonzero row sum. The rows are divided
//! into pieces, and each piece belongs to one thread. This thread sums v over the cells that the piece shares with each
//! region. These partial sums are then added in the order of the pieces. Z^T v is therefore bitwise identical for any
//! number of threads.

use crate::base::loops::{add, combine, sum};
use crate::base::reduce::dot;
use crate::base::shared::Shared;
use crate::base::team::TeamThread;
use crate::deflation::regions::{NO_REGION, Regions};
use crate::deflation::{CoarseMatrix, SolveScratch, Solver, multiply_rows};
use crate::error::{Result, extend, push, reset, zeroed};
use crate::stencil::cell_components::{CellComponents, regular_row_sums};
use crate::stencil::cells::{CellCouplings, SevenPoints};
use crate::stencil::pieces::Pieces;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Name of the arrays in error messages about failed allocations.
const ALLOCATION_NAME: &str = "deflation by regions";

/// Run of consecutive cells in a row that belong to one region. The run ends where the next run of the row begins.
#[derive(Clone, Copy)]
struct Run {
    /// Column of the first cell.
    first_column: u32,
    /// Number of the region. For cells without region, it is the number of deflation vectors.
    region: u32,
}

/// Runs of all rows. A pattern is a list of runs, which adjacent rows with equal runs share.
#[derive(Default)]
struct Patterns {
    nx: usize,
    /// Pattern of each row.
    pattern_of_row: Vec<u32>,
    /// Pattern p consists of the entries `run_start[p] .. run_start[p + 1]` of `runs`.
    run_start: Vec<u32>,
    runs: Vec<Run>,
}

impl Patterns {
    fn new(regions: &Regions, nx: usize, ny: usize, rows: usize) -> Result<Self> {
        let mut patterns = Self { nx, pattern_of_row: zeroed(rows, ALLOCATION_NAME)?, ..Self::default() };
        push(&mut patterns.run_start, 0, ALLOCATION_NAME)?;
        let regions_of_row = |row: usize| &regions.region_of_cell[row * nx..][..nx];
        for row in 0..rows {
            let neighbour_rows = [1, ny].into_iter().filter(|&distance| row >= distance).map(|distance| row - distance);
            let equal_row =
                neighbour_rows.into_iter().find(|&other_row| regions_of_row(row) == regions_of_row(other_row));
            patterns.pattern_of_row[row] = match equal_row {
                Some(equal_row) => patterns.pattern_of_row[equal_row],
                None => patterns.add_pattern(regions_of_row(row), regions.count)?,
            };
        }
        Ok(patterns)
    }

    fn add_pattern(&mut self, row_regions: &[u16], vector_count: usize) -> Result<u32> {
        let mut start = 0;
        for cells in row_regions.chunk_by(|r, s| r == s) {
            let region = if cells[0] == NO_REGION { vector_count as u32 } else { u32::from(cells[0]) };
            push(&mut self.runs, Run { first_column: start, region }, ALLOCATION_NAME)?;
            start += cells.len() as u32;
        }
        push(&mut self.run_start, self.runs.len() as u32, ALLOCATION_NAME)?;
        Ok(self.run_start.len() as u32 - 2)
    }

    fn runs_of(&self, row: usize) -> &[Run] {
        let pattern = self.pattern_of_row[row] as usize;
        &self.runs[self.run_start[pattern] as usize..self.run_start[pattern + 1] as usize]
    }

    /// Returns the columns and the region of each run of a row.
    fn columns_and_regions(&self, row: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let runs = self.runs_of(row);
        let ends = runs[1..].iter().map(|run| run.first_column as usize).chain([self.nx]);
        runs.iter().zip(ends).map(|(run, end)| (run.first_column as usize..end, run.region as usize))
    }

    /// Calls `f(columns, r, s)` for each range of columns in which two rows belong to different regions: r in `row`,
    /// and s in `other_row`.
    fn for_each_difference(&self, row: usize, other_row: usize, mut f: impl FnMut(Range<usize>, usize, usize)) {
        if self.pattern_of_row[row] == self.pattern_of_row[other_row] {
            return;
        }
        let (mut row_runs, mut other_runs) = (self.columns_and_regions(row), self.columns_and_regions(other_row));
        let (mut row_run, mut other_run) = (row_runs.next(), other_runs.next());
        while let (Some((a, r)), Some((b, s))) = (&row_run, &other_run) {
            let common_columns = a.start.max(b.start)..a.end.min(b.end);
            let ends = (a.end == common_columns.end, b.end == common_columns.end);
            if r != s {
                f(common_columns, *r, *s);
            }
            if ends.0 {
                row_run = row_runs.next();
            }
            if ends.1 {
                other_run = other_runs.next();
            }
        }
    }

    fn bytes(&self) -> usize {
        4 * (self.pattern_of_row.capacity() + self.run_start.capacity()) + size_of::<Run>() * self.runs.capacity()
    }
}

/// A slot is an entry of the array of partial sums of Z^T v. There is one slot for each pair of a piece and a region
/// with cells in this piece.
#[derive(Default)]
struct Slots {
    /// Index of the first slot of each piece. The last entry is the number of slots.
    first_of_piece: Vec<u32>,
    /// Slots of all regions. Region r has the slots `slots_by_region[region_start[r] .. region_start[r + 1]]`, in the
    /// order of the pieces.
    slots_by_region: Vec<u32>,
    region_start: Vec<u32>,
    /// For each row, the index of its first run in `slot_of_run`. The other runs of the row follow. Consecutive rows of
    /// a piece that have the same pattern share these entries.
    first_run_of_row: Vec<u32>,
    /// Slot of each run, or `NO_SLOT`.
    slot_of_run: Vec<u32>,
}

/// Slot of a run without region.
const NO_SLOT: u32 = u32::MAX;

impl Slots {
    fn new(pieces: Pieces, patterns: &Patterns, vector_count: usize) -> Result<Self> {
        let mut slots = Self { first_run_of_row: zeroed(pieces.cells.rows(), ALLOCATION_NAME)?, ..Self::default() };
        reset(&mut slots.first_of_piece, pieces.count() + 1, ALLOCATION_NAME)?;
        // `slot_region` is the region of each slot, and `last_slot` the latest slot of each region. A slot of
        // `last_slot` before `first_slot` belongs to an earlier piece.
        let (mut slot_region, mut last_slot) = (Vec::new(), zeroed(vector_count + 1, ALLOCATION_NAME)?);
        last_slot.fill(NO_SLOT);
        for piece in 0..pieces.count() {
            let (first_slot, rows) = (slot_region.len() as u32, pieces.rows(piece));
            for row in rows.clone() {
                if row > rows.start && patterns.pattern_of_row[row] == patterns.pattern_of_row[row - 1] {
                    slots.first_run_of_row[row] = slots.first_run_of_row[row - 1];
                    continue;
                }
                slots.first_run_of_row[row] = slots.slot_of_run.len() as u32;
                for run in patterns.runs_of(row) {
                    let last_slot = &mut last_slot[run.region as usize];
                    if (run.region as usize) < vector_count && (*last_slot == NO_SLOT || *last_slot < first_slot) {
                        *last_slot = slot_region.len() as u32;
                        push(&mut slot_region, run.region, ALLOCATION_NAME)?;
                    }
                    push(&mut slots.slot_of_run, *last_slot, ALLOCATION_NAME)?;
                }
            }
            slots.first_of_piece[piece + 1] = slot_region.len() as u32;
        }
        slots.sort_by_region(&slot_region, vector_count)?;
        Ok(slots)
    }

    fn sort_by_region(&mut self, slot_region: &[u32], vector_count: usize) -> Result<()> {
        let region_start = &mut self.region_start;
        reset(region_start, vector_count + 2, ALLOCATION_NAME)?;
        slot_region.iter().for_each(|&r| region_start[r as usize + 2] += 1);
        for r in 2..vector_count + 2 {
            region_start[r] += region_start[r - 1];
        }
        reset(&mut self.slots_by_region, slot_region.len(), ALLOCATION_NAME)?;
        for (slot, &r) in slot_region.iter().enumerate() {
            // Entry r + 1 of `region_start` advances from the first slot of region r to the first slot of region r + 1.
            let next_slot = &mut region_start[r as usize + 1];
            self.slots_by_region[*next_slot as usize] = slot as u32;
            *next_slot += 1;
        }
        region_start.pop();
        Ok(())
    }

    fn count(&self) -> usize {
        self.slots_by_region.len()
    }

    fn slots_of_region(&self, r: usize) -> &[u32] {
        &self.slots_by_region[self.region_start[r] as usize..self.region_start[r + 1] as usize]
    }

    fn bytes(&self) -> usize {
        let Self { first_of_piece, slots_by_region, region_start, first_run_of_row, slot_of_run } = self;
        4 * [first_of_piece, slots_by_region, region_start, first_run_of_row, slot_of_run]
            .map(|array| array.capacity())
            .iter()
            .sum::<usize>()
    }
}

/// Row sums of the matrix, stored only for those rows of cells that contain a nonzero row sum.
#[derive(Default)]
struct RowSums {
    /// For each row of cells: n + 1 if its row sums are stored at `values[n nx ..]`, and 0 if they are all zero. Empty
    /// if all components are singular.
    index_plus_one: Vec<u32>,
    values: Vec<f64>,
}

impl RowSums {
    fn new(a: &SevenPoints, components: &CellComponents) -> Result<Self> {
        let mut row_sums = Self::default();
        if components.is_singular.iter().all(|&singular| singular) {
            return Ok(row_sums);
        }
        reset(&mut row_sums.index_plus_one, a.cells.rows(), ALLOCATION_NAME)?;
        let mut sums = zeroed(a.cells.nx, ALLOCATION_NAME)?;
        let mut stored_rows = 0;
        for row in 0..a.cells.rows() {
            if regular_row_sums(a, components, row, &mut sums) {
                stored_rows += 1;
                row_sums.index_plus_one[row] = stored_rows;
                extend(&mut row_sums.values, sums.iter().copied(), ALLOCATION_NAME)?;
            }
        }
        Ok(row_sums)
    }

    fn row_values(&self, row: usize, nx: usize) -> Option<&[f64]> {
        let index_plus_one = *self.index_plus_one.get(row)? as usize;
        (index_plus_one > 0).then(|| &self.values[(index_plus_one - 1) * nx..][..nx])
    }
}

/// Regions, E and the workspace of the projection.
pub struct Projection {
    pieces: Pieces,
    patterns: Patterns,
    slots: Slots,
    row_sums: RowSums,
    coarse: CoarseMatrix,
    scratch: Mutex<SolveScratch>,
    /// Partial sums of Z^T v by slot.
    slot_sums: Shared,
    /// Z^T v, one copy per thread.
    g: Shared,
    /// t = E^-1 Z^T v, followed by a zero for cells without region.
    t: Shared,
    /// Partial sums by column, one row of values per thread.
    column_sums: Shared,
}

impl Projection {
    /// Prepares the projection for the regions of a matrix and its coarse matrix E, for at most `threads` threads.
    pub fn new(
        pieces: Pieces,
        a: &SevenPoints,
        components: &CellComponents,
        regions: &Regions,
        coarse: CoarseMatrix,
        threads: usize,
    ) -> Result<Self> {
        let (nx, ny) = (a.cells.nx, a.cells.ny);
        let patterns = Patterns::new(regions, nx, ny, a.cells.rows())?;
        let slots = Slots::new(pieces, &patterns, regions.count)?;
        Ok(Self {
            pieces,
            row_sums: RowSums::new(a, components)?,
            scratch: Mutex::new(coarse.scratch()?),
            slot_sums: Shared::zeroed(slots.count())?,
            g: Shared::zeroed(threads * regions.count)?,
            t: Shared::zeroed(regions.count + 1)?,
            column_sums: Shared::zeroed(threads * nx)?,
            patterns,
            slots,
            coarse,
        })
    }

    /// Returns the method that solves systems with E.
    pub fn solver(&self) -> Solver {
        self.coarse.solver()
    }

    /// Returns the number of deflation vectors.
    pub fn count(&self) -> usize {
        self.coarse.count()
    }

    /// Computes the partial sums of Z^T v for the pieces of this thread. `values(cells)` returns v for a range of
    /// cells.
    pub fn restrict<'v>(&self, thread: TeamThread, values: impl Fn(Range<usize>) -> &'v [f64]) {
        let nx = self.patterns.nx;
        for piece in self.pieces.share(thread) {
            // SAFETY: the pieces belong to this thread and are summed one after the other; no other thread reads the
            // sums before the barrier at which `solve` begins.
            let mut sums = unsafe { self.begin_piece(thread, piece, true) };
            for row in self.pieces.rows(piece) {
                sums.add(row, values(row * nx..(row + 1) * nx));
            }
        }
    }

    /// Begins the partial sums of a piece. The caller then adds all rows of the piece, in ascending order if
    /// `is_upward` and in descending order otherwise.
    ///
    /// # Safety
    /// The piece must belong to the calling thread, which must add all rows of a piece before it begins the next piece.
    /// No other thread may use the sums of the piece before a barrier; `solve` begins with one.
    pub unsafe fn begin_piece(&self, thread: TeamThread, piece: usize, is_upward: bool) -> PieceSums<'_> {
        let slots = self.slots.first_of_piece[piece] as usize..self.slots.first_of_piece[piece + 1] as usize;
        let nx = self.patterns.nx;
        // SAFETY: only the owner of a piece uses its slots, and only this thread uses its row of `column_sums`.
        let (partials, column_sums) = unsafe {
            (self.slot_sums.slice_mut(slots.start, slots.len()), self.column_sums.slice_mut(thread.index * nx, nx))
        };
        partials.fill(0.0);
        PieceSums {
            projection: self,
            rows: self.pieces.rows(piece),
            first_slot: slots.start,
            partials,
            column_sums,
            is_upward,
            has_column_sums: false,
        }
    }

    /// Computes t = E^-1 Z^T v from the partial sums, and returns g = Z^T v, which every thread computes for itself.
    /// Passes two barriers, the first on entry.
    pub fn solve(&self, thread: TeamThread) -> &[f64] {
        thread.barrier();
        let k = self.count();
        // SAFETY: the copy of g belongs to this thread; the partial sums were written before the barrier.
        let (g, slot_sums) =
            unsafe { (self.g.slice_mut(thread.index * k, k), self.slot_sums.slice(0, self.slot_sums.len())) };
        for (r, g) in g.iter_mut().enumerate() {
            *g = self.slots.slots_of_region(r).iter().map(|&slot| slot_sums[slot as usize]).sum();
        }
        match self.coarse.inverse() {
            Some(inverse) => {
                let own_entries = thread.share(k);
                // SAFETY: the entries belong to this thread; all threads had read the previous t before the barrier.
                let t = unsafe { self.t.slice_mut(own_entries.start, own_entries.len()) };
                multiply_rows(&inverse[own_entries.start * k..], g, t);
            }
            None if thread.index == 0 => {
                let scratch = &mut *self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the other threads wait at the barrier below.
                self.coarse.solve(g, unsafe { self.t.slice_mut(0, k) }, scratch);
            }
            None => {}
        }
        thread.barrier();
        g
    }

    /// Returns t of the last `solve`, followed by a zero for cells without region.
    fn t(&self) -> &[f64] {
        // SAFETY: only the next `solve` writes t, after a barrier.
        unsafe { self.t.slice(0, self.t.len()) }
    }

    /// Returns <g, t> = <v, Z E^-1 Z^T v> for t of the last `solve`.
    pub fn dot_with_t(&self, g: &[f64]) -> f64 {
        dot(g, self.t())
    }

    /// Computes v = v - A Z t in row `row` of cells, whose entries of A are `a`.
    pub fn subtract_deflated(&self, row: usize, a: CellCouplings, v: &mut [f64]) {
        let t = self.t();
        let [_, east, south, north, bottom, top] = a.axis_couplings;
        let (ny, rows) = (self.pieces.cells.ny, self.pieces.cells.rows());
        for run_pair in self.patterns.runs_of(row).windows(2) {
            let (i, d) =
                (run_pair[1].first_column as usize, t[run_pair[1].region as usize] - t[run_pair[0].region as usize]);
            v[i - 1] -= east[i - 1] * d;
            v[i] += east[i - 1] * d;
        }
        let neighbours = [
            (!row.is_multiple_of(ny), row.wrapping_sub(1), south),
            (row % ny + 1 < ny, row + 1, north),
            (row >= ny, row.wrapping_sub(ny), bottom),
            (row + ny < rows, row + ny, top),
        ];
        for (_, other_row, couplings) in neighbours.into_iter().filter(|(is_inside, ..)| *is_inside) {
            self.patterns.for_each_difference(row, other_row, |columns, r, s| {
                combine(&mut v[columns.clone()], 1.0, -(t[s] - t[r]), &couplings[columns]);
            });
        }
        if let Some(row_sums) = self.row_sums.row_values(row, self.patterns.nx) {
            for (columns, r) in self.patterns.columns_and_regions(row).filter(|(_, r)| *r < self.count()) {
                combine(&mut v[columns.clone()], 1.0, -t[r], &row_sums[columns]);
            }
        }
    }

    /// Computes v = v + Z t in row `row` of cells.
    pub fn prolong(&self, row: usize, v: &mut [f64]) {
        let t = self.t();
        for (columns, r) in self.patterns.columns_and_regions(row).filter(|(_, r)| *r < self.count()) {
            v[columns].iter_mut().for_each(|v| *v += t[r]);
        }
    }

    /// Returns the allocated size in bytes, including E and its solver.
    pub fn bytes(&self) -> usize {
        let shared_bytes = [&self.slot_sums, &self.g, &self.t, &self.column_sums];
        self.patterns.bytes()
            + self.slots.bytes()
            + 4 * self.row_sums.index_plus_one.capacity()
            + 8 * self.row_sums.values.capacity()
            + self.coarse.bytes()
            + shared_bytes.iter().map(|values| values.bytes()).sum::<usize>()
    }
}

/// Partial sums of Z^T v in a piece, by region. The rows of the piece are added one after the other. Consecutive rows
/// with the same pattern are first summed by column.
pub struct PieceSums<'a> {
    projection: &'a Projection,
    rows: Range<usize>,
    first_slot: usize,
    /// Values of the slots of the piece, from `first_slot` on.
    partials: &'a mut [f64],
    /// For each column, sum over consecutive rows with the same pattern.
    column_sums: &'a mut [f64],
    is_upward: bool,
    /// Whether `column_sums` contains sums that have not been added to the slots.
    has_column_sums: bool,
}

impl PieceSums<'_> {
    /// Adds the values v of row `row`.
    pub fn add(&mut self, row: usize, v: &[f64]) {
        if self.has_column_sums {
            add(self.column_sums, v);
        } else {
            self.column_sums.copy_from_slice(v);
        }
        self.has_column_sums = true;
        let next_row = if self.is_upward { row + 1 } else { row.wrapping_sub(1) };
        let slots = |row: usize| self.projection.slots.first_run_of_row[row];
        if !self.rows.contains(&next_row) || slots(next_row) != slots(row) {
            self.add_to_slots(row);
        }
    }

    /// Adds the column sums to the slots. The summed rows have the pattern of `row`.
    fn add_to_slots(&mut self, row: usize) {
        let first_run = self.projection.slots.first_run_of_row[row] as usize;
        for ((columns, _), &slot) in
            self.projection.patterns.columns_and_regions(row).zip(&self.projection.slots.slot_of_run[first_run..])
        {
            if slot != NO_SLOT {
                self.partials[slot as usize - self.first_slot] += sum(&self.column_sums[columns]);
            }
        }
        self.has_column_sums = false;
    }
}

#[cfg(test)]
mod tests;
