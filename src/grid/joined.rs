//! Groups of cells that couplings of some kind join: union-find on runs, the pieces of a row of cells in x that such
//! couplings hold together. Cells that no such coupling reaches belong to no group; neighbours of this kind in a row
//! make one run. [`crate::grid::components`] is the same for nodes of a plane.
//!
//! The matrix is read once, for a bit a coupling, by rows that may be shared; what follows is a word at a time.

use crate::error::{Result, collected, push, reserve, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::isa::for_each_isa;
use std::ops::Range;

/// For errors.
const RUNS: &str = "the runs of joined cells";

/// In no group.
const NO_GROUP: u32 = u32::MAX;

/// Cells of a row that are looked at together.
const WORD: usize = u64::BITS as usize;

for_each_isa! {
    /// Bit i of the words: |values_i| > limit.
    fn above(bits: &mut [u64], values: &[f64], limit: f64) {
        for (bits, values) in bits.iter_mut().zip(values.chunks(64)) {
            let mut found = 0;
            for (k, value) in values.iter().enumerate() {
                found |= u64::from(value.abs() > limit) << k;
            }
            *bits = found;
        }
    }

    /// Bit i of the words: |sums_i| > part * center_i.
    fn beyond(bits: &mut [u64], sums: &[f64], center: &[f64], part: f64) {
        for ((bits, sums), center) in bits.iter_mut().zip(sums.chunks(64)).zip(center.chunks(64)) {
            let mut found = 0;
            for (k, (sum, center)) in sums.iter().zip(center).enumerate() {
                found |= u64::from(sum.abs() > part * center) << k;
            }
            *bits = found;
        }
    }
}

/// A bit for each cell of some rows, whole words for each row.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    rows: Range<usize>,
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    /// Zeros.
    pub fn new(nx: usize, rows: Range<usize>) -> Result<Self> {
        let words = nx.div_ceil(WORD);
        Ok(Self { bits: zeroed(words * rows.len(), RUNS)?, rows, words })
    }

    /// Sets those of a row to |values_i| > limit.
    pub fn set_above(&mut self, row: usize, values: &[f64], limit: f64) {
        above(self.row_mut(row), values, limit);
    }

    /// Sets those of a row to |sums_i| > part * center_i.
    pub fn set_beyond(&mut self, row: usize, sums: &[f64], center: &[f64], part: f64) {
        beyond(self.row_mut(row), sums, center, part);
    }

    /// The rows.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The words of a row.
    pub fn row(&self, row: usize) -> &[u64] {
        &self.bits[(row - self.rows.start) * self.words..][..self.words]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.bits[(row - self.rows.start) * self.words..][..self.words]
    }
}

/// Whether any bit of a range is set.
pub fn any_of(words: &[u64], range: Range<usize>) -> bool {
    let (first, last) = (range.start / WORD, range.end.div_ceil(WORD));
    (first..last).any(|w| {
        let from = range.start.saturating_sub(w * WORD);
        let to = (range.end - w * WORD).min(WORD);
        words[w] >> from << from << (WORD - to) != 0
    })
}

/// Which couplings of some rows join their cells, in each direction.
#[derive(Clone, Debug, Default)]
pub struct Joins([Bits; 3]);

impl Joins {
    /// Those of rows j + ny k that are larger than a limit in their direction.
    pub fn of_rows(a: &SevenPoints, limits: [f64; 3], rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let mut joins = Self::default();
        for (d, bits) in joins.0.iter_mut().enumerate() {
            *bits = Bits::new(nx, rows.clone())?;
            for row in rows.clone() {
                bits.set_above(row, &a.forward[d][row * nx..][..nx], limits[d]);
            }
        }
        Ok(joins)
    }
}

/// Groups of at least two cells, numbered in the order of their first cells.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// Cells of each group.
    pub size: Vec<usize>,
    nx: usize,
    /// First column of a run, which ends where the next one of its row begins.
    start: Vec<u32>,
    /// Group of a run.
    group: Vec<u32>,
    /// Runs of row j + ny k: row_start[row] .. row_start[row + 1]; empty: the one run that there is, in each row.
    row_start: Vec<u32>,
}

impl Joined {
    /// All cells in one group.
    pub fn whole(cells: Cells) -> Result<Self> {
        let one = || collected([0], RUNS);
        Ok(Self {
            size: collected([cells.count()], RUNS)?,
            nx: cells.nx,
            start: one()?,
            group: one()?,
            row_start: Vec::new(),
        })
    }

    /// The groups that couplings larger than a limit in their direction hold together.
    #[cfg(test)]
    pub fn find(a: &SevenPoints, limits: [f64; 3]) -> Result<Self> {
        Self::of_parts(a.cells, &[&Joins::of_rows(a, limits, 0..a.cells.rows())?])
    }

    /// The same of parts that have all rows, in order.
    pub fn of_parts(cells: Cells, parts: &[&Joins]) -> Result<Self> {
        let mut runs = Runs::new(cells)?;
        let bits = |d: usize, row: usize| -> &[u64] {
            let mut all = parts.iter().map(|part| &part.0[d]);
            all.find(|bits| bits.rows.contains(&row)).map_or(&[], |bits| bits.row(row))
        };
        for row in 0..cells.rows() {
            let south = if row % cells.ny > 0 { bits(1, row - 1) } else { &[] };
            let bottom = if row >= cells.ny { bits(2, row - cells.ny) } else { &[] };
            runs.push_row(bits(0, row), [bits(1, row), south, bits(2, row), bottom])?;
            runs.unite(row, 1, south);
            runs.unite(row, cells.ny, bottom);
        }
        runs.number()
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// Columns and group of the runs of row j + ny k, from west to east; `None`: cells that nothing joins.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        let runs = match self.row_start.get(row..row + 2) {
            Some(of_row) => of_row[0] as usize..of_row[1] as usize,
            None => 0..1,
        };
        runs.clone().map(move |k| {
            let end = if k + 1 < runs.end { self.start[k + 1] as usize } else { self.nx };
            (self.start[k] as usize..end, (self.group[k] != NO_GROUP).then_some(self.group[k] as usize))
        })
    }
}

/// Runs while they are found: their groups are trees of parents yet.
struct Runs {
    nx: usize,
    start: Vec<u32>,
    /// A run before this one in the tree of its group; a root is its own, and the first run of its group.
    parent: Vec<u32>,
    /// Cells of the run, zero where nothing joins them.
    cells: Vec<u32>,
    row_start: Vec<u32>,
}

impl Runs {
    fn new(cells: Cells) -> Result<Self> {
        let mut row_start = Vec::new();
        reserve(&mut row_start, cells.rows() + 1, RUNS)?;
        row_start.push(0);
        Ok(Self { nx: cells.nx, start: Vec::new(), parent: Vec::new(), cells: Vec::new(), row_start })
    }

    /// Adds the runs of the next row, with the bits of its couplings to the east and to the rows around it, which are
    /// none where there is no row.
    fn push_row(&mut self, east: &[u64], across: [&[u64]; 4]) -> Result<()> {
        // Of the run to come: its start, and whether nothing joins its cells. Of the cell before: it has no coupling
        // to the east, nothing joins it.
        let (mut start, mut alone) = (0, false);
        let (mut apart_before, mut alone_before) = (1, 0);
        for (w, &east) in east.iter().enumerate() {
            let reached = across.iter().fold(0, |all, bits| all | bits.get(w).unwrap_or(&0));
            let apart = !east << 1 | apart_before;
            let alones = !(reached | east) & apart;
            let mut starts = apart & !(alones & (alones << 1 | alone_before));
            (apart_before, alone_before) = (!east >> (WORD - 1), alones >> (WORD - 1));
            while starts != 0 {
                let bit = starts.trailing_zeros() as usize;
                let next = w * WORD + bit;
                if next >= self.nx {
                    break;
                }
                if next > 0 {
                    self.push(start..next, alone)?;
                }
                (start, alone) = (next, alones >> bit & 1 == 1);
                starts &= starts - 1;
            }
        }
        self.push(start..self.nx, alone)?;
        push(&mut self.row_start, self.start.len() as u32, RUNS)
    }

    fn push(&mut self, columns: Range<usize>, alone: bool) -> Result<()> {
        push(&mut self.parent, self.start.len() as u32, RUNS)?;
        push(&mut self.cells, if alone { 0 } else { columns.len() as u32 }, RUNS)?;
        push(&mut self.start, columns.start as u32, RUNS)
    }

    /// Unites the runs of a row with those of the row `back` rows before, with the bits of the couplings between both.
    fn unite(&mut self, row: usize, back: usize, couplings: &[u64]) {
        if couplings.iter().all(|&bits| bits == 0) {
            return;
        }
        let runs = |row: usize| self.row_start[row] as usize..self.row_start[row + 1] as usize;
        let (low, high) = (runs(row - back), runs(row));
        let (mut k, mut l, mut i) = (low.start, high.start, 0);
        while i < self.nx {
            let end = |k: usize, row: &Range<usize>| if k + 1 < row.end { self.start[k + 1] as usize } else { self.nx };
            let ends = (end(k, &low), end(l, &high));
            let next = ends.0.min(ends.1);
            if any_of(couplings, i..next) {
                // The smaller root wins: parents come before their children.
                let (root, other) = (self.root(k), self.root(l));
                self.parent[root.max(other)] = root.min(other) as u32;
            }
            k += usize::from(next == ends.0);
            l += usize::from(next == ends.1);
            i = next;
        }
    }

    fn root(&mut self, mut k: usize) -> usize {
        while self.parent[k] as usize != k {
            let up = self.parent[self.parent[k] as usize];
            self.parent[k] = up;
            k = up as usize;
        }
        k
    }

    /// Turns roots into numbers of groups, in the order of their first runs.
    fn number(mut self) -> Result<Joined> {
        let groups = (0..self.start.len()).filter(|&k| self.parent[k] as usize == k && self.cells[k] > 0).count();
        let mut size: Vec<usize> = zeroed(groups, RUNS)?;
        let mut next = 0;
        for k in 0..self.start.len() {
            let up = self.parent[k] as usize;
            self.parent[k] = match () {
                () if self.cells[k] == 0 => NO_GROUP,
                () if up == k => next,
                () => self.parent[up],
            };
            next += u32::from(self.cells[k] > 0 && up == k);
            if self.cells[k] > 0 {
                size[self.parent[k] as usize] += self.cells[k] as usize;
            }
        }
        Ok(Joined { size, nx: self.nx, start: self.start, group: self.parent, row_start: self.row_start })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::cells::Cells;

    /// Group + 1 of each cell, 0: none.
    fn labels(joined: &Joined, cells: Cells) -> Vec<usize> {
        let rows = 0..cells.ny * cells.nz;
        rows.flat_map(|row| joined.runs(row).flat_map(|(run, group)| run.map(move |_| group.map_or(0, |g| g + 1))))
            .collect()
    }

    /// The same by spreading from cell to cell.
    fn spread(a: &SevenPoints) -> Vec<usize> {
        let (n, steps) = (a.cells.count(), a.cells.steps());
        let mut label = vec![0; n];
        let mut groups = 0;
        for first in 0..n {
            let neighbours = |c: usize| -> Vec<usize> {
                (0..3)
                    .flat_map(|d| {
                        let after = (a.forward[d][c] != 0.0).then(|| c + steps[d]);
                        let before = (c >= steps[d] && a.forward[d][c - steps[d]] != 0.0).then(|| c - steps[d]);
                        [after, before]
                    })
                    .flatten()
                    .collect()
            };
            if label[first] > 0 || neighbours(first).is_empty() {
                continue;
            }
            groups += 1;
            label[first] = groups;
            let mut waiting = vec![first];
            while let Some(c) = waiting.pop() {
                for other in neighbours(c) {
                    if label[other] == 0 {
                        label[other] = groups;
                        waiting.push(other);
                    }
                }
            }
        }
        label
    }

    #[test]
    fn groups_are_those_of_spreading() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1 << 24) as f64
        };
        for ([nx, ny, nz], part) in [
            ([9, 8, 7], 0.25),
            ([9, 8, 7], 0.1),
            ([1, 5, 6], 0.5),
            ([17, 1, 9], 0.4),
            ([30, 4, 1], 0.6),
            ([2, 2, 2], 0.5),
            ([1, 1, 1], 1.0),
            ([5, 6, 7], 1.0),
            ([5, 6, 7], 0.0),
        ] {
            let cells = Cells { nx, ny, nz };
            let size = cells.size();
            let forward = [0, 1, 2].map(|d| -> Vec<f64> {
                let inside = |c: usize| cells.place(c)[d] + 1 < size[d];
                (0..cells.count()).map(|c| if inside(c) && random() < part { -1.0 } else { 0.0 }).collect()
            });
            let center = vec![6.0; cells.count()];
            let a = SevenPoints { cells, center: &center, forward: [&forward[0], &forward[1], &forward[2]] };
            let joined = Joined::find(&a, [0.0; 3]).unwrap();
            let (found, expected) = (labels(&joined, cells), spread(&a));
            assert_eq!(found, expected, "{size:?} {part}");
            for (group, &size) in joined.size.iter().enumerate() {
                assert_eq!(size, found.iter().filter(|&&label| label == group + 1).count());
            }
        }
    }
}
