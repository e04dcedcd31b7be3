//! Start of a solve: loads and scales the user's b and initial guess, and computes the norms of b and of the first
//! residual.

use super::control::{Control, F32_NORM_LIMIT, MAX_GUESS_RATIO, PROJECTED_TO_ZERO_FRACTION, check_finite};
use super::returned::restart_residual;
use crate::base::number::power_of_two_below;
use crate::error::{Error, RRB_ERR_INCOMPATIBLE, Result};
use crate::krylov::pcg::{MeansChange, subtract_means_from_residual};
use crate::krylov::solve_steps::{
    Criterion, EliminatedVector, Inputs, Load, SolveSteps, SquaredNorms, load_and_reduce,
};
use crate::krylov::vectors::{Iterate, VectorId};
use crate::krylov::{Norm, check_not_negative};

/// The user's right-hand side and guess after loading.
pub struct LoadedSystem<'c> {
    pub control: &'c Control<'c>,
    pub criterion: Criterion,
    /// max |b| of the user's b, before scaling.
    pub rhs_max: f64,
    /// The initial guess is nonzero.
    pub has_guess: bool,
    /// Power of two by which b and x are multiplied, so that squares of norms neither overflow nor underflow. Apart
    /// from this exact scaling, the iterates do not depend on `scale`.
    pub scale: f64,
    /// The residual of the guess is so much larger than b that f32 sweeps cannot represent both. PCG then starts from
    /// x = 0.
    pub exceeds_f32: bool,
    /// Norms that `load_and_reduce` computed. `None` if the system is singular, if the tested norm is the
    /// preconditioned norm, or if `exceeds_f32` is set.
    pub squared_norms: Option<SquaredNorms>,
    /// 2-norm of the scaled b on the whole grid.
    pub rhs_norm: f64,
}

/// Norms at the start of a solve, for the scaled system. `rhs_norm` and `initial_norm` use the tested norm.
pub struct Norms {
    /// Norm of b.
    pub rhs_norm: f64,
    /// Norm of b - A x for the guess.
    pub initial_norm: f64,
    /// 2-norm of b - A x on the whole grid.
    pub grid_norm: f64,
    /// The reference is the norm of a vector: b or the residual of the guess. If the tested norm is the preconditioned
    /// norm, this number is the 2-norm of that vector in the system that CG solves. Special values:
    ///
    /// - Zero if b is constant on each singular component, up to rounding.
    /// - Infinite if the tested norm is the 2-norm.
    /// - Infinite if the vector is the residual of the guess and `LoadedSystem::exceeds_f32` is set.
    pub reference_2norm: f64,
}

impl<'c> LoadedSystem<'c> {
    pub fn load(
        s: &mut dyn SolveSteps,
        control: &'c Control<'c>,
        criterion: Criterion,
        inputs: &Inputs,
    ) -> Result<Self> {
        // NaN counts as a nonzero guess, so that NaN does not become zero with check_input=0.
        let has_guess = inputs.guess_max != 0.0;
        let nearest_scale = power_of_two_below(inputs.rhs_max).recip();
        let is_near = |scale: &f64| (nearest_scale..=SCALE_RATIO_LIMIT * nearest_scale).contains(scale);
        let scale = inputs.scale.filter(is_near).unwrap_or(nearest_scale);
        if is_guess_too_large(inputs.guess_max, scale.recip(), control.matrix.center_max, MAX_GUESS_RATIO) {
            let allowed = format!(
                "be at most {MAX_GUESS_RATIO:e} * max abs(b) / max abs(diagonal of A) in magnitude as an \
                         initial guess"
            );
            return Err(Error::range("x", format!("{:e}", inputs.guess_max), allowed));
        }
        let exceeds_f32 = control.has_single_precision_sweeps
            && is_guess_too_large(inputs.guess_max, inputs.rhs_max, control.matrix.center_max, F32_NORM_LIMIT);
        let squared_norms = (control.can_fuse_ends() && !exceeds_f32).then(|| load_and_reduce(s, scale, has_guess));
        let load = |s: &mut dyn SolveSteps| s.load(scale, Load::System(has_guess)).0;
        let rhs_norm = squared_norms.map_or_else(|| load(s), |squared_norms| squared_norms.rhs_norm2).sqrt();
        Ok(Self { control, criterion, rhs_max: inputs.rhs_max, has_guess, scale, exceeds_f32, squared_norms, rhs_norm })
    }

    /// Checks whether b is compatible, stores the means of x over singular components, and subtracts from b its means.
    /// Returns |b|.
    pub fn project(&self, s: &mut dyn SolveSteps) -> Result<f64> {
        if self.control.checks_compatibility {
            check_compatible(s, self.control, self.scale)?;
        }
        s.change_means(VectorId::X, MeansChange::Store);
        s.change_means(VectorId::B, MeansChange::Subtract);
        Ok(s.inner_product(VectorId::B, VectorId::B).sqrt())
    }

    /// Computes the norms of b and of the residual of the guess. `rhs_norm` is the 2-norm of b. Afterwards, the reduced
    /// right-hand side b1 replaces b if CG runs on S1.
    pub fn norms(&self, s: &mut dyn SolveSteps, rhs_norm: f64) -> Result<Norms> {
        let grid_norm = match self.squared_norms {
            Some(squared_norms) => squared_norms.whole_residual_norm2.sqrt(),
            None if self.has_guess => s.whole_residual_norm2(None).sqrt(),
            None => rhs_norm,
        };
        check_finite("|b - A x|", grid_norm)?;
        if self.squared_norms.is_none() {
            s.reduce(EliminatedVector::Rhs);
        }
        match self.control.norm {
            Norm::True2 => Ok(Norms { rhs_norm, initial_norm: grid_norm, grid_norm, reference_2norm: f64::INFINITY }),
            Norm::Preconditioned => self.preconditioned_norms(s, grid_norm),
        }
    }

    fn preconditioned_norms(&self, s: &mut dyn SolveSteps, grid_norm: f64) -> Result<Norms> {
        let (control, scale) = (self.control, self.scale);
        s.residual(Iterate::Zero);
        let mut rhs_2norm = s.inner_product(VectorId::R, VectorId::R).sqrt();
        let constant_square = subtract_means(s, control).sqrt();
        let rhs_norm = preconditioned_norm(s, control)?;
        if rhs_norm < PROJECTED_TO_ZERO_FRACTION * constant_square {
            // Apart from rounding, r is constant on each singular component.
            rhs_2norm = 0.0;
        }
        let (initial_norm, guess_2norm) = if self.exceeds_f32 {
            (norm_beyond_f32(s, control, scale, grid_norm)?, f64::INFINITY)
        } else if self.has_guess {
            // On a singular system, the row sums of S1 are exactly zero. The row sums of the user's matrix may be
            // slightly different from zero. `restart_residual` uses the user's matrix, so that the residual contains
            // these row sums times the means of the guess.
            let norm2 = if control.is_singular() && s.properties().eliminates_red {
                restart_residual(s, control, scale)
            } else {
                s.residual(Iterate::X)
            };
            let constant_square = subtract_means(s, control);
            let projected_norm = preconditioned_norm(s, control)?;
            ((projected_norm * projected_norm + constant_square).sqrt(), norm2.sqrt())
        } else {
            (rhs_norm, rhs_2norm)
        };
        Ok(Norms {
            rhs_norm,
            initial_norm,
            grid_norm,
            reference_2norm: if control.is_reference_initial { guess_2norm } else { rhs_2norm },
        })
    }
}

/// A backend may begin a solve with the scale of the previous solve. This scale must be at least the scale of the new
/// b, and at most this factor times the scale of the new b. Both scales are powers of two, so the iterates are the same
/// apart from the scaling. Without this tolerance, a b that grows and decays between time steps would need a second
/// start whenever max |b| passes a power of two. kernels/rrb/solve.cuh has the same constant.
const SCALE_RATIO_LIMIT: f64 = 256.0;

/// b is incompatible if |sum b| exceeds this fraction of sum |b| on a singular component.
const COMPATIBLE_FRACTION: f64 = 1e-10;

/// Returns whether center_max * guess_max > limit * rhs_max. Logarithms avoid overflow of the products.
fn is_guess_too_large(guess_max: f64, rhs_max: f64, center_max: f64, limit: f64) -> bool {
    guess_max > 0.0 && center_max.log2() + guess_max.log2() > limit.log2() + rhs_max.log2()
}

fn check_compatible(s: &mut dyn SolveSteps, control: &Control, scale: f64) -> Result<()> {
    let (component, sum, norm1) = s.worst_incompatibility();
    if sum.abs() > COMPATIBLE_FRACTION * norm1 {
        return Err(Error::at(
            RRB_ERR_INCOMPATIBLE,
            format!("b sums to {:e} over the singular component of node ", sum / scale),
            control.matrix.locations.component(component),
            format!(
                ", more than {COMPATIBLE_FRACTION:e} times its sum of magnitudes {:e}; check_compatibility=0 \
                 projects b",
                norm1 / scale
            ),
        ));
    }
    Ok(())
}

/// Computes sqrt(r' M^-1 r) before the first iteration. On a singular system, r may be constant, so that rounding
/// determines the sign of r' M^-1 r. If M is definite, only rounding can make r' M^-1 r negative. In these two cases,
/// |r' M^-1 r| is used. In all other cases, a negative value is an error.
fn preconditioned_norm(s: &mut dyn SolveSteps, control: &Control) -> Result<f64> {
    let rho = s.precondition();
    Ok(check_not_negative(
        "r'M^-1 r",
        if control.is_singular() || control.is_preconditioner_definite { rho.abs() } else { rho },
        0,
    )?
    .sqrt())
}

/// Computes r = P r on a singular system. Returns `PcgSteps::weighted_square_of_means` of the r before the subtraction;
/// zero on a regular system.
fn subtract_means(s: &mut dyn SolveSteps, control: &Control) -> f64 {
    if control.is_singular() { subtract_means_from_residual(s).0 } else { 0.0 }
}

/// Computes the preconditioned norm of r for a guess outside the range of f32 sweeps. `residual_2norm` is the 2-norm of
/// r. b and x are divided by a power of two near `residual_2norm`. Since M^-1 is linear, this divides the norm by the
/// same power. Afterwards b is loaded with `scale` and reduced again, and x is 0.
fn norm_beyond_f32(s: &mut dyn SolveSteps, control: &Control, scale: f64, residual_2norm: f64) -> Result<f64> {
    let divisor = power_of_two_below(residual_2norm);
    let mut norm = 0.0;
    for (scale, guess) in [(scale / divisor, true), (scale, false)] {
        s.load(scale, Load::System(guess));
        if control.is_singular() {
            s.change_means(VectorId::B, MeansChange::Subtract);
        }
        s.reduce(EliminatedVector::Rhs);
        if guess {
            s.residual(Iterate::X);
            let constant_square = subtract_means(s, control);
            let projected_norm = preconditioned_norm(s, control)?;
            norm = divisor * (projected_norm * projected_norm + constant_square).sqrt();
        }
    }
    Ok(norm)
}
