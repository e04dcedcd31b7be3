//! What is found in a matrix before it is factorized: the numbers that choices depend on, components, groups of strong
//! couplings, and deflation regions of these. Rows may be shared; the answers are the same for any shares.

use crate::error::{Result, collected, zeroed};
use crate::grid::cell_components::{CellComponents, ComponentRows, Strong};
use crate::grid::cells::{Cells, SevenPoints};
use crate::grid::joined::Joins;
use crate::grid::regions::{Choice, RegionCount, Regions};
use crate::isa::for_each_isa;
use crate::runtime::reduce::{max_abs, pairwise, sum};
use std::ops::Range;

/// For errors.
const ROWS: &str = "the inspection of a matrix by rows";

pub use crate::options::limits::{MANY_COMPONENTS as MANY, SEMI};

/// Numbers that choices depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Largest sum of |L D^-1| over a row, L the entries to west, south and bottom: below 1 the Neumann series
    /// converges.
    pub row_sum: f64,
    /// Which directions multigrid coarsens on the finest grid.
    pub coarsened: [bool; 3],
    /// The smallest coupling over the largest one of the same direction: how far the phases are apart.
    pub contrast: f64,
    /// Connected components of two cells or more.
    pub components: usize,
    /// The first cell of each singular one.
    pub singular: Vec<usize>,
    /// Groups of cells that strong couplings join.
    pub strong: usize,
    /// The fewest cells that one of them extends over, as [`Strong::thinnest`]; of many groups a backend need not say.
    pub thinnest: usize,
    /// Those that are [`Strong::hidden`], where [`asks_for_hidden`]; else 0.
    pub hidden: usize,
}

/// Points of the coarsest grid of multigrid at most.
pub const COARSEST: usize = 1000;

/// Whether a choice depends on groups that coarse grids do not see: there are more than deflation takes, or a direction
/// of the cells is not coarsened at first.
pub fn asks_for_hidden(cells: Cells, coarsened: [bool; 3], strong: usize) -> bool {
    strong > MANY || is_flat(cells, coarsened)
}

/// A direction of the cells is not coarsened at first.
pub fn is_flat(cells: Cells, coarsened: [bool; 3]) -> bool {
    (0..3).any(|d| cells.size()[d] > 1 && !coarsened[d])
}

/// With e_d the sum over rows of the couplings in direction d over the center, directions of more than one cell with
/// SEMI e_d >= max e.
pub fn coarsened(cells: Cells, strength: [f64; 3]) -> [bool; 3] {
    let most = strength.into_iter().fold(0.0, f64::max);
    [0, 1, 2].map(|d| cells.size()[d] > 1 && SEMI * strength[d] >= most)
}

/// Of the smallest and the largest coupling in each direction, infinite and zero where there are none.
pub fn contrast(smallest: [f64; 3], largest: [f64; 3]) -> f64 {
    let of = |d: usize| if largest[d] > 0.0 { smallest[d] / largest[d] } else { 1.0 };
    [0, 1, 2].map(of).into_iter().fold(1.0, f64::min)
}

for_each_isa! {
    /// sums_i += |couplings_i| / center_i.
    fn add_quotients(sums: &mut [f64], couplings: &[f64], center: &[f64]) {
        for ((sum, coupling), center) in sums.iter_mut().zip(couplings).zip(center) {
            *sum += coupling.abs() / center;
        }
    }

    /// out_i -= couplings_i / center_i.
    fn subtract_quotients(out: &mut [f64], couplings: &[f64], center: &[f64]) {
        for ((out, coupling), center) in out.iter_mut().zip(couplings).zip(center) {
            *out -= coupling / center;
        }
    }

    /// max |a|.
    fn largest(a: &[f64]) -> f64 {
        max_abs(a)
    }
}

/// What is found in some rows.
#[derive(Clone, Debug, Default)]
pub struct SurveyedRows {
    components: ComponentRows,
    smallest: [f64; 3],
    largest: [f64; 3],
    row_sum: f64,
    /// Of each row the sums of couplings over the center.
    strength: [Vec<f64>; 3],
}

/// The part of a row of cells, j + ny k.
fn along(values: &[f64], nx: usize, row: usize) -> &[f64] {
    &values[row * nx..][..nx]
}

impl SurveyedRows {
    /// Of rows j + ny k.
    pub fn of(a: &SevenPoints, zero_row_sum: f64, rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let mut found = Self {
            components: ComponentRows::of_rows(a, zero_row_sum, rows.clone())?,
            smallest: Strong::heavy(a, rows.clone()),
            largest: a.forward.map(|couplings| largest(&couplings[rows.start * nx..rows.end * nx])),
            row_sum: 0.0,
            strength: [zeroed(rows.len(), ROWS)?, zeroed(rows.len(), ROWS)?, zeroed(rows.len(), ROWS)?],
        };
        let mut of_row = zeroed(nx, ROWS)?;
        for (at, row) in rows.enumerate() {
            found.look(a, row, at, &mut of_row);
        }
        Ok(found)
    }

    /// Looks at couplings over the center of row `row`, which is number `at` of these.
    fn look(&mut self, a: &SevenPoints, row: usize, at: usize, of_row: &mut [f64]) {
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

    /// Couplings above these are strong, of parts that have all rows.
    pub fn limits(parts: &[Self]) -> [f64; 3] {
        Strong::limits(smallest_of(parts))
    }
}

fn smallest_of(parts: &[SurveyedRows]) -> [f64; 3] {
    [0, 1, 2].map(|d| parts.iter().fold(f64::INFINITY, |least, part| least.min(part.smallest[d])))
}

/// What a factorization needs of a matrix beside the numbers.
#[derive(Debug, Default)]
pub struct Found {
    /// Connected components.
    pub components: CellComponents,
    /// Groups of strong couplings.
    pub strong: Strong,
    /// Deflation regions, where some are wanted and found.
    pub regions: Option<Regions>,
}

impl Found {
    /// Looks at all rows.
    pub fn of(a: &SevenPoints, zero_row_sum: f64) -> Result<(Self, Survey)> {
        let rows = 0..a.cells.rows();
        let parts = [SurveyedRows::of(a, zero_row_sum, rows.clone())?];
        let joins = [Joins::of_rows(a, SurveyedRows::limits(&parts), rows)?];
        Self::of_parts(a.cells, &parts, &joins)
    }

    /// The same of parts that have all rows, in order, and their strong couplings.
    pub fn of_parts(cells: Cells, parts: &[SurveyedRows], strong: &[Joins]) -> Result<(Self, Survey)> {
        let components = CellComponents::of_parts(cells, &collected(parts.iter().map(|part| &part.components), ROWS)?)?;
        let strong = Strong::of_parts(cells, &collected(strong.iter(), ROWS)?)?;
        let mut strength = [0.0; 3];
        for (d, strength) in strength.iter_mut().enumerate() {
            let of_rows = collected(parts.iter().flat_map(|part| part.strength[d].iter().copied()), ROWS)?;
            *strength = pairwise(&of_rows);
        }
        let most = [0, 1, 2].map(|d| parts.iter().fold(0.0, |most: f64, part| most.max(part.largest[d])));
        let coarsened = coarsened(cells, strength);
        let asks = asks_for_hidden(cells, coarsened, strong.count());
        let survey = Survey {
            row_sum: parts.iter().fold(0.0, |most, part| most.max(part.row_sum)),
            coarsened,
            contrast: contrast(smallest_of(parts), most),
            components: components.count(),
            singular: first_cells_of_singular(cells, &components)?,
            strong: strong.count(),
            thinnest: strong.thinnest,
            hidden: if asks { strong.hidden(cells, COARSEST)? } else { 0 },
        };
        Ok((Self { components, strong, regions: None }, survey))
    }

    /// Finds deflation regions, and says how many.
    pub fn find_regions(&mut self, a: &SevenPoints, choice: &Choice) -> Result<RegionCount> {
        let regions = Regions::find(a, &self.components, &self.strong, choice)?;
        let (count, regions) = regions.counted();
        self.regions = regions;
        Ok(count)
    }
}

fn first_cells_of_singular(cells: Cells, components: &CellComponents) -> Result<Vec<usize>> {
    let numbers = components.list().singular_numbers()?;
    let mut first: Vec<usize> = zeroed(components.list().singular_count(), ROWS)?;
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
    use crate::grid::components::ZERO_ROW_SUM;

    /// Boxes of strong couplings on 16 x 16 x 16 cells, of which coarse grids have every second and every fourth.
    #[test]
    fn bubbles_hide_between_the_points_of_a_coarse_grid() {
        let cells = Cells { nx: 16, ny: 16, nz: 16 };
        let boxes: [[Range<usize>; 3]; 4] = [
            // One point of the second grid, none of the third.
            [1..4, 1..4, 1..4],
            // Three: between those of the third this one is hidden.
            [9..16, 1..4, 1..4],
            // One of the third, the last one.
            [3..6, 11..14, 11..14],
            // None of any coarse grid.
            [13..15, 9..10, 13..14],
        ];
        let bubble =
            |c: usize| boxes.iter().position(|b| cells.place(c).iter().zip(b).all(|(i, side)| side.contains(i)));
        let (n, steps) = (cells.count(), cells.steps());
        let (mut center, mut forward) = (vec![0.0; n], [0, 1, 2].map(|_| vec![0.0; n]));
        for c in 0..n {
            for d in (0..3).filter(|&d| cells.place(c)[d] + 1 < cells.size()[d]) {
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
        let (found, survey) = Found::of(&a, ZERO_ROW_SUM).unwrap();
        assert_eq!(survey.strong, 4);
        assert_eq!(found.strong.hidden(cells, 64).unwrap(), 1);
        // With a coarser one below, the third box is seen by one point of a grid that is not the last.
        assert_eq!(found.strong.hidden(cells, 8).unwrap(), 1);
        // The second grid is the last.
        assert_eq!(found.strong.hidden(cells, 512).unwrap(), 0);
    }
}
