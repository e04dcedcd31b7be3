//! Solves of a distributed domain on the devices of rank 0. Rank 0 sends its events and results to the other ranks, so
//! that monitors, histories and results are the same on all ranks.

use super::{FactorizationResults, Rrb};
use crate::base::heap::{Counted, boxed};
use crate::base::machine::{Core, Machine};
use crate::distributed::{Comm, Gather, Maximum};
use crate::error::{Error, Result, zeroed};
use crate::options::{Backend, Choice, Devices, StopReason};
use crate::report::{Event, Observer, Outcome};
use crate::rrb::remote::RemoteFactorization;

/// Name of the memory in error messages about failed allocations.
const WHAT: &str = "events for other ranks";

/// The root rank, on whose devices all solves run.
pub const ROOT: usize = 0;

/// Number of words per event. The first word is its kind, one of the constants below. Up to three values follow.
const EVENT_WORDS: usize = 4;
const ITERATION: f64 = 1.0;
const PASSED: f64 = 2.0;
const CHANGED: f64 = 3.0;
const COEFFICIENTS: f64 = 4.0;
const WIDENED: f64 = 5.0;
const ENDED: [f64; EVENT_WORDS] = [0.0; EVENT_WORDS];

fn words_of(event: Event) -> [f64; EVENT_WORDS] {
    match event {
        Event::Iteration(iteration, residual) => [ITERATION, iteration as f64, residual, 0.0],
        Event::Passed(iteration, residual) => [PASSED, iteration as f64, residual, 0.0],
        Event::Changed(iterations, left, expected) => [CHANGED, iterations as f64, left, expected],
        Event::Coefficients(alpha, beta) => [COEFFICIENTS, alpha, beta, 0.0],
        Event::Widened(iterations) => [WIDENED, iterations as f64, 0.0, 0.0],
    }
}

/// Decodes an event; `None` marks the end of the events.
fn event_of(words: &[f64]) -> Option<Event> {
    let count = words[1] as usize;
    let kind = words[0];
    Some(if kind == ITERATION {
        Event::Iteration(count, words[2])
    } else if kind == PASSED {
        Event::Passed(count, words[2])
    } else if kind == CHANGED {
        Event::Changed(count, words[2], words[3])
    } else if kind == COEFFICIENTS {
        Event::Coefficients(words[1], words[2])
    } else if kind == WIDENED {
        Event::Widened(count)
    } else {
        return None;
    })
}

/// Number of events per block. A block begins with its number of events.
const EVENTS_PER_BLOCK: usize = 64;
const BLOCK_WORDS: usize = 1 + EVENTS_PER_BLOCK * EVENT_WORDS;

/// Number of words for the result of a solve: the status, and the five fields of the outcome. In a message, these words
/// are followed by the results of the factorization, the number of grids and the number of threads.
const SOLVE_WORDS: usize = 6;
const RESULT_WORDS: usize = SOLVE_WORDS + FactorizationResults::WORDS + 2;

/// Plans of the messages between rank 0 and the other ranks.
pub struct RootSolve {
    rank: usize,
    events: Gather,
    /// Events that have not been sent yet.
    block: [f64; BLOCK_WORDS],
    results: Gather,
}

impl RootSolve {
    /// Creates the plans. Collective.
    pub fn new(comm: &Counted<Comm>) -> Result<Self> {
        let from_first = |count: usize| {
            let mut counts = zeroed(comm.size(), WHAT)?;
            counts[ROOT] = count;
            Gather::new(comm, &counts)
        };
        Ok(Self {
            rank: comm.rank(),
            events: from_first(BLOCK_WORDS)?,
            block: [0.0; BLOCK_WORDS],
            results: from_first(RESULT_WORDS)?,
        })
    }

    /// Returns whether this rank is the root rank.
    pub fn is_root(&self) -> bool {
        self.rank == ROOT
    }

    /// On rank 0, runs `solve`, and sends its events and its result. On the other ranks, passes these events to
    /// `observer`, and returns the same result, where an error of rank 0 becomes [`Error::OtherRanks`]. There, `core`
    /// only represents the factorization of rank 0. It is replaced, because the solve may have changed that
    /// factorization. `stop` is `Some` if any rank has a monitor.
    pub fn solve(
        &mut self,
        core: &mut Rrb,
        observer: &mut dyn Observer,
        stop: Option<&mut Maximum>,
        solve: impl FnOnce(&mut Rrb, &mut dyn Observer) -> Result<Outcome>,
    ) -> Result<Outcome> {
        if !self.is_root() {
            self.follow(observer, stop)?;
            return self.receive_results(core);
        }
        let mut sending = SendingObserver { observer, root: self, stop, failed: None };
        let outcome = solve(core, &mut sending);
        sending.send(ENDED);
        sending.flush();
        sending.failed.map_or(Ok(()), Err)?;
        self.send_results(core, &outcome)?;
        outcome
    }

    /// Receives the events of rank 0, up to the end of the solve, and passes them to the observer of this rank.
    fn follow(&mut self, observer: &mut dyn Observer, mut stop: Option<&mut Maximum>) -> Result<()> {
        loop {
            let block = self.events.run(|_| {})?;
            for words in block[1..].chunks_exact(EVENT_WORDS).take(block[0] as usize) {
                let Some(event) = event_of(words) else { return Ok(()) };
                let own = observer.receive(event);
                if let (Event::Iteration(..), Some(stop)) = (event, &mut stop) {
                    stop.run(&[f64::from(u8::from(own))])?;
                }
            }
        }
    }

    fn send_results(&mut self, core: &Rrb, outcome: &Result<Outcome>) -> Result<()> {
        let sent = outcome.as_ref().copied().unwrap_or_default();
        let solve: [f64; SOLVE_WORDS] = [
            outcome.as_ref().err().map_or(0, Error::status).into(),
            sent.iterations as f64,
            sent.reason.number() as f64,
            sent.initial_residual,
            sent.final_residual,
            sent.reference,
        ];
        self.results.run(|to| {
            to[..SOLVE_WORDS].copy_from_slice(&solve);
            to[SOLVE_WORDS..][..FactorizationResults::WORDS].copy_from_slice(&core.done.to_words());
            to[SOLVE_WORDS + FactorizationResults::WORDS..]
                .copy_from_slice(&[core.grids() as f64, core.engine().threads() as f64]);
        })?;
        Ok(())
    }

    /// Receives the result of a solve. Also replaces `core`, because the solve may have switched to another
    /// preconditioner.
    fn receive_results(&mut self, core: &mut Rrb) -> Result<Outcome> {
        let words = self.results.run(|_| {})?;
        *core = core_of(words)?;
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

    /// Sends the results of a factorization, which succeeded on rank 0.
    pub fn send_factorized(&mut self, core: &Rrb) -> Result<()> {
        self.send_results(core, &Ok(Outcome::default()))
    }

    /// Receives the results of a factorization of rank 0.
    pub fn receive_factorized(&mut self) -> Result<Rrb> {
        core_of(self.results.run(|_| {})?)
    }
}

/// Creates the object that represents the factorization of rank 0 on another rank.
fn core_of(words: &[f64]) -> Result<Rrb> {
    let done = words[SOLVE_WORDS..][..FactorizationResults::WORDS].try_into().expect("as many as were given");
    let [grids, threads] = [0, 1].map(|k| words[SOLVE_WORDS + FactorizationResults::WORDS + k] as usize);
    let machine = Machine { backend: Backend::Cuda, threads, device: -1, devices: Devices::NONE };
    Ok(Rrb::of_remote(
        machine,
        boxed(RemoteFactorization { grids, threads }, WHAT)?,
        FactorizationResults::of_words(done),
    ))
}

/// Returns whether the monitor of any rank requests a stop. If the communication fails, stores the error in `failed`
/// and returns `true`.
pub fn any_stops(stop: &mut Maximum, own: bool, failed: &mut Option<Error>) -> bool {
    match stop.run(&[f64::from(u8::from(own))]) {
        Ok(all) => all[0] > 0.0,
        Err(error) => {
            *failed = Some(error);
            true
        }
    }
}

/// Observer of rank 0, which also sends the events to the other ranks. It requests a stop if the monitor of any rank
/// does, or if the communication has failed.
struct SendingObserver<'a> {
    observer: &'a mut dyn Observer,
    root: &'a mut RootSolve,
    stop: Option<&'a mut Maximum>,
    /// Error of a failed communication with the other ranks.
    failed: Option<Error>,
}

impl SendingObserver<'_> {
    fn send(&mut self, event: [f64; EVENT_WORDS]) {
        let count = self.root.block[0] as usize;
        self.root.block[1 + count * EVENT_WORDS..][..EVENT_WORDS].copy_from_slice(&event);
        self.root.block[0] += 1.0;
        if count + 1 == EVENTS_PER_BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let RootSolve { events, block, .. } = &mut *self.root;
        if block[0] > 0.0 && self.failed.is_none() {
            self.failed = events.run(|to| to.copy_from_slice(block)).err();
        }
        block[0] = 0.0;
    }
}

impl Observer for SendingObserver<'_> {
    fn receive(&mut self, event: Event) -> bool {
        let own = self.observer.receive(event);
        self.send(words_of(event));
        if self.stop.is_none() || !matches!(event, Event::Iteration(..)) {
            return own || self.failed.is_some();
        }
        self.flush();
        let Some(stop) = self.stop.as_mut().filter(|_| self.failed.is_none()) else { return true };
        any_stops(stop, own, &mut self.failed)
    }

    fn may_stop(&self) -> bool {
        self.stop.is_some()
    }
}
