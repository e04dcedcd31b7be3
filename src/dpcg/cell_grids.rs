//! Coarse grids of the multigrid with cell coarsening, and access to their 7-point matrices by cell.

use crate::base::number::{Real, power_of_two_below};
use crate::base::reduce::{max_abs, pairwise};
use crate::direct::couplings::Couplings;
use crate::direct::null_space::NearlySingularComponents;
use crate::direct::solver::{DirectSolver, box_order};
use crate::error::{Error, Result, reserve, reset, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::{cell_ratio, coarse_cells};
use crate::stencil::components::ZERO_ROW_SUM;
use std::ops::Range;

const WHAT: &str = "coarse grids of the multigrid";

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
        let (place, size, steps) = (self.cells.indices(cell), self.cells.size(), self.cells.strides());
        (0..3).flat_map(move |d| {
            let before = (place[d] > 0).then(|| (self.forward[d][cell - steps[d]], cell - steps[d]));
            let after = (place[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + steps[d]));
            before.into_iter().chain(after)
        })
    }

    /// Returns the matrix in row-sum form, with the row sums `excess`. If the diagonal entry that results from a row
    /// sum is not positive, the row sum is computed from the center instead.
    pub fn in_row_sum_form(&self, excess: &[f64]) -> Result<Couplings> {
        let mut matrix = Couplings::with_capacity(self.cells.count(), 6 * self.cells.count())?;
        for (cell, &excess) in excess.iter().enumerate() {
            let couplings = || self.couplings(cell).map(|(value, other)| (-value.wide(), other));
            let sum: f64 = couplings().map(|(a, _)| a).sum();
            let below = couplings().rev().filter(|&(_, other)| other < cell);
            let all = below.chain(couplings().filter(|&(_, other)| other > cell));
            all.filter(|(a, _)| *a != 0.0).for_each(|(a, other)| matrix.push(other, a));
            matrix.end_exact_row(if excess + sum > 0.0 { excess } else { self.center[cell].wide() - sum });
        }
        Ok(matrix)
    }
}

/// A coarse grid and its matrix.
pub struct Grid<T> {
    /// Extents.
    pub cells: Cells,
    /// Number of fine cells per coarse cell in each direction.
    pub ratio: [usize; 3],
    center: Vec<T>,
    forward: [Vec<T>; 3],
}

/// For each cell of a row, three values: the negative sums of its couplings in x, in y and in z.
struct RowCouplings([Vec<f64>; 3]);

impl RowCouplings {
    fn new(nx: usize) -> Result<Self> {
        Ok(Self([zeroed(nx, WHAT)?, zeroed(nx, WHAT)?, zeroed(nx, WHAT)?]))
    }

    /// Computes the sums for row number `row` = k ny + j. Returns its cells.
    fn sum_row<T: Real>(&mut self, cells: Cells, forward: [&[T]; 3], row: usize) -> Range<usize> {
        let here = row * cells.nx..(row + 1) * cells.nx;
        for (d, sums) in self.0.iter_mut().enumerate() {
            let after = &forward[d][here.clone()];
            sums.iter_mut().zip(after).for_each(|(sum, after)| *sum = -after.wide());
            let is_inside = [true, !row.is_multiple_of(cells.ny), row >= cells.ny][d];
            let before = match d {
                0 => &after[..cells.nx - 1],
                _ if is_inside => &forward[d][here.start - cells.strides()[d]..][..cells.nx],
                _ => &[],
            };
            let first = usize::from(d == 0);
            sums[first..].iter_mut().zip(before).for_each(|(sum, before)| *sum -= before.wide());
        }
        here
    }

    fn sum(&self, i: usize) -> f64 {
        let [x, y, z] = &self.0;
        x[i] + y[i] + z[i]
    }

    /// Returns whether a cell has couplings. The row sum of a cell without couplings is not added to the coarse grid,
    /// because the smoother solves the equation of this cell.
    fn any(&self, i: usize) -> bool {
        self.0.iter().any(|v| v[i] != 0.0)
    }
}

/// Computes the strength of each direction: the sum over all cells of |s| / center, where s is the sum of the
/// off-diagonal entries of the cell in this direction. For each cell, calls `center_of(cell, sum, any)`, which must
/// return the center. `sum` is the negative sum of all off-diagonal entries of the cell, and `any` states whether s is
/// nonzero in some direction.
fn strengths_of<T: Real>(
    cells: Cells,
    forward: [&[T]; 3],
    mut center_of: impl FnMut(usize, f64, bool) -> f64,
) -> Result<[f64; 3]> {
    let mut couplings = RowCouplings::new(cells.nx)?;
    let mut strength: [Vec<f64>; 3] =
        [zeroed(cells.rows(), WHAT)?, zeroed(cells.rows(), WHAT)?, zeroed(cells.rows(), WHAT)?];
    for row in 0..cells.rows() {
        let mut sums = [0.0; 3];
        for (i, cell) in couplings.sum_row(cells, forward, row).enumerate() {
            let center = center_of(cell, couplings.sum(i), couplings.any(i));
            (0..3).for_each(|d| sums[d] += couplings.0[d][i].abs() / center);
        }
        strength.iter_mut().zip(sums).for_each(|(strength, sum)| strength[row] = sum);
    }
    Ok(strength.map(|rows| pairwise(&rows)))
}

/// Computes the row sums of the caller's matrix. Row sums of at most `ZERO_ROW_SUM` times the center, including all
/// negative ones, and those of cells without couplings are set to zero. Returns the strength of each direction.
fn row_sums_of_finest(a: &SevenPoints, excess: &mut [f64]) -> Result<[f64; 3]> {
    strengths_of(a.cells, a.forward, |cell, couplings, any| {
        let center = a.center[cell];
        let more = center - couplings;
        excess[cell] = if any && more > ZERO_ROW_SUM * center { more } else { 0.0 };
        center
    })
}

impl<T: Real> Grid<T> {
    /// Computes the next coarser grid except its center, which `set_center` computes. The matrix is divided by `unit`.
    /// `excess` contains the fine row sums on entry, and the coarse row sums on return.
    fn coarser<F: Real>(fine: GridMatrix<F>, ratio: [usize; 3], excess: &mut Vec<f64>, unit: f64) -> Result<Self> {
        let (size, cells) = (fine.cells.size(), coarse_cells(fine.cells, ratio));
        let Cells { nx, ny, .. } = cells;
        let mut grid =
            Self { cells, ratio, center: zeroed(cells.count(), WHAT)?, forward: [(); 3].map(|()| Vec::new()) };
        let coarse_row = |row: usize| (row / fine.cells.ny / ratio[2] * ny + row % fine.cells.ny / ratio[1]) * nx;
        let mut coarse_excess: Vec<f64> = zeroed(cells.count(), WHAT)?;
        for (row, excess) in excess.chunks_exact(size[0]).enumerate() {
            add_up(&mut coarse_excess[coarse_row(row)..][..nx], ratio[0], excess.iter().map(|e| e / unit));
        }
        let mut sums: Vec<f64> = Vec::new();
        let is_last = |d: usize, place: usize| place % ratio[d] + 1 == ratio[d];
        for d in 0..3 {
            reset(&mut sums, cells.count(), WHAT)?;
            for (row, entries) in fine.forward[d].chunks_exact(size[0]).enumerate() {
                let sums = &mut sums[coarse_row(row)..][..nx];
                // Only faces between two coarse cells contribute. The centres of coarse cells are `ratio` times as far
                // apart as those of fine cells, so couplings are divided by `ratio`.
                let parts = entries.iter().map(|entry| entry.wide() / (ratio[d] as f64 * unit));
                match d {
                    0 => add_up(sums, 1, parts.skip(ratio[0] - 1).step_by(ratio[0])),
                    _ if is_last(d, [0, row % fine.cells.ny, row / fine.cells.ny][d]) => add_up(sums, ratio[0], parts),
                    _ => {}
                }
            }
            reset(&mut grid.forward[d], cells.count(), WHAT)?;
            grid.forward[d].iter_mut().zip(&sums).for_each(|(entry, sum)| *entry = T::narrow(*sum));
        }
        *excess = coarse_excess;
        Ok(grid)
    }

    /// Sets each center to the row sum minus the rounded off-diagonal entries, so that constants remain in the null
    /// space of a singular matrix. A center that would not be positive is set to 1, for example in a row without
    /// couplings and with a zero row sum. Sets the row sums of cells without couplings to zero. Returns the strength of
    /// each direction.
    fn set_center(&mut self, excess: &mut [f64]) -> Result<[f64; 3]> {
        let Self { cells, center, forward: [x, y, z], .. } = self;
        strengths_of(*cells, [x, y, z], |cell, couplings, any| {
            let own = couplings + excess[cell];
            let own = if own > 0.0 { own } else { 1.0 };
            if !any {
                excess[cell] = 0.0;
            }
            center[cell] = T::narrow(own);
            own
        })
    }

    /// Returns the matrix.
    pub fn points(&self) -> GridMatrix<'_, T> {
        let [x, y, z] = &self.forward;
        GridMatrix { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }

    fn bytes(&self) -> usize {
        4 * size_of_val(&*self.center)
    }
}

/// Adds `ratio` successive values to each sum.
fn add_up(sums: &mut [f64], ratio: usize, values: impl Iterator<Item = f64>) {
    values.enumerate().for_each(|(i, value)| sums[i / ratio] += value);
}

/// The coarse grids, and the solver on the coarsest grid.
pub struct Hierarchy<T> {
    /// Coarse grids, from the finest to the coarsest.
    pub grids: Vec<Grid<T>>,
    /// Divisor of the coarse matrices: a power of two near the largest center.
    pub unit: f64,
    /// Solver of the coarsest matrix, or of the caller's matrix if there is no coarse grid.
    pub coarsest: DirectSolver,
}

impl<T: Real> Hierarchy<T> {
    /// Computes the hierarchy of A. The coarsest grid has at most `coarsest` cells.
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` if the coarsest matrix is indefinite.
    pub fn new(a: &SevenPoints, coarsest: usize) -> Result<Self> {
        let finest = GridMatrix::finest(a);
        let mut excess: Vec<f64> = zeroed(a.cells.count(), WHAT)?;
        let mut strength = row_sums_of_finest(a, &mut excess)?;
        let unit = power_of_two_below(max_abs(a.center));
        let mut grids: Vec<Grid<T>> = Vec::new();
        loop {
            let cells = grids.last().map_or(a.cells, |grid| grid.cells);
            if cells.count() <= coarsest {
                break;
            }
            let ratio = cell_ratio(cells, strength);
            let mut grid = match grids.last() {
                None => Grid::coarser(finest, ratio, &mut excess, unit)?,
                Some(grid) => Grid::coarser(grid.points(), ratio, &mut excess, 1.0)?,
            };
            strength = grid.set_center(&mut excess)?;
            reserve(&mut grids, 1, WHAT)?;
            grids.push(grid);
        }
        let coarsest = match grids.last() {
            None => coarsest_solver(finest, &excess)?,
            Some(grid) => coarsest_solver(grid.points(), &excess)?,
        };
        Ok(Self { grids, unit, coarsest })
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        self.coarsest.bytes() + self.grids.iter().map(Grid::bytes).sum::<usize>()
    }
}

/// Factorizes a matrix with the row sums `excess`. A pivot d counts as a rounding error if it is zero, or if its ratio
/// to the diagonal entry is in `ZERO_PIVOT`. The unknown of this pivot is then zero in every solution. The lower limit
/// is far below zero, because the rounding error may be large: if only cells of the light phase have nonzero row sums,
/// it grows with the ratio of the couplings of the two phases.
fn coarsest_solver<T: Real>(a: GridMatrix<T>, excess: &[f64]) -> Result<DirectSolver> {
    const ZERO_PIVOT: Range<f64> = -1e-3..1e-14;
    let c = a.in_row_sum_form(excess)?;
    let means = NearlySingularComponents::of(&c, |_, _| 0.0)?;
    DirectSolver::of(&c, box_order(a.cells)?, means, |cell, d| match d {
        d if d == 0.0 || ZERO_PIVOT.contains(&(d / c.diagonal[cell])) => Ok(0.0),
        d if d > 0.0 && d.is_finite() => Ok(1.0 / d),
        d => {
            let reason =
                format!("pivot {d:e} of the coarsest grid is not positive: the matrix is not positive definite");
            Err(Error::Matrix { reason, place: None, then: "" })
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
                let inside = |cell: usize| cells.indices(cell)[d] + 1 < cells.size()[d];
                (0..cells.count()).map(|cell| if inside(cell) { entry } else { 0.0 }).collect()
            });
            let [x, y, z] = &forward;
            let a = SevenPoints { cells, center: &vec![7.0; cells.count()], forward: [x, y, z] };
            match Hierarchy::<f64>::new(&a, 20) {
                Ok(made) => assert!(made.grids.last().unwrap().cells.count() <= 20 && !entry.is_nan()),
                Err(error) => assert!(entry.is_nan(), "{error}"),
            }
        }
    }
}
