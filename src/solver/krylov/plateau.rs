//! A preconditioner that contracts at any coefficients leaves a residual standing still where rounding allows no less.
//! The recurred residual may stand just above the threshold then, and grow again after a while; the recomputed one
//! tells what was reached.

use super::state::Iteration;

/// The least residual since a start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plateau {
    least: f64,
    /// Iterations done there.
    at: usize,
}

impl Plateau {
    /// Iterations without a lower residual: a cycle of aggregation takes three or four for a digit, and contrasts of
    /// 1e6 may begin with twenty that lower nothing. Standing still grows into a loss after 50 or more.
    pub(super) const LONG: usize = 40;
    /// Lower by so much.
    pub(super) const LOWER: f64 = 0.7;
    /// Of the reference: above, the 2-norm may stand still while the energy of the error falls.
    pub(super) const NEAR_ROUNDING: f64 = 1e-4;

    pub(super) fn start(at: &Iteration) -> Self {
        Self { least: at.norm, at: at.iterations }
    }

    /// Notes a residual. Whether it has stood still for long, of a preconditioner that `contracts`.
    pub(super) fn is_long(&mut self, at: &Iteration, contracts: bool, reference: f64) -> bool {
        if at.norm <= Self::LOWER * self.least {
            *self = Self::start(at);
        }
        contracts && at.iterations >= self.at + Self::LONG && self.least <= Self::NEAR_ROUNDING * reference
    }
}
