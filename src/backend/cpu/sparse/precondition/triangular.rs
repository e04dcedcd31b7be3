//! Triangular systems with unit diagonals by a team, level by level.

use super::apply::{Apply, WHAT};
use super::split::{Part, Split, kept};
use crate::backend::cpu::sparse::levels::by_levels;
use crate::backend::cpu::sparse::stages::{Order, Stages};
use crate::backend::cpu::sparse::values::Values;
use crate::error::{Result, reserve, zeroed};
use crate::runtime::number::Real;
use crate::runtime::shared::Shared;
use crate::runtime::team::Me;
use crate::sparse::{Csr, Index, accumulate};

/// M^-1 of a `Split`, to rounding.
pub struct Solved<I, V> {
    order: Order<I>,
    stages: Stages,
    /// Rows of the triangles in the order of work, by places.
    lower: Part<I, V>,
    upper: Part<I, V>,
    scale: Vec<f64>,
}

impl<I: Index, V: Real> Solved<I, V> {
    /// `split` has no entries but where A or A' has.
    pub fn new(a: &Csr<I>, split: Split<I>, members: usize) -> Result<Self> {
        let order = by_levels(a, members)?;
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
    fn solve(&self, me: &Me, t: &Part<I, V>, backward: bool, x: Values, first: impl Fn(usize) -> f64) {
        let units = &self.order.units;
        self.stages.run(
            me,
            backward,
            |unit| work(&self.lower, units[unit]),
            |unit| {
                let places = units[unit]..units[unit + 1];
                // SAFETY: members write only rows of this stage meanwhile, each those of its own units, and a row reads
                // no others of the stage: its columns are in its unit or in other levels, since levels are those of
                // A + A' (`Solved::new`). Joined levels are one member's.
                unsafe {
                    if backward {
                        places.rev().for_each(|place| self.row(t, place, x, &first));
                    } else {
                        places.for_each(|place| self.row(t, place, x, &first));
                    }
                }
            },
        );
    }

    /// The row at a place.
    ///
    /// # Safety
    /// Nobody may write x at its columns, or use x at its row, meanwhile.
    #[inline(always)]
    unsafe fn row(&self, t: &Part<I, V>, place: usize, x: Values, first: &impl Fn(usize) -> f64) {
        let i = self.order.rows[place].at();
        let entries = t.ptr[place]..t.ptr[place + 1];
        let (col, val) = (&t.col[entries.clone()], &t.val[entries]);
        // SAFETY: columns of a square matrix, seen to be inside when it was made, are rows, of which x has as many
        // (`apply`); not written, as our caller promised.
        let sum = col.iter().zip(val).fold(0.0, |sum, (j, t)| sum + t.wide() * unsafe { x.get(j.at()) });
        // SAFETY: a row, and used by nobody else, as our caller promised; `first` reads no other value of x than this.
        unsafe { x.set(i, first(i) - sum) };
    }
}

/// Rows and entries before a place.
fn work<I, V>(t: &Part<I, V>, place: usize) -> usize {
    place + t.ptr[place]
}

/// The rows in this order.
fn sorted<I: Index, V: Real>(t: Part<I>, order: &[I]) -> Result<Part<I, V>> {
    let mut ptr = zeroed(order.len() + 1, WHAT)?;
    for (place, row) in order.iter().enumerate() {
        ptr[place + 1] = t.ptr[row.at() + 1] - t.ptr[row.at()];
    }
    accumulate(&mut ptr);
    let entries = |row: &I| t.ptr[row.at()]..t.ptr[row.at() + 1];
    let mut col = Vec::new();
    reserve(&mut col, t.col.len(), WHAT)?;
    order.iter().for_each(|row| col.extend_from_slice(&t.col[entries(row)]));
    let val = kept(order.iter().flat_map(|row| t.val[entries(row)].iter().copied()), t.val.len())?;
    Ok(Part { ptr, col, val })
}

impl<I: Index, V: Real + Send + Sync> Apply for Solved<I, V> {
    fn apply(&self, me: &Me, from: &Shared, to: &Shared) {
        let x = Values::of(to);
        // What is written to, and read from, by row and column.
        assert_eq!(x.count(), self.scale.len());
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
