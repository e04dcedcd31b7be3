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
//! equation of the point is summed over the directions outside S: the conductances of offsets with equal parts in S are
//! added. The resulting equation defines the interpolated value:
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
use crate::base::team::{Team, TeamThread};
use crate::direct::couplings::Couplings;
use crate::direct::null_space::NearlySingularComponents;
use crate::direct::solver::{DirectSolver, box_order};
use crate::error::{Result, push, zeroed};
use crate::stencil::cells::{Cells, SevenPoints};
use crate::stencil::coarsening::{
    MAX_COARSEST_CELLS, Offset, SEMICOARSENING_RATIO, coarse_cells, coarsened_directions,
};
use finest::{FinestGrid, PassWorkspace, Passes};
use grid::{CoarseRhs, Grid, Stencil};
use layout::{CoarseLayout, GRIDS_ALLOCATION};
use load::RowStatistics;
use product::{Cube, GalerkinSums};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use transfer::InterpolationWeights;
use weights::PointTypes;

/// Parameters of the coarsening.
#[derive(Clone, Copy)]
struct CoarseningLimits {
    /// Largest ratio of the strengths of two directions that are both coarsened (see `strong_directions` in
    /// `stencil::coarsening`).
    semicoarsening_ratio: f64,
    /// Largest number of points of the coarsest grid, which is solved exactly.
    max_coarsest_points: usize,
    /// A component of the coarsest grid is singular if the sum of its row sums is at most this number.
    singular_row_sum: f64,
}

impl Default for CoarseningLimits {
    fn default() -> Self {
        Self {
            semicoarsening_ratio: SEMICOARSENING_RATIO,
            max_coarsest_points: MAX_COARSEST_CELLS,
            singular_row_sum: 0.0,
        }
    }
}

/// A coarse grid and the interpolation to the next finer grid.
struct Level<T> {
    weights: InterpolationWeights<T>,
    /// Solution on the coarse grid.
    correction: Shared<T>,
    /// Index tables for the interpolation (`point_types`) and for the Galerkin product (`cube`). They depend on the
    /// stencil of the finer grid.
    point_types: PointTypes,
    cube: Cube,
    grid: Grid<T>,
}

impl<T: Real + Number> Level<T> {
    fn new(fine_extents: Cells, offsets: &[Offset], coarsening_ratio: [usize; 3]) -> Result<Self> {
        let weights = InterpolationWeights::new(fine_extents, coarsening_ratio)?;
        let (correction, grid) =
            (Shared::zeroed(weights.coarse_layout.len())?, Grid::new(weights.coarse_layout.cells)?);
        let (point_types, cube) = (PointTypes::new(offsets, coarsening_ratio)?, Cube::new(offsets, coarsening_ratio)?);
        Ok(Self { weights, correction, point_types, cube, grid })
    }

    /// Returns the right-hand side on the coarse grid.
    fn coarse_rhs(&self) -> CoarseRhs<'_, T> {
        CoarseRhs { split: &self.grid.a.split, r: &self.grid.r }
    }
}

/// The preconditioner.
pub struct VertexMultigrid<T: Real + Number> {
    cells: Cells,
    sweeps: usize,
    limits: CoarseningLimits,
    /// Power of two by which the matrix is multiplied.
    matrix_scale: f64,
    finest: FinestGrid<T>,
    /// Coarse grids, from the finest to the coarsest.
    levels: Vec<Level<T>>,
    /// Workspace of each thread.
    workspaces: Vec<(PassWorkspace<T>, GalerkinSums)>,
    /// Partial results of reductions, per plane.
    partials: Partials,
    /// Solver for the coarsest matrix, and workspace for its solution in natural order.
    coarsest_solver: Option<(DirectSolver, Mutex<Vec<T>>)>,
}

impl<T: Real + Number> VertexMultigrid<T> {
    /// Allocates a preconditioner for a box of cells and a team of `threads` threads. `sweeps` is the number of
    /// smoothing steps before, and after, the coarse-grid correction: 1 or 2.
    pub fn new(cells: Cells, sweeps: usize, threads: usize) -> Result<Self> {
        Self::with_limits(cells, sweeps, threads, CoarseningLimits::default())
    }

    fn with_limits(cells: Cells, sweeps: usize, threads: usize, limits: CoarseningLimits) -> Result<Self> {
        let mut workspaces = Vec::new();
        for _ in 0..threads {
            let sums = GalerkinSums::new(&CoarseLayout::new(coarse_cells(cells, [2; 3]), false))?;
            push(&mut workspaces, (PassWorkspace::new(cells, sweeps)?, sums), GRIDS_ALLOCATION)?;
        }
        let partials = Partials::new(cells.nz, size_of::<RowStatistics>() / 8)?;
        let finest = FinestGrid::new(cells)?;
        Ok(Self {
            cells,
            sweeps,
            limits,
            matrix_scale: 1.0,
            finest,
            levels: Vec::new(),
            workspaces,
            partials,
            coarsest_solver: None,
        })
    }

    /// Returns whether the memory was allocated for this box, number of sweeps and number of threads.
    pub fn fits(&self, cells: Cells, sweeps: usize, threads: usize) -> bool {
        (self.cells, self.sweeps, self.workspaces.len()) == (cells, sweeps, threads)
    }

    /// Computes all grids of a matrix. Reuses the memory of grids with the same extents and ratios.
    pub fn compute_grids(&mut self, team: &mut Team, a: &SevenPoints) -> Result<()> {
        assert_eq!(a.cells, self.cells);
        self.matrix_scale = inverse_power_of_two(run_on_all(team, |thread| self.largest_diagonal(thread, a))?);
        let mut statistics = run_on_all(team, |thread| self.load_matrix(thread, a))?;
        let (mut cells, mut level_count) = (a.cells, 0);
        while level_count == 0 || cells.count() > self.limits.max_coarsest_points {
            self.allocate_level(level_count, self.choose_ratio(cells, statistics))?;
            let has_nonzero_row_sums = statistics[4] > 0.0;
            statistics = run_on_all(team, |thread| self.coarsen(thread, level_count, has_nonzero_row_sums))?;
            cells = self.levels[level_count].grid.a.split.cells;
            level_count += 1;
        }
        self.levels.truncate(level_count);
        self.coarsest_solver = None;
        let solver = factorize_coarsest(&self.levels[level_count - 1].grid.a, self.limits.singular_row_sum)?;
        self.coarsest_solver = Some((solver, Mutex::new(zeroed(cells.count(), GRIDS_ALLOCATION)?)));
        Ok(())
    }

    /// Returns the ratio of the coarsening in each direction, 2 or 1, for a grid with the given statistics. A
    /// direction with one point is treated as coarsened.
    fn choose_ratio(&self, cells: Cells, statistics: RowStatistics) -> [usize; 3] {
        let row_count = f64::max(statistics[3], 1.0);
        let coarsened_directions =
            coarsened_directions(cells, [0, 1, 2].map(|d| statistics[d] / row_count), self.limits.semicoarsening_ratio);
        [0, 1, 2].map(|d| if coarsened_directions[d] || cells.size()[d] == 1 { 2 } else { 1 })
    }

    /// Allocates coarse grid l, unless this grid is already allocated with the same ratio and extents. An allocation
    /// first frees the old grids l, l + 1, ...
    fn allocate_level(&mut self, l: usize, coarsening_ratio: [usize; 3]) -> Result<()> {
        let fine_stencil = if l == 0 { &self.finest.a } else { &self.levels[l - 1].grid.a };
        if !self.levels.get(l).is_some_and(|level| {
            (level.weights.fine_extents, level.weights.coarsening_ratio) == (fine_stencil.split.cells, coarsening_ratio)
        }) {
            let (cells, offsets) = (fine_stencil.split.cells, fine_stencil.offsets);
            self.levels.truncate(l);
            push(&mut self.levels, Level::new(cells, offsets, coarsening_ratio)?, GRIDS_ALLOCATION)?;
        }
        let coarse_layout = &self.levels[l].weights.coarse_layout;
        self.workspaces.iter_mut().try_for_each(|(_, sums)| sums.resize_for(coarse_layout))
    }

    /// Computes the interpolation weights and the matrix of coarse grid l. `has_nonzero_row_sums`: whether the matrix
    /// of the finer grid has nonzero row sums. Returns statistics of the rows of the coarse matrix.
    fn coarsen(&self, thread: TeamThread, l: usize, has_nonzero_row_sums: bool) -> RowStatistics {
        let Level { weights, point_types, cube, grid, .. } = &self.levels[l];
        let a = if l == 0 { &self.finest.a } else { &self.levels[l - 1].grid.a };
        for odd_indices in 1..=3 {
            weights::compute_weights(thread, point_types, a, weights, odd_indices);
            thread.barrier();
        }
        product::compute_galerkin_product(
            thread,
            cube,
            a,
            weights,
            &self.workspaces[thread.index].1,
            &grid.a,
            has_nonzero_row_sums,
        );
        thread.barrier();
        // SAFETY: the plane belongs to this thread; the conductances were written before the barrier.
        self.sum_over_planes(thread, grid.a.split.cells.nz, |k| unsafe { load::finish_plane(grid, k) })
    }

    /// Loads the caller's matrix. Returns statistics of its rows.
    fn load_matrix(&self, thread: TeamThread, a: &SevenPoints) -> RowStatistics {
        // SAFETY: the plane and the workspace belong to this thread.
        self.sum_over_planes(thread, a.cells.nz, |k| unsafe {
            load::load_plane(&self.finest, a, k, self.matrix_scale, self.workspaces[thread.index].1.all_values())
        })
    }

    /// Returns the largest diagonal entry.
    fn largest_diagonal(&self, thread: TeamThread, a: &SevenPoints) -> f64 {
        let plane = a.cells.plane();
        let partials = self.partials.reduce::<1>(0, a.cells.nz);
        for k in thread.share(a.cells.nz) {
            // SAFETY: the plane belongs to this thread.
            unsafe { partials.store(k, [max_abs(&a.center[k * plane..][..plane])]) };
        }
        max_abs(partials.partial_results(Some(thread))[0])
    }

    /// Returns the sums of `statistics_of(k)` over all planes k.
    fn sum_over_planes(
        &self,
        thread: TeamThread,
        plane_count: usize,
        mut statistics_of: impl FnMut(usize) -> RowStatistics,
    ) -> RowStatistics {
        let partials = self.partials.reduce(0, plane_count);
        for k in thread.share(plane_count) {
            // SAFETY: the plane belongs to this thread.
            unsafe { partials.store(k, statistics_of(k)) };
        }
        partials.sum(Some(thread))
    }

    /// Computes z = M^-1 r in natural order, and returns <r, z>. All threads must call this function. `magnitude` is
    /// any norm of r. `z(cells)` returns z in cells of the calling thread for writing. Begins and ends with a barrier.
    pub fn apply<'z>(
        &self,
        thread: TeamThread,
        r: &[f64],
        magnitude: f64,
        z: impl Fn(Range<usize>) -> &'z mut [f64],
    ) -> f64 {
        thread.barrier();
        let partial_products = self.partials.reduce(0, self.cells.nz);
        let (Some(first_level), Some(last_level)) = (self.levels.first(), self.levels.last()) else { return 0.0 };
        let (workspace, sweeps, scale) =
            (&self.workspaces[thread.index].0, self.sweeps, inverse_power_of_two(magnitude));
        let passes = Passes { finest: &self.finest, weights: &first_level.weights, workspace, sweeps, r, scale };
        passes.descend(thread, &first_level.coarse_rhs());
        thread.barrier();
        for level_pair in self.levels.windows(2) {
            // SAFETY: the workspace belongs to this thread.
            level_pair[0].grid.descend(thread, sweeps, &level_pair[1].weights, &level_pair[1].coarse_rhs(), unsafe {
                workspace.coarse_row()
            });
        }
        if thread.index == 0 {
            self.solve_coarsest(last_level);
        }
        thread.barrier();
        for level_pair in self.levels.windows(2).rev() {
            let coarse_correction = (&level_pair[1].weights, &level_pair[1].correction);
            level_pair[0].grid.ascend(
                thread,
                sweeps,
                coarse_correction,
                (&level_pair[0].weights.coarse_layout, &level_pair[0].correction),
            );
        }
        passes.ascend(thread, &first_level.correction, self.matrix_scale / scale, z, &partial_products);
        partial_products.sum(Some(thread))[0]
    }

    /// Solves the system of the coarsest grid. Only thread 0 calls this function.
    fn solve_coarsest(&self, level: &Level<T>) {
        let Some((solver, x)) = &self.coarsest_solver else { return };
        let x = &mut *x.lock().unwrap_or_else(PoisonError::into_inner);
        let (split, coarse) = (&level.grid.a.split, &level.weights.coarse_layout);
        let indices_of = |p| split.cells.indices(p);
        for (p, x) in x.iter_mut().enumerate() {
            // SAFETY: only thread 0 works, so no thread writes r.
            *x = unsafe { level.grid.r.slice(split.index_of(indices_of(p)), 1)[0] };
        }
        solver.solve(x);
        for (p, x) in x.iter().enumerate() {
            // SAFETY: only thread 0 works, so no other thread uses the correction.
            unsafe { level.correction.slice_mut(coarse.index_of(indices_of(p)), 1)[0] = *x };
        }
    }

    /// Returns the allocated size in bytes.
    pub fn bytes(&self) -> usize {
        let level_bytes = |level: &Level<T>| level.weights.bytes() + level.correction.bytes() + level.grid.bytes();
        let solver_bytes = |(solver, _): &(DirectSolver, _)| solver.bytes();
        self.finest.bytes()
            + self.levels.iter().map(level_bytes).sum::<usize>()
            + self.workspaces.iter().map(|(workspace, sums)| workspace.bytes() + sums.bytes()).sum::<usize>()
            + self.coarsest_solver.as_ref().map_or(0, solver_bytes)
    }
}

/// Executes `run` on all threads; returns the result of thread 0.
fn run_on_all<R>(team: &mut Team, run: impl Fn(TeamThread) -> R + Sync) -> Result<R> {
    team.run(|thread| drop(run(thread)), &run)
}

/// Factorizes the matrix of the coarsest grid. A pivot of at most `ZERO_PIVOT` times its diagonal entry counts as a
/// rounding error. The unknown of such a pivot is zero in every solution.
fn factorize_coarsest<T: Real + Number>(a: &Stencil<T>, singular_row_sum: f64) -> Result<DirectSolver> {
    const ZERO_PIVOT: f64 = 1e-14;
    let matrix = to_row_sum_form(a)?;
    let nearly_singular = NearlySingularComponents::of(&matrix, |_, _| singular_row_sum)?;
    let elimination_order = box_order(a.split.cells)?;
    DirectSolver::of(&matrix, elimination_order, nearly_singular, |p, d| {
        Ok(if d <= ZERO_PIVOT * matrix.diagonal[p] { 0.0 } else { 1.0 / d })
    })
}

/// Converts a matrix to row-sum form, row by row.
fn to_row_sum_form<T: Real + Number>(a: &Stencil<T>) -> Result<Couplings> {
    let (split, cells, offset_count) = (&a.split, a.split.cells, a.offsets.len());
    let index_step = |k: usize| (0..3).map(|d| a.offsets[k][d] * cells.strides()[d] as isize).sum::<isize>();
    let value_at = |array: &Shared<T>, array_start: usize, p: usize| {
        // SAFETY: no team runs, so no thread writes the matrix.
        unsafe { array.slice(array_start + split.index_of(cells.indices(p)), 1)[0].to_f64() }
    };
    let conductance = |k: usize, p: usize| value_at(&a.c, k * split.len(), p);
    let mut matrix = Couplings::with_capacity(cells.count(), 2 * offset_count * cells.count())?;
    for p in 0..cells.count() {
        // If an offset leaves the grid, p + step may be the index of a point on the opposite side. The conductance is
        // zero in this case.
        let lower_couplings = (0..offset_count)
            .rev()
            .filter_map(|k| p.checked_add_signed(-index_step(k)).map(|q| (q, conductance(k, q))));
        let upper_couplings =
            (0..offset_count).filter_map(|k| p.checked_add_signed(index_step(k)).map(|q| (q, conductance(k, p))));
        lower_couplings.chain(upper_couplings).filter(|(_, c)| *c != 0.0).for_each(|(q, c)| matrix.push(q, c));
        matrix.end_exact_row(value_at(&a.row_sums, 0, p));
    }
    Ok(matrix)
}

/// Returns the power of two that scales `magnitude` into [1, 2), or 1 if `magnitude` is zero or not finite.
fn inverse_power_of_two(magnitude: f64) -> f64 {
    if magnitude > 0.0 && magnitude.is_finite() { (-magnitude.log2().floor()).exp2() } else { 1.0 }
}
