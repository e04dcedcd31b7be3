//! What a loop of PCG that the device runs by itself tells the host, for all families: its limits, its steps in the
//! ring of scalars, and how it ended. The decisions are in kernels/common/scalars.cuh.

use super::launch::{Scalars, code};
use crate::backend::steps::pcg::{ENERGY, LoopEnd, LoopEnding, LoopTest, SQUARE};
use crate::error::{Error, Result};
use crate::report::{Event, Observer};

/// Iterations between two looks at a monitor that may stop the solve.
pub const MONITOR_LAG: i64 = 32;

/// Entries of the ring that come with the scalars; more are fetched when there are more.
pub const FIRST_FETCH: usize = 64;

/// `RRBSOLVER_CUDA_GRAPH=off`: the same kernels, launched one by one, for tools that do not follow a recorded loop.
pub fn without_graphs() -> bool {
    std::env::var_os("RRBSOLVER_CUDA_GRAPH").is_some_and(|value| value == "off")
}

/// When the loop ends, and what it begins with.
pub fn set_limits(s: &mut Scalars, test: &LoopTest) {
    (s.threshold, s.vanishing) = (test.threshold, test.vanishing);
    (s.iterations, s.max_iter) = (test.iterations as i64, test.max_iter as i64);
    s.preconditioned = i32::from(test.preconditioned);
    (s.rho, s.sigma, s.alpha, s.beta) = (test.rho, test.sigma, test.rho / test.sigma, 0.0);
}

/// A loop with these scalars ends as `test` says.
pub fn has_limits(s: &Scalars, test: &LoopTest) -> bool {
    (s.threshold.to_bits(), s.vanishing.to_bits()) == (test.threshold.to_bits(), test.vanishing.to_bits())
        && (s.iterations, s.max_iter) == (test.iterations as i64, test.max_iter as i64)
        && s.preconditioned == i32::from(test.preconditioned)
}

/// Before anything was looked at.
pub fn not_ended(test: &LoopTest) -> LoopEnd {
    LoopEnd { iterations: test.iterations, norm: 0.0, stopped: false, ending: LoopEnding::Cut }
}

/// Tells the observer of the steps in the ring.
pub fn tell(s: &Scalars, observer: &mut dyn Observer, test: &LoopTest, end: &mut LoopEnd) {
    let used = s.ring_used as usize;
    end.norm = s.norm;
    for (k, step) in s.ring[..used].iter().enumerate() {
        observer.see(Event::Coefficients(step.alpha, step.beta));
        end.iterations += 1;
        if s.code == code::RHO_NEGATIVE && k + 1 == used {
            break;
        }
        let relative = step.norm / test.reference;
        if end.stopped {
            observer.see(Event::Passed(end.iterations, relative));
        } else {
            end.stopped = observer.see(Event::Iteration(end.iterations, relative));
        }
    }
}

/// Why the loop ended.
pub fn ending(s: &Scalars) -> Result<LoopEnding> {
    let broke = |quantity, value| LoopEnding::Broken { quantity, value };
    Ok(match s.code {
        code::PAUSED | code::MAX_ITER => LoopEnding::Cut,
        code::MET => LoopEnding::Met,
        code::SPENT | code::SIGMA_VANISHED => LoopEnding::Spent,
        code::RHO_NEGATIVE | code::RHO_BAD => broke(SQUARE, s.sum),
        code::SIGMA_BAD => broke(ENERGY, s.sigma),
        other => return Err(Error::Internal(format!("the loop on the device ended with code {other}"))),
    })
}
