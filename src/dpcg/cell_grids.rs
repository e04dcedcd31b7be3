//! Coarse grids of the multigrid with cell coarsening: their 7-point matrices, and the solver on the coarsest grid.

use crate::base::number::{Real, power_of_two_below};
use crate::base::reduce::{max_abs, pairwise_sum};
use crate::direct::couplings::Couplings;
use crate::direct::null_space::NearlySingularComponents;
use crate::direct::solver::{DirectSolver, box_order};
use crate::error::{Error, Result, reserve, reset, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::{cell_ratio, coarse_cells};
use crate::stencil::components::ZERO_ROW_SUM;
use std::ops::Range;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "coarse grids of the multigrid";

/// Matrix of a grid.
#[derive(Clone, Copy)]
pub struct GridMatrix<'a, T> {
    /// Extents.
    pub cells: Cells,
    /// Diagonal.
    pub center: &'a [T],
    /// Entries between a cell and the next cell in each direction; zero at the boundary of the box.
    pub forward: [&'a [T]; 3],
}

impl<'a> GridMatrix<'a, f64> {
    /// Wraps the caller's matrix.
    pub fn finest(a: &SevenPoints<'a>) -> Self {
        Self { cells: a.cells, center: a.center, forward: a.forward }
    }
}

impl<T: Real> GridMatrix<'_, T> {
    /// Returns the matrix entries between a cell and the previous and the next cell in x, y and z, and the indices of
    /// these cells. Cells outside the box are omitted.
    pub fn couplings(&self, cell: usize) -> impl DoubleEndedIterator<Item = (T, usize)> + '_ {
        let (indices, size, strides) = (self.cells.indices(cell), self.cells.size(), self.cells.strides());
        (0..3).flat_map(move |d| {
            let to_previous = (indices[d] > 0).then(|| (self.forward[d][cell - strides[d]], cell - strides[d]));
            let to_next = (indices[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + strides[d]));
            to_previous.into_iter().chain(to_next)
        })
    }

    /// Returns the matrix in row-sum form, with the given `row_sums`. If the diagonal entry that results from a row
    /// sum is not positive, the row sum is computed from the center instead.
    pub fn in_row_sum_form(&self, row_sums: &[f64]) -> Result<Couplings> {
        let mut matrix = Couplings::with_capacity(self.cells.count(), 6 * self.cells.count())?;
        for (cell, &row_sum) in row_sums.iter().enumerate() {
            let couplings = || self.couplings(cell).map(|(value, neighbour)| (-value.to_f64(), neighbour));
            let coupling_sum: f64 = couplings().map(|(a, _)| a).sum();
            let lower_couplings = couplings().rev().filter(|&(_, neighbour)| neighbour < cell);
            let row_couplings = lower_couplings.chain(couplings().filter(|&(_, neighbour)| neighbour > cell));
            row_couplings.filter(|(a, _)| *a != 0.0).for_each(|(a, neighbour)| matrix.push(neighbour, a));
            matrix.end_exact_row(if row_sum + coupling_sum > 0.0 {
                row_sum
            } else {
                self.center[cell].to_f64() - coupling_sum
            });
        }
        Ok(matrix)
    }
}

/// A coarse grid and its matrix.
pub struct Grid<T> {
    /// Extents.
    pub cells: Cells,
    /// Number of fine cells per coarse cell in each direction.
    pub coarsening_ratio: [usize; 3],
    center: Vec<T>,
    forward: [Vec<T>; 3],
}

/// For each cell of a row: minus the sum of its couplings in x, in y and in z.
struct RowCouplingSums([Vec<f64>; 3]);

impl RowCouplingSums {
    fn new(nx: usize) -> Result<Self> {
        Ok(Self([zeroed(nx, ALLOCATION_NAME)?, zeroed(nx, ALLOCATION_NAME)?, zeroed(nx, ALLOCATION_NAME)?]))
    }

    /// Computes the sums for row `row` = j + ny k. Returns the cells of this row.
    fn sum_row<T: Real>(&mut self, cells: Cells, forward: [&[T]; 3], row: usize) -> Range<usize> {
        let row_cells = row * cells.nx..(row + 1) * cells.nx;
        for (d, sums) in self.0.iter_mut().enumerate() {
            let next_couplings = &forward[d][row_cells.clone()];
            sums.iter_mut().zip(next_couplings).for_each(|(sum, coupling)| *sum = -coupling.to_f64());
            let has_previous_row = [true, !row.is_multiple_of(cells.ny), row >= cells.ny][d];
            let previous_couplings = match d {
                0 => &next_couplings[..cells.nx - 1],
                _ if has_previous_row => &forward[d][row_cells.start - cells.strides()[d]..][..cells.nx],
                _ => &[],
            };
            let first_index = usize::from(d == 0);
            sums[first_index..]
                .iter_mut()
                .zip(previous_couplings)
                .for_each(|(sum, coupling)| *sum -= coupling.to_f64());
        }
        row_cells
    }

    fn cell_sum(&self, i: usize) -> f64 {
        let [x, y, z] = &self.0;
        x[i] + y[i] + z[i]
    }

    /// Returns whether a cell has couplings. The row sum of a cell without couplings is not added to the coarse grid,
    /// because the smoother solves the equation of this cell.
    fn has_couplings(&self, i: usize) -> bool {
        self.0.iter().any(|v| v[i] != 0.0)
    }
}

/// Computes the strength of each direction: the sum over all cells of |s| / center, where s is the sum of the
/// off-diagonal entries of the cell in this direction. For each cell, calls `center_of(cell, sum, has_couplings)`,
/// which must return the center. `sum` is the negative sum of all off-diagonal entries of the cell, and `has_couplings`
/// states whether s is nonzero in some direction.
fn compute_strengths<T: Real>(
    cells: Cells,
    forward: [&[T]; 3],
    mut center_of: impl FnMut(usize, f64, bool) -> f64,
) -> Result<[f64; 3]> {
    let mut coupling_sums = RowCouplingSums::new(cells.nx)?;
    let mut row_strengths: [Vec<f64>; 3] = [
        zeroed(cells.rows(), ALLOCATION_NAME)?,
        zeroed(cells.rows(), ALLOCATION_NAME)?,
        zeroed(cells.rows(), ALLOCATION_NAME)?,
    ];
    for row in 0..cells.rows() {
        let mut sums = [0.0; 3];
        for (i, cell) in coupling_sums.sum_row(cells, forward, row).enumerate() {
            let center = center_of(cell, coupling_sums.cell_sum(i), coupling_sums.has_couplings(i));
            (0..3).for_each(|d| sums[d] += coupling_sums.0[d][i].abs() / center);
        }
        row_strengths.iter_mut().zip(sums).for_each(|(strength, sum)| strength[row] = sum);
    }
    Ok(row_strengths.map(|rows| pairwise_sum(&rows)))
}

/// Computes the row sums of the caller's matrix. Sets a row sum to zero if it is at most `ZERO_ROW_SUM` times the
/// center (this includes all negative row sums), or if the cell has no couplings. Returns the strength of each
/// direction.
fn compute_finest_row_sums(a: &SevenPoints, row_sums: &mut [f64]) -> Result<[f64; 3]> {
    compute_strengths(a.cells, a.forward, |cell, coupling_sum, has_couplings| {
        let center = a.center[cell];
        let row_sum = center - coupling_sum;
        row_sums[cell] = if has_couplings && row_sum > ZERO_ROW_SUM * center { row_sum } else { 0.0 };
        center
    })
}

impl<T: Real> Grid<T> {
    /// Computes the next coarser grid except its center, which `set_center` computes. The entries of the coarse matrix
    /// are divided by `divisor`. `row_sums` contains the fine row sums on entry, and the coarse row sums on return.
    fn coarsen<F: Real>(
        fine: GridMatrix<F>,
        coarsening_ratio: [usize; 3],
        row_sums: &mut Vec<f64>,
        divisor: f64,
    ) -> Result<Self> {
        let (size, cells) = (fine.cells.size(), coarse_cells(fine.cells, coarsening_ratio));
        let Cells { nx, ny, .. } = cells;
        let mut grid = Self {
            cells,
            coarsening_ratio,
            center: zeroed(cells.count(), ALLOCATION_NAME)?,
            forward: [(); 3].map(|()| Vec::new()),
        };
        let coarse_row_start = |row: usize| {
            (row / fine.cells.ny / coarsening_ratio[2] * ny + row % fine.cells.ny / coarsening_ratio[1]) * nx
        };
        let mut coarse_row_sums: Vec<f64> = zeroed(cells.count(), ALLOCATION_NAME)?;
        for (row, row_sums) in row_sums.chunks_exact(size[0]).enumerate() {
            add_groups(
                &mut coarse_row_sums[coarse_row_start(row)..][..nx],
                coarsening_ratio[0],
                row_sums.iter().map(|e| e / divisor),
            );
        }
        let mut sums: Vec<f64> = Vec::new();
        let is_last = |d: usize, index: usize| index % coarsening_ratio[d] + 1 == coarsening_ratio[d];
        for d in 0..3 {
            reset(&mut sums, cells.count(), ALLOCATION_NAME)?;
            for (row, entries) in fine.forward[d].chunks_exact(size[0]).enumerate() {
                let sums = &mut sums[coarse_row_start(row)..][..nx];
                // Only faces between two coarse cells contribute. The centres of coarse cells are `coarsening_ratio`
                // times as far apart as those of fine cells, so couplings are divided by `coarsening_ratio`.
                let scaled_entries =
                    entries.iter().map(|entry| entry.to_f64() / (coarsening_ratio[d] as f64 * divisor));
                match d {
                    0 => add_groups(sums, 1, scaled_entries.skip(coarsening_ratio[0] - 1).step_by(coarsening_ratio[0])),
                    _ if is_last(d, [0, row % fine.cells.ny, row / fine.cells.ny][d]) => {
                        add_groups(sums, coarsening_ratio[0], scaled_entries)
                    }
                    _ => {}
                }
            }
            reset(&mut grid.forward[d], cells.count(), ALLOCATION_NAME)?;
            grid.forward[d].iter_mut().zip(&sums).for_each(|(entry, sum)| *entry = T::from_f64(*sum));
        }
        *row_sums = coarse_row_sums;
        Ok(grid)
    }

    /// Sets each center to the row sum minus the rounded off-diagonal entries, so that constants remain in the null
    /// space of a singular matrix. A center that would not be positive is set to 1, for example in a row without
    /// couplings and with a zero row sum. Sets the row sums of cells without couplings to zero. Returns the strength of
    /// each direction.
    fn set_center(&mut self, row_sums: &mut [f64]) -> Result<[f64; 3]> {
        let Self { cells, center, forward: [x, y, z], .. } = self;
        compute_strengths(*cells, [x, y, z], |cell, coupling_sum, has_couplings| {
            let new_center = coupling_sum + row_sums[cell];
            let new_center = if new_center > 0.0 { new_center } else { 1.0 };
            if !has_couplings {
                row_sums[cell] = 0.0;
            }
            center[cell] = T::from_f64(new_center);
            new_center
        })
    }

    /// Returns the matrix.
    pub fn matrix(&self) -> GridMatrix<'_, T> {
        let [x, y, z] = &self.forward;
        GridMatrix { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }

    fn bytes(&self) -> usize {
        4 * size_of_val(&*self.center)
    }
}

/// Adds `group_size` successive values to each sum.
fn add_groups(sums: &mut [f64], group_size: usize, values: impl Iterator<Item = f64>) {
    values.enumerate().for_each(|(i, value)| sums[i / group_size] += value);
}

/// The coarse grids, and the solver on the coarsest grid.
pub struct Hierarchy<T> {
    /// Coarse grids, from the finest to the coarsest.
    pub grids: Vec<Grid<T>>,
    /// Divisor of the coarse matrices: a power of two near the largest center.
    pub divisor: f64,
    /// Solver of the coarsest matrix, or of the caller's matrix if there is no coarse grid.
    pub coarsest_solver: DirectSolver,
}

impl<T: Real> Hierarchy<T> {
    /// Computes the hierarchy of A. The coarsest grid has at most `max_coarsest_cells` cells.
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` if the coarsest matrix is indefinite.
    pub fn new(a: &SevenPoints, max_coarsest_cells: usize) -> Result<Self> {
        let finest = GridMatrix::finest(a);
        let mut row_sums: Vec<f64> = zeroed(a.cells.count(), ALLOCATION_NAME)?;
        let mut strength = compute_finest_row_sums(a, &mut row_sums)?;
        let divisor = power_of_two_below(max_abs(a.center));
        let mut grids: Vec<Grid<T>> = Vec::new();
        loop {
            let cells = grids.last().map_or(a.cells, |grid| grid.cells);
            if cells.count() <= max_coarsest_cells {
                break;
            }
            let ratio = cell_ratio(cells, strength);
            let mut grid = match grids.last() {
                None => Grid::coarsen(finest, ratio, &mut row_sums, divisor)?,
                Some(grid) => Grid::coarsen(grid.matrix(), ratio, &mut row_sums, 1.0)?,
            };
            strength = grid.set_center(&mut row_sums)?;
            reserve(&mut grids, 1, ALLOCATION_NAME)?;
            grids.push(grid);
        }
        let coarsest_solver = match grids.last() {
            None => factorize_coarsest(finest, &row_sums)?,
            Some(grid) => factorize_coarsest(grid.matrix(), &row_sums)?,
        };
        Ok(Self { grids, divisor, coarsest_solver })
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.coarsest_solver.bytes() + self.grids.iter().map(Grid::bytes).sum::<usize>()
    }
}

/// Factorizes a matrix with the given `row_sums`. A pivot d counts as a rounding error if d is zero, or if the ratio of
/// d to the diagonal entry is in `ZERO_PIVOT`. The unknown of such a pivot is zero in every solution. The lower limit
/// of `ZERO_PIVOT` is far below zero, because the rounding error of a pivot may be large: if only cells of the light
/// phase have nonzero row sums, this error grows with the ratio of the couplings of the two phases.
fn factorize_coarsest<T: Real>(a: GridMatrix<T>, row_sums: &[f64]) -> Result<DirectSolver> {
    const ZERO_PIVOT: Range<f64> = -1e-3..1e-14;
    let couplings = a.in_row_sum_form(row_sums)?;
    let nearly_singular = NearlySingularComponents::of(&couplings, |_, _| 0.0)?;
    DirectSolver::of(&couplings, box_order(a.cells)?, nearly_singular, |cell, d| match d {
        d if d == 0.0 || ZERO_PIVOT.contains(&(d / couplings.diagonal[cell])) => Ok(0.0),
        d if d > 0.0 && d.is_finite() => Ok(1.0 / d),
        d => {
            let reason =
                format!("pivot {d:e} of the coarsest grid is not positive: the matrix is not positive definite");
            Err(Error::Matrix { reason, location: None, text_after: "" })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Coarsening ends even if couplings are positive, zero or NaN.
    #[test]
    fn coarsening_ends_for_any_matrix() {
        let cells = Cells { nx: 9, ny: 7, nz: 12 };
        for entry in [1.0, -1.0, 0.0, f64::NAN] {
            let forward = [0, 1, 2].map(|d| -> Vec<f64> {
                let is_inside = |cell: usize| cells.indices(cell)[d] + 1 < cells.size()[d];
                (0..cells.count()).map(|cell| if is_inside(cell) { entry } else { 0.0 }).collect()
            });
            let [x, y, z] = &forward;
            let a = SevenPoints { cells, center: &vec![7.0; cells.count()], forward: [x, y, z] };
            match Hierarchy::<f64>::new(&a, 20) {
                Ok(hierarchy) => assert!(hierarchy.grids.last().unwrap().cells.count() <= 20 && !entry.is_nan()),
                Err(error) => assert!(entry.is_nan(), "{error}"),
            }
        }
    }
}
