//! Start of a solve: loads and scales the caller's b and initial guess, and computes their norms.

use super::control::{Control, FAR_IN_F32, GUESS_TOO_FAR, PROJECTED_TO_ZERO, check_finite};
use super::returned::start_again;
use crate::base::number::power_of_two_below;
use crate::error::{Error, RRB_ERR_INCOMPATIBLE, Result};
use crate::krylov::pcg::{Means, subtract_means_from_residual};
use crate::krylov::solve_steps::{Criterion, Eliminated, Inputs, Load, SolveSteps, SquaredNorms, begin};
use crate::krylov::vectors::{Iterate, VectorId};
use crate::krylov::{Norm, check_not_negative};

/// Caller's right-hand side and guess after loading.
pub struct Given<'c> {
    pub c: &'c Control<'c>,
    pub criterion: Criterion,
    /// max |b| in the caller's unit.
    pub rhs_max: f64,
    /// The initial guess is nonzero.
    pub guess: bool,
    /// Power of two that multiplies b and x. Squares then neither overflow nor underflow. The iterates are unchanged,
    /// apart from the exact scaling.
    pub scale: f64,
    /// The residual of the guess is so much larger than b that f32 sweeps cannot represent both. PCG then starts from
    /// zero.
    pub exceeds_f32: bool,
    /// Norms that `begin` computed. `None` on a singular system, with the preconditioned norm, or if `exceeds_f32` is
    /// set.
    pub squared_norms: Option<SquaredNorms>,
    /// 2-norm of the scaled b on the whole grid.
    pub norm: f64,
}

/// Norms at the start of a solve, for the scaled system. `rhs` and `initial` use the tested norm.
pub struct Norms {
    /// Norm of b.
    pub rhs: f64,
    /// Norm of b - A x for the guess.
    pub initial: f64,
    /// 2-norm of b - A x on the whole grid.
    pub whole: f64,
    /// With the preconditioned norm: 2-norm of the vector whose norm is the reference, in the system that CG solves.
    /// This vector is b or the residual of the guess. Zero if b is constant on each singular component, up to rounding.
    /// Infinite with the 2-norm, and for the residual of a guess with `Given::exceeds_f32`.
    pub reference_norm2: f64,
}

impl<'c> Given<'c> {
    pub fn load(s: &mut dyn SolveSteps, c: &'c Control<'c>, criterion: Criterion, inputs: &Inputs) -> Result<Self> {
        // NaN counts as a nonzero guess, so that NaN does not become zero with check_input=0.
        let guess = inputs.guess_max != 0.0;
        let nearest = power_of_two_below(inputs.rhs_max).recip();
        let near = |scale: &f64| (nearest..=NEAR_SCALE * nearest).contains(scale);
        let scale = inputs.scale.filter(near).unwrap_or(nearest);
        if too_far(inputs.guess_max, scale.recip(), c.matrix.center_max, GUESS_TOO_FAR) {
            let allowed = format!(
                "be at most {GUESS_TOO_FAR:e} * max abs(b) / max abs(diagonal of A) in magnitude as an \
                         initial guess"
            );
            return Err(Error::range("x", format!("{:e}", inputs.guess_max), allowed));
        }
        let exceeds_f32 = c.single_sweeps && too_far(inputs.guess_max, inputs.rhs_max, c.matrix.center_max, FAR_IN_F32);
        let squared_norms = (c.can_fuse_ends() && !exceeds_f32).then(|| begin(s, scale, guess));
        let load = |s: &mut dyn SolveSteps| s.load(scale, Load::System(guess)).0;
        let norm = squared_norms.map_or_else(|| load(s), |squared_norms| squared_norms.rhs_norm2).sqrt();
        Ok(Self { c, criterion, rhs_max: inputs.rhs_max, guess, scale, exceeds_f32, squared_norms, norm })
    }

    /// Checks whether b is compatible, stores the means of x over singular components, and subtracts from b its means.
    /// Returns |b|.
    pub fn project(&self, s: &mut dyn SolveSteps) -> Result<f64> {
        if self.c.check_compatibility {
            check_compatible(s, self.c, self.scale)?;
        }
        s.means(VectorId::X, Means::Store);
        s.means(VectorId::B, Means::Subtract);
        Ok(s.inner(VectorId::B, VectorId::B).sqrt())
    }

    /// Computes the norms of b and of the residual of the guess. `rhs` is the 2-norm of b. Afterwards, the reduced
    /// right-hand side b1 replaces b if CG runs on S1.
    pub fn norms(&self, s: &mut dyn SolveSteps, rhs: f64) -> Result<Norms> {
        let whole = match self.squared_norms {
            Some(squared_norms) => squared_norms.whole_residual_norm2.sqrt(),
            None if self.guess => s.whole_residual_norm2(None).sqrt(),
            None => rhs,
        };
        check_finite("|b - A x|", whole)?;
        if self.squared_norms.is_none() {
            s.reduce(Eliminated::Rhs);
        }
        match self.c.norm {
            Norm::True2 => Ok(Norms { rhs, initial: whole, whole, reference_norm2: f64::INFINITY }),
            Norm::Preconditioned => self.preconditioned_norms(s, whole),
        }
    }

    fn preconditioned_norms(&self, s: &mut dyn SolveSteps, whole: f64) -> Result<Norms> {
        let (c, scale) = (self.c, self.scale);
        s.residual(Iterate::Zero);
        let mut size = s.inner(VectorId::R, VectorId::R).sqrt();
        let constant = subtract_means(s, c).sqrt();
        let rhs = preconditioned_norm(s, c)?;
        if rhs < PROJECTED_TO_ZERO * constant {
            // Apart from rounding, r is constant on each singular component.
            size = 0.0;
        }
        let (initial, of_guess) = if self.exceeds_f32 {
            (far_norm(s, c, scale, whole)?, f64::INFINITY)
        } else if self.guess {
            // On a singular system, the row sums of S1 are exactly zero. The row sums of the caller's matrix may be
            // slightly different from zero. `start_again` uses the caller's matrix, so that these row sums times the
            // means of the guess are part of the residual.
            let norm2 = if c.is_singular() && s.properties().eliminates {
                start_again(s, c, scale)
            } else {
                s.residual(Iterate::X)
            };
            let constant = subtract_means(s, c);
            let of_rest = preconditioned_norm(s, c)?;
            ((of_rest * of_rest + constant).sqrt(), norm2.sqrt())
        } else {
            (rhs, size)
        };
        Ok(Norms { rhs, initial, whole, reference_norm2: if c.reference_initial { of_guess } else { size } })
    }
}

/// A backend may begin a solve with the scale of the previous solve. This constant limits the ratio of that scale to
/// the scale of the new b. Both scales are powers of two and give the same iterates. Without this tolerance, a b that
/// grows and decays between time steps would need a second start whenever max |b| passes a power of two.
/// kernels/rrb/solve.cuh has the same constant.
const NEAR_SCALE: f64 = 256.0;

/// b is incompatible if |sum b| exceeds this fraction of sum |b| on a singular component.
const COMPATIBLE: f64 = 1e-10;

/// Returns whether center * guess > limit * b. Logarithms avoid overflow of the products.
fn too_far(guess: f64, b: f64, center: f64, limit: f64) -> bool {
    guess > 0.0 && center.log2() + guess.log2() > limit.log2() + b.log2()
}

fn check_compatible(s: &mut dyn SolveSteps, c: &Control, scale: f64) -> Result<()> {
    let (component, sum, norm1) = s.worst_incompatibility();
    if sum.abs() > COMPATIBLE * norm1 {
        return Err(Error::at(
            RRB_ERR_INCOMPATIBLE,
            format!("b sums to {:e} over the singular component of node ", sum / scale),
            c.matrix.locations.component(component),
            format!(
                ", more than {COMPATIBLE:e} times its sum of magnitudes {:e}; check_compatibility=0 projects b",
                norm1 / scale
            ),
        ));
    }
    Ok(())
}

/// Computes sqrt(r' M^-1 r) before the first iteration. On a singular system r may be constant, so that rounding
/// determines the sign of r' M^-1 r. If M is definite, only rounding can make r' M^-1 r negative. The magnitude is used
/// in both cases. In all other cases, a negative value is an error.
fn preconditioned_norm(s: &mut dyn SolveSteps, c: &Control) -> Result<f64> {
    let rho = s.precondition();
    Ok(check_not_negative("r'M^-1 r", if c.is_singular() || c.definite { rho.abs() } else { rho }, 0)?.sqrt())
}

/// Computes r = P r on a singular system. Returns `PcgSteps::weighted_square_of_means` of the given r; zero on a
/// regular system.
fn subtract_means(s: &mut dyn SolveSteps, c: &Control) -> f64 {
    if c.is_singular() { subtract_means_from_residual(s).0 } else { 0.0 }
}

/// Computes the preconditioned norm of r for a guess outside the range of f32 sweeps. `size` is the 2-norm of r. The
/// system is divided by a power of two near `size`. Since M^-1 is linear, this divides the norm by the same factor.
/// Afterwards b is loaded with `scale` and reduced again, and x is 0.
fn far_norm(s: &mut dyn SolveSteps, c: &Control, scale: f64, size: f64) -> Result<f64> {
    let unit = power_of_two_below(size);
    let mut norm = 0.0;
    for (scale, guess) in [(scale / unit, true), (scale, false)] {
        s.load(scale, Load::System(guess));
        if c.is_singular() {
            s.means(VectorId::B, Means::Subtract);
        }
        s.reduce(Eliminated::Rhs);
        if guess {
            s.residual(Iterate::X);
            let constant = subtract_means(s, c);
            let projected = preconditioned_norm(s, c)?;
            norm = unit * (projected * projected + constant).sqrt();
        }
    }
    Ok(norm)
}
