//! Coarse grids of the cell-centred multigrid, and their matrices of 7 points.

use super::coarsest::Coarsest;
use super::points::Points;
use crate::error::{Result, reserve, reset, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::runtime::number::Real;
use crate::runtime::reduce::{max_abs, pairwise};

/// For errors of memory.
const WHAT: &str = "coarse grids of the multigrid";

/// A direction is coarsened where its couplings, times this, are as strong as the strongest direction's: with cells of
/// 1 : 4, whose couplings are as 1 : 16, the strong direction alone is coarsened twice.
const WEAK: f64 = 3.0;

/// Fine cells of a coarse cell in each direction, 2 or 1. A direction's strength is the mean of its part of the rows.
fn ratio<T: Real>(fine: Points<T>) -> Result<[usize; 3]> {
    let (size, steps) = (fine.cells.size(), fine.cells.steps());
    let mut strength = [0.0; 3];
    let mut rows: Vec<f64> = zeroed(fine.cells.count() / size[0], WHAT)?;
    for d in 0..3 {
        let part = |cell: usize| {
            let before = if fine.cells.place(cell)[d] > 0 { fine.forward[d][cell - steps[d]].wide() } else { 0.0 };
            -(before + fine.forward[d][cell].wide()) / fine.center[cell].wide()
        };
        for (row, sum) in rows.iter_mut().enumerate() {
            *sum = (row * size[0]..(row + 1) * size[0]).map(part).sum();
        }
        strength[d] = pairwise(&rows);
    }
    let strongest = (0..3).filter(|&d| size[d] > 1).map(|d| strength[d]).fold(f64::NEG_INFINITY, f64::max);
    Ok([0, 1, 2].map(|d| if size[d] > 1 && WEAK * strength[d] >= strongest { 2 } else { 1 }))
}

/// The cell of the coarse grid that a cell lies in.
pub fn coarse_cell(fine: [usize; 3], ratio: [usize; 3], coarse: Cells) -> usize {
    let [i, j, k] = [0, 1, 2].map(|d| fine[d] / ratio[d]);
    (k * coarse.ny + j) * coarse.nx + i
}

/// A coarse grid.
pub struct Grid<T> {
    /// Extents: where the finer grid has an odd number of cells, the last coarse cell has one of them.
    pub cells: Cells,
    /// Cells of the next finer grid that a cell has in each direction.
    pub ratio: [usize; 3],
    center: Vec<T>,
    forward: [Vec<T>; 3],
}

impl<T: Real> Grid<T> {
    /// The grid next to `fine`, whose matrix is divided by `unit`. `excess`: of the fine rows, then of the coarse ones.
    fn coarser<F: Real>(fine: Points<F>, excess: &mut Vec<f64>, unit: f64) -> Result<Self> {
        let (size, ratio) = (fine.cells.size(), ratio(fine)?);
        let [nx, ny, nz] = [0, 1, 2].map(|d| size[d].div_ceil(ratio[d]));
        let cells = Cells { nx, ny, nz };
        let mut sums = [(); 4].map(|()| Vec::new());
        for sum in &mut sums {
            reset(sum, cells.count(), WHAT)?;
        }
        for (cell, &excess) in excess.iter().enumerate() {
            let place = fine.cells.place(cell);
            let coarse = coarse_cell(place, ratio, cells);
            sums[3][coarse] += excess / unit;
            for d in 0..3 {
                if place[d] % ratio[d] + 1 == ratio[d] {
                    let distance = ratio[d] as f64;
                    sums[d][coarse] += fine.forward[d][cell].wide() / (distance * unit);
                }
            }
        }
        let mut grid =
            Self { cells, ratio, center: zeroed(cells.count(), WHAT)?, forward: [(); 3].map(|()| Vec::new()) };
        for (forward, sum) in grid.forward.iter_mut().zip(&sums) {
            reset(forward, cells.count(), WHAT)?;
            forward.iter_mut().zip(sum).for_each(|(coupling, sum)| *coupling = T::narrow(*sum));
        }
        let [.., coarse_excess] = sums;
        *excess = coarse_excess;
        grid.set_center(excess);
        Ok(grid)
    }

    /// D = the couplings as they were rounded, and the excess: constants stay in the kernel of a singular matrix. Of a
    /// row with neither, anything else than zero.
    fn set_center(&mut self, excess: &mut [f64]) {
        for (cell, excess) in excess.iter_mut().enumerate() {
            let points = self.points();
            let couplings = points.couplings(cell).map(|(coupling, _)| coupling.wide()).sum::<f64>();
            let (center, is_coupled) = (*excess - couplings, points.is_coupled(cell));
            self.center[cell] = T::narrow(if center > 0.0 { center } else { 1.0 });
            if !is_coupled {
                *excess = 0.0;
            }
        }
    }

    /// Its matrix.
    pub fn points(&self) -> Points<'_, T> {
        let [x, y, z] = &self.forward;
        Points { cells: self.cells, center: &self.center, forward: [x, y, z] }
    }

    fn bytes(&self) -> usize {
        4 * size_of_val(&*self.center)
    }
}

/// The coarse grids, and what solves on the last one.
pub struct Hierarchy<T> {
    /// From the one next to the caller's on.
    pub grids: Vec<Grid<T>>,
    /// What coarse matrices are divided by: a power of two near the largest center.
    pub unit: f64,
    /// The matrix of the last one; of the caller's where there is none.
    pub coarsest: Coarsest,
}

impl<T: Real> Hierarchy<T> {
    /// Of the matrix A, down to at most `coarsest` cells.
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` where the coarsest matrix is indefinite.
    pub fn new(a: &SevenPoints, coarsest: usize) -> Result<Self> {
        let finest = Points::finest(a);
        let mut excess: Vec<f64> = zeroed(a.cells.count(), WHAT)?;
        excess.iter_mut().enumerate().for_each(|(cell, excess)| *excess = finest.excess(cell));
        let unit = power_of_two_below(max_abs(a.center));
        let mut grids: Vec<Grid<T>> = Vec::new();
        loop {
            let last = grids.last();
            if last.map_or(a.cells, |grid| grid.cells).count() <= coarsest {
                break;
            }
            let grid = match last {
                None => Grid::coarser(finest, &mut excess, unit)?,
                Some(grid) => Grid::coarser(grid.points(), &mut excess, 1.0)?,
            };
            reserve(&mut grids, 1, WHAT)?;
            grids.push(grid);
        }
        let coarsest = match grids.last() {
            None => Coarsest::factorize(finest, &excess)?,
            Some(grid) => Coarsest::factorize(grid.points(), &excess)?,
        };
        Ok(Self { grids, unit, coarsest })
    }

    /// The inverse of the coarsest matrix, by rows.
    pub fn coarsest_inverse(&self, cells: usize) -> Result<Vec<f64>> {
        let (mut inverse, mut unit) = (zeroed(cells * cells, WHAT)?, zeroed::<f64>(cells, WHAT)?);
        let mut work = zeroed(self.coarsest.room(), WHAT)?;
        // It is symmetric.
        for (cell, row) in inverse.chunks_exact_mut(cells).enumerate() {
            unit.fill(0.0);
            unit[cell] = 1.0;
            self.coarsest.solve(&unit, row, &mut work);
        }
        Ok(inverse)
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        self.coarsest.bytes() + self.grids.iter().map(Grid::bytes).sum::<usize>()
    }
}

/// The largest power of two not above v, for finite v > 0; kept where its inverse is a normal number.
pub fn power_of_two_below(v: f64) -> f64 {
    let exponent = ((v.to_bits() >> 52) & 0x7ff).clamp(2, 2045);
    f64::from_bits(exponent << 52)
}
