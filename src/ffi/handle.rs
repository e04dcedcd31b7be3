//! What handles of all families have: options with those of the environment on top, log, monitor, history, stream, and
//! the process that made them; and the bodies of the entry points about these.

use crate::error::{Error, Result};
use crate::ffi::guard::entry_ok;
use crate::ffi::log::Log;
use crate::ffi::{environment, rrb_monitor_fn, rrb_status};
use crate::options::{Family, Options, ResultEntry};
use crate::report::History;
use crate::runtime::heap::boxed;
use libc::{c_char, c_void};
use std::ffi::CStr;

/// A part of every handle.
pub struct Settings {
    pub options: Options,
    pub log: Log,
    pub monitor: rrb_monitor_fn,
    pub monitor_user: *mut c_void,
    pub stream: *mut c_void,
    pub history: History,
    /// What is wrong in the environment was logged.
    complained: bool,
    process: u32,
}

/// Options to come.
pub struct Changed {
    pub options: Options,
    /// Where it is not the one in use.
    log: Option<Log>,
    complaints: Vec<String>,
}

impl Settings {
    /// Defaults, before anything is set.
    pub fn new(family: Family) -> Self {
        Self {
            options: Options::new(family),
            log: Log::default(),
            monitor: None,
            monitor_user: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            history: History::default(),
            complained: false,
            process: std::process::id(),
        }
    }

    /// Options after `change`, with `RRBSOLVER_OPTIONS` applied on top, so that it wins; for the handle to take over
    /// when it has made what they need. `check` sees what the program asked for. Their log is opened.
    pub fn changed(
        &self,
        change: impl FnOnce(&mut Options) -> Result<()>,
        check: impl FnOnce(&Options) -> Result<()>,
    ) -> Result<Changed> {
        let mut next = self.options.clone();
        change(&mut next)?;
        check(&next)?;
        let mut log = self.open_log(&next)?;
        let mut complaints = environment::complaints();
        if let Some(text) = environment::options() {
            let own = next.clone();
            let mut complain = |e: &Error| complaints.push(format!("RRBSOLVER_OPTIONS: {e}"));
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
        }
        Ok(Changed { options: next, log, complaints })
    }

    /// Options, their log, and complaints to it.
    pub fn take(&mut self, changed: Changed) {
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
}

/// A handle with settings.
pub trait Handle {
    fn settings(&self) -> &Settings;
    /// Changes options.
    fn set(&mut self, change: impl FnOnce(&mut Options) -> Result<()>) -> Result<()>;
    /// A result with its value, if it is known; whole numbers fit a double here.
    fn result(&self, key: i32) -> Option<(&'static ResultEntry, Result<f64>)>;
}

fn check_process<H: Handle>(h: &H) -> Result<()> {
    if h.settings().in_their_process() {
        Ok(())
    } else {
        Err(Error::Unsupported("the handle was made before a fork: make a new one in the child process".to_owned()))
    }
}

/// # Safety
/// `h` must be NULL or a live handle of this thread.
pub unsafe fn checked<'a, H: Handle>(h: *mut H) -> Result<&'a mut H> {
    // SAFETY: as our caller promised.
    let h = unsafe { h.as_mut() }.ok_or(Error::Null("handle".into()))?;
    check_process(h)?;
    Ok(h)
}

/// # Safety
/// As for `checked`.
pub unsafe fn checked_const<'a, H: Handle>(h: *const H) -> Result<&'a H> {
    // SAFETY: as our caller promised.
    let h = unsafe { h.as_ref() }.ok_or(Error::Null("handle".into()))?;
    check_process(h)?;
    Ok(h)
}

/// An array of doubles, whole numbers or pointers, all 8 bytes long: not NULL, and not astray between two values.
pub fn check_array<T>(name: &'static str, array: *const T) -> Result<()> {
    if array.is_null() {
        return Err(Error::Null(name.into()));
    }
    if array.is_aligned() { Ok(()) } else { Err(Error::Alignment(name.into())) }
}

/// Hands a new handle to the caller.
///
/// # Safety
/// `out` must be NULL or point to a pointer.
pub unsafe fn create<H>(out: *mut *mut H, make: impl FnOnce() -> Result<H>) -> rrb_status {
    entry_ok(|| {
        if out.is_null() {
            return Err(Error::Null("out".into()));
        }
        let handle = boxed(make()?, "a handle")?;
        // SAFETY: not NULL, and the caller gave a pointer.
        unsafe { *out = Box::into_raw(handle) };
        Ok(())
    })
}

/// # Safety
/// `h` must be NULL or point to NULL or to a pointer from `create` that no other thread uses.
pub unsafe fn destroy<H: Handle>(h: *mut *mut H) -> rrb_status {
    entry_ok(|| {
        if h.is_null() {
            return Ok(());
        }
        // SAFETY: not NULL; what it points to is NULL or ours, and set to NULL so that it is freed once.
        unsafe {
            let inner = std::mem::replace(&mut *h, std::ptr::null_mut());
            if !inner.is_null() {
                let handle = Box::from_raw(inner);
                if !handle.settings().in_their_process() {
                    // After a fork the threads of the team are not there to be joined.
                    std::mem::forget(handle);
                }
            }
        }
        Ok(())
    })
}

/// # Safety
/// As for `checked`.
pub unsafe fn set_int<H: Handle>(h: *mut H, key: i32, value: i64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        settable(h, key)?;
        h.set(|o| o.set_int(key, value))
    })
}

/// A key that is read only.
fn settable<H: Handle>(h: &H, key: i32) -> Result<()> {
    match h.result(key) {
        Some((result, _)) => Err(Error::Option(format!("{} is a result: it cannot be set", result.name))),
        None => Ok(()),
    }
}

/// # Safety
/// As for `checked`.
pub unsafe fn set_real<H: Handle>(h: *mut H, key: i32, value: f64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        settable(h, key)?;
        h.set(|o| o.set_real(key, value))
    })
}

/// # Safety
/// As for `checked`; `text` must be NULL or end with NUL.
pub unsafe fn set_options<H: Handle>(h: *mut H, text: *const c_char) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked(h)? };
        if text.is_null() {
            return Err(Error::Null("text".into()));
        }
        // SAFETY: not NULL, and the caller promised NUL at the end.
        let text = unsafe { CStr::from_ptr(text) };
        // A path with other bytes in place of its own would be another path.
        let wrong = |_| Error::range("text", format!("'{}'", text.to_string_lossy()), "be UTF-8");
        let text = text.to_str().map_err(wrong)?;
        h.set(|o| o.set_text(text))
    })
}

/// # Safety
/// As for `checked`; `value` must be NULL or point to an `int64_t`.
pub unsafe fn get_int<H: Handle>(h: *const H, key: i32, value: *mut i64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe {
        get(h, value, |h| match h.result(key) {
            Some((r, _)) if r.real => Err(Error::Option(format!("{} is real: use get_real", r.name))),
            Some((_, v)) => v.map(|v| v as i64),
            None => h.settings().options.get_int(key),
        })
    }
}

/// # Safety
/// As for `checked`; `value` must be NULL or point to a `double`.
pub unsafe fn get_real<H: Handle>(h: *const H, key: i32, value: *mut f64) -> rrb_status {
    // SAFETY: as our caller promised.
    unsafe { get(h, value, |h| h.result(key).map_or_else(|| h.settings().options.get_real(key), |(_, v)| v)) }
}

/// # Safety
/// As for `checked`; `value` must be NULL or point to a `T`.
unsafe fn get<H: Handle, T>(h: *const H, value: *mut T, of: impl FnOnce(&H) -> Result<T>) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked_const(h)? };
        if value.is_null() {
            return Err(Error::Null("value".into()));
        }
        let found = of(h)?;
        // SAFETY: not NULL, and the caller gave a T.
        unsafe { *value = found };
        Ok(())
    })
}

/// # Safety
/// As for `checked`; `residuals` must have room for `capacity` values; `count` must be NULL or point to an `int64_t`.
pub unsafe fn get_history<H: Handle>(h: *const H, residuals: *mut f64, capacity: i64, count: *mut i64) -> rrb_status {
    entry_ok(|| {
        // SAFETY: as our caller promised.
        let h = unsafe { checked_const(h)? };
        if count.is_null() {
            return Err(Error::Null("count".into()));
        }
        if capacity < 0 {
            return Err(Error::range("capacity", capacity, "be >= 0"));
        }
        if capacity > 0 {
            check_array("residuals", residuals)?;
        }
        let kept = h.settings().history.residuals();
        let n = kept.len().min(capacity as usize);
        // SAFETY: neither is NULL where written, n <= capacity, and the caller gave that much room.
        unsafe {
            if n > 0 {
                std::ptr::copy_nonoverlapping(kept.as_ptr(), residuals, n);
            }
            *count = kept.len() as i64;
        }
        Ok(())
    })
}
