//! Single applications of M^-1 and of A to the user's vector.

use super::control::{Control, check_finite, check_inputs, check_overflow};
use super::returned::store_zero;
use crate::base::number::power_of_two_below;
use crate::error::{Error, Result};
use crate::krylov::pcg::{MeansChange, OtherPreconditioner};
use crate::krylov::solve_steps::{EliminatedVector, Load, SolveSteps};
use crate::krylov::vectors::{Iterate, VectorId};
use crate::report::Outcome;

/// Computes z = M^-1 r. If M depends on r, applies its fixed symmetric variant, if there is one
/// (`OtherPreconditioner::Linear`). On a singular system, computes z = P M^-1 P r, which is symmetric if M is
/// symmetric.
pub fn apply(s: &mut dyn SolveSteps, control: &Control) -> Result<Outcome> {
    let inputs = check_inputs(s, control, false, None)?;
    if inputs.rhs_max == 0.0 {
        store_zero(s);
        return Ok(Outcome::default());
    }
    check_finite("max |r|", inputs.rhs_max)?;
    let scale = power_of_two_below(inputs.rhs_max).recip();
    s.load(scale, Load::System(false));
    if control.is_singular() {
        s.change_means(VectorId::B, MeansChange::Subtract);
    }
    s.reduce(EliminatedVector::Rhs);
    s.residual(Iterate::Zero);
    s.change_preconditioner(OtherPreconditioner::Linear);
    s.precondition();
    s.combine(VectorId::X, 0.0, &[(1.0, VectorId::Z)]);
    let (mut x_max, _) = s.back_substitute(None);
    if control.is_singular() {
        s.change_means(VectorId::X, MeansChange::Subtract);
        x_max = s.max_abs(VectorId::X);
    }
    check_overflow(x_max, scale)?;
    if x_max > 0.0 && x_max < f64::MIN_POSITIVE * scale {
        return Err(Error::Underflow {
            output_name: "z",
            input_name: "r",
            input_max: inputs.rhs_max,
            center_max: control.matrix.center_max,
        });
    }
    s.store(scale);
    Ok(Outcome::default())
}

/// Computes y = A x.
pub fn multiply(s: &mut dyn SolveSteps, control: &Control) -> Result<Outcome> {
    check_inputs(s, control, false, None)?;
    s.load(1.0, Load::System(false));
    s.multiply_rhs();
    check_overflow(s.max_abs(VectorId::X), 1.0)?;
    s.store(1.0);
    Ok(Outcome::default())
}
