//! Survey of a matrix before the factorization: properties on which the choice of the method depends, components,
//! groups of strong couplings, and deflation regions. The rows may be divided among threads. The result does not depend
//! on the number of threads.

use crate::base::isa::for_each_isa;
use crate::base::loops::max_abs;
use crate::base::reduce::{pairwise_sum, sum};
use crate::deflation::regions::{RegionChoice, RegionCounts, Regions};
use crate::error::{Result, collected, zeroed};
use crate::stencil::cell_components::{CellComponents, ComponentRows, StrongGroups};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::{
    MAX_COARSEST_CELLS, SEMICOARSENING_RATIO, has_uncoarsened_direction, strong_directions,
};
use crate::stencil::joined::JoiningCouplings;
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "the inspection of a matrix by rows";

pub use crate::options::limits::MAX_DEFLATED_COMPONENTS;

/// Properties of a matrix on which the choice of the method depends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Largest row sum of |L D^-1|, where D is the diagonal and L is the strictly lower triangle of A: the couplings
    /// to the west, south and bottom. If this row sum is below 1, the terms of the Neumann series decrease.
    pub neumann_row_sum: f64,
    /// For each direction: whether multigrid coarsens the finest grid in this direction.
    pub coarsened_directions: [bool; 3],
    /// Smallest value, over the three directions, of this ratio: smallest nonzero coupling / largest coupling in the
    /// direction. Descriptions of options and the reason `contrast` call this value the contrast of the couplings.
    pub coupling_ratio: f64,
    /// Number of connected components of two cells or more.
    pub component_count: usize,
    /// First cell of each singular component.
    pub singular_first_cells: Vec<usize>,
    /// Number of groups of cells that strong couplings join.
    pub strong_group_count: usize,
    /// Smallest extent, in cells, of the bounding boxes of these groups ([`StrongGroups::smallest_extent`]). A backend
    /// may return 0 if there are more than [`MAX_DEFLATED_COMPONENTS`] groups.
    pub thinnest_group: usize,
    /// Number of groups that are hidden from the coarse grids ([`StrongGroups::hidden_count`]). It is 0 if
    /// [`needs_hidden_groups`] is false.
    pub hidden_group_count: usize,
}

/// Returns whether the choice of the method depends on the number of hidden groups. This is the case if there are more
/// groups than deflation can use, or if the finest grid is not coarsened in a direction with more than one cell.
pub fn needs_hidden_groups(cells: Cells, coarsened_directions: [bool; 3], strong_group_count: usize) -> bool {
    strong_group_count > MAX_DEFLATED_COMPONENTS || has_uncoarsened_direction(cells, coarsened_directions)
}

/// Returns the smallest value, over the three directions, of smallest coupling / largest coupling. In a direction
/// without couplings, the arguments are infinity and zero; such a direction is ignored. Without any couplings, the
/// result is 1.
pub fn coupling_ratio(smallest_couplings: [f64; 3], largest_couplings: [f64; 3]) -> f64 {
    let ratio_of =
        |d: usize| if largest_couplings[d] > 0.0 { smallest_couplings[d] / largest_couplings[d] } else { 1.0 };
    [0, 1, 2].map(ratio_of).into_iter().fold(1.0, f64::min)
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
    smallest_couplings: [f64; 3],
    largest_couplings: [f64; 3],
    /// Largest row sum of |L D^-1| in these rows (see [`Survey::neumann_row_sum`]).
    neumann_row_sum: f64,
    /// `row_strengths[d][local_row]` is the sum of s / center over the cells of a row, where s is minus the sum of the
    /// couplings of the cell in direction d.
    row_strengths: [Vec<f64>; 3],
}

/// Returns the values of the cells in row `row` = j + ny k.
fn row_values(values: &[f64], nx: usize, row: usize) -> &[f64] {
    &values[row * nx..][..nx]
}

impl SurveyedRows {
    /// Surveys the rows in `rows`. The number of a row is j + ny k.
    pub fn of(a: &SevenPoints, zero_row_sum: f64, rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let mut surveyed = Self {
            components: ComponentRows::of_rows(a, zero_row_sum, rows.clone())?,
            smallest_couplings: StrongGroups::smallest_couplings(a, rows.clone()),
            largest_couplings: a.forward.map(|couplings| max_abs(&couplings[rows.start * nx..rows.end * nx])),
            neumann_row_sum: 0.0,
            row_strengths: [
                zeroed(rows.len(), ALLOCATION_NAME)?,
                zeroed(rows.len(), ALLOCATION_NAME)?,
                zeroed(rows.len(), ALLOCATION_NAME)?,
            ],
        };
        let mut cell_sums = zeroed(nx, ALLOCATION_NAME)?;
        for (local_row, row) in rows.enumerate() {
            surveyed.add_row(a, row, local_row, &mut cell_sums);
        }
        Ok(surveyed)
    }

    /// Surveys row `row` of cells: updates `neumann_row_sum`, and stores the sums of the row in `row_strengths` at
    /// index `local_row`. `cell_sums` is workspace for one value per cell of the row.
    fn add_row(&mut self, a: &SevenPoints, row: usize, local_row: usize, cell_sums: &mut [f64]) {
        let (nx, ny) = (a.cells.nx, a.cells.ny);
        let row_of = |values, row| row_values(values, nx, row);
        let center = row_of(a.center, row);
        let previous_rows = [None, (!row.is_multiple_of(ny)).then(|| row - 1), row.checked_sub(ny)];
        cell_sums.fill(0.0);
        add_quotients(&mut cell_sums[1..], row_of(a.forward[0], row), center);
        for (d, previous_row) in previous_rows.into_iter().enumerate() {
            if let Some(previous_row) = previous_row {
                add_quotients(cell_sums, row_of(a.forward[d], previous_row), row_of(a.center, previous_row));
            }
        }
        self.neumann_row_sum = self.neumann_row_sum.max(max_abs(cell_sums));
        for (d, previous_row) in previous_rows.into_iter().enumerate() {
            let forward = row_of(a.forward[d], row);
            cell_sums.fill(0.0);
            subtract_quotients(cell_sums, forward, center);
            if d == 0 {
                subtract_quotients(&mut cell_sums[1..], forward, &center[1..]);
            } else if let Some(previous_row) = previous_row {
                subtract_quotients(cell_sums, row_of(a.forward[d], previous_row), center);
            }
            self.row_strengths[d][local_row] = sum(cell_sums);
        }
    }

    /// Returns, for each direction, the limit above which a coupling is strong. `row_surveys` contains the results of
    /// all rows.
    pub fn strong_limits(row_surveys: &[Self]) -> [f64; 3] {
        StrongGroups::strong_limits(smallest_couplings_of(row_surveys))
    }
}

fn smallest_couplings_of(row_surveys: &[SurveyedRows]) -> [f64; 3] {
    [0, 1, 2].map(|d| {
        row_surveys.iter().fold(f64::INFINITY, |minimum, row_survey| minimum.min(row_survey.smallest_couplings[d]))
    })
}

/// Data of a matrix that a factorization needs in addition to [`Survey`].
#[derive(Debug, Default)]
pub struct SurveyData {
    /// Connected components.
    pub components: CellComponents,
    /// Groups of cells that strong couplings join.
    pub strong_groups: StrongGroups,
    /// Deflation regions; `None` without deflation.
    pub regions: Option<Regions>,
}

impl SurveyData {
    /// Surveys all rows.
    #[cfg(test)]
    pub fn of(a: &SevenPoints, zero_row_sum: f64) -> Result<(Self, Survey)> {
        let rows = 0..a.cells.rows();
        let row_surveys = [SurveyedRows::of(a, zero_row_sum, rows.clone())?];
        let joining_couplings = [JoiningCouplings::of_rows(a, SurveyedRows::strong_limits(&row_surveys), rows)?];
        Self::from_row_surveys(a.cells, &row_surveys, &joining_couplings)
    }

    /// Combines the results of all threads. `row_surveys` contains the results of `SurveyedRows::of`, and
    /// `joining_couplings` those of `JoiningCouplings::of_rows`. Both are in the order of the rows.
    pub fn from_row_surveys(
        cells: Cells,
        row_surveys: &[SurveyedRows],
        joining_couplings: &[JoiningCouplings],
    ) -> Result<(Self, Survey)> {
        let components = CellComponents::of_parts(
            cells,
            &collected(row_surveys.iter().map(|row_survey| &row_survey.components), ALLOCATION_NAME)?,
        )?;
        let strong_groups = StrongGroups::of_parts(cells, &collected(joining_couplings.iter(), ALLOCATION_NAME)?)?;
        let mut direction_strengths = [0.0; 3];
        for (d, strength) in direction_strengths.iter_mut().enumerate() {
            let row_strengths = collected(
                row_surveys.iter().flat_map(|row_survey| row_survey.row_strengths[d].iter().copied()),
                ALLOCATION_NAME,
            )?;
            *strength = pairwise_sum(&row_strengths);
        }
        let largest_couplings = [0, 1, 2].map(|d| {
            row_surveys.iter().fold(0.0, |maximum: f64, row_survey| maximum.max(row_survey.largest_couplings[d]))
        });
        let coarsened_directions = strong_directions(cells, direction_strengths, SEMICOARSENING_RATIO);
        let counts_hidden_groups = needs_hidden_groups(cells, coarsened_directions, strong_groups.count());
        let survey = Survey {
            neumann_row_sum: row_surveys
                .iter()
                .fold(0.0, |maximum, row_survey| maximum.max(row_survey.neumann_row_sum)),
            coarsened_directions,
            coupling_ratio: coupling_ratio(smallest_couplings_of(row_surveys), largest_couplings),
            component_count: components.count(),
            singular_first_cells: first_cells_of_singular(cells, &components)?,
            strong_group_count: strong_groups.count(),
            thinnest_group: strong_groups.smallest_extent,
            hidden_group_count: if counts_hidden_groups {
                strong_groups.hidden_count(cells, MAX_COARSEST_CELLS)?
            } else {
                0
            },
        };
        Ok((Self { components, strong_groups, regions: None }, survey))
    }

    /// Computes and stores the deflation regions, and returns the numbers of vectors and regions.
    pub fn find_regions(&mut self, a: &SevenPoints, choice: &RegionChoice) -> Result<RegionCounts> {
        let regions = Regions::find(a, &self.components, &self.strong_groups, choice)?;
        let (region_counts, regions) = regions.with_counts();
        self.regions = regions;
        Ok(region_counts)
    }
}

fn first_cells_of_singular(cells: Cells, components: &CellComponents) -> Result<Vec<usize>> {
    let singular_numbers = components.component_list().singular_numbers()?;
    let mut first_cells: Vec<usize> = zeroed(components.component_list().singular_count(), ALLOCATION_NAME)?;
    let mut region_count = 0;
    // Components are numbered in the order of their first cells.
    for row in 0..cells.rows() {
        if region_count == first_cells.len() {
            break;
        }
        for (columns, component) in components.runs(row) {
            if component.and_then(|c| singular_numbers[c]) == Some(region_count) {
                first_cells[region_count] = row * cells.nx + columns.start;
                region_count += 1;
            }
        }
    }
    Ok(first_cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::components::ZERO_ROW_SUM;

    /// Counts hidden groups of a matrix on 16 x 16 x 16 cells, in which four boxes have strong couplings. The second
    /// grid has every second cell, and the third grid has every fourth cell.
    #[test]
    fn hidden_bubbles_are_counted() {
        let cells = Cells { nx: 16, ny: 16, nz: 16 };
        let bubble_boxes: [[Range<usize>; 3]; 4] = [
            // The box contains one point of the second grid, and none of the third grid.
            [1..4, 1..4, 1..4],
            // The box contains three points of the second grid, and none of the third grid: it is hidden.
            [9..16, 1..4, 1..4],
            // The box contains one point of the third grid, which is the last grid.
            [3..6, 11..14, 11..14],
            // The box contains no point of a coarse grid.
            [13..15, 9..10, 13..14],
        ];
        let bubble_of = |c: usize| {
            bubble_boxes
                .iter()
                .position(|bubble_box| cells.indices(c).iter().zip(bubble_box).all(|(i, range)| range.contains(i)))
        };
        let (n, strides) = (cells.count(), cells.strides());
        let (mut center, mut forward) = (vec![0.0; n], [0, 1, 2].map(|_| vec![0.0; n]));
        for c in 0..n {
            for d in (0..3).filter(|&d| cells.indices(c)[d] + 1 < cells.size()[d]) {
                let neighbour = c + strides[d];
                let is_strong = bubble_of(c).is_some() && bubble_of(c) == bubble_of(neighbour);
                let coupling = if is_strong { 1.0 } else { 1e-3 };
                forward[d][c] = -coupling;
                center[c] += coupling;
                center[neighbour] += coupling;
            }
        }
        let [x, y, z] = &forward;
        let a = SevenPoints { cells, center: &center, forward: [x, y, z] };
        let (survey_data, survey) = SurveyData::of(&a, ZERO_ROW_SUM).unwrap();
        assert_eq!(survey.strong_group_count, 4);
        assert_eq!(survey_data.strong_groups.hidden_count(cells, 64).unwrap(), 1);
        // If there is a fourth grid, the third box contains no point of the last grid. This box is not hidden, because
        // it contains only one point of the third grid.
        assert_eq!(survey_data.strong_groups.hidden_count(cells, 8).unwrap(), 1);
        // If the second grid is the last grid, no box is hidden.
        assert_eq!(survey_data.strong_groups.hidden_count(cells, 512).unwrap(), 0);
    }
}
