//! Backend of a rank that does not compute, because rank 0 solves the whole system. This rank only sends its values to
//! rank 0 and receives the solution.

use crate::base::engine::Engine;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{Report, RrbBackend, Setup};
use crate::stencil::components::Components;
use crate::stencil::matrix::StencilView;

/// Properties of the factorization that rank 0 has reported.
pub struct RemoteFactorization {
    /// Number of grids that rank 0 stores by colour.
    pub grids: usize,
    /// Number of threads on rank 0.
    pub threads: usize,
}

fn missing_rows_error() -> Error {
    Error::Internal("a rank without rows was asked to work on rows".to_owned())
}

impl RrbBackend for RemoteFactorization {
    fn factorize(&mut self, _: &StencilView, _: &Setup, _: &Components) -> Result<()> {
        Err(missing_rows_error())
    }

    fn run(&mut self, _: Arrays, _: &mut dyn Observer, _: Program) -> Result<Outcome> {
        Err(missing_rows_error())
    }

    fn report(&self) -> Report {
        Report { grids: self.grids, ..Report::V_CYCLE }
    }
}

impl Engine for RemoteFactorization {
    fn bytes(&self) -> [usize; 2] {
        [0, 0]
    }

    fn threads(&self) -> usize {
        self.threads
    }
}
