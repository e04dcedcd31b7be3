//! The cycle of a factorization: as it is asked for, or with the bounds that its recursions are found to need.

use super::packed::Packed;
use super::program::{Programs, Steps};
use crate::backend::cuda::driver::Stream;
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{How, InnerProductArgs, Level, ScalarArgs, StepArgs};
use crate::backend::cuda::session::Attempts;
use crate::backend::steps::cycle;
use crate::backend::steps::cycle::{Cycle, CycleSteps, Inner, Kind, Recursion};
use crate::error::{Error, Result};
use std::ops::Range;

impl Packed {
    /// Writes the programs of a cycle, and sends them.
    pub fn set_programs(&mut self, stream: &Stream, recursion: &Recursion) -> Result<()> {
        self.programs = Programs::write(self, stream.device(), recursion)?;
        stream.send(self.ops_at, &self.programs.ops)?;
        stream.wait()?;
        self.recursion = *recursion;
        Ok(())
    }

    /// The cycle: chosen, with its bounds, and as programs. Whether its shape is the one before.
    pub fn prepare_cycle(&mut self, stream: &Stream, cycle: &Cycle) -> Result<bool> {
        let before = self.recursion.kind;
        let plain = self.sections.len() < 2 || cycle.kind == Some(Kind::V) || self.ends_early();
        if self.programs.ops.is_empty() || plain && before != Kind::V {
            self.set_programs(stream, &Recursion::V)?;
        }
        if plain {
            return Ok(before == Kind::V);
        }
        let steps = Steps::new(&self.sections, self.grids.len(), self.shape.schur)?;
        let mut live = Live { steps, k: self, stream, failed: None };
        let found = cycle::prepare(&mut live, cycle, 1.0);
        if let Some(error) = live.failed.or(live.steps.refused) {
            return Err(error);
        }
        self.set_programs(stream, &found)?;
        Ok(before == found.kind)
    }
}

/// The cycle as it is done, for the estimates of its bounds: inner products come to the host.
struct Live<'a> {
    steps: Steps,
    k: &'a mut Packed,
    stream: &'a Stream,
    failed: Option<Error>,
}

impl Live<'_> {
    /// Does what was written down.
    fn catch_up(&mut self) -> Result<()> {
        if let Some(error) = &self.steps.refused {
            return Err(error.clone());
        }
        let mut ops = std::mem::take(&mut self.steps.ops);
        if ops.is_empty() {
            return Ok(());
        }
        let mut n = 0;
        while n < ops.len() {
            let joined = self.k.programs.joined(self.k, &ops[n..]);
            // Other kernels read what these leave.
            self.k.programs.assign(self.k, &mut ops[n..n + joined], false);
            n += joined.max(1);
        }
        // Pageable memory is staged before this returns.
        self.stream.send(self.k.ops_at, &ops)?;
        self.k.run_ops(self.stream, &ops, 0..ops.len(), How::Nothing, [0; 2], 0)
    }

    fn level(&self, k: usize) -> Level {
        self.k.grids[self.steps.sections[k]].sweep
    }
}

impl Attempts for Live<'_> {
    fn failed(&mut self) -> &mut Option<Error> {
        &mut self.failed
    }
}

impl CycleSteps for Live<'_> {
    fn recursions(&self) -> Range<usize> {
        self.steps.recursions()
    }

    fn takes_part(&self, k: usize) -> bool {
        self.steps.takes_part(k)
    }

    fn sweep_down(&mut self, k: usize) {
        self.steps.sweep_down(k);
    }

    fn solve_remainder(&mut self) {
        self.steps.solve_remainder();
    }

    fn sweep_up(&mut self, k: usize) {
        self.steps.sweep_up(k);
    }

    fn keep_rhs(&mut self, k: usize) {
        self.steps.keep_rhs(k);
    }

    fn direct(&mut self, k: usize, beta: Option<f64>) {
        self.steps.direct(k, beta);
    }

    fn multiply_direction(&mut self, k: usize) {
        self.steps.multiply_direction(k);
    }

    fn inner_product(&mut self, k: usize, a: Inner, b: Inner) -> f64 {
        let of = |which: Inner| match which {
            Inner::R => 0,
            Inner::Z => 1,
            Inner::D => 2,
            Inner::Q => 3,
        };
        self.attempt(|s| {
            s.catch_up()?;
            let (partial, scalars) = (s.k.partial, s.k.scalars_at);
            let arguments = InnerProductArgs { k: s.level(k), a: of(a), b: of(b), partial, scalars };
            launch::inner_product(s.stream, s.k.shape.storage, &arguments)?;
            Ok(s.k.fetch_scalars(s.stream)?.sum)
        })
        .unwrap_or(f64::NAN)
    }

    fn advance(&mut self, k: usize, alpha: f64, first: bool, go_on: bool) {
        self.steps.advance(k, alpha, first, go_on);
    }

    fn take_solution(&mut self, k: usize) {
        self.steps.take_solution(k);
    }

    fn draw_direction(&mut self, k: usize) {
        let _ = self.attempt(|s| {
            s.catch_up()?;
            let scalar = ScalarArgs::default();
            launch::draw(s.stream, s.k.shape.storage, &StepArgs { k: s.level(k), op: 0, partial: 0, scalar, beside: 0 })
        });
    }
}
