//! Wrapper of all entry points. It catches panics, and stores the message of a call that does not return `RRB_OK`.

use crate::abi::line::Line;
use crate::base::file::MAX_PATH_BYTES;
use crate::base::traps::{LibraryStateGuard, in_host_state};
use crate::error::{Error, RRB_OK, Result};
use std::cell::{Cell, RefCell};
use std::fmt::{Display, Write as _};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::{Once, OnceLock};

/// Size of the message buffer in bytes: enough for two paths and a description.
const MESSAGE_BYTES: usize = 2 * MAX_PATH_BYTES + 1024;

thread_local! {
    /// Message of the last call that did not return `RRB_OK`; empty if `LAST_ERROR` contains this message. The buffer
    /// has a fixed size, because the first use of a thread-local value with a destructor allocates memory and ends the
    /// process on failure.
    static MESSAGE: RefCell<Line<MESSAGE_BYTES>> = const { RefCell::new(Line::new()) };
    /// The last error, if its message contains an index. The caller of `last_error` selects the base of the index (0 or
    /// 1).
    static LAST_ERROR: RefCell<Option<Error>> = const { RefCell::new(None) };
    /// Whether this thread runs `catch_panics`.
    static IS_IN_LIBRARY: Cell<bool> = const { Cell::new(false) };
    /// Source location of the last panic on this thread.
    static PANIC_LOCATION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the body of an entry point in the library's floating-point mode.
///
/// Returns the status of the body or of its error, or `RRB_ERR_INTERNAL` after a panic. Stores the message of the
/// error.
pub fn entry(body: impl FnOnce() -> Result<i32>) -> i32 {
    let _library_state = LibraryStateGuard::new();
    match catch_panics(body) {
        Ok(status) => status,
        Err(error) => {
            let status = error.status();
            if error.has_index() {
                store_message("");
                LAST_ERROR.set(Some(error));
            } else {
                store_message(error);
            }
            status
        }
    }
}

/// Runs the body of an entry point whose only status without error is `RRB_OK`.
pub fn entry_ok(body: impl FnOnce() -> Result<()>) -> i32 {
    entry(|| body().map(|()| RRB_OK))
}

/// Runs a callback of the host in the host's floating-point mode. A panic in the callback becomes an error.
pub fn callback<T>(body: impl FnOnce() -> T) -> Result<T> {
    catch_panics(|| Ok(in_host_state(body)))
}

/// Runs `body`. A panic in `body` prints nothing and becomes an error.
///
/// Not inlined, so that the compiler cannot move arithmetic of `body` across changes of the floating-point mode.
#[inline(never)]
fn catch_panics<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    install_hook();
    let was_in_library = IS_IN_LIBRARY.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    IS_IN_LIBRARY.set(was_in_library);
    result.unwrap_or_else(|payload| {
        let panic_text = payload
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "unknown panic".to_owned());
        let location = PANIC_LOCATION.take().map_or_else(String::new, |p| format!(" at {p}"));
        Err(Error::Internal(format!("panic{location}: {panic_text}")))
    })
}

/// Stores the message of a call that does not return `RRB_OK`, truncated to the buffer.
pub fn store_message(message: impl Display) {
    MESSAGE.with_borrow_mut(|line| {
        *line = Line::new();
        let _ = write!(line, "{message}");
    });
}

/// Calls `read` with the message of this thread's last call that did not return `RRB_OK`. Indices in the message count
/// from `base`.
pub fn last_error<T>(base: i64, read: impl FnOnce(&str) -> T) -> T {
    let _library_state = LibraryStateGuard::new();
    MESSAGE.with_borrow(|message| match message.text() {
        "" => LAST_ERROR.with_borrow_mut(|last_error| {
            last_error.iter_mut().for_each(|error| error.set_base(base));
            read(&last_error.as_ref().map_or_else(String::new, ToString::to_string))
        }),
        text => read(text),
    })
}

/// Installs a panic hook, because the default hook would print to the host's stderr.
///
/// The hook forwards panics outside of library calls to the previous hook. In a shared library, the hook belongs to the
/// library's own copy of std and is invisible to the host.
fn install_hook() {
    type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Send + Sync>;
    static PREVIOUS_HOOK: OnceLock<Hook> = OnceLock::new();
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let _ = PREVIOUS_HOOK.set(std::panic::take_hook());
        // The closure captures nothing, so its box allocates no memory. A failed allocation could not be reported here.
        std::panic::set_hook(Box::new(|information| {
            // `IS_IN_LIBRARY` is set only on the calling thread. `is_team_thread` identifies the other threads of the
            // library.
            if IS_IN_LIBRARY.get() || crate::base::team::is_team_thread() {
                PANIC_LOCATION.with(|p| *p.borrow_mut() = information.location().map(ToString::to_string));
            } else if let Some(previous) = PREVIOUS_HOOK.get() {
                previous(information);
            }
        }));
    });
}
