//! Nonzero couplings to nodes outside the grid. The library ignores these couplings. A caller with a periodic grid may
//! expect them to have an effect, so they are reported.

use crate::error::{Error, Location, RRB_ERR_ARGUMENT};
use crate::stencil::cells::CellView;
use crate::stencil::matrix::StencilView;
use std::fmt;
use std::ops::Range;

/// Names of the coupling arrays of a 2D grid.
const GRID_ARRAY_NAMES: &[&str] = &["east", "north", "northeast", "northwest"];
/// Names of the coupling arrays of a box of cells.
const CELL_ARRAY_NAMES: &[&str] = &["east", "north", "top"];

/// Nonzero couplings to nodes outside the grid. NaN is not counted, because callers use it to mark unset values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutwardCouplings {
    /// Names of the coupling arrays.
    pub array_names: &'static [&'static str],
    /// Number of nonzero couplings to the outside in each array.
    pub counts: [usize; 4],
    /// The first of these couplings, in the order of the rows; within a row, in the order of the arrays.
    pub first_entry: Option<OutwardEntry>,
}

/// A coupling to a node outside the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutwardEntry {
    /// Index of its array in `array_names`.
    pub array: usize,
    /// Value of the coupling.
    pub value: f64,
    /// Column of the node inside the grid.
    pub i: usize,
    /// Row of the node inside the grid.
    pub j: usize,
    /// Plane of the cell inside the box; `None` on a 2D grid.
    pub k: Option<usize>,
}

/// The default is a 2D grid without nonzero couplings to nodes outside the grid.
impl Default for OutwardCouplings {
    fn default() -> Self {
        Self { array_names: GRID_ARRAY_NAMES, counts: [0; 4], first_entry: None }
    }
}

impl OutwardCouplings {
    /// Finds the nonzero couplings to cells outside the box. The arrays of the matrix must be in host memory.
    pub fn of_cells(a: &CellView) -> Self {
        let mut couplings = Self { array_names: CELL_ARRAY_NAMES, ..Self::default() };
        for row in 0..a.cells.rows() {
            let (j, k) = (row % a.cells.ny, row / a.cells.ny);
            for array in 0..CELL_ARRAY_NAMES.len() {
                let values = a.outward_entries(array, row);
                couplings.record_nonzeros(array, values, [a.cells.nx - values.len(), j], Some(k));
            }
        }
        couplings
    }

    /// Returns the couplings that a device has found in a matrix on a box of cells.
    pub fn from_device_counts(counts: [usize; 3], first_entry: Option<OutwardEntry>) -> Self {
        let [x, y, z] = counts;
        Self { array_names: CELL_ARRAY_NAMES, counts: [x, y, z, 0], first_entry }
    }

    /// Counts the values that are neither zero nor NaN, and records the first one. The first of `values` belongs to
    /// node (i, j), in plane `k` of a box.
    fn record_nonzeros(&mut self, array: usize, values: &[f64], [i, j]: [usize; 2], k: Option<usize>) {
        for (i, &value) in (i..).zip(values) {
            if value != 0.0 && !value.is_nan() {
                self.counts[array] += 1;
                self.first_entry = self.first_entry.or(Some(OutwardEntry { array, value, i, j, k }));
            }
        }
    }

    /// Finds the nonzero couplings to nodes outside a 2D grid. The arrays of the matrix must be in host memory.
    pub fn of(a: &StencilView) -> Self {
        Self::of_rows(a, 0..a.grid.ny)
    }

    /// Finds the nonzero couplings of some rows to nodes outside a 2D grid.
    pub fn of_rows(a: &StencilView, rows: Range<usize>) -> Self {
        let (nx, ny) = (a.grid.nx, a.grid.ny);
        let corners = a.corners.unzip();
        // Each array, with the column in which its entry points out of the grid in every row. In the last row, all
        // entries of `north` and of the corners point out of the grid.
        let array_views =
            [(Some(a.east), Some(nx - 1)), (Some(a.north), None), (corners.0, Some(nx - 1)), (corners.1, Some(0))];
        let mut couplings = Self::default();
        for j in rows {
            for (array, (view, edge_column)) in array_views.iter().enumerate() {
                let Some(view) = view else { continue };
                let leaves_grid = array > 0 && j + 1 == ny;
                let (start, end) = if leaves_grid { (0, nx) } else { edge_column.map_or((0, 0), |i| (i, i + 1)) };
                couplings.record_nonzeros(array, &view.row(j)[start..end], [start, j], None);
            }
        }
        couplings
    }

    /// Returns whether no coupling was found.
    pub fn is_empty(&self) -> bool {
        self.first_entry.is_none()
    }

    /// Returns an error that names the first coupling found; `Ok` if there is none.
    pub fn check_empty(&self) -> Result<(), Error> {
        match self.first_entry {
            None => Ok(()),
            Some(OutwardEntry { array, value, i, j, k }) => Err(Error::at(
                RRB_ERR_ARGUMENT,
                format!(
                    "{} must be 0 where it points out of the grid (check_input = 2), got {value} at ",
                    self.array_names[array]
                ),
                k.map_or_else(|| Location::node(0, i, j), |k| Location::point(i, j, k)),
                ": is the grid periodic?",
            )),
        }
    }
}

impl fmt::Display for OutwardCouplings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, count) in self.array_names.iter().zip(self.counts).filter(|(_, count)| *count > 0) {
            write!(f, "{separator}{name} has {count} {}", if count == 1 { "entry" } else { "entries" })?;
            separator = ", ";
        }
        write!(f, " that point out of the grid; they are ignored: is the grid periodic?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::cells::{CellValues, Cells};
    use crate::stencil::levels::Grid;
    use crate::stencil::matrix::GridArray;

    /// `OutwardCouplings::of` finds exactly those entries that `StencilView` does not read.
    #[test]
    fn outward_couplings_are_those_never_read() {
        for (nx, ny) in [(1, 1), (1, 4), (5, 1), (2, 2), (4, 3)] {
            let grid = Grid { nx, ny };
            let ld = nx + 1;
            let values: Vec<f64> = (0..ny * ld).map(|k| if k % ld < nx { -1.0 } else { f64::NAN }).collect();
            let view = |name| GridArray::new(name, &values, grid, ld);
            let [center, east, north, ne, nw] = ["center", "east", "north", "northeast", "northwest"].map(view);
            for corners in [None, Some((ne, nw))] {
                let a = StencilView { grid, center, east, north, corners };
                let outward = OutwardCouplings::of(&a);
                let count_read = |array: usize| (0..ny).map(|j| a.entries(j)[array].2.len()).sum::<usize>();
                let expected: [usize; 4] =
                    std::array::from_fn(|k| if k < 2 || corners.is_some() { nx * ny - count_read(k + 1) } else { 0 });
                assert_eq!(outward.counts, expected);
                let first_entry = OutwardEntry { array: 0, value: -1.0, i: nx - 1, j: 0, k: None };
                assert_eq!(outward.first_entry, Some(first_entry), "east of the first row comes first");
            }
        }
        let zeros = [0.0, -0.0, f64::NAN, -f64::NAN];
        let grid = Grid { nx: 2, ny: 2 };
        let view = |name| GridArray::new(name, &zeros, grid, 2);
        let a = StencilView { grid, center: view("center"), east: view("east"), north: view("north"), corners: None };
        assert_eq!(OutwardCouplings::of(&a), OutwardCouplings::default());
        let message = OutwardCouplings { counts: [200, 0, 3, 0], ..OutwardCouplings::default() }.to_string();
        assert_eq!(
            message,
            "east has 200 entries, northeast has 3 entries that point out of the grid; they are ignored: \
             is the grid periodic?"
        );
    }

    /// `OutwardCouplings::of_cells` finds exactly those entries that do not couple two cells of the box.
    #[test]
    fn outward_couplings_of_a_box_leave_the_box() {
        for (nx, ny, nz) in [(1, 1, 1), (2, 2, 2), (4, 3, 2), (5, 1, 3)] {
            let cells = Cells { nx, ny, nz };
            let (ld, plane) = (nx + 1, ny * (nx + 1) + 2);
            let mut data = vec![f64::NAN; nz * plane];
            for c in 0..cells.count() {
                let [i, j, k] = cells.indices(c);
                data[k * plane + j * ld + i] = -1.0;
            }
            let values = |name| CellValues::new(name, &data, cells, ld, plane);
            let a = CellView { cells, center: values("center"), forward: ["east", "north", "top"].map(values) };
            let outward = OutwardCouplings::of_cells(&a);
            assert_eq!(outward.counts, [ny * nz, nx * nz, nx * ny, 0]);
            assert_eq!(outward.first_entry, Some(OutwardEntry { array: 0, value: -1.0, i: nx - 1, j: 0, k: Some(0) }));
            let expected_end = format!("got -1 at ({}, 0, 0): is the grid periodic?", nx - 1);
            assert!(outward.check_empty().unwrap_err().to_string().ends_with(&expected_end));
        }
    }
}
