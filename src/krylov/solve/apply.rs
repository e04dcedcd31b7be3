//! Single applications of M^-1 and of A to the caller's vector.

use super::control::{Control, check_finite, check_inputs, check_overflow};
use super::returned::store_zero;
use crate::base::number::power_of_two_below;
use crate::error::{Error, Result};
use crate::krylov::pcg::{Means, OtherPreconditioner};
use crate::krylov::solve_steps::{Eliminated, Load, SolveSteps};
use crate::krylov::vectors::{Iterate, VectorId};
use crate::report::Outcome;

/// Computes z = M^-1 r. If M depends on r, applies its fixed symmetric variant, if there is one
/// (`OtherPreconditioner::Linear`). On a singular system, computes z = P M^-1 P r, which is symmetric if M is
/// symmetric.
pub fn apply(s: &mut dyn SolveSteps, c: &Control) -> Result<Outcome> {
    let inputs = check_inputs(s, c, false, None)?;
    if inputs.rhs_max == 0.0 {
        store_zero(s);
        return Ok(Outcome::default());
    }
    check_finite("max |r|", inputs.rhs_max)?;
    let scale = power_of_two_below(inputs.rhs_max).recip();
    s.load(scale, Load::System(false));
    if c.is_singular() {
        s.means(VectorId::B, Means::Subtract);
    }
    s.reduce(Eliminated::Rhs);
    s.residual(Iterate::Zero);
    s.change_preconditioner(OtherPreconditioner::Linear);
    s.precondition();
    s.combine(VectorId::X, 0.0, &[(1.0, VectorId::Z)]);
    let (mut largest, _) = s.back_substitute(None);
    if c.is_singular() {
        s.means(VectorId::X, Means::Subtract);
        largest = s.largest(VectorId::X);
    }
    check_overflow(largest, scale)?;
    if largest > 0.0 && largest < f64::MIN_POSITIVE * scale {
        return Err(Error::Underflow { output: "z", name: "r", largest: inputs.rhs_max, center: c.matrix.center_max });
    }
    s.store(scale);
    Ok(Outcome::default())
}

/// Computes y = A x.
pub fn multiply(s: &mut dyn SolveSteps, c: &Control) -> Result<Outcome> {
    check_inputs(s, c, false, None)?;
    s.load(1.0, Load::System(false));
    s.multiply_rhs();
    check_overflow(s.largest(VectorId::X), 1.0)?;
    s.store(1.0);
    Ok(Outcome::default())
}
