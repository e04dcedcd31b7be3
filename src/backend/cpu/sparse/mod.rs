//! General sparse matrices by a team of threads.
//!
//! Each may use those before it: `chunks` (rows of a member), `stages` (rows that wait for one another), `loops`,
//! `precondition` (M^-1), `relaxation` (sweeps), `state` (what members share), `member` (the steps), `ends` (a solve
//! around them).

#![allow(dead_code)] // until the solver uses it

mod chunks;
mod ends;
mod loops;
mod member;
pub mod precondition;
pub mod relaxation;
mod stages;
mod state;

pub use member::PCG_VECTORS;
pub use state::Operator;

use crate::backend::cpu::caller::Caller;
use crate::backend::steps::solve::{Arrays, Inputs, Program};
use crate::error::{Error, Result};
use crate::report::{Observer, Outcome};
use crate::runtime::team::Team;
use chunks::Chunks;
use member::Member;
use precondition::Precondition;
use state::State;
use std::sync::PoisonError;

/// Below this many rows a matrix is left to member 0: a barrier costs more than the work.
const WORTH_A_TEAM: usize = 16_384;

/// The `cpu` backend.
pub struct Cpu {
    team: Option<Team>,
    state: Option<State>,
}

impl Cpu {
    /// Without a matrix.
    pub fn new() -> Self {
        Self { team: None, state: None }
    }

    /// Makes room for a square matrix: `own` vectors of the method beside x, b and r, and a team of at most `threads`.
    pub fn set_up(
        &mut self,
        rows: usize,
        own: usize,
        precondition: Option<Box<dyn Precondition>>,
        threads: usize,
    ) -> Result<()> {
        // Its memory first.
        self.state = None;
        self.state = Some(State::new(rows, own.max(PCG_VECTORS), precondition)?);
        let most = Chunks::new(rows).count().max(1);
        let members = if rows >= WORTH_A_TEAM { threads.clamp(1, most) } else { 1 };
        if self.team.as_ref().map_or(0, Team::members) != members {
            self.team = None;
            self.team = Some(Team::new(members)?);
        }
        Ok(())
    }

    /// Runs a text on the steps.
    pub fn run(
        &mut self,
        operator: Operator,
        arrays: Arrays,
        observer: &mut dyn Observer,
        program: Program,
    ) -> Result<Outcome> {
        let (Some(state), Some(team)) = (&mut self.state, &mut self.team) else {
            return Err(Error::State("factorize must come before solve".to_owned()));
        };
        *state.inputs.get_mut().unwrap_or_else(PoisonError::into_inner) = Inputs::none();
        *state.may_stop.get_mut() = observer.may_stop();
        let (shared, caller) = (&*state, Caller::new(arrays));
        let result = team.run(
            |me| drop(program(&mut Member::new(shared, operator, me, &caller, None))),
            |me| program(&mut Member::new(shared, operator, me, &caller, Some(observer))),
        )?;
        if Outcome::went_astray(&result) {
            // SAFETY: no run is on, since the state is borrowed mutably.
            unsafe { state.clear() };
        }
        result
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.state.as_ref().map_or(0, State::bytes)
    }

    /// Members of the team.
    pub fn threads(&self) -> usize {
        self.team.as_ref().map_or(1, Team::members)
    }
}
