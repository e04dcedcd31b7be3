//! Log lines, written to the library-wide callback, stderr, or a file. Formatting allocates no heap memory, because
//! lines are written during a solve.

use crate::abi::guard::callback;
use crate::abi::line::Line;
use crate::abi::rrb_log_fn;
use crate::base::file;
use crate::error::{ERROR_MESSAGE_NAME, Error, FailedAllocation, Result, formatted};
use libc::{c_char, c_void};
use std::cell::Cell;
use std::ffi::CStr;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

/// Type of the function in `rrb_log_fn`.
type LogFunction = unsafe extern "C-unwind" fn(*mut c_void, i32, *const c_char);

/// The library-wide callback with its user pointer (a sink), and the number of its running calls.
///
/// All accesses hold a lock. After a fork, the child process can acquire this lock even if a thread of the parent held
/// it during the fork. The child then finds a callback with the matching user pointer, because `select_sink` writes the
/// sink that is not in use and then selects this sink by a single store. The child resets the counts of running calls.
struct CallbackState {
    /// Process of the thread that holds the lock; 0 if the lock is free.
    locking_process: AtomicU32,
    sinks: [Sink; 2],
    /// Index of the sink in use.
    active_sink: AtomicUsize,
    /// Grows with each call of `rrbsolver_set_log` that waits.
    generation: AtomicUsize,
    /// Number of running calls that began in a generation of even (index 0) or odd (index 1) number. Only the two
    /// latest generations have running calls, and no call begins in the older one.
    running_calls: [AtomicUsize; 2],
    /// Process whose calls `running_calls` counts.
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

static CALLBACK_STATE: CallbackState = CallbackState {
    locking_process: AtomicU32::new(0),
    sinks: [Sink::none(), Sink::none()],
    active_sink: AtomicUsize::new(0),
    generation: AtomicUsize::new(0),
    running_calls: [AtomicUsize::new(0), AtomicUsize::new(0)],
    process: AtomicU32::new(0),
};

thread_local! {
    /// Whether this thread is running the callback.
    static IS_IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Polling interval of `rrbsolver_set_log`. The function polls, because a condition variable would not survive a fork.
const POLL_INTERVAL: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };

impl CallbackState {
    /// Runs `access_state` with the lock held. `access_state` must be a few loads and stores.
    fn with_lock<T>(&self, access_state: impl FnOnce(&Self) -> T) -> T {
        let own_process = std::process::id();
        let mut expected = 0;
        while let Err(locking_process) = self.locking_process.compare_exchange(expected, own_process, Acquire, Relaxed)
        {
            // If `locking_process` is another process, the lock was held during a fork, by a thread that does not exist
            // in this process. The lock can then be taken.
            expected = if locking_process == own_process { 0 } else { locking_process };
            if locking_process == own_process {
                // SAFETY: the function has no arguments.
                unsafe { libc::sched_yield() };
            }
        }
        if self.process.swap(own_process, Relaxed) != own_process {
            self.running_calls.iter().for_each(|count| count.store(0, Relaxed));
        }
        let result = access_state(self);
        self.locking_process.store(0, Release);
        result
    }

    fn select_sink(&self, callback: rrb_log_fn, user: *mut c_void) {
        let next_sink = 1 - self.active_sink.load(Relaxed);
        let callback = callback.map_or(null_mut(), |function| function as *mut c_void);
        self.sinks[next_sink].callback.store(callback, Relaxed);
        self.sinks[next_sink].user.store(user, Relaxed);
        self.active_sink.store(next_sink, Release);
    }

    /// Returns the count of running calls that began in `generation`, which must be one of the latest two.
    fn running_calls_of(&self, generation: usize) -> &AtomicUsize {
        &self.running_calls[generation % 2]
    }

    /// Selects a new sink, begins generation g + 1, where g is the current generation, and returns g + 1. If a call of
    /// generation g - 1 is still running, does nothing and returns `None`, because the calls of g + 1 and of g - 1 have
    /// the same counter.
    fn try_replace(&self, callback: rrb_log_fn, user: *mut c_void) -> Option<usize> {
        let next_generation = self.generation.load(Relaxed).wrapping_add(1);
        (self.running_calls_of(next_generation).load(Relaxed) == 0).then(|| {
            self.select_sink(callback, user);
            self.generation.store(next_generation, Relaxed);
            next_generation
        })
    }

    /// Returns whether all calls that began before `generation` have ended. This is also true if a later generation has
    /// begun, because a later generation begins only after these calls have ended.
    fn have_earlier_calls_ended(&self, generation: usize) -> bool {
        self.generation.load(Relaxed) != generation
            || self.running_calls_of(generation.wrapping_sub(1)).load(Relaxed) == 0
    }

    /// Begins a call: counts it as running in the current generation. Returns the callback, its user pointer, and the
    /// generation, or `None` without a callback.
    fn begin_call(&self) -> Option<(LogFunction, *mut c_void, usize)> {
        let sink = &self.sinks[self.active_sink.load(Acquire)];
        let callback = sink.callback.load(Relaxed);
        if callback.is_null() {
            return None;
        }
        // SAFETY: `select_sink` stored a function of this type.
        let callback = unsafe { std::mem::transmute::<*mut c_void, LogFunction>(callback) };
        let generation = self.generation.load(Relaxed);
        self.running_calls_of(generation).fetch_add(1, Relaxed);
        Some((callback, sink.user.load(Relaxed), generation))
    }
}

/// Replaces the library-wide callback, and waits until no thread is inside the previous callback.
///
/// If the callback itself calls this function, the callback is replaced without waiting, because the wait would not
/// end.
pub fn set_callback(callback: rrb_log_fn, user: *mut c_void) {
    if IS_IN_CALLBACK.get() {
        return CALLBACK_STATE.with_lock(|shared| shared.select_sink(callback, user));
    }
    let generation = poll_until(|| CALLBACK_STATE.with_lock(|shared| shared.try_replace(callback, user)));
    poll_until(|| CALLBACK_STATE.with_lock(|shared| shared.have_earlier_calls_ended(generation).then_some(())));
}

/// Polls `poll` until it returns a value.
fn poll_until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = poll() {
            return value;
        }
        // SAFETY: the sleep time outlives the call; NULL means that no remaining time is returned.
        unsafe { libc::nanosleep(&POLL_INTERVAL, null_mut()) };
    }
}

/// Target of the log lines of a handle.
#[derive(Default)]
pub enum Log {
    /// The library-wide callback, if one is set.
    #[default]
    Callback,
    /// The standard error stream.
    Stderr,
    /// A file, to which lines are appended.
    File(File),
}

impl Log {
    /// Opens the target that the option `log` names.
    pub fn open(target: &str) -> Result<Self> {
        match target {
            "callback" => Ok(Self::Callback),
            "stderr" => Ok(Self::Stderr),
            path => {
                let name = formatted(format_args!("{path}\0"), "the path of the log file")?;
                let name = CStr::from_bytes_until_nul(name.as_bytes()).unwrap_or_default();
                match file::open_to_append(name) {
                    Ok(file) => Ok(Self::File(file)),
                    Err(e) if e.kind() == std::io::ErrorKind::OutOfMemory => {
                        Err(Error::NoMemory(FailedAllocation { bytes: 0, allocation_name: "access to the log file" }))
                    }
                    Err(e) => {
                        let reason = file::IoErrorText(&e);
                        let message = format_args!("log file {path} cannot be opened: {reason}");
                        Err(Error::Io(formatted(message, ERROR_MESSAGE_NAME)?))
                    }
                }
            }
        }
    }

    /// Writes one line. Errors of the target are ignored, because they must not fail a solve.
    pub fn write_line(&mut self, level: i32, text: fmt::Arguments) {
        let mut line = Line::new();
        // A line longer than the buffer is truncated.
        let _ = line.write_fmt(text);
        match self {
            Self::Callback => call_callback(level, &line),
            // One write call per line, so that lines of handles with a common target do not interleave.
            Self::Stderr => {
                let _ = std::io::stderr().write_all(line.with_newline());
            }
            Self::File(file) => {
                let _ = file.write_all(line.with_newline());
            }
        }
    }
}

fn call_callback(level: i32, line: &Line) {
    // The callback has called the library. Its log lines are dropped, because they would call the callback recursively.
    if IS_IN_CALLBACK.get() {
        return;
    }
    // The lock is free during the call, because the callback may call the library.
    let Some((function, user, generation)) = CALLBACK_STATE.with_lock(CallbackState::begin_call) else { return };
    let process = std::process::id();
    IS_IN_CALLBACK.set(true);
    // A panic in the callback is ignored, because it must not end the solve. SAFETY: the caller of `rrbsolver_set_log`
    // passed a function of this signature that any thread may call. The text is NUL-terminated, because `Line` never
    // fills its last byte.
    let _ = callback(|| unsafe { function(user, level, line.bytes.as_ptr().cast()) });
    IS_IN_CALLBACK.set(false);
    // If the callback has forked, only the parent process counts this call.
    if process == std::process::id() {
        CALLBACK_STATE.with_lock(|shared| shared.running_calls_of(generation).fetch_sub(1, Relaxed));
    }
}
