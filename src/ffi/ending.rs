//! How the last solve of a handle ended: its call, its line in the log, and the results about it.

use crate::error::{Error, RRB_NOT_CONVERGED, RRB_OK, RRB_STOPPED, Result};
use crate::ffi::guard::note;
use crate::ffi::handle::Base;
use crate::ffi::watch::Watch;
use crate::options::{Choice, Options, info, opt};
use crate::report::{History, Outcome, StopReason, Unfinished};
use crate::solver::machine::Core;
use crate::spectrum::lanczos_extremes;
use std::fmt::Display;

/// How the last solve ended.
#[derive(Default)]
pub struct Ending(Outcome);

impl Ending {
    /// Solves, with history, log and monitor. Returns the status. `of`: what is solved, and `in_use`: formats and
    /// methods, for the log.
    pub fn solve<C: Core>(
        &mut self,
        base: &mut Base<C>,
        call: impl FnOnce(&mut C, &Options, &mut Watch) -> Result<Outcome>,
        of: impl Display,
        in_use: impl FnOnce(&C) -> [&'static str; 2],
    ) -> Result<i32> {
        let start = base.begin_solve();
        self.0 = Outcome::default();
        let result = base.run(call);
        base.end_solve(start);
        if let Err(Error::Breakdown { iteration, .. } | Error::Indefinite { iteration, .. }) = result {
            self.0 = Outcome { iterations: iteration, reason: StopReason::Breakdown, ..Outcome::default() };
        }
        let outcome = result?;
        self.0 = outcome;
        if let Some(core) = &base.core {
            let (backend, [format, method]) = (core.machine().backend.name(), in_use(core));
            base.log_solve(format_args!(
                "{of}, {backend} {format} {method}, {} iterations, relative residual {:.3e} -> {:.3e}",
                outcome.iterations, outcome.initial_residual, outcome.final_residual
            ));
        }
        let status = match outcome.reason {
            StopReason::MaxIter | StopReason::Stagnated | StopReason::Diverged => RRB_NOT_CONVERGED,
            StopReason::Monitor => RRB_STOPPED,
            _ => return Ok(RRB_OK),
        };
        let (rel_tol, abs_tol) = (base.options.real(opt::REL_TOL), base.options.real(opt::ABS_TOL));
        note(Unfinished::new(outcome, rel_tol, abs_tol));
        Ok(status)
    }

    /// Iterations done.
    pub fn iterations(&self) -> usize {
        self.0.iterations
    }

    /// A result about it; none: `key` is of something else.
    pub fn result(&self, key: i32, history: &History) -> Option<f64> {
        let extremes = || lanczos_extremes(history.coefficients()).unwrap_or((0.0, 0.0));
        Some(match key {
            info::ITERATIONS => self.0.iterations as f64,
            info::STOP_REASON => self.0.reason.number() as f64,
            info::INITIAL_RESIDUAL => self.0.initial_residual,
            info::FINAL_RESIDUAL => self.0.final_residual,
            info::LAMBDA_MIN => extremes().0,
            info::LAMBDA_MAX => extremes().1,
            _ => return None,
        })
    }
}
