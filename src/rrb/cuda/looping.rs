//! The PCG loop on the device. One of three methods runs the loop: a CUDA graph whose WHILE node repeats iterations, a
//! single kernel, or the host, which launches iterations one by one or, on several devices, in graphs without a WHILE
//! node. The device makes the decisions of `krylov` (kernels/common/scalars.cuh, `update_with_sums` and
//! `end_iteration`). If the host launches the iterations, it copies the scalars only to learn whether the loop has
//! ended. The host reads the norms and coefficients of the iterations from a ring buffer when the loop ends or pauses.

use super::aggregated::costs_for;
use super::packed::{CoarsestSolver, Packed};
use super::program::ProgramPart;
use super::run::{DeviceResults, EndResults, ITERATIONS_UNTIL_FIRST_CHECK, LaunchMode, Run};
use super::source::Source;
use crate::base::heap::boxed;
use crate::cuda::driver::{DeviceBarrier, RecordedGraph, Stream};
use crate::cuda::launch;
use crate::cuda::launch::{DeviceBarrierArgs, RING_LENGTH, Scalars, Stage, StartEndArgs};
use crate::cuda::looped;
use crate::cuda::looped::{
    DeviceLoop, MONITOR_LAG, RecordedLoops, SharedScalars, graphs_are_disabled, has_limits, observed_pause_interval,
};
use crate::error::{Error, Result};
use crate::krylov::state::{State, Test, TestCode};
use crate::options::Norm;
use crate::report::Observer;
use crate::rrb::recursion::Cycle;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};

/// Numbers of iterations in the body of a recorded loop. One loop is recorded for each number in this list. A solve
/// launches the loop with the smallest overhead for the iteration counts of the last solves, or the first loop if no
/// solve has run.
const BODY_ITERATIONS: [usize; 4] = [4, 5, 6, 7];
/// Like `BODY_ITERATIONS`, for a truncated hierarchy, with which few iterations are expected.
const TRUNCATED_BODY_ITERATIONS: [usize; 4] = [2, 3, 5, 7];

/// Numbers of iterations in a recorded graph on several devices. Such a graph has no WHILE node. To run n iterations,
/// the host launches the graph of four iterations n / 4 times (rounded down), and the graph of one iteration n mod 4
/// times.
const MULTI_DEVICE_BODY_ITERATIONS: [usize; 2] = [4, 1];

/// Number of iterations that the host launches before each further check, if the loop on several devices has not ended
/// after the expected number of iterations.
const EXTRA_ITERATIONS: usize = 2;

/// With the shortest body, a loop pauses only at the end of a body, so no launch of the body remains after a pause.
/// With the longer bodies, the remaining launches of the body return immediately (`Scalars::loop_ended`).
const _: () = assert!(
    (ITERATIONS_UNTIL_FIRST_CHECK as usize | MONITOR_LAG as usize | RING_LENGTH).is_multiple_of(BODY_ITERATIONS[0])
        && BODY_ITERATIONS[0].is_power_of_two()
);

/// Returns the overhead in ns of a loop that needs `iterations` iterations and has `body_iterations` iterations in its
/// body. Each repetition of the body costs 4.5 us, and each superfluous iteration of the last repetition 15 us
/// (measured on an H200, docs/benchmarks/gpu.md).
fn loop_overhead(body_iterations: usize, iterations: usize) -> usize {
    let repetitions = iterations.div_ceil(body_iterations);
    4_500 * repetitions.saturating_sub(1) + 15_000 * (repetitions * body_iterations - iterations)
}

impl Packed {
    /// Records the loops with bodies of several lengths, unless they are already recorded. A recording remains valid
    /// for later factorizations, because the addresses of the arrays do not change. Records nothing if the host solves
    /// the coarsest system. The list of recordings is empty if the host launches the iterations, or if one kernel
    /// executes the loop.
    pub fn record_loops(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        let uses_fusion = self.uses_fusion();
        if matches!(self.coarsest_solver, CoarsestSolver::Host(_))
            || self.recorded_loops.is_some() && self.recorded_loops_are_fused == uses_fusion
        {
            return Ok(());
        }
        (self.recorded_loops, self.recorded_loops_are_fused) = (None, uses_fusion);
        let has_several_devices = self.has_several_devices();
        let body_lengths = match (uses_fusion, self.is_truncated()) {
            _ if self.programs.is_one_kernel(self) || graphs_are_disabled() => &[],
            _ if has_several_devices && uses_fusion => &MULTI_DEVICE_BODY_ITERATIONS[..],
            (false, _) if has_several_devices => &[],
            (false, _) => &[1],
            (true, true) => &TRUNCATED_BODY_ITERATIONS[..],
            (true, false) => &BODY_ITERATIONS[..],
        };
        let barrier_args = DeviceBarrierArgs {
            arrivals: self.synchronization.as_ref().map_or(0, |m| m.address),
            scalars: self.scalars.address,
        };
        let make_barrier = || -> Result<DeviceBarrier> {
            boxed(move |stream: &Stream| launch::synchronize_devices(stream, &barrier_args), "a synchronization")
                .map(|barrier| barrier as DeviceBarrier)
        };
        self.recorded_loops = Some(if has_several_devices {
            RecordedLoops::record_each(body_lengths, |body_length| {
                let launch_body =
                    |stream: &Stream| (0..body_length).try_for_each(|_| self.launch_iteration(stream, source, 0));
                RecordedGraph::record_once(stream, make_barrier()?, launch_body)
            })?
        } else {
            let launch_iteration = |stream: &Stream, conditional| self.launch_iteration(stream, source, conditional);
            RecordedLoops::new(stream.device(), body_lengths, None, launch_iteration)?
        });
        Ok(())
    }

    /// Returns whether several devices are in use. Recorded graphs then have no WHILE node.
    fn has_several_devices(&self) -> bool {
        self.shape.source.division.devices > 1
    }

    /// Launches one iteration, or the whole loop if one kernel executes it.
    fn launch_iteration(&mut self, stream: &Stream, source: &Source, conditional: u64) -> Result<()> {
        if self.uses_fusion() {
            self.run(stream, ProgramPart::Iteration, Stage::Loop, [0; 2], conditional)
        } else {
            self.launch_unfused_iteration(stream, source, conditional)
        }
    }

    /// Returns the recorded loop with the smallest overhead for the iteration counts of the last solves, or `None` if
    /// there is no loop that a device repeats by itself. The loop pauses after `max_iterations` iterations.
    fn best_loop(&self, max_iterations: usize) -> Option<&RecordedGraph> {
        let known_counts =
            self.recent_iterations.into_iter().filter(|count| *count > 0).map(|count| count.min(max_iterations));
        let total_overhead =
            |body_length: usize| known_counts.clone().map(|count| loop_overhead(body_length, count)).sum::<usize>();
        let recorded = self.recorded_loops.as_ref().filter(|_| !self.has_several_devices())?;
        recorded.graphs.iter().min_by_key(|(body_length, _)| total_overhead(*body_length)).map(|(_, graph)| graph)
    }
}

impl Run<'_> {
    /// Returns whether aggregation is expected to finish the solve faster than the levels.
    pub fn is_switch_worthwhile(&self, state: &State) -> bool {
        let costs = costs_for(self.packed.shape.source.grid.nodes());
        let level_iteration_cost = if self.packed.uses_fusion() { 1.0 } else { costs.unfused_iteration };
        let cycle = Cycle { kind: Some(self.packed.recursion.kind), ..self.packed.shape.cycle };
        costs.is_switch_worthwhile(
            state,
            level_iteration_cost * cycle.cost(self.packed.shape.source.grid, self.packed.shape.levels),
        )
    }

    /// Returns whether the loop runs without further launches by the host.
    pub fn runs_by_itself(&self) -> bool {
        self.packed.programs.is_one_kernel(self.packed)
            || self.packed.best_loop(self.pause_interval() as usize).is_some()
    }

    /// Launches iterations on several devices until the loop ends or pauses. The host first launches as many iterations
    /// as the shortest of the last solves needed, and then checks whether the loop has ended. Superfluous iterations
    /// take less time than a wait after each iteration. A mutex allows only one handle at a time to launch and wait.
    /// Otherwise, each of two handles could occupy a device that the other handle needs, and their kernels would wait
    /// for each other forever.
    fn launch_iterations(&mut self, max_iterations: usize) -> Result<()> {
        static LAUNCH_LOCK: Mutex<()> = Mutex::new(());
        let _guard = LAUNCH_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let fewest_iterations = self.packed.recent_iterations.into_iter().filter(|count| *count > 0).min();
        let mut remaining_iterations = fewest_iterations.unwrap_or(1).clamp(1, max_iterations);
        loop {
            for (body_length, graph) in self.packed.recorded_loops.iter().flat_map(|recorded| &recorded.graphs) {
                (0..remaining_iterations / body_length).try_for_each(|_| graph.launch(self.stream))?;
                remaining_iterations %= body_length;
            }
            let &Scalars { code, sync_failed, .. } = self.fetch_scalars()?;
            if sync_failed != 0 {
                // The devices were not synchronized, so the sums and vectors are invalid.
                self.stream.finish_all_work();
                self.packed.clear_vectors(self.stream)?;
                let reset_bytes = offset_of!(Scalars, sync_failed) + size_of::<u32>() - offset_of!(Scalars, ticket);
                self.stream.fill(self.packed.scalars.address + offset_of!(Scalars, ticket) as u64, 0, reset_bytes)?;
                let message = "devices that share a grid did not synchronize within 10 s: one is busy with other \
                                work, or has failed";
                return Err(Error::Device(message.to_owned()));
            }
            if code != TestCode::Running as i32 {
                return Ok(());
            }
            remaining_iterations = EXTRA_ITERATIONS;
        }
    }

    /// Returns the arguments of the kernels that end a solve after the loop.
    fn end_args_after_loop(&self, test: &Test) -> StartEndArgs {
        let may_deliver = self.criterion.is_some_and(|c| test.threshold > c.unchecked_threshold * self.scale);
        self.start_end_args(self.scale, Stage::Loop, may_deliver)
    }

    /// Returns the results of the kernels that `queue_after_loop` has queued.
    fn read_end_results(&self, test: &Test) -> EndResults {
        let end_args = self.end_args_after_loop(test);
        let scalars = &*self.packed.scalars;
        let x_max = f64::from_bits(scalars.largest);
        let norm2 = test.confirms.then_some(scalars.norm2);
        if self.mode != LaunchMode::Fused {
            return EndResults { x_max, norm2, tested_norm2: None, is_delivered: false };
        }
        let tested_norm2 = if test.norm == Norm::Preconditioned {
            scalars.all_nodes_norm2 + scalars.rho.abs()
        } else {
            scalars.all_nodes_norm2
        };
        // This test is the same as in the kernel `rrb_store_accepted_x_f64`.
        let is_converged = scalars.code == TestCode::Converged as i32 && tested_norm2.sqrt() <= scalars.threshold;
        let is_in_range = (end_args.min_magnitude..=end_args.max_magnitude).contains(&x_max);
        let is_delivered =
            !self.x_is_stored && (is_converged || scalars.code == TestCode::MaxIter as i32) && is_in_range;
        EndResults { x_max, norm2, tested_norm2: Some(tested_norm2), is_delivered }
    }
}

impl DeviceLoop for Run<'_> {
    fn loop_parts(&mut self) -> (&mut SharedScalars, &Stream, &mut dyn Observer) {
        (&mut self.packed.scalars, self.stream, self.call.observer)
    }

    fn graph(&self) -> Option<(&RecordedGraph, &Stream)> {
        self.packed.best_loop(self.pause_interval() as usize).map(|graph| (graph, self.stream))
    }

    fn launch_iteration(&mut self) -> Result<()> {
        self.packed.launch_iteration(self.stream, self.source, 0)
    }

    fn launch(&mut self) -> Result<()> {
        if self.packed.programs.is_one_kernel(self.packed) {
            self.launch_iteration()
        } else if self.packed.has_several_devices()
            && self.packed.recorded_loops.as_ref().is_some_and(|recorded| !recorded.graphs.is_empty())
        {
            self.launch_iterations(self.pause_interval() as usize)
        } else {
            looped::launch(self)
        }
    }

    fn pause_interval(&self) -> i64 {
        let max_lag = observed_pause_interval(self.call.observer);
        if self.packed.may_aggregate {
            max_lag.min(self.iterations_until_check - self.loop_iterations)
        } else {
            max_lag
        }
    }

    /// Returns whether the device has already begun the loop with the limits of `state`. If the device has begun a loop
    /// with other limits, repeats the start without a loop, and returns `false`.
    fn begin_loop(&mut self, state: &State) -> Result<bool> {
        let mut has_begun = self.is_looping();
        if has_begun && !has_limits(&self.packed.scalars, state) {
            self.restart()?;
            has_begun = false;
        }
        (self.results, self.loop_iterations) = (DeviceResults::None, 0);
        Ok(has_begun)
    }

    /// Queues the kernels that usually follow the loop. If the loop continues instead, these kernels change no values
    /// except those of x that later kernels overwrite.
    fn queue_after_loop(&mut self, test: &Test) -> Result<()> {
        if test.confirms {
            self.packed.residual(self.stream, self.source, Stage::Loop)?;
        }
        if self.mode != LaunchMode::Fused {
            return self.packed.back_substitute(self.stream);
        }
        let end_args = &self.end_args_after_loop(test);
        if test.norm == Norm::Preconditioned {
            launch::finish_solve_eliminated(self.stream, end_args)?;
            self.packed.run(self.stream, ProgramPart::UntilUpdate, Stage::Confirm, [0; 2], 0)?;
        } else {
            launch::finish_solve(self.stream, end_args)?;
        }
        if self.x_is_stored { Ok(()) } else { launch::store_accepted_x(self.stream, end_args) }
    }

    /// Returns whether the solve is slow, so that a switch to aggregation is expected to be faster. The loop pauses for
    /// this check after `iterations_until_check` iterations, a number that is doubled after each check. Returns `false`
    /// if the loop has paused earlier, for another reason.
    fn is_slow(&mut self, state: &State) -> bool {
        self.loop_iterations = state.iterations_since_start() as i64;
        if self.loop_iterations < self.iterations_until_check {
            return false;
        }
        self.iterations_until_check *= 2;
        self.packed.may_aggregate && state.test.norm == Norm::True2 && self.is_switch_worthwhile(state)
    }

    fn end_loop(&mut self, state: &State, is_paused: bool) {
        self.loop_iterations = state.iterations_since_start() as i64;
        if !is_paused {
            self.packed.recent_iterations.rotate_right(1);
            self.packed.recent_iterations[0] = state.iterations_since_start();
            self.results = DeviceResults::Ended(self.read_end_results(&state.test));
        }
    }
}
