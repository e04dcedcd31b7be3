//! Connected components of a 7-point matrix, and which of them are singular. The null space of a singular component is
//! the constant vector. Also groups of cells that are connected by strong couplings.

use crate::base::isa::for_each_isa;
use crate::base::loops::add;
use crate::error::{Result, collected, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
#[cfg(test)]
use crate::stencil::components::ZERO_ROW_SUM;
use crate::stencil::joined::{Bits, CellGroups, JoiningCouplings, any_of};
use std::ops::Range;

/// Components of at least two cells. A cell without couplings (in an obstacle) belongs to no component.
#[derive(Clone, Debug, Default)]
pub struct CellComponents {
    /// Number of cells of each component, and the location of these cells.
    pub joined: CellGroups,
    /// For each component, whether |row sum| <= tolerance * center in all its rows.
    pub singular: Vec<bool>,
}

/// Components in the order of their first cells, without the location of the cells.
#[derive(Clone, Copy, Debug)]
pub struct ComponentList<'a> {
    /// Number of cells of each component.
    pub size: &'a [usize],
    /// Whether each component is singular.
    pub singular: &'a [bool],
}

impl ComponentList<'_> {
    /// Returns for each component its number among the singular components; `None` if it is regular.
    pub fn singular_numbers(&self) -> Result<Vec<Option<usize>>> {
        let mut next = 0;
        let number = |&singular: &bool| {
            next += usize::from(singular);
            singular.then(|| next - 1)
        };
        collected(self.singular.iter().map(number), "components")
    }

    /// Returns the number of components.
    pub fn count(&self) -> usize {
        self.size.len()
    }

    /// Returns the number of singular components.
    pub fn singular_count(&self) -> usize {
        self.singular.iter().filter(|&&singular| singular).count()
    }
}

for_each_isa! {
    /// Returns the smallest nonzero magnitude, or infinity if there is none.
    fn smallest_magnitude(couplings: &[f64]) -> f64 {
        let mut lanes = [f64::INFINITY; 16];
        for couplings in couplings.chunks(16) {
            for (least, coupling) in lanes.iter_mut().zip(couplings) {
                let size = coupling.abs();
                *least = if size > 0.0 && size < *least { size } else { *least };
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
    let is_regular = |component: Option<usize>| component.is_some_and(|c| !components.singular[c]);
    if !components.runs(row).any(|(_, component)| is_regular(component)) {
        sums.fill(0.0);
        return false;
    }
    row_sums(a, row, sums);
    let center = row_values(a.center, a.cells.nx, row);
    for (run, component) in components.runs(row) {
        let regular = is_regular(component);
        for (sum, center) in sums[run.clone()].iter_mut().zip(&center[run]) {
            if !regular || sum.abs() <= ROUNDING * center {
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
    joins: JoiningCouplings,
    /// Cells with a nonzero row sum.
    regular: Bits,
}

impl ComponentRows {
    /// Computes the data of the rows j + ny k.
    pub fn of_rows(a: &SevenPoints, zero_row_sum: f64, rows: Range<usize>) -> Result<Self> {
        let nx = a.cells.nx;
        let joins = JoiningCouplings::of_rows(a, [0.0; 3], rows.clone())?;
        let mut regular = Bits::new(nx, rows.clone())?;
        let mut sums = zeroed(nx, "sums of a row")?;
        for row in rows {
            row_sums(a, row, &mut sums);
            regular.set_beyond(row, &sums, row_values(a.center, nx, row), zero_row_sum);
        }
        Ok(Self { joins, regular })
    }
}

impl CellComponents {
    /// Finds the components of a matrix. Row sums below `ZERO_ROW_SUM` times the center count as zero.
    #[cfg(test)]
    pub fn find(a: &SevenPoints) -> Result<Self> {
        Self::of_parts(a.cells, &[&ComponentRows::of_rows(a, ZERO_ROW_SUM, 0..a.cells.rows())?])
    }

    /// Returns one component of all cells.
    pub fn whole(cells: Cells, singular: bool) -> Result<Self> {
        Ok(Self { joined: CellGroups::whole(cells)?, singular: collected([singular], "components")? })
    }

    /// Finds the components from the data of all rows. `parts` contain consecutive ranges of rows, in order.
    pub fn of_parts(cells: Cells, parts: &[&ComponentRows]) -> Result<Self> {
        let joins = collected(parts.iter().map(|part| &part.joins), "components")?;
        let joined = CellGroups::of_parts(cells, &joins)?;
        let mut singular: Vec<bool> = zeroed(joined.count(), "components")?;
        singular.fill(true);
        for part in parts {
            for row in part.regular.rows() {
                let regular = part.regular.row(row);
                if regular.iter().all(|&bits| bits == 0) {
                    continue;
                }
                for (run, component) in joined.runs(row) {
                    if let Some(component) = component {
                        singular[component] &= !any_of(regular, run);
                    }
                }
            }
        }
        Ok(Self { joined, singular })
    }

    /// Returns the components without the location of their cells.
    pub fn list(&self) -> ComponentList<'_> {
        ComponentList { size: &self.joined.size, singular: &self.singular }
    }

    /// Returns the number of components.
    pub fn count(&self) -> usize {
        self.joined.count()
    }

    /// Returns the runs of row j + ny k, each as its columns and its component. The component is `None` for cells
    /// without couplings.
    pub fn runs(&self, row: usize) -> impl Iterator<Item = (Range<usize>, Option<usize>)> + '_ {
        self.joined.runs(row)
    }
}

pub use crate::options::limits::STRONG_COUPLING_RATIO;

/// Groups of cells that strong couplings join, such as bubbles, or the air around drops. A coupling is strong if it is
/// large compared with the smallest coupling of the same direction. In a two-phase flow, the smallest coupling belongs
/// to the heavy phase. Since directions are treated separately, cells need not be cubes.
#[derive(Clone, Debug, Default)]
pub struct StrongGroups {
    /// The groups.
    pub joined: CellGroups,
    /// Smallest extent, in cells, of the bounding boxes of all groups; 0 if there is no group. Directions in which the
    /// box has a single cell do not count.
    pub thinnest: usize,
}

impl StrongGroups {
    /// Finds the groups of a matrix.
    #[cfg(test)]
    pub fn find(a: &SevenPoints) -> Result<Self> {
        let limits = Self::limits(Self::smallest_couplings(a, 0..a.cells.rows()));
        Self::of_parts(a.cells, &[&JoiningCouplings::of_rows(a, limits, 0..a.cells.rows())?])
    }

    /// Returns the smallest nonzero coupling of each direction in some rows.
    pub fn smallest_couplings(a: &SevenPoints, rows: Range<usize>) -> [f64; 3] {
        let nx = a.cells.nx;
        a.forward.map(|couplings| smallest_magnitude(&couplings[rows.start * nx..rows.end * nx]))
    }

    /// Returns for each direction the limit above which a coupling is strong. `heavy` contains the smallest nonzero
    /// coupling of each direction.
    pub fn limits(heavy: [f64; 3]) -> [f64; 3] {
        heavy.map(|heavy| STRONG_COUPLING_RATIO * heavy)
    }

    /// Finds the groups from the strong couplings of all rows. `parts` contain consecutive ranges of rows, in order.
    pub fn of_parts(cells: Cells, parts: &[&JoiningCouplings]) -> Result<Self> {
        let joined = CellGroups::of_parts(cells, parts)?;
        let thinnest = thinnest(cells, &joined)?;
        Ok(Self { joined, thinnest })
    }

    /// Returns the number of groups.
    pub fn count(&self) -> usize {
        self.joined.count()
    }

    /// Returns the number of groups that are hidden from the coarse grids. A group is hidden if a coarse grid has
    /// several points in it and the next coarser grid has none. On the next coarser grid, the group only causes
    /// strong couplings between the points around it. Coarse grid l has the cells whose indices are multiples of 2^l.
    /// The last grid has at most `coarsest` cells.
    pub fn hidden(&self, cells: Cells, coarsest: usize) -> Result<usize> {
        let last = coarse_grids(cells, coarsest);
        // For each group, the coarsest grid with points in the group, and the number of these points.
        let mut seen: Vec<(u32, usize)> = zeroed(self.count(), "coarse points of strong groups")?;
        for row in 0..cells.rows() {
            let most = ((row % cells.ny) | (row / cells.ny)).trailing_zeros().min(last);
            for (run, group) in self.joined.runs(row) {
                let Some(group) = group else { continue };
                let points = |grid: u32| ((run.end - 1) >> grid) + 1 - run.start.div_ceil(1 << grid);
                let grid = (0..=most).rev().find(|&grid| points(grid) > 0).unwrap_or(0);
                let (of_group, count) = &mut seen[group];
                if grid >= *of_group {
                    *count = points(grid) + if grid == *of_group { *count } else { 0 };
                    *of_group = grid;
                }
            }
        }
        Ok(seen.into_iter().filter(|&(grid, count)| (1..last).contains(&grid) && count > 1).count())
    }
}

/// Returns the number of coarse grids. Each has every second cell of the previous grid in each direction, and the last
/// has at most `coarsest` cells.
pub fn coarse_grids(cells: Cells, coarsest: usize) -> u32 {
    let (mut size, mut grids) = (cells.size(), 0);
    while size.iter().product::<usize>() > coarsest {
        size = size.map(|n| n.div_ceil(2));
        grids += 1;
    }
    grids
}

/// Computes `StrongGroups::thinnest`.
fn thinnest(cells: Cells, joined: &CellGroups) -> Result<usize> {
    let mut first = zeroed(joined.count(), "extents of strong groups")?;
    first.fill([usize::MAX; 3]);
    let mut last = zeroed(joined.count(), "extents of strong groups")?;
    last.fill([0; 3]);
    for row in 0..cells.rows() {
        let (j, k) = (row % cells.ny, row / cells.ny);
        for (run, group) in joined.runs(row) {
            let Some(group) = group else { continue };
            for (d, (low, high)) in [(run.start, run.end), (j, j + 1), (k, k + 1)].into_iter().enumerate() {
                first[group][d] = first[group][d].min(low);
                last[group][d] = last[group][d].max(high);
            }
        }
    }
    let size = cells.size();
    let sides = first.iter().zip(&last).flat_map(|(first, last)| (0..3).map(|d| (d, last[d] - first[d])));
    Ok(sides.filter(|&(d, _)| size[d] > 1).map(|(_, side)| side).min().unwrap_or(0))
}
