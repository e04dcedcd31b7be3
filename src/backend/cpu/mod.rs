//! r1/r2/b1/b2 storage, one thread (the papers' S2) or many (S3).
//!
//! `team` has the threads, `area` the arrays that they share, `neighbours` the geometry of the four colours,
//! `packed` the data of a factorization, `setup` and `steps` what members do with it.

mod area;
mod block_kernels;
mod blocks;
mod fused;
mod kernels;
mod lanes;
mod neighbours;
mod packed;
mod projection;
mod setup;
mod steps;
pub mod team;

pub use blocks::CpuBlocks;

use super::reference::Reference;
use super::{Arrays, PivotContext, Program, RrbBackend, Setup};
use crate::error::{Error, Result};
use crate::grid::components::Components;
use crate::grid::stencil::StencilView;
use crate::report::{Observer, Outcome};
use packed::Packed;
use steps::{Caller, Member};
use team::Team;

/// The `cpu` backend.
pub struct Cpu {
    wanted_threads: usize,
    team: Option<Team>,
    solver: Solver,
}

enum Solver {
    /// Nothing factorized.
    Empty,
    /// r1/r2/b1/b2 grids, then natural storage.
    Packed(Box<Packed>),
    /// No grid is larger than a block, or the levels do not fill one: natural storage alone, one thread.
    Natural(Box<Reference>),
}

impl Cpu {
    /// Uses at most `threads`; the team is made when a matrix is large enough for it.
    pub fn new(threads: usize) -> Self {
        Self { wanted_threads: threads, team: None, solver: Solver::Empty }
    }

    fn make_team(&mut self, members: usize) -> Result<()> {
        if self.team.as_ref().map_or(0, Team::members) != members {
            self.team = None;
            self.team = Some(Team::new(members)?);
        }
        Ok(())
    }
}

impl RrbBackend for Cpu {
    fn factorize(&mut self, a: &StencilView, setup: &Setup, components: &Components) -> Result<()> {
        let previous = std::mem::replace(&mut self.solver, Solver::Empty);
        if setup.grids == 0 {
            let mut natural = match previous {
                Solver::Natural(natural) => natural,
                other => {
                    drop(other);
                    Box::default()
                }
            };
            self.make_team(1)?;
            natural.factorize(a, setup, components)?;
            self.solver = Solver::Natural(natural);
            return Ok(());
        }
        let shape = packed::Shape::new(a, setup);
        let mut packed = match previous {
            Solver::Packed(packed) if packed.shape == shape => packed,
            other => {
                // Its memory first.
                drop(other);
                Box::new(Packed::new(shape)?)
            }
        };
        self.make_team(packed.useful_members(self.wanted_threads))?;
        let team = self.team.as_mut().ok_or_else(no_team)?;
        packed.prepare(components, team.members())?;
        let context = PivotContext { a, components };
        let shared = &*packed;
        let result = team.run(
            |member| drop(shared.factorize(member, setup, &context)),
            |member| shared.factorize(member, setup, &context),
        )?;
        result?;
        self.solver = Solver::Packed(packed);
        Ok(())
    }

    fn run(&mut self, arrays: Arrays, observer: &mut dyn Observer, program: Program) -> Result<Outcome> {
        match &mut self.solver {
            Solver::Empty => Err(Error::State("factorize must come before solve".to_owned())),
            Solver::Natural(natural) => natural.run(arrays, observer, program),
            Solver::Packed(packed) => {
                let team = self.team.as_mut().ok_or_else(no_team)?;
                packed.start_run(observer.may_stop());
                let (shared, caller) = (&**packed, Caller::new(arrays));
                let result = team.run(
                    |member| drop(program(&mut Member::new(shared, member, &caller, None))),
                    |member| program(&mut Member::new(shared, member, &caller, Some(observer))),
                )?;
                if matches!(result, Err(Error::Breakdown { .. } | Error::Overflow)) {
                    packed.clear_vectors();
                }
                result
            }
        }
    }

    fn bytes(&self) -> usize {
        match &self.solver {
            Solver::Empty => 0,
            Solver::Natural(natural) => natural.bytes(),
            Solver::Packed(packed) => packed.bytes(),
        }
    }

    fn grids(&self) -> usize {
        match &self.solver {
            Solver::Packed(packed) => packed.grids.len(),
            _ => 0,
        }
    }

    fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::members)
    }
}

fn no_team() -> Error {
    Error::Internal("the team of threads is missing".to_owned())
}
