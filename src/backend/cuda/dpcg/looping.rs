//! The loop of PCG as the device runs it by itself: an iteration is recorded into a graph whose WHILE node repeats it.
//! Decisions are taken on the device (kernels/common/scalars.cuh); the ring of the last iterations is read when the
//! loop ends or pauses.

use super::run::Run;
use super::source::Source;
use super::state::{Looping, State, Vectors};
use crate::backend::cuda::driver::{Device, Loop, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{RING, Scalars, Step, Sum, Use, VectorArgs, code};
use crate::backend::cuda::looped::{FIRST_FETCH, MONITOR_LAG, ending, not_ended, set_limits, tell, without_graphs};
use crate::backend::steps::pcg::{LoopEnd, LoopTest};
use crate::error::Result;
use std::mem::offset_of;
use std::sync::Arc;

impl State {
    /// Records an iteration; the loop of the previous factorization stays where its launches are the same.
    pub fn record(&mut self, device: &Arc<Device>, source: &Source) -> Result<()> {
        let on_device = self.deflation.as_ref().is_none_or(|deflation| deflation.is_on_device());
        let previous = match std::mem::replace(&mut self.looping, Looping::ByHost) {
            Looping::Recorded(previous) => Some(previous),
            Looping::ByHost | Looping::Launched => None,
        };
        if !on_device {
            return Ok(());
        }
        self.looping = Looping::Launched;
        if !without_graphs() {
            let body = |stream: &Stream, conditional| self.iteration(stream, source, conditional);
            self.looping = Looping::Recorded(Loop::record(device, previous, body)?);
        }
        Ok(())
    }

    /// From p, q = P A p, rho and sigma to those of the next iteration, or to the end.
    fn iteration(&mut self, stream: &Stream, source: &Source, conditional: u64) -> Result<()> {
        let Vectors { x, r, p, q, z, .. } = self.vectors;
        let sum = Sum { in_loop: 1, ..self.vectors.sum_to(offset_of!(Scalars, norm2)) };
        if self.is_fused() {
            return self.fused_iteration(stream, source, Sum { conditional, ..sum });
        }
        launch::cell_add_scaled(stream, &VectorArgs { sum, ..self.vector_args(q, r, 0.0) })?;
        self.precondition(stream, source, Sum { how: Use::Rho as i32, ..sum })?;
        launch::cell_advance(stream, &VectorArgs { other: x, sum, ..self.vector_args(z, p, 0.0) })?;
        self.multiply(stream, source, Sum { how: Use::LastSigma as i32, conditional, ..sum })
    }
}

impl Run<'_> {
    /// From p, q, rho and sigma to the end of the loop.
    pub fn run_loop(&mut self, test: &LoopTest) -> Result<LoopEnd> {
        let scalars = &mut self.k.vectors.scalars;
        set_limits(scalars, test);
        (scalars.parity, scalars.direction) = (0, 0);
        let mut end = not_ended(test);
        loop {
            self.send_limits()?;
            self.launch_loop()?;
            self.fetch_steps()?;
            let scalars = &self.k.vectors.scalars;
            tell(scalars, self.observer, test, &mut end);
            self.k.vectors.at_other_p = scalars.direction == 1;
            if scalars.code == code::PAUSED && !end.stopped {
                continue;
            }
            end.ending = ending(scalars)?;
            return Ok(end);
        }
    }

    /// The scalars up to the loop's own: a loop that is to run, or to go on.
    fn send_limits(&mut self) -> Result<()> {
        let lag = if self.observer.may_stop() { MONITOR_LAG } else { RING as i64 };
        let Vectors { scalars, scalars_at, .. } = &mut self.k.vectors;
        let s = &mut **scalars;
        (s.code, s.done, s.met, s.ring_used, s.pause_at) = (code::RUNNING, 0, 0, 0, s.iterations + lag);
        self.stream.send_start(*scalars_at, scalars, offset_of!(Scalars, b_norm2))
    }

    fn launch_loop(&mut self) -> Result<()> {
        if let Looping::Recorded(graph) = &self.k.looping {
            return graph.launch(self.stream);
        }
        loop {
            self.k.iteration(self.stream, self.source, 0)?;
            if self.k.vectors.fetch(self.stream)?.code != code::RUNNING {
                return Ok(());
            }
        }
    }

    /// Waits, and reads the scalars with the ring.
    fn fetch_steps(&mut self) -> Result<()> {
        let Vectors { scalars, scalars_at, .. } = &mut self.k.vectors;
        let (ring, step) = (offset_of!(Scalars, ring), size_of::<Step>());
        self.stream.fetch_start(scalars, *scalars_at, ring + FIRST_FETCH * step)?;
        self.stream.wait()?;
        let used = scalars.ring_used as usize;
        if used > FIRST_FETCH {
            let first = *scalars_at + (ring + FIRST_FETCH * step) as u64;
            self.stream.fetch(&mut scalars.ring[FIRST_FETCH..used], first)?;
            self.stream.wait()?;
        }
        Ok(())
    }
}
