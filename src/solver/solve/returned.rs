//! x as it is returned, its residual, and b again from the caller's array.

use super::control::Control;
use crate::backend::steps::solve::SolveSteps;
use crate::backend::steps::vectors::VectorId;
use crate::runtime::number::power_of_two_below;
use crate::solver::krylov::Norm;

/// x as it is returned, with its red values and the means of the guess. Returns max |x|, NaN if any value is.
pub fn returned(s: &mut dyn SolveSteps, c: &Control) -> f64 {
    let largest = s.back_substitute();
    if !c.singular() {
        return largest;
    }
    s.shift_means(true);
    s.largest(VectorId::X)
}

/// The same, and the tested norm of b - A x on the whole grid.
pub fn completed(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> (f64, f64) {
    if c.plain() {
        let (largest, square) = s.complete(scale);
        return (largest, square.sqrt());
    }
    let largest = returned(s, c);
    (largest, returned_residual(s, c, scale))
}

/// The tested norm of b - A x on the whole grid, of x as it is returned, from b as the caller has it, without its means
/// where singular. What `reduce` made of b may be gone then.
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

/// r of S1 as b - A x on the whole grid leaves it: summed from the caller's matrix it is nearer than b1 - S1 x, whose
/// rounding would be started from. Where CG runs on A, that itself. Returns <r, r>.
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

/// The preconditioned norm of b - A x of x as the caller has it. Far off (2-norm of b - A x given), of both scaled down
/// by that: sweeps in f32 hold no more. x and b here are spent.
pub fn norm_as_given(s: &mut dyn SolveSteps, c: &Control, scale: f64, guess: bool, far: Option<f64>) -> f64 {
    let unit = far.map_or(1.0, power_of_two_below);
    // Red values, too, which a start may leave out.
    s.one_by_one();
    s.load(scale / unit, guess);
    if !guess {
        s.clear(VectorId::X);
    }
    unit * returned_residual(s, c, scale / unit)
}

/// x = the guess, which the caller still has, with red values that solve their rows: max |x| and its residual's norm.
pub fn complete_guess(s: &mut dyn SolveSteps, c: &Control, scale: f64, guess: bool) -> (f64, f64) {
    if guess {
        s.load(scale, true);
    } else {
        s.clear(VectorId::X);
    }
    reduce_again(s, c, scale);
    completed(s, c, scale)
}

/// b as the caller has it, without its means where singular.
pub fn load_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) {
    s.load_rhs(scale);
    if c.singular() {
        s.project_rhs();
    }
}

/// b1 in place of b again, with r as it is.
pub fn reduce_again(s: &mut dyn SolveSteps, c: &Control, scale: f64) {
    load_again(s, c, scale);
    s.reduce_again();
}
