//! Backend of a rank whose work another rank does. This rank only sends values to the working rank and receives the
//! solution.

use crate::base::engine::Engine;
use crate::error::{Error, Result};
use crate::krylov::solve_steps::{Arrays, Program};
use crate::report::{Observer, Outcome};
use crate::rrb::backend::{Report, RrbBackend, Setup};
use crate::stencil::components::Components;
use crate::stencil::matrix::StencilView;

/// Properties that the working rank has reported.
pub struct Elsewhere {
    /// Number of grids with separate arrays for r1, r2, b1, b2 on the working rank.
    pub grids: usize,
    /// Number of threads on the working rank.
    pub threads: usize,
}

fn not_here() -> Error {
    Error::Internal("a rank without rows was asked to work on rows".to_owned())
}

impl RrbBackend for Elsewhere {
    fn factorize(&mut self, _: &StencilView, _: &Setup, _: &Components) -> Result<()> {
        Err(not_here())
    }

    fn run(&mut self, _: Arrays, _: &mut dyn Observer, _: Program) -> Result<Outcome> {
        Err(not_here())
    }

    fn report(&self) -> Report {
        Report { grids: self.grids, ..Report::PLAIN }
    }
}

impl Engine for Elsewhere {
    fn bytes(&self) -> [usize; 2] {
        [0, 0]
    }

    fn threads(&self) -> usize {
        self.threads
    }
}
