//! History, log and monitor of one call.

use crate::error::{Error, Result};
use crate::ffi::guard::callback;
use crate::ffi::log::Log;
use crate::ffi::rrb_monitor_fn;
use crate::options::Family;
use crate::report::{History, Observer};
use libc::c_void;

/// Words of a family in sentences and lines.
pub struct Words {
    pub family: Family,
    /// As lines of the log begin.
    pub name: &'static str,
    /// The call that makes a core, as users write it, and where options say that they act.
    pub setup: &'static str,
    pub at: &'static str,
    /// What a monitor is told about.
    pub step: &'static str,
}

/// History, log and monitor of one call.
pub struct Watch<'a> {
    pub words: &'static Words,
    pub monitor: rrb_monitor_fn,
    pub user: *mut c_void,
    pub history: &'a mut History,
    pub log: &'a mut Log,
    pub verbosity: i64,
    /// What a callback did that it must not.
    pub failed: Option<Error>,
}

impl Watch<'_> {
    /// Answer of a callback; one that panics stops the call: `what` says so.
    pub fn answer(&mut self, what: std::fmt::Arguments, answer: Result<i32>) -> bool {
        match answer {
            Ok(stop) => stop != 0,
            Err(error) => {
                self.failed = Some(Error::Internal(format!("{what}: {error}")));
                true
            }
        }
    }
}

impl Observer for Watch<'_> {
    fn iteration(&mut self, iteration: usize, relative_residual: f64) -> bool {
        self.passed(iteration, relative_residual);
        let Some(monitor) = self.monitor else { return false };
        let user = self.user;
        // SAFETY: who set the monitor gave a function of this signature that accepts `user`.
        let answer = callback(|| unsafe { monitor(user, iteration as i64, relative_residual) });
        let step = self.words.step;
        self.answer(format_args!("the monitor failed in {step} {iteration}"), answer)
    }

    fn passed(&mut self, iteration: usize, relative_residual: f64) {
        self.history.push(relative_residual);
        if self.verbosity >= 2 {
            let Words { name, step, .. } = self.words;
            self.log.line(2, format_args!("{name}: {step} {iteration}: relative residual {relative_residual:.6e}"));
        }
    }

    fn changed(&mut self, iterations: usize, left: f64, expected: f64) {
        if self.verbosity >= 1 {
            let Words { name, step, .. } = self.words;
            self.log.line(
                1,
                format_args!(
                    "{name}: residual reduced to {left:.1e} after {iterations} {step}s, {expected:.0} more \
                     expected: switches to aggregation"
                ),
            );
        }
    }

    fn widened(&mut self, iterations: usize) {
        if self.verbosity >= 1 {
            let Words { name, step, .. } = self.words;
            let sentence = "continues with precision=bf16, also for later matrices";
            self.log.line(1, format_args!("{name}: precision=mixed stagnates after {iterations} {step}s: {sentence}"));
        }
    }

    fn coefficients(&mut self, alpha: f64, beta: f64) {
        self.history.push_coefficients(alpha, beta);
    }

    fn may_stop(&self) -> bool {
        self.monitor.is_some()
    }
}
