//! Connected components of a 7-point matrix, and which of them are singular. The null space of a singular component is
//! the constant vector. Also groups of cells that are connected by strong couplings.

use crate::base::isa::for_each_isa;
use crate::base::loops::add;
use crate::error::{Result, collected, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
#[cfg(test)]
use crate::stencil::components::ZERO_ROW_SUM;
use crate::stencil::joined::{CellBits, CellGroups, JoiningCouplings, any_bit_set};
use std::ops::Range;

/// Components of at least two cells. A cell without couplings (in an obstacle) belongs to no component.
#[derive(Clone, Debug, Default)]
pub struct CellComponents {
    /// Number of cells of each component, and the location of these cells.
    pub groups: CellGroups,
    /// For each component, whether |row sum| <= tolerance * center in all its rows.
    pub is_singular: Vec<bool>,
}

/// Components in the order of their first cells, without the location of the cells.
#[derive(Clone, Copy, Debug)]
pub struct ComponentList<'a> {
    /// Number of cells of each component.
    pub size: &'a [usize],
    /// Whether each component is singular.
    pub is_singular: &'a [bool],
}

impl ComponentList<'_> {
    /// Returns for each component its number among the singular components; `None` if it is regular.
    pub fn singular_numbers(&self) -> Result<Vec<Option<usize>>> {
        let mut next_number = 0;
        let number_singular = |&is_singular: &bool| {
            next_number += usize::from(is_singular);
            is_singular.then(|| next_number - 1)
        };
        collected(self.is_singular.iter().map(number_singular), "components")
    }

    /// Returns the number of components.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// Returns the number of singular components.
    pub fn singular_count(&self) -> usize {
        self.is_singular.iter().filter(|&&singular| singular).count()
    }
}

for_each_isa! {
    /// Returns the smallest nonzero magnitude, or infinity if there is none.
    fn smallest_magnitude(couplings: &[f64]) -> f64 {
        let mut lanes = [f64::INFINITY; 16];
        for couplings in couplings.chunks(16) {
            for (smallest, coupling) in lanes.iter_mut().zip(couplings) {
                let magnitude = coupling.abs();
                *smallest = if magnitude > 0.0 && magnitude < *smallest { magnitude } else { *smallest };
            }
        }
        lanes.into_iter().fold(f64::INFINITY, f64::min)
    }
}

/// Returns the values of row j + ny k, which consists of nx cells.
fn row_values(values: &[f64], nx: usize, row: usize) -> &[f64] {
    &values[row * nx..][..nx]
}

/// Computes the row sums of the matrix for the cells of row j + ny k.
pub fn row_sums(a: &SevenPoints, row: usize, sums: &mut [f64]) {
    let (nx, ny) = (a.cells.nx, a.cells.ny);
    let [east, north, top] = a.forward;
    sums.copy_from_slice(row_values(a.center, nx, row));
    add(sums, row_values(east, nx, row));
    add(&mut sums[1..], row_values(east, nx, row));
    add(sums, row_values(north, nx, row));
    if !row.is_multiple_of(ny) {
        add(sums, row_values(north, nx, row - 1));
    }
    add(sums, row_values(top, nx, row));
    if row >= ny {
        add(sums, row_values(top, nx, row - ny));
    }
}

/// A row sum below this fraction of the center is a rounding error of the sum of seven numbers.
const ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Computes the row sums of the matrix in row j + ny k of cells. Sets a row sum to zero if it is a rounding error, or
/// if its cell is in a singular component or has no couplings. Returns whether any row sum is nonzero.
pub fn regular_row_sums(a: &SevenPoints, components: &CellComponents, row: usize, sums: &mut [f64]) -> bool {
    let is_regular = |component: Option<usize>| component.is_some_and(|c| !components.is_singular[c]);
    if !components.runs(row).any(|(_, component)| is_regular(component)) {
        sums.fill(0.0);
        return false;
    }
    row_sums(a, row, sums);
    let center = row_values(a.center, a.cells.nx, row);
    for (run, component) in components.runs(row) {
        let is_regular = is_regular(component);
        for (sum, center) in sums[run.clone()].iter_mut().zip(&center[run]) {
            if !is_regular || sum.abs() <= ROUNDING * center {
                *sum = 0.0;
            }
        }
    }
    sums.iter().any(|&e| e != 0.0)
}

/// For some rows: which couplings are nonzero, and which row sums are nonzero. The components are determined from these
/// data.
#[derive(Clone, Debug, Default)]
pub struct ComponentRows {
    joining: JoiningCouplings,
    /// Cells with a nonzero row sum.
    regular_cells: CellBits,
}

impl ComponentRows {
    /// Computes the data of these rows (numbered j + ny k). A row sum counts as zero if its magnitude is at most
    /// `zero_row_sum` times the center.
    pub fn of_rows(a: &SevenPoints, zero_row_sum: f64, rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let joining = JoiningCouplings::of_rows(a, [0.0; 3], rows.clone())?;
        let mut regular_cells = CellBits::new(nx, rows.clone())?;
        let mut sums = zeroed(nx, "sums of a row")?;
        for row in rows {
            row_sums(a, row, &mut sums);
            regular_cells.set_beyond(row, &sums, row_values(a.center, nx, row), zero_row_sum);
        }
        Ok(Self { joining, regular_cells })
    }
}

impl CellComponents {
    /// Finds the components of a matrix. Row sums below `ZERO_ROW_SUM` times the center count as zero.
    #[cfg(test)]
    pub fn find(a: &SevenPoints) -> Result<Self> {
        Self::of_parts(a.cells, &[&ComponentRows::of_rows(a, ZERO_ROW_SUM, 0..a.cells.rows())?])
    }

    /// Returns a single component that contains all cells.
    pub fn one_component(cells: Cells, is_singular: bool) -> Result<Self> {
        Ok(Self { groups: CellGroups::one_group(cells)?, is_singular: collected([is_singular], "components")? })
    }

    /// Finds the components from the data of all rows. Each entry of `component_rows` contains a range of rows. The
    /// ranges follow one another and together contain every row.
    pub fn of_parts(cells: Cells, component_rows: &[&ComponentRows]) -> Result<Self> {
        let joining = collected(component_rows.iter().map(|rows| &rows.joining), "components")?;
        let groups = CellGroups::of_parts(cells, &joining)?;
        let mut is_singular: Vec<bool> = zeroed(groups.count(), "components")?;
        is_singular.fill(true);
        for rows in component_rows {
            for row in rows.regular_cells.rows() {
                let regular_bits = rows.regular_cells.row(row);
                if regular_bits.iter().all(|&bits| bits == 0) {
                    continue;
                }
                for (run, component) in groups.runs(row) {
                    if let Some(component) = component {
                        is_singular[component] &= !any_bit_set(regular_bits, run);
                    }
                }
            }
        }
        Ok(Self { groups, is_singular })
    }

    /// Returns the components without the location of their cells.
    pub fn component_list(&self) -> ComponentList<'_> {
        ComponentList { size: &self.groups.size, is_singular: &self.is_singular }
    }

    /// Returns the number of components.
    pub fn count(&self) -> usize {
        self.groups.count()
    }

    /// Returns the runs of row j + ny k from west to east, each as its columns and its component. Consecutive cells
    /// without couplings also form a run; its component is `None`.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        self.groups.runs(row)
    }
}

pub use crate::options::limits::STRONG_COUPLING_RATIO;

/// Groups of cells that strong couplings join, such as bubbles, or the air around drops. A coupling is strong if it is
/// large compared with the smallest coupling of the same direction. In a two-phase flow, the smallest coupling belongs
/// to the heavy phase. Since directions are treated separately, cells need not be cubes.
#[derive(Clone, Debug, Default)]
pub struct StrongGroups {
    /// The groups.
    pub groups: CellGroups,
    /// Smallest extent, in cells, of the bounding boxes of all groups; 0 if there is no group. Directions in which the
    /// whole domain has a single cell do not count.
    pub smallest_extent: usize,
}

impl StrongGroups {
    /// Finds the groups of a matrix.
    #[cfg(test)]
    pub fn find(a: &SevenPoints) -> Result<Self> {
        let strong_limits = Self::strong_limits(Self::smallest_couplings(a, 0..a.cells.rows()));
        Self::of_parts(a.cells, &[&JoiningCouplings::of_rows(a, strong_limits, 0..a.cells.rows())?])
    }

    /// Returns the smallest nonzero coupling of each direction in some rows.
    pub fn smallest_couplings(a: &SevenPoints, rows: Range<usize>) -> [f64; 3] {
        let nx = a.cells.nx;
        a.forward.map(|couplings| smallest_magnitude(&couplings[rows.start * nx..rows.end * nx]))
    }

    /// Returns for each direction the limit above which a coupling is strong. `smallest_couplings` contains the
    /// smallest nonzero coupling of each direction.
    pub fn strong_limits(smallest_couplings: [f64; 3]) -> [f64; 3] {
        smallest_couplings.map(|smallest_couplings| STRONG_COUPLING_RATIO * smallest_couplings)
    }

    /// Finds the groups from the strong couplings of all rows. Each entry of `joining_couplings` contains a range of
    /// rows. The ranges follow one another and together contain every row.
    pub fn of_parts(cells: Cells, joining_couplings: &[&JoiningCouplings]) -> Result<Self> {
        let groups = CellGroups::of_parts(cells, joining_couplings)?;
        let smallest_extent = find_smallest_extent(cells, &groups)?;
        Ok(Self { groups, smallest_extent })
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.groups.count()
    }

    /// Returns the number of groups that are hidden from the coarse grids. A group is hidden if a coarse grid has
    /// several points in it and the next coarser grid has none. On the next coarser grid, the group only causes
    /// strong couplings between the points around it. Coarse grid l has the cells whose indices are multiples of 2^l.
    /// The last grid has at most `max_coarsest_cells` cells.
    pub fn hidden_count(&self, cells: Cells, max_coarsest_cells: usize) -> Result<usize> {
        let grid_count = coarse_grid_count(cells, max_coarsest_cells);
        // For each group, the coarsest grid with points in the group, and the number of these points.
        let mut coarsest_points: Vec<(u32, usize)> = zeroed(self.count(), "coarse points of strong groups")?;
        for row in 0..cells.rows() {
            let max_grid = ((row % cells.ny) | (row / cells.ny)).trailing_zeros().min(grid_count);
            for (run, group) in self.groups.runs(row) {
                let Some(group) = group else { continue };
                let count_points = |grid: u32| ((run.end - 1) >> grid) + 1 - run.start.div_ceil(1 << grid);
                let grid = (0..=max_grid).rev().find(|&grid| count_points(grid) > 0).unwrap_or(0);
                let (finest_group_grid, count) = &mut coarsest_points[group];
                if grid >= *finest_group_grid {
                    *count = count_points(grid) + if grid == *finest_group_grid { *count } else { 0 };
                    *finest_group_grid = grid;
                }
            }
        }
        Ok(coarsest_points.into_iter().filter(|&(grid, count)| (1..grid_count).contains(&grid) && count > 1).count())
    }
}

/// Returns the number of coarse grids. Each has every second cell of the previous grid in each direction, and the last
/// has at most `max_coarsest_cells` cells.
pub fn coarse_grid_count(cells: Cells, max_coarsest_cells: usize) -> u32 {
    let (mut extents, mut grid_count) = (cells.size(), 0);
    while extents.iter().product::<usize>() > max_coarsest_cells {
        extents = extents.map(|n| n.div_ceil(2));
        grid_count += 1;
    }
    grid_count
}

/// Computes `StrongGroups::smallest_extent`.
fn find_smallest_extent(cells: Cells, groups: &CellGroups) -> Result<usize> {
    let mut low_corner = zeroed(groups.count(), "extents of strong groups")?;
    low_corner.fill([usize::MAX; 3]);
    let mut high_corner = zeroed(groups.count(), "extents of strong groups")?;
    high_corner.fill([0; 3]);
    for row in 0..cells.rows() {
        let (j, k) = (row % cells.ny, row / cells.ny);
        for (run, group) in groups.runs(row) {
            let Some(group) = group else { continue };
            for (d, (low, high)) in [(run.start, run.end), (j, j + 1), (k, k + 1)].into_iter().enumerate() {
                low_corner[group][d] = low_corner[group][d].min(low);
                high_corner[group][d] = high_corner[group][d].max(high);
            }
        }
    }
    let size = cells.size();
    let extents = low_corner
        .iter()
        .zip(&high_corner)
        .flat_map(|(low_corner, high_corner)| (0..3).map(|d| (d, high_corner[d] - low_corner[d])));
    Ok(extents.filter(|&(d, _)| size[d] > 1).map(|(_, extent)| extent).min().unwrap_or(0))
}
