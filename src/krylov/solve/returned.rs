//! End of a run: completes x on the whole grid, and recomputes its residual from the caller's b and A.

use super::control::Control;
use crate::base::number::power_of_two_below;
use crate::krylov::Norm;
use crate::krylov::pcg::{Means, subtract_means_from_residual};
use crate::krylov::solve_steps::{Eliminated, Load, SolveSteps, complete};
use crate::krylov::vectors::{Iterate, VectorId};

/// Completes x by `SolveSteps::back_substitute`, and restores the means of the guess on singular components. Returns
/// max |x|, or NaN if any value is NaN.
pub fn complete_solution(s: &mut dyn SolveSteps, c: &Control) -> f64 {
    let (largest, _) = s.back_substitute(None);
    if !c.is_singular() { largest } else { restore_means(s) }
}

/// Restores the means of the guess on singular components. Returns max |x|.
fn restore_means(s: &mut dyn SolveSteps) -> f64 {
    s.means(VectorId::X, Means::Restore);
    s.largest(VectorId::X)
}

/// Completes x. Returns max |x| and the tested norm of b - A x on the whole grid.
pub fn complete_with_norm(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> (f64, f64) {
    if c.can_fuse_ends() {
        let (largest, square) = complete(s, scale);
        return (largest, square.sqrt());
    }
    let (largest, square) = s.back_substitute(None);
    if c.is_singular() {
        return (restore_means(s), residual_norm_of_solution(s, c, scale));
    }
    (largest, square.map_or_else(|| residual_norm_of_solution(s, c, scale), f64::sqrt))
}

/// Computes the tested norm of b - A x on the whole grid for a completed x. Loads b from the caller's array. On a
/// singular system, subtracts the means of b. May overwrite r and the reduced b1.
pub fn residual_norm_of_solution(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> f64 {
    let true2 = c.norm == Norm::True2;
    if !c.is_singular() && true2 {
        return s.whole_residual_norm2(Some(scale)).sqrt();
    }
    load_again(s, c, scale);
    let square = if true2 { s.whole_residual_norm2(None) } else { whole_residual_square(s, c.is_singular()) };
    square.sqrt()
}

/// Returns the squared preconditioned norm of r = b - A x on the whole grid, for a completed x and a loaded b. The
/// value is r'M^-1 r, or r'P M^-1 P r + `PcgSteps::weighted_square_of_means` if constants are projected out
/// (`projects`).
///
/// If CG runs on S1, the value is r_r'D_r^-1 r_r + r1'M^-1 r1 with r1 = r_b - A_br D_r^-1 r_r (docs/theory/rrb.md,
/// stopping test). Overwrites r, and b if CG runs on S1.
fn whole_residual_square(s: &mut dyn SolveSteps, projects: bool) -> f64 {
    let mut on_red = 0.0;
    if s.properties().eliminates {
        on_red = s.reduce(Eliminated::Residual);
        s.residual(Iterate::Zero);
    } else {
        s.residual(Iterate::X);
    }
    let constant = if projects { subtract_means_from_residual(s).0 } else { 0.0 };
    s.descend(None);
    // A negative value is attributed to rounding. In a singular system, rounding may leave a constant in r.
    on_red + constant + s.preconditioned_square().abs()
}

/// Computes r for the start of another run from a completed x. Returns <r, r>.
///
/// If CG runs on S1, b - A x is computed on the whole grid from the caller's matrix and then reduced to S1. The result
/// is more accurate than b1 - S1 x. If CG runs on A, r = b - A x.
pub fn start_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> f64 {
    load_again(s, c, scale);
    if !s.properties().eliminates {
        return s.residual(Iterate::X);
    }
    s.reduce(Eliminated::Residual);
    let norm2 = s.residual(Iterate::Zero);
    reduce_again(s, c, scale);
    norm2
}

/// Computes the preconditioned norm of b - A x for the guess in the caller's array, or for x = 0 if `guess` is false.
/// Overwrites x and b.
///
/// `far` is the 2-norm of b - A x if this residual is outside the range of f32 sweeps. The system is then divided by a
/// power of two near `far`.
pub fn norm_of_guess(s: &mut dyn SolveSteps, c: &Control, scale: f64, guess: bool, far: Option<f64>) -> f64 {
    let unit = far.map_or(1.0, power_of_two_below);
    // A fused load may omit the red values of x, which the residual on the whole grid needs.
    s.load(scale / unit, Load::Separate(guess));
    if !guess {
        s.combine(VectorId::X, 0.0, &[]);
    }
    unit * residual_norm_of_solution(s, c, scale / unit)
}

/// Sets x to the guess, which the caller's array still contains (0 if `guess` is false), and completes it by
/// `SolveSteps::back_substitute`. If CG runs on S1, the red values are computed from their equations. Returns max |x|
/// and the tested norm of b - A x.
pub fn complete_guess(s: &mut dyn SolveSteps, c: &Control, scale: f64, guess: bool) -> (f64, f64) {
    if guess {
        s.load(scale, Load::System(guess));
    } else {
        s.combine(VectorId::X, 0.0, &[]);
    }
    reduce_again(s, c, scale);
    complete_with_norm(s, c, scale)
}

/// Loads b from the caller's array. On a singular system, subtracts its means.
pub fn load_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) {
    s.load(scale, Load::Rhs);
    if c.is_singular() {
        s.means(VectorId::B, Means::Subtract);
    }
}

/// Loads b from the caller's array and reduces it to b1. Leaves r unchanged.
pub fn reduce_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) {
    load_again(s, c, scale);
    s.reduce(Eliminated::ReloadedRhs);
}

/// Stores output = 0. Overwrites x.
pub fn store_zero(s: &mut dyn SolveSteps) {
    s.combine(VectorId::X, 0.0, &[]);
    s.store(1.0);
}
