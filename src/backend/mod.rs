//! Backends, which execute the arithmetic of the methods.
//!
//! - `steps`: the steps of each family as traits.
//! - `reference`: plain loops over natural storage, the reference for tests; for RRB the implementation S1 of the
//!   report.
//! - `cpu`: one thread (S2 of the report) or several threads (S3).
//! - `cuda`: a CUDA device.
//! - `coarse`: exact solvers of coarse systems, for all backends.
//! - `cell_grids`: coarse grids of the multigrid with cell coarsening.
//! - `cell_setup`: properties of a matrix on boxes of cells that a thread team determines, also for a device.
//! - `aggregation`: multigrid by aggregation for any symmetric matrix.
//! - `elsewhere`: the backend of a rank whose work another rank does.

pub mod aggregation;
pub mod cell_grids;
pub mod cell_setup;
pub mod coarse;
pub mod cpu;
pub mod cuda;
pub mod elsewhere;
pub mod reference;
pub mod residual;
pub mod steps;
pub mod storage;
