//! The handle of all families, and functions that run the body of an entry point on a handle.
//!
//! A handle contains the options (those of the environment take precedence), log, monitor, history, stream, times and
//! results. Its solver object (`core`) contains the matrix and the backend; it is created by the setup call,
//! `factorize` or `smoother_set_patches`. The handle also records whether the setup call must be repeated, and which
//! process created the handle.

use crate::abi::guard::{entry, entry_ok, store_message};
use crate::abi::log::Log;
use crate::abi::messages;
use crate::abi::messages::Staleness;
use crate::abi::shape::Shape;
use crate::abi::watch::Watch;
use crate::abi::{environment, rrb_monitor_fn, rrb_status};
use crate::base::heap::boxed;
use crate::base::machine::{Core, Machine};
use crate::cuda::driver::HAS_KERNELS;
use crate::error::{Error, RRB_NOT_CONVERGED, RRB_OK, RRB_STOPPED, Result};
use crate::krylov::spectrum::lanczos_extremes;
use crate::options::{self, Choice, Options, ResultEntry, info, opt};
use crate::report::{History, Outcome, StopReason, UnfinishedMessage};
use libc::c_void;
use std::fmt::Arguments;
use std::time::{Duration, Instant};

/// A handle type of the C API: the types and data that a family adds to the common handle.
pub trait Family: Sized {
    const FAMILY: options::Family;
    type Core: Core;
    /// Data of a handle that only this family has.
    type FamilyParts;

    /// Returns the bytes in host memory and on devices that the solver object does not count.
    fn bytes(_family_parts: &Self::FamilyParts) -> [usize; 2] {
        [0, 0]
    }

    /// Returns the value of a result that the solver object does not provide, or `None` for all other results.
    fn result(_handle: &Handle<Self>, _entry: &ResultEntry) -> Result<Option<f64>> {
        Ok(None)
    }
}

/// A handle. In C, a pointer to a handle has the type `F *`.
pub struct Handle<F: Family> {
    pub base: Base<F::Core>,
    pub family_parts: F::FamilyParts,
}

/// The data that handles of all families have.
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
    /// The solver object; `None` before the first setup. `set_up` replaces it.
    pub core: Option<C>,
    /// Why a call that needs the solver object must fail; `None` if the solver object is up to date.
    staleness: Option<Staleness>,
    seconds_setup: f64,
    seconds_solve: f64,
    /// Whether warnings about the environment have been logged.
    has_warned: bool,
    /// Whether a warning about couplings that point out of the grid has been logged.
    pub has_logged_outward_couplings: bool,
    /// Process that created the handle.
    process: u32,
}

/// Capacity of the residual history of `smoother_`, which has no `max_iter`. Reserved when a monitor is set.
const SMOOTHER_HISTORY: usize = 100_000;

/// New options that are not yet in effect.
struct ChangedOptions {
    options: Options,
    /// The new log, if its target has changed.
    log: Option<Log>,
    warnings: Vec<String>,
}

impl<F: Family> Handle<F> {
    /// Creates a handle with the default options and those of the environment.
    pub fn new(shape: Shape, family_parts: F::FamilyParts) -> Result<Self> {
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
            staleness: Some(Staleness::NoSetup),
            seconds_setup: 0.0,
            seconds_solve: 0.0,
            has_warned: false,
            has_logged_outward_couplings: false,
            process: std::process::id(),
        };
        base.set_options(|_| Ok(()))?;
        Ok(Self { base, family_parts })
    }

    /// Returns the table entry and the value of the result `key`, or `None` if the family has no such result.
    pub fn result(&self, key: i32) -> Option<(&'static ResultEntry, Result<f64>)> {
        let entry = ResultEntry::find(F::FAMILY, key)?;
        let value =
            F::result(self, entry).map(|family_result| family_result.unwrap_or_else(|| self.common_result(key)));
        Some((entry, value))
    }

    fn common_result(&self, key: i32) -> f64 {
        let Base { outcome, history, .. } = &self.base;
        let core_value = |get: &dyn Fn(&F::Core) -> f64| self.base.core.as_ref().map_or(0.0, get);
        let bytes = |k: usize| core_value(&|c| (c.engine().bytes()[k]) as f64) + F::bytes(&self.family_parts)[k] as f64;
        let eigenvalue_bounds = || lanczos_extremes(history.coefficients()).unwrap_or((0.0, 0.0));
        match key {
            info::SECONDS_SETUP => self.base.seconds_setup,
            info::SECONDS_SOLVE => self.base.seconds_solve,
            info::SECONDS_TRANSFER => core_value(&|c| c.engine().seconds_transfer()),
            info::BYTES_HOST => bytes(0) + core_value(&|c| c.other_host_bytes() as f64),
            info::BYTES_DEVICE => bytes(1),
            info::BACKEND => core_value(&|c| c.machine().backend.number() as f64),
            info::DEVICE => self.base.machine().device as f64,
            info::THREADS => core_value(&|c| c.engine().threads() as f64),
            info::CUDA_KERNELS => f64::from(u8::from(HAS_KERNELS)),
            info::ITERATIONS => outcome.iterations as f64,
            info::STOP_REASON => outcome.reason.number() as f64,
            info::INITIAL_RESIDUAL => outcome.initial_residual,
            info::FINAL_RESIDUAL => outcome.final_residual,
            info::LAMBDA_MIN => eigenvalue_bounds().0,
            info::LAMBDA_MAX => eigenvalue_bounds().1,
            _ => core_value(&|c| c.result(key)),
        }
    }
}

impl<C: Core> Base<C> {
    /// Changes options. Options that take effect immediately are applied to the solver object if it is up to date. A
    /// change of an option that acts at the setup makes the solver object stale. After an error, all options are
    /// unchanged.
    pub fn set_options(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()> {
        let changed = self.validate_change(change)?;
        let has_same_setup = changed.options.same_setup(&self.options);
        if self.family != options::Family::Smoother {
            self.history.reserve(changed.options.int(opt::MAX_ITER) as usize)?;
        }
        if let (Some(core), None, true) = (&mut self.core, self.staleness, has_same_setup) {
            core.apply_options(&changed.options)?;
        }
        if !has_same_setup && self.staleness.is_none() {
            self.staleness = Some(Staleness::OptionChanged);
        }
        self.adopt(changed);
        Ok(())
    }

    /// Returns the options after `change`, with `RRBSOLVER_OPTIONS` applied last so that it takes precedence.
    ///
    /// Checks the options that the program has set, and opens the log that they name. Invalid entries of
    /// `RRBSOLVER_OPTIONS` become warnings. `adopt` stores the new options after all allocations that they need have
    /// succeeded.
    fn validate_change(&self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<ChangedOptions> {
        let mut new_options = self.options.clone();
        change(&mut new_options)?;
        self.shape.check_layout(&new_options)?;
        let mut log = self.open_log(&new_options)?;
        let mut warnings = environment::all_warnings()?;
        if let Some(text) = environment::options()? {
            let program_options = new_options.clone();
            let mut report_error = |e: Error| match e {
                Error::NoMemory(_) => Err(e),
                e => environment::push_warning(&mut warnings, format_args!("RRBSOLVER_OPTIONS: {e}")),
            };
            new_options.set_text_leniently(&text, &mut report_error)?;
            if new_options.log() != program_options.log() {
                match self.open_log(&new_options) {
                    Ok(opened) => log = opened,
                    Err(e) => {
                        report_error(e)?;
                        new_options.copy_log_target(&program_options);
                    }
                }
            }
        }
        Ok(ChangedOptions { options: new_options, log, warnings })
    }

    /// Stores the new options and their log, and logs the warnings.
    fn adopt(&mut self, changed: ChangedOptions) {
        self.options = changed.options;
        if let Some(log) = changed.log {
            self.log = log;
        }
        // The environment is read at every change of an option, but the warnings about it are logged once per handle.
        if !std::mem::replace(&mut self.has_warned, true) {
            for warning in changed.warnings {
                self.log.write_line(0, format_args!("{warning}"));
            }
        }
    }

    /// Opens the log target of `options`, if it differs from the target in use.
    fn open_log(&self, options: &Options) -> Result<Option<Log>> {
        if options.log() == self.options.log() { Ok(None) } else { Log::open(options.log()).map(Some) }
    }

    /// Returns whether this process created the handle. After a fork, the threads of the handle do not exist in the
    /// child process.
    pub fn is_in_creating_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn check_process(&self) -> Result<()> {
        if self.is_in_creating_process() { Ok(()) } else { Err(messages::forked_handle()) }
    }

    /// Sets the monitor of later calls.
    pub fn set_monitor(&mut self, callback: rrb_monitor_fn, user: *mut c_void) -> Result<()> {
        if self.family == options::Family::Smoother {
            self.history.reserve_residuals(SMOOTHER_HISTORY)?;
        }
        (self.monitor, self.monitor_user) = (callback, user);
        Ok(())
    }

    /// Sets the caller's stream for later calls. This function checks the stream only in `smoother_`, and only if the
    /// patches are up to date. In all other cases, the next call that computes reports an invalid stream.
    pub fn set_stream(&mut self, stream: *mut c_void) -> Result<()> {
        let is_current = self.staleness.is_none();
        if let (Some(core), options::Family::Smoother) = (&mut self.core, self.family) {
            // If the patches are stale, the stream is not used yet, because `smoother_set_patches` may select another
            // device.
            core.engine_mut().use_stream(if is_current { stream as usize } else { 0 })?;
        }
        self.stream = stream;
        Ok(())
    }

    /// Returns an error if there is no solver object, or if options or data have changed since it was created.
    pub fn check_current(&self) -> Result<()> {
        self.staleness.map_or(Ok(()), |reason| Err(messages::stale(self.family, reason)))
    }

    /// Begins a setup call. Until this call succeeds, calls that need the solver object fail.
    pub fn begin_setup(&mut self) {
        self.staleness = Some(Staleness::SetupFailed);
    }

    /// Marks the solver object as stale: the caller has set the data `data_name`, which take effect at the next setup.
    pub fn mark_data_set(&mut self, data_name: &'static str) {
        self.staleness.get_or_insert(Staleness::DataSet(data_name));
    }

    /// Stores the setup time, for the result `seconds_setup`.
    pub fn end_setup(&mut self, duration: Duration) {
        self.seconds_setup = duration.as_secs_f64();
    }

    /// Creates a solver object from the previous one with `create_core`, and measures the time. If `create_core` fails,
    /// the handle has no solver object.
    pub fn set_up(&mut self, create_core: impl FnOnce(&mut Self, Option<C>) -> Result<C>) -> Result<()> {
        let start = Instant::now();
        let previous_core = self.core.take();
        self.core = Some(create_core(self, previous_core)?);
        self.staleness = None;
        self.end_setup(start.elapsed());
        Ok(())
    }

    /// Returns the number of threads that the handle may use.
    pub fn threads(&self) -> usize {
        environment::threads(self.options.int(opt::THREADS) as usize)
    }

    /// Returns the resources that the solver object uses, or `Machine::HOST` if there is no solver object.
    pub fn machine(&self) -> Machine {
        self.core.as_ref().map_or(Machine::HOST, Core::machine)
    }

    /// Makes the solver object use the caller's stream. Returns an error if this is impossible.
    pub fn check_stream(&mut self) -> Result<()> {
        let stream = self.stream as usize;
        self.core.as_mut().map_or(Ok(()), |core| core.engine_mut().use_stream(stream))
    }

    /// Calls `work` with the solver object, on the caller's stream, and with an observer that passes events to history,
    /// log and monitor. If a callback panics, returns an error about the panic instead of the result of `work`.
    pub fn run<T>(&mut self, work: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<T>) -> Result<T> {
        self.check_stream()?;
        let Some(core) = &mut self.core else { return Err(messages::stale(self.family, Staleness::NoSetup)) };
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

    /// Stores the time since `start`, for the result `seconds_solve`.
    pub fn end_solve(&mut self, start: Instant) {
        self.seconds_solve = start.elapsed().as_secs_f64();
    }

    /// With `verbosity=1` or higher, logs `text` and the time of the last solve or smoother call.
    pub fn log_solve(&mut self, text: Arguments) {
        let milliseconds = 1e3 * self.seconds_solve;
        self.log_line(1, format_args!("{text}, {milliseconds:.3} ms"));
    }

    /// If `verbosity` is at least `level`, logs a line that begins with the name of the family. Warnings have level 0
    /// and are always logged.
    pub fn log_line(&mut self, level: i32, text: Arguments) {
        if self.options.int(opt::VERBOSITY) >= level.into() {
            self.log.write_line(level, format_args!("{}: {text}", self.family.name()));
        }
    }

    /// Solves with `solve_core`, see `run`. Stores outcome and time, and the message if the solve did not converge.
    /// Returns the status.
    pub fn solve(&mut self, solve_core: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<Outcome>) -> Result<i32> {
        let start = self.begin_solve();
        let result = self.run(solve_core);
        self.end_solve(start);
        if let Err(Error::Breakdown { iteration, .. } | Error::Indefinite { iteration, .. }) = result {
            self.outcome = Outcome { iterations: iteration, reason: StopReason::Breakdown, ..Outcome::default() };
        }
        let outcome = result?;
        self.outcome = outcome;
        if let Some(core) = &self.core {
            let (shape, backend, [format, method]) = (self.shape, core.machine().backend.name(), core.names_in_use());
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
        store_message(UnfinishedMessage::new(outcome, rel_tol, abs_tol));
        Ok(status)
    }

    /// Returns whether a monitor is set, which may stop a solve.
    pub fn has_monitor(&self) -> bool {
        self.monitor.is_some()
    }

    /// Returns whether residuals are reported to a monitor or to the log.
    pub fn reports_residuals(&self) -> bool {
        self.monitor.is_some() || self.options.int(opt::VERBOSITY) >= 2
    }
}

/// Runs the body of an entry point on a handle.
///
/// # Safety
/// `h` must be NULL or a live handle that no other thread uses.
pub unsafe fn with_handle<F: Family>(h: *mut F, body: impl FnOnce(&mut Handle<F>) -> Result<i32>) -> rrb_status {
    entry(|| {
        // SAFETY: guaranteed by the caller; `create` made the pointer from a `Handle<F>`.
        let h = unsafe { h.cast::<Handle<F>>().as_mut() }.ok_or(Error::Null("handle".into()))?;
        h.base.check_process()?;
        body(h)
    })
}

/// Runs the body of an entry point on a handle. The only status of this entry point without error is `RRB_OK`.
///
/// # Safety
/// As for `with_handle`.
pub unsafe fn with_handle_ok<F: Family>(h: *mut F, body: impl FnOnce(&mut Handle<F>) -> Result<()>) -> rrb_status {
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle(h, |h| body(h).map(|()| RRB_OK)) }
}

/// Runs the body of an entry point that only reads the handle.
///
/// # Safety
/// As for `with_handle`.
pub unsafe fn with_handle_ref<F: Family>(h: *const F, body: impl FnOnce(&Handle<F>) -> Result<()>) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as in `with_handle`.
        let h = unsafe { h.cast::<Handle<F>>().as_ref() }.ok_or(Error::Null("handle".into()))?;
        h.base.check_process()?;
        body(h)
    })
}

/// Stores the value that `read_value` returns in `value`.
///
/// # Safety
/// As for `with_handle`; `value` must be NULL or point to a `T`.
pub unsafe fn get<F: Family, T>(
    h: *const F,
    value: *mut T,
    read_value: impl FnOnce(&Handle<F>) -> Result<T>,
) -> rrb_status {
    let store_value = |h: &Handle<F>| {
        if value.is_null() {
            return Err(Error::Null("value".into()));
        }
        let result = read_value(h)?;
        // SAFETY: not NULL; the caller guarantees a pointer to a T.
        unsafe { *value = result };
        Ok(())
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ref(h, store_value) }
}

/// Creates a handle and stores it in `out`.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
pub unsafe fn create<F: Family>(out: *mut *mut F, create_handle: impl FnOnce() -> Result<Handle<F>>) -> rrb_status {
    entry_ok(|| {
        // `create_handle` runs even if `out` is NULL: the call may be collective, and the other ranks then wait for
        // this rank.
        let creation = create_handle();
        if out.is_null() {
            return Err(Error::Null("out".into()));
        }
        let handle = boxed(creation?, "a handle")?;
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
        let handle_pointer =
            unsafe { h.as_mut() }.map_or(std::ptr::null_mut(), |h| std::mem::replace(h, std::ptr::null_mut()));
        if !handle_pointer.is_null() {
            // SAFETY: `create` made the handle. The caller's pointer is NULL now, so the handle is freed once.
            let handle = unsafe { Box::from_raw(handle_pointer.cast::<Handle<F>>()) };
            if !handle.base.is_in_creating_process() {
                // After a fork, the threads of the handle do not exist in the child process and cannot be joined.
                std::mem::forget(handle);
            }
        }
        Ok(())
    })
}

/// Sets the option `key` with `change`. Returns an error if `key` is the key of a result.
///
/// # Safety
/// As for `with_handle`.
pub unsafe fn set<F: Family>(h: *mut F, key: i32, change: impl FnOnce(&mut Options) -> Result<()>) -> rrb_status {
    let set_option = |h: &mut Handle<F>| match h.result(key) {
        Some((result, _)) => Err(messages::cannot_set_result(result.name)),
        None => h.base.set_options(change),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { with_handle_ok(h, set_option) }
}
