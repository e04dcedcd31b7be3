//! Multithreaded multigrid with vertex coarsening for symmetric 7-point matrices (Dendy 1982). Every second cell is a
//! coarse point, the interpolation depends on the operator, and coarse matrices are Galerkin products with 27 points.
//! The preconditioner M^-1 is one V(1,1) or V(2,2) cycle from zero. It is linear, symmetric and positive definite.
//!
//! The smoother on the finest grid is red-black Gauss-Seidel with the colour (i + j + k) % 2. Before the coarse-grid
//! correction, colour 0 is updated first; after the correction, colour 0 is updated last. The smoother on coarse grids
//! is damped Jacobi
//!
//! ```text
//! x = x + 0.8 (r - A x) / max(D, (D + sum |c|)/2),
//! ```
//!
//! where D is the diagonal, and c are the conductances of a row. By Gershgorin's theorem, the eigenvalues of D'^-1 A
//! are at most 2 for D' = max(D, (D + sum |c|)/2), so those of 0.8 D'^-1 A are at most 1.6. This iteration therefore
//! converges in the norm of A for entries of any sign. The matrix of the coarsest grid is factorized exactly. The cycle
//! and the coarse matrices use the number type T; Galerkin products are computed in f64. A matrix is stored as
//! conductances c_o(p) = -A(p, p + o) and as row sums.
//!
//! A direction of weak couplings is not coarsened. In a direction that is coarsened, point 2 I is coarse point I. The
//! *type* S of a point is the set of coarsened directions in which its index is odd; S is empty for coarse points. The
//! equation of the point is summed over the directions outside S: offsets with equal parts in S are added. The result
//! defines the interpolated value:
//!
//! ```text
//! x(p) = (1/den) sum_{o_S != 0} c_o x(p + o_S),   den = row sum + sum_{o_S != 0} c_o,
//! ```
//!
//! where o_S is the part of o in the directions S. The point p + o_S has fewer odd indices than p. The interpolation is
//! therefore computed first for points with one odd index, then for those with two, and then for those with three.
//!
//! Each module uses only modules listed before it:
//!
//! - `layout`: array layouts
//! - `loops`: loops over half rows
//! - `transfer`: interpolation
//! - `grid`: coarse grids
//! - `finest`: the finest grid, in two passes per cycle
//! - `weights`, `product` and `load`: setup
//!
//! Each thread writes only planes of its own, and reads other planes only after a barrier. All results are bitwise
//! identical for any number of threads.

mod finest;
mod grid;
mod layout;
mod load;
mod loops;
mod product;
#[cfg(test)]
mod tests;
mod transfer;
mod weights;

use crate::base::number::Real;
use crate::base::reduce::{Partials, max_abs};
use crate::base::shared::{Number, Shared};
use crate::base::team::{Me, Team};
use crate::direct::couplings::Couplings;
use crate::direct::null_space::NearlySingularComponents;
use crate::direct::solver::{DirectSolver, box_order};
use crate::error::{Result, push, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::{COARSEST, Offset, SEMICOARSENING_RATIO, coarse_cells, coarsened_directions};
use finest::{Finest, PassWorkspace, Passes};
use grid::{Below, Grid, Stencil};
use layout::{Coarse, HIERARCHY};
use load::RowStatistics;
use product::{Cube, Sums};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use transfer::Weights;
use weights::PointTypes;

/// Parameters of the coarsening.
#[derive(Clone, Copy)]
struct Bounds {
    /// Limit that decides which directions are coarsened (see `coarsened` in `stencil::coarsening`).
    semi: f64,
    /// Largest number of points of the coarsest grid, which is solved exactly.
    coarsest: usize,
    /// A component of the coarsest grid is singular if the sum of its row sums is at most this number.
    singular: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { semi: SEMICOARSENING_RATIO, coarsest: COARSEST, singular: 0.0 }
    }
}

/// A coarse grid and the interpolation to the next finer grid.
struct Level<T> {
    weights: Weights<T>,
    /// Solution on the coarse grid.
    correction: Shared<T>,
    /// Index tables for interpolation and Galerkin product with the stencil of the finer grid.
    types: PointTypes,
    cube: Cube,
    grid: Grid<T>,
}

impl<T: Real + Number> Level<T> {
    fn new(fine: Cells, offsets: &[Offset], ratio: [usize; 3]) -> Result<Self> {
        let weights = Weights::new(fine, ratio)?;
        let (correction, grid) = (Shared::zeroed(weights.coarse.len())?, Grid::new(weights.coarse.cells)?);
        let (types, cube) = (PointTypes::new(offsets, ratio)?, Cube::new(offsets, ratio)?);
        Ok(Self { weights, correction, types, cube, grid })
    }

    /// Returns the right-hand side on the coarse grid.
    fn below(&self) -> Below<'_, T> {
        Below { split: &self.grid.a.split, r: &self.grid.r }
    }
}

/// The preconditioner.
pub struct VertexMultigrid<T: Real + Number> {
    cells: Cells,
    sweeps: usize,
    bounds: Bounds,
    /// Power of two by which the matrix is multiplied.
    scale: f64,
    finest: Finest<T>,
    /// Coarse grids, from the finest to the coarsest.
    levels: Vec<Level<T>>,
    /// Workspace of each thread.
    workspaces: Vec<(PassWorkspace<T>, Sums)>,
    /// Partial results of reductions, per plane.
    partials: Partials,
    /// Solver for the coarsest matrix, and workspace for its solution in natural order.
    coarsest: Option<(DirectSolver, Mutex<Vec<T>>)>,
}

impl<T: Real + Number> VertexMultigrid<T> {
    /// Allocates a preconditioner for a box of cells and a team of `members` threads. `sweeps` is the number of
    /// smoothing steps before, and after, the coarse-grid correction: 1 or 2.
    pub fn new(cells: Cells, sweeps: usize, members: usize) -> Result<Self> {
        Self::with(cells, sweeps, members, Bounds::default())
    }

    fn with(cells: Cells, sweeps: usize, members: usize, bounds: Bounds) -> Result<Self> {
        let mut workspaces = Vec::new();
        for _ in 0..members {
            let sums = Sums::new(&Coarse::new(coarse_cells(cells, [2; 3]), false))?;
            push(&mut workspaces, (PassWorkspace::new(cells, sweeps)?, sums), HIERARCHY)?;
        }
        let partials = Partials::new(cells.nz, size_of::<RowStatistics>() / 8)?;
        let finest = Finest::new(cells)?;
        Ok(Self { cells, sweeps, bounds, scale: 1.0, finest, levels: Vec::new(), workspaces, partials, coarsest: None })
    }

    /// Returns whether the memory was allocated for this box, number of sweeps and number of threads.
    pub fn fits(&self, cells: Cells, sweeps: usize, members: usize) -> bool {
        (self.cells, self.sweeps, self.workspaces.len()) == (cells, sweeps, members)
    }

    /// Computes all grids of a matrix. Reuses the memory of grids with the same extents and ratios.
    pub fn setup(&mut self, team: &mut Team, a: &SevenPoints) -> Result<()> {
        assert_eq!(a.cells, self.cells);
        self.scale = inverse_power(on_all(team, |me| self.largest(me, a))?);
        let mut seen = on_all(team, |me| self.load(me, a))?;
        let (mut cells, mut count) = (a.cells, 0);
        while count == 0 || cells.count() > self.bounds.coarsest {
            self.allocate(count, self.ratio(cells, seen))?;
            let has_excess = seen[4] > 0.0;
            seen = on_all(team, |me| self.coarsen(me, count, has_excess))?;
            cells = self.levels[count].grid.a.split.cells;
            count += 1;
        }
        self.levels.truncate(count);
        self.coarsest = None;
        let solver = coarsest(&self.levels[count - 1].grid.a, self.bounds.singular)?;
        self.coarsest = Some((solver, Mutex::new(zeroed(cells.count(), HIERARCHY)?)));
        Ok(())
    }

    /// Returns the ratio of the coarsening in each direction, 2 or 1, for a grid with the statistics `seen`. A
    /// direction with one point is treated as coarsened.
    fn ratio(&self, cells: Cells, seen: RowStatistics) -> [usize; 3] {
        let rows = f64::max(seen[3], 1.0);
        let coarsened = coarsened_directions(cells, [0, 1, 2].map(|d| seen[d] / rows), self.bounds.semi);
        [0, 1, 2].map(|d| if coarsened[d] || cells.size()[d] == 1 { 2 } else { 1 })
    }

    /// Allocates coarse grid l, unless it is already allocated for this ratio and these extents. An allocation frees
    /// the old grids from l on.
    fn allocate(&mut self, l: usize, ratio: [usize; 3]) -> Result<()> {
        let fine = if l == 0 { &self.finest.a } else { &self.levels[l - 1].grid.a };
        if !self
            .levels
            .get(l)
            .is_some_and(|level| (level.weights.fine, level.weights.ratio) == (fine.split.cells, ratio))
        {
            let (cells, offsets) = (fine.split.cells, fine.offsets);
            self.levels.truncate(l);
            push(&mut self.levels, Level::new(cells, offsets, ratio)?, HIERARCHY)?;
        }
        let coarse = &self.levels[l].weights.coarse;
        self.workspaces.iter_mut().try_for_each(|(_, sums)| sums.fit(coarse))
    }

    /// Computes the interpolation weights and the matrix of coarse grid l. `has_excess` states whether the matrix of
    /// the finer grid has nonzero row sums. Returns statistics of the rows of the coarse matrix.
    fn coarsen(&self, me: Me, l: usize, has_excess: bool) -> RowStatistics {
        let Level { weights, types, cube, grid, .. } = &self.levels[l];
        let a = if l == 0 { &self.finest.a } else { &self.levels[l - 1].grid.a };
        for order in 1..=3 {
            weights::make(me, types, a, weights, order);
            me.barrier();
        }
        product::make(me, cube, a, weights, &self.workspaces[me.index].1, &grid.a, has_excess);
        me.barrier();
        // SAFETY: the plane belongs to this thread; the conductances were written before the barrier.
        self.sum(me, grid.a.split.cells.nz, |k| unsafe { load::finish(grid, k) })
    }

    /// Loads the caller's matrix. Returns statistics of its rows.
    fn load(&self, me: Me, a: &SevenPoints) -> RowStatistics {
        // SAFETY: the plane and the workspace belong to this thread.
        self.sum(me, a.cells.nz, |k| unsafe {
            load::load(&self.finest, a, k, self.scale, self.workspaces[me.index].1.all_values())
        })
    }

    /// Returns the largest diagonal entry.
    fn largest(&self, me: Me, a: &SevenPoints) -> f64 {
        let plane = a.cells.plane();
        let partials = self.partials.reduce::<1>(0, a.cells.nz);
        for k in me.share(a.cells.nz) {
            // SAFETY: the plane belongs to this thread.
            unsafe { partials.store(k, [max_abs(&a.center[k * plane..][..plane])]) };
        }
        max_abs(partials.all(Some(me))[0])
    }

    /// Returns the sums of `of(k)` over all planes k.
    fn sum(&self, me: Me, planes: usize, mut of: impl FnMut(usize) -> RowStatistics) -> RowStatistics {
        let partials = self.partials.reduce(0, planes);
        for k in me.share(planes) {
            // SAFETY: the plane belongs to this thread.
            unsafe { partials.store(k, of(k)) };
        }
        partials.sum(Some(me))
    }

    /// Computes z = M^-1 r in natural order, and returns <r, z>. All threads must call this function. `magnitude` is
    /// any norm of r. `z(cells)` returns z in cells of the calling thread for writing. Begins and ends with a barrier.
    pub fn apply<'z>(&self, me: Me, r: &[f64], magnitude: f64, z: impl Fn(Range<usize>) -> &'z mut [f64]) -> f64 {
        me.barrier();
        let products = self.partials.reduce(0, self.cells.nz);
        let (Some(first), Some(last)) = (self.levels.first(), self.levels.last()) else { return 0.0 };
        let (workspace, sweeps, scale) = (&self.workspaces[me.index].0, self.sweeps, inverse_power(magnitude));
        let passes = Passes { finest: &self.finest, weights: &first.weights, workspace, sweeps, r, scale };
        passes.descend(me, &first.below());
        me.barrier();
        for pair in self.levels.windows(2) {
            // SAFETY: the workspace belongs to this thread.
            pair[0].grid.descend(me, sweeps, &pair[1].weights, &pair[1].below(), unsafe { workspace.row() });
        }
        if me.index == 0 {
            self.solve_coarsest(last);
        }
        me.barrier();
        for pair in self.levels.windows(2).rev() {
            let from = (&pair[1].weights, &pair[1].correction);
            pair[0].grid.ascend(me, sweeps, from, (&pair[0].weights.coarse, &pair[0].correction));
        }
        passes.ascend(me, &first.correction, self.scale / scale, z, &products);
        products.sum(Some(me))[0]
    }

    /// Solves the system of the coarsest grid. Only thread 0 calls this function.
    fn solve_coarsest(&self, level: &Level<T>) {
        let Some((solver, x)) = &self.coarsest else { return };
        let x = &mut *x.lock().unwrap_or_else(PoisonError::into_inner);
        let (split, coarse) = (&level.grid.a.split, &level.weights.coarse);
        let place = |p| split.cells.indices(p);
        // SAFETY: only thread 0 works, so no thread writes r.
        x.iter_mut().enumerate().for_each(|(p, x)| *x = unsafe { level.grid.r.slice(split.point(place(p)), 1)[0] });
        solver.solve(x);
        for (p, x) in x.iter().enumerate() {
            // SAFETY: only thread 0 works, so no other thread uses the correction.
            unsafe { level.correction.slice_mut(coarse.point(place(p)), 1)[0] = *x };
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let of_level = |level: &Level<T>| level.weights.bytes() + level.correction.bytes() + level.grid.bytes();
        let of_coarsest = |(solver, _): &(DirectSolver, _)| solver.bytes();
        self.finest.bytes()
            + self.levels.iter().map(of_level).sum::<usize>()
            + self.workspaces.iter().map(|(workspace, sums)| workspace.bytes() + sums.bytes()).sum::<usize>()
            + self.coarsest.as_ref().map_or(0, of_coarsest)
    }
}

/// Executes `work` on all threads; returns the result of thread 0.
fn on_all<R>(team: &mut Team, work: impl Fn(Me) -> R + Sync) -> Result<R> {
    team.run(|me| drop(work(me)), &work)
}

/// Factorizes the matrix of the coarsest grid. A pivot of at most `ZERO_PIVOT` times its diagonal entry counts as a
/// rounding error; its unknown is zero in every solution.
fn coarsest<T: Real + Number>(a: &Stencil<T>, singular: f64) -> Result<DirectSolver> {
    const ZERO_PIVOT: f64 = 1e-14;
    let c = couplings(a)?;
    let means = NearlySingularComponents::of(&c, |_, _| singular)?;
    let order = box_order(a.split.cells)?;
    DirectSolver::of(&c, order, means, |p, d| Ok(if d <= ZERO_PIVOT * c.diagonal[p] { 0.0 } else { 1.0 / d }))
}

/// Converts a matrix to row-sum form, row by row.
fn couplings<T: Real + Number>(a: &Stencil<T>) -> Result<Couplings> {
    let (split, cells, last) = (&a.split, a.split.cells, a.offsets.len());
    let step = |k: usize| (0..3).map(|d| a.offsets[k][d] * cells.strides()[d] as isize).sum::<isize>();
    let value = |array: &Shared<T>, first: usize, p: usize| {
        // SAFETY: no team runs, so no thread writes the matrix.
        unsafe { array.slice(first + split.point(cells.indices(p)), 1)[0].wide() }
    };
    let c = |k: usize, p: usize| value(&a.c, k * split.len(), p);
    let mut matrix = Couplings::with_capacity(cells.count(), 2 * last * cells.count())?;
    for p in 0..cells.count() {
        // If an offset leaves the grid, p + step may be the index of a point on the opposite side. The conductance is
        // zero in this case.
        let below = (0..last).rev().filter_map(|k| p.checked_add_signed(-step(k)).map(|q| (q, c(k, q))));
        let above = (0..last).filter_map(|k| p.checked_add_signed(step(k)).map(|q| (q, c(k, p))));
        below.chain(above).filter(|(_, c)| *c != 0.0).for_each(|(q, c)| matrix.push(q, c));
        matrix.end_exact_row(value(&a.excess, 0, p));
    }
    Ok(matrix)
}

/// Returns the power of two that scales a magnitude into [1, 2), or 1 if it is zero or not finite.
fn inverse_power(magnitude: f64) -> f64 {
    if magnitude > 0.0 && magnitude.is_finite() { (-magnitude.log2().floor()).exp2() } else { 1.0 }
}
