//! Survey of a matrix before the factorization: properties on which the choice of the method depends, components,
//! groups of strong couplings, and deflation regions. The rows may be divided among threads. The result does not depend
//! on the number of threads.

use crate::base::isa::for_each_isa;
use crate::base::loops::largest;
use crate::base::reduce::{pairwise, sum};
use crate::deflation::regions::{Choice, RegionCounts, Regions};
use crate::error::{Result, collected, zeroed};
use crate::stencil::cell_components::{CellComponents, ComponentRows, StrongGroups};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::{COARSEST, SEMICOARSENING_RATIO, is_flat, strong_directions};
use crate::stencil::joined::JoiningCouplings;
use std::ops::Range;

const WHAT: &str = "the inspection of a matrix by rows";

pub use crate::options::limits::MOST_DEFLATED_COMPONENTS as MANY;

/// Properties of a matrix on which the choice of the method depends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Largest row sum of |L D^-1|, where D is the diagonal and L is the strictly lower triangle of A: the couplings
    /// to the west, south and bottom. If this row sum is below 1, the terms of the Neumann series decrease.
    pub row_sum: f64,
    /// Whether multigrid coarsens the finest grid in each direction.
    pub coarsened: [bool; 3],
    /// Ratio of the smallest nonzero coupling to the largest coupling of a direction, minimized over the directions.
    /// The descriptions of options and the reason `contrast` name this ratio the contrast of the couplings.
    pub coupling_ratio: f64,
    /// Number of connected components of two cells or more.
    pub components: usize,
    /// First cell of each singular component.
    pub singular: Vec<usize>,
    /// Number of groups of cells that strong couplings join.
    pub strong: usize,
    /// Smallest extent of a group, as in [`StrongGroups::thinnest`]. A backend may return 0 if there are more than
    /// [`MANY`] groups.
    pub thinnest: usize,
    /// Number of hidden groups ([`StrongGroups::hidden`]) if [`needs_hidden_groups`] is true; otherwise 0.
    pub hidden: usize,
}

/// Returns whether the choice of the method depends on the number of hidden groups. This is the case if there are more
/// groups than deflation can use, or if the finest grid is not coarsened in a direction with more than one cell.
pub fn needs_hidden_groups(cells: Cells, coarsened: [bool; 3], strong: usize) -> bool {
    strong > MANY || is_flat(cells, coarsened)
}

/// Returns the ratio of the smallest to the largest coupling, minimized over the directions. A direction without
/// couplings, for which these are infinity and zero, is ignored. The ratio is 1 if there are no couplings.
pub fn coupling_ratio(smallest: [f64; 3], largest: [f64; 3]) -> f64 {
    let of = |d: usize| if largest[d] > 0.0 { smallest[d] / largest[d] } else { 1.0 };
    [0, 1, 2].map(of).into_iter().fold(1.0, f64::min)
}

for_each_isa! {
    /// Computes sums_i += |couplings_i| / center_i.
    fn add_quotients(sums: &mut [f64], couplings: &[f64], center: &[f64]) {
        for ((sum, coupling), center) in sums.iter_mut().zip(couplings).zip(center) {
            *sum += coupling.abs() / center;
        }
    }

    /// Computes out_i -= couplings_i / center_i.
    fn subtract_quotients(out: &mut [f64], couplings: &[f64], center: &[f64]) {
        for ((out, coupling), center) in out.iter_mut().zip(couplings).zip(center) {
            *out -= coupling / center;
        }
    }
}

/// Result of a survey of some rows.
#[derive(Clone, Debug, Default)]
pub struct SurveyedRows {
    components: ComponentRows,
    /// Smallest nonzero and largest magnitude of the couplings in each direction.
    smallest: [f64; 3],
    largest: [f64; 3],
    /// As in [`Survey::row_sum`].
    row_sum: f64,
    /// For each row of cells and each direction, the negative sum over the cells of (couplings in this direction) /
    /// center.
    strength: [Vec<f64>; 3],
}

/// Returns the values of the cells in row j + ny k.
fn along(values: &[f64], nx: usize, row: usize) -> &[f64] {
    &values[row * nx..][..nx]
}

impl SurveyedRows {
    /// Surveys the rows j + ny k.
    pub fn of(a: &SevenPoints, zero_row_sum: f64, rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let mut found = Self {
            components: ComponentRows::of_rows(a, zero_row_sum, rows.clone())?,
            smallest: StrongGroups::smallest_couplings(a, rows.clone()),
            largest: a.forward.map(|couplings| largest(&couplings[rows.start * nx..rows.end * nx])),
            row_sum: 0.0,
            strength: [zeroed(rows.len(), WHAT)?, zeroed(rows.len(), WHAT)?, zeroed(rows.len(), WHAT)?],
        };
        let mut of_row = zeroed(nx, WHAT)?;
        for (at, row) in rows.enumerate() {
            found.add_row(a, row, at, &mut of_row);
        }
        Ok(found)
    }

    /// Surveys row `row` of cells: updates `row_sum`, and stores the sums of the row in `strength` at index `at`.
    /// `of_row` is workspace for one value per cell of the row.
    fn add_row(&mut self, a: &SevenPoints, row: usize, at: usize, of_row: &mut [f64]) {
        let (nx, ny) = (a.cells.nx, a.cells.ny);
        let of = |values, row| along(values, nx, row);
        let center = of(a.center, row);
        let before = [None, (!row.is_multiple_of(ny)).then(|| row - 1), row.checked_sub(ny)];
        of_row.fill(0.0);
        add_quotients(&mut of_row[1..], of(a.forward[0], row), center);
        for d in 1..3 {
            if let Some(before) = before[d] {
                add_quotients(of_row, of(a.forward[d], before), of(a.center, before));
            }
        }
        self.row_sum = self.row_sum.max(largest(of_row));
        for d in 0..3 {
            let forward = of(a.forward[d], row);
            of_row.fill(0.0);
            subtract_quotients(of_row, forward, center);
            if d == 0 {
                subtract_quotients(&mut of_row[1..], forward, &center[1..]);
            } else if let Some(before) = before[d] {
                subtract_quotients(of_row, of(a.forward[d], before), center);
            }
            self.strength[d][at] = sum(of_row);
        }
    }

    /// Returns the limits above which couplings are strong, from the results of all rows.
    pub fn limits(parts: &[Self]) -> [f64; 3] {
        StrongGroups::limits(smallest_of(parts))
    }
}

fn smallest_of(parts: &[SurveyedRows]) -> [f64; 3] {
    [0, 1, 2].map(|d| parts.iter().fold(f64::INFINITY, |least, part| least.min(part.smallest[d])))
}

/// Data of a matrix that a factorization needs in addition to the survey.
#[derive(Debug, Default)]
pub struct SurveyData {
    /// Connected components.
    pub components: CellComponents,
    /// Groups of cells that strong couplings join.
    pub strong: StrongGroups,
    /// Deflation regions, if they were requested and found.
    pub regions: Option<Regions>,
}

impl SurveyData {
    /// Surveys all rows.
    #[cfg(test)]
    pub fn of(a: &SevenPoints, zero_row_sum: f64) -> Result<(Self, Survey)> {
        let rows = 0..a.cells.rows();
        let parts = [SurveyedRows::of(a, zero_row_sum, rows.clone())?];
        let joins = [JoiningCouplings::of_rows(a, SurveyedRows::limits(&parts), rows)?];
        Self::of_parts(a.cells, &parts, &joins)
    }

    /// Combines the results of all threads. `parts` contains the results of `SurveyedRows::of`, and `strong` those of
    /// `JoiningCouplings::of_rows`. Both are in the order of the rows.
    pub fn of_parts(cells: Cells, parts: &[SurveyedRows], strong: &[JoiningCouplings]) -> Result<(Self, Survey)> {
        let components = CellComponents::of_parts(cells, &collected(parts.iter().map(|part| &part.components), WHAT)?)?;
        let strong = StrongGroups::of_parts(cells, &collected(strong.iter(), WHAT)?)?;
        let mut strength = [0.0; 3];
        for (d, strength) in strength.iter_mut().enumerate() {
            let of_rows = collected(parts.iter().flat_map(|part| part.strength[d].iter().copied()), WHAT)?;
            *strength = pairwise(&of_rows);
        }
        let most = [0, 1, 2].map(|d| parts.iter().fold(0.0, |most: f64, part| most.max(part.largest[d])));
        let coarsened = strong_directions(cells, strength, SEMICOARSENING_RATIO);
        let counts_hidden = needs_hidden_groups(cells, coarsened, strong.count());
        let survey = Survey {
            row_sum: parts.iter().fold(0.0, |most, part| most.max(part.row_sum)),
            coarsened,
            coupling_ratio: coupling_ratio(smallest_of(parts), most),
            components: components.count(),
            singular: first_cells_of_singular(cells, &components)?,
            strong: strong.count(),
            thinnest: strong.thinnest,
            hidden: if counts_hidden { strong.hidden(cells, COARSEST)? } else { 0 },
        };
        Ok((Self { components, strong, regions: None }, survey))
    }

    /// Computes and stores the deflation regions, and returns the numbers of vectors and regions.
    pub fn find_regions(&mut self, a: &SevenPoints, choice: &Choice) -> Result<RegionCounts> {
        let regions = Regions::find(a, &self.components, &self.strong, choice)?;
        let (count, regions) = regions.with_counts();
        self.regions = regions;
        Ok(count)
    }
}

fn first_cells_of_singular(cells: Cells, components: &CellComponents) -> Result<Vec<usize>> {
    let numbers = components.list().singular_numbers()?;
    let mut first: Vec<usize> = zeroed(components.list().singular_count(), WHAT)?;
    let mut found = 0;
    // Components are numbered in the order of their first cells.
    for row in 0..cells.rows() {
        if found == first.len() {
            break;
        }
        for (columns, component) in components.runs(row) {
            if component.and_then(|c| numbers[c]) == Some(found) {
                first[found] = row * cells.nx + columns.start;
                found += 1;
            }
        }
    }
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::components::ZERO_ROW_SUM;

    /// Boxes of strong couplings on 16 x 16 x 16 cells; the second and third grid have every second and every fourth
    /// cell.
    #[test]
    fn hidden_bubbles_are_counted() {
        let cells = Cells { nx: 16, ny: 16, nz: 16 };
        let boxes: [[Range<usize>; 3]; 4] = [
            // One point of the second grid, none of the third grid.
            [1..4, 1..4, 1..4],
            // Three points of the second grid: hidden between the points of the third grid.
            [9..16, 1..4, 1..4],
            // One point of the third grid, the last grid.
            [3..6, 11..14, 11..14],
            // No point of a coarse grid.
            [13..15, 9..10, 13..14],
        ];
        let bubble =
            |c: usize| boxes.iter().position(|b| cells.indices(c).iter().zip(b).all(|(i, side)| side.contains(i)));
        let (n, steps) = (cells.count(), cells.strides());
        let (mut center, mut forward) = (vec![0.0; n], [0, 1, 2].map(|_| vec![0.0; n]));
        for c in 0..n {
            for d in (0..3).filter(|&d| cells.indices(c)[d] + 1 < cells.size()[d]) {
                let next = c + steps[d];
                let strong = bubble(c).is_some() && bubble(c) == bubble(next);
                let coupling = if strong { 1.0 } else { 1e-3 };
                forward[d][c] = -coupling;
                center[c] += coupling;
                center[next] += coupling;
            }
        }
        let [x, y, z] = &forward;
        let a = SevenPoints { cells, center: &center, forward: [x, y, z] };
        let (found, survey) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
        assert_eq!(survey.strong, 4);
        assert_eq!(found.strong.hidden(cells, 64).unwrap(), 1);
        // With an additional coarser grid, the third box has no point of the last grid. It is not hidden, because the
        // previous grid has only one point in it.
        assert_eq!(found.strong.hidden(cells, 8).unwrap(), 1);
        // The second grid is the last grid.
        assert_eq!(found.strong.hidden(cells, 512).unwrap(), 0);
    }
}
