//! Boxes of nodes of a 2D grid; each box belongs to one rank.

use crate::error::{Error, Result, collected};
use crate::stencil::levels::Grid;
use std::ops::Range;

/// Box of the nodes with lower <= index < upper in x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridBox {
    pub lower: [usize; 2],
    pub upper: [usize; 2],
}

impl GridBox {
    /// Returns the box of `size` nodes from `lower` on. Returns an error, which names the box by `box_number`, if the
    /// box is empty or extends beyond the grid.
    pub fn new(grid: Grid, lower: [i64; 2], size: [i64; 2], box_number: usize) -> Result<Self> {
        let extents = [("x", grid.nx), ("y", grid.ny)];
        for (d, (direction, nodes)) in extents.into_iter().enumerate() {
            let end = lower[d].checked_add(size[d]);
            if lower[d] < 0 || size[d] < 1 || end.is_none_or(|end| end > nodes as i64) {
                return Err(Error::Argument(format!(
                    "box {box_number} has lower = {} and size = {} in {direction}: it must contain a node and lie in \
                     [0, {nodes})",
                    lower[d], size[d]
                )));
            }
        }
        Ok(Self { lower: lower.map(|l| l as usize), upper: [0, 1].map(|d| (lower[d] + size[d]) as usize) })
    }

    pub fn columns(&self) -> Range<usize> {
        self.lower[0]..self.upper[0]
    }

    pub fn rows(&self) -> Range<usize> {
        self.lower[1]..self.upper[1]
    }

    /// Returns the number of nodes in x and y.
    pub fn extents(&self) -> Grid {
        Grid { nx: self.columns().len(), ny: self.rows().len() }
    }

    /// Returns the rows of this box that are in `rows`.
    pub fn rows_in(&self, rows: &Range<usize>) -> Range<usize> {
        let start = self.lower[1].max(rows.start);
        start..self.upper[1].min(rows.end).max(start)
    }

    fn overlaps(&self, other: &Self) -> bool {
        (0..2).all(|d| self.lower[d] < other.upper[d] && other.lower[d] < self.upper[d])
    }
}

/// Returns the numbers of two boxes that have common nodes, if there are any.
pub fn find_overlap(boxes: &[GridBox]) -> Result<Option<(usize, usize)>> {
    let mut by_first_row = collected(0..boxes.len(), "boxes")?;
    by_first_row.sort_unstable_by_key(|&k| boxes[k].lower[1]);
    for (i, &k) in by_first_row.iter().enumerate() {
        let mut candidates =
            by_first_row[i + 1..].iter().take_while(|&&other| boxes[other].lower[1] < boxes[k].upper[1]);
        if let Some(&other) = candidates.find(|&&other| boxes[other].overlaps(&boxes[k])) {
            return Ok(Some((k.min(other), k.max(other))));
        }
    }
    Ok(None)
}

/// Returns the columns of row j that are in no box, from west to east.
pub fn uncovered_columns(boxes: &[GridBox], grid: Grid, j: usize) -> Result<Vec<Range<usize>>> {
    let mut covered_columns = collected(boxes.iter().filter(|b| b.rows().contains(&j)).map(GridBox::columns), "boxes")?;
    covered_columns.sort_unstable_by_key(|columns| columns.start);
    let starts = std::iter::once(0).chain(covered_columns.iter().map(|columns| columns.end));
    let ends = covered_columns.iter().map(|columns| columns.start).chain([grid.nx]);
    collected(starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end), "boxes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_and_gaps_are_found() {
        let grid = Grid { nx: 10, ny: 8 };
        let grid_box = |lower, size| GridBox::new(grid, lower, size, 0);
        for (lower, size) in [([-1, 0], [2, 2]), ([0, 0], [0, 2]), ([9, 0], [2, 1]), ([0, 7], [1, i64::MAX])] {
            assert!(grid_box(lower, size).is_err());
        }
        let [a, b, c] = [([0, 0], [5, 4]), ([5, 0], [5, 4]), ([2, 4], [8, 4])].map(|(l, s)| grid_box(l, s).unwrap());
        assert_eq!(find_overlap(&[a, b, c]).unwrap(), None);
        assert_eq!(find_overlap(&[c, b, a, grid_box([4, 3], [1, 2]).unwrap()]).unwrap(), Some((2, 3)));
        let first_gap = |boxes: &[GridBox], j| uncovered_columns(boxes, grid, j).unwrap().first().cloned();
        assert_eq!(first_gap(&[c, b, a], 3), None);
        assert_eq!(first_gap(&[c, b, a], 5), Some(0..2));
        assert_eq!(first_gap(&[b], 5), Some(0..10));
        assert_eq!(first_gap(&[], 5), Some(0..10));
        assert_eq!(a.rows_in(&(2..9)), 2..4);
        assert!(a.rows_in(&(6..9)).is_empty());
    }
}
