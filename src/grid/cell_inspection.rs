//! The first look at a matrix on a box of cells: entries that no such matrix has, and numbers that choices depend on.

use crate::error::{Error, Place, Result};
use crate::grid::cells::{CellView, Cells, SevenPoints};
use crate::runtime::reduce::max_abs;

/// What was seen of a matrix.
#[derive(Clone, Copy, Debug, Default)]
pub struct CellInspection {
    /// Largest center.
    pub center_max: f64,
    /// Largest sum of |L D^-1| over a row, L the entries to west, south and bottom: below 1 the Neumann series
    /// converges.
    pub row_sum: f64,
}

impl CellInspection {
    /// Looks at all rows. The first entry that is not finite is an error, where asked for; else the first center that
    /// no number divides by.
    pub fn of(a: &CellView, finite: bool) -> Result<Self> {
        let mut refused = None;
        let mut seen = Self::default();
        for row in 0..a.cells.rows() {
            if finite && let Some(error) = first_not_finite(a, row) {
                return Err(error);
            }
            let center = a.center.row(row);
            seen.center_max = seen.center_max.max(max_abs(center));
            if refused.is_none() {
                let bad = |c: &f64| !(*c >= f64::MIN_POSITIVE && c.is_finite());
                refused = center.iter().position(bad).map(|i| refused_center(center[i], place(a.cells, i, row)));
            }
        }
        if let Some(error) = refused {
            return Err(of_all_centers(a).unwrap_or(error));
        }
        seen.row_sum = (0..a.cells.rows()).map(|row| largest_row_sum(a, row)).fold(0.0, f64::max);
        Ok(seen)
    }
}

/// Cell i of a row.
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
        format!("center {value:e} is too small to divide by, less than {:e},", f64::MIN_POSITIVE)
    } else {
        format!("center {value:e} is not positive")
    };
    Error::Matrix { reason, place: Some(place), then: "" }
}

/// Where some center is refused: whether all are negative, and what to say then.
fn of_all_centers(a: &CellView) -> Option<Error> {
    let negative = |row: usize| a.center.row(row).iter().all(|c| *c < 0.0);
    (0..a.cells.rows()).all(negative).then(|| Error::Matrix {
        reason: format!("center must be positive, got {}", a.center.row(0)[0]),
        place: Some(Place::point(0, 0, 0)),
        then: "; every center is negative: do your arrays hold -A and -b?",
    })
}

/// max over i of sum over west, south and bottom of |a| / center of the neighbour.
fn largest_row_sum(a: &CellView, row: usize) -> f64 {
    let Cells { nx, ny, .. } = a.cells;
    let east = a.entries(0, row);
    let center = a.center.row(row);
    let south = (!row.is_multiple_of(ny)).then(|| (a.entries(1, row - 1), a.center.row(row - 1)));
    let bottom = (row >= ny).then(|| (a.entries(2, row - ny), a.center.row(row - ny)));
    let mut largest = 0.0f64;
    for i in 0..nx {
        let mut sum = if i > 0 { east[i - 1].abs() / center[i - 1] } else { 0.0 };
        for (couplings, center) in [south, bottom].into_iter().flatten() {
            sum += couplings[i].abs() / center[i];
        }
        largest = largest.max(sum);
    }
    largest
}

/// A direction is coarsened where its couplings are at least this part, 1 / SEMI, of the strongest direction's.
pub const SEMI: f64 = 3.0;

/// Which directions multigrid coarsens on the finest grid: with e_d the mean over rows of the couplings in direction d
/// over the center, those of more than one cell with SEMI e_d >= max e.
pub fn coarsened(a: &SevenPoints) -> [bool; 3] {
    let strength = [0, 1, 2].map(|d| strength(a, d));
    let most = strength.into_iter().fold(0.0, f64::max);
    [0, 1, 2].map(|d| a.cells.size()[d] > 1 && SEMI * strength[d] >= most)
}

/// Sum over rows of the couplings in direction d over the center.
fn strength(a: &SevenPoints, d: usize) -> f64 {
    let (couplings, step) = (a.forward[d], a.cells.steps()[d]);
    let n = a.center.len().saturating_sub(step);
    let both = |c: usize| -couplings[c] * (1.0 / a.center[c] + 1.0 / a.center[c + step]);
    (0..n).map(both).sum()
}

/// The smallest coupling over the largest one of the same direction: how far the phases are apart.
pub fn contrast(a: &SevenPoints) -> f64 {
    let of = |couplings: &[f64]| {
        let magnitudes = couplings.iter().map(|c| c.abs()).filter(|&c| c > 0.0);
        let (least, most) = magnitudes.fold((f64::INFINITY, 0.0f64), |(l, m), c| (l.min(c), m.max(c)));
        if most > 0.0 { least / most } else { 1.0 }
    };
    a.forward.into_iter().map(of).fold(1.0, f64::min)
}
