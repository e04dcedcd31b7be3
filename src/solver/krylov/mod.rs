//! Preconditioned conjugate gradients (report 16-06, algorithm 1), for any family that has the steps.
//!
//! The loop is [`pcg`], where it stands is in `state`, its decisions are those of `decisions`. Beside them stand its
//! policies, each in a file of its own: residual replacement, restarts, confirmation, the best iterate, and which
//! squares are rounding. The methods for general matrices are in files of their own names, over `KrylovSteps`.

mod best;
mod bicg;
mod bicgstab;
mod confirmation;
mod decisions;
mod gmres;
mod idr;
mod minres;
mod plateau;
mod progress;
mod replacement;
mod restarts;
mod rounding;
mod state;
mod sweeps;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors_tests;

pub use best::BestIterate;
pub use restarts::Restarts;
pub use state::{PcgEnd, Start, Test};
pub use {
    bicg::{BICG_VECTORS, bicg},
    bicgstab::{BICGSTAB_VECTORS, bicgstab},
    gmres::{GmresRoom, gmres, gmres_vectors},
    idr::{IdrRoom, idr, idr_vectors},
    minres::{MINRES_VECTORS, minres},
    sweeps::{SWEEPS_VECTORS, sweeps},
};

use crate::backend::steps::pcg::{Course, ENERGY, LoopEnd, LoopEnding, LoopTest, PcgSteps, SQUARE};
use crate::backend::steps::vectors::VectorId;
use crate::error::{Error, Result};
use crate::report::StopReason;
use decisions::{Code, is_positive};
use plateau::Plateau;
use replacement::{Direction, Replaced, Replacement};
use state::Iteration;

pub use crate::options::Norm;

/// What comes next.
enum Next {
    /// An iteration: p, q = A p, rho and sigma are there.
    Iterate,
    /// A start from a recomputed residual.
    Restart,
    /// The same, with another preconditioner if the steps take one.
    Change,
    /// Nothing.
    End(PcgEnd),
}

/// What the convergence check says.
enum Check {
    /// Goes on, with this rho = <r, M^-1 r>.
    Continue(f64),
    /// The loop ends.
    End(LoopEnding),
    /// The residual has grown beyond the limit.
    Diverged,
}

/// The policies of a run.
struct Policies<'p, 'k, S: PcgSteps + ?Sized> {
    test: &'p Test,
    best: &'p mut BestIterate<'k, S>,
    restarts: &'p mut Restarts,
    replacement: Replacement,
    plateau: Plateau,
    /// Iterations and norm of the last start.
    began: (usize, f64),
}

/// Iterates from x and r = b - A x. Convergence seen on the recurred residual is confirmed on a recomputed one, where
/// the test says so; where that misses it, or squares are rounding alone, the iteration starts again from it.
pub fn pcg<S: PcgSteps + ?Sized>(
    s: &mut S,
    test: &Test,
    best: &mut BestIterate<S>,
    restarts: &mut Restarts,
    start: Start,
) -> Result<PcgEnd> {
    let mut at = Iteration::new(start);
    let mut policies = Policies::new(test, best, restarts);
    let mut next = policies.start(s, &mut at)?; // z = M^-1 r, rho = <r, z>, p = z, q = A p, sigma = <p, q>
    loop {
        match next {
            Next::Iterate => {}
            Next::Restart => {
                next = policies.restart(s, &mut at)?; // r = b - A x, and a start
                continue;
            }
            Next::Change => {
                next = match policies.changes_preconditioner(s, &at) {
                    true => policies.start_anew(s, &mut at)?,
                    false => policies.restart(s, &mut at)?,
                };
                continue;
            }
            Next::End(end) => return Ok(end),
        }
        let replaces = policies.replacement.is_due(&at) && s.replaces_residual();
        s.record(at.alpha, at.beta);
        at.iterations += 1;
        let replaced = match replaces {
            true => Some(policies.replacement.replace(s, &mut at)), // x = x + alpha p, r = b - A x
            false => policies.replacement.recur(s, &mut at),        // r = r - alpha q
        };
        next = match policies.check(s, &mut at)? {
            Check::End(ending) => {
                if !replaces {
                    s.add(VectorId::X, at.alpha, VectorId::P); // which `ascend` would have done
                }
                policies.confirm(s, &at, ending)
            }
            Check::Diverged => Next::End(at.ended(StopReason::Diverged)),
            Check::Continue(_) if policies.changes_preconditioner(s, &at) => {
                s.add(VectorId::X, at.alpha, VectorId::P);
                policies.start_anew(s, &mut at)? // r = b - A x, and a start
            }
            Check::Continue(_) if policies.plateau.is_long(&at, s.contracts_quickly(), test.reference) => {
                s.add(VectorId::X, at.alpha, VectorId::P);
                policies.restart(s, &mut at)?
            }
            // x = x + alpha p, beta = rho / rho_old, p = z + beta p, q = A p, sigma = <p, q>
            Check::Continue(rho) => policies.change_direction(s, &mut at, rho, replaced)?,
        };
    }
}

impl<'p, 'k, S: PcgSteps + ?Sized> Policies<'p, 'k, S> {
    fn new(test: &'p Test, best: &'p mut BestIterate<'k, S>, restarts: &'p mut Restarts) -> Self {
        best.begin_run();
        restarts.begin_run();
        Self { test, best, restarts, replacement: Replacement::default(), plateau: Plateau::default(), began: (0, 0.0) }
    }

    /// r = b - A x, and a start from there.
    fn restart(&mut self, s: &mut S, at: &mut Iteration) -> Result<Next> {
        at.norm2 = s.residual();
        self.restarts.count();
        self.start(s, at)
    }

    /// The same with another preconditioner: what was missed with the one before says nothing of it.
    fn start_anew(&mut self, s: &mut S, at: &mut Iteration) -> Result<Next> {
        at.norm2 = s.residual();
        self.restarts.begin_run();
        self.best.begin_run();
        self.start(s, at)
    }

    /// A start from a recomputed residual: r = b - A x is there, z and p are not.
    fn start(&mut self, s: &mut S, at: &mut Iteration) -> Result<Next> {
        loop {
            if let Some(end) = self.check_start(s, at)? {
                return Ok(Next::End(end));
            }
            if !self.best.offer(s, self.restarts.in_run(), at.norm) {
                break;
            }
            // That may change x by a constant: r is to be that of the x kept.
            at.norm2 = s.residual();
        }
        self.restarts.start_from(at.norm);
        self.began = (at.iterations, at.norm);
        self.replacement = Replacement::start(self.test, at);
        self.plateau = Plateau::start(at);
        at.beta = 0.0;
        // p = z, q = A p, sigma = <p, q>
        if !self.ascend(s, at, None)? {
            return Ok(Next::End(at.ended(StopReason::Stagnated)));
        }
        match s.iterate(&self.loop_test(at)) {
            Some(end) => self.adopt(s, at, end),
            None => Ok(Next::Iterate),
        }
    }

    /// z = M^-1 r, rho = <r, z>, and the convergence check of a recomputed residual, centered where the test says so.
    /// The check adds no means: no x of the given mean removes them. Returns the end if there is nothing to do.
    fn check_start(&mut self, s: &mut S, at: &mut Iteration) -> Result<Option<PcgEnd>> {
        let test = self.test;
        if test.centers {
            at.norm2 = s.center_residual().norm2.unwrap_or(at.norm2);
        }
        at.norm = at.norm2.sqrt();
        let mut spent = at.norm <= test.rounding;
        let met = at.norm <= test.threshold;
        if test.norm == Norm::True2 && (spent || met) {
            return Ok(Some(at.ended(if met { StopReason::Converged } else { StopReason::Stagnated })));
        }
        s.descend(None);
        at.rho = s.preconditioned_square();
        // M is definite: on a singular system a guess may leave nothing but rounding.
        let constant = test.rounding > 0.0 && at.rho <= 0.0 && at.rho.is_finite();
        spent = spent || constant || rounding::explains(s, test, at, SQUARE, at.rho);
        if !spent {
            positive(SQUARE, at.rho, at.iterations)?;
        }
        at.largest_rho = at.largest_rho.max(at.rho);
        if test.norm == Norm::Preconditioned {
            at.norm = at.rho.abs().sqrt();
            if at.norm <= test.threshold {
                return Ok(Some(at.ended(StopReason::Converged)));
            }
        }
        let reason = if spent {
            StopReason::Stagnated
        } else if at.stopped {
            StopReason::Monitor
        } else if !self.restarts.allow(at.norm) {
            StopReason::Stagnated
        } else if at.iterations >= test.max_iter {
            StopReason::MaxIter
        } else {
            return Ok(None);
        };
        Ok(Some(at.ended(reason)))
    }

    /// Whether the steps have taken another preconditioner, in whose norm nothing is tested.
    fn changes_preconditioner(&self, s: &mut S, at: &Iteration) -> bool {
        let (began, first) = self.began;
        let course = Course { iterations: at.iterations - began, first, norm: at.norm, threshold: self.test.threshold };
        let changes = self.test.norm == Norm::True2 && s.change_preconditioner(&course);
        if changes {
            s.tell_change(&course);
        }
        changes
    }

    fn loop_test(&self, at: &Iteration) -> LoopTest {
        let test = self.test;
        LoopTest {
            preconditioned: test.norm == Norm::Preconditioned,
            threshold: test.threshold,
            reference: test.reference,
            first: at.norm,
            vanishing: test.vanishing,
            iterations: at.iterations,
            max_iter: test.max_iter,
            rho: at.rho,
            sigma: at.sigma,
            confirms: test.confirms,
        }
    }

    /// Goes on from where a loop has ended that the backend ran by itself.
    fn adopt(&self, s: &mut S, at: &mut Iteration, end: LoopEnd) -> Result<Next> {
        (at.iterations, at.norm, at.stopped) = (end.iterations, end.norm, end.stopped);
        if end.ending == LoopEnding::Slow {
            return Ok(Next::Change);
        }
        let LoopEnding::Broken { quantity, value } = end.ending else {
            return Ok(self.confirm(s, at, end.ending));
        };
        if !rounding::negligible(self.test, quantity, value, f64::INFINITY, at.largest_rho)
            && !rounding::cancelled(s, self.test, quantity, value)
        {
            let iteration = match quantity == ENERGY {
                true => at.iterations + 1,
                false => self.told(at.iterations),
            };
            return Err(Error::Breakdown { quantity, value, iteration });
        }
        if quantity == SQUARE && self.test.norm == Norm::Preconditioned && !at.stopped {
            at.stopped = s.observe(at.iterations, 0.0);
        }
        Ok(Next::Restart)
    }

    /// Iterations that the observer has been told of where <r, M^-1 r> of the last one is not positive: in the papers'
    /// norm that iteration has no residual, and nobody was told of it.
    fn told(&self, iterations: usize) -> usize {
        iterations.saturating_sub(usize::from(self.test.norm == Norm::Preconditioned))
    }

    /// The convergence check. rho = <r, M^-1 r> is needed for the test in the papers' norm, else only to go on.
    fn check(&self, s: &mut S, at: &mut Iteration) -> Result<Check> {
        let test = self.test;
        let mut rho = 0.0;
        if test.norm == Norm::Preconditioned {
            rho = s.preconditioned_square();
            if rounding::explains(s, test, at, SQUARE, rho) {
                rho = 0.0;
            }
        }
        if at.take_norm(test, rho) == Code::RhoNegative {
            return Err(Error::Breakdown { quantity: SQUARE, value: rho, iteration: self.told(at.iterations) });
        }
        at.stopped = s.observe(at.iterations, at.norm / test.reference);
        match at.check_convergence(test) {
            Code::Met => return Ok(Check::End(LoopEnding::Met)),
            Code::MaxIter => return Ok(Check::End(LoopEnding::Cut)),
            _ if at.stopped => return Ok(Check::End(LoopEnding::Cut)),
            _ if at.norm > test.divergence => return Ok(Check::Diverged),
            _ => {}
        }
        if test.norm == Norm::True2 {
            rho = s.preconditioned_square();
        }
        let spent = rounding::explains(s, test, at, SQUARE, rho);
        Ok(if spent { Check::End(LoopEnding::Spent) } else { Check::Continue(rho) })
    }

    fn confirm(&self, s: &mut S, at: &Iteration, ending: LoopEnding) -> Next {
        match confirmation::confirm(s, self.test, ending, at.norm, at.stopped) {
            Some((norm, reason)) => Next::End(PcgEnd { iterations: at.iterations, norm, reason }),
            None => Next::Restart,
        }
    }

    /// The scalar update, and `ascend` to the next direction: p = z + beta p, or p = z where p is lost.
    fn change_direction(
        &mut self,
        s: &mut S,
        at: &mut Iteration,
        rho: f64,
        replaced: Option<Replaced>,
    ) -> Result<Next> {
        let direction = replaced.as_ref().map_or(Direction::Conjugate, |replaced| replaced.direction(at, rho));
        if direction == Direction::Lost {
            return Ok(Next::Restart);
        }
        let conjugate = direction == Direction::Conjugate;
        let beta = |rho, rho_old| if conjugate { s.beta(rho, rho_old) } else { 0.0 };
        if at.take_rho(self.test, rho, beta) != Code::Running {
            return Err(Error::Breakdown { quantity: SQUARE, value: rho, iteration: at.iterations });
        }
        if replaced.is_some() {
            self.replacement.measure_from(rho);
        }
        at.largest_rho = at.largest_rho.max(rho);
        let step = conjugate.then_some((at.alpha, at.beta));
        Ok(if self.ascend(s, at, step)? { Next::Iterate } else { Next::Restart })
    }

    /// To the next direction and its energy. Whether the iteration goes on: rounding may explain an energy that is not
    /// positive.
    fn ascend(&self, s: &mut S, at: &mut Iteration, step: Option<(f64, f64)>) -> Result<bool> {
        let sigma = s.ascend(step);
        let code = at.take_sigma(self.test, sigma);
        if rounding::explains(s, self.test, at, ENERGY, sigma) {
            return Ok(false);
        }
        match code {
            Code::Running => Ok(true),
            _ => Err(Error::Breakdown { quantity: ENERGY, value: sigma, iteration: at.iterations + 1 }),
        }
    }
}

/// Iterations that were done when `quantity` of `iteration` broke down.
pub fn done_before(quantity: &str, iteration: usize) -> usize {
    iteration - usize::from(quantity == ENERGY && iteration > 0)
}

/// Definite matrices give positive numbers; anything else, NaN included, is a breakdown.
fn positive(quantity: &'static str, value: f64, iteration: usize) -> Result<()> {
    if is_positive(value) { Ok(()) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}

/// The same for the square of a norm, which may have vanished.
pub fn not_negative(quantity: &'static str, value: f64, iteration: usize) -> Result<f64> {
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(Error::Breakdown { quantity, value, iteration }) }
}
