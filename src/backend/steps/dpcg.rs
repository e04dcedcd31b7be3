//! Deflated PCG on boxes of cells: what `factorize` is to build, and what a backend has to offer.

use super::engine::Engine;
use super::solve::{Arrays, Program};
use crate::backend::coarse::deflation::Solver;
use crate::error::Result;
use crate::grid::cell_survey::Survey;
use crate::grid::cells::CellView;
use crate::grid::outward::Outward;
use crate::grid::regions::{Choice, RegionCount};
use crate::report::{Observer, Outcome};

/// M.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preconditioner {
    /// M = I.
    None,
    /// M = D.
    Jacobi,
    /// M^-1 = K^T D^-1 K, K = sum over m = 0 .. order of (-L D^-1)^m: the Neumann series of (I + L D^-1)^-1, cut off.
    Neumann {
        /// Terms after the first.
        order: usize,
    },
    /// M = (D~ + L) D~^-1 (D~ + L^T), a relaxed incomplete Cholesky factorization; omega = 0: IC(0).
    Incomplete {
        /// Part of the dropped fill that is taken from the diagonal.
        omega: f64,
    },
    /// A V-cycle of multigrid.
    Multigrid {
        /// Every second cell is a coarse point; else two cells a direction become one.
        vertex: bool,
        /// Smoothing sweeps before and after the coarse grid.
        sweeps: usize,
        /// Coarse grids in single precision.
        single: bool,
        /// Cells of the coarsest grid at most, of pairs of cells.
        coarsest: usize,
    },
    /// A cycle over aggregates, which is not linear.
    Aggregation {
        /// Passes of pairs: aggregates have 2^passes cells at most.
        passes: usize,
        /// The cycle is in single precision.
        single: bool,
        /// Row sums within this part of the center count as zero in M.
        zero_row_sum: f64,
    },
}

/// Cells of the coarsest grid where cells are paired. The published method has 4 x 4 x 4, too coarse to see a bubble,
/// which then ties the water on all sides of it together: nine bubbles at 64^3 and 1e-6 take 37 iterations of V(2,2),
/// and 8 with a coarsest grid that sees them.
pub const PUBLISHED: usize = 64;
/// One that sees them.
pub const SEEING: usize = 1000;

/// What `factorize` is to build.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// M.
    pub preconditioner: Preconditioner,
    /// Of systems with E.
    pub coarse_solver: Solver,
    /// Where that iterates.
    pub coarse_tolerance: f64,
    /// Fused stages, where the backend has them.
    pub fused: bool,
}

/// A matrix with its preconditioner and deflation vectors.
pub trait DpcgBackend: Engine + Send {
    /// Copies the caller's matrix and inspects it: an entry that is not finite is an error where `finite` asks for
    /// that, and so is a center that no number divides by. Returns the largest center.
    fn load(&mut self, a: &CellView, finite: bool) -> Result<f64>;
    /// Couplings of the matrix loaded last, which is `a`, that point out of the box.
    fn outward(&self, a: &CellView) -> Result<Outward> {
        Ok(Outward::of_cells(a))
    }
    /// Finds what choices depend on. Components are singular by row sums within this part of the center.
    fn survey(&mut self, zero_row_sum: f64) -> Result<Survey>;
    /// Finds deflation regions, after `survey`: without them `factorize` deflates nothing.
    fn find_regions(&mut self, choice: &Choice) -> Result<RegionCount>;
    /// Makes M and E, after `survey`. Returns how systems with E are solved.
    fn factorize(&mut self, setup: &Setup) -> Result<Option<Solver>>;
    /// Seconds that E took in the last `factorize`.
    fn seconds_of_e(&self) -> f64;
    /// Aggregates that it kept from the matrix before.
    fn aggregates_kept(&self) -> usize {
        0
    }
    /// Runs a text on the steps.
    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome>;
    /// Of the last run, seconds of coarse solves.
    fn seconds_coarse(&self) -> f64 {
        0.0
    }
}
