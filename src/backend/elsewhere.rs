//! The work is another rank's: what stands on a rank that brings values to it and takes the solution.

use super::steps::engine::Engine;
use super::steps::rrb::{Report, RrbBackend, Setup};
use super::steps::solve::{Arrays, Program};
use crate::error::{Error, Result};
use crate::grid::components::Components;
use crate::grid::stencil::StencilView;
use crate::report::{Observer, Outcome};

/// What the rank that works has told.
pub struct Elsewhere {
    /// r1/r2/b1/b2 grids in use there.
    pub grids: usize,
    /// Threads there.
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
