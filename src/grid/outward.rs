//! Couplings that point out of the grid. They are no part of the matrix; a caller whose grid is periodic means
//! something by them.

use crate::error::{Error, Place, RRB_ERR_ARGUMENT};
use crate::grid::cells::CellView;
use crate::grid::stencil::StencilView;
use std::fmt;
use std::ops::Range;

/// The arrays of a 2D grid that have such entries, in order.
const OF_GRID: &[&str] = &["east", "north", "northeast", "northwest"];
/// Those of a box of cells.
const OF_CELLS: &[&str] = &["east", "north", "top"];

/// Entries that point out of the grid and are not zero; NaN, with which a caller marks what is not set, is none of
/// them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outward {
    /// The arrays that have them.
    pub arrays: &'static [&'static str],
    /// How many, of each array.
    pub counts: [usize; 4],
    /// The first one: row by row, in a row array by array.
    pub first: Option<Entry>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Number of its array.
    pub array: usize,
    /// The entry.
    pub value: f64,
    /// Column.
    pub i: usize,
    /// Row.
    pub j: usize,
    /// Plane of a box.
    pub k: Option<usize>,
}

/// None of a 2D grid.
impl Default for Outward {
    fn default() -> Self {
        Self { arrays: OF_GRID, counts: [0; 4], first: None }
    }
}

impl Outward {
    /// Of a matrix on a box of cells, on the host.
    pub fn of_cells(a: &CellView) -> Self {
        let mut found = Self { arrays: OF_CELLS, ..Self::default() };
        for row in 0..a.cells.rows() {
            let (j, k) = (row % a.cells.ny, row / a.cells.ny);
            for array in 0..OF_CELLS.len() {
                let values = a.outward(array, row);
                found.look(array, values, [a.cells.nx - values.len(), j], Some(k));
            }
        }
        found
    }

    /// Of a matrix on a box of cells, what was found elsewhere.
    pub fn in_cells(counts: [usize; 3], first: Option<Entry>) -> Self {
        let [x, y, z] = counts;
        Self { arrays: OF_CELLS, counts: [x, y, z, 0], first }
    }

    /// Notes those of `values`, which begin at (i, j).
    fn look(&mut self, array: usize, values: &[f64], [i, j]: [usize; 2], k: Option<usize>) {
        for (i, &value) in (i..).zip(values) {
            if value != 0.0 && !value.is_nan() {
                self.counts[array] += 1;
                self.first = self.first.or(Some(Entry { array, value, i, j, k }));
            }
        }
    }

    /// Of a matrix on a 2D grid, on the host.
    pub fn of(a: &StencilView) -> Self {
        Self::of_rows(a, 0..a.grid.ny)
    }

    /// Of some of its rows.
    pub fn of_rows(a: &StencilView, rows: Range<usize>) -> Self {
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let corners = a.corners.unzip();
        // Array, and the column that points out of the grid in every row; in the last one all of `north` and the
        // corners do.
        let arrays =
            [(Some(a.east), Some(nx - 1)), (Some(a.north), None), (corners.0, Some(nx - 1)), (corners.1, Some(0))];
        let mut found = Self::default();
        for j in rows {
            for (array, (view, edge)) in arrays.iter().enumerate() {
                let Some(view) = view else { continue };
                let all = array > 0 && j + 1 == ny;
                let (start, end) = if all { (0, nx) } else { edge.map_or((0, 0), |i| (i, i + 1)) };
                found.look(array, &view.row(j)[start..end], [start, j], None);
            }
        }
        found
    }

    /// None is there.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Where they are refused.
    pub fn refuse(&self) -> Result<(), Error> {
        match self.first {
            None => Ok(()),
            Some(Entry { array, value, i, j, k }) => Err(Error::at(
                RRB_ERR_ARGUMENT,
                format!(
                    "{} must be 0 where it points out of the grid (check_input = 2), got {value} at ",
                    self.arrays[array]
                ),
                k.map_or_else(|| Place::node(0, i, j), |k| Place::point(i, j, k)),
                ": is the grid periodic?",
            )),
        }
    }
}

impl fmt::Display for Outward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (name, count) in self.arrays.iter().zip(self.counts).filter(|(_, count)| *count > 0) {
            write!(f, "{before}{name} has {count} {}", if count == 1 { "entry" } else { "entries" })?;
            before = ", ";
        }
        write!(f, " that point out of the grid; they are ignored: is the grid periodic?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::cells::{Cells, Values};
    use crate::grid::levels::Grid;
    use crate::grid::stencil::View;

    /// Every entry that `StencilView` does not read points outwards, and no other.
    #[test]
    fn what_is_not_read() {
        for (nx, ny) in [(1, 1), (1, 4), (5, 1), (2, 2), (4, 3)] {
            let grid = Grid { nx, ny };
            let ld = nx + 1;
            let values: Vec<f64> = (0..ny * ld).map(|k| if k % ld < nx { -1.0 } else { f64::NAN }).collect();
            let view = |name| View::new(name, &values, grid, ld);
            let [center, east, north, ne, nw] = ["center", "east", "north", "northeast", "northwest"].map(view);
            for corners in [None, Some((ne, nw))] {
                let a = StencilView { grid, center, east, north, corners };
                let found = Outward::of(&a);
                let read = |array: usize| (0..ny).map(|j| a.entries(j)[array].2.len()).sum::<usize>();
                let expected: [usize; 4] =
                    std::array::from_fn(|k| if k < 2 || corners.is_some() { nx * ny - read(k + 1) } else { 0 });
                assert_eq!(found.counts, expected);
                let first = Entry { array: 0, value: -1.0, i: nx - 1, j: 0, k: None };
                assert_eq!(found.first, Some(first), "east of the first row comes first");
            }
        }
        let zeros = [0.0, -0.0, f64::NAN, -f64::NAN];
        let grid = Grid { nx: 2, ny: 2 };
        let view = |name| View::new(name, &zeros, grid, 2);
        let a = StencilView { grid, center: view("center"), east: view("east"), north: view("north"), corners: None };
        assert_eq!(Outward::of(&a), Outward::default());
        let said = Outward { counts: [200, 0, 3, 0], ..Outward::default() }.to_string();
        assert_eq!(
            said,
            "east has 200 entries, northeast has 3 entries that point out of the grid; they are ignored: \
             is the grid periodic?"
        );
    }

    /// Of a box, what is not between two cells of it.
    #[test]
    fn what_leaves_a_box() {
        for (nx, ny, nz) in [(1, 1, 1), (2, 2, 2), (4, 3, 2), (5, 1, 3)] {
            let cells = Cells { nx, ny, nz };
            let (ld, plane) = (nx + 1, ny * (nx + 1) + 2);
            let mut given = vec![f64::NAN; nz * plane];
            for c in 0..cells.count() {
                let [i, j, k] = cells.place(c);
                given[k * plane + j * ld + i] = -1.0;
            }
            let values = |name| Values::new(name, &given, cells, ld, plane);
            let a = CellView { cells, center: values("center"), forward: ["east", "north", "top"].map(values) };
            let found = Outward::of_cells(&a);
            assert_eq!(found.counts, [ny * nz, nx * nz, nx * ny, 0]);
            assert_eq!(found.first, Some(Entry { array: 0, value: -1.0, i: nx - 1, j: 0, k: Some(0) }));
            let place = format!("got -1 at ({}, 0, 0): is the grid periodic?", nx - 1);
            assert!(found.refuse().unwrap_err().to_string().ends_with(&place));
        }
    }
}
