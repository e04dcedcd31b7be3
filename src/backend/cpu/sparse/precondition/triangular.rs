//! Triangular systems with unit diagonals by a team, level by level.

use super::apply::{Apply, Purpose, WHAT};
use super::split::{Part, Split};
use crate::backend::cpu::sparse::stages::{Order, Stages};
use crate::backend::cpu::sparse::values::Values;
use crate::error::{Result, reserve, zeroed};
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Index, accumulate};

/// (I + T) with T a strict triangle, its rows in the order of work: those of a level do not read one another.
struct Triangle<I> {
    /// The row at each place.
    row: Vec<I>,
    ptr: Vec<usize>,
    col: Vec<I>,
    val: Vec<f64>,
    stages: Stages,
    levels: usize,
}

impl<I: Index> Triangle<I> {
    /// `upper`: of an upper triangle. One member does the rows as they come, whatever their levels.
    fn new(t: &Part<I>, upper: bool, members: usize) -> Result<Self> {
        let rows = t.rows();
        let mut level = zeroed::<I>(rows, WHAT)?;
        let mut levels = 0;
        for step in 0..rows {
            let i = if upper { rows - 1 - step } else { step };
            let own = t.row(i).map(|(j, _)| level[j].at() + 1).max().unwrap_or(0);
            level[i] = I::of(own);
            levels = levels.max(own + 1);
        }
        let order = if members > 1 { Order::new(&level, levels)? } else { in_turn(rows, upper)? };
        let mut ptr = zeroed(rows + 1, WHAT)?;
        for (place, row) in order.rows.iter().enumerate() {
            ptr[place + 1] = t.ptr[row.at() + 1] - t.ptr[row.at()];
        }
        accumulate(&mut ptr);
        let (mut col, mut val) = (Vec::new(), Vec::new());
        reserve(&mut col, t.col.len(), WHAT)?;
        reserve(&mut val, t.val.len(), WHAT)?;
        for row in &order.rows {
            let entries = t.ptr[row.at()]..t.ptr[row.at() + 1];
            col.extend_from_slice(&t.col[entries.clone()]);
            val.extend_from_slice(&t.val[entries]);
        }
        let stages = Stages::new(&order.starts, |place| place + ptr[place])?;
        Ok(Self { row: order.rows, ptr, col, val, stages, levels })
    }

    /// x_i = first(i) - sum over j of t_ij x_j for all rows. The sum goes by ascending columns. Starts and ends as
    /// `Stages::run` does.
    fn solve(&self, me: &Me, x: Values, first: impl Fn(usize) -> f64) {
        self.stages.run(
            me,
            false,
            |place| place + self.ptr[place],
            |place| {
                let i = self.row[place].at();
                let entries = self.ptr[place]..self.ptr[place + 1];
                let (col, val) = (&self.col[entries.clone()], &self.val[entries]);
                // SAFETY: members write only rows of this stage meanwhile, each its own, and row i reads none of those:
                // its columns are in levels before (`Triangle::new`). Joined levels are one member's.
                let sum = col.iter().zip(val).fold(0.0, |sum, (j, t)| sum + t * unsafe { x.get(j.at()) });
                // SAFETY: as above, and `first` reads no other value of x.
                unsafe { x.set(i, first(i) - sum) };
            },
        );
    }

    fn bytes(&self) -> usize {
        let arrays = size_of_val(&*self.row) + size_of_val(&*self.ptr) + size_of_val(&*self.col);
        arrays + size_of_val(&*self.val) + self.stages.bytes()
    }
}

/// Rows from the first to the last, or (`upper`) from the last to the first, as one level.
fn in_turn<I: Index>(rows: usize, upper: bool) -> Result<Order<I>> {
    let (mut order, mut starts) = (zeroed::<I>(rows, WHAT)?, zeroed(2, WHAT)?);
    for (place, row) in order.iter_mut().enumerate() {
        *row = I::of(if upper { rows - 1 - place } else { place });
    }
    starts[1] = rows;
    Ok(Order { rows: order, starts })
}

/// M^-1 of a `Split`, to rounding.
pub struct Solved<I> {
    lower: Triangle<I>,
    upper: Triangle<I>,
    scale: Vec<f64>,
}

impl<I: Index> Solved<I> {
    pub fn new(split: Split<I>, purpose: &Purpose) -> Result<Self> {
        let Split { lower, upper, scale } = split;
        let lower = Triangle::new(&lower, false, purpose.members)?;
        Ok(Self { lower, upper: Triangle::new(&upper, true, purpose.members)?, scale })
    }

    /// Levels of both.
    pub fn levels(&self) -> usize {
        self.lower.levels + self.upper.levels
    }
}

impl<I: Index> Apply for Solved<I> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let x = Values::of(to);
        // SAFETY: nobody writes `from` meanwhile (`Apply::apply`).
        let from = unsafe { from.slice(0, self.scale.len()) };
        self.lower.solve(me, x, |i| from[i]);
        // SAFETY: x_i is this member's to read and write in its stage.
        self.upper.solve(me, x, |i| self.scale[i] * unsafe { x.get(i) });
    }

    fn bytes(&self) -> usize {
        self.lower.bytes() + self.upper.bytes() + size_of_val(&*self.scale)
    }
}
