//! Ghost function and monitor of a call.

use crate::abi::guard::callback;
use crate::abi::smoother_ghost_fn;
use crate::abi::watch::Watch;
use crate::report::{Event, Observer};
use crate::smoother::steps::Callbacks;
use libc::c_void;

/// Ghost function of a handle, with its user pointer.
#[derive(Clone, Copy)]
pub struct GhostFill {
    pub callback: smoother_ghost_fn,
    pub user: *mut c_void,
}

/// Callbacks of a call.
pub struct CallerCallbacks<'a, 'b> {
    pub ghost_fill: GhostFill,
    pub watch: &'a mut Watch<'b>,
}

impl Callbacks for CallerCallbacks<'_, '_> {
    fn has_ghost_fill(&self) -> bool {
        self.ghost_fill.callback.is_some()
    }

    fn fill_ghosts(&mut self, sweep: i32, u: &[*mut f64]) -> bool {
        let GhostFill { callback: Some(fill_function), user } = self.ghost_fill else { return false };
        // SAFETY: the caller of `smoother_set_ghost_fill` passed a function of this signature that accepts `user`.
        let result = callback(|| unsafe { fill_function(user, sweep, u.as_ptr()) });
        self.watch.check_callback_result(format_args!("the ghost function failed"), result)
    }

    fn has_monitor(&self) -> bool {
        self.watch.monitor.is_some() || self.watch.verbosity >= 2
    }

    fn report_residual(&mut self, sweep: usize, relative_residual: f64) -> bool {
        self.watch.receive(Event::Iteration(sweep, relative_residual))
    }
}
