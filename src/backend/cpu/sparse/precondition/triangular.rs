//! Triangular systems with unit diagonals by a team, level by level.

use super::apply::{Apply, WHAT};
use super::split::{Part, Split};
use crate::backend::cpu::sparse::levels::by_levels;
use crate::backend::cpu::sparse::stages::{Order, Stages};
use crate::backend::cpu::sparse::values::Values;
use crate::error::{Result, reserve, zeroed};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index, accumulate};

/// M^-1 of a `Split`, to rounding.
pub struct Solved<I> {
    order: Order<I>,
    stages: Stages,
    /// Rows of the triangles in the order of work, by places.
    lower: Part<I>,
    upper: Part<I>,
    scale: Vec<f64>,
}

impl<I: Index> Solved<I> {
    /// `split` has no entries but where A or A' has.
    pub fn new(a: &Csr<I>, split: Split<I>) -> Result<Self> {
        let order = by_levels(a)?;
        let Split { lower, upper, scale } = split;
        let lower = sorted(lower, &order.rows)?;
        let upper = sorted(upper, &order.rows)?;
        let stages = Stages::new(&order.levels, |unit| work(&lower, order.units[unit]))?;
        Ok(Self { order, stages, lower, upper, scale })
    }

    /// How many there are.
    pub fn levels(&self) -> usize {
        self.order.levels.len() - 1
    }

    /// x_i = first(i) - sum over j of t_ij x_j for all rows, from the first to the last, or back. The sum goes by
    /// ascending columns. Starts and ends as `Stages::run` does.
    fn solve(&self, me: &Me, t: &Part<I>, backward: bool, x: Values, first: impl Fn(usize) -> f64) {
        let row = |place: usize| {
            let i = self.order.rows[place].at();
            let entries = t.ptr[place]..t.ptr[place + 1];
            let (col, val) = (&t.col[entries.clone()], &t.val[entries]);
            // SAFETY: members write only rows of this stage meanwhile, each those of its own units, and row i reads no
            // others of the stage: its columns are in this unit or in other levels, since levels are those of A + A'
            // (`Solved::new`). Joined levels are one member's.
            let sum = col.iter().zip(val).fold(0.0, |sum, (j, t)| sum + t * unsafe { x.get(j.at()) });
            // SAFETY: as above; `first` reads no other value of x than this.
            unsafe { x.set(i, first(i) - sum) };
        };
        let units = &self.order.units;
        self.stages.run(
            me,
            backward,
            |unit| work(&self.lower, units[unit]),
            |unit| {
                let places = units[unit]..units[unit + 1];
                if backward {
                    places.rev().for_each(row);
                } else {
                    places.for_each(row);
                }
            },
        );
    }
}

/// Rows and entries before a place.
fn work<I>(t: &Part<I>, place: usize) -> usize {
    place + t.ptr[place]
}

/// The rows in this order.
fn sorted<I: Index>(t: Part<I>, order: &[I]) -> Result<Part<I>> {
    let mut ptr = zeroed(order.len() + 1, WHAT)?;
    for (place, row) in order.iter().enumerate() {
        ptr[place + 1] = t.ptr[row.at() + 1] - t.ptr[row.at()];
    }
    accumulate(&mut ptr);
    let (mut col, mut val) = (Vec::new(), Vec::new());
    reserve(&mut col, t.col.len(), WHAT)?;
    reserve(&mut val, t.val.len(), WHAT)?;
    for row in order {
        let entries = t.ptr[row.at()]..t.ptr[row.at() + 1];
        col.extend_from_slice(&t.col[entries.clone()]);
        val.extend_from_slice(&t.val[entries]);
    }
    Ok(Part { ptr, col, val })
}

impl<I: Index> Apply for Solved<I> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let x = Values::of(to);
        // SAFETY: nobody writes `from` meanwhile (`Apply::apply`).
        let from = unsafe { from.slice(0, self.scale.len()) };
        self.solve(me, &self.lower, false, x, |i| from[i]);
        // SAFETY: x_i is this member's to read and write in its stage.
        self.solve(me, &self.upper, true, x, |i| self.scale[i] * unsafe { x.get(i) });
    }

    fn bytes(&self) -> usize {
        let parts = self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.scale);
        parts + self.order.bytes() + self.stages.bytes()
    }
}
