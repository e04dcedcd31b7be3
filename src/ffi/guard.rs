//! Panics stop here, and failing calls leave their sentence for the thread.

use crate::error::{Error, RRB_OK, Refused, Result};
use crate::ffi::line::Line;
use crate::runtime::traps::{Own, as_the_host};
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// The last error where it was one of memory: unlike the other kind, it takes none to be noted or told.
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
    static LAST_ERROR: RefCell<Option<Error>> = const { RefCell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the body of an entry point, with the library's own floating-point mode: its status, or that of its error, or
/// `RRB_ERR_INTERNAL` for a panic.
pub fn entry(body: impl FnOnce() -> Result<i32>) -> i32 {
    let _own = Own::new();
    match quietly(body) {
        Ok(status) => status,
        Err(error) => {
            let status = error.status();
            match error {
                Error::NoMemory(refused) => REFUSED.set(Some(refused)),
                other => {
                    REFUSED.set(None);
                    LAST_ERROR.with(|last| *last.borrow_mut() = Some(other));
                }
            }
            status
        }
    }
}

/// The same for calls whose only good end is `RRB_OK`.
pub fn entry_ok(body: impl FnOnce() -> Result<()>) -> i32 {
    entry(|| body().map(|()| RRB_OK))
}

/// Runs a callback of the host, with its floating-point mode; a panic in it becomes an error.
pub fn callback<T>(body: impl FnOnce() -> T) -> Result<T> {
    quietly(|| Ok(as_the_host(body)))
}

/// Runs `body`; a panic in it prints nothing and becomes an error. Not inlined: arithmetic of the body stays between
/// changes of the floating-point mode.
#[inline(never)]
fn quietly<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    install_hook();
    let outer = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    INSIDE.set(outer);
    result.unwrap_or_else(|payload| {
        let what = payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown panic".to_owned());
        let place = PANIC_PLACE.take().map_or_else(String::new, |p| format!(" at {p}"));
        Err(Error::Internal(format!("panic{place}: {what}")))
    })
}

/// Hands the sentence of this thread's last failing call to `read`.
pub fn last_error<T>(base: i64, read: impl FnOnce(&str) -> T) -> T {
    let _own = Own::new();
    if let Some(refused) = REFUSED.get() {
        let mut line = Line::default();
        // Cut at the buffer's end.
        let _ = write!(line, "{refused}");
        return read(line.text());
    }
    LAST_ERROR.with(|last| {
        let mut last = last.borrow_mut();
        last.iter_mut().for_each(|error| error.set_base(base));
        read(&last.as_ref().map_or_else(String::new, ToString::to_string))
    })
}

/// The default hook would print to the host's stderr. Ours passes every panic outside of our calls on to the
/// hook that was there; in a shared library the hook is that of the library's own copy of std, which the host
/// never sees.
fn install_hook() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |information| {
            // A panic of one of our worker threads carries the mark of its team.
            if INSIDE.get() || crate::runtime::team::is_team_thread() {
                PANIC_PLACE.with(|p| *p.borrow_mut() = information.location().map(ToString::to_string));
            } else {
                previous(information);
            }
        }));
    });
}
