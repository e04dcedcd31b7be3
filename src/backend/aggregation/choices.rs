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
