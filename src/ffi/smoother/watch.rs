//! Ghost function, monitor, history and log of a call.

use crate::backend::steps::smoother::Watcher;
use crate::error::{Error, Result};
use crate::ffi::guard::callback;
use crate::ffi::log::Log;
use crate::ffi::{rrb_monitor_fn, smoother_ghost_fn};
use crate::report::History;
use libc::c_void;

/// Ghost function, monitor, history and log of one call.
pub struct Watch<'a> {
    pub ghost_fill: smoother_ghost_fn,
    pub ghost_user: *mut c_void,
    pub monitor: rrb_monitor_fn,
    pub monitor_user: *mut c_void,
    pub history: &'a mut History,
    pub log: &'a mut Log,
    pub verbosity: i64,
    pub failed: Option<Error>,
}

impl Watch<'_> {
    /// Answer of a callback; one that panics stops the call.
    fn answer(&mut self, what: &str, answer: Result<i32>) -> bool {
        match answer {
            Ok(stop) => stop != 0,
            Err(error) => {
                self.failed = Some(Error::Internal(format!("{what} failed: {error}")));
                true
            }
        }
    }
}

impl Watcher for Watch<'_> {
    fn fills(&self) -> bool {
        self.ghost_fill.is_some()
    }

    fn fill(&mut self, sweep: i32, u: &[*mut f64]) -> bool {
        let Some(ghost_fill) = self.ghost_fill else { return false };
        let user = self.ghost_user;
        // SAFETY: the caller of `smoother_set_ghost_fill` gave a function of this signature that accepts `user`.
        let answer = callback(|| unsafe { ghost_fill(user, sweep, u.as_ptr()) });
        self.answer("the ghost function", answer)
    }

    fn watched(&self) -> bool {
        self.monitor.is_some() || self.verbosity >= 2
    }

    fn show(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.history.push(relative_residual);
        if self.verbosity >= 2 {
            self.log.line(2, format_args!("smoother: sweep {sweep}: relative residual {relative_residual:.6e}"));
        }
        let Some(monitor) = self.monitor else { return false };
        let user = self.monitor_user;
        // SAFETY: the caller of `smoother_set_monitor` gave a function of this signature that accepts `user`.
        let answer = callback(|| unsafe { monitor(user, sweep as i64, relative_residual) });
        self.answer("the monitor", answer)
    }
}
