//! Deflated PCG on boxes of cells: what `factorize` is to build, and what a backend has to offer.

use super::solve::{Arrays, Program};
use crate::backend::coarse::deflation::Solver;
use crate::error::Result;
use crate::grid::cell_components::CellComponents;
use crate::grid::cells::{CellView, SevenPoints};
use crate::grid::regions::Regions;
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
    },
}

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
pub trait DpcgBackend: Send {
    /// Works on the caller's stream from now on; 0: on one of its own.
    fn use_stream(&mut self, _stream: usize) -> Result<()> {
        Ok(())
    }
    /// Copies the caller's matrix.
    fn load(&mut self, a: &CellView) -> Result<()>;
    /// The copy.
    fn matrix(&self) -> SevenPoints<'_>;
    /// Makes M and E; `regions`: none where nothing is deflated.
    fn factorize(&mut self, setup: &Setup, components: &CellComponents, regions: Option<&Regions>) -> Result<()>;
    /// Runs a text on the steps.
    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome>;
    /// Bytes of all arrays in host memory.
    fn bytes(&self) -> usize;
    /// Bytes of all arrays in device memory.
    fn device_bytes(&self) -> usize {
        0
    }
    /// Ordinal of the device in use.
    fn device(&self) -> Option<i32> {
        None
    }
    /// Of the last run, seconds of copies between host and device.
    fn seconds_transfer(&self) -> f64 {
        0.0
    }
    /// Of the last run, seconds of coarse solves.
    fn seconds_coarse(&self) -> f64 {
        0.0
    }
    /// Members of the team.
    fn threads(&self) -> usize;
}
