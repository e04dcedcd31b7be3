//! Cell-centred multigrid for 7 points: a coarse cell is a box of 2 fine cells in each direction that is coarsened, P is
//! piecewise constant and R = P^T. The coarse matrix has 7 points again:
//!
//!   coupling of two coarse cells = sum of the couplings of the fine faces between them, halved,
//!
//! halved since their centres are twice as far apart as those of fine cells: P^T A P without this factor is what makes
//! aggregation of constants slow (Braess 1995; Alcouffe, Brandt, Dendy and Painter 1981 say why sums of faces, and not
//! series of resistances, follow jumps). Where the direction of a face is not coarsened the distance stays, and nothing
//! is halved. What a row sums up to beside its couplings (a wall of given pressure) is summed over the coarse cell.
//!
//! A direction of weak couplings is not coarsened before it has become a strong one (semicoarsening): a point smoother
//! leaves errors that vary along it.
//!
//! One V-cycle from zero, with red-black Gauss-Seidel, red first before the coarse grid and last after it: M is
//! symmetric and positive definite. The coarsest grid is solved exactly.

use crate::error::{Error, Result, reserve, reset, zeroed};
use crate::grid::cells::{Cells, SevenPoints};
use crate::grid::components::ZERO_ROW_SUM;
use crate::runtime::number::Real;
use crate::runtime::reduce::{max_abs, pairwise};

/// For errors of memory.
const WHAT: &str = "coarse grids of the multigrid";

/// Cells of the coarsest grid, at most: 4 x 4 x 4. Its inverse is 32 KiB.
const COARSEST: usize = 64;

/// A direction is coarsened where its couplings, times this, are as strong as the strongest direction's. Measured: with
/// cells of 1 : 4, whose couplings are as 1 : 16, one of two levels is coarsened in the strong direction alone.
const WEAK: f64 = 3.0;

/// The matrix of a grid, as loops read it.
#[derive(Clone, Copy)]
pub struct Points<'a, T> {
    /// Extents.
    pub cells: Cells,
    /// Diagonal.
    pub center: &'a [T],
    /// Entries between a cell and the next one in each direction; zero where that is outside.
    pub forward: [&'a [T]; 3],
}

impl<'a> Points<'a, f64> {
    /// The caller's.
    pub fn finest(a: &SevenPoints<'a>) -> Self {
        Self { cells: a.cells, center: a.center, forward: a.forward }
    }
}

impl<T: Real> Points<'_, T> {
    /// Couplings of a cell: in x, y and z, to the cell before and the cell after, and where those are.
    fn couplings(&self, cell: usize) -> impl Iterator<Item = (T, usize)> + '_ {
        let (place, size, steps) = (self.cells.place(cell), self.cells.size(), self.cells.steps());
        (0..3).flat_map(move |d| {
            let before = (place[d] > 0).then(|| (self.forward[d][cell - steps[d]], cell - steps[d]));
            let after = (place[d] + 1 < size[d]).then(|| (self.forward[d][cell], cell + steps[d]));
            before.into_iter().chain(after)
        })
    }

    /// r - (A - D) x in a cell.
    fn without_center(&self, cell: usize, r: &[T], x: &[T]) -> T {
        self.couplings(cell).fold(r[cell], |value, (coupling, other)| value - coupling * x[other])
    }

    /// Whether a row has couplings. One that has none is solved by the smoother: coarse grids are not to see it.
    fn is_coupled(&self, cell: usize) -> bool {
        self.couplings(cell).any(|(coupling, _)| coupling.wide() != 0.0)
    }

    /// By how much a row is more than its couplings.
    fn excess(&self, cell: usize) -> f64 {
        let center = self.center[cell].wide();
        let excess = self.couplings(cell).fold(center, |sum, (coupling, _)| sum + coupling.wide());
        if excess <= ZERO_ROW_SUM * center || !self.is_coupled(cell) { 0.0 } else { excess }
    }

    /// Fine cells of a coarse cell in each direction, 2 or 1. A direction's strength is the mean of its part of the rows.
    fn ratio(&self) -> Result<[usize; 3]> {
        let (size, steps) = (self.cells.size(), self.cells.steps());
        let mut strength = [0.0; 3];
        let mut rows = zeroed(self.cells.count() / size[0], WHAT)?;
        for d in 0..3 {
            for (row, sum) in rows.iter_mut().enumerate() {
                let part = |cell: usize| {
                    let after = self.forward[d][cell].wide();
                    let before =
                        if self.cells.place(cell)[d] > 0 { self.forward[d][cell - steps[d]].wide() } else { 0.0 };
                    -(before + after) / self.center[cell].wide()
                };
                *sum = (row * size[0]..(row + 1) * size[0]).map(part).sum();
            }
            strength[d] = pairwise(&rows);
        }
        let strongest = (0..3).filter(|&d| size[d] > 1).map(|d| strength[d]).fold(f64::NEG_INFINITY, f64::max);
        Ok([0, 1, 2].map(|d| if size[d] > 1 && WEAK * strength[d] >= strongest { 2 } else { 1 }))
    }
}

/// The cell of the coarse grid that a cell lies in.
fn coarse_cell(fine: [usize; 3], ratio: [usize; 3], coarse: Cells) -> usize {
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
        let (size, ratio) = (fine.cells.size(), fine.ratio()?);
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
        for cell in 0..excess.len() {
            let points = self.points();
            let couplings = points.couplings(cell).map(|(coupling, _)| coupling.wide()).sum::<f64>();
            let (center, is_coupled) = (excess[cell] - couplings, points.is_coupled(cell));
            self.center[cell] = T::narrow(if center > 0.0 { center } else { 1.0 });
            if !is_coupled {
                excess[cell] = 0.0;
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
    /// The inverse of the coarsest matrix, by rows.
    inverse: Vec<f64>,
}

impl<T: Real> Hierarchy<T> {
    /// Of the matrix A.
    ///
    /// # Errors
    /// `RRB_ERR_MATRIX` where the coarsest matrix is indefinite.
    pub fn new(a: &SevenPoints) -> Result<Self> {
        let finest = Points::finest(a);
        let mut excess = zeroed(a.cells.count(), WHAT)?;
        excess.iter_mut().enumerate().for_each(|(cell, excess)| *excess = finest.excess(cell));
        let unit = power_of_two_below(max_abs(a.center));
        let mut grids: Vec<Grid<T>> = Vec::new();
        loop {
            let last = grids.last();
            if last.map_or(a.cells, |grid| grid.cells).count() <= COARSEST {
                break;
            }
            let grid = match last {
                None => Grid::coarser(finest, &mut excess, unit)?,
                Some(grid) => Grid::coarser(grid.points(), &mut excess, 1.0)?,
            };
            reserve(&mut grids, 1, WHAT)?;
            grids.push(grid);
        }
        let inverse = match grids.last() {
            None => inverse(finest, &excess)?,
            Some(grid) => inverse(grid.points(), &excess)?,
        };
        Ok(Self { grids, unit, inverse })
    }

    /// x = A^-1 r on the coarsest grid.
    pub fn solve_coarsest<F: Real>(&self, r: &[F], x: &mut [F]) {
        for (x, row) in x.iter_mut().zip(self.inverse.chunks_exact(r.len())) {
            *x = F::narrow(row.iter().zip(r).fold(0.0, |sum, (inverse, r)| sum + inverse * r.wide()));
        }
    }

    /// The inverse of the coarsest matrix, by rows.
    pub fn inverse(&self) -> &[f64] {
        &self.inverse
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.inverse) + self.grids.iter().map(Grid::bytes).sum::<usize>()
    }
}

/// The inverse of a small matrix. Constants on a component that is singular get an eigenvalue like its others: r has no
/// part in them, and x may have any.
fn inverse<T: Real>(a: Points<T>, excess: &[f64]) -> Result<Vec<f64>> {
    let n = a.cells.count();
    let component = components(a)?;
    let mut matrix: Vec<f64> = zeroed(n * n, WHAT)?;
    for cell in 0..n {
        matrix[cell * n + cell] = a.center[cell].wide();
        a.couplings(cell).for_each(|(coupling, other)| matrix[cell * n + other] = coupling.wide());
    }
    for first in 0..n {
        let of_it = |cell: &usize| component[*cell] == first;
        let (count, sum) = (0..n).filter(of_it).fold((0, 0.0), |(count, sum), cell| (count + 1, sum + excess[cell]));
        if count < 2 || sum > 0.0 {
            continue;
        }
        let share = a.center[first].wide() / f64::from(count);
        for cell in (0..n).filter(of_it) {
            (0..n).filter(of_it).for_each(|other| matrix[cell * n + other] += share);
        }
    }
    let mut inverse: Vec<f64> = zeroed(n * n, WHAT)?;
    factorize(&mut matrix, n)?;
    for column in 0..n {
        let x = &mut inverse[column * n..][..n];
        x[column] = 1.0;
        solve(&matrix, x);
    }
    Ok(inverse)
}

/// The first cell of each cell's component.
fn components<T: Real>(a: Points<T>) -> Result<Vec<usize>> {
    let mut first: Vec<usize> = zeroed(a.cells.count(), WHAT)?;
    first.iter_mut().enumerate().for_each(|(cell, first)| *first = cell);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for cell in 0..first.len() {
            for (_, other) in a.couplings(cell).filter(|(coupling, _)| coupling.wide() != 0.0) {
                changed |= first[other] < first[cell];
                first[cell] = first[cell].min(first[other]);
            }
        }
    }
    Ok(first)
}

/// L D L^T = A in place: D and the unit triangle L below it.
fn factorize(a: &mut [f64], n: usize) -> Result<()> {
    for j in 0..n {
        let d = a[j * n + j];
        if !(d > 0.0 && d.is_finite()) {
            let reason =
                format!("pivot {d:e} of the coarsest grid is not positive: the matrix is not positive definite");
            return Err(Error::Matrix { reason, place: None, then: "" });
        }
        for i in j + 1..n {
            let factor = a[i * n + j] / d;
            for k in j + 1..=i {
                a[i * n + k] -= factor * a[k * n + j];
            }
        }
        (j + 1..n).for_each(|i| a[i * n + j] /= d);
    }
    Ok(())
}

/// x = (L D L^T)^-1 x.
fn solve(a: &[f64], x: &mut [f64]) {
    let n = x.len();
    for i in 0..n {
        x[i] = (0..i).fold(x[i], |value, k| value - a[i * n + k] * x[k]);
    }
    for i in (0..n).rev() {
        x[i] = (i + 1..n).fold(x[i] / a[i * n + i], |value, k| value - a[k * n + i] * x[k]);
    }
}

/// The largest power of two not above v, for finite v > 0; kept where its inverse is a normal number.
pub fn power_of_two_below(v: f64) -> f64 {
    let exponent = ((v.to_bits() >> 52) & 0x7ff).clamp(2, 2045);
    f64::from_bits(exponent << 52)
}

/// The preconditioner: one V(sweeps, sweeps) cycle. The caller's grid is worked on in f64, coarse ones in `T`.
pub struct CellCentred<T: Real> {
    hierarchy: Hierarchy<T>,
    sweeps: usize,
    /// Right-hand sides and solutions of coarse grids.
    vectors: Vec<[Vec<T>; 2]>,
}

impl<T: Real> CellCentred<T> {
    /// For the matrix A.
    pub fn new(a: &SevenPoints, sweeps: usize) -> Result<Self> {
        let hierarchy = Hierarchy::new(a)?;
        let mut vectors = Vec::new();
        reserve(&mut vectors, hierarchy.grids.len(), WHAT)?;
        for grid in &hierarchy.grids {
            let count = grid.cells.count();
            vectors.push([zeroed(count, WHAT)?, zeroed(count, WHAT)?]);
        }
        Ok(Self { hierarchy, sweeps, vectors })
    }

    /// z = M^-1 r. Residuals go to the coarse grids divided by a power of two near the largest value of r, and by the
    /// unit of the matrix: neither changes a bit, and a short `T` holds them.
    pub fn apply(&mut self, a: &SevenPoints, r: &[f64], z: &mut [f64]) {
        let (finest, hierarchy) = (Points::finest(a), &self.hierarchy);
        let Some(grid) = hierarchy.grids.first() else {
            return hierarchy.solve_coarsest(r, z);
        };
        let scale = power_of_two_below(max_abs(r));
        smooth_first(finest, self.sweeps, r, z);
        restrict(finest, grid, r, z, scale, &mut self.vectors[0][0]);
        cycle(&hierarchy.grids, &mut self.vectors, self.sweeps, &|r, x| hierarchy.solve_coarsest(r, x));
        prolong(finest.cells, grid, &self.vectors[0][1], scale / hierarchy.unit, z);
        smooth_last(finest, self.sweeps, r, z);
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.hierarchy.bytes() + self.vectors.iter().flatten().map(|v| size_of_val(&**v)).sum::<usize>()
    }
}

/// The V-cycle on coarse grids: x from r, on the first of `grids`.
fn cycle<T: Real>(grids: &[Grid<T>], vectors: &mut [[Vec<T>; 2]], sweeps: usize, coarsest: &dyn Fn(&[T], &mut [T])) {
    let Some(([r, x], coarser)) = vectors.split_first_mut() else { return };
    let (Some(next), Some([coarse_r, _])) = (grids.get(1), coarser.first_mut()) else {
        return coarsest(r, x);
    };
    let points = grids[0].points();
    smooth_first(points, sweeps, r, x);
    restrict(points, next, r, x, 1.0, coarse_r);
    cycle(&grids[1..], coarser, sweeps, coarsest);
    prolong(points.cells, next, &coarser[0][1], 1.0, x);
    smooth_last(points, sweeps, r, x);
}

/// Sweeps before the coarse grid, from x = 0.
fn smooth_first<T: Real>(a: Points<T>, sweeps: usize, r: &[T], x: &mut [T]) {
    x.fill(T::default());
    for _ in 0..sweeps {
        relax(a, 0, r, x);
        relax(a, 1, r, x);
    }
}

/// Sweeps after it: the same in reverse.
fn smooth_last<T: Real>(a: Points<T>, sweeps: usize, r: &[T], x: &mut [T]) {
    for _ in 0..sweeps {
        relax(a, 1, r, x);
        relax(a, 0, r, x);
    }
}

/// Colour of a cell: 0 red, 1 black.
fn colour([i, j, k]: [usize; 3]) -> usize {
    (i + j + k) % 2
}

/// x = D^-1 (r - (A - D) x) in the cells of a colour.
fn relax<T: Real>(a: Points<T>, of: usize, r: &[T], x: &mut [T]) {
    for cell in 0..r.len() {
        if colour(a.cells.place(cell)) == of {
            x[cell] = a.without_center(cell, r, x) / a.center[cell];
        }
    }
}

/// R (r - A x) / scale. Black rows have no residual: they were relaxed last.
fn restrict<F: Real, T: Real>(a: Points<F>, grid: &Grid<T>, r: &[F], x: &[F], scale: f64, coarse: &mut [T]) {
    coarse.fill(T::default());
    for cell in 0..r.len() {
        let place = a.cells.place(cell);
        if colour(place) == 0 {
            let residual = a.without_center(cell, r, x) - a.center[cell] * x[cell];
            coarse[coarse_cell(place, grid.ratio, grid.cells)] += T::narrow(residual.wide() / scale);
        }
    }
}

/// x += P e scale.
fn prolong<F: Real, T: Real>(cells: Cells, grid: &Grid<T>, e: &[T], scale: f64, x: &mut [F]) {
    for (cell, x) in x.iter_mut().enumerate() {
        *x += F::narrow(e[coarse_cell(cells.place(cell), grid.ratio, grid.cells)].wide() * scale);
    }
}

#[cfg(test)]
mod tests {
    use super::super::incomplete::tests::{System, all_rows, as_golden, iterations};
    use super::*;

    fn count<T: Real>(system: &System, sweeps: usize) -> usize {
        let mut multigrid = CellCentred::<T>::new(&system.matrix(), sweeps).unwrap();
        iterations(system, "rand", &mut |a, r, z| multigrid.apply(a, r, z))
    }

    /// Cells a side, bubbles, sweeps, iterations: contrast 1e-3, rhs `rand`, no deflation. From an independent prototype.
    const GOLDEN: [(usize, &str, usize, usize); 15] = [
        (64, "1", 2, 8),
        (64, "1", 1, 16),
        (64, "8", 2, 11),
        (64, "8", 1, 20),
        (64, "9", 2, 21),
        (64, "9", 1, 38),
        (64, "27", 2, 32),
        (64, "27", 1, 54),
        (64, "9s", 2, 24),
        (64, "9s", 1, 48),
        (64, "27t", 2, 20),
        (64, "27t", 1, 44),
        (128, "9", 2, 21),
        (128, "27", 2, 28),
        (256, "9", 2, 22),
    ];

    #[test]
    fn counts_are_those_of_the_golden_rows() {
        let rows = if all_rows() { GOLDEN.len() } else { 4 };
        for &(n, set, sweeps, golden) in &GOLDEN[..rows] {
            let count = count::<f64>(&System::new(set, [n; 3], 1e-3), sweeps);
            println!("{n} {set} {sweeps}: {count} {golden}");
            assert!(as_golden(count, golden), "set {set}, {n}^3, {sweeps} sweeps: {count} instead of {golden}");
        }
    }

    #[test]
    fn trial() {
        for (set, size) in [
            ("9;asp=4", [64; 3]),
            ("9;asp=4", [48; 3]),
            ("surf;asp=4", [64; 3]),
            ("9", [65; 3]),
            ("9", [50, 77, 63]),
            ("9", [33; 3]),
            ("9", [32; 3]),
            ("9;dir=top", [64; 3]),
            ("surf;obs=box", [64; 3]),
            ("9;obs=hole", [64; 3]),
            ("27", [48; 3]),
        ] {
            for contrast in [1.0, 1e-3, 1e-6] {
                let system = System::new(set, size, contrast);
                let f64s = [1, 2].map(|sweeps| count::<f64>(&system, sweeps));
                println!("{set} {size:?} {contrast:e}: {f64s:?} f32 {}", count::<f32>(&system, 2));
            }
        }
    }
}
