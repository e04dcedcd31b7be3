//! Deflated PCG on boxes of cells: parameters of `factorize`, and the interface of the backends (`DpcgBackend`).

use crate::base::engine::Engine;
use crate::deflation::Solver;
use crate::deflation::regions::{RegionChoice, RegionCounts};
use crate::dpcg::survey::Survey;
use crate::error::Result;
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::stencil::cells::CellView;
use crate::stencil::outward::OutwardCouplings;

/// Preconditioner M (docs/theory/dpcg.md).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preconditioner {
    /// M = I.
    None,
    /// M = D, the diagonal of A.
    Jacobi,
    /// M^-1 = K^T D^-1 K with K = sum_{m=0..order} (-L D^-1)^m, the truncated Neumann series of (I + L D^-1)^-1. L is
    /// the strictly lower triangle of A.
    Neumann {
        /// Number of terms after the first.
        order: usize,
    },
    /// M = (D~ + L) D~^-1 (D~ + L^T) with a diagonal matrix D~: a relaxed incomplete Cholesky factorization. It is
    /// IC(0) with omega = 0, and MIC(0) with omega = 1.
    Incomplete {
        /// Fraction of the dropped fill that is subtracted from the diagonal.
        omega: f64,
    },
    /// One V-cycle of geometric multigrid from zero.
    Multigrid {
        /// Whether coarsening is vertex-centered, so that every second cell is a coarse point. Otherwise, two cells per
        /// direction form a coarse cell.
        is_vertex_centered: bool,
        /// Number of smoothing sweeps before and after the coarse correction.
        sweeps: usize,
        /// Whether coarse grids use single precision.
        is_single_precision: bool,
        /// Maximum number of cells of the coarsest grid. Only cell-centered coarsening uses this limit.
        max_coarsest_cells: usize,
    },
    /// A cycle of aggregation-based multigrid. On the CPU, this cycle is not linear in r; on a device, M is a fixed
    /// matrix.
    Aggregation {
        /// Number of passes of pairwise matching. Aggregates have at most 2^`pairing_passes` cells.
        pairing_passes: usize,
        /// Whether the cycle uses single precision.
        is_single_precision: bool,
        /// Row sums of magnitude at most `zero_row_sum` times the center are set to zero in M.
        zero_row_sum: f64,
    },
}

/// Maximum number of cells of the coarsest grid in the published method with cell-centered coarsening: 4 x 4 x 4. This
/// limit applies if the option `coarsening` is set. This grid does not resolve bubbles: its couplings connect the water
/// on opposite sides of a bubble.
pub const PUBLISHED_COARSEST_CELLS: usize = 64;
/// Maximum number of cells of the coarsest grid if `auto` selects cell-centered coarsening. With at most this many
/// cells, the grid usually still resolves the bubbles. For nine bubbles, 64^3 cells and density ratio 1e-6, PCG with
/// two sweeps then needs 8 iterations instead of 37 with `PUBLISHED_COARSEST_CELLS`.
pub const RESOLVING_COARSEST_CELLS: usize = 1000;

/// Parameters of `factorize`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Preconditioner.
    pub preconditioner: Preconditioner,
    /// Solver of systems with E.
    pub coarse_solver: Solver,
    /// Relative tolerance of conjugate gradients for systems with E.
    pub coarse_tolerance: f64,
    /// Whether the backend may use fused passes. Backends do not have fused passes for every preconditioner.
    pub uses_fused_passes: bool,
}

/// Backend with a matrix, its preconditioner and its deflation vectors.
pub trait DpcgBackend: Engine + Send {
    /// Copies the caller's matrix, inspects it, and returns the largest center. An entry that is not finite is an error
    /// if `checks_finite` is set. A center that is not positive, or too small to divide by, is always an error.
    fn load(&mut self, a: &CellView, checks_finite: bool) -> Result<f64>;
    /// Counts the nonzero couplings that point out of the box, and returns the first of them. `a` must be the matrix
    /// that was loaded last.
    fn find_outward_couplings(&self, a: &CellView) -> Result<OutwardCouplings> {
        Ok(OutwardCouplings::of_cells(a))
    }
    /// Determines the properties of the matrix on which automatic choices depend. A component is singular if the
    /// magnitude of each row sum is at most `zero_row_sum` times the center of the row.
    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey>;
    /// Determines the deflation regions and returns the numbers of deflation vectors and regions; must be called after
    /// `survey`. `factorize` uses no deflation if there are no deflation vectors, or if `find_regions` was not called
    /// after the last `survey`.
    fn find_regions(&mut self, choice: &RegionChoice) -> Result<RegionCounts>;
    /// Computes M and E; must be called after `survey`. Returns the solver of systems with E, or `None` without
    /// deflation.
    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>>;
    /// Returns the time in seconds that the last `factorize` spent on Z and E.
    fn coarse_setup_seconds(&self) -> f64;
    /// Returns the number of aggregates reused from the previous matrix.
    fn reused_aggregate_count(&self) -> usize {
        0
    }
    /// Runs `program` on all threads with the caller's `arrays`. Thread 0 reports events to `observer`.
    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome>;
    /// Returns the time in seconds that the last run spent on solves with E.
    fn coarse_solve_seconds(&self) -> f64 {
        0.0
    }
}
