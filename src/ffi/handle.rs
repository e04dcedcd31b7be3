//! What handles of all families have: options with those of the environment on top, log, monitor, history, stream,
//! times, what must come before a call, and the process that made them; and the bodies of the entry points about these.

use crate::backend::cuda::driver::HAS_KERNELS;
use crate::error::{Error, MESSAGE, RRB_OK, Result, formatted};
use crate::ffi::guard::{entry, entry_ok};
use crate::ffi::log::Log;
use crate::ffi::watch::{Watch, Words};
use crate::ffi::{environment, rrb_monitor_fn, rrb_status};
use crate::options::{Choice, Options, ResultEntry, info, opt};
use crate::report::History;
use crate::runtime::heap::boxed;
use crate::solver::machine::Core;
use libc::c_void;
use std::time::{Duration, Instant};

/// Why a call must wait for one that makes a core.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stale {
    New,
    Failed,
    Changed,
    /// This came after it.
    Given(&'static str),
}

/// A part of every handle.
pub struct Base<C> {
    pub words: &'static Words,
    pub options: Options,
    pub log: Log,
    monitor: rrb_monitor_fn,
    monitor_user: *mut c_void,
    pub stream: *mut c_void,
    pub history: History,
    /// What does the work; replaced by `set_up`.
    pub core: Option<C>,
    stale: Option<Stale>,
    seconds_setup: f64,
    seconds_solve: f64,
    /// What is wrong in the environment was logged.
    complained: bool,
    process: u32,
}

/// Options to come.
struct Changed {
    options: Options,
    /// Where it is not the one in use.
    log: Option<Log>,
    complaints: Vec<String>,
}

impl<C: Core> Base<C> {
    /// Defaults, before anything is set.
    pub fn new(words: &'static Words) -> Self {
        Self {
            words,
            options: Options::new(words.family),
            log: Log::default(),
            monitor: None,
            monitor_user: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            history: History::default(),
            core: None,
            stale: Some(Stale::New),
            seconds_setup: 0.0,
            seconds_solve: 0.0,
            complained: false,
            process: std::process::id(),
        }
    }

    /// Options after `change`, with `RRBSOLVER_OPTIONS` applied on top, so that it wins; for the handle to take over
    /// when it has made what they need. `check` sees what the program asked for. Their log is opened.
    fn changed(
        &self,
        change: impl FnOnce(&mut Options) -> Result<()>,
        check: impl FnOnce(&Options) -> Result<()>,
    ) -> Result<Changed> {
        let mut next = self.options.clone();
        change(&mut next)?;
        check(&next)?;
        let mut log = self.open_log(&next)?;
        let mut complaints = environment::complaints();
        if let Some(text) = environment::options()? {
            let own = next.clone();
            let mut refused = None;
            let mut complain = |e: &Error| match e {
                Error::NoMemory(memory) => refused = Some(*memory),
                e => complaints.push(format!("RRBSOLVER_OPTIONS: {e}")),
            };
            next.set_text_leniently(&text, &mut complain);
            if next.log() != own.log() {
                match self.open_log(&next) {
                    Ok(opened) => log = opened,
                    Err(e) => {
                        complain(&e);
                        next.take_log(&own);
                    }
                }
            }
            if let Some(memory) = refused {
                return Err(Error::NoMemory(memory));
            }
        }
        Ok(Changed { options: next, log, complaints })
    }

    /// Options, their log, and complaints to it.
    fn take(&mut self, changed: Changed) {
        self.options = changed.options;
        if let Some(log) = changed.log {
            self.log = log;
        }
        // Once a handle, though the environment is read at every change.
        if !std::mem::replace(&mut self.complained, true) {
            for complaint in changed.complaints {
                self.log.line(0, format_args!("{complaint}"));
            }
        }
    }

    /// The log of `options`, where it is not the one in use.
    fn open_log(&self, options: &Options) -> Result<Option<Log>> {
        if options.log() == self.options.log() { Ok(None) } else { Log::open(options.log()).map(Some) }
    }

    /// Whether this is the process that made the handle: the threads of its team are not there after a fork.
    pub fn in_their_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        if self.in_their_process() {
            return Ok(());
        }
        let sentence = "the handle was created before a fork: create a new one in the child process";
        Err(Error::Unsupported(formatted(sentence, MESSAGE)?))
    }

    /// The monitor of calls to come.
    pub fn set_monitor(&mut self, callback: rrb_monitor_fn, user: *mut c_void) {
        (self.monitor, self.monitor_user) = (callback, user);
    }

    fn state_error(&self, stale: Stale) -> Error {
        let Words { setup, at, .. } = self.words;
        Error::State(match stale {
            Stale::New => format!("{setup} must come before this call"),
            Stale::Failed => format!("the last {setup} failed: it must succeed before this call"),
            Stale::Changed => {
                format!("an option that acts at {at} has changed: {setup} must come before this call")
            }
            Stale::Given(what) => format!("{what} were set after the last {setup}: {setup} must come before this call"),
        })
    }

    /// Whether the core is that of the options.
    pub fn is_fresh(&self) -> bool {
        self.stale.is_none()
    }

    /// An error where the core is not that of the options.
    pub fn check_fresh(&self) -> Result<()> {
        self.stale.map_or(Ok(()), |stale| Err(self.state_error(stale)))
    }

    /// A call that makes a core begins: until it succeeds there is none.
    pub fn begin_setup(&mut self) {
        self.stale = Some(Stale::Failed);
    }

    /// The caller gave something that acts when a core is made.
    pub fn given(&mut self, what: &'static str) {
        if self.is_fresh() {
            self.stale = Some(Stale::Given(what));
        }
    }

    /// Something was made that results tell the time of.
    pub fn end_setup(&mut self, taken: Duration) {
        self.seconds_setup = taken.as_secs_f64();
    }

    /// Makes a core of the one before, by the clock.
    pub fn set_up(&mut self, make: impl FnOnce(&mut Self, Option<C>) -> Result<C>) -> Result<()> {
        let start = Instant::now();
        let previous = self.core.take();
        self.core = Some(make(self, previous)?);
        self.stale = None;
        self.end_setup(start.elapsed());
        Ok(())
    }

    /// An error where the core cannot work on the caller's stream.
    pub fn check_stream(&mut self) -> Result<()> {
        let stream = self.stream as usize;
        self.core.as_mut().map_or(Ok(()), |core| core.use_stream(stream))
    }

    /// Runs the core on the caller's stream, with history, log and monitor.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<T>) -> Result<T> {
        let Some(core) = &mut self.core else { return Err(self.state_error(Stale::New)) };
        core.use_stream(self.stream as usize)?;
        let mut watch = Watch {
            words: self.words,
            monitor: self.monitor,
            user: self.monitor_user,
            history: &mut self.history,
            log: &mut self.log,
            verbosity: self.options.int(opt::VERBOSITY),
            failed: None,
        };
        let result = work(core, &self.options, &mut watch);
        watch.failed.map_or(result, Err)
    }

    /// The call that a handle is there for begins.
    pub fn begin_solve(&mut self) -> Instant {
        self.history.clear();
        Instant::now()
    }

    /// It ends.
    pub fn end_solve(&mut self, start: Instant) {
        self.seconds_solve = start.elapsed().as_secs_f64();
    }

    /// A line about it, from `verbosity=1` on; its time comes last.
    pub fn log_solve(&mut self, text: std::fmt::Arguments) {
        if self.options.int(opt::VERBOSITY) >= 1 {
            self.log.line(1, format_args!("{}: {text}, {:.3} ms", self.words.name, 1e3 * self.seconds_solve));
        }
    }

    /// Whether somebody may stop a solve.
    pub fn has_monitor(&self) -> bool {
        self.monitor.is_some()
    }

    /// Whether residuals are told to somebody.
    pub fn watched(&self) -> bool {
        self.monitor.is_some() || self.options.int(opt::VERBOSITY) >= 2
    }
}

/// A handle of a family.
pub trait Handle {
    type Core: Core;
    fn base(&self) -> &Base<Self::Core>;
    fn base_mut(&mut self) -> &mut Base<Self::Core>;

    /// Whether the program may ask for these options.
    fn check(&self, _asked: &Options) -> Result<()> {
        Ok(())
    }

    /// Makes what new options need; `fresh`: the core is that of the new ones, too.
    fn prepare(&mut self, next: &Options, fresh: bool) -> Result<()>;

    /// The caller's stream for calls to come.
    fn set_stream(&mut self, stream: *mut c_void) -> Result<()> {
        self.base_mut().stream = stream;
        Ok(())
    }

    /// The monitor of calls to come.
    fn set_monitor(&mut self, callback: rrb_monitor_fn, user: *mut c_void) -> Result<()> {
        self.base_mut().set_monitor(callback, user);
        Ok(())
    }

    /// Bytes beside those of the core.
    fn bytes(&self) -> usize {
        0
    }

    /// The same on devices.
    fn device_bytes(&self) -> usize {
        0
    }

    /// A result that its family alone knows; whole numbers fit a double here.
    fn own_result(&self, entry: &ResultEntry) -> Result<f64>;

    /// Changes options.
    fn set(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        let changed = self.base().changed(change, |asked| self.check(asked))?;
        let same = changed.options.same_setup(&self.base().options);
        self.prepare(&changed.options, same && self.base().is_fresh())?;
        let base = self.base_mut();
        if !same && base.is_fresh() {
            base.stale = Some(Stale::Changed);
        }
        base.take(changed);
        Ok(())
    }

    /// A result with its value, if it is known.
    fn result(&self, key: i32) -> Option<(&'static ResultEntry, Result<f64>)> {
        let base = self.base();
        let entry = ResultEntry::find(base.words.family, key)?;
        let of_core = |get: &dyn Fn(&Self::Core) -> f64| base.core.as_ref().map_or(0.0, get);
        let value = match key {
            info::SECONDS_SETUP => base.seconds_setup,
            info::SECONDS_SOLVE => base.seconds_solve,
            info::SECONDS_TRANSFER => of_core(&Core::seconds_transfer),
            info::BYTES_HOST => of_core(&|c| c.bytes() as f64) + self.bytes() as f64,
            info::BYTES_DEVICE => of_core(&|c| c.device_bytes() as f64) + self.device_bytes() as f64,
            info::BACKEND => of_core(&|c| c.machine().backend.number() as f64),
            info::DEVICE => f64::from(base.core.as_ref().and_then(Core::device).unwrap_or(-1)),
            info::THREADS => of_core(&|c| c.threads() as f64),
            info::CUDA_KERNELS => f64::from(u8::from(HAS_KERNELS)),
            _ => return Some((entry, self.own_result(entry))),
        };
        Some((entry, Ok(value)))
    }
}

/// The body of an entry point on a handle.
///
/// # Safety
/// `h` must be NULL or a live handle of this thread.
pub unsafe fn with<H: Handle>(h: *mut H, body: impl FnOnce(&mut H) -> Result<i32>) -> rrb_status {
    entry(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { h.as_mut() }.ok_or(Error::Null("handle".into()))?;
        h.base().check_process()?;
        body(h)
    })
}

/// The same for calls whose only good end is `RRB_OK`.
///
/// # Safety
/// As for `with`.
pub unsafe fn with_ok<H: Handle>(h: *mut H, body: impl FnOnce(&mut H) -> Result<()>) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { with(h, |h| body(h).map(|()| RRB_OK)) }
}

/// The same for calls that change nothing: they share the handle, and none of them claims it for itself.
///
/// # Safety
/// As for `with`.
pub unsafe fn with_ref<H: Handle>(h: *const H, body: impl FnOnce(&H) -> Result<()>) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { h.as_ref() }.ok_or(Error::Null("handle".into()))?;
        h.base().check_process()?;
        body(h)
    })
}

/// A value that is read.
///
/// # Safety
/// As for `with`; `value` must be NULL or point to a `T`.
pub unsafe fn get<H: Handle, T>(h: *const H, value: *mut T, of: impl FnOnce(&H) -> Result<T>) -> rrb_status {
    let read = |h: &H| {
        if value.is_null() {
            return Err(Error::Null("value".into()));
        }
        let found = of(h)?;
        // SAFETY: not NULL, and the caller gave a T.
        unsafe { *value = found };
        Ok(())
    };
    // SAFETY: as our caller promised.
    unsafe { with_ref(h, read) }
}

/// Hands a new handle to the caller.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
pub unsafe fn create<H>(out: *mut *mut H, make: impl FnOnce() -> Result<H>) -> rrb_status {
    entry_ok(|| {
        // A collective `make` tells the other ranks, too.
        let made = make();
        if out.is_null() {
            return Err(Error::Null("out".into()));
        }
        let handle = boxed(made?, "a handle")?;
        // SAFETY: not NULL, and the caller gave a pointer.
        unsafe { *out = Box::into_raw(handle) };
        Ok(())
    })
}

/// A key that is read only.
pub fn settable<H: Handle>(h: &H, key: i32) -> Result<()> {
    match h.result(key) {
        Some((result, _)) => Err(Error::Option(format!("{} is a result and cannot be set", result.name))),
        None => Ok(()),
    }
}
