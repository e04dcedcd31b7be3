//! Distribution of the first `depth` grids of a sequence from fine to coarse (`Grid::grid_sequence`), among the ranks:
//! every rank has a strip of consecutive rows. A strip has all columns, so that one rank computes the sum over a row. A
//! strip begins at a multiple of 2^depth rows of the first grid. A node that remains in the next grid therefore stays
//! on the same rank.

use crate::error::{Result, collected};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Number of nodes below which every rank stores a grid as a whole, because messages would cost more than the work.
const MIN_SHARED_NODES: usize = 4096;
/// Minimum number of rows of 2 x 2 groups of nodes per rank on the coarsest shared grid. With fewer rows, a rank would
/// need values of more ranks than its two neighbours.
const MIN_STRIP_ROWS: usize = 4;

/// Distribution of the rows of the first grids among the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strips {
    pub grid: Grid,
    /// Number of shared grids; every rank has a whole copy of each coarser grid.
    pub depth: usize,
    /// For each rank, its rows of the first grid; possibly none.
    rows: Vec<Range<usize>>,
}

impl Strips {
    /// Distributes at most `max_depth` grids over `ranks` ranks. Returns `None` if no grid is large enough to be
    /// shared. If the first grid has too few rows for all ranks, only this grid is shared, and the last ranks have no
    /// rows.
    pub fn new(grid: Grid, ranks: usize, max_depth: usize) -> Result<Option<Self>> {
        // A grid of one row cannot be divided. In addition, its layout shifts the rows (`Layout::shift_y`).
        let shared_grids =
            grid.grid_sequence().take(max_depth).take_while(|g| g.nodes() >= MIN_SHARED_NODES && g.ny > 1);
        let shared_count = shared_grids.count();
        let strip_count = |depth: usize| (grid.ny >> depth) / MIN_STRIP_ROWS / 2;
        let Some(depth) =
            (1..=shared_count).rev().find(|&depth| strip_count(depth - 1) >= ranks).or((shared_count > 0).then_some(1))
        else {
            return Ok(None);
        };
        let (rows_per_unit, used_ranks) = (1 << depth, strip_count(depth - 1).clamp(1, ranks));
        let unit_count = grid.ny.div_ceil(rows_per_unit);
        let first_row = |k: usize| if k >= used_ranks { grid.ny } else { unit_count * k / used_ranks * rows_per_unit };
        let rows = collected((0..ranks).map(|k| first_row(k)..first_row(k + 1)), "strips of ranks")?;
        Ok(Some(Self { grid, depth, rows }))
    }

    /// Returns the number of ranks.
    pub fn rank_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows of the first grid that a rank has.
    pub fn natural_rows(&self, rank: usize) -> Range<usize> {
        self.rows[rank].clone()
    }

    /// Returns the rows J of 2 x 2 groups of nodes that a rank has in grid q. The first grid has q = 0.
    pub fn rows(&self, q: usize, rank: usize) -> Range<usize> {
        let Range { start, end } = self.natural_rows(rank);
        let group_rows = self.grid.grid_sequence().nth(q).map_or(1, |grid| grid.ny.div_ceil(2));
        let group_row = |row: usize| if row == self.grid.ny { group_rows } else { row >> (q + 1) };
        group_row(start)..group_row(end)
    }

    /// Returns the rank that has the row before the first row of rank `rank`, and the rank that has the row after its
    /// last row. An entry is `None` if there is no such row. Both entries are `None` if rank `rank` has no rows.
    pub fn neighbours(&self, rank: usize) -> [Option<usize>; 2] {
        let Range { start, end } = self.natural_rows(rank);
        if start == end {
            return [None; 2];
        }
        let rank_with = |row: usize| self.rows.iter().position(|rows| rows.contains(&row));
        [start.checked_sub(1).and_then(rank_with), rank_with(end)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rrb::layout::{Colour, Layout};

    #[test]
    fn strips_cover_every_row_of_every_shared_grid() {
        for (nx, ny) in [(2047, 2047), (301, 203), (64, 65), (64, 64), (17, 4000), (5, 1000), (3000, 2), (3000, 9)] {
            for ranks in [1, 2, 3, 4, 9, 100] {
                let grid = Grid { nx, ny };
                let Some(strips) = Strips::new(grid, ranks, 4).unwrap() else { continue };
                for (q, grid) in grid.grid_sequence().take(strips.depth + 1).enumerate() {
                    let layout = Layout::new(grid, 8);
                    let all_rows: Vec<_> = (0..ranks).flat_map(|rank| strips.rows(q, rank)).collect();
                    assert_eq!(all_rows, (0..layout.cy).collect::<Vec<_>>(), "{nx} x {ny}, {ranks}, {q}");
                    assert!(q == strips.depth || layout.shift_y == 0);
                    for rank in 0..ranks {
                        let (rows, [lower_rank, upper_rank]) = (strips.rows(q, rank), strips.neighbours(rank));
                        assert!(
                            q >= strips.depth
                                || rows.is_empty()
                                || ranks == 1
                                || rows.len() >= MIN_STRIP_ROWS.min(layout.cy)
                        );
                        assert_eq!(lower_rank.is_some(), !rows.is_empty() && rows.start > 0);
                        assert_eq!(upper_rank.is_some(), !rows.is_empty() && rows.end < layout.cy);
                        // The b2 nodes of row J are in row J / 2 of the next grid.
                        if q + 1 < strips.depth {
                            let next_grid_rows = strips.rows(q + 1, rank);
                            let b2_rows = layout.rows(Colour::B2);
                            let rows_in_next_grid: Vec<_> =
                                rows.filter(|row| b2_rows.contains(row)).map(|row| row / 2).collect();
                            assert!(rows_in_next_grid.iter().all(|row| next_grid_rows.contains(row)));
                        }
                    }
                }
            }
        }
        assert!(Strips::new(Grid { nx: 60, ny: 60 }, 2, 4).unwrap().is_none());
        assert!(Strips::new(Grid { nx: 6000, ny: 1 }, 2, 4).unwrap().is_none());
        assert_eq!(Strips::new(Grid { nx: 2047, ny: 2047 }, 2, 4).unwrap().unwrap().depth, 4);
    }
}
