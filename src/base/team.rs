//! Team of threads that run one function together. The calling thread is thread 0, so callbacks happen on it. The other
//! threads wait between runs; none is created or ended during a run. A general-purpose pool would allocate memory on
//! entry and would keep the calling thread out of the work.

use crate::base::cores::cached_cores;
use crate::base::heap::Counted;
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

/// Number of polls before a waiting thread yields its core. They take about 10 microseconds, longer than the usual time
/// between the first and the last arrival at a barrier.
const POLLS: usize = 400;
/// Time for which a thread polls and yields before it sleeps. Waking a sleeping thread takes 50 microseconds. The time
/// is therefore longer than the serial work of one thread in an iteration (small grids, the exact factorization), so
/// that the waiting threads do not sleep. It is shorter than a time slice of the operating system.
const POLLING_TIME: Duration = Duration::from_micros(500);

/// Polling state of one wait.
struct Polls {
    until: Option<Instant>,
    polls: usize,
    may_spin: bool,
}

impl Polls {
    /// Returns whether the thread may poll again. After the first `POLLS` polls, yields the core before each further
    /// poll. Returns false after `POLLING_TIME`, and always if threads of this team may not poll.
    fn may_poll(&mut self) -> bool {
        if self.may_spin && self.polls < POLLS {
            self.polls += 1;
            std::hint::spin_loop();
        } else if self.may_spin {
            yield_core();
            let now = Instant::now();
            self.may_spin = now < *self.until.get_or_insert(now + POLLING_TIME);
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
    pub fn post(&self, point: Point, stage: usize) {
        self.barrier.posts[self.index].0[point as usize].store(stage, Ordering::Release);
    }

    /// Waits until `thread` has reached `point` of stage `stage`. Its earlier writes are then visible.
    pub fn wait_for(&self, thread: usize, point: Point, stage: usize) {
        let post = &self.barrier.posts[thread].0[point as usize];
        let mut polls = self.barrier.polls();
        while post.load(Ordering::Acquire) < stage {
            if self.barrier.broken.load(Ordering::Acquire) {
                resume_unwind(Box::new(Abandoned));
            }
            if !polls.may_poll() {
                yield_core();
            }
        }
    }

    /// Returns this thread as a team of one, for serial work while the other threads wait.
    pub fn alone(&self) -> Self {
        Self { index: 0, threads: 1, ..*self }
    }

    /// Returns this thread's part of 0..n, a contiguous range. It is the same in every call with this n.
    pub fn share(&self, n: usize) -> std::ops::Range<usize> {
        share(n, self.index, self.threads)
    }
}

/// Returns the part of 0..n that belongs to `thread`, one of `threads` threads.
pub fn share(n: usize, thread: usize, threads: usize) -> std::ops::Range<usize> {
    n * thread / threads..n * (thread + 1) / threads
}

/// Points of a stage that a thread signals to its neighbours. A stage is a pass over the rows of the thread.
#[derive(Clone, Copy)]
pub enum Point {
    /// The first row of the thread is done.
    First = 0,
    /// The last row of the thread is done.
    Last = 1,
}

/// For each point, the latest stage in which a thread reached it. Each thread has its own cache line.
#[repr(align(64))]
#[derive(Default)]
struct Posts([AtomicUsize; 2]);

/// Payload of a panic that only propagates the panic of another thread.
struct Abandoned;

/// Barrier: counts the arrivals; the last thread releases all others.
struct Barrier {
    threads: usize,
    /// Whether a waiting thread may poll. False if there are more threads than cores, because a polling thread would
    /// occupy the core that another thread needs.
    may_spin: bool,
    /// Number of threads that have arrived in this round.
    arrived: AtomicUsize,
    /// Number of completed rounds.
    round: AtomicUsize,
    /// A thread has panicked, so the round will not be completed.
    broken: AtomicBool,
    posts: Vec<Posts>,
    asleep: Mutex<()>,
    wake: Condvar,
}

impl Barrier {
    fn polls(&self) -> Polls {
        Polls { until: None, polls: 0, may_spin: self.may_spin }
    }

    fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.release(round.wrapping_add(1));
            return;
        }
        let mut polls = self.polls();
        while self.round.load(Ordering::Acquire) == round {
            if self.broken.load(Ordering::Acquire) {
                resume_unwind(Box::new(Abandoned));
            }
            if polls.may_poll() {
                continue;
            }
            let guard = lock(&self.asleep);
            if self.round.load(Ordering::Acquire) == round && !self.broken.load(Ordering::Acquire) {
                drop(self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn release(&self, round: usize) {
        // The round changes under the lock, so that no thread falls asleep between its check of the round and the
        // notification.
        let guard = lock(&self.asleep);
        self.round.store(round, Ordering::Release);
        drop(guard);
        self.wake.notify_all();
    }

    fn abandon(&self) {
        let guard = lock(&self.asleep);
        self.broken.store(true, Ordering::Release);
        drop(guard);
        self.wake.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pointer to the function that the threads other than 0 run. Its lifetime is erased; see [`Team::run`].
#[derive(Clone, Copy)]
struct ErasedFunction(*const (dyn Fn(TeamThread) + Sync));

// SAFETY: the closure behind the pointer is Sync, and `Team::run` keeps it alive while threads use it.
unsafe impl Send for ErasedFunction {}

/// Request for a run or for the end of the team. The threads wait for it between runs.
struct RunRequest {
    number: usize,
    function: Option<ErasedFunction>,
    end: bool,
}

struct TeamState {
    barrier: Barrier,
    request: Mutex<RunRequest>,
    request_changed: Condvar,
    /// Number of threads other than 0 that have not finished the current run.
    running: AtomicUsize,
    finished: Condvar,
    /// Payload of the panic that a thread other than 0 stored last.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl TeamState {
    fn request(&self) -> MutexGuard<'_, RunRequest> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of allocations in error messages.
const THREADS: &str = "a thread team";
const PIECES: &str = "work of a thread team";

/// A team of threads.
pub struct Team {
    shared: Counted<TeamState>,
    threads: Vec<Thread>,
}

impl Team {
    /// Starts `threads` - 1 threads.
    pub fn new(threads: usize) -> Result<Self> {
        let shared = TeamState {
            barrier: Barrier {
                threads,
                may_spin: threads <= cached_cores(),
                arrived: AtomicUsize::new(0),
                round: AtomicUsize::new(0),
                broken: AtomicBool::new(false),
                posts: collected((0..threads).map(|_| Posts::default()), THREADS)?,
                asleep: Mutex::new(()),
                wake: Condvar::new(),
            },
            request: Mutex::new(RunRequest { number: 0, function: None, end: false }),
            request_changed: Condvar::new(),
            running: AtomicUsize::new(0),
            finished: Condvar::new(),
            panic: Mutex::new(None),
        };
        let mut team = Self { shared: Counted::new(shared, THREADS)?, threads: Vec::new() };
        reserve(&mut team.threads, threads, THREADS)?;
        for index in 1..threads {
            team.threads.push(Thread::start(&team.shared, index, threads, thread_main)?);
        }
        // A thread allocates memory as it starts, which must not happen within a solve. Wait until all threads run.
        team.run(|_| {}, |_| ())?;
        Ok(team)
    }

    /// Returns the number of threads, including the calling thread.
    pub fn threads(&self) -> usize {
        self.shared.barrier.threads
    }

    /// Returns a team of `threads` threads. If `team` has this size, returns `team`. Otherwise, ends its threads, and
    /// then stores a new team in `team`.
    pub fn sized(team: &mut Option<Self>, threads: usize) -> Result<&mut Self> {
        if team.as_ref().is_none_or(|team| team.threads() != threads) {
            *team = None;
            *team = Some(Self::new(threads)?);
        }
        Self::started(team)
    }

    /// Returns the team, or an internal error if there is none.
    pub fn started(team: &mut Option<Self>) -> Result<&mut Self> {
        team.as_mut().ok_or_else(|| Error::Internal("the thread team is missing".to_owned()))
    }

    /// Runs `others` on threads 1.. and `own` on the calling thread, and waits for all. A panic on any thread releases
    /// the other threads from their barriers and ends the run; the team is unusable afterwards. A panic of the calling
    /// thread is resumed; after a panic of another thread, returns an internal error.
    pub fn run<R>(&mut self, others: impl Fn(TeamThread) + Sync, own: impl FnOnce(TeamThread) -> R) -> Result<R> {
        let shared = &*self.shared;
        if shared.barrier.broken.load(Ordering::Acquire) {
            return Err(Error::Internal("a thread of this handle failed earlier: create a new handle".to_owned()));
        }
        let me = TeamThread { index: 0, threads: self.threads(), barrier: &shared.barrier };
        if me.threads > 1 {
            let function: *const (dyn Fn(TeamThread) + Sync + '_) = &raw const others;
            // SAFETY: only the lifetime changes. Threads use the function only until they have decremented `running`,
            // and this function neither returns nor unwinds before that count is zero.
            let function = ErasedFunction(unsafe {
                std::mem::transmute::<
                    *const (dyn Fn(TeamThread) + Sync + '_),
                    *const (dyn Fn(TeamThread) + Sync + 'static),
                >(function)
            });
            for post in shared.barrier.posts.iter().flat_map(|p| &p.0) {
                post.store(0, Ordering::Relaxed);
            }
            shared.running.store(me.threads - 1, Ordering::Release);
            let mut request = shared.request();
            request.number += 1;
            request.function = Some(function);
            drop(request);
            shared.request_changed.notify_all();
        }
        let result = catch_unwind(AssertUnwindSafe(|| own(me)));
        if result.is_err() {
            shared.barrier.abandon();
        }
        shared.wait_until_finished();
        match result {
            Ok(value) if !shared.barrier.broken.load(Ordering::Acquire) => Ok(value),
            Err(payload) if !payload.is::<Abandoned>() => resume_unwind(payload),
            _ => Err(shared.failure()),
        }
    }

    /// Returns the results of `work` for all pieces, in their order. Each idle thread processes the next piece.
    pub fn map<T: Send, R: Send>(&mut self, pieces: Vec<T>, work: impl Fn(T) -> R + Sync) -> Result<Vec<R>> {
        let given = collected(pieces.into_iter().map(|piece| Mutex::new(Some(piece))), PIECES)?;
        let made = collected(given.iter().map(|_| Mutex::new(None)), PIECES)?;
        let next = AtomicUsize::new(0);
        let take = |_: TeamThread| {
            while let Some(k) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&k| k < given.len()) {
                let piece = lock(&given[k]).take();
                *lock(&made[k]) = piece.map(&work);
            }
        };
        self.run(take, take)?;
        let made = made.into_iter().filter_map(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner));
        collected(made, PIECES)
    }

    /// Runs both functions and returns their results. With several threads, thread 1 runs `other` concurrently.
    pub fn run_both<A, B: Send>(&mut self, own: impl FnOnce() -> A, other: impl Fn() -> B + Sync) -> Result<(A, B)> {
        if self.threads() == 1 {
            return Ok((own(), other()));
        }
        let result = Mutex::new(None);
        let others = |me: TeamThread| {
            if me.index == 1 {
                let value = other();
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            }
        };
        let own = self.run(others, |_| own())?;
        let other = result.into_inner().unwrap_or_else(PoisonError::into_inner);
        other.map(|other| (own, other)).ok_or_else(|| Error::Internal("thread 1 did not run".to_owned()))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.request().end = true;
        self.shared.request_changed.notify_all();
        self.threads.clear();
    }
}

impl TeamState {
    fn wait_until_finished(&self) {
        let mut polls = self.barrier.polls();
        while self.running.load(Ordering::Acquire) > 0 {
            if polls.may_poll() {
                continue;
            }
            let request = self.request();
            if self.running.load(Ordering::Acquire) > 0 {
                drop(self.finished.wait(request).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn failure(&self) -> Error {
        let payload = self.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    let me = TeamThread { index, threads: shared.barrier.threads, barrier: &shared.barrier };
    let mut last_request = 0;
    loop {
        let mut request = shared.request();
        while request.number == last_request && !request.end {
            request = shared.request_changed.wait(request).unwrap_or_else(PoisonError::into_inner);
        }
        if request.end {
            return;
        }
        last_request = request.number;
        let function = request.function;
        drop(request);
        if let Some(ErasedFunction(function)) = function {
            // SAFETY: `Team::run` keeps the closure alive until this thread decrements `running` below.
            let result = catch_unwind(AssertUnwindSafe(|| unsafe { (*function)(me) }));
            if let Err(payload) = result {
                if !payload.is::<Abandoned>() {
                    *shared.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(payload);
                }
                shared.barrier.abandon();
            }
        }
        if shared.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The lock is taken once, so that thread 0 does not fall asleep between its check and the notification.
            drop(shared.request());
            shared.finished.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_pieces() {
        for (threads, pieces) in [(1, 5), (2, 0), (3, 1), (7, 40)] {
            let squares = Team::new(threads).unwrap().map((0..pieces).collect(), |k: usize| k * k).unwrap();
            assert_eq!(squares, (0..pieces).map(|k| k * k).collect::<Vec<_>>());
        }
        let failing = |k: usize| assert!(k != 3, "piece 3");
        let failed = catch_unwind(|| Team::new(2).unwrap().map((0..9).collect(), failing).map(|_| ()));
        assert!(!matches!(failed, Ok(Ok(()))));
    }

    #[test]
    fn threads_wait_at_barriers() {
        for threads in [1, 2, 3, 7] {
            let mut team = Team::new(threads).unwrap();
            let counters: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            let work = |me: TeamThread| {
                for round in 1..=100 {
                    counters[me.index].store(round, Ordering::Relaxed);
                    me.barrier();
                    assert!(counters.iter().all(|c| c.load(Ordering::Relaxed) == round));
                    me.barrier();
                }
                me.share(10)
            };
            for _ in 0..20 {
                let share = team
                    .run(
                        |me| {
                            work(me);
                        },
                        work,
                    )
                    .unwrap();
                assert_eq!(share, 0..10 / threads);
            }
        }
    }

    #[test]
    fn both_functions_run() {
        for threads in [1, 2, 3, 7] {
            let mut team = Team::new(threads).unwrap();
            let done = AtomicUsize::new(0);
            let other = || {
                done.fetch_add(1, Ordering::Relaxed);
                std::thread::current().id()
            };
            for round in 1..=20 {
                let here = std::thread::current().id();
                let (own, there) = team.run_both(|| std::thread::current().id(), other).unwrap();
                assert_eq!((own == here, there == here), (true, threads == 1));
                assert_eq!(done.load(Ordering::Relaxed), round);
            }
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        let barrier = Team::new(1).unwrap();
        for threads in 1..9 {
            for n in 0..30 {
                let share = |index| TeamThread { index, threads, barrier: &barrier.shared.barrier }.share(n);
                let all: Vec<usize> = (0..threads).flat_map(share).collect();
                assert_eq!(all, (0..n).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_panic_of_one_thread_releases_the_others() {
        let mut team = Team::new(3).unwrap();
        let work = |me: TeamThread| {
            if me.index == 2 {
                resume_unwind(Box::new("lost".to_owned()));
            }
            me.barrier();
        };
        let error = team.run(work, work).unwrap_err();
        assert_eq!(error, Error::Internal("panic in a thread: lost".to_owned()));
        assert!(team.run(work, work).is_err());
    }
}
