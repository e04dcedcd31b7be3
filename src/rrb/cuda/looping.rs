//! The PCG loop on the device. One of three methods runs the loop: a CUDA graph whose WHILE node repeats iterations, a
//! single kernel, or the host, which launches iterations one by one or, on several devices, in graphs without a WHILE
//! node. The device makes the decisions of `krylov` (kernels/common/scalars.cuh, `update` and `end_of_iteration`). If
//! the host launches the iterations, it copies the scalars only to learn whether the loop has ended. The host reads the
//! norms and coefficients of the iterations from a ring buffer when the loop ends or pauses.

use super::aggregated::cost_on;
use super::packed::{CoarsestSolver, Packed};
use super::program::Part;
use super::run::{DeviceResults, Ended, LaunchMode, PATIENCE, Run};
use super::source::Source;
use crate::base::heap::boxed;
use crate::cuda::driver::{Loop, Meet, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{How, MeetArgs, RING, Scalars, StartEndArgs};
use crate::cuda::looped;
use crate::cuda::looped::{Looped, MONITOR_LAG, Recorded, SharedScalars, has_limits, observed_lag, without_graphs};
use crate::error::{Error, Result};
use crate::krylov::state::{Code, State, Test};
use crate::options::Norm;
use crate::report::Observer;
use crate::rrb::recursion::Cycle;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};

/// Numbers of iterations in the body of a recorded loop. One loop is recorded per entry. A solve launches the loop with
/// the smallest overhead for the iteration counts of the last solves, or the first loop if no solve has run.
const BODY_ITERATIONS: [usize; 4] = [4, 5, 6, 7];
/// Like `BODY_ITERATIONS`, for a truncated hierarchy, with which few iterations are expected.
const TRUNCATED_BODY_ITERATIONS: [usize; 4] = [2, 3, 5, 7];

/// Numbers of iterations in a recorded graph on several devices. Such a graph has no WHILE node. For a number of
/// iterations, the host launches as many of the longer graphs as fit, and the shorter graph for the rest.
const MULTI_DEVICE_BODY_ITERATIONS: [usize; 2] = [4, 1];

/// If the loop on several devices has not ended after the expected number of iterations, number of iterations that are
/// launched before each further check.
const EXTRA_ITERATIONS: usize = 2;

/// With the shortest body, a loop pauses only at the end of a body, so no launch of the body remains after a pause.
/// With the other bodies, the remaining launches return immediately (`Scalars::done`).
const _: () = assert!(
    (PATIENCE as usize | MONITOR_LAG as usize | RING).is_multiple_of(BODY_ITERATIONS[0])
        && BODY_ITERATIONS[0].is_power_of_two()
);

/// Returns the overhead in ns of a loop that needs `iterations` iterations and has `body` iterations in its body. Each
/// repetition costs 4.5 us, and each superfluous iteration at the end 15 us (measured on an H200,
/// docs/benchmarks/gpu.md).
fn overhead(body: usize, iterations: usize) -> usize {
    let rounds = iterations.div_ceil(body);
    4_500 * rounds.saturating_sub(1) + 15_000 * (rounds * body - iterations)
}

impl Packed {
    /// Records the loops with bodies of several lengths, unless they are already recorded. A recording remains valid
    /// for later factorizations, because arrays keep their addresses. Records nothing if the host solves the coarsest
    /// system. The list of recordings is empty if the host launches the iterations, or if one kernel executes the loop.
    pub fn record(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        let fused = self.fused();
        if matches!(self.coarsest_solver, CoarsestSolver::Host(_))
            || self.recorded.is_some() && self.recorded_fused == fused
        {
            return Ok(());
        }
        (self.recorded, self.recorded_fused) = (None, fused);
        let several = self.has_several_devices();
        let bodies = match (fused, self.is_truncated()) {
            _ if self.programs.is_one_kernel(self) || without_graphs() => &[],
            _ if several && fused => &MULTI_DEVICE_BODY_ITERATIONS[..],
            (false, _) if several => &[],
            (false, _) => &[1],
            (true, true) => &TRUNCATED_BODY_ITERATIONS[..],
            (true, false) => &BODY_ITERATIONS[..],
        };
        let synchronization =
            MeetArgs { slots: self.synchronization.as_ref().map_or(0, |m| m.address), scalars: self.scalars.at };
        let meet = || -> Result<Meet> {
            boxed(move |stream: &Stream| launch::meet(stream, &synchronization), "a synchronization")
                .map(|meet| meet as Meet)
        };
        self.recorded = Some(if several {
            Recorded::of_each(bodies, |body| {
                let iterations = |stream: &Stream| (0..body).try_for_each(|_| self.iteration(stream, source, 0));
                Loop::record_once(stream, meet()?, iterations)
            })?
        } else {
            let iteration = |stream: &Stream, conditional| self.iteration(stream, source, conditional);
            Recorded::new(stream.device(), bodies, None, iteration)?
        });
        Ok(())
    }

    /// Returns whether several devices are in use. Recorded graphs then have no WHILE node.
    fn has_several_devices(&self) -> bool {
        self.shape.source.division.devices > 1
    }

    /// Launches one iteration, or the whole loop if one kernel executes it.
    fn iteration(&mut self, stream: &Stream, source: &Source, conditional: u64) -> Result<()> {
        if self.fused() {
            self.run(stream, Part::Iteration, How::Loop, [0; 2], conditional)
        } else {
            self.plain_iteration(stream, source, conditional)
        }
    }

    /// Returns the recorded loop with the smallest overhead for the iteration counts of the last solves, or `None` if
    /// there is no loop that a device repeats by itself. The loop pauses after `most` iterations.
    fn best_graph(&self, most: usize) -> Option<&Loop> {
        let known = self.recent_iterations.into_iter().filter(|count| *count > 0).map(|count| count.min(most));
        let overhead = |body: usize| known.clone().map(|count| overhead(body, count)).sum::<usize>();
        let recorded = self.recorded.as_ref().filter(|_| !self.has_several_devices())?;
        recorded.graphs.iter().min_by_key(|(body, _)| overhead(*body)).map(|(_, graph)| graph)
    }
}

impl Run<'_> {
    /// Returns whether aggregation is expected to finish the solve faster than the levels.
    pub fn is_worthwhile(&self, at: &State) -> bool {
        let cost = cost_on(self.k.shape.source.grid.nodes());
        let own = if self.k.fused() { 1.0 } else { cost.unfused };
        let cycle = Cycle { kind: Some(self.k.recursion.kind), ..self.k.shape.cycle };
        cost.is_worthwhile(at, own * cycle.cost(self.k.shape.source.grid, self.k.shape.levels))
    }

    /// Returns whether the loop runs without further launches by the host.
    pub fn runs_by_itself(&self) -> bool {
        self.k.programs.is_one_kernel(self.k) || self.k.best_graph(self.lag() as usize).is_some()
    }

    /// Launches iterations on several devices until the loop ends or pauses, at first as many as the shortest of the
    /// last solves needed. Superfluous iterations take less time than a wait after each iteration. A mutex admits one
    /// handle at a time. Otherwise, kernels of two handles could wait for each other: each handle could occupy a device
    /// that the other one needs.
    fn launch_iterations(&mut self, most: usize) -> Result<()> {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.k.recent_iterations.into_iter().filter(|count| *count > 0).min();
        let mut ahead = known.unwrap_or(1).clamp(1, most);
        loop {
            for (body, graph) in self.k.recorded.iter().flat_map(|recorded| &recorded.graphs) {
                (0..ahead / body).try_for_each(|_| graph.launch(self.stream))?;
                ahead %= body;
            }
            let &Scalars { code, sync_failed, .. } = self.fetch()?;
            if sync_failed != 0 {
                // The devices were not synchronized, so the sums and vectors are invalid.
                self.stream.settle();
                self.k.clear_vectors(self.stream)?;
                let both = offset_of!(Scalars, sync_failed) + size_of::<u32>() - offset_of!(Scalars, ticket);
                self.stream.fill(self.k.scalars.at + offset_of!(Scalars, ticket) as u64, 0, both)?;
                let message = "devices that share a grid did not synchronize within 10 s: one is busy with other \
                                work, or has failed";
                return Err(Error::Device(message.to_owned()));
            }
            if code != Code::Running as i32 {
                return Ok(());
            }
            ahead = EXTRA_ITERATIONS;
        }
    }

    /// Returns the arguments of the kernels that end a solve after the loop.
    fn end_args_after_loop(&self, test: &Test) -> StartEndArgs {
        let safe = self.criterion.is_some_and(|c| test.threshold > c.check_below * self.scale);
        self.start_end_args(self.scale, How::Loop, safe)
    }

    /// Returns the results of the kernels that `follow` has queued.
    fn results(&self, test: &Test) -> Ended {
        let ends = self.end_args_after_loop(test);
        let s = &*self.k.scalars;
        let largest = f64::from_bits(s.largest);
        let norm2 = test.confirms.then_some(s.norm2);
        if self.mode != LaunchMode::Fused {
            return Ended { largest, norm2, square: None, delivered: false };
        }
        let square = if test.norm == Norm::Preconditioned { s.whole_norm2 + s.rho.abs() } else { s.whole_norm2 };
        // This test is the same as in the kernel `rrb_deliver`.
        let met = s.code == Code::Converged as i32 && square.sqrt() <= s.threshold;
        let fits = (ends.least..=ends.limit).contains(&largest);
        let delivered = !self.stored && (met || s.code == Code::MaxIter as i32) && fits;
        Ended { largest, norm2, square: Some(square), delivered }
    }
}

impl Looped for Run<'_> {
    fn parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer) {
        (&mut self.k.scalars, self.stream, self.call.observer)
    }

    fn graph(&self) -> Option<(&Loop, &Stream)> {
        self.k.best_graph(self.lag() as usize).map(|graph| (graph, self.stream))
    }

    fn iteration(&mut self) -> Result<()> {
        self.k.iteration(self.stream, self.source, 0)
    }

    fn launch(&mut self) -> Result<()> {
        if self.k.programs.is_one_kernel(self.k) {
            self.iteration()
        } else if self.k.has_several_devices()
            && self.k.recorded.as_ref().is_some_and(|recorded| !recorded.graphs.is_empty())
        {
            self.launch_iterations(self.lag() as usize)
        } else {
            looped::launch(self)
        }
    }

    fn lag(&self) -> i64 {
        let most = observed_lag(self.call.observer);
        if self.k.may_aggregate { most.min(self.patience - self.loop_iterations) } else { most }
    }

    /// Returns whether the device has already begun the loop with the limits of `at`. If a loop with other limits has
    /// begun, repeats the start without a loop.
    fn begin(&mut self, at: &State) -> Result<bool> {
        let mut begun = self.is_looping();
        if begun && !has_limits(&self.k.scalars, at) {
            self.restart()?;
            begun = false;
        }
        (self.results, self.loop_iterations) = (DeviceResults::None, 0);
        Ok(begun)
    }

    /// Queues the kernels that usually follow the loop. If the loop continues instead, these kernels change no values
    /// except those of x that later kernels overwrite.
    fn follow(&mut self, test: &Test) -> Result<()> {
        if test.confirms {
            self.k.residual(self.stream, self.source, How::Loop)?;
        }
        if self.mode != LaunchMode::Fused {
            return self.k.back_substitute(self.stream);
        }
        let ends = &self.end_args_after_loop(test);
        if test.norm == Norm::Preconditioned {
            launch::finish_eliminated(self.stream, ends)?;
            self.k.run(self.stream, Part::UntilUpdate, How::Confirm, [0; 2], 0)?;
        } else {
            launch::finish(self.stream, ends)?;
        }
        if self.stored { Ok(()) } else { launch::deliver(self.stream, ends) }
    }

    /// After the loop has paused for this check, returns whether a switch to aggregation is expected to be faster. The
    /// next check takes place when the number of iterations has doubled. Pauses for other reasons do not change this.
    fn is_slow(&mut self, at: &State) -> bool {
        self.loop_iterations = at.since_start() as i64;
        if self.loop_iterations < self.patience {
            return false;
        }
        self.patience *= 2;
        self.k.may_aggregate && at.test.norm == Norm::True2 && self.is_worthwhile(at)
    }

    fn end(&mut self, at: &State, paused: bool) {
        self.loop_iterations = at.since_start() as i64;
        if !paused {
            self.k.recent_iterations.rotate_right(1);
            self.k.recent_iterations[0] = at.since_start();
            self.results = DeviceResults::Ended(self.results(&at.test));
        }
    }
}
