//! Log lines: to the library-wide callback, stderr, or a file. Formatting takes no heap memory, since lines
//! are written inside solve.

use crate::error::{Error, Result};
use crate::ffi::guard::callback;
use crate::ffi::line::Line;
use crate::ffi::rrb_log_fn;
use libc::{c_char, c_void};
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

/// What `rrb_log_fn` holds.
type LogFunction = unsafe extern "C-unwind" fn(*mut c_void, i32, *const c_char);

/// The library-wide callback with its user pointer, and the calls of it that run.
///
/// Everything is read and written under a lock that a child of fork can take though a thread of its parent held it: the
/// child finds a whole sink, because a sink is written aside and then chosen by one store, and counts no call of its
/// parent.
struct Shared {
    /// Process whose thread holds the lock; 0: none does.
    holder: AtomicU32,
    sinks: [Sink; 2],
    /// Which of the two is in use.
    chosen: AtomicUsize,
    /// Grows with each call of `rrbsolver_set_log` that waits.
    generation: AtomicUsize,
    /// Calls that run, by the generation they began in: of its last two, the older takes no more.
    running: [AtomicUsize; 2],
    /// Process whose calls these are.
    process: AtomicU32,
}

struct Sink {
    callback: AtomicPtr<c_void>,
    user: AtomicPtr<c_void>,
}

impl Sink {
    const fn none() -> Self {
        Self { callback: AtomicPtr::new(null_mut()), user: AtomicPtr::new(null_mut()) }
    }
}

static SHARED: Shared = Shared {
    holder: AtomicU32::new(0),
    sinks: [Sink::none(), Sink::none()],
    chosen: AtomicUsize::new(0),
    generation: AtomicUsize::new(0),
    running: [AtomicUsize::new(0), AtomicUsize::new(0)],
    process: AtomicU32::new(0),
};

thread_local! {
    /// This thread is inside a call of the callback.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// How often a waiting `rrbsolver_set_log` looks: a condition variable would be of no use after a fork.
const NAP: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };

impl Shared {
    /// Runs `work` with the lock held: a few loads and stores.
    fn locked<T>(&self, work: impl FnOnce(&Self) -> T) -> T {
        let own = std::process::id();
        let mut expected = 0;
        while let Err(holder) = self.holder.compare_exchange(expected, own, Acquire, Relaxed) {
            // A holder of another process is a thread that fork did not copy.
            expected = if holder == own { 0 } else { holder };
            if holder == own {
                // SAFETY: has no arguments.
                unsafe { libc::sched_yield() };
            }
        }
        if self.process.swap(own, Relaxed) != own {
            self.running.iter().for_each(|count| count.store(0, Relaxed));
        }
        let result = work(self);
        self.holder.store(0, Release);
        result
    }

    fn choose(&self, callback: rrb_log_fn, user: *mut c_void) {
        let next = 1 - self.chosen.load(Relaxed);
        let callback = callback.map_or(null_mut(), |function| function as *mut c_void);
        self.sinks[next].callback.store(callback, Relaxed);
        self.sinks[next].user.store(user, Relaxed);
        self.chosen.store(next, Release);
    }

    /// Calls that run and began in `generation`, one of the last two.
    fn running_of(&self, generation: usize) -> &AtomicUsize {
        &self.running[generation % 2]
    }

    /// Chooses the sink where no call of the generation before runs; then a new one begins, whose number is the answer.
    fn replaced(&self, callback: rrb_log_fn, user: *mut c_void) -> Option<usize> {
        let next = self.generation.load(Relaxed).wrapping_add(1);
        (self.running_of(next).load(Relaxed) == 0).then(|| {
            self.choose(callback, user);
            self.generation.store(next, Relaxed);
            next
        })
    }

    /// Whether no call that began before `generation` runs: a later one begins only when this is so.
    fn ended_before(&self, generation: usize) -> bool {
        self.generation.load(Relaxed) != generation || self.running_of(generation.wrapping_sub(1)).load(Relaxed) == 0
    }

    /// The sink, if there is one, and the generation in which a call of it is counted from now on.
    fn begin(&self) -> Option<(LogFunction, *mut c_void, usize)> {
        let sink = &self.sinks[self.chosen.load(Acquire)];
        let callback = sink.callback.load(Relaxed);
        if callback.is_null() {
            return None;
        }
        // SAFETY: `choose` made it from a function of this type.
        let callback = unsafe { std::mem::transmute::<*mut c_void, LogFunction>(callback) };
        let generation = self.generation.load(Relaxed);
        self.running_of(generation).fetch_add(1, Relaxed);
        Some((callback, sink.user.load(Relaxed), generation))
    }
}

/// Replaces the library-wide callback, and waits until no thread is inside the former one. Inside a call of it this
/// would not end: there it waits for none.
pub fn set_callback(callback: rrb_log_fn, user: *mut c_void) {
    if INSIDE.get() {
        return SHARED.locked(|shared| shared.choose(callback, user));
    }
    let generation = until(|| SHARED.locked(|shared| shared.replaced(callback, user)));
    until(|| SHARED.locked(|shared| shared.ended_before(generation).then_some(())));
}

/// What `look` finds at last.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look() {
            return found;
        }
        // SAFETY: the time to sleep outlives the call, and NULL asks for no remainder.
        unsafe { libc::nanosleep(&NAP, null_mut()) };
    }
}

/// Where one handle writes.
#[derive(Default)]
pub enum Log {
    /// To the library-wide callback, if there is one.
    #[default]
    Callback,
    /// To stderr.
    Stderr,
    /// To the end of a file.
    File(File),
}

impl Log {
    /// From the value of the option `log`.
    pub fn open(target: &str) -> Result<Self> {
        match target {
            "callback" => Ok(Self::Callback),
            "stderr" => Ok(Self::Stderr),
            path => match File::options().append(true).create(true).open(path) {
                Ok(file) => Ok(Self::File(file)),
                Err(e) => Err(Error::Io(format!("log file {path} cannot be opened: {e}"))),
            },
        }
    }

    /// Writes one line. A sink that fails is no reason to fail a solve.
    pub fn line(&mut self, level: i32, text: fmt::Arguments) {
        let mut line = Line::new();
        // Cut at the buffer's end.
        let _ = line.write_fmt(text);
        match self {
            Self::Callback => call(level, &line),
            // One write a line, so that handles that share a sink do not mix within lines.
            Self::Stderr => {
                let _ = std::io::stderr().write_all(line.ended());
            }
            Self::File(file) => {
                let _ = file.write_all(line.ended());
            }
        }
    }
}

fn call(level: i32, line: &Line) {
    // Lines of calls that the callback makes would call it inside itself.
    if INSIDE.get() {
        return;
    }
    // Unlocked before the call: the callback may call the library.
    let Some((function, user, generation)) = SHARED.locked(Shared::begin) else { return };
    let process = std::process::id();
    INSIDE.set(true);
    // A panic in it ends the line, not the solve.
    // SAFETY: the caller of `rrbsolver_set_log` gave a function of this signature that may be called from any thread;
    // the text ends with NUL because `Line` never fills its last byte.
    let _ = callback(|| unsafe { function(user, level, line.bytes.as_ptr().cast()) });
    INSIDE.set(false);
    // A fork within the callback left the count to the parent.
    if process == std::process::id() {
        SHARED.locked(|shared| shared.running_of(generation).fetch_sub(1, Relaxed));
    }
}
