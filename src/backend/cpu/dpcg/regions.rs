//! The projection of deflation by a team, P v = v - A Z t with t = E^-1 Z^T v (Tang, Nabben, Vuik and Erlangga 2009).
//!
//! Regions are kept as the runs of equal region in a row of cells; rows whose runs are those of a row beside them share
//! them. With e_i the sum of row i of A, and t_r(i) the value of cell i's region, zero outside of all,
//!
//! ```text
//! (A Z t)_i = e_i t_r(i) + sum over j of a_ij (t_r(j) - t_r(i)),
//! ```
//!
//! which is zero but beside the borders of regions and where rows have sums. Z^T v is a sum over pieces of the box,
//! each summed by its owner, and then over the pieces in order: the same bits for any number of members.

use super::pieces::Pieces;
use crate::backend::coarse::deflation::{CoarseMatrix, Scratch, Solver, multiply_rows};
use crate::error::{Result, extend, push, reset, zeroed};
use crate::grid::cell_components::{CellComponents, row_excess};
use crate::grid::cells::{Couplings, SevenPoints};
use crate::grid::regions::{NONE, Regions};
use crate::isa::for_each_isa;
use crate::runtime::reduce::{dot, sum};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// For errors.
const DEFLATION: &str = "deflation by regions";

for_each_isa! {
    /// sum += v
    fn add(sum: &mut [f64], v: &[f64]) {
        for (sum, v) in sum.iter_mut().zip(v) {
            *sum += v;
        }
    }

    /// v -= a d
    fn subtract_scaled(v: &mut [f64], a: &[f64], d: f64) {
        for (v, a) in v.iter_mut().zip(a) {
            *v -= a * d;
        }
    }

    /// The sum of v.
    fn sum_of(v: &[f64]) -> f64 {
        sum(v)
    }
}

/// Consecutive cells of one region in a row; where it ends, the next one begins.
#[derive(Clone, Copy)]
struct Run {
    start: u32,
    /// As many as there are vectors: none.
    region: u32,
}

/// The runs of all rows.
#[derive(Default)]
struct Patterns {
    nx: usize,
    /// Which runs row j + ny k has.
    of_row: Vec<u32>,
    /// Runs of pattern p: start[p] .. start[p + 1].
    start: Vec<u32>,
    runs: Vec<Run>,
}

impl Patterns {
    fn new(regions: &Regions, nx: usize, ny: usize, rows: usize) -> Result<Self> {
        let mut patterns = Self { nx, of_row: zeroed(rows, DEFLATION)?, ..Self::default() };
        push(&mut patterns.start, 0, DEFLATION)?;
        let of = |row: usize| &regions.of[row * nx..][..nx];
        for row in 0..rows {
            let beside = [1, ny].into_iter().filter(|&back| row >= back).map(|back| row - back);
            let known = beside.into_iter().find(|&other| of(row) == of(other));
            patterns.of_row[row] = match known {
                Some(other) => patterns.of_row[other],
                None => patterns.add(of(row), regions.count)?,
            };
        }
        Ok(patterns)
    }

    fn add(&mut self, of: &[u16], vectors: usize) -> Result<u32> {
        let mut start = 0;
        for cells in of.chunk_by(|r, s| r == s) {
            let region = if cells[0] == NONE { vectors as u32 } else { u32::from(cells[0]) };
            push(&mut self.runs, Run { start, region }, DEFLATION)?;
            start += cells.len() as u32;
        }
        push(&mut self.start, self.runs.len() as u32, DEFLATION)?;
        Ok(self.start.len() as u32 - 2)
    }

    fn of(&self, row: usize) -> &[Run] {
        let pattern = self.of_row[row] as usize;
        &self.runs[self.start[pattern] as usize..self.start[pattern + 1] as usize]
    }

    /// Columns and region of each run.
    fn columns(&self, row: usize) -> impl Iterator<Item = (Range<usize>, usize)> + '_ {
        let runs = self.of(row);
        let ends = runs[1..].iter().map(|run| run.start as usize).chain([self.nx]);
        runs.iter().zip(ends).map(|(run, end)| (run.start as usize..end, run.region as usize))
    }

    /// Calls `f` with the columns where two rows are of different regions, and with these.
    fn differences(&self, row: usize, other: usize, mut f: impl FnMut(Range<usize>, usize, usize)) {
        if self.of_row[row] == self.of_row[other] {
            return;
        }
        let (mut own, mut others) = (self.columns(row), self.columns(other));
        let (mut here, mut there) = (own.next(), others.next());
        while let (Some((a, r)), Some((b, s))) = (&here, &there) {
            let both = a.start.max(b.start)..a.end.min(b.end);
            let ends = (a.end == both.end, b.end == both.end);
            if r != s {
                f(both, *r, *s);
            }
            if ends.0 {
                here = own.next();
            }
            if ends.1 {
                there = others.next();
            }
        }
    }

    fn bytes(&self) -> usize {
        4 * (self.of_row.capacity() + self.start.capacity()) + size_of::<Run>() * self.runs.capacity()
    }
}

/// Where the sums over a piece are noted: a slot for each region that has cells in it.
#[derive(Default)]
struct Slots {
    /// Slots of a piece.
    of_piece: Vec<u32>,
    /// Slots of a region, in the order of pieces: by_region[region_start[r] .. region_start[r + 1]].
    by_region: Vec<u32>,
    region_start: Vec<u32>,
    /// Of a row, where the slots of its runs begin in `of_run`: those of rows with the same pattern, one after the
    /// other in a piece, are the same.
    of_row: Vec<u32>,
    of_run: Vec<u32>,
}

/// The slot of a run outside of all regions.
const NO_SLOT: u32 = u32::MAX;

impl Slots {
    fn new(pieces: Pieces, patterns: &Patterns, vectors: usize) -> Result<Self> {
        let mut slots = Self { of_row: zeroed(pieces.cells.rows(), DEFLATION)?, ..Self::default() };
        reset(&mut slots.of_piece, pieces.count() + 1, DEFLATION)?;
        // Of each slot its region; of each region its last slot.
        let (mut region, mut last) = (Vec::new(), zeroed(vectors + 1, DEFLATION)?);
        last.fill(NO_SLOT);
        for piece in 0..pieces.count() {
            let (first, rows) = (region.len() as u32, pieces.rows(piece));
            for row in rows.clone() {
                if row > rows.start && patterns.of_row[row] == patterns.of_row[row - 1] {
                    slots.of_row[row] = slots.of_row[row - 1];
                    continue;
                }
                slots.of_row[row] = slots.of_run.len() as u32;
                for run in patterns.of(row) {
                    let last = &mut last[run.region as usize];
                    if (run.region as usize) < vectors && (*last == NO_SLOT || *last < first) {
                        *last = region.len() as u32;
                        push(&mut region, run.region, DEFLATION)?;
                    }
                    push(&mut slots.of_run, *last, DEFLATION)?;
                }
            }
            slots.of_piece[piece + 1] = region.len() as u32;
        }
        slots.sort_by_region(&region, vectors)?;
        Ok(slots)
    }

    fn sort_by_region(&mut self, region: &[u32], vectors: usize) -> Result<()> {
        let start = &mut self.region_start;
        reset(start, vectors + 2, DEFLATION)?;
        region.iter().for_each(|&r| start[r as usize + 2] += 1);
        for r in 2..vectors + 2 {
            start[r] += start[r - 1];
        }
        reset(&mut self.by_region, region.len(), DEFLATION)?;
        for (slot, &r) in region.iter().enumerate() {
            // Each start moves to the next one's place.
            let at = &mut start[r as usize + 1];
            self.by_region[*at as usize] = slot as u32;
            *at += 1;
        }
        start.pop();
        Ok(())
    }

    fn count(&self) -> usize {
        self.by_region.len()
    }

    fn of_region(&self, r: usize) -> &[u32] {
        &self.by_region[self.region_start[r] as usize..self.region_start[r + 1] as usize]
    }

    fn bytes(&self) -> usize {
        let Self { of_piece, by_region, region_start, of_row, of_run } = self;
        4 * [of_piece, by_region, region_start, of_row, of_run].map(|list| list.capacity()).iter().sum::<usize>()
    }
}

/// The sums of matrix rows that have any, row of cells by row.
#[derive(Default)]
struct Excess {
    /// Which of the rows kept, counted from 1; 0: all its sums are zero. Empty where all rows are of this kind.
    of_row: Vec<u32>,
    values: Vec<f64>,
}

impl Excess {
    fn new(a: &SevenPoints, components: &CellComponents) -> Result<Self> {
        let mut excess = Self::default();
        if components.singular.iter().all(|&singular| singular) {
            return Ok(excess);
        }
        reset(&mut excess.of_row, a.cells.rows(), DEFLATION)?;
        let mut sums = zeroed(a.cells.nx, DEFLATION)?;
        let mut kept = 0;
        for row in 0..a.cells.rows() {
            if row_excess(a, components, row, &mut sums) {
                kept += 1;
                excess.of_row[row] = kept;
                extend(&mut excess.values, sums.iter().copied(), DEFLATION)?;
            }
        }
        Ok(excess)
    }

    fn of(&self, row: usize, nx: usize) -> Option<&[f64]> {
        let kept = *self.of_row.get(row)? as usize;
        (kept > 0).then(|| &self.values[(kept - 1) * nx..][..nx])
    }
}

/// Z, E and what a team needs to project with them.
pub struct Projection {
    pieces: Pieces,
    patterns: Patterns,
    slots: Slots,
    excess: Excess,
    coarse: CoarseMatrix,
    scratch: Mutex<Scratch>,
    /// Z^T v by slot.
    partial: Shared,
    /// Z^T v, a set for each member.
    g: Shared,
    /// t = E^-1 Z^T v, and a zero for cells in no region.
    t: Shared,
    /// A row for each member: sums of columns.
    columns: Shared,
}

impl Projection {
    /// For the regions of a matrix and their E, for at most `members`.
    pub fn new(
        pieces: Pieces,
        a: &SevenPoints,
        components: &CellComponents,
        regions: &Regions,
        coarse: CoarseMatrix,
        members: usize,
    ) -> Result<Self> {
        let (nx, ny) = (a.cells.nx, a.cells.ny);
        let patterns = Patterns::new(regions, nx, ny, a.cells.rows())?;
        let slots = Slots::new(pieces, &patterns, regions.count)?;
        Ok(Self {
            pieces,
            excess: Excess::new(a, components)?,
            scratch: Mutex::new(coarse.scratch()?),
            partial: Shared::zeroed(slots.count())?,
            g: Shared::zeroed(members * regions.count)?,
            t: Shared::zeroed(regions.count + 1)?,
            columns: Shared::zeroed(members * nx)?,
            patterns,
            slots,
            coarse,
        })
    }

    /// How systems with E are solved.
    pub fn solver(&self) -> Solver {
        self.coarse.solver()
    }

    /// Vectors.
    pub fn count(&self) -> usize {
        self.coarse.count()
    }

    /// Notes Z^T v of this member's pieces. `values(cells)`: v in its own cells.
    pub fn restrict<'v>(&self, me: Me, values: impl Fn(Range<usize>) -> &'v [f64]) {
        let nx = self.patterns.nx;
        for piece in self.pieces.share(me) {
            // SAFETY: a piece of this member, and one after the other; `solve` begins with a barrier.
            let mut sums = unsafe { self.begin(me, piece, true) };
            for row in self.pieces.rows(piece) {
                sums.add(row, values(row * nx..(row + 1) * nx));
            }
        }
    }

    /// Begins the sums over a piece, all of whose rows are then added in order, upwards or downwards.
    ///
    /// # Safety
    /// The piece must be this member's, which ends the sums over one piece before it begins those over the next, and
    /// nobody may use what is noted before a barrier.
    pub unsafe fn begin(&self, me: Me, piece: usize, upwards: bool) -> PieceSums<'_> {
        let slots = self.slots.of_piece[piece] as usize..self.slots.of_piece[piece + 1] as usize;
        let nx = self.patterns.nx;
        // SAFETY: the slots of a piece are its owner's, a row of columns is a member's.
        let (noted, columns) =
            unsafe { (self.partial.slice_mut(slots.start, slots.len()), self.columns.slice_mut(me.index * nx, nx)) };
        noted.fill(0.0);
        PieceSums {
            of: self,
            rows: self.pieces.rows(piece),
            first_slot: slots.start,
            noted,
            columns,
            upwards,
            open: false,
        }
    }

    /// From what all members noted to t = E^-1 Z^T v; returns g = Z^T v, whose product with t is that of v and
    /// Z E^-1 Z^T v. Two barriers, the first one before all else.
    pub fn solve(&self, me: Me) -> &[f64] {
        me.barrier();
        let k = self.count();
        // SAFETY: a set is a member's own; slots were noted before the barrier.
        let (g, partial) = unsafe { (self.g.slice_mut(me.index * k, k), self.partial.slice(0, self.partial.len())) };
        for (r, g) in g.iter_mut().enumerate() {
            *g = self.slots.of_region(r).iter().map(|&slot| partial[slot as usize]).sum();
        }
        match self.coarse.inverse() {
            Some(inverse) => {
                let own = me.share(k);
                // SAFETY: rows of this member; t was read before the barrier.
                let t = unsafe { self.t.slice_mut(own.start, own.len()) };
                multiply_rows(&inverse[own.start * k..], g, t);
            }
            None if me.index == 0 => {
                let scratch = &mut *self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
                // SAFETY: the others wait at the barrier below.
                self.coarse.solve(g, unsafe { self.t.slice_mut(0, k) }, scratch);
            }
            None => {}
        }
        me.barrier();
        g
    }

    /// t of the last `solve`, and a zero.
    fn t(&self) -> &[f64] {
        // SAFETY: written again only in the next `solve`, behind a barrier.
        unsafe { self.t.slice(0, self.t.len()) }
    }

    /// <g, t>: of the last `solve`, the product of v and Z E^-1 Z^T v.
    pub fn product(&self, g: &[f64]) -> f64 {
        dot(g, self.t())
    }

    /// v = v - A Z t in a row of cells, `a`: its couplings.
    pub fn subtract(&self, row: usize, a: Couplings, v: &mut [f64]) {
        let t = self.t();
        let [_, east, south, north, bottom, top] = a.near;
        let (ny, rows) = (self.pieces.cells.ny, self.pieces.cells.rows());
        for pair in self.patterns.of(row).windows(2) {
            let (i, d) = (pair[1].start as usize, t[pair[1].region as usize] - t[pair[0].region as usize]);
            v[i - 1] -= east[i - 1] * d;
            v[i] += east[i - 1] * d;
        }
        let neighbours = [
            (!row.is_multiple_of(ny), row.wrapping_sub(1), south),
            (row % ny + 1 < ny, row + 1, north),
            (row >= ny, row.wrapping_sub(ny), bottom),
            (row + ny < rows, row + ny, top),
        ];
        for (_, other, couplings) in neighbours.into_iter().filter(|(inside, ..)| *inside) {
            self.patterns.differences(row, other, |columns, r, s| {
                subtract_scaled(&mut v[columns.clone()], &couplings[columns], t[s] - t[r]);
            });
        }
        if let Some(excess) = self.excess.of(row, self.patterns.nx) {
            for (columns, r) in self.patterns.columns(row).filter(|(_, r)| *r < self.count()) {
                subtract_scaled(&mut v[columns.clone()], &excess[columns], t[r]);
            }
        }
    }

    /// v = v + Z t in a row of cells.
    pub fn prolong(&self, row: usize, v: &mut [f64]) {
        let t = self.t();
        for (columns, r) in self.patterns.columns(row).filter(|(_, r)| *r < self.count()) {
            v[columns].iter_mut().for_each(|v| *v += t[r]);
        }
    }

    /// Bytes of all arrays, E and its solver included.
    pub fn bytes(&self) -> usize {
        let shared = [&self.partial, &self.g, &self.t, &self.columns];
        self.patterns.bytes()
            + self.slots.bytes()
            + 4 * self.excess.of_row.capacity()
            + 8 * self.excess.values.capacity()
            + self.coarse.bytes()
            + shared.iter().map(|values| values.bytes()).sum::<usize>()
    }
}

/// The sums over a piece, by region.
pub struct PieceSums<'a> {
    of: &'a Projection,
    rows: Range<usize>,
    first_slot: usize,
    noted: &'a mut [f64],
    /// Sums over rows of one pattern, column by column.
    columns: &'a mut [f64],
    upwards: bool,
    /// `columns` hold rows that have not been noted.
    open: bool,
}

impl PieceSums<'_> {
    /// Adds v in a row.
    pub fn add(&mut self, row: usize, v: &[f64]) {
        if self.open {
            add(self.columns, v);
        } else {
            self.columns.copy_from_slice(v);
        }
        self.open = true;
        let next = if self.upwards { row + 1 } else { row.wrapping_sub(1) };
        let slots = |row: usize| self.of.slots.of_row[row];
        if !self.rows.contains(&next) || slots(next) != slots(row) {
            self.note(row);
        }
    }

    /// Notes what the columns hold, which are sums over rows with the runs of `row`.
    fn note(&mut self, row: usize) {
        let first = self.of.slots.of_row[row] as usize;
        for ((columns, _), &slot) in self.of.patterns.columns(row).zip(&self.of.slots.of_run[first..]) {
            if slot != NO_SLOT {
                self.noted[slot as usize - self.first_slot] += sum_of(&self.columns[columns]);
            }
        }
        self.open = false;
    }
}

#[cfg(test)]
mod tests;
