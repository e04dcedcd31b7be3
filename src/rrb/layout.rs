//! Storage of one grid by the colours r1, r2, b1 and b2 (report 16-06, section 3.2, figures 8 and 9).
//!
//! The first (odd) level of a grid eliminates the red nodes r1 and r2, and the second (even) level eliminates the black
//! nodes b1. The nodes b2 are kept: they form the next grid.
//!
//! Columns are counted such that the kept nodes have odd indices i' = i + shift_x, where shift_x is 0 for nx >= 2 and 1
//! for nx = 1. Rows are counted in the same way. With I = i' / 2 and J = j' / 2:
//!
//! ```text
//!     j' odd :  r1(I,J) b2(I,J) r1(I+1,J) b2(I+1,J) ...
//!     j' even:  b1(I,J) r2(I,J) b1(I+1,J) r2(I+1,J) ...
//! ```
//!
//! Each colour is an array of (cy + 2) rows. All four arrays have the same compute area cx x cy, where cx is a multiple
//! of `compute_block`. A border of zeros surrounds the compute area, so that loops need no conditions at the edges. The
//! border has one row below and above, and `compute_block` columns on either side. On the host, consecutive rows share
//! these columns: a row has cx + compute_block values. On a device, a row has cx + 2 compute_block values.
//!
//! The report allows rectangular compute blocks. Here, blocks are `compute_block` values wide and one row high, because
//! alignment requires only that rows are padded.

use crate::stencil::levels::Grid;

/// Colours of the nodes of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colour {
    /// Red nodes between two kept nodes of a row.
    R1,
    /// Red nodes between two kept nodes of a column.
    R2,
    /// Black nodes that the even level eliminates.
    B1,
    /// Black nodes that are kept: the nodes of the next grid.
    B2,
}

impl Colour {
    /// All colours in the order of storage.
    pub const ALL: [Self; 4] = [Self::R1, Self::R2, Self::B1, Self::B2];
}

/// Sizes and index rules of the four arrays of one grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The grid.
    pub grid: Grid,
    /// Shift of the columns, i' - i.
    pub shift_x: usize,
    /// Shift of the rows, j' - j.
    pub shift_y: usize,
    /// Width of the compute area, in values.
    pub cx: usize,
    /// Height of the compute area, in rows.
    pub cy: usize,
    /// Width of the left and right border, in values.
    pub compute_block: usize,
    /// The stored rows J are `first_row` .. `end_row`. On a distributed grid, these are the rows of this rank and its
    /// halo; otherwise, all rows.
    pub first_row: usize,
    pub end_row: usize,
}

impl Layout {
    /// Returns the layout of `grid` with rows padded to a multiple of `compute_block`.
    pub fn new(grid: Grid, compute_block: usize) -> Self {
        let (shift_x, shift_y) = (1 - grid.kept_column_parity(), 1 - grid.kept_row_parity());
        let cx = (grid.nx + shift_x).div_ceil(2).next_multiple_of(compute_block);
        let cy = (grid.ny + shift_y).div_ceil(2);
        Self { grid, shift_x, shift_y, cx, cy, compute_block, first_row: 0, end_row: cy }
    }

    /// Returns this layout with storage for the rows J in `first_row` .. `end_row` only.
    pub fn strip(self, first_row: usize, end_row: usize) -> Self {
        Self { first_row, end_row, ..self }
    }

    /// Returns the distance between rows on a device, in values.
    pub fn stride(&self) -> usize {
        self.cx + 2 * self.compute_block
    }

    /// Returns the number of values of one array on a device.
    pub fn len(&self) -> usize {
        (self.cy + 2) * self.stride()
    }

    /// Returns the columns I of a colour that contain nodes: odd columns i' for b2 and r2, even columns i' for r1 and
    /// b1.
    pub fn columns(&self, colour: Colour) -> std::ops::Range<usize> {
        indices_of_parity(self.shift_x, self.grid.nx, matches!(colour, Colour::B2 | Colour::R2))
    }

    /// Returns the rows J of a colour that contain nodes: odd rows j' for b2 and r1, even rows j' for r2 and b1.
    pub fn rows(&self, colour: Colour) -> std::ops::Range<usize> {
        indices_of_parity(self.shift_y, self.grid.ny, matches!(colour, Colour::B2 | Colour::R1))
    }

    /// Returns the node (i, j) whose value is entry (I, J) of a colour.
    pub fn node(&self, colour: Colour, col: usize, row: usize) -> (usize, usize) {
        let odd_x = usize::from(matches!(colour, Colour::B2 | Colour::R2));
        let odd_y = usize::from(matches!(colour, Colour::B2 | Colour::R1));
        (2 * col + odd_x - self.shift_x, 2 * row + odd_y - self.shift_y)
    }
}

/// Returns the range of I for which i' = 2 I + `is_odd` (0 or 1) is in [shift, shift + n).
fn indices_of_parity(shift: usize, n: usize, is_odd: bool) -> std::ops::Range<usize> {
    if is_odd { shift / 2..(shift + n) / 2 } else { shift.div_ceil(2)..(shift + n).div_ceil(2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 9 of the report. Its caption states 40 x 75 nodes; its text states 20 x 33 and 20 x 32 red nodes, which
    /// correspond to 40 x 65. With 75 rows, one of the two red colours has 38 rows, and the other has 37. The test
    /// checks for both sizes that r1 and r2 have twenty columns, that their numbers of rows differ by one, and that
    /// their compute areas are equal.
    #[test]
    fn layout_agrees_with_figure_9() {
        for (ny, odd_rows, even_rows) in [(65, 32, 33), (75, 37, 38)] {
            let layout = Layout::new(Grid { nx: 40, ny }, 16);
            for colour in [Colour::R1, Colour::R2, Colour::B1, Colour::B2] {
                assert_eq!(layout.columns(colour).len(), 20);
            }
            assert_eq!(layout.rows(Colour::R2).len(), even_rows);
            assert_eq!(layout.rows(Colour::B1).len(), even_rows);
            assert_eq!(layout.rows(Colour::R1).len(), odd_rows);
            assert_eq!(layout.rows(Colour::B2).len(), odd_rows);
            assert_eq!((layout.cx, layout.cy, layout.stride()), (32, even_rows, 64));
        }
    }

    #[test]
    fn every_node_has_one_entry() {
        for nx in 1..12 {
            for ny in 1..12 {
                let grid = Grid { nx, ny };
                let layout = Layout::new(grid, 8);
                let mut visit_counts = vec![0; grid.nodes()];
                for colour in [Colour::R1, Colour::R2, Colour::B1, Colour::B2] {
                    for row in layout.rows(colour) {
                        for col in layout.columns(colour) {
                            let (i, j) = layout.node(colour, col, row);
                            visit_counts[j * nx + i] += 1;
                            assert!(col < layout.cx && row < layout.cy);
                            let is_black = (i + j) % 2 == (grid.kept_column_parity() + grid.kept_row_parity()) % 2;
                            assert_eq!(is_black, matches!(colour, Colour::B1 | Colour::B2));
                        }
                    }
                }
                assert!(visit_counts.iter().all(|&count| count == 1));
                let coarse_grid = grid.coarse();
                assert_eq!(
                    (layout.columns(Colour::B2).len(), layout.rows(Colour::B2).len()),
                    (coarse_grid.nx, coarse_grid.ny)
                );
            }
        }
    }
}
