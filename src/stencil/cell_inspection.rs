//! Check of a matrix on a box of cells for invalid entries.

use crate::base::reduce::max_abs;
use crate::error::{Error, Location, Result, format_number};
use crate::stencil::cells::{CellView, Cells};
use std::ops::Range;

/// Result of an inspection of some rows.
#[derive(Debug, Default)]
pub struct InspectedRows {
    /// Largest |center|.
    center_max: f64,
    /// Error for the first entry that is not finite. Set only if the caller requested this check.
    not_finite_error: Option<Error>,
    /// Error for the first center that is nonpositive, infinite, NaN, or too small to divide by.
    center_error: Option<Error>,
    /// Whether at least one center is not negative.
    has_nonnegative_center: bool,
}

impl InspectedRows {
    /// Inspects rows, and calls `after_row` for each row after its inspection. With `checks_finite`, stops at the first
    /// entry that is not finite.
    pub fn of(a: &CellView, checks_finite: bool, rows: Range<usize>, mut after_row: impl FnMut(usize)) -> Self {
        let mut result = Self::default();
        for row in rows {
            if checks_finite && let Some(error) = first_not_finite(a, row) {
                result.not_finite_error = Some(error);
                return result;
            }
            let center = a.center.row(row);
            result.center_max = result.center_max.max(max_abs(center));
            result.has_nonnegative_center |= !center.iter().all(|c| *c < 0.0);
            if result.center_error.is_none() {
                let is_invalid = |c: &f64| !(*c >= f64::MIN_POSITIVE && c.is_finite());
                result.center_error =
                    center.iter().position(is_invalid).map(|i| center_error(center[i], cell_place(a.cells, i, row)));
            }
            after_row(row);
        }
        result
    }

    /// Combines the results of all rows, which must be in order. Returns the largest center or the first of these
    /// errors:
    ///
    /// - the error for the first entry that is not finite, if the inspection checked for such entries;
    /// - the error for the first invalid center. If all centers are negative, the error message says so.
    pub fn merge_center_max(a: &CellView, inspected_rows: impl IntoIterator<Item = Self>) -> Result<f64> {
        let merge = |merged: Self, next_rows: Self| Self {
            center_max: merged.center_max.max(next_rows.center_max),
            not_finite_error: merged.not_finite_error.or(next_rows.not_finite_error),
            center_error: merged.center_error.or(next_rows.center_error),
            has_nonnegative_center: merged.has_nonnegative_center | next_rows.has_nonnegative_center,
        };
        let result = inspected_rows.into_iter().fold(Self::default(), merge);
        match result.not_finite_error.or(result.center_error.filter(|_| result.has_nonnegative_center)) {
            Some(error) => Err(error),
            None if result.has_nonnegative_center => Ok(result.center_max),
            None => Err(all_negative(a)),
        }
    }
}

/// Returns the position of cell i of a row, for error messages.
pub fn cell_place(cells: Cells, i: usize, row: usize) -> Location {
    Location::point(i, row % cells.ny, row / cells.ny)
}

fn first_not_finite(a: &CellView, row: usize) -> Option<Error> {
    let center_array = [(a.center.name, a.center.row(row))];
    let couplings = (0..3).map(|d| (a.forward[d].name, a.entries(d, row)));
    center_array.into_iter().chain(couplings).find_map(|(name, values)| {
        if max_abs(values).is_finite() {
            return None;
        }
        let i = values.iter().position(|v| !v.is_finite())?;
        Some(Error::not_finite(name, values[i], cell_place(a.cells, i, row)))
    })
}

fn center_error(value: f64, location: Location) -> Error {
    let reason = if value > 0.0 {
        format!("center@ = {value:e} is too small to divide by, less than {:e}", f64::MIN_POSITIVE)
    } else {
        format!("center@ = {} is not positive", format_number(value))
    };
    Error::Matrix { reason, location: Some(location), text_after: "" }
}

fn all_negative(a: &CellView) -> Error {
    Error::Matrix {
        reason: format!("center@ = {} is not positive", format_number(a.center.row(0)[0])),
        location: Some(Location::point(0, 0, 0)),
        text_after: "; all centers are negative: does the array hold -A? If so, negate b too",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::cells::CellValues;

    /// For any division of the rows among threads, the error is that of the first entry that is not finite, or else of
    /// the first invalid center.
    #[test]
    fn error_is_independent_of_row_division() {
        let cells = Cells { nx: 3, ny: 2, nz: 4 };
        let rows = cells.rows();
        let (nan, n) = (f64::NAN, cells.count());
        for (invalid_entries, checks_finite, expected) in [
            (vec![], true, Ok(6.0)),
            (vec![(0, 20, nan), (2, 14, nan), (0, 7, -1.0)], true, Err("north holds NaN at (2, 0, 2)")),
            (vec![(0, 20, nan), (2, 14, nan), (0, 7, -1.0)], false, Err("center(1, 0, 1) = -1 is not positive")),
            (vec![(1, 3, 1e3), (0, 22, 0.0)], true, Err("center(1, 1, 3) = 0 is not positive")),
            ((0..n).map(|c| (0, c, -6.0)).collect(), true, Err("center(0, 0, 0) = -6 is not positive; all centers")),
            ((1..n).map(|c| (0, c, -6.0)).collect(), true, Err("center(1, 0, 0) = -6 is not positive")),
        ] {
            let mut arrays = [6.0, -1.0, -1.0, -1.0].map(|value| vec![value; n]);
            invalid_entries.iter().for_each(|&(array, cell, value): &(usize, usize, f64)| arrays[array][cell] = value);
            let names = ["center", "east", "north", "top"];
            let array_of = |k: usize| CellValues::new(names[k], &arrays[k], cells, cells.nx, cells.plane());
            let a = CellView { cells, center: array_of(0), forward: [1, 2, 3].map(array_of) };
            for divisions in [vec![0, rows], vec![0, 1, rows], vec![0, 3, 3, 5, 7, rows]] {
                let inspect_rows =
                    |bounds: &[usize]| InspectedRows::of(&a, checks_finite, bounds[0]..bounds[1], |_| {});
                match (InspectedRows::merge_center_max(&a, divisions.windows(2).map(inspect_rows)), expected) {
                    (Ok(center_max), Ok(expected)) => assert_eq!(center_max, expected),
                    (center_max, expected) => {
                        let message = center_max.unwrap_err().to_string();
                        assert!(message.starts_with(expected.unwrap_err()), "{message}");
                    }
                }
            }
        }
    }
}
