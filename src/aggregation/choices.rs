//! Parameters of the cycle on a hierarchy (docs/theory/aggregation.md, "Cycle").

use super::order::Order;

/// Parameters of a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// Order of the rows in a smoother sweep.
    pub order: Order,
    /// On this many coarse levels, from the finest on, two cycles solve the system, regardless of its size.
    pub levels: usize,
    /// On the other coarse levels, two cycles solve systems with at least this number of rows. One cycle solves smaller
    /// systems (V-cycle).
    pub rows: usize,
}

impl Choices {
    /// Parameters for several threads. With these parameters, a cycle reduces the error as much as with two cycles on
    /// all levels, but visits small levels less often, because these do not profit from several threads.
    pub const PARALLEL: Self = Self { order: Order::Colours, levels: 3, rows: 3000 };

    /// Returns whether two cycles solve the system of coarse level k.
    pub fn is_solved_twice(&self, k: usize, rows: usize) -> bool {
        k <= self.levels || rows >= self.rows
    }
}

/// Bounds of the eigenvalues of B A on every level, where B is the cycle. `HIGH` satisfies HIGH = 1 + 1 / T_2((HIGH +
/// LOW) / (HIGH - LOW)) with the Chebyshev polynomial T_2. If the eigenvalues on the coarser level are below `HIGH`,
/// those on this level are too. B is positive definite, because smoothing contracts in the A-norm. `LOW` follows from
/// kappa, the bound of mu (`Rules::kappa`), with a margin.
const LOW: f64 = 0.3;
const HIGH: f64 = 1.225;

/// Coefficients of the AMLI-cycle: two Chebyshev steps for eigenvalues of B A in [`LOW`, `HIGH`]. The steps compute c =
/// B r, d = B (r - `left` A c) and z = `first` c + `second` d.
pub struct TwoSteps {
    pub left: f64,
    pub first: f64,
    pub second: f64,
}

impl TwoSteps {
    pub const CHOSEN: Self = {
        let (t, h) = (0.5 * (LOW + HIGH), 0.5 * (HIGH - LOW));
        let q = h / t;
        let p = 1.0 / (2.0 / q - q);
        Self { left: 1.0 / t, first: (1.0 + p * q) / t, second: 2.0 * p / h }
    };
}
