//! Groups of cells that couplings of some kind join: union-find on runs, the pieces of a row of cells in x that such
//! couplings hold together. Cells that no such coupling reaches belong to no group; neighbours of this kind in a row
//! make one run. [`crate::grid::components`] is the same for nodes of a plane.

use crate::error::{Result, push, reserve, zeroed};
use crate::grid::cells::SevenPoints;
use std::ops::Range;

/// For errors.
const RUNS: &str = "the runs of joined cells";

/// In no group.
const NO_GROUP: u32 = u32::MAX;

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
    /// Runs of row j + ny k: row_start[row] .. row_start[row + 1].
    row_start: Vec<u32>,
}

impl Joined {
    /// The groups of cells that couplings with `joins(direction, coupling)` hold together.
    pub fn find(a: &SevenPoints, joins: impl Fn(usize, f64) -> bool) -> Result<Self> {
        let mut runs = Runs::new(a)?;
        for row in 0..a.cells.ny * a.cells.nz {
            runs.push_row(a, row, &joins)?;
            runs.unite_last_row(a, row, &joins);
        }
        runs.number()
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// Columns and group of the runs of row j + ny k, from west to east; `None`: cells that nothing joins.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        let runs = self.row_start[row] as usize..self.row_start[row + 1] as usize;
        runs.clone().map(move |k| {
            let end = if k + 1 < runs.end { self.start[k + 1] as usize } else { self.nx };
            (self.start[k] as usize..end, (self.group[k] != NO_GROUP).then_some(self.group[k] as usize))
        })
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        8 * self.size.capacity() + 4 * (self.start.capacity() + self.group.capacity() + self.row_start.capacity())
    }
}

/// Runs while they are found: their groups are trees of parents yet.
struct Runs {
    nx: usize,
    ny: usize,
    start: Vec<u32>,
    /// A run before this one in the tree of its group; a root is its own, and the first run of its group.
    parent: Vec<u32>,
    /// Cells of the run, zero where nothing joins them.
    cells: Vec<u32>,
    row_start: Vec<u32>,
}

impl Runs {
    fn new(a: &SevenPoints) -> Result<Self> {
        let mut row_start = Vec::new();
        reserve(&mut row_start, a.cells.ny * a.cells.nz + 1, RUNS)?;
        row_start.push(0);
        let (start, parent, cells) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { nx: a.cells.nx, ny: a.cells.ny, start, parent, cells, row_start })
    }

    /// Adds the runs of the next row.
    fn push_row(&mut self, a: &SevenPoints, row: usize, joins: &impl Fn(usize, f64) -> bool) -> Result<()> {
        let nx = self.nx;
        let east = &a.forward[0][row * nx..][..nx];
        if nx > 1 && east[..nx - 1].iter().all(|&c| joins(0, c)) {
            self.push(0..nx, false)?;
        } else {
            let across = self.couplings_across(a, row);
            let reached = |i: usize| across.iter().flatten().any(|&(d, couplings)| joins(d, couplings[i]));
            let (mut start, mut alone_before, mut joined_before) = (0, false, false);
            for i in 0..nx {
                let joined_after = i + 1 < nx && joins(0, east[i]);
                let alone = !joined_before && !joined_after && !reached(i);
                if i > 0 && !joined_before && !(alone && alone_before) {
                    self.push(start..i, alone_before)?;
                    start = i;
                }
                (alone_before, joined_before) = (alone, joined_after);
            }
            self.push(start..nx, alone_before)?;
        }
        push(&mut self.row_start, self.start.len() as u32, RUNS)
    }

    /// Couplings of a row to the rows south, north, below and above, each with its direction.
    fn couplings_across<'a>(&self, a: &SevenPoints<'a>, row: usize) -> [Option<(usize, &'a [f64])>; 4] {
        let (j, k) = (row % self.ny, row / self.ny);
        let along = |d: usize, row: usize| (d, &a.forward[d][row * self.nx..][..self.nx]);
        [
            (j > 0).then(|| along(1, row - 1)),
            (j + 1 < self.ny).then(|| along(1, row)),
            (k > 0).then(|| along(2, row - self.ny)),
            (k + 1 < a.cells.nz).then(|| along(2, row)),
        ]
    }

    fn push(&mut self, columns: Range<usize>, alone: bool) -> Result<()> {
        push(&mut self.parent, self.start.len() as u32, RUNS)?;
        push(&mut self.cells, if alone { 0 } else { columns.len() as u32 }, RUNS)?;
        push(&mut self.start, columns.start as u32, RUNS)
    }

    /// Unites the runs of the last row with those of the rows south of it and below it.
    fn unite_last_row(&mut self, a: &SevenPoints, row: usize, joins: &impl Fn(usize, f64) -> bool) {
        let [south, _, below, _] = self.couplings_across(a, row);
        if let Some((d, couplings)) = south {
            self.unite(row - 1, row, couplings, |c| joins(d, c));
        }
        if let Some((d, couplings)) = below {
            self.unite(row - self.ny, row, couplings, |c| joins(d, c));
        }
    }

    fn unite(&mut self, low: usize, high: usize, couplings: &[f64], joins: impl Fn(f64) -> bool) {
        let runs = |row: usize| self.row_start[row] as usize..self.row_start[row + 1] as usize;
        let (low, high) = (runs(low), runs(high));
        let (mut k, mut l, mut i) = (low.start, high.start, 0);
        while i < self.nx {
            let end = |k: usize, row: &Range<usize>| if k + 1 < row.end { self.start[k + 1] as usize } else { self.nx };
            let ends = (end(k, &low), end(l, &high));
            let next = ends.0.min(ends.1);
            // The smaller root wins: parents come before their children.
            let (root, other) = (self.root(k), self.root(l));
            if root != other && couplings[i..next].iter().any(|&c| joins(c)) {
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
            let joined = Joined::find(&a, |_, c| c != 0.0).unwrap();
            let (found, expected) = (labels(&joined, cells), spread(&a));
            assert_eq!(found, expected, "{size:?} {part}");
            for (group, &size) in joined.size.iter().enumerate() {
                assert_eq!(size, found.iter().filter(|&&label| label == group + 1).count());
            }
        }
    }
}
