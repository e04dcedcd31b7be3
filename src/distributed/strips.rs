//! Distribution of the first `depth` grids of a chain, from fine to coarse (`Grid::chain`), among the ranks: every rank
//! has a strip of consecutive rows. A strip has all columns, so that one rank computes the sum over a row. A strip
//! begins at a multiple of 2^depth rows of the first grid. A node that remains in the next grid therefore stays on the
//! same rank.

use crate::error::{Result, collected};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Number of nodes below which every rank stores a grid as a whole, because messages would cost more than the work.
const LEAST_SHARED_NODES: usize = 4096;
/// Minimum number of rows J of 2 x 2 groups per rank on the coarsest shared grid. With fewer rows, a rank would need
/// values of more ranks than its two neighbours.
const LEAST_ROWS: usize = 4;

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
    /// Distributes at most `deepest` grids over `ranks` ranks. Returns `None` if no grid is large enough to be shared.
    /// If the first grid has too few rows for all ranks, only this grid is shared, and the last ranks have no rows.
    pub fn new(grid: Grid, ranks: usize, deepest: usize) -> Result<Option<Self>> {
        // A grid of one row cannot be divided. In addition, its layout shifts the rows (`Layout::shift_y`).
        let shared = grid.chain().take(deepest).take_while(|g| g.nodes() >= LEAST_SHARED_NODES && g.ny > 1);
        let most = shared.count();
        let strips_of = |depth: usize| (grid.ny >> depth) / LEAST_ROWS / 2;
        let Some(depth) = (1..=most).rev().find(|&depth| strips_of(depth - 1) >= ranks).or((most > 0).then_some(1))
        else {
            return Ok(None);
        };
        let (unit, count) = (1 << depth, strips_of(depth - 1).clamp(1, ranks));
        let units = grid.ny.div_ceil(unit);
        let bound = |k: usize| if k >= count { grid.ny } else { units * k / count * unit };
        let rows = collected((0..ranks).map(|k| bound(k)..bound(k + 1)), "strips of ranks")?;
        Ok(Some(Self { grid, depth, rows }))
    }

    pub fn ranks(&self) -> usize {
        self.rows.len()
    }

    /// Returns the rows of the first grid that a rank has.
    pub fn natural(&self, rank: usize) -> Range<usize> {
        self.rows[rank].clone()
    }

    /// Returns the rows J of 2 x 2 groups that a rank has in grid q; the first grid has q = 0.
    pub fn rows(&self, q: usize, rank: usize) -> Range<usize> {
        let Range { start, end } = self.natural(rank);
        let cy = self.grid.chain().nth(q).map_or(1, |grid| grid.ny.div_ceil(2));
        let of = |row: usize| if row == self.grid.ny { cy } else { row >> (q + 1) };
        of(start)..of(end)
    }

    /// Returns the ranks that have the rows before and the rows after those of rank `rank`, if it has rows and these
    /// ranks exist.
    pub fn neighbours(&self, rank: usize) -> [Option<usize>; 2] {
        let Range { start, end } = self.natural(rank);
        if start == end {
            return [None; 2];
        }
        let with = |row: usize| self.rows.iter().position(|rows| rows.contains(&row));
        [start.checked_sub(1).and_then(with), with(end)]
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
                for (q, grid) in grid.chain().take(strips.depth + 1).enumerate() {
                    let layout = Layout::new(grid, 8);
                    let all: Vec<_> = (0..ranks).flat_map(|rank| strips.rows(q, rank)).collect();
                    assert_eq!(all, (0..layout.cy).collect::<Vec<_>>(), "{nx} x {ny}, {ranks}, {q}");
                    assert!(q == strips.depth || layout.shift_y == 0);
                    for rank in 0..ranks {
                        let (rows, [below, above]) = (strips.rows(q, rank), strips.neighbours(rank));
                        assert!(
                            q >= strips.depth
                                || rows.is_empty()
                                || ranks == 1
                                || rows.len() >= LEAST_ROWS.min(layout.cy)
                        );
                        assert_eq!(below.is_some(), !rows.is_empty() && rows.start > 0);
                        assert_eq!(above.is_some(), !rows.is_empty() && rows.end < layout.cy);
                        // The b2 nodes of row J are in row J / 2 of the next grid.
                        if q + 1 < strips.depth {
                            let next = strips.rows(q + 1, rank);
                            let kept = layout.rows(Colour::B2);
                            let made: Vec<_> = rows.filter(|row| kept.contains(row)).map(|row| row / 2).collect();
                            assert!(made.iter().all(|row| next.contains(row)));
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
