//! Team of threads that run one function together. The calling thread is thread 0, so callbacks happen on it. The other
//! threads wait between runs; a run creates and ends no thread. A general-purpose thread pool would allocate memory at
//! the start of a run and would not use the calling thread.

use crate::base::cores::cached_cores;
use crate::base::heap::FallibleArc;
use crate::base::thread::Thread;
use crate::error::{Error, Result, collected, reserve};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    static IS_TEAM_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether the calling thread was created by a team.
pub fn is_team_thread() -> bool {
    IS_TEAM_THREAD.get()
}

/// Yields the core of this thread to other ready threads.
pub fn yield_core() {
    std::thread::yield_now();
}

/// Number of polls before a waiting thread yields its core. These polls take about 10 microseconds, longer than the
/// usual time between the first and the last arrival at a barrier.
const POLLS_BEFORE_YIELD: usize = 400;
/// Time for which a thread polls and yields before it sleeps. Waking a sleeping thread takes 50 microseconds. The
/// polling time is therefore longer than the serial work in an iteration (on small grids, and with the exact factor of
/// the coarsest system), so that the waiting threads do not sleep. The polling time is shorter than a time slice of the
/// operating system.
const POLLING_TIME: Duration = Duration::from_micros(500);

/// State of a thread that waits: whether it may still poll.
struct PollState {
    deadline: Option<Instant>,
    poll_count: usize,
    may_spin: bool,
}

impl PollState {
    /// Returns whether the thread may poll again. After the first `POLLS_BEFORE_YIELD` polls, yields the core before
    /// each further poll. Returns false after `POLLING_TIME`, and always if threads of this team may not poll.
    fn may_poll(&mut self) -> bool {
        if self.may_spin && self.poll_count < POLLS_BEFORE_YIELD {
            self.poll_count += 1;
            std::hint::spin_loop();
        } else if self.may_spin {
            yield_core();
            let now = Instant::now();
            self.may_spin = now < *self.deadline.get_or_insert(now + POLLING_TIME);
        }
        self.may_spin
    }
}

/// A thread of a running team.
#[derive(Clone, Copy)]
pub struct TeamThread<'a> {
    /// Thread index; 0 is the calling thread.
    pub index: usize,
    /// Number of threads in the team.
    pub threads: usize,
    barrier: &'a Barrier,
}

impl TeamThread<'_> {
    /// Waits until all threads of the team have arrived. Their earlier writes are then visible to all threads.
    pub fn barrier(&self) {
        if self.threads > 1 {
            self.barrier.wait();
        }
    }

    /// Signals to the neighbouring threads that this thread has reached `point` of stage `stage`.
    pub fn signal(&self, point: StagePoint, stage: usize) {
        self.barrier.signals[self.index].0[point as usize].store(stage, Ordering::Release);
    }

    /// Waits until thread `thread` has reached `point` of stage `stage`. Earlier writes of that thread are then
    /// visible.
    pub fn wait_for_signal(&self, thread: usize, point: StagePoint, stage: usize) {
        let signal_stage = &self.barrier.signals[thread].0[point as usize];
        let mut polls = self.barrier.start_polling();
        while signal_stage.load(Ordering::Acquire) < stage {
            if self.barrier.is_broken.load(Ordering::Acquire) {
                resume_unwind(Box::new(OtherThreadPanicked));
            }
            if !polls.may_poll() {
                yield_core();
            }
        }
    }

    /// Returns this thread as a team of one, for serial work while the other threads wait.
    pub fn as_single_thread(&self) -> Self {
        Self { index: 0, threads: 1, ..*self }
    }

    /// Returns the contiguous range of the indices 0..n that belongs to this thread. For given n, the range is always
    /// the same.
    pub fn share(&self, n: usize) -> std::ops::Range<usize> {
        thread_share(n, self.index, self.threads)
    }
}

/// Returns the contiguous range of the indices 0..n that belongs to thread `thread` of `threads` threads.
pub fn thread_share(n: usize, thread: usize, threads: usize) -> std::ops::Range<usize> {
    n * thread / threads..n * (thread + 1) / threads
}

/// Points of a stage that a thread signals to its neighbours. A stage is a pass over the rows of the thread.
#[derive(Clone, Copy)]
pub enum StagePoint {
    /// The first row of the thread is done.
    FirstRow = 0,
    /// The last row of the thread is done.
    LastRow = 1,
}

/// For each `StagePoint`, the latest stage in which one thread has reached this point. Each thread has its own cache
/// line.
#[repr(align(64))]
#[derive(Default)]
struct StageSignals([AtomicUsize; 2]);

/// Payload of a panic that only propagates the panic of another thread.
struct OtherThreadPanicked;

/// Barrier: counts the threads that arrive; the last one releases all others.
struct Barrier {
    threads: usize,
    /// Whether a waiting thread may poll. False if there are more threads than cores, because a polling thread would
    /// occupy the core that another thread needs.
    may_spin: bool,
    /// Number of threads that have arrived in this round.
    arrived_count: AtomicUsize,
    /// Number of completed rounds.
    round: AtomicUsize,
    /// Whether a thread has panicked, so that the current round will not be completed.
    is_broken: AtomicBool,
    signals: Vec<StageSignals>,
    sleep_lock: Mutex<()>,
    wake_condition: Condvar,
}

impl Barrier {
    fn start_polling(&self) -> PollState {
        PollState { deadline: None, poll_count: 0, may_spin: self.may_spin }
    }

    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived_count.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived_count.store(0, Ordering::Relaxed);
            self.release_all(round.wrapping_add(1));
            return;
        }
        let mut polls = self.start_polling();
        while self.round.load(Ordering::Acquire) == round {
            if self.is_broken.load(Ordering::Acquire) {
                resume_unwind(Box::new(OtherThreadPanicked));
            }
            if polls.may_poll() {
                continue;
            }
            let guard = lock(&self.sleep_lock);
            if self.round.load(Ordering::Acquire) == round && !self.is_broken.load(Ordering::Acquire) {
                drop(self.wake_condition.wait(guard).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn release_all(&self, round: usize) {
        // The round changes under the lock, so that no thread falls asleep between its check of the round and the
        // notification.
        let guard = lock(&self.sleep_lock);
        self.round.store(round, Ordering::Release);
        drop(guard);
        self.wake_condition.notify_all();
    }

    fn release_after_panic(&self) {
        let guard = lock(&self.sleep_lock);
        self.is_broken.store(true, Ordering::Release);
        drop(guard);
        self.wake_condition.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pointer to the function that all threads except thread 0 run. The lifetime of the function is erased; see
/// [`Team::run`].
#[derive(Clone, Copy)]
struct ErasedFunction(*const (dyn Fn(TeamThread) + Sync));

// SAFETY: the closure behind the pointer is Sync, and `Team::run` keeps it alive while threads use it.
unsafe impl Send for ErasedFunction {}

/// Request for a run or for the end of the team. Between runs, the threads wait for a new request.
struct RunRequest {
    run_number: usize,
    function: Option<ErasedFunction>,
    ends_team: bool,
}

struct TeamState {
    barrier: Barrier,
    request: Mutex<RunRequest>,
    request_changed: Condvar,
    /// Number of threads other than 0 that have not finished the current run.
    running_threads: AtomicUsize,
    run_finished: Condvar,
    /// Payload of the panic that a thread other than 0 stored last.
    panic_payload: Mutex<Option<Box<dyn Any + Send>>>,
}

impl TeamState {
    fn request(&self) -> MutexGuard<'_, RunRequest> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of allocations in error messages.
const TEAM_NAME: &str = "a thread team";
const WORK_NAME: &str = "work of a thread team";

/// A team of threads.
pub struct Team {
    shared: FallibleArc<TeamState>,
    threads: Vec<Thread>,
}

impl Team {
    /// Starts `threads` - 1 threads.
    pub fn new(threads: usize) -> Result<Self> {
        let shared = TeamState {
            barrier: Barrier {
                threads,
                may_spin: threads <= cached_cores(),
                arrived_count: AtomicUsize::new(0),
                round: AtomicUsize::new(0),
                is_broken: AtomicBool::new(false),
                signals: collected((0..threads).map(|_| StageSignals::default()), TEAM_NAME)?,
                sleep_lock: Mutex::new(()),
                wake_condition: Condvar::new(),
            },
            request: Mutex::new(RunRequest { run_number: 0, function: None, ends_team: false }),
            request_changed: Condvar::new(),
            running_threads: AtomicUsize::new(0),
            run_finished: Condvar::new(),
            panic_payload: Mutex::new(None),
        };
        let mut team = Self { shared: FallibleArc::new(shared, TEAM_NAME)?, threads: Vec::new() };
        reserve(&mut team.threads, threads, TEAM_NAME)?;
        for index in 1..threads {
            team.threads.push(Thread::start(&team.shared, index, threads, thread_main)?);
        }
        // Waits until all threads run: a thread allocates memory when it starts, which must not happen during a solve.
        team.run(|_| {}, |_| ())?;
        Ok(team)
    }

    /// Returns the number of threads, including the calling thread.
    pub fn threads(&self) -> usize {
        self.shared.barrier.threads
    }

    /// Returns a team of `threads` threads. If `team` has this size, returns `team`. Otherwise, ends its threads, and
    /// then stores a new team in `team`.
    pub fn with_size(team: &mut Option<Self>, threads: usize) -> Result<&mut Self> {
        if team.as_ref().is_none_or(|team| team.threads() != threads) {
            *team = None;
            *team = Some(Self::new(threads)?);
        }
        Self::require(team)
    }

    /// Returns the team, or an internal error if there is none.
    pub fn require(team: &mut Option<Self>) -> Result<&mut Self> {
        team.as_mut().ok_or_else(|| Error::Internal("the thread team is missing".to_owned()))
    }

    /// Runs `run_on_others` on threads 1.. and `run_on_caller` on the calling thread, and waits for all. A panic on any
    /// thread releases the other threads from their barriers and ends the run; the team is unusable afterwards. A panic
    /// of the calling thread is resumed; after a panic of another thread, returns an internal error.
    pub fn run<R>(
        &mut self,
        run_on_others: impl Fn(TeamThread) + Sync,
        run_on_caller: impl FnOnce(TeamThread) -> R,
    ) -> Result<R> {
        let shared = &*self.shared;
        if shared.barrier.is_broken.load(Ordering::Acquire) {
            return Err(Error::Internal("a thread of this handle failed earlier: create a new handle".to_owned()));
        }
        let thread = TeamThread { index: 0, threads: self.threads(), barrier: &shared.barrier };
        if thread.threads > 1 {
            let function: *const (dyn Fn(TeamThread) + Sync + '_) = &raw const run_on_others;
            // SAFETY: only the lifetime changes. Threads use the function only until they have decremented
            // `running_threads`, and this function neither returns nor unwinds before that count is zero.
            let function = ErasedFunction(unsafe {
                std::mem::transmute::<
                    *const (dyn Fn(TeamThread) + Sync + '_),
                    *const (dyn Fn(TeamThread) + Sync + 'static),
                >(function)
            });
            for signal_stage in shared.barrier.signals.iter().flat_map(|signals| &signals.0) {
                signal_stage.store(0, Ordering::Relaxed);
            }
            shared.running_threads.store(thread.threads - 1, Ordering::Release);
            let mut request = shared.request();
            request.run_number += 1;
            request.function = Some(function);
            drop(request);
            shared.request_changed.notify_all();
        }
        let result = catch_unwind(AssertUnwindSafe(|| run_on_caller(thread)));
        if result.is_err() {
            shared.barrier.release_after_panic();
        }
        shared.wait_until_finished();
        match result {
            Ok(value) if !shared.barrier.is_broken.load(Ordering::Acquire) => Ok(value),
            Err(payload) if !payload.is::<OtherThreadPanicked>() => resume_unwind(payload),
            _ => Err(shared.panic_error()),
        }
    }

    /// Returns the results of `work` for all `pieces`, in the order of `pieces`. A thread that has finished a piece
    /// processes the next piece that no thread has begun.
    pub fn map<T: Send, R: Send>(&mut self, pieces: Vec<T>, work: impl Fn(T) -> R + Sync) -> Result<Vec<R>> {
        let piece_slots = collected(pieces.into_iter().map(|piece| Mutex::new(Some(piece))), WORK_NAME)?;
        let results = collected(piece_slots.iter().map(|_| Mutex::new(None)), WORK_NAME)?;
        let next_piece = AtomicUsize::new(0);
        let process_pieces = |_: TeamThread| {
            while let Some(k) = Some(next_piece.fetch_add(1, Ordering::Relaxed)).filter(|&k| k < piece_slots.len()) {
                let piece = lock(&piece_slots[k]).take();
                *lock(&results[k]) = piece.map(&work);
            }
        };
        self.run(process_pieces, process_pieces)?;
        let results = results.into_iter().filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
        collected(results, WORK_NAME)
    }

    /// Runs both functions and returns their results. With several threads, thread 1 runs `other_work` concurrently.
    pub fn run_both<A, B: Send>(
        &mut self,
        caller_work: impl FnOnce() -> A,
        other_work: impl Fn() -> B + Sync,
    ) -> Result<(A, B)> {
        if self.threads() == 1 {
            return Ok((caller_work(), other_work()));
        }
        let result = Mutex::new(None);
        let run_on_others = |thread: TeamThread| {
            if thread.index == 1 {
                let value = other_work();
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            }
        };
        let caller_result = self.run(run_on_others, |_| caller_work())?;
        let other_result = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        other_result
            .map(|other_result| (caller_result, other_result))
            .ok_or_else(|| Error::Internal("thread 1 did not run".to_owned()))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.request().ends_team = true;
        self.shared.request_changed.notify_all();
        self.threads.clear();
    }
}

impl TeamState {
    fn wait_until_finished(&self) {
        let mut polls = self.barrier.start_polling();
        while self.running_threads.load(Ordering::Acquire) > 0 {
            if polls.may_poll() {
                continue;
            }
            let request = self.request();
            if self.running_threads.load(Ordering::Acquire) > 0 {
                drop(self.run_finished.wait(request).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn panic_error(&self) -> Error {
        let payload = self.panic_payload.lock().unwrap_or_else(PoisonError::into_inner).take();
        let text = payload.as_deref().map_or("", |p| {
            p.downcast_ref::<&str>().copied().or_else(|| p.downcast_ref::<String>().map(String::as_str)).unwrap_or("")
        });
        Error::Internal(format!("panic in a thread: {text}"))
    }
}

/// Main loop of a thread of the team: waits for a run, and executes it.
fn thread_main(shared: &TeamState, index: usize) {
    IS_TEAM_THREAD.set(true);
    crate::base::traps::set_on_library_thread();
    let thread = TeamThread { index, threads: shared.barrier.threads, barrier: &shared.barrier };
    let mut last_run = 0;
    loop {
        let mut request = shared.request();
        while request.run_number == last_run && !request.ends_team {
            request = shared.request_changed.wait(request).unwrap_or_else(PoisonError::into_inner);
        }
        if request.ends_team {
            return;
        }
        last_run = request.run_number;
        let function = request.function;
        drop(request);
        if let Some(ErasedFunction(function)) = function {
            // SAFETY: `Team::run` keeps the closure alive until this thread decrements `running_threads` below.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*function)(thread) }));
            if let Err(payload) = result {
                if !payload.is::<OtherThreadPanicked>() {
                    *shared.panic_payload.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
                }
                shared.barrier.release_after_panic();
            }
        }
        if shared.running_threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Taking the lock ensures that thread 0 does not fall asleep between its check of `running_threads` and the
            // notification.
            drop(shared.request());
            shared.run_finished.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_returns_results_in_piece_order() {
        for (threads, pieces) in [(1, 5), (2, 0), (3, 1), (7, 40)] {
            let squares = Team::new(threads).unwrap().map((0..pieces).collect(), |k: usize| k * k).unwrap();
            assert_eq!(squares, (0..pieces).map(|k| k * k).collect::<Vec<_>>());
        }
        let fail_at_piece_3 = |k: usize| assert!(k != 3, "piece 3");
        let outcome = catch_unwind(|| Team::new(2).unwrap().map((0..9).collect(), fail_at_piece_3).map(|_| ()));
        assert!(!matches!(outcome, Ok(Ok(()))));
    }

    #[test]
    fn barrier_waits_for_all_threads() {
        for threads in [1, 2, 3, 7] {
            let mut team = Team::new(threads).unwrap();
            let rounds_reached: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            let work = |thread: TeamThread| {
                for round in 1..=100 {
                    rounds_reached[thread.index].store(round, Ordering::Relaxed);
                    thread.barrier();
                    assert!(rounds_reached.iter().all(|c| c.load(Ordering::Relaxed) == round));
                    thread.barrier();
                }
                thread.share(10)
            };
            for _ in 0..20 {
                let share = team
                    .run(
                        |thread| {
                            work(thread);
                        },
                        work,
                    )
                    .unwrap();
                assert_eq!(share, 0..10 / threads);
            }
        }
    }

    #[test]
    fn run_both_runs_both_functions() {
        for threads in [1, 2, 3, 7] {
            let mut team = Team::new(threads).unwrap();
            let other_calls = AtomicUsize::new(0);
            let other_work = || {
                other_calls.fetch_add(1, Ordering::Relaxed);
                std::thread::current().id()
            };
            for round in 1..=20 {
                let caller_id = std::thread::current().id();
                let (own_id, other_id) = team.run_both(|| std::thread::current().id(), other_work).unwrap();
                assert_eq!((own_id == caller_id, other_id == caller_id), (true, threads == 1));
                assert_eq!(other_calls.load(Ordering::Relaxed), round);
            }
        }
    }

    #[test]
    fn shares_cover_all_indices_once() {
        let team = Team::new(1).unwrap();
        for threads in 1..9 {
            for n in 0..30 {
                let share = |index| TeamThread { index, threads, barrier: &team.shared.barrier }.share(n);
                let indices: Vec<usize> = (0..threads).flat_map(share).collect();
                assert_eq!(indices, (0..n).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn panic_of_one_thread_releases_all() {
        let mut team = Team::new(3).unwrap();
        let work = |thread: TeamThread| {
            if thread.index == 2 {
                resume_unwind(Box::new("lost".to_owned()));
            }
            thread.barrier();
        };
        let error = team.run(work, work).unwrap_err();
        assert_eq!(error, Error::Internal("panic in a thread: lost".to_owned()));
        assert!(team.run(work, work).is_err());
    }
}
