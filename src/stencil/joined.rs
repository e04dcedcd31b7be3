//! Groups of cells that are joined by couplings above a limit. Cells without such couplings belong to no group. A run
//! consists of consecutive cells of a row that are joined, or that are in no group; a group is a union of runs of
//! joined cells.
//!
//! One pass reads the matrix and stores one bit per coupling. Several threads may share the rows of this pass. The
//! following steps process one word of 64 bits at a time.

use crate::base::isa::for_each_isa;
use crate::error::{Result, push, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::runs::{COUPLED, Runs, WORD_BITS};
use std::ops::Range;

const ALLOCATION_NAME: &str = "groups of joined cells";

for_each_isa! {
    /// Sets bit i if |values_i| > limit, and clears it otherwise.
    fn set_bits_above(bits: &mut [u64], values: &[f64], limit: f64) {
        for (bits, values) in bits.iter_mut().zip(values.chunks(64)) {
            let mut word = 0;
            for (k, value) in values.iter().enumerate() {
                word |= u64::from(value.abs() > limit) << k;
            }
            *bits = word;
        }
    }

    /// Sets bit i if |sums_i| > fraction * center_i, and clears it otherwise.
    fn set_bits_beyond(bits: &mut [u64], sums: &[f64], center: &[f64], fraction: f64) {
        for ((bits, sums), center) in bits.iter_mut().zip(sums.chunks(64)).zip(center.chunks(64)) {
            let mut word = 0;
            for (k, (sum, center)) in sums.iter().zip(center).enumerate() {
                word |= u64::from(sum.abs() > fraction * center) << k;
            }
            *bits = word;
        }
    }
}

/// One bit per cell of some rows; each row begins with a new word.
#[derive(Clone, Debug, Default)]
pub struct CellBits {
    rows: Range<usize>,
    words_per_row: usize,
    bits: Vec<u64>,
}

impl CellBits {
    /// Creates the bits of these rows of `nx` cells. All bits are zero.
    pub fn new(nx: usize, rows: Range<usize>) -> Result<Self> {
        let words_per_row = nx.div_ceil(WORD_BITS);
        Ok(Self { bits: zeroed(words_per_row * rows.len(), ALLOCATION_NAME)?, rows, words_per_row })
    }

    /// Sets bit i of a row if |values_i| > limit, and clears it otherwise.
    pub fn set_above(&mut self, row: usize, values: &[f64], limit: f64) {
        set_bits_above(self.row_mut(row), values, limit);
    }

    /// Sets bit i of a row if |sums_i| > fraction * center_i, and clears it otherwise.
    pub fn set_beyond(&mut self, row: usize, sums: &[f64], center: &[f64], fraction: f64) {
        set_bits_beyond(self.row_mut(row), sums, center, fraction);
    }

    /// Returns the rows for which bits are stored.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Returns the words of a row.
    pub fn row(&self, row: usize) -> &[u64] {
        &self.bits[(row - self.rows.start) * self.words_per_row..][..self.words_per_row]
    }

    fn row_mut(&mut self, row: usize) -> &mut [u64] {
        &mut self.bits[(row - self.rows.start) * self.words_per_row..][..self.words_per_row]
    }
}

/// Returns whether any bit of a range is set.
pub fn any_bit_set(words: &[u64], range: Range<usize>) -> bool {
    let (first_word, end_word) = (range.start / WORD_BITS, range.end.div_ceil(WORD_BITS));
    (first_word..end_word).any(|w| {
        let first_bit = range.start.saturating_sub(w * WORD_BITS);
        let end_bit = (range.end - w * WORD_BITS).min(WORD_BITS);
        words[w] >> first_bit << first_bit << (WORD_BITS - end_bit) != 0
    })
}

/// For some rows and each direction, one bit per coupling: whether the coupling joins two cells.
#[derive(Clone, Debug, Default)]
pub struct JoiningCouplings([CellBits; 3]);

impl JoiningCouplings {
    /// Finds the couplings in some rows j + ny k whose magnitude exceeds the limit of their direction.
    pub fn of_rows(a: &SevenPoints, limits: [f64; 3], rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let mut joining_couplings = Self::default();
        for (d, bits) in joining_couplings.0.iter_mut().enumerate() {
            *bits = CellBits::new(nx, rows.clone())?;
            for row in rows.clone() {
                bits.set_above(row, &a.forward[d][row * nx..][..nx], limits[d]);
            }
        }
        Ok(joining_couplings)
    }
}

/// Groups of at least two cells, numbered in the order of their first cells.
#[derive(Clone, Debug, Default)]
pub struct CellGroups {
    /// Number of cells of each group.
    pub size: Vec<usize>,
    /// Runs of the rows j + ny k with their labels. Label q > 0: the run belongs to group q - 1. Label 0: it belongs to
    /// no group.
    runs: Runs,
}

impl CellGroups {
    /// Returns a single group that contains all cells.
    pub fn one_group(cells: Cells) -> Result<Self> {
        let mut runs = Runs::default();
        runs.make_one_component(cells.nx, cells.rows(), false)?;
        Self::from_runs(runs)
    }

    /// Finds the groups of cells joined by couplings above the limit of their direction.
    #[cfg(test)]
    pub fn find(a: &SevenPoints, limits: [f64; 3]) -> Result<Self> {
        Self::of_parts(a.cells, &[&JoiningCouplings::of_rows(a, limits, 0..a.cells.rows())?])
    }

    /// Finds the groups from the joining couplings of all rows. Each entry of `joining_couplings` contains a range of
    /// rows. The ranges follow one another and together contain every row.
    pub fn of_parts(cells: Cells, joining_couplings: &[&JoiningCouplings]) -> Result<Self> {
        let mut runs = Runs::default();
        runs.clear(cells.nx)?;
        let bits = |d: usize, row: usize| -> &[u64] {
            let mut direction_bits = joining_couplings.iter().map(|part| &part.0[d]);
            direction_bits.find(|bits| bits.rows.contains(&row)).map_or(&[], |bits| bits.row(row))
        };
        for row in 0..cells.rows() {
            let south = if row % cells.ny > 0 { bits(1, row - 1) } else { &[] };
            let bottom = if row >= cells.ny { bits(2, row - cells.ny) } else { &[] };
            let (east, cross_row_bits) = (bits(0, row), [bits(1, row), south, bits(2, row), bottom]);
            let uncoupled_bits =
                |w: usize| !cross_row_bits.iter().fold(0, |union, bits| union | bits.get(w).unwrap_or(&0));
            runs.push_row(east.len(), |w| !east[w], uncoupled_bits)?;
            for (couplings, row_distance) in [(south, 1), (bottom, cells.ny)] {
                if couplings.iter().any(|&bits| bits != 0) {
                    let has_coupling = |cells: Range<usize>| any_bit_set(couplings, cells);
                    runs.for_each_joined_pair([row - row_distance, row], (0, 0, cells.nx), has_coupling, Runs::unite);
                }
            }
        }
        Self::from_runs(runs)
    }

    fn from_runs(mut runs: Runs) -> Result<Self> {
        let mut size = Vec::new();
        runs.label_components(
            |flags| flags & COUPLED != 0,
            |label, _, columns| {
                if label > size.len() {
                    push(&mut size, 0, ALLOCATION_NAME)?;
                }
                size[label - 1] += columns.len();
                Ok(())
            },
        )?;
        Ok(Self { size, runs })
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// Returns the runs of row j + ny k from west to east, each as its columns and its group. Consecutive cells that
    /// are in no group also form a run; its group is `None`.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        self.runs.labels(row).map(|(columns, label)| (columns, label.checked_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::cells::Cells;

    /// Returns for each cell its group + 1, or 0 if it is in no group.
    fn labels(groups: &CellGroups, cells: Cells) -> Vec<usize> {
        let rows = 0..cells.ny * cells.nz;
        rows.flat_map(|row| groups.runs(row).flat_map(|(run, group)| run.map(move |_| group.map_or(0, |g| g + 1))))
            .collect()
    }

    /// Computes the groups by propagation from cell to cell.
    fn propagate_labels(a: &SevenPoints) -> Vec<usize> {
        let (n, strides) = (a.cells.count(), a.cells.strides());
        let mut label = vec![0; n];
        let mut group_count = 0;
        for seed_cell in 0..n {
            let neighbours = |c: usize| -> Vec<usize> {
                (0..3)
                    .flat_map(|d| {
                        let next = (a.forward[d][c] != 0.0).then(|| c + strides[d]);
                        let previous = (c >= strides[d] && a.forward[d][c - strides[d]] != 0.0).then(|| c - strides[d]);
                        [next, previous]
                    })
                    .flatten()
                    .collect()
            };
            if label[seed_cell] > 0 || neighbours(seed_cell).is_empty() {
                continue;
            }
            group_count += 1;
            label[seed_cell] = group_count;
            let mut stack = vec![seed_cell];
            while let Some(c) = stack.pop() {
                for neighbour in neighbours(c) {
                    if label[neighbour] == 0 {
                        label[neighbour] = group_count;
                        stack.push(neighbour);
                    }
                }
            }
        }
        label
    }

    #[test]
    fn groups_agree_with_propagation_from_cell_to_cell() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1 << 24) as f64
        };
        for ([nx, ny, nz], coupling_fraction) in [
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
                let has_neighbour = |c: usize| cells.indices(c)[d] + 1 < size[d];
                (0..cells.count())
                    .map(|c| if has_neighbour(c) && random() < coupling_fraction { -1.0 } else { 0.0 })
                    .collect()
            });
            let center = vec![6.0; cells.count()];
            let a = SevenPoints { cells, center: &center, forward: [&forward[0], &forward[1], &forward[2]] };
            let groups = CellGroups::find(&a, [0.0; 3]).unwrap();
            let (labels_of_cells, expected) = (labels(&groups, cells), propagate_labels(&a));
            assert_eq!(labels_of_cells, expected, "{size:?} {coupling_fraction}");
            for (group, &size) in groups.size.iter().enumerate() {
                assert_eq!(size, labels_of_cells.iter().filter(|&&label| label == group + 1).count());
            }
        }
    }
}
