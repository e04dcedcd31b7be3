//! Parameters of the cycle on a hierarchy (docs/theory/aggregation.md, "Cycle").

use super::order::Order;

/// Parameters of a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// Order of the rows in a smoother sweep.
    pub order: Order,
    /// Number of coarse levels, counted from the finest of them, whose systems are solved by two cycles regardless of
    /// their size.
    pub levels: usize,
    /// On other levels, minimum number of rows for two cycles. Systems with fewer rows are solved by one cycle
    /// (V-cycle).
    pub rows: usize,
}

impl Choices {
    /// Choice for several threads. It reduces the error as much as two cycles on all levels, but visits small levels
    /// less often, because these do not profit from several threads.
    pub const PARALLEL: Self = Self { order: Order::Colours, levels: 3, rows: 3000 };

    /// Returns whether two cycles solve the system of coarse level k.
    pub fn is_solved_twice(&self, k: usize, rows: usize) -> bool {
        k <= self.levels || rows >= self.rows
    }
}

/// Bounds of the eigenvalues of B A, where B is the cycle, on every level. `HIGH` satisfies HIGH = 1 + 1 / T_2((HIGH +
/// LOW) / (HIGH - LOW)) with the Chebyshev polynomial T_2. If the eigenvalues on the coarser level are below `HIGH`,
/// those on this level are too. B is positive definite, because smoothing contracts in the A-norm. `LOW` follows from
/// the bound of mu, with a margin.
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
