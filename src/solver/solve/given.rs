//! How a solve begins: the caller's b and guess, and their norms.

use super::control::{Control, FAR_IN_F32, GUESS_TOO_FAR, PROJECTED_TO_ZERO, finite};
use super::returned::start_again;
use crate::backend::steps::solve::{Begun, Criterion, Inputs, SolveSteps};
use crate::backend::steps::vectors::VectorId;
use crate::error::{Error, RRB_ERR_INCOMPATIBLE, Result};
use crate::runtime::number::power_of_two_below;
use crate::solver::krylov::{Norm, not_negative};

/// What the caller gave, loaded.
pub struct Given<'c> {
    pub c: &'c Control<'c>,
    pub criterion: Criterion,
    /// max |b|, as given.
    pub rhs_max: f64,
    /// x is a guess, not zero.
    pub guess: bool,
    /// A power of two: the scaled system has the same iterates, and squares neither overflow nor vanish.
    pub scale: f64,
    /// f32 sweeps hold no residual of a guess so far off and that of the solution both: the way begins at zero, nearer.
    pub far: bool,
    /// Where the backend fuses what stands between `inspect` and PCG.
    pub begun: Option<Begun>,
    /// |b| on the whole grid, scaled.
    pub norm: f64,
}

/// Norms of what a solve begins with. All but `rest` and `size` are the tested one.
pub struct Norms {
    /// Of b.
    pub rhs: f64,
    /// Of b - A x of the guess.
    pub initial: f64,
    /// Its 2-norm on the whole grid.
    pub rest: f64,
    /// 2-norm of what residuals are relative to, where the tested norm is that of the papers; else infinite.
    pub size: f64,
}

impl<'c> Given<'c> {
    pub fn load(s: &mut dyn SolveSteps, c: &'c Control<'c>, criterion: Criterion, inputs: &Inputs) -> Result<Self> {
        // NaN counts as a guess, so that it is not taken for zero where nobody checks the input.
        let guess = inputs.guess_max != 0.0;
        let scale = s.scale(power_of_two_below(inputs.rhs_max).recip());
        if too_far(inputs.guess_max, scale.recip(), c.seen.center_max, GUESS_TOO_FAR) {
            let allowed = format!(
                "be at most {GUESS_TOO_FAR:e} * max abs(b) / max abs(diagonal of A) in magnitude as an \
                         initial guess"
            );
            return Err(Error::range("x", format!("{:e}", inputs.guess_max), allowed));
        }
        let far = c.short && too_far(inputs.guess_max, inputs.rhs_max, c.seen.center_max, FAR_IN_F32);
        let begun = (c.plain() && !far).then(|| s.begin(scale, guess));
        let norm = begun.map_or_else(|| s.load(scale, guess), |begun| begun.rhs_norm2).sqrt();
        Ok(Self { c, criterion, rhs_max: inputs.rhs_max, guess, scale, far, begun, norm })
    }

    /// b without its means over singular components. Returns |b|.
    pub fn project(&self, s: &mut dyn SolveSteps) -> Result<f64> {
        if self.c.check_compatibility {
            check_compatible(s, self.c, self.scale)?;
        }
        s.keep_means();
        s.project_rhs();
        Ok(s.inner(VectorId::B, VectorId::B).sqrt())
    }

    /// Norms of b, whose 2-norm is `rhs`, and of the residual of the guess. b is reduced after that.
    pub fn norms(&self, s: &mut dyn SolveSteps, rhs: f64) -> Result<Norms> {
        let rest = match self.begun {
            Some(begun) => begun.whole_residual_norm2.sqrt(),
            None if self.guess => s.whole_residual_norm2().sqrt(),
            None => rhs,
        };
        finite("|b - A x|", rest)?;
        if self.begun.is_none() {
            s.reduce();
        }
        match self.c.norm {
            Norm::True2 => Ok(Norms { rhs, initial: rest, rest, size: f64::INFINITY }),
            Norm::Preconditioned => self.preconditioned_norms(s, rest),
        }
    }

    fn preconditioned_norms(&self, s: &mut dyn SolveSteps, rest: f64) -> Result<Norms> {
        let (c, scale) = (self.c, self.scale);
        s.residual_from_rhs();
        let mut size = s.inner(VectorId::R, VectorId::R).sqrt();
        let constant = centered(s, c).sqrt();
        let rhs = preconditioned_norm(s, c)?;
        if rhs < PROJECTED_TO_ZERO * constant {
            // S1 is left with constants alone.
            size = 0.0;
        }
        let (initial, of_guess) = if self.far {
            (far_norm(s, c, scale, rest)?, f64::INFINITY)
        } else if self.guess {
            // On a singular system S1 has row sums of zero; those of the caller's matrix count times the means of the
            // guess.
            let norm2 = if c.singular() && s.eliminates() { start_again(s, c, scale) } else { s.residual() };
            let constant = centered(s, c);
            let of_rest = preconditioned_norm(s, c)?;
            ((of_rest * of_rest + constant).sqrt(), norm2.sqrt())
        } else {
            (rhs, size)
        };
        Ok(Norms { rhs, initial, rest, size: if c.reference_initial { of_guess } else { size } })
    }
}

/// Sums of b over singular components beyond this part of the sum of magnitudes are incompatible.
const COMPATIBLE: f64 = 1e-10;

/// center * guess > limit * b, where no product need fit a double.
fn too_far(guess: f64, b: f64, center: f64, limit: f64) -> bool {
    guess > 0.0 && center.log2() + guess.log2() > limit.log2() + b.log2()
}

fn check_compatible(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> Result<()> {
    let (component, sum, norm1) = s.worst_incompatibility();
    if sum.abs() > COMPATIBLE * norm1 {
        return Err(Error::at(
            RRB_ERR_INCOMPATIBLE,
            format!("b sums to {:e} over the singular component of node ", sum / scale),
            c.seen.places.component(component),
            format!(
                ", more than {COMPATIBLE:e} times its sum of magnitudes {:e}; check_compatibility=0 projects b",
                norm1 / scale
            ),
        ));
    }
    Ok(())
}

/// sqrt(r' M^-1 r) before the first iteration. On a singular system r may be a constant, and the sign of the square
/// rounding; where M is definite no other is seen.
fn preconditioned_norm(s: &mut dyn SolveSteps, c: &Control) -> Result<f64> {
    let rho = s.precondition();
    Ok(not_negative("r'M^-1 r", if c.singular() || c.definite { rho.abs() } else { rho }, 0)?.sqrt())
}

/// r = P r where constants are projected out. Returns the square of what P removes, in the norm of D^-1.
fn centered(s: &mut dyn SolveSteps, c: &Control) -> f64 {
    if c.singular() { s.center_residual().removed } else { 0.0 }
}

/// sqrt(r' M^-1 r) of a far guess, `size` the 2-norm of r: of r near one, which M^-1, being linear, takes as well. b is
/// loaded and reduced again after that, by `scale`.
fn far_norm(s: &mut dyn SolveSteps, c: &Control, scale: f64, size: f64) -> Result<f64> {
    let unit = power_of_two_below(size);
    let mut norm = 0.0;
    for (scale, guess) in [(scale / unit, true), (scale, false)] {
        s.load(scale, guess);
        if c.singular() {
            s.project_rhs();
        }
        s.reduce();
        if guess {
            s.residual();
            let constant = centered(s, c);
            let projected = preconditioned_norm(s, c)?;
            norm = unit * (projected * projected + constant).sqrt();
        }
    }
    Ok(norm)
}
