//! Steps of preconditioned conjugate gradients (`PcgSteps`) for all families, and the interface of a loop that runs on
//! a device. The provided bodies of `PcgSteps` are the reference formulation.

use super::state::{State, TestCode};
use super::vectors::{Iterate, VectorId, VectorSteps};

/// Steps of preconditioned conjugate gradients (report 16-06, algorithm 1) for A x = b. The family defines A. For
/// 5-point stencils of `rrb_`, A is the Schur complement S1 on the black nodes (S1 x_b = b1). With deflation, A is the
/// deflated matrix.
pub trait PcgSteps: VectorSteps {
    /// Returns the properties of these steps. `change_preconditioner` may change them.
    fn properties(&self) -> Properties {
        Properties::default()
    }
    /// Computes z = P M^-1 P r, or z = M^-1 r if `Properties::omits_projection` is set or CG runs on a deflated system.
    /// Returns rho = <r, z>. P subtracts the means over singular components; if nothing is singular, P = I. P is
    /// necessary because rounding errors move r out of the range of A. The last pivot of a singular component is zero
    /// up to rounding and is replaced. Without P, this pivot would turn the errors of r into large local values of z.
    fn precondition(&mut self) -> f64;
    /// Computes q = A p; returns sigma = <p, q>.
    fn multiply(&mut self) -> f64;
    /// Subtracts, stores or restores the means of v on the singular components; see [`MeansChange`].
    fn change_means(&mut self, _v: VectorId, _change: MeansChange) {}
    /// Returns the sum over singular components of mean(r)^2 sum_i 1 / center_i, on the nodes of the system that CG
    /// solves. Let D = diag(center), and let m be the vector of the means, which P M^-1 P maps to zero. The sum is then
    /// <m, D^-1 m>. Zero if nothing is singular.
    fn weighted_square_of_means(&mut self) -> f64 {
        0.0
    }

    // The stages of an iteration. The bodies here are the reference formulation; a backend may fuse the vector
    // operations of a stage into fewer passes over memory.

    /// Computes r = r - alpha q; with `None`, leaves r unchanged. Returns <r, r>. May also begin the computation of
    /// M^-1 r.
    fn descend(&mut self, alpha: Option<f64>) -> f64 {
        unfused_descend(self, alpha)
    }

    /// Returns rho = <r, M^-1 r> for the r that `descend` computed.
    fn preconditioned_square(&mut self) -> f64 {
        self.precondition()
    }

    /// Completes z = M^-1 r and computes x = x + alpha p, p = z + beta p, q = A p. Returns sigma = <p, q>.
    /// `coefficients` is (alpha, beta); alpha is 0 if x has already been updated. With `None`, p = z and x is
    /// unchanged.
    fn ascend(&mut self, coefficients: Option<(f64, f64)>) -> f64 {
        unfused_ascend(self, coefficients)
    }

    /// Replaces M by another preconditioner, if there is one. Returns whether M has changed.
    fn change_preconditioner(&mut self, _replacement: OtherPreconditioner) -> bool {
        false
    }

    /// Runs the PCG loop on the backend, starting from p, q = A p, rho and sigma; returns `None` if the backend has no
    /// such loop. This loop replaces the loop on the host. Both loops apply the same tests of convergence, `max_iter`
    /// and breakdown. When the loop on the backend ends, x includes the updates of all iterations. Sets
    /// `State::iterations`, `State::norm` and `State::stop_requested`; after a breakdown, also `State::rho` or
    /// `State::sigma`. Returns the code at the end of the loop: `Paused` if the observer requested a stop, or if
    /// another preconditioner may need less work.
    fn iterate(&mut self, _state: &mut State) -> Option<TestCode> {
        None
    }
}

/// Properties of the steps of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties {
    /// CG runs on the system of the black nodes, S1 x_b = b1, from which the red nodes are eliminated.
    /// `SolveSteps::back_substitute` computes the red values of x.
    pub eliminates_red: bool,
    /// CG runs on a deflated system, and `SolveSteps::back_substitute` adds the deflated part of x.
    pub uses_deflation: bool,
    /// CG runs in single precision. The recurred residual is then replaced by b - A x whenever
    /// `State::is_replacement_due` returns true.
    pub is_single_precision: bool,
    /// M reduces the error quickly for all matrix coefficients. A small residual that stagnates for many iterations is
    /// then attributed to rounding.
    pub contracts_quickly: bool,
    /// The steps apply M^-1 without P (see `PcgSteps::precondition`). <r, M^-1 r> is then <r, P M^-1 P r> only after
    /// `subtract_means_from_residual` has subtracted the means over singular components from r. False if
    /// `PcgSteps::precondition` computes P M^-1 P r. Also false with deflation: r satisfies Z^T r = 0 for the deflation
    /// vectors Z, and the subtraction would violate this equation.
    pub omits_projection: bool,
    /// Formula of beta.
    pub beta: Beta,
}

impl Properties {
    /// Returns whether x must be completed by `SolveSteps::back_substitute`. The residual of CG is then not b - A x
    /// with the user's A and b.
    pub fn needs_completion(&self) -> bool {
        self.eliminates_red || self.uses_deflation
    }
}

/// Formula of beta for the next direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Beta {
    /// <r, z> / <r_old, z_old>, for a fixed M.
    #[default]
    Fixed,
    /// <r - r_old, z> / <r_old, z_old>, if M changes from step to step (Notay, SIAM J. Sci. Comput. 22 (2000)
    /// 1444-1460). Here, r - r_old = -alpha q.
    Flexible,
    /// The value of `Flexible`, clamped to the range from 0 to c |f|. Here, c is this number, and f is the value of
    /// `Fixed`.
    Limited(f64),
}

/// Operation of `PcgSteps::change_means` on the means of a vector over the singular components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeansChange {
    /// Stores the means for a later `Restore`. The vector is unchanged.
    Store,
    /// Subtracts the means.
    Subtract,
    /// Adds a constant on each component, such that the means equal the stored means.
    Restore,
}

/// Preconditioner that replaces M.
#[derive(Clone, Copy)]
pub enum OtherPreconditioner<'a> {
    /// A preconditioner with less estimated remaining work than M. The argument is the state of the solve, in which the
    /// tested norm must be the 2-norm. `change_preconditioner` reports a switch to the observer. After a switch, the
    /// caller of `change_preconditioner` must recompute r.
    Cheaper(&'a State),
    /// The V-cycle, which replaces a recursive cycle until the next factorization. Available if the cycle was selected
    /// automatically.
    Definite,
    /// A fixed symmetric variant of an M that depends on r, if the backend has one.
    Linear,
    /// The preconditioner for the method that continues after a breakdown.
    AfterBreakdown,
}

/// Reference formulation of `PcgSteps::descend`, for backends that fuse this stage only in some cases.
pub fn unfused_descend<S: PcgSteps + ?Sized>(s: &mut S, alpha: Option<f64>) -> f64 {
    if let Some(alpha) = alpha {
        s.combine(VectorId::R, 1.0, &[(-alpha, VectorId::Q)]);
    }
    s.inner_product(VectorId::R, VectorId::R)
}

/// Reference formulation of `PcgSteps::ascend`, for backends that fuse this stage only in some cases.
pub fn unfused_ascend<S: PcgSteps + ?Sized>(s: &mut S, coefficients: Option<(f64, f64)>) -> f64 {
    let beta = coefficients.map_or(0.0, |(_, beta)| beta);
    if let Some((alpha, _)) = coefficients {
        s.combine(VectorId::X, 1.0, &[(alpha, VectorId::P)]);
    }
    s.combine(VectorId::P, beta, &[(1.0, VectorId::Z)]);
    s.multiply()
}

/// Computes x = x + alpha p and r = b - A x. Returns the squared norms of r - alpha q and of the recomputed r.
pub fn replace_residual<S: PcgSteps + ?Sized>(s: &mut S, alpha: f64) -> (f64, f64) {
    s.combine(VectorId::X, 1.0, &[(alpha, VectorId::P)]);
    (unfused_descend(s, Some(alpha)), s.residual(Iterate::X))
}

/// Returns <f p, f p> with f = `factor`. The caller chooses f such that no square underflows. Overwrites q.
pub fn direction_norm2<S: PcgSteps + ?Sized>(s: &mut S, factor: f64) -> f64 {
    s.combine(VectorId::Q, 0.0, &[(factor, VectorId::P)]);
    s.inner_product(VectorId::Q, VectorId::Q)
}

/// If `Properties::omits_projection` is set, computes r = P r: it subtracts the means over singular components. Then,
/// <r, M^-1 r> equals <r, P M^-1 P r>. Returns `PcgSteps::weighted_square_of_means` of the r before the subtraction,
/// and <r, r> if r has changed.
pub fn subtract_means_from_residual<S: PcgSteps + ?Sized>(s: &mut S) -> (f64, Option<f64>) {
    let removed_square = s.weighted_square_of_means();
    if !s.properties().omits_projection {
        return (removed_square, None);
    }
    s.change_means(VectorId::R, MeansChange::Subtract);
    (removed_square, Some(s.inner_product(VectorId::R, VectorId::R)))
}

/// Name of <p, A p> in errors. An iteration begins with the computation of <p, A p>. If <p, A p> causes a breakdown,
/// this iteration does not count as completed.
pub const SIGMA_NAME: &str = "p'Ap";
/// Name of <r, M^-1 r> in errors.
pub const RHO_NAME: &str = "r'M^-1 r";
