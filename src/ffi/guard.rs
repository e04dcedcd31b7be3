//! Panics stop here, and calls that do not return `RRB_OK` leave their message for the thread.

use crate::error::{Error, RRB_OK, Result};
use crate::ffi::line::Line;
use crate::runtime::file::LONGEST_PATH;
use crate::runtime::traps::{Own, as_the_host};
use std::cell::{Cell, RefCell};
use std::fmt::{Display, Write as _};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Once, OnceLock};

/// Bytes of a message: the names of two files, and what is wrong with them.
const LONGEST: usize = 2 * LONGEST_PATH + 1024;

thread_local! {
    /// The last message, unless it has an index. Storing it allocates no memory: the first use of a thread-local value
    /// with a destructor does, and ends the process if it fails.
    static MESSAGE: RefCell<Line<LONGEST>> = const { RefCell::new(Line::new()) };
    /// The error of the last message if it has an index, which depends on how the reader counts.
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
            if error.has_index() {
                note("");
                LAST_ERROR.set(Some(error));
            } else {
                note(error);
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

/// Stores the message of a call that does not return `RRB_OK`, cut at the buffer's end.
pub fn note(message: impl Display) {
    MESSAGE.with_borrow_mut(|line| {
        *line = Line::new();
        let _ = write!(line, "{message}");
    });
}

/// Passes the message of this thread's last call that did not return `RRB_OK` to `read`.
pub fn last_error<T>(base: i64, read: impl FnOnce(&str) -> T) -> T {
    let _own = Own::new();
    MESSAGE.with_borrow(|message| match message.text() {
        "" => LAST_ERROR.with_borrow_mut(|last| {
            last.iter_mut().for_each(|error| error.set_base(base));
            read(&last.as_ref().map_or_else(String::new, ToString::to_string))
        }),
        text => read(text),
    })
}

/// The default hook would print to the host's stderr. Ours passes every panic outside of our calls on to the
/// hook that was there; in a shared library the hook is that of the library's own copy of std, which the host
/// never sees.
fn install_hook() {
    type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;
    static PREVIOUS: OnceLock<Hook> = OnceLock::new();
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let _ = PREVIOUS.set(std::panic::take_hook());
        // The closure captures nothing, so that its box takes no memory, which could not be refused.
        std::panic::set_hook(Box::new(|information| {
            // A panic of one of our worker threads carries the mark of its team.
            if INSIDE.get() || crate::runtime::team::is_team_thread() {
                PANIC_PLACE.with(|p| *p.borrow_mut() = information.location().map(ToString::to_string));
            } else if let Some(previous) = PREVIOUS.get() {
                previous(information);
            }
        }));
    });
}
