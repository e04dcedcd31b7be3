//! Solves of a distributed domain on the devices of rank 0. Rank 0 sends its events and results to the other ranks, so
//! that monitors, histories and results are the same on all ranks.

use super::{FactorizationResults, Rrb};
use crate::base::heap::{FallibleArc, boxed};
use crate::base::machine::{Core, Machine};
use crate::distributed::{Comm, Gather, MaximumOverRanks};
use crate::error::{Error, Result, zeroed};
use crate::options::{Backend, Choice, Devices, StopReason};
use crate::report::{Event, Observer, Outcome};
use crate::rrb::remote::RemoteFactorization;

/// Name of the memory in error messages about failed allocations.
const ALLOCATION_NAME: &str = "events for other ranks";

/// The root rank, on whose devices all solves run.
pub const ROOT: usize = 0;

/// Number of words (f64) per event. The first word is one of the event numbers below. The other words contain up to
/// three values of the event.
const WORDS_PER_EVENT: usize = 4;
const ITERATION_EVENT: f64 = 1.0;
const PASSED_EVENT: f64 = 2.0;
const CHANGED_EVENT: f64 = 3.0;
const COEFFICIENTS_EVENT: f64 = 4.0;
const WIDENED_EVENT: f64 = 5.0;
const END_OF_EVENTS: [f64; WORDS_PER_EVENT] = [0.0; WORDS_PER_EVENT];

fn encode_event(event: Event) -> [f64; WORDS_PER_EVENT] {
    match event {
        Event::Iteration(iteration, residual) => [ITERATION_EVENT, iteration as f64, residual, 0.0],
        Event::LateIteration(iteration, residual) => [PASSED_EVENT, iteration as f64, residual, 0.0],
        Event::PreconditionerChanged(iterations, residual_norm, remaining_iterations) => {
            [CHANGED_EVENT, iterations as f64, residual_norm, remaining_iterations]
        }
        Event::Coefficients(alpha, beta) => [COEFFICIENTS_EVENT, alpha, beta, 0.0],
        Event::SwitchedToDouble(iterations) => [WIDENED_EVENT, iterations as f64, 0.0, 0.0],
    }
}

/// Decodes an event; `None` marks the end of the events.
fn decode_event(words: &[f64]) -> Option<Event> {
    let iterations = words[1] as usize;
    let kind = words[0];
    Some(if kind == ITERATION_EVENT {
        Event::Iteration(iterations, words[2])
    } else if kind == PASSED_EVENT {
        Event::LateIteration(iterations, words[2])
    } else if kind == CHANGED_EVENT {
        Event::PreconditionerChanged(iterations, words[2], words[3])
    } else if kind == COEFFICIENTS_EVENT {
        Event::Coefficients(words[1], words[2])
    } else if kind == WIDENED_EVENT {
        Event::SwitchedToDouble(iterations)
    } else {
        return None;
    })
}

/// Maximum number of events per block, which is one message. The first word of a block is the number of its events.
const EVENTS_PER_BLOCK: usize = 64;
const WORDS_PER_BLOCK: usize = 1 + EVENTS_PER_BLOCK * WORDS_PER_EVENT;

/// Number of words for the result of a solve: one for the status, and five for the fields of the outcome. In a message,
/// these words are followed by the results of the factorization, the number of grids and the number of threads.
const WORDS_PER_OUTCOME: usize = 6;
const WORDS_PER_RESULT: usize = WORDS_PER_OUTCOME + FactorizationResults::WORD_COUNT + 2;

/// Plans of the messages between rank 0 and the other ranks.
pub struct RootMessages {
    rank: usize,
    event_gather: Gather,
    /// Events that have not been sent yet.
    event_block: [f64; WORDS_PER_BLOCK],
    result_gather: Gather,
}

impl RootMessages {
    /// Creates the plans. Collective.
    pub fn new(comm: &FallibleArc<Comm>) -> Result<Self> {
        let plan_from_root = |word_count: usize| {
            let mut word_counts = zeroed(comm.size(), ALLOCATION_NAME)?;
            word_counts[ROOT] = word_count;
            Gather::new(comm, &word_counts)
        };
        Ok(Self {
            rank: comm.rank(),
            event_gather: plan_from_root(WORDS_PER_BLOCK)?,
            event_block: [0.0; WORDS_PER_BLOCK],
            result_gather: plan_from_root(WORDS_PER_RESULT)?,
        })
    }

    /// Returns whether this rank is the root rank.
    pub fn is_root(&self) -> bool {
        self.rank == ROOT
    }

    /// On rank 0, calls `run_solve`, and sends the events and the result of the solve. On the other ranks, passes these
    /// events to `observer`, and returns the same result, where an error of rank 0 becomes [`Error::OtherRanks`]. On
    /// the other ranks, `core` only represents the factorization of rank 0, and is replaced, because the solve may have
    /// changed this factorization. `stop_exchange` is `Some` if any rank has a monitor.
    pub fn solve(
        &mut self,
        core: &mut Rrb,
        observer: &mut dyn Observer,
        stop_exchange: Option<&mut MaximumOverRanks>,
        run_solve: impl FnOnce(&mut Rrb, &mut dyn Observer) -> Result<Outcome>,
    ) -> Result<Outcome> {
        if !self.is_root() {
            self.receive_events(observer, stop_exchange)?;
            return self.receive_results(core);
        }
        let mut sending_observer =
            SendingObserver { observer, messages: self, stop_exchange, communication_error: None };
        let outcome = run_solve(core, &mut sending_observer);
        sending_observer.send_event(END_OF_EVENTS);
        sending_observer.send_block();
        sending_observer.communication_error.map_or(Ok(()), Err)?;
        self.send_results(core, &outcome)?;
        outcome
    }

    /// Receives the events of rank 0, up to the end of the solve, and passes them to the observer of this rank.
    fn receive_events(
        &mut self,
        observer: &mut dyn Observer,
        mut stop_exchange: Option<&mut MaximumOverRanks>,
    ) -> Result<()> {
        loop {
            let block = self.event_gather.run(|_| {})?;
            for words in block[1..].chunks_exact(WORDS_PER_EVENT).take(block[0] as usize) {
                let Some(event) = decode_event(words) else { return Ok(()) };
                let requests_stop = observer.receive(event);
                if let (Event::Iteration(..), Some(stop_exchange)) = (event, &mut stop_exchange) {
                    stop_exchange.run(&[f64::from(u8::from(requests_stop))])?;
                }
            }
        }
    }

    fn send_results(&mut self, core: &Rrb, outcome: &Result<Outcome>) -> Result<()> {
        let sent_outcome = outcome.as_ref().copied().unwrap_or_default();
        let solve_words: [f64; WORDS_PER_OUTCOME] = [
            outcome.as_ref().err().map_or(0, Error::status).into(),
            sent_outcome.iterations as f64,
            sent_outcome.reason.number() as f64,
            sent_outcome.initial_residual,
            sent_outcome.final_residual,
            sent_outcome.reference,
        ];
        self.result_gather.run(|buffer| {
            buffer[..WORDS_PER_OUTCOME].copy_from_slice(&solve_words);
            buffer[WORDS_PER_OUTCOME..][..FactorizationResults::WORD_COUNT].copy_from_slice(&core.results.to_words());
            buffer[WORDS_PER_OUTCOME + FactorizationResults::WORD_COUNT..]
                .copy_from_slice(&[core.packed_grid_count() as f64, core.engine().threads() as f64]);
        })?;
        Ok(())
    }

    /// Receives the result of a solve. Also replaces `core`, because the solve may have switched to another
    /// preconditioner.
    fn receive_results(&mut self, core: &mut Rrb) -> Result<Outcome> {
        let words = self.result_gather.run(|_| {})?;
        *core = remote_factorization(words)?;
        match words[0] as i32 {
            0 => Ok(Outcome {
                iterations: words[1] as usize,
                reason: StopReason::of(words[2] as i64).unwrap_or_default(),
                initial_residual: words[3],
                final_residual: words[4],
                reference: words[5],
            }),
            status => Err(Error::on_other_rank(ROOT, status)),
        }
    }

    /// Sends the results of a factorization that has succeeded on rank 0.
    pub fn send_factorization(&mut self, core: &Rrb) -> Result<()> {
        self.send_results(core, &Ok(Outcome::default()))
    }

    /// Receives the results of a factorization of rank 0.
    pub fn receive_factorization(&mut self) -> Result<Rrb> {
        remote_factorization(self.result_gather.run(|_| {})?)
    }
}

/// Creates the object that represents the factorization of rank 0 on another rank.
fn remote_factorization(words: &[f64]) -> Result<Rrb> {
    let results =
        words[WORDS_PER_OUTCOME..][..FactorizationResults::WORD_COUNT].try_into().expect("as many as were given");
    let [grids, threads] = [0, 1].map(|k| words[WORDS_PER_OUTCOME + FactorizationResults::WORD_COUNT + k] as usize);
    let machine = Machine { backend: Backend::Cuda, threads, device: -1, devices: Devices::NONE };
    Ok(Rrb::of_remote(
        machine,
        boxed(RemoteFactorization { grids, threads }, ALLOCATION_NAME)?,
        FactorizationResults::from_words(results),
    ))
}

/// Returns whether the monitor of any rank requests a stop. If the communication fails, stores the error in
/// `communication_error` and returns `true`.
pub fn any_rank_stops(
    stop_exchange: &mut MaximumOverRanks,
    requests_stop: bool,
    communication_error: &mut Option<Error>,
) -> bool {
    match stop_exchange.run(&[f64::from(u8::from(requests_stop))]) {
        Ok(maxima) => maxima[0] > 0.0,
        Err(error) => {
            *communication_error = Some(error);
            true
        }
    }
}

/// Observer of rank 0, which also sends the events to the other ranks. It requests a stop if the monitor of any rank
/// does, or if the communication has failed.
struct SendingObserver<'a> {
    observer: &'a mut dyn Observer,
    messages: &'a mut RootMessages,
    stop_exchange: Option<&'a mut MaximumOverRanks>,
    /// Error of a failed communication with the other ranks.
    communication_error: Option<Error>,
}

impl SendingObserver<'_> {
    /// Adds an event to the block, and sends the block if it is full.
    fn send_event(&mut self, event_words: [f64; WORDS_PER_EVENT]) {
        let count = self.messages.event_block[0] as usize;
        self.messages.event_block[1 + count * WORDS_PER_EVENT..][..WORDS_PER_EVENT].copy_from_slice(&event_words);
        self.messages.event_block[0] += 1.0;
        if count + 1 == EVENTS_PER_BLOCK {
            self.send_block();
        }
    }

    /// Sends the events of the block, if there are any, to the other ranks.
    fn send_block(&mut self) {
        let RootMessages { event_gather: events, event_block: block, .. } = &mut *self.messages;
        if block[0] > 0.0 && self.communication_error.is_none() {
            self.communication_error = events.run(|buffer| buffer.copy_from_slice(block)).err();
        }
        block[0] = 0.0;
    }
}

impl Observer for SendingObserver<'_> {
    fn receive(&mut self, event: Event) -> bool {
        let requests_stop = self.observer.receive(event);
        self.send_event(encode_event(event));
        if self.stop_exchange.is_none() || !matches!(event, Event::Iteration(..)) {
            return requests_stop || self.communication_error.is_some();
        }
        self.send_block();
        let Some(stop_exchange) = self.stop_exchange.as_mut().filter(|_| self.communication_error.is_none()) else {
            return true;
        };
        any_rank_stops(stop_exchange, requests_stop, &mut self.communication_error)
    }

    fn may_stop(&self) -> bool {
        self.stop_exchange.is_some()
    }
}
