//! Observer of one call, which passes events to history, log and monitor.

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
    /// Returns whether the return value `callback_result` of a callback stops the call. A panic of the callback also
    /// stops the call; its error message begins with `context`.
    pub fn check_callback_result(&mut self, context: std::fmt::Arguments, callback_result: Result<i32>) -> bool {
        match callback_result {
            Ok(stop) => stop != 0,
            Err(error) => {
                self.callback_error = Some(Error::Internal(format!("{context}: {error}")));
                true
            }
        }
    }
}

impl Observer for Watch<'_> {
    fn receive(&mut self, event: Event) -> bool {
        let (name, step) = (self.family.name(), self.family.step());
        match event {
            Event::Iteration(iteration, residual) | Event::LateIteration(iteration, residual) => {
                self.history.push(residual);
                if self.verbosity >= 2 {
                    self.log
                        .write_line(2, format_args!("{name}: {step} {iteration}: relative residual {residual:.6e}"));
                }
                if let (Event::Iteration(..), Some(monitor)) = (event, self.monitor) {
                    let user = self.user;
                    // SAFETY: the caller of set_monitor has passed a function of this signature that accepts `user`.
                    let callback_result = callback(|| unsafe { monitor(user, iteration as i64, residual) });
                    return self.check_callback_result(
                        format_args!("the monitor failed in {step} {iteration}"),
                        callback_result,
                    );
                }
            }
            Event::Coefficients(alpha, beta) => self.history.push_coefficients(alpha, beta),
            Event::PreconditionerChanged(iterations, left, expected) if self.verbosity >= 1 => self.log.write_line(
                1,
                format_args!(
                    "{name}: residual reduced to {left:.1e} after {iterations} {step}s, {expected:.0} more \
                     expected: switches to aggregation"
                ),
            ),
            Event::SwitchedToDouble(iterations) if self.verbosity >= 1 => {
                let continuation_text = "continues with precision=bf16, also for later matrices";
                let stagnation_text = format_args!("precision=mixed stagnates after {iterations} {step}s");
                self.log.write_line(1, format_args!("{name}: {stagnation_text}: {continuation_text}"));
            }
            Event::PreconditionerChanged(..) | Event::SwitchedToDouble(_) => {}
        }
        false
    }

    fn may_stop(&self) -> bool {
        self.monitor.is_some()
    }
}
