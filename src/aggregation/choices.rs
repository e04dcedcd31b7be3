//! Parameters of the cycle on a hierarchy (docs/theory/aggregation.md, "Cycle").

use super::order::SweepOrder;

/// Parameters of a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleParameters {
    /// Order of the rows in a smoother sweep.
    pub order: SweepOrder,
    /// Number of coarse levels, from the finest coarse level on, on which two cycles solve the system regardless of its
    /// size.
    pub two_cycle_levels: usize,
    /// On the other coarse levels, two cycles solve systems with at least this number of rows. One cycle solves smaller
    /// systems (V-cycle).
    pub two_cycle_rows: usize,
}

impl CycleParameters {
    /// Parameters for several threads. A cycle reduces the error as much as with two cycles on all levels. It visits
    /// small levels less often, because these do not profit from several threads.
    pub const PARALLEL: Self = Self { order: SweepOrder::Colours, two_cycle_levels: 3, two_cycle_rows: 3000 };

    /// Returns whether two cycles solve the system of this coarse level.
    pub fn uses_two_cycles(&self, level: usize, rows: usize) -> bool {
        level <= self.two_cycle_levels || rows >= self.two_cycle_rows
    }
}

/// Bounds of the eigenvalues of B A on every level, where A is the matrix of the level and B the operator of the cycle,
/// z = B r. Let l = `LOWEST_EIGENVALUE` and h = `HIGHEST_EIGENVALUE`. The bound h satisfies
///
/// ```text
/// h = 1 + 1 / T_2((h + l) / (h - l))   with the Chebyshev polynomial T_2.
/// ```
///
/// If the eigenvalues on the next coarser level are below h, those on this level are too. B is positive definite,
/// because smoothing contracts in the A-norm. l follows from kappa, the bound of mu (`AggregationRules::kappa`), with a
/// margin.
const LOWEST_EIGENVALUE: f64 = 0.3;
const HIGHEST_EIGENVALUE: f64 = 1.225;

/// Coefficients of the AMLI-cycle: two Chebyshev steps for eigenvalues of B A from `LOWEST_EIGENVALUE` to
/// `HIGHEST_EIGENVALUE`. With the operator B of the cycle, the steps compute
///
/// ```text
/// c = B r,   d = B (r - residual_factor A c),   z = first_weight c + second_weight d.
/// ```
pub struct ChebyshevSteps {
    pub residual_factor: f64,
    pub first_weight: f64,
    pub second_weight: f64,
}

impl ChebyshevSteps {
    pub const COEFFICIENTS: Self = {
        let (t, h) = (0.5 * (LOWEST_EIGENVALUE + HIGHEST_EIGENVALUE), 0.5 * (HIGHEST_EIGENVALUE - LOWEST_EIGENVALUE));
        let q = h / t;
        let p = 1.0 / (2.0 / q - q);
        Self { residual_factor: 1.0 / t, first_weight: (1.0 + p * q) / t, second_weight: 2.0 * p / h }
    };
}
