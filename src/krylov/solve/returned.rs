//! End of a run: completes x on the whole grid, and recomputes the residual b - A x from the user's b and A.

use super::control::Control;
use crate::base::number::power_of_two_below;
use crate::krylov::Norm;
use crate::krylov::pcg::{MeansChange, subtract_means_from_residual};
use crate::krylov::solve_steps::{EliminatedVector, Load, SolveSteps, complete_with_norm2};
use crate::krylov::vectors::{Iterate, VectorId};

/// Completes x by `SolveSteps::back_substitute`, and restores the means of the guess on singular components. Returns
/// max |x|, or NaN if any value is NaN.
pub fn complete_solution(s: &mut dyn SolveSteps, control: &Control) -> f64 {
    let (x_max, _) = s.back_substitute(None);
    if !control.is_singular() { x_max } else { restore_means(s) }
}

/// Restores the means of the guess on singular components. Returns max |x|.
fn restore_means(s: &mut dyn SolveSteps) -> f64 {
    s.change_means(VectorId::X, MeansChange::Restore);
    s.max_abs(VectorId::X)
}

/// Completes x. Returns max |x| and the tested norm of b - A x on the whole grid.
pub fn complete_with_norm(s: &mut dyn SolveSteps, control: &Control, scale: f64) -> (f64, f64) {
    if control.can_fuse_ends() {
        let (x_max, residual_norm2) = complete_with_norm2(s, scale);
        return (x_max, residual_norm2.sqrt());
    }
    let (x_max, residual_norm2) = s.back_substitute(None);
    if control.is_singular() {
        return (restore_means(s), residual_norm_of_solution(s, control, scale));
    }
    (x_max, residual_norm2.map_or_else(|| residual_norm_of_solution(s, control, scale), f64::sqrt))
}

/// Computes the tested norm of b - A x on the whole grid for a completed x. Loads b from the user's array. On a
/// singular system, subtracts the means of b. May overwrite r and the reduced b1.
pub fn residual_norm_of_solution(s: &mut dyn SolveSteps, control: &Control, scale: f64) -> f64 {
    let is_2norm = control.norm == Norm::True2;
    if !control.is_singular() && is_2norm {
        return s.whole_residual_norm2(Some(scale)).sqrt();
    }
    reload_rhs(s, control, scale);
    let residual_norm2 =
        if is_2norm { s.whole_residual_norm2(None) } else { whole_residual_square(s, control.is_singular()) };
    residual_norm2.sqrt()
}

/// Returns the squared preconditioned norm of r = b - A x on the whole grid, for a completed x and a loaded b. The
/// value is r'M^-1 r. If `projects_constants` is true, it is r'P M^-1 P r + `PcgSteps::weighted_square_of_means`.
///
/// If CG runs on S1, the value is r_r'D_r^-1 r_r + r1'M^-1 r1 with r1 = r_b - A_br D_r^-1 r_r (docs/theory/rrb.md,
/// stopping test). Overwrites r, and b if CG runs on S1.
fn whole_residual_square(s: &mut dyn SolveSteps, projects_constants: bool) -> f64 {
    let mut red_square = 0.0;
    if s.properties().eliminates_red {
        red_square = s.reduce(EliminatedVector::Residual);
        s.residual(Iterate::Zero);
    } else {
        s.residual(Iterate::X);
    }
    let constant_square = if projects_constants { subtract_means_from_residual(s).0 } else { 0.0 };
    s.descend(None);
    // A negative value is attributed to rounding. In a singular system, rounding may leave a constant in r.
    red_square + constant_square + s.preconditioned_square().abs()
}

/// Computes r for the start of another run from a completed x. Returns <r, r>.
///
/// If CG runs on S1, b - A x is computed on the whole grid with the user's matrix and then reduced to S1. This residual
/// is more accurate than b1 - S1 x. If CG runs on A, r = b - A x.
pub fn restart_residual(s: &mut dyn SolveSteps, control: &Control, scale: f64) -> f64 {
    reload_rhs(s, control, scale);
    if !s.properties().eliminates_red {
        return s.residual(Iterate::X);
    }
    s.reduce(EliminatedVector::Residual);
    let norm2 = s.residual(Iterate::Zero);
    reload_and_reduce(s, control, scale);
    norm2
}

/// Computes the preconditioned norm of b - A x for the guess in the user's array, or for x = 0 if `has_guess` is false.
/// Overwrites x and b.
///
/// If b - A x is outside the range of f32 sweeps, `large_norm` is its 2-norm, and b and x are divided by a power of two
/// near `large_norm`.
pub fn norm_of_guess(
    s: &mut dyn SolveSteps,
    control: &Control,
    scale: f64,
    has_guess: bool,
    large_norm: Option<f64>,
) -> f64 {
    let divisor = large_norm.map_or(1.0, power_of_two_below);
    // A fused load may omit the red values of x, which the residual on the whole grid needs.
    s.load(scale / divisor, Load::Separate(has_guess));
    if !has_guess {
        s.combine(VectorId::X, 0.0, &[]);
    }
    divisor * residual_norm_of_solution(s, control, scale / divisor)
}

/// Sets x to the guess, which the user's array still contains (0 if `has_guess` is false), and completes x by
/// `SolveSteps::back_substitute`. If CG runs on S1, the red values are computed from the equations of the red nodes.
/// Returns max |x| and the tested norm of b - A x.
pub fn complete_guess(s: &mut dyn SolveSteps, control: &Control, scale: f64, has_guess: bool) -> (f64, f64) {
    if has_guess {
        s.load(scale, Load::System(has_guess));
    } else {
        s.combine(VectorId::X, 0.0, &[]);
    }
    reload_and_reduce(s, control, scale);
    complete_with_norm(s, control, scale)
}

/// Loads b from the user's array. On a singular system, subtracts the means of b.
pub fn reload_rhs(s: &mut dyn SolveSteps, control: &Control, scale: f64) {
    s.load(scale, Load::Rhs);
    if control.is_singular() {
        s.change_means(VectorId::B, MeansChange::Subtract);
    }
}

/// Loads b from the user's array and reduces b to b1. Leaves r unchanged.
pub fn reload_and_reduce(s: &mut dyn SolveSteps, control: &Control, scale: f64) {
    reload_rhs(s, control, scale);
    s.reduce(EliminatedVector::ReloadedRhs);
}

/// Sets the user's output array to 0. Overwrites x.
pub fn store_zero(s: &mut dyn SolveSteps) {
    s.combine(VectorId::X, 0.0, &[]);
    s.store(1.0);
}
