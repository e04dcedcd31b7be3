//! Steps of preconditioned conjugate gradients (`PcgSteps`) for all families, and the interface of a loop that runs on
//! a device. Provided bodies are the reference formulation.

use super::state::{Code, State};
use super::vectors::{VectorId, VectorSteps};

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

    /// Switches to another preconditioner if the estimated remaining work is then smaller, and notifies the observer.
    /// Called with the 2-norm. Returns whether it switched; the caller then recomputes r.
    fn change_preconditioner(&mut self, _at: &State) -> bool {
        false
    }

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
    /// This loop replaces the loop on the host and makes identical decisions. x includes all its updates. Sets
    /// `iterations`, `norm` and `stopped`, and `rho` or `sigma` after a breakdown. Returns the code at the end of the
    /// loop. The code is `Paused` if the observer stopped the loop, or if another preconditioner may need less work.
    fn iterate(&mut self, _at: &mut State) -> Option<Code> {
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

/// Name of <p, A p>. An iteration begins with this product; if the product ends the solve, the iteration does not
/// count.
pub const ENERGY: &str = "p'Ap";
/// Name of <r, M^-1 r>.
pub const SQUARE: &str = "r'M^-1 r";
