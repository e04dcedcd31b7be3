//! Coarsest matrix of a multigrid hierarchy, solved exactly by a banded factorization L D L^T, row by row.

use super::points::Points;
use crate::error::{Error, Result, zeroed};
use crate::grid::cells::Cells;
use crate::runtime::number::Real;
use crate::runtime::reduce::dot;

const WHAT: &str = "the factors of the coarsest grid";

/// Range of d / diagonal in which a pivot d is a rounding error; its unknown is then set to zero. The errors grow with
/// the contrast, for example if only light cells have nonzero row sums.
const ZERO_PIVOT: std::ops::Range<f64> = -1e-3..1e-14;

/// The factors. In a singular component (all row sums zero), the last unknown is set to zero. This solves the system
/// for any right-hand side of zero sum. `solve` therefore subtracts the mean of the component from r, and afterwards
/// from x.
pub struct Coarsest {
    /// Position of each cell in the order of elimination. The longest direction is the slowest, which minimizes the
    /// bandwidth.
    position: Vec<usize>,
    /// Bandwidth: number of columns of L left of the diagonal.
    band: usize,
    /// Row i of L, stored from index i * band on: columns i - band .. i.
    rows: Vec<f64>,
    /// 1 / d, or zero for the last unknown of a singular component and where d is a rounding error.
    inverse: Vec<f64>,
    /// Component of each cell; `cells`: number of cells of each singular component, zero for a regular component.
    component: Vec<usize>,
    cells: Vec<usize>,
}

impl Coarsest {
    /// Factorizes a matrix with the row sums `excess`. Row sums that count as zero must be exactly zero.
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` if the matrix is indefinite.
    pub fn factorize<T: Real>(a: Points<T>, excess: &[f64]) -> Result<Self> {
        let count = a.cells.count();
        let (position, strides) = elimination_order(a.cells)?;
        let band = strides.into_iter().max().unwrap_or(0);
        let (component, cells) = singular_components(a, excess)?;
        let (mut rows, mut inverse): (Vec<f64>, Vec<f64>) = (zeroed(count * band, WHAT)?, zeroed(count, WHAT)?);
        let mut last: Vec<usize> = zeroed(count, WHAT)?;
        for (cell, &row) in position.iter().enumerate() {
            inverse[row] = center(&a, cell, excess[cell]);
            last[component[cell]] = last[component[cell]].max(row);
            for (coupling, other) in a.couplings(cell).filter(|(_, other)| position[*other] < row) {
                rows[(row + 1) * band - (row - position[other])] = coupling.wide();
            }
        }
        let floats = |row: usize| last.iter().zip(&cells).any(|(last, cells)| *cells > 0 && *last == row);
        for row in 0..count {
            let diagonal = inverse[row];
            let d = eliminate(&mut rows, &inverse, row, band);
            let zero = floats(row) || ZERO_PIVOT.contains(&(d / diagonal));
            inverse[row] = if zero { 0.0 } else { accepted(d)? };
        }
        Ok(Self { position, band, rows, inverse, component, cells })
    }

    /// Returns the size of the workspace of `solve`.
    pub fn room(&self) -> usize {
        self.band + self.inverse.len() + self.cells.len()
    }

    /// Computes x = A^-1 r.
    pub fn solve<T: Real>(&self, r: &[T], x: &mut [T], work: &mut [f64]) {
        let (band, count) = (self.band, self.inverse.len());
        let (work, sums) = work[..self.room()].split_at_mut(band + count);
        // The first rows have fewer than `band` columns; zeros replace the missing columns.
        work[..band].fill(0.0);
        for (r, row) in r.iter().zip(&self.position) {
            work[band + row] = r.wide();
        }
        self.take_means(&mut work[band..], sums);
        for row in 0..count {
            let (left, right) = work.split_at_mut(band + row);
            right[0] -= dot(&self.rows[row * band..][..band], &left[row..]);
        }
        work[band..].iter_mut().zip(&self.inverse).for_each(|(x, inverse)| *x *= inverse);
        for row in (0..count).rev() {
            let (left, right) = work.split_at_mut(band + row);
            let columns = left[row..].iter_mut().zip(&self.rows[row * band..][..band]);
            columns.for_each(|(x, factor)| *x -= factor * right[0]);
        }
        self.take_means(&mut work[band..], sums);
        for (x, row) in x.iter_mut().zip(&self.position) {
            *x = T::narrow(work[band + row]);
        }
    }

    /// Subtracts from each singular component its mean.
    fn take_means(&self, values: &mut [f64], sums: &mut [f64]) {
        sums.fill(0.0);
        let places = || self.component.iter().zip(&self.position).filter(|(c, _)| self.cells[**c] > 0);
        places().for_each(|(component, row)| sums[*component] += values[*row]);
        places().for_each(|(component, row)| values[*row] -= sums[*component] / self.cells[*component] as f64);
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        (self.rows.len() + self.inverse.len()) * size_of::<f64>()
            + (self.position.len() + self.component.len() + self.cells.len()) * size_of::<usize>()
    }
}

/// Returns the row sum minus the couplings. The stored center is rounded to single precision, and its rounding error
/// may exceed the couplings of the heavy phase.
fn center<T: Real>(a: &Points<T>, cell: usize, excess: f64) -> f64 {
    let sum = a.couplings(cell).fold(excess, |sum, (coupling, _)| sum - coupling.wide());
    if sum > 0.0 { sum } else { a.center[cell].wide() }
}

/// Computes row `row` of L in place, and returns d. `inverse` contains 1 / d of the previous rows, and the diagonal of
/// A from this row on.
fn eliminate(rows: &mut [f64], inverse: &[f64], row: usize, band: usize) -> f64 {
    let (done, rest) = rows.split_at_mut(row * band);
    let own = &mut rest[..band];
    // First compute g = l d: g(i, j) = a(i, j) - sum over k of g(i, k) l(j, k).
    for j in row.saturating_sub(band)..row {
        let apart = row - j;
        let (before, at) = own.split_at_mut(band - apart);
        at[0] -= dot(before, &done[j * band + apart..][..band - apart]);
    }
    let mut d = inverse[row];
    for j in row.saturating_sub(band)..row {
        let g = &mut own[band - (row - j)];
        let l = *g * inverse[j];
        d -= *g * l;
        *g = l;
    }
    d
}

/// Returns 1 / d, or an error if d is not positive.
fn accepted(d: f64) -> Result<f64> {
    if d > 0.0 && d.is_finite() {
        return Ok(1.0 / d);
    }
    let reason = format!("pivot {d:e} of the coarsest grid is not positive: the matrix is not positive definite");
    Err(Error::Matrix { reason, place: None, then: "" })
}

/// Returns the positions of the cells, and the distance between neighbours in each direction (zero for a single cell).
pub fn elimination_order(cells: Cells) -> Result<(Vec<usize>, [usize; 3])> {
    let size = cells.size();
    let mut directions = [0, 1, 2];
    directions.sort_by_key(|&d| size[d]);
    let (mut strides, mut stride) = ([0; 3], 1);
    for d in directions.into_iter().filter(|&d| size[d] > 1) {
        strides[d] = stride;
        stride *= size[d];
    }
    let mut position: Vec<usize> = zeroed(cells.count(), WHAT)?;
    for (cell, position) in position.iter_mut().enumerate() {
        *position = (0..3).map(|d| cells.place(cell)[d] * strides[d]).sum();
    }
    Ok((position, strides))
}

/// Returns the component of each cell, and the number of cells of each component that is singular.
fn singular_components<T: Real>(a: Points<T>, excess: &[f64]) -> Result<(Vec<usize>, Vec<usize>)> {
    // A component has the number of its first cell.
    let mut first: Vec<usize> = zeroed(excess.len(), WHAT)?;
    first.iter_mut().enumerate().for_each(|(cell, first)| *first = cell);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for cell in 0..first.len() {
            for (_, other) in a.couplings(cell).filter(|(coupling, _)| coupling.wide() != 0.0) {
                changed |= first[other] != first[cell];
                first[cell] = first[cell].min(first[other]);
            }
        }
    }
    let mut cells: Vec<usize> = zeroed(excess.len(), WHAT)?;
    let is_coupled = |cell: &usize| a.is_coupled(*cell);
    (0..first.len()).filter(is_coupled).for_each(|cell| cells[first[cell]] += 1);
    (0..first.len()).filter(|&cell| excess[cell] > 0.0).for_each(|cell| cells[first[cell]] = 0);
    Ok((first, cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wall divides a singular from a regular component: residuals vanish, and the singular component has zero mean.
    #[test]
    fn solves_singular_and_regular_components() {
        for [nx, ny, nz] in [[4, 4, 4], [9, 2, 3], [2, 9, 3], [3, 1, 7], [8, 1, 1], [1, 1, 9], [5, 6, 1]] {
            let cells = Cells { nx, ny, nz };
            let (count, steps, wall) = (cells.count(), cells.steps(), [nx, ny, nz].into_iter().max().unwrap() / 2);
            let along = (0..3).find(|&d| cells.size()[d] / 2 == wall).unwrap();
            let mut excess = vec![0.0; count];
            let mut forward = [(); 3].map(|()| vec![0.0; count]);
            let mut center = vec![0.0; count];
            excess[count - 1] = 0.5;
            for cell in 0..count {
                for d in 0..3 {
                    let place = cells.place(cell)[d];
                    if place + 1 < cells.size()[d] && !(d == along && place + 1 == wall) {
                        let face = 1.0 + (cell * 7 % 5 + d) as f64;
                        forward[d][cell] = -face;
                        center[cell] += face;
                        center[cell + steps[d]] += face;
                    }
                }
            }
            center.iter_mut().zip(&excess).for_each(|(center, excess)| *center += excess);
            let [x, y, z] = &forward;
            let a = Points { cells, center: &center, forward: [x, y, z] };
            let factors = Coarsest::factorize(a, &excess).unwrap();
            let is_first = |cell: usize| cells.place(cell)[along] < wall;
            let mut r: Vec<f64> = (0..count).map(|cell| (cell * cell % 11) as f64 - 4.0).collect();
            let sum: f64 = (0..count).filter(|&cell| is_first(cell)).map(|cell| r[cell]).sum();
            r[0] -= sum;
            let mut x = vec![0.0; count];
            factors.solve(&r, &mut x, &mut vec![9.0; factors.room()]);
            for cell in 0..count {
                let residual = a.without_center(cell, &r, &x) - center[cell] * x[cell];
                assert!(residual.abs() < 1e-12 * 100.0, "{cells:?}, cell {cell}: {residual:e}");
            }
            let mean: f64 = (0..count).filter(|&cell| is_first(cell)).map(|cell| x[cell]).sum();
            assert!(mean.abs() < 1e-10, "{mean:e}");
        }
    }
}
