//! Check of a matrix on a box of cells for invalid entries.

use crate::base::reduce::max_abs;
use crate::error::{Error, Place, Result, written};
use crate::stencil::cells::{CellView, Cells};
use std::ops::Range;

/// Result of an inspection of some rows.
#[derive(Debug, Default)]
pub struct InspectedRows {
    /// Largest |center|.
    center_max: f64,
    /// The first entry that is not finite, if the caller asked for this check.
    not_finite: Option<Error>,
    /// The first center that is nonpositive, infinite, NaN, or too small to divide by.
    refused: Option<Error>,
    /// Whether at least one center is not negative.
    some_not_negative: bool,
}

impl InspectedRows {
    /// Inspects rows, and calls `then` for each row after its inspection. With `finite`, stops at the first entry that
    /// is not finite.
    pub fn of(a: &CellView, finite: bool, rows: Range<usize>, mut then: impl FnMut(usize)) -> Self {
        let mut seen = Self::default();
        for row in rows {
            if finite && let Some(error) = first_not_finite(a, row) {
                seen.not_finite = Some(error);
                return seen;
            }
            let center = a.center.row(row);
            seen.center_max = seen.center_max.max(max_abs(center));
            seen.some_not_negative |= !center.iter().all(|c| *c < 0.0);
            if seen.refused.is_none() {
                let bad = |c: &f64| !(*c >= f64::MIN_POSITIVE && c.is_finite());
                seen.refused = center.iter().position(bad).map(|i| refused_center(center[i], place(a.cells, i, row)));
            }
            then(row);
        }
        seen
    }

    /// Combines the results of all rows, which must be in order. Returns the largest center, or an error. If entries
    /// that are not finite were found, the error is that of the first one, and otherwise that of the first refused
    /// center. If all centers are negative, the message says so.
    pub fn center_max(a: &CellView, parts: impl IntoIterator<Item = Self>) -> Result<f64> {
        let join = |all: Self, part: Self| Self {
            center_max: all.center_max.max(part.center_max),
            not_finite: all.not_finite.or(part.not_finite),
            refused: all.refused.or(part.refused),
            some_not_negative: all.some_not_negative | part.some_not_negative,
        };
        let seen = parts.into_iter().fold(Self::default(), join);
        match seen.not_finite.or(seen.refused.filter(|_| seen.some_not_negative)) {
            Some(error) => Err(error),
            None if seen.some_not_negative => Ok(seen.center_max),
            None => Err(all_negative(a)),
        }
    }
}

/// Returns the position of cell i of a row, for error messages.
pub fn place(cells: Cells, i: usize, row: usize) -> Place {
    Place::point(i, row % cells.ny, row / cells.ny)
}

fn first_not_finite(a: &CellView, row: usize) -> Option<Error> {
    let arrays = [(a.center.name, a.center.row(row))];
    let couplings = (0..3).map(|d| (a.forward[d].name, a.entries(d, row)));
    arrays.into_iter().chain(couplings).find_map(|(name, values)| {
        if max_abs(values).is_finite() {
            return None;
        }
        let i = values.iter().position(|v| !v.is_finite())?;
        Some(Error::not_finite(name, values[i], place(a.cells, i, row)))
    })
}

fn refused_center(value: f64, place: Place) -> Error {
    let reason = if value > 0.0 {
        format!("center@ = {value:e} is too small to divide by, less than {:e}", f64::MIN_POSITIVE)
    } else {
        format!("center@ = {} is not positive", written(value))
    };
    Error::Matrix { reason, place: Some(place), then: "" }
}

fn all_negative(a: &CellView) -> Error {
    Error::Matrix {
        reason: format!("center@ = {} is not positive", written(a.center.row(0)[0])),
        place: Some(Place::point(0, 0, 0)),
        then: "; all centers are negative: does the array hold -A? If so, negate b too",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::cells::Values;

    /// For any division of the rows among threads, the error is that of the first entry that is not finite, or else of
    /// the first refused center.
    #[test]
    fn any_division_of_the_rows_finds_the_same_error() {
        let cells = Cells { nx: 3, ny: 2, nz: 4 };
        let rows = cells.rows();
        let (nan, n) = (f64::NAN, cells.count());
        for (bad, finite, expected) in [
            (vec![], true, Ok(6.0)),
            (vec![(0, 20, nan), (2, 14, nan), (0, 7, -1.0)], true, Err("north holds NaN at (2, 0, 2)")),
            (vec![(0, 20, nan), (2, 14, nan), (0, 7, -1.0)], false, Err("center(1, 0, 1) = -1 is not positive")),
            (vec![(1, 3, 1e3), (0, 22, 0.0)], true, Err("center(1, 1, 3) = 0 is not positive")),
            ((0..n).map(|c| (0, c, -6.0)).collect(), true, Err("center(0, 0, 0) = -6 is not positive; all centers")),
            ((1..n).map(|c| (0, c, -6.0)).collect(), true, Err("center(1, 0, 0) = -6 is not positive")),
        ] {
            let mut arrays = [6.0, -1.0, -1.0, -1.0].map(|value| vec![value; n]);
            bad.iter().for_each(|&(array, cell, value): &(usize, usize, f64)| arrays[array][cell] = value);
            let names = ["center", "east", "north", "top"];
            let of = |k: usize| Values::new(names[k], &arrays[k], cells, cells.nx, cells.plane());
            let a = CellView { cells, center: of(0), forward: [1, 2, 3].map(of) };
            for cuts in [vec![0, rows], vec![0, 1, rows], vec![0, 3, 3, 5, 7, rows]] {
                let of_rows = |cut: &[usize]| InspectedRows::of(&a, finite, cut[0]..cut[1], |_| {});
                match (InspectedRows::center_max(&a, cuts.windows(2).map(of_rows)), expected) {
                    (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                    (found, expected) => {
                        let message = found.unwrap_err().to_string();
                        assert!(message.starts_with(expected.unwrap_err()), "{message}");
                    }
                }
            }
        }
    }
}
