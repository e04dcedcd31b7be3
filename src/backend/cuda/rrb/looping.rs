//! The loop of PCG as the device runs it by itself: recorded into a graph whose WHILE node repeats it, one kernel, or
//! launched anew for each iteration. The decisions of `solver::krylov` are taken on the device
//! (kernels/common/scalars.cuh, `update` and `end_of_iteration`); no scalar comes to the host in between. The ring of
//! the last iterations is read when the loop ends or pauses.

use super::aggregated::cost_on;
use super::packed::{Packed, Recorded, Remainder};
use super::program::Part;
use super::run::{Ended, PATIENCE, Run, Stage, Way};
use super::source::Source;
use crate::backend::cuda::driver::{Loop, Meet, Stream};
use crate::backend::cuda::launch;
use crate::backend::cuda::launch::{EndArgs, How, MeetArgs, RING, Scalars, Step, code};
use crate::backend::cuda::looped::{
    FIRST_FETCH, MONITOR_LAG, ending, has_limits, not_ended, set_limits, tell, without_graphs,
};
use crate::backend::steps::cycle::Cycle;
use crate::backend::steps::pcg::{Course, LoopEnd, LoopEnding, LoopTest};
use crate::error::{Error, Result, reserve};
use crate::runtime::heap::boxed;
use std::mem::offset_of;
use std::sync::{Mutex, PoisonError};

/// Iterations in the body of a recorded loop. Of several loops that one is launched which loses least where a solve
/// takes as many iterations as the last ones; the first where nothing is known. Few are to be expected where M ends
/// early.
const BODIES: [usize; 4] = [4, 5, 6, 7];
const BODIES_SHORT: [usize; 4] = [2, 3, 5, 7];

/// The same of several devices, which no WHILE node goes round for: the host launches some of each.
const BODIES_OF_SEVERAL: [usize; 2] = [4, 1];

/// Iterations of several devices that are launched beyond what is expected, before the host looks.
const AHEAD: usize = 2;

/// A loop pauses where a body of the plain steps ends: those after a pause spend q.
const _: () =
    assert!((PATIENCE as usize | MONITOR_LAG as usize | RING).is_multiple_of(BODIES[0]) && BODIES[0].is_power_of_two());

/// What a loop of so many iterations loses by its body, in ns: going round takes time, and so do iterations of the body
/// that find the loop over (measured on an H200, docs/benchmarks/gpu.md).
fn lost(body: usize, iterations: usize) -> usize {
    let rounds = iterations.div_ceil(body);
    4_500 * rounds.saturating_sub(1) + 15_000 * (rounds * body - iterations)
}

impl Packed {
    /// Records the loop, with bodies of several lengths, where it is not recorded yet. Arrays keep their places from
    /// one factorization to the next.
    pub fn record(&mut self, stream: &Stream, source: &Source) -> Result<()> {
        let fused = self.fused();
        if matches!(self.remainder, Remainder::Host(_)) || self.recorded.as_ref().is_some_and(|r| r.fused == fused) {
            return Ok(());
        }
        self.recorded = None;
        let several = self.shape.source.division.devices > 1;
        if self.programs.whole(self) || without_graphs() || (several && !fused) {
            self.recorded = Some(Recorded { graphs: Vec::new(), several, fused });
            return Ok(());
        }
        let bodies = match (fused, self.ends_early()) {
            _ if several => &BODIES_OF_SEVERAL[..],
            (false, _) => &BODIES[..1],
            (true, true) => &BODIES_SHORT[..],
            (true, false) => &BODIES[..],
        };
        let mut graphs = Vec::new();
        reserve(&mut graphs, bodies.len(), "recorded loops")?;
        let meeting = MeetArgs { slots: self.meeting.as_ref().map_or(0, |m| m.address), scalars: self.scalars_at };
        let meet = || -> Result<Meet> {
            boxed(move |stream: &Stream| launch::meet(stream, &meeting), "a meeting").map(|meet| meet as Meet)
        };
        for body in bodies {
            if several {
                let iterations = |stream: &Stream| {
                    (0..*body).try_for_each(|_| self.run(stream, Part::Iteration, How::Loop, [0; 2], 0))
                };
                graphs.push((*body, Loop::record_once(stream, meet()?, iterations)?));
                continue;
            }
            let graph = Loop::record(stream.device(), None, |stream, conditional| {
                if fused {
                    (0..*body).try_for_each(|_| self.run(stream, Part::Iteration, How::Loop, [0; 2], conditional))
                } else {
                    self.plain_iteration(stream, source, conditional)
                }
            })?;
            graphs.push((*body, graph));
        }
        self.recorded = Some(Recorded { graphs, several, fused });
        Ok(())
    }

    /// The recorded loop for a solve like the last ones, that pauses after `most` iterations.
    fn best_graph(&self, most: usize) -> Option<&Loop> {
        let known = self.taken.into_iter().filter(|taken| *taken > 0).map(|taken| taken.min(most));
        let lost = |body: usize| known.clone().map(|taken| lost(body, taken)).sum::<usize>();
        let recorded = self.recorded.as_ref().filter(|recorded| !recorded.several)?;
        recorded.graphs.iter().min_by_key(|(body, _)| lost(*body)).map(|(_, graph)| graph)
    }
}

impl Run<'_> {
    /// Iterations between two looks of the host.
    pub fn lag(&self) -> i64 {
        let most = if self.observer.may_stop() { MONITOR_LAG } else { RING as i64 };
        if self.k.may_aggregate { most.min(self.patience - self.looped) } else { most }
    }

    /// Whether to go over to aggregation pays, where a loop has paused after as many iterations as were to tell. The
    /// next look comes when their number has doubled, whatever else has the host look.
    fn is_slow(&mut self, test: &LoopTest, end: &LoopEnd) -> bool {
        let iterations = end.iterations - test.iterations;
        if (iterations as i64) < self.patience {
            return false;
        }
        self.patience *= 2;
        if !self.k.may_aggregate || test.preconditioned {
            return false;
        }
        let course = Course { iterations, first: test.first, norm: end.norm, threshold: test.threshold };
        self.pays(&course)
    }

    pub fn pays(&self, course: &Course) -> bool {
        let cost = cost_on(self.k.shape.source.grid.nodes());
        let own = if self.k.fused() { 1.0 } else { cost.unfused };
        let cycle = Cycle { kind: Some(self.k.recursion.kind), ..self.k.shape.cycle };
        cost.pays(course, own * cycle.cost(self.k.shape.source.grid, self.k.shape.levels))
    }

    /// The loop can be launched without the host going round.
    pub fn runs_by_itself(&self) -> bool {
        self.k.programs.whole(self.k) || self.k.best_graph(self.lag() as usize).is_some()
    }

    pub fn launch_loop(&mut self) -> Result<()> {
        let lag = self.lag() as usize;
        if let Some(graph) = self.k.best_graph(lag) {
            return graph.launch(self.stream);
        }
        if self.k.recorded.as_ref().is_some_and(|recorded| recorded.several && !recorded.graphs.is_empty()) {
            return self.launch_iterations(lag);
        }
        let whole = self.k.programs.whole(self.k);
        loop {
            if self.k.fused() {
                self.k.run(self.stream, Part::Iteration, How::Loop, [0; 2], 0)?;
            } else {
                self.k.plain_iteration(self.stream, self.source, 0)?;
            }
            if whole || self.fetch()?.code != code::RUNNING {
                return Ok(());
            }
        }
    }

    /// Iterations of several devices, first as many as the shortest of the last solves took: those that find the loop
    /// over take less time than waiting for each to know. Devices that wait for one another do so for one handle at a
    /// time: with two, each might keep what the other waits for from beginning.
    fn launch_iterations(&mut self, most: usize) -> Result<()> {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.k.taken.into_iter().filter(|taken| *taken > 0).min();
        let mut ahead = known.unwrap_or(1).clamp(1, most);
        loop {
            for (body, graph) in self.k.recorded.iter().flat_map(|recorded| &recorded.graphs) {
                (0..ahead / body).try_for_each(|_| graph.launch(self.stream))?;
                ahead %= body;
            }
            let &Scalars { code, lost, .. } = self.fetch()?;
            if lost != 0 {
                // Sums and vectors of iterations that were not in step.
                self.stream.settle();
                self.k.clear_vectors(self.stream)?;
                let both = offset_of!(Scalars, lost) + size_of::<u32>() - offset_of!(Scalars, ticket);
                self.stream.fill(self.k.scalars_at + offset_of!(Scalars, ticket) as u64, 0, both)?;
                let sentence = "devices that share a grid did not synchronize within 10 s: one is busy with other \
                                work, or has failed";
                return Err(Error::Device(sentence.to_owned()));
            }
            if code != code::RUNNING {
                return Ok(());
            }
            ahead = AHEAD;
        }
    }

    /// From p, q, rho and sigma to the end of the loop, and what most often follows it. A loop that the device has
    /// begun already has its limits from there, which are those of `test`, or it is not the loop that is wanted.
    pub fn run_loop(&mut self, test: &LoopTest) -> Result<LoopEnd> {
        let mut begun = self.is_looping();
        if begun && !has_limits(&self.k.scalars, test) {
            self.begin_again()?;
            begun = false;
        }
        self.stage = Stage::Idle;
        if !begun {
            set_limits(&mut self.k.scalars, test);
        }
        let safe = self.criterion.is_some_and(|c| test.threshold > c.lost * self.scale);
        let ends = self.end_args(self.scale, How::Loop, safe);
        let mut end = not_ended(test);
        self.looped = 0;
        loop {
            if !std::mem::take(&mut begun) {
                self.send_limits()?;
                self.launch_loop()?;
            }
            self.end_loop(test, &ends)?;
            self.fetch_steps()?;
            tell(&self.k.scalars, self.observer, test, &mut end);
            self.looped = (end.iterations - test.iterations) as i64;
            let paused = self.k.scalars.code == code::PAUSED;
            if paused && !end.stopped {
                if self.is_slow(test, &end) {
                    return Ok(LoopEnd { ending: LoopEnding::Slow, ..end });
                }
                continue;
            }
            if !paused {
                self.k.taken.rotate_right(1);
                self.k.taken[0] = end.iterations - test.iterations;
                self.stage = Stage::Ended(self.found(test, &ends));
            }
            end.ending = ending(&self.k.scalars)?;
            return Ok(end);
        }
    }

    /// The scalars up to the loop's own: a loop that is to run, or to go on.
    fn send_limits(&mut self) -> Result<()> {
        let lag = self.lag();
        let s = &mut *self.k.scalars;
        (s.code, s.done, s.met, s.ring_used, s.pause_at) = (code::RUNNING, 0, 0, 0, s.iterations + lag);
        self.stream.send_start(self.k.scalars_at, &self.k.scalars, offset_of!(Scalars, parity))
    }

    /// Launches what most often follows the loop; if it goes on, x alone is touched, where it will be anew.
    fn end_loop(&mut self, test: &LoopTest, ends: &EndArgs) -> Result<()> {
        if test.confirms {
            self.k.residual(self.stream, self.source, How::Loop)?;
        }
        if self.way != Way::Fused {
            return self.k.back_substitute(self.stream);
        }
        if test.preconditioned {
            launch::finish_eliminated(self.stream, ends)?;
            self.k.run(self.stream, Part::Down, How::Confirm, [0; 2], 0)?;
        } else {
            launch::finish(self.stream, ends)?;
        }
        if self.stored { Ok(()) } else { launch::deliver(self.stream, ends) }
    }

    /// Waits, and reads the scalars with the ring.
    fn fetch_steps(&mut self) -> Result<()> {
        self.k.report(self.stream, FIRST_FETCH)?;
        self.stream.wait()?;
        let used = self.k.scalars.ring_used as usize;
        if used > FIRST_FETCH {
            let first = self.k.scalars_at + (offset_of!(Scalars, ring) + FIRST_FETCH * size_of::<Step>()) as u64;
            self.stream.fetch(&mut self.k.scalars.ring[FIRST_FETCH..used], first)?;
            self.stream.wait()?;
        }
        Ok(())
    }

    /// What `end_loop` has found.
    fn found(&self, test: &LoopTest, ends: &EndArgs) -> Ended {
        let s = &*self.k.scalars;
        let largest = f64::from_bits(s.largest);
        let norm2 = test.confirms.then_some(s.norm2);
        if self.way != Way::Fused {
            return Ended { largest, norm2, square: None, delivered: false };
        }
        let square = if test.preconditioned { s.whole_norm2 + s.rho.abs() } else { s.whole_norm2 };
        // As in rrb_deliver.
        let met = s.code == code::MET && square.sqrt() <= s.threshold;
        let fits = (ends.least..=ends.limit).contains(&largest);
        let delivered = !self.stored && (met || s.code == code::MAX_ITER) && fits;
        Ended { largest, norm2, square: Some(square), delivered }
    }
}
