//! The coarsest matrix of a multigrid, solved exactly: L D L^T by rows in a band.

use super::points::Points;
use crate::error::{Error, Result, zeroed};
use crate::grid::cells::Cells;
use crate::runtime::number::Real;
use crate::runtime::reduce::dot;

const WHAT: &str = "the factors of the coarsest grid";

/// Pivots between these parts of their diagonals are rounding, which grows with the contrast, as where only light cells
/// have row sums: their cells are kept at zero.
const ZERO_PIVOT: std::ops::Range<f64> = -1e-3..1e-14;

/// The factors. A component that is singular (its rows sum to zero) keeps its last cell at zero, which solves for every
/// right-hand side of sum zero; its mean is taken from r before, and from x after that.
pub struct Coarsest {
    /// Where each cell stands in the order of elimination: the longest direction slowest, so that the band is narrow.
    position: Vec<usize>,
    /// Columns of L left of the diagonal that a row has.
    band: usize,
    /// Row i of L at i * band: columns i - band .. i.
    rows: Vec<f64>,
    /// 1 / d, zero for the last cell of a singular component and where d is rounding.
    inverse: Vec<f64>,
    /// Component of each cell, by number, and the cells of each: zero of a regular one.
    component: Vec<usize>,
    cells: Vec<usize>,
}

impl Coarsest {
    /// The factors of a matrix; `excess`: what its rows are more than their couplings, exactly zero where they are not.
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` where it is indefinite.
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

    /// Values that `solve` works in.
    pub fn room(&self) -> usize {
        self.band + self.inverse.len() + self.cells.len()
    }

    /// x = A^-1 r.
    pub fn solve<T: Real>(&self, r: &[T], x: &mut [T], work: &mut [f64]) {
        let (band, count) = (self.band, self.inverse.len());
        let (work, sums) = work[..self.room()].split_at_mut(band + count);
        // Rows at the beginning have fewer columns than `band`: zeros stand for the others.
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

    /// Takes its mean from each singular component.
    fn take_means(&self, values: &mut [f64], sums: &mut [f64]) {
        sums.fill(0.0);
        let places = || self.component.iter().zip(&self.position).filter(|(c, _)| self.cells[**c] > 0);
        places().for_each(|(component, row)| sums[*component] += values[*row]);
        places().for_each(|(component, row)| values[*row] -= sums[*component] / self.cells[*component] as f64);
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        (self.rows.len() + self.inverse.len()) * size_of::<f64>()
            + (self.position.len() + self.component.len() + self.cells.len()) * size_of::<usize>()
    }
}

/// The center of a row with couplings, of these and its excess: rounded to single precision it differs from their sum
/// by more than couplings of the heavy phase.
fn center<T: Real>(a: &Points<T>, cell: usize, excess: f64) -> f64 {
    let sum = a.couplings(cell).fold(excess, |sum, (coupling, _)| sum - coupling.wide());
    if sum > 0.0 { sum } else { a.center[cell].wide() }
}

/// Row `row` of A becomes that of L, in its place; answers d. `inverse` has 1 / d of the rows before, and the diagonal
/// of A from this row on.
fn eliminate(rows: &mut [f64], inverse: &[f64], row: usize, band: usize) -> f64 {
    let (done, rest) = rows.split_at_mut(row * band);
    let own = &mut rest[..band];
    // First g = l d: g(i, j) = a(i, j) - sum over k of g(i, k) l(j, k).
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

/// 1 / d.
fn accepted(d: f64) -> Result<f64> {
    if d > 0.0 && d.is_finite() {
        return Ok(1.0 / d);
    }
    let reason = format!("pivot {d:e} of the coarsest grid is not positive: the matrix is not positive definite");
    Err(Error::Matrix { reason, place: None, then: "" })
}

/// Positions of cells, and from a cell to the next one in each direction; zero where there is none.
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

/// The component of each cell, and how many cells each of those has that are singular.
fn singular_components<T: Real>(a: Points<T>, excess: &[f64]) -> Result<(Vec<usize>, Vec<usize>)> {
    // A component bears the number of its first cell.
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

    /// Components by a wall, one of them regular: residuals vanish, and means where nothing tells them.
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
