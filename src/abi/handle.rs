//! The handle of all families, and functions that run the body of an entry point on a handle.
//!
//! A handle contains the options (those of the environment take precedence), log, monitor, history, stream, times and
//! results. It also records which call must come first, and the process that created it.

use crate::abi::guard::{entry, entry_ok, store_message};
use crate::abi::log::Log;
use crate::abi::messages;
use crate::abi::messages::Stale;
use crate::abi::shape::Shape;
use crate::abi::watch::Watch;
use crate::abi::{environment, rrb_monitor_fn, rrb_status};
use crate::base::heap::boxed;
use crate::base::machine::{Core, Machine};
use crate::cuda::driver::HAS_KERNELS;
use crate::error::{Error, RRB_NOT_CONVERGED, RRB_OK, RRB_STOPPED, Result};
use crate::krylov::spectrum::lanczos_extremes;
use crate::options::{self, Choice, Options, ResultEntry, info, opt};
use crate::report::{History, Outcome, StopReason, Unfinished};
use libc::c_void;
use std::fmt::Arguments;
use std::time::{Duration, Instant};

/// A handle type of the C API: the parts that a family adds to the common handle.
pub trait Family: Sized {
    const FAMILY: options::Family;
    type Core: Core;
    /// Parts of a handle that only this family has.
    type Own;

    /// Returns the bytes in host memory and on devices that the core does not count.
    fn bytes(_own: &Self::Own) -> [usize; 2] {
        [0, 0]
    }

    /// Returns a result that the core does not provide.
    fn result(_handle: &Handle<Self>, _entry: &ResultEntry) -> Result<Option<f64>> {
        Ok(None)
    }
}

/// A handle. In C, a pointer to a handle has the type `F *`.
pub struct Handle<F: Family> {
    pub base: Base<F::Core>,
    pub own: F::Own,
}

/// The parts that handles of all families have.
pub struct Base<C> {
    pub family: options::Family,
    pub shape: Shape,
    pub options: Options,
    pub log: Log,
    monitor: rrb_monitor_fn,
    monitor_user: *mut c_void,
    pub stream: *mut c_void,
    pub history: History,
    /// Outcome of the last solve.
    pub outcome: Outcome,
    /// The solver. `set_up` replaces it.
    pub core: Option<C>,
    /// Why a call that needs a core must fail; `None` if the core is up to date.
    stale: Option<Stale>,
    seconds_setup: f64,
    seconds_solve: f64,
    /// Whether warnings about the environment have been logged.
    warned: bool,
    /// Whether couplings that point out of the grid have been logged.
    pub outward_logged: bool,
    /// Process that created the handle.
    process: u32,
}

/// Capacity of the residual history of `smoother_`, which has no `max_iter`. Reserved when a monitor is set.
const SMOOTHER_HISTORY: usize = 100_000;

/// New options that are not yet in effect.
struct Changed {
    options: Options,
    /// The new log, if its target has changed.
    log: Option<Log>,
    warnings: Vec<String>,
}

impl<F: Family> Handle<F> {
    /// Creates a handle with the default options and those of the environment.
    pub fn new(shape: Shape, own: F::Own) -> Result<Self> {
        let mut base = Base {
            family: F::FAMILY,
            shape,
            options: Options::new(F::FAMILY),
            log: Log::default(),
            monitor: None,
            monitor_user: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            history: History::default(),
            outcome: Outcome::default(),
            core: None,
            stale: Some(Stale::New),
            seconds_setup: 0.0,
            seconds_solve: 0.0,
            warned: false,
            outward_logged: false,
            process: std::process::id(),
        };
        base.set_options(|_| Ok(()))?;
        Ok(Self { base, own })
    }

    /// Returns a result and its value, if the key is known.
    pub fn result(&self, key: i32) -> Option<(&'static ResultEntry, Result<f64>)> {
        let entry = ResultEntry::find(F::FAMILY, key)?;
        let value = F::result(self, entry).map(|own| own.unwrap_or_else(|| self.common_result(key)));
        Some((entry, value))
    }

    fn common_result(&self, key: i32) -> f64 {
        let Base { outcome, history, .. } = &self.base;
        let of_core = |get: &dyn Fn(&F::Core) -> f64| self.base.core.as_ref().map_or(0.0, get);
        let bytes = |k: usize| of_core(&|c| (c.engine().bytes()[k]) as f64) + F::bytes(&self.own)[k] as f64;
        let extremes = || lanczos_extremes(history.coefficients()).unwrap_or((0.0, 0.0));
        match key {
            info::SECONDS_SETUP => self.base.seconds_setup,
            info::SECONDS_SOLVE => self.base.seconds_solve,
            info::SECONDS_TRANSFER => of_core(&|c| c.engine().seconds_transfer()),
            info::BYTES_HOST => bytes(0) + of_core(&|c| c.own_bytes() as f64),
            info::BYTES_DEVICE => bytes(1),
            info::BACKEND => of_core(&|c| c.machine().backend.number() as f64),
            info::DEVICE => self.base.machine().device as f64,
            info::THREADS => of_core(&|c| c.engine().threads() as f64),
            info::CUDA_KERNELS => f64::from(u8::from(HAS_KERNELS)),
            info::ITERATIONS => outcome.iterations as f64,
            info::STOP_REASON => outcome.reason.number() as f64,
            info::INITIAL_RESIDUAL => outcome.initial_residual,
            info::FINAL_RESIDUAL => outcome.final_residual,
            info::LAMBDA_MIN => extremes().0,
            info::LAMBDA_MAX => extremes().1,
            _ => of_core(&|c| c.result(key)),
        }
    }
}

impl<C: Core> Base<C> {
    /// Changes options. Options that take effect immediately are applied to the core if it is up to date. A change of
    /// an option that acts at the setup makes the core stale. After an error, all options are unchanged.
    pub fn set_options(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        let changed = self.changed(change)?;
        let same = changed.options.same_setup(&self.options);
        if self.family != options::Family::Smoother {
            self.history.reserve(changed.options.int(opt::MAX_ITER) as usize)?;
        }
        if let (Some(core), None, true) = (&mut self.core, self.stale, same) {
            core.prepare(&changed.options)?;
        }
        if !same && self.stale.is_none() {
            self.stale = Some(Stale::Changed);
        }
        self.adopt(changed);
        Ok(())
    }

    /// Returns the options after `change`, with `RRBSOLVER_OPTIONS` applied last so that it takes precedence.
    ///
    /// Checks the options that the program has set, and opens their log. Invalid entries of `RRBSOLVER_OPTIONS` become
    /// warnings. `adopt` stores the new options after all allocations that they need have succeeded.
    fn changed(&self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<Changed> {
        let mut next = self.options.clone();
        change(&mut next)?;
        self.shape.check_layout(&next)?;
        let mut log = self.open_log(&next)?;
        let mut warnings = environment::all_warnings()?;
        if let Some(text) = environment::options()? {
            let own = next.clone();
            let mut complain = |e: Error| match e {
                Error::NoMemory(_) => Err(e),
                e => environment::warn(&mut warnings, format_args!("RRBSOLVER_OPTIONS: {e}")),
            };
            next.set_text_leniently(&text, &mut complain)?;
            if next.log() != own.log() {
                match self.open_log(&next) {
                    Ok(opened) => log = opened,
                    Err(e) => {
                        complain(e)?;
                        next.copy_log_target(&own);
                    }
                }
            }
        }
        Ok(Changed { options: next, log, warnings })
    }

    /// Adopts the options and their log, and logs the warnings.
    fn adopt(&mut self, changed: Changed) {
        self.options = changed.options;
        if let Some(log) = changed.log {
            self.log = log;
        }
        // The environment is read at every change of an option, but its warnings are logged once per handle.
        if !std::mem::replace(&mut self.warned, true) {
            for warning in changed.warnings {
                self.log.line(0, format_args!("{warning}"));
            }
        }
    }

    /// Opens the log of `options`, if its target differs from the one in use.
    fn open_log(&self, options: &Options) -> Result<Option<Log>> {
        if options.log() == self.options.log() { Ok(None) } else { Log::open(options.log()).map(Some) }
    }

    /// Returns whether this process created the handle. The threads of the pool do not exist after a fork.
    pub fn is_in_creating_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        if self.is_in_creating_process() { Ok(()) } else { Err(messages::forked()) }
    }

    /// Sets the monitor of later calls.
    pub fn set_monitor(&mut self, callback: rrb_monitor_fn, user: *mut c_void) -> Result<()> {
        if self.family == options::Family::Smoother {
            self.history.reserve_residuals(SMOOTHER_HISTORY)?;
        }
        (self.monitor, self.monitor_user) = (callback, user);
        Ok(())
    }

    /// Sets the caller's stream for later calls. This call checks the stream only for `smoother_` with current patches.
    /// Otherwise, the next call that computes reports an invalid stream.
    pub fn set_stream(&mut self, stream: *mut c_void) -> Result<()> {
        let fresh = self.stale.is_none();
        if let (Some(core), options::Family::Smoother) = (&mut self.core, self.family) {
            // The stream cannot be used before `smoother_set_patches`, which may select another device.
            core.engine_mut().use_stream(if fresh { stream as usize } else { 0 })?;
        }
        self.stream = stream;
        Ok(())
    }

    /// Returns an error if the core does not exist, or if options or data have changed since it was created.
    pub fn check_fresh(&self) -> Result<()> {
        self.stale.map_or(Ok(()), |stale| Err(messages::stale(self.family, stale)))
    }

    /// Begins a call that creates a core. The handle has no valid core until that call succeeds.
    pub fn begin_setup(&mut self) {
        self.stale = Some(Stale::Failed);
    }

    /// Marks the core as stale: the caller has set `what`, which takes effect at the next setup.
    pub fn mark_set(&mut self, what: &'static str) {
        self.stale.get_or_insert(Stale::Set(what));
    }

    /// Stores the setup time, which a result of the handle reports.
    pub fn end_setup(&mut self, taken: Duration) {
        self.seconds_setup = taken.as_secs_f64();
    }

    /// Creates a core from the previous one, and measures the time. If `make` fails, the handle has no core.
    pub fn set_up(&mut self, make: impl FnOnce(&mut Self, Option<C>) -> Result<C>) -> Result<()> {
        let start = Instant::now();
        let previous = self.core.take();
        self.core = Some(make(self, previous)?);
        self.stale = None;
        self.end_setup(start.elapsed());
        Ok(())
    }

    /// Returns the number of threads that the handle may use.
    pub fn threads(&self) -> usize {
        environment::threads(self.options.int(opt::THREADS) as usize)
    }

    /// Returns the resources that the core uses, or one host thread without a core.
    pub fn machine(&self) -> Machine {
        self.core.as_ref().map_or(Machine::HOST, Core::machine)
    }

    /// Returns an error if the core cannot use the caller's stream.
    pub fn check_stream(&mut self) -> Result<()> {
        let stream = self.stream as usize;
        self.core.as_mut().map_or(Ok(()), |core| core.engine_mut().use_stream(stream))
    }

    /// Runs the core on the caller's stream, with history, log and monitor. If a callback panics, returns this error
    /// instead of the result.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<T>) -> Result<T> {
        self.check_stream()?;
        let Some(core) = &mut self.core else { return Err(messages::stale(self.family, Stale::New)) };
        let mut watch = Watch {
            family: self.family,
            monitor: self.monitor,
            user: self.monitor_user,
            history: &mut self.history,
            log: &mut self.log,
            verbosity: self.options.int(opt::VERBOSITY),
            callback_error: None,
        };
        let result = work(core, &self.options, &mut watch);
        watch.callback_error.map_or(result, Err)
    }

    /// Begins a solve or a smoother call: clears history and outcome, and starts the clock.
    pub fn begin_solve(&mut self) -> Instant {
        self.history.clear();
        self.outcome = Outcome::default();
        Instant::now()
    }

    /// Stores the time of the call.
    pub fn end_solve(&mut self, start: Instant) {
        self.seconds_solve = start.elapsed().as_secs_f64();
    }

    /// Logs a line about the call with its time, from `verbosity=1` on.
    pub fn log_solve(&mut self, text: Arguments) {
        let milliseconds = 1e3 * self.seconds_solve;
        self.log_line(1, format_args!("{text}, {milliseconds:.3} ms"));
    }

    /// Logs a line that begins with the name of the family. Warnings (level 0) do not depend on `verbosity`.
    pub fn log_line(&mut self, level: i32, text: Arguments) {
        if self.options.int(opt::VERBOSITY) >= level.into() {
            self.log.line(level, format_args!("{}: {text}", self.family.name()));
        }
    }

    /// Solves, with history, log and monitor. Stores outcome and time, and the message if the solve did not converge.
    /// Returns the status.
    pub fn solve(&mut self, call: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<Outcome>) -> Result<i32> {
        let start = self.begin_solve();
        let result = self.run(call);
        self.end_solve(start);
        if let Err(Error::Breakdown { iteration, .. } | Error::Indefinite { iteration, .. }) = result {
            self.outcome = Outcome { iterations: iteration, reason: StopReason::Breakdown, ..Outcome::default() };
        }
        let outcome = result?;
        self.outcome = outcome;
        if let Some(core) = &self.core {
            let (shape, backend, [format, method]) = (self.shape, core.machine().backend.name(), core.in_use());
            self.log_solve(format_args!(
                "{shape}, {backend} {format} {method}, {} iterations, relative residual {:.3e} -> {:.3e}",
                outcome.iterations, outcome.initial_residual, outcome.final_residual
            ));
        }
        let status = match outcome.reason {
            StopReason::MaxIter | StopReason::Stagnated | StopReason::Diverged => RRB_NOT_CONVERGED,
            StopReason::Monitor => RRB_STOPPED,
            _ => return Ok(RRB_OK),
        };
        let (rel_tol, abs_tol) = (self.options.real(opt::REL_TOL), self.options.real(opt::ABS_TOL));
        store_message(Unfinished::new(outcome, rel_tol, abs_tol));
        Ok(status)
    }

    /// Returns whether a monitor is set, which may stop a solve.
    pub fn has_monitor(&self) -> bool {
        self.monitor.is_some()
    }

    /// Returns whether residuals are reported to a monitor or to the log.
    pub fn watched(&self) -> bool {
        self.monitor.is_some() || self.options.int(opt::VERBOSITY) >= 2
    }
}

/// Runs the body of an entry point on a handle.
///
/// # Safety
/// `h` must be NULL or a live handle that no other thread uses.
pub unsafe fn with<F: Family>(h: *mut F, body: impl FnOnce(&mut Handle<F>) -> Result<i32>) -> rrb_status {
    entry(|| {
        // SAFETY: guaranteed by the caller; `create` made the pointer from a `Handle<F>`.
        let h = unsafe { h.cast::<Handle<F>>().as_mut() }.ok_or(Error::Null("handle".into()))?;
        h.base.check_process()?;
        body(h)
    })
}

/// Runs the body of an entry point on a handle whose only status without error is `RRB_OK`.
///
/// # Safety
/// As for `with`.
pub unsafe fn with_ok<F: Family>(h: *mut F, body: impl FnOnce(&mut Handle<F>) -> Result<()>) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with(h, |h| body(h).map(|()| RRB_OK)) }
}

/// Runs the body of an entry point that only reads the handle, through a shared reference.
///
/// # Safety
/// As for `with`.
pub unsafe fn with_ref<F: Family>(h: *const F, body: impl FnOnce(&Handle<F>) -> Result<()>) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as in `with`.
        let h = unsafe { h.cast::<Handle<F>>().as_ref() }.ok_or(Error::Null("handle".into()))?;
        h.base.check_process()?;
        body(h)
    })
}

/// Stores a value of the handle in `value`.
///
/// # Safety
/// As for `with`; `value` must be NULL or point to a `T`.
pub unsafe fn get<F: Family, T>(h: *const F, value: *mut T, of: impl FnOnce(&Handle<F>) -> Result<T>) -> rrb_status {
    let read = |h: &Handle<F>| {
        if value.is_null() {
            return Err(Error::Null("value".into()));
        }
        let found = of(h)?;
        // SAFETY: not NULL; the caller guarantees a pointer to a T.
        unsafe { *value = found };
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_ref(h, read) }
}

/// Creates a handle and stores it in `out`.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
pub unsafe fn create<F: Family>(out: *mut *mut F, make: impl FnOnce() -> Result<Handle<F>>) -> rrb_status {
    entry_ok(|| {
        // `make` runs before any return: if it is collective, the other ranks wait for it.
        let made = make();
        if out.is_null() {
            return Err(Error::Null("out".into()));
        }
        let handle = boxed(made?, "a handle")?;
        // SAFETY: not NULL; the caller guarantees a pointer to a pointer.
        unsafe { *out = Box::into_raw(handle).cast() };
        Ok(())
    })
}

/// Frees a handle, and sets the caller's pointer to NULL. After a fork, the child process does not free a handle that
/// its parent created.
///
/// # Safety
/// `h` must be NULL or point to NULL or to a handle that no other thread uses.
pub unsafe fn destroy<F: Family>(h: *mut *mut F) -> rrb_status {
    entry_ok(|| {
        // SAFETY: NULL, or a pointer to a pointer, as the caller guarantees.
        let inner = unsafe { h.as_mut() }.map_or(std::ptr::null_mut(), |h| std::mem::replace(h, std::ptr::null_mut()));
        if !inner.is_null() {
            // SAFETY: `create` made the handle. The caller's pointer is NULL now, so the handle is freed once.
            let handle = unsafe { Box::from_raw(inner.cast::<Handle<F>>()) };
            if !handle.base.is_in_creating_process() {
                // After a fork, the threads of the pool do not exist and cannot be joined.
                std::mem::forget(handle);
            }
        }
        Ok(())
    })
}

/// Sets an option by its key. The key of a result is an error.
///
/// # Safety
/// As for `with`.
pub unsafe fn set<F: Family>(h: *mut F, key: i32, change: impl FnOnce(&mut Options) -> Result<()>) -> rrb_status {
    let set = |h: &mut Handle<F>| match h.result(key) {
        Some((result, _)) => Err(messages::cannot_set_result(result.name)),
        None => h.base.set_options(change),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_ok(h, set) }
}
