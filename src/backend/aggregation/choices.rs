//! What a cycle does with a hierarchy.

use super::order::Order;

/// Its choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// Of the rows in a sweep.
    pub order: Order,
    /// Coarse levels, from the first, whose system is solved by two cycles (K), however small they are.
    pub levels: usize,
    /// Rows from which on other levels are, too; below there it is one (V).
    pub rows: usize,
}

impl Choices {
    /// As good as two cycles everywhere, with fewer visits to levels that do not pay for a team.
    pub const PARALLEL: Self = Self { order: Order::Colours, levels: 3, rows: 3000 };

    /// Whether two cycles solve the system of coarse level k.
    pub fn is_solved_twice(&self, k: usize, rows: usize) -> bool {
        k <= self.levels || rows >= self.rows
    }
}

/// Bounds of the eigenvalues of B A on every level. Below `HIGH` = 1 + 1 / T2((HIGH + LOW) / (HIGH - LOW)) they stay
/// there, whatever those of the coarser level below `HIGH` are, and B is definite, since smoothing contracts in the
/// norm of A; `LOW` is what the bound of mu leaves, with room.
const LOW: f64 = 0.3;
const HIGH: f64 = 1.225;

/// AMLI: two Chebyshev steps for eigenvalues of B A in [`LOW`, `HIGH`], with c = B r, d = B (r - `left` A c) and
/// z = `first` c + `second` d.
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
