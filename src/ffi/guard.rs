//! Panics stop here, and failing calls leave their sentence for the thread.

use crate::error::{Error, RRB_OK, Result};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static LAST_ERROR: RefCell<Option<Error>> = const { RefCell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PANIC_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the body of an entry point: its status, or that of its error, or `RRB_ERR_INTERNAL` for a panic.
pub fn entry(body: impl FnOnce() -> Result<i32>) -> i32 {
    match quietly(body) {
        Ok(status) => status,
        Err(error) => {
            let status = error.status();
            LAST_ERROR.with(|last| *last.borrow_mut() = Some(error));
            status
        }
    }
}

/// The same for calls whose only good end is `RRB_OK`.
pub fn entry_ok(body: impl FnOnce() -> Result<()>) -> i32 {
    entry(|| body().map(|()| RRB_OK))
}

/// Runs `body`; a panic in it prints nothing and becomes an error.
pub fn quietly<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
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

/// The sentence of this thread's last failing call.
pub fn last_error(base: i64) -> String {
    LAST_ERROR.with(|last| last.borrow().as_ref().map_or_else(String::new, |e| e.sentence(base)))
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
            if INSIDE.get() || crate::backend::is_team_thread() {
                PANIC_PLACE.with(|p| *p.borrow_mut() = information.location().map(ToString::to_string));
            } else {
                previous(information);
            }
        }));
    });
}
