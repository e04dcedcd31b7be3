//! Steps of preconditioned conjugate gradients (`PcgSteps`) for all families, and the interface of a loop that runs on
//! a device. Provided bodies are the reference formulation.

use super::vectors::{VectorId, VectorSteps};
use crate::report::{Event, Observer};

/// Steps of preconditioned conjugate gradients (report 16-06, algorithm 1) for A x = b. The family defines A: RRB with
/// 5 points solves S1 x_b = b1, and a deflated family solves P A x = P b.
pub trait PcgSteps: VectorSteps {
    /// Sets r = b, the residual of x = 0; returns <r, r>.
    fn residual_from_rhs(&mut self) -> f64 {
        self.copy(VectorId::B, VectorId::R);
        self.inner(VectorId::R, VectorId::R)
    }
    /// Computes z = P M^-1 P r; returns rho = <r, z>. P subtracts the means over singular components; if nothing is
    /// singular, P = I. Rounding moves r out of the range of A. Without P, the replaced last pivots would turn this
    /// error into large local values of z.
    fn precondition(&mut self) -> f64;
    /// Subtracts the means over singular components, r = P r, so that <r, M^-1 r> equals <r, P M^-1 P r>.
    fn center_residual(&mut self) -> Centered {
        Centered::default()
    }
    /// Computes q = A p; returns sigma = <p, q>.
    fn multiply(&mut self) -> f64;

    // The stages of an iteration. The bodies here are the reference formulation; a backend may fuse them into fewer
    // passes over memory.

    /// Computes r = r - alpha q; with `None`, r is already current. May also compute parts of M^-1 r. Returns <r, r>.
    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        self.textbook_descend(alpha)
    }

    /// Reference formulation of `descend`.
    fn textbook_descend(&mut self, alpha: Option<f64>) -> f64 {
        if let Some(alpha) = alpha {
            self.add(VectorId::R, -alpha, VectorId::Q);
        }
        self.inner(VectorId::R, VectorId::R)
    }

    /// Returns rho = <r, M^-1 r> for the r that `descend` computed.
    fn preconditioned_square(&mut self) -> f64 {
        self.precondition()
    }

    /// Completes z = M^-1 r and computes x = x + alpha p, p = z + beta p, q = A p. Returns sigma = <p, q>. `step` is
    /// (alpha, beta); alpha is 0 if x already includes the update. With `None`, p = z and x is unchanged.
    fn ascend(&mut self, step: Option<(f64, f64)>) -> f64 {
        self.textbook_ascend(step)
    }

    /// Reference formulation of `ascend`, for backends that fuse it only in some cases.
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

    /// Returns <f p, f p>; the factor f keeps the squares above underflow. Overwrites q.
    fn direction_norm2(&mut self, factor: f64) -> f64 {
        self.clear(VectorId::Q);
        self.add(VectorId::Q, factor, VectorId::P);
        self.inner(VectorId::Q, VectorId::Q)
    }

    /// Returns beta = <r, z> / <r_old, z_old>, where r is the residual of `descend`. If M changes from step to step, a
    /// family returns the flexible <r - r_old, z> / <r_old, z_old> (Notay 2000).
    fn beta(&mut self, rho: f64, rho_old: f64) -> f64 {
        rho / rho_old
    }

    /// Switches to another preconditioner if the estimated remaining work is then smaller. Returns whether it switched.
    /// If so, x includes all its steps, and the caller recomputes r.
    fn change_preconditioner(&mut self, _course: &Course) -> bool {
        false
    }

    /// Reports the switch to the observer.
    fn tell_change(&mut self, _course: &Course) {}

    /// Returns whether M reduces the error quickly for all coefficients. A small residual that stagnates for many
    /// iterations is then attributed to rounding.
    fn contracts_quickly(&self) -> bool {
        false
    }

    /// Returns whether CG runs in single precision. The residual is then replaced whenever it has fallen by several
    /// digits.
    fn replaces_residual(&self) -> bool {
        false
    }

    /// Computes x = x + alpha p and r = b - A x. Returns the squared norms of r - alpha q and of the recomputed r.
    fn replace_residual(&mut self, alpha: f64) -> (f64, f64) {
        self.textbook_replace_residual(alpha)
    }

    /// Reference formulation of `replace_residual`.
    fn textbook_replace_residual(&mut self, alpha: f64) -> (f64, f64) {
        self.add(VectorId::X, alpha, VectorId::P);
        self.add(VectorId::R, -alpha, VectorId::Q);
        let recurred = self.inner(VectorId::R, VectorId::R);
        (recurred, self.residual())
    }

    /// Runs the PCG loop on the backend, starting from p, q = A p, rho and sigma; returns `None` if the backend cannot.
    /// The loop replaces the one of `solver::krylov::pcg` and makes the same decisions.
    fn iterate(&mut self, _test: &LoopTest) -> Option<LoopEnd> {
        None
    }

    /// Reports the CG coefficients of a step to the observer.
    fn record(&mut self, alpha: f64, beta: f64);
}

/// Result of `PcgSteps::center_residual`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Centered {
    /// Sum over singular components of mean(r)^2 sum_i 1 / center_i, on the nodes of the system that CG solves. This is
    /// the squared D^-1 norm of the means, which P M^-1 P maps to zero. Zero if nothing is singular.
    pub removed: f64,
    /// <r, r> of the centered r. `None` if r is unchanged: M^-1 includes P, or nothing is singular, or r is deflated.
    /// For a deflated r, subtraction of the means would violate Z^T r = 0.
    pub norm2: Option<f64>,
}

/// Progress of a run, in the 2-norm.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Number of iterations done.
    pub iterations: usize,
    /// Norm of the first residual.
    pub first: f64,
    /// Norm of the current residual.
    pub norm: f64,
    /// Largest norm that satisfies the stopping test.
    pub threshold: f64,
}

impl Course {
    /// Extrapolates the number of remaining iterations from the mean reduction so far, k ln(norm / threshold) /
    /// ln(first / norm). Returns infinity if the residual did not decrease.
    pub fn iterations_left(&self) -> f64 {
        let done = (self.first / self.norm).ln();
        let left = (self.norm / self.threshold).ln();
        if done > 0.0 { self.iterations as f64 * left / done } else { f64::INFINITY }
    }

    /// Reports to the observer that the run continues with another preconditioner.
    pub fn tell(&self, observer: &mut dyn Observer) {
        observer.see(Event::Changed(self.iterations, self.norm / self.first, self.iterations_left()));
    }
}

/// Initial values and stopping test of a PCG loop.
#[derive(Clone, Copy, Debug)]
pub struct LoopTest {
    /// Tests sqrt(r' M^-1 r) instead of the 2-norm.
    pub preconditioned: bool,
    /// The loop ends when the tested norm is at most this value.
    pub threshold: f64,
    /// Reference norm of the reported relative residuals.
    pub reference: f64,
    /// Tested norm of the initial residual.
    pub first: f64,
    /// Norms at most this value may have squares that underflow.
    pub vanishing: f64,
    /// Number of iterations before the loop.
    pub iterations: usize,
    /// Iteration limit; includes the iterations before the loop.
    pub max_iter: usize,
    /// Initial rho = <r, M^-1 r>.
    pub rho: f64,
    /// Initial sigma = <p, A p>.
    pub sigma: f64,
    /// The backend confirms convergence with r = b - A x; otherwise the caller does, from the caller's arrays.
    pub confirms: bool,
}

/// Result of a PCG loop. x includes all steps.
#[derive(Clone, Copy, Debug)]
pub struct LoopEnd {
    /// Number of iterations, those before the loop included.
    pub iterations: usize,
    /// Last tested norm.
    pub norm: f64,
    /// The observer requested the stop.
    pub stopped: bool,
    /// Reason for the end.
    pub ending: LoopEnding,
}

/// Reason for the end of a PCG loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoopEnding {
    /// The recurred residual satisfies the stopping test.
    Met,
    /// Squares have fallen below the rounding level.
    Spent,
    /// The loop reached `max_iter`, or the observer requested a stop.
    Cut,
    /// Another preconditioner needs less estimated work for the remaining iterations (`change_preconditioner`).
    Slow,
    /// Breakdown: a quantity that is positive for definite matrices is not positive. With the preconditioned norm,
    /// r'M^-1 r of the last iteration is not reported.
    Broken {
        /// Name of the quantity, [`SQUARE`] or [`ENERGY`].
        quantity: &'static str,
        /// Value of the quantity.
        value: f64,
    },
}

/// Name of <p, A p>. An iteration begins with this product; if the product ends the solve, the iteration does not
/// count.
pub const ENERGY: &str = "p'Ap";
/// Name of <r, M^-1 r>.
pub const SQUARE: &str = "r'M^-1 r";
