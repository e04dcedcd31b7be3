//! History, log and monitor of one call.

use crate::abi::guard::callback;
use crate::abi::log::Log;
use crate::abi::rrb_monitor_fn;
use crate::error::{Error, Result};
use crate::options::Family;
use crate::report::{Event, History, Observer};
use libc::c_void;

/// Receives the events of one call, and passes them to history, log and monitor.
pub struct Watch<'a> {
    pub family: Family,
    pub monitor: rrb_monitor_fn,
    pub user: *mut c_void,
    pub history: &'a mut History,
    pub log: &'a mut Log,
    pub verbosity: i64,
    /// Error of a callback that panicked.
    pub callback_error: Option<Error>,
}

impl Watch<'_> {
    /// Returns whether the return value `answer` of a callback stops the call. A panic of the callback also stops the
    /// call; its error message begins with `what`.
    pub fn stops(&mut self, what: std::fmt::Arguments, answer: Result<i32>) -> bool {
        match answer {
            Ok(stop) => stop != 0,
            Err(error) => {
                self.callback_error = Some(Error::Internal(format!("{what}: {error}")));
                true
            }
        }
    }
}

impl Observer for Watch<'_> {
    fn receive(&mut self, event: Event) -> bool {
        let (name, step) = (self.family.name(), self.family.step());
        match event {
            Event::Iteration(iteration, residual) | Event::Passed(iteration, residual) => {
                self.history.push(residual);
                if self.verbosity >= 2 {
                    self.log.line(2, format_args!("{name}: {step} {iteration}: relative residual {residual:.6e}"));
                }
                if let (Event::Iteration(..), Some(monitor)) = (event, self.monitor) {
                    let user = self.user;
                    // SAFETY: the caller of set_monitor has passed a function of this signature that accepts `user`.
                    let answer = callback(|| unsafe { monitor(user, iteration as i64, residual) });
                    return self.stops(format_args!("the monitor failed in {step} {iteration}"), answer);
                }
            }
            Event::Coefficients(alpha, beta) => self.history.push_coefficients(alpha, beta),
            Event::Changed(iterations, left, expected) if self.verbosity >= 1 => self.log.line(
                1,
                format_args!(
                    "{name}: residual reduced to {left:.1e} after {iterations} {step}s, {expected:.0} more \
                     expected: switches to aggregation"
                ),
            ),
            Event::Widened(iterations) if self.verbosity >= 1 => {
                let message = "continues with precision=bf16, also for later matrices";
                let after = format_args!("precision=mixed stagnates after {iterations} {step}s");
                self.log.line(1, format_args!("{name}: {after}: {message}"));
            }
            Event::Changed(..) | Event::Widened(_) => {}
        }
        false
    }

    fn may_stop(&self) -> bool {
        self.monitor.is_some()
    }
}
