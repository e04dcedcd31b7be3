//! End of a run: completes x on the whole grid, and recomputes its residual from the caller's b and A.

use super::control::Control;
use crate::backend::steps::solve::SolveSteps;
use crate::backend::steps::vectors::VectorId;
use crate::runtime::number::power_of_two_below;
use crate::solver::krylov::Norm;

/// Completes x: computes its red values, and restores the means of the guess on singular components. Returns max |x|,
/// or NaN if any value is NaN.
pub fn returned(s: &mut dyn SolveSteps, c: &Control) -> f64 {
    let largest = s.back_substitute();
    if !c.singular() {
        return largest;
    }
    s.shift_means(true);
    s.largest(VectorId::X)
}

/// Completes x. Returns max |x| and the tested norm of b - A x on the whole grid.
pub fn completed(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> (f64, f64) {
    if c.plain() {
        let (largest, square) = s.complete(scale);
        return (largest, square.sqrt());
    }
    let largest = returned(s, c);
    (largest, returned_residual(s, c, scale))
}

/// Computes the tested norm of b - A x on the whole grid for a completed x. Loads b from the caller's array. On a
/// singular system, subtracts the means of b. May overwrite the reduced b1.
pub fn returned_residual(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> f64 {
    let true2 = c.norm == Norm::True2;
    let square = if c.singular() {
        load_again(s, c, scale);
        if true2 { s.whole_residual_norm2() } else { s.whole_residual_square(true) }
    } else if true2 {
        s.returned_residual_norm2(scale)
    } else {
        s.returned_residual_square(scale)
    };
    square.sqrt()
}

/// Computes r for the start of another run from a completed x. Returns <r, r>.
///
/// If CG runs on S1, b - A x is computed on the whole grid from the caller's matrix and then reduced to S1. The result
/// is more accurate than b1 - S1 x. If CG runs on A, r = b - A x.
pub fn start_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> f64 {
    load_again(s, c, scale);
    if !s.eliminates() {
        return s.residual();
    }
    s.rhs_to_residual();
    s.reduce();
    let norm2 = s.residual_from_rhs();
    reduce_again(s, c, scale);
    norm2
}

/// Computes the preconditioned norm of b - A x for the guess in the caller's array. Overwrites x and b.
///
/// `far` is the 2-norm of b - A x if this residual is outside the range of f32 sweeps. The system is then divided by a
/// power of two near `far`.
pub fn norm_as_given(s: &mut dyn SolveSteps, c: &Control, scale: f64, guess: bool, far: Option<f64>) -> f64 {
    let unit = far.map_or(1.0, power_of_two_below);
    // A fused step might omit the red values of x.
    s.one_by_one();
    s.load(scale / unit, guess);
    if !guess {
        s.clear(VectorId::X);
    }
    unit * returned_residual(s, c, scale / unit)
}

/// Sets x to the guess, which the caller's array still contains, and computes the red values from their equations.
/// Returns max |x| and the tested norm of b - A x.
pub fn complete_guess(s: &mut dyn SolveSteps, c: &Control, scale: f64, guess: bool) -> (f64, f64) {
    if guess {
        s.load(scale, true);
    } else {
        s.clear(VectorId::X);
    }
    reduce_again(s, c, scale);
    completed(s, c, scale)
}

/// Loads b from the caller's array. On a singular system, subtracts its means.
pub fn load_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) {
    s.load_rhs(scale);
    if c.singular() {
        s.project_rhs();
    }
}

/// Loads b from the caller's array and reduces it to b1. Leaves r unchanged.
pub fn reduce_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) {
    load_again(s, c, scale);
    s.reduce_again();
}
