//! Preconditioned conjugate gradients: the lines of the algorithm (`PcgSteps`), for any family, and the loop as a
//! device runs it by itself. Provided bodies are the textbook.

use super::vectors::{VectorId, VectorSteps};
use crate::report::{Event, Observer};

/// The steps of preconditioned conjugate gradients (report, algorithm 1) on the system A x = b. A family says what A
/// is: RRB takes S1 x_b = b1 for 5 points, and a deflated family takes P A x = P b.
pub trait PcgSteps: VectorSteps {
    /// r = b, which is the residual of x = 0; returns <r, r>.
    fn residual_from_rhs(&mut self) -> f64 {
        self.copy(VectorId::B, VectorId::R);
        self.inner(VectorId::R, VectorId::R)
    }
    /// z = P M^-1 P r, P the projection where singular (r leaves the range of A by rounding, and the replaced
    /// last pivots would answer that with point sources); returns rho = <r, z>.
    fn precondition(&mut self) -> f64;
    /// Subtracts from r its means over singular components, r = P r, so that <r, M^-1 r> is <r, P M^-1 P r>.
    fn center_residual(&mut self) -> Centered {
        Centered::default()
    }
    /// q = A p; returns sigma = <p, q>.
    fn multiply(&mut self) -> f64;

    // The stages of an iteration. Their bodies here are the textbook; a backend that fuses them does the same
    // with fewer passes over memory.

    /// r = r - alpha q (not at a start, where r is there), and as much of M^-1 r as can be had on the way.
    /// Returns <r, r>.
    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        self.textbook_descend(alpha)
    }

    /// The body of `descend`.
    fn textbook_descend(&mut self, alpha: Option<f64>) -> f64 {
        if let Some(alpha) = alpha {
            self.add(VectorId::R, -alpha, VectorId::Q);
        }
        self.inner(VectorId::R, VectorId::R)
    }

    /// rho = <r, M^-1 r> of the r that `descend` made.
    fn preconditioned_square(&mut self) -> f64 {
        self.precondition()
    }

    /// The rest of z = M^-1 r, x = x + alpha p, p = z + beta p, q = A p. `step`: alpha, zero where x has it, and beta;
    /// none at a start, where p = z. Returns sigma = <p, q>.
    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        self.textbook_ascend(step)
    }

    /// The body of `ascend`, for backends that fuse it only at times.
    fn textbook_ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        match step {
            None => self.copy(VectorId::Z, VectorId::P),
            Some((alpha, beta)) => {
                self.add(VectorId::X, alpha, VectorId::P);
                self.renew(VectorId::P, beta, VectorId::Z);
            }
        }
        self.multiply()
    }

    /// <f p, f p> with a factor f, so that no square vanishes. q is spent.
    fn direction_norm2(&mut self, factor: f64) -> f64 {
        self.clear(VectorId::Q);
        self.add(VectorId::Q, factor, VectorId::P);
        self.inner(VectorId::Q, VectorId::Q)
    }

    /// beta = <r, z> / <r_old, z_old>. The residual r is that of `descend`. A family whose M changes from step to step
    /// takes the flexible <r - r_old, z> / <r_old, z_old> here.
    fn beta(&mut self, rho: f64, rho_old: f64) -> f64 {
        rho / rho_old
    }

    /// Takes a preconditioner that promises less work than is left with this one, by what a run has come to; x has all
    /// its steps where that is so, and r is formed anew. Whether it did.
    fn change_preconditioner(&mut self, _course: &Course) -> bool {
        false
    }

    /// Tells the observer of that.
    fn tell_change(&mut self, _course: &Course) {}

    /// M contracts at any coefficients: a small residual that stands still for long is taken for rounding.
    fn contracts_quickly(&self) -> bool {
        false
    }

    /// CG is in single precision: residual replacement is due whenever the residual has fallen by some digits.
    fn replaces_residual(&self) -> bool {
        false
    }

    /// x = x + alpha p, r = b - A x. Returns <r, r> as r - alpha q would have it, and of r.
    fn replace_residual(&mut self, alpha: f64) -> (f64, f64) {
        self.textbook_replace_residual(alpha)
    }

    /// The body of `replace_residual`.
    fn textbook_replace_residual(&mut self, alpha: f64) -> (f64, f64) {
        self.add(VectorId::X, alpha, VectorId::P);
        self.add(VectorId::R, -alpha, VectorId::Q);
        let recurred = self.inner(VectorId::R, VectorId::R);
        (recurred, self.residual())
    }

    /// Runs the loop of PCG from p, q = A p, rho and sigma on, with all its decisions, where the backend can do that by
    /// itself; else nothing. The loop it stands for is that of `solver::krylov::pcg`, up to its end.
    fn iterate(&mut self, _test: &LoopTest) -> Option<LoopEnd> {
        None
    }

    /// Tells the observer the CG coefficients of a step.
    fn record(&mut self, alpha: f64, beta: f64);
}

/// What `PcgSteps::center_residual` returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Centered {
    /// Sum over singular components of mean(r)^2 sum_i 1 / center_i, on the nodes that CG works on: the square of the
    /// means, which P M^-1 P maps to zero, in the norm of D^-1. Zero where nothing is singular.
    pub removed: f64,
    /// <r, r> of the centered r. None if r is unchanged: M^-1 includes P, nothing is singular, or r is deflated,
    /// Z^T r = 0, which subtracting the means would break.
    pub norm2: Option<f64>,
}

/// What a run has come to, in the 2-norm.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Iterations of it.
    pub iterations: usize,
    /// The residual that it began with.
    pub first: f64,
    /// The residual.
    pub norm: f64,
    /// The residual that is wanted.
    pub threshold: f64,
}

impl Course {
    /// Iterations that are left if the residual comes down as it has so far; infinite where it did not.
    pub fn iterations_left(&self) -> f64 {
        let done = (self.first / self.norm).ln();
        let left = (self.norm / self.threshold).ln();
        if done > 0.0 { self.iterations as f64 * left / done } else { f64::INFINITY }
    }

    /// That the run ends here, and another preconditioner goes on.
    pub fn tell(&self, observer: &mut dyn Observer) {
        observer.see(Event::Changed(self.iterations, self.norm / self.first, self.iterations_left()));
    }
}

/// Where a loop of PCG begins, and when it ends.
#[derive(Clone, Copy, Debug)]
pub struct LoopTest {
    /// The tested norm is sqrt(r' M^-1 r), not the 2-norm.
    pub preconditioned: bool,
    /// The loop ends with a norm at most this.
    pub threshold: f64,
    /// What residuals are reported relative to.
    pub reference: f64,
    /// The tested norm that the loop begins with.
    pub first: f64,
    /// Norms at most this may have squares that vanish.
    pub vanishing: f64,
    /// Iterations done before.
    pub iterations: usize,
    /// Iterations at most.
    pub max_iter: usize,
    /// <r, M^-1 r>.
    pub rho: f64,
    /// <p, A p>.
    pub sigma: f64,
    /// A residual that meets the test is confirmed on r = b - A x; else the caller does it, from what he was given.
    pub confirms: bool,
}

/// How a loop of PCG ended; x has all steps.
#[derive(Clone, Copy, Debug)]
pub struct LoopEnd {
    /// Iterations done.
    pub iterations: usize,
    /// The last tested norm.
    pub norm: f64,
    /// The observer asked to stop.
    pub stopped: bool,
    /// Why.
    pub ending: LoopEnding,
}

/// Why a loop of PCG ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoopEnding {
    /// The recurred residual meets the test.
    Met,
    /// Squares have vanished.
    Spent,
    /// `max_iter` was reached, or the observer asked.
    Cut,
    /// Another preconditioner promises less work than is left (`change_preconditioner`).
    Slow,
    /// A quantity that is positive for definite matrices was not. In the preconditioned norm r'M^-1 r of the last
    /// iteration is not told.
    Broken {
        /// The quantity, [`SQUARE`] or [`ENERGY`].
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
}

/// <p, A p>, which an iteration begins with: where it ends the solve, that iteration is not one of those done.
pub const ENERGY: &str = "p'Ap";
/// <r, M^-1 r>.
pub const SQUARE: &str = "r'M^-1 r";
